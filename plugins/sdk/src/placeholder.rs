//! Puts facts of the evaluation into a configured text: `${node}`, `${pool}`, `${fromVersion}`,
//! `${toVersion}`, `${run}`. A fact that is missing is an error, never an empty text.

use crate::{Input, RuleError, verdict::failed};

pub use numo_percent::in_url;

const NAMES: [&str; 5] = ["node", "pool", "fromVersion", "toVersion", "run"];

/// What is wrong with the placeholders of a text, if anything.
pub fn fault(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Some("a placeholder has no end".into());
        };
        if !NAMES.contains(&name) {
            return Some(format!(
                "unknown placeholder ${{{name}}}; known are {}",
                NAMES.join(", ")
            ));
        }
        rest = after;
    }
    None
}

/// The text with every placeholder replaced; `quote` makes a fact safe for its place.
pub fn fill(text: &str, input: &Input, quote: fn(&str) -> String) -> Result<String, RuleError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(failed("a placeholder has no end"));
        };
        let fact = match name {
            "node" => input.node.as_ref().map(|node| node.name.as_str()),
            "pool" => input.pool.as_deref(),
            "fromVersion" => input.from_version.as_deref(),
            "toVersion" => input.to_version.as_deref(),
            "run" => Some(input.run.as_str()),
            _ => None,
        };
        let Some(fact) = fact else {
            return Err(failed(format!(
                "${{{name}}} is not known in phase {:?} of this owner",
                input.phase
            )));
        };
        filled.push_str(&quote(fact));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Quotes a fact for a double-quoted PromQL string.
pub fn in_promql(fact: &str) -> String {
    fact.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::input;

    #[test]
    fn facts_are_filled_in_and_quoted() {
        let mut input = input("pre", "{}");
        input.pool = Some("a\"b\\ c/é".into());
        assert_eq!(
            fill("up{n=\"${node}\"}", &input, in_promql).unwrap(),
            "up{n=\"w1\"}"
        );
        assert_eq!(fill("\"${pool}\"", &input, in_promql).unwrap(), r#""a\"b\\ c/é""#);
        assert_eq!(
            fill("${node}${node}/${pool}", &input, in_url).unwrap(),
            "w1w1/a%22b%5C%20c%2F%C3%A9"
        );
        assert_eq!(fill("none $ {node}", &input, in_url).unwrap(), "none $ {node}");
    }

    #[test]
    fn a_missing_fact_is_an_error() {
        let mut without = input("pre-run", "{}");
        without.node = None;
        assert!(fill("${node}", &without, in_promql).is_err());
        assert!(fill("${toVersion}", &without, in_promql).is_err());
    }

    #[test]
    fn unknown_placeholders_are_found() {
        assert_eq!(fault("a ${node} b ${pool}"), None);
        assert_eq!(fault("rate(x[5m]) {a=~\"^b$\"}"), None);
        assert!(fault("${host}").is_some());
        assert!(fault("${node").is_some());
    }
}
