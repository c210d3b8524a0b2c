//! New nodes that had joined for a turn which ended before they got the place of the old one: the next turn of the old one takes them.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision},
};
use numo_api::{Pin, Reason, Step};
use numo_core::{action::Action, observed::Key};

/// An old node, and a new one that no mark names.
const TWO: &str = "node a worker v0\n node new worker v0
     version img2 finalizer
     host a img1\n host new img2
     group w image:img2\n groups w";

/// The cluster with one more journal: that of a node of the same name which was gone in its turn, and for which a new one had joined.
fn gone_before(text: &str, step: Step, reason: Reason) -> Cluster {
    let mut cluster = Cluster::parse(text);
    let mut change = cluster.observed.changes.values().next().expect("a turn").clone();
    change.key = Key::new(&change.key.namespace, "before");
    "change-before".clone_into(&mut change.uid);
    change.created = crate::cluster::at(-600);
    "uid-before".clone_into(&mut change.spec.node_uid);
    change.status.step = Some(step);
    change.status.reason = Some(reason.name().to_owned());
    change.status.pin = Some(Pin {
        heir: Some("new".to_owned()),
        ..Pin::default()
    });
    cluster.observed.changes.insert(change.key.clone(), change);
    cluster
}

fn pinned(text: &str) -> Option<String> {
    let actions = decision(&Cluster::parse(text)).actions.into_iter();
    let mut pins = actions.filter_map(|planned| match planned.action {
        Action::WriteJournal { status, .. } => status.pin,
        _ => None,
    });
    pins.next().and_then(|pin| pin.heir)
}

/// A person has deleted its Node, and its kubelet has made it anew.
#[test]
fn a_node_that_comes_again_gets_the_new_one_that_had_joined_for_it() {
    let text = format!("{TWO}\n replacing a Admitted");
    let pair = "> note new donor=a\n > note a heir=new";
    let intends = "> intend a machine of G-w";
    check_cluster(&gone_before(&text, Step::Failed, Reason::NodeGone), pair);
    // A crash between the two halves.
    let half = text.replace("host new img2", "host new img2 donor:a");
    check_cluster(
        &gone_before(&half, Step::Failed, Reason::NodeGone),
        "> note a heir=new",
    );
    // That turn was done: the new one has the place of the node that was there then.
    check_cluster(&gone_before(&text, Step::Done, Reason::Done), intends);
    // It is no new node any more, has the place of another one, or is of another group.
    for other in [
        text.replace("host new img2", "host new img1"),
        text.replace("host new img2", "host new img2 group:other"),
        format!("node b worker v0\n {text}\n host b img1 heir:new")
            .replace("host new img2", "host new img2 donor:b"),
    ] {
        let cluster = gone_before(&other, Step::Failed, Reason::NodeGone);
        let said = decision(&cluster).actions;
        let pairs = said.iter().any(|planned| match &planned.action {
            Action::PatchNode(patch) => patch.node == "a" && !patch.annotations.is_empty(),
            _ => false,
        });
        assert!(!pairs, "{said:#?}");
    }
    // It counts as a machine that is made: there is one too many already.
    let full = format!("{text}\n pending old leave node:old machine:m-old Terminating");
    check_cluster(
        &gone_before(&full, Step::Failed, Reason::NodeGone),
        "node a PreRules WaitingForTurn",
    );
}

/// A person has given the run up and taken it up again.
#[test]
fn a_turn_that_begins_again_takes_the_new_node_that_had_joined() {
    let text = format!("{TWO}\n replacing a Admitted ended:1 machine:m-a heir:new");
    check(&text, "> note new donor=a\n > note a heir=new");
    // Another turn has taken it since, and has let its own node go.
    let mut used = gone_before(&text, Step::Done, Reason::Done);
    let other = used
        .observed
        .changes
        .values_mut()
        .find(|one| one.key.name == "before");
    let other = other.expect("it was added");
    other.spec.node_name = "b".to_owned();
    let mut entry = other.status.entries[0].clone();
    entry.step = Step::Released;
    entry.attempt = other.status.attempt.max(1);
    other.status.entries.push(entry);
    check_cluster(&used, "> intend a machine of G-w");
}

/// The turn that ends writes down which one it was.
#[test]
fn a_turn_that_ends_before_its_release_names_the_new_node() {
    let gone =
        "node new worker v0\n version img2 finalizer\n host new img2 donor:a\n group w image:img2\n groups w
         replacing a PreRules";
    check(gone, "> journal a Failed NodeGone");
    assert_eq!(pinned(gone).as_deref(), Some("new"));
    // The mark goes once that is written down.
    check(
        &gone.replace(
            "replacing a PreRules",
            "replacing a Failed reason:NodeGone unleased",
        ),
        "> note new -donor",
    );
    let text =
        format!("{TWO}\n replacing a PreRules\n pending request for:a node:new machine:m-new Creating");
    let mut aborted = Cluster::parse(&text);
    let run = numo_core::owners::node_version::run_id(&aborted.observed.fleet.versions["nv"]);
    let view = aborted.observed.fleet.versions.get_mut("nv").expect("one");
    view.annotations.insert(numo_api::marks::ABORT.to_owned(), run);
    let said = decision(&aborted).actions;
    let heir = said.iter().find_map(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => status.pin.as_ref()?.heir.clone(),
        _ => None,
    });
    assert_eq!(heir.as_deref(), Some("new"), "{said:#?}");
}

/// The machine of node a was let go, and the provider refuses to delete it.
fn released(rest: &str) -> Cluster {
    let mut cluster = Cluster::parse(&format!(
        "node new worker v0\n node a worker v0
         version img2 components:c2 finalizer
         host new img2 donor:a components:c2\n group w image:img2\n groups w
         replacing a Released machine:m-a heir:new unleased
         pending a leave node:a machine:m-a Ready said:403
         told m-a problem:403
         {rest}"
    ));
    let again = cluster.observed.nodes.get_mut("a").expect("the node");
    "uid-again".clone_into(&mut again.uid);
    cluster
}

/// A person has deleted its Node, and its kubelet has made it anew: what the turn has written down of its machine stays, however often it is
/// looked at, and the new Node goes in a turn of its own.
#[test]
fn a_node_that_comes_again_after_its_release_leaves_the_pendingnode_of_its_machine_alone() {
    // It is outdated, its components are not known, or it is as it shall be.
    for host in ["img1 components:c2", "img2", "img2 components:c2"] {
        check_cluster(
            &released(&format!("host a {host}")),
            "node a Released ProviderUnavailable ~ 403
             > note a obsolete=true",
        );
    }
    // Once is enough, and of a Node whose machine nobody knows nothing is said.
    for host in ["img1 components:c2 obsolete", "img1 components:c2 nowhere"] {
        let cluster = released(&format!("host a {host}"));
        let written = decision(&cluster).actions;
        let mut written = written.iter().map(|planned| &planned.action);
        let is_of_machine = |action: &Action| matches!(action, Action::Fleet(_) | Action::PatchNode(_));
        assert!(!written.any(is_of_machine), "{host}");
    }
    // The members of etcd must agree first: that turn waits, and so does its PendingNode.
    let waits =
        released("host a img1 components:c2\n pending a leave node:a machine:m-a Ready said:403 late:9000");
    check_cluster(&waits, "> note a obsolete=true");
}
