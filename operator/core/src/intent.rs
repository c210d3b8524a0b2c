//! What a MutexRunConfig asks, parsed and with every default filled in.
//!
//! Parsing never fails as a whole: what is wrong becomes a list of problems that name object, field,
//! found and wanted, so that a bad spec can hold a run but never keep numo from giving back what it took.

use crate::{
    admit::{
        approval::Wanted,
        domains,
        schedule::Schedule,
        wave::{self, Wave, Whose},
        wave_rules,
    },
    failures,
    key::Key,
    names,
    observed::{IntOrPercent, NodeView, Observed, PoolView, RuleView, RunConfigView},
    own_gate,
    owner::Owner,
    pools::BUILT_IN,
    ready,
    rules::{inline, own, unusable},
    selector, suspended,
    targets::{self, TargetLimit},
    turn::journal::MAX_VERDICTS,
    why::Why,
};
use numo_api::{
    MutexRunConfigSpec, Order, Phase, Reason, Strategy,
    marks::openshift,
    mutex_run_config::{HoldPools, NotReadyPolicy, OnExit, OnRefusal, Quarantine, Trigger},
};

/// Default of `spec.changeTimeoutSeconds`: 100 polls of 60 s in the replaced operator.
pub const CHANGE_TIMEOUT_SECONDS: i64 = 6000;

/// The intent of one run.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the spec")]
pub struct Intent<'a> {
    /// How nodes are let go.
    pub strategy: Strategy,
    /// The rules in order; none where the rule does not exist.
    pub rules: Vec<(Key, Option<&'a RuleView>)>,
    /// The target pools in order, each once.
    pub pools: Vec<&'a PoolView>,
    /// The canary pool.
    pub canary: Option<&'a PoolView>,
    /// Nodes in flight at once.
    pub max_unavailable: IntOrPercent,
    /// Limits of targets beside it, in the order of the spec.
    pub(crate) limits_of_targets: Vec<TargetLimit<'a>>,
    /// Order of nodes within a pool.
    pub order: Order,
    /// Label keys whose values exclude each other.
    pub mutex_keys: &'a [String],
    /// Soak time (seconds).
    pub soak_seconds: i64,
    /// Time a released node has (seconds).
    pub change_timeout_seconds: i64,
    /// Failed nodes that end admission.
    pub(crate) failure_budgets: Vec<failures::Bound<'a>>,
    /// After how long a node that is not Ready is left out (seconds); none if it is waited for.
    pub leave_out_after: Option<i64>,
    /// Whether the pools roll without rules while the run is refused.
    pub roll_on_refusal: bool,
    /// Whether outdated nodes may roll without rules when the run is left.
    pub unpause_on_exit: bool,
    /// Whether pools that someone else paused are worked on.
    pub adopt_paused: bool,
    /// Whether evictions are tried by dry run before a release.
    pub drain_probe: bool,
    /// Whether the workloads that leave a node must be ready again.
    pub await_workloads: bool,
    /// numo's own check of them, also of a run that awaits none now: nodes keep the terms they were admitted under.
    pub(crate) workloads_check: Option<&'a RuleView>,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Which nodes go before others, `spec.first` among them.
    pub waves: Vec<Wave>,
    /// In which order it goes through domains of nodes.
    pub(crate) domains: Option<domains::DomainOrder<'a>>,
    /// What a person must approve.
    pub(crate) approval: Wanted,
    /// When nodes begin.
    pub schedule: Schedule<'a>,
    /// Whether every new rendered configuration is gated, not only those of another version.
    pub any_config: bool,
    /// Whether the pools stay paused between runs.
    pub hold_always: bool,
    /// Whether a node that failed after it was let go is tainted.
    pub quarantine: bool,
    /// Why nothing new begins by the owner's own wish.
    pub suspended: Option<Why>,
    /// What is wrong, in the order of the spec.
    pub problems: Vec<Why>,
}

/// How nodes of a run are let go.
fn strategy(spec: &MutexRunConfigSpec) -> Strategy {
    spec.strategy.unwrap_or(match spec.canary {
        Some(_) => Strategy::CanaryPool,
        None => Strategy::DesiredConfig,
    })
}

impl<'a> Intent<'a> {
    /// Parses the spec against what was seen.
    pub fn parse(run: &'a RunConfigView, observed: &'a Observed) -> Self {
        let spec = &run.spec;
        let mut problems = Vec::new();
        let strategy = strategy(spec);
        let rules = rules(run, observed, strategy, &mut problems);
        let pools = targets::pools(run, observed, &mut problems);
        let limits_of_targets = targets::limits(run, observed, &mut problems);
        let canary = (strategy == Strategy::CanaryPool)
            .then(|| canary(spec, observed, &pools, &mut problems))
            .flatten();
        let max_unavailable = limit(
            "spec.maxUnavailable",
            spec.max_unavailable.as_ref(),
            &mut problems,
        );
        let failure_budgets = failure_budgets(spec, &mut problems);
        hold_without_trigger(spec, &mut problems);
        problems.extend(wrong_fields(run));
        let await_workloads = spec.await_workloads.unwrap_or(true);
        let workloads_check = run.workloads_check.as_deref();
        let own = own(workloads_check, await_workloads);
        let all: Vec<_> = rules.iter().cloned().chain(own).collect();
        too_many("spec.mutexRules", &all, &mut problems);
        let waves = waves(run).unwrap_or_default();
        wrong_waves(&waves, &all, observed, &mut problems);
        Self {
            strategy,
            rules,
            pools,
            canary,
            max_unavailable,
            limits_of_targets,
            order: spec.order.unwrap_or_default(),
            mutex_keys: spec.mutex_keys.as_deref().unwrap_or_default(),
            soak_seconds: spec.soak_seconds.unwrap_or(0).max(0),
            change_timeout_seconds: spec
                .change_timeout_seconds
                .unwrap_or(CHANGE_TIMEOUT_SECONDS)
                .max(1),
            failure_budgets,
            leave_out_after: leave_out_after(spec.not_ready_policy, spec.leave_out_after_seconds),
            roll_on_refusal: spec.on_refusal == Some(OnRefusal::Roll),
            unpause_on_exit: spec.on_exit == Some(OnExit::Unpause),
            adopt_paused: spec.adopt_paused.unwrap_or(false),
            drain_probe: spec.drain_probe.unwrap_or(true),
            await_workloads,
            workloads_check,
            dry_run: spec.dry_run.unwrap_or(false),
            waves,
            domains: domains(spec).and_then(Result::ok),
            approval: approval(spec).unwrap_or_default(),
            schedule: schedule(run).unwrap_or_default(),
            any_config: spec.trigger == Some(Trigger::AnyConfig),
            hold_always: spec.hold == Some(HoldPools::Always) && spec.trigger == Some(Trigger::AnyConfig),
            quarantine: spec.quarantine == Some(Quarantine::Taint),
            suspended: stopped(run, observed),
            problems,
        }
    }
}

/// Why a run begins nothing new, whatever else its spec says.
fn stopped(run: &RunConfigView, observed: &Observed) -> Option<Why> {
    let owner = Owner::run(run.key.clone());
    own_gate::lost(&owner, run.into())
        .or_else(|| suspended::of_view(&owner, run.into()))
        .or_else(|| observed.list_failed(owner.kind))
}

/// Which nodes of a run go before others.
///
/// Errors: the field, what was found and what is wanted.
pub fn waves(run: &RunConfigView) -> Result<Vec<Wave>, String> {
    let spec = &run.spec;
    let whose = Whose {
        field: "spec",
        namespace: &run.key.namespace,
        has_first: spec.first.is_some(),
        has_pools: true,
    };
    let Key { namespace, name } = &run.key;
    let waves = wave::say_closed(
        wave::parse(whose, spec.waves.as_deref())?,
        &format!("MutexRunConfig {namespace}/{name} spec"),
        &format!("kubectl -n {namespace} edit mutexrunconfig {name}"),
    );
    let first = spec.first.as_ref();
    let first = first.and_then(|selector| serde_json::to_value(selector).ok());
    let first = first.map(|selector| Wave::first(vec![selector], "spec.first"));
    Ok(first.into_iter().chain(waves).collect())
}

/// In which order a run goes through domains of nodes; the error is the field, what was found and what is wanted.
fn domains(spec: &MutexRunConfigSpec) -> Option<Result<domains::DomainOrder<'_>, String>> {
    let given = spec.domains.as_ref()?;
    Some(domains::DomainOrder::parse("spec.domains", given))
}

/// What of a run a person must approve.
///
/// Errors: the field, what was found and what is wanted.
fn approval(spec: &MutexRunConfigSpec) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    wanted.add("spec", spec.approval.as_ref())?;
    Ok(wanted)
}

/// When nodes of a run may begin.
///
/// Errors: the field, what was found and what is wanted.
pub fn schedule(run: &RunConfigView) -> Result<Schedule<'_>, String> {
    let mut schedule = Schedule::default();
    schedule.add("spec", run.hours.as_ref(), run.spec.start_after.as_deref())?;
    Ok(schedule)
}

/// Default of `leaveOutAfterSeconds`.
const LEAVE_OUT_AFTER_SECONDS: i64 = 3600;

/// The same by the first that says what becomes of a node that is not Ready: that one waits is said, too.
pub(crate) fn first_leave_out_after(
    mut all: impl Iterator<Item = (Option<NotReadyPolicy>, Option<i64>)>,
) -> Option<i64> {
    let (policy, seconds) = all.find(|(policy, _)| policy.is_some())?;
    leave_out_after(policy, seconds)
}

/// After how long a node that is not Ready is left out (seconds); none if it is waited for.
pub(crate) fn leave_out_after(policy: Option<NotReadyPolicy>, seconds: Option<i64>) -> Option<i64> {
    let leaves_out = policy == Some(NotReadyPolicy::LeaveOutAfter);
    leaves_out.then(|| seconds.unwrap_or(LEAVE_OUT_AFTER_SECONDS).max(0))
}

/// numo's own check, after all rules.
pub(crate) fn own(check: Option<&RuleView>, awaits: bool) -> Option<(Key, Option<&RuleView>)> {
    let rule = check.filter(|_| awaits)?;
    Some((rule.key.clone(), Some(rule)))
}

/// Parses a `maxUnavailable` as Kubernetes' int-or-string types hold it.
pub fn parse_limit(value: &impl serde::Serialize) -> Result<IntOrPercent, String> {
    IntOrPercent::given(value)
}

/// What is wrong with fields that can be judged by themselves.
fn wrong_fields(run: &RunConfigView) -> impl Iterator<Item = Why> {
    let problems = [
        selector::problem("spec.first", run.spec.first.as_ref()),
        names::wrong_label_keys("spec.mutexKeys", run.spec.mutex_keys.iter().flatten()),
        waves(run).err(),
        domains(&run.spec).and_then(Result::err),
        approval(&run.spec).err(),
        schedule(run).err(),
        run.spec.awaited_workloads.as_ref().and_then(ready::problem),
        run.misread.clone(),
    ];
    let problems = problems.into_iter().flatten();
    problems.map(|problem| Why::new(Reason::InvalidField, problem))
}

/// A limit of the spec; 1 where it says none, or none that is understood.
fn limit(field: &str, found: Option<&impl serde::Serialize>, problems: &mut Vec<Why>) -> IntOrPercent {
    let found = found.map_or(Ok(IntOrPercent::Int(1)), parse_limit);
    found.unwrap_or_else(|problem| {
        problems.push(Why::new(Reason::InvalidField, format!("{field}: {problem}")));
        IntOrPercent::Int(1)
    })
}

/// How many nodes of the run may fail.
fn failure_budgets<'a>(spec: &'a MutexRunConfigSpec, problems: &mut Vec<Why>) -> Vec<failures::Bound<'a>> {
    let said = failures::Said {
        field: "spec.failureBudget".to_owned(),
        binding: None,
        given: spec.failure_budget.as_ref(),
    };
    let mut wrong = |problem: String| problems.push(Why::new(Reason::InvalidField, problem));
    let is_approved = approval(spec).is_ok_and(|wanted| wanted.is_after_failure());
    failures::bounds([said], is_approved, &mut wrong)
}

/// The rules a run refers to and those that stand in it, each once, in order.
fn rules<'a>(
    run: &RunConfigView,
    observed: &'a Observed,
    strategy: Strategy,
    problems: &mut Vec<Why>,
) -> Vec<(Key, Option<&'a RuleView>)> {
    let mut rules: Vec<own::Field<'_>> = Vec::new();
    for (index, reference) in run.spec.mutex_rules.iter().flatten().enumerate() {
        let key = targets::key_of(reference.name.as_deref(), reference.namespace.as_deref(), run);
        if rules.iter().any(|(_, (seen, _))| *seen == key) {
            continue;
        }
        let field = format!("spec.mutexRules[{index}]");
        let rule = observed.rules.get(&key);
        problems.extend(unusable(&field, &key, rule));
        rules.push((field, (key, rule)));
    }
    rules.extend(own::of_run(run, observed, problems));
    if strategy == Strategy::CanaryPool {
        problems.extend(
            rules
                .iter()
                .filter_map(|(field, (key, _))| long_label(field, key)),
        );
    }
    rules.into_iter().map(|(_, rule)| rule).collect()
}

/// What is wrong with a rule whose label would be no label.
fn long_label(field: &str, key: &Key) -> Option<Why> {
    let label = names::rule_label(&key.namespace, &key.name);
    let length = label.rsplit('/').next().map_or(0, str::len);
    (length > names::LABEL_MAX).then(|| {
        Why::new(
            Reason::LabelTooLong,
            format!(
                "{field}: {} makes a label name of {length} characters, wanted at most {}; shorten the name, or use strategy \
                 DesiredConfig, which needs no labels",
                inline::named(key),
                names::LABEL_MAX
            ),
        )
    })
}

/// What is wrong with the rules of waves, which come after `all` of every node.
fn wrong_waves(
    waves: &[Wave],
    all: &[(Key, Option<&RuleView>)],
    observed: &Observed,
    problems: &mut Vec<Why>,
) {
    let asked = (&WAVE_PHASES[..], "wave of a MutexRunConfig");
    problems.extend(wave::wrong_rule(waves, observed, asked));
    problems.extend(of_whole_run(waves, observed));
    for wave in waves.iter().filter(|wave| !wave.rules.is_empty()) {
        let all = wave_rules::of_all(all, std::slice::from_ref(wave), observed);
        let field = format!("spec.mutexRules and {}.rules", wave.field);
        too_many(&field, &all, problems);
    }
}

/// A rule of a wave that also runs once a run: that would not be asked.
fn of_whole_run(waves: &[Wave], observed: &Observed) -> Option<Why> {
    let mut named = waves
        .iter()
        .flat_map(|wave| wave.rules.iter().map(move |key| (wave, key)));
    named.find_map(|(wave, key)| {
        let rule = observed.rules.get(key)?;
        let phase = RUN_PHASES.iter().find(|phase| rule.runs_in(**phase))?;
        let message = format!(
            "{}.rules: MutexRule {key} spec.phases: found {phase:?}, which is asked once a run and not by a wave, wanted the rule in \
             spec.mutexRules, or without that phase",
            wave.field
        );
        Some(Why::new(Reason::FieldNotServed, message))
    })
}

/// What no journal could hold is refused: it has room for the newest verdict of each rule and phase, and
/// for the failures of the rule that fails, with those of the OnFailure rule that follows.
fn too_many(field: &str, rules: &[(Key, Option<&RuleView>)], problems: &mut Vec<Why>) {
    let verdicts = |phases: &[Phase]| {
        let asked = rules.iter().flat_map(|(_, rule)| rule).flat_map(|rule| {
            let phases = phases.iter().filter(|phase| rule.runs_in(**phase));
            phases.map(|phase| (*phase, usize::try_from(rule.retries).unwrap_or(0)))
        });
        let most = |on_failure: bool| {
            let failures = asked
                .clone()
                .filter(|(phase, _)| (*phase == Phase::OnFailure) == on_failure);
            failures.map(|(_, retries)| retries).max().unwrap_or(0)
        };
        asked.clone().count() + most(false) + most(true)
    };
    for phases in [&NODE_PHASES[..], &RUN_PHASES[..]] {
        let found = verdicts(phases);
        if found > MAX_VERDICTS {
            problems.push(Why::new(
                Reason::InvalidField,
                format!(
                    "{field}: found {found} possible verdicts of one attempt (rules, phases and retries), \
                     wanted {MAX_VERDICTS} at most"
                ),
            ));
        }
    }
    for (key, _) in rules.iter().filter(|(_, rule)| {
        rule.is_some_and(|rule| {
            let before = rule.is_evaluated && rule.runs_in(Phase::Admit);
            let mut others = NODE_PHASES.iter().chain(&RUN_PHASES);
            !before && !others.any(|phase| rule.runs_in(*phase))
        })
    }) {
        problems.push(Why::new(
            Reason::FieldNotServed,
            format!(
                "{} spec.phases: found none that a MutexRunConfig evaluates, wanted one such as Pre",
                inline::named(key)
            ),
        ));
    }
}

/// The phases that are asked for each node in its turn, and journaled.
const NODE_PHASES: [Phase; 4] = [Phase::Pre, Phase::PreRelease, Phase::Post, Phase::OnFailure];
/// The phases in which the rules of a wave are asked: those of nodes.
const WAVE_PHASES: [Phase; 5] = [
    Phase::Admit,
    Phase::Pre,
    Phase::PreRelease,
    Phase::Post,
    Phase::OnFailure,
];
/// The phases that are asked once per run.
const RUN_PHASES: [Phase; 2] = [Phase::PreRun, Phase::PostRun];

fn canary<'a>(
    spec: &MutexRunConfigSpec,
    observed: &'a Observed,
    pools: &[&PoolView],
    problems: &mut Vec<Why>,
) -> Option<&'a PoolView> {
    let Some(name) = spec.canary.as_ref().and_then(|canary| canary.name.as_deref()) else {
        problems.push(Why::new(
            Reason::CanaryNotFound,
            "spec.canary.name is empty: strategy CanaryPool needs the name of a MachineConfigPool",
        ));
        return None;
    };
    let Some(canary) = observed.pools.get(name) else {
        problems.push(Why::new(
            Reason::CanaryNotFound,
            format!(
                "spec.canary.name: there is no MachineConfigPool {name}; it must exist, be empty and not be paused"
            ),
        ));
        return None;
    };
    if pools.iter().any(|pool| pool.name == name) || BUILT_IN.contains(&name) {
        problems.push(Why::new(
            Reason::CanaryIsTarget,
            format!("spec.canary.name: found {name}, which is a target or a built-in pool; wanted a pool of its own"),
        ));
    }
    Some(canary)
}

/// A pool that is paused between runs gets no configuration at all unless every one of them makes a run.
fn hold_without_trigger(spec: &MutexRunConfigSpec, problems: &mut Vec<Why>) {
    if spec.hold == Some(HoldPools::Always) && spec.trigger != Some(Trigger::AnyConfig) {
        let found = spec.trigger.unwrap_or_default();
        problems.push(Why::new(
            Reason::InvalidField,
            format!("spec.hold: found Always with spec.trigger {found:?}, wanted spec.trigger: AnyConfig"),
        ));
    }
}

/// The order of turns within a pool. Zone is the MCO's: by zone, nodes without one last, then oldest
/// first (`spec/mutex.md` §4.4).
pub(crate) fn turn(order: Order, node: &NodeView) -> (bool, &str, i64) {
    let created = node.created.as_second();
    match order {
        Order::Zone => {
            let zone = node.label(openshift::ZONE);
            (zone.is_empty(), zone, created)
        }
        Order::Oldest => (false, "", created),
        Order::Newest => (false, "", -created),
        Order::Name => (false, "", 0),
    }
}
