//! What every verb of the command line has, whichever crate it is of: how it prints and in which formats, how it fails, and how it
//! reads a file that a flag names. It knows no verb, no cluster, and neither the core nor the host of rules.

pub mod aligned;
pub mod columns;
pub mod error;
pub mod files;
pub mod format;
pub mod jsonpath;
mod quotes;
pub mod say;
mod template;

pub use error::CliError;
pub use format::Format;
