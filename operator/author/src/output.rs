//! How what a verb found or wrote is printed.

use clap::Args;
use numo_api::text;
use numo_cli::{CliError, Format};

/// How to print.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Format of the output: json, yaml, jsonpath=…, go-template=…, custom-columns=… [default: human-readable]
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

    /// Prints an object of a cluster: the words for people, its name or the object for programs.
    pub(crate) fn say_object(&self, words: &str, object: &serde_json::Value) -> Result<(), CliError> {
        match &self.output {
            None | Some(Format::Wide) => print!("{words}"),
            Some(Format::Name) => println!("{}", text::line(&name(object))),
            Some(_) => self.print(object)?,
        }
        Ok(())
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

/// An object as kubectl names it.
fn name(object: &serde_json::Value) -> String {
    let word = |pointer: &str| {
        let found = object.pointer(pointer).and_then(serde_json::Value::as_str);
        found.unwrap_or_default()
    };
    let group = word("/apiVersion").rsplit_once('/').map(|(group, _)| group);
    let group = group.map_or_else(String::new, |group| format!(".{group}"));
    format!(
        "{}{group}/{}",
        word("/kind").to_lowercase(),
        word("/metadata/name")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let object =
            |version: &str| json!({"apiVersion": version, "kind": "MutexRule", "metadata": {"name": "disk"}});
        assert_eq!(name(&object("a.example/v1")), "mutexrule.a.example/disk");
        assert_eq!(name(&object("v1")), "mutexrule/disk");
    }
}
