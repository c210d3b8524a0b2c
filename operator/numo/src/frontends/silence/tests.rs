use super::*;
use crate::frontends::sample;
use numo_api::marks;
use numo_core::observed::{NodeView, Pairs};
use std::collections::BTreeMap;

const UID: &str = "0a1b";

fn now() -> Timestamp {
    "2027-01-15T12:00:00Z".parse().unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "a table of literals")]
fn terms(spec: Value) -> Result<Terms, String> {
    Terms::parse(&serde_json::from_value(spec).unwrap())
}

fn plan_of(name: &str) -> Owner {
    Owner::plan(Key::new("upgrades", name))
}

fn of(nodes: &[&str]) -> Turns {
    nodes
        .iter()
        .map(|node| ((*node).to_owned(), plan_of("os")))
        .collect()
}

/// A silence of this node as numo makes it, and as Alertmanager lists it; it ends so many seconds from now.
fn listed(terms: &Terms, id: &str, node: &str, ends: i64) -> Listed {
    let turns = of(&[node]);
    let wanted = Wanted {
        terms,
        uid: UID,
        turns: &turns,
    };
    let mut body = wanted.body(node, &plan_of("os"), None, now());
    body["id"] = json!(id);
    body["status"] = json!({"state": "active"});
    body["endsAt"] = json!((now() + SignedDuration::from_secs(ends)).to_string());
    serde_json::from_value(body).unwrap()
}

/// What is to be done, a line each.
fn done(terms: &Terms, nodes: &[&str], found: &[Listed]) -> (Vec<String>, Plan) {
    let turns = of(nodes);
    let wanted = Wanted {
        terms,
        uid: UID,
        turns: &turns,
    };
    let plan = wanted.plan(found, now());
    let lines = plan.deeds.iter().map(|deed| match deed {
        Deed::Make(body) => format!("make {}", body["matchers"][0]["value"].as_str().unwrap()),
        Deed::Renew(body) => format!("renew {}", body["id"].as_str().unwrap()),
        Deed::End(id) => format!("end {id}"),
    });
    (lines.collect(), plan)
}

#[test]
fn what_is_found_is_made_into_what_is_wanted() {
    let usual = terms(json!({})).unwrap();
    let other = terms(json!({"matchers": [{"name": "cluster", "value": "b"}]})).unwrap();
    let one = |id: &str, node: &str, ends: i64| listed(&usual, id, node, ends);
    let edited = |id: &str, edit: &dyn Fn(&mut Listed)| {
        let mut one = one(id, "a", 200);
        edit(&mut one);
        one
    };
    let stranger = |id: &str| edited(id, &|one| one.created_by = "ada".to_owned());
    let of_another = |id: &str| edited(id, &|one| one.comment = format!("x {}", marker("ffff")));
    let expired = |id: &str| edited(id, &|one| one.status.state = "expired".to_owned());
    let odd = edited("../alerts", &|_| {});
    let wider = edited("w", &|one| {
        one.matchers.pop();
    });
    let turned = edited("t", &|one| one.matchers.reverse());
    let twins = [one("old", "a", 160), one("new", "a", 290)];
    for (what, nodes, found, wanted, kept, renew) in [
        ("nothing", &[][..], vec![], &[][..], 0, None),
        ("new ones", &["a", "b"], vec![], &["make a", "make b"], 0, None),
        (
            "one that goes on",
            &["a"],
            vec![one("x", "a", 200)],
            &[],
            1,
            Some(50),
        ),
        (
            "one to renew",
            &["a"],
            vec![one("x", "a", 150)],
            &["renew x"],
            1,
            None,
        ),
        (
            "one that lapses",
            &["a"],
            vec![one("x", "a", -1)],
            &["renew x"],
            1,
            None,
        ),
        (
            "one too long",
            &["a"],
            vec![one("x", "a", 331)],
            &["renew x"],
            1,
            None,
        ),
        (
            "one that is over",
            &["a"],
            vec![expired("x")],
            &["make a"],
            0,
            None,
        ),
        (
            "a turn that ended",
            &[],
            vec![one("x", "a", 200)],
            &["end x"],
            0,
            None,
        ),
        (
            "another node",
            &["b"],
            vec![one("x", "a", 200)],
            &["make b", "end x"],
            0,
            None,
        ),
        ("twins", &["a"], twins.to_vec(), &["end old"], 1, Some(140)),
        ("a stranger's", &[], vec![stranger("x")], &[], 0, None),
        (
            "a stranger's of a node",
            &["a"],
            vec![stranger("x")],
            &["make a"],
            0,
            None,
        ),
        (
            "another notifier's",
            &["a"],
            vec![of_another("x")],
            &["make a"],
            0,
            None,
        ),
        ("an id that is a path", &[], vec![odd], &[], 0, None),
        ("a wider one", &["a"], vec![wider], &["make a", "end w"], 0, None),
        ("another order", &["a"], vec![turned], &[], 1, Some(50)),
        (
            "other terms",
            &["a"],
            vec![listed(&other, "x", "a", 200)],
            &["make a", "end x"],
            0,
            None,
        ),
        (
            "renewals before new ones before ends",
            &["a", "b"],
            vec![one("x", "c", 200), one("y", "b", 9)],
            &["renew y", "make a", "end x"],
            1,
            None,
        ),
    ] {
        let (lines, plan) = done(&usual, nodes, &found);
        assert_eq!(lines, wanted, "{what}");
        assert_eq!(plan.kept, kept, "{what}");
        let renew = renew.map(|seconds| now() + SignedDuration::from_secs(seconds));
        assert_eq!(plan.renew, renew, "{what}");
    }
}

#[test]
fn a_silence_is_of_one_node_says_whose_and_never_silences_numo() {
    let terms = terms(json!({"nodeLabel": "instance", "durationSeconds": 120,
        "matchers": [{"name": "cluster", "value": "prod"}]}))
    .unwrap();
    let turns = Turns::from([("a".to_owned(), plan_of("os"))]);
    let wanted = Wanted {
        terms: &terms,
        uid: UID,
        turns: &turns,
    };
    let Deed::Make(body) = &wanted.plan(&[], now()).deeds[0] else {
        panic!("it is new");
    };
    assert_eq!(
        *body,
        json!({
            "matchers": [
                {"name": "instance", "value": "a", "isRegex": false, "isEqual": true},
                {"name": "cluster", "value": "prod", "isRegex": false, "isEqual": true},
                {"name": "alertname", "value": "Numo.*", "isRegex": true, "isEqual": false},
            ],
            "startsAt": "2027-01-15T11:58:00Z",
            "endsAt": "2027-01-15T12:02:00Z",
            "createdBy": "numo",
            "comment": "Plan upgrades/os has taken Node a out of service. numo renews this silence, and ends it with the turn of the \
                node. [MutexNotifier 0a1b]",
        })
    );
    // The same silence goes on: its beginning and its matchers are as they were.
    let found = listed(&terms, "x", "a", 30);
    let plan = wanted.plan(std::slice::from_ref(&found), now());
    let Deed::Renew(again) = &plan.deeds[0] else {
        panic!("it is renewed");
    };
    assert_eq!(again["id"], "x");
    assert_eq!(again["startsAt"], found.starts_at.to_string());
    assert_eq!(again["matchers"], body["matchers"]);
    assert_eq!(again["endsAt"], body["endsAt"]);
    assert_eq!(filter(), r#"alertname!~"Numo.*""#);
}

#[test]
fn no_more_than_so_many_nodes_are_silenced() {
    let terms = terms(json!({})).unwrap();
    let nodes: Vec<String> = (0..SILENCES + 3).map(|number| format!("n{number:04}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let turns = of(&nodes);
    let wanted = Wanted {
        terms: &terms,
        uid: UID,
        turns: &turns,
    };
    assert_eq!(wanted.over(), 3);
    let last = nodes[SILENCES];
    let (lines, _) = done(&terms, &nodes, &[listed(&terms, "x", last, 200)]);
    assert_eq!(lines.len(), SILENCES + 1);
    assert_eq!(lines.last().map(String::as_str), Some("end x"));
}

#[test]
fn a_spec_is_refused_as_the_schema_refuses_it() {
    let at = "spec.alertmanager.silences";
    for (spec, wanted) in [
        (json!({}), ""),
        (
            json!({"nodeLabel": "instance", "durationSeconds": 3600, "matchers": [{"name": "node", "value": "x"}]}),
            "",
        ),
        (json!({"durationSeconds": 119}), "durationSeconds: found 119"),
        (json!({"durationSeconds": 3601}), "durationSeconds: found 3601"),
        (json!({"nodeLabel": "the node"}), "found label \"the node\""),
        (json!({"nodeLabel": ""}), "found label \"\""),
        (json!({"nodeLabel": "alertname"}), "found alertname"),
        (
            json!({"matchers": [{"name": "alertname", "value": "x"}]}),
            "found alertname",
        ),
        (
            json!({"matchers": [{"name": "node", "value": "x"}]}),
            "found alertname, or nodeLabel",
        ),
        (
            json!({"matchers": [{"name": "1", "value": "x"}]}),
            "found label \"1\"",
        ),
    ] {
        match terms(spec.clone()) {
            Ok(_) => assert_eq!(wanted, "", "{spec}"),
            Err(said) => {
                assert!(!wanted.is_empty(), "{spec}: {said}");
                assert!(said.starts_with(at) && said.contains(wanted), "{spec}: {said}");
            }
        }
    }
}

fn node(name: &str, cordoned: bool) -> NodeView {
    let mark = json!({"owner": "uid", "prior": false}).to_string();
    let mark = cordoned.then(|| (marks::CORDONED_BY.to_owned(), mark));
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        created: now(),
        labels: Pairs::default(),
        annotations: mark.into_iter().collect(),
        has_annotations: cordoned,
        unschedulable: cordoned,
        taints: Value::Null,
        ready: true,
        not_ready_since: None,
        leaving: None,
        boot_id: String::new(),
        kubelet_version: String::new(),
        etcd_voter: None,
    }
}

/// A NodeChange of the Plan for node `a`, in this step of its second attempt.
fn change(step: Option<Step>, entries: &[(i32, Step)]) -> ChangeView {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(attempt, step)| json!({"at": "2027-01-15T11:00:00Z", "step": step, "attempt": attempt}))
        .collect();
    let status = json!({"step": step, "attempt": 2, "entries": entries});
    let turn = (Key::new("numo", "a"), "a", "r");
    sample::change(&plan_of("os"), turn, now(), status)
}

#[test]
fn a_node_is_silenced_from_its_first_disruption_to_the_end_of_its_turn() {
    for (step, entries, cordoned, wanted) in [
        (None, &[][..], false, false),
        (Some(Step::Selected), &[], false, false),
        (Some(Step::Admitted), &[], false, false),
        (Some(Step::PreRules), &[(2, Step::Admitted)], false, false),
        (Some(Step::Cordoned), &[], false, true),
        (Some(Step::Drained), &[], false, true),
        (Some(Step::PreRelease), &[(2, Step::PreRules)], false, false),
        (
            Some(Step::PreRelease),
            &[(2, Step::Cordoned), (2, Step::Drained)],
            false,
            true,
        ),
        (Some(Step::Released), &[], false, true),
        (Some(Step::PostRules), &[], false, true),
        (Some(Step::Soaked), &[], false, true),
        (Some(Step::Done), &[(2, Step::Released)], false, false),
        (Some(Step::Failed), &[(2, Step::Released)], true, false),
        (Some(Step::Skipped), &[], false, false),
        // A node is held before anything has happened to it, or after.
        (Some(Step::Held), &[(2, Step::PreRules)], false, false),
        (
            Some(Step::Held),
            &[(2, Step::PreRules), (2, Step::Released)],
            false,
            true,
        ),
        (
            Some(Step::Held),
            &[(1, Step::Cordoned), (2, Step::PreRules)],
            false,
            false,
        ),
        // The next attempt of one that stayed cordoned.
        (
            Some(Step::PreRules),
            &[(1, Step::Cordoned), (2, Step::PreRules)],
            true,
            true,
        ),
    ] {
        let mut observed = Observed::default();
        observed.settings.namespace = "numo".to_owned();
        observed.nodes.insert("a".to_owned(), node("a", cordoned));
        let change = change(step, entries);
        observed.changes.insert(change.key.clone(), change.clone());
        let wanted = if wanted { of(&["a"]) } else { Turns::new() };
        assert_eq!(turns(&observed), wanted, "{step:?} {entries:?} {cordoned}");

        // Whoever may write NodeChanges somewhere silences nothing, and a node that stays in service has no silence.
        let mut elsewhere = change.clone();
        elsewhere.key.namespace = "tenant".to_owned();
        observed.changes = BTreeMap::from([(elsewhere.key.clone(), elsewhere)]);
        assert_eq!(turns(&observed), Turns::new());
        let mut in_service = change;
        in_service.spec.in_service = true;
        observed.changes = BTreeMap::from([(in_service.key.clone(), in_service)]);
        assert_eq!(turns(&observed), Turns::new());
    }
}
