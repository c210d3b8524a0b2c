//! What is known of marks whose owner is gone: each is named, with the commands that put back what was there.

use crate::{
    cluster::{Cluster, RUN_UID, run_key},
    maintained::{NAME, UID},
};
use numo_api::{Reason, marks};
use numo_core::{
    MaintenanceGroup, Owner,
    left::{self, MARKS},
    observed::Key,
};

/// A run in mid-upgrade, with every kind of mark.
fn marked() -> Cluster {
    Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours outdated:2
         pool infra 4.17.0 selected
         node a worker 4.16.0 turn quarantined
         node b worker 4.16.0 labelled:{RUN_UID}_x_0 label:{}backup=
         node c worker 4.17.0 labelled:{RUN_UID}_x_0 released:4.17.0
         machine m on a shielded:{RUN_UID}
         run finalizer {{}}",
        marks::RULE_LABEL_PREFIX
    ))
}

#[test]
fn marks_of_an_owner_that_lives_are_no_orphans() {
    assert_eq!(left::orphans(&marked().observed), Vec::new());
}

#[test]
fn every_mark_of_an_owner_that_is_gone_is_named_with_what_takes_it_back() {
    let mut cluster = marked();
    cluster.observed.runs.clear();
    let found = left::orphans(&cluster.observed);
    let shown: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.left.object.as_str(), one.left.mark.as_str()))
        .collect();
    let wanted = [
        ("Node c", marks::RELEASE),
        ("MachineConfigPool infra", marks::PRIOR_NODE_SELECTOR),
        ("Node b", marks::LABELLED_BY),
        ("Node c", marks::LABELLED_BY),
        ("Machine machines/m", marks::SHIELDED_BY),
        ("Node a", marks::SHIELDED_BY),
        ("Node a", marks::QUARANTINE),
        ("Lease node-a", left::LEASE_MARK),
        ("MachineConfigPool worker", marks::PAUSED_BY),
    ];
    assert_eq!(shown, wanted);
    assert!(found.iter().all(|one| MARKS.contains(&one.left.mark.as_str())));
    assert!(found.iter().all(|one| !one.commands.is_empty()), "{found:#?}");
    let commands: Vec<&str> = found
        .iter()
        .flat_map(|one| &one.commands)
        .map(String::as_str)
        .collect();
    for wanted in [
        "kubectl label node b mutexrule.openshift-optional.skrzypek.io/backup-",
        "kubectl label --overwrite node a remediation.medik8s.io/exclude-from-remediation-",
        "kubectl taint node a numo.openshift-optional.skrzypek.io/quarantine:NoSchedule-",
        "kubectl -n medik8s-leases delete lease node-a",
        "kubectl patch machineconfigpool worker --type merge -p '{\"spec\":{\"paused\":false},\"metadata\":{\"annotations\":\
         {\"numo.openshift-optional.skrzypek.io/paused-by\":null}}}'",
    ] {
        assert!(commands.contains(&wanted), "{wanted}\n{commands:#?}");
    }
    // A pool is counted anew: what its mark says was true when the run was left.
    let pool = found.last().unwrap();
    assert_eq!(pool.held_nodes, Some(2));
    assert_eq!(pool.owner, Some(run_key()));
}

#[test]
fn a_cordon_is_taken_back_to_what_it_was() {
    let node = |mark: &str, words: &str| {
        let annotation = format!("annotation:{}={mark}", marks::CORDONED_BY);
        let mut cluster = Cluster::parse(&format!(
            "cluster 4.17.0\n node a worker 4.17.0 {annotation} {words}"
        ));
        cluster.observed.runs.clear();
        left::orphans(&cluster.observed).remove(0).commands
    };
    let forget = "kubectl annotate --overwrite node a numo.openshift-optional.skrzypek.io/cordoned-by-";
    assert_eq!(
        node("{\"owner\":\"gone\",\"prior\":false}", "cordoned"),
        ["kubectl uncordon a", forget]
    );
    assert_eq!(
        node("{\"owner\":\"gone\",\"prior\":true}", ""),
        ["kubectl cordon a", forget]
    );
    assert_eq!(node("{\"owner\":\"gone\",\"prior\":true}", "cordoned"), [forget]);
}

#[test]
fn a_pool_that_was_paused_before_the_run_is_not_opened_by_the_command() {
    let mut cluster =
        Cluster::parse("cluster 4.17.0\n pool worker 4.17.0 ours prior-paused\n node a worker 4.16.0");
    cluster.observed.runs.remove(&Key::new("numo", "run"));
    let found = left::orphans(&cluster.observed);
    let forget = "kubectl annotate --overwrite machineconfigpool worker numo.openshift-optional.skrzypek.io/paused-by-";
    assert_eq!(found[0].commands, [forget]);
}

#[test]
fn the_lease_of_a_maintenance_that_is_gone_is_named() {
    let cluster = |more: &str| {
        Cluster::parse(&format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Succeeded
             kept a {more}"
        ))
    };
    let leases = |cluster: &Cluster| {
        let found = left::orphans(&cluster.observed).into_iter();
        let leases = found.filter(|one| one.left.mark == left::LEASE_MARK);
        leases.map(|one| one.said().1).collect::<Vec<_>>()
    };
    assert_eq!(leases(&cluster("")), Vec::<String>::new(), "its owner lives");
    let mut gone = cluster("");
    gone.observed.maintenances.clear();
    let said = leases(&gone);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("Lease node-a") && said[0].contains("delete lease node-a"),
        "{said:?}"
    );
    // Another operator takes leases under the same name.
    let mut of_other = cluster("of-other-operator");
    of_other.observed.maintenances.clear();
    assert_eq!(leases(&of_other), Vec::<String>::new());
}

/// The spec of a NodeMaintenance may name another node by now, and several may name one: whose turn it is holds the lease.
#[test]
fn the_lease_of_a_node_is_of_the_maintenance_that_has_its_turn() {
    let lines = "node a worker 4.16.0
         node b worker 4.16.0
         maintenance a finalizer phase:Succeeded
         maintenance a name:early
         turn a Drained
         kept a cordoned done";
    let holder = |cluster: &Cluster| {
        let mut all = left::all(&cluster.observed).into_iter();
        all.find(|one| one.mark == left::LEASE_MARK).map(|one| one.owner)
    };
    let mut cluster = Cluster::parse(lines);
    assert_eq!(
        holder(&cluster).as_deref(),
        Some(UID),
        "not the first that names it"
    );

    let owner = Owner::maintenance(MaintenanceGroup::Medik8s, NAME);
    let view = cluster.observed.maintenances.get_mut(&owner).unwrap();
    view.spec.node_name = "b".to_owned();
    assert_eq!(holder(&cluster).as_deref(), Some(UID), "its spec was edited");
    assert_eq!(left::orphans(&cluster.observed), Vec::new(), "its owner lives");

    // Who has the turn is gone: that another one names the node does not hide the lease.
    cluster.observed.maintenances.remove(&owner);
    let found = left::orphans(&cluster.observed).into_iter();
    let found: Vec<String> = found.map(|one| one.left.object).collect();
    assert!(found.contains(&"Lease node-a".to_owned()), "{found:?}");
}

/// Nobody goes on with it, whether the node has a turn or not: a later numo wrote it, or a slip of the hand.
#[test]
fn a_mark_that_cannot_be_read_is_told_with_what_takes_it_off() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0
         machine m on a",
    );
    let odd = "a later form".to_owned();
    let observed = &mut cluster.observed;
    observed.runs.clear();
    let node = observed.nodes.get_mut("a").expect("node a");
    node.annotations
        .insert(marks::CORDONED_BY.to_owned(), odd.clone());
    node.annotations
        .insert(marks::SHIELDED_BY.to_owned(), odd.clone());
    let pool = observed.pools.get_mut("worker").expect("a pool");
    for mark in [marks::PAUSED_BY, marks::PRIOR_NODE_SELECTOR] {
        pool.annotations.insert(mark.to_owned(), odd.clone());
    }
    let machine = observed.machines.values_mut().next().expect("a Machine");
    machine
        .object
        .annotations
        .insert(marks::SHIELDED_BY.to_owned(), odd);
    let found = left::orphans(observed);
    let mut shown: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.left.object.as_str(), one.left.mark.as_str()))
        .collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            ("Machine machines/m", marks::SHIELDED_BY),
            ("MachineConfigPool worker", marks::PAUSED_BY),
            ("MachineConfigPool worker", marks::PRIOR_NODE_SELECTOR),
            ("Node a", marks::CORDONED_BY),
            ("Node a", marks::SHIELDED_BY),
        ]
    );
    for one in &found {
        let (reason, words) = one.said();
        assert_eq!(reason, Reason::MarkUnreadable);
        assert!(
            words.contains("cannot read it") && !words.contains("owner is gone"),
            "{words}"
        );
        assert!(
            one.commands[0].ends_with(&format!(" {}-", one.left.mark)),
            "{:?}",
            one.commands
        );
    }
    // `numo release` names them too, and waits for none.
    let all = left::all(observed);
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(all.iter().all(|one| one.held));
}
