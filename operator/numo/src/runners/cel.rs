//! The cel runner: from a MutexRule's expressions and what they see to an answer. It reads and writes nothing.

#[cfg(feature = "operator")]
mod interpret;
mod reply;

#[cfg(feature = "operator")]
pub use interpret::{check, evaluate};
pub use reply::{Question, Reply, Words};

use super::{facts, selector, wasm::Fault};
use numo_api::{CelRule, Reason};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use numo_plugin::{check_kind, check_name};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What a reply means for the node.
pub fn answer(reply: Reply) -> RuleAnswer {
    match reply {
        Reply::Pass(words) => RuleAnswer::Pass(words.into()),
        Reply::Wait(words, seconds) => RuleAnswer::Wait(words.into(), seconds),
        Reply::Block(words) => RuleAnswer::Block(words.into()),
        Reply::Failed(message) => RuleAnswer::NoVerdict(Reason::RuleError, message),
    }
}

/// What is wrong with a selector, if anything.
type Wrong = fn(&str) -> Option<String>;

/// What is wrong with a rule without looking into its expressions.
pub fn shape(rule: &CelRule) -> Result<(), Fault> {
    let invalid = |message: String| Err((Reason::InvalidConfig, format!("spec.cel.{message}")));
    if rule.validations.is_empty() {
        return invalid("validations: found none, wanted one at least".to_owned());
    }
    let mut names = BTreeSet::new();
    for (index, objects) in rule.objects.iter().flatten().enumerate() {
        let namespace = objects
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let name = objects.object_name.as_deref().filter(|name| !name.is_empty());
        let place = check_kind(&objects.api_version, &objects.kind)
            .and_then(|()| namespace.map_or(Ok(()), |namespace| check_name("namespace", namespace)))
            .and_then(|()| name.map_or(Ok(()), |name| check_name("name", name)));
        if let Err(error) = place {
            return invalid(format!("objects[{index}]: {error}"));
        }
        if !names.insert(&objects.name) {
            return invalid(format!("objects[{index}].name: found {} twice", objects.name));
        }
        let selectors: [(_, _, Wrong); 2] = [
            ("labelSelector", &objects.label_selector, selector::wrong_labels),
            ("fieldSelector", &objects.field_selector, selector::wrong_fields),
        ];
        for (field, selector, wrong) in selectors {
            let Some(selector) = selector else { continue };
            if objects.object_name.is_some() {
                return invalid(format!(
                    "objects[{index}].{field}: found a selector beside objectName, wanted one of them"
                ));
            }
            if let Some(fault) = facts::fault(selector).or_else(|| wrong(&facts::sample(selector))) {
                return invalid(format!("objects[{index}].{field}: {fault}"));
            }
        }
    }
    Ok(())
}

/// What the expressions see of a step.
pub fn values(
    request: &EvaluationRequest,
    rule: &CelRule,
    node: Option<&Value>,
    pool: Option<&Value>,
    objects: &Map<String, Value>,
) -> Map<String, Value> {
    let history = request.history.iter().map(|earlier| {
        let data = earlier.data.as_deref();
        let data = data.and_then(|text| serde_json::from_str::<Value>(text).ok());
        serde_json::json!({
            "phase": earlier.phase.name(), "attempt": earlier.attempt, "at": earlier.at,
            "verdict": super::wasm::word(earlier), "reason": earlier.reason, "summary": earlier.summary,
            "data": data,
        })
    });
    let history: Vec<Value> = history.collect();
    let Value::Object(values) = serde_json::json!({
        "node": node, "pool": pool, "objects": objects,
        "config": rule.config.clone().unwrap_or_else(|| Value::Object(Map::new())),
        "run": {"namespace": request.owner.key.namespace, "name": request.owner.key.name, "id": request.run},
        "phase": request.phase.name(), "attempt": request.attempt,
        "versions": {"from": request.from_version, "to": request.to_version},
        "history": history,
    }) else {
        return Map::new();
    };
    values
}

#[cfg(test)]
#[cfg(feature = "operator")]
#[allow(clippy::needless_pass_by_value, reason = "reads better where they are called")]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(value: Value) -> CelRule {
        serde_json::from_value(value).unwrap()
    }

    fn ask(spec: Value) -> Reply {
        let values = json!({
            "node": {"metadata": {"name": "worker-0", "labels": {"zone": "a"}}, "status": {"count": 3}},
            "objects": {"pods": [{"status": {"phase": "Running"}}, {"status": {"phase": "Pending"}}], "none": null},
            "config": {"most": 2}, "phase": "Pre", "history": [{"data": {"seen": 1}}],
        });
        let Value::Object(values) = values else {
            unreachable!()
        };
        evaluate(&Question {
            rule: rule(spec),
            values,
            now: "2026-11-21T10:00:00Z".to_owned(),
        })
    }

    fn one(expression: &str) -> Reply {
        ask(json!({"validations": [{"expression": expression}]}))
    }

    #[test]
    fn numbers_of_objects_are_ints_and_times_are_times() {
        for expression in [
            "node.status.count == 3 && node.status.count > config.most",
            "objects.pods.exists(p, p.status.phase == 'Pending')",
            "objects.none == null && pool == null",
            "now - timestamp('2026-11-21T09:50:00Z') > duration('5m')",
            "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "history[0].data.seen == 1",
        ] {
            assert!(
                matches!(one(expression), Reply::Pass(_)),
                "{expression}: {:?}",
                one(expression)
            );
        }
    }

    #[test]
    fn what_is_false_waits_or_blocks_in_its_own_words() {
        let reply = ask(json!({
            "variables": [{"name": "pending", "expression": "objects.pods.filter(p, p.status.phase == 'Pending')"}],
            "validations": [
                {"expression": "size(variables.pending) == 0", "reason": "PodsPending", "retryAfterSeconds": 10,
                 "messageExpression": "string(size(variables.pending)) + ' pods are pending'"},
                {"expression": "true"},
            ],
            "dataExpression": "{'pending': size(variables.pending)}",
        }));
        let words = Words {
            reason: "PodsPending".to_owned(),
            summary: "1 pods are pending".to_owned(),
            data: Some(r#"{"pending":1}"#.to_owned()),
        };
        assert_eq!(reply, Reply::Wait(words, 10));
        let reply = ask(json!({"validations": [
            {"expression": "false"}, {"expression": "1 == 2", "otherwise": "Block", "message": "never"},
        ]}));
        let Reply::Block(words) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(
            (words.reason.as_str(), words.summary.as_str()),
            ("ExpressionNotMet", "never")
        );
    }

    #[test]
    fn an_error_is_never_a_pass_and_names_its_field() {
        for (expression, words) in [
            ("node.spec.missing", "no field spec"),
            ("1 / 0 == 1", "Division by zero"),
            ("'yes'", "wanted a bool"),
            ("false || node.nowhere", "no field nowhere"),
        ] {
            let Reply::Failed(message) = one(expression) else {
                panic!("{expression}: {:?}", one(expression))
            };
            assert!(
                message.starts_with("spec.cel.validations[0].expression") && message.contains(words),
                "{message}"
            );
        }
        let hidden = ask(json!({"validations": [{"expression": "false"}, {"expression": "node.nowhere"}]}));
        assert!(matches!(hidden, Reply::Failed(_)), "{hidden:?}");
    }

    #[test]
    fn what_cannot_work_is_refused_before_any_node_waits() {
        for (spec, words) in [
            (
                json!({"validations": [{"expression": "size("}]}),
                "validations[0].expression",
            ),
            (
                json!({"validations": [{"expression": "true"}, {"expression": "nodes.x"}]}),
                "validations[1].expression: found nodes",
            ),
            (
                json!({"validations": [{"expression": "objects.pods.all(p, q.x)"}], "objects": [{"name": "pods", "apiVersion": "v1", "kind": "Pod"}]}),
                "found q",
            ),
            (
                json!({"validations": [{"expression": "objects.pods == null"}]}),
                "found objects.pods",
            ),
            (
                json!({"validations": [{"expression": "sizes(node)"}]}),
                "found sizes()",
            ),
            (
                json!({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}], "validations": [{"expression": "true"}]}),
                "variables[0].expression: found variables.b",
            ),
            (
                json!({"validations": [{"expression": "true", "messageExpression": "'"}]}),
                "validations[0].messageExpression",
            ),
        ] {
            let message = check(&rule(spec.clone())).unwrap_err();
            assert!(message.contains(words), "{spec}: {message}");
        }
        for expression in [
            "objects.pods.all(p, p.x.exists_one(q, q == p.y)) && [1].map(x, x + 1) == [2]",
            "has(node.metadata.labels) && 'a' in node.metadata.labels",
            "{'a': node}.a == node && duration('1s') < duration('2s') && 'x'.startsWith('x')",
            "node.metadata.name.matches('w.*') && node.metadata.name.lowerAscii() == ''",
        ] {
            let spec = json!({
                "objects": [{"name": "pods", "apiVersion": "v1", "kind": "Pod"}],
                "validations": [{"expression": expression}],
            });
            assert_eq!(check(&rule(spec)), Ok(()), "{expression}");
        }
    }

    #[test]
    fn what_could_be_another_path_and_unknown_facts_are_refused() {
        for (objects, words) in [
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Namespace", "objectName": "b/secrets/pull"}),
                "is no name",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "namespace": "b/secrets/pull?x="}),
                "is no namespace",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "objectName": "p%2flog"}),
                "is no name",
            ),
            (
                json!({"name": "s", "apiVersion": "v1/namespaces", "kind": "Pod/log"}),
                "no apiVersion and kind",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "fieldSelector": "spec.nodeName=${nod}"}),
                "${nod}",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "objectName": "a", "labelSelector": "b"}),
                "beside objectName",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "labelSelector": "a in ("}),
                "objects[0].labelSelector: found \"a in (\", wanted a=b",
            ),
            (
                json!({"name": "s", "apiVersion": "v1", "kind": "Pod", "fieldSelector": "spec.nodeName"}),
                "objects[0].fieldSelector: found \"spec.nodeName\", wanted a=b",
            ),
        ] {
            let spec = json!({"validations": [{"expression": "true"}], "objects": [objects]});
            let (_, message) = shape(&rule(spec)).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn selectors_with_names_of_a_step_are_read() {
        let objects = json!([{"name": "s", "apiVersion": "v1", "kind": "Pod", "labelSelector": "pool in (${pool}, x),!gone", "fieldSelector": "spec.nodeName=${node}"}]);
        let spec = json!({"validations": [{"expression": "true"}], "objects": objects});
        assert_eq!(shape(&rule(spec)), Ok(()));
    }

    #[test]
    fn an_expression_too_deep_to_read_is_an_error() {
        let deep = format!("{}1{} == 1", "(".repeat(3000), ")".repeat(3000));
        assert!(check(&rule(json!({"validations": [{"expression": deep}]}))).is_err());
    }
}
