//! The one way out: rules, Prometheus, channels of Plans and registries are reached through it. Nothing here knows what is
//! asked, or whether a grant lends it.

pub mod address;
pub mod proxy;
pub(crate) mod transport;

pub use proxy::{authorization, decoded};
pub use transport::{Resolve, SystemResolver, authorities};
