//! Everything one decision needs, worked out once from the snapshot: the run, its members, what is in
//! flight. Observation only; no action is made here.

use super::{
    journals::{Journals, shielded_by},
    member::{Member, Members},
};
use crate::{
    admit::not_ready::Policy,
    decision::Snapshot,
    finalizer,
    intent::Intent,
    key::{Index, Key},
    mark, names,
    observed::{ChangeView, JobView, Leaving, NodeView, Observed, PoolView, RunConfigView},
    own_gate,
    owner::{Owner, OwnerKind},
    turn::{
        believed::Believed, directive::retry_asked, lease, quarantine::is_quarantined, reservation::of_owner,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, RuleWait, VerdictRecord, marks};
use std::collections::{BTreeMap, BTreeSet};

/// A run's name on node leases.
pub fn lease_holder(owner_uid: &str) -> String {
    lease::holder_of(OwnerKind::MutexRunConfig, owner_uid)
}

/// Everything one decision needs.
#[derive(Debug)]
pub struct RunView<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// What was seen.
    pub observed: &'a Observed,
    /// The owner, by name.
    pub owner: &'a Owner,
    /// The node that a person asks about.
    pub asked: Option<&'a str>,
    /// The owner.
    pub run: &'a RunConfigView,
    /// What it asks.
    pub intent: Intent<'a>,
    /// The version asked for.
    pub desired: Result<String, Why>,
    /// Id of the run to that version; empty if it is not known. With `trigger: AnyConfig` each set of rendered
    /// configurations of that version has a run of its own.
    pub run_id: String,
    /// Id of the run to that version whatever is rendered for it: what a person gave up before it was rendered.
    pub version_id: String,
    /// The nodes of the run in the order of their turns.
    pub members: Vec<Member<'a>>,
    /// All other nodes.
    pub others: Vec<&'a NodeView>,
    /// Its name on node leases.
    pub holder: String,
    /// Nodes that have their turn with another owner.
    pub busy: Index<&'a str, &'a ChangeView>,
    /// Nodes that match two custom pools, of which one is a target.
    pub in_two_pools: Vec<(&'a NodeView, Vec<&'a str>)>,
    /// Nodes that someone else is about to take away or reboot, and in what words.
    pub taken: BTreeMap<&'a str, Leaving>,
    /// Journals of this owner that are in flight though their node, or its pool, is gone.
    pub orphans: Vec<&'a ChangeView>,
    /// All journals of this owner, whatever run they belong to, in the order of their names.
    own: Vec<&'a ChangeView>,
    /// Verdicts of this run's PreRun and PostRun rules.
    pub run_verdicts: &'a [VerdictRecord],
    /// Since when rules of those phases make it wait.
    pub run_waits: &'a [RuleWait],
    /// The round those rules are asked in, from 1: a person may have asked for another.
    pub run_round: i32,
}

impl<'a> RunView<'a> {
    /// Whether a person asks about the node.
    pub fn is_asked(&self, member: &Member<'_>) -> bool {
        self.asked == Some(member.node.name.as_str())
    }

    /// Why a turn of this node that has disrupted nothing yet does not go on at this time.
    pub fn closed_to(&self, node: &NodeView) -> Option<Why> {
        self.intent.schedule.closed_to(node, self.observed, self.now)
    }

    /// Works it out.
    pub fn of(snapshot: &Snapshot<'a>, run: &'a RunConfigView) -> Self {
        let observed = snapshot.observed;
        let intent = Intent::parse(run, observed);
        let desired = desired_version(observed);
        let version_id = desired
            .as_ref()
            .map_or_else(|_| String::new(), |version| names::run_id(&run.uid, version));
        let run_id = desired
            .as_ref()
            .ok()
            .and_then(|version| config_target(observed, &intent, version))
            .map_or_else(|| version_id.clone(), |target| names::run_id(&run.uid, &target));
        let own: Vec<&ChangeView> = of_owner(observed, &run.key.namespace, &run.uid).collect();
        let mut journals = Journals::of((run, &run_id, &version_id), observed, &own);
        let mut orphans = std::mem::take(&mut journals.orphans);
        let busy = observed
            .changing()
            .filter(|change| change.spec.owner_ref.uid != run.uid)
            .map(|change| (change.spec.node_name.as_str(), change))
            .collect();
        let Members {
            own: members,
            others,
            in_two_pools,
            orphans: of_no_pool,
        } = Members::of(observed, &intent, &journals);
        orphans.extend(of_no_pool);
        let last = run.status.run.as_ref().filter(|last| last.id == run_id);
        let run_verdicts = last.map_or(&[][..], |last| last.verdicts.as_slice());
        let run_waits = last.map_or(&[][..], |last| last.rule_waits.as_slice());
        Self {
            now: snapshot.now,
            owner: snapshot.owner,
            asked: snapshot.asked,
            busy,
            observed,
            run,
            intent,
            desired,
            members,
            others,
            holder: lease_holder(&run.uid),
            in_two_pools,
            taken: observed.taken(snapshot.now),
            orphans,
            run_verdicts,
            run_waits,
            run_round: run_round(run, &run_id),
            run_id,
            version_id,
            own,
        }
    }

    /// All journals of this owner, whatever run they belong to.
    pub fn changes(&self) -> impl Iterator<Item = &'a ChangeView> {
        self.own.iter().copied()
    }

    /// Number of nodes that have their turn.
    pub fn in_flight(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.in_flight().is_some())
            .count()
    }

    /// Pools that carry our pause mark.
    pub fn marked_pools(&self) -> impl Iterator<Item = (&'a PoolView, mark::PausedBy)> {
        let pools = self.observed.pools.values();
        let marked = pools.filter_map(|pool| Some((pool, mark::paused_by(pool)?)));
        marked.filter(|(_, mark)| mark.owner == self.run.uid)
    }

    /// Pools whose node selector this run has set, with what was there.
    pub fn selected_pools(&self) -> impl Iterator<Item = (&'a PoolView, mark::PriorSelector)> {
        let pools = self.observed.pools.values();
        let marked = pools.filter_map(|pool| Some((pool, mark::prior_selector(pool)?)));
        marked.filter(|(_, mark)| mark.owner == self.run.uid)
    }

    /// Nodes that carry rule labels of this owner.
    pub fn labelled_nodes(&self) -> impl Iterator<Item = &'a NodeView> {
        let nodes = self.observed.nodes.values();
        nodes.filter(|node| self.labelled_by_us(node))
    }

    /// Those of them that were let go into the canary pool.
    pub fn nodes_in_canary(&self) -> impl Iterator<Item = &'a NodeView> {
        self.labelled_nodes()
            .filter(|node| !node.label(marks::RELEASE).is_empty())
    }

    /// Whether the pool stays paused when a run is over (`hold: Always`).
    pub fn keeps_paused(&self, pool: &PoolView) -> bool {
        // What cannot be read, or was dropped, may be the wish that they stay.
        let is_lost = || own_gate::lost(self.owner, self.run.into()).is_some();
        let stays = self.intent.hold_always || self.run.misread.is_some() || is_lost();
        stays && self.intent.pools.iter().any(|target| target.name == pool.name)
    }

    /// Whether anything of ours is on a pool or a node.
    pub fn has_marks(&self) -> bool {
        self.marked_pools().next().is_some() || self.has_marks_of_a_run()
    }

    /// Whether anything of ours is on a pool or a node that does not stay between runs.
    pub fn has_marks_of_a_run(&self) -> bool {
        self.marked_pools().any(|(pool, _)| !self.keeps_paused(pool))
            || self.has_marks_on_nodes_or_selectors()
    }

    /// Whether the strategy CanaryPool has left something on a node or a selector.
    pub fn has_marks_on_nodes_or_selectors(&self) -> bool {
        self.selected_pools().next().is_some() || self.labelled_nodes().next().is_some()
    }

    /// Whether anything of ours is on an object that only the cluster's administrators write: what a run took
    /// while it was watched.
    pub fn holds_anything(&self) -> bool {
        let uid = &self.run.uid;
        let is_taken = |node: &NodeView| shielded_by(node, uid) || is_quarantined(node, uid);
        self.has_marks()
            || self.observed.nodes.values().any(is_taken)
            || self
                .observed
                .leases
                .values()
                .any(|lease| lease.holder == self.holder)
            || Believed::of(self.observed).has_marks(&self.run.uid)
    }

    /// Whether a run goes on: something is behind, has its turn, or is marked.
    pub fn is_active(&self) -> bool {
        self.behind() || self.has_marks_of_a_run() || self.in_flight() > 0
    }

    /// Whether the run has begun and has not given everything back.
    pub fn has_begun(&self) -> bool {
        finalizer::is_on(self.owner, self.run.into()) || self.in_flight() > 0 || self.has_marks()
    }

    /// Whether the node carries rule labels of this owner.
    pub fn labelled_by_us(&self, node: &NodeView) -> bool {
        mark::labelled_by(node).is_some_and(|mark| mark.owner == self.run.uid)
    }

    /// The version of a rendered configuration.
    pub fn config_version(&self, config: &str) -> Option<&'a str> {
        self.observed.configs.get(config)?.version.as_deref()
    }

    /// Whether any node or pool of the run is not at the version asked for. Nodes that were left out are
    /// where they shall be.
    pub fn behind(&self) -> bool {
        let desired = match &self.desired {
            Ok(desired) => desired.as_str(),
            // What is asked for cannot be understood: whatever is not at it is behind it, and is held.
            Err(_) => match &self.observed.cluster_version {
                Some(version) => version.asked_for(),
                None => return self.rolls_unasked(),
            },
        };
        let waits = |member: &Member<'_>| {
            member.left_out().is_none_or(retry_asked) && self.given_up(member).is_none()
        };
        self.members
            .iter()
            .any(|member| self.is_behind(member, desired) && waits(member))
            || (!self.members.is_empty()
                && self.intent.pools.iter().any(|pool| {
                    self.config_version(&pool.config)
                        .is_some_and(|version| version != desired)
                }))
    }

    /// The node runs its pool's configuration, and that is of the version asked for.
    pub fn at_target(&self, member: &Member<'_>) -> bool {
        let is_asked_for = |version: &String| member.version == Some(version);
        member.at_pool_config() && self.desired.as_ref().is_ok_and(is_asked_for)
    }

    /// When a node that is not Ready is left out, if the owner leaves such nodes out.
    pub fn leaves_out_at(&self, member: &Member<'_>) -> Option<Timestamp> {
        let waits = member.in_flight().is_none();
        self.not_ready().left_out_at(member.node).filter(|_| waits)
    }

    /// Why a node that has no turn is left out for now, as it is not Ready for too long. It is taken up again once it is Ready.
    pub fn given_up(&self, member: &Member<'_>) -> Option<Why> {
        let waits = member.in_flight().is_none();
        let given_up = waits.then(|| self.not_ready().given_up(member.node, self.now));
        given_up.flatten()
    }

    /// A run takes no node that is not Ready.
    const fn not_ready(&self) -> Policy {
        Policy {
            takes: false,
            leave_out_after: self.intent.leave_out_after,
        }
    }

    /// Nobody knows which version is asked for, and a pool is rendered for another one than its nodes run.
    fn rolls_unasked(&self) -> bool {
        self.members.iter().any(|member| {
            let rendered = self.config_version(&member.pool.config);
            rendered.is_some() && member.version.is_some() && rendered != member.version
        })
    }

    fn is_behind(&self, member: &Member<'_>, desired: &str) -> bool {
        member.version.is_some_and(|version| version != desired)
            || (self.intent.any_config && member.outdated())
    }

    /// The Jobs of this run, and of the owner's runs before it.
    pub fn jobs(&self) -> impl Iterator<Item = (&'a Key, &'a JobView)> {
        let of_changes = self.changes().map(|change| change.spec.target.run_id.as_str());
        let ids: BTreeSet<&str> = of_changes.chain([self.run_id.as_str()]).collect();
        let observed = self.observed;
        let jobs = observed.jobs.iter();
        jobs.filter(move |(_, job)| ids.contains(job.run.as_str()))
    }
}

/// The round that a person asked for; another run's is none of this run's.
fn run_round(run: &RunConfigView, run_id: &str) -> i32 {
    let asked = run.annotations.get(marks::RETRY);
    asked
        .and_then(|text| text.split_once('/'))
        .filter(|(id, _)| *id == run_id && !run_id.is_empty())
        .and_then(|(_, round)| round.parse().ok())
        .map_or(1, |round: i32| round.max(1))
}

/// `trigger: AnyConfig`: what the run goes to, once every target pool is rendered for the version.
fn config_target(observed: &Observed, intent: &Intent<'_>, version: &str) -> Option<String> {
    if !intent.any_config || intent.pools.is_empty() {
        return None;
    }
    let rendered = |pool: &&PoolView| {
        let config = observed.configs.get(&pool.config);
        config.and_then(|config| config.version.as_deref()) == Some(version)
    };
    let mut pools: Vec<(&str, &str)> = intent
        .pools
        .iter()
        .filter(|pool| rendered(pool))
        .map(|pool| (pool.name.as_str(), pool.config.as_str()))
        .collect();
    pools.sort_unstable();
    (pools.len() == intent.pools.len()).then(|| names::config_target(version, &pools))
}

/// The version asked for, if it is one.
fn desired_version(observed: &Observed) -> Result<String, Why> {
    let Some(cluster) = &observed.cluster_version else {
        return Err(Why::new(
            Reason::OpenShiftMissing,
            "found no ClusterVersion version, wanted an OpenShift cluster",
        ));
    };
    let version = cluster.asked_for();
    match semver::Version::parse(version) {
        Ok(_) => Ok(version.to_owned()),
        Err(error) => Err(Why::new(
            Reason::InvalidVersion,
            format!(
                "ClusterVersion version: found {version:?}, wanted a semantic version such as 4.17.0: {error}"
            ),
        )),
    }
}
