//! The decision for one NodeVersion: each node of another image is replaced by a new machine. The new one joins, takes the place of the
//! old one and gets its labels; the old one is drained, its machine is deleted, and its Node after it. Nothing here reads or writes
//! anything, and nothing here talks to a provider: what is to be made or deleted is an action, what is to be known a question.
//!
//! The parts of a pass are those of `decide.rs`, the steps of a node those of `turn/steps.rs`. Behaviour and words as in the Constellation
//! node operator (`spec/constellation.md` §2); what is otherwise is in `adr/0040-machines-that-are-replaced.md`.

mod autoscaler;
mod drain;
mod etcd;
mod gone;
mod groups;
mod heir;
mod intent;
mod joining;
mod known;
mod late;
mod leave;
mod lint;
mod lost;
mod machines;
mod pass;
mod returned;
mod sets;
mod told;
mod turn;
mod waiting;
mod waves;

pub use autoscaler::command;
pub use groups::outdated;
pub use intent::{named_by, rules_of, schedule};
pub(crate) use known::changes;
pub use known::{request, reservation, run_id};
pub(crate) use lint::Lint;
pub(crate) use pass::Pass;
pub(crate) use sets::imagine_replaced;
pub use sets::{Class, Sets, class};

use crate::{
    action::FORGET_CHAIN,
    admit::{
        approval::Approvals,
        gates::{self, when},
        queue,
        wave_rules::WaveRules,
        waves::Waves,
    },
    decision::{Decision, Snapshot},
    drain::DrainOptions,
    finalizer,
    observed::{NodeVersionView, NodeView, Observed},
    owner::{Owner, OwnerKind},
    report::{NodeVersionReport, RunPhase},
    suspended,
    turn::{
        contradiction, directive, job, journal, lease,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use intent::Intent;
use numo_api::{Reason, RunResult, Step};
use std::collections::BTreeSet;
use waiting::Waiting;

impl<'a> Pass<'a> {
    /// What is known of a NodeVersion at the beginning of the pass.
    pub(crate) fn of(snapshot: &Snapshot<'a>, view: &'a NodeVersionView, answers: &'a Answers) -> Self {
        let observed = snapshot.observed;
        let run_id = run_id(view);
        let (flying, over) = changes(observed, &view.uid).partition(|change| observed.is_under_way(change));
        let mut pass = Self {
            now: snapshot.now,
            observed,
            fleet: &observed.fleet,
            view,
            owner: snapshot.owner,
            asked: snapshot.asked,
            answers,
            intent: Intent::parse(view, observed),
            sets: Sets::of(view, observed),
            leaving: leaving(view, &run_id, observed),
            run_id,
            flying,
            over,
            hold: None,
            claimed: BTreeSet::new(),
            made: 0,
            kept: false,
            restores: false,
            waves: Waves::default(),
            wave_rules: WaveRules::default(),
            approvals: Approvals::default(),
            idle: None,
            out: Decision::default(),
            pool: "".into(),
        };
        let hold = pass.holds(&pass.waves).next();
        pass.hold = hold;
        pass
    }

    /// Why no node is begun at all, worst first.
    fn holds<'h>(&'h self, waves: &'h Waves<'_>) -> impl Iterator<Item = Why> + 'h {
        let leaving = self.leaving.iter().cloned();
        let (problem, suspended) = (self.intent.problem.clone(), self.intent.suspended.as_ref());
        leaving
            .chain(gates::of_owner(problem, suspended))
            .chain(when(move || self.no_provider()))
            .chain(when(move || self.unseen_autoscaler()))
            .chain(when(move || self.nobody_drains()))
            .chain(when(move || journal::aborted(&self.flying)))
            .chain(when(move || self.failures_spent()))
            .chain(when(move || waves.failures_spent()))
            // Who leaves waits for nothing else.
            .take(if self.leaving.is_some() { 1 } else { usize::MAX })
    }
}

fn leaving(view: &NodeVersionView, run_id: &str, observed: &Observed) -> Option<Why> {
    if view.deleting {
        return Some(Why::new(Reason::Deleting, Reason::Deleting.meaning()));
    }
    suspended::given_up(&Owner::node_version(&view.name), &view.annotations, &[run_id])
        .or_else(|| directive::all_given_up(changes(observed, &view.uid), run_id))
}

impl crate::pass::Pass for Pass<'_> {
    /// The operator that numo replaces is live, and numo has nothing in hand.
    fn refuse(&mut self) -> Next {
        let rival = self.rival();
        let Some(why) = rival.filter(|_| self.flying.is_empty() && !self.has_finalizer()) else {
            return ON;
        };
        self.out.report.hold = Some(why);
        STAY
    }

    fn advance_turns(&mut self) {
        let report = &mut self.out.report;
        report.phase = RunPhase::Active;
        report.run_id.clone_from(&self.run_id);
        report.target.clone_from(&self.view.spec.image);
        self.note_machines();
        self.tell_unknown();
        self.tell_unseen_autoscaler();
        self.tell_members_left();
        self.keep_joining_nodes();
        self.keep_groups();
        self.keep_pending();
        self.waves = self.waves();
        self.approvals = self.approvals();
        self.wave_rules = self.waves.rules();
        self.wave_rules.keep(self.flying.iter().copied());
        let twice = contradiction::twice(self.flying.iter().copied());
        for change in self.flying.clone() {
            let name = change.spec.node_name.as_str();
            let misnamed = || {
                let (node, why) = contradiction::misnamed(self.observed, change)?;
                Some((node.name.as_str(), why))
            };
            let twice = twice.get(change.spec.node_uid.as_str());
            let doubt = twice.map(|why| (name, why.clone())).or_else(misnamed);
            match doubt.filter(|_| self.leaving.is_none()) {
                Some((name, why)) => {
                    if let Some(node) = self.observed.nodes.get(name) {
                        let holder = lease::holder_of(OwnerKind::NodeVersion, &self.view.uid);
                        lease::keep(&mut self.out, (self.observed, self.now), node, &holder);
                    }
                    self.say(name, Step::Held, why, Some(change));
                }
                None => self.advance(change),
            }
        }
    }

    fn restore_rest(&mut self) {
        self.hold = self.hold.take().or_else(|| self.waves.failures_spent());
        self.mend_pairs();
        self.restore();
    }

    fn go_on(&mut self) {
        for (node, step, why) in waiting::others(self) {
            let ends = why.until.filter(|_| why.reason == Reason::AwaitingAnnotation);
            if let Some(until) = ends {
                self.out.wake(until);
            }
            self.say(&node.name, step, why, None);
        }
        self.report_waves();
        let mut waiting = Waiting::of(self);
        queue::admit(&mut waiting);
    }

    fn tidy(&mut self) {
        self.keep_autoscalers();
        self.free_jobs();
        self.keep_finalizer();
        let over = self.over.iter().copied();
        for action in journal::forgotten(over, (&self.run_id, self.observed), self.now).collect::<Vec<_>>() {
            self.act(FORGET_CHAIN, action, None);
        }
        self.summarise();
    }

    fn finish(self) -> Decision {
        self.out
    }
}

impl Pass<'_> {
    /// Lets Jobs of rules go whose verdict is journaled, and those of runs of which no node has its turn or waits for it.
    fn free_jobs(&mut self) {
        let turns = job::Turns {
            flying: &self.flying,
            over: &self.over,
            run_id: &self.run_id,
            is_leaving: self.leaving.is_some(),
        };
        job::free_of(&mut self.out, self.observed, &turns);
    }

    /// Our finalizer is there from the first node or machine that is in hand until no node waits any more. Where no operator is left to
    /// finish that, it goes once everything else was given back: a NodeVersion must not wait for ever to be deleted.
    fn keep_finalizer(&mut self) {
        let view = self.view;
        let in_hand = self.kept || !self.sets.pending.is_empty();
        let held = if self.fleet.abandoned {
            self.restores
        } else {
            in_hand
        };
        // Who is deleted leaves nobody who would switch them on later, and anybody may be deleted at any moment.
        let rests = self.autoscaler_rests();
        let held_for = rests.clone().filter(|_| !held && view.deleting);
        self.hold = held_for.or_else(|| self.hold.take());
        let stays = held || rests.is_some();
        let removal = finalizer::removal(self.owner, view.into());
        let is_there = removal.is_some();
        if held && !is_there && !view.deleting {
            self.add_finalizer();
        }
        let begins = self.out.report.nodes.values();
        let begins = begins
            .into_iter()
            .any(|node| node.why.reason == Reason::Admitting);
        let waits = !view.deleting && (self.sets.is_outdated() || self.sets.has_unknown());
        if let Some(action) = removal.filter(|_| !stays && !begins && !waits) {
            self.act("owner", action, None);
            self.out.report.result = Some(RunResult::Succeeded);
        }
    }

    /// What is said of the NodeVersion as a whole.
    fn summarise(&mut self) {
        let sets = &self.sets;
        let of_class = |class: Class| {
            let nodes = sets.each(class);
            nodes.map(|node| (node.name.clone(), node.uid.clone())).collect()
        };
        let pending = sets.pending.iter();
        let is_outdated = sets.is_outdated();
        let said = NodeVersionReport {
            outdated: of_class(Class::Outdated),
            up_to_date: of_class(Class::UpToDate),
            donors: of_class(Class::Donor),
            heirs: of_class(Class::Heir),
            mints: of_class(Class::Mint),
            awaiting_annotation: of_class(Class::AwaitingAnnotation),
            pending: pending.map(|one| (one.name.clone(), one.uid.clone())).collect(),
            obsolete: of_class(Class::Obsolete),
            invalid: of_class(Class::Invalid),
            budget: sets.budget(self.surge()),
            is_outdated,
        };
        // Nodes that were left out, or whose machine nobody knows, do not keep it under way.
        let is_under_way = !self.flying.is_empty() || sets.is_under_way();
        let is_over = !is_under_way && !self.out.report.is_any_open();
        let report = &mut self.out.report;
        if self.leaving.is_some() {
            report.phase = RunPhase::Leaving;
        } else if is_over {
            report.phase = RunPhase::Idle;
        }
        report.upgrade_available = is_outdated;
        // Nothing waits where nothing is to be done.
        let waits = || {
            self.intent
                .schedule
                .closed(self.now)
                .or_else(|| self.idle.clone())
        };
        let waits = waits().filter(|_| is_outdated && !is_over);
        report.hold = self.hold.clone().or(waits);
        report.node_version = Some(said);
    }
}

/// How the nodes of a NodeVersion are drained.
pub fn drain_options(view: &NodeVersionView, observed: &Observed) -> DrainOptions {
    Intent::parse(view, observed).drain
}

/// The nodes of a NodeVersion that are to be replaced or to go, in the order of their names.
pub fn behind<'a>(view: &'a NodeVersionView, observed: &'a Observed) -> Vec<&'a NodeView> {
    let sets = Sets::of(view, observed);
    let behind = sets.all().filter(|(_, class)| class.is_behind());
    behind.map(|(node, _)| node).collect()
}
