//! Waves (invariant wave), told from what was admitted before: the judge keeps for itself which nodes of an owner have begun in a run, and
//! in which order. A wave of so many nodes is made of those; waves by labels are those of all nodes. Waves of these worlds are numbers
//! of nodes or single labels.

use super::{Judge, Verdict, breach, fleet, machines, settings};
use crate::world::{World, timestamp};
use numo_api::{Phase, Step, Wave};
use numo_core::{
    Owner, OwnerKind,
    observed::{Key, NodeView, Observed},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

/// The wave that the nodes of the control plane of a NodeVersion are, before all that it asks for.
static CONTROL_PLANE: LazyLock<Wave> = LazyLock::new(Wave::default);

/// The waves of an owner, and what is asked of them here.
struct Asked<'a> {
    world: &'a World,
    seen: &'a Observed,
    owner: &'a Owner,
    run_id: &'a str,
}

impl Judge {
    /// Notes that a node has its turn; `is_new` says that its journal was made for it.
    pub(super) fn note_begun(&mut self, world: &World, owner: &Owner, key: &Key, is_new: bool) {
        let Some(change) = world.truth.changes.get(key) else {
            return;
        };
        let run = (owner.clone(), change.spec.target.run_id.clone());
        let nodes = self.begun.entry(run).or_default();
        let uid = change.spec.node_uid.clone();
        let is_known = nodes.contains_key(&uid);
        if is_new || !is_known {
            nodes.insert(uid, world.now);
        }
    }

    /// No node begins before the waves before its own are done and have soaked, nor beyond the limit of its wave.
    pub(super) fn wave_by_wave(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (run_id, node): (&str, &NodeView),
    ) -> Verdict {
        let waves = waves(seen, owner);
        if waves.is_empty() || seen.runs.len() > 1 {
            return Ok(());
        }
        let asked = Asked {
            world,
            seen,
            owner,
            run_id,
        };
        let (places, of, own) = self.places(&asked, waves, node);
        for other in seen.nodes.values() {
            let place = places.get(other.uid.as_str()).copied();
            if place.is_some_and(|place| place < own)
                && self.keeps_waiting(world, seen, owner, (run_id, other))
            {
                return breach(
                    "wave",
                    format!(
                        "{} was begun, {} of an earlier wave is not done",
                        node.name, other.name
                    ),
                );
            }
        }
        self.have_soaked(&asked, (&places, &of), (own, node))?;
        self.within_wave(&asked, (&places, &of), (own, node))
    }

    /// Whether another node of the owner surely is in the wave of this node, or in an earlier one. Without waves all of them are.
    pub(super) fn of_wave<'a>(
        &self,
        world: &'a World,
        seen: &'a Observed,
        owner: &'a Owner,
        (run_id, node): (&'a str, &'a NodeView),
    ) -> impl Fn(&NodeView) -> bool + use<'a> {
        let waves = waves(seen, owner);
        let asked = Asked {
            world,
            seen,
            owner,
            run_id,
        };
        let (places, of, own) = self.places(&asked, waves, node);
        // Those of no wave come last, as one.
        let rest = (own == of.len()).then_some(own);
        move |other| {
            let place = places.get(other.uid.as_str()).copied().or(rest);
            place.is_some_and(|place| place <= own)
        }
    }

    /// The wave of a node that begins, with its number from 1; none if it is in none, or nobody can tell.
    pub(super) fn wave_of<'a>(
        &self,
        world: &'a World,
        seen: &'a Observed,
        owner: &'a Owner,
        (run_id, node): (&'a str, &'a NodeView),
    ) -> Option<(usize, &'a Wave)> {
        let waves = waves(seen, owner);
        if waves.is_empty() || seen.runs.len() > 1 {
            return None;
        }
        let asked = Asked {
            world,
            seen,
            owner,
            run_id,
        };
        let (places, of, _) = self.places(&asked, waves, node);
        let own = *places.get(node.uid.as_str())?;
        Some((own + 1, of.get(own).copied()?))
    }

    /// The rules that a node in its turn must pass in these phases as one of its wave.
    pub(super) fn rules_of_wave(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (node, phases): (&NodeView, &[Phase]),
    ) -> Vec<(Key, Phase)> {
        if world.people.journals_deleted {
            return Vec::new();
        }
        let key = self.key_of(owner, node);
        let change = key.and_then(|key| world.truth.changes.get(key));
        let run_id = change.map_or("", |change| change.spec.target.run_id.as_str());
        let wave = self.wave_of(world, seen, owner, (run_id, node));
        wave.map_or_else(Vec::new, |(_, wave)| rules_of(seen, wave, phases))
    }

    /// The wave of each node that is in one by now, by its uid, the waves, and the wave of this node: the one after all others if it is
    /// in none.
    fn places<'a>(
        &self,
        asked: &Asked<'a>,
        waves: &'a [Wave],
        node: &'a NodeView,
    ) -> (BTreeMap<&'a str, usize>, Vec<&'a Wave>, usize) {
        let run = (asked.owner.clone(), asked.run_id.to_owned());
        let begun = self.begun.get(&run);
        let at = |one: &&NodeView| begun.and_then(|begun| begun.get(&one.uid)).copied();
        let all = asked.seen.nodes.values();
        let all: Vec<&NodeView> = all
            .filter(|one| {
                settings::is_maintenance(asked.owner)
                    || settings::is_selected(asked.world, asked.seen, asked.owner, one)
            })
            .collect();
        let mut turns: Vec<&NodeView> = all.iter().copied().filter(|one| at(one).is_some()).collect();
        turns.sort_by_key(|one| (at(one), &one.name));
        if !turns.iter().any(|one| one.uid == node.uid) {
            turns.push(node);
        }
        let mut places = BTreeMap::new();
        let mut of = Vec::new();
        for one in &all {
            if machines::goes_before_waves(asked.seen, asked.owner, one) {
                places.insert(one.uid.as_str(), 0);
            }
        }
        if !places.is_empty() {
            of.push(&*CONTROL_PLANE);
        }
        for wave in waves {
            let selector = wave.node_selector.as_ref();
            if let Some(mut selector) = selector.and_then(|one| serde_json::to_value(one).ok()) {
                let labels = selector["matchLabels"].take();
                for one in all.iter().filter(|one| settings::selects(&labels, one)) {
                    places.entry(one.uid.as_str()).or_insert(of.len());
                }
                of.push(wave);
                continue;
            }
            let nodes = wave.nodes.as_ref();
            let nodes = nodes.and_then(|nodes| serde_json::to_value(nodes).ok());
            let mut size = nodes.map_or(1, |nodes| number(&nodes));
            loop {
                let left = turns.iter().filter(|one| !places.contains_key(one.uid.as_str()));
                let next: Vec<&str> = left.take(size).map(|one| one.uid.as_str()).collect();
                let is_last = next.is_empty();
                places.extend(next.into_iter().map(|uid| (uid, of.len())));
                of.push(wave);
                match wave.growth.and_then(|growth| usize::try_from(growth).ok()) {
                    Some(growth) if !is_last => size *= growth,
                    _ => break,
                }
            }
        }
        let own = places.get(node.uid.as_str()).copied().unwrap_or(of.len());
        (places, of, own)
    }

    fn have_soaked(
        &self,
        asked: &Asked<'_>,
        (places, of): (&BTreeMap<&str, usize>, &[&Wave]),
        (own, node): (usize, &NodeView),
    ) -> Verdict {
        let now = timestamp(self.decided_at).as_second();
        for change in asked.seen.changes.values() {
            let is_of_run = change.spec.target.run_id == asked.run_id;
            if !is_of_run || change.status.step != Some(Step::Done) {
                continue;
            }
            let place = places.get(change.spec.node_uid.as_str()).copied();
            let earlier = place.filter(|place| *place < own).and_then(|place| of.get(place));
            let soak = earlier.and_then(|wave| wave.soak_seconds).unwrap_or(0);
            let since = change.status.since.as_deref().unwrap_or_default();
            let since = since
                .parse::<jiff::Timestamp>()
                .map_or(0, jiff::Timestamp::as_second);
            if now - since < soak {
                return breach(
                    "wave",
                    format!(
                        "{} was begun {} s after {} was done, whose wave soaks for {soak} s",
                        node.name,
                        now - since,
                        change.spec.node_name
                    ),
                );
            }
        }
        Ok(())
    }

    fn within_wave(
        &self,
        asked: &Asked<'_>,
        (places, of): (&BTreeMap<&str, usize>, &[&Wave]),
        (own, node): (usize, &NodeView),
    ) -> Verdict {
        let limit = of.get(own).and_then(|wave| wave.max_unavailable.as_ref());
        let limit = limit.and_then(|limit| serde_json::to_value(limit).ok());
        let Some(limit) = limit.map(|limit| number(&limit)) else {
            return Ok(());
        };
        let beside = self.turns.values().filter(|turn| {
            let is_there = asked
                .seen
                .nodes
                .get(&turn.node)
                .is_some_and(|one| one.uid == turn.node_uid);
            settings::are_beside(&turn.owner, asked.owner)
                && turn.node_uid != node.uid
                && is_there
                && places.get(turn.node_uid.as_str()) == Some(&own)
        });
        let beside = beside.count();
        if beside + 1 > limit && !asked.world.people.limits_edited {
            return breach(
                "wave",
                format!(
                    "{} was begun as number {} of {limit} of its wave",
                    node.name,
                    beside + 1
                ),
            );
        }
        Ok(())
    }
}

/// Whether a wave takes the node by its labels.
pub(super) fn selects(wave: &Wave, node: &NodeView) -> bool {
    let selector = wave.node_selector.as_ref();
    let selector = selector.and_then(|one| serde_json::to_value(one).ok());
    selector.is_some_and(|mut selector| settings::selects(&selector["matchLabels"].take(), node))
}

/// Numbers of these worlds are plain ones.
fn number(given: &Value) -> usize {
    given
        .as_u64()
        .map_or(1, |number| usize::try_from(number).unwrap_or(1))
}

/// The rules of a wave in these phases. All rules of these worlds are in one namespace.
pub(super) fn rules_of(seen: &Observed, wave: &Wave, phases: &[Phase]) -> Vec<(Key, Phase)> {
    let named = wave.rules.iter().flatten();
    let named = named.map(|rule| Key::new(&seen.settings.namespace, rule.name.clone().unwrap_or_default()));
    let each = named.flat_map(|key| phases.iter().map(move |phase| (key.clone(), *phase)));
    let is_asked = |(key, phase): &(Key, Phase)| {
        let rule = seen.rules.get(key);
        rule.is_none_or(|rule| rule.phases.contains(phase))
    };
    each.filter(is_asked).collect()
}

/// The waves of an owner, of whichever object has them.
pub(super) fn waves<'a>(seen: &'a Observed, owner: &Owner) -> &'a [Wave] {
    let waves = match owner.kind {
        OwnerKind::MutexRunConfig => seen.runs.get(&owner.key).and_then(|run| run.spec.waves.as_ref()),
        OwnerKind::Plan | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => {
            fleet::settings(seen, owner).find_map(|one| one.waves.as_ref())
        }
    };
    waves.map_or(&[], Vec::as_slice)
}
