//! With the uid of a cluster in the settings no machine of another cluster is deleted.

use super::*;
use numo_clouds::gcp::State;
use numo_provider_sdk::FailureCode;

fn world_of(fixture: &Fixture, uid: &str) -> World {
    World {
        config_json: json!({"project": "numo-test", "uid": uid}).to_string(),
        ..fixture.world()
    }
}

fn label(state: &mut State, fixture: &Fixture, labels: &numo_provider_sdk::serde_json::Value) {
    let path = state.instance_path(&fixture.workers, "workers-0000");
    state.instances.get_mut(&path).unwrap().labels = labels.clone();
}

fn of_template(state: &mut State, labels: &numo_provider_sdk::serde_json::Value) {
    let template = state.templates.values_mut();
    let mut worker = template.filter(|template| template["name"] == "worker-3");
    worker.next().unwrap()["properties"]["labels"] = labels.clone();
}

fn refused(fixture: &Fixture, uid: &str, words: &[&str]) {
    let id = provider_id(&fixture.workers, "workers-0000");
    let failure = Gcp::delete_node(&world_of(fixture, uid), &id).unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid, "{}", failure.message);
    for part in ["constellation-uid", "workers-0000", "is not deleted"]
        .iter()
        .chain(words)
    {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
    assert_eq!(fixture.cloud.lock().count("deleteInstances"), 0);
    assert_eq!(
        (fixture.size(&fixture.workers), fixture.target(&fixture.workers)),
        (2, 2)
    );
}

#[test]
fn a_machine_of_another_cluster_is_not_deleted() {
    let fixture = Fixture::new();
    refused(&fixture, "def456", &["found \"abc123\", wanted \"def456\""]);
    // Without a label of its own it is what the template of its group is.
    label(&mut fixture.cloud.lock(), &fixture, &json!({}));
    refused(
        &fixture,
        "def456",
        &["worker-3", "found \"abc123\", wanted \"def456\""],
    );
    // A group that is of no cluster is not of this one.
    of_template(
        &mut fixture.cloud.lock(),
        &json!({"constellation-role": "worker"}),
    );
    refused(&fixture, UID, &["worker-3", "found \"\", wanted \"abc123\""]);
    // The machine was made for another cluster, whatever its group makes now.
    of_template(&mut fixture.cloud.lock(), &json!({"constellation-uid": UID}));
    label(
        &mut fixture.cloud.lock(),
        &fixture,
        &json!({"constellation-uid": "def456"}),
    );
    refused(&fixture, UID, &["found \"def456\""]);
}

#[test]
fn a_machine_that_is_not_made_yet_is_of_the_cluster_of_its_group() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.quota = 3;
    try_until_created(&fixture.world(), &fixture.workers, "numo-1a").unwrap_err();
    let node = Gcp::find_node(&fixture.world(), &fixture.workers, "numo-1a")
        .unwrap()
        .unwrap();
    let failure = Gcp::delete_node(&world_of(&fixture, "def456"), &node.provider_id).unwrap_err();
    assert!(failure.message.contains("worker-3"), "{}", failure.message);
    assert_eq!(fixture.target(&fixture.workers), 3);
    Gcp::delete_node(&world_of(&fixture, UID), &node.provider_id).unwrap();
    fixture.wait(2);
    assert_eq!(fixture.target(&fixture.workers), 2);
}

#[test]
fn to_know_the_cluster_of_a_machine_takes_no_request_more() {
    let fixture = Fixture::new();
    let world = world_of(&fixture, &UID.to_uppercase());
    let calls = fixture.calls();
    Gcp::delete_node(&world, &provider_id(&fixture.workers, "workers-0001")).unwrap();
    assert_eq!(fixture.calls() - calls, 2);
    // Two more where the machine does not tell.
    fixture.wait(10);
    label(&mut fixture.cloud.lock(), &fixture, &json!({}));
    let calls = fixture.calls();
    Gcp::delete_node(&world, &provider_id(&fixture.workers, "workers-0000")).unwrap();
    assert_eq!(fixture.calls() - calls, 4);
}
