//! What `numo doctor` looks at: an installation from outside, as its administrator sees it. It reads, asks the API server who
//! may do what, and tries one object by dry run; it writes nothing, and the operator never asks it.
//!
//! This page is the order of the checks; each group of them has a file of its own, and none of those imports this one.

mod approvals;
mod definitions;
mod deployment;
mod drains;
mod finding;
mod installation;
mod leader;
mod left_behind;
mod machines;
mod networks;
mod objects;
mod permissions;
mod plan_writers;
mod registries;
mod rivals;
mod webhook;

pub use self::finding::{Finding, State, counted};

use self::{
    approvals::approvals,
    definitions::{definitions, version},
    drains::drains,
    finding::Findings,
    installation::{installation, placement},
    leader::{leader, turned_away},
    left_behind::left_behind,
    machines::machines,
    networks::networks,
    objects::{bindings, budgets, notifiers, plans, rules, runs, windows},
    permissions::{permissions, token_policies},
    plan_writers::writers_of_plans,
    registries::{registries, signatures},
    rivals::others,
    webhook::webhook,
};
use crate::shell::{client::Connection, eval::artifact::ArtifactOptions};

/// How much `numo doctor` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The installation, and what people have made of numo's kinds.
    All,
    /// The installation alone: what is wrong in it was not made by the author of a rule or a run.
    Installation,
}

/// Looks at the installation in `namespace`, and asks registries as `artifacts` say. What cannot be read is a finding, not an
/// error.
pub async fn examine(
    connection: &Connection,
    namespace: &str,
    artifacts: ArtifactOptions,
    scope: Scope,
) -> Vec<Finding> {
    let mut found = Findings {
        check: "",
        all: Vec::new(),
    };
    found.check = "Version";
    version(connection, &mut found).await;
    found.check = "Definitions";
    definitions(connection, &mut found).await;
    found.check = "Installation";
    installation(connection, namespace, &mut found).await;
    placement(connection, namespace, &mut found).await;
    found.check = "Leader";
    leader(connection, namespace, &mut found).await;
    found.check = "Permissions";
    permissions(connection, namespace, &mut found).await;
    found.check = "Machines";
    machines(connection, namespace, &mut found).await;
    found.check = "TokenPolicies";
    token_policies(connection, &mut found).await;
    found.check = "OtherOperators";
    others(connection, &mut found).await;
    found.check = "Webhook";
    webhook(connection, namespace, &mut found).await;
    found.check = "Networks";
    networks(connection, namespace, &mut found).await;
    if scope == Scope::All {
        what_people_made(connection, namespace, artifacts, &mut found).await;
    }
    found.all
}

/// The objects of numo's kinds, and what lies behind them.
async fn what_people_made(
    connection: &Connection,
    namespace: &str,
    artifacts: ArtifactOptions,
    found: &mut Findings,
) {
    found.check = "KeptObjects";
    turned_away(connection, namespace, found).await;
    found.check = "PlanWriters";
    writers_of_plans(connection, namespace, found).await;
    found.check = "LeftBehind";
    left_behind(connection, found).await;
    found.check = "Rules";
    let all = rules(connection, found).await;
    found.check = "Bindings";
    bindings(connection, found).await;
    found.check = "Budgets";
    budgets(connection, found).await;
    found.check = "Windows";
    windows(connection, found).await;
    found.check = "Notifiers";
    notifiers(connection, found).await;
    found.check = "Approvals";
    approvals(connection, found).await;
    found.check = "Runs";
    runs(connection, found).await;
    found.check = "Plans";
    plans(connection, found).await;
    found.check = "Drains";
    drains(connection, found).await;
    found.check = "Signatures";
    signatures(connection, namespace, found).await;
    found.check = "Registries";
    registries(connection, namespace, artifacts, &all, found).await;
}

/// The same, but only for what an owner needs: definitions, rights, and that no other operator works on the same objects.
pub async fn needs(connection: &Connection, namespace: &str) -> Vec<Finding> {
    let mut found = Findings {
        check: "Definitions",
        all: Vec::new(),
    };
    definitions(connection, &mut found).await;
    found.check = "Permissions";
    permissions(connection, namespace, &mut found).await;
    found.check = "OtherOperators";
    others(connection, &mut found).await;
    found.all
}
