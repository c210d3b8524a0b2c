//! Google Cloud: the key of a service account is exchanged for a token.

use crate::{
    Scene, asks_only_as_granted, is_denied,
    replacement::{Plan, ask_natively},
    replaces_as_natively,
    sandbox::{Form, Keys, load},
};
use numo_clouds::gcp::Cloud;
use numo_plugin::provider::MachineProvider;
use numo_plugin_tests::google::Account;
use provider_gcp::Gcp;
use serde_json::{Value, json};
use std::sync::OnceLock;
use tokio::sync::OnceCell;

const UID: &str = "abc123";
/// The token that the cloud takes.
const TOKEN: &str = "ya29.taken-by-the-cloud";

async fn provider() -> &'static MachineProvider {
    static LOADED: OnceCell<MachineProvider> = OnceCell::const_new();
    LOADED.get_or_init(|| load("provider-gcp")).await
}

/// Two workers and a node of the control plane, in a cloud that takes its time.
async fn scene() -> Scene<Cloud> {
    let provider = provider().await;
    let cloud = Cloud::start().unwrap();
    let plan = {
        let mut state = cloud.lock();
        let (old_image, image) = (state.add_image("node-1"), state.add_image("node-2"));
        let labels = |role: &str| json!({"constellation-uid": UID, "constellation-role": role, "constellation-node-group": "pool"});
        let template = state.add_template("worker-3", &old_image, &labels("worker"));
        let group = state.add_group("zones/zone-a", "workers", &template, 2);
        let template = state.add_template("control", &old_image, &labels("control-plane"));
        state.add_group("zones/zone-b", "control", &template, 1);
        let knobs = &mut state.knobs;
        knobs.operation_ticks = 5;
        (knobs.make_ticks, knobs.boot_ticks, knobs.delete_ticks) = (4, 4, 4);
        Plan {
            uid: UID,
            group,
            image,
            old: "gce://numo-test/zone-a/workers-0000".to_owned(),
            request: "numo-0123456789abcdefghij",
        }
    };
    Scene {
        address: cloud.address(),
        cloud,
        provider,
        natively: ask_natively::<Gcp>,
        config: json!({"project": "numo-test", "credential": "cloud"}),
        hosts: &["compute.googleapis.com"],
        plan,
        requests: |cloud| cloud.lock().log.len(),
    }
}

/// A cloud that takes one token only.
async fn locked() -> Scene<Cloud> {
    let scene = scene().await;
    scene.cloud.lock().knobs.token = Some(TOKEN.to_owned());
    scene
}

/// The account that the token endpoint knows.
fn account() -> &'static Account {
    static ACCOUNT: OnceLock<Account> = OnceLock::new();
    ACCOUNT.get_or_init(|| Account::new().unwrap())
}

/// A service account, for which this token is given.
fn keys(of: &Account, token: &'static str) -> Keys {
    let mut secrets = of.secrets().unwrap();
    secrets.push(token.to_owned());
    let answer = move |form: &Form| -> (u16, Value) {
        let assertion = form.get("assertion");
        if assertion.is_some_and(|assertion| account().has_signed(assertion)) {
            let given = json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
            return (200, given);
        }
        let refused = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
        (400, refused)
    };
    Keys::new(
        ("googleServiceAccount", json!({})),
        &of.key().to_string(),
        secrets,
        answer,
    )
}

#[tokio::test]
async fn a_node_is_replaced_as_natively() {
    let keys = keys(account(), TOKEN);
    replaces_as_natively(&scene().await, &locked().await, &keys).await;
    assert!(keys.asked() > 0, "the token is asked for");
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant() {
    asks_only_as_granted(&locked().await, &keys(account(), TOKEN)).await;
}

#[tokio::test]
async fn a_key_that_google_does_not_know_is_denied_in_its_words() {
    let stranger = Account::new().unwrap();
    let wanted = ["credential cloud", "invalid_grant: Invalid JWT Signature."];
    is_denied(&locked().await, &keys(&stranger, TOKEN), &wanted, 0).await;
}

#[tokio::test]
async fn a_token_that_the_cloud_does_not_take_is_denied_in_its_words() {
    let wanted = ["401", "Request had invalid authentication credentials."];
    is_denied(
        &locked().await,
        &keys(account(), "ya29.of-somebody-else"),
        &wanted,
        1,
    )
    .await;
}
