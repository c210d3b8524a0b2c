//! The workflows and the files beside them: they call what exists, and say the same as what they are made of.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fs, process::Command};

use clap::CommandFactory as _;
use numo_install::{objects, said};
use serde_json::Value;

use super::{
    binary::{self, Platform},
    notes, publisher, ready,
};
use crate::step::root;

/// Every YAML file below .github, parsed.
fn files() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for folder in [".github", ".github/workflows", ".github/ISSUE_TEMPLATE"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
            {
                let name = path.file_name().unwrap().to_string_lossy();
                let text = fs::read_to_string(&path).unwrap();
                found.insert(format!("{folder}/{name}"), objects(&text).unwrap().remove(0));
            }
        }
    }
    found
}

/// The steps of a workflow, each with the tasks of its job's matrix.
fn steps(workflow: &Value) -> Vec<(Value, Vec<String>)> {
    let jobs = workflow["jobs"].as_object().into_iter().flatten();
    jobs.flat_map(|(_, job)| {
        let tasks = job
            .pointer("/strategy/matrix/task")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let tasks: Vec<String> = tasks.filter_map(|task| Some(task.as_str()?.to_owned())).collect();
        let steps = job["steps"].as_array().into_iter().flatten();
        steps
            .map(|step| (step.clone(), tasks.clone()))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// The calls of `cargo xtask` in a script.
fn calls(script: &str, tasks: &[String]) -> Vec<String> {
    let script = script.replace("\\\n", " ");
    let lines = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cargo xtask "));
    let of = |line: &str| {
        if line.contains("${{ matrix.task }}") {
            tasks
                .iter()
                .map(|task| line.replace("${{ matrix.task }}", task))
                .collect()
        } else {
            vec![line.to_owned()]
        }
    };
    lines.flat_map(of).collect()
}

#[test]
fn every_task_that_a_workflow_calls_exists() {
    let (mut number, mut wrong) = (0, Vec::new());
    for (name, workflow) in files() {
        for (step, tasks) in steps(&workflow) {
            for call in calls(step["run"].as_str().unwrap_or_default(), &tasks) {
                number += 1;
                let words = call.split_whitespace().map(|word| word.trim_matches('"'));
                let words = std::iter::once("cargo xtask").chain(words);
                if let Err(error) = crate::Arguments::command().try_get_matches_from(words) {
                    wrong.push(format!("{name}: {call}: {error}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(number >= 7, "found {number} calls only");
}

/// What a user's `numo version` says of the build, and that what is published was run once where it is at home.
#[test]
fn the_programs_of_a_release_record_their_commit_and_are_run() {
    let workflow = &files()[".github/workflows/release.yaml"];
    let steps = workflow["jobs"]["programs"]["steps"].as_array().unwrap();
    let scripts: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let at = |words: &str| scripts.iter().position(|script| script.contains(words));
    let built = at("cargo auditable build").unwrap();
    assert!(
        at(&format!("cargo install --locked --quiet {}", binary::AUDITABLE))
            .is_some_and(|install| install < built)
    );
    for variable in ["NUMO_COMMIT=", "NUMO_BUILD_DATE="] {
        assert!(scripts[built].contains(variable), "{variable}");
    }
    assert!(at("/numo version --client").is_some_and(|run| run > built));
}

/// Where the operator does not run its program has no sandbox either, whoever builds it.
#[test]
fn programs_without_an_image_are_the_command_line_alone() {
    let workflow = &files()[".github/workflows/release.yaml"];
    let matrix = &workflow["jobs"]["programs"]["strategy"]["matrix"]["include"];
    for platform in Platform::ALL {
        let of = |one: &&Value| one["platform"] == platform.to_string();
        let one = matrix.as_array().unwrap().iter().find(of).unwrap();
        let wanted = if platform.has_image() {
            ""
        } else {
            "--no-default-features"
        };
        assert_eq!(one["features"], wanted, "{platform}");
    }
}

/// A tag alone publishes nothing: every test has passed, and every program is there.
#[test]
fn a_release_waits_for_the_tests_of_its_commit() {
    let jobs = &files()[".github/workflows/release.yaml"]["jobs"];
    assert_eq!(jobs["release"]["needs"], serde_json::json!(["test", "programs"]));
    let steps = jobs["test"]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["run"] == ".ci/run"), "{steps:?}");
}

/// A workflow has the rights that it needs, and runs no action but of a commit.
#[test]
fn workflows_have_few_rights_and_name_commits() {
    let files = files();
    let workflows = files
        .iter()
        .filter(|(name, _)| name.starts_with(".github/workflows/"));
    let mut names = Vec::new();
    for (name, workflow) in workflows {
        names.push(name.trim_start_matches(".github/workflows/"));
        assert_eq!(
            workflow["permissions"],
            serde_json::json!({"contents": "read"}),
            "{name}"
        );
        for (step, _) in steps(workflow) {
            let Some(uses) = step["uses"].as_str() else {
                continue;
            };
            // A tag can be moved to another commit.
            let commit = uses.split_once('@').map_or("", |(_, commit)| commit);
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit, "{name}: {uses}");
            if uses.starts_with("actions/checkout") {
                assert_eq!(step["with"]["persist-credentials"], false, "{name}");
            }
        }
    }
    assert_eq!(
        names,
        ["advisories.yaml", "ci.yaml", "nightly.yaml", "release.yaml"]
    );
}

/// The files of the repository that git knows or would take, by these patterns; one a line.
fn listed(patterns: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(patterns);
    said(&mut git).unwrap()
}

#[test]
fn dependabot_looks_at_every_lock_file() {
    let files = files();
    let updates = files[".github/dependabot.yml"]["updates"].as_array().unwrap();
    let folders = |ecosystem: &str| -> Vec<String> {
        let of = updates.iter().filter(|one| one["package-ecosystem"] == ecosystem);
        let all = of.flat_map(|one| one["directories"].as_array().cloned().unwrap_or_default());
        let mut all: Vec<String> = all.filter_map(|one| Some(one.as_str()?.to_owned())).collect();
        all.sort();
        all
    };
    for (ecosystem, file) in [("cargo", "Cargo.lock"), ("gomod", "go.mod")] {
        let listed = listed(&[file, &format!("**/{file}")]);
        // The lock of a rule that somebody begins has no manifest beside it, and dependabot fails where there is none.
        let manifest = if file == "go.mod" { file } else { "Cargo.toml" };
        let has_manifest = |path: &&str| root().join(path).with_file_name(manifest).is_file();
        let mut wanted: Vec<String> = listed
            .lines()
            .filter(has_manifest)
            .map(|path| format!("/{}", path.trim_end_matches(file).trim_end_matches('/')))
            .collect();
        wanted.sort();
        assert_eq!(folders(ecosystem), wanted, "{ecosystem}");
    }
}

/// A diff hides what is made, and nothing else.
#[test]
fn generated_files_are_marked_for_diffs() {
    let mut made: Vec<String> = numo_install::all().unwrap().into_keys().collect();
    made.extend(ready::definitions().unwrap().into_keys());
    let all = listed(&["deploy", "operator/docs"]);
    let mut git = Command::new("git");
    git.current_dir(root())
        .args(["check-attr", "linguist-generated", "--"])
        .args(all.lines());
    for line in said(&mut git).unwrap().lines() {
        let (path, mark) = line.split_once(": linguist-generated: ").unwrap();
        let Ok(text) = fs::read_to_string(root().join(path)) else {
            continue;
        };
        let head: String = text.lines().take(2).collect();
        // Of the chart's page only the table of values is made.
        let is_made = made
            .iter()
            .any(|one| one == path && !path.ends_with("/README.md"))
            || head.contains("Made from the code by")
            || head.contains("Generated by");
        assert_eq!(mark == "set", is_made, "{path}: .gitattributes says {mark}");
        assert!(
            !is_made || head.contains("enerated by") || head.contains("Made from"),
            "{path}: its head does not say that it is made"
        );
    }
}

/// The names in the docs of a release are those of the code.
#[test]
fn the_page_on_releasing_names_what_there_is() {
    let page = fs::read_to_string(root().join("operator/docs/releasing.md")).unwrap();
    for name in [
        publisher::FILE,
        "SHA256SUMS.sig",
        "numo.krew.yaml",
        "provenance.sigstore.json",
        "notes.md",
    ] {
        assert!(page.contains(name), "{name}");
    }
    assert!(notes::HEADINGS.iter().all(|heading| page.contains(heading)));
    let support = fs::read_to_string(root().join(".github/SUPPORT.md")).unwrap();
    let chart = fs::read_to_string(root().join("deploy/helm/numo/Chart.yaml")).unwrap();
    assert!(
        support.contains("from 1.31 on") && chart.contains(">=1.31"),
        "the lowest Kubernetes"
    );
}
