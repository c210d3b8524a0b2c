//! Checks that numo may do what its roles grant it, and no more. The roles are read from the manifests that install them.

use super::{
    finding::{AT_ONCE, Findings},
    webhook::OWN_WEBHOOK,
};
use crate::shell::{access, client::Connection, policies};
use futures::{StreamExt, stream};
use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    },
    authorization::v1::ResourceAttributes,
    rbac::v1::PolicyRule,
};
use kube::{Api, api::ListParams};
use numo_api::marks;
use numo_core::text::first_of;
use serde_json::Value;

/// What numo is granted, as it is installed: one source.
const ROLES: [&str; 7] = [
    include_str!("../../../../../deploy/kustomize/base/cluster_role.yaml"),
    include_str!("../../../../../deploy/kustomize/base/cluster_role_binding.yaml"),
    include_str!("../../../../../deploy/kustomize/base/leader_role.yaml"),
    include_str!("../../../../../deploy/kustomize/leases/rights/role.yaml"),
    include_str!("../../../../../deploy/kustomize/base/rule_jobs.yaml"),
    include_str!("../../../../../deploy/kustomize/base/rule_components.yaml"),
    include_str!("../../../../../deploy/kustomize/base/runs.yaml"),
];

/// What it is granted besides, where it makes the webhook's certificate itself.
const WEBHOOK_ROLES: &str =
    include_str!("../../../../../deploy/kustomize/components/webhook/certificate_role.yaml");

/// Every right that numo is granted where it is installed: what is bound to its ServiceAccount, where it is bound. What is
/// bound in a namespace other than that of node leases is bound in numo's own.
fn rights(namespace: &str, with_webhook: bool) -> Vec<ResourceAttributes> {
    let texts = ROLES.into_iter().chain(with_webhook.then_some(WEBHOOK_ROLES));
    let objects: Vec<Value> = texts
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap_or_default())
        .collect();
    let text = |object: &Value, pointer: &str| {
        let found = object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let mut out = Vec::new();
    for binding in objects.iter().filter(|one| one.get("roleRef").is_some()) {
        let place = text(binding, "/metadata/namespace");
        let is_meant = |role: &&Value| {
            text(role, "/kind") == text(binding, "/roleRef/kind")
                && text(role, "/metadata/name") == text(binding, "/roleRef/name")
                && ["", place.as_str()].contains(&text(role, "/metadata/namespace").as_str())
        };
        let rules = objects.iter().find(is_meant).and_then(|role| role.get("rules"));
        let rules: Vec<PolicyRule> = rules
            .and_then(|rules| serde_json::from_value(rules.clone()).ok())
            .unwrap_or_default();
        let place = match place.as_str() {
            "" => None,
            marks::LEASE_NAMESPACE => Some(marks::LEASE_NAMESPACE),
            _ => Some(namespace),
        };
        for rule in &rules {
            out.extend(rights_of(rule, place));
        }
    }
    out
}

fn rights_of(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let names = rule.resource_names.iter().flatten().cloned().map(Some);
    let names: Vec<Option<String>> = names.collect();
    let names = if names.is_empty() { vec![None] } else { names };
    let mut out = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, sub) = match resource.split_once('/') {
                Some((resource, sub)) => (resource, Some(sub.to_owned())),
                None => (resource.as_str(), None),
            };
            let each = rule
                .verbs
                .iter()
                .flat_map(|verb| names.iter().map(move |name| (verb, name)));
            out.extend(each.map(|(verb, name)| ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(resource.to_owned()),
                subresource: sub.clone(),
                name: name.clone(),
                namespace: namespace.map(str::to_owned),
                verb: Some(verb.clone()),
                ..ResourceAttributes::default()
            }));
        }
    }
    out
}

/// A right in words, as `verb resource/subresource.group in namespace`.
fn words(right: &ResourceAttributes) -> String {
    let part = |sign: &str, of: &Option<String>| {
        let found = of.as_deref().filter(|text| !text.is_empty());
        found.map_or_else(String::new, |text| format!("{sign}{text}"))
    };
    format!(
        "{} {}{}{}{}",
        part("", &right.verb),
        part("", &right.resource),
        part("/", &right.subresource),
        part(".", &right.group),
        part(" in ", &right.namespace)
    )
}

pub(super) async fn permissions(connection: &Connection, namespace: &str, found: &mut Findings) {
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(connection.read.clone());
    // Installed by OLM it has another name, and its certificate is OLM's.
    let with_webhook = matches!(hooks.get_opt(OWN_WEBHOOK).await, Ok(Some(_)));
    let all = rights(namespace, with_webhook);
    let number = all.len();
    let ask = |right: ResourceAttributes| async move {
        let lack = words(&right);
        let may = access::may(&connection.write, namespace, "numo", right).await?;
        Ok::<_, kube::Error>((!may).then_some(lack))
    };
    let answers: Vec<_> = stream::iter(all.into_iter().map(ask))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut lacks = Vec::new();
    for answer in answers {
        match answer {
            Ok(lack) => lacks.extend(lack),
            Err(error) => return found.unknown("what numo may do", &error),
        }
    }
    if lacks.is_empty() {
        return found.ok(format!("ServiceAccount {namespace}/numo has all {number} rights"));
    }
    let first = first_of(lacks, 5);
    found.wrong(
        format!("ServiceAccount {namespace}/numo may not {first}"),
        "install numo's roles and bindings of this version, and look for who takes them away",
    );
}

/// Whether the API server refuses numo's token what numo has no need to write.
pub(super) async fn token_policies(connection: &Connection, found: &mut Findings) {
    let params = ListParams::default();
    let api: Api<ValidatingAdmissionPolicy> = Api::all(connection.read.clone());
    let installed = match api.list(&params).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("ValidatingAdmissionPolicies", &error),
    };
    let api: Api<ValidatingAdmissionPolicyBinding> = Api::all(connection.read.clone());
    let bindings = match api.list(&params).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("ValidatingAdmissionPolicyBindings", &error),
    };
    let faults = policies::faults(&installed, &bindings);
    if faults.is_empty() {
        return found.ok(format!(
            "all {} ValidatingAdmissionPolicies keep numo's token to what numo writes",
            policies::number()
        ));
    }
    found.wrong(
        format!(
            "policies of numo do not hold, so that numo's token may write more than numo does, or people more than they should: {}",
            faults.join("; ")
        ),
        policies::command(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_that_is_installed_is_asked_about() {
        let all = rights("elsewhere", false);
        assert!(all.len() > 50, "{}", all.len());
        let has = |of: fn(&ResourceAttributes) -> &Option<String>, wanted: &str| {
            all.iter().any(|right| of(right).as_deref() == Some(wanted))
        };
        let in_own = all
            .iter()
            .filter(|right| right.namespace.as_deref() == Some("elsewhere"));
        let mut names = in_own.filter_map(|right| right.name.as_deref());
        assert!(names.any(|name| name == "numo-leader"), "{all:?}");
        assert!(has(|right| &right.namespace, "medik8s-leases"));
        assert!(has(|right| &right.subresource, "eviction"));
        let eviction = all.iter().find(|right| right.subresource.is_some()).map(words);
        assert_eq!(eviction.as_deref(), Some("create pods/eviction"));
        // What is bound by name in its own namespace: rules, components, journals; and the webhook's where it is. Plans are not.
        let own = |verb: &str, resource: &str, all: &[ResourceAttributes]| {
            all.iter().any(|right| {
                right.namespace.as_deref() == Some("elsewhere")
                    && right.verb.as_deref() == Some(verb)
                    && right.resource.as_deref() == Some(resource)
            })
        };
        for (verb, resource) in [
            ("create", "jobs"),
            ("get", "configmaps"),
            ("create", "nodechanges"),
            ("delete", "nodechanges"),
        ] {
            assert!(own(verb, resource, &all), "{verb} {resource}");
        }
        assert!(!own("delete", "jobs", &all) && !own("list", "secrets", &all));
        assert!(!own("update", "secrets", &all));
        let with_webhook = rights("elsewhere", true);
        assert!(own("update", "secrets", &with_webhook) && !own("create", "secrets", &with_webhook));
        // Nobody is invited to pull secrets from the start.
        assert!(!own("get", "secrets", &all));
    }
}
