//! `numo status`: owners, pools, nodes by step, maintenances, budgets in use, and when it will be done.

mod budget;
mod left;
mod maintenance;
mod message;
mod owner;
mod picture;

use self::picture::{Picture, Selection};
use crate::cli::{
    cluster::ClusterArgs,
    completion,
    error::CliError,
    live,
    object::ObjectArg,
    output::{self, Format, OutputArgs, paint},
    say, screen,
};
use clap::Args;
use std::fmt::Write as _;

/// Arguments of `numo status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Only owners of this namespace [default: all]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Owners of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Go on, and show what changes: on a terminal full-screen (q ends it)
    #[arg(short, long)]
    watch: bool,
    /// Only this owner: KIND/NAME or NAME
    #[arg(value_name = "KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
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
    let (connection, _) = args.cluster.connect("status").await?;
    let selection = Selection {
        namespace: args.namespace.as_deref(),
        what: args.object.as_ref().and_then(|object| object.what),
        name: args.object.as_ref().map(|object| object.name.as_str()),
    };
    if args.watch {
        return watch(&connection, &selection, args.output).await;
    }
    let look = live::look_by(&connection).await?;
    let picture = Picture::of(&look, &selection);
    picture.check(&selection)?;
    picture.print(&look, args.output)?;
    say_unseen(&picture.unseen);
    live::say_unmoved(picture.idle.as_deref());
    Ok(())
}

/// On a terminal the whole screen; else each picture that differs from the one before it.
async fn watch(
    connection: &crate::shell::client::Connection,
    selection: &Selection<'_>,
    output: OutputArgs,
) -> Result<(), CliError> {
    if output.output.is_none_or(|format| format == Format::Wide) && screen::is_there() {
        let mut screen = screen::Screen::open()?;
        return live::follow(connection, Some(screen::TICK), async |look| {
            let picture = Picture::of(look, selection);
            let mut text = picture.text(look, output);
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
            picture.check(selection)?;
            say_unseen(&picture.unseen);
        }
        if before
            .as_ref()
            .is_none_or(|before: &Picture| before.idle.is_some() != picture.idle.is_some())
        {
            live::say_unmoved(picture.idle.as_deref());
        }
        if before.as_ref() != Some(&picture) {
            if before.is_some() && output.output.is_none() {
                println!("---");
            }
            picture.print(look, output)?;
            before = Some(picture);
        }
        Ok(true)
    })
    .await
}

/// What could not be seen is talk, not data.
pub fn say_unseen(unseen: &[String]) {
    for unseen in unseen {
        eprintln!("numo: could not see {unseen}");
    }
}
