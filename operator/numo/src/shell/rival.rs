//! Whether an operator that numo replaces is live: its Deployment, what its ServiceAccount may do, and what is left of it
//! once it does not run. Pods and Leases are read of the Deployment's own namespace only, and only if the ServiceAccount may
//! do the operator's work: a stranger's pod or Lease of that name stops nobody. Writes nothing.

use super::{
    claim::{Claim, IsAs, Judged},
    item::Item,
    probe,
    watched::Deployed,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::{Lease, LeaseSpec},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, ListParams},
};
use numo_core::{
    observed::{ForeignController, Key},
    rival::{LeaseSeen, PodSeen, lingers},
    selector,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Pods of one Deployment that are looked at, at most.
const PODS: usize = 100;
/// Pods of a page: each may have 1.5 MiB.
const PAGE: u32 = 20;

/// Names of the Leases by which the leaders of an operator are elected, in its own namespace (`spec/*.md`). That of
/// openshift-node-upgrade-mutex-operator is not known.
pub const fn lease_names(what: ForeignController) -> &'static [&'static str] {
    match what {
        ForeignController::Plan => &["system-upgrade-controller"],
        ForeignController::NodeMaintenance => &["135b1886.medik8s.io", "node-maintenance-operator-lock"],
        ForeignController::NodeVersion => &["38cc1645.edgeless.systems"],
        ForeignController::MutexRunConfig => &[],
    }
}

/// Finds out about a Deployment; none if the API server does not say. What is left of one that does not run is looked for
/// where it has changed since it was looked at, or something was left.
pub async fn judge(client: &Client, key: &Key, claim: &Claim, now: Timestamp) -> Option<Judged> {
    let Claim {
        of, judged, is_as, ..
    } = claim;
    let may = probe::may_do_work(client, &key.namespace, &of.account, of.what).await?;
    let is_over = judged.as_ref().is_some_and(|known| known.lingers.is_none()) && *is_as == IsAs::Judged;
    if !may || of.runs || is_over {
        return Some(Judged { may, lingers: None });
    }
    let lingers = left(client, key, of, now).await?;
    Some(Judged { may, lingers })
}

/// What is left of an operator whose Deployment does not run, in words; the outer none if the API server does not say.
pub async fn left(client: &Client, key: &Key, of: &Deployed, now: Timestamp) -> Option<Option<String>> {
    let pods = pods(client, key, of).await?;
    let leases = leases(client, &key.namespace, of.what).await?;
    Some(lingers(&pods, &leases, now))
}

/// What is read of a pod. Whoever may write it may write the rest, `managedFields` among it, as deep as the API server takes it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyPod {
    metadata: OnlyLabels,
    spec: OnlyAccount,
    status: OnlyPhase,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyLabels {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OnlyAccount {
    service_account_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyPhase {
    phase: Option<String>,
}

/// What is read of a Lease.
#[derive(Deserialize)]
struct OnlyLease {
    spec: Option<LeaseSpec>,
}

/// The pods that a Deployment selects and that run as its ServiceAccount.
async fn pods(client: &Client, key: &Key, of: &Deployed) -> Option<Vec<PodSeen>> {
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<Item> = Api::namespaced_with(client.clone(), &key.namespace, &resource);
    let equal = of.selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.into_iter().flatten();
    let equal: Vec<String> = equal
        .filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)))
        .collect();
    let mut params = ListParams::default().labels(&equal.join(",")).limit(PAGE);
    let (mut seen, mut looked_at) = (Vec::new(), 0);
    loop {
        let list = match api.list(&params).await {
            Ok(list) => list,
            Err(error) => return unseen(&error).then_some(seen),
        };
        looked_at += list.items.len();
        for pod in &list.items {
            let only = pod.part::<OnlyPod>()?;
            let account = only.spec.service_account_name.as_deref();
            if account.unwrap_or("default") != of.account
                || !selector::matches(&of.selector, &only.metadata.labels.unwrap_or_default())
            {
                continue;
            }
            seen.push(PodSeen {
                name: format!("{}/{}", key.namespace, pod.name_any()),
                has_ended: matches!(only.status.phase.as_deref(), Some("Succeeded" | "Failed")),
                deleting: pod.metadata.deletion_timestamp.as_ref().map(|at| at.0),
            });
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if looked_at < PODS => params = params.continue_token(&token),
            _ => return Some(seen),
        }
    }
}

async fn leases(client: &Client, namespace: &str, what: ForeignController) -> Option<Vec<LeaseSeen>> {
    let resource = ApiResource::erase::<Lease>(&());
    let api: Api<Item> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut seen = Vec::new();
    for name in lease_names(what) {
        let spec = match api.get_opt(name).await {
            Ok(Some(lease)) => lease.part::<OnlyLease>()?.spec,
            Ok(None) => None,
            Err(error) if unseen(&error) => None,
            Err(_) => return None,
        };
        let Some(spec) = spec else { continue };
        seen.push(LeaseSeen {
            name: format!("{namespace}/{name}"),
            holder: numo_core::rules::clip(&spec.holder_identity.unwrap_or_default(), 253),
            renewed: spec.renew_time.map(|at| at.0),
            seconds: spec.lease_duration_seconds.map_or(0, i64::from),
        });
    }
    Some(seen)
}

/// Whether the API server does not let this be seen: then nothing is known to be left.
fn unseen(error: &kube::Error) -> bool {
    let refused = matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404));
    if refused {
        tracing::warn!(%error, "what is left of an operator that numo replaces may not be looked at");
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::{Judged, OnlyPod, lease_names, left};
    use crate::shell::{
        client,
        item::Item,
        kind::Kind,
        store::{Seen, Store},
        watched::{Deployed, Object},
    };
    use numo_core::observed::{ForeignController, Key, Settings};

    /// What was seen of a Deployment by the name of system-upgrade-controller.
    struct Claimed {
        store: Store,
        key: Key,
        version: u64,
    }

    impl Claimed {
        fn new() -> Self {
            Self {
                store: Store::new(Settings::default()),
                key: Key::new("cattle-system", "system-upgrade-controller"),
                version: 1,
            }
        }

        fn applied(&mut self, runs: bool) {
            let of = Deployed {
                what: ForeignController::Plan,
                account: "suc".to_owned(),
                selector: serde_json::Value::Null,
                runs,
            };
            self.version += 1;
            let object = Object::Foreign(self.key.clone(), Box::new(of));
            let kind = Kind::SystemUpgradeController;
            self.store.see(Seen::Applied(kind, self.version, object));
        }

        fn deleted(&mut self) {
            self.version += 1;
            let kind = Kind::SystemUpgradeController;
            self.store
                .see(Seen::Deleted(kind, self.key.clone(), self.version));
        }

        fn judged(&mut self, may: bool, lingers: Option<&str>) {
            let asked = self.store.asks_claim(&self.key);
            self.answered(asked, may, lingers);
        }

        fn answered(&mut self, asked: u64, may: bool, lingers: Option<&str>) {
            let lingers = lingers.map(str::to_owned);
            let judged = Judged { may, lingers };
            self.store.see(Seen::Claim(self.key.clone(), asked, judged));
        }

        fn is_believed(&self) -> bool {
            let observed = &self.store.observed;
            observed.stood_off(ForeignController::Plan).is_some()
        }
    }

    #[test]
    fn one_that_is_scaled_to_0_or_deleted_is_live_until_nothing_is_left_of_it() {
        for deletes in [false, true] {
            let mut claimed = Claimed::new();
            claimed.applied(true);
            assert!(!claimed.is_believed(), "it is found out first whether it may");
            claimed.judged(true, None);
            assert!(claimed.is_believed());
            if deletes {
                claimed.deleted();
            } else {
                claimed.applied(false);
            }
            assert!(claimed.is_believed(), "nobody has looked yet what is left");
            claimed.judged(true, Some("Pod suc-1 still terminates"));
            let why = claimed.store.observed.stood_off(ForeignController::Plan);
            let why = why.map(|why| why.message.to_string()).unwrap_or_default();
            assert!(
                why.contains("is at 0 or deleted, Pod suc-1 still terminates"),
                "{why}"
            );
            claimed.judged(true, None);
            assert!(!claimed.is_believed());
            assert_eq!(
                claimed.store.claims().next().is_none(),
                deletes,
                "it is forgotten"
            );
        }
    }

    #[test]
    fn a_stranger_is_believed_nothing() {
        let mut claimed = Claimed::new();
        claimed.applied(true);
        claimed.judged(false, Some("Pod x still runs"));
        assert!(!claimed.is_believed());
        // Its rights may come after it: it is asked again by itself.
        let claim = claimed.store.claim_of(&claimed.key);
        assert!(claim.is_some_and(|claim| claim.again().is_some()));
        claimed.applied(false);
        assert!(!claimed.is_believed());
        claimed.deleted();
        assert!(!claimed.is_believed() && claimed.store.claims().next().is_none());
    }

    #[test]
    fn one_at_0_that_changes_is_not_believed_again_and_an_old_answer_counts_no_more() {
        let mut claimed = Claimed::new();
        claimed.applied(false);
        claimed.judged(true, None);
        claimed.applied(false);
        assert!(!claimed.is_believed());
        let asked = claimed.store.asks_claim(&claimed.key.clone());
        claimed.applied(true);
        assert!(claimed.is_believed());
        claimed.applied(false);
        claimed.answered(asked, true, None);
        assert!(claimed.is_believed(), "the answer is of before it ran");
    }

    /// One deep object does not keep what is left of an operator from being found out.
    #[tokio::test]
    async fn what_is_left_is_found_among_objects_as_deep_as_the_api_server_takes_them() {
        let key = Key::new("cattle-system", "system-upgrade-controller");
        let of = Deployed {
            what: ForeignController::Plan,
            account: "suc".to_owned(),
            selector: serde_json::json!({"matchLabels": {"app": "suc"}}),
            runs: false,
        };
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let pod = |name: &str, account: &str, phase: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}", "labels": {{"app": "suc"}}, "managedFields": [{{"fieldsV1": {fields}}}]}},
                 "spec": {{"serviceAccountName": "{account}", "any": {fields}}}, "status": {{"phase": "{phase}"}}}}"#
            )
        };
        let lease = format!(
            r#"{{"metadata": {{"name": "system-upgrade-controller", "managedFields": [{{"fieldsV1": {fields}}}]}},
             "spec": {{"holderIdentity": "suc-1", "leaseDurationSeconds": 60, "renewTime": "2030-01-01T00:00:00.000000Z"}}}}"#
        );
        let now = "2030-01-01T00:00:30Z".parse().unwrap();
        for (phase, wanted) in [
            ("Running", "Pod cattle-system/suc-1 still runs"),
            (
                "Failed",
                "Lease cattle-system/system-upgrade-controller is held by suc-1",
            ),
        ] {
            let pods = [pod("other", "default", "Running"), pod("suc-1", "suc", phase)].join(",");
            let lease = lease.clone();
            let client = client::answering(move |path| {
                let text = if path.ends_with("/pods") {
                    format!(
                        r#"{{"kind": "PodList", "apiVersion": "v1", "metadata": {{}}, "items": [{pods}]}}"#
                    )
                } else {
                    lease.clone()
                };
                (200, text)
            });
            let found = left(&client, &key, &of, now).await;
            assert_eq!(found, Some(Some(wanted.to_owned())));
        }
    }

    #[test]
    fn a_pod_of_the_default_account_names_none() {
        let pod: Item = serde_json::from_str(r#"{"metadata": {"name": "a"}, "spec": {}}"#).unwrap();
        let only = pod.part::<OnlyPod>().unwrap();
        assert_eq!((only.spec.service_account_name, only.status.phase), (None, None));
    }

    #[test]
    fn the_role_of_numo_lets_it_read_the_leases_by_name() {
        let role = include_str!("../../../../deploy/kustomize/base/cluster_role.yaml");
        for what in [
            ForeignController::Plan,
            ForeignController::NodeMaintenance,
            ForeignController::MutexRunConfig,
        ] {
            for name in lease_names(what) {
                assert!(role.contains(name), "{name}");
            }
        }
    }
}
