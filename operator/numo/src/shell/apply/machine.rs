//! The patch of a Machine or a MachineHealthCheck.

use super::{
    error::ApplyError,
    object::json_patch,
    patch::{annotations, test},
};
use crate::shell::{kind::Kind, store::Store};
use kube::Client;
use numo_core::{action::MachinePatch, observed::MachineApi};
use serde_json::json;

pub(super) async fn patch_machine(
    client: &Client,
    store: &mut Store,
    wanted: &MachinePatch,
) -> Result<(), ApplyError> {
    let kind = match (wanted.api, wanted.purpose.is_of_health_check()) {
        (MachineApi::OpenShift, false) => Kind::OpenShiftMachine,
        (MachineApi::OpenShift, true) => Kind::OpenShiftHealthCheck,
        (MachineApi::ClusterApi, false) => Kind::ClusterApiMachine,
        (MachineApi::ClusterApi, true) => Kind::ClusterApiHealthCheck,
    };
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    list.extend(annotations(&wanted.annotations, wanted.has_annotations));
    json_patch(client, store, kind, &wanted.key, list).await
}
