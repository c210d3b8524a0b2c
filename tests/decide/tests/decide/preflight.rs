//! What is refused before anything is written.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster},
};
use numo_api::Reason;
use numo_core::owners::mutex_run_config::gates::run::REFUSALS;
use std::collections::BTreeSet;

/// A sound cluster with a canary pool, from which the tests take something away.
const CANARY: &str = "
    cluster 4.17.0
    pool canary 4.17.0
    pool worker 4.17.0
    node a worker 4.16.0
    rule backup Pre
    run {canary: {name: canary}}";

/// The run is refused, and its pools are paused and held all the same; with `onRefusal: Roll` nothing is written.
#[track_caller]
fn refused(cluster: &str, reason: &str) {
    held(cluster, reason, "worker");
}

#[track_caller]
fn held(cluster: &str, reason: &str, pools: &str) {
    let pauses: Vec<String> = pools.split(' ').map(|pool| format!("> pause {pool}")).collect();
    check(
        cluster,
        &format!(
            "phase Active\n hold {reason} ~ until this is fixed\n node a Selected {reason}\n > finalizer on\n {}",
            pauses.join("\n")
        ),
    );
    let rolls = cluster.replacen("run {", "run {onRefusal: Roll, ", 1);
    if rolls != cluster {
        check(
            &rolls,
            &format!("phase Refused\n hold {reason} ~ WITHOUT rules\n node a Selected {reason}\n > nothing"),
        );
    }
    // What was paused already stays so.
    let marked = cluster
        .replace("pool worker 4.17.0", "pool worker 4.17.0 ours")
        .replacen("run {", "run {onRefusal: Roll, ", 1);
    if marked.contains("pool worker 4.17.0 ours") && pools == "worker" {
        check(
            &marked,
            &format!("phase Active\n hold {reason}\n node a Selected {reason}\n > nothing"),
        );
    }
}

#[test]
fn a_sound_cluster_is_not_refused() {
    check(CANARY, "phase Active\n > finalizer on\n > pause worker");
}

#[test]
fn namespaces_that_are_not_watched_are_refused() {
    check(
        &format!("settings namespace:elsewhere\n {CANARY}"),
        "phase Refused\n hold NamespaceNotAllowed\n > nothing",
    );
}

#[test]
fn a_canary_that_is_missing_is_refused() {
    refused(&CANARY.replace("pool canary 4.17.0", ""), "CanaryNotFound");
    refused(&CANARY.replace("{name: canary}", "{}"), "CanaryNotFound");
    refused(
        &CANARY.replace("{canary: {name: canary}}", "{strategy: CanaryPool}"),
        "CanaryNotFound",
    );
}

#[test]
fn a_canary_that_is_paused_is_refused() {
    refused(
        &CANARY.replace("pool canary 4.17.0", "pool canary 4.17.0 paused"),
        "CanaryPaused",
    );
}

#[test]
fn a_canary_with_nodes_is_refused() {
    refused(
        &CANARY.replace(
            "node a worker 4.16.0",
            "node a worker 4.16.0\n node c canary 4.16.0 label:isCanary",
        ),
        "CanaryPopulated",
    );
}

#[test]
fn a_canary_among_the_targets_is_refused() {
    held(
        &format!("{CANARY}\n target t worker canary"),
        "CanaryIsTarget",
        "worker canary",
    );
    refused(
        &CANARY.replace("{name: canary}", "{name: worker}"),
        "CanaryIsTarget",
    );
}

#[test]
fn a_canary_of_other_content_is_refused() {
    refused(
        &CANARY.replace("pool canary 4.17.0", "pool canary 4.17.0b"),
        "CanaryContentDiffers",
    );
}

/// A rule that is named twice counts once, and the fields after it keep their numbers.
#[test]
fn a_long_label_is_told_by_the_field_that_makes_it() {
    let long = "a-rule-with-a-name-of-sixty-characters-and-that-is-too-many";
    let spec = format!("mutexRules: [{{name: backup}}, {{name: backup}}, {{name: {long}}}]");
    check(
        &CANARY
            .replace("rule backup Pre", &format!("rule backup Pre\n rule {long} Pre"))
            .replace("{name: canary}}", &format!("{{name: canary}}, {spec}}}")),
        "problem LabelTooLong ~ spec.mutexRules[2]: MutexRule numo/a-rule",
    );
}

#[test]
fn a_long_label_is_refused_only_where_labels_are_used() {
    let long = "rule a-rule-with-a-name-of-sixty-characters-and-that-is-too-many Pre";
    refused(&CANARY.replace("rule backup Pre", long), "LabelTooLong");
    check(
        &CANARY
            .replace("rule backup Pre", long)
            .replace("{canary: {name: canary}}", "{}"),
        "> finalizer on\n > pause worker",
    );
}

#[test]
fn layered_pools_are_refused_in_both_strategies() {
    let layered = CANARY.replace(
        "node a worker 4.16.0",
        "node a worker 4.16.0 annotation:machineconfiguration.openshift.io/currentImage=quay.io/x",
    );
    refused(&layered, "LayeredPool");
    refused(&layered.replace("{canary: {name: canary}}", "{}"), "LayeredPool");
    refused(&layered.replace("currentImage", "desiredImage"), "LayeredPool");
    // Its image is built, and no node runs it yet.
    for pool in ["worker", "canary"] {
        refused(&format!("{CANARY}\n layered {pool}"), "LayeredPool");
    }
}

#[test]
fn control_plane_pools_are_refused() {
    check(
        "cluster 4.17.0
         pool master 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         target t master worker",
        "phase Active\n hold ControlPlanePool\n > finalizer on\n > pause worker",
    );
    check(
        "cluster 4.17.0
         pool master 4.17.0
         pool infra 4.17.0
         node m master 4.17.0 label:node-role.kubernetes.io/infra
         node a infra 4.16.0
         target t infra",
        "phase Active\n hold SelectorMatchesControlPlane ~ m\n > finalizer on\n > pause infra",
    );
}

#[test]
fn hosted_control_planes_are_refused() {
    check(
        &format!("topology External\n {CANARY}"),
        "phase Refused\n hold ExternalControlPlane\n node a Selected ExternalControlPlane\n > nothing",
    );
}

#[test]
fn what_is_referred_to_must_exist() {
    refused(
        &CANARY.replace(
            "{canary: {name: canary}}",
            "{canary: {name: canary}, mutexRules: [{name: gone}]}",
        ),
        "RuleNotFound",
    );
    check(
        &CANARY.replace("{canary: {name: canary}}", "{mutexTargets: [{name: gone}]}"),
        "problem TargetNotFound\n > nothing",
    );
    check(
        &CANARY.replace("{canary: {name: canary}}", "{mutexTargets: []}"),
        "problem TargetNotFound\n > nothing",
    );
    refused(&format!("{CANARY}\n target t worker gone"), "PoolNotFound");
    check(
        &format!("{CANARY}\n target t"),
        "problem TargetNotFound\n > nothing",
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let run = |spec: &str| CANARY.replace("{canary: {name: canary}}", spec);
    refused(&run("{maxUnavailable: lots}"), "InvalidField");
    refused(&run("{hold: Always}"), "InvalidField");
    let selector = "{matchExpressions: [{key: team, operator: Is}]}";
    for field in ["namespaceSelector", "podSelector"] {
        refused(
            &run(&format!("{{awaitedWorkloads: {{{field}: {selector}}}}}")),
            "InvalidField",
        );
    }
    refused(&run("{hold: Always, trigger: Version}"), "InvalidField");
    // A later numo has written it: the pools are known, and are held.
    refused(&run("misread {}"), "InvalidField");
    refused(
        &CANARY.replace("rule backup Pre", "rule backup Pre invalid"),
        "RuleInvalid",
    );
}

#[test]
fn a_rule_that_is_not_judged_yet_arms_and_waits() {
    check(
        &CANARY.replace("rule backup Pre", "rule backup Pre unjudged"),
        "phase Active\n hold Validating\n > finalizer on\n > pause worker",
    );
}

#[test]
fn rules_that_no_journal_could_hold_are_refused() {
    let many = |rules: usize, retries: usize| {
        let rules: Vec<String> = (0..rules)
            .map(|number| format!("rule r{number} Pre,Post retries:{retries}"))
            .collect();
        CANARY.replace("rule backup Pre", &rules.join("\n"))
    };
    check(&many(16, 0), "> finalizer on\n > pause worker");
    refused(&many(17, 0), "InvalidField");
    check(&many(11, 10), "> finalizer on\n > pause worker");
    refused(&many(12, 10), "InvalidField");
}

#[test]
fn a_rule_that_would_never_be_asked_is_refused() {
    for phases in ["Admit", "BeforeUncordon", "Admit,BeforeUncordon"] {
        refused(
            &CANARY.replace("rule backup Pre", &format!("rule backup {phases}")),
            "FieldNotServed",
        );
    }
    refused(
        &CANARY.replace("rule backup Pre", "rule backup BeforeUncordon wasm"),
        "FieldNotServed",
    );
    check(
        &CANARY.replace("rule backup Pre", "rule backup Pre,BeforeUncordon"),
        "> finalizer on\n > pause worker",
    );
}

#[test]
fn a_cluster_without_openshift_is_refused() {
    check(
        "pool worker 4.17.0\n node a worker 4.16.0",
        "hold OpenShiftMissing\n > finalizer on\n > pause worker",
    );
    check(
        "pool worker 4.17.0\n node a worker 4.17.0",
        "phase Idle\n hold OpenShiftMissing\n > nothing",
    );
    check(
        "cluster latest\n pool worker 4.17.0\n node a worker 4.16.0",
        "hold InvalidVersion\n > finalizer on\n > pause worker",
    );
}

#[test]
fn nothing_is_written_for_a_refused_run_while_nothing_is_upgraded() {
    let cluster = CANARY
        .replace("node a worker 4.16.0", "node a worker 4.17.0")
        .replace("{canary: {name: canary}}", "{mutexRules: [{name: gone}]}");
    check(
        &cluster,
        "phase Idle\n hold RuleNotFound ~ when an upgrade begins, MachineConfigPool worker is paused\n > nothing",
    );
    check(
        &cluster.replace("mutexRules", "onRefusal: Roll, mutexRules"),
        "phase Idle\n hold RuleNotFound ~ when an upgrade begins, MachineConfigPool worker rolls WITHOUT rules\n > nothing",
    );
}

#[test]
fn a_pool_that_does_not_exist_lets_the_others_go_nowhere() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         pool infra 4.17.0
         node a worker 4.16.0
         node b infra 4.16.0
         target t worker infra storage",
        "phase Active
         hold PoolNotFound ~ there is no MachineConfigPool storage
         node a Selected PoolNotFound
         node b Selected PoolNotFound
         > finalizer on
         > pause worker
         > pause infra",
    );
}

#[test]
fn the_pools_of_a_target_that_was_deleted_are_held_all_the_same() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         run {mutexTargets: [{name: gone}]}
         status 4.16.0 finished pools:worker",
        "phase Active
         hold TargetNotFound
         node a Selected TargetNotFound
         > finalizer on
         > pause worker",
    );
}

#[test]
fn the_pools_of_a_target_that_is_misspelt_are_held_all_the_same() {
    for (pools, reason, paused) in [
        ("wroker", "PoolNotFound", "> pause worker"),
        ("master", "ControlPlanePool", "> pause worker"),
        ("infra wroker", "PoolNotFound", "> pause infra\n > pause worker"),
    ] {
        check(
            &format!(
                "cluster 4.17.0
                 pool infra 4.17.0
                 pool master 4.17.0
                 pool worker 4.17.0
                 node a worker 4.16.0
                 target t {pools}
                 run {{}}
                 status 4.16.0 finished pools:worker"
            ),
            &format!("phase Active\n hold {reason}\n node a Selected {reason}\n > finalizer on\n {paused}"),
        );
    }
    // Nobody knows what was meant: it says so.
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         target t wroker
         run {}",
        "hold PoolNotFound ~ no pool is held\n > nothing",
    );
}

#[test]
fn a_pool_that_another_run_holds_holds_its_own_nodes_only() {
    check(
        "cluster 4.17.0
         pool infra 4.17.0
         pool worker 4.17.0 of:other-uid
         node a worker 4.16.0
         node b infra 4.16.0
         rule backup Pre
         target all infra worker
         target some worker
         run {mutexTargets: [{name: all}]}
         other-run {mutexTargets: [{name: some}]}",
        "phase Active
         node a Selected PoolHeldByRun ~ numo/other
         node b Selected PoolsPausing
         > finalizer on
         > pause infra",
    );
    check(
        "cluster 4.17.0
         pool infra 4.17.0 ours
         pool worker 4.17.0 of:other-uid
         node a worker 4.16.0 desired:4.17.0 Working
         node b infra 4.16.0
         rule backup Pre
         target all infra worker
         target some worker
         run {mutexTargets: [{name: all}], maxUnavailable: 2}
         other-run {mutexTargets: [{name: some}]}",
        "phase Active
         hold -
         node a Selected PoolHeldByRun ~ numo/other
         > admit b",
    );
}

#[test]
fn a_canary_that_another_run_has_paused_holds_the_run_with_its_own_pools_paused() {
    let cluster = |worker: &str| {
        format!(
            "cluster 4.17.0
             pool canary 4.17.0 of:other-uid
             pool worker 4.17.0 {worker}
             node a worker 4.16.0
             rule backup Pre
             run {{canary: {{name: canary}}}}
             other-run {{canary: {{name: canary}}}}"
        )
    };
    check(&cluster(""), "phase Active\n > finalizer on\n > pause worker");
    check(
        &cluster("ours"),
        "hold PoolHeldByRun ~ MachineConfigPool canary is held by MutexRunConfig numo/other\n > nothing",
    );
}

#[test]
fn a_pool_that_its_run_no_longer_names_is_taken_over() {
    let cluster = |other: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 of:other-uid
             pool infra 4.17.0 foreign
             node a worker 4.16.0
             target mine worker
             target theirs infra
             rule backup Pre
             run {{mutexTargets: [{{name: mine}}]}}
             other-run {other}"
        )
    };
    check(
        &cluster("{mutexTargets: [{name: mine}]}"),
        "phase Refused\n hold PoolHeldByRun\n > nothing",
    );
    check(
        &cluster("{mutexTargets: [{name: theirs}]}"),
        "phase Active\n > finalizer on\n > pause worker",
    );
    // A node of it is still on its way.
    let flying = cluster(
        "{mutexTargets: [{name: theirs}]}\n change a Released owner:other-uid pin:4.17.0 pool:worker",
    );
    check(&flying, "phase Refused\n hold PoolHeldByRun\n > nothing");
    // NodeChanges are watched everywhere, and whoever has a namespace may write some there.
    let mut forged = Cluster::parse(&flying);
    for mut change in std::mem::take(&mut forged.observed.changes).into_values() {
        "tenant".clone_into(&mut change.key.namespace);
        forged.observed.changes.insert(change.key.clone(), change);
    }
    check_cluster(&forged, "phase Active\n > finalizer on\n > pause worker");
}

/// The reasons that a piece of the core's source makes sentences with.
fn reasons_of(source: &str, from: &str, to: &str) -> BTreeSet<String> {
    let start = source.find(from).unwrap_or_else(|| panic!("no {from}"));
    let end = source[start..]
        .find(to)
        .unwrap_or_else(|| panic!("no {to} after {from}"));
    let made = source[start..start + end].split("Why::new(").skip(1);
    made.filter_map(|rest| rest.trim_start().strip_prefix("Reason::"))
        .filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_alphanumeric()).next())
        .map(ToOwned::to_owned)
        .collect()
}

/// The list of refusals is what the code refuses for, so that a reason which comes to it needs a row end to end.
#[test]
fn every_reason_for_which_a_run_is_refused_is_in_the_list() {
    let gates = include_str!("../../../../operator/core/src/owners/mutex_run_config/gates/run.rs");
    let intent = include_str!("../../../../operator/core/src/intent.rs");
    let targets = include_str!("../../../../operator/core/src/targets.rs");
    let rules = include_str!("../../../../operator/core/src/rules/wrong.rs");
    let run_view = include_str!("../../../../operator/core/src/owners/mutex_run_config/run_view.rs");
    let mut found = reasons_of(gates, "pub fn refusal(", "fn paused_by_other(");
    found.extend(reasons_of(intent, "pub fn parse(", "\n}\n"));
    found.extend(reasons_of(intent, "fn rules<", "fn turn("));
    found.extend(reasons_of(targets, "pub(crate) fn pools<", "fn keep_remembered<"));
    found.extend(reasons_of(targets, "pub(crate) fn limits<", "\n}\n"));
    found.extend(reasons_of(rules, "pub fn unusable(", "\n}\n"));
    found.extend(reasons_of(run_view, "fn desired_version(", "\n}\n"));
    // Not judged yet: it holds, and ends by itself.
    found.remove(Reason::Validating.name());
    let listed: BTreeSet<String> = REFUSALS.iter().map(|reason| reason.name().to_owned()).collect();
    assert_eq!(found, listed);
}
