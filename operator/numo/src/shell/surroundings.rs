//! What stands around pods that a drain would move: how many of them there are, volumes that are on one node, and admission
//! webhooks that are served from a node. For previews alone; it lists, and what may not be listed is said.

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apps::v1::{ReplicaSet, StatefulSet},
    core::v1::PersistentVolume,
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use numo_core::{forecast::Surroundings, observed::Key};
use std::collections::{BTreeMap, BTreeSet};

/// Lists everything of a kind, or notes that it may not be seen.
async fn all<K>(client: &Client, what: &str, unseen: &mut Vec<String>) -> Vec<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(500);
    loop {
        match api.list(&params).await {
            Ok(page) => {
                found.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return found,
                }
            }
            Err(error) => {
                unseen.push(format!("{what}: {error}"));
                return found;
            }
        }
    }
}

/// What is known of the pods' owners and volumes.
pub async fn surroundings(client: &Client, unseen: &mut Vec<String>) -> Surroundings {
    let mut around = Surroundings::default();
    for set in all::<ReplicaSet>(client, "replicasets", unseen).await {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        around
            .replicas
            .insert(set.uid().unwrap_or_default(), replicas.into());
    }
    for set in all::<StatefulSet>(client, "statefulsets", unseen).await {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        around
            .replicas
            .insert(set.uid().unwrap_or_default(), replicas.into());
    }
    for volume in all::<PersistentVolume>(client, "persistentvolumes", unseen).await {
        let name = volume.name_any();
        let Some(spec) = volume.spec else { continue };
        let is_local = spec.local.is_some() || spec.host_path.is_some();
        if let Some(claim) = spec.claim_ref.filter(|_| is_local) {
            let key = Key::new(
                claim.namespace.unwrap_or_default(),
                claim.name.unwrap_or_default(),
            );
            around.bound_to_node.insert(key, name);
        }
    }
    around
}

/// Admission webhooks whose last endpoint is on a node that would be drained.
pub async fn webhooks(client: &Client, nodes: &[String], unseen: &mut Vec<String>) -> Vec<String> {
    let mut hooks: Vec<(String, Option<String>, Key)> = Vec::new();
    let named = |name: String, policy: Option<String>, service: Option<(String, String)>| {
        service.map(|(namespace, service)| (name, policy, Key::new(namespace, service)))
    };
    let validating =
        all::<ValidatingWebhookConfiguration>(client, "validatingwebhookconfigurations", unseen).await;
    for hook in validating
        .into_iter()
        .flat_map(|one| one.webhooks.unwrap_or_default())
    {
        let service = hook
            .client_config
            .service
            .map(|service| (service.namespace, service.name));
        hooks.extend(named(hook.name, hook.failure_policy, service));
    }
    let mutating = all::<MutatingWebhookConfiguration>(client, "mutatingwebhookconfigurations", unseen).await;
    for hook in mutating
        .into_iter()
        .flat_map(|one| one.webhooks.unwrap_or_default())
    {
        let service = hook
            .client_config
            .service
            .map(|service| (service.namespace, service.name));
        hooks.extend(named(hook.name, hook.failure_policy, service));
    }
    if hooks.is_empty() {
        return Vec::new();
    }
    let mut places: BTreeMap<Key, BTreeSet<String>> = BTreeMap::new();
    for slice in all::<EndpointSlice>(client, "endpointslices", unseen).await {
        let Some(service) = slice.labels().get("kubernetes.io/service-name").cloned() else {
            continue;
        };
        let key = Key::new(slice.namespace().unwrap_or_default(), service);
        let ready = slice.endpoints.into_iter().filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready) != Some(false)
        });
        let at = places.entry(key).or_default();
        // An endpoint of no node stays, wherever it is.
        at.extend(ready.map(|endpoint| endpoint.node_name.unwrap_or_default()));
    }
    let of_hook = |(name, policy, service): (String, Option<String>, Key)| {
        let at = places.get(&service)?;
        let only = at.first().filter(|node| at.len() == 1 && nodes.contains(node))?;
        let follows = if policy.as_deref() == Some("Ignore") {
            "what it judges passes unjudged"
        } else {
            "what it judges is refused"
        };
        Some(format!(
            "webhook {name} has its last endpoint (Service {service}) on Node {only}: while that is drained, {follows}"
        ))
    };
    hooks.into_iter().filter_map(of_hook).collect()
}
