//! `numo plugin new`: a crate, or a directory of another language, to begin a rule with. It overwrites nothing and asks
//! nobody.
//!
//! What it writes is `plugins/template`, whose Rust is built and tested with the rules that ship, with the contract beside
//! it instead of above it: the crate needs nothing of numo but its own files. All languages decide alike and pass the same
//! cases.

use super::output::OutputArgs;
use clap::{Args, ValueEnum};
use numo_cli::CliError;
use numo_core::text::first_of;
use serde_json::json;
use std::{io::Write as _, path::PathBuf};

/// Arguments of `numo plugin new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Name of the rule and of its crate
    #[arg(value_name = "NAME")]
    name: String,
    /// Directory to create [default: one of that name]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Language of the rule
    #[arg(long, value_enum, default_value = "rust")]
    language: Language,
    #[command(flatten)]
    output: OutputArgs,
}

/// Languages with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// Builds with cargo alone; small, fast, and equal bytes for equal source
    Rust,
    /// Builds with componentize-py; 19 MB, compiled in seconds, milliseconds an evaluation
    Python,
    /// Builds with componentize-qjs; 1.7 MB
    Javascript,
}

macro_rules! of_repository {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path))
    };
}

/// Path in the new directory, and its text.
type Template = &'static [(&'static str, &'static str)];

const CASES: &str = of_repository!("plugins/template/tests/cases.yaml");
const WORLD: &str = of_repository!("plugins/template/world.wit");
const HOST: &str = of_repository!("wit/host/host.wit");
const RULE: &str = of_repository!("wit/rule/rule.wit");

const RUST: Template = &[
    ("Cargo.toml", of_repository!("plugins/template/Cargo.toml")),
    ("Cargo.lock", of_repository!("plugins/template/alone/Cargo.lock")),
    ("README.md", of_repository!("plugins/template/README.md")),
    (".gitignore", of_repository!("plugins/template/alone/gitignore")),
    ("src/lib.rs", of_repository!("plugins/template/src/lib.rs")),
    (
        "tests/cases.rs",
        of_repository!("plugins/template/tests/cases.rs"),
    ),
    ("tests/cases.yaml", CASES),
    ("wit/host/host.wit", HOST),
    ("wit/rule/rule.wit", RULE),
];

const PYTHON: Template = &[
    ("rule.py", of_repository!("plugins/template/python/rule.py")),
    (
        "requirements.txt",
        of_repository!("plugins/template/python/requirements.txt"),
    ),
    ("README.md", of_repository!("plugins/template/python/README.md")),
    (".gitignore", of_repository!("plugins/template/python/gitignore")),
    ("tests/cases.yaml", CASES),
    ("wit/world.wit", WORLD),
    ("wit/deps/numo-host/host.wit", HOST),
    ("wit/deps/numo-rule/rule.wit", RULE),
];

const JAVASCRIPT: Template = &[
    ("rule.js", of_repository!("plugins/template/javascript/rule.js")),
    (
        "package.json",
        of_repository!("plugins/template/javascript/package.json"),
    ),
    (
        "README.md",
        of_repository!("plugins/template/javascript/README.md"),
    ),
    (
        ".gitignore",
        of_repository!("plugins/template/javascript/gitignore"),
    ),
    ("tests/cases.yaml", CASES),
    ("wit/world.wit", WORLD),
    ("wit/deps/numo-host/host.wit", HOST),
    ("wit/deps/numo-rule/rule.wit", RULE),
];

impl Language {
    const fn template(self) -> Template {
        match self {
            Self::Rust => RUST,
            Self::Python => PYTHON,
            Self::Javascript => JAVASCRIPT,
        }
    }

    /// What is to be done first in the new directory.
    const fn first(self) -> &'static str {
        match self {
            Self::Rust => "cargo test",
            Self::Python => "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
            Self::Javascript => "npm install",
        }
    }
}

/// What stands at the end of the manifest of a crate that stands alone.
const ALONE: &str = of_repository!("plugins/template/alone/manifest-end.toml");

/// Words that no crate can be called, or that the template's own dependencies are called.
const TAKEN: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "serde-json",
    "wit-bindgen",
];

/// Writes the files.
pub(crate) fn new(args: &NewArgs) -> Result<(), CliError> {
    check_name(&args.name).map_err(CliError::Wrong)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let files: Vec<(PathBuf, String)> = args
        .language
        .template()
        .iter()
        .map(|(path, text)| (folder.join(path), fill(path, text, &args.name)))
        .collect();
    let there = files.iter().map(|(path, _)| path);
    let there = there.filter(|path| path.symlink_metadata().is_ok());
    let there = first_of(there.map(|path| path.display()), 1);
    if !there.is_empty() {
        return Err(CliError::Wrong(format!(
            "{there}: found a file, wanted none; nothing is overwritten"
        )));
    }
    for (path, text) in &files {
        write(path, text).map_err(|source| CliError::File {
            path: path.clone(),
            source,
        })?;
    }
    let written: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    args.output.say(&written.join("\n"), &json!({"files": written}))?;
    let (name, folder) = (&args.name, folder.display());
    let first = args.language.first();
    eprintln!("next: cd {folder} && {first} && numo plugin build && numo plugin test");
    eprintln!("then: numo plugin push {name}.wasm registry.example.com/team/{name}:0.1.0");
    Ok(())
}

/// Only where there is nothing.
fn write(path: &PathBuf, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// The template's text with the rule's name, and with the contract in the crate.
fn fill(path: &str, text: &str, name: &str) -> String {
    if path.starts_with("wit/") && text != WORLD {
        return text.to_owned();
    }
    let text = text
        .replace("my-rule", name)
        .replace("my_rule", &name.replace('-', "_"))
        .replace("../../wit/", "wit/");
    match path {
        "Cargo.toml" => {
            let own = text.replace("\n[lints]\nworkspace = true\n", "\n");
            format!("{}\n{}", own.trim_end(), ALONE.replace("my-rule", name))
        }
        "Cargo.lock" => in_order(&text),
        _ => text,
    }
}

/// Packages by their names, as cargo wants them: the crate's own name is another than the template's.
fn in_order(lock: &str) -> String {
    let mut packages = lock.split("[[package]]\n").map(str::trim_end);
    let head = packages.next().unwrap_or_default();
    let mut packages: Vec<_> = packages.collect();
    packages.sort_by_key(|package| package.lines().next());
    format!("{head}\n\n[[package]]\n{}\n", packages.join("\n\n[[package]]\n"))
}

/// What is wrong with a name, if anything.
fn check_name(name: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("NAME: found {name:?}, {why}"));
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(letters) {
        return wrong("wanted lower-case letters, digits and '-', a letter first: such as disk-check");
    }
    if name.ends_with('-') || name.contains("--") {
        return wrong("wanted '-' only between letters and digits");
    }
    if name.len() > 63 {
        return wrong("wanted at most 63 letters");
    }
    if TAKEN.contains(&name) {
        return wrong("which no crate can be called");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_crates_images_and_rules_can_have() {
        for right in ["a", "disk-check", "rule2"] {
            assert_eq!(check_name(right), Ok(()));
        }
        for wrong in [
            "",
            "Disk",
            "2nd",
            "a_b",
            "a/b",
            "../a",
            "a-",
            "a--b",
            "test",
            "fn",
            "ü",
            &"a".repeat(64),
        ] {
            let why = check_name(wrong).unwrap_err();
            assert!(
                why.contains(wrong) && why.contains("wanted") || why.contains("no crate"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_new_crate_names_nothing_outside_of_itself() {
        for language in Language::value_variants() {
            for (path, text) in language.template() {
                let text = fill(path, text, "disk-check");
                assert!(!text.contains("my-rule") && !text.contains("my_rule"), "{path}");
                assert!(!text.contains("../../"), "{path}");
            }
        }
        assert!(fill("wit/world.wit", WORLD, "record").contains("world %record {"));
        let manifest = fill(RUST[0].0, RUST[0].1, "disk-check");
        for part in [
            "name = \"disk-check\"",
            "\n[workspace]",
            "package.metadata.component",
            "crate-type",
        ] {
            assert!(manifest.contains(part), "{part}: {manifest}");
        }
        assert!(!manifest.contains("workspace = true"), "{manifest}");
    }

    #[test]
    fn the_packages_of_a_lock_stay_in_order() {
        assert_eq!(in_order(RUST[1].1), RUST[1].1);
        let lock = fill("Cargo.lock", RUST[1].1, "zebra");
        let names: Vec<_> = lock.lines().filter(|line| line.starts_with("name = ")).collect();
        assert!(
            names.is_sorted() && names.contains(&"name = \"zebra\""),
            "{names:?}"
        );
    }

    #[test]
    fn a_new_crate_has_the_versions_that_were_tested() {
        let shipped = of_repository!("plugins/Cargo.lock");
        let packages = |lock: &'static str| {
            lock.split("[[package]]\n")
                .skip(1)
                .filter(|package| package.contains("checksum = "))
                .map(|package| {
                    let lines: Vec<_> = package.lines().take(2).collect();
                    lines.join(" ")
                })
        };
        let known: Vec<_> = packages(shipped).collect();
        let own: Vec<_> = packages(RUST[1].1).collect();
        assert!(own.len() > 5, "{own:?}");
        for package in own {
            assert!(known.contains(&package), "{package} is not in plugins/Cargo.lock");
        }
    }
}
