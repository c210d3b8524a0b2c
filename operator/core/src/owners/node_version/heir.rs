//! The new node that takes the place of one that is replaced: a machine is made for it, or one that is there is taken; it joins, becomes
//! a pair with the old node, gets its labels, and is waited for.

use super::{
    known::{failed_joins_now, for_change, has_failed, is_held_for_joins, request, version},
    pass::Pass,
    sets::Class,
    turn::Going,
};
use crate::{
    action::{Action, Change, Event, EventAction, FleetAction, NodePatch, NodePurpose},
    observed::{ChangeView, NodeView, PendingNodeView, is_same},
    time::later,
    turn::{
        journal::{self, Journal},
        steps::{Next, ON, STAY, Turn},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Reason, Step,
    conditions::Actor,
    machines::{CspState, Goal, PendingNodeSpec, annotations},
    marks,
};
use serde_json::Value;

/// Whether a label is Kubernetes' own, which a new node has by itself (`^(.+\.|)(kubernetes|k8s)\.io(/.*)?$`).
fn is_of_kubernetes(key: &str) -> bool {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let begins = |before: &str| before.is_empty() || (before.len() > 1 && before.ends_with('.'));
    ["kubernetes.io", "k8s.io"].into_iter().any(|own| {
        let mut places = key.match_indices(own);
        places.any(|(at, _)| begins(&key[..at]) && ends(&key[at + own.len()..]))
    })
}

/// Whether a label or annotation speaks of the old node alone: a mark of numo's, what keeps remediation off it, or the version that a
/// Plan took it to, which nothing has done to the new one.
fn is_mark(key: &str) -> bool {
    key.starts_with(marks::PREFIX)
        || key.starts_with(marks::RULE_LABEL_PREFIX)
        || key == marks::EXCLUDE_FROM_REMEDIATION
        || key.starts_with(marks::PLAN_HASH_PREFIX)
}

/// Taints by which others say that they drain, remediate or remove a node: they are of the old one alone, which may have got them in its turn.
const LEAVING_TAINTS: [&str; 6] = [
    marks::MEDIK8S_DRAIN,
    marks::KUBEVIRT_DRAIN,
    "medik8s.io/remediation",
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

impl<'a> Pass<'a> {
    /// The PendingNode of a turn, that is to join or has.
    pub(super) fn pending_of(&self, change: &ChangeView) -> Option<&'a PendingNodeView> {
        let mut pending = self
            .sets
            .pending
            .iter()
            .filter(|one| !one.leaves() && !one.deleting);
        pending.find(|one| is_for(one, change)).copied()
    }

    /// Whether the turn of another node has this PendingNode.
    fn is_claimed(&self, pending: &PendingNodeView) -> bool {
        let mut flying = self.flying.iter();
        self.claimed.contains(&pending.name) || flying.any(|change| is_for(pending, change))
    }

    /// A machine of the group that is to join or has, and is for nobody: one that another operator made, or of a turn that ended.
    pub(super) fn unclaimed(&self, group_id: &str) -> impl Iterator<Item = &'a PendingNodeView> {
        let pending = self.sets.pending.iter().copied();
        pending.filter(move |one| {
            let is_free = !one.leaves() && !one.deleting && !self.is_claimed(one);
            let of_group = !group_id.is_empty() && is_same(one.group_id(), group_id);
            // One that was never made may never be.
            is_free && of_group && !one.provider_id().is_empty() && self.is_of_version(one)
        })
    }

    /// Whether a machine is of the version, as far as that is known before it has joined.
    fn is_of_version(&self, pending: &PendingNodeView) -> bool {
        let node = self.observed.nodes.get(pending.node());
        let class = node.and_then(|node| self.sets.class_of(node));
        match class {
            Some(class) => matches!(class, Class::Mint | Class::UpToDate | Class::AwaitingAnnotation),
            None => !self.is_of_other_run(pending),
        }
    }

    /// Whether a machine was made for a turn of another run: it has the image that was asked for then.
    fn is_of_other_run(&self, pending: &PendingNodeView) -> bool {
        let mut changes = self.flying.iter().chain(&self.over);
        changes
            .any(|change| change.key.name == for_change(pending) && change.spec.target.run_id != self.run_id)
    }

    /// Whether a machine was made for a turn of another version, as the journal of that has it: it would join with what nobody asks for any more,
    /// and until its time is over no other one might be made in its place. With other components alone it joins with those of now.
    pub(super) fn is_of_other_version(&self, pending: &PendingNodeView) -> bool {
        let wanted = version(self.view);
        let mut changes = self.flying.iter().chain(&self.over);
        let of = changes.find(|change| change.key.name == for_change(pending));
        let target = of.map(|change| &change.spec.target);
        let is_other = target.is_some_and(|of| of.run_id != self.run_id && !is_same(&of.version, wanted));
        is_other && self.intent.problem.is_none()
    }

    /// What new machines of the group wait for, as others of the run did not join.
    fn others_failed(&self, change: &ChangeView, group_id: &str) -> Option<Why> {
        let mut flying = self.flying.iter();
        let failed = flying.find(|other| {
            let node = self.observed.nodes.get(&other.spec.node_name);
            let group = node.map(|node| node.annotation(annotations::SCALING_GROUP_ID));
            other.key != change.key
                && other.spec.target.run_id == change.spec.target.run_id
                && is_held_for_joins(other)
                && group.is_some_and(|group| is_same(group, group_id))
        })?;
        let message = format!(
            "machines of group {group_id} did not join for Node {}: none is made for others until that ends",
            failed.spec.node_name
        );
        Some(Why::new(Reason::JoinFailed, message))
    }

    /// What is said of a new node that is not Ready: it has as long for that as for joining, then a person is to look at it.
    pub(super) fn away(&self, heir: &NodeView) -> Why {
        let message = format!("Node {}, which takes its place, is not Ready", heir.name);
        let why = Why::new(Reason::Joining, message);
        let since = heir.not_ready_since.unwrap_or(heir.created);
        let until = later(since, self.intent.join_seconds);
        if until > self.now {
            why.until(until)
        } else {
            why.ended_by(Actor::ClusterAdmin)
        }
    }

    /// Whether a node that is to go has no turn yet.
    fn has_obsolete_waiting(&self) -> bool {
        let mut obsolete = self.sets.each(Class::Obsolete);
        obsolete.any(|node| self.turn_of(node).is_none())
    }

    /// Why no machine is made in the group now.
    fn against_machine(&self, change: &ChangeView, group_id: &str) -> Option<Why> {
        let Some(group) = self.fleet.group(group_id) else {
            return Some(no_group(group_id, &change.spec.node_name));
        };
        if let Some(why) = self.group_is_gone(group_id, Timestamp::MIN) {
            let message = format!(
                "{}; `numo skip {}` leaves the node out",
                why.message, change.spec.node_name
            );
            return Some(Why::new(why.reason, message));
        }
        if let Some(why) = self.other_image(group) {
            return Some(why);
        }
        let surge = self.surge();
        let full = self.sets.surplus() + self.made >= surge;
        let no_room = || {
            let message = format!(
                "{} machines are new, unknown, or to join or to go, and spec.surge allows {surge}",
                self.sets.surplus() + self.made
            );
            Why::new(Reason::WaitingForTurn, message)
        };
        self.autoscaler_runs_in(change)
            .or_else(|| self.others_failed(change, group_id))
            .or_else(|| {
                let person = self.no_surge().or_else(|| self.stuck_machine());
                full.then(|| person.unwrap_or_else(no_room))
            })
    }

    /// That no machine may be made at all, which a person has said.
    pub(super) fn no_surge(&self) -> Option<Why> {
        let message = "spec.surge: found 0, wanted at least 1: no machine is made before it is raised";
        let why = Why::new(Reason::WaitingForTurn, message);
        (self.surge() == 0).then(|| why.ended_by(Actor::ClusterAdmin))
    }
}

/// Whether a PendingNode is for this turn: numo made it for the turn or gave it to it, and it has not failed. One that has joined after all is as
/// good as another.
pub(super) fn is_for(pending: &PendingNodeView, change: &ChangeView) -> bool {
    let status = &pending.status;
    let is_ready = status.csp_state == Some(CspState::Ready) && status.reached_goal == Some(true);
    let has_joined = is_ready && !pending.leaves();
    let is_own = pending.name == request(change);
    let is_given = for_change(pending) == change.key.name;
    is_own || (is_given && (has_joined || !has_failed(change, pending)))
}

/// That nobody knows the group of a node.
pub(super) fn no_group(group_id: &str, node: &str) -> Why {
    let message = format!(
        "found no ScalingGroup with spec.groupId {group_id:?}, wanted one; `numo skip {node}` leaves the node out"
    );
    Why::new(Reason::ScalingGroupNotFound, message)
}

impl<'a> Going<'_, 'a> {
    /// Waits until a new node is there that takes the place of the old one, and has what that has.
    pub(super) fn await_heir(&mut self, donor: &'a NodeView, closed: Option<&Why>) -> Next {
        let heir = self.pass.heir_of(donor);
        if let Some(heir) = heir.filter(|heir| self.pass.is_heir(heir)) {
            return self.equip(donor, heir, closed);
        }
        if let Some(pending) = self.pass.pending_of(self.change) {
            self.await_join(donor, pending, closed);
            return STAY;
        }
        let name = request(self.change);
        let failed = self.pass.fleet.pending.get(&name).filter(|one| one.leaves());
        if let Some(pending) = failed {
            self.note_failed(self.pass.words_of_failed(pending));
            return STAY;
        }
        let tries = self.pass.intent.joins;
        if failed_joins_now(self.change) >= tries {
            self.hold_for_joins(tries);
            return STAY;
        }
        if let Some(why) = closed {
            self.close(Step::PreRules, why.clone());
            return STAY;
        }
        self.begin_machine(donor, name);
        STAY
    }

    /// Takes a machine that is there, or writes down that one is to be made.
    fn begin_machine(&mut self, donor: &NodeView, name: String) {
        let change = self.change;
        let group_id = donor.annotation(annotations::SCALING_GROUP_ID);
        let pass = &mut *self.pass;
        // What has failed for this turn is given to it already, and taken up once it has joined after all.
        let is_new = |one: &&PendingNodeView| for_change(one) != change.key.name;
        let free = pass.unclaimed(group_id).find(is_new);
        if let Some(free) = free {
            pass.claim(free, &change.key.name);
            let why = Why::new(Reason::Joining, "a new machine is to take its place");
            return self.say(Step::PreRules, why);
        }
        let joined = pass.joined_before(donor, change);
        if let Some(new) = joined.filter(|new| !new.annotation(annotations::DONOR).is_empty()) {
            pair(pass, donor, new);
            return self.say(Step::PreRules, has_joined(new));
        }
        if let Some(why) = self.control_plane_first(donor) {
            return self.close(Step::PreRules, why);
        }
        let pass = &mut *self.pass;
        if let Some(why) = pass.against_machine(change, group_id) {
            // A node that is to go waits for the place of this turn, and this turn until it is gone.
            let is_waited_for = why.reason == Reason::WaitingForTurn && pass.has_obsolete_waiting();
            // Of a group whose image is never seen none is made before a person has mended that: others go first.
            let is_in_vain = why.reason == Reason::GroupImageOutdated && why.who().is_person();
            if is_waited_for || is_in_vain {
                self.close(Step::PreRules, why);
            } else {
                self.wait(why);
            }
            return;
        }
        if let Some(new) = joined {
            pass.made += 1;
            pair(pass, donor, new);
            return self.say(Step::PreRules, has_joined(new));
        }
        self.intend_machine(donor, name);
    }

    /// Waits, and looks again when the wait is said to end.
    fn wait(&mut self, why: Why) {
        if let Some(until) = why.until {
            self.pass.out.wake(until);
        }
        self.say(Step::PreRules, why);
    }

    /// Writes down that a machine is to be made.
    fn intend_machine(&mut self, donor: &NodeView, name: String) {
        let (pass, change) = (&mut *self.pass, self.change);
        let group_id = donor.annotation(annotations::SCALING_GROUP_ID);
        let deadline = later(pass.now, pass.intent.join_seconds);
        let spec = PendingNodeSpec {
            group_id: Some(group_id.to_owned()),
            goal: Some(Goal::Join),
            deadline: Some(deadline.to_string()),
            ..PendingNodeSpec::default()
        };
        let action = FleetAction::CreatePendingNode {
            name,
            owner: (pass.view.name.clone(), pass.view.uid.clone()),
            spec: Box::new(spec),
            turn: Some(change.key.name.clone()),
        };
        pass.made += 1;
        let note = format!(
            "a machine of group {group_id} is to be made for the place of Node {}",
            donor.name
        );
        let event = Event::normal(Reason::Joining.name(), EventAction::Change, note).on(&donor.name);
        pass.act(&donor.name, Action::Fleet(action), Some(event));
        let why = Why::new(Reason::Joining, "a new machine is to take its place");
        self.say(Step::PreRules, why);
    }

    /// Why no machine is made for a node whose turn has begun: one of the control plane is of another version by now. Its turn is given
    /// back, as that one waits for the place; one that is cordoned keeps it, and gets its machine.
    fn control_plane_first(&self, donor: &NodeView) -> Option<Why> {
        if journal::entered(self.change, Step::Cordoned).is_some() {
            return None;
        }
        let first = self.pass.sets.control_plane_behind()?;
        self.pass.control_plane_first(first, donor)
    }

    /// A machine is on its way: it is made, it joins, and it becomes a pair with the old node.
    fn await_join(&mut self, donor: &NodeView, pending: &'a PendingNodeView, closed: Option<&Why>) {
        if let Some(why) = self.pass.contradicted(pending) {
            return self.say(Step::PreRules, why);
        }
        let pass = &mut *self.pass;
        let node = pass.observed.nodes.get(pending.node());
        let is_new = |node: &&NodeView| {
            let is_ready = pending.status.csp_state == Some(CspState::Ready);
            pass.sets.class_of(node) == Some(Class::Mint) || (is_ready && pass.is_found_again(pending, node))
        };
        if let Some(mint) = node.filter(is_new) {
            pair(pass, donor, mint);
            return self.say(Step::PreRules, has_joined(mint));
        }
        let mut joins = node.filter(|node| pass.sets.class_of(node) == Some(Class::Heir));
        if let Some(heir) = joins.take_if(|heir| heir.annotation(annotations::DONOR) == donor.name) {
            // A crash between the two halves.
            pair(pass, donor, heir);
            return self.say(Step::PreRules, has_joined(heir));
        }
        let outdated = node.filter(|node| pass.sets.class_of(node) == Some(Class::Outdated));
        if let Some(node) = outdated.filter(|_| pending.name == request(self.change)) {
            let message = format!(
                "Node {} of PendingNode {} has joined with image {} and components {:?}, which are not those of the NodeVersion",
                node.name,
                pending.name,
                node.annotation(annotations::NODE_IMAGE),
                node.annotation(annotations::KUBERNETES_COMPONENTS)
            );
            return self.note_failed(message);
        }
        if pending.provider_id().is_empty() {
            if let Some(why) = closed.cloned().or_else(|| self.control_plane_first(donor)) {
                // None was made as far as is known, and one that was is looked for before its PendingNode goes.
                return self.close(Step::PreRules, why);
            }
            let pass = &mut *self.pass;
            // It may have been started since its PendingNode was written, and would take the new machine away.
            let group = pass.fleet.group(pending.group_id());
            let runs = pass.autoscaler_runs_in(self.change);
            if let Some(why) = runs.or_else(|| pass.other_image(group?)) {
                return self.wait(why);
            }
            // One that is given up in this very pass is not made.
            let is_late = pending.deadline().is_some_and(|deadline| deadline <= pass.now);
            let gone = pass.group_is_gone(pending.group_id(), pending.created);
            if let Some(gone) = gone {
                return self.say(Step::PreRules, gone);
            }
            if !is_late {
                pass.make_machine(&donor.name, pending);
            }
        }
        let why = self.joining(pending);
        self.wait(why);
    }

    /// What a machine on its way waits for.
    fn joining(&self, pending: &PendingNodeView) -> Why {
        let told = self.pass.fleet.provider.told.get(&pending.name);
        if let Some(problem) = told.and_then(|told| told.problem.as_ref()) {
            let message = format!(
                "no machine could be made for PendingNode {}: {problem}",
                pending.name
            );
            return Why::new(Reason::ProviderUnavailable, message);
        }
        let state = pending.status.csp_state.unwrap_or_default().name();
        let message = match (pending.provider_id(), pending.node()) {
            ("", _) => format!("a machine is being made (PendingNode {})", pending.name),
            (id, node) => format!("machine {id} (Node {node}, {state}) is to join"),
        };
        let until = pending.deadline().filter(|deadline| *deadline > self.pass.now);
        // The clock ends the wait; where none was set, only the provider does.
        if let Some(why) = self.pass.unheard(pending).filter(|_| until.is_none()) {
            return why;
        }
        if let Some(why) = self.pass.overdue(pending) {
            return why;
        }
        let message = match until {
            Some(until) => format!("{message} until {until}"),
            None => message,
        };
        Why::new(Reason::Joining, message).until(until)
    }

    /// Journals that the machine did not join, or is not what was asked for.
    fn note_failed(&mut self, message: String) {
        self.enter_failed(Step::PreRules, EventAction::Change, message);
    }

    fn enter_failed(&mut self, step: Step, action: EventAction, message: String) {
        let why = Why::new(Reason::JoinFailed, message);
        let mut journal = Journal::open(self.change, self.pass.now);
        journal.enter(step, Some(&why));
        let event = Event::warning(why.reason.name(), action, &*why.message);
        let event = event.on(&self.change.spec.node_name);
        self.pass.tell(journal, event);
        self.say(step, why);
    }

    /// Holds the node: as many machines were made for it as may be.
    fn hold_for_joins(&mut self, tries: usize) {
        let last = self.change.status.message.clone().unwrap_or_default();
        let message = format!(
            "{tries} machines in a row did not join (spec.joinRetries), the last: {last}; see whether image {} boots in group {}",
            self.pass.view.spec.image.as_deref().unwrap_or_default(),
            self.parts().node.annotation(annotations::SCALING_GROUP_ID)
        );
        self.enter_failed(Step::Held, EventAction::Hold, message);
    }

    /// The pair is known to both: the new node gets what the old one has, and is waited for.
    fn equip(&mut self, donor: &'a NodeView, heir: &'a NodeView, closed: Option<&Why>) -> Next {
        let pass = &mut *self.pass;
        let mut pending = pass.sets.pending.iter().copied();
        // One that another turn has, and that cannot be so, is for a person.
        let is_its = |one: &&PendingNodeView| {
            !one.leaves() && one.node() == heir.name && pass.contradicted(one).is_none()
        };
        if let Some(pending) = pending.find(is_its) {
            if !pending.deleting {
                pass.delete_pending(&donor.name, pending);
            }
            let message = format!("Node {} takes its place", heir.name);
            self.say(Step::PreRules, Why::new(Reason::Joining, message));
            return STAY;
        }
        if let Some(patch) = equipping(pass, donor, heir) {
            pass.act(&donor.name, Action::PatchNode(patch), None);
            let message = format!("Node {} gets its labels", heir.name);
            self.say(Step::PreRules, Why::new(Reason::Joining, message));
            return STAY;
        }
        if heir.ready {
            return ON;
        }
        let why = pass.away(heir);
        if let Some(until) = why.until {
            pass.out.wake(until);
        }
        match closed {
            Some(closed) => self.close(Step::PreRules, closed.clone()),
            None => self.say(Step::PreRules, why),
        }
        STAY
    }
}

/// That a new node is there.
fn has_joined(new: &NodeView) -> Why {
    let message = format!("Node {} has joined to take its place", new.name);
    Why::new(Reason::Joining, message)
}

/// Makes a pair of the old node and the new one, the new one first.
fn pair(pass: &mut Pass<'_>, donor: &NodeView, heir: &NodeView) {
    let marks = [
        (heir, annotations::DONOR, &donor.name),
        (donor, annotations::HEIR, &heir.name),
    ];
    for (node, key, value) in marks {
        if node.annotation(key) == value {
            continue;
        }
        let patch = NodePatch {
            annotations: vec![Change::of(&node.annotations, key, Some(value.clone()))],
            ..NodePatch::of(node, NodePurpose::Replace)
        };
        pass.act(&donor.name, Action::PatchNode(patch), None);
    }
}

/// What gives the new node the labels of the old one, and annotations and taints if that is asked for; none once it has them.
fn equipping(pass: &Pass<'_>, donor: &NodeView, heir: &NodeView) -> Option<NodePatch> {
    let spec = &pass.view.spec;
    let labels = donor.labels.iter().filter(|(key, value)| {
        !is_of_kubernetes(key) && !is_mark(key) && heir.labels.get(*key) != Some(value)
    });
    let labels: Vec<Change> = labels
        .map(|(key, value)| Change::of(&heir.labels, key, Some(value.clone())))
        .collect();
    let named = spec.copied_annotations.as_deref().unwrap_or_default();
    let is_named = |key: &str| {
        named.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == name,
        })
    };
    let of_pair = |key: &str| key.starts_with("constellation.edgeless.systems/");
    let copied = donor.annotations.iter().filter(|(key, value)| {
        is_named(key) && !is_mark(key) && !of_pair(key) && heir.annotations.get(*key) != Some(value)
    });
    let annotations: Vec<Change> = copied
        .map(|(key, value)| Change::of(&heir.annotations, key, Some(value.clone())))
        .collect();
    let taints = (spec.copy_taints == Some(true))
        .then(|| taints(donor, heir))
        .flatten();
    if labels.is_empty() && annotations.is_empty() && taints.is_none() {
        return None;
    }
    Some(NodePatch {
        labels,
        annotations,
        taints,
        ..NodePatch::of(heir, NodePurpose::Replace)
    })
}

/// The taints of the new node, with those of the old one that it lacks; none if it lacks none.
fn taints(donor: &NodeView, heir: &NodeView) -> Option<(Value, Value)> {
    let key = |taint: &Value| taint["key"].as_str().unwrap_or_default().to_owned();
    let mut wanted = heir.taints.as_array().cloned().unwrap_or_default();
    let found = wanted.len();
    for taint in donor.taints.as_array().into_iter().flatten() {
        let key_of = key(taint);
        let own = is_of_kubernetes(&key_of) || is_mark(&key_of) || LEAVING_TAINTS.contains(&key_of.as_str());
        let is_there = wanted
            .iter()
            .any(|one| key(one) == key_of && one["effect"] == taint["effect"]);
        if !own && !is_there {
            wanted.push(taint.clone());
        }
    }
    (wanted.len() > found).then(|| (heir.taints.clone(), Value::Array(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_stay_with_their_node() {
        for own in [
            "kubernetes.io/hostname",
            "k8s.io",
            "node-role.kubernetes.io/worker",
            "topology.k8s.io/zone",
            // The name of a label may be a domain as well.
            "example.com/a.kubernetes.io",
        ] {
            assert!(is_of_kubernetes(own), "{own}");
        }
        for other in [
            "team",
            "example.com/kubernetes.io",
            "notkubernetes.io/a",
            "k8s.io.example.com/a",
            "example.com/a.k8s.io.b",
            ".kubernetes.io/a",
        ] {
            assert!(!is_of_kubernetes(other), "{other}");
        }
    }
}
