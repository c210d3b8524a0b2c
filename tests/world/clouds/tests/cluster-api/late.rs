//! Machines that get their Node when numo has given them up: pods may be on it, and nobody has drained it.

use super::*;

/// A Machine that numo knows by the id that it had before its providerID: its name and that id.
fn given_up(cluster: &Cluster) -> (String, String) {
    cluster.state().quota = Some(3);
    create(cluster, "numo-1", None).unwrap();
    cluster.steps(4);
    create(cluster, "numo-1", None).unwrap();
    let name = claimed(cluster, "numo-1")[0].clone();
    let found = ClusterApi::find_node(&world(cluster), GROUP, "numo-1").unwrap();
    let id = found.unwrap().provider_id;
    assert_eq!(id, format!("capi://capi/{name}"));
    cluster.state().quota = None;
    (name, id)
}

fn refused(cluster: &Cluster, name: &str, id: &str, what: &str) {
    let failed = ClusterApi::delete_node(&world(cluster), id).unwrap_err();
    assert_eq!(failed.code, FailureCode::Other, "{what}: {failed:?}");
    let own = id_of(cluster, name);
    for part in [
        format!("Machine capi/{name}"),
        format!("node-{name}"),
        own,
        "not drained".to_owned(),
        "looks for it anew".to_owned(),
    ] {
        assert!(failed.message.contains(&part), "{what}: {part}: {failed:?}");
    }
    assert_untouched(cluster, &[name.to_owned()], what);
}

#[test]
fn a_node_that_came_late_is_not_deleted_by_the_id_from_before() {
    let cluster = outdated();
    let (name, id) = given_up(&cluster);
    cluster.steps(5);
    assert_eq!(
        ClusterApi::node_state(&world(&cluster), &id).unwrap(),
        NodeState::Ready
    );
    cluster.state().forget_calls();
    refused(&cluster, &name, &id, "it has joined");
    refused(&cluster, &name, &id.to_uppercase(), "its id in capitals");
    assert_eq!(cluster.state().count("patch"), 0);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4));
    // The request has it by its own id now, and by its Node.
    let found = ClusterApi::find_node(&world(&cluster), GROUP, "numo-1")
        .unwrap()
        .unwrap();
    assert_eq!(found.provider_id, id_of(&cluster, &name));
    assert_eq!(found.node_name, format!("node-{name}"));
    // By its own id it is deleted: whoever has that knows its Node, and has drained it.
    deleted(&cluster, &id_of(&cluster, &name));
    // Then it is gone by either.
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
}

#[test]
fn a_node_that_comes_while_its_machine_is_deleted_stops_that() {
    for call in 2..=4 {
        let cluster = outdated();
        let (name, id) = given_up(&cluster);
        cluster.state().forget_calls();
        let joins = |cluster: &Cluster| {
            for _ in 0..3 {
                cluster.state().step_machines();
            }
        };
        cluster.state().before.insert(call, Box::new(joins));
        refused(&cluster, &name, &id, &format!("it joins at call {call}"));
        assert_eq!(replicas(&cluster), 4, "call {call}");
        assert!(!is_paused(&cluster), "call {call}");
    }
}

#[test]
fn a_node_that_comes_after_its_machine_was_counted_is_not_deleted() {
    let cluster = outdated();
    let (name, id) = given_up(&cluster);
    let uid = text(cluster.state().get("Machine", &name).unwrap(), "/metadata/uid").to_owned();
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
    assert_eq!(replicas(&cluster), 3);
    // Somebody adds a replica before Cluster API sees that one was taken: it leaves the Machine.
    let sets = cluster.state().all("MachineSet");
    for set in &sets {
        let own = text(set, "/metadata/name").to_owned();
        let new = text(set, "/spec/template/spec/infrastructureRef/name") == "image-2";
        if new {
            cluster
                .state()
                .change("MachineSet", &own, &["spec", "replicas"], json!(1));
        }
    }
    cluster
        .state()
        .change("MachineDeployment", "workers", &["spec", "replicas"], json!(4));
    cluster.steps(5);
    assert_eq!(
        text(cluster.state().get("Machine", &name).unwrap(), "/metadata/uid"),
        uid
    );
    refused(&cluster, &name, &id, "counted, and left");
}

#[test]
fn a_node_that_goes_already_is_waited_for_by_the_id_from_before() {
    let cluster = outdated();
    let (name, id) = given_up(&cluster);
    cluster.steps(5);
    cluster.state().delete_machine(&name);
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
}

#[test]
fn a_machine_that_was_made_for_nobody_is_not_deleted_by_the_id_from_before() {
    let cluster = outdated();
    let (name, id) = given_up(&cluster);
    let request = [
        "metadata",
        "annotations",
        "numo.openshift-optional.skrzypek.io/machine-request",
    ];
    cluster.state().change("Machine", &name, &request, json!(""));
    let failed = ClusterApi::delete_node(&world(&cluster), &id).unwrap_err();
    assert_eq!(failed.code, FailureCode::Invalid, "{failed:?}");
    assert!(
        failed.message.contains("machine-request: found none"),
        "{failed:?}"
    );
    assert_untouched(&cluster, &[name], "nobody's");
    assert_eq!(replicas(&cluster), 4);
}
