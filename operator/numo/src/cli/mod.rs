//! The command line: one file per verb. Data goes to standard output, talk to standard error.
//!
//! Exit codes: 0 it is done, 1 it failed, 2 the call was wrong (a flag, a name that nothing has), 3 the gate is closed:
//! numo understood, and something stands against it.

#[macro_use]
mod say;

mod abort;
#[cfg(not(feature = "operator"))]
mod absent;
mod acknowledge;
mod approve;
mod closed;
mod cluster;
mod completion;
mod crds;
mod directive;
mod doctor;
mod error;
mod explain;
mod help;
mod live;
mod log;
mod maintain;
mod maintained;
mod named;
mod object;
mod output;
mod pause;
mod place;
#[cfg(feature = "operator")]
mod plugin;
mod preview;
#[cfg(feature = "operator")]
mod reference;
mod release;
mod remark;
mod remarked;
mod remedy;
mod restored;
#[cfg(feature = "operator")]
mod run;
#[cfg(test)]
mod sample;
mod screen;
mod selector;
mod snapshot;
mod status;
mod stop;
mod turns;
mod version;
mod wrap;
mod written;

pub use cluster::ClusterArgs;
pub use error::CliError;

#[cfg(feature = "operator")]
use crate::shell::eval::expressions;
use clap::{
    CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::ExitCode,
};

/// See why nodes in your cluster are waiting, hold them back, and let them continue.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the objects that a verb names [default: that of the kubeconfig's context]; objects without a namespace
    /// (nodes, NodeMaintenances, NodeVersions, MutexBudgets, MutexWindows, MutexBindings, MutexNotifiers) are found whatever it is
    #[arg(short, long, value_name = "NS", global = true, hide = true)]
    #[allow(
        dead_code,
        reason = "each verb that has a namespace reads its own, which this one fills in"
    )]
    namespace: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show owners, pools, nodes by step, budgets in use, and when it will be done
    Status(status::StatusArgs),
    /// Say why a node, a run, a rule or a target is where it is
    ///
    /// For the fields of a kind, use `kubectl explain mutexrunconfig.spec`.
    Explain(explain::ExplainArgs),
    /// Show what an owner would do, without changing anything: order, refusals, drains, rules
    Preview(Box<preview::PreviewArgs>),
    /// Write what a preview needs from this cluster to a file, without secrets
    ///
    /// The file has names, labels, versions, rules and states. Left out are: Secrets and ConfigMaps; what a MachineConfig contains; values of
    /// environment variables, commands and arguments; the config of wasm and cel rules, and HTTP headers; annotations that numo does not decide
    /// by; managed fields, except those of MachineConfigPools; addresses, provider IDs and images of nodes and pods; the ends of logs; who
    /// paused, held, skipped or approved, and why; and everything about pods except their node, their priority, and which volumes are emptyDir or
    /// PersistentVolumeClaims. Read the file before you share it: names and labels stay, and messages in a status may quote a person.
    Snapshot(snapshot::SnapshotArgs),
    /// Stop everything: no new node is started
    Stop(stop::StopArgs),
    /// Let nodes change again after `stop`
    Start(stop::StartArgs),
    /// Stop one MutexRunConfig, Plan, NodeMaintenance or NodeVersion: it starts no new node
    Pause(pause::PauseArgs),
    /// Resume an owner after `pause`
    Resume(pause::PauseArgs),
    /// Keep one node where it is
    ///
    /// The node stays in its step until you end the hold, or until the owner of its turn is deleted or given up: numo then restores the node anyway.
    /// A node that was already released completes its change first.
    Hold(directive::HoldArgs),
    /// Take a node out of service, and show what its drain waits for; put it back with --end
    Maintain(maintain::MaintainArgs),
    /// Give up the current run of a MutexRunConfig, or the current upgrade of a Plan
    Abort(abort::AbortArgs),
    /// Confirm that you have seen which nodes a run left out or changed without their rules
    Acknowledge(acknowledge::AcknowledgeArgs),
    /// Approve the start of a run, a wave, or a node after a failure (--list: what is waiting)
    Approve(approve::ApproveArgs),
    /// Run the rules of a held, failed or skipped node again, or those of a run
    Retry(directive::RetryArgs),
    /// Leave a node out of its run
    Skip(directive::SkipArgs),
    /// Restore everything numo changed, on a cluster without an operator
    Release(release::ReleaseArgs),
    /// Check an installation, and say how to fix what is wrong
    Doctor(doctor::DoctorArgs),
    /// Write, build, test, push and sign rules as WebAssembly components
    #[cfg(feature = "operator")]
    Plugin(plugin::PluginArgs),
    /// Write, build, test, push and sign rules as WebAssembly components (not in this program)
    #[cfg(not(feature = "operator"))]
    Plugin(absent::AbsentArgs),
    /// Run the operator, in a cluster or out of one
    #[cfg(feature = "operator")]
    Run(Box<run::RunArgs>),
    /// Run the operator, in a cluster or out of one (not in this program)
    #[cfg(not(feature = "operator"))]
    Run(absent::AbsentArgs),
    /// Print the custom resource definitions
    Crds(crds::CrdsArgs),
    /// Print client, API server and operator versions, and whether they are compatible
    Version(version::VersionArgs),
    /// Print the script that completes this command line in a shell
    Completion(completion::CompletionArgs),
    /// List the flags that every verb takes
    #[command(hide = true)]
    Options,
    /// Tell stop, pause, suspend, hold, abort and skip apart
    #[command(hide = true)]
    Stopping,
    /// Write the reference pages of the docs
    #[cfg(feature = "operator")]
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
    /// What kubectl_complete-numo asks for
    #[command(name = completion::COMPLETE_VERB, hide = true, disable_help_flag = true)]
    Complete(completion::CompleteArgs),
}

impl Cli {
    /// Refuses a namespace that the verb would pass over: whoever names one means less than the whole cluster.
    fn idle_namespace(&self) -> Option<CliError> {
        let namespace = self.namespace.as_deref()?;
        let (does, way) = match &self.verb {
            Verb::Stop(_) => (
                "stop` stops",
                "-l SELECTOR or the name of a MutexBudget (BUDGET) stops some",
            ),
            Verb::Start(_) => (
                "start` starts",
                "-l SELECTOR or the name of a MutexBudget (BUDGET) ends the stop of some",
            ),
            Verb::Snapshot(_) => {
                return Some(CliError::Usage(format!(
                    "-n {namespace}: a snapshot has all namespaces, as nodes are of none; leave the flag out"
                )));
            }
            _ => return None,
        };
        Some(CliError::Usage(format!(
            "-n {namespace}: `numo {does} nodes, which have no namespace; {way}, and `numo pause` is for one owner"
        )))
    }
}

/// The command line, by the name it is called by: kubectl runs a binary called `kubectl-numo` as its own verb.
fn command() -> clap::Command {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_plugin = called.file_stem() == Some(OsStr::new("kubectl-numo"));
    help::helped(Cli::command().bin_name(if is_plugin { "kubectl numo" } else { "numo" }))
}

fn parse() -> Cli {
    let line: Vec<OsString> = std::env::args_os().collect();
    let matches = command().try_get_matches_from(&line);
    let matches = matches.unwrap_or_else(|error| with_tip(error, &line).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The error of a kind and a name in two words, as kubectl takes them, says how numo takes them; that of a flag of kubectl's that
/// numo refuses, why.
fn with_tip(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if let Some(why) = help::refusal(found) {
        let tip = format!("kubectl has {found}, and numo refuses it: {why}");
        // No flag that has a similar name is meant.
        for guess in [
            ContextKind::SuggestedArg,
            ContextKind::TrailingArg,
            ContextKind::Usage,
        ] {
            error.remove(guess);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let name = line.iter().position(|word| word == OsStr::new(found));
    let before = name.and_then(|at| line.get(at.checked_sub(1)?)?.to_str());
    let Some(Ok(kind)) = before.map(str::parse::<object::What>) else {
        return error;
    };
    let tip = format!("found a kind and a name, wanted {}/{found}", kind.singular());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Parses the arguments, does what they say, and returns the exit code.
pub fn main() -> ExitCode {
    // The children that bound themselves do so before anything else is set up.
    #[cfg(feature = "operator")]
    match std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str) {
        Some(numo_plugin::COMPILE_VERB) => return numo_plugin::compile_child(),
        Some(expressions::EVALUATE_VERB) => return expressions::evaluate_child(),
        _ => {}
    }
    // A shell that completes a command line asks by its environment.
    clap_complete::CompleteEnv::with_factory(command).complete();
    let cli = parse();
    if !matches!(cli.verb, Verb::Run(_)) {
        log::start_verbose(cli.cluster.verbosity);
    }
    // The operator plans on this thread: of two workers beside it each would wake the other for every answer.
    let workers = if matches!(cli.verb, Verb::Run(_)) { 1 } else { 2 };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("numo: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let refused = cli.idle_namespace();
    let result = refused.map_or_else(|| runtime.block_on(carry_out(cli.verb)), Err);
    // Watches may hang in a read: nobody waits for them.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("numo: {}", error::chain(&error));
            ExitCode::from(error.code())
        }
    }
}

/// Does what a verb says.
async fn carry_out(verb: Verb) -> Result<(), CliError> {
    match verb {
        #[cfg(feature = "operator")]
        Verb::Run(args) => Box::pin(run::run(*args, explain::as_json)).await,
        #[cfg(not(feature = "operator"))]
        Verb::Run(_) => Err(absent::lacks("run")),
        Verb::Status(args) => status::status(args).await,
        Verb::Explain(args) => explain::explain(args).await,
        Verb::Preview(args) => Box::pin(preview::preview(*args)).await,
        Verb::Snapshot(args) => snapshot::snapshot(args).await,
        Verb::Stop(args) => stop::set_paused(args, true).await,
        Verb::Start(args) => stop::set_paused(args.into(), false).await,
        Verb::Pause(args) => pause::set_suspended(args, true).await,
        Verb::Resume(args) => pause::set_suspended(args, false).await,
        Verb::Abort(args) => abort::abort(args).await,
        Verb::Acknowledge(args) => acknowledge::acknowledge(args).await,
        Verb::Approve(args) => Box::pin(approve::approve(args)).await,
        Verb::Retry(args) => Box::pin(directive::give(args.into())).await,
        Verb::Skip(args) => Box::pin(directive::give(args.into())).await,
        Verb::Hold(args) => Box::pin(directive::give(args.into())).await,
        Verb::Maintain(args) => Box::pin(maintain::maintain(args)).await,
        Verb::Release(args) => Box::pin(release::release(args)).await,
        Verb::Doctor(args) => doctor::doctor(args).await,
        #[cfg(feature = "operator")]
        Verb::Plugin(args) => numo_author::run(args).await,
        #[cfg(not(feature = "operator"))]
        Verb::Plugin(_) => Err(absent::lacks("plugin")),
        Verb::Crds(args) => crds::crds(&args),
        Verb::Options => {
            help::options(&command());
            Ok(())
        }
        Verb::Stopping => {
            help::stopping();
            Ok(())
        }
        #[cfg(feature = "operator")]
        Verb::Reference(args) => reference::reference(&args, &command()),
        Verb::Version(args) => version::version(args).await,
        Verb::Completion(args) => completion::completion(&args),
        Verb::Complete(args) => completion::complete(args, command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        command().debug_assert();
    }

    #[test]
    fn flags_are_taken_before_and_after_the_verb() {
        let parsed = |line: &str| {
            let matches = command().try_get_matches_from(line.split(' ')).unwrap();
            Cli::from_arg_matches(&matches).unwrap()
        };
        let of = |cli: Cli| match cli.verb {
            Verb::Pause(args) => args.given(),
            other => panic!("{other:?}"),
        };
        let (cluster, namespace) = of(parsed("numo --as ada -n ops --token t pause plan/k3s -v=6"));
        assert_eq!(
            (
                cluster.impersonate.as_deref(),
                cluster.token.as_deref(),
                cluster.verbosity
            ),
            (Some("ada"), Some("t"), 6)
        );
        assert_eq!(namespace.as_deref(), Some("ops"));
        let (cluster, namespace) = of(parsed("numo pause plan/k3s --as ada --namespace=ops"));
        assert_eq!(
            (cluster.impersonate.as_deref(), namespace.as_deref()),
            (Some("ada"), Some("ops"))
        );
        // The nearer one counts.
        let (cluster, _) = of(parsed("numo --context one pause plan/k3s --context two"));
        assert_eq!(cluster.kubeconfig.context.as_deref(), Some("two"));
        for (line, wanted) in [
            (
                "numo stop -n ops",
                Some("-l SELECTOR or the name of a MutexBudget (BUDGET)"),
            ),
            ("numo -n ops stop --reason x", Some("-l SELECTOR")),
            ("numo start --namespace ops", Some("(BUDGET)")),
            // As kubectl has it: the namespace says nothing of an object that has none.
            ("numo maintain worker-1 -n ops", None),
            ("numo snapshot -n ops", Some("all namespaces")),
            ("numo stop", None),
            ("numo stop -l a=b", None),
            ("numo pause plan/k3s -n ops", None),
            ("numo -n ops crds", None),
        ] {
            match (parsed(line).idle_namespace(), wanted) {
                (Some(CliError::Usage(words)), Some(wanted)) => {
                    assert!(words.starts_with("-n ops: ") && words.contains(wanted), "{words}");
                }
                (None, None) => {}
                (found, wanted) => panic!("{line}: {found:?}, wanted {wanted:?}"),
            }
        }
        for line in [
            "numo -n ops crds",
            "numo crds --as ada",
            "numo --server https://a plugin new x",
        ] {
            parsed(line);
        }
        let Verb::Run(run) = parsed("numo --server https://a run --namespace ops").verb else {
            panic!("no run")
        };
        assert_eq!(
            (run.cluster().server.as_deref(), run.namespace()),
            (Some("https://a"), "ops")
        );
    }

    /// What can be told without a cluster is told without one.
    #[tokio::test]
    async fn a_call_that_cannot_be_meant_is_refused_before_a_cluster_is_asked() {
        for (line, wanted) in [
            (
                "numo explain reason",
                "found no name of a reason, wanted reason/NAME such as reason/RuleWaits",
            ),
            ("numo explain reason/Nonsense", "found no reason Nonsense"),
            (
                "numo preview plan/a --node worker-1",
                "--node worker-1 is for a mutexrule",
            ),
            (
                "numo status mutexrule/a",
                "found kind mutexrule, wanted mutexrunconfig, plan, nodemaintenance or nodeversion",
            ),
        ] {
            let matches = command().try_get_matches_from(line.split(' ')).unwrap();
            let cli = Cli::from_arg_matches(&matches).unwrap();
            match Box::pin(carry_out(cli.verb)).await {
                Err(CliError::Usage(words)) => assert!(words.contains(wanted), "{line}: {words}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let refused = command().try_get_matches_from(["numo", "status", "foo/bar"]);
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("found kind foo, wanted mutexrunconfig, plan, nodemaintenance"),
            "{words}"
        );
        assert!(!words.contains("mutexbudget"), "{words}");
        for (line, wanted) in [
            (
                "numo status plan p",
                "tip: found a kind and a name, wanted plan/p",
            ),
            ("numo explain mrc upgrade", "wanted mutexrunconfig/upgrade"),
            (
                "numo status --cache-dir x",
                "tip: kubectl has --cache-dir, and numo refuses it: numo keeps nothing",
            ),
            (
                "numo --profile=cpu status",
                "tip: kubectl has --profile, and numo refuses it: kubectl's own program is meant",
            ),
            (
                "numo status --warnings-as-errors",
                "numo shows no warnings of the API server",
            ),
        ] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let refused = command().try_get_matches_from(&line).unwrap_err();
            let words = with_tip(refused, &line).to_string();
            assert!(words.contains(wanted), "{words}");
            assert!(!words.contains("a similar argument"), "{words}");
        }
    }

    #[test]
    fn a_flag_means_the_same_in_every_verb() {
        fn verbs(command: &clap::Command, path: &str, all: &mut Vec<(String, clap::Command)>) {
            for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
                let path = format!("{path} {}", verb.get_name());
                all.push((path.clone(), verb.clone()));
                verbs(verb, &path, all);
            }
        }
        let mut all = Vec::new();
        verbs(&command(), "numo", &mut all);
        let mut seen = 0;
        for (path, verb) in all {
            for argument in verb.get_arguments() {
                let id = argument.get_id().as_str();
                match argument.get_short() {
                    Some('o') => assert_eq!(id, "output", "{path}: -o is the format of the output"),
                    Some('n') => assert_eq!(id, "namespace", "{path}: -n is a namespace"),
                    Some('A') => assert_eq!(id, "all_namespaces", "{path}"),
                    Some('l') => assert_eq!(id, "selector", "{path}"),
                    _ => {}
                }
                if argument.get_long() == Some("output") {
                    assert_eq!(argument.get_short(), Some('o'), "{path}");
                    let values = argument.get_value_names().unwrap_or_default();
                    assert_eq!(
                        values.first().map(ToString::to_string).as_deref(),
                        Some("FORMAT"),
                        "{path}"
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 15, "found {seen} verbs with a format only");
    }

    /// Every page of the docs.
    fn pages(folder: &std::path::Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && !["target", "node_modules", ".git", "reference"].contains(&name.as_str()) {
                pages(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "md") && name != "CHANGELOG.md" {
                all.push(path);
            }
        }
    }

    /// Calls of numo in a page: lines of code blocks, and code between backticks.
    fn calls(page: &str) -> Vec<String> {
        let (mut found, mut inside) = (Vec::new(), false);
        for line in page.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
                continue;
            }
            let parts: Vec<&str> = if inside {
                line.split(" && ").collect()
            } else {
                line.split('`').skip(1).step_by(2).collect()
            };
            for part in parts {
                let part = part.trim().trim_start_matches("$ ");
                let part = part.split(" # ").next().unwrap_or_default();
                let part = part.split([';', '|', '>']).next().unwrap_or_default().trim();
                let call = part
                    .strip_prefix("kubectl numo ")
                    .or_else(|| part.strip_prefix("numo "));
                found.extend(call.map(ToOwned::to_owned));
            }
        }
        found
    }

    #[test]
    fn every_call_in_the_docs_is_one_that_numo_takes() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all = Vec::new();
        for folder in ["operator/docs", "plugins", "deploy", "wit"] {
            pages(&root.join(folder), &mut all);
        }
        all.push(root.join("README.md"));
        let (mut number, mut wrong) = (0, Vec::new());
        for page in all {
            let text = std::fs::read_to_string(&page).unwrap();
            for call in calls(&text) {
                // What is left out, or a choice, is no call.
                if call.contains(['…', '[', '<', '(', '*', '{']) || call.contains("...") {
                    continue;
                }
                number += 1;
                // Names in capitals stand for any.
                let call = call
                    .replace("KIND/NAME", "plan/name")
                    .replace("NS/NAME", "ns/name");
                let words = call.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
                let words = std::iter::once("numo").chain(words);
                if let Err(error) = Cli::command().try_get_matches_from(words)
                    && !matches!(
                        error.kind(),
                        clap::error::ErrorKind::DisplayHelp
                            | clap::error::ErrorKind::DisplayVersion
                            // A verb alone is its name in a sentence.
                            | clap::error::ErrorKind::MissingRequiredArgument
                            | clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    )
                {
                    let page = page.display();
                    wrong.push(format!(
                        "{page}: numo {call}: {}",
                        error.to_string().lines().next().unwrap_or_default()
                    ));
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
        assert!(number > 60, "found {number} calls only");
    }

    #[test]
    fn every_flag_of_run_has_an_environment_variable() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        // kubectl's own flags are those of every verb.
        let own = |argument: &&clap::Arg| argument.get_id() != "help" && !argument.is_global_set();
        for argument in run.get_arguments().filter(own) {
            assert!(
                argument.get_env().is_some(),
                "--{:?} has no environment variable",
                argument.get_id()
            );
        }
    }
}
