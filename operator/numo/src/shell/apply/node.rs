//! The patch of a Node.

use super::{
    error::ApplyError,
    object::params,
    patch::{annotations, changes_of, patch, test},
};
use crate::shell::{
    kind::Kind,
    project,
    store::Store,
    watched::node::{self, SlimNode},
};
use kube::{Api, Client};
use numo_core::action::NodePatch;
use serde_json::{Value, json};

pub(super) async fn patch_node(
    client: &Client,
    store: &mut Store,
    wanted: &NodePatch,
) -> Result<(), ApplyError> {
    let about = format!("Node {}", wanted.node);
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    list.extend(changes_of("/metadata/labels", &wanted.labels, wanted.has_labels));
    list.extend(annotations(&wanted.annotations, wanted.has_annotations));
    if let Some(is) = wanted.while_unschedulable {
        // The field is absent on a schedulable node: the API server drops a false one.
        let found = if is { json!(true) } else { Value::Null };
        list.push(test("/spec/unschedulable", found));
    }
    if let Some((from, to)) = &wanted.taints {
        list.push(test("/spec/taints", from.clone()));
        list.push(if to.is_null() {
            json!({"op": "remove", "path": "/spec/taints"})
        } else {
            json!({"op": "add", "path": "/spec/taints", "value": to})
        });
    }
    if let Some(unschedulable) = wanted.unschedulable {
        list.push(json!({"op": "add", "path": "/spec/unschedulable", "value": unschedulable}));
    }
    let api: Api<SlimNode> = Api::all(client.clone());
    let body = patch(list, &about)?;
    let node = api
        .patch(&wanted.node, &params(), &body)
        .await
        .map_err(|error| ApplyError::of(error, &about))?;
    let number = project::version(kube::Resource::meta(&node));
    store.own(Kind::Node, number, node::node_object(node));
    Ok(())
}
