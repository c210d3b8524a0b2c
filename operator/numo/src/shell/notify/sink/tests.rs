use super::*;
use crate::{
    frontends::mutex_notifier::view,
    shell::notify::double::{Act, Double, NAMESPACE, reach},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;
use std::collections::BTreeMap;

/// What the namespace of numo holds, by path of the API.
#[derive(Clone, Default)]
struct Namespace(BTreeMap<String, (u16, Value)>);

impl Namespace {
    fn path(resource: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/{resource}/{name}")
    }

    fn with_secret(mut self, name: &str, data: &[(&str, &str)], hosts: Option<&str>) -> Self {
        let data: BTreeMap<&str, String> = data
            .iter()
            .map(|(key, text)| (*key, BASE64_STANDARD.encode(text)))
            .collect();
        let annotations = hosts.map(|hosts| json!({marks::NOTIFIER_HOSTS: hosts}));
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "annotations": annotations}, "data": data});
        self.0.insert(Self::path("secrets", name), (200, secret));
        self
    }

    fn with_authorities(mut self, name: &str, key: &str, pem: &str) -> Self {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: pem}});
        self.0.insert(Self::path("configmaps", name), (200, map));
        self
    }

    fn forbidden(mut self, resource: &str, name: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no", "metadata": {}});
        self.0.insert(Self::path(resource, name), (403, status));
        self
    }

    /// The sink of a notifier with this spec.
    async fn sink(&self, spec: &Value) -> Result<Sink, Verdict> {
        let all = self.0.clone();
        let client = crate::shell::client::answering(move |path| {
            let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "none", "metadata": {}});
            let (code, body) = all.get(path).cloned().unwrap_or((404, missing));
            (code, body.to_string())
        });
        let reach = reach(client);
        let notifier = json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
            "metadata": {"name": "team"}, "spec": spec});
        let view = view(serde_json::from_value(notifier).unwrap());
        let spec = view.understood().unwrap();
        reach.sink(&view, &spec, &mut None).await
    }
}

fn now() -> Timestamp {
    "2027-01-15T08:00:00Z".parse().unwrap()
}

async fn sends(sink: &Sink) -> Answered {
    sink.send(&json!({"text": "hello"}), now()).await
}

#[tokio::test]
async fn each_answer_means_what_the_table_says() {
    let answer = |status: u16, head: &str| Act::Answer(status, head.to_owned());
    let later =
        |words: &str, wait: Option<u64>| Answered::Later(words.to_owned(), wait.map(Duration::from_secs));
    for (act, wanted) in [
        (answer(200, ""), Answered::Taken),
        (answer(202, ""), Answered::Taken),
        (Act::Flood(200), Answered::Taken),
        (answer(500, ""), later("the sink answers 500", None)),
        (Act::Flood(503), later("the sink answers 503", None)),
        (
            answer(429, "retry-after: 7\r\n"),
            later("the sink answers 429", Some(7)),
        ),
        (
            answer(503, "retry-after: Fri, 15 Jan 2027 08:00:30 GMT\r\n"),
            later("the sink answers 503", Some(30)),
        ),
        (
            answer(503, "retry-after: Fri, 15 Jan 2027 07:00:00 GMT\r\n"),
            later("the sink answers 503", Some(0)),
        ),
        (
            answer(429, "retry-after: soon\r\n"),
            later("the sink answers 429", None),
        ),
        (
            answer(400, ""),
            Answered::Refused("the sink answers 400".to_owned()),
        ),
        (
            answer(410, ""),
            Answered::Refused("the sink answers 410".to_owned()),
        ),
    ] {
        let double = Double::start(vec![act.clone()]).await;
        let sink = Namespace::default()
            .sink(&json!({"cloudEvents": {"url": double.url("/events")}}))
            .await
            .unwrap();
        assert_eq!(sends(&sink).await, wanted, "{act:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Double::start(vec![]).await;
    let head = format!("location: {}\r\n", other.url("/stolen"));
    let double = Double::start(vec![Act::Answer(307, head)]).await;
    let sink = Namespace::default()
        .sink(&json!({"cloudEvents": {"url": double.url("/")}}))
        .await
        .unwrap();
    let words = "the sink answers 307, and numo follows no redirect".to_owned();
    assert_eq!(sends(&sink).await, Answered::Refused(words));
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn nobody_there_and_a_connection_that_breaks_are_for_later() {
    let double = Double::start(vec![Act::Break]).await;
    let url = double.url("/");
    let sink = Namespace::default()
        .sink(&json!({"cloudEvents": {"url": url}}))
        .await
        .unwrap();
    assert!(matches!(sends(&sink).await, Answered::Later(_, None)));
    drop(double);
    assert!(matches!(sends(&sink).await, Answered::Later(_, None)));
}

#[tokio::test]
async fn the_url_of_a_chat_and_a_token_come_from_the_secret_and_are_never_said() {
    let double = Double::start(vec![]).await;
    let url = double.url("/services/very-secret");
    let hosts = Some("other.example, http://127.0.0.1");
    let data = [("url", url.as_str()), ("token", "also-secret\n")];
    let namespace = Namespace::default().with_secret("chat", &data, hosts);
    let sink = namespace
        .sink(&json!({"slack": {}, "secretRef": {"name": "chat"}}))
        .await
        .unwrap();
    assert_eq!(sends(&sink).await, Answered::Taken);
    let requests = double.requests();
    let (head, body) = &requests[0];
    assert!(
        head.starts_with("POST /services/very-secret HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("authorization: Bearer also-secret\r\n"), "{head}");
    assert_eq!(body, r#"{"text":"hello"}"#);
    drop(double);
    let Answered::Later(words, _) = sends(&sink).await else {
        panic!("somebody took it");
    };
    assert!(!words.contains("secret"), "{words}");
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said_with_its_reason() {
    let url = "https://sink.example/hook";
    let namespace = Namespace::default()
        .with_secret("empty", &[], None)
        .with_secret("token", &[("token", "t")], None)
        .with_secret(
            "elsewhere",
            &[("token", "t")],
            Some("other.example,sink.example.com"),
        )
        .with_secret("odd", &[("token", "a\nb")], Some("sink.example:443"))
        .with_secret("mail", &[("url", "mailto:ada@hidden.example")], None)
        .with_secret("user", &[("url", "https://ada:pw@hidden.example")], None)
        .with_authorities("ca", "ca.crt", "no PEM")
        .forbidden("secrets", "closed");
    let sink = json!({"url": url});
    for (spec, reason, words) in [
        (
            json!({"slack": {}, "secretRef": {"name": "none"}}),
            Reason::SecretNotFound,
            "Secret numo-system/none: found none",
        ),
        (
            json!({"slack": {}, "secretRef": {"name": "closed"}}),
            Reason::SecretsForbidden,
            "Secret numo-system/closed: numo may not read it",
        ),
        (
            json!({"slack": {}, "secretRef": {"name": "empty"}}),
            Reason::SecretInvalid,
            "Secret numo-system/empty: found no text under key url",
        ),
        (
            json!({"cloudEvents": sink, "secretRef": {"name": "token"}}),
            Reason::SecretInvalid,
            "Secret numo-system/token: its annotation numo.openshift-optional.skrzypek.io/notifier-hosts does not name sink.example",
        ),
        (
            json!({"cloudEvents": sink, "secretRef": {"name": "elsewhere"}}),
            Reason::SecretInvalid,
            "Secret numo-system/elsewhere: its annotation",
        ),
        // Whoever writes a notifier could have the token sent in the clear.
        (
            json!({"cloudEvents": {"url": "http://sink.example:443/hook"}, "secretRef": {"name": "odd"}}),
            Reason::SecretInvalid,
            "Secret numo-system/odd: its annotation numo.openshift-optional.skrzypek.io/notifier-hosts does not name http://sink.example,",
        ),
        (
            json!({"cloudEvents": sink, "secretRef": {"name": "odd"}}),
            Reason::SecretInvalid,
            "Secret numo-system/odd: key token is no text",
        ),
        (
            json!({"slack": {}, "secretRef": {"name": "mail"}}),
            Reason::SecretInvalid,
            "the URL of the sink: wanted one",
        ),
        (
            json!({"slack": {}, "secretRef": {"name": "user"}}),
            Reason::SecretInvalid,
            "the URL of the sink: wanted one",
        ),
        (
            json!({"cloudEvents": sink, "tls": {"caConfigMap": {"name": "ca"}}}),
            Reason::SecretInvalid,
            "spec.tls.caConfigMap: ",
        ),
        (
            json!({"cloudEvents": sink, "tls": {"caConfigMap": {"name": "ca", "key": "root.pem"}}}),
            Reason::SecretInvalid,
            "ConfigMap numo-system/ca: found no key root.pem",
        ),
        (
            json!({"cloudEvents": sink, "tls": {"caConfigMap": {"name": "none"}}}),
            Reason::SecretNotFound,
            "ConfigMap numo-system/none: found none",
        ),
    ] {
        let said = namespace.sink(&spec).await.unwrap_err();
        assert_eq!(said.reason, reason, "{spec}: {}", said.message);
        assert!(said.message.starts_with(words), "{spec}: {}", said.message);
        assert!(!said.message.contains("hidden.example"), "{}", said.message);
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_notifier_names_it_and_nowhere_else() {
    let (double, pem) = Double::start_tls(vec![]).await;
    let (_, of_another) = Double::start_tls(vec![]).await;
    let namespace = Namespace::default()
        .with_authorities("own", "ca.crt", &pem)
        .with_authorities("other", "ca.crt", &of_another);
    let url = double.url("/");
    let spec = |name: &str| json!({"cloudEvents": {"url": url}, "tls": {"caConfigMap": {"name": name}}});
    let own = namespace.sink(&spec("own")).await.unwrap();
    assert_eq!(sends(&own).await, Answered::Taken);
    let other = namespace.sink(&spec("other")).await.unwrap();
    let Answered::Later(words, None) = sends(&other).await else {
        panic!("a stranger was believed");
    };
    assert!(words.starts_with("TLS with localhost"), "{words}");
    assert_eq!(double.requests().len(), 1);
}

#[tokio::test]
async fn an_alertmanager_is_asked_under_its_api() {
    for (given, wanted) in [
        ("", "/api/v2/alerts"),
        ("/", "/api/v2/alerts"),
        ("/alertmanager/", "/alertmanager/api/v2/alerts"),
    ] {
        let double = Double::start(vec![]).await;
        let sink = Namespace::default()
            .sink(&json!({"alertmanager": {"url": double.url(given)}}))
            .await
            .unwrap();
        assert_eq!(sends(&sink).await, Answered::Taken);
        let (head, _) = &double.requests()[0];
        assert!(head.starts_with(&format!("POST {wanted} HTTP/1.1")), "{head}");
    }
}

#[tokio::test]
async fn an_address_of_the_machine_is_nobodys_sink() {
    let sink = Namespace::default()
        .sink(&json!({"cloudEvents": {"url": "http://169.254.169.254/latest"}}))
        .await
        .unwrap();
    let Answered::Later(words, _) = sends(&sink).await else {
        panic!("it was reached");
    };
    assert!(words.contains("a link-local address"), "{words}");
}
