//! `numo reference`: the reference pages of the docs, made from the code. A test compares them with what is checked in.

use super::{error::CliError, help};
use crate::shell::metrics;
use clap::{Arg, Args, Command};
use numo_api::{Reason, words::WORDS};
use serde_json::Value;
use std::{fmt::Write as _, path::PathBuf};

/// Said at the head of each page.
const MADE: &str = "<!-- Made from the code by `numo reference`; edit the code instead. -->\n";

/// Arguments of `numo reference`.
#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// Folder that the pages are written into
    #[arg(long, value_name = "DIR", alias = "output")]
    directory: PathBuf,
}

/// Writes the pages.
pub fn reference(args: &ReferenceArgs, command: &Command) -> Result<(), CliError> {
    for (name, page) in pages(command) {
        let path = args.directory.join(name);
        std::fs::write(&path, page).map_err(|source| CliError::File { path, source })?;
    }
    Ok(())
}

/// Every page, by its file's name.
fn pages(command: &Command) -> [(&'static str, String); 5] {
    [
        ("reasons.md", reasons()),
        ("metrics.md", metrics_page()),
        ("cli.md", verbs(command)),
        ("flags.md", flags(command)),
        ("crds.md", definitions()),
    ]
}

fn reasons() -> String {
    let mut page = format!(
        "{MADE}\n# Reasons\n\nEvery wait and every refusal has a reason. It is the same in conditions, events, metrics, \
         journals, `numo status` and `numo explain`; the message beside it names object, field, what was found and what is \
         wanted. `numo explain reason/NAME` says what stands here.\n\n| reason | what it means | who can end it |\n|---|---|---|\n"
    );
    let mut all: Vec<&Reason> = Reason::ALL.iter().collect();
    all.sort_by_key(|reason| reason.name());
    for reason in all {
        let _ = std::writeln!(
            page,
            "| `{reason}` | {} | {} |",
            cell(reason.meaning()),
            reason.who().phrase()
        );
    }
    page += "\n## Other words\n\nReasons of events, of conditions that the replaced operators have, and of verdicts of numo's own \
             runners. A component says its own words.\n\n| word | where | what it means |\n|---|---|---|\n";
    let mut all = WORDS.to_vec();
    all.sort_unstable();
    for (name, seen, meaning) in all {
        let _ = std::writeln!(page, "| `{name}` | {} | {} |", seen.name(), cell(meaning));
    }
    page
}

fn metrics_page() -> String {
    let mut page = format!(
        "{MADE}\n# Metrics\n\nServed at `/metrics` (OpenMetrics; `--metrics-address`), by every replica; what is of owners \
         and nodes by the one that leads. Counters end in `_total`, histograms have `_bucket`, `_sum` and `_count`. After a \
         restart all of them are there again with the first pass. Node names appear only while a node is in flight, of one \
         owner 100 at most; of a MutexBudget 100 groups at most. Counters are there, at zero, before anything is counted: those \
         of a rule once the rule is.\n\nAlerts: [alerts.md](alerts.md). Dashboard and rules: `deploy/monitoring`.\n\n\
         | metric | type | labels | what it says |\n|---|---|---|---|\n"
    );
    for metric in metrics::ALL {
        let suffix = if metric.kind == "counter" { "_total" } else { "" };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = std::writeln!(
            page,
            "| `numo_{}{suffix}` | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join(" "),
            cell(metric.help)
        );
    }
    page
}

fn verbs(command: &Command) -> String {
    let mut page = format!(
        "{MADE}\n# Command line\n\n`numo` and, linked as `kubectl-numo` in a folder of the PATH, `kubectl numo`: one binary.\n\n\
         Data goes to standard output, talk to standard error. Colours are for terminals, and not with `NO_COLOR`.\n\n\
         | exit code | meaning |\n|---|---|\n| 0 | it is done |\n| 1 | it failed: the API server refused, or cannot be reached, \
         or `numo doctor` found something to mend |\n| 2 | the call was wrong: a flag, a kind, a name that nothing has |\n\
         | 3 | the gate is closed: something stands against it, and the message says what |\n"
    );
    let mut root = command.clone();
    root.build();
    page += "\n## Ways to stop\n\nThe widest first; `numo help stopping` prints them. In each of them what is under way comes to its end, and \
             what numo took is given back.\n\n| way | acts on | effect | undone by |\n|---|---|---|---|\n";
    for way in &help::WAYS {
        let undo = way.undo.split("; ").next().unwrap_or_default();
        let more = cell(&way.undo.replacen(undo, "", 1));
        let _ = std::writeln!(
            page,
            "| `{}` | {} | {} | `{undo}`{more} |",
            way.name,
            cell(way.on),
            cell(way.effect)
        );
    }
    page += "\n## Flags of every verb\n\nThey stand before the verb or after it; where one stands on both sides, the one after the verb \
             counts. There is no `--cache-dir`: numo keeps nothing of a cluster on disk.\n\n\
             | flag | what it is | default |\n|---|---|---|\n";
    for one in root.get_arguments().filter(|one| one.is_global_set()) {
        row(&mut page, one);
    }
    for (group, verbs) in help::GROUPS {
        let _ = std::writeln!(page, "\n## {group}");
        for name in verbs.iter().filter(|name| **name != "help") {
            if let Some(verb) = root.find_subcommand(name) {
                verb_page(&mut page, verb, "numo", 3);
            }
        }
    }
    page
}

fn verb_page(page: &mut String, verb: &Command, before: &str, depth: usize) {
    let name = format!("{before} {}", verb.get_name());
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = std::writeln!(page, "\n{} {name}\n\n{about}.", "#".repeat(depth));
    let subs: Vec<&Command> = verb
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .collect();
    // The flags of the operator are a page of their own.
    let is_operator = before == "numo" && verb.get_name() == "run";
    if subs.is_empty() {
        let usage = verb.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = std::writeln!(page, "\n```text\n{usage}\n```\n");
        for (what, call) in help::examples(name.trim_start_matches("numo ")) {
            let _ = std::writeln!(page, "- {what}: `{call}`");
        }
        page.push('\n');
        if is_operator {
            page.push_str("Its flags: [flags.md](flags.md).\n");
        } else {
            arguments(page, verb);
        }
    }
    for sub in subs {
        verb_page(page, sub, &name, depth + 1);
    }
}

fn arguments(page: &mut String, verb: &Command) {
    let shown: Vec<&Arg> = verb
        .get_arguments()
        .filter(|one| !one.is_hide_set() && !one.is_global_set() && one.get_id() != "help")
        .collect();
    if shown.is_empty() {
        return;
    }
    page.push_str("| argument | what it is | default |\n|---|---|---|\n");
    for one in shown {
        row(page, one);
    }
}

fn row(page: &mut String, one: &Arg) {
    let _ = std::writeln!(
        page,
        "| `{}` | {} | {} |",
        name_of(one),
        help_of(one),
        default_of(one)
    );
}

fn name_of(one: &Arg) -> String {
    let values: Vec<String> = one
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    let takes = one.get_action().takes_values();
    let long = one.get_long().map(|long| format!("--{long}"));
    let short = one.get_short().map(|short| format!("-{short}"));
    let flags: Vec<String> = [short, long].into_iter().flatten().collect();
    let value = if takes { values.join(" ") } else { String::new() };
    if flags.is_empty() {
        return value;
    }
    format!("{} {value}", flags.join(", "))
        .trim_end()
        .replace('|', "\\|")
}

fn help_of(one: &Arg) -> String {
    let help = one.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<String> = one
        .get_possible_values()
        .iter()
        .filter(|_| one.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if possible.is_empty() {
        cell(&help)
    } else {
        format!("{}: {}", cell(&help), possible.join(", "))
    }
}

fn default_of(one: &Arg) -> String {
    let values: Vec<String> = one
        .get_default_values()
        .iter()
        .filter(|_| one.get_action().takes_values())
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    values.join(", ")
}

fn flags(command: &Command) -> String {
    let mut page = format!(
        "{MADE}\n# Flags of the operator\n\n`numo run`. Each flag is also an environment variable, which is how the Deployment \
         and the Helm chart set them.\n\n| flag | variable | what it is | default |\n|---|---|---|---|\n"
    );
    let mut root = command.clone();
    root.build();
    let run = root.get_subcommands().find(|verb| verb.get_name() == "run");
    for one in run.into_iter().flat_map(Command::get_arguments) {
        let Some(variable) = one.get_env() else {
            continue;
        };
        let _ = std::writeln!(
            page,
            "| `{}` | `{}` | {} | {} |",
            name_of(one),
            variable.to_string_lossy(),
            help_of(one),
            default_of(one)
        );
    }
    page
}

fn definitions() -> String {
    let mut page = format!(
        "{MADE}\n# Custom resources\n\nEvery field of every kind, as `kubectl explain` has it. What differs from the operators that \
         numo replaces is in the pages of each owner.\n"
    );
    for definition in numo_api::crds::all() {
        let value = serde_json::to_value(&definition).unwrap_or_default();
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        for version in value
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            let _ = std::writeln!(
                page,
                "\n## {} ({}/{name})\n",
                text("/spec/names/kind"),
                text("/spec/group")
            );
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            let _ = std::writeln!(page, "{} Scope: {}.\n", described(schema), text("/spec/scope"));
            page.push_str("| field | type | what it is |\n|---|---|---|\n");
            for part in ["spec", "status"] {
                if let Some(schema) = schema.pointer(&format!("/properties/{part}")) {
                    fields(&mut page, part, schema, 0);
                }
            }
        }
    }
    page
}

/// Fields deeper than this are Kubernetes' own: a jobSpec, a pod's affinity.
const DEEPEST: usize = 6;

fn fields(page: &mut String, path: &str, schema: &Value, depth: usize) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let wanted: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in properties.into_iter().flatten() {
        let mut path = format!("{path}.{name}");
        let required = if wanted.contains(&name.as_str()) {
            " Required."
        } else {
            ""
        };
        let default = field
            .get("default")
            .map_or_else(String::new, |value| format!(" Default: `{value}`."));
        let items = field.get("items");
        let kind = kind_of(field);
        let _ = std::writeln!(
            page,
            "| `{path}` | {kind} | {}{default}{required} |",
            described(field)
        );
        if depth < DEEPEST {
            if let Some(items) = items {
                path.push_str("[]");
                fields(page, &path, items, depth + 1);
            } else {
                fields(page, &path, field, depth + 1);
            }
        }
    }
}

fn kind_of(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return "integer or string".to_owned();
    }
    let kind = field.get("type").and_then(Value::as_str).unwrap_or("object");
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect();
        return values.join(", ");
    }
    match field.pointer("/items/type").and_then(Value::as_str) {
        Some(items) => format!("list of {items}"),
        None => kind.to_owned(),
    }
}

fn described(field: &Value) -> String {
    cell(
        field
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

/// Text that fits into a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::Path};

    #[test]
    fn the_pages_in_the_docs_are_those_of_the_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
        for (name, page) in pages(&crate::cli::command()) {
            let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(
                found == page,
                "operator/docs/reference/{name} is stale: run `cargo run -p numo -- reference --directory operator/docs/reference`"
            );
        }
    }

    /// Words of the code that look like reasons and are names of kinds, of fields' values or of Kubernetes' own.
    const NOT_SAID: &[&str] = &[
        "AcquireLease",
        "AddFinalizer",
        "AdmissionReview",
        "AlreadyExists",
        "AlwaysAllow",
        "ClusterFirstWithHostNet",
        "ClusterRole",
        "ClusterVersion",
        "CreateChange",
        "CreateContainerConfigError",
        "CreateContainerError",
        "CreateJob",
        "CreatePlanJob",
        "DaemonSet",
        "DeleteChange",
        "DeletePlanJob",
        "DiskPressure",
        "DisruptionBudget",
        "DisruptionTarget",
        "DoesNotExist",
        "ErrImageNeverPull",
        "ErrImagePull",
        "EtcdIsVoter",
        "EvaluateRule",
        "FailureTarget",
        "IfNotPresent",
        "ImageDigestMirrorSet",
        "ImagePullBackOff",
        "ImageTagMirrorSet",
        "InvalidImageName",
        "KeptObjects",
        "LeftBehind",
        "MachineConfig",
        "MachineConfigPool",
        "MachineHealthCheck",
        "MachineOSConfig",
        "MarkGate",
        "MutexBinding",
        "MutexBindings",
        "MutexBudget",
        "MutexRule",
        "MutexRules",
        "MutexRunConfig",
        "MutexRunConfigs",
        "MutexTarget",
        "NetworkUnavailable",
        "NoSchedule",
        "NodeChange",
        "NodeChanges",
        "NodeMaintenance",
        "NotIn",
        "OtherOperators",
        "PatchMachine",
        "PatchNode",
        "PatchPool",
        "PlanWriters",
        "PodDisruptionBudget",
        "PodScheduled",
        "RecordRun",
        "ReleaseAccepted",
        "RenderDegraded",
        "ReleaseLease",
        "RemoveFinalizer",
        "RenewLease",
        "ReplicaSet",
        "ReplicationController",
        "RunContainerError",
        "ServiceAccount",
        "SetJobTtl",
        "StartPlanJob",
        "StatefulSet",
        "TerminatingOrFailed",
        "ToBeDeletedByClusterAutoscaler",
        "TokenPolicies",
        "UpgradeReady",
        "ValidatingAdmissionPolicies",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBindings",
        "ValidatingWebhookConfiguration",
        "WriteJournal",
        "WriteStatus",
    ];

    fn sources(folder: &Path, all: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("tests") {
                // Words of tests are their own.
                continue;
            }
            if path.is_dir() {
                sources(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                all.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
            }
        }
    }

    /// `ErrImagePull`, and not `error` or `OK`.
    fn is_camel_case(word: &str) -> bool {
        let upper = word.chars().filter(char::is_ascii_uppercase).count();
        let lower = word.chars().filter(char::is_ascii_lowercase).count();
        upper > 1
            && lower > upper
            && word.chars().all(|letter| letter.is_ascii_alphabetic())
            && word.starts_with(|letter: char| letter.is_ascii_uppercase())
    }

    #[test]
    fn every_reason_in_the_code_has_its_sentence() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all = Vec::new();
        for folder in [
            "core/src",
            "numo/src/frontends",
            "numo/src/runners",
            "numo/src/shell",
            "numo/src/cli",
            "author/src",
            "cli/src",
        ] {
            sources(&root.join(folder), &mut all);
        }
        let literals = all.iter().flat_map(|text| text.split('"'));
        let said: BTreeSet<&str> = literals.filter(|word| is_camel_case(word)).collect();
        assert!(said.len() > 100, "the code was not read: {}", said.len());
        let types = [
            numo_api::conditions::types::READY,
            numo_api::conditions::types::STALLED,
        ];
        let untold: Vec<&&str> = said
            .iter()
            .filter(|word| numo_api::words::meaning(word).is_none())
            .filter(|word| !NOT_SAID.contains(word) && !types.contains(word))
            .collect();
        assert_eq!(
            untold,
            Vec::<&&str>::new(),
            "give them a sentence in operator/api/src/words.rs"
        );
        // And none is told of that nobody says.
        let code: String = all.concat();
        let gone: Vec<&str> = WORDS
            .iter()
            .map(|(name, ..)| *name)
            .filter(|name| !code.contains(&format!("\"{name}\"")))
            .collect();
        assert_eq!(gone, Vec::<&str>::new());
    }

    #[test]
    fn no_reason_is_told_twice() {
        let mut names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.extend(WORDS.iter().map(|(name, ..)| *name));
        names.sort_unstable();
        let twice: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert_eq!(twice, Vec::<&[&str]>::new());
    }
}
