//! Everything one decision needs, worked out once from the snapshot: the run, its members, what is in
//! flight. Observation only; no action is made here.

use crate::{
    admit::not_ready::{left_out_at, left_out_not_ready},
    decision::Snapshot,
    intent::Intent,
    key::Key,
    mark, names,
    observed::{
        ChangeView, ClusterVersionView, JobView, Leaving, MachineApi, MachineView, NodeView, Observed,
        PoolView, RunConfigView,
    },
    owner::Owner,
    owners::mutex_run_config::gates::watched::not_watched,
    pools::{self, Home},
    rules,
    selector::Selector,
    turn::{
        believed::Believed,
        directive::{persons_words, retry_asked},
        lease::lease_holder,
        quarantine::is_quarantined,
        reservation::of_owner,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{DirectiveAction, FailurePolicy, Phase, Reason, RuleWait, Step, VerdictRecord, marks};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node of the run.
#[derive(Debug)]
pub struct Member<'a> {
    /// The node.
    pub node: &'a NodeView,
    /// Its home pool, whatever numo made of labels and selectors for the time being. A node that left its
    /// pool in flight keeps the one it was admitted in.
    pub pool: &'a PoolView,
    /// Where it lives now, if it left its pool in flight: the other pool, if it is one, and why it is not
    /// to be let go.
    pub strayed: Option<(Option<&'a PoolView>, Why)>,
    /// The rendered configuration it runs.
    pub current: &'a str,
    /// The rendered configuration it shall run.
    pub desired: &'a str,
    /// It runs what it shall run, and the daemon says Done.
    pub done: bool,
    /// It runs, or shall run, an image that was built on the cluster.
    pub layered: bool,
    /// It carries a shield, ours or another owner's.
    pub shielded: bool,
    /// The version it runs, if known: that of its current configuration; the NFD label only where that is
    /// absent.
    pub version: Option<&'a str>,
    /// Its journal in this run.
    pub change: Option<&'a ChangeView>,
    /// Its journal in an earlier run of this owner that has not ended.
    pub superseded: Option<&'a ChangeView>,
}

impl Member<'_> {
    /// The node runs its pool's configuration, and the daemon is done.
    pub fn at_pool_config(&self) -> bool {
        self.done && self.current == self.pool.config
    }

    /// The node runs the configuration of the pool it lives in now, and the daemon is done.
    pub fn settled(&self) -> bool {
        let pool = match &self.strayed {
            None => Some(self.pool),
            Some((pool, _)) => *pool,
        };
        self.done && pool.is_some_and(|pool| pool.config == self.current)
    }

    /// The node would roll if its pool were unpaused now.
    pub fn outdated(&self) -> bool {
        self.current != self.pool.config || self.desired != self.pool.config
    }

    /// The journal that is in flight, if any.
    pub fn in_flight(&self) -> Option<&ChangeView> {
        self.superseded
            .or(self.change)
            .filter(|change| change.in_flight())
    }

    /// Whether the node left the run for good: skipped or failed, with its turn given back. A turn that
    /// was only given up with the run may begin again.
    pub fn left_out(&self) -> Option<&ChangeView> {
        self.change.filter(|change| match change.status.step {
            Some(Step::Skipped) => true,
            Some(Step::Failed) => change.status.reason.as_deref() != Some(Reason::RunGivenUp.name()),
            _ => false,
        })
    }

    /// Whether a person wants the rules after the change asked again, as the node was left out after numo had let it go. Whom
    /// somebody else has changed has none.
    pub fn rules_asked_again(&self) -> bool {
        self.left_out().is_some_and(|change| {
            let mut entries = change.status.entries.iter();
            retry_asked(change)
                && change.status.pin.is_some()
                && entries.any(|entry| entry.step == Step::Released)
        })
    }
}

/// A Machine and where it is.
pub type Placed<'a> = (&'a (MachineApi, Key), &'a MachineView);

/// The Machines of each node.
fn machines(observed: &Observed) -> HashMap<&str, Vec<Placed<'_>>> {
    let mut all: HashMap<&str, Vec<Placed<'_>>> = HashMap::with_capacity(observed.machines.len());
    for (place, machine) in observed.machines_of_nodes() {
        all.entry(&machine.node).or_default().push((place, machine));
    }
    all
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
    /// Nodes that have their turn with another owner.
    pub busy: HashMap<&'a str, &'a ChangeView>,
    /// Nodes that match two custom pools, of which one is a target.
    pub in_two_pools: Vec<(&'a NodeView, Vec<&'a str>)>,
    /// Nodes that someone else is about to take away or reboot, and in what words.
    pub taken: BTreeMap<&'a str, Leaving>,
    /// Journals of this owner that are in flight though their node, or its pool, is gone.
    pub orphans: Vec<&'a ChangeView>,
    /// All journals of this owner, whatever run they belong to, in the order of their names.
    own: Vec<&'a ChangeView>,
    /// The Machines of each node: a pass over all of them for each node in flight would be most of a decision.
    machines: HashMap<&'a str, Vec<Placed<'a>>>,
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
        let nodes: HashMap<&str, &NodeView> = observed
            .nodes
            .values()
            .map(|node| (node.name.as_str(), node))
            .collect();
        let own: Vec<&ChangeView> = of_owner(observed, &run.key.namespace, &run.uid).collect();
        let Journals {
            current,
            superseded,
            mut orphans,
        } = Journals::of((run, &run_id), observed, &nodes, &own);
        let busy = observed
            .changing()
            .filter(|change| change.spec.owner_ref.uid != run.uid)
            .map(|change| (change.spec.node_name.as_str(), change))
            .collect();
        let (members, in_two_pools) = members(observed, &intent, &current, &superseded, &mut orphans);
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
            in_two_pools,
            taken: observed.taken(snapshot.now),
            orphans,
            run_verdicts,
            run_waits,
            run_round: run_round(run, &run_id),
            run_id,
            version_id,
            own,
            machines: machines(observed),
        }
    }

    /// All journals of this owner, whatever run they belong to.
    pub fn changes(&self) -> impl Iterator<Item = &'a ChangeView> {
        self.own.iter().copied()
    }

    /// The Machines of a node, one as a rule.
    pub fn machines_of(&self, node: &str) -> impl Iterator<Item = Placed<'a>> + '_ {
        self.machines.get(node).into_iter().flatten().copied()
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
        let uid = &self.run.uid;
        self.observed
            .pools
            .values()
            .filter_map(|pool| mark::paused_by(pool).map(|mark| (pool, mark)))
            .filter(move |(_, mark)| mark.owner == *uid)
    }

    /// Whether the pool stays paused when a run is over (`hold: Always`).
    pub fn keeps_paused(&self, pool: &PoolView) -> bool {
        // What cannot be read may be the wish that they stay.
        let stays = self.intent.hold_always || self.run.misread.is_some();
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
        let uid = &self.run.uid;
        self.observed
            .pools
            .values()
            .any(|pool| mark::prior_selector(pool).is_some_and(|mark| mark.owner == *uid))
            || self.observed.nodes.values().any(|node| self.labelled_by_us(node))
    }

    /// Whether anything of ours is on an object that only the cluster's administrators write: what a run took
    /// while it was watched.
    pub fn holds_anything(&self) -> bool {
        let holder = lease_holder(&self.run.uid);
        self.has_marks()
            || self
                .observed
                .nodes
                .values()
                .any(|node| shielded_by(node, &self.run.uid) || is_quarantined(node, &self.run.uid))
            || self.observed.leases.values().any(|lease| lease.holder == holder)
            || Believed::of(self.observed).has_marks(&self.run.uid)
    }

    /// Whether a run goes on: something is behind, has its turn, or is marked.
    pub fn is_active(&self) -> bool {
        self.behind() || self.has_marks_of_a_run() || self.in_flight() > 0
    }

    /// Whether the run has begun and has not given everything back.
    pub fn has_begun(&self) -> bool {
        self.run
            .finalizers
            .iter()
            .any(|finalizer| finalizer == marks::FINALIZER)
            || self.in_flight() > 0
            || self.has_marks()
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
            Err(_) => match self
                .observed
                .cluster_version
                .as_ref()
                .map(ClusterVersionView::asked_for)
            {
                Some(asked) => asked,
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

    /// When a node that is not Ready is left out, if the owner leaves such nodes out.
    pub fn leaves_out_at(&self, member: &Member<'_>) -> Option<Timestamp> {
        let waits = !member.node.ready && member.in_flight().is_none();
        left_out_at(member.node, self.intent.leave_out_after?).filter(|_| waits)
    }

    /// Why a node that has no turn is left out for now, as it is not Ready for too long. It is taken up again once it is Ready.
    pub fn given_up(&self, member: &Member<'_>) -> Option<Why> {
        let at = self.leaves_out_at(member)?;
        (at <= self.now).then(|| left_out_not_ready(member.node))
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

    /// Why this run is being left, if it is: deleted, or given up by a person or a rule.
    pub fn leaving(&self) -> Option<Why> {
        if self.run.deleting {
            return Some(Why::new(
                Reason::Deleting,
                format!("MutexRunConfig {} is being deleted", self.run.key),
            ));
        }
        if self.observed.namespaces.get(&self.run.key.namespace) == Some(&true) {
            return Some(Why::new(
                Reason::NamespaceTerminating,
                format!("namespace {} is being deleted", self.run.key.namespace),
            ));
        }
        if let Some(why) = not_watched(self.run, &self.observed.settings) {
            return Some(why);
        }
        if self.run_id.is_empty() {
            return None;
        }
        if let Some(why) = self.given_up_by_run_rule() {
            return Some(why);
        }
        if let Some(id) = self
            .run
            .annotations
            .get(marks::ABORT)
            .filter(|id| **id == self.run_id || **id == self.version_id)
        {
            let message = format!(
                "MutexRunConfig {} has annotation {}: {id}; remove it to go on",
                self.run.key,
                marks::ABORT
            );
            return Some(Why::new(Reason::Aborted, message));
        }
        self.changes()
            .filter(|change| change.spec.target.run_id == self.run_id)
            .find_map(|change| {
                let by_person = change
                    .spec
                    .directive
                    .as_ref()
                    .is_some_and(|directive| directive.action == DirectiveAction::Abort);
                let by_rule = change.status.step == Some(Step::Failed)
                    && change.status.reason.as_deref() == Some(Reason::RuleFailed.name())
                    && !retry_asked(change);
                let message = match &change.spec.directive {
                    Some(directive) if by_person => persons_words("given up", change, directive),
                    _ if by_rule => {
                        let why = change.status.message.as_deref().unwrap_or("a rule failed");
                        format!("NodeChange {} gave the run up: {why}", change.key)
                    }
                    _ => return None,
                };
                Some(Why::new(Reason::Aborted, message))
            })
    }

    /// A PreRun rule failed for good, and its policy is Abort.
    fn given_up_by_run_rule(&self) -> Option<Why> {
        let rules = self.intent.rules.iter().filter_map(|(_, rule)| *rule);
        rules
            .filter_map(|rule| rules::failed_for_good(rule, Phase::PreRun, self.run_verdicts, self.run_round))
            .find(|(policy, _)| *policy == FailurePolicy::Abort)
            .map(|(_, why)| {
                let ways = format!("{}; {}", why.message, self.ways_to_ask_again());
                Why::new(Reason::Aborted, ways)
            })
    }

    /// How a person lets the run's own rules be asked again.
    pub fn ways_to_ask_again(&self) -> String {
        format!(
            "`numo retry -n {} mutexrunconfig/{}` asks the rules of the run again",
            self.run.key.namespace, self.run.key.name
        )
    }

    /// The Jobs of this run, and of the owner's runs before it.
    pub fn jobs(&self) -> impl Iterator<Item = (&'a Key, &'a JobView)> {
        let of_changes = self.changes().map(|change| change.spec.target.run_id.as_str());
        let ids: BTreeSet<&str> = of_changes.chain([self.run_id.as_str()]).collect();
        let observed = self.observed;
        observed
            .jobs
            .iter()
            .filter(move |(_, job)| ids.contains(job.run.as_str()))
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

fn shielded_by(node: &NodeView, uid: &str) -> bool {
    mark::shielded(node).is_some_and(|mark| mark.owner == uid)
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

/// NodeChanges by the name of their node. Only looked up, never gone through: its order is by chance.
type Changes<'a> = HashMap<&'a str, &'a ChangeView>;

/// The journals of a run, by what they are to it.
struct Journals<'a> {
    current: Changes<'a>,
    /// In flight for another target.
    superseded: Changes<'a>,
    /// In flight, of nodes that are gone.
    orphans: Vec<&'a ChangeView>,
}

impl<'a> Journals<'a> {
    fn of(
        (run, run_id): (&RunConfigView, &str),
        observed: &Observed,
        nodes: &HashMap<&str, &NodeView>,
        own: &[&'a ChangeView],
    ) -> Self {
        let mut found = Self {
            current: Changes::with_capacity(own.len()),
            superseded: Changes::new(),
            orphans: Vec::new(),
        };
        // Where this kind is not watched anyone may have written a NodeChange: only a node that carries our
        // shield had its turn.
        let watched = not_watched(run, &observed.settings).is_none();
        for change in own.iter().copied() {
            let node = change.spec.node_name.as_str();
            match nodes.get(node).filter(|found| found.uid == change.spec.node_uid) {
                Some(node) if !watched && !shielded_by(node, &run.uid) => {}
                None if change.in_flight() => found.orphans.push(change),
                Some(_) if change.spec.target.run_id == run_id => {
                    found.current.insert(node, change);
                }
                Some(_) if change.in_flight() => {
                    found.superseded.insert(node, change);
                }
                None | Some(_) => {}
            }
        }
        found
    }
}

type Members<'a> = (Vec<Member<'a>>, Vec<(&'a NodeView, Vec<&'a str>)>);

fn members<'a>(
    observed: &'a Observed,
    intent: &Intent<'a>,
    current: &Changes<'a>,
    superseded: &Changes<'a>,
    orphans: &mut Vec<&'a ChangeView>,
) -> Members<'a> {
    let selectors: Vec<(&str, serde_json::Value)> = observed
        .pools
        .values()
        .map(|pool| (pool.name.as_str(), mark::own_selector(pool)))
        .collect();
    let selectors: Vec<(&str, Selector<'_>)> = selectors
        .iter()
        .map(|(name, selector)| (*name, Selector::of(selector)))
        .collect();
    let rank: BTreeMap<&str, usize> = intent
        .pools
        .iter()
        .enumerate()
        .map(|(index, pool)| (pool.name.as_str(), index))
        .collect();
    // Few configurations, many nodes: they are looked up by hash.
    let versions: HashMap<&str, &str> = observed
        .configs
        .iter()
        .filter_map(|(name, config)| Some((name.as_str(), config.version.as_deref()?)))
        .collect();
    let mut members = Vec::with_capacity(observed.nodes.len());
    let mut in_two_pools = Vec::new();
    for node in observed.nodes.values() {
        let change = current.get(node.name.as_str()).copied();
        let superseded = superseded.get(node.name.as_str()).copied();
        let mut join = |pool, strayed| {
            let notes = Notes::of(node);
            let current = notes.current;
            members.push(Member {
                node,
                pool,
                strayed,
                current,
                desired: notes.desired,
                done: !current.is_empty() && current == notes.desired && notes.state == "Done",
                layered: notes.layered,
                shielded: notes.shielded,
                version: versions.get(current).copied().or_else(|| {
                    let label = node.labels.get(marks::openshift::RELEASE_VERSION);
                    label.map(String::as_str)
                }),
                change,
                superseded,
            });
        };
        let selecting = selectors
            .iter()
            .map(|(name, selector)| (*name, selector.selects(&node.labels)));
        let home = pools::home_among(&node.labels, selecting);
        if let Home::Pool(name) = home
            && let Some(pool) = rank.get(name).and_then(|index| intent.pools.get(*index))
        {
            join(*pool, None);
            continue;
        }
        // What is in flight stays in the run to its end, whatever became of labels, targets and spec.
        if let Some(change) = superseded.or(change).filter(|change| change.in_flight()) {
            match observed.pools.get(&change.spec.target.pool) {
                Some(pool) => join(pool, Some(strayed(observed, node, pool, &home))),
                None => orphans.push(change),
            }
            continue;
        }
        match home {
            Home::Several(names) if names.iter().any(|name| rank.contains_key(name)) => {
                in_two_pools.push((node, names));
            }
            Home::Several(_) | Home::Pool(_) | Home::None => {}
        }
    }
    // They come in the order of their names, and equals stay in it.
    members.sort_by_cached_key(|member| {
        let rank = rank.get(member.pool.name.as_str()).copied();
        (rank, crate::intent::turn(intent.order, member.node))
    });
    (members, in_two_pools)
}

/// The annotations that every pass reads of every node, by going through them once: with thousands of nodes
/// each lookup by key counts.
#[derive(Default)]
struct Notes<'a> {
    current: &'a str,
    desired: &'a str,
    state: &'a str,
    layered: bool,
    shielded: bool,
}

impl<'a> Notes<'a> {
    fn of(node: &'a NodeView) -> Self {
        let mut notes = Self::default();
        for (key, value) in &node.annotations {
            match key.as_str() {
                marks::openshift::CURRENT_CONFIG => notes.current = value,
                marks::openshift::DESIRED_CONFIG => notes.desired = value,
                marks::openshift::STATE => notes.state = value,
                marks::openshift::CURRENT_IMAGE | marks::openshift::DESIRED_IMAGE => {
                    notes.layered |= !value.is_empty();
                }
                marks::SHIELDED_BY => notes.shielded = true,
                _ => {}
            }
        }
        notes
    }
}

/// Where a node in flight lives that is in no pool of the run any more.
fn strayed<'a>(
    observed: &'a Observed,
    node: &NodeView,
    pool: &PoolView,
    home: &Home<'_>,
) -> (Option<&'a PoolView>, Why) {
    let name = &node.name;
    match home {
        Home::Pool(other) => {
            let message = if *other == pool.name {
                format!("pool {other} of Node {name} is no target any more")
            } else {
                format!("Node {name} went from pool {} to {other}", pool.name)
            };
            (observed.pools.get(*other), Why::new(Reason::RunGivenUp, message))
        }
        Home::None => {
            let message = format!("Node {name} left pool {} and is in none", pool.name);
            (None, Why::new(Reason::RunGivenUp, message))
        }
        Home::Several(names) => {
            let message = format!(
                "Node {name} matches the custom pools {}, wanted one",
                names.join(", ")
            );
            (None, Why::new(Reason::NodeInTwoPools, message))
        }
    }
}

/// The node runs its pool's configuration, and that is of the version asked for.
pub(crate) fn at_target(view: &RunView<'_>, member: &Member<'_>) -> bool {
    member.at_pool_config()
        && view
            .desired
            .as_ref()
            .is_ok_and(|desired| member.version == Some(desired))
}
