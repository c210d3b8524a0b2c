//! What is judged of rules that are asked: what they said before a turn (1), and that each is told only what it said itself of this
//! node (7).

use super::{Judge, Verdict, breach, fleet, gating, settings::is_behind, waves};
use crate::{reading::edition, world::World};
use numo_api::Phase;
use numo_core::{
    Decision, Owner, OwnerKind,
    action::EvaluationRequest,
    observed::{Key, NodeView, Observed},
    verdict::Question,
};

impl Judge {
    /// 1: every rule of phase Admit has passed the node before its turn, a short while ago, with its last word.
    pub(super) fn asked_before_turn(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (change, node): (&Key, &NodeView),
    ) -> Verdict {
        let change = world.truth.changes.get(change);
        let run = change.map_or("", |change| change.spec.target.run_id.as_str());
        let is_maintenance = matches!(owner.kind, OwnerKind::NodeMaintenance(_));
        if !is_maintenance && !is_behind(world, seen, owner, node) {
            return Ok(());
        }
        let wave = self.wave_of(world, seen, owner, (run, node));
        let of_wave = wave.map(|(_, wave)| waves::rules_of(seen, wave, &[Phase::Admit]));
        let all = named(seen, owner, &[Phase::Admit]).into_iter();
        for (key, phase) in all.chain(of_wave.into_iter().flatten()) {
            let Some(rule) = seen.rules.get(&key).filter(|rule| rule.is_evaluated) else {
                continue;
            };
            let mut words = world.answered.iter();
            let last = words.rfind(|one| {
                one.rule == key && one.phase == phase && one.node_uid == node.uid && one.run == run
            });
            let edition = edition(rule);
            let is_fresh = |at: i64| at <= self.decided_at && self.decided_at - at <= rule.pass_seconds;
            if !last.is_some_and(|one| one.passed && one.edition == edition && is_fresh(one.at)) {
                return breach(
                    "1",
                    format!(
                        "{} was begun for {owner}, and {key} in phase Admit says {last:?}",
                        node.name
                    ),
                );
            }
        }
        Ok(())
    }
}

/// 7: a rule is asked only for owners that name it, and hears of nothing but what it said itself of this node.
pub(super) fn told_its_own(world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
    for question in &decision.questions {
        let Question::Evaluate(request) = question else {
            continue;
        };
        let of_waves = waves::waves(seen, owner).iter();
        let of_waves = of_waves.map(|wave| waves::rules_of(seen, wave, &[request.phase]));
        let named = named(seen, owner, &[request.phase]).into_iter();
        let named: Vec<_> = named.chain(of_waves.flatten()).collect();
        if !named.iter().any(|(rule, _)| *rule == request.rule) {
            return breach(
                "7",
                format!("rule {} is asked, and {owner} does not name it", request.rule),
            );
        }
        let foreign = request.history.iter().filter_map(|one| one.data.as_ref());
        if let Some(data) = foreign.into_iter().find(|data| !is_its_own(world, request, data)) {
            return breach(
                "7",
                format!(
                    "rule {} is told of {} what it did not say of it: {data}",
                    request.rule, request.node
                ),
            );
        }
    }
    Ok(())
}

fn is_its_own(world: &World, request: &EvaluationRequest, data: &str) -> bool {
    // A new node goes on in the turn of the old one, which is gone.
    let is_gone = |uid: &str| {
        let mut nodes = world.truth.nodes.values();
        world.cloud.is_some() && !nodes.any(|node| node.uid == uid)
    };
    let mut all = world.answered.iter();
    all.any(|one| {
        one.data == data
            && one.rule == request.rule
            && (one.node_uid == request.node_uid || is_gone(&one.node_uid))
            && one.run == request.run
    })
}

/// The rules that the owner names for these phases.
fn named(seen: &Observed, owner: &Owner, phases: &[Phase]) -> Vec<(Key, Phase)> {
    match seen.runs.get(&owner.key) {
        Some(run) if owner.kind == OwnerKind::MutexRunConfig => gating(seen, run, phases),
        _ => fleet::gating(seen, owner, phases),
    }
}

/// 1: whether an answer of the rule in this phase of the node's turn was a Pass that is no older than so many seconds.
pub(super) fn passed(
    world: &World,
    (rule, phase): (&Key, Phase),
    (node_uid, run): (&str, Option<&str>),
    may_count: impl Fn(i64, &str) -> bool,
) -> bool {
    let mut all = world.answered.iter();
    all.any(|one| {
        one.passed
            && one.rule == *rule
            && one.phase == phase
            && one.node_uid == node_uid
            && Some(one.run.as_str()) == run
            && may_count(one.at, &one.edition)
    })
}
