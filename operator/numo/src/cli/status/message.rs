//! How much a table shows without `-o wide`.

use crate::cli::output::Layout;

/// Letters of a message that a table shows without `-o wide`.
const MESSAGE_SHOWN: usize = 120;

/// Nodes that are behind, as many as are shown.
pub(super) const SHOWN: usize = 50;

/// A message as a table has it: all of it with `-o wide`, as `explain` has it; on a terminal as much as fits there.
pub(super) fn shortened(message: &str, output: Layout) -> String {
    if output.is_wide || output.width.is_some() || message.chars().count() <= MESSAGE_SHOWN {
        return message.to_owned();
    }
    let short: String = message.chars().take(MESSAGE_SHOWN - 1).collect();
    format!("{short}…")
}
