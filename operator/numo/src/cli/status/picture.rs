//! All that is shown, as data and as text.

use super::{
    binding::{self, BindingLine, bindings},
    budget::{BudgetLine, budgets, used},
    left::{LeftLine, left_behind, shown_left},
    maintenance::{MaintenanceLine, maintained},
    owner::OwnerLine,
    window::{WindowLine, shown, windows},
};
use crate::{
    cli::{
        error::CliError,
        live::{self, Look, plan_words, said, version_words},
        named::Named,
        object::What,
        output::{self, Layout, OutputArgs, paint},
    },
    shell::project::Kind,
};
use numo_core::{ledger, observed::Key};
use serde::Serialize;
use std::{collections::BTreeSet, fmt};

/// All that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture {
    pub(super) owners: Vec<OwnerLine>,
    pub(super) maintenances: Vec<MaintenanceLine>,
    pub(super) bindings: Vec<BindingLine>,
    pub(super) budgets: Vec<BudgetLine>,
    pub(super) windows: Vec<WindowLine>,
    /// Who has stopped nodes and why, a sentence for each stop that holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stopped: Vec<String>,
    /// Marks whose owner is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) left_behind: Vec<LeftLine>,
    pub(super) unseen: Vec<String>,
    /// That no numo leads, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle: Option<String>,
}

/// A sentence for each stop that holds.
fn stopped(look: &Look) -> Vec<String> {
    let budgets = look.store.observed.budgets.values();
    let paused = budgets.filter(|budget| budget.paused);
    paused
        .map(|budget| format!("Stopped: {}", ledger::stopped(budget)))
        .collect()
}

/// Which owners are shown.
pub(super) struct Selection<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) what: Option<What>,
    pub(super) name: Option<&'a str>,
    /// uids of the owners that have the labels that are asked for, if any are.
    pub(super) labelled: Option<BTreeSet<String>>,
}

/// That nothing that was asked for is there.
#[derive(Debug)]
pub(super) struct Absence {
    /// What was asked for.
    kinds: &'static str,
    /// Where, with a blank before it; empty for everywhere.
    place: String,
    /// How to find what there is.
    there: String,
    /// Whether it is in other namespaces.
    is_elsewhere: bool,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found no {}{}; {}", self.kinds, self.place, self.there)
    }
}

impl Selection<'_> {
    fn takes(&self, what: What, key: &Key, uid: &str) -> bool {
        self.takes_anywhere(what, key, uid)
            && (!what.is_namespaced() || self.namespace.is_none_or(|namespace| key.namespace == namespace))
    }

    /// Whether it would be taken if the namespace were not asked for.
    fn takes_anywhere(&self, what: What, key: &Key, uid: &str) -> bool {
        self.what.is_none_or(|wanted| wanted == what)
            && self.name.is_none_or(|name| key.name == name)
            && self.labelled.as_ref().is_none_or(|all| all.contains(uid))
    }

    /// Namespaces that have what is asked for.
    fn elsewhere(&self, look: &Look) -> BTreeSet<String> {
        let owners = look.owners();
        let taken = owners.filter(|(what, key, uid)| self.takes_anywhere(*what, key, uid));
        taken.map(|(_, key, _)| key.namespace.clone()).collect()
    }
}

impl Picture {
    pub(super) fn of(look: &Look, selection: &Selection<'_>) -> Self {
        let runs = look
            .runs
            .iter()
            .filter(|(key, _)| selection.takes(What::Run, key, look.uid_of_run(key)));
        let plans = look
            .plans
            .iter()
            .filter(|(key, _)| selection.takes(What::Plan, key, look.uid_of_plan(key)));
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
        let versions = look
            .versions
            .iter()
            .filter(|(key, _)| selection.takes(What::Version, key, look.uid_of_version(key)));
        let versions = versions.map(|(key, decision)| {
            let standing = version_words(look, key, &decision.report);
            OwnerLine::of(look, "NodeVersion", key, decision, standing)
        });
        let maintenances = look.store.observed.maintenances.values();
        let maintenances =
            maintenances.filter(|view| selection.takes(What::Maintenance, &view.owner.key, &view.uid));
        Self {
            owners: runs.chain(plans).chain(versions).collect(),
            maintenances: maintenances.map(|view| MaintenanceLine::of(look, view)).collect(),
            bindings: bindings(look),
            budgets: budgets(look),
            windows: windows(look),
            stopped: stopped(look),
            left_behind: left_behind(look),
            unseen: look.unseen.clone(),
            idle: look.idle.clone(),
        }
    }

    /// Something that was asked for and is not there.
    pub(super) fn check(&self, look: &Look, selection: &Selection<'_>) -> Result<(), CliError> {
        let Some(absence) = self.absence(look, selection)? else {
            return Ok(());
        };
        let (kinds, place, there) = (absence.kinds, &absence.place, &absence.there);
        match selection.name {
            Some(name) => Err(CliError::Usage(format!(
                "found no {kinds} {name}{place}; {there}. For a node, use `numo explain NODE`"
            ))),
            None if selection.what.is_some() => Err(CliError::Usage(absence.to_string())),
            None if selection.labelled.is_some() || absence.is_elsewhere => {
                eprintln!("numo: {absence}");
                Ok(())
            }
            None => {
                if !self.left_behind.is_empty() {
                    return Ok(());
                }
                eprintln!(
                    "numo: found no {kinds}: nothing changes any node. The tutorials \
                     (operator/docs/tutorials) show the first of each; `numo doctor` checks the installation"
                );
                Ok(())
            }
        }
    }

    /// That no owner is shown, if so: which, and where there are some.
    ///
    /// Errors: owners of the kind may not be looked at, so that nobody knows whether there are any.
    pub(super) fn absence(
        &self,
        look: &Look,
        selection: &Selection<'_>,
    ) -> Result<Option<Absence>, CliError> {
        if !self.owners.is_empty() || !self.maintenances.is_empty() {
            return Ok(None);
        }
        let meant = selection.what.unwrap_or(What::Run);
        if let Some(hidden) = live::hidden(&self.unseen, meant) {
            return Err(hidden);
        }
        let elsewhere = selection.elsewhere(look).into_iter().take(3);
        let elsewhere: Vec<String> = elsewhere.map(|namespace| format!("-n {namespace}")).collect();
        Ok(Some(Absence {
            kinds: selection
                .what
                .map_or("MutexRunConfig, Plan or NodeMaintenance", What::singular),
            place: selection
                .namespace
                .map_or_else(String::new, |namespace| format!(" in namespace {namespace}")),
            there: if elsewhere.is_empty() {
                "`numo status -A` lists all".to_owned()
            } else {
                format!("try {}, or `numo status -A`", elsewhere.join(", "))
            },
            is_elsewhere: !elsewhere.is_empty(),
        }))
    }

    pub(super) fn print(&self, look: &Look, output: &OutputArgs) -> Result<(), CliError> {
        output.print(self, |layout| self.text(look, layout), || self.names())
    }

    fn names(&self) -> Vec<String> {
        let owners = self.owners.iter().map(|owner| {
            let kind = match owner.kind {
                "Plan" => Kind::Plan,
                "NodeVersion" => Kind::NodeVersion,
                _ => Kind::MutexRunConfig,
            };
            Named::of_cluster(kind, &owner.name).typed()
        });
        let maintenances = self
            .maintenances
            .iter()
            .map(|one| format!("nodemaintenance.{}/{}", one.group, one.name));
        owners.chain(maintenances).collect()
    }

    pub(super) fn text(&self, look: &Look, output: Layout) -> String {
        let mut parts = Vec::new();
        if !self.stopped.is_empty() {
            let lines = self.stopped.iter();
            parts.push(lines.map(|stop| paint(output::bad(), stop) + "\n").collect());
        }
        parts.extend(self.owners.iter().map(|owner| owner.text(look, output)));
        if !self.maintenances.is_empty() {
            parts.push(maintained(&self.maintenances, look, output));
        }
        let bindings = binding::shown(&self.bindings, output);
        if !bindings.is_empty() {
            parts.push(bindings);
        }
        let budgets = used(&self.budgets, output);
        if !budgets.is_empty() {
            parts.push(budgets);
        }
        let windows = shown(&self.windows, output);
        if !windows.is_empty() {
            parts.push(windows);
        }
        if !self.left_behind.is_empty() {
            parts.push(shown_left(&self.left_behind, output));
        }
        parts.join("\n")
    }
}
