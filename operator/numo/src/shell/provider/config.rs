//! The configuration of a provider that is a component: a file that an administrator wrote, read once at the start. Nothing is asked here.

use crate::shell::eval::provider::Source;
use numo_credentials::{Credentials, NamedSource};
use numo_plugin::{Limits, RuleLimits, provider::ProviderGrants};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::Read as _,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes of the configuration, and of each file that it names, at most.
const FILE_BYTES: u64 = 256 << 10;

/// How long a call may take at most (seconds): less than numo waits for its answer.
const MOST_SECONDS: u64 = 25;

/// How soon a provider may be asked again (seconds): not so late that a machine which is there is taken for lost.
const POLL_SECONDS: RangeInclusive<i64> = 1..=60;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    component: Component,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    config: Map<String, Value>,
    cloud_config_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    grants: ProviderGrants,
    #[serde(default)]
    credentials: Vec<NamedSource>,
    #[serde(default)]
    limits: RuleLimits,
    poll_seconds: Option<i64>,
}

/// Where the component is.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Component {
    image: Option<String>,
    pull_secret_name: Option<String>,
    file: Option<PathBuf>,
}

/// What it says, understood.
#[derive(Debug)]
pub struct ProviderConfig {
    /// Where the component is from.
    pub source: Source,
    /// Of the cluster: groups of another one are not its.
    pub uid: String,
    /// The provider's settings, JSON.
    pub config_json: Arc<str>,
    /// The cloud configuration file, without its secrets.
    pub cloud_config: Option<Arc<str>>,
    /// Authorities of the cloud's servers beside the system's, as PEM; empty where there are none.
    pub authorities: Vec<u8>,
    /// What it may reach.
    pub grants: Arc<ProviderGrants>,
    /// What its requests are signed with.
    pub credentials: Arc<Credentials>,
    /// What it asks of limits.
    pub limits: RuleLimits,
    /// How soon it is asked again about a machine that is on its way (seconds), if that is said.
    pub poll_seconds: Option<i64>,
}

impl ProviderConfig {
    /// Reads the file and those that it names.
    ///
    /// Errors: for people, with the file, the field, what was found and what is wanted.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = text(path)?;
        let understood = Self::parse(&text);
        understood.map_err(|words| format!("{}: {words}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let written: Written = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let seconds = written.limits.evaluation_seconds.unwrap_or(MOST_SECONDS);
        if seconds == 0 || seconds > MOST_SECONDS {
            return Err(format!(
                "limits.evaluationSeconds: found {seconds}, wanted 1 to {MOST_SECONDS}: a call that takes longer answers pending"
            ));
        }
        if let Some(seconds) = written.poll_seconds.filter(|one| !POLL_SECONDS.contains(one)) {
            return Err(format!(
                "pollSeconds: found {seconds}, wanted {} to {}",
                POLL_SECONDS.start(),
                POLL_SECONDS.end()
            ));
        }
        let limits = Limits::default().with(&written.limits, &Limits::CEILINGS);
        limits.map_err(|error| format!("limits: {error}"))?;
        if let Some(fault) = written.grants.fault() {
            return Err(fault);
        }
        let credentials = Credentials::new(written.credentials)?;
        let known: Vec<&str> = credentials.names().collect();
        for grant in &written.grants.cloud {
            let mut asked = grant.credentials.iter();
            if let Some(unknown) = asked.find(|name| !known.contains(&name.as_str())) {
                return Err(format!(
                    "grants.cloud of {}, credentials: found {unknown:?}, wanted one of credentials: {}",
                    grant.host,
                    known.join(", ")
                ));
            }
        }
        let cloud_config = written.cloud_config_file.as_deref().map(|path| {
            let shown = without_secrets(&self::text(path)?);
            let shown = shown.map_err(|words| format!("cloudConfigFile {}: {words}", path.display()))?;
            Ok::<_, String>(shown.into())
        });
        let cloud_config = cloud_config.transpose()?;
        let authorities = written.ca_file.as_deref().map(self::text).transpose()?;
        Ok(Self {
            source: source(written.component)?,
            uid: written.uid,
            config_json: Value::Object(written.config).to_string().into(),
            cloud_config,
            authorities: authorities.unwrap_or_default().into_bytes(),
            grants: Arc::new(written.grants),
            credentials: Arc::new(credentials),
            limits: written.limits,
            poll_seconds: written.poll_seconds,
        })
    }
}

fn source(component: Component) -> Result<Source, String> {
    match (component.image, component.file) {
        (Some(image), None) => {
            if !image.contains("@sha256:") {
                return Err(format!(
                    "component.image: found {image:?}, wanted an image by its digest (@sha256:…)"
                ));
            }
            Ok(Source::Image {
                image,
                pull_secret: component.pull_secret_name,
            })
        }
        (None, Some(file)) => Ok(Source::File(file)),
        _ => Err("component: wanted either image or file".to_owned()),
    }
}

/// A file, bounded before it is read.
fn text(path: &Path) -> Result<String, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(wrong(format!("found more than {FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// Words in the names of fields that are secrets.
const SECRET: [&str; 6] = ["secret", "password", "token", "key", "certificate", "credential"];

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// A cloud configuration file (JSON, or `name = value` in lines) without what may be a secret: such a value is empty.
///
/// Errors: a line is neither, so that nobody knows whether it has a secret.
fn without_secrets(text: &str) -> Result<String, String> {
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        clear(&mut value);
        return Ok(value.to_string());
    }
    let lines = text.lines().enumerate().map(|(index, line)| {
        let trimmed = line.trim();
        let is_kept = trimmed.is_empty() || (trimmed.starts_with('[') && trimmed.ends_with(']'));
        if is_kept {
            return Ok(line.to_owned());
        }
        if trimmed.starts_with(['#', ';']) {
            return Ok(String::new());
        }
        let is_name = |name: &str| {
            let mut bytes = name.trim().bytes();
            bytes.len() > 0 && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match line.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, _)) if is_secret(name) => Ok(format!("{name}=")),
            Some(_) => Ok(line.to_owned()),
            None => Err(format!(
                "line {}: found neither a [section] nor name = value, and the file is no JSON",
                index + 1
            )),
        }
    });
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn clear(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_secret(name) {
                    *value = Value::Null;
                } else {
                    clear(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clear),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
component: {image: \"registry.example.com/numo/provider-gcp@sha256:0000000000000000000000000000000000000000000000000000000000000000\"}
uid: a1b2
config: {project: p}
credentials:
- name: gcp
  googleServiceAccount: {file: /etc/numo/gcp/key.json}
grants:
  cloud:
  - {host: compute.googleapis.com, credentials: [gcp]}
";

    #[test]
    fn a_file_is_understood_or_refused_by_its_field() {
        let good = ProviderConfig::parse(GOOD).unwrap();
        assert_eq!(&*good.config_json, r#"{"project":"p"}"#);
        for (from, to, wanted) in [
            ("@sha256:", ":", "component.image"),
            ("{image:", "{picture:", "picture"),
            ("[gcp]", "[other]", "credentials: found \"other\""),
            ("uid: a1b2", "uuid: a1b2", "uuid"),
            (
                "uid: a1b2",
                "limits: {evaluationSeconds: 60}",
                "limits.evaluationSeconds: found 60",
            ),
            (
                "uid: a1b2",
                "pollSeconds: 0",
                "pollSeconds: found 0, wanted 1 to 60",
            ),
            ("uid: a1b2", "limits: {memoryBytes: 1099511627776}", "memoryBytes"),
            (
                "  cloud:",
                "  kubernetes: [{apiVersion: v1, kind: Node, namespaces: [a], write: [patch]}]\n  cloud:",
                "Node",
            ),
        ] {
            let wrong = ProviderConfig::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(wrong.contains(wanted), "{wrong}");
        }
        let both = GOOD.replace("{image:", "{file: /a, image:");
        assert!(
            ProviderConfig::parse(&both)
                .unwrap_err()
                .contains("either image or file")
        );
    }

    #[test]
    fn the_examples_are_understood() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&examples).unwrap() {
            let folder = entry.unwrap().path();
            let config = ProviderConfig::read(&folder.join("provider.yaml")).unwrap();
            let has_credentials = config.credentials.names().next().is_some();
            assert_eq!(
                has_credentials,
                !config.grants.cloud.is_empty(),
                "{}",
                folder.display()
            );
            names.push(folder.file_name().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        assert_eq!(names, ["aws", "azure", "cluster-api", "gcp"]);
    }

    #[test]
    fn a_cloud_configuration_goes_along_without_its_secrets() {
        let azure = r#"{"tenantId": "t", "aadClientSecret": "s3cret", "deep": [{"Token": "s3cret"}]}"#;
        let shown = without_secrets(azure).unwrap();
        assert!(shown.contains("tenantId") && !shown.contains("s3cret"), "{shown}");
        let gce = "[global]\nproject-id = p\ntoken-body = s3cret\n";
        let shown = without_secrets(gce).unwrap();
        assert!(
            shown.contains("project-id = p") && !shown.contains("s3cret"),
            "{shown}"
        );
        // What is neither may have a secret anywhere.
        for unknown in [
            "aadClientSecret: s3cret\n",
            "{\n  \"aadClientSecret\": \"s3cret==\",\n}",
            "[global]\ns3cret\n",
        ] {
            let refused = without_secrets(unknown).unwrap_err();
            assert!(
                refused.contains("line ") && !refused.contains("s3cret"),
                "{refused}"
            );
        }
        let marked = format!("\u{feff}{azure}");
        assert!(!without_secrets(&marked).unwrap().contains("s3cret"));
    }
}
