//! Google Cloud: the key of a service account is exchanged for a token.

use crate::{
    Scene, asks_only_as_granted, is_denied,
    replacement::{Plan, ask_natively},
    replaces_as_natively,
    sandbox::{Form, Keys, load},
};
use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use numo_clouds::gcp::Cloud;
use numo_plugin::provider::MachineProvider;
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

/// The key whose public half the token endpoint knows.
fn pair() -> &'static KeyPair {
    static PAIR: OnceLock<KeyPair> = OnceLock::new();
    PAIR.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}

/// Whether the assertion of a form is signed by that key.
fn is_known(form: &Form) -> bool {
    let Some((text, signature)) = form
        .get("assertion")
        .and_then(|assertion| assertion.rsplit_once('.'))
    else {
        return false;
    };
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair().public_key())
        .verify(text.as_bytes(), &signature)
        .is_ok()
}

/// A service account with this key, for which this token is given.
fn keys(pair: &KeyPair, token: &'static str) -> Keys {
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let body = STANDARD.encode(der.as_ref());
    let key = json!({
        "type": "service_account",
        "private_key_id": "id-1",
        "private_key": format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"),
        "client_email": "numo@numo-test.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    });
    // Parts of the key, past what is the same in every one.
    let secrets = vec![
        token.to_owned(),
        body[200..240].to_owned(),
        body[900..940].to_owned(),
    ];
    let answer = move |form: &Form| -> (u16, Value) {
        if is_known(form) {
            let given = json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
            return (200, given);
        }
        let refused = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
        (400, refused)
    };
    Keys::new(
        ("googleServiceAccount", json!({})),
        &key.to_string(),
        secrets,
        answer,
    )
}

#[tokio::test]
async fn a_node_is_replaced_as_natively() {
    let keys = keys(pair(), TOKEN);
    replaces_as_natively(&scene().await, &locked().await, &keys).await;
    assert!(keys.asked() > 0, "the token is asked for");
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant() {
    asks_only_as_granted(&locked().await, &keys(pair(), TOKEN)).await;
}

#[tokio::test]
async fn a_key_that_google_does_not_know_is_denied_in_its_words() {
    let stranger = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let wanted = ["credential cloud", "invalid_grant: Invalid JWT Signature."];
    is_denied(&locked().await, &keys(&stranger, TOKEN), &wanted, 0).await;
}

#[tokio::test]
async fn a_token_that_the_cloud_does_not_take_is_denied_in_its_words() {
    let wanted = ["401", "Request had invalid authentication credentials."];
    is_denied(
        &locked().await,
        &keys(pair(), "ya29.of-somebody-else"),
        &wanted,
        1,
    )
    .await;
}
