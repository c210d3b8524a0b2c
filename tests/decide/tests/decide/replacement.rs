//! NodeVersions, one table a subject: where nodes are on the way, which machines are made and deleted, and what a turn goes through.
//! The language is that of `replaced.rs`.

use crate::{
    cluster::{Cluster, now},
    replaced::group_id,
    words::{check, check_cluster, decision},
};
use numo_api::{conditions::Actor, marks};
use numo_core::{
    Owner, Snapshot,
    action::{Action, Event, FleetAction, NodePatch, NodePurpose, Planned},
    invariant,
    observed::{ForeignController, Heard, JobView, Key, MachineFacts, Rival},
    owners::node_version::{Class, Sets, class},
    report::{NodeVersionReport, RunPhase},
};
use serde_json::json;
use std::collections::BTreeSet;

/// Two outdated workers and their group, which already gets the image.
const TWO: &str = "node a worker v0
     node b worker v0
     version img2 finalizer
     host a img1
     host b img1
     group w image:img2
     groups w";

fn two(rest: &str) -> String {
    format!("{TWO}\n{rest}")
}

/// An outdated worker, and a new one that has joined in its place.
const PAIR: &str = "node a worker v0 label:team=red
     node new worker v0 label:team=red
     version img2 finalizer
     host a img1 heir:new
     host new img2 donor:a
     group w image:img2
     groups w
     pods a";

fn pair(rest: &str) -> String {
    format!("{PAIR}\n{rest}")
}

/// The same, and nothing is in hand.
fn idle(rest: &str) -> String {
    two(rest).replace(" finalizer", "")
}

fn said(cluster: &str) -> NodeVersionReport {
    let cluster = Cluster::parse(cluster);
    decision(&cluster).report.node_version.expect("a report")
}

fn names(set: &[(String, String)]) -> Vec<&str> {
    set.iter().map(|(name, _)| name.as_str()).collect()
}

/// The reference's table (step 4): the first that fits.
#[test]
fn a_node_is_where_its_notes_say() {
    let table: [(&str, Class); 18] = [
        ("host a img2 components:c2", Class::UpToDate),
        ("host a IMG2 components:C2", Class::UpToDate),
        ("host a img2 components:c2 nowhere", Class::Invalid),
        ("host a img1 nowhere obsolete", Class::Invalid),
        ("host a - bare", Class::AwaitingAnnotation),
        ("host a - bare\n facts m-a unknown:403", Class::Invalid),
        ("host a - bare\n facts m-a img1 w", Class::AwaitingAnnotation),
        (
            "host a img2 components:c2\n facts m-a unknown:403",
            Class::UpToDate,
        ),
        ("host a img1 components:c1 obsolete", Class::Obsolete),
        ("host a img2", Class::AwaitingAnnotation),
        ("host a img1 components:c2", Class::Outdated),
        ("host a img2 components:c1", Class::Outdated),
        ("host a img1 components:c2 heir:b", Class::Donor),
        ("host a img1 components:c2 donor:b", Class::Outdated),
        ("host a img2 components:c2 donor:b", Class::Heir),
        (
            "host a img2 components:c2\n pending p node:a machine:m-a Ready",
            Class::Mint,
        ),
        (
            "host a img2 components:c2\n pending p node:a machine:m-a Creating",
            Class::UpToDate,
        ),
        // Another machine that has only its name.
        (
            "host a img2 components:c2\n pending p node:a machine:m-other Ready",
            Class::UpToDate,
        ),
    ];
    for (lines, wanted) in table {
        let text = format!("node a worker v0\n version img2 components:c2\n {lines}");
        let cluster = Cluster::parse(&text);
        let fleet = &cluster.observed.fleet;
        let found = class(&fleet.versions["nv"], fleet, &cluster.observed.nodes["a"]);
        assert_eq!(found, wanted, "{lines}");
    }
}

/// A cluster that has no such ConfigMaps compares images alone.
#[test]
fn components_are_compared_only_where_the_spec_names_some() {
    check(
        "node a worker v0\n version img2\n host a img2\n groups -",
        "node a Done UpToDate
         phase Idle
         > nothing",
    );
}

#[test]
fn the_status_lists_every_node_and_how_many_machines_may_be_made() {
    let text = "node a worker v0\n node b worker v0\n node c worker v0\n node d worker v0\n node e worker v0
         node f worker v0\n node g worker v0\n node h worker v0
         version img2 components:c2 surge:7 finalizer
         host a img1 components:c1
         host b img1 components:c1 heir:c
         host c img2 components:c2 donor:b
         host d img2 components:c2
         host e img2
         host f img2 components:c2
         host g img2 components:c2 nowhere
         host h img1 components:c1 obsolete
         group w image:img2
         pending p node:d machine:m-d Ready reached
         pending q machine:m-q node:q leave Terminating
         groups w";
    let said = said(text);
    assert_eq!(names(&said.outdated), ["a"]);
    assert_eq!(names(&said.donors), ["b"]);
    assert_eq!(names(&said.heirs), ["c"]);
    assert_eq!(names(&said.mints), ["d"]);
    assert_eq!(names(&said.awaiting_annotation), ["e"]);
    assert_eq!(names(&said.up_to_date), ["f"]);
    assert_eq!(names(&said.invalid), ["g"]);
    assert_eq!(names(&said.obsolete), ["h"]);
    assert_eq!(names(&said.pending), ["p", "q"]);
    // One heir, one awaited, one that is to go, two PendingNodes.
    assert_eq!(said.budget, 2);
    assert!(said.is_outdated);
}

#[test]
fn the_budget_is_a_number_or_a_share_of_the_nodes_and_never_below_nothing() {
    for (surge, wanted) in [("1", 1), ("3", 3), ("50%", 1), ("100%", 2), ("0", 0), ("0%", 0)] {
        let text = two("").replace("version img2", &format!("version img2 surge:{surge}"));
        assert_eq!(said(&text).budget, wanted, "{surge}");
    }
    let text = two(
        "pending p machine:m-p node:p leave Terminating\n pending q machine:m-q node:q leave Terminating",
    );
    assert_eq!(said(&text).budget, 0);
}

#[test]
fn what_the_provider_knows_of_a_machine_is_asked_once_and_noted() {
    let text = "node a worker v0\n version img2\n host a - bare\n groups w\n group w image:img2";
    check(
        text,
        "node a Selected AwaitingAnnotation
         ? facts m-a",
    );
    check(
        &format!("{text}\n facts m-a img1 w at:-600"),
        "> note a scaling-group-id=G-w node-image=img1",
    );
    // A refusal is not asked again at once.
    check(
        &format!("{text}\n facts m-a unknown:403 at:-1"),
        "node a Skipped MachineUnknown
         not ? facts",
    );
    check(
        &format!("{text}\n facts m-a unknown:403 at:-31 since:-31"),
        "? facts m-a",
    );
}

/// As in the reference such a node is not outdated; it is left out, and named until a person has acknowledged it.
#[test]
fn a_nodeversion_is_over_with_a_node_that_nobody_knows_and_names_it() {
    let text = "node a worker v0\n node b worker v0\n version img2 finalizer\n host b img2\n groups w\n group w image:img2";
    check(
        &format!("{text}\n host a - bare\n facts m-a unknown:403 at:-1"),
        "phase Idle
         problem MachineUnknown ~ Node a, which is left as it is (machine m-a: 403)
         node a Skipped MachineUnknown ~ found m-a, wanted a machine that the provider knows: 403. The node is left out; if the machine is gone, delete the Node; `numo acknowledge nodeversion/nv` has
         > nothing",
    );
    check(
        &format!("{text}\n host a img1 nowhere"),
        "phase Idle
         problem MachineUnknown ~ Node a spec.providerID: found none, wanted
         node a Skipped MachineUnknown ~ `numo acknowledge nodeversion/nv`
         > nothing",
    );
    // Others are yet to be replaced.
    check(
        &format!("{text}\n host a img1 nowhere").replace("host b img2", "host b img1"),
        "phase Active
         > admit b",
    );
    // The provider has just said so, and may say another thing when it is asked again.
    check(
        &format!("{text}\n host a - bare\n facts m-a unknown:429 at:-1 since:-100"),
        "phase Active
         node a Selected MachineUnknown
         > nothing",
    );
    // It is new: who writes the id needs a moment.
    let mut new = Cluster::parse(&format!("{text}\n host a img2 nowhere"));
    new.observed.nodes.get_mut("a").expect("one").created = crate::cluster::at(-30);
    let said = decision(&new);
    assert!(!said.report.problems[0].who().is_person(), "{said:?}");
    assert_eq!(said.report.problems[0].until, Some(crate::cluster::at(90)));
    assert_eq!(said.wake_at, Some(crate::cluster::at(90)));
    assert_eq!(said.report.phase, RunPhase::Active, "{said:?}");
    let known = format!("{text}\n host a img2");
    check(&known, "phase Idle\n result Succeeded\n > finalizer 0 off");
    check(
        &known
            .replace("version img2", "version img2 deleting")
            .replace("host a img2", "host a img1 nowhere"),
        "phase Leaving\n > finalizer 0 off",
    );
}

/// A machine that is in no group of the provider's has no name of one: nobody waits for that for ever.
#[test]
fn a_node_of_no_group_is_left_out_as_one_that_nobody_knows_and_one_of_a_strange_group_can_be() {
    let text = "node a worker v0\n node b worker v0\n version img2 finalizer\n host b img2\n groups w\n group w image:img2";
    let mut cluster = Cluster::parse(&format!("{text}\n host a - bare\n facts m-a unknown:403 at:-1"));
    let heard = Heard {
        at: crate::cluster::at(-1),
        said: Ok(MachineFacts::default()),
    };
    cluster.observed.fleet.provider.hear_facts("m-a", heard);
    check_cluster(
        &cluster,
        "phase Idle
         node a Skipped MachineUnknown ~ it names no image or no group of it. The node is left out
         > nothing",
    );
    check(
        &format!("{text}\n host a img1 group:strange"),
        "node a Selected ScalingGroupNotFound ~ `numo skip a` leaves the node out",
    );
}

/// The command line asks no provider: it reads in the status of which nodes the operator knows no machine, and acknowledges those too.
#[test]
fn who_asks_no_provider_acknowledges_what_the_operator_has_left_out() {
    let text = "node a worker v0\n node b worker v0\n version img2 finalizer\n host b img2\n groups w\n group w image:img2\n host a - bare";
    let operator = Cluster::parse(&format!("{text}\n facts m-a unknown:403 at:-1"));
    let wanted = decision(&operator).report.acknowledgement();
    let mut looks = Cluster::parse(text);
    looks.observed.settings.only_looks = true;
    assert_ne!(decision(&looks).report.acknowledgement(), wanted);
    let status = r#"{"conditions": [{"type": "Complete", "status": "True"}], "invalid": [{"name": "a", "uid": "uid-a"}]}"#;
    let mut told = |status: &str| {
        let view = looks.observed.fleet.versions.get_mut("nv").expect("one");
        view.status = serde_json::from_str(status).expect("a status");
        decision(&looks).report
    };
    let said = told(status);
    assert_eq!(said.acknowledgement(), wanted);
    assert_eq!(said.nodes["a"].why.reason, numo_api::Reason::MachineUnknown);
    // The operator waits for it yet; and a later node of that name is not the one.
    assert_ne!(
        told(&status.replace("\"True\"", "\"False\"")).acknowledgement(),
        wanted
    );
    assert_ne!(
        told(&status.replace("uid-a", "uid-old")).acknowledgement(),
        wanted
    );
    let mut operator = operator;
    let versions = &mut operator.observed.fleet.versions;
    let annotations = &mut versions.get_mut("nv").expect("one").annotations;
    annotations.insert(marks::ACKNOWLEDGED.to_owned(), wanted);
    assert!(decision(&operator).report.acknowledged);
}

/// As a Plan and a run are: nothing waits for a node that is left out, nor for a window.
#[test]
fn a_nodeversion_is_over_once_all_that_is_left_was_left_out() {
    let spec = r#"{"mutex":{"notReadyPolicy":"LeaveOutAfter","leaveOutAfterSeconds":600,
        "window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}}}"#;
    let spec = spec.replace('\n', " ");
    let text = |host: &str| {
        format!(
            "node a worker v0 NotReady dark:700\n node b worker v0\n version img2 finalizer spec {spec}
             host a img1\n host b {host}\n group w image:img2\n groups w"
        )
    };
    check(
        &text("img1"),
        "phase Active
         node b Selected OutsideWindow
         > nothing",
    );
    let over = "phase Idle
         hold -
         node a Skipped LeftOutNotReady
         node b Done UpToDate
         > nothing";
    check(&text("img2"), over);
    let mut cluster = Cluster::parse(&text("img2"));
    let said = decision(&cluster).report;
    assert!(!said.acknowledged);
    assert!(said.node_version.as_ref().is_some_and(|said| said.is_outdated));
    let versions = &mut cluster.observed.fleet.versions;
    let annotations = &mut versions.get_mut("nv").expect("one").annotations;
    annotations.insert(marks::ACKNOWLEDGED.to_owned(), said.acknowledgement());
    assert!(decision(&cluster).report.acknowledged);
    // It is back.
    check(
        &text("img2").replace(" NotReady dark:700", ""),
        "phase Active
         node a Selected OutsideWindow",
    );
    // A machine that is to join is still under way.
    check(
        &format!("{}\n pending p machine:m-p node:p Creating", text("img2")),
        "phase Active",
    );
}

#[test]
fn joining_nodes_tell_their_node_with_which_components_it_came() {
    let text = "node a worker v0\n version img2 components:c2\n host a img2\n group w image:img2\n groups w";
    check(
        &format!("{text}\n joining j node:a components:c2"),
        "> note a kubernetes-components=c2
         > forget joining j",
    );
    check(
        &format!("{text}\n joining j node:z components:c2 late:-1"),
        "wake 1
         > nothing",
    );
    check(
        &format!("{text}\n joining j node:z components:c2 late:1"),
        "> forget joining j",
    );
    check(&format!("{text}\n joining j node:z components:c2"), "> nothing");
}

#[test]
fn groups_get_the_image_and_say_which_they_have() {
    let text = "node a worker v0\n version img2\n host a img2\n groups w";
    check(&format!("{text}\n group w"), "? image G-w");
    check(
        &format!("{text}\n group w\n image w img1"),
        "> group w img1 outdated
         > set image G-w img2",
    );
    // What was said already is not said again; what takes long is not asked for at once.
    check(&format!("{text}\n group w image:img1"), "> set image G-w img2");
    check(
        &format!("{text}\n group w image:img1\n told G-w again:20"),
        "> nothing",
    );
    check(
        &format!("{text}\n group w image:img1\n told G-w again:20 problem:quota"),
        "problem ProviderUnavailable",
    );
    check(
        &format!("{text}\n group w image:img1\n image w img2"),
        "> group w img2",
    );
    check(&format!("{text}\n group w image:IMG2"), "> nothing");
    // A paused NodeVersion changes nothing of what new machines get.
    let paused = text.replace("version img2", "version img2 paused");
    check(&format!("{paused}\n group w image:img1"), "> nothing");
}

#[test]
fn groups_are_found_and_forgotten() {
    let text = "node a worker v0\n version img2\n host a img2";
    check(text, "? groups");
    check(
        &format!("{text}\n groups w,cp"),
        "> create group group-w
         > create group group-cp",
    );
    // Names of other cases are the same group, which the reference makes and deletes in one pass.
    check(
        &format!("{text}\n group w image:img2 uncalled\n groups w"),
        "> call group w w",
    );
    check(
        &format!("{text}\n group w image:img2\n group gone image:img2\n groups w"),
        "> delete group gone",
    );
    // Its nodes are there: nobody knows which is right.
    check(
        &format!("{text}\n group w image:img2\n groups other"),
        "problem ProviderContradicts
         > create group group-other",
    );
    check(&format!("{text}\n group w image:img2\n groups -"), "> nothing");
    check(
        &format!("{text}\n group w image:img2\n groups w at:-901"),
        "? groups",
    );
}

/// The reference lists groups whenever a Node comes. numo does where that one is of a group that nobody knows, and not again and again.
#[test]
fn a_new_node_of_an_unknown_group_has_groups_listed_before_their_time() {
    let of = |age: &str, group: &str, at: i64| {
        format!(
            "node a worker v0 {age}\n version img2\n host a img2 group:{group}\n group w image:img2\n groups w at:{at}"
        )
    };
    check(&of("age:0", "new", -31), "? groups");
    check(&of("age:0", "new", -29), "> nothing");
    // It was there when they were listed, or its group is known.
    check(&of("age:1", "new", -31), "> nothing");
    check(&of("age:0", "w", -31), "> nothing");
    // One that could not be listed is tried again soon in any case.
    let failed = of("age:1", "w", -31).replace("groups w", "groups w unknown:403");
    check(&failed, "? groups");
}

#[test]
fn the_autoscaler_rests_while_nodes_are_replaced() {
    let command = "with ./cluster-autoscaler --nodes=1:5:asg-w --v=2";
    let group = "group w image:img2 autoscaling min:1 max:5";
    let current = format!("node a worker v0\n version img2\n host a img2\n {group}\n groups w");
    let behind = current
        .replace("host a img2", "host a img1")
        .replace("version img2", "version img2 finalizer");
    check(&format!("{current}\n strategy on extra:v=2"), "> nothing");
    check(
        &format!("{behind}\n strategy on extra:v=2"),
        &format!(
            "> admit a
             > autoscaler off
             > autoscaler 0 of 1 {command}"
        ),
    );
    check(
        &format!("{current}\n strategy extra:v=2"),
        &format!(
            "> autoscaler on
             > autoscaler 1 of 0 {command}"
        ),
    );
    // Somebody else has changed its command line.
    check(
        &format!("{current}\n strategy on drifted extra:v=2"),
        &format!("> autoscaler 1 of 1 {command}"),
    );
    // A NodeVersion that begins nothing leaves the cluster its autoscaler.
    let paused = behind.replace("version img2 finalizer", "version img2 paused");
    check(&format!("{paused}\n strategy on extra:v=2"), "> nothing");
    check(
        &format!("{current}\n strategy on gone extra:v=2"),
        "> autoscaler has 0",
    );
    check(
        &format!("{current}\n strategy on gone replicas:0 extra:v=2"),
        "> nothing",
    );
    let wrong = current.replace("min:1 max:5", "min:6 max:5");
    check(
        &format!("{wrong}\n strategy on extra:v=2"),
        "problem InvalidField ~ spec.min: found 6",
    );
}

#[test]
fn no_machine_is_made_while_the_autoscaler_runs() {
    check(
        &two("replacing a Admitted\n strategy on"),
        "node a PreRules AutoscalerRuns",
    );
    check(
        &two("replacing a Admitted\n strategy replicas:1"),
        "node a PreRules AutoscalerRuns",
    );
    check(
        &two("replacing a Admitted\n strategy"),
        "> intend a machine of G-w",
    );
    // Somebody starts it once the PendingNode is there: it is stopped again, and then the machine is made.
    let meant = "replacing a PreRules\n pending request for:a";
    check(
        &two(&format!("{meant}\n strategy on")),
        "node a PreRules AutoscalerRuns
         > autoscaler off
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    check(&two(&format!("{meant}\n strategy")), "> make a machine of G-w");
    // Its status says that it runs, and it is gone.
    check(
        &two("replacing a Admitted\n strategy gone replicas:1"),
        "node a PreRules Joining
         > intend a machine of G-w
         > autoscaler has 0",
    );
    // Nobody but a person stops what numo cannot see.
    let unseen = "strategy gone replicas:0 deployment:a,b unfollowed";
    check(
        &two(unseen),
        "hold InvalidField ~ spec.deploymentName: found kube-system/a,b, wanted the namespace and the name of a Deployment
         problem InvalidField ~ spec.deploymentName: found kube-system/a,b
         ends a ClusterAdmin
         > autoscaler on",
    );
    check(
        &two(&format!("replacing a Admitted\n {unseen}")),
        "node a PreRules InvalidField
         ends a ClusterAdmin
         > journal a closed",
    );
}

/// The reference stops whatever Deployment the strategy names, and so does numo.
#[test]
fn the_autoscaler_that_rests_is_the_one_that_the_strategy_names() {
    let mine = "deployment:mine";
    check(
        &two(&format!("strategy on {mine}")),
        "> admit a
         > autoscaler off
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    check(
        &two(&format!("replacing a Admitted\n strategy replicas:1 {mine}")),
        "node a PreRules AutoscalerRuns ~ Deployment kube-system/mine
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    check(
        &two(&format!("replacing a Admitted\n strategy {mine}")),
        "node a PreRules Joining
         > intend a machine of G-w",
    );
    // One that is gone is none that runs.
    check(
        &two(&format!("replacing a Admitted\n strategy gone {mine} replicas:1")),
        "node a PreRules Joining
         > intend a machine of G-w
         > autoscaler has 0",
    );
}

#[test]
fn a_turn_begins_with_finalizer_lease_and_shield() {
    check(
        &two("").replace(" finalizer", ""),
        "node a Selected Admitting
         > finalizer on",
    );
    check(
        &two(""),
        "node b Selected WaitingForTurn
         > admit a",
    );
    check(
        &two("").replace("version img2", "version img2 surge:2"),
        "> admit a
         > admit b",
    );
    check(
        &two("replacing a new unleased"),
        "node a Admitted Admitting
         > lease a
         > shield a",
    );
}

/// What is to be made is written down before the provider hears of it, and has a name that is the same after a crash.
#[test]
fn a_machine_is_intended_before_it_is_made() {
    check(
        &two("replacing a Admitted"),
        "node a PreRules Joining
         > intend a machine of G-w",
    );
    check(
        &two("replacing a Admitted\n pending request for:a"),
        "node a PreRules Joining ~ a machine is being made
         > make a machine of G-w",
    );
    // It takes a while; it is refused; it is made, and which one it is goes into its PendingNode.
    let with = |what: &str, more: &str| {
        let text = two("replacing a Admitted\n pending request for:a");
        let cluster = Cluster::parse(&text);
        let name = cluster.observed.fleet.pending.keys().next().expect("one").clone();
        format!("{text}\n {what} {name} {more}")
    };
    let of = |more: &str| with("told", more);
    check(&with("found", "m-new node:new"), "> rewrite it Join m-new");
    check(&with("found", "-"), "> make a machine of G-w");
    // An earlier PendingNode had the name, and another machine.
    check(
        &with("found", "m-new node:new at:-301"),
        "> make a machine of G-w",
    );
    // The owner may begin nothing by now; which machine was made is written all the same.
    check(
        &with("found", "m-new node:new").replace("version img2", "version img2 paused"),
        "> rewrite it Join m-new
         > journal a closed",
    );
    check(
        &of("again:20"),
        "node a PreRules Joining
         wake 20
         > nothing",
    );
    check(
        &of("again:20 problem:quota"),
        "node a PreRules ProviderUnavailable ~ quota
         > note of it quota",
    );
    check(
        &of("again:-1 problem:quota"),
        "> note of it quota
         > make a machine of G-w",
    );
    // The words are written once, stay where numo starts anew and has heard nothing yet, and go once the provider has begun.
    let noted = |more: &str| of(more).replace("request for:a", "request for:a said:quota");
    check(
        &noted("again:20 problem:quota"),
        "node a PreRules ProviderUnavailable ~ quota
         > nothing",
    );
    check(&noted("again:20"), "> note of it -");
    check(
        &two("replacing a Admitted\n pending request for:a said:quota"),
        "> make a machine of G-w",
    );
    check(
        &two("replacing a Admitted\n pending request for:a node:new machine:m-new Creating"),
        "node a PreRules Joining ~ m-new
         > nothing",
    );
    check(
        &two("replacing a Admitted\n pending request for:a node:new machine:m-new"),
        "? state m-new",
    );
    check(
        &two("replacing a Admitted\n pending request for:a node:new machine:m-new\n state m-new Ready"),
        "> status it Ready",
    );
}

#[test]
fn no_machine_is_made_in_a_group_that_is_unknown_or_outdated_or_beyond_the_surge() {
    check(
        &two("replacing a Admitted").replace("group w image:img2", "group w image:img1"),
        "node a PreRules GroupImageOutdated",
    );
    check(
        &two("").replace("group w image:img2", "group other image:img2"),
        "node a Selected ScalingGroupNotFound",
    );
    check(
        &two("replacing a Admitted\n pending old leave node:old machine:m-old Terminating"),
        "node a PreRules WaitingForTurn",
    );
    check(
        &two("provider none\n replacing a Admitted"),
        "hold ProviderUnavailable
         node a PreRules ProviderUnavailable
         > journal a closed",
    );
}

#[test]
fn a_new_node_becomes_a_pair_with_the_old_one_and_gets_its_labels() {
    let joined = "node a worker v0 label:team=red
         node new worker v0
         version img2 finalizer
         host a img1
         host new img2
         group w image:img2
         groups w
         replacing a PreRules";
    check(
        &format!("{joined}\n pending request for:a node:new machine:m-new Ready reached"),
        "> note new donor=a
         > note a heir=new",
    );
    // A crash between the two.
    let half = joined.replace("host new img2", "host new img2 donor:a");
    check(
        &format!("{half}\n pending request for:a node:new machine:m-new Ready reached"),
        "> note a heir=new",
    );
    let whole = half.replace("host a img1", "host a img1 heir:new");
    check(
        &format!("{whole}\n pending request for:a node:new machine:m-new Ready reached"),
        "> forget it",
    );
    check(&whole, "> note new team=red");
    let dark = whole.replace("node new worker v0", "node new worker v0 NotReady label:team=red");
    check(
        &dark,
        "node a PreRules Joining ~ not Ready
         > nothing",
    );
}

/// A Plan would take the new node for one that it has upgraded.
#[test]
fn what_a_plan_has_done_to_the_old_node_is_not_said_of_the_new_one() {
    let text = "node a worker v0 label:team=red label:plan.upgrade.cattle.io/os=abc
         node new worker v0
         version img2 finalizer
         host a img1 heir:new
         host new img2 donor:a
         group w image:img2
         groups w
         replacing a PreRules";
    check(text, "> note new team=red");
}

#[test]
fn taints_and_annotations_are_copied_where_that_is_asked_for() {
    let text = r#"node a worker v0 tainted annotation:example.com/owner=ops annotation:other/one=x
         node new worker v0
         version img2 finalizer spec {"copyTaints": true, "copiedAnnotations": ["example.com/*"]}
         host a img1 heir:new
         host new img2 donor:a
         group w image:img2
         groups w
         replacing a PreRules"#;
    check(text, "> note new owner=ops 1 taints");
    // What others have put there to drain or to remove the old node is not for the new one; it may come in mid-drain.
    let mut drained = Cluster::parse(&text.replace(", \"copiedAnnotations\": [\"example.com/*\"]", ""));
    let old = drained.observed.nodes.get_mut("a").expect("the old node");
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let others = [
        "medik8s.io/drain",
        "ToBeDeletedByClusterAutoscaler",
        "node.kubernetes.io/unschedulable",
    ];
    old.taints = others.map(taint).into_iter().collect();
    check_cluster(&drained, "not > note new");
}

#[test]
fn the_old_node_is_cordoned_drained_and_let_go() {
    check(
        &pair("replacing a PreRules"),
        "node a Cordoned Draining
         > cordon a with the same taints",
    );
    check(&pair("replacing a PreRules cordoned"), "> journal a Cordoned");
    check(
        &pair("replacing a Cordoned cordoned\n pod web on a of:ReplicaSet/web"),
        "> evict web",
    );
    check(&pair("replacing a Cordoned cordoned"), "> journal a Drained");
    check(
        &pair("replacing a Drained cordoned"),
        "node a Released MachineLeaving
         > journal a Released MachineLeaving",
    );
    check(
        &pair("replacing a Released cordoned machine:m-a heir:new"),
        "> leave a m-a",
    );
    let leaving = "pending a leave node:a machine:m-a";
    check(
        &pair(&format!(
            "replacing a Released cordoned machine:m-a heir:new\n {leaving}"
        )),
        "not ? state m-a
         > delete machine m-a",
    );
    check(
        &pair(&format!(
            "replacing a Released cordoned machine:m-a heir:new\n {leaving}\n did m-a at:-1"
        )),
        "? state m-a
         > nothing",
    );
    check(
        &pair(&format!(
            "replacing a Released cordoned machine:m-a heir:new\n {leaving} Terminating"
        )),
        "node a Released MachineLeaving ~ Terminating
         > nothing",
    );
    // A kubelet that still runs would make its Node anew.
    check(
        &pair(&format!(
            "replacing a Released cordoned machine:m-a heir:new\n {leaving} Terminated reached"
        )),
        "> delete node a",
    );
    check(
        &pair(&format!(
            "replacing a Released cordoned machine:m-a heir:new\n {leaving} Ready\n told m-a again:10 problem:quota"
        )),
        "node a Released ProviderUnavailable ~ quota
         > note of a quota",
    );
}

/// What keeps a drain from passing is named, with the pod and its budget.
#[test]
fn a_drain_that_a_budget_keeps_is_named() {
    check(
        &pair(
            "replacing a Cordoned cordoned
             pod web on a of:ReplicaSet/web
             pdb web allows:0 healthy:1 wants:1
             evicted web Budget at:-1 times:1",
        ),
        "node a Cordoned EvictionBlocked ~ web
         > nothing",
    );
}

const GONE: &str = "node new worker v0
     version img2 finalizer
     host new img2 donor:a
     group w image:img2
     groups w";

#[test]
fn a_machine_whose_node_is_gone_is_deleted_until_it_is_gone_too() {
    let gone = |rest: &str| format!("{GONE}\n {rest}");
    let turn = "replacing a Released machine:m-a heir:new";
    check(
        &gone(&format!("{turn}\n pending a leave node:a machine:m-a")),
        "not ? state m-a
         > delete machine m-a",
    );
    check(
        &gone(&format!(
            "{turn}\n pending a leave node:a machine:m-a Ready\n told m-a again:10 problem:quota"
        )),
        "node a Released ProviderUnavailable ~ quota
         > note of a quota",
    );
    check(
        &gone(&format!(
            "{turn}\n pending a leave node:a machine:m-a Terminating"
        )),
        "node a Released MachineLeaving
         > nothing",
    );
    // Its turn remembers it first: a PendingNode that is gone would be made again.
    check(
        &gone(&format!(
            "{turn}\n pending a leave node:a machine:m-a Terminated reached"
        )),
        "> journal a Changed MachineLeaving",
    );
    check(
        &gone(
            "replacing a Changed machine:m-a heir:new\n pending a leave node:a machine:m-a Terminated reached",
        ),
        "> forget a
         > note new -donor",
    );
    let home = GONE.replace(" donor:a", "");
    check(
        &format!("{home}\n replacing a Changed machine:m-a heir:new"),
        "node a Done Done
         > journal a Done Done",
    );
    // Somebody has deleted the PendingNode: the machine is not forgotten for that.
    check(&gone(turn), "> leave a m-a");
}

#[test]
fn the_rules_of_phase_post_are_asked_about_the_new_node() {
    let home = GONE.replace(" donor:a", "").replace(
        "finalizer",
        r#"finalizer spec {"mutex": {"rules": [{"name": "settled"}, {"name": "backup"}]}}"#,
    );
    check(
        &format!(
            "{home}\n rule settled Post\n rule backup Pre\n replacing a Changed machine:m-a heir:new verdict:backup/Pre/1/Pass"
        ),
        "node a PostRules RuleStarting",
    );
}

/// The old node is gone: the rules are asked again of the new one, and no second machine is made or deleted for it.
#[test]
fn a_person_ends_the_failure_of_a_rule_after_the_replacement() {
    let home = GONE.replace(" donor:a", "").replace(
        "finalizer",
        r#"finalizer spec {"mutex": {"rules": [{"name": "settled"}]}}"#,
    );
    let turn = |rest: &str| {
        format!("{home}\n rule settled Post\n replacing a Held replaced machine:m-a heir:new {rest}")
    };
    for reason in ["RuleFailed", "Aborted"] {
        check(
            &turn(&format!("reason:{reason} retry")),
            "node a Changed Admitting
             > journal a Changed Admitting attempt 2",
        );
        check(
            &turn(&format!("reason:{reason} skip")),
            "node a Skipped SkippedByPerson
             > journal a Skipped SkippedByPerson",
        );
    }
    check(
        &turn("reason:Aborted"),
        "node a Held Aborted
         > nothing",
    );
    check(
        &turn("reason:RuleFailed verdict:settled/Post/1/Failure"),
        "node a Held RuleFailed ~ numo retry a",
    );
    // The new node may be of another wave by its labels: the rules of the old one's are asked again.
    let cluster = Cluster::parse(&turn("reason:RuleFailed waverules:settled retry"));
    let written = decision(&cluster)
        .actions
        .into_iter()
        .find_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => status.wave_rules,
            _ => None,
        });
    assert_eq!(written.map(|rules| rules.len()), Some(1));
}

/// A NodeVersion that is deleted or given up waits neither for a person nor for a rule that is gone: its nodes have changed.
#[test]
fn a_node_version_that_is_left_ends_a_turn_whose_last_rules_do_not_pass() {
    let home = GONE.replace(" donor:a", "").replace(
        "finalizer",
        r#"finalizer deleting spec {"mutex": {"rules": [{"name": "settled"}]}}"#,
    );
    let turn = |rule: &str, rest: &str| format!("{home}\n {rule}\n replacing a {rest} machine:m-a heir:new");
    let failed = "verdict:settled/Post/1/Failure";
    let continued = "> journal a Done RuleContinuedAfterFailure";
    for (policy, rest) in [
        ("Hold", format!("Held replaced reason:RuleFailed {failed}")),
        ("Abort", format!("Held replaced reason:Aborted {failed}")),
        ("Skip", format!("PostRules {failed}")),
    ] {
        check(
            &turn(&format!("rule settled Post policy:{policy}"), &rest),
            continued,
        );
    }
    for rest in ["Changed", "Changed waverules:settled"] {
        check(&turn("", rest), "> journal a Done Done");
    }
    let given_up = turn(
        "rule settled Post",
        &format!("Held replaced reason:RuleFailed {failed} abort"),
    );
    check(
        &given_up.replace(" deleting", ""),
        "> journal a Done RuleContinuedAfterFailure",
    );
}

#[test]
fn rules_gate_a_node_before_a_machine_is_made_and_before_it_goes() {
    let gated = |rest: &str| {
        two(rest).replace(
            "finalizer",
            r#"finalizer spec {"mutex": {"rules": [{"name": "backup"}]}}"#,
        )
    };
    check(
        &gated("rule backup Pre\n replacing a Admitted"),
        "node a PreRules RuleStarting",
    );
    check(
        &gated("rule backup Pre\n replacing a PreRules verdict:backup/Pre/1/Pass"),
        "> intend a machine of G-w",
    );
    let pair = pair("rule backup Pre\n replacing a Drained cordoned verdict:backup/Pre/1/Pass~4000");
    let pair = pair.replace(
        "finalizer",
        r#"finalizer spec {"mutex": {"rules": [{"name": "backup"}]}}"#,
    );
    // A Pass that grew old while the machine booted is asked for again.
    check(&pair, "node a PreRelease RuleStarting");
}

#[test]
fn the_control_plane_goes_first_and_keeps_its_quorum() {
    let three = "node cp1 master v0\n node cp2 master v0\n node cp3 master v0\n node a worker v0
         version img2 surge:2 finalizer
         host cp1 img1 group:cp ip:192.0.2.11
         host cp2 img2 group:cp
         host cp3 img2 group:cp
         host a img1
         group w image:img2
         group cp image:img2 role:ControlPlane
         groups w,cp";
    check(
        three,
        "node a Selected ControlPlaneFirst
         > admit cp1",
    );
    // Another member is away.
    check(
        &three
            .replace("node cp2 master v0", "node cp2 master v0 NotReady")
            .replace(" finalizer", ""),
        "node cp1 Selected EtcdQuorum
         > nothing",
    );
    // Who is left out holds the others: no kubelet may be newer than the API server.
    check(
        &format!("{three}\n replacing cp1 Skipped reason:SkippedByPerson unleased"),
        "node a Selected ControlPlaneFirst
         ends a ClusterAdmin",
    );
    // So does who is not Ready for too long.
    let spec = r#"spec {"surge":2,"mutex":{"notReadyPolicy":"LeaveOutAfter","leaveOutAfterSeconds":600}}"#;
    let dark = three.replace("surge:2 finalizer", &format!("finalizer {spec}"));
    check(
        &dark.replace("node cp1 master v0", "node cp1 master v0 NotReady dark:700"),
        "node cp1 Skipped LeftOutNotReady
         node a Selected ControlPlaneFirst
         ends a ClusterAdmin",
    );
    let going = "node cp1 master v0\n node cp2 master v0\n node cp3 master v0\n node cp4 master v0
         version img2 finalizer
         host cp1 img1 group:cp ip:192.0.2.11 heir:cp4
         host cp2 img2 group:cp
         host cp3 img2 group:cp
         host cp4 img2 group:cp donor:cp1
         group cp image:img2 role:ControlPlane
         groups cp
         pods cp1
         replacing cp1 Released cordoned machine:m-cp1 heir:cp4
         pending cp1 leave group:cp node:cp1 machine:m-cp1";
    check(
        going,
        "node cp1 Released MachineLeaving ~ etcd
         > remove member cp1 192.0.2.11",
    );
    check(
        &format!("{going}\n told 192.0.2.11 again:10 problem:leader"),
        "node cp1 Released ProviderUnavailable ~ leader
         wake 10
         > nothing",
    );
    // Done in this turn, and not for a machine that had the address before.
    check(
        &format!("{going}\n did 192.0.2.11 at:-30"),
        "> delete machine m-cp1",
    );
    check(
        &format!("{going}\n did 192.0.2.11 at:-90"),
        "> remove member cp1 192.0.2.11",
    );
    check(
        &format!("{going} Ready\n did 192.0.2.11 at:-30\n did m-cp1 at:-10"),
        "node cp1 Released MachineLeaving
         wake 20
         > nothing",
    );
    check(
        &going.replace("node cp2 master v0", "node cp2 master v0 NotReady"),
        "node cp1 Released EtcdQuorum
         > nothing",
    );
    // The new one is no member of etcd yet.
    let drained = going
        .replace(
            "Released cordoned machine:m-cp1 heir:cp4",
            "Drained cordoned machine:m-cp1 heir:cp4 heirmachine:m-cp4 heirmember:192.0.2.1",
        )
        .replace("pending cp1 leave group:cp node:cp1 machine:m-cp1", "");
    let members = "etcd cp1 ready\n etcd cp2 ready\n etcd cp3 ready";
    check(
        &format!("{drained}\n {members}"),
        "node cp1 PreRelease EtcdQuorum ~ no member of etcd yet
         > nothing",
    );
    check(
        &format!("{drained}\n {members}\n etcd cp4 ready"),
        "> journal cp1 Released MachineLeaving",
    );
    check(
        &going.replace("ip:192.0.2.11", "ip:"),
        "node cp1 Released QuorumUnknown
         > nothing",
    );
}

/// Its member would count for ever among those that must agree; that its Node is gone tells etcd nothing.
#[test]
fn the_member_of_a_node_that_is_gone_is_taken_out_before_its_machine() {
    let gone = "node cp2 master v0\n node cp3 master v0\n node cp4 master v0
         version img2 finalizer
         host cp2 img2 group:cp ip:192.0.2.12
         host cp3 img2 group:cp ip:192.0.2.13
         host cp4 img2 group:cp ip:192.0.2.14 donor:cp1
         group cp image:img2 role:ControlPlane
         groups cp
         replacing cp1 Released machine:m-cp1 heir:cp4 member:192.0.2.11
         pending cp1 leave group:cp node:cp1 machine:m-cp1";
    check(
        gone,
        "node cp1 Released MachineLeaving ~ etcd
         not ? state m-cp1
         > remove member cp1 192.0.2.11",
    );
    // Also where the machine is gone before.
    check(
        &format!("{gone} Terminated reached"),
        "node cp1 Released MachineLeaving ~ etcd
         > remove member cp1 192.0.2.11",
    );
    check(
        &format!("{gone}\n told 192.0.2.11 again:10 problem:leader"),
        "node cp1 Released ProviderUnavailable ~ leader
         wake 10
         > nothing",
    );
    // Another member is away.
    check(
        &gone.replace("node cp2 master v0", "node cp2 master v0 NotReady"),
        "node cp1 Released EtcdQuorum ~ of 3 control-plane nodes
         > nothing",
    );
    check(
        &format!("{gone}\n did 192.0.2.11 at:-30"),
        "> delete machine m-cp1",
    );
    // Another machine had the address before.
    check(
        &format!("{gone}\n did 192.0.2.11 at:-90"),
        "> remove member cp1 192.0.2.11",
    );
    // A node that is there has the address by now: the member is its own.
    check(
        &gone.replace("ip:192.0.2.14", "ip:192.0.2.11"),
        "> delete machine m-cp1",
    );
    // A journal of an earlier numo, or a worker, names no member.
    check(&gone.replace(" member:192.0.2.11", ""), "> delete machine m-cp1");
}

#[test]
fn a_node_that_is_obsolete_is_drained_and_goes_without_another() {
    let text = "node a worker v0\n version img2 finalizer\n host a img2 obsolete\n group w image:img2\n groups w\n pods a";
    check(text, "> admit a");
    check(
        &format!("{text}\n replacing a PreRules"),
        "> cordon a with the same taints",
    );
    check(
        &format!("{text}\n replacing a Drained cordoned"),
        "> journal a Released MachineLeaving",
    );
    let gone = "node z worker v0\n version img2 finalizer\n host z img2\n group w image:img2\n groups w";
    check(
        &format!("{gone}\n replacing a Changed machine:m-a"),
        "node a Done Done
         > journal a Done Done",
    );
}

/// A machine that has joined and that no node needs goes again.
#[test]
fn a_new_node_without_a_partner_is_obsolete() {
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img2\n host new img2
         group w image:img2\n groups w
         pending p node:new machine:m-new Ready reached";
    check(
        text,
        "> note new obsolete=true
         > forget p",
    );
    // There is one, whose turn takes it.
    check(&text.replace("host a img2", "host a img1"), "> admit a");
    check(
        &format!(
            "{}\n replacing a Admitted",
            text.replace("host a img2", "host a img1")
        ),
        "> claim p",
    );
    // It came with another image than the one that is asked for by now.
    check(
        &text
            .replace("host new img2", "host new img0")
            .replace("host a img2", "host a img1"),
        "> note new obsolete=true
         > forget p",
    );
}

/// Deadlines, on both sides of the moment.
#[test]
fn a_machine_that_does_not_join_in_time_is_deleted() {
    let text = |pending: &str| two(&format!("replacing a PreRules\n pending request for:a {pending}"));
    check(
        &text("node:new machine:m-new Creating late:-1"),
        "wake 1
         > nothing",
    );
    check(
        &text("node:new machine:m-new Creating late:0"),
        "> rewrite it Leave m-new",
    );
    // Without a deadline it is waited for.
    check(&text("node:new machine:m-new Creating patient"), "> nothing");
    check(&text("node:new machine:m-new Failed"), "> rewrite it Leave m-new");
    // What was just made may not be seen yet; the reference has made 30 machines of that.
    check(
        &text("node:new machine:m-new Terminated created:-60"),
        "> nothing",
    );
    check(
        &text("node:new machine:m-new Terminated created:-120"),
        "> rewrite it Leave m-new",
    );
    // It never was asked for, or nobody knows: it is looked for before anything is forgotten.
    check(&text("late:0"), "> rewrite it Leave -");
    let lost = text("leave");
    check(
        &lost,
        "? find in G-w
         > journal a PreRules JoinFailed",
    );
    let cluster = Cluster::parse(&lost);
    let name = cluster.observed.fleet.pending.keys().next().expect("one").clone();
    check(
        &format!("{lost}\n found {name} -"),
        "> forget it
         > journal a PreRules JoinFailed",
    );
    // It may have been made at the moment at which it was given up.
    check(
        &format!("{lost}\n found {name} -").replace("leave", "leave late:-100"),
        "wake 29
         > journal a PreRules JoinFailed",
    );
    check(
        &format!("{lost}\n found {name} m-new node:new"),
        "> rewrite it Leave m-new
         > journal a PreRules JoinFailed",
    );
    // An earlier PendingNode had the name, and another machine.
    check(
        &format!(
            "{}\n found {name} m-old node:old at:-20",
            lost.replace("leave", "leave created:-10")
        ),
        "? find in G-w
         > journal a PreRules JoinFailed",
    );
    check(
        &format!("{lost}\n found {name} - unknown:500"),
        "problem ProviderUnavailable
         > journal a PreRules JoinFailed",
    );
}

#[test]
fn what_becomes_of_machines_is_told_by_events() {
    let told = |text: &str| {
        let actions = decision(&Cluster::parse(text)).actions.into_iter();
        let events = actions.filter_map(|planned| planned.event);
        let words = |event: Event| format!("{} {} {}", event.warning, event.reason, event.note);
        events.map(words).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&two("replacing a Admitted")),
        ["false Joining a machine of group G-w is to be made for the place of Node a"]
    );
    let failed = "replacing a PreRules failed:3";
    let held = told(&two(failed));
    assert!(
        held.len() == 1 && held[0].starts_with("true JoinFailed 3 machines"),
        "{held:?}"
    );
    let lost = "replacing a PreRules\n pending request for:a leave node:new machine:m-new";
    assert_eq!(
        told(&two(lost)),
        [format!("true JoinFailed m-new of PendingNode {} did not join", {
            let cluster = Cluster::parse(&two(lost));
            cluster.observed.fleet.pending.keys().next().expect("one").clone()
        })]
    );
    assert_eq!(
        told(&pair("replacing a PreRelease cordoned")),
        ["false MachineLeaving its Node and its machine are to be deleted"]
    );
    let gone = format!(
        "{GONE}\n replacing a Released machine:m-a heir:new\n pending a leave node:a machine:m-a Terminated reached"
    );
    assert_eq!(
        told(&gone),
        ["false MachineLeaving machine m-a of Node a is gone"]
    );
    // The spec was edited in mid-roll, there and back or to a third image.
    let edited = two("replacing a PreRules image:img1");
    let ended = "false Superseded NodeVersion nv asks for another version by now";
    assert_eq!(told(&edited), [ended]);
    assert_eq!(
        told(&edited.replace("host a img1", "host a img2")),
        [ended],
        "it has the third one already"
    );
    // A deadline that is over, of what no turn waits for.
    let stray = told(&idle("pending p node:new machine:m-new Creating late:0"));
    assert_eq!(stray, ["true JoinFailed m-new of PendingNode p did not join"]);
    let joining = told(&idle("joining j node:z components:c2 late:0"));
    assert!(
        joining.len() == 1 && joining[0].starts_with("true JoinFailed JoiningNode j: found no Node z by "),
        "{joining:?}"
    );
}

/// A Job whose turn ended before its verdict is nobody's any more.
#[test]
fn jobs_of_rules_go_with_the_run_that_they_were_of() {
    let frees = |text: &str| {
        let mut cluster = Cluster::parse(text);
        let run = cluster.observed.changes.values().next().expect("a turn");
        let job = JobView {
            uid: "uid-job".to_owned(),
            created: crate::cluster::at(-60),
            deleting: None,
            run: run.spec.target.run_id.clone(),
            node: numo_core::names::node_hash("a"),
            deadline_seconds: None,
            edition: String::new(),
            rule: String::new(),
            ended: None,
            ended_at: None,
            started: true,
            ttl_seconds: None,
            wanted_ttl_seconds: None,
            trouble: None,
        };
        cluster.observed.jobs.insert(Key::new("ops", "backup-a"), job);
        let actions = decision(&cluster).actions.into_iter();
        let mut actions = actions.map(|planned| planned.action);
        actions.any(|action| matches!(action, Action::SetJobTtl { .. }))
    };
    let b_done = two("").replace("host b img1", "host b img2");
    let skipped = "replacing a Skipped reason:SkippedByPerson unleased";
    assert!(frees(&format!("{b_done}\n {skipped}")));
    // Another node of the run waits for its turn: a Job before the turn may be its own.
    assert!(!frees(&two(&format!("provider none\n {skipped}"))));
    assert!(!frees(&format!("{b_done}\n replacing a PreRules")));
    // The NodeVersion asks for another image by now.
    assert!(frees(&two(
        "replacing a Failed reason:Superseded image:img0 unleased"
    )));
}

/// The provider names the image otherwise than the NodeVersion, say: machines without end must not come of it.
#[test]
fn a_machine_that_joins_with_another_image_is_a_failed_try() {
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img0
         group w image:img2\n groups w
         replacing a PreRules
         pending request for:a node:new machine:m-new Ready reached";
    check(
        text,
        "node a PreRules JoinFailed ~ image img0
         > journal a PreRules JoinFailed",
    );
    // Once that is noted the new node goes.
    let noted = text.replace(
        "pending request for:a",
        "replacing a PreRules failed:1\n pending request for:a",
    );
    let cluster = Cluster::parse(text);
    let first = cluster.observed.fleet.pending.keys().next().expect("one").clone();
    let noted = noted.replace("pending request for:a", &format!("pending {first} for:a"));
    check(
        &noted,
        "> note new obsolete=true
         > forget it",
    );
}

/// A provider that gives out a node that serves for long as the machine that it made: the fleet would shrink by one for each.
#[test]
fn a_node_that_was_there_before_the_request_takes_nobodys_place() {
    let text = |image: &str| {
        format!(
            "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new {image}
             group w image:img2\n groups w
             replacing a PreRules
             pending request for:a created:-1 node:new machine:m-new Ready"
        )
    };
    for image in ["img0", "img2"] {
        check(
            &text(image),
            "problem ProviderContradicts ~ Node new was there before the machine was asked for
             not note new obsolete
             not forget it
             not note a",
        );
    }
    // Only a person ends that.
    check(
        &text("img2"),
        "node a PreRules ProviderContradicts
         ends a ClusterAdmin",
    );
}

/// What was asked for in a turn that ended has joined since, and is a node like any other: the provider would give it out once more.
#[test]
fn a_turn_that_begins_again_asks_for_another_machine() {
    let pending = "pending request for:a";
    let asked = |turn: &str| {
        let cluster = Cluster::parse(&two(&format!("replacing a PreRules {turn}\n {pending}")));
        cluster.observed.fleet.pending.keys().next().expect("one").clone()
    };
    let ids = [
        asked(""),
        asked("ended:1"),
        asked("ended:2"),
        asked("ended:2 failed:1"),
    ];
    assert_eq!(BTreeSet::from(ids.clone()).len(), 4, "{ids:?}");
    check(&two("replacing a PreRules ended:1"), "> intend a machine of G-w");
    // One that was on its way is waited for.
    check(
        &two(&format!(
            "replacing a PreRules ended:1\n pending {} for:a node:new machine:m-new Creating",
            ids[0]
        )),
        "node a PreRules Joining ~ machine m-new
         not > intend a machine",
    );
    // One that failed after that is known by its own number.
    let failed = format!(
        "replacing a PreRules ended:2 failed:1\n pending {} for:a node:new machine:m-new Creating",
        ids[2]
    );
    check(
        &two(&failed).replace("version img2", "version img2 surge:2"),
        "node a PreRules Joining ~ a new machine is to take its place",
    );
}

/// The machine of an attempt that was skipped may have the place of another node by now, and a provider gives the same one for the same
/// request.
#[test]
fn each_attempt_asks_for_a_machine_of_its_own() {
    let request = |lines: &str| {
        let cluster = Cluster::parse(&two(&format!("{lines}\n pending request for:a")));
        let mut names = cluster.observed.fleet.pending.into_keys();
        names.next().expect("a request")
    };
    let first = request("replacing a PreRules");
    let second = request("replacing a PreRules attempt:2");
    assert_eq!(first, request("replacing a PreRules attempt:1"));
    assert_ne!(first, second);
    assert_ne!(second, request("replacing a PreRules attempt:3"));
    assert_ne!(second, request("replacing a PreRules attempt:2 failed:1"));
    // What is on its way for an earlier attempt is waited for all the same.
    check(
        &two(&format!(
            "replacing a PreRules attempt:2\n pending {first} for:a node:new machine:m-new Creating"
        )),
        "node a PreRules Joining ~ machine m-new
         not intend a machine",
    );
}

/// A new node that goes away before the old one has left has its time to come back; then a person is told.
#[test]
fn who_waits_long_for_a_new_node_to_be_ready_is_told() {
    for step in ["PreRules", "Cordoned cordoned"] {
        for (dark, is_told) in [(60, false), (7200, true)] {
            let text = pair(&format!("replacing a {step}"));
            let away = format!("node new worker v0 NotReady dark:{dark}");
            let cluster = Cluster::parse(&text.replace("node new worker v0", &away));
            let decided = decision(&cluster);
            let why = &decided.report.nodes["a"].why;
            assert!(
                why.message
                    .contains("Node new, which takes its place, is not Ready"),
                "{why:?}"
            );
            assert_eq!(
                why.who() == Actor::ClusterAdmin,
                is_told,
                "{step} {dark}: {why:?}"
            );
            assert_eq!(why.until.is_none(), is_told, "{step} {dark}: {why:?}");
            assert!(is_told || decided.wake_at <= why.until, "{step} {dark}");
        }
    }
}

/// An image that never boots costs a bounded number of machines, and no old node.
#[test]
fn machines_that_do_not_join_are_tried_a_few_times() {
    let late = "pending request for:a node:new machine:m-new Terminating leave";
    check(
        &two(&format!("replacing a PreRules\n {late}")),
        "> journal a PreRules JoinFailed",
    );
    check(&two("replacing a PreRules failed:2"), "> intend a machine of G-w");
    check(
        &two("replacing a PreRules failed:3"),
        "node a Held JoinFailed ~ image img2
         > journal a Held JoinFailed",
    );
    let held =
        two("replacing a Held failed:3 reason:JoinFailed").replace("version img2", "version img2 surge:2");
    check(
        &held,
        "node a Held JoinFailed ~ numo retry a
         > admit b",
    );
    // None is made for others of the group either.
    check(
        &format!("{held}\n replacing b Admitted"),
        "node b PreRules JoinFailed
         > nothing",
    );
    check(
        &two("replacing a Held failed:3 reason:JoinFailed retry"),
        "> journal a Admitted Admitting attempt 2",
    );
    check(
        &two("replacing a Held failed:3 reason:JoinFailed skip"),
        "> restore a
         > journal a Skipped SkippedByPerson
         > release lease a",
    );
}

#[test]
fn a_machine_that_joins_after_all_is_kept() {
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img2
         group w image:img2\n groups w
         replacing a PreRules
         pending request for:a leave node:new machine:m-new Ready";
    check(
        text,
        "> rewrite it Join m-new
         > journal a PreRules JoinFailed",
    );
    // One of another version goes.
    check(
        &text.replace("host new img2", "host new img0"),
        "> note new obsolete=true
         > forget it
         > journal a PreRules JoinFailed",
    );
}

/// A machine that was given up goes by another id until it is made, or its Node by another name until that joins.
#[test]
fn a_machine_that_joins_late_under_another_name_is_kept_too() {
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img2 machine:m-new
         group w image:img2\n groups w
         replacing a PreRules";
    let early =
        format!("{text}\n pending request for:a leave node:m machine:early-m Ready\n told early-m again:10");
    let named = format!("{text}\n pending request for:a leave node:m machine:m-new Ready");
    let cluster = Cluster::parse(&early);
    let name = cluster.observed.fleet.pending.keys().next().expect("one").clone();
    // As long as it is not refused, nobody looks for it again.
    check(&early, "not ? find");
    let refused = format!("{early} problem:late");
    check(&refused, "? find in G-w");
    check(&named, "? find in G-w\n problem ProviderContradicts");
    for text in [&refused, &named] {
        check(
            &format!("{text}\n found {name} m-new node:new"),
            "> rewrite it Leave m-new
             > journal a PreRules JoinFailed",
        );
        // It was heard long ago.
        check(
            &format!("{text}\n found {name} m-new node:new at:-100"),
            "? find in G-w",
        );
        for unsaid in ["-", "- unknown:500"] {
            check(&format!("{text}\n found {name} {unsaid}"), "not > rewrite");
        }
    }
    check(
        &format!("{refused}\n found {name} early-m node:m"),
        "not > rewrite",
    );
    // What numo has not asked for is not looked for.
    let other = refused.replace("pending request for:a", "pending p");
    check(&other, "not ? find");
}

/// It was given to its turn before, which would give it to itself again and again.
#[test]
fn a_machine_that_joins_after_all_is_taken_by_the_turn_that_it_failed() {
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img2
         group w image:img2\n groups w
         replacing a PreRules
         pending request for:a node:new machine:m-new Creating";
    let cluster = Cluster::parse(text);
    let first = cluster.observed.fleet.pending.keys().next().expect("one").clone();
    let noted = text.replace(
        "replacing a PreRules\n         pending request for:a",
        &format!("replacing a PreRules failed:1\n         pending {first} for:a"),
    );
    assert_ne!(noted, text);
    check(
        &noted,
        "node a PreRules WaitingForTurn
         > nothing",
    );
    check(
        &noted.replace("Creating", "Ready reached"),
        "> note new donor=a
         > note a heir=new",
    );
}

/// Nothing is deleted that is not certain.
#[test]
fn a_provider_that_lies_has_nothing_deleted() {
    // The same id twice.
    check(
        &two("pending p leave node:p machine:m-p Ready\n pending q leave node:q machine:M-P Ready"),
        "problem ProviderContradicts
         not > delete",
    );
    // That of a node that is there.
    check(
        &two("pending p leave node:p machine:m-a Ready"),
        "problem ProviderContradicts
         not > delete",
    );
    // A machine that is not there: it never joins, and its deadline ends it.
    check(
        &two("replacing a PreRules\n pending request for:a node:ghost machine:m-ghost Ready late:0"),
        "> rewrite it Leave m-ghost",
    );
    // The new node has the name that was told, and another machine.
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img2 machine:m-other
         group w image:img2\n groups w
         replacing a PreRules
         pending request for:a node:new machine:m-new Ready";
    check(text, "> nothing");
}

#[test]
fn halves_of_pairs_lose_their_mark() {
    let text = "node a worker v0\n node b worker v0\n version img2 paused\n group w image:img2\n groups w";
    check(
        &format!("{text}\n host a img1 heir:gone\n host b img2"),
        "> note a -heir",
    );
    check(
        &format!("{text}\n host a img1 heir:b\n host b img2"),
        "> note a -heir",
    );
    check(
        &format!("{text}\n host a img1\n host b img2 donor:a"),
        "> note b -donor",
    );
    // Its donor is gone, and nobody's turn waits for that.
    check(
        &format!("{text}\n host a img2\n host b img2 donor:gone"),
        "> note b -donor",
    );
    check(
        &format!("{text}\n host a img1 heir:b\n host b img2 donor:a"),
        "node a Selected Suspended
         > nothing",
    );
}

/// Nobody else would be replaced for its machine, and one more would stay for each node that is left out: they count against the surge, and go.
#[test]
fn the_new_node_of_one_that_is_left_out_goes() {
    let text = "node a worker v0\n node b worker v0\n version img2 paused\n group w image:img2\n groups w";
    let skipped = "replacing a Skipped reason:SkippedByPerson unleased";
    check(
        &format!("{text}\n host a img1 heir:b\n host b img2 donor:a\n {skipped}"),
        "> note a -heir
         > note b -donor obsolete=true",
    );
    // A crash between the two.
    check(
        &format!("{text}\n host a img1\n host b img2 donor:a\n {skipped}"),
        "> note b -donor obsolete=true",
    );
    // The same journal of what is asked for no more leaves nobody out.
    check(
        &format!("{text}\n host a img1\n host b img2 donor:a\n {skipped} image:img0"),
        "> note b -donor",
    );
}

/// Nobody is left who would understand them, and what is to go would go with the next NodeVersion.
#[test]
fn a_nodeversion_that_goes_takes_the_marks_of_what_it_has_begun_with_it() {
    let text = "node a worker v0\n node b worker v0\n node c worker v0\n group w image:img2\n groups w
         host a img1 heir:b\n host b img2 donor:a\n host c img1 obsolete";
    check(
        &format!("{text}\n version img2 deleting finalizer"),
        "> note a -heir
         > note b -donor
         > note c -obsolete",
    );
    let gone =
        "node a worker v0\n node b worker v0\n group w image:img2\n groups w\n host a img1\n host b img2";
    check(
        &format!("{gone}\n version img2 deleting finalizer"),
        "> finalizer 0 off",
    );
    // What was let go is finished.
    check(
        &GONE.replace(" finalizer", " deleting finalizer").replace(
            "groups w",
            "groups w\n replacing a Released machine:m-a heir:new\n pending a leave node:a machine:m-a",
        ),
        "> delete machine m-a",
    );
    // A turn that ends gives its node back first.
    check(
        &format!("{text}\n version img2 deleting finalizer\n replacing a PreRules"),
        "> restore a
         > journal a Failed RunGivenUp
         > release lease a
         > note b -donor
         > note c -obsolete",
    );
}

#[test]
fn a_nodeversion_that_is_edited_in_mid_roll_takes_its_nodes_up_anew() {
    // The turn is for img1, and img2 is asked for by now; the machine that was made for it has img1.
    let text = "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img0 heir:new\n host new img1 donor:a
         group w image:img2\n groups w\n pods a
         replacing a Cordoned image:img1 cordoned";
    check(
        text,
        "node a Failed Superseded
         > restore a uncordoned
         > journal a Failed Superseded
         > release lease a
         > note a -heir
         > note new -donor obsolete=true",
    );
    // Back to the image that the node has: its place is not taken, and the machine that was made for it is outdated.
    let back =
        "node a worker v0\n node new worker v0\n version img2\n host a img2 heir:new\n host new img1 donor:a
         group w image:img2\n groups w";
    check(
        back,
        "node a Done UpToDate
         node new Selected NothingTakesItsPlace
         > note a -heir
         > note new -donor obsolete=true",
    );
    // What was let go is finished whatever is asked for by now.
    let gone = GONE.replace("version img2", "version img3");
    let turn = "replacing a Released image:img2 machine:m-a heir:new\n pending a leave node:a machine:m-a";
    check(
        &format!("{gone}\n {turn}"),
        "> group w img2 outdated
         > set image G-w img3
         > delete machine m-a",
    );
}

#[test]
fn stops_budgets_and_windows_hold_without_code_of_their_own() {
    check(
        &idle("budget all selector:all max:1 paused"),
        "node a Selected Stopped
         > nothing",
    );
    check(
        &idle("node c worker v0 NotReady\n host c img2\n budget all selector:all max:1"),
        "node a Selected BudgetExhausted
         > nothing",
    );
    let closed = two("").replace(
        "finalizer",
        r#"spec {"mutex": {"window": {"openings": [{"days": ["mon"], "startTime": "22", "endTime": "23"}]}}}"#,
    );
    check(
        &closed,
        "node a Selected OutsideWindow
         > nothing",
    );
    check(
        &idle("").replace("version img2", "version img2 paused"),
        "hold Suspended
         > nothing",
    );
    let few = two("").replace(
        "finalizer",
        r#"finalizer spec {"surge": 5, "mutex": {"maxUnavailable": 1}}"#,
    );
    check(
        &few,
        "node b Selected WaitingForTurn
         > admit a",
    );
    let first = two("")
        .replace("node b worker v0", "node b worker v0 label:canary=yes")
        .replace(
            "finalizer",
            r#"finalizer spec {"surge": 5, "mutex": {"first": {"matchLabels": {"canary": "yes"}}}}"#,
        );
    check(
        &first,
        "node a Selected FirstNodes
         > admit b",
    );
}

#[test]
fn a_spec_that_cannot_be_is_refused_in_words() {
    check(
        "node a worker v0\n version img2 spec {\"image\": \"\"}\n host a img1\n group w image:img2\n groups w",
        "hold InvalidField ~ spec.image
         > nothing",
    );
    check(
        &idle("").replace("version img2", "version img2 surge:some"),
        "hold InvalidField ~ spec.surge
         > nothing",
    );
    check(
        &two("").replace("finalizer", r#"spec {"mutex": {"rules": [{"name": "none"}]}}"#),
        "hold RuleNotFound
         > nothing",
    );
}

#[test]
fn a_nodeversion_that_goes_gives_everything_back() {
    let text = |rest: &str| pair(rest).replace("version img2", "version img2 deleting");
    check(
        &text("replacing a Cordoned cordoned"),
        "> restore a uncordoned
         > journal a Failed RunGivenUp
         > release lease a
         > note new -donor",
    );
    // A machine that is not made yet is not made any more, and one that was let go goes.
    check(
        &two("pending p machine:m-p node:p Creating").replace("version img2", "version img2 deleting"),
        "> rewrite p Leave m-p",
    );
    let gone = GONE.replace("version img2", "version img2 deleting");
    check(
        &format!("{gone}\n replacing a Released machine:m-a heir:new\n pending a leave node:a machine:m-a"),
        "> delete machine m-a",
    );
    check(
        "node a worker v0\n version img2 deleting finalizer\n host a img1\n group w image:img2\n groups w",
        "> finalizer 0 off",
    );
}

/// Nobody is left who would switch it on later, so the NodeVersion stays; silently it does not.
#[test]
fn a_nodeversion_that_goes_says_who_keeps_the_autoscaler_from_running() {
    let text = "node a worker v0\n version img2 deleting finalizer\n host a img2\n group w image:img2\n groups w\n strategy";
    let who = |text: &str| decision(&Cluster::parse(text)).report.hold.map(|why| why.who());
    check(
        text,
        "phase Leaving
         hold Deleting ~ the cluster autoscaler is being switched on
         not > finalizer",
    );
    assert_eq!(who(text), Some(Actor::Numo));
    // It was switched on, and somebody has scaled it down again.
    let kept = format!("{text} on replicas:0");
    check(
        &kept,
        "phase Leaving
         hold Deleting ~ spec.replicas: found 0, wanted 1
         hold Deleting ~ AutoscalingStrategy strategy is enabled
         not > finalizer",
    );
    assert_eq!(who(&kept), Some(Actor::ClusterAdmin));
    check(&format!("{text} on"), "phase Leaving\n > finalizer 0 off");
    check(
        &format!("{text} on gone replicas:0"),
        "phase Leaving\n > finalizer 0 off",
    );
    // What is in hand comes first.
    check(
        &format!("{text} on replicas:0\n pending p machine:m-p node:p Creating"),
        "hold Deleting ~ numo restores",
    );
}

#[test]
fn two_nodeversions_have_each_their_groups() {
    let text = "node a worker v0\n node b worker v0
         version img2 finalizer
         version img3 name:other finalizer
         host a img1 group:w
         host b img1 group:v
         group w image:img2
         group v image:img3 of:other
         groups w,v";
    check(
        text,
        "not node b
         > admit a",
    );
    let cluster = Cluster::parse(text);
    let observed = &cluster.observed;
    let sets = Sets::of(&observed.fleet.versions["other"], observed);
    let names: Vec<&str> = sets.all().map(|(node, _)| node.name.as_str()).collect();
    assert_eq!(names, ["b"]);
}

/// It may be gone for a moment, and its nodes would get the image of another one, without its rules.
#[test]
fn a_group_whose_nodeversion_is_gone_is_left_alone_and_named() {
    let text = |of: &str| {
        format!(
            "node a worker v0\n node b worker v0
             version img2
             host a img2\n host b img1 group:v
             group w image:img2\n group v image:img1 of:{of}
             groups w,v"
        )
    };
    check(
        &text("gone"),
        "problem InvalidField ~ ScalingGroup v spec.nodeImage: found gone, and there is no such NodeVersion
         not node b
         > nothing",
    );
    let other = text("other").replace("host a", "version img1 name:other\n host a");
    check(&other, "not problem\n > nothing");
    // One that names none is the only one's, and nobody's where there are two.
    let unnamed = |text: &str| {
        let mut cluster = Cluster::parse(text);
        let group = cluster.observed.fleet.groups.get_mut("v").expect("one");
        group.spec.node_image = None;
        cluster
    };
    check_cluster(
        &unnamed(&text("nv")),
        "node b Selected Admitting\n > set image G-v img2\n > finalizer on",
    );
    check_cluster(
        &unnamed(&other),
        "problem InvalidField ~ ScalingGroup v spec.nodeImage: found none, and there are several NodeVersions
         not node b
         > nothing",
    );
    // A turn of it goes no further, and ends in no false words.
    let turn = text("gone").replace("version img2", "version img2 finalizer");
    let turn = format!("{turn}\n replacing b PreRules");
    check(
        &turn,
        "node b PreRules InvalidField ~ ScalingGroup v spec.nodeImage: found gone, and there is no such NodeVersion
         > journal b closed",
    );
}

/// It is still of the version before, whatever becomes of the object that tells whose it is.
#[test]
fn a_turn_whose_group_is_of_nobody_waits_and_is_not_told_to_be_over() {
    let text = |group: &str| {
        format!(
            "node b worker v0\n node c worker v0
             version img2 finalizer\n version img1 name:aa
             host b img1 group:v heir:c\n host c img2 group:v donor:b
             group w of:aa\n {group}
             groups w,v
             pods b
             replacing b PreRelease cordoned"
        )
    };
    let mut unnamed = Cluster::parse(&text("group v image:img2"));
    unnamed
        .observed
        .fleet
        .groups
        .get_mut("v")
        .expect("one")
        .spec
        .node_image = None;
    check_cluster(
        &unnamed,
        "node b ~ ScalingGroup v spec.nodeImage: found none, and there are several NodeVersions
         not > restore b
         not > journal b Failed",
    );
    check(
        &text(""),
        "node b ~ found no ScalingGroup
         not > restore b
         not > journal b Failed",
    );
    check(
        &text("group v image:img1 of:aa"),
        "node b Failed Superseded ~ is of NodeVersion aa by now",
    );
}

/// Only the ScalingGroup told whose its nodes are.
#[test]
fn a_deleted_scaling_group_with_nodes_becomes_nobodys_where_there_are_several() {
    let text = |rest: &str| {
        format!(
            "node a worker v0\n node b worker v0\n version img2\n {rest}
             host a img2\n host b img1 group:v\n group w image:img2\n groups w,v"
        )
    };
    let whose = |text: &str| {
        let actions = decision(&Cluster::parse(text)).actions.into_iter();
        let mut made = actions.filter_map(|planned| match planned.action {
            Action::Fleet(FleetAction::CreateGroup { spec, .. }) => Some(spec.node_image),
            _ => None,
        });
        made.next()
    };
    let two = text("version img1 name:other");
    assert_eq!(whose(&two), Some(None));
    assert_eq!(whose(&text("")), Some(Some("nv".to_owned())));
    // Nothing is replaced in one that has no nodes yet.
    let empty = two.replace("host b img1 group:v", "host b img1");
    assert_eq!(whose(&empty), Some(Some("nv".to_owned())));
    // Whose group is known by its machine alone may be as well.
    let mut unnoted = Cluster::parse(&two.replace("host b img1 group:v", "host b - bare"));
    let provider = &mut unnoted.observed.fleet.provider;
    let facts = MachineFacts {
        image: "img1".to_owned(),
        group_id: group_id("v"),
    };
    let heard = Heard {
        at: now(),
        said: Ok(facts),
    };
    provider.hear_facts("m-b", heard);
    let made = decision(&unnoted).actions.into_iter();
    let mut made = made.filter(|planned| {
        matches!(&planned.action, Action::Fleet(FleetAction::CreateGroup { spec, .. }) if spec.node_image.is_none())
    });
    assert!(made.next().is_some());
}

/// Whose a new node is, the first NodeVersion notes: until then it is not like any other.
#[test]
fn a_new_node_of_the_second_nodeversion_is_waited_for_until_its_group_is_noted() {
    let text = |new: &str| {
        format!(
            "node b worker v0\n node new worker v0
             version img3 name:aa
             version img2 finalizer
             host b img1 group:v\n host new {new}
             group w of:aa\n group v image:img2
             groups w,v
             replacing b PreRules
             pending request for:b node:new machine:m-new group:v Ready reached"
        )
    };
    check(
        &text("- bare"),
        "node b PreRules Joining
         > nothing",
    );
    check(
        &text("img2 group:v"),
        "> note new donor=b
         > note b heir=new",
    );
}

/// One that had the autoscaler run under the other would fight with it for ever.
#[test]
fn the_autoscaler_rests_while_another_nodeversion_has_a_machine_in_hand() {
    let text = "node a worker v0\n node b worker v0
         version img2
         version img3 name:other finalizer
         host a img2 group:w\n host b img3 group:v
         group w image:img2\n group v image:img3 of:other
         groups w,v
         strategy replicas:0";
    let restored = "> autoscaler on\n > autoscaler 1 of 0 with ./cluster-autoscaler";
    check(text, restored);
    let in_hand = "pending p leave owner:uid-other node:p machine:m-p group:v";
    check(&format!("{text}\n {in_hand}"), "> nothing");
    let leaves = text.replace("name:other finalizer", "name:other finalizer deleting");
    check(&format!("{leaves}\n {in_hand}"), "> nothing");
    check(&leaves, restored);
}

/// The nodes that wait for it wait for a person, and the cluster stands with its autoscaler meanwhile.
#[test]
fn the_autoscaler_runs_while_the_control_plane_keeps_the_others_waiting_for_a_person() {
    let text = |cp: &str| {
        format!(
            "node cp1 master v0 {cp}\n node a worker v0
             version img2 finalizer
             host cp1 img1 group:cp\n host a img1
             group w image:img2\n group cp image:img2 role:ControlPlane
             groups w,cp
             strategy on replicas:1"
        )
    };
    check(
        &text("NotReady"),
        "node a Selected ControlPlaneFirst
         > nothing",
    );
}

/// What a running operator of another project, or an older numo, has left half done is taken up.
#[test]
fn what_the_reference_has_begun_is_adopted() {
    // It made a machine, and stopped.
    check(&two("pending new node:new machine:m-new Creating"), "> admit a");
    check(
        &two("replacing a Admitted\n pending new node:new machine:m-new Creating"),
        "> claim new",
    );
    // It deleted the Node, and the machine is left.
    check(
        &two("pending old leave node:old machine:m-old Ready"),
        "> delete machine m-old",
    );
    check(
        &two("pending old leave node:old machine:m-old Terminated reached"),
        "> forget old",
    );
    // It has made one half of a pair, the new node first.
    let half = two("pending new node:new machine:m-new Ready reached")
        .replace("version img2", "node new worker v0\n version img2")
        .replace("group w", "host new img2 donor:a\n group w");
    check(&half, "> note a heir=new");
    check(
        &half.replace("host a img1", "host a img1 heir:new"),
        "> forget new\n > admit a",
    );
    // It has made a pair.
    check(&pair(""), "> admit a");
    check(&pair("replacing a PreRules"), "> cordon a with the same taints");
}

/// The table of checks knows nothing of the decision.
#[test]
fn the_table_of_checks_stops_what_must_not_be_done_to_machines() {
    let owner = Owner::node_version("nv");
    let breaches = |text: &str, action: Action| {
        let cluster = Cluster::parse(text);
        let snapshot = Snapshot {
            now: crate::cluster::now(),
            observed: &cluster.observed,
            owner: &owner,
            asked: None,
        };
        let mut decision = numo_core::Decision {
            actions: vec![Planned {
                chain: "a".to_owned(),
                action,
                event: None,
            }],
            ..numo_core::Decision::default()
        };
        let found = invariant::lint(&snapshot, &mut decision);
        found.iter().map(|breach| breach.invariant).collect::<Vec<u8>>()
    };
    let delete_node = || {
        Action::Fleet(FleetAction::DeleteNode {
            node: "a".to_owned(),
            uid: "uid-a".to_owned(),
        })
    };
    let delete_machine = |id: &str| {
        Action::Fleet(FleetAction::DeleteMachine {
            pending: "a".to_owned(),
            provider_id: id.to_owned(),
        })
    };
    assert_eq!(
        breaches(&pair("replacing a Drained cordoned"), delete_node()),
        [1]
    );
    let leaves = "replacing a Released cordoned machine:m-a heir:new\n pending a leave node:a machine:m-a";
    assert_eq!(
        breaches(&pair(&format!("{leaves} Terminating")), delete_node()),
        [1]
    );
    assert_eq!(
        breaches(&pair(&format!("{leaves} Terminated")), delete_node()),
        Vec::<u8>::new()
    );
    assert_eq!(breaches(&pair(leaves), delete_machine("m-a")), Vec::<u8>::new());
    assert_eq!(
        breaches(&pair("pending a leave node:a machine:m-a"), delete_machine("m-a")),
        [5]
    );
    assert_eq!(
        breaches(&two("pending a node:a machine:m-z"), delete_machine("m-z")),
        [5]
    );
    assert_eq!(breaches(&two(""), delete_machine("")), [5]);
    let two_of_one = two("pending a leave node:x machine:m-z\n pending b leave node:y machine:m-z");
    assert_eq!(breaches(&two_of_one, delete_machine("m-z")), [5]);
    let make = Action::Fleet(FleetAction::CreateMachine {
        pending: "p".to_owned(),
        uid: "u".to_owned(),
        group_id: "G-w".to_owned(),
    });
    assert_eq!(breaches(&two(""), make), [5]);
    // A journal that would say that a node was let go: nothing has its place, or it was not drained.
    let released = |text: &str| {
        let cluster = Cluster::parse(text);
        let change = cluster.observed.changes.values().next().expect("a turn").clone();
        let mut status = change.status.clone();
        status.step = Some(numo_api::Step::Released);
        breaches(
            text,
            Action::WriteJournal {
                key: change.key,
                uid: change.uid,
                resource_version: change.resource_version,
                status: Box::new(status),
            },
        )
    };
    assert_eq!(released(&pair("replacing a Cordoned cordoned")), [1]);
    assert_eq!(released(&pair("replacing a Drained cordoned")), Vec::<u8>::new());
    let dark =
        pair("replacing a Drained cordoned").replace("node new worker v0", "node new worker v0 NotReady");
    assert_eq!(released(&dark), [1]);
    let alone = two("replacing a Drained cordoned");
    assert_eq!(released(&alone), [1]);
    // A cordon out of turn.
    let cluster = Cluster::parse(TWO);
    let patch = NodePatch {
        unschedulable: Some(true),
        ..NodePatch::of(&cluster.observed.nodes["a"], NodePurpose::Cordon)
    };
    assert_eq!(breaches(TWO, Action::PatchNode(patch)), [1]);
}

/// As a Plan and a NodeMaintenance do: to resume it would change nothing while the other operator runs.
#[test]
fn a_paused_node_version_names_the_operator_that_it_is_left_to_first() {
    let paused = two("replacing a PreRules").replace("version img2", "version img2 paused");
    check(&paused, "node a PreRules Suspended");
    let mut beside = Cluster::parse(&paused);
    let key = Key::new("kube-system", "constellation-operator-controller-manager");
    let runs = Rival {
        what: ForeignController::NodeVersion,
        lingers: None,
    };
    beside.observed.foreign_controllers.insert(key, runs);
    check_cluster(&beside, "node a PreRules ForeignController");
}
