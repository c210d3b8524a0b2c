//! AWS: auto scaling groups of one subnet, and access keys of a session. The local server works out each signature by itself.

use super::{Cloud, Machine, UID, role};
use crate::{Called, front::Tokens};
use anyhow::Result;
use numo_clouds::{
    Served,
    aws::{self, Fault, Group, Instance, Keys, State, Version},
};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path};

/// What the cloud takes: keys of a session.
const ACCESS: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalr/hush+XUtnFEMI";
const SESSION: &str = "session+of/the=role";
const REGION: &str = "eu-central-1";
const SUBNET: &str = "subnet-a";
const ZONE: &str = "eu-central-1a";
/// Machines that a group may have.
const MOST: usize = 9;
/// The tag of an instance with the request that it was made for.
const REQUEST: &str = "numo-request";

/// The cloud, for as long as it is held.
pub struct Amazon {
    cloud: aws::Cloud,
    served: Served,
}

impl std::fmt::Debug for Amazon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amazon")
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl Amazon {
    /// A cloud with both images, and no machine.
    pub fn start() -> Result<Self> {
        let cloud = aws::Cloud::new();
        let served = cloud.serve()?;
        {
            let mut state = cloud.state();
            state.fills = true;
            state.keys = Some(Keys {
                access: ACCESS.to_owned(),
                secret: SECRET.to_owned(),
                session: Some(SESSION.to_owned()),
                region: REGION.to_owned(),
            });
            for image in [Self::OLD, Self::NEW] {
                state.images.insert(image.to_owned(), "available".to_owned());
            }
            state.subnets.insert(SUBNET.to_owned(), ZONE.to_owned());
        }
        Ok(Self { cloud, served })
    }
}

fn machine(state: &State, instance: &Instance) -> Machine {
    let group = instance.group.as_ref().and_then(|name| state.groups.get(name));
    let mut tags = group.iter().flat_map(|group| &group.tags);
    Machine {
        node: instance.id.clone(),
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        is_control_plane: tags.any(|(_, value, _)| value == "control-plane"),
        runs: instance.state == "running",
        requests: instance.tags.get(REQUEST).cloned().into_iter().collect(),
    }
}

impl Cloud for Amazon {
    const PROVIDER: &'static str = "provider-aws";
    const HOSTS: &'static [&'static str] = &[
        "ec2.eu-central-1.amazonaws.com",
        "autoscaling.eu-central-1.amazonaws.com",
    ];
    const OLD: &'static str = "ami-0000000000000001a";
    const NEW: &'static str = "ami-0000000000000002b";
    const DENIED: &'static [&'static str] = &["Denied", "UnauthorizedOperation", "ec2:RunInstances"];
    const KEY: &'static str = "credentials";
    // The group.
    const LOOKS: usize = 1;

    fn address(&self) -> SocketAddr {
        self.served.address()
    }

    fn tokens(&self) -> Option<Tokens> {
        None
    }

    fn key(&self) -> String {
        format!(
            "[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\naws_session_token = {SESSION}\n"
        )
    }

    fn secrets(&self) -> Result<Vec<String>> {
        Ok(vec![SECRET.to_owned(), SESSION.to_owned()])
    }

    fn source(&self, file: &Path) -> Value {
        json!({"awsKeys": {"file": file}})
    }

    fn settings(&self) -> Value {
        json!({"region": REGION})
    }

    fn add_group(&self, name: &str, is_control_plane: bool, size: usize) -> String {
        let mut state = self.cloud.state();
        let template = format!("lt-{name}");
        let of_template = state.templates.entry(template.clone()).or_default();
        of_template.default = 1;
        of_template.versions.push(Version {
            image: Some(Self::OLD.to_owned()),
            kind: Some("m5.large".to_owned()),
            ..Version::default()
        });
        let tags = [
            ("constellation-uid", UID),
            ("constellation-role", role(is_control_plane)),
            ("constellation-node-group", name),
        ];
        let group = Group {
            min: 1,
            max: i64::try_from(MOST).unwrap_or_default(),
            desired: i64::try_from(size).unwrap_or_default(),
            subnets: SUBNET.to_owned(),
            template: Some((template, "$Default".to_owned())),
            tags: tags
                .map(|(key, value)| (key.to_owned(), value.to_owned(), true))
                .to_vec(),
            ..Group::default()
        };
        state.groups.insert(name.to_owned(), group);
        state.reconcile(name);
        name.to_owned()
    }

    fn machines(&self) -> Vec<Machine> {
        let state = self.cloud.state();
        let there = state
            .instances
            .iter()
            .filter(|instance| instance.state != "terminated");
        there.map(|instance| machine(&state, instance)).collect()
    }

    fn made(&self) -> usize {
        // None of them is ever forgotten.
        self.cloud.state().instances.len()
    }

    fn deny(&self, is_denied: bool) {
        let faults = &mut self.cloud.state().faults;
        faults.clear();
        if is_denied {
            let words = "You are not authorized to perform this operation. User: arn:aws:iam::1:user/numo is not authorized to perform: \
                         ec2:RunInstances";
            faults.push(Fault {
                times: u32::MAX,
                ..Fault::error("RunInstances", 403, "UnauthorizedOperation", words)
            });
        }
    }

    fn makes(called: &Called) -> bool {
        called.what == "POST /RunInstances"
    }

    fn goes_on(called: &Called) -> bool {
        let states = ["pending", "shutting-down"];
        let says = |state: &&str| called.answer.contains(&format!("<name>{state}</name>"));
        called.what == "POST /DescribeInstances" && states.iter().any(says)
    }
}
