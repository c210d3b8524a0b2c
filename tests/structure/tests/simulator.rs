//! The judge of the simulator, and its world, read what they are given by themselves: whoever asks what decides does not see where that is wrong.

#![allow(clippy::expect_used, reason = "tests")]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// What they may name of the core: types of plain data, a whole module of them at a time, and a few more.
const MAY_NAME: [&str; 11] = [
    "Decision",
    "Owner",
    "OwnerKind",
    "MaintenanceGroup",
    "action",
    "observed",
    "report",
    "drain::Eviction",
    "verdict::Question",
    // Fields of what was seen are of these types.
    "admit::hours::Hours",
    "owners::plan::Window",
];

/// The functions among it: how people find the NodeChange of a node, as `numo` tells them.
const MAY_CALL: [&str; 3] = ["names::change_name", "names::node_hash", "names::run_id"];

/// What they may ask of such data: how it is named, where it stands, and what is put there; and words that others have as well.
const MAY_ASK: [&str; 14] = [
    "annotation",
    "api_version",
    "approved",
    "count",
    "finalizer",
    "restores",
    "hear_facts",
    "is_of_health_check",
    "label",
    "name",
    "owner",
    "owners",
    "uid_of",
    "word",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources below a path, that itself if it is one.
fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("the folder is read") {
            sources(&entry.expect("an entry").path(), found);
        }
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        found.push(path.to_owned());
    }
}

fn below(paths: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        sources(&root().join(path), &mut found);
    }
    assert!(!found.is_empty(), "{paths:?} have moved");
    found.sort();
    found
}

fn tokens(file: &Path) -> Vec<TokenTree> {
    let text = std::fs::read_to_string(file).expect("the file is read");
    let all: TokenStream = text.parse().expect("it is Rust");
    all.into_iter().collect()
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// The paths that go on from here, each after what stands before it; lists of imports are taken apart.
fn paths(before: &str, rest: &[TokenTree], found: &mut Vec<String>) {
    let mut path = before.to_owned();
    let mut rest = rest;
    while is_colon(rest.first()) && is_colon(rest.get(1)) {
        match rest.get(2) {
            Some(TokenTree::Ident(ident)) => {
                path = join(&path, &ident.to_string());
                rest = &rest[3..];
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let list: Vec<TokenTree> = group.stream().into_iter().collect();
                let ends =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for one in list.split(ends) {
                    if let Some(name) = ident(one.first()) {
                        paths(&join(&path, &name), &one[1..], found);
                    }
                }
                return;
            }
            _ => {
                path = join(&path, "*");
                break;
            }
        }
    }
    found.push(path);
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}::{name}")
    }
}

/// What is named of the core anywhere in these tokens.
fn of_core(tokens: &[TokenTree], found: &mut Vec<String>) {
    for (at, token) in tokens.iter().enumerate() {
        if ident(Some(token)).is_some_and(|name| name == "numo_core") {
            paths("", &tokens[at + 1..], found);
        }
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            of_core(&inside, found);
        }
    }
}

/// What is called on something, or named as its function: `.name(` and `Type::name`.
fn asked(tokens: &[TokenTree], found: &mut BTreeSet<String>) {
    for (at, token) in tokens.iter().enumerate() {
        let punct = |token: Option<&TokenTree>, wanted: char| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
        let is_call = punct(Some(token), '.')
            && matches!(tokens.get(at + 2), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
        let of_type = ident(Some(token)).is_some_and(|name| name.ends_with("View"));
        if is_call {
            found.extend(ident(tokens.get(at + 1)));
        } else if of_type && is_colon(tokens.get(at + 1)) {
            found.extend(ident(tokens.get(at + 3)));
        }
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            asked(&inside, found);
        }
    }
}

/// The functions that a file has which ask something of a value: `fn name(&self` and `fn name(self`; `only_public` those for others alone.
fn questions(file: &Path, only_public: bool) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).expect("the file is read");
    let lines = text.lines().map(str::trim_start);
    let meant =
        lines.filter(|line| !only_public || line.starts_with("pub fn ") || line.starts_with("pub const fn "));
    let after = meant.filter_map(|line| line.split_once("fn ").map(|(_, rest)| rest));
    after
        .filter_map(|rest| {
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let rest = &rest[name.len()..];
            let is_asked = rest.contains("self") || !only_public;
            (is_asked && !name.is_empty()).then_some(name)
        })
        .collect()
}

const JUDGE_AND_WORLD: [&str; 4] = [
    "tests/sim/src/judge.rs",
    "tests/sim/src/judge",
    "tests/sim/src/world",
    "tests/sim/src/reading.rs",
];

#[test]
fn judge_and_world_of_the_simulator_name_nothing_of_the_core_but_its_data() {
    let is_type = |name: &str| name.starts_with(char::is_uppercase);
    let may = |path: &str| {
        let mut allowed = MAY_NAME.iter();
        let is_data = allowed.any(|one| {
            let rest = path.strip_prefix(one);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        });
        MAY_CALL.contains(&path) || is_data && path.split("::").any(is_type)
    };
    let mut found = Vec::new();
    let mut count = 0;
    for file in below(&JUDGE_AND_WORLD) {
        let mut named = Vec::new();
        of_core(&tokens(&file), &mut named);
        count += named.len();
        // A module of functions that is imported as a whole: each of its calls must be one that may be.
        for path in named {
            let is_module = path == "names";
            if is_module {
                let mut calls = Vec::new();
                calls_of(&tokens(&file), "names", &mut calls);
                found.extend(
                    calls
                        .into_iter()
                        .filter(|call| !may(call))
                        .map(|call| format!("{}: {call}", file.display())),
                );
            } else if !may(&path) {
                found.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(count > 50, "it finds only {count}: it looks for the wrong words");
    assert!(
        found.is_empty(),
        "read it in tests/sim/src/reading.rs: {found:#?}"
    );
}

fn calls_of(tokens: &[TokenTree], module: &str, found: &mut Vec<String>) {
    for (at, token) in tokens.iter().enumerate() {
        let is_named = ident(Some(token)).is_some_and(|name| name == module);
        if is_named && is_colon(tokens.get(at + 1)) && is_colon(tokens.get(at + 2)) {
            paths(module, &tokens[at + 1..], found);
        }
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            calls_of(&inside, module, found);
        }
    }
}

#[test]
fn judge_and_world_of_the_simulator_ask_nothing_of_what_was_seen() {
    let core = below(&[
        "operator/core/src/observed",
        "operator/core/src/owner.rs",
        "operator/core/src/action",
        "operator/core/src/report.rs",
    ]);
    let mut deciding: BTreeSet<String> = core.iter().flat_map(|file| questions(file, true)).collect();
    assert!(deciding.contains("in_flight"), "it finds only {deciding:?}");
    deciding.retain(|name| !MAY_ASK.contains(&name.as_str()));
    let files = below(&JUDGE_AND_WORLD);
    // What they have themselves under the same name.
    let own: BTreeSet<String> = files.iter().flat_map(|file| questions(file, false)).collect();
    let mut found = Vec::new();
    for file in files {
        let mut words = BTreeSet::new();
        asked(&tokens(&file), &mut words);
        let wrong: Vec<&String> = words
            .iter()
            .filter(|name| deciding.contains(*name) && !own.contains(*name))
            .collect();
        if !wrong.is_empty() {
            found.push(format!("{}: {wrong:?}", file.display()));
        }
    }
    assert!(
        found.is_empty(),
        "read it in tests/sim/src/reading.rs: {found:#?}"
    );
}
