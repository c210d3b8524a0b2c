//! Times as Azure writes them, in seconds since 1970. Pure. Only Azure's own times are compared with one another: numo's clock may be another.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Reads the header `date`: `Sun, 29 Nov 2026 10:00:00 GMT`.
pub fn of_header(text: &str) -> Option<u64> {
    let rest = text.split_once(", ")?.1.strip_suffix(" GMT")?;
    let mut parts = rest.split(' ');
    let (day, month, year, clock) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)?;
    let month = u64::try_from(month).ok()? + 1;
    let mut clock = clock.split(':').map(number);
    let clock = (clock.next()??, clock.next()??, clock.next()??);
    seconds((number(year)?, month, number(day)?), clock)
}

/// Reads a time in UTC: `2026-11-29T10:00:00.1234567`, with or without its zone.
pub fn of_utc(text: &str) -> Option<u64> {
    let part = |from: usize, to: usize| number(text.get(from..to)?);
    let date = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    seconds(date, (part(11, 13)?, part(14, 16)?, part(17, 19)?))
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

fn seconds((year, month, day): (u64, u64, u64), (hour, minute, second): (u64, u64, u64)) -> Option<u64> {
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years from March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leaps + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_the_same_second() {
        assert_eq!(of_header("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(of_header("Sun, 29 Nov 2026 10:00:00 GMT"), Some(1_795_946_400));
        assert_eq!(of_utc("2026-11-29T10:00:00.1234567+00:00"), Some(1_795_946_400));
        assert_eq!(of_utc("2024-02-29T23:59:59"), Some(1_709_251_199));
        assert_eq!(of_utc("2024-03-01T00:00:00"), Some(1_709_251_200));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for wrong in [
            "",
            "yesterday",
            ", GMT",
            "x, 1 Nov GMT",
            "Sun, 29 Nov 1926 10:00:00 GMT",
            "Sun, 29 Nov 2026 10:00 GMT",
            "é, é é é é GMT",
        ] {
            assert_eq!(of_header(wrong), None, "{wrong}");
        }
        for wrong in [
            "",
            "2026",
            "2026-13-01T00:00:00",
            "0000-01-01T00:00:00",
            "éééééééééééééééé",
        ] {
            assert_eq!(of_utc(wrong), None, "{wrong}");
        }
    }
}
