//! A tiny cluster written as text, a line an object, so that a test shows nothing but what it is about.
//!
//! ```text
//! cluster 4.16.0 asks 4.17.0            ClusterVersion; `cluster 4.17.0` is Completed, `cluster 4.17.0 Partial` is not
//! pool worker 4.17.0 ours               rendered for 4.17.0, paused by the run; `4.17.0b` is other content of 4.17.0
//! node a worker 4.16.0 zone:z1          a node of pool worker that runs its rendered config of 4.16.0
//! rule backup Pre,Post retries:1        a MutexRule
//! run {maxUnavailable: 2}               the MutexRunConfig numo/run; its rules and targets are those above
//! change a PreRules pin:4.17.0          the node's NodeChange
//! job backup/Pre/1 of a Complete        its Job
//! evaluation disk/Pre/1 of a Wait:Full/30 said:-10   an attempt of `rule disk wasm`, and its last answer
//! ```

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use numo_api::{
    Directive, DirectiveAction, Entry, FailurePolicy, NodeChangeSpec, NodeChangeStatus, ObjectRef, Outcome,
    OwnerRef, Phase, Pin, Placement, Reason, RuleWait, RunStatus, Step, Target, TargetRef, Terms,
    VerdictRecord,
    marks::{self, openshift},
    mutex_run_config::{NotAdmitted, RunPool, Settled, WaitCount},
};
use numo_core::{
    MaintenanceGroup, Owner,
    admit::hours::Hours,
    decide::lease_holder,
    intent,
    mark::{self, PausedBy, PriorSelector, Shielded},
    names::{self, JobIdentity},
    observed::{
        Annotated, BudgetView, ChangeView, ClusterVersionView, ConfigView, EtcdVoter, EvaluationView, JobEnd,
        JobView, Key, LeaseView, Leaving, MachineApi, MachineView, NodeView, Observed, PoolView, RebootLock,
        Refusal, RuleAnswer, RuleView, RuleWords, RunConfigView, Settings, TargetView, Validity, WindowView,
    },
    ready,
    rules::{EVALUATED_PASS_SECONDS, JOB_PASS_SECONDS},
    verdict::{Answers, Evidence},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The namespace of everything in these clusters.
pub const NAMESPACE: &str = "numo";
/// uid of the run under test.
pub const RUN_UID: &str = "run-uid";

/// The time of every snapshot.
pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

/// `now` and some seconds.
pub fn at(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// The hours of a field `window`. One time zone is known beside UTC.
pub fn hours(given: &numo_api::hours::Hours) -> Result<Hours, String> {
    Hours::parse(given, |name| match name {
        "Europe/Warsaw" => TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok(),
        _ => None,
    })
}

/// The run under test.
pub fn run_key() -> Key {
    Key::new(NAMESPACE, "run")
}

/// What was seen, and what was answered.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub observed: Observed,
    pub answers: Answers,
}

/// One line in its words, and the `key:value` options among them.
pub(crate) struct Line<'t> {
    pub(crate) text: &'t str,
    words: Vec<&'t str>,
    options: Vec<(&'t str, &'t str)>,
}

impl<'t> Line<'t> {
    fn of(text: &'t str) -> Self {
        let (options, words) = text
            .split_whitespace()
            .partition::<Vec<&str>, _>(|word| word.contains(':'));
        let options = options
            .into_iter()
            .filter_map(|word| word.split_once(':'))
            .collect();
        Self { text, words, options }
    }

    pub(crate) fn word(&self, index: usize) -> &'t str {
        self.words
            .get(index)
            .unwrap_or_else(|| panic!("word {index} is missing in: {}", self.text))
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub(crate) fn option(&self, key: &str) -> Option<&'t str> {
        self.all(key).next()
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &'t str> {
        self.options
            .iter()
            .filter(move |(found, _)| *found == key)
            .map(|(_, value)| *value)
    }

    pub(crate) fn number(&self, key: &str, default: i64) -> i64 {
        self.option(key)
            .map_or(default, |text| text.parse().expect("a number"))
    }
}

/// `disk/Pre/1` of node a: name of the rule, and the key of its evaluation.
fn evaluation_key<'t>(text: &'t str, node: &str, round: i32) -> (&'t str, String) {
    let mut parts = text.split('/');
    let name = parts.next().expect("a rule");
    let phase = phase(parts.next().expect("a phase"));
    let attempt = parts.next().and_then(|n| n.parse().ok()).expect("an attempt");
    let (run, rule) = (run_id(RUN_UID, "4.17.0"), rule_key(name).to_string());
    let node_uid = if node == "run" {
        String::new()
    } else {
        format!("uid-{node}")
    };
    let identity = JobIdentity {
        owner_uid: RUN_UID,
        node_uid: &node_uid,
        run: &run,
        rule: &rule,
        phase,
        round,
        attempt,
    };
    (name, names::evaluation(&identity, &rule_uid(name)))
}

/// The key of a rule; numo's own check is in no namespace.
fn rule_key(name: &str) -> Key {
    let namespace = if name == ready::NAME { "" } else { NAMESPACE };
    Key::new(namespace, name)
}

fn rule_uid(name: &str) -> String {
    match name {
        ready::NAME => name.to_owned(),
        _ => format!("rule-{name}"),
    }
}

/// `4.17.0b` is rendered content `4170b` of version `4.17.0`.
pub fn rendered(pool: &str, version: &str) -> String {
    format!("rendered-{pool}-{}", version.replace('.', ""))
}

/// Id of a run: `4.17.0`, or with `trigger: AnyConfig` `4.17.0/worker=4.17.0b`.
fn run_id(owner_uid: &str, target: &str) -> String {
    let Some((version, configs)) = target.split_once('/') else {
        return names::run_id(owner_uid, target);
    };
    let configs: Vec<(&str, String)> = configs
        .split(',')
        .filter_map(|config| config.split_once('='))
        .map(|(pool, of)| (pool, rendered(pool, of)))
        .collect();
    let pools: Vec<(&str, &str)> = configs
        .iter()
        .map(|(pool, config)| (*pool, config.as_str()))
        .collect();
    names::run_id(owner_uid, &names::config_target(version, &pools))
}

fn target_version(target: &str) -> &str {
    target.split('/').next().unwrap_or(target)
}

/// `tainted`: another's taint. `quarantined`: ours, beside it.
fn taints(line: &Line<'_>) -> Value {
    let mut taints = Vec::new();
    if line.has("tainted") {
        taints.push(json!({"key": "someone/else", "effect": "NoExecute"}));
    }
    if line.has("quarantined") {
        let value = names::hash(&["owner", RUN_UID], 10);
        taints.push(json!({"key": marks::QUARANTINE, "value": value, "effect": "NoSchedule"}));
    }
    if taints.is_empty() {
        Value::Null
    } else {
        Value::Array(taints)
    }
}

fn version_of(text: &str) -> &str {
    text.trim_end_matches(char::is_alphabetic)
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

/// The name of the Job that a verdict in the journal of a turn is of, of a rule that was called so when the Job was made.
pub(crate) fn job_of(rule: &str, spec: &NodeChangeSpec, verdict: &VerdictRecord) -> String {
    let identity = JobIdentity {
        owner_uid: &spec.owner_ref.uid,
        node_uid: &spec.node_uid,
        run: &spec.target.run_id,
        rule: &verdict.rule,
        phase: verdict.phase,
        round: verdict.round,
        attempt: verdict.attempt,
    };
    names::job_name(rule, &identity)
}

impl Cluster {
    /// Reads a cluster.
    pub fn parse(text: &str) -> Self {
        let mut cluster = Self {
            observed: Observed {
                settings: Settings {
                    namespace: NAMESPACE.to_owned(),
                    ..Settings::default()
                },
                ..Observed::default()
            },
            answers: Answers::default(),
        };
        let lines: Vec<Line<'_>> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(Line::of)
            .collect();
        for line in &lines {
            cluster.read(line);
        }
        if cluster.is_of_a_run() && !cluster.observed.runs.contains_key(&run_key()) {
            cluster.run(&Line::of("run"));
        }
        if cluster.is_of_a_run() {
            cluster.complete();
            if !lines.iter().any(|line| line.word(0) == "run" && line.has("bare")) {
                cluster.finalize();
            }
        }
        cluster.name_jobs();
        cluster
    }

    /// A Pass of a rule that runs Jobs names the one that it is of, as numo writes it. It is gone by now.
    fn name_jobs(&mut self) {
        let rules = &self.observed.rules;
        let is_of_job = |verdict: &VerdictRecord| {
            let mut rules = rules.values();
            let rule = rules.find(|rule| rule.key.to_string() == verdict.rule);
            verdict.outcome == Outcome::Pass && rule.is_some_and(|rule| !rule.is_evaluated)
        };
        for change in self.observed.changes.values_mut() {
            let (spec, verdicts) = (&change.spec, &mut change.status.verdicts);
            for verdict in verdicts.iter_mut().filter(|verdict| is_of_job(verdict)) {
                let job = job_of("gone", spec, verdict);
                verdict.job = Some(format!("{NAMESPACE}/{job}"));
            }
        }
        let runs = self.observed.runs.values_mut();
        for run in runs.filter_map(|run| run.status.run.as_mut()) {
            let verdicts = run.verdicts.iter_mut();
            for verdict in verdicts.filter(|verdict| is_of_job(verdict)) {
                verdict.job = Some(format!("{NAMESPACE}/gone"));
            }
        }
    }

    /// A run whose marks are there has its finalizer; `run bare` has lost it.
    fn finalize(&mut self) {
        let left = numo_core::left::all(&self.observed);
        let is_marked = left
            .iter()
            .any(|one| one.owner == RUN_UID || one.mark == marks::QUARANTINE);
        if let Some(run) = self.observed.runs.get_mut(&run_key())
            && is_marked
            && run.finalizers.is_empty()
        {
            run.finalizers = vec!["someone/else".to_owned(), marks::FINALIZER.to_owned()];
        }
    }

    /// Whether a MutexRunConfig is under test.
    fn is_of_a_run(&self) -> bool {
        let observed = &self.observed;
        let own = |owner: &Owner| owner.key.name == crate::maintained::NAME;
        !observed.maintenances.keys().any(own)
            && !observed.plans.contains_key(&crate::planned::key())
            && observed.fleet.versions.is_empty()
    }

    /// The owner under test: a Plan if there is one, else a NodeMaintenance, else the run.
    pub fn owner(&self) -> Owner {
        let plan = crate::planned::key();
        if self.observed.plans.contains_key(&plan) {
            Owner::plan(plan)
        } else if self.observed.fleet.versions.contains_key(crate::replaced::NAME) {
            Owner::node_version(crate::replaced::NAME)
        } else if self.is_of_a_run() {
            Owner::run(run_key())
        } else {
            Owner::maintenance(MaintenanceGroup::Medik8s, crate::maintained::NAME)
        }
    }

    fn read(&mut self, line: &Line<'_>) {
        match line.word(0) {
            "cluster" => self.cluster_version(line),
            "layered" => {
                let pool = line.word(1).to_owned();
                self.observed.layered.insert(format!("{pool}-os"), pool);
            }
            "topology" => self.observed.control_plane_topology = Some(line.word(1).to_owned()),
            "absent" => {
                let kinds = ["clusterversions", "machineconfigpools", "nodemaintenances"];
                let kind = kinds.into_iter().find(|kind| *kind == line.word(1));
                let words = "404 page not found".to_owned();
                self.observed.absent.insert(kind.expect("a kind"), words);
            }
            "unlisted" => {
                let words = "the server could not find the requested resource".to_owned();
                let kinds = [
                    "machineconfigs",
                    "machineconfigpools",
                    "nodes",
                    "nodemaintenances",
                    "poddisruptionbudgets",
                    numo_core::observed::ETCD_PODS,
                ];
                let wanted = line.word(1).replace("etcd", numo_core::observed::ETCD_PODS);
                let kind = kinds.into_iter().find(|kind| *kind == wanted);
                self.observed.unlisted.insert(kind.expect("a kind"), words);
            }
            "pool" => self.pool(line),
            "node" => self.node(line),
            "rule" => self.rule(line),
            "target" => self.target(line),
            "run" | "other-run" => self.run(line),
            "status" => self.status(line),
            "change" => self.change(line),
            "job" => self.job(line),
            "evaluation" => self.evaluation(line),
            "budget" => self.budget(line),
            "window" => self.window(line),
            "machine" => self.machine(line),
            "healthcheck" => self.health_check(line),
            "kured" => self.kured(line),
            "refused" => self.refused(line),
            "drain" => self.drain(line),
            "namespace" => {
                self.observed
                    .namespaces
                    .insert(line.word(1).to_owned(), line.has("terminating"));
            }
            "settings" => {
                if line.has("no-leases") {
                    let settings = &mut self.observed.settings;
                    settings.leases_unavailable = Some("there is no namespace".to_owned());
                    let refused = line.option("refused");
                    settings.leases_refused = refused.map(|at| self::at(at.parse().expect("a number")));
                }
                if let Some(namespace) = line.option("namespace") {
                    namespace.clone_into(&mut self.observed.settings.namespace);
                }
            }
            other => assert!(
                self.read_maintenance(line) || self.read_plan(line) || self.read_fleet(line),
                "unknown line {other}: {}",
                line.text
            ),
        }
    }

    fn cluster_version(&mut self, line: &Line<'_>) {
        let version = line.word(1).to_owned();
        let state = if line.has("Partial") {
            "Partial"
        } else {
            "Completed"
        };
        let asked = line
            .words
            .iter()
            .position(|word| *word == "asks")
            .map(|index| line.word(index + 1).to_owned());
        self.observed.cluster_version = Some(ClusterVersionView {
            generation: 1 + i64::from(asked.is_some()),
            observed_generation: 1,
            has_desired_update: asked.is_some(),
            desired_update: asked,
            desired: version.clone(),
            latest: Some((state.to_owned(), version)),
            not_accepted: line
                .has("refused")
                .then(|| "PreconditionChecks: failed".to_owned()),
            failing: line
                .has("failing")
                .then(|| "ClusterOperatorDegraded: etcd".to_owned()),
        });
    }

    fn config(&mut self, pool: &str, version: &str) -> String {
        let name = rendered(pool, version);
        let view = ConfigView {
            version: Some(version_of(version).to_owned()),
        };
        self.observed.configs.insert(name.clone(), view);
        name
    }

    fn pool(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let config = self.config(name, line.word(2));
        let selector = match name {
            "master" | "worker" => json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}}),
            "canary" => json!({
                "matchLabels": {openshift::WORKER: ""},
                "matchExpressions": [{"key": marks::IS_CANARY, "operator": "Exists"}],
            }),
            custom => json!({"matchLabels": {format!("node-role.kubernetes.io/{custom}"): ""}}),
        };
        let mut annotations = BTreeMap::new();
        let owner = if line.has("ours") {
            Some(RUN_UID)
        } else {
            line.option("of")
        };
        if let Some(owner) = owner {
            let mark = PausedBy {
                owner: owner.to_owned(),
                name: run_key().to_string(),
                prior: line.has("prior-paused"),
                corrections: u32::try_from(line.number("corrections", 0)).expect("small"),
                outdated: line.option("outdated").map(|n| n.parse().expect("a number")),
            };
            annotations.insert(marks::PAUSED_BY.to_owned(), mark::render(&mark));
        }
        let unpaused = line.has("unpaused");
        let mut view = PoolView {
            name: name.to_owned(),
            uid: format!("pool-{name}"),
            deleting: false,
            annotations,
            has_annotations: true,
            paused: !unpaused && (owner.is_some() || line.has("paused")),
            paused_manager: line.option("by").map(str::to_owned),
            selector_manager: line.option("selector-by").map(str::to_owned),
            selector,
            config,
            render_degraded: line
                .has("render-degraded")
                .then(|| "MergeFailed: no such kernel argument".to_owned()),
            max_unavailable: line
                .option("max")
                .map(|text| intent::parse_limit(&text).expect("a limit")),
        };
        if line.has("selected") {
            let mark = PriorSelector {
                owner: RUN_UID.to_owned(),
                prior: view.selector.clone(),
                corrections: u32::try_from(line.number("selector-corrections", 0)).expect("small"),
            };
            view.annotations
                .insert(marks::PRIOR_NODE_SELECTOR.to_owned(), mark::render(&mark));
            view.selector = Value::String("selected".to_owned());
        }
        self.observed.pools.insert(name.to_owned(), view);
    }

    fn node(&mut self, line: &Line<'_>) {
        let (name, pool, version) = (line.word(1), line.word(2), line.word(3));
        let current = self.config(line.option("in").unwrap_or(pool), version);
        let desired = match line.option("desired") {
            None => current.clone(),
            Some(version) => self.config(line.option("to").unwrap_or(pool), version),
        };
        let state = line
            .option("state")
            .unwrap_or(if current == desired { "Done" } else { "Working" });
        let drained = format!("uncordon-{current}");
        let mut labels = map(&[
            (openshift::HOSTNAME, name),
            (openshift::OS, "linux"),
            (&format!("node-role.kubernetes.io/{pool}"), ""),
        ]);
        if pool != "master" {
            labels.insert(openshift::WORKER.to_owned(), String::new());
        }
        if let Some(zone) = line.option("zone") {
            labels.insert(openshift::ZONE.to_owned(), zone.to_owned());
        }
        for label in line.all("label") {
            let (key, value) = label.split_once('=').unwrap_or((label, ""));
            labels.insert(key.to_owned(), value.to_owned());
        }
        let mut annotations = map(&[
            (openshift::CURRENT_CONFIG, &current),
            (openshift::DESIRED_CONFIG, &desired),
            (openshift::STATE, state),
            (openshift::DESIRED_DRAIN, &drained),
            (
                openshift::LAST_APPLIED_DRAIN,
                if line.has("draining") { "" } else { &drained },
            ),
        ]);
        for annotation in line.all("annotation") {
            let (key, value) = annotation.split_once('=').unwrap_or((annotation, ""));
            annotations.insert(key.to_owned(), value.to_owned());
        }
        if let Some(owner) = line.option("labelled") {
            annotations.insert(marks::LABELLED_BY.to_owned(), owner.replace('_', " "));
        }
        if let Some(version) = line.option("released") {
            labels.insert(marks::RELEASE.to_owned(), run_id(RUN_UID, version));
        }
        let uid = line
            .option("uid")
            .map_or_else(|| format!("uid-{name}"), str::to_owned);
        if line.has("turn") || line.has("shield") {
            labels.insert(marks::EXCLUDE_FROM_REMEDIATION.to_owned(), "true".to_owned());
            for key in [marks::SCALE_DOWN_DISABLED, marks::DO_NOT_DISRUPT] {
                annotations.insert(key.to_owned(), "true".to_owned());
            }
            let prior = [
                marks::EXCLUDE_FROM_REMEDIATION,
                marks::SCALE_DOWN_DISABLED,
                marks::DO_NOT_DISRUPT,
            ];
            let mark = Shielded {
                owner: RUN_UID.to_owned(),
                prior: prior.iter().map(|key| ((*key).to_owned(), None)).collect(),
            };
            annotations.insert(marks::SHIELDED_BY.to_owned(), mark::render(&mark));
        }
        let holder = match line.option("lease") {
            Some("ours") => Some(lease_holder(RUN_UID)),
            None if line.has("turn") => Some(lease_holder(RUN_UID)),
            other => other.map(str::to_owned),
        };
        if let Some(holder) = holder {
            self.observed.leases.insert(
                name.to_owned(),
                LeaseView {
                    by_numo: holder.starts_with("numo/"),
                    holder,
                    renewed: Some(at(line.number("renewed", 0))),
                    duration_seconds: 3600,
                    transitions: 0,
                    uid: format!("lease-{name}"),
                    resource_version: "1".to_owned(),
                },
            );
        }
        let volumes: Vec<String> = line.all("volume").map(str::to_owned).collect();
        if !volumes.is_empty() {
            self.observed.volumes.insert(name.to_owned(), volumes);
        }
        self.observed.nodes.insert(
            name.to_owned(),
            NodeView {
                name: name.to_owned(),
                uid,
                created: at(-86_400 * line.number("age", 10)),
                labels: labels.into(),
                annotations: annotations.into(),
                has_annotations: true,
                unschedulable: line.has("cordoned"),
                taints: taints(line),
                ready: !line.has("NotReady"),
                not_ready_since: line.has("NotReady").then(|| at(-line.number("dark", 60))),
                leaving: line.option("leaving").map(|why| Leaving {
                    why: why.to_owned(),
                    since: line.has("overdue").then(|| at(-601)),
                }),
                etcd_voter: line.option("voter").map(|voter| match voter {
                    "yes" => EtcdVoter::Yes,
                    "no" => EtcdVoter::No,
                    _ => EtcdVoter::Unknown,
                }),
                boot_id: line.option("boot").unwrap_or("b1").to_owned(),
                kubelet_version: line.option("kubelet").unwrap_or("v0").to_owned(),
            },
        );
    }

    /// `machine m of a`: a Machine of Cluster API, or `openshift`; `deleting`, `shielded:<owner>`, `skipped` (someone else's
    /// annotation), `stranger` (its node does not name it), `in:<namespace>`.
    fn machine(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let annotations = shielded(line, (marks::SKIP_REMEDIATION, ""));
        let machine = MachineView {
            object: Annotated {
                labels: [(
                    "of".to_owned(),
                    line.option("label").unwrap_or_default().to_owned(),
                )]
                .into(),
                ..annotated(name, annotations)
            },
            node: line.word(3).to_owned(),
            deleting: line.has("deleting"),
            deleting_since: line.has("overdue").then(|| at(-601)),
        };
        let api = if line.has("openshift") {
            MachineApi::OpenShift
        } else {
            MachineApi::ClusterApi
        };
        let place = (api, Key::new(namespace_of(line, api), name));
        // Unless it is a stranger's, the node names it too.
        if let Some(node) = self
            .observed
            .nodes
            .get_mut(&machine.node)
            .filter(|_| !line.has("stranger"))
        {
            let named = match api {
                MachineApi::OpenShift => vec![(marks::OPENSHIFT_MACHINE, place.1.to_string())],
                MachineApi::ClusterApi => vec![
                    (marks::CLUSTER_API_MACHINE, name.to_owned()),
                    (marks::CLUSTER_API_NAMESPACE, place.1.namespace.clone()),
                ],
            };
            let named = named.into_iter().map(|(key, value)| (key.to_owned(), value));
            node.annotations.extend(named);
        }
        self.observed.machines.insert(place, machine);
    }

    /// `healthcheck h`: a MachineHealthCheck of OpenShift, or `clusterapi`; `shielded:<owner>` is paused by numo, `skipped` by someone
    /// else; `in:<namespace>`.
    fn health_check(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let annotations = shielded(line, (marks::HEALTH_CHECK_PAUSED, marks::FIELD_MANAGER));
        let mut check = annotated(name, annotations);
        if let Some(label) = line.option("selects") {
            check.selector = serde_json::json!({"matchLabels": {"of": label}});
        }
        let api = if line.has("clusterapi") {
            MachineApi::ClusterApi
        } else {
            MachineApi::OpenShift
        };
        let place = (api, Key::new(namespace_of(line, api), name));
        self.observed.health_checks.insert(place, check);
    }

    /// `kured a`: a node that holds the reboot lock; `ttl:<seconds from now>`.
    fn kured(&mut self, line: &Line<'_>) {
        let lock = RebootLock {
            node: line.word(1).to_owned(),
            until: line.option("ttl").map(|_| at(line.number("ttl", 0))),
        };
        self.observed
            .reboot_locks
            .insert(Key::new("kube-system", "kured"), vec![lock]);
    }

    fn rule(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let namespace = line.option("namespace").unwrap_or(NAMESPACE);
        let phases = line
            .words
            .get(2)
            .map_or_else(|| vec![Phase::Pre], |text| text.split(',').map(phase).collect());
        let validity = if line.has("invalid") {
            Validity::Invalid(Reason::InvalidConfig, "the Job has no container".to_owned())
        } else if line.has("unjudged") {
            Validity::Unknown
        } else {
            Validity::Valid
        };
        let key = Key::new(namespace, name);
        let view = RuleView {
            key: key.clone(),
            uid: format!("rule-{name}"),
            generation: line.number("generation", 1),
            job_name: name.to_owned(),
            job_namespace: namespace.to_owned(),
            job_accounts: Vec::new(),
            is_evaluated: line.has("wasm"),
            has_job: !line.has("only-clean-up") && !line.has("wasm"),
            has_clean_up_job: line.has("only-clean-up"),
            timeout_seconds: line.number("timeout", 3600),
            pass_seconds: line.number(
                "pass",
                if line.has("wasm") {
                    EVALUATED_PASS_SECONDS
                } else {
                    JOB_PASS_SECONDS
                },
            ),
            retries: i32::try_from(line.number("retries", 0)).expect("small"),
            failure_policy: match line.option("policy") {
                None | Some("Hold") => FailurePolicy::Hold,
                Some("Abort") => FailurePolicy::Abort,
                Some("Skip") => FailurePolicy::Skip,
                Some("Continue") => FailurePolicy::Continue,
                Some(other) => panic!("unknown policy {other}"),
            },
            phases,
            placement: Placement::NotOnTarget,
            unseen: line
                .has("unseen")
                .then(|| "its Jobs in namespace numo cannot be listed since then".to_owned()),
            log_tail_bytes: 2048,
            validity,
        };
        self.observed.rules.insert(key, view);
    }

    fn target(&mut self, line: &Line<'_>) {
        let key = Key::new(NAMESPACE, line.word(1));
        let view = TargetView {
            key: key.clone(),
            uid: "target-uid".to_owned(),
            generation: 1,
            pools: line.words[2..].iter().map(|pool| (*pool).to_owned()).collect(),
            status: numo_api::MutexTargetStatus::default(),
        };
        self.observed.targets.insert(key, view);
    }

    fn run(&mut self, line: &Line<'_>) {
        let other = line.word(0) == "other-run";
        let spec = line.text.find('{').map_or("{}", |start| {
            &line.text[start..=line.text.rfind('}').expect("a }")]
        });
        let outside = line.text.replace(spec, "");
        let words: Vec<&str> = outside.split_whitespace().collect();
        let key = if other {
            Key::new(NAMESPACE, "other")
        } else {
            run_key()
        };
        let mut annotations = BTreeMap::new();
        if words.contains(&"suspended") {
            annotations.insert(marks::SUSPEND.to_owned(), "by a person".to_owned());
        }
        if let Some(index) = words.iter().position(|word| *word == "aborted") {
            annotations.insert(
                marks::ABORT.to_owned(),
                run_id(RUN_UID, words.get(index + 1).expect("a version")),
            );
        }
        if let Some(index) = words.iter().position(|word| *word == "retried") {
            let asked = words.get(index + 1).and_then(|word| word.split_once('/'));
            let (version, round) = asked.expect("version/round");
            let id = run_id(RUN_UID, version);
            annotations.insert(marks::RETRY.to_owned(), format!("{id}/{round}"));
        }
        let parsed: numo_api::MutexRunConfigSpec = serde_saphyr::from_str(spec).expect("a spec");
        let view = RunConfigView {
            key: key.clone(),
            uid: if other { "other-uid" } else { RUN_UID }.to_owned(),
            generation: 1,
            created: at(-3600),
            deleting: words.contains(&"deleting"),
            finalizers: if words.contains(&"finalizer") {
                vec!["someone/else".to_owned(), marks::FINALIZER.to_owned()]
            } else {
                Vec::new()
            },
            annotations,
            has_annotations: true,
            pruned: None,
            misread: words
                .contains(&"misread")
                .then(|| "spec.order: unknown variant".to_owned()),
            keeps_status: false,
            hours: parsed.window.as_ref().map(hours),
            workloads_check: words
                .contains(&"checks-workloads")
                .then(|| Box::new(ready::rule(parsed.awaited_workloads.as_ref()))),
            spec: parsed,
            status: numo_api::MutexRunConfigStatus::default(),
        };
        self.observed.runs.insert(key, view);
    }

    /// `status 4.17.0 [finished] [verdict:backup/PreRun/1/Pass] [not-admitted:a/RuleWaits]`: what the run's status says.
    fn status(&mut self, line: &Line<'_>) {
        let version = line.word(1);
        let status = RunStatus {
            id: run_id(RUN_UID, version),
            target: target_version(version).to_owned(),
            started_at: Some(at(-600).to_string()),
            finished_at: line.has("finished").then(|| at(-60).to_string()),
            verdicts: line.all("verdict").map(|text| verdict(text, 1)).collect(),
            pools: line
                .all("pools")
                .map(|name| RunPool {
                    name: name.to_owned(),
                    ..RunPool::default()
                })
                .collect(),
            ungated: line.all("ungated").map(str::to_owned).collect(),
            waiting: line
                .all("waits")
                .map(|text| {
                    let mut parts = text.split('/').map(str::to_owned);
                    let mut next = || parts.next().expect("reason/node/seconds");
                    let (reason, node, seconds) = (next(), next(), next());
                    WaitCount {
                        reason,
                        node,
                        since: Some(at(seconds.parse().expect("a number")).to_string()),
                        ..WaitCount::default()
                    }
                })
                .collect(),
            not_admitted: line
                .all("not-admitted")
                .map(|text| {
                    let (node, reason) = text.split_once('/').expect("node/reason");
                    NotAdmitted {
                        node: node.to_owned(),
                        reason: reason.to_owned(),
                        message: "in its own words".to_owned(),
                    }
                })
                .collect(),
            ..RunStatus::default()
        };
        let run = self
            .observed
            .runs
            .get_mut(&run_key())
            .expect("the run stands before its status");
        run.status.run = Some(status);
        run.status.settled = line.option("settled").map(|version| Settled {
            version: version.to_owned(),
            at: at(-line.number("at", 300)).to_string(),
            pools: Vec::new(),
            configs: line.all("still").map(str::to_owned).collect(),
        });
    }

    /// `change a PreRelease pin:4.17.0 from:4.16.0 attempt:2 verdict:backup/Pre/1/Pass entries:PreRules,Released
    /// directive:Skip reason:RuleFailed since:-60 to:4.17.0 generation:2 obeyed:1`.
    fn change(&mut self, line: &Line<'_>) {
        let (node, step) = (line.word(1), line.word(2));
        let to = line
            .option("to")
            .or(line.option("pin").map(version_of))
            .unwrap_or("4.17.0");
        let custom = |name: &&String| {
            let role = format!("node-role.kubernetes.io/{name}");
            *name != "worker"
                && self
                    .observed
                    .nodes
                    .get(node)
                    .is_some_and(|view| view.labels.contains_key(&role))
        };
        let pool = line
            .option("pool")
            .or_else(|| self.observed.pools.keys().find(custom).map(String::as_str))
            .unwrap_or("worker")
            .to_owned();
        let pool = pool.as_str();
        let node_uid = line
            .option("uid")
            .map_or_else(|| format!("uid-{node}"), str::to_owned);
        let round = i32::try_from(line.number("attempt", 1)).expect("small");
        let step = (step != "-").then(|| self::step(step));
        let since = line.number("since", -60);
        let entries = match line.option("entries") {
            None => step.into_iter().map(|step| entry(step, round, since)).collect(),
            Some(text) => text
                .split(',')
                .map(|text| {
                    let (name, attempt) = text.split_once('@').unwrap_or((text, ""));
                    entry(self::step(name), attempt.parse().unwrap_or(round), since)
                })
                .collect(),
        };
        let status = NodeChangeStatus {
            journal_version: 1,
            observed_generation: line.option("obeyed").map(|n| n.parse().expect("a number")),
            step,
            reason: line.option("reason").map(str::to_owned),
            message: line.option("reason").map(|_| "as it was".to_owned()),
            since: step.is_some().then(|| at(since).to_string()),
            attempt: if step.is_some() { round } else { 0 },
            pin: line.option("pin").map(|pin| Pin {
                rendered_config: rendered(pool, pin),
                from_config: rendered(pool, line.option("from").unwrap_or("4.16.0")),
                from_version: line.option("from").unwrap_or("4.16.0").to_owned(),
                terms: line.option("under").map(terms),
                ..Pin::default()
            }),
            verdicts: line.all("verdict").map(|text| verdict(text, round)).collect(),
            closed_since: line
                .option("closed")
                .map(|ago| at(-ago.parse::<i64>().expect("a number")).to_string()),
            entries,
            ..NodeChangeStatus::default()
        };
        let directive = line.option("directive").map(|action| Directive {
            action: match action {
                "Skip" => DirectiveAction::Skip,
                "Retry" => DirectiveAction::Retry,
                "Hold" => DirectiveAction::Hold,
                "Abort" => DirectiveAction::Abort,
                other => panic!("unknown directive {other}"),
            },
            reason: Some("for a reason".to_owned()),
            by: Some("alice".to_owned()),
        });
        let owner_uid = line.option("owner").unwrap_or(RUN_UID);
        let name = names::change_name(
            "MutexRunConfig",
            "run",
            owner_uid,
            &node_uid,
            &run_id(owner_uid, to),
        );
        let key = Key::new(NAMESPACE, name);
        let view = ChangeView {
            key: key.clone(),
            uid: format!("change-{node}-{to}"),
            resource_version: "7".to_owned(),
            generation: line.number("generation", 1 + i64::from(directive.is_some())),
            created: at(line.number("created", -300)),
            deleting: false,
            annotations: std::collections::BTreeMap::new(),
            spec: NodeChangeSpec {
                owner_ref: OwnerRef {
                    api_version: "openshift-optional.skrzypek.io/v1alpha1".to_owned(),
                    kind: "MutexRunConfig".to_owned(),
                    namespace: Some(NAMESPACE.to_owned()),
                    name: "run".to_owned(),
                    uid: owner_uid.to_owned(),
                },
                node_name: node.to_owned(),
                node_uid,
                target: Target {
                    run_id: run_id(owner_uid, to),
                    version: target_version(to).to_owned(),
                    pool: pool.to_owned(),
                },
                in_service: false,
                directive,
            },
            status,
            misread: None,
        };
        self.observed.changes.insert(key, view);
    }

    /// `job backup/Pre/1 of a running|Complete|Failed [read] [created:-60] [to:4.17.0]`; `of -` for the run's own.
    /// `evaluation disk/Pre/1 of a under-way|Pass:Fine|Wait:Full/30|Block:Broken|Trap:oops first:-60 said:-10 failures:2
    /// generation:2`; the last answer of an evaluation under way is that before. That it makes a node wait is journaled,
    /// since it was asked first or `noted:-200`, unless it is `new`.
    fn evaluation(&mut self, line: &Line<'_>) {
        let waits = line.option("Wait").or(line.option("Trap"));
        if line.option("noted").is_some() || (waits.is_some() && !line.has("new")) {
            self.noted(line);
        }
        if line.has("forgotten") {
            return;
        }
        let round = i32::try_from(line.number("round", 1)).expect("small");
        let (rule, key) = evaluation_key(line.word(1), line.word(3), round);
        let words = |text: &str| RuleWords {
            reason: text.to_owned(),
            summary: "in its own words".to_owned(),
            ..RuleWords::default()
        };
        let answer = if let Some(reason) = line.option("Pass") {
            Some(RuleAnswer::Pass(words(reason)))
        } else if let Some(wait) = line.option("Wait") {
            let (reason, seconds) = wait.split_once('/').expect("reason/seconds");
            Some(RuleAnswer::Wait(
                words(reason),
                seconds.parse().expect("a number"),
            ))
        } else if let Some(reason) = line.option("Block") {
            Some(RuleAnswer::Block(words(reason)))
        } else {
            let said = line.option("Trap").map(str::to_owned);
            said.map(|said| RuleAnswer::NoVerdict(Reason::Trap, said))
        };
        let answer = answer.map(|answer| (at(line.number("said", 0)), answer));
        let waited = line.option("waited").map(words);
        let waits = match &answer {
            Some((at, RuleAnswer::Wait(words, _))) => Some((*at, words.clone())),
            _ => waited.map(|words| (at(line.number("said", 0)), words)),
        };
        let view = EvaluationView {
            rule: rule_key(rule),
            generation: line.number("generation", 1),
            first_asked: at(line.number("first", -60)),
            anew: line.has("anew"),
            asked: at(line.number("asked", line.number("first", -60))),
            under_way: line.has("under-way"),
            answer,
            waited: waits,
            failures: u32::try_from(line.number("failures", 1)).expect("small"),
            stirred: line.has("stirred") || line.option("stirred").is_some(),
            stirs: u32::try_from(line.number("stirred", 1)).expect("small"),
        };
        self.observed.evaluations.insert(key, view);
    }

    fn noted(&mut self, line: &Line<'_>) {
        let mut parts = line.word(1).split('/');
        let uid = rule_uid(line.word(1).split('/').next().expect("a rule"));
        let uid = format!("{}{uid}", line.option("of-uid").unwrap_or_default());
        let wait = RuleWait {
            rule: rule_key(parts.next().expect("a rule")).to_string(),
            phase: phase(parts.next().expect("a phase")),
            attempt: parts.next().and_then(|n| n.parse().ok()).expect("an attempt"),
            round: i32::try_from(line.number("round", 1)).expect("small"),
            rule_uid: uid.clone(),
            earlier_rule_uid: uid,
            generation: line.number("of-generation", 1),
            since: at(line.number("noted", line.number("first", -60))).to_string(),
        };
        if line.word(3) == "run" {
            let run = self.observed.runs.get_mut(&run_key()).expect("a run");
            let status = run.status.run.get_or_insert_with(|| RunStatus {
                id: run_id(RUN_UID, "4.17.0"),
                ..RunStatus::default()
            });
            status.rule_waits.push(wait);
            return;
        }
        let of_node = |change: &&mut ChangeView| change.spec.node_name == line.word(3);
        for change in self.observed.changes.values_mut().filter(of_node) {
            change.status.rule_waits.push(wait.clone());
        }
    }

    fn job(&mut self, line: &Line<'_>) {
        let round = i32::try_from(line.number("round", 1)).expect("small");
        let key = job_key(
            &self.observed,
            line.word(1),
            line.word(3),
            line.option("to"),
            round,
        );
        let ended = match line.word(4) {
            "running" => None,
            "Complete" => Some(JobEnd::Complete),
            "Failed" => Some(JobEnd::Failed(
                "BackoffLimitExceeded".to_owned(),
                "Job has reached the specified backoff limit".to_owned(),
            )),
            other => panic!("unknown end {other}"),
        };
        if line.has("read") {
            let evidence = Evidence {
                exit_code: Some(i32::from(ended != Some(JobEnd::Complete))),
                log_tail: Some("the last words".to_owned()),
            };
            self.answers.evidence.insert(key.clone(), evidence);
        }
        let view = JobView {
            uid: format!("job-{}", key.name),
            created: at(line.number("created", -30)),
            deleting: line
                .has("deleting")
                .then(|| at(line.number("deleting-since", -5))),
            run: run_id(RUN_UID, line.option("to").unwrap_or("4.17.0")),
            node: names::node_hash(line.word(3).trim_start_matches('-')),
            rule: rule_named(&self.observed, line.word(1)).key.to_string(),
            deadline_seconds: Some(600),
            edition: format!(
                "rule-{}/{}",
                line.word(1).split('/').next().expect("a rule"),
                line.number("of-generation", 1)
            ),
            started: ended.is_some(),
            ended_at: ended.as_ref().map(|_| at(line.number("ended", -1))),
            ended,
            ttl_seconds: line.option("ttl").map(|n| n.parse().expect("a number")),
            wanted_ttl_seconds: line.option("wants-ttl").map(|n| n.parse().expect("a number")),
            trouble: line
                .option("trouble")
                .map(|text| (text.to_owned(), "back-off pulling image".to_owned())),
        };
        self.observed.jobs.insert(key, view);
    }

    /// `budget all max:1 [group:zone] [paused] [label:k=v]`.
    /// `window NAME SPEC`: a MutexWindow; without a nodeSelector it is of all nodes.
    fn window(&mut self, line: &Line<'_>) {
        let name = line.word(1).to_owned();
        let (_, spec) = line.text.split_once(&name).expect("a spec");
        let mut spec: serde_json::Value = serde_json::from_str(spec.trim()).expect("a spec");
        if spec.get("nodeSelector").is_none() {
            spec["nodeSelector"] = serde_json::json!({});
        }
        let selector = spec["nodeSelector"].clone();
        let spec: numo_api::MutexWindowSpec = serde_json::from_value(spec).expect("a spec");
        let view = WindowView {
            name: name.clone(),
            hours: hours(&spec.hours),
            spec,
            selector,
            uid: format!("{name}-uid"),
            generation: 1,
            status: numo_api::MutexWindowStatus::default(),
        };
        self.observed.windows.insert(name, view);
    }

    fn budget(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let selector = match line.option("label") {
            None if line.has("nobody") => Value::Null,
            None => json!({}),
            Some(label) => {
                let (key, value) = label.split_once('=').unwrap_or((label, ""));
                json!({"matchLabels": {key: value}})
            }
        };
        let limit = line.option("max").unwrap_or("1");
        self.observed.budgets.insert(
            name.to_owned(),
            BudgetView {
                name: name.to_owned(),
                selector,
                max_unavailable: intent::parse_limit(&limit)
                    .map_err(|problem| format!("spec.maxUnavailable: {problem}")),
                group_by: line.option("group").map(|key| match key {
                    "zone" => openshift::ZONE.to_owned(),
                    other => other.to_owned(),
                }),
                max_groups: BudgetView::max_groups_of(
                    line.option("groups").map(|count| count.parse().expect("a count")),
                    line.option("group"),
                ),
                paused: line.has("paused"),
                annotations: BTreeMap::new(),
                uid: "budget-uid".to_owned(),
                generation: 1,
                status: numo_api::MutexBudgetStatus::default(),
            },
        );
    }

    /// `refused backup/Pre/1 of a 403 at:-2`.
    fn refused(&mut self, line: &Line<'_>) {
        let key = job_key(&self.observed, line.word(1), line.word(3), line.option("to"), 1);
        self.observed.refusals.insert(
            key,
            Refusal {
                code: line.word(4).parse().expect("a code"),
                message: if line.has("quota") {
                    "exceeded quota"
                } else {
                    "cannot create resource \"jobs\""
                }
                .to_owned(),
                at: at(line.number("at", -1)),
                since: at(line.number("since", -1_000_000)),
            },
        );
    }

    /// `drain a ok` or `drain a blocked`.
    fn drain(&mut self, line: &Line<'_>) {
        let blocked = (line.word(2) == "blocked").then(|| "pod shop/db-0: its budget allows none".to_owned());
        self.answers.drains.insert(line.word(1).to_owned(), blocked);
    }

    /// Fills in what a test did not say: the run has all rules and one target with all worker pools, and
    /// drains pass.
    fn complete(&mut self) {
        let observed = &mut self.observed;
        let pools: Vec<String> = observed
            .pools
            .keys()
            .filter(|name| !matches!(name.as_str(), "master" | "canary"))
            .cloned()
            .collect();
        let target = Key::new(NAMESPACE, "all");
        if observed.targets.is_empty() {
            let view = TargetView {
                key: target.clone(),
                uid: "target-uid".to_owned(),
                generation: 1,
                pools,
                status: numo_api::MutexTargetStatus::default(),
            };
            observed.targets.insert(target, view);
        }
        let reference = |key: &Key| ObjectRef {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
        };
        let rules: Vec<ObjectRef> = observed.rules.keys().map(reference).collect();
        let targets: Vec<TargetRef> = observed.targets.keys().map(reference).map(Into::into).collect();
        let run = observed.runs.get_mut(&run_key()).expect("there is a run");
        run.spec.mutex_rules.get_or_insert(rules);
        if run.spec.pools.is_none() {
            run.spec.mutex_targets.get_or_insert(targets);
        }
        for node in observed.nodes.keys() {
            self.answers.drains.entry(node.clone()).or_insert(None);
        }
        self.set_selectors();
    }

    /// Writes out the selectors of pools that a test calls `selected`.
    fn set_selectors(&mut self) {
        let rules: Vec<String> = self.observed.runs[&run_key()]
            .spec
            .mutex_rules
            .iter()
            .flatten()
            .map(|rule| {
                let namespace = rule.namespace.as_deref().unwrap_or(NAMESPACE);
                names::rule_label(namespace, rule.name.as_deref().unwrap_or_default())
            })
            .collect();
        let version = self
            .observed
            .cluster_version
            .as_ref()
            .map(|cluster| cluster.desired_update.clone().unwrap_or(cluster.desired.clone()))
            .unwrap_or_default();
        for pool in self.observed.pools.values_mut() {
            if pool.selector != "selected" {
                continue;
            }
            let mut selector = mark::own_selector(pool);
            let mut expressions: Vec<Value> = Vec::new();
            let operator = if pool.name == "canary" {
                "DoesNotExist"
            } else {
                "Exists"
            };
            expressions.extend(
                rules
                    .iter()
                    .map(|label| json!({"key": label, "operator": operator})),
            );
            if pool.name == "canary" {
                let run = run_id(RUN_UID, &version);
                expressions.push(json!({"key": marks::RELEASE, "operator": "In", "values": [run]}));
            } else {
                expressions.push(json!({"key": marks::RELEASE, "operator": "DoesNotExist"}));
            }
            selector["matchExpressions"] = Value::Array(expressions);
            pool.selector = selector;
        }
    }
}

fn entry(step: Step, attempt: i32, since: i64) -> Entry {
    Entry {
        at: at(since).to_string(),
        step,
        attempt,
        reason: None,
    }
}

/// The rule that `backup/Pre/1` begins with.
fn rule_named<'o>(observed: &'o Observed, what: &str) -> &'o RuleView {
    let name = what.split('/').next();
    let mut rules = observed.rules.values();
    rules
        .find(|view| name == Some(view.key.name.as_str()))
        .expect("a rule above")
}

/// Key of the Job of `backup/Pre/1`.
pub fn job_key(observed: &Observed, what: &str, node: &str, to: Option<&str>, round: i32) -> Key {
    let mut parts = what.split('/');
    let mut next = || parts.next().expect("rule/phase/attempt");
    let (rule, phase, attempt) = (next(), self::phase(next()), next().parse().expect("a number"));
    let view = rule_named(observed, rule);
    let uid = if node == "-" {
        String::new()
    } else {
        observed
            .nodes
            .get(node)
            .map_or_else(|| format!("uid-{node}"), |view| view.uid.clone())
    };
    let run = run_id(RUN_UID, to.unwrap_or("4.17.0"));
    let identity = JobIdentity {
        owner_uid: RUN_UID,
        node_uid: &uid,
        run: &run,
        rule: &view.key.to_string(),
        phase,
        round,
        attempt,
    };
    Key::new(&view.job_namespace, names::job_name(&view.job_name, &identity))
}

/// `DesiredConfig/before,after`: what the spec said when the node was pinned.
fn terms(text: &str) -> Terms {
    let (strategy, rules) = text.split_once('/').expect("strategy/rules");
    Terms {
        strategy: serde_json::from_value(json!(strategy)).expect("a strategy"),
        rules: rules
            .split(',')
            .filter(|rule| !rule.is_empty())
            .map(|rule| format!("{NAMESPACE}/{rule}"))
            .collect(),
        soak_seconds: 0,
        change_timeout_seconds: intent::CHANGE_TIMEOUT_SECONDS,
        drain_probe: true,
        await_workloads: true,
    }
}

/// `backup/Pre/1/Pass`, in round 2: `backup/Pre/1/Pass@2`; said 90 s ago, not 30: `backup/Pre/1/Pass~90`, and by a Job that
/// took 20 s: `backup/Pre/1/Pass~90~20`; of generation 2 of the rule, not 1: `backup/Pre/1/Pass^2`.
pub fn verdict(text: &str, round: i32) -> VerdictRecord {
    let (text, generation) = text.split_once('^').unwrap_or((text, "1"));
    let (text, ago) = text.split_once('~').unwrap_or((text, "30"));
    let (ago, took) = ago.split_once('~').unwrap_or((ago, "0"));
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let (ago, took) = (number(ago), number(took));
    let (text, round) = text.split_once('@').map_or((text, round), |(text, round)| {
        (text, round.parse().expect("a number"))
    });
    let parts: Vec<&str> = text.split('/').collect();
    let [rule, phase, attempt, outcome] = parts[..] else {
        panic!("wanted rule/phase/attempt/outcome, found {text}")
    };
    let outcome = match outcome {
        "Pass" => Outcome::Pass,
        "Failure" => Outcome::Failure,
        "Continued" => Outcome::ContinuedAfterFailure,
        other => panic!("unknown outcome {other}"),
    };
    VerdictRecord {
        rule: rule_key(rule).to_string(),
        phase: self::phase(phase),
        attempt: attempt.parse().expect("a number"),
        round,
        outcome,
        policy: None,
        reason: "Recorded".to_owned(),
        message: None,
        job: None,
        exit_code: None,
        data: None,
        started_at: (took > 0).then(|| at(-ago - took).to_string()),
        at: at(-ago).to_string(),
        ended_at: None,
        edition: Some(format!("{}/{generation}", rule_uid(rule))),
    }
}

/// A phase by its name.
pub fn phase(name: &str) -> Phase {
    let all = [
        Phase::PreRun,
        Phase::Admit,
        Phase::Pre,
        Phase::PreRelease,
        Phase::BeforeUncordon,
        Phase::Post,
        Phase::OnFailure,
        Phase::PostRun,
    ];
    all.into_iter()
        .find(|phase| phase.name() == name)
        .unwrap_or_else(|| panic!("unknown phase {name}"))
}

/// A step by its name.
pub fn step(name: &str) -> Step {
    serde_json::from_value(Value::String(name.to_owned())).unwrap_or_else(|_| panic!("unknown step {name}"))
}

fn annotated(name: &str, annotations: numo_core::observed::Map) -> Annotated {
    Annotated {
        uid: format!("uid-{name}"),
        has_annotations: !annotations.is_empty(),
        annotations,
        ..Annotated::default()
    }
}

/// Annotations of a Machine or MachineHealthCheck that is shielded, by us or by someone else.
fn shielded(line: &Line<'_>, (key, value): (&str, &str)) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    let theirs = line.has("skipped").then(|| "theirs".to_owned());
    if let Some(theirs) = &theirs {
        annotations.insert(key.to_owned(), theirs.clone());
    }
    if let Some(owner) = line.option("shielded") {
        let mark = Shielded {
            owner: owner.to_owned(),
            prior: [(key.to_owned(), theirs)].into(),
        };
        annotations.insert(key.to_owned(), value.to_owned());
        annotations.insert(marks::SHIELDED_BY.to_owned(), mark::render(&mark));
    }
    annotations
}

/// Where a Machine or MachineHealthCheck stands: OpenShift has one place for its own.
fn namespace_of<'l>(line: &'l Line<'_>, api: MachineApi) -> &'l str {
    line.option("in").unwrap_or(match api {
        MachineApi::OpenShift => "openshift-machine-api",
        MachineApi::ClusterApi => "machines",
    })
}
