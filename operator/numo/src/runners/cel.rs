//! The cel runner: from a MutexRule's expressions and what they see to an answer. It reads and writes nothing. Whoever
//! calls [`check`] or [`evaluate`] bounds their time and memory: expressions are from strangers, and can ask for much.

use super::{facts, wasm::Fault};
use kube::core::cel::{
    KubeCelExt as _,
    cel::{Context, ExecutionError, Program, Value as Cel, common::ast::Expr, objects},
};
use numo_api::{CelRule, Reason, Unmet};
use numo_core::{
    action::EvaluationRequest,
    observed::{RuleAnswer, RuleWords},
};
use numo_plugin::{check_kind, check_name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// What every expression sees.
const NAMES: [&str; 11] = [
    "node",
    "pool",
    "objects",
    "variables",
    "config",
    "run",
    "phase",
    "attempt",
    "versions",
    "history",
    "now",
];
/// Longest sentence of a verdict (characters).
const SUMMARY: usize = 512;
/// Longest text of an error (characters): it may show the values that it speaks of.
const ERROR: usize = 300;
/// Bytes of `dataExpression`'s value as JSON, as for components.
const DATA: usize = 16 * 1024;
/// Seconds after which an expression that is false is evaluated again.
const RETRY_AFTER_SECONDS: i32 = 30;

/// Everything that one evaluation needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The expressions.
    pub rule: CelRule,
    /// What they see: of [`NAMES`] all but `variables` and `now`.
    pub values: Map<String, Value>,
    /// The API server's time, RFC 3339.
    pub now: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Every expression is true.
    Pass(Words),
    /// One is false, and says so many seconds.
    Wait(Words, i64),
    /// One is false, and ends the attempt.
    Block(Words),
    /// One can be neither.
    Failed(String),
}

/// A reason, a sentence, and data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    reason: String,
    summary: String,
    data: Option<String>,
}

impl From<Words> for RuleWords {
    fn from(words: Words) -> Self {
        Self {
            reason: words.reason,
            summary: words.summary,
            data: words.data,
            found: String::new(),
        }
    }
}

/// What a reply means for the node.
pub fn answer(reply: Reply) -> RuleAnswer {
    match reply {
        Reply::Pass(words) => RuleAnswer::Pass(words.into()),
        Reply::Wait(words, seconds) => RuleAnswer::Wait(words.into(), seconds),
        Reply::Block(words) => RuleAnswer::Block(words.into()),
        Reply::Failed(message) => RuleAnswer::NoVerdict(Reason::RuleError, message),
    }
}

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
        let selectors = [
            ("labelSelector", &objects.label_selector),
            ("fieldSelector", &objects.field_selector),
        ];
        for (field, selector) in selectors {
            let Some(selector) = selector else { continue };
            if objects.object_name.is_some() {
                return invalid(format!(
                    "objects[{index}].{field}: found a selector beside objectName, wanted one of them"
                ));
            }
            if let Some(fault) = facts::fault(selector) {
                return invalid(format!("objects[{index}].{field}: {fault}"));
            }
        }
    }
    Ok(())
}

/// What is wrong with the expressions: whether each can be read and knows what it names.
pub fn check(rule: &CelRule) -> Result<(), String> {
    let context = Context::default().with_all();
    let objects: BTreeSet<&str> = rule.objects.iter().flatten().map(|of| of.name.as_str()).collect();
    let mut variables: BTreeSet<&str> = BTreeSet::new();
    for (field, expression, defines) in expressions(rule) {
        let program = Program::compile(expression).map_err(|error| {
            let words = error.to_string();
            let first = words.lines().next().unwrap_or_default();
            format!("{field}: {}", clip(first, ERROR))
        })?;
        for name in program.references().functions() {
            if !is_function(&context, name) {
                return Err(format!(
                    "{field}: found {name}(), which is no function of CEL here"
                ));
            }
        }
        let mut seen = Names::default();
        seen.walk(&program.expression().expr, &mut Vec::new());
        if let Some(name) = seen.free.iter().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!(
                "{field}: found {name}, wanted one of {}",
                NAMES.join(", ")
            ));
        }
        for (of, field_name) in &seen.members {
            let known = match of.as_str() {
                "objects" => &objects,
                "variables" => &variables,
                _ => continue,
            };
            if !known.contains(field_name.as_str()) {
                return Err(format!(
                    "{field}: found {of}.{field_name}, wanted a name that spec.cel.{of} has{}",
                    if of == "variables" { " above it" } else { "" }
                ));
            }
        }
        variables.extend(defines);
    }
    Ok(())
}

/// Every expression with its field, and the variable that it gives a value to.
fn expressions(rule: &CelRule) -> Vec<(String, &str, Option<&str>)> {
    let mut all = Vec::new();
    for (index, variable) in rule.variables.iter().flatten().enumerate() {
        let field = format!("spec.cel.variables[{index}].expression");
        all.push((field, variable.expression.as_str(), Some(variable.name.as_str())));
    }
    for (index, validation) in rule.validations.iter().enumerate() {
        let field = format!("spec.cel.validations[{index}]");
        all.push((
            format!("{field}.expression"),
            validation.expression.as_str(),
            None,
        ));
        if let Some(message) = &validation.message_expression {
            all.push((format!("{field}.messageExpression"), message.as_str(), None));
        }
    }
    if let Some(data) = &rule.data_expression {
        all.push(("spec.cel.dataExpression".to_owned(), data.as_str(), None));
    }
    all
}

/// Whether there is a function of this name; operators have names that nobody can write.
fn is_function(context: &Context<'_>, name: &str) -> bool {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || name.starts_with('_') {
        return true;
    }
    let Ok(probe) = Program::compile(&format!("{name}()")) else {
        return true;
    };
    !matches!(
        probe.execute(context),
        Err(ExecutionError::UndeclaredReference(_))
    )
}

/// The names that an expression takes from outside, and what it reads of them.
#[derive(Default)]
struct Names {
    free: BTreeSet<String>,
    members: BTreeSet<(String, String)>,
}

impl Names {
    fn walk(&mut self, expression: &Expr, bound: &mut Vec<String>) {
        match expression {
            Expr::Ident(name) => {
                if !bound.contains(name) {
                    self.free.insert(name.clone());
                }
            }
            Expr::Select(select) => {
                if let Expr::Ident(of) = &select.operand.expr
                    && !bound.contains(of)
                    && !select.test
                {
                    self.members.insert((of.clone(), select.field.clone()));
                }
                self.walk(&select.operand.expr, bound);
            }
            Expr::Call(call) => {
                let target = call.target.iter().map(|target| &target.expr);
                for part in target.chain(call.args.iter().map(|argument| &argument.expr)) {
                    self.walk(part, bound);
                }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.walk(&element.expr, bound);
                }
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.entry(&entry.expr, bound);
                }
            }
            Expr::Struct(made) => {
                for entry in &made.entries {
                    self.entry(&entry.expr, bound);
                }
            }
            Expr::Comprehension(of) => {
                self.walk(&of.iter_range.expr, bound);
                self.walk(&of.accu_init.expr, bound);
                let before = bound.len();
                bound.push(of.iter_var.clone());
                bound.extend(of.iter_var2.clone());
                bound.push(of.accu_var.clone());
                for part in [&of.loop_cond, &of.loop_step, &of.result] {
                    self.walk(&part.expr, bound);
                }
                bound.truncate(before);
            }
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entry(&mut self, entry: &kube::core::cel::cel::common::ast::EntryExpr, bound: &mut Vec<String>) {
        use kube::core::cel::cel::common::ast::EntryExpr;
        match entry {
            EntryExpr::StructField(field) => self.walk(&field.value.expr, bound),
            EntryExpr::MapEntry(entry) => {
                self.walk(&entry.key.expr, bound);
                self.walk(&entry.value.expr, bound);
            }
        }
    }
}

/// What the expressions say.
pub fn evaluate(question: &Question) -> Reply {
    match try_evaluate(question) {
        Ok(reply) => reply,
        Err(message) => Reply::Failed(message),
    }
}

fn try_evaluate(question: &Question) -> Result<Reply, String> {
    let rule = &question.rule;
    let context = context(question)?;
    let mut waits: Option<(Words, i64)> = None;
    let mut blocks: Option<Words> = None;
    for (index, validation) in rule.validations.iter().enumerate() {
        let field = format!("spec.cel.validations[{index}]");
        let holds = is_true(&context, &format!("{field}.expression"), &validation.expression)?;
        let is_block = validation.otherwise == Some(Unmet::Block);
        // All are evaluated: what blocks must not hide behind what waits, nor an error behind either.
        if holds || blocks.is_some() || (waits.is_some() && !is_block) {
            continue;
        }
        let words = Words {
            reason: given(validation.reason.as_ref())
                .unwrap_or("ExpressionNotMet")
                .to_owned(),
            summary: message(&context, &field, validation)?,
            data: None,
        };
        if is_block {
            blocks = Some(words);
        } else {
            let seconds = validation.retry_after_seconds.unwrap_or(RETRY_AFTER_SECONDS);
            waits = Some((words, i64::from(seconds)));
        }
    }
    let data = data(&context, rule)?;
    Ok(match (blocks, waits) {
        (Some(words), _) => Reply::Block(Words { data, ..words }),
        (None, Some((words, seconds))) => Reply::Wait(Words { data, ..words }, seconds),
        (None, None) => Reply::Pass(Words {
            reason: "ExpressionsMet".to_owned(),
            summary: match rule.validations.len() {
                1 => "the expression is true".to_owned(),
                all => format!("all {all} expressions are true"),
            },
            data,
        }),
    })
}

/// What expressions may name: the question's values, the time, and the rule's variables, each in the order it is given.
fn context(question: &Question) -> Result<Context<'static>, String> {
    let mut context = Context::default().with_all();
    for name in NAMES {
        let value = question.values.get(name).map_or(Cel::Null, value_of);
        context.add_variable_from_value(name, value);
    }
    let now = Program::compile(&format!("timestamp('{}')", question.now))
        .map_err(|error| error.to_string())
        .and_then(|now| now.execute(&context).map_err(|error| error.to_string()))?;
    context.add_variable_from_value("now", now);
    let mut variables: HashMap<objects::Key, Cel> = HashMap::new();
    context.add_variable_from_value("variables", map(variables.clone()));
    for (index, variable) in question.rule.variables.iter().flatten().enumerate() {
        let field = format!("spec.cel.variables[{index}].expression");
        let value = run(&context, &field, &variable.expression)?;
        variables.insert(variable.name.as_str().into(), value);
        context.add_variable_from_value("variables", map(variables.clone()));
    }
    Ok(context)
}

fn is_true(context: &Context<'_>, field: &str, expression: &str) -> Result<bool, String> {
    match run(context, field, expression)? {
        Cel::Bool(holds) => Ok(holds),
        other => Err(format!(
            "{field}: found {} {}, wanted a bool",
            other.type_of(),
            clip(&format!("{other:?}"), ERROR)
        )),
    }
}

fn run(context: &Context<'_>, field: &str, expression: &str) -> Result<Cel, String> {
    let program = Program::compile(expression).map_err(|error| format!("{field}: {error}"))?;
    program.execute(context).map_err(|error| {
        let why = match &error {
            ExecutionError::NoSuchKey(name) => format!("no field {name} in {expression}; has() asks for it"),
            error => error.to_string(),
        };
        format!("{field}: {}", clip(&why, ERROR))
    })
}

fn message(
    context: &Context<'_>,
    field: &str,
    validation: &numo_api::CelValidation,
) -> Result<String, String> {
    if let Some(expression) = given(validation.message_expression.as_ref()) {
        let field = format!("{field}.messageExpression");
        return match run(context, &field, expression)? {
            Cel::String(text) => Ok(clip(&text, SUMMARY)),
            other => Err(format!("{field}: found {}, wanted a string", other.type_of())),
        };
    }
    let words = given(validation.message.as_ref()).map_or_else(
        || format!("{} is false", validation.expression.trim()),
        ToOwned::to_owned,
    );
    Ok(clip(&words, SUMMARY))
}

fn data(context: &Context<'_>, rule: &CelRule) -> Result<Option<String>, String> {
    let Some(expression) = given(rule.data_expression.as_ref()) else {
        return Ok(None);
    };
    let field = "spec.cel.dataExpression";
    let value = json_of(&run(context, field, expression)?).map_err(|why| format!("{field}: {why}"))?;
    let text = value.to_string();
    if text.len() > DATA {
        return Err(format!(
            "{field}: found {} bytes, wanted at most {DATA}",
            text.len()
        ));
    }
    Ok(Some(text))
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn clip(text: &str, most: usize) -> String {
    numo_core::rules::clip(text, most)
}

fn map(of: HashMap<objects::Key, Cel>) -> Cel {
    Cel::Map(objects::Map { map: Arc::new(of) })
}

/// Whole numbers are ints, as in Kubernetes: the cel crate's own conversion makes them uints, which equal no int.
fn value_of(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Cel::Int(value),
            (None, Some(value)) => Cel::UInt(value),
            (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(value_of).collect())),
        Value::Object(fields) => {
            let entries = fields
                .iter()
                .map(|(name, value)| (name.as_str().into(), value_of(value)));
            map(entries.collect())
        }
    }
}

fn json_of(value: &Cel) -> Result<Value, String> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(value) => Value::Bool(*value),
        Cel::Int(value) => Value::from(*value),
        Cel::UInt(value) => Value::from(*value),
        Cel::Float(value) => Value::from(*value),
        Cel::String(text) => Value::from(text.as_str()),
        Cel::Timestamp(at) => Value::from(at.to_rfc3339()),
        Cel::Duration(of) => Value::from(format!("{}s", of.num_seconds())),
        Cel::List(items) => Value::Array(items.iter().map(json_of).collect::<Result<_, _>>()?),
        Cel::Map(fields) => {
            let entries = fields
                .map
                .iter()
                .map(|(name, value)| Ok((name.to_string(), json_of(value)?)));
            Value::Object(entries.collect::<Result<_, String>>()?)
        }
        other => return Err(format!("found {}, wanted what JSON has", other.type_of())),
    })
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
        ] {
            let spec = json!({"validations": [{"expression": "true"}], "objects": [objects]});
            let (_, message) = shape(&rule(spec)).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_expression_too_deep_to_read_is_an_error() {
        let deep = format!("{}1{} == 1", "(".repeat(3000), ")".repeat(3000));
        assert!(check(&rule(json!({"validations": [{"expression": deep}]}))).is_err());
    }
}
