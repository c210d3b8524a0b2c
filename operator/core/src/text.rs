//! Text that is bounded before it is kept or shown, and numbers and lists of things in words.

use std::fmt::Display;

/// The first `max` characters, on one line and fit to be read ([`numo_api::text`]).
pub fn clip(text: &str, max: usize) -> String {
    numo_api::text::line(text).chars().take(max).collect()
}

/// The first `most` of a list in a sentence, and how many more there are: `a, b and 3 more`. Empty for an empty list.
pub fn first_of<T: Display>(all: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut all = all.into_iter();
    let named: Vec<String> = all.by_ref().take(most).map(|one| one.to_string()).collect();
    match (named.join(", "), all.count()) {
        (named, 0) => named,
        (named, more) => format!("{named} and {more} more"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_list_the_first_are_named_and_the_others_counted() {
        let of = |count: usize| first_of((0..count).map(|one| format!("node-{one}")), 2);
        assert_eq!(of(0), "");
        assert_eq!(of(2), "node-0, node-1");
        assert_eq!(of(5), "node-0, node-1 and 3 more");
    }
}
