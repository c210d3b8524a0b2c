//! Faults that the seeded simulator found, each as the one moment in which it was decided wrongly.

use crate::{
    cluster::Cluster,
    planned::{PLANS, UID},
    words::{check, check_cluster},
};
use numo_api::marks;
use numo_core::{
    Owner, Snapshot,
    action::{Action, NodePurpose},
    decide,
    observed::Key,
    owners::plan,
    verdict::Answers,
};

const PLAN: &str = "plan concurrency:1 cordon finalizer applying:a";

#[test]
fn a_node_that_is_changed_is_not_upgraded_once_more_because_its_job_is_gone() {
    // A Post rule failed, a person asked for it again, and the Job's TTL is over.
    check(
        &format!(
            "node a worker v0\n node b worker v0\n rule r Post\n {PLAN}
             begun a Changed boot:b1 attempt:2 entered:Changed
             keeps a
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"r\"}}]}}"
        ),
        "not > job a",
    );
}

#[test]
fn a_cordon_that_is_seen_after_the_end_of_its_job_does_not_stay() {
    let mut cluster = Cluster::parse(&format!(
        "node a worker v0\n node b worker v0\n {PLAN}
         begun a Released boot:b1
         keeps a
         planjob a complete"
    ));
    // The Job has cordoned the node, and the news of that is yet to come.
    cluster.observed.nodes.get_mut("a").expect("a node").unschedulable = false;
    let owner = cluster.owner();
    let snapshot = Snapshot {
        now: crate::cluster::now(),
        observed: &cluster.observed,
        owner: &owner,
        asked: None,
    };
    let decision = decide(&snapshot, &Answers::default());
    let mut patches = decision
        .actions
        .iter()
        .filter_map(|planned| match &planned.action {
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Uncordon => Some(patch),
            _ => None,
        });
    let patch = patches.next().expect("the node is given back");
    assert_eq!(patch.while_unschedulable, Some(false), "what was seen is tested");
}

#[test]
fn a_node_that_is_opened_after_its_drain_is_closed_again_before_its_upgrade() {
    let text = "node a worker v0\n node b worker v0\n pods a
         plan concurrency:1 finalizer applying:a drain spec {\"upgrade\":{\"image\":\"u\"}}
         begun a Drained boot:b1 entered:Cordoned entered:Drained
         keeps a done
         binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"drainBy\":\"Numo\"}";
    check(text, "not > job a upgrade");
    let cluster = Cluster::parse(text);
    let owner = cluster.owner();
    let snapshot = Snapshot {
        now: crate::cluster::now(),
        observed: &cluster.observed,
        owner: &owner,
        asked: None,
    };
    let decision = decide(&snapshot, &Answers::default());
    let cordons = decision.actions.iter().any(
        |planned| matches!(&planned.action, Action::PatchNode(patch) if patch.purpose == NodePurpose::Cordon),
    );
    assert!(cordons, "it is cordoned again: {:#?}", decision.actions);
}

#[test]
fn two_plans_that_share_a_node_do_not_take_its_machines_shield_from_each_other() {
    let plan = "plan concurrency:1 finalizer applying:a";
    let text = format!(
        "node a worker v0\n node b worker v0\n {plan}\n other-plan q
         begun a new in-service
         keeps a in-service
         machine m of a shielded:uid-q"
    );
    let mut cluster = Cluster::parse(&text);
    let other = &cluster.observed.plans[&Key::new(PLANS, "q")];
    let node = &cluster.observed.nodes["a"];
    let (key, spec) = plan::reservation(other, node, ("hash", "v1"), true);
    let mut turn = cluster
        .observed
        .changes
        .values()
        .find(|change| change.spec.owner_ref.uid == UID)
        .expect("a turn")
        .clone();
    turn.key = key.clone();
    turn.spec = spec;
    let writes = |cluster: &Cluster| {
        let snapshot = Snapshot {
            now: crate::cluster::now(),
            observed: &cluster.observed,
            owner: &Owner::plan(crate::planned::key()),
            asked: None,
        };
        let actions = decide(&snapshot, &Answers::default()).actions;
        let mut actions = actions.iter();
        actions.any(|planned| matches!(planned.action, Action::PatchMachine(_)))
    };
    assert!(
        writes(&cluster),
        "the shield of an owner without a turn is taken over"
    );
    cluster.observed.changes.insert(key, turn);
    assert!(
        !writes(&cluster),
        "it is left to who has the node in hand as well"
    );
}

#[test]
fn agents_whose_server_was_left_out_wait_for_a_person() {
    let mut cluster = Cluster::parse(
        "node s master v0 kubelet:v0\n node a worker v0\n node b worker v0
         plan concurrency:1 cordon finalizer spec {\"prepare\":{\"image\":\"i\",\"args\":[\"prepare\",\"servers\"]}}
         other-plan servers complete",
    );
    let servers = Key::new(PLANS, "servers");
    let plan = cluster.observed.plans.get_mut(&servers).expect("it");
    plan.status.latest_hash = Some("hash".to_owned());
    let who = |cluster: &Cluster| {
        let snapshot = Snapshot {
            now: crate::cluster::now(),
            observed: &cluster.observed,
            owner: &cluster.owner(),
            asked: None,
        };
        let hold = decide(&snapshot, &Answers::default()).report.hold;
        hold.map(|why| (why.who(), why.message.to_string()))
    };
    let (left_to, words) = who(&cluster).expect("they wait");
    assert_eq!(left_to, numo_api::conditions::Actor::ClusterAdmin, "{words}");
    // One that is done reports its version in a moment, by itself.
    let node = cluster.observed.nodes.get_mut("s").expect("a node");
    node.labels.insert(plan::label("servers"), "hash".to_owned());
    let (left_to, words) = who(&cluster).expect("they wait");
    assert_eq!(left_to, numo_api::conditions::Actor::OtherPlan, "{words}");
}

#[test]
fn a_maintenance_that_a_person_holds_before_its_first_step_keeps_no_lease() {
    let text = "node a worker v0\n node b worker v0\n maintenance a finalizer phase:Running
         turn a new hold
         kept a";
    check(text, "> unshield a\n > release lease a");
}

#[test]
fn a_run_does_not_take_the_mark_of_a_plan_for_a_persons_cordon() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule backup Pre
         change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
    );
    // The Plan goes on to another version, and had not cordoned the node yet.
    let node = cluster.observed.nodes.get_mut("a").expect("a node");
    node.annotations.insert(
        marks::CORDONED_BY.to_owned(),
        "{\"owner\":\"uid-p\",\"prior\":false}".to_owned(),
    );
    check_cluster(&cluster, "not > recordon a Some(true)");
}

/// Node a has its turn in a Plan that prepares it by a Job of its own; `node` and `turn` say where it is.
fn preparing(node: &str, turn: &str) -> String {
    format!(
        "node a worker v0 {node}
         node b worker v0
         plan concurrency:1 finalizer applying:a drain spec {{\"prepare\":{{\"image\":\"i\"}},\"upgrade\":{{\"image\":\"u\"}}}}
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
         {turn}
         keeps a"
    )
}

#[test]
fn a_prepare_whose_end_nobody_saw_holds_its_node() {
    check(
        &format!(
            "{}\n planjob a running prepares untouched",
            preparing("", "begun a new")
        ),
        "node a PreRules UpgradeStarting\n > journal a PreRules Upgrading",
    );
    let begun = "begun a PreRules reason:Upgrading";
    // It failed by its deadline on a node that stays away, and its TTL is over.
    for node in ["", "NotReady"] {
        check(
            &format!("{}\n planjob a running prepares deleting", preparing(node, begun)),
            "node a PreRules JobBeingDeleted\n > nothing",
        );
        check(
            &preparing(node, begun),
            "node a Held JobLost\n ends a ClusterAdmin\n stalled a JobLost\n > journal a Held JobLost",
        );
    }
    check(
        &format!("{}\n planjob a failed prepares", preparing("NotReady", begun)),
        "node a Released NodeNotReady\n > nothing",
    );
    check(
        &format!("{}\n planjob a failed prepares exit:1", preparing("", begun)),
        "node a Held JobFailed\n > journal a Held JobFailed",
    );
    let again = preparing("", begun).replace("\"Numo\"", "\"Numo\",\"retries\":1");
    check(
        &format!("{again}\n planjob a failed prepares exit:1"),
        "> journal a Admitted JobFailed attempt 2",
    );
    // A person has it run once more.
    let retried = "begun a Held reason:JobLost entered:PreRules/Upgrading directive:Retry generation:2";
    check(
        &preparing("", retried),
        "> journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_prepare_that_is_complete_is_not_run_again_when_its_job_is_gone() {
    check(
        &format!(
            "{}\n pods a\n drain a free",
            preparing("", "begun a PreRules entered:PreRules/Upgrading reason:Prepared")
        ),
        "not > job a\n > cordon a with the same taints",
    );
}

#[test]
fn a_prepare_that_numo_deleted_to_give_its_turn_back_is_not_lost() {
    check(
        &preparing("NotReady", "begun a PreRules reason:Upgrading closed:60"),
        "node a Selected NodeNotReady\n > journal a Selected NodeNotReady attempt 2",
    );
    // It may have run since, and be gone by its TTL.
    check(
        &preparing("NotReady", "begun a PreRules reason:Upgrading closed:901"),
        "node a Held JobLost",
    );
}

#[test]
fn a_node_that_stays_away_under_its_job_is_stalled_outside_the_window_too() {
    let window = r#"spec {"window":{"days":["mon"],"startTime":"1","endTime":"2"}}"#;
    let of = |dark: i64| {
        format!(
            "node a worker v0 NotReady dark:{dark}
             node b worker v0
             plan concurrency:1 cordon finalizer applying:a {window}
             begun a Released boot:b1
             keeps a
             planjob a running runs:upgrade"
        )
    };
    check(&of(599), "hold OutsideWindow\n stalled -");
    check(&of(600), "hold OutsideWindow\n stalled a Upgrading");
}
