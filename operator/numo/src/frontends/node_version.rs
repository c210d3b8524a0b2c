//! NodeVersion: what is read of it, and the status that a report becomes, by the names and words of the Constellation node operator
//! (`spec/constellation.md` §1). Ready, Reconciling and Stalled come after its own condition. Pure.

use super::{conditions::Conditions, hours::hours, shortfall::ended, standing::Standing};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use numo_api::{
    Condition, Reason,
    conditions::types,
    machines::{NodeVersion, NodeVersionStatus, UPDATE_GROUP, UPDATE_VERSION},
    marks,
};
use numo_core::{
    observed::NodeVersionView,
    owners::node_version,
    report::{Report, RunPhase},
};

/// The view of a NodeVersion.
pub fn view(version: NodeVersion) -> NodeVersionView {
    let meta = version.metadata;
    let annotations = meta.annotations.unwrap_or_default();
    let mutex = version.spec.mutex.as_ref();
    NodeVersionView {
        pruned: super::pruned(&annotations, &[("mutex", mutex.is_some())]),
        has_annotations: !annotations.is_empty(),
        name: meta.name.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        generation: meta.generation.unwrap_or(0),
        created: meta
            .creation_timestamp
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.unwrap_or_default(),
        annotations: annotations
            .into_iter()
            .filter(|(key, _)| key.starts_with(marks::PREFIX))
            .collect(),
        labels: meta.labels.unwrap_or_default(),
        hours: mutex.and_then(|mutex| hours(mutex.window.as_ref())),
        spec: version.spec,
        status: version.status.unwrap_or_default(),
    }
}

/// What the NodeVersion waits for, or that it does not, and whether a person is needed.
pub fn standing(report: &Report) -> Standing {
    let standing = said(report);
    let is_known = standing.is_good() || standing.stalled;
    if !is_known && let Some(stuck) = Standing::of_stuck(report) {
        return stuck;
    }
    standing
}

fn said(report: &Report) -> Standing {
    let mut all = report.nodes.values().map(|node| &node.why);
    let refused = all.find(|why| why.reason == Reason::WriteRefused);
    let is_over = report.phase == RunPhase::Idle;
    // Once it is over, nodes that nobody knows are named with the others that were left out.
    let mut problems = report.problems.iter();
    let problem = problems.find(|why| !is_over || why.reason != Reason::MachineUnknown);
    let why = refused.or(report.hold.as_ref()).or(problem);
    if let Some(why) = why {
        return Standing {
            reason: why.reason,
            message: why.message.to_string(),
            who: why.who(),
            stalled: why.who().is_person(),
        };
    }
    if let Some(shut) = Standing::of_hours(report) {
        return shut;
    }
    if is_over {
        return Standing::from(ended(report));
    }
    Standing::from(progressing())
}

fn progressing() -> (Reason, String) {
    (Reason::Progressing, Reason::Progressing.meaning().to_owned())
}

/// The status as it shall be.
pub fn status(view: &NodeVersionView, report: &Report, now: Timestamp) -> NodeVersionStatus {
    let Some(found) = &report.node_version else {
        return view.status.clone();
    };
    let nodes = |all: &[(String, String)]| references("v1", "Node", all);
    let pending = format!("{UPDATE_GROUP}/{UPDATE_VERSION}");
    let mut conditions = Conditions::over(&view.status.conditions, view.generation, now);
    let (reason, message) = if found.is_outdated {
        ("NodeVersionsOutOfDate", "Some node versions are out of date")
    } else {
        ("NodeVersionsUpToDate", "Node version of every node is up to date")
    };
    conditions.set("Outdated", found.is_outdated, reason, message);
    let standing = standing(report);
    let (reason, stalled) = (standing.reason, standing.stalled);
    let is_over = report.phase == RunPhase::Idle;
    // Of one that is being deleted it stays as it is.
    if report.phase != RunPhase::Leaving {
        let (reason, message) = if is_over { ended(report) } else { progressing() };
        conditions.set(types::COMPLETE, is_over, reason.name(), message);
    }
    let ready = is_over && standing.is_good();
    conditions.kstatus(
        ready,
        !ready && !stalled,
        stalled,
        reason.name(),
        &standing.message,
    );
    NodeVersionStatus {
        outdated: nodes(&found.outdated),
        up_to_date: nodes(&found.up_to_date),
        donors: nodes(&found.donors),
        heirs: nodes(&found.heirs),
        mints: nodes(&found.mints),
        awaiting_annotation: nodes(&found.awaiting_annotation),
        pending: references(&pending, "PendingNode", &found.pending),
        obsolete: nodes(&found.obsolete),
        invalid: nodes(&found.invalid),
        budget: i32::try_from(found.budget).unwrap_or(i32::MAX),
        active_cluster_version_upgrade: false,
        conditions: conditions.done(),
        approval: super::approval::status(report, view.status.approval.as_ref(), now),
    }
}

/// References to objects of a kind; none if there are none.
fn references(api_version: &str, kind: &str, all: &[(String, String)]) -> Option<Vec<ObjectReference>> {
    let reference = |(name, uid): &(String, String)| ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    };
    (!all.is_empty()).then(|| all.iter().map(reference).collect())
}

/// The conditions of a ScalingGroup.
pub fn group_conditions(known: &[Condition], is_outdated: bool, now: Timestamp) -> Vec<Condition> {
    let wanted = node_version::outdated(is_outdated);
    let mut conditions = Conditions::over(known, 0, now);
    let (reason, message) = (
        wanted.reason.unwrap_or_default(),
        wanted.message.unwrap_or_default(),
    );
    conditions.set(&wanted.type_, is_outdated, &reason, message);
    conditions.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Step;
    use numo_core::{
        report::{NodeReport, NodeVersionReport},
        why::Why,
    };

    #[test]
    fn nodes_that_were_left_out_are_told_once_the_others_are_done() {
        let node = |step: Step, reason: Reason| NodeReport {
            pool: "".into(),
            step,
            why: Why::new(reason, "it is dark"),
            since: None,
            change: None,
        };
        let mut report = Report {
            phase: RunPhase::Idle,
            ..Report::default()
        };
        report
            .nodes
            .insert("a".to_owned(), node(Step::Done, Reason::UpToDate));
        report
            .nodes
            .insert("b".to_owned(), node(Step::Skipped, Reason::LeftOutNotReady));
        let said = standing(&report);
        assert_eq!((said.reason, said.stalled), (Reason::NodesLeftOut, true));
        assert!(
            said.message.contains("b (LeftOutNotReady: it is dark)"),
            "{}",
            said.message
        );
        // What is known of a node without a machine is said with it.
        let unknown = || Why::new(Reason::MachineUnknown, "Node b spec.providerID: found none");
        report.problems.push(unknown());
        assert_eq!(standing(&report).reason, Reason::NodesLeftOut);
        report.phase = RunPhase::Active;
        assert_eq!(standing(&report).reason, Reason::MachineUnknown);
        report.problems.clear();
        report
            .nodes
            .insert("c".to_owned(), node(Step::Selected, Reason::WaitingForTurn));
        assert_ne!(standing(&report).reason, Reason::NodesLeftOut);
    }

    /// As a Plan is: complete, and not Ready until a person has seen what it is short of.
    #[test]
    fn a_node_version_that_left_nodes_out_is_complete_and_ready_once_that_is_acknowledged() {
        let node = NodeReport {
            pool: "".into(),
            step: Step::Skipped,
            why: Why::new(Reason::LeftOutNotReady, "it is dark"),
            since: None,
            change: None,
        };
        let mut report = Report {
            phase: RunPhase::Active,
            nodes: [("a".to_owned(), node)].into(),
            node_version: Some(NodeVersionReport {
                is_outdated: true,
                ..NodeVersionReport::default()
            }),
            ..Report::default()
        };
        let said = |report: &Report| {
            let status = status(&NodeVersionView::default(), report, Timestamp::UNIX_EPOCH);
            let of = |type_: &str| {
                let mut all = status.conditions.iter();
                let one = all.find(|one| one.type_ == type_);
                one.map_or("-", |one| one.status.as_str()).to_owned()
            };
            ["Outdated", "Complete", "Ready", "Stalled"].map(of).join(" ")
        };
        assert_eq!(said(&report), "True False False -");
        report.phase = RunPhase::Idle;
        assert_eq!(said(&report), "True True False True");
        report.acknowledged = true;
        assert_eq!(said(&report), "True True True -");
        report.phase = RunPhase::Leaving;
        assert_eq!(said(&report), "True - False -");
    }

    #[test]
    fn the_status_has_the_sets_and_words_of_the_reference() {
        let mut view = NodeVersionView::default();
        // The operator was stopped while it upgraded Kubernetes, and wrote no budget yet.
        view.status.active_cluster_version_upgrade = true;
        let mut report = Report {
            phase: RunPhase::Active,
            node_version: Some(NodeVersionReport {
                outdated: vec![("a".to_owned(), "uid-a".to_owned())],
                pending: vec![("p".to_owned(), "uid-p".to_owned())],
                budget: 2,
                is_outdated: true,
                ..NodeVersionReport::default()
            }),
            ..Report::default()
        };
        let of = |status: &NodeVersionStatus, type_: &str| {
            let one = status.conditions.iter().find(|one| one.type_ == type_);
            one.map(|one| (one.status.clone(), one.reason.clone().unwrap_or_default()))
        };
        let status = super::status(&view, &report, Timestamp::UNIX_EPOCH);
        let outdated = status.outdated.as_ref().unwrap();
        assert_eq!(outdated[0].name.as_deref(), Some("a"));
        assert_eq!(
            status.pending.as_ref().unwrap()[0].kind.as_deref(),
            Some("PendingNode")
        );
        assert_eq!(status.up_to_date, None);
        assert_eq!(status.budget, 2);
        assert!(!status.active_cluster_version_upgrade);
        // What its definition requires is there whenever a status is.
        let written = serde_json::to_value(&status).unwrap();
        for field in ["budget", "conditions", "activeclusterversionupgrade"] {
            assert!(!written[field].is_null(), "{field}: {written}");
        }
        let wanted = ("True".to_owned(), "NodeVersionsOutOfDate".to_owned());
        assert_eq!(of(&status, "Outdated"), Some(wanted));
        assert_eq!(of(&status, "Ready").unwrap().0, "False");
        report.phase = RunPhase::Idle;
        report.node_version = Some(NodeVersionReport::default());
        let status = super::status(&view, &report, Timestamp::UNIX_EPOCH);
        let wanted = ("False".to_owned(), "NodeVersionsUpToDate".to_owned());
        assert_eq!(of(&status, "Outdated"), Some(wanted));
        assert_eq!(of(&status, "Ready").unwrap().0, "True");
    }
}
