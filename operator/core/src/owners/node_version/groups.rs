//! ScalingGroups: which image new machines of a group get, and which groups there are.

use super::{
    known::{is_first, owner_of, owns},
    pass::Pass,
    sets::facts,
};
use crate::{
    action::{FleetAction, FleetQuestion},
    names,
    observed::{DISCOVERY_SECONDS, GroupFacts, Heard, NodeView, ScalingGroupView, is_same},
    time::later,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Reason,
    conditions::{Actor, Condition, types},
    machines::{NodeRole, ScalingGroupSpec, annotations},
};

/// How many looks the provider has to show an image that it has set.
const LOOKS: i64 = 4;
/// Fewest and most machines of a group that was found, as the reference has it.
const SIZES: (i32, i32) = (1, 10);
/// Digits of the hash behind a name that several groups have.
const GROUP_HASH: usize = 6;

/// What is said of a group: whether new machines of it would be outdated.
pub fn outdated(is_outdated: bool) -> Condition {
    let (status, reason, message) = if is_outdated {
        (
            "True",
            "ScalingGroupNodeImageOutOfDate",
            "Scaling group will not use the latest image when creating new nodes",
        )
    } else {
        (
            "False",
            "ScalingGroupNodeImageUpToDate",
            "Scaling group will use the latest image when creating new nodes",
        )
    };
    Condition {
        type_: "Outdated".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..Condition::default()
    }
}

impl<'a> Pass<'a> {
    /// Sees to the groups of the NodeVersion, and to which groups there are.
    pub(super) fn keep_groups(&mut self) {
        let is_left = self.leaving.is_some() || self.rival().is_some();
        if self.fleet.provider.missing.is_some() || is_left {
            return;
        }
        let groups = self.fleet.groups.values();
        let own = groups.filter(|group| owns(self.view, self.fleet, group));
        for group in own.collect::<Vec<_>>() {
            match self
                .fleet
                .group(group.id())
                .filter(|first| first.name != group.name)
            {
                Some(first) => self.tell_twice(group, first),
                None => self.keep_group(group),
            }
        }
        if is_first(self.view, self.fleet) {
            self.tell_unowned();
            self.discover();
        }
    }

    /// Says which groups are of no NodeVersion: nothing is done to their nodes.
    fn tell_unowned(&mut self) {
        for group in self.fleet.groups.values() {
            if let Some(message) = self.unowned(group) {
                self.tell_problem(Reason::InvalidField, message);
            }
        }
    }

    /// Why a ScalingGroup is of no NodeVersion, if it is of none.
    pub(super) fn unowned(&self, group: &ScalingGroupView) -> Option<String> {
        if owner_of(self.fleet, group).is_some() {
            return None;
        }
        let (found, wanted) = match group.node_version() {
            Some(found) => (
                format!("{found}, and there is no such NodeVersion"),
                "one that is there",
            ),
            None => (
                "none, and there are several NodeVersions".to_owned(),
                "the one of its nodes",
            ),
        };
        let name = &group.name;
        Some(format!(
            "ScalingGroup {name} spec.nodeImage: found {found}: its nodes are left as they are; name {wanted}"
        ))
    }

    /// Says that two ScalingGroups are of one group: only the first is seen to, or two NodeVersions would set its image in turns, for ever.
    fn tell_twice(&mut self, group: &ScalingGroupView, first: &ScalingGroupView) {
        let message = format!(
            "ScalingGroup {} spec.groupId: found {}, which ScalingGroup {} has, too: numo works on that one only; delete one of them",
            group.name,
            group.id(),
            first.name
        );
        self.tell_problem(Reason::InvalidField, message);
    }

    /// What the provider has against saying or setting which image new machines of a group get, if so.
    pub(super) fn group_unheard(&self, group: &ScalingGroupView) -> Option<Why> {
        let (provider, id) = (&self.fleet.provider, group.id().to_lowercase());
        let told = provider.told.get(&id).and_then(|told| told.problem.as_ref());
        let heard = provider.images.get(&id);
        let problem = told.or_else(|| heard?.said.as_ref().err())?;
        let message = format!(
            "whether new machines of ScalingGroup {} get the image is not known: {problem}",
            group.name
        );
        Some(Why::new(Reason::ProviderUnavailable, message))
    }

    /// That the provider says it has set the image that new machines of a group are to get, and still shows another one after some looks: the
    /// two may be names of one image, and only a person knows that.
    pub(super) fn image_unseen(&self, group: &ScalingGroupView) -> Option<Why> {
        let (provider, id) = (&self.fleet.provider, group.id().to_lowercase());
        let wanted = self.view.spec.image.as_deref().unwrap_or_default();
        if self.observed.settings.only_looks {
            return self.image_said_unseen(group, wanted);
        }
        let told = provider
            .told_images
            .get(&id)
            .filter(|told| is_same(&told.image, wanted))?;
        let since = told.since?;
        let heard = provider
            .images
            .get(&id)
            .and_then(|heard| heard.said.as_deref().ok());
        // It is told again only once it shows another one.
        if later(since, LOOKS * provider.poll_seconds()) > self.now || (heard.is_none() && told.times < 2) {
            return None;
        }
        let found = heard
            .or(group.status.image_reference.as_deref())
            .unwrap_or_default();
        let message = format!(
            "ScalingGroup {}: the provider said at {since} that new machines get image {wanted:?}, and it shows {found:?}: write spec.image as \
             the provider shows it, or see there what keeps it",
            group.name
        );
        Some(Why::new(Reason::GroupImageOutdated, message).ended_by(Actor::ClusterAdmin))
    }

    /// The same as the operator says it: who only looks does not know how often an image was set.
    fn image_said_unseen(&self, group: &ScalingGroupView, wanted: &str) -> Option<Why> {
        let found = group.status.image_reference.as_deref().unwrap_or_default();
        let mut conditions = self.view.status.conditions.iter();
        let said = conditions.find(|one| one.type_ == types::STALLED && one.status == "True")?;
        let begins = format!("ScalingGroup {}: the provider said at ", group.name);
        let message = said.message.as_deref()?;
        let message = message.get(message.find(&begins)?..)?;
        // It is of another image, or of a time before the provider has shown it.
        let is_so = !is_same(found, wanted) && message.contains(&format!("get image {wanted:?}"));
        is_so.then(|| Why::new(Reason::GroupImageOutdated, message).ended_by(Actor::ClusterAdmin))
    }

    /// Why a new machine of a group would get another image than the one that is asked for, or might.
    pub(super) fn other_image(&self, group: &ScalingGroupView) -> Option<Why> {
        let wanted = self.view.spec.image.as_deref().unwrap_or_default();
        let found = group.status.image_reference.as_deref().unwrap_or_default();
        let name = &group.name;
        if is_same(found, wanted) {
            return self.image_unsettled(group);
        }
        let message =
            format!("ScalingGroup {name} status.imageReference: found {found:?}, wanted {wanted:?}");
        let why = Why::new(Reason::GroupImageOutdated, message);
        let person = self.group_unheard(group).or_else(|| self.image_unseen(group));
        person.or(Some(why))
    }

    /// That the provider was told another image, as the spec was edited there and back: new machines may get that at any moment, whatever it has
    /// shown last.
    fn image_unsettled(&self, group: &ScalingGroupView) -> Option<Why> {
        let (provider, id) = (&self.fleet.provider, group.id().to_lowercase());
        let wanted = self.view.spec.image.as_deref().unwrap_or_default();
        let told = provider.told_images.get(&id);
        let told = told.filter(|told| !is_same(&told.image, wanted))?;
        let is_asked = provider.told.get(&id).is_some_and(|one| one.problem.is_none());
        let until = told
            .since
            .map(|since| later(since, LOOKS * provider.poll_seconds()));
        let until = until.filter(|until| *until > self.now);
        let message = format!(
            "ScalingGroup {}: the provider was told image {:?} before {wanted:?}, and may yet give it to new machines",
            group.name, told.image
        );
        let why = Why::new(Reason::GroupImageOutdated, message).until(until);
        (is_asked || until.is_some()).then_some(why)
    }

    /// Whether the image of a group may be set now. One that the provider does not show is set again as seldom as groups are listed: each time
    /// it may make something new for it.
    fn may_set_image(&mut self, group: &ScalingGroupView) -> bool {
        let id = group.id().to_lowercase();
        let last = self
            .fleet
            .provider
            .did
            .get(&id)
            .filter(|_| self.image_unseen(group).is_some());
        let again = last.map(|last| later(*last, DISCOVERY_SECONDS));
        if let Some(again) = again.filter(|again| *again > self.now) {
            self.out.wake(again);
            return false;
        }
        self.may_tell(&id)
    }

    /// Has new machines of a group get the image.
    fn keep_group(&mut self, group: &'a ScalingGroupView) {
        let (id, chain) = (group.id(), format!("group {}", group.name));
        if id.is_empty() {
            let message = format!("ScalingGroup {} spec.groupId: found none, wanted one", group.name);
            return self.tell_problem(Reason::InvalidField, message);
        }
        self.tell_sizes(group);
        let heard = self.fleet.provider.images.get(&id.to_lowercase());
        let wanted = self.view.spec.image.as_deref().unwrap_or_default();
        let image = heard.and_then(|heard| heard.said.as_deref().ok());
        let is_outdated = image.is_some_and(|image| !is_same(image, wanted));
        let is_doubted = heard.is_some_and(|heard| self.is_refused_in(Some(id), heard.at));
        let is_settled = !is_outdated && !is_doubted && self.image_unsettled(group).is_none();
        let pause = if image.is_some() && is_settled {
            DISCOVERY_SECONDS
        } else {
            self.fleet.provider.poll_seconds()
        };
        let question = FleetQuestion::GroupImage {
            group_id: id.to_owned(),
        };
        self.ask_again(question, heard, pause);
        if let Some(Err(problem)) = heard.map(|heard| &heard.said) {
            let message = format!("the image of ScalingGroup {} is not known: {problem}", group.name);
            self.tell_problem(Reason::ProviderUnavailable, message);
        }
        let Some(image) = image.filter(|_| !wanted.is_empty()) else {
            return;
        };
        let condition = outdated(is_outdated);
        let is_said = |one: &Condition| one.type_ == condition.type_ && one.status == condition.status;
        let status = &group.status;
        if status.image_reference.as_deref() != Some(image) || !status.conditions.iter().any(is_said) {
            let action = FleetAction::WriteGroupStatus {
                name: group.name.clone(),
                uid: group.uid.clone(),
                image: image.to_owned(),
                is_outdated,
            };
            self.fleet(&chain, action);
        }
        let begins = self.intent.problem.is_none() && self.intent.suspended.is_none();
        if is_outdated && begins && self.may_set_image(group) {
            let action = FleetAction::SetGroupImage {
                group_id: id.to_owned(),
                image: wanted.to_owned(),
            };
            self.fleet(&chain, action);
        }
    }

    /// Makes a ScalingGroup for each group of the provider, and takes those away whose group is gone.
    fn discover(&mut self) {
        let heard = self.fleet.provider.groups.as_ref();
        let pause = self.pause_of_groups(heard);
        let Some(heard) = self.ask_again(FleetQuestion::Groups, heard, pause) else {
            return;
        };
        let found = match &heard.said {
            Ok(found) => found,
            Err(problem) => {
                let message = format!("the groups of machines cannot be listed: {problem}");
                return self.tell_problem(Reason::ProviderUnavailable, message);
            }
        };
        for (at, group) in found.iter().enumerate() {
            let mut before = found[..at].iter();
            // One that is listed twice has one object: two would be of one group.
            if !before.any(|one| is_same(&one.group_id, &group.group_id)) {
                self.meet(group, &self.name_for(group, found));
            }
        }
        // A provider that has no group at all has lost its memory, not its machines.
        if !found.is_empty() {
            self.forget_groups(found);
        }
    }

    /// How long the last list of groups counts (seconds): not so long where there is none, and where a node of an unknown group has come.
    fn pause_of_groups(&self, heard: Option<&Heard<Vec<GroupFacts>>>) -> i64 {
        let is_settled = |heard: &Heard<_>| {
            heard.said.is_ok() && !self.has_new_group(heard.at) && !self.is_refused_in(None, heard.at)
        };
        if heard.is_none_or(is_settled) {
            DISCOVERY_SECONDS
        } else {
            self.fleet.provider.poll_seconds()
        }
    }

    /// Whether the provider makes no machine that was asked for since a time, in this group or in any: that may be gone.
    fn is_refused_in(&self, group_id: Option<&str>, since: Timestamp) -> bool {
        let mut pending = self.sets.pending.iter();
        pending.any(|one| {
            let told = self.fleet.provider.told.get(&one.name);
            one.created > since
                && one.provider_id().is_empty()
                && group_id.is_none_or(|id| is_same(id, one.group_id()))
                && told.is_some_and(|told| told.problem.is_some())
        })
    }

    /// That a group is surely gone: it is not in the list of all groups that the provider has given since this time, and nobody knows the
    /// image of it.
    pub(super) fn group_is_gone(&self, group_id: &str, since: Timestamp) -> Option<Why> {
        let provider = &self.fleet.provider;
        let listed = provider.groups.as_ref().filter(|heard| heard.at >= since)?;
        let found = listed.said.as_ref().ok().filter(|found| !found.is_empty())?;
        let is_found = found.iter().any(|one| is_same(&one.group_id, group_id));
        let image = provider.images.get(&group_id.to_lowercase());
        let is_denied =
            image.is_some_and(|heard| heard.said.is_err()) || self.fleet.group(group_id).is_none();
        let message = format!("the provider has no group {group_id} any more: no machine of it is made");
        let is_gone = !group_id.is_empty() && !is_found && is_denied;
        is_gone.then(|| Why::new(Reason::ScalingGroupNotFound, message))
    }

    /// Whether a node has come since groups were listed, of a group that nobody knows: as in the reference nobody waits for the next listing.
    fn has_new_group(&self, listed: Timestamp) -> bool {
        let mut nodes = self.sets.all().map(|(node, _)| node);
        nodes.any(|node| {
            let group = node.annotation(annotations::SCALING_GROUP_ID);
            node.created > listed && !group.is_empty() && self.fleet.group(group).is_none()
        })
    }

    /// The name of the ScalingGroup of a group. Providers make it of the group's own, and what tells two groups apart there, as capitals and
    /// what has many groups of one name, may tell nothing apart here: then each has a hash of its id behind it.
    fn name_for(&self, group: &GroupFacts, found: &[GroupFacts]) -> String {
        let name = group.name.to_lowercase();
        let is_other = |id: &str| !is_same(id, &group.group_id);
        let mut found = found.iter();
        let is_shared = found.any(|one| one.name.to_lowercase() == name && is_other(&one.group_id));
        let known = self.fleet.groups.get(&name);
        if !is_shared && !known.is_some_and(|known| is_other(known.id())) {
            return name;
        }
        let hash = names::hash(&["group", &group.group_id.to_lowercase()], GROUP_HASH);
        let kept: String = name.chars().take(names::NAME_MAX - 1 - GROUP_HASH).collect();
        format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
    }

    fn meet(&mut self, found: &GroupFacts, name: &str) {
        let chain = format!("group {name}");
        let Some(group) = self.fleet.group(&found.group_id) else {
            let role = if found.is_control_plane {
                NodeRole::ControlPlane
            } else {
                NodeRole::Worker
            };
            let spec = ScalingGroupSpec {
                node_image: (!self.may_be_of_other(found)).then(|| self.view.name.clone()),
                group_id: Some(found.group_id.clone()),
                autoscaler_group_name: Some(found.autoscaler_group_name.clone()),
                node_group_name: Some(found.node_group_name.clone()),
                autoscaling: None,
                min: Some(SIZES.0),
                max: Some(SIZES.1),
                role: Some(role),
            };
            let action = FleetAction::CreateGroup {
                name: name.to_owned(),
                spec: Box::new(spec),
            };
            return self.fleet(&chain, action);
        };
        if group.spec.node_group_name.as_deref() != Some(&found.node_group_name)
            && !found.node_group_name.is_empty()
        {
            let action = FleetAction::NameGroup {
                name: group.name.clone(),
                uid: group.uid.clone(),
                node_group_name: found.node_group_name.clone(),
            };
            self.fleet(&chain, action);
        }
    }

    /// Whether a group without a ScalingGroup may be of another NodeVersion: it has nodes, so somebody may have deleted its ScalingGroup, and only
    /// that told whose they are. They would get the image of this one, without their own rules.
    fn may_be_of_other(&self, found: &GroupFacts) -> bool {
        let of_group = |node: &NodeView| {
            let told = || facts(self.fleet, node).and_then(|heard| heard.said.as_ref().ok());
            match node.annotation(annotations::SCALING_GROUP_ID) {
                "" => told().is_some_and(|told| is_same(&told.group_id, &found.group_id)),
                group => is_same(group, &found.group_id),
            }
        };
        self.fleet.versions.len() > 1 && self.observed.nodes.values().any(of_group)
    }

    /// A group that is gone has no nodes. One that nobody can find and that has some is named.
    fn forget_groups(&mut self, found: &[GroupFacts]) {
        let is_found = |group: &&ScalingGroupView| found.iter().any(|one| is_same(&one.group_id, group.id()));
        let groups = self.fleet.groups.values();
        for group in groups.filter(|group| !is_found(group)).collect::<Vec<_>>() {
            let mut nodes = self.observed.nodes.values();
            let node = nodes.find(|node| is_same(node.annotation(annotations::SCALING_GROUP_ID), group.id()));
            if let Some(node) = node {
                let message = format!(
                    "the provider has no group {} (ScalingGroup {}) any more, and Node {} is of it",
                    group.id(),
                    group.name,
                    node.name
                );
                self.tell_problem(Reason::ProviderContradicts, message);
                continue;
            }
            let action = FleetAction::DeleteGroup {
                name: group.name.clone(),
                uid: group.uid.clone(),
            };
            self.fleet(&format!("group {}", group.name), action);
        }
    }
}
