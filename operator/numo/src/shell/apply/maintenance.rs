//! NodeMaintenances by which another operator drains nodes: numo makes one with its mark, and deletes it by its uid.

use super::{
    error::ApplyError,
    object::{delete_kept, dynamic, keep, post},
};
use crate::shell::{kind::Kind, store::Store, watch};
use kube::{Api, Client, core::DynamicObject};
use numo_api::{
    marks,
    node_maintenance::{MAINTENANCE_VERSION, MEDIK8S_GROUP},
};
use numo_core::{action::MaintenanceRequest, mark, observed::Key};
use serde_json::{Value, json};

/// The object with its mark: one write, so that after a crash numo knows it again.
fn body(request: &MaintenanceRequest) -> Value {
    json!({
        "apiVersion": format!("{MEDIK8S_GROUP}/{MAINTENANCE_VERSION}"),
        "kind": "NodeMaintenance",
        "metadata": {
            "name": request.node,
            "annotations": { marks::DRAINS_FOR: mark::render(&request.mark) },
        },
        "spec": {"nodeName": request.node, "reason": request.reason},
    })
}

/// Creates it. One of its name that is there already is not adopted: whose it is tells the watch.
pub(super) async fn create_maintenance(
    client: &Client,
    store: &mut Store,
    request: &MaintenanceRequest,
) -> Result<(), ApplyError> {
    let about = format!("NodeMaintenance {}", request.node);
    let object = dynamic(body(request), &about)?;
    let api: Api<DynamicObject> = watch::api(client, Kind::NodeMaintenance, "");
    match api.create(&post(), &object).await {
        Ok(made) => {
            keep(store, Kind::NodeMaintenance, &made);
            Ok(())
        }
        // What does not exist yet cannot be gone: its kind is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => Err(ApplyError::Refused {
            about,
            code: status.code,
            message: format!(
                "nodemaintenances of {MEDIK8S_GROUP} are not served: {}",
                status.message
            ),
        }),
        Err(error) => Err(ApplyError::of(error, &about)),
    }
}

/// Deletes it. The other operator takes its finalizer off once it has opened the node: until then it is there, being deleted.
pub(super) async fn delete_maintenance(
    client: &Client,
    store: &mut Store,
    name: &str,
    uid: &str,
) -> Result<(), ApplyError> {
    let api = watch::api(client, Kind::NodeMaintenance, "");
    let about = format!("NodeMaintenance {name}");
    delete_kept(
        &api,
        store,
        Kind::NodeMaintenance,
        (&Key::new("", name), uid),
        &about,
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::action::DrainsFor;

    #[test]
    fn the_object_is_the_one_of_the_reference_and_carries_the_mark() {
        let mark = DrainsFor {
            owner: "uid-nv".to_owned(),
            change: "uid-change".to_owned(),
            attempt: 1,
            node: "uid-a".to_owned(),
        };
        let request = MaintenanceRequest {
            node: "a".to_owned(),
            reason: "node is replaced due to OS image update",
            mark: mark.clone(),
        };
        let body = body(&request);
        assert_eq!(body["apiVersion"], "nodemaintenance.medik8s.io/v1beta1");
        assert_eq!(body["metadata"]["name"], "a");
        assert_eq!(body["spec"]["nodeName"], "a");
        assert_eq!(body["spec"]["reason"], "node is replaced due to OS image update");
        let found = body["metadata"]["annotations"][marks::DRAINS_FOR]
            .as_str()
            .unwrap_or_default();
        let found: DrainsFor = serde_json::from_str(found).unwrap();
        assert_eq!(found, mark);
    }
}
