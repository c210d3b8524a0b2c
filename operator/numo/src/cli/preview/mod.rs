//! `numo preview`: what an owner would do, before it does it. The operator's own core decides on a copy of the cluster;
//! rules are asked now, Jobs and manifests are judged by server-side dry run. Nothing is written.

mod alone;
mod args;
mod asking;
mod manifests;
mod object;
mod outlook;
mod owner;
mod rules;
mod site;

pub use self::args::PreviewArgs;

use self::{
    alone::of_rule,
    asking::Asking,
    manifests::{manifests, take_in},
    object::owner_of,
    outlook::Preview,
    owner::of_owner,
    site::{Site, missing},
};
use crate::{
    cli::{
        error::{self, CliError},
        live::{self, Look, settings},
        object::What,
        snapshot,
        status::say_unseen,
    },
    shell::{client::Connection, list, store::Store, surroundings},
};
use jiff::Timestamp;
use kube::{ResourceExt, core::DynamicObject};
use numo_core::{
    Owner, OwnerKind,
    observed::{Key, Observed},
    owners::plan,
};
use std::collections::BTreeSet;

/// Shows what would come of it.
pub async fn preview(args: PreviewArgs) -> Result<(), CliError> {
    refuse_wrong_flags(&args)?;
    // What is wrong with the file is said before the cluster is asked.
    let given = args.filename.as_ref().map(manifests).transpose()?;
    let mut seen = seen(&args).await?;
    // A rule is asked by itself where nothing else is named that asks it.
    let alone = rules_alone(&args, given.as_deref().unwrap_or_default(), &seen.namespace);
    let stored: BTreeSet<Key> = seen.store.observed.plans.keys().cloned().collect();
    let Asked { owners, rules } = asked(&args, &mut seen, given, alone).await?;
    let Seen {
        connection,
        mut store,
        mut unseen,
        now,
        ..
    } = seen;
    let mut site = match &connection {
        Some(connection) => Some(site(connection, &args, &mut store, &mut unseen).await),
        None => None,
    };
    // Owners are watched wherever they are: the operator's flags are not known here.
    let Look { mut store, .. } = Look::of(store, Vec::new(), now);
    let mut previews = Vec::new();
    for rule in &rules {
        previews.push(of_rule(site.as_mut(), &store, rule, &args).await?);
    }
    for owner in &owners {
        let mut one = Box::pin(of_owner(
            site.as_mut(),
            &mut store,
            owner,
            &args,
            now,
            &mut unseen,
        ))
        .await?;
        if !stored.contains(&owner.key) && is_unordered(owner, &store.observed) {
            one.forget_order();
        }
        previews.push(one);
    }
    args.output.print(
        &previews,
        |_| previews.iter().map(Preview::text).collect::<Vec<_>>().join("\n"),
        || previews.iter().map(Preview::name).collect(),
    )?;
    unseen.sort();
    unseen.dedup();
    say_unseen(&unseen);
    if args.snapshot.is_some() {
        eprintln!(
            "numo: from a snapshot of {now}: rules were not evaluated, and nothing was judged by an API server"
        );
    }
    closed(&previews)
}

impl Preview {
    /// As `-o name` has it.
    fn name(&self) -> String {
        self.object.typed()
    }
}

/// Whether it is a Plan that says no order.
fn is_unordered(owner: &Owner, observed: &Observed) -> bool {
    let plan = observed.plans.get(&owner.key);
    let plan = plan.filter(|_| owner.kind == OwnerKind::Plan);
    plan.is_some_and(|plan| plan::order_of(plan, observed).is_none())
}

/// Whether anything stands against it.
fn closed(previews: &[Preview]) -> Result<(), CliError> {
    match previews.iter().map(Preview::against).sum::<usize>() {
        0 => Ok(()),
        1 => Err(CliError::Closed("1 problem blocks it, see above".to_owned())),
        number => Err(CliError::Closed(format!("{number} problems block it, see above"))),
    }
}

/// Refuses a flag that cannot be understood, or that what is previewed would pass over.
fn refuse_wrong_flags(args: &PreviewArgs) -> Result<(), CliError> {
    if let Some(given) = &args.to_version
        && let Err(error) = semver::Version::parse(given)
    {
        return Err(CliError::Usage(format!(
            "--to-version: found {given:?}, wanted a version such as 4.17.0: {error}"
        )));
    }
    let asks_no_rule = args
        .object
        .as_ref()
        .is_some_and(|object| object.what != Some(What::Rule));
    if let Some(node) = args.node.as_ref().filter(|_| asks_no_rule) {
        return Err(CliError::Usage(format!(
            "--node {node} is for a mutexrule, which is evaluated for one node; `numo explain {node}` says what an owner \
             waits for there"
        )));
    }
    Ok(())
}

/// What is decided on: the cluster, or a snapshot of it.
struct Seen {
    /// None of a snapshot.
    connection: Option<Connection>,
    /// Where objects are that name no namespace.
    namespace: String,
    store: Store,
    /// What could not be seen.
    unseen: Vec<String>,
    now: Timestamp,
}

async fn seen(args: &PreviewArgs) -> Result<Seen, CliError> {
    let namespace = args.namespace.clone();
    if let Some(path) = &args.snapshot {
        let read = snapshot::read(path)?;
        return Ok(Seen {
            connection: None,
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            store: read.store,
            unseen: read.unseen,
            now: read.at,
        });
    }
    let (connection, default) = args.cluster.connect("preview").await?;
    let (store, unseen) = list::once(&connection.read, settings())
        .await
        .map_err(error::api("looking at the cluster"))?;
    let now = connection.clock.now();
    Ok(Seen {
        connection: Some(connection),
        namespace: namespace.unwrap_or(default),
        store,
        unseen,
        now,
    })
}

/// What is previewed.
struct Asked {
    owners: Vec<Owner>,
    /// Rules that are asked by themselves.
    rules: Vec<Key>,
}

/// The rules that are asked if no owner is: the one that is named, or those of the file.
fn rules_alone(args: &PreviewArgs, given: &[DynamicObject], namespace: &str) -> Vec<Key> {
    let named = args.object.as_ref();
    match named {
        Some(object) if object.what == Some(What::Rule) => vec![Key::new(namespace, object.name.as_str())],
        Some(_) => Vec::new(),
        None => {
            let is_rule = |object: &&DynamicObject| {
                object
                    .types
                    .as_ref()
                    .is_some_and(|types| types.kind == "MutexRule")
            };
            let rules = given.iter().filter(is_rule);
            let key = |rule: &DynamicObject| {
                let place = rule.metadata.namespace.as_deref().unwrap_or(namespace);
                Key::new(place, rule.name_any())
            };
            rules.map(key).collect()
        }
    }
}

/// What is previewed: the object that is named, or the owners of the file, or else its rules. The manifests are taken in.
async fn asked(
    args: &PreviewArgs,
    seen: &mut Seen,
    given: Option<Vec<DynamicObject>>,
    rules: Vec<Key>,
) -> Result<Asked, CliError> {
    let mut owners = Vec::new();
    if let Some(path) = &args.filename {
        let objects = given.unwrap_or_default();
        let connection = seen.connection.as_ref();
        owners = take_in(connection, &mut seen.store, objects, &seen.namespace, seen.now).await?;
        if let Some(connection) = connection {
            // What these owners refer to has room first.
            list::give_room(&connection.read, &mut seen.store)
                .await
                .map_err(error::api("reading mutexrules"))?;
        }
        if owners.is_empty() && rules.is_empty() && args.object.is_none() {
            return Err(CliError::Usage(format!(
                "-f {}: found no MutexRunConfig, Plan, NodeMaintenance, NodeVersion or MutexRule; name one of the cluster's: mutexrunconfig/NAME",
                path.display()
            )));
        }
    }
    match &args.object {
        Some(object) if object.what == Some(What::Rule) => owners.clear(),
        Some(object) => owners = vec![owner_of(&seen.store, &seen.unseen, object, &seen.namespace)?],
        None => {}
    }
    let rules = if owners.is_empty() { rules } else { Vec::new() };
    Ok(Asked { owners, rules })
}

/// What of the cluster is asked and looked at beside its objects.
async fn site<'c>(
    connection: &'c Connection,
    args: &PreviewArgs,
    store: &mut Store,
    unseen: &mut Vec<String>,
) -> Site<'c> {
    let asking = if args.without_rules {
        None
    } else {
        Some(Asking::begin(connection, store, args.registries_on_loopback).await)
    };
    let place = live::place(connection).await;
    Site {
        connection,
        asking,
        around: surroundings::surroundings(&connection.read, unseen).await,
        missing: missing(connection, &place, unseen).await,
        place,
    }
}
