//! Text that is bounded before it is kept or shown.

/// The first `max` characters, on one line and fit to be read ([`numo_api::text`]).
pub fn clip(text: &str, max: usize) -> String {
    numo_api::text::line(text).chars().take(max).collect()
}
