//! Owners of a kind that this version does not know: a later numo has begun something, and is gone or was rolled back. `numo release`
//! gives back nothing of theirs, and says whose it is and who ends that.

use crate::cluster::{Cluster, RUN_UID, now};
use numo_api::Reason;
use numo_core::{Owner, OwnerKind, Snapshot, decide, left, release, verdict::Answers};

/// What `numo release` writes first for each owner.
fn restored(cluster: &Cluster) -> Vec<String> {
    let mut observed = cluster.observed.clone();
    let owners = release::abandon(&mut observed, now());
    let of_owner = |owner: &Owner| {
        let snapshot = Snapshot {
            now: now(),
            observed: &observed,
            owner,
            asked: None,
        };
        let mut decision = decide(&snapshot, &Answers::default());
        release::only_restore(&mut decision, !observed.changes.is_empty());
        let planned = decision.actions.into_iter();
        planned
            .map(|planned| format!("{:?}", planned.action))
            .collect::<Vec<_>>()
    };
    owners.iter().flat_map(of_owner).collect()
}

/// Node a with the marks of an owner, and the journal of its turn, whose kind is `kind`.
fn marked(kind: &str, step: &str) -> Cluster {
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours unpaused
         node a worker 4.17.0 turn lease:numo/{kind}/{RUN_UID}
         machine m of a shielded:{RUN_UID}
         change a {step}"
    ));
    cluster.observed.runs.clear();
    cluster.observed.pools.clear();
    let change = cluster.observed.changes.values_mut().next().expect("a change");
    kind.clone_into(&mut change.spec.owner_ref.kind);
    "v2".clone_into(&mut change.spec.owner_ref.name);
    cluster
}

#[test]
fn marks_of_a_known_kind_whose_owner_is_gone_are_restored() {
    let found = restored(&marked("MutexRunConfig", "PreRules"));
    assert!(found.iter().any(|one| one.contains("Unshield")), "{found:#?}");
    assert!(found.iter().any(|one| one.contains("ReleaseLease")), "{found:#?}");
}

#[test]
fn marks_of_a_turn_of_an_unknown_kind_are_not_restored() {
    for step in ["-", "PreRules", "Drained", "Released", "Held", "Done", "Failed"] {
        assert_eq!(
            restored(&marked("NodePool", step)),
            Vec::<String>::new(),
            "{step}"
        );
    }
    // The same kind of another group is another kind.
    let mut other = marked("Plan", "Released");
    let change = other.observed.changes.values_mut().next().expect("a change");
    "example.com/v1".clone_into(&mut change.spec.owner_ref.api_version);
    other.observed.leases.clear();
    assert_eq!(restored(&other), Vec::<String>::new());
}

/// Whoever has a namespace may write NodeChanges there.
#[test]
fn a_strangers_journal_of_an_unknown_kind_keeps_no_marks() {
    let mut cluster = marked("NodePool", "Released");
    cluster.observed.leases.clear();
    assert_eq!(restored(&cluster), Vec::<String>::new());
    let changes = std::mem::take(&mut cluster.observed.changes);
    let mut change = changes.into_values().next().expect("a change");
    "tenant".clone_into(&mut change.key.namespace);
    change.spec.owner_ref.namespace = Some("tenant".to_owned());
    cluster.observed.changes.insert(change.key.clone(), change);
    let found = restored(&cluster);
    assert!(found.iter().any(|one| one.contains("Unshield")), "{found:#?}");
}

#[test]
fn a_lease_alone_tells_that_the_kind_is_unknown() {
    let mut cluster = marked("NodePool", "Released");
    cluster.observed.changes.clear();
    assert_eq!(restored(&cluster), Vec::<String>::new());
    let said = left::orphans(&cluster.observed);
    assert!(
        said.iter().all(|one| one.said().0 == Reason::OwnerUnknown),
        "{said:#?}"
    );
    let lease = said.iter().find(|one| one.left.mark == left::LEASE_MARK);
    assert!(
        lease
            .expect("the lease")
            .said()
            .1
            .contains("an owner of kind NodePool")
    );
}

#[test]
fn what_is_left_of_an_unknown_kind_names_the_kind_and_who_ends_it() {
    let cluster = marked("NodePool", "Released");
    let found = left::orphans(&cluster.observed);
    let objects: Vec<&str> = found.iter().map(|one| one.left.object.as_str()).collect();
    assert_eq!(objects, ["Machine machines/m", "Node a", "Lease node-a"]);
    for one in &found {
        let (reason, words) = one.said();
        assert_eq!(reason, Reason::OwnerUnknown, "{words}");
        for wanted in [
            "held for NodePool numo/v2",
            "does not know kind NodePool",
            "a numo that knows NodePool does, or a person puts back by hand",
            "kubectl",
        ] {
            assert!(words.contains(wanted), "{wanted}: {words}");
        }
    }
    // `numo release` names the same in its table of what is left.
    let all = left::all(&cluster.observed);
    assert!(
        all.iter()
            .all(|one| one.message.contains("held for NodePool numo/v2")),
        "{all:#?}"
    );
}

#[test]
fn a_turn_of_an_unknown_kind_keeps_pools_paused_and_lets_other_marks_go() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         node b worker 4.17.0 turn
         change a Released owner:later",
    );
    cluster.observed.runs.clear();
    assert!(restored(&cluster).iter().any(|one| one.contains("Unshield")));
    let unpauses = |cluster: &Cluster| restored(cluster).iter().any(|one| one.contains("Unpause"));
    let mut known = cluster.clone();
    known.observed.changes.clear();
    assert!(unpauses(&known), "{:#?}", restored(&known));
    let change = cluster.observed.changes.values_mut().next().expect("a change");
    "NodePool".clone_into(&mut change.spec.owner_ref.kind);
    assert!(!unpauses(&cluster), "{:#?}", restored(&cluster));
    assert!(restored(&cluster).iter().any(|one| one.contains("Unshield")));
}

#[test]
fn an_owner_that_is_seen_is_known_whatever_a_journal_says_of_it() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         run finalizer {}
         change a Released",
    );
    let change = cluster.observed.changes.values_mut().next().expect("a change");
    "NodePool".clone_into(&mut change.spec.owner_ref.kind);
    assert_eq!(left::orphans(&cluster.observed), Vec::new());
    let left = left::all(&cluster.observed);
    assert!(
        left.iter().all(|one| !one.message.contains("NodePool")),
        "{left:#?}"
    );
}

#[test]
fn every_kind_is_known_by_the_journal_that_names_it() {
    for kind in OwnerKind::ALL {
        let owner = numo_api::OwnerRef {
            api_version: kind.api_version(),
            kind: kind.name().to_owned(),
            ..Default::default()
        };
        assert_eq!(OwnerKind::of(&owner), Some(kind));
        // A later version of its group is the same kind.
        let (group, _) = owner.api_version.split_once('/').expect("a group");
        let later = numo_api::OwnerRef {
            api_version: format!("{group}/v9"),
            ..owner.clone()
        };
        assert_eq!(OwnerKind::of(&later), Some(kind));
    }
}
