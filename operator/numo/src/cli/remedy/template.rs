//! The commands of a reason wherever it was seen: names in capitals stand where those of a wait would.

use super::wait::Wait;
use crate::{
    cli::live::{self, Look},
    shell::store::Store,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};
use numo_core::{
    MaintenanceGroup, Owner, OwnerKind,
    observed::{BudgetView, Key},
};
use std::collections::BTreeMap;

/// Objects as the sentence of a wait names them.
const NAMED: &str = "Node NODE, Pod NAMESPACE/POD, PodDisruptionBudget NAMESPACE/PDB, MachineConfigPool POOL, MutexTarget \
                     NAMESPACE/TARGET, MutexBudget BUDGET, Namespace NAMESPACE, Plan NAMESPACE/PLAN, MutexRunConfig \
                     NAMESPACE/RUN";

/// What ends such a wait; none where nobody at a terminal can end it, or it ends by itself.
pub fn of_reason(reason: Reason) -> Vec<String> {
    if !matches!(reason.who(), Actor::ClusterAdmin | Actor::RuleAuthor) {
        return Vec::new();
    }
    let look = Look::of(stopped(), Vec::new(), Timestamp::UNIX_EPOCH);
    let owner = owner(reason);
    let named = match reason {
        // The object that is missing or wrong is named by the owner, which is edited.
        Reason::ProviderContradicts => "PendingNode PENDINGNODE",
        Reason::MaxUnavailableZero | Reason::NoOwners | Reason::NothingGated => "MutexBinding BINDING",
        _ => NAMED,
    };
    let wait = Wait {
        look: &look,
        owner: &owner,
        report: None,
        node: is_of_node(reason).then_some("NODE"),
        reason,
        who: reason.who(),
        message: named,
    };
    let mut all = match reason {
        // What upgrades the nodes by a run comes before the patch, which gives up their rules.
        Reason::PoolHeld => vec![
            "numo abort RUN -n NAMESPACE --undo".to_owned(),
            "numo retry NODE".to_owned(),
        ],
        // By which of them it was given up is told of the owner alone.
        Reason::Aborted => vec![
            "numo abort NAME -n NAMESPACE --undo".to_owned(),
            "kubectl -n NAMESPACE patch nodechange NODECHANGE --type merge -p '{\"spec\":{\"directive\":null}}'".to_owned(),
            "numo retry NODE".to_owned(),
            "numo retry -n NAMESPACE mutexrunconfig/NAME".to_owned(),
        ],
        _ => Vec::new(),
    };
    if reason != Reason::Aborted {
        all.extend(wait.commands());
    }
    all
}

/// A cluster with a stop, and nothing else.
fn stopped() -> Store {
    let mut store = Store::new(live::settings());
    let budget = BudgetView {
        name: "BUDGET".to_owned(),
        selector: serde_json::Value::Null,
        max_unavailable: Err(String::new()),
        group_by: None,
        max_groups: None,
        paused: true,
        annotations: BTreeMap::new(),
        uid: String::new(),
        generation: 1,
        status: numo_api::MutexBudgetStatus::default(),
    };
    store.observed.budgets.insert(budget.name.clone(), budget);
    store
}

/// An owner that can have this reason.
fn owner(reason: Reason) -> Owner {
    match reason {
        Reason::NodeInMaintenance | Reason::NodeNotFound | Reason::NodeLeaseLost | Reason::LastPlace => {
            Owner {
                kind: OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s),
                key: Key::new("", "NAME"),
            }
        }
        Reason::Suspended
        | Reason::PlanNotFound
        | Reason::PlanCycle
        | Reason::ConcurrencyZero
        | Reason::VersionUnresolved
        | Reason::SecretNotFound
        | Reason::SecretsForbidden
        | Reason::UpgradeCannotStart
        | Reason::JobFailed
        | Reason::JobLost
        | Reason::PlanJobsForbidden
        | Reason::GateLost => Owner::plan(Key::new("NAMESPACE", "NAME")),
        Reason::MachineUnknown
        | Reason::JoinFailed
        | Reason::ProviderUnavailable
        | Reason::ProviderContradicts
        | Reason::MaintenanceNotServed
        | Reason::MaintenanceUnanswered
        | Reason::MaintenanceFailed
        | Reason::ScalingGroupNotFound => Owner::node_version("NAME"),
        _ => Owner::run(Key::new("NAMESPACE", "NAME")),
    }
}

/// Whether it is a node that waits, and not its owner as a whole.
const fn is_of_node(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::PoolHeld
            | Reason::RuleNotFound
            | Reason::RuleInvalid
            | Reason::TargetNotFound
            | Reason::PoolNotFound
            | Reason::InvalidField
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_a_person_ends_has_a_command_with_names_in_capitals() {
        for reason in Reason::ALL {
            let found = of_reason(*reason);
            let is_a_persons = matches!(reason.who(), Actor::ClusterAdmin | Actor::RuleAuthor);
            assert_eq!(!found.is_empty(), is_a_persons, "{reason}: {found:?}");
            for command in &found {
                assert!(
                    command.starts_with("kubectl ") || command.starts_with("numo "),
                    "{reason}: {command}"
                );
            }
        }
        for (reason, wanted) in [
            (Reason::PoolHeld, "numo abort RUN -n NAMESPACE --undo"),
            (Reason::Aborted, "numo abort NAME -n NAMESPACE --undo"),
            (Reason::RuleNotFound, "kubectl -n NAMESPACE get mutexrules"),
            (
                Reason::EvictionBlocked,
                "kubectl -n NAMESPACE describe poddisruptionbudget PDB",
            ),
            (Reason::Stopped, "numo start BUDGET"),
            (Reason::Suspended, "numo resume plan/NAME -n NAMESPACE"),
            (Reason::JobFailed, "numo retry NODE"),
            (Reason::MaxUnavailableZero, "kubectl edit mutexbinding BINDING"),
            (Reason::MachineUnknown, "kubectl describe node NODE"),
            (Reason::JoinFailed, "kubectl get scalinggroups,pendingnodes"),
            (
                Reason::ProviderContradicts,
                "kubectl describe pendingnode PENDINGNODE",
            ),
            (Reason::ScalingGroupNotFound, "kubectl get scalinggroups -o yaml"),
            (Reason::ProviderUnavailable, "kubectl describe nodeversion NAME"),
        ] {
            assert_eq!(
                of_reason(reason).first().map(String::as_str),
                Some(wanted),
                "{reason}"
            );
        }
        assert_eq!(
            of_reason(Reason::PoolHeld).last().map(String::as_str),
            Some("kubectl patch machineconfigpool POOL --type merge -p '{\"spec\":{\"paused\":false}}'")
        );
        assert!(
            Reason::PoolHeld.meaning().contains("without rules"),
            "what the patch costs"
        );
    }
}
