//! numo dies after any request, or its answer is lost: what was begun is found again, and nothing is done twice.

use crate::{Fixture, provider_id, until_created, until_set};
use numo_clouds::gcp::Knobs;
use numo_provider_sdk::{Creation, NodeState, Provider};
use provider_gcp::Gcp;

const REQUEST: &str = "numo-0123456789abcdefghij";

/// Clouds in which everything takes its time in other ways.
fn clouds() -> Vec<Knobs> {
    let mut all = Vec::new();
    for operation_ticks in [0, 3, 7] {
        for unseen_ticks in [0, 6] {
            for taken_late in [false, true] {
                all.push(Knobs {
                    operation_ticks,
                    unseen_ticks,
                    taken_late,
                    make_ticks: operation_ticks,
                    ..Knobs::default()
                });
            }
        }
    }
    all
}

#[test]
fn there_is_one_machine_whichever_answer_is_lost() {
    for knobs in clouds() {
        for lost in 1.. {
            let fixture = Fixture::new();
            fixture.cloud.lock().knobs = knobs.clone();
            let before = fixture.made();
            let (world, count) = fixture.losing(lost);
            // Until the answer is lost; the token goes with it.
            let mut token: Option<String> = None;
            while let Ok(answer) = Gcp::create_node(&world, &fixture.workers, REQUEST, token.as_deref()) {
                match answer {
                    Creation::Created(_) => break,
                    Creation::Pending(pending) => token = Some(pending.token),
                }
            }
            let is_over = count.get() < lost;
            let node = retried(&fixture);
            fixture.wait(30);
            assert_eq!(
                fixture.made_since(before),
                [node],
                "answer {lost} lost, {knobs:?}"
            );
            assert_eq!(
                (fixture.size(&fixture.workers), fixture.target(&fixture.workers)),
                (3, 3)
            );
            if is_over {
                assert!(lost > 4, "{lost}");
                break;
            }
        }
    }
}

/// Asks from scratch every time, as a numo that never keeps a token, until the machine is there.
fn retried(fixture: &Fixture) -> String {
    let world = fixture.world();
    for _ in 0..40 {
        match Gcp::create_node(&world, &fixture.workers, REQUEST, None) {
            Ok(Creation::Created(node)) => return node.node_name,
            Ok(Creation::Pending(_)) => {}
            // The name is taken by a machine that nobody sees yet.
            Err(failure) => assert!(failure.message.contains("already"), "{failure:?}"),
        }
    }
    panic!("no machine after 40 calls");
}

#[test]
fn one_machine_for_a_request_however_often_it_is_asked_for() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 4;
    let (world, before) = (fixture.world(), fixture.made());
    let node = until_created(&world, &fixture.workers, REQUEST);
    for token in [None, Some("garbage"), Some("{}"), Some("{\"for\": 3}")] {
        let again = Gcp::create_node(&world, &fixture.workers, REQUEST, token).unwrap();
        assert_eq!(again, Creation::Created(node.clone()));
    }
    assert_eq!(
        Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap(),
        Some(node)
    );
    assert_eq!(fixture.made_since(before).len(), 1);
}

#[test]
fn a_token_of_another_request_makes_no_machine_of_its_own() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 50;
    let world = fixture.world();
    let Creation::Pending(other) = Gcp::create_node(&world, &fixture.workers, "other", None).unwrap() else {
        panic!("it is made at once");
    };
    let mine = Gcp::create_node(&world, &fixture.workers, REQUEST, Some(&other.token)).unwrap();
    let Creation::Pending(mine) = mine else {
        panic!("the other request's machine is taken for this one's");
    };
    assert!(mine.message.contains(REQUEST), "{}", mine.message);
}

#[test]
fn a_machine_that_vanished_is_asked_for_again() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 3;
    let (world, before) = (fixture.world(), fixture.made());
    let Creation::Pending(pending) = Gcp::create_node(&world, &fixture.workers, REQUEST, None).unwrap()
    else {
        panic!("it is made at once");
    };
    fixture.wait(5);
    let own = format!("workers-{REQUEST}");
    {
        let mut state = fixture.cloud.lock();
        let path = state.instance_path(&fixture.workers, &own);
        state.instances.remove(&path);
        state
            .groups
            .get_mut(&fixture.workers)
            .unwrap()
            .members
            .remove(&own);
    }
    let mut token = pending.token;
    for _ in 0..20 {
        match Gcp::create_node(&world, &fixture.workers, REQUEST, Some(&token)).unwrap() {
            Creation::Created(_) => {
                assert_eq!(fixture.made_since(before).len(), 2);
                return;
            }
            Creation::Pending(next) => token = next.token,
        }
    }
    panic!("it is never asked for again");
}

#[test]
fn one_template_is_made_whichever_answer_is_lost() {
    for operation_ticks in [0, 3] {
        for lost in 1.. {
            let fixture = Fixture::new();
            fixture.cloud.lock().knobs.operation_ticks = operation_ticks;
            let (world, count) = fixture.losing(lost);
            let mut token: Option<String> = None;
            while let Ok(Some(pending)) =
                Gcp::set_group_image(&world, &fixture.workers, &fixture.new_image, token.as_deref())
            {
                token = Some(pending.token);
            }
            let is_over = count.get() < lost;
            until_set(&fixture.world(), &fixture.workers, &fixture.new_image).unwrap();
            fixture.wait(10);
            let state = fixture.cloud.lock();
            let templates: Vec<&String> = state.templates.keys().collect();
            assert_eq!(templates.len(), 3, "answer {lost} lost: {templates:?}");
            assert!(state.groups[&fixture.workers].template.ends_with("/worker-4"));
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn one_machine_is_deleted_whichever_answer_is_lost() {
    for operation_ticks in [0, 2] {
        for lost in 1..=3 {
            let fixture = Fixture::new();
            {
                let knobs = &mut fixture.cloud.lock().knobs;
                (knobs.operation_ticks, knobs.delete_ticks) = (operation_ticks, 6);
            }
            let (world, _) = fixture.losing(lost);
            let old = provider_id(&fixture.workers, "workers-0000");
            let first = Gcp::delete_node(&world, &old);
            assert_eq!(first.is_ok(), lost > 2);
            // While it is being deleted, and after.
            for _ in 0..4 {
                Gcp::delete_node(&fixture.world(), &old).unwrap();
            }
            fixture.wait(10);
            Gcp::delete_node(&fixture.world(), &old).unwrap();
            assert_eq!(
                Gcp::node_state(&fixture.world(), &old).unwrap(),
                NodeState::Terminated
            );
            let left = (fixture.size(&fixture.workers), fixture.target(&fixture.workers));
            assert_eq!(left, (1, 1));
        }
    }
}
