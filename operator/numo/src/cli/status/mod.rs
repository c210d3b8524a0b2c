//! `numo status`: owners, pools, nodes by step, maintenances, bindings, budgets in use, windows, and when it will be done.

mod binding;
mod budget;
mod contexts;
mod left;
mod maintenance;
mod message;
mod owner;
mod picture;
mod window;

use self::picture::{Picture, Selection};
use crate::cli::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    live,
    object::{ObjectArg, What},
    output::{self, OutputArgs, paint},
    say, screen, selector,
};
use crate::shell::{client::Connection, watch as watched};
use clap::Args;
use kube::api::ListParams;
use std::{collections::BTreeSet, fmt::Write as _};

/// Arguments of `numo status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Namespace of the owners [default: that of the kubeconfig's context]; NodeMaintenances, MutexBindings, MutexBudgets and MutexWindows have none
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Owners of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only owners with these labels, as kubectl selects them
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "object")]
    selector: Option<String>,
    /// Go on, and show what changes: on a terminal full-screen (q ends it)
    #[arg(short, long)]
    watch: bool,
    /// Contexts of the kubeconfig, 32 at most: the owners of all these clusters as one table, or one list with -o json. A
    /// cluster that cannot be looked at within a minute (or --request-timeout, if that is longer) has a row that says why,
    /// and the exit code is 1. Not with an owner, --watch, -o name, or flags about one cluster (--context, --server, --token)
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        conflicts_with_all = ["watch", "object"]
    )]
    contexts: Vec<String>,
    /// Only this owner: KIND/NAME or NAME
    #[arg(value_parser = ObjectArg::of_owner, value_name = "KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: Option<ObjectArg>,
}

/// Prints the state of all owners, or of one.
pub async fn status(args: StatusArgs) -> Result<(), CliError> {
    if let Some(what) = args.object.as_ref().and_then(|object| object.what)
        && !what.is_owner()
    {
        return Err(CliError::Usage(format!(
            "found kind {0}, wanted mutexrunconfig, plan or nodemaintenance, which own nodes; `numo explain {0}/NAME` takes it",
            what.singular()
        )));
    }
    if let Some(given) = &args.selector {
        selector::parse(given).map_err(CliError::Usage)?;
    }
    if !args.contexts.is_empty() {
        return contexts::status(args).await;
    }
    let (connection, default) = args.cluster.connect("status").await?;
    let selection = args.selection(&connection, &default).await?;
    if args.watch {
        return watch(&connection, &selection, &args.output).await;
    }
    let look = live::look_by(&connection).await?;
    let picture = Picture::of(&look, &selection);
    picture.check(&look, &selection)?;
    picture.print(&look, &args.output)?;
    say_unseen(&picture.unseen);
    live::say_unmoved(picture.idle.as_deref());
    Ok(())
}

impl StatusArgs {
    /// What is asked for, in a cluster whose context is in the namespace `default`.
    async fn selection<'a>(
        &'a self,
        connection: &Connection,
        default: &'a str,
    ) -> Result<Selection<'a>, CliError> {
        Ok(Selection {
            namespace: Some(self.namespace.as_deref().unwrap_or(default)).filter(|_| !self.all_namespaces),
            what: self.object.as_ref().and_then(|object| object.what),
            name: self.object.as_ref().map(|object| object.name.as_str()),
            labelled: match &self.selector {
                Some(given) => Some(owners_with(connection, given).await?),
                None => None,
            },
        })
    }
}

/// On a terminal the whole screen; else each picture that differs from the one before it.
async fn watch(
    connection: &Connection,
    selection: &Selection<'_>,
    output: &OutputArgs,
) -> Result<(), CliError> {
    if output.is_text() && screen::is_there() {
        let mut screen = screen::Screen::open()?;
        return live::follow(connection, Some(screen::TICK), async |look| {
            let picture = Picture::of(look, selection);
            let mut text = picture.text(look, output.layout());
            for unseen in &picture.unseen {
                let _ = writeln!(text, "could not see {unseen}");
            }
            if let Some(idle) = &picture.idle {
                text = format!(
                    "{}\n{text}",
                    crate::cli::say::line(format_args!("{}", paint(output::bad(), idle)))
                );
            }
            screen.show(&say::printable(&text))
        })
        .await;
    }
    let mut before = None;
    live::follow(connection, None, async |look| {
        let picture = Picture::of(look, selection);
        if before.is_none() {
            picture.check(look, selection)?;
            say_unseen(&picture.unseen);
        }
        if before
            .as_ref()
            .is_none_or(|before: &Picture| before.idle.is_some() != picture.idle.is_some())
        {
            live::say_unmoved(picture.idle.as_deref());
        }
        if before.as_ref() != Some(&picture) {
            if before.is_some() && output.is_text() {
                println!("---");
            }
            picture.print(look, output)?;
            before = Some(picture);
        }
        Ok(true)
    })
    .await
}

/// The uids of the owners that have these labels. Kinds that are not served, or may not be seen, have none.
async fn owners_with(connection: &Connection, labels: &str) -> Result<BTreeSet<String>, CliError> {
    let params = ListParams::default().labels(labels);
    let mut found = BTreeSet::new();
    let owners = What::ALL.into_iter().filter(|what| what.is_owner());
    for kind in owners.flat_map(What::kinds) {
        match watched::api(&connection.read, *kind, "")
            .list_metadata(&params)
            .await
        {
            Ok(list) => found.extend(list.items.into_iter().filter_map(|one| one.metadata.uid)),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(error::api("owners with these labels")(error)),
        }
    }
    Ok(found)
}

/// What could not be seen is talk, not data.
pub fn say_unseen(unseen: &[String]) {
    for unseen in unseen {
        eprintln!("numo: could not see {unseen}");
    }
}
