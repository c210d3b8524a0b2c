//! How what a verb found or wrote is printed.

use clap::Args;
use numo_cli::{CliError, Format};

/// How to print.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Format of the output: json, yaml, jsonpath=…, go-template=…, custom-columns=… [default: for people]
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl OutputArgs {
    /// Whether it is printed for people, while it happens.
    pub(crate) fn is_text(&self) -> bool {
        self.output.as_ref().is_none_or(Format::is_wide)
    }

    /// Prints what came of it: the words for people, the value for programs.
    pub(crate) fn say(&self, words: &str, value: &serde_json::Value) -> Result<(), CliError> {
        if self.is_text() {
            println!("{words}");
            return Ok(());
        }
        self.print(value)
    }

    /// Prints what came of it, for programs.
    pub(crate) fn print(&self, value: &serde_json::Value) -> Result<(), CliError> {
        let format = self.output.as_ref().unwrap_or(&Format::Json);
        let Some(text) = format.document(value)? else {
            return Err(CliError::Usage(
                "-o name: a component is no object of a cluster; wanted json, yaml, jsonpath=…, go-template=… or custom-columns=…".to_owned(),
            ));
        };
        print!("{text}");
        Ok(())
    }
}
