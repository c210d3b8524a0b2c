//! What `numo doctor` looks at: an installation from outside, as its administrator sees it. It reads, asks the API server who
//! may do what, and tries one object by dry run; it writes nothing, and the operator never asks it.
//!
//! This page is the order of the checks; each group of them has a file of its own, and none of those imports this one.

mod definitions;
mod deployment;
mod finding;
mod installation;
mod leader;
mod left_behind;
mod networks;
mod objects;
mod permissions;
mod plan_writers;
mod registries;
mod rivals;
mod webhook;

pub use self::finding::{Finding, State, counted};

use self::{
    definitions::{definitions, version},
    finding::Findings,
    installation::{installation, placement},
    leader::{leader, turned_away},
    left_behind::left_behind,
    networks::networks,
    objects::{bindings, budgets, notifiers, plans, rules, runs, windows},
    permissions::{permissions, token_policies},
    plan_writers::writers_of_plans,
    registries::{registries, signatures},
    rivals::others,
    webhook::webhook,
};
use crate::shell::{client::Connection, eval::artifact::ArtifactOptions};

/// Looks at the installation in `namespace`, and asks registries as `artifacts` say. What cannot be read is a finding, not an
/// error.
pub async fn examine(connection: &Connection, namespace: &str, artifacts: ArtifactOptions) -> Vec<Finding> {
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
    found.check = "KeptObjects";
    turned_away(connection, namespace, &mut found).await;
    found.check = "Permissions";
    permissions(connection, namespace, &mut found).await;
    found.check = "TokenPolicies";
    token_policies(connection, &mut found).await;
    found.check = "PlanWriters";
    writers_of_plans(connection, namespace, &mut found).await;
    found.check = "OtherOperators";
    others(connection, &mut found).await;
    found.check = "Webhook";
    webhook(connection, namespace, &mut found).await;
    found.check = "LeftBehind";
    left_behind(connection, &mut found).await;
    found.check = "Rules";
    let all = rules(connection, &mut found).await;
    found.check = "Bindings";
    bindings(connection, &mut found).await;
    found.check = "Budgets";
    budgets(connection, &mut found).await;
    found.check = "Windows";
    windows(connection, &mut found).await;
    found.check = "Notifiers";
    notifiers(connection, &mut found).await;
    found.check = "Runs";
    runs(connection, &mut found).await;
    found.check = "Plans";
    plans(connection, &mut found).await;
    found.check = "Signatures";
    signatures(connection, namespace, &mut found).await;
    found.check = "Networks";
    networks(connection, namespace, &mut found).await;
    found.check = "Registries";
    registries(connection, namespace, artifacts, &all, &mut found).await;
    found.all
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
