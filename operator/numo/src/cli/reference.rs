//! `numo reference`: the reference pages of the docs, made from the code. A test compares them with what is checked in.

mod kinds;
mod lines;
mod schema;

use super::{error::CliError, help};
use crate::shell::metrics;
use clap::{Arg, Args, Command};
use lines::{MADE, wrapped};
use numo_api::{
    Reason,
    conditions::Actor,
    words::{Seen, WORDS},
};
use std::{fmt::Write as _, path::PathBuf};

/// Arguments of `numo reference`.
#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// Folder that the pages are written into
    #[arg(long, value_name = "DIR", alias = "output")]
    directory: PathBuf,
}

/// Writes the pages.
pub fn reference(args: &ReferenceArgs, command: &Command) -> Result<(), CliError> {
    let folder = args.directory.join("kinds");
    std::fs::create_dir_all(&folder).map_err(|source| CliError::File { path: folder, source })?;
    for (name, page) in pages(command) {
        let path = args.directory.join(name);
        std::fs::write(&path, page).map_err(|source| CliError::File { path, source })?;
    }
    Ok(())
}

/// Every page, by its file's name.
fn pages(command: &Command) -> Vec<(String, String)> {
    let kinds = kinds::all();
    let mut pages = vec![
        ("reasons.md".to_owned(), reasons()),
        ("metrics.md".to_owned(), metrics_page()),
        ("cli.md".to_owned(), verbs(command)),
        ("flags.md".to_owned(), flags(command)),
        ("crds.md".to_owned(), kinds::index(&kinds)),
    ];
    let of_kinds = kinds
        .iter()
        .map(|kind| (format!("kinds/{}", kind.page), kinds::page(kind)));
    pages.extend(of_kinds);
    pages
}

/// Who ends a wait, in the order of the page: who must do something comes first.
const ACTORS: [(Actor, &str); 11] = [
    (Actor::ClusterAdmin, "A cluster administrator ends it"),
    (Actor::Approver, "Whoever may approve it ends it"),
    (Actor::RuleAuthor, "The owners of the rule's namespace end it"),
    (Actor::OtherController, "Another controller ends it"),
    (Actor::Node, "The node ends it, when it comes back"),
    (Actor::OtherNode, "The nodes in flight end it, when they are done"),
    (Actor::OtherRun, "Another run ends it, when it is done"),
    (Actor::OtherPlan, "Another Plan ends it, when it is complete"),
    (
        Actor::ClusterItself,
        "The cluster's own operators end it, by themselves",
    ),
    (Actor::Numo, "numo ends it, by itself"),
    (Actor::Nobody, "Nothing is waited for"),
];

fn reasons() -> String {
    let mut page = format!(
        "{MADE}\n# Reasons\n\nEvery wait and every refusal has a reason. It is the same in conditions, events, metrics, \
         journals, `numo status` and `numo explain`.\nThe message beside it names object, field, what was found and what is \
         wanted. `numo explain reason/NAME` says what stands here.\n\nThe reasons are grouped by who can end the wait. Where a \
         case has another ending than its reason usually has,\n`numo explain` says so.\n"
    );
    for (actor, heading) in ACTORS {
        let mut all: Vec<&Reason> = Reason::ALL
            .iter()
            .filter(|reason| reason.who() == actor)
            .collect();
        all.sort_by_key(|reason| reason.name());
        if !all.is_empty() {
            let _ = std::writeln!(page, "\n## {heading}\n");
        }
        for reason in all {
            page += &word(reason.name(), reason.meaning());
        }
    }
    page += "\n## Other words\n\nReasons of events, of conditions that the replaced operators have, and of verdicts of numo's own \
             runners. A component says its own words.\n";
    let mut all = WORDS.to_vec();
    all.sort_unstable();
    for seen in [Seen::Event, Seen::Condition, Seen::Verdict] {
        let _ = std::writeln!(page, "\n### Reasons of {}s\n", seen.name());
        for (name, _, meaning) in all.iter().filter(|(_, of, _)| *of == seen) {
            page += &word(name, meaning);
        }
    }
    page
}

/// A word and its meaning: a line of a list, with an anchor.
fn word(name: &str, meaning: &str) -> String {
    wrapped(
        &format!("`{name}`: {meaning}"),
        &format!("- <a id=\"{name}\"></a>"),
        "  ",
    )
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
         or `numo doctor` found something to fix |\n| 2 | the call was wrong: a flag, a kind, a name that nothing has |\n\
         | 3 | the gate is closed: something stands against it, and the message says what |\n"
    );
    let mut root = command.clone();
    root.build();
    page += "\n## Ways to stop\n\nThe widest first; `numo help stopping` prints them. In each of them but `numo hold`, what is under way continues to its end, and \
             numo restores what it changed.\n\n| way | acts on | effect | undone by |\n|---|---|---|---|\n";
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
             counts. ";
    page += &help::refusals();
    page += "\n\n";
    for one in root.get_arguments().filter(|one| one.is_global_set()) {
        page += &argument(one, "");
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

/// The verbs below a command that are told of.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn verb_page(page: &mut String, verb: &Command, before: &str, depth: usize) {
    let name = format!("{before} {}", verb.get_name());
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = std::writeln!(page, "\n{} {name}\n\n{about}.", "#".repeat(depth));
    let subs: Vec<&Command> = shown(verb).collect();
    // The flags of the operator are a page of their own.
    let is_operator = before == "numo" && verb.get_name() == "run";
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let usage = if subs.is_empty() {
        format!("```text\n{usage}\n```\n\n")
    } else {
        String::new()
    };
    let _ = write!(page, "\n{usage}");
    for (what, call) in help::examples::of(name.trim_start_matches("numo ")) {
        let _ = std::writeln!(page, "- {what}: `{call}`");
    }
    if subs.is_empty() {
        page.push('\n');
        if is_operator {
            page.push_str("Its flags: [flags.md](flags.md).\n");
        } else {
            for line in arguments(verb) {
                *page += &line;
            }
        }
    }
    for sub in subs {
        verb_page(page, sub, &name, depth + 1);
    }
}

/// What a verb takes, as lines of a list. Flags of every verb stand once at the head of the page.
fn arguments(verb: &Command) -> Vec<String> {
    let all = verb.get_arguments();
    all.filter(|one| !one.is_hide_set() && !one.is_global_set() && one.get_id() != "help")
        .map(|one| argument(one, ""))
        .collect()
}

/// An argument, the variable that stands for it, what it is, and its default.
fn argument(one: &Arg, variable: &str) -> String {
    let default = default_of(one);
    let default = if default.is_empty() {
        default
    } else {
        format!(" Default: {default}.")
    };
    let text = format!("`{}`{variable}: {}.{default}", name_of(one), help_of(one));
    wrapped(&text.replace("..", "."), "- ", "  ")
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
    format!("{} {value}", flags.join(", ")).trim_end().to_owned()
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
         and the Helm chart set them.\n\n"
    );
    let mut root = command.clone();
    root.build();
    let run = root.get_subcommands().find(|verb| verb.get_name() == "run");
    for one in run.into_iter().flat_map(Command::get_arguments) {
        if let Some(variable) = one.get_env() {
            page += &argument(one, &format!(", `{}`", variable.to_string_lossy()));
        }
    }
    page
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
            let found = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(
                found == page,
                "operator/docs/reference/{name} is stale: run `cargo run -p numo -- reference --directory operator/docs/reference`"
            );
        }
    }

    #[test]
    fn no_page_of_a_kind_is_left_that_there_is_not() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/kinds");
        let found: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let wanted: BTreeSet<String> = kinds::all().into_iter().map(|kind| kind.page).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn every_reason_is_told_once() {
        let page = reasons();
        for reason in Reason::ALL {
            let anchor = format!("<a id=\"{reason}\">");
            assert_eq!(page.matches(&anchor).count(), 1, "{reason}");
        }
    }

    /// Words of the code that look like reasons and are names of kinds, of fields' values or of Kubernetes' own.
    const NOT_SAID: &[&str] = &[
        "CloudEvents",
        "ConfigMap",
        "NotFound",
        "NumoHeld",
        "NumoRunBegan",
        "PoolLeftPaused",
        "RunBegan",
        "WaitsForApproval",
        "WaveDone",
        "AcquireLease",
        "CreateMaintenance",
        "DeleteMaintenance",
        "AddFinalizer",
        "AdmissionReview",
        "AlreadyExists",
        "AlwaysAllow",
        "AutoscalingStrategy",
        "ClusterFirstWithHostNet",
        "ClusterRole",
        "ClusterVersion",
        "ControlPlane",
        "CreateChange",
        "CreateContainerConfigError",
        "CreateContainerError",
        "CreateGroup",
        "CreateJob",
        "CreateMachine",
        "CreatePendingNode",
        "CreatePlanJob",
        "DaemonSet",
        "DeleteChange",
        "DeleteGroup",
        "DeleteJoiningNode",
        "DeleteMachine",
        "DeleteNode",
        "DeletePendingNode",
        "DeletePlanJob",
        "DiskPressure",
        "DisruptionBudget",
        "DisruptionTarget",
        "DoesNotExist",
        "DeletionCandidateOfClusterAutoscaler",
        "EnableAutoscaler",
        "ErrImageNeverPull",
        "ErrImagePull",
        "EtcdIsVoter",
        "EvaluateRule",
        "FailureTarget",
        "IfNotPresent",
        "ImageDigestMirrorSet",
        "ImagePullBackOff",
        "ImageTagMirrorSet",
        "InternalIP",
        "InvalidImageName",
        "JoiningNode",
        "KeptObjects",
        "LeftBehind",
        "MachineConfig",
        "MachineConfigPool",
        "MachineHealthCheck",
        "MachineOSConfig",
        "MarkGate",
        "MutexApproval",
        "MutexApprovals",
        "MutexBinding",
        "MutexBindings",
        "MutexBudgets",
        "MutexBudget",
        "MutexNotifier",
        "MutexNotifiers",
        "MutexWindow",
        "MutexWindows",
        "MutexRule",
        "MutexRules",
        "MutexRunConfig",
        "MutexRunConfigs",
        "MutexTarget",
        "NameGroup",
        "NetworkUnavailable",
        "NoSchedule",
        "NodeChange",
        "NodeChanges",
        "NodeMaintenance",
        "NodeVersion",
        "NotIn",
        "OtherOperators",
        "PatchMachine",
        "PatchNode",
        "PatchPool",
        "PendingNode",
        "PlanWriters",
        "PodDisruptionBudget",
        "PodScheduled",
        "RecordRun",
        "ReleaseAccepted",
        "RemoveEtcdMember",
        "RenderDegraded",
        "ReleaseLease",
        "RemoveFinalizer",
        "RenewLease",
        "ReplicaSet",
        "ReplicationController",
        "RunContainerError",
        "ScalingGroup",
        "ServiceAccount",
        "SetAutoscaler",
        "SetGroupImage",
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
        "WriteGroupStatus",
        "WriteJournal",
        "WritePendingNode",
        "WritePendingStatus",
        "WriteStatus",
        "WriteStrategyStatus",
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
