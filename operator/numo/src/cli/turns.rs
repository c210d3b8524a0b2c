//! Which NodeChange is of a turn of a node that is under way, whoever the owner is. Nothing here writes.

use super::{
    error::{self, CliError},
    live,
    object::version_run_id,
};
use crate::shell::{client::Connection, project::Kind, watch};
use kube::{api::ListParams, core::DynamicObject};
use numo_api::{DirectiveAction, NodeChange, Step};
use std::collections::BTreeSet;

/// A NodeChange, as it was read.
pub type Found = (DynamicObject, NodeChange);

/// The NodeChanges by which a person holds the node, of whatever owner: a hold stays when its owner goes to something else.
pub async fn holds_of(
    connection: &Connection,
    node: &str,
    namespace: Option<&str>,
) -> Result<Vec<Found>, CliError> {
    let is_held = |change: &NodeChange| {
        let directive = change.spec.directive.as_ref();
        directive.is_some_and(|directive| directive.action == DirectiveAction::Hold)
    };
    let changes = changes_of(connection, node, namespace).await?.into_iter();
    Ok(changes.filter(|(_, change)| is_held(change)).collect())
}

/// The NodeChanges of a node, the latest one first.
async fn changes_of(
    connection: &Connection,
    node: &str,
    namespace: Option<&str>,
) -> Result<Vec<Found>, CliError> {
    let all = watch::api(&connection.read, Kind::NodeChange, namespace.unwrap_or_default());
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = all.list(&params).await.map_err(error::api("nodechanges"))?;
    let changes = list.items.into_iter().filter_map(|object| {
        let value = serde_json::to_value(&object).ok()?;
        Some((object, serde_json::from_value::<NodeChange>(value).ok()?))
    });
    let made = |change: &NodeChange| change.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut changes: Vec<Found> = changes.collect();
    changes.sort_by_key(|(_, change)| std::cmp::Reverse(made(change)));
    Ok(changes)
}

/// The NodeChange of the node's turn in a run that MutexRunConfigs are at now; journals of earlier runs are
/// history.
pub async fn turn_of(
    connection: &Connection,
    node: &str,
    namespace: Option<&str>,
) -> Result<Option<Found>, CliError> {
    let (mut live, planned) = under_way(connection, namespace).await?;
    let changes = changes_of(connection, node, namespace).await?;
    // A turn under way counts whatever is asked by now: another operator may have written the status of its Plan.
    let in_flight = |change: &NodeChange| {
        let step = change.status.as_ref().and_then(|status| status.step);
        step.is_some_and(|step| step != Step::Selected && !step.is_terminal())
            && planned.contains(&change.spec.owner_ref.uid)
    };
    let is_live = |change: &NodeChange, live: &BTreeSet<String>| {
        live.contains(&change.spec.target.run_id) || in_flight(change)
    };
    // What a person said before the status was written is of a run that only a decision has: those that are newer are looked for.
    let newer = changes.iter().take_while(|(_, change)| !is_live(change, &live));
    if newer.filter(|(_, change)| change.status.is_none()).count() > 0 {
        let look = live::look_by(connection).await?;
        let decided = look.runs.iter().chain(&look.plans);
        let of_namespace = decided.filter(|(key, _)| namespace.is_none_or(|wanted| key.namespace == wanted));
        live.extend(of_namespace.map(|(_, decision)| decision.report.run_id.clone()));
    }
    Ok(changes.into_iter().find(|(_, change)| is_live(change, &live)))
}

/// The ids of runs that are under way, of owners of any kind, and the uids of Plans and NodeVersions.
async fn under_way(
    connection: &Connection,
    namespace: Option<&str>,
) -> Result<(BTreeSet<String>, BTreeSet<String>), CliError> {
    let runs = watch::api(
        &connection.read,
        Kind::MutexRunConfig,
        namespace.unwrap_or_default(),
    );
    let runs = runs.list(&ListParams::default()).await;
    let mut live: BTreeSet<String> = runs
        .map_err(error::api("mutexrunconfigs"))?
        .items
        .iter()
        .filter_map(|run| {
            run.data
                .pointer("/status/run/id")?
                .as_str()
                .map(ToOwned::to_owned)
        })
        .collect();
    for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
        let api = watch::api(&connection.read, kind, "");
        match api.list_metadata(&ListParams::default()).await {
            Ok(list) => live.extend(list.items.iter().filter_map(|object| {
                Some(numo_core::owners::node_maintenance::id(
                    object.metadata.uid.as_ref()?,
                ))
            })),
            // A cluster without them has none.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(error::api("nodemaintenances")(error)),
        }
    }
    let mut planned: BTreeSet<String> = BTreeSet::new();
    let plans = served(connection, Kind::Plan, "plans", namespace).await?;
    live.extend(plans.iter().filter_map(|plan| {
        planned.extend(plan.metadata.uid.clone());
        let hash = plan.data.pointer("/status/latestHash")?.as_str()?;
        Some(numo_core::owners::plan::run_id(plan.metadata.uid.as_ref()?, hash))
    }));
    for version in served(connection, Kind::NodeVersion, "nodeversions", None).await? {
        planned.extend(version.metadata.uid.clone());
        live.extend(version_run_id(&version));
    }
    Ok((live, planned))
}

/// The objects of a kind; none where it is not served, or is nobody's business.
async fn served(
    connection: &Connection,
    kind: Kind,
    plural: &'static str,
    namespace: Option<&str>,
) -> Result<Vec<DynamicObject>, CliError> {
    let api = watch::api(&connection.read, kind, namespace.unwrap_or_default());
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
        Err(error) => Err(error::api(plural)(error)),
    }
}
