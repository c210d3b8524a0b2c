//! Others do things at the same time: other requests, the same request, an autoscaler, a person.

use super::*;
use std::cell::RefCell;

/// Runs what another does before each request of a call, one place after the other, and has a look at the end.
fn at_every_place(
    state: impl Fn() -> State,
    other: impl Fn(&Azure) + Clone + 'static,
    look: impl Fn(&Azure, &CreatedNode, usize),
) {
    for place in 0..40 {
        let azure = started(state());
        let reached = Rc::new(Cell::new(false));
        let mut world = {
            let (azure, other, reached) = (azure.clone(), other.clone(), reached.clone());
            world_that(&azure.clone(), place, move || {
                reached.set(true);
                other(&azure);
            })
        };
        let node = made(&mut world, "numo-a").unwrap();
        if !reached.get() {
            assert!(place > 4);
            return;
        }
        look(&azure, &node, place);
    }
}

#[test]
fn another_request_gets_another_machine() {
    let seen: Rc<RefCell<Option<CreatedNode>>> = Rc::default();
    let other = {
        let seen = seen.clone();
        move |azure: &Azure| {
            *seen.borrow_mut() = Some(made(&mut world(azure), "numo-b").unwrap());
        }
    };
    at_every_place(pool, other, |azure, node, place| {
        let other = seen.borrow_mut().take().unwrap();
        assert_ne!(node.provider_id, other.provider_id, "place {place}");
        assert!(number(node) >= 3 && number(&other) >= 3, "place {place}");
        assert_eq!(staying(azure, POOL).len(), 5, "place {place}");
        assert_eq!(capacity(azure), 5, "place {place}");
    });
}

#[test]
fn another_request_gets_another_machine_where_lists_lag_and_numbers_are_used_again() {
    let state = || {
        let mut state = pool();
        state.unseen = 2;
        state.numbers_again = true;
        state.set(POOL).machines.remove(1);
        state.set(POOL).capacity = 2;
        state
    };
    let seen: Rc<RefCell<Option<CreatedNode>>> = Rc::default();
    let other = {
        let seen = seen.clone();
        move |azure: &Azure| *seen.borrow_mut() = Some(made(&mut world(azure), "numo-b").unwrap())
    };
    at_every_place(state, other, |azure, node, place| {
        let other = seen.borrow_mut().take().unwrap();
        assert_ne!(node.provider_id, other.provider_id, "place {place}");
        assert_eq!(staying(azure, POOL).len(), 4, "place {place}");
    });
}

/// The other only begins: its machine comes while this one's does.
fn two_share_no_machine(state: impl Fn() -> State) {
    let other = |azure: &Azure| {
        let _ = Cloud::create_node(&world(azure), &group(), "numo-b", None).unwrap();
    };
    at_every_place(state, other, |azure, node, place| {
        let other = made(&mut world(azure), "numo-b").unwrap();
        assert_ne!(node.provider_id, other.provider_id, "place {place}");
        assert_eq!(staying(azure, POOL).len(), 5, "place {place}");
        assert_eq!(capacity(azure), 5, "place {place}");
    });
}

#[test]
fn two_requests_under_way_share_no_machine() {
    two_share_no_machine(pool);
}

#[test]
fn two_requests_that_both_see_both_machines_share_none() {
    for times in [true, false] {
        two_share_no_machine(|| State {
            unseen: 4,
            times,
            ..pool()
        });
    }
}

#[test]
fn the_same_request_twice_at_once_makes_one_machine() {
    let other = |azure: &Azure| {
        made(&mut world(azure), "numo-a").unwrap();
    };
    at_every_place(pool, other, |azure, node, place| {
        assert_eq!(staying(azure, POOL).len(), 4, "place {place}");
        assert_eq!(made(&mut world(azure), "numo-a").unwrap(), *node, "place {place}");
    });
}

#[test]
fn machines_of_an_autoscaler_are_not_missed() {
    let other = |azure: &Azure| {
        let mut state = azure.state();
        let capacity = state.set(POOL).capacity;
        state.scale(POOL, capacity + 2);
    };
    at_every_place(pool, other, |azure, node, place| {
        assert!(number(node) >= 3, "place {place}");
        assert_eq!(staying(azure, POOL).len(), 6, "place {place}");
        assert_eq!(capacity(azure), 6, "place {place}");
    });
}

#[test]
fn a_deletion_meanwhile_changes_nothing() {
    let other = |azure: &Azure| Cloud::delete_node(&world(azure), &State::provider_id(POOL, 0)).unwrap();
    at_every_place(
        || State { unseen: 2, ..pool() },
        other,
        |azure, node, place| {
            assert!(number(node) >= 3, "place {place}");
            assert_eq!(
                staying(azure, POOL).len(),
                3,
                "place {place}: {:#?}",
                logged(azure)
            );
        },
    );
}

#[test]
fn a_machine_that_is_taken_away_before_it_is_the_requests_is_made_again() {
    let azure = started(pool());
    let mut world = world(&azure);
    assert!(matches!(
        Cloud::create_node(&world, &group(), "numo-a", None).unwrap(),
        Creation::Pending(_)
    ));
    azure.state().scale(POOL, 3);
    let begun = world.now;
    let node = made(&mut world, "numo-a").unwrap();
    assert!(world.now >= begun + 90, "not at once: a list may lag behind");
    assert_eq!(staying(&azure, POOL).len(), 4);
    assert!(staying(&azure, POOL).contains(&number(&node)));
}

#[test]
fn a_machine_that_somebody_deleted_is_made_again_and_once() {
    let azure = started(pool());
    let mut world = world(&azure);
    let first = made(&mut world, "numo-a").unwrap();
    Cloud::delete_node(&world, &first.provider_id).unwrap();
    for _ in 0..5 {
        Cloud::node_state(&world, &first.provider_id).unwrap();
    }
    assert_eq!(Cloud::find_node(&world, &group(), "numo-a").unwrap(), None);
    let second = made(&mut world, "numo-a").unwrap();
    assert_ne!(first.provider_id, second.provider_id);
    assert_eq!(staying(&azure, POOL).len(), 4);
}

#[test]
fn a_crowd_of_requests_gets_one_machine_each() {
    let azure = started(pool());
    let mut tokens: Vec<(String, Option<String>, Option<CreatedNode>)> = (0..16)
        .map(|index| (format!("numo-{index}"), None, None))
        .collect();
    let mut world = world(&azure);
    for _ in 0..60 {
        for (request, token, node) in tokens.iter_mut().filter(|(_, _, node)| node.is_none()) {
            match Cloud::create_node(&world, &group(), request, token.as_deref()).unwrap() {
                Creation::Created(made) => *node = Some(made),
                Creation::Pending(pending) => *token = Some(pending.token),
            }
        }
        world.now += 10;
    }
    let mut ids: Vec<String> = tokens
        .into_iter()
        .map(|(request, _, node)| node.expect(&request).provider_id)
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 16);
    assert_eq!(staying(&azure, POOL).len(), 19);
}
