//! NodeMaintenance: what is done with its node, and how it is given back.

use crate::words::check;

#[test]
fn a_maintenance_begins_with_finalizer_turn_lease_shield_and_cordon() {
    let node = "node a worker 4.16.0";
    check(
        &format!("{node}\n maintenance a"),
        "maintenance Running
         > finalizer on",
    );
    check(&format!("{node}\n maintenance a finalizer"), "> admit a");
    check(
        &format!("{node}\n maintenance a finalizer\n turn a new"),
        "> lease a
         > shield a",
    );
    check(
        &format!("{node}\n maintenance a finalizer\n turn a new\n kept a"),
        "> cordon a with 2 taints",
    );
    check(
        &format!("{node}\n maintenance a finalizer\n turn a new\n kept a cordoned"),
        "> journal a Cordoned",
    );
}

/// The node is cordoned, its pods are known and counted.
fn draining(rest: &str) -> String {
    format!(
        "node a worker 4.16.0
         node b worker 4.16.0
         maintenance a finalizer phase:Running counted:9
         kept a cordoned
         turn a Cordoned since:-40
         {rest}"
    )
}

#[test]
fn pods_go_or_stay_as_kubectl_has_it() {
    check(
        &draining(
            "pod web on a of:ReplicaSet/web
             pod static on a mirror
             pod agent on a of:DaemonSet/agent
             pod agent-done on a of:DaemonSet/agent finished
             pod bare on a
             pod cache on a of:ReplicaSet/cache emptydir
             pod done on a finished
             pod going on a of:ReplicaSet/web deleting:20",
        ),
        "maintenance Running 6 of 8 pods left
         > evict agent-done
         > evict bare
         > evict cache
         > evict done
         > evict web",
    );
}

#[test]
fn what_the_settings_do_not_let_go_is_refused_before_anything_is_evicted() {
    let settings = |settings: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {settings}
             kept a cordoned
             turn a Cordoned since:-40
             pod web on a of:ReplicaSet/web
             pod agent on a of:DaemonSet/agent
             pod bare on a
             pod cache on a of:ReplicaSet/cache emptydir"
        )
    };
    for (setting, words) in [
        (
            "{\"force\":false}",
            "declare no controller (use --force to override): shop/bare",
        ),
        (
            "{\"deleteEmptydirData\":false}",
            "local storage (use --delete-emptydir-data to override): shop/cache",
        ),
        (
            "{\"ignoreDaemonsets\":false}",
            "DaemonSet-managed Pods (use --ignore-daemonsets to ignore): shop/agent",
        ),
    ] {
        check(
            &settings(setting),
            &format!("hold DrainRefused ~ {words}\n > nothing"),
        );
    }
    check(
        &settings("{\"podSelector\":{\"matchLabels\":{\"app\":\"x\"}}}"),
        "> journal a Drained",
    );
    check(
        &settings("{\"gracePeriodSeconds\":7}"),
        "> evict bare in 7\n > evict cache in 7\n > evict web in 7",
    );
    check(
        &settings("{\"disableEviction\":true}"),
        "> delete bare\n > delete cache\n > delete web",
    );
    check(
        &settings("{\"podSelector\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"Near\"}]}}"),
        "hold InvalidField ~ spec.drain.podSelector: x: found operator \"Near\"\n > nothing",
    );
    check(
        &settings("{\"order\":\"Label\"}"),
        "hold InvalidField ~ spec.drain.orderLabel\n > nothing",
    );
}

#[test]
fn a_closed_budget_is_not_asked_and_named() {
    let behind = "pod web-0 on a of:ReplicaSet/web app:web\n pod web-1 on a of:ReplicaSet/web app:web";
    check(
        &draining(&format!("{behind}\n pdb web allows:0 healthy:2 wants:2 pods:2")),
        "hold EvictionBlocked ~ shop/web-0 of ReplicaSet web is behind PodDisruptionBudget shop/web: 2 of 2 pods are healthy, it wants 2 (and 1 more)
         not > evict
         > nothing",
    );
    // One may go: one is asked.
    check(
        &draining(&format!("{behind}\n pdb web allows:1 healthy:2 wants:1 pods:2")),
        "> evict web-0",
    );
    // Another namespace's budget, and one of other pods, are nothing to them.
    check(
        &draining(&format!(
            "{behind}\n pdb web allows:0 namespace:bank\n pdb db allows:0"
        )),
        "> evict web-0\n > evict web-1",
    );
    // A look once a minute, should the budget's opening have been missed.
    check(
        &draining(&format!(
            "{behind}\n pdb web allows:0\n evicted web-0 Budget at:-61\n evicted web-1 Budget at:-10"
        )),
        "> evict web-0",
    );
}

#[test]
fn pods_that_a_budget_does_not_count_pass_it() {
    let cluster = |pod: &str, pdb: &str| {
        draining(&format!(
            "pod web-0 on a of:ReplicaSet/web app:web {pod}\n pdb web allows:0 {pdb}"
        ))
    };
    check(&cluster("finished", ""), "> evict web-0");
    check(&cluster("pending", ""), "> evict web-0");
    check(
        &cluster("unready", "unhealthy-always healthy:0 wants:1"),
        "> evict web-0",
    );
    check(&cluster("unready", "healthy:1 wants:1"), "> evict web-0");
    check(
        &cluster("unready", "healthy:0 wants:1"),
        "hold EvictionBlocked\n > nothing",
    );
}

#[test]
fn a_refused_eviction_is_asked_again_ever_later_or_when_the_budget_opens() {
    let cluster = |rest: &str| draining(&format!("pod web-0 on a of:ReplicaSet/web app:web\n {rest}"));
    check(
        &cluster("evicted web-0 Budget at:-4 times:1"),
        "hold EvictionBlocked ~ Pod shop/web-0 of ReplicaSet web: words of Budget\n wake 1\n > nothing",
    );
    check(&cluster("evicted web-0 Budget at:-5 times:1"), "> evict web-0");
    check(
        &cluster("evicted web-0 Budget at:-30 times:4"),
        "wake 10\n > nothing",
    );
    check(
        &cluster("evicted web-0 Budget at:-30 times:4 stirred"),
        "> evict web-0",
    );
    check(
        &cluster("evicted web-0 Budget at:-59 times:40"),
        "wake 1\n > nothing",
    );
    check(
        &cluster("evicted web-0 Accepted at:-3"),
        "hold Draining\n > nothing",
    );
    check(&cluster("evicted web-0 Accepted at:-16"), "> evict web-0");
    check(
        &cluster("evicted web-0 Busy at:-2"),
        "hold Draining\n > evict web-0",
    );
    check(
        &cluster("evicted web-0 Refused"),
        "hold EvictionRefused ~ words of Refused\n > nothing",
    );
    check(
        &cluster("evicted web-0 NamespaceTerminating"),
        "hold NamespaceTerminating\n > nothing",
    );
}

#[test]
fn virtual_machines_move_or_stay_and_are_never_switched_off() {
    let machine = "pod vm on a of:VirtualMachineInstance/vm label:kubevirt.io=virt-launcher";
    check(
        &draining(&format!("{machine}\n evicted vm Migrating")),
        "hold MigrationInProgress ~ words of Migrating\n > nothing",
    );
    check(
        &draining(&format!(
            "{machine}\n evicted vm NotMigratable\n pod web on a deleting:5"
        )),
        "hold NotMigratable\n > nothing",
    );
    check(
        &format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {{\"disableEviction\":true}}
             kept a cordoned
             turn a Cordoned
             {machine}
             pod web on a"
        ),
        "> evict vm\n > delete web",
    );
}

#[test]
fn what_numo_needs_is_waited_for() {
    check(
        &draining("pod job on a of:Job/apply label:upgrade.cattle.io/controller=suc\n pod web on a"),
        "maintenance Running 2 of 2 pods left\n > evict web",
    );
    check(
        &draining("pod job on a of:Job/apply label:upgrade.cattle.io/controller=suc"),
        "hold PodNeeded ~ an upgrade that is under way\n > nothing",
    );
    let rule = format!("pod rule on a of:Job/rule label:{}=x", numo_api::marks::JOB_RUN);
    check(
        &draining(&rule),
        "hold PodNeeded ~ a rule that is running\n > nothing",
    );
    check(&draining(&format!("{rule} finished")), "> evict rule");
}

#[test]
fn ranks_go_one_after_the_other() {
    let cluster = |settings: &str, rest: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {settings}
             kept a cordoned
             turn a Cordoned
             {rest}"
        )
    };
    let pods = "pod low on a priority:0\n pod high on a priority:100\n pod lower on a priority:-1";
    let by_priority = "{\"order\":\"Priority\"}";
    check(&cluster(by_priority, pods), "> evict lower");
    check(
        &cluster(
            by_priority,
            "pod low on a priority:0\n pod high on a priority:100\n pod lower on a priority:-1 deleting:9",
        ),
        "maintenance Running 3 of 3 pods left\n > nothing",
    );
    let by_label = "{\"order\":\"Label\",\"orderLabel\":\"rank\"}";
    check(
        &cluster(by_label, "pod b on a label:rank=2\n pod a on a label:rank=1"),
        "> evict a",
    );
    check(
        &cluster(by_label, "pod b on a label:rank=2\n pod a on a"),
        "> evict a",
    );
    check(
        &cluster(
            "{\"maxConcurrent\":2}",
            "pod a on a deleting:9\n pod b on a\n pod c on a\n pod d on a",
        ),
        "> evict b",
    );
}

#[test]
fn pods_that_come_back_hold_nobody_up_and_are_evicted_ever_more_seldom() {
    let cluster = |rest: &str| draining(&format!("pod web-9 on a of:ReplicaSet/web created:-20\n {rest}"));
    // The first to come past the cordon goes like any other.
    check(
        &cluster(""),
        "maintenance Running 1 of 1 pods left\n > evict web-9",
    );
    check(
        &cluster("returned a ReplicaSet/web at:-31 times:1"),
        "> evict web-9 again\n > journal a Drained",
    );
    check(
        &cluster("returned a ReplicaSet/web at:-10 times:1"),
        "maintenance Succeeded 0 of 1 pods left\n wake 20\n > journal a Drained",
    );
    check(
        &cluster("returned a ReplicaSet/web at:-31 times:2"),
        "wake 29\n > journal a Drained",
    );
    // Of a pod that was there before the cordon nobody says that it came back.
    check(
        &draining("pod web-0 on a of:ReplicaSet/web\n returned a ReplicaSet/web at:-10 times:1"),
        "> evict web-0",
    );
}

#[test]
fn a_drained_node_is_kept_drained() {
    let kept = |rest: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer phase:Succeeded counted:9
             turn a Drained
             {rest}"
        )
    };
    check(
        &kept("kept a cordoned\n pods a"),
        "phase Idle\n maintenance Succeeded 0 of 0 pods left: -\n hold InMaintenance\n > nothing",
    );
    check(
        &kept("kept a cordoned\n pod web on a created:-5"),
        "maintenance Succeeded 0 of 1 pods left: -\n > evict web",
    );
    check(
        &kept("kept a uncordoned\n pods a"),
        "> cordon a with the same taints",
    );
    check(
        &kept("kept a cordoned untainted\n pods a"),
        "> cordon a with 2 taints",
    );
    check(
        &kept("kept a uncordoned corrections:2\n pods a"),
        "> cordon a with the same taints",
    );
    check(
        &kept("kept a uncordoned corrections:3\n pods a"),
        "hold ForeignWriter ~ uncordoned it, 4 times in all\n > nothing",
    );
    // A lease that is half over is renewed.
    check(
        &kept("kept a cordoned renewed:-1790\n pods a"),
        "wake 11\n > nothing",
    );
    check(&kept("kept a cordoned renewed:-1801\n pods a"), "> renew lease a");
    check(&kept("kept a cordoned unleased\n pods a"), "> lease a");
}

#[test]
fn a_lease_that_somebody_took_ends_the_maintenance_after_a_while() {
    let taken = |maintenance: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Succeeded {maintenance}
             kept a cordoned holder:remediation
             turn a Drained
             pods a"
        )
    };
    check(
        &taken(""),
        "hold NodeLeaseLost ~ failed to extend a lease that used to be owned by us, can't update or invalidate the lease because it is held by different owner: remediation
         > nothing",
    );
    check(
        &taken("lease-errors:3 updated:-7"),
        "wake 1\n maintenance Succeeded\n > nothing",
    );
    check(
        &taken("lease-errors:3 updated:-8"),
        "maintenance Failed: maintenance failed: lease could not be extended after 4 attempts
         > uncordon a Some(false) with no taints",
    );
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded lease-errors:3 updated:-8
         kept a holder:remediation
         turn a Drained
         pods a",
        "maintenance Failed\n > unshield a",
    );
    check(
        "node a worker 4.16.0 lease:remediation
         maintenance a finalizer phase:Succeeded lease-errors:3
         turn a Failed reason:NodeLeaseLost",
        "maintenance Failed: words of the journal\n > nothing",
    );
}

#[test]
fn what_keeps_a_maintenance_from_its_node() {
    let waits = |rest: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer
             {rest}"
        )
    };
    for (rest, hold) in [
        ("budget all max:0", "BudgetExhausted"),
        (
            "node c worker 4.16.0 NotReady\n budget all max:1",
            "BudgetExhausted ~ c",
        ),
        ("budget all max:9 paused", "Stopped"),
        (
            "maintenance a name:elder created:-200 finalizer",
            "NodeInMaintenance ~ invalid nodeName, a NodeMaintenance for node a already exists: elder of nodemaintenance.medik8s.io",
        ),
        (
            "maintenance a name:elder created:-200 finalizer kubevirt",
            "NodeInMaintenance ~ elder of nodemaintenance.kubevirt.io",
        ),
        ("foreign", "ForeignController"),
    ] {
        check(&waits(rest), &format!("hold {hold}\n > nothing"));
    }
    // Who came later, or goes without having had a turn, is nobody's predecessor.
    check(
        &waits("maintenance a name:younger created:-20 finalizer"),
        "> admit a",
    );
    check(
        &waits("maintenance a name:elder created:-200 deleting finalizer"),
        "> admit a",
    );
    check(
        "node a worker 4.16.0 lease:numo/Plan/x renewed:-5\n maintenance a finalizer",
        "hold NodeLeaseHeld ~ failed to obtain a lease that is not owned by us : can't update or invalidate the lease because it is held by different owner: numo/Plan/x
         wake 3596
         > nothing",
    );
    check(
        "node a worker 4.16.0 lease:x renewed:-3700\n maintenance a finalizer",
        "> admit a",
    );
    check(
        "node a worker 4.16.0 lease:x renewed:60\n maintenance a finalizer",
        "> admit a",
    );
    check(
        "node a worker 4.16.0\n maintenance a finalizer suspended",
        "hold Suspended\n > nothing",
    );
    check(
        "node b worker 4.16.0\n maintenance a finalizer",
        "maintenance Failed: nodes \"a\" not found\n hold NodeNotFound\n > nothing",
    );
}

#[test]
fn two_that_want_one_node_take_it_one_after_the_other() {
    let both = |rest: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a name:elder created:-200 finalizer {rest}
             maintenance a finalizer created:-100"
        )
    };
    check(&both(""), "hold NodeInMaintenance\n > nothing");
    // While the elder gives back it still has the node.
    check(
        &format!("{}\n turn a Drained of:elder", both("deleting")),
        "hold NodeInMaintenance\n > nothing",
    );
    check(&both("deleting"), "> admit a");
}

#[test]
fn a_control_plane_never_loses_its_quorum() {
    let cluster = |others: &str| {
        format!(
            "node a master 4.16.0 label:node-role.kubernetes.io/control-plane
             node w worker 4.16.0
             maintenance a finalizer
             {others}"
        )
    };
    let node = |name: &str, rest: &str| {
        format!("node {name} master 4.16.0 label:node-role.kubernetes.io/control-plane {rest}")
    };
    let three = |rest: &str| cluster(&format!("{}\n {}\n {rest}", node("b", ""), node("c", "")));
    let etcd = "etcd a ready\n etcd b ready\n etcd c ready";
    check(&three(etcd), "> admit a");
    check(
        &three("etcd a ready\n etcd b ready\n etcd c"),
        "hold EtcdQuorum ~ c is away already\n > nothing",
    );
    // One that is down already loses nothing.
    check(&three("etcd a\n etcd b ready\n etcd c ready"), "> admit a");
    check(
        &cluster(&format!("{}\n {}\n {etcd}", node("b", "cordoned"), node("c", ""))),
        "hold EtcdQuorum ~ can not put master/control-plane node into maintenance at this moment, disrupting node a will violate etcd quorum: \n > nothing",
    );
    check(
        &cluster(&format!("{}\n etcd a ready\n etcd b ready", node("b", ""))),
        "hold EtcdQuorum ~ 1 would be left, wanted 2\n > nothing",
    );
    // Nothing of etcd is to be seen: what counts are the control-plane nodes.
    check(
        &cluster(""),
        "hold EtcdQuorum ~ etcd is not to be seen\n > nothing",
    );
    check(&three(""), "> admit a");
    let voters = |c: &str| {
        cluster(&format!("{}\n {}", node("b", "voter:yes"), node("c", c))).replacen(
            "node a master 4.16.0",
            "node a master 4.16.0 voter:yes",
            1,
        )
    };
    check(&voters("voter:yes"), "> admit a");
    check(&voters("voter:yes NotReady"), "hold EtcdQuorum\n > nothing");
    check(
        &voters("voter:no"),
        "hold EtcdQuorum ~ 1 would be left, wanted 2\n > nothing",
    );
}

#[test]
fn openshift_guards_its_quorum_itself() {
    let cluster = |rest: &str| {
        format!(
            "node a master 4.16.0
             maintenance a finalizer
             etcd a namespace:openshift-etcd {rest}"
        )
    };
    check(
        &cluster("ready"),
        "hold EtcdQuorum ~ found 0 PodDisruptionBudgets\n > nothing",
    );
    check(
        &cluster("ready\n pdb guard namespace:openshift-etcd allows:1"),
        "> admit a",
    );
    check(
        &cluster("ready\n pdb guard namespace:openshift-etcd allows:0"),
        "hold EtcdQuorum ~ allows none, and the member of the node is up\n > nothing",
    );
    check(
        &cluster("\n pdb guard namespace:openshift-etcd allows:0"),
        "> admit a",
    );
    check(
        &cluster(
            "ready\n pdb guard namespace:openshift-etcd allows:1\n pdb other namespace:openshift-etcd allows:1",
        ),
        "hold EtcdQuorum ~ found 2 PodDisruptionBudgets\n > nothing",
    );
}

#[test]
fn a_deleted_maintenance_puts_the_node_back_as_it_was() {
    let deleted = |rest: &str| {
        format!(
            "node a worker 4.16.0 tainted
             maintenance a finalizer deleting phase:Succeeded
             {rest}"
        )
    };
    check(
        &deleted("turn a Drained\n kept a cordoned"),
        "> uncordon a Some(false) with 1 taints",
    );
    // A person's cordon that was there before stays, with its taint.
    check(
        &deleted("turn a Drained\n kept a cordoned prior"),
        "> uncordon a None with 2 taints",
    );
    check(
        &deleted("turn a Drained\n kept a"),
        "> unshield a
         > release lease a
         > journal a Done Done",
    );
    check(&deleted("turn a Done"), "> finalizer 0 off");
    // Nothing is cordoned again meanwhile, and without the finalizer nothing is done at all.
    check(
        &deleted("turn a Drained\n kept a uncordoned"),
        "not > cordon\n > uncordon a None with 1 taints",
    );
    check("node a worker 4.16.0\n maintenance a deleting", "> nothing");
    check(
        "node b worker 4.16.0\n maintenance a finalizer deleting",
        "> finalizer 0 off",
    );
    // While everything is stopped giving back goes on.
    check(
        &deleted("turn a Drained\n kept a cordoned\n budget all max:1 paused"),
        "> uncordon a Some(false) with 1 taints",
    );
}

#[test]
fn a_node_that_was_made_again_begins_anew() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded
         turn a Drained uid:before",
        "> journal a Failed NodeGone\n > admit a",
    );
}

#[test]
fn rules_stand_before_the_cordon_and_before_the_node_is_given_back() {
    let cluster = |rest: &str| {
        format!(
            "node a worker 4.16.0
             rule backup Pre
             rule settled BeforeUncordon
             {rest}"
        )
    };
    let before = "maintenance a finalizer phase:Running rule:backup rule:settled\n kept a";
    check(
        &cluster(&format!("{before}\n turn a new")),
        "> job backup/Pre/1 of a",
    );
    check(
        &cluster(&format!("{before}\n turn a PreRules verdict:backup/Pre/1/Pass")),
        "> cordon a with 2 taints",
    );
    check(
        &cluster(&format!(
            "{before}\n turn a PreRules verdict:backup/Pre/1/Failure"
        )),
        "hold RuleFailed\n > nothing",
    );
    check(
        &cluster(&format!("{before}\n turn a new\n budget all max:1 paused")),
        "hold Stopped\n > nothing",
    );
    let after = "maintenance a finalizer deleting phase:Succeeded rule:backup rule:settled\n kept a cordoned";
    check(
        &cluster(&format!("{after}\n turn a Drained")),
        "> job settled/BeforeUncordon/1 of a",
    );
    // Deletion ends even if the rule fails.
    check(
        &cluster(&format!(
            "{after}\n turn a Drained verdict:settled/BeforeUncordon/1/Failure"
        )),
        "> uncordon a Some(false) with no taints",
    );
    check(
        &cluster("maintenance a finalizer rule:other"),
        "hold RuleNotFound ~ spec.mutexRules[0]\n > nothing",
    );
}

#[test]
fn numos_own_pod_goes_last_and_only_if_it_has_another_place() {
    let cluster = |others: &str| {
        let mut cluster = crate::cluster::Cluster::parse(&format!(
            "node a worker 4.16.0
             {others}
             maintenance a finalizer phase:Running counted:9
             kept a cordoned
             turn a Cordoned
             pod numo-0 on a of:ReplicaSet/numo"
        ));
        let own = numo_core::observed::Key::new("shop", "numo-0");
        cluster.observed.settings.own_pod = Some(own);
        cluster
    };
    let check = |others: &str, expect: &str| crate::words::check_cluster(&cluster(others), expect);
    check("node b worker 4.16.0", "> evict numo-0");
    check("node b worker 4.16.0 cordoned", "hold LastPlace\n > nothing");
    check("", "hold LastPlace\n > nothing");
    let mut others = cluster("node b worker 4.16.0");
    let mut pod = others.observed.pods["a"].values().next().expect("a pod").clone();
    pod.key.name = "web".to_owned();
    "pod-web".clone_into(&mut pod.uid);
    others
        .observed
        .pods
        .get_mut("a")
        .expect("node a")
        .insert(pod.key.clone(), pod);
    crate::words::check_cluster(&others, "> evict web");
}

#[test]
fn nothing_is_evicted_before_the_pods_are_known_and_counted() {
    let cluster = |rest: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running {rest}
             kept a cordoned
             turn a Cordoned"
        )
    };
    check(
        &cluster("counted:9"),
        "hold Draining ~ are being looked at\n > nothing",
    );
    check(
        &format!("{}\n pod web on a", cluster("")),
        "maintenance Running 1 of 1 pods left\n wake 0\n > nothing",
    );
    check(&format!("{}\n pods a", cluster("")), "> journal a Drained");
    // While everything is stopped no eviction begins.
    check(
        &format!(
            "{}\n pod web on a\n budget all max:1 paused",
            cluster("counted:1")
        ),
        "hold Stopped\n > nothing",
    );
    let volumes = "node a worker 4.16.0 volume:pvc-1
         maintenance a finalizer phase:Running counted:9 drain {\"awaitVolumeDetach\":true}
         kept a cordoned
         turn a Cordoned
         pods a";
    check(volumes, "hold VolumesAttached ~ pvc-1\n > nothing");
    check(&volumes.replace("volume:pvc-1", ""), "> journal a Drained");
    let late = |seconds: i64| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {{\"timeoutSeconds\":{seconds}}}
             kept a cordoned
             turn a Cordoned since:-60
             pod web on a deleting:600"
        )
    };
    check(
        &late(59),
        "hold DrainTimeout ~ drain did not complete within 59 s",
    );
    check(&late(90), "hold Draining\n wake 30");
    let gone = |seconds: i64| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {{\"skipWaitForDeleteTimeoutSeconds\":{seconds}}}
             kept a cordoned
             turn a Cordoned
             pod web on a deleting:-30"
        )
    };
    check(&gone(29), "> journal a Drained");
    check(&gone(30), "wake 1\n > nothing");
}
