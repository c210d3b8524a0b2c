//! Which groups there are, and their image.

use super::*;
use numo_clouds::azure::OLD_IMAGE;
use numo_provider_sdk::{FailureCode, NodeRole, serde_json::json};

#[test]
fn groups_of_the_cluster_are_listed_over_pages_and_others_are_not() {
    let mut state = State::default()
        .with_set("cp", UID, "Control-Plane", 1)
        .with_set("odd", UID, "bastion", 1);
    for index in 0..7 {
        state = state.with_set(&format!("pool{index}"), UID, "worker", 0);
        state = state.with_set(&format!("other{index}"), "uid-2", "worker", 0);
    }
    let azure = started(state);
    let world = world(&azure);
    let groups = Cloud::groups(&world, UID).unwrap();
    assert_eq!(groups.len(), 8);
    let planes: Vec<_> = groups
        .iter()
        .filter(|group| group.role == NodeRole::ControlPlane)
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(planes, ["cp"]);
    assert!(
        world
            .lines
            .borrow()
            .iter()
            .any(|line| line.contains("odd") && line.contains("bastion")),
        "{:?}",
        world.lines
    );
    assert_eq!(Cloud::groups(&world, "uid-3").unwrap(), []);
    assert!(azure.state().log.len() > 10, "pages were followed");
}

#[test]
fn place_and_keys_of_tags_come_from_azure_json_and_the_settings() {
    let azure = started(pool());
    for set in azure.state().sets.values_mut() {
        set.tags = json!({ "Cluster": UID, "Part": "worker" })
            .as_object()
            .unwrap()
            .clone();
    }
    let world = World {
        config_json: r#"{"uidTag":"cluster","roleTag":"part","nodeGroupTag":"pool"}"#.to_owned(),
        cloud_config: Some(format!(
            r#"{{"tenantId":"t","subscriptionId":"{SUBSCRIPTION}","resourceGroup":"{RESOURCE_GROUP}","aadClientSecret":""}}"#
        )),
        ..world(&azure)
    };
    let groups = Cloud::groups(&world, UID).unwrap();
    assert_eq!(
        (groups.len(), groups[0].node_group_name.as_str()),
        (1, POOL),
        "without its tag it is the scale set's name"
    );
    let whole = World {
        config_json: format!(r#"{{"subscription":"{SUBSCRIPTION}","uidTag":"cluster","roleTag":"part"}}"#),
        cloud_config: None,
        ..world
    };
    assert_eq!(
        Cloud::groups(&whole, UID).unwrap().len(),
        1,
        "the whole subscription"
    );
}

#[test]
fn an_image_that_is_set_is_not_set_again() {
    let azure = started(pool());
    let world = world(&azure);
    assert_eq!(
        Cloud::set_group_image(&world, &group(), &OLD_IMAGE.to_uppercase(), None).unwrap(),
        None
    );
    assert_eq!(counted(&azure, "PATCH", POOL), 0);
}

#[test]
fn images_of_all_forms_are_set() {
    let images = [
        "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/galleries/g/images/i/versions/2.0.0",
        "/communityGalleries/g/images/i/versions/2.0.0",
        "/sharedGalleries/g/images/i/versions/2.0.0",
        "publisher:offer:sku:2.0.0",
    ];
    for image in images {
        let mut state = pool();
        state.images.insert(image.to_lowercase());
        let azure = started(state);
        let world = world(&azure);
        let pending = Cloud::set_group_image(&world, &group(), image, None)
            .unwrap()
            .unwrap();
        assert!(pending.message.contains(POOL));
        assert_eq!(Cloud::group_image(&world, &group()).unwrap(), image);
        assert_eq!(
            Cloud::set_group_image(&world, &group(), image, None).unwrap(),
            None,
            "also without the token"
        );
        assert_eq!(counted(&azure, "PATCH", POOL), 1);
        assert_eq!(capacity(&azure), 3);
    }
}

#[test]
fn an_image_that_is_not_there_is_said() {
    let azure = started(pool());
    let world = world(&azure);
    for image in [
        "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/images/none",
        "a:b:c:1",
    ] {
        let failure = Cloud::set_group_image(&world, &group(), image, None).unwrap_err();
        assert_eq!(failure.code, FailureCode::NotFound);
        assert!(
            failure.message.contains(image) && failure.message.contains(POOL),
            "{}",
            failure.message
        );
    }
    for image in ["", "node-2", "a:b:c:latest"] {
        let failure = Cloud::set_group_image(&world, &group(), image, None).unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid);
    }
    assert_eq!(Cloud::group_image(&world, &group()).unwrap(), OLD_IMAGE);
}

/// With these policies Azure would replace the disks of all machines at once, past all rules.
#[test]
fn an_image_is_not_set_where_azure_would_put_it_on_all_machines() {
    let image = "publisher:offer:sku:2.0.0";
    for policy in [
        json!({ "mode": "Automatic" }),
        json!({ "mode": "Rolling" }),
        json!({}),
        json!({ "mode": "Manual", "automaticOSUpgradePolicy": { "enableAutomaticOSUpgrade": true } }),
    ] {
        let mut state = pool();
        state.images.insert(image.to_owned());
        state.set(POOL).upgrade_policy = policy;
        let azure = started(state);
        let failure = Cloud::set_group_image(&world(&azure), &group(), image, None).unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid);
        assert!(
            failure.message.contains("upgradePolicy") && failure.message.contains(POOL),
            "{}",
            failure.message
        );
        assert_eq!(counted(&azure, "PATCH", POOL), 0);
    }
}

#[test]
fn an_image_is_set_once_more_if_others_change_the_scale_set() {
    let image = "publisher:offer:sku:2.0.0";
    let mut state = pool();
    state.images.insert(image.to_owned());
    let azure = started(state);
    let world = {
        let azure = azure.clone();
        world_that(&azure.clone(), 1, move || {
            let mut state = azure.state();
            state.set(POOL).etag += 1;
            state.set(POOL).upgrade_policy = json!({ "mode": "Automatic" });
        })
    };
    let pending = Cloud::set_group_image(&world, &group(), image, None)
        .unwrap()
        .unwrap();
    let failure = Cloud::set_group_image(&world, &group(), image, Some(&pending.token)).unwrap_err();
    assert!(
        failure.message.contains("wanted Manual"),
        "what is true now counts: {}",
        failure.message
    );
}
