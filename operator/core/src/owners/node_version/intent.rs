//! What a NodeVersion asks, with every default filled in, and what is wrong with it. Parsing never fails as a whole: what is wrong
//! becomes a reason to wait.

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
    failures, intent,
    key::Key,
    observed::{IntOrPercent, NodeVersionView, Observed, RuleView},
    own_gate,
    owner::{Owner, OwnerKind},
    suspended,
    why::Why,
};
use numo_api::{DrainBy, Order, Reason};

/// Default of `spec.joinTimeoutSeconds`, as the reference has it.
const JOIN_SECONDS: i64 = 30 * 60;
/// Default of `spec.joinRetries`.
const JOIN_RETRIES: i32 = 2;

/// What a NodeVersion asks.
pub(crate) struct Intent<'a> {
    /// The rules, each once, in order.
    pub(super) rules: Vec<(Key, Option<&'a RuleView>)>,
    /// How many machines there may be beyond those that are replaced.
    pub(super) surge: IntOrPercent,
    /// How long a machine has to join (seconds).
    pub(super) join_seconds: i64,
    /// How many machines are made for one node in one attempt.
    pub(super) joins: usize,
    /// Bounds of how many nodes may be in flight.
    pub(super) limits: Vec<IntOrPercent>,
    /// The bound that lets nobody begin, in a sentence.
    pub(super) closed: Option<Why>,
    pub(super) order: Option<Order>,
    pub(super) soak_seconds: i64,
    pub(super) mutex_keys: Vec<&'a String>,
    pub(super) waves: Vec<Wave>,
    /// In which order it goes through domains of nodes.
    pub(super) domains: Option<DomainOrder<'a>>,
    /// What a person must approve.
    pub(super) approval: Wanted,
    /// The settings of all that gates it, each with what says them.
    pub(super) settings: Vec<Gating<'a>>,
    pub(super) schedule: Schedule<'a>,
    pub(super) failure_budgets: Vec<failures::Bound<'a>>,
    /// Whether nodes that are not Ready are replaced too.
    pub(super) take_not_ready: bool,
    /// After how long a node that is not Ready is left out (seconds); none if it is waited for.
    pub(super) leave_out_after: Option<i64>,
    pub(super) drain: DrainOptions,
    /// The field that says how nodes are drained.
    pub(super) drain_field: String,
    /// The field that asks another operator to drain nodes, which serves NodeMaintenances; none where numo drains.
    pub(super) drains_across: Option<String>,
    /// What is wrong with the spec, its rules or its bindings.
    pub(super) problem: Option<Why>,
    /// Why nothing begins.
    pub(super) suspended: Option<Why>,
}

/// Everything that gates the NodeVersion, its own first.
fn gatings<'a>(view: &'a NodeVersionView, observed: &'a Observed) -> Vec<Gating<'a>> {
    let own = view.spec.mutex.iter().map(|settings| Gating {
        binding: None,
        field: "spec.mutex".to_owned(),
        object: format!("NodeVersion {} spec.mutex", view.name),
        edit: format!("kubectl edit nodeversion {}", view.name),
        namespace: observed.settings.namespace.as_str(),
        settings,
        drain: None,
        hours: view.hours.as_ref(),
    });
    let bound = gating::bound(observed, OwnerKind::NodeVersion, "", &view.labels);
    own.chain(bound).collect()
}

/// The rules that nodes of a NodeVersion must pass, those of one wave only among them, whether they exist or not.
pub fn named_by(view: &NodeVersionView, observed: &Observed) -> Vec<Key> {
    gating::referred(&gatings(view, observed), observed)
}

/// The rules that every node of a NodeVersion must pass.
pub fn rules_of<'a>(view: &'a NodeVersionView, observed: &'a Observed) -> Vec<(Key, Option<&'a RuleView>)> {
    gating::rules(&gatings(view, observed), observed)
}

/// When nodes of a NodeVersion may begin.
///
/// Errors: the field, what was found and what is wanted.
pub fn schedule<'a>(view: &'a NodeVersionView, observed: &'a Observed) -> Result<Schedule<'a>, String> {
    gating::schedule(&gatings(view, observed))
}

/// How many machines there may be beyond those that are replaced; what is wrong with it is told to `wrong`.
fn surge(view: &NodeVersionView, wrong: &mut impl FnMut(String)) -> IntOrPercent {
    let given = view.spec.surge.as_ref();
    let found = given.map_or(Ok(IntOrPercent::Int(1)), intent::parse_limit);
    found.unwrap_or_else(|problem| {
        wrong(format!("spec.surge: {problem}"));
        IntOrPercent::Int(0)
    })
}

/// The field that asks another operator to drain nodes: the first that says who drains them.
fn drains_across(settings: &[Gating<'_>]) -> Option<String> {
    let mut said = settings
        .iter()
        .filter_map(|one| Some((one, one.settings.drain_by?)));
    let (one, _) = said.next().filter(|(_, by)| *by == DrainBy::NodeMaintenance)?;
    Some(format!("{}.drainBy", one.field))
}

impl<'a> Intent<'a> {
    /// Parses a NodeVersion.
    pub(super) fn parse(view: &'a NodeVersionView, observed: &'a Observed) -> Self {
        let spec = &view.spec;
        let settings = gatings(view, observed);
        let rules = gating::named_rules(&settings, observed);
        let mut problem = rules.iter().find_map(|(field, key, rule)| {
            crate::rules::wrong(field, key, *rule, (&binding::VERSION_PHASES, "NodeVersion"))
        });
        let mut wrong = |message: String| {
            problem.get_or_insert(Why::new(Reason::InvalidField, message));
        };
        if spec.image.as_deref().unwrap_or_default().is_empty() {
            wrong("spec.image: found none, wanted the image that nodes are to have".to_owned());
        }
        gating::wrong_selectors(observed, OwnerKind::NodeVersion, "", &view.labels).for_each(&mut wrong);
        let surge = surge(view, &mut wrong);
        let schedule = gating::schedule(&settings).unwrap_or_else(|problem| {
            wrong(problem);
            Schedule::default()
        });
        let closed = settings.iter().find_map(Gating::closed);
        let said = settings::together(&settings, &mut wrong);
        let drain = strictest::drain(spec.drain.as_ref(), &settings);
        drain.problem.into_iter().for_each(&mut wrong);
        problem = problem
            .or_else(|| wave::wrong_rule(&said.waves, observed, (&binding::VERSION_PHASES, "NodeVersion")));
        let unserved = settings
            .iter()
            .find_map(|one| binding::unserved_by_version(&one.field, one.settings));
        let problem = problem.or_else(|| Some(Why::new(Reason::FieldNotServed, unserved?)));
        let owner = Owner::node_version(view.name.as_str());
        let problem = problem.or_else(|| own_gate::lost(&owner, view.into()));
        Self {
            rules: rules.into_iter().map(|(_, key, rule)| (key, rule)).collect(),
            surge,
            join_seconds: spec.join_timeout_seconds.unwrap_or(JOIN_SECONDS),
            joins: usize::try_from(spec.join_retries.unwrap_or(JOIN_RETRIES)).unwrap_or(0) + 1,
            limits: said.limits,
            closed,
            order: said.order,
            soak_seconds: said.soak_seconds,
            mutex_keys: said.mutex_keys,
            waves: said.waves,
            domains: said.domains,
            approval: said.approval,
            drains_across: drains_across(&settings),
            settings,
            schedule,
            failure_budgets: said.failure_budgets,
            take_not_ready: said.take_not_ready,
            leave_out_after: said.leave_out_after,
            drain: drain.options,
            drain_field: drain.field,
            problem,
            suspended: suspended::stopped(observed, &owner, view.into()),
        }
    }

    /// What becomes of nodes that are not Ready.
    pub(super) const fn not_ready(&self) -> Policy {
        Policy {
            takes: self.take_not_ready,
            leave_out_after: self.leave_out_after,
        }
    }

    /// How many of so many nodes may be in flight.
    pub(super) fn room(&self, nodes: usize) -> usize {
        let limits = self.limits.iter().map(|limit| limit.of(nodes));
        limits.fold(usize::MAX, usize::min)
    }
}
