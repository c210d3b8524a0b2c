//! `numo abort`: gives up the current run of a MutexRunConfig.

use super::{CliError, ClusterArgs};
use crate::shell::{watch, wire::Kind};
use clap::Args;
use kube::api::{Patch, PatchParams};
use numo_api::marks;
use serde_json::json;

/// Arguments of `numo abort`.
#[derive(Debug, Args)]
pub struct AbortArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the MutexRunConfig [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The MutexRunConfig
    #[arg(value_name = "RUN")]
    name: String,
    /// Take the abort back: the run goes on
    #[arg(long)]
    undo: bool,
}

/// Sets or removes the abort annotation.
pub async fn abort(args: AbortArgs) -> Result<(), CliError> {
    let (connection, default) = args.cluster.connect("abort").await?;
    let namespace = args.namespace.unwrap_or(default);
    let name = args.name.rsplit('/').next().unwrap_or_default().to_owned();
    let api = watch::api(&connection.write, Kind::MutexRunConfig, &namespace);
    let doing = format!("MutexRunConfig {namespace}/{name}");
    let object = api.get(&name).await.map_err(CliError::api(&doing))?;
    let id = object
        .data
        .pointer("/status/run/id")
        .and_then(serde_json::Value::as_str);
    let finished = object.data.pointer("/status/run/finishedAt").is_some();
    let value = match (args.undo, id) {
        (true, _) => serde_json::Value::Null,
        (false, Some(id)) if !finished => json!(id),
        (false, _) => {
            return Err(CliError::Wrong(format!(
                "{doing} has no run under way; see `numo status`"
            )));
        }
    };
    let patch = json!({"metadata": {"uid": object.metadata.uid, "annotations": {marks::ABORT: value}}});
    let params = PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PatchParams::default()
    };
    api.patch(&name, &params, &Patch::Merge(patch))
        .await
        .map_err(CliError::api(&doing))?;
    if args.undo {
        println!("mutexrunconfig/{name}: the abort is taken back");
    } else {
        println!(
            "mutexrunconfig/{name} aborted: no further node is admitted; nodes that were let go come back first"
        );
        println!("pools with outdated nodes stay paused; see `numo status -n {namespace}`");
    }
    Ok(())
}
