//! NodeVersions whose provider says nothing, or refuses, for long: whoever waits for it is told so, and a person is asked for.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{Reason, conditions::Actor};
use numo_core::observed::Leaving;

/// An outdated worker with its turn, and its group.
const ONE: &str = "node a worker v0
     version img2 finalizer
     host a img1
     group w image:img2
     groups w";

/// A new node that has the place of an old one, whose machine is to go.
const GONE: &str = "node new worker v0
     version img2 finalizer
     host new img2 donor:a
     group w image:img2
     groups w
     replacing a Released machine:m-a heir:new";

/// Whether a person is named as the one who ends the wait.
#[track_caller]
fn is_for_a_person(text: &str) {
    let report = decision(&Cluster::parse(text)).report;
    let (name, node) = report.wedged().expect("nothing goes on");
    assert_eq!((name, node.why.who()), ("a", Actor::ClusterAdmin), "{report:#?}");
}

#[test]
fn a_group_whose_image_the_provider_does_not_say_or_set_is_no_matter_of_moments() {
    let text = format!("{ONE}\n replacing a Admitted").replace("group w image:img2", "group w image:img1");
    check(&text, "node a PreRules GroupImageOutdated");
    for silence in ["image w unknown:503", "told G-w again:10 problem:503"] {
        let text = format!("{text}\n {silence}");
        check(
            &text,
            "node a PreRules ProviderUnavailable ~ ScalingGroup w get the image is not known: 503",
        );
        is_for_a_person(&text);
    }
}

#[test]
fn a_machine_of_which_nothing_is_heard_when_it_should_be_gone_is_named() {
    let text =
        |late: i64, rest: &str| format!("{GONE}\n pending a leave node:a machine:m-a late:{late}\n {rest}");
    let silent = "did m-a at:-1\n state m-a unknown:503";
    check(&text(-30, silent), "node a Released MachineLeaving");
    check(
        &text(1, "did m-a at:-1\n state m-a Terminating"),
        "node a Released MachineLeaving",
    );
    check(
        &text(1, silent),
        "node a Released ProviderUnavailable ~ the state of machine m-a is not known: 503",
    );
    is_for_a_person(&text(1, silent));
}

/// The new node is outdated by now, and nothing is made for it before the turn that it was made for is over: a person ends that one.
#[test]
fn a_new_node_that_is_outdated_by_now_waits_for_whoever_ends_the_turn_that_it_was_made_for() {
    let gone = GONE.replace("version img2", "version img3");
    let silent = "did m-a at:-1\n state m-a unknown:503";
    let text = format!("{gone}\n pending a leave node:a machine:m-a late:1\n {silent}");
    check(
        &text,
        "node new Selected NothingTakesItsPlace ~ made for the place of Node a
         ends new OtherNode",
    );
    is_for_a_person(&text);
}

/// It did not join, and as long as it may be there no other is made.
#[test]
fn who_waits_until_a_machine_is_gone_is_told_what_the_provider_has_against_it() {
    let left = "pending old leave node:old machine:m-old late:1";
    for silence in [
        "state m-old unknown:503",
        "state m-old Ready\n told m-old again:10 problem:503",
    ] {
        let flying = format!("{ONE}\n replacing a Admitted\n {left}\n {silence}");
        check(&flying, "node a PreRules ProviderUnavailable ~ m-old");
        is_for_a_person(&flying);
        let waiting = format!("{ONE}\n {left}\n {silence}");
        check(&waiting, "node a Selected ProviderUnavailable ~ m-old");
        is_for_a_person(&waiting);
    }
    let goes = format!("{ONE}\n {left}\n state m-old Terminating");
    check(&goes, "node a Selected WaitingForTurn");
    let unseen = format!("{ONE}\n replacing a Admitted\n pending old leave late:1\n found old - unknown:503");
    check(&unseen, "node a PreRules ProviderUnavailable ~ PendingNode old");
}

/// A cloud that throttles says when it wants to be asked again: sooner or later than numo would ask by itself.
#[test]
fn who_was_not_answered_asks_again_when_the_provider_has_said() {
    let text =
        |rest: &str| format!("{GONE}\n pending a leave node:a machine:m-a late:-30\n did m-a at:-1\n {rest}");
    check(&text("state m-a unknown:429 at:-10"), "not ? state");
    check(&text("state m-a unknown:429 at:-31"), "? state m-a");
    check(&text("state m-a unknown:429 at:-31 wait:20"), "not ? state");
    check(&text("state m-a unknown:429 at:-10 wait:0"), "? state m-a");
    // It has answered since: what it said before counts no more.
    check(&text("state m-a Terminating at:-31 wait:20"), "? state m-a");
}

/// It holds the place of another one for as long as the provider does not say that it is ready.
#[test]
fn whoever_waits_for_the_place_of_a_machine_of_which_the_provider_says_nothing_waits_for_a_person() {
    let text = |late: i64| {
        format!(
            "node a worker v0\n node new worker v0
             version img2 finalizer
             host a img1\n host new - bare
             group w image:img2\n groups w
             facts m-new unknown:quota\n state m-new unknown:quota
             pending p node:new machine:m-new late:{late}"
        )
    };
    check(&text(-60), "node a Selected WaitingForTurn");
    check(&text(1), "node a Selected ProviderUnavailable ~ quota");
    is_for_a_person(&text(1));
}

/// An outdated worker whose new node is there, and is not taken.
fn joined(host: &str, pending: &str) -> String {
    format!(
        "node new worker v0\n {ONE}\n host new {host}\n replacing a PreRules
         pending p for:a node:new machine:m-new {pending}"
    )
}

/// The provider takes a machine for failed whose kubelet runs: it is not deleted, and nobody else takes it.
#[test]
fn a_machine_that_has_joined_and_that_the_provider_never_calls_ready_is_named() {
    for state in ["Failed", "Stopped", "Creating"] {
        check(
            &joined("img2", &format!("{state} late:-60")),
            "node a PreRules Joining ~ is to join until
             > nothing",
        );
        let late = joined("img2", &format!("{state} late:1"));
        check(
            &late,
            &format!(
                "node a PreRules Joining ~ (Node new) of PendingNode p: it has joined, and by
                 node a PreRules Joining ~ its provider says {state}, wanted Ready; fix that, or delete the machine and its Node
                 > nothing"
            ),
        );
        is_for_a_person(&late);
    }
    // One that may be a new node by now waits for numo.
    check(
        &joined("img2", "Ready reached late:1"),
        "> note new donor=a\n > note a heir=new",
    );
}

/// Nobody has written a JoiningNode of the new node.
#[test]
fn a_machine_that_has_joined_with_components_that_nobody_says_is_named() {
    let text = |late: i64| {
        let text = joined("img2", &format!("Ready reached late:{late}"));
        text.replace("version img2", "version img2 components:c2")
            .replace("host a img1", "host a img1 components:c1")
    };
    check(
        &text(-60),
        "node a PreRules Joining ~ until
         node new Selected AwaitingAnnotation ~ Node new has no annotation constellation.edgeless.systems/kubernetes-components yet
         wake 60",
    );
    check(
        &text(1),
        "node a PreRules Joining ~ it has joined, and by
         node new Selected AwaitingAnnotation ~ no JoiningNode has named it by
         ends new ClusterAdmin
         > nothing",
    );
    is_for_a_person(&text(1));
}

/// It was told to go long ago, and it stays.
/// A finalizer of somebody else keeps it, and no clock and no machine ends that.
#[test]
fn a_node_that_is_deleted_and_does_not_go_is_named() {
    let deleted = |since: i64| {
        let mut cluster = Cluster::parse(
            "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1 heir:new\n host new img2 donor:a
             group w image:img2\n groups w
             replacing a Released cordoned machine:m-a heir:new\n pending a leave node:a machine:m-a Terminated reached",
        );
        let node = cluster.observed.nodes.get_mut("a").expect("the node");
        node.leaving = Some(Leaving {
            why: "it is being deleted".to_owned(),
            since: Some(at(since)),
        });
        cluster
    };
    check_cluster(
        &deleted(-1799),
        "node a Released MachineLeaving\n ends a ClusterItself\n wake 1\n > nothing",
    );
    check_cluster(
        &deleted(-1800),
        "node a Released MachineLeaving ~ see its metadata.finalizers
         ends a ClusterAdmin
         > nothing",
    );
}

#[test]
fn a_machine_that_does_not_go_is_named() {
    let text = |turn: &str, state: &str, late: i64| {
        format!("{turn}\n pending a leave node:a machine:m-a {state} late:{late}\n did m-a at:-1")
    };
    let there = format!("node a worker v0\n {GONE} cordoned").replace("host new", "host a img1\n host new");
    for turn in [GONE, &there] {
        for state in ["Ready", "Terminating"] {
            check(
                &text(turn, state, 1799),
                &format!("node a Released MachineLeaving ~ machine m-a is being deleted ({state})"),
            );
            check(
                &text(turn, state, 3600),
                &format!(
                    "node a Released MachineLeaving ~ is not gone by\n node a Released MachineLeaving ~ its provider says {state}"
                ),
            );
            is_for_a_person(&text(turn, state, 3600));
        }
        // What was not told to go cannot be late.
        let untold = text(turn, "Ready", 3600).replace("did m-a at:-1", "");
        check(&untold, "node a Released MachineLeaving ~ is being deleted");
    }
    // Nobody makes another one in its place.
    let waits = format!("{ONE}\n pending old leave node:old machine:m-old Terminating late:3600");
    check(
        &waits,
        "node a Selected MachineLeaving ~ m-old (Node old) is not gone by",
    );
    is_for_a_person(&waits);
}

/// An image that is called otherwise where it is set than where it is read, such as by an address and by a name.
#[test]
fn an_image_that_the_provider_has_set_and_never_shows_is_for_a_person() {
    let group = ONE.replace("group w image:img2", "group w image:img1");
    let turn = |rest: &str| format!("{group}\n replacing a Admitted\n {rest}");
    let silent = |rest: &str| turn(rest).replace("image:img1", "image:img1 unasked");
    for moments in [
        turn(""),
        turn("taken w img2 at:-119"),
        // Another image was set so long ago, and nobody has looked since this one was.
        turn("taken w img0 at:-9000"),
        silent("taken w img2 at:-9000"),
    ] {
        let why = &decision(&Cluster::parse(&moments)).report.nodes["a"].why;
        assert_eq!(
            (why.reason, why.who()),
            (Reason::GroupImageOutdated, Actor::Numo),
            "{moments}"
        );
    }
    let unseen = "taken w img2 at:-121";
    let words = "ScalingGroup w: the provider said at";
    check(
        &turn(&format!("{unseen}\n did G-w at:-899")),
        &format!(
            "node a PreRules GroupImageOutdated ~ {words}
             node a PreRules GroupImageOutdated ~ that new machines get image \"img2\", and it shows \"img1\": write spec.image as
             not > set image
             > journal a closed"
        ),
    );
    is_for_a_person(&turn(unseen));
    // It is being set once more.
    is_for_a_person(&silent("taken w img2 at:-9000 times:2\n told G-w again:10"));
    // It is set again now and then.
    check(
        &turn(&format!("{unseen}\n did G-w at:-900")),
        "> set image G-w img2\n > journal a closed",
    );
    // The turn is given back, and the next one does not begin.
    check(
        &turn(unseen).replace("a Admitted", "a Admitted closed:60"),
        "node a Selected GroupImageOutdated",
    );
    let waits = format!("{group}\n {unseen}\n did G-w at:-1");
    check(
        &waits,
        &format!("node a Selected GroupImageOutdated ~ {words}\n > nothing"),
    );
    is_for_a_person(&waits);
}
