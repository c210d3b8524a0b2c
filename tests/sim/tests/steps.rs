//! One thing goes wrong before each single write of a whole upgrade, in both strategies.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "steps/hours.rs"]
mod hours;

use numo_api::Strategy;
use numo_sim::{
    Options, Owners, Setup, Simulation, Story, on_all_cores, run,
    world::{Act, MeantHours},
};

const STRATEGIES: [Strategy; 2] = [Strategy::DesiredConfig, Strategy::CanaryPool];

fn told(strategy: Strategy, interfere: impl Fn(&mut Setup), tell: bool) -> Result<Story, String> {
    let mut setup = Setup::plain(strategy, 2);
    interfere(&mut setup);
    Simulation::new(0, setup, tell)
        .run()
        .map_err(|failure| failure.to_string())
}

#[track_caller]
fn check(what: &str, interfere: impl Fn(&mut Setup, usize)) {
    for strategy in STRATEGIES {
        let writes = told(strategy, |_| (), false)
            .expect("a plain upgrade succeeds")
            .writes;
        assert!(writes > 30, "{writes} writes");
        for number in 1..=writes {
            let go = |tell| told(strategy, |setup| interfere(setup, number), tell);
            if go(false).is_err() {
                let story = go(true).map_or_else(|failure| failure, |story| story.to_string());
                panic!("{story}\n{strategy:?}: {what} before write {number}");
            }
        }
    }
}

fn act(act: &Act) -> impl Fn(&mut Setup, usize) {
    let act = act.clone();
    move |setup, number| {
        setup.faults.act_before.insert(number, act.clone());
        setup.people = true;
    }
}

#[test]
fn the_operator_can_die_before_any_write() {
    check("a crash", |setup, number| {
        setup.faults.crash_before.insert(number);
    });
}

#[test]
fn any_write_can_be_refused() {
    check("a refusal", |setup, number| {
        setup.faults.refuse_before.insert(number);
    });
}

#[test]
fn any_write_can_be_refused_and_the_operator_die_after_it() {
    check("a refusal and a crash", |setup, number| {
        setup.faults.refuse_before.insert(number);
        setup.faults.crash_before.insert(number + 2);
    });
}

#[test]
fn the_run_can_be_deleted_before_any_write() {
    check("a deletion", act(&Act::Delete));
}

#[test]
fn the_run_can_be_deleted_and_the_operator_die_before_any_write() {
    check("a deletion and a crash", |setup, number| {
        act(&Act::Delete)(setup, number);
        setup.faults.crash_before.insert(number + 2);
    });
}

#[test]
fn the_run_can_be_given_up_and_taken_up_before_any_write() {
    check("an abort", act(&Act::Abort(1200)));
}

#[test]
fn the_run_can_be_suspended_before_any_write() {
    check("a suspension", act(&Act::Suspend(1200)));
}

#[test]
fn the_hours_of_the_run_can_close_before_any_write() {
    let hours = Box::new(MeantHours::of_the_evening());
    check("closed hours", act(&Act::SetHours(hours, 1200)));
}

#[test]
fn the_cluster_can_go_on_to_another_version_before_any_write() {
    check("another version", act(&Act::Ask("4.18.0".to_owned())));
}

#[test]
fn pools_can_be_rendered_again_before_any_write() {
    check("another rendering", act(&Act::RenderAgain));
}

#[test]
fn a_pool_can_be_unpaused_before_any_write() {
    check("an unpaused pool", act(&Act::UnpausePool));
}

#[test]
fn a_selector_can_be_reverted_before_any_write() {
    check("a reverted selector", act(&Act::RevertSelector));
}

#[test]
fn a_node_can_come_again_before_any_write() {
    check("a recreated node", act(&Act::RecreateNode));
}

#[test]
fn a_node_can_be_cordoned_before_any_write() {
    check("a cordon", act(&Act::Cordon(1200)));
}

#[test]
fn a_journal_can_be_deleted_before_any_write() {
    check("a deleted NodeChange", act(&Act::DeleteChange));
}

#[test]
fn a_rule_can_be_lost_before_any_write() {
    check("a lost rule", act(&Act::LoseRule(1200)));
}

#[test]
fn a_rule_can_be_edited_before_any_write() {
    check("an edited rule", act(&Act::EditRule));
}

#[test]
fn a_target_can_name_a_pool_that_does_not_exist_before_any_write() {
    check("a broken target", act(&Act::BreakTarget(1200)));
}

#[test]
fn a_target_can_be_deleted_before_any_write_once_its_pools_are_known() {
    // Before the first status nobody knows which pools it named.
    check("a lost target", |setup, number| {
        if number > 4 {
            act(&Act::LoseTarget(1200))(setup, number);
        }
    });
}

#[test]
fn no_node_rolls_while_the_run_is_broken_before_its_first_upgrade() {
    for strategy in STRATEGIES {
        for broken in [Act::BreakTarget(9000), Act::LoseRule(9000)] {
            let story = told(
                strategy,
                |setup| {
                    setup.world.act(&broken);
                    setup.world.people.broke_spec = true;
                    setup.people = true;
                },
                true,
            );
            let story = story.unwrap_or_else(|failure| panic!("{failure}"));
            assert!(
                story.writes > 30,
                "{strategy:?}: {broken:?}: after the mend it goes on"
            );
        }
    }
}

#[test]
fn what_is_split_over_cores_is_done_once_and_in_order() {
    assert_eq!(on_all_cores(7, |one| one * 2), [0, 2, 4, 6, 8, 10, 12]);
    assert!(on_all_cores(0, |one| one).is_empty());
}

/// What is kept of the view is compared with what was seen, before each write of a story that is told.
#[test]
fn what_is_kept_is_all_that_was_seen() {
    for owners in Owners::EACH {
        for seed in 0..3 {
            let options = Options {
                owners,
                tell: true,
                ..Options::default()
            };
            run(seed, options).unwrap();
        }
    }
}
