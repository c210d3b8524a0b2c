//! One look at a cluster, by lists instead of watches: what the command line decides on. It sees what the
//! operator sees, as far as its user may.

use super::{
    planner::{CLUSTER_KINDS, JOB_KINDS, PLAN_KINDS},
    store::{Seen, Store},
    watch,
    wire::{self, Edition, Kind},
};
use kube::{Client, api::ListParams};
use numo_api::conditions::types::VALID_CONFIG;
use numo_core::observed::{Key, Settings, Validity};
use std::collections::BTreeSet;

/// Looks at everything a decision reads. What may not be seen is named in the second part.
pub async fn once(client: &Client, settings: Settings) -> Result<(Store, Vec<String>), kube::Error> {
    let mut store = Store::new(settings);
    let mut unseen = Vec::new();
    for kind in CLUSTER_KINDS {
        list(client, kind, "", &mut store, &mut unseen).await?;
    }
    list(
        client,
        Kind::Lease,
        numo_api::marks::LEASE_NAMESPACE,
        &mut store,
        &mut unseen,
    )
    .await?;
    let namespaces: BTreeSet<String> = store
        .observed
        .rules
        .values()
        .map(|rule| rule.job_namespace.clone())
        .collect();
    for namespace in namespaces {
        for kind in JOB_KINDS {
            list(client, kind, &namespace, &mut store, &mut unseen).await?;
        }
    }
    let with_plans: BTreeSet<String> = store
        .observed
        .plans
        .keys()
        .map(|key| key.namespace.clone())
        .collect();
    for namespace in with_plans {
        for kind in PLAN_KINDS {
            list(client, kind, &namespace, &mut store, &mut unseen).await?;
        }
        // Secrets are not looked at: the hash that is in the status stands for them.
        store.observed.unseen_secrets.insert(namespace, None);
    }
    judge_by_status(&mut store);
    Ok((store, unseen))
}

async fn list(
    client: &Client,
    kind: Kind,
    scope: &str,
    store: &mut Store,
    unseen: &mut Vec<String>,
) -> Result<(), kube::Error> {
    let api = watch::api(client, kind, scope);
    let mut params = match kind {
        Kind::Job | Kind::Pod => ListParams::default().labels(numo_api::marks::JOB_RUN),
        Kind::PlanJob | Kind::PlanPod => ListParams::default().labels(numo_api::marks::PLAN_CONTROLLER),
        Kind::JobEvent => ListParams::default().fields("involvedObject.kind=Job,reason=FailedCreate"),
        Kind::Kured => ListParams::default().fields(watch::KURED),
        _ => ListParams::default(),
    }
    .limit(500);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // Not every cluster has them.
            Err(kube::Error::Api(status))
                if status.code == 404
                    && (watch::may_be_absent(kind)
                        || matches!(
                            kind,
                            Kind::NodeMaintenance | Kind::KubeVirtMaintenance | Kind::Plan
                        )) =>
            {
                return Ok(());
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                unseen.push(format!("{}: {}", kind.resource().3, status.message));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for object in page.items {
            let number = wire::version(&object.metadata);
            if let Some(object) = wire::object(kind, object) {
                store.see(Seen::Applied(kind, number, object));
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// A person need not be allowed to create Jobs to read why a node waits: the rule's own condition says
/// what the API server said to numo.
fn judge_by_status(store: &mut Store) {
    let judged: Vec<(Key, Edition, Validity)> = store
        .rules()
        .filter_map(|(key, rule)| {
            let conditions = rule.status.as_ref().map(|status| &status.conditions)?;
            let valid = conditions
                .iter()
                .find(|condition| condition.type_ == VALID_CONFIG)?;
            let validity = if valid.status == "True" {
                Validity::Valid
            } else {
                Validity::Invalid(
                    numo_api::Reason::InvalidConfig,
                    valid.message.clone().unwrap_or_default(),
                )
            };
            Some((key.clone(), wire::edition(&rule.metadata), validity))
        })
        .collect();
    for (key, edition, validity) in judged {
        store.judge(&key, edition, validity);
    }
}
