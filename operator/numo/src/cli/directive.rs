//! `numo retry` and `numo skip`: what a person wants done with one node, on its NodeChange; and
//! `numo retry mutexrunconfig/NAME`: the rules that are asked once per run, again.

use super::{CliError, ClusterArgs};
use crate::shell::{client::Connection, watch, wire::Kind};
use clap::Args;
use kube::api::{ListParams, Patch, PatchParams};
use numo_api::{DirectiveAction, MutexRunConfigStatus, NodeChange, marks};
use serde_json::json;

/// Arguments of `numo retry` and `numo skip`.
#[derive(Debug, Args)]
pub struct DirectiveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the MutexRunConfig [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The node; `retry` also takes a run, whose PreRun and PostRun rules are then asked again
    #[arg(value_name = "NODE|mutexrunconfig/NAME")]
    object: String,
    /// Why, for the journal of the node
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Writes the directive on the node's latest NodeChange.
pub async fn give(args: DirectiveArgs, action: DirectiveAction) -> Result<(), CliError> {
    let (connection, default) = args.cluster.connect("directive").await?;
    let node = match args.object.split_once('/') {
        None => args.object.clone(),
        Some(("node" | "nodes" | "no", name)) => name.to_owned(),
        Some(("mutexrunconfig" | "mutexrunconfigs" | "run", name)) if action == DirectiveAction::Retry => {
            return retry_run(&connection, &args.namespace.unwrap_or(default), name).await;
        }
        Some((kind, _)) => {
            let wanted = match action {
                DirectiveAction::Retry => "node or mutexrunconfig",
                _ => "node",
            };
            return Err(CliError::Wrong(format!("found kind {kind}, wanted {wanted}")));
        }
    };
    let all = watch::api(&connection.read, Kind::NodeChange, "");
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = all.list(&params).await.map_err(CliError::api("nodechanges"))?;
    let changes = list.items.into_iter().filter_map(|object| {
        serde_json::to_value(object)
            .ok()
            .and_then(|value| serde_json::from_value::<NodeChange>(value).ok())
    });
    let latest = changes.max_by_key(|change| change.metadata.creation_timestamp.as_ref().map(|time| time.0));
    let Some(change) = latest else {
        return Err(CliError::Wrong(format!(
            "Node {node} has no NodeChange: it has not had its turn; `numo explain {node}` says why"
        )));
    };
    let (namespace, name) = (
        change.metadata.namespace.unwrap_or_default(),
        change.metadata.name.unwrap_or_default(),
    );
    let by = std::env::var("USER").unwrap_or_else(|_| "someone".to_owned());
    // A directive that is given twice must differ, or the second would change nothing: it is removed first.
    let api = watch::api(&connection.write, Kind::NodeChange, &namespace);
    let manager = PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PatchParams::default()
    };
    let doing = format!("NodeChange {namespace}/{name}");
    if change.spec.directive.is_some() {
        let clear = json!({"spec": {"directive": null}});
        api.patch(&name, &manager, &Patch::Merge(clear))
            .await
            .map_err(CliError::api(&doing))?;
    }
    let directive = json!({"spec": {"directive": {"action": action, "reason": args.reason, "by": by}}});
    api.patch(&name, &manager, &Patch::Merge(directive))
        .await
        .map_err(CliError::api(&doing))?;
    println!("nodechange/{name}: {action:?} for Node {node}");
    Ok(())
}

/// Has the rules of a run asked again: in the round after the last that has a verdict.
async fn retry_run(connection: &Connection, namespace: &str, name: &str) -> Result<(), CliError> {
    let api = watch::api(&connection.write, Kind::MutexRunConfig, namespace);
    let doing = format!("MutexRunConfig {namespace}/{name}");
    let object = api.get(name).await.map_err(CliError::api(&doing))?;
    let status: MutexRunConfigStatus = object
        .data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default();
    let Some(run) = status.run.filter(|run| !run.verdicts.is_empty()) else {
        return Err(CliError::Wrong(format!(
            "{doing}: no rule of phase PreRun or PostRun has a verdict yet; `numo explain mutexrunconfig/{name}` \
             says what it waits for"
        )));
    };
    let round = run
        .verdicts
        .iter()
        .map(|verdict| verdict.round)
        .max()
        .unwrap_or(1)
        + 1;
    let patch = json!({"metadata": {
        "uid": object.metadata.uid,
        "annotations": {marks::RETRY: format!("{}/{round}", run.id)},
    }});
    let manager = PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &manager, &Patch::Merge(patch))
        .await
        .map_err(CliError::api(&doing))?;
    println!("mutexrunconfig/{name}: its rules are asked again, round {round}");
    Ok(())
}
