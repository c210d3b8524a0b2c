//! Days of the week and times of day as people write them, in the forms that system-upgrade-controller understands.

use crate::plan::DAYS;
use jiff::civil::Time;

/// The day of a week by its number, or by its name in full, in three letters or in two; Sunday is 0.
pub fn day_of_week(text: &str) -> Option<usize> {
    let name = text.trim().to_lowercase();
    DAYS.iter().position(|names| names.contains(&name.as_str()))
}

/// `15:04`, `15:04:05`, `03:04pm`, `15`, `03pm`, `3pm`.
pub fn time_of_day(text: &str) -> Option<Time> {
    let text = text.trim();
    let lower = text.to_lowercase();
    let (digits, half) = match lower.strip_suffix("pm") {
        Some(rest) => (rest, Some(true)),
        None => match lower.strip_suffix("am") {
            Some(rest) => (rest, Some(false)),
            None => (lower.as_str(), None),
        },
    };
    let mut numbers = Vec::new();
    for part in digits.split(':') {
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        numbers.push(part.parse::<i8>().ok()?);
    }
    let (hour, minute, second) = match (numbers.as_slice(), half) {
        ([hour], _) => (*hour, 0, 0),
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], None) => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(true) => hour % 12 + 12,
        Some(false) => hour % 12,
    };
    Time::new(hour, minute, second, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_understood_in_every_form_and_nothing_else_is() {
        for (text, hour, minute, second) in [
            ("15:04", 15, 4, 0),
            ("15:04:05", 15, 4, 5),
            ("03:04pm", 15, 4, 0),
            ("15", 15, 0, 0),
            ("03pm", 15, 0, 0),
            ("3PM", 15, 0, 0),
            ("12am", 0, 0, 0),
            ("12pm", 12, 0, 0),
            ("0", 0, 0, 0),
        ] {
            assert_eq!(
                time_of_day(text),
                Time::new(hour, minute, second, 0).ok(),
                "{text}"
            );
        }
        for text in [
            "",
            "24",
            "25:00",
            "15:60",
            "13pm",
            "0pm",
            "noon",
            "15:04:05pm",
            "1:2:3:4",
            "-1",
            "123",
            "3 pm x",
        ] {
            assert_eq!(time_of_day(text), None, "{text}");
        }
    }
}
