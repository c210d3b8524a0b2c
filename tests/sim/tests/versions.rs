//! Machines that are replaced in ways that no seed draws: many at once of which some never boot, an image of which none does, and two
//! NodeVersions.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_sim::{
    Owners, Setup, Simulation, Story,
    world::{FleetAct, NEVER_BOOTS},
};
use serde_json::json;

/// A seed makes and drops small strings without end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[track_caller]
fn told(setup: Setup) -> Story {
    let ended = Simulation::new(0, setup, true).of(Owners::Versions).run();
    ended.unwrap_or_else(|failure| panic!("{failure}"))
}

fn lines<'a>(story: &'a Story, part: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = story.lines.iter().map(|line| line.what.as_str());
    lines.filter(move |line| line.contains(part))
}

/// One machine of ten never boots, and each costs a try: all 300 nodes are replaced, and none is lost.
#[test]
fn three_hundred_machines_are_replaced_of_which_some_never_boot() {
    let spec = json!({"surge": "10%", "joinRetries": 5, "joinTimeoutSeconds": 600});
    let story = told(Setup::large_version(300, 10, &spec));
    let made = lines(&story, "makes machine").count();
    assert_eq!(story.upgrades, 303, "the workers and the control plane");
    assert!((303 + 20..303 + 60).contains(&made), "{made} machines were made");
}

/// As many machines as may fail do, then the node is held and no old one is lost; another image ends it.
#[test]
fn an_image_that_never_boots_costs_a_few_machines_and_no_node() {
    let mut setup = Setup::large_version(3, 0, &json!({"joinRetries": 2, "joinTimeoutSeconds": 600}));
    setup
        .world
        .plan_fleet_act(60, FleetAct::NewImage(NEVER_BOOTS.to_owned()));
    setup.people = true;
    setup.storm = 20_000;
    let story = told(setup);
    let mended = story
        .lines
        .iter()
        .position(|line| line.what == "mends everything");
    let before = &story.lines[..mended.expect("people mend it")];
    let count = |part: &str| before.iter().filter(|line| line.what.contains(part)).count();
    assert_eq!(count("makes machine"), 3, "spec.joinRetries");
    assert_eq!(count("joins"), 0);
    assert_eq!(story.upgrades, 6, "then all are replaced");
}

#[test]
fn two_nodeversions_replace_their_own_machines() {
    let story = told(Setup::plain_two_versions());
    assert_eq!(story.upgrades, 6);
}

/// The workers go to another image while the control plane is replaced; each NodeVersion ends at its own.
#[test]
fn one_of_two_nodeversions_can_be_edited_before_any_write() {
    let writes = told(Setup::plain_two_versions()).writes;
    assert!(writes > 40, "{writes} writes");
    for number in (1..=writes).step_by(3) {
        let mut setup = Setup::plain_two_versions();
        let act = FleetAct::NewImageOfOne("img-3".to_owned());
        setup
            .faults
            .act_before
            .insert(number, numo_sim::world::Act::Fleet(act));
        setup.people = true;
        told(setup);
    }
}
