//! `numo retry` and `numo skip`: what a person wants done with one node, on its NodeChange.

use super::{CliError, ClusterArgs};
use crate::shell::{watch, wire::Kind};
use clap::Args;
use kube::api::{ListParams, Patch, PatchParams};
use numo_api::{DirectiveAction, NodeChange};
use serde_json::json;

/// Arguments of `numo retry` and `numo skip`.
#[derive(Debug, Args)]
pub struct DirectiveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Writes the directive on the node's latest NodeChange.
pub async fn give(args: DirectiveArgs, action: DirectiveAction) -> Result<(), CliError> {
    let (connection, _) = args.cluster.connect("directive").await?;
    let node = args.node.strip_prefix("node/").unwrap_or(&args.node).to_owned();
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
