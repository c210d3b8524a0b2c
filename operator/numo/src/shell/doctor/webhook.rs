//! Checks that the webhook of NodeMaintenances answers, by a dry run of one that must be refused.

use super::finding::Findings;
use crate::shell::client::Connection;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};

/// The webhook configuration of the overlays and the chart.
pub(super) const OWN_WEBHOOK: &str = "numo";

/// Whether a configuration leads to numo in its namespace: by its name, or by its Service, as OLM chooses the name.
fn is_own(configuration: &ValidatingWebhookConfiguration, namespace: &str) -> bool {
    let hooks = configuration.webhooks.iter().flatten();
    let mut services = hooks.filter_map(|hook| hook.client_config.service.as_ref());
    configuration.name_any() == OWN_WEBHOOK || services.any(|service| service.namespace == namespace)
}

/// The node of the maintenance that is asked for.
const NOBODY: &str = "numo-doctor-asks-for-no-node";

pub(super) async fn webhook(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(connection.read.clone());
    let all = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("the webhooks of the cluster", &error),
    };
    let (own, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(is_of_maintenances)
        .partition(|one| is_own(one, namespace));
    let others: Vec<String> = others.iter().map(ResourceExt::name_any).collect();
    let own = own.into_iter().next();
    let own_name = own.as_ref().map(ResourceExt::name_any);
    if own.is_none() {
        found.note(
            "the admission of NodeMaintenances is not installed: the same checks come as conditions",
            "install it with the overlays or with webhook.enabled=true, if they are to be refused at once",
        );
        if others.is_empty() {
            return;
        }
    }
    let hooks = own.and_then(|own| own.webhooks).unwrap_or_default();
    let vouched = |hook: &ValidatingWebhook| {
        hook.client_config
            .ca_bundle
            .as_ref()
            .is_some_and(|bundle| !bundle.0.is_empty())
    };
    if let Some(hook) = hooks.iter().find(|hook| !vouched(hook)) {
        return found.wrong(
            format!(
                "webhook {} has no caBundle: every new NodeMaintenance is refused",
                hook.name
            ),
            "numo fills it in within a minute if NUMO_WEBHOOK_CERTS is self; else fill it in by hand",
        );
    }
    let answer = ask(connection).await;
    note_answer(answer, own_name.as_deref(), &others, found);
}

/// Asks for the maintenance of a node that nobody has, by dry run.
async fn ask(connection: &Connection) -> Result<DynamicObject, kube::Error> {
    let kind = GroupVersionKind::gvk(
        numo_api::node_maintenance::MEDIK8S_GROUP,
        "v1beta1",
        "NodeMaintenance",
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, "nodemaintenances");
    let tried =
        DynamicObject::new("numo-doctor", &resource).data(serde_json::json!({"spec": {"nodeName": NOBODY}}));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api: Api<DynamicObject> = Api::all_with(connection.write.clone(), &resource);
    api.create(&dry, &tried).await
}

/// What the answer says of the webhook. `own`: the configuration that leads to numo, where it is installed; `others`: those
/// of other operators.
fn note_answer(
    answer: Result<DynamicObject, kube::Error>,
    own: Option<&str>,
    others: &[String],
    found: &mut Findings,
) {
    let own_name = own.unwrap_or(OWN_WEBHOOK);
    match answer {
        Err(kube::Error::Api(status)) if status.message.contains(NOBODY) => {
            found.ok("the webhook answers: a NodeMaintenance of a node that is not there is refused");
        }
        Err(kube::Error::Api(status))
            if status.message.contains("failed calling webhook") && !others.is_empty() =>
        {
            let names = others.join(", ");
            found.wrong(
                format!(
                    "a webhook of NodeMaintenances does not answer, and ValidatingWebhookConfiguration {names} is \
                     another operator's: {}",
                    status.message
                ),
                format!("if that operator is stopped: kubectl delete validatingwebhookconfiguration {names}"),
            );
        }
        Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => found.wrong(
            format!("the webhook does not answer: {}", status.message),
            format!(
                "look at its Service, its endpoints, and NetworkPolicies between the API server and numo; until it \
                 answers, kubectl delete validatingwebhookconfiguration {own_name} lets NodeMaintenances in (the same \
                 checks come as conditions), and installing numo again brings it back"
            ),
        ),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            found.note("NodeMaintenances are not served: the webhook has nothing to do", "install its definition");
        }
        Err(error) => found.unknown("a NodeMaintenance by dry run", &error),
        Ok(_) if own.is_none() => {}
        Ok(_) => found.wrong(
            "a NodeMaintenance of a node that is not there is admitted: the webhook is not asked",
            "compare ValidatingWebhookConfiguration numo with deploy/kustomize/components/webhook",
        ),
    }
}

/// Whether a configuration is asked about NodeMaintenances.
fn is_of_maintenances(configuration: &ValidatingWebhookConfiguration) -> bool {
    let hooks = configuration.webhooks.iter().flatten();
    let mut rules = hooks.flat_map(|hook| hook.rules.iter().flatten());
    rules.any(|rule| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource == "nodemaintenances")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_olm_named_is_numos_own() {
        let of = |name: &str, namespace: &str| {
            serde_json::from_value::<ValidatingWebhookConfiguration>(serde_json::json!({
                "metadata": {"name": name},
                "webhooks": [{
                    "name": "vnodemaintenance.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": {"service": {"name": "numo-service", "namespace": namespace}},
                }],
            }))
            .unwrap()
        };
        assert!(is_own(&of("vnodemaintenance.kb.io-x7f2k", "ours"), "ours"));
        assert!(is_own(&of("numo", "theirs"), "ours"));
        assert!(!is_own(&of("vnodemaintenance.kb.io-x7f2k", "theirs"), "ours"));
    }
}
