//! Failures in the contract's words: by what numo does about them. No retries here: numo asks again.

use crate::{Error, ErrorCode, Failure, FailureCode, host::Response};

/// Bytes of a failure's sentence, as the contract bounds it.
const MESSAGE_BYTES: usize = 1024;

/// A failure without a time.
pub fn failure(code: FailureCode, message: impl AsRef<str>) -> Failure {
    Failure {
        code,
        message: cut(message.as_ref()).to_owned(),
        retry_after_seconds: None,
        attributes: Vec::new(),
    }
}

/// An id, image or setting that does not have the form of this cloud: names what was found and what is wanted.
pub fn invalid(message: impl AsRef<str>) -> Failure {
    failure(FailureCode::Invalid, message)
}

/// What came of a host call that failed: `denied` stays denied, all else may end by itself.
pub fn of_host(error: &Error) -> Failure {
    let code = match error.code {
        ErrorCode::Denied | ErrorCode::Forbidden => FailureCode::Denied,
        ErrorCode::Invalid => FailureCode::Invalid,
        ErrorCode::Unavailable | ErrorCode::OverBudget | ErrorCode::Expired => FailureCode::Unavailable,
        ErrorCode::Unsupported | ErrorCode::TooLarge | ErrorCode::Other => FailureCode::Other,
    };
    failure(code, &error.message)
}

/// What an HTTP status of a cloud says where its body has no better word, with the seconds of `retry-after`.
pub fn of_status(response: &Response, words: impl AsRef<str>) -> Failure {
    let code = match response.status {
        401 | 403 => FailureCode::Denied,
        404 | 410 => FailureCode::NotFound,
        429 => FailureCode::Throttled,
        408 | 500..=599 => FailureCode::Unavailable,
        _ => FailureCode::Other,
    };
    Failure {
        retry_after_seconds: retry_after(response),
        ..failure(code, words)
    }
}

/// The seconds of the header `retry-after`, an hour at most; none for a date.
pub fn retry_after(response: &Response) -> Option<u32> {
    let header = response.headers.iter();
    let mut header = header.filter(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    let seconds: u32 = header.next()?.1.trim().parse().ok()?;
    Some(seconds.min(3600))
}

/// The first bytes, whole characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_cut_between_characters() {
        let long = "é".repeat(MESSAGE_BYTES);
        assert!(failure(FailureCode::Other, &long).message.len() <= MESSAGE_BYTES);
        assert_eq!(failure(FailureCode::Other, "short").message, "short");
    }

    #[test]
    fn throttling_keeps_its_seconds_and_a_date_has_none() {
        let response = |status, value: &str| Response {
            status,
            headers: vec![("retry-after".to_owned(), value.to_owned())],
            body: Vec::new(),
        };
        let throttled = of_status(&response(429, " 7 "), "slow down");
        assert_eq!(
            (throttled.code, throttled.retry_after_seconds),
            (FailureCode::Throttled, Some(7))
        );
        assert_eq!(retry_after(&response(503, "999999")), Some(3600));
        assert_eq!(retry_after(&response(503, "Wed, 21 Oct 2026 07:28:00 GMT")), None);
    }
}
