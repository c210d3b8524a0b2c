//! The patch of a MachineConfigPool.

use super::{
    error::ApplyError,
    object::json_patch,
    patch::{annotations, test},
};
use crate::shell::{kind::Kind, store::Store};
use kube::Client;
use numo_core::{action::PoolPatch, observed::Key};
use serde_json::json;

pub(super) async fn patch_pool(
    client: &Client,
    store: &mut Store,
    wanted: &PoolPatch,
) -> Result<(), ApplyError> {
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    if let Some((from, to)) = wanted.paused {
        if from {
            list.push(test("/spec/paused", json!(true)));
        } else if to {
            // Absent and false are one to the MCO and two to a test: the whole object must be as it was
            // read, or a person's pause of this very moment would be taken for ours.
            let number = store.number(Kind::MachineConfigPool, &Key::new("", &wanted.pool));
            list.push(test("/metadata/resourceVersion", json!(number.to_string())));
        }
        if from != to {
            list.push(json!({"op": "add", "path": "/spec/paused", "value": to}));
        }
    }
    if let Some(config) = &wanted.config {
        list.push(test("/spec/configuration/name", json!(config)));
    }
    if let Some((from, to)) = &wanted.selector {
        list.push(test("/spec/nodeSelector", from.clone()));
        list.push(json!({"op": "add", "path": "/spec/nodeSelector", "value": to}));
    }
    list.extend(annotations(
        std::slice::from_ref(&wanted.annotation),
        wanted.has_annotations,
    ));
    json_patch(
        client,
        store,
        Kind::MachineConfigPool,
        &Key::new("", &wanted.pool),
        list,
    )
    .await
}
