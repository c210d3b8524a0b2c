//! The formats of `-o`, as kubectl has them: `json`, `yaml`, `wide`, `name`, `jsonpath`, `go-template` and `custom-columns`, the last three
//! also from a file.

use crate::{columns::Columns, error::CliError, jsonpath::Template, say, template::GoTemplate};
use numo_api::text;
use serde::Serialize;
use std::{fmt, str::FromStr, sync::Arc};

/// What `-o` takes, in the help of a verb that reads.
pub const FORMATS: &str = "json|yaml|wide|name|jsonpath=…|jsonpath-file=…|go-template=…|go-template-file=…|custom-columns=…|custom-columns-file=…";

/// What `-o` takes where objects are printed or written, and no table of them could be wide.
pub const FORMATS_OF_OBJECTS: &str = "json|yaml|name|jsonpath=…|jsonpath-file=…|go-template=…|go-template-file=…|custom-columns=…|custom-columns-file=…";

/// A format of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// The table with everything.
    Wide,
    /// Names only, as kubectl takes them.
    Name,
    /// What a template of JSONPath expressions finds in the JSON document.
    JsonPath(Arc<Template>),
    /// What a template of Go makes of the JSON document.
    GoTemplate(Arc<GoTemplate>),
    /// A table with columns of one's own.
    Columns(Arc<Columns>),
}

impl FromStr for Format {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::known(given)?.ok_or_else(|| format!("found format {given:?}, wanted {FORMATS}"))
    }
}

fn example(name: &str) -> &'static str {
    match name {
        "jsonpath" => "'{.owners[*].name}'",
        "go-template" => "'{{range .owners}}{{.name}} {{end}}'",
        "custom-columns" => "NAME:.name,REASON:.reason",
        _ => "FILE",
    }
}

impl Format {
    /// A format for objects: all but `wide`.
    ///
    /// # Errors
    /// If it is another, or has a value that cannot be meant.
    pub fn of_objects(given: &str) -> Result<Self, String> {
        let known = Self::known(given)?.filter(|format| !format.is_wide());
        known.ok_or_else(|| format!("found format {given:?}, wanted {FORMATS_OF_OBJECTS}"))
    }

    /// The format of this name; none if there is none.
    fn known(given: &str) -> Result<Option<Self>, String> {
        let (name, value) = match given.split_once('=') {
            None => (given, None),
            Some((name, value)) => (name, Some(value)),
        };
        let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        Ok(Some(match (name, value) {
            ("json", None) => Self::Json,
            ("yaml", None) => Self::Yaml,
            ("wide", None) => Self::Wide,
            ("name", None) => Self::Name,
            (
                "jsonpath"
                | "jsonpath-file"
                | "go-template"
                | "go-template-file"
                | "custom-columns"
                | "custom-columns-file",
                None,
            ) => {
                return Err(format!("{name} needs a value: -o {name}={}", example(name)));
            }
            ("jsonpath", Some(text)) => Self::JsonPath(Arc::new(text.parse()?)),
            ("jsonpath-file", Some(path)) => Self::JsonPath(Arc::new(read(path)?.parse()?)),
            ("custom-columns", Some(text)) => Self::Columns(Arc::new(text.parse()?)),
            ("custom-columns-file", Some(path)) => Self::Columns(Arc::new(Columns::of_file(&read(path)?)?)),
            ("go-template", Some(text)) => Self::GoTemplate(Arc::new(text.parse()?)),
            ("go-template-file", Some(path)) => Self::GoTemplate(Arc::new(read(path)?.parse()?)),
            _ => return Ok(None),
        }))
    }

    /// The document in this format, as text that can be printed; none for those that only a verb can make: `wide` and `name`.
    pub fn document<T: Serialize + ?Sized>(&self, found: &T) -> Result<Option<String>, CliError> {
        let unprintable =
            |error: &dyn fmt::Display| CliError::Wrong(format!("this cannot be printed: {error}"));
        let value = || serde_json::to_value(found).map_err(|error| unprintable(&error));
        let json = || {
            let mut json = serde_json::to_string_pretty(found).map_err(|error| unprintable(&error))?;
            json.push('\n');
            Ok::<_, CliError>(say::json(&json))
        };
        Ok(Some(match self {
            Self::Wide | Self::Name => return Ok(None),
            Self::Json => json()?,
            Self::Yaml => {
                let yaml = serde_saphyr::to_string(&found).map_err(|error| unprintable(&error))?;
                if text::lines(&yaml) == yaml {
                    yaml
                } else {
                    // JSON is YAML as well, and every character has an escape in it.
                    json()?
                }
            }
            Self::JsonPath(template) => template.render(&value()?).map_err(CliError::Usage)?,
            Self::GoTemplate(template) => template.render(&value()?).map_err(CliError::Usage)?,
            Self::Columns(columns) => columns.table(&value()?)?,
        }))
    }

    /// Whether it is for people: a table with everything.
    pub fn is_wide(&self) -> bool {
        *self == Self::Wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(format: &str) -> String {
        let format: Format = format.parse().unwrap();
        let document = json!([
            {"name": "a", "reason": "RuleWaits", "labels": {"app.example/x": "y"}, "number": 3},
            {"name": "b\nc", "number": null},
        ]);
        format.document(&document).unwrap().unwrap()
    }

    #[test]
    fn programs_get_what_they_ask_for() {
        assert!(shown("json").starts_with("[\n"));
        assert!(shown("yaml").starts_with('-'));
        assert_eq!(shown("jsonpath={[*].name}"), "a b c");
        assert_eq!(shown("go-template={{range .}}{{.name}},{{end}}"), "a,b c,");
        assert_eq!(
            shown("custom-columns=NAME:.name,WHY:.reason,X:.labels.app\\.example/x,N:{.number}"),
            "NAME   WHY         X        N\na      RuleWaits   y        3\nb c    <none>      <none>   <none>\n"
        );
        assert_eq!(Format::Name.document(&json!([])).unwrap(), None);
    }

    #[test]
    fn a_format_that_is_not_there_says_which_are() {
        for (given, wanted) in [
            ("xml", "custom-columns"),
            ("jsonpath", "-o jsonpath='{"),
            ("jsonpath={.a", "no }"),
            ("jsonpath-file=/none/such", "/none/such"),
            ("custom-columns=NAME", "NAME:.path"),
            ("go-template", "-o go-template='{{"),
            ("go-template={{range .x}}", "without {{end}}"),
            ("go-template-file=/none/such", "/none/such"),
            ("json=x", "found format"),
        ] {
            let why = given.parse::<Format>().unwrap_err();
            assert!(why.contains(wanted), "{given}: {why}");
        }
    }

    #[test]
    fn objects_have_no_wide_table() {
        for given in ["wide", "xml", "Json"] {
            let why = Format::of_objects(given).unwrap_err();
            let wanted = format!("found format {given:?}, wanted json|yaml|name|jsonpath=…");
            assert!(why.starts_with(&wanted) && !why.contains("|wide|"), "{why}");
        }
        assert_eq!(Format::of_objects("yaml"), Ok(Format::Yaml));
        assert!(
            Format::of_objects("jsonpath")
                .unwrap_err()
                .contains("needs a value")
        );
    }
}
