//! Waits while the node carries an annotation. It needs the contract in `wit/` and nothing else of numo. It may not
//! pass when it cannot tell.

use bindings::exports::numo::rule::evaluation::{
    ConfigProblem, Description, Finding, Input, Report, RuleError, Severity, Verdict, Wait,
};
use bindings::numo::host::types::ObjectRef;
use serde_json::{Value, json};

#[allow(
    unsafe_code,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod bindings {
    //! The contract as Rust types, generated.
    wit_bindgen::generate!({
        path: ["../../wit/host", "../../wit/rule"],
        world: "numo:rule/rule",
        generate_all,
    });
}

const PHASE: &str = "pre";
/// What holds a node unless the configuration says otherwise.
const ANNOTATION: &str = "example.com/hold";
const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {"annotation": {"type": "string", "minLength": 1, "default": "example.com/hold"}}
}"#;

/// The configuration.
#[derive(Debug)]
pub struct Config {
    annotation: String,
}

/// Says what the rule is. What it needs of the host would stand in `wants`.
pub fn describe() -> Description {
    Description {
        name: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: vec![PHASE.into()],
        wants: Vec::new(),
        config_schema_json: Some(SCHEMA.into()),
        attributes: Vec::new(),
    }
}

/// Reads the configuration, and says everything that is wrong with it, each fault with its JSON pointer.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    let problem = |pointer: String, message: &str| ConfigProblem {
        pointer,
        message: message.into(),
    };
    let Ok(Value::Object(fields)) = serde_json::from_str(json) else {
        return Err(vec![problem(String::new(), "must be an object")]);
    };
    let mut config = Config {
        annotation: ANNOTATION.into(),
    };
    let mut problems = Vec::new();
    for (name, value) in &fields {
        match (name.as_str(), value) {
            ("annotation", Value::String(text)) if !text.is_empty() => config.annotation.clone_from(text),
            ("annotation", _) => {
                problems.push(problem(format!("/{name}"), "must be a string that is not empty"));
            }
            _ => problems.push(problem(
                format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                "unknown field; known is annotation",
            )),
        }
    }
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(problems)
    }
}

/// Decides. A plain function: `cargo test` needs no WASM.
pub fn evaluate(input: &Input) -> Result<Verdict, RuleError> {
    if input.phase != PHASE {
        return Err(RuleError::Failed(format!("unknown phase {:?}", input.phase)));
    }
    let Config { annotation } = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let Some(node) = &input.node else {
        return Err(RuleError::Failed("this rule needs a node".into()));
    };
    let object: Value =
        serde_json::from_str(&node.object_json).map_err(|error| RuleError::Failed(error.to_string()))?;
    let held = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(&annotation));
    let Some(why) = held else {
        let summary = format!("{} carries no {annotation}", node.name);
        return Ok(Verdict::Pass(report("NotHeld", summary)));
    };
    let mut report = report("Held", format!("{} is held: {why}", node.name));
    report.findings.push(Finding {
        code: "Annotation".into(),
        severity: Severity::Error,
        message: format!("{annotation} is {why}"),
        object: Some(ObjectRef {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: None,
            name: node.name.clone(),
        }),
        attributes: Vec::new(),
    });
    report.data_json = Some(json!({ "annotation": annotation }).to_string());
    Ok(Verdict::Wait(Wait {
        report,
        retry_after_seconds: 60,
        progress_percent: None,
    }))
}

fn report(reason: &str, summary: String) -> Report {
    Report {
        reason: reason.into(),
        summary,
        findings: Vec::new(),
        data_json: None,
        attributes: Vec::new(),
    }
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "the exported functions are generated")]
mod component {
    use super::bindings::{self, exports::numo::rule::evaluation as contract};

    struct Component;

    impl contract::Guest for Component {
        fn describe() -> contract::Description {
            super::describe()
        }

        fn validate_config(config: String) -> Result<(), Vec<contract::ConfigProblem>> {
            super::parse(&config).map(|_| ())
        }

        fn evaluate(input: contract::Input) -> Result<contract::Verdict, contract::RuleError> {
            super::evaluate(&input)
        }
    }

    bindings::export!(Component with_types_in bindings);
}
