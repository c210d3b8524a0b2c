//! What the command line says beside what the operator has written down: of a journal that stands still, `explain` says the
//! same step, the reason of a node that is held, and what ends it.

use crate::{Stage, stage::has_leases};
use anyhow::{Context as _, Result, bail};
use kube::{Api, api::ListParams};
use numo_api::{NodeChange, Step};
use serde_json::Value;
use std::time::Duration;

/// How often both are looked at before a difference counts: the operator writes a moment after it decides.
const LOOKS: usize = 20;

impl Stage {
    /// Every journal of every owner.
    pub async fn journals(&self) -> Result<Vec<NodeChange>> {
        let api: Api<NodeChange> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// What `explain` says of the node of a journal, for its owner; nothing if there is no such node.
    async fn explained(&self, change: &NodeChange) -> Result<Option<Value>> {
        let said = self
            .call(&["explain", &change.spec.node_name, "-o", "json"])
            .await?;
        // The node is gone, and its journal is not.
        if said.code == Some(2) {
            return Ok(None);
        }
        let all: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
        let of = &change.spec.owner_ref;
        let is_of = |one: &Value| one["owner"]["kind"] == of.kind && one["owner"]["name"] == of.name;
        Ok(all.into_iter().find(is_of))
    }

    /// Compares what `explain` says with a journal; its step, if it could be compared. One that moves on meanwhile, or whose
    /// owner is gone, cannot be. A difference that lasts is an error.
    pub async fn compare(&self, change: &NodeChange) -> Result<Option<Step>> {
        let status = change.status.clone().unwrap_or_default();
        let mut last = None;
        for _ in 0..LOOKS {
            let Some(said) = self.explained(change).await? else {
                return Ok(None);
            };
            let same = self.journals().await?.iter().any(|one| {
                one.metadata.uid == change.metadata.uid
                    && one.metadata.resource_version == change.metadata.resource_version
            });
            if !same {
                return Ok(None);
            }
            let Some(difference) = difference(change, &said) else {
                return Ok(status.step);
            };
            last = Some(format!("{difference}: {said:#}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!(
            "explain of {} says otherwise than its journal: {}\njournal: {status:#?}",
            change.spec.node_name,
            last.unwrap_or_default()
        )
    }

    /// The same where there are no node leases, in a run of all tests without them: there the command line once said that
    /// the lease is waited for, whatever the operator was at.
    pub async fn compare_without_leases(&self, change: &NodeChange) -> Result<()> {
        if !has_leases() && self.numo().is_some() {
            self.compare(change).await?;
        }
        Ok(())
    }

    /// The same of every journal of a node.
    pub async fn compare_node_without_leases(&self, node: &str) -> Result<()> {
        if has_leases() || self.numo().is_none() {
            return Ok(());
        }
        for change in self.journals().await? {
            if change.spec.node_name == node {
                self.compare(&change).await?;
            }
        }
        Ok(())
    }
}

/// In what the command line differs from the journal.
fn difference(change: &NodeChange, said: &Value) -> Option<&'static str> {
    let status = change.status.clone().unwrap_or_default();
    let step = status.step?;
    if step > Step::Admitted && said["reason"] == "Admitting" {
        return Some("the lease is waited for");
    }
    // A maintenance shows its phase; its reason is that of its status.
    if step != Step::Held || change.spec.owner_ref.kind == "NodeMaintenance" {
        return None;
    }
    if said["step"] != "Held" {
        return Some("it is not held");
    }
    if said["reason"].as_str() != status.reason.as_deref() {
        return Some("it has another reason");
    }
    let commands = said["commands"].as_array();
    commands
        .is_none_or(Vec::is_empty)
        .then_some("nothing is said to end it")
}
