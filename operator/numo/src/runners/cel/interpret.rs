//! What the expressions of a rule say, and whether they can be read. Whoever calls [`check`] or [`evaluate`] bounds their time and memory:
//! expressions are from strangers, and can ask for much.

use super::reply::{Question, Reply, Words};
use kube::core::cel::{
    KubeCelExt as _,
    cel::{Context, ExecutionError, Program, Value as Cel, common::ast::Expr, objects},
};
use numo_api::{CelRule, Unmet};
use serde_json::Value;
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
