use super::*;
use crate::frontends::{mutex_notifier::view, occurrences::Occurrence};
use numo_api::Transition;
use numo_core::{Owner, observed::Key};
use serde_json::{Value, json};

fn notifier(sink: &str, status: &Value) -> NotifierView {
    let mut spec = json!({"transitions": ["Held", "RunBegan", "Finished"]});
    spec[sink] = json!({"url": "https://sink.example"});
    view(
        serde_json::from_value(json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
            "metadata": {"name": "team", "generation": 1, "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": spec, "status": status}))
        .unwrap(),
    )
}

fn one(id: &str, transition: Transition, at: &str) -> Arc<Notification> {
    let at: Timestamp = at.parse().unwrap();
    Arc::new(Notification {
        occurrence: Occurrence {
            id: id.to_owned(),
            transition,
            at: Some(at),
            node: None,
            reason: "Progressing".to_owned(),
            message: String::new(),
        },
        owner: Owner::plan(Key::new("upgrades", "os")),
        uid: String::new(),
        target: None,
        explanation: Value::Null,
        at,
    })
}

/// Ids in the order in which they are told, each delivered at once.
fn told(outbox: &mut Outbox) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((next, _)) = outbox.waiting.front().cloned() {
        all.push(next.occurrence.id.clone());
        outbox.deal(&next);
    }
    all
}

#[test]
fn each_is_told_once_in_order_however_often_it_is_seen() {
    let now = Instant::now();
    let mut outbox = Outbox::new(notifier("cloudEvents", &json!({})));
    let began = one("began", Transition::RunBegan, "2027-01-15T09:00:00Z");
    let held = one("held", Transition::Held, "2027-01-15T09:01:00Z");
    let wave = one("wave", Transition::WaveDone, "2027-01-15T09:01:00Z");
    assert_eq!(outbox.see(std::slice::from_ref(&began), now), (0, true));
    assert_eq!(outbox.see(&[began.clone(), held.clone(), wave], now), (0, true));
    assert_eq!(
        told(&mut outbox),
        ["began", "held"],
        "a wave is none of its business"
    );
    // One that is seen no more and then again is the same.
    assert_eq!(outbox.see(&[], now), (0, false));
    assert_eq!(outbox.see(&[began, held], now), (0, false));
    assert_eq!(outbox.len(), 0);
}

#[test]
fn a_process_that_ends_before_all_was_told_loses_nothing_and_repeats_no_other_id() {
    let now = Instant::now();
    let all = [
        one("began", Transition::RunBegan, "2027-01-15T09:00:00Z"),
        one("held", Transition::Held, "2027-01-15T09:10:00Z"),
        one("over", Transition::Finished, "2027-01-15T09:20:00Z"),
    ];
    // It ends after so many were told, and its status was written then.
    for ended_after in 0..=all.len() {
        let mut before = Outbox::new(notifier("cloudEvents", &json!({})));
        before.see(&all, now);
        let mut ids = Vec::new();
        for _ in 0..ended_after {
            let (next, _) = before.waiting.front().cloned().unwrap();
            ids.push(next.occurrence.id.clone());
            before.deal(&next);
        }
        let recent = &before.tally.recent;
        let status = json!({"dealtWithUntil": before.tally.until.map(|at| at.to_string()), "recent": recent});
        let mut after = Outbox::new(notifier("cloudEvents", &status));
        after.see(&all, now);
        ids.extend(told(&mut after));
        assert_eq!(ids, ["began", "held", "over"], "ended after {ended_after}");
        // The same from the status before: each again, none other.
        let mut stale = Outbox::new(notifier("cloudEvents", &json!({})));
        stale.see(&all, now);
        assert_eq!(told(&mut stale), ["began", "held", "over"]);
    }
}

#[test]
fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
    let now = Instant::now();
    let mut outbox = Outbox::new(notifier("cloudEvents", &json!({})));
    let many: Vec<_> = (0..QUEUE + 10)
        .map(|number| one(&number.to_string(), Transition::Held, "2027-01-15T09:00:00Z"))
        .collect();
    assert_eq!(outbox.see(&many, now), (10, true));
    assert_eq!((outbox.len(), outbox.tally.dropped), (QUEUE, 10));
    assert_eq!(outbox.waiting[0].0.occurrence.id, "10", "the oldest are");
}

#[test]
fn what_waits_is_not_dealt_with_because_something_later_was() {
    let now = Instant::now();
    let mut outbox = Outbox::new(notifier("cloudEvents", &json!({})));
    let first = one("first", Transition::RunBegan, "2027-01-15T09:00:00Z");
    let later = one("later", Transition::Finished, "2027-01-15T12:00:00Z");
    outbox.see(&[first.clone(), later.clone()], now);
    outbox.deal(&later);
    assert_eq!(outbox.tally.until, Some(first.at));
}

#[test]
fn an_alert_lasts_as_long_as_its_state_and_is_ended_once() {
    let now = Instant::now();
    let mut outbox = Outbox::new(notifier("alertmanager", &json!({})));
    let held = one("held", Transition::Held, "2026-01-01T00:00:00Z");
    let began = one("began", Transition::RunBegan, "2027-01-15T09:00:00Z");
    assert_eq!(outbox.see(&[held.clone(), began.clone()], now), (0, true));
    assert_eq!(outbox.len(), 1, "a moment is told once");
    let (firing, over) = outbox.alerts();
    assert_eq!((firing.len(), over.len()), (1, 0));
    assert!(outbox.has_new_alerts());
    assert_eq!(outbox.told(&firing, &over), 1);
    assert!(!outbox.has_new_alerts());
    assert_eq!(outbox.told(&firing, &over), 0, "renewed");
    assert_eq!(outbox.see(std::slice::from_ref(&began), now), (0, true));
    let (firing, over) = outbox.alerts();
    assert_eq!((firing.len(), over.len()), (0, 1));
    outbox.told(&firing, &over);
    assert!(outbox.alerts().1.is_empty());
    assert_eq!(outbox.see(&[began], now), (0, false));
    // One that was never told needs no end.
    outbox.see(&[held], now);
    assert_eq!(outbox.see(&[], now), (0, false));
    assert!(outbox.alerts().1.is_empty());
}

#[test]
fn another_filter_tells_nothing_of_what_was_over_before_it() {
    let now = Instant::now();
    let mut outbox = Outbox::new(notifier("cloudEvents", &json!({})));
    let over = one("wave", Transition::WaveDone, "2027-01-15T09:00:00Z");
    outbox.see(std::slice::from_ref(&over), now);
    let mut wider = notifier("cloudEvents", &json!({}));
    (wider.generation, wider.spec.transitions) = (2, None);
    let at = "2027-01-15T10:00:00Z".parse().unwrap();
    assert!(outbox.edit(&wider, at));
    assert!(!outbox.edit(&wider, at), "once");
    assert_eq!(outbox.see(&[over], now), (0, false));
    let next = one("next", Transition::WaveDone, "2027-01-15T10:00:01Z");
    assert_eq!(outbox.see(&[next], now), (0, true));
}

#[test]
fn nodes_of_owners_that_the_filter_lets_through_are_silenced_where_the_spec_wants_it() {
    let plan = Owner::plan(Key::new("upgrades", "os"));
    let all = Turns::from([
        ("a".to_owned(), plan.clone()),
        ("b".to_owned(), Owner::run(Key::new("ops", "upgrade"))),
    ]);
    let silences = json!({"url": "https://sink.example", "silences": {}});
    for (spec, wanted) in [
        (json!({"alertmanager": silences}), vec!["a", "b"]),
        (
            json!({"alertmanager": silences, "ownerKinds": ["Plan"]}),
            vec!["a"],
        ),
        (
            json!({"alertmanager": silences, "namespaces": ["ops"], "transitions": ["Held"]}),
            vec!["b"],
        ),
        (
            json!({"alertmanager": {"url": "https://sink.example"}}),
            Vec::new(),
        ),
        (json!({"alertmanager": silences, "template": "{who}"}), Vec::new()),
    ] {
        let mut view = notifier("alertmanager", &json!({}));
        view.spec = serde_json::from_value(spec.clone()).unwrap();
        let mut outbox = Outbox::new(view);
        assert_eq!(outbox.see_turns(&all), !wanted.is_empty(), "{spec}");
        assert!(outbox.turns.keys().eq(wanted.iter()), "{spec}");
        assert!(!outbox.see_turns(&all), "{spec}: once");
    }
}

/// What an hour of a sink that answers 500 came to, and what was told after it.
#[derive(Default)]
struct Hour {
    tries: usize,
    longest_wait: Duration,
    most: usize,
    dropped: u64,
    expired: Vec<String>,
    told: Vec<String>,
}

/// A clock of seconds: something new is seen every `every` seconds for an hour in which the sink answers 500, then it takes all.
fn hour(every: u64, per_minute: u32) -> (Hour, Outbox) {
    let mut notifier = notifier("cloudEvents", &json!({}));
    notifier.spec.max_per_minute = i32::try_from(per_minute).ok();
    let mut outbox = Outbox::new(notifier);
    let (mut pace, begun, mut hour) = (Pace::default(), Instant::now(), Hour::default());
    let (mut seen, mut last_try) = (Vec::new(), None);
    let at: Timestamp = "2027-01-15T09:00:00Z".parse().unwrap();
    for second in 0..5 * 3600 {
        let (now, is_down) = (begun + Duration::from_secs(second), second < 3600);
        if is_down && second % every == every / 2 {
            let happened = at + Duration::from_secs(second);
            let id = format!("{:04}", seen.len());
            seen.push(one(&id, Transition::RunBegan, &happened.to_string()));
            hour.dropped += outbox.see(&seen, now).0;
        }
        hour.most = hour.most.max(outbox.len());
        match outbox.due(&pace, now) {
            Due::Nothing => {}
            Due::Expired(one) => {
                hour.expired.push(one.occurrence.id.clone());
                outbox.give_up(&one);
            }
            Due::Now(_) if is_down => {
                hour.tries += 1;
                let waited = last_try.map_or(Duration::ZERO, |last| now - last);
                hour.longest_wait = hour.longest_wait.max(waited);
                last_try = Some(now);
                pace.ask(now);
                pace.failed(now, None);
            }
            Due::Now(one) => {
                pace.ask(now);
                pace.took();
                hour.told.push(one.occurrence.id.clone());
                outbox.send(&one, at);
            }
        }
    }
    (hour, outbox)
}

#[test]
fn a_sink_that_answers_500_for_an_hour_is_asked_seldom_and_loses_what_is_said_and_no_more() {
    for (every, per_minute, seen, dropped) in [(20, 30, 180, 0), (20, 1, 180, 0), (5, 30, 720, 464)] {
        let (hour, outbox) = hour(every, per_minute);
        let words = format!("every {every} s, {per_minute} a minute");
        assert!((60..=70).contains(&hour.tries), "{words}: {} tries", hour.tries);
        assert!(
            hour.longest_wait <= Duration::from_mins(1),
            "{words}: {:?}",
            hour.longest_wait
        );
        assert!(hour.most <= QUEUE, "{words}: {} wait", hour.most);
        assert_eq!(hour.dropped, dropped, "{words}");
        // Each that was seen is told once, in order, or counted among the lost.
        let tally = &outbox.tally;
        assert!(hour.told.is_sorted(), "{words}");
        assert_eq!(tally.sent, i64::try_from(hour.told.len()).unwrap(), "{words}");
        let lost = u64::try_from(tally.lost()).unwrap();
        assert_eq!(lost, dropped + hour.expired.len() as u64, "{words}");
        assert_eq!(hour.told.len() as u64 + lost, seen, "{words}");
        assert_eq!(outbox.len(), 0, "{words}");
        // What waited less than two hours is told; one a minute is too slow for the rest.
        assert!(
            hour.expired.is_empty() || per_minute == 1,
            "{words}: {:?}",
            hour.expired
        );
    }
}
