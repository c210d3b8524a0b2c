//! One decision for a NodeVersion in the making.

use super::{intent::Intent, sets::Sets};
use crate::{
    action::{Action, Change, Event, FleetAction, NodePatch, NodePurpose, Planned},
    admit::{approval::Approvals, wave_rules::WaveRules, waves::Waves},
    decision::Decision,
    finalizer,
    observed::{
        ChangeView, FleetQuestion, FleetView, ForeignController, Heard, NodeVersionView, NodeView, Observed,
        POLL_SECONDS, PendingNodeView,
    },
    owner::Owner,
    report::NodeReport,
    time::has_come,
    turn::journal::Journal,
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, machines::annotations};
use std::{collections::BTreeSet, sync::Arc};

/// One decision in the making.
pub(crate) struct Pass<'a> {
    pub(super) now: Timestamp,
    pub(super) observed: &'a Observed,
    pub(super) fleet: &'a FleetView,
    pub(super) view: &'a NodeVersionView,
    pub(super) owner: &'a Owner,
    /// The node that a person asks about.
    pub(super) asked: Option<&'a str>,
    pub(super) answers: &'a Answers,
    pub(super) intent: Intent<'a>,
    pub(super) run_id: String,
    pub(super) sets: Sets<'a>,
    /// Why nothing begins any more, and what is held is given back.
    pub(super) leaving: Option<Why>,
    /// Its journals that are in flight, and the others.
    pub(super) flying: Vec<&'a ChangeView>,
    pub(super) over: Vec<&'a ChangeView>,
    /// Why no node is begun at all.
    pub(super) hold: Option<Why>,
    /// PendingNodes that this pass made, or gave to a turn, by name.
    pub(super) claimed: BTreeSet<String>,
    /// How many PendingNodes this pass made.
    pub(super) made: usize,
    /// Something is yet to be given back.
    pub(super) kept: bool,
    /// This pass takes marks back from nodes that have no turn.
    pub(super) restores: bool,
    /// Which nodes go before others, and what a person has approved.
    pub(super) waves: Waves<'a>,
    /// The rules of the waves of its nodes.
    pub(super) wave_rules: WaveRules<'a>,
    pub(super) approvals: Approvals,
    /// What all nodes wait for, though the NodeVersion as a whole is not held: a soak, or a person's word.
    pub(super) idle: Option<Why>,
    pub(super) out: Decision,
    pub(super) pool: Arc<str>,
}

impl<'a> Pass<'a> {
    pub(super) fn act(&mut self, chain: &str, action: Action, event: Option<Event>) {
        self.out.actions.push(Planned {
            chain: chain.to_owned(),
            action,
            event,
        });
    }

    pub(super) fn fleet(&mut self, chain: &str, action: FleetAction) {
        self.act(chain, Action::Fleet(action), None);
    }

    /// What was heard to a question, as long as it counts; it is asked again once that is due: after a pause, or when the provider has said
    /// that it may be.
    pub(super) fn ask_again<'h, T>(
        &mut self,
        question: FleetQuestion,
        heard: Option<&'h Heard<T>>,
        pause: i64,
    ) -> Option<&'h Heard<T>> {
        // What was heard before the clock was put back would count for as long as that was ahead.
        let heard = heard.filter(|heard| !self.is_ahead(heard.at));
        let again = heard.map(|heard| self.fleet.provider.again(&question, heard, pause));
        let Some(again) = again.filter(|again| *again > self.now) else {
            self.ask(question);
            return None;
        };
        self.out.wake(again);
        heard
    }

    /// What was heard since an object was there: what was said before was said of another one. Where the clock of whoever made it is ahead all
    /// of it counts, as nothing that is heard now would, and it would be asked again and again.
    pub(super) fn heard_since<'h, T>(
        &self,
        heard: Option<&'h Heard<T>>,
        created: Timestamp,
    ) -> Option<&'h Heard<T>> {
        heard.filter(|heard| heard.at >= created || created > self.now)
    }

    /// Whether a time has not come by far: the clock was put back since.
    pub(super) fn is_ahead(&self, at: Timestamp) -> bool {
        !has_come(at, self.now)
    }

    fn ask(&mut self, question: FleetQuestion) {
        // One that nobody answers is asked once more after a while.
        let asked = self.fleet.provider.asked.get(&question);
        let asked = asked.filter(|at| !self.is_ahead(**at));
        let again = asked.map(|at| crate::time::later(*at, POLL_SECONDS));
        if let Some(again) = again.filter(|again| *again > self.now) {
            return self.out.wake(again);
        }
        let question = Question::Fleet(question);
        if !self.out.questions.contains(&question) {
            self.out.questions.push(question);
        }
    }

    pub(super) fn write(&mut self, journal: Journal<'_>) {
        self.out.actions.extend(journal.planned(None));
    }

    /// Writes a journal, and tells of it by an event on its node.
    pub(super) fn tell(&mut self, journal: Journal<'_>, event: Event) {
        self.out.actions.extend(journal.planned(Some(event)));
    }

    /// Says what is wrong.
    pub(super) fn tell_problem(&mut self, reason: Reason, message: String) {
        self.out.report.problems.push(Why::new(reason, message));
    }

    /// Says where a node is.
    pub(super) fn say(&mut self, name: &str, step: Step, why: Why, change: Option<&ChangeView>) {
        let report = NodeReport {
            pool: self.pool.clone(),
            step,
            why,
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.to_string()),
        };
        self.out.report.nodes.insert(name.to_owned(), report);
    }

    /// Notes something on a node, or forgets it.
    pub(super) fn note(&mut self, node: &NodeView, key: &str, value: Option<&str>) {
        let changes = vec![Change::of(&node.annotations, key, value.map(str::to_owned))];
        self.annotate(node, changes);
    }

    pub(super) fn annotate(&mut self, node: &NodeView, annotations: Vec<Change>) {
        let patch = NodePatch {
            annotations,
            ..NodePatch::of(node, NodePurpose::Replace)
        };
        self.act(&node.name, Action::PatchNode(patch), None);
    }

    /// That the operator that numo replaces is live: its kinds, and what it does to nodes and machines, are its own meanwhile.
    pub(super) fn rival(&self) -> Option<Why> {
        self.observed.stood_off(ForeignController::NodeVersion)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        finalizer::is_on(self.owner, self.view.into())
    }

    /// Puts our finalizer on the NodeVersion, once a pass.
    pub(super) fn add_finalizer(&mut self) {
        finalizer::add(&mut self.out, (self.owner, self.view.into()), "owner");
    }

    /// How many machines there may be beyond those that are replaced.
    pub(super) fn surge(&self) -> usize {
        self.intent.surge.of(self.sets.base())
    }

    /// The new node that takes the place of this one, where both say so.
    pub(super) fn heir_of(&self, donor: &NodeView) -> Option<&'a NodeView> {
        let heir = self.observed.nodes.get(donor.annotation(annotations::HEIR))?;
        (heir.annotation(annotations::DONOR) == donor.name).then_some(heir)
    }

    /// The turn of a node, if it has one.
    pub(super) fn turn_of(&self, node: &NodeView) -> Option<&'a ChangeView> {
        let mut flying = self.flying.iter();
        flying.find(|change| change.spec.node_uid == node.uid).copied()
    }

    /// Whether the turn of an earlier node of this name says how that stands: its kubelet has made its Node anew.
    pub(super) fn is_said_by_turn(&self, node: &NodeView) -> bool {
        let said = self.out.report.nodes.get(&node.name);
        let said = said.and_then(|said| said.change.as_deref());
        let mut flying = self.flying.iter();
        flying.any(|change| {
            let is_of_other = change.spec.node_name == node.name && change.spec.node_uid != node.uid;
            is_of_other && said == Some(change.key.to_string().as_str())
        })
    }

    /// The PendingNode that deletes the machine of a node that was let go.
    pub(super) fn leaving_of(&self, change: &ChangeView) -> Option<&'a PendingNodeView> {
        let machine = change.status.pin.as_ref()?.provider_id.as_deref()?;
        let mut pending = self.sets.pending.iter();
        pending
            .find(|one| {
                one.leaves()
                    && one.node() == change.spec.node_name
                    && crate::observed::is_same(one.provider_id(), machine)
            })
            .copied()
    }
}
