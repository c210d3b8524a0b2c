//! All that gates an owner beside its kind: its own settings, and the MutexBindings that speak of it. One way for every kind that bindings
//! gate to gather them, with the fields that people read. What they say together is worked out in [`settings`](super::settings).

use super::{
    hours::Hours,
    schedule::Schedule,
    wave::{self, Wave, Whose},
};
use crate::{
    binding, intent,
    key::Key,
    ledger,
    observed::{Map, Observed, RuleView},
    owner::OwnerKind,
    why::Why,
};
use numo_api::{DrainSettings, MutexSettings};
use serde_json::Value;

/// A rule, with the field that names it and what is known of it.
pub(crate) type NamedRule<'a> = (String, Key, Option<&'a RuleView>);

/// One of all that gates an owner: what it says itself, or a MutexBinding.
#[derive(Clone, Debug)]
pub(crate) struct Gating<'a> {
    /// The name of the MutexBinding, if it is one.
    pub binding: Option<&'a str>,
    /// The field that says it.
    pub field: String,
    /// The field with the object in front, as a sentence begins that is read apart from the owner.
    pub object: String,
    /// The command that edits the object.
    pub edit: String,
    /// The namespace of rules that it names without one.
    pub namespace: &'a str,
    pub settings: &'a MutexSettings,
    /// Its `drain`, if it is a MutexBinding.
    pub drain: Option<&'a DrainSettings>,
    /// Its `window`, understood or not.
    pub hours: Option<&'a Result<Hours, String>>,
}

impl Gating<'_> {
    /// Whether it has neither a rule nor a setting.
    pub fn asks_nothing(&self) -> bool {
        self.drain.is_none() && binding::asks_nothing(self.settings)
    }

    /// That it lets no node begin, if its limit is 0.
    pub fn closed(&self) -> Option<Why> {
        let limit = intent::parse_limit(self.settings.max_unavailable.as_ref()?).ok()?;
        ledger::closed_by_zero(limit, &format!("{}.maxUnavailable", self.object), &self.edit)
    }

    /// The waves that it has.
    ///
    /// Errors: the field, what was found and what is wanted.
    pub fn waves(&self) -> Result<Vec<Wave>, String> {
        let whose = Whose {
            field: &self.field,
            namespace: self.namespace,
            has_first: self.settings.first.is_some(),
            has_pools: false,
        };
        let waves = wave::parse(whose, self.settings.waves.as_deref())?;
        Ok(wave::say_closed(waves, &self.object, &self.edit))
    }

    /// What of it an approval is for, with the field that says it.
    pub fn approved(&self) -> (&str, Value) {
        let mut all = serde_json::to_value(self.settings).unwrap_or_default();
        if let (Some(fields), Some(drain)) = (all.as_object_mut(), self.drain) {
            fields.insert(
                "drain".to_owned(),
                serde_json::to_value(drain).unwrap_or_default(),
            );
        }
        (self.field.as_str(), all)
    }
}

/// The MutexBindings that speak of an owner of this kind, namespace (empty for none) and labels, in the order of their names.
pub(crate) fn bound<'a>(
    observed: &'a Observed,
    kind: OwnerKind,
    namespace: &str,
    labels: &Map,
) -> Vec<Gating<'a>> {
    let all = observed.bindings.iter();
    let bound = all.filter(|(_, binding)| binding::speaks_of(&binding.spec, kind, namespace, labels));
    let bound = bound.map(|(name, binding)| Gating {
        binding: Some(name),
        field: format!("MutexBinding {name} spec"),
        object: format!("MutexBinding {name} spec"),
        edit: format!("kubectl edit mutexbinding {name}"),
        namespace: observed.settings.namespace.as_str(),
        settings: &binding.spec.settings,
        drain: binding.spec.drain.as_ref(),
        hours: binding.hours.as_ref(),
    });
    bound.collect()
}

/// What keeps the owner selectors of the bindings of an owner from being understood.
pub(crate) fn wrong_selectors(
    observed: &Observed,
    kind: OwnerKind,
    namespace: &str,
    labels: &Map,
) -> impl Iterator<Item = String> {
    let all = observed.bindings.iter();
    all.filter_map(move |(name, binding)| {
        let problem = binding::wrong_selector(&binding.spec)?;
        binding::speaks_of(&binding.spec, kind, namespace, labels)
            .then(|| format!("MutexBinding {name} {problem}"))
    })
}

/// The rules that every node of the owner must pass, each once.
pub(crate) fn named_rules<'a>(all: &[Gating<'a>], observed: &'a Observed) -> Vec<NamedRule<'a>> {
    let mut rules: Vec<NamedRule<'a>> = Vec::new();
    for one in all {
        for (index, reference) in one.settings.rules.iter().flatten().enumerate() {
            let key = Key::referred(
                reference.name.as_deref(),
                reference.namespace.as_deref(),
                one.namespace,
            );
            if !rules.iter().any(|(_, seen, _)| *seen == key) {
                let rule = observed.rules.get(&key);
                rules.push((format!("{}.rules[{index}]", one.field), key, rule));
            }
        }
    }
    rules
}

/// The rules that nodes of one wave only must pass, whether they exist or not.
fn rules_of_waves(all: &[Gating<'_>]) -> Vec<Key> {
    let waves = all
        .iter()
        .map(|one| (one.settings.waves.as_deref(), one.namespace));
    waves
        .flat_map(|(waves, namespace)| wave::rules(waves, namespace))
        .collect()
}

/// The rules that nodes of the owner must pass, those of one wave only among them, whether they exist or not.
pub(crate) fn referred(all: &[Gating<'_>], observed: &Observed) -> Vec<Key> {
    let named = named_rules(all, observed).into_iter();
    let named = named.map(|(_, key, _)| key);
    named.chain(rules_of_waves(all)).collect()
}

/// The rules that every node of the owner must pass, each once, without the fields that name them.
pub(crate) fn rules<'a>(all: &[Gating<'a>], observed: &'a Observed) -> Vec<(Key, Option<&'a RuleView>)> {
    let rules = named_rules(all, observed).into_iter();
    rules.map(|(_, key, rule)| (key, rule)).collect()
}

/// When nodes of the owner may begin.
///
/// Errors: the field, what was found and what is wanted.
pub(crate) fn schedule<'a>(all: &[Gating<'a>]) -> Result<Schedule<'a>, String> {
    let mut schedule = Schedule::default();
    for one in all {
        schedule.add(&one.field, one.hours, one.settings.start_after.as_deref())?;
    }
    Ok(schedule)
}
