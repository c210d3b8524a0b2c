//! NodeVersions that have lost what they went by: journals that somebody has deleted, a new node of the control plane, a Node that comes again
//! after it was let go.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision},
};
use numo_api::{
    Pin, Reason,
    conditions::{Actor, Condition, types},
    machines::NodeVersionStatus,
};
use numo_core::{
    Owner, OwnerKind,
    action::{Action, FleetAction},
    observed::Key,
    ownerless,
};

/// A node whose machine is to be deleted, without the journal of its turn.
fn without_journal(rest: &str) -> Cluster {
    let mut cluster = Cluster::parse(&format!(
        "node a worker v0\n node b worker v0
         group w image:img2\n groups w
         version img2 finalizer {rest}"
    ));
    cluster.observed.changes.clear();
    cluster
}

const LET_GO: &str = "host a img1 heir:b\n host b img2 donor:a
     replacing a Released cordoned machine:m-a heir:b";

/// Whether the decision opens the node.
fn opens(cluster: &Cluster) -> bool {
    let actions = decision(cluster).actions;
    let opens =
        |action: &Action| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(false));
    actions.iter().any(|planned| opens(&planned.action))
}

/// No pod is to begin on a machine that is being deleted.
#[test]
fn a_node_whose_machine_goes_stays_closed_without_its_journal() {
    let pending = |version: &str, rest: &str| {
        without_journal(&format!(
            "{version}\n {LET_GO}\n pending a node:a machine:m-a leave for:a {rest}"
        ))
    };
    for version in ["", "deleting"] {
        for rest in ["Ready", "Terminating", "Terminated", "Terminating late:9000"] {
            assert!(!opens(&pending(version, rest)), "{version} {rest}");
        }
        // It is not known to go, and is given back.
        assert!(
            opens(&without_journal(&format!("{version}\n {LET_GO}"))),
            "{version}"
        );
    }
    // Nothing is deleted that no journal says.
    for rest in ["Ready", "Terminating", "Terminated"] {
        let actions = decision(&pending("", rest)).actions;
        let deletes = |action: &Action| {
            matches!(
                action,
                Action::Fleet(FleetAction::DeleteMachine { .. } | FleetAction::DeleteNode { .. })
            )
        };
        assert!(!actions.iter().any(|planned| deletes(&planned.action)), "{rest}");
    }
}

#[test]
fn a_machine_that_goes_under_a_node_without_a_turn_is_named() {
    let late = |late: i64| {
        let text =
            format!("deleting\n {LET_GO}\n pending a node:a machine:m-a leave for:a Terminated late:{late}");
        let report = decision(&without_journal(&text)).report;
        let mut problems = report.problems.into_iter();
        let said = problems
            .find(|why| why.reason == Reason::MachineLeaving)
            .expect("it is said");
        assert!(
            said.message.contains("machine m-a") && said.message.contains("delete the Node"),
            "{said:?}"
        );
        said.who()
    };
    assert_eq!((late(0), late(1801)), (Actor::ClusterItself, Actor::ClusterAdmin));
}

#[test]
fn journals_are_unowned_once_no_owner_of_their_uid_is_seen() {
    let mut cluster = Cluster::parse(&format!(
        "node a worker v0\n node b worker v0\n version img2\n {LET_GO}"
    ));
    let unowned = |cluster: &Cluster| {
        let found = ownerless::unowned(&cluster.observed);
        found
            .into_keys()
            .map(|(owner, uid)| (owner, uid.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(unowned(&cluster), Vec::new());
    let view = cluster.observed.fleet.versions.remove("nv").expect("one");
    let gone = (
        Owner {
            kind: OwnerKind::NodeVersion,
            key: Key::new("", "nv"),
        },
        view.uid.clone(),
    );
    assert_eq!(unowned(&cluster), std::slice::from_ref(&gone));
    // One of its name is another one.
    let mut other = view;
    other.uid = "uid-other".to_owned();
    cluster.observed.fleet.versions.insert("nv".to_owned(), other);
    assert_eq!(unowned(&cluster), [gone]);
    // Of a kind that a later numo knows nobody can say that.
    let change = cluster.observed.changes.values_mut().next().expect("one");
    change.spec.owner_ref.kind = "Tomorrow".to_owned();
    assert_eq!(unowned(&cluster), Vec::new());
}

/// The machine of node a was let go; a person has deleted its Node, and its kubelet has made it anew.
fn again(spec: &str, rest: &str) -> Cluster {
    let mut cluster = Cluster::parse(&format!(
        "node new worker v0\n node a worker v0\n node z worker v0
         version img2 finalizer {spec}
         host new img2 donor:a\n host a img1 obsolete\n host z img1\n group w image:img2\n groups w
         replacing a Released machine:m-a heir:new unleased
         pending a leave node:a machine:m-a Ready
         {rest}"
    ));
    let again = cluster.observed.nodes.get_mut("a").expect("the node");
    "uid-again".clone_into(&mut again.uid);
    cluster
}

const ONE: &str = r#" spec {"mutex":{"maxUnavailable":1}}"#;

/// Its turn would wait for the one that waits for its machine, for ever.
#[test]
fn a_node_that_comes_again_after_its_release_has_the_place_of_its_turn() {
    let begun = |cluster: &Cluster| {
        let actions = decision(cluster).actions.into_iter();
        let begun = actions.filter_map(|planned| match planned.action {
            Action::CreateChange { spec, .. } => Some(spec.node_name),
            _ => None,
        });
        begun.collect::<Vec<_>>()
    };
    for spec in ["", ONE] {
        assert_eq!(begun(&again(spec, "")), ["a"], "{spec}");
    }
    // Others wait as before.
    let mut others = again(ONE, "");
    others.observed.nodes.remove("a");
    others.observed.fleet.hosts.remove("a");
    assert_eq!(begun(&others), Vec::<String>::new());
}

#[test]
fn a_turn_whose_node_has_come_again_says_what_it_waits_for() {
    check_cluster(
        &again(ONE, ""),
        "node a Released MachineLeaving ~ Node a has come again by machine m-a, which was released",
    );
    // What keeps the Node from its own turn keeps this one, too.
    let stopped = again(ONE, "budget stop paused {}");
    check_cluster(
        &stopped,
        "node a Released Stopped ~ has come again by machine m-a, which was released: the machine is deleted once",
    );
    let mut deleted = again("", "");
    deleted
        .observed
        .fleet
        .versions
        .get_mut("nv")
        .expect("one")
        .deleting = true;
    check_cluster(
        &deleted,
        "node a Released MachineLeaving ~ drain it, stop its kubelet, delete the Node
         ends a ClusterAdmin",
    );
}

/// The old one, three others, and a new one that is gone; it had joined etcd.
const HEIR: &str = "node cp1 master v0\n node cp2 master v0\n node cp3 master v0
     version img2 finalizer
     host cp1 img1 group:cp ip:192.0.2.11
     host cp2 img2 group:cp ip:192.0.2.12
     host cp3 img2 group:cp ip:192.0.2.13
     group cp image:img2 role:ControlPlane
     groups cp";

fn lost(rest: &str) -> String {
    format!(
        "{HEIR}\n replacing cp1 PreRules machine:m-cp1 member:192.0.2.11 heir:cp4 heirmachine:m-cp4 heirmember:192.0.2.14 {rest}"
    )
}

fn pins(text: &str) -> Vec<Pin> {
    let actions = decision(&Cluster::parse(text)).actions.into_iter();
    let pins = actions.filter_map(|planned| match planned.action {
        Action::WriteJournal { status, .. } => status.pin,
        _ => None,
    });
    pins.collect()
}

#[test]
fn the_new_node_of_a_control_plane_is_written_down_with_its_member() {
    let text = format!(
        "node cp4 master v0\n {}
         host cp4 img2 group:cp donor:cp1 ip:192.0.2.14
         replacing cp1 PreRules machine:m-cp1 member:192.0.2.11",
        HEIR.replace("host cp1 img1", "host cp1 img1 heir:cp4")
    );
    check(&text, "> journal cp1");
    let pin = pins(&text).remove(0);
    let found = (
        pin.heir.as_deref(),
        pin.heir_provider_id.as_deref(),
        pin.heir_member.as_deref(),
    );
    assert_eq!(found, (Some("cp4"), Some("m-cp4"), Some("192.0.2.14")));
    // Once is enough.
    let known = text.replace(
        "member:192.0.2.11",
        "member:192.0.2.11 heir:cp4 heirmachine:m-cp4 heirmember:192.0.2.14",
    );
    assert_eq!(pins(&known), Vec::new());
}

#[test]
fn the_member_of_a_new_node_that_is_gone_with_its_machine_is_taken_out() {
    check(
        &lost(""),
        "node cp1 PreRules MachineLeaving ~ Node cp4 is gone, and its member of etcd 192.0.2.14
         ? state m-cp4",
    );
    check(
        &lost("\n state m-cp4 Ready"),
        "node cp1 PreRules QuorumUnknown ~ found Ready, wanted Terminated
         ends cp1 ClusterAdmin
         > nothing",
    );
    check(
        &lost("\n state m-cp4 Terminated"),
        "> remove member cp4 192.0.2.14",
    );
    // The old one is cordoned by now, and its member runs.
    check(
        &lost("\n state m-cp4 Terminated").replace("cp1 PreRules", "cp1 Drained cordoned"),
        "> remove member cp4 192.0.2.14",
    );
    check(
        &lost("\n state m-cp4 Terminated").replace("node cp2 master v0", "node cp2 master v0 NotReady"),
        "node cp1 PreRules EtcdQuorum ~ the member of Node cp4
         > nothing",
    );
    let done = lost("\n state m-cp4 Terminated\n did 192.0.2.14 at:-30");
    check(&done, "> journal cp1 PreRules JoinFailed");
    let pin = pins(&done).remove(0);
    assert_eq!(
        (pin.heir, pin.heir_member, pin.member.as_deref()),
        (None, None, Some("192.0.2.11"))
    );
    // It has come again, or another machine has its address by now.
    for host in ["machine:m-cp4 ip:192.0.2.77", "ip:192.0.2.14"] {
        let text = format!("node z master v0\n {}\n host z img2 group:cp {host}", lost(""));
        check(&text, "not node cp1 PreRules MachineLeaving");
    }
}

/// The old one was let go, its member of etcd is there, and the new one is gone.
fn lost_after_release(rest: &str) -> String {
    lost("").replace(" PreRules ", " Released cordoned ") + "\n" + rest
}

/// Etcd would be left with a member less, and refuses that: nothing would ever end the turn.
#[test]
fn a_turn_whose_new_node_is_gone_before_the_member_of_the_old_one_is_out_begins_anew() {
    let goes = "pending cp1 leave node:cp1 machine:m-cp1";
    for pending in ["", goes] {
        check(
            &lost_after_release(pending),
            "node cp1 Released MachineLeaving ~ Node cp4, which was to take its place, is gone, and its own member of etcd stays
             ? state m-cp1
             > nothing",
        );
    }
    check(
        &lost_after_release("state m-cp1 unknown:503"),
        "node cp1 Released ProviderUnavailable ~ 503\n > nothing",
    );
    // What was said before the release says nothing of what was done since.
    check(
        &lost_after_release("state m-cp1 Ready at:-61"),
        "? state m-cp1\n > nothing",
    );
    // It may be out at any moment.
    check(
        &lost_after_release("state m-cp1 Ready\n told 192.0.2.11 again:10"),
        "node cp1 Released MachineLeaving ~ being asked\n wake 10\n > nothing",
    );
    // First nobody says any more that the machine goes.
    let runs = "state m-cp1 Ready";
    check(
        &lost_after_release(&format!("{goes}\n {runs}")),
        "node cp1 Released MachineLeaving ~ its turn starts over\n > forget cp1",
    );
    let again = lost_after_release(runs);
    check(&again, "> journal cp1 Admitted JoinFailed attempt 2");
    let pin = pins(&again).remove(0);
    assert_eq!(
        pin.heir_member.as_deref(),
        Some("192.0.2.14"),
        "it is taken out next"
    );
    // Whoever leaves ends the turn then.
    check(
        &again.replace("version img2", "version img2 deleting"),
        "> journal cp1 Admitted JoinFailed attempt 2",
    );
}

/// The heirs that must vote before the members that a decision takes out go.
fn heirs_of_members(text: &str) -> Vec<Option<String>> {
    let actions = decision(&Cluster::parse(text)).actions.into_iter();
    let heirs = actions.filter_map(|planned| match planned.action {
        Action::Fleet(FleetAction::RemoveEtcdMember { heir, .. }) => Some(heir),
        _ => None,
    });
    heirs.collect()
}

#[test]
fn a_turn_that_has_no_way_back_goes_on_without_its_new_node() {
    // The machine goes already, or is gone.
    for state in ["Terminating", "Terminated"] {
        let text = lost_after_release(&format!("pending cp1 leave node:cp1 machine:m-cp1 {state}"));
        assert_eq!(heirs_of_members(&text), [None], "{state}");
    }
    // Its member is out.
    check(
        &lost_after_release("pending cp1 leave node:cp1 machine:m-cp1\n did 192.0.2.11 at:-30"),
        "> delete machine m-cp1",
    );
    // Its Node is gone.
    let gone = lost_after_release("pending cp1 leave node:cp1 machine:m-cp1")
        .replace("node cp1 master v0\n", "")
        .replace("host cp1 img1 group:cp ip:192.0.2.11\n", "");
    assert_eq!(heirs_of_members(&gone), [None]);
    // One that is there votes first.
    let there = lost_after_release(
        "pending cp1 leave node:cp1 machine:m-cp1\n host cp4 img2 group:cp donor:cp1 ip:192.0.2.14",
    );
    let there = format!(
        "node cp4 master v0\n {}",
        there.replace("host cp1 img1", "host cp1 img1 heir:cp4")
    );
    assert_eq!(heirs_of_members(&there), [Some("cp4".to_owned())]);
}

#[test]
fn a_turn_that_has_lost_its_new_node_after_the_release_says_that_a_node_is_missing() {
    check(
        "node z worker v0\n version img2 finalizer\n host z img2\n group w image:img2\n groups w
         replacing a Changed machine:m-a heir:new",
        "node a Done Done ~ Node new, which had its place, is gone, too
         > journal a Done Done",
    );
}

#[test]
fn another_node_of_the_control_plane_waits_for_the_member_of_a_new_one_that_is_gone() {
    let text = lost("").replace("host cp2 img2", "host cp2 img1");
    check(&text, "node cp2 Selected EtcdQuorum");
}

/// The next turn would know nothing of it, and etcd would be left with a member that is dead.
#[test]
fn the_member_of_a_new_node_that_is_gone_goes_though_another_image_is_asked_for() {
    let edited = lost("image:img0\n state m-cp4 Terminated");
    check(&edited, "> remove member cp4 192.0.2.14");
    check(
        &format!("{edited}\n did 192.0.2.14 at:-30"),
        "> journal cp1 PreRules JoinFailed",
    );
    check(
        &edited.replace("version img2", "version img2 deleting"),
        "node cp1 Failed RunGivenUp ~ remove it if `etcdctl member list` has it",
    );
}

#[test]
fn which_member_of_a_new_node_a_person_must_remove_is_said() {
    check(
        &lost("skip"),
        "node cp1 Skipped SkippedByPerson ~ remove it if `etcdctl member list` has it, once machine m-cp4 is gone",
    );
}

/// A machine that is deleted for ever is for a person.
#[test]
fn a_machine_of_a_node_that_is_gone_has_as_long_to_go_as_one_to_join() {
    let gone = |gone: &str| {
        format!(
            "{}\n replacing cp1 PreRules machine:m-cp1 member:192.0.2.11 {gone}\n state m-cp1 Terminating",
            HEIR.replace("node cp1 master v0", "node cp4 master v0").replace(
                "host cp1 img1 group:cp ip:192.0.2.11",
                "host cp4 img2 group:cp ip:192.0.2.14"
            )
        )
    };
    check(
        &gone(""),
        "node cp1 Held MachineLeaving ~ it is being deleted
         ends cp1 ClusterItself
         > journal cp1 PreRules NodeGone",
    );
    check(&gone("gone:-1799"), "ends cp1 ClusterItself\n > nothing");
    check(
        &gone("gone:-1800"),
        "node cp1 Held MachineLeaving ~ see at the provider what keeps the machine, or delete it there; `numo skip cp1` ends the turn
         ends cp1 ClusterAdmin
         > nothing",
    );
    // Whoever gives up waits no longer than that.
    check(&gone("gone:-1799 skip"), "> nothing");
    check(&gone("gone:-1800 skip"), "> journal cp1 Failed QuorumUnknown");
}

/// `numo explain` asks no provider: it goes by what the operator has said of itself.
#[test]
fn who_only_looks_reads_that_an_image_is_set_and_never_shown() {
    let looks = |said: &str| {
        let mut cluster = Cluster::parse(
            "node a worker v0\n version img2 finalizer\n host a img1\n group w image:img1 unasked\n groups w\n replacing a Admitted",
        );
        cluster.observed.settings.only_looks = true;
        let view = cluster.observed.fleet.versions.get_mut("nv").expect("one");
        view.status = NodeVersionStatus {
            conditions: vec![Condition {
                type_: types::STALLED.to_owned(),
                status: "True".to_owned(),
                message: Some(format!(
                    "Node a: ScalingGroup w: the provider said at 1 that new machines get image {said:?}, and it shows \"img1\""
                )),
                ..Condition::default()
            }],
            ..NodeVersionStatus::default()
        };
        let report = decision(&cluster).report;
        let why = report.nodes["a"].why.clone();
        assert_eq!(why.reason, Reason::GroupImageOutdated);
        why.who().is_person()
    };
    assert!(looks("img2"));
    assert!(!looks("img1"));
}

/// Two NodeVersions would set its image in turns, and each time the provider may make something new for it.
#[test]
fn a_group_of_two_scalinggroups_gets_its_image_by_one_of_them() {
    let of = |name: &str| {
        let text = "node a worker v0\n version img2 name:a\n version img3 name:b\n host a img1\n groups w
             group w image:img1 of:b\n group x image:img1 of:a";
        let mut cluster = Cluster::parse(
            &text
                .replace(&format!("name:{name}"), "name:nv")
                .replace(&format!("of:{name}"), "of:nv"),
        );
        let twice = cluster.observed.fleet.groups.get_mut("x").expect("one");
        twice.spec.group_id = Some("g-W".to_owned());
        cluster
    };
    check_cluster(&of("b"), "> set image G-w img3\n > finalizer on");
    check_cluster(
        &of("a"),
        "problem InvalidField: ScalingGroup x spec.groupId: found g-W, which ScalingGroup w has, too
         not > set image",
    );
}

/// What the provider said before the clock was put back would else count until it is that time again.
#[test]
fn a_clock_that_is_put_back_silences_nobody() {
    let text = |at: i64| {
        format!(
            "node a worker v0\n version img2 finalizer\n host a img1\n group w image:img1 unasked\n groups w at:{at}\n image w img1 at:{at}
             did G-w at:{at}"
        )
    };
    check(&text(-1), "not ? groups\n not ? image G-w\n > admit a");
    check(
        &text(3600),
        "? groups\n ? image G-w\n > set image G-w img2\n > admit a",
    );
}

/// Another machine has the name of its PendingNode: nothing goes on before a person has looked at that.
#[test]
fn a_turn_whose_pendingnode_is_of_another_machine_is_for_a_person() {
    let text =
        "node new worker v0\n version img2 finalizer\n host new img2 donor:a\n group w image:img2\n groups w
         replacing a Released machine:m-a heir:new\n pending a leave node:a machine:m-other";
    check(
        text,
        "node a Released ProviderContradicts ~ PendingNode a has machine m-other
         ends a ClusterAdmin
         stalled a ProviderContradicts",
    );
}
