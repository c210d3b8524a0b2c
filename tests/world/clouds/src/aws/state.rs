//! What is in the cloud, what tests turn, and what Auto Scaling does by itself. Knows no HTTP but the faults that a test orders.

use crate::aws::answer::Parameters;
use axum::{
    body::Body,
    http::Response as HttpResponse,
    response::{IntoResponse, Response},
};
use std::collections::{BTreeMap, BTreeSet};

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `ec2` or `autoscaling`.
    pub api: &'static str,
    /// `RunInstances`.
    pub action: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, String>,
}

/// An answer that a test orders.
#[derive(Clone, Debug)]
pub struct Fault {
    /// For which action.
    pub action: String,
    /// How often.
    pub times: u32,
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Fault {
    /// An error as EC2 writes it; Auto Scaling has the same element.
    pub fn error(action: &str, status: u16, code: &str, words: &str) -> Self {
        let body = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors><RequestID>r</RequestID></Response>"
        );
        Self::raw(action, status, body.into_bytes())
    }

    /// Any bytes.
    pub fn raw(action: &str, status: u16, body: Vec<u8>) -> Self {
        Self {
            action: action.to_owned(),
            times: 1,
            status,
            headers: Vec::new(),
            body,
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut builder = HttpResponse::builder().status(self.status);
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        builder.body(Body::from(self.body)).unwrap_or_default()
    }
}

/// Keys with which requests must be signed.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The id of the key.
    pub access: String,
    /// The secret.
    pub secret: String,
    /// The session's token, if it has one.
    pub session: Option<String>,
    /// The region.
    pub region: String,
}

/// An instance.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopped`.
    pub state: String,
    /// Its subnet.
    pub subnet: String,
    /// Its zone.
    pub zone: String,
    /// Its image.
    pub image: String,
    /// Its type.
    pub kind: String,
    /// Its tags, but for that of its group.
    pub tags: BTreeMap<String, String>,
    /// Its client token.
    pub token: Option<String>,
    /// The request that made it, to compare repetitions.
    pub made_by: String,
    /// Security groups of its interfaces.
    pub security_groups: Vec<String>,
    /// Its group.
    pub group: Option<String>,
    /// Its state in the group.
    pub lifecycle: String,
    /// Lists that do not have it yet.
    pub unseen: u32,
    /// Lists in which it does not run yet.
    pub boots: u32,
    /// Lists that do not show its group's tag yet.
    pub untagged: u32,
}

impl Instance {
    /// It is on its way out, and seen so once.
    pub fn end(&mut self) {
        "shutting-down".clone_into(&mut self.state);
        "Terminating".clone_into(&mut self.lifecycle);
        self.boots = 1;
    }

    /// Whether it is not on its way out.
    pub fn lives(&self) -> bool {
        !matches!(self.state.as_str(), "shutting-down" | "terminated")
    }
}

/// A version of a launch template.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// ImageId.
    pub image: Option<String>,
    /// InstanceType.
    pub kind: Option<String>,
    /// Security groups of its network interface, if it describes one.
    pub interface: Option<Vec<String>>,
    /// Whether instances of it have a further field that nobody knows.
    pub odd: bool,
    /// Client token that made it.
    pub token: Option<String>,
    /// Changes that are not known of it yet: `ModifyLaunchTemplate` is refused so often.
    pub unknown: u32,
}

/// A launch template.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Its versions, the first of which has number 1.
    pub versions: Vec<Version>,
    /// Number of its default version.
    pub default: usize,
}

/// An auto scaling group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// MinSize.
    pub min: i64,
    /// MaxSize.
    pub max: i64,
    /// DesiredCapacity.
    pub desired: i64,
    /// VPCZoneIdentifier.
    pub subnets: String,
    /// Template and version.
    pub template: Option<(String, String)>,
    /// XML of `Overrides`: it has a mixed instances policy then.
    pub overrides: Option<String>,
    /// Tags: key, value, whether instances get it.
    pub tags: Vec<(String, String, bool)>,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Instances that its target groups have.
    pub registered: Vec<String>,
}

/// What a test does between two calls.
type Meddle = Box<dyn FnOnce(&mut State) + Send>;

/// All of it.
#[derive(Default)]
pub struct State {
    /// Groups.
    pub groups: BTreeMap<String, Group>,
    /// Instances.
    pub instances: Vec<Instance>,
    /// Launch templates.
    pub templates: BTreeMap<String, Template>,
    /// Zones of subnets.
    pub subnets: BTreeMap<String, String>,
    /// States of images.
    pub images: BTreeMap<String, String>,
    /// Subnets without room.
    pub full_subnets: BTreeSet<String>,
    /// Machines that the account may have.
    pub quota: Option<usize>,
    /// Items of a page; 0 is all.
    pub page: usize,
    /// Lists that do not have a new instance yet.
    pub unseen: u32,
    /// Lists in which a new instance does not run yet.
    pub boots: u32,
    /// Lists that do not show the tag of the group of an attached instance yet.
    pub untagged: u32,
    /// Changes that are refused for a version that was just made.
    pub unknown_versions: u32,
    /// Whether Auto Scaling makes and ends instances to have as many as are desired.
    pub fills: bool,
    /// Keys that requests are to be signed with; none: any signature is taken.
    pub keys: Option<Keys>,
    /// Answers that a test orders.
    pub faults: Vec<Fault>,
    /// What a test does before the call with this number (from 0).
    pub meddles: Vec<(usize, Meddle)>,
    /// Calls that were made.
    pub calls: Vec<Call>,
    made: u64,
}

impl State {
    /// How often an action was called; all calls for an empty name.
    pub fn count(&self, action: &str) -> usize {
        let calls = self.calls.iter();
        calls
            .filter(|call| action.is_empty() || call.action == action)
            .count()
    }

    /// An instance.
    pub fn instance(&self, id: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.id == id)
    }

    /// The same, to be changed.
    pub fn instance_mut(&mut self, id: &str) -> Option<&mut Instance> {
        self.instances.iter_mut().find(|instance| instance.id == id)
    }

    /// Members of a group that live.
    pub fn members(&self, group: &str) -> Vec<&Instance> {
        let all = self.instances.iter();
        all.filter(|instance| instance.group.as_deref() == Some(group) && instance.lives())
            .collect()
    }

    /// Instances that were made for a request, whatever became of them.
    pub fn made_for(&self, request: &str) -> Vec<&Instance> {
        let all = self.instances.iter();
        all.filter(|instance| {
            instance
                .tags
                .get("numo-request")
                .is_some_and(|tag| tag == request)
        })
        .collect()
    }

    /// Notes a call, and lets the test have its way before it.
    pub(super) fn log(&mut self, api: &'static str, action: &str, parameters: &Parameters) {
        let number = self.calls.len();
        let own = parameters.own();
        self.calls.push(Call {
            api,
            action: action.to_owned(),
            parameters: own
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        });
        let (now, later) = std::mem::take(&mut self.meddles)
            .into_iter()
            .partition(|(at, _)| *at == number);
        self.meddles = later;
        for (_, meddle) in now {
            meddle(self);
        }
    }

    /// The answer that a test has ordered for an action.
    pub(super) fn fault(&mut self, action: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|fault| fault.action == action)?;
        let fault = self.faults.get_mut(at)?;
        let ordered = fault.clone();
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.faults.remove(at);
        }
        Some(ordered)
    }

    /// An id that nothing has yet.
    pub fn id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}{:017x}", 0xa000 + self.made)
    }

    /// The version that a group or request means.
    pub fn version(&self, template: &str, version: &str) -> Option<(usize, &Version)> {
        let template = self.templates.get(template)?;
        let number = match version {
            "$Default" => template.default,
            "$Latest" => template.versions.len(),
            number => number.parse().ok()?,
        };
        Some((number, template.versions.get(number.checked_sub(1)?)?))
    }

    /// Auto Scaling makes and ends instances until a group has as many as are desired.
    pub fn reconcile(&mut self, name: &str) {
        if !self.fills {
            return;
        }
        let Some(group) = self.groups.get(name).cloned() else {
            return;
        };
        let wanted = usize::try_from(group.desired).unwrap_or_default();
        while self.members(name).len() < wanted {
            self.grow(name, &group);
        }
        while self.members(name).len() > wanted {
            let oldest = self.members(name).first().map(|instance| instance.id.clone());
            if let Some(instance) = oldest.and_then(|id| self.instance_mut(&id)) {
                instance.end();
            }
        }
    }

    fn grow(&mut self, name: &str, group: &Group) {
        let subnet = group.subnets.split(',').next().unwrap_or_default().to_owned();
        let version = group.template.as_ref();
        let version = version.and_then(|(template, version)| self.version(template, version));
        let image = version.and_then(|(_, version)| version.image.clone());
        let propagated = group.tags.iter().filter(|(_, _, propagated)| *propagated);
        let instance = Instance {
            id: self.id("i-"),
            state: "running".to_owned(),
            zone: self.subnets.get(&subnet).cloned().unwrap_or_default(),
            subnet,
            image: image.unwrap_or_default(),
            tags: propagated
                .map(|(key, value, _)| (key.clone(), value.clone()))
                .collect(),
            group: Some(name.to_owned()),
            lifecycle: "InService".to_owned(),
            ..Instance::default()
        };
        self.instances.push(instance);
    }
}
