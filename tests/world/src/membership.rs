//! Which pool a node belongs to, after the MCO's rules (spec 4.3). Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use serde_json::{Value, json};

use crate::openshift::{MachineConfigPool, OS};

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// Where a node belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// No pool's selector matches, or the node is a Windows one.
    None,
    /// Its primary pool.
    Pool(String),
    /// More than one custom pool matches: the MCO does not touch the node.
    TwoCustom(Vec<String>),
}

impl Membership {
    /// Whether `pool` is the node's primary pool.
    pub fn is(&self, pool: &str) -> bool {
        matches!(self, Self::Pool(name) if name == pool)
    }
}

/// The primary pool of a node with these labels, among pools given as name and nodeSelector.
pub fn primary<'a>(
    labels: &Labels,
    pools: impl Iterator<Item = (&'a str, Option<&'a LabelSelector>)>,
) -> Membership {
    if is_windows(labels) {
        return Membership::None;
    }
    let matching: Vec<&str> = pools
        .filter(|(_, selector)| selector.is_some_and(|s| matches(s, labels)))
        .map(|(n, _)| n)
        .collect();
    let custom: Vec<&str> = matching
        .iter()
        .copied()
        .filter(|n| !matches!(*n, "master" | "arbiter" | "worker"))
        .collect();
    let has = |name| matching.contains(&name);
    match custom.as_slice() {
        [_, _, ..] => Membership::TwoCustom(custom.iter().map(ToString::to_string).collect()),
        _ if has("master") => Membership::Pool("master".into()),
        _ if has("arbiter") => Membership::Pool("arbiter".into()),
        [one] => Membership::Pool((*one).into()),
        [] if has("worker") => Membership::Pool("worker".into()),
        [] => Membership::None,
    }
}

/// [`primary`] among existing pools.
pub fn primary_pool<'a>(
    labels: &Labels,
    pools: impl IntoIterator<Item = &'a MachineConfigPool>,
) -> Membership {
    primary(
        labels,
        pools.into_iter().map(|p| {
            (
                p.metadata.name.as_deref().unwrap_or_default(),
                p.spec.node_selector.as_ref(),
            )
        }),
    )
}

/// Whether these are the labels of a Windows node, which the MCO leaves alone.
pub(crate) fn is_windows(labels: &Labels) -> bool {
    labels.get(OS).is_some_and(|os| os == "windows")
}

/// A selector without empty parts: an absent list of expressions and an empty one select the same.
pub(crate) fn tidy(selector: Option<&LabelSelector>) -> LabelSelector {
    let mut selector = selector.cloned().unwrap_or_default();
    selector.match_expressions = selector.match_expressions.filter(|e| !e.is_empty());
    selector.match_labels = selector.match_labels.filter(|l| !l.is_empty());
    selector
}

/// The merge patch that turns the selector `now` into `wanted`, keys that only `now` has included.
pub(crate) fn replacement(now: Option<&LabelSelector>, wanted: &LabelSelector) -> Value {
    let (now, wanted) = (tidy(now), tidy(Some(wanted)));
    let mut labels: BTreeMap<String, Option<String>> = BTreeMap::new();
    labels.extend(now.match_labels.into_iter().flatten().map(|(k, _)| (k, None)));
    labels.extend(
        wanted
            .match_labels
            .into_iter()
            .flatten()
            .map(|(k, v)| (k, Some(v))),
    );
    json!({ "matchLabels": labels, "matchExpressions": wanted.match_expressions })
}

/// Whether a non-empty selector matches; an empty one matches nothing here.
pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    if wanted.clone().next().is_none() && expressions.clone().next().is_none() {
        return false;
    }
    let labels_match = wanted.into_iter().all(|(k, v)| labels.get(k) == Some(v));
    labels_match
        && expressions.into_iter().all(|e| {
            let listed = || {
                labels
                    .get(&e.key)
                    .is_some_and(|v| e.values.iter().flatten().any(|wanted| wanted == v))
            };
            match e.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => labels.contains_key(&e.key),
                "DoesNotExist" => !labels.contains_key(&e.key),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    fn selector(labels: &[&str], expressions: &[(&str, &str)]) -> LabelSelector {
        LabelSelector {
            match_labels: Some(labels.iter().map(|l| ((*l).to_owned(), String::new())).collect()),
            match_expressions: Some(
                expressions
                    .iter()
                    .map(|(key, operator)| LabelSelectorRequirement {
                        key: (*key).into(),
                        operator: (*operator).into(),
                        values: Some(vec![String::new()]),
                    })
                    .collect(),
            ),
        }
    }

    fn of(labels: &[&str]) -> Membership {
        let pools = [
            ("master", selector(&["m"], &[])),
            ("worker", selector(&["w"], &[])),
            ("arbiter", selector(&["a"], &[])),
            ("infra", selector(&["i"], &[])),
            ("canary", selector(&["w"], &[("release", "Exists")])),
            ("empty", LabelSelector::default()),
        ];
        let labels = labels.iter().map(|l| ((*l).to_owned(), String::new())).collect();
        primary(&labels, pools.iter().map(|(n, s)| (*n, Some(s))))
    }

    #[test]
    fn a_node_has_one_primary_pool() {
        assert_eq!(of(&[]), Membership::None);
        assert_eq!(of(&["w"]), Membership::Pool("worker".into()));
        assert_eq!(of(&["m", "w"]), Membership::Pool("master".into()));
        assert_eq!(of(&["w", "i"]), Membership::Pool("infra".into()));
        assert_eq!(of(&["a", "i"]), Membership::Pool("arbiter".into()));
        assert_eq!(of(&["m", "i"]), Membership::Pool("master".into()));
        assert_eq!(of(&["w", "release"]), Membership::Pool("canary".into()));
        assert_eq!(
            of(&["w", "i", "release"]),
            Membership::TwoCustom(vec!["infra".into(), "canary".into()])
        );
    }

    #[test]
    fn a_replacement_leaves_nothing_of_what_was() {
        let (now, wanted) = (
            selector(&["w", "mine"], &[("mine", "Exists")]),
            selector(&["w"], &[]),
        );
        let expected = json!({ "matchLabels": { "w": "", "mine": null }, "matchExpressions": null });
        assert_eq!(replacement(Some(&now), &wanted), expected);
        assert_eq!(tidy(Some(&wanted)).match_expressions, None);
    }

    #[test]
    fn not_in_matches_a_missing_label() {
        let s = selector(&[], &[("a", "NotIn")]);
        assert!(matches(&s, &Labels::new()));
        assert!(!matches(&s, &[("a".to_owned(), String::new())].into()));
    }
}
