//! Objects that every evaluation may see, as numo itself may list them: the Node that a rule is asked about, and the namespace of the
//! rule. What else a rule sees is read in `reader.rs`, with the rights of its ServiceAccount.

use super::{
    invalidate::Mark,
    reader::RuleReader,
    state::{Inner, PATIENCE, unavailable},
};
use crate::{
    runners::wasm::Fault,
    shell::{kind::Kind, watch},
};
use kube::api::ListParams;
use numo_api::marks;
use numo_core::action::EvaluationRequest;
use serde_json::Value;

impl Inner {
    /// Whether a namespace may reach what is inside the cluster. None if the API server gave no answer.
    pub(super) async fn is_inside(&self, namespace: &str) -> Option<bool> {
        let namespaces = watch::items(&self.connection.read, Kind::Namespace, "");
        let found = tokio::time::timeout(PATIENCE, namespaces.get_opt(namespace)).await;
        let label: Option<String> =
            (found.ok()?.ok()?).and_then(|found| found.at(&["metadata", "labels", marks::RULE_NETWORK]));
        Some(label.is_some_and(|value| value == marks::RULE_NETWORK_CLUSTER))
    }

    /// The Node that a rule is asked about, as the contract has it: without `status.images`. None for what is asked once
    /// per run.
    pub(super) async fn node(
        &self,
        request: &EvaluationRequest,
        reader: &RuleReader,
    ) -> Result<Option<Value>, Fault> {
        let name = &request.node;
        if name.is_empty() {
            return Ok(None);
        }
        let found = self.one(Kind::Node, name, reader).await?;
        let mut node = found
            .filter(|node| node.pointer("/metadata/uid").and_then(Value::as_str) == Some(&request.node_uid))
            .ok_or_else(|| unavailable(format!("Node {name} ({}) does not exist", request.node_uid)))?;
        if let Some(status) = node.pointer_mut("/status").and_then(Value::as_object_mut) {
            status.remove("images");
        }
        Ok(Some(node))
    }

    /// One object that numo itself may list, without its managed fields.
    pub(super) async fn one(
        &self,
        kind: Kind,
        name: &str,
        reader: &RuleReader,
    ) -> Result<Option<Value>, Fault> {
        reader.begin();
        let resource = watch::resource(kind);
        let what = &resource.kind;
        let api = watch::items(&self.connection.read, kind, "");
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = tokio::time::timeout(PATIENCE, api.list(&params))
            .await
            .map_err(|_| unavailable(format!("{what} {name} was not read in time")))?
            .map_err(|error| unavailable(format!("{what} {name} cannot be read: {error}")))?;
        let object = found.items.into_iter().next();
        let version = object
            .as_ref()
            .and_then(|object| object.metadata.resource_version.as_deref());
        reader.note(Mark::object(&resource, None, name, version));
        let Some(object) = object else { return Ok(None) };
        let read = object.read(kind);
        let mut object = read.map_err(|why| unavailable(format!("{what} {name}: {}", why.message)))?;
        object.metadata.managed_fields = None;
        object.types = Some(kube::core::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        let object = serde_json::to_value(&object).map_err(|error| unavailable(error.to_string()))?;
        Ok(Some(object))
    }
}
