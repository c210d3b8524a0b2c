//! The whole replacement of a node, and what it costs.

use super::*;
use numo_provider_sdk::{NodeRole, ScalingGroup};

fn listed(name: &str) -> ScalingGroup {
    ScalingGroup {
        name: format!("machinedeployment.capi.{name}"),
        node_group_name: name.to_owned(),
        group_id: format!("machinedeployment/capi/{name}"),
        autoscaling_group_name: format!("MachineDeployment/capi/{name}"),
        role: NodeRole::Worker,
        attributes: Vec::new(),
    }
}

fn replaces(version: &str) {
    let cluster = cluster_of(version, "OnDelete");
    let mut config = config();
    config["apiVersion"] = json!(format!("cluster.x-k8s.io/{version}"));
    let world = world_with(&cluster, &config);
    cluster.state().page = 2;
    assert_eq!(ClusterApi::groups(&world, "u1").unwrap(), [listed("workers")]);
    let old = machines(&cluster);
    let (first, others) = old.split_first().unwrap();
    let id = id_of(&cluster, first);
    assert_eq!(ClusterApi::node_image(&world, &id).unwrap(), "image-1");
    assert_eq!(
        ClusterApi::scaling_group_id(&world, &id.to_uppercase()).unwrap(),
        GROUP
    );
    assert_eq!(
        ClusterApi::set_group_image(&world, GROUP, "Image-2", None),
        Ok(None)
    );
    cluster.steps(3);
    assert_untouched(&cluster, &old, "the image alone replaces nothing");
    assert_eq!(ClusterApi::group_image(&world, GROUP).unwrap(), "image-2");

    let mut token = None;
    let new = loop {
        match ClusterApi::create_node(&world, GROUP, "numo-1", token.as_deref()).unwrap() {
            Creation::Created(new) => break new,
            Creation::Pending(pending) => token = Some(pending.token),
        }
        cluster.step();
    };
    assert_eq!(
        ClusterApi::node_state(&world, &new.provider_id).unwrap(),
        NodeState::Ready
    );
    assert_eq!(
        ClusterApi::node_image(&world, &new.provider_id).unwrap(),
        "image-2"
    );
    assert!(new.node_name.starts_with("node-") && new.provider_id.starts_with("docker:////"));
    let found = ClusterApi::find_node(&world, GROUP, "numo-1").unwrap();
    assert_eq!(found.as_ref(), Some(&new));
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (4, 4));

    ClusterApi::delete_node(&world, &id).unwrap();
    cluster.step();
    assert_eq!(
        ClusterApi::node_state(&world, &id).unwrap(),
        NodeState::Terminating
    );
    cluster.steps(4);
    assert_eq!(
        ClusterApi::node_state(&world, &id).unwrap(),
        NodeState::Terminated
    );
    assert_eq!(ClusterApi::delete_node(&world, &id), Ok(()), "it is gone already");
    assert_eq!((replicas(&cluster), machines(&cluster).len()), (3, 3));
    assert_untouched(&cluster, others, "others");
    assert!(!is_paused(&cluster), "nothing was ambiguous");
}

#[test]
fn a_node_is_replaced_in_both_versions_of_the_api() {
    replaces("v1beta1");
    replaces("v1beta2");
}

#[test]
fn all_nodes_are_replaced_one_after_another() {
    let cluster = outdated();
    for (number, old) in machines(&cluster).into_iter().enumerate() {
        let id = id_of(&cluster, &old);
        let new = made(&cluster, &format!("numo-{number}"));
        let world = world(&cluster);
        assert_eq!(
            ClusterApi::node_image(&world, &new.provider_id).unwrap(),
            "image-2"
        );
        deleted(&cluster, &id);
    }
    cluster.steps(5);
    let images: Vec<_> = machines(&cluster)
        .iter()
        .map(|machine| ClusterApi::node_image(&world(&cluster), &id_of(&cluster, machine)).unwrap())
        .collect();
    assert_eq!(images, ["image-2", "image-2", "image-2"]);
    assert_eq!(replicas(&cluster), 3);
}

/// The calls by which a machine is replaced, by what they are for.
fn spent_on(cluster: &Cluster, old: &str, request: &str) -> Vec<(&'static str, usize)> {
    let world = world(cluster);
    let old = id_of(cluster, old);
    let mut spent = Vec::new();
    let note = |what: &'static str, spent: &mut Vec<(&'static str, usize)>| {
        let mut state = cluster.state();
        spent.push((what, state.calls.len()));
        state.forget_calls();
    };
    cluster.state().forget_calls();
    let (mut token, mut waits) = (None, [2, 5].into_iter());
    let new = loop {
        match create(cluster, request, token.as_deref()).unwrap() {
            Creation::Created(new) => break new,
            Creation::Pending(pending) => token = Some(pending.token),
        }
        // Made at first, then booted.
        cluster.steps(waits.next().unwrap());
    };
    note("create", &mut spent);
    let state = ClusterApi::node_state(&world, &new.provider_id).unwrap();
    assert_eq!(state, NodeState::Ready);
    note("state", &mut spent);
    ClusterApi::scaling_group_id(&world, &new.provider_id).unwrap();
    note("group", &mut spent);
    ClusterApi::node_image(&world, &new.provider_id).unwrap();
    note("image", &mut spent);
    ClusterApi::delete_node(&world, &old).unwrap();
    note("delete", &mut spent);
    cluster.steps(5);
    let state = ClusterApi::node_state(&world, &old).unwrap();
    assert_eq!(state, NodeState::Terminated);
    note("gone", &mut spent);
    spent
}

/// The least that Cluster API wants for a replacement: read the group, list its Machines, raise it, list them again, read the new one; its state;
/// its group; its MachineSet's image; list the Machines for the old one, read its group, mark it, lower the group; that it is gone. Beyond that the
/// provider writes down whose the new Machine is, and looks which MachineSet will shrink.
#[test]
fn a_replaced_node_costs_two_calls_more_than_the_api_wants() {
    let cluster = outdated();
    let old = machines(&cluster)[0].clone();
    let spent = spent_on(&cluster, &old, "numo-1");
    let sum: usize = spent.iter().map(|(_, calls)| calls).sum();
    assert_eq!(sum, 14 + 2, "{spent:?}");
}

/// Where Cluster API would shrink another MachineSet than that of the Machine, its API wants three calls more: the MachineSets are read for what
/// the Machine's has, that one is lowered by itself, and the pause is ended that has kept Cluster API from undoing it. Nothing but a pause does: see
/// `without_a_pause_another_machine_goes`.
#[test]
fn a_replaced_node_of_a_group_that_is_held_costs_two_calls_more_than_the_api_wants() {
    let cluster = outdated();
    made(&cluster, "numo-1");
    let old = claimed(&cluster, "numo-1")[0].clone();
    cluster.state().put(super::template("image-3"));
    ClusterApi::set_group_image(&world(&cluster), GROUP, "image-3", None).unwrap();
    cluster.steps(2);
    let spent = spent_on(&cluster, &old, "numo-2");
    let sum: usize = spent.iter().map(|(_, calls)| calls).sum();
    assert_eq!(sum, 17 + 2, "{spent:?}");
}

/// What the API has for one Machine of a MachineSet that is not the next to shrink, call by call, and what becomes of it where one is left out.
#[test]
fn without_a_pause_another_machine_goes() {
    // The writes: mark the Machine, pause and lower the group, lower its MachineSet, end the pause.
    for (left_out, goes) in [
        ("", "the one"),
        ("mark", "another"),
        ("pause", "another"),
        ("group", "none"),
        ("set", "another"),
        ("end", "the one"),
    ] {
        let cluster = outdated();
        made(&cluster, "numo-1");
        made(&cluster, "numo-2");
        cluster.state().put(super::template("image-3"));
        ClusterApi::set_group_image(&world(&cluster), GROUP, "image-3", None).unwrap();
        cluster.steps(2);
        // The newer of two that are alike: by itself Cluster API takes the older.
        let mut alike: Vec<String> = ["numo-1", "numo-2"]
            .iter()
            .flat_map(|request| claimed(&cluster, request))
            .collect();
        alike.sort_by_key(|name| created(&cluster, name));
        let one = alike.pop().unwrap();
        let set = {
            let state = cluster.state();
            let machine = state.get("Machine", &one).unwrap();
            text(machine, "/metadata/ownerReferences/0/name").to_owned()
        };
        let before = machines(&cluster);
        let change = |kind: &str, name: &str, path: &[&str], new: Value| {
            cluster.state().change(kind, name, path, new);
        };
        let annotation = |key: &'static str| ["metadata", "annotations", key];
        let wanted = replicas(&cluster) - 1;
        if left_out != "mark" {
            let mark = annotation("cluster.x-k8s.io/delete-machine");
            change("Machine", &one, &mark, json!("numo"));
        }
        if left_out != "pause" {
            let pause = annotation("cluster.x-k8s.io/paused");
            change("MachineDeployment", "workers", &pause, json!("numo"));
        }
        if left_out != "group" {
            change(
                "MachineDeployment",
                "workers",
                &["spec", "replicas"],
                json!(wanted),
            );
        }
        // Cluster API acts between any two calls.
        cluster.step();
        if left_out != "set" {
            let has = number(cluster.state().get("MachineSet", &set).unwrap(), "/spec/replicas");
            change("MachineSet", &set, &["spec", "replicas"], json!(has - 1));
        }
        cluster.step();
        if left_out != "end" {
            let mut state = cluster.state();
            let mut workers = state.get("MachineDeployment", "workers").unwrap().clone();
            let notes = workers.pointer_mut("/metadata/annotations");
            let notes = notes.and_then(Value::as_object_mut).unwrap();
            notes.remove("cluster.x-k8s.io/paused");
            state.put(workers);
        }
        cluster.steps(8);
        let after = machines(&cluster);
        let gone: Vec<&String> = before.iter().filter(|name| !after.contains(name)).collect();
        let found = match gone.as_slice() {
            [only] if **only == one => "the one",
            [] => "none",
            _ => "another",
        };
        let is_as_wanted = found == goes || (left_out == "group" && after.len() == before.len());
        assert!(
            is_as_wanted,
            "without {left_out:?}: {gone:?} of {before:?}, wanted {one}"
        );
        assert_eq!(is_paused(&cluster), left_out == "end", "without {left_out:?}");
    }
}

fn created(cluster: &Cluster, machine: &str) -> String {
    let state = cluster.state();
    let found = state.get("Machine", machine).unwrap();
    text(found, "/metadata/creationTimestamp").to_owned()
}

#[test]
fn the_calls_of_a_replacement_are_few() {
    let cluster = outdated();
    let old = id_of(&cluster, &machines(&cluster)[0]);
    cluster.state().forget_calls();
    let Creation::Pending(_) = create(&cluster, "numo-1", None).unwrap() else {
        panic!("it takes a while");
    };
    assert_eq!(cluster.state().calls.len(), 3, "read, list, raise");
    cluster.step();
    cluster.state().forget_calls();
    let Creation::Pending(pending) = create(&cluster, "numo-1", None).unwrap() else {
        panic!("it boots");
    };
    assert_eq!(cluster.state().calls.len(), 3, "read, list, claim");
    cluster.steps(3);
    cluster.state().forget_calls();
    let made = create(&cluster, "numo-1", Some(&pending.token)).unwrap();
    assert!(matches!(made, Creation::Created(_)));
    assert_eq!(cluster.state().calls.len(), 1, "the Machine by its name");
    cluster.state().forget_calls();
    ClusterApi::delete_node(&world(&cluster), &old).unwrap();
    // The API's minimum is four: find the Machine, read the group, mark, lower.
    assert_eq!(cluster.state().calls.len(), 5, "{:?}", cluster.state().calls);
}

#[test]
fn a_machine_without_a_node_has_an_id_that_deletes_it() {
    let cluster = outdated();
    let old = machines(&cluster);
    cluster.state().quota = Some(3);
    create(&cluster, "numo-1", None).unwrap();
    cluster.steps(4);
    let pending = create(&cluster, "numo-1", None).unwrap();
    let Creation::Pending(pending) = pending else {
        panic!("{pending:?}")
    };
    assert!(
        pending.message.contains("quota exceeded: 0 of 8 CPUs"),
        "{pending:?}"
    );
    let found = ClusterApi::find_node(&world(&cluster), GROUP, "numo-1")
        .unwrap()
        .unwrap();
    assert_eq!(found.provider_id, format!("capi://capi/{}", pending.token));
    assert_eq!(found.node_name, pending.token, "until there is a Node");
    let state = ClusterApi::node_state(&world(&cluster), &found.provider_id.to_uppercase());
    assert_eq!(state.unwrap(), NodeState::Creating);
    let image = ClusterApi::node_image(&world(&cluster), &found.provider_id).unwrap();
    assert_eq!(image, "image-2");
    cluster.state().forget_calls();
    ClusterApi::delete_node(&world(&cluster), &found.provider_id).unwrap();
    assert_eq!(
        cluster.state().calls.len(),
        8,
        "the group is paused: {:?}",
        cluster.state().calls
    );
    deleted(&cluster, &found.provider_id);
    cluster.steps(4);
    assert_eq!((replicas(&cluster), machines(&cluster)), (3, old.clone()));
    assert_untouched(&cluster, &old, "a new machine went, not an old one");
}

#[test]
fn a_template_may_be_named_after_its_group() {
    let cluster = cluster();
    cluster.state().put(template("workers-v2"));
    let mut config = config();
    config["templateName"] = json!("{group}-{image}");
    let world = world_with(&cluster, &config);
    assert_eq!(ClusterApi::group_image(&world, GROUP).unwrap(), "image-1");
    let missing = ClusterApi::set_group_image(&world, GROUP, "v3", None).unwrap_err();
    assert!(
        missing.message.contains("capi/workers-v3 does not exist"),
        "{missing:?}"
    );
    ClusterApi::set_group_image(&world, GROUP, "v2", None).unwrap();
    assert_eq!(ClusterApi::group_image(&world, GROUP).unwrap(), "v2");
    let state = cluster.state();
    let workers = state.get("MachineDeployment", "workers").unwrap();
    assert_eq!(
        text(workers, "/spec/template/spec/infrastructureRef/name"),
        "workers-v2"
    );
}

#[test]
fn a_machine_without_its_set_says_its_image_itself() {
    let cluster = cluster();
    let machine = machines(&cluster)[0].clone();
    let id = id_of(&cluster, &machine);
    let sets = cluster.state().names("MachineSet");
    cluster.state().remove("MachineSet", &sets[0]);
    assert_eq!(ClusterApi::node_image(&world(&cluster), &id).unwrap(), "image-1");
    cluster.state().remove("DockerMachine", &machine);
    let failed = ClusterApi::node_image(&world(&cluster), &id).unwrap_err();
    assert!(failed.message.contains("cloned-from-name"), "{failed:?}");
}
