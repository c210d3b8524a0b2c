//! Instances as EC2 knows them: looked up by id or by request, and ended where they are no members. Decides nothing.

use crate::{
    call::{Query, Refusal, ask, pages, unreadable},
    ids::order,
    settings::{Config, NodeNames},
    xml,
};
use numo_provider_sdk::{CreatedNode, Failure, FailureCode, NodeState, failure::failure, host::Cloud};
use roxmltree::Node;

/// Tag with the request that an instance was made for.
pub const REQUEST_TAG: &str = "numo-request";
/// Tag with the group that an instance was made for, until it is a member.
pub const GROUP_TAG: &str = "numo-group";
/// Tag that Auto Scaling puts on members.
const MEMBER_TAG: &str = "aws:autoscaling:groupName";

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its id.
    pub id: String,
    /// `pending`, `running` and so on.
    pub state: String,
    /// Its availability zone.
    pub zone: String,
    /// Its image.
    pub image: String,
    /// Its private DNS name; empty until it has one.
    pub private_dns: String,
    /// Why it changed its state, if EC2 says so.
    pub reason: String,
    /// The group whose member it is.
    pub member_of: Option<String>,
    /// The request that it was made for.
    pub request: Option<String>,
    /// The group that it was made for.
    pub made_for: Option<String>,
}

impl Machine {
    fn read(item: Node<'_, '_>) -> Option<Self> {
        let of = |name| xml::text(item, name).unwrap_or_default().to_owned();
        let inner = |list, name| xml::child(item, list).and_then(|node| xml::text(node, name));
        let tags = xml::items(item, "tagSet");
        let tag = |key: &str| {
            let mut tags = tags.iter();
            let found = tags.find(|tag| xml::text(**tag, "key") == Some(key))?;
            Some(xml::text(*found, "value").unwrap_or_default().to_owned())
        };
        Some(Self {
            id: xml::text(item, "instanceId")?.to_owned(),
            state: inner("instanceState", "name")?.to_owned(),
            zone: inner("placement", "availabilityZone")
                .unwrap_or_default()
                .to_owned(),
            image: of("imageId"),
            private_dns: of("privateDnsName"),
            reason: inner("stateReason", "message").unwrap_or_default().to_owned(),
            member_of: tag(MEMBER_TAG),
            request: tag(REQUEST_TAG),
            made_for: tag(GROUP_TAG),
        })
    }

    /// The state in the contract's words.
    pub fn node_state(&self) -> NodeState {
        match self.state.as_str() {
            "pending" => NodeState::Creating,
            "running" => NodeState::Ready,
            "shutting-down" => NodeState::Terminating,
            "terminated" => NodeState::Terminated,
            "stopping" | "stopped" => NodeState::Stopped,
            _ => NodeState::Unknown,
        }
    }

    /// Whether it is on its way out, or gone.
    pub fn is_ending(&self) -> bool {
        matches!(self.state.as_str(), "shutting-down" | "terminated")
    }

    /// Its Node and providerID.
    ///
    /// Errors: EC2 has not said its zone, or the name that the Node will have.
    pub fn created(&self, config: &Config) -> Result<CreatedNode, Failure> {
        let node_name = match config.node_names {
            NodeNames::InstanceId => self.id.clone(),
            // One that has ended has no name any more, and gets no Node.
            NodeNames::PrivateDns if self.private_dns.is_empty() && self.is_ending() => self.id.clone(),
            NodeNames::PrivateDns => self.private_dns.clone(),
        };
        if self.zone.is_empty() || node_name.is_empty() {
            let message = format!(
                "instance {}: EC2 gives it no {} yet",
                self.id,
                if self.zone.is_empty() {
                    "availability zone"
                } else {
                    "private DNS name"
                }
            );
            return Err(failure(FailureCode::Unavailable, message));
        }
        Ok(CreatedNode {
            node_name,
            provider_id: format!("aws:///{}/{}", self.zone, self.id),
            attributes: Vec::new(),
        })
    }
}

/// The instances of an answer to `DescribeInstances`; none if it is no such answer, or one of them cannot be read.
fn reserved(root: Node<'_, '_>) -> Option<Vec<Machine>> {
    xml::child(root, "reservationSet")?;
    let mut found = Vec::new();
    for reservation in xml::items(root, "reservationSet") {
        found.extend(xml::read_all(reservation, "instancesSet", Machine::read)?);
    }
    Some(found)
}

/// The instance of an answer to `RunInstances`.
pub fn started(root: Node<'_, '_>) -> Option<Machine> {
    xml::first(root, "instancesSet").and_then(Machine::read)
}

/// The instance with this id; none if EC2 does not know it.
///
/// Errors: EC2 does not answer, or refuses.
pub fn by_id(host: &impl Cloud, config: &Config, id: &str) -> Result<Option<Machine>, Refusal> {
    let query = Query::ec2("DescribeInstances").with("InstanceId.1", id);
    let about = format!("instance {id}");
    let unreadable = || unreadable(&query, &about);
    match ask(host, config, &about, &query, |root| {
        reserved(root).ok_or_else(unreadable)
    }) {
        Ok(found) if found.is_empty() => Ok(None),
        // Whoever is asked about one instance and tells of others does not say that it is gone.
        Ok(found) => {
            let mut found = found.into_iter();
            let ours = found.find(|machine| machine.id.eq_ignore_ascii_case(id));
            Ok(Some(ours.ok_or_else(unreadable)?))
        }
        Err(refusal) if refusal.is(&["InvalidInstanceID.NotFound"]) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// The instances that were made for a request of this group: one, or none if there is none or EC2 does not list it yet. What lives goes
/// before what has ended, and a member before what is none.
///
/// Errors: EC2 does not answer, or refuses, or the request was for another group.
pub fn by_request(
    host: &impl Cloud,
    config: &Config,
    group: &str,
    request: &str,
) -> Result<Vec<Machine>, Failure> {
    let query = Query::ec2("DescribeInstances")
        .with("Filter.1.Name", &format!("tag:{REQUEST_TAG}"))
        .with("Filter.1.Value.1", request);
    let about = format!("auto scaling group {group}, request {request}");
    let mut found = Vec::new();
    pages(host, config, &about, &query, &mut |root| {
        let all = reserved(root)
            .ok_or_else(|| unreadable(&query, &about))?
            .into_iter();
        found.extend(all.filter(|machine| machine.request.as_deref() == Some(request)));
        Ok(false)
    })?;
    let rank = |machine: &Machine| (machine.is_ending(), machine.member_of.is_none());
    order(&mut found, |a, b| (rank(a), &a.id) < (rank(b), &b.id));
    let is_other = |other: &str| !other.eq_ignore_ascii_case(group);
    for machine in &found {
        if let Some(other) = machine.made_for.as_deref().filter(|other| is_other(other)) {
            let message = format!(
                "{about}: instance {} has tag {GROUP_TAG}: found {other:?}, wanted this group",
                machine.id
            );
            return Err(failure(FailureCode::Invalid, message));
        }
    }
    Ok(found)
}

/// Ends an instance that is no member of a group.
///
/// Errors: EC2 does not answer, or refuses.
pub fn terminate(host: &impl Cloud, config: &Config, id: &str) -> Result<(), Failure> {
    let query = Query::ec2("TerminateInstances").with("InstanceId.1", id);
    match ask(host, config, &format!("instance {id}"), &query, |_| Ok(())) {
        Err(refusal) if refusal.is(&["InvalidInstanceID.NotFound"]) => Ok(()),
        other => Ok(other?),
    }
}
