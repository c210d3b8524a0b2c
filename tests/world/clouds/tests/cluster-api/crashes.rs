//! numo dies at every call, and everything is asked again from scratch.

use super::*;

/// Most calls that one operation makes here.
const CALLS: usize = 16;

/// One machine is made, whichever answer is lost.
fn makes_one(lost: usize, eager: bool) {
    let cluster = outdated();
    let old = machines(&cluster);
    cluster.state().eager = eager;
    cluster.state().forget_calls();
    cluster.state().lose = Some(lost);
    let what = format!("answer {lost} is lost, controllers eager {eager}");
    let mut was_lost = false;
    for _ in 0..30 {
        match create(&cluster, "numo-1", None) {
            Ok(Creation::Created(_)) => break,
            Ok(Creation::Pending(_)) => {}
            Err(failed) => {
                assert_eq!(failed.code, FailureCode::Unavailable, "{what}: {failed:?}");
                was_lost = true;
                cluster.state().lose = None;
            }
        }
        cluster.step();
    }
    cluster.steps(5);
    assert!(was_lost || lost > 6, "{what}: it was never reached");
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4), "{what}");
    assert_eq!(claimed(&cluster, "numo-1").len(), 1, "{what}");
    assert_untouched(&cluster, &old, &what);
    assert!(!old.contains(&claimed(&cluster, "numo-1")[0]), "{what}");
}

#[test]
fn a_machine_is_made_once_whichever_answer_is_lost() {
    for lost in 1..=CALLS {
        makes_one(lost, false);
        makes_one(lost, true);
    }
}

/// One machine is made, though the answers of all calls are lost in turn: the first of the first attempt, the second of the second.
#[test]
fn a_machine_is_made_once_though_every_attempt_dies_later() {
    let cluster = outdated();
    for lost in 1..=CALLS {
        cluster.state().forget_calls();
        cluster.state().lose = Some(lost);
        drop(create(&cluster, "numo-1", None));
        if lost % 2 == 0 {
            cluster.step();
        }
    }
    cluster.state().forget_calls();
    made(&cluster, "numo-1");
    cluster.steps(5);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4));
    assert_eq!(claimed(&cluster, "numo-1").len(), 1);
}

/// What a deletion begins with: the machine that goes.
struct Case {
    name: &'static str,
    cluster: Cluster,
    machine: String,
}

/// An old machine, while others of it are there and a new one has joined.
fn of_the_old() -> Case {
    let cluster = outdated();
    let machine = machines(&cluster)[1].clone();
    made(&cluster, "numo-1");
    Case {
        name: "an old machine",
        cluster,
        machine,
    }
}

/// A new machine that never joined, while the old ones are there.
fn of_the_new() -> Case {
    let cluster = outdated();
    cluster.state().never_joins = true;
    create(&cluster, "numo-1", None).unwrap();
    cluster.steps(4);
    create(&cluster, "numo-1", None).unwrap();
    let machine = claimed(&cluster, "numo-1")[0].clone();
    Case {
        name: "a new machine that did not join",
        cluster,
        machine,
    }
}

/// A machine of the middle one of three templates.
fn of_the_middle() -> Case {
    let cluster = outdated();
    made(&cluster, "numo-1");
    let machine = claimed(&cluster, "numo-1")[0].clone();
    cluster.state().put(template("image-3"));
    ClusterApi::set_group_image(&world(&cluster), GROUP, "image-3", None).unwrap();
    cluster.steps(2);
    made(&cluster, "numo-2");
    Case {
        name: "a machine of the middle of three templates",
        cluster,
        machine,
    }
}

/// An old machine whose group has got another template that Cluster API has not seen yet.
fn of_the_unseen() -> Case {
    let case = of_the_old();
    case.cluster.state().put(template("image-3"));
    ClusterApi::set_group_image(&world(&case.cluster), GROUP, "image-3", None).unwrap();
    Case {
        name: "an old machine, and a template that Cluster API does not know yet",
        ..case
    }
}

/// A machine of a group that Cluster API rolls by itself.
fn of_rolling() -> Case {
    let cluster = cluster_of("v1beta1", "RollingUpdate");
    let machine = machines(&cluster)[2].clone();
    Case {
        name: "a machine of a group that rolls",
        cluster,
        machine,
    }
}

/// Exactly one machine goes, whichever answer is lost; the answer is whether it was lost.
fn takes_one(case: &Case, lost: usize, eager: bool) -> bool {
    let Case {
        name,
        cluster,
        machine,
    } = case;
    let what = format!("{name}: answer {lost} is lost, controllers eager {eager}");
    let id = id_of(cluster, machine);
    let before = replicas(cluster);
    let mut others = machines(cluster);
    others.retain(|other| other != machine);
    cluster.state().eager = eager;
    cluster.state().forget_calls();
    cluster.state().lose = Some(lost);
    let was_lost = ClusterApi::delete_node(&world(cluster), &id).is_err();
    cluster.state().forget_calls();
    deleted(cluster, &id);
    // A hold that the crash has left ends with the next thing that is done.
    ClusterApi::groups(&world(cluster), "").unwrap();
    assert!(!is_paused(cluster), "{what}");
    cluster.steps(8);
    assert_untouched(cluster, &others, &what);
    assert_eq!(machines(cluster), others, "{what}");
    assert_eq!(replicas(cluster), before - 1, "{what}");
    was_lost
}

fn takes_one_at_every_call(case: impl Fn() -> Case) {
    for eager in [false, true] {
        let mut reached = 0;
        for lost in 1..=CALLS {
            reached += usize::from(takes_one(&case(), lost, eager));
        }
        assert!(reached >= 5, "only {reached} answers were lost");
    }
}

#[test]
fn an_old_machine_is_deleted_once() {
    takes_one_at_every_call(of_the_old);
}

#[test]
fn a_new_machine_that_did_not_join_is_deleted_and_no_old_one() {
    takes_one_at_every_call(of_the_new);
}

#[test]
fn a_machine_of_the_middle_template_is_deleted_and_no_other() {
    takes_one_at_every_call(of_the_middle);
}

#[test]
fn a_template_that_cluster_api_has_not_seen_changes_nothing() {
    takes_one_at_every_call(of_the_unseen);
}

#[test]
fn a_machine_of_a_group_that_rolls_is_deleted_once() {
    takes_one_at_every_call(of_rolling);
}

#[test]
fn an_image_is_set_whichever_answer_is_lost() {
    for lost in 1..=4 {
        let cluster = cluster();
        cluster.state().forget_calls();
        cluster.state().lose = Some(lost);
        let first = ClusterApi::set_group_image(&world(&cluster), GROUP, "image-2", None);
        assert_eq!(first.is_err(), lost <= 3, "read, look for the template, patch");
        cluster.state().forget_calls();
        ClusterApi::set_group_image(&world(&cluster), GROUP, "image-2", None).unwrap();
        assert_eq!(
            ClusterApi::group_image(&world(&cluster), GROUP).unwrap(),
            "image-2"
        );
    }
}

#[test]
fn whatever_comes_next_ends_a_hold() {
    type Next = fn(&Cluster);
    let nexts: [(&str, Next); 5] = [
        ("find", |cluster| {
            drop(ClusterApi::find_node(&world(cluster), GROUP, "numo-8").unwrap());
        }),
        ("create", |cluster| drop(create(cluster, "numo-9", None).unwrap())),
        ("image", |cluster| {
            ClusterApi::set_group_image(&world(cluster), GROUP, "image-2", None).unwrap();
        }),
        ("delete", |cluster| {
            let old = machines(cluster)[0].clone();
            ClusterApi::delete_node(&world(cluster), &id_of(cluster, &old)).unwrap();
        }),
        ("list", |cluster| {
            drop(ClusterApi::groups(&world(cluster), "").unwrap());
        }),
    ];
    for (name, next) in nexts {
        let case = of_the_new();
        let id = id_of(&case.cluster, &case.machine);
        case.cluster.state().forget_calls();
        // List, read, list of sets, mark, hold.
        case.cluster.state().lose = Some(5);
        ClusterApi::delete_node(&world(&case.cluster), &id).unwrap_err();
        case.cluster.state().forget_calls();
        assert!(is_paused(&case.cluster), "{name}");
        next(&case.cluster);
        assert!(!is_paused(&case.cluster), "{name}");
        // What was raised meanwhile may keep the Machine; numo deletes until it goes.
        deleted(&case.cluster, &id);
        case.cluster.steps(6);
        let made = i64::from(name == "create");
        let gone = i64::from(name == "delete");
        assert_eq!(replicas(&case.cluster), 3 + made - gone, "{name}");
        let left = i64::try_from(machines(&case.cluster).len()).unwrap();
        assert_eq!(left, 3 + made - gone, "{name}");
    }
}
