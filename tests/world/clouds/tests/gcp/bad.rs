//! Input that a person or another program got wrong: told at once, and nobody is asked.

use crate::{Fixture, UID};
use numo_provider_sdk::{FailureCode, Provider, fake::World};
use provider_gcp::Gcp;

#[test]
fn ids_of_another_form_are_refused_without_a_request() {
    let fixture = Fixture::new();
    let (world, before) = (fixture.world(), fixture.calls());
    for id in [
        "",
        "gce://",
        "aws:///eu-1a/i-0",
        "gce://p/z/../x",
        "gce://p/z/i?alt=x",
        "workers-0000",
        "gce://p/z/i/",
    ] {
        for problem in [
            Gcp::node_state(&world, id).map(drop).unwrap_err(),
            Gcp::delete_node(&world, id).unwrap_err(),
            Gcp::node_image(&world, id).map(drop).unwrap_err(),
            Gcp::scaling_group_id(&world, id).map(drop).unwrap_err(),
        ] {
            assert_eq!(problem.code, FailureCode::Invalid);
            assert!(
                problem.message.contains("wanted gce://PROJECT/ZONE/INSTANCE"),
                "{}",
                problem.message
            );
        }
    }
    for group in [
        "",
        "workers",
        "projects/p/zones/z/instanceGroups/g",
        "projects/p/zones/z/instanceGroupManagers/g/x",
    ] {
        for problem in [
            Gcp::group_image(&world, group).map(drop).unwrap_err(),
            Gcp::create_node(&world, group, "numo-1", None)
                .map(drop)
                .unwrap_err(),
            Gcp::group_name(group).map(drop).unwrap_err(),
        ] {
            assert_eq!(problem.code, FailureCode::Invalid);
            assert!(
                problem.message.contains("wanted projects/P/zones/Z"),
                "{}",
                problem.message
            );
        }
    }
    for image in [
        "",
        "node-2",
        "projects/p/global/images/family/node",
        // Nothing is ever said to have an image by its URL.
        "https://www.googleapis.com/compute/v1/projects/p/global/images/node-2",
        "ami-1",
        "projects/p/global/images/a?b",
    ] {
        let problem = Gcp::set_group_image(&world, &fixture.workers, image, None).unwrap_err();
        assert_eq!(problem.code, FailureCode::Invalid);
        assert!(problem.message.contains("image: found"), "{}", problem.message);
    }
    for request in ["", "UPPER", "a/b", "../x", &"a".repeat(33)] {
        let problem = Gcp::create_node(&world, &fixture.workers, request, None).unwrap_err();
        assert_eq!(problem.code, FailureCode::Invalid);
        assert!(Gcp::find_node(&world, &fixture.workers, request).is_err());
    }
    for uid in ["", "a b", "a=b", &"a".repeat(64)] {
        assert_eq!(
            Gcp::groups(&world, uid).unwrap_err().code,
            FailureCode::Invalid,
            "{uid}"
        );
    }
    assert_eq!(fixture.calls(), before);
}

#[test]
fn settings_that_are_missing_or_wrong_are_named() {
    let fixture = Fixture::new();
    let with = |config: &str, file: Option<&str>| World {
        config_json: config.to_owned(),
        cloud_config: file.map(str::to_owned),
        ..fixture.world()
    };
    for (config, name) in [
        ("{}", "project"),
        (r#"{"project": 3}"#, "project"),
        (r#"{"project": "a b"}"#, "project"),
        (r#"{"project": "numo-test", "uidLabel": []}"#, "uidLabel"),
        (r#"{"project": "numo-test", "credential": false}"#, "credential"),
        ("[]", "JSON object"),
    ] {
        let problem = Gcp::groups(&with(config, None), UID).unwrap_err();
        assert_eq!(problem.code, FailureCode::Invalid);
        assert!(problem.message.contains(name), "{config}: {}", problem.message);
    }
    let file = "[global]\nproject-id = numo-test\n";
    assert_eq!(Gcp::groups(&with("{}", Some(file)), UID).unwrap().len(), 2);
    // What names its project needs no setting.
    assert_eq!(
        Gcp::group_image(&with("{}", None), &fixture.workers).unwrap(),
        fixture.old_image
    );
}

#[test]
fn labels_can_have_other_keys() {
    let fixture = Fixture::new();
    let world = World {
        config_json:
            r#"{"project": "numo-test", "uidLabel": "constellation-role", "roleLabel": "constellation-role",
            "nodeGroupLabel": "missing", "zone": "zone-a", "region": "zone"}"#
                .to_owned(),
        ..fixture.world()
    };
    let groups = Gcp::groups(&world, "control-plane").unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(
        (groups[0].group_id.as_str(), groups[0].node_group_name.as_str()),
        (fixture.control.as_str(), "")
    );
}

#[test]
fn a_host_without_a_grant_is_told_as_that() {
    let fixture = Fixture::new();
    let world = World {
        cloud: None,
        ..fixture.world()
    };
    let problem = Gcp::group_image(&world, &fixture.workers).unwrap_err();
    assert_eq!(problem.code, FailureCode::Denied);
    let problem = Gcp::node_state(&world, "gce://numo-test/zone-a/workers-0000").unwrap_err();
    assert_eq!(problem.code, FailureCode::Denied);
}

#[test]
fn it_describes_itself_without_a_host() {
    let found = Gcp::describe();
    assert_eq!(
        (found.name.as_str(), found.hosts.as_slice()),
        ("gcp", &["compute.googleapis.com:443".to_owned()][..])
    );
    assert_eq!(Gcp::autoscaling_cloud_provider(), "gce");
    assert_eq!(
        Gcp::group_name("projects/p/zones/z/instanceGroupManagers/Workers").unwrap(),
        "workers"
    );
}
