//! `numo retry`, `numo skip` and `numo hold`: what a person wants done with one node, on its NodeChange; and
//! `numo retry mutexrunconfig/NAME`: the rules that are asked before a run, again.

use super::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    live::{self, Look},
    object::{ObjectArg, What},
    remarked::{ATTEMPTS, Change, SayArgs, Speaker},
    turns::{holds_of, turn_of},
    written::Written,
};
use crate::shell::{apply, client::Connection, project::Kind, watch};
use clap::Args;
use kube::{Api, api::Patch, core::DynamicObject};
use numo_api::{
    Directive, DirectiveAction, MutexRunConfigStatus, NodeChange, NodeChangeSpec, Outcome, Phase, RunResult,
    Step, Target, marks,
};
use numo_core::{
    decide::reservation,
    observed::{Key, NodeView},
    report::RunPhase,
};
use serde_json::{Value, json};

/// Arguments of `numo retry`.
#[derive(Debug, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Namespace of the MutexRunConfig [default: that of the kubeconfig's context]; for a node, consider only owners in it
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Node whose rules to evaluate again, or mutexrunconfig/NAME for the PreRun rules of a run
    #[arg(value_parser = ObjectArg::of_retry, value_name = "NODE|mutexrunconfig/NAME", add = clap_complete::ArgValueCompleter::new(completion::nodes))]
    object: ObjectArg,
}

/// Arguments of `numo skip`.
#[derive(Debug, Args)]
pub struct SkipArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Consider only owners in this namespace [default: all namespaces]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Node to leave out of its owner's run
    #[arg(value_parser = ObjectArg::of_node, value_name = "NODE", add = clap_complete::ArgValueCompleter::new(completion::nodes))]
    object: ObjectArg,
}

/// Arguments of `numo hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Consider only owners in this namespace [default: all namespaces]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// End the hold
    #[arg(long)]
    undo: bool,
    /// Node to keep where it is
    #[arg(value_parser = ObjectArg::of_node, value_name = "NODE", add = clap_complete::ArgValueCompleter::new(completion::nodes))]
    object: ObjectArg,
}

/// What is wanted of a node, by whichever verb.
#[derive(Debug)]
pub struct Wanted {
    cluster: ClusterArgs,
    say: SayArgs,
    namespace: Option<String>,
    object: ObjectArg,
    action: DirectiveAction,
    undo: bool,
}

impl From<RetryArgs> for Wanted {
    fn from(args: RetryArgs) -> Self {
        Self {
            cluster: args.cluster,
            say: args.say,
            namespace: args.namespace,
            object: args.object,
            action: DirectiveAction::Retry,
            undo: false,
        }
    }
}

impl From<SkipArgs> for Wanted {
    fn from(args: SkipArgs) -> Self {
        Self {
            cluster: args.cluster,
            say: args.say,
            namespace: args.namespace,
            object: args.object,
            action: DirectiveAction::Skip,
            undo: false,
        }
    }
}

impl From<HoldArgs> for Wanted {
    fn from(args: HoldArgs) -> Self {
        Self {
            cluster: args.cluster,
            say: args.say,
            namespace: args.namespace,
            object: args.object,
            action: DirectiveAction::Hold,
            undo: args.undo,
        }
    }
}

/// Writes the directive on the node's latest NodeChange, or takes it away.
pub async fn give(args: Wanted) -> Result<(), CliError> {
    let action = args.action;
    let (connection, default) = args.cluster.connect(verb_of(action)).await?;
    let node = args.object.name.clone();
    match args.object.what {
        None | Some(What::Node) => {}
        Some(What::Run) if action == DirectiveAction::Retry => {
            let namespace = args.namespace.unwrap_or(default);
            return retry_run(&connection, &args.say, &args.object, &namespace).await;
        }
        Some(what) => return Err(no_node_meant(what, &node, action)),
    }
    let speaker = Speaker::of(&connection, &args.say).await?;
    let namespace = args.namespace.as_deref();
    if args.undo {
        return take_back_all(&speaker, &node, namespace).await;
    }
    let turn = turn_of(&connection, &node, namespace).await?;
    let directive = Directive {
        action,
        reason: args.say.reason.clone(),
        by: Some(speaker.by.clone()),
    };
    let Some((object, change)) = turn else {
        return before_its_turn(&args, &speaker, &node, directive).await;
    };
    let away = action == DirectiveAction::Skip && is_away(&connection, &node).await?;
    refuse_in_vain(&node, &change, action, away)?;
    let written = write(&speaker, (&object, &change), &directive).await?;
    let name = change.metadata.name.clone().unwrap_or_default();
    let step = change.status.as_ref().and_then(|status| status.step);
    let meant = match (action, step) {
        (DirectiveAction::Retry, Some(Step::Released)) if of_run(&change) => {
            ", which is changing: it gets its whole time once more".to_owned()
        }
        (DirectiveAction::Hold, Some(Step::Released)) => {
            format!(
                ", which is changing: it is held once it has changed, until `numo hold {node} --undo`, {}",
                or_until_over(&change)
            )
        }
        (DirectiveAction::Hold, _) => {
            format!(
                ": it stays where it is until `numo hold {node} --undo`, {}; a rule that runs comes to its end",
                or_until_over(&change)
            )
        }
        _ => String::new(),
    };
    args.say.print(
        written,
        format!("nodechange/{name}: {action:?} for Node {node}{meant}"),
    )?;
    live::say_idle(&connection).await;
    Ok(())
}

/// Whether a MutexRunConfig owns it: its nodes are given their whole time once more where they are changing.
fn of_run(change: &NodeChange) -> bool {
    change.spec.owner_ref.kind == "MutexRunConfig"
}

/// What else ends a hold: whoever deletes a NodeMaintenance, say, wants its node back, whatever is held.
fn or_until_over(change: &NodeChange) -> String {
    let owner = &change.spec.owner_ref;
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let key = Key::new(namespace, &owner.name);
    format!(
        "or until {} {key} is deleted or given up, which restores the node anyway",
        owner.kind
    )
}

/// Takes all holds of a node away: one that is left would hold it still.
async fn take_back_all(speaker: &Speaker<'_>, node: &str, namespace: Option<&str>) -> Result<(), CliError> {
    let holds = holds_of(speaker.connection, node, namespace).await?;
    if holds.is_empty() {
        return Err(CliError::Usage(format!(
            "Node {node} is not held by `numo hold`: there is nothing to take back; `numo explain {node}` says what it \
             waits for"
        )));
    }
    for hold in &holds {
        take_back(speaker, node, hold).await?;
    }
    live::say_idle(speaker.connection).await;
    Ok(())
}

/// Takes a hold away: the node goes on from where it is.
async fn take_back(
    speaker: &Speaker<'_>,
    node: &str,
    (object, change): &(DynamicObject, NodeChange),
) -> Result<(), CliError> {
    let namespace = change.metadata.namespace.as_deref().unwrap_or_default();
    let api = watch::api(&speaker.connection.write, Kind::NodeChange, namespace);
    let said = Change {
        resource: &watch::resource(Kind::NodeChange),
        object,
        verb: "hold --undo",
        event: "HoldTakenBack",
        patch: json!({"spec": {"directive": null}}),
        said_of: &[],
    };
    let written = speaker.write(&api, said).await?;
    let name = change.metadata.name.as_deref().unwrap_or_default();
    speaker.say.print(
        written,
        format!("nodechange/{name}: Node {node} is no longer held and continues"),
    )
}

const fn verb_of(action: DirectiveAction) -> &'static str {
    match action {
        DirectiveAction::Retry => "retry",
        DirectiveAction::Hold => "hold",
        DirectiveAction::Skip | DirectiveAction::Abort => "skip",
    }
}

/// The reason of the event that tells it.
const fn event_of(action: DirectiveAction) -> &'static str {
    match action {
        DirectiveAction::Retry => "RetryAsked",
        DirectiveAction::Hold => "HoldAsked",
        DirectiveAction::Skip | DirectiveAction::Abort => "SkipAsked",
    }
}

fn no_node_meant(what: What, name: &str, action: DirectiveAction) -> CliError {
    let wanted = if action == DirectiveAction::Retry {
        "a node or mutexrunconfig/NAME"
    } else {
        "a node"
    };
    CliError::Usage(format!("found {}/{name}, wanted {wanted}", what.singular()))
}

/// Writes a directive on the NodeChange of a turn.
async fn write(
    speaker: &Speaker<'_>,
    (object, change): (&DynamicObject, &NodeChange),
    directive: &Directive,
) -> Result<Written, CliError> {
    let namespace = change.metadata.namespace.as_deref().unwrap_or_default();
    let api = watch::api(&speaker.connection.write, Kind::NodeChange, namespace);
    let mut cleared = None;
    if is_removed_first(change.spec.directive.as_ref(), directive) && speaker.keeps() {
        cleared = Some(clear(speaker, &api, (object, change)).await?);
    }
    let object = cleared.as_ref().unwrap_or(object);
    let mut patch = json!({"spec": {"directive": directive}});
    // Nobody's reason for an earlier word is a reason for this one; a word that is said again keeps its own.
    let earlier = change.spec.directive.as_ref().map(|earlier| earlier.action);
    if directive.reason.is_none() && earlier != Some(directive.action) {
        patch["spec"]["directive"]["reason"] = Value::Null;
    }
    let said = Change {
        resource: &watch::resource(Kind::NodeChange),
        object,
        verb: verb_of(directive.action),
        event: event_of(directive.action),
        patch,
        said_of: &[],
    };
    speaker.write(&api, said).await
}

/// Takes a directive away that is to be said again, if it is still the one that was read.
async fn clear(
    speaker: &Speaker<'_>,
    api: &Api<DynamicObject>,
    (object, change): (&DynamicObject, &NodeChange),
) -> Result<DynamicObject, CliError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let mut version = object.metadata.resource_version.clone();
    for _ in 0..ATTEMPTS {
        let clear = json!({
            "metadata": {"uid": object.metadata.uid, "resourceVersion": version},
            "spec": {"directive": null},
        });
        match api.patch(&name, &speaker.params(), &Patch::Merge(clear)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            done => return done.map_err(error::api(format!("NodeChange {name}"))),
        }
        let read = api
            .get(&name)
            .await
            .map_err(error::api(format!("NodeChange {name}")))?;
        let found = read.data.pointer("/spec/directive").cloned().unwrap_or_default();
        if serde_json::from_value(found).ok() != change.spec.directive {
            break;
        }
        version = read.metadata.resource_version;
    }
    Err(CliError::Closed(format!(
        "NodeChange {name}: somebody else changed spec.directive meanwhile; look at it, then repeat the command"
    )))
}

/// Whether what stands there must go before it is said again: a retry that was acted on would change nothing. A hold stays all the while:
/// without it the node could go on in that moment, and for good if the second write fails.
fn is_removed_first(known: Option<&Directive>, said: &Directive) -> bool {
    said.action == DirectiveAction::Retry && known == Some(said)
}

/// That a node has had no turn, and where it has one, if so.
fn no_turn(look: &Look, node: &str, namespace: Option<&str>) -> CliError {
    let mut changes = look.store.observed.changes.values();
    let elsewhere = namespace.and_then(|wanted| {
        changes.find(|change| change.spec.node_name == node && change.key.namespace != wanted)
    });
    CliError::Usage(match (namespace, elsewhere) {
        (Some(wanted), Some(change)) => format!(
            "Node {node} has no turn in Namespace {wanted}; it has one in Namespace {}: leave -n out, or name that one",
            change.key.namespace
        ),
        (Some(wanted), None) => format!(
            "Node {node} has not had its turn in Namespace {wanted}: there is no NodeChange of it; `numo explain {node}` says why"
        ),
        (None, _) => format!(
            "Node {node} has no NodeChange of a run under way: it has not had its turn; `numo explain {node}` says why"
        ),
    })
}

/// Leaves out or holds a node that has had no turn: one that is dead, say, would keep its run from ever ending. The
/// NodeChange is the one that its turn would have made.
async fn before_its_turn(
    args: &Wanted,
    speaker: &Speaker<'_>,
    node: &str,
    directive: Directive,
) -> Result<(), CliError> {
    let look = live::look(&args.cluster, verb_of(args.action)).await?;
    let namespace = args.namespace.as_deref();
    if !look.store.observed.nodes.contains_key(node) {
        let known = look.store.observed.nodes.keys().map(String::as_str);
        return Err(error::no_node(node, known));
    }
    if directive.action == DirectiveAction::Retry {
        return Err(no_turn(&look, node, namespace));
    }
    let waits = look.runs.iter().find(|(key, decision)| {
        let report = &decision.report;
        let waits = report
            .nodes
            .get(node)
            .is_some_and(|node| node.step == Step::Selected);
        waits && report.phase == RunPhase::Active && namespace.is_none_or(|wanted| key.namespace == wanted)
    });
    let observed = &look.store.observed;
    if waits.is_none()
        && let Some(seen) = observed.nodes.get(node)
        && let Some((change, mut spec)) =
            waits_in_plan(&look, seen, namespace).or_else(|| waits_in_version(&look, seen, namespace))
    {
        spec.directive = Some(directive);
        return create_change(speaker, &change, &spec, node).await;
    }
    let (Some((key, decision)), Some(seen)) = (waits, observed.nodes.get(node)) else {
        return Err(no_turn(&look, node, namespace));
    };
    let (Some(run), Some(report)) = (observed.runs.get(key), decision.report.nodes.get(node)) else {
        return Err(no_turn(&look, node, namespace));
    };
    let target = Target {
        run_id: decision.report.run_id.clone(),
        version: decision.report.target.clone().unwrap_or_default(),
        pool: report.pool.to_string(),
    };
    let (change, mut spec) = reservation(run, seen, target);
    spec.directive = Some(directive);
    create_change(speaker, &change, &spec, node).await
}

/// The NodeChange that the turn of a node would make that waits in a Plan.
fn waits_in_plan(look: &Look, node: &NodeView, namespace: Option<&str>) -> Option<(Key, NodeChangeSpec)> {
    let (key, decision) = look.plans.iter().find(|(key, decision)| {
        let of_node = decision.report.nodes.get(&node.name);
        of_node.is_some_and(|node| node.step == Step::Selected)
            && namespace.is_none_or(|wanted| key.namespace == wanted)
    })?;
    let view = look.store.observed.plans.get(key)?;
    let said = decision.report.plan.as_ref()?;
    let in_service = view.spec.drain.is_none() && view.spec.cordon != Some(true);
    let of = (said.hash.as_str(), said.version.as_str());
    Some(numo_core::owners::plan::reservation(view, node, of, in_service))
}

/// The same of a node that waits in a NodeVersion.
fn waits_in_version(look: &Look, node: &NodeView, namespace: Option<&str>) -> Option<(Key, NodeChangeSpec)> {
    let (key, _) = look.versions.iter().find(|(_, decision)| {
        let of_node = decision.report.nodes.get(&node.name);
        of_node.is_some_and(|node| node.step == Step::Selected)
    })?;
    let observed = &look.store.observed;
    let view = observed.fleet.versions.get(&key.name)?;
    let (change, spec) =
        numo_core::owners::node_version::reservation(view, node, &observed.settings.namespace);
    namespace
        .is_none_or(|wanted| change.namespace == wanted)
        .then_some((change, spec))
}

async fn create_change(
    speaker: &Speaker<'_>,
    change: &Key,
    spec: &NodeChangeSpec,
    node: &str,
) -> Result<(), CliError> {
    let doing = format!("NodeChange {change}");
    let action = spec
        .directive
        .as_ref()
        .map_or(DirectiveAction::Skip, |directive| directive.action);
    let word = speaker.word(verb_of(action));
    let resource = watch::resource(Kind::NodeChange);
    let mut body = apply::change_body(change, spec);
    json_patch::merge(
        &mut body,
        &json!({"metadata": {"annotations": {marks::SAID: json!([word]).to_string()}}}),
    );
    let body: DynamicObject =
        serde_json::from_value(body).map_err(|error| CliError::Wrong(format!("{doing}: {error}")))?;
    if speaker.sends() {
        let made = watch::api(&speaker.connection.write, Kind::NodeChange, &change.namespace)
            .create(&speaker.post(), &body)
            .await
            .map_err(error::api(&doing))?;
        speaker.tell(&resource, &made, event_of(action), &word).await;
    }
    let written = Written::of(&resource, &body, word, speaker.say.dry_run);
    let written = written.changed("/spec", Value::Null, json!(spec));
    let message = format!(
        "nodechange/{}: {action:?} for Node {node}, which has not had its turn",
        change.name
    );
    speaker.say.print(written, message)?;
    live::say_idle(speaker.connection).await;
    Ok(())
}

/// Whether the node is gone or not Ready: only then may one that is changing be left out.
async fn is_away(connection: &Connection, node: &str) -> Result<bool, CliError> {
    let api = watch::api(&connection.read, Kind::Node, "");
    let found = api.get_opt(node).await.map_err(error::api("nodes"))?;
    let conditions = found
        .as_ref()
        .and_then(|node| node.data.pointer("/status/conditions")?.as_array());
    let ready = conditions.into_iter().flatten().any(|condition| {
        let is = |field: &str, wanted: &str| condition.get(field).and_then(Value::as_str) == Some(wanted);
        is("type", "Ready") && is("status", "True")
    });
    Ok(!ready)
}

/// What numo would not act on is refused here, and not noted for nothing. `away`: the node is not Ready.
fn refuse_in_vain(
    node: &str,
    change: &NodeChange,
    action: DirectiveAction,
    away: bool,
) -> Result<(), CliError> {
    let status = change.status.clone().unwrap_or_default();
    // A run's node that is back has failed a rule: that rule is asked again, or the run is given up.
    let by_rule = status.reason.as_deref() == Some(numo_api::Reason::RuleFailed.name());
    let of_run = of_run(change);
    let held = status.step == Some(Step::Held) && !(by_rule && of_run);
    let was_released = status.pin.is_some()
        && status
            .entries
            .iter()
            .rfind(|entry| matches!(entry.step, Step::PreRules | Step::Released))
            .is_some_and(|entry| entry.step == Step::Released);
    // A retry that nobody has acted on yet is taken back by it.
    let pending = change.spec.directive.as_ref();
    let is_asked_again = pending.is_some_and(|pending| pending.action == DirectiveAction::Retry);
    let vain = match (action, status.step) {
        (_, Some(Step::Done)) => "it is done",
        (DirectiveAction::Skip, Some(Step::Skipped)) if !is_asked_again => "it is skipped already",
        (DirectiveAction::Hold, Some(Step::Skipped | Step::Failed)) => {
            "it is left out of its run already, so there is nothing to hold"
        }
        (DirectiveAction::Retry, Some(step)) if was_released && !of_run && step != Step::Held => {
            "it was released already and is changing, and nothing has failed: there is nothing to retry"
        }
        (DirectiveAction::Skip, _) if was_released && !away && !held => {
            "it was released already and is changing; it can be left out once it is not Ready or held, and `numo abort` gives the whole run up"
        }
        _ => return Ok(()),
    };
    Err(CliError::Closed(format!("Node {node}: {vain}")))
}

/// Has the rules of a run asked again: in the round after the last that has a verdict.
async fn retry_run(
    connection: &Connection,
    say: &SayArgs,
    object: &ObjectArg,
    namespace: &str,
) -> Result<(), CliError> {
    let found = object.owner(connection, namespace).await?;
    let (name, object) = (found.name(), &found.object);
    let status: MutexRunConfigStatus = object
        .data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default();
    let failed = |run: &numo_api::RunStatus| {
        let mut verdicts = run.verdicts.iter();
        run.finished_at.is_none()
            && verdicts.any(|verdict| verdict.phase == Phase::PreRun && verdict.outcome == Outcome::Failure)
    };
    // An abort by the rule's policy finishes the run: it can be taken up again all the same.
    let aborted = |run: &numo_api::RunStatus| run.result == Some(RunResult::Aborted);
    let Some(run) = status.run.filter(|run| failed(run) || aborted(run)) else {
        return Err(CliError::Usage(format!(
            "{name}: no rule of phase PreRun has failed in a run under way; `numo explain -n {namespace} {name}` \
             says what it waits for"
        )));
    };
    let round = run
        .verdicts
        .iter()
        .map(|verdict| verdict.round)
        .max()
        .unwrap_or(1)
        + 1;
    let speaker = Speaker::of(connection, say).await?;
    let change = Change {
        resource: &found.resource,
        object,
        verb: "retry",
        event: "RetryAsked",
        patch: json!({"metadata": {"annotations": {marks::RETRY: format!("{}/{round}", run.id)}}}),
        said_of: &["/status/run/id"],
    };
    let api = watch::api(&connection.write, found.kind, namespace);
    let written = speaker.write(&api, change).await?;
    say.print(
        written,
        format!("{name}: its rules are evaluated again, round {round}"),
    )?;
    live::say_idle(connection).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_that_is_said_again_is_never_away() {
        let said = |action| Directive {
            action,
            reason: None,
            by: Some("jane".to_owned()),
        };
        for (action, removed) in [
            (DirectiveAction::Hold, false),
            (DirectiveAction::Skip, false),
            (DirectiveAction::Retry, true),
        ] {
            assert_eq!(
                is_removed_first(Some(&said(action)), &said(action)),
                removed,
                "{action:?}"
            );
            assert!(!is_removed_first(None, &said(action)), "{action:?}");
        }
    }
}
