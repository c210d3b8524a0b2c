//! What a NodeMaintenance asks: its own rules and drain settings, and those of the MutexBindings that speak of it. Parsing
//! never fails as a whole: what is wrong becomes a reason to wait.

use super::{known::changes, node::is_references};
use crate::{
    admit::{
        room::{Room, Words},
        schedule::Schedule,
    },
    binding,
    drain::DrainOptions,
    failures, intent,
    key::Key,
    ledger::{self, is_kept},
    observed::{BindingView, ForeignController, MaintenanceView, NodeView, Observed, RuleView},
    owner::OwnerKind,
    quorum, suspended,
    why::Why,
};
use numo_api::{DrainSettings, MutexBindingSpec, NodeMaintenanceSpec, Phase, Reason};

/// The phases in which a maintenance asks its rules.
pub(super) const PHASES: [Phase; 6] = binding::MAINTENANCE_PHASES;

/// What the maintenance asks, with every default filled in.
pub(super) struct Intent<'a> {
    pub(super) rules: Vec<(Key, Option<&'a RuleView>)>,
    pub(super) drain: DrainOptions,
    /// When its node may begin, by its bindings.
    pub(super) schedule: Schedule<'a>,
    /// How long the node keeps its turn after its last rules (seconds).
    pub(super) soak_seconds: i64,
    /// Whether a node that is not Ready waits; without a binding that says so it is drained like any.
    pub(super) awaits_ready: bool,
    /// After how long a node that waits to be Ready is left out (seconds); none if it is waited for.
    pub(super) leave_out_after: Option<i64>,
    pub(super) suspended: Option<Why>,
    /// What is wrong with its drain settings.
    pub(super) of_drain: Option<Why>,
    /// What is wrong with it.
    pub(super) problem: Option<Why>,
}

/// The MutexBindings that speak of a NodeMaintenance, in the order of their names.
pub(super) fn bindings<'a>(
    view: &MaintenanceView,
    observed: &'a Observed,
) -> impl Iterator<Item = (&'a String, &'a MutexBindingSpec)> {
    binding_views(view, observed).map(|(name, binding)| (name, &binding.spec))
}

fn binding_views<'a>(
    view: &MaintenanceView,
    observed: &'a Observed,
) -> impl Iterator<Item = (&'a String, &'a BindingView)> {
    let (labels, kind) = (view.labels.clone(), view.owner.kind);
    let all = observed.bindings.iter();
    all.filter(move |(_, binding)| binding::speaks_of(&binding.spec, kind, "", &labels))
}

/// What a NodeMaintenance must pass: its own rules, then those of the MutexBindings that speak of it, each once and
/// with the field that names it. The namespace of a rule is the operator's if none is given.
pub(super) fn named_rules<'a>(
    view: &MaintenanceView,
    observed: &'a Observed,
) -> Vec<(String, Key, Option<&'a RuleView>)> {
    let own = view.spec.mutex_rules.iter().flatten().enumerate();
    let own = own.map(|(index, reference)| (format!("spec.mutexRules[{index}]"), reference.clone()));
    let bound = bindings(view, observed).flat_map(|(name, binding)| {
        let rules = binding.settings.rules.iter().flatten().enumerate();
        rules.map(move |(index, reference)| {
            (
                format!("MutexBinding {name} spec.rules[{index}]"),
                reference.clone(),
            )
        })
    });
    let mut rules: Vec<(String, Key, Option<&RuleView>)> = Vec::new();
    for (field, reference) in own.chain(bound) {
        let namespace = &observed.settings.namespace;
        let key = Key::referred(
            reference.name.as_deref(),
            reference.namespace.as_deref(),
            namespace,
        );
        if !rules.iter().any(|(_, seen, _)| *seen == key) {
            let rule = observed.rules.get(&key);
            rules.push((field, key, rule));
        }
    }
    rules
}

/// The rules that a NodeMaintenance must pass.
pub fn rules_of<'a>(view: &MaintenanceView, observed: &'a Observed) -> Vec<(Key, Option<&'a RuleView>)> {
    let rules = named_rules(view, observed).into_iter();
    rules.map(|(_, key, rule)| (key, rule)).collect()
}

/// Its drain settings, or else those of the first binding that has some, and what is wrong with them.
fn drain_of<'a>(
    view: &'a MaintenanceView,
    observed: &'a Observed,
) -> (Option<Why>, Option<&'a DrainSettings>) {
    let bound = || bindings(view, observed).find_map(|(name, binding)| Some((name, binding.drain.as_ref()?)));
    let (of_drain, drain) = match (&view.spec.drain, bound()) {
        (Some(drain), _) => (invalid(&view.spec), Some(drain)),
        (None, Some((name, drain))) => {
            let problem = DrainOptions::problem(drain);
            (
                problem.map(|problem| format!("MutexBinding {name} spec.drain.{problem}")),
                Some(drain),
            )
        }
        (None, None) => (None, None),
    };
    let of_drain = of_drain.map(|problem| Why::new(Reason::InvalidField, problem));
    (of_drain, drain)
}

pub(super) fn parse<'a>(view: &MaintenanceView, observed: &'a Observed) -> Intent<'a> {
    let rules = named_rules(view, observed);
    let of_rules = rules
        .iter()
        .find_map(|(field, key, rule)| crate::rules::wrong(field, key, *rule, (&PHASES, "NodeMaintenance")));
    let (of_drain, drain) = drain_of(view, observed);
    let of_binding = bindings(view, observed).find_map(|(name, binding)| {
        let invalid = binding::wrong_selector(binding).or_else(|| binding::wrong_limit(binding));
        let invalid = invalid.map(|problem| Why::new(Reason::InvalidField, problem));
        let why = invalid.or_else(|| binding::unserved(binding))?;
        Some(Why::new(
            why.reason,
            format!("MutexBinding {name} {}", why.message),
        ))
    });
    let (schedule, of_hours) = match schedule(view, observed) {
        Ok(schedule) => (schedule, None),
        Err(problem) => (Schedule::default(), Some(Why::new(Reason::InvalidField, problem))),
    };
    let suspended = observed
        .stood_off(ForeignController::NodeMaintenance)
        .or_else(|| suspended::of_maintenance(view))
        .or_else(|| observed.list_failed(view.owner.kind));
    let pruned = view.pruned.map(|field| {
        let message = format!(
            "spec.{field} is in the manifest that kubectl apply remembers and not in the object: the CRD of another operator drops it, or somebody took it away; put it back, or apply the manifest without it (a MutexBinding gates as well)"
        );
        Why::new(Reason::GateLost, message)
    });
    let settings = || bindings(view, observed).map(|(_, binding)| &binding.settings);
    let policy = || settings().find_map(|settings| settings.not_ready_policy);
    let take_not_ready = settings().find_map(|settings| settings.take_not_ready);
    let soaks = settings().filter_map(|settings| settings.soak_seconds);
    Intent {
        drain: DrainOptions::of(drain),
        schedule,
        soak_seconds: soaks.max().unwrap_or(0),
        // Who says what becomes of a node that is not Ready does not want it drained.
        awaits_ready: take_not_ready.map_or_else(|| policy().is_some(), |takes| !takes),
        leave_out_after: settings().find_map(|settings| {
            intent::leave_out_after(settings.not_ready_policy, settings.leave_out_after_seconds)
        }),
        rules: rules.into_iter().map(|(_, key, rule)| (key, rule)).collect(),
        suspended,
        problem: of_binding
            .or_else(|| of_drain.clone())
            .or(of_hours)
            .or(of_rules)
            .or(pruned),
        of_drain,
    }
}

/// When the node of a maintenance may begin.
///
/// Errors: the field, what was found and what is wanted.
///
/// A node that node-maintenance-operator has drained for this very object is kept so: it is not begun anew.
pub fn schedule<'a>(view: &MaintenanceView, observed: &'a Observed) -> Result<Schedule<'a>, String> {
    let mut schedule = Schedule::default();
    let node = observed.nodes.get(&view.spec.node_name);
    if let (Some(node), OwnerKind::NodeMaintenance(group)) = (node, view.owner.kind)
        && is_references(node, group, view, observed)
    {
        return Ok(Schedule::exempt());
    }
    for (name, binding) in binding_views(view, observed) {
        let start_after = binding.spec.settings.start_after.as_deref();
        schedule.add(
            &format!("MutexBinding {name} spec"),
            binding.hours.as_ref(),
            start_after,
        )?;
    }
    Ok(schedule)
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
    view: &MaintenanceView,
    observed: &Observed,
    node: &NodeView,
    now: jiff::Timestamp,
) -> Option<Why> {
    bindings(view, observed).find_map(|(name, binding)| {
        let limit = binding.settings.max_unavailable.as_ref().map(intent::parse_limit);
        let field = format!("MutexBinding {name} spec.maxUnavailable");
        let closed =
            |limit| ledger::closed_by_zero(limit, &field, &format!("kubectl edit mutexbinding {name}"));
        let (limit, closed) = match limit {
            None => (usize::MAX, None),
            Some(Ok(limit)) => (limit.of(observed.nodes.len()), closed(limit)),
            Some(Err(problem)) => {
                return Some(Why::new(Reason::InvalidField, format!("{field}: {problem}")));
            }
        };
        let words = Words {
            state: "in maintenance",
            whose: String::new(),
            limit: field,
            keys: format!("MutexBinding {name} spec.mutexKeys"),
        };
        let keys = binding.settings.mutex_keys.iter().flatten();
        let mut room = Room::of(limit, keys, words).closed_by(closed);
        for other in of_binding(observed, name) {
            let turn = changes(observed, &other.uid).find(|change| change.in_flight());
            let node = observed.nodes.get(&other.spec.node_name);
            if let Some((turn, node)) = turn.zip(node) {
                room.keep(node, is_kept(observed, turn, now));
            }
        }
        room.refusal(node)
    })
}

/// The maintenances that a MutexBinding speaks of, with the journals of each.
fn of_binding<'a>(observed: &'a Observed, name: &'a str) -> impl Iterator<Item = &'a MaintenanceView> {
    let all = observed.maintenances.values();
    all.filter(move |view| bindings(view, observed).any(|(of_other, _)| of_other == name))
}

/// Why a MutexBinding that speaks of this maintenance has no further one begun: as many of its maintenances have failed as it allows.
pub(super) fn spent(view: &MaintenanceView, observed: &Observed) -> Option<Why> {
    bindings(view, observed).find_map(|(name, binding)| {
        let budget = intent::parse_limit(binding.settings.failure_budget.as_ref()?).ok()?;
        let budget = budget.of(observed.nodes.len()).max(1);
        let journals = of_binding(observed, name).flat_map(|view| changes(observed, &view.uid));
        let failed = failures::failed(observed, journals);
        let field = format!("MutexBinding {name} spec.failureBudget");
        let budget = failures::Budget {
            field: &field,
            most: budget,
            whose: "",
        };
        budget.spent(
            &failures::names(&failed),
            "; `numo retry NODE` tries one again, and deleting its NodeMaintenance gives it up",
        )
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
    let problem = DrainOptions::problem(spec.drain.as_ref()?)?;
    Some(format!("spec.drain.{problem}"))
}
