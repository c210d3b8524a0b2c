//! The operator that numo replaces is back in mid-run: nothing begins, what is under way is finished or given back, and what
//! numo cordoned is named with its way back. Of every owner.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster},
};
use numo_core::{Owner, Snapshot, action::Action};

fn plan(rest: &str) -> String {
    format!(
        "node a worker v0
         node b worker v0
         {PLAN}
         {BY_NUMO}
         {rest}"
    )
}

const PLAN: &str = r#"plan concurrency:1 finalizer applying:a drain spec {"upgrade":{"image":"u"}}"#;
const BY_NUMO: &str = r#"binding x spec {"ownerSelector":{"kind":"Plan"},"drainBy":"Numo"}"#;

fn maintenance(rest: &str) -> String {
    format!(
        "node a worker 4.16.0
         node b worker 4.16.0
         maintenance a finalizer phase:Running counted:9
         {rest}
         foreign"
    )
}

fn run(change: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0 age:20
         rule disk Pre
         run finalizer {{}}
         change a PreRelease pin:4.17.0 verdict:disk/Pre/1/Pass {change}
         foreign-runs"
    )
}

#[test]
fn a_turn_that_has_disrupted_nothing_is_restored() {
    check(
        &plan("begun a PreRules\n keeps a\n foreign-plans"),
        "hold ForeignController\n node a PreRules ForeignController\n wake 60\n > journal a closed",
    );
    check(
        &plan("begun a PreRules closed:60\n keeps a\n foreign-plans"),
        "node a Selected ForeignController\n > journal a Selected ForeignController attempt 2",
    );
    check(
        &plan("begun a Selected reason:ForeignController attempt:2 closed:5\n keeps a\n foreign-plans"),
        "hold ForeignController\n > restore a\n > release lease a",
    );
    check(
        &run(""),
        "hold ForeignController\n node a PreRelease ForeignController\n wake 60\n > journal a closed",
    );
    check(
        &run("closed:60"),
        "node a Selected ForeignController\n > journal a Selected ForeignController attempt 2",
    );
    check(
        &maintenance("kept a\n turn a PreRules closed:60"),
        "node a Selected ForeignController\n > journal a Selected ForeignController attempt 2",
    );
}

#[test]
fn nothing_new_is_taken_for_a_turn_that_has_just_begun() {
    check(
        &plan("begun a new\n foreign-plans"),
        "node a PreRules ForeignController\n > journal a closed",
    );
    check(
        &maintenance("turn a new"),
        "node a PreRelease ForeignController\n > journal a closed",
    );
    let fresh = run("").replace("node a worker 4.16.0 turn", "node a worker 4.16.0");
    check(&fresh, "node a PreRelease ForeignController\n > journal a closed");
}

/// The journal that the decision writes of node a.
fn journal(cluster: &Cluster, owner: &Owner) -> Option<(Option<String>, String, bool)> {
    let snapshot = Snapshot {
        now: crate::cluster::now(),
        observed: &cluster.observed,
        owner,
        asked: None,
    };
    let decision = numo_core::decide(&snapshot, &cluster.answers);
    decision
        .actions
        .into_iter()
        .find_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some((
                status.reason,
                status.message.unwrap_or_default(),
                status.closed_since.is_some(),
            )),
            _ => None,
        })
}

#[test]
fn a_node_that_numo_cordoned_is_named_with_its_way_back() {
    let cluster = Cluster::parse(&plan(
        "begun a Cordoned\n keeps a cordoned\n pod web on a of:ReplicaSet/web\n foreign-plans",
    ));
    check_cluster(
        &cluster,
        "hold ForeignController
         node a Cordoned ForeignController ~ Node a keeps the cordon that numo made: `numo skip a` takes it back",
    );
    let owner = Owner::plan(crate::planned::key());
    let (reason, message, closed) = journal(&cluster, &owner).expect("a journal");
    assert_eq!(reason.as_deref(), Some("ForeignController"));
    assert!(message.contains("`numo skip a`") && closed, "{message}");
    // Told once.
    check(
        &plan(
            "begun a Cordoned reason:ForeignController closed:500\n keeps a cordoned\n pod web on a of:ReplicaSet/web\n foreign-plans",
        ),
        "node a Cordoned ForeignController\n > nothing",
    );
    // One that is drained and kept so, too: no pod is evicted, no uncordoning corrected.
    let drained = "kept a uncordoned\n turn a Drained reason:ForeignController closed:500\n pod web on a of:ReplicaSet/web";
    check(&maintenance(drained), "hold ForeignController\n > nothing");
    check(
        &maintenance(&drained.replace("uncordoned", "cordoned")),
        "node a Drained ForeignController ~ `numo skip a`\n > nothing",
    );
}

#[test]
fn the_lease_of_a_disrupted_node_is_renewed_for_a_day() {
    let at = |closed: &str| {
        maintenance(&format!(
            "kept a cordoned renewed:-1900\n turn a Drained reason:ForeignController closed:{closed}\n pod x on a finished"
        ))
    };
    check(&at("500"), "> renew lease a");
    check(&at("86399"), "> renew lease a");
    check(&at("86400"), "> nothing");
}

#[test]
fn a_person_takes_the_cordon_back() {
    check(
        &plan("begun a Cordoned directive:Skip\n keeps a cordoned\n foreign-plans"),
        "node a Skipped SkippedByPerson
         > restore a uncordoned
         > journal a Skipped SkippedByPerson
         > release lease a",
    );
    check(
        &maintenance("kept a cordoned\n turn a Drained skip generation:2"),
        "node a Skipped SkippedByPerson\n > uncordon a Some(false) with no taints",
    );
    check(
        &maintenance("turn a Drained skip generation:2").replace(
            "a worker 4.16.0",
            "a worker 4.16.0 lease:node-maintenance renewed:-5",
        ),
        "> release lease a\n > journal a Skipped SkippedByPerson",
    );
    check(
        &maintenance("kept a\n turn a Drained skip generation:2"),
        "> unshield a",
    );
    // Without a rival as well, and it stays so until somebody asks for it again.
    let alone = |turn: &str| maintenance(turn).replace("foreign", "");
    check(
        &alone("turn a Skipped reason:SkippedByPerson"),
        "maintenance Failed\n node a Skipped SkippedByPerson\n > nothing",
    );
    check(
        &alone("turn a Skipped reason:SkippedByPerson retry generation:2"),
        "> journal a Selected Admitting attempt 2",
    );
}

#[test]
fn what_runs_comes_to_its_end_and_the_node_is_restored() {
    let plan = |rest: &str| {
        format!(
            "node a worker v0\n node b worker v0\n plan concurrency:1 finalizer applying:a cordon\n {rest}\n foreign-plans"
        )
    };
    check(
        &plan("begun a Released boot:b1\n keeps a cordoned\n planjob a running"),
        "hold ForeignController\n node a Released UpgradeStarting\n > nothing",
    );
    // No other node begins after it, and no failed Job is made anew.
    check(
        &plan("at a\n begun a Changed entered:Released boot:b1\n keeps a cordoned\n planjob a complete"),
        "hold ForeignController\n > restore a uncordoned\n > journal a Done\n > release lease a",
    );
    check(
        &plan("begun a Released failed-job:job-a boot:b1 attempt:2\n keeps a cordoned\n planjob a failed"),
        "hold ForeignController",
    );
}

#[test]
fn a_plan_that_is_deleted_restores_beside_the_rival() {
    check(
        &plan("begun a Cordoned\n keeps a cordoned\n foreign-plans")
            .replace("concurrency:1", "concurrency:1 deleting"),
        "> restore a uncordoned\n > journal a Failed RunGivenUp\n > release lease a",
    );
    // The finalizer of a NodeMaintenance is the rival's, too.
    check(
        &maintenance("foreign").replace("phase:Running", "deleting"),
        "hold ForeignController\n > nothing",
    );
}

#[test]
fn when_the_rival_goes_the_turn_goes_on() {
    check(
        &plan(
            "begun a Cordoned reason:ForeignController closed:500\n keeps a cordoned\n pod web on a of:ReplicaSet/web",
        ),
        "> evict web\n > journal a open",
    );
    check(
        &plan("begun a Cordoned\n keeps a cordoned\n pods a"),
        "> journal a Drained",
    );
}

#[test]
fn a_rival_that_is_on_its_way_out_is_a_rival() {
    check(
        "node a worker v0\n node b worker v0\n plan concurrency:1 cordon\n foreign-plans lingers:suc-1",
        "hold ForeignController ~ is at 0 or deleted, Pod suc-1 terminates\n > nothing",
    );
}

#[test]
fn what_the_rival_may_have_in_hand_is_left_to_it() {
    // A Job of another version may be the rival's by now.
    let outdated = |rival: &str| {
        plan(&format!(
            "begun a Cordoned reason:{} closed:500
             keeps a cordoned
             pod web on a of:ReplicaSet/web
             planjob b complete hash:old
             {rival}",
            if rival.is_empty() {
                "x"
            } else {
                "ForeignController"
            }
        ))
    };
    check(&outdated(""), "> evict web\n > remove job b");
    check(&outdated("foreign-plans"), "> nothing");
    // So is the finalizer that both operators have.
    let bare = "kept a cordoned\n turn a Drained reason:ForeignController closed:500";
    let bare = maintenance(bare).replace(" finalizer ", " ");
    check(
        &bare,
        "node a Drained ForeignController ~ `numo skip a`\n > nothing",
    );
}

/// A pair that the rival has made and drains: no PendingNode stands for it, and the cluster autoscaler rests.
const PAIR: &str = "node a worker v0\n node b worker v0
     version img2 finalizer
     host a img1 heir:b\n host b img2 donor:a
     strategy off\n group w image:img2\n groups w
     foreign-versions";

/// The operator that replaces nodes is back in mid-roll, and numo has worked on the NodeVersion before.
#[test]
fn nodes_machines_and_autoscalers_are_left_to_the_operator_that_replaces_nodes() {
    check(PAIR, "hold ForeignController\n > nothing");
    // Half a pair, a new node too many, a group of another image, a machine that is late, or gone, and a node that has just joined.
    let more = |rest: &str| format!("{PAIR}\n {rest}");
    for text in [
        PAIR.replace(" heir:b", ""),
        more("pending p node:b machine:m-b Ready reached")
            .replace(" donor:a", "")
            .replace("img1 heir:b", "img2"),
        more("image w img1"),
        more("groups w,other"),
        more("joining j node:b components:c2"),
        more("facts m-b img2 w").replace("host b img2 donor:a", "host b - bare"),
        more("pending p machine:m-p node:p late:1 Creating"),
        more("pending p machine:m-p node:p leave Terminated reached late:9000"),
        more("pending p machine:m-p node:p leave Ready late:1"),
        PAIR.replace("strategy off", "strategy on drifted"),
    ] {
        check(&text, "hold ForeignController\n > nothing");
    }
    // Without the rival numo would do all that.
    let alone = PAIR.replace("foreign-versions", "").replace(" heir:b", "");
    check(&alone, "> note b -donor");
}

/// A turn of numo's that has not disrupted its node is given back, whatever its new node is at.
#[test]
fn a_turn_that_waits_for_its_new_node_is_restored_to_the_rival() {
    let turn = |rest: &str| format!("{PAIR}\n replacing a PreRules closed:60\n {rest}");
    let joining = "pending p for:a machine:m-b node:b Creating";
    for text in [
        turn(""),
        turn(joining).replace(" heir:b", "").replace(" donor:a", ""),
        turn(joining)
            .replace(" heir:b", "")
            .replace(" donor:a", "")
            .replace("Creating", "Ready reached"),
    ] {
        check(
            &text,
            "node a Selected ForeignController\n > journal a Selected ForeignController attempt 2",
        );
    }
}

/// What numo has let go goes to its end: nobody else would take it up.
#[test]
fn a_machine_that_was_let_go_goes_beside_the_rival() {
    let turn = |rest: &str| format!("{PAIR}\n replacing a Released machine:m-a heir:b cordoned\n {rest}");
    check(&turn(""), "hold ForeignController\n > leave a m-a");
    let leaves = |state: &str| turn(&format!("pending a leave node:a machine:m-a {state}"));
    check(&leaves("Ready"), "> delete machine m-a");
    check(&leaves("Terminated reached"), "> delete node a");
    check(
        &leaves("Terminating").replace("Terminating", "Terminating\n state m-a Terminated"),
        "> status a Terminated reached",
    );
    let gone = |step: &str| {
        let text = leaves("Terminated reached").replace("a Released", step);
        text.replace("node a worker v0\n ", "")
            .replace("host a img1 heir:b\n ", "")
    };
    check(&gone("a Released"), "> journal a Changed MachineLeaving");
    check(&gone("a Changed"), "> forget a\n > note b -donor");
}
