//! What the operator sees: a copy of the cluster that comes late, object by object, as watches are late
//! and out of step with each other. Its own writes it sees at once (the shell lays them over its stores).

use crate::world::{Object, Span, World};
use numo_core::{
    drain, names,
    observed::{JobView, Key, NodeView, Observed},
};
use rand::{Rng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

/// The operator's copy of the cluster.
#[derive(Debug, Default)]
pub struct View {
    seen: Observed,
    /// How often it became another than it was.
    revision: u64,
    coming: BTreeMap<(i64, u64), Object>,
    serial: u64,
    /// What was seen when it was kept last, and since then.
    kept: Option<Kept>,
}

/// What was seen at one time, and what may have become another since.
#[derive(Debug)]
struct Kept {
    /// None while it is lent.
    seen: Option<Box<Observed>>,
    objects: BTreeSet<Object>,
    /// Whether what the operator remembers by itself may have.
    memories: bool,
}

/// A Job on each node with numo's labels and the name of a rule, which a stranger has made where numo runs none, and which never ends. The
/// API server has them too, and nobody but numo ever looks at them.
fn of_strangers(seen: &Observed) -> Vec<(Key, JobView)> {
    let rule = seen.rules.keys().next().map(ToString::to_string);
    let of_node = |node: &String| {
        let view = JobView {
            uid: format!("stranger-{node}"),
            run: "another".to_owned(),
            node: names::node_hash(node),
            rule: rule.clone().unwrap_or_default(),
            deadline_seconds: Some(i64::MAX),
            started: true,
            ..JobView::default()
        };
        (Key::new("strangers", format!("holds-{node}")), view)
    };
    seen.nodes.keys().map(of_node).collect()
}

impl View {
    /// Lists everything anew, as a fresh leader does before its first decision.
    pub fn relist(world: &mut World) -> Self {
        world.take_touched();
        let mut seen = world.truth.clone();
        seen.nodes.values_mut().for_each(NodeView::take_in);
        let of_strangers = of_strangers(&seen);
        seen.jobs.extend(of_strangers);
        Self {
            seen,
            ..Self::default()
        }
    }

    /// What was seen.
    pub const fn seen(&self) -> &Observed {
        &self.seen
    }

    /// How often what was seen became another than it was: as long as this is the same, so is all of that.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Edits what the operator remembers by itself: evictions, pods that came back, refusals, evaluations, and what it knows of the provider
    /// of machines. Objects of the cluster are seen, and not edited.
    pub fn remember(&mut self) -> &mut Observed {
        self.revision += 1;
        if let Some(kept) = &mut self.kept {
            kept.memories = true;
        }
        &mut self.seen
    }

    /// What was seen up to now, to be given back when it is of no more use. Of what was kept before only that is copied which has become another
    /// since: a whole copy costs more than a decision.
    pub fn keep(&mut self) -> Box<Observed> {
        let kept = self.kept.take();
        let kept = kept.and_then(|kept| Some((kept.seen?, kept.objects, kept.memories)));
        let kept = match kept {
            None => Box::new(self.seen.clone()),
            Some((mut kept, objects, memories)) => {
                for object in &objects {
                    copy_object(&mut kept, &self.seen, object);
                }
                if memories {
                    copy_memories(&mut kept, &self.seen);
                }
                kept
            }
        };
        self.kept = Some(Kept {
            seen: None,
            objects: BTreeSet::new(),
            memories: false,
        });
        kept
    }

    /// Takes back what was kept.
    pub fn give_back(&mut self, seen: Box<Observed>) {
        if let Some(kept) = &mut self.kept {
            kept.seen = Some(seen);
        }
    }

    /// Takes note of what changed; it will be seen after a while.
    pub fn watch(&mut self, world: &mut World, lag: Span, rng: &mut SmallRng) {
        for object in world.take_touched() {
            self.serial += 1;
            let late = if lag.1 > 0 {
                rng.random_range(lag.0..=lag.1)
            } else {
                0
            };
            self.coming.insert((world.now + late, self.serial), object);
        }
    }

    /// When the next change will be seen.
    pub fn next(&self) -> Option<i64> {
        self.coming.keys().next().map(|(at, _)| *at)
    }

    /// Sees what is due; whether anything differs from what was seen before.
    pub fn deliver(&mut self, world: &World) -> bool {
        let mut differs = false;
        while let Some(entry) = self.coming.first_entry() {
            if entry.key().0 > world.now {
                break;
            }
            let object = entry.remove();
            differs |= self.see(&object, &world.truth);
        }
        differs
    }

    /// Sees one object as it is now.
    pub fn see(&mut self, object: &Object, truth: &Observed) -> bool {
        let differs = copy_object(&mut self.seen, truth, object);
        if differs {
            self.revision += 1;
            if let Some(kept) = &mut self.kept {
                kept.objects.insert(object.clone());
            }
        }
        match object {
            Object::Pods(_) => forget_evictions(self.remember()),
            Object::DisruptionBudget(key) => stir(self.remember(), key),
            _ => {}
        }
        differs
    }
}

/// Has one object in `seen` be as it is in `truth`; whether it was another.
fn copy_object(seen: &mut Observed, truth: &Observed, object: &Object) -> bool {
    match object {
        Object::Node(name) => {
            let host = copy(&mut seen.fleet.hosts, &truth.fleet.hosts, name);
            let node = copy(&mut seen.nodes, &truth.nodes, name);
            if let Some(node) = seen.nodes.get_mut(name).filter(|_| node) {
                node.take_in();
            }
            node || host
        }
        Object::Machine(place) => copy(&mut seen.machines, &truth.machines, place),
        Object::HealthCheck(place) => copy(&mut seen.health_checks, &truth.health_checks, place),
        Object::Pool(name) => copy(&mut seen.pools, &truth.pools, name),
        Object::Config(name) => copy(&mut seen.configs, &truth.configs, name),
        Object::Run(key) => copy(&mut seen.runs, &truth.runs, key),
        Object::Rule(key) => copy(&mut seen.rules, &truth.rules, key),
        Object::Target(key) => copy(&mut seen.targets, &truth.targets, key),
        Object::Job(key) => copy(&mut seen.jobs, &truth.jobs, key),
        Object::Change(key) => copy(&mut seen.changes, &truth.changes, key),
        Object::Budget(name) => copy(&mut seen.budgets, &truth.budgets, name),
        Object::Window(name) => copy(&mut seen.windows, &truth.windows, name),
        Object::Approval(name) => copy(&mut seen.approvals, &truth.approvals, name),
        Object::Lease(name) => {
            // Whether there are any is what the writes of leases tell.
            let (known, now) = (&mut seen.settings, &truth.settings);
            let differs = known.leases_unavailable != now.leases_unavailable
                || known.leases_refused != now.leases_refused;
            known.leases_unavailable.clone_from(&now.leases_unavailable);
            known.leases_refused = now.leases_refused;
            copy(&mut seen.leases, &truth.leases, name) || differs
        }
        Object::Binding(name) => copy(&mut seen.bindings, &truth.bindings, name),
        Object::Plan(key) => copy(&mut seen.plans, &truth.plans, key),
        Object::Maintenance(owner) => copy(&mut seen.maintenances, &truth.maintenances, owner),
        Object::Version(name) => copy(&mut seen.fleet.versions, &truth.fleet.versions, name),
        Object::Group(name) => copy(&mut seen.fleet.groups, &truth.fleet.groups, name),
        Object::Pending(name) => copy(&mut seen.fleet.pending, &truth.fleet.pending, name),
        Object::Joining(name) => copy(&mut seen.fleet.joining, &truth.fleet.joining, name),
        Object::Strategy(name) => copy(&mut seen.fleet.strategies, &truth.fleet.strategies, name),
        Object::Autoscaler(key) => copy(&mut seen.fleet.autoscalers, &truth.fleet.autoscalers, key),
        Object::PlanJob(key) => copy(&mut seen.plan_jobs, &truth.plan_jobs, key),
        Object::Pods(node) => copy(&mut seen.pods, &truth.pods, node),
        Object::DisruptionBudget(key) => copy(&mut seen.disruption_budgets, &truth.disruption_budgets, key),
        Object::ClusterVersion => {
            let differs = seen.cluster_version != truth.cluster_version;
            seen.cluster_version.clone_from(&truth.cluster_version);
            differs
        }
    }
}

/// Copies all that [`View::remember`] edits.
fn copy_memories(seen: &mut Observed, from: &Observed) {
    seen.evictions.clone_from(&from.evictions);
    seen.returns.clone_from(&from.returns);
    seen.refusals.clone_from(&from.refusals);
    seen.evaluations.clone_from(&from.evaluations);
    seen.fleet.provider.clone_from(&from.fleet.provider);
}

/// What became of pods that are gone is of no more use.
fn forget_evictions(seen: &mut Observed) {
    let pods = seen.pods.values().flat_map(BTreeMap::values);
    let known: BTreeSet<&str> = pods.map(|pod| pod.uid.as_str()).collect();
    seen.evictions.retain(|uid, _| known.contains(uid.as_str()));
}

/// A budget has changed: pods that wait for it are asked again, if it lets any go now.
fn stir(seen: &mut Observed, key: &Key) {
    let Some(budget) = seen
        .disruption_budgets
        .get(key)
        .filter(|budget| budget.allowed > 0)
    else {
        return;
    };
    let pods = seen.pods.values().flat_map(BTreeMap::values);
    for pod in pods.filter(|pod| pod.key.namespace == key.namespace && drain::covers(budget, &pod.labels)) {
        if let Some(known) = seen.evictions.get_mut(&pod.uid) {
            known.stirred = true;
        }
    }
}

fn copy<K: Ord + Clone, V: PartialEq + Clone>(
    seen: &mut BTreeMap<K, V>,
    truth: &BTreeMap<K, V>,
    key: &K,
) -> bool {
    match (truth.get(key), seen.get_mut(key)) {
        (None, None) => false,
        (None, Some(_)) => {
            seen.remove(key);
            true
        }
        (Some(now), Some(before)) if now == before => false,
        (Some(now), Some(before)) => {
            *before = now.clone();
            true
        }
        (Some(now), None) => {
            seen.insert(key.clone(), now.clone());
            true
        }
    }
}
