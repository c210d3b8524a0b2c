//! The Machine Config Operator and the ClusterVersion operator, after `spec/mutex.md` §4.2–4.4, §4.8 and
//! appendix A. Written anew and not with numo's own idea of pools, so that the two can disagree.

use super::{Event, Object, World};
use numo_api::marks::openshift;
use numo_core::observed::{ClusterVersionView, ConfigView, IntOrPercent, Map, NodeView, Observed, PoolView};
use serde_json::Value;

/// What a pool renders: the version, and a revision of the machine configs it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// OpenShift version.
    pub version: String,
    /// Revision of the machine configs.
    pub revision: u32,
}

/// Where an update of the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    TakenUp,
    Rendered,
    Completed,
}

/// The node controller told a node what to run.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// When.
    pub at: i64,
    /// The node.
    pub node: String,
    /// The pool it lives in at that moment.
    pub pool: String,
}

/// Where a node lives at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Primary {
    /// In this pool.
    Pool(String),
    /// In none.
    Nowhere,
    /// In two custom pools: the MCO leaves it alone.
    Torn,
}

/// The pool a node with these labels lives in, by the selectors as they are now, or by those of `instead`.
pub fn primary<'a>(
    truth: &'a Observed,
    labels: &Map,
    instead: impl Fn(&PoolView) -> Option<&'a Value>,
) -> Primary {
    if labels.get(openshift::OS).map(String::as_str) == Some("windows") {
        return Primary::Nowhere;
    }
    let (mut custom, mut several) = (None, false);
    let (mut master, mut worker) = (false, false);
    for pool in truth.pools.values() {
        if !selects(instead(pool).unwrap_or(&pool.selector), labels) {
            continue;
        }
        match pool.name.as_str() {
            "master" => master = true,
            "worker" => worker = true,
            name => several |= custom.replace(name).is_some(),
        }
    }
    match custom {
        Some(_) if several => Primary::Torn,
        _ if master => Primary::Pool("master".to_owned()),
        Some(name) => Primary::Pool(name.to_owned()),
        None if worker => Primary::Pool("worker".to_owned()),
        None => Primary::Nowhere,
    }
}

fn selects(selector: &Value, labels: &Map) -> bool {
    let equal = selector["matchLabels"].as_object();
    let expressions = selector["matchExpressions"].as_array();
    let asks = equal.map_or(0, serde_json::Map::len) + expressions.map_or(0, Vec::len);
    let value = |key: &Value| key.as_str().and_then(|key| labels.get(key));
    asks > 0
        && equal
            .into_iter()
            .flatten()
            .all(|(key, wanted)| labels.get(key).map(String::as_str) == wanted.as_str())
        && expressions.into_iter().flatten().all(|expression| {
            let found = value(&expression["key"]);
            let among = expression["values"]
                .as_array()
                .is_some_and(|values| found.is_some_and(|found| values.iter().any(|value| value == found)));
            match expression["operator"].as_str() {
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                Some("In") => among,
                Some("NotIn") => !among,
                _ => false,
            }
        })
}

/// The content of a rendered configuration, which pools of one role share.
pub fn hash(content: &Content) -> String {
    let digits: String = content.version.chars().filter(char::is_ascii_digit).collect();
    format!("{digits}r{}", content.revision)
}

fn is_done(node: &NodeView) -> bool {
    let current = node.annotation(openshift::CURRENT_CONFIG);
    !current.is_empty()
        && current == node.annotation(openshift::DESIRED_CONFIG)
        && node.annotation(openshift::STATE) == "Done"
}

fn is_failing(node: &NodeView) -> bool {
    node.annotation(openshift::CURRENT_CONFIG) != node.annotation(openshift::DESIRED_CONFIG)
        && matches!(node.annotation(openshift::STATE), "Degraded" | "Unreconcilable")
}

impl World {
    /// One look of the node controller at all pools.
    pub(super) fn node_controller(&mut self) {
        self.controller_due = false;
        if self.truth.pools.is_empty() {
            return;
        }
        let pools: Vec<String> = self.truth.pools.keys().cloned().collect();
        let homes: Vec<(String, Primary)> = self
            .truth
            .nodes
            .values()
            .map(|node| (node.name.clone(), primary(&self.truth, &node.labels, |_| None)))
            .collect();
        for pool in pools {
            self.sync_pool(&pool, &homes);
        }
    }

    fn sync_pool(&mut self, name: &str, homes: &[(String, Primary)]) {
        let Some(pool) = self
            .truth
            .pools
            .get(name)
            .filter(|pool| !pool.paused && !pool.deleting)
        else {
            return;
        };
        let config = pool.config.clone();
        let here = Primary::Pool(name.to_owned());
        let nodes: Vec<&NodeView> = homes
            .iter()
            .filter(|(_, home)| *home == here)
            .filter_map(|(node, _)| self.truth.nodes.get(node))
            .collect();
        let limit = match pool.max_unavailable {
            None => 1,
            Some(IntOrPercent::Int(number)) => usize::try_from(number).unwrap_or(1).max(1),
            Some(IntOrPercent::Percent(percent)) => {
                (nodes.len() * usize::try_from(percent).unwrap_or(0) / 100).max(1)
            }
        };
        let unavailable = nodes
            .iter()
            .filter(|node| !node.ready || node.unschedulable || (!is_done(node) && !is_failing(node)))
            .count();
        let failing = nodes
            .iter()
            .filter(|node| node.annotation(openshift::DESIRED_CONFIG) == config && is_failing(node))
            .count();
        let capacity = limit.saturating_sub(unavailable);
        if failing >= capacity {
            return;
        }
        let mut candidates: Vec<(bool, String, jiff::Timestamp, String)> = nodes
            .iter()
            .filter(|node| node.annotation(openshift::DESIRED_CONFIG) != config)
            .filter(|node| node.ready && !node.unschedulable)
            .map(|node| {
                let zone = node.label(openshift::ZONE).to_owned();
                (zone.is_empty(), zone, node.created, node.name.clone())
            })
            .collect();
        candidates.sort();
        candidates.truncate(capacity - failing);
        for (.., node) in candidates {
            if let Some(view) = self.truth.nodes.get_mut(&node) {
                view.annotations
                    .insert(openshift::DESIRED_CONFIG.to_owned(), config.clone());
            }
            self.assignments.push(Assignment {
                at: self.now,
                node: node.clone(),
                pool: name.to_owned(),
            });
            self.tell("mco", || {
                format!("tells {node} to run {config}, which pool {name} asks for")
            });
            self.node_written(&node);
        }
    }

    /// Someone asks for a version.
    pub fn ask(&mut self, version: &str) {
        self.asked = self.serial();
        let cluster = self
            .truth
            .cluster_version
            .get_or_insert_with(ClusterVersionView::default);
        cluster.desired_update = Some(version.to_owned());
        cluster.has_desired_update = true;
        cluster.generation += 1;
        self.touch(Object::ClusterVersion);
        let delay = self.pick(self.knobs.cluster[0]);
        self.plan(delay, Event::Cluster(self.asked, Phase::TakenUp));
    }

    pub(super) fn cluster(&mut self, asked: u64, phase: Phase) {
        if asked != self.asked {
            return;
        }
        let Some(cluster) = &mut self.truth.cluster_version else {
            return;
        };
        let version = cluster.desired_update.clone().unwrap_or_default();
        let knobs = self.knobs.cluster;
        match phase {
            Phase::TakenUp => {
                cluster.observed_generation = cluster.generation;
                cluster.desired.clone_from(&version);
                cluster.latest = Some(("Partial".to_owned(), version.clone()));
                self.tell("cluster", || {
                    format!("begins to update its control plane to {version}")
                });
                let delay = self.pick(knobs[1]);
                self.plan(delay, Event::Cluster(asked, Phase::Rendered));
            }
            Phase::Rendered => {
                self.revision += 1;
                self.rendered.clone_from(&version);
                self.render_all();
                let delay = self.pick(knobs[2]);
                self.plan(delay, Event::Cluster(asked, Phase::Completed));
            }
            Phase::Completed => {
                cluster.latest = Some(("Completed".to_owned(), version.clone()));
                self.tell("cluster", || {
                    format!("has updated its control plane to {version}")
                });
            }
        }
        self.touch(Object::ClusterVersion);
    }

    /// Every pool is rendered, one a little after the other.
    fn render_all(&mut self) {
        let pools: Vec<String> = self.truth.pools.keys().cloned().collect();
        for pool in pools {
            let delay = self.pick(self.knobs.poll);
            self.plan(delay, Event::Render(pool));
        }
    }

    /// Somebody changes a machine config: all pools render other content of the same version.
    pub fn render_again(&mut self) {
        self.revision += 1;
        self.render_all();
    }

    pub(super) fn render(&mut self, pool: &str) {
        let content = Content {
            version: self.rendered.clone(),
            revision: self.revision,
        };
        let name = format!("rendered-{pool}-{}", hash(&content));
        if self
            .truth
            .pools
            .get(pool)
            .is_none_or(|found| found.config == name)
        {
            return;
        }
        self.render_now(pool, &content);
        self.tell("mco", || format!("renders {name} for pool {pool}"));
        if pool == "master" {
            self.roll_masters(&name);
        }
    }

    /// The pool asks for this content from now on.
    pub fn render_now(&mut self, pool: &str, content: &Content) {
        let name = format!("rendered-{pool}-{}", hash(content));
        let view = ConfigView {
            version: Some(content.version.clone()),
        };
        self.truth.configs.insert(name.clone(), view);
        self.touch(Object::Config(name.clone()));
        if let Some(pool) = self.truth.pools.get_mut(pool) {
            pool.config = name;
        }
        self.touch(Object::Pool(pool.to_owned()));
    }

    /// Masters are not numo's business: they change at once.
    fn roll_masters(&mut self, config: &str) {
        let masters: Vec<String> = self
            .truth
            .nodes
            .values()
            .filter(|node| node.labels.contains_key("node-role.kubernetes.io/master"))
            .map(|node| node.name.clone())
            .collect();
        for name in masters {
            if let Some(node) = self.truth.nodes.get_mut(&name) {
                for key in [openshift::CURRENT_CONFIG, openshift::DESIRED_CONFIG] {
                    node.annotations.insert(key.to_owned(), config.to_owned());
                }
            }
            self.touch(Object::Node(name));
        }
    }
}
