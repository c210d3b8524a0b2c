//! What a Plan asks, with every default filled in, and what is wrong with it. Parsing never fails as a whole: what is
//! wrong becomes a reason to wait, in the reference's words where it has some.

use super::{duration::duration_millis, resolve::DIGEST_FIELDS};
use crate::{
    admit::{
        approval::Wanted,
        domains::DomainOrder,
        gating::{self, Gating},
        not_ready::Policy,
        schedule::Schedule,
        settings, strictest,
        wave::{self, Wave},
    },
    binding,
    drain::DrainOptions,
    failures,
    key::Key,
    observed::{IntOrPercent, Observed, PlanView, RuleView},
    owner::{Owner, OwnerKind},
    selector, suspended,
    why::Why,
};
use numo_api::{DrainBy, DrainSettings, Order, Phase, PlanDrain, PlanSpec, Reason, marks};
use serde_json::{Value, json};

/// The phases in which the nodes of a Plan ask their rules.
pub const PHASES: [Phase; 6] = binding::PLAN_PHASES;

/// What a Plan asks.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The rules, each once, in order.
    pub rules: Vec<(Key, Option<&'a RuleView>)>,
    /// How many nodes may be upgraded at once, before any binding.
    pub concurrency: i64,
    /// Bounds of the bindings and of the Plan itself.
    pub limits: Vec<IntOrPercent>,
    /// The bound that lets nobody begin, in a sentence.
    pub closed: Option<Why>,
    /// The order of nodes; none is the reference's, by hash.
    pub order: Option<Order>,
    /// How long a node that passed its Post rules keeps its turn (seconds).
    pub soak_seconds: i64,
    /// Label keys: nodes with the same value of one of them are never in flight together.
    pub mutex_keys: Vec<&'a String>,
    /// Selectors of the nodes that go first.
    pub first: Vec<Value>,
    /// Which nodes go before others, those that go first among them.
    pub waves: Vec<Wave>,
    /// In which order it goes through domains of nodes.
    pub(crate) domains: Option<DomainOrder<'a>>,
    /// What a person must approve.
    pub(crate) approval: Wanted,
    /// The settings of all that gates it, each with what says them.
    pub(crate) settings: Vec<Gating<'a>>,
    /// When nodes begin, beside the Plan's own `spec.window`.
    pub schedule: Schedule<'a>,
    /// How many nodes may fail: each bound holds.
    pub(crate) failure_budgets: Vec<failures::Bound<'a>>,
    /// Whether nodes that are not Ready are begun.
    pub take_not_ready: bool,
    /// After how long a node that is not Ready is left out (seconds); none if it is waited for.
    pub leave_out_after: Option<i64>,
    /// How often a node is tried again by itself.
    pub retries: i32,
    /// Whether numo cordons and drains.
    pub drains: bool,
    /// Whether the nodes are cordoned, by whomever: they are then out of service.
    pub cordons: bool,
    /// How nodes are drained; none is not.
    pub drain: Option<DrainOptions>,
    /// How long after its Job a node counts as done (seconds).
    pub delay_seconds: i64,
    /// What the reference would call invalid: its words.
    pub invalid: Option<String>,
    /// A Secret that is missing, or not to be seen.
    pub of_secrets: Option<Why>,
    /// What is wrong with the node selector.
    pub of_selector: Option<String>,
    /// What is wrong with rules and bindings.
    pub of_gates: Option<Why>,
    /// Why nothing begins.
    pub suspended: Option<Why>,
}

/// `spec.postCompleteDelay` in milliseconds; none if it cannot be understood.
fn delay_millis(spec: &PlanSpec) -> Option<i64> {
    let delay = spec.post_complete_delay.as_deref();
    let delay = delay.filter(|text| !text.is_empty());
    delay.map_or(Some(0), duration_millis)
}

/// The order of a Plan's nodes that somebody has asked for; none is the reference's, by a hash of uids.
pub fn order_of(view: &PlanView, observed: &Observed) -> Option<Order> {
    gatings(view, observed).iter().find_map(|one| one.settings.order)
}

/// Everything that gates the Plan, its own first.
fn gatings<'a>(view: &'a PlanView, observed: &'a Observed) -> Vec<Gating<'a>> {
    let own = view.spec.mutex.iter().map(|settings| Gating {
        binding: None,
        field: "spec.mutex".to_owned(),
        object: format!("Plan {} spec.mutex", view.key),
        edit: format!("kubectl -n {} edit plan {}", view.key.namespace, view.key.name),
        namespace: view.key.namespace.as_str(),
        settings,
        drain: None,
        hours: view.hours.as_ref(),
    });
    let bound = gating::bound(observed, OwnerKind::Plan, &view.key.namespace, &view.labels);
    own.chain(bound).collect()
}

/// The rules that nodes of a Plan must pass, those of one wave only among them, whether they exist or not.
pub fn named_by(view: &PlanView, observed: &Observed) -> Vec<Key> {
    gating::referred(&gatings(view, observed), observed)
}

/// The rules that every node of a Plan must pass.
pub fn rules_of<'a>(view: &'a PlanView, observed: &'a Observed) -> Vec<(Key, Option<&'a RuleView>)> {
    gating::rules(&gatings(view, observed), observed)
}

/// When nodes of a Plan may begin, beside its own `spec.window`.
///
/// Errors: the field, what was found and what is wanted.
pub fn schedule<'a>(view: &'a PlanView, observed: &'a Observed) -> Result<Schedule<'a>, String> {
    gating::schedule(&gatings(view, observed))
}

impl<'a> Intent<'a> {
    /// Parses a Plan.
    pub fn parse(view: &'a PlanView, observed: &'a Observed) -> Self {
        let spec = &view.spec;
        let settings = gatings(view, observed);
        let rules = gating::named_rules(&settings, observed);
        let mut of_gates = rules
            .iter()
            .find_map(|(field, key, rule)| crate::rules::wrong(field, key, *rule, (&PHASES, "Plan")));
        let mut wrong = |message: String| {
            of_gates.get_or_insert(Why::new(Reason::InvalidField, message));
        };
        gating::wrong_selectors(observed, OwnerKind::Plan, &view.key.namespace, &view.labels)
            .for_each(&mut wrong);
        let schedule = gating::schedule(&settings).unwrap_or_else(|problem| {
            wrong(problem);
            Schedule::default()
        });
        let closed = settings.iter().find_map(Gating::closed);
        let said = settings::together(&settings, &mut wrong);
        let drain = drain(spec, &settings, &mut wrong);
        of_gates = of_gates.or_else(|| wave::wrong_rule(&said.waves, observed, (&PHASES, "Plan")));
        let mut all = settings.iter();
        let unserved = all.find_map(|one| binding::unserved_by_plan(&one.field, one.settings));
        of_gates = of_gates.or_else(|| Some(Why::new(Reason::FieldNotServed, unserved?)));
        let drain_by = settings.iter().find_map(|one| one.settings.drain_by);
        let retries = settings.iter().find_map(|one| one.settings.retries);
        let cordons = drain.is_some() || spec.cordon == Some(true);
        let delay_millis = delay_millis(spec);
        let selector_problem = selector::wrong(&view.selector);
        Self {
            rules: rules.into_iter().map(|(_, key, rule)| (key, rule)).collect(),
            concurrency: spec.concurrency.unwrap_or(0),
            limits: said.limits,
            closed,
            order: said.order,
            soak_seconds: said.soak_seconds,
            mutex_keys: said.mutex_keys,
            first: said.first,
            waves: said.waves,
            domains: said.domains,
            approval: said.approval,
            settings,
            schedule,
            failure_budgets: said.failure_budgets,
            take_not_ready: said.take_not_ready,
            leave_out_after: said.leave_out_after,
            retries: retries.unwrap_or(0),
            drains: cordons && drain_by == Some(DrainBy::Numo),
            cordons,
            drain,
            delay_seconds: delay_millis.map_or(0, |millis| (millis + 999) / 1000),
            invalid: invalid(view, delay_millis),
            of_secrets: of_secrets(view, observed),
            of_selector: selector_problem.map(|problem| format!("spec.nodeSelector: {problem}")),
            of_gates,
            suspended: suspended::stopped(observed, &Owner::plan(view.key.clone()), view.into()),
        }
    }

    /// What becomes of nodes that are not Ready.
    pub(super) const fn not_ready(&self) -> Policy {
        Policy {
            takes: self.take_not_ready,
            leave_out_after: self.leave_out_after,
        }
    }

    /// Whether the operator that numo replaces is live.
    pub fn is_stood_off(&self) -> bool {
        let why = self.suspended.as_ref();
        why.is_some_and(|why| why.reason == Reason::ForeignController)
    }

    /// How many nodes may be in flight of so many that are selected.
    pub fn room(&self, selected: usize) -> usize {
        let concurrency = usize::try_from(self.concurrency).unwrap_or(0);
        let limits = self.limits.iter().map(|limit| limit.of(selected));
        limits.fold(concurrency, usize::min)
    }

    /// Whether the node goes before those that are not.
    pub fn is_first(&self, labels: &crate::observed::Map) -> bool {
        self.first
            .iter()
            .any(|selector| selector::matches(selector, labels))
    }
}

/// What the reference calls invalid, in its words, and what its Jobs could never be.
fn invalid(view: &PlanView, delay_millis: Option<i64>) -> Option<String> {
    let spec = &view.spec;
    if let Some(drain) = &spec.drain {
        if drain.delete_emptydir_data.is_some() && drain.delete_local_data.is_some() {
            return Some("spec.drain cannot specify both deleteEmptydirData and deleteLocalData".to_owned());
        }
        let field = "spec.drain.podSelector is not selectable";
        let problem = selector::problem(field, drain.pod_selector.as_ref());
        if problem.is_some() {
            return problem;
        }
        if let Some(found) = &drain.timeout
            && timeout_seconds(found).is_none()
        {
            return Some(format!(
                "spec.drain.timeout: found {found}, wanted a duration such as \"5m\", or nanoseconds"
            ));
        }
    }
    let fields = view.digest.split(',').count();
    if fields > DIGEST_FIELDS {
        return Some(format!(
            "annotation upgrade.cattle.io/digest: found {fields} fields, wanted at most {DIGEST_FIELDS}"
        ));
    }
    if let Some(Err(problem)) = &view.window {
        return Some(format!("spec.window is invalid: {problem}"));
    }
    match delay_millis {
        Some(0..) => {}
        Some(_) => return Some("spec.postCompleteDelay is negative".to_owned()),
        None => {
            let found = spec.post_complete_delay.as_deref().unwrap_or_default();
            return Some(format!(
                "spec.postCompleteDelay: found {found:?}, wanted a duration such as \"30s\""
            ));
        }
    }
    if spec
        .upgrade
        .as_ref()
        .is_none_or(|upgrade| upgrade.image.is_empty())
    {
        return Some("spec.upgrade.image: found none, wanted an image".to_owned());
    }
    None
}

/// The words are those of the API server for a Secret that is not there.
fn of_secrets(view: &PlanView, observed: &Observed) -> Option<Why> {
    let namespace = &view.key.namespace;
    let needed = || {
        let secrets = view.spec.secrets.iter().flatten();
        secrets.filter(|secret| secret.ignore_updates != Some(true))
    };
    needed().next()?;
    if observed.settings.only_looks {
        return None;
    }
    match observed.unseen_secrets.get(namespace) {
        Some(Some(words)) => {
            let message = format!(
                "numo may not read the Secrets of namespace {namespace}, wanted a RoleBinding to ClusterRole numo-plans: {words}"
            );
            return Some(Why::new(Reason::SecretsForbidden, message));
        }
        Some(None) => {
            let message = format!("the Secrets of namespace {namespace} are being listed");
            return Some(Why::new(Reason::Validating, message));
        }
        None => {}
    }
    let missing: Vec<String> = needed()
        .filter(|secret| {
            let key = Key::new(namespace, &secret.name);
            !observed.secrets.contains_key(&key)
        })
        .map(|secret| format!("secrets {:?} not found", secret.name))
        .collect();
    (!missing.is_empty()).then(|| Why::new(Reason::SecretNotFound, missing.join(", ")))
}

/// A drain's timeout in seconds: a duration, or nanoseconds. 0 is without limit.
pub fn timeout_seconds(found: &Value) -> Option<i64> {
    let millis = match found {
        // What is finer is rounded up, as of a duration: 0 would be without limit.
        Value::Number(nanos) => {
            let nanos = nanos.as_i64().filter(|nanos| *nanos >= 0)?;
            nanos / 1_000_000 + i64::from(nanos % 1_000_000 > 0)
        }
        Value::String(text) => duration_millis(text)?,
        _ => return None,
    };
    (millis >= 0).then_some((millis + 999) / 1000)
}

/// How the nodes of a Plan are drained, if they are; what is wrong with what a binding says of that is told to `wrong`.
fn drain(spec: &PlanSpec, all: &[Gating<'_>], wrong: &mut impl FnMut(String)) -> Option<DrainOptions> {
    let drain = spec.drain.as_ref()?;
    let bound = strictest::drains(all);
    // The others are the Plan's own (`options`).
    let problem = bound
        .as_ref()
        .and_then(|bound| bound.problem(|name| name == "order"));
    problem.into_iter().for_each(wrong);
    Some(options(drain, bound.map(|bound| bound.settings)))
}

/// kubectl's options as numo's drain has them. Pods of any Plan's Jobs stay, as the reference's selector has it. A
/// binding may order and bound the drain, which the Plan's own settings cannot.
fn options(drain: &PlanDrain, bound: Option<DrainSettings>) -> DrainOptions {
    let mut settings = bound.unwrap_or_default();
    settings.force = Some(drain.force == Some(true));
    settings.delete_emptydir_data =
        Some(drain.delete_local_data != Some(false) && drain.delete_emptydir_data != Some(false));
    settings.ignore_daemonsets = Some(drain.ignore_daemon_sets != Some(false));
    settings.grace_period_seconds = drain.grace_period.map(i64::from);
    settings.timeout_seconds = drain.timeout.as_ref().and_then(timeout_seconds);
    settings.skip_wait_for_delete_timeout_seconds = drain.skip_wait_for_delete_timeout;
    settings.disable_eviction = drain.disable_eviction;
    settings.pod_selector = None;
    // A pod that no budget lets go would keep the node cordoned for as long as the drain may take, and every other node with it.
    settings.probe = settings.probe.or(Some(drain.disable_eviction != Some(true)));
    let mut options = DrainOptions::of(Some(&settings));
    let pod_selector = drain.pod_selector.as_ref();
    let mut selector = pod_selector
        .and_then(|selector| serde_json::to_value(selector).ok())
        .unwrap_or_else(|| json!({}));
    let more = json!({"key": marks::PLAN_CONTROLLER, "operator": "DoesNotExist"});
    match selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
        Some(expressions) => expressions.push(more),
        None => selector["matchExpressions"] = json!([more]),
    }
    options.pod_selector = selector;
    options
}
