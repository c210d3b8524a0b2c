//! `numo stop` and `numo start`: `spec.paused` of a MutexBudget over all nodes, or of a named one.

use super::{CliError, ClusterArgs};
use crate::shell::{watch, wire::Kind};
use clap::Args;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// The budget that `numo stop` makes when none is named.
const STOP_BUDGET: &str = "stop";

/// Arguments of `numo stop` and `numo start`.
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A MutexBudget: only its nodes stop [default: all nodes of the cluster]
    #[arg(value_name = "BUDGET")]
    budget: Option<String>,
}

/// Pauses or resumes a budget.
pub async fn set_paused(args: StopArgs, paused: bool) -> Result<(), CliError> {
    let verb = if paused { "stop" } else { "start" };
    let (connection, _) = args.cluster.connect(verb).await?;
    let api = watch::api(&connection.write, Kind::MutexBudget, "");
    let name = args.budget.as_deref().unwrap_or(STOP_BUDGET);
    let exists = api
        .get_opt(name)
        .await
        .map_err(CliError::api(format!("MutexBudget {name}")))?
        .is_some();
    if !exists && args.budget.is_some() {
        return Err(CliError::Wrong(format!(
            "found no MutexBudget {name}; list them with `kubectl get mutexbudgets`, or leave the name out to {verb} all nodes"
        )));
    }
    if !exists && !paused {
        println!("nothing is stopped");
        return Ok(());
    }
    let params = PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        force: true,
        ..PatchParams::default()
    };
    let result = if exists {
        api.patch(
            name,
            &params_without_force(),
            &Patch::Merge(json!({"spec": {"paused": paused}})),
        )
        .await
    } else {
        let budget = json!({
            "apiVersion": format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
            "kind": "MutexBudget",
            "metadata": {"name": name},
            "spec": {"nodeSelector": {}, "maxUnavailable": "100%", "paused": true},
        });
        api.patch(name, &params, &Patch::Apply(budget)).await
    };
    result.map_err(CliError::api(format!("MutexBudget {name}")))?;
    if paused {
        println!("mutexbudget/{name} stopped: nothing new begins; what gives back goes on");
    } else {
        println!("mutexbudget/{name} started");
    }
    Ok(())
}

fn params_without_force() -> PatchParams {
    PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PatchParams::default()
    }
}
