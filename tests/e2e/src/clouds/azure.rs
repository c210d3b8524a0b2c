//! Azure: virtual machine scale sets with uniform orchestration, and the secret of an application of Entra ID.

use super::{Cloud, Machine, UID, role};
use crate::{Called, front::Tokens};
use anyhow::Result;
use numo_clouds::{
    aws::Parameters,
    azure::{self, OLD_IMAGE, RESOURCE_GROUP, SUBSCRIPTION, Set, State},
};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path};

/// The token that the cloud takes.
const TOKEN: &str = "eyJ0.taken-by-the-cloud";
/// The secret of the application.
const SECRET: &str = "q8Q~hush+of/the=application";
const TENANT: &str = "numo.example.com";
const CLIENT: &str = "1c2d";
/// What keys of a scale set's tags begin with that are about a request.
const REQUEST: &str = "numo-request-";

/// The cloud.
#[derive(Debug)]
pub struct Microsoft(azure::Azure);

impl Microsoft {
    /// A cloud with both images, and no machine.
    pub fn start() -> Result<Self> {
        let mut state = State {
            token: Some(TOKEN.to_owned()),
            page: 100,
            boot: 0,
            ..State::default()
        };
        state.images.insert(Self::NEW.to_lowercase());
        Ok(Self(azure::Azure::start(state)?))
    }
}

/// The machines of a scale set.
fn machines(set: &Set) -> impl Iterator<Item = Machine> {
    let is_control_plane = set.tags.get("constellation-role") == Some(&json!("control-plane"));
    set.machines.iter().map(move |machine| {
        let number = machine.instance.to_string();
        // Its own, or one that has none yet.
        let is_of = |value: &Value| {
            let mut parts = value.as_str().unwrap_or_default().split(';');
            parts.next() == Some("wanted") || parts.nth(1) == Some(number.as_str())
        };
        let requests = set.tags.iter().filter(|(_, value)| is_of(value));
        Machine {
            node: format!("{}{:06}", set.name, machine.instance),
            provider_id: State::provider_id(&set.name, machine.instance),
            is_control_plane,
            runs: machine.provisioning == "Succeeded",
            requests: requests
                .filter_map(|(key, _)| Some(key.strip_prefix(REQUEST)?.to_owned()))
                .collect(),
        }
    })
}

impl Cloud for Microsoft {
    const PROVIDER: &'static str = "provider-azure";
    const HOSTS: &'static [&'static str] = &["management.azure.com"];
    const OLD: &'static str = OLD_IMAGE;
    const NEW: &'static str = "/communityGalleries/numo/images/node/versions/2.0.0";
    const DENIED: &'static [&'static str] = &[
        "Denied",
        "AuthorizationFailed",
        "does not have authorization to perform action",
    ];
    const KEY: &'static str = "client-secret";
    // The scale set, and its machines.
    const LOOKS: usize = 2;

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn tokens(&self) -> Option<Tokens> {
        Some(Tokens {
            host: "login.microsoftonline.com",
            answer: Box::new(|form: &Parameters| {
                let has = |field: &str, wanted: &str| form.get(field) == Some(wanted);
                if has("client_secret", SECRET)
                    && has("client_id", CLIENT)
                    && has("scope", "https://management.azure.com/.default")
                {
                    let given = json!({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"});
                    return (200, given);
                }
                let words = "AADSTS7000215: Invalid client secret provided.";
                (
                    401,
                    json!({"error": "invalid_client", "error_description": words}),
                )
            }),
        })
    }

    fn key(&self) -> String {
        SECRET.to_owned()
    }

    fn secrets(&self) -> Result<Vec<String>> {
        Ok(vec![SECRET.to_owned(), TOKEN.to_owned()])
    }

    fn source(&self, file: &Path) -> Value {
        json!({"azureClientSecret": {"tenantId": TENANT, "clientId": CLIENT, "file": file}})
    }

    fn settings(&self) -> Value {
        json!({"subscription": SUBSCRIPTION, "resourceGroup": RESOURCE_GROUP})
    }

    fn add_group(&self, name: &str, is_control_plane: bool, size: usize) -> String {
        let mut state = self.0.state();
        let size = u64::try_from(size).unwrap_or_default();
        *state = std::mem::take(&mut *state).with_set(name, UID, role(is_control_plane), size);
        State::group_id(name)
    }

    fn machines(&self) -> Vec<Machine> {
        self.0.state().sets.values().flat_map(machines).collect()
    }

    fn made(&self) -> usize {
        usize::try_from(self.0.state().made).unwrap_or_default()
    }

    fn deny(&self, is_denied: bool) {
        self.0.state().denied = is_denied.then_some("PATCH");
    }

    fn makes(called: &Called) -> bool {
        called.what.starts_with("PATCH ") && called.body.contains(r#""capacity""#)
    }

    fn goes_on(called: &Called) -> bool {
        let says = |words: &str| called.answer.contains(words);
        // It is asked after a change as often as that takes.
        let is_operation = called.what.contains("/operations/");
        let is_machine = called.what.to_lowercase().contains("/virtualmachines/");
        let state = r#""provisioningState":""#;
        let goes = ["Creating", "Deleting"].map(|word| format!("{state}{word}\""));
        let view = ["ProvisioningState/creating", "ProvisioningState/deleting"];
        is_operation
            || is_machine && (goes.iter().any(|word| says(word)) || view.iter().any(|word| says(word)))
    }
}
