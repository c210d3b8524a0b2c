//! Lines of the pages: what stands at their head, and how long one may be.

use crate::cli::wrap;

/// Said at the head of each page.
pub(super) const MADE: &str = "<!-- Made from the code by `numo reference`; edit the code instead. -->\n";

/// Columns of a line: no more than a reader of the source likes.
const WIDTH: usize = 120;

/// A text in lines of a page: the first begins with one lead, the others with another.
pub(super) fn wrapped(text: &str, first: &str, rest: &str) -> String {
    wrap::wrapped(text, (first, rest), WIDTH)
}
