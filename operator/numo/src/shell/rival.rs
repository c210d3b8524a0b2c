//! Whether an operator that numo replaces is live: its Deployment, what its ServiceAccount may do, and what is left of it
//! once it does not run. Pods and Leases are read of the Deployment's own namespace only, and only if the ServiceAccount may
//! do the operator's work: a stranger's pod or Lease of that name stops nobody. Writes nothing.

use super::{
    answer,
    claim::{Claim, IsAs, Judged},
    wire::Deployed,
};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use numo_core::{
    observed::{ForeignController, Key},
    pools,
    rival::{LeaseSeen, PodSeen, lingers},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Pods of one Deployment that are looked at, at most.
const PODS: u32 = 100;

/// Names of the Leases by which the leaders of an operator are elected, in its own namespace (`spec/*.md`). That of
/// openshift-node-upgrade-mutex-operator is not known.
pub const fn lease_names(what: ForeignController) -> &'static [&'static str] {
    match what {
        ForeignController::Plan => &["system-upgrade-controller"],
        ForeignController::NodeMaintenance => &["135b1886.medik8s.io", "node-maintenance-operator-lock"],
        ForeignController::MutexRunConfig => &[],
    }
}

/// Finds out about a Deployment; none if the API server does not say. What is left of one that does not run is looked for
/// where it has changed since it was looked at, or something was left.
pub async fn judge(client: &Client, key: &Key, claim: &Claim, now: Timestamp) -> Option<Judged> {
    let Claim {
        of, judged, is_as, ..
    } = claim;
    let may = answer::may_do_work(client, &key.namespace, &of.account, of.what).await?;
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

/// The pods that a Deployment selects and that run as its ServiceAccount.
async fn pods(client: &Client, key: &Key, of: &Deployed) -> Option<Vec<PodSeen>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let equal = of.selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.into_iter().flatten();
    let equal: Vec<String> = equal
        .filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)))
        .collect();
    let params = ListParams::default().labels(&equal.join(",")).limit(PODS);
    let list = match api.list(&params).await {
        Ok(list) => list,
        Err(error) => return unseen(&error).then(Vec::new),
    };
    let none = BTreeMap::new();
    let is_its = |pod: &&Pod| {
        let account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.as_deref());
        account.unwrap_or("default") == of.account
            && pools::matches(&of.selector, pod.metadata.labels.as_ref().unwrap_or(&none))
    };
    let seen = list.items.iter().filter(is_its).map(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        PodSeen {
            name: format!("{}/{}", key.namespace, pod.name_any()),
            has_ended: matches!(phase, Some("Succeeded" | "Failed")),
            deleting: pod.metadata.deletion_timestamp.as_ref().map(|at| at.0),
        }
    });
    Some(seen.collect())
}

async fn leases(client: &Client, namespace: &str, what: ForeignController) -> Option<Vec<LeaseSeen>> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let mut seen = Vec::new();
    for name in lease_names(what) {
        let spec = match api.get_opt(name).await {
            Ok(lease) => lease.and_then(|lease| lease.spec),
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
    use super::{Judged, lease_names};
    use crate::shell::{
        store::{Seen, Store},
        wire::{Deployed, Kind, Object},
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
