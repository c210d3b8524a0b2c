//! The lease and the shield of a node that has its turn, for every owner: how they are taken and kept. What an owner takes is said by
//! [`Holding`].

use super::{
    lease::{self, Upkeep},
    machine,
    node::{Holding, Next, ON, Parts, STAY, Turn},
};
use crate::{
    action::{Action, Planned},
    why::Why,
};
use numo_api::{Reason, Step};

/// Takes the node's lease and shield, and keeps them: the turn goes on once they are there, or cannot be had.
pub(super) fn take_lease_and_shield(turn: &mut impl Turn) -> Next {
    let Some(Holding {
        holder,
        keeps_only,
        shield,
        machines,
    }) = turn.holding()
    else {
        return ON;
    };
    let Parts {
        phases,
        node,
        change,
        out,
    } = turn.parts();
    let times = (change.created, phases.now);
    let upkeep = holder.map(|holder| lease::upkeep(phases.observed, node, &holder, times));
    let Upkeep {
        renews,
        takes,
        due,
        held,
    } = upkeep.unwrap_or_default();
    if let Some(due) = due {
        out.wake(due);
    }
    if let Some((lease, until)) = held {
        let lease = lease.clone();
        turn.heed_lease(&lease, until)?;
    }
    let Parts {
        node, change, out, ..
    } = turn.parts();
    let planned = |action| Planned::of(&node.name, action);
    out.actions.extend(renews.map(planned));
    let taken: Vec<Action> = takes.into_iter().chain(shield).chain(machines).collect();
    if keeps_only || taken.is_empty() {
        return ON;
    }
    for action in taken {
        let planned = Planned::of(machine::chain_in_turn(&node.name, &action), action);
        if planned.chain != node.name {
            let waiting = out.report.shared.entry(planned.chain.clone()).or_default();
            waiting.insert(node.name.clone());
        }
        // What another node of this pass needs too is written once.
        if !out.actions.contains(&planned) {
            out.actions.push(planned);
        }
    }
    let step = change.status.step.unwrap_or(Step::Admitted);
    turn.note_taking();
    turn.say(
        step,
        Why::new(Reason::Admitting, "lease and shield are being taken"),
    );
    STAY
}
