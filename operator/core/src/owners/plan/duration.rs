//! Durations as Go reads and writes them (`time.ParseDuration`, `Duration.String`). Nothing here decides anything.

/// Units of a duration, as Go names them, with their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration as Go reads it (`1h30m`, `1.5s`, `-5s`, `0`), in nanoseconds; what is finer is cut off.
pub(super) fn duration_nanos(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = rest;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let nanos = UNITS.iter().find(|(name, _)| *name == &rest[..end])?.1;
        rest = &rest[end..];
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // More digits than these are finer than any unit is long in nanoseconds.
        let (mut part, mut scale) = (0_u128, 1_u128);
        for digit in fraction.bytes().take(18) {
            part = part * 10 + u128::from(digit - b'0');
            scale *= 10;
        }
        let part = u64::try_from(part * u128::from(nanos) / scale).ok()?;
        total = total.checked_add(whole.checked_mul(nanos)?)?.checked_add(part)?;
    }
    let total = i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

/// A duration as Go writes it: `1m30s`, `1.5s`, `100µs`, `0s`.
pub fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let decimal = |unit: u64, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = unit.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        match fraction.trim_end_matches('0') {
            _ if rest == 0 => format!("{sign}{whole}{name}"),
            fraction => format!("{sign}{whole}.{fraction}{name}"),
        }
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => decimal(1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
        _ => {
            const MINUTE: u64 = 60_000_000_000;
            let (minutes, seconds) = (nanos / MINUTE, nanos % MINUTE);
            let fraction = format!("{:09}", seconds % 1_000_000_000);
            let point = fraction.trim_end_matches('0');
            let point = if point.is_empty() {
                String::new()
            } else {
                format!(".{point}")
            };
            let seconds = format!("{}{point}s", seconds / 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

/// A duration in seconds as Go writes it.
pub fn seconds_text(seconds: i64) -> String {
    duration_text(seconds.saturating_mul(1_000_000_000))
}

/// A duration as Go reads it, in milliseconds; what is finer is rounded up.
pub fn duration_millis(text: &str) -> Option<i64> {
    let nanos = duration_nanos(text)?;
    let millis = nanos.abs().div_euclid(1_000_000) + i64::from(nanos % 1_000_000 != 0);
    Some(if nanos < 0 { -millis } else { millis })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [
            ("0", Some(0)),
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1500)),
            ("-5s", Some(-5000)),
            ("1500000ns", Some(2)),
            ("", None),
            ("5", None),
            ("5x", None),
            ("h", None),
            ("1..5s", None),
            ("-", None),
            ("99999999999999h", None),
            (".", None),
            (".s", None),
            ("1.5.5s", None),
            ("1.s", Some(1000)),
            (".5s", Some(500)),
            ("9223372036854775807ns", Some(9_223_372_036_855)),
            ("9223372036854775808ns", None),
        ] {
            assert_eq!(duration_millis(text), millis, "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_as_go_writes_it() {
        for (text, written) in [
            ("90s", "1m30s"),
            ("0", "0s"),
            ("60m", "1h0m0s"),
            ("1500ms", "1.5s"),
            ("100us", "100µs"),
            ("1.5us", "1.5µs"),
            ("0.5ms", "500µs"),
            ("-90s", "-1m30s"),
            ("1ns", "1ns"),
            ("3.000000001s", "3.000000001s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ] {
            assert_eq!(
                duration_nanos(text).map(duration_text).as_deref(),
                Some(written),
                "{text}"
            );
        }
    }
}
