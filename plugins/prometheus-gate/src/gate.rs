//! Judges an answer of Prometheus. Pure: no history, no clock.

use numo_rule_sdk::{
    Finding, Report, Severity,
    config::Fields,
    host::{Answer, Sample},
    verdict::{count, finding, names, report, with_findings},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    LessThan,
    LessOrEqual,
    GreaterThan,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    const CHOICES: [(&'static str, Comparison); 6] = [
        ("LessThan", Comparison::LessThan),
        ("LessOrEqual", Comparison::LessOrEqual),
        ("GreaterThan", Comparison::GreaterThan),
        ("GreaterOrEqual", Comparison::GreaterOrEqual),
        ("Equal", Comparison::Equal),
        ("NotEqual", Comparison::NotEqual),
    ];

    fn sign(self) -> &'static str {
        match self {
            Comparison::LessThan => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::GreaterThan => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
        }
    }

    #[allow(clippy::float_cmp, reason = "== and != are exact, as in PromQL")]
    fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Comparison::LessThan => value < threshold,
            Comparison::LessOrEqual => value <= threshold,
            Comparison::GreaterThan => value > threshold,
            Comparison::GreaterOrEqual => value >= threshold,
            Comparison::Equal => value == threshold,
            Comparison::NotEqual => value != threshold,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    All,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoData {
    Wait,
    Pass,
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nan {
    Unmet,
    Ignore,
    Met,
}

/// What an answer must be.
#[derive(Debug)]
pub struct Gate {
    comparison: Comparison,
    threshold: f64,
    matching: Match,
    no_data: NoData,
    nan: Nan,
    ignore_warnings: bool,
}

/// What an answer is.
#[derive(Debug)]
pub enum Judged {
    /// As wanted.
    Met(Report),
    /// Not as wanted.
    Unmet(Report),
    /// Nobody can tell: no data, or a partial answer.
    Unknown(Report),
    /// No data, and the configuration says that this ends the attempt.
    Blocked(Report),
}

impl Gate {
    /// Reads `operator`, `threshold`, `match`, `noData`, `nan` and `warnings`.
    pub fn read(fields: &Fields<'_>) -> Gate {
        for name in ["operator", "threshold"] {
            if fields.value(name).is_none() {
                fields.problem(name, "is required");
            }
        }
        let threshold = fields.value("threshold");
        let number = threshold.and_then(numo_rule_sdk::serde_json::Value::as_f64);
        if threshold.is_some() && number.is_none() {
            fields.problem("threshold", "must be a number");
        }
        let no_data = [
            ("Wait", NoData::Wait),
            ("Pass", NoData::Pass),
            ("Block", NoData::Block),
        ];
        Gate {
            comparison: fields
                .optional_choice("operator", &Comparison::CHOICES)
                .unwrap_or(Comparison::Equal),
            threshold: number.unwrap_or_default(),
            matching: fields.choice("match", &[("All", Match::All), ("Any", Match::Any)], Match::All),
            no_data: fields.choice("noData", &no_data, NoData::Wait),
            nan: fields.choice(
                "nan",
                &[("Unmet", Nan::Unmet), ("Ignore", Nan::Ignore), ("Met", Nan::Met)],
                Nan::Unmet,
            ),
            ignore_warnings: fields.choice("warnings", &[("Wait", false), ("Ignore", true)], false),
        }
    }

    /// Judges an answer.
    pub fn judge(&self, answer: &Answer) -> Judged {
        if !answer.warnings.is_empty() && !self.ignore_warnings {
            let warnings = names(answer.warnings.iter().map(String::as_str), 3);
            return Judged::Unknown(report(
                "AnswerIncomplete",
                format!("Prometheus warns of its answer: {warnings}"),
            ));
        }
        let samples: Vec<&Sample> = answer
            .samples
            .iter()
            .filter(|sample| self.nan != Nan::Ignore || !sample.value.is_nan())
            .collect();
        if samples.is_empty() {
            let summary = match answer.samples.len() {
                0 => "the query matches nothing".into(),
                ignored => format!("the query matches {} without a value", count(ignored, "sample")),
            };
            let report = report("NoData", summary);
            return match self.no_data {
                NoData::Wait => Judged::Unknown(report),
                NoData::Pass => Judged::Met(report),
                NoData::Block => Judged::Blocked(report),
            };
        }
        let unmet: Vec<&Sample> = samples
            .iter()
            .filter(|sample| !self.holds(sample.value))
            .copied()
            .collect();
        let met = samples.len() - unmet.len();
        let wanted = format!("{} {}", self.comparison.sign(), self.threshold);
        let summary = match (samples.as_slice(), unmet.first()) {
            ([only], _) => format!("{} is {}, wanted {wanted}", series(only), only.value),
            (_, Some(first)) => {
                format!(
                    "{met} of {} are {wanted}; {} is {}",
                    count(samples.len(), "sample"),
                    series(first),
                    first.value
                )
            }
            (_, None) => format!("all {} are {wanted}", count(samples.len(), "sample")),
        };
        let enough = match self.matching {
            Match::All => unmet.is_empty(),
            Match::Any => met > 0,
        };
        if enough {
            return Judged::Met(report("ThresholdMet", summary));
        }
        let findings = unmet.iter().map(|sample| self.fault(sample)).collect();
        Judged::Unmet(with_findings(report("ThresholdNotMet", summary), findings))
    }

    fn holds(&self, value: f64) -> bool {
        if value.is_nan() {
            self.nan == Nan::Met
        } else {
            self.comparison.holds(value, self.threshold)
        }
    }

    fn fault(&self, sample: &Sample) -> Finding {
        let code = if sample.value.is_nan() {
            "SampleNotANumber"
        } else {
            "SampleUnmet"
        };
        let message = format!(
            "{} is {}, wanted {} {}",
            series(sample),
            sample.value,
            self.comparison.sign(),
            self.threshold
        );
        finding(Severity::Error, code, message, None)
    }
}

/// A series as PromQL writes it.
fn series(sample: &Sample) -> String {
    if sample.labels.is_empty() {
        return "the value".into();
    }
    let metric = sample
        .labels
        .iter()
        .find(|(name, _)| name == "__name__")
        .map_or("", |(_, value)| value.as_str());
    let labels: Vec<String> = sample
        .labels
        .iter()
        .filter(|(name, _)| name != "__name__")
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{metric}{{{}}}", labels.join(","))
}
