//! What is known of each metric, for the docs. Nothing is counted here.

/// What is known of a metric, for the docs.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Name, without the prefix; of a counter without `_total`.
    pub name: &'static str,
    /// gauge, counter or histogram.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const OWNER: [&str; 3] = ["kind", "namespace", "name"];

macro_rules! described {
    ($($constant:ident = $name:literal, $kind:literal, $labels:expr, $help:literal;)*) => {
        $(pub(super) const $constant: Described = Described { name: $name, kind: $kind, labels: $labels, help: $help };)*
        /// Every metric.
        pub const ALL: &[Described] = &[$($constant,)*];
    };
}

described! {
    BUILD_INFO = "build_info", "gauge", &["version"], "Version of numo";
    LEADER = "leader", "gauge", &[], "Whether this numo holds the leader lease";
    NOT_LISTED = "not_listed", "gauge", &["resource"], "1 for what the leader has not listed yet: it decides nothing before that";
    TOKEN_FAULTS = "token_faults", "gauge", &[], "What is wrong with the policies that limit numo's token: one for each that is missing, changed or not bound";
    NODES = "nodes", "gauge", &["kind", "namespace", "name", "step"], "Nodes of an owner by step; every step is always there";
    WAITING_NODES = "waiting_nodes", "gauge", &["kind", "namespace", "name", "reason"], "Nodes of an owner that are not done, by reason";
    NODE_STEP = "node_step", "gauge", &["kind", "namespace", "name", "node", "step"], "1 for the step of a node in flight, 0 for the others";
    NODE_STEP_SINCE = "node_step_since_timestamp_seconds", "gauge", &["kind", "namespace", "name", "node"], "When a node in flight came to its step (Unix time)";
    OWNER_REASON = "owner_reason", "gauge", &["kind", "namespace", "name", "reason"], "1 for what an owner waits for, or is";
    OWNER_TARGET = "owner_target_info", "gauge", &["kind", "namespace", "name", "version"], "1 for the version that an owner brings its nodes to; absent while none is known";
    OWNER_STALLED = "owner_stalled", "gauge", &OWNER, "Whether an owner waits for a person";
    OWNER_WAITS_FOR_APPROVAL = "owner_waits_for_approval", "gauge", &OWNER, "Whether something of an owner waits for a MutexApproval (numo approve)";
    OWNER_WAVE = "owner_wave", "gauge", &OWNER, "Which wave of an owner is under way, from 1; absent without waves, and when all are done";
    WINDOW_MISSED = "owner_window_missed_nodes", "gauge", &OWNER, "Nodes that waited for an opening of their hours in which no node of the owner began; absent where none waits";
    WAIT_SECONDS = "wait_seconds", "histogram", &["kind", "reason"], "How long nodes that were not done had a reason, counted when it ended; from when this numo saw it first";
    ETA = "owner_eta_timestamp_seconds", "gauge", &OWNER, "When an owner will be done (Unix time), by the median of its nodes and by its hours; absent where no time can be told";
    ETA_BASIS = "owner_eta_basis_nodes", "gauge", &OWNER, "Of how many nodes that median is: the more, the better the time";
    OPENS = "owner_opens_timestamp_seconds", "gauge", &OWNER, "When nodes of an owner begin again whose hours are closed (Unix time)";
    CLOSES = "owner_closes_timestamp_seconds", "gauge", &OWNER, "When the own hours of an owner close that are open, while nodes of it are left (Unix time)";
    RUN_FINISHED = "run_finished_timestamp_seconds", "gauge", &["namespace", "name", "result"], "When the last run of a MutexRunConfig ended (Unix time), and how; absent while one goes on";
    RUN_SECONDS = "run_duration_seconds", "gauge", &["namespace", "name", "result"], "How long that run took, from the pause of its pools on";
    LAST_SUCCESS = "owner_last_success_timestamp_seconds", "gauge", &OWNER, "When an owner was last done (Unix time), without nodes left out or ungated that nobody acknowledged";
    OWNER_RUN_SECONDS = "owner_run_duration_seconds", "gauge", &OWNER, "How long that run took, from its first turn (MutexRunConfig: pause of its pools) on; absent if it was not seen to go on";
    UPGRADE_HELD = "upgrade_held", "gauge", &OWNER, "Whether an upgrade has begun while its MutexRunConfig is refused: no node changes until that is fixed";
    POOL_PAUSED = "pool_paused", "gauge", &["namespace", "name", "pool"], "Whether numo keeps a pool paused, for which MutexRunConfig; also after that one is gone";
    POOL_HELD_NODES = "pool_held_nodes", "gauge", &["namespace", "name", "pool"], "Nodes that would roll if a pool that a run left paused were unpaused; also after that run is gone";
    ORPHANED_MARKS = "orphaned_marks", "gauge", &["mark"], "Marks of numo on Nodes, pools, Machines and Leases whose owner is gone";
    BUDGET_NODES = "budget_nodes", "gauge", &["budget", "group"], "Nodes that a MutexBudget speaks of, by group";
    BUDGET_ALLOWED = "budget_allowed_nodes", "gauge", &["budget", "group"], "Nodes of it that may be unavailable";
    BUDGET_IN_USE = "budget_in_use_nodes", "gauge", &["budget", "group"], "Nodes of it that are unavailable, whoever made them so";
    BUDGET_BLOCKED = "budget_blocked_nodes", "gauge", &["budget", "reason"], "Nodes that wait for it: BudgetExhausted or Stopped";
    BINDING_OWNERS = "binding_owners", "gauge", &["binding", "kind"], "Owners that a MutexBinding gates; 0 also if it has neither rules nor settings";
    BUDGET_PAUSED = "budget_paused", "gauge", &["budget"], "Whether spec.paused is set: nothing begins on its nodes";
    WINDOW_OPEN = "window_open", "gauge", &["window"], "Whether a MutexWindow lets its nodes begin now; 0 also if it cannot be understood";
    WINDOW_OPENS = "window_opens_timestamp_seconds", "gauge", &["window"], "When a MutexWindow that is closed opens; absent if it never does";
    WINDOW_CLOSES = "window_closes_timestamp_seconds", "gauge", &["window"], "When a MutexWindow that is open closes; absent if no end is in sight";
    RULE_VERDICTS = "rule_verdicts", "counter", &["rule", "phase", "verdict"], "Verdicts that count for nodes: pass, fail, continued; and evaluations that were none: wait, error";
    RULE_SECONDS = "rule_seconds", "histogram", &["rule", "phase"], "From the first evaluation of a rule to its verdict";
    PLUGIN_SECONDS = "plugin_seconds", "counter", &["rule"], "Time that evaluations of a rule took; its Jobs do not count";
    PLUGIN_MEMORY = "plugin_memory_bytes", "gauge", &["rule"], "Most memory of the last evaluation of a component";
    PLUGIN_FAILURES = "plugin_failures", "counter", &["rule", "reason"], "Evaluations without a verdict";
    NODE_CHANGES = "node_changes", "gauge", &[], "Journals (NodeChange objects)";
    PASSES = "passes", "counter", &[], "Passes of the planner";
    DECIDE_SECONDS = "decide_seconds", "histogram", &[], "Time of one decision";
    PASS_SECONDS = "pass_seconds", "histogram", &[], "Time of one pass with its writes";
    WRITES = "writes", "counter", &["action", "result"], "Writes to the API server: ok, stale, refused or failed";
    API_REQUEST_SECONDS = "api_request_seconds", "histogram", &["verb"], "How long the API server took to answer a request: reads include retries, a watch counts until its first byte";
    API_REQUESTS = "api_requests", "counter", &["verb", "code"], "Answers of the API server by HTTP status: 429 is its rate limit (numo has none of its own), none is no answer";
    BREACHES = "invariant_breaches", "counter", &[], "Decisions that would have broken an invariant and were not carried out";
    NOTIFICATIONS = "notifications", "counter", &["notifier", "outcome"], "Notifications of a MutexNotifier: sent; failed, which are tried again; and those that were given up: refused, expired, dropped";
    NOTIFICATIONS_WAITING = "notifications_waiting", "gauge", &["notifier"], "Notifications that wait for the sink of a MutexNotifier";
    SPANS = "spans", "counter", &["outcome"], "Spans of traces: sent; and those that were given up: refused, failed, dropped";
    SILENCES = "silences", "gauge", &["notifier"], "Nodes that a MutexNotifier silences in its Alertmanager; absent where it is to silence none";
    EVENTS_DROPPED = "events_dropped", "counter", &[], "Events that were not written, as too many waited";
}
