//! `-o go-template`: Go's text/template, with kubectl's two functions more (`exists`, `base64decode`). As in kubectl numbers are floats:
//! `{{if gt .done 2.0}}`. A field that is not there is `<no value>`. What a template may do is bounded by the crate: depth, rounds of
//! `range`, widths of `printf`. Where Go prints 1.2e+07, all digits stand: 12000000.

use crate::quotes::unquoted;
use gotmpl::{Result as Outcome, Template, TemplateError, Value as Item};
use numo_api::text;
use serde_json::Value;
use std::{fmt, str::FromStr};

/// The longest text that a template may make (bytes): a `range` in a `range` could fill the memory.
const LONGEST: usize = 64 << 20;

/// A template that was read and can be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoTemplate(String);

impl FromStr for GoTemplate {
    type Err = String;

    fn from_str(source: &str) -> Result<Self, String> {
        parsed(source)?;
        Ok(Self(source.to_owned()))
    }
}

impl GoTemplate {
    /// What it makes of a document.
    ///
    /// # Errors
    ///
    /// What the template asks for cannot be had: an index out of range, numbers compared with words, more than 64 MiB of text.
    pub fn render(&self, document: &Value) -> Result<String, String> {
        let mut made = Bounded::default();
        let rendered = parsed(&self.0)?.execute_fmt(&mut made, &item(document));
        if made.is_full {
            return Err("go-template: found more than 64 MiB of text, wanted less".to_owned());
        }
        rendered.map_err(|error| format!("go-template: {error}"))?;
        Ok(made.text)
    }
}

fn parsed(source: &str) -> Result<Template, String> {
    is_closed(source).map_err(|why| format!("go-template {source:?}: {why}"))?;
    Template::new("output")
        .func("exists", exists)
        .func("base64decode", base64decode)
        .parse(source)
        .map_err(|error| format!("go-template {source:?}: {error}"))
}

/// Whether each block ends: the crate takes the end of the text for a missing `{{end}}`, and leaves out what is too much of it.
fn is_closed(source: &str) -> Result<(), &'static str> {
    let mut open = 0_usize;
    let mut rest = source;
    while let Some((_, action)) = rest.split_once("{{") {
        let words = action.trim_start_matches('-').trim_start();
        let word: &str = words
            .split(|letter: char| !letter.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        match word {
            "if" | "range" | "with" | "define" | "block" => open += 1,
            "end" => {
                open = open
                    .checked_sub(1)
                    .ok_or("found {{end}} without {{if}}, {{range}} or {{with}}")?;
            }
            "else" if open == 0 => return Err("found {{else}} without {{if}}, {{range}} or {{with}}"),
            _ => {}
        }
        rest = after_action(words);
    }
    if open == 0 {
        Ok(())
    } else {
        Err("found {{if}}, {{range}} or {{with}} without {{end}}")
    }
}

/// What stands after an action; braces in quotes and comments do not end it.
fn after_action(action: &str) -> &str {
    if action.starts_with("/*") {
        return action.split_once("*/").map_or("", |(_, rest)| rest);
    }
    let ends = |(at, _): &(usize, char)| action[*at..].starts_with("}}");
    let end = unquoted(action, &['"', '\'', '`']).find(ends);
    end.map_or("", |(at, _)| &action[at + 2..])
}

/// What was made so far, up to the bound.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.is_full = self.text.len() + more.len() > LONGEST;
        if self.is_full {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// A value for the template: text as it can be shown, on one line, and every number as a float, as Go reads JSON.
fn item(value: &Value) -> Item {
    match value {
        Value::Null => Item::Nil,
        Value::Bool(is) => Item::Bool(*is),
        Value::Number(number) => Item::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(words) => Item::String(text::line(words).into()),
        Value::Array(all) => Item::List(all.iter().map(item).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (text::line(name).into(), item(value)));
            Item::Map(std::sync::Arc::new(fields.collect()))
        }
    }
}

/// `exists . "metadata" "labels" "a"`: whether there is something at the end of the path.
fn exists(given: &[Item]) -> Outcome<Item> {
    let [first, path @ ..] = given else {
        return Err(TemplateError::Exec(
            "exists: found no argument, wanted a value and a path".to_owned(),
        ));
    };
    let mut current = first;
    for step in path {
        let next = match (current, step) {
            (Item::Map(fields), Item::String(name)) => fields.get(name),
            (Item::List(all), Item::Int(place)) => {
                usize::try_from(*place).ok().and_then(|place| all.get(place))
            }
            _ => None,
        };
        let Some(next) = next else {
            return Ok(Item::Bool(false));
        };
        current = next;
    }
    Ok(Item::Bool(!matches!(current, Item::Nil)))
}

/// `base64decode .data.password`: the text that was encoded, as far as it can be shown.
fn base64decode(given: &[Item]) -> Outcome<Item> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let [Item::String(encoded)] = given else {
        return Err(TemplateError::Exec("base64decode: wanted one text".to_owned()));
    };
    let bytes = BASE64_STANDARD.decode(encoded.as_bytes());
    let bytes = bytes.map_err(|error| TemplateError::Exec(format!("base64decode: {error}")))?;
    Ok(Item::String(text::lines(&String::from_utf8_lossy(&bytes)).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(template: &str) -> Result<String, String> {
        let document = json!({
            "owners": [
                {"name": "a", "done": 3, "reason": "RuleWaits", "labels": {"example.com/zone": "x"}, "secret": "aGk="},
                {"name": "b\u{1b}[2J", "done": 2.5, "reason": null},
            ],
        });
        template.parse::<GoTemplate>()?.render(&document)
    }

    /// Each was printed by text/template of Go 1.26 for the same document, but for the second name, which could steer a terminal.
    #[test]
    fn templates_are_gos() {
        for (template, wanted) in [
            ("{{range .owners}}{{.name}} {{end}}", "a b\u{fffd}[2J "),
            (
                "{{range $at, $one := .owners}}{{$at}}={{$one.done}}{{\"\\n\"}}{{end}}",
                "0=3\n1=2.5\n",
            ),
            ("{{.missing}}", "<no value>"),
            ("{{(index .owners 1).reason}}", "<no value>"),
            ("{{with .missing}}some{{else}}none{{end}}", "none"),
            ("{{range .missing}}some{{else}}none{{end}}", "none"),
            ("{{index (index .owners 0).labels \"example.com/zone\"}}", "x"),
            (
                "{{len .owners}} {{if gt (index .owners 0).done 2.0}}many{{end}}",
                "2 many",
            ),
            ("{{printf \"%-4s|%5.1f|%v\" \"ab\" 1.25 true}}", "ab  |  1.2|true"),
            (
                "{{range .owners -}} {{if eq .reason \"RuleWaits\"}}{{.name}}{{break}}{{end}} {{- end}}.",
                "a.",
            ),
            ("{{$sum := 1}}{{$sum = 2}}{{$sum}}", "2"),
            (
                "{{define \"one\"}}<{{.}}>{{end}}{{range .owners}}{{template \"one\" .done}}{{end}}",
                "<3><2.5>",
            ),
            ("{{(index .owners 0).labels}}", "map[example.com/zone:x]"),
            ("{{/* {{end}} */}}{{print \"{{end}}\"}}", "{{end}}"),
            ("{{if true}}{{\"}}\"}}{{`}}`}}{{end}}", "}}}}"),
        ] {
            assert_eq!(made(template).as_deref(), Ok(wanted), "{template}");
        }
    }

    #[test]
    fn kubectls_functions_are_there() {
        for (template, wanted) in [
            ("{{base64decode (index .owners 0).secret}}", "hi"),
            (
                "{{exists . \"owners\" 0 \"labels\"}} {{exists . \"owners\" 7}}",
                "true false",
            ),
        ] {
            assert_eq!(made(template).as_deref(), Ok(wanted), "{template}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_said_and_ends() {
        for (template, wanted) in [
            ("{{range .owners}}", "without {{end}}"),
            ("{{end}}", "found {{end}}"),
            ("{{- else}}", "found {{else}}"),
            ("{{.a", "unclosed action"),
            ("{{\\}}{{end}}", "unexpected character"),
            ("{{nothing .}}", "undefined function: nothing"),
            ("{{index .owners 5}}", "out of range"),
            (
                "{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
                "recursion",
            ),
            ("{{range 9000000}}{{printf \"%60000d\" 1}}{{end}}", "64 MiB"),
            ("{{base64decode 1}}", "one text"),
            ("{{exists}}", "a path"),
        ] {
            let why = made(template).unwrap_err();
            assert!(why.contains(wanted), "{template}: {why}");
        }
    }
}
