//! Selectors with exactly Kubernetes' own meaning: `LabelSelectorAsSelector`, and the operators of node
//! selectors (`labels.Requirement.Matches`). Nothing is read here.

use crate::config::Fields;
use serde_json::Value;

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Present and one of the values.
    In,
    /// Absent, or none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, an integer, and greater than the one value.
    Gt,
    /// Present, an integer, and less than the one value.
    Lt,
}

impl Operator {
    /// The words of a node selector.
    pub const CHOICES: [(&'static str, Operator); 6] = [
        ("In", Operator::In),
        ("NotIn", Operator::NotIn),
        ("Exists", Operator::Exists),
        ("DoesNotExist", Operator::DoesNotExist),
        ("Gt", Operator::Gt),
        ("Lt", Operator::Lt),
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        Self::CHOICES
            .iter()
            .find(|(_, operator)| *operator == self)
            .map_or("", |(word, _)| word)
    }
}

/// One requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label, or whatever else is looked up.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<String>,
}

impl Requirement {
    /// Reads `key`, `operator` and `values`, refusing what the API server refuses.
    pub fn read(fields: &Fields<'_>) -> Requirement {
        let key = fields.required_text("key").to_owned();
        if fields.value("operator").is_none() {
            fields.problem("operator", "is required");
        }
        let operator = fields.choice("operator", &Operator::CHOICES, Operator::Exists);
        let requirement = Requirement {
            key,
            operator,
            values: values(fields),
        };
        if fields.value("operator").and_then(Value::as_str) == Some(operator.word())
            && let Some(fault) = requirement.fault()
        {
            fields.problem("values", fault);
        }
        requirement
    }

    /// What the API server would refuse in the values.
    pub fn fault(&self) -> Option<&'static str> {
        match self.operator {
            Operator::In | Operator::NotIn => self.values.is_empty().then_some("needs at least one value"),
            Operator::Exists | Operator::DoesNotExist => {
                (!self.values.is_empty()).then_some("takes no values")
            }
            Operator::Gt | Operator::Lt => match self.values.as_slice() {
                [value] => value.parse::<i64>().is_err().then_some("needs an integer"),
                _ => Some("needs exactly one value"),
            },
        }
    }

    /// Whether a value meets the requirement; `None` is an absent key, which NotIn and DoesNotExist match.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let is_one = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::In => value.is_some_and(is_one),
            Operator::NotIn => !value.is_some_and(is_one),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |found, wanted| found > wanted),
            Operator::Lt => self.compares(value, |found, wanted| found < wanted),
        }
    }

    fn compares(&self, value: Option<&str>, compare: fn(i64, i64) -> bool) -> bool {
        let (Some(found), [wanted]) = (value, self.values.as_slice()) else {
            return false;
        };
        // Rust and Go read the same decimal integers: a sign and leading zeros are allowed, spaces are not.
        match (found.parse(), wanted.parse()) {
            (Ok(found), Ok(wanted)) => compare(found, wanted),
            _ => false,
        }
    }
}

/// Values may be empty texts (a label can be empty), so they are not read as other texts are.
fn values(fields: &Fields<'_>) -> Vec<String> {
    let mut values = Vec::new();
    for (index, item) in fields.list("values").iter().enumerate() {
        match item {
            Value::String(text) => values.push(text.clone()),
            _ => fields.problem_at(
                &format!("/values/{index}"),
                "must be a string; write numbers in quotes",
            ),
        }
    }
    values
}

/// A `metav1.LabelSelector`. An absent one matches nothing, an empty one everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(Option<Vec<Requirement>>);

impl LabelSelector {
    /// Reads a selector; an error where Kubernetes has one (the API server then lets it match nothing).
    pub fn parse(selector: Option<&Value>) -> Result<LabelSelector, String> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(LabelSelector(None));
        };
        let mut requirements = Vec::new();
        for (key, value) in selector
            .pointer("/matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let value = value
                .as_str()
                .ok_or_else(|| format!("matchLabels {key} is not a string"))?;
            requirements.push(Requirement {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.into()],
            });
        }
        for expression in selector
            .pointer("/matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            requirements.push(expression_of(expression)?);
        }
        Ok(LabelSelector(Some(requirements)))
    }

    /// Whether an object with these labels (`metadata.labels`) is selected.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.0.as_ref().is_some_and(|requirements| {
            requirements
                .iter()
                .all(|requirement| requirement.matches(value(&requirement.key)))
        })
    }
}

fn expression_of(expression: &Value) -> Result<Requirement, String> {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let word = text("operator");
    let operator = match word {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return Err(format!("{word:?} is not a valid label selector operator")),
    };
    let values = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let values = values.filter_map(Value::as_str).map(Into::into).collect();
    let requirement = Requirement {
        key: text("key").into(),
        operator,
        values,
    };
    match requirement.fault() {
        Some(fault) => Err(format!("{} {word} {fault}", requirement.key)),
        None => Ok(requirement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operators_mean_what_they_mean_in_kubernetes() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let cases: &[(Operator, &[&str], Option<&str>, bool)] = &[
            (In, &["a", "b"], Some("b"), true),
            (In, &["a", "b"], Some("c"), false),
            (In, &["a"], None, false),
            (In, &[""], Some(""), true),
            (In, &[""], None, false),
            (NotIn, &["a"], Some("a"), false),
            (NotIn, &["a"], Some("b"), true),
            (NotIn, &["a"], None, true),
            (Exists, &[], Some(""), true),
            (Exists, &[], None, false),
            (DoesNotExist, &[], None, true),
            (DoesNotExist, &[], Some(""), false),
            (Gt, &["5"], Some("6"), true),
            (Gt, &["5"], Some("5"), false),
            (Gt, &["5"], Some("4"), false),
            (Gt, &["5"], None, false),
            (Gt, &["5"], Some("six"), false),
            (Gt, &["5"], Some(""), false),
            (Gt, &["5"], Some("6.0"), false),
            (Gt, &["5"], Some(" 6"), false),
            (Gt, &["5"], Some("+6"), true),
            (Gt, &["5"], Some("006"), true),
            (Gt, &["-5"], Some("-4"), true),
            (Gt, &["5"], Some("9223372036854775808"), false),
            (Gt, &["1", "2"], Some("6"), false),
            (Lt, &["5"], Some("4"), true),
            (Lt, &["5"], Some("5"), false),
            (Lt, &["5"], None, false),
            (Lt, &["5"], Some("-9223372036854775808"), true),
        ];
        for (operator, values, value, expected) in cases {
            let values = values.iter().map(|value| (*value).into()).collect();
            let requirement = Requirement {
                key: "k".into(),
                operator: *operator,
                values,
            };
            assert_eq!(
                requirement.matches(*value),
                *expected,
                "{requirement:?} {value:?}"
            );
        }
    }

    #[test]
    fn values_are_refused_as_the_api_server_refuses_them() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let cases: &[(Operator, &[&str], bool)] = &[
            (In, &[], false),
            (In, &["a"], true),
            (NotIn, &[], false),
            (Exists, &[], true),
            (Exists, &["a"], false),
            (DoesNotExist, &["a"], false),
            (Gt, &[], false),
            (Gt, &["1"], true),
            (Gt, &["1", "2"], false),
            (Lt, &["one"], false),
            (Lt, &["1.5"], false),
        ];
        for (operator, values, right) in cases {
            let values = values.iter().map(|value| (*value).into()).collect();
            let requirement = Requirement {
                key: "k".into(),
                operator: *operator,
                values,
            };
            assert_eq!(requirement.fault().is_none(), *right, "{requirement:?}");
        }
    }

    #[test]
    fn label_selectors_match_as_in_policy_v1() {
        let labels = json!({"app": "db", "tier": "back"});
        let cases = [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {}}), true),
            (json!({"matchLabels": {"app": "db"}}), true),
            (json!({"matchLabels": {"app": "db", "tier": "front"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "x"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                true,
            ),
            (
                json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                false,
            ),
        ];
        for (selector, expected) in cases {
            let parsed = LabelSelector::parse(Some(&selector)).unwrap();
            assert_eq!(parsed.matches(Some(&labels)), expected, "{selector}");
        }
        assert!(
            !LabelSelector::parse(None).unwrap().matches(Some(&labels)),
            "absent matches nothing"
        );
        assert!(
            LabelSelector::parse(Some(&json!({}))).unwrap().matches(None),
            "empty matches without labels too"
        );
    }

    #[test]
    fn selectors_that_kubernetes_cannot_read_are_errors() {
        for selector in [
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a"}]}),
        ] {
            assert!(LabelSelector::parse(Some(&selector)).is_err(), "{selector}");
        }
    }
}
