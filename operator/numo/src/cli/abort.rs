//! `numo abort`: gives up the current run of a MutexRunConfig, or the current upgrade of a Plan.

use super::{
    cluster::ClusterArgs,
    completion,
    error::CliError,
    live,
    object::{ObjectArg, What},
    remarked::{Change, SayArgs, Speaker},
};
use crate::shell::watch;
use clap::Args;
use numo_api::marks;
use serde_json::{Value, json};

/// Arguments of `numo abort`.
#[derive(Debug, Args)]
pub struct AbortArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Namespace of the object [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// MutexRunConfig (NAME or mutexrunconfig/NAME), or plan/NAME
    #[arg(value_parser = ObjectArg::of_upgrade, value_name = "RUN|plan/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: ObjectArg,
    /// Undo the abort: the run continues
    #[arg(long)]
    undo: bool,
}

/// Sets or removes the abort annotation.
pub async fn abort(args: AbortArgs) -> Result<(), CliError> {
    if let Some(instead) = instead(args.object.what, &args.object.name) {
        return Err(CliError::Usage(instead));
    }
    let (connection, default) = args.cluster.connect("abort").await?;
    let namespace = args.namespace.unwrap_or(default);
    let found = args.object.owner(&connection, &namespace).await?;
    let name = found.name();
    let of_plan = found.what == What::Plan;
    let id = found.run_id();
    let finished = found.object.data.pointer("/status/run/finishedAt").is_some();
    let annotations = found.object.metadata.annotations.as_ref();
    let is_aborted = annotations.is_some_and(|annotations| annotations.contains_key(marks::ABORT));
    let value = match (args.undo, id) {
        (true, _) if !is_aborted => {
            return Err(CliError::Usage(format!(
                "{name} in namespace {namespace} is not aborted by `numo abort`: there is nothing to take back; `numo \
                 explain {name} -n {namespace}` says what it waits for"
            )));
        }
        (true, _) => Value::Null,
        (false, Some(id)) if !finished => json!(id),
        (false, _) => {
            return Err(CliError::Usage(format!(
                "{name} in namespace {namespace} has no run under way; see `numo status -n {namespace}`"
            )));
        }
    };
    let speaker = Speaker::of(&connection, &args.say).await?;
    let change = Change {
        resource: &found.resource,
        object: &found.object,
        verb: if args.undo { "abort --undo" } else { "abort" },
        event: if args.undo { "AbortTakenBack" } else { "AbortAsked" },
        patch: json!({"metadata": {"annotations": {marks::ABORT: value}}}),
        said_of: &["/status/run/id", "/status/run/finishedAt", "/status/latestHash"],
    };
    let written = speaker
        .write(&watch::api(&connection.write, found.kind, &namespace), change)
        .await?;
    let message = if args.undo {
        format!("{name} is no longer aborted and continues")
    } else if of_plan {
        format!("{name} aborted: no further node is begun; Jobs that run come to their end first")
    } else {
        format!("{name} aborted: no further node begins; nodes that were released come back first")
    };
    args.say.print(written, message)?;
    if !args.undo && !of_plan && args.say.is_text() {
        println!("pools with outdated nodes stay paused; see `numo status -n {namespace}`");
    }
    live::say_idle(&connection).await;
    Ok(())
}

/// What ends an owner that is not aborted.
fn instead(what: Option<What>, name: &str) -> Option<String> {
    match what? {
        What::Maintenance => Some(format!(
            "nodemaintenance/{name} is ended by deleting it: kubectl delete nm {name} (of the older group: kubectl delete nodemaintenances.nodemaintenance.kubevirt.io {name})"
        )),
        What::Version => Some(format!(
            "nodeversion/{name} is not aborted: ask for the image before by `kubectl edit nodeversion {name}`, or pause it by `numo pause nodeversion/{name}`"
        )),
        _ => None,
    }
}
