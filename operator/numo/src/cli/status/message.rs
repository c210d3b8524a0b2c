//! How much a table shows without `-o wide`.

use crate::cli::output::{self, Layout};

/// Letters of a message that a table shows without `-o wide`.
const MESSAGE_SHOWN: usize = 120;

/// Nodes that are behind, as many as are shown.
pub(super) const SHOWN: usize = 50;

/// A message as a table has it: all of it with `-o wide`, as `explain` has it; on a terminal as much as fits there.
pub(super) fn shortened(message: &str, output: Layout) -> String {
    let is_short = !output.is_wide && output.width.is_none();
    output::cut(message, is_short.then_some(MESSAGE_SHOWN)).into_owned()
}
