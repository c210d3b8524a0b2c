//! Status writes: server-side apply on the status subresource, only where the status differs.

use super::{
    apply::FIELD_MANAGER,
    client::Connection,
    events::{Events, Published},
    item::Item,
    kind::{Kind, kind_of},
    store::Store,
    watch, watched, wire,
};
use crate::frontends;
use jiff::Timestamp;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{
    Condition, MutexRuleStatus, MutexTargetStatus, NodeMaintenanceStatus, PlanStatus, Reason,
    conditions::types::{DOWNGRADED, READY, VALID_CONFIG},
};
use numo_core::{
    Owner,
    action::{Event, EventAction},
    observed::Key,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Writes a status, and puts the answer into the store.
pub async fn write(
    connection: &Connection,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<(), kube::Error> {
    let mut answer = apply(&connection.write, kind, key, uid, status).await;
    if let Ok(item) = &answer
        // Of what is too large or too deep the conditions are as they were applied.
        && let Ok(object) = item.read(kind)
        && let Some(whole) = leftovers(&object, status)
    {
        answer = Ok(whole_list(&connection.write, kind, key, &whole).await?);
    }
    keep(store, kind, answer)
}

/// The words of the API server, or of an admission policy, that refuse a status; none of a failure that passes by itself.
pub fn refusal(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    // Too many at once, and a view that is old, are a matter of time.
    let refuses = (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 409 | 429);
    let words = numo_core::rules::clip(&status.message, 512);
    refuses.then(|| format!("({}): {words}", status.code))
}

/// Puts the answer to a status write into the store.
fn keep(store: &mut Store, kind: Kind, answer: Result<Item, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Ok(item) => {
            let number = wire::version(&item.metadata);
            if let Some(object) = watched::item(kind, &item) {
                store.own_status(kind, number, object);
            }
            Ok(())
        }
        // Gone, or created anew under its name: there is nothing to write to any more.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The conditions as they shall be, if the object still has others: those that the replaced operator wrote
/// belong to it, and no apply of ours takes them away.
fn leftovers(object: &kube::core::DynamicObject, status: &impl Serialize) -> Option<Value> {
    let wanted = serde_json::to_value(status).ok()?.get("conditions").cloned();
    let wanted = wanted.unwrap_or_else(|| json!([]));
    let found = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array)?;
    let is_wanted = |found: &Value| {
        let types = wanted.as_array().into_iter().flatten();
        types.into_iter().any(|one| one.get("type") == found.get("type"))
    };
    (!found.iter().all(is_wanted)).then_some(wanted)
}

/// Replaces the whole list of conditions.
async fn whole_list(client: &Client, kind: Kind, key: &Key, conditions: &Value) -> Result<Item, kube::Error> {
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let body = json!({"status": {"conditions": conditions}});
    let api = watch::items(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Merge(body)).await
}

/// Applies a status under the one manager that writes statuses.
pub async fn apply(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<Item, kube::Error> {
    let (group, version, name, _) = kind.resource();
    let body = json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": name,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "status": status,
    });
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        force: true,
        ..PatchParams::default()
    };
    let api = watch::items(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Apply(body)).await
}

/// Writes the status of a NodeMaintenance whole: what node-maintenance-operator left in it goes too.
pub async fn write_maintenance(
    connection: &Connection,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    status: &NodeMaintenanceStatus,
) -> Result<(), kube::Error> {
    const FIELDS: [&str; 10] = [
        "phase",
        "lastError",
        "pendingPods",
        "pendingPodsRefs",
        "totalpods",
        "evictionPods",
        "drainProgress",
        "errorOnLeaseCount",
        "lastUpdate",
        "conditions",
    ];
    let fields = whole(status, &FIELDS);
    let body = json!({"metadata": {"uid": uid}, "status": fields});
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let kind = kind_of(owner);
    let api = watch::items(&connection.write, kind, "");
    let answer = api
        .patch_status(&owner.key.name, &params, &Patch::Merge(body))
        .await;
    keep(store, kind, answer)
}

/// Writes the status of a Plan whole: what system-upgrade-controller left in it goes too.
pub async fn write_plan(
    connection: &Connection,
    store: &mut Store,
    key: &Key,
    uid: &str,
    status: &PlanStatus,
) -> Result<(), kube::Error> {
    const FIELDS: [&str; 4] = ["conditions", "latestVersion", "latestHash", "applying"];
    let fields = whole(status, &FIELDS);
    let body = json!({"metadata": {"uid": uid}, "status": fields});
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let api = watch::items(&connection.write, Kind::Plan, &key.namespace);
    let answer = api.patch_status(&key.name, &params, &Patch::Merge(body)).await;
    keep(store, Kind::Plan, answer)
}

/// Says in numo's own conditions, and in nothing else, that an object is left to the operator that numo replaces. An object
/// without them, or whose status changes at the same moment, is left as it is.
pub async fn write_stood_off(
    connection: &Connection,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    message: &str,
) -> Result<(), kube::Error> {
    let kind = kind_of(owner);
    let api = watch::items(&connection.write, kind, &owner.key.namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.key.name));
    let found = api.list(&params).await?.items.into_iter().next();
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) else {
        return Ok(());
    };
    let Ok(object) = found.read(kind) else {
        return Ok(());
    };
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let now = connection.clock.now();
    let Some(conditions) = conditions.and_then(|all| frontends::conditions::stood_off(all, message, now))
    else {
        return Ok(());
    };
    let body = json!({
        "metadata": {"uid": uid, "resourceVersion": found.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let answer = api
        .patch_status(&owner.key.name, &params, &Patch::Merge(body))
        .await;
    keep(store, kind, answer)
}

/// A status in which what is absent is null, so that a merge takes it away.
fn whole(status: &impl Serialize, fields: &[&str]) -> Value {
    let mut whole = serde_json::to_value(status).unwrap_or_default();
    for field in fields {
        if whole.get(*field).is_none() {
            whole[*field] = Value::Null;
        }
    }
    whole
}

/// Statuses of rules and targets that are written in one pass: each may be of an object of 1.5 MiB, and whoever writes many of
/// them holds up nobody.
const WRITTEN_AT_ONCE: usize = 4;

/// The rules and targets whose status is to be written. One that cannot be written stands behind the others, once.
#[derive(Debug, Default)]
pub struct Line {
    order: VecDeque<(Kind, Key)>,
    known: BTreeSet<(Kind, Key)>,
    /// Statuses that are refused, with what was said of each: it is said once.
    refused: BTreeMap<(Kind, Key), String>,
}

/// Refusals of statuses that are remembered; beyond it they are forgotten, and said once more.
const REFUSED_KEPT: usize = 1000;

impl Line {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Puts every rule and target whose status differs at the end.
    pub fn line_up(&mut self, connection: &Connection, store: &Store) {
        let now = connection.clock.now();
        for (key, _) in store.rules() {
            if rule_due(store, key, now).is_some() {
                self.add(Kind::MutexRule, key);
            }
        }
        for key in store.observed.targets.keys() {
            if target_due(store, key, now).is_some() {
                self.add(Kind::MutexTarget, key);
            }
        }
    }

    fn add(&mut self, kind: Kind, key: &Key) {
        if self.known.insert((kind, key.clone())) {
            self.order.push_back((kind, key.clone()));
        }
    }

    fn next(&mut self) -> Option<(Kind, Key)> {
        let next = self.order.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}

/// The status of a rule, with its uid and the conditions before, if it differs from the one that is there.
fn rule_due(store: &Store, key: &Key, now: Timestamp) -> Option<(String, Vec<Condition>, MutexRuleStatus)> {
    let rule = store.rule(key)?;
    let view = store.observed.rules.get(key)?;
    let status = frontends::mutex_rule::status(rule, view, store.examined(key), now);
    if rule.status.as_ref() == Some(&status) {
        return None;
    }
    let before = rule.status.as_ref().map(|status| status.conditions.clone());
    Some((view.uid.clone(), before.unwrap_or_default(), status))
}

/// The status of a target, with its uid and the conditions before, if it differs from the one that is there.
fn target_due(
    store: &Store,
    key: &Key,
    now: Timestamp,
) -> Option<(String, Vec<Condition>, MutexTargetStatus)> {
    let target = store.observed.targets.get(key)?;
    let status = frontends::mutex_target::status(target, &store.observed, now);
    let before = target.status.conditions.clone();
    (target.status != status).then(|| (target.uid.clone(), before, status))
}

/// Writes the status of the first few rules and targets in the line.
async fn lined_up(connection: &Connection, store: &mut Store, events: &Events, line: &mut Line) {
    let mut written = 0;
    while written < WRITTEN_AT_ONCE
        && let Some((kind, key)) = line.next()
    {
        let now = connection.clock.now();
        let (name, uid, before, after, told) = if kind == Kind::MutexTarget {
            let Some((uid, before, status)) = target_due(store, &key, now) else {
                continue;
            };
            let told = write(connection, store, kind, &key, &uid, &status).await;
            ("MutexTarget", uid, before, status.conditions, told)
        } else {
            let Some((uid, before, status)) = rule_due(store, &key, now) else {
                continue;
            };
            let told = write(connection, store, kind, &key, &uid, &status).await;
            ("MutexRule", uid, before, status.conditions, told)
        };
        written += 1;
        let about = About::of(name);
        match told {
            Ok(()) => {
                line.refused.remove(&(kind, key.clone()));
                announce(events, &about, &key, &uid, (&before, &after));
            }
            Err(error) => tell_refused(events, line, &about, (kind, &key, &uid), &error),
        }
    }
}

/// Writes the status of every budget and binding that differs, and of the first few rules and targets in the line.
pub async fn others(connection: &Connection, store: &mut Store, events: &Events, line: &mut Line) {
    lined_up(connection, store, events, line).await;
    budgets(connection, store, events, line).await;
    bindings(connection, store, events, line).await;
}

/// Writes the status of every binding that differs, and says loudly which ones gate nothing.
async fn bindings(connection: &Connection, store: &mut Store, events: &Events, line: &mut Line) {
    let now = connection.clock.now();
    let observed = &store.observed;
    let due: Vec<_> = observed
        .bindings
        .iter()
        .map(|(name, view)| (name, view, frontends::mutex_binding::status(view, observed, now)))
        .filter(|(_, view, status)| view.status != *status)
        .map(|(name, view, status)| (Key::new("", name), view.clone(), status))
        .collect();
    for (key, view, status) in due {
        let about = About::of_cluster("MutexBinding");
        match write(connection, store, Kind::MutexBinding, &key, &view.uid, &status).await {
            Ok(()) => {
                line.refused.remove(&(Kind::MutexBinding, key.clone()));
                let conditions = (view.status.conditions.as_slice(), status.conditions.as_slice());
                announce(events, &about, &key, &view.uid, conditions);
            }
            Err(error) => tell_refused(
                events,
                line,
                &about,
                (Kind::MutexBinding, &key, &view.uid),
                &error,
            ),
        }
    }
}

/// Writes the status of every budget that differs.
async fn budgets(connection: &Connection, store: &mut Store, events: &Events, line: &mut Line) {
    let now = connection.clock.now();
    let due: Vec<_> = store
        .observed
        .budgets
        .values()
        .map(|budget| (budget, frontends::mutex_budget::status(budget, now)))
        .filter(|(budget, status)| budget.status != *status)
        .map(|(budget, status)| (Key::new("", &budget.name), budget.uid.clone(), status))
        .collect();
    for (key, uid, status) in due {
        match write(connection, store, Kind::MutexBudget, &key, &uid, &status).await {
            Ok(()) => drop(line.refused.remove(&(Kind::MutexBudget, key))),
            Err(error) => {
                let about = About::of_cluster("MutexBudget");
                tell_refused(events, line, &about, (Kind::MutexBudget, &key, &uid), &error);
            }
        }
    }
}

/// What an event is about, and the condition that it tells of.
struct About {
    api_version: String,
    kind: &'static str,
    condition: &'static str,
}

impl About {
    /// A binding or a budget.
    fn of_cluster(kind: &'static str) -> Self {
        Self {
            api_version: format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
            kind,
            condition: READY,
        }
    }

    /// An event about this one.
    fn event(&self, key: &Key, uid: &str, event: Event) -> Published {
        Published {
            api_version: self.api_version.clone(),
            kind: self.kind,
            owner: key.clone(),
            owner_uid: uid.to_owned(),
            pool: None,
            node_uid: None,
            event,
        }
    }

    /// A rule or a target.
    fn of(kind: &'static str) -> Self {
        Self {
            api_version: format!("{}/{}", numo_api::GROUP, numo_api::VERSION),
            kind,
            condition: VALID_CONFIG,
        }
    }
}

/// A status was not written, and is tried again: one that is refused is said by an event, once in these words, as no condition can
/// say it.
fn tell_refused(
    events: &Events,
    line: &mut Line,
    about: &About,
    (kind, key, uid): (Kind, &Key, &str),
    error: &kube::Error,
) {
    tracing::warn!(kind = about.kind, %key, %error, "the status was not written");
    let Some(words) = refusal(error) else {
        return;
    };
    let note = format!("the status of {} {key} is refused {words}", about.kind);
    if line.refused.len() >= REFUSED_KEPT {
        line.refused.clear();
    }
    if line.refused.insert((kind, key.clone()), note.clone()).as_ref() == Some(&note) {
        return;
    }
    let event = Event {
        node: None,
        warning: true,
        reason: Reason::WriteRefused.name(),
        action: EventAction::Hold,
        note,
    };
    events.publish(about.event(key, uid, event));
}

/// What is said when a rule, target or binding turns invalid, or the component of a rule is an older version.
fn announce(
    events: &Events,
    about: &About,
    key: &Key,
    uid: &str,
    (before, after): (&[Condition], &[Condition]),
) {
    for event in said(about.condition, before, after) {
        events.publish(about.event(key, uid, event));
    }
}

/// The events of conditions that have changed: `tells` has turned False, and a component is of a lower version than one before. The
/// same words are not said twice.
fn said(tells: &str, before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let being_judged = |now: &Condition| now.reason.as_deref() == Some(Reason::Validating.name());
    [
        (tells, "False", "InvalidConfig"),
        (DOWNGRADED, "True", Reason::Downgraded.name()),
    ]
    .into_iter()
    .filter_map(|(type_, status, reason)| {
        let of = |list: &[Condition]| {
            let found = list.iter().find(|one| one.type_ == type_ && one.status == status);
            found.cloned()
        };
        let now = of(after).filter(|now| !being_judged(now))?;
        if of(before).is_some_and(|before| before.message == now.message) {
            return None;
        }
        Some(Event {
            node: None,
            warning: true,
            reason,
            action: EventAction::EvaluateRule,
            note: now.message.unwrap_or_default(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Condition::default()
        }
    }

    #[test]
    fn an_older_version_and_a_rule_that_turns_invalid_are_said_once() {
        let valid = condition(VALID_CONFIG, "True", "ValidConfig", "fine");
        let invalid = condition(VALID_CONFIG, "False", "ImageNotFound", "gone");
        let judged = condition(VALID_CONFIG, "False", "Validating", "not yet");
        let older = condition(DOWNGRADED, "True", "Downgraded", "version 1.9.0");
        let oldest = condition(DOWNGRADED, "True", "Downgraded", "version 1.8.0");
        for (before, after, reasons) in [
            (vec![], vec![&valid], vec![]),
            (vec![&valid], vec![&valid, &older], vec!["Downgraded"]),
            (vec![&valid, &older], vec![&valid, &older], vec![]),
            (vec![&valid, &older], vec![&valid, &oldest], vec!["Downgraded"]),
            (vec![&valid, &older], vec![&valid], vec![]),
            (vec![&valid], vec![&judged], vec![]),
            (
                vec![&valid],
                vec![&invalid, &older],
                vec!["InvalidConfig", "Downgraded"],
            ),
            (vec![&invalid], vec![&invalid], vec![]),
        ] {
            let list = |of: &[&Condition]| of.iter().map(|one| (*one).clone()).collect::<Vec<_>>();
            let events = said(VALID_CONFIG, &list(&before), &list(&after));
            let found: Vec<_> = events.iter().map(|event| event.reason).collect();
            assert_eq!(found, reasons, "{before:?} {after:?}");
            assert!(events.iter().all(|event| event.warning && !event.note.is_empty()));
        }
    }
}
