//! How a token is asked for: by the host, through this trait.

use async_trait::async_trait;
use std::fmt;
use url::Url;

/// How much of an answer is wanted (bytes). A longer one is refused.
pub const ANSWER_BYTES: usize = 64 << 10;

/// Sends what this crate asks a token endpoint for. The host does so by its guarded connector: addresses of the machine and its metadata
/// service stay closed, no redirect is followed, and only the hosts of [`Credentials::hosts`](crate::Credentials::hosts) are reached.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// Sends a form by POST, once, with the header `content-type` of [`FORM`], within seconds, and answers with any status. The form has
    /// secrets: it belongs in no log. Of a body up to one byte more than [`ANSWER_BYTES`] is read.
    ///
    /// Errors: words for people why there is no answer.
    async fn post(&self, url: &Url, form: &str) -> Result<Answer, String>;
}

/// The `content-type` of what is posted.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// What a token endpoint answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// Any.
    pub status: u16,
    /// As it came.
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}
