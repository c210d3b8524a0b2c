//! What evaluations share: what is loaded, what is watched, what may run beside what, and how the evaluator was told to work. Nothing
//! here evaluates.

use super::{
    artifact::{ArtifactOptions, Artifacts},
    intent::Loaded,
    reader::Access,
};
use crate::{
    runners::wasm::Fault,
    shell::{client::Connection, lines::LogShares, metrics::Metrics, project::Edition},
};
use numo_api::{AwaitedWorkloads, Reason};
use numo_core::observed::Key;
use numo_plugin::{Engine, address::Networks, services::Fetch, shares::Shares};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};
use tokio::task::AbortHandle;

/// Longest that reading what a rule is asked about may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How rules that are asked are treated.
#[derive(Clone, Debug, Default)]
pub struct EvaluatorOptions {
    /// Folder of components and their compiled forms; none keeps nothing.
    pub cache: Option<PathBuf>,
    /// How images are fetched.
    pub artifacts: ArtifactOptions,
    /// The Prometheus that rules may be granted.
    pub prometheus: Option<PrometheusServer>,
    /// Addresses of pods, services and nodes: no rule reaches them unless its namespace may.
    pub cluster_networks: Networks,
    /// Rules may read Secrets that their grants name and their ServiceAccount may read.
    pub secrets: bool,
    /// A grant may name loopback, too: where a server of a test is.
    pub reach_loopback: bool,
}

/// A Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusServer {
    /// Where it is.
    pub url: url::Url,
    /// File with a bearer token, read anew for each query; none sends none.
    pub token: Option<PathBuf>,
    /// Certificate authorities to trust for it, as PEM, besides the system's.
    pub authorities: Vec<u8>,
}

/// What evaluations need.
#[derive(Clone)]
pub(super) struct Begun {
    pub(super) engine: Engine,
    /// Asks servers for rules.
    pub(super) fetch: Arc<dyn Fetch>,
    /// Asks Prometheus.
    pub(super) prometheus: Arc<dyn Fetch>,
}

/// Who has expressions evaluated in a child now, who has them checked, and who reads for an evaluation: whoever waits for one of these
/// waits for none of the others.
pub(super) struct Children {
    /// What is run, and with which arguments; none if this program does not know where it is.
    pub(super) program: Option<(PathBuf, Vec<String>)>,
    pub(super) evaluations: Shares,
    pub(super) checks: Shares,
    pub(super) readings: Shares,
    /// How old what was read may be once there is a child for it.
    pub(super) fresh: Duration,
}

pub(super) struct Inner {
    pub(super) connection: Connection,
    pub(super) options: EvaluatorOptions,
    pub(super) metrics: Metrics,
    /// Begun with the first rule that needs it: a cluster without any pays nothing.
    pub(super) engine: Mutex<Option<Begun>>,
    pub(super) access: Arc<Access>,
    pub(super) artifacts: Artifacts,
    pub(super) loaded: Mutex<BTreeMap<Key, Loaded>>,
    /// How often components were used.
    pub(super) uses: AtomicU64,
    /// What is being looked at.
    pub(super) examining: Mutex<BTreeSet<(Key, Edition)>>,
    /// Who looks at a rule now: each may hold its bytes.
    pub(super) looks: Shares,
    /// The edition of each rule that was to be looked at last: what comes later of an earlier one is not loaded.
    pub(super) newest: Mutex<BTreeMap<Key, Edition>>,
    /// Who watches what a waiting rule has read, by the key of its evaluation.
    pub(super) watching: Mutex<BTreeMap<String, (Key, AbortHandle)>>,
    /// Which workloads each MutexRunConfig awaits.
    pub(super) awaited: Mutex<BTreeMap<Key, AwaitedWorkloads>>,
    /// How often the operator's own policy of signatures has changed.
    pub(super) policy: Mutex<u64>,
    /// What is watched at once: each is a connection.
    pub(super) watches: Shares,
    /// Who has expressions evaluated, checked and read for now.
    pub(super) children: Children,
    /// How much the components of each namespace may write into the log.
    pub(super) lines: Arc<LogShares>,
}

/// A rule could not be asked, for reasons that are not its own.
pub(super) fn unavailable(message: String) -> Fault {
    (Reason::RuleUnavailable, message)
}
