//! `numo doctor`: whether an installation is sound, and what mends it. Writes nothing.

use super::{CliError, ClusterArgs, read, run::DEFAULT_NAMESPACE};
use crate::shell::{
    artifact::ArtifactOptions,
    doctor::{self, Finding, State},
};
use clap::{Args, ValueEnum};
use numo_plugin::oci::Proxies;
use std::{fmt::Write as _, path::PathBuf};

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
    Yaml,
}

/// Arguments of `numo doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the operator
    #[arg(short, long, env = "NUMO_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Authorities of registries of rules, as PEM, beside the system's
    #[arg(long, env = "NUMO_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// Looks at the installation and says what is found. Something wrong is an error.
pub async fn doctor(args: DoctorArgs) -> Result<(), CliError> {
    let artifacts = ArtifactOptions {
        authorities: match &args.registry_ca {
            None => Vec::new(),
            Some(path) => read("--registry-ca", path)?,
        },
        proxies: Proxies::from_env(|name| std::env::var(name).ok()).map_err(CliError::Wrong)?,
        ..ArtifactOptions::default()
    };
    let (connection, _) = args.cluster.connect("doctor").await?;
    let found = doctor::examine(&connection, &args.namespace, artifacts).await;
    let unprintable = |error: &dyn std::fmt::Display| CliError::Wrong(format!("cannot be printed: {error}"));
    match args.output {
        Output::Text => print!("{}", text(&found)),
        Output::Json => {
            let json = serde_json::to_string_pretty(&found).map_err(|error| unprintable(&error))?;
            println!("{json}");
        }
        Output::Yaml => print!(
            "{}",
            serde_saphyr::to_string(&found).map_err(|error| unprintable(&error))?
        ),
    }
    let wrong = found.iter().filter(|one| one.state == State::Wrong).count();
    let unknown = found.iter().filter(|one| one.state == State::Unknown).count();
    match (wrong, unknown) {
        (0, 0) => Ok(()),
        (0, unknown) => Err(CliError::Wrong(format!("{unknown} checks could not be made"))),
        (wrong, _) => Err(CliError::Wrong(format!("{wrong} findings to mend"))),
    }
}

fn text(found: &[Finding]) -> String {
    let mut out = String::new();
    for one in found {
        let state = match one.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Wrong => "WRONG",
            State::Unknown => "UNKNOWN",
        };
        let _ = writeln!(out, "{state:<8} {:<15} {}", one.check, one.message);
        if let Some(cure) = &one.cure {
            let _ = writeln!(out, "{:<24} → {cure}", "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_its_cure_below_it() {
        let found = [
            Finding {
                check: "Leader",
                state: State::Ok,
                message: "numo-1 leads".to_owned(),
                cure: None,
            },
            Finding {
                check: "Webhook",
                state: State::Wrong,
                message: "it does not answer".to_owned(),
                cure: Some("look at it".to_owned()),
            },
        ];
        let shown = text(&found);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "ok       Leader          numo-1 leads");
        assert_eq!(lines[1], "WRONG    Webhook         it does not answer");
        assert_eq!(lines[2].trim(), "→ look at it");
    }
}
