//! The host's side of `wit/host`: one file per interface. Each function counts its call, checks the grant, asks a
//! service, and bounds the answer, in this order. What no grant covers is answered `denied` and never asked.

mod book;
mod clock;
mod history;
mod http;
mod kubernetes;
mod log;
mod mask;
mod output;
mod prometheus;
mod sandbox;
pub(crate) mod wasi;

pub(crate) use self::http::header_of;
pub use self::kubernetes::{check_kind, check_name};
pub use self::sandbox::Read;
pub(crate) use self::sandbox::Sandbox;
