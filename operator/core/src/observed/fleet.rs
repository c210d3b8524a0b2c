//! Machines that are replaced: the five kinds of `update.edgeless.systems`, the cluster autoscaler, and what the provider of the machines
//! said last.

use crate::{
    admit::hours::Hours,
    key::{Key, Map},
    names,
    time::later,
};
use jiff::Timestamp;
use numo_api::machines::{
    AutoscalingStrategySpec, AutoscalingStrategyStatus, CspState, Goal, JoiningNodeSpec, NodeRole,
    NodeVersionSpec, NodeVersionStatus, PendingNodeSpec, PendingNodeStatus, ScalingGroupSpec,
    ScalingGroupStatus,
};
use std::collections::{BTreeMap, BTreeSet};

/// All that was seen of machines that are replaced. Empty where nobody asks for that.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// NodeVersions by name.
    pub versions: BTreeMap<String, NodeVersionView>,
    /// ScalingGroups by name.
    pub groups: BTreeMap<String, ScalingGroupView>,
    /// PendingNodes by name.
    pub pending: BTreeMap<String, PendingNodeView>,
    /// JoiningNodes by name.
    pub joining: BTreeMap<String, JoiningNodeView>,
    /// AutoscalingStrategies by name.
    pub strategies: BTreeMap<String, StrategyView>,
    /// The Deployments of cluster autoscalers that strategies name.
    pub autoscalers: BTreeMap<Key, AutoscalerView>,
    /// The Deployments that are looked for, whether they are there or not.
    pub followed: BTreeSet<Key>,
    /// What a Node says of its machine, by the Node's name.
    pub hosts: BTreeMap<String, HostView>,
    /// What the provider said last.
    pub provider: ProviderView,
    /// No operator is left that makes or deletes machines: only what numo put on the cluster is taken back (`release.rs`).
    pub abandoned: bool,
}

/// A NodeVersion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeVersionView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// Field of numo's own that the manifest has which `kubectl apply` remembers, and the object has not.
    pub pruned: Option<&'static str>,
    /// All labels.
    pub labels: Map,
    /// The spec.
    pub spec: NodeVersionSpec,
    /// `spec.mutex.window`, understood or not.
    pub hours: Option<Result<Hours, String>>,
    /// The status last written.
    pub status: NodeVersionStatus,
}

/// A ScalingGroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingGroupView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// The spec.
    pub spec: ScalingGroupSpec,
    /// The status last written.
    pub status: ScalingGroupStatus,
}

impl ScalingGroupView {
    /// The group, as the provider names it; empty if it has no name.
    pub fn id(&self) -> &str {
        self.spec.group_id.as_deref().unwrap_or_default()
    }

    /// The NodeVersion that it names, if any.
    pub fn node_version(&self) -> Option<&str> {
        self.spec.node_image.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether its machines run the control plane.
    pub fn is_control_plane(&self) -> bool {
        self.spec.role == Some(NodeRole::ControlPlane)
    }
}

/// A PendingNode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingNodeView {
    /// Name. Of one that numo made it is the id by which the provider finds the machine again.
    pub name: String,
    /// uid.
    pub uid: String,
    /// resourceVersion it was read at: it is written only over what was read.
    pub resource_version: String,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// uid of the NodeVersion that it belongs to; empty if it does not say.
    pub owner_uid: String,
    /// Whether an owner reference says so.
    pub is_owned: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// The spec.
    pub spec: PendingNodeSpec,
    /// The status last written.
    pub status: PendingNodeStatus,
}

impl PendingNodeView {
    /// The machine; empty until the provider has named it.
    pub fn provider_id(&self) -> &str {
        self.spec.provider_id.as_deref().unwrap_or_default()
    }

    /// By what the provider is told about it: the request that makes its machine, or the machine.
    pub fn told_as(&self) -> String {
        match self.provider_id() {
            "" => self.name.clone(),
            id => id.to_lowercase(),
        }
    }

    /// Name of its Node; empty until the provider has named the machine.
    pub fn node(&self) -> &str {
        self.spec.node_name.as_deref().unwrap_or_default()
    }

    /// The group of the machine.
    pub fn group_id(&self) -> &str {
        self.spec.group_id.as_deref().unwrap_or_default()
    }

    /// Whether the machine is to be deleted. One that says nothing is to join.
    pub fn leaves(&self) -> bool {
        self.spec.goal == Some(Goal::Leave)
    }

    /// Until when its goal is to be reached, if it says so in a way that can be read.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.spec.deadline.as_deref()?.parse().ok()
    }
}

/// A JoiningNode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoiningNodeView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// The spec.
    pub spec: JoiningNodeSpec,
}

/// An AutoscalingStrategy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategyView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// The spec.
    pub spec: AutoscalingStrategySpec,
    /// The status last written.
    pub status: AutoscalingStrategyStatus,
}

impl StrategyView {
    /// The Deployment of its cluster autoscaler.
    pub fn deployment(&self) -> Key {
        Key::new(&self.spec.deployment_namespace, &self.spec.deployment_name)
    }
}

/// Namespace of the Deployment of the cluster autoscaler in a Constellation cluster.
pub const AUTOSCALER_NAMESPACE: &str = "kube-system";
/// Its name.
pub const AUTOSCALER_NAME: &str = "constellation-cluster-autoscaler";
/// Most Deployments of cluster autoscalers that are looked for: each costs a watch. A cluster has one.
pub const MOST_AUTOSCALERS: usize = 8;

/// Whether a Deployment can have this name in this namespace. What cannot be is looked for by nobody: the name is part of a request.
fn can_be(deployment: &Key) -> bool {
    let is_name = |text: &str, most: usize| {
        let is_sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        !text.is_empty() && text.len() <= most && text.chars().all(is_sound)
    };
    let namespace = &deployment.namespace;
    is_name(namespace, names::LABEL_MAX)
        && !namespace.contains('.')
        && is_name(&deployment.name, names::NAME_MAX)
}

/// The Deployment of a cluster autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerView {
    /// uid.
    pub uid: String,
    /// All annotations.
    pub annotations: Map,
    /// `spec.replicas`.
    pub replicas: i32,
    /// The command of its first container.
    pub command: Vec<String>,
}

/// What a Node says of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// `spec.providerID`.
    pub provider_id: String,
    /// Its address of type InternalIP: that of its member of etcd.
    pub address: String,
}

/// How soon the provider is asked again (seconds), as the reference has it, where an administrator did not say otherwise.
pub const POLL_SECONDS: i64 = 30;
/// How soon groups are listed again (seconds), as the reference has it.
pub const DISCOVERY_SECONDS: i64 = 15 * 60;

/// What was heard of the provider, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard<T> {
    /// When.
    pub at: Timestamp,
    /// The answer, or why there is none.
    pub said: Result<T, String>,
}

impl ProviderView {
    /// How soon it is asked again (seconds).
    pub fn poll_seconds(&self) -> i64 {
        self.poll_seconds.unwrap_or(POLL_SECONDS)
    }

    /// Takes in what was heard of a machine's image and group.
    pub fn hear_facts(&mut self, provider_id: &str, heard: Heard<MachineFacts>) {
        let id = provider_id.to_lowercase();
        match &heard.said {
            Ok(facts) if facts.is_whole() => _ = self.failing.remove(&id),
            Ok(_) | Err(_) => _ = self.failing.entry(id.clone()).or_insert(heard.at),
        }
        self.facts.insert(id, heard);
    }

    /// Notes that new machines of a group are to get this image from now on.
    pub fn tells_image(&mut self, group_id: &str, image: &str) {
        let told = self.told_images.entry(group_id.to_lowercase()).or_default();
        if !is_same(&told.image, image) {
            *told = ToldImage {
                image: image.to_owned(),
                ..ToldImage::default()
            };
        }
    }

    /// Notes that the provider has done what it was told of a group, if that was to set its image.
    pub fn took_image(&mut self, group_id: &str, now: Timestamp) {
        if let Some(told) = self.told_images.get_mut(&group_id.to_lowercase()) {
            told.since.get_or_insert(now);
            told.times = told.times.saturating_add(1);
        }
    }

    /// Takes in what was heard of the image that new machines of a group get. Once it is what was told, nothing is to be remembered of that.
    pub fn hear_image(&mut self, group_id: &str, heard: Heard<String>) {
        let id = group_id.to_lowercase();
        let is_told = |told: &ToldImage| heard.said.as_ref().is_ok_and(|found| is_same(found, &told.image));
        if self.told_images.get(&id).is_some_and(is_told) {
            self.told_images.remove(&id);
        }
        self.images.insert(id, heard);
    }

    /// How soon it is asked again for the facts of a machine that it does not know (seconds): each pause is twice the one before, and none is
    /// longer than that between two lists of groups.
    pub fn pause_of_facts(&self, provider_id: &str) -> i64 {
        let id = provider_id.to_lowercase();
        let (least, most) = (self.poll_seconds().max(1), DISCOVERY_SECONDS);
        let since = self.failing.get(&id);
        let heard = self.facts.get(&id).map(|heard| heard.at);
        let lasts = since
            .zip(heard)
            .map_or(0, |(since, heard)| heard.as_second() - since.as_second());
        let mut pause = least;
        while pause < most && pause <= lasts {
            pause = pause.saturating_mul(2).min(most);
        }
        pause
    }

    /// When a question is to be asked again after this answer: when the provider has said, or else after a pause.
    pub fn again<T>(&self, question: &FleetQuestion, heard: &Heard<T>, pause: i64) -> Timestamp {
        let said = self.not_before.get(question).filter(|_| heard.said.is_err());
        said.copied().unwrap_or_else(|| heard.again(pause))
    }
}

impl<T> Heard<T> {
    /// When it is to be asked again, if the provider has not said.
    pub fn again(&self, pause: i64) -> Timestamp {
        later(self.at, pause)
    }
}

/// What the provider said last. Ids of machines and groups are in lower case here: providers do not mind the case of theirs.
#[derive(Clone, Debug, Default)]
pub struct ProviderView {
    /// Questions whose answer is under way, and since when.
    pub asked: BTreeMap<FleetQuestion, Timestamp>,
    /// Questions that the provider did not answer, and until when it does not want to be asked them again, where it has said so.
    pub not_before: BTreeMap<FleetQuestion, Timestamp>,
    /// Why there is no provider to ask, if there is none.
    pub missing: Option<String>,
    /// How soon it is asked again (seconds), as an administrator has it; [`POLL_SECONDS`] where they have not said.
    pub poll_seconds: Option<i64>,
    /// Image and group of machines, by their ids.
    pub facts: BTreeMap<String, Heard<MachineFacts>>,
    /// Since when it has no facts of a machine, whatever it says instead, by its id; none of one whose facts were heard last.
    pub failing: BTreeMap<String, Timestamp>,
    /// States of machines, by their ids.
    pub states: BTreeMap<String, Heard<CspState>>,
    /// The images that new machines of groups get, by the groups' ids.
    pub images: BTreeMap<String, Heard<String>>,
    /// The images that it was told to give new machines of groups and does not show yet, by the groups' ids.
    pub told_images: BTreeMap<String, ToldImage>,
    /// All groups of the cluster.
    pub groups: Option<Heard<Vec<GroupFacts>>>,
    /// Machines that were looked for by the id of the request that was to make them; none of one that never was made.
    pub found: BTreeMap<String, Heard<Option<MadeMachine>>>,
    /// What it was told to do, and has not done yet: by the name of the PendingNode, or the id of the machine or group.
    pub told: BTreeMap<String, Told>,
    /// What it was told to do and says that it has done, and when; by the same names.
    pub did: BTreeMap<String, Timestamp>,
}

/// What the provider was told to do, and has not done yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it is to be told again: it takes a while, or has refused.
    pub again: Timestamp,
    /// Its words, where it has refused.
    pub problem: Option<String>,
}

/// An image that new machines of a group are to get, which the provider does not show yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldImage {
    /// The image.
    pub image: String,
    /// When it said first that it has set it; none if it has not.
    pub since: Option<Timestamp>,
    /// How often it has said so.
    pub times: u32,
}

/// What the provider knows of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Its image.
    pub image: String,
    /// Its group.
    pub group_id: String,
}

impl MachineFacts {
    /// Whether both are said: a machine of no group that the provider knows has none.
    pub const fn is_whole(&self) -> bool {
        !self.image.is_empty() && !self.group_id.is_empty()
    }
}

/// A machine that the provider made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeMachine {
    /// Name of its Node.
    pub node: String,
    /// Its id.
    pub provider_id: String,
}

/// A group, as the provider lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Name for the ScalingGroup.
    pub name: String,
    /// Name for people.
    pub node_group_name: String,
    /// Its id.
    pub group_id: String,
    /// Name that the cluster autoscaler knows it by.
    pub autoscaler_group_name: String,
    /// Whether its machines run the control plane.
    pub is_control_plane: bool,
}

/// What the provider of machines is asked. Answered later, among what was seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetQuestion {
    /// Image and group of a machine.
    Facts {
        /// The machine.
        provider_id: String,
    },
    /// State of a machine.
    State {
        /// The machine.
        provider_id: String,
    },
    /// The image that new machines of a group get.
    GroupImage {
        /// The group.
        group_id: String,
    },
    /// All groups of the cluster.
    Groups,
    /// The machine that a request has made, if it has.
    Find {
        /// The group.
        group_id: String,
        /// Id of the request.
        request: String,
    },
}

/// Whether two ids, images or references mean the same: case does not matter, as the reference has it.
pub fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

impl FleetView {
    /// The machine of a Node; empty if the Node does not say.
    pub fn machine_of(&self, node: &str) -> &str {
        self.hosts.get(node).map_or("", |host| host.provider_id.as_str())
    }

    /// The Deployments of cluster autoscalers that are not looked for yet: those that strategies name, and where there is a NodeVersion the usual
    /// one, whose strategy may be gone since numo stopped it.
    pub fn to_follow(&self) -> Vec<Key> {
        let usual = Key::new(AUTOSCALER_NAMESPACE, AUTOSCALER_NAME);
        // It takes no other its place.
        let room = MOST_AUTOSCALERS + usize::from(self.followed.contains(&usual));
        let named = self.strategies.values().map(StrategyView::deployment);
        let is_new = |one: &Key| can_be(one) && !self.followed.contains(one);
        let named: BTreeSet<Key> = named.filter(is_new).collect();
        let room = room.saturating_sub(self.followed.len());
        let mut found: BTreeSet<Key> = named.into_iter().take(room).collect();
        found.extend(Some(usual).filter(|one| !self.versions.is_empty() && is_new(one)));
        found.into_iter().collect()
    }

    /// The group with this id.
    pub fn group(&self, id: &str) -> Option<&ScalingGroupView> {
        let mut groups = self.groups.values();
        groups.find(|group| !id.is_empty() && is_same(group.id(), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(deployments: &[(&str, &str)]) -> FleetView {
        let mut fleet = FleetView::default();
        for (number, (namespace, name)) in deployments.iter().enumerate() {
            let view = StrategyView {
                spec: AutoscalingStrategySpec {
                    deployment_namespace: (*namespace).to_owned(),
                    deployment_name: (*name).to_owned(),
                    ..AutoscalingStrategySpec::default()
                },
                ..StrategyView::default()
            };
            fleet.strategies.insert(format!("s-{number:02}"), view);
        }
        fleet
    }

    #[test]
    fn every_deployment_that_a_strategy_names_is_followed_once() {
        let mut fleet = fleet(&[("kube-system", "a"), ("kube-system", "a"), ("other", "a")]);
        let (one, other) = (Key::new("kube-system", "a"), Key::new("other", "a"));
        assert_eq!(fleet.to_follow(), [one.clone(), other.clone()]);
        fleet.followed.insert(one);
        assert_eq!(fleet.to_follow(), [other]);
    }

    /// The name stands in a selector, where a comma would begin another one.
    #[test]
    fn what_can_be_no_deployment_is_followed_by_nobody() {
        let long = "a".repeat(254);
        for (namespace, name) in [
            ("", "a"),
            ("kube-system", ""),
            ("kube-system", "a,metadata.name!=a"),
            ("kube-system", "a=b"),
            ("kube-system", "a/b"),
            ("kube/system", "a"),
            ("kube.system", "a"),
            ("kube-system", "A"),
            ("kube-system", &long),
        ] {
            assert!(
                fleet(&[(namespace, name)]).to_follow().is_empty(),
                "{namespace}/{name}"
            );
        }
    }

    #[test]
    fn an_image_that_was_told_is_remembered_until_it_is_seen() {
        let mut provider = ProviderView::default();
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let heard = |image: &str| Heard {
            at: at(0),
            said: Ok(image.to_owned()),
        };
        for second in [5, 900] {
            provider.tells_image("G-w", "img2");
            provider.took_image("g-w", at(second));
            provider.hear_image("G-w", heard("https://img2"));
        }
        let told = &provider.told_images["g-w"];
        assert_eq!((told.since, told.times), (Some(at(5)), 2));
        // Another one is another matter.
        provider.tells_image("G-w", "img3");
        let told = &provider.told_images["g-w"];
        assert_eq!((told.since, told.times), (None, 0));
        provider.hear_image("G-w", heard("IMG3"));
        assert!(provider.told_images.is_empty());
    }

    #[test]
    fn there_is_a_bound_to_what_is_followed() {
        let names: Vec<String> = (0..2 * MOST_AUTOSCALERS)
            .map(|number| format!("a-{number:02}"))
            .collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| ("kube-system", name.as_str())).collect();
        let mut fleet = fleet(&all);
        let first = fleet.to_follow();
        assert_eq!(first.len(), MOST_AUTOSCALERS);
        fleet.followed.extend(first);
        assert!(fleet.to_follow().is_empty());
    }
}
