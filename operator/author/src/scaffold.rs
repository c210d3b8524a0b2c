//! `numo plugin scaffold`: a MutexRule to copy.

use super::{output::OutputArgs, source::SourceArgs};
use clap::Args;
use numo_api::text;
use numo_cli::CliError;
use numo_plugin::description::{Description, Want};
use serde_json::{Map, Value, json};

/// Arguments of `numo plugin scaffold`.
#[derive(Debug, Args)]
pub(crate) struct ScaffoldArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Name of the rule [default: the component's]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints it.
pub(crate) async fn scaffold(args: &ScaffoldArgs) -> Result<(), CliError> {
    let (rule, pinned) = args.source.load_rule().await?;
    let about = rule.description();
    let name = args.name.as_deref().unwrap_or(&about.name);
    let from = match &pinned {
        Some(pinned) => Origin::Image(pinned.to_string()),
        None => Origin::File(file_name(&args.source.component)),
    };
    let object = manifest(name, &from, &about.wants);
    let yaml = serde_saphyr::to_string(&object)
        .map_err(|error| CliError::Wrong(format!("the rule cannot be written: {error}")))?;
    let notes = notes(about, name, &from, &args.source.component);
    args.output.say_object(&format!("{notes}{yaml}"), &object)
}

/// What a person should know who copies the rule, as comments of YAML.
fn notes(about: &Description, name: &str, from: &Origin, component: &str) -> String {
    let mut lines = vec![
        format!("{} {}: {}", about.name, about.version, about.summary),
        format!("It can be evaluated in: {}", about.phases.join(", ")),
    ];
    lines.extend(about.wants.iter().map(|want| {
        let optional = if want.optional { ", optional" } else { "" };
        format!(
            "wants {} {}{optional}: {}",
            want.capability, want.target, want.purpose
        )
    }));
    if about.config_schema_json.is_some() {
        lines.push("`numo plugin inspect --json` shows what spec.wasm.config may hold.".to_owned());
    }
    if let Origin::File(key) = from {
        lines.extend([
            "In the rule's namespace, for the administrator of it: numo reads ConfigMaps only where it may."
                .to_owned(),
            format!("kubectl -n NAMESPACE create configmap {name} --from-file={key}={component}"),
            "kubectl -n NAMESPACE create rolebinding numo-rule-components --clusterrole numo-rule-components \\"
                .to_owned(),
            "  --serviceaccount node-upgrade-mutex-operator:numo".to_owned(),
        ]);
    }
    let lines = lines.iter().map(|line| format!("# {}\n", text::line(line)));
    lines.collect()
}

/// Where a cluster has the component from.
enum Origin {
    /// An image by its digest.
    Image(String),
    /// A ConfigMap, under the name of the file.
    File(String),
}

/// The key that `kubectl create configmap --from-file` gives a file, if it may be one.
fn file_name(component: &str) -> String {
    let name = std::path::Path::new(component)
        .file_name()
        .and_then(|name| name.to_str());
    let is_key = |name: &&str| {
        let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        name.chars().all(is_of_key)
    };
    name.filter(is_key).unwrap_or("rule.wasm").to_owned()
}

fn manifest(name: &str, from: &Origin, wants: &[Want]) -> Value {
    let mut wasm = Map::new();
    match from {
        Origin::Image(pinned) => wasm.insert("image".to_owned(), json!(pinned)),
        Origin::File(key) => wasm.insert("configMap".to_owned(), json!({"name": name, "key": key})),
    };
    let grants = grants(wants);
    if !grants.is_empty() {
        wasm.insert("grants".to_owned(), grants.into());
    }
    json!({
        "apiVersion": format!("{}/{}", numo_api::GROUP, numo_api::VERSION),
        "kind": "MutexRule",
        "metadata": {"name": name},
        "spec": {"type": "wasm", "wasm": wasm},
    })
}

/// What would lend all that is wanted, and nothing beside.
pub(crate) fn grants(wants: &[Want]) -> Map<String, Value> {
    let mut grants = Map::new();
    let mut add = |key: &str, grant: Value| {
        if let Value::Array(all) = grants.entry(key).or_insert_with(|| json!([])) {
            all.push(grant);
        }
    };
    let mut prometheus = false;
    for want in wants {
        match want.capability.as_str() {
            "numo:host/kubernetes" => {
                if let Some((version, kind)) = want.target.rsplit_once('/') {
                    add("kubernetes", json!({"apiVersion": version, "kind": kind}));
                }
            }
            "numo:host/http" => {
                let (host, port) = want.target.rsplit_once(':').unwrap_or((&want.target, ""));
                let host = if host.is_empty() {
                    "status.example.com"
                } else {
                    host
                };
                match port.parse::<u16>() {
                    Ok(port) => add("http", json!({"host": host, "port": port})),
                    Err(_) => add("http", json!({"host": host})),
                }
            }
            "numo:host/prometheus" => prometheus = true,
            _ => {}
        }
    }
    if prometheus {
        grants.insert("prometheus".to_owned(), json!({}));
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_one_that_kubectl_gives_the_file() {
        for (given, key) in [
            ("disk-check.wasm", "disk-check.wasm"),
            ("./build/disk check.wasm", "rule.wasm"),
            ("target/x.wasm", "x.wasm"),
        ] {
            assert_eq!(file_name(given), key);
            let spec = manifest("disk", &Origin::File(file_name(given)), &[]);
            assert_eq!(spec["spec"]["wasm"]["configMap"]["key"], key);
        }
    }

    #[test]
    fn what_is_wanted_is_lent_and_nothing_beside() {
        let want = |capability: &str, target: &str| Want {
            capability: capability.to_owned(),
            target: target.to_owned(),
            purpose: String::new(),
            optional: false,
        };
        let wants = [
            want("numo:host/kubernetes", "policy/v1/PodDisruptionBudget"),
            want("numo:host/kubernetes", "v1/Pod"),
            want("numo:host/http", "status.example.com:8443"),
            want("numo:host/prometheus", ""),
        ];
        let spec = &manifest("a", &Origin::File("a.wasm".to_owned()), &wants)["spec"]["wasm"];
        let expected = json!({
            "kubernetes": [
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"},
                {"apiVersion": "v1", "kind": "Pod"},
            ],
            "http": [{"host": "status.example.com", "port": 8443}],
            "prometheus": {},
        });
        assert_eq!(spec["grants"], expected);
        serde_json::from_value::<numo_api::WasmRule>(spec.clone()).unwrap();
        assert!(manifest("a", &Origin::Image("i".to_owned()), &[])["spec"]["wasm"]["grants"].is_null());
    }
}
