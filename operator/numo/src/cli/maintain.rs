//! `numo maintain NODE`: makes a NodeMaintenance for a node and follows the drain until the node is empty, or deletes it and follows
//! until the node is put back. What drains and what blocks is the operator's to say: its condition is shown as it stands.

use super::{
    closed::Ending,
    cluster::{ClusterArgs, timeout},
    completion,
    error::{self, CliError},
    live,
    remarked::{SayArgs, Speaker},
    written::Written,
};
use crate::shell::{client::Connection, kind::Kind, watch};
use clap::{ArgAction, Args};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Preconditions},
    core::DynamicObject,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watch_object},
    },
};
use numo_api::{NodeMaintenanceStatus, Reason, conditions::types, marks};
use numo_core::text::counted;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Arguments of `numo maintain`.
#[derive(Debug, Args)]
pub struct MaintainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// End the maintenance: restore the node as it was, and name what else keeps it cordoned
    #[arg(long)]
    end: bool,
    /// Name of the NodeMaintenance [default: the node's name; with --end, the one of the node]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Wait until the node is drained, or restored
    #[arg(
        long,
        value_name = "WHETHER",
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    wait: bool,
    /// How long to wait: 10m, 1h; 0 is no limit. The maintenance continues after that
    #[arg(long, value_name = "TIME", default_value = "0")]
    timeout: String,
    /// Node to take out of service
    #[arg(value_name = "NODE", add = clap_complete::ArgValueCompleter::new(completion::nodes))]
    node: String,
}

/// A NodeMaintenance of either group.
struct Found {
    kind: Kind,
    object: DynamicObject,
}

impl Found {
    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Begins a maintenance, or ends one.
pub async fn maintain(args: MaintainArgs) -> Result<(), CliError> {
    let timeout = timeout("--timeout", "10m or 1h", &args.timeout)?;
    let (connection, _) = args.cluster.connect("maintain").await?;
    let speaker = Speaker::of(&connection, &args.say).await?;
    let all = maintenances(&connection, &args.node).await?;
    let ((kind, name), mut ending) = if args.end {
        let (one, ending) = end(&speaker, &args, all).await?;
        (one, Some(ending))
    } else {
        (begin(&speaker, &args, &all).await?, None)
    };
    live::say_idle(&connection).await;
    if args.wait && speaker.keeps() {
        let api = watch::api(&connection.read, kind, "");
        follow(&api, &args, &name, timeout).await?;
        if let Some(ending) = &mut ending {
            ending.look(&connection).await;
            let kept = ending.kept();
            let put_back = || format!("Node {} is put back as it was", args.node);
            eprintln!("numo: {}", kept.unwrap_or_else(put_back));
        }
    } else if let Some(kept) = ending.and_then(|ending| ending.kept()) {
        eprintln!("numo: {kept}");
    }
    Ok(())
}

/// The maintenances of a node, of both groups. A group that is not served has none.
async fn maintenances(connection: &Connection, node: &str) -> Result<Vec<Found>, CliError> {
    let mut all = Vec::new();
    for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
        match watch::api(&connection.read, kind, "")
            .list(&ListParams::default())
            .await
        {
            Ok(list) => {
                let of_node = list.items.into_iter().filter(|object| {
                    object.data.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node)
                });
                all.extend(of_node.map(|object| Found { kind, object }));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error::api("nodemaintenances")(error)),
        }
    }
    Ok(all)
}

/// The maintenance that the node has already. One that is being deleted must be gone first.
fn going_on<'a>(node: &str, all: &'a [Found]) -> Result<Option<&'a Found>, CliError> {
    let ends = |one: &&Found| one.object.metadata.deletion_timestamp.is_some();
    if let Some(ending) = all.iter().find(ends) {
        return Err(CliError::Closed(format!(
            "Node {node}: nodemaintenance/{} is being deleted, and the node is not put back yet; `numo explain {node}` says \
             what that waits for",
            ending.name()
        )));
    }
    if let Some(one) = all.first() {
        eprintln!(
            "numo: Node {node} is in maintenance already, by nodemaintenance/{}: nothing was written",
            one.name()
        );
        return Ok(Some(one));
    }
    Ok(None)
}

/// Makes the maintenance; one that is there already is followed.
async fn begin(
    speaker: &Speaker<'_>,
    args: &MaintainArgs,
    all: &[Found],
) -> Result<(Kind, String), CliError> {
    let (node, connection) = (&args.node, speaker.connection);
    if let Some(one) = going_on(node, all)? {
        return Ok((one.kind, one.name().to_owned()));
    }
    known(connection, node).await?;
    let name = args.name.clone().unwrap_or_else(|| node.clone());
    let resource = watch::resource(Kind::NodeMaintenance);
    let word = speaker.word("maintain");
    let mut spec = json!({"nodeName": node});
    if let Some(reason) = &args.say.reason {
        spec["reason"] = json!(reason);
    }
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": {marks::SAID: json!([word]).to_string()}},
        "spec": spec,
    });
    let doing = format!("NodeMaintenance {name}");
    let mut object: DynamicObject =
        serde_json::from_value(body).map_err(|error| CliError::Wrong(format!("{doing}: {error}")))?;
    if speaker.sends() {
        let api = watch::api(&connection.write, Kind::NodeMaintenance, "");
        object = match api.create(&speaker.post(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                return Err(CliError::Usage(format!(
                    "nodemaintenance/{name} is there, and of another node; name this one otherwise with --name"
                )));
            }
            made => made.map_err(error::api(&doing))?,
        };
        speaker.tell(&resource, &object, "MaintenanceAsked", &word).await;
    }
    let written = Written::of(&resource, &object, word, args.say.dry_run);
    let message = format!(
        "nodemaintenance/{name} created: numo cordons Node {node} and evicts its pods; end it with \
         `numo maintain {node} --end`"
    );
    args.say
        .print(written.changed("/spec", Value::Null, spec), message)?;
    Ok((Kind::NodeMaintenance, name))
}

/// There is such a Node, as far as may be looked: who may not look at nodes may be allowed to make maintenances.
async fn known(connection: &Connection, node: &str) -> Result<(), CliError> {
    let nodes = watch::api(&connection.read, Kind::Node, "");
    match nodes.get_opt(node).await {
        Ok(None) => {
            let all = nodes.list(&ListParams::default().limit(500)).await;
            let all = all.map(|list| list.items).unwrap_or_default();
            let names = all.iter().filter_map(|one| one.metadata.name.as_deref());
            Err(error::no_node(node, names))
        }
        Ok(Some(_)) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => Err(error::api("nodes")(error)),
    }
}

/// The one maintenance of the node that is meant, and what of the others is told of the node.
fn meant(args: &MaintainArgs, all: Vec<Found>) -> Result<(Found, Ending), CliError> {
    let node = &args.node;
    let of_name = |one: &Found| args.name.as_deref().is_none_or(|name| one.name() == name);
    let (mut all, mut others): (Vec<Found>, Vec<Found>) = all.into_iter().partition(of_name);
    let names: Vec<String> = all.iter().map(|one| one.name().to_owned()).collect();
    let one = match (all.pop(), names.len()) {
        (Some(one), 1) => one,
        (None, _) => {
            let which = args
                .name
                .as_ref()
                .map_or_else(String::new, |name| format!(" {name}"));
            return Err(CliError::Usage(format!(
                "Node {node} has no NodeMaintenance{which}; `kubectl get nm` lists them"
            )));
        }
        _ => {
            return Err(CliError::Usage(format!(
                "Node {node} has several NodeMaintenances ({}): name one with --name",
                names.join(", ")
            )));
        }
    };
    others.retain(|other| other.object.metadata.deletion_timestamp.is_none());
    let uid = one.object.metadata.uid.as_deref().unwrap_or_default();
    let others = others.iter().map(|other| other.name().to_owned()).collect();
    let ending = Ending::of(node, uid, others);
    Ok((one, ending))
}

/// Deletes the maintenance of a node. With what was seen of the node before.
async fn end(
    speaker: &Speaker<'_>,
    args: &MaintainArgs,
    all: Vec<Found>,
) -> Result<((Kind, String), Ending), CliError> {
    let (one, mut ending) = meant(args, all)?;
    // Before it is deleted: afterwards nobody says who held it.
    ending.look(speaker.connection).await;
    if let Some(words) = ending.hold_ended() {
        eprintln!("numo: {words}");
    }
    let (name, resource) = (one.name().to_owned(), watch::resource(one.kind));
    let word = speaker.word("maintain --end");
    if speaker.sends() {
        let api = watch::api(&speaker.connection.write, one.kind, "");
        let params = DeleteParams {
            dry_run: speaker.post().dry_run,
            // One that was made anew meanwhile is another one's.
            preconditions: Some(Preconditions {
                uid: one.object.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        // Told before it is gone: an event is on an object.
        speaker
            .tell(&resource, &one.object, "MaintenanceEnded", &word)
            .await;
        api.delete(&name, &params)
            .await
            .map_err(error::api(format!("NodeMaintenance {name}")))?;
    }
    let spec = one.object.data.get("spec").cloned().unwrap_or_default();
    let written = Written::of(&resource, &one.object, word, args.say.dry_run);
    let message = format!("nodemaintenance/{name} deleted: numo restores Node {}", args.node);
    args.say
        .print(written.changed("/spec", spec, Value::Null), message)?;
    Ok(((one.kind, name), ending))
}

/// A sentence that was printed is not printed again within this time.
const QUIET: Duration = Duration::from_mins(5);

/// Follows a maintenance until it is done, and says on standard error what changes meanwhile.
async fn follow(
    api: &Api<DynamicObject>,
    args: &MaintainArgs,
    name: &str,
    timeout: Option<Duration>,
) -> Result<(), CliError> {
    let mut told = Told::default();
    let done = done(api, args, name, &mut told);
    let ended = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, done).await,
        None => Ok(done.await),
    };
    ended.unwrap_or_else(|_| {
        Err(CliError::Closed(format!(
            "nodemaintenance/{name} is not done within {}, and goes on: {}",
            args.timeout, told.last
        )))
    })
}

async fn done(
    api: &Api<DynamicObject>,
    args: &MaintainArgs,
    name: &str,
    told: &mut Told,
) -> Result<(), CliError> {
    let node = &args.node;
    let mut seen = watch_object(api.clone(), name).default_backoff().boxed();
    loop {
        let object = match seen.try_next().await {
            Ok(Some(object)) => object,
            Ok(None) => {
                return Err(CliError::Wrong(format!(
                    "nodemaintenance/{name}: the watch has ended"
                )));
            }
            Err(watcher::Error::InitialListFailed(error @ kube::Error::Api(_))) => {
                return Err(error::api(format!("NodeMaintenance {name}"))(error));
            }
            // It is begun again.
            Err(_) => continue,
        };
        let Some(object) = object else {
            if args.end {
                return Ok(());
            }
            return Err(CliError::Closed(format!(
                "nodemaintenance/{name} was deleted before Node {node} was empty"
            )));
        };
        let status = object.data.get("status").cloned().unwrap_or_default();
        let status: NodeMaintenanceStatus = serde_json::from_value(status).unwrap_or_default();
        if !args.end && status.phase.as_deref() == Some("Succeeded") {
            eprintln!("numo: Node {node} is in maintenance: it is cordoned, and its pods are gone");
            return Ok(());
        }
        let words = words(&status);
        // What numo said before the end was asked for is over.
        let is_old = args.end && is_kept(&status);
        if !is_old && told.note(&words, Instant::now()) {
            eprintln!("numo: {words}");
        }
    }
}

/// What was printed of a maintenance that is followed. A drain that waits goes to and fro between the same few sentences as numo asks again.
#[derive(Debug, Default)]
struct Told {
    /// What holds now.
    last: String,
    /// When each sentence was printed.
    at: BTreeMap<String, Instant>,
}

impl Told {
    /// Takes what holds now; whether it is to be printed: it is another sentence, and not one of the last minutes.
    fn note(&mut self, words: &str, now: Instant) -> bool {
        if self.last == words {
            return false;
        }
        words.clone_into(&mut self.last);
        self.at.retain(|_, at| now.duration_since(*at) < QUIET);
        let is_known = self.at.contains_key(words);
        self.at.entry(words.to_owned()).or_insert(now);
        !is_known
    }
}

/// Whether the status is that of a node that is kept in maintenance.
fn is_kept(status: &NodeMaintenanceStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions
        .any(|one| one.type_ == types::READY && one.reason.as_deref() == Some(Reason::InMaintenance.name()))
}

/// How far the drain is, and what it waits for: the budget that blocks is named in the condition's message.
fn words(status: &NodeMaintenanceStatus) -> String {
    let mut ready = status.conditions.iter();
    let Some(ready) = ready.find(|condition| condition.type_ == types::READY) else {
        return "waiting for numo to look at it".to_owned();
    };
    let progress = match (status.drain_progress, status.pending_pods.as_ref().map(Vec::len)) {
        (_, None) => String::new(),
        (percent, Some(left)) => format!(
            "drained {} %, {} left; ",
            percent.unwrap_or(0),
            counted(left, "pod")
        ),
    };
    format!(
        "{progress}{}: {}",
        ready.reason.as_deref().unwrap_or("Waiting"),
        ready.message.as_deref().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_that_goes_to_and_fro_says_each_thing_once() {
        let (mut told, began) = (Told::default(), Instant::now());
        let mut says = |words: &str, seconds| told.note(words, began + Duration::from_secs(seconds));
        assert!(says("blocked by a", 0));
        assert!(!says("blocked by a", 1));
        assert!(says("blocked by b", 2));
        assert!(!says("blocked by a", 3));
        assert!(!says("blocked by b", 4));
        assert!(says("drained", 5));
        // Who comes back to the terminal sees that nothing has changed since.
        assert!(says("blocked by a", 600));
        assert_eq!(told.last, "blocked by a");
    }

    #[test]
    fn progress_names_what_blocks() {
        let status = |value: Value| -> NodeMaintenanceStatus { serde_json::from_value(value).unwrap() };
        assert_eq!(words(&status(json!({}))), "waiting for numo to look at it");
        let blocked = status(json!({
            "phase": "Running", "drainProgress": 40, "pendingPods": ["a", "b", "c"],
            "conditions": [{"type": "Ready", "status": "False", "reason": "EvictionBlocked", "message": "PodDisruptionBudget shop/web"}],
        }));
        assert_eq!(
            words(&blocked),
            "drained 40 %, 3 pods left; EvictionBlocked: PodDisruptionBudget shop/web"
        );
    }
}
