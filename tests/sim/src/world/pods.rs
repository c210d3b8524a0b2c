//! Workloads: controllers that keep so many pods, PodDisruptionBudgets over them, and the eviction API. A pod goes
//! within its grace period, if its kubelet runs; its controller makes another one where a node takes it.

use super::{Event, Object, Refused, Span, World};
use crate::setup::NAMESPACE;
use numo_api::marks;
use numo_core::observed::{DisruptionBudgetView, Key, NodeView, PodView};
use serde_json::json;

/// Namespace of the workloads.
const SHOP: &str = "shop";
/// How long a pod may take to end (seconds).
const GRACE: i64 = 30;
/// How long until a controller makes the next pod, and until that is Ready (seconds).
const MADE: Span = (1, 20);
const READY: Span = (2, 60);
/// How soon a pod is tried again that no node takes, or whose kubelet is away (seconds).
const AGAIN: i64 = 60;
/// Label by which a workload's budget selects its pods.
const APP: &str = "app";
/// Name of the workload that is numo itself.
const OWN: &str = "numo";
/// Name and uid of the DaemonSet.
const AGENT: (&str, &str) = ("agent", "daemonset-agent");

/// A controller with its budget.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How many pods it keeps.
    pub replicas: usize,
    /// How many of them must be Ready, if it has a budget.
    pub min_available: Option<i64>,
    /// Pods of it that are about to be made.
    coming: usize,
}

/// What happens to a pod.
#[derive(Clone, Debug)]
pub(crate) enum PodEvent {
    /// Its controller makes it.
    Made(String),
    /// It is Ready.
    Ready(String, Key, String),
    /// It is gone.
    Gone(String, Key, String),
}

impl World {
    /// A workload begins, with a budget if `min_available` is given.
    pub fn add_workload(&mut self, name: &str, replicas: usize, min_available: Option<i64>) {
        let workload = Workload {
            replicas,
            min_available,
            coming: 0,
        };
        self.workloads.insert(name.to_owned(), workload);
        for _ in 0..replicas {
            self.make_pod(name, true);
        }
        self.replenish(name);
    }

    /// Every node has a pod of a DaemonSet.
    pub fn add_daemon_set(&mut self) {
        self.truth.daemon_sets.insert(AGENT.1.to_owned());
        let nodes: Vec<String> = self.truth.nodes.keys().cloned().collect();
        for node in nodes {
            self.add_daemon_pod(&node);
        }
    }

    /// The operator itself runs in a pod of this cluster, and is down until the next one runs when that is gone.
    pub fn add_own_pod(&mut self) {
        self.add_workload(OWN, 1, None);
    }

    /// The pod of a Job begins on a node and is gone in so many seconds, or when its node is up again.
    pub(super) fn add_job_pod(
        &mut self,
        node: &str,
        (job, uid): (&Key, &str),
        labels: &[&str],
        seconds: Option<i64>,
    ) {
        if !self.has_pods {
            return;
        }
        let key = Key::new(&job.namespace, format!("{}-{}", job.name, self.serial()));
        let labels = labels.iter().map(|label| ((*label).to_owned(), OWN.to_owned()));
        let pod = PodView {
            controller: Some(("Job".to_owned(), job.name.clone(), uid.to_owned())),
            labels: labels.collect(),
            ..self.new_pod(key.clone(), true)
        };
        let uid = pod.uid.clone();
        let pods = self.truth.pods.entry(node.to_owned()).or_default();
        pods.insert(key.clone(), pod);
        self.touch(Object::Pods(node.to_owned()));
        if let Some(seconds) = seconds {
            let gone = PodEvent::Gone(node.to_owned(), key, uid);
            self.plan(seconds, Event::Pod(gone));
        }
    }

    /// The pods of a Job are gone with it.
    pub(super) fn end_job_pods(&mut self, job: &str) {
        let is_of = |pod: &PodView| pod.controller.as_ref().is_some_and(|(_, _, uid)| uid == job);
        let found = self
            .truth
            .pods
            .iter()
            .flat_map(|(node, pods)| pods.values().map(move |pod| (node, pod)));
        let found = found.filter(|(_, pod)| is_of(pod));
        let found: Vec<(String, Key)> = found.map(|(node, pod)| (node.clone(), pod.key.clone())).collect();
        for (node, key) in found {
            if let Some(pods) = self.truth.pods.get_mut(&node) {
                pods.remove(&key);
            }
            self.touch(Object::Pods(node));
        }
    }

    /// A node for the pod of a rule: not the one that the rule is about, and none with a turn where there is another.
    pub(super) fn place_of_rule(&mut self, target: &str, avoid: &[String]) -> Option<String> {
        if !self.has_pods {
            return None;
        }
        let free = self.truth.nodes.values().filter(|node| Self::takes_pods(node));
        let names = free.map(|node| node.name.clone()).filter(|name| name != target);
        let (worse, mut names): (Vec<String>, Vec<String>) = names.partition(|name| avoid.contains(name));
        if names.is_empty() {
            names = worse;
        }
        let last = i64::try_from(names.len()).unwrap_or(1) - 1;
        let index = usize::try_from(self.pick((0, last))).unwrap_or(0);
        names.into_iter().nth(index)
    }

    fn add_daemon_pod(&mut self, node: &str) {
        if !self.truth.daemon_sets.contains(AGENT.1) {
            return;
        }
        let controller = ("DaemonSet", AGENT.0, AGENT.1);
        self.insert_pod(node, AGENT.0, controller, true);
    }

    /// A node has joined: pods may run on it.
    pub(super) fn pods_of_new_node(&mut self, node: &str) {
        if self.has_pods {
            self.truth.pods.entry(node.to_owned()).or_default();
            self.touch(Object::Pods(node.to_owned()));
            self.add_daemon_pod(node);
        }
    }

    /// A node is gone, and its pods with it.
    pub(super) fn lose_pods(&mut self, node: &str) {
        if let Some(pods) = self.truth.pods.remove(node) {
            if pods.values().any(is_own) {
                self.operator_stops = Some(AGAIN);
            }
            self.touch(Object::Pods(node.to_owned()));
            self.replenish_all();
        }
    }

    /// Sets how many pods of each workload must be Ready.
    pub(super) fn set_disruption_budgets(&mut self, of: impl Fn(usize) -> i64) {
        for workload in self.workloads.values_mut() {
            if workload.min_available.is_some() {
                workload.min_available = Some(of(workload.replicas));
            }
        }
        self.replenish_all();
    }

    fn replenish_all(&mut self) {
        let names: Vec<String> = self.workloads.keys().cloned().collect();
        for name in names {
            self.replenish(&name);
        }
    }

    fn pods_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PodView> {
        let all = self.truth.pods.values().flat_map(|pods| pods.values());
        all.filter(move |pod| pod.labels.get(APP).is_some_and(|app| app == name))
    }

    /// The controller makes what is missing, and the budget's status is brought up to date.
    fn replenish(&mut self, name: &str) {
        let living = self.pods_of(name).filter(|pod| pod.deleting.is_none()).count();
        let Some(workload) = self.workloads.get_mut(name) else {
            return;
        };
        let missing = workload.replicas.saturating_sub(living + workload.coming);
        workload.coming += missing;
        for _ in 0..missing {
            let delay = self.pick(MADE);
            self.plan(delay, Event::Pod(PodEvent::Made(name.to_owned())));
        }
        self.count_budget(name);
    }

    fn count_budget(&mut self, name: &str) {
        let Some((replicas, desired)) = self
            .workloads
            .get(name)
            .and_then(|workload| Some((workload.replicas, workload.min_available?)))
        else {
            return;
        };
        let healthy = self
            .pods_of(name)
            .filter(|pod| pod.ready && pod.deleting.is_none())
            .count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let healthy = number(healthy);
        let view = DisruptionBudgetView {
            selector: json!({"matchLabels": {APP: name}}),
            unhealthy_always: false,
            allowed: (healthy - desired).max(0),
            healthy,
            desired,
            expected: number(replicas),
        };
        let key = Key::new(SHOP, name);
        if self.truth.disruption_budgets.get(&key) != Some(&view) {
            self.truth.disruption_budgets.insert(key.clone(), view);
            self.touch(Object::DisruptionBudget(key));
        }
    }

    fn takes_pods(node: &NodeView) -> bool {
        node.ready && !node.unschedulable && node.taints.is_null()
    }

    /// Makes a pod where a node takes it; false if none does.
    fn make_pod(&mut self, name: &str, ready: bool) -> bool {
        let free = self.truth.nodes.values().filter(|node| Self::takes_pods(node));
        let mut free: Vec<(usize, String)> = free
            .map(|node| {
                let here = self
                    .truth
                    .pods
                    .get(&node.name)
                    .map_or(0, std::collections::BTreeMap::len);
                (here, node.name.clone())
            })
            .collect();
        free.sort();
        let Some((_, node)) = free.into_iter().next() else {
            return false;
        };
        let uid = format!("replicaset-{name}");
        self.insert_pod(&node, name, ("ReplicaSet", name, &uid), ready);
        true
    }

    fn insert_pod(&mut self, node: &str, app: &str, controller: (&str, &str, &str), ready: bool) {
        let (kind, name, owner) = controller;
        let namespace = if app == OWN { NAMESPACE } else { SHOP };
        let key = Key::new(namespace, format!("{app}-{}", self.serial()));
        let pod = PodView {
            labels: [(APP.to_owned(), app.to_owned())].into(),
            controller: Some((kind.to_owned(), name.to_owned(), owner.to_owned())),
            ..self.new_pod(key.clone(), ready)
        };
        if app == OWN {
            self.truth.settings.own_pod = Some(key.clone());
        }
        let uid = pod.uid.clone();
        let pods = self.truth.pods.entry(node.to_owned()).or_default();
        pods.insert(key.clone(), pod);
        self.touch(Object::Pods(node.to_owned()));
        if !ready {
            let delay = self.pick(READY);
            self.plan(delay, Event::Pod(PodEvent::Ready(node.to_owned(), key, uid)));
        }
    }

    fn new_pod(&mut self, key: Key, ready: bool) -> PodView {
        PodView {
            key,
            uid: format!("pod-{}", self.serial()),
            created: self.time(),
            labels: numo_core::observed::Map::new(),
            controller: None,
            mirror: false,
            finished: false,
            pending: false,
            ready,
            disrupted: false,
            deleting: None,
            empty_dir: false,
            claims: Vec::new(),
            priority: 0,
        }
    }

    fn pod(&mut self, node: &str, key: &Key, uid: &str) -> Option<&mut PodView> {
        let pods = self.truth.pods.get_mut(node)?;
        pods.get_mut(key).filter(|pod| pod.uid == uid)
    }

    pub(super) fn pod_event(&mut self, event: PodEvent) {
        match event {
            PodEvent::Made(name) => {
                if !self.make_pod(&name, false) {
                    if name == OWN {
                        self.operator_stops = Some(2 * AGAIN);
                    }
                    self.plan(AGAIN, Event::Pod(PodEvent::Made(name)));
                    return;
                }
                if let Some(workload) = self.workloads.get_mut(&name) {
                    workload.coming = workload.coming.saturating_sub(1);
                }
                self.replenish(&name);
            }
            PodEvent::Ready(node, key, uid) => {
                let is_up = self.truth.nodes.get(&node).is_some_and(|node| node.ready);
                let Some(pod) = self.pod(&node, &key, &uid) else {
                    return;
                };
                if !is_up {
                    self.plan(AGAIN, Event::Pod(PodEvent::Ready(node, key, uid)));
                    return;
                }
                pod.ready = true;
                let app = pod.labels.get(APP).cloned().unwrap_or_default();
                self.touch(Object::Pods(node));
                self.count_budget(&app);
            }
            PodEvent::Gone(node, key, uid) => {
                let is_up = self.truth.nodes.get(&node).is_some_and(|node| node.ready);
                if self.pod(&node, &key, &uid).is_none() {
                    return;
                }
                if !is_up {
                    // Nobody ends it while its kubelet is away.
                    self.plan(AGAIN, Event::Pod(PodEvent::Gone(node, key, uid)));
                    return;
                }
                if let Some(pods) = self.truth.pods.get_mut(&node)
                    && let Some(pod) = pods.remove(&key)
                    && is_own(&pod)
                {
                    self.operator_stops = Some(self.pick(READY));
                }
                self.touch(Object::Pods(node));
                self.replenish_all();
            }
        }
    }

    /// The eviction API: refused by a budget that allows none. `delete` goes past budgets.
    pub(super) fn evict(&mut self, node: &str, key: &Key, uid: &str, delete: bool) -> Result<(), Refused> {
        let refused = |code, message: String| Err(Refused { code, message });
        let time = self.time();
        let app = match self.pod(node, key, uid) {
            None => return refused(404, format!("pods {key} not found")),
            Some(pod) if pod.deleting.is_some() => return Ok(()),
            Some(pod) => pod.labels.get(APP).cloned().unwrap_or_default(),
        };
        if let Some(words) = self.refusal(node, key).filter(|_| !delete) {
            return refused(429, words);
        }
        if let Some(pod) = self.pod(node, key, uid) {
            pod.disrupted = !delete;
            pod.deleting = time.checked_add(jiff::SignedDuration::from_secs(GRACE)).ok();
        }
        let delay = self.pick((1, GRACE));
        let gone = PodEvent::Gone(node.to_owned(), key.clone(), uid.to_owned());
        self.plan(delay, Event::Pod(gone));
        self.touch(Object::Pods(node.to_owned()));
        self.replenish(&app);
        Ok(())
    }

    /// Why the pod could not be evicted now, as a dry run would say.
    fn refusal(&self, node: &str, key: &Key) -> Option<String> {
        let pod = self.truth.pods.get(node)?.get(key)?;
        let app = pod.labels.get(APP)?;
        let budget = self.truth.disruption_budgets.get(&Key::new(SHOP, app))?;
        // A pod that is not Ready may go while enough others are (`IfHealthyBudget`).
        let spare = !pod.ready && budget.healthy >= budget.desired;
        (budget.allowed <= 0 && !spare && pod.deleting.is_none()).then(|| {
            format!(
                "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget {app} needs {} healthy pods and has {} currently",
                budget.desired, budget.healthy
            )
        })
    }

    /// The first pod of a node that could not be evicted now, of these or of all that a drain takes.
    pub fn blocked(&self, node: &str, of: Option<&[Key]>) -> Option<String> {
        let pods = self.truth.pods.get(node)?;
        let mut pods = pods
            .values()
            .filter(|pod| of.map_or(goes(pod), |of| of.contains(&pod.key)));
        pods.find_map(|pod| {
            let words = self.refusal(node, &pod.key)?;
            Some(format!("Pod {}: {words}", pod.key))
        })
    }

    /// The pods of a node that a drain takes and that are there yet.
    pub fn pods_to_go(&self, node: &str) -> Vec<(Key, String)> {
        let pods = self
            .truth
            .pods
            .get(node)
            .into_iter()
            .flat_map(|pods| pods.values());
        let pods = pods.filter(|pod| goes(pod));
        pods.map(|pod| (pod.key.clone(), pod.uid.clone())).collect()
    }

    /// The node controller's taint of a cordon.
    pub(super) fn follow_cordon(&mut self, name: &str) {
        let Some(node) = self.truth.nodes.get_mut(name) else {
            return;
        };
        let mut taints = node.taints.as_array().cloned().unwrap_or_default();
        let is_cordon = |taint: &serde_json::Value| taint["key"] == marks::UNSCHEDULABLE;
        match (node.unschedulable, taints.iter().any(is_cordon)) {
            (true, false) => taints.push(json!({"key": marks::UNSCHEDULABLE, "effect": "NoSchedule"})),
            (false, true) => taints.retain(|taint| !is_cordon(taint)),
            _ => return,
        }
        node.taints = if taints.is_empty() {
            serde_json::Value::Null
        } else {
            serde_json::Value::Array(taints)
        };
    }
}

/// Whether a drain takes the pod: those of DaemonSets stay, and those of upgrades.
pub fn goes(pod: &PodView) -> bool {
    let kind = pod.controller.as_ref().map(|(kind, ..)| kind.as_str());
    kind != Some("DaemonSet") && !pod.labels.contains_key(marks::PLAN_CONTROLLER)
}

/// Whether the pod is numo's own.
fn is_own(pod: &PodView) -> bool {
    pod.labels.get(APP).is_some_and(|app| app == OWN)
}
