//! The program is replaced in mid-run, by a newer one and by an older one: what `operator/docs/upgrade.md` promises of both ways.
//! The earlier program is built from its commit, as there is no release yet.

use anyhow::Result;
use numo_plugin_tests::programs;
use std::path::PathBuf;

use crate::crashes::{Owner, Programs, cuts, live_by, tell};

/// The commit that the fixtures of `takeover.rs` are of.
const EARLIER: &str = "653fe9a67fe0727e054bfadb471fad9bf806793c";

async fn earlier() -> Result<PathBuf> {
    tokio::task::spawn_blocking(|| programs::earlier_numo(EARLIER)).await?
}

/// Runs it by the one program until a write, kills that, and goes on by the other: the same objects at the end as without a change,
/// each Job made once, nothing left.
async fn replaced(owner: Owner, way: &str, programs: Programs) -> Result<()> {
    let only = |program: &PathBuf| Programs {
        before: program.clone(),
        after: program.clone(),
        asks_again: false,
    };
    let number = live_by(&only(&programs.before), owner, None, &[])
        .await?
        .writes
        .len();
    let wanted = live_by(&only(&programs.after), owner, None, &[]).await?.end;
    let cuts = cuts(number);
    let mut failures = Vec::new();
    for cut in &cuts {
        if let Err(error) = live_by(&programs, owner, Some(*cut), &wanted).await {
            failures.push(format!("replaced {cut:?}: {error:?}"));
        }
    }
    tell(&format!(
        "{:<16} {way:<10} replaced at {} of {number} writes: {} ended otherwise",
        owner.kind(),
        cuts.len(),
        failures.len(),
    ))?;
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

async fn upgraded(owner: Owner) -> Result<()> {
    let programs = Programs {
        before: earlier().await?,
        after: numo_e2e::binary()?,
        asks_again: true,
    };
    replaced(owner, "upgraded", programs).await
}

async fn rolled_back(owner: Owner) -> Result<()> {
    let programs = Programs {
        before: numo_e2e::binary()?,
        after: earlier().await?,
        asks_again: false,
    };
    replaced(owner, "rolled back", programs).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_run_ends_the_same_when_numo_is_upgraded_at_any_write() -> Result<()> {
    upgraded(Owner::Run).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_plan_ends_the_same_when_numo_is_upgraded_at_any_write() -> Result<()> {
    upgraded(Owner::Plan).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_maintenance_ends_the_same_when_numo_is_upgraded_at_any_write() -> Result<()> {
    upgraded(Owner::Maintenance).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_run_ends_the_same_when_numo_is_rolled_back_at_any_write() -> Result<()> {
    rolled_back(Owner::Run).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_plan_ends_the_same_when_numo_is_rolled_back_at_any_write() -> Result<()> {
    rolled_back(Owner::Plan).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles an earlier numo, which takes minutes: cargo xtask test --all-tools"]
async fn a_maintenance_ends_the_same_when_numo_is_rolled_back_at_any_write() -> Result<()> {
    rolled_back(Owner::Maintenance).await
}
