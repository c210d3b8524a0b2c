//! MutexBindings: which owners one speaks of, and what is wrong with it. One place for all kinds of owners; nothing here
//! reads or writes anything.
//!
//! A binding that cannot be understood speaks of every owner that it may mean, and holds them: no owner goes ungated
//! because of a slip of the pen.

use crate::{
    admit::{
        approval::Wanted,
        domains::DomainOrder,
        schedule::Schedule,
        wave::{self, Wave, Whose},
    },
    drain::DrainOptions,
    intent,
    key::Key,
    names,
    observed::{BindingView, Map, NodeView, Observed},
    owner::{Means, Owner, OwnerKind},
    selector,
    text::{clip, counted},
    why::Why,
};
use numo_api::{
    ApprovalPolicy, ApprovalSettings, DrainBy, DrainSettings, MutexBindingSpec, MutexSettings, Phase, Reason,
    mutex_binding::{GATED_KINDS, groups_of},
    mutex_run_config::NotReadyPolicy,
};
use std::fmt::Write as _;

/// The phases in which the nodes of a Plan ask their rules.
pub const PLAN_PHASES: [Phase; 6] = [
    Phase::Admit,
    Phase::Pre,
    Phase::PreRelease,
    Phase::BeforeUncordon,
    Phase::Post,
    Phase::OnFailure,
];
/// The phases in which a NodeMaintenance asks its rules.
pub const MAINTENANCE_PHASES: [Phase; 6] = PLAN_PHASES;

/// The phases in which the nodes of a NodeVersion ask their rules: none is asked before an uncordon, as the node that was cordoned is gone.
pub const VERSION_PHASES: [Phase; 5] = [
    Phase::Admit,
    Phase::Pre,
    Phase::PreRelease,
    Phase::Post,
    Phase::OnFailure,
];

/// The kind that a binding means, also where it is written as kubectl takes it (`plans`) or in other case. None for a
/// kind that no binding gates.
pub fn kind_meant(spec: &MutexBindingSpec) -> Option<&'static str> {
    let given = spec.owner_selector.kind.trim().to_lowercase();
    let word = given.split('.').next().unwrap_or_default();
    GATED_KINDS.into_iter().find(|kind| {
        let kind = kind.to_lowercase();
        word == kind || word.strip_suffix('s') == Some(kind.as_str())
    })
}

/// What changes the nodes of the owners that a binding speaks of. None where no binding gates the kind that it names.
fn means(spec: &MutexBindingSpec) -> Option<Means> {
    let meant = kind_meant(spec)?;
    let mut all = OwnerKind::ALL.into_iter();
    all.find(|kind| kind.name() == meant).map(OwnerKind::means)
}

/// Whether the group that a binding names, if it does, is that of the owner. One that cannot be meant is of all that have the kind.
fn is_of_group(spec: &MutexBindingSpec, kind: OwnerKind) -> bool {
    let Some(given) = spec.owner_selector.api_group.as_deref() else {
        return true;
    };
    let can_be_meant = groups_of(kind.name()).contains(&given);
    !can_be_meant || kind.api_version().split('/').next() == Some(given)
}

/// Whether a binding speaks of the owner of this kind, namespace (empty for none) and labels.
pub fn speaks_of(spec: &MutexBindingSpec, kind: OwnerKind, namespace: &str, labels: &Map) -> bool {
    let owners = &spec.owner_selector;
    let in_namespace = || {
        let named = owners.namespaces.as_ref();
        namespace.is_empty() || named.is_none_or(|named| named.iter().any(|one| one == namespace))
    };
    let selector = owners.labels.as_ref();
    let selector = selector.map(|labels| serde_json::to_value(labels).unwrap_or_default());
    kind_meant(spec) == Some(kind.name())
        && is_of_group(spec, kind)
        && in_namespace()
        && selector.is_none_or(|selector| {
            selector::wrong(&selector).is_some() || selector::matches(&selector, labels)
        })
}

/// What keeps the owner selector from being understood: field, found, wanted.
pub fn wrong_selector(spec: &MutexBindingSpec) -> Option<String> {
    let owners = &spec.owner_selector;
    if !GATED_KINDS.contains(&owners.kind.as_str()) {
        return Some(format!(
            "spec.ownerSelector.kind: found {:?}, wanted {} (a MutexRunConfig names its rules itself)",
            owners.kind,
            GATED_KINDS.join(" or ")
        ));
    }
    let groups = groups_of(&owners.kind);
    if let Some(given) = &owners.api_group
        && !groups.contains(&given.as_str())
    {
        return Some(format!(
            "spec.ownerSelector.apiGroup: found {given:?} with kind {}, wanted {} or none",
            owners.kind,
            groups.join(", ")
        ));
    }
    let mut all = OwnerKind::ALL.into_iter();
    let is_namespaced = all.any(|kind| kind.name() == owners.kind && kind.is_namespaced());
    if !is_namespaced && owners.namespaces.is_some() {
        return Some(format!(
            "spec.ownerSelector.namespaces: found some, wanted none: a {} is in no namespace",
            owners.kind
        ));
    }
    selector::problem("spec.ownerSelector.labels", owners.labels.as_ref())
}

/// A field that means nothing for the kind of owner that a binding speaks of: field, found, wanted. It is refused, as whoever wrote it
/// counts on it.
pub fn unserved(spec: &MutexBindingSpec) -> Option<Why> {
    let settings = &spec.settings;
    let problem = match means(spec)? {
        Means::Person => unserved_by_maintenance(settings),
        Means::Machine => unserved_by_version("spec", settings),
        Means::Job => unserved_by_plan("spec", settings),
        Means::MachineConfig => None,
    }?;
    Some(Why::new(Reason::FieldNotServed, problem))
}

fn unserved_by_maintenance(settings: &MutexSettings) -> Option<String> {
    let counted = || {
        let mut waves = settings.waves.iter().flatten();
        let index = waves.position(|wave| wave.nodes.is_some())?;
        Some(format!(
            "spec.waves[{index}].nodes: found some, wanted nodeSelector: a NodeMaintenance that has ended is gone, and nobody knows how many were before"
        ))
    };
    let order = || {
        let order = settings.order?;
        Some(format!(
            "spec.order: found {order:?}, wanted none: a NodeMaintenance has one node, and begins as soon as it may"
        ))
    };
    let retries = || {
        let retries = settings.retries.filter(|retries| *retries != 0)?;
        Some(format!(
            "spec.retries: found {retries}, wanted none: a NodeMaintenance has no Job that could be tried again (a rule has retries of its own)"
        ))
    };
    let drain_by = || {
        let found = settings.drain_by.filter(|by| *by != DrainBy::Numo)?;
        Some(format!(
            "spec.drainBy: found {found:?}, wanted Numo or none: a NodeMaintenance has no Job, and numo drains its node"
        ))
    };
    counted().or_else(order).or_else(retries).or_else(drain_by)
}

/// A setting that means nothing for a NodeVersion, with `field` in front of it: found, wanted.
pub(crate) fn unserved_by_version(field: &str, settings: &MutexSettings) -> Option<String> {
    if let Some(retries) = settings.retries.filter(|retries| *retries != 0) {
        return Some(format!(
            "{field}.retries: found {retries}, wanted none: a NodeVersion has no Job that could be tried again (spec.joinRetries are \
             of machines that do not join, and a rule has retries of its own)"
        ));
    }
    let found = settings.drain_by.filter(|by| *by == DrainBy::Job)?;
    Some(format!(
        "{field}.drainBy: found {found:?}, wanted Numo, NodeMaintenance or none: a NodeVersion has no Job"
    ))
}

/// A setting that means nothing for a Plan, with `field` in front of it: found, wanted.
pub(crate) fn unserved_by_plan(field: &str, settings: &MutexSettings) -> Option<String> {
    let found = settings.drain_by.filter(|by| *by == DrainBy::NodeMaintenance)?;
    Some(format!(
        "{field}.drainBy: found {found:?}, wanted Job, Numo or none: only nodes of a NodeVersion are drained so"
    ))
}

/// What is wrong with a limit of a binding: field, found, wanted.
pub fn wrong_limit(spec: &MutexBindingSpec) -> Option<String> {
    let settings = &spec.settings;
    let limits = [
        ("maxUnavailable", &settings.max_unavailable),
        ("failureBudget", &settings.failure_budget),
    ];
    limits.into_iter().find_map(|(field, limit)| {
        let problem = intent::parse_limit(limit.as_ref()?).err()?;
        Some(format!("spec.{field}: {problem}"))
    })
}

/// What is wrong with a binding: it cannot be understood, or a rule of it cannot be asked.
pub fn wrong(view: &BindingView, observed: &Observed) -> Option<Why> {
    let spec = &view.spec;
    let settings = &spec.settings;
    let invalid = || {
        let limit = || wrong_limit(spec);
        let keys = || names::wrong_label_keys("spec.mutexKeys", settings.mutex_keys.iter().flatten());
        let first = || selector::problem("spec.first", settings.first.as_ref());
        let waves = || waves(spec, observed).err();
        let drain = || {
            let problem = DrainOptions::problem(spec.drain.as_ref()?)?;
            Some(format!("spec.drain.{problem}"))
        };
        let hours = || {
            let mut schedule = Schedule::default();
            let added = schedule.add("spec", view.hours.as_ref(), settings.start_after.as_deref());
            let never = || {
                let hours = view.hours.as_ref()?.as_ref().ok()?;
                let problem = "spec.window.openings: found none that ever comes, wanted one that does";
                hours.never_open().then(|| problem.to_owned())
            };
            added.err().or_else(never)
        };
        let approval = || Wanted::default().add("spec", settings.approval.as_ref()).err();
        let domains = || DomainOrder::parse("spec.domains", settings.domains.as_ref()?).err();
        let wrong = wrong_selector(spec).or_else(limit).or_else(keys);
        let wrong = wrong.or_else(first).or_else(waves);
        wrong
            .or_else(domains)
            .or_else(approval)
            .or_else(drain)
            .or_else(hours)
    };
    if let Some(problem) = invalid() {
        return Some(Why::new(Reason::InvalidField, problem));
    }
    if let Some(why) = unserved(spec) {
        return Some(why);
    }
    let kind = kind_meant(spec)?;
    let phases: &[Phase] = match means(spec)? {
        Means::Job => &PLAN_PHASES,
        Means::Machine => &VERSION_PHASES,
        Means::Person => &MAINTENANCE_PHASES,
        // No binding speaks of these.
        Means::MachineConfig => &[],
    };
    let rules = settings.rules.iter().flatten().enumerate();
    let of_all = rules.into_iter().find_map(|(index, reference)| {
        let namespace = &observed.settings.namespace;
        let key = Key::referred(
            reference.name.as_deref(),
            reference.namespace.as_deref(),
            namespace,
        );
        let field = format!("spec.rules[{index}]");
        crate::rules::wrong(&field, &key, observed.rules.get(&key), (phases, kind))
    });
    of_all.or_else(|| wave::wrong_rule(&waves(spec, observed).ok()?, observed, (phases, kind)))
}

/// The waves that a binding gives its owners.
///
/// Errors: the field, what was found and what is wanted.
fn waves(spec: &MutexBindingSpec, observed: &Observed) -> Result<Vec<Wave>, String> {
    let whose = Whose {
        field: "spec",
        namespace: &observed.settings.namespace,
        has_first: spec.settings.first.is_some(),
        has_pools: false,
    };
    wave::parse(whose, spec.settings.waves.as_deref())
}

/// The owners that a binding speaks of, in order.
pub fn owners_of(spec: &MutexBindingSpec, observed: &Observed) -> Vec<Owner> {
    let all = observed.owners();
    let meant = all.filter(|(owner, view)| {
        let labels = view.labels;
        labels.is_some_and(|labels| speaks_of(spec, owner.kind, &owner.key.namespace, labels))
    });
    meant.map(|(owner, _)| owner).collect()
}

/// Whether what gates owners has neither a rule nor a setting.
pub(crate) fn asks_nothing(settings: &MutexSettings) -> bool {
    let nothing = MutexSettings {
        rules: settings.rules.as_ref().map(|_| Vec::new()),
        ..MutexSettings::default()
    };
    *settings == nothing
}

/// Whether nothing of a binding changes what becomes of a node: what is empty is nothing, and so is what holds where nothing is given.
/// Its definition refuses the same.
fn gates_nothing(spec: &MutexBindingSpec) -> bool {
    let means = means(spec);
    // Without a word on it, nodes in maintenance need not be Ready.
    let takes_not_ready = means == Some(Means::Person);
    let drained_by = if means == Some(Means::Job) {
        DrainBy::Numo
    } else {
        DrainBy::NodeMaintenance
    };
    let is_manual =
        |given: &ApprovalSettings| [given.begin, given.after_failure].contains(&Some(ApprovalPolicy::Manual));
    let mut asked = spec.settings.clone();
    asked.mutex_keys = asked.mutex_keys.filter(|keys| !keys.is_empty());
    asked.soak_seconds = asked.soak_seconds.filter(|seconds| *seconds > 0);
    let first = serde_json::to_value(&asked.first).unwrap_or_default();
    asked.first = asked.first.filter(|_| !selector::is_empty(&first));
    asked.approval = asked.approval.filter(is_manual);
    asked.take_not_ready = asked.take_not_ready.filter(|takes| *takes != takes_not_ready);
    let policy = asked.not_ready_policy;
    asked.not_ready_policy = policy.filter(|policy| *policy != NotReadyPolicy::Wait || takes_not_ready);
    // It says nothing without that policy.
    asked.leave_out_after_seconds = None;
    asked.retries = asked.retries.filter(|retries| *retries > 0);
    asked.drain_by = asked.drain_by.filter(|by| *by == drained_by);
    let drain = spec.drain.as_ref();
    asks_nothing(&asked) && drain.is_none_or(|drain| *drain == DrainSettings::default())
}

/// What selects no node of the cluster, in sentences. Owners of several nodes say it of their own; NodeMaintenances have one each.
fn of_nobody(view: &BindingView, observed: &Observed) -> String {
    if means(&view.spec) != Some(Means::Person) || observed.nodes.is_empty() {
        return String::new();
    }
    let waves = waves(&view.spec, observed).unwrap_or_default();
    let mut said = String::new();
    for wave in waves {
        let mut nodes = observed.nodes.values();
        if !nodes.any(|node| wave.may_take(&node.labels)) {
            let _ = write!(
                said,
                " {} selects no Node of the cluster: nobody waits for it.",
                wave.field
            );
        }
    }
    let has_any = |is_it: &dyn Fn(&NodeView) -> bool| observed.nodes.values().any(is_it);
    let settings = &view.spec.settings;
    let first = settings.first.as_ref();
    let first = first.and_then(|first| serde_json::to_value(first).ok());
    if first.is_some_and(|first| !has_any(&|node| selector::matches(&first, &node.labels))) {
        said.push_str(" spec.first selects no Node of the cluster: no node goes first.");
    }
    for key in settings.mutex_keys.iter().flatten() {
        if !has_any(&|node| node.labels.contains_key(key)) {
            let key = clip(key, 100);
            let _ = write!(
                said,
                " spec.mutexKeys: no Node of the cluster has the label {key:?}: it keeps no two of them apart."
            );
        }
    }
    said
}

/// Whether a binding gates, what a person should know of it (why it does not gate, or `ValidConfig`), and the owners that it speaks of.
pub fn state(view: &BindingView, observed: &Observed) -> (bool, Why, Vec<Owner>) {
    let owners = owners_of(&view.spec, observed);
    if let Some(why) = wrong(view, observed) {
        return (false, why, owners);
    }
    let kind = &view.spec.owner_selector.kind;
    let number = counted(owners.len(), kind);
    let (is_ready, reason, message) = if owners.is_empty() {
        let message =
            format!("found no {kind} that spec.ownerSelector selects; one that comes later is gated");
        (true, Reason::NoOwners, message)
    } else if gates_nothing(&view.spec) {
        let message = format!(
            "spec selects {number} and has neither rules nor a setting that changes anything; wanted rules, or a setting such as \
             maxUnavailable"
        );
        (false, Reason::NothingGated, message)
    } else {
        let message = format!("The binding gates {number}.{}", of_nobody(view, observed));
        (true, Reason::ValidConfig, message)
    };
    (is_ready, Why::new(reason, message), owners)
}
