//! Puts what numo knows of a step into a text of a rule: `${node}`, `${pool}`, `${fromVersion}`, `${toVersion}`,
//! `${run}`. What is not known is an error, never an empty text.

use numo_core::action::EvaluationRequest;

const NAMES: [&str; 5] = ["node", "pool", "fromVersion", "toVersion", "run"];

/// What is wrong with the names in a text, if anything.
pub fn fault(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Some("found ${ without }, wanted for example ${node}".to_owned());
        };
        if !NAMES.contains(&name) {
            return Some(format!(
                "found ${{{name}}}, wanted one of ${{{}}}",
                NAMES.join("}, ${")
            ));
        }
        rest = after;
    }
    None
}

/// The text with a letter for every name: what can be read then can be read with each fact that may stand there.
pub fn sample(text: &str) -> String {
    let with = |text: String, name: &&str| text.replace(&format!("${{{name}}}"), "x");
    NAMES.iter().fold(text.to_owned(), with)
}

/// Makes a fact safe where it stands; none where it cannot be.
pub type Quote = fn(&str) -> Option<String>;

/// The text with every name replaced; `quote` makes a fact safe where it stands.
///
/// Errors: a fact is not known in this phase, or cannot stand there; the text names it.
pub fn fill(text: &str, request: &EvaluationRequest, quote: Quote) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let fact = match name {
            "node" => &request.node,
            "pool" => &request.pool,
            "fromVersion" => &request.from_version,
            "toVersion" => &request.to_version,
            "run" => &request.run,
            _ => "",
        };
        if fact.is_empty() {
            return Err(format!(
                "${{{name}}} is not known in phase {}",
                request.phase.name()
            ));
        }
        let quoted = quote(fact).ok_or_else(|| format!("${{{name}}} cannot stand here: it is {fact:?}"))?;
        filled.push_str(&quoted);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Quotes a fact for a double-quoted string of PromQL.
pub fn in_promql(fact: &str) -> Option<String> {
    let quoted = fact.replace('\\', "\\\\");
    Some(quoted.replace('"', "\\\"").replace('\n', "\\n"))
}

/// For a selector, where names of nodes, pools and versions need no quotes. Left out, a character would make it another
/// selector, and a list of nothing satisfies all that is asked of each.
pub fn in_selector(fact: &str) -> Option<String> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._/+".contains(c);
    fact.chars().all(harmless).then(|| fact.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::Key;

    fn request() -> EvaluationRequest {
        EvaluationRequest {
            key: String::new(),
            rule: Key::new("numo", "rule"),
            rule_uid: String::new(),
            generation: 1,
            phase: numo_api::Phase::Pre,
            attempt: 1,
            owner: numo_core::Owner::run(Key::new("numo", "run")),
            node: "worker-\"0".to_owned(),
            node_uid: String::new(),
            pool: String::new(),
            from_version: "4.16.4".to_owned(),
            to_version: "4.17.0".to_owned(),
            run: "run-1".to_owned(),
            history: Vec::new(),
        }
    }

    #[test]
    fn facts_are_quoted_for_their_place() {
        let filled = fill(r#"up{node="${node}"} > ${run}"#, &request(), in_promql);
        assert_eq!(filled.unwrap(), r#"up{node="worker-\"0"} > run-1"#);
        let filled = fill("spec.version=${toVersion}", &request(), in_selector);
        assert_eq!(filled.unwrap(), "spec.version=4.17.0");
        let error = fill("spec.nodeName=${node}", &request(), in_selector).unwrap_err();
        assert!(error.contains("${node} cannot stand here"), "{error}");
    }

    #[test]
    fn what_is_not_known_is_no_empty_text() {
        let error = fill("pool=${pool}", &request(), in_selector).unwrap_err();
        assert!(error.contains("${pool}") && error.contains("Pre"), "{error}");
        assert!(fault("${nod}").unwrap().contains("${nod}"));
        assert!(fault("${node").is_some());
        assert_eq!(fault("$node {} ${node}"), None);
    }
}
