//! The operator's log.

use super::args::{LogFormat, RunArgs};
use crate::cli::{error::CliError, log::Log};

pub(super) fn start_log(args: &RunArgs) -> Result<(), CliError> {
    // The client logs whole bodies that it cannot read, and they are strangers'.
    let quiet = if args.log.contains("kube_client") {
        ""
    } else {
        ",kube_client::client=error"
    };
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{}{quiet}", args.log))
        .map_err(|error| CliError::Wrong(format!("--log {}: {error}", args.log)))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // What steers a terminal is escaped, whoever wrote it.
        .with_ansi(false)
        .with_writer(|| Log);
    let started = match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    started.map_err(|error| CliError::Wrong(format!("cannot log: {error}")))
}
