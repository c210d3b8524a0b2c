//! `resident_mib_200`: the most memory numo ever held, with 200 nodes and 20 of them upgraded.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use numo_world::{PoolSpec, WorldSpec};

use super::{Measured, POOL, TO, stage};

const NODES: usize = 200;
const UPGRADED: usize = 20;
const IN_TIME: Duration = Duration::from_mins(5);

/// Upgrades some nodes of many, and reads the peak.
pub async fn measure() -> Result<Measured> {
    let mut pool = PoolSpec::new(POOL, NODES);
    pool.max_unavailable = Some(IntOrString::Int(10));
    let world = WorldSpec {
        pools: vec![pool],
        ..WorldSpec::default()
    };
    let stage = stage(world, "  maxUnavailable: 10\n").await?;
    stage.world.upgrade_to(TO).await?;
    stage
        .world
        .until("enough nodes are upgraded", IN_TIME, |world| {
            let nodes = world.nodes();
            let names = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
            let workers = names.filter(|name| world.membership_of(name).is(POOL));
            workers.filter(|name| world.version_of(name) == TO).count() >= UPGRADED
        })
        .await?;
    let pid = stage
        .numo()
        .and_then(numo_e2e::Numo::pid)
        .context("numo has ended")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    stage.strike().await?;
    let peak = peak_kib(&status?).context("no VmHWM in the process's status")?;
    Ok(Measured {
        value: peak / 1024.0,
        notes: vec![format!(
            "VmHWM of the process with {NODES} nodes, {UPGRADED} of them upgraded"
        )],
    })
}

pub fn peak_kib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_read_from_the_process_status() {
        assert_eq!(
            peak_kib("Name:\tnumo\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n"),
            Some(20480.0)
        );
        assert_eq!(peak_kib("Name:\tnumo\n"), None);
    }
}
