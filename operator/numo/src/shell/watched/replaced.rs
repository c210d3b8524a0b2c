//! Deployments of the operators that numo replaces, by the names that their own manifests give them: one that was renamed is not known.
//! `store/claims.rs` keeps them, as anybody may make one of such a name.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched},
    object::{Deployed, Object},
};
use crate::shell::project::{key, text};
use kube::core::DynamicObject;
use numo_core::observed::ForeignController;
use serde_json::Value;

/// How the Deployment of Medik8s' node-maintenance-operator is watched.
pub const NODE_MAINTENANCE_OPERATOR: Watched = replaced(
    |namespace| named(namespace, "node-maintenance-operator-controller-manager"),
    |object| Some(foreign(object, ForeignController::NodeMaintenance)),
);

/// How the Deployment of its older releases is watched.
pub const NODE_MAINTENANCE_OPERATOR_OLD: Watched = replaced(
    |namespace| named(namespace, "node-maintenance-operator"),
    |object| Some(foreign(object, ForeignController::NodeMaintenance)),
);

/// How the Deployment that its bundle makes is watched.
pub const NODE_MAINTENANCE_OPERATOR_BUNDLED: Watched = replaced(
    |namespace| named(namespace, "node-maintenance-controller-manager"),
    |object| Some(foreign(object, ForeignController::NodeMaintenance)),
);

/// How the Deployment of system-upgrade-controller is watched.
pub const SYSTEM_UPGRADE_CONTROLLER: Watched = replaced(
    |namespace| named(namespace, "system-upgrade-controller"),
    |object| Some(foreign(object, ForeignController::Plan)),
);

/// How the Deployment of openshift-node-upgrade-mutex-operator is watched.
pub const NODE_UPGRADE_MUTEX_OPERATOR: Watched = replaced(
    |namespace| {
        named(
            namespace,
            "openshift-node-upgrade-mutex-operator-controller-manager",
        )
    },
    |object| Some(foreign(object, ForeignController::MutexRunConfig)),
);

/// How the Deployment of the Constellation node operator is watched.
pub const CONSTELLATION_OPERATOR: Watched = replaced(
    |namespace| named(namespace, "constellation-operator-controller-manager"),
    |object| Some(foreign(object, ForeignController::NodeVersion)),
);

const fn replaced(select: fn(&str) -> Selection, project: fn(&DynamicObject) -> Option<Object>) -> Watched {
    Watched {
        resource: ("apps", "v1", "Deployment", "deployments"),
        place: Place::Replaced,
        select,
        page: PAGE_OF_WRITTEN,
        missing: Missing::Awaited,
        reading: Reading::Whole,
        project,
        kept: Kept::All,
        remove: |store, key| store.claim(key.clone(), None),
    }
}

fn named(namespace: &str, name: &str) -> Selection {
    Selection::all(namespace).with_fields(&format!("metadata.name={name}"))
}

fn foreign(object: &DynamicObject, what: ForeignController) -> Object {
    Object::Foreign(key(&object.metadata), Box::new(deployed(object, what)))
}

/// What of a Deployment tells whether an operator is live.
pub fn deployed(object: &DynamicObject, what: ForeignController) -> Deployed {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1) > 0 && object.metadata.deletion_timestamp.is_none();
    let mut account = text(&object.data, "/spec/template/spec/serviceAccountName");
    if account.is_empty() {
        "default".clone_into(&mut account);
    }
    Deployed {
        what,
        account,
        selector: object
            .data
            .pointer("/spec/selector")
            .cloned()
            .unwrap_or(Value::Null),
        runs: wanted || number("/status/replicas").unwrap_or(0) > 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::shell::watched::{Place, at};

    #[test]
    fn the_page_of_migrations_names_every_operator_that_numo_stays_off_for() {
        let page = include_str!("../../../../docs/migration/README.md");
        for kind in at(Place::Replaced) {
            let selector = kind.select("").list().field_selector.unwrap();
            let name = selector.strip_prefix("metadata.name=").unwrap();
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
