//! `numo completion`: what a shell needs to complete the command line, with the names that the cluster has at that
//! moment. A cluster that does not answer at once completes nothing, and says nothing.

use super::{
    cluster::{ClusterArgs, KubeconfigArgs, extra},
    error::CliError,
    object::What,
    say,
};
use crate::shell::watch;
use clap::Command;
use clap::{Args, ValueEnum};
use clap_complete::CompletionCandidate;
use kube::api::ListParams;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// The verb behind kubectl's completion.
pub const COMPLETE_VERB: &str = "__complete";
/// How long the cluster may take: a person has pressed Tab.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names of one kind, at most.
const NAMES: u32 = 500;

/// Shells.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// source <(numo completion bash)
    Bash,
    /// source <(numo completion zsh)
    Zsh,
    /// numo completion fish | source
    Fish,
    /// A file kubectl_complete-numo for a folder of the PATH: `kubectl numo` is completed too
    Kubectl,
}

/// Arguments of `numo completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell to print it for
    shell: Shell,
}

/// Arguments of the verb behind kubectl's completion.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words so far; the last one is being completed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

const KUBECTL: &str = "#!/bin/sh
# kubectl runs this file to complete `kubectl numo`. Save it as kubectl_complete-numo, executable, in a folder of the PATH.
exec kubectl-numo __complete \"$@\"
";

/// Prints the script.
pub fn completion(args: &CompletionArgs) -> Result<(), CliError> {
    let shell = match args.shell {
        Shell::Kubectl => {
            print!("{KUBECTL}");
            return Ok(());
        }
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let shells = clap_complete::env::Shells::builtins();
    let failed =
        |why: &dyn std::fmt::Display| CliError::Wrong(format!("the script cannot be written: {why}"));
    let completer = shells.completer(shell).ok_or_else(|| failed(&"no such shell"))?;
    let itself = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut script = Vec::new();
    completer
        .write_registration("COMPLETE", "numo", "numo", &itself.to_string_lossy(), &mut script)
        .map_err(|error| failed(&error))?;
    say::bytes(&script);
    Ok(())
}

/// Prints candidates as kubectl reads them: one a line, what it means after a tab, and that no files are meant.
pub fn complete(args: CompleteArgs, mut command: Command) -> Result<(), CliError> {
    let mut words = vec![OsString::from("numo")];
    words.extend(args.words);
    let index = words.len() - 1;
    let folder: Option<PathBuf> = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(&mut command, words, index, folder.as_deref());
    let found = found.map_err(|error| CliError::Wrong(format!("nothing can be completed: {error}")))?;
    for candidate in found {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help() {
            Some(help) => print!(
                "{}\t{}\n",
                say::line(format_args!("{value}")),
                help.to_string().lines().next().unwrap_or_default()
            ),
            None => println!("{value}"),
        }
    }
    println!(":4");
    Ok(())
}

/// Which names are meant.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Names of nodes, alone.
    pub nodes: bool,
    /// KIND/NAME of these.
    pub kinds: &'static [What],
    /// Names of budgets, alone.
    pub budgets: bool,
}

/// Candidates that the cluster has now.
pub fn names(of: Names, current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    let current = current.to_owned();
    // The shell's question is asked outside of any runtime, or inside one that must not be held up.
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, list(of, &current)).await.ok() });
        runtime.shutdown_background();
        found
    });
    asked.join().ok().flatten().unwrap_or_default()
}

/// The value of a flag among the words so far: names are those of the cluster that the line is about.
fn given(words: &[String], flags: &[&str]) -> Option<String> {
    every(words, flags).pop()
}

/// Each value of a flag among the words so far.
fn every(words: &[String], flags: &[&str]) -> Vec<String> {
    let of = |(index, word): (usize, &String)| {
        let with_value = flags
            .iter()
            .find_map(|flag| word.strip_prefix(&format!("{flag}=")));
        match with_value {
            Some(value) => Some(value.to_owned()),
            None => flags
                .contains(&word.as_str())
                .then(|| words.get(index + 1).cloned())
                .flatten(),
        }
    };
    words.iter().enumerate().filter_map(of).collect()
}

/// The cluster that a line is about, and the namespace, if it names one.
fn cluster_of(words: &[String]) -> (ClusterArgs, String) {
    let flag = |flag: &str| given(words, &[flag]);
    let kubeconfig = flag("--kubeconfig").map(PathBuf::from);
    let kubeconfig = KubeconfigArgs {
        kubeconfig: kubeconfig.or_else(|| std::env::var_os("NUMO_KUBECONFIG").map(PathBuf::from)),
        context: flag("--context").or_else(|| std::env::var("NUMO_CONTEXT").ok()),
    };
    let cluster = ClusterArgs {
        kubeconfig,
        cluster: flag("--cluster"),
        user: flag("--user"),
        server: given(words, &["-s", "--server"]),
        token: flag("--token"),
        impersonate: flag("--as"),
        impersonate_groups: every(words, &["--as-group"]),
        impersonate_uid: flag("--as-uid"),
        // What is no KEY=VALUE is refused once the line is run.
        impersonate_extra: every(words, &["--as-user-extra"])
            .iter()
            .filter_map(|given| extra(given).ok())
            .collect(),
        username: flag("--username"),
        password: flag("--password"),
        disable_compression: words.iter().any(|word| word == "--disable-compression"),
        kuberc: None,
        certificate_authority: flag("--certificate-authority").map(PathBuf::from),
        client_certificate: flag("--client-certificate").map(PathBuf::from),
        client_key: flag("--client-key").map(PathBuf::from),
        insecure_skip_tls_verify: words.iter().any(|word| word == "--insecure-skip-tls-verify"),
        tls_server_name: flag("--tls-server-name"),
        request_timeout: "0".to_owned(),
        verbosity: 0,
    };
    (cluster, given(words, &["-n", "--namespace"]).unwrap_or_default())
}

fn reasons(prefix: &str, current: &str) -> Vec<CompletionCandidate> {
    let reasons = numo_api::Reason::ALL
        .iter()
        .map(|reason| format!("{prefix}{reason}"));
    reasons
        .filter(|name| name.starts_with(current))
        .map(CompletionCandidate::new)
        .collect()
}

async fn list(of: Names, current: &str) -> Vec<CompletionCandidate> {
    let of_reason = format!("{}/", What::Reason.singular());
    // The words of the code, without a cluster.
    if of.kinds.contains(&What::Reason) && current.starts_with(&of_reason) {
        return reasons(&of_reason, current);
    }
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let (cluster, namespace) = cluster_of(&words);
    let Ok((connection, _)) = cluster.connect("completion").await else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let alone = [(of.nodes, What::Node), (of.budgets, What::Budget)];
    let alone = alone
        .into_iter()
        .filter_map(|(wanted, what)| wanted.then_some((what, false)));
    for (what, with_kind) in alone.chain(of.kinds.iter().map(|what| (*what, true))) {
        let prefix = if with_kind {
            format!("{}/", what.singular())
        } else {
            String::new()
        };
        // What nobody has begun to write is not listed, only its kind.
        let is_begun = !with_kind || current.starts_with(&prefix);
        if !is_begun {
            if prefix.starts_with(current) {
                found.push(CompletionCandidate::new(prefix));
            }
            continue;
        }
        for kind in what.kinds() {
            let params = ListParams::default().limit(NAMES);
            let place = if what.is_namespaced() {
                namespace.as_str()
            } else {
                ""
            };
            let Ok(list) = watch::api(&connection.read, *kind, place)
                .list_metadata(&params)
                .await
            else {
                continue;
            };
            let names = list.items.into_iter().filter_map(|object| object.metadata.name);
            let names = names.map(|name| format!("{prefix}{name}"));
            found.extend(
                names
                    .filter(|name| name.starts_with(current))
                    .map(CompletionCandidate::new),
            );
        }
    }
    found
}

/// Completes a node, or an owner and what is asked about.
pub fn explained(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    names(
        Names {
            nodes: true,
            kinds: &What::ALL,
            budgets: false,
        },
        current,
    )
}

/// Completes an owner.
pub fn owners(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    names(
        Names {
            nodes: false,
            kinds: &[What::Run, What::Plan, What::Maintenance, What::Version],
            budgets: false,
        },
        current,
    )
}

/// Completes what `numo preview` takes.
pub fn previewed(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    names(
        Names {
            nodes: false,
            kinds: &[
                What::Run,
                What::Plan,
                What::Maintenance,
                What::Version,
                What::Rule,
            ],
            budgets: false,
        },
        current,
    )
}

/// Completes a node.
pub fn nodes(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    names(
        Names {
            nodes: true,
            kinds: &[],
            budgets: false,
        },
        current,
    )
}

/// Completes a MutexBudget.
pub fn budgets(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    names(
        Names {
            nodes: false,
            kinds: &[],
            budgets: true,
        },
        current,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_cluster_that_the_line_names() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(ToOwned::to_owned).collect() };
        let (cluster, namespace) = cluster_of(&words("numo -- numo --context prod skip --as=ada -n team w"));
        assert_eq!(cluster.kubeconfig.context.as_deref(), Some("prod"));
        assert_eq!(cluster.impersonate.as_deref(), Some("ada"));
        assert_eq!(namespace, "team");
        let line = "numo --as ada --as-group a --as-group=b --as-user-extra k=v --as-user-extra none skip w";
        let (cluster, _) = cluster_of(&words(line));
        assert_eq!(cluster.impersonate_groups, ["a", "b"]);
        assert_eq!(cluster.impersonate_extra, [("k".to_owned(), "v".to_owned())]);
        let (cluster, _) = cluster_of(&words("numo status --kubeconfig /a --kubeconfig=/b"));
        assert_eq!(cluster.kubeconfig.kubeconfig, Some(PathBuf::from("/b")));
        assert!(given(&words("numo status --context"), &["--context"]).is_none());
    }

    #[test]
    fn reasons_are_completed_without_a_cluster() {
        let found = names(
            Names {
                nodes: true,
                kinds: &What::ALL,
                budgets: false,
            },
            std::ffi::OsStr::new("reason/RuleWa"),
        );
        let found: Vec<String> = found
            .iter()
            .map(|one| one.get_value().to_string_lossy().into_owned())
            .collect();
        assert_eq!(found, ["reason/RuleWaits"]);
    }
}
