//! AWS: each request is signed with keys, and the local server works out each signature by itself.

use crate::{
    Scene, asks_only_as_granted, is_denied,
    replacement::{Plan, ask_natively},
    replaces_as_natively,
    sandbox::{self, load},
};
use numo_clouds::{
    Served,
    aws::{Cloud, Group, Instance, Keys, State, Version},
};
use numo_plugin::provider::MachineProvider;
use provider_aws::Aws;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const OLD_IMAGE: &str = "ami-0000000000000001a";
const NEW_IMAGE: &str = "ami-0000000000000002b";
const WORKERS: &str = "Workers-A";
/// What the cloud takes: keys of a session.
const ACCESS: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalr/hush+XUtnFEMI";
const SESSION: &str = "session+of/the=role";

async fn provider() -> &'static MachineProvider {
    static LOADED: OnceCell<MachineProvider> = OnceCell::const_new();
    LOADED.get_or_init(|| load("provider-aws")).await
}

/// Three workers in three zones.
fn fill(state: &mut State) {
    state.fills = true;
    for image in [OLD_IMAGE, NEW_IMAGE] {
        state.images.insert(image.to_owned(), "available".to_owned());
    }
    let template = state.templates.entry("lt-workers".to_owned()).or_default();
    template.default = 1;
    template.versions.push(Version {
        image: Some(OLD_IMAGE.to_owned()),
        kind: Some("m5.large".to_owned()),
        ..Version::default()
    });
    let tags = [
        ("constellation-uid", "c1"),
        ("constellation-role", "worker"),
        ("constellation-node-group", "worker_default"),
    ];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned(), true));
    let group = Group {
        min: 1,
        max: 5,
        desired: 3,
        subnets: "subnet-a,subnet-b,subnet-c".to_owned(),
        template: Some(("lt-workers".to_owned(), "$Default".to_owned())),
        tags: tags.to_vec(),
        ..Group::default()
    };
    state.groups.insert(WORKERS.to_owned(), group);
    for zone in ["a", "b", "c"] {
        let (subnet, zone) = (format!("subnet-{zone}"), format!("eu-central-1{zone}"));
        state.subnets.insert(subnet.clone(), zone.clone());
        let instance = Instance {
            id: state.id("i-"),
            state: "running".to_owned(),
            subnet,
            zone,
            image: OLD_IMAGE.to_owned(),
            group: Some(WORKERS.to_owned()),
            lifecycle: "InService".to_owned(),
            ..Instance::default()
        };
        state.instances.push(instance);
    }
}

/// A cloud that takes any signature, as providers name them natively.
async fn scene() -> Scene<(Cloud, Served)> {
    let provider = provider().await;
    let cloud = Cloud::new();
    let served = cloud.serve().unwrap();
    let old = {
        let mut state = cloud.state();
        fill(&mut state);
        let first = &state.instances[0];
        format!("aws:///{}/{}", first.zone, first.id)
    };
    Scene {
        address: served.address(),
        cloud: (cloud, served),
        provider,
        natively: ask_natively::<Aws>,
        config: json!({"region": "eu-central-1", "credential": "cloud"}),
        hosts: &[
            "ec2.eu-central-1.amazonaws.com",
            "autoscaling.eu-central-1.amazonaws.com",
        ],
        plan: Plan {
            uid: "c1",
            group: WORKERS.to_owned(),
            image: NEW_IMAGE.to_owned(),
            old,
            request: "numo-0123456789abcdefghij",
        },
        requests: |(cloud, _)| cloud.state().count(""),
    }
}

/// A cloud that verifies every signature.
async fn locked() -> Scene<(Cloud, Served)> {
    let scene = scene().await;
    scene.cloud.0.state().keys = Some(Keys {
        access: ACCESS.to_owned(),
        secret: SECRET.to_owned(),
        session: Some(SESSION.to_owned()),
        region: "eu-central-1".to_owned(),
    });
    scene
}

/// A shared credentials file with these keys.
fn keys(access: &str, secret: &str) -> sandbox::Keys {
    let file = format!(
        "[numo]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\naws_session_token = {SESSION}\n"
    );
    let secrets = vec![secret.to_owned(), SESSION.to_owned()];
    let nobody = |_: &sandbox::Form| (500, Value::Null);
    sandbox::Keys::new(("awsKeys", json!({"profile": "numo"})), &file, secrets, nobody)
}

#[tokio::test]
async fn a_node_is_replaced_as_natively() {
    let keys = keys(ACCESS, SECRET);
    replaces_as_natively(&scene().await, &locked().await, &keys).await;
    assert_eq!(keys.asked(), 0, "keys are asked for nowhere");
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant() {
    asks_only_as_granted(&locked().await, &keys(ACCESS, SECRET)).await;
}

#[tokio::test]
async fn a_signature_with_another_secret_is_denied_in_the_clouds_words() {
    let wanted = [
        "SignatureDoesNotMatch",
        "does not match the signature you provided",
    ];
    is_denied(&locked().await, &keys(ACCESS, "another/secret"), &wanted, 1).await;
}

#[tokio::test]
async fn keys_that_aws_does_not_know_are_denied_in_its_words() {
    let wanted = ["InvalidClientTokenId", "security token"];
    is_denied(&locked().await, &keys("AKIDOFANOTHER", SECRET), &wanted, 1).await;
}
