//! What holds of the crates that ship: no import closes a circle between files, and no question writes.

#![allow(clippy::expect_used, reason = "tests")]

use numo_structure::{Crate, table};
use std::{collections::BTreeMap, path::Path};

/// The folders of the crates that ship.
const CRATES: [&str; 7] = ["api", "core", "plugin", "cli", "credentials", "author", "numo"];

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

/// Files of more than 600 lines and functions of more than 60, of each crate: what there is today, and it only shrinks. Lower
/// a number when one is split.
const LARGE: [(&str, usize, usize); 7] = [
    ("api", 0, 0),
    ("core", 0, 0),
    ("plugin", 1, 0),
    ("cli", 0, 0),
    ("credentials", 0, 0),
    ("author", 1, 0),
    ("numo", 0, 1),
];
/// The lines of a file that is large.
const LARGE_FILE: usize = 600;

#[test]
fn no_file_or_function_becomes_large() {
    for (name, files, functions) in LARGE {
        let read = read(name);
        let large: Vec<String> = read
            .files
            .iter()
            .filter(|file| file.lines > LARGE_FILE)
            .map(|file| format!("{}: {}", file.path.display(), file.lines))
            .collect();
        assert_eq!(
            large.len(),
            files,
            "{name}: split what has grown, or lower the number: {large:#?}"
        );
        let long = table::long_functions(&read);
        assert_eq!(
            long.len(),
            functions,
            "{name}: split what has grown, or lower the number: {long:#?}"
        );
    }
}

/// The files of the core that hand an owner to the module of its kind; the page of decisions passes on names of a run, too.
const KNOW_OWNERS: [&str; 2] = ["decide.rs", "owners/mod.rs"];

/// The module of a kind of owner that a file is of.
fn owner_of(path: &Path) -> Option<&str> {
    let mut parts = path.iter().map(|part| part.to_str().unwrap_or_default());
    let owner = (parts.next() == Some("owners")).then(|| parts.next().unwrap_or_default());
    owner.filter(|owner| *owner != "mod.rs")
}

#[test]
fn owners_share_what_is_below_them_and_nothing_of_each_other() {
    let core = read("core");
    let mut found = Vec::new();
    for (from, file) in core.files.iter().enumerate() {
        if KNOW_OWNERS.iter().any(|known| file.path == Path::new(known)) {
            continue;
        }
        for (to, other) in core.files.iter().enumerate() {
            let owner = owner_of(&other.path);
            if owner.is_some() && owner != owner_of(&file.path) && core.graph.imports(from, to) {
                found.push(format!("{} -> {}", file.path.display(), other.path.display()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "move what both need to turn/ or admit/: {found:#?}"
    );
}

#[test]
fn what_owners_share_does_not_ask_which_kind_it_is() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operator/core/src");
    // Names of leases are derived from the kind, and name it.
    let may = Path::new("turn/lease.rs");
    let core = read("core");
    let shared = |path: &Path| {
        ["turn", "admit", "lint", "rules"]
            .iter()
            .any(|folder| path.starts_with(folder))
    };
    let files = core.files.iter().map(|file| &file.path);
    for path in files.filter(|path| shared(path) && path.as_path() != may) {
        let text = std::fs::read_to_string(source.join(path)).expect("the file is read");
        assert!(
            !text.contains("OwnerKind::"),
            "{} asks for the kind",
            path.display()
        );
    }
}

/// The lines that what all owners share may have, and the folder of one owner (ADR 48).
const SHARED_LINES: usize = 22_700;
const OWNER_LINES: usize = 6_600;

#[test]
fn an_owner_costs_its_own_folder() {
    let mut shared = 0;
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for file in read("core").files {
        match owner_of(&file.path) {
            Some(owner) => *owners.entry(owner.to_owned()).or_default() += file.lines,
            None => shared += file.lines,
        }
    }
    assert!(
        shared <= SHARED_LINES,
        "what all owners share has {shared} lines, wanted at most {SHARED_LINES}"
    );
    owners.retain(|_, lines| *lines > OWNER_LINES);
    assert!(
        owners.is_empty(),
        "wanted at most {OWNER_LINES} lines each: {owners:?}"
    );
}

/// The files of the core that tell one kind of owner from another one, beside `owners/`: a new kind is written here, and nowhere else.
const TELL_KINDS: [&str; 2] = [
    // The table of kinds: names, what each needs, what changes its nodes.
    "owner.rs",
    // In which map of what was seen the owners of a kind are.
    "observed/owners.rs",
];

#[test]
fn no_file_but_the_tables_tells_one_kind_of_owner_from_another() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operator/core/src");
    let mut found = Vec::new();
    for file in &read("core").files {
        let path = &file.path;
        if path.starts_with("owners") || TELL_KINDS.iter().any(|told| path == Path::new(told)) {
            continue;
        }
        let text = std::fs::read_to_string(source.join(path)).expect("the file is read");
        for (number, line) in text.lines().enumerate() {
            let mut named = line.split("OwnerKind::").skip(1);
            // A variant begins with a capital and goes on in small letters; ALL and functions do not.
            let is_variant = |name: &str| {
                let mut letters = name.chars();
                let first = letters.next().is_some_and(char::is_uppercase);
                first && letters.next().is_some_and(char::is_lowercase)
            };
            if named.any(is_variant) {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "ask the kind for it in owner.rs, or the owner in owners/mod.rs: {found:#?}"
    );
}

/// Names the kinds of objects that marks are left on, NodeMaintenances that numo made among them.
const NAMES_OBJECTS: &str = "left.rs";

#[test]
fn no_file_but_the_tables_tells_kinds_of_owner_apart_by_their_names() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operator/core/src");
    let mut found = Vec::new();
    for file in &read("core").files {
        let path = &file.path;
        let may = TELL_KINDS.iter().any(|told| path == Path::new(told));
        if may || path.starts_with("owners") || path == Path::new(NAMES_OBJECTS) {
            continue;
        }
        let text = std::fs::read_to_string(source.join(path)).expect("the file is read");
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (number, line) in lines.enumerate() {
            let is_named = |kind: &str| line.contains(&format!("\"{kind}\""));
            if ["MutexRunConfig", "NodeMaintenance", "Plan", "NodeVersion"]
                .into_iter()
                .any(is_named)
            {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "ask the kind for it in owner.rs, or the owner in owners/mod.rs: {found:#?}"
    );
}

/// Where the client of the API server is named (ARCHITECTURE.md): everybody else is given what was read, or a connection.
const NAMES_CLIENT: &str = "shell";

/// What of the library of the client a text names: all that stands behind `kube::`.
fn of_kube(text: &str) -> impl Iterator<Item = &str> {
    text.split("kube::").skip(1).map(|rest| {
        let is_list = rest.starts_with('{');
        let end = if is_list {
            rest.find(';')
        } else {
            rest.find(|c: char| !c.is_alphanumeric() && c != ':')
        };
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn only_the_shell_names_the_client_of_the_api_server() {
    let mut found = Vec::new();
    let mut in_shell = 0;
    for name in CRATES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../operator")
            .join(name)
            .join("src");
        for file in &read(name).files {
            let text = std::fs::read_to_string(source.join(&file.path)).expect("the file is read");
            let is_client = |word: &str| word == "Client" || word == "ClientBuilder";
            let names =
                of_kube(&text).any(|named| named.split(|c: char| !c.is_alphanumeric()).any(is_client));
            if names && name == "numo" && file.path.starts_with(NAMES_CLIENT) {
                in_shell += 1;
            } else if names {
                found.push(format!("{name}: {}", file.path.display()));
            }
        }
    }
    assert!(
        in_shell > 0,
        "the shell names it nowhere: this test looks for the wrong words"
    );
    assert!(found.is_empty(), "have the shell do it: {found:#?}");
}
