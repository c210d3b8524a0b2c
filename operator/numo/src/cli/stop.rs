//! `numo stop` and `numo start`: `spec.paused` of a MutexBudget over all nodes, over those of a selector, or of a
//! named one.

use super::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    live,
    remarked::{Change, SayArgs, Speaker},
    selector,
    written::Written,
};
use crate::shell::{client::Connection, project::Kind, watch};
use clap::Args;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api,
    api::{ListParams, Patch},
    core::DynamicObject,
};
use numo_api::marks;
use numo_core::{ledger, names, text::first_of};
use serde_json::{Value, json};

/// Arguments of `numo stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// MutexBudget whose nodes are stopped [default: all nodes of the cluster]
    #[arg(value_name = "BUDGET", add = clap_complete::ArgValueCompleter::new(completion::budgets))]
    budget: Option<String>,
    /// Stop only nodes with these labels, as kubectl selects them
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "budget")]
    selector: Option<String>,
}

/// Arguments of `numo start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// MutexBudget whose nodes may change again [default: end the stop of all nodes]
    #[arg(value_name = "BUDGET", add = clap_complete::ArgValueCompleter::new(completion::budgets))]
    budget: Option<String>,
    /// End the stop that `numo stop -l` made with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "budget")]
    selector: Option<String>,
}

impl From<StartArgs> for StopArgs {
    fn from(args: StartArgs) -> Self {
        Self {
            cluster: args.cluster,
            say: args.say,
            budget: args.budget,
            selector: args.selector,
        }
    }
}

/// Pauses or resumes a budget.
pub async fn set_paused(args: StopArgs, paused: bool) -> Result<(), CliError> {
    let verb = if paused { "stop" } else { "start" };
    // Before anything is asked of the cluster: what cannot be meant is said at once.
    let nodes = match &args.selector {
        Some(given) => json!(selector::parse(given).map_err(CliError::Usage)?),
        None => json!({}),
    };
    let name = args.budget_name(&nodes);
    let (connection, _) = args.cluster.connect(verb).await?;
    let api = watch::api(&connection.write, Kind::MutexBudget, "");
    let found = api
        .get_opt(&name)
        .await
        .map_err(error::api(format!("MutexBudget {name}")))?;
    if found.is_none() && args.budget.is_some() {
        return Err(CliError::Usage(format!(
            "found no MutexBudget {name}; list them with `kubectl get mutexbudgets`, or leave the name out to {verb} all nodes"
        )));
    }
    if args.budget.is_none()
        && let Some(budget) = &found
    {
        refuse_other_nodes(budget, &name, &nodes)?;
    }
    if !paused && !found.as_ref().is_some_and(is_paused) {
        return Err(not_paused(&api, &name).await?);
    }
    let selected = if paused {
        would_stop(&connection, args.selector.as_deref(), found.as_ref()).await?
    } else {
        Selected::All
    };
    refuse_none(&selected, &name, args.selector.as_deref())?;
    let speaker = Speaker::of(&connection, &args.say).await?;
    let written = if let Some(budget) = &found {
        let change = Change {
            resource: &watch::resource(Kind::MutexBudget),
            object: budget,
            verb,
            event: if paused { "Stopped" } else { "Started" },
            patch: json!({"spec": {"paused": paused}}),
            said_of: &["/spec/nodeSelector"],
        };
        speaker.write(&api, change).await?
    } else {
        create(&speaker, &api, &name, &nodes).await?
    };
    let message = if paused {
        let whom = selected.words();
        format!("mutexbudget/{name} stopped: no node begins{whom}; numo still restores what it changed")
    } else {
        format!("mutexbudget/{name} started")
    };
    args.say.print(written, message)?;
    live::say_idle(&connection).await;
    Ok(())
}

impl StopArgs {
    /// The budget that is meant. Without a name it is one that is derived from the selector.
    fn budget_name(&self, nodes: &Value) -> String {
        match (&self.budget, &self.selector) {
            (Some(name), _) => name.clone(),
            (None, Some(_)) => format!(
                "{}-{}",
                ledger::STOP_BUDGET,
                names::hash(&[&nodes.to_string()], 8)
            ),
            (None, None) => ledger::STOP_BUDGET.to_owned(),
        }
    }
}

fn is_paused(budget: &DynamicObject) -> bool {
    budget.data.pointer("/spec/paused") == Some(&Value::Bool(true))
}

/// One of that name with other nodes would be a false all-clear.
fn refuse_other_nodes(budget: &DynamicObject, name: &str, nodes: &Value) -> Result<(), CliError> {
    match budget.data.pointer("/spec/nodeSelector") {
        Some(other) if !selects_the_same(other, nodes) => Err(CliError::Closed(format!(
            "MutexBudget {name} is there and of other nodes ({other}); name a budget, or delete that one: \
             kubectl delete mutexbudget {name}"
        ))),
        // Absent it selects none.
        None if nodes.as_object().is_some_and(|one| !one.is_empty()) => Err(CliError::Closed(format!(
            "MutexBudget {name} is there and selects no node, as it has no spec.nodeSelector; delete it: kubectl delete mutexbudget {name}"
        ))),
        _ => Ok(()),
    }
}

/// The error of starting what is not paused: it names what is.
async fn not_paused(api: &Api<DynamicObject>, name: &str) -> Result<CliError, CliError> {
    let all = api
        .list(&ListParams::default())
        .await
        .map_err(error::api("mutexbudgets"))?;
    let others = all.items.iter().filter(|budget| is_paused(budget));
    let others: Vec<&str> = others
        .filter_map(|budget| budget.metadata.name.as_deref())
        .collect();
    let next = if others.is_empty() {
        "no MutexBudget is paused: nothing is stopped".to_owned()
    } else {
        format!("paused are {}: `numo start NAME` starts one", others.join(", "))
    };
    Ok(CliError::Usage(format!(
        "MutexBudget {name} is not paused; {next}"
    )))
}

/// The nodes that a budget stops, whether it is there or is about to be made.
async fn would_stop(
    connection: &Connection,
    given: Option<&str>,
    found: Option<&DynamicObject>,
) -> Result<Selected, CliError> {
    if let Some(given) = given {
        return selected(connection, &ListParams::default().labels(given)).await;
    }
    let Some(budget) = found else {
        return Ok(Selected::All);
    };
    let given = budget
        .data
        .pointer("/spec/nodeSelector")
        .filter(|one| !one.is_null());
    let given: Option<LabelSelector> = given.and_then(|one| serde_json::from_value(one.clone()).ok());
    match given.map(kube::core::Selector::try_from) {
        Some(Ok(selector)) if selector.selects_all() => Ok(Selected::All),
        Some(Ok(selector)) => selected(connection, &ListParams::default().labels_from(&selector)).await,
        // Absent it selects none; one that cannot be read neither.
        Some(Err(_)) | None => Ok(Selected::Nodes(Vec::new())),
    }
}

/// A stop that stops nothing would be a false all-clear.
fn refuse_none(selected: &Selected, name: &str, given: Option<&str>) -> Result<(), CliError> {
    if !matches!(selected, Selected::Nodes(nodes) if nodes.is_empty()) {
        return Ok(());
    }
    let what = given.map_or_else(
        || format!("MutexBudget {name}: its spec.nodeSelector"),
        |given| format!("--selector {given}"),
    );
    Err(CliError::Usage(format!(
        "{what} selects no node, so nothing would stop; `kubectl get nodes --show-labels` has their labels"
    )))
}

/// Makes the budget that stops these nodes.
async fn create(
    speaker: &Speaker<'_>,
    api: &Api<DynamicObject>,
    name: &str,
    nodes: &Value,
) -> Result<Written, CliError> {
    let resource = watch::resource(Kind::MutexBudget);
    let word = speaker.word("stop");
    let spec = json!({"nodeSelector": nodes, "maxUnavailable": "100%", "paused": true});
    let budget = json!({
        "apiVersion": resource.api_version,
        "kind": "MutexBudget",
        "metadata": {"name": name, "annotations": {marks::SAID: json!([word]).to_string()}},
        "spec": spec,
    });
    let params = speaker.params().force();
    if speaker.sends() {
        let made = api
            .patch(name, &params, &Patch::Apply(budget))
            .await
            .map_err(error::api(format!("MutexBudget {name}")))?;
        speaker.tell(&resource, &made, "Stopped", &word).await;
    }
    let object = DynamicObject::new(name, &resource);
    let written = Written::of(&resource, &object, word, speaker.say.dry_run);
    Ok(written.changed("/spec", Value::Null, spec))
}

/// Nodes that would stop.
enum Selected {
    /// All of the cluster, or as many as may be seen.
    All,
    /// These.
    Nodes(Vec<String>),
}

impl Selected {
    /// Whom it is about, after a sentence.
    fn words(&self) -> String {
        let Self::Nodes(nodes) = self else {
            return String::new();
        };
        format!(" on {}", first_of(nodes, NAMED))
    }
}

/// Nodes that are named, at most.
const NAMED: usize = 5;

/// The nodes of a selector. Who may stop and not look is not held up by it.
async fn selected(connection: &Connection, params: &ListParams) -> Result<Selected, CliError> {
    let nodes: Api<Node> = Api::all(connection.read.clone());
    match nodes.list_metadata(params).await {
        Ok(list) => {
            let names = list.items.into_iter().filter_map(|node| node.metadata.name);
            Ok(Selected::Nodes(names.collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            eprintln!(
                "numo: you may not look at nodes, so nobody has checked that the selector is of any: {}",
                status.message
            );
            Ok(Selected::All)
        }
        Err(error) => Err(error::api("nodes")(error)),
    }
}

/// Whether two selectors are one; what is empty is not there.
fn selects_the_same(one: &Value, other: &Value) -> bool {
    let without_empty = |selector: &Value| {
        let fields = selector.as_object().cloned().unwrap_or_default();
        let is_there = |value: &Value| {
            let empty = value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(serde_json::Map::is_empty);
            !empty && !value.is_null()
        };
        fields
            .into_iter()
            .filter(|(_, value)| is_there(value))
            .collect::<serde_json::Map<_, _>>()
    };
    without_empty(one) == without_empty(other)
}
