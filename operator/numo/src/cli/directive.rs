//! `numo retry` and `numo skip`: what a person wants done with one node, on its NodeChange; and
//! `numo retry mutexrunconfig/NAME`: the rules that are asked before a run, again.

use super::{CliError, ClusterArgs, view};
use crate::shell::{apply, client::Connection, watch, wire::Kind};
use clap::Args;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use numo_api::{
    Directive, DirectiveAction, MutexRunConfigStatus, NodeChange, NodeChangeSpec, Outcome, Phase, RunResult,
    Step, Target, marks,
};
use numo_core::{
    decide::reservation,
    observed::{Key, NodeView},
    report::RunPhase,
};
use serde_json::json;
use std::collections::BTreeSet;

/// Arguments of `numo retry` and `numo skip`.
#[derive(Debug, Args)]
pub struct DirectiveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the MutexRunConfig [default: all; of mutexrunconfig/NAME that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The node; `numo retry` also takes mutexrunconfig/NAME, whose PreRun rules are then asked again
    #[arg(value_name = "NODE")]
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
    let by = std::env::var("USER").unwrap_or_else(|_| "someone".to_owned());
    let Some(change) = turn_of(&connection, &node, args.namespace.as_deref()).await? else {
        let directive = Directive {
            action,
            reason: args.reason,
            by: Some(by),
        };
        return before_its_turn(
            &args.cluster,
            &connection,
            &node,
            args.namespace.as_deref(),
            directive,
        )
        .await;
    };
    refuse_in_vain(&node, &change, action)?;
    let (namespace, name) = (
        change.metadata.namespace.unwrap_or_default(),
        change.metadata.name.unwrap_or_default(),
    );
    let api = watch::api(&connection.write, Kind::NodeChange, &namespace);
    let manager = PatchParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PatchParams::default()
    };
    let doing = format!("NodeChange {namespace}/{name}");
    let directive = json!({"action": action, "reason": args.reason, "by": by});
    // One that is given twice must differ, or the second would change nothing: it is removed first.
    let same = change.spec.directive.is_some_and(|before| {
        before.action == action && before.reason == args.reason && before.by.as_ref() == Some(&by)
    });
    if same {
        let clear = json!({"spec": {"directive": null}});
        api.patch(&name, &manager, &Patch::Merge(clear))
            .await
            .map_err(CliError::api(&doing))?;
    }
    let patch = json!({"metadata": {"uid": change.metadata.uid}, "spec": {"directive": directive}});
    api.patch(&name, &manager, &Patch::Merge(patch))
        .await
        .map_err(CliError::api(&doing))?;
    println!("nodechange/{name}: {action:?} for Node {node}");
    Ok(())
}

/// The NodeChange of the node's turn in a run that MutexRunConfigs are at now; journals of earlier runs are
/// history.
async fn turn_of(
    connection: &Connection,
    node: &str,
    namespace: Option<&str>,
) -> Result<Option<NodeChange>, CliError> {
    let runs = watch::api(
        &connection.read,
        Kind::MutexRunConfig,
        namespace.unwrap_or_default(),
    );
    let runs = runs.list(&ListParams::default()).await;
    let live: BTreeSet<String> = runs
        .map_err(CliError::api("mutexrunconfigs"))?
        .items
        .iter()
        .filter_map(|run| {
            run.data
                .pointer("/status/run/id")?
                .as_str()
                .map(ToOwned::to_owned)
        })
        .collect();
    let mut live = live;
    for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
        let api = watch::api(&connection.read, kind, "");
        match api.list_metadata(&ListParams::default()).await {
            Ok(list) => live.extend(
                list.items
                    .iter()
                    .filter_map(|object| Some(numo_core::maintenance::id(object.metadata.uid.as_ref()?))),
            ),
            // A cluster without them has none.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(CliError::api("nodemaintenances")(error)),
        }
    }
    let plans = watch::api(&connection.read, Kind::Plan, namespace.unwrap_or_default());
    match plans.list(&ListParams::default()).await {
        Ok(list) => live.extend(list.items.iter().filter_map(|plan| {
            let hash = plan.data.pointer("/status/latestHash")?.as_str()?;
            Some(numo_core::plan::run_id(plan.metadata.uid.as_ref()?, hash))
        })),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
        Err(error) => return Err(CliError::api("plans")(error)),
    }
    let all = watch::api(&connection.read, Kind::NodeChange, namespace.unwrap_or_default());
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = all.list(&params).await.map_err(CliError::api("nodechanges"))?;
    let changes = list.items.into_iter().filter_map(|object| {
        serde_json::to_value(object)
            .ok()
            .and_then(|value| serde_json::from_value::<NodeChange>(value).ok())
    });
    Ok(changes
        .filter(|change| live.contains(&change.spec.target.run_id))
        .max_by_key(|change| change.metadata.creation_timestamp.as_ref().map(|time| time.0)))
}

/// Leaves out a node that has had no turn: one that is dead, say, would keep its run from ever ending. The
/// NodeChange is the one that its turn would have made.
async fn before_its_turn(
    cluster: &ClusterArgs,
    connection: &Connection,
    node: &str,
    namespace: Option<&str>,
    directive: Directive,
) -> Result<(), CliError> {
    let no_turn = || {
        CliError::Wrong(format!(
            "Node {node} has no NodeChange of a run under way: it has not had its turn; `numo explain {node}` \
             says why"
        ))
    };
    if directive.action != DirectiveAction::Skip {
        return Err(no_turn());
    }
    let look = view::look(cluster, "directive").await?;
    let waits = look.runs.iter().find(|(key, decision)| {
        let report = &decision.report;
        let waits = report
            .nodes
            .get(node)
            .is_some_and(|node| node.step == Step::Selected);
        waits && report.phase == RunPhase::Active && namespace.is_none_or(|wanted| key.namespace == wanted)
    });
    let observed = &look.store.observed;
    if waits.is_none()
        && let Some(seen) = observed.nodes.get(node)
        && let Some((change, mut spec)) = waits_in_plan(&look, seen, namespace)
    {
        spec.directive = Some(directive);
        return create_change(connection, &change, &spec, node).await;
    }
    let (Some((key, decision)), Some(seen)) = (waits, observed.nodes.get(node)) else {
        return Err(no_turn());
    };
    let (Some(run), Some(report)) = (observed.runs.get(key), decision.report.nodes.get(node)) else {
        return Err(no_turn());
    };
    let target = Target {
        run_id: decision.report.run_id.clone(),
        version: decision.report.target.clone().unwrap_or_default(),
        pool: report.pool.to_string(),
    };
    let (change, mut spec) = reservation(run, seen, target);
    spec.directive = Some(directive);
    create_change(connection, &change, &spec, node).await
}

/// The NodeChange that the turn of a node would make that waits in a Plan.
fn waits_in_plan(
    look: &view::Look,
    node: &NodeView,
    namespace: Option<&str>,
) -> Option<(Key, NodeChangeSpec)> {
    let (key, decision) = look.plans.iter().find(|(key, decision)| {
        let of_node = decision.report.nodes.get(&node.name);
        of_node.is_some_and(|node| node.step == Step::Selected)
            && namespace.is_none_or(|wanted| key.namespace == wanted)
    })?;
    let view = look.store.observed.plans.get(key)?;
    let said = decision.report.plan.as_ref()?;
    let in_service = view.spec.drain.is_none() && view.spec.cordon != Some(true);
    let of = (said.hash.as_str(), said.version.as_str());
    Some(numo_core::plan::reservation(view, node, of, in_service))
}

async fn create_change(
    connection: &Connection,
    change: &Key,
    spec: &NodeChangeSpec,
    node: &str,
) -> Result<(), CliError> {
    let doing = format!("NodeChange {change}");
    let body = serde_json::from_value(apply::change_body(change, spec))
        .map_err(|error| CliError::Wrong(format!("{doing}: {error}")))?;
    let params = PostParams {
        field_manager: Some("numo-cli".to_owned()),
        ..PostParams::default()
    };
    watch::api(&connection.write, Kind::NodeChange, &change.namespace)
        .create(&params, &body)
        .await
        .map_err(CliError::api(&doing))?;
    println!(
        "nodechange/{}: Skip for Node {node}, which has not had its turn",
        change.name
    );
    Ok(())
}

/// What numo would not act on is refused here, and not noted for nothing.
fn refuse_in_vain(node: &str, change: &NodeChange, action: DirectiveAction) -> Result<(), CliError> {
    let status = change.status.clone().unwrap_or_default();
    let was_let_go = status.pin.is_some()
        && status
            .entries
            .iter()
            .rfind(|entry| matches!(entry.step, Step::PreRules | Step::Released))
            .is_some_and(|entry| entry.step == Step::Released);
    let vain = match (action, status.step) {
        (_, Some(Step::Done)) => "it is done",
        (DirectiveAction::Skip, Some(Step::Skipped)) => "it is skipped already",
        (DirectiveAction::Skip, _) if was_let_go => {
            "it was let go already and is changing; `numo abort` gives the run up"
        }
        _ => return Ok(()),
    };
    Err(CliError::Wrong(format!("Node {node}: {vain}")))
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
    let failed = |run: &numo_api::RunStatus| {
        let mut verdicts = run.verdicts.iter();
        run.finished_at.is_none()
            && verdicts.any(|verdict| verdict.phase == Phase::PreRun && verdict.outcome == Outcome::Failure)
    };
    // An abort by the rule's policy finishes the run: it can be taken up again all the same.
    let aborted = |run: &numo_api::RunStatus| run.result == Some(RunResult::Aborted);
    let Some(run) = status.run.filter(|run| failed(run) || aborted(run)) else {
        return Err(CliError::Wrong(format!(
            "{doing}: no rule of phase PreRun has failed in a run under way; `numo explain mutexrunconfig/{name}` \
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
