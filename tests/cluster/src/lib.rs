//! A real control plane for tests and the demo: etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler, each its own process on loopback.
//!
//! There is no kubelet and no network: nodes are simulated by `numo-world`.
//! Everything else is Kubernetes itself, so validation, RBAC, garbage collection,
//! Jobs, evictions and disruption budgets behave as they do in production.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use numo_cluster::{Cluster, Options, User};
//! let cluster = Cluster::start(Options::default()).await?;
//! let client = cluster.client(User::Admin).await?;
//! println!("{}", client.apiserver_version().await?.git_version);
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

mod audit;
mod binaries;
mod cluster;
mod credentials;
mod dirs;
mod etcd;
mod kept;
mod members;
mod ports;
mod process;
mod reuse;
mod tally;
mod turnstile;

pub use audit::AuditEvent;
pub use binaries::{Binaries, binary};
pub use cluster::{Cluster, Options};
pub use credentials::User;
pub use members::Members;
