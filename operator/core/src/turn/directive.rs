//! What a person said about a node, and how that is journaled: the same for every owner.

use crate::{
    action::Planned,
    observed::{ChangeView, NodeView},
    turn::journal::{self, Journal},
    why::{GivenUp, Why},
};
use jiff::Timestamp;
use numo_api::{Directive, DirectiveAction, Reason, Step};
use std::collections::BTreeMap;

/// What a person said, in a sentence.
pub fn persons_words(what: &str, change: &ChangeView, directive: &Directive) -> String {
    let by = directive.by.as_deref().unwrap_or("someone");
    let reason = directive.reason.as_deref();
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{what} by {by}{why} (NodeChange {} spec.directive)", change.key)
}

/// What a person wants of the node, if it is this.
fn asked(change: &ChangeView, action: DirectiveAction) -> Option<&Directive> {
    let directive = change.spec.directive.as_ref();
    directive.filter(|directive| directive.action == action)
}

/// Whether nobody has acted on the directive yet. What another NodeChange has seen says nothing of that.
fn is_fresh(change: &ChangeView) -> bool {
    let seen = change.status.observed_generation.filter(|_| !change.is_copied());
    seen.unwrap_or(1) < change.generation
}

/// That nobody acts on what a person wants of a node that is left alone, in words.
pub(crate) fn unheard(change: &ChangeView) -> String {
    let said = change.spec.directive.as_ref().map(|directive| directive.action);
    let said = said.filter(|action| *action != DirectiveAction::Hold && is_fresh(change));
    said.map_or_else(String::new, |action| {
        format!(
            "; spec.directive {action:?} is not carried out before that, as the node may be in mid-change"
        )
    })
}

/// That a person holds the node, if so.
pub(crate) fn held(change: &ChangeView) -> Option<Why> {
    let directive = asked(change, DirectiveAction::Hold)?;
    let words = persons_words("held", change, directive);
    Some(Why::new(Reason::HeldByPerson, words))
}

/// The nodes that a person holds: a hold is of the node, and stays when its owner goes to something else before it is taken back.
#[derive(Debug, Default)]
pub(crate) struct Holds<'a>(BTreeMap<&'a str, &'a ChangeView>);

impl<'a> Holds<'a> {
    /// Those of these journals of an owner, of whatever run.
    pub fn of(changes: impl Iterator<Item = &'a ChangeView>) -> Self {
        let held = changes.filter(|change| change.is_held());
        Self(
            held.map(|change| (change.spec.node_uid.as_str(), change))
                .collect(),
        )
    }

    /// That a person holds this node, if so.
    pub fn on(&self, node: &NodeView) -> Option<Why> {
        held(self.0.get(node.uid.as_str())?)
    }
}

/// That a person leaves the node out, if so.
pub(crate) fn skipped(change: &ChangeView) -> Option<Why> {
    let directive = asked(change, DirectiveAction::Skip)?;
    let words = persons_words("skipped", change, directive);
    Some(Why::new(Reason::SkippedByPerson, words))
}

/// That a person gives the owner up with this node, if so.
pub(crate) fn given_up(change: &ChangeView) -> Option<Why> {
    let directive = asked(change, DirectiveAction::Abort)?;
    let by = GivenUp::Directive(change.key.clone());
    Some(Why::aborted(by, persons_words("given up", change, directive)))
}

/// That a person gives up what an owner asks of its nodes now, on one of their NodeChanges.
pub(crate) fn all_given_up<'a>(
    mut changes: impl Iterator<Item = &'a ChangeView>,
    run_id: &str,
) -> Option<Why> {
    changes.find_map(|change| given_up(change).filter(|_| change.spec.target.run_id == run_id))
}

/// Nobody has acted yet on what a person has said of a node that has no turn. A later numo does, whose journal it is.
pub(crate) fn is_new(change: &ChangeView) -> bool {
    !journal::is_of_later(change) && (change.status.step.is_none() || is_fresh(change))
}

/// A person has asked to leave a node out that has no turn, and that is not journaled yet.
pub fn skip_asked(change: &ChangeView) -> bool {
    is_new(change) && asked(change, DirectiveAction::Skip).is_some()
}

/// The same, in words.
pub(crate) fn newly_skipped(change: &ChangeView) -> Option<Why> {
    skipped(change).filter(|_| skip_asked(change))
}

/// Journals that a node is left out.
pub(crate) fn leave_out(change: &ChangeView, why: &Why, now: Timestamp) -> Option<Planned> {
    let mut journal = Journal::open(change, now);
    journal.obey();
    journal.enter(Step::Skipped, Some(why));
    journal.planned(None)
}

/// A person asked to try a node again that had been left out.
pub fn retry_asked(change: &ChangeView) -> bool {
    is_fresh(change) && asked(change, DirectiveAction::Retry).is_some()
}

/// The same, in words.
pub(crate) fn retried(change: &ChangeView) -> Option<Why> {
    let is_meant = is_fresh(change) && !journal::is_of_later(change);
    let directive = asked(change, DirectiveAction::Retry).filter(|_| is_meant)?;
    let words = persons_words("retried", change, directive);
    Some(Why::new(Reason::Admitting, words))
}

/// Journals that a node waits again that was left out before it had a turn, as a person has asked: its turn may be far away.
pub(crate) fn wait_again(change: Option<&ChangeView>, now: Timestamp) -> Option<Planned> {
    let change = change.filter(|change| change.status.step == Some(Step::Skipped))?;
    let why = retried(change).filter(|_| journal::begun(change).is_none())?;
    let mut journal = Journal::open(change, now);
    journal.obey();
    journal.enter(Step::Selected, Some(&why));
    journal.planned(None)
}

/// The journal of the next attempt of a node, which begins with this step. The rules of its wave are journaled before the release, and
/// stay those where the attempt begins after it.
pub(crate) fn next_attempt<'a>(change: &'a ChangeView, step: Step, why: &Why, now: Timestamp) -> Journal<'a> {
    let mut journal = Journal::open(change, now);
    journal.obey();
    journal.next_attempt();
    if matches!(step, Step::Released | Step::Changed) {
        journal.status.wave_rules.clone_from(&change.status.wave_rules);
    }
    journal.enter(step, Some(why));
    journal
}

/// At which step a node is that stays out ([`stays_out`]), and why; none of any other node.
pub(crate) fn why_out(change: &ChangeView) -> Option<(Step, Why)> {
    let step = change.status.step.filter(|_| stays_out(change))?;
    let reason = journal::reason(change).unwrap_or(Reason::SkippedByPerson);
    let message = change.status.message.clone().unwrap_or_default();
    Some((step, Why::new(reason, message)))
}

/// Whether a node was left out of what is asked for now, or failed for good, and nobody has asked for it since. One whose turn ended as
/// nobody wanted it any more is taken up again once somebody does.
pub(crate) fn stays_out(change: &ChangeView) -> bool {
    // One that was done and is behind again is done again.
    let over = matches!(change.status.step, Some(Step::Skipped | Step::Failed)) && !change.is_copied();
    let again = [
        Reason::RunGivenUp,
        Reason::NotSelected,
        Reason::Superseded,
        Reason::NodeGone,
    ];
    over && !retry_asked(change) && !again.iter().any(|reason| journal::is_for(change, *reason))
}
