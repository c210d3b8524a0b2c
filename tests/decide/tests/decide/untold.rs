//! A NodeChange of a later numo after a restart: nothing was seen of it before. As much of it as can be read keeps its node's turn; where nobody
//! can tell whose turn it is, nothing is restored that may be of it.

use crate::{
    cluster::Cluster,
    contradiction::OWNERS,
    words::{check_cluster, decision},
};
use numo_api::{Reason, Step};
use numo_core::{
    Decision,
    action::{Action, NodePurpose},
    observed::{Key, Unread},
};

/// What gives a node, or the owner, up.
fn gives_up(found: &Decision) -> Vec<&Action> {
    let actions = found.actions.iter().map(|planned| &planned.action);
    actions
        .filter(|action| match action {
            Action::PatchNode(patch) => {
                matches!(patch.purpose, NodePurpose::Unshield | NodePurpose::Uncordon)
            }
            Action::PatchMachine(patch) => patch.purpose.restores(),
            Action::ReleaseLease { .. } | Action::RemoveFinalizer { .. } => true,
            _ => false,
        })
        .collect()
}

/// Somebody deletes all owners.
fn delete_owners(cluster: &mut Cluster) {
    let observed = &mut cluster.observed;
    observed.runs.values_mut().for_each(|one| one.deleting = true);
    observed.plans.values_mut().for_each(|one| one.deleting = true);
    observed
        .maintenances
        .values_mut()
        .for_each(|one| one.deleting = true);
    observed
        .fleet
        .versions
        .values_mut()
        .for_each(|one| one.deleting = true);
}

/// The journal of the node is there, and not even its owner can be read.
fn hide(cluster: &mut Cluster) {
    let observed = &mut cluster.observed;
    let (key, change) = observed.changes.pop_first().expect("a journal");
    let unread = Unread {
        uid: change.uid,
        words: "spec.ownerRef: invalid type".to_owned(),
    };
    observed.unread.insert(("nodechanges", key), unread);
}

#[test]
fn nothing_is_restored_while_nobody_can_tell_whose_turn_a_journal_tells_of() {
    for (text, _) in OWNERS {
        for deleted in [false, true] {
            let mut cluster = Cluster::parse(text);
            if deleted {
                delete_owners(&mut cluster);
            }
            let mut gone = cluster.clone();
            gone.observed.changes.clear();
            // A NodeMaintenance would have its turn again.
            if deleted || cluster.observed.maintenances.is_empty() {
                let restored = decision(&gone);
                assert!(!gives_up(&restored).is_empty(), "without a journal: {text}");
            }
            hide(&mut cluster);
            let found = decision(&cluster);
            assert_eq!(
                gives_up(&found),
                Vec::<&Action>::new(),
                "deleted {deleted}: {text}"
            );
            let hold = found.report.hold.as_ref();
            let hold = hold.or_else(|| Some(&found.report.nodes.get("a")?.why));
            assert_eq!(
                hold.map(|why| why.reason),
                Some(Reason::ListFailed),
                "deleted {deleted}: {text}"
            );
        }
    }
}

/// No stranger keeps a node closed by a NodeChange where nobody goes by one.
#[test]
fn a_journal_that_nobody_heeds_keeps_nothing() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        hide(&mut cluster);
        let (_, unread) = cluster.observed.unread.pop_first().expect("a journal");
        delete_owners(&mut cluster);
        let elsewhere = ("nodechanges", Key::new("elsewhere", "a"));
        cluster.observed.unread.insert(elsewhere, unread);
        assert!(!gives_up(&decision(&cluster)).is_empty(), "{text}");
    }
}

/// Its step is one that only a later numo has.
#[test]
fn a_node_whose_journal_can_be_read_in_part_keeps_its_turn() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = cluster.observed.changes.values_mut().next().expect("a journal");
        change.misread = Some("status.step: unknown variant `Levitated`".to_owned());
        change.status.step = Some(Step::Held);
        let words = "status.step: unknown variant `Levitated`; wanted what this numo knows";
        check_cluster(
            &cluster,
            &format!("node a Held JournalContradicts ~ {words}\n > nothing"),
        );
        delete_owners(&mut cluster);
        assert_eq!(gives_up(&decision(&cluster)), Vec::<&Action>::new(), "{text}");
    }
}

#[test]
fn the_journal_of_a_later_numo_is_not_written_to_where_its_node_is_gone() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = cluster.observed.changes.values_mut().next().expect("a journal");
        change.status.journal_version = 2;
        cluster.observed.nodes.remove("a");
        let writes =
            |action: &Action| matches!(action, Action::WriteJournal { .. } | Action::DeleteChange { .. });
        let found = decision(&cluster);
        let written = found.actions.iter().find(|planned| writes(&planned.action));
        assert_eq!(written, None, "{text}");
        let change = cluster.observed.changes.values_mut().next().expect("a journal");
        change.status.journal_version = 1;
        let written = decision(&cluster).actions;
        assert!(written.iter().any(|planned| writes(&planned.action)), "{text}");
    }
}
