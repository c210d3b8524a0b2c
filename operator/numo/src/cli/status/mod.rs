//! `numo status`: owners, pools, nodes by step, maintenances, bindings, budgets in use, windows, and when it will be done.

mod args;
mod binding;
mod budget;
mod contexts;
mod left;
mod maintenance;
mod message;
mod order;
mod owner;
mod picture;
mod window;

pub use self::args::StatusArgs;

use self::picture::{Picture, Selection};
use crate::{
    cli::{
        error::CliError,
        live,
        output::{self, OutputArgs, paint},
        say, screen, selector,
    },
    shell::client::Connection,
};
use std::fmt::Write as _;

/// Prints the state of all owners, or of one.
pub async fn status(args: StatusArgs) -> Result<(), CliError> {
    if let Some(what) = args.object.as_ref().and_then(|object| object.what)
        && !what.is_owner()
    {
        return Err(CliError::Usage(format!(
            "found kind {0}, wanted mutexrunconfig, plan, nodemaintenance or nodeversion, which own nodes; `numo explain {0}/NAME` takes it",
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

/// What could not be seen is talk, not data.
pub fn say_unseen(unseen: &[String]) {
    for unseen in unseen {
        eprintln!("numo: could not see {unseen}");
    }
}
