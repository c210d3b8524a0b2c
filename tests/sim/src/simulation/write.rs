//! The writes of a decision, one after the other, with everything that can come between: crashes, refusals, pauses, a
//! replaced leader, and what people do.

use super::{Late, Simulation};
use crate::{judge::Read, words, world::Object};
use numo_api::Step;
use numo_core::{
    Decision, Owner,
    action::{Action, Planned},
    drain,
    observed::{EvictionView, Key, Observed, Refusal, Returned, Said},
};
use rand::Rng;

impl Simulation {
    /// Carries the writes out, one after the other, with everything that can come between.
    pub(super) fn write(&mut self, owner: &Owner, decision: &Decision) -> Result<bool, String> {
        // Judged is what the decision could know, not what was seen while it was carried out.
        let changes_meanwhile = !decision.actions.is_empty()
            && (self.faults.lag.1 > 0 || self.faults.pause.1 > 0 || !self.faults.act_before.is_empty());
        let decided_on = changes_meanwhile.then(|| self.view.keep());
        // Long to compare, and where a story is told nobody minds.
        let kept = decided_on.as_deref().filter(|_| self.world.story.is_some());
        if kept.is_some_and(|kept| format!("{kept:?}") != format!("{:?}", self.view.seen())) {
            return Err("what is kept of the view is not what was seen".to_owned());
        }
        let wrote = self.write_each(owner, decision, decided_on.as_deref());
        if let Some(kept) = decided_on {
            self.view.give_back(kept);
        }
        wrote
    }

    fn write_each(
        &mut self,
        owner: &Owner,
        decision: &Decision,
        decided_on: Option<&Observed>,
    ) -> Result<bool, String> {
        let mut broken: Vec<&str> = Vec::new();
        let mut wrote = false;
        for planned in &decision.actions {
            if broken.contains(&planned.chain.as_str()) {
                continue;
            }
            let number = self.story.writes + self.story.refused + 1;
            // What is refused again and again is no news. All else waits for the renewal of a lease that has run out.
            let is_news = match &planned.action {
                Action::RenewLease { node, .. } => {
                    let lease = self.world.truth.leases.get(node);
                    lease.is_some_and(|lease| lease.expired(self.world.time()))
                }
                Action::Evict { .. } => false,
                _ => true,
            };
            if is_news {
                self.last_write = self.world.now;
            }
            if let Some(act) = self.faults.act_before.remove(&number) {
                self.world.act(&act);
            }
            if self.faults.crash_before.remove(&number) || self.often(self.faults.crash) {
                self.dies_in(&planned.action);
                self.crash();
                return Ok(true);
            }
            let away = self.away_now();
            if self.faults.away_before.remove(&number) || self.often(away) {
                self.dies_in(&planned.action);
                self.goes_away();
                return Ok(true);
            }
            if self.faults.pause.1 > 0 {
                let pause = self.rng.random_range(self.faults.pause.0..=self.faults.pause.1);
                self.world.advance_to(self.world.now + pause);
                self.judge.watch(&self.world)?;
            }
            if restores_late(&planned.action) && self.often(self.faults.zombie) {
                let at = self.world.now + self.rng.random_range(1..600);
                let seen = decided_on.unwrap_or_else(|| self.view.seen());
                let read = Read::of(seen, &planned.action);
                self.late.push(Late {
                    at,
                    owner: owner.clone(),
                    planned: planned.clone(),
                    read,
                });
            }
            if self.faults.refuse_before.remove(&number) || self.often(self.faults.refuse) {
                let code = [403, 429, 500][self.rng.random_range(0..3)];
                self.last_write = self.world.now;
                let words = "the server had a bad day";
                self.refused(&planned.action, code, words);
                self.provider_refused(&planned.action, code, words);
                self.evicted(&planned.action, Some((code, words)));
                self.retry_soon(owner);
                broken.push(&planned.chain);
                continue;
            }
            if !self.carry_out(owner, decision, planned, decided_on)? {
                if !matches!(planned.action, Action::Evict { .. }) {
                    self.retry_soon(owner);
                }
                broken.push(&planned.chain);
                continue;
            }
            wrote |= !matches!(planned.action, Action::RenewLease { .. });
        }
        Ok(wrote)
    }

    /// How often the operator is away for long before this write, of a thousand times: what has just begun no journal tells of yet.
    fn away_now(&mut self) -> u32 {
        let times = if std::mem::take(&mut self.has_begun) {
            15
        } else {
            1
        };
        self.faults.away * times
    }

    /// One write; whether it was accepted.
    fn carry_out(
        &mut self,
        owner: &Owner,
        decision: &Decision,
        planned: &Planned,
        decided_on: Option<&Observed>,
    ) -> Result<bool, String> {
        let words = self
            .world
            .story
            .is_some()
            .then(|| words::deed(&self.world, self.view.seen(), decision, planned));
        match self.world.apply(&planned.action) {
            Ok(object) => {
                if let Some(words) = words {
                    self.world.tell("numo", || words);
                }
                // A lease that cannot be had was asked for, and is not written.
                let has_leases = self.world.truth.settings.leases_unavailable.is_none();
                let is_written = match planned.action {
                    Action::RenewLease { .. } => false,
                    Action::AcquireLease { .. } => has_leases,
                    _ => true,
                };
                self.story.writes += usize::from(is_written);
                self.has_begun = matches!(planned.action, Action::CreateJob(_) | Action::CreatePlanJob(_));
                if let Action::WriteJournal { status, .. } = &planned.action
                    && status.step == Some(Step::Done)
                {
                    self.story.upgrades += 1;
                }
                self.provider_did(&planned.action);
                let seen = decided_on.unwrap_or_else(|| self.view.seen());
                let verdict = self.judge.after(&self.world, seen, owner, &planned.action);
                self.evicted(&planned.action, None);
                self.own(&object);
                verdict?;
                Ok(true)
            }
            Err(refused) => {
                if let Some(words) = words {
                    self.world.tell("server", || {
                        format!("refuses ({}, {}): {words}", refused.code, refused.message)
                    });
                }
                self.refused(&planned.action, refused.code, &refused.message);
                self.provider_refused(&planned.action, refused.code, &refused.message);
                self.evicted(&planned.action, Some((refused.code, &refused.message)));
                Ok(false)
            }
        }
    }

    /// What the operator wrote it sees at once.
    pub(super) fn own(&mut self, object: &Object) {
        self.view.see(object, &self.world.truth);
        if let Object::Run(_) | Object::Plan(_) | Object::Maintenance(_) | Object::Version(_) = object {
            // The owner may be gone, and its NodeChanges with it.
            let gone: Vec<Key> = self
                .view
                .seen()
                .changes
                .keys()
                .filter(|key| !self.world.truth.changes.contains_key(*key))
                .cloned()
                .collect();
            for key in gone {
                self.view.see(&Object::Change(key), &self.world.truth);
            }
        }
    }

    /// What came of an eviction is remembered, as the shell does.
    fn evicted(&mut self, action: &Action, refused: Option<(u16, &str)>) {
        let Action::Evict { node, eviction } = action else {
            return;
        };
        let at = self.world.time();
        let seen = self.view.remember();
        let known = seen
            .evictions
            .get(&eviction.uid)
            .map_or(0, |known| known.refusals);
        let said = match refused {
            None => Said::Accepted,
            Some((429, words)) if words.contains("disruption budget") => Said::Budget(words.to_owned()),
            Some((429 | 500, words)) => Said::Busy(words.to_owned()),
            Some((_, words)) => Said::Refused(words.to_owned()),
        };
        let pod = seen.pods.get(node).and_then(|pods| pods.get(&eviction.pod));
        let Some(pod) = pod.filter(|pod| pod.uid == eviction.uid) else {
            return;
        };
        if refused.is_none() {
            self.last_write = self.world.now;
            let place = (node.clone(), drain::controller_of(pod));
            let times = seen.returns.get(&place).map_or(0, |known| known.times);
            let times = (times + u32::from(eviction.returned.is_some())).max(1);
            seen.returns.insert(place, Returned { times, at });
        }
        let view = EvictionView {
            at,
            refusals: if refused.is_none() { 0 } else { known + 1 },
            said,
            stirred: false,
        };
        seen.evictions.insert(eviction.uid.clone(), view);
        // The round goes on with what came of it.
        self.dirty = true;
    }

    fn refused(&mut self, action: &Action, code: u16, message: &str) {
        self.story.refused += 1;
        if let Action::CreateJob(request) = action
            && code != 409
        {
            let (at, refusals) = (self.world.time(), &mut self.view.remember().refusals);
            let known = refusals.get(&request.job);
            let goes_on =
                |known: &&Refusal| at <= numo_core::rules::later(known.at, numo_core::rules::REFUSED_SECONDS);
            let refusal = Refusal {
                code,
                message: message.to_owned(),
                at,
                since: known.filter(goes_on).map_or(at, |known| known.since),
            };
            refusals.insert(request.job.clone(), refusal);
        }
    }
}

/// Writes that a replaced leader may still send: what they test makes them harmless. What begins something
/// (admissions, pauses) nothing in the object can test; the shell must not send it without its own lease.
fn restores_late(action: &Action) -> bool {
    match action {
        Action::PatchPool(patch) => matches!(
            patch.purpose,
            numo_core::action::PoolPurpose::Unpause | numo_core::action::PoolPurpose::Unselect
        ),
        Action::PatchNode(patch) => matches!(
            patch.purpose,
            numo_core::action::NodePurpose::Release
                | numo_core::action::NodePurpose::BringHome
                | numo_core::action::NodePurpose::Unshield
                | numo_core::action::NodePurpose::Unlabel
                | numo_core::action::NodePurpose::Recordon
                | numo_core::action::NodePurpose::Uncordon
        ),
        // What is handed over is another owner's from then on, which may be gone when the write comes.
        Action::PatchMachine(patch) => {
            patch.purpose.restores()
                && patch.purpose != numo_core::action::MachinePurpose::HandOverHealthCheck
        }
        Action::WriteJournal { .. }
        | Action::DeletePlanJob { .. }
        | Action::DeleteChange { .. }
        | Action::DeleteMaintenance { .. }
        | Action::RemoveFinalizer { .. }
        | Action::SetJobTtl { .. }
        | Action::RenewLease { .. }
        | Action::ReleaseLease { .. } => true,
        Action::AddFinalizer { .. }
        | Action::CreateChange { .. }
        | Action::CreateMaintenance(_)
        | Action::RecordRun { .. }
        | Action::CreateJob(_)
        | Action::Evict { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::MarkGate { .. }
        | Action::Fleet(_)
        | Action::AcquireLease { .. } => false,
    }
}
