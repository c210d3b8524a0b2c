//! Why: for every node of an owner, and for the owner as a whole. Status, events, metrics and the
//! command line render this one value.

use crate::{
    action::{FORGET_CHAIN, JOB_CHAIN},
    key::Key,
    text::counted,
};
use jiff::Timestamp;
use numo_api::{
    InlineRuleStatus, Reason, RuleWait, RunResult, Step, Strategy, VerdictRecord, conditions::Actor,
    mutex_run_config::Settled,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use crate::why::{Cause, GivenUp, Why};

/// Where a node is and why it is not further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Home pool.
    pub pool: Arc<str>,
    /// The step.
    pub step: Step,
    /// Why it is there.
    pub why: Why,
    /// Since when, RFC 3339, where the journal knows.
    pub since: Option<String>,
    /// Namespace and name of the node's NodeChange, where there is one.
    pub change: Option<String>,
}

impl NodeReport {
    /// Whether the node has its turn: it neither waits for it nor has given it back.
    pub fn in_flight(&self) -> bool {
        self.step != Step::Selected && !self.step.is_terminal()
    }

    /// Whether the node goes on without a person: numo, the machine, a clock or another controller is at work, or an owner
    /// whose own report tells. A node that only waits for others of its owner does not.
    fn moves(&self) -> bool {
        if self.why.until.is_some() {
            return true;
        }
        if self.step == Step::Held {
            return false;
        }
        match self.why.who() {
            Actor::Numo
            | Actor::Nobody
            | Actor::ClusterItself
            | Actor::OtherController
            | Actor::OtherRun
            | Actor::OtherPlan => true,
            Actor::ClusterAdmin | Actor::Approver => false,
            // A rule that gave no verdict is asked again; if it never does, the node is held.
            Actor::RuleAuthor => self.why.reason == Reason::RuleRunning || self.why.reason.is_of_evaluation(),
            Actor::Node => !matches!(self.why.reason, Reason::NodeNotReady | Reason::LeftOutNotReady),
            Actor::OtherNode => matches!(self.why.reason, Reason::BudgetExhausted | Reason::NodeBusy),
        }
    }
}

/// What the run as a whole is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunPhase {
    /// Refused: nothing is written.
    #[default]
    Refused,
    /// There is nothing to do.
    Idle,
    /// An upgrade is coming or under way.
    Active,
    /// The run is being left.
    Leaving,
    /// The run was left for good, and pools with outdated nodes are held.
    Held,
}

/// Where a pool of the run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Name.
    pub name: String,
    /// Rendered configuration its nodes go to.
    pub config: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether numo paused it for this run.
    pub ours: bool,
    /// Nodes that would roll if it were unpaused now.
    pub outdated: usize,
    /// Nodes that live in it.
    pub nodes: usize,
}

/// The whole report of one owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What the run is doing.
    pub phase: RunPhase,
    /// Why it is not further; none while it simply goes on.
    pub hold: Option<Why>,
    /// What else stands against the turn of the node that a person asks about, worst first.
    pub also: Vec<Why>,
    /// What is wrong with the spec or with what it refers to.
    pub problems: Vec<Why>,
    /// What is known of the rules that stand in the run.
    pub inline_rules: Vec<InlineRuleStatus>,
    /// Id of the run, once a version is known.
    pub run_id: String,
    /// The version asked for, or why it is not known.
    pub target: Option<String>,
    /// Why it could not be found out whether an upgrade is available.
    pub unchecked: Option<Why>,
    /// A node whose label of its version, as node feature discovery writes it, is not that of its
    /// configuration, which is the one that counts.
    pub label_disagrees: Option<String>,
    /// Whether an upgrade is available and may begin.
    pub upgrade_ready: bool,
    /// Whether any node is behind.
    pub upgrade_available: bool,
    /// An upgrade has begun while the run is refused, for this: its pools are held.
    pub upgrade_held: Option<Why>,
    /// How nodes are let go.
    pub strategy: Option<Strategy>,
    /// The pools, in order.
    pub pools: Vec<PoolReport>,
    /// CanaryPool: whether every node that needs them carries the rule labels.
    pub labels_applied: Option<bool>,
    /// CanaryPool: whether the selectors are set.
    pub selectors_applied: Option<bool>,
    /// How the run ended, once it has.
    pub result: Option<RunResult>,
    /// Verdicts of the rules that are asked once per run.
    pub run_verdicts: Vec<VerdictRecord>,
    /// Since when such rules make the run wait.
    pub run_waits: Vec<RuleWait>,
    /// Nodes that changed without rules in this run, those that are known from before among them, with why.
    pub ungated: BTreeMap<String, String>,
    /// Whether a person has acknowledged how the run ended.
    pub acknowledged: bool,
    /// What is to be remembered, but for the time: every node runs this version.
    pub settles: Option<Settled>,
    /// Nodes that rules of phase Admit are against, with their words.
    pub not_admitted: BTreeMap<String, Why>,
    /// The wave under way, of an owner with waves.
    pub wave: Option<WaveReport>,
    /// What looks like an order or a limit of the owner and keeps no node from its turn, a sentence each.
    pub notes: Vec<String>,
    /// Waves of this run that are over, in order.
    pub waves_over: Vec<WaveOver>,
    /// What waits for a MutexApproval.
    pub approval: Option<ApprovalReport>,
    /// What a person approved, and still holds.
    pub approved: Vec<Approved>,
    /// What became of the MutexApprovals of what the owner wants approved now, by name.
    pub heard: BTreeMap<String, Heard>,
    /// Every node of the run.
    pub nodes: BTreeMap<String, NodeReport>,
    /// The nodes that wait for a write which several may need, by its chain.
    pub shared: BTreeMap<String, BTreeSet<String>>,
    /// The node whose Pre rules came last: the reference's condition JobRun speaks of it.
    pub last_job_run: Option<LastWord>,
    /// How a maintenance comes along.
    pub maintenance: Option<MaintenanceReport>,
    /// How a Plan comes along.
    pub plan: Option<PlanReport>,
    /// How a NodeVersion comes along.
    pub node_version: Option<NodeVersionReport>,
    /// The node that changed last: the reference's condition NodeUpgrade speaks of it.
    pub last_upgrade: Option<LastWord>,
}

/// What a person approves of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// That it begins.
    Begin,
    /// That further nodes begin although this one has failed.
    AfterFailure {
        /// The node that failed last.
        node: String,
    },
    /// That a wave begins.
    Wave {
        /// Which one, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// Its name, if it has one.
        name: Option<String>,
    },
}

impl Point {
    /// Whether these words of a person mean it as a wave: its number or its name.
    pub fn is_wave(&self, words: &str) -> bool {
        match self {
            Self::Wave { number, name, .. } => words == number.to_string() || name.as_deref() == Some(words),
            Self::Begin | Self::AfterFailure { .. } => false,
        }
    }
}

impl std::fmt::Display for Point {
    /// For people: `wave 2 of 4 (racks-b)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Begin => f.write_str("the beginning"),
            Self::AfterFailure { node } => write!(f, "the next node after the failure of Node {node}"),
            Self::Wave { number, of, name } => {
                write!(f, "wave {number} of {of}")?;
                name.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
            }
        }
    }
}

/// What waits for a MutexApproval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalReport {
    /// What it is.
    pub point: Point,
    /// The digest of what is to be approved.
    pub digest: String,
    /// Why it waits.
    pub why: Why,
}

/// What a person approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// What it is.
    pub point: Point,
    /// The MutexApproval.
    pub name: String,
    /// Who approved, as the object says.
    pub by: String,
    /// Why, in their words.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What became of a MutexApproval of something that its owner wants approved now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The owner goes on by it.
    Holds(Point),
    /// It holds no more, for this.
    Expired(Point, String),
}

/// The wave under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaveReport {
    /// Which one it is, from 1.
    pub number: usize,
    /// How many there are, the nodes of no wave among them.
    pub of: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether it is that of the nodes of no wave.
    pub is_rest: bool,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many of them are done.
    pub done: usize,
    /// Until when it soaks, once its nodes are done.
    pub soak_until: Option<Timestamp>,
    /// What a person should know of the waves of the owner.
    pub notes: Vec<String>,
}

/// A wave whose nodes are done or left out, and that has soaked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveOver {
    /// Which one it is, from 1.
    pub number: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many of them are done; the others were left out.
    pub done: usize,
    /// Since when it is over.
    pub at: Timestamp,
}

/// What nodes of no wave are called beside the names of waves.
pub const NO_WAVE: &str = "nodes of no wave";

impl std::fmt::Display for WaveReport {
    /// For people: `2 of 4 (racks-b): 3 of 10 nodes done`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.number, self.of)?;
        if let Some(name) = self.name.as_deref().or(self.is_rest.then_some(NO_WAVE)) {
            write!(f, " ({name})")?;
        }
        write!(f, ": {} of {} done", self.done, counted(self.nodes, "node"))?;
        match self.soak_until {
            Some(until) => write!(f, ", soaks until {until}"),
            None => Ok(()),
        }
    }
}

/// How a Plan comes along, as its status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the Plan")]
pub struct PlanReport {
    /// What is wrong with the spec; none if it is valid.
    pub invalid: Option<String>,
    /// Whether the version is the channel's word.
    pub by_channel: bool,
    /// Why the version is not known, or no longer sure.
    pub unresolved: Option<String>,
    /// Whether that is for want of an answer that is on its way.
    pub is_asked: bool,
    /// Whether its Secrets are yet to be listed: nobody knows whether it is valid.
    pub is_validating: bool,
    /// Whether numo may not see what it would need to judge: what the status says stays.
    pub is_unjudged: bool,
    /// The version; empty while none is known.
    pub version: String,
    /// The hash; empty while it is not known.
    pub hash: String,
    /// Host names of the nodes that are being upgraded.
    pub applying: Vec<String>,
    /// Whether every selected node is done.
    pub complete: bool,
    /// The reference's reason for that.
    pub reason: &'static str,
    /// In a sentence, where there is more to say.
    pub message: String,
}

/// How a NodeVersion comes along, as its status has it: names and uids of the nodes and PendingNodes that are where on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeVersionReport {
    /// Nodes of another version, whose place no new one takes yet.
    pub outdated: Vec<(String, String)>,
    /// Nodes of the version.
    pub up_to_date: Vec<(String, String)>,
    /// Nodes whose place a new one takes.
    pub donors: Vec<(String, String)>,
    /// New nodes that take the place of one.
    pub heirs: Vec<(String, String)>,
    /// New nodes that take the place of none yet.
    pub mints: Vec<(String, String)>,
    /// Nodes of which image or components are not known.
    pub awaiting_annotation: Vec<(String, String)>,
    /// PendingNodes.
    pub pending: Vec<(String, String)>,
    /// Nodes that are to go.
    pub obsolete: Vec<(String, String)>,
    /// Nodes whose machine nobody knows.
    pub invalid: Vec<(String, String)>,
    /// How many machines may be made now.
    pub budget: usize,
    /// Whether there is anything to do: condition `Outdated`.
    pub is_outdated: bool,
}

/// How a maintenance comes along, as its status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Running, Succeeded or Failed.
    pub phase: MaintenancePhase,
    /// What keeps it from going on.
    pub error: Option<String>,
    /// The pods that are yet to go, and how many there are on the node; none while they are not known.
    pub pods: Option<(Vec<Key>, usize)>,
    /// How often in a row the lease was held by another.
    pub lease_errors: i64,
    /// Whether the operator that numo replaces had drained the node for this object when numo saw it first.
    pub adopted: bool,
}

/// The phase of a maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintenancePhase {
    /// It goes on, or waits.
    #[default]
    Running,
    /// The node is drained.
    Succeeded,
    /// It cannot go on.
    Failed,
}

impl MaintenancePhase {
    /// As the status has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// What became of the node that came last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWord {
    /// The node.
    pub node: String,
    /// Whether its rules passed, or it came back.
    pub good: bool,
    /// Why not.
    pub words: String,
    /// How many nodes of the run got so far, nodes that were at the target before it included.
    pub number: usize,
}

impl Report {
    /// Whether a node is neither done nor left out: for every kind of owner whose status knows no runs, its upgrade is over once none is.
    pub(crate) fn is_any_open(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| !matches!(node.step, Step::Done | Step::Skipped))
    }

    /// Nodes that were left out, or changed without their rules.
    fn short(&self) -> BTreeSet<&str> {
        let nodes = self.nodes.iter();
        let left_out = nodes.filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed));
        let left_out = left_out.map(|(name, _)| name.as_str());
        left_out.chain(self.ungated.keys().map(String::as_str)).collect()
    }

    /// What a person writes who has seen how this run ended (annotation `…/acknowledged`): the id of the run, and the nodes that
    /// were left out or changed without their rules, by name.
    pub fn acknowledgement(&self) -> String {
        let names: Vec<&str> = self.short().into_iter().collect();
        format!("{} {}", self.run_id, names.join(","))
    }

    /// Whether this is the word of a person who has seen how the run ended, with all the nodes that it is short of by now: one that
    /// comes later is not acknowledged with them.
    pub(crate) fn is_acknowledged_by(&self, word: &str) -> bool {
        let (run, names) = word.split_once(' ').unwrap_or((word, ""));
        let seen: BTreeSet<&str> = names.split(',').collect();
        run == self.run_id && self.short().is_subset(&seen)
    }

    /// Nodes are behind, and none of them can go on without a person: the one whose wait says best what is to be done. While
    /// something holds the owner nothing is begun, and only the nodes in flight could go on, if there are any.
    pub fn wedged(&self) -> Option<(&str, &NodeReport)> {
        let open = || self.nodes.iter().filter(|(_, node)| !node.step.is_terminal());
        // Whoever waits for a place waits for the nodes of this owner too: if those cannot go on, that is what is to be ended.
        let mut flying = open().filter(|(_, node)| node.in_flight()).peekable();
        let stuck = flying.peek().is_some() && flying.all(|(_, node)| !node.moves());
        let moves = |node: &NodeReport| {
            let waits_for_others = node.why.who() == Actor::OtherNode;
            // A NodeMaintenance has one node: the others that it waits for are of other owners, and go on.
            let are_of_others = self.maintenance.is_some() && waits_for_others;
            are_of_others || node.moves() && !(stuck && waits_for_others)
        };
        let only_flying = stuck && self.hold.is_some();
        if !only_flying && open().any(|(_, node)| moves(node)) {
            return None;
        }
        let person = |node: &NodeReport| matches!(node.why.who(), Actor::ClusterAdmin | Actor::RuleAuthor);
        let held = open().find(|(_, node)| node.step == Step::Held);
        let (name, node) = held
            .or_else(|| open().find(|(_, node)| node.in_flight()))
            // Whoever waits for nodes that go before it waits for what those wait for.
            .or_else(|| open().find(|(_, node)| person(node) && !node.why.reason.is_of_order()))
            .or_else(|| open().find(|(_, node)| !node.why.reason.is_of_order()))
            .or_else(|| open().next())?;
        Some((name, node))
    }

    /// Number of nodes for which `select` holds.
    pub fn count(&self, select: impl Fn(&NodeReport) -> bool) -> usize {
        self.nodes.values().filter(|node| select(node)).count()
    }

    /// A write of this chain is refused: that is what the node waits for, or the nodes that share it, or the run where no node does.
    /// Jobs that cannot be freed hold nobody.
    pub fn refused(&mut self, chain: &str, why: Why) {
        if let Some(waiting) = self.shared.get(chain) {
            let nodes = self.nodes.iter_mut();
            let nodes = nodes.filter(|(name, _)| waiting.contains(*name));
            nodes.for_each(|(_, node)| node.why.clone_from(&why));
            return;
        }
        match self.nodes.get_mut(chain) {
            Some(node) => node.why = why,
            None if chain.starts_with(JOB_CHAIN) || chain == FORGET_CHAIN => {}
            None => self.hold = Some(why),
        }
    }

    /// Nodes that have their turn now.
    pub fn in_flight(&self) -> usize {
        self.count(NodeReport::in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The node that a wedged owner names, of nodes with these steps and waits.
    fn wedged(nodes: &[(&str, Step, Why)]) -> Option<String> {
        let mut report = Report {
            phase: RunPhase::Active,
            ..Report::default()
        };
        for (name, step, why) in nodes {
            let node = NodeReport {
                pool: "worker".into(),
                step: *step,
                why: why.clone(),
                since: None,
                change: None,
            };
            report.nodes.insert((*name).to_owned(), node);
        }
        report.wedged().map(|(name, _)| name.to_owned())
    }

    fn why(reason: Reason) -> Why {
        Why::new(reason, "why")
    }

    #[test]
    fn an_owner_goes_on_while_one_of_its_nodes_does() {
        let waits = ("b", Step::Selected, why(Reason::WaitingForTurn));
        for reason in [
            Reason::Changing,
            Reason::RuleRunning,
            Reason::Admitting,
            Reason::BudgetExhausted,
            Reason::NodeBusy,
            Reason::ControlPlaneUpdating,
        ] {
            let moves = ("a", Step::Admitted, why(reason));
            assert_eq!(wedged(&[moves, waits.clone()]), None, "{reason}");
        }
        let by_clock = why(Reason::OutsideWindow).until(Timestamp::UNIX_EPOCH);
        assert_eq!(wedged(&[("a", Step::Selected, by_clock), waits]), None);
    }

    #[test]
    fn a_node_in_flight_that_is_stuck_is_named_while_a_hold_keeps_the_others() {
        let report = |reason: Reason, hold: Option<Why>| {
            let outside = why(Reason::OutsideWindow).until(Timestamp::UNIX_EPOCH);
            let node = |step: Step, why: Why| NodeReport {
                pool: "".into(),
                step,
                why,
                since: None,
                change: None,
            };
            let nodes = [
                ("a".to_owned(), node(Step::Selected, outside)),
                ("b".to_owned(), node(Step::Released, why(reason))),
            ];
            Report {
                phase: RunPhase::Active,
                hold,
                nodes: nodes.into(),
                ..Report::default()
            }
        };
        let outside = || Some(why(Reason::OutsideWindow).until(Timestamp::UNIX_EPOCH));
        let stuck = report(Reason::NodeNotReady, outside());
        assert_eq!(stuck.wedged().map(|(name, _)| name), Some("b"));
        assert_eq!(report(Reason::Upgrading, outside()).wedged(), None);
        assert_eq!(
            report(Reason::NodeNotReady, None).wedged(),
            None,
            "the other one is begun by itself"
        );
    }

    #[test]
    fn who_can_end_it_is_named_where_nobody_goes_on() {
        let waits = ("b", Step::Selected, why(Reason::WaitingForTurn));
        for reason in [
            Reason::NodeNotReady,
            Reason::DrainBlocked,
            Reason::MutexKeyBusy,
            Reason::CordonedByOther,
            Reason::RuleInvalid,
        ] {
            let stuck = ("a", Step::PreRelease, why(reason));
            assert_eq!(wedged(&[stuck, waits.clone()]).as_deref(), Some("a"), "{reason}");
        }
        for of_other in [
            Reason::BudgetExhausted,
            Reason::NodeBusy,
            Reason::WaitsForPlan,
            Reason::PoolHeldByRun,
        ] {
            let ended = why(of_other).ended_by(Actor::ClusterAdmin);
            assert_eq!(
                wedged(&[("a", Step::Selected, ended)]).as_deref(),
                Some("a"),
                "{of_other}"
            );
        }
        // A budget that a stuck node of its own fills too is no way on.
        let fills = ("a", Step::PreRules, why(Reason::RuleJobCannotStart));
        let waits_for_it = ("b", Step::Selected, why(Reason::BudgetExhausted));
        assert_eq!(wedged(&[fills, waits_for_it]).as_deref(), Some("a"));
        // Whoever is held is named first, whatever its reason is called.
        let held = ("z", Step::Held, why(Reason::RuleRunning));
        assert_eq!(wedged(&[waits.clone(), held]).as_deref(), Some("z"));
        assert_eq!(wedged(&[("a", Step::Done, why(Reason::Done))]), None);
        assert_eq!(wedged(&[waits]).as_deref(), Some("b"));
    }

    #[test]
    fn a_node_that_comes_later_is_not_acknowledged_with_the_others() {
        let mut report = Report {
            run_id: "run".to_owned(),
            ..Report::default()
        };
        report.ungated.insert("a".to_owned(), String::new());
        report.ungated.insert("b".to_owned(), String::new());
        let word = report.acknowledgement();
        assert_eq!(word, "run a,b");
        assert!(report.is_acknowledged_by(&word));
        // A node that is gone takes nothing back.
        report.ungated.remove("a");
        assert!(report.is_acknowledged_by(&word));
        report.ungated.insert("c".to_owned(), String::new());
        assert!(!report.is_acknowledged_by(&word));
        assert!(!report.is_acknowledged_by("run"));
        report.run_id = "next".to_owned();
        assert!(!report.is_acknowledged_by(&word));
    }
}
