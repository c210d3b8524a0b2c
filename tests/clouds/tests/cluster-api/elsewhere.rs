//! Settings that look for machines where they are not: another Cluster, another namespace. There every machine would be gone.

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
