//! `node-requirement`: compares the node's labels, annotations, conditions and fields with what is wanted.
//!
//! It looks only at the Node object that it is given: it calls no host function and needs no grant.

use numo_rule_sdk::{
    ConfigProblem, Description, Input, RuleError, Severity, Verdict, component,
    config::{self, Fields},
    object::{self, pointer_fault},
    selector::Requirement,
    serde_json::Value,
    verdict::{Unmet, count, finding, known_phase, node, report, with_findings},
};
use std::borrow::Cow;

const PHASES: [&str; 6] = [
    "admit",
    "pre",
    "pre-release",
    "before-uncordon",
    "post",
    "on-failure",
];
/// Length of a value that a message shows, in characters.
const SHOWN: usize = 64;

component!(describe, parse, evaluate_alone);

/// Where a requirement looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Label,
    Annotation,
    Condition,
    Field,
}

impl Place {
    const ALL: [(Place, &'static str); 4] = [
        (Place::Label, "labels"),
        (Place::Annotation, "annotations"),
        (Place::Condition, "conditions"),
        (Place::Field, "fields"),
    ];

    fn word(self) -> &'static str {
        match self {
            Place::Label => "label",
            Place::Annotation => "annotation",
            Place::Condition => "condition",
            Place::Field => "field",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Place::Label => "LabelUnmet",
            Place::Annotation => "AnnotationUnmet",
            Place::Condition => "ConditionUnmet",
            Place::Field => "FieldUnmet",
        }
    }
}

/// The configuration.
#[derive(Debug)]
pub struct Config {
    requirements: Vec<(Place, Requirement)>,
    unmet: Unmet,
    retry_after_seconds: u32,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    config::read(json, |fields| {
        let requirements: Vec<_> = Place::ALL
            .into_iter()
            .flat_map(|(place, name)| {
                fields
                    .objects(name)
                    .into_iter()
                    .map(move |entry| (place, read(place, &entry)))
            })
            .collect();
        if requirements.is_empty() {
            fields.problem(
                "",
                "needs at least one entry in labels, annotations, conditions or fields",
            );
        }
        Config {
            requirements,
            unmet: fields.choice("unmet", &Unmet::CHOICES, Unmet::Wait),
            retry_after_seconds: fields.retry_after_seconds(),
        }
    })
}

fn read(place: Place, entry: &Fields<'_>) -> Requirement {
    let requirement = Requirement::read(entry);
    match place {
        Place::Field => {
            if let Some(fault) = pointer_fault(&requirement.key) {
                entry.problem("key", fault);
            }
        }
        Place::Label | Place::Annotation => {
            if !requirement.key.is_empty() && !is_qualified_name(&requirement.key) {
                entry.problem("key", "must be a name of at most 63 letters, digits, '-', '_' and '.', with an optional DNS prefix and '/'");
            }
        }
        Place::Condition => {}
    }
    requirement
}

/// As Kubernetes checks keys of labels and annotations.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let ends = |text: &str, good: fn(&u8) -> bool| {
        text.as_bytes().first().is_some_and(good) && text.as_bytes().last().is_some_and(good)
    };
    let label = |part: &str| {
        part.len() <= 63
            && ends(part, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    name.len() <= 63
        && ends(name, u8::is_ascii_alphanumeric)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label))
}

/// Says what the rule is.
pub fn describe() -> Description {
    Description {
        name: "node-requirement".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: Vec::new(),
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides, with a host that is not asked anything.
pub fn evaluate_alone<H>(input: &Input, _: &H) -> Result<Verdict, RuleError> {
    evaluate(input)
}

/// Decides.
pub fn evaluate(input: &Input) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let node = node(input)?;
    let object = object::parse(&node.object_json)?;
    let findings: Vec<_> = config
        .requirements
        .iter()
        .filter_map(|(place, requirement)| {
            let value = value(*place, &requirement.key, &object);
            let met = requirement.matches(value.as_deref());
            (!met).then(|| {
                finding(
                    Severity::Error,
                    place.code(),
                    message(*place, requirement, value.as_deref()),
                    None,
                )
            })
        })
        .collect();
    let total = count(config.requirements.len(), "requirement");
    let Some(first) = findings.first() else {
        return Ok(Verdict::Pass(report(
            "RequirementsMet",
            format!("{} meets {total}", node.name),
        )));
    };
    let summary = format!(
        "{} misses {} of {total}: {}",
        node.name,
        findings.len(),
        first.message
    );
    Ok(config.unmet.verdict(
        with_findings(report("RequirementsUnmet", summary), findings),
        config.retry_after_seconds,
    ))
}

/// The value at a key. Booleans and numbers count as their JSON text, null as absent; a list or an object is
/// there, but its text equals nothing and is no integer.
fn value<'a>(place: Place, key: &str, node: &'a Value) -> Option<Cow<'a, str>> {
    let found = match place {
        Place::Label => node.pointer("/metadata/labels")?.get(key),
        Place::Annotation => node.pointer("/metadata/annotations")?.get(key),
        Place::Condition => object::condition(node, key)?.get("status"),
        Place::Field => node.pointer(key),
    };
    match found? {
        Value::Null => None,
        Value::String(text) => Some(text.into()),
        Value::Array(_) => Some("\u{0}list".into()),
        Value::Object(_) => Some("\u{0}object".into()),
        scalar @ (Value::Bool(_) | Value::Number(_)) => Some(scalar.to_string().into()),
    }
}

fn message(place: Place, requirement: &Requirement, value: Option<&str>) -> String {
    let wanted = match requirement.values.as_slice() {
        [] => requirement.operator.word().into(),
        values => format!("{} {}", requirement.operator.word(), values.join(", ")),
    };
    let found = match value.map(|value| value.strip_prefix('\u{0}').ok_or(value)) {
        None => "is absent".into(),
        Some(Ok(kind)) => format!("is a JSON {kind}"),
        Some(Err(text)) if text.chars().count() > SHOWN => {
            format!("is {:?}…", text.chars().take(SHOWN).collect::<String>())
        }
        Some(Err(text)) => format!("is {text:?}"),
    };
    format!("{} {} {found}, wanted {wanted}", place.word(), requirement.key)
}
