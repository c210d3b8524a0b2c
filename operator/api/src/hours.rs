//! When nodes of an owner may begin: recurring openings and freezes. Data only; their meaning is decided in the core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A regular expression of cron expressions: by field the numbers, names, ranges and steps that it takes.
fn cron() -> String {
    let field = |value: &str, step: &str, more: &str| {
        let item = format!(r"((\*|({value})(-({value}))?)(/0*({step}))?{more})");
        format!("{item}(,{item})*")
    };
    let fields = [
        field("0*[0-5]?[0-9]", "[1-9]|[1-5][0-9]", ""),
        field("0*(1?[0-9]|2[0-3])", "[1-9]|1[0-9]|2[0-3]", ""),
        field(
            "0*([1-9]|[12][0-9]|3[01])",
            "[1-9]|[12][0-9]|3[01]",
            r"|L|0*([1-9]|[12][0-9]|3[01])W",
        ),
        field(
            "0*([1-9]|1[0-2])|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
            "[1-9]|1[0-2]",
            "",
        ),
        field(
            "0*[0-7]|(?i:sun|mon|tue|wed|thu|fri|sat)",
            "[1-7]",
            r"|(0*[0-7]|(?i:sun|mon|tue|wed|thu|fri|sat))(L|#0*[1-5])",
        ),
    ];
    format!(r"^\s*{}\s*$", fields.join(r"\s+"))
}

/// When nodes may begin. A node that was changed before the end is brought to its own end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.openings) || (has(self.freezes) && size(self.freezes) > 0)",
    "message": "found neither openings nor freezes, wanted one of them",
}]))]
pub struct Hours {
    /// Recurring openings: nodes begin while one of them is open. Absent: nodes begin whenever no freeze holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub openings: Option<Vec<Opening>>,
    /// Times at which no node begins, whatever opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub freezes: Option<Vec<Freeze>>,
    /// Time zone of the openings by its IANA name, such as Europe/Warsaw. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// A node begins only if at least so many seconds remain before the end. Default: the forecast of a node
    /// of its owner (median and spread of those that are done); no bound before one is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub min_remaining_seconds: Option<i64>,
}

/// A recurring opening: days of the week with times of day, or a cron expression with a duration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.cron) == has(self.durationSeconds)",
        "message": "found one of cron and durationSeconds, wanted both or none",
    },
    {
        "rule": "!has(self.cron) || !has(self.days) && !has(self.startTime) && !has(self.endTime)",
        "message": "found cron beside days, startTime or endTime, wanted either",
    },
    {
        "rule": "has(self.startTime) == has(self.endTime)",
        "message": "found one of startTime and endTime, wanted both, or none for the whole day",
    },
    {
        "rule": "has(self.cron) || has(self.days) || has(self.startTime)",
        "message": "found an empty opening, wanted days, startTime and endTime, or cron and durationSeconds",
    },
    {
        "rule": "!has(self.days) || self.days.all(day, day.matches(r'(?i)^\\s*([0-6]|su|mo|tu|we|th|fr|sa|sun|mon|tue|wed|thu|fri|sat|sunday|monday|tuesday|wednesday|thursday|friday|saturday)\\s*$'))",
        "message": "found a day that there is not, wanted days such as mon or monday",
        "fieldPath": ".days",
    },
    {
        "rule": "!has(self.startTime) || self.startTime.matches(r'(?i)^\\s*(([01]?[0-9]|2[0-3])(:[0-5]?[0-9]){0,2}|(0?[1-9]|1[0-2])(:[0-5]?[0-9])?(am|pm))\\s*$')",
        "message": "found no time of day, wanted one such as 22:00 or 10pm",
        "fieldPath": ".startTime",
    },
    {
        "rule": "!has(self.endTime) || self.endTime.matches(r'(?i)^\\s*(([01]?[0-9]|2[0-3])(:[0-5]?[0-9]){0,2}|(0?[1-9]|1[0-2])(:[0-5]?[0-9])?(am|pm))\\s*$')",
        "message": "found no time of day, wanted one such as 22:00 or 10pm",
        "fieldPath": ".endTime",
    },
    {
        "rule": format!("!has(self.cron) || self.cron.matches(r'{}')", cron()),
        "message": "found no cron expression, wanted minute, hour, day of the month, month and day of the week, such as 0 22 * * FRI",
        "fieldPath": ".cron",
    },
    {
        "rule": "!has(self.cron) || !self.cron.matches(r'^\\s*\\S+\\s+\\S+\\s+[^*?\\s]\\S*\\s+\\S+\\s+[^*?\\s]')",
        "message": "found days of the month and of the week, wanted one of them, such as 0 22 * * SAT#1",
        "fieldPath": ".cron",
    },
    {
        "rule": r"!has(self.cron) || !self.cron.matches(r'^\s*\S+\s+\S+\s+(0*3[01]([,-]0*3[01])*\s+(0*2|(?i:feb))|0*31([,-]0*31)*\s+(0*(2|4|6|9|11)|(?i:feb|apr|jun|sep|nov))(,(0*(2|4|6|9|11)|(?i:feb|apr|jun|sep|nov)))*)\s')",
        "message": "found a day that none of its months has, wanted one that comes, such as 0 22 L * *",
        "fieldPath": ".cron",
    },
]))]
pub struct Opening {
    /// Days on which it begins, such as mon or monday. Absent: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 7), inner(length(max = 9)))]
    pub days: Option<Vec<String>>,
    /// When it begins, such as 22:00 or 10pm. Absent, with `endTime`: the whole day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub start_time: Option<String>,
    /// When it ends; that moment is outside. An end that is not after the start is of the next day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub end_time: Option<String>,
    /// When it begins: minute, hour, day of the month, month, day of the week, such as `0 22 * * FRI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub cron: Option<String>,
    /// How long it lasts from each time of `cron` on, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 604_800))]
    pub duration_seconds: Option<i64>,
}

/// A time at which no node begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "timestamp(self.from) < timestamp(self.to)",
    "message": "found a freeze that ends before it begins, wanted from before to",
}]))]
pub struct Freeze {
    /// A name for people, such as year-end-closing.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// When it begins (RFC 3339).
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub from: String,
    /// When it ends (RFC 3339); that moment is outside.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub to: String,
    /// Why, for the people who wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}
