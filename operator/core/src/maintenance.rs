//! The decision for one NodeMaintenance: its node is cordoned and drained, kept so while the object exists, and put
//! back as it was when it is deleted. Nothing here reads or writes anything.
//!
//! Order of a pass: what is held of nodes that are gone is given back; then either everything is given back, or the
//! node is taken one step further: finalizer, turn (NodeChange), lease and shield, rules, cordon, drain. Behaviour and
//! words as in node-maintenance-operator (`spec/node-maintenance.md` §2); what is otherwise is in the table of
//! deviations in ARCHITECTURE.md.

use crate::{
    action::{Action, Change, Event, EventAction, NodePatch, NodePurpose, Planned},
    decide::{self, Decision, Journal, Snapshot, lease_holder},
    drain::{self, DrainOptions},
    intent,
    ledger::{self, Ledger},
    mark::{self, CordonedBy},
    names,
    observed::{ChangeView, Key, LeaseView, MaintenanceView, NodeView, Observed, RuleView, Validity},
    owner::{MaintenanceGroup, Owner, OwnerKind},
    pools, quorum,
    report::{MaintenancePhase, MaintenanceReport, NodeReport, RunPhase, Why},
    rules::{self, Progress, Subject, later},
    verdict::{Answers, Question},
};
use jiff::Timestamp;
use numo_api::{
    DirectiveAction, MutexBindingSpec, NodeChangeSpec, NodeMaintenanceSpec, Outcome, OwnerRef, Phase, Reason,
    RunResult, Step, Target, marks, marks::openshift,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The phases in which a maintenance asks its rules.
const PHASES: [Phase; 4] = [Phase::Pre, Phase::PreRelease, Phase::BeforeUncordon, Phase::Post];
/// How often somebody's uncordoning is corrected before it is left to people.
pub const MAX_CORRECTIONS: u32 = 3;
/// How often a lease that was ours may be found with another before the maintenance is given up
/// (`spec/node-maintenance.md` §2).
const MAX_LEASE_ERRORS: i64 = 3;
/// How far ahead the renewal of a lease may be before nobody believes it (seconds).
const LEASE_AHEAD_SECONDS: i64 = 10;

/// What the maintenance asks, with every default filled in.
struct Intent<'a> {
    rules: Vec<(Key, Option<&'a RuleView>)>,
    drain: DrainOptions,
    suspended: Option<Why>,
    /// What is wrong with its drain settings.
    of_drain: Option<Why>,
    /// What is wrong with it.
    problem: Option<Why>,
}

/// One decision in the making.
struct Pass<'a> {
    now: Timestamp,
    observed: &'a Observed,
    view: &'a MaintenanceView,
    /// The node that it has in hand, or is to have.
    node: &'a str,
    group: MaintenanceGroup,
    intent: Intent<'a>,
    answers: &'a Answers,
    out: Decision,
    report: MaintenanceReport,
}

/// Decides for a NodeMaintenance.
pub fn decide(snapshot: &Snapshot<'_>, view: &MaintenanceView, answers: &Answers) -> Decision {
    let OwnerKind::NodeMaintenance(group) = view.owner.kind else {
        return Decision::default();
    };
    let observed = snapshot.observed;
    let mut pass = Pass {
        now: snapshot.now,
        observed,
        view,
        node: in_hand(view, observed).unwrap_or(&view.spec.node_name),
        group,
        intent: asked(view, observed),
        answers,
        out: Decision::default(),
        report: MaintenanceReport {
            phase: last_phase(view),
            ..MaintenanceReport::default()
        },
    };
    pass.out.report.phase = RunPhase::Active;
    pass.decide();
    pass.free_jobs();
    pass.out.report.run_id = run_id(view);
    pass.out.report.maintenance = Some(pass.report);
    pass.out
}

/// The node that the maintenance has in hand, if its spec names another by now.
fn in_hand<'a>(view: &MaintenanceView, observed: &'a Observed) -> Option<&'a str> {
    let mut changes = changes(observed, &view.uid).filter(|change| change.in_flight());
    let change = changes.find(|change| change.spec.node_name != view.spec.node_name)?;
    let node = observed.nodes.get(&change.spec.node_name)?;
    (node.uid == change.spec.node_uid).then_some(node.name.as_str())
}

/// Id of what a maintenance asks of its node.
pub fn id(uid: &str) -> String {
    names::run_id(uid, "maintenance")
}

fn run_id(view: &MaintenanceView) -> String {
    id(&view.uid)
}

fn last_phase(view: &MaintenanceView) -> MaintenancePhase {
    match view.status.phase.as_deref() {
        Some("Succeeded") => MaintenancePhase::Succeeded,
        Some("Failed") => MaintenancePhase::Failed,
        _ => MaintenancePhase::Running,
    }
}

/// The MutexBindings that speak of a NodeMaintenance, in the order of their names. It is in no namespace: one for
/// certain namespaces does not speak of it.
fn bindings<'a>(
    view: &MaintenanceView,
    observed: &'a Observed,
) -> impl Iterator<Item = (&'a String, &'a MutexBindingSpec)> {
    let labels = view.labels.clone();
    observed.bindings.iter().filter(move |(_, binding)| {
        let owners = &binding.owner_selector;
        let selector = owners
            .labels
            .as_ref()
            .map(|labels| serde_json::to_value(labels).unwrap_or_default());
        // One that cannot be understood speaks of all: none of them may go ungated for a slip of the pen.
        owners.kind == "NodeMaintenance"
            && owners.namespaces.is_none()
            && selector.is_none_or(|selector| {
                drain::wrong_selector(&selector).is_some() || pools::matches(&selector, &labels)
            })
    })
}

/// What a NodeMaintenance must pass: its own rules, then those of the MutexBindings that speak of it, each once and
/// with the field that names it. The namespace of a rule is the operator's if none is given.
fn named_rules<'a>(
    view: &MaintenanceView,
    observed: &'a Observed,
) -> Vec<(String, Key, Option<&'a RuleView>)> {
    let own = view.spec.mutex_rules.iter().flatten().enumerate();
    let own = own.map(|(index, reference)| (format!("spec.mutexRules[{index}]"), reference.clone()));
    let bound = bindings(view, observed).flat_map(|(name, binding)| {
        let rules = binding.rules.iter().flatten().enumerate();
        rules.map(move |(index, reference)| {
            (
                format!("MutexBinding {name} spec.rules[{index}]"),
                reference.clone(),
            )
        })
    });
    let mut rules: Vec<(String, Key, Option<&RuleView>)> = Vec::new();
    for (field, reference) in own.chain(bound) {
        let namespace = reference.namespace.filter(|namespace| !namespace.is_empty());
        let key = Key::new(
            namespace.unwrap_or_else(|| observed.settings.namespace.clone()),
            reference.name.unwrap_or_default(),
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

/// What is wrong with one of the rules.
fn wrong_rule(field: &str, key: &Key, rule: Option<&RuleView>) -> Option<Why> {
    let (reason, message) = match rule.map(|rule| &rule.validity) {
        None => (
            Reason::RuleNotFound,
            format!("{field}: found no MutexRule {key}, wanted an existing one"),
        ),
        Some(Validity::Invalid(_, message)) => (
            Reason::RuleInvalid,
            format!("{field}: MutexRule {key} is not valid: {message}"),
        ),
        Some(Validity::Unknown) => (
            Reason::Validating,
            format!("{field}: MutexRule {key} has not been judged by the API server yet"),
        ),
        Some(Validity::Valid) if rule.is_some_and(|rule| PHASES.iter().any(|phase| rule.runs_in(*phase))) => {
            return None;
        }
        Some(Validity::Valid) => (
            Reason::FieldNotServed,
            format!(
                "{field}: MutexRule {key} spec.phases: found none that a NodeMaintenance asks, wanted one such as Pre"
            ),
        ),
    };
    Some(Why::new(reason, message))
}

fn asked<'a>(view: &MaintenanceView, observed: &'a Observed) -> Intent<'a> {
    let rules = named_rules(view, observed);
    let of_rules = rules
        .iter()
        .find_map(|(field, key, rule)| wrong_rule(field, key, *rule));
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
    let of_selector = bindings(view, observed).find_map(|(name, binding)| {
        let labels = serde_json::to_value(binding.owner_selector.labels.as_ref()?).ok()?;
        let problem = drain::wrong_selector(&labels)?;
        let message = format!("MutexBinding {name} spec.ownerSelector.labels: {problem}");
        Some(Why::new(Reason::InvalidField, message))
    });
    let suspended = view.annotations.get(marks::SUSPEND).map(|by| {
        let message = format!(
            "NodeMaintenance {} has annotation {}: {by}",
            view.owner.key,
            marks::SUSPEND
        );
        Why::new(Reason::Suspended, message)
    });
    Intent {
        drain: DrainOptions::of(drain),
        rules: rules.into_iter().map(|(_, key, rule)| (key, rule)).collect(),
        suspended,
        problem: of_selector.or_else(|| of_drain.clone()).or(of_rules),
        of_drain,
    }
}

/// As many nodes are in maintenance as a MutexBinding that speaks of this one allows.
fn no_room(view: &MaintenanceView, observed: &Observed) -> Option<Why> {
    bindings(view, observed).find_map(|(name, binding)| {
        let limit = intent::parse_limit(binding.max_unavailable.as_ref()?);
        let limit = match limit {
            Ok(limit) => limit.of(observed.nodes.len()),
            Err(problem) => {
                let message = format!("MutexBinding {name} spec.maxUnavailable: {problem}");
                return Some(Why::new(Reason::InvalidField, message));
            }
        };
        let flying: Vec<&str> = observed
            .maintenances
            .values()
            .filter(|other| bindings(other, observed).any(|(of_other, _)| of_other == name))
            .filter(|other| changes(observed, &other.uid).any(ChangeView::in_flight))
            .map(|other| other.spec.node_name.as_str())
            .collect();
        (flying.len() >= limit).then(|| {
            let message = format!(
                "{} of {limit} nodes are in maintenance (MutexBinding {name} spec.maxUnavailable): {}",
                flying.len(),
                flying.iter().take(5).copied().collect::<Vec<_>>().join(", ")
            );
            Why::new(Reason::WaitingForTurn, message)
        })
    })
}

/// Whose turn it is among the NodeMaintenances of one node: who has it, then who was first. None if this one's.
fn other_of_node<'a>(view: &MaintenanceView, observed: &'a Observed) -> Option<&'a MaintenanceView> {
    let place = |one: &MaintenanceView| {
        let has_turn = changes(observed, &one.uid).any(ChangeView::in_flight);
        (!has_turn, one.deleting, one.created, one.owner.clone())
    };
    let mut others: Vec<_> = observed
        .maintenances
        .values()
        .filter(|other| other.spec.node_name == view.spec.node_name && other.owner != view.owner)
        .filter(|other| !other.deleting || changes(observed, &other.uid).any(ChangeView::in_flight))
        .collect();
    others.sort_by_cached_key(|other| place(other));
    let first = others.into_iter().next()?;
    (place(first) < place(view)).then_some(first)
}

/// The journals of an owner. Only those of the operator's own namespace: who may write elsewhere could forge one.
pub(crate) fn changes<'a>(observed: &'a Observed, uid: &str) -> impl Iterator<Item = &'a ChangeView> {
    observed.changes.values().filter(move |change| {
        change.spec.owner_ref.uid == uid
            && !change.deleting
            && change.key.namespace == observed.settings.namespace
    })
}

/// Why a NodeMaintenance is not admitted, in the words of the reference's webhook and in its order; none if it is.
/// `observed` needs the nodes, maintenances, NodeChanges, budgets of etcd and its pods only.
pub fn inadmissible(observed: &Observed, owner: &Owner, spec: &NodeMaintenanceSpec) -> Option<String> {
    let name = &spec.node_name;
    let Some(node) = observed.nodes.get(name) else {
        return Some(format!("invalid nodeName, no node with name {name} found"));
    };
    let mut others = observed.maintenances.values();
    if others.any(|other| other.owner != *owner && other.spec.node_name == *name) {
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

/// How the lease of the node stands.
enum Lease<'a> {
    /// It is ours, and need not be renewed before then.
    Ours(Timestamp),
    /// It is ours, and is to be renewed.
    Due(&'a LeaseView),
    /// It is nobody's; it is there if it expired.
    Free(Option<&'a LeaseView>),
    /// It is held by another, until then.
    Held(&'a LeaseView, Timestamp),
    /// There are no leases in this cluster.
    None,
}

fn lease<'a>(observed: &'a Observed, node: &str, now: Timestamp) -> Lease<'a> {
    if observed.settings.leases_unavailable.is_some() {
        return Lease::None;
    }
    let Some(lease) = observed.leases.get(node) else {
        return Lease::Free(None);
    };
    if lease.holder == marks::MAINTENANCE_HOLDER {
        let due = lease.renewed.map_or(Timestamp::UNIX_EPOCH, |at| {
            later(at, lease.duration_seconds / 2 + 1)
        });
        return if now < due {
            Lease::Ours(due)
        } else {
            Lease::Due(lease)
        };
    }
    let ahead = lease
        .renewed
        .is_some_and(|at| at > later(now, LEASE_AHEAD_SECONDS));
    if lease.expired(now) || ahead {
        return Lease::Free(Some(lease));
    }
    Lease::Held(lease, decide::expiry(lease))
}

/// Why a person must not expect the node to be taken yet, before it has its turn.
fn gate(view: &MaintenanceView, observed: &Observed, node: &NodeView, now: Timestamp) -> Option<Why> {
    let name = &node.name;
    let taken = observed.taken(now);
    if let Some(why) = node.leaving.as_ref().or_else(|| taken.get(name.as_str())) {
        return Some(Why::new(
            Reason::NodeLeaving,
            format!("Node {name} is going away: {why}"),
        ));
    }
    if let Some(why) = quorum::refusal(observed, node) {
        return Some(why);
    }
    if let Some(other) = observed.turn_of_other(node, &view.uid) {
        let of = &other.spec.owner_ref;
        let message = format!("Node {name} has its turn with {} {}", of.kind, of.name);
        return Some(Why::new(Reason::NodeBusy, message));
    }
    if let Lease::Held(lease, _) = lease(observed, name, now) {
        return Some(held(&lease.holder));
    }
    ledger::stop(observed, node)
        .or_else(|| no_room(view, observed))
        .or_else(|| Ledger::of(observed, now).refusal(node))
}

/// Words of the reference.
fn held(holder: &str) -> Why {
    let message = format!(
        "failed to obtain a lease that is not owned by us : can't update or invalidate the lease because it is held by different owner: {holder}"
    );
    Why::new(Reason::NodeLeaseHeld, message)
}

impl Pass<'_> {
    fn act(&mut self, action: Action, event: Option<Event>) {
        let chain = self.node.to_owned();
        self.out.actions.push(Planned { chain, action, event });
    }

    fn wake(&mut self, at: Timestamp) {
        self.out.wake_at = Some(self.out.wake_at.map_or(at, |known| known.min(at)));
    }

    /// An event on the NodeMaintenance, or on its node.
    fn event(
        &self,
        on_node: bool,
        warning: bool,
        reason: &'static str,
        action: EventAction,
        note: &str,
    ) -> Event {
        Event {
            node: on_node.then(|| self.node.to_owned()),
            warning,
            reason,
            action,
            note: note.to_owned(),
        }
    }

    /// Says where the node is. What waits for anybody but numo is the last error too.
    fn say(&mut self, step: Step, why: Why, change: Option<&ChangeView>) {
        let is_error = !matches!(
            why.reason,
            Reason::Admitting
                | Reason::Draining
                | Reason::RuleStarting
                | Reason::RuleRunning
                | Reason::InMaintenance
                | Reason::GivingBack
        );
        if is_error {
            self.report.error = Some(why.message.to_string());
        }
        let report = NodeReport {
            pool: "".into(),
            step,
            why: why.clone(),
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.to_string()),
        };
        let nodes = &mut self.out.report.nodes;
        nodes.insert(self.node.to_owned(), report);
        self.out.report.hold = Some(why);
    }

    fn decide(&mut self) {
        let (view, observed) = (self.view, self.observed);
        let foreign = observed
            .foreign_controllers
            .iter()
            .find(|(_, what)| **what == drain_owner());
        if let Some((key, _)) = foreign {
            let message = format!(
                "node-maintenance-operator runs (Deployment {key}): numo leaves NodeMaintenances to it"
            );
            self.out.report.phase = RunPhase::Refused;
            self.report.error.clone_from(&view.status.last_error);
            self.out.report.hold = Some(Why::new(Reason::ForeignController, message));
            return;
        }
        let node = observed.nodes.get(self.node);
        if !view.deleting && self.node != view.spec.node_name {
            let message = format!(
                "updating spec.NodeName isn't allowed: found {}, Node {} is in maintenance; set it back, or delete the object",
                view.spec.node_name, self.node
            );
            self.report.phase = last_phase(view);
            self.say(Step::Held, Why::new(Reason::InvalidField, message), None);
            return;
        }
        self.end_orphans(node);
        let has_finalizer = view
            .finalizers
            .iter()
            .any(|one| one == marks::MAINTENANCE_FINALIZER);
        if view.deleting {
            self.out.report.phase = RunPhase::Leaving;
            // Without our finalizer there may be something left if others hold the object.
            let has_turn = changes(observed, &view.uid).any(ChangeView::in_flight);

            if (has_finalizer || has_turn) && self.has_given_back(node, true) {
                self.remove_finalizer();
            }
            return;
        }
        if !has_finalizer {
            let event = self.event(
                false,
                false,
                "BeginMaintenance",
                EventAction::Admit,
                "Begin a node maintenance",
            );
            let action = Action::AddFinalizer {
                owner: view.owner.clone(),
                uid: view.uid.clone(),
                finalizer: marks::MAINTENANCE_FINALIZER,
            };
            self.act(action, Some(event));
            self.say(
                Step::Selected,
                Why::new(Reason::Admitting, "its finalizer is being set"),
                None,
            );
            return;
        }
        let Some(node) = node else {
            self.report.phase = MaintenancePhase::Failed;
            let message = format!("nodes \"{}\" not found", view.spec.node_name);
            self.say(Step::Failed, Why::new(Reason::NodeNotFound, message), None);
            return;
        };
        if let Some(other) = other_of_node(view, observed) {
            let message = format!(
                "invalid nodeName, a NodeMaintenance for node {} already exists: {} of {}",
                node.name,
                other.owner.key,
                group_of(other)
            );
            self.report.phase = MaintenancePhase::Running;
            self.say(Step::Selected, Why::new(Reason::NodeInMaintenance, message), None);
            return;
        }
        let change = changes(observed, &view.uid).find(|change| change.spec.node_uid == node.uid);
        match change {
            Some(change) if change.in_flight() => self.advance(node, change),
            Some(change) if change.status.step.is_some_and(Step::is_terminal) => {
                // It was given up, and nothing is held any more.
                self.report.phase = MaintenancePhase::Failed;
                let message = change.status.message.clone().unwrap_or_default();
                let known = view.status.error_on_lease_count.unwrap_or(0);
                self.report.lease_errors = known.max(MAX_LEASE_ERRORS + 1);
                self.has_given_back(Some(node), false);
                self.say(
                    Step::Failed,
                    Why::new(Reason::NodeLeaseLost, message),
                    Some(change),
                );
            }
            None if self.was_given_up() => {
                self.report.phase = MaintenancePhase::Failed;
                self.report.lease_errors = view.status.error_on_lease_count.unwrap_or(0);
                let message = view.status.last_error.clone().unwrap_or_default();
                self.say(Step::Failed, Why::new(Reason::NodeLeaseLost, message), None);
            }
            other => self.admit(node, other),
        }
    }

    /// node-maintenance-operator lost the lease of the node and gave the node back: it stays so.
    fn was_given_up(&self) -> bool {
        last_phase(self.view) == MaintenancePhase::Failed
            && self.view.status.error_on_lease_count.unwrap_or(0) > MAX_LEASE_ERRORS
    }

    /// The node's turn begins once nothing is against it.
    fn admit(&mut self, node: &NodeView, said: Option<&ChangeView>) {
        let (view, observed) = (self.view, self.observed);
        self.report.phase = MaintenancePhase::Running;
        let persons = said.and_then(|change| {
            let directive = change.spec.directive.as_ref()?;
            let held = matches!(directive.action, DirectiveAction::Hold | DirectiveAction::Skip);
            held.then(|| {
                Why::new(
                    Reason::HeldByPerson,
                    decide::persons_words("held", change, directive),
                )
            })
        });
        let why = self
            .intent
            .problem
            .clone()
            .or_else(|| self.intent.suspended.clone())
            .or(persons)
            .or_else(|| gate(view, observed, node, self.now));
        if let Some(why) = why {
            if let Lease::Held(_, until) = lease(observed, &node.name, self.now) {
                self.wake(until);
            }
            self.say(Step::Selected, why, said);
            return;
        }
        let admitted = Why::new(Reason::Admitting, "its turn has come");
        let status = &view.status;
        if status
            .eviction_pods
            .or(status.total_pods)
            .or(status.drain_progress)
            .is_some()
        {
            // What was counted was of another node of this name, or by another operator: it is forgotten first.
            self.wake(self.now);
            self.say(Step::Selected, admitted, said);
            return;
        }
        if let Some(change) = said {
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Admitted, Some(&admitted));
            self.out.actions.extend(journal.planned(None));
        } else {
            let (key, spec) = reservation(view, node, &observed.settings.namespace);
            self.act(
                Action::CreateChange {
                    key,
                    spec: Box::new(spec),
                },
                None,
            );
        }
        self.say(Step::Admitted, admitted, said);
    }

    /// A person asks for the rules once more.
    fn retries(&mut self, change: &ChangeView) -> bool {
        let fresh = change.status.observed_generation.unwrap_or(1) < change.generation;
        let Some(directive) = &change.spec.directive else {
            return false;
        };
        if directive.action != DirectiveAction::Retry || !fresh {
            return false;
        }
        let why = Why::new(
            Reason::Admitting,
            decide::persons_words("retried", change, directive),
        );
        let mut journal = Journal::open(change, self.now);
        journal.obey();
        journal.next_attempt();
        journal.enter(Step::Admitted, Some(&why));
        self.out.actions.extend(journal.planned(None));
        self.say(Step::Admitted, why, Some(change));
        true
    }

    /// One step further with a node that has its turn.
    fn advance(&mut self, node: &NodeView, change: &ChangeView) {
        self.report.phase = MaintenancePhase::Running;
        let cordon = mark::cordoned_by(node).filter(|mark| mark.owner == self.view.uid);
        let entries = &change.status.entries;
        let has_begun = cordon.is_some() || entries.iter().any(|entry| entry.step == Step::Cordoned);
        if !self.holds_lease(node, change, has_begun) {
            return;
        }
        if let Some(mark) = cordon {
            self.keep_drained(node, change, &mark);
            return;
        }
        if self.retries(change) {
            return;
        }
        let closed = self
            .intent
            .problem
            .clone()
            .or_else(|| self.intent.suspended.clone())
            .or_else(|| held_by_person(change))
            .or_else(|| ledger::stop(self.observed, node))
            // The rules may have taken hours.
            .or_else(|| quorum::refusal(self.observed, node));
        if !self.passed(node, change, Phase::Pre, Step::PreRules, closed.as_ref()) {
            return;
        }
        if !self.passed(node, change, Phase::PreRelease, Step::PreRelease, closed.as_ref()) {
            return;
        }
        if let Some(why) = closed {
            self.say(Step::PreRelease, why, Some(change));
            return;
        }
        if !self.is_confirmed(node, change) {
            return;
        }
        let probe = self.intent.drain.probe && !self.intent.drain.disable_eviction;
        if probe && !self.can_drain(node, change) {
            return;
        }
        self.act(Action::PatchNode(cordoning(node, self.view, self.group, 0)), None);
        self.say(
            Step::Cordoned,
            Why::new(Reason::Draining, "it is being cordoned"),
            Some(change),
        );
    }

    /// Whether every eviction that is needed passes a dry run.
    fn can_drain(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        match self.answers.drains.get(&node.name) {
            Some(None) => true,
            Some(Some(why)) => {
                self.say(
                    Step::PreRelease,
                    Why::new(Reason::DrainBlocked, why.clone()),
                    Some(change),
                );
                self.wake(later(self.now, 15));
                false
            }
            None => {
                let why = Why::new(Reason::Draining, "its evictions are being tried by dry run");
                let pods = drain::evictable(self.observed, node, &self.intent.drain, self.now);
                if let Some(pods) = pods {
                    let node = node.name.clone();
                    self.out.questions.push(Question::Evictions { node, pods });
                }
                self.say(Step::PreRelease, why, Some(change));
                false
            }
        }
    }

    /// Takes lease and shield; true once they are there, or cannot be had.
    fn holds_lease(&mut self, node: &NodeView, change: &ChangeView, cordoned: bool) -> bool {
        let holder = marks::MAINTENANCE_HOLDER.to_owned();
        let mut actions = Vec::new();
        match lease(self.observed, &node.name, self.now) {
            Lease::None => {}
            Lease::Ours(until) => self.wake(until),
            Lease::Due(lease) => self.act(
                Action::RenewLease {
                    node: node.name.clone(),
                    holder,
                    resource_version: lease.resource_version.clone(),
                },
                None,
            ),
            Lease::Free(over) => actions.push(Action::AcquireLease {
                node: node.name.clone(),
                node_uid: node.uid.clone(),
                holder,
                over: over.map(|lease| (lease.uid.clone(), lease.resource_version.clone())),
            }),
            Lease::Held(lease, until) if cordoned => return self.lost_lease(node, change, lease, until),
            Lease::Held(lease, until) => {
                self.wake(until);
                self.say(Step::Admitted, held(&lease.holder), Some(change));
                return false;
            }
        }
        if mark::shielded(node).is_none_or(|mark| mark.owner != self.view.uid) {
            actions.push(shielding(node, self.view, self.group));
        }
        actions.extend(decide::machine_shields(self.observed, &node.name, &self.view.uid));
        if actions.is_empty() {
            return true;
        }
        for action in actions {
            self.act(action, None);
        }
        let step = change.status.step.unwrap_or(Step::Admitted);
        let why = Why::new(Reason::Admitting, "lease and shield are being taken");
        self.report.phase = if step == Step::Drained {
            last_phase(self.view)
        } else {
            MaintenancePhase::Running
        };
        self.say(step, why, Some(change));
        false
    }

    /// Somebody took the lease while the node was in maintenance: after a while the node is theirs. Whether the work
    /// may go on.
    fn lost_lease(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        lease: &LeaseView,
        until: Timestamp,
    ) -> bool {
        let known = self.view.status.error_on_lease_count.unwrap_or(0);
        let last = self.view.status.last_update.as_deref();
        let last = decide::time(last).unwrap_or(Timestamp::UNIX_EPOCH);
        let due = if known == 0 {
            self.now
        } else {
            later(last, 1 << known.min(6))
        };
        let count = if self.now >= due { known + 1 } else { known };
        self.report.lease_errors = count;
        self.report.phase = last_phase(self.view);
        if count > MAX_LEASE_ERRORS {
            let message = format!("maintenance failed: lease could not be extended after {count} attempts");
            let why = Why::new(Reason::NodeLeaseLost, message);
            self.report.phase = MaintenancePhase::Failed;
            if self.has_given_back(Some(node), false) {
                let mut journal = Journal::open(change, self.now);
                journal.enter(Step::Failed, Some(&why));
                self.out.actions.extend(journal.planned(None));
            }
            self.say(Step::Failed, why, Some(change));
            return false;
        }
        self.wake(due.max(later(self.now, 1)).min(until.max(later(self.now, 1))));
        let message = format!(
            "failed to extend a lease that used to be owned by us, can't update or invalidate the lease because it is held by different owner: {}",
            lease.holder
        );
        self.say(Step::Held, Why::new(Reason::NodeLeaseLost, message), Some(change));
        false
    }

    /// The node is cordoned by this maintenance: it is drained, and kept so.
    fn keep_drained(&mut self, node: &NodeView, change: &ChangeView, mark: &CordonedBy) {
        let entries = &change.status.entries;
        let cordoned = entries.iter().rfind(|entry| entry.step == Step::Cordoned);
        let Some(cordoned) = cordoned.and_then(|entry| decide::time(Some(&entry.at))) else {
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Cordoned, None);
            self.out.actions.extend(journal.planned(None));
            self.say(
                Step::Cordoned,
                Why::new(Reason::Draining, "it is cordoned"),
                Some(change),
            );
            return;
        };
        let was_drained = entries.iter().any(|entry| entry.step == Step::Drained);
        if was_drained {
            self.report.phase = MaintenancePhase::Succeeded;
        }
        let suspended = self.intent.suspended.clone();
        let stop = suspended
            .or_else(|| held_by_person(change))
            .or_else(|| ledger::stop(self.observed, node));
        if stop.is_none() && self.corrects(node, change, mark) {
            return;
        }
        if let Some(why) = self.intent.of_drain.clone() {
            // Which pods are to go cannot be told.
            self.say(
                if was_drained {
                    Step::Drained
                } else {
                    Step::Cordoned
                },
                why,
                Some(change),
            );
            return;
        }
        let Some(drain) = drain::drain(self.observed, node, &self.intent.drain, cordoned, self.now) else {
            if was_drained {
                self.say(Step::Drained, kept(), Some(change));
            } else {
                let why = Why::new(Reason::Draining, "its pods are being listed");
                self.say(Step::Cordoned, why, Some(change));
            }
            return;
        };
        if let Some(at) = drain.wake_at {
            self.wake(at);
        }
        self.report.pods = Some((drain.pending.clone(), drain.total));
        let counted = was_drained || drain.pending.is_empty() || self.view.status.eviction_pods.is_some();
        if stop.is_none() && counted {
            for eviction in drain.evict.iter().cloned() {
                let chain = format!("evict {}", eviction.uid);
                let action = Action::Evict {
                    node: node.name.clone(),
                    eviction,
                };
                self.out.actions.push(Planned {
                    chain,
                    action,
                    event: None,
                });
            }
        } else if stop.is_none() {
            // How many there were is written before the first is gone.
            self.wake(self.now);
        }
        self.tell(change, &drain, stop, cordoned, was_drained);
    }

    /// Says how the drain comes along, and journals its end.
    fn tell(
        &mut self,
        change: &ChangeView,
        drain: &drain::Drain,
        stop: Option<Why>,
        cordoned: Timestamp,
        was_drained: bool,
    ) {
        match (&drain.why, was_drained) {
            (None, false) => {
                let mut journal = Journal::open(change, self.now);
                journal.enter(Step::Drained, None);
                self.out.actions.extend(journal.planned(None));
                self.report.phase = MaintenancePhase::Succeeded;
                let why = Why::new(Reason::InMaintenance, "the node is cordoned and drained");
                self.say(Step::Drained, why, Some(change));
            }
            (None, true) => {
                let idle = drain.returning.is_none();
                let why = drain.returning.clone().unwrap_or_else(kept);
                self.out.report.phase = if idle { RunPhase::Idle } else { RunPhase::Active };
                self.say(Step::Drained, why, Some(change));
                // Pods that come back hold nobody up.
                self.report.error = None;
            }
            (Some(why), _) => {
                let why = stop.unwrap_or_else(|| self.timed_out(why, cordoned));
                self.say(
                    if was_drained {
                        Step::Drained
                    } else {
                        Step::Cordoned
                    },
                    why,
                    Some(change),
                );
                if was_drained {
                    self.report.error = None;
                    self.report.pods = Some((Vec::new(), drain.total));
                }
            }
        }
    }

    /// A drain that takes longer than it may is said to; it goes on.
    fn timed_out(&mut self, why: &Why, cordoned: Timestamp) -> Why {
        let Some(limit) = self.intent.drain.timeout_seconds else {
            return why.clone();
        };
        let end = later(cordoned, limit);
        if self.now < end {
            self.wake(end);
            return why.clone();
        }
        let message = format!(
            "drain did not complete within {limit} s (spec.drain.timeoutSeconds), it goes on: {}",
            why.message
        );
        Why::new(Reason::DrainTimeout, message)
    }

    /// Puts back a cordon or a taint that somebody took away, a few times. True while there is something to put back.
    fn corrects(&mut self, node: &NodeView, change: &ChangeView, mark: &CordonedBy) -> bool {
        let missing: Vec<&str> = taints(self.group)
            .into_iter()
            .filter(|key| !has_taint(&node.taints, key))
            // This one is the node controller's too: it follows spec.unschedulable by itself.
            .filter(|key| *key != marks::UNSCHEDULABLE)
            .collect();
        if node.unschedulable && missing.is_empty() {
            return false;
        }
        let what = if node.unschedulable {
            format!("took taint {} off", missing.join(", "))
        } else {
            "uncordoned it".to_owned()
        };
        if mark.corrections >= MAX_CORRECTIONS {
            let message = format!(
                "Node {}: someone {what}, {} times in all; cordon it, or delete NodeMaintenance {}",
                node.name,
                mark.corrections + 1,
                self.view.owner.key
            );
            let step = change.status.step.unwrap_or(Step::Cordoned);
            self.say(step, Why::new(Reason::ForeignWriter, message), Some(change));
            return true;
        }
        let note = format!(
            "Node {} is in maintenance and someone {what}: cordoned again",
            node.name
        );
        let event = self.event(true, true, "CordonedAgain", EventAction::Drain, &note);
        let patch = cordoning(node, self.view, self.group, mark.corrections + 1);
        self.act(Action::PatchNode(patch), Some(event));
        let step = change.status.step.unwrap_or(Step::Cordoned);
        self.say(step, Why::new(Reason::Draining, note), Some(change));
        self.report.error = None;
        true
    }

    /// Gives back everything that is held of the node; true once nothing is left. With `rules` those have their say
    /// that are asked before the node is put back, and after.
    fn has_given_back(&mut self, node: Option<&NodeView>, with_rules: bool) -> bool {
        let view = self.view;
        let change = changes(self.observed, &view.uid)
            .find(|change| change.in_flight() && node.is_some_and(|node| node.uid == change.spec.node_uid));
        let giving = Why::new(Reason::GivingBack, "the node is being put back as it was");
        if let Some(node) = node {
            let mark = mark::cordoned_by(node).filter(|mark| mark.owner == view.uid);
            let adopted =
                mark.is_none() && change.is_none() && is_references(node, self.group, view, self.observed);
            if mark.is_some() || adopted {
                if with_rules
                    && let Some(change) = change
                    && !self.passed_or_over(node, change, Phase::BeforeUncordon, Step::Ready)
                {
                    return false;
                }
                let mut patch = uncordoning(node, mark.as_ref(), self.group);
                if adopted && let Some(label) = node.labels.get(marks::EXCLUDE_FROM_REMEDIATION) {
                    patch.labels = vec![Change {
                        key: marks::EXCLUDE_FROM_REMEDIATION.to_owned(),
                        from: Some(label.clone()),
                        to: None,
                    }];
                }
                let event = patch.unschedulable.map(|_| {
                    self.event(
                        true,
                        false,
                        "UncordonNode",
                        EventAction::Restore,
                        "Uncordon a node",
                    )
                });
                self.act(Action::PatchNode(patch), event);
                self.say(Step::Uncordoned, giving, change);
                return false;
            }
            if with_rules
                && let Some(change) = change
                && (change
                    .status
                    .entries
                    .iter()
                    .any(|entry| entry.step == Step::Cordoned)
                    || !change.status.verdicts.is_empty())
                && !self.passed_or_over(node, change, Phase::Post, Step::PostRules)
            {
                return false;
            }
        }
        let before = self.out.actions.len();
        let shields = self.observed.nodes.values().filter_map(|node| {
            let mark = mark::shielded(node).filter(|mark| mark.owner == view.uid)?;
            Some(decide::unshield(node, &mark))
        });
        let shields: Vec<Action> = shields.collect();
        for action in shields {
            self.act(action, None);
        }
        for action in decide::machine_unshields(self.observed, &view.uid) {
            self.act(action, None);
        }
        self.release_lease(with_rules || change.is_none());
        if with_rules && let Some(change) = change {
            let why = Why::new(Reason::Done, "the node is as it was");
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Done, Some(&why));
            self.out.actions.extend(journal.planned(None));
        }
        let done = self.out.actions.len() == before;
        self.say(Step::Uncordoned, giving, change);
        if with_rules {
            self.report.phase = last_phase(view);
        }
        done
    }

    /// The lease is given back if it is ours and no other maintenance of the node holds it.
    fn release_lease(&mut self, is_over: bool) {
        let name = self.node;
        let Some(lease) = self.observed.leases.get(name) else {
            return;
        };
        let others = self.observed.maintenances.values().any(|other| {
            other.owner != self.view.owner
                && other.spec.node_name == *name
                && changes(self.observed, &other.uid).any(ChangeView::in_flight)
        });
        if is_over && lease.holder == marks::MAINTENANCE_HOLDER && !others {
            let action = Action::ReleaseLease {
                node: name.to_owned(),
                uid: lease.uid.clone(),
            };
            self.act(action, None);
        }
    }

    fn remove_finalizer(&mut self) {
        let view = self.view;
        let place = view
            .finalizers
            .iter()
            .position(|one| one == marks::MAINTENANCE_FINALIZER);
        if let Some(index) = place {
            let event = self.event(
                false,
                false,
                "RemovedMaintenance",
                EventAction::Complete,
                "Removed a node maintenance",
            );
            let action = Action::RemoveFinalizer {
                owner: view.owner.clone(),
                uid: view.uid.clone(),
                finalizer: marks::MAINTENANCE_FINALIZER,
                index,
            };
            self.act(action, Some(event));
            self.out.report.result = Some(RunResult::Succeeded);
        }
    }

    /// Ends the journals of nodes that are gone, or were made again under their name.
    fn end_orphans(&mut self, node: Option<&NodeView>) {
        let uid = node.map(|node| node.uid.as_str());
        let orphans: Vec<&ChangeView> = changes(self.observed, &self.view.uid)
            .filter(|change| change.in_flight() && Some(change.spec.node_uid.as_str()) != uid)
            .collect();
        for change in orphans {
            let message = format!(
                "Node {} with uid {} no longer exists",
                change.spec.node_name, change.spec.node_uid
            );
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Failed, Some(&Why::new(Reason::NodeGone, message)));
            self.out.actions.extend(journal.planned(None));
        }
        if node.is_none() {
            self.release_lease(true);
        }
    }

    fn subject<'s>(&'s self, node: &'s NodeView, change: &'s ChangeView) -> Subject<'s> {
        let status = &change.status;
        let last = status
            .verdicts
            .last()
            .and_then(|verdict| decide::time(Some(&verdict.at)));
        Subject {
            owner: &self.view.owner,
            owner_uid: &self.view.uid,
            node: &node.name,
            node_uid: &node.uid,
            hostname: node.label(openshift::HOSTNAME),
            pool: "",
            from_version: "",
            to_version: "",
            run: &change.spec.target.run_id,
            round: status.attempt.max(1),
            since: decide::time(status.since.as_deref()).max(last),
            waits: &status.rule_waits,
        }
    }

    fn progress(&self, node: &NodeView, change: &ChangeView, phase: Phase) -> Progress {
        rules::progress(
            &self.intent.rules,
            phase,
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        )
    }

    /// Moves a phase of rules along; true once all have passed.
    fn passed(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        phase: Phase,
        step: Step,
        closed: Option<&Why>,
    ) -> bool {
        let progress = self.progress(node, change, phase);
        self.go_on(change, (phase, step), closed, progress, false)
    }

    /// The same where the node is given back: a rule may make it wait until its time is over, and no longer.
    fn passed_or_over(&mut self, node: &NodeView, change: &ChangeView, phase: Phase, step: Step) -> bool {
        let known = self
            .intent
            .rules
            .iter()
            .filter(|(_, rule)| rule.is_some())
            .cloned();
        self.intent.rules = known.collect();
        let asks = self
            .intent
            .rules
            .iter()
            .flat_map(|(_, rule)| rule)
            .any(|rule| rule.runs_in(phase));
        if asks && change.status.step != Some(step) {
            // Their time begins now, not when the node was drained.
            let mut journal = Journal::open(change, self.now);
            journal.enter(step, None);
            self.out.actions.extend(journal.planned(None));
            let why = Why::new(Reason::GivingBack, "its rules are asked before it is given back");
            self.say(step, why, Some(change));
            return false;
        }
        let progress = self.progress(node, change, phase);
        self.go_on(change, (phase, step), None, progress, true)
    }

    /// Whether every component's Pass is young enough.
    fn is_confirmed(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let stale = rules::stale(
            &self.intent.rules,
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        );
        match stale {
            None => true,
            Some((phase, progress)) => self.go_on(change, (phase, Step::PreRules), None, progress, false),
        }
    }

    fn go_on(
        &mut self,
        change: &ChangeView,
        (phase, step): (Phase, Step),
        closed: Option<&Why>,
        progress: Progress,
        over: bool,
    ) -> bool {
        let mut journal = Journal::open(change, self.now);
        let why = match progress {
            Progress::Passed => return true,
            Progress::Failed(_, why) if over => {
                // Deletion must end: it is in the journal, and said.
                let _ = why;
                return true;
            }
            Progress::Failed(_, why) => why,
            Progress::Ask(question) => {
                self.out.questions.push(question);
                Why::new(Reason::RuleRunning, "its result is being read")
            }
            Progress::Wait(why, wake) => {
                if let Some(at) = wake {
                    self.wake(at);
                }
                why
            }
            Progress::Start(_) | Progress::Evaluate(_) if closed.is_some() => {
                closed.cloned().unwrap_or_else(|| Why::new(Reason::Suspended, ""))
            }
            Progress::Start(mut job) => {
                let own = job.hostname.clone();
                let hosts = decide::hosts_in_flight(self.observed);
                let others = hosts.into_iter().filter(|host| *host != own);
                job.avoid = others.map(ToOwned::to_owned).collect();
                let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
                self.act(Action::CreateJob(job), None);
                why
            }
            Progress::Evaluate(request) => {
                let why = Why::new(
                    Reason::RuleStarting,
                    format!("rule {} is being asked", request.rule),
                );
                self.out.questions.push(Question::Evaluate(request));
                why
            }
            Progress::Note(wait, why) => {
                journal.note(wait);
                self.out.actions.extend(journal.planned(None));
                self.say(step, why, Some(change));
                return false;
            }
            Progress::Record(verdict, log) => {
                let passed = verdict.outcome == Outcome::Pass;
                let said = log
                    .as_deref()
                    .and_then(|log| log.lines().rfind(|line| !line.trim().is_empty()))
                    .or(verdict.message.as_deref())
                    .unwrap_or_default();
                let word = if passed { "passed" } else { "failed" };
                let note = format!(
                    "rule {} {word} in phase {}: {}",
                    verdict.rule,
                    phase.name(),
                    rules::clip(said.trim(), 256)
                );
                let reason = if passed { "RulePassed" } else { "RuleFailed" };
                let event = self.event(true, !passed, reason, EventAction::EvaluateRule, &note);
                journal.record(*verdict, log);
                if change.status.step != Some(step) {
                    journal.enter(step, None);
                }
                self.out.actions.extend(journal.planned(Some(event)));
                Why::new(Reason::RuleRunning, note)
            }
        };
        self.say(step, why, Some(change));
        false
    }

    /// Lets Jobs go whose verdict is journaled.
    fn free_jobs(&mut self) {
        let verdicts = changes(self.observed, &self.view.uid).flat_map(|change| &change.status.verdicts);
        let judged: BTreeSet<&str> = verdicts.filter_map(|verdict| verdict.job.as_deref()).collect();
        let id = run_id(self.view);
        // Once the turn is over nobody waits for a Job any more.
        let over = self.view.deleting && !changes(self.observed, &self.view.uid).any(ChangeView::in_flight);
        let jobs = self.observed.jobs.iter();
        let freed: Vec<Planned> = jobs
            .filter(|(key, job)| judged.contains(key.to_string().as_str()) || over && job.run == id)
            .filter(|(_, job)| job.ttl_seconds.is_none() && !job.deleting)
            .map(|(key, job)| decide::freeing(key.clone(), job))
            .collect();
        for planned in freed {
            let known = |other: &Planned| other.action == planned.action;
            if !self.out.actions.iter().any(known) {
                self.out.actions.push(planned);
            }
        }
    }
}

fn kept() -> Why {
    let message = "the node is kept cordoned and drained until this object is deleted";
    Why::new(Reason::InMaintenance, message)
}

fn held_by_person(change: &ChangeView) -> Option<Why> {
    let directive = change.spec.directive.as_ref()?;
    (directive.action == DirectiveAction::Hold).then(|| {
        Why::new(
            Reason::HeldByPerson,
            decide::persons_words("held", change, directive),
        )
    })
}

/// What node-maintenance-operator works on.
const fn drain_owner() -> crate::observed::ForeignController {
    crate::observed::ForeignController::NodeMaintenance
}

fn group_of(view: &MaintenanceView) -> &'static str {
    match view.owner.kind {
        OwnerKind::NodeMaintenance(group) => group.name(),
        OwnerKind::MutexRunConfig => numo_api::GROUP,
    }
}

/// The NodeChange of a node in maintenance, by its one name.
pub fn reservation(view: &MaintenanceView, node: &NodeView, namespace: &str) -> (Key, NodeChangeSpec) {
    let kind = view.owner.kind;
    let run_id = run_id(view);
    let name = names::change_name(kind.name(), &view.owner.key.name, &view.uid, &node.uid, &run_id);
    let spec = NodeChangeSpec {
        owner_ref: OwnerRef {
            api_version: kind.api_version(),
            kind: kind.name().to_owned(),
            namespace: None,
            name: view.owner.key.name.clone(),
            uid: view.uid.clone(),
        },
        node_name: node.name.clone(),
        node_uid: node.uid.clone(),
        target: Target {
            run_id,
            version: String::new(),
            pool: String::new(),
        },
        directive: None,
    };
    (Key::new(namespace, name), spec)
}

/// The taints of a node in maintenance, all NoSchedule.
fn taints(group: MaintenanceGroup) -> [&'static str; 2] {
    let drain = match group {
        MaintenanceGroup::Medik8s => marks::MEDIK8S_DRAIN,
        MaintenanceGroup::KubeVirt => marks::KUBEVIRT_DRAIN,
    };
    [drain, marks::UNSCHEDULABLE]
}

fn is_taint(taint: &Value, key: &str) -> bool {
    taint.get("key").and_then(Value::as_str) == Some(key)
        && taint.get("effect").and_then(Value::as_str) == Some("NoSchedule")
}

fn has_taint(taints: &Value, key: &str) -> bool {
    let mut taints = taints.as_array().into_iter().flatten();
    taints.any(|taint| is_taint(taint, key))
}

/// The node as node-maintenance-operator leaves it when it stops: its taint is there, and no mark of numo's.
fn is_references(
    node: &NodeView,
    group: MaintenanceGroup,
    view: &MaintenanceView,
    observed: &Observed,
) -> bool {
    let others = observed
        .maintenances
        .values()
        .any(|other| other.owner != view.owner && other.spec.node_name == node.name && !other.deleting);
    view.status.phase.is_some()
        && !others
        && has_taint(&node.taints, taints(group)[0])
        && mark::cordoned_by(node).is_none()
}

/// The shield. On a node that node-maintenance-operator shielded for this very object its label was not there before.
fn shielding(node: &NodeView, view: &MaintenanceView, group: MaintenanceGroup) -> Action {
    let adopted = view.status.phase.is_some()
        && mark::cordoned_by(node).is_none()
        && has_taint(&node.taints, taints(group)[0]);
    let found = node
        .labels
        .get(marks::EXCLUDE_FROM_REMEDIATION)
        .filter(|_| adopted);
    let Some(found) = found else {
        return decide::shield(node, &view.uid);
    };
    let mut before = node.clone();
    before.labels.remove(marks::EXCLUDE_FROM_REMEDIATION);
    let mut action = decide::shield(&before, &view.uid);
    if let Action::PatchNode(patch) = &mut action {
        for label in &mut patch.labels {
            label.from = Some(found.clone());
        }
    }
    action
}

/// Cordon and taints, with what was there before. A node that node-maintenance-operator cordoned for this very
/// object was not cordoned before.
fn cordoning(
    node: &NodeView,
    view: &MaintenanceView,
    group: MaintenanceGroup,
    corrections: u32,
) -> NodePatch {
    // Over the mark of an owner that is gone, what was there before it is what counts.
    let known = mark::cordoned_by(node).map(|mark| CordonedBy {
        owner: view.uid.clone(),
        ..mark
    });
    let adopted = view.status.phase.is_some() && has_taint(&node.taints, taints(group)[0]);
    let fresh = || CordonedBy {
        owner: view.uid.clone(),
        prior: node.unschedulable && !adopted,
        taints: taints(group)
            .into_iter()
            .filter(|key| !adopted && has_taint(&node.taints, key))
            .map(ToOwned::to_owned)
            .collect(),
        corrections: 0,
    };
    let mark = CordonedBy {
        corrections,
        ..known.unwrap_or_else(fresh)
    };
    let mut wanted = node.taints.as_array().cloned().unwrap_or_default();
    for key in taints(group) {
        if !has_taint(&node.taints, key) {
            wanted.push(json!({"key": key, "effect": "NoSchedule"}));
        }
    }
    let wanted = Value::Array(wanted);
    NodePatch {
        annotations: vec![Change {
            key: marks::CORDONED_BY.to_owned(),
            from: node.annotations.get(marks::CORDONED_BY).cloned(),
            to: Some(mark::render(&mark)),
        }],
        unschedulable: Some(true),
        // A person's cordon of this very moment must not be taken for numo's.
        must_be_schedulable: !node.unschedulable,
        taints: (wanted != node.taints).then(|| (node.taints.clone(), wanted)),
        ..NodePatch::of(node, NodePurpose::Cordon)
    }
}

/// Takes cordon and taints off again, but for those that were there before. Without a mark everything was ours.
fn uncordoning(node: &NodeView, mark: Option<&CordonedBy>, group: MaintenanceGroup) -> NodePatch {
    let prior = mark.is_some_and(|mark| mark.prior);
    let kept = |key: &str| mark.is_some_and(|mark| mark.taints.iter().any(|one| one == key));
    let ours: Vec<&str> = taints(group)
        .into_iter()
        .filter(|key| !(kept(key) || prior && *key == marks::UNSCHEDULABLE))
        .collect();
    let found = node.taints.as_array().cloned().unwrap_or_default();
    let left: Vec<Value> = found
        .iter()
        .filter(|taint| !ours.iter().any(|key| is_taint(taint, key)))
        .cloned()
        .collect();
    let changed = left.len() != found.len();
    let left = if left.is_empty() {
        Value::Null
    } else {
        Value::Array(left)
    };
    NodePatch {
        annotations: vec![Change {
            key: marks::CORDONED_BY.to_owned(),
            from: node.annotations.get(marks::CORDONED_BY).cloned(),
            to: None,
        }],
        unschedulable: (!prior && node.unschedulable).then_some(false),
        taints: changed.then(|| (node.taints.clone(), left)),
        ..NodePatch::of(node, NodePurpose::Uncordon)
    }
}

/// The holder's name on the leases of an owner.
pub fn holder(kind: OwnerKind, uid: &str) -> String {
    match kind {
        OwnerKind::MutexRunConfig => lease_holder(uid),
        OwnerKind::NodeMaintenance(_) => marks::MAINTENANCE_HOLDER.to_owned(),
    }
}
