//! The help: verbs in groups, examples below each verb, the flags that every verb takes, and the table that tells the ways to stop
//! apart. `numo reference` writes the same into the docs.

pub mod examples;

use super::wrap::wrapped;
use clap::Command;
use std::fmt::Write as _;

/// Verbs by what people do with them, in the order in which the help has them.
pub const GROUPS: [(&str, &[&str]); 5] = [
    ("Ask", &["status", "explain", "preview", "snapshot", "doctor"]),
    (
        "Act",
        &[
            "stop",
            "start",
            "pause",
            "resume",
            "hold",
            "maintain",
            "retry",
            "skip",
            "abort",
            "acknowledge",
            "approve",
        ],
    ),
    ("Write rules", &["plugin"]),
    ("Operate", &["run", "release", "crds"]),
    ("Other", &["version", "completion", "help"]),
];

const AFTER: &str = "`numo VERB --help` has flags and examples. `numo help stopping` tells stop, pause, suspend, hold, abort and skip \
                     apart. `numo options` lists the flags that every verb takes.
Exit codes: 0 done, 1 failed, 2 the call was wrong, 3 the gate is closed.
Linked as kubectl-numo in a folder of the PATH, the same binary is `kubectl numo`.";

/// A way to stop: what it is called, what it acts on, what begins no more, what goes on, and what undoes it.
pub struct Way {
    /// The verb, or the field.
    pub name: &'static str,
    /// What it acts on.
    pub on: &'static str,
    /// What begins no more.
    pub effect: &'static str,
    /// What undoes it.
    pub undo: &'static str,
}

/// The ways to stop, the widest first. In each of them but `numo hold`, what is under way continues to its end, and numo restores what it changed.
pub const WAYS: [Way; 7] = [
    Way {
        name: "numo stop",
        on: "all nodes, or those of labels (-l) or of a MutexBudget, whoever owns them",
        effect: "no new node is started, none that waits for rules is released; clean-up under way goes on",
        undo: "numo start",
    },
    Way {
        name: "numo pause KIND/NAME",
        on: "one MutexRunConfig, Plan, NodeMaintenance or NodeVersion",
        effect: "the same, of this owner only; who, when and why are kept on it",
        undo: "numo resume KIND/NAME",
    },
    Way {
        name: "spec.suspend: true",
        on: "one MutexRunConfig; the other kinds have no such field: `numo pause`",
        effect: "the same as pause, but in the manifest: for GitOps",
        undo: "spec.suspend: false; `numo resume` refuses",
    },
    Way {
        name: "numo hold NODE",
        on: "one node",
        effect: "it stays in its step until its owner is deleted or given up; other nodes continue within their budgets",
        undo: "numo hold NODE --undo",
    },
    Way {
        name: "numo skip NODE",
        on: "one node that was not released, or that was and does not come back",
        effect: "it is left out, and its run continues without it",
        undo: "numo retry NODE",
    },
    Way {
        name: "numo abort KIND/NAME",
        on: "the current run of a MutexRunConfig, or upgrade of a Plan",
        effect: "it ends: no further node is started; pools with outdated nodes stay paused",
        undo: "numo abort KIND/NAME --undo",
    },
    Way {
        name: "kubectl delete KIND NAME",
        on: "one owner",
        effect: "it ends, and numo first restores what it changed for it",
        undo: "kubectl apply -f FILE",
    },
];

/// Letters in a line of a page that clap does not lay out.
const WIDTH: usize = 96;

/// Puts the help together: groups, examples, and where the other flags are.
pub fn helped(mut command: Command) -> Command {
    let groups = grouped(&command);
    let name = command.get_bin_name().unwrap_or("numo").to_owned();
    let template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{{after-help}}\n");
    command = command
        .help_template(template)
        .override_usage(format!("{name} VERB [FLAGS]"))
        .after_help(AFTER);
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(&name, |verb| exemplified(verb, &name));
    }
    let stopping = table(WIDTH);
    command
        .mut_subcommand("stopping", |verb| verb.help_template(stopping.replace('{', "(")))
        .mut_subcommand("options", |verb| {
            verb.help_template(
                "The flags that every verb takes, before it or after it: call `numo options`.\n",
            )
        })
}

/// A verb with its examples, and those below it.
fn exemplified(mut verb: Command, path: &str) -> Command {
    let names: Vec<String> = verb
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    for name in names {
        verb = verb.mut_subcommand(&name, |one| exemplified(one, &format!("{path} {name}")));
    }
    let mut after = String::new();
    let all = examples::of(path);
    if !all.is_empty() {
        after.push_str("Examples:\n");
        for (what, call) in all {
            let _ = write!(after, "  # {what}\n  {call}\n\n");
        }
    }
    after.push_str("`numo options` lists the flags that every verb takes.");
    verb.after_help(after)
}

/// The verbs in their groups, one a line.
fn grouped(command: &Command) -> String {
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in verbs {
            let verb = command.find_subcommand(name);
            let about = verb.and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print the help of a verb".to_owned());
            let _ = writeln!(text, "  {name:<13}{about}");
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// `numo options`: the flags that every verb takes.
pub fn options(command: &Command) {
    print!("{}", options_in(command, WIDTH));
}

/// The same as text for a terminal, so many letters wide.
fn options_in(command: &Command, width: usize) -> String {
    let intro = "Every verb takes these flags, before it or after it. Where one stands on both sides, the one after the verb counts.";
    let mut text = wrapped(intro, ("", ""), width - 1) + "\n";
    for flag in command.get_arguments().filter(|flag| flag.is_global_set()) {
        let long = flag.get_long().unwrap_or_default();
        let short = flag
            .get_short()
            .map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        let value = flag
            .get_value_names()
            .filter(|_| flag.get_action().takes_values());
        let value = value
            .and_then(|names| names.first())
            .map_or_else(String::new, |name| format!(" {name}"));
        let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {short}--{long}{value}");
        let lead = " ".repeat(10);
        text += &wrapped(&about, (&lead, &lead), width - 1);
    }
    text.push('\n');
    text += &wrapped(&refusals(), ("", ""), width - 1);
    text
}

/// kubectl's global flags that numo refuses, and why.
const NOT_SERVED: [(&str, &str); 7] = [
    (
        "--cache-dir",
        "numo keeps nothing of a cluster on disk; `numo run` has a flag of that name for components",
    ),
    ("--match-server-version", "`numo version` says what fits"),
    ("--warnings-as-errors", "numo shows no warnings of the API server"),
    ("--profile", OF_KUBECTL_ITSELF),
    ("--profile-output", OF_KUBECTL_ITSELF),
    ("--vmodule", OF_KUBECTL_ITSELF),
    ("--log-flush-frequency", OF_KUBECTL_ITSELF),
];

/// Why the flags that measure and log kubectl's own program are refused.
const OF_KUBECTL_ITSELF: &str = "kubectl's own program is meant; `-v=6` shows each request";

/// Why numo refuses a global flag of kubectl; none if it does not.
pub fn refusal(flag: &str) -> Option<&'static str> {
    let found = NOT_SERVED.iter().find(|(refused, _)| *refused == flag);
    found.map(|(_, why)| *why)
}

/// kubectl's global flags that numo refuses, and why, as a sentence: those that have one reason together.
pub fn refusals() -> String {
    let mut parts: Vec<(String, &str)> = Vec::new();
    for (flag, why) in NOT_SERVED {
        match parts.last_mut() {
            Some((flags, of_last)) if *of_last == why => {
                *flags += " and ";
                *flags += flag;
            }
            _ => parts.push((flag.to_owned(), why)),
        }
    }
    let parts = parts.iter().map(|(flags, why)| format!("{flags} ({why})"));
    format!("Refused are {}.", parts.collect::<Vec<_>>().join(", "))
}

/// `numo stopping`: the ways to stop.
pub fn stopping() {
    print!("{}", table(WIDTH));
}

/// The ways to stop as text for a terminal, so many letters wide.
fn table(width: usize) -> String {
    let intro = "Ways to stop, the widest first. In each of them but `numo hold`, what is under way continues to its end, and numo \
                 restores what it changed.";
    let mut text = wrapped(intro, ("", ""), width - 1);
    for way in &WAYS {
        let _ = write!(text, "\n{}\n", way.name);
        for (head, words) in [
            ("acts on", way.on),
            ("effect", way.effect),
            ("undone by", way.undo),
        ] {
            text += &wrapped(words, (&format!("  {head:<11}"), &" ".repeat(13)), width - 1);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group_and_has_examples() {
        let command = crate::cli::command();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, verbs)| verbs.iter().copied())
            .collect();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = verb.get_name();
            assert_eq!(
                grouped.iter().filter(|one| **one == name).count(),
                1,
                "{name} is in one group"
            );
            let mut paths = vec![name.to_owned()];
            paths.extend(
                verb.get_subcommands()
                    .map(|sub| format!("{name} {}", sub.get_name())),
            );
            for path in &paths {
                assert!(!examples::of(path).is_empty(), "{path} has no example");
            }
        }
        let help = crate::cli::command().render_help().to_string();
        for words in [
            "Ask:\n",
            "Act:\n",
            "Write rules:\n",
            "Operate:\n",
            "help stopping",
        ] {
            assert!(help.contains(words), "{words}: {help}");
        }
        assert!(
            !help.lines().next().unwrap_or_default().contains("operator"),
            "{help}"
        );
    }

    #[test]
    fn no_line_of_the_flags_of_every_verb_is_wider_than_a_terminal() {
        let text = options_in(&crate::cli::command(), WIDTH);
        for words in [
            "--kubeconfig FILE",
            "Refused are --cache-dir",
            "--request-timeout TIME",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let wide: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() >= WIDTH)
            .collect();
        assert_eq!(wide, Vec::<&str>::new());
    }

    /// The global flags of kubectl 1.36: who passes them to every call is not stopped by one, or is told why.
    const OF_KUBECTL: [&str; 30] = [
        "as",
        "as-group",
        "as-uid",
        "as-user-extra",
        "cache-dir",
        "certificate-authority",
        "client-certificate",
        "client-key",
        "cluster",
        "context",
        "disable-compression",
        "insecure-skip-tls-verify",
        "kubeconfig",
        "kuberc",
        "log-flush-frequency",
        "match-server-version",
        "namespace",
        "password",
        "profile",
        "profile-output",
        "request-timeout",
        "server",
        "tls-server-name",
        "token",
        "user",
        "username",
        "v",
        "vmodule",
        "warnings-as-errors",
        "help",
    ];

    #[test]
    fn kubectls_global_flags_are_taken_or_refused_with_a_reason() {
        let command = crate::cli::command();
        let mut global = command.get_arguments().filter(|flag| flag.is_global_set());
        let global: Vec<&str> = global.by_ref().filter_map(clap::Arg::get_long).collect();
        for flag in OF_KUBECTL {
            // Each verb that has objects in namespaces has the flag itself.
            let is_taken = global.contains(&flag) || ["namespace", "help"].contains(&flag);
            let is_told = refusal(&format!("--{flag}")).is_some();
            assert!(is_taken != is_told, "--{flag}");
        }
        let told = refusals();
        for (flag, why) in NOT_SERVED {
            assert!(told.contains(flag) && told.contains(why), "{flag}: {told}");
        }
        assert_eq!(told.matches(OF_KUBECTL_ITSELF).count(), 1, "{told}");
    }

    /// The words of a call in a shell, from `numo` up to a pipe.
    fn words(call: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        let call = call.get(call.find("numo ").unwrap()..).unwrap();
        for letter in call.chars() {
            match letter {
                '\'' => quoted = !quoted,
                '|' | '>' | ')' if !quoted => break,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_example_is_a_call_that_numo_takes() {
        let mut number = 0;
        for (_, call) in examples::all() {
            let parsed = crate::cli::command().try_get_matches_from(words(call));
            assert!(parsed.is_ok(), "{call}: {}", parsed.unwrap_err());
            number += 1;
        }
        assert!(number > 40, "found {number} examples only");
    }

    #[test]
    fn help_speaks_of_its_own_verb() {
        let help = |verb: &str| {
            let mut command = crate::cli::command();
            command.build();
            command
                .find_subcommand_mut(verb)
                .unwrap()
                .render_help()
                .to_string()
        };
        assert!(!help("start").contains("are stopped"), "{}", help("start"));
        assert!(!help("skip").contains("retry` alone"), "{}", help("skip"));
        for verb in ["stop", "skip", "explain", "release"] {
            assert!(help(verb).contains("Examples:"), "{verb}");
            assert!(help(verb).contains("numo options"), "{verb}");
            assert!(!help(verb).contains("--kubeconfig"), "{verb}");
        }
        assert!(help("stopping").contains("spec.suspend"), "{}", help("stopping"));
        let mut command = crate::cli::command();
        let explain = command.find_subcommand_mut("explain").unwrap();
        let long = explain.render_long_help().to_string();
        assert!(long.contains("kubectl explain mutexrunconfig.spec"), "{long}");
    }
}
