//! What a provider of machines is granted and what not, what it may take, and what is believed of it; in the real sandbox.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use async_trait::async_trait;
use numo_plugin::{
    Component, Engine, ObjectRef, Reason, RuleLimits, Services, Setup,
    inspect::World,
    provider::{
        Ask, Cloud, CloudRequest, Creation, Failed, FailureCode, Lent, MachineProvider, MachineState, Made,
        ProviderGrants, Said, Writer,
    },
    services::{FetchResponse, HostError},
};
use numo_plugin_tests::{
    guest::{self, Core, Target},
    services::{Objects, nothing},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

async fn engine() -> &'static (Engine, MachineProvider) {
    static PROVIDER: OnceCell<(Engine, MachineProvider)> = OnceCell::const_new();
    let make = async || {
        let engine = Engine::new(Setup::default()).unwrap();
        let provider = engine.load_provider(&guest::provider().unwrap()).await.unwrap();
        (engine, provider)
    };
    PROVIDER.get_or_init(make).await
}

/// A cloud and an API server that note what they are asked.
#[derive(Default)]
struct Noted {
    sent: Mutex<Vec<CloudRequest>>,
    written: Mutex<Vec<String>>,
}

impl Noted {
    fn sent(&self) -> Vec<CloudRequest> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn written(&self) -> Vec<String> {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn write(&self, what: String) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(what);
    }
}

#[async_trait]
impl Cloud for Noted {
    async fn send(&self, request: CloudRequest) -> Result<FetchResponse, HostError> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push(request);
        Ok(FetchResponse {
            status: 200,
            headers: Vec::new(),
            body: b"well".to_vec(),
        })
    }
}

#[async_trait]
impl Writer for Noted {
    async fn create(&self, object: &ObjectRef, body: &Value) -> Result<Value, HostError> {
        self.write(format!("create {object}"));
        Ok(body.clone())
    }

    async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, HostError> {
        self.write(format!("patch {object}"));
        Ok(patch.clone())
    }

    async fn delete(&self, object: &ObjectRef, uid: &str) -> Result<(), HostError> {
        self.write(format!("delete {object} {uid}"));
        Ok(())
    }
}

fn lent(config: &Value, grants: Value, noted: &Arc<Noted>) -> Lent {
    Lent {
        grants: Arc::new(serde_json::from_value::<ProviderGrants>(grants).unwrap()),
        config_json: config.to_string().into(),
        cloud_config: Some("project-id = p".into()),
        cloud: Some(noted.clone()),
        writer: Some(noted.clone()),
    }
}

async fn ask_all(ask: Ask, config: Value, grants: Value, noted: &Arc<Noted>) -> Result<Said, Failed> {
    let (_, provider) = engine().await;
    let limits = RuleLimits {
        evaluation_seconds: Some(2),
        ..RuleLimits::default()
    };
    let services = Services {
        reader: Some(Arc::new(Objects::default())),
        ..nothing()
    };
    let lent = lent(&config, grants, noted);
    provider.ask(ask, &limits, (lent, services)).await
}

/// What it says to the question for an image, which it misbehaves in.
async fn misbehaves(config: Value, grants: Value, noted: &Arc<Noted>) -> Result<String, Failed> {
    let ask = Ask::NodeImage {
        provider_id: "id".to_owned(),
    };
    match ask_all(ask, config, grants, noted).await? {
        Said::Text(text) => Ok(text),
        other => panic!("{other:?}"),
    }
}

fn words(answer: Result<String, Failed>) -> String {
    match answer {
        Err(Failed::Said(failure)) => failure.message,
        other => panic!("wanted the provider's own words, found {other:?}"),
    }
}

fn reason(answer: Result<impl std::fmt::Debug, Failed>) -> Reason {
    match answer {
        Err(Failed::Refused(refused)) => refused.reason,
        other => panic!("wanted the host's refusal, found {other:?}"),
    }
}

#[tokio::test]
async fn a_provider_is_no_rule_and_a_rule_no_provider() {
    let (engine, provider) = engine().await;
    assert_eq!(provider.description().name, "conformance");
    assert_eq!(provider.description().hosts, ["127.0.0.1:443"]);
    let refused = engine.load(&guest::provider().unwrap()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::WrongWorld);
    assert!(
        refused.message.contains("found") || refused.message.contains("wanted numo:rule/evaluation"),
        "{refused}"
    );
    let rule = guest::rust(Target::Unknown).unwrap();
    let refused = engine.load_provider(&rule).await.unwrap_err();
    assert_eq!(refused.reason, Reason::WrongWorld, "{refused}");
    // What changes something is lent to no rule.
    let core = Core::default().component().unwrap();
    assert!(engine.load_provider(&core).await.is_err());
}

#[tokio::test]
async fn a_component_of_either_world_is_loaded_as_what_it_is() {
    let (engine, provider) = engine().await;
    let Component::Provider(found) = engine.load_any(&guest::provider().unwrap()).await.unwrap() else {
        panic!("wanted a provider");
    };
    assert_eq!(found.digest(), provider.digest());
    assert_eq!(found.inspection(), provider.inspection());
    assert_eq!(found.inspection().world, World::Provider);
    let of_provider = Component::Provider(found);
    assert_eq!(
        (of_provider.name(), of_provider.version(), of_provider.summary()),
        ("conformance", "1.0.0", "misbehaves")
    );
    let said = serde_json::to_value(provider.description()).unwrap();
    assert_eq!(said["hosts"], json!(["127.0.0.1:443"]));

    let rule = engine
        .load_any(&guest::rust(Target::Unknown).unwrap())
        .await
        .unwrap();
    assert!(matches!(rule, Component::Rule(_)), "{rule:?}");
    assert_eq!(rule.inspection().world, World::Rule);
    // What is of neither world is refused as before.
    let neither = wat::parse_str("(component)").unwrap();
    let refused = engine.load_any(&neither).await.unwrap_err();
    assert_eq!(refused.reason, Reason::WrongWorld, "{refused}");
}

#[tokio::test]
async fn the_cloud_is_asked_only_as_a_grant_says() {
    let grants =
        json!({"cloud": [{"host": "api.example.com", "methods": ["GET", "POST"], "credentials": ["main"]}]});
    let send = |more: Value| {
        let mut config = json!({"do": "send", "url": "https://api.example.com/v1/machines?a=b"});
        let fields = more.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(fields);
        config
    };
    let noted = Arc::new(Noted::default());
    for (config, wanted) in [
        (
            send(json!({"url": "https://other.example.com/"})),
            "Denied no grant",
        ),
        (
            send(json!({"url": "https://api.example.com:8443/"})),
            "Denied no grant",
        ),
        (send(json!({"url": "http://api.example.com/"})), "Invalid"),
        (send(json!({"url": "https://user@api.example.com/"})), "Invalid"),
        (
            send(json!({"method": "DELETE"})),
            "does not have the method DELETE",
        ),
        (
            send(json!({"credential": "other"})),
            "has no credential \"other\"",
        ),
        (
            send(json!({"headers": {"authorization": "Bearer own"}})),
            "Invalid",
        ),
        (send(json!({"headers": {"host": "other.example.com"}})), "Invalid"),
    ] {
        let said = words(misbehaves(config.clone(), grants.clone(), &noted).await);
        assert!(said.contains(wanted), "{config}: {said}");
    }
    assert!(noted.sent().is_empty(), "{:?}", noted.sent());
    let none = words(misbehaves(send(json!({})), json!({}), &noted).await);
    assert!(none.contains("grant=cloud api.example.com:443"), "{none}");

    let config = send(json!({
        "method": "POST", "body": "{}", "credential": "main", "scheme": "aws-sigv4",
        "parameters": {"service": "ec2"}, "headers": {"content-type": "application/json"},
    }));
    assert_eq!(misbehaves(config, grants, &noted).await.unwrap(), "200 well");
    let sent = noted.sent();
    let [request] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    let signing = request.signing.as_ref().unwrap();
    assert_eq!(
        (signing.credential.as_str(), signing.scheme.as_str()),
        ("main", "aws-sigv4")
    );
    assert_eq!(signing.parameters, [("service".to_owned(), "ec2".to_owned())]);
    assert_eq!(
        (request.method.as_str(), request.body.as_slice()),
        ("POST", &b"{}"[..])
    );
}

#[tokio::test]
async fn objects_are_written_only_as_a_grant_says() {
    let kind = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "namespace": "capi", "name": "m"});
    let of = |what: &str, more: Value| {
        let mut config = kind.clone();
        config["do"] = json!(what);
        let fields = more.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(fields);
        config
    };
    let grants = json!({"kubernetes": [{
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "namespaces": ["capi"], "write": ["patch", "delete"],
    }]});
    let noted = Arc::new(Noted::default());
    let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"namespace": "capi", "name": "m"}});
    for (config, wanted) in [
        (
            of("create", json!({"body": body.to_string()})),
            "Denied no grant of the provider covers create",
        ),
        (
            of("patch", json!({"namespace": "kube-system", "body": "[]"})),
            "Denied",
        ),
        (of("patch", json!({"kind": "MachineSet", "body": "[]"})), "Denied"),
        (
            of(
                "patch",
                json!({"apiVersion": "v1", "kind": "Node", "namespace": null, "body": "[]"}),
            ),
            "Denied",
        ),
        (of("patch", json!({"name": "../../m", "body": "[]"})), "Invalid"),
        (of("patch", json!({"body": "{}"})), "Invalid"),
        (of("patch", json!({"body": "no json"})), "Invalid"),
        (of("delete", json!({"uid": ""})), "Invalid"),
        (of("get", json!({"kind": "Secret", "apiVersion": "v1"})), "Denied"),
    ] {
        let said = words(misbehaves(config.clone(), grants.clone(), &noted).await);
        assert!(said.contains(wanted), "{config}: {said}");
    }
    assert!(noted.written().is_empty(), "{:?}", noted.written());
    let patched = misbehaves(of("patch", json!({"body": "[]"})), grants.clone(), &noted).await;
    assert_eq!(patched.unwrap(), "[]");
    let deleted = misbehaves(of("delete", json!({"uid": "u"})), grants.clone(), &noted).await;
    assert_eq!(deleted.unwrap(), "gone");
    let read = misbehaves(of("get", json!({})), grants, &noted).await;
    assert_eq!(read.unwrap(), "none", "what may be written may be read");
    let machine = "cluster.x-k8s.io/v1beta1 Machine capi/m";
    assert_eq!(
        noted.written(),
        [format!("patch {machine}"), format!("delete {machine} u")]
    );
}

#[tokio::test]
async fn a_provider_is_held_to_the_limits_of_rules() {
    let noted = Arc::new(Noted::default());
    let grants = json!({"cloud": [{"host": "api.example.com"}]});
    let flood = json!({"do": "flood", "url": "https://api.example.com/"});
    for (config, wanted) in [
        (json!({"do": "loop"}), Reason::EvaluationTimeout),
        (json!({"do": "allocate"}), Reason::MemoryLimit),
        (json!({"do": "recurse"}), Reason::StackOverflow),
        (json!({"do": "panic"}), Reason::Trap),
        (flood, Reason::CallLimit),
    ] {
        let answer = misbehaves(config.clone(), grants.clone(), &noted).await;
        assert_eq!(reason(answer), wanted, "{config}");
    }
}

#[tokio::test]
async fn what_cannot_be_an_id_is_not_believed() {
    let noted = Arc::new(Noted::default());
    for what in ["big", "line-end", "empty"] {
        let answer = misbehaves(json!({"do": what}), json!({}), &noted).await;
        assert_eq!(reason(answer), Reason::RuleError, "{what}");
    }
    let create = |token: Option<&str>| Ask::Create {
        group_id: "g".to_owned(),
        request_id: "numo-1".to_owned(),
        token: token.map(str::to_owned),
    };
    for node in ["", "W-1", "a b"] {
        let config = json!({"node": node, "id": "gce://p/z/w"});
        let answer = ask_all(create(None), config, json!({}), &noted).await;
        assert_eq!(reason(answer), Reason::RuleError, "{node:?}");
    }
    let long = json!({"do": "pending", "long": 5000});
    assert_eq!(
        reason(ask_all(create(None), long, json!({}), &noted).await),
        Reason::RuleError
    );
    let groups = Ask::Groups { uid: "u".to_owned() };
    let many = ask_all(groups, json!({"groups": 1001}), json!({}), &noted).await;
    assert_eq!(reason(many), Reason::RuleError);
}

#[tokio::test]
async fn what_is_well_comes_through() {
    let noted = Arc::new(Noted::default());
    let settings = misbehaves(json!({"do": "settings"}), json!({}), &noted)
        .await
        .unwrap();
    assert!(settings.contains("project-id = p"), "{settings}");
    let failed = misbehaves(json!({"do": "fail"}), json!({}), &noted).await;
    let Err(Failed::Said(failure)) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (FailureCode::Exhausted, "found no room in the zone")
    );
    let create = Ask::Create {
        group_id: "g".to_owned(),
        request_id: "numo-1".to_owned(),
        token: Some("t".to_owned()),
    };
    let said = ask_all(create.clone(), json!({"do": "pending"}), json!({}), &noted).await;
    let Ok(Said::Creation(Creation::Pending(pending))) = said else {
        panic!("{said:?}");
    };
    assert_eq!(pending.token, "numo-1 after Some(\"t\")");
    assert_eq!(pending.retry_after_seconds, 1, "never at once");
    let made = Made {
        node: "w-1".to_owned(),
        provider_id: "gce://p/z/w-1".to_owned(),
    };
    let well = json!({"do": "find", "node": "w-1", "id": "gce://p/z/w-1"});
    let said = ask_all(create, well.clone(), json!({}), &noted).await;
    assert_eq!(said.unwrap(), Said::Creation(Creation::Created(made.clone())));
    let find = Ask::Find {
        group_id: "g".to_owned(),
        request_id: "numo-1".to_owned(),
    };
    let said = ask_all(find, well, json!({}), &noted).await;
    assert_eq!(said.unwrap(), Said::Found(Some(made)));
    let state = Ask::State {
        provider_id: "id".to_owned(),
    };
    let said = ask_all(state, json!({}), json!({}), &noted).await;
    assert_eq!(said.unwrap(), Said::State(MachineState::Ready));
    let groups = Ask::Groups { uid: "u".to_owned() };
    let said = ask_all(groups, json!({}), json!({}), &noted).await.unwrap();
    assert!(
        matches!(&said, Said::Groups(groups) if groups.len() == 1 && groups[0].name == "u-0"),
        "{said:?}"
    );
}
