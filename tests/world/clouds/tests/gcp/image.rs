//! The image of a group: templates that are made, found again, and refused.

use crate::{Fixture, until_set};
use numo_provider_sdk::{FailureCode, Provider, serde_json::Value};
use provider_gcp::Gcp;

#[test]
fn the_next_template_is_like_the_old_one_but_for_its_image() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 3;
    until_set(&fixture.world(), &fixture.workers, &fixture.new_image).unwrap();
    let state = fixture.cloud.lock();
    let list = "projects/numo-test/global/instanceTemplates";
    let mut old = state.templates[&format!("{list}/worker-3")]["properties"].clone();
    let new = &state.templates[&format!("{list}/worker-4")]["properties"];
    let image = "/disks/0/initializeParams/sourceImage";
    let found = new.pointer(image).and_then(Value::as_str).unwrap();
    assert!(found.ends_with(&fixture.new_image), "{found}");
    *old.pointer_mut(image).unwrap() = found.into();
    assert_eq!(*new, old);
    assert_eq!(
        state.groups[&fixture.workers].template,
        format!("{list}/worker-4")
    );
    assert!(
        state.groups[&fixture.control].template.ends_with("/control"),
        "the other group is left alone"
    );
    assert_eq!(state.templates.len(), 3, "no template is deleted");
}

#[test]
fn there_and_back_again_makes_a_template_each_and_no_more() {
    let fixture = Fixture::new();
    let world = fixture.world();
    for image in [&fixture.new_image, &fixture.old_image, &fixture.new_image] {
        until_set(&world, &fixture.workers, image).unwrap();
        assert_eq!(&Gcp::group_image(&world, &fixture.workers).unwrap(), image);
        until_set(&world, &fixture.workers, image).unwrap();
    }
    assert_eq!(fixture.cloud.lock().templates.len(), 2 + 3);
}

#[test]
fn a_name_that_another_template_has_is_passed_over() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let (old, new) = (fixture.old_image.clone(), fixture.new_image.clone());
        state.add_template("worker-4", &old, &Value::Null);
        // Of the right image, but not made for this group.
        state.add_template("worker-5", &new, &Value::Null);
    }
    until_set(&fixture.world(), &fixture.workers, &fixture.new_image).unwrap();
    assert!(
        fixture.cloud.lock().groups[&fixture.workers]
            .template
            .ends_with("/worker-6")
    );
}

#[test]
fn two_groups_of_one_template_share_the_next() {
    let fixture = Fixture::new();
    let other = {
        let mut state = fixture.cloud.lock();
        state.knobs.operation_ticks = 4;
        let template = state.groups[&fixture.workers].template.clone();
        state.add_group("zones/zone-b", "others", &template, 0)
    };
    let world = fixture.world();
    // The second begins while the first's template is being made.
    let first = Gcp::set_group_image(&world, &fixture.workers, &fixture.new_image, None)
        .unwrap()
        .unwrap();
    let second = Gcp::set_group_image(&world, &other, &fixture.new_image, None)
        .unwrap()
        .unwrap();
    assert!(first.retry_after_seconds > 0 && second.retry_after_seconds > 0);
    until_set(&world, &other, &fixture.new_image).unwrap();
    until_set(&world, &fixture.workers, &fixture.new_image).unwrap();
    let state = fixture.cloud.lock();
    assert_eq!(
        state.groups[&other].template,
        state.groups[&fixture.workers].template
    );
    assert_eq!(state.templates.len(), 3);
}

#[test]
fn an_image_that_no_machine_can_be_made_of_changes_nothing() {
    let fixture = Fixture::new();
    let world = fixture.world();
    let missing = "projects/numo-test/global/images/node-9";
    let problem = until_set(&world, &fixture.workers, missing).unwrap_err();
    assert_eq!(problem.code, FailureCode::NotFound);
    assert!(problem.message.contains(missing), "{}", problem.message);
    for (status, deprecated, code) in [
        ("PENDING", None, FailureCode::Unavailable),
        ("READY", Some("OBSOLETE"), FailureCode::NotFound),
        ("READY", Some("DELETED"), FailureCode::NotFound),
    ] {
        {
            let mut state = fixture.cloud.lock();
            let image = state.images.get_mut(&fixture.new_image).unwrap();
            status.clone_into(&mut image.status);
            image.deprecated = deprecated.map(str::to_owned);
        }
        let problem = until_set(&world, &fixture.workers, &fixture.new_image).unwrap_err();
        assert_eq!(problem.code, code, "{}", problem.message);
        assert!(
            problem.message.contains(deprecated.unwrap_or(status)),
            "{}",
            problem.message
        );
    }
    let state = fixture.cloud.lock();
    assert_eq!(state.templates.len(), 2);
    assert!(state.groups[&fixture.workers].template.ends_with("/worker-3"));
}

#[test]
fn a_group_that_would_replace_its_machines_by_itself_is_left_alone() {
    let fixture = Fixture::new();
    "PROACTIVE".clone_into(
        &mut fixture
            .cloud
            .lock()
            .groups
            .get_mut(&fixture.workers)
            .unwrap()
            .policy,
    );
    let problem = until_set(&fixture.world(), &fixture.workers, &fixture.new_image).unwrap_err();
    assert_eq!(problem.code, FailureCode::Other);
    assert!(
        problem.message.contains("found PROACTIVE, wanted OPPORTUNISTIC"),
        "{}",
        problem.message
    );
    let state = fixture.cloud.lock();
    assert_eq!(state.templates.len(), 2);
    assert_eq!(state.count("setInstanceTemplate"), 0);
}

#[test]
fn a_group_with_two_templates_has_no_one_image() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let other = state.groups[&fixture.control].template.clone();
        let group = state.groups.get_mut(&fixture.workers).unwrap();
        group.versions = vec![group.template.clone(), other];
    }
    let world = fixture.world();
    for problem in [
        Gcp::group_image(&world, &fixture.workers).unwrap_err(),
        until_set(&world, &fixture.workers, &fixture.new_image).unwrap_err(),
    ] {
        assert!(problem.message.contains("canary"), "{}", problem.message);
    }
    let groups = Gcp::groups(&world, crate::UID).unwrap();
    assert_eq!(groups.len(), 2, "it is a group of the cluster all the same");
}

#[test]
fn another_image_meanwhile_does_not_go_on_with_the_first() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 30;
    let world = fixture.world();
    let third = fixture.cloud.lock().add_image("node-3");
    let first = Gcp::set_group_image(&world, &fixture.workers, &fixture.new_image, None)
        .unwrap()
        .unwrap();
    fixture.cloud.lock().knobs.operation_ticks = 0;
    fixture.wait(40);
    let mut token = Some(first.token);
    while let Some(pending) =
        Gcp::set_group_image(&world, &fixture.workers, &third, token.as_deref()).unwrap()
    {
        token = Some(pending.token);
    }
    assert_eq!(Gcp::group_image(&world, &fixture.workers).unwrap(), third);
}

#[test]
fn an_operation_of_a_template_that_fails_is_told_and_can_be_repeated() {
    for operation_ticks in [0, 3] {
        let fixture = Fixture::new();
        {
            let knobs = &mut fixture.cloud.lock().knobs;
            knobs.operation_ticks = operation_ticks;
            knobs.fail_operation = Some(("QUOTA_EXCEEDED".to_owned(), "INSTANCE_TEMPLATES".to_owned()));
        }
        let world = fixture.world();
        let problem = until_set(&world, &fixture.workers, &fixture.new_image).unwrap_err();
        assert_eq!(problem.code, FailureCode::Exhausted);
        assert!(
            problem.message.contains("INSTANCE_TEMPLATES"),
            "{}",
            problem.message
        );
        assert_eq!(
            Gcp::group_image(&world, &fixture.workers).unwrap(),
            fixture.old_image
        );
        until_set(&world, &fixture.workers, &fixture.new_image).unwrap();
    }
}

#[test]
fn a_template_of_a_region_is_read_and_followed_in_its_region() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let global = state.groups[&fixture.workers].template.clone();
        let regional = global.replace("/global/", "/regions/zone/");
        let mut template = state.templates.remove(&global).unwrap();
        template["selfLink"] = regional.clone().into();
        state.templates.insert(regional.clone(), template);
        state.groups.get_mut(&fixture.workers).unwrap().template = regional;
        state.knobs.operation_ticks = 2;
    }
    let world = fixture.world();
    assert_eq!(Gcp::groups(&world, crate::UID).unwrap().len(), 2);
    until_set(&world, &fixture.workers, &fixture.new_image).unwrap();
    let template = fixture.cloud.lock().groups[&fixture.workers].template.clone();
    assert_eq!(
        template,
        "projects/numo-test/regions/zone/instanceTemplates/worker-4"
    );
}
