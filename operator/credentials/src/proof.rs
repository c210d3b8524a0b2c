//! What a request is signed with.

use crate::{exchange::Exchange, refusal::Refusal};
use secrecy::SecretString;

/// The longest that something obtained counts, whatever the answer says (seconds).
pub(crate) const LONGEST: i64 = 24 * 60 * 60;

/// What a request is signed with. Its `Debug` shows no secret.
#[derive(Debug)]
pub(crate) enum Proof {
    /// For `bearer`.
    Bearer(SecretString),
    /// For `aws-sigv4`.
    Keys(Keys),
}

/// Keys of AWS.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: SecretString,
    pub(crate) token: Option<SecretString>,
}

/// A proof that ends by itself.
#[derive(Debug)]
pub(crate) struct Obtained {
    pub(crate) proof: Proof,
    /// How long it counts (seconds); at least one, [`LONGEST`] at most.
    pub(crate) lifetime: i64,
}

/// For which credential something is obtained, when, and by whom.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) now: jiff::Timestamp,
    pub(crate) exchange: &'a dyn Exchange,
}

impl Call<'_> {
    /// A secret of a file or an answer that goes into a header.
    ///
    /// Errors: it is no single word.
    pub(crate) fn word(
        &self,
        place: &(impl ToString + ?Sized),
        field: &str,
        value: &str,
        wanted: &str,
    ) -> Result<SecretString, Refusal> {
        match crate::file::check_token(value) {
            Ok(()) => Ok(value.into()),
            Err(found) => Err(Refusal::malformed(self.name, place, field, found, wanted)),
        }
    }
}
