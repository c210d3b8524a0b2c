//! One machine for a request, whatever is lost, however often, and whatever others do meanwhile.

use crate::setup::{Aws1, Lost, WORKERS, id_of, tag};
use numo_clouds::aws::State;
use numo_provider_sdk::{Creation, FailureCode, Provider};
use provider_aws::Aws;

/// What numo still knows when it asks again.
#[derive(Clone, Copy, Debug)]
enum After {
    /// The token: only the answer was lost.
    Lost,
    /// Nothing: numo was started anew.
    Restart,
}

/// Makes a machine with one answer lost. False if there was no such call.
fn lose(aws: &Aws1, group: &str, at: usize, how: Lost, after: After) -> bool {
    aws.loses.set(Some((at, how)));
    let mut token = None;
    for _ in 0..40 {
        match aws.ask(group, "numo-1a", token.as_deref()) {
            Ok(Creation::Created(_)) => return aws.loses.get().is_none(),
            Ok(Creation::Pending(pending)) => {
                aws.now
                    .set(aws.now.get() + u64::from(pending.retry_after_seconds));
                token = Some(pending.token);
            }
            Err(failure) => {
                assert_eq!(failure.code, FailureCode::Unavailable, "{}", failure.message);
                assert!(aws.loses.take().is_some(), "{}", failure.message);
                aws.now.set(aws.now.get() + 1);
                if matches!(after, After::Restart) {
                    token = None;
                }
            }
        }
    }
    panic!("not made after 40 calls");
}

/// Loses each answer once, in a cloud of its own each time, and asserts that there is one machine, and the group one larger.
fn lose_each(group: &str, set_up: impl Fn(&mut State), calls: usize) {
    for after in [After::Lost, After::Restart] {
        for how in [Lost::Before, Lost::After] {
            let mut lost = 0;
            loop {
                let aws = Aws1::new();
                set_up(&mut aws.cloud.state());
                let before = aws.living();
                let was_lost = lose(&aws, group, lost, how, after);
                let what = format!("call {lost} lost {how:?}, then {after:?}, of {group}");
                let state = aws.cloud.state();
                let made = state.made_for("numo-1a");
                assert_eq!(made.len(), 1, "{what}: {:?}", state.calls);
                assert_eq!(made[0].group.as_deref(), Some(group), "{what}");
                assert_eq!(state.groups[group].desired, 4, "{what}");
                drop(state);
                let living = aws.living();
                assert_eq!(living.len(), before.len() + 1, "{what}");
                assert!(
                    before.iter().all(|id| living.contains(id)),
                    "{what}: another machine is gone"
                );
                if !was_lost {
                    break;
                }
                lost += 1;
            }
            assert!(lost >= calls, "only {lost} calls could be lost");
        }
    }
}

#[test]
fn an_answer_lost_at_any_call_makes_no_second_machine() {
    lose_each(WORKERS, |_| {}, 6);
    lose_each("control", |_| {}, 4);
}

#[test]
fn a_machine_that_ec2_does_not_list_yet_is_not_made_again() {
    lose_each(WORKERS, |state| state.unseen = 3, 6);
    lose_each("control", |state| state.unseen = 3, 4);
}

#[test]
fn a_machine_that_boots_slowly_or_shows_its_group_late_is_not_made_again() {
    let slow = |state: &mut State| {
        state.boots = 4;
        state.untagged = 3;
    };
    lose_each(WORKERS, slow, 6);
    lose_each("control", slow, 4);
}

#[test]
fn small_pages_make_no_second_machine() {
    lose_each(WORKERS, |state| state.page = 1, 6);
}

#[test]
fn a_template_with_network_interfaces_makes_no_second_machine() {
    let with = |state: &mut State| {
        for template in state.templates.values_mut() {
            template.versions[0].interface = Some(vec!["sg-1".to_owned(), "sg-2".to_owned()]);
        }
    };
    lose_each(WORKERS, with, 8);
    lose_each("control", with, 6);
}

#[test]
fn a_subnet_without_room_makes_no_second_machine() {
    let with = |state: &mut State| {
        state
            .full_subnets
            .extend(["subnet-a".to_owned(), "subnet-b".to_owned()]);
    };
    lose_each(WORKERS, with, 6);
}

#[test]
fn tags_of_a_group_that_do_not_fit_a_token_are_read_again() {
    let with = |state: &mut State| {
        let group = state.groups.get_mut(WORKERS).unwrap();
        group
            .tags
            .extend((0..30).map(|n| tag(&format!("key-{n}"), &"v".repeat(200))));
    };
    lose_each(WORKERS, with, 7);
}

#[test]
fn what_the_autoscaler_makes_meanwhile_is_left_alone_and_not_taken() {
    for at in 0..6 {
        let aws = Aws1::new();
        let meddle = |state: &mut State| {
            if let Some(group) = state.groups.get_mut(WORKERS) {
                group.desired += 1;
            }
            state.reconcile(WORKERS);
        };
        aws.cloud.state().meddles.push((at, Box::new(meddle)));
        let node = aws.create(WORKERS, "numo-1a").unwrap();
        let state = aws.cloud.state();
        assert_eq!(state.made_for("numo-1a").len(), 1, "before call {at}");
        assert_eq!(state.made_for("numo-1a")[0].id, id_of(&node));
        assert_eq!(state.members(WORKERS).len(), 5, "before call {at}");
        assert_eq!(state.groups[WORKERS].desired, 5, "before call {at}");
    }
}

#[test]
fn two_requests_at_once_make_two_machines_and_each_finds_its_own() {
    let aws = Aws1::new();
    let mut tokens = [None, None];
    let mut nodes = [None, None];
    for _ in 0..20 {
        for (at, request) in ["numo-1a", "numo-1b"].into_iter().enumerate() {
            if nodes[at].is_some() {
                continue;
            }
            match aws.ask(WORKERS, request, tokens[at].as_deref()).unwrap() {
                Creation::Created(node) => nodes[at] = Some(node),
                Creation::Pending(pending) => tokens[at] = Some(pending.token),
            }
        }
        aws.now.set(aws.now.get() + 10);
    }
    let [one, other] = nodes.map(Option::unwrap);
    assert_ne!(one.provider_id, other.provider_id);
    for (request, node) in [("numo-1a", &one), ("numo-1b", &other)] {
        let found = aws.call(|world| Aws::find_node(world, WORKERS, request)).unwrap();
        assert_eq!(found.as_ref(), Some(node));
    }
    let state = aws.cloud.state();
    assert_eq!(state.groups[WORKERS].desired, 5);
    assert_eq!(state.members(WORKERS).len(), 5);
}

#[test]
fn a_template_that_changes_between_two_calls_makes_no_second_machine() {
    let aws = Aws1::new();
    aws.loses.set(Some((1, Lost::After)));
    aws.ask("control", "numo-1a", None).unwrap_err();
    aws.loses.set(None);
    let mut state = aws.cloud.state();
    state.groups.get_mut("control").unwrap().template = Some(("lt-other".to_owned(), "1".to_owned()));
    state
        .instances
        .iter_mut()
        .for_each(|instance| instance.unseen = 0);
    drop(state);
    aws.create("control", "numo-1a").unwrap();
    assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1);
}

#[test]
fn a_second_machine_of_a_request_is_ended_and_no_other() {
    // The worst: the answer was lost, numo was started anew, EC2 lists the machine later than a settled list, and the zones have changed.
    let aws = Aws1::new();
    aws.cloud.state().unseen = 1;
    let Creation::Pending(placed) = aws.ask(WORKERS, "numo-1a", None).unwrap() else {
        panic!("made at once");
    };
    aws.now.set(aws.now.get() + 10);
    aws.loses.set(Some((aws.sent() + 1, Lost::After)));
    aws.ask(WORKERS, "numo-1a", Some(&placed.token)).unwrap_err();
    aws.loses.set(None);
    aws.cloud.state().unseen = 0;
    let zone = aws.cloud.state().made_for("numo-1a")[0].zone.clone();
    // Two more members in the zone that was chosen.
    let others: Vec<String> = {
        let mut state = aws.cloud.state();
        let members = state.members(WORKERS).into_iter();
        let mut copies: Vec<_> = members.take(2).cloned().collect();
        for copy in &mut copies {
            copy.id = state.id("i-");
            copy.zone.clone_from(&zone);
        }
        state.groups.get_mut(WORKERS).unwrap().desired += 2;
        state.groups.get_mut(WORKERS).unwrap().max += 2;
        state.instances.extend(copies);
        state.members(WORKERS).iter().map(|one| one.id.clone()).collect()
    };
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    for _ in 0..6 {
        let found = aws
            .call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
            .unwrap();
        assert!(found.is_some());
    }
    let state = aws.cloud.state();
    let made = state.made_for("numo-1a");
    assert_eq!(made.len(), 2, "the test makes two");
    let living: Vec<_> = made.iter().filter(|one| one.lives()).collect();
    assert_eq!(living.len(), 1, "{made:?}");
    assert_eq!(living[0].id, id_of(&node));
    assert_eq!(living[0].group.as_deref(), Some(WORKERS));
    assert!(others.iter().all(|id| state.instance(id).unwrap().lives()));
}

#[test]
fn finding_makes_nothing_and_finds_what_is_not_attached_yet() {
    let aws = Aws1::new();
    assert_eq!(
        aws.call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
            .unwrap(),
        None
    );
    assert_eq!(aws.actions(), ["DescribeInstances"]);
    aws.ask("control", "numo-1a", None).unwrap();
    let found = aws
        .call(|world| Aws::find_node(world, "control", "numo-1a"))
        .unwrap()
        .unwrap();
    assert_eq!(aws.cloud.state().made_for("numo-1a")[0].id, id_of(&found));
    assert_eq!(aws.cloud.state().count("AttachInstances"), 0);
    let other = aws
        .call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
        .unwrap_err();
    assert_eq!(other.code, FailureCode::Invalid);
    assert!(other.message.contains("numo-group"), "{}", other.message);
}

#[test]
fn a_deletion_lost_at_any_call_lowers_the_group_by_one() {
    for how in [Lost::Before, Lost::After] {
        for at in 0..2 {
            let aws = Aws1::new();
            let id = aws.member(WORKERS);
            let provider_id = aws.provider_id(&id);
            aws.loses.set(Some((at, how)));
            aws.call(|world| Aws::delete_node(world, &provider_id))
                .unwrap_err();
            aws.loses.set(None);
            aws.call(|world| Aws::delete_node(world, &provider_id)).unwrap();
            aws.call(|world| Aws::delete_node(world, &provider_id)).unwrap();
            let state = aws.cloud.state();
            assert_eq!(state.groups[WORKERS].desired, 2, "call {at} lost {how:?}");
            assert_eq!(state.members(WORKERS).len(), 2, "call {at} lost {how:?}");
            assert!(!state.instance(&id).unwrap().lives());
        }
    }
}
