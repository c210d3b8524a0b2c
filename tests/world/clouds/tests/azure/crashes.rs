//! numo dies at each call, and asks again without knowing anything.

use super::*;

/// One machine more than there were, it is the request's, and nothing is left to be made.
fn one_machine(azure: &Azure, node: &CreatedNode, at: usize) {
    let mut state = azure.state();
    let staying = state.staying(POOL);
    assert_eq!(staying.len(), 4, "call {at}: {:#?}", state.log);
    assert_eq!(state.set(POOL).capacity, 4, "call {at}");
    assert!(
        number(node) >= 3 && staying.contains(&number(node)),
        "call {at}: {}",
        node.provider_id
    );
}

fn dies_at_every_call(state: impl Fn() -> State) {
    for at in 0..100 {
        let azure = started(state());
        let (mut dying, calls) = world_that_dies(&azure, at);
        let outcome = made(&mut dying, "numo-a");
        if calls.get() <= at {
            assert!(at > 5, "the whole call was tried");
            one_machine(&azure, &outcome.unwrap(), at);
            return;
        }
        outcome.unwrap_err();
        let mut born_again = World {
            now: dying.now,
            ..world(&azure)
        };
        let node = made(&mut born_again, "numo-a").unwrap();
        one_machine(&azure, &node, at);
        assert_eq!(
            Cloud::find_node(&born_again, &group(), "numo-a").unwrap(),
            Some(node)
        );
    }
    panic!("it never ended");
}

#[test]
fn a_request_makes_one_machine_whenever_numo_dies() {
    dies_at_every_call(pool);
}

#[test]
fn a_request_makes_one_machine_whenever_numo_dies_where_lists_lag() {
    dies_at_every_call(|| State {
        unseen: 3,
        numbers_again: true,
        ..pool()
    });
}

#[test]
fn a_request_makes_one_machine_whenever_numo_dies_where_machines_do_not_say_when_they_were_made() {
    dies_at_every_call(|| State {
        times: false,
        ..pool()
    });
}

#[test]
fn a_request_makes_one_machine_whenever_numo_dies_where_changes_are_accepted_only() {
    dies_at_every_call(|| State {
        accepted: true,
        ..pool()
    });
}

#[test]
fn a_request_makes_one_machine_whenever_numo_dies_where_there_is_no_room_at_first() {
    for at in 0..20 {
        let azure = started(State {
            without_room: 2,
            ..pool()
        });
        let (mut dying, _) = world_that_dies(&azure, at);
        let _ = made(&mut dying, "numo-a");
        let mut world = world(&azure);
        let node = (0..5).find_map(|_| made(&mut world, "numo-a").ok()).unwrap();
        one_machine(&azure, &node, at);
    }
}

/// numo dies again and again, at a call that moves on by one each time.
#[test]
fn a_request_makes_one_machine_if_numo_dies_many_times() {
    let azure = started(pool());
    for at in 0..12 {
        let (mut dying, _) = world_that_dies(&azure, at % 4);
        let _ = made(&mut dying, "numo-a");
    }
    let node = made(&mut world(&azure), "numo-a").unwrap();
    one_machine(&azure, &node, 0);
}

/// What numo does with a request that nobody wants any more: it looks for the machine, and takes what it is told for true.
#[test]
fn a_machine_of_a_dead_numo_is_found_whenever_it_died() {
    for at in 0..30 {
        let azure = started(pool());
        let (mut dying, calls) = world_that_dies(&azure, at);
        let _ = made(&mut dying, "numo-a");
        let over = calls.get() <= at;
        let world = world(&azure);
        let found = (0..60).find_map(|_| Cloud::find_node(&world, &group(), "numo-a").ok());
        let found = found.unwrap();
        let mut state = azure.state();
        let there = state.staying(POOL);
        match found {
            Some(node) => assert!(there.len() == 4 && there.contains(&number(&node)), "call {at}"),
            None => assert_eq!(
                (there.len(), state.set(POOL).capacity),
                (3, 3),
                "call {at}: a machine is left over"
            ),
        }
        if over {
            return;
        }
    }
    panic!("it never ended");
}
