//! The nodes of a NodeVersion that wait for their turn: in which order, what stands against each, and how its turn begins.

use super::{
    heir::{is_for, no_group},
    joining::{UNNAMED_SECONDS, asked_again, settles},
    known::{reservation, version},
    pass::Pass,
    sets::{Class, facts},
};
use crate::{
    admit::{
        approval::Approvals,
        domains::Domains,
        gates::Gate,
        queue::{self, Queue},
        room::{Room, Words},
        schedule::Schedule,
        waves::Waves,
    },
    decision::Decision,
    key::Key,
    ledger::{self, Ledger},
    observed::{ChangeView, NodeVersionView, NodeView, Observed},
    owner::OwnerKind,
    pace::Whose,
    quorum,
    rules::{self, Admission, Subject},
    time::later,
    turn::{
        directive::{self, Holds, skip_asked, stays_out},
        lease,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    NodeChangeSpec, Reason, Step,
    conditions::{Actor, types},
    machines::annotations,
};
use std::collections::BTreeMap;

/// The nodes of a NodeVersion that have no turn.
pub(super) struct Waiting<'p, 'a> {
    pass: &'p mut Pass<'a>,
    nodes: Vec<&'a NodeView>,
    /// Their journals of what is asked for now, by the uids of the nodes.
    ended: BTreeMap<&'a str, &'a ChangeView>,
    holds: Holds<'a>,
    waves: Waves<'a>,
    domains: Option<Domains<'a>>,
    approvals: Approvals,
    room: Room<'a>,
    /// How many machines may yet be made.
    budget: usize,
    /// Machines that are there and are for nobody, by their group in lower case.
    free: BTreeMap<String, usize>,
    /// A node of the control plane that is yet to be replaced.
    control_plane: Option<&'a NodeView>,
    took_control_plane: bool,
}

impl Pass<'_> {
    /// Whether a node is left out of the run: by a person, or for good.
    pub(super) fn is_left_out(&self, node: &NodeView) -> bool {
        let mut over = self.over.iter();
        over.any(|change| {
            change.spec.node_uid == node.uid
                && change.spec.target.run_id == self.run_id
                && (stays_out(change) || skip_asked(change))
        })
    }

    /// Why a node that is not Ready is left out for now.
    pub(super) fn given_up(&self, node: &NodeView) -> Option<Why> {
        self.intent.not_ready().given_up(node, self.now)
    }

    /// Why no machine is made for a node while this one of the control plane is yet to be replaced: no kubelet is to be newer than the
    /// API server.
    pub(super) fn control_plane_first(&self, first: &NodeView, node: &NodeView) -> Option<Why> {
        if quorum::is_control_plane(node) {
            return None;
        }
        let message = format!("Node {} of the control plane is replaced first", first.name);
        let why = Why::new(Reason::ControlPlaneFirst, message);
        let is_out = self.is_left_out(first) || self.given_up(first).is_some();
        Some(ledger::ended_by_person(why, is_out))
    }

    /// Who else holds the lease of a node.
    fn leased(&mut self, node: &NodeView) -> Option<Why> {
        let holder = lease::holder_of(OwnerKind::NodeVersion, &self.view.uid);
        lease::wait_for(&mut self.out, (self.observed, self.now), &node.name, &holder)
    }

    /// How many machines may be made, once those that have their turn have got theirs.
    fn unspoken(&self) -> usize {
        let flying = self.flying.iter();
        let yet = flying.filter(|change| {
            let class = self
                .observed
                .node_of(change)
                .and_then(|node| self.sets.class_of(node));
            let mut pending = self.sets.pending.iter();
            class == Some(Class::Outdated)
                && !pending.any(|one| super::known::for_change(one) == change.key.name)
        });
        let budget = self.sets.budget(self.surge());
        budget.saturating_sub(yet.count())
    }
}

impl<'p, 'a> Waiting<'p, 'a> {
    /// Those that are behind and have no turn.
    pub(super) fn of(pass: &'p mut Pass<'a>) -> Self {
        let behind = pass.sets.all().filter(|(_, class)| class.is_behind());
        let waits = behind.filter(|(node, _)| pass.turn_of(node).is_none());
        let mut nodes: Vec<&'a NodeView> = waits.map(|(node, _)| node).collect();
        pass.order(&mut nodes);
        let mut free: BTreeMap<String, usize> = BTreeMap::new();
        for group in pass.fleet.groups.values() {
            let id = group.id();
            free.insert(id.to_lowercase(), pass.unclaimed(id).count());
        }
        let words = Words {
            state: "in flight",
            limit: "maxUnavailable of spec.mutex or a MutexBinding".to_owned(),
            keys: "mutexKeys of spec.mutex or a MutexBinding".to_owned(),
            whose: String::new(),
        };
        let limit = pass.intent.room(pass.sets.base());
        let mut room = Room::of(limit, pass.intent.mutex_keys.iter().copied(), words)
            .closed_by(pass.intent.closed.clone());
        for (node, is_kept) in pass.in_turn() {
            room.keep(node, is_kept);
        }
        Self {
            ended: pass.ended(),
            holds: Holds::of(pass.over.iter().copied()),
            domains: pass.domains(),
            waves: std::mem::take(&mut pass.waves),
            approvals: std::mem::take(&mut pass.approvals),
            budget: pass.unspoken(),
            control_plane: pass.sets.control_plane_behind(),
            took_control_plane: false,
            nodes,
            room,
            free,
            pass,
        }
    }

    /// Whether a new node, or a machine that is to become one, is there for this one; or none is needed.
    fn has_machine(&self, node: &NodeView) -> bool {
        match self.pass.sets.class_of(node) {
            Some(Class::Obsolete) => true,
            Some(Class::Donor) => self.pass.heir_of(node).is_some(),
            _ => {
                let group = node.annotation(annotations::SCALING_GROUP_ID).to_lowercase();
                self.free.get(&group).is_some_and(|free| *free > 0)
            }
        }
    }

    /// Whether a machine was to be made for the node when its turn was given back: that is counted already.
    fn is_intended(&self, node: &NodeView) -> bool {
        let mut pending = self.pass.sets.pending.iter();
        let ended = self.ended.get(node.uid.as_str());
        ended.is_some_and(|change| pending.any(|one| !one.leaves() && !one.deleting && is_for(one, change)))
    }

    /// Until when machines are looked for or waited for that nobody's turn has: the first of them.
    fn unmade_until(&self) -> Option<Timestamp> {
        let pending = self.pass.sets.pending.iter();
        let until = pending.filter_map(|one| one.deadline());
        until.filter(|until| *until > self.pass.now).min()
    }

    /// The provider may make no machine for the node now.
    fn no_machine(&self, node: &NodeView) -> Option<Why> {
        if self.has_machine(node) || self.is_intended(node) || self.budget > 0 {
            return None;
        }
        if let Some(why) = self.pass.no_surge() {
            return Some(why);
        }
        let (surplus, surge) = (self.pass.sets.surplus(), self.pass.surge());
        let message = format!(
            "{} nodes are in flight, {surplus} machines are new, unknown, or to join or to go, and spec.surge allows {surge}",
            self.room.found()
        );
        let why = |message: String| Why::new(Reason::WaitingForTurn, message);
        if self.room.found() > 0 {
            return Some(ledger::ended_by_person(why(message), self.room.is_kept()));
        }
        if let Some(why) = self.pass.stuck_machine() {
            return Some(why);
        }
        let sets = &self.pass.sets;
        let mut first = sets.each(Class::Obsolete).chain(sets.each(Class::Donor));
        if let Some(first) = first.find(|first| first.uid != node.uid) {
            let why = why(format!("{message}: Node {} goes first", first.name));
            return Some(ledger::ended_by_person(why, self.pass.is_left_out(first)));
        }
        // No turn ends it: machines come, or go, or their time is over.
        let why = why(message).until(self.unmade_until());
        Some(why.ended_by(Actor::ClusterItself))
    }

    /// Whether a node is to go whose machine has the place of one that others need, and no turn will end that.
    fn is_in_the_way(&self, node: &NodeView) -> bool {
        let goes = self.pass.sets.class_of(node) == Some(Class::Obsolete);
        goes && self.budget == 0 && self.room.found() == 0
    }

    /// Nodes of the control plane go first. Where a new node is there already, none is to be made.
    fn control_plane_first(&self, node: &NodeView) -> Option<Why> {
        let why = self.pass.control_plane_first(self.control_plane?, node)?;
        (!self.has_machine(node)).then(|| ledger::ended_by_person(why, self.room.is_kept()))
    }

    /// What is known of the group of the node.
    fn unfit(&self, node: &NodeView) -> Option<Why> {
        let donor = node.annotation(annotations::DONOR);
        if !donor.is_empty() && self.pass.sets.class_of(node) == Some(Class::Outdated) {
            let message = format!("it was made for the place of Node {donor}, and is outdated by now");
            // The turn of that node ends it.
            return Some(Why::new(Reason::NothingTakesItsPlace, message).ended_by(Actor::OtherNode));
        }
        let group = node.annotation(annotations::SCALING_GROUP_ID);
        let known = self.pass.fleet.group(group);
        let found = known.is_some();
        if let Some(known) = known.filter(|_| !self.has_machine(node))
            && let Some(why) = self.pass.image_unseen(known)
        {
            return Some(why);
        }
        // What makes a node obsolete is an annotation: of a group that nobody knows no machine is deleted on its word.
        let is_obsolete = self.pass.sets.class_of(node) == Some(Class::Obsolete);
        (!found && (is_obsolete || !self.has_machine(node))).then(|| no_group(group, &node.name))
    }
}

impl<'a> Queue<'a> for Waiting<'_, 'a> {
    type One = &'a NodeView;

    fn seen(&self) -> (&'a Observed, &'a Answers, Timestamp) {
        (self.pass.observed, self.pass.answers, self.pass.now)
    }

    fn out(&mut self) -> &mut Decision {
        &mut self.pass.out
    }

    fn waiting(&mut self) -> Vec<&'a NodeView> {
        std::mem::take(&mut self.nodes)
    }

    fn node(&self, node: &'a NodeView) -> &'a NodeView {
        node
    }

    fn change(&self, node: &'a NodeView) -> Option<&'a ChangeView> {
        self.ended.get(node.uid.as_str()).copied()
    }

    fn schedule(&self) -> &Schedule<'a> {
        &self.pass.intent.schedule
    }

    fn whose(&self) -> Option<Whose<'_>> {
        Some(Whose {
            owner_uid: &self.pass.view.uid,
            run_id: &self.pass.run_id,
        })
    }

    fn is_asked(&self, node: &'a NodeView) -> bool {
        self.pass.asked == Some(node.name.as_str())
    }

    fn sort_out(&mut self, node: &'a NodeView, _ledger: &mut Ledger<'a>) -> Next {
        let said = self.change(node);
        let pass = &mut *self.pass;
        if let Some((step, why)) = said.and_then(directive::why_out) {
            pass.say(&node.name, step, why, said);
            return STAY;
        }
        if let Some(change) = said
            && let Some(why) = directive::newly_skipped(change)
        {
            pass.end(node, change, Step::Skipped, &why);
            return STAY;
        }
        if let Some(why) = pass.given_up(node) {
            pass.say(&node.name, Step::Skipped, why, said);
            return STAY;
        }
        ON
    }

    fn against(&mut self, node: &'a NodeView, gate: Gate) -> Option<Why> {
        match gate {
            // What it waits for would wait for the turn that has let it go, and that waits for this node.
            Gate::Wave | Gate::Domain | Gate::Room if self.pass.goes_again(node) => None,
            // Those that go before it wait for the place that its machine has.
            Gate::Wave | Gate::Domain if self.is_in_the_way(node) => None,
            Gate::Owner => self.pass.hold.clone(),
            Gate::Person => self.holds.on(node),
            Gate::Unfit => self.unfit(node),
            Gate::Busy => {
                let pass = &self.pass;
                let other = pass.observed.turn_of_other(node, &pass.view.uid);
                let busy = other.map(|other| ledger::busy(pass.observed, &node.name, other, pass.now));
                busy.or_else(|| pass.kept_by_other(node))
            }
            Gate::State => self.pass.intent.not_ready().wait(&mut self.pass.out, node),
            Gate::Quorum => quorum::refusal_of_next(self.pass.observed, node, self.took_control_plane)
                .or_else(|| self.pass.member_left_behind(node)),
            Gate::Lease => self.pass.leased(node),
            Gate::Wave => self
                .control_plane_first(node)
                .or_else(|| self.waves.refusal(&node.name)),
            Gate::Room => self
                .room
                .refusal(node)
                .or_else(|| self.waves.no_room(node))
                .or_else(|| self.no_machine(node)),
            Gate::Domain => self.domains.as_ref()?.refusal(node),
            Gate::Approval => self.approvals.refusal(&self.waves, &node.name),
            // The page of admission weighs these itself, or there is nothing to weigh.
            Gate::Waits
            | Gate::Stop
            | Gate::Unread
            | Gate::Window
            | Gate::Leaving
            | Gate::Budget
            | Gate::Drain => None,
        }
    }

    fn against_owner(&self) -> Vec<Why> {
        self.pass.holds(&self.waves).collect()
    }

    fn admission(&self, node: &'a NodeView) -> Admission {
        let pass = &self.pass;
        let attempt = self.change(node).map_or(0, |change| change.status.attempt);
        let subject = Subject {
            from_version: node.annotation(annotations::NODE_IMAGE),
            to_version: version(pass.view),
            run: &pass.run_id,
            ..Subject::waiting(pass.owner, &pass.view.uid, node, attempt)
        };
        let rules = pass.rules_of(&node.name);
        rules::admission(&rules, &subject, pass.observed, pass.now)
    }

    fn take_place(&mut self, node: &'a NodeView, is_asked_about: bool) {
        if self.pass.sets.class_of(node) == Some(Class::Outdated) {
            let group = node.annotation(annotations::SCALING_GROUP_ID).to_lowercase();
            let is_intended = self.is_intended(node);
            match self.free.get_mut(&group).filter(|free| **free > 0) {
                Some(free) => *free -= 1,
                None if is_intended => {}
                None => self.budget = self.budget.saturating_sub(1),
            }
        }
        let places = (&mut self.room, &mut self.waves, self.domains.as_mut());
        queue::take_places(places, node, is_asked_about);
        self.took_control_plane |= !is_asked_about && quorum::is_control_plane(node);
    }

    /// Before the first turn there is our finalizer.
    fn prepare_turn(&mut self, node: &'a NodeView, admitted: &Why) -> Next {
        if self.pass.has_finalizer() {
            return ON;
        }
        self.pass.add_finalizer();
        self.say(node, Step::Selected, admitted.clone());
        STAY
    }

    fn reservation(&self, node: &'a NodeView) -> (Key, NodeChangeSpec) {
        let pass = &self.pass;
        reservation(pass.view, node, &pass.observed.settings.namespace)
    }

    fn say(&mut self, node: &'a NodeView, step: Step, why: Why) {
        if !self.pass.is_said_by_turn(node) {
            let said = self.change(node);
            return self.pass.say(&node.name, step, why, said);
        }
        // The turn that has let it go waits for what this one waits for.
        if self.pass.goes_again(node)
            && let Some(turn) = self.pass.out.report.nodes.get_mut(&node.name)
            && why.reason != Reason::Admitting
            && !turn.why.who().is_person()
        {
            let message = format!("{}. It waits: {}", turn.why.message, why.message);
            turn.why = Why {
                message: message.into(),
                ..why
            };
        }
    }
}

/// From when on nobody waits any more for a node whose machine is not known.
fn unknown_from(pass: &Pass<'_>, node: &NodeView) -> Timestamp {
    let machine = pass.fleet.machine_of(&node.name);
    if machine.is_empty() {
        return settles(node);
    }
    let failing = pass.fleet.provider.failing.get(&machine.to_lowercase());
    match failing {
        Some(since) => later(node.created.max(*since), UNNAMED_SECONDS),
        // Who asks no provider reads in the status whether the operator waits for it.
        None if pass.observed.settings.only_looks && is_complete(pass.view) => pass.now,
        None => later(pass.now, UNNAMED_SECONDS),
    }
}

/// Whether the status says that no node is left to change.
fn is_complete(view: &NodeVersionView) -> bool {
    let mut conditions = view.status.conditions.iter();
    conditions.any(|one| one.type_ == types::COMPLETE && one.status == "True")
}

/// Why a node whose machine nobody knows is left out, and who goes on without it.
fn unknown(pass: &Pass<'_>, node: &NodeView) -> String {
    let machine = pass.fleet.machine_of(&node.name);
    let found = if machine.is_empty() {
        "found none, wanted the id of its machine".to_owned()
    } else {
        let words = match facts(pass.fleet, node).map(|heard| heard.said.as_ref()) {
            Some(Err(problem)) => format!(": {problem}"),
            Some(Ok(_)) => ": it names no image or no group of it".to_owned(),
            None => String::new(),
        };
        format!("found {machine}, wanted a machine that the provider knows{words}")
    };
    let (gone, again) = if machine.is_empty() {
        ("", String::new())
    } else {
        let again = facts(pass.fleet, node).map(|_| format!("; {}", asked_again(pass.fleet, machine)));
        (
            "if the machine is gone, delete the Node; ",
            again.unwrap_or_default(),
        )
    };
    format!(
        "Node {} spec.providerID: {found}. The node is left out; {gone}`numo acknowledge nodeversion/{}` has the NodeVersion be Ready \
         without it{again}",
        node.name, pass.view.name
    )
}

/// What is said of nodes that are not to be replaced.
pub(super) fn others<'a>(pass: &Pass<'a>) -> Vec<(&'a NodeView, Step, Why)> {
    let mut said = Vec::new();
    for (node, class) in pass.sets.all() {
        let has_turn = class.is_unknown() && pass.turn_of(node).is_some();
        if has_turn || pass.is_said_by_turn(node) {
            // The turn says what keeps it.
            continue;
        }
        let (step, reason, message) = match class {
            Class::UpToDate => (Step::Done, Reason::UpToDate, "it is at the version".to_owned()),
            Class::Mint => (
                Step::Done,
                Reason::UpToDate,
                "it is new and at the version".to_owned(),
            ),
            Class::Heir => {
                let donor = node.annotation(annotations::DONOR);
                let message = format!("it takes the place of Node {donor}");
                (Step::Done, Reason::UpToDate, message)
            }
            Class::AwaitingAnnotation => {
                said.push((node, Step::Selected, pass.awaiting(node)));
                continue;
            }
            Class::Invalid => {
                // Of a new one that is yet to be seen, or one that the provider may know once it answers.
                let step = if unknown_from(pass, node) > pass.now {
                    Step::Selected
                } else {
                    Step::Skipped
                };
                (step, Reason::MachineUnknown, unknown(pass, node))
            }
            Class::Outdated | Class::Donor | Class::Obsolete => continue,
        };
        said.push((node, step, Why::new(reason, message)));
    }
    said
}
