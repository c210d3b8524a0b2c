//! `numo explain`: the chain that holds a node or an owner, who can end it, when it could move at the earliest, and the
//! node's journal. The words are those of the report that the operator writes its status from.
//!
//! This page finds the objects that are meant; each kind of them has a file of its own, and none of those imports this one.

mod binding;
mod budget;
mod config;
mod earliest;
mod explanation;
mod gates;
mod journal;
mod maintenance;
mod node;
mod notifier;
mod owner;
mod reason;
mod surroundings;
mod took;
mod window;

use self::{
    binding::binding,
    budget::budget,
    config::verdict_of,
    explanation::Explanation,
    maintenance::maintenance,
    node::node,
    notifier::notifier,
    owner::{plan, run, version},
    reason::reason,
    window::window,
};
use crate::{
    cli::{
        cluster::ClusterArgs,
        completion,
        error::{self, CliError},
        live::{self, Look},
        object::{ObjectArg, What},
        output::OutputArgs,
        status::say_unseen,
    },
    shell::{client::Connection, list, project::Kind, store::Store},
};
use clap::Args;
use jiff::Timestamp;
use numo_core::{Decision, Owner, OwnerKind, observed::Key};
use serde_json::Value;
use std::collections::BTreeSet;

/// Arguments of `numo explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Namespace of the object [default: that of the kubeconfig's context]; for a node, only owners in it, and those without a namespace
    /// [default: all its owners]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Objects of that name in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Keep running, and explain again when something changes
    #[arg(short, long)]
    watch: bool,
    /// Exit with code 3 if it is waiting for anything
    #[arg(long, conflicts_with = "watch")]
    exit_code: bool,
    /// A node, or KIND/NAME: node, mutexrunconfig, plan, nodemaintenance, nodeversion, mutexrule, mutextarget, mutexbudget, mutexwindow, mutexnotifier, mutexbinding, reason
    #[arg(value_name = "NODE|KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::explained))]
    object: ObjectArg,
}

/// Explains a node or an object.
pub async fn explain(mut args: ExplainArgs) -> Result<(), CliError> {
    if args.object.what == Some(What::Reason) {
        return print(&[reason(&args.object.name)?], Timestamp::UNIX_EPOCH, &args.output);
    }
    if args.object.what.is_none() && args.object.name.parse() == Ok(What::Reason) {
        return Err(CliError::Usage(
            "found no name of a reason, wanted reason/NAME such as reason/RuleWaits; `numo status` shows reasons, and \
             completion lists them"
                .to_owned(),
        ));
    }
    let (connection, default) = args.cluster.connect("explain").await?;
    let is_of_node = matches!(args.object.what, None | Some(What::Node));
    if !args.all_namespaces && !is_of_node {
        args.namespace.get_or_insert(default);
    }
    if args.watch {
        let mut before = None;
        return live::follow(&connection, None, async |look| {
            see_pods(&connection, look, &args.object).await?;
            let found = explained(look, &args)?;
            if before.as_ref() != Some(&found) {
                if before.is_some() && args.output.is_text() {
                    println!("---");
                }
                print(&found, look.now, &args.output)?;
                before = Some(found);
            }
            Ok(true)
        })
        .await;
    }
    let mut look = live::look_by(&connection).await?;
    see_pods(&connection, &mut look, &args.object).await?;
    let found = explained(&look, &args)?;
    print(&found, look.now, &args.output)?;
    say_unseen(&look.unseen);
    live::say_unmoved(look.idle.as_deref());
    let waits = found.iter().find_map(|one| one.ends_by.and(one.reason));
    match waits.filter(|_| args.exit_code) {
        Some(reason) => Err(CliError::Closed(format!("it waits: {reason}"))),
        None => Ok(()),
    }
}

/// Looks at the pods and budgets of the nodes that are explained.
async fn see_pods(connection: &Connection, look: &mut Look, object: &ObjectArg) -> Result<(), CliError> {
    let nodes = drained(look, object);
    if nodes.is_empty() {
        return Ok(());
    }
    let unseen = list::pods(&connection.read, &mut look.store, &nodes, &mut None)
        .await
        .map_err(error::api(format!("pods of Node {}", nodes.join(", "))))?;
    look.unseen.extend(unseen);
    look.unseen.sort();
    look.unseen.dedup();
    Ok(())
}

/// Nodes whose pods and budgets the explanation names.
fn drained(look: &Look, object: &ObjectArg) -> Vec<String> {
    let observed = &look.store.observed;
    match object.what {
        None | Some(What::Node) => {
            let node = observed.nodes.get(&object.name).into_iter();
            node.map(|node| node.name.clone()).collect()
        }
        Some(What::Maintenance) => {
            let views = observed.maintenances.values();
            let named = views.filter(|view| view.owner.key.name == object.name);
            let nodes = named.map(|view| view.spec.node_name.clone());
            nodes.filter(|node| observed.nodes.contains_key(node)).collect()
        }
        Some(_) => Vec::new(),
    }
}

fn print(found: &[Explanation], now: Timestamp, output: &OutputArgs) -> Result<(), CliError> {
    output.print(
        &found,
        |_| {
            found
                .iter()
                .map(|one| one.text(now))
                .collect::<Vec<_>>()
                .join("\n")
        },
        || {
            found
                .iter()
                .map(|one| one.object.typed())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        },
    )
}

/// What is said of one owner, as JSON, for whoever has decided about it already: the store is lent, and given back.
pub fn as_json(store: Store, owner: &Owner, decision: &Decision, now: Timestamp) -> (Store, Value) {
    let look = Look {
        store,
        runs: Vec::new(),
        plans: Vec::new(),
        versions: Vec::new(),
        unseen: Vec::new(),
        idle: None,
        now,
    };
    let one = match owner.kind {
        OwnerKind::MutexRunConfig => Some(run(&look, &owner.key, decision)),
        OwnerKind::Plan => Some(plan(&look, &owner.key, decision)),
        OwnerKind::NodeMaintenance(_) => {
            let view = look.store.observed.maintenances.get(owner);
            view.map(|view| maintenance(&look, view))
        }
        OwnerKind::NodeVersion => Some(version(&look, &owner.key, decision)),
    };
    let json = one.and_then(|one| serde_json::to_value(&one).ok());
    (look.store, json.unwrap_or_default())
}

/// What was found of the object, or why nothing was.
fn explained(look: &Look, args: &ExplainArgs) -> Result<Vec<Explanation>, CliError> {
    let found = found(look, args)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let what = args.object.what.unwrap_or(What::Node);
    Err(live::hidden(&look.unseen, what).unwrap_or_else(|| not_found(look, args)))
}

/// Each object that is meant, explained: of all namespaces there may be several of one name.
fn found(look: &Look, args: &ExplainArgs) -> Result<Vec<Explanation>, CliError> {
    let name = args.object.name.as_str();
    let in_namespace = |key: &Key| {
        let of_namespace = args.namespace.as_ref();
        key.name == name && of_namespace.is_none_or(|namespace| key.namespace == *namespace)
    };
    let observed = &look.store.observed;
    Ok(match args.object.what.unwrap_or(What::Node) {
        What::Node => match observed.nodes.get(name) {
            Some(seen) => node(look, seen, args.namespace.as_deref()),
            None => Vec::new(),
        },
        What::Run => {
            let runs = look.runs.iter().filter(|(key, _)| in_namespace(key));
            runs.map(|(key, decision)| run(look, key, decision)).collect()
        }
        What::Plan => {
            let plans = look.plans.iter().filter(|(key, _)| in_namespace(key));
            plans.map(|(key, decision)| plan(look, key, decision)).collect()
        }
        What::Version => {
            let versions = look.versions.iter().filter(|(key, _)| key.name == name);
            versions
                .map(|(key, decision)| version(look, key, decision))
                .collect()
        }
        What::Maintenance => {
            let all = observed.maintenances.values();
            let views = all.filter(|view| view.owner.key.name == name);
            views.map(|view| maintenance(look, view)).collect()
        }
        What::Rule => {
            let rules = look.store.rules().filter(|(key, _)| in_namespace(key));
            rules
                .map(|(key, rule)| {
                    let status = rule.status.as_ref();
                    verdict_of(
                        Kind::MutexRule,
                        key,
                        status.map_or(&[], |status| status.conditions.as_slice()),
                    )
                })
                .collect()
        }
        What::Target => {
            let targets = observed
                .targets
                .values()
                .filter(|target| in_namespace(&target.key));
            targets
                .map(|target| verdict_of(Kind::MutexTarget, &target.key, &target.status.conditions))
                .collect()
        }
        What::Budget | What::Window | What::Notifier | What::Binding => policy(look, args.object.what, name),
        What::Reason => vec![reason(name)?],
    })
}

/// An object of a kind that has no namespace and is no owner, if it is there.
fn policy(look: &Look, what: Option<What>, name: &str) -> Vec<Explanation> {
    let observed = &look.store.observed;
    let found = match what {
        Some(What::Budget) => observed.budgets.get(name).map(|_| budget(look, name)),
        Some(What::Window) => observed.windows.get(name).map(|view| window(look, view)),
        Some(What::Notifier) => look.store.notifiers.get(name).map(|view| notifier(look, view)),
        Some(What::Binding) => observed.bindings.get(name).map(|view| binding(look, name, view)),
        _ => None,
    };
    found.into_iter().collect()
}

/// The error of an object that is not there: it says where to look.
fn not_found(look: &Look, args: &ExplainArgs) -> CliError {
    let name = args.object.name.as_str();
    let known = look.store.observed.nodes.keys().map(String::as_str);
    let what = match args.object.what {
        // A name alone is a node's; who meant an owner is told so.
        None => {
            return match owner_named(look, name) {
                Some((what, place)) => CliError::Usage(format!(
                    "found no node {name}, but {0}/{name}: `numo explain {0}/{name}{place}`",
                    what.singular()
                )),
                None => match name.parse::<What>() {
                    Ok(kind) => CliError::Usage(format!(
                        "found no node {name}; {name} is a kind: wanted {}/NAME",
                        kind.singular()
                    )),
                    Err(_) => error::no_node(name, known),
                },
            };
        }
        Some(What::Node) => return error::no_node(name, known),
        Some(what) => what,
    };
    let place = args.namespace.as_ref().filter(|_| what.is_namespaced());
    let place = place.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    let elsewhere = namespaces(look, what, name);
    let list = if !elsewhere.is_empty() {
        let flags: Vec<String> = elsewhere
            .iter()
            .take(3)
            .map(|namespace| format!("-n {namespace}"))
            .collect();
        format!("there is one by {}", flags.join(", "))
    } else if what.is_owner() {
        "`numo status -A` lists owners and the nodes that wait".to_owned()
    } else {
        let all = if what.is_namespaced() { " -A" } else { "" };
        format!("list them with `kubectl get {}s{all}`", what.singular())
    };
    CliError::Usage(format!("found no {} {name}{place}; {list}", what.singular()))
}

/// The namespaces that have an object of this name.
fn namespaces(look: &Look, what: What, name: &str) -> Vec<String> {
    let observed = &look.store.observed;
    let mut all: Vec<&Key> = match what {
        What::Run => look.runs.iter().map(|(key, _)| key).collect(),
        What::Plan => look.plans.iter().map(|(key, _)| key).collect(),
        What::Rule => look.store.rules().map(|(key, _)| key).collect(),
        What::Target => observed.targets.values().map(|target| &target.key).collect(),
        _ => Vec::new(),
    };
    all.retain(|key| key.name == name);
    all.into_iter().map(|key| key.namespace.clone()).collect()
}

/// The kind of an owner of that name, if there is one, and the flag that names its namespace.
fn owner_named(look: &Look, name: &str) -> Option<(What, String)> {
    let place = |key: &Key| format!(" -n {}", key.namespace);
    let mut owners = look.owners().filter(|(_, key, _)| key.name == name);
    let owner = owners.next().map(|(what, key, _)| (what, place(key)));
    owner.or_else(|| {
        let mut maintenances = look.store.observed.maintenances.keys();
        let is_there = maintenances.any(|owner| owner.key.name == name);
        is_there.then(|| (What::Maintenance, String::new()))
    })
}
