//! The old node is cordoned and drained, by numo's own drain.

use super::{pass::Pass, turn::Going};
use crate::{
    action::{Action, Change, NodePatch, NodePurpose, Planned},
    drain,
    mark::{self, CordonedBy},
    observed::NodeView,
    probe,
    time::later,
    turn::{
        journal::{self, Journal},
        steps::{self, Next, ON, STAY, Turn},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, Step, marks};

/// How often somebody's uncordoning is corrected.
const MAX_CORRECTIONS: u32 = 3;

impl Pass<'_> {
    /// The cordon that the NodeVersion has put on the node.
    pub(super) fn cordon_of(&self, node: &NodeView) -> Option<CordonedBy> {
        mark::cordoned_by(node).filter(|mark| mark.owner == self.view.uid)
    }

    fn cordon(&mut self, node: &NodeView, corrections: u32) {
        let known = self.cordon_of(node);
        let mark = CordonedBy {
            owner: self.view.uid.clone(),
            // Who uncordons a node takes back the cordon of before, too.
            prior: known.map_or(node.unschedulable, |mark| mark.prior && node.unschedulable),
            taints: Vec::new(),
            corrections,
            done: true,
        };
        let mark = Some(mark::render(&mark));
        let patch = NodePatch {
            annotations: vec![Change::of(&node.annotations, marks::CORDONED_BY, mark)],
            unschedulable: Some(true),
            while_unschedulable: Some(node.unschedulable),
            ..NodePatch::of(node, NodePurpose::Cordon)
        };
        self.act(&node.name, Action::PatchNode(patch), None);
    }
}

impl<'a> Going<'_, 'a> {
    /// Cordons and drains the old node.
    pub(super) fn cordon_and_drain(&mut self, donor: &'a NodeView, closed: Option<&Why>) -> Next {
        let entered = journal::entered(self.change, Step::Cordoned);
        let Some(cordoned) = entered.and_then(|entry| journal::time(Some(&entry.at))) else {
            return self.cordon(donor, closed);
        };
        let corrections = self.pass.cordon_of(donor).map_or(0, |mark| mark.corrections);
        self.cordon_again(donor, corrections, closed)?;
        if journal::entered(self.change, Step::Drained).is_some() && corrections == 0 {
            return ON;
        }
        self.drain(donor, cordoned, closed)
    }

    /// Cordons the node, and journals that it is.
    fn cordon(&mut self, donor: &'a NodeView, closed: Option<&Why>) -> Next {
        if let Some(why) = closed {
            self.close(Step::PreRules, why.clone());
            return STAY;
        }
        if self.pass.cordon_of(donor).is_none_or(|_| !donor.unschedulable) {
            let probes = self.pass.intent.drain.probe;
            let known = (self.pass.answers, self.pass.now);
            let look = probes.then(|| probe::look(self.pass.observed, donor, &self.pass.intent.drain, known));
            steps::act_on_look(self, Step::PreRules, look)?;
            steps::confirm(self, &[Phase::Pre], Step::PreRules)?;
            self.pass.cordon(donor, 0);
            self.say(Step::Cordoned, Why::new(Reason::Draining, "it is being cordoned"));
            return STAY;
        }
        let mut journal = Journal::open(self.change, self.pass.now);
        journal.enter(Step::Cordoned, None);
        self.pass.write(journal);
        self.say(Step::Cordoned, Why::new(Reason::Draining, "it is cordoned"));
        STAY
    }

    /// Corrects somebody's uncordoning, a few times. Also after the drain: an open node gets pods that would die with its machine.
    fn cordon_again(&mut self, donor: &NodeView, corrections: u32, closed: Option<&Why>) -> Next {
        if donor.unschedulable {
            return ON;
        }
        if corrections >= MAX_CORRECTIONS {
            let message = format!(
                "Node {}: someone uncordoned it {} times; cordon it, or skip it",
                donor.name,
                corrections + 1
            );
            self.say(Step::Cordoned, Why::new(Reason::ForeignWriter, message));
            return STAY;
        }
        if let Some(why) = closed {
            self.say(Step::Cordoned, why.clone());
            return STAY;
        }
        self.pass.cordon(donor, corrections + 1);
        self.say(
            Step::Cordoned,
            Why::new(Reason::Draining, "it is being cordoned again"),
        );
        STAY
    }

    /// Evicts what is to go, and says how far the drain has come.
    fn drain(&mut self, donor: &NodeView, cordoned: Timestamp, closed: Option<&Why>) -> Next {
        let pass = &mut *self.pass;
        let known = (pass.answers, pass.now);
        let options = &pass.intent.drain;
        let found = drain::drain(pass.observed, donor, options, cordoned, known);
        let limit = options.timeout_seconds;
        let Some(found) = found else {
            let why = Why::new(Reason::Draining, "its pods are being listed");
            self.say(Step::Cordoned, why);
            return STAY;
        };
        if let Some(at) = found.wake_at {
            pass.out.wake(at);
        }
        pass.out.questions.extend(found.question);
        if closed.is_none() {
            let evictions = found.evict.into_iter();
            let planned = evictions.map(|eviction| Planned::evict(&donor.name, eviction));
            pass.out.actions.extend(planned);
        }
        let Some(why) = found.why else {
            if journal::entered(self.change, Step::Drained).is_some() {
                return ON;
            }
            let mut journal = Journal::open(self.change, pass.now);
            journal.enter(Step::Drained, None);
            pass.write(journal);
            self.say(Step::Drained, Why::new(Reason::Drained, "it is drained"));
            return STAY;
        };
        let end = limit.map(|limit| (limit, later(cordoned, limit)));
        let why = match (closed, end) {
            (Some(closed), _) => closed.clone(),
            (None, Some((limit, end))) if pass.now >= end => {
                let field = format!("{}.timeoutSeconds", pass.intent.drain_field);
                drain::timed_out(limit, &field, &why)
            }
            (None, Some((_, end))) => {
                pass.out.wake(end);
                why
            }
            (None, None) => why,
        };
        self.say(Step::Cordoned, why);
        STAY
    }
}
