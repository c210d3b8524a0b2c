//! Cases of `node-requirement`.

use node_requirement::{describe, evaluate, parse};
use numo_rule_sdk::{
    Verdict,
    fake::{check_rule, input, line},
};

const NODE: &str = r#"{"metadata": {"name": "w1", "generation": 7,
    "labels": {"zone": "a", "empty": "", "cores": "16", "text": "many", "a.b/c": "d"},
    "annotations": {"note": "free text, any length"}},
  "spec": {"unschedulable": true, "taints": [{"key": "t"}], "none": null},
  "status": {"nodeInfo": {"architecture": "amd64"}, "capacity": {"example.com/gpu": "4"},
    "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}}"#;

fn ask(phase: &str, config: &str) -> String {
    let mut input = input(phase, config);
    if let Some(node) = &mut input.node {
        node.object_json = NODE.into();
    }
    line(&evaluate(&input))
}

fn met(list: &str, entry: &str) -> bool {
    let answer = ask("pre", &format!(r#"{{"{list}":[{{{entry}}}]}}"#));
    let is_met = answer == "pass RequirementsMet";
    assert!(
        is_met || answer.starts_with("wait RequirementsUnmet "),
        "{list} {entry}: {answer}"
    );
    is_met
}

#[test]
fn labels_annotations_conditions_and_fields_are_compared() {
    for (list, entry, expected) in [
        (
            "labels",
            r#""key":"zone","operator":"In","values":["a","b"]"#,
            true,
        ),
        ("labels", r#""key":"zone","operator":"In","values":["b"]"#, false),
        ("labels", r#""key":"gone","operator":"In","values":["a"]"#, false),
        (
            "labels",
            r#""key":"gone","operator":"NotIn","values":["a"]"#,
            true,
        ),
        (
            "labels",
            r#""key":"zone","operator":"NotIn","values":["a"]"#,
            false,
        ),
        ("labels", r#""key":"empty","operator":"Exists""#, true),
        ("labels", r#""key":"empty","operator":"In","values":[""]"#, true),
        ("labels", r#""key":"empty","operator":"DoesNotExist""#, false),
        (
            "labels",
            r#""key":"gone","operator":"DoesNotExist","values":[]"#,
            true,
        ),
        ("labels", r#""key":"a.b/c","operator":"Exists""#, true),
        ("labels", r#""key":"cores","operator":"Gt","values":["15"]"#, true),
        (
            "labels",
            r#""key":"cores","operator":"Gt","values":["16"]"#,
            false,
        ),
        ("labels", r#""key":"cores","operator":"Lt","values":["17"]"#, true),
        ("labels", r#""key":"text","operator":"Gt","values":["0"]"#, false),
        ("labels", r#""key":"gone","operator":"Lt","values":["0"]"#, false),
        ("annotations", r#""key":"note","operator":"Exists""#, true),
        ("annotations", r#""key":"zone","operator":"Exists""#, false),
        (
            "conditions",
            r#""key":"Ready","operator":"In","values":["True"]"#,
            true,
        ),
        (
            "conditions",
            r#""key":"MemoryPressure","operator":"NotIn","values":["True"]"#,
            true,
        ),
        (
            "conditions",
            r#""key":"KernelDeadlock","operator":"NotIn","values":["True"]"#,
            true,
        ),
        (
            "conditions",
            r#""key":"KernelDeadlock","operator":"In","values":["False"]"#,
            false,
        ),
        (
            "fields",
            r#""key":"/status/nodeInfo/architecture","operator":"In","values":["amd64"]"#,
            true,
        ),
        (
            "fields",
            r#""key":"/status/capacity/example.com~1gpu","operator":"Gt","values":["3"]"#,
            true,
        ),
        (
            "fields",
            r#""key":"/spec/unschedulable","operator":"In","values":["true"]"#,
            true,
        ),
        (
            "fields",
            r#""key":"/metadata/generation","operator":"Gt","values":["6"]"#,
            true,
        ),
        ("fields", r#""key":"/spec/taints","operator":"Exists""#, true),
        (
            "fields",
            r#""key":"/spec/taints","operator":"In","values":["[]",""]"#,
            false,
        ),
        (
            "fields",
            r#""key":"/spec/taints/0/key","operator":"In","values":["t"]"#,
            true,
        ),
        (
            "fields",
            r#""key":"/spec/taints/1","operator":"DoesNotExist""#,
            true,
        ),
        ("fields", r#""key":"/spec/none","operator":"DoesNotExist""#, true),
    ] {
        assert_eq!(met(list, entry), expected, "{list} {entry}");
    }
}

#[test]
fn all_requirements_must_be_met_and_each_unmet_one_is_named() {
    let config = r#"{"labels":[{"key":"zone","operator":"In","values":["b"]},{"key":"cores","operator":"Exists"}],
        "annotations":[{"key":"x","operator":"Exists"}],"unmet":"Block"}"#;
    assert_eq!(
        ask("post", config),
        "block RequirementsUnmet LabelUnmet AnnotationUnmet"
    );
    let mut input = input("pre", config);
    if let Some(node) = &mut input.node {
        node.object_json = NODE.into();
    }
    let Ok(Verdict::Block(report)) = evaluate(&input) else {
        panic!("no block")
    };
    assert_eq!(
        report.summary,
        "w1 misses 2 of 3 requirements: label zone is \"a\", wanted In b"
    );
}

#[test]
fn a_node_without_metadata_has_no_labels() {
    let mut input = input("pre", r#"{"labels":[{"key":"a","operator":"DoesNotExist"}]}"#);
    assert_eq!(line(&evaluate(&input)), "pass RequirementsMet");
    input.node = None;
    assert!(line(&evaluate(&input)).starts_with("failed:"));
}

#[test]
fn unknown_phases_and_broken_nodes_are_errors() {
    assert!(ask("pre-run", "{}").starts_with("failed: unknown phase"));
    assert_eq!(ask("pre", "{}"), "invalid config ");
    let mut input = input("pre", r#"{"labels":[{"key":"a","operator":"DoesNotExist"}]}"#);
    if let Some(node) = &mut input.node {
        node.object_json = "{".into();
    }
    assert!(line(&evaluate(&input)).starts_with("failed:"));
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-node-requirement.yaml"),
        &[
            r#"{"labels":[{"key":"a","operator":"Exists"}],"retryAfterSeconds":60}"#,
            r#"{"fields":[{"key":"/a","operator":"Gt","values":["-1"]}],"unmet":"Block"}"#,
            r#"{"conditions":[{"key":"Ready","operator":"NotIn","values":["Unknown"]}]}"#,
        ],
        &[
            ("{}", ""),
            (r#"{"labels":{}}"#, "/labels"),
            (r#"{"labels":[{"operator":"Exists"}]}"#, "/labels/0/key"),
            (r#"{"labels":[{"key":"a"}]}"#, "/labels/0/operator"),
            (
                r#"{"labels":[{"key":"a","operator":"Equals","values":["b"]}]}"#,
                "/labels/0/operator",
            ),
            (r#"{"labels":[{"key":"a","operator":"In"}]}"#, "/labels/0/values"),
            (
                r#"{"labels":[{"key":"a","operator":"Exists","values":["b"]}]}"#,
                "/labels/0/values",
            ),
            (
                r#"{"labels":[{"key":"a","operator":"Gt","values":["1","2"]}]}"#,
                "/labels/0/values",
            ),
            (
                r#"{"labels":[{"key":"a","operator":"Lt","values":["x"]}]}"#,
                "/labels/0/values",
            ),
            (
                r#"{"labels":[{"key":"a","operator":"In","values":[1]}]}"#,
                "/labels/0/values/0",
            ),
            (
                r#"{"labels":[{"key":"a b","operator":"Exists"}]}"#,
                "/labels/0/key",
            ),
            (
                r#"{"labels":[{"key":"A.b/c","operator":"Exists"}]}"#,
                "/labels/0/key",
            ),
            (
                r#"{"annotations":[{"key":"/x","operator":"Exists"}]}"#,
                "/annotations/0/key",
            ),
            (
                r#"{"fields":[{"key":"status","operator":"Exists"}]}"#,
                "/fields/0/key",
            ),
            (
                r#"{"fields":[{"key":"/a~2","operator":"Exists"}]}"#,
                "/fields/0/key",
            ),
            (
                r#"{"labels":[{"key":"a","operator":"Exists","value":"b"}]}"#,
                "/labels/0/value",
            ),
        ],
    );
}
