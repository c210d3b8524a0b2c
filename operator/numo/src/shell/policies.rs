//! The ValidatingAdmissionPolicies that make numo's token worth no more than what numo writes: whether those that ship with this numo are
//! there, are of this numo, and are bound. It compares; it reads and writes nothing.

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicySpec,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::ResourceExt;
use serde_json::Value;

/// What ships: one source.
const SHIPPED: &str = include_str!("../../../../deploy/kustomize/base/admission_policy.yaml");
/// Where it stands in the repository.
const FILE: &str = "deploy/kustomize/base/admission_policy.yaml";
/// What the component of machines that are replaced makes of the policy of Nodes: a JSON Patch.
const COMPONENT: &str =
    include_str!("../../../../deploy/kustomize/components/node-version/admission_policy.yaml");
/// The policy of Nodes.
const NODES: &str = "numo-nodes";
/// The one that says where Jobs may use the host.
const HOSTS: &str = "numo-hosts";
/// The variables that are an administrator's to fill: further labels, annotations and taints of Nodes that numo may write, and annotations of
/// Machines that a provider of machines may.
const LISTED: [&str; 4] = ["listed", "listedAnnotations", "listedTaints", "listedOfMachines"];
/// What a binding must do.
const DENY: &str = "Deny";

/// The objects of a kind that ship. They name no namespace: those of every installation are the same.
fn shipped<K: serde::de::DeserializeOwned>(kind: &str) -> Vec<K> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap_or_default();
    let meant = objects.into_iter().filter(|object| object["kind"] == kind);
    meant
        .filter_map(|object| serde_json::from_value(object).ok())
        .collect()
}

/// The policy of Nodes as it is with the component of machines that are replaced.
fn with_component(policy: &ValidatingAdmissionPolicy) -> Option<ValidatingAdmissionPolicy> {
    if policy.name_any() != NODES {
        return None;
    }
    let operations: Value = serde_saphyr::from_str(COMPONENT).ok()?;
    let patch: json_patch::Patch = serde_json::from_value(operations).ok()?;
    let mut object = serde_json::to_value(policy).ok()?;
    json_patch::patch(&mut object, &patch).ok()?;
    serde_json::from_value(object).ok()
}

/// Whether this expression is a list of keys, or of keys and effects of taints, and computes nothing.
fn is_list(expression: &str) -> bool {
    let key = |text: &str| {
        let bare = ["'", "\""]
            .iter()
            .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
        bare.is_some_and(|key| {
            key.chars()
                .all(|one| one.is_ascii_alphanumeric() || "-_./:".contains(one))
        })
    };
    expression
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|inner| inner.is_empty() || inner.split(',').all(key))
}

/// What a policy asks: what is defaulted, and blanks, do not count, nor does what is an administrator's to list.
fn asks(spec: Option<&ValidatingAdmissionPolicySpec>) -> Vec<String> {
    let Some(spec) = spec else {
        return Vec::new();
    };
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let conditions = spec.match_conditions.iter().flatten();
    let variables = spec.variables.iter().flatten();
    let validations = spec.validations.iter().flatten();
    let rules = spec
        .match_constraints
        .iter()
        .flat_map(|all| all.resource_rules.iter().flatten());
    let lists = rules.map(|rule| {
        let lists = [
            &rule.api_groups,
            &rule.api_versions,
            &rule.operations,
            &rule.resources,
            &rule.resource_names,
        ];
        format!("{lists:?}")
    });
    conditions
        .map(|one| plain(&one.expression))
        .chain(variables.map(|one| match plain(&one.expression) {
            list if LISTED.contains(&one.name.as_str()) && is_list(&list) => format!("{}, a list", one.name),
            other => format!("{}={other}", one.name),
        }))
        .chain(validations.map(|one| plain(&one.expression)))
        .chain(lists)
        .chain(spec.match_constraints.iter().flat_map(left_out))
        .chain(spec.failure_policy.clone())
        .collect()
}

/// What constraints leave out of what their rules name.
fn left_out(constraints: &MatchResources) -> Vec<String> {
    let selectors = [&constraints.namespace_selector, &constraints.object_selector];
    let narrow = selectors.into_iter().flatten().filter(|one| is_narrow(one));
    let excluded = constraints.exclude_resource_rules.iter().flatten();
    let exact = constraints.match_policy.iter().filter(|one| *one == "Exact");
    narrow
        .map(|one| format!("{one:?}"))
        .chain(excluded.map(|one| format!("{one:?}")))
        .chain(exact.cloned())
        .collect()
}

const fn is_narrow(selector: &LabelSelector) -> bool {
    selector.match_labels.is_some() || selector.match_expressions.is_some()
}

/// Whether a binding of this policy denies everywhere: one with a selector leaves something out.
fn binds(binding: &ValidatingAdmissionPolicyBinding, policy: &str) -> bool {
    let Some(spec) = &binding.spec else {
        return false;
    };
    let denies = spec
        .validation_actions
        .iter()
        .flatten()
        .any(|action| action == DENY);
    let selects = spec
        .match_resources
        .as_ref()
        .is_some_and(|resources| resources.resource_rules.is_some() || !left_out(resources).is_empty());
    spec.policy_name.as_deref() == Some(policy) && denies && !selects
}

/// Whether a policy asks what one that ships does, with the component of machines that are replaced or without.
fn is_as_shipped(found: &ValidatingAdmissionPolicy, wanted: &ValidatingAdmissionPolicy) -> bool {
    let found = asks(found.spec.as_ref());
    let with_component = || with_component(wanted).is_some_and(|other| found == asks(other.spec.as_ref()));
    found == asks(wanted.spec.as_ref()) || with_component()
}

/// What is wrong with the policies of numo, one sentence part for each; none where all are there.
pub fn faults(
    policies: &[ValidatingAdmissionPolicy],
    bindings: &[ValidatingAdmissionPolicyBinding],
) -> Vec<String> {
    let mut out = Vec::new();
    for wanted in shipped::<ValidatingAdmissionPolicy>("ValidatingAdmissionPolicy") {
        let name = wanted.name_any();
        match policies.iter().find(|one| one.name_any() == name) {
            None => out.push(format!("ValidatingAdmissionPolicy {name} is not there")),
            Some(found) if !is_as_shipped(found, &wanted) => {
                out.push(format!(
                    "ValidatingAdmissionPolicy {name} is not that of this numo"
                ));
            }
            Some(_) => {}
        }
        if !bindings.iter().any(|one| binds(one, &name)) {
            out.push(format!(
                "no ValidatingAdmissionPolicyBinding makes ValidatingAdmissionPolicy {name} deny"
            ));
        }
    }
    out
}

/// Whether a Job was refused, in these words, for where it would use the host: its Namespace may be labelled at any time.
pub fn keeps_hosts(message: &str) -> bool {
    message.contains(&format!("ValidatingAdmissionPolicy '{HOSTS}' "))
}

/// How many ship.
pub fn number() -> usize {
    shipped::<ValidatingAdmissionPolicy>("ValidatingAdmissionPolicy").len()
}

/// The command that installs them.
pub fn command() -> String {
    format!("kubectl apply -f {FILE}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;

    type Both = (
        Vec<ValidatingAdmissionPolicy>,
        Vec<ValidatingAdmissionPolicyBinding>,
    );

    fn installed() -> Both {
        (
            shipped("ValidatingAdmissionPolicy"),
            shipped("ValidatingAdmissionPolicyBinding"),
        )
    }

    #[test]
    fn what_ships_is_sound_wherever_it_is_installed() {
        assert!(number() > 3);
        let (policies, bindings) = installed();
        assert_eq!(policies.len(), number());
        assert_eq!(faults(&policies, &bindings), Vec::<String>::new());
        // kustomize and OLM put numo into any namespace, and change no expression.
        assert!(!SHIPPED.contains("node-upgrade-mutex-operator"));
    }

    fn constraints(spec: &mut ValidatingAdmissionPolicySpec) -> &mut MatchResources {
        spec.match_constraints.get_or_insert_default()
    }

    fn only() -> LabelSelector {
        LabelSelector {
            match_labels: Some([("checked".to_owned(), "true".to_owned())].into()),
            ..LabelSelector::default()
        }
    }

    #[test]
    fn one_that_is_gone_weakened_or_not_bound_is_named() {
        let lacks = |change: fn(&mut Both)| {
            let mut both = installed();
            change(&mut both);
            faults(&both.0, &both.1)
        };
        let gone = lacks(|both| both.0.retain(|one| one.name_any() != "numo-nodes"));
        assert_eq!(gone, ["ValidatingAdmissionPolicy numo-nodes is not there"]);
        let none = lacks(|both| *both = Both::default());
        assert_eq!(none.len(), 2 * number(), "{none:?}");
        let weakened: [fn(&mut ValidatingAdmissionPolicySpec); 8] = [
            |spec| drop(spec.validations.as_mut().map(Vec::pop)),
            |spec| spec.failure_policy = Some("Ignore".to_owned()),
            |spec| spec.variables = None,
            |spec| {
                let rules = spec
                    .match_constraints
                    .as_mut()
                    .and_then(|all| all.resource_rules.as_mut());
                drop(rules.map(Vec::pop));
            },
            |spec| constraints(spec).namespace_selector = Some(only()),
            |spec| constraints(spec).object_selector = Some(only()),
            |spec| {
                let rule = NamedRuleWithOperations::default();
                constraints(spec).exclude_resource_rules = Some(vec![rule]);
            },
            |spec| constraints(spec).match_policy = Some("Exact".to_owned()),
        ];
        for weaken in weakened {
            let (mut policies, bindings) = installed();
            for one in policies.iter_mut().filter(|one| one.name_any() == "numo-nodes") {
                if let Some(spec) = &mut one.spec {
                    weaken(spec);
                }
            }
            let found = faults(&policies, &bindings);
            assert!(
                found.len() == 1 && found[0].contains("numo-nodes is not that of this numo"),
                "{found:?}"
            );
        }
        let unbound = lacks(|both| both.1.retain(|one| one.name_any() != "numo-pools"));
        assert!(
            unbound.len() == 1 && unbound[0].contains("numo-pools deny"),
            "{unbound:?}"
        );
        let audited = lacks(|both| {
            for one in &mut both.1 {
                one.spec
                    .iter_mut()
                    .for_each(|spec| spec.validation_actions = Some(vec!["Audit".to_owned()]));
            }
        });
        assert_eq!(audited.len(), number(), "{audited:?}");
    }

    #[test]
    fn what_the_api_server_fills_in_is_no_difference() {
        let (mut policies, mut bindings) = installed();
        for one in &mut policies {
            let constraints = one.spec.as_mut().and_then(|spec| spec.match_constraints.as_mut());
            if let Some(all) = constraints {
                all.match_policy = Some("Equivalent".to_owned());
                all.namespace_selector = Some(LabelSelector::default());
                all.object_selector = Some(LabelSelector::default());
            }
        }
        for one in &mut bindings {
            if let Some(spec) = &mut one.spec {
                spec.match_resources = Some(MatchResources::default());
            }
        }
        assert_eq!(faults(&policies, &bindings), Vec::<String>::new());
    }

    #[test]
    fn the_component_of_machines_that_are_replaced_is_no_fault_and_has_its_lists() {
        let found = |name: &str, expression: &str| {
            let (mut policies, bindings) = installed();
            for one in policies.iter_mut().filter(|one| one.name_any() == NODES) {
                *one = with_component(one).expect("the patch fits");
                let spec = one.spec.as_mut().expect("a spec");
                let mut listed = spec.variables.iter_mut().flatten().filter(|one| one.name == name);
                listed.next().expect(name).expression = expression.to_owned();
            }
            faults(&policies, &bindings).len()
        };
        assert_eq!(found("listedAnnotations", "[]"), 0);
        assert_eq!(found("listedAnnotations", "['example.com/owner']"), 0);
        assert_eq!(
            found("listedTaints", "['dedicated:NoSchedule', 'gpu:NoSchedule']"),
            0
        );
        assert_eq!(found("listedTaints", "variables.taints"), 1);
        assert_eq!(found("strangeTaints", "[]"), 1);
    }

    #[test]
    fn further_labels_are_an_administrators_to_list() {
        let found = |expression: &str| {
            let (mut policies, bindings) = installed();
            let variables = policies
                .iter_mut()
                .filter(|one| one.name_any() == "numo-nodes")
                .filter_map(|one| one.spec.as_mut()?.variables.as_mut());
            let mut listed: Vec<_> = variables.flatten().filter(|one| one.name == LISTED[0]).collect();
            assert_eq!(listed.len(), 1);
            listed[0].expression = expression.to_owned();
            faults(&policies, &bindings).len()
        };
        for list in ["[]", "[ ]", "['example.com/at']", "[\"example.com/at\", 'a_b']"] {
            assert_eq!(found(list), 0, "{list}");
        }
        for other in [
            "",
            "variables.labels",
            "['a'] + variables.labels",
            "['a', variables.labels.map(key, key)[0]]",
            "['a'].map(key, 'b')",
            "['a\"]",
            "[object.metadata.name]",
        ] {
            assert_eq!(found(other), 1, "{other}");
        }
    }

    #[test]
    fn annotations_of_machines_are_an_administrators_to_list_and_none_ships() {
        let found = |expression: &str| {
            let (mut policies, bindings) = installed();
            let variables = policies
                .iter_mut()
                .filter(|one| one.name_any() == "numo-metadata")
                .filter_map(|one| one.spec.as_mut()?.variables.as_mut());
            let mut listed: Vec<_> = variables.flatten().filter(|one| one.name == LISTED[3]).collect();
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].expression, "[]");
            listed[0].expression = expression.to_owned();
            faults(&policies, &bindings).len()
        };
        assert_eq!(found("['cluster.x-k8s.io/delete-machine']"), 0);
        assert_eq!(found("variables.annotations.map(key, key)"), 1);
    }

    #[test]
    fn a_refusal_for_the_host_is_told_from_others() {
        let policies: Vec<ValidatingAdmissionPolicy> = shipped("ValidatingAdmissionPolicy");
        assert!(policies.iter().any(|one| one.name_any() == HOSTS));
        let said = |policy: &str| {
            format!(
                "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: no"
            )
        };
        assert!(keeps_hosts(&said(HOSTS)));
        for other in ["numo-jobs", "numo-hosts-of-somebody"] {
            assert!(!keeps_hosts(&said(other)), "{other}");
        }
    }
}
