//! One thing goes wrong before each single write of a whole roll of a Plan, of a whole NodeMaintenance, and of a whole replacement of machines.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_api::DirectiveAction;
use numo_sim::{
    Owners, Setup, Simulation, Story,
    world::{Act, BindingEdit, FleetAct, MeantHours, NEVER_BOOTS},
};

/// A seed makes and drops small strings without end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn told(owners: Owners, interfere: impl Fn(&mut Setup), tell: bool) -> Result<Story, String> {
    let mut setup = Setup::plain_fleet(owners);
    interfere(&mut setup);
    let simulation = Simulation::new(0, setup, tell).of(owners);
    simulation.run().map_err(|failure| failure.to_string())
}

#[track_caller]
fn check(what: &str, interfere: impl Fn(&mut Setup, usize)) {
    check_of(&[Owners::Plans, Owners::Maintenances], what, interfere);
}

/// What nobody but the operator and the server have a hand in, for NodeVersions too.
#[track_caller]
fn check_writes(what: &str, interfere: impl Fn(&mut Setup, usize)) {
    let all = [Owners::Plans, Owners::Maintenances, Owners::Versions];
    check_of(&all, what, interfere);
}

#[track_caller]
fn check_of(all: &[Owners], what: &str, interfere: impl Fn(&mut Setup, usize)) {
    for owners in all.iter().copied() {
        let writes = told(owners, |_| (), false)
            .unwrap_or_else(|failure| panic!("nothing is in the way of {owners:?}: {failure}"))
            .writes;
        assert!(writes > 15, "{owners:?}: {writes} writes");
        for number in 1..=writes {
            let go = |tell| told(owners, |setup| interfere(setup, number), tell);
            if go(false).is_err() {
                let story = go(true).map_or_else(|failure| failure, |story| story.to_string());
                panic!("{story}\n{owners:?}: {what} before write {number}");
            }
        }
    }
}

#[track_caller]
fn check_act(what: &str, act: &Act) {
    check(what, |setup, number| {
        setup.faults.act_before.insert(number, act.clone());
        setup.people = true;
    });
}

#[track_caller]
fn check_fleet(what: &str, act: &FleetAct) {
    check_act(what, &Act::Fleet(act.clone()));
}

#[test]
fn the_operator_can_die_before_any_write() {
    check_writes("a crash", |setup, number| {
        setup.faults.crash_before.insert(number);
    });
}

#[test]
fn the_operator_can_be_away_for_long_before_any_write() {
    check_writes("a long absence", |setup, number| {
        setup.faults.away_before.insert(number);
    });
}

/// What of a Plan's spec makes its nodes ready for the upgrade, and who does that.
fn prepare_by_job(setup: &mut Setup, drains: Option<bool>, prepares: bool) {
    for plan in setup.world.truth.plans.values_mut() {
        plan.spec.drain = plan.spec.drain.take().filter(|_| drains == Some(true));
        plan.spec.cordon = (drains == Some(false)).then_some(true);
        plan.spec.prepare = prepares.then(|| plan.spec.upgrade.clone()).flatten();
    }
    for binding in setup.world.truth.bindings.values_mut() {
        binding.spec.settings.drain_by = None;
    }
}

/// Each Job runs once, unless a person has it run again; and no node is forgotten.
#[test]
fn the_operator_can_be_away_for_long_before_any_write_of_any_plan() {
    for (drains, prepares) in [(None, false), (Some(false), true), (Some(true), false)] {
        check_of(&[Owners::Plans], "a long absence", |setup, number| {
            prepare_by_job(setup, drains, prepares);
            setup.faults.away_before.insert(number);
        });
    }
    check_of(&[Owners::Plans], "a long absence", |setup, number| {
        for plan in setup.world.truth.plans.values_mut() {
            plan.spec.prepare = plan.spec.upgrade.clone();
        }
        setup.faults.away_before.insert(number);
    });
}

#[test]
fn any_write_can_be_refused() {
    check_writes("a refusal", |setup, number| {
        setup.faults.refuse_before.insert(number);
    });
}

#[test]
fn any_write_can_be_refused_and_the_operator_die_after_it() {
    check_writes("a refusal and a crash", |setup, number| {
        setup.faults.refuse_before.insert(number);
        setup.faults.crash_before.insert(number + 2);
    });
}

#[test]
fn an_owner_can_be_suspended_before_any_write() {
    check_fleet("a suspension", &FleetAct::Suspend(1200));
}

#[test]
fn everything_can_be_stopped_before_any_write() {
    check_act("a stop", &Act::PauseBudgets(1200));
}

#[test]
fn a_plan_can_go_to_another_version_before_any_write() {
    check_fleet("another version", &FleetAct::NewVersion("v1.31.4".to_owned()));
}

#[test]
fn a_plan_can_go_ahead_of_the_others_before_any_write() {
    check_fleet(
        "another version of one Plan",
        &FleetAct::NewVersionOfOne("v1.31.4".to_owned(), 3600),
    );
}

#[test]
fn a_plan_can_be_deleted_before_any_write() {
    check_fleet("a deletion", &FleetAct::DeletePlan);
}

#[test]
fn a_plan_can_be_given_up_before_any_write() {
    check_fleet("an abort", &FleetAct::AbortPlan(1200));
}

#[test]
fn the_window_of_a_plan_can_close_before_any_write() {
    check_fleet("a window", &FleetAct::SetWindow(14 * 3600, 15 * 3600));
}

#[test]
fn hours_can_close_before_any_write() {
    check_act(
        "closed hours",
        &Act::SetHours(Box::new(MeantHours::of_the_evening()), 1200),
    );
}

#[test]
fn a_binding_can_be_edited_before_any_write() {
    for edit in BindingEdit::EACH {
        check_fleet("an edit of a MutexBinding", &FleetAct::EditBinding(edit, 1200));
    }
}

/// The same, and in the end there is no machine more than there was.
#[track_caller]
fn check_machines(what: &str, act: &Act) {
    let writes = told(Owners::Versions, |_| (), false)
        .expect("nothing is in the way")
        .writes;
    for number in 1..=writes {
        let interfere = |setup: &mut Setup| {
            setup.faults.act_before.insert(number, act.clone());
            setup.people = true;
        };
        let story = told(Owners::Versions, interfere, true).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(
            story.machines_more, 0,
            "{story}\n{what} before write {number}: machines are left over"
        );
    }
}

/// What people do to machines that are replaced.
#[track_caller]
fn check_versions(what: &str, act: &FleetAct) {
    check_of(&[Owners::Versions], what, |setup, number| {
        setup.faults.act_before.insert(number, Act::Fleet(act.clone()));
        setup.people = true;
    });
}

#[test]
fn a_nodeversion_can_be_edited_before_any_write() {
    for image in ["img-3", "img-1", NEVER_BOOTS] {
        check_versions("another image", &FleetAct::NewImage(image.to_owned()));
    }
}

#[test]
fn a_nodeversion_can_be_edited_twice_before_any_write() {
    for (first, then) in [("img-3", "IMG-2"), ("img-1", "img-3"), (NEVER_BOOTS, "img-3")] {
        check_of(&[Owners::Versions], "two more images", |setup, number| {
            for (number, image) in [(number, first), (number + 3, then)] {
                let act = FleetAct::NewImage(image.to_owned());
                setup.faults.act_before.insert(number, Act::Fleet(act));
            }
            setup.people = true;
        });
    }
}

#[test]
fn a_nodeversion_can_be_deleted_and_given_up_before_any_write() {
    check_versions("a deletion", &FleetAct::DeleteVersion);
    check_versions("an abort", &FleetAct::AbortVersion(1200));
}

/// What had joined by then is taken.
#[test]
fn a_nodeversion_can_be_given_up_before_any_write_and_keeps_no_machine_more() {
    check_machines("an abort", &Act::Fleet(FleetAct::AbortVersion(1200)));
}

#[test]
fn a_group_can_go_before_any_write() {
    check_versions("a deleted ScalingGroup", &FleetAct::DeleteGroup);
    check_versions("a group that nobody knows", &FleetAct::LoseGroup(1200));
}

#[test]
fn the_autoscaler_can_be_started_and_the_provider_lost_before_any_write() {
    check_versions("an autoscaler", &FleetAct::StartAutoscaler);
    check_versions("a lost provider", &FleetAct::LoseProvider(1200));
}

#[track_caller]
fn check_control_plane(what: &str, act: Act) {
    let act = Act::OnControlPlane(Box::new(act));
    check_of(&[Owners::Versions], what, |setup, number| {
        setup.faults.act_before.insert(number, act.clone());
        setup.people = true;
    });
}

/// Its member of etcd is taken out all the same.
#[test]
fn a_machine_of_the_control_plane_can_be_deleted_before_any_write() {
    check_control_plane("a node that goes", Act::DeleteNode);
}

/// The new node that had joined for it takes its place, however long it was away.
#[test]
fn a_node_of_the_control_plane_can_be_made_anew_before_any_write() {
    let act = Act::OnControlPlane(Box::new(Act::RecreateNode));
    check_machines("a node that is made anew", &act);
}

#[test]
fn a_node_of_the_control_plane_can_fail_before_any_write() {
    for act in [Act::Sicken(1200), Act::Cordon(1200), Act::RecreateNode] {
        check_act(
            "a fault of the control plane",
            &Act::OnControlPlane(Box::new(act)),
        );
    }
}

#[test]
fn another_maintenance_can_begin_before_any_write() {
    check_fleet("a maintenance", &FleetAct::Maintain(1200));
}

#[test]
fn a_node_can_be_uncordoned_before_any_write() {
    for away in [0, 600] {
        check_fleet("an uncordon", &FleetAct::UncordonOurs(away));
    }
}

#[test]
fn a_finalizer_can_be_lost_before_any_write() {
    check_fleet("a lost finalizer", &FleetAct::LoseFinalizer);
}

#[test]
fn budgets_of_pods_can_close_before_any_write() {
    check_fleet("closed budgets", &FleetAct::CloseBudgets(1200));
}

#[test]
fn a_job_of_a_plan_can_be_deleted_before_any_write() {
    check_fleet("a deleted Job", &FleetAct::DeletePlanJob);
}

#[test]
fn the_operator_can_be_stopped_for_hours_before_any_write() {
    check_fleet("a stopped operator", &FleetAct::StopOperator(7200));
}

#[test]
fn a_person_can_say_anything_before_any_write() {
    for action in [
        DirectiveAction::Skip,
        DirectiveAction::Hold,
        DirectiveAction::Retry,
    ] {
        check_act("a directive", &Act::Say(action));
    }
}

#[test]
fn nodes_can_be_cordoned_lost_and_made_again_before_any_write() {
    for act in [
        Act::Cordon(1200),
        Act::Sicken(1200),
        Act::DeleteNode,
        Act::RecreateNode,
        Act::Join,
        Act::TakeLease(1200),
    ] {
        check_act("a node", &act);
    }
}

#[test]
fn rules_can_be_lost_and_edited_before_any_write() {
    for act in [
        Act::LoseRule(1200),
        Act::EditRule,
        Act::ForbidJobs(1200),
        Act::DeleteJob,
    ] {
        check_act("a rule", &act);
    }
}

#[test]
fn a_journal_can_be_deleted_before_any_write() {
    check_act("a deleted NodeChange", &Act::DeleteChange);
}
