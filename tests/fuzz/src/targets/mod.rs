//! The targets, one file for each.

mod challenge;
mod component;
mod config;
mod credentials;
mod manifest;
mod metadata;
mod reference;
mod signature;

use std::time::Duration;

use crate::Target;

/// For what only reads text.
const AT_ONCE: Duration = Duration::from_secs(5);
/// For what compiles and runs, with the limits of [`component`] and a machine that is busy.
const COMPILED: Duration = Duration::from_mins(1);

/// All of them.
pub const TARGETS: [Target; 8] = [
    Target {
        name: "challenge",
        within: AT_ONCE,
        longest: 16 << 10,
        read: challenge::read,
        make: challenge::make,
    },
    Target {
        name: "component",
        within: COMPILED,
        longest: 256 << 10,
        read: component::read,
        make: component::make,
    },
    Target {
        name: "config",
        within: AT_ONCE,
        longest: 64 << 10,
        read: config::read,
        make: config::make,
    },
    Target {
        name: "credentials",
        within: AT_ONCE,
        longest: 64 << 10,
        read: credentials::read,
        make: credentials::make,
    },
    Target {
        name: "manifest",
        within: AT_ONCE,
        longest: 64 << 10,
        read: manifest::read,
        make: manifest::make,
    },
    Target {
        name: "metadata",
        within: AT_ONCE,
        longest: 256 << 10,
        read: metadata::read,
        make: metadata::make,
    },
    Target {
        name: "reference",
        within: AT_ONCE,
        longest: 1 << 10,
        read: reference::read,
        make: reference::make,
    },
    Target {
        name: "signature",
        within: AT_ONCE,
        longest: 64 << 10,
        read: signature::read,
        make: signature::make,
    },
];
