//! `numo status`: runs, pools, nodes by step, budgets. It decides on a look of its own, with the
//! operator's own core, so it says the same.

use super::{CliError, ClusterArgs, run::DEFAULT_NAMESPACE};
use crate::{
    frontends::mutex_run_config::summary,
    shell::{observe, store::Store},
};
use clap::Args;
use jiff::Timestamp;
use numo_api::{
    Reason, Step,
    conditions::{Who, types},
    mutex_run_config::WaitCount,
};
use numo_core::{
    Decision, Owner, Snapshot, decide,
    observed::{Key, MaintenanceView, Settings},
    report::{Report, Why},
    verdict::Answers,
};
use std::fmt::Write as _;

/// Arguments of `numo status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only runs of this namespace [default: all]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Only this run: KIND/NAME or NAME
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
}

/// A look at the cluster with the decision for every run.
pub struct Look {
    /// What was seen.
    pub store: Store,
    /// The decisions for MutexRunConfigs.
    pub runs: Vec<(Key, Decision)>,
    /// The decisions for Plans.
    pub plans: Vec<(Key, Decision)>,
    /// What could not be seen.
    pub unseen: Vec<String>,
    /// The API server's time.
    pub now: Timestamp,
}

/// Looks at the cluster.
pub async fn look(cluster: &ClusterArgs, verb: &str) -> Result<Look, CliError> {
    let (connection, _) = cluster.connect(verb).await?;
    // A namespace in which runs are not honoured is the operator's to judge: it says so in the status.
    let settings = Settings {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        only_looks: true,
        ..Settings::default()
    };
    let (mut store, unseen) = observe::once(&connection.read, settings)
        .await
        .map_err(CliError::api("looking at the cluster"))?;
    let keys: Vec<Key> = store.observed.runs.keys().cloned().collect();
    store.observed.settings.run_namespaces = keys.iter().map(|key| key.namespace.clone()).collect();
    let plans: Vec<Key> = store.observed.plans.keys().cloned().collect();
    store.observed.settings.plan_namespaces = plans.iter().map(|key| key.namespace.clone()).collect();
    let now = connection.clock.now();
    let answers = Answers::default();
    let plans = plans.into_iter().map(|key| {
        let owner = Owner::plan(key.clone());
        let snapshot = Snapshot {
            now,
            observed: &store.observed,
            owner: &owner,
        };
        (key, decide(&snapshot, &answers))
    });
    let plans: Vec<(Key, Decision)> = plans.collect();
    let mut runs = Vec::new();
    for owner in keys {
        let run = Owner::run(owner.clone());
        let snapshot = Snapshot {
            now,
            observed: &store.observed,
            owner: &run,
        };
        let mut decision = decide(&snapshot, &answers);
        let recorded = store
            .observed
            .runs
            .get(&owner)
            .and_then(|run| run.status.run.as_ref());
        for wait in recorded.iter().flat_map(|run| &run.waiting) {
            what_only_the_operator_knows(&mut decision, wait);
        }
        runs.push((owner, decision));
    }
    Ok(Look {
        store,
        runs,
        plans,
        unseen,
        now,
    })
}

/// A refused Job and a drain that would not pass are known to the operator alone: what it recorded takes
/// the place of "is starting" and "is being tried".
fn what_only_the_operator_knows(decision: &mut Decision, wait: &WaitCount) {
    let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == wait.reason) else {
        return;
    };
    let operators = reason.is_of_evaluation()
        || matches!(
            reason,
            Reason::RuleJobCannotStart
                | Reason::JobsForbidden
                | Reason::DrainBlocked
                | Reason::NodeLeaseHeld
                | Reason::WriteRefused
        );
    let Some(node) = decision.report.nodes.get_mut(&wait.node).filter(|_| operators) else {
        return;
    };
    let unsure = match reason {
        // What numo would write next it could not.
        Reason::WriteRefused => node.why.reason.who() == Who::Numo || node.why.reason == Reason::Changing,
        _ => {
            matches!(
                node.why.reason,
                Reason::RuleStarting | Reason::RuleRunning | Reason::Changing
            ) && matches!(node.step, Step::PreRules | Step::PreRelease | Step::PostRules)
        }
    };
    if unsure {
        node.why = Why::new(*reason, wait.message.clone());
    }
}

/// How long ago, as kubectl writes it.
pub fn ago(since: Option<&str>, now: Timestamp) -> String {
    let Some(at) = since.and_then(|since| since.parse::<Timestamp>().ok()) else {
        return "-".to_owned();
    };
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Prints rows in columns, as kubectl does: three spaces between, nothing at the end of a line.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}   ");
        }
        println!("{}", line.trim_end());
    }
}

/// Prints the state of all runs, or of one.
pub async fn status(args: StatusArgs) -> Result<(), CliError> {
    let look = look(&args.cluster, "status").await?;
    let (kind, wanted) = match args.object.as_deref().map(|object| object.rsplit_once('/')) {
        None => (None, None),
        Some(None) => (None, args.object.as_deref()),
        Some(Some((kind, name))) => (Some(kind.to_lowercase()), Some(name)),
    };
    let of_maintenance = kind.as_deref().is_some_and(is_maintenance);
    let maintenances: Vec<&MaintenanceView> = look
        .store
        .observed
        .maintenances
        .values()
        .filter(|view| {
            args.namespace.is_none()
                && (kind.is_none() || of_maintenance)
                && wanted.is_none_or(|name| view.owner.key.name == name)
        })
        .collect();
    let shown: Vec<&(Key, Decision)> = look
        .runs
        .iter()
        .filter(|(key, _)| {
            args.namespace
                .as_ref()
                .is_none_or(|namespace| key.namespace == *namespace)
        })
        .filter(|(key, _)| {
            !of_maintenance
                && !kind.as_deref().is_some_and(is_plan)
                && wanted.is_none_or(|name| key.name == name)
        })
        .collect();
    let of_plan = kind.as_deref().is_some_and(is_plan);
    let in_namespace = |key: &Key| {
        args.namespace
            .as_ref()
            .is_none_or(|namespace| key.namespace == *namespace)
    };
    let plans: Vec<&(Key, Decision)> = look
        .plans
        .iter()
        .filter(|(key, _)| in_namespace(key) && wanted.is_none_or(|name| key.name == name))
        .filter(|_| kind.is_none() || of_plan)
        .collect();
    if shown.is_empty() && maintenances.is_empty() && plans.is_empty() {
        let where_ = args
            .namespace
            .map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        return Err(CliError::Wrong(match wanted {
            Some(name) => {
                format!(
                    "found no MutexRunConfig, Plan or NodeMaintenance {name}{where_}; `numo status` lists all"
                )
            }
            None => format!("found no MutexRunConfig, Plan or NodeMaintenance{where_}"),
        }));
    }
    for (index, (key, decision)) in shown.iter().enumerate() {
        if index > 0 {
            println!();
        }
        one(&look, key, decision);
    }
    for (index, (key, decision)) in plans.iter().enumerate() {
        if index > 0 || !shown.is_empty() {
            println!();
        }
        plan(&look, key, decision);
    }
    let above = !(shown.is_empty() && plans.is_empty());
    if above && !maintenances.is_empty() {
        println!();
    }
    in_maintenance(&look, &maintenances);
    budgets(&look);
    for unseen in &look.unseen {
        eprintln!("numo: could not see {unseen}");
    }
    Ok(())
}

fn one(look: &Look, key: &Key, decision: &Decision) {
    let report = &decision.report;
    let (reason, message) = said(look, key, report);
    let done = report.count(|node| node.step == Step::Done);
    println!(
        "MutexRunConfig {key}   {reason}   {done}/{} nodes done   to {}",
        report.nodes.len(),
        report.target.as_deref().unwrap_or("?")
    );
    println!("  {message}");
    let mut rows = vec![
        ["  POOL", "CONFIG", "PAUSED", "NODES", "OUTDATED"]
            .map(ToOwned::to_owned)
            .to_vec(),
    ];
    for pool in &report.pools {
        let paused = match (pool.paused, pool.ours) {
            (true, true) => "by numo",
            (true, false) => "by another",
            (false, _) => "no",
        };
        rows.push(vec![
            format!("  {}", pool.name),
            pool.config.clone(),
            paused.to_owned(),
            pool.nodes.to_string(),
            pool.outdated.to_string(),
        ]);
    }
    table(&rows);
    nodes(look, report);
}

/// A Plan: what it waits for, in the operator's own words, and the nodes that are behind.
fn plan(look: &Look, key: &Key, decision: &Decision) {
    let report = &decision.report;
    let (reason, message) = plan_words(look, key, report);
    let done = report.count(|node| node.step == Step::Done);
    println!(
        "Plan {key}   {reason}   {done}/{} nodes done   to {}",
        report.nodes.len(),
        report.target.as_deref().unwrap_or("?")
    );
    println!("  {message}");
    nodes(look, report);
}

/// What a Plan waits for: as its status has it, and before that as it is decided here.
pub fn plan_words(look: &Look, key: &Key, report: &Report) -> (Reason, String) {
    let recorded = || {
        let view = look.store.observed.plans.get(key)?;
        let ready = view.status.conditions.iter().flatten();
        let ready = ready
            .into_iter()
            .find(|condition| condition.type_ == types::READY)?;
        let reason = Reason::ALL
            .iter()
            .find(|reason| ready.reason.as_deref() == Some(reason.name()))?;
        Some((*reason, ready.message.clone().unwrap_or_default()))
    };
    recorded().unwrap_or_else(|| crate::frontends::plan::summary(report))
}

/// Whether a kind on the command line is Plan.
pub fn is_plan(kind: &str) -> bool {
    matches!(kind, "plan" | "plans" | "plans.upgrade.cattle.io")
}

/// The nodes that are behind.
fn nodes(look: &Look, report: &Report) {
    let mut rows = vec![
        ["  NODE", "POOL", "STEP", "SINCE", "REASON", "MESSAGE"]
            .map(ToOwned::to_owned)
            .to_vec(),
    ];
    for (name, node) in report
        .nodes
        .iter()
        .filter(|(_, node)| node.step != Step::Done)
        .take(SHOWN)
    {
        rows.push(vec![
            format!("  {name}"),
            if node.pool.is_empty() {
                "-".to_owned()
            } else {
                node.pool.to_string()
            },
            node.step.name().to_owned(),
            ago(node.since.as_deref(), look.now),
            node.why.reason.name().to_owned(),
            node.why.message.to_string(),
        ]);
    }
    if rows.len() > 1 {
        table(&rows);
    }
    let behind = report.count(|node| node.step != Step::Done);
    if behind > SHOWN {
        println!(
            "  and {} more; `numo explain NODE` says why one waits",
            behind - SHOWN
        );
    }
}

/// Nodes that are behind, as many as are shown.
const SHOWN: usize = 50;

/// What the run is doing: in the operator's own words where only it can know, as in `Ready`.
pub fn said(look: &Look, key: &Key, report: &Report) -> (Reason, String) {
    let recorded = || {
        let run = look.store.observed.runs.get(key)?;
        let ready = run
            .status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY)?;
        let reason = [
            Reason::NamespaceNotAllowed,
            Reason::WriteRefused,
            Reason::InvariantBreach,
        ]
        .into_iter()
        .find(|reason| ready.reason.as_deref() == Some(reason.name()))?;
        Some((reason, ready.message.clone().unwrap_or_default()))
    };
    recorded().unwrap_or_else(|| summary(report))
}

/// Whether a kind on the command line is NodeMaintenance.
pub fn is_maintenance(kind: &str) -> bool {
    matches!(kind, "nodemaintenance" | "nodemaintenances" | "nm")
}

/// What a maintenance waits for, in the operator's own words: reason and sentence.
pub fn maintenance_words(view: &MaintenanceView) -> (Option<Reason>, String) {
    let ready = view
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == types::READY);
    let Some(ready) = ready else {
        return (None, "numo has not looked at it yet".to_owned());
    };
    let reason = Reason::ALL
        .iter()
        .find(|reason| ready.reason.as_deref() == Some(reason.name()));
    (reason.copied(), ready.message.clone().unwrap_or_default())
}

fn in_maintenance(look: &Look, maintenances: &[&MaintenanceView]) {
    if maintenances.is_empty() {
        return;
    }
    let head = [
        "MAINTENANCE",
        "NODE",
        "PHASE",
        "DRAINED",
        "PODS-LEFT",
        "SINCE",
        "REASON",
        "MESSAGE",
    ];
    let mut rows = vec![head.map(ToOwned::to_owned).to_vec()];
    for view in maintenances {
        let status = &view.status;
        let (reason, message) = maintenance_words(view);
        let left = status.pending_pods.as_ref().map_or(0, Vec::len);
        rows.push(vec![
            view.owner.key.name.clone(),
            view.spec.node_name.clone(),
            status.phase.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{}%", status.drain_progress.unwrap_or(0)),
            left.to_string(),
            ago(Some(&view.created.to_string()), look.now),
            reason.map_or("-", Reason::name).to_owned(),
            message,
        ]);
    }
    table(&rows);
}

fn budgets(look: &Look) {
    let budgets = &look.store.observed.budgets;
    if budgets.is_empty() {
        return;
    }
    println!();
    let mut rows = vec![
        ["BUDGET", "MAX-UNAVAILABLE", "GROUP-BY", "PAUSED"]
            .map(ToOwned::to_owned)
            .to_vec(),
    ];
    for budget in budgets.values() {
        let limit = match &budget.max_unavailable {
            Ok(numo_core::observed::IntOrPercent::Int(number)) => number.to_string(),
            Ok(numo_core::observed::IntOrPercent::Percent(percent)) => format!("{percent}%"),
            Err(problem) => problem.clone(),
        };
        let group = budget.group_by.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![budget.name.clone(), limit, group, budget.paused.to_string()]);
    }
    table(&rows);
}
