//! What holds of the crates that ship: no import closes a circle between files, and no question writes.

#![allow(clippy::expect_used, reason = "tests")]

use numo_structure::{Crate, table};
use std::path::Path;

/// The folders of the crates that ship.
const CRATES: [&str; 4] = ["api", "core", "plugin", "numo"];

fn read(name: &str) -> Crate {
    let operator = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operator");
    Crate::read(&operator.join(name)).expect("the crate is read")
}

#[test]
fn files_of_a_crate_do_not_import_each_other_in_a_circle() {
    for name in CRATES {
        let read = read(name);
        let imports = read.imports_in_cycles().join("\n");
        assert!(
            read.cycles().is_empty(),
            "{name}: {:?}: move what a lower file needs down:\n{imports}",
            read.cycles()
        );
    }
}

#[test]
fn a_function_that_is_named_like_a_question_does_not_write() {
    for name in CRATES {
        let read = read(name);
        let found = table::writing_predicates(&read);
        assert!(found.is_empty(), "name it by what it does: {found:#?}");
    }
}
