//! Servers of cloud APIs on loopback, for tests of providers of machines. Each behaves as the public documentation of that API says; none was
//! compared with the real cloud. Nothing here reaches beyond loopback.

pub mod aws;
pub mod azure;
pub mod gcp;
pub mod objects;
mod served;

pub use served::{Loopback, Served, native};
