//! What `numo-cli` prints with stands before std's macros in every verb: nobody prints past it.

macro_rules! println {
    ($($words:tt)*) => { numo_cli::println!($($words)*) };
}
macro_rules! print {
    ($($words:tt)*) => { numo_cli::print!($($words)*) };
}
macro_rules! eprintln {
    ($($words:tt)*) => { numo_cli::eprintln!($($words)*) };
}
macro_rules! writeln {
    ($($words:tt)*) => { numo_cli::writeln!($($words)*) };
}

pub use numo_cli::say::*;

#[cfg(test)]
mod tests {
    use numo_api::text;

    #[test]
    fn rules_and_the_command_line_hide_the_same() {
        for character in '\0'..=char::MAX {
            assert_eq!(
                text::is_unseen(character),
                numo_plugin::text::is_unseen(character),
                "{character:?}"
            );
        }
    }
}
