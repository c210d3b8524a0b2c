//! Who may write Plans, and so is root on the nodes: what roles and their bindings say of it. It reads nothing and asks nobody, and does
//! not know what another authorizer allows, or who may change roles, bindings or the pods of those it names.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::ResourceExt;
use numo_core::{rules::clip, text::first_of};
use std::collections::{BTreeMap, BTreeSet};

/// Who is named, at most.
const NAMED: usize = 20;
/// Namespaces that are named, at most.
const NAMESPACES: usize = 5;
/// Letters of a name.
const NAME: usize = 128;
/// Allowed everything by the API server itself, whatever roles say.
const MASTERS: &str = "Group system:masters";

/// Roles and bindings as they were listed: those of the cluster, and those of the namespaces with Plans. What is aggregated stands in
/// the rules of a ClusterRole already.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// All of the cluster.
    pub cluster_roles: Vec<ClusterRole>,
    /// All of the cluster.
    pub cluster_bindings: Vec<ClusterRoleBinding>,
    /// Those of the namespaces.
    pub roles: Vec<Role>,
    /// Those of the namespaces.
    pub bindings: Vec<RoleBinding>,
}

/// Whether these rules let somebody create or change Plans. Names of single Plans are not told apart: one is enough.
fn may_write(rules: Option<&[PolicyRule]>) -> bool {
    let has = |of: Option<&[String]>, name: &str| {
        let mut all = of.into_iter().flatten();
        all.any(|one| one == "*" || one == name)
    };
    let mut rules = rules.into_iter().flatten();
    rules.any(|rule| {
        let verbs = Some(rule.verbs.as_slice());
        has(rule.api_groups.as_deref(), "upgrade.cattle.io")
            && has(rule.resources.as_deref(), "plans")
            && ["create", "update", "patch"]
                .into_iter()
                .any(|verb| has(verbs, verb))
    })
}

/// A subject as it is shown: the same for the same one.
fn shown(subject: &Subject, bound_in: &str) -> String {
    let name = clip(&subject.name, NAME);
    if subject.kind == "ServiceAccount" {
        let namespace = subject.namespace.as_deref().unwrap_or(bound_in);
        format!("ServiceAccount {}/{name}", clip(namespace, NAME))
    } else {
        format!("{} {name}", clip(&subject.kind, NAME))
    }
}

/// Who may write Plans, and in which of the namespaces.
pub fn writers(granted: &Granted, namespaces: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let meant = granted
        .cluster_roles
        .iter()
        .filter(|role| may_write(role.rules.as_deref()));
    let of_cluster: BTreeSet<String> = meant.map(ResourceExt::name_any).collect();
    let meant = granted
        .roles
        .iter()
        .filter(|role| may_write(role.rules.as_deref()));
    let own: BTreeSet<(String, String)> = meant
        .map(|role| (role.namespace().unwrap_or_default(), role.name_any()))
        .collect();
    let writes = |role: &RoleRef, namespace: &str| match role.kind.as_str() {
        "ClusterRole" => of_cluster.contains(&role.name),
        _ => own.contains(&(namespace.to_owned(), role.name.clone())),
    };
    let mut found = BTreeMap::from([(MASTERS.to_owned(), namespaces.clone())]);
    for binding in &granted.cluster_bindings {
        if writes(&binding.role_ref, "") {
            for subject in binding.subjects.iter().flatten() {
                found.insert(shown(subject, ""), namespaces.clone());
            }
        }
    }
    for binding in &granted.bindings {
        let namespace = binding.namespace().unwrap_or_default();
        if namespaces.contains(&namespace) && writes(&binding.role_ref, &namespace) {
            for subject in binding.subjects.iter().flatten() {
                let places = found.entry(shown(subject, &namespace)).or_default();
                places.insert(namespace.clone());
            }
        }
    }
    found
}

/// The same in a sentence; `own` is numo's ServiceAccount as `namespace/name`. People come before ServiceAccounts, of which a cluster
/// has many.
pub fn sentence(granted: &Granted, namespaces: &BTreeSet<String>, own: &str) -> String {
    let found = writers(granted, namespaces);
    let own = format!("ServiceAccount {own}");
    let mut all: Vec<(&String, &BTreeSet<String>)> = found.iter().collect();
    all.sort_by_key(|one| rank(one.0));
    let named = all.iter().take(NAMED).map(|(who, places)| {
        let is_own = if **who == own { " (numo itself)" } else { "" };
        let only = if *places == namespaces {
            String::new()
        } else {
            format!(" (in {})", places_named(places))
        };
        format!("{who}{is_own}{only}")
    });
    let mut words = named.collect::<Vec<_>>().join(", ");
    if all.len() > NAMED {
        words = format!("{words}, and {} more", all.len() - NAMED);
    }
    format!(
        "who may write Plans is root on the nodes; in {}: {words}",
        places_named(namespaces)
    )
}

fn rank(who: &str) -> u8 {
    match who {
        MASTERS => 0,
        who if who.starts_with("ServiceAccount ") => 2,
        _ => 1,
    }
}

fn places_named(namespaces: &BTreeSet<String>) -> String {
    first_of(namespaces.iter().map(|one| clip(one, NAME)), NAMESPACES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn rules(group: &str, resource: &str, verb: &str) -> Value {
        json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb]}])
    }

    fn binding<T: serde::de::DeserializeOwned>(namespace: &str, role: (&str, &str), subjects: &Value) -> T {
        of(json!({
            "metadata": {"name": "any", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
            "subjects": subjects,
        }))
    }

    fn places(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_wildcard_writes_and_a_reader_does_not() {
        for (group, resource, verb, is) in [
            ("upgrade.cattle.io", "plans", "create", true),
            ("upgrade.cattle.io", "plans", "update", true),
            ("upgrade.cattle.io", "plans", "patch", true),
            ("*", "*", "*", true),
            ("upgrade.cattle.io", "plans", "get", false),
            ("upgrade.cattle.io", "plans", "delete", false),
            ("upgrade.cattle.io", "plans/status", "update", false),
            ("apps", "*", "*", false),
            ("upgrade.cattle.io", "jobs", "*", false),
        ] {
            let rules: Vec<PolicyRule> = of(rules(group, resource, verb));
            assert_eq!(may_write(Some(rules.as_slice())), is, "{verb} {resource}.{group}");
        }
        let by_name: Vec<PolicyRule> = of(json!([{
            "apiGroups": ["upgrade.cattle.io"], "resources": ["plans"], "resourceNames": ["one"], "verbs": ["patch"],
        }]));
        assert!(may_write(Some(by_name.as_slice())));
        assert!(!may_write(None));
    }

    fn granted() -> Granted {
        let alice = json!([{"kind": "User", "name": "alice"}]);
        let bot = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "ci"}]);
        let numo = json!([{"kind": "ServiceAccount", "name": "numo", "namespace": "ours"}]);
        let masters = json!([{"kind": "Group", "name": "system:masters"}]);
        Granted {
            cluster_roles: vec![
                of(json!({"metadata": {"name": "all"}, "rules": rules("*", "*", "*")})),
                of(
                    json!({"metadata": {"name": "plans"}, "rules": rules("upgrade.cattle.io", "plans", "patch")}),
                ),
                of(json!({"metadata": {"name": "view"}, "rules": rules("*", "*", "get")})),
            ],
            cluster_bindings: vec![
                binding("", ("ClusterRole", "all"), &masters),
                binding("", ("ClusterRole", "plans"), &numo),
                binding(
                    "",
                    ("ClusterRole", "view"),
                    &json!([{"kind": "User", "name": "reader"}]),
                ),
            ],
            roles: vec![of(json!({
                "metadata": {"name": "makers", "namespace": "upgrades"},
                "rules": rules("upgrade.cattle.io", "plans", "create"),
            }))],
            bindings: vec![
                binding("upgrades", ("ClusterRole", "all"), &alice),
                binding("upgrades", ("Role", "makers"), &bot),
                // The Role of another namespace by the same name, and a namespace without Plans.
                binding(
                    "ours",
                    ("Role", "makers"),
                    &json!([{"kind": "User", "name": "nobody"}]),
                ),
                binding(
                    "shop",
                    ("ClusterRole", "all"),
                    &json!([{"kind": "User", "name": "keeper"}]),
                ),
            ],
        }
    }

    #[test]
    fn each_is_named_once_with_the_namespaces_that_are_meant() {
        let said = sentence(&granted(), &places(&["ours", "upgrades"]), "ours/numo");
        assert_eq!(
            said,
            "who may write Plans is root on the nodes; in ours, upgrades: Group system:masters, User alice (in upgrades), \
             ServiceAccount ci/bot (in upgrades), ServiceAccount ours/numo (numo itself)"
        );
        let nobody = sentence(&Granted::default(), &places(&["ours"]), "ours/numo");
        assert!(nobody.ends_with("in ours: Group system:masters"), "{nobody}");
    }

    #[test]
    fn many_are_counted_and_names_steer_nothing() {
        let many: Vec<Value> = (0..40)
            .map(|index| json!({"kind": "User", "name": format!("user-{index:02}\u{1b}[8m{}", "x".repeat(300))}))
            .collect();
        let mut granted = granted();
        granted
            .cluster_bindings
            .push(binding("", ("ClusterRole", "all"), &json!(many)));
        let said = sentence(&granted, &places(&["ours", "upgrades"]), "ours/numo");
        assert!(said.ends_with(", and 24 more"), "{said}");
        assert!(!said.chars().any(numo_api::text::is_unseen), "{said:?}");
        assert!(said.len() < 4096, "{}", said.len());
    }
}
