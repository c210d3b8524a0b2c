//! The last look before anything is written: every planned action is checked against the invariants of
//! the design, independently of how it was decided. A breach is not carried out and is a fault in numo. What is checked is in `lint/`.

pub use crate::lint::checks::Breach;

use crate::{
    decision::{Decision, Snapshot},
    lint::table::{Seen, keep},
    owner::OwnerKind,
    owners::{mutex_run_config, node_maintenance, node_version, plan},
};
use std::cell::OnceCell;

/// Takes every action out of the decision that would break an invariant, and returns the breaches. Of an owner that was not seen
/// nothing is written.
pub fn lint(snapshot: &Snapshot<'_>, decision: &mut Decision) -> Vec<Breach> {
    if decision.actions.is_empty() {
        return Vec::new();
    }
    let (observed, owner) = (snapshot.observed, snapshot.owner);
    let found = observed.owner(owner).and_then(|view| {
        let seen = Seen {
            now: snapshot.now,
            observed,
            owner,
            view,
        };
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => {
                let run = observed.runs.get(&owner.key)?;
                let view = OnceCell::new();
                let checks = mutex_run_config::Lint {
                    seen,
                    snapshot,
                    run,
                    view,
                };
                keep(decision, seen, &checks)
            }
            OwnerKind::NodeMaintenance(_) => {
                let view = observed.maintenances.get(owner)?;
                keep(decision, seen, &node_maintenance::Lint { seen, view })
            }
            OwnerKind::NodeVersion => {
                let view = observed.fleet.versions.get(&owner.key.name)?;
                keep(decision, seen, &node_version::Lint { seen, view })
            }
            OwnerKind::Plan => {
                let view = observed.plans.get(&owner.key)?;
                keep(decision, seen, &plan::Lint { seen, view })
            }
        })
    });
    found.unwrap_or_else(|| {
        decision.actions.clear();
        Vec::new()
    })
}
