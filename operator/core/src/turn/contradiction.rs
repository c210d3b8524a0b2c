//! What a journal says that cannot be so: it contradicts itself, its owner, or the clock. A journal is what numo goes by, so nothing is
//! done to a node on the word of one that somebody else has written, or a later numo. Nothing here writes.

use crate::{
    key::Key,
    names::{self, JobIdentity},
    observed::{ChangeView, LeaseView, NodeView, Observed},
    owner::Owner,
    time::{APART_SECONDS, has_come, later},
    turn::{
        directive,
        journal::{self, JOURNAL_VERSION},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Entry, Reason, Step, VerdictRecord};
use std::collections::BTreeMap;

/// That the journal is of a later format: it is not read, and not written to.
fn of_later(change: &ChangeView) -> Option<Why> {
    let found = change.status.journal_version;
    let problem = || match &change.misread {
        Some(words) => format!("{words}; wanted what this numo knows"),
        None => format!(
            "status.journalVersion: found {found}, wanted at most {JOURNAL_VERSION}: a later numo wrote it"
        ),
    };
    journal::is_of_later(change).then(|| why(change, &problem()))
}

/// The same, or that it is of another owner: nothing may be written to it either.
pub(crate) fn of_other(change: &ChangeView, owner: &Owner) -> Option<Why> {
    of_other_than(change, owner.kind.name(), &owner.key)
}

/// The same of the owner with this kind and name.
pub(crate) fn of_other_than(change: &ChangeView, kind: &str, key: &Key) -> Option<Why> {
    let of = &change.spec.owner_ref;
    // One that names no namespace is beside its owner.
    let named = of.namespace.as_deref().unwrap_or(&key.namespace);
    let of_owner = || {
        let found = Key::new(named, of.name.as_str());
        let problem = format!(
            "spec.ownerRef: found {} {found}, wanted {kind} {key}, whose uid it has",
            of.kind
        );
        why(change, &problem)
    };
    let is_ours = of.kind == kind && (named, &of.name) == (key.namespace.as_str(), &key.name);
    of_later(change).or_else(|| (!is_ours).then(of_owner))
}

/// That nothing may go by this journal: it is of a later format or another owner, or its status was copied. An owner that goes for good gives back
/// all the same what it took. One that was given up stays, and waits for a person: the node may be in mid-change, and nothing tells of it.
pub(crate) fn unheeded(change: &ChangeView, owner: &Owner, leaving: Option<Reason>) -> Option<Why> {
    let copied = || {
        let (node, uid) = (&change.spec.node_name, &change.uid);
        let found = change.status.node_change_uid.as_deref().unwrap_or_default();
        let problem = format!(
            "status.nodeChangeUID: found {found:?}, wanted its own uid {uid}: it was written for another NodeChange, or for this one before it was \
             deleted and restored; `numo retry {node}` starts its turn over"
        );
        why(change, &problem)
    };
    let stays = leaving.is_none_or(|reason| reason == Reason::Aborted);
    of_other(change, owner).or_else(|| (change.is_copied() && stays).then(copied))
}

/// What the journal of a turn says that cannot be so. `before` tells the steps one of which comes before a step of this owner; none of a
/// step that it does not have.
///
/// Of a node that was let go the order of times is not judged: a clock that was put right in mid-change must not keep it away.
pub(crate) fn of(
    change: &ChangeView,
    now: Timestamp,
    is_released: bool,
    before: impl Fn(Step) -> Option<&'static [Step]>,
) -> Option<Why> {
    let problem = of_attempts(change)
        .or_else(|| of_steps(change, before))
        .or_else(|| of_times(change, now).err().filter(|_| !is_released))
        .or_else(|| of_verdicts(&change.status.verdicts))
        .or_else(|| of_jobs(change))?;
    Some(why(change, &problem))
}

/// Why the turn of a node that was not let go begins anew: nothing is wrong with its journal but that its times have not come, and neither
/// has the time at which the API server made it, or at which numo renewed the lease of the node.
pub(crate) fn of_clock(
    change: &ChangeView,
    lease: Option<&LeaseView>,
    now: Timestamp,
    before: impl Fn(Step) -> Option<&'static [Step]>,
) -> Option<Why> {
    let renewed = lease
        .filter(|lease| lease.by_numo)
        .and_then(|lease| lease.renewed);
    let mut told = std::iter::once(change.created).chain(renewed);
    let told = told.find(|at| !has_come(*at, now))?;
    let message = format!("the clock was put back, as {told} has not come: its turn starts over");
    let is_all = of(change, Timestamp::MAX, false, before).is_none();
    is_all.then(|| Why::new(Reason::Admitting, message))
}

/// The nodes that have two turns at once with the same owner, by their uid, and why nothing is done to them.
pub(crate) fn twice<'a>(changes: impl Iterator<Item = &'a ChangeView>) -> BTreeMap<&'a str, Why> {
    let mut first: BTreeMap<&str, &ChangeView> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for change in changes.filter(|change| change.in_flight()) {
        let spec = &change.spec;
        if let Some(other) = first.insert(&spec.node_uid, change) {
            let (node, owner) = (&spec.node_name, &spec.owner_ref.name);
            let problem = format!(
                "Node {node} has another turn with {owner}, NodeChange {}, wanted one",
                other.key
            );
            found.insert(spec.node_uid.as_str(), why(change, &problem));
        }
    }
    found
}

/// The node that the journal of a turn is of by its uid, though it names another one, and why nothing is done to it: no node has ever two
/// names.
pub(crate) fn misnamed<'a>(observed: &'a Observed, change: &ChangeView) -> Option<(&'a NodeView, Why)> {
    // A uid is of one node only. All of them are gone through for a journal alone that is not of the node it names.
    if observed.node_of(change).is_some() {
        return None;
    }
    let spec = &change.spec;
    let mut nodes = observed.nodes.values();
    let node = nodes.find(|node| node.uid == spec.node_uid && node.name != spec.node_name)?;
    let (found, wanted) = (&spec.node_name, &node.name);
    let problem = format!("spec.nodeName: found {found}, wanted {wanted}, whose uid spec.nodeUID has");
    Some((node, why(change, &problem)))
}

/// Why a node cannot have its turn: this NodeChange has the name of the one that stands for the turn, and is of another node or owner, or
/// on its way out.
pub(crate) fn taken(change: &ChangeView, node: &str) -> Why {
    let key = &change.key;
    if change.deleting {
        let message =
            format!("NodeChange {key} of Node {node} is being deleted: its turn begins once that is gone");
        return Why::new(Reason::Admitting, message);
    }
    let (of, owner) = (&change.spec, &change.spec.owner_ref);
    let message = format!(
        "NodeChange {key} has the name of the turn of Node {node}: found spec.nodeName {} with uid {} of {} {}, wanted none of that name: \
         delete it, and numo looks at the node again",
        of.node_name, of.node_uid, owner.kind, owner.name
    );
    Why::new(Reason::JournalContradicts, message)
}

pub(crate) fn why(change: &ChangeView, problem: &str) -> Why {
    let (key, node, unheard) = (&change.key, &change.spec.node_name, directive::unheard(change));
    let message = format!(
        "NodeChange {key}: {problem}; numo leaves Node {node} alone until this is corrected: fix it, or `kubectl -n {} delete nodechange {}`, and numo \
         looks at the node again{unheard}",
        key.namespace, key.name
    );
    Why::new(Reason::JournalContradicts, message)
}

/// Attempts are counted upwards, and nothing is of one that has not begun.
fn of_attempts(change: &ChangeView) -> Option<String> {
    let status = &change.status;
    let attempt = status.attempt.max(1);
    let entries = status.entries.iter();
    let entries = entries.map(|entry| ("status.entries", entry.attempt));
    let verdicts = status.verdicts.iter();
    let verdicts = verdicts.map(|verdict| ("status.verdicts", verdict.round));
    let (field, found) = entries.chain(verdicts).find(|(_, found)| *found > attempt)?;
    Some(format!(
        "{field}: found attempt {found}, wanted at most {attempt} (status.attempt)"
    ))
}

/// A node goes through steps that its owner has, and reaches none before what must come before it.
fn of_steps(change: &ChangeView, before: impl Fn(Step) -> Option<&'static [Step]>) -> Option<String> {
    let status = &change.status;
    if status.step.is_none() && !status.entries.is_empty() {
        return Some("status.step: found none, wanted one, as status.entries has some".to_owned());
    }
    let ungated = Reason::Ungated.name();
    let told = status.entries.iter();
    // Who changed without its rules was not admitted by them.
    let told = told.filter(|entry| entry.reason.as_deref() != Some(ungated));
    let step = status.step.filter(|_| status.reason.as_deref() != Some(ungated));
    let steps = told.map(|entry| entry.step).chain(step);
    steps.into_iter().find_map(|step| {
        let name = step.name();
        let Some(wanted) = before(step) else {
            let kind = &change.spec.owner_ref.kind;
            return Some(format!("found step {name}, wanted one that a {kind} has"));
        };
        let entered = |wanted: &Step| status.entries.iter().any(|entry| entry.step == *wanted);
        let is_so = wanted.is_empty() || wanted.iter().any(entered);
        (!is_so).then(|| {
            let wanted: Vec<&str> = wanted.iter().map(|step| step.name()).collect();
            format!(
                "status.entries: found step {name}, wanted {} before it",
                wanted.join(" or ")
            )
        })
    })
}

/// Times can be read, are in order, and have come.
fn of_times(change: &ChangeView, now: Timestamp) -> Result<(), String> {
    let status = &change.status;
    let (since, closed) = (&status.since, &status.closed_since);
    for (field, time) in [("status.since", since), ("status.closedSince", closed)] {
        time.as_deref()
            .map_or(Ok(now), |time| wrong_time(field, time, now))?;
    }
    let attempt = status.attempt.max(1);
    let mut last: Option<(Timestamp, &Entry)> = None;
    // What earlier attempts say is history.
    let entries = status.entries.iter();
    for entry in entries.filter(|entry| entry.attempt.max(1) == attempt) {
        let at = wrong_time("status.entries", &entry.at, now)?;
        if let Some((_, earlier)) = last.filter(|(last, _)| later(at, APART_SECONDS) < *last) {
            let (step, at, before) = (entry.step.name(), &entry.at, earlier.step.name());
            return Err(format!(
                "status.entries: found {step} at {at}, wanted it after {before} at {}",
                earlier.at
            ));
        }
        last = Some((at, entry));
    }
    Ok(())
}

/// The time, or what is wrong with it.
fn wrong_time(field: &str, found: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at = journal::time(Some(found));
    let at = at.ok_or_else(|| format!("{field}: found {found:?}, wanted a time such as {now}"))?;
    let early = || format!("{field}: found {found}, wanted a time that has come: it is {now}");
    has_come(at, now).then_some(at).ok_or_else(early)
}

/// An attempt of a rule has one verdict.
fn of_verdicts(verdicts: &[VerdictRecord]) -> Option<String> {
    verdicts.iter().enumerate().find_map(|(index, verdict)| {
        let name = |one: &VerdictRecord| (one.phase, one.attempt, one.round);
        let mut earlier = verdicts[..index].iter();
        let is_same = |one: &&VerdictRecord| one.rule == verdict.rule && name(one) == name(verdict);
        let other = earlier.find(is_same).filter(|one| one.outcome != verdict.outcome)?;
        let (rule, phase, attempt) = (&verdict.rule, verdict.phase.name(), verdict.attempt);
        Some(format!(
            "status.verdicts: found {:?} and {:?} of MutexRule {rule} in phase {phase}, attempt {attempt}, wanted one",
            other.outcome, verdict.outcome
        ))
    })
}

/// A verdict is of a Job of this turn: the name of a Job is made of owner, node and rule. After the release of a node that is replaced the
/// node is another one, which has its place, or had it before it was lost, too.
fn of_jobs(change: &ChangeView) -> Option<String> {
    let (spec, attempt) = (&change.spec, change.status.attempt.max(1));
    let pin = change.status.pin.as_ref();
    let is_replaced = pin.is_some_and(|pin| pin.heir.is_some() || pin.provider_id.is_some());
    let is_of_heir = |one: &VerdictRecord| is_replaced && one.phase.is_after_release();
    let verdicts = change.status.verdicts.iter();
    let mut verdicts = verdicts.filter(|one| one.round == attempt && !is_of_heir(one));
    verdicts.find_map(|verdict| {
        let job = verdict.job.as_deref()?;
        let identity = JobIdentity {
            owner_uid: &spec.owner_ref.uid,
            node_uid: &spec.node_uid,
            run: &spec.target.run_id,
            rule: &verdict.rule,
            phase: verdict.phase,
            round: verdict.round,
            attempt: verdict.attempt,
        };
        let (rule, phase) = (&verdict.rule, verdict.phase.name());
        (!names::is_job_of(job, &identity)).then(|| {
            format!("status.verdicts: found Job {job} of MutexRule {rule} in phase {phase}, wanted one that ran for this turn")
        })
    })
}
