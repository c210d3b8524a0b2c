//! All that is shown, as data and as text.

use super::{
    budget::{BudgetLine, budgets, used},
    left::{LeftLine, left_behind, shown_left},
    maintenance::{MaintenanceLine, maintained},
    owner::OwnerLine,
};
use crate::cli::{
    error::CliError,
    live::{self, Look, plan_words, said},
    object::What,
    output::OutputArgs,
};
use numo_core::observed::Key;
use serde::Serialize;

/// All that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture {
    pub(super) owners: Vec<OwnerLine>,
    pub(super) maintenances: Vec<MaintenanceLine>,
    pub(super) budgets: Vec<BudgetLine>,
    /// Marks whose owner is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) left_behind: Vec<LeftLine>,
    pub(super) unseen: Vec<String>,
    /// That no numo leads, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle: Option<String>,
}

/// Which owners are shown.
pub(super) struct Selection<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) what: Option<What>,
    pub(super) name: Option<&'a str>,
}

impl Selection<'_> {
    fn takes(&self, what: What, key: &Key) -> bool {
        let of_kind = self.what.is_none_or(|wanted| wanted == what);
        let of_namespace = self.namespace.is_none_or(|namespace| key.namespace == namespace);
        of_kind && of_namespace && self.name.is_none_or(|name| key.name == name)
    }
}

impl Picture {
    pub(super) fn of(look: &Look, selection: &Selection<'_>) -> Self {
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
    pub(super) fn check(&self, selection: &Selection<'_>) -> Result<(), CliError> {
        if !self.owners.is_empty() || !self.maintenances.is_empty() {
            return Ok(());
        }
        let place = selection
            .namespace
            .map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let meant = selection.what.unwrap_or(What::Run);
        if let Some(hidden) = live::hidden(&self.unseen, meant) {
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

    pub(super) fn print(&self, look: &Look, output: OutputArgs) -> Result<(), CliError> {
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

    pub(super) fn text(&self, look: &Look, output: OutputArgs) -> String {
        let mut parts: Vec<String> = self.owners.iter().map(|owner| owner.text(look, output)).collect();
        if !self.maintenances.is_empty() {
            parts.push(maintained(&self.maintenances, look, output));
        }
        let budgets = used(&self.budgets, output);
        if !budgets.is_empty() {
            parts.push(budgets);
        }
        if !self.left_behind.is_empty() {
            parts.push(shown_left(&self.left_behind, output));
        }
        parts.join("\n")
    }
}
