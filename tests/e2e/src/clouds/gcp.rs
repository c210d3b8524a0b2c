//! Google Cloud: managed instance groups of one zone, and the key of a service account.

use super::{Cloud, Machine, UID, role};
use crate::{Called, front::Tokens};
use anyhow::{Context as _, Result};
use numo_clouds::{
    aws::Parameters,
    gcp::{self, State},
};
use numo_plugin_tests::google::Account;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, MutexGuard},
};

/// The token that the cloud takes.
const TOKEN: &str = "ya29.taken-by-the-cloud";
/// The permission to change groups.
pub const UPDATE: &str = "compute.instanceGroupManagers.update";
/// An image that nobody has made.
pub const NONE: &str = "projects/numo-test/global/images/node-none";
/// The zone of all machines.
const ZONE: &str = "projects/numo-test/zones/zone-a";

/// The cloud, and who may come in.
#[derive(Debug)]
pub struct Google {
    cloud: gcp::Cloud,
    account: Arc<Account>,
}

impl Google {
    /// A cloud with both images, and no machine.
    pub fn start() -> Result<Self> {
        let cloud = gcp::Cloud::start()?;
        {
            let mut state = cloud.lock();
            state.add_image("node-1");
            state.add_image("node-2");
            state.knobs.token = Some(TOKEN.to_owned());
        }
        let account = Arc::new(Account::new()?);
        Ok(Self { cloud, account })
    }

    /// What is in it.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.cloud.lock()
    }

    /// A machine of a group has the new image by now.
    pub fn renew(&self, name: &str) -> Result<()> {
        let mut state = self.lock();
        let disk = state.disks.get_mut(&format!("{ZONE}/disks/{name}"));
        let disk = disk.with_context(|| format!("the disk of {name}"))?;
        *disk = disk.replace(Self::OLD, Self::NEW);
        Ok(())
    }
}

/// The id of a machine.
fn provider_id(name: &str) -> String {
    format!("gce://numo-test/zone-a/{name}")
}

impl Cloud for Google {
    const PROVIDER: &'static str = "provider-gcp";
    const HOSTS: &'static [&'static str] = &["compute.googleapis.com"];
    const OLD: &'static str = "projects/numo-test/global/images/node-1";
    const NEW: &'static str = "projects/numo-test/global/images/node-2";
    const DENIED: &'static [&'static str] = &["Denied", UPDATE];
    const KEY: &'static str = "key.json";
    // The group, and the machine.
    const LOOKS: usize = 2;

    fn address(&self) -> SocketAddr {
        self.cloud.address()
    }

    fn tokens(&self) -> Option<Tokens> {
        let account = Arc::clone(&self.account);
        Some(Tokens {
            host: "oauth2.googleapis.com",
            answer: Box::new(move |form: &Parameters| {
                let assertion = form.get("assertion");
                if assertion.is_some_and(|assertion| account.has_signed(assertion)) {
                    let given = json!({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"});
                    return (200, given);
                }
                let words = "Invalid JWT Signature.";
                (400, json!({"error": "invalid_grant", "error_description": words}))
            }),
        })
    }

    fn key(&self) -> String {
        self.account.key().to_string()
    }

    fn secrets(&self) -> Result<Vec<String>> {
        let mut secrets = self.account.secrets()?;
        secrets.push(TOKEN.to_owned());
        Ok(secrets)
    }

    fn source(&self, file: &Path) -> Value {
        json!({"googleServiceAccount": {"file": file}})
    }

    fn settings(&self) -> Value {
        json!({"project": "numo-test"})
    }

    fn add_group(&self, name: &str, is_control_plane: bool, size: usize) -> String {
        let role = role(is_control_plane);
        let labels =
            json!({"constellation-uid": UID, "constellation-role": role, "constellation-node-group": name});
        let mut state = self.lock();
        let template = state.add_template(&format!("{name}-1"), Self::OLD, &labels);
        state.add_group("zones/zone-a", name, &template, size)
    }

    fn machines(&self) -> Vec<Machine> {
        let mut state = self.lock();
        state.tick += 1;
        state.go_on();
        let bases: Vec<&String> = state.groups.values().map(|group| &group.base).collect();
        let machines = state.instances.iter().map(|(path, instance)| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let asked =
                |base: &&String| Some(name.strip_prefix(base.as_str())?.strip_prefix('-')?.to_owned());
            Machine {
                node: name.to_owned(),
                provider_id: provider_id(name),
                is_control_plane: instance.labels["constellation-role"] == "control-plane",
                runs: instance.status == "RUNNING",
                requests: bases.iter().filter_map(asked).collect(),
            }
        });
        machines.collect()
    }

    fn made(&self) -> usize {
        self.lock().made.len()
    }

    fn deny(&self, is_denied: bool) {
        let denied = &mut self.lock().knobs.denied;
        if is_denied {
            denied.insert(UPDATE.to_owned());
        } else {
            denied.clear();
        }
    }

    fn makes(called: &Called) -> bool {
        called.what.ends_with("/createInstances")
    }

    fn goes_on(called: &Called) -> bool {
        let says = |status: &str| called.answer.contains(&format!(r#""status":"{status}""#));
        let is_machine = called.what.contains("/instances/") && (says("PROVISIONING") || says("STOPPING"));
        is_machine || called.what.contains("/operations/") && says("RUNNING")
    }
}
