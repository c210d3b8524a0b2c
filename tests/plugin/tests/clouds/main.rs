//! Providers of machines as components in the real sandbox, each against the local server of its cloud: signed as the operator signs, and sent
//! over loopback. What is said, and how often a cloud is asked, is compared with the same steps of the same code run natively.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

mod aws;
mod azure;
mod cluster_api;
mod gcp;
mod replacement;
mod sandbox;

use replacement::{Plan, Talk, replace};
use sandbox::{Keys, Sandbox};

use numo_plugin::provider::{Ask, Failed, FailureCode, MachineProvider, Said};
use numo_provider_sdk::fake::World;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A cloud with a cluster in it, and how its provider reaches it.
struct Scene<C> {
    /// The local server.
    cloud: C,
    /// Where it listens.
    address: SocketAddr,
    /// The provider as a component.
    provider: &'static MachineProvider,
    /// The same as plain functions.
    natively: fn(&World, &Ask) -> Result<Said, Failed>,
    /// The provider's settings.
    config: Value,
    /// Hosts that it asks.
    hosts: &'static [&'static str],
    /// Which machine is replaced.
    plan: Plan,
    /// How many requests the server has got.
    requests: fn(&C) -> usize,
}

impl<C> Scene<C> {
    /// What the provider needs, and nothing beyond.
    fn grants(&self) -> Value {
        let hosts = self.hosts.iter();
        let cloud: Vec<Value> = hosts
            .map(|host| json!({"host": host, "methods": ["GET", "POST", "PATCH"], "credentials": ["cloud"]}))
            .collect();
        json!({ "cloud": cloud })
    }

    fn natively(&self) -> Talk {
        Talk::natively(self.natively, self.address, &self.config)
    }

    fn sandboxed(&self, grants: &Value, keys: &Keys) -> Talk {
        Talk::sandboxed(Sandbox::new(
            self.provider,
            &self.config,
            grants,
            (self.address, keys),
        ))
    }

    /// Asks for the state of a machine that is there.
    fn state_of_old(&self) -> Ask {
        Ask::State {
            provider_id: self.plan.old.clone(),
        }
    }
}

/// The component does what the plain functions do, with as many requests; and nobody hears a secret.
async fn replaces_as_natively<C>(native: &Scene<C>, real: &Scene<C>, keys: &Keys) {
    let mut natively = native.natively();
    let made = replace(&mut natively, &native.plan).await;
    let mut sandboxed = real.sandboxed(&real.grants(), keys);
    assert_eq!(replace(&mut sandboxed, &real.plan).await, made);
    assert_eq!(sandboxed.said, natively.said, "answer by answer");
    let requests = (real.requests)(&real.cloud);
    assert_eq!(requests, (native.requests)(&native.cloud));
    assert_eq!(
        requests,
        sandboxed.sent(),
        "every request of the component got there"
    );
    hidden(keys, &sandboxed);
}

/// A server that no grant names gets nothing, nor one whose grant has no such credential; and nobody is asked for a token.
async fn asks_only_as_granted<C>(scene: &Scene<C>, keys: &Keys) {
    let host = scene.hosts[0];
    let elsewhere = json!({"cloud": [{"host": "cloud.example.com", "credentials": ["cloud"]}]});
    let other_port = json!({"cloud": [{"host": host, "port": 8443, "credentials": ["cloud"]}]});
    let unsigned = json!({"cloud": scene.hosts.iter().map(|host| json!({"host": host})).collect::<Vec<_>>()});
    for (grants, wanted) in [
        (json!({}), "no grant of the provider covers"),
        (elsewhere, "no grant of the provider covers"),
        (other_port, "no grant of the provider covers"),
        (unsigned, "has no credential \"cloud\""),
    ] {
        let mut talk = scene.sandboxed(&grants, keys);
        let failed = talk.ask(scene.state_of_old()).await.unwrap_err();
        let words = denied(&failed);
        assert!(words.contains(wanted), "{grants}: {words}");
        assert_eq!(talk.sent(), 0, "{grants}");
        hidden(keys, &talk);
    }
    assert_eq!((scene.requests)(&scene.cloud), 0);
    assert_eq!(keys.asked(), 0);
}

/// A credential that is refused, by the cloud (after one request) or by who gives tokens (after none), is `Denied` in its words.
async fn is_denied<C>(scene: &Scene<C>, keys: &Keys, wanted: &[&str], requests: usize) {
    let before = (scene.requests)(&scene.cloud);
    let mut talk = scene.sandboxed(&scene.grants(), keys);
    let asks = [
        scene.state_of_old(),
        Ask::Create {
            group_id: scene.plan.group.clone(),
            request_id: scene.plan.request.to_owned(),
            token: None,
        },
    ];
    for ask in asks {
        let failed = talk.ask(ask.clone()).await.unwrap_err();
        let words = denied(&failed);
        for part in wanted {
            assert!(words.contains(part), "{ask:?}: {words}");
        }
    }
    assert_eq!((scene.requests)(&scene.cloud) - before, 2 * requests);
    hidden(keys, &talk);
}

fn denied(failed: &Failed) -> &str {
    match failed {
        Failed::Said(failure) => {
            assert_eq!(failure.code, FailureCode::Denied, "{failure:?}");
            &failure.message
        }
        Failed::Refused(refused) => panic!("wanted the provider's own words, found {refused}"),
    }
}

/// No secret stands in an answer, a failure, a line of the component, or what numo writes of it all.
fn hidden(keys: &Keys, talk: &Talk) {
    let mut told = talk.lines();
    for said in &talk.said {
        told.push(format!("{said:?}"));
        told.extend(said.as_ref().err().map(ToString::to_string));
    }
    told.push(sandbox::traced());
    told.push(format!("{keys:?}"));
    for text in &told {
        for secret in keys.secrets() {
            assert!(secret.len() >= 8, "a word that may stand anywhere is no secret");
            assert!(!text.contains(secret), "the secret {secret} stands in {text}");
        }
    }
}
