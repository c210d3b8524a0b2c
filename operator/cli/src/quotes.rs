//! Which letters of an expression stand in no quotes. It knows no language of expressions.

/// The letters that stand in no quotes, each with the byte at which it begins. `quotes` are the letters that open quotes, which the same
/// letter closes. After a backslash the next letter means nothing, but between backquotes, where a backslash is a letter like any.
pub(crate) fn unquoted<'t>(text: &'t str, quotes: &'t [char]) -> impl Iterator<Item = (usize, char)> + 't {
    let (mut quote, mut escaped) = (None, false);
    text.char_indices().filter(move |(_, letter)| {
        match (*letter, quote) {
            _ if escaped => escaped = false,
            ('\\', open) if open != Some('`') => escaped = true,
            (letter, None) if quotes.contains(&letter) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (_, None) => return true,
            _ => {}
        }
        false
    })
}
