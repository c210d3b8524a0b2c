//! Simulates the machine-config daemon of one node (spec 4.6, Appendix A `mcd`): brings the node
//! from its current config to the desired one.
//!
//! May not choose the desired config, nor cordon or evict: it asks the drain controller. Does not
//! look at whether the pool is paused.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;
use tokio::sync::watch;

use crate::content::{Change, change};
use crate::context::Context;
use crate::fault::Fault;
use crate::machine::{Machine, boot, reboot};
use crate::membership::{Membership, primary_pool};
use crate::openshift::{
    CURRENT_CONFIG, DESIRED_CONFIG, DESIRED_DRAIN, LAST_APPLIED_DRAIN, MACHINE_CONFIG_DAEMON,
    MachineConfigSpec, POST_CONFIG_ACTION, REASON, STATE, annotation,
};

/// Between looks at what no single watch tells of.
pub(crate) const ANOTHER_LOOK: Duration = Duration::from_millis(200);

/// The daemon of one node.
struct Daemon {
    ctx: Arc<Context>,
    machine: Arc<Machine>,
    node: watch::Receiver<Option<Arc<Node>>>,
    /// What is written on the machine's disk; the annotation follows when all is done.
    on_disk: String,
}

/// Runs until the machine is destroyed.
pub(crate) async fn run(ctx: Arc<Context>, machine: Arc<Machine>) {
    if !*machine.up.borrow() {
        boot(&ctx, &machine).await;
    }
    let node = ctx.nodes.follow(&machine.name);
    let mut daemon = Daemon {
        on_disk: String::new(),
        ctx,
        machine,
        node,
    };
    loop {
        match daemon.sync().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let node = &daemon.machine.name;
                tracing::debug!(error = format!("{error:#}"), node, "daemon starts over");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Whether more than one custom pool selects the node.
pub(crate) fn in_two_pools(ctx: &Context, node: &Node) -> bool {
    let pools = ctx.pools.all();
    let membership = primary_pool(node.labels(), pools.iter().map(AsRef::as_ref));
    matches!(membership, Membership::TwoCustom(_))
}

impl Daemon {
    /// Waits for something to do and does it. False when there will be nothing any more.
    async fn sync(&mut self) -> Result<bool> {
        let Some(node) = self.until_work().await else {
            return Ok(false);
        };
        if self.on_disk.is_empty() {
            annotation(&node, CURRENT_CONFIG).clone_into(&mut self.on_disk);
        }
        self.ctx.pass(self.ctx.timings().daemon_poll).await;
        if self.ctx.spec.mco.stops_in_two_pools() && in_two_pools(&self.ctx, &node) {
            // Pools and nodes may both end this; another look a little later is enough.
            tokio::time::sleep(ANOTHER_LOOK).await;
            return Ok(true);
        }
        self.fail_while(
            "Degraded",
            "unexpected on-disk state validating against the desired config: content mismatch",
            |f, name| matches!(f, Fault::Degraded { node } if node == name),
        )
        .await?;
        let Some(node) = self.ctx.nodes.get(&self.machine.name) else {
            return Ok(true);
        };
        let desired = annotation(&node, DESIRED_CONFIG).to_owned();
        if desired != self.on_disk {
            self.update(&desired).await?;
        }
        let now = self.ctx.nodes.get(&self.machine.name);
        if now.is_some_and(|n| annotation(&n, DESIRED_CONFIG) == self.on_disk) {
            self.complete().await?;
        }
        Ok(true)
    }

    /// Returns when the node is not at rest or a fault asks for it to be disturbed.
    async fn until_work(&mut self) -> Option<Arc<Node>> {
        let mut faults = self.ctx.faults.changes();
        loop {
            let node = self.node.borrow_and_update().clone();
            let name = self.machine.name.clone();
            let degraded = self
                .ctx
                .faults
                .any(|f| matches!(f, Fault::Degraded { node } if *node == name));
            if let Some(node) = node
                && node.metadata.uid.as_deref() == Some(&self.machine.uid)
                && (degraded || !is_at_rest(&node))
            {
                return Some(node);
            }
            let alive = tokio::select! {
                r = self.node.changed() => r.is_ok(),
                r = faults.changed() => r.is_ok(),
            };
            if !alive {
                return None;
            }
        }
    }

    /// Says a failure state for as long as the fault holds.
    async fn fail_while(
        &self,
        state: &str,
        reason: &str,
        fault: impl Fn(&Fault, &str) -> bool,
    ) -> Result<()> {
        let holds = |f: &Fault| fault(f, &self.machine.name);
        if self.ctx.faults.any(holds) {
            self.annotate(json!({ STATE: state, REASON: reason })).await?;
            self.ctx.faults.until_none(holds).await;
            self.annotate(json!({ STATE: "Working", REASON: "" })).await?;
        }
        Ok(())
    }

    /// Brings what is on disk to `desired`, with drain and reboot where the change needs them.
    async fn update(&mut self, desired: &str) -> Result<()> {
        self.annotate(json!({ STATE: "Working", REASON: "" })).await?;
        self.fail_while(
            "Unreconcilable",
            &format!(
                "can't reconcile config {} with {desired}: ignition disks section contains changes",
                self.on_disk
            ),
            |f, name| matches!(f, Fault::Unreconcilable { node } if node == name),
        )
        .await?;
        let (old, new) = (self.content(&self.on_disk)?, self.content(desired)?);
        match change(&old, &new) {
            Change::None => {}
            Change::Reload => self.ctx.pass(self.ctx.timings().apply).await,
            Change::Reboot => {
                if !self.ctx.spec.is_single_node() {
                    self.drain(desired).await?;
                }
                self.ctx.pass(self.ctx.timings().apply).await;
                self.annotate(json!({ POST_CONFIG_ACTION: "Rebooting" })).await?;
                reboot(&self.ctx, &self.machine, &new.os_image_url).await;
                self.annotate(json!({ POST_CONFIG_ACTION: "" })).await?;
            }
        }
        desired.clone_into(&mut self.on_disk);
        Ok(())
    }

    /// After an update, or a failure that went away: uncordon, then Done.
    async fn complete(&mut self) -> Result<()> {
        let config = self.on_disk.clone();
        self.ask(&format!("uncordon-{config}")).await?;
        self.until_acknowledged().await?;
        self.annotate(json!({ STATE: "Done", CURRENT_CONFIG: config, REASON: "" }))
            .await
    }

    /// Asks for a drain and waits for it, past the time at which it is called failed.
    async fn drain(&mut self, desired: &str) -> Result<()> {
        self.ask(&format!("drain-{desired}")).await?;
        let limit = self
            .ctx
            .time()
            .of(self.ctx.timings().drain_degraded)
            .max(Duration::from_secs(5));
        if let Ok(acknowledged) = tokio::time::timeout(limit, self.until_acknowledged()).await {
            return acknowledged;
        }
        let reason = format!(
            "failed to drain node: {} after 1 hour. Please see machine-config-controller logs for more information",
            self.machine.name
        );
        self.annotate(json!({ STATE: "Degraded", REASON: reason }))
            .await?;
        self.until_acknowledged().await?;
        self.annotate(json!({ STATE: "Working", REASON: "" })).await
    }

    async fn ask(&self, request: &str) -> Result<()> {
        self.annotate(json!({ DESIRED_DRAIN: request })).await
    }

    async fn until_acknowledged(&mut self) -> Result<()> {
        let acknowledged = |n: &Option<Arc<Node>>| {
            n.as_ref()
                .is_some_and(|n| annotation(n, DESIRED_DRAIN) == annotation(n, LAST_APPLIED_DRAIN))
        };
        self.node
            .wait_for(acknowledged)
            .await
            .context("the world has ended")?;
        Ok(())
    }

    fn content(&self, config: &str) -> Result<MachineConfigSpec> {
        let config = self
            .ctx
            .configs
            .get(config)
            .with_context(|| format!("no MachineConfig {config:?}"))?;
        Ok(config.spec.clone())
    }

    async fn annotate(&self, annotations: serde_json::Value) -> Result<()> {
        self.ctx
            .annotate(&self.machine.name, MACHINE_CONFIG_DAEMON, annotations)
            .await
    }
}

fn is_at_rest(node: &Node) -> bool {
    annotation(node, STATE) == "Done" && annotation(node, CURRENT_CONFIG) == annotation(node, DESIRED_CONFIG)
}
