//! Text that is bounded before it is kept or shown, and numbers and lists of things in words.

pub use numo_api::text::first_of;

/// The first `max` characters, on one line and fit to be read ([`numo_api::text`]).
pub fn clip(text: &str, max: usize) -> String {
    numo_api::text::line(text).chars().take(max).collect()
}

/// A number of things: `1 node`, `2 nodes`, `2 batches`.
pub fn counted(number: usize, thing: &str) -> String {
    let s = match thing {
        _ if number == 1 => "",
        thing if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {thing}{s}")
}
