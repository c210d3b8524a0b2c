//! `numo explain`: the chain that holds a node or a run, and who can end it. The words are those of the
//! report that the operator writes its status from.

use super::{
    CliError, ClusterArgs,
    view::{self, Look},
};
use clap::Args;
use numo_api::{
    Outcome, Reason, Step,
    conditions::{Who, types},
};
use numo_core::{
    Decision,
    observed::{ChangeView, Key, MaintenanceView},
    report::NodeReport,
};

/// Arguments of `numo explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the object [default: all]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// A node, or KIND/NAME: node, mutexrunconfig, plan, nodemaintenance, mutexrule, mutextarget
    #[arg(value_name = "NODE|KIND/NAME")]
    object: String,
}

/// Explains a node or an object.
pub async fn explain(args: ExplainArgs) -> Result<(), CliError> {
    let look = view::look(&args.cluster, "explain").await?;
    let (kind, name) = args.object.split_once('/').unwrap_or(("node", &args.object));
    let in_namespace = |key: &Key| {
        key.name == name
            && args
                .namespace
                .as_ref()
                .is_none_or(|namespace| key.namespace == *namespace)
    };
    let known = match kind.to_lowercase().as_str() {
        "node" | "nodes" | "no" => node(&look, name),
        "mutexrunconfig" | "mutexrunconfigs" | "run" => {
            let runs: Vec<_> = look.runs.iter().filter(|(key, _)| in_namespace(key)).collect();
            for (key, decision) in &runs {
                run(&look, key, decision);
            }
            !runs.is_empty()
        }
        "mutexrule" | "mutexrules" | "rule" => {
            let rules: Vec<_> = look.store.rules().filter(|(key, _)| in_namespace(key)).collect();
            for (key, rule) in &rules {
                let conditions = rule
                    .status
                    .as_ref()
                    .map(|status| status.conditions.as_slice())
                    .unwrap_or_default();
                verdict_of("MutexRule", key, conditions);
            }
            !rules.is_empty()
        }
        "mutextarget" | "mutextargets" | "target" => {
            let targets: Vec<_> = look
                .store
                .observed
                .targets
                .values()
                .filter(|t| in_namespace(&t.key))
                .collect();
            for target in &targets {
                verdict_of("MutexTarget", &target.key, &target.status.conditions);
            }
            !targets.is_empty()
        }
        kind if view::is_plan(kind) => {
            let plans: Vec<_> = look.plans.iter().filter(|(key, _)| in_namespace(key)).collect();
            for (key, decision) in &plans {
                plan(&look, key, decision);
            }
            !plans.is_empty()
        }
        kind if view::is_maintenance(kind) => {
            let all = look.store.observed.maintenances.values();
            let views: Vec<_> = all.filter(|view| in_namespace(&view.owner.key)).collect();
            for view in &views {
                maintenance(&look, view);
            }
            !views.is_empty()
        }
        other => {
            return Err(CliError::Wrong(format!(
                "found kind {other}, wanted node, mutexrunconfig, plan, nodemaintenance, mutexrule or mutextarget"
            )));
        }
    };
    for unseen in &look.unseen {
        eprintln!("numo: could not see {unseen}");
    }
    if known {
        return Ok(());
    }
    Err(CliError::Wrong(format!(
        "found no {kind} {name}; `numo status` lists runs and the nodes that wait"
    )))
}

fn node(look: &Look, name: &str) -> bool {
    let Some(seen) = look.store.observed.nodes.get(name) else {
        return false;
    };
    let mut told = false;
    for (key, decision) in &look.runs {
        if let Some(node) = decision.report.nodes.get(name) {
            told = true;
            let of = format!("pool {}, MutexRunConfig {key}", node.pool);
            chain(look, name, &of, decision, node);
        }
    }
    for (key, decision) in &look.plans {
        if let Some(node) = decision.report.nodes.get(name) {
            told = true;
            chain(look, name, &format!("Plan {key}"), decision, node);
            if is_in_flight(node) {
                let (reason, message) = view::plan_words(look, key, &decision.report);
                println!("  says    {reason}: {message}");
            }
        }
    }
    let maintenances = look.store.observed.maintenances.values();
    for view in maintenances.filter(|view| view.spec.node_name == name) {
        told = true;
        maintenance(look, view);
    }
    if !told {
        println!(
            "Node {name} belongs to no run: its primary pool is in no target of a MutexRunConfig, no Plan selects it, and no NodeMaintenance names it."
        );
    }
    if seen.unschedulable {
        println!("  it is cordoned");
    }
    if !seen.ready {
        println!("  it is not Ready");
    }
    true
}

/// What a maintenance of the node waits for, and who can end it.
fn maintenance(look: &Look, view: &MaintenanceView) {
    let status = &view.status;
    let (reason, message) = view::maintenance_words(view);
    println!(
        "Node {}: maintenance {} ({} {})",
        view.spec.node_name,
        status.phase.as_deref().unwrap_or("not begun"),
        view.owner,
        view.spec
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!("\"{reason}\""))
            .trim()
    );
    println!("  why     {}: {message}", reason.map_or("-", Reason::name));
    if let Some(reason) = reason {
        println!("  means   {}", reason.meaning());
        ends(reason);
    }
    let (total, done) = (
        status.eviction_pods.unwrap_or(0),
        status.drain_progress.unwrap_or(0),
    );
    if total > 0 {
        println!("  drained {done}% of {total} pods");
    }
    let pods = status.pending_pods_refs.as_deref().unwrap_or_default();
    for pod in pods.iter().take(10) {
        println!(
            "  left    Pod {}/{}",
            pod.namespace.as_deref().unwrap_or_default(),
            pod.name
        );
    }
    if pods.len() > 10 {
        println!("          and {} more", pods.len() - 10);
    }
    let changes = look.store.observed.changes.values();
    for change in changes.filter(|change| change.spec.owner_ref.uid == view.uid) {
        journal(look, change);
    }
}

/// The chain from the node up to whoever can end its wait.
fn chain(look: &Look, name: &str, of: &str, decision: &Decision, node: &NodeReport) {
    let version = decision.report.target.as_deref().unwrap_or("?");
    let since = view::ago(node.since.as_deref(), look.now);
    let since = if since == "-" {
        String::new()
    } else {
        format!(", for {since}")
    };
    println!("Node {name}: {}{since} ({of}, to {version})", node.step.name());
    println!("  why     {}: {}", node.why.reason, node.why.message);
    println!("  means   {}", node.why.reason.meaning());
    ends(node.why.reason);
    if matches!(
        node.why.reason,
        Reason::WaitingForTurn | Reason::BudgetExhausted | Reason::MutexKeyBusy
    ) {
        for (other, held) in decision
            .report
            .nodes
            .iter()
            .filter(|(_, other)| is_in_flight(other))
            .take(5)
        {
            println!(
                "  behind  Node {other}: {}, {}: {}",
                held.step.name(),
                held.why.reason,
                held.why.message
            );
        }
    }
    let change = node.change.as_ref().and_then(|wanted| {
        look.store
            .observed
            .changes
            .values()
            .find(|change| change.key.to_string() == *wanted)
    });
    if let Some(change) = change {
        journal(look, change);
    }
}

/// Who can end it; nothing where nothing is waited for.
fn ends(reason: Reason) {
    if reason.who() != Who::Nobody {
        println!("  ends    by {}", reason.who().phrase());
    }
}

fn is_in_flight(node: &NodeReport) -> bool {
    !matches!(
        node.step,
        Step::Selected | Step::Done | Step::Failed | Step::Skipped
    )
}

fn journal(look: &Look, change: &ChangeView) {
    println!(
        "  journal NodeChange {}, attempt {}",
        change.key,
        change.status.attempt.max(1)
    );
    for verdict in &change.status.verdicts {
        let outcome = match verdict.outcome {
            Outcome::Pass => "passed",
            Outcome::Failure => "failed",
            Outcome::ContinuedAfterFailure => "failed, and was passed over",
        };
        let code = verdict
            .exit_code
            .map_or_else(String::new, |code| format!(", exit code {code}"));
        println!(
            "          {} ago  rule {} {outcome} in {} (attempt {}{code}) {}",
            view::ago(Some(&verdict.at), look.now),
            verdict.rule,
            verdict.phase.name(),
            verdict.attempt,
            verdict.message.as_deref().unwrap_or_default()
        );
    }
    if let Some(log) = &change.status.log_tail {
        println!("  log     of the last rule:");
        for line in log.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
            println!("          {line}");
        }
    }
}

/// A Plan: what it waits for, who can end it, and its nodes in flight.
fn plan(look: &Look, key: &Key, decision: &Decision) {
    let (reason, message) = view::plan_words(look, key, &decision.report);
    println!("Plan {key}: {reason}");
    println!("  why     {message}");
    println!("  means   {}", reason.meaning());
    ends(reason);
    let nodes = decision.report.nodes.iter();
    for (name, node) in nodes.filter(|(_, node)| is_in_flight(node)).take(10) {
        println!(
            "  flight  Node {name}: {}, {}: {}",
            node.step.name(),
            node.why.reason,
            node.why.message
        );
    }
}

fn run(look: &Look, key: &Key, decision: &Decision) {
    let report = &decision.report;
    let (reason, message) = view::said(look, key, report);
    println!("MutexRunConfig {key}: {reason}");
    println!("  why     {message}");
    println!("  means   {}", reason.meaning());
    ends(reason);
    for problem in &report.problems {
        println!("  wrong   {}: {}", problem.reason, problem.message);
    }
    if let Some(run) = look
        .store
        .observed
        .runs
        .get(key)
        .and_then(|run| run.status.run.as_ref())
    {
        for wait in &run.waiting {
            println!(
                "  waits   {} node(s), for example {}: {}: {}",
                wait.count, wait.node, wait.reason, wait.message
            );
        }
        for node in &run.ungated {
            println!("  ungated Node {node} changed without its rules");
        }
    }
    for (name, node) in report
        .nodes
        .iter()
        .filter(|(_, node)| is_in_flight(node))
        .take(10)
    {
        println!(
            "  flight  Node {name}: {}, {}: {}",
            node.step.name(),
            node.why.reason,
            node.why.message
        );
    }
}

fn verdict_of(kind: &str, key: &Key, conditions: &[numo_api::Condition]) {
    let valid = conditions
        .iter()
        .find(|condition| condition.type_ == types::VALID_CONFIG);
    match valid {
        None => println!("{kind} {key}: not judged yet; is numo running?"),
        Some(condition) => {
            println!(
                "{kind} {key}: {}",
                if condition.status == "True" {
                    "valid"
                } else {
                    "not valid"
                }
            );
            println!("  why     {}", condition.message.as_deref().unwrap_or_default());
        }
    }
}
