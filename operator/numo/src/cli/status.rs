//! `numo status`: owners, pools, nodes by step, maintenances, budgets in use, and when it will be done.

use super::{
    cluster::ClusterArgs,
    completion,
    error::CliError,
    look::{self, Look, ago, maintenance_words, plan_words, said},
    object::{ObjectArg, What},
    output::{self, Cell, Format, OutputArgs, Table, paint},
    say, screen,
};
use crate::frontends::standing::Standing;
use clap::Args;
use numo_api::{Reason, Step};
use numo_core::{
    Decision,
    eta::Eta,
    ledger::Ledger,
    left,
    observed::{Key, MaintenanceView},
};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _};

/// Letters of a message that a table shows without `-o wide`.
const MESSAGE_SHOWN: usize = 120;
/// Nodes that are behind, as many as are shown.
const SHOWN: usize = 50;

/// Arguments of `numo status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Only owners of this namespace [default: all]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Owners of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Go on, and show what changes: on a terminal full-screen (q ends it)
    #[arg(short, long)]
    watch: bool,
    /// Only this owner: KIND/NAME or NAME
    #[arg(value_name = "KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: Option<ObjectArg>,
}

/// All that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Picture {
    owners: Vec<OwnerLine>,
    maintenances: Vec<MaintenanceLine>,
    budgets: Vec<BudgetLine>,
    /// Marks whose owner is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_behind: Vec<LeftLine>,
    unseen: Vec<String>,
    /// That no numo leads, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<String>,
}

/// A mark whose owner is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LeftLine {
    object: String,
    mark: String,
    owner: Option<String>,
    reason: Reason,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_nodes: Option<usize>,
    commands: Vec<String>,
}

/// A MutexRunConfig or a Plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerLine {
    kind: &'static str,
    namespace: String,
    name: String,
    reason: Reason,
    message: String,
    means: &'static str,
    ends_by: &'static str,
    target: Option<String>,
    nodes: usize,
    done: usize,
    steps: BTreeMap<&'static str, usize>,
    eta: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<i64>,
    pools: Vec<PoolLine>,
    behind: Vec<NodeLine>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolLine {
    name: String,
    config: String,
    paused: bool,
    paused_by_numo: bool,
    nodes: usize,
    outdated: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeLine {
    name: String,
    pool: String,
    step: Step,
    since: Option<String>,
    reason: Reason,
    message: String,
    ends_by: &'static str,
    change: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct MaintenanceLine {
    name: String,
    group: String,
    node: String,
    phase: Option<String>,
    drained_percent: i64,
    /// None before the drain has begun.
    pods_left: Option<usize>,
    created: String,
    reason: Option<Reason>,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BudgetLine {
    name: String,
    group_by: Option<String>,
    group: String,
    /// `spec.nodeSelector` as given.
    node_selector: serde_json::Value,
    max_unavailable: String,
    paused: bool,
    nodes: usize,
    allowed: Option<usize>,
    in_use: usize,
    unavailable: Vec<String>,
}

/// Which owners are shown.
struct Selection<'a> {
    namespace: Option<&'a str>,
    what: Option<What>,
    name: Option<&'a str>,
}

impl Selection<'_> {
    fn takes(&self, what: What, key: &Key) -> bool {
        let of_kind = self.what.is_none_or(|wanted| wanted == what);
        let of_namespace = self.namespace.is_none_or(|namespace| key.namespace == namespace);
        of_kind && of_namespace && self.name.is_none_or(|name| key.name == name)
    }
}

/// Prints the state of all owners, or of one.
pub async fn status(args: StatusArgs) -> Result<(), CliError> {
    if let Some(what) = args.object.as_ref().and_then(|object| object.what)
        && !what.is_owner()
    {
        return Err(CliError::Usage(format!(
            "found kind {0}, wanted mutexrunconfig, plan or nodemaintenance, which own nodes; `numo explain {0}/NAME` takes it",
            what.singular()
        )));
    }
    let (connection, _) = args.cluster.connect("status").await?;
    let selection = Selection {
        namespace: args.namespace.as_deref(),
        what: args.object.as_ref().and_then(|object| object.what),
        name: args.object.as_ref().map(|object| object.name.as_str()),
    };
    if args.watch {
        return watch(&connection, &selection, args.output).await;
    }
    let look = look::look_by(&connection).await?;
    let picture = Picture::of(&look, &selection);
    picture.check(&selection)?;
    picture.print(&look, args.output)?;
    say_unseen(&picture.unseen);
    look::say_unmoved(picture.idle.as_deref());
    Ok(())
}

/// On a terminal the whole screen; else each picture that differs from the one before it.
async fn watch(
    connection: &crate::shell::client::Connection,
    selection: &Selection<'_>,
    output: OutputArgs,
) -> Result<(), CliError> {
    if output.output.is_none_or(|format| format == Format::Wide) && screen::is_there() {
        let mut screen = screen::Screen::open()?;
        return look::follow(connection, Some(screen::TICK), async |look| {
            let picture = Picture::of(look, selection);
            let mut text = picture.text(look, output);
            for unseen in &picture.unseen {
                let _ = writeln!(text, "could not see {unseen}");
            }
            if let Some(idle) = &picture.idle {
                text = format!(
                    "{}\n{text}",
                    super::say::line(format_args!("{}", paint(output::bad(), idle)))
                );
            }
            screen.show(&say::printable(&text))
        })
        .await;
    }
    let mut before = None;
    look::follow(connection, None, async |look| {
        let picture = Picture::of(look, selection);
        if before.is_none() {
            picture.check(selection)?;
            say_unseen(&picture.unseen);
        }
        if before
            .as_ref()
            .is_none_or(|before: &Picture| before.idle.is_some() != picture.idle.is_some())
        {
            look::say_unmoved(picture.idle.as_deref());
        }
        if before.as_ref() != Some(&picture) {
            if before.is_some() && output.output.is_none() {
                println!("---");
            }
            picture.print(look, output)?;
            before = Some(picture);
        }
        Ok(true)
    })
    .await
}

/// What could not be seen is talk, not data.
pub fn say_unseen(unseen: &[String]) {
    for unseen in unseen {
        eprintln!("numo: could not see {unseen}");
    }
}

impl Picture {
    fn of(look: &Look, selection: &Selection<'_>) -> Self {
        let runs = look
            .runs
            .iter()
            .filter(|(key, _)| selection.takes(What::Run, key));
        let plans = look
            .plans
            .iter()
            .filter(|(key, _)| selection.takes(What::Plan, key));
        let runs = runs.map(|(key, decision)| {
            OwnerLine::of(
                look,
                "MutexRunConfig",
                key,
                decision,
                said(look, key, &decision.report),
            )
        });
        let plans = plans.map(|(key, decision)| {
            OwnerLine::of(
                look,
                "Plan",
                key,
                decision,
                plan_words(look, key, &decision.report),
            )
        });
        let maintenances = look.store.observed.maintenances.values();
        let maintenances = maintenances.filter(|view| selection.takes(What::Maintenance, &view.owner.key));
        Self {
            owners: runs.chain(plans).collect(),
            maintenances: maintenances.map(|view| MaintenanceLine::of(look, view)).collect(),
            budgets: budgets(look),
            left_behind: left_behind(look),
            unseen: look.unseen.clone(),
            idle: look.idle.clone(),
        }
    }

    /// Something that was asked for and is not there.
    fn check(&self, selection: &Selection<'_>) -> Result<(), CliError> {
        if !self.owners.is_empty() || !self.maintenances.is_empty() {
            return Ok(());
        }
        let place = selection
            .namespace
            .map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let meant = selection.what.unwrap_or(What::Run);
        if let Some(hidden) = look::hidden(&self.unseen, meant) {
            return Err(hidden);
        }
        let kinds = selection
            .what
            .map_or("MutexRunConfig, Plan or NodeMaintenance", What::singular);
        match selection.name {
            Some(name) => Err(CliError::Usage(format!(
                "found no {kinds} {name}{place}; `numo status` lists all, `numo explain NODE` takes a node"
            ))),
            None if selection.namespace.is_some() || selection.what.is_some() => Err(CliError::Usage(
                format!("found no {kinds}{place}; `numo status` lists all"),
            )),
            None => {
                if !self.left_behind.is_empty() {
                    return Ok(());
                }
                eprintln!(
                    "numo: found no {kinds}: nothing changes any node. README.md shows the first of each; \
                     `numo doctor` checks the installation"
                );
                Ok(())
            }
        }
    }

    fn print(&self, look: &Look, output: OutputArgs) -> Result<(), CliError> {
        output.print(self, |output| self.text(look, output), || self.names())
    }

    fn names(&self) -> Vec<String> {
        let owners = self.owners.iter().map(|owner| {
            let kind = if owner.kind == "Plan" {
                "plan.upgrade.cattle.io".to_owned()
            } else {
                format!("mutexrunconfig.{}", numo_api::GROUP)
            };
            format!("{kind}/{}", owner.name)
        });
        let maintenances = self
            .maintenances
            .iter()
            .map(|one| format!("nodemaintenance.{}/{}", one.group, one.name));
        owners.chain(maintenances).collect()
    }

    fn text(&self, look: &Look, output: OutputArgs) -> String {
        let mut parts: Vec<String> = self.owners.iter().map(|owner| owner.text(look, output)).collect();
        if !self.maintenances.is_empty() {
            parts.push(maintained(&self.maintenances, look, output));
        }
        if !self.budgets.is_empty() {
            parts.push(used(&self.budgets, output));
        }
        if !self.left_behind.is_empty() {
            parts.push(shown_left(&self.left_behind, output));
        }
        parts.join("\n")
    }
}

impl OwnerLine {
    fn of(look: &Look, kind: &'static str, key: &Key, decision: &Decision, standing: Standing) -> Self {
        let report = &decision.report;
        let eta = look::eta(look, report);
        let mut steps = BTreeMap::new();
        for node in report.nodes.values() {
            *steps.entry(node.step.name()).or_default() += 1;
        }
        let behind = report.nodes.iter().filter(|(_, node)| node.step != Step::Done);
        let mut behind: Vec<NodeLine> = behind
            .map(|(name, node)| NodeLine {
                name: name.clone(),
                pool: node.pool.to_string(),
                step: node.step,
                since: node.since.clone(),
                reason: node.why.reason,
                message: node.why.message.to_string(),
                ends_by: node.why.who().phrase(),
                change: node.change.clone(),
            })
            .collect();
        // Who is under way comes before those who wait for them.
        behind.sort_by_key(|node| node.step == Step::Selected);
        Self {
            kind,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            reason: standing.reason,
            message: standing.message,
            means: standing.reason.meaning(),
            ends_by: standing.who.phrase(),
            target: report.target.clone(),
            nodes: report.nodes.len(),
            done: report.count(|node| node.step == Step::Done),
            steps,
            eta_seconds: match eta {
                Some(Eta::In { seconds, .. }) => Some(seconds),
                _ => None,
            },
            eta: look::eta_words(eta.as_ref()),
            pools: report
                .pools
                .iter()
                .map(|pool| PoolLine {
                    name: pool.name.clone(),
                    config: pool.config.clone(),
                    paused: pool.paused,
                    paused_by_numo: pool.ours,
                    nodes: pool.nodes,
                    outdated: pool.outdated,
                })
                .collect(),
            behind,
        }
    }

    fn text(&self, look: &Look, output: OutputArgs) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}   {}   {}/{} nodes done   to {}",
            paint(
                output::head(),
                &format!("{} {}/{}", self.kind, self.namespace, self.name)
            ),
            paint(output::of_reason(self.reason), self.reason.name()),
            self.done,
            self.nodes,
            self.target.as_deref().unwrap_or("?")
        );
        let _ = writeln!(text, "  {}", self.message);
        if self.done < self.nodes {
            let steps: Vec<String> = self
                .steps
                .iter()
                .map(|(step, nodes)| format!("{nodes} {step}"))
                .collect();
            let _ = writeln!(text, "  steps   {}", steps.join(", "));
            let _ = writeln!(text, "  ends    {}", self.eta);
        }
        if !self.pools.is_empty() {
            let mut table = Table::new(2, ["POOL", "CONFIG", "PAUSED", "NODES", "OUTDATED"], output);
            for pool in &self.pools {
                let paused = match (pool.paused, pool.paused_by_numo) {
                    (true, true) => "by numo",
                    (true, false) => "by another",
                    (false, _) => "no",
                };
                table.row([
                    pool.name.as_str().into(),
                    pool.config.as_str().into(),
                    paused.into(),
                    pool.nodes.to_string().into(),
                    pool.outdated.to_string().into(),
                ]);
            }
            text.push_str(&table.text());
        }
        let shown = if output.is_wide() { usize::MAX } else { SHOWN };
        if !self.behind.is_empty() {
            let change = if output.is_wide() { "NODECHANGE" } else { "" };
            let mut table = Table::new(
                2,
                ["NODE", "POOL", "STEP", "SINCE", "REASON", "MESSAGE", change],
                output,
            );
            for node in self.behind.iter().take(shown) {
                let pool = if node.pool.is_empty() {
                    "-"
                } else {
                    node.pool.as_str()
                };
                let change = node.change.as_deref().filter(|_| output.is_wide());
                table.row([
                    node.name.as_str().into(),
                    pool.into(),
                    Cell::painted(node.step.name(), output::of_step(node.step)),
                    ago(node.since.as_deref(), look.now).into(),
                    Cell::painted(node.reason.name(), output::of_reason(node.reason)),
                    shortened(&node.message, output).into(),
                    change.unwrap_or_default().into(),
                ]);
            }
            text.push_str(&table.text());
        }
        if self.behind.len() > shown {
            let more = self.behind.len() - shown;
            let _ = writeln!(
                text,
                "  and {more} more (-o wide); `numo explain NODE` says why one waits"
            );
        }
        text
    }
}

/// A message as a table has it: all of it with `-o wide`, as `explain` has it.
fn shortened(message: &str, output: OutputArgs) -> String {
    if output.is_wide() || message.chars().count() <= MESSAGE_SHOWN {
        return message.to_owned();
    }
    let short: String = message.chars().take(MESSAGE_SHOWN - 1).collect();
    format!("{short}…")
}

impl MaintenanceLine {
    fn of(look: &Look, view: &MaintenanceView) -> Self {
        let (reason, message) = maintenance_words(look, view);
        let group = view.owner.kind.api_version();
        Self {
            name: view.owner.key.name.clone(),
            group: group.split('/').next().unwrap_or_default().to_owned(),
            node: view.spec.node_name.clone(),
            phase: view.status.phase.clone(),
            drained_percent: view.status.drain_progress.unwrap_or(0),
            pods_left: view
                .status
                .phase
                .as_ref()
                .map(|_| view.status.pending_pods.as_ref().map_or(0, Vec::len)),
            created: view.created.to_string(),
            reason,
            message,
        }
    }
}

fn maintained(lines: &[MaintenanceLine], look: &Look, output: OutputArgs) -> String {
    let heads = [
        "MAINTENANCE",
        "NODE",
        "PHASE",
        "DRAINED",
        "PODS-LEFT",
        "SINCE",
        "REASON",
        "MESSAGE",
    ];
    let mut table = Table::new(0, heads, output);
    for line in lines {
        let reason = line.reason.map_or_else(
            || "-".into(),
            |reason| Cell::painted(reason.name(), output::of_reason(reason)),
        );
        table.row([
            line.name.as_str().into(),
            line.node.as_str().into(),
            line.phase.as_deref().unwrap_or("-").into(),
            format!("{}%", line.drained_percent).into(),
            line.pods_left
                .map_or_else(|| "-".to_owned(), |left| left.to_string())
                .into(),
            ago(Some(&line.created), look.now).into(),
            reason,
            shortened(&line.message, output).into(),
        ]);
    }
    table.text()
}

/// What was left behind by owners that are gone. Who cannot see all owners cannot tell who is gone.
fn left_behind(look: &Look) -> Vec<LeftLine> {
    if !look::sees_all_owners(&look.unseen) {
        return Vec::new();
    }
    let found = left::orphans(&look.store.observed).into_iter();
    found
        .map(|one| {
            let (reason, message) = one.said();
            LeftLine {
                object: one.left.object,
                mark: one.left.mark,
                owner: one.owner.map(|key| key.to_string()),
                reason,
                message,
                held_nodes: one.held_nodes,
                commands: one.commands,
            }
        })
        .collect()
}

fn shown_left(lines: &[LeftLine], output: OutputArgs) -> String {
    let shown = if output.is_wide() { usize::MAX } else { SHOWN };
    let mut table = Table::new(
        0,
        ["LEFT BEHIND", "MARK", "REASON", "OWNER", "WOULD-ROLL"],
        output,
    );
    for line in lines.iter().take(shown) {
        let mark = line.mark.rsplit('/').next().unwrap_or(&line.mark);
        let held = line
            .held_nodes
            .map_or_else(|| "-".to_owned(), |held| held.to_string());
        table.row([
            line.object.as_str().into(),
            mark.into(),
            Cell::painted(line.reason.name(), output::of_reason(line.reason)),
            line.owner
                .as_ref()
                .map_or_else(|| "gone".to_owned(), |owner| format!("{owner} (gone)"))
                .into(),
            held.into(),
        ]);
    }
    let mut text = table.text();
    for command in lines.iter().take(shown).flat_map(|line| &line.commands) {
        let _ = writeln!(text, "  do      {command}");
    }
    if lines.iter().any(|line| line.reason == Reason::PoolHeld) {
        let _ = writeln!(
            text,
            "  or      apply a MutexRunConfig with that pool among its targets: it takes the pool over"
        );
    }
    if lines.len() > shown {
        let _ = writeln!(text, "  and {} more (-o wide)", lines.len() - shown);
    }
    text
}

fn budgets(look: &Look) -> Vec<BudgetLine> {
    let observed = &look.store.observed;
    let uses = Ledger::of(observed, look.now).uses();
    let lines = uses.into_iter().map(|used| BudgetLine {
        name: used.budget.name.clone(),
        group_by: used.budget.group_by.clone(),
        group: used.group.to_owned(),
        node_selector: used.budget.selector.clone(),
        max_unavailable: match &used.budget.max_unavailable {
            Ok(numo_core::observed::IntOrPercent::Int(number)) => number.to_string(),
            Ok(numo_core::observed::IntOrPercent::Percent(percent)) => format!("{percent}%"),
            Err(problem) => problem.clone(),
        },
        paused: used.budget.paused,
        nodes: used.nodes,
        allowed: used.allowed,
        in_use: used.unavailable.len(),
        unavailable: used.unavailable.iter().map(|&node| node.to_owned()).collect(),
    });
    let mut lines: Vec<BudgetLine> = lines.collect();
    // One that covers no node is shown all the same: it may be what somebody believes in.
    let missing = observed
        .budgets
        .values()
        .filter(|budget| !lines.iter().any(|line| line.name == budget.name));
    let missing: Vec<BudgetLine> = missing
        .map(|budget| BudgetLine {
            name: budget.name.clone(),
            group_by: budget.group_by.clone(),
            group: String::new(),
            node_selector: budget.selector.clone(),
            max_unavailable: "-".to_owned(),
            paused: budget.paused,
            nodes: 0,
            allowed: None,
            in_use: 0,
            unavailable: Vec::new(),
        })
        .collect();
    lines.extend(missing);
    lines
}

fn used(lines: &[BudgetLine], output: OutputArgs) -> String {
    let (who, which) = if output.is_wide() {
        ("UNAVAILABLE", "SELECTOR")
    } else {
        ("", "")
    };
    let heads = [
        "BUDGET",
        "GROUP",
        "MAX-UNAVAILABLE",
        "ALLOWED",
        "IN-USE",
        "NODES",
        "PAUSED",
        who,
        which,
    ];
    let mut table = Table::new(0, heads, output);
    for line in lines {
        let group = line
            .group_by
            .as_ref()
            .map_or_else(|| "-".to_owned(), |key| format!("{key}={}", line.group));
        let (unavailable, selector) = if output.is_wide() {
            (line.unavailable.join(","), line.node_selector.to_string())
        } else {
            (String::new(), String::new())
        };
        let paused = if line.paused {
            Cell::painted("true", output::bad())
        } else {
            "false".into()
        };
        table.row([
            line.name.as_str().into(),
            group.into(),
            line.max_unavailable.as_str().into(),
            line.allowed
                .map_or_else(|| "-".to_owned(), |allowed| allowed.to_string())
                .into(),
            line.in_use.to_string().into(),
            line.nodes.to_string().into(),
            paused,
            unavailable.into(),
            selector.into(),
        ]);
    }
    table.text()
}
