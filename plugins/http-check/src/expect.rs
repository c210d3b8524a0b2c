//! What is expected of a response. Pure comparisons; an absent value meets nothing but DoesNotExist.

use numo_rule_sdk::{
    config::Fields,
    object::pointer_fault,
    serde_json::{Number, Value},
};
use std::{cmp::Ordering, fmt};

/// Length of a value that a message shows, in characters.
const SHOWN: usize = 64;

/// Status codes: single ones and classes.
#[derive(Debug)]
pub struct Statuses(Vec<(u16, u16)>);

impl Statuses {
    /// Reads `statuses`: numbers and classes like `2xx`. Absent is `2xx`.
    pub fn read(fields: &Fields<'_>) -> Statuses {
        let items = fields.list("statuses");
        if items.is_empty() {
            if fields.value("statuses").is_some_and(Value::is_array) {
                fields.problem("statuses", "needs at least one status");
            }
            return Statuses(vec![(200, 299)]);
        }
        let mut ranges = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match range(item) {
                Some(range) => ranges.push(range),
                None => fields.problem_at(
                    &format!("/statuses/{index}"),
                    "must be a number from 100 to 599, or 1xx to 5xx",
                ),
            }
        }
        Statuses(ranges)
    }

    /// Whether a status is wanted.
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&status))
    }
}

fn range(item: &Value) -> Option<(u16, u16)> {
    if let Some(number) = item.as_u64() {
        let number = u16::try_from(number).ok()?;
        return (100..600).contains(&number).then_some((number, number));
    }
    let class = item.as_str()?.strip_suffix("xx")?.parse::<u16>().ok()?;
    let first = class.checked_mul(100)?;
    (100..600).contains(&first).then_some((first, first + 99))
}

impl fmt::Display for Statuses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if first == last {
                write!(out, "{comma}{first}")?;
            } else {
                write!(out, "{comma}{}xx", first / 100)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    GreaterOrEqual,
    LessThan,
    LessOrEqual,
}

impl Comparison {
    const CHOICES: [(&'static str, Comparison); 10] = [
        ("Equal", Comparison::Equal),
        ("NotEqual", Comparison::NotEqual),
        ("In", Comparison::In),
        ("NotIn", Comparison::NotIn),
        ("Exists", Comparison::Exists),
        ("DoesNotExist", Comparison::DoesNotExist),
        ("GreaterThan", Comparison::GreaterThan),
        ("GreaterOrEqual", Comparison::GreaterOrEqual),
        ("LessThan", Comparison::LessThan),
        ("LessOrEqual", Comparison::LessOrEqual),
    ];

    fn word(self) -> &'static str {
        Self::CHOICES
            .iter()
            .find(|(_, comparison)| *comparison == self)
            .map_or("", |(word, _)| word)
    }
}

/// What one value of the body must be.
#[derive(Debug)]
pub struct Expectation {
    pointer: String,
    comparison: Comparison,
    value: Value,
}

impl Expectation {
    /// Reads `pointer`, `operator` (default Equal) and `value`.
    pub fn read(fields: &Fields<'_>) -> Expectation {
        let pointer = match fields.value("pointer") {
            None => {
                fields.problem("pointer", "is required");
                ""
            }
            Some(Value::String(pointer)) => pointer,
            Some(_) => {
                fields.problem("pointer", "must be a string");
                ""
            }
        };
        if let Some(fault) = pointer_fault(pointer) {
            fields.problem("pointer", fault);
        }
        let comparison = fields.choice("operator", &Comparison::CHOICES, Comparison::Equal);
        let value = fields.value_or_null("value");
        if let Some(fault) = value_fault(comparison, value) {
            fields.problem("value", fault);
        }
        Expectation {
            pointer: pointer.into(),
            comparison,
            value: value.cloned().unwrap_or_default(),
        }
    }

    /// How a body differs from what is expected, if it does.
    pub fn fault(&self, body: &Value) -> Option<String> {
        let found = body.pointer(&self.pointer);
        if self.is_met(found) {
            return None;
        }
        let found = found.map_or_else(|| "is absent".into(), |found| format!("is {}", shown(found)));
        let wanted = match self.comparison {
            Comparison::Exists | Comparison::DoesNotExist => String::new(),
            _ => format!(" {}", shown(&self.value)),
        };
        let pointer = if self.pointer.is_empty() {
            "the body"
        } else {
            &self.pointer
        };
        Some(format!(
            "{pointer} {found}, wanted {}{wanted}",
            self.comparison.word()
        ))
    }

    fn is_met(&self, found: Option<&Value>) -> bool {
        let Some(found) = found else {
            return self.comparison == Comparison::DoesNotExist;
        };
        let is_one = || {
            self.value
                .as_array()
                .is_some_and(|wanted| wanted.iter().any(|wanted| equal(wanted, found)))
        };
        match self.comparison {
            Comparison::Exists => true,
            Comparison::DoesNotExist => false,
            Comparison::Equal => equal(found, &self.value),
            Comparison::NotEqual => !equal(found, &self.value),
            Comparison::In => is_one(),
            Comparison::NotIn => !is_one(),
            Comparison::GreaterThan => ordering(found, &self.value).is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => ordering(found, &self.value).is_some_and(Ordering::is_ge),
            Comparison::LessThan => ordering(found, &self.value).is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => ordering(found, &self.value).is_some_and(Ordering::is_le),
        }
    }
}

fn value_fault(comparison: Comparison, value: Option<&Value>) -> Option<&'static str> {
    if matches!(comparison, Comparison::Exists | Comparison::DoesNotExist) {
        return value.map(|_| "this operator takes no value");
    }
    let Some(value) = value else {
        return Some("is required");
    };
    match comparison {
        Comparison::In | Comparison::NotIn => {
            let is_list = value.as_array().is_some_and(|values| !values.is_empty());
            (!is_list).then_some("must be a list with at least one value")
        }
        Comparison::GreaterThan
        | Comparison::GreaterOrEqual
        | Comparison::LessThan
        | Comparison::LessOrEqual => (!value.is_number()).then_some("must be a number"),
        Comparison::Equal | Comparison::NotEqual | Comparison::Exists | Comparison::DoesNotExist => None,
    }
}

/// Equality of JSON values; numbers by value, so that 1 and 1.0 are equal.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => ordering(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Order of two numbers: exact between integers, else as floating point. Anything else has none.
fn ordering(a: &Value, b: &Value) -> Option<Ordering> {
    let (Value::Number(a), Value::Number(b)) = (a, b) else {
        return None;
    };
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        text
    } else {
        text.chars().take(SHOWN).chain(['…']).collect()
    }
}
