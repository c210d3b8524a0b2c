//! `numo status --contexts`: the owners of several clusters as one table, or one list. Each cluster is looked at as `numo status`
//! looks at one. None waits for another, and one that cannot be looked at has a row that says why.

use super::{
    args::StatusArgs,
    maintenance::MaintenanceLine,
    message::shortened,
    owner::OwnerLine,
    picture::{Absence, Picture},
};
use crate::cli::{
    cluster::ClusterArgs,
    error::{CliError, chain},
    live::{self, ago},
    output::{self, Cell, Layout, Table, paint},
};
use futures::future::join_all;
use jiff::Timestamp;
use numo_cli::Format;
use numo_core::observed::Key;
use serde::Serialize;
use std::{collections::BTreeSet, fmt::Write as _, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// Clusters of one call, at most.
const MOST: usize = 32;
/// How long one cluster is looked at, unless --request-timeout gives one request longer.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longest sentence that says why a cluster could not be looked at (characters): a stranger's server may have written it.
const WHY: usize = 1024;
/// What stands in a cell that has nothing to say.
const NOTHING: &str = "-";
const HEADS: [&str; 7] = ["CONTEXT", "OWNER", "REASON", "DONE", "TO", "SINCE", "MESSAGE"];

/// One cluster, by the context that leads to it.
#[derive(Debug, Serialize)]
struct Cluster {
    context: String,
    #[serde(flatten)]
    found: Found,
    /// The API server's time, for how long ago things were.
    #[serde(skip)]
    now: Timestamp,
    /// Why no owner of it is shown.
    #[serde(skip)]
    absence: Option<Absence>,
}

/// What was found in a cluster.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Found {
    Seen(Box<Picture>),
    Unseen { error: String },
}

/// Prints the owners of all clusters.
///
/// Errors: the call cannot be meant; or a cluster could not be looked at, once all others are printed.
pub(super) async fn status(args: StatusArgs) -> Result<(), CliError> {
    check_names(&args.contexts)?;
    check_flags(&args.cluster)?;
    if args.output.output == Some(Format::Name) {
        return Err(CliError::Usage(
            "-o name: the names of several clusters cannot be told apart; -o json and -o yaml have the context of each"
                .to_owned(),
        ));
    }
    let patience = args.cluster.longest_request()?.unwrap_or_default().max(PATIENCE);
    let args = Arc::new(args);
    let all = args.contexts.iter();
    let all = join_all(all.map(|context| look_in(Arc::clone(&args), context, patience))).await;
    args.output.print(&all, |layout| text(&all, layout), Vec::new)?;
    for cluster in &all {
        cluster.say();
    }
    verdict(&all)
}

/// Each context is asked once.
fn check_names(contexts: &[String]) -> Result<(), CliError> {
    let wrong = |words: String| Err(CliError::Usage(format!("--contexts: {words}")));
    if contexts.len() > MOST {
        return wrong(format!(
            "found {} contexts, wanted {MOST} at most",
            contexts.len()
        ));
    }
    let mut known = BTreeSet::new();
    for context in contexts {
        if context.is_empty() {
            return wrong("found a context without a name, wanted for example a,b,c".to_owned());
        }
        if !known.insert(context) {
            return wrong(format!("found {context:?} twice, wanted each context once"));
        }
    }
    Ok(())
}

/// What is said of one cluster is not said of all: the credentials of one are no other's business.
fn check_flags(cluster: &ClusterArgs) -> Result<(), CliError> {
    match cluster.of_one_cluster() {
        None => Ok(()),
        Some(flag) => Err(CliError::Usage(format!(
            "{flag} is about one cluster, and --contexts about several: give one of them; each context of the kubeconfig \
             has its own server and credentials"
        ))),
    }
}

/// Looks at one cluster. It has a thread of its own: a program that fetches credentials may block it for as long as it likes.
async fn look_in(args: Arc<StatusArgs>, context: &str, patience: Duration) -> Cluster {
    let (runtime, name) = (Handle::current(), context.to_owned());
    let asked = tokio::task::spawn_blocking(move || runtime.block_on(look(&args, name)));
    let error = match tokio::time::timeout(patience, asked).await {
        Ok(Ok(Ok(cluster))) => return cluster,
        Ok(Ok(Err(error))) => chain(&error),
        Ok(Err(_)) => "the look at this cluster broke off".to_owned(),
        Err(_) => format!(
            "the cluster has not answered everything within {} s; --request-timeout waits longer",
            patience.as_secs()
        ),
    };
    Cluster {
        context: context.to_owned(),
        found: Found::Unseen {
            error: output::cut(&error, Some(WHY)).into_owned(),
        },
        now: Timestamp::UNIX_EPOCH,
        absence: None,
    }
}

async fn look(args: &StatusArgs, context: String) -> Result<Cluster, CliError> {
    let mut cluster = args.cluster.clone();
    cluster.kubeconfig.context = Some(context.clone());
    let (connection, default) = cluster.connect("status").await?;
    let selection = args.selection(&connection, &default).await?;
    let look = live::look_by(&connection).await?;
    let picture = Picture::of(&look, &selection);
    Ok(Cluster {
        context,
        absence: picture.absence(&look, &selection)?,
        found: Found::Seen(Box::new(picture)),
        now: look.now,
    })
}

/// The table, and below it what is said of a cluster as a whole.
fn text(all: &[Cluster], layout: Layout) -> String {
    let mut table = Table::new(0, HEADS, layout);
    for cluster in all {
        cluster.write_rows(&mut table, layout);
    }
    let mut text = table.text();
    for cluster in all {
        cluster.write_notes(&mut text);
    }
    text
}

impl Cluster {
    fn write_rows(&self, table: &mut Table, layout: Layout) {
        let context = || Cell::from(self.context.as_str());
        let nothing = || Cell::from(NOTHING);
        let picture = match &self.found {
            Found::Seen(picture) => picture,
            Found::Unseen { error } => {
                let reason = Cell::painted("not seen", output::bad());
                let why = shortened(error, layout).into();
                table.row([context(), nothing(), reason, nothing(), nothing(), nothing(), why]);
                return;
            }
        };
        if let Some(absence) = &self.absence {
            let why = shortened(&absence.to_string(), layout).into();
            table.row([
                context(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                why,
            ]);
        }
        for owner in &picture.owners {
            table.row(self.owner(owner, layout));
        }
        for maintenance in &picture.maintenances {
            table.row(self.maintenance(maintenance, layout));
        }
    }

    fn owner(&self, owner: &OwnerLine, layout: Layout) -> [Cell; 7] {
        let key = Key::new(owner.namespace.as_str(), owner.name.as_str());
        let mut message = owner.message.clone();
        if let Some(paused) = &owner.paused {
            let _ = write!(message, "; {paused}");
        }
        [
            self.context.as_str().into(),
            format!("{} {key}", owner.kind).into(),
            Cell::painted(owner.reason.name(), output::of_reason(owner.reason)),
            format!("{}/{}", owner.done, owner.nodes).into(),
            owner.target.as_deref().unwrap_or(NOTHING).into(),
            ago(owner.since.as_deref(), self.now).into(),
            shortened(&message, layout).into(),
        ]
    }

    fn maintenance(&self, line: &MaintenanceLine, layout: Layout) -> [Cell; 7] {
        [
            self.context.as_str().into(),
            format!("NodeMaintenance {}", line.name).into(),
            line.reason.map_or_else(
                || NOTHING.into(),
                |reason| Cell::painted(reason.name(), output::of_reason(reason)),
            ),
            format!("{}%", line.drained_percent).into(),
            line.node.as_str().into(),
            ago(line.since.as_deref().or(Some(&line.created)), self.now).into(),
            shortened(&line.message, layout).into(),
        ]
    }

    /// Who has stopped nodes of the cluster, and that owners that are gone have left something.
    fn write_notes(&self, text: &mut String) {
        let Found::Seen(picture) = &self.found else { return };
        for stop in &picture.stopped {
            let _ = writeln!(text, "{}: {}", self.context, paint(output::bad(), stop));
        }
        match picture.left_behind.len() {
            0 => {}
            left => {
                let _ = writeln!(
                    text,
                    "{}: owners that are gone left {left} marks behind; `numo status --context {0}` lists them",
                    self.context
                );
            }
        }
    }

    /// What could not be seen, and that nobody acts, is talk.
    fn say(&self) {
        let Found::Seen(picture) = &self.found else { return };
        for unseen in &picture.unseen {
            eprintln!("numo: {}: could not see {unseen}", self.context);
        }
        if let Some(idle) = &picture.idle {
            eprintln!("numo: {}: {idle}", self.context);
        }
    }
}

/// An error that names the clusters that could not be looked at, if there are any.
fn verdict(all: &[Cluster]) -> Result<(), CliError> {
    let unseen = all.iter().filter(|one| matches!(one.found, Found::Unseen { .. }));
    let unseen: Vec<&str> = unseen.map(|one| one.context.as_str()).collect();
    if unseen.is_empty() {
        return Ok(());
    }
    Err(CliError::Wrong(format!(
        "{} of {} clusters could not be looked at: {}",
        unseen.len(),
        all.len(),
        unseen.join(", ")
    )))
}

#[cfg(test)]
mod tests;
