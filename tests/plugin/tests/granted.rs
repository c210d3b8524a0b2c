//! What a rule is granted and what not: grants, masks, pages, Secrets, servers, queries, history; in the real sandbox.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::sync::Arc;

use numo_plugin::{
    Engine, Grants, Limits, Reason, Refused, Rule, Services, Setup, Terms, Verdict,
    services::{Credential, HistoryEntry, Prometheus},
};
use numo_plugin_tests::{
    guest::{self, Core, Target},
    services::{Objects, Pages, input, nothing},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

async fn rule() -> Rule {
    static RULE: OnceCell<(Engine, Rule)> = OnceCell::const_new();
    let make = async || {
        let engine = Engine::new(Setup::default()).unwrap();
        let rule = engine.load(&guest::rust(Target::Wasip2).unwrap()).await.unwrap();
        (engine, rule)
    };
    RULE.get_or_init(make).await.1.clone()
}

fn terms(grants: Value) -> Terms {
    let grants: Grants = serde_json::from_value(grants).unwrap();
    Terms {
        grants: grants.into(),
        ..Terms::default()
    }
}

async fn ask(config: Value, grants: Value, services: Services) -> Result<String, Refused> {
    let answer = rule()
        .await
        .evaluate(input(&config.to_string()), &terms(grants), services)
        .await?;
    match answer.verdict {
        Verdict::Pass(report) => Ok(report.summary),
        other => panic!("{other:?}"),
    }
}

fn pod(namespace: &str, name: &str, filler: usize) -> Arc<Value> {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "managedFields": ["never"]},
        "spec": {"filler": "x".repeat(filler)},
    })
    .into()
}

fn with(objects: Vec<Arc<Value>>) -> (Services, Arc<Objects>) {
    let reader = Arc::new(Objects {
        objects,
        ..Objects::default()
    });
    (
        Services {
            reader: Some(reader.clone()),
            ..nothing()
        },
        reader,
    )
}

fn pods_in(namespaces: &[&str]) -> Value {
    json!({"kubernetes": [{"apiVersion": "v1", "kind": "Pod", "namespaces": namespaces}]})
}

#[tokio::test]
async fn an_object_without_grant_is_denied_and_never_asked_for() {
    let (services, reader) = with(vec![pod("a", "a", 0)]);
    let ask = async |grants| ask(json!({"do": "get"}), grants, services.clone()).await;
    let refused = ask(json!({})).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Denied);
    assert!(refused.message.contains("v1 Pod a/a"), "{refused}");
    assert_eq!(ask(pods_in(&["b"])).await.unwrap_err().reason, Reason::Denied);
    assert!(reader.asked.lock().unwrap().is_empty());
    let found: Value = serde_json::from_str(&ask(pods_in(&["a"])).await.unwrap()).unwrap();
    assert_eq!(
        found["metadata"],
        json!({"name": "a", "namespace": "a", "uid": "u"})
    );
}

#[tokio::test]
async fn what_does_not_exist_is_none_and_what_cannot_be_read_is_not() {
    let (services, _) = with(Vec::new());
    assert_eq!(
        ask(json!({"do": "get"}), pods_in(&["a"]), services)
            .await
            .unwrap(),
        "none"
    );
    let refused = ask(json!({"do": "get"}), pods_in(&["a"]), nothing())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::RuleError, "{refused}");
    let refused = ask(
        json!({"do": "get", "name": "../secrets"}),
        pods_in(&["a"]),
        nothing(),
    )
    .await
    .unwrap_err();
    assert!(refused.message.contains("is no name"), "{refused}");
}

#[tokio::test]
async fn a_list_beyond_the_grants_is_denied_whole() {
    let (services, reader) = with(vec![pod("a", "1", 0), pod("b", "2", 0)]);
    let all = |grants| ask(json!({"do": "list-all"}), grants, services.clone());
    assert_eq!(all(pods_in(&["a"])).await.unwrap_err().reason, Reason::Denied);
    assert_eq!(
        all(pods_in(&["a", "b"])).await.unwrap_err().reason,
        Reason::Denied
    );
    assert!(reader.asked.lock().unwrap().is_empty());
    assert_eq!(all(pods_in(&[])).await.unwrap(), "2");
}

#[tokio::test]
async fn a_page_ends_at_its_bytes_and_nothing_is_lost_or_cut() {
    // 13 objects of 600 KiB: 3 fit a page of 2 MiB; 650 small ones after them: pages of 500 and what is left.
    let big = (0..13).map(|index| pod("a", &format!("big-{index}"), 600 * 1024));
    let small = (0..650).map(|index| pod("a", &format!("small-{index}"), 10));
    let (services, _) = with(big.chain(small).collect());
    let answer = ask(json!({"do": "list"}), pods_in(&["a"]), services)
        .await
        .unwrap();
    assert_eq!(answer, "663 on 6 pages");
}

#[tokio::test]
async fn an_object_that_fits_no_page_is_too_large_and_not_left_out() {
    let (services, _) = with(vec![pod("a", "a", 3 << 20)]);
    for what in ["list", "get"] {
        let refused = ask(json!({"do": what}), pods_in(&["a"]), services.clone())
            .await
            .unwrap_err();
        assert!(refused.message.contains("one answer has at most"), "{refused}");
    }
}

#[tokio::test]
async fn a_token_of_another_query_is_refused() {
    let (services, _) = with(vec![pod("a", "1", 0), pod("a", "2", 0)]);
    let refused = ask(json!({"do": "list-other-token"}), pods_in(&["a"]), services)
        .await
        .unwrap_err();
    assert!(refused.message.contains("not of this query"), "{refused}");
}

#[tokio::test]
async fn secrets_need_a_grant_and_a_flag() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "a"}});
    let (services, _) = with(vec![secret.into()]);
    let granted = json!({"kubernetes": [{"apiVersion": "v1", "kind": "Secret"}]});
    let ask = async |grants, secrets| {
        let services = Services {
            secrets,
            ..services.clone()
        };
        ask(json!({"do": "get-secret"}), grants, services)
            .await
            .map_err(|refused| refused.reason)
    };
    assert_eq!(ask(granted.clone(), false).await.unwrap_err(), Reason::Denied);
    assert_eq!(ask(pods_in(&[]), true).await.unwrap_err(), Reason::Denied);
    assert!(ask(granted, true).await.is_ok());
}

#[tokio::test]
async fn what_was_read_is_told() {
    let (services, _) = with(Vec::new());
    let terms = terms(pods_in(&["a"]));
    let answer = rule()
        .await
        .evaluate(input(r#"{"do": "get"}"#), &terms, services)
        .await
        .unwrap();
    assert_eq!(answer.reads.len(), 1);
    assert_eq!(answer.reads[0].name.as_deref(), Some("a"));
    assert_eq!(answer.usage.host_calls, 1);
}

#[tokio::test]
async fn a_server_needs_its_grant_and_a_credential_its_name() {
    let pages = Arc::new(Pages {
        pages: [(
            "https://status.example.com/ok".to_owned(),
            (503, b"busy".to_vec()),
        )]
        .into(),
        ..Pages::default()
    });
    let credential = Credential {
        header: "authorization".into(),
        value: "Bearer s3cret".into(),
    };
    let services = Services {
        fetch: Some(pages.clone()),
        credentials: Arc::new([("token".to_owned(), credential)].into()),
        ..nothing()
    };
    let granted = json!({"http": [{"host": "status.example.com", "credentials": ["token"]}]});
    let fetch = async |url: &str, credential: Option<&str>, grants: &Value| {
        let config = json!({"do": "fetch", "url": url, "credential": credential});
        ask(config, grants.clone(), services.clone())
            .await
            .map_err(|refused| refused.reason)
    };
    let url = "https://status.example.com/ok";
    assert_eq!(fetch(url, None, &granted).await.unwrap(), "503 busy");
    assert_eq!(fetch(url, Some("token"), &granted).await.unwrap(), "503 busy");
    assert_eq!(
        fetch(url, Some("other"), &granted).await.unwrap_err(),
        Reason::Denied
    );
    assert_eq!(
        fetch("https://example.com/", None, &granted).await.unwrap_err(),
        Reason::Denied
    );
    assert_eq!(fetch(url, None, &json!({})).await.unwrap_err(), Reason::Denied);
    let without = json!({"http": [{"host": "status.example.com"}]});
    assert_eq!(
        fetch(url, Some("token"), &without).await.unwrap_err(),
        Reason::Denied
    );
    let asked = pages.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].1, ["authorization"]);
}

#[tokio::test]
async fn prometheus_is_asked_at_the_moment_of_the_evaluation() {
    let url = "https://prometheus.example.com/base/api/v1/query?query=up&time=1795262400.000";
    let body = json!({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1"]}]}});
    let pages = Arc::new(Pages {
        pages: [(url.to_owned(), (200, body.to_string().into()))].into(),
        ..Pages::default()
    });
    let prometheus = Prometheus {
        url: "https://prometheus.example.com/base".parse().unwrap(),
        fetch: pages.clone(),
        credential: Some(Credential {
            header: "authorization".into(),
            value: "Bearer x".into(),
        }),
    };
    let services = Services {
        prometheus: Some(prometheus),
        ..nothing()
    };
    let query = |grants| ask(json!({"do": "query"}), grants, services.clone());
    assert_eq!(query(json!({})).await.unwrap_err().reason, Reason::Denied);
    assert_eq!(
        query(json!({"prometheus": {}})).await.unwrap(),
        "1 series",
        "{:?}",
        pages.asked
    );
}

#[tokio::test]
async fn clock_history_and_wasi_show_the_evaluation() {
    let entry = HistoryEntry {
        run: "run-1".into(),
        phase: "pre".into(),
        attempt: 1,
        at: nothing().now,
        verdict: "wait".into(),
        reason: "Busy".into(),
        summary: String::new(),
        data_json: Some("{}".into()),
    };
    let services = Services {
        history: vec![entry; 40].into(),
        ..nothing()
    };
    assert_eq!(
        ask(json!({"do": "history"}), json!({}), services.clone())
            .await
            .unwrap(),
        "32 wait"
    );
    assert_eq!(
        ask(json!({"do": "clock"}), json!({}), services.clone())
            .await
            .unwrap(),
        "true"
    );
    assert_eq!(
        ask(json!({"do": "wasi-clock"}), json!({}), services)
            .await
            .unwrap(),
        "true"
    );
}

#[tokio::test]
async fn the_configuration_is_checked_with_every_call_denied() {
    let rule = rule().await;
    assert_eq!(rule.validate_config("{}").await.unwrap(), Ok(()));
    let problems = rule
        .validate_config(r#"{"do": "bad-config"}"#)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(
        (problems[0].pointer.as_str(), problems[0].message.as_str()),
        ("/do", "it is bad")
    );
    let problems = rule
        .validate_config(r#"{"do": "ask-in-validate"}"#)
        .await
        .unwrap()
        .unwrap_err();
    assert!(problems[0].message.contains("denied"), "{problems:?}");
    let refused = rule.validate_config(&"x".repeat(65 * 1024)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::TooLarge);
}

#[tokio::test]
async fn a_wait_is_within_bounds_and_an_error_is_no_verdict() {
    let rule = rule().await;
    let ask = async |what: &str| {
        rule.evaluate(
            input(&json!({ "do": what }).to_string()),
            &Terms::default(),
            nothing(),
        )
        .await
    };
    let answer = ask("wait").await.unwrap();
    assert!(
        matches!(
            answer.verdict,
            Verdict::Wait {
                retry_after: 5,
                progress: Some(100),
                ..
            }
        ),
        "{answer:?}"
    );
    let refused = ask("fail").await.unwrap_err();
    assert_eq!(
        (refused.reason, refused.message.as_str()),
        (Reason::RuleError, "it cannot tell")
    );
}

#[tokio::test]
async fn a_required_want_without_grant_is_named_before_anything_is_asked() {
    let want = |optional| {
        vec![(
            "numo:host/kubernetes".into(),
            "policy/v1/PodDisruptionBudget".into(),
            optional,
        )]
    };
    let engine = Engine::new(Setup::default()).unwrap();
    let load = async |optional| {
        // It traps when asked: so it was not.
        let core = Core {
            wants: want(optional),
            ..Core::that(if optional { "" } else { "unreachable" })
        };
        engine.load(&core.component().unwrap()).await.unwrap()
    };
    let required = load(false).await;
    let refused = required
        .evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::GrantMissing);
    assert!(
        refused
            .message
            .contains("grants.kubernetes policy/v1/PodDisruptionBudget"),
        "{refused}"
    );
    let granted = terms(json!({"kubernetes": [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}]}));
    assert!(required.missing_grants(&granted.grants).is_empty());
    let optional = load(true).await;
    assert!(optional.missing_grants(&Grants::default())[0].optional);
    optional
        .evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_that_is_too_large_is_refused_whole() {
    let rule = rule().await;
    let mut input = input("{}");
    input.node.as_mut().unwrap().object_json = "x".repeat(256 * 1024 + 1);
    let refused = rule
        .evaluate(input, &Terms::default(), nothing())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::TooLarge);
}

#[tokio::test]
async fn a_rule_asks_for_no_more_than_the_ceilings() {
    let ceilings = Limits {
        evaluation_seconds: 10,
        ..Limits::CEILINGS
    };
    let engine = Engine::new(Setup {
        ceilings,
        ..Setup::default()
    })
    .unwrap();
    let rule = engine.load(&Core::default().component().unwrap()).await.unwrap();
    let asked = |seconds| numo_plugin::RuleLimits {
        evaluation_seconds: Some(seconds),
        ..Default::default()
    };
    assert!(rule.limits(&asked(10)).is_ok());
    assert_eq!(rule.limits(&asked(11)).unwrap_err().name, "evaluationSeconds");
}

#[tokio::test]
async fn only_so_many_reasons_of_a_rule_stay_apart() {
    let engine = Engine::new(Setup::default()).unwrap();
    let rule = engine.load(&Core::default().component().unwrap()).await.unwrap();
    let labels: std::collections::BTreeSet<_> = (0..100)
        .map(|n| rule.metric_reason(&format!("Reason{n}")))
        .collect();
    assert_eq!(labels.len(), 33);
    assert_eq!(rule.metric_reason("Reason0"), "Reason0");
}
