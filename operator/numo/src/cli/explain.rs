//! `numo explain`: the chain that holds a node or an owner, who can end it, when it could move at the earliest, and the
//! node's journal. The words are those of the report that the operator writes its status from.

use super::{
    cluster::ClusterArgs,
    completion, cure,
    error::{self, CliError},
    look::{self, Look, ago},
    object::{ObjectArg, What},
    output::{self, OutputArgs, paint},
    status::say_unseen,
    word::Word,
};
use crate::{
    frontends::standing::Standing,
    shell::{client::Connection, observe},
};
use clap::Args;
use jiff::Timestamp;
use numo_api::{
    Directive, Outcome, Phase, Reason, Step,
    conditions::{Who, types},
    marks,
};
use numo_core::{
    Decision, Owner, Snapshot, binding, decide,
    drain::DrainOptions,
    eta,
    forecast::{Surroundings, Weight, forecast},
    ledger::{self, Ledger},
    observed::{BindingView, ChangeView, Key, MaintenanceView, NodeView, Observed},
    report::{NodeReport, Report, Why},
    rules::later,
    verdict::Answers,
};
use serde::Serialize;
use std::fmt::Write as _;

/// Things of one kind that are named, at most.
const NAMED: usize = 10;

/// Arguments of `numo explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Namespace of the object [default: all]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Objects of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Go on, and explain again what has changed
    #[arg(short, long)]
    watch: bool,
    /// End with exit code 3 if it waits for anything
    #[arg(long, conflicts_with = "watch")]
    exit_code: bool,
    /// A node, or KIND/NAME: node, mutexrunconfig, plan, nodemaintenance, mutexrule, mutextarget, mutexbudget, mutexbinding, reason
    #[arg(value_name = "NODE|KIND/NAME", add = clap_complete::ArgValueCompleter::new(completion::explained))]
    object: ObjectArg,
}

/// Why one thing is where it is, for one owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    /// Who can end it; none where nothing is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_by: Option<&'static str>,
    /// Commands that end it, where a person at a terminal can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earliest: Option<Earliest>,
    /// What else stands against the node's turn, worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Gate>,
    /// What else holds it or stands around it, in order.
    chain: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<Journal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    said: Vec<Word>,
}

/// One thing that stands against a node's turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gate {
    reason: Reason,
    message: String,
    /// Who can end it.
    ends_by: &'static str,
}

impl From<Why> for Gate {
    fn from(why: Why) -> Self {
        Self {
            ends_by: why.who().phrase(),
            reason: why.reason,
            message: why.message.to_string(),
        }
    }
}

/// When it could move at the earliest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Earliest {
    /// The time, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// What happens then, or what it hangs on.
    why: String,
}

impl Earliest {
    fn words(&self, now: Timestamp) -> String {
        let Self { at, why } = self;
        let at = at.as_ref().map_or_else(String::new, |at| {
            let in_ = at.parse::<Timestamp>().map_or_else(
                |_| String::new(),
                |at| {
                    format!(
                        ", in {}",
                        numo_core::time::words(at.as_second() - now.as_second())
                    )
                },
            );
            format!("{at}{in_}: ")
        });
        format!(" {at}{why}")
    }

    fn at(at: Timestamp, why: impl Into<String>) -> Self {
        Self {
            at: Some(second(at)),
            why: why.into(),
        }
    }

    fn hangs_on(why: impl Into<String>) -> Self {
        Self {
            at: None,
            why: why.into(),
        }
    }
}

/// A time to the second.
fn second(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}

/// One thing of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    what: &'static str,
    message: String,
}

/// The journal of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Journal {
    change: String,
    attempt: i32,
    entries: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    at: String,
    message: String,
}

/// Explains a node or an object.
pub async fn explain(args: ExplainArgs) -> Result<(), CliError> {
    if args.object.what == Some(What::Reason) {
        return print(&[reason(&args.object.name)?], Timestamp::UNIX_EPOCH, args.output);
    }
    let (connection, _) = args.cluster.connect("explain").await?;
    if args.watch {
        let mut before = Vec::new();
        return look::follow(&connection, None, async |look| {
            see_pods(&connection, look, &args.object).await?;
            let found = explained(look, &args)?;
            if found != before {
                if !before.is_empty() && args.output.output.is_none() {
                    println!("---");
                }
                print(&found, look.now, args.output)?;
                before = found;
            }
            Ok(true)
        })
        .await;
    }
    let mut look = look::look_by(&connection).await?;
    see_pods(&connection, &mut look, &args.object).await?;
    let found = explained(&look, &args)?;
    print(&found, look.now, args.output)?;
    say_unseen(&look.unseen);
    look::say_unmoved(look.idle.as_deref());
    let waits = found.iter().find_map(|one| one.ends_by.and(one.reason));
    match waits.filter(|_| args.exit_code) {
        Some(reason) => Err(CliError::Closed(format!("it waits: {reason}"))),
        None => Ok(()),
    }
}

/// Looks at the pods and budgets of the nodes that are explained.
async fn see_pods(connection: &Connection, look: &mut Look, object: &ObjectArg) -> Result<(), CliError> {
    let nodes = drained(look, object);
    if nodes.is_empty() {
        return Ok(());
    }
    let unseen = observe::pods(&connection.read, &mut look.store, &nodes, &mut None)
        .await
        .map_err(error::api(format!("pods of Node {}", nodes.join(", "))))?;
    look.unseen.extend(unseen);
    look.unseen.sort();
    look.unseen.dedup();
    Ok(())
}

/// Nodes whose pods and budgets the explanation names.
fn drained(look: &Look, object: &ObjectArg) -> Vec<String> {
    let observed = &look.store.observed;
    match object.what {
        None | Some(What::Node) => {
            let node = observed.nodes.get(&object.name).into_iter();
            node.map(|node| node.name.clone()).collect()
        }
        Some(What::Maintenance) => {
            let views = observed.maintenances.values();
            let named = views.filter(|view| view.owner.key.name == object.name);
            let nodes = named.map(|view| view.spec.node_name.clone());
            nodes.filter(|node| observed.nodes.contains_key(node)).collect()
        }
        Some(_) => Vec::new(),
    }
}

/// What a reason means, wherever it was seen.
fn reason(name: &str) -> Result<Explanation, CliError> {
    let known = Reason::ALL
        .iter()
        .find(|reason| reason.name().eq_ignore_ascii_case(name));
    if let Some(reason) = known {
        let mut one = Explanation::of(
            format!("Reason {reason}"),
            (Some(*reason), reason.meaning().to_owned()),
        );
        one.means = None;
        return Ok(one);
    }
    let mut others = numo_api::words::WORDS.iter();
    match others.find(|(word, ..)| word.eq_ignore_ascii_case(name)) {
        Some((word, seen, meaning)) => Ok(Explanation {
            phase: Some(format!("of a {}", seen.name())),
            ..Explanation::of(format!("Reason {word}"), (None, (*meaning).to_owned()))
        }),
        None => Err(CliError::Usage(format!(
            "found no reason {name}{}",
            nearest(name)
        ))),
    }
}

/// Reasons that could have been meant.
fn nearest(name: &str) -> String {
    let given = name.to_lowercase();
    let reasons = Reason::ALL.iter().map(|reason| reason.name());
    let words = numo_api::words::WORDS.iter().map(|(word, ..)| *word);
    let alike = |word: &&str| {
        let word = word.to_lowercase();
        let part = given.len() > 2 && (word.contains(&given) || given.contains(&word));
        part || strsim::normalized_damerau_levenshtein(&word, &given) > 0.6
    };
    let mut near: Vec<&str> = reasons.chain(words).filter(alike).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(NAMED);
    if near.is_empty() {
        "; a reason is what `numo status` shows under REASON, such as RuleWaits; completion lists them"
            .to_owned()
    } else {
        format!("; there are {}", near.join(", "))
    }
}

fn print(found: &[Explanation], now: Timestamp, output: OutputArgs) -> Result<(), CliError> {
    output.print(
        &found,
        |_| {
            found
                .iter()
                .map(|one| one.text(now))
                .collect::<Vec<_>>()
                .join("\n")
        },
        || {
            found
                .iter()
                .map(|one| one.object.to_lowercase().replacen(' ', "/", 1))
                .collect()
        },
    )
}

fn explained(look: &Look, args: &ExplainArgs) -> Result<Vec<Explanation>, CliError> {
    let name = args.object.name.as_str();
    let in_namespace = |key: &Key| {
        let of_namespace = args.namespace.as_ref();
        key.name == name && of_namespace.is_none_or(|namespace| key.namespace == *namespace)
    };
    let observed = &look.store.observed;
    let what = args.object.what.unwrap_or(What::Node);
    let found: Vec<Explanation> = match what {
        What::Node => match observed.nodes.get(name) {
            Some(seen) => node(look, seen),
            None => Vec::new(),
        },
        What::Run => {
            let runs = look.runs.iter().filter(|(key, _)| in_namespace(key));
            runs.map(|(key, decision)| run(look, key, decision)).collect()
        }
        What::Plan => {
            let plans = look.plans.iter().filter(|(key, _)| in_namespace(key));
            plans.map(|(key, decision)| plan(look, key, decision)).collect()
        }
        What::Maintenance => {
            let all = observed.maintenances.values();
            let views = all.filter(|view| in_namespace(&view.owner.key));
            views.map(|view| maintenance(look, view)).collect()
        }
        What::Rule => {
            let rules = look.store.rules().filter(|(key, _)| in_namespace(key));
            rules
                .map(|(key, rule)| {
                    let status = rule.status.as_ref();
                    verdict_of(
                        "MutexRule",
                        key,
                        status.map_or(&[], |status| status.conditions.as_slice()),
                    )
                })
                .collect()
        }
        What::Target => {
            let targets = observed
                .targets
                .values()
                .filter(|target| in_namespace(&target.key));
            targets
                .map(|target| verdict_of("MutexTarget", &target.key, &target.status.conditions))
                .collect()
        }
        What::Budget => {
            let budgets = observed.budgets.get(name).into_iter();
            budgets.map(|_| budget(look, name)).collect()
        }
        What::Binding => {
            let bindings = observed.bindings.get(name).into_iter();
            bindings.map(|view| binding(look, name, view)).collect()
        }
        What::Reason => vec![reason(name)?],
    };
    if !found.is_empty() {
        return Ok(found);
    }
    if let Some(hidden) = look::hidden(&look.unseen, what) {
        return Err(hidden);
    }
    Err(match (what, args.object.what) {
        // A name alone is a node's; who meant an owner is told so.
        (What::Node, None) => {
            let owners = look.runs.iter().map(|(key, _)| (What::Run, key));
            let owners = owners.chain(look.plans.iter().map(|(key, _)| (What::Plan, key)));
            let maintenances = observed
                .maintenances
                .keys()
                .map(|owner| (What::Maintenance, &owner.key));
            let meant = owners.chain(maintenances).find(|(_, key)| key.name == name);
            match meant {
                Some((what, _)) => CliError::Usage(format!(
                    "found no node {name}, but {0}/{name}: `numo explain {0}/{name}`",
                    what.singular()
                )),
                None => error::no_node(name),
            }
        }
        (What::Node, _) => error::no_node(name),
        (what, _) => {
            let place = args
                .namespace
                .as_ref()
                .map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
            let list = if what.is_owner() {
                "`numo status` lists owners and the nodes that wait".to_owned()
            } else {
                let all = if what.is_namespaced() { " -A" } else { "" };
                format!("list them with `kubectl get {}s{all}`", what.singular())
            };
            CliError::Usage(format!("found no {} {name}{place}; {list}", what.singular()))
        }
    })
}

impl Explanation {
    fn of(object: String, why: (Option<Reason>, String)) -> Self {
        let (reason, message) = why;
        let who = reason.map(Reason::who).filter(|who| *who != Who::Nobody);
        Self {
            object,
            reason,
            message,
            means: reason.map(Reason::meaning),
            ends_by: who.map(Who::phrase),
            ..Self::default()
        }
    }

    /// How an owner stands: ended by whoever ends it here, not by whoever ends its reason as a rule.
    fn of_owner(object: String, standing: Standing) -> Self {
        let Standing {
            reason, message, who, ..
        } = standing;
        Self {
            ends_by: Some(who).filter(|who| *who != Who::Nobody).map(Who::phrase),
            ..Self::of(object, (Some(reason), message))
        }
    }

    /// Whether this stands against the node beside its reason.
    fn tells(&self, reason: Reason) -> bool {
        self.also.iter().any(|gate| gate.reason == reason)
    }

    fn link(&mut self, what: &'static str, message: impl Into<String>) {
        self.chain.push(Link {
            what,
            message: message.into(),
        });
    }

    /// In flight nodes of the same owner, but for `but`.
    fn behind(&mut self, what: &'static str, report: &Report, but: &str) {
        let nodes = report
            .nodes
            .iter()
            .filter(|(name, node)| node.in_flight() && *name != but);
        for (name, node) in nodes.take(NAMED) {
            let message = format!(
                "Node {name}: {}, {}: {}",
                node.step.name(),
                node.why.reason,
                node.why.message
            );
            self.link(what, message);
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        let mut line = |label: &str, words: &str| {
            let _ = writeln!(text, "  {label:<8}{words}");
        };
        let reason = self.reason.map_or_else(String::new, |reason| {
            format!("{}: ", paint(output::of_reason(reason), reason.name()))
        });
        line("why", &format!("{reason}{}", self.message));
        if let Some(means) = self.means {
            line("means", means);
        }
        if let Some(who) = self.ends_by {
            line("ends", &format!("by {who}"));
        }
        for command in &self.commands {
            line("do", command);
        }
        for Gate {
            reason,
            message,
            ends_by,
        } in &self.also
        {
            let reason = paint(output::of_reason(*reason), reason.name());
            line("also", &format!("{reason}: {message}; ends by {ends_by}"));
        }
        if let Some(earliest) = &self.earliest {
            line("earliest", &earliest.words(now));
        }
        for Link { what, message } in &self.chain {
            line(what, message);
        }
        for word in &self.said {
            line(
                "said",
                &format!("{} ago: {}", ago(Some(&word.at), now), word.sentence()),
            );
        }
        if let Some(journal) = &self.journal {
            line(
                "journal",
                &format!("NodeChange {}, attempt {}", journal.change, journal.attempt),
            );
            for entry in &journal.entries {
                line(
                    "",
                    &format!("{:>4} ago  {}", ago(Some(&entry.at), now), entry.message),
                );
            }
            if !journal.log.is_empty() {
                line("log", "of the last rule:");
                // A rule writes what it likes: nobody takes it for an entry of numo's.
                for words in &journal.log {
                    line("", &format!("| {words}"));
                }
            }
        }
        format!("{}\n{text}", super::say::line(format_args!("{}", self.head(now))))
    }

    fn head(&self, now: Timestamp) -> String {
        let mut head = paint(output::head(), &self.object);
        let state = self.step.map(|step| paint(output::of_step(step), step.name()));
        if let Some(state) = state.or_else(|| self.phase.clone()) {
            let _ = write!(head, ": {state}");
            if let Some(since) = &self.since {
                let _ = write!(head, ", for {}", ago(Some(since), now));
            }
        }
        let pool = self.pool.as_ref().map(|pool| format!("pool {pool}"));
        let target = self.target.as_ref().map(|target| format!("to {target}"));
        let of: Vec<String> = [pool, self.owner.clone(), target].into_iter().flatten().collect();
        if !of.is_empty() {
            let _ = write!(head, " ({})", of.join(", "));
        }
        head
    }
}

fn node(look: &Look, seen: &NodeView) -> Vec<Explanation> {
    let name = seen.name.as_str();
    let mut found = Vec::new();
    for (key, decision) in &look.runs {
        if let Some(node) = decision.report.nodes.get(name) {
            found.push(of_node(look, seen, &Owner::run(key.clone()), decision, node));
        }
    }
    for (key, decision) in &look.plans {
        if let Some(node) = decision.report.nodes.get(name) {
            let mut one = of_node(look, seen, &Owner::plan(key.clone()), decision, node);
            if node.in_flight() {
                let Standing { reason, message, .. } = look::plan_words(look, key, &decision.report);
                one.chain.insert(
                    0,
                    Link {
                        what: "says",
                        message: format!("{reason}: {message}"),
                    },
                );
            }
            found.push(one);
        }
    }
    let maintenances = look.store.observed.maintenances.values();
    let named = maintenances.filter(|view| view.spec.node_name == name);
    found.extend(named.map(|view| maintenance(look, view)));
    if found.is_empty() {
        let mut one = Explanation::of(
            format!("Node {name}"),
            (
                None,
                "it belongs to no run: its primary pool is in no target of a MutexRunConfig, no Plan selects it, \
                 and no NodeMaintenance names it"
                    .to_owned(),
            ),
        );
        around(&mut one, look, seen, None);
        found.push(one);
    }
    found
}

/// Why a node is where it is, for one owner.
fn of_node(
    look: &Look,
    seen: &NodeView,
    owner: &Owner,
    decision: &Decision,
    node: &NodeReport,
) -> Explanation {
    let why = (Some(node.why.reason), node.why.message.to_string());
    let report = &decision.report;
    let mut one = Explanation {
        owner: Some(owner.to_string()),
        commands: cure::of_node(look, owner, report, &seen.name, node),
        step: Some(node.step),
        since: node.since.clone(),
        pool: Some(node.pool.to_string()).filter(|pool| !pool.is_empty()),
        target: Some(report.target.clone().unwrap_or_else(|| "?".to_owned())),
        earliest: earliest(look, decision, node),
        also: also(look, owner, &seen.name, node.why.reason),
        ..Explanation::of(format!("Node {}", seen.name), why)
    };
    if let Some(who) = node.why.ended_by {
        one.ends_by = Some(who.phrase());
    }
    // A maintenance is not over by itself.
    if node.why.reason == Reason::NodeBusy && !one.commands.is_empty() {
        one.ends_by = Some("whoever keeps the node in maintenance");
    }
    let holds = |reason: Reason| matches!(reason, Reason::Suspended | Reason::Aborted | Reason::RunGivenUp);
    if holds(node.why.reason) || report.hold.as_ref().is_some_and(|hold| holds(hold.reason)) {
        let annotations = look.annotations(owner);
        let said = Word::kept(annotations.and_then(|all| all.get(marks::SAID)));
        one.said.extend(said.into_iter().next_back());
    }
    if matches!(
        node.why.reason,
        Reason::WaitingForTurn
            | Reason::BudgetExhausted
            | Reason::MutexKeyBusy
            | Reason::FirstNodes
            | Reason::NodeBusy
            | Reason::EtcdQuorum
    ) {
        one.behind("behind", report, &seen.name);
    }
    let is_told = |hold: &&Why| hold.reason == node.why.reason || one.tells(hold.reason);
    if let Some(hold) = report.hold.as_ref().filter(|hold| !is_told(hold)) {
        one.link("owner", format!("{}: {}", hold.reason, hold.message));
    }
    let pools = report.pools.iter().filter(|pool| *pool.name == *node.pool);
    for pool in pools {
        let paused = match (pool.paused, pool.ours) {
            (true, true) => "paused by numo",
            (true, false) => "paused by another",
            (false, _) => "not paused",
        };
        let message = format!(
            "MachineConfigPool {} is {paused}, {} of its {} nodes would roll",
            pool.name, pool.outdated, pool.nodes
        );
        one.link("pool", message);
    }
    if node.step != Step::Done {
        around(&mut one, look, seen, Some(owner));
    }
    if matches!(node.why.reason, Reason::Changing | Reason::ChangeTimeout)
        && seen.unschedulable
        && let Some(pod) = one.chain.iter().find(|link| link.what == "pod")
    {
        one.earliest = Some(Earliest::hangs_on(format!(
            "when its drain gets past this: {}",
            pod.message
        )));
    }
    one.journal = look.change_of(node).map(journal);
    one
}

/// What stands against the turn of a node beside the reason that is told.
fn also(look: &Look, owner: &Owner, node: &str, told: Reason) -> Vec<Gate> {
    let snapshot = Snapshot {
        now: look.now,
        observed: &look.store.observed,
        owner,
        asked: Some(node),
    };
    let report = decide(&snapshot, &Answers::default()).report;
    let first = report.nodes.get(node).map(|node| node.why.clone());
    // Where the operator knows better why the node waits, a gate that only this command sees may be open by now.
    let is_first = first.is_some_and(|why| why.reason == told);
    let rest = report.also.into_iter().filter(|_| is_first);
    rest.map(Gate::from).collect()
}

/// What stands around a node: budgets, lease, cordon, readiness, and pods that a drain would not get past.
fn around(one: &mut Explanation, look: &Look, seen: &NodeView, owner: Option<&Owner>) {
    let observed = &look.store.observed;
    let uses = Ledger::of(observed, look.now).uses();
    let of_node = |used: &&ledger::Use<'_>| {
        let group = used.budget.group_by.as_ref().map_or("", |key| seen.label(key));
        ledger::covers(used.budget, seen) && used.group == group
    };
    for used in uses.iter().filter(of_node) {
        let allowed = used
            .allowed
            .map_or_else(|| "?".to_owned(), |allowed| allowed.to_string());
        let paused = if used.budget.paused { ", paused" } else { "" };
        let message = format!(
            "MutexBudget {}: {} of {allowed} allowed are unavailable of {} nodes{paused}",
            used.budget.name,
            used.unavailable.len(),
            used.nodes
        );
        one.link("budget", message);
        if used.budget.paused {
            one.said
                .extend(Word::kept(used.budget.annotations.get(marks::SAID)).pop());
        }
    }
    around_lease(one, observed, seen);
    if seen.unschedulable && !one.tells(Reason::CordonedByOther) {
        one.link("node", "it is cordoned");
    }
    if !seen.ready && !one.tells(Reason::NodeNotReady) {
        one.link("node", "it is not Ready");
    }
    if let Some(leaving) = seen.leaving.as_ref().filter(|_| !one.tells(Reason::NodeLeaving)) {
        one.link("node", leaving.why.clone());
    }
    // By the owner's own way to drain; one that drains no node meets nothing.
    let options = match owner {
        Some(owner) => look::drain_options(observed, owner),
        None => Some(DrainOptions::of_machine_config()),
    };
    let found = options.map(|options| forecast(observed, &Surroundings::default(), seen, &options, look.now));
    let obstacles = found.into_iter().flatten().flatten();
    let hard: Vec<_> = obstacles.filter(|one| one.weight < Weight::Costs).collect();
    for obstacle in hard.iter().take(NAMED) {
        one.link("pod", obstacle.message.clone());
    }
    if hard.len() > NAMED {
        one.link("pod", format!("and {} more", hard.len() - NAMED));
    }
}

/// Who holds the lease of a node, and until when.
fn around_lease(one: &mut Explanation, observed: &Observed, seen: &NodeView) {
    if let Some(lease) = observed
        .leases
        .get(&seen.name)
        .filter(|lease| !lease.holder.is_empty())
    {
        let until = lease.renewed.and_then(|renewed| {
            let until = renewed.as_second() + lease.duration_seconds;
            Timestamp::from_second(until).ok()
        });
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        let holder = holder(observed, &lease.holder);
        one.link("lease", format!("{holder} holds the lease of the node{until}"));
    }
}

/// Who holds a lease: numo for an owner, by its name, or whoever it is.
fn holder(observed: &Observed, holder: &str) -> String {
    let Some((_, uid)) = holder.strip_prefix("numo/").and_then(|rest| rest.split_once('/')) else {
        return holder.to_owned();
    };
    let runs = observed.runs.iter();
    let runs = runs.map(|(key, run)| (Owner::run(key.clone()), &run.uid));
    let plans = observed.plans.iter();
    let plans = plans.map(|(key, plan)| (Owner::plan(key.clone()), &plan.uid));
    let mut owners = runs.chain(plans);
    owners.find(|(_, known)| *known == uid).map_or_else(
        || format!("numo ({holder}, which is gone)"),
        |(owner, _)| format!("numo, for {owner},"),
    )
}

/// When a node could move at the earliest: where time alone decides, when; else what it hangs on, and what is known of that.
fn earliest(look: &Look, decision: &Decision, node: &NodeReport) -> Option<Earliest> {
    let why = match node.why.reason {
        Reason::StartsLater => "startAfter is over",
        reason if reason.is_of_hours() => "the window opens",
        Reason::Soaking => "spec.soakSeconds are over",
        Reason::CompleteDelay => "spec.postCompleteDelay is over",
        Reason::NodeLeaseHeld => "the lease of the other controller ends",
        Reason::VersionUnresolved => "the channel is asked again",
        Reason::WaitingForTurn => return Some(first_turn(look, decision)),
        Reason::RuleWaits | Reason::RuleRunning => return Some(rule_at_last(look, node)),
        _ => return None,
    };
    // The channel is asked for the whole Plan; the others end for this node.
    let at = match node.why.reason {
        Reason::VersionUnresolved => decision.wake_at,
        _ => node.why.until,
    };
    Some(Earliest::at(at.filter(|at| *at > look.now)?, why))
}

/// When the first of the nodes in flight is done, by what the others took.
fn first_turn(look: &Look, decision: &Decision) -> Earliest {
    let Some(pace) = eta::pace(&decision.report, &look.store.observed, look.now) else {
        return Earliest::hangs_on(
            "when a node in flight is done; no node of this run is yet, so nobody knows how long one takes",
        );
    };
    let basis = format!(
        "{} each in the median of {}",
        numo_core::time::words(pace.median_seconds),
        pace.of
    );
    match pace.under_way.iter().min() {
        Some(0) => Earliest::hangs_on(format!(
            "when a node in flight is done; one takes longer than the others did ({basis})"
        )),
        Some(left) => Earliest::at(
            later(look.now, *left),
            format!("the first node in flight is done, if it takes what the others did ({basis})"),
        ),
        None => Earliest::hangs_on("when what holds it is over"),
    }
}

/// When the rule that is asked passes, or has used up its time.
fn rule_at_last(look: &Look, node: &NodeReport) -> Earliest {
    let observed = &look.store.observed;
    let wait = look
        .change_of(node)
        .and_then(|change| change.status.rule_waits.last());
    let deadline = wait.and_then(|wait| {
        let mut rules = observed.rules.values();
        let rule = rules.find(|rule| rule.key.to_string() == wait.rule)?;
        let since: Timestamp = wait.since.parse().ok()?;
        Some((wait, later(since, rule.timeout_seconds), rule.timeout_seconds))
    });
    match deadline {
        Some((wait, at, seconds)) => Earliest::hangs_on(format!(
            "when rule {} passes; at {} it has failed, if it has not passed within timeoutSeconds {seconds}",
            wait.rule,
            second(at)
        )),
        None => Earliest::hangs_on("when its rule has passed"),
    }
}

/// What a maintenance of the node waits for, and who can end it.
fn maintenance(look: &Look, view: &MaintenanceView) -> Explanation {
    let status = &view.status;
    let reason = view.spec.reason.as_deref();
    let reason = reason.map_or_else(String::new, |reason| format!(" \"{reason}\""));
    let mut one = Explanation {
        phase: Some(format!(
            "maintenance {}",
            status.phase.as_deref().unwrap_or("not begun")
        )),
        owner: Some(format!("{}{reason}", view.owner)),
        said: Word::kept(view.annotations.get(marks::SAID)),
        ..Explanation::of(
            format!("Node {}", view.spec.node_name),
            look::maintenance_words(look, view),
        )
    };
    // Stalled beside others' turns: none of those ends by itself.
    let mut conditions = status.conditions.iter();
    let stalled = conditions.any(|one| one.type_ == types::STALLED && one.status == "True");
    let is_a_persons = stalled && one.reason.map(Reason::who) == Some(Who::OtherNode);
    if is_a_persons {
        one.ends_by = Some(Who::ClusterAdmin.phrase());
    }
    if let Some(reason) = one.reason.filter(|_| one.ends_by.is_some()) {
        let wait = cure::Wait {
            look,
            owner: &view.owner,
            report: None,
            node: Some(&view.spec.node_name),
            reason,
            who: if is_a_persons {
                Who::ClusterAdmin
            } else {
                reason.who()
            },
            message: &one.message,
        };
        one.commands = wait.commands();
    }
    if let Some(reason) = one.reason {
        one.also = also(look, &view.owner, &view.spec.node_name, reason);
    }
    let total = status.eviction_pods.unwrap_or(0);
    if total > 0 {
        let done = status.drain_progress.unwrap_or(0);
        one.link("drained", format!("{done}% of {total} pods"));
    }
    let pods = status.pending_pods_refs.as_deref().unwrap_or_default();
    for pod in pods.iter().take(NAMED) {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        one.link("left", format!("Pod {namespace}/{}", pod.name));
    }
    if pods.len() > NAMED {
        one.link("left", format!("and {} more", pods.len() - NAMED));
    }
    if let Some(seen) = look.store.observed.nodes.get(&view.spec.node_name)
        && status.phase.as_deref() != Some("Succeeded")
    {
        around(&mut one, look, seen, Some(&view.owner));
    }
    let mut changes = look.store.observed.changes.values();
    one.journal = changes
        .find(|change| change.spec.owner_ref.uid == view.uid)
        .map(journal);
    one
}

/// Steps and verdicts, in the order of their times.
fn journal(change: &ChangeView) -> Journal {
    let status = &change.status;
    let steps = status.entries.iter().map(|entry| {
        let why = entry
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        Entry {
            at: entry.at.clone(),
            message: format!("{}{why}", entry.step.name()),
        }
    });
    let verdicts = status.verdicts.iter().map(|verdict| {
        let outcome = match verdict.outcome {
            Outcome::Pass => "passed",
            Outcome::Failure => "failed",
            Outcome::ContinuedAfterFailure => "failed, and was passed over",
        };
        let code = verdict
            .exit_code
            .map_or_else(String::new, |code| format!(", exit code {code}"));
        let message = format!(
            "rule {} {outcome} in {} (attempt {}{code}) {}",
            verdict.rule,
            verdict.phase.name(),
            verdict.attempt,
            verdict.message.as_deref().unwrap_or_default()
        );
        Entry {
            at: verdict.at.clone(),
            message: message.trim_end().to_owned(),
        }
    });
    // What was said of the node, each word with its own time.
    let said = Word::kept(change.annotations.get(marks::SAID));
    let is_told = |directive: &Directive| {
        let verb = format!("{:?}", directive.action).to_lowercase();
        said.last()
            .is_some_and(|word| word.verb == verb && word.reason == directive.reason)
    };
    let directive = change
        .spec
        .directive
        .as_ref()
        .filter(|directive| !is_told(directive));
    let words = said.iter().map(|word| Entry {
        at: word.at.clone(),
        message: word.sentence(),
    });
    let mut entries: Vec<Entry> = steps.chain(verdicts).chain(words).collect();
    entries.sort_by_key(|entry| entry.at.parse::<Timestamp>().ok());
    // Written by another hand than ours: nobody knows when.
    let directive = directive.map(|directive| {
        let by = directive.by.as_deref().unwrap_or("someone");
        let why = directive
            .reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {why}"));
        format!("directive {:?} by {by}{why}", directive.action)
    });
    if let Some(message) = directive {
        let at = entries
            .last()
            .map_or_else(|| change.created.to_string(), |entry| entry.at.clone());
        entries.push(Entry { at, message });
    }
    let log = status.log_tail.as_deref().unwrap_or_default();
    let log: Vec<String> = log.lines().map(ToOwned::to_owned).collect();
    Journal {
        change: change.key.to_string(),
        attempt: status.attempt.max(1),
        entries,
        log: log[log.len().saturating_sub(5)..].to_vec(),
    }
}

/// A Plan: what it waits for, who can end it, and its nodes in flight.
fn plan(look: &Look, key: &Key, decision: &Decision) -> Explanation {
    let report = &decision.report;
    let standing = look::plan_words(look, key, report);
    let (reason, who) = (standing.reason, standing.who);
    let mut one = Explanation::of_owner(format!("Plan {key}"), standing);
    let said = (reason, who, one.message.as_str());
    one.commands = cure::of_owner(look, &Owner::plan(key.clone()), report, said);
    one.target.clone_from(&report.target);
    if !report.nodes.is_empty() {
        one.link("nodes", progress(look, report));
    }
    one.behind("flight", report, "");
    let view = look.store.observed.plans.get(key);
    one.said = view.map_or_else(Vec::new, |view| Word::kept(view.annotations.get(marks::SAID)));
    one
}

fn progress(look: &Look, report: &Report) -> String {
    let done = report.count(|node| node.step == Step::Done);
    let eta = look::eta_words(look::eta(look, report).as_ref());
    format!("{done} of {} done; {eta}", report.nodes.len())
}

fn run(look: &Look, key: &Key, decision: &Decision) -> Explanation {
    let report = &decision.report;
    let standing = look::said(look, key, report);
    let (reason, who) = (standing.reason, standing.who);
    let mut one = Explanation::of_owner(format!("MutexRunConfig {key}"), standing);
    let said = (reason, who, one.message.as_str());
    one.commands = cure::of_owner(look, &Owner::run(key.clone()), report, said);
    one.target.clone_from(&report.target);
    for problem in &report.problems {
        one.link("wrong", format!("{}: {}", problem.reason, problem.message));
    }
    let view = look.store.observed.runs.get(key);
    if let Some(run) = view.and_then(|run| run.status.run.as_ref()) {
        for verdict in run
            .verdicts
            .iter()
            .filter(|verdict| verdict.phase == Phase::PreRun)
        {
            let message = format!(
                "rule {} {:?} in {}: {}",
                verdict.rule,
                verdict.outcome,
                verdict.phase.name(),
                verdict.message.as_deref().unwrap_or_default()
            );
            one.link("rule", message);
        }
        for wait in &run.waiting {
            let message = format!(
                "{} node(s), for example {}: {}: {}",
                wait.count, wait.node, wait.reason, wait.message
            );
            one.link("waits", message);
        }
        for node in &run.ungated {
            one.link("ungated", format!("Node {node} changed without its rules"));
        }
    }
    if !report.nodes.is_empty() {
        one.link("nodes", progress(look, report));
    }
    one.behind("flight", report, "");
    one.said = view.map_or_else(Vec::new, |view| Word::kept(view.annotations.get(marks::SAID)));
    one
}

/// How much of a budget is in use, by whom, and who waits for it.
fn budget(look: &Look, name: &str) -> Explanation {
    let uses = Ledger::of(&look.store.observed, look.now).uses();
    let of_budget: Vec<_> = uses.iter().filter(|used| used.budget.name == name).collect();
    let paused = look
        .store
        .observed
        .budgets
        .get(name)
        .is_some_and(|budget| budget.paused);
    let full = |used: &&&ledger::Use<'_>| {
        used.allowed
            .is_some_and(|allowed| used.unavailable.len() >= allowed)
    };
    let limit = look.store.observed.budgets.get(name);
    let limit = limit.map(|budget| &budget.max_unavailable);
    let why = match (of_budget.iter().find(full), limit) {
        _ if paused => (
            Some(Reason::Stopped),
            format!(
                "MutexBudget/{name} has spec.paused: true; start again with `{}`",
                ledger::start_command(name)
            ),
        ),
        (_, Some(Err(problem))) => (
            Some(Reason::InvalidField),
            format!(
                "spec.maxUnavailable: {problem}; until that is mended no further node of it may become unavailable"
            ),
        ),
        _ if of_budget.is_empty() => (None, "its spec.nodeSelector selects no node".to_owned()),
        (Some(used), _) if used.allowed == Some(0) => (
            Some(Reason::BudgetExhausted),
            format!(
                "spec.maxUnavailable is 0: none of its {} nodes may become unavailable, until that is raised",
                used.nodes
            ),
        ),
        (Some(used), _) => (
            Some(Reason::BudgetExhausted),
            format!(
                "{} of {} nodes are unavailable, {} may be",
                used.unavailable.len(),
                used.nodes,
                used.allowed.unwrap_or(0)
            ),
        ),
        (None, _) => (None, "it lets further nodes become unavailable".to_owned()),
    };
    let closed = limit.is_some_and(Result::is_err)
        || of_budget.iter().any(|used| used.allowed == Some(0))
        || of_budget.iter().find(full).is_some_and(|used| !used.makes_room);
    let mut one = Explanation::of(format!("MutexBudget {name}"), why);
    match one.reason {
        Some(Reason::Stopped) => one.commands = vec![ledger::start_command(name)],
        // No node in flight ends it: it is 0 or invalid, or filled by nodes that are dead, cordoned, held or kept.
        Some(_) if closed => {
            one.ends_by = Some(Who::ClusterAdmin.phrase());
            one.commands = vec![format!("kubectl edit mutexbudget {name}")];
        }
        _ => {}
    }
    for used in of_budget {
        let group = used
            .budget
            .group_by
            .as_ref()
            .map_or_else(String::new, |key| format!("{key}={}: ", used.group));
        let allowed = used
            .allowed
            .map_or_else(|| "?".to_owned(), |allowed| allowed.to_string());
        let names: Vec<&str> = used.unavailable.iter().copied().take(NAMED).collect();
        let message = format!(
            "{group}{} of {allowed} allowed, of {} nodes: {}",
            used.unavailable.len(),
            used.nodes,
            names.join(", ")
        );
        one.link("in use", message);
    }
    let view = look.store.observed.budgets.get(name);
    one.said = view.map_or_else(Vec::new, |view| Word::kept(view.annotations.get(marks::SAID)));
    one
}

/// What a binding gates, or why it gates nothing.
fn binding(look: &Look, name: &str, view: &BindingView) -> Explanation {
    let observed = &look.store.observed;
    let (ready, why) = binding::state(view, observed);
    let mut one = Explanation {
        phase: Some(if ready { "valid" } else { "not valid" }.to_owned()),
        ..Explanation::of(
            format!("MutexBinding {name}"),
            (Some(why.reason), why.message.to_string()),
        )
    };
    let owners = binding::owners_of(&view.spec, observed);
    for owner in owners.iter().take(NAMED) {
        one.link("gates", owner.to_string());
    }
    if owners.len() > NAMED {
        one.link("gates", format!("and {} more", owners.len() - NAMED));
    }
    if !ready {
        one.commands = vec![format!("kubectl edit mutexbinding {name}")];
    }
    one
}

fn verdict_of(kind: &str, key: &Key, conditions: &[numo_api::Condition]) -> Explanation {
    let valid = conditions
        .iter()
        .find(|condition| condition.type_ == types::VALID_CONFIG);
    let object = format!("{kind} {key}");
    let Some(condition) = valid else {
        return Explanation {
            phase: Some("not judged yet; is numo running?".to_owned()),
            ..Explanation::of(object, (None, "it has no condition ValidConfig".to_owned()))
        };
    };
    let is_valid = condition.status == "True";
    let reason = Reason::ALL
        .iter()
        .find(|reason| condition.reason.as_deref() == Some(reason.name()));
    let mut one = Explanation {
        phase: Some(if is_valid { "valid" } else { "not valid" }.to_owned()),
        ..Explanation::of(
            object,
            (reason.copied(), condition.message.clone().unwrap_or_default()),
        )
    };
    for other in conditions
        .iter()
        .filter(|other| other.type_ != types::VALID_CONFIG)
    {
        let message = format!(
            "{} {}: {}",
            other.type_,
            other.status,
            other.message.as_deref().unwrap_or_default()
        );
        one.link("also", message);
    }
    one
}
