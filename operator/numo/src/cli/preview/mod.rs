//! `numo preview`: what an owner would do, before it does it. The operator's own core decides on a copy of the cluster;
//! rules are asked now, Jobs and manifests are judged by server-side dry run. Nothing is written.

mod asking;
mod manifests;
mod object;
mod outlook;
mod owner;
mod rules;
mod site;

use self::{
    asking::Asking,
    manifests::{manifests, take_in},
    object::owner_of,
    outlook::Preview,
    owner::of_owner,
    site::{Site, missing},
};
use crate::{
    cli::{
        cluster::ClusterArgs,
        completion,
        error::CliError,
        look::{self, Look, settings},
        object::ObjectArg,
        output::OutputArgs,
        run::REGISTRIES_ON_LOOPBACK,
        snapshot,
        status::say_unseen,
    },
    shell::{around, observe},
};
use clap::Args;
use std::path::PathBuf;

/// Nodes whose pods are looked at, at most, unless more are asked for.
const DRAINED: usize = 50;

/// Arguments of `numo preview`.
#[derive(Debug, Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Manifests that are taken for applied; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(super) filename: Option<PathBuf>,
    /// Decide on this file of `numo snapshot`, without a cluster: rules are not asked
    #[arg(long, value_name = "FILE")]
    pub(super) snapshot: Option<PathBuf>,
    /// Namespace of the owner [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    pub(super) namespace: Option<String>,
    /// Imagine that a MutexRunConfig goes to this version
    #[arg(long, value_name = "VERSION")]
    pub(super) to_version: Option<String>,
    /// Nodes whose drains are looked at
    #[arg(long, value_name = "NUMBER", default_value_t = DRAINED)]
    pub(super) drains: usize,
    /// Ask no rule
    #[arg(long)]
    pub(super) without_rules: bool,
    /// As numo run takes it
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) registries_on_loopback: bool,
    /// The owner [default: every one in the manifests]
    #[arg(value_name = "KIND/NAME", required_unless_present = "filename", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    pub(super) object: Option<ObjectArg>,
}

/// Shows what would come of it.
pub async fn preview(args: PreviewArgs) -> Result<(), CliError> {
    let offline = args.snapshot.is_some();
    if let Some(given) = &args.to_version
        && let Err(error) = semver::Version::parse(given)
    {
        return Err(CliError::Usage(format!(
            "--to-version: found {given:?}, wanted a version such as 4.17.0: {error}"
        )));
    }
    // What is wrong with the file is said before the cluster is asked.
    let given = args.filename.as_ref().map(manifests).transpose()?;
    let mut connection = None;
    let mut default = "default".to_owned();
    let (mut store, mut unseen, now) = if let Some(path) = &args.snapshot {
        let read = snapshot::read(path)?;
        (read.store, read.unseen, read.at)
    } else {
        let (found, namespace) = args.cluster.connect("preview").await?;
        default = namespace;
        let (store, unseen) = observe::once(&found.read, settings())
            .await
            .map_err(CliError::api("looking at the cluster"))?;
        let now = found.clock.now();
        connection = Some(found);
        (store, unseen, now)
    };
    let namespace = args.namespace.clone().unwrap_or(default);
    let mut owners = Vec::new();
    if let Some(path) = &args.filename {
        let objects = given.unwrap_or_default();
        owners = take_in(connection.as_ref(), &mut store, objects, &namespace, now).await?;
        if let Some(connection) = &connection {
            // What these owners refer to has room first.
            observe::give_room(&connection.read, &mut store)
                .await
                .map_err(CliError::api("reading mutexrules"))?;
        }
        if owners.is_empty() && args.object.is_none() {
            return Err(CliError::Usage(format!(
                "-f {}: found no MutexRunConfig, Plan or NodeMaintenance; name one of the cluster's: mutexrunconfig/NAME",
                path.display()
            )));
        }
    }
    if let Some(object) = &args.object {
        owners = vec![owner_of(&store, &unseen, object, &namespace)?];
    }
    let mut site = None;
    if let Some(connection) = &connection {
        let asking = if args.without_rules {
            None
        } else {
            Some(Asking::begin(connection, &mut store, args.registries_on_loopback).await)
        };
        let place = look::place(connection).await;
        site = Some(Site {
            connection,
            asking,
            around: around::surroundings(&connection.read, &mut unseen).await,
            missing: missing(connection, &place, &mut unseen).await,
            place,
        });
    }
    // Owners are honoured wherever they are: the operator's flags are not known here.
    let Look { mut store, .. } = Look::of(store, Vec::new(), now);
    let mut previews = Vec::new();
    for owner in &owners {
        let one = of_owner(site.as_mut(), &mut store, owner, &args, now, &mut unseen).await?;
        previews.push(one);
    }
    args.output.print(
        &previews,
        |_| previews.iter().map(Preview::text).collect::<Vec<_>>().join("\n"),
        || {
            previews
                .iter()
                .map(|one| one.owner.to_lowercase().replacen(' ', "/", 1))
                .collect()
        },
    )?;
    unseen.sort();
    unseen.dedup();
    say_unseen(&unseen);
    if offline {
        eprintln!(
            "numo: from a snapshot of {now}: rules were not asked, and nothing was judged by an API server"
        );
    }
    let against = previews.iter().map(Preview::against).sum::<usize>();
    match against {
        0 => Ok(()),
        1 => Err(CliError::Closed("one thing stands against it".to_owned())),
        number => Err(CliError::Closed(format!("{number} things stand against it"))),
    }
}
