//! What a world is asked to be.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The cluster a [`World`](crate::World) builds.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// Control-plane nodes.
    pub masters: usize,
    /// Worker pools. `worker` is made even when it is not listed.
    pub pools: Vec<PoolSpec>,
    /// Nodes are spread over `zone-a`, `zone-b`, … in turn; 0: no zone label.
    pub zones: usize,
    /// OpenShift version at the start. Kubelet version and OS image follow from it.
    pub version: String,
    /// Whose habits the machine-config operator has.
    pub mco: McoVersion,
    /// Add the empty, unpaused pool `canary` from the replaced operator's page.
    pub canary: bool,
    /// How fast time goes.
    pub time_factor: TimeFactor,
    /// Seed of all that varies: reboot times, node ages.
    pub seed: u64,
    /// Infrastructure's controlPlaneTopology. `SingleReplica` makes masters workers too, and nodes
    /// are not drained; `HighlyAvailableArbiter` adds `arbiter-0` in the pool `arbiter`; `External`
    /// has no pool `master`, and must be given no masters.
    pub topology: String,
    /// Masters are workers too, as in a cluster of three nodes. They stay in the pool `master`.
    pub compact: bool,
    /// Windows nodes `windows-0`, …: workers the MCO leaves alone.
    pub windows: usize,
    /// Durations at factor 1.
    pub timings: Timings,
    /// Programs that are at hand, by the name of their image (`kubectl` for `registry.example.com/kubectl:1`). Containers of
    /// other images only take their time where they name no command.
    pub programs: BTreeMap<String, Program>,
}

/// The real program of an image.
#[derive(Clone, Debug)]
pub struct Program {
    /// Program, and arguments before its own.
    pub command: Vec<String>,
    /// A kubeconfig of the cluster, whoever it is of: a pod's containers use it as their ServiceAccount.
    pub kubeconfig: std::path::PathBuf,
    /// Variables that say where it listens, with their ports: on its pod's address alone, as there is one network.
    pub listens: Vec<(String, u16)>,
    /// Whether it stands in for the command that a container of the image names. Further words of that are its arguments.
    pub is_any_command: bool,
}

impl Default for WorldSpec {
    fn default() -> Self {
        Self {
            masters: 1,
            pools: vec![PoolSpec::new("worker", 3)],
            zones: 3,
            version: "4.16.4".into(),
            mco: McoVersion::default(),
            canary: false,
            time_factor: TimeFactor::default(),
            seed: 0,
            topology: "HighlyAvailable".into(),
            compact: false,
            windows: 0,
            timings: Timings::default(),
            programs: BTreeMap::new(),
        }
    }
}

impl WorldSpec {
    /// Whether masters may run what workers run.
    pub(crate) fn masters_are_workers(&self) -> bool {
        self.compact || self.is_single_node()
    }

    /// Whether there is nowhere to drain a node to.
    pub(crate) fn is_single_node(&self) -> bool {
        self.topology == "SingleReplica"
    }

    /// Built-in pools of the control plane, and how many nodes each has.
    pub(crate) fn control_plane(&self) -> Vec<(&'static str, usize)> {
        match self.topology.as_str() {
            "External" => Vec::new(),
            "HighlyAvailableArbiter" => vec![("master", self.masters), ("arbiter", 1)],
            _ => vec![("master", self.masters)],
        }
    }
}

/// A MachineConfigPool of workers.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// `worker`, or the name of a custom pool: its nodes have `node-role.kubernetes.io/<name>` too.
    pub name: String,
    /// How many nodes.
    pub workers: usize,
    /// The pool's maxUnavailable; none: 1.
    pub max_unavailable: Option<IntOrString>,
    /// A MachineConfig of its own, so that its content is not `worker`'s.
    pub own_config: bool,
    /// Paused from the start, by its owner.
    pub paused: bool,
}

impl PoolSpec {
    /// A pool with nothing special about it.
    pub fn new(name: &str, workers: usize) -> Self {
        Self {
            name: name.into(),
            workers,
            max_unavailable: None,
            own_config: false,
            paused: false,
        }
    }
}

/// Whose habits the machine-config operator has. Named by the OpenShift minor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum McoVersion {
    /// Puts the built-in pools' nodeSelector back; not upgradeable while a pool updates; tells of
    /// kubelets that are far behind.
    V4_16,
    /// Puts the built-in pools' nodeSelector back.
    #[default]
    V4_18,
    /// As 4.18, and daemon and drain controller stop on a node that is in two custom pools.
    V4_20,
    /// As 4.20, but leaves the built-in pools' nodeSelector alone and labels the nodes that first
    /// boot into a custom pool.
    V4_22,
}

impl McoVersion {
    /// Whether it re-applies the built-in pools' nodeSelector.
    pub fn reverts_built_in_selectors(self) -> bool {
        self < Self::V4_22
    }

    /// Whether daemon and drain controller refuse to work on a node in two custom pools.
    pub fn stops_in_two_pools(self) -> bool {
        self >= Self::V4_20
    }

    /// Whether any updating pool makes the ClusterOperator not upgradeable.
    pub fn updating_blocks_upgrades(self) -> bool {
        self < Self::V4_18
    }

    /// Whether a kubelet that is two minors behind shows in its Upgradeable.
    pub fn tells_kubelet_skew(self) -> bool {
        self < Self::V4_18
    }

    /// Whether nodes that first boot into a custom pool get its labels from the MCO.
    pub fn labels_first_booted(self) -> bool {
        self >= Self::V4_22
    }
}

/// Real seconds per simulated second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct TimeFactor(pub f64);

impl Default for TimeFactor {
    /// Four minutes of reboot take a second.
    fn default() -> Self {
        Self(0.004)
    }
}

impl TimeFactor {
    /// The real duration of `seconds` of the world's time.
    pub fn of(self, seconds: f64) -> Duration {
        Duration::from_secs_f64((seconds * self.0).max(0.0))
    }
}

/// Durations in seconds of the world's time.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// From an accepted release until the new machine-config operator renders (80 % of the payload).
    pub control_plane: f64,
    /// Node controller: from an event to the sync.
    pub pool_sync: f64,
    /// Drain controller: from a request to the work.
    pub drain_sync: f64,
    /// Daemon: from a new desiredConfig to work.
    pub daemon_poll: f64,
    /// Daemon: writing files and the operating system.
    pub apply: f64,
    /// Shortest reboot.
    pub reboot_min: f64,
    /// Longest reboot.
    pub reboot_max: f64,
    /// From a new machine's Node to Ready.
    pub boot: f64,
    /// One try of a drain.
    pub drain_try: f64,
    /// Between tries of a drain.
    pub drain_retry: f64,
    /// After this long the daemon calls a drain failed (and goes on waiting).
    pub drain_degraded: f64,
    /// Pulling images and starting a pod's containers.
    pub pod_start: f64,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            control_plane: 600.0,
            pool_sync: 5.0,
            drain_sync: 5.0,
            daemon_poll: 10.0,
            apply: 60.0,
            reboot_min: 150.0,
            reboot_max: 300.0,
            boot: 60.0,
            drain_try: 90.0,
            drain_retry: 60.0,
            drain_degraded: 3600.0,
            pod_start: 2.0,
        }
    }
}
