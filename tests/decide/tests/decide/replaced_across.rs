//! Old nodes that another operator drains, which serves NodeMaintenances: when numo makes one, what it waits for, and which it deletes.

use crate::{
    cluster::Cluster,
    opened,
    words::{check, decision},
};
use numo_api::{Reason, conditions::Actor, marks};
use numo_core::{action::Action, left};

/// An outdated worker with its turn, a new one in its place, and the other operator.
const PAIR: &str = r#"node a worker v0 label:team=red
     node new worker v0 label:team=red
     version img2 finalizer spec {"mutex": {"drainBy": "NodeMaintenance"}}
     host a img1 heir:new
     host new img2 donor:a
     group w image:img2
     groups w
     foreign"#;

fn pair(rest: &str) -> String {
    format!("{PAIR}\n{rest}")
}

/// A turn whose NodeMaintenance is there, in this phase, on a node that the other operator has cordoned.
fn drained(rest: &str) -> String {
    pair(rest).replace("node a worker v0", "node a worker v0 cordoned")
}

#[test]
fn numo_makes_the_object_gives_the_lease_away_and_waits_for_succeeded() {
    check(
        &pair("replacing a PreRules"),
        "node a Cordoned Draining ~ NodeMaintenance a is being made
         > maintain a 1",
    );
    // A crash after the write: it is found again by its mark.
    check(
        &pair("replacing a PreRules\n maintenance a name:a drains:1"),
        "> journal a Cordoned",
    );
    check(
        &pair("replacing a Cordoned\n maintenance a name:a drains:1 created:-10"),
        "node a Cordoned Draining ~ found none, wanted Succeeded
         > release lease a",
    );
    check(
        &drained("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Running pods:web-0,db-1 error:blocked"),
        "node a Cordoned Draining ~ found Running, wanted Succeeded: pods web-0, db-1 are yet to go; it says: blocked
         > nothing",
    );
    check(
        &drained("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Succeeded"),
        "node a Drained Drained
         > journal a Drained",
    );
    check(
        &drained("replacing a Drained lent\n maintenance a name:a drains:1 phase:Succeeded"),
        "> journal a Released MachineLeaving",
    );
}

#[test]
fn an_answer_that_does_not_come_or_is_bad_is_told_and_nothing_is_let_go() {
    check(
        &drained("replacing a Cordoned lent\n maintenance a name:a drains:1 created:-121"),
        "node a Cordoned MaintenanceUnanswered ~ has said nothing for 120 s
         > nothing",
    );
    check(
        &drained("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Running updated:-1201"),
        "node a Cordoned MaintenanceUnanswered ~ has said nothing for 1200 s
         > nothing",
    );
    check(
        &drained("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Failed error:lease"),
        "node a Cordoned MaintenanceFailed ~ it says: lease; `numo retry a` makes a new one
         > nothing",
    );
    // It says that the node is drained, and the node is open.
    check(
        &pair("replacing a Drained lent\n maintenance a name:a drains:1 phase:Succeeded"),
        "node a Cordoned ForeignWriter ~ someone uncordoned it
         > journal a Cordoned ForeignWriter",
    );
    for gone in [
        "replacing a Cordoned",
        "replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Succeeded deleting",
    ] {
        check(
            &drained(gone),
            "node a Cordoned ForeignWriter ~ found none or one that is being deleted
             > nothing",
        );
    }
}

/// The other operator is done with it: pods that came meanwhile would go with its machine, whoever closes it again.
#[test]
fn a_node_that_somebody_opens_after_the_other_operator_drained_it_waits_for_a_person() {
    let text = pair("replacing a Drained lent\n maintenance a name:a drains:1 phase:Succeeded");
    let mut cluster = Cluster::parse(&text);
    let mut written = 0;
    for second in 0..9 {
        opened::node(&mut cluster).unschedulable = second > 3;
        let found = opened::look(&mut cluster, second);
        written += found.actions.len();
        let why = &found.report.nodes["a"].why;
        assert_eq!(why.reason, Reason::ForeignWriter);
        assert!(why.message.contains("`numo retry a`"), "{}", why.message);
    }
    assert_eq!(written, 1, "{:?}", opened::change(&cluster).status);
}

/// numo was away when the other operator was done, and somebody has opened the node since.
#[test]
fn a_node_that_is_open_when_numo_hears_that_it_is_drained_waits_for_a_person_too() {
    let done = |ago: i64| {
        pair(&format!(
            "replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Succeeded updated:{ago}"
        ))
    };
    // Its cordon may be yet to be seen.
    check(&done(-10), "node a Cordoned ForeignWriter\n > nothing");
    check(
        &done(-60),
        "node a Cordoned ForeignWriter ~ `numo retry a`
         > journal a Cordoned ForeignWriter",
    );
    let mut cluster = Cluster::parse(&done(-60));
    let mut written = 0;
    for second in 0..5 {
        opened::node(&mut cluster).unschedulable = second > 1;
        let found = opened::look(&mut cluster, second);
        written += found.actions.len();
        assert_eq!(found.report.nodes["a"].why.reason, Reason::ForeignWriter);
    }
    assert_eq!(written, 1, "{:?}", opened::change(&cluster).status);
}

#[test]
fn a_namesake_that_somebody_else_made_is_no_answer_and_is_not_deleted() {
    for namesake in [
        "maintenance a name:a phase:Succeeded",
        "maintenance a name:mine phase:Succeeded",
        "maintenance a name:mine kubevirt phase:Succeeded",
        "maintenance elsewhere name:a phase:Succeeded",
        "maintenance a name:a drains:1 of:uid-other phase:Succeeded",
    ] {
        check(
            &drained(&format!("replacing a PreRules\n {namesake}")),
            "node a PreRules NodeInMaintenance ~ wanted none; it is left alone",
        );
        check(
            &drained(&format!("replacing a Cordoned\n {namesake}")),
            "node a Cordoned NodeInMaintenance",
        );
    }
    // No machine is made for a node that nobody could drain.
    check(
        &pair("maintenance a name:mine")
            .replace(" heir:new", "")
            .replace(" donor:a", ""),
        "node a Selected NodeInMaintenance",
    );
}

/// What was made for an attempt, a turn or a node that is over is deleted, by its uid; what is made next waits for that.
#[test]
fn a_stale_object_goes_first() {
    for stale in ["drains:2", "drains:1 turn:change-old", "drains:1 uid:uid-old"] {
        check(
            &pair(&format!(
                "replacing a PreRules\n maintenance a name:a {stale} phase:Succeeded"
            )),
            "node a PreRules NodeInMaintenance ~ goes first
             > journal a closed
             > delete maintenance a",
        );
    }
    // The node is gone: a later one of its name is not to be drained by it.
    let gone = r#"node new worker v0
         version img2 finalizer spec {"mutex": {"drainBy": "NodeMaintenance"}}
         host new img2 donor:a
         group w image:img2
         groups w
         foreign
         replacing a Released machine:m-a heir:new
         maintenance a name:a drains:1 phase:Succeeded"#;
    assert!(is_deleted(gone));
    assert!(is_deleted(&format!("node a worker v0 uid:uid-later\n{gone}")));
    // The old node is there: it stays cordoned until it is gone.
    assert!(!is_deleted(&drained(
        "replacing a Released machine:m-a heir:new lent\n maintenance a name:a drains:1 phase:Succeeded",
    )));
}

/// Whether numo deletes the NodeMaintenance of node a.
fn is_deleted(text: &str) -> bool {
    let mut actions = decision(&Cluster::parse(text)).actions.into_iter();
    actions.any(|planned| {
        let is_it = |name: &str, uid: &str| name == "a" && uid == "uid-a";
        matches!(planned.action, Action::DeleteMaintenance { name, uid } if is_it(&name, &uid))
    })
}

#[test]
fn a_turn_that_is_given_up_opens_its_node() {
    let skipped = "replacing a Skipped unleased\n maintenance a name:a drains:1 phase:Succeeded";
    assert!(is_deleted(&drained(skipped)));
    // It is being deleted: nothing more is to be done.
    assert!(!is_deleted(&drained(&format!("{skipped} deleting"))));
}

#[test]
fn nothing_begins_where_no_other_operator_serves_nodemaintenances() {
    let alone = |rest: &str| pair(rest).replace("\n     foreign", "");
    check(
        &alone("").replace(" heir:new", "").replace(" donor:a", ""),
        "hold MaintenanceNotServed ~ spec.mutex.drainBy: found NodeMaintenance, and no Deployment of node-maintenance-operator that runs
         > nothing",
    );
    check(
        &alone("replacing a PreRules"),
        "node a PreRules MaintenanceNotServed
         > journal a closed",
    );
    // It is gone in the midst of a drain.
    check(
        &alone("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Running"),
        "node a Cordoned MaintenanceNotServed
         > nothing",
    );
    // The drain that numo has begun itself comes to its end.
    check(
        &alone("replacing a Cordoned cordoned\n pods a\n pod web on a of:ReplicaSet/web"),
        "> evict web",
    );
}

/// Its kind is not there, or has gone: that is known before a machine is made, and while a node waits for its drain.
#[test]
fn nothing_begins_where_the_kind_of_nodemaintenances_is_not_served() {
    let alone = |rest: &str| pair(rest).replace(" heir:new", "").replace(" donor:a", "");
    check(
        &alone("absent nodemaintenances"),
        "hold MaintenanceNotServed ~ spec.mutex.drainBy: found NodeMaintenance, and the cluster does not serve nodemaintenances of nodemaintenance.medik8s.io: 404 page not found; wanted node-maintenance-operator with that definition, or Numo
         > nothing",
    );
    check(
        &alone("unlisted nodemaintenances"),
        "hold ListFailed ~ nodemaintenances cannot be listed any more: the server could not find the requested resource
         > nothing",
    );
    check(
        &pair("replacing a PreRules\n absent nodemaintenances"),
        "node a PreRules MaintenanceNotServed
         > journal a closed",
    );
    // Who drains by numo's own drain needs no such kind.
    let own =
        alone("absent nodemaintenances").replace(r#" spec {"mutex": {"drainBy": "NodeMaintenance"}}"#, "");
    check(&own, "> admit a");
}

/// As all settings of gates are, it may be said by a MutexBinding; the NodeVersion's own word is the first.
#[test]
fn a_mutexbinding_may_say_it_and_the_nodeversion_has_the_first_word() {
    let bound = |spec: &str| {
        let binding =
            r#"binding x spec {"ownerSelector": {"kind": "NodeVersion"}, "drainBy": "NodeMaintenance"}"#;
        let text = pair(&format!("replacing a PreRules\n {binding}"));
        text.replace(r#" spec {"mutex": {"drainBy": "NodeMaintenance"}}"#, spec)
    };
    check(&bound(""), "> maintain a 1");
    check(
        &bound("").replace("\n     foreign", ""),
        "node a PreRules MaintenanceNotServed ~ MutexBinding x spec.drainBy: found NodeMaintenance",
    );
    check(
        &bound(r#" spec {"mutex": {"drainBy": "Numo"}}"#),
        "> cordon a with the same taints",
    );
}

/// What was begun in one way is ended so, whatever the NodeVersion asks for by now.
#[test]
fn a_drain_that_has_begun_is_not_begun_in_the_other_way() {
    let own = drained("replacing a Cordoned lent\n maintenance a name:a drains:1 phase:Succeeded")
        .replace(r#" spec {"mutex": {"drainBy": "NodeMaintenance"}}"#, "");
    check(&own, "> journal a Drained");
}

/// numo serves NodeMaintenances too, where nobody else does: one of its own drains would wait for the turn that waits for it.
#[test]
fn numo_does_not_serve_what_it_made_for_another_operator() {
    let text = "node a worker v0
         maintenance a drains:1 of:uid-gone";
    let cluster = Cluster::parse(text);
    let report = decision(&cluster).report;
    let why = report.hold.expect("it is held");
    assert_eq!((why.reason, why.who()), (Reason::OwnerGone, Actor::ClusterAdmin));
    let left = left::orphans(&cluster.observed);
    let one = left.iter().find(|one| one.left.mark == marks::DRAINS_FOR);
    let one = one.expect("the mark is told of");
    assert_eq!(one.left.object, "NodeMaintenance nm");
    assert_eq!(
        one.commands,
        ["kubectl delete nodemaintenances.nodemaintenance.medik8s.io nm"]
    );
}
