//! Versions: what is asked for, and what the machine-config operator makes of the state of things.

use anyhow::Result;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use numo_cluster::{Cluster, User};
use numo_world::openshift::{CUSTOM_POOL_LABELS_APPLIED, ClusterOperator, FIRST_PIVOT_CONFIG};
use numo_world::{Event, Fault, McoVersion, Membership, PoolSpec, World, WorldSpec};

use super::{NEW, OLD, SOON, happened, start, stop, workers};

/// Type, status and reason of a condition.
pub(crate) type Said = (&'static str, &'static str, &'static str);

pub(crate) fn upgradeable(status: &'static str, reason: &'static str) -> Said {
    ("Upgradeable", status, reason)
}

/// Returns once the machine-config operator says so of itself.
pub(crate) async fn until_operator(cluster: &Cluster, said: Said) -> Result<()> {
    let operators: Api<ClusterOperator> = Api::all(cluster.client(User::Person).await?);
    let says = |o: Option<&ClusterOperator>| {
        let conditions = o.and_then(|o| o.status.clone()).unwrap_or_default().conditions;
        conditions
            .iter()
            .any(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str()) == said)
    };
    tokio::time::timeout(SOON, await_condition(operators, "machine-config", says)).await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_may_change_his_mind_and_any_degraded_pool_is_told() -> Result<()> {
    let spec = WorldSpec {
        pools: vec![PoolSpec::new("worker", 1), PoolSpec::new("infra", 1)],
        ..workers(0)
    };
    let (cluster, world) = start(spec).await?;
    world.inject(Fault::Degraded {
        node: "infra-0".into(),
    });
    until_operator(&cluster, ("Degraded", "True", "RequiredPoolsFailed")).await?;
    until_operator(&cluster, upgradeable("False", "DegradedPool")).await?;
    world.heal("infra-0");
    until_operator(&cluster, upgradeable("True", "AsExpected")).await?;

    let newest = "4.16.6";
    world.upgrade_to(NEW).await?;
    let accepted = |e: &Event| matches!(e, Event::VersionAccepted { version } if version == NEW);
    world
        .until("it is accepted", SOON, |w| happened(w, "cluster", accepted))
        .await?;
    world.upgrade_to(newest).await?;
    let all = |w: &World| w.is_completed(newest) && w.is_updated("worker", newest);
    world.until("the other is brought in", SOON, all).await?;
    let expected = [(newest, "Completed"), (NEW, "Partial"), (OLD, "Completed")];
    let history = world.state().version.history;
    assert_eq!(
        history,
        expected.map(|(version, state)| (version.to_owned(), state.to_owned()))
    );
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn from_4_22_on_first_booted_nodes_are_labelled_for_their_pool() -> Result<()> {
    for (mco, home) in [(McoVersion::V4_20, "worker"), (McoVersion::V4_22, "infra")] {
        let mut spec = WorldSpec {
            mco,
            pools: vec![PoolSpec::new("worker", 1), PoolSpec::new("infra", 1)],
            ..workers(0)
        };
        spec.pools[1].own_config = true;
        let (cluster, world) = start(spec).await?;
        let late = world.boot_into("infra").await?;
        let settled = |w: &World| {
            let state = w.state();
            // Its Node may not have come by the watch yet.
            let Some(node) = state.nodes.get(&late) else {
                return false;
            };
            let config = &state.pools[home].config;
            w.membership_of(&late) == Membership::Pool(home.into())
                && node.ready
                && node.state == "Done"
                && node.current == *config
        };
        world.until("it has found its pool", SOON, settled).await?;
        let node = world.node(&late).unwrap();
        let labelled = node.annotations().contains_key(CUSTOM_POOL_LABELS_APPLIED);
        assert_eq!(labelled, mco == McoVersion::V4_22, "{mco:?}");
        assert!(node.annotations()[FIRST_PIVOT_CONFIG].starts_with("rendered-infra-"));
        let rebooted = happened(&world, &late, |e| *e == Event::Rebooting);
        assert_eq!(rebooted, mco == McoVersion::V4_20, "{mco:?}");
        stop(cluster, world).await;
    }
    Ok(())
}
