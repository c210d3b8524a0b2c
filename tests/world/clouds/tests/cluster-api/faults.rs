//! Bad input, refusals, strangers' answers.

use super::*;

fn failed<T: std::fmt::Debug>(result: Result<T, Failure>, code: FailureCode, words: &str) {
    let failed = result.unwrap_err();
    assert_eq!(failed.code, code, "{failed:?}");
    assert!(failed.message.contains(words), "wanted {words}: {failed:?}");
}

fn set_image(cluster: &Cluster, image: &str) -> Result<(), Failure> {
    ClusterApi::set_group_image(&world(cluster), GROUP, image, None).map(drop)
}

fn note(cluster: &Cluster, part: &str, key: &str, value: &str) {
    let mut state = cluster.state();
    state.change(
        "MachineDeployment",
        "workers",
        &["metadata", part, key],
        json!(value),
    );
}

#[test]
fn an_image_is_set_only_where_cluster_api_rolls_nothing() {
    let rolling = cluster_of("v1beta1", "RollingUpdate");
    failed(
        set_image(&rolling, "image-2"),
        FailureCode::Other,
        "wanted \"OnDelete\"",
    );
    assert_eq!(set_image(&rolling, "image-1"), Ok(()), "it is set already");
    let cluster = cluster();
    failed(
        set_image(&cluster, "image-9"),
        FailureCode::NotFound,
        "DockerMachineTemplate capi/image-9 does not exist",
    );
    failed(set_image(&cluster, "a b"), FailureCode::Invalid, "a b");
    failed(set_image(&cluster, ""), FailureCode::Invalid, "wanted lower-case");
    cluster
        .state()
        .denied
        .insert("patch MachineDeployment".to_owned());
    failed(
        set_image(&cluster, "image-2"),
        FailureCode::Denied,
        "MachineDeployment capi/workers",
    );
    cluster.state().denied.clear();
    cluster
        .state()
        .denied
        .insert("get DockerMachineTemplate".to_owned());
    assert_eq!(
        set_image(&cluster, "image-9"),
        Ok(()),
        "what may not be read is believed"
    );
}

#[test]
fn an_image_waits_until_cluster_api_has_done_what_it_was_told() {
    let cluster = outdated();
    let old = machines(&cluster);
    made(&cluster, "numo-1");
    let new = claimed(&cluster, "numo-1");
    ClusterApi::delete_node(&world(&cluster), &id_of(&cluster, &old[0])).unwrap();
    // Back to the image before: the MachineSet that is to shrink would be the new one, and the other would shrink in its place.
    let set = || ClusterApi::set_group_image(&world(&cluster), GROUP, "image-1", None).unwrap();
    assert!(set().is_some_and(|pending| pending.message.contains("has not seen")));
    cluster.step();
    assert_eq!(set(), None);
    cluster.steps(5);
    assert_untouched(&cluster, &new, "the new machine");
    assert_eq!(machines(&cluster).len(), 3);
}

#[test]
fn a_group_that_somebody_else_rules_is_left_alone() {
    for (part, key, words) in [
        ("labels", "topology.cluster.x-k8s.io/owned", "topology"),
        (
            "annotations",
            "cluster.x-k8s.io/replicas-managed-by",
            "replicas-managed-by",
        ),
        ("annotations", "cluster.x-k8s.io/paused", "paused by somebody"),
    ] {
        let cluster = cluster();
        note(&cluster, part, key, "");
        let id = id_of(&cluster, &machines(&cluster)[0]);
        let before = format!("{:?}", cluster.state().all("MachineDeployment"));
        for result in [
            create(&cluster, "numo-1", None).map(drop),
            ClusterApi::delete_node(&world(&cluster), &id),
            set_image(&cluster, "image-2"),
        ] {
            assert!(result.unwrap_err().message.contains(words), "{key}");
        }
        assert_eq!(format!("{:?}", cluster.state().all("MachineDeployment")), before);
        assert!(cluster.state().count("patch") == 0 && cluster.state().count("delete") == 0);
    }
}

#[test]
fn wrong_ids_are_named() {
    let cluster = cluster();
    let world = world(&cluster);
    let create = |group: &str| ClusterApi::create_node(&world, group, "numo-1", None);
    failed(
        create("workers"),
        FailureCode::Invalid,
        "machinedeployment/NAMESPACE/NAME",
    );
    failed(
        create("machinedeployment/other/workers"),
        FailureCode::Invalid,
        "wanted capi",
    );
    failed(
        create("machinedeployment/capi/none"),
        FailureCode::NotFound,
        "does not exist",
    );
    failed(
        create("kubeadmcontrolplane/capi/cp"),
        FailureCode::Invalid,
        "kubeadmcontrolplane",
    );
    let odd = ClusterApi::create_node(&world, GROUP, "Numo 1", None);
    failed(odd, FailureCode::Invalid, "request id");
    let other = deployment("theirs", 1, ("image-1", "v1beta1", "OnDelete"));
    cluster.state().put(other);
    cluster.state().change(
        "MachineDeployment",
        "theirs",
        &["spec", "clusterName"],
        json!("other"),
    );
    failed(
        create("machinedeployment/capi/theirs"),
        FailureCode::Invalid,
        "\"other\", wanted \"prod\"",
    );
    for id in [
        "",
        "x",
        "://",
        "docker://",
        "capi://",
        "capi://capi",
        "capi://other/x",
        "capi://capi/a/b",
    ] {
        failed(
            ClusterApi::node_state(&world, id),
            FailureCode::Invalid,
            "wanted spec.providerID",
        );
        failed(
            ClusterApi::delete_node(&world, id),
            FailureCode::Invalid,
            "wanted spec.providerID",
        );
    }
    let gone = "docker:////gone";
    assert_eq!(
        ClusterApi::node_state(&world, gone).unwrap(),
        NodeState::Terminated
    );
    assert_eq!(ClusterApi::delete_node(&world, gone), Ok(()));
    failed(ClusterApi::node_image(&world, gone), FailureCode::NotFound, gone);
    failed(
        ClusterApi::scaling_group_id(&world, gone),
        FailureCode::NotFound,
        gone,
    );
    let none = ClusterApi::find_node(&world, "machinedeployment/capi/none", "numo-1");
    assert_eq!(none.unwrap(), None, "the group was deleted, and its machines");
}

#[test]
fn nothing_is_deleted_that_is_not_certain() {
    let cluster = cluster();
    let world = world(&cluster);
    let names = machines(&cluster);
    let id = id_of(&cluster, &names[0]);
    let owner = ["metadata", "ownerReferences"];
    let before = cluster.state().get("Machine", &names[0]).cloned().unwrap();
    cluster.state().change("Machine", &names[0], &owner, json!([]));
    failed(
        ClusterApi::delete_node(&world, &id),
        FailureCode::Invalid,
        "no owner",
    );
    let mut control = before.clone();
    control["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
    cluster.state().put(control);
    failed(
        ClusterApi::delete_node(&world, &id),
        FailureCode::Invalid,
        "control plane",
    );
    cluster.state().put(before);
    cluster.state().change(
        "Machine",
        &names[1],
        &["spec", "providerID"],
        json!(id.to_uppercase()),
    );
    failed(
        ClusterApi::delete_node(&world, &id),
        FailureCode::Other,
        "wanted one",
    );
    failed(
        ClusterApi::node_state(&world, &id),
        FailureCode::Other,
        "wanted one",
    );
    cluster.state().change(
        "Machine",
        &names[1],
        &["spec", "providerID"],
        json!("docker:////b"),
    );
    cluster
        .state()
        .change("MachineDeployment", "workers", &["spec", "replicas"], json!(0));
    failed(
        ClusterApi::delete_node(&world, &id),
        FailureCode::Other,
        "found 0",
    );
    assert!(cluster.state().count("patch") == 0 && cluster.state().count("delete") == 0);
}

#[test]
fn a_machine_of_the_same_name_is_not_deleted_for_another() {
    let cluster = cluster();
    let name = machines(&cluster)[0].clone();
    let id = id_of(&cluster, &name);
    let other = name.clone();
    cluster.state().before.insert(
        4,
        Box::new(move |cluster| {
            let mut state = cluster.state();
            state.change("Machine", &other, &["metadata", "uid"], json!("another-uid"));
        }),
    );
    ClusterApi::delete_node(&world(&cluster), &id).unwrap();
    assert_eq!(replicas(&cluster), 3);
    let state = cluster.state();
    let machine = state.get("Machine", &name).unwrap();
    assert!(
        machine.pointer("/metadata/annotations").is_none(),
        "it is not marked"
    );
}

#[test]
fn refusals_have_their_code() {
    let cluster = cluster();
    let id = id_of(&cluster, &machines(&cluster)[0]);
    let world = world(&cluster);
    // At whichever call the API server has too much to do, its own time is kept, and nothing is done twice or by half.
    for before in 0..3 {
        let busy = |cluster: &Cluster| cluster.state().throttled = 1;
        let number = cluster.state().calls.len() + before + 1;
        cluster.state().before.insert(number, Box::new(busy));
        let refused = create(&cluster, "numo-1", None).unwrap_err();
        assert_eq!(
            (refused.code, refused.retry_after_seconds),
            (FailureCode::Throttled, Some(7)),
            "call {before}: {refused:?}"
        );
    }
    cluster.state().throttled = 1;
    let refused = ClusterApi::delete_node(&world, &id).unwrap_err();
    assert_eq!(refused.retry_after_seconds, Some(7), "{refused:?}");
    cluster.state().throttled = 1;
    let refused = ClusterApi::groups(&world, "u1").unwrap_err();
    assert_eq!(refused.retry_after_seconds, Some(7), "{refused:?}");
    for call in ["get MachineDeployment", "list Machine", "patch MachineDeployment"] {
        cluster.state().denied = [call.to_owned()].into();
        failed(create(&cluster, "numo-1", None), FailureCode::Denied, call);
    }
    assert_eq!(replicas(&cluster), 3);
    for call in ["list MachineSet", "patch Machine", "patch MachineDeployment"] {
        cluster.state().denied = [call.to_owned()].into();
        failed(ClusterApi::delete_node(&world, &id), FailureCode::Denied, call);
    }
    assert_eq!(replicas(&cluster), 3);
    let none = World {
        config_json: config().to_string(),
        ..World::default()
    };
    failed(ClusterApi::groups(&none, ""), FailureCode::Denied, "grant");
    failed(
        ClusterApi::groups(&World::default(), ""),
        FailureCode::Invalid,
        "clusterName",
    );
}

#[test]
fn a_new_machine_that_is_not_listed_yet_makes_no_second() {
    let cluster = outdated();
    cluster.state().unseen = 3;
    let first = made(&cluster, "numo-1");
    cluster.steps(5);
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4));
    let found = ClusterApi::find_node(&world(&cluster), GROUP, "numo-1").unwrap();
    assert_eq!(found, Some(first));
}

#[test]
fn a_machine_that_failed_is_told_in_the_clouds_words() {
    let cluster = outdated();
    create(&cluster, "numo-1", None).unwrap();
    cluster.step();
    create(&cluster, "numo-1", None).unwrap();
    let name = claimed(&cluster, "numo-1")[0].clone();
    let status = json!({"phase": "Failed", "failureMessage": "no such image ami-1"});
    cluster.state().change("Machine", &name, &["status"], status);
    failed(
        create(&cluster, "numo-1", None),
        FailureCode::Other,
        "no such image ami-1",
    );
    let found = ClusterApi::find_node(&world(&cluster), GROUP, "numo-1")
        .unwrap()
        .unwrap();
    let state = ClusterApi::node_state(&world(&cluster), &found.provider_id);
    assert_eq!(state.unwrap(), NodeState::Failed);
}

#[test]
fn strangers_answers_break_nothing() {
    let odd = [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"metadata\": {\"name\": \"workers\"}}",
        "{\"metadata\": {\"name\": \"workers\", \"annotations\": []}, \"spec\": {\"clusterName\": \"prod\", \"replicas\": -1}}",
        "{\"metadata\": {\"name\": \"workers\", \"annotations\": 3}, \"spec\": {\"clusterName\": \"prod\", \"replicas\": 1e300}}",
        "{\"metadata\": {\"name\": \"workers\", \"uid\": 7, \"deletionTimestamp\": \"x\"}, \"spec\": {\"clusterName\": \"prod\"}}",
        "{\"metadata\": {\"name\": \"é\"}, \"spec\": {\"providerID\": \"docker:////x\", \"clusterName\": \"prod\"}}",
    ];
    for odd in odd
        .iter()
        .map(|odd| (*odd).to_owned())
        .chain(["[".repeat(100_000)])
    {
        let cluster = cluster();
        let id = id_of(&cluster, &machines(&cluster)[0]);
        cluster.state().odd = Some(odd.clone());
        let world = world(&cluster);
        drop(ClusterApi::groups(&world, "u1"));
        drop(ClusterApi::node_image(&world, &id));
        drop(ClusterApi::node_state(&world, &id));
        drop(ClusterApi::find_node(&world, GROUP, "numo-1"));
        assert!(create(&cluster, "numo-1", None).is_err(), "{odd:.80}");
        assert!(set_image(&cluster, "image-2").is_err(), "{odd:.80}");
        drop(ClusterApi::delete_node(&world, "docker:////x"));
        assert_eq!(replicas(&cluster), 3, "{odd:.80}");
        assert_eq!(cluster.state().count("delete"), 0);
    }
}

#[test]
fn a_list_without_an_end_is_a_failure() {
    let cluster = cluster();
    let id = id_of(&cluster, &machines(&cluster)[0]);
    cluster.state().endless = true;
    failed(
        ClusterApi::node_state(&world(&cluster), &id),
        FailureCode::Other,
        "50 pages",
    );
    failed(
        ClusterApi::groups(&world(&cluster), ""),
        FailureCode::Other,
        "50 pages",
    );
}

#[test]
fn a_ledger_that_numo_did_not_write_stops_what_depends_on_it() {
    let cluster = cluster();
    note(
        &cluster,
        "annotations",
        provider_cluster_api::LEDGER,
        "{\"requests\": 3}",
    );
    failed(
        create(&cluster, "numo-1", None),
        FailureCode::Other,
        "machine-ledger",
    );
    let id = id_of(&cluster, &machines(&cluster)[0]);
    failed(
        ClusterApi::delete_node(&world(&cluster), &id),
        FailureCode::Other,
        "machine-ledger",
    );
    assert_eq!(replicas(&cluster), 3);
}

#[test]
fn groups_of_others_and_of_control_planes_are_not_listed() {
    let cluster = cluster();
    for (name, path, value) in [
        ("other-uid", ["metadata", "labels", "constellation-uid"], "u2"),
        (
            "control",
            ["metadata", "labels", "constellation-role"],
            "control-plane",
        ),
        (
            "named",
            ["metadata", "annotations", "constellation-node-group"],
            "big",
        ),
        (
            "broken",
            ["metadata", "annotations", provider_cluster_api::LEDGER],
            "[",
        ),
    ] {
        let made = deployment(name, 1, ("image-1", "v1beta1", "OnDelete"));
        cluster.state().put(made);
        cluster
            .state()
            .change("MachineDeployment", name, &path, json!(value));
    }
    let foreign = deployment("foreign", 1, ("image-1", "v1beta1", "OnDelete"));
    cluster.state().put(foreign);
    cluster.state().change(
        "MachineDeployment",
        "foreign",
        &["spec", "clusterName"],
        json!("other"),
    );
    cluster.state().page = 1;
    let world = world(&cluster);
    let names = |uid: &str| -> Vec<_> {
        let groups = ClusterApi::groups(&world, uid).unwrap();
        groups.into_iter().map(|group| group.node_group_name).collect()
    };
    assert_eq!(names("u1"), ["big", "workers"]);
    assert_eq!(names(""), ["big", "other-uid", "workers"]);
    assert_eq!(names("u2"), ["other-uid"]);
    assert!(
        world
            .lines
            .borrow()
            .iter()
            .any(|line| line.contains("capi/broken"))
    );
}

#[test]
fn a_hold_for_a_machine_that_is_gone_ends_without_harm() {
    for (machine, from) in [("nobody", 3), ("nobody", i64::MIN), ("", i64::MAX)] {
        let cluster = cluster();
        let old = machines(&cluster);
        let machine = if machine.is_empty() {
            old[0].clone()
        } else {
            machine.to_owned()
        };
        let set = cluster.state().names("MachineSet")[0].clone();
        let hold = json!({"hold": {"machine": machine, "uid": "x", "set": set, "from": from}});
        note(
            &cluster,
            "annotations",
            provider_cluster_api::LEDGER,
            &hold.to_string(),
        );
        note(&cluster, "annotations", "cluster.x-k8s.io/paused", "numo");
        cluster
            .state()
            .change("MachineDeployment", "workers", &["spec", "replicas"], json!(2));
        ClusterApi::groups(&world(&cluster), "").unwrap();
        cluster.steps(3);
        assert!(!is_paused(&cluster));
        assert_eq!(replicas(&cluster), 3, "as many as there are");
        assert_untouched(&cluster, &old, "all");
    }
}
