//! MachinePools whose infrastructure has Machines, and those that have none.

use super::*;
use numo_clouds::objects::pool;

const POOL: &str = "machinepool/capi/pool";

fn pools(kind: &str) -> (Cluster, World) {
    let cluster = Cluster::new();
    for object in pool("pool", 2, kind) {
        cluster.state().put(object);
    }
    cluster.steps(6);
    let mut config = config();
    config["machinePools"] = json!(true);
    let world = world_with(&cluster, &config);
    (cluster, world)
}

fn size(cluster: &Cluster) -> i64 {
    number(
        cluster.state().get("MachinePool", "pool").unwrap(),
        "/spec/replicas",
    )
}

#[test]
fn a_pool_gets_and_loses_a_machine() {
    let (cluster, world) = pools("DockerMachine");
    let groups = ClusterApi::groups(&world, "u1").unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].group_id, POOL);
    assert_eq!(groups[0].autoscaling_group_name, "MachinePool/capi/pool");
    let old = machines(&cluster);
    for _ in 0..8 {
        if let Ok(Creation::Created(_)) = ClusterApi::create_node(&world, POOL, "numo-1", None) {
            break;
        }
        cluster.step();
    }
    assert_eq!((size(&cluster), machines(&cluster).len()), (3, 3));
    assert_eq!(claimed(&cluster, "numo-1").len(), 1);
    let id = id_of(&cluster, &old[1]);
    assert_eq!(ClusterApi::scaling_group_id(&world, &id).unwrap(), POOL);
    assert_eq!(ClusterApi::node_image(&world, &id).unwrap(), "pool");
    ClusterApi::delete_node(&world, &id).unwrap();
    cluster.steps(4);
    assert_eq!(
        ClusterApi::node_state(&world, &id).unwrap(),
        NodeState::Terminated
    );
    assert_eq!((size(&cluster), machines(&cluster).len()), (2, 2));
    assert_untouched(&cluster, &old[..1], "the other");
}

#[test]
fn a_pool_without_machines_is_refused_and_not_listed() {
    let (cluster, world) = pools("");
    assert_eq!(ClusterApi::groups(&world, "").unwrap(), []);
    assert!(world.lines.borrow()[0].contains("infrastructureMachineKind"));
    let failed = ClusterApi::create_node(&world, POOL, "numo-1", None).unwrap_err();
    assert!(
        failed.message.contains("found nothing, wanted a kind"),
        "{failed:?}"
    );
    assert_eq!(size(&cluster), 2);
    cluster.state().remove("DockerMachinePool", "pool");
    assert!(ClusterApi::create_node(&world, POOL, "numo-1", None).is_err());
}

#[test]
fn a_pool_has_no_image_to_set() {
    let (_cluster, world) = pools("DockerMachine");
    assert_eq!(ClusterApi::group_image(&world, POOL).unwrap(), "pool");
    assert_eq!(ClusterApi::set_group_image(&world, POOL, "pool", None), Ok(None));
    let failed = ClusterApi::set_group_image(&world, POOL, "other", None).unwrap_err();
    for part in [
        "MachinePool capi/pool, spec.template.spec.infrastructureRef.name: found a reference to DockerMachinePool pool, wanted one to a template",
        "past numo's rules",
        "other",
    ] {
        assert!(failed.message.contains(part), "{part}: {failed:?}");
    }
}

#[test]
fn a_pool_loses_one_machine_whichever_answer_is_lost() {
    for lost in 1..=6 {
        let (cluster, world) = pools("DockerMachine");
        let old = machines(&cluster);
        let id = id_of(&cluster, &old[1]);
        cluster.state().forget_calls();
        cluster.state().lose = Some(lost);
        drop(ClusterApi::delete_node(&world, &id));
        cluster.state().forget_calls();
        for _ in 0..8 {
            if ClusterApi::node_state(&world, &id).unwrap() == NodeState::Ready {
                ClusterApi::delete_node(&world, &id).unwrap();
            }
            cluster.step();
        }
        assert_eq!(
            (size(&cluster), machines(&cluster)),
            (1, old[..1].to_vec()),
            "answer {lost}"
        );
    }
}
