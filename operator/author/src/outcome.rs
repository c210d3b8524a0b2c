//! What came of one evaluation, as it is printed, recorded and compared: a verdict, or the reason why there is none.
//! It judges nothing.

use numo_plugin::{Answer, Refused, Verdict, verdict::Finding};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutcomeKind {
    /// The step may be taken.
    Pass,
    /// Not now.
    Wait,
    /// The step must not be taken.
    Block,
    /// No verdict; numo waits.
    Error,
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a component said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EvaluationOutcome {
    /// Which of the four.
    pub(crate) verdict: OutcomeKind,
    /// The report's, or that of an error.
    pub(crate) reason: String,
    /// One sentence.
    pub(crate) summary: String,
    /// Of a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u32>,
    /// Of a wait, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress_percent: Option<u8>,
    /// In the component's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
    /// What it would read back in later phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl EvaluationOutcome {
    /// Of an evaluation.
    pub(crate) fn of(outcome: &Result<Answer, Refused>) -> Self {
        match outcome {
            Ok(answer) => Self::verdict(&answer.verdict),
            Err(refused) => Self {
                verdict: OutcomeKind::Error,
                reason: refused.reason.as_str().to_owned(),
                summary: refused.message.clone(),
                retry_after_seconds: None,
                progress_percent: None,
                findings: Vec::new(),
                data: None,
            },
        }
    }

    fn verdict(verdict: &Verdict) -> Self {
        let (word, retry_after_seconds, progress_percent) = match verdict {
            Verdict::Pass(_) => (OutcomeKind::Pass, None, None),
            Verdict::Block(_) => (OutcomeKind::Block, None, None),
            Verdict::Wait {
                retry_after,
                progress,
                ..
            } => (OutcomeKind::Wait, Some(*retry_after), *progress),
        };
        let report = verdict.report();
        Self {
            verdict: word,
            reason: report.reason.clone(),
            summary: report.summary.clone(),
            retry_after_seconds,
            progress_percent,
            findings: report.findings.clone(),
            // The host has checked that it is JSON.
            data: report
                .data_json
                .as_deref()
                .and_then(|data| serde_json::from_str(data).ok()),
        }
    }

    /// As lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}: {}", self.verdict, self.reason, self.summary)];
        if let Some(seconds) = self.retry_after_seconds {
            let progress = self.progress_percent;
            let progress = progress.map_or_else(String::new, |percent| format!(", {percent} % done"));
            lines.push(format!("  evaluate again after {seconds} s{progress}"));
        }
        for finding in &self.findings {
            let object = finding.object.as_ref();
            let object = object.map_or_else(String::new, |object| format!(" {object}:"));
            let severity = format!("{:?}", finding.severity).to_lowercase();
            lines.push(format!(
                "  {severity} {}{object} {}",
                finding.code, finding.message
            ));
        }
        if let Some(data) = &self.data {
            lines.push(format!("  data {data}"));
        }
        lines
    }
}
