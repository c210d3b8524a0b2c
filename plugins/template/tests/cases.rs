//! Cases of the rule, run natively.

use my_rule::{
    bindings::{
        exports::numo::rule::evaluation::{Input, Node, Verdict},
        numo::host::types::ObjectRef,
    },
    evaluate, parse,
};

fn input(phase: &str, object: &str) -> Input {
    Input {
        run: "run".into(),
        owner: ObjectRef {
            api_version: "v1".into(),
            kind: "Owner".into(),
            namespace: None,
            name: "o".into(),
        },
        phase: phase.into(),
        attempt: 1,
        node: Some(Node {
            name: "w1".into(),
            uid: "u".into(),
            object_json: object.into(),
        }),
        pool: None,
        from_version: None,
        to_version: None,
        config_json: "{}".into(),
        attributes: Vec::new(),
    }
}

#[test]
fn a_held_node_waits() {
    let held = evaluate(&input(
        "pre",
        r#"{"metadata":{"annotations":{"example.com/hold":"disk swap"}}}"#,
    ));
    let Ok(Verdict::Wait(wait)) = held else {
        panic!("no wait")
    };
    assert_eq!(wait.report.reason, "Held");
    assert_eq!(wait.report.summary, "w1 is held: \"disk swap\"");
}

#[test]
fn another_node_passes() {
    assert!(matches!(
        evaluate(&input("pre", r#"{"metadata":{}}"#)),
        Ok(Verdict::Pass(_))
    ));
}

#[test]
fn what_cannot_be_told_is_an_error() {
    assert!(evaluate(&input("post", "{}")).is_err());
    assert!(evaluate(&input("pre", "{")).is_err());
}

#[test]
fn every_fault_of_the_configuration_has_its_pointer() {
    let pointers = |json: &str| {
        let problems = parse(json).err().unwrap_or_default();
        problems
            .into_iter()
            .map(|problem| problem.pointer)
            .collect::<Vec<_>>()
    };
    assert!(pointers("{}").is_empty());
    assert!(pointers(r#"{"annotation": "example.com/a"}"#).is_empty());
    assert_eq!(pointers("[]"), [""]);
    assert_eq!(
        pointers(r#"{"annotation": "", "a/b": 1}"#),
        ["/a~1b", "/annotation"]
    );
}
