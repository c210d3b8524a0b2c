//! The host's side of `wit/host` and `wit/provider`: one file per interface. Each function counts its call, checks the grant, asks a
//! service, and bounds the answer, in this order. What no grant covers is answered `denied` and never asked.

mod book;
mod clock;
mod cloud_api;
mod history;
mod http;
mod kubernetes;
mod log;
mod mask;
mod objects;
mod output;
mod prometheus;
mod sandbox;
mod settings;
pub(crate) mod wasi;

pub(crate) use self::sandbox::Sandbox;
