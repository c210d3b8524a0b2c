//! Strategy CanaryPool: labels, selectors, the way into the canary pool and home again.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision},
};
use numo_api::{
    conditions::Actor,
    marks::{self, openshift},
};
use numo_core::mark;

const RULE: &str = "label:mutexrule.openshift-optional.skrzypek.io/backup.numo";
const RUN: &str = "run finalizer {canary: {name: canary}}";

#[test]
fn nodes_are_labelled_before_selectors_are_set() {
    let cluster = |a: &str, b: &str| {
        format!(
            "cluster 4.17.0
             pool canary 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {a}
             node b worker 4.17.0
             node c worker 4.16.0 {b}
             rule backup Pre
             {RUN}"
        )
    };
    check(
        &cluster("", ""),
        "node a Selected PoolsPausing
         node b Done UpToDate
         > label a +backup
         > label c +backup",
    );
    let labelled = format!("{RULE} labelled:run-uid");
    check(&cluster(&labelled, ""), "> label c +backup");
    check(
        &cluster(&labelled, &labelled),
        "> select canary worker, backup DoesNotExist, release In",
    );
}

#[test]
fn custom_targets_get_a_selector_that_keeps_their_nodes() {
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0
             pool infra 4.17.0 ours
             node a infra 4.16.0
             node b infra 4.17.0
             rule backup Pre
             {RUN}"
        ),
        "> label a +backup\n > label b +backup",
    );
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0
             pool infra 4.17.0 ours
             node a infra 4.16.0 {RULE} labelled:run-uid
             node b infra 4.17.0 {RULE} labelled:run-uid
             rule backup Pre
             {RUN}"
        ),
        "> select canary worker, backup DoesNotExist, release In
         > select infra infra, backup Exists, release DoesNotExist",
    );
}

#[test]
fn a_custom_target_lets_its_nodes_out_even_without_rules() {
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0
             pool infra 4.17.0 ours
             node a infra 4.16.0 labelled:run-uid
             {RUN}"
        ),
        "> select canary worker, release In
         > select infra infra, release DoesNotExist",
    );
}

/// A run that is set up; `a` and what is behind it vary.
fn set_up(a: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool worker 4.17.0 ours
         node a worker {a}
         node b worker 4.16.0 {RULE} labelled:run-uid
         rule backup Pre
         {RUN}
         {more}"
    )
}

#[test]
fn a_node_falls_into_the_canary_pool_in_one_patch() {
    check(
        &set_up(
            &format!("4.16.0 {RULE} labelled:run-uid turn"),
            "change a PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass",
        ),
        "node b Selected WaitingForTurn
         > release a rendered-worker-4160 -backup +release",
    );
}

#[test]
fn a_node_is_not_let_go_while_the_canary_would_not_take_it() {
    let change = "change a PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass";
    let node = format!("4.16.0 {RULE} labelled:run-uid turn");
    let reverted = set_up(&node, change).replace("pool canary 4.17.0 selected", "pool canary 4.17.0");
    check(
        &reverted,
        "node a PreRelease PoolsPausing
         > select canary worker, backup DoesNotExist, release In",
    );
}

#[test]
fn a_node_changes_in_the_canary_and_is_brought_home() {
    let released = "pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass";
    let change = format!("change a Released {released}");
    // In the canary pool, changing.
    check(
        &set_up(
            "4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid turn",
            &change,
        ),
        "node a Released Changing\n > nothing",
    );
    // Changed: home it goes.
    check(
        &set_up("4.17.0 in:canary released:4.17.0 labelled:run-uid turn", &change),
        "node a Changed ComingHome\n > home a -release",
    );
    // On its way home there is nothing to do.
    check(
        &set_up(
            "4.17.0 in:canary desired:4.17.0 state:Working labelled:run-uid turn",
            &change,
        ),
        "node a Released Changing\n > nothing",
    );
    check(
        &set_up(
            "4.17.0 in:canary desired:4.17.0 to:worker state:Done labelled:run-uid turn",
            &change,
        ),
        "> nothing",
    );
    // Home.
    check(
        &set_up("4.17.0 labelled:run-uid turn", &change),
        "> journal a PostRules",
    );
}

#[test]
fn a_node_of_a_custom_pool_gets_its_labels_back_when_it_goes_home() {
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected
             pool infra 4.17.0 ours selected
             node a infra 4.17.0 in:canary released:4.17.0 labelled:run-uid turn
             rule backup Pre
             {RUN}
             change a Released pin:4.17.0 entries:PreRules,Released"
        ),
        "> home a -release +backup",
    );
}

#[test]
fn a_persons_cordon_survives_the_way_home() {
    let change = "change a Released pin:4.17.0 entries:PreRules,Released";
    let mut cluster = Cluster::parse(&set_up(
        "4.17.0 in:canary released:4.17.0 labelled:run-uid turn cordoned",
        change,
    ));
    check_cluster(&cluster, "> home a -release");
    cluster = Cluster::parse(&set_up("4.17.0 labelled:run-uid turn", change));
    let node = cluster.observed.nodes.get_mut("a").expect("a node");
    node.annotations.insert(
        marks::CORDONED_BY.to_owned(),
        "{\"owner\":\"run-uid\",\"prior\":true}".to_owned(),
    );
    check_cluster(&cluster, "> recordon a Some(true)");
    let node = cluster.observed.nodes.get_mut("a").expect("a node");
    node.unschedulable = true;
    check_cluster(&cluster, "> recordon a None");
}

/// The MCO uncordons at the end of the way home too.
#[test]
fn a_cordon_that_comes_on_the_way_home_is_put_back() {
    let change = "change a Released pin:4.17.0 entries:PreRules,Released";
    let node = "4.17.0 in:canary desired:4.17.0 to:worker labelled:run-uid turn";
    check(
        &set_up(&format!("{node} cordoned"), change),
        "> remember the cordon of a",
    );
    check(&set_up(node, change), "> nothing");
    // What was remembered on the way there the MCO has taken away since: it is not forgotten.
    let mut cluster = Cluster::parse(&set_up(node, change));
    let a = cluster.observed.nodes.get_mut("a").expect("a node");
    a.annotations.insert(
        marks::CORDONED_BY.to_owned(),
        "{\"owner\":\"run-uid\",\"prior\":true}".to_owned(),
    );
    check_cluster(&cluster, "> nothing");
    // From the request to uncordon on, it is the MCO's again.
    let asked = format!(
        "{node} cordoned annotation:{}=uncordon-rendered-worker-4170",
        openshift::DESIRED_DRAIN
    );
    check(&set_up(&asked, change), "> nothing");
}

#[test]
fn the_canary_lets_only_so_many_change_at_once() {
    let cluster = |max: &str| {
        format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected {max}
             pool worker 4.17.0 ours
             node a worker 4.16.0 {RULE} labelled:run-uid
             node b worker 4.16.0 {RULE} labelled:run-uid
             node c worker 4.16.0 {RULE} labelled:run-uid
             rule backup Pre
             run finalizer {{canary: {{name: canary}}, maxUnavailable: 9}}"
        )
    };
    check(
        &cluster(""),
        "node b Selected WaitingForTurn ~ canary\n > admit a",
    );
    check(&cluster("max:2"), "> admit a\n > admit b");
    check(&cluster("max:100%"), "> admit a\n > admit b\n > admit c");
}

#[test]
fn late_joiners_are_labelled_at_once_whatever_holds_the_run() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected
             pool infra 4.17.0 ours selected
             node a infra 4.16.0 {RULE} labelled:run-uid
             node late infra 4.16.0
             rule backup Pre
             run {run}"
        )
    };
    check(
        &cluster("finalizer {canary: {name: canary}}"),
        "node a Selected PoolsPausing\n > label late +backup",
    );
    check(
        &cluster("finalizer {canary: {name: canary}, suspend: true}"),
        "hold Suspended\n > label late +backup",
    );
}

#[test]
fn late_joiners_are_labelled_while_post_run_rules_run() {
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected
             pool infra 4.17.0 ours selected
             node late infra 4.17.0
             rule backup Pre
             rule end PostRun
             {RUN}
             job end/PostRun/1 of - running"
        ),
        "> label late +backup +end",
    );
}

#[test]
fn everything_is_restored_in_the_order_that_moves_no_node() {
    let cluster = |canary: &str, infra: &str, node: &str| {
        format!(
            "cluster 4.17.0
             pool canary 4.17.0 {canary}
             pool infra 4.17.0 {infra}
             node a infra 4.17.0 {node}
             rule backup Pre
             {RUN}
             change a Done"
        )
    };
    let labelled = format!("{RULE} labelled:run-uid");
    check(
        &cluster("selected", "ours selected", &labelled),
        "> unselect canary worker, isCanary Exists\n > unselect infra infra",
    );
    check(&cluster("", "ours", &labelled), "> unlabel a -backup");
    check(&cluster("", "ours", ""), "> unpause infra");
    check(&cluster("", "", ""), "> finalizer 1 off");
}

/// Its nodes would be in another pool without their rule labels, and roll there.
#[test]
fn nodes_keep_their_labels_while_nothing_tells_the_selector_that_their_pool_had() {
    for run in ["", "deleting"] {
        let mut cluster = Cluster::parse(&format!(
            "cluster 4.17.0
             pool worker 4.17.0
             pool canary 4.17.0
             pool infra 4.17.0 ours selected
             node a infra 4.17.0 {RULE} labelled:run-uid
             rule backup Pre
             run finalizer {run} {{canary: {{name: canary}}}}
             change a Done"
        ));
        check_cluster(&cluster, "> unselect infra infra");
        let told = [("{", "MarkUnreadable"), ("", "ForeignWriter")];
        for (value, reason) in told {
            let pool = cluster.observed.pools.get_mut("infra").expect("the pool");
            let key = numo_api::marks::PRIOR_NODE_SELECTOR;
            if value.is_empty() {
                pool.annotations.remove(key);
            } else {
                pool.annotations.insert(key.to_owned(), value.to_owned());
            }
            check_cluster(
                &cluster,
                &format!("hold {reason} ~ MachineConfigPool infra\n > nothing"),
            );
        }
        // Somebody has put it back.
        let pool = cluster.observed.pools.get_mut("infra").expect("the pool");
        pool.selector = serde_json::json!({"matchLabels": {"node-role.kubernetes.io/infra": ""}});
        check_cluster(&cluster, "> unlabel a -backup");
    }
}

#[test]
fn a_node_left_in_the_canary_goes_home_before_selectors_are_restored() {
    // Someone deleted its NodeChange, or it never came back and the run was left.
    check(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool infra 4.17.0 ours selected
         node a infra 4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid NotReady
         rule backup Pre
         run finalizer deleting {canary: {name: canary}}",
        "> home a -release +backup",
    );
}

#[test]
fn a_run_deleted_while_a_node_is_in_the_canary_brings_it_home_first() {
    let deleting = |a: &str| {
        set_up(
            &format!("{a} released:4.17.0 labelled:run-uid turn"),
            "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        )
        .replace("run finalizer", "run finalizer deleting")
    };
    check(
        &deleting("4.16.0 desired:4.17.0 to:canary"),
        "phase Leaving\n node a Released Changing\n > nothing",
    );
    check(&deleting("4.17.0 in:canary"), "> home a -release");
}

#[test]
fn a_selector_that_someone_reverts_is_set_again_three_times() {
    let reverted = |corrections: u32| {
        let mut cluster = Cluster::parse(&format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected selector-corrections:{corrections} selector-by:argocd
             pool worker 4.17.0 ours
             node a worker 4.16.0 {RULE} labelled:run-uid
             rule backup Pre
             {RUN}"
        ));
        let pool = cluster.observed.pools.get_mut("canary").expect("the canary");
        pool.selector = mark::own_selector(pool);
        cluster
    };
    for corrections in 0..3 {
        check_cluster(
            &reverted(corrections),
            "hold PoolsPausing\n > select canary worker, backup DoesNotExist, release In",
        );
    }
    check_cluster(&reverted(3), "hold ForeignWriter ~ argocd\n > nothing");
}

#[test]
fn a_selector_of_an_earlier_run_is_no_foreign_write() {
    // The version moved on; the selector still names the run before.
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected selector-corrections:3
         pool worker 4.17.0 ours
         node a worker 4.16.0 {RULE} labelled:run-uid
         rule backup Pre
         {RUN}"
    ));
    let pool = cluster.observed.pools.get_mut("canary").expect("the canary");
    pool.selector["matchExpressions"][1]["values"][0] = "earlier".into();
    check_cluster(
        &cluster,
        "> select canary worker, backup DoesNotExist, release In",
    );
}

#[test]
fn selectors_wait_for_nodes_that_an_earlier_run_has_in_the_canary() {
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.18.0
         pool canary 4.18.0 selected
         pool worker 4.18.0 ours
         node a worker 4.16.0 in:canary released:4.17.0 labelled:run-uid turn NotReady
         node b worker 4.16.0 {RULE} labelled:run-uid
         rule backup Pre
         {RUN}
         change a Released pin:4.17.0 entries:PreRules,Released"
    ));
    let pool = cluster.observed.pools.get_mut("canary").expect("the canary");
    pool.selector["matchExpressions"][1]["values"][0] = "earlier".into();
    // It was not taken up yet, and is not to go to what nobody asked rules about.
    check_cluster(
        &cluster,
        "node b Selected ConfigChanged\n > home a -release\n > pause canary",
    );
}

#[test]
fn a_node_in_the_canary_comes_home_when_the_strategy_is_edited() {
    check(
        &set_up(
            "4.17.0 in:canary released:4.17.0 labelled:run-uid turn",
            "change a PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass",
        )
        .replace("{canary: {name: canary}}", "{strategy: DesiredConfig}"),
        "> journal a Released",
    );
}

#[test]
fn a_canary_that_is_rendered_again_is_paused_at_once() {
    // The node was let go to 4.17.0; the canary would drag it on to content nobody asked rules about.
    check(
        &set_up(
            "4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid turn",
            "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        )
        .replace("pool canary 4.17.0", "pool canary 4.17.0b")
        .replace("pool worker 4.17.0", "pool worker 4.17.0b"),
        "node a Released Changing\n > pause canary",
    );
    // Nobody is in it any more: it is opened again.
    check(
        &set_up(
            &format!("4.17.0 {RULE} labelled:run-uid"),
            "change a Done pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        )
        .replace("pool canary 4.17.0", "pool canary 4.17.0b ours")
        .replace("pool worker 4.17.0", "pool worker 4.17.0b"),
        "hold WaitingForTurn\n > unpause canary",
    );
}

/// The others wait for a person, if the node that is in it does.
#[test]
fn a_canary_that_is_paused_for_a_node_that_is_held_is_a_persons() {
    let text = set_up(
        "4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid turn",
        "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
    )
    .replace("pool canary 4.17.0", "pool canary 4.17.0b ours")
    .replace("pool worker 4.17.0", "pool worker 4.17.0b");
    let mut cluster = Cluster::parse(&text);
    let hold = |cluster: &Cluster| decision(cluster).report.hold.expect("a hold");
    let told = hold(&cluster);
    assert!(
        told.message.contains("MachineConfigPool canary is paused until"),
        "{}",
        told.message
    );
    assert_eq!(told.who(), Actor::OtherNode);
    let change = cluster.observed.changes.values_mut().next().expect("a journal");
    change.status.node_change_uid = Some("another".to_owned());
    assert_eq!(hold(&cluster).who(), Actor::ClusterAdmin);
}

#[test]
fn a_canary_that_someone_keeps_unpausing_is_left_to_them_after_three_times() {
    let cluster = |corrections: &str| {
        set_up(
            "4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid turn",
            "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        )
        .replace(
            "pool canary 4.17.0",
            &format!("pool canary 4.17.0b ours unpaused corrections:{corrections}"),
        )
        .replace("pool worker 4.17.0", "pool worker 4.17.0b")
    };
    check(&cluster("2"), "> pause canary again 3");
    check(&cluster("3"), "hold ForeignWriter\n > nothing");
}

#[test]
fn a_selector_that_would_leave_a_node_in_no_pool_is_not_set() {
    // Someone put a release label on the node: under the run's selector it would be in no pool.
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected
             pool infra 4.17.0 ours
             node a infra 4.16.0 {RULE} labelled:run-uid released:4.15.0
             rule backup Pre
             {RUN}"
        ),
        "hold NodeInNoPool ~ Node a\n > nothing",
    );
}

/// A node of two custom pools is the MCO's to refuse. With the run's selectors it would be in one of them only, and
/// roll there without rules.
#[test]
fn a_selector_that_would_leave_a_node_of_two_pools_in_one_is_not_set() {
    check(
        &format!(
            "cluster 4.17.0
             pool canary 4.17.0 selected
             pool infra 4.17.0 ours
             pool edge 4.17.0
             node a infra 4.16.0 {RULE} labelled:run-uid
             node b infra 4.16.0 label:node-role.kubernetes.io/edge
             rule backup Pre
             target t infra
             {RUN}"
        ),
        "hold NodeInTwoPools ~ Node b\n > nothing",
    );
}

/// Someone else set the target's selector back while its node changes in the canary: it is put right again.
#[test]
fn a_selector_that_puts_a_node_of_the_canary_into_two_pools_is_corrected() {
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool infra 4.17.0 ours selected
         node a infra 4.16.0 desired:4.17.0 to:canary released:4.17.0 labelled:run-uid turn
         node b infra 4.16.0 {RULE} labelled:run-uid
         rule backup Pre
         {RUN}
         change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass"
    ));
    let pool = cluster.observed.pools.get_mut("infra").expect("a pool");
    pool.selector = mark::own_selector(pool);
    check_cluster(
        &cluster,
        "> select infra infra, backup Exists, release DoesNotExist",
    );
}

/// Somebody took the mark off: what was there before numo is known to people only, and until they say, nobody goes.
#[test]
fn a_selector_without_its_mark_lets_nobody_go() {
    let mut cluster = Cluster::parse(&set_up(
        &format!("4.16.0 {RULE} labelled:run-uid turn"),
        "change a PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass",
    ));
    let canary = cluster.observed.pools.get_mut("canary").expect("a pool");
    canary.annotations.remove(marks::PRIOR_NODE_SELECTOR);
    check_cluster(
        &cluster,
        "hold ForeignWriter\n node a PreRelease ForeignWriter\n > journal a closed",
    );
}

#[test]
fn labels_that_someone_keeps_taking_off_are_put_back_three_times() {
    // What is on the node is what numo wrote the time before, but for the label.
    let mut mark = "run-uid".to_owned();
    let cluster = |mark: &str| set_up(&format!("4.16.0 labelled:{}", mark.replace(' ', "_")), "");
    for again in 0..=3 {
        let decision = decision(&Cluster::parse(&cluster(&mark)));
        let action = decision
            .actions
            .iter()
            .find_map(|planned| match &planned.action {
                numo_core::action::Action::PatchNode(patch) if patch.node == "a" => Some(patch),
                _ => None,
            })
            .expect("node a is labelled");
        let to = action.annotations[0].to.clone().expect("a mark");
        assert!(to.ends_with(&format!(" {again}")), "{to}");
        mark = to;
    }
    check(
        &cluster(&mark),
        "hold ForeignWriter ~ rule labels of Node a\n > nothing",
    );
}

#[test]
fn a_node_that_the_mco_has_not_taken_up_is_taken_back_when_its_pool_moves_on() {
    let change = "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass";
    let moved_on = |node: &str| {
        set_up(node, change)
            .replace("pool canary 4.17.0", "pool canary 4.17.0b")
            .replace("pool worker 4.17.0", "pool worker 4.17.0b")
    };
    check(
        &moved_on("4.16.0 released:4.17.0 labelled:run-uid turn"),
        "node a Released ConfigChanged\n > home a -release\n > pause canary",
    );
    // Back in its pool it passes its rules for what is wanted now.
    check(
        &moved_on("4.16.0 labelled:run-uid turn"),
        "node a Admitted ConfigChanged\n > journal a Admitted ConfigChanged attempt 2",
    );
}

#[test]
fn a_node_that_the_mco_took_further_goes_home_to_that_and_never_back() {
    let cluster = set_up(
        "4.17.0b in:canary released:4.17.0 labelled:run-uid turn",
        "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
    )
    .replace("pool canary 4.17.0", "pool canary 4.17.0b")
    .replace("pool worker 4.17.0", "pool worker 4.17.0b");
    let decision = decision(&Cluster::parse(&cluster));
    let desired = decision.actions.iter().find_map(|planned| match &planned.action {
        numo_core::action::Action::PatchNode(patch) => patch
            .annotations
            .iter()
            .find(|change| change.key == marks::openshift::DESIRED_CONFIG)
            .and_then(|change| change.to.clone()),
        _ => None,
    });
    assert_eq!(desired.as_deref(), Some("rendered-worker-4170b"));
}

#[test]
fn a_node_in_two_pools_by_someone_elses_selector_goes_home_to_change_there() {
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool infra 4.17.0 ours selected selector-corrections:3 selector-by:argocd
         node a infra 4.16.0 desired:4.17.0 to:canary Working released:4.17.0 labelled:run-uid turn
         rule backup Pre
         {RUN}
         change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass"
    ));
    let pool = cluster.observed.pools.get_mut("infra").expect("infra");
    pool.selector = mark::own_selector(pool);
    check_cluster(
        &cluster,
        "hold ForeignWriter ~ argocd\n node a Released ForeignWriter\n > home a -release +backup",
    );
}

#[test]
fn a_node_comes_home_with_the_labels_that_its_pools_selector_asks_for() {
    // The rules were edited, and a stop keeps the selector from being set anew.
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool infra 4.17.0 ours selected
         node a infra 4.17.0 in:canary released:4.17.0 labelled:run-uid turn
         rule smoke Pre
         {} suspended
         change a Released pin:4.17.0 entries:PreRules,Released",
        "run finalizer {canary: {name: canary}}"
    ));
    let pool = cluster.observed.pools.get_mut("infra").expect("infra");
    pool.selector["matchExpressions"][0]["key"] =
        "mutexrule.openshift-optional.skrzypek.io/backup.numo".into();
    check_cluster(&cluster, "> home a -release +smoke +backup");
}

#[test]
fn a_node_whose_canary_pool_is_gone_changes_in_its_own() {
    check(
        &set_up(
            "4.16.0 desired:4.17.0 to:canary Working released:4.17.0 labelled:run-uid turn",
            "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        )
        .replace("pool canary 4.17.0 selected", ""),
        "hold CanaryNotFound\n node a Released CanaryNotFound\n > home a -release",
    );
    // The cordon of a drain is the MCO's, and nobody's to put back.
    let cluster = set_up(
        "4.16.0 desired:4.17.0 to:canary Working cordoned released:4.17.0 labelled:run-uid turn \
         annotation:machineconfiguration.openshift.io/desiredDrain=drain-rendered-canary-4170",
        "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
    )
    .replace("pool canary 4.17.0 selected", "");
    let decision = decision(&Cluster::parse(&cluster));
    let remembers = decision.actions.iter().any(|planned| {
        matches!(&planned.action, numo_core::action::Action::PatchNode(patch)
            if patch.annotations.iter().any(|change| change.key == marks::CORDONED_BY))
    });
    assert!(!remembers);
}

#[test]
fn a_canary_that_the_spec_no_longer_names_gets_its_selector_back_first() {
    let renamed = |node: &str, more: &str| {
        set_up(node, more)
            .replace("name: canary", "name: second")
            .replace(
                "rule backup",
                "pool second 4.17.0\n target t worker\n rule backup",
            )
    };
    check(
        &renamed(
            "4.16.0 desired:4.17.0 to:canary Working released:4.17.0 labelled:run-uid turn",
            "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass",
        ),
        "hold ConfigChanged ~ Node a returns to its own pool before MachineConfigPool canary\n > nothing",
    );
    check(
        &renamed(&format!("4.16.0 {RULE} labelled:run-uid"), ""),
        "hold PoolsPausing ~ canary\n > unselect canary worker, isCanary Exists",
    );
}

#[test]
fn a_node_cordoned_before_the_mco_takes_it_up_goes_home_and_waits() {
    let change = "change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass";
    check(
        &set_up("4.16.0 released:4.17.0 labelled:run-uid turn cordoned", change),
        "node a Released CordonedByOther\n > home a -release",
    );
    check(
        &set_up("4.16.0 labelled:run-uid turn cordoned", change),
        "node a Admitted ConfigChanged\n > journal a Admitted ConfigChanged attempt 2",
    );
}
