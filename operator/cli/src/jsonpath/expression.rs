//! One expression in kubectl's dialect, made into RFC 9535, which is what finds. The dialect has no `$` before a path, escapes dots in
//! keys (`.labels.example\.com/zone`), and has parentheses around a filter.

use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use serde_json::Value;
use std::{iter::Peekable, str::Chars, str::FromStr};

/// An expression. It begins at the document (`$`) or at the object of a range.
#[derive(Clone, Debug)]
pub struct Expression {
    given: String,
    from_root: bool,
    query: JpQuery,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
    }
}

impl Eq for Expression {}

impl FromStr for Expression {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let mut letters = given.chars().peekable();
        let path = path(&mut letters, None).and_then(|path| match letters.next() {
            None => Ok(path),
            Some(letter) => Err(format!("found {letter:?}, wanted . or [")),
        });
        let path = path.map_err(|why| format!("jsonpath {given:?}: {why}"))?;
        let query = parse_json_path(&format!("${path}"))
            .map_err(|_| format!("jsonpath {given:?}: it cannot be understood"))?;
        Ok(Self {
            given: given.to_owned(),
            from_root: given.starts_with('$'),
            query,
        })
    }
}

impl Expression {
    /// As columns take it: with or without braces, and with or without the first dot.
    pub fn relaxed(given: &str) -> Result<Self, String> {
        let inner = given.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let path = inner.unwrap_or(given);
        if path.starts_with(['.', '[', '$', '@']) {
            path.parse()
        } else {
            format!(".{path}").parse()
        }
    }

    /// What it finds; nothing where a key is missing, as in kubectl.
    pub fn find<'v>(&self, document: &'v Value, current: &'v Value) -> Result<Vec<&'v Value>, String> {
        let from = if self.from_root { document } else { current };
        let found = js_path_process(&self.query, from)
            .map_err(|_| format!("jsonpath {:?}: it cannot be evaluated", self.given))?;
        Ok(found
            .into_iter()
            .map(jsonpath_rust::query::QueryRef::val)
            .collect())
    }
}

/// Letters that end a key besides `.` and `[`: within a filter also what may follow a path there.
fn ends(letter: char, within: Option<&str>) -> bool {
    matches!(letter, '.' | '[' | ']')
        || letter.is_whitespace()
        || within.is_some_and(|more| more.contains(letter))
}

/// What may follow a path in a filter.
const IN_FILTER: &str = "=!<>&|),";

/// Reads a path; what follows it stays.
fn path(letters: &mut Peekable<Chars<'_>>, within: Option<&str>) -> Result<String, String> {
    let mut path = String::new();
    if matches!(letters.peek(), Some('$' | '@')) {
        letters.next();
    }
    loop {
        match letters.peek().copied() {
            Some('.') => {
                letters.next();
                let deep = letters.next_if_eq(&'.').is_some();
                if deep {
                    path.push_str("..");
                }
                match letters.peek().copied() {
                    Some('*') => {
                        letters.next();
                        path.push_str("[*]");
                    }
                    Some('[') => {}
                    Some(letter) if !ends(letter, within) => path.push_str(&quoted(&key(letters, within)?)),
                    // The document itself.
                    _ if path.is_empty() && !deep => {}
                    _ => return Err("found no key after .".to_owned()),
                }
            }
            Some('[') => {
                letters.next();
                path.push_str(&selector(&bracketed(letters)?)?);
            }
            _ => return Ok(path),
        }
    }
}

/// A key: an escaped letter is one of it.
fn key(letters: &mut Peekable<Chars<'_>>, within: Option<&str>) -> Result<String, String> {
    let mut key = String::new();
    while let Some(letter) = letters.next_if(|letter| !ends(*letter, within)) {
        match letter {
            '\\' => key.push(letters.next().ok_or("found nothing after \\")?),
            letter => key.push(letter),
        }
    }
    Ok(key)
}

/// A key as RFC 9535 has it.
fn quoted(key: &str) -> String {
    format!("['{}']", key.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// What stands up to the bracket that closes.
fn bracketed(letters: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let (mut inner, mut depth, mut quote) = (String::new(), 0_u32, None);
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => {
                inner.push(letter);
                inner.extend(letters.next());
                continue;
            }
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Ok(inner.trim().to_owned()),
            (']', None) => depth -= 1,
            _ => {}
        }
        inner.push(letter);
    }
    Err("found no ]".to_owned())
}

/// What stands in brackets, as RFC 9535 has it.
fn selector(inner: &str) -> Result<String, String> {
    if inner == "*" {
        return Ok("[*]".to_owned());
    }
    if let Some(filter) = inner.strip_prefix('?') {
        return Ok(format!("[?{}]", conditions(filter.trim())?));
    }
    let mut keys = Vec::new();
    let parts: Vec<&str> = split(inner);
    for part in &parts {
        let part = part.trim();
        let is_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | ':');
        if !part.is_empty() && part.chars().all(is_number) {
            keys.push(part.to_owned());
            continue;
        }
        let quote = part.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let text = quote.and_then(|quote| part.strip_prefix(quote)?.strip_suffix(quote));
        let text = text.ok_or_else(|| {
            format!("found {part:?} in brackets, wanted *, a number, a 'key' or a ?(filter)")
        })?;
        // In quotes, too, a dot that is not escaped parts two keys.
        let mut letters = text.chars().peekable();
        let mut path = vec![key(&mut letters, None)?];
        while letters.next_if_eq(&'.').is_some() {
            path.push(key(&mut letters, None)?);
        }
        if letters.next().is_some() {
            return Err(format!(
                "found {part:?} in brackets, wanted a key; other letters of it need a \\"
            ));
        }
        match path.as_slice() {
            [one] => keys.push(quoted(one).trim_matches(['[', ']']).to_owned()),
            path if parts.len() == 1 => return Ok(path.iter().map(|key| quoted(key)).collect()),
            _ => return Err(format!("a union takes keys, and {part:?} is a path")),
        }
    }
    Ok(format!("[{}]", keys.join(",")))
}

/// Parted by commas outside of quotes.
fn split(inner: &str) -> Vec<&str> {
    let mut quote = None;
    inner
        .split(|letter: char| {
            match quote {
                None if matches!(letter, '"' | '\'') => quote = Some(letter),
                Some(open) if open == letter => quote = None,
                _ => {}
            }
            letter == ',' && quote.is_none()
        })
        .collect()
}

/// A filter, with its paths in the way of RFC 9535.
fn conditions(filter: &str) -> Result<String, String> {
    let mut letters = filter.chars().peekable();
    let (mut made, mut quote) = (String::new(), None);
    while let Some(letter) = letters.peek().copied() {
        match (letter, quote) {
            ('@' | '$', None) => {
                made.push(letter);
                made.push_str(&path(&mut letters, Some(IN_FILTER))?);
                continue;
            }
            ('\\', Some(_)) => {
                made.push(letter);
                letters.next();
            }
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        made.extend(letters.next());
    }
    parse_json_path(&format!("$[?{made}]"))
        .map(|_| made)
        .map_err(|_| format!("found filter {filter:?}, wanted one such as (@.type==\"Ready\")"))
}
