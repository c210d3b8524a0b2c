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
fn what_waits_says_how_many_pods_it_has_before_it() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Running
         budget all max:9 paused
         pod web on a of:ReplicaSet/web
         pod bare on a
         pod agent on a of:DaemonSet/agent",
        "hold Stopped
         maintenance Running 2 of 3 pods left
         > nothing",
    );
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
    // What the API server said of the same state is not another state: who watches sees one sentence.
    check(
        &draining(
            "pod web-0 on a of:ReplicaSet/web app:web\n pdb web allows:0 healthy:2 wants:2 pods:2\n evicted web-0 Budget at:-4 times:1",
        ),
        "hold EvictionBlocked ~ shop/web-0 of ReplicaSet web is behind PodDisruptionBudget shop/web: 2 of 2 pods are healthy, it wants 2",
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
    // Hundreds may be asked before it: that it has no answer yet is no reason to ask it twice.
    check(
        &cluster("evicted web-0 Asked at:-600"),
        "hold Draining\n > nothing",
    );
    check(&cluster("evicted web-0 Asked at:-1801"), "> evict web-0");
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
    let rule = "pod rule on a of:Job/rule ours";
    check(
        &draining(rule),
        "hold PodNeeded ~ a rule that is running\n > nothing",
    );
    check(&draining(&format!("{rule} finished")), "> evict rule");
    // A label alone is anybody's.
    let forged = format!("pod rule on a of:Job/rule label:{}=x", numo_api::marks::JOB_RUN);
    check(&draining(&forged), "> evict rule");
    check(
        &draining("pod web on a of:ReplicaSet/web label:upgrade.cattle.io/controller=x"),
        "> evict web",
    );
    check(
        &draining("pod agent on a of:DaemonSet/agent label:upgrade.cattle.io/controller=x"),
        "> journal a Drained",
    );
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
    check(
        &cluster(""),
        "maintenance Succeeded 0 of 1 pods left\n > evict web-9 again\n > journal a Drained",
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
        "maintenance Succeeded 0 of 1 pods left: -\n > evict web again",
    );
    // An open node is in no maintenance until it is drained once more.
    for corrections in 0..=2 {
        check(
            &kept(&format!("kept a uncordoned corrections:{corrections}\n pods a")),
            "maintenance Running
             > journal a Cordoned ForeignWriter
             > cordon a with the same taints",
        );
    }
    check(
        &kept("kept a cordoned untainted\n pods a"),
        "maintenance Succeeded\n > cordon a with 2 taints",
    );
    check(
        &kept("kept a uncordoned corrections:3\n pods a"),
        "maintenance Failed
         hold ForeignWriter ~ uncordoned it, 4 times in all
         > journal a Held ForeignWriter",
    );
    // A lease that is half over is renewed.
    check(
        &kept("kept a cordoned renewed:-1790\n pods a"),
        "wake 11\n > nothing",
    );
    check(&kept("kept a cordoned renewed:-1801\n pods a"), "> renew lease a");
    // One that was renewed before the clock jumped back is not believed by others, who would take it.
    check(&kept("kept a cordoned renewed:600\n pods a"), "> renew lease a");
    check(&kept("kept a cordoned renewed:9\n pods a"), "> nothing");
    check(
        &kept("kept a cordoned unleased\n pods a"),
        "> lease a\n > journal a",
    );
}

#[test]
fn nothing_is_done_under_a_lease_that_ran_out_before_it_is_renewed() {
    // numo was away for longer than the lease holds, and another operator may take it at any moment.
    let back = |renewed: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9
             kept a cordoned {renewed}
             turn a Cordoned since:-40
             pod web on a of:ReplicaSet/web"
        )
    };
    check(&back("renewed:-3700"), "wake 30\n > renew lease a");
    check(&back("renewed:-3500"), "> renew lease a\n > evict web");
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
    // They were seen, and are not any more: one that looks well may be away by now.
    check(
        &three(&format!("{etcd}\n unlisted etcd")),
        "hold ListFailed ~ pods of etcd cannot be listed any more: the server could not find\n > nothing",
    );
    let worker = format!("{}\n unlisted etcd", cluster("")).replace("maintenance a", "maintenance w");
    check(&worker, "> admit w");
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
    // Where nobody knows who is a member, no node of the control plane is taken: not the one of which that is so, and no other.
    let unknown = "hold EtcdQuorum ~ condition EtcdIsVoter of Node c is Unknown\n > nothing";
    check(&voters("voter:unknown"), unknown);
    check(
        &voters("voter:unknown").replace("voter:yes", "voter:unknown"),
        "hold EtcdQuorum ~ is Unknown\n > nothing",
    );
    check(
        &voters("voter:yes").replacen("voter:yes", "voter:unknown", 1),
        "hold EtcdQuorum ~ condition EtcdIsVoter of Node a is Unknown\n > nothing",
    );
    check(
        &voters("voter:unknown").replacen("voter:yes", "voter:yes NotReady", 1),
        "> admit a",
    );
    // A kubelet may write any condition of its own Node: that of a worker makes it no member, and the others none the less.
    check(
        &cluster(&format!("{}\n node w worker 4.16.0 voter:yes", node("b", ""))),
        "hold EtcdQuorum ~ 1 would be left, wanted 2\n > nothing",
    );
}

/// It may be one that has lost its label: then two of three voters would be away.
#[test]
fn a_node_that_says_it_is_a_member_of_etcd_and_has_no_label_of_the_control_plane_waits_itself() {
    let cluster = |voter: &str| {
        format!(
            "node a worker 4.16.0 {voter}
             node b master 4.16.0 voter:yes
             node c master 4.16.0 voter:yes
             maintenance a finalizer"
        )
    };
    check(
        &cluster("voter:yes"),
        "hold EtcdQuorum ~ condition EtcdIsVoter of Node a is True, and it has none of the labels of the control plane\n > nothing",
    );
    check(&cluster("voter:no"), "> admit a");
    check(&cluster(""), "> admit a");
    // One that is down loses nothing, and OpenShift tells its members otherwise.
    check(&cluster("voter:yes NotReady"), "> admit a");
    check(&format!("cluster 4.16.0\n {}", cluster("voter:yes")), "> admit a");
    // Of others it keeps none: a kubelet may write any condition of its own Node.
    let other = cluster("voter:yes").replace("maintenance a", "maintenance w");
    check(&format!("node w worker 4.16.0\n {other}"), "> admit w");
    let plan = "node a worker v0 voter:yes\n plan concurrency:1 finalizer";
    check(plan, "node a Selected EtcdQuorum");
}

#[test]
fn openshift_guards_its_quorum_itself() {
    let cluster = |rest: &str| {
        format!(
            "cluster 4.16.0
             node a master 4.16.0
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
        &cluster("ready\n pdb guard namespace:openshift-etcd allows:1\n unlisted poddisruptionbudgets"),
        "hold ListFailed ~ poddisruptionbudgets cannot be listed any more\n > nothing",
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
    // Known by its Infrastructure alone, where no ClusterVersion is seen.
    check(
        &cluster("ready").replace("cluster 4.16.0", "topology HighlyAvailable"),
        "hold EtcdQuorum ~ found 0 PodDisruptionBudgets\n > nothing",
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
fn rules_stand_before_the_cordon_and_before_the_node_is_restored() {
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
        "hold RuleFailed\n > journal a Held RuleFailed",
    );
    check(
        &cluster(&format!(
            "{before}\n turn a Held reason:RuleFailed verdict:backup/Pre/1/Failure"
        )),
        "hold RuleFailed ~ `numo retry a`\n > nothing",
    );
    check(
        &cluster(&format!("{before}\n turn a new\n budget all max:1 paused")),
        "hold Stopped\n > journal a closed",
    );
    let after = "maintenance a finalizer deleting phase:Succeeded rule:backup rule:settled\n kept a cordoned";
    check(
        &cluster(&format!("{after}\n turn a Drained")),
        "> journal a Ready",
    );
    check(
        &cluster(&format!("{after}\n turn a Ready")),
        "> job settled/BeforeUncordon/1 of a",
    );
    // Deletion ends even if the rule fails.
    check(
        &cluster(&format!(
            "{after}\n turn a Ready verdict:settled/BeforeUncordon/1/Failure"
        )),
        "> uncordon a Some(false) with no taints",
    );
    check(
        &cluster("maintenance a finalizer rule:other"),
        "hold RuleNotFound ~ spec.mutexRules[0]\n > nothing",
    );
    check(
        &cluster("maintenance a finalizer pruned"),
        "hold GateLost ~ spec.mutexRules is in the manifest\n > nothing",
    );
}

/// Another operator would take a node that is still cordoned, and numo would uncordon it under that one.
#[test]
fn the_lease_of_a_maintenance_that_is_deleted_is_kept_until_the_node_is_restored() {
    for (phase, step) in [("BeforeUncordon", "Ready"), ("Post", "PostRules")] {
        let cluster = |kept: &str, said: &str| {
            format!(
                "node a worker 4.16.0
                 rule settled {phase} retries:1
                 maintenance a finalizer deleting phase:Succeeded rule:settled
                 kept a {kept}
                 turn a {step} entries:Cordoned {said}"
            )
        };
        let cordoned = if phase == "Post" { "" } else { "cordoned" };
        let job = format!("> job settled/{phase}/1 of a");
        check(&cluster(cordoned, ""), &job);
        check(
            &cluster(&format!("{cordoned} renewed:-2000"), ""),
            &format!("> renew lease a\n {job}"),
        );
        // One that has run out is renewed before all else.
        check(
            &cluster(&format!("{cordoned} renewed:-4000"), ""),
            "> renew lease a",
        );
        // What another has by now is that one's, and the deletion goes on.
        check(&cluster(&format!("{cordoned} holder:other"), ""), &job);
    }
}

/// Its cordon would stay for ever: nobody may make the rule again.
#[test]
fn a_deleted_maintenance_does_not_wait_for_rules_that_are_deleted_too() {
    let cluster = |maintenance: &str, turn: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer deleting phase:Succeeded {maintenance}
             kept a cordoned
             turn a Drained entries:Cordoned,Drained {turn}"
        )
    };
    let restored = "> uncordon a Some(false) with no taints";
    check(&cluster("rule:gone", ""), restored);
    // A rule of a wave is in the journal only.
    check(&cluster("", "waverules:gone"), restored);
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
        "hold Draining ~ are being listed\n > nothing",
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
    // What should end by itself, and does not for an hour, is a person's.
    for (since, who) in [(-3599, "ClusterItself"), (-3600, "ClusterAdmin")] {
        let long = volumes.replace("turn a Cordoned", &format!("turn a Cordoned since:{since}"));
        check(
            &long,
            &format!("hold VolumesAttached ~ pvc-1\n ends a {who}\n > nothing"),
        );
    }
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
    let bound = late(59).replace(" drain {\"timeoutSeconds\":59}", "");
    check(
        &format!(
            "{bound}\n binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},\"drain\":{{\"timeoutSeconds\":59}}}}"
        ),
        "hold DrainTimeout ~ 59 s (MutexBinding x spec.drain.timeoutSeconds)",
    );
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
    // However long it is, it has an end.
    check(&gone(i64::MAX), "hold Draining\n > nothing");
}

#[test]
fn bindings_gate_the_maintenances_that_they_speak_of() {
    let cluster = |binding: &str, rest: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             rule backup Pre
             maintenance a finalizer label:team=db
             binding gate spec {{\"ownerSelector\":{binding}}}
             {rest}"
        )
    };
    let turn = "turn a new\n kept a";
    let of_all = "{\"kind\":\"NodeMaintenance\"},\"rules\":[{\"name\":\"backup\"}]";
    check(&cluster(of_all, turn), "> job backup/Pre/1 of a");
    let of_team = "{\"kind\":\"NodeMaintenance\",\"labels\":{\"matchLabels\":{\"team\":\"db\"}}},\"rules\":[{\"name\":\"backup\"}]";
    check(&cluster(of_team, turn), "> job backup/Pre/1 of a");
    for other in [
        "{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"backup\"}]",
        "{\"kind\":\"NodeMaintenance\",\"labels\":{\"matchLabels\":{\"team\":\"web\"}}},\"rules\":[{\"name\":\"backup\"}]",
    ] {
        check(&cluster(other, turn), "> cordon a with 2 taints");
    }
    check(
        &cluster(
            "{\"kind\":\"NodeMaintenance\"},\"rules\":[{\"name\":\"none\"}]",
            "",
        ),
        "hold RuleNotFound ~ MutexBinding gate spec.rules[0]\n > nothing",
    );
    // A rule that would only be asked once the node was disrupted is no gate.
    for (phases, which) in [
        ("PreRun,Post", "found none before the disruption"),
        ("PostRun", "found none that"),
    ] {
        let never = cluster(of_all, "").replace("rule backup Pre", &format!("rule backup {phases}"));
        check(&never, &format!("hold FieldNotServed ~ {which}\n > nothing"));
    }
    // Before its turn: it holds up nobody meanwhile.
    let first = cluster(of_all, "").replace("rule backup Pre", "rule backup Admit,Post wasm");
    check(
        &first,
        "node a Selected RuleStarting
         ? evaluate backup/Admit/1 of a
         > nothing",
    );
    let after = cluster(of_all, turn).replace("rule backup Pre", "rule backup Post");
    check(&after, "> cordon a with 2 taints");
    // How many may be in maintenance at once.
    let two = |limit: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer
             maintenance b name:other created:-200 finalizer
             turn b Drained of:other
             binding gate spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},\"maxUnavailable\":{limit}}}"
        )
    };
    check(
        &two("1"),
        "hold WaitingForTurn ~ 1 node is in maintenance, and MutexBinding gate spec.maxUnavailable allows 1: b\n > nothing",
    );
    check(&two("2"), "> admit a");
    check(
        &two("0"),
        "hold MaxUnavailableZero ~ MutexBinding gate spec.maxUnavailable is 0, which lets no node begin; whoever owns the object raises it with `kubectl edit mutexbinding gate`\n > nothing",
    );
    check(&two("\"100%\""), "> admit a");
    check(
        &two("\"many\""),
        "hold InvalidField ~ MutexBinding gate spec.maxUnavailable\n > nothing",
    );
    // Drain settings, for who has none of its own.
    let drained = |own: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9{own}
             kept a cordoned
             turn a Cordoned
             pod web on a
             binding gate spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},\"drain\":{{\"gracePeriodSeconds\":3}}}}"
        )
    };
    check(&drained(""), "> evict web in 3");
    check(&drained(" drain {\"gracePeriodSeconds\":5}"), "> evict web in 5");
}

#[test]
fn a_daemon_set_that_is_gone_or_another_makers_keeps_no_pod() {
    check(
        &draining("pod agent on a of:DaemonSet/agent orphan"),
        "> evict agent",
    );
    check(
        &draining("pod agent on a of:DaemonSet.kruise.io/agent"),
        "> evict agent",
    );
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Running counted:9 drain {\"force\":false}
         kept a cordoned
         turn a Cordoned
         pod agent on a of:DaemonSet/agent orphan",
        "hold DrainRefused ~ Pods whose DaemonSet is gone\n > nothing",
    );
}

#[test]
fn who_waits_for_room_is_looked_at_again_and_who_stays_takes_none() {
    let cluster = |rest: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {{\"maxConcurrent\":1,\"skipWaitForDeleteTimeoutSeconds\":5}}
             kept a cordoned
             turn a Cordoned since:-40
             {rest}"
        )
    };
    check(
        &cluster("pod stuck on a deleting:-60\n pod web on a"),
        "> evict web",
    );
    check(
        &cluster("pod web on a\n evicted web Accepted at:-16"),
        "> evict web",
    );
    check(
        &cluster("pod going on a deleting:60\n pod web on a"),
        "wake 5\n > nothing",
    );
}

#[test]
fn a_claim_of_a_pod_that_stays_does_not_keep_a_node_from_being_drained() {
    let cluster = |rest: &str| {
        format!(
            "node a worker 4.16.0 volume:pvc-1
             maintenance a finalizer phase:Running counted:9 drain {{\"awaitVolumeDetach\":true}}
             kept a cordoned
             turn a Cordoned
             pod agent on a of:DaemonSet/agent {rest}"
        )
    };
    check(&cluster(""), "hold VolumesAttached ~ pvc-1\n > nothing");
    check(
        &cluster("claim:data"),
        "hold VolumesAttached ~ is being read\n ? volumes a shop/data\n > nothing",
    );
    check(
        &cluster("claim:data\n kept-volumes a pvc-1"),
        "> journal a Drained",
    );
    // As many claims as volumes, and the volume is another's: that of a share is attached to no node.
    check(
        &cluster("claim:share\n kept-volumes a pvc-9"),
        "hold VolumesAttached ~ pvc-1\n > nothing",
    );
    check(
        &cluster("claim:share\n kept-volumes a pvc-9 unnamed:1"),
        "> journal a Drained",
    );
    // One that is only not waited for any more leaves its volume behind; one that comes back holds nobody up.
    let given_up = cluster("").replace(
        "awaitVolumeDetach\":true",
        "awaitVolumeDetach\":true,\"skipWaitForDeleteTimeoutSeconds\":5",
    );
    check(
        &format!("{given_up}\n pod web on a of:ReplicaSet/web claim:data deleting:-60"),
        "hold VolumesAttached ~ pvc-1\n > nothing",
    );
    let late = "pod web on a of:StatefulSet/web claim:data created:0 deleting:5\n kept-volumes a pvc-1";
    check(
        &format!(
            "{}\n {late}",
            cluster("").replace("turn a Cordoned", "turn a Cordoned since:-40")
        ),
        "> journal a Drained",
    );
    check(
        &cluster("claim:share\n kept-volumes a unknown:forbidden"),
        "hold VolumesAttached ~ forbidden\n wake 15\n > nothing",
    );
}

#[test]
fn what_somebody_else_began_is_not_begun_again() {
    // Another owner's mark, whose owner is gone: what was there before it is what counts.
    let mut left = crate::cluster::Cluster::parse(
        "node a worker 4.16.0
         maintenance a finalizer phase:Running
         turn a new
         kept a cordoned",
    );
    let node = left.observed.nodes.get_mut("a").expect("node a");
    let mark = node.annotations[numo_api::marks::CORDONED_BY].replace("uid-nm", "uid-before");
    node.annotations
        .insert(numo_api::marks::CORDONED_BY.to_owned(), mark);
    let decided = crate::words::decision(&left);
    let numo_core::action::Action::PatchNode(patch) = &decided.actions[0].action else {
        panic!("{:?}", decided.actions);
    };
    let mark = patch.annotations[0].to.clone().expect("a mark");
    assert!(
        mark.contains("\"owner\":\"uid-nm\"") && mark.contains("\"prior\":false"),
        "{mark}"
    );
    assert!(!mark.contains("taints"), "{mark}");
    // Who gave the node up in the reference's time does not take it again.
    check(
        "node a worker 4.16.0\n maintenance a finalizer phase:Failed lease-errors:4",
        "maintenance Failed\n hold NodeLeaseLost\n > nothing",
    );
    // What was counted of another node is forgotten before this one is taken.
    check(
        "node a worker 4.16.0\n maintenance a finalizer phase:Failed counted:7",
        "node a Selected Admitting\n wake 0\n > nothing",
    );
}

#[test]
fn nobody_is_believed_who_writes_elsewhere() {
    let forged = |namespace: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer
             maintenance a name:other created:-5 finalizer
             turn a Cordoned of:other namespace:{namespace}"
        )
    };
    check(&forged("numo"), "not > admit\n > nothing");
    check(&forged("team"), "> admit a");
}

#[test]
fn a_failed_rule_is_asked_again_when_a_person_says_so() {
    let cluster = |turn: &str| {
        format!(
            "node a worker 4.16.0
             rule backup Pre
             maintenance a finalizer phase:Running rule:backup
             kept a
             turn a Held reason:RuleFailed verdict:backup/Pre/1/Failure {turn}"
        )
    };
    check(&cluster(""), "hold RuleFailed\n > nothing");
    check(
        &cluster("retry generation:2"),
        "> journal a Admitted Admitting attempt 2",
    );
    check(&cluster("retry"), "hold RuleFailed\n > nothing");
}

/// A node that a person left out has given its turn back: others may have it by now.
#[test]
fn a_node_that_was_left_out_and_is_asked_for_again_waits_for_its_turn() {
    let cluster = |turn: &str, more: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0 NotReady
             budget all max:1
             maintenance a finalizer phase:Failed
             turn a {turn} entries:Cordoned,Drained
             {more}"
        )
    };
    let left_out = "Skipped reason:SkippedByPerson retry generation:2";
    check(
        &cluster(left_out, ""),
        "node a Selected Admitting\n > journal a Selected Admitting attempt 2",
    );
    let again = "Selected reason:Admitting retry attempt:2";
    check(&cluster(again, ""), "node a Selected BudgetExhausted\n > nothing");
    let free = |turn: &str, more: &str| cluster(turn, more).replace(" NotReady", "");
    check(&free(again, ""), "> journal a Admitted Admitting");
    // It is drained once more: that it was drained in the attempt before says nothing of its pods now.
    let closed = free(
        "PreRules retry attempt:2",
        "kept a cordoned\n pod web on a of:ReplicaSet/web",
    );
    check(&closed, "> journal a Cordoned");
    let drains = free(
        "Cordoned retry attempt:2",
        "kept a cordoned\n pod web on a of:ReplicaSet/web",
    );
    check(
        &drains.replace("phase:Failed", "phase:Running counted:9"),
        "node a Cordoned Draining\n > evict web",
    );
}

/// As with every other owner: it is journaled, and nothing waits for that node any more.
#[test]
fn a_node_that_a_person_leaves_out_before_its_turn_is_skipped() {
    let cluster = |turn: &str, more: &str| {
        format!(
            "node a worker 4.16.0
             {more}
             maintenance a finalizer phase:Running
             turn a {turn}"
        )
    };
    let skipped = "node a Skipped SkippedByPerson ~ skipped by
         maintenance Failed
         > journal a Skipped SkippedByPerson
         not > admit a";
    check(&cluster("new skip", ""), skipped);
    check(&cluster("Selected skip generation:2", ""), skipped);
    // Whatever else keeps it waiting.
    check(&cluster("new skip", "budget all max:0"), skipped);
    check(
        &cluster("Skipped reason:SkippedByPerson skip", ""),
        "node a Skipped SkippedByPerson\n maintenance Failed\n > nothing",
    );
    // One that is only held waits.
    check(
        &cluster("new hold", ""),
        "node a Selected HeldByPerson ~ held by\n not > admit a",
    );
}

#[test]
fn the_quorum_holds_when_the_rules_have_passed_too() {
    let cluster = |c: &str| {
        format!(
            "node a master 4.16.0
             node b master 4.16.0
             node c master 4.16.0 {c}
             etcd a ready
             etcd b ready
             etcd c ready
             maintenance a finalizer phase:Running
             kept a
             turn a PreRules"
        )
    };
    check(&cluster(""), "> cordon a with 2 taints");
    check(&cluster("NotReady"), "hold EtcdQuorum\n > journal a closed");
}

#[test]
fn an_edit_of_its_rules_does_not_stop_a_drain() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Running counted:9 rule:gone
         kept a cordoned
         turn a Cordoned
         pod web on a",
        "> evict web",
    );
    // But a suspension does, and what somebody undid stays undone meanwhile.
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded counted:9 suspended
         kept a uncordoned
         turn a Drained entries:Cordoned,Drained
         pods a",
        "maintenance Failed
         node a Held ForeignWriter ~ does not close it again meanwhile
         > journal a Held ForeignWriter",
    );
    let told = "node a worker 4.16.0
         maintenance a finalizer phase:Failed counted:9 suspended
         kept a uncordoned
         turn a Held reason:ForeignWriter entries:Cordoned,Drained
         pods a";
    check(told, "maintenance Failed\n > nothing");
    // Whoever opened the node closes it again: pods may have come meanwhile.
    check(
        &told.replace("kept a uncordoned", "kept a cordoned"),
        "maintenance Running\n > journal a Cordoned",
    );
}

#[test]
fn a_maintenance_of_a_node_that_is_going_away_and_stays_is_a_persons_after_ten_minutes() {
    let leaving =
        |since: &str| format!("node a worker 4.16.0 leaving:autoscaler {since}\n maintenance a finalizer");
    check(
        &leaving(""),
        "hold NodeLeaving\n ends a ClusterItself\n stalled -",
    );
    check(
        &leaving("overdue"),
        "hold NodeLeaving ~ it has been so since\n ends a ClusterAdmin\n stalled a NodeLeaving",
    );
}

#[test]
fn a_virtual_machine_is_asked_to_move_whatever_its_budget_says() {
    let machine = "pod vm on a of:VirtualMachineInstance/vm app:vm label:kubevirt.io=virt-launcher";
    check(&draining(&format!("{machine}\n pdb vm allows:0")), "> evict vm");
    check(
        &draining(&format!("{machine}\n pdb vm allows:0\n evicted vm Migrating")),
        "hold MigrationInProgress\n > nothing",
    );
    let disk = "node a worker 4.16.0
         maintenance a finalizer phase:Running counted:9 drain {\"disableEviction\":true}
         kept a cordoned
         turn a Cordoned
         pod disk on a label:kubevirt.io=hotplug-disk";
    check(disk, "> evict disk");
}

#[test]
fn a_pod_on_its_way_out_does_not_hide_who_comes_back() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded counted:9
         kept a cordoned
         turn a Drained since:-40
         pod web-1 on a of:ReplicaSet/web app:web created:-40 deleting:-10
         pod web-9 on a of:ReplicaSet/web app:web created:-20
         pdb web allows:0",
        "phase Active
         hold PodsReturn ~ is behind PodDisruptionBudget shop/web",
    );
}

#[test]
fn a_pod_that_came_late_and_cannot_go_is_named() {
    check(
        &draining("pod web-9 on a of:ReplicaSet/web app:web created:-20\n pdb web allows:0"),
        "phase Active
         maintenance Succeeded 0 of 1 pods left",
    );
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded counted:9
         kept a cordoned
         turn a Drained since:-40
         pod web-9 on a of:ReplicaSet/web app:web created:-20
         pdb web allows:0",
        "phase Active
         hold PodsReturn ~ is behind PodDisruptionBudget shop/web
         > nothing",
    );
}

#[test]
fn a_node_that_is_going_away_is_not_taken() {
    check(
        "node a worker 4.16.0 leaving:soon\n maintenance a finalizer",
        "hold NodeLeaving\n > nothing",
    );
    check(
        "node a worker 4.16.0\n kured a\n maintenance a finalizer",
        "hold NodeLeaving ~ kured\n > nothing",
    );
}

#[test]
fn another_node_name_is_refused_and_the_node_in_hand_is_restored() {
    let moved = |more: &str| {
        let mut cluster = crate::cluster::Cluster::parse(&format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer phase:Succeeded {more}
             kept a cordoned
             turn a Drained
             pods a"
        ));
        for view in cluster.observed.maintenances.values_mut() {
            "b".clone_into(&mut view.spec.node_name);
        }
        cluster
    };
    crate::words::check_cluster(
        &moved(""),
        "hold InvalidField ~ updating spec.NodeName isn't allowed: found b, Node a is in maintenance\n > nothing",
    );
    crate::words::check_cluster(&moved("deleting"), "> uncordon a Some(false) with no taints");
    // Its lease would run out, and another operator take it.
    let mut late = moved("");
    let lease = late.observed.leases.get_mut("a").expect("a lease");
    lease.renewed = Some(crate::cluster::at(-1801));
    crate::words::check_cluster(&late, "hold InvalidField\n > renew lease a");
}

/// Before its cordon a turn holds a place, a lease and a shield for ever otherwise.
#[test]
fn another_node_name_before_the_cordon_closes_the_turn_which_ends_and_gives_all_back() {
    let moved = |turn: &str| {
        let mut cluster = crate::cluster::Cluster::parse(&format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer
             kept a
             turn a {turn}"
        ));
        for view in cluster.observed.maintenances.values_mut() {
            "b".clone_into(&mut view.spec.node_name);
        }
        cluster
    };
    let words = "hold InvalidField ~ updating spec.NodeName isn't allowed: found b, Node a is in maintenance";
    crate::words::check_cluster(&moved("PreRules"), &format!("{words}\n > journal a closed"));
    crate::words::check_cluster(&moved("PreRules closed:10"), &format!("{words}\n > nothing"));
    crate::words::check_cluster(
        &moved("PreRules closed:61"),
        &format!("{words}\n > unshield a\n > release lease a\n > journal a Selected InvalidField attempt 2"),
    );
    // Then it is the other node's, as of an object that was made for it.
    let mut over = moved("Selected closed:61");
    over.observed.leases.clear();
    let node = over.observed.nodes.get_mut("a").expect("a node");
    node.annotations.remove(numo_api::marks::SHIELDED_BY);
    crate::words::check_cluster(&over, "node b Admitted Admitting");
}

/// It has another node in hand: a maintenance that its spec names by now is not that one's.
#[test]
fn a_maintenance_that_names_another_node_by_now_keeps_nobody_from_that_one() {
    let mut cluster = crate::cluster::Cluster::parse(
        "node a worker 4.16.0
         node b worker 4.16.0
         maintenance b finalizer
         maintenance a name:other created:-200 finalizer
         turn a Drained of:other",
    );
    for view in cluster.observed.maintenances.values_mut() {
        "b".clone_into(&mut view.spec.node_name);
    }
    crate::words::check_cluster(&cluster, "not node b Selected NodeInMaintenance\n > admit b");
}

/// The kind may be of another operator, whose CRD lets the field be edited.
#[test]
fn a_maintenance_that_names_another_node_by_now_keeps_the_place_of_the_one_in_hand() {
    let cluster = |settings: &str| {
        let mut cluster = crate::cluster::Cluster::parse(&format!(
            "node a worker 4.16.0 zone:z1
             node b worker 4.16.0 zone:z1
             maintenance a finalizer
             maintenance b name:other created:-200 finalizer
             turn b Drained of:other
             binding gate spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},{settings}}}"
        ));
        for view in cluster.observed.maintenances.values_mut() {
            if view.owner.key.name == "other" {
                "zzz".clone_into(&mut view.spec.node_name);
            }
        }
        cluster
    };
    crate::words::check_cluster(
        &cluster(r#""maxUnavailable":1"#),
        "node a Selected WaitingForTurn ~ allows 1: b\n > nothing",
    );
    crate::words::check_cluster(
        &cluster(r#""mutexKeys":["topology.kubernetes.io/zone"]"#),
        "node a Selected MutexKeyBusy ~ b\n > nothing",
    );
    crate::words::check_cluster(&cluster(r#""maxUnavailable":2"#), "> admit a");
}

#[test]
fn a_binding_whose_kind_or_namespaces_cannot_apply_holds_whom_it_means() {
    for (selector, hold) in [
        (
            "{\"kind\":\"NodeMaintenance\",\"namespaces\":[\"x\"]}",
            "MutexBinding gate spec.ownerSelector.namespaces: found some, wanted none",
        ),
        (
            "{\"kind\":\"nodemaintenances\"}",
            "MutexBinding gate spec.ownerSelector.kind: found \"nodemaintenances\", wanted Plan or NodeMaintenance",
        ),
    ] {
        check(
            &format!(
                "node a worker 4.16.0
                 maintenance a finalizer
                 binding gate spec {{\"ownerSelector\":{selector}}}"
            ),
            &format!("hold InvalidField ~ {hold}\n > nothing"),
        );
    }
}

#[test]
fn a_binding_that_cannot_be_understood_lets_nobody_go_ungated() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer
         binding gate spec {\"ownerSelector\":{\"kind\":\"NodeMaintenance\",\"labels\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"In\"}]}}}",
        "hold InvalidField ~ MutexBinding gate spec.ownerSelector.labels: x\n > nothing",
    );
}

#[test]
fn pods_whose_time_is_over_take_no_room_and_young_ones_of_a_daemon_set_are_left() {
    let cluster = |rest: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {{\"maxConcurrent\":1}}
             kept a cordoned
             turn a Cordoned since:-40
             {rest}"
        )
    };
    check(
        &cluster("pod dead on a deleting:-31\n pod web on a"),
        "> evict web",
    );
    check(
        &cluster("pod going on a deleting:-20\n pod web on a"),
        "> nothing",
    );
    check(
        &cluster("pod agent on a of:DaemonSet/agent orphan created:-5"),
        "not > evict\n > journal a Drained",
    );
}

#[test]
fn a_namespace_by_the_name_of_openshifts_etcd_tells_nothing_elsewhere() {
    let cluster = |rest: &str| {
        format!(
            "node a master 4.16.0
             node b master 4.16.0
             node c master 4.16.0
             node w worker 4.16.0
             maintenance a finalizer
             etcd w namespace:openshift-etcd {rest}"
        )
    };
    check(&cluster(""), "> admit a");
    check(
        &cluster("ready\n pdb guard namespace:openshift-etcd allows:0"),
        "> admit a",
    );
}

#[test]
fn a_thousand_pods_at_most_are_on_their_way_over_all_nodes() {
    let elsewhere = |count: usize| -> String {
        let pods = (0..count).map(|number| format!("pod p{number} on b of:ReplicaSet/x deleting:30\n"));
        pods.collect()
    };
    let here = "pod api on a of:ReplicaSet/api\n pod web on a of:ReplicaSet/web";
    check(
        &draining(&format!("{}{here}", elsewhere(998))),
        "> evict api\n > evict web",
    );
    check(&draining(&format!("{}{here}", elsewhere(999))), "> evict api");
    check(&draining(&format!("{}{here}", elsewhere(1000))), "> nothing");
    // One whose time is long over is not on its way.
    let overdue = elsewhere(1000).replace("deleting:30", "deleting:-60");
    check(
        &draining(&format!("{overdue}{here}")),
        "> evict api\n > evict web",
    );
}

#[test]
fn a_pod_that_does_not_end_is_seen_before_the_cordon_and_said_after_it() {
    let look = |settings: &str, deleting: i64, more: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9 drain {settings}
             kept a
             turn a PreRules {more}
             pod web on a of:ReplicaSet/web deleting:{deleting}"
        )
    };
    check(
        &look("{\"probe\":true}", -601, ""),
        "hold DrainBlocked ~ Node a: Pod shop/web is stuck in Terminating\n > journal a closed",
    );
    // Also where pods are deleted: that one is deleted already.
    check(
        &look("{\"probe\":true,\"disableEviction\":true}", -601, "closed:60"),
        "hold DrainBlocked\n > journal a Selected DrainBlocked attempt 2",
    );
    // What budgets say is not known. Who deletes pods asks none.
    let blind = |settings: &str| {
        format!(
            "{}\n unlisted poddisruptionbudgets\n drain a free",
            look(settings, -600, "")
        )
    };
    check(
        &blind("{\"probe\":true}"),
        "hold DrainBlocked ~ poddisruptionbudgets cannot be listed any more\n > journal a closed",
    );
    check(
        &blind("{\"probe\":true,\"disableEviction\":true}"),
        "> cordon a with 2 taints",
    );
    // It may still end; it is not waited for; nobody asked for a last look.
    for (settings, deleting) in [
        ("{\"probe\":true,\"disableEviction\":true}", -600),
        (
            "{\"probe\":true,\"disableEviction\":true,\"skipWaitForDeleteTimeoutSeconds\":9}",
            -601,
        ),
        ("{}", -601),
    ] {
        check(&look(settings, deleting, ""), "> cordon a with 2 taints");
    }
    let draining = |deleting: i64| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9
             kept a cordoned
             turn a Cordoned
             pod web on a of:ReplicaSet/web deleting:{deleting}"
        )
    };
    check(&draining(-600), "hold Draining\n wake 1");
    check(
        &draining(-601),
        "hold DrainBlocked ~ Pod shop/web is stuck in Terminating",
    );
}
