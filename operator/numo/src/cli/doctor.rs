//! `numo doctor`: whether an installation is sound, and what mends it. Writes nothing.

use super::{
    cluster::ClusterArgs,
    error::CliError,
    output::{self, Cell, Layout, OutputArgs, Table},
    place::{OperatorPlace, REGISTRIES_ON_LOOPBACK},
};
use crate::shell::{
    doctor::{self, Finding, Scope, State},
    eval::artifact::ArtifactOptions,
};
use anstyle::Style;
use clap::Args;
use numo_cli::files::read;
use numo_plugin::oci::Proxies;
use std::path::PathBuf;

/// Arguments of `numo doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    place: OperatorPlace,
    /// File with the certificate authorities to trust for registries of rules, as PEM, besides the system's
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
    /// Check only the installation, and not the rules, runs and other objects that people created
    #[arg(long)]
    installation: bool,
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
    let scope = if args.installation {
        Scope::Installation
    } else {
        Scope::All
    };
    let found = doctor::examine(&connection, &namespace, artifacts, scope).await;
    // By name alone: the checks that have something to mend, each once.
    let names = || {
        let open = found
            .iter()
            .filter(|one| matches!(one.state, State::Wrong | State::Unknown));
        let mut names: Vec<String> = open.map(|one| one.check.to_owned()).collect();
        names.dedup();
        names
    };
    args.output
        .print(&found, |output| text(&found, output.is_wide), names)?;
    let wrong = found.iter().filter(|one| one.state == State::Wrong).count();
    let unknown = found.iter().filter(|one| one.state == State::Unknown).count();
    match (wrong, unknown) {
        (0, 0) => Ok(()),
        (0, unknown) => Err(CliError::Wrong(format!(
            "{} could not be made",
            doctor::counted(unknown, "check")
        ))),
        (wrong, _) => Err(CliError::Wrong(format!(
            "{} to fix",
            doctor::counted(wrong, "finding")
        ))),
    }
}

/// Checks that could not be made, from which on they are one line: they have one cause.
const ONE_CAUSE: usize = 3;

/// The findings, one after the other. Where many checks could not be made the cause is said once, unless all are asked for.
fn text(found: &[Finding], all: bool) -> String {
    // Whatever the terminal's width: what is wrong is told to its end.
    let layout = Layout {
        no_headers: true,
        ..Layout::default()
    };
    let mut table = Table::new(0, ["STATE", "CHECK", "MESSAGE"], layout);
    let unknown: Vec<&Finding> = found.iter().filter(|one| one.state == State::Unknown).collect();
    let folds = !all && unknown.len() >= ONE_CAUSE;
    for one in found.iter().filter(|one| !folds || one.state != State::Unknown) {
        add(&mut table, one, one.check, &one.message);
    }
    if let Some(first) = unknown.first().filter(|_| folds) {
        let mut checks: Vec<&str> = unknown.iter().map(|one| one.check).collect();
        checks.dedup();
        let message = format!(
            "could not be made (-o wide has each): {}; the first: {}",
            checks.join(", "),
            first.message
        );
        add(
            &mut table,
            first,
            &doctor::counted(unknown.len(), "check"),
            &message,
        );
    }
    table.text()
}

/// Adds a finding's row, and what mends it below its message.
fn add(table: &mut Table, finding: &Finding, check: &str, message: &str) {
    let (state, style) = match finding.state {
        State::Ok => ("ok", output::good()),
        State::Note => ("note", Style::new()),
        State::Wrong => ("WRONG", output::bad()),
        State::Unknown => ("UNKNOWN", output::bad()),
    };
    table.row([Cell::painted(state, style), check.into(), message.into()]);
    if let Some(cure) = &finding.cure {
        table.row(["".into(), "".into(), format!("→ {cure}").into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_checks_that_nobody_may_make_have_one_cause() {
        let unknown = |check| Finding {
            check,
            state: State::Unknown,
            message: format!("{check}: forbidden"),
            cure: Some("run it as cluster-admin".to_owned()),
        };
        let ok = Finding {
            check: "Version",
            state: State::Ok,
            message: "fine".to_owned(),
            cure: None,
        };
        let found = [ok, unknown("Leader"), unknown("Rules"), unknown("Runs")];
        let shown = |found: &[Finding], all| {
            let printed = crate::cli::say::printable(&text(found, all));
            anstream::adapter::strip_str(&printed).to_string()
        };
        let folded = shown(&found, false);
        assert_eq!(folded.matches("run it as cluster-admin").count(), 1, "{folded}");
        assert!(
            folded.contains("UNKNOWN   3 checks   could not be made")
                && folded.contains("Leader, Rules, Runs"),
            "{folded}"
        );
        assert!(
            folded.contains("Leader: forbidden") && folded.contains("Version"),
            "{folded}"
        );
        assert_eq!(shown(&found, true).matches("→").count(), 3, "-o wide has each");
        // One or two are told as they are.
        assert_eq!(shown(&found[..3], false).matches("→").count(), 2);
    }

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
        let shown =
            anstream::adapter::strip_str(&crate::cli::say::printable(&text(&found, false))).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "ok      Leader    numo-1 leads");
        assert_eq!(lines[1], "WRONG   Webhook   it does not answer");
        assert_eq!(lines[2], "                  → look at it");
    }

    #[test]
    fn a_long_message_is_told_to_its_end_on_one_line() {
        let found = [Finding {
            check: "Registries",
            state: State::Wrong,
            message: "word ".repeat(500) + "end\nof it",
            cure: None,
        }];
        let shown = text(&found, false);
        assert!(
            shown.ends_with("end of it\n") && shown.lines().count() == 1,
            "{shown}"
        );
    }
}
