//! Names that a provider makes or takes apart. No calls.

use crate::{Failure, failure::invalid};

/// Bytes of a request id, as the contract bounds it.
const REQUEST_BYTES: usize = 32;

/// A request id as the contract has it: lower-case letters, digits and hyphens, 1 to 32.
pub fn request(id: &str) -> Result<&str, Failure> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if id.is_empty() || id.len() > REQUEST_BYTES || !id.bytes().all(fits) {
        return Err(invalid(format!(
            "request id: found {:?}, wanted 1 to {REQUEST_BYTES} lower-case letters, digits and hyphens",
            id.chars().take(64).collect::<String>()
        )));
    }
    Ok(id)
}

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
    fn a_request_id_is_checked_and_a_text_quoted() {
        assert_eq!(request("numo-1a").unwrap(), "numo-1a");
        for wrong in ["", "Numo", "a/b", &"a".repeat(33)] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
        assert_eq!(in_url("a b/é"), "a%20b%2F%C3%A9");
    }
}
