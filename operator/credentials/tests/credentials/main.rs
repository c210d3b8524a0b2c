//! Credentials as a host uses them: a virtual clock, files in a folder, and a token endpoint that says what a test wants.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod aws;
mod azure;
mod cache;
mod configured;
mod google;
mod hostile;
mod secrets;
mod stage;
