//! `numo acknowledge`: a person has seen that a run of a MutexRunConfig, the upgrade of a Plan, or a NodeVersion left nodes out, or that
//! nodes changed without their rules. The owner is Ready again; its record of what happened stays. Nodes that come to that later
//! are not acknowledged with them.

use super::{
    cluster::ClusterArgs,
    completion,
    error::CliError,
    live,
    object::{Found, ObjectArg, What},
    remarked::{Change, SayArgs, Speaker},
};
use crate::{frontends::shortfall::SHORT, shell::watch};
use clap::Args;
use numo_api::{Reason, conditions::types, marks};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Arguments of `numo acknowledge`.
#[derive(Debug, Args)]
pub struct AcknowledgeArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Namespace of the object [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// MutexRunConfig (NAME or mutexrunconfig/NAME), plan/NAME or nodeversion/NAME
    #[arg(value_parser = ObjectArg::of_acknowledgement, value_name = "RUN|KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: ObjectArg,
    /// Undo it: the owner is not Ready until somebody confirms it again
    #[arg(long)]
    undo: bool,
}

/// Sets or removes the annotation with the id of the run and the nodes that it is short of.
pub async fn acknowledge(args: AcknowledgeArgs) -> Result<(), CliError> {
    if let Some(what @ What::Maintenance) = args.object.what {
        return Err(CliError::Usage(format!(
            "{}/{} leaves no node out: there is nothing to acknowledge; wanted a MutexRunConfig, plan/NAME or nodeversion/NAME",
            what.singular(),
            args.object.name
        )));
    }
    let (connection, default) = args.cluster.connect("acknowledge").await?;
    let namespace = args.namespace.unwrap_or(default);
    let found = args.object.owner(&connection, &namespace).await?;
    let name = found.name();
    let (value, words) = if args.undo {
        (Value::Null, taken_back(&found)?)
    } else {
        let words = shortfall(&found)?;
        let look = live::look_by(&connection).await?;
        let word = look.acknowledgement(&found, found.namespace());
        let word = word.ok_or_else(|| CliError::Wrong(format!("{name}{} is gone", place(&found))))?;
        covers(&found, &word)?;
        (json!(word), words)
    };
    let speaker = Speaker::of(&connection, &args.say).await?;
    let change = Change {
        resource: &found.resource,
        object: &found.object,
        verb: if args.undo {
            "acknowledge --undo"
        } else {
            "acknowledge"
        },
        event: if args.undo {
            "AcknowledgementTakenBack"
        } else {
            "Acknowledged"
        },
        patch: json!({"metadata": {"annotations": {marks::ACKNOWLEDGED: value}}}),
        said_of: &[],
    };
    let written = speaker
        .write(
            &watch::api(&connection.write, found.kind, found.namespace()),
            change,
        )
        .await?;
    args.say.print(written, format!("{name} {words}"))?;
    live::say_idle(&connection).await;
    Ok(())
}

/// Nodes of which the operator knows no machine are acknowledged with the others that are left out. While it waits for one of them yet, the
/// acknowledgement would be of no effect.
fn covers(found: &Found, word: &str) -> Result<(), CliError> {
    let names = word.split_once(' ').map_or("", |(_, names)| names);
    let named: BTreeSet<&str> = names.split(',').collect();
    let invalid = found
        .object
        .data
        .pointer("/status/invalid")
        .and_then(Value::as_array);
    let mut unknown = invalid
        .into_iter()
        .flatten()
        .filter_map(|one| one.get("name")?.as_str());
    match unknown.find(|node| !named.contains(node)) {
        None => Ok(()),
        Some(node) => Err(CliError::Wrong(format!(
            "{}: status.invalid has Node {node}, whose machine the provider does not know, and it is not left out yet: found no word of it, \
             wanted all nodes that are left out; nothing is acknowledged, try again in a minute",
            found.name()
        ))),
    }
}

/// In which namespace an object is, after its name; empty if it is in none.
fn place(found: &Found) -> String {
    match found.namespace() {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    }
}

/// What of the run is acknowledged. An owner that did not come to such an end is refused:
/// nobody acknowledges what is yet to happen.
fn shortfall(found: &Found) -> Result<String, CliError> {
    let (reason, message) = ready(found);
    let ended = SHORT.iter().any(|one| one.name() == reason);
    if found.run_id().is_some() && ended {
        return Ok(format!("acknowledged: {message}"));
    }
    let name = format!("{}{}", found.name(), place(found));
    Err(CliError::Usage(
        if acknowledged(found).is_some() && acknowledged(found) == found.run_id() {
            format!("{name} is acknowledged already; --undo takes that back")
        } else {
            format!(
                "{name} has no run that is over and left nodes out, or had nodes change without their rules: found Ready for \
                 {reason:?}, wanted {}",
                SHORT.map(Reason::name).join(" or ")
            )
        },
    ))
}

fn taken_back(found: &Found) -> Result<String, CliError> {
    if acknowledged(found).is_some() {
        return Ok("is no longer acknowledged".to_owned());
    }
    Err(CliError::Usage(format!(
        "{}{} is not acknowledged: there is nothing to take back",
        found.name(),
        place(found)
    )))
}

/// The id of the run that is acknowledged.
fn acknowledged(found: &Found) -> Option<String> {
    let annotations = found.object.metadata.annotations.as_ref()?;
    let word = annotations.get(marks::ACKNOWLEDGED)?;
    word.split(' ').next().map(ToOwned::to_owned)
}

/// Reason and message of the condition Ready; empty while there is none.
fn ready(found: &Found) -> (String, String) {
    let conditions = found.object.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let text = |condition: &Value, field: &str| {
        let found = condition.get(field).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let ready = conditions.find(|condition| text(condition, "type") == types::READY);
    ready.map_or_else(Default::default, |ready| {
        (text(ready, "reason"), text(ready, "message"))
    })
}
