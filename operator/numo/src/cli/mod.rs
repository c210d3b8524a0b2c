//! The command line: one file per verb. Data goes to standard output, talk to standard error.
//!
//! Exit codes: 0 done, 1 it failed, 2 the call was wrong.

mod abort;
mod crds;
mod directive;
mod doctor;
mod explain;
mod plugin;
mod run;
mod stop;
mod view;

use crate::shell::{
    client::{self, ConnectError, Connection},
    component, expressions,
};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use numo_plugin::signature::TrustRoot;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Nodes of a cluster change only when their rules say so, one guarded step at a time.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the operator, in a cluster or out of one
    Run(Box<run::RunArgs>),
    /// Show runs, pools, nodes by step and budgets in use
    Status(view::StatusArgs),
    /// Say why a node, a run, a rule or a target is where it is
    Explain(explain::ExplainArgs),
    /// Stop everything: nothing new begins on any node
    Stop(stop::StopArgs),
    /// Start again after `stop`
    Start(stop::StopArgs),
    /// Give up the current run of a MutexRunConfig
    Abort(abort::AbortArgs),
    /// Run the rules of a held, failed or skipped node again, or those of a run
    Retry(directive::DirectiveArgs),
    /// Leave a node out of its run
    Skip(directive::DirectiveArgs),
    /// Check an installation, and say what mends it
    Doctor(doctor::DoctorArgs),
    /// Begin, build, test, run, push and sign components of rules
    Plugin(plugin::PluginArgs),
    /// Print the custom resource definitions
    Crds(crds::CrdsArgs),
}

/// How to reach the cluster, as kubectl takes it.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Path to a kubeconfig [default: the pod's own environment, $KUBECONFIG, or ~/.kube/config]
    #[arg(long, env = "NUMO_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, env = "NUMO_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    async fn connect(&self, verb: &str) -> Result<(Connection, String), ConnectError> {
        let config = client::configuration(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let namespace = config.default_namespace.clone();
        let agent = format!("numo/{} {verb}", env!("CARGO_PKG_VERSION"));
        Ok((client::connect(config, &agent)?, namespace))
    }
}

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API server refused; in its own words.
    #[error("{doing}: {message}")]
    Refused {
        /// What was being done.
        doing: String,
        /// The API server's words.
        message: String,
    },
    /// The API server could not be asked.
    #[error("{doing}: {source}")]
    Api {
        /// What was being done.
        doing: String,
        /// Why.
        #[source]
        source: kube::Error,
    },
    /// What was asked for is not there, or cannot be done; the text says what to do instead.
    #[error("{0}")]
    Wrong(String),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The operator ended by itself.
    #[error(transparent)]
    Operator(#[from] crate::shell::operator::OperatorError),
}

impl CliError {
    fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| match source {
            kube::Error::Api(status) => Self::Refused {
                doing,
                message: status.message,
            },
            source => Self::Api { doing, source },
        }
    }
}

/// What is in a file that a flag names.
fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::Wrong(format!("{flag} {}: {error}", path.display())))
}

fn read_text(flag: &str, path: &Path) -> Result<String, CliError> {
    String::from_utf8(read(flag, path)?)
        .map_err(|error| CliError::Wrong(format!("{flag} {}: {error}", path.display())))
}

/// Who vouches for keyless signers.
fn trust_root(path: &Path) -> Result<TrustRoot, CliError> {
    TrustRoot::from_json(&read_text("--sigstore-trusted-root", path)?)
        .map_err(|error| CliError::Wrong(format!("--sigstore-trusted-root {}: {error}", path.display())))
}

/// The arguments. kubectl runs a binary called `kubectl-numo` as its own verb: then usage and errors say so.
fn parse() -> Cli {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_plugin = called.file_stem() == Some(OsStr::new("kubectl-numo"));
    let name = if is_plugin { "kubectl numo" } else { "numo" };
    let matches = Cli::command().bin_name(name).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Parses the arguments, does what they say, and returns the exit code.
pub fn main() -> ExitCode {
    // The children that bound themselves do so before anything else is set up.
    match std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str) {
        Some(component::COMPILE_VERB) => return numo_plugin::compile_child(),
        Some(expressions::EVALUATE_VERB) => return expressions::evaluate_child(),
        _ => {}
    }
    let cli = parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("numo: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match cli.verb {
            Verb::Run(args) => Box::pin(run::run(*args)).await,
            Verb::Status(args) => view::status(args).await,
            Verb::Explain(args) => explain::explain(args).await,
            Verb::Stop(args) => stop::set_paused(args, true).await,
            Verb::Start(args) => stop::set_paused(args, false).await,
            Verb::Abort(args) => abort::abort(args).await,
            Verb::Retry(args) => directive::give(args, numo_api::DirectiveAction::Retry).await,
            Verb::Skip(args) => directive::give(args, numo_api::DirectiveAction::Skip).await,
            Verb::Doctor(args) => doctor::doctor(args).await,
            Verb::Plugin(args) => plugin::plugin(args).await,
            Verb::Crds(args) => crds::crds(&args),
        }
    });
    // Watches may hang in a read: nobody waits for them.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("numo: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_run_has_an_environment_variable() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments().filter(|argument| argument.get_id() != "help") {
            assert!(
                argument.get_env().is_some(),
                "--{:?} has no environment variable",
                argument.get_id()
            );
        }
    }
}
