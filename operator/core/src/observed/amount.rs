//! A limit as Kubernetes writes it: a number, or a percentage of what there is.

/// A number or a percentage of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number.
    Int(i64),
    /// A percentage.
    Percent(i64),
}

impl IntOrPercent {
    /// Parses `3`, `"3"` or `"25%"`; the error says what was found and what is wanted.
    pub fn parse(value: &serde_json::Value) -> Result<Self, String> {
        let wrong =
            || format!("found {value}, wanted a whole number such as 2 or a percentage such as \"25%\"");
        match value {
            serde_json::Value::Number(number) => number
                .as_i64()
                .filter(|n| *n >= 0)
                .map(Self::Int)
                .ok_or_else(wrong),
            serde_json::Value::String(text) => match text.strip_suffix('%') {
                Some(percent) => percent
                    .parse()
                    .ok()
                    .filter(|p| (0..=100).contains(p))
                    .map(Self::Percent),
                None => text.parse().ok().filter(|n| *n >= 0).map(Self::Int),
            }
            .ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    /// Parses what Kubernetes' int-or-string types hold.
    ///
    /// Errors: what was found and what is wanted.
    pub fn given(value: &impl serde::Serialize) -> Result<Self, String> {
        let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
        Self::parse(&value)
    }

    /// Whether it is written as 0 (or `0%`): nobody, of however many.
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Int(0) | Self::Percent(0))
    }

    /// How many of `total`: percentages are rounded down, and whatever is not written as 0 allows at
    /// least 1.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Int(number) => usize::try_from(number).unwrap_or(0),
            Self::Percent(0) => 0,
            Self::Percent(percent) => (total * usize::try_from(percent).unwrap_or(0) / 100).max(1),
        }
    }
}
