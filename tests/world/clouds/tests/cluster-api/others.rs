//! Others act meanwhile: a second request, the autoscaler, a MachineHealthCheck, people.

use super::*;

/// Calls of one operation before which others act.
const CALLS: usize = 10;

fn raise(cluster: &Cluster, by: i64) {
    let now = replicas(cluster);
    let mut state = cluster.state();
    state.change(
        "MachineDeployment",
        "workers",
        &["spec", "replicas"],
        json!(now + by),
    );
}

#[test]
fn two_requests_at_once_make_two_machines() {
    for call in 1..=CALLS {
        for (eager, has_ledger) in [(false, false), (false, true), (true, false), (true, true)] {
            let cluster = outdated_by(has_ledger);
            cluster.state().eager = eager;
            cluster.state().forget_calls();
            let other = |cluster: &Cluster| drop(create(cluster, "numo-2", None).unwrap());
            cluster.state().before.insert(call, Box::new(other));
            let one = made(&cluster, "numo-1");
            let two = made(&cluster, "numo-2");
            cluster.steps(5);
            let what = format!("the other at call {call}, eager {eager}, a ledger {has_ledger}");
            assert_ne!(one.provider_id, two.provider_id, "{what}");
            assert_eq!((replicas(&cluster), machines(&cluster).len()), (5, 5), "{what}");
        }
    }
}

#[test]
fn the_same_request_twice_at_once_makes_one_machine() {
    for call in 1..=CALLS {
        for (eager, has_ledger) in [(false, false), (false, true), (true, false), (true, true)] {
            let cluster = outdated_by(has_ledger);
            cluster.state().eager = eager;
            cluster.state().forget_calls();
            let other = |cluster: &Cluster| drop(create(cluster, "numo-1", None).unwrap());
            cluster.state().before.insert(call, Box::new(other));
            made(&cluster, "numo-1");
            cluster.steps(5);
            let what = format!("again at call {call}, eager {eager}, a ledger {has_ledger}");
            assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4), "{what}");
            assert_eq!(claimed(&cluster, "numo-1").len(), 1, "{what}");
        }
    }
}

#[test]
fn an_earlier_request_leaves_the_later_one_what_it_needs() {
    let cluster = outdated();
    create(&cluster, "numo-1", None).unwrap();
    cluster.step();
    // The machine of the first is there, and not claimed, when the second is asked for.
    create(&cluster, "numo-2", None).unwrap();
    cluster.step();
    for request in ["numo-1", "numo-2"] {
        create(&cluster, request, None).unwrap();
        assert_eq!(claimed(&cluster, request).len(), 1, "{request}");
    }
}

#[test]
fn an_autoscaler_that_adds_a_machine_takes_none_away() {
    for call in 1..=CALLS {
        for has_ledger in [false, true] {
            let cluster = outdated_by(has_ledger);
            let old = machines(&cluster);
            cluster.state().forget_calls();
            cluster
                .state()
                .before
                .insert(call, Box::new(|cluster| raise(cluster, 1)));
            made(&cluster, "numo-1");
            cluster.steps(5);
            let more = i64::from(cluster.state().before.is_empty());
            let what = format!("at call {call}, a ledger {has_ledger}");
            assert_eq!(replicas(&cluster), 4 + more, "{what}");
            assert_eq!(claimed(&cluster, "numo-1").len(), 1, "{what}");
            assert!(!old.contains(&claimed(&cluster, "numo-1")[0]), "{what}");
        }
    }
}

#[test]
fn a_raise_that_an_autoscaler_undoes_at_once_is_not_forgotten() {
    let cluster = outdated_by(true);
    cluster.state().forget_calls();
    let both = |cluster: &Cluster| {
        create(cluster, "numo-2", None).unwrap();
        raise(cluster, -1);
    };
    // Before the patch that raises: the replicas are as many as they were.
    cluster.state().before.insert(3, Box::new(both));
    create(&cluster, "numo-1", None).unwrap();
    assert_eq!(replicas(&cluster), 4);
    create(&cluster, "numo-2", None).unwrap();
    assert_eq!(replicas(&cluster), 4, "numo-2 is known, and raises nothing again");
}

#[test]
fn of_two_new_machines_the_one_is_claimed_that_the_later_request_cannot_take() {
    let cluster = outdated();
    create(&cluster, "numo-1", None).unwrap();
    let old = machines(&cluster);
    cluster.step();
    let mut first = machines(&cluster);
    first.retain(|machine| !old.contains(machine));
    create(&cluster, "numo-2", None).unwrap();
    cluster.step();
    // The clocks of two API servers differ: the first one seems to be the younger.
    let later = json!("2026-11-29T22:00:00Z");
    cluster
        .state()
        .change("Machine", &first[0], &["metadata", "creationTimestamp"], later);
    create(&cluster, "numo-1", None).unwrap();
    assert_eq!(claimed(&cluster, "numo-1"), first);
    create(&cluster, "numo-2", None).unwrap();
    assert_eq!(claimed(&cluster, "numo-2").len(), 1);
}

#[test]
fn an_autoscaler_that_fights_back_is_named_and_nothing_leaks() {
    let cluster = outdated();
    let old = machines(&cluster);
    create(&cluster, "numo-1", None).unwrap();
    raise(&cluster, -1);
    let early = ClusterApi::find_node(&world(&cluster), GROUP, "numo-1").unwrap_err();
    assert_eq!(
        early.code,
        FailureCode::Unavailable,
        "Cluster API has not said yet"
    );
    cluster.steps(2);
    let failed = create(&cluster, "numo-1", None).unwrap_err();
    assert!(failed.message.contains("lowered the group again"), "{failed:?}");
    assert_eq!(
        ClusterApi::find_node(&world(&cluster), GROUP, "numo-1").unwrap(),
        None
    );
    assert_eq!((replicas(&cluster), machines(&cluster)), (3, old));
}

#[test]
fn a_health_check_that_deletes_the_machine_gets_it_another() {
    let cluster = outdated();
    create(&cluster, "numo-1", None).unwrap();
    cluster.step();
    create(&cluster, "numo-1", None).unwrap();
    let first = claimed(&cluster, "numo-1")[0].clone();
    cluster.state().delete_machine(&first);
    let failed = create(&cluster, "numo-1", None).unwrap_err();
    assert!(failed.message.contains("deleted by somebody"), "{failed:?}");
    cluster.steps(6);
    let second = made(&cluster, "numo-1");
    assert!(!second.provider_id.contains(&first));
    cluster.steps(5);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4));
}

#[test]
fn a_machine_that_was_made_for_nobody_is_not_taken_for_a_new_one() {
    let cluster = outdated();
    raise(&cluster, 1);
    cluster.steps(5);
    let there = machines(&cluster);
    create(&cluster, "numo-1", None).unwrap();
    let pending = create(&cluster, "numo-1", None).unwrap();
    let Creation::Pending(pending) = pending else {
        panic!("{pending:?}")
    };
    assert!(
        pending.token.starts_with("raised:"),
        "there is no Machine of it yet: {pending:?}"
    );
    made(&cluster, "numo-1");
    assert!(!there.contains(&claimed(&cluster, "numo-1")[0]));
}

#[test]
fn a_machine_made_and_one_deleted_at_once_are_both_seen_to() {
    let cluster = outdated();
    let old = machines(&cluster);
    create(&cluster, "numo-1", None).unwrap();
    // Cluster API sees neither: the group has as many replicas as before.
    let id = id_of(&cluster, &old[0]);
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
    assert_eq!(replicas(&cluster), 3);
    cluster.steps(2);
    assert!(
        ClusterApi::find_node(&world(&cluster), GROUP, "numo-1").is_err(),
        "one may come"
    );
    deleted(&cluster, &id);
    made(&cluster, "numo-1");
    cluster.steps(5);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (3, 3));
    assert_untouched(&cluster, &old[1..], "others");
}

/// The autoscaler takes a machine of its own: it marks it and lowers the group, as its provider for Cluster API does.
fn scale_down(cluster: &Cluster, machine: &str) {
    let mark = ["metadata", "annotations", "cluster.x-k8s.io/delete-machine"];
    cluster.state().change("Machine", machine, &mark, json!("yes"));
    raise(cluster, -1);
}

#[test]
fn an_autoscaler_that_takes_another_machine_at_once_takes_no_third() {
    for call in 1..=CALLS {
        for (eager, has_ledger) in [(false, false), (false, true), (true, false), (true, true)] {
            let cluster = outdated_by(has_ledger);
            let old = machines(&cluster);
            let (ours, theirs) = (old[0].clone(), old[1].clone());
            let id = id_of(&cluster, &ours);
            cluster.state().eager = eager;
            cluster.state().forget_calls();
            let other = theirs.clone();
            let takes = move |cluster: &Cluster| scale_down(cluster, &other);
            cluster.state().before.insert(call, Box::new(takes));
            deleted(&cluster, &id);
            cluster.steps(5);
            // The machine that numo had marked went for theirs: the autoscaler finds its own there, and lowers once more.
            if cluster.state().before.is_empty() && machines(&cluster).contains(&theirs) {
                scale_down(&cluster, &theirs);
                cluster.steps(5);
            }
            let what = format!("the autoscaler at call {call}, eager {eager}, a ledger {has_ledger}");
            assert_untouched(&cluster, &old[2..], &what);
            assert!(!machines(&cluster).contains(&ours), "{what}");
            if cluster.state().before.is_empty() {
                assert!(!machines(&cluster).contains(&theirs), "{what}");
                assert_eq!(replicas(&cluster), 1, "{what}");
            }
        }
    }
}

#[test]
fn a_machine_that_somebody_else_deletes_costs_no_replica() {
    let cluster = outdated();
    let old = machines(&cluster);
    let id = id_of(&cluster, &old[0]);
    cluster.state().delete_machine(&old[0]);
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
    cluster.steps(8);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (3, 3));
    assert_untouched(&cluster, &old[1..], "others");
}

#[test]
fn controllers_at_work_when_the_group_is_held_cost_no_machine() {
    let cluster = outdated();
    let old = machines(&cluster);
    cluster.state().never_joins = true;
    create(&cluster, "numo-1", None).unwrap();
    cluster.steps(4);
    create(&cluster, "numo-1", None).unwrap();
    let new = claimed(&cluster, "numo-1")[0].clone();
    let id = id_of(&cluster, &new);
    cluster.state().forget_calls();
    // Cluster API has read the group before it was paused, and the MachineSets after one was lowered: it raises the newest again.
    let grows = |cluster: &Cluster| {
        let mut state = cluster.state();
        let sets = state.all("MachineSet");
        let newest = sets
            .iter()
            .find(|set| text(set, "/spec/template/spec/infrastructureRef/name") == "image-2")
            .unwrap();
        let (name, now) = (
            text(newest, "/metadata/name").to_owned(),
            number(newest, "/spec/replicas"),
        );
        assert_eq!(now, 0, "it was lowered");
        state.change("MachineSet", &name, &["spec", "replicas"], json!(now + 1));
    };
    // List, read, list, mark, hold, lower the MachineSet; then the sum is made.
    cluster.state().before.insert(7, Box::new(grows));
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
    assert!(cluster.state().before.is_empty());
    assert_eq!(
        replicas(&cluster),
        4,
        "one too many is better than one that is used"
    );
    cluster.steps(8);
    assert_untouched(&cluster, &old, "old machines");
}

#[test]
fn an_autoscaler_that_takes_the_same_machine_takes_no_second() {
    for call in 1..=5 {
        for (eager, has_ledger) in [(false, false), (false, true), (true, false), (true, true)] {
            let cluster = outdated_by(has_ledger);
            let old = machines(&cluster);
            let ours = old[0].clone();
            let id = id_of(&cluster, &ours);
            cluster.state().eager = eager;
            cluster.state().forget_calls();
            let takes = move |cluster: &Cluster| scale_down(cluster, &ours);
            cluster.state().before.insert(call, Box::new(takes));
            deleted(&cluster, &id);
            cluster.steps(5);
            let what = format!("the autoscaler at call {call}, eager {eager}, a ledger {has_ledger}");
            assert!(cluster.state().before.is_empty(), "{what}");
            assert_eq!(replicas(&cluster), 2, "{what}");
            assert_eq!(machines(&cluster), old[1..], "{what}");
            assert_untouched(&cluster, &old[1..], &what);
        }
    }
}

#[test]
fn a_machine_that_somebody_marked_is_named_and_waited_for() {
    let cluster = outdated();
    let name = machines(&cluster)[0].clone();
    let id = id_of(&cluster, &name);
    let mark = ["metadata", "annotations", "cluster.x-k8s.io/delete-machine"];
    cluster.state().change("Machine", &name, &mark, json!("yes"));
    let failed = ClusterApi::delete_node(&world(&cluster), &id).unwrap_err();
    assert_eq!(failed.code, FailureCode::Unavailable);
    assert!(
        failed.message.contains("found \"yes\", wanted none"),
        "{failed:?}"
    );
    assert_eq!(replicas(&cluster), 3);
}

#[test]
fn a_request_whose_machine_was_seen_is_never_raised_again() {
    let cluster = outdated();
    made(&cluster, "numo-1");
    let first = claimed(&cluster, "numo-1")[0].clone();
    // The next one remembers that the Machine of the first was there.
    made(&cluster, "numo-2");
    cluster.state().delete_machine(&first);
    cluster.steps(8);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (5, 5));
    let failed = create(&cluster, "numo-1", None).unwrap_err();
    assert!(failed.message.contains("no new Machine for it"), "{failed:?}");
    assert_eq!(
        ClusterApi::find_node(&world(&cluster), GROUP, "numo-1").unwrap(),
        None
    );
    assert_eq!(replicas(&cluster), 5);
}

#[test]
fn two_machines_deleted_at_once_cost_two_replicas() {
    for call in 1..=6 {
        for eager in [false, true] {
            let cluster = outdated_by(true);
            let old = machines(&cluster);
            cluster.state().eager = eager;
            cluster.state().linger = 10;
            let ids: Vec<_> = old.iter().map(|machine| id_of(&cluster, machine)).collect();
            let other = ids[1].clone();
            cluster.state().forget_calls();
            // The other is only marked before numo dies: Cluster API may take it for this one.
            let dies = move |cluster: &Cluster| {
                let done = cluster.state().calls.len();
                cluster.state().lose = Some(done + 4);
                drop(ClusterApi::delete_node(&world(cluster), &other));
                cluster.state().lose = None;
            };
            cluster.state().before.insert(call, Box::new(dies));
            drop(ClusterApi::delete_node(&world(&cluster), &ids[0]));
            for _ in 0..12 {
                for id in &ids[..2] {
                    let state = ClusterApi::node_state(&world(&cluster), id).unwrap();
                    if !matches!(state, NodeState::Terminating | NodeState::Terminated) {
                        drop(ClusterApi::delete_node(&world(&cluster), id));
                    }
                }
                cluster.step();
            }
            cluster.steps(12);
            let what = format!("the other at call {call}, eager {eager}");
            assert_eq!(replicas(&cluster), 1, "{what}");
            assert_eq!(machines(&cluster), old[2..], "{what}");
        }
    }
}
