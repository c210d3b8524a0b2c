//! The objects that stand for machines, as the API server has them, and what numo has the provider do.

use super::{
    BOOTS, Cloud, FleetAct, GROUPS, NEVER_BOOTS, Object, Refused, World, api, fleet_acts::allow_failures,
};
use crate::reading::has_turn;
use numo_api::{
    conditions::Condition,
    machines::{AutoscalingStrategyStatus, NodeVersionSpec, ScalingGroupStatus},
    marks,
};
use numo_core::{
    Owner,
    action::FleetAction,
    observed::{HostView, NodeVersionView, PendingNodeView, ScalingGroupView},
};

/// The NodeVersion that nobody asks for anything.
pub const STEADY: &str = "version-that-stays";
/// HTTP status of a call that takes a second one.
pub const ACCEPTED: u16 = 202;
/// HTTP status of a call that the provider refuses.
pub const UNAVAILABLE: u16 = 503;

type Answer = Result<Object, Refused>;

fn refused(code: u16, message: &str) -> Answer {
    Err(Refused {
        code,
        message: message.to_owned(),
    })
}

fn gone(what: &str) -> Answer {
    refused(404, &format!("{what} is gone"))
}

impl World {
    /// Someone creates a NodeVersion.
    pub fn add_version(&mut self, name: &str, spec: NodeVersionSpec) {
        let view = NodeVersionView {
            name: name.to_owned(),
            uid: format!("version-{name}-{}", self.serial()),
            generation: 1,
            created: self.time(),
            spec,
            ..NodeVersionView::default()
        };
        self.truth.fleet.versions.insert(name.to_owned(), view);
        self.touch_version(name);
    }

    pub(super) fn edit_version(&mut self, name: &str, edit: impl FnOnce(&mut NodeVersionView)) {
        if let Some(view) = self.truth.fleet.versions.get_mut(name) {
            edit(view);
            view.generation += 1;
            self.touch_version(name);
        }
    }

    /// One write or call about machines.
    pub(super) fn apply_fleet(&mut self, action: &FleetAction) -> Answer {
        let object = match action {
            FleetAction::CreateMachine {
                pending,
                uid,
                group_id,
            } => self.create_machine(pending, uid, group_id)?,
            FleetAction::DeleteMachine {
                pending, provider_id, ..
            } => {
                self.called()?;
                self.delete_machine(provider_id);
                Object::Pending(pending.clone())
            }
            FleetAction::RemoveEtcdMember { node, address, heir } => {
                self.called()?;
                let hosts = &self.truth.fleet.hosts;
                if let Some(cloud) = &mut self.cloud {
                    let host = heir.as_ref().map(|heir| hosts.get(heir));
                    let votes = |host: Option<&HostView>| {
                        host.is_some_and(|host| cloud.members.contains(&host.address))
                    };
                    if cloud.members.contains(address) && !host.is_none_or(votes) {
                        return refused(UNAVAILABLE, "found no voting member of the new node");
                    }
                    cloud.members.remove(address);
                }
                Object::Node(node.clone())
            }
            FleetAction::SetGroupImage { group_id, image } => {
                self.called()?;
                if self
                    .cloud
                    .as_ref()
                    .is_some_and(|cloud| cloud.lost.contains(group_id))
                {
                    return refused(UNAVAILABLE, "404: no such group");
                }
                if let Some(cloud) = &mut self.cloud {
                    cloud.images.insert(group_id.clone(), image.clone());
                }
                Object::Group(group_id.clone())
            }
            FleetAction::DeleteNode { node, uid } => {
                if self.truth.nodes.get(node).is_none_or(|one| one.uid != *uid) {
                    return gone("the Node");
                }
                self.remove_node(node);
                Object::Node(node.clone())
            }
            other => self.write_pending(other)?,
        };
        self.touch(object.clone());
        Ok(object)
    }

    fn called(&mut self) -> Result<(), Refused> {
        if self.cloud.as_mut().is_some_and(Cloud::refuses) {
            return refused(UNAVAILABLE, "the provider has no time").map(|_| ());
        }
        Ok(())
    }

    fn create_machine(&mut self, pending: &str, uid: &str, group: &str) -> Answer {
        self.called()?;
        if self
            .cloud
            .as_ref()
            .is_some_and(|cloud| cloud.lost.contains(group))
        {
            return refused(UNAVAILABLE, "404: no such group");
        }
        if self.cloud.as_mut().is_some_and(|cloud| cloud.takes_long(pending)) {
            return refused(ACCEPTED, "it is being made");
        }
        let made = self.make_machine(pending, group);
        let version = self.serial().to_string();
        let found = self.truth.fleet.pending.get_mut(pending);
        let Some((found, (id, node))) = found.filter(|one| one.uid == *uid).zip(made) else {
            return gone("the PendingNode");
        };
        (found.spec.provider_id, found.spec.node_name) = (Some(id), Some(node));
        found.resource_version = version;
        Ok(Object::Pending(pending.to_owned()))
    }

    fn write_pending(&mut self, action: &FleetAction) -> Answer {
        let version = self.serial().to_string();
        let created = self.time();
        let all = &mut self.truth.fleet.pending;
        match action {
            FleetAction::CreatePendingNode {
                name,
                owner,
                spec,
                turn,
            } => {
                if all.contains_key(name) {
                    return refused(409, "it exists already");
                }
                let turn = turn
                    .iter()
                    .map(|turn| (marks::PENDING_FOR.to_owned(), turn.clone()));
                let view = PendingNodeView {
                    name: name.clone(),
                    uid: format!("pending-{version}"),
                    resource_version: version,
                    created,
                    deleting: false,
                    owner_uid: owner.1.clone(),
                    annotations: turn.collect(),
                    spec: (**spec).clone(),
                    ..PendingNodeView::default()
                };
                all.insert(name.clone(), view);
                Ok(Object::Pending(name.clone()))
            }
            FleetAction::WritePendingNode {
                name,
                uid,
                resource_version,
                spec,
                annotations,
            } => {
                let Some(found) = all.get_mut(name).filter(|one| one.uid == *uid) else {
                    return gone("the PendingNode");
                };
                if found.resource_version != *resource_version || !api::test(&found.annotations, annotations)
                {
                    return refused(409, "metadata.resourceVersion is not as it was read");
                }
                api::write(&mut found.annotations, annotations);
                (found.spec, found.resource_version) = ((**spec).clone(), version);
                Ok(Object::Pending(name.clone()))
            }
            FleetAction::WritePendingStatus {
                name,
                uid,
                state,
                reached,
            } => {
                let Some(found) = all.get_mut(name).filter(|one| one.uid == *uid) else {
                    return gone("the PendingNode");
                };
                found.status.csp_state = Some(*state);
                found.status.reached_goal = Some(*reached);
                found.resource_version = version;
                Ok(Object::Pending(name.clone()))
            }
            FleetAction::DeletePendingNode { name, uid } => {
                if all.get(name).is_none_or(|one| one.uid != *uid) {
                    return gone("the PendingNode");
                }
                all.remove(name);
                Ok(Object::Pending(name.clone()))
            }
            other => self.write_group(other),
        }
    }

    fn write_group(&mut self, action: &FleetAction) -> Answer {
        let serial = self.serial();
        let fleet = &mut self.truth.fleet;
        match action {
            FleetAction::WriteGroupStatus {
                name,
                uid,
                image,
                is_outdated,
            } => {
                let Some(group) = fleet.groups.get_mut(name).filter(|one| one.uid == *uid) else {
                    return gone("the ScalingGroup");
                };
                group.status = ScalingGroupStatus {
                    image_reference: Some(image.clone()),
                    conditions: vec![outdated(*is_outdated)],
                };
                Ok(Object::Group(name.clone()))
            }
            FleetAction::CreateGroup { name, spec } => {
                let view = ScalingGroupView {
                    name: name.clone(),
                    uid: format!("group-{serial}"),
                    spec: (**spec).clone(),
                    ..ScalingGroupView::default()
                };
                if fleet.groups.insert(name.clone(), view).is_some() {
                    return refused(409, "it exists already");
                }
                Ok(Object::Group(name.clone()))
            }
            FleetAction::NameGroup {
                name,
                node_group_name,
                ..
            } => {
                let Some(group) = fleet.groups.get_mut(name) else {
                    return gone("the ScalingGroup");
                };
                group.spec.node_group_name = Some(node_group_name.clone());
                Ok(Object::Group(name.clone()))
            }
            FleetAction::DeleteGroup { name, .. } => {
                fleet.groups.remove(name);
                Ok(Object::Group(name.clone()))
            }
            FleetAction::DeleteJoiningNode { name, .. } => {
                fleet.joining.remove(name);
                Ok(Object::Joining(name.clone()))
            }
            other => self.write_autoscaler(other),
        }
    }

    fn write_autoscaler(&mut self, action: &FleetAction) -> Answer {
        let fleet = &mut self.truth.fleet;
        match action {
            FleetAction::EnableAutoscaler {
                strategy, enabled, ..
            } => {
                let Some(view) = fleet.strategies.get_mut(strategy) else {
                    return gone("the AutoscalingStrategy");
                };
                view.spec.enabled = *enabled;
                Ok(Object::Strategy(strategy.clone()))
            }
            FleetAction::WriteStrategyStatus {
                strategy, replicas, ..
            } => {
                let Some(view) = fleet.strategies.get_mut(strategy) else {
                    return gone("the AutoscalingStrategy");
                };
                view.status = AutoscalingStrategyStatus {
                    enabled: Some(*replicas > 0),
                    replicas: Some(*replicas),
                };
                Ok(Object::Strategy(strategy.clone()))
            }
            FleetAction::SetAutoscaler {
                deployment,
                replicas,
                annotations,
                command,
                ..
            } => {
                let Some(view) = fleet.autoscalers.get_mut(deployment) else {
                    return gone("the Deployment");
                };
                let is_as_read = api::test(&view.annotations, annotations);
                if !is_as_read || view.replicas != replicas.0 || view.command != command.0 {
                    return refused(409, "the Deployment is not as it was read");
                }
                api::write(&mut view.annotations, annotations);
                view.replicas = replicas.1;
                view.command.clone_from(&command.1);
                Ok(Object::Autoscaler(deployment.clone()))
            }
            _ => refused(400, "nobody carries it out"),
        }
    }
}

/// What people and machines do to NodeVersions.
impl World {
    fn some_version(&mut self) -> Option<String> {
        let versions = self.truth.fleet.versions.values();
        let versions = versions.filter(|view| !view.deleting && view.name != STEADY);
        let mut names: Vec<String> = versions.map(|view| view.name.clone()).collect();
        // Nothing is drawn where there is one, so that seeds stay what they are.
        if names.len() > 1 {
            return self.drawn(names);
        }
        names.pop()
    }

    fn ask_for_image(&mut self, versions: &[String], image: &str) {
        self.tell("person", || {
            format!("asks {} for image {image}", versions.join(" and "))
        });
        if let Some(cloud) = &mut self.cloud {
            cloud.asked += 1;
        }
        for name in versions {
            self.edit_version(name, |view| view.spec.image = Some(image.to_owned()));
        }
    }

    pub(super) fn version_act(&mut self, act: &FleetAct) {
        let Some(name) = self.some_version() else { return };
        match act {
            FleetAct::NewImage(image) => {
                let all = self.truth.fleet.versions.values();
                let all = all.filter(|view| !view.deleting && view.name != STEADY);
                let all: Vec<String> = all.map(|view| view.name.clone()).collect();
                self.ask_for_image(&all, image);
            }
            FleetAct::NewImageOfOne(image) => self.ask_for_image(&[name], image),
            FleetAct::DeleteGroup => {
                let groups = self.truth.fleet.groups.values();
                let groups = groups.filter(|group| group.spec.node_image.as_deref() != Some(STEADY));
                let groups = groups.map(|group| group.name.clone()).collect();
                let Some(group) = self.drawn(groups) else { return };
                self.tell("person", || format!("deletes ScalingGroup {group}"));
                // It may come again as one of the first NodeVersion, which has another surge.
                self.people.limits_edited |= self.truth.fleet.versions.len() > 1;
                let gone = self.truth.fleet.groups.remove(&group).map(|view| view.spec);
                if let Some((id, name)) = gone.and_then(|spec| spec.group_id.zip(spec.node_image)) {
                    self.people.groups.insert(id, name);
                }
                self.touch(Object::Group(group));
            }
            FleetAct::LoseGroup(seconds) => {
                let group = self.drawn(GROUPS.to_vec());
                let Some((cloud, (id, _))) = self.cloud.as_mut().zip(group) else {
                    return;
                };
                cloud.lost.insert(id.to_owned());
                self.tell("provider", || format!("knows no group {id} any more"));
                self.plan_fleet_act(*seconds, FleetAct::BringGroups);
            }
            FleetAct::BringGroups => {
                if let Some(cloud) = &mut self.cloud {
                    cloud.lost.clear();
                }
                self.tell("provider", || "knows all groups again".to_owned());
            }
            FleetAct::DeleteVersion => {
                self.tell("person", || format!("deletes NodeVersion {name}"));
                self.delete_owner(&Owner::node_version(name.as_str()));
            }
            FleetAct::AbortVersion(seconds) => self.abort_version(&name, *seconds),
            FleetAct::UnabortVersion(name) => {
                self.tell("person", || format!("takes NodeVersion {name} up again"));
                self.edit_version(name, |view| {
                    view.annotations.remove(marks::ABORT);
                });
            }
            FleetAct::StartAutoscaler => {
                let keys: Vec<_> = self.truth.fleet.autoscalers.keys().cloned().collect();
                for key in keys {
                    if let Some(one) = self.truth.fleet.autoscalers.get_mut(&key) {
                        one.replicas = 1;
                    }
                    self.touch(Object::Autoscaler(key));
                }
                self.tell("person", || "starts the cluster autoscaler".to_owned());
            }
            FleetAct::SetSurge(surge) => {
                self.people.limits_edited = true;
                self.tell("person", || format!("sets spec.surge to {surge}"));
                let surge = serde_json::from_value((*surge).into()).ok();
                self.edit_version(&name, |view| view.spec.surge = surge);
            }
            FleetAct::LoseProvider(seconds) => {
                let Some(cloud) = &mut self.cloud else { return };
                let before = std::mem::replace(&mut cloud.knobs.refusals, 100);
                self.tell("provider", || "answers no more".to_owned());
                let back = FleetAct::BringProvider(if before < 100 { before } else { 0 });
                self.plan_fleet_act(*seconds, back);
            }
            FleetAct::BringProvider(refusals) => {
                if let Some(cloud) = &mut self.cloud {
                    cloud.knobs.refusals = *refusals;
                }
                self.tell("provider", || "answers again".to_owned());
            }
            _ => {}
        }
    }

    fn abort_version(&mut self, name: &str, seconds: i64) {
        let uid = self.truth.fleet.versions.get(name).map(|view| view.uid.clone());
        let mut changes = self.truth.changes.values();
        let turn =
            changes.find(|change| Some(&change.spec.owner_ref.uid) == uid.as_ref() && has_turn(change));
        let Some(id) = turn.map(|change| change.spec.target.run_id.clone()) else {
            return;
        };
        self.people.gave_up = true;
        self.tell("person", || format!("gives NodeVersion {name} up"));
        self.edit_version(name, |view| {
            view.annotations.insert(marks::ABORT.to_owned(), id);
        });
        self.plan_fleet_act(seconds, FleetAct::UnabortVersion(name.to_owned()));
    }

    /// People mend what keeps NodeVersions from their ends.
    pub(super) fn mend_versions(&mut self) {
        let known = self.people.groups.clone();
        for group in self
            .truth
            .fleet
            .groups
            .values_mut()
            .filter(|group| group.spec.node_image.is_none())
        {
            group.spec.node_image = group.spec.group_id.as_ref().and_then(|id| known.get(id)).cloned();
        }
        let groups: Vec<String> = self.truth.fleet.groups.keys().cloned().collect();
        for name in groups {
            self.touch(Object::Group(name));
        }
        if let Some(cloud) = &mut self.cloud {
            (cloud.knobs.duds, cloud.knobs.refusals) = (0, 0);
            cloud.lost.clear();
        }
        // As a cloud's controller deletes the Node of a machine that is gone.
        let hosts = self.truth.fleet.hosts.iter();
        let runs = |id: &str| {
            self.cloud
                .as_ref()
                .and_then(|cloud| cloud.machine(id)?.going)
                .is_none()
        };
        let dead = hosts.filter(|(_, host)| !runs(&host.provider_id));
        let dead: Vec<String> = dead.map(|(name, _)| name.clone()).collect();
        for name in dead {
            self.remove_node(&name);
        }
        let versions: Vec<String> = self.truth.fleet.versions.keys().cloned().collect();
        for name in versions {
            self.edit_version(&name, |view| {
                view.annotations.remove(marks::ABORT);
                view.annotations.remove(marks::SUSPEND);
                view.spec.mutex.iter_mut().for_each(allow_failures);
                let surge = serde_json::to_value(&view.spec.surge).unwrap_or_default();
                if surge == serde_json::json!(0) {
                    view.spec.surge = None;
                }
                // A machine that never boots may be on its way yet.
                view.spec.join_retries = Some(9);
                if view.spec.image.as_deref() == Some(NEVER_BOOTS) {
                    view.spec.image = Some(BOOTS.to_owned());
                }
            });
        }
    }
}

/// What numo says of a group whose new machines would have an old image, or would not.
fn outdated(is_outdated: bool) -> Condition {
    let (status, reason, has) = if is_outdated {
        ("True", "ScalingGroupNodeImageOutOfDate", "will not use")
    } else {
        ("False", "ScalingGroupNodeImageUpToDate", "will use")
    };
    let message = format!("Scaling group {has} the latest image when creating new nodes");
    Condition {
        type_: "Outdated".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        ..Condition::default()
    }
}
