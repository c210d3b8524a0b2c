//! Percent-encoding for URLs: the same for rules and for providers of machines, whose toolkits share nothing else.

/// Quotes a text for any part of a URL: everything but unreserved characters is percent-encoded.
pub fn in_url(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            quoted.push('%');
            for half in [byte >> 4, byte & 15] {
                quoted.push(char::from(b"0123456789ABCDEF"[usize::from(half)]));
            }
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_characters_are_quoted() {
        assert_eq!(in_url("a b/é"), "a%20b%2F%C3%A9");
        assert_eq!(in_url("aZ09-._~"), "aZ09-._~");
        assert_eq!(in_url("%&=?#\u{0}"), "%25%26%3D%3F%23%00");
    }
}
