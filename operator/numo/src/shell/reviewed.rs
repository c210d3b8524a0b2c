//! What reviews of NodeMaintenances look at, kept up to date by watches: every replica serves reviews, the leader or not, and
//! whoever sends many of them costs the API server nothing. It decides nothing and writes nothing.

use super::{client::Connection, store::Store, watch, wire::Kind};
use numo_core::{
    observed::{Observed, Settings},
    quorum::OPENSHIFT_ETCD,
};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::mpsc;

/// The kinds of a review, and where their objects are; empty is everywhere.
const LOOKED_AT: [(Kind, &str); 9] = [
    (Kind::Node, ""),
    (Kind::NodeMaintenance, ""),
    (Kind::KubeVirtMaintenance, ""),
    (Kind::NodeChange, ""),
    (Kind::ClusterVersion, ""),
    (Kind::Infrastructure, ""),
    (Kind::EtcdPod, watch::KUBE_SYSTEM),
    (Kind::EtcdPod, OPENSHIFT_ETCD),
    (Kind::DisruptionBudget, OPENSHIFT_ETCD),
];

/// What was seen. A cheap handle; all clones are one.
#[derive(Clone)]
pub struct Reviewed(Arc<RwLock<Store>>);

impl Reviewed {
    /// Watches from now on, until the process ends.
    pub fn watch(connection: &Connection, namespace: &str) -> Self {
        let mut store = Store::new(Settings {
            namespace: namespace.to_owned(),
            ..Settings::default()
        });
        let (to, mut seen) = mpsc::unbounded_channel();
        for (kind, scope) in LOOKED_AT {
            store.expect(kind, scope);
            let client = connection.read.clone();
            tokio::spawn(watch::watch(client, kind, scope.to_owned(), to.clone()));
        }
        let reviewed = Self(Arc::new(RwLock::new(store)));
        let kept = reviewed.clone();
        tokio::spawn(async move {
            while let Some(seen) = seen.recv().await {
                let mut store = kept.0.write().unwrap_or_else(PoisonError::into_inner);
                store.take_in(seen);
                // What a planner would do next is nobody's matter here.
                store.take_news();
                store.take_touched();
            }
        });
        reviewed
    }

    /// What `look` finds in what was seen; none while not everything was listed, or a list has failed since.
    pub fn look<T>(&self, look: impl FnOnce(&Observed) -> T) -> Option<T> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (store.is_complete() && store.observed.unlisted.is_empty() && store.observed.unread.is_empty())
            .then(|| look(&store.observed))
    }
}
