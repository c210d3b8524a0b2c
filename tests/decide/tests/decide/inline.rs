//! Rules that stand in the run that they gate: `spec.rules`.

use crate::words::check;

const CLUSTER: &str = "cluster 4.17.0
    pool worker 4.17.0 ours
    node a worker 4.16.0
    node b worker 4.16.0";

/// The same, and a has its turn.
fn in_turn(spec: &str, more: &str) -> String {
    run(spec, more).replace("node a worker 4.16.0", "node a worker 4.16.0 turn")
}

fn run(spec: &str, more: &str) -> String {
    format!("{CLUSTER}\n run {{pools: [worker], mutexRules: [], {spec}}} finalizer\n {more}")
}

#[test]
fn a_node_passes_the_rules_that_stand_in_the_run() {
    check(
        &in_turn(
            "rules: [{name: backup, jobSpec: {}}]",
            "rule run_backup Pre\n change a PreRules pin:4.17.0",
        ),
        "node a PreRules RuleStarting\n > job run_backup/Pre/1 of a",
    );
    check(
        &in_turn(
            "rules: [{name: backup, jobSpec: {}}]",
            "rule run_backup Pre\n change a PreRules pin:4.17.0 verdict:run_backup/Pre/1/Pass",
        ),
        "> release a rendered-worker-4170",
    );
}

#[test]
fn a_rule_that_cannot_be_evaluated_holds_the_run_and_is_named_by_its_field() {
    for (spec, more, words) in [
        (
            "rules: [{name: backup, jobSpec: {}}]",
            "",
            "RuleNotFound ~ spec.rules[0]: spec.rules of MutexRunConfig numo/run has no rule backup",
        ),
        (
            "rules: [{name: backup, jobSpec: {}}]",
            "rule run_backup Pre invalid",
            "RuleInvalid ~ spec.rules[0]: rule backup of MutexRunConfig numo/run is not valid: the Job has no container",
        ),
        (
            "rules: [{name: backup, jobSpec: {}}]",
            "rule run_backup Pre unjudged",
            "Validating ~ spec.rules[0]: rule backup of MutexRunConfig numo/run has not been judged by the API server yet",
        ),
        (
            "rules: [{name: a, jobSpec: {}}, {name: a, jobSpec: {}}]",
            "rule run_a Pre",
            "InvalidField ~ spec.rules[1].name: found a twice, wanted each name once",
        ),
        (
            "rules: [{name: A_b, jobSpec: {}}]",
            "",
            "InvalidField ~ spec.rules[0].name: found \"A_b\", wanted at most 63 lower-case letters",
        ),
        (
            "rules: [{name: a, type: wasm}]",
            "rule run_a Pre wasm",
            "InvalidField ~ spec.rules[0].type: found wasm, wanted kubernetes, cel or prometheus",
        ),
    ] {
        check(&run(spec, more), &format!("problem {words}\n > nothing"));
    }
}

/// A MutexRule that is named like the rule of a run is another one.
#[test]
fn no_mutex_rule_stands_in_for_a_rule_of_a_run() {
    check(
        &run(
            "rules: [{name: backup, jobSpec: {}}]",
            "rule backup Pre\n rule run-backup Pre",
        ),
        "problem RuleNotFound\n > nothing",
    );
}
