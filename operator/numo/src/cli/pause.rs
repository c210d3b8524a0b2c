//! `numo pause` and `numo resume`: the suspend annotation of one owner. Nothing new begins for it; what gives back
//! goes on.

use super::{
    cluster::ClusterArgs,
    completion,
    error::CliError,
    live,
    object::ObjectArg,
    remarked::{Change, SayArgs, Speaker},
};
use crate::shell::watch;
use clap::Args;
use numo_api::marks;
use serde_json::{Value, json};

/// Arguments of `numo pause` and `numo resume`.
#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Namespace of the object [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// MutexRunConfig (NAME or mutexrunconfig/NAME), plan/NAME, nodemaintenance/NAME or nodeversion/NAME
    #[arg(value_parser = ObjectArg::of_owner, value_name = "RUN|KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: ObjectArg,
}

/// Sets the annotation, or takes it away.
pub async fn set_suspended(args: PauseArgs, suspended: bool) -> Result<(), CliError> {
    let verb = if suspended { "pause" } else { "resume" };
    // What no cluster is needed for.
    args.object.owner_kind()?;
    let (connection, default) = args.cluster.connect(verb).await?;
    let namespace = args.namespace.unwrap_or(default);
    let found = args.object.owner(&connection, &namespace).await?;
    let name = found.name();
    let annotations = found.object.metadata.annotations.as_ref();
    let by_hand = annotations.and_then(|annotations| annotations.get(marks::SUSPEND));
    let by_spec = found.object.data.pointer("/spec/suspend") == Some(&Value::Bool(true));
    match (suspended, by_hand, by_spec) {
        (false, _, true) => {
            return Err(CliError::Closed(format!(
                "{name} is suspended by its own spec.suspend; whoever owns the manifest sets it to false"
            )));
        }
        (false, None, false) => {
            return Err(CliError::Usage(format!(
                "{name} is not paused; `numo explain {name}{}` says what it waits for",
                found.place()
            )));
        }
        _ => {}
    }
    let speaker = Speaker::of(&connection, &args.say).await?;
    let value = suspended.then(|| speaker.word(verb).sentence());
    let change = Change {
        resource: &found.resource,
        object: &found.object,
        verb,
        event: if suspended { "Suspended" } else { "Resumed" },
        patch: json!({"metadata": {"annotations": {marks::SUSPEND: value}}}),
        said_of: &[],
    };
    let api = watch::api(&connection.write, found.kind, found.namespace());
    let written = speaker.write(&api, change).await?;
    let message = if suspended {
        format!("{name} paused: no further node of it begins; numo still restores what it changed")
    } else {
        format!("{name} resumed")
    };
    args.say.print(written, message)?;
    live::say_idle(&connection).await;
    Ok(())
}

#[cfg(test)]
impl PauseArgs {
    /// How the cluster is reached, and the namespace.
    pub fn given(self) -> (ClusterArgs, Option<String>) {
        (self.cluster, self.namespace)
    }
}
