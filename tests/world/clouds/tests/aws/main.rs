//! The provider of AWS against a local server of EC2 and Auto Scaling: whole replacements, a crash at every call, and every fault. It was not
//! run against the real cloud.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails is a test that fails"
)]

mod crashes;
mod created;
mod deleted;
mod faults;
mod groups;
mod hostile;
mod images;
mod replacement;
mod setup;
mod signed;
mod units;
mod vectors;
