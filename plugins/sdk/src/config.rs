//! Reads a rule's configuration and says everything that is wrong with it, each fault with its RFC 6901
//! pointer. It may not stop at the first fault, and may not overlook a field it does not know.

use crate::{ConfigProblem, object::escape};
use serde_json::{Map, Value};
use std::{cell::RefCell, ops::RangeInclusive};

/// Seconds after which a wait is asked again, as the host bounds them.
pub const RETRY_AFTER_SECONDS: RangeInclusive<u64> = 5..=3600;

/// Parses a configuration. `parse` takes what it wants from the fields; where one is wrong it gets a
/// stand-in, and the whole result is thrown away for the problems.
pub fn read<T>(json: &str, parse: impl FnOnce(&Fields<'_>) -> T) -> Result<T, Vec<ConfigProblem>> {
    let value: Value =
        serde_json::from_str(json).map_err(|error| vec![problem("", format!("not JSON: {error}"))])?;
    let Value::Object(map) = &value else {
        return Err(vec![problem("", "must be an object")]);
    };
    let problems = RefCell::new(Vec::new());
    let fields = Fields {
        map,
        pointer: String::new(),
        known: RefCell::default(),
        problems: &problems,
    };
    let parsed = parse(&fields);
    drop(fields);
    let mut problems = problems.into_inner();
    if problems.is_empty() {
        return Ok(parsed);
    }
    problems.sort_by(|a, b| (&a.pointer, &a.message).cmp(&(&b.pointer, &b.message)));
    Err(problems)
}

/// One fault.
pub fn problem(pointer: &str, message: impl Into<String>) -> ConfigProblem {
    ConfigProblem {
        pointer: pointer.into(),
        message: message.into(),
    }
}

/// The fields of one object of the configuration. A field that was never asked for when this is dropped
/// is a problem; one that is null counts as absent, as in Kubernetes.
#[derive(Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    pointer: String,
    known: RefCell<Vec<&'static str>>,
    problems: &'a RefCell<Vec<ConfigProblem>>,
}

impl<'a> Fields<'a> {
    /// The value of a field, whatever it is.
    pub fn value(&self, name: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The value of a field, null included.
    pub fn value_or_null(&self, name: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(name);
        self.map.get(name)
    }

    /// A text that is not empty.
    pub fn text(&self, name: &'static str) -> Option<&'a str> {
        match self.value(name)? {
            Value::String(text) if !text.is_empty() => Some(text),
            Value::String(_) => self.refuse(name, "must not be empty"),
            _ => self.refuse(name, "must be a string"),
        }
    }

    /// A text that must be there; the empty text stands in for it.
    pub fn required_text(&self, name: &'static str) -> &'a str {
        if self.value(name).is_none() {
            self.problem(name, "is required");
        }
        self.text(name).unwrap_or_default()
    }

    /// A whole number within a range.
    pub fn integer(&self, name: &'static str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let Some(value) = self.value(name) else {
            return default;
        };
        match value.as_u64() {
            Some(number) if range.contains(&number) => number,
            _ => {
                self.problem(
                    name,
                    format!("must be a whole number from {} to {}", range.start(), range.end()),
                );
                default
            }
        }
    }

    /// `retryAfterSeconds`, default 30.
    pub fn retry_after_seconds(&self) -> u32 {
        u32::try_from(self.integer("retryAfterSeconds", RETRY_AFTER_SECONDS, 30)).unwrap_or(u32::MAX)
    }

    /// One of some words.
    pub fn choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)], default: T) -> T {
        self.optional_choice(name, choices).unwrap_or(default)
    }

    /// One of some words, if the field is there.
    pub fn optional_choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.value(name)?;
        let found = choices.iter().find(|(word, _)| value.as_str() == Some(word));
        if found.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.problem(name, format!("must be one of {}", words.join(", ")));
        }
        found.map(|(_, choice)| *choice)
    }

    /// A list of texts that are not empty; absent is an empty list.
    pub fn texts(&self, name: &'static str) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, item) in self.list(name).iter().enumerate() {
            match item {
                Value::String(text) if !text.is_empty() => texts.push(text.clone()),
                _ => self.problem_at(&format!("/{name}/{index}"), "must be a string that is not empty"),
            }
        }
        texts
    }

    /// An object within this one.
    pub fn object(&self, name: &'static str) -> Option<Fields<'a>> {
        match self.value(name)? {
            Value::Object(map) => Some(self.within(map, format!("{}/{name}", self.pointer))),
            _ => self.refuse(name, "must be an object"),
        }
    }

    /// A list of objects; absent is an empty list.
    pub fn objects(&self, name: &'static str) -> Vec<Fields<'a>> {
        let mut objects = Vec::new();
        for (index, item) in self.list(name).iter().enumerate() {
            match item {
                Value::Object(map) => {
                    objects.push(self.within(map, format!("{}/{name}/{index}", self.pointer)));
                }
                _ => self.problem_at(&format!("/{name}/{index}"), "must be an object"),
            }
        }
        objects
    }

    /// A map from texts to texts; absent is an empty one.
    pub fn text_map(&self, name: &'static str) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        match self.value(name) {
            None => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    match value {
                        Value::String(text) => texts.push((key.clone(), text.clone())),
                        _ => self.problem_at(&format!("/{name}/{}", escape(key)), "must be a string"),
                    }
                }
            }
            Some(_) => self.problem(name, "must be an object"),
        }
        texts
    }

    /// A list of anything; absent is an empty list.
    pub fn list(&self, name: &'static str) -> &'a [Value] {
        match self.value(name) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.problem(name, "must be a list");
                &[]
            }
        }
    }

    /// Notes a fault of a field; an empty name is this object.
    pub fn problem(&self, name: &str, message: impl Into<String>) {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("/{}", escape(name))
        };
        self.problem_at(&name, message);
    }

    /// Notes a fault at a pointer that starts at this object.
    pub fn problem_at(&self, pointer: &str, message: impl Into<String>) {
        self.problems
            .borrow_mut()
            .push(problem(&format!("{}{pointer}", self.pointer), message));
    }

    fn refuse<T>(&self, name: &str, message: &str) -> Option<T> {
        self.problem(name, message);
        None
    }

    fn within(&self, map: &'a Map<String, Value>, pointer: String) -> Fields<'a> {
        Fields {
            map,
            pointer,
            known: RefCell::default(),
            problems: self.problems,
        }
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let mut known = self.known.take();
        known.sort_unstable();
        known.dedup();
        for name in self.map.keys().filter(|name| !known.contains(&name.as_str())) {
            self.problem(name, format!("unknown field; known are {}", known.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(json: &str) -> Vec<String> {
        let parse = |fields: &Fields<'_>| {
            fields.required_text("name");
            fields.integer("count", 1..=3, 1);
            fields.choice("mode", &[("A", 1), ("B", 2)], 1);
            fields.texts("words");
            for item in fields.objects("items") {
                item.required_text("key");
            }
            if let Some(inner) = fields.object("inner") {
                inner.text("note");
            }
            fields.text_map("map");
        };
        match read(json, parse) {
            Ok(()) => Vec::new(),
            Err(problems) => problems.into_iter().map(|problem| problem.pointer).collect(),
        }
    }

    #[test]
    fn every_fault_has_its_pointer() {
        let none: [&str; 0] = [];
        assert_eq!(pointers(r#"{"name":"n"}"#), none);
        assert_eq!(
            pointers(r#"{"name":"n","count":null,"inner":null}"#),
            none,
            "null is absent"
        );
        assert_eq!(pointers("["), [""]);
        assert_eq!(pointers("[]"), [""]);
        assert_eq!(pointers("{}"), ["/name"]);
        assert_eq!(pointers(r#"{"name":""}"#), ["/name"]);
        assert_eq!(pointers(r#"{"name":1}"#), ["/name"]);
        assert_eq!(
            pointers(r#"{"name":"n","count":0,"mode":"C"}"#),
            ["/count", "/mode"]
        );
        assert_eq!(pointers(r#"{"name":"n","count":1.5}"#), ["/count"]);
        assert_eq!(pointers(r#"{"name":"n","words":["a",""]}"#), ["/words/1"]);
        assert_eq!(pointers(r#"{"name":"n","words":"a"}"#), ["/words"]);
        assert_eq!(
            pointers(r#"{"name":"n","items":[{"key":"k"},{},3]}"#),
            ["/items/1/key", "/items/2"]
        );
        assert_eq!(
            pointers(r#"{"name":"n","inner":{"note":"x","more":1}}"#),
            ["/inner/more"]
        );
        assert_eq!(pointers(r#"{"name":"n","a/b~c":1}"#), ["/a~1b~0c"]);
        assert_eq!(pointers(r#"{"name":"n","map":{"a/b":1}}"#), ["/map/a~1b"]);
    }
}
