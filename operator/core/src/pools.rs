//! Which pool a node lives in, as the Machine Config Operator decides it.
//!
//! Source: node controller of the MCO, `spec/mutex.md` §4.3 and §4.7: a nil or empty selector matches
//! nothing; one custom pool beats `worker`; `master` beats a custom pool; two custom pools are an error
//! and the node is not updated; Windows nodes are not managed.

use crate::{
    mark,
    observed::{ClusterVersionView, NodeView, Observed, PoolView, Values},
    selector::selects,
};
use numo_api::marks::openshift;
use serde_json::Value;

/// Pools that every OpenShift cluster has and that numo never patches a selector of.
pub const BUILT_IN: [&str; 3] = ["master", "worker", "arbiter"];
/// Pools whose nodes run the control plane.
pub const CONTROL_PLANE: [&str; 2] = ["master", "arbiter"];

/// Where a node lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home<'a> {
    /// Exactly one pool is the node's primary pool.
    Pool(&'a str),
    /// No pool selects the node, or it runs Windows.
    None,
    /// Two or more custom pools select it: the MCO reports an error and leaves it alone.
    Several(Vec<&'a str>),
}

/// The node's primary pool under the given selectors.
pub fn home<'a, 's>(labels: &impl Values, pools: impl Iterator<Item = (&'a str, &'s Value)>) -> Home<'a> {
    home_among(
        labels,
        pools.map(|(name, selector)| (name, selects(selector, labels))),
    )
}

/// The primary pool of a node with these labels under the selectors that the pools have now.
pub fn home_now<'a>(observed: &'a Observed, labels: &impl Values) -> Home<'a> {
    let pools = observed.pools.values();
    home(labels, pools.map(|pool| (pool.name.as_str(), &pool.selector)))
}

/// The node's primary pool, given which pools select it.
pub fn home_among<'a>(labels: &impl Values, pools: impl Iterator<Item = (&'a str, bool)>) -> Home<'a> {
    if labels.value(openshift::OS) == Some("windows") {
        return Home::None;
    }
    let (mut master, mut worker, mut arbiter, mut custom) = (None, None, None, Vec::new());
    for (name, selected) in pools {
        if !selected {
            continue;
        }
        match name {
            "master" => master = Some(name),
            "worker" => worker = Some(name),
            "arbiter" => arbiter = Some(name),
            _ => custom.push(name),
        }
    }
    if custom.len() > 1 {
        return Home::Several(custom);
    }
    let custom = custom.first().copied();
    master
        .or(arbiter)
        .or(custom)
        .or(worker)
        .map_or(Home::None, Home::Pool)
}

/// Nodes whose primary pool it is and that would roll if it were unpaused now, or as soon as the machine-config operator has
/// rendered the version that the cluster is asked for; counted from all nodes, because the spec of a run may no longer name
/// the pool.
pub fn outdated(observed: &Observed, pool: &PoolView) -> usize {
    let pools = observed.pools.values();
    let selectors: Vec<(&str, Value)> = pools
        .map(|pool| (pool.name.as_str(), mark::own_selector(pool)))
        .collect();
    let lives_there = |node: &&NodeView| {
        let selectors = selectors.iter().map(|(name, selector)| (*name, selector));
        home(&node.labels, selectors) == Home::Pool(&pool.name)
    };
    let version = |config: &str| observed.configs.get(config)?.version.as_deref();
    let cluster = observed.cluster_version.as_ref();
    // While the control plane updates, every node is still at its pool's configuration, and the next one is on its way.
    let unrendered = cluster
        .map(ClusterVersionView::asked_for)
        .filter(|asked| !asked.is_empty() && version(&pool.config) != Some(asked));
    let would_roll = |node: &&NodeView| {
        let current = node.annotation(openshift::CURRENT_CONFIG);
        // The label counts where the configuration has no version, as for the nodes of a run.
        let label = || node.labels.value(openshift::RELEASE_VERSION);
        let is_behind = |asked| {
            version(current)
                .or_else(label)
                .is_some_and(|version| version != asked)
        };
        current != pool.config
            || node.annotation(openshift::DESIRED_CONFIG) != pool.config
            || unrendered.is_some_and(is_behind)
    };
    let nodes = observed.nodes.values();
    nodes.filter(lives_there).filter(would_roll).count()
}

/// Unavailable by the MCO's rule: not ready, unschedulable, or in mid-change without having failed.
pub fn unavailable(node: &NodeView) -> bool {
    !node.ready || node.unschedulable || (!done(node) && !failing(node))
}

/// The node runs what it shall run, and the daemon says Done.
pub fn done(node: &NodeView) -> bool {
    let current = node.annotation(openshift::CURRENT_CONFIG);
    !current.is_empty()
        && current == node.annotation(openshift::DESIRED_CONFIG)
        && node.annotation(openshift::STATE) == "Done"
}

/// The daemon gave up on the change the node is in.
pub fn failing(node: &NodeView) -> bool {
    gave_up(node.annotation(openshift::STATE))
}

/// Whether the daemon gave up, by the state that it reports.
pub fn gave_up(state: &str) -> bool {
    matches!(state, "Degraded" | "Unreconcilable")
}

/// The content hash at the end of a rendered configuration's name: pools of equal content have equal
/// hashes (`spec/mutex.md` §4.2).
pub fn content(rendered: &str) -> &str {
    rendered.rsplit('-').next().unwrap_or(rendered)
}

/// How many nodes the MCO lets change at once in a pool of `total` nodes: percentages round down, and
/// 0 counts as 1.
pub fn max_unavailable(pool: &PoolView, total: usize) -> usize {
    pool.max_unavailable.map_or(1, |limit| limit.of(total)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::Map, selector::Selector};
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> Map {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn check(node: &[(&str, &str)], expect: &Home<'_>) {
        let pools = [
            (
                "master",
                json!({"matchLabels": {"node-role.kubernetes.io/master": ""}}),
            ),
            (
                "worker",
                json!({"matchLabels": {"node-role.kubernetes.io/worker": ""}}),
            ),
            ("infra", json!({"matchLabels": {"infra": ""}})),
            (
                "gpu",
                json!({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}]}),
            ),
            ("empty", json!({})),
            ("null", Value::Null),
        ];
        let found = home(
            &labels(node),
            pools.iter().map(|(name, selector)| (*name, selector)),
        );
        assert_eq!(&found, expect, "{node:?}");
        let labels = labels(node);
        let taken_apart = pools
            .iter()
            .map(|(name, selector)| (*name, Selector::of(selector).selects(&labels)));
        assert_eq!(&home_among(&labels, taken_apart), expect, "{node:?}");
    }

    #[test]
    fn nodes_live_where_the_mco_says() {
        const W: (&str, &str) = ("node-role.kubernetes.io/worker", "");
        const M: (&str, &str) = ("node-role.kubernetes.io/master", "");
        check(&[], &Home::None);
        check(&[W], &Home::Pool("worker"));
        check(&[W, M], &Home::Pool("master"));
        check(&[W, ("infra", "")], &Home::Pool("infra"));
        check(&[("infra", "")], &Home::Pool("infra"));
        check(&[W, M, ("infra", "")], &Home::Pool("master"));
        check(
            &[W, ("infra", ""), ("gpu", "a")],
            &Home::Several(vec!["infra", "gpu"]),
        );
        check(&[W, ("gpu", "c")], &Home::Pool("worker"));
        check(&[W, ("kubernetes.io/os", "windows")], &Home::None);
    }
}
