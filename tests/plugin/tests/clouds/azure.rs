//! Azure: the secret of an application is exchanged for a token.

use crate::{
    Scene, asks_only_as_granted, is_denied,
    replacement::{Plan, ask_natively},
    replaces_as_natively,
    sandbox::{Form, Keys, load},
};
use numo_clouds::azure::{Azure, RESOURCE_GROUP, SUBSCRIPTION, State};
use numo_plugin::provider::MachineProvider;
use provider_azure::Azure as Provider;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const POOL: &str = "Pool_A";
const NEW_IMAGE: &str = "/communityGalleries/numo/images/node/versions/2.0.0";
/// The token that the cloud takes.
const TOKEN: &str = "eyJ0.taken-by-the-cloud";
/// The secret of the application.
const SECRET: &str = "q8Q~hush+of/the=application";

async fn provider() -> &'static MachineProvider {
    static LOADED: OnceCell<MachineProvider> = OnceCell::const_new();
    LOADED.get_or_init(|| load("provider-azure")).await
}

/// Three running machines, in a cloud that takes this token only, or any natively.
async fn scene(token: Option<&str>) -> Scene<Azure> {
    let provider = provider().await;
    let mut state = State {
        token: token.map(str::to_owned),
        ..State::default()
    }
    .with_set(POOL, "uid-1", "worker", 3);
    state.images.insert(NEW_IMAGE.to_lowercase());
    let cloud = Azure::start(state).unwrap();
    Scene {
        address: cloud.address(),
        cloud,
        provider,
        natively: ask_natively::<Provider>,
        config: json!({"subscription": SUBSCRIPTION, "resourceGroup": RESOURCE_GROUP, "credential": "cloud"}),
        hosts: &["management.azure.com"],
        plan: Plan {
            uid: "uid-1",
            group: State::group_id(POOL),
            image: NEW_IMAGE.to_owned(),
            old: State::provider_id(POOL, 1),
            request: "numo-0123456789abcdefghij",
        },
        requests: |cloud| cloud.state().log.len(),
    }
}

/// An application with this secret, for which this token is given.
fn keys(secret: &str, token: &'static str) -> Keys {
    let answer = move |form: &Form| -> (u16, Value) {
        if form.get("client_secret").is_some_and(|given| given == SECRET) {
            let given = json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
            return (200, given);
        }
        let words = "AADSTS7000215: Invalid client secret provided.";
        (
            401,
            json!({"error": "invalid_client", "error_description": words}),
        )
    };
    let source = json!({"tenantId": "numo.example.com", "clientId": "1c2d"});
    let secrets = vec![secret.to_owned(), token.to_owned()];
    Keys::new(("azureClientSecret", source), secret, secrets, answer)
}

#[tokio::test]
async fn a_node_is_replaced_as_natively() {
    let keys = keys(SECRET, TOKEN);
    replaces_as_natively(&scene(None).await, &scene(Some(TOKEN)).await, &keys).await;
    assert!(keys.asked() > 0, "the token is asked for");
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant() {
    asks_only_as_granted(&scene(Some(TOKEN)).await, &keys(SECRET, TOKEN)).await;
}

#[tokio::test]
async fn a_secret_that_entra_does_not_know_is_denied_in_its_words() {
    let wanted = ["credential cloud", "AADSTS7000215: Invalid client secret"];
    let keys = keys("another-secret~", TOKEN);
    is_denied(&scene(Some(TOKEN)).await, &keys, &wanted, 0).await;
}

#[tokio::test]
async fn a_token_that_the_cloud_does_not_take_is_denied_in_its_words() {
    let wanted = ["401", "InvalidAuthenticationToken: The access token is invalid."];
    let keys = keys(SECRET, "eyJ0.of-somebody-else");
    is_denied(&scene(Some(TOKEN)).await, &keys, &wanted, 1).await;
}
