//! Selectors as `kubectl -l` and `--field-selector` take them. Selects nothing itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Reads a selector: `a=b`, `a==b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a`, `!a`, separated by commas.
pub fn parse(given: &str) -> Result<LabelSelector, String> {
    let wrong = |part: &str| {
        format!("found {part:?}, wanted a=b, a!=b, a in (b, c), a notin (b), a or !a, separated by commas")
    };
    let parts = parts(given).ok_or_else(|| wrong(given))?;
    let all = parts
        .iter()
        .map(|part| requirement(part).ok_or_else(|| wrong(part)));
    let expressions = all.collect::<Result<Vec<_>, _>>()?;
    Ok(LabelSelector {
        match_expressions: Some(expressions),
        match_labels: None,
    })
}

/// What is wrong with a label selector as the API server takes it: it knows numbers that are compared, too.
pub fn wrong_labels(given: &str) -> Option<String> {
    if given.trim().is_empty() {
        return None;
    }
    let is_compared = |part: &str| {
        let (key, number) = part.split_once(['<', '>'])?;
        number.trim().parse::<i64>().ok()?;
        requirement(key)
    };
    let Some(parts) = parts(given) else {
        return parse(given).err();
    };
    let mut parts = parts.iter();
    parts.find_map(|part| is_compared(part).map_or_else(|| parse(part).err(), |_| None))
}

/// What is wrong with a field selector.
pub fn wrong_fields(given: &str) -> Option<String> {
    let plain = given.replace("\\\\", "").replace("\\,", "");
    let mut terms = plain.split(',').filter(|term| !term.is_empty());
    let term = terms.find(|term| !term.contains('='))?;
    Some(format!(
        "found {term:?}, wanted a=b, a==b or a!=b, separated by commas"
    ))
}

/// The selector's parts: commas in parentheses do not separate.
fn parts(given: &str) -> Option<Vec<String>> {
    let (mut all, mut part, mut inside) = (Vec::new(), String::new(), false);
    for letter in given.chars() {
        match letter {
            ',' if !inside => all.push(std::mem::take(&mut part)),
            '(' if inside => return None,
            ')' if !inside => return None,
            _ => {
                inside = (inside || letter == '(') && letter != ')';
                part.push(letter);
            }
        }
    }
    all.push(part);
    (!inside).then_some(all)
}

fn requirement(part: &str) -> Option<LabelSelectorRequirement> {
    let part = part.trim();
    let of = |key: &str, operator: &str, values: Option<Vec<&str>>| {
        let key = key.trim();
        let values: Option<Vec<String>> = values.map(|values| {
            let values = values.into_iter().map(|value| value.trim().to_owned());
            values.collect()
        });
        let is_value = |value: &String| value.is_empty() || (value.len() <= 63 && is_name(value));
        let is_key = key.split('/').count() <= 2 && key.split('/').all(is_name);
        (is_key && values.iter().flatten().all(is_value)).then(|| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values,
        })
    };
    if let Some(set) = part.strip_suffix(')') {
        let (left, values) = set.split_once('(')?;
        let (key, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            _ => return None,
        };
        return of(key, operator, Some(values.split(',').collect()));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, "NotIn", Some(vec![value]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return of(key, "In", Some(vec![value]));
    }
    match part.strip_prefix('!') {
        Some(key) => of(key, "DoesNotExist", None),
        None => of(part, "Exists", None),
    }
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let ends = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    text.chars().all(inner) && ends(text.chars().next()) && ends(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(given: &str) -> Result<String, String> {
        let parsed = parse(given)?;
        let words = parsed
            .match_expressions
            .unwrap_or_default()
            .into_iter()
            .map(|one| {
                let values = one
                    .values
                    .map(|values| format!("[{}]", values.join(" ")))
                    .unwrap_or_default();
                format!("{} {}{values}", one.key, one.operator)
            });
        Ok(words.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn selectors_are_kubectls() {
        let wanted = "zone In[a]; x.io/y NotIn[b]; z In[c d]; q NotIn[e]; there Exists; gone DoesNotExist";
        assert_eq!(
            said("zone=a,x.io/y!=b,z in (c, d),q notin(e), there ,!gone").as_deref(),
            Ok(wanted)
        );
        assert_eq!(said("a==b").as_deref(), Ok("a In[b]"));
        assert_eq!(said("a=").as_deref(), Ok("a In[]"));
        for bad in [
            "", ",", "a=b=c", "a in b", "a in (b", "(a)", "a b", "-a=b", "a/b/c", "a=b,,c",
        ] {
            assert!(parse(bad).is_err_and(|why| why.contains("wanted a=b")), "{bad}");
        }
    }

    #[test]
    fn what_the_api_server_would_refuse_is_wrong() {
        for good in [
            "",
            " ",
            "a",
            "!a,b=c",
            "a in (b,)",
            "a = b",
            "n>5, m < 7",
            "x.io/y notin(z)",
        ] {
            assert_eq!(wrong_labels(good), None, "{good}");
        }
        for bad in ["a in (", "a in b", "a=b,,c", "a>b", "a=b=c", "a b"] {
            assert!(wrong_labels(bad).is_some(), "{bad}");
        }
        for good in ["", "metadata.name=a", "a!=b,c==d", "a=b\\,c"] {
            assert_eq!(wrong_fields(good), None, "{good}");
        }
        for bad in ["metadata.name", "a=b,c"] {
            assert!(wrong_fields(bad).is_some(), "{bad}");
        }
    }
}
