//! Why a node is where it is, for each of its owners.

use super::{
    earliest::earliest,
    explanation::{Earliest, Explanation, Link},
    gates::also,
    journal::journal,
    maintenance::maintenance,
    surroundings::around,
};
use crate::{
    cli::{
        live::{self, Look},
        named::Named,
        remarked::Remark,
        remedy,
    },
    frontends::standing::Standing,
    shell::project::Kind,
};
use numo_api::{Reason, Step, marks};
use numo_core::{
    Decision, Owner,
    observed::{Key, NodeView},
    report::{NodeReport, Report, Why},
    suspended::suspended,
};

/// Why a node is where it is, for each of its owners: those of the namespace, where one is given, and those that have none.
pub(super) fn node(look: &Look, seen: &NodeView, namespace: Option<&str>) -> Vec<Explanation> {
    let name = seen.name.as_str();
    let mut found = Vec::new();
    let is_meant = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
    for (key, decision) in look.runs.iter().filter(|(key, _)| is_meant(key)) {
        if let Some(node) = decision.report.nodes.get(name) {
            found.push(of_node(look, seen, &Owner::run(key.clone()), decision, node));
        }
    }
    for (key, decision) in look.plans.iter().filter(|(key, _)| is_meant(key)) {
        if let Some(node) = decision.report.nodes.get(name) {
            let mut one = of_node(look, seen, &Owner::plan(key.clone()), decision, node);
            if node.in_flight() {
                let Standing { reason, message, .. } = live::plan_words(look, key, &decision.report);
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
    for (key, decision) in &look.versions {
        if let Some(node) = decision.report.nodes.get(name) {
            let owner = Owner::node_version(key.name.as_str());
            found.push(of_node(look, seen, &owner, decision, node));
        }
    }
    let maintenances = look.store.observed.maintenances.values();
    let named = maintenances.filter(|view| view.spec.node_name == name);
    found.extend(named.map(|view| maintenance(look, view)));
    if found.is_empty() {
        let place = namespace.map_or_else(String::new, |namespace| format!(" of namespace {namespace}"));
        let message = format!(
            "it belongs to no run: its primary pool is in no target of a MutexRunConfig{place}, no Plan{place} selects it, \
             and no NodeMaintenance names it"
        );
        let mut one = Explanation::of(Named::of_cluster(Kind::Node, name), (None, message));
        around(&mut one, look, seen, None);
        found.push(one);
    }
    found
}

/// Why a node is where it is, for one owner.
pub(super) fn of_node(
    look: &Look,
    seen: &NodeView,
    owner: &Owner,
    decision: &Decision,
    node: &NodeReport,
) -> Explanation {
    let why = (Some(node.why.reason), node.why.message.to_string());
    let report = &decision.report;
    let mut one = Explanation {
        owner: Some(Named::owner(owner)),
        commands: remedy::of_node(look, owner, report, &seen.name, node),
        step: Some(node.step),
        since: node.since.clone(),
        pool: Some(node.pool.to_string()).filter(|pool| !pool.is_empty()),
        target: Some(report.target.clone().unwrap_or_else(|| "?".to_owned())),
        earliest: earliest(look, owner, (decision, node)),
        also: also(look, owner, &seen.name, node.why.reason),
        ..Explanation::of(Named::of_cluster(Kind::Node, &seen.name), why)
    };
    if !node.step.is_terminal() {
        one.tell_pause(suspended(&look.store.observed, owner));
    }
    say_who_ends_it(&mut one, node);
    one.directives.extend(hold_said(look, owner, node, report));
    if matches!(
        node.why.reason,
        Reason::WaitingForTurn
            | Reason::BudgetExhausted
            | Reason::MutexKeyBusy
            | Reason::FirstNodes
            | Reason::WaitsForWave
            | Reason::OtherDomain
            | Reason::NodeBusy
            | Reason::EtcdQuorum
            | Reason::ControlPlaneFirst
    ) {
        one.behind("behind", report, &seen.name);
    }
    let is_told = |hold: &&Why| hold.reason == node.why.reason || one.tells(hold.reason);
    if let Some(hold) = report.hold.as_ref().filter(|hold| !is_told(hold)) {
        one.link("owner", format!("{}: {}", hold.reason, hold.message));
    }
    pools(&mut one, report, node);
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

/// Who ends this wait, where that is not who ends its reason as a rule.
fn say_who_ends_it(one: &mut Explanation, node: &NodeReport) {
    if let Some(who) = node.why.ended_by {
        one.ends_by = Some(who.phrase());
    }
    // A maintenance is not over by itself.
    if node.why.reason == Reason::NodeBusy && !one.commands.is_empty() {
        one.ends_by = Some("whoever keeps the node in maintenance");
    }
}

/// The last word of who holds the owner, if its hold is why the node waits.
fn hold_said(look: &Look, owner: &Owner, node: &NodeReport, report: &Report) -> Option<Remark> {
    let holds = |reason: Reason| matches!(reason, Reason::Suspended | Reason::Aborted | Reason::RunGivenUp);
    if !holds(node.why.reason) && !report.hold.as_ref().is_some_and(|hold| holds(hold.reason)) {
        return None;
    }
    let annotations = look.annotations(owner);
    let said = Remark::kept(annotations.and_then(|all| all.get(marks::SAID)));
    said.into_iter().next_back()
}

/// The MachineConfigPool of the node, and whether it is paused.
fn pools(one: &mut Explanation, report: &Report, node: &NodeReport) {
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
}
