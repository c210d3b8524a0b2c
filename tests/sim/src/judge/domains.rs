//! What is judged of the domains of an owner at an admission: which zones come before, and in how many there are turns.

use super::{
    Judge, Verdict, breach, fleet,
    settings::{are_beside, has_first},
};
use crate::world::World;
use numo_api::Domains;
use numo_core::{
    Owner, OwnerKind,
    observed::{NodeView, Observed},
};
use std::collections::BTreeSet;

impl Judge {
    /// Domains: those before the node's own are done but for fewer than `atOnce`, and no more than that have turns.
    pub(super) fn domain_by_domain(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (run_id, node): (&str, &NodeView),
    ) -> Verdict {
        let Some(domains) = domains(seen, owner) else {
            return Ok(());
        };
        let of = |node: &NodeView| node.labels.get(domains.key.as_deref()?).cloned();
        let Some(own) = of(node) else {
            return breach("domains", format!("{} was begun without a domain", node.name));
        };
        let at_once = usize::try_from(domains.at_once.unwrap_or(1)).unwrap_or(1);
        let mut in_turn: BTreeSet<Option<String>> = BTreeSet::from([Some(own.clone())]);
        for turn in self.turns.values().filter(|turn| are_beside(&turn.owner, owner)) {
            let other = seen.nodes.get(&turn.node);
            in_turn.extend(other.filter(|other| other.uid == turn.node_uid).map(of));
        }
        if in_turn.len() > at_once {
            return breach(
                "domains",
                format!(
                    "{} was begun, domains {in_turn:?} have turns of {at_once}",
                    node.name
                ),
            );
        }
        // Those that go first, and several runs, are in an order of their own.
        if has_first(seen, owner) || seen.runs.len() > 1 {
            return Ok(());
        }
        let named = domains.order.as_deref().unwrap_or_default();
        let place = |domain: &String| {
            (
                named.iter().position(|one| one == domain).unwrap_or(named.len()),
                domain.clone(),
            )
        };
        let of_wave = self.of_wave(world, seen, owner, (run_id, node));
        let behind = seen
            .nodes
            .values()
            .filter(|other| of_wave(other) && self.keeps_waiting(world, seen, owner, (run_id, other)));
        let before: BTreeSet<String> = behind
            .filter_map(of)
            .filter(|other| place(other) < place(&own))
            .collect();
        if before.len() >= at_once {
            return breach(
                "domains",
                format!(
                    "{} of {own} was begun, {before:?} come before and are not done",
                    node.name
                ),
            );
        }
        Ok(())
    }
}

fn domains(seen: &Observed, owner: &Owner) -> Option<Domains> {
    match owner.kind {
        OwnerKind::MutexRunConfig => seen.runs.get(&owner.key)?.spec.domains.clone(),
        OwnerKind::Plan | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => {
            fleet::settings(seen, owner).find_map(|one| one.domains.clone())
        }
    }
}
