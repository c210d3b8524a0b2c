//! A simulated OpenShift around a real API server: nodes with small kubelets, the cluster-version
//! operator, and the machine-config operator with its render, node and drain controllers and its
//! daemons. Scheduler, Jobs, evictions, budgets, garbage collection and node leases are Kubernetes'
//! own.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> anyhow::Result<()> {
//! use numo_world::{Judgement, World, WorldSpec};
//! let world = World::create(client, WorldSpec { canary: true, ..WorldSpec::default() }).await?;
//! world.upgrade_to("4.16.5").await?;
//! // … the operator under test does its work …
//! let breaches = world.judge(&Judgement { at_version: Some("4.16.5".into()), ..Judgement::default() }).await?;
//! assert!(breaches.is_empty(), "{breaches:?}");
//! world.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! One file is one component. The log and the judge know only what the watches showed.
//!
//! **Time.** All delays are [`Timings`] in seconds of the world, times one [`TimeFactor`]. Only node
//! leases follow the wall clock, because the real controller-manager waits for them.
//!
//! **Pods.** The first container's, and all others', command and arguments run as a process of this
//! machine: as nobody when we are root, in namespaces of its own where the system allows it, in an
//! empty folder. `/dev/termination-log` works, logs go through the API server, exit codes are real. A
//! container without a command runs until its pod is deleted; in a Job's pod it ends well after ten
//! seconds of the world. An image with `does-not-exist` in its name cannot be pulled.
//!
//! **Others.** GitOps, remediation and an autoscaler act beside the operator under test while their
//! [`Actor`] is held.
//!
//! **Not simulated:** objects of MachineConfigNode (the kind is installed), images of layered pools (their
//! MachineOSConfig is there), updates refused by Upgradeable, certificates, events of the OpenShift
//! components, volumes, probes, sidecars, `envFrom`, networks.

mod actor;
mod cache;
mod cloud;
mod content;
mod context;
mod crds;
mod cvo;
mod daemon;
mod drain;
mod fault;
mod judge;
mod kubelet;
mod log;
mod machine;
mod machine_api;
mod membership;
mod node_controller;
pub mod openshift;
mod operator;
mod record;
mod render;
mod setup;
mod snapshot;
mod spec;
mod world;

pub use actor::{Actor, PoolInGit};
pub use content::same_content;
pub use context::MADE_BY;
pub use fault::Fault;
pub use judge::{Breach, Judgement};
pub use log::{Entry, Event, State};
pub use machine_api::MachineApi;
pub use membership::Membership;
pub use record::{Change, JobView, MARK_PREFIXES, NodeView, PodView, PoolView, Record, VersionView};
pub use spec::{McoVersion, PoolSpec, Program, TimeFactor, Timings, WorldSpec};
pub use world::World;
