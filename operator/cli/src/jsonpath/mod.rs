//! `-o jsonpath`: kubectl's templates. Text outside of braces stands as it is; `{.a.b}` is what an expression finds,
//! `{range .list[*]}…{end}` repeats, `{"\n"}` is text with escapes.
//!
//! Not taken, and said so: unions of paths (`['metadata.name', 'status.phase']`).

mod expression;

pub use expression::Expression;

use crate::quotes::unquoted;
use numo_api::text;
use serde_json::Value;
use std::str::FromStr;

/// A template of text and expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Found(Expression),
    Range(Expression, Vec<Part>),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        // Ranges that are open: what stands before each, and its expression.
        let mut open: Vec<(Vec<Part>, Expression)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = given;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let (action, after) = closed(after).ok_or_else(|| wrong(given, "an action has no }"))?;
            rest = after;
            if action == "end" {
                let (outer, expression) = open.pop().ok_or_else(|| wrong(given, "{end} without {range}"))?;
                let inner = std::mem::replace(&mut parts, outer);
                parts.push(Part::Range(expression, inner));
            } else if let Some(path) = action.strip_prefix("range ") {
                open.push((std::mem::take(&mut parts), path.trim().parse()?));
            } else if action.starts_with(['"', '\'']) {
                let words = literal(action).ok_or_else(|| wrong(given, "text in quotes that do not end"))?;
                parts.push(Part::Text(words));
            } else {
                parts.push(Part::Found(action.parse()?));
            }
        }
        if !open.is_empty() {
            return Err(wrong(given, "{range} without {end}"));
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            return Err(wrong(given, "no expression in braces, such as {.a.b}"));
        }
        Ok(Self(parts))
    }
}

fn wrong(given: &str, what: &str) -> String {
    format!("jsonpath {given:?}: found {what}")
}

/// What stands before the brace that closes an action, and after it: braces in quotes close nothing.
fn closed(text: &str) -> Option<(&str, &str)> {
    let (index, _) = unquoted(text, &['"', '\'']).find(|(_, letter)| *letter == '}')?;
    Some((text[..index].trim(), &text[index + 1..]))
}

/// The words of text in quotes, with Go's usual escapes.
fn literal(text: &str) -> Option<String> {
    let quote = text.chars().next()?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let (mut words, mut letters) = (String::new(), inner.chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            words.push(letter);
            continue;
        }
        words.push(match letters.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            other => other,
        });
    }
    Some(words)
}

impl Template {
    /// What it makes of a document.
    pub fn render(&self, document: &Value) -> Result<String, String> {
        let mut text = String::new();
        render(&self.0, document, document, &mut text)?;
        Ok(text)
    }
}

fn render(parts: &[Part], document: &Value, current: &Value, text: &mut String) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(words) => text.push_str(words),
            Part::Found(expression) => {
                let found = expression.find(document, current)?;
                let found: Vec<String> = found.into_iter().map(shown).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(expression, inner) => {
                for one in expression.find(document, current)? {
                    render(inner, document, one, text)?;
                }
            }
        }
    }
    Ok(())
}

/// A value as kubectl prints it: text as it is, on one line, and everything else as JSON; nothing for null.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(words) => text::line(words).into_owned(),
        other => crate::say::json(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(template: &str) -> String {
        let document = json!({
            "kind": "List",
            "items": [
                {"metadata": {"name": "a", "labels": {"example.com/zone": "x"}}, "ready": true, "number": 3, "status": {
                    "conditions": [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "False"}]}},
                {"metadata": {"name": "b"}, "ready": false, "number": 5},
            ],
        });
        template.parse::<Template>().unwrap().render(&document).unwrap()
    }

    #[test]
    fn templates_are_kubectls() {
        for (template, wanted) in [
            ("{.kind}", "List"),
            ("{$.kind} {@.kind}", "List List"),
            ("{.items[*].metadata.name}", "a b"),
            ("{.items[0].metadata.name}{\"\\n\"}", "a\n"),
            ("{.items[-1:].metadata.name}", "b"),
            ("{.items[0,1].number}", "3 5"),
            ("{.items[0].metadata.labels.example\\.com/zone}", "x"),
            ("{.items[0].metadata.labels['example\\.com/zone']}", "x"),
            (
                "{.items[0].status.conditions[?(@.type==\"Ready\")].status}",
                "False",
            ),
            ("{.items[?(@.number>4)].metadata.name}", "b"),
            ("{.items[?(@.ready==true)].metadata['name']}", "a"),
            (
                "{.items[?(@.metadata.labels.example\\.com/zone=='x')].number}",
                "3",
            ),
            ("{..name}", "a b"),
            (
                "{range .items[*]}{.metadata.name}={@.number}{';'}{end}",
                "a=3;b=5;",
            ),
            ("{.items[1].metadata}", "{\"name\":\"b\"}"),
            ("{.nothing.at.all}", ""),
            ("{[\"kind\"]}", "List"),
            ("names: {.items[*]['metadata'].name}.", "names: a b."),
        ] {
            assert_eq!(made(template), wanted, "{template}");
        }
    }

    #[test]
    fn what_is_no_template_says_why() {
        for (template, wanted) in [
            ("{.a", "no }"),
            ("{end}", "without {range}"),
            ("{range .a[*]}", "without {end}"),
            (".metadata.name", "in braces"),
            ("{.a[}", "]"),
            ("{.a['b', 'c.d']}", "union"),
            ("{.a[x]}", "\"x\""),
            ("{foo bar}", "foo"),
            ("{.a[?(@.b=1)]}", "@.b=1"),
        ] {
            let why = template.parse::<Template>().unwrap_err();
            assert!(why.contains(wanted), "{template}: {why}");
        }
    }
}
