//! `numo version`: of this binary, of the API server and of the operator that leads, and whether they fit together
//! (operator/docs/api.md, "Which command line fits which operator").

use super::{
    cluster::ClusterArgs,
    error::{self, CliError},
    output::OutputArgs,
};
use crate::shell::{
    client::{Connection, OLDEST_MINOR},
    leader::{self, LEADER_LEASE},
    notice::Notice,
};
use clap::Args;
use numo_cli::Format;
use semver::Version;
use serde::Serialize;
use std::{fmt::Write as _, time::Duration};

/// How long the API server may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is not known of a build that recorded nothing.
const UNRECORDED: &str = "not recorded";

/// Arguments of `numo version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Only this binary: ask no cluster
    #[arg(long)]
    client: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: Client,
    rule_contract: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Operator>,
}

/// This binary.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    version: &'static str,
    /// Commit that it was built from (NUMO_COMMIT of the build).
    commit: &'static str,
    /// When it was built (NUMO_BUILD_DATE of the build).
    build_date: &'static str,
    /// Operating system and processor, as container images name them.
    platform: String,
}

/// The API server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    version: String,
    /// Whether it is one that numo supports.
    fits: bool,
}

/// The operator that leads, or led last.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Operator {
    version: String,
    namespace: String,
    /// Its pod, in a cluster.
    instance: String,
    /// Whether it leads now.
    leads: bool,
    skew: Skew,
}

/// How far apart the command line and the operator are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Skew {
    /// The same minor version: they say the same.
    None,
    /// One minor version apart: it works, and `status`, `explain` and `preview` may foretell what the operator does otherwise.
    OneMinor,
    /// Further apart: not supported.
    TooFar,
    /// The operator's version is none that can be compared.
    Unknown,
}

impl Skew {
    fn of(client: &str, operator: &str) -> Self {
        let (Ok(client), Ok(operator)) = (Version::parse(client), Version::parse(operator)) else {
            return Self::Unknown;
        };
        match client.minor.abs_diff(operator.minor) {
            _ if client.major != operator.major => Self::TooFar,
            0 => Self::None,
            1 => Self::OneMinor,
            _ => Self::TooFar,
        }
    }
}

/// That `-o name` is not for versions: they are of no object. kubectl has it neither.
fn refuse_name(output: &OutputArgs) -> Result<(), CliError> {
    if output.output == Some(Format::Name) {
        return Err(CliError::Usage(
            "-o name: a version is no object and has no name; wanted json, yaml, jsonpath=…, go-template=… or custom-columns=…, or no -o"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Prints the versions. That no API server answers fails nothing; that the versions are too far apart does.
pub async fn version(args: VersionArgs) -> Result<(), CliError> {
    refuse_name(&args.output)?;
    let (mut server, mut operator) = (None, None);
    if !args.client {
        let asked = async {
            let (connection, _) = args.cluster.connect("version").await?;
            let found = connection.read.apiserver_version().await;
            let found = found.map_err(error::api("the API server's version"))?;
            Ok::<_, CliError>((found.git_version, running(&connection).await))
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok((found, running))) => {
                server = Some(Server {
                    fits: is_supported(&found),
                    version: found,
                });
                operator = running;
            }
            Ok(Err(error)) => eprintln!("numo: no API server answers: {error}"),
            Err(_) => eprintln!("numo: no API server answers within {} s", PATIENCE.as_secs()),
        }
    }
    let versions = Versions {
        client: Client {
            version: env!("CARGO_PKG_VERSION"),
            commit: recorded(option_env!("NUMO_COMMIT")),
            build_date: recorded(option_env!("NUMO_BUILD_DATE")),
            platform: platform(),
        },
        rule_contract: numo_plugin::inspect::CONTRACT.to_string(),
        server,
        operator,
    };
    args.output.print(&versions, |_| text(&versions), Vec::new)?;
    judge(&versions)
}

/// What a build recorded of itself.
fn recorded(given: Option<&'static str>) -> &'static str {
    given.filter(|words| !words.is_empty()).unwrap_or(UNRECORDED)
}

/// The operator that leads, or led last, as its leader Lease says; none where there is none, or it may not be looked at.
async fn running(connection: &Connection) -> Option<Operator> {
    let all = match leader::leases(&connection.read, LEADER_LEASE).await {
        Ok(all) => all,
        Err(error) => {
            let words = error::api("leases")(error);
            eprintln!("numo: the version of the operator is not known: {words}");
            return None;
        }
    };
    let now = connection.clock.now();
    let last = all
        .iter()
        .min_by_key(|lease| leader::age_seconds(lease, now).unwrap_or(i64::MAX))?;
    let version = Notice::of(last)?.version;
    Some(Operator {
        skew: Skew::of(env!("CARGO_PKG_VERSION"), &version),
        version,
        namespace: last.metadata.namespace.clone().unwrap_or_default(),
        instance: leader::holder(last).to_owned(),
        leads: leader::is_alive(last, now),
    })
}

/// Whether numo supports the API server of this version: v1.31.0, v1.33.4+k3s1.
fn is_supported(version: &str) -> bool {
    let version = Version::parse(version.trim_start_matches('v'));
    version.is_ok_and(|version| version.major == 1 && version.minor >= u64::from(OLDEST_MINOR))
}

/// As container images name it: linux/amd64.
fn platform() -> String {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    format!("{system}/{processor}")
}

fn text(versions: &Versions) -> String {
    let client = &versions.client;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "numo           {} ({}, commit {}, built {})",
        client.version, client.platform, client.commit, client.build_date
    );
    let _ = writeln!(text, "rule contract  {}", versions.rule_contract);
    if let Some(server) = &versions.server {
        let _ = writeln!(text, "API server     {}", server.version);
    }
    match &versions.operator {
        Some(operator) => {
            let leads = if operator.leads { "leads" } else { "led last" };
            let _ = writeln!(
                text,
                "operator       {} ({leads} in namespace {} as {})",
                operator.version, operator.namespace, operator.instance
            );
        }
        None if versions.server.is_some() => text.push_str("operator       none leads\n"),
        None => {}
    }
    text
}

/// What of it does not fit.
fn judge(versions: &Versions) -> Result<(), CliError> {
    if let Some(server) = versions.server.as_ref().filter(|server| !server.fits) {
        return Err(CliError::Wrong(format!(
            "API server {}: numo needs Kubernetes 1.{OLDEST_MINOR} or later (OpenShift 4.18 or later)",
            server.version
        )));
    }
    let Some(operator) = &versions.operator else {
        return Ok(());
    };
    let both = format!(
        "this command line is {}, the operator {}",
        versions.client.version, operator.version
    );
    match operator.skew {
        Skew::None => {}
        Skew::OneMinor => eprintln!(
            "numo: {both}: every verb works, but `status`, `explain` and `preview` decide as the command line does; take \
             the operator's version"
        ),
        Skew::Unknown => eprintln!("numo: {both}: they cannot be compared"),
        Skew::TooFar => {
            return Err(CliError::Wrong(format!(
                "{both}: more than one minor version apart, which is not supported; take the operator's version"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_one_minor_version_apart_at_most() {
        for (client, operator, wanted) in [
            ("0.1.0", "0.1.7", Skew::None),
            ("0.2.0", "0.1.0", Skew::OneMinor),
            ("0.1.0", "0.2.0-rc.1", Skew::OneMinor),
            ("0.3.0", "0.1.0", Skew::TooFar),
            ("1.0.0", "0.0.0", Skew::TooFar),
            ("0.1.0", "banana", Skew::Unknown),
        ] {
            assert_eq!(Skew::of(client, operator), wanted, "{client} {operator}");
        }
        assert!(is_supported("v1.31.0") && is_supported("v1.33.4+k3s1"));
        assert!(!is_supported("v1.30.9") && !is_supported("soon"));
    }

    #[test]
    fn a_version_has_no_name() {
        let output = |output| OutputArgs {
            output,
            no_headers: false,
        };
        let refused = refuse_name(&output(Some(Format::Name))).unwrap_err().to_string();
        assert!(
            refused.contains("-o name") && refused.contains("wanted json"),
            "{refused}"
        );
        for format in [None, Some(Format::Json), Some(Format::Wide)] {
            assert!(refuse_name(&output(format)).is_ok());
        }
    }

    #[test]
    fn what_a_build_did_not_record_is_said_so() {
        assert_eq!(recorded(Some("0a1b2c")), "0a1b2c");
        // An image that is built without `--build-arg REVISION` sets it empty.
        assert_eq!(recorded(Some("")), UNRECORDED);
        assert_eq!(recorded(None), UNRECORDED);
    }

    #[test]
    fn versions_that_are_too_far_apart_fail() {
        let operator = |skew| Operator {
            version: "0.9.0".to_owned(),
            namespace: "ops".to_owned(),
            instance: "numo-1".to_owned(),
            leads: true,
            skew,
        };
        let versions = |fits, skew| Versions {
            client: Client {
                version: "0.1.0",
                commit: UNRECORDED,
                build_date: UNRECORDED,
                platform: platform(),
            },
            rule_contract: "0.1".to_owned(),
            server: Some(Server {
                version: "v1.33.0".to_owned(),
                fits,
            }),
            operator: Some(operator(skew)),
        };
        let far = judge(&versions(true, Skew::TooFar)).unwrap_err();
        assert!(far.to_string().contains("the operator 0.9.0"), "{far}");
        assert!(judge(&versions(true, Skew::OneMinor)).is_ok());
        assert!(judge(&versions(false, Skew::None)).is_err());
        let shown = text(&versions(true, Skew::None));
        assert!(
            shown.contains("operator       0.9.0 (leads in namespace ops as numo-1)"),
            "{shown}"
        );
    }
}
