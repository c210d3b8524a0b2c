//! `numo abort`: gives up the current run of a MutexRunConfig, or the current upgrade of a Plan.

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
    /// Namespace of the object [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The MutexRunConfig, or plan/NAME
    #[arg(value_name = "RUN|plan/NAME")]
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
    let of_plan = args
        .name
        .rsplit_once('/')
        .is_some_and(|(kind, _)| super::view::is_plan(kind));
    let kind = if of_plan { Kind::Plan } else { Kind::MutexRunConfig };
    let api = watch::api(&connection.write, kind, &namespace);
    let doing = format!("{} {namespace}/{name}", kind.resource().2);
    let object = api.get(&name).await.map_err(CliError::api(&doing))?;
    let text = |path: &str| object.data.pointer(path).and_then(serde_json::Value::as_str);
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let id = if of_plan {
        text("/status/latestHash").map(|hash| numo_core::plan::run_id(uid, hash))
    } else {
        text("/status/run/id").map(ToOwned::to_owned)
    };
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
    if of_plan && args.undo {
        println!("plan/{name}: the abort is taken back");
    } else if of_plan {
        println!("plan/{name} aborted: no further node is begun; Jobs that run come to their end first");
    } else if args.undo {
        println!("mutexrunconfig/{name}: the abort is taken back");
    } else {
        println!(
            "mutexrunconfig/{name} aborted: no further node is admitted; nodes that were let go come back first"
        );
        println!("pools with outdated nodes stay paused; see `numo status -n {namespace}`");
    }
    Ok(())
}
