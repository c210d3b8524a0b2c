//! `siege_added_seconds_per_node` and `siege_peak_mib`: an upgrade of six nodes beside everything hostile at once (hostile rules and
//! components, slow connections), and the same without. `rules_of_1_2_mb_resident_mib`: a numo that starts among large rules.

use anyhow::{Context, Result};
use numo_e2e::siege::{Crowd, besiege, large_rules, peak_mib};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;

use super::{Measured, POOL, RUN, TO, latency::added, stage};
use crate::timeline::{median, spans};

const NODES: usize = 6;
/// Connections to each port that say half a sentence, more than there are places.
const SILENT: usize = 80;
/// Rules of 1.2 MB.
const LARGE: usize = 100;

struct Upgrade {
    /// What numo adds to each node-upgrade, in the middle (seconds).
    added_seconds: f64,
    peak_mib: u64,
}

async fn upgrade(besieged: bool) -> Result<Upgrade> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, NODES)],
        ..WorldSpec::default()
    };
    let stage = stage(world, "").await?;
    let mut crowd = None;
    if besieged {
        besiege(&stage).await?;
        crowd = Some(Crowd::sit(stage.numo().context("numo has ended")?, SILENT)?);
    }
    stage.world.upgrade_to(TO).await?;
    stage.upgraded(POOL, TO).await?;
    stage.condition(RUN, "Ready", "True", "Succeeded").await?;
    let added = added(&spans(&stage.world.records()));
    let peak_mib = peak_mib(&stage)?;
    drop(crowd);
    stage.strike().await?;
    Ok(Upgrade {
        added_seconds: median(added).context("no two nodes were upgraded")?,
        peak_mib,
    })
}

/// How much longer a node takes under siege.
pub async fn latency() -> Result<Measured> {
    let (quiet, besieged) = (upgrade(false).await?, upgrade(true).await?);
    Ok(Measured {
        value: (besieged.added_seconds - quiet.added_seconds).max(0.0),
        notes: vec![format!(
            "median {:.3} s a node in peace, {:.3} s under siege; {NODES} nodes",
            quiet.added_seconds, besieged.added_seconds
        )],
    })
}

/// The most memory that numo ever held under siege.
pub async fn memory() -> Result<Measured> {
    let besieged = upgrade(true).await?;
    Ok(Measured {
        // Some hundred MiB: no digit is lost.
        value: f64::from(u32::try_from(besieged.peak_mib)?),
        notes: vec![format!(
            "VmHWM of the process, beside every hostile guest and {SILENT} slow connections"
        )],
    })
}

/// The most memory that a numo ever held which started among many rules that are too large for it.
pub async fn large() -> Result<Measured> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, 1)],
        ..WorldSpec::default()
    };
    let mut stage = stage(world, "").await?;
    let alone = peak_mib(&stage)?;
    large_rules(&stage, LARGE).await?;
    stage.stop_numo().await?;
    stage.start_numo()?;
    // It decides once it has listed all of them.
    stage
        .patch_run(RUN, json!({"spec": {"maxUnavailable": 1}}))
        .await?;
    stage
        .until("the run is decided anew", 60, || async {
            let run = stage.run(RUN).await?;
            let observed = run.status.and_then(|status| status.observed_generation);
            Ok((observed == run.metadata.generation).then_some(()))
        })
        .await?;
    let peak = peak_mib(&stage)?;
    stage.strike().await?;
    Ok(Measured {
        value: f64::from(u32::try_from(peak)?),
        notes: vec![format!(
            "VmHWM of the process; {alone} MiB before they were there"
        )],
    })
}
