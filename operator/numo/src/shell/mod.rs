//! The shell: everything that talks to a cluster. It decides nothing; what it does was decided in
//! numo-core. Only this folder names `kube::Client`.

pub mod answer;
pub mod apply;
pub mod client;
pub mod clock;
pub mod events;
pub mod http;
pub mod leader;
pub mod metrics;
pub mod observe;
pub mod operator;
pub mod planner;
pub mod status;
pub mod store;
pub mod watch;
pub mod wire;
