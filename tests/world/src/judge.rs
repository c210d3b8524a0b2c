//! Says what went wrong, from what the API server showed alone: never from what the operator under
//! test reports of itself.
//!
//! - **J1** no node was released before all its pre rules had passed
//! - **J2** never more nodes in flight than allowed
//! - **J3** each rule passed once per node and phase, and ran once unless retries are expected
//! - **J4** no node was ever in two custom pools, or in none
//! - **J5** selectors, pauses, marks and leases are as before, and nodes where they should be
//! - **J6** no target pool was unpaused while it had outdated nodes
//! - **J7** who was cordoned before is still
//! - **J8** post rules ran only on nodes that were back at the target

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::content::same_content;
use crate::log::{Entry, Event, State};
use crate::membership::{Labels, Membership};
use crate::openshift::MACHINE_CONFIG_CONTROLLER;
use crate::record::{Change, NodeView, Record};
use crate::snapshot::{PoolFacts, Snapshot};

/// Label by which a rule's Job says its phase.
const PHASE_LABEL: &str = "numo.openshift-optional.skrzypek.io/phase";
/// What is expected of an upgrade.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Pools whose nodes change by rules only.
    pub targets: Vec<String>,
    /// Rules that must pass before a node is released: `MUTEX_RULE` of their Jobs, or its part
    /// before the first dot or after the slash.
    pub pre_rules: Vec<String>,
    /// Rules that must pass after a node is back.
    pub post_rules: Vec<String>,
    /// How many target nodes may be in flight at once.
    pub max_in_flight: usize,
    /// All target nodes must have reached this version by now.
    pub at_version: Option<String>,
    /// Target pools that may have stayed paused, because they have outdated nodes.
    pub held: Vec<String>,
    /// Target pools that may roll without rules.
    pub ungated: Vec<String>,
    /// Nodes of which nothing is expected but that they are not released without rules.
    pub excused: Vec<String>,
    /// Whether rules may have run more than once.
    pub retries: bool,
    /// Whether all must be as before by now.
    pub restored: bool,
    /// Judge from this revision of etcd on; none: from the last desired version on.
    pub since: Option<u64>,
}

impl Default for Judgement {
    fn default() -> Self {
        Self {
            targets: vec!["worker".into()],
            pre_rules: Vec::new(),
            post_rules: Vec::new(),
            max_in_flight: 1,
            at_version: None,
            held: Vec::new(),
            ungated: Vec::new(),
            excused: Vec::new(),
            retries: false,
            restored: true,
            since: None,
        }
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// J1 to J8.
    pub invariant: &'static str,
    /// Revision of etcd at which it broke; 0: at the end.
    pub revision: u64,
    /// Node, pool or other object.
    pub subject: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} (revision {}): {}",
            self.invariant, self.subject, self.revision, self.message
        )
    }
}

/// Judges records, and the end state against the one before.
pub(crate) fn judge(
    expected: &Judgement,
    records: &[Record],
    entries: &[Entry],
    before: &Snapshot,
    now: &Snapshot,
) -> Vec<Breach> {
    let since = expected.since.unwrap_or_else(|| {
        let desired = entries
            .iter()
            .rev()
            .find(|e| matches!(e.event, Event::VersionDesired { .. }));
        desired.map_or(0, |e| e.revision)
    });
    let asked_for = entries.iter().filter_map(|e| match &e.event {
        Event::VersionDesired { version } => Some(version.clone()),
        _ => None,
    });
    let mut court = Court {
        expected,
        since,
        before,
        asked_for: asked_for.collect(),
        homes: BTreeMap::new(),
        breaches: Vec::new(),
    };
    let runs = court.replay(records);
    court.runs(&runs, entries);
    court.memberships(entries);
    if expected.restored {
        court.restoration(now);
    }
    court.targets_reached(now);
    court.breaches
}

/// One Job of a rule.
#[derive(Clone, Debug)]
struct Run {
    node: String,
    rule: String,
    phase: Option<String>,
    /// Revision at which a pod of it succeeded.
    passed: Option<u64>,
}

impl Run {
    fn is(&self, rule: &str, phase: &str) -> bool {
        let part = |s: &str| s == rule;
        let named = part(&self.rule)
            || self.rule.split_once('.').is_some_and(|(name, _)| part(name))
            || self.rule.rsplit_once('/').is_some_and(|(_, name)| part(name));
        named && self.phase.as_ref().is_none_or(|p| p.eq_ignore_ascii_case(phase))
    }
}

struct Court<'a> {
    expected: &'a Judgement,
    since: u64,
    before: &'a Snapshot,
    /// The versions that were ever asked for.
    asked_for: BTreeSet<String>,
    /// The pool each node belongs to when nobody moves it, and the revision of its birth.
    homes: BTreeMap<String, (Membership, u64)>,
    breaches: Vec<Breach>,
}

impl Court<'_> {
    fn breach(&mut self, invariant: &'static str, revision: u64, subject: &str, message: String) {
        self.breaches.push(Breach {
            invariant,
            revision,
            subject: subject.to_owned(),
            message,
        });
    }

    fn is_target(&self, node: &str) -> bool {
        let home = self.homes.get(node).map(|(home, _)| home);
        self.expected
            .targets
            .iter()
            .any(|t| home.is_some_and(|h| h.is(t)))
    }

    fn is_gated(&self, node: &str) -> bool {
        let home = self.homes.get(node).map(|(home, _)| home);
        self.is_target(node)
            && !self
                .expected
                .ungated
                .iter()
                .any(|p| home.is_some_and(|h| h.is(p)))
    }

    /// J1, J2, J6, J7, J8. Returns all rule Jobs.
    fn replay(&mut self, records: &[Record]) -> BTreeMap<String, Run> {
        let mut state = State::default();
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        let mut crowded = false;
        let mut open = BTreeSet::new();
        let mut cordoned = None;
        for record in records {
            let is_new_job =
                matches!(&record.change, Change::Job(key, Some(_)) if !state.jobs.contains_key(key));
            let old = match &record.change {
                Change::Node(name, _) => state.nodes.get(name).cloned(),
                _ => None,
            };
            if cordoned.is_none() && record.revision > self.since {
                // The drain controller's own cordon goes when the node has changed.
                let by_person =
                    |n: &NodeView| n.unschedulable && n.unschedulable_by != MACHINE_CONFIG_CONTROLLER;
                let such = state.nodes.iter().filter(|(_, n)| by_person(n));
                cordoned = Some(such.map(|(name, _)| name.clone()).collect::<Vec<_>>());
            }
            state.step(record);
            match &record.change {
                Change::Node(name, Some(new)) => {
                    self.settle_home(
                        name,
                        record.revision,
                        old.as_ref().map(|o| o.uid.as_str()),
                        &state,
                    );
                    let released = old.is_some_and(|o| o.uid == new.uid && o.desired != new.desired);
                    if released && record.revision > self.since {
                        self.release(name, record.revision, &state, &runs);
                    }
                }
                Change::Job(_, Some(job)) => {
                    note_run(&mut runs, &job.uid, &job.env, &job.labels);
                    if is_new_job && record.revision > self.since {
                        self.post_rule(&job.uid, record.revision, &state, &runs);
                    }
                }
                Change::Pod(_, Some(pod)) => {
                    note_run(&mut runs, &pod.job.1, &pod.env, &pod.labels);
                    if let (Some(run), "Succeeded") = (runs.get_mut(&pod.job.1), pod.phase.as_str()) {
                        run.passed.get_or_insert(record.revision);
                    }
                }
                _ => {}
            }
            if record.revision > self.since {
                self.crowd(record.revision, &state, &mut crowded);
                self.open_pools(record.revision, &state, &mut open);
            }
        }
        for name in cordoned.unwrap_or_default() {
            if state.nodes.get(&name).is_some_and(|n| !n.unschedulable) {
                self.breach("J7", 0, &name, "was cordoned before and is not any more".into());
            }
        }
        runs
    }

    fn settle_home(&mut self, name: &str, revision: u64, old_uid: Option<&str>, state: &State) {
        let Some(node) = state.nodes.get(name) else { return };
        let is_known = self.homes.contains_key(name) && old_uid == Some(node.uid.as_str());
        if is_known {
            return;
        }
        let before = self.before.nodes.get(name).map(|n| n.membership.clone());
        let home = before.unwrap_or_else(|| state.membership(node));
        self.homes.insert(name.to_owned(), (home, revision));
    }

    /// J1, at the moment of a new desiredConfig.
    fn release(&mut self, name: &str, revision: u64, state: &State, runs: &BTreeMap<String, Run>) {
        let Some(node) = state.nodes.get(name) else { return };
        if !self.is_gated(name) || same_content(&node.current, &node.desired) {
            return;
        }
        let born = self.homes.get(name).map_or(0, |(_, born)| *born);
        let from = self.since.max(born);
        for rule in self.expected.pre_rules.clone() {
            let passed = runs.values().any(|r| {
                r.node == name && r.is(&rule, "Pre") && r.passed.is_some_and(|at| at > from && at < revision)
            });
            if !passed {
                let by = &node.desired_by;
                let config = &node.desired;
                self.breach(
                    "J1",
                    revision,
                    name,
                    format!("{by} set {config} before rule {rule} had passed"),
                );
            }
        }
    }

    /// J8, at the moment a rule's Job appears.
    fn post_rule(&mut self, job: &str, revision: u64, state: &State, runs: &BTreeMap<String, Run>) {
        let Some(run) = runs.get(job) else { return };
        let is_post = run
            .phase
            .as_deref()
            .is_some_and(|p| p.eq_ignore_ascii_case("Post"))
            && self.expected.post_rules.iter().any(|r| run.is(r, "Post"));
        let Some(node) = state.nodes.get(&run.node).filter(|_| is_post) else {
            return;
        };
        let version = state.version_of(&node.current);
        // A version that was asked for earlier counts too: the node was let go to it.
        let came_from = self.before.nodes.get(&run.node).map(|n| n.version.as_str());
        let on_the_way = self.asked_for.contains(version) && came_from != Some(version);
        let at_target = self.expected.at_version.as_deref().is_none_or(|v| v == version) || on_the_way;
        if node.state != "Done" || node.current != node.desired || !node.ready || !at_target {
            let message = format!(
                "post rule {} began while state was {}, ready {}, version {version}",
                run.rule, node.state, node.ready
            );
            self.breach("J8", revision, &run.node.clone(), message);
        }
    }

    /// J2. One breach for each time the limit is passed.
    fn crowd(&mut self, revision: u64, state: &State, crowded: &mut bool) {
        let in_flight: Vec<&str> = state
            .nodes
            .iter()
            .filter(|(name, n)| self.is_gated(name) && n.current != n.desired)
            .filter(|(_, n)| !same_content(&n.current, &n.desired))
            .map(|(name, _)| name.as_str())
            .collect();
        let too_many = in_flight.len() > self.expected.max_in_flight;
        if too_many && !*crowded {
            let message = format!("more than {} in flight", self.expected.max_in_flight);
            self.breach("J2", revision, &some(&in_flight), message);
        }
        *crowded = too_many;
    }

    /// J6. One breach for each time a pool opens.
    fn open_pools(&mut self, revision: u64, state: &State, open: &mut BTreeSet<String>) {
        for pool in self
            .expected
            .targets
            .iter()
            .filter(|t| !self.expected.ungated.contains(t))
        {
            let outdated = state.pools.get(pool).filter(|p| !p.paused).map(|p| {
                let behind = |n: &NodeView| {
                    n.desired != p.config
                        && !same_content(&n.desired, &p.config)
                        && state.membership(n).is(pool)
                };
                let names = state
                    .nodes
                    .iter()
                    .filter(|(_, n)| behind(n))
                    .map(|(name, _)| name.as_str());
                some(&names.collect::<Vec<_>>())
            });
            match outdated.filter(|names| !names.is_empty()) {
                Some(names) if open.insert(pool.clone()) => self.breaches.push(Breach {
                    invariant: "J6",
                    revision,
                    subject: pool.clone(),
                    message: format!("not paused while outdated: {names}"),
                }),
                Some(_) => {}
                None => {
                    open.remove(pool);
                }
            }
        }
    }

    /// J3.
    fn runs(&mut self, runs: &BTreeMap<String, Run>, entries: &[Entry]) {
        let began = self.since;
        let real = |e: &&Entry| {
            e.revision > began && matches!(e.event, Event::DesiredConfigSet { zero_diff: false, .. })
        };
        let moved: BTreeSet<String> = entries.iter().filter(real).map(|e| e.subject.clone()).collect();
        let moved: Vec<String> = moved.into_iter().filter(|n| self.is_gated(n)).collect();
        let rules = |phase: &'static str, rules: &[String]| {
            rules.iter().map(move |r| (phase, r.clone())).collect::<Vec<_>>()
        };
        let mut wanted = rules("Pre", &self.expected.pre_rules);
        wanted.extend(rules("Post", &self.expected.post_rules));
        for node in moved {
            for (phase, rule) in &wanted {
                let mine: Vec<&Run> = runs
                    .values()
                    .filter(|r| r.node == node && r.is(rule, phase))
                    .collect();
                let passed = mine
                    .iter()
                    .filter(|r| r.passed.is_some_and(|at| at > began))
                    .count();
                let due = *phase == "Pre" || self.expected.at_version.is_some();
                let excused = self.expected.excused.contains(&node);
                if passed > 1 && !self.expected.retries {
                    self.breach(
                        "J3",
                        0,
                        &node,
                        format!("{phase} rule {rule} passed {passed} times"),
                    );
                } else if mine.len() > 1 && !self.expected.retries {
                    self.breach(
                        "J3",
                        0,
                        &node,
                        format!("{phase} rule {rule} ran {} times", mine.len()),
                    );
                } else if passed == 0 && due && !excused {
                    self.breach("J3", 0, &node, format!("{phase} rule {rule} never passed"));
                }
            }
        }
    }

    /// J4.
    fn memberships(&mut self, entries: &[Entry]) {
        let since = self.since;
        for entry in entries.iter().filter(|e| e.revision > since) {
            match &entry.event {
                Event::NodeInTwoPools { pools } => {
                    self.breach(
                        "J4",
                        entry.revision,
                        &entry.subject,
                        format!("in {}", pools.join(" and ")),
                    );
                }
                Event::NodeInNoPool => {
                    self.breach("J4", entry.revision, &entry.subject, "in no pool".into());
                }
                _ => {}
            }
        }
    }

    /// J5, what must be as before.
    fn restoration(&mut self, now: &Snapshot) {
        for (name, before) in &self.before.pools.clone() {
            let Some(after) = now.pools.get(name) else {
                continue;
            };
            let held = self.expected.held.contains(name);
            if before.selector != after.selector {
                self.breach("J5", 0, name, "nodeSelector is not as before".into());
            }
            if before.paused != after.paused && !held {
                self.breach("J5", 0, name, format!("paused is {}", after.paused));
            }
            if held && !after.paused && has_outdated(name, after, now) {
                self.breach("J5", 0, name, "is to be held but is open".into());
            }
            if before.marks != after.marks && !held {
                self.breach("J5", 0, name, format!("marks are {:?}", after.marks));
            }
        }
        for (name, after) in &now.nodes {
            let marks = self
                .before
                .nodes
                .get(name)
                .map(|n| n.marks.clone())
                .unwrap_or_default();
            if marks != after.marks {
                self.breach("J5", 0, name, format!("marks are {:?}", after.marks));
            }
        }
        for lease in now.leases.difference(&self.before.leases) {
            self.breach("J5", 0, lease, "lease in medik8s-leases is left".into());
        }
    }

    /// J5, where nodes must have got.
    fn targets_reached(&mut self, now: &Snapshot) {
        let Some(version) = &self.expected.at_version else {
            return;
        };
        let mut breaches = Vec::new();
        for (name, node) in &now.nodes {
            if !self.is_target(name) || self.expected.excused.contains(name) {
                continue;
            }
            if node.version != *version {
                breaches.push((name.clone(), format!("is at {}, not {version}", node.version)));
            }
            let home = self.homes.get(name).map(|(home, _)| home);
            if home != Some(&node.membership) {
                breaches.push((name.clone(), format!("is in {:?}, not {home:?}", node.membership)));
            }
            if !node.settled && !self.was_cordoned(name) {
                breaches.push((name.clone(), "is not done, ready and schedulable".into()));
            }
        }
        for (name, message) in breaches {
            self.breach("J5", 0, &name, message);
        }
    }

    fn was_cordoned(&self, name: &str) -> bool {
        self.before.nodes.get(name).is_some_and(|n| !n.settled)
    }
}

/// The first few names: two hundred of them say no more.
fn some(names: &[&str]) -> String {
    const FEW: usize = 5;
    match names.len().checked_sub(FEW + 1) {
        None => names.join(", "),
        Some(_) => format!("{} and {} more", names[..FEW].join(", "), names.len() - FEW),
    }
}

fn has_outdated(pool: &str, facts: &PoolFacts, now: &Snapshot) -> bool {
    now.nodes
        .values()
        .any(|n| n.membership.is(pool) && !same_content(&n.desired, &facts.config))
}

/// Remembers the Job of a rule; others are of no interest.
fn note_run(runs: &mut BTreeMap<String, Run>, job: &str, env: &Labels, labels: &Labels) {
    let (Some(node), Some(rule)) = (env.get("NODE_NAME"), env.get("MUTEX_RULE")) else {
        return;
    };
    runs.entry(job.to_owned()).or_insert_with(|| Run {
        node: node.clone(),
        rule: rule.clone(),
        phase: labels
            .get(PHASE_LABEL)
            .or_else(|| env.get("MUTEX_PHASE"))
            .cloned(),
        passed: None,
    });
}
