//! How an owner stands: the one reason that says best what it is doing, and whether a person is needed. Its conditions Ready,
//! Reconciling and Stalled, and the command line, say this one value.

use numo_api::Reason;

/// How an owner stands.
#[derive(Debug)]
pub struct Standing {
    /// The reason.
    pub reason: Reason,
    /// The reason in a sentence.
    pub message: String,
    /// Whether it goes on only if a person does something.
    pub stalled: bool,
}

impl Standing {
    /// Whether all is as it should be: nothing is open, and nothing is wrong.
    pub const fn is_good(&self) -> bool {
        matches!(
            self.reason,
            Reason::UpToDate | Reason::Succeeded | Reason::NoNodes
        )
    }

    /// Reason and sentence.
    pub fn said(self) -> (Reason, String) {
        (self.reason, self.message)
    }
}
