//! Waves as an owner has them: which nodes each takes, and what holds for those. What they make of the nodes of the owner is worked out in
//! [`waves`](super::waves).

use crate::{
    key::Key,
    ledger,
    observed::{IntOrPercent, Map, Observed},
    rules::wrong,
    selector,
    why::Why,
};
use numo_api::Phase;
use serde::Serialize;
use serde_json::Value;

/// Longest name of a wave (characters).
const LONGEST_NAME: usize = 63;

/// One wave, or several that grow.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    /// The name that people gave it.
    pub name: Option<String>,
    /// The field that has it, such as `spec.waves[0]`.
    pub field: String,
    /// Which nodes it takes of those that no earlier wave took.
    pub takes: Takes,
    /// How many of its nodes may be in flight at once.
    pub max_unavailable: Option<IntOrPercent>,
    /// That it lets none of its nodes begin, if that limit is 0 ([`say_closed`]).
    pub closed: Option<Why>,
    /// How long after its last node the next wave begins (seconds).
    pub soak_seconds: i64,
    /// How many of its nodes may fail.
    pub failure_budget: Option<IntOrPercent>,
    /// Whether a person must approve before it begins.
    pub needs_approval: bool,
    /// The rules that only its nodes must pass.
    pub rules: Vec<Key>,
}

/// Which nodes a wave takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Takes {
    /// The short form `first`: those that one of these selectors selects.
    First(Vec<Value>),
    /// Those that the selector selects.
    Labels(Value),
    /// Those of these pools.
    Pools(Vec<String>),
    /// The next ones in the order of turns.
    Next {
        /// How many, of those that are left.
        size: IntOrPercent,
        /// How many times more each time, until no node is left; none is once.
        growth: Option<usize>,
    },
}

impl Wave {
    /// The short form: nodes that the field `field` says go first.
    pub fn first(selectors: Vec<Value>, field: &str) -> Self {
        Self {
            name: None,
            field: field.to_owned(),
            takes: Takes::First(selectors),
            max_unavailable: None,
            closed: None,
            soak_seconds: 0,
            failure_budget: None,
            needs_approval: false,
            rules: Vec::new(),
        }
    }

    /// Whether a node with these labels is one of the wave, if no earlier one took it. Waves of so many nodes may take any.
    pub fn may_take(&self, labels: &Map) -> bool {
        match &self.takes {
            Takes::First(selectors) => selectors.iter().any(|one| selector::matches(one, labels)),
            Takes::Labels(one) => selector::matches(one, labels),
            Takes::Pools(_) => false,
            Takes::Next { .. } => true,
        }
    }
}

/// An object that has waves.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// What stands in front of its fields.
    pub field: &'a str,
    /// The namespace of rules that are named without one.
    pub namespace: &'a str,
    /// Whether it has the short form `first`.
    pub has_first: bool,
    /// Whether its nodes have pools.
    pub has_pools: bool,
}

/// The rules that waves name, in order.
pub fn rules(given: Option<&[numo_api::Wave]>, namespace: &str) -> impl Iterator<Item = Key> {
    let waves = given.unwrap_or_default().iter();
    let named = waves.flat_map(|wave| wave.rules.iter().flatten());
    named.map(move |reference| {
        Key::referred(
            reference.name.as_deref(),
            reference.namespace.as_deref(),
            namespace,
        )
    })
}

/// What is wrong with a rule of a wave, for an owner of a kind that asks rules about nodes in these phases.
pub fn wrong_rule(waves: &[Wave], observed: &Observed, asked: (&[Phase], &str)) -> Option<Why> {
    let mut named = waves.iter().flat_map(|wave| {
        let rules = wave.rules.iter().enumerate();
        rules.map(move |(index, key)| (format!("{}.rules[{index}]", wave.field), key))
    });
    named.find_map(|(field, key)| wrong(&field, key, observed.rules.get(key), asked))
}

/// The waves of an object.
///
/// Errors: the field, what was found and what is wanted.
pub fn parse(whose: Whose<'_>, given: Option<&[numo_api::Wave]>) -> Result<Vec<Wave>, String> {
    let field = whose.field;
    let given = given.unwrap_or_default();
    if whose.has_first && !given.is_empty() {
        return Err(format!(
            "{field}.waves: found waves beside first, wanted one of them"
        ));
    }
    let mut waves: Vec<Wave> = Vec::with_capacity(given.len());
    for (index, one) in given.iter().enumerate() {
        let of = format!("{field}.waves[{index}]");
        let wave = wave(&of, one, whose)?;
        if wave.name.is_some() && waves.iter().any(|other| other.name == wave.name) {
            let name = wave.name.unwrap_or_default();
            return Err(format!(
                "{of}.name: found {name} a second time, wanted names that differ"
            ));
        }
        if one.growth.is_some() && index + 1 < given.len() {
            return Err(format!(
                "{of}.growth: found it before the last wave, wanted it in the last: it leaves no node to another"
            ));
        }
        waves.push(wave);
    }
    Ok(waves)
}

/// The same waves, of which each whose limit is 0 says that it lets no node begin. `object` is the object with what stands in front of its
/// fields, and `edit` the command that edits it.
pub fn say_closed(mut waves: Vec<Wave>, object: &str, edit: &str) -> Vec<Wave> {
    for (index, wave) in waves.iter_mut().enumerate() {
        wave.closed = wave.max_unavailable.and_then(|limit| {
            let field = format!("{object}.waves[{index}].maxUnavailable");
            ledger::closed_by_zero_of(limit, &field, " of the wave", edit)
        });
    }
    waves
}

fn wave(field: &str, given: &numo_api::Wave, whose: Whose<'_>) -> Result<Wave, String> {
    let name = given.name.as_deref();
    if let Some(name) = name.filter(|name| !is_name(name)) {
        return Err(format!(
            "{field}.name: found {name:?}, wanted lower-case letters, digits and '-', at most {LONGEST_NAME}"
        ));
    }
    Ok(Wave {
        name: name.map(str::to_owned),
        field: field.to_owned(),
        takes: takes(field, given, whose.has_pools)?,
        max_unavailable: limit(field, "maxUnavailable", given.max_unavailable.as_ref())?,
        closed: None,
        soak_seconds: given.soak_seconds.unwrap_or(0).max(0),
        failure_budget: limit(field, "failureBudget", given.failure_budget.as_ref())?,
        needs_approval: given.approval == Some(numo_api::ApprovalPolicy::Manual),
        rules: rules(Some(std::slice::from_ref(given)), whose.namespace).collect(),
    })
}

fn is_name(name: &str) -> bool {
    let is_alphanumeric = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let letters = name.as_bytes();
    let ends = letters.first().zip(letters.last());
    letters.len() <= LONGEST_NAME
        && letters
            .iter()
            .all(|letter| is_alphanumeric(*letter) || *letter == b'-')
        && ends.is_some_and(|(first, last)| is_alphanumeric(*first) && is_alphanumeric(*last))
}

fn takes(field: &str, given: &numo_api::Wave, has_pools: bool) -> Result<Takes, String> {
    if given.growth.is_some() && given.nodes.is_none() {
        return Err(format!("{field}.growth: found it without nodes, wanted both"));
    }
    match (&given.node_selector, &given.pools, &given.nodes) {
        (Some(selector), None, None) => {
            let problem = selector::problem(&format!("{field}.nodeSelector"), Some(selector));
            let selector = serde_json::to_value(selector).unwrap_or_default();
            problem.map_or(Ok(Takes::Labels(selector)), Err)
        }
        (None, Some(_), None) if !has_pools => Err(format!(
            "{field}.pools: found some, wanted nodeSelector or nodes: only a MutexRunConfig has MachineConfigPools"
        )),
        (None, Some(pools), None) if pools.is_empty() => Err(format!(
            "{field}.pools: found none, wanted the name of one MachineConfigPool at least"
        )),
        (None, Some(pools), None) => Ok(Takes::Pools(pools.clone())),
        (None, None, Some(nodes)) => {
            let growth = given.growth.map(|growth| {
                let found = usize::try_from(growth).ok().filter(|growth| *growth > 0);
                found.ok_or_else(|| format!("{field}.growth: found {growth}, wanted 1 at least"))
            });
            let growth = growth.transpose()?;
            let size = some(field, "nodes", Some(nodes))?.unwrap_or(IntOrPercent::Int(1));
            Ok(Takes::Next { size, growth })
        }
        _ => Err(format!(
            "{field}: found none or several of nodeSelector, pools and nodes, wanted one of them"
        )),
    }
}

/// A limit: a number of nodes or a percentage.
fn limit(field: &str, name: &str, given: Option<&impl Serialize>) -> Result<Option<IntOrPercent>, String> {
    let found = given.map(IntOrPercent::given).transpose();
    found.map_err(|problem| format!("{field}.{name}: {problem}"))
}

/// A number of nodes, at least 1, or a percentage.
fn some(field: &str, name: &str, given: Option<&impl Serialize>) -> Result<Option<IntOrPercent>, String> {
    let Some(given) = given else { return Ok(None) };
    let given = serde_json::to_value(given).unwrap_or_default();
    match IntOrPercent::parse(&given) {
        Ok(found) if !found.is_zero() => Ok(Some(found)),
        Ok(_) => Err(format!(
            "{field}.{name}: found {given}, wanted 1 (or \"1%\") at least"
        )),
        Err(problem) => Err(format!("{field}.{name}: {problem}")),
    }
}
