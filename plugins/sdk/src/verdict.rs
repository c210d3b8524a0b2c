//! Builds verdicts within the contract's limits. Texts are cut at a character, findings are counted;
//! nothing is decided here.

use crate::{Error, Finding, Input, Node, ObjectRef, Report, RuleError, Severity, Verdict, Wait};

/// Longest text of a summary or message, in bytes.
const TEXT_BYTES: usize = 1024;
/// Most findings of a report.
const FINDINGS: usize = 64;
/// Longest `data-json`, in bytes.
pub const DATA_BYTES: usize = 16 * 1024;

/// A report without findings.
pub fn report(reason: &str, summary: impl Into<String>) -> Report {
    Report {
        reason: reason.into(),
        summary: cut(summary.into()),
        findings: Vec::new(),
        data_json: None,
        attributes: Vec::new(),
    }
}

/// Adds findings, the gravest first. Of more than fit, the last place says how many are not shown.
pub fn with_findings(mut report: Report, mut findings: Vec<Finding>) -> Report {
    findings.sort_by_key(|finding| match finding.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Info => 2,
    });
    if findings.len() > FINDINGS {
        let hidden = findings.len() - (FINDINGS - 1);
        findings.truncate(FINDINGS - 1);
        findings.push(finding(
            Severity::Info,
            "MoreFindings",
            format!("{hidden} more findings are not shown"),
            None,
        ));
    }
    report.findings = findings;
    report
}

/// One thing that was seen.
pub fn finding(
    severity: Severity,
    code: &str,
    message: impl Into<String>,
    object: Option<ObjectRef>,
) -> Finding {
    Finding {
        code: code.into(),
        severity,
        message: cut(message.into()),
        object,
        attributes: Vec::new(),
    }
}

/// Not yet.
pub fn wait(report: Report, retry_after_seconds: u32) -> Verdict {
    Verdict::Wait(Wait {
        report,
        retry_after_seconds,
        progress_percent: None,
    })
}

/// What to do when a condition is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// Ask again.
    Wait,
    /// End this attempt.
    Block,
}

impl Unmet {
    /// The words of the configuration.
    pub const CHOICES: [(&'static str, Unmet); 2] = [("Wait", Unmet::Wait), ("Block", Unmet::Block)];

    /// The verdict for it.
    pub fn verdict(self, report: Report, retry_after_seconds: u32) -> Verdict {
        match self {
            Unmet::Wait => wait(report, retry_after_seconds),
            Unmet::Block => Verdict::Block(report),
        }
    }
}

/// An error that is neither the host's nor the configuration's.
pub fn failed(message: impl Into<String>) -> RuleError {
    RuleError::Failed(cut(message.into()))
}

impl From<Error> for RuleError {
    fn from(error: Error) -> Self {
        RuleError::Host(error)
    }
}

/// Refuses a phase that the rule does not name in its description: a pass there would mean nothing.
pub fn known_phase(input: &Input, phases: &[&str]) -> Result<(), RuleError> {
    if phases.contains(&input.phase.as_str()) {
        return Ok(());
    }
    Err(failed(format!(
        "unknown phase {:?}; this rule knows {}",
        input.phase,
        phases.join(", ")
    )))
}

/// The node that is to change, or an error where a phase has none.
pub fn node(input: &Input) -> Result<&Node, RuleError> {
    input
        .node
        .as_ref()
        .ok_or_else(|| failed(format!("phase {:?} was asked without a node", input.phase)))
}

/// `1 pod`, `2 pods`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// The first few names, and how many more there are.
pub fn names<'a>(all: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let all: Vec<&str> = all.into_iter().collect();
    let shown = all.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    if all.len() <= most {
        shown
    } else {
        format!("{shown} and {} more", all.len() - most)
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES {
        let mut end = TEXT_BYTES - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let summary = report("R", "ä".repeat(600)).summary;
        assert!(summary.len() <= TEXT_BYTES && summary.ends_with("ä…"));
        assert_eq!(report("R", "a".repeat(TEXT_BYTES)).summary.len(), TEXT_BYTES);
    }

    #[test]
    fn of_too_many_findings_the_gravest_are_kept_and_the_rest_counted() {
        let mut findings: Vec<_> = (0..70).map(|_| finding(Severity::Info, "I", "", None)).collect();
        findings.push(finding(Severity::Error, "E", "", None));
        let report = with_findings(report("R", ""), findings);
        assert_eq!(report.findings.len(), FINDINGS);
        assert_eq!(report.findings[0].code, "E");
        assert_eq!(report.findings[63].message, "8 more findings are not shown");
    }

    #[test]
    fn names_are_counted_when_there_are_many() {
        assert_eq!(names(["a", "b"], 2), "a, b");
        assert_eq!(names(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(count(1, "pod"), "1 pod");
        assert_eq!(count(0, "pod"), "0 pods");
    }
}
