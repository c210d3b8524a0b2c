//! Checks for marks whose owner is gone.

use super::finding::{Findings, State, counted};
use crate::shell::{client::Connection, list};
use numo_core::{left, observed::Settings};

/// Marks of owners that are gone, as many as are named.
const MARKS_NAMED: usize = 20;

/// Marks whose owner is gone: nobody takes them back by itself.
pub(super) async fn left_behind(connection: &Connection, found: &mut Findings) {
    let settings = Settings {
        only_looks: true,
        ..Settings::default()
    };
    let looked = list::once(&connection.read, settings).await;
    let (store, unseen) = match looked {
        Ok(looked) => looked,
        Err(error) => return found.unknown("marks on Nodes and pools", &error),
    };
    if let Some(words) = unseen.iter().find(|words| words.ends_with(list::FORBIDDEN)) {
        let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
        let message = format!("marks on Nodes and pools: cannot see {words}");
        return found.say(State::Unknown, message, Some(cure));
    }
    let orphans = left::orphans(&store.observed);
    for orphan in orphans.iter().take(MARKS_NAMED) {
        found.wrong(orphan.said().1, orphan.commands.join("; "));
    }
    if orphans.len() > MARKS_NAMED {
        let more = orphans.len() - MARKS_NAMED;
        found.wrong(
            format!("{} more of owners that are gone", counted(more, "mark")),
            "numo status -o wide",
        );
    }
    if orphans.is_empty() {
        found.ok("no mark of an owner that is gone is left");
    }
}
