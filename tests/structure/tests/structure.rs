//! What is measured on a small tree that was counted by hand.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_structure::{Crate, table};
use std::path::Path;

fn small() -> Crate {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixture/small");
    Crate::read(&folder).expect("the small tree is read")
}

/// The files that `from` imports.
fn imports(of: &Crate, from: &str) -> Vec<String> {
    let number = |path: &str| {
        let found = of.files.iter().position(|file| file.path == Path::new(path));
        found.unwrap_or_else(|| panic!("{path} is not read"))
    };
    let from = number(from);
    let mut found: Vec<String> = of
        .files
        .iter()
        .map(|file| file.path.display().to_string())
        .filter(|to| of.graph.imports(from, number(to)))
        .collect();
    found.sort();
    found
}

#[test]
fn the_table_says_what_was_counted() {
    let lines: Vec<String> = table::table(&[small()]).lines().map(ToOwned::to_owned).collect();
    let cells: Vec<&str> = lines[2]
        .split('|')
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    // below.rs has 43 lines, of which 9 are tests.
    assert_eq!(
        cells,
        [
            "small",
            "9 / 0.1k",
            "10 / 34 / 66",
            "4 / 5 / 61",
            "1",
            "12.6",
            "2",
            "2"
        ],
        "{}",
        lines.join("\n")
    );
}

#[test]
fn long_functions_and_writing_predicates_are_named_with_their_place() {
    let small = small();
    assert_eq!(
        table::long_functions(&small),
        ["small/src/words.rs:5: long has 61 lines"]
    );
    assert_eq!(
        table::writing_predicates(&small),
        [
            "small/src/below.rs:16: is_raised",
            "small/src/below.rs:30: can_raise"
        ]
    );
}

#[test]
fn a_path_leads_to_where_its_name_is_defined_and_through_each_re_export() {
    let small = small();
    assert_eq!(
        imports(&small, "below.rs"),
        [""; 0],
        "tests and other crates do not count"
    );
    assert_eq!(
        imports(&small, "lib.rs"),
        ["below.rs"],
        "a re-export is an import, a declaration is none"
    );
    assert_eq!(
        imports(&small, "above.rs"),
        ["facade/inner.rs", "facade/mod.rs", "words.rs"],
        "a macro's arguments and a body are code too"
    );
    assert_eq!(
        imports(&small, "facade/inner.rs"),
        ["below.rs", "lib.rs", "words.rs"],
        "what is another crate's is taken from the file that re-exports it"
    );
}

#[test]
fn a_cycle_names_its_files_and_the_imports_that_hold_it() {
    let small = small();
    assert_eq!(small.cycles(), [["cycle/left.rs", "cycle/mod.rs"]]);
    assert_eq!(
        imports(&small, "cycle/left.rs"),
        ["cycle/mod.rs", "cycle/right.rs"]
    );
    assert_eq!(
        small.imports_in_cycles(),
        [
            "small/src/cycle/mod.rs:9 -> cycle/left.rs: left::go",
            "small/src/cycle/left.rs:1 -> cycle/mod.rs: super",
        ]
    );
}

#[test]
fn a_module_without_a_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("src")).expect("src");
    std::fs::write(folder.path().join("src/lib.rs"), "mod lost;").expect("lib.rs");
    let error = Crate::read(folder.path()).expect_err("the file is missing");
    assert!(
        format!("{error:#}").contains("no file for the module lost"),
        "{error:#}"
    );
}
