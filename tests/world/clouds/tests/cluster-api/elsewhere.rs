//! Settings that look for machines where they are not: another Cluster, another namespace, kinds that the API server does not serve. There every
//! machine would be gone.

use super::*;

/// Neither state nor deletion says that a machine is gone, and the failure has these words.
fn assert_not_gone(cluster: &Cluster, config: &Value, id: &str, words: &[&str]) {
    let world = world_with(cluster, config);
    let state = ClusterApi::node_state(&world, id).map(|_| ());
    let deletion = ClusterApi::delete_node(&world, id);
    for failed in [state, deletion].map(Result::unwrap_err) {
        assert_eq!(failed.code, FailureCode::Unavailable, "{id}: {failed:?}");
        for part in words {
            assert!(failed.message.contains(part), "{part}: {failed:?}");
        }
    }
}

#[test]
fn a_machine_is_not_gone_where_the_cluster_has_none() {
    let cluster = cluster();
    let machine = machines(&cluster)[0].clone();
    let id = id_of(&cluster, &machine);
    let edited = json!({"clusterName": "prdo", "namespace": NAMESPACE});
    assert_not_gone(&cluster, &edited, &id, &["clusterName", "prdo", "capi"]);
    let early = format!("capi://capi/{machine}");
    assert_not_gone(&cluster, &edited, &early, &["clusterName", "prdo", "capi"]);
    let moved = json!({"clusterName": CLUSTER, "namespaces": ["one", "two"]});
    assert_not_gone(&cluster, &moved, &id, &["clusterName", CLUSTER, "one, two"]);
    let early = format!("capi://two/{machine}");
    assert_not_gone(&cluster, &moved, &early, &["clusterName", CLUSTER, "one, two"]);
    assert_untouched(&cluster, &machines(&cluster), "others");
    assert_eq!(cluster.state().count("patch"), 0);
}

#[test]
fn a_machine_of_another_cluster_is_not_gone_by_the_id_from_before() {
    let cluster = cluster();
    let names = machines(&cluster);
    let other = ["spec", "clusterName"];
    cluster
        .state()
        .change("Machine", &names[0], &other, json!("other"));
    let id = format!("capi://capi/{}", names[0]);
    assert_not_gone(&cluster, &config(), &id, &[&names[0], "other", CLUSTER]);
}

#[test]
fn that_a_machine_is_gone_costs_a_list_at_most() {
    let cluster = cluster();
    let world = world(&cluster);
    for (id, calls) in [("docker:////gone", 1), ("capi://capi/gone", 2)] {
        cluster.state().forget_calls();
        let state = ClusterApi::node_state(&world, id).unwrap();
        assert_eq!(state, NodeState::Terminated, "{id}");
        let spent = cluster.state().calls.clone();
        assert_eq!(spent.len(), calls, "{id}: {spent:?}");
        cluster.state().forget_calls();
        ClusterApi::delete_node(&world, id).unwrap();
        let spent = cluster.state().calls.clone();
        assert_eq!(spent.len(), calls, "{id}: {spent:?}");
    }
}

/// Nothing is gone, there are no fewer groups, and no request is without its machine, as long as one of the kinds is not served.
#[test]
fn what_is_of_a_kind_that_is_not_served_is_not_gone() {
    for kind in ["MachineDeployment", "MachineSet", "Machine"] {
        let cluster = outdated();
        let there = machines(&cluster);
        let id = id_of(&cluster, &there[0]);
        create(&cluster, "numo-1", None).unwrap();
        cluster.step();
        create(&cluster, "numo-1", None).unwrap();
        cluster.steps(5);
        let new = claimed(&cluster, "numo-1")[0].clone();
        let early = format!("capi://capi/{new}");
        cluster.state().unserved.insert(kind.to_owned());
        cluster.state().forget_calls();
        let world = world(&cluster);
        let is_machine = kind == "Machine";
        let said = [
            (
                "groups",
                ClusterApi::groups(&world, "u1").map(drop),
                kind == "MachineDeployment",
            ),
            (
                "find",
                ClusterApi::find_node(&world, GROUP, "numo-1").map(drop),
                kind != "MachineSet",
            ),
            (
                "find",
                ClusterApi::find_node(&world, GROUP, "numo-2").map(drop),
                kind != "MachineSet",
            ),
            (
                "create",
                create(&cluster, "numo-2", None).map(drop),
                kind != "MachineSet",
            ),
            ("state", ClusterApi::node_state(&world, &id).map(drop), is_machine),
            (
                "state",
                ClusterApi::node_state(&world, &early).map(drop),
                is_machine,
            ),
            ("delete", ClusterApi::delete_node(&world, &id), true),
        ];
        for (what, said, is_unknown) in said {
            if let Err(failed) = &said {
                assert_eq!(
                    failed.code,
                    FailureCode::Unavailable,
                    "{kind}, {what}: {failed:?}"
                );
                let words = format!("the cluster does not serve {kind}");
                assert!(failed.message.contains(&words), "{kind}, {what}: {failed:?}");
            }
            assert!(said.is_err() || !is_unknown, "{kind}: {what}");
        }
        assert_untouched(&cluster, &there, kind);
        assert_untouched(&cluster, &[new], kind);
    }
}
