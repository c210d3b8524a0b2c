//! Marks on Machines and MachineHealthChecks of strangers: whoever has a namespace may make such objects, and put numo's mark
//! on them with the uid of a real owner. No owner gives those back, and none waits for them.

use crate::{
    cluster::Cluster,
    words::{check, decision},
};
use numo_core::{action::Action, left};

/// What a tenant may make: a Machine that names a node that does not name it, and health checks of both kinds.
fn forged(owner: &str) -> String {
    format!(
        "machine x of a stranger in:tenant shielded:{owner}
         machine y of a stranger openshift in:tenant shielded:{owner}
         machine z of gone in:tenant shielded:{owner}
         healthcheck v clusterapi in:tenant shielded:{owner}
         healthcheck w in:tenant shielded:{owner}"
    )
}

#[test]
fn a_strangers_mark_keeps_no_maintenance_from_its_end() {
    check(
        &format!(
            "node a worker 4.16.0
             maintenance a finalizer deleting
             turn a Ready
             machine m of a
             {}",
            forged("uid-nm")
        ),
        "> journal a Done Done",
    );
    check(
        &format!(
            "node a worker 4.16.0
             maintenance a finalizer deleting
             {}",
            forged("uid-nm")
        ),
        "> finalizer 0 off",
    );
    // The node is gone.
    check(
        &format!("maintenance a finalizer deleting\n {}", forged("uid-nm")),
        "> finalizer 0 off",
    );
}

#[test]
fn a_strangers_mark_keeps_no_plan_from_its_end() {
    check(
        &format!(
            "node a worker v1
             plan concurrency:1 cordon finalizer deleting
             {}",
            forged("uid-p")
        ),
        "> finalizer 0 off",
    );
}

#[test]
fn a_strangers_mark_keeps_no_run_from_its_end() {
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.17.0
             run finalizer deleting {{}}
             {}",
            forged("run-uid")
        ),
        "> finalizer 1 off",
    );
    // Nor is a run without anything given one.
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.17.0
             run {{suspend: true}}
             {}",
            forged("run-uid")
        ),
        "> nothing",
    );
}

#[test]
fn a_health_check_is_paused_only_where_it_can_see_a_machine_of_a_node() {
    let run = |machine: &str, check: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule backup Pre
             run {{pauseHealthChecks: true}} finalizer
             change a Admitted
             machine m of a {machine}
             {check}"
        )
    };
    check(
        &run("shielded:run-uid", "healthcheck h clusterapi"),
        "> pause healthcheck h\n > journal a",
    );
    let next = "> journal a PreRules";
    check(
        &run("shielded:run-uid", "healthcheck h clusterapi in:tenant"),
        next,
    );
    check(&run("shielded:run-uid", "healthcheck h in:tenant"), next);
    check(
        &run("in:tenant stranger", "healthcheck h clusterapi in:tenant"),
        next,
    );
    // What is paused there is resumed there.
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run {pauseHealthChecks: true, suspend: true} finalizer
         machine m of a
         healthcheck h clusterapi shielded:run-uid",
        "> resume healthcheck h",
    );
}

#[test]
fn the_shield_goes_off_the_machine_of_a_node_that_went_in_its_turn() {
    let run = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node b worker 4.16.0
             rule backup Pre
             run {{suspend: true}} finalizer
             {more}"
        )
    };
    // OpenShift's are written by administrators alone.
    check(
        &run("machine m of gone openshift shielded:run-uid"),
        "> unshield machine m",
    );
    // Of Cluster API the journal of the turn tells which Machine it was.
    let went = "change gone Failed reason:NodeGone";
    check(
        &run(&format!("{went}\n machine m of gone shielded:run-uid")),
        "> unshield machine m",
    );
    check(&run("machine m of gone shielded:run-uid"), "> nothing");
    // A journal of another owner, or of a node that is there, tells nothing.
    check(
        &run(&format!(
            "{went} owner:other-uid\n machine m of gone shielded:run-uid"
        )),
        "> nothing",
    );
    check(
        &run("change b Done\n machine m of b stranger shielded:run-uid"),
        "> nothing",
    );
    // The node was made again under its name, and does not name its Machine yet.
    check(
        &run("change b Failed uid:old reason:NodeGone\n machine m of b stranger shielded:run-uid"),
        "> unshield machine m",
    );
}

#[test]
fn what_is_refused_on_one_object_stops_no_other() {
    let chains = |text: &str| {
        let decision = decision(&Cluster::parse(text));
        let writes = decision.actions.into_iter();
        let writes = writes.filter(|planned| matches!(planned.action, Action::PatchMachine(_)));
        let mut chains: Vec<String> = writes.map(|planned| planned.chain).collect();
        let all = chains.len();
        chains.sort();
        chains.dedup();
        assert_eq!(chains.len(), all, "{text}");
        assert!(!chains.iter().any(|chain| chain == "a"), "{chains:?}");
        all
    };
    let marked = |owner: &str| {
        format!(
            "machine m of a openshift label:w shielded:{owner}
             machine n of b openshift label:w shielded:{owner}
             healthcheck m selects:w shielded:{owner}"
        )
    };
    let two = "node a worker v1\n node b worker v1";
    let plan = format!(
        "{two}\n plan concurrency:1 cordon finalizer deleting\n {}",
        marked("uid-p")
    );
    assert_eq!(chains(&plan), 3);
    let kept = format!("{two}\n maintenance a finalizer deleting\n {}", marked("uid-nm"));
    assert_eq!(chains(&kept), 3);
    let run = format!(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0
         node b worker 4.17.0
         run finalizer deleting {{}}
         {}",
        marked("run-uid")
    );
    assert_eq!(chains(&run), 3);
}

#[test]
fn a_mark_that_nobody_restores_is_told_with_what_ends_it() {
    let said = |owner: &str, more: &str| {
        let cluster = Cluster::parse(&format!(
            "node a worker 4.16.0
             maintenance a finalizer
             {}
             {more}",
            forged(owner)
        ));
        let found = left::orphans(&cluster.observed);
        found.iter().map(|one| one.said().1).collect::<Vec<_>>()
    };
    // Whether the owner that it names lives makes no difference.
    for owner in ["uid-nm", "nobody"] {
        let said = said(owner, "machine m of a shielded:uid-nm");
        assert_eq!(said.len(), 5, "{said:#?}");
        assert!(
            said.iter().all(|words| words.contains("nothing removes it")
                && words.contains("annotate --overwrite -n tenant")
                && !words.contains("is gone")),
            "{said:#?}"
        );
    }
}

/// NodeChanges are watched everywhere, and whoever has a namespace may write some there.
fn by_stranger(cluster: &Cluster) -> Cluster {
    let mut forged = cluster.clone();
    let changes = std::mem::take(&mut forged.observed.changes);
    for mut change in changes.into_values() {
        "tenant".clone_into(&mut change.key.namespace);
        forged.observed.changes.insert(change.key.clone(), change);
    }
    forged
}

#[test]
fn a_strangers_journal_lets_no_node_go_for_good() {
    let mut cluster = Cluster::parse(
        "node a worker v0
         version img2
         host a img1
         group w image:img2
         groups w
         replacing a Released machine:m-a cordoned
         holds a cordoned",
    );
    cluster.observed.fleet.versions.clear();
    let says = |cluster: &Cluster| {
        let found = left::all(&cluster.observed);
        let mut words = found.iter().map(|one| &one.message);
        words.any(|words| words.contains("was released by its NodeVersion"))
    };
    assert!(says(&cluster));
    assert!(!says(&by_stranger(&cluster)));
}

/// Node b has its turn with a Plan.
const IN_TURN: &str = "node b worker v0
     plan concurrency:1 cordon finalizer applying:b
     begun b PreRules
     keeps b";

/// A person may write a NodeChange by hand, and leave out what its namespace says: its owner goes by it, so budgets must, too.
#[test]
fn the_turn_of_a_nodechange_that_names_no_namespace_counts_where_its_owner_is() {
    let cluster = Cluster::parse(IN_TURN);
    let turns = |named: Option<&str>, is_watched: bool| {
        let mut seen = by_stranger(&cluster).observed;
        if is_watched {
            seen.plan_namespaces.insert("tenant".to_owned());
        }
        for change in seen.changes.values_mut() {
            change.spec.owner_ref.namespace = named.map(str::to_owned);
        }
        seen.changing().count()
    };
    assert_eq!(turns(None, true), 1);
    assert_eq!(turns(Some("tenant"), true), 1);
    assert_eq!(turns(Some("elsewhere"), true), 0);
    assert_eq!(turns(None, false), 0);
}

#[test]
fn a_strangers_journal_keeps_no_pods_of_rules_off_a_node() {
    let cluster = Cluster::parse(IN_TURN);
    assert_eq!(numo_core::decide::hosts_in_flight(&cluster.observed).len(), 1);
    let forged = by_stranger(&cluster);
    assert_eq!(numo_core::decide::hosts_in_flight(&forged.observed).len(), 0);
}
