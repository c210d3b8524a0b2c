use super::*;
use crate::{
    frontends::mutex_notifier::view,
    shell::{
        client::answering,
        notify::double::{Act, Double, reach},
    },
};
use numo_core::{Owner, observed::Key};
use serde_json::{Value, json};

/// A notifier with silences, and its Alertmanager.
struct Bench {
    double: Double,
    sink: Sink,
    spec: Understood,
    silencer: Silencer,
    fence: Fence,
}

impl Bench {
    async fn start(acts: Vec<Act>) -> Self {
        let double = Double::start(acts).await;
        let notifier = json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
            "metadata": {"name": "team", "uid": "u"},
            "spec": {"alertmanager": {"url": double.url("/am/"), "silences": {}}}});
        let view = view(serde_json::from_value(notifier).unwrap());
        let spec = view.understood().unwrap();
        let reach = reach(answering(|_| (404, String::new())));
        let sink = reach.sink(&view, &spec, &mut None).await.unwrap();
        Self {
            double,
            sink,
            spec,
            silencer: Silencer::default(),
            fence: Fence::new(),
        }
    }

    async fn round(&mut self, nodes: &[&str]) -> Result<(), Answered> {
        let terms = self.silencer.terms(&self.spec).unwrap();
        let whose = Whose {
            uid: "u",
            fence: &self.fence,
        };
        let now = "2027-01-15T12:00:00Z".parse().unwrap();
        self.silencer
            .round(&self.sink, (&terms, turns(nodes)), whose, now)
            .await
    }

    /// Method and path of what was asked, in order.
    fn asked(&self) -> Vec<String> {
        let all = self.double.requests().into_iter();
        all.map(|(head, _)| head.split(" HTTP/").next().unwrap_or_default().to_owned())
            .collect()
    }

    /// Reason and message of the notifier, while its alerts are taken.
    fn judged(&self) -> (bool, String) {
        let fine = Verdict {
            ready: true,
            reason: Reason::ValidConfig,
            message: "Fine.".to_owned(),
        };
        let judged = self.silencer.judged(&fine);
        (
            judged.ready,
            format!("{}: {}", judged.reason.name(), judged.message),
        )
    }
}

fn turns(nodes: &[&str]) -> Arc<Turns> {
    let owner = Owner::plan(Key::new("upgrades", "os"));
    let nodes = nodes.iter().map(|node| ((*node).to_owned(), owner.clone()));
    Arc::new(nodes.collect())
}

/// What an Alertmanager lists: silences as they were made, under these ids.
fn list(made: &[(&str, &str)]) -> Act {
    let all: Vec<Value> = made
        .iter()
        .map(|(id, body)| {
            let mut one: Value = serde_json::from_str(body).unwrap();
            one["id"] = json!(id);
            one["status"] = json!({"state": "active"});
            one
        })
        .collect();
    Act::Body(json!(all).to_string())
}

const LIST: &str = "GET /am/api/v2/silences?filter=alertname%21%7E%22Numo.*%22";

#[tokio::test]
async fn a_silence_is_made_once_and_ended_with_its_turn() {
    let mut bench = Bench::start(vec![list(&[])]).await;
    assert!(
        bench.silencer.next(&turns(&[])).is_some(),
        "what is there is not known"
    );
    bench.round(&["a"]).await.unwrap();
    assert_eq!(bench.asked(), [LIST, "POST /am/api/v2/silences"]);
    assert_eq!(bench.silencer.kept(), Some(1));
    assert_eq!(bench.judged(), (true, "ValidConfig: Fine.".to_owned()));
    let next = bench.silencer.next(&turns(&["a"])).unwrap();
    let wait = next.duration_since(Instant::now()).as_secs();
    assert!(
        (140..=150).contains(&wait),
        "it is renewed at half of its time: {wait}"
    );
    let soon = bench.silencer.next(&turns(&[])).unwrap();
    assert!(soon < next, "another turn is news");

    // The next process, or the next round of this one, finds it.
    let body = bench.double.requests()[1].1.clone();
    let mut after = Bench::start(vec![list(&[("s-1", &body)]), list(&[("s-1", &body)])]).await;
    after.round(&["a"]).await.unwrap();
    assert_eq!(
        (after.asked(), after.silencer.kept()),
        (vec![LIST.to_owned()], Some(1))
    );
    after.round(&[]).await.unwrap();
    assert_eq!(after.asked()[1..], [LIST, "DELETE /am/api/v2/silence/s-1"]);
    assert_eq!(after.silencer.kept(), Some(0));
    assert_eq!(after.silencer.next(&turns(&[])), None, "nothing is left to do");
}

#[tokio::test]
async fn what_an_alertmanager_does_not_take_is_said_and_tried_again() {
    let answer = |status: u16| Act::Answer(status, String::new());
    let fine = || list(&[]);
    for (acts, words) in [
        (vec![answer(500)], "SinkFails: silences: the sink answers 500"),
        (vec![answer(404)], "SinkRefuses: silences: the sink answers 404"),
        (
            vec![Act::Body("<html>".to_owned())],
            "SinkRefuses: silences: the sink answers something else than a list of silences",
        ),
        (
            vec![Act::Flood(200)],
            "SinkFails: silences: the answer has more than 8388608 bytes",
        ),
        (
            vec![fine(), answer(503)],
            "SinkFails: silences: the sink answers 503",
        ),
        (
            vec![fine(), answer(400)],
            "SinkRefuses: silences: the sink answers 400",
        ),
    ] {
        let mut bench = Bench::start(acts.clone()).await;
        bench.round(&["a"]).await.unwrap_err();
        assert_eq!(bench.judged(), (false, words.to_owned()));
        let next = bench.silencer.next(&turns(&["a"])).unwrap();
        assert!(next > Instant::now(), "{acts:?}: not at once");
        assert!(
            next < Instant::now() + Duration::from_secs(5),
            "{acts:?}: but soon"
        );
    }
    // What is refused holds up nothing else; one that is gone has ended.
    let mut bench = Bench::start(vec![fine(), answer(400)]).await;
    bench.round(&["a", "b"]).await.unwrap_err();
    assert_eq!((bench.asked().len(), bench.silencer.kept()), (3, Some(1)));
    let body = bench.double.requests()[1].1.clone();
    let mut bench = Bench::start(vec![list(&[("s-1", &body)]), answer(404)]).await;
    bench.round(&[]).await.unwrap();
}

#[tokio::test]
async fn notifications_go_between_rounds_and_who_does_not_lead_writes_nothing() {
    let nodes: Vec<String> = (0..=AT_ONCE).map(|number| format!("n{number}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut bench = Bench::start(vec![list(&[])]).await;
    bench.round(&nodes).await.unwrap();
    assert_eq!(bench.silencer.kept(), Some(AT_ONCE));
    let next = bench.silencer.next(&turns(&nodes)).unwrap();
    assert!(next <= Instant::now() + PAUSE, "the rest follows at once");

    let mut bench = Bench::start(vec![list(&[])]).await;
    bench.fence = Fence::lapsed();
    bench.round(&["a"]).await.unwrap();
    assert_eq!(bench.asked(), [LIST]);
}

#[tokio::test]
async fn a_spec_that_wants_none_any_more_has_those_ended_once() {
    let mut bench = Bench::start(vec![list(&[])]).await;
    bench.round(&["a"]).await.unwrap();
    bench.spec.silences = None;
    assert!(bench.silencer.terms(&bench.spec).is_some());
    bench.spec.sink = SinkKind::Slack;
    assert!(
        bench.silencer.terms(&bench.spec).is_none(),
        "nobody else is asked"
    );
    bench.spec.sink = SinkKind::Alertmanager;
    assert!(bench.silencer.terms(&bench.spec).is_none());
    assert_eq!(bench.silencer.kept(), None);
}
