//! What reviews of NodeMaintenances look at, kept up to date by watches: every replica serves reviews, the leader or not, and
//! whoever sends many of them costs the API server nothing. It decides nothing and writes nothing.

use super::{
    client::Connection,
    inbox::Inbox,
    item::Item,
    kind::Kind,
    store::{Seen, Store},
    watch,
    watched::{self, Object, etcd_pod::KUBE_SYSTEM},
};
use kube::{Client, api::ListParams, core::DynamicObject};
use numo_core::{
    observed::{Key, Observed, Settings},
    quorum::OPENSHIFT_ETCD,
};
use serde::Deserialize;
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// How long one maintenance may take that is read by itself.
const READ: Duration = Duration::from_secs(5);

/// The kinds of a review, and where their objects are; empty is everywhere.
const LOOKED_AT: [(Kind, &str); 10] = [
    (Kind::Node, ""),
    (Kind::NodeMaintenance, ""),
    (Kind::KubeVirtMaintenance, ""),
    (Kind::NodeChange, ""),
    // By their labels NodeChanges are believed.
    (Kind::Namespace, ""),
    (Kind::ClusterVersion, ""),
    (Kind::Infrastructure, ""),
    (Kind::EtcdPod, KUBE_SYSTEM),
    (Kind::EtcdPod, OPENSHIFT_ETCD),
    (Kind::DisruptionBudget, OPENSHIFT_ETCD),
];

/// What was seen. A cheap handle; all clones are one.
#[derive(Clone)]
pub struct Reviewed(Arc<RwLock<Store>>);

impl Reviewed {
    /// Nothing was seen yet. The settings are those of the operator: they say whose NodeChanges are believed.
    pub fn new(settings: Settings) -> Self {
        let mut store = Store::new(settings);
        for (kind, scope) in LOOKED_AT {
            store.expect(kind, scope);
        }
        Self(Arc::new(RwLock::new(store)))
    }

    /// Watches from now on, until the process ends.
    pub fn watch(connection: &Connection, settings: Settings) -> Self {
        let mut inbox = Inbox::new();
        for (kind, scope) in LOOKED_AT {
            let client = connection.read.clone();
            tokio::spawn(watch::watch(client, kind, scope.to_owned(), inbox.watched()));
        }
        let (reviewed, to) = (Self::new(settings), inbox.watched());
        let (kept, client) = (reviewed.clone(), connection.read.clone());
        tokio::spawn(async move {
            while let Some(seen) = inbox.next().await {
                let seen = kept.with_node(&client, seen).await;
                let mut store = kept.0.write().unwrap_or_else(PoisonError::into_inner);
                store.take_in(seen);
                // What a planner would do next is nobody's matter here.
                store.take_news();
                store.take_touched();
                for (kind, namespace) in store.take_lists() {
                    tokio::spawn(watch::list_again(client.clone(), kind, namespace, to.clone()));
                }
            }
        });
        reviewed
    }

    /// A maintenance that cannot be read is read once for its node alone: a list would tell no more of it.
    async fn with_node(&self, client: &Client, seen: Seen) -> Seen {
        match seen {
            Seen::Applied(kind, number, Object::NotRead(key, unread))
                if is_maintenance(kind) && !self.knows(&unread.uid) =>
            {
                let found = read_node(client, kind, &key).await;
                Seen::Applied(kind, number, found.unwrap_or(Object::NotRead(key, unread)))
            }
            seen => seen,
        }
    }

    fn knows(&self, uid: &str) -> bool {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner);
        is_known(&store.observed, uid)
    }

    /// What `look` finds in what was seen; none while not everything was listed, a list has failed since, or it is not known which node a
    /// maintenance is of. A NodeChange that cannot be read is for `look` to judge: a list would tell no more of it.
    pub fn look<T>(&self, look: impl FnOnce(&Observed) -> T) -> Option<T> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (store.is_complete() && is_whole(&store.observed)).then(|| look(&store.observed))
    }
}

/// Whether what was seen is all that a list would tell. Whoever may write any NodeChange decides nothing here.
fn is_whole(observed: &Observed) -> bool {
    let mut unread = observed.unread.iter();
    let changes = Kind::NodeChange.resource().3;
    observed.unlisted.is_empty()
        && unread.all(|((plural, _), unread)| *plural == changes || is_known(observed, &unread.uid))
}

/// Whether it is known which node the maintenance of this uid is of: that never changes.
fn is_known(observed: &Observed, uid: &str) -> bool {
    observed.maintenances.values().any(|one| one.uid == uid)
}

const fn is_maintenance(kind: Kind) -> bool {
    matches!(kind, Kind::NodeMaintenance | Kind::KubeVirtMaintenance)
}

/// By a list, which is what numo has a right to.
async fn read_node(client: &Client, kind: Kind, key: &Key) -> Option<Object> {
    let one = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let api = watch::items(client, kind, "");
    let list = tokio::time::timeout(READ, api.list(&one)).await.ok()?.ok()?;
    of_node(kind, list.items.first()?)
}

/// A maintenance of which no more is read than its node: whatever makes the whole of it unreadable, that is there, and short.
pub fn of_node(kind: Kind, item: &Item) -> Option<Object> {
    #[derive(Deserialize)]
    struct Only {
        spec: OnlySpec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct OnlySpec {
        node_name: String,
    }
    if !is_maintenance(kind) {
        return None;
    }
    let node = item.part::<Only>()?.spec.node_name;
    let brief = DynamicObject {
        types: None,
        metadata: item.metadata.clone(),
        data: serde_json::json!({"spec": {"nodeName": node}}),
    };
    watched::object(kind, &brief)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::{NodeMaintenanceSpec, marks};
    use numo_core::{OwnerKind, owners::node_maintenance};
    use serde_json::json;

    /// An object with managed fields that are deeper than JSON is read: whoever may write it may write those.
    fn deep(namespace: &str, spec: &str) -> Item {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let text = format!(
            r#"{{"metadata": {{"name": "a", "namespace": "{namespace}", "uid": "u", "managedFields": [{{"fieldsV1": {fields}}}]}},
             "spec": {spec}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Everything was listed, and there is nothing.
    fn reviewed(settings: Settings) -> Reviewed {
        let reviewed = Reviewed::new(Settings {
            namespace: "numo".to_owned(),
            ..settings
        });
        for (kind, scope) in LOOKED_AT {
            assert!(reviewed.look(|_| ()).is_none(), "{kind:?} is listed first");
            let mut store = reviewed.0.write().unwrap();
            store.take_in(Seen::Listed(kind, scope.to_owned()));
        }
        reviewed
    }

    impl Reviewed {
        fn see(&self, kind: Kind, number: u64, object: Object) {
            self.0
                .write()
                .unwrap()
                .take_in(Seen::Applied(kind, number, object));
        }

        fn see_json(&self, kind: Kind, number: u64, object: &serde_json::Value) {
            let object = if kind == Kind::Node {
                watched::node::node_object(serde_json::from_value(object.clone()).unwrap())
            } else {
                watched::item(kind, &serde_json::from_str(&object.to_string()).unwrap()).unwrap()
            };
            self.see(kind, number, object);
        }
    }

    /// Whether a review admits master-1 while a Plan of this namespace has master-0 in flight.
    fn admits_a_second_master(settings: Settings, namespace: &str) -> bool {
        let reviewed = reviewed(settings);
        let labelled = json!({"metadata": {"name": "labelled", "labels": {marks::PLANS_NAMESPACE: "true"}}});
        reviewed.see_json(Kind::Namespace, 1, &labelled);
        for (number, name) in [(2, "master-0"), (3, "master-1"), (4, "master-2")] {
            let node = json!({
                "metadata": {"name": name, "uid": name, "labels": {"node-role.kubernetes.io/master": ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            });
            reviewed.see_json(Kind::Node, number, &node);
        }
        let change = json!({
            "metadata": {"name": "a", "namespace": namespace, "uid": "u"},
            "spec": {
                "ownerRef": {"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "namespace": namespace, "name": "p", "uid": "p"},
                "nodeName": "master-0", "nodeUID": "master-0", "target": {"version": "1", "runID": "r", "pool": ""},
            },
            "status": {"step": "Released"},
        });
        reviewed.see_json(Kind::NodeChange, 5, &change);
        let wanted = NodeMaintenanceSpec {
            node_name: "master-1".to_owned(),
            ..NodeMaintenanceSpec::default()
        };
        let refusal = reviewed.look(|observed| node_maintenance::inadmissible(observed, &wanted));
        let refusal = refusal.expect("everything was listed");
        assert!(
            refusal.as_ref().is_none_or(|why| why.contains("etcd quorum")),
            "{refusal:?}"
        );
        refusal.is_none()
    }

    #[test]
    fn a_review_believes_the_node_changes_that_the_operator_believes() {
        let settings = Settings {
            plan_namespaces: vec!["plans".to_owned()],
            run_namespaces: vec!["runs".to_owned()],
            ..Settings::default()
        };
        for namespace in ["numo", "plans", "runs", "labelled"] {
            assert!(
                !admits_a_second_master(settings.clone(), namespace),
                "{namespace}"
            );
        }
        assert!(admits_a_second_master(settings, "team"), "anybody writes that");
    }

    #[test]
    fn a_node_change_that_nobody_can_read_is_judged_by_its_namespace() {
        let reviewed = reviewed(Settings::default());
        let kind = Kind::NodeChange;
        let is_stopped = || reviewed.look(|observed| observed.list_failed(OwnerKind::Plan).is_some());
        for (number, namespace, stops) in [(5, "team", false), (6, "numo", true)] {
            let object = watched::item(kind, &deep(namespace, "{}")).unwrap();
            assert!(matches!(object, Object::NotRead(..)), "{object:?}");
            reviewed.see(kind, number, object);
            assert_eq!(is_stopped(), Some(stops), "{namespace}: no list is asked for");
        }
    }

    #[test]
    fn a_maintenance_that_nobody_can_read_is_of_its_node() {
        let reviewed = reviewed(Settings::default());
        let kind = Kind::NodeMaintenance;
        let item = deep("", r#"{"nodeName": "worker-0"}"#);
        let nodes = || {
            reviewed.look(|observed| {
                let all = observed.maintenances.values();
                all.map(|one| one.spec.node_name.clone()).collect::<Vec<_>>()
            })
        };
        reviewed.see(kind, 5, watched::item(kind, &item).unwrap());
        assert_eq!(nodes(), None, "a list tells which node it is of");
        assert!(!reviewed.knows("u"));
        reviewed.see(kind, 6, of_node(kind, &item).unwrap());
        assert_eq!(nodes(), Some(vec!["worker-0".to_owned()]));
        // It is written again, as deep as before: nobody asks for it once more.
        reviewed.see(kind, 7, watched::item(kind, &item).unwrap());
        assert!(reviewed.knows("u"));
        assert_eq!(nodes(), Some(vec!["worker-0".to_owned()]));
        assert!(of_node(Kind::NodeChange, &item).is_none());
    }
}
