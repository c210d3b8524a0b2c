//! A node that has its turn, for every owner: what each step of `turn/steps.rs` is for the owner that has it. The order is not said here.

use crate::{
    action::Action,
    decision::Decision,
    observed::{ChangeView, LeaseView, NodeView},
    probe::Look,
    report::NodeReport,
    turn::{
        closed,
        cordon::{Across, OwnDrain, Uncordon},
        journal::Journal,
        lease,
        phases::{At, Phases},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Pin, Reason, Step};
use std::ops::ControlFlow;

/// Whether a turn goes on with its next step in this pass.
pub type Next = ControlFlow<()>;
/// The step is behind the node.
pub const ON: Next = Next::Continue(());
/// The node is at this step: what it waits for was said.
pub const STAY: Next = Next::Break(());

/// What is known of a turn, and the decision in the making.
#[derive(Debug)]
pub struct Parts<'t> {
    /// The rules of the node.
    pub phases: Phases<'t>,
    /// The node.
    pub node: &'t NodeView,
    /// Its journal.
    pub change: &'t ChangeView,
    /// The decision in the making.
    pub out: &'t mut Decision,
}

impl<'t> Parts<'t> {
    /// All of them at once, in this order.
    pub(crate) fn all(self) -> (Phases<'t>, &'t NodeView, &'t ChangeView, &'t mut Decision) {
        (self.phases, self.node, self.change, self.out)
    }
}

/// Journals that the node of a turn is at this step.
pub(super) fn enter(turn: &mut impl Turn, step: Step) {
    let (phases, _, change, out) = turn.parts().all();
    let mut journal = Journal::open(change, phases.now);
    journal.enter(step, None);
    out.actions.extend(journal.planned(None));
}

/// What an owner takes of a node for its turn.
#[derive(Debug)]
pub struct Holding {
    /// The owner's name on the lease; none where it takes none.
    pub holder: Option<String>,
    /// Whether nothing new is taken: what is there is kept.
    pub keeps_only: bool,
    /// The patch of the Node that is still to be made.
    pub shield: Option<Action>,
    /// What is still to be done to keep remediation through Machines off.
    pub machines: Vec<Action>,
}

/// A node that has its turn: what each step is for the owner that has it.
pub trait Turn {
    /// What is known of the turn, and where its writes go.
    fn parts(&mut self) -> Parts<'_>;
    /// Says at which step the node is, and why it stays there.
    fn say(&mut self, step: Step, why: Why);

    /// Ends the turn if nobody wants it any more.
    fn end_if_unwanted(&mut self) -> Next;
    /// What the owner takes of the node for the turn, and keeps; none where it takes and keeps nothing.
    fn holding(&self) -> Option<Holding>;
    /// Another has the lease of the node, until then: a turn that has not let the node go is closed. What has begun goes on, and the lease
    /// is taken again when it can be.
    fn heed_lease(&mut self, lease: &LeaseView, until: Timestamp) -> Next {
        let (_, node, change, out) = self.parts().all();
        out.wake(until);
        let why = lease::held_by(&node.name, lease, until);
        let step = change.status.step.unwrap_or(Step::Admitted);
        if self.is_released() {
            return ON;
        }
        self.close(step, why);
        STAY
    }
    /// Whether a mark of the node that cannot be read keeps the turn from going on. Who leaves waits for nobody.
    fn heeds_marks(&self) -> bool {
        self.leaving().is_none()
    }
    /// Notes that lease and shield are being taken.
    fn note_taking(&mut self) {}
    /// Carries out what a person says of the node.
    fn obey(&mut self) -> Next;
    /// Why the owner is being left, if it is. What it took goes back then, whatever a journal says.
    fn leaving(&self) -> Option<Reason> {
        None
    }
    /// Whether a node that is changed stays where it is while a person holds it. Who leaves waits for nobody.
    fn heeds_hold(&self) -> bool {
        self.leaving().is_none()
    }
    /// The steps one of which a node has gone through before this one, as its journal remembers; none of a step that no node of this
    /// owner goes through.
    fn before(_step: Step) -> Option<&'static [Step]> {
        Some(&[])
    }
    /// The rules of the wave that the node is in now, as its journal is to remember them; none where no wave has rules.
    fn rules_of_wave(&self) -> Option<Vec<String>> {
        None
    }
    /// What was said of the node in this decision, if a person asks about it: then all that stands against it is looked for.
    fn asked(&self) -> Option<&NodeReport>;
    /// Whether the node was let go: what comes before is behind it.
    fn is_released(&self) -> bool;
    /// What stands against asking the rules of this phase, if anything.
    fn weigh_gates(&mut self, phase: Phase) -> Option<Why>;
    /// What an owner does by itself between the rules of phase Pre and numo's own cordon.
    fn make_ready(&mut self, _closed: Option<&Why>) -> Next {
        ON
    }
    /// How numo itself cordons and drains the node before the rules of phase PreRelease; none where it does not.
    fn own_drain(&self) -> Option<OwnDrain> {
        None
    }
    /// How another operator cordons and drains the node instead, before the same rules; none where numo does.
    fn drain_across(&self) -> Option<Across> {
        None
    }
    /// What is known of the drain that the release begins; none if there is none, or nobody wants it probed.
    fn probe(&mut self) -> Option<Look>;
    /// Lets the node go.
    fn release(&mut self);
    /// Waits until the node is changed.
    fn await_change(&mut self) -> Next;
    /// Whether the rules of this phase have a say in the turn at all.
    fn asks(&self, _phase: Phase) -> bool {
        true
    }
    /// How numo's cordon is taken off the node; none where there is none, or it is taken off with the last writes.
    fn uncordon(&self) -> Option<Uncordon> {
        None
    }
    /// Keeps the turn for a while after the last rule.
    fn soak(&mut self) -> Next {
        ON
    }
    /// The last writes of the turn.
    fn finish(&mut self);

    /// Says that the turn is closed. Before the first disruption it is given back once it was for too long.
    fn close(&mut self, step: Step, why: Why) {
        let (phases, _, change, out) = self.parts().all();
        let restored = closed::close(out, change, &why, phases.now);
        self.say(if restored { Step::Selected } else { step }, why);
    }

    /// What a turn does that goes on though a rule of this phase failed for good; none is of one that does not.
    fn go_on_failed(&mut self, _phase: Phase, _why: &Why) -> Option<Next> {
        None
    }
    /// Whether a node that is at this step may still be left out.
    fn may_leave_out(&self) -> bool {
        true
    }
    /// Leaves the node out, and gives it back.
    fn leave_out(&mut self, why: Why);
    /// Gives up what the owner does to all of its nodes.
    fn abort(&mut self, why: Why);
    /// What is to be remembered of a node that is held, where its journal has nothing yet.
    fn pin_of_held(&self) -> Option<Pin> {
        None
    }

    /// A phase, and the steps that its verdicts are journaled with.
    fn at(&self, phase: Phase) -> At {
        At {
            phase,
            step: Some(step_of(phase)),
            then: None,
        }
    }
}

/// The step of a node whose rules of this phase are asked.
pub const fn step_of(phase: Phase) -> Step {
    match phase {
        Phase::Pre => Step::PreRules,
        Phase::PreRelease => Step::PreRelease,
        Phase::BeforeUncordon => Step::Ready,
        Phase::Post => Step::PostRules,
        Phase::OnFailure => Step::Held,
        Phase::Admit | Phase::PreRun | Phase::PostRun => Step::Selected,
    }
}
