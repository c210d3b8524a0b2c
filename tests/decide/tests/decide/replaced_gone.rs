//! NodeVersions of which something is gone in mid-roll: a node of the control plane with its machine, before it was let go, or a whole group.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{Pin, Reason, Step, conditions::Actor};
use numo_core::action::Action;

/// Three members of etcd are left; the fourth was on the node that is gone in its turn.
const GONE: &str = "node cp2 master v0\n node cp3 master v0\n node cp4 master v0
     version img2 finalizer
     host cp2 img2 group:cp ip:192.0.2.12
     host cp3 img2 group:cp ip:192.0.2.13
     host cp4 img2 group:cp ip:192.0.2.14
     group cp image:img2 role:ControlPlane
     groups cp
     replacing cp1 PreRules machine:m-cp1 member:192.0.2.11";

fn gone(rest: &str) -> String {
    format!("{GONE}\n {rest}")
}

/// The journals that a decision writes, as pin, step and reason.
fn journals(cluster: &Cluster) -> Vec<(Option<Pin>, Option<Step>, Option<String>)> {
    let actions = decision(cluster).actions.into_iter();
    let journals = actions.filter_map(|planned| match planned.action {
        Action::WriteJournal { status, .. } => Some((status.pin, status.step, status.reason)),
        _ => None,
    });
    journals.collect()
}

#[test]
fn what_a_node_of_the_control_plane_may_leave_behind_is_written_down_first() {
    let begins = "node cp1 master v0\n node a worker v0\n version img2 finalizer
         host cp1 img1 group:cp ip:192.0.2.11
         host a img2
         group cp image:img2 role:ControlPlane
         groups w,cp\n group w image:img2
         replacing cp1 new unleased";
    check(begins, "node cp1 Admitted Admitting\n > journal cp1");
    let pinned = |text: &str| journals(&Cluster::parse(text)).remove(0).0.expect("a pin");
    let pin = pinned(begins);
    assert_eq!(
        (
            pin.provider_id.as_deref(),
            pin.member.as_deref(),
            pin.heir.as_deref()
        ),
        (Some("m-cp1"), Some("192.0.2.11"), None)
    );
    // Once is enough, but for an address that has come or has changed since.
    let known = |pin: &str| begins.replace("new unleased", &format!("Admitted {pin}"));
    check(
        &known("machine:m-cp1 member:192.0.2.11"),
        "> intend a machine of G-cp",
    );
    for before in ["machine:m-cp1", "machine:m-cp1 member:192.0.2.99"] {
        check(&known(before), "> journal cp1");
        assert_eq!(pinned(&known(before)), pin);
    }
    // Workers leave nothing there.
    check(
        &begins
            .replace("cp1 new unleased", "a Admitted")
            .replace("host a img2", "host a img1")
            .replace("host cp1 img1", "host cp1 img2"),
        "> intend a machine of G-w",
    );
}

#[test]
fn the_member_of_a_node_that_is_gone_with_its_machine_before_its_release_is_taken_out() {
    check(
        &gone(""),
        "node cp1 Held MachineLeaving ~ member of etcd 192.0.2.11
         ? state m-cp1
         > journal cp1 PreRules NodeGone",
    );
    check(
        &gone("state m-cp1 Terminating").replace("member:192.0.2.11", "member:192.0.2.11 gone:-1"),
        "node cp1 Held MachineLeaving ~ it is being deleted
         > nothing",
    );
    check(
        &gone("state m-cp1 Terminated"),
        "node cp1 Held MachineLeaving ~ taken out first
         > remove member cp1 192.0.2.11",
    );
    // That was said of a machine that ran when the turn began.
    check(
        &gone("state m-cp1 Terminated at:-121"),
        "? state m-cp1\n > journal cp1 PreRules NodeGone",
    );
    check(
        &gone("state m-cp1 Terminated").replace("node cp2 master v0", "node cp2 master v0 NotReady"),
        "node cp1 Held EtcdQuorum ~ the member of Node cp1
         > nothing",
    );
    check(
        &gone("state m-cp1 Terminated\n told 192.0.2.11 again:10 problem:leader"),
        "node cp1 Held ProviderUnavailable ~ leader
         > nothing",
    );
    check(
        &gone("state m-cp1 Terminated\n did 192.0.2.11 at:-30"),
        "> journal cp1 Failed NodeGone",
    );
    // Another machine had the address before the turn began.
    check(
        &gone("state m-cp1 Terminated\n did 192.0.2.11 at:-121"),
        "> remove member cp1 192.0.2.11",
    );
}

/// Its member is its own: nothing is taken out where a machine may run.
#[test]
fn the_member_of_a_node_whose_machine_runs_stays() {
    let runs = gone("state m-cp1 Ready");
    check(
        &runs,
        "node cp1 Held QuorumUnknown ~ found Ready, wanted Terminated. Have its kubelet join again, or delete the machine
         ends cp1 ClusterAdmin
         > nothing",
    );
    check(
        &gone("state m-cp1 unknown:503"),
        "node cp1 Held ProviderUnavailable ~ its state is not known: 503
         > nothing",
    );
    // It has come again, or another machine has its address by now.
    let again = |host: &str| format!("node z master v0\n {runs}\n host z img1 group:cp {host}");
    for host in ["machine:m-cp1 ip:192.0.2.77", "ip:192.0.2.11"] {
        let found = decision(&Cluster::parse(&again(host)));
        let ended = found.actions.iter().any(|planned| match &planned.action {
            Action::WriteJournal { status, .. } => status.reason.as_deref() == Some(Reason::NodeGone.name()),
            _ => false,
        });
        assert!(ended, "{host}: {found:#?}");
    }
    // No other member goes meanwhile, and none is begun.
    let other = runs.replace("host cp2 img2", "host cp2 img1");
    check(
        &other,
        "node cp2 Selected EtcdQuorum ~ Node cp1 is gone in its turn
         > nothing",
    );
}

#[test]
fn which_member_of_etcd_a_person_must_remove_is_said() {
    let left = "remove the member if `etcdctl member list` has it";
    // Nobody goes on with the turn, or the address was never known.
    let skipped = gone("state m-cp1 Ready").replace("PreRules", "PreRules skip");
    let unknown = gone("state m-cp1 Terminated").replace(" member:192.0.2.11", "");
    for text in [&skipped, &unknown] {
        check(
            text,
            &format!("node cp1 Failed QuorumUnknown ~ {left}\n > journal cp1 Failed QuorumUnknown"),
        );
    }
    check(
        &skipped,
        "node cp1 Failed QuorumUnknown ~ member 192.0.2.11 of etcd",
    );
    // It stays said while the journal is there.
    let mut over = Cluster::parse(&gone("").replace("PreRules", "Failed unleased"));
    let change = over.observed.changes.values_mut().next().expect("one");
    change.status.reason = Some(Reason::QuorumUnknown.name().to_owned());
    change.status.message = Some("remove member 192.0.2.11".to_owned());
    check_cluster(&over, "problem QuorumUnknown: remove member 192.0.2.11");
    let said = decision(&over).report.problems;
    assert_eq!(said[0].who(), Actor::ClusterAdmin);
    let host = over.observed.fleet.hosts.get_mut("cp2").expect("a host");
    host.address = "192.0.2.11".to_owned();
    assert!(decision(&over).report.problems.is_empty());
}

/// A machine that was asked for in a group that is there no more.
const GROUPLESS: &str = "node a worker v0\n node b worker v0
     version img2 finalizer
     host a img1\n host b img2 group:other
     group w image:img2\n group other image:img2
     replacing a PreRules
     pending request for:a";

/// The provider makes no machine: it may have lost the group, and is asked at once, and once.
#[test]
fn groups_are_listed_again_when_no_machine_can_be_made() {
    let with = |told: &str, at: i64| {
        let text = format!("{GROUPLESS}\n groups w,other at:{at}\n image w img2 at:{at}");
        let name = decisions_request(&text);
        format!("{text}\n told {name} again:10 {told}")
    };
    let refused = "problem:404";
    check(&with(refused, -301), "? groups\n ? image G-w");
    check(&with(refused, -299), "not ? groups\n not ? image");
    check(&with("", -301), "not ? groups\n not ? image");
}

fn decisions_request(text: &str) -> String {
    let cluster = Cluster::parse(text);
    cluster.observed.fleet.pending.keys().next().expect("one").clone()
}

#[test]
fn a_pendingnode_of_a_group_that_is_gone_is_given_up_at_once() {
    let gone = format!("{GROUPLESS}\n groups other\n image w - unknown:404");
    check(
        &gone,
        "problem ScalingGroupNotFound ~ the provider has no group G-w any more
         problem ProviderContradicts ~ no group G-w
         > rewrite it Leave -",
    );
    // Not on one word of the provider's, and not on a list that is older than what was asked for.
    for unsure in [
        gone.replace("image w - unknown:404", "image w img2"),
        gone.replace("groups other", "groups w,other"),
        gone.replace("groups other", "groups other at:-301"),
        gone.replace("groups other", "groups -"),
    ] {
        check(&unsure, "not > rewrite it Leave");
    }
    // A machine that is there is asked for its state.
    check(
        &gone.replace("for:a", "for:a node:new machine:m-new Creating"),
        "not > rewrite it Leave",
    );
    // No other one is asked for, and it is said for how long.
    let without = gone.replace("pending request for:a", "");
    check(
        &without,
        "node a PreRules ScalingGroupNotFound ~ `numo skip a` leaves the node out
         ends a ClusterAdmin
         > nothing",
    );
}

#[test]
fn the_pendingnode_of_a_group_that_is_gone_goes_once_that_is_certain() {
    let text = format!("{GROUPLESS} leave\n groups other\n image w - unknown:404");
    let name = decisions_request(&text);
    check(
        &format!("{text}\n found {name} -"),
        "> forget it
         > journal a PreRules JoinFailed",
    );
    check(
        &format!("{text}\n found {name} - unknown:404"),
        "problem ScalingGroupNotFound ~ delete it once you have seen that no machine of request
         > journal a PreRules JoinFailed",
    );
}

/// A provider that does not know a machine is asked more and more seldom, and it is said how soon.
#[test]
fn a_machine_that_the_provider_does_not_know_is_asked_for_less_and_less() {
    let text = |since: i64, heard: i64| {
        format!(
            "node a worker v0\n node b worker v0\n version img2 finalizer\n host b img2\n groups w\n group w image:img2
             host a - bare\n facts m-a unknown:404 at:{heard} since:{since}"
        )
    };
    for (lasted, pause, words) in [
        (0, 30, "after 30 s"),
        (29, 30, "after 30 s"),
        (30, 60, "after 1 min"),
        (90, 120, "after 2 min"),
        (470, 480, "after 8 min"),
        (480, 900, "after 15 min"),
        (1_000_000, 900, "after 15 min"),
    ] {
        let (early, due) = (1 - pause, -pause);
        check(
            &text(early - lasted, early),
            &format!("problem MachineUnknown ~ asked for it again {words}\n not ? facts\n wake 1"),
        );
        check(&text(due - lasted, due), "? facts m-a");
    }
    check(
        &text(-1_000, -1),
        "node a Skipped MachineUnknown ~ the provider is asked for it again after 15 min",
    );
    assert_eq!(
        decision(&Cluster::parse(&text(-1_000, -1))).wake_at,
        Some(at(899))
    );
}

/// Providers tell groups apart by capitals, folders or resource groups; names of objects have none of these.
#[test]
fn groups_that_share_a_name_get_objects_of_their_own() {
    let text = format!("{GROUPLESS}\n groups one=pool,two=Pool,three");
    check(
        &text,
        "> create group group-pool-57f574
         > create group group-pool-b622bb
         > create group group-three
         > make a machine of G-w",
    );
    // One that was found alone keeps its object. Before, the other group was taken for it, and asked for again and again.
    let text = format!("{GROUPLESS}\n group group-pool image:img2\n groups two=Pool,group-pool=pool");
    check(
        &text,
        "> create group group-pool-b622bb\n > make a machine of G-w",
    );
}

/// Such as a MachinePool of Cluster API: the provider refuses to set the image, and lists the group or does not.
#[test]
fn a_node_of_a_group_that_gets_no_image_says_so_and_is_for_a_person() {
    let refused =
        "infrastructureRef.name: found a reference to DockerMachinePool pool, wanted one to a template";
    let text = |other: &str, rest: &str| {
        format!(
            "node a worker v0\n node b worker v0\n version img2 finalizer\n host a img1 group:pool\n host b {other}
             group w image:img2\n {rest}"
        )
    };
    let told =
        "groups w,pool\n group pool image:img1\n told G-pool again:10 problem:refused\n replacing a Admitted";
    let mut listed = Cluster::parse(&text("img2", told));
    for told in listed.observed.fleet.provider.told.values_mut() {
        told.problem = Some(refused.to_owned());
    }
    check_cluster(
        &listed,
        &format!(
            "node a PreRules ProviderUnavailable ~ {refused}
             stalled a ProviderUnavailable
             problem ProviderUnavailable ~ {refused}
             not > set image"
        ),
    );
    check(
        &text("img2", "groups w"),
        "node a Selected ScalingGroupNotFound ~ `numo skip a` leaves the node out
         ends a ClusterAdmin
         stalled a ScalingGroupNotFound",
    );
    // Others go on.
    check(&text("img1", "groups w"), "> admit b");
}
