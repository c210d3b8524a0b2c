//! Rules that only the nodes of one wave must pass.

use crate::{
    cluster::Cluster,
    last_look::stopped,
    words::{check, check_cluster, decision},
};
use numo_core::action::Action;

/// Node a is a canary, b is in no wave; both have rule backup, and canaries rule smoke too.
const WAVE: &str = r#""waves":[{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}},"rules":[{"name":"smoke"}]}]"#;

fn run(more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         {more}
         run {{{WAVE},\"mutexRules\":[{{\"name\":\"backup\"}}],\"order\":\"Name\"}} finalizer"
    )
}

/// The rules that the journal of the node remembers once its turn begins.
fn remembered(text: &str) -> Vec<String> {
    let cluster = Cluster::parse(text);
    let actions = decision(&cluster).actions;
    let mut pins = actions.iter().filter_map(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => status.pin.as_ref(),
        _ => None,
    });
    let terms = pins.find_map(|pin| pin.terms.clone());
    terms.expect("its turn begins").rules
}

#[test]
fn a_node_of_a_run_passes_the_rules_of_its_wave_after_those_of_all() {
    let nodes = "rule smoke Pre
         node a worker 4.16.0 turn label:canary=yes
         node b worker 4.16.0";
    let begins = format!("{nodes}\n change a Admitted");
    assert_eq!(remembered(&run(&begins)), ["numo/backup", "numo/smoke"]);
    let passed = |verdicts: &str| {
        let turn = format!("change a PreRules pin:4.17.0 under:DesiredConfig/backup,smoke {verdicts}");
        run(&format!("{nodes}\n {turn}"))
    };
    check(
        &passed("verdict:backup/Pre/1/Pass"),
        "node a PreRules RuleStarting\n > job smoke/Pre/1 of a",
    );
    check(
        &passed("verdict:backup/Pre/1/Pass verdict:smoke/Pre/1/Pass"),
        "> release a rendered-worker-4170",
    );
    // The others need not.
    let other = "rule smoke Pre
         node a worker 4.17.0 label:canary=yes
         node b worker 4.16.0 turn
         change b Admitted";
    assert_eq!(remembered(&run(other)), ["numo/backup"]);
}

fn plan(more: &str) -> String {
    format!(
        "node a worker v0 label:canary=yes
         node b worker v0
         rule r
         plan concurrency:1 cordon finalizer {more}"
    )
}

#[test]
fn a_node_of_a_plan_passes_the_rules_of_its_wave_after_those_of_all() {
    let of = |applying: &str, more: &str| {
        let bound = format!(
            "applying:{applying}\n rule smoke Pre
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"r\"}}],{WAVE}}}\n {more}"
        );
        plan(&bound)
    };
    check(
        &of("a", "begun a PreRules verdict:r/Pre/1/Pass\n keeps a"),
        "node a PreRules RuleStarting\n > job smoke/Pre/1 of a",
    );
    check(
        &of(
            "a",
            "begun a PreRules verdict:r/Pre/1/Pass verdict:smoke/Pre/1/Pass\n keeps a",
        ),
        "> job a",
    );
    check(
        &of(
            "b",
            "at a\n begun a Done entered:Admitted\n begun b PreRules verdict:r/Pre/1/Pass\n keeps b",
        ),
        "> job b",
    );
}

/// The last look before a write knows the rule of a wave that is made of labels.
#[test]
fn no_job_of_a_plan_begins_before_the_rules_of_its_wave_have_passed() {
    let of = |verdict: &str| {
        let bound = format!(
            "applying:a\n rule smoke Pre
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"r\"}}],{WAVE}}}
             begun a PreRules verdict:r/Pre/1/Pass {verdict}\n keeps a"
        );
        plan(&bound)
    };
    stopped(&of("verdict:smoke/Pre/1/Pass"), &of(""), 1);
}

/// Node a of a Plan with waves, in this turn.
fn turn(label: &str, turn: &str) -> String {
    format!(
        "node a worker v0 {label}
         rule r
         rule smoke Pre
         plan concurrency:1 cordon finalizer applying:a
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"r\"}}],{WAVE}}}
         begun a {turn}
         keeps a"
    )
}

/// The rules of its wave that the journal of a node is to remember.
fn to_be_kept(text: &str) -> Option<Vec<String>> {
    let actions = decision(&Cluster::parse(text)).actions;
    let mut written = actions.iter().filter_map(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => Some(status.wave_rules.clone()),
        _ => None,
    });
    written.next().flatten()
}

/// Who may edit the labels of a node would else take it out of a rule in mid-turn.
#[test]
fn a_node_of_a_plan_keeps_the_rules_of_the_wave_in_which_its_turn_began() {
    const LABEL: &str = "label:canary=yes";
    for (label, wanted) in [(LABEL, vec!["numo/smoke".to_owned()]), ("", Vec::new())] {
        for begun in ["new", "Admitted"] {
            assert_eq!(to_be_kept(&turn(label, begun)), Some(wanted.clone()), "{begun}");
        }
    }
    let passed = "verdict:smoke/Pre/1/Pass";
    for (label, kept, wanted) in [
        ("", "waverules:smoke", "> job smoke/Pre/1 of a"),
        ("", &format!("waverules:smoke {passed}"), "> job a"),
        (LABEL, "waverules:", "> job a"),
        // A turn of a version before this one: the wave that the node is in.
        (LABEL, "", "> job smoke/Pre/1 of a"),
        ("", "", "> job a"),
    ] {
        let text = turn(label, &format!("PreRules {kept} verdict:r/Pre/1/Pass"));
        check(&text, wanted);
    }
    // Nor does an edit of the waves.
    let without = turn("", "PreRules waverules:smoke verdict:r/Pre/1/Pass");
    let without = without.replace(",\"rules\":[{\"name\":\"smoke\"}]", "");
    check(&without, "> job smoke/Pre/1 of a");
    // The last look before a write knows it, too.
    let begins = |verdict: &str| {
        let turn_of = format!("PreRules waverules:smoke verdict:r/Pre/1/Pass {verdict}");
        turn("", &turn_of)
    };
    stopped(&begins(passed), &begins(""), 1);
}

/// The next attempt has the rules of the wave that the node is in by then.
#[test]
fn a_retry_takes_the_wave_as_it_is() {
    let held = "Held reason:RuleFailed waverules:smoke generation:2 directive:Retry boot:b1 entered:PreRules";
    assert_eq!(to_be_kept(&turn("", held)), None);
    // One that was changed has no turn to begin: the rules that are left are of the wave in which it began.
    let changed =
        "Held reason:RuleFailed waverules:smoke generation:2 directive:Retry boot:b1 entered:Changed";
    assert_eq!(
        to_be_kept(&turn("", changed)),
        Some(vec!["numo/smoke".to_owned()])
    );
}

/// A rule of a wave that is missing or cannot be asked about nodes lets nobody of the owner begin.
#[test]
fn a_rule_of_a_wave_that_cannot_be_asked_holds_the_owner_and_is_named_by_its_field() {
    let nodes = "node a worker 4.16.0 label:canary=yes";
    for (rule, words) in [
        (
            "",
            "RuleNotFound ~ spec.waves[0].rules[0]: there is no MutexRule numo/smoke",
        ),
        (
            "rule smoke Pre invalid",
            "RuleInvalid ~ spec.waves[0].rules[0]: MutexRule numo/smoke is not valid",
        ),
        (
            "rule smoke PreRun",
            "FieldNotServed ~ spec.waves[0].rules[0]: MutexRule numo/smoke spec.phases: found none before the disruption",
        ),
    ] {
        check(
            &run(&format!("{rule}\n {nodes}")),
            &format!("problem {words}\n > nothing"),
        );
    }
    let bound = format!("\n binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{WAVE}}}");
    check(
        &plan(&bound),
        "hold RuleNotFound ~ MutexBinding x spec.waves[0].rules[0]: there is no MutexRule numo/smoke",
    );
}

/// A rule that is asked once a run too would not be asked then.
#[test]
fn a_rule_of_a_wave_is_none_of_the_whole_run() {
    check(
        &run("rule smoke PreRun,Pre\n node a worker 4.16.0 label:canary=yes"),
        "problem FieldNotServed ~ spec.waves[0].rules: MutexRule numo/smoke spec.phases: found PreRun\n > nothing",
    );
}

/// Who may edit a Plan would else have its nodes go before the waves that a MutexBinding gives it.
#[test]
fn nodes_that_go_first_do_not_get_round_the_rules_or_the_approval_of_waves() {
    for (wave, what) in [
        ("\"rules\":[{\"name\":\"smoke\"}]", "rules"),
        ("\"approval\":\"Manual\"", "approval"),
    ] {
        let of = |own: &str| {
            format!(
                "node a worker v0
                 rule smoke Pre
                 plan concurrency:1 cordon finalizer {own}
                 binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"waves\":[{{\"nodeSelector\":{{}},{wave}}}]}}"
            )
        };
        let says = format!(
            "hold InvalidField ~ spec.mutex.first: found it beside MutexBinding x spec.waves[0].{what}"
        );
        check(&of("gate:x spec {\"mutex\":{\"first\":{}}}"), &says);
    }
}

/// Who is against a node before its turn is against those of its wave only.
#[test]
fn a_rule_of_phase_admit_is_asked_about_the_nodes_of_its_wave_only() {
    let text = run("rule smoke Admit wasm
         node a worker 4.16.0 label:canary=yes
         node b worker 4.16.0");
    let asked = decision(&Cluster::parse(&text)).questions;
    let asked = format!("{asked:?}");
    assert!(
        asked.contains("smoke") && asked.contains("node: \"a\""),
        "{asked}"
    );
    assert!(!asked.contains("node: \"b\""), "{asked}");
}

/// What somebody approved had these rules: an edit of one makes the approval one of something else.
#[test]
fn an_approval_is_for_the_rules_of_waves_too() {
    let digest = |rule: &str| {
        let text = run(&format!("{rule}\n node a worker 4.16.0 label:canary=yes"));
        let text = text.replace(
            "\"name\":\"canary\",\"nodeSelector\"",
            "\"name\":\"canary\",\"approval\":\"Manual\",\"nodeSelector\"",
        );
        let cluster = Cluster::parse(&text);
        check_cluster(&cluster, "hold WaitsForApproval\n > nothing");
        let waits = decision(&cluster).report.approval.expect("it waits");
        waits.digest
    };
    let first = digest("rule smoke Pre");
    assert_eq!(first, digest("rule smoke Pre"));
    assert_ne!(first, digest("rule smoke Pre generation:2"));
}
