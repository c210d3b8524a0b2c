//! What a Deployment tells the numo in it, by flags and variables. It reads the object alone, and does not know what a variable is whose
//! value stands elsewhere.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Container};
use numo_plugin::address::AddressRange;

/// Namespaces in which Plans are watched where numo is told nothing.
pub const PLAN_NAMESPACES: &str = "system-upgrade";

/// Ranges that are closed to rules where numo is told nothing: all private ones.
pub const CLUSTER_NETWORKS: &str = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7";

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

/// Where images of rules may be asked for, as numo's Deployment has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Outward {
    /// Registries, or paths in them; empty for any. None if it cannot be seen.
    pub registries: Option<Vec<String>>,
    /// Registries in plain HTTP.
    pub plain: Vec<String>,
    /// Addresses that are closed to namespaces without the label: those that numo was told of, and private ones, as this is another
    /// machine with an inside of its own.
    pub closed: Vec<AddressRange>,
}

impl Outward {
    /// Without a Deployment nothing is known, and private addresses are closed.
    pub fn of(deployment: Option<&Deployment>) -> Self {
        let list = |flag: &str, variable: &str| {
            let told = deployment.map_or(Told::Elsewhere, |one| told(one, flag, variable));
            match told {
                Told::Elsewhere => None,
                Told::Nothing => Some(Vec::new()),
                Told::This(text) => {
                    let words = text.split(',').map(str::trim).filter(|one| !one.is_empty());
                    Some(words.map(ToOwned::to_owned).collect::<Vec<_>>())
                }
            }
        };
        let given = list("--cluster-networks", "NUMO_CLUSTER_NETWORKS").unwrap_or_default();
        let closed = given
            .iter()
            .map(String::as_str)
            .chain(CLUSTER_NETWORKS.split(','));
        Self {
            registries: list("--registries", "NUMO_REGISTRIES"),
            plain: list("--plain-registries", "NUMO_PLAIN_REGISTRIES").unwrap_or_default(),
            closed: closed.filter_map(|range| range.parse().ok()).collect(),
        }
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

    #[test]
    fn images_are_asked_for_where_the_deployment_says() {
        let of = |args: &Value| Outward::of(Some(&with(args, &json!([]))));
        let closes = |outward: &Outward, address: &str| {
            let address = address.parse().unwrap();
            outward.closed.iter().any(|range| range.contains(address))
        };
        let plain = of(&json!(["run"]));
        assert_eq!(plain.registries, Some(Vec::new()), "any, outside");
        assert!(closes(&plain, "192.168.1.1") && !closes(&plain, "203.0.113.9"));
        let told = of(&json!([
            "run",
            "--registries=a.example,b.example/team",
            "--cluster-networks",
            "203.0.113.0/24"
        ]));
        let wanted = ["a.example", "b.example/team"].map(ToOwned::to_owned);
        assert_eq!(told.registries.as_deref(), Some(&wanted[..]));
        assert!(closes(&told, "203.0.113.9") && closes(&told, "192.168.1.1"));
        let elsewhere = Outward::of(None);
        assert_eq!(elsewhere.registries, None, "it is not known");
        assert!(closes(&elsewhere, "10.0.0.1"));
    }
}
