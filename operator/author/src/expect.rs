//! What a case wants of a verdict, and how what was found differs from it. Fields that are not given are not looked
//! at.

use super::outcome::{EvaluationOutcome, OutcomeKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is wanted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expect {
    /// Pass, Wait, Block, or Error: no verdict.
    pub(crate) verdict: OutcomeKind,
    /// Of the report.
    #[serde(default)]
    reason: Option<String>,
    /// Stands in the summary.
    #[serde(default)]
    summary: Option<String>,
    /// Of a wait.
    #[serde(default)]
    retry_after_seconds: Option<u32>,
    /// Of a wait.
    #[serde(default)]
    progress_percent: Option<u8>,
    /// Codes of all findings, in any order.
    #[serde(default)]
    findings: Option<Vec<String>>,
    /// Equal as JSON.
    #[serde(default)]
    data: Option<Value>,
    /// Reason of an error: `Denied`, `InvalidConfig`, …
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// Field of `expect`.
    pub(crate) field: String,
    /// What came.
    pub(crate) found: String,
    /// What was to come.
    pub(crate) wanted: String,
}

impl Difference {
    fn new(field: &str, found: &impl ToString, wanted: &impl ToString) -> Self {
        Self {
            field: field.to_owned(),
            found: found.to_string(),
            wanted: wanted.to_string(),
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: found {}, wanted {}", self.field, self.found, self.wanted)
    }
}

impl Expect {
    /// What is wrong with it, if anything: a word that can never come.
    pub(crate) fn fault(&self) -> Option<String> {
        let error = self.error.as_deref()?;
        if self.verdict != OutcomeKind::Error {
            return Some(format!(
                "error: found {error} beside verdict {}, wanted verdict Error",
                self.verdict
            ));
        }
        let mut known = numo_plugin::Reason::ALL.iter().map(|reason| reason.as_str());
        if known.any(|known| known == error) {
            return None;
        }
        let known: Vec<_> = numo_plugin::Reason::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        Some(format!(
            "error: found {error}, wanted one of {}",
            known.join(", ")
        ))
    }

    /// How `said` differs.
    pub(crate) fn differences(&self, said: &EvaluationOutcome) -> Vec<Difference> {
        let mut all = Vec::new();
        if said.verdict != self.verdict {
            all.push(Difference::new("verdict", &said.verdict, &self.verdict));
        }
        let mut text = |field: &str, found: &str, wanted: &Option<String>, same: fn(&str, &str) -> bool| {
            if let Some(wanted) = wanted
                && !same(found, wanted)
            {
                all.push(Difference::new(
                    field,
                    &format!("{found:?}"),
                    &format!("{wanted:?}"),
                ));
            }
        };
        text("reason", &said.reason, &self.reason, |found, wanted| {
            found == wanted
        });
        text("error", &said.reason, &self.error, |found, wanted| {
            found == wanted
        });
        text("summary", &said.summary, &self.summary, |found, wanted| {
            found.contains(wanted)
        });
        let mut number = |field: &str, found: Option<u32>, wanted: Option<u32>| {
            if wanted.is_some() && found != wanted {
                let word =
                    |number: Option<u32>| number.map_or_else(|| "none".to_owned(), |one| one.to_string());
                all.push(Difference::new(field, &word(found), &word(wanted)));
            }
        };
        number(
            "retryAfterSeconds",
            said.retry_after_seconds,
            self.retry_after_seconds,
        );
        let percent = said.progress_percent.map(u32::from);
        number("progressPercent", percent, self.progress_percent.map(u32::from));
        all.extend(self.other_findings(said));
        all.extend(self.other_data(said));
        all
    }

    /// How the codes of what was found differ, whatever their order.
    fn other_findings(&self, said: &EvaluationOutcome) -> Option<Difference> {
        let wanted = self.findings.as_ref()?;
        let mut found: Vec<_> = said
            .findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect();
        let mut sorted: Vec<_> = wanted.iter().map(String::as_str).collect();
        found.sort_unstable();
        sorted.sort_unstable();
        let list = |codes: &[&str]| format!("[{}]", codes.join(", "));
        (found != sorted).then(|| Difference::new("findings", &list(&found), &list(&sorted)))
    }

    fn other_data(&self, said: &EvaluationOutcome) -> Option<Difference> {
        let wanted = self.data.as_ref()?;
        if said.data.as_ref() == Some(wanted) {
            return None;
        }
        let found = said
            .data
            .as_ref()
            .map_or_else(|| "none".to_owned(), Value::to_string);
        Some(Difference::new("data", &found, wanted))
    }
}

/// How `found` differs from what was recorded.
pub(crate) fn from_recorded(found: &EvaluationOutcome, recorded: &EvaluationOutcome) -> Vec<Difference> {
    let expect = Expect {
        verdict: recorded.verdict,
        reason: Some(recorded.reason.clone()),
        summary: None,
        retry_after_seconds: recorded.retry_after_seconds,
        progress_percent: recorded.progress_percent,
        findings: Some(
            recorded
                .findings
                .iter()
                .map(|finding| finding.code.clone())
                .collect(),
        ),
        data: None,
        error: None,
    };
    let mut all = expect.differences(found);
    let mut whole = |field: &str, found: String, wanted: String| {
        if found != wanted && !all.iter().any(|one| one.field == field) {
            all.push(Difference::new(field, &found, &wanted));
        }
    };
    let json = |value: &Option<Value>| value.as_ref().map_or_else(|| "none".to_owned(), Value::to_string);
    let number = |number: Option<u32>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let findings = |said: &EvaluationOutcome| serde_json::to_string(&said.findings).unwrap_or_default();
    whole(
        "summary",
        format!("{:?}", found.summary),
        format!("{:?}", recorded.summary),
    );
    whole("data", json(&found.data), json(&recorded.data));
    whole(
        "retryAfterSeconds",
        number(found.retry_after_seconds),
        number(recorded.retry_after_seconds),
    );
    let (now, then) = (
        found.progress_percent.map(u32::from),
        recorded.progress_percent.map(u32::from),
    );
    whole("progressPercent", number(now), number(then));
    whole("findings", findings(found), findings(recorded));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(value: Value) -> EvaluationOutcome {
        serde_json::from_value(value).unwrap()
    }

    fn wait() -> EvaluationOutcome {
        said(json!({
            "verdict": "Wait", "reason": "Busy", "summary": "pods a and b are busy", "retryAfterSeconds": 30,
            "findings": [
                {"code": "PodBusy", "severity": "error", "message": "a"},
                {"code": "Other", "severity": "info", "message": "b"},
            ],
            "data": {"seen": [1, 2]},
        }))
    }

    fn fields(expect: Value) -> Vec<String> {
        let expect: Expect = serde_json::from_value(expect).unwrap();
        expect
            .differences(&wait())
            .into_iter()
            .map(|one| one.field)
            .collect()
    }

    #[test]
    fn what_is_wanted_is_compared_and_nothing_else() {
        assert!(fields(json!({"verdict": "Wait"})).is_empty());
        let all = json!({"verdict": "Wait", "reason": "Busy", "summary": "a and b", "retryAfterSeconds": 30,
            "findings": ["Other", "PodBusy"], "data": {"seen": [1, 2]}});
        assert!(fields(all).is_empty());
        let none = json!({"verdict": "Pass", "reason": "Fine", "summary": "c", "retryAfterSeconds": 31,
            "progressPercent": 1, "findings": [], "data": {"seen": [2, 1]}});
        assert_eq!(
            fields(none),
            [
                "verdict",
                "reason",
                "summary",
                "retryAfterSeconds",
                "progressPercent",
                "findings",
                "data"
            ]
        );
    }

    #[test]
    fn a_recorded_verdict_is_compared_whole() {
        assert!(from_recorded(&wait(), &wait()).is_empty());
        let mut other = wait();
        other.findings[0].message = "c".to_owned();
        other.data = None;
        let fields: Vec<_> = from_recorded(&other, &wait())
            .into_iter()
            .map(|one| one.field)
            .collect();
        assert_eq!(fields, ["data", "findings"]);
    }

    #[test]
    fn a_reason_that_no_error_has_is_refused() {
        let of = |value: Value| serde_json::from_value::<Expect>(value).unwrap().fault();
        assert_eq!(of(json!({"verdict": "Error", "error": "Denied"})), None);
        assert!(of(json!({"verdict": "Error", "error": "Tired"})).is_some_and(|why| why.contains("Denied")));
        assert!(of(json!({"verdict": "Pass", "error": "Denied"})).is_some());
    }
}
