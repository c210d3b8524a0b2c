//! The shell: everything that talks to a cluster. It decides nothing; what it does was decided in
//! numo-core. Only this folder names `kube::Client`.

pub mod access;
pub mod apply;
#[cfg(feature = "operator")]
pub mod certificates;
pub mod channel;
pub mod claim;
pub mod client;
pub mod clock;
mod crowd;
pub mod doctor;
pub mod etcd;
pub mod eval;
pub mod events;
#[cfg(feature = "operator")]
pub mod http;
mod inbox;
mod item;
pub mod kind;
pub mod kured;
pub mod leader;
pub mod lines;
pub mod list;
#[cfg(feature = "operator")]
pub mod metrics;
pub mod notice;
#[cfg(feature = "operator")]
pub mod notify;
#[cfg(feature = "operator")]
pub mod operator;
pub mod plan_writers;
#[cfg(feature = "operator")]
pub mod planner;
mod policies;
pub mod probe;
pub mod project;
pub mod provider;
pub mod repeats;
pub mod requests;
mod reviewed;
pub mod rival;
pub mod room;
#[cfg(feature = "operator")]
mod serve;
mod servers;
pub mod services;
pub mod status;
pub mod store;
pub mod surroundings;
#[cfg(feature = "operator")]
mod token;
pub mod told;
#[cfg(feature = "operator")]
pub mod traces;
#[cfg(not(feature = "operator"))]
pub mod uncounted;
mod unserved;
pub mod watch;
pub mod watched;
#[cfg(feature = "operator")]
pub mod webhook;
mod weigh;

#[cfg(not(feature = "operator"))]
pub use uncounted as metrics;
