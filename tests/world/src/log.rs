//! What happened, as typed events, derived from [`Record`]s alone: from what the API server showed,
//! not from what any controller says of itself.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::jiff::Timestamp;

use crate::content::same_content;
use crate::membership::{Labels, Membership, is_windows, primary};
use crate::record::{Change, JobView, NodeView, PodView, PoolView, Record, VersionView};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Revision of etcd at which it happened.
    pub revision: u64,
    /// When it was seen.
    pub at: Timestamp,
    /// Name of the node, pool, pod (`namespace/name`) or `cluster`.
    pub subject: String,
    /// What it was.
    pub event: Event,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} {:<28} {:?}", self.at, self.subject, self.event)
    }
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A node joined.
    Joined,
    /// A node is gone.
    Deleted,
    /// Someone gave the node a new desiredConfig.
    DesiredConfigSet {
        /// Field manager.
        by: String,
        /// The config.
        config: String,
        /// Whether its content is that of the current one: no drain, no reboot.
        zero_diff: bool,
    },
    /// The daemon began to work.
    Working,
    /// The daemon asked for a drain.
    DrainStarted,
    /// The drain was acknowledged.
    Drained,
    /// The node goes down for a reboot.
    Rebooting,
    /// The node became Ready.
    BackReady,
    /// The node ceased to be Ready.
    NotReady,
    /// unschedulable was set.
    Cordoned {
        /// Field manager.
        by: String,
    },
    /// unschedulable was removed.
    Uncordoned {
        /// Field manager.
        by: String,
    },
    /// The node reached a config.
    Done {
        /// The config.
        config: String,
        /// The version that config says it is of.
        version: String,
    },
    /// The daemon says Degraded or Unreconcilable.
    Failing {
        /// Which of the two.
        state: String,
        /// Why.
        reason: String,
    },
    /// The primary pool of a node changed.
    Moved {
        /// Where it is now.
        to: String,
    },
    /// More than one custom pool selects the node.
    NodeInTwoPools {
        /// Those pools.
        pools: Vec<String>,
    },
    /// No pool selects the node.
    NodeInNoPool,
    /// The pool has a new rendered config.
    PoolRendered {
        /// The config.
        config: String,
    },
    /// paused was set.
    PoolPaused {
        /// Field manager.
        by: String,
    },
    /// paused was removed.
    PoolUnpaused {
        /// Field manager.
        by: String,
    },
    /// The pool's nodeSelector changed.
    PoolSelectorChanged,
    /// All of the pool's nodes are at its config.
    PoolUpdated {
        /// The config.
        config: String,
    },
    /// The pool became Degraded.
    PoolDegraded,
    /// The administrator asks for a version.
    VersionDesired {
        /// The version, or image.
        version: String,
    },
    /// The cluster-version operator has begun with it.
    VersionAccepted {
        /// The version.
        version: String,
    },
    /// The control plane is at it.
    ControlPlaneCompleted {
        /// The version.
        version: String,
    },
    /// A pod of a Job began to run.
    JobPodStarted {
        /// Name of the Job.
        job: String,
        /// Node it runs on.
        node: String,
        /// Plain values of its environment.
        env: Labels,
    },
    /// A pod of a Job ended.
    JobPodFinished {
        /// Name of the Job.
        job: String,
        /// Exit code of its first container, if that had run.
        exit_code: Option<i32>,
        /// Plain values of its environment.
        env: Labels,
    },
}

/// All that is known at some point of a replay.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "one map per kind")]
pub struct State {
    pub nodes: BTreeMap<String, NodeView>,
    pub pools: BTreeMap<String, PoolView>,
    /// Rendered config to version.
    pub configs: BTreeMap<String, String>,
    pub version: VersionView,
    pub pods: BTreeMap<String, PodView>,
    pub jobs: BTreeMap<String, JobView>,
}

impl State {
    /// Takes in the next record.
    pub fn step(&mut self, record: &Record) {
        match record.change.clone() {
            Change::Node(name, view) => put(&mut self.nodes, name, view.map(|v| *v)),
            Change::Pool(name, view) => put(&mut self.pools, name, view.map(|v| *v)),
            Change::Config(name, version) => put(&mut self.configs, name, version),
            Change::Version(view) => self.version = *view,
            Change::Pod(key, view) => put(&mut self.pods, key, view.map(|v| *v)),
            Change::Job(key, view) => put(&mut self.jobs, key, view.map(|v| *v)),
        }
    }

    /// The node's primary pool.
    pub fn membership(&self, node: &NodeView) -> Membership {
        primary(
            &node.labels,
            self.pools.iter().map(|(n, p)| (n.as_str(), p.selector.as_ref())),
        )
    }

    /// The version of a rendered config; empty if unknown.
    pub fn version_of(&self, config: &str) -> &str {
        self.configs.get(config).map_or("", String::as_str)
    }
}

fn put<V>(map: &mut BTreeMap<String, V>, key: String, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}

/// Turns sorted records into events.
pub(crate) fn entries(records: &[Record]) -> Vec<Entry> {
    let mut state = State::default();
    let mut membership: BTreeMap<String, Membership> = BTreeMap::new();
    let mut entries = Vec::new();
    for record in records {
        let before = state.part(record);
        state.step(record);
        let mut events: Vec<(String, Event)> = match &record.change {
            Change::Node(name, new) => {
                named(name, node_events(before.nodes.get(name), new.as_deref(), &state))
            }
            Change::Pool(name, Some(new)) => named(name, pool_events(before.pools.get(name), new)),
            Change::Pod(key, Some(new)) => named(key, pod_events(before.pods.get(key), new)),
            Change::Version(new) => named("cluster", version_events(&before.version, new)),
            Change::Pool(_, None) | Change::Pod(_, None) | Change::Config(..) | Change::Job(..) => Vec::new(),
        };
        if matches!(record.change, Change::Node(..) | Change::Pool(..)) {
            events.extend(membership_events(&state, record, &mut membership));
        }
        let (revision, at) = (record.revision, record.at);
        entries.extend(events.into_iter().map(|(subject, event)| Entry {
            revision,
            at,
            subject,
            event,
        }));
    }
    entries
}

fn named(subject: &str, events: Vec<Event>) -> Vec<(String, Event)> {
    events
        .into_iter()
        .map(|event| (subject.to_owned(), event))
        .collect()
}

impl State {
    /// Only what the record is about to change: a whole copy per record would be quadratic.
    fn part(&self, record: &Record) -> Self {
        let mut part = Self {
            version: self.version.clone(),
            ..Self::default()
        };
        match &record.change {
            Change::Node(name, _) => put(&mut part.nodes, name.clone(), self.nodes.get(name).cloned()),
            Change::Pool(name, _) => put(&mut part.pools, name.clone(), self.pools.get(name).cloned()),
            Change::Pod(key, _) => put(&mut part.pods, key.clone(), self.pods.get(key).cloned()),
            Change::Config(..) | Change::Version(_) | Change::Job(..) => {}
        }
        part
    }
}

fn node_events(old: Option<&NodeView>, new: Option<&NodeView>, state: &State) -> Vec<Event> {
    let Some(new) = new else {
        return vec![Event::Deleted];
    };
    let Some(old) = old.filter(|old| old.uid == new.uid) else {
        return vec![Event::Joined];
    };
    let mut events = Vec::new();
    if old.desired != new.desired {
        events.push(Event::DesiredConfigSet {
            by: new.desired_by.clone(),
            config: new.desired.clone(),
            zero_diff: same_content(&new.current, &new.desired),
        });
    }
    if old.state != new.state {
        match new.state.as_str() {
            "Working" => events.push(Event::Working),
            "Degraded" | "Unreconcilable" => {
                events.push(Event::Failing {
                    state: new.state.clone(),
                    reason: new.reason.clone(),
                });
            }
            _ => {}
        }
    }
    if old.desired_drain != new.desired_drain && new.desired_drain.starts_with("drain-") {
        events.push(Event::DrainStarted);
    }
    if old.unschedulable != new.unschedulable {
        let by = new.unschedulable_by.clone();
        events.push(if new.unschedulable {
            Event::Cordoned { by }
        } else {
            Event::Uncordoned { by }
        });
    }
    if old.last_applied_drain != new.last_applied_drain && new.last_applied_drain.starts_with("drain-") {
        events.push(Event::Drained);
    }
    if !old.rebooting && new.rebooting {
        events.push(Event::Rebooting);
    }
    match (old.ready, new.ready) {
        (true, false) => events.push(Event::NotReady),
        (false, true) => events.push(Event::BackReady),
        _ => {}
    }
    if (old.state != new.state || old.current != new.current) && new.state == "Done" {
        let version = state.version_of(&new.current).to_owned();
        events.push(Event::Done {
            config: new.current.clone(),
            version,
        });
    }
    events
}

fn pool_events(old: Option<&PoolView>, new: &PoolView) -> Vec<Event> {
    let mut events = Vec::new();
    let Some(old) = old else { return events };
    if old.config != new.config {
        events.push(Event::PoolRendered {
            config: new.config.clone(),
        });
    }
    if old.paused != new.paused {
        let by = new.paused_by.clone();
        events.push(if new.paused {
            Event::PoolPaused { by }
        } else {
            Event::PoolUnpaused { by }
        });
    }
    if old.selector != new.selector {
        events.push(Event::PoolSelectorChanged);
    }
    if !old.updated && new.updated {
        events.push(Event::PoolUpdated {
            config: new.config.clone(),
        });
    }
    if !old.degraded && new.degraded {
        events.push(Event::PoolDegraded);
    }
    events
}

fn pod_events(old: Option<&PodView>, new: &PodView) -> Vec<Event> {
    let phase = |p: Option<&PodView>| match p.map(|p| p.phase.as_str()) {
        Some("Running") => 1,
        Some("Succeeded" | "Failed") => 2,
        _ => 0,
    };
    let (before, now) = (phase(old), phase(Some(new)));
    let (job, env) = (new.job.0.clone(), new.env.clone());
    let mut events = Vec::new();
    if before < 1 && now >= 1 {
        events.push(Event::JobPodStarted {
            job: job.clone(),
            node: new.node.clone(),
            env: env.clone(),
        });
    }
    if before < 2 && now == 2 {
        events.push(Event::JobPodFinished {
            job,
            exit_code: new.exit_code,
            env,
        });
    }
    events
}

fn version_events(old: &VersionView, new: &VersionView) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(version) = new.wanted.clone().filter(|_| old.wanted != new.wanted) {
        events.push(Event::VersionDesired { version });
    }
    let began = !old.desired.is_empty() && old.desired != new.desired;
    if began {
        events.push(Event::VersionAccepted {
            version: new.desired.clone(),
        });
    }
    let newest = |v: &VersionView| v.history.first().cloned();
    match newest(new) {
        Some((version, state)) if state == "Completed" && newest(old) != newest(new) => {
            events.push(Event::ControlPlaneCompleted { version });
        }
        _ => {}
    }
    events
}

/// Nodes whose membership changed by this record.
fn membership_events(
    state: &State,
    record: &Record,
    known: &mut BTreeMap<String, Membership>,
) -> Vec<(String, Event)> {
    let changed: Vec<&String> = match &record.change {
        Change::Node(name, _) => vec![name],
        _ => state.nodes.keys().collect(),
    };
    let mut events = Vec::new();
    for name in changed {
        let Some(node) = state.nodes.get(name) else {
            known.remove(name);
            continue;
        };
        // It has no pool from birth to death, and nobody expects it to.
        if is_windows(&node.labels) {
            continue;
        }
        let now = state.membership(node);
        let before = known.insert(name.clone(), now.clone());
        if before.as_ref() == Some(&now) {
            continue;
        }
        match (before, now) {
            // A node's first pool is no move.
            (None, Membership::Pool(_)) => {}
            (_, Membership::Pool(to)) => events.push((name.clone(), Event::Moved { to })),
            (_, Membership::None) => events.push((name.clone(), Event::NodeInNoPool)),
            (_, Membership::TwoCustom(pools)) => events.push((name.clone(), Event::NodeInTwoPools { pools })),
        }
    }
    events
}
