//! PendingNodes: machines that are to join or to go. One that is to join and does not in time goes; one that is to go is deleted at the
//! provider until it is gone. Nothing is deleted whose Node is there.

use super::{
    etcd::keeps_member,
    heir::is_for,
    known::{is_released_machine, is_request, request},
    pass::Pass,
    sets::{Class, is_node_of, is_noted, is_older},
};
use crate::{
    action::{Action, Change, FleetAction, FleetQuestion},
    observed::{Heard, MadeMachine, NodeView, PendingNodeView, is_same},
    text::clip,
    time::later,
    turn::journal,
    why::Why,
};
use numo_api::{
    Reason, Step,
    machines::{CspState, Goal, PendingNodeSpec, annotations},
    marks,
};

/// How long a machine that may just have been made is looked for before it is believed that there is none (seconds): a provider that is
/// eventually consistent does not see it yet.
const UNSEEN_SECONDS: i64 = 120;

/// Letters of the provider's words that are written down.
const WORDS: usize = 512;

/// The chain of what is done about a PendingNode.
fn chain(pending: &PendingNodeView) -> String {
    format!("machine {}", pending.name)
}

impl<'a> Pass<'a> {
    /// Sees to every PendingNode.
    pub(super) fn keep_pending(&mut self) {
        let rival = self.rival().is_some();
        for pending in self.sets.pending.clone() {
            // What is no machine that numo has let go is for the operator that numo replaces to see to, while that is live.
            if rival && !self.has_released(pending) {
                continue;
            }
            if pending.deleting
                || self.disown(pending)
                || self.rename(pending)
                || self.tells_contradiction(pending)
            {
                continue;
            }
            let node = self.observed.nodes.get(pending.node());
            let node = node.filter(|node| is_node_of(self.fleet, pending, node));
            match (pending.leaves(), node) {
                (false, Some(node)) => self.keep_joined(pending, node),
                (false, None) => self.keep_joining(pending),
                (true, Some(node)) => self.keep_unwanted(pending, node),
                (true, None) => self.keep_leaving(pending),
            }
            self.keep_words(pending);
        }
    }

    /// Takes the owner reference off that the operator has set which numo replaces: where the NodeVersion is deleted in the foreground, the garbage
    /// collector would delete the PendingNode before it. Whether that was written.
    fn disown(&mut self, pending: &PendingNodeView) -> bool {
        if pending.is_owned {
            let uid = Some(pending.owner_uid.clone());
            let mark = Change::of(&pending.annotations, marks::PENDING_OF, uid);
            self.write_pending(pending, pending.spec.clone(), vec![mark]);
        }
        pending.is_owned
    }

    /// Writes down what the provider has against making or deleting a machine: who only looks asks no provider, and must know it too. After a
    /// new start nothing was said yet, and what was written holds.
    fn keep_words(&mut self, pending: &PendingNodeView) {
        let (provider, what) = (&self.fleet.provider, pending.told_as());
        let told = provider.told.get(&what);
        let is_made = !pending.provider_id().is_empty() && !pending.leaves();
        let is_heard = told.is_some() || provider.did.contains_key(&what) || is_made;
        let problem = told.and_then(|told| told.problem.as_deref());
        let words = problem.map(|problem| clip(problem, WORDS));
        let change = Change::of(&pending.annotations, marks::PROVIDER_SAID, words);
        // Words that name a request or a time differ in each answer: what they begin with is the kind of failure.
        let kind = |words: &Option<String>| {
            words
                .as_deref()
                .and_then(|words| words.split(':').next().map(str::to_owned))
        };
        let is_known = kind(&change.from) == kind(&change.to) || !is_heard;
        if is_known || self.observed.settings.only_looks || self.writes(pending) {
            return;
        }
        self.write_pending(pending, pending.spec.clone(), vec![change]);
    }

    /// Whether the PendingNode is written or deleted in this pass already.
    fn writes(&self, pending: &PendingNodeView) -> bool {
        let mut actions = self.out.actions.iter();
        actions.any(|planned| match &planned.action {
            Action::Fleet(
                FleetAction::WritePendingNode { name, .. } | FleetAction::DeletePendingNode { name, .. },
            ) => *name == pending.name,
            _ => false,
        })
    }

    /// Says what is said of the machine and cannot be so; true if there is such.
    fn tells_contradiction(&mut self, pending: &PendingNodeView) -> bool {
        let found = self.contradicted(pending);
        let is_found = found.is_some();
        self.out.report.problems.extend(found);
        is_found
    }

    /// What is said of the machine cannot be so: two PendingNodes have it, or a Node that is not theirs.
    pub(super) fn contradicted(&self, pending: &PendingNodeView) -> Option<Why> {
        let id = pending.provider_id();
        if id.is_empty() {
            return None;
        }
        let mut others = self.fleet.pending.values();
        let other = others.find(|other| other.name != pending.name && is_same(other.provider_id(), id));
        let mut hosts = self.fleet.hosts.iter();
        let host = hosts.find(|(node, host)| *node != pending.node() && is_same(&host.provider_id, id));
        let what = match (other, host) {
            (Some(other), _) => format!("PendingNode {} has it too", other.name),
            (None, Some((node, _))) => format!("it is that of Node {node}"),
            (None, None) => match self.older_node(pending) {
                Some(node) => format!("Node {} was there before the machine was asked for", node.name),
                None => self.place_taken(pending)?,
            },
        };
        let message = format!(
            "PendingNode {} spec.providerID: found {id}, and {what}; numo deletes nothing because of it: delete the PendingNode that is wrong",
            pending.name
        );
        Some(Why::new(Reason::ProviderContradicts, message))
    }

    /// A node that cannot be the new one: it is older than the request.
    fn older_node(&self, pending: &PendingNodeView) -> Option<&'a NodeView> {
        let node = self.observed.nodes.get(pending.node())?;
        let is_other = is_older(pending, node) && is_node_of(self.fleet, pending, node);
        (is_other && !self.is_found_again(pending, node)).then_some(node)
    }

    /// The state of a machine, as far as it is known; it is asked for when that is due.
    pub(super) fn state(&mut self, pending: &PendingNodeView) -> Option<CspState> {
        let id = pending.provider_id();
        if id.is_empty() {
            return None;
        }
        let heard = self.heard_state(pending);
        let question = FleetQuestion::State {
            provider_id: id.to_owned(),
        };
        self.ask_again(question, heard, self.fleet.provider.poll_seconds());
        let said = heard.map(|heard| heard.said.clone());
        let unheard = self.unheard(pending);
        self.out.report.problems.extend(unheard);
        said.and_then(Result::ok)
    }

    /// What was heard of the state of a machine since its PendingNode was made: a machine before may have had its id.
    fn heard_state(&self, pending: &PendingNodeView) -> Option<&'a Heard<CspState>> {
        let states = &self.fleet.provider.states;
        let heard = states.get(&pending.provider_id().to_lowercase());
        self.heard_since(heard, pending.created)
    }

    /// The state of a machine that is to be deleted. It is not asked for before the provider has taken that or refused, unless the machine was
    /// on its way out already: nothing would follow from it, and a machine that is gone is deleted without a failure.
    pub(super) fn state_leaving(&mut self, pending: &PendingNodeView) -> Option<CspState> {
        let (provider, id) = (&self.fleet.provider, pending.provider_id().to_lowercase());
        let told = provider.told.get(&id);
        let is_refused = told.is_some_and(|told| told.problem.is_some());
        let is_told = provider.did.contains_key(&id) || is_refused;
        let heard = self.heard_state(pending);
        let heard = heard.and_then(|heard| heard.said.as_ref().ok());
        let goes = matches!(heard, Some(CspState::Terminating | CspState::Terminated));
        (is_told || goes).then(|| self.state(pending)).flatten()
    }

    /// Says how a machine stands, where that differs from what is said.
    fn write_status(&mut self, pending: &PendingNodeView, state: Option<CspState>, reached: bool) {
        let Some(state) = state else { return };
        let status = &pending.status;
        if status.csp_state == Some(state) && status.reached_goal == Some(reached) {
            return;
        }
        let action = FleetAction::WritePendingStatus {
            name: pending.name.clone(),
            uid: pending.uid.clone(),
            state,
            reached,
        };
        self.fleet(&chain(pending), action);
    }

    /// Writes a PendingNode with another spec.
    pub(super) fn write_pending(
        &mut self,
        pending: &PendingNodeView,
        spec: PendingNodeSpec,
        annotations: Vec<Change>,
    ) {
        let action = FleetAction::WritePendingNode {
            name: pending.name.clone(),
            uid: pending.uid.clone(),
            resource_version: pending.resource_version.clone(),
            spec: Box::new(spec),
            annotations,
        };
        self.fleet(&chain(pending), action);
    }

    pub(super) fn delete_pending(&mut self, at: &str, pending: &PendingNodeView) {
        let action = FleetAction::DeletePendingNode {
            name: pending.name.clone(),
            uid: pending.uid.clone(),
        };
        self.fleet(at, action);
    }

    /// The machine is to go: it did not join. As it may have been made at this moment, until when it is looked for is written down.
    fn give_up(&mut self, pending: &PendingNodeView, state: Option<CspState>, is_told: bool) {
        let is_seen = !matches!(state, None | Some(CspState::Unknown | CspState::Terminated));
        let until = later(self.now, if is_seen { 0 } else { UNSEEN_SECONDS });
        let spec = PendingNodeSpec {
            goal: Some(Goal::Leave),
            deadline: Some(until.to_string()),
            ..pending.spec.clone()
        };
        self.write_pending(pending, spec, Vec::new());
        self.tell_given_up(pending, is_told);
    }

    /// A machine that has not joined yet.
    fn keep_joining(&mut self, pending: &'a PendingNodeView) {
        if let Some(made) = self.made_for(pending) {
            return self.write_made(pending, made);
        }
        let state = self.state(pending);
        self.write_status(pending, state, false);
        let made = self.fleet.provider.did.get(&pending.name);
        let made = made.map_or(pending.created, |made| pending.created.max(*made));
        let is_seen = later(made, UNSEEN_SECONDS) <= self.now;
        let is_lost = match state {
            Some(CspState::Failed | CspState::Terminating) => true,
            Some(CspState::Terminated) => is_seen,
            _ => false,
        };
        let deadline = pending.deadline();
        let is_late = deadline.is_some_and(|deadline| deadline <= self.now);
        let has_no_group = pending.provider_id().is_empty() && self.tell_gone_group(pending);
        // Nobody asks for one any more that was not made yet, or is still being made.
        let is_unasked = self.leaving.is_some() || self.is_of_other_version(pending);
        if is_lost || is_late || has_no_group || is_unasked {
            // Its turn tells of one that was made for it.
            let is_told = is_unasked || self.flying.iter().any(|change| is_for(pending, change));
            return self.give_up(pending, state, is_told);
        }
        if let Some(deadline) = deadline {
            self.out.wake(deadline);
        }
    }

    /// Says that the group of a PendingNode is gone, if so: nobody makes its machine.
    fn tell_gone_group(&mut self, pending: &PendingNodeView) -> bool {
        let gone = self.group_is_gone(pending.group_id(), pending.created);
        let is_gone = gone.is_some();
        let said = gone.map(|why| {
            Why::new(
                why.reason,
                format!("PendingNode {}: {}", pending.name, why.message),
            )
        });
        self.out.report.problems.extend(said);
        is_gone
    }

    /// A machine whose Node is there.
    fn keep_joined(&mut self, pending: &'a PendingNodeView, node: &'a NodeView) {
        let reached = pending.status.reached_goal == Some(true);
        let state = if reached {
            pending.status.csp_state
        } else {
            self.state(pending)
        };
        self.write_status(pending, state, state == Some(CspState::Ready));
        if pending.status.csp_state != Some(CspState::Ready) || !reached {
            // Whoever has joined in time is not deleted for being slow to be called ready.
            return;
        }
        let mut flying = self.flying.iter();
        let turn = flying.find(|change| {
            let is_current = change.spec.target.run_id == self.run_id;
            is_current && is_for(pending, change) && self.leaving.is_none()
        });
        let flies = turn.is_some();
        let is_own = turn.is_some_and(|change| request(change) == pending.name);
        match self.sets.class_of(node) {
            // Its turn goes on with it.
            Some(Class::Heir | Class::Mint) if flies => {}
            Some(Class::AwaitingAnnotation | Class::Invalid) => {}
            Some(Class::Heir) if self.completes_pair(node) => {}
            Some(Class::Mint) if self.has_partner(node) && self.leaving.is_none() => {}
            // Its turn notes first that it is not what was asked for.
            Some(Class::Outdated) if is_own => {}
            Some(Class::Mint | Class::Outdated) if self.leaving.is_none() => {
                self.make_obsolete(pending, node);
            }
            // Another NodeVersion notes on it first whose it is.
            None if !is_noted(node) => {}
            _ if flies && self.is_found_again(pending, node) => {}
            // It is a node like any other, or of another NodeVersion.
            _ => self.delete_pending(&chain(pending), pending),
        }
    }

    /// Whether there is a node whose place the new one could take: one of its group, which has no other.
    fn has_partner(&self, mint: &NodeView) -> bool {
        let group = mint.annotation(annotations::SCALING_GROUP_ID);
        let mut outdated = self.sets.each(Class::Outdated);
        outdated.any(|node| {
            is_same(node.annotation(annotations::SCALING_GROUP_ID), group) && !self.is_left_out(node)
        })
    }

    /// Notes on the old node which new one takes its place, where that is noted on the new one alone: the operator that numo replaces was stopped
    /// between the two. True if so; without its PendingNode the new one would be a node like any other, and one more than before.
    fn completes_pair(&mut self, heir: &NodeView) -> bool {
        let group = heir.annotation(annotations::SCALING_GROUP_ID);
        let donor = self.observed.nodes.get(heir.annotation(annotations::DONOR));
        let donor = donor.filter(|donor| {
            self.sets.class_of(donor) == Some(Class::Outdated)
                && is_same(donor.annotation(annotations::SCALING_GROUP_ID), group)
                && !self.is_left_out(donor)
        });
        let Some(donor) = donor.filter(|_| self.leaving.is_none()) else {
            return false;
        };
        self.note(donor, annotations::HEIR, Some(&heir.name));
        true
    }

    /// Nothing needs the new node: it goes.
    fn make_obsolete(&mut self, pending: &PendingNodeView, node: &NodeView) {
        self.note(node, annotations::OBSOLETE, Some("true"));
        self.delete_pending(&node.name, pending);
    }

    /// A machine is to go, and its Node is there: it was let go, which its turn sees to, or has joined late.
    fn keep_unwanted(&mut self, pending: &'a PendingNodeView, node: &'a NodeView) {
        let is_released = self.has_released(pending);
        let state = if is_released {
            self.state_leaving(pending)
        } else {
            self.state(pending)
        };
        self.write_status(pending, state, state == Some(CspState::Terminated));
        if is_released {
            return self.make_again_obsolete(pending, node);
        }
        if matches!(state, Some(CspState::Terminating | CspState::Terminated)) {
            return self.tell_left_node(pending, node);
        }
        // What runs in the cluster is deleted in a turn of its own, or not at all.
        match self.sets.class_of(node) {
            Some(Class::UpToDate | Class::AwaitingAnnotation | Class::Mint) => {
                let deadline = later(self.now, self.intent.join_seconds);
                let spec = PendingNodeSpec {
                    goal: Some(Goal::Join),
                    deadline: Some(deadline.to_string()),
                    ..pending.spec.clone()
                };
                self.write_pending(pending, spec, Vec::new());
            }
            Some(Class::Outdated) if self.leaving.is_none() => self.make_obsolete(pending, node),
            _ => self.delete_pending(&chain(pending), pending),
        }
    }

    /// Whether a turn has let the machine of this PendingNode go, and is yet to see it gone.
    fn has_released(&self, pending: &PendingNodeView) -> bool {
        let mut flying = self.flying.iter();
        flying.any(|change| {
            let leaving = self.leaving_of(change);
            leaving.is_some_and(|one| one.name == pending.name)
                && journal::entered(change, Step::Released).is_some()
        })
    }

    /// The machine of a Node was let go, and this is another one that its kubelet has made since: it is to go, too, in a turn of its own, as
    /// pods may run on it by now. What the other turn has written down stays.
    fn make_again_obsolete(&mut self, pending: &PendingNodeView, node: &NodeView) {
        let is_its = is_same(self.fleet.machine_of(&node.name), pending.provider_id());
        let is_known = matches!(
            self.sets.class_of(node),
            Some(class) if !matches!(class, Class::Obsolete | Class::Invalid)
        );
        if is_its && is_known && self.turn_of(node).is_none() && self.leaving.is_none() {
            self.note(node, annotations::OBSOLETE, Some("true"));
        }
    }

    /// A machine is to go, and no Node stands for it: it is deleted until it is gone.
    fn keep_leaving(&mut self, pending: &'a PendingNodeView) {
        if pending.provider_id().is_empty() {
            return self.find(pending);
        }
        let state = self.state_leaving(pending);
        let is_gone = state == Some(CspState::Terminated) && !self.may_be_unseen(pending);
        self.write_status(pending, state, is_gone);
        if is_gone {
            // The turn of its node remembers it first.
            let mut flying = self.flying.iter();
            let awaited = flying.any(|change| {
                self.leaving_of(change)
                    .is_some_and(|one| one.name == pending.name)
                    && journal::entered(change, Step::Changed).is_none()
            });
            if !awaited && pending.status.csp_state == state {
                self.delete_pending(&chain(pending), pending);
            }
            return;
        }
        // Its turn has the member of etcd taken out first.
        let mut flying = self.flying.iter();
        let is_member = flying.any(|change| {
            self.leaving_of(change)
                .is_some_and(|one| one.name == pending.name)
                && keeps_member(self.observed, change)
        });
        if !is_member {
            self.delete_machine(&chain(pending), pending, state);
        }
    }

    /// Whether there may be a machine that the provider does not see yet. One that was let go was seen.
    fn may_be_unseen(&mut self, pending: &PendingNodeView) -> bool {
        let id = pending.provider_id();
        if !id.is_empty() && is_released_machine(self.observed, &self.view.uid, id) {
            return false;
        }
        // A deadline that lies further ahead is not what was written when it was given up.
        let written = pending.deadline();
        let written = written.filter(|until| *until <= later(self.now, UNSEEN_SECONDS));
        let until = written.unwrap_or_else(|| later(pending.created, UNSEEN_SECONDS));
        if until > self.now {
            self.out.wake(until);
        }
        until > self.now
    }

    /// Has the provider delete a machine, unless it is on its way out.
    pub(super) fn delete_machine(&mut self, at: &str, pending: &PendingNodeView, state: Option<CspState>) {
        let provider_id = pending.provider_id().to_owned();
        let goes = matches!(state, Some(CspState::Terminating | CspState::Terminated));
        if !goes && self.may_tell(&provider_id.to_lowercase()) {
            let action = FleetAction::DeleteMachine {
                pending: pending.name.clone(),
                provider_id,
            };
            self.fleet(at, action);
        }
    }

    /// Whether the provider is to be told now, and not after a pause. What it has against it is said. One that says what was so before
    /// is not told again at once what it has done.
    pub(super) fn may_tell(&mut self, what: &str) -> bool {
        let did = self.fleet.provider.did.get(what);
        let did = did.filter(|at| !self.is_ahead(**at));
        let again = did.map(|at| later(*at, self.fleet.provider.poll_seconds()));
        if let Some(again) = again.filter(|again| *again > self.now) {
            self.out.wake(again);
            return false;
        }
        let Some(told) = self.fleet.provider.told.get(what) else {
            return true;
        };
        if let Some(problem) = &told.problem {
            let message = format!("the provider refuses, about {what}: {problem}");
            self.tell_problem(Reason::ProviderUnavailable, message);
        }
        if told.again > self.now {
            self.out.wake(told.again);
            return false;
        }
        true
    }

    /// Looks for a machine that may have been made before numo could write down which one it is.
    fn find(&mut self, pending: &'a PendingNodeView) {
        let Some(heard) = self.heard_for(pending) else {
            return;
        };
        match &heard.said {
            Ok(None) if self.may_be_unseen(pending) => {}
            Ok(None) => self.delete_pending(&chain(pending), pending),
            Ok(Some(made)) => self.write_made(pending, made),
            Err(_) => {
                let unheard = self.unheard(pending);
                self.out.report.problems.extend(unheard);
                if self.tell_gone_group(pending) {
                    let message = format!(
                        "PendingNode {}: delete it once you have seen that no machine of request {} is left",
                        pending.name, pending.name
                    );
                    self.tell_problem(Reason::ScalingGroupNotFound, message);
                }
            }
        }
    }

    /// Writes down how the machine of a request is called by now, where it cannot be deleted as it was written down: a machine that was given
    /// up may have got its id or its Node since. Whether that was written.
    fn rename(&mut self, pending: &PendingNodeView) -> bool {
        let (provider, id) = (&self.fleet.provider, pending.provider_id());
        let is_ours = is_request(&pending.name) && pending.leaves() && !id.is_empty();
        if !is_ours || self.observed.nodes.contains_key(pending.node()) {
            return false;
        }
        let told = provider.told.get(&id.to_lowercase());
        let is_refused = told.is_some_and(|told| told.problem.is_some());
        let mut hosts = self.fleet.hosts.values();
        if !is_refused && !hosts.any(|host| is_same(&host.provider_id, id)) {
            return false;
        }
        let Some(heard) = self.heard_for(pending) else {
            return false;
        };
        match &heard.said {
            Ok(Some(made)) if !is_same(&made.provider_id, id) || made.node != pending.node() => {
                self.write_made(pending, made);
                true
            }
            _ => false,
        }
    }

    /// Which machine a request has, as was heard last; it is asked again once that is due.
    fn heard_for(&mut self, pending: &PendingNodeView) -> Option<&'a Heard<Option<MadeMachine>>> {
        let question = FleetQuestion::Find {
            group_id: pending.group_id().to_owned(),
            request: pending.name.clone(),
        };
        let heard = self.found_for(pending);
        self.ask_again(question, heard, self.fleet.provider.poll_seconds())
    }

    /// Writes down which machine was made for a PendingNode.
    fn write_made(&mut self, pending: &PendingNodeView, made: &MadeMachine) {
        let spec = PendingNodeSpec {
            provider_id: Some(made.provider_id.clone()),
            node_name: Some(made.node.clone()),
            ..pending.spec.clone()
        };
        self.write_pending(pending, spec, Vec::new());
    }

    /// What was heard of the machine of a PendingNode, by the name of that. What was heard before there was this one is of an earlier
    /// PendingNode of its name.
    pub(super) fn found_for(&self, pending: &PendingNodeView) -> Option<&'a Heard<Option<MadeMachine>>> {
        let heard = self.fleet.provider.found.get(&pending.name);
        heard.filter(|heard| heard.at >= pending.created)
    }

    /// The machine that was made for a PendingNode, and is not written down yet.
    fn made_for(&self, pending: &PendingNodeView) -> Option<&'a MadeMachine> {
        let heard = self
            .found_for(pending)
            .filter(|_| pending.provider_id().is_empty())?;
        heard.said.as_ref().ok()?.as_ref()
    }

    /// Has the machine of a PendingNode made. Once the provider has said which one that is, it is written down, whatever the turn waits for
    /// by then ([`Self::keep_joining`]).
    pub(super) fn make_machine(&mut self, at: &str, pending: &PendingNodeView) {
        if self.made_for(pending).is_none() && self.may_tell(&pending.name) {
            let action = FleetAction::CreateMachine {
                pending: pending.name.clone(),
                uid: pending.uid.clone(),
                group_id: pending.group_id().to_owned(),
            };
            self.fleet(at, action);
        }
    }

    /// Gives a PendingNode to a turn.
    pub(super) fn claim(&mut self, pending: &PendingNodeView, change: &str) {
        self.claimed.insert(pending.name.clone());
        let value = Some(change.to_owned());
        let mark = Change::of(&pending.annotations, marks::PENDING_FOR, value);
        self.write_pending(pending, pending.spec.clone(), vec![mark]);
    }
}
