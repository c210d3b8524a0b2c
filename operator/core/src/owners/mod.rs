//! What the kinds of owner do not share: one module a kind, which reads its own objects, keeps its own promises to the
//! operator that it replaces, and puts the shared steps (`turn/`, `admit/`, `drain`, `ledger`) together. Nothing of one
//! owner may be used by another one.
//!
//! This page is where everybody else asks an owner of whatever kind: a new kind is a module, an arm of each function here, and a row of
//! the table in `owner.rs`.

pub mod mutex_run_config;
pub mod node_maintenance;
pub mod node_version;
pub mod plan;

use crate::{
    admit::schedule::Schedule,
    decision::{Decision, Snapshot},
    key::Key,
    lint::table::{Checks, Seen},
    observed::Observed,
    owner::{Owner, OwnerKind},
    pass::Pass,
    report::Report,
    verdict::Answers,
};
use numo_api::{OwnerRef, plan_window::Window};
use std::cell::OnceCell;

/// What is done with the pass over an owner, whatever its kind.
pub(crate) trait WithPass {
    /// Goes through the pass.
    fn go(self, owner: impl Pass) -> Decision;
}

/// Makes the pass over the owner of a snapshot; none if it was not seen.
pub(crate) fn pass(snapshot: &Snapshot<'_>, answers: &Answers, with: impl WithPass) -> Option<Decision> {
    let (observed, owner) = (snapshot.observed, snapshot.owner);
    Some(match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = mutex_run_config::RunView::of(snapshot, observed.runs.get(&owner.key)?);
            with.go(mutex_run_config::Run::of(&run, answers))
        }
        OwnerKind::NodeMaintenance(group) => {
            let seen = (observed.maintenances.get(owner)?, group);
            with.go(node_maintenance::Pass::of(snapshot, seen, answers))
        }
        OwnerKind::NodeVersion => {
            let view = observed.fleet.versions.get(&owner.key.name)?;
            with.go(node_version::Pass::of(snapshot, view, answers))
        }
        OwnerKind::Plan => with.go(plan::Pass::of(snapshot, observed.plans.get(&owner.key)?, answers)),
    })
}

/// What the owner of a snapshot checks of its writes; none if it was not seen.
pub(crate) fn checks<'s>(snapshot: &'s Snapshot<'s>, seen: Seen<'s>) -> Option<Box<dyn Checks + 's>> {
    let (observed, owner) = (snapshot.observed, snapshot.owner);
    Some(match owner.kind {
        OwnerKind::MutexRunConfig => Box::new(mutex_run_config::Lint {
            seen,
            snapshot,
            run: observed.runs.get(&owner.key)?,
            view: OnceCell::new(),
        }),
        OwnerKind::NodeMaintenance(_) => {
            let view = observed.maintenances.get(owner)?;
            Box::new(node_maintenance::Lint { seen, view })
        }
        OwnerKind::NodeVersion => {
            let view = observed.fleet.versions.get(&owner.key.name)?;
            Box::new(node_version::Lint { seen, view })
        }
        OwnerKind::Plan => {
            let view = observed.plans.get(&owner.key)?;
            Box::new(plan::Lint { seen, view })
        }
    })
}

/// When nodes of an owner that was seen may begin, by hours of numo's own.
///
/// Errors: the field, what was found and what is wanted.
pub(crate) fn schedule<'a>(owner: &Owner, observed: &'a Observed) -> Option<Result<Schedule<'a>, String>> {
    Some(match owner.kind {
        OwnerKind::MutexRunConfig => crate::intent::schedule(observed.runs.get(&owner.key)?),
        OwnerKind::NodeMaintenance(_) => {
            node_maintenance::schedule(observed.maintenances.get(owner)?, observed)
        }
        OwnerKind::NodeVersion => {
            node_version::schedule(observed.fleet.versions.get(&owner.key.name)?, observed)
        }
        OwnerKind::Plan => plan::schedule(observed.plans.get(&owner.key)?, observed),
    })
}

/// The window that the operator which numo replaces knows, if the owner was seen and has one that is understood.
pub(crate) fn window<'a>(owner: &Owner, observed: &'a Observed) -> Option<&'a Window> {
    match owner.kind {
        OwnerKind::Plan => observed.plans.get(&owner.key)?.window.as_ref()?.as_ref().ok(),
        OwnerKind::MutexRunConfig | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => None,
    }
}

/// The rules that an owner refers to, whether they exist or not.
pub(crate) fn rules_named(owner: &Owner, observed: &Observed) -> Vec<Key> {
    let named = || {
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => mutex_run_config::named_by(observed.runs.get(&owner.key)?, observed),
            OwnerKind::NodeMaintenance(_) => {
                let rules = node_maintenance::rules_of(observed.maintenances.get(owner)?, observed);
                rules.into_iter().map(|(key, _)| key).collect()
            }
            OwnerKind::NodeVersion => {
                node_version::named_by(observed.fleet.versions.get(&owner.key.name)?, observed)
            }
            OwnerKind::Plan => plan::named_by(observed.plans.get(&owner.key)?, observed),
        })
    };
    named().unwrap_or_default()
}

/// Whether an owner is in a namespace that may have such owners, or of a kind without namespaces.
pub(crate) fn is_watched(owner: &Owner, observed: &Observed) -> bool {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = observed.runs.get(&owner.key);
            let not_watched = mutex_run_config::gates::watched::not_watched;
            run.is_some_and(|run| not_watched(run, &observed.settings).is_none())
        }
        OwnerKind::Plan => {
            let view = observed.plans.get(&owner.key);
            view.is_some_and(|view| plan::not_watched(view, observed).is_none())
        }
        OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => true,
    }
}

/// As if the owner had changed a node, in what was seen. False where nothing is left to be done on the node: a new machine has its place.
pub(crate) fn imagine_changed(
    observed: &mut Observed,
    owner: &OwnerRef,
    node: &str,
    report: &Report,
) -> bool {
    match OwnerKind::of(owner) {
        Some(OwnerKind::NodeVersion) => {
            node_version::imagine_replaced(observed, &owner.name, node);
            return false;
        }
        Some(OwnerKind::Plan) => plan::imagine_upgraded(observed, &owner.name, node, report),
        Some(OwnerKind::MutexRunConfig) => mutex_run_config::imagine_rolled(observed, node),
        Some(OwnerKind::NodeMaintenance(_)) | None => {}
    }
    true
}
