//! The shell: everything that talks to a cluster. It decides nothing; what it does was decided in
//! numo-core. Only this folder names `kube::Client`.

pub mod access;
pub mod answer;
pub mod apply;
pub mod around;
pub mod artifact;
pub mod asked;
pub mod certificates;
pub mod channel;
pub mod claim;
pub mod client;
pub mod clock;
pub mod component;
mod credentials;
pub mod doctor;
pub mod events;
pub mod expressions;
pub mod http;
pub mod leader;
pub mod metrics;
pub mod notice;
pub mod observe;
pub mod operator;
pub mod planner;
pub mod query;
pub mod reader;
pub mod repeats;
pub mod rival;
pub mod status;
pub mod stir;
pub mod store;
pub mod watch;
pub mod webhook;
pub mod wire;
pub mod workloads;
