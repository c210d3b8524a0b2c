//! A kind of owner that numo does not have: it repaints nodes. Whatever numo does for the nodes of every owner it has by the page of
//! steps, the page of a pass, the page of admission and the table of checks; this file is all that it needs.

use crate::{
    cluster::{Cluster, NAMESPACE, RUN_UID, now, run_key},
    words::words,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Phase, Reason, Step, Target};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, Change, NodePatch, NodePurpose, Planned},
    admit::{
        gates::Gate,
        hours::Hours,
        queue::{self, Queue},
        schedule::Schedule,
    },
    decide::pass,
    invariant::Breach,
    key::Key,
    ledger,
    lint::{
        checks::{Checked, breach, passed},
        table::{Checks, Seen, keep},
    },
    observed::{ChangeView, Map, NodeView, Observed, OwnerView, RuleView},
    pass::Pass,
    probe::Look,
    report::NodeReport,
    rules::{self, Admission, Subject},
    turn::{
        journal::Journal,
        node::Holding,
        phases::Phases,
        reservation::reservation,
        steps::{self, Next, ON, Parts, STAY, Turn},
    },
    verdict::Answers,
    why::Why,
};
use std::sync::LazyLock;

/// The label of a node that is painted, and of one that numo has let go.
const PAINTED: &str = "toy/painted";
const PAINTING: &str = "toy/painting";

static OWNER: LazyLock<Owner> = LazyLock::new(|| Owner::run(run_key()));
static NO_ANNOTATIONS: Map = Map::new();

fn view() -> OwnerView<'static> {
    OwnerView {
        uid: RUN_UID,
        deleting: false,
        annotations: &NO_ANNOTATIONS,
        labels: None,
        finalizers: &[],
        suspended: false,
        waiting: &[],
        approval: None,
        generation: 1,
        has_annotations: false,
        pruned: None,
        gate: numo_api::gate::GateOf::Rules(false),
    }
}

fn journals(observed: &Observed) -> impl Iterator<Item = &ChangeView> {
    observed
        .changes
        .values()
        .filter(|change| change.spec.owner_ref.uid == RUN_UID)
}

/// One pass over the toy: nodes are painted, as many at once as budgets allow.
struct Toy<'a> {
    observed: &'a Observed,
    answers: &'a Answers,
    rules: Vec<(Key, Option<&'a RuleView>)>,
    hours: Option<&'a Result<Hours, String>>,
    out: Decision,
}

impl Toy<'_> {
    fn say(&mut self, node: &NodeView, step: Step, why: Why) {
        let report = NodeReport {
            pool: "".into(),
            step,
            why,
            since: None,
            change: None,
        };
        self.out.report.nodes.insert(node.name.clone(), report);
    }

    fn act(&mut self, node: &NodeView, action: Action) {
        self.out.actions.push(Planned {
            chain: node.name.clone(),
            action,
            event: None,
        });
    }
}

impl Pass for Toy<'_> {
    fn refuse(&mut self) -> Next {
        ON
    }

    fn advance_turns(&mut self) {
        for change in journals(self.observed).filter(|change| change.in_flight()) {
            if let Some(node) = self.observed.nodes.get(&change.spec.node_name) {
                steps::advance(&mut Painting {
                    toy: self,
                    node,
                    change,
                });
            }
        }
    }

    fn restore_rest(&mut self) {}

    fn go_on(&mut self) {
        queue::admit(&mut Waiting {
            schedule: schedule(self.hours).expect("sound hours"),
            toy: self,
        });
    }

    fn tidy(&mut self) {}

    fn finish(self) -> Decision {
        self.out
    }
}

/// When its nodes begin.
fn schedule(hours: Option<&Result<Hours, String>>) -> Result<Schedule<'_>, String> {
    let mut schedule = Schedule::default();
    schedule.add("spec", hours, None)?;
    Ok(schedule)
}

/// Its nodes that have no turn.
struct Waiting<'p, 'a> {
    toy: &'p mut Toy<'a>,
    schedule: Schedule<'a>,
}

impl<'a> Queue<'a> for Waiting<'_, 'a> {
    type One = &'a NodeView;

    fn seen(&self) -> (&'a Observed, &'a Answers, Timestamp) {
        (self.toy.observed, self.toy.answers, now())
    }

    fn out(&mut self) -> &mut Decision {
        &mut self.toy.out
    }

    fn waiting(&mut self) -> Vec<&'a NodeView> {
        let observed = self.toy.observed;
        let had_turn: Vec<&str> = journals(observed)
            .map(|change| change.spec.node_name.as_str())
            .collect();
        let nodes = observed.nodes.values();
        nodes
            .filter(|node| !had_turn.contains(&node.name.as_str()))
            .collect()
    }

    fn node(&self, node: &'a NodeView) -> &'a NodeView {
        node
    }

    fn change(&self, _node: &'a NodeView) -> Option<&'a ChangeView> {
        None
    }

    fn schedule(&self) -> &Schedule<'a> {
        &self.schedule
    }

    fn is_asked(&self, _node: &'a NodeView) -> bool {
        false
    }

    fn sort_out(&mut self, _node: &'a NodeView, _ledger: &mut ledger::Ledger<'a>) -> Next {
        ON
    }

    fn against(&mut self, _node: &'a NodeView, _gate: Gate) -> Option<Why> {
        None
    }

    fn admission(&self, node: &'a NodeView) -> Admission {
        let subject = Subject {
            owner: &OWNER,
            owner_uid: RUN_UID,
            node: &node.name,
            node_uid: &node.uid,
            hostname: "",
            pool: "",
            from_version: "",
            to_version: "red",
            run: "red",
            round: 1,
            since: None,
            waits: &[],
        };
        rules::admission(&self.toy.rules, &subject, self.toy.observed, now())
    }

    fn take_place(&mut self, _node: &'a NodeView, _is_asked_about: bool) {}

    fn reservation(&self, node: &'a NodeView) -> (Key, NodeChangeSpec) {
        let target = Target {
            run_id: "red".to_owned(),
            version: "red".to_owned(),
            pool: String::new(),
        };
        reservation((&OWNER, RUN_UID), node, target, false, NAMESPACE)
    }

    fn say(&mut self, node: &'a NodeView, step: Step, why: Why) {
        self.toy.say(node, step, why);
    }
}

/// A node that has its turn.
struct Painting<'p, 'a> {
    toy: &'p mut Toy<'a>,
    node: &'a NodeView,
    change: &'a ChangeView,
}

impl Painting<'_, '_> {
    fn end(&mut self, step: Step, why: Why) {
        let mut journal = Journal::open(self.change, now());
        journal.enter(step, Some(&why));
        self.toy.out.actions.extend(journal.planned(None));
        self.say(step, why);
    }
}

impl Turn for Painting<'_, '_> {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            phases: Phases {
                owner: &OWNER,
                owner_uid: RUN_UID,
                rules: &self.toy.rules,
                pool: "",
                to_version: "red",
                observed: self.toy.observed,
                answers: self.toy.answers,
                now: now(),
            },
            node: self.node,
            change: self.change,
            out: &mut self.toy.out,
        }
    }

    fn say(&mut self, step: Step, why: Why) {
        self.toy.say(self.node, step, why);
    }

    fn end_if_unwanted(&mut self) -> Next {
        ON
    }

    fn holding(&self) -> Option<Holding> {
        None
    }

    fn obey(&mut self) -> Next {
        if numo_core::turn::failed::is_held(self.change) {
            numo_core::turn::failed::say_held(self);
            return STAY;
        }
        ON
    }

    fn asked(&self) -> Option<&NodeReport> {
        None
    }

    fn is_released(&self) -> bool {
        !self.node.label(PAINTING).is_empty()
    }

    fn weigh_gates(&mut self, _phase: Phase) -> Option<Why> {
        ledger::stop(self.toy.observed, self.node)
    }

    fn probe(&mut self) -> Option<Look> {
        None
    }

    fn release(&mut self) {
        let patch = NodePatch {
            labels: vec![Change {
                key: PAINTING.to_owned(),
                from: None,
                to: Some("red".to_owned()),
            }],
            ..NodePatch::of(self.node, NodePurpose::Label)
        };
        self.toy.act(self.node, Action::PatchNode(patch));
        self.say(Step::Released, Why::new(Reason::Changing, "it is being painted"));
    }

    fn await_change(&mut self) -> Next {
        if self.node.label(PAINTED).is_empty() {
            self.say(Step::Released, Why::new(Reason::Changing, "the paint is wet"));
            return STAY;
        }
        ON
    }

    fn finish(&mut self) {
        self.end(Step::Done, Why::new(Reason::Done, "it is painted"));
    }

    fn leave_out(&mut self, why: Why) {
        self.end(Step::Skipped, why);
    }

    fn abort(&mut self, why: Why) {
        self.end(Step::Failed, why);
    }
}

/// What is checked of its writes.
struct Lint<'a> {
    seen: Seen<'a>,
    rules: Vec<(Key, Option<&'a RuleView>)>,
    hours: Option<&'a Result<Hours, String>>,
}

impl Checks for Lint<'_> {
    fn holder(&self) -> String {
        "toy".to_owned()
    }

    fn schedule(&self) -> Result<Schedule<'_>, String> {
        schedule(self.hours)
    }

    fn begin(&self, _node: &NodeView) -> Checked {
        Ok(())
    }

    fn patch_node(&self, node: &NodeView, _patch: &NodePatch) -> Checked {
        let Some(change) = self.seen.turn(node) else {
            return breach(1, format!("{} has no turn", node.name));
        };
        passed(&self.rules, &node.name, (change, &rules::BEFORE_RELEASE), now())
    }

    fn evict(&self, node: &NodeView) -> Checked {
        breach(1, format!("nobody on {} has to leave for paint", node.name))
    }
}

fn rules_of(observed: &Observed) -> Vec<(Key, Option<&RuleView>)> {
    observed
        .rules
        .iter()
        .map(|(key, rule)| (key.clone(), Some(rule)))
        .collect()
}

/// Decides for the toy, and what the table of checks has against it.
fn decision(cluster: &Cluster) -> (Decision, Vec<Breach>) {
    let observed = &cluster.observed;
    let snapshot = Snapshot {
        now: now(),
        observed,
        owner: &OWNER,
        asked: None,
    };
    let toy = Toy {
        observed,
        answers: &cluster.answers,
        rules: rules_of(observed),
        hours: hours_of(observed),
        out: Decision::default(),
    };
    let mut decision = pass(&snapshot, view(), toy);
    let seen = Seen {
        now: now(),
        observed,
        owner: &OWNER,
        view: view(),
    };
    let checks = Lint {
        seen,
        rules: rules_of(observed),
        hours: hours_of(observed),
    };
    let breaches = keep(&mut decision, seen, &checks);
    (decision, breaches)
}

fn hours_of(observed: &Observed) -> Option<&Result<Hours, String>> {
    observed.runs.get(&run_key())?.hours.as_ref()
}

/// Decides, and compares reports (`node a …`) and writes (`> …`).
#[track_caller]
fn check(cluster: &str, node: &str, writes: &[&str]) {
    let cluster = Cluster::parse(cluster);
    let (decision, breaches) = decision(&cluster);
    assert!(breaches.is_empty(), "{breaches:#?}");
    let found = words(&cluster, &decision);
    assert!(found.iter().any(|line| line.starts_with(node)), "{found:#?}");
    let written: Vec<&str> = found.iter().filter_map(|line| line.strip_prefix("> ")).collect();
    assert_eq!(written, writes, "{found:#?}");
}

const RULES: &str = "run {}\n rule backup Pre\n rule settled Post\n rule tell OnFailure";
const PASSED: &str = "verdict:backup/Pre/1/Pass";

/// A node of which labels may be given after its name.
fn cluster(node: &str, more: &str) -> String {
    format!("node a worker v0 {node}\n {RULES}\n {more}")
}

#[test]
fn a_new_kind_of_owner_has_its_rules_asked_in_their_places() {
    check(&cluster("", ""), "node a Admitted Admitting", &["admit a"]);
    check(
        &cluster("", "change a -"),
        "node a PreRules RuleStarting",
        &["job backup/Pre/1 of a"],
    );
    check(
        &cluster("", &format!("change a PreRules {PASSED}")),
        "node a Released Changing",
        &["label a +painting"],
    );
    let painted = format!("label:{PAINTING}=red label:{PAINTED}=red");
    check(
        &cluster(
            &format!("label:{PAINTING}=red"),
            &format!("change a PreRules {PASSED}"),
        ),
        "node a Released Changing",
        &[],
    );
    check(
        &cluster(&painted, &format!("change a PreRules {PASSED}")),
        "node a PostRules RuleStarting",
        &["job settled/Post/1 of a"],
    );
    check(
        &cluster(
            &painted,
            &format!("change a PostRules {PASSED} verdict:settled/Post/1/Pass"),
        ),
        "node a Done Done",
        &["journal a Done Done"],
    );
}

#[test]
fn a_new_kind_of_owner_begins_nothing_out_of_hours_and_asks_rules_before_a_turn() {
    let closed = r#"{window: {openings: [{days: [mon], startTime: "22", endTime: "23"}]}}"#;
    let of = |spec: &str| format!("node a worker v0\n run {spec}\n rule room Admit wasm");
    check(&of(closed), "node a Selected OutsideWindow", &[]);
    check(&of("{}"), "node a Selected RuleStarting", &[]);
}

#[test]
fn a_new_kind_of_owner_obeys_stops_budgets_and_failures() {
    check(
        &cluster("", "change a -\n budget all max:1 paused"),
        "node a PreRules Stopped",
        &["journal a closed"],
    );
    check(
        &cluster("", "node b worker v0 NotReady\n budget all max:1"),
        "node a Selected BudgetExhausted",
        &["admit b"],
    );
    let failed = "change a PreRules verdict:backup/Pre/1/Failure";
    check(
        &cluster("", failed),
        "node a Held RuleFailed",
        &["job tell/OnFailure/1 of a"],
    );
    check(
        &cluster("", &format!("{failed} verdict:tell/OnFailure/1/Pass")),
        "node a Held RuleFailed",
        &["journal a Held RuleFailed"],
    );
}

/// The table of checks knows nothing of the toy's decision.
#[test]
fn the_table_of_checks_stops_what_a_new_kind_of_owner_must_not_do() {
    let cluster = Cluster::parse(&cluster("", "change a PreRules"));
    let observed = &cluster.observed;
    let node = observed.nodes.get("a").expect("the node");
    let planned = |action: Action| Planned {
        chain: "a".to_owned(),
        action,
        event: None,
    };
    let seen = Seen {
        now: now(),
        observed,
        owner: &OWNER,
        view: view(),
    };
    let checks = Lint {
        seen,
        rules: rules_of(observed),
        hours: hours_of(observed),
    };
    let mut decision = Decision {
        actions: vec![planned(Action::PatchNode(NodePatch::of(
            node,
            NodePurpose::Label,
        )))],
        ..Decision::default()
    };
    let breaches = keep(&mut decision, seen, &checks);
    let invariants: Vec<u8> = breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(invariants, [1], "its rules have not passed");
    assert_eq!(decision.actions, Vec::new());
}
