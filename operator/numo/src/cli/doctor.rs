//! `numo doctor`: whether an installation is sound, and what mends it. Writes nothing.

use super::{
    cluster::ClusterArgs,
    error::CliError,
    output::{self, OutputArgs, paint},
    place::OperatorPlace,
    run::REGISTRIES_ON_LOOPBACK,
};
use crate::shell::{
    doctor::{self, Finding, State},
    eval::artifact::ArtifactOptions,
};
use anstyle::Style;
use clap::Args;
use numo_cli::files::read;
use numo_plugin::oci::Proxies;
use std::{fmt::Write as _, path::PathBuf};

/// Arguments of `numo doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    place: OperatorPlace,
    /// Authorities of registries of rules, as PEM, beside the system's
    #[arg(long, env = "NUMO_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// As numo run takes it
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    registries_on_loopback: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Looks at the installation and says what is found. Something wrong is an error.
pub async fn doctor(args: DoctorArgs) -> Result<(), CliError> {
    let namespace = args.place.namespace("doctor")?;
    let artifacts = ArtifactOptions {
        authorities: match &args.registry_ca {
            None => Vec::new(),
            Some(path) => read("--registry-ca", path)?,
        },
        proxies: Proxies::from_env(|name| std::env::var(name).ok()).map_err(CliError::Wrong)?,
        reach_loopback: args.registries_on_loopback,
        ..ArtifactOptions::default()
    };
    let (connection, _) = args.cluster.connect("doctor").await?;
    let found = doctor::examine(&connection, &namespace, artifacts).await;
    // By name alone: the checks that have something to mend, each once.
    let names = || {
        let open = found
            .iter()
            .filter(|one| matches!(one.state, State::Wrong | State::Unknown));
        let mut names: Vec<String> = open.map(|one| one.check.to_owned()).collect();
        names.dedup();
        names
    };
    args.output.print(&found, |_| text(&found), names)?;
    let wrong = found.iter().filter(|one| one.state == State::Wrong).count();
    let unknown = found.iter().filter(|one| one.state == State::Unknown).count();
    match (wrong, unknown) {
        (0, 0) => Ok(()),
        (0, unknown) => Err(CliError::Wrong(format!(
            "{} could not be made",
            doctor::counted(unknown, "check")
        ))),
        (wrong, _) => Err(CliError::Wrong(format!(
            "{} to mend",
            doctor::counted(wrong, "finding")
        ))),
    }
}

fn text(found: &[Finding]) -> String {
    let mut out = String::new();
    for one in found {
        let (state, style) = match one.state {
            State::Ok => ("ok", output::good()),
            State::Note => ("note", Style::new()),
            State::Wrong => ("WRONG", output::bad()),
            State::Unknown => ("UNKNOWN", output::bad()),
        };
        let state = paint(style, &format!("{state:<8}"));
        let _ = writeln!(out, "{state} {:<15} {}", one.check, one.message);
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
        let shown = anstream::adapter::strip_str(&crate::cli::say::printable(&text(&found))).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "ok       Leader          numo-1 leads");
        assert_eq!(lines[1], "WRONG    Webhook         it does not answer");
        assert_eq!(lines[2].trim(), "→ look at it");
    }
}
