//! `numo release --offline`: restores everything that numo changed on a cluster that has no operator any more, and never
//! releases a node by it. What is decided is the core's; it is written as the operator would write it.

use super::{
    cluster::ClusterArgs,
    error::{self, CliError},
    live::settings_in,
    output::{OutputArgs, Table},
    place::OperatorPlace,
    remarked::DryRun,
    restored::Restored,
    status::say_unseen,
};
use crate::shell::{
    apply::{self, ApplyError},
    client::Connection,
    leader::{self, Candidate, Fence, LEADER_LEASE, RENEW_DEADLINE},
    list::{self, FORBIDDEN},
    provider::{self, Provider},
    store::Store,
};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::Api;
use numo_core::{
    Owner, Snapshot,
    action::{Action, FleetAction},
    decide, invariant,
    left::{self, Left},
    release,
    text::counted,
    verdict::Answers,
};
use std::{collections::BTreeSet, fmt::Write as _, time::Duration};
use tokio::time::Instant;

/// Rounds of one owner: each is at least one write further.
const MAX_ROUNDS: usize = 200;
/// How long after a look the next one is, while something is waited for.
const AGAIN: Duration = Duration::from_secs(3);
/// How long the leader lease is waited for: a leader that is gone holds it for fifteen seconds.
const LEASE_PATIENCE: Duration = Duration::from_secs(25);

/// How long the lease stays with who took it over (seconds): the operator must be gone by then.
const HELD_SECONDS: i32 = 600;
/// What must be seen, so that nothing is taken back that is under way.
const NEEDED: [&str; 9] = [
    "nodes",
    "machineconfigpools",
    "leases",
    "nodechanges",
    "mutexrunconfigs",
    "plans",
    "nodemaintenances",
    "machines",
    "machinehealthchecks",
];

/// What must be seen besides where numo has begun something for a NodeVersion. Other clusters may have these kinds of another operator,
/// and numo no rights to them.
const NEEDED_OF_MACHINES: [&str; 4] = [
    "nodeversions",
    "pendingnodes",
    "autoscalingstrategies",
    "deployments",
];

/// Arguments of `numo release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Confirm that no running operator is to do it (one restores everything by itself when its objects are deleted)
    #[arg(long, required = true)]
    offline: bool,
    #[command(flatten)]
    place: OperatorPlace,
    /// Take the leader lease from an operator that runs, and keep it for ten minutes. Uninstall the operator within that time
    #[arg(long, env = "NUMO_TAKE_OVER")]
    take_over: bool,
    /// Exit 0 even if some pools must stay paused, because their nodes would roll, or machines were about to be created or deleted
    #[arg(long)]
    leave_held: bool,
    /// How long to wait for nodes that are changing (seconds)
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout_seconds: u64,
    /// Print what would be written (client). There is no `server`: what is restored depends on what was restored before
    #[arg(
        long,
        value_name = "HOW",
        default_value = "none",
        num_args = 0..=1,
        default_missing_value = "client",
        hide_possible_values = true
    )]
    dry_run: DryRun,
}

/// What was restored, and what is left.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Released {
    restored: Vec<String>,
    /// The same, field by field.
    changed: Vec<Restored>,
    left: Vec<Left>,
    refused: Vec<String>,
}

/// Gives everything back that may be given back.
pub async fn release(args: ReleaseArgs) -> Result<(), CliError> {
    if args.dry_run == DryRun::Server {
        return Err(CliError::Usage(
            "--dry-run: found server, wanted client: what is restored depends on what was restored before"
                .to_owned(),
        ));
    }
    let namespace = args.place.namespace("release")?;
    let (connection, _) = args.cluster.connect("release").await?;
    let closed = if args.dry_run == DryRun::None || args.take_over {
        None
    } else {
        keeps_leading(&connection, &namespace).await
    };
    let (fence, candidate) = if args.dry_run == DryRun::None {
        let (fence, candidate) = lead(&connection, &namespace, args.take_over).await?;
        (Some(fence), Some(candidate))
    } else {
        (None, None)
    };
    let timeout = Duration::from_secs(args.timeout_seconds);
    let released = restore_all(&connection, &namespace, fence.as_ref(), timeout).await?;
    if let Some(candidate) = candidate.filter(|_| args.take_over) {
        let doing = format!("Lease {namespace}/{LEADER_LEASE}");
        candidate.hold_on(HELD_SECONDS).await.map_err(error::api(doing))?;
    }
    say(&released, &args)?;
    match closed {
        Some(holder) => Err(stop_first(&namespace, Some(&holder))),
        None => Ok(()),
    }
}

/// Gives back until nothing is left that may be given back, or the time is over. Without a fence it looks once.
async fn restore_all(
    connection: &Connection,
    namespace: &str,
    fence: Option<&Fence>,
    timeout: Duration,
) -> Result<Released, CliError> {
    let mut released = Released {
        restored: Vec::new(),
        changed: Vec::new(),
        left: Vec::new(),
        refused: Vec::new(),
    };
    // None: so long that there is no such time.
    let until = Instant::now().checked_add(timeout);
    loop {
        let settings = settings_in(namespace.to_owned());
        let (mut store, unseen) = list::once(&connection.read, settings)
            .await
            .map_err(error::api("looking at the cluster"))?;
        refuse_unseen(&store, &unseen)?;
        released.left = left::all(&store.observed);
        released.refused.clear();
        let wrote = restore(connection, &mut store, fence, &mut released).await?;
        if !wrote && (released.left.is_empty() || is_over(until) || fence.is_none() || !waits(&store)) {
            say_unseen(&unseen);
            break;
        }
        if !wrote {
            tokio::time::sleep(AGAIN).await;
        }
        if fence.is_none() {
            break;
        }
    }
    Ok(released)
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

/// What may not be seen may not be taken for free of marks.
fn refuse_unseen(store: &Store, unseen: &[String]) -> Result<(), CliError> {
    let of_machines = NEEDED_OF_MACHINES
        .iter()
        .filter(|_| release::has_replaced(&store.observed));
    let needed: Vec<String> = NEEDED
        .iter()
        .chain(of_machines)
        .map(|kind| format!("{kind}: "))
        .collect();
    let hidden = unseen
        .iter()
        .find(|words| words.ends_with(FORBIDDEN) && needed.iter().any(|kind| words.starts_with(kind)));
    let Some(words) = hidden else {
        return Ok(());
    };
    let leases = if words.starts_with("leases") {
        "; with OLM, apply deploy/olm/examples/node-leases.yaml"
    } else {
        ""
    };
    Err(CliError::Wrong(format!(
        "cannot see {words}; run it as a cluster administrator{leases}"
    )))
}

/// Who leads in the namespace, and when it said so last, as far as that may be seen.
async fn leader_of(connection: &Connection, namespace: &str) -> Option<(String, Option<i64>)> {
    let leases: Api<Lease> = Api::namespaced(connection.read.clone(), namespace);
    let lease = leases.get_opt(LEADER_LEASE).await.ok()??;
    let now = connection.clock.now();
    let renewed = leader::age_seconds(&lease, now).map(|age| now.as_second() - age);
    leader::is_held(&lease, now, 0).then(|| (leader::holder(&lease).to_owned(), renewed))
}

/// Who leads in the namespace and goes on to: one that has just ended holds the lease for a while.
async fn keeps_leading(connection: &Connection, namespace: &str) -> Option<String> {
    let (_, first) = leader_of(connection, namespace).await?;
    loop {
        tokio::time::sleep(AGAIN).await;
        let (holder, renewed) = leader_of(connection, namespace).await?;
        if renewed > first {
            return Some(holder);
        }
    }
}

/// That nothing is given back beside an operator.
fn stop_first(namespace: &str, holder: Option<&str>) -> CliError {
    let who = holder.map_or_else(|| "an operator".to_owned(), |holder| format!("operator {holder}"));
    CliError::Closed(format!(
        "{who} leads (Lease {namespace}/{LEADER_LEASE}): it restores what it changed if its objects are deleted. Stop it \
         first, in a cluster by kubectl -n {namespace} scale deployment/numo --replicas=0; or take over with --take-over"
    ))
}

/// Whether a node is changing: it comes back by itself.
fn waits(store: &Store) -> bool {
    !store.observed.changes.is_empty()
}

/// Takes the lead, so that no operator acts meanwhile.
async fn lead(
    connection: &Connection,
    namespace: &str,
    take_over: bool,
) -> Result<(Fence, Candidate), CliError> {
    if let Some(place) = leads_elsewhere(connection, namespace).await {
        return Err(CliError::Closed(format!(
            "an operator leads in namespace {place}, and not in {namespace}: say so with --operator-namespace {place}"
        )));
    }
    // The lease is the lock, and it needs a place.
    let namespaces: Api<Namespace> = Api::all(connection.read.clone());
    if matches!(namespaces.get_opt(namespace).await, Ok(None)) {
        return Err(CliError::Usage(format!(
            "namespace {namespace} is not there, and the lock that keeps operators off needs one: name any that is, with \
             `numo release --offline --operator-namespace default`"
        )));
    }
    // Two of them must not take each other for themselves.
    let identity = format!(
        "numo-release-{}-{}",
        std::process::id(),
        Timestamp::now().as_nanosecond()
    );
    let candidate = || {
        Candidate::new(
            connection.write.clone(),
            namespace,
            LEADER_LEASE,
            &identity,
            connection.clock.clone(),
        )
    };
    let doing = format!("Lease {namespace}/{LEADER_LEASE}");
    let mut leading = candidate();
    if take_over {
        leading.seize().await.map_err(error::api(&doing))?;
    }
    let won = tokio::time::timeout(LEASE_PATIENCE, leading.try_win());
    let fence = match won.await {
        Ok(Ok(fence)) => fence,
        Ok(Err(error)) => return Err(error::api(doing)(error)),
        Err(_) => {
            let holder = leader_of(connection, namespace).await;
            let holder = holder.as_ref().map(|(holder, _)| holder.as_str());
            return Err(stop_first(namespace, holder));
        }
    };
    let keeping = fence.clone();
    tokio::spawn(async move { leading.keep(&keeping).await });
    if take_over {
        // Who led writes until it sees that it leads no more, at most so long.
        tokio::time::sleep(RENEW_DEADLINE).await;
    }
    Ok((fence, candidate()))
}

/// The namespace of a numo that leads elsewhere, as far as that may be seen.
async fn leads_elsewhere(connection: &Connection, namespace: &str) -> Option<String> {
    let all = leader::leases(&connection.read, LEADER_LEASE).await.ok()?;
    let now = connection.clock.now();
    let alive = all.into_iter().filter(|lease| leader::is_alive(lease, now));
    let places: Vec<String> = alive.filter_map(|lease| lease.metadata.namespace).collect();
    places
        .iter()
        .find(|place| *place != namespace)
        .filter(|_| !places.iter().any(|place| place == namespace))
        .cloned()
}

/// Gives back what can be given back now; true if anything was written.
async fn restore(
    connection: &Connection,
    store: &mut Store,
    fence: Option<&Fence>,
    released: &mut Released,
) -> Result<bool, CliError> {
    let now = connection.clock.now();
    let owners = release::abandon(&mut store.observed, now);
    let mut wrote = false;
    for owner in &owners {
        let mut blocked = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            release::take_for_deleted(&mut store.observed);
            let due = due(store, owner, connection.clock.now());
            let due: Vec<_> = due
                .into_iter()
                .filter(|(chain, _)| !blocked.contains(chain))
                .collect();
            if due.is_empty() {
                break;
            }
            for (chain, action) in due {
                if blocked.contains(&chain) {
                    continue;
                }
                let words = words(&action);
                let Some(fence) = fence else {
                    released.changed.push(Restored::of(&action));
                    released.restored.push(words);
                    blocked.insert(chain);
                    continue;
                };
                if !fence.holds() {
                    return Err(CliError::Wrong(
                        "the leader lease was taken by another: nothing more is written; run it again"
                            .to_owned(),
                    ));
                }
                match write(connection, store, &action, now).await {
                    Ok(()) => {
                        eprintln!("numo: {words}");
                        released.changed.push(Restored::of(&action));
                        released.restored.push(words);
                        wrote = true;
                    }
                    // An owner that is gone has no finalizer.
                    Err(ApplyError::Gone { .. }) => {
                        blocked.insert(chain);
                    }
                    Err(error) => {
                        released.refused.push(format!("{words}: {error}"));
                        blocked.insert(chain);
                    }
                }
            }
        }
    }
    Ok(wrote)
}

/// Carries out one action. No machine is made or deleted by it, so there is no provider of machines.
async fn write(
    connection: &Connection,
    store: &mut Store,
    action: &Action,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match action {
        Action::Fleet(action) => {
            let provider = Provider::none("numo release makes and deletes no machines");
            // It calls nobody, so that nothing is answered.
            let (to, _) = tokio::sync::mpsc::unbounded_channel();
            let clock = connection.clock.clone();
            let answers = provider::Answers { clock, to };
            apply::of_machines(&connection.write, store, (&provider, answers), action, now).await
        }
        action => apply::apply(&connection.write, store, action, now).await,
    }
}

/// What the core would give back of this owner now, checked once more.
fn due(store: &Store, owner: &Owner, now: Timestamp) -> Vec<(String, Action)> {
    let snapshot = Snapshot {
        now,
        observed: &store.observed,
        owner,
        asked: None,
    };
    let mut decision = decide(&snapshot, &Answers::default());
    release::only_restore(&mut decision, !store.observed.changes.is_empty());
    for breach in invariant::lint(&snapshot, &mut decision) {
        eprintln!(
            "numo: not done: {} (invariant {})",
            breach.message, breach.invariant
        );
    }
    let actions = decision.actions.into_iter();
    actions.map(|planned| (planned.chain, planned.action)).collect()
}

fn words(action: &Action) -> String {
    match action {
        Action::PatchNode(patch) => format!("Node {}: {:?}", patch.node, patch.purpose),
        Action::PatchPool(patch) => format!("MachineConfigPool {}: {:?}", patch.pool, patch.purpose),
        Action::PatchMachine(patch) => format!("Machine {}: {:?}", patch.key, patch.purpose),
        Action::RemoveFinalizer { owner, finalizer, .. } => format!("{owner}: finalizer {finalizer} is off"),
        Action::ReleaseLease { node, .. } => format!("Node {node}: its lease is released"),
        Action::DeleteMaintenance { name, .. } => {
            format!("NodeMaintenance {name}: it is deleted, and the operator that serves it opens the node")
        }
        Action::SetJobTtl { job, .. } => format!("Job {job}: it goes by itself"),
        Action::Fleet(FleetAction::EnableAutoscaler { strategy, .. }) => {
            format!("AutoscalingStrategy {strategy}: its cluster autoscaler is to run")
        }
        Action::Fleet(FleetAction::SetAutoscaler {
            deployment, replicas, ..
        }) => format!(
            "Deployment {deployment}: {} replicas instead of {}",
            replicas.1, replicas.0
        ),
        other => format!("{other:?}"),
    }
}

fn say(released: &Released, args: &ReleaseArgs) -> Result<(), CliError> {
    let dry = args.dry_run == DryRun::Client;
    args.output.print(
        released,
        |output| {
            let mut text = summary(&released.restored, released.left.len(), dry);
            if !released.left.is_empty() {
                let mut table = Table::new(0, ["OBJECT", "MARK", "MESSAGE"], output);
                for left in &released.left {
                    table.row([
                        left.object.as_str().into(),
                        left.mark.as_str().into(),
                        left.message.as_str().into(),
                    ]);
                }
                text += &table.text();
            }
            text
        },
        || {
            released
                .left
                .iter()
                .map(|left| left.object.to_lowercase().replacen(' ', "/", 1))
                .collect()
        },
    )?;
    if let Some(first) = released.refused.first() {
        return Err(CliError::Wrong(format!(
            "{} writes were refused, the first: {first}",
            released.refused.len()
        )));
    }
    let stays = released
        .left
        .iter()
        .filter(|left| !(args.leave_held && left.held));
    if stays.count() == 0 || dry {
        return Ok(());
    }
    Err(CliError::Closed(format!(
        "{} left: pools that would roll, nodes that are changing, or machines that were to be made or deleted; run it again when they \
         are back, or when you have done what the table says",
        counted(released.left.len(), "mark")
    )))
}

/// What was written and is left, or would be the first to be written.
fn summary(restored: &[String], left: usize, dry: bool) -> String {
    if !dry {
        let written = counted(restored.len(), "write");
        return format!("{written}, {} left\n", counted(left, "mark"));
    }
    if restored.is_empty() {
        return "nothing would be written (dry run)\n".to_owned();
    }
    let mut text = String::new();
    for words in restored {
        let _ = writeln!(text, "{words} (dry run)");
    }
    text + "these are the first steps; each may be followed by others (dry run)\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_never_comes_is_never_over() {
        assert!(!is_over(
            Instant::now().checked_add(Duration::from_secs(u64::MAX))
        ));
        assert!(is_over(Some(Instant::now())));
    }

    #[test]
    fn a_release_counts_what_it_wrote_and_a_dry_run_says_that_there_is_nothing() {
        let one = ["lease of a".to_owned()];
        assert_eq!(summary(&one, 1, false), "1 write, 1 mark left\n");
        assert_eq!(summary(&[], 0, false), "0 writes, 0 marks left\n");
        assert_eq!(summary(&[], 0, true), "nothing would be written (dry run)\n");
        assert_eq!(
            summary(&one, 0, true),
            "lease of a (dry run)\nthese are the first steps; each may be followed by others (dry run)\n"
        );
    }
}
