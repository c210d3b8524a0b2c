//! MutexRules. An object is kept as it was given, as Jobs and questions are made of it; what decisions read of it is put together by
//! `store/rules.rs`, and how many have room says `shell/room.rs`.

use super::{
    entry::{Kept, Missing, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::{
    frontends,
    shell::{
        crowd::EACH,
        item::{self, Item, Size, Unreadable},
        kind::Kind,
        project::{edition, key, misread, typed},
        store::Store,
        weigh,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::MutexRule;

/// How MutexRules are watched.
pub const MUTEX_RULE: Watched = Watched {
    resource: (numo_api::GROUP, numo_api::VERSION, "MutexRule", "mutexrules"),
    place: Place::Everywhere,
    select: Selection::all,
    page: 8,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexRule>,
        left: without_spec,
        known_as: "mutexrules",
    },
    project,
    kept: Kept::Counted(Store::is_referred),
    remove: |store, key| store.remove_rule(key),
};

fn project(object: &DynamicObject) -> Option<Object> {
    let mut rule: MutexRule = typed(object)?;
    rule.metadata = identity(rule.metadata);
    Some(Object::Rule(Box::new(rule)))
}

/// A rule that cannot be read is there, without its spec.
#[allow(clippy::unnecessary_wraps, reason = "of other kinds nothing may be left")]
fn without_spec(_: Kind, item: &Item, why: &Unreadable) -> Option<Object> {
    let mut rule = MutexRule::new("", numo_api::MutexRuleSpec::default());
    rule.metadata = item.metadata.clone();
    rule.status = item.status();
    Some(Object::Unreadable(Box::new(rule), why.clone()))
}

/// Whether a rule differs from what is known of it by more than its status. Of a rule without room the spec is not there to be compared.
pub fn has_news(store: &Store, rule: &MutexRule) -> bool {
    let known = store.rule(&key(&rule.metadata));
    known.is_some_and(|known| edition(&known.metadata) != edition(&rule.metadata))
}

/// What every rule takes of memory, with room or without (bytes): the specs of those that have room are weighed by `shell/room.rs`.
pub fn weight_without_spec(rule: &MutexRule) -> usize {
    (2 * EACH).saturating_add(weigh::value(&rule.status))
}

/// What a rule that cannot be read takes of memory (bytes).
pub fn weight_of_unreadable(rule: &MutexRule) -> usize {
    weight(rule).saturating_add(EACH)
}

/// What a rule weighs in memory (bytes): its spec, its status, and what every rule takes beside them.
pub fn weight(rule: &MutexRule) -> usize {
    const EACH: usize = 2048;
    let of = |text: serde_json::Result<String>| text.map_or(usize::MAX, |text| item::weight(&text));
    let (spec, status) = (
        serde_json::to_string(&rule.spec),
        serde_json::to_string(&rule.status),
    );
    of(spec).saturating_add(of(status)).saturating_add(EACH)
}

/// What tells a rule from others, and its versions: labels, annotations and owner references may be as large as the rule, and
/// nothing asks for them.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

/// The view of a rule, with what is known of its validity.
pub fn view(rule: &MutexRule, validity: numo_core::observed::Validity) -> numo_core::observed::RuleView {
    frontends::mutex_rule::parse(rule, validity)
}
