//! What a Deployment tells the numo in it, by flags and variables. It reads the object alone, and does not know what a variable is whose
//! value stands elsewhere.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Container};

/// Namespaces in which Plans are honoured where numo is told nothing.
pub const PLAN_NAMESPACES: &str = "system-upgrade";

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is not set.
    Nothing,
    /// It is set to this.
    This(String),
    /// It is taken from elsewhere.
    Elsewhere,
}

/// The container that numo runs in: by its name, or else the first.
fn container(deployment: &Deployment) -> Option<&Container> {
    let all = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
    all.iter().find(|one| one.name == "numo").or_else(|| all.first())
}

/// What the Deployment sets a flag to, or else its variable.
pub fn told(deployment: &Deployment, flag: &str, variable: &str) -> Told {
    let Some(container) = container(deployment) else {
        return Told::Nothing;
    };
    let words: Vec<&String> = container
        .command
        .iter()
        .chain(&container.args)
        .flatten()
        .collect();
    for (index, word) in words.iter().enumerate() {
        match word.strip_prefix(flag) {
            Some("") => {
                return Told::This(
                    words
                        .get(index + 1)
                        .map_or_else(String::new, |next| (*next).clone()),
                );
            }
            Some(rest) if rest.starts_with('=') => return Told::This(rest[1..].to_owned()),
            _ => {}
        }
    }
    // Of several by one name the last counts.
    let mut variables = container.env.iter().flatten();
    match variables.rfind(|one| one.name == variable) {
        None => Told::Nothing,
        Some(one) if one.value_from.is_some() => Told::Elsewhere,
        Some(one) => Told::This(one.value.clone().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn with(args: &Value, env: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "numo"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "sidecar", "args": ["--keys", "no"]},
                {"name": "numo", "args": args, "env": env},
            ]}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_flag_comes_before_its_variable() {
        let this = |text: &str| Told::This(text.to_owned());
        let env = json!([{"name": "KEYS", "value": "by env"}]);
        for (args, env, wanted) in [
            (json!(["run", "--keys", "a"]), env.clone(), this("a")),
            (json!(["run", "--keys=a=b"]), env.clone(), this("a=b")),
            (json!(["run", "--keys-of", "a"]), env, this("by env")),
            (json!(["run", "--keys"]), json!([]), this("")),
            (json!(["run"]), json!([{"name": "KEYS"}]), this("")),
            (
                json!(["run"]),
                json!([{"name": "OTHER", "value": "x"}]),
                Told::Nothing,
            ),
            (
                json!(["run"]),
                json!([{"name": "KEYS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
                Told::Elsewhere,
            ),
        ] {
            assert_eq!(told(&with(&args, &env), "--keys", "KEYS"), wanted, "{args} {env}");
        }
    }
}
