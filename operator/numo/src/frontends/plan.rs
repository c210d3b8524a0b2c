//! Plan: what is read of it, and the status that a report becomes. Pure.
//!
//! Conditions, reasons and events are those of system-upgrade-controller (`spec/system-upgrade-controller.md` §1–2); Ready,
//! Reconciling and Stalled come after them and say what the Plan waits for.

use super::{
    conditions::seconds,
    hours::{hours, zone},
    shortfall::{SHORT, ended},
    standing::Standing,
};
use jiff::Timestamp;
use numo_api::{
    Plan, PlanCondition, PlanSpec, PlanStatus, Reason, Step,
    conditions::{Actor, types},
    marks, text,
};
use numo_core::{
    observed::{Key, PlanView},
    owners::plan::Window,
    report::{PlanReport, Report, RunPhase, Why},
    text::counted,
};

/// Longest message of a condition (characters).
const MESSAGE_MAX: usize = 4096;

/// The view of a Plan. Time zones are known by themselves, whatever the machine has.
pub fn view(plan: Plan) -> PlanView {
    let meta = plan.metadata;
    let annotations = meta.annotations.unwrap_or_default();
    let selector = plan
        .spec
        .node_selector
        .as_ref()
        .and_then(|selector| serde_json::to_value(selector).ok())
        .unwrap_or(serde_json::Value::Null);
    let copied = |key: &String| {
        !key.contains("cattle.io/")
            && !key.contains("kubectl.kubernetes.io/")
            && !key.starts_with(marks::PREFIX)
    };
    let digest = annotations.get(marks::PLAN_DIGEST).cloned().unwrap_or_default();
    let names_metadata = digest.split(',').any(|path| path.starts_with("metadata"));
    PlanView {
        pruned: super::pruned(&annotations, &[("mutex", plan.spec.mutex.is_some())]),
        key: Key::new(meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default()),
        uid: meta.uid.unwrap_or_default(),
        generation: meta.generation.unwrap_or(0),
        created: meta
            .creation_timestamp
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.unwrap_or_default(),
        has_annotations: !annotations.is_empty(),
        uncopied_annotations: annotations
            .iter()
            .filter(|(key, _)| names_metadata && !copied(key) && !key.starts_with(marks::PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        digest,
        copied_annotations: annotations
            .iter()
            .filter(|(key, _)| copied(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        annotations: annotations
            .into_iter()
            .filter(|(key, _)| key.starts_with(marks::PREFIX))
            .collect(),
        labels: meta.labels.unwrap_or_default(),
        selector,
        window: window(&plan.spec),
        hours: plan
            .spec
            .mutex
            .as_ref()
            .and_then(|mutex| hours(mutex.window.as_ref())),
        spec: plan.spec,
        status: plan.status.unwrap_or_default(),
    }
}

fn window(spec: &PlanSpec) -> Option<Result<Window, String>> {
    let window = spec.window.as_ref()?;
    Some(Window::parse(window, zone))
}

/// How the Plan stands, by what was decided for it.
pub fn standing(report: &Report) -> Standing {
    let (reason, message, who) = said(report);
    let standing = Standing {
        reason,
        message,
        who,
        stalled: who.is_person(),
    };
    let is_known = standing.is_good() || who.is_person();
    if !is_known && let Some(stuck) = Standing::of_stuck(report) {
        return stuck;
    }
    standing
}

fn said(report: &Report) -> (Reason, String, Actor) {
    let nodes = &report.nodes;
    let open = |step: Step| !matches!(step, Step::Done | Step::Skipped);
    let held = nodes.values().find(|node| node.step == Step::Held);
    let in_flight = report.in_flight();
    let why = |why: &Why| (why.reason, why.message.to_string(), why.who());
    let by_reason = |reason: Reason, message: String| (reason, message, reason.who());
    let mut all = nodes.values().map(|node| &node.why);
    // What could not be written is a person's to mend, whatever else goes on.
    if let Some(refused) = all.find(|why| why.reason == Reason::WriteRefused) {
        return why(refused);
    }
    match (&report.hold, held) {
        (Some(hold), _) if report.phase == RunPhase::Leaving => why(hold),
        (Some(hold), _) if in_flight == 0 || hold.who().is_person() => why(hold),
        (_, Some(held)) => why(&held.why),
        (_, None) if in_flight > 0 => {
            let behind = report.count(|node| open(node.step));
            let first = nodes.values().find(|node| {
                !matches!(
                    node.step,
                    Step::Selected | Step::Done | Step::Failed | Step::Skipped
                )
            });
            let first = first.map_or_else(String::new, |node| {
                format!("; {}: {}", node.why.reason, node.why.message)
            });
            let message = format!(
                "{} to be upgraded, {in_flight} in flight{first}",
                counted(behind, "node")
            );
            by_reason(Reason::Progressing, message)
        }
        (Some(hold), None) => why(hold),
        (None, None) => match nodes.values().find(|node| open(node.step)) {
            Some(first) => why(&first.why),
            None if nodes.is_empty() => {
                by_reason(Reason::NoNodes, "spec.nodeSelector selects no node".to_owned())
            }
            None => {
                let (reason, words) = ended(report);
                by_reason(reason, words)
            }
        },
    }
}

/// A list of conditions in the making.
struct Conditions<'a> {
    old: &'a [PlanCondition],
    new: Vec<PlanCondition>,
    now: Timestamp,
}

impl Conditions<'_> {
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let message: String = text::line(message).chars().take(MESSAGE_MAX).collect();
        let before = self.old.iter().find(|one| one.type_ == type_);
        let same_status = before.filter(|before| before.status == status);
        let same = same_status.filter(|before| before.message.as_deref().unwrap_or_default() == message);
        let now = seconds(self.now);
        let condition = PlanCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            // By this the reference counts its polling: it changes with status and message only.
            last_update_time: same
                .and_then(|before| before.last_update_time.clone())
                .or_else(|| Some(now.clone())),
            last_transition_time: same_status
                .and_then(|before| before.last_transition_time.clone())
                .or(Some(now)),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(message).filter(|message| !message.is_empty()),
        };
        match self.new.iter_mut().find(|one| one.type_ == type_) {
            Some(one) => *one = condition,
            None => self.new.push(condition),
        }
    }

    fn unset(&mut self, type_: &str) {
        self.new.retain(|one| one.type_ != type_);
    }
}

fn status_of(is: bool) -> &'static str {
    if is { "True" } else { "False" }
}

/// The status as it shall be.
pub fn status(view: &PlanView, report: &Report, now: Timestamp) -> PlanStatus {
    let Some(said) = &report.plan else {
        return view.status.clone();
    };
    if said.is_validating {
        // What it needs is being listed: what was said of it holds until then.
        return view.status.clone();
    }
    let old = view.status.conditions.as_deref().unwrap_or_default();
    let mut conditions = Conditions {
        old,
        new: old.to_vec(),
        now,
    };
    let judged = (!said.is_unjudged).then(|| {
        let found = resolved(view, said, &mut conditions);
        conditions.set(
            types::COMPLETE,
            status_of(said.complete),
            said.reason,
            &said.message,
        );
        found
    });
    let standing = standing(report);
    let ready = said.complete && standing.is_good();
    let Standing {
        reason,
        message,
        stalled,
        ..
    } = standing;
    let stalled = !ready && stalled;
    conditions.set(types::READY, status_of(ready), reason.name(), &message);
    for (type_, present) in [
        (types::RECONCILING, !ready && !stalled),
        (types::STALLED, stalled),
    ] {
        if present {
            conditions.set(type_, "True", reason.name(), &message);
        } else {
            conditions.unset(type_);
        }
    }
    let Some((latest_version, latest_hash)) = judged else {
        // Nobody knows what it has come to: its Jobs are not to be seen.
        return PlanStatus {
            conditions: Some(conditions.new),
            ..view.status.clone()
        };
    };
    PlanStatus {
        conditions: Some(conditions.new),
        latest_version,
        latest_hash,
        applying: Some(said.applying.clone()).filter(|applying| !applying.is_empty()),
        approval: super::approval::status(report, view.status.approval.as_ref(), now),
    }
}

/// Validated and LatestResolved, with what was resolved.
fn resolved(
    view: &PlanView,
    said: &PlanReport,
    conditions: &mut Conditions<'_>,
) -> (Option<String>, Option<String>) {
    let old = &view.status;
    match &said.invalid {
        Some(problem) => conditions.set(types::VALIDATED, "False", "Error", problem),
        None => conditions.set(types::VALIDATED, "True", "PlanIsValid", ""),
    }
    let reason = if said.by_channel { "Channel" } else { "Version" };
    match &said.unresolved {
        // A channel that does not answer keeps the version that it named before.
        Some(problem) if said.version.is_empty() && !said.is_asked => {
            conditions.set(types::LATEST_RESOLVED, "False", "Error", problem);
            return (None, None);
        }
        Some(problem) if said.version.is_empty() => {
            conditions.set(types::LATEST_RESOLVED, "Unknown", "", problem);
            return (None, None);
        }
        Some(problem) => conditions.set(types::LATEST_RESOLVED, "True", reason, problem),
        None => conditions.set(types::LATEST_RESOLVED, "True", reason, ""),
    }
    let hash = Some(said.hash.clone()).filter(|hash| !hash.is_empty());
    (
        Some(said.version.clone()),
        hash.or_else(|| {
            let same = old.latest_version.as_deref() == Some(said.version.as_str());
            old.latest_hash.clone().filter(|_| same)
        }),
    )
}

/// Whether two statuses differ in no more than the messages of their conditions.
pub fn is_the_same_but_for_words(old: &PlanStatus, new: &PlanStatus) -> bool {
    let bare = |status: &PlanStatus| {
        let mut bare = status.clone();
        for condition in bare.conditions.iter_mut().flatten() {
            condition.message = None;
            condition.last_update_time = None;
        }
        bare
    };
    bare(old) == bare(new)
}

/// An event that the change of a status stands for: reason, sentence, and whether it is a warning.
pub type Transition = (&'static str, String, bool);

/// The events that the change of a status stands for, as system-upgrade-controller has them. Each is said once.
pub fn transitions(view: &PlanView, old: &PlanStatus, new: &PlanStatus) -> Vec<Transition> {
    let find = |status: &PlanStatus, type_: &str| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|one| one.type_ == type_).cloned()
    };
    let changed = |type_: &str| {
        let (before, after) = (find(old, type_), find(new, type_)?);
        let same = before.as_ref().is_some_and(|before| {
            before.status == after.status
                && before.reason == after.reason
                && (before.message == after.message || after.status == "True" && after.message.is_none())
        });
        (!same).then_some(after)
    };
    let version = new.latest_version.as_deref().unwrap_or_default();
    let hash = new.latest_hash.as_deref().unwrap_or_default();
    let mut said: Vec<Transition> = Vec::new();
    if let Some(validated) = changed(types::VALIDATED) {
        if validated.status == "True" {
            let before = find(old, types::VALIDATED);
            if before.is_none_or(|before| before.status != "True") {
                said.push(("Validated", "Plan is valid".to_owned(), false));
            }
        } else {
            let note = format!("Failed to validate plan: {}", message(&validated));
            said.push(("ValidateFailed", note, true));
        }
    }
    if new.latest_version.is_some() && old.latest_version != new.latest_version {
        let of = source(view);
        let note = format!("Resolved latest version from {of}: {version}");
        said.push(("Resolved", note, false));
    } else if let Some(resolved) = changed(types::LATEST_RESOLVED)
        && resolved.message.is_some()
        && resolved.status != "Unknown"
    {
        said.push(("ResolveFailed", unresolved(view, message(&resolved)), true));
    }
    let applying = new.applying.as_deref().unwrap_or_default();
    if !applying.is_empty() && old.applying != new.applying {
        let shown: Vec<&str> = applying.iter().take(20).map(String::as_str).collect();
        said.push((
            "SyncJob",
            format!(
                "Jobs synced for version {version} on Nodes {}. Hash: {hash}",
                shown.join(",")
            ),
            false,
        ));
    }
    let ready = find(new, types::READY).and_then(|ready| ready.reason);
    let is_outside = view.window.is_some() && ready.as_deref() == Some(Reason::OutsideWindow.name());
    said.extend(
        changed(types::COMPLETE).and_then(|complete| completion(&complete, (version, hash), is_outside)),
    );
    said.extend(
        changed(types::STALLED).and_then(|stalled| stall(&stalled, find(old, types::STALLED).as_ref())),
    );
    said
}

fn message(condition: &PlanCondition) -> String {
    condition.message.clone().unwrap_or_default()
}

/// The field that the version of a Plan is from.
fn source(view: &PlanView) -> &'static str {
    let version = view.spec.version.as_deref();
    if version.is_some_and(|version| !version.is_empty()) {
        "Spec.Version"
    } else {
        "Spec.Channel"
    }
}

/// Why there is no version; a Plan that names neither a version nor a channel is told without a field.
fn unresolved(view: &PlanView, why: String) -> String {
    let named = [&view.spec.version, &view.spec.channel];
    if named.into_iter().flatten().any(|text| !text.is_empty()) {
        format!("Failed to resolve latest version from {}: {why}", source(view))
    } else {
        why
    }
}

/// The event of a changed condition Complete. A Plan waits for its window only where that `is_outside`.
fn completion(
    complete: &PlanCondition,
    (version, hash): (&str, &str),
    is_outside: bool,
) -> Option<Transition> {
    let said = match complete.reason.as_deref()? {
        "Complete" => (
            "Complete",
            format!("Jobs complete for version {version}. Hash: {hash}"),
            false,
        ),
        "Waiting" if is_outside => {
            let note =
                format!("Waiting for start of Spec.Window to sync Jobs for version {version}. Hash: {hash}");
            ("Waiting", note, false)
        }
        "Waiting" => {
            let why = message(complete);
            let note = format!("Waiting to sync Jobs for version {version}: {why}. Hash: {hash}");
            ("Waiting", note, false)
        }
        "JobFailed" => ("JobFailed", message(complete), true),
        "SelectNodesFailed" => {
            let note = format!("Failed to select Nodes: {}", message(complete));
            ("SelectNodesFailed", note, true)
        }
        _ => return None,
    };
    Some(said)
}

/// The event of a changed condition Stalled.
fn stall(stalled: &PlanCondition, before: Option<&PlanCondition>) -> Option<Transition> {
    let reason = Reason::named(stalled.reason.as_deref()?)?;
    let known = before.is_some_and(|before| {
        // Of these each further node is news.
        let names_nodes = SHORT.contains(&reason);
        before.reason == stalled.reason && (!names_nodes || before.message == stalled.message)
    });
    let is_told = known || matches!(reason, Reason::JobFailed | Reason::VersionUnresolved);
    (!is_told).then(|| (reason.name(), message(stalled), true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    /// One Plan and the hash that nodes get.
    #[derive(Deserialize)]
    struct Digest {
        why: String,
        /// The annotation.
        #[serde(rename = "digest")]
        names: String,
        /// Further fields of the metadata.
        #[serde(default)]
        metadata: serde_json::Map<String, Value>,
        spec: Value,
        #[serde(default)]
        secrets: Vec<Value>,
        hash: String,
    }

    fn secret_hash(secret: &Value) -> String {
        numo_core::owners::plan::secret_hash(
            secret["metadata"]["name"].as_str().unwrap_or_default(),
            secret["type"].as_str().unwrap_or_default(),
            Some(secret.get("data").unwrap_or(&Value::Null)),
            secret.get("immutable").and_then(Value::as_bool),
        )
    }

    #[test]
    fn a_plan_without_nodes_says_so_and_one_that_left_nodes_out_is_acknowledged() {
        let mut report = Report {
            phase: RunPhase::Idle,
            ..Report::default()
        };
        let standing = super::standing(&report);
        assert_eq!(standing.reason, Reason::NoNodes);
        assert_eq!(standing.message, "spec.nodeSelector selects no node");
        let node = numo_core::report::NodeReport {
            pool: "".into(),
            step: Step::Skipped,
            why: Why::new(Reason::SkippedByPerson, "its disk is broken"),
            since: None,
            change: None,
        };
        report.nodes.insert("a".to_owned(), node);
        let standing = super::standing(&report);
        assert_eq!(standing.reason, Reason::NodesLeftOut, "{standing:?}");
        assert!(
            standing
                .message
                .contains("a (SkippedByPerson: its disk is broken)")
        );
        report
            .ungated
            .insert("b".to_owned(), "someone else released it".to_owned());
        let standing = super::standing(&report);
        assert_eq!(standing.reason, Reason::NodesUngated);
        assert!(
            standing
                .message
                .ends_with("1 node changed without its rules: b (someone else released it)"),
            "{standing:?}"
        );
        report.acknowledged = true;
        let standing = super::standing(&report);
        assert_eq!(standing.reason, Reason::Succeeded, "{standing:?}");
        assert!(standing.message.starts_with("acknowledged: "), "{standing:?}");
    }

    /// system-upgrade-controller waits for nothing else: of a Plan that has no window nobody is to look for one.
    #[test]
    fn only_a_plan_outside_its_window_is_told_to_wait_for_that() {
        let condition = |type_: &str, reason: &str, message: &str| PlanCondition {
            type_: type_.to_owned(),
            status: "False".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..PlanCondition::default()
        };
        let said = |window: Value, reason: Reason| {
            let mut plan = json!({
                "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "p"},
                "spec": {"upgrade": {"image": "i"}},
            });
            plan["spec"]["window"] = window;
            let view = view(serde_json::from_value(plan).unwrap());
            let new = PlanStatus {
                conditions: Some(vec![
                    condition(types::COMPLETE, "Waiting", "rule ops/gate is not judged yet"),
                    condition(types::READY, reason.name(), ""),
                ]),
                latest_version: Some("v1".to_owned()),
                latest_hash: Some("h".to_owned()),
                ..PlanStatus::default()
            };
            let old = PlanStatus {
                conditions: None,
                ..new.clone()
            };
            let all = transitions(&view, &old, &new);
            let waiting = all.into_iter().find(|(reason, ..)| *reason == "Waiting");
            waiting.map(|(_, note, _)| note).unwrap_or_default()
        };
        let window = json!({"days": ["su"], "startTime": "1:00", "endTime": "2:00"});
        assert_eq!(
            said(window.clone(), Reason::OutsideWindow),
            "Waiting for start of Spec.Window to sync Jobs for version v1. Hash: h"
        );
        for (window, reason) in [(Value::Null, Reason::OutsideWindow), (window, Reason::Validating)] {
            assert_eq!(
                said(window, reason),
                "Waiting to sync Jobs for version v1: rule ops/gate is not judged yet. Hash: h"
            );
        }
    }

    /// The table was made by Go programs of the same steps, with the libraries that system-upgrade-controller calls for
    /// them: the encoding and printing of wrangler v3.6.1, the hash of a Secret of kubectl v0.36.3, the types of Kubernetes
    /// v0.36.3. Its own module is not served by the Go module proxy, so its struct of a Plan is written down there by its
    /// JSON.
    #[test]
    fn nodes_that_system_upgrade_controller_finished_stay_finished() {
        let table: Vec<Digest> = serde_json::from_str(include_str!("digests.json")).unwrap();
        assert!(table.len() > 200);
        for one in table {
            let mut annotations = json!({"note": "n"});
            if !one.names.is_empty() {
                annotations[marks::PLAN_DIGEST] = json!(one.names);
            }
            let mut plan = json!({
                "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
                "metadata": {
                    "name": "p", "namespace": "system-upgrade", "generation": 7,
                    "uid": "0c7a2f0e-5a3c-4d1e-9a55-2f3f8a6f1c11",
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                    "labels": {"team": "a"}, "annotations": annotations,
                },
                "spec": one.spec,
            });
            for (field, value) in &one.metadata {
                if let (Some(all), Some(own)) = (plan["metadata"][field].as_object_mut(), value.as_object()) {
                    all.extend(own.clone());
                } else {
                    plan["metadata"][field] = value.clone();
                }
            }
            let hash = |plan: &Value| {
                let view = view(serde_json::from_value(plan.clone()).unwrap());
                let version =
                    numo_core::owners::plan::munged(view.spec.version.as_deref().unwrap_or_default());
                let named = view.spec.secrets.clone().unwrap_or_default();
                let hashes: Vec<String> = named
                    .iter()
                    .filter(|secret| secret.ignore_updates != Some(true))
                    .filter_map(|named| {
                        let found = one.secrets.iter();
                        let mut found = found.filter(|one| one["metadata"]["name"] == named.name.as_str());
                        found.next().map(secret_hash)
                    })
                    .collect();
                numo_core::owners::plan::digest(&view, &version, hashes.iter().map(String::as_str))
            };
            assert_eq!(hash(&plan), one.hash, "{}", one.why);
            // What only numo knows changes nothing.
            plan["spec"]["mutex"] = json!({"retries": 1});
            assert_eq!(hash(&plan), one.hash, "{}, with numo's own field", one.why);
        }
    }
}
