use super::{super::outbox::WORTH, *};
use crate::{
    frontends::{mutex_notifier::view, occurrences::Occurrence},
    shell::{
        clock::ServerClock,
        notify::double::{Act, Double, reach},
    },
};
use kube::{Client, client::Body};
use numo_api::Transition;
use numo_core::Owner;
use serde_json::json;

/// Objects that were written, the newest last.
type Written = Arc<Mutex<Vec<Value>>>;

/// An API server that keeps the statuses it is sent, and the events beside them.
fn api_server(written: &Written) -> Client {
    let written = written.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let written = written.clone();
        async move {
            let body = axum::body::Body::new(request.into_body());
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            written.lock().unwrap().push(object);
            http::Response::builder().body(Body::from(body.to_vec()))
        }
    });
    Client::new(service, "default")
}

/// A notifier at work.
struct Team {
    post: Arc<Post>,
    written: Written,
    metrics: Metrics,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Team {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Team {
    fn start(spec: &Value) -> Self {
        let notifier = json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
            "metadata": {"name": "team", "uid": "u", "generation": 1, "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": spec});
        let view = view(serde_json::from_value(notifier).unwrap());
        let (written, metrics) = (Written::default(), Metrics::new());
        let client = api_server(&written);
        let clock = ServerClock::default();
        let (events, _) = Events::start(
            client.clone(),
            clock,
            "numo-0".to_owned(),
            String::new(),
            metrics.clone(),
        );
        let post = Arc::new(Post::new(Outbox::new(view)));
        let worker = Worker {
            name: "team".to_owned(),
            uid: "u".to_owned(),
            post: post.clone(),
            reach: reach(client),
            fence: Fence::new(),
            metrics: metrics.clone(),
            events,
        };
        Self {
            post,
            written,
            metrics,
            task: tokio::spawn(worker.work()),
        }
    }

    fn see(&self, all: &[Arc<Notification>], at: Instant) {
        self.post.outbox().see(all, at);
        self.post.wake();
    }

    /// Waits until this holds.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let held = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let held = tokio::time::timeout(Duration::from_mins(1), held).await;
        assert!(held.is_ok(), "{what}: {}", self.metrics.text());
    }

    fn counted(&self, outcome: &str) -> u64 {
        let begins = format!("numo_notifications_total{{notifier=\"team\",outcome=\"{outcome}\"}} ");
        let text = self.metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&begins));
        line.and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
    }

    /// The statuses that were written.
    fn statuses(&self) -> Vec<Value> {
        let written = self.written.lock().unwrap();
        let all = written.iter().filter(|object| object["kind"] == "MutexNotifier");
        all.map(|object| object["status"].clone()).collect()
    }

    /// Type and reason of each event.
    fn events(&self) -> Vec<(String, String)> {
        let written = self.written.lock().unwrap();
        let all = written.iter().filter(|object| object["kind"] == "Event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.map(|event| (text(&event["type"]), text(&event["reason"])))
            .collect()
    }

    /// The reason of the condition Ready as it was written last.
    fn reason(&self) -> String {
        let statuses = self.statuses();
        let conditions = statuses.last().map(|status| status["conditions"].clone());
        let conditions = conditions.unwrap_or_default();
        let mut all = conditions.as_array().into_iter().flatten();
        let ready = all.find(|one| one["type"] == "Ready");
        ready.map_or_else(String::new, |one| {
            one["reason"].as_str().unwrap_or_default().to_owned()
        })
    }
}

fn one(id: &str, transition: Transition) -> Arc<Notification> {
    let at: Timestamp = "2027-01-15T09:00:00Z".parse().unwrap();
    Arc::new(Notification {
        occurrence: Occurrence {
            id: id.to_owned(),
            transition,
            at: Some(at),
            node: None,
            reason: "Progressing".to_owned(),
            message: "m".to_owned(),
        },
        owner: Owner::plan(Key::new("upgrades", "os")),
        uid: String::new(),
        target: None,
        explanation: json!({"object": "Plan upgrades/os"}),
        at,
    })
}

/// Ids that a sink of CloudEvents was sent.
fn ids(double: &Double) -> Vec<String> {
    let requests = double.requests().into_iter();
    let ids = requests.map(|(_, body)| {
        let event: Value = serde_json::from_str(&body).unwrap();
        event["id"].as_str().unwrap_or_default().to_owned()
    });
    ids.collect()
}

#[tokio::test]
async fn what_fails_is_told_again_with_its_id_before_what_comes_after_it() {
    let answer = |status: u16| Act::Answer(status, String::new());
    let double = Double::start(vec![answer(500), answer(429)]).await;
    let team = Team::start(&json!({"cloudEvents": {"url": double.url("/")}}));
    team.see(
        &[
            one("began", Transition::RunBegan),
            one("over", Transition::Finished),
        ],
        Instant::now(),
    );
    team.until("both are told", |team| team.counted("sent") == 2)
        .await;
    assert_eq!(ids(&double), ["began", "began", "began", "over"]);
    assert_eq!(team.counted("failed"), 2);
    let tally = team.post.outbox().tally.clone();
    assert_eq!(
        (tally.sent, tally.failed, tally.recent),
        (2, 0, vec!["began".to_owned(), "over".to_owned()])
    );
    // Two failures were one episode.
    team.until("it is told that it is over", |team| team.events().len() == 2)
        .await;
    let of = |type_: &str, reason: &str| (type_.to_owned(), reason.to_owned());
    assert_eq!(
        team.events(),
        [of("Warning", "SinkFails"), of("Normal", "SinkReached")]
    );
}

#[tokio::test]
async fn what_is_refused_or_too_old_is_given_up_and_the_rest_is_told() {
    let double = Double::start(vec![Act::Answer(400, String::new())]).await;
    let team = Team::start(&json!({"cloudEvents": {"url": double.url("/")}}));
    let long_ago = Instant::now().checked_sub(2 * WORTH).unwrap();
    let (old, refused, fine) = (
        one("old", Transition::RunBegan),
        one("refused", Transition::WaveDone),
        one("fine", Transition::Finished),
    );
    team.post.outbox().see(std::slice::from_ref(&old), long_ago);
    team.see(&[old, refused, fine], Instant::now());
    team.until("the last is told", |team| team.counted("sent") == 1)
        .await;
    assert_eq!(ids(&double), ["refused", "fine"]);
    assert_eq!((team.counted("expired"), team.counted("refused")), (1, 1));
    assert_eq!(team.post.outbox().tally.failed, 2);
}

#[tokio::test]
async fn a_sink_that_hangs_holds_up_its_own_notifier_alone_and_is_said() {
    let hangs = Double::start(vec![Act::Hang]).await;
    let works = Double::start(vec![]).await;
    let stuck = Team::start(&json!({"cloudEvents": {"url": hangs.url("/")}}));
    let team = Team::start(&json!({"cloudEvents": {"url": works.url("/")}}));
    let all = [one("began", Transition::RunBegan)];
    stuck.see(&all, Instant::now());
    stuck.until("it is asked", |_| !hangs.requests().is_empty()).await;
    // Whoever hands something on does not wait.
    stuck.see(&all, Instant::now());
    team.see(&all, Instant::now());
    team.until("the other is told", |team| team.counted("sent") == 1)
        .await;
    stuck
        .until("it is given up for now", |team| team.counted("failed") == 1)
        .await;
    stuck
        .until("the status says so", |team| team.reason() == "SinkFails")
        .await;
}

#[tokio::test]
async fn a_spec_that_cannot_be_understood_and_a_new_one_are_said_at_once() {
    let double = Double::start(vec![]).await;
    let sink = json!({"url": double.url("/")});
    let team = Team::start(&json!({"cloudEvents": sink, "template": "{who}"}));
    team.see(&[one("began", Transition::RunBegan)], Instant::now());
    team.until("it is wrong", |team| team.reason() == "InvalidField")
        .await;
    assert!(double.requests().is_empty());
    let mut better = team.post.outbox().view.clone();
    (better.generation, better.spec.template) = (2, Some("{name}".to_owned()));
    let at = "2027-01-15T09:00:00Z".parse().unwrap();
    team.post.outbox().edit(&better, at);
    team.post.wake();
    team.until("it is right", |team| team.reason() == "ValidConfig")
        .await;
    team.until("what waited is told", |team| team.counted("sent") == 1)
        .await;
    let (_, body) = &double.requests()[0];
    let event: Value = serde_json::from_str(body).unwrap();
    assert_eq!(event["data"]["text"], "os");
}

#[tokio::test]
async fn an_alert_goes_on_with_its_state_and_is_ended_with_it() {
    let double = Double::start(vec![]).await;
    let team = Team::start(&json!({"alertmanager": {"url": double.url("/")}}));
    let (held, began) = (one("held", Transition::Held), one("began", Transition::RunBegan));
    team.see(&[held, began.clone()], Instant::now());
    team.until("both are told", |team| team.counted("sent") == 2)
        .await;
    team.see(&[began], Instant::now());
    team.until("it is ended", |_| double.requests().len() == 3).await;
    let alerts: Vec<(String, bool)> = double
        .requests()
        .into_iter()
        .map(|(_, body)| {
            let alerts: Value = serde_json::from_str(&body).unwrap();
            let one = &alerts[0];
            assert_eq!(alerts.as_array().map(Vec::len), Some(1));
            let ends: Timestamp = one["endsAt"].as_str().unwrap().parse().unwrap();
            let name = one["labels"]["alertname"].as_str().unwrap().to_owned();
            (name, ends > Timestamp::now() + Duration::from_mins(1))
        })
        .collect();
    // The moment ended five minutes after it happened, or was told.
    let names: Vec<&str> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["NumoRunBegan", "NumoHeld", "NumoHeld"]);
    assert_eq!((alerts[1].1, alerts[2].1), (true, false));
}

#[tokio::test]
async fn a_status_is_written_seldom_however_much_is_told() {
    let double = Double::start(vec![]).await;
    let team = Team::start(&json!({"cloudEvents": {"url": double.url("/")}, "maxPerMinute": 600}));
    let many: Vec<_> = (0..100)
        .map(|number| one(&number.to_string(), Transition::Held))
        .collect();
    team.see(&many, Instant::now());
    team.until("all are told", |team| team.counted("sent") == 100)
        .await;
    let written = team.statuses().len();
    assert!(written < 10, "{written} statuses");
}

#[tokio::test]
async fn an_alertmanager_that_takes_no_silences_takes_alerts_and_is_said() {
    let double = Double::start(vec![Act::Answer(500, String::new())]).await;
    let team = Team::start(&json!({"alertmanager": {"url": double.url("/"), "silences": {}}}));
    team.until("the status says so", |team| team.reason() == "SinkFails")
        .await;
    team.see(&[one("held", Transition::Held)], Instant::now());
    team.until("the alert is told", |team| team.counted("sent") == 1)
        .await;
    // What answers no list of silences is asked again all the same.
    team.until("it is asked again", |team| team.counted("refused") > 0)
        .await;
    let silences = double.requests().into_iter();
    let lists = silences.filter(|(head, _)| head.starts_with("GET /api/v2/silences?"));
    assert!(lists.count() >= 2);
    assert!(
        !team.metrics.text().contains("numo_silences{"),
        "nothing is known"
    );
}

#[tokio::test]
async fn without_silences_in_its_spec_an_alertmanager_is_asked_about_none() {
    let double = Double::start(vec![]).await;
    let team = Team::start(&json!({"alertmanager": {"url": double.url("/")}}));
    team.see(&[one("held", Transition::Held)], Instant::now());
    team.until("the alert is told", |team| team.counted("sent") == 1)
        .await;
    let mut heads = double.requests().into_iter();
    assert!(heads.all(|(head, _)| head.starts_with("POST /api/v2/alerts ")));
}
