//! Names that a provider makes or takes apart. No calls.

use crate::{Failure, failure::invalid};

pub use numo_percent::in_url;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_checked() {
        assert_eq!(request("numo-1a").unwrap(), "numo-1a");
        for wrong in ["", "Numo", "a/b", &"a".repeat(33)] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }
}
