//! What a NodeMaintenance asks: its own rules and drain settings, and those of the MutexBindings that speak of it. Parsing
//! never fails as a whole: what is wrong becomes a reason to wait.

use super::{known::changes, node::is_references};
use crate::{
    admit::{
        approval::Wanted,
        domains::DomainOrder,
        gating::{self, Gating, NamedRule},
        not_ready::Policy,
        room::{Room, Words},
        schedule::Schedule,
        settings, strictest,
        wave::Wave,
        wave_rules,
    },
    binding,
    drain::DrainOptions,
    failures, intent,
    key::Key,
    ledger::is_kept,
    observed::{MaintenanceView, NodeView, Observed, RuleView},
    own_gate,
    owner::OwnerKind,
    quorum, suspended,
    why::Why,
};
use numo_api::{NodeMaintenanceSpec, Phase, Reason};

/// The phases in which a maintenance asks its rules.
pub(super) const PHASES: [Phase; 6] = binding::MAINTENANCE_PHASES;

/// What the maintenance asks, with every default filled in.
pub(super) struct Intent<'a> {
    pub(super) rules: Vec<(Key, Option<&'a RuleView>)>,
    pub(super) drain: DrainOptions,
    /// The field that says how the node is drained.
    pub(super) drain_field: String,
    /// When its node may begin, by its bindings.
    pub(super) schedule: Schedule<'a>,
    /// How long the node keeps its turn after its last rules (seconds).
    pub(super) soak_seconds: i64,
    /// What becomes of a node that is not Ready; without a binding that says so it is drained like any.
    pub(super) not_ready: Policy,
    /// Which nodes go before others.
    pub(super) waves: Vec<Wave>,
    /// In which order domains of nodes have their turns.
    pub(super) domains: Option<DomainOrder<'a>>,
    /// The rules of the wave that the node is in by now; none where no wave has rules.
    pub(super) wave_rules: Option<Vec<Key>>,
    /// What a person must approve.
    pub(super) approval: Wanted,
    /// How many maintenances may fail: each bound holds for those of its MutexBinding.
    pub(super) failure_budgets: Vec<failures::Bound<'a>>,
    /// The MutexBindings that speak of it.
    pub(super) settings: Vec<Gating<'a>>,
    pub(super) suspended: Option<Why>,
    /// What is wrong with its drain settings.
    pub(super) of_drain: Option<Why>,
    /// What is wrong with it.
    pub(super) problem: Option<Why>,
}

/// The MutexBindings that speak of a NodeMaintenance, in the order of their names.
pub(super) fn gatings<'a>(view: &MaintenanceView, observed: &'a Observed) -> Vec<Gating<'a>> {
    gating::bound(observed, view.owner.kind, "", &view.labels)
}

/// What a NodeMaintenance must pass: its own rules, then those of the MutexBindings that speak of it and those of the wave of its node,
/// each once and with the field that names it. The namespace of a rule is the operator's if none is given.
pub(super) fn named_rules<'a>(
    view: &MaintenanceView,
    all: &[Gating<'a>],
    observed: &'a Observed,
) -> Vec<NamedRule<'a>> {
    let namespace = &observed.settings.namespace;
    let own = view.spec.mutex_rules.iter().flatten().enumerate();
    let own = own.map(|(index, reference)| {
        let key = Key::referred(
            reference.name.as_deref(),
            reference.namespace.as_deref(),
            namespace,
        );
        (
            format!("spec.mutexRules[{index}]"),
            key.clone(),
            observed.rules.get(&key),
        )
    });
    let bound = gating::named_rules(all, observed);
    let mut rules: Vec<NamedRule<'_>> = Vec::new();
    for named in own.chain(bound).chain(rules_of_wave(view, all, observed)) {
        if !rules.iter().any(|(_, seen, _)| *seen == named.1) {
            rules.push(named);
        }
    }
    rules
}

/// The rules of the wave of the node: of that in which its turn began, or else of that which its labels say.
fn rules_of_wave<'a>(
    view: &MaintenanceView,
    all: &[Gating<'a>],
    observed: &'a Observed,
) -> Vec<NamedRule<'a>> {
    let named = |(field, key): (String, Key)| {
        let rule = observed.rules.get(&key);
        (field, key, rule)
    };
    let mut turns = changes(observed, &view.uid).filter(|change| change.in_flight());
    if let Some(kept) = turns.find_map(wave_rules::kept) {
        let kept = kept
            .into_iter()
            .map(|key| ("a wave of its MutexBindings".to_owned(), key));
        return kept.map(named).collect();
    }
    // The waves of maintenances select nodes by labels: nothing else is to be known for the rules of one.
    let node = observed.nodes.get(&view.spec.node_name);
    let waves = all.iter().filter_map(|one| one.waves().ok());
    let of_node = waves.filter_map(|waves| wave_rules::surely_in(node?, &waves).cloned());
    let rules = of_node.flat_map(|wave| {
        let rules = wave.rules.into_iter().enumerate();
        let field = wave.field;
        rules.map(move |(index, key)| (format!("{field}.rules[{index}]"), key))
    });
    rules.map(named).collect()
}

/// The rules that a NodeMaintenance must pass.
pub fn rules_of<'a>(view: &MaintenanceView, observed: &'a Observed) -> Vec<(Key, Option<&'a RuleView>)> {
    let rules = named_rules(view, &gatings(view, observed), observed).into_iter();
    rules.map(|(_, key, rule)| (key, rule)).collect()
}

/// What is wrong with the MutexBindings that speak of a maintenance, each by itself.
fn of_bindings(all: &[Gating<'_>], observed: &Observed) -> Option<Why> {
    let names = all.iter().filter_map(|one| one.binding);
    let mut bindings = names.filter_map(|name| Some((name, observed.bindings.get(name)?)));
    bindings.find_map(|(name, binding)| {
        let spec = &binding.spec;
        let invalid = binding::wrong_selector(spec).or_else(|| binding::wrong_limit(spec));
        let invalid = invalid.map(|problem| Why::new(Reason::InvalidField, problem));
        let why = invalid.or_else(|| binding::unserved(spec))?;
        Some(Why::new(
            why.reason,
            format!("MutexBinding {name} {}", why.message),
        ))
    })
}

/// The field by which a binding orders the maintenances that it speaks of, if it does.
pub(super) fn orders_by(one: &Gating<'_>) -> Option<&'static str> {
    let settings = one.settings;
    let fields = [
        (settings.waves.is_some(), "waves"),
        (settings.first.is_some(), "first"),
        (settings.domains.is_some(), "domains"),
    ];
    fields
        .into_iter()
        .find_map(|(is_given, name)| is_given.then_some(name))
}

/// That two MutexBindings order the maintenance among others. These could wait for each other for ever: each orders others, too.
fn ordered_twice(all: &[Gating<'_>]) -> Option<String> {
    let field = |one: &Gating<'_>| Some(format!("{}.{}", one.field, orders_by(one)?));
    let mut fields = all.iter().filter_map(field);
    let (first, second) = (fields.next()?, fields.next()?);
    Some(format!(
        "{second}: found it beside {first}, wanted one MutexBinding that orders a NodeMaintenance among others"
    ))
}

/// What becomes of a node that is not Ready. Without a binding that says so it is drained like any.
pub(super) fn of_not_ready(all: &[Gating<'_>]) -> Policy {
    let settings = || all.iter().map(|one| one.settings);
    let policy = || settings().find_map(|settings| settings.not_ready_policy);
    let leave_out_after =
        settings().map(|settings| (settings.not_ready_policy, settings.leave_out_after_seconds));
    Policy {
        // Who says what becomes of a node that is not Ready does not want it drained.
        takes: strictest::take_not_ready(all).unwrap_or_else(|| policy().is_none()),
        leave_out_after: intent::first_leave_out_after(leave_out_after),
    }
}

pub(super) fn parse<'a>(view: &'a MaintenanceView, observed: &'a Observed) -> Intent<'a> {
    let settings = gatings(view, observed);
    let rules = named_rules(view, &settings, observed);
    let of_rules = rules
        .iter()
        .find_map(|(field, key, rule)| crate::rules::wrong(field, key, *rule, (&PHASES, "NodeMaintenance")));
    let drain = strictest::drain(view.spec.drain.as_ref(), &settings);
    let of_drain = drain
        .problem
        .map(|problem| Why::new(Reason::InvalidField, problem));
    let mut invalid = None;
    let mut wrong = |problem: String| {
        invalid.get_or_insert(Why::new(Reason::InvalidField, problem));
    };
    let schedule = schedule_of(view, &settings, observed).unwrap_or_else(|problem| {
        wrong(problem);
        Schedule::default()
    });
    let mut said = settings::together(&settings, &mut wrong);
    if let Some(problem) = ordered_twice(&settings) {
        wrong(problem);
    }
    if is_drained_already(view, observed) {
        // What is drained already waits for nobody.
        (said.waves, said.domains, said.approval) = (Vec::new(), None, Wanted::default());
        said.failure_budgets = Vec::new();
    }
    let suspended = suspended::stopped(observed, &view.owner, view.into());
    let not_ready = of_not_ready(&settings);
    let node = observed.nodes.get(&view.spec.node_name);
    let wave = node.and_then(|node| wave_rules::surely_in(node, &said.waves));
    let has_rules = said.waves.iter().any(|wave| !wave.rules.is_empty());
    let of_wave = || wave.map(|wave| wave.rules.clone()).unwrap_or_default();
    let wave_rules = has_rules.then(of_wave);
    let problem = of_bindings(&settings, observed);
    Intent {
        drain: drain.options,
        drain_field: drain.field,
        schedule,
        // One that has ended is gone: the soak of a wave is that of the last turn in it.
        soak_seconds: wave.map_or(0, |wave| wave.soak_seconds).max(said.soak_seconds),
        not_ready,
        wave_rules,
        waves: said.waves,
        domains: said.domains,
        approval: said.approval,
        failure_budgets: said.failure_budgets,
        rules: crate::rules::of_turn(rules.into_iter().map(|(_, key, rule)| (key, rule)), view.deleting),
        suspended,
        problem: problem
            .or_else(|| of_drain.clone())
            .or(invalid)
            .or(of_rules)
            .or_else(|| own_gate::lost(&view.owner, view.into())),
        of_drain,
        settings,
    }
}

/// Whether node-maintenance-operator has drained the node for this very object: it is kept so, and not begun anew.
fn is_drained_already(view: &MaintenanceView, observed: &Observed) -> bool {
    let node = observed.nodes.get(&view.spec.node_name);
    node.is_some_and(|node| node.unschedulable) && is_adopted(view, observed)
}

/// Whether the node is as node-maintenance-operator left it for this very object.
pub(super) fn is_adopted(view: &MaintenanceView, observed: &Observed) -> bool {
    let node = observed.nodes.get(&view.spec.node_name);
    let OwnerKind::NodeMaintenance(group) = view.owner.kind else {
        return false;
    };
    node.is_some_and(|node| is_references(node, group, view, observed))
}

/// When the node of a maintenance may begin.
///
/// Errors: the field, what was found and what is wanted.
///
/// A node that node-maintenance-operator has drained for this very object is kept so: it is not begun anew.
pub fn schedule<'a>(view: &'a MaintenanceView, observed: &'a Observed) -> Result<Schedule<'a>, String> {
    schedule_of(view, &gatings(view, observed), observed)
}

fn schedule_of<'a>(
    view: &MaintenanceView,
    all: &[Gating<'a>],
    observed: &'a Observed,
) -> Result<Schedule<'a>, String> {
    if is_drained_already(view, observed) {
        return Ok(Schedule::exempt());
    }
    gating::schedule(all)
}

impl Intent<'_> {
    /// Whether the operator that numo replaces is live.
    pub(super) fn is_stood_off(&self) -> bool {
        let why = self.suspended.as_ref();
        why.is_some_and(|why| why.reason == Reason::ForeignController)
    }
}

/// Why a MutexBinding that speaks of this maintenance has no room for the node: as many are in maintenance as it allows, or one that
/// is not to be so together with this one.
pub(super) fn no_room(
    all: &[Gating<'_>],
    observed: &Observed,
    node: &NodeView,
    now: jiff::Timestamp,
) -> Option<Why> {
    all.iter().find_map(|one| {
        let field = format!("{}.maxUnavailable", one.field);
        let limit = one.settings.max_unavailable.as_ref().map(intent::parse_limit);
        let limit = match limit {
            None => usize::MAX,
            Some(Ok(limit)) => limit.of(observed.nodes.len()),
            Some(Err(problem)) => {
                return Some(Why::new(Reason::InvalidField, format!("{field}: {problem}")));
            }
        };
        let words = Words {
            state: "in maintenance",
            whose: String::new(),
            limit: field,
            keys: format!("{}.mutexKeys", one.field),
        };
        let keys = one.settings.mutex_keys.iter().flatten();
        let mut room = Room::of(limit, keys, words).closed_by(one.closed());
        for other in of_binding(observed, one.binding?) {
            let turn = changes(observed, &other.uid).find(|change| change.in_flight());
            // The spec may name another node by now.
            let node = turn.and_then(|turn| observed.nodes.get(&turn.spec.node_name));
            if let Some((turn, node)) = turn.zip(node) {
                room.keep(node, is_kept(observed, turn, now));
            }
        }
        room.refusal(node)
    })
}

/// The maintenances that a MutexBinding speaks of.
pub(super) fn of_binding<'a>(
    observed: &'a Observed,
    name: &str,
) -> impl Iterator<Item = &'a MaintenanceView> + use<'a> {
    let binding = observed.bindings.get(name).into_iter();
    binding.flat_map(|binding| {
        let all = observed.maintenances.values();
        all.filter(|view| binding::speaks_of(&binding.spec, view.owner.kind, "", &view.labels))
    })
}

/// Why a MutexBinding that speaks of this maintenance has no further one begun: as many of its maintenances have failed as it allows.
pub(super) fn spent(bounds: &[failures::Bound<'_>], observed: &Observed) -> Option<Why> {
    bounds.iter().find_map(|bound| {
        let of_binding = of_binding(observed, bound.binding?);
        let journals = of_binding.flat_map(|view| changes(observed, &view.uid));
        let failed = failures::failed(observed, journals);
        let or = ", deleting its NodeMaintenance gives it up";
        bound
            .of(observed.nodes.len())
            .spent(&failures::names(&failed), None, or)
    })
}

/// Why a NodeMaintenance is not admitted, in the words of the reference's webhook and in its order; none if it is.
/// `observed` needs the nodes, maintenances, NodeChanges, budgets of etcd and its pods, and what tells OpenShift, only.
pub fn inadmissible(observed: &Observed, spec: &NodeMaintenanceSpec) -> Option<String> {
    let name = &spec.node_name;
    let Some(node) = observed.nodes.get(name) else {
        return Some(format!("invalid nodeName, no node with name {name} found"));
    };
    // Also one of the same name: the API server asks before it sees that the object exists.
    let mut others = observed.maintenances.values();
    if others.any(|other| other.spec.node_name == *name) {
        return Some(format!(
            "invalid nodeName, a NodeMaintenance for node {name} already exists"
        ));
    }
    if let Some(why) = quorum::refusal(observed, node) {
        return Some(why.message.to_string());
    }
    invalid(spec)
}

/// What is wrong with the spec whatever the cluster looks like.
pub fn invalid(spec: &NodeMaintenanceSpec) -> Option<String> {
    strictest::wrong_drain("spec.drain", spec.drain.as_ref()?)
}
