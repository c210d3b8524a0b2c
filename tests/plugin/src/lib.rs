//! What the tests of the rule host share: guests, and services that answer from memory.

pub mod google;
pub mod guest;
pub mod programs;
pub mod prometheus;
pub mod registry;
pub mod services;
pub mod sigstore;
