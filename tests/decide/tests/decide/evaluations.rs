//! How wasm rules are asked, how long they may make a node wait, and what comes of no verdict.

use crate::words::check;

/// Node a has its turn and rule `disk` is a component; `more` says how far it is.
fn in_pre(rule: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule disk {rule}
         run finalizer {{}}
         change a PreRules pin:4.17.0
         {more}"
    )
}

#[test]
fn a_rule_is_asked_once_and_then_waited_for() {
    check(
        &in_pre("Pre wasm", ""),
        "node a PreRules RuleStarting
         ? evaluate disk/Pre/1 of a
         > nothing",
    );
    check(
        &in_pre(
            "Pre wasm timeout:100",
            "evaluation disk/Pre/1 of a under-way first:-10",
        ),
        "node a PreRules RuleRunning
         not ?
         wake 150
         > nothing",
    );
}

#[test]
fn its_word_is_written_down() {
    check(
        &in_pre("Pre wasm", "evaluation disk/Pre/1 of a Pass:Fine"),
        "> journal a verdict disk/Pre/1 Pass PreRelease",
    );
    check(
        &in_pre("Pre wasm", "evaluation disk/Pre/1 of a Block:Broken"),
        "> journal a verdict disk/Pre/1 Failure",
    );
    // A Job of that name is none of its business.
    check(
        &in_pre("Pre wasm", "job disk/Pre/1 of a Complete read"),
        "? evaluate disk/Pre/1 of a\n > nothing",
    );
}

#[test]
fn a_pass_that_could_not_be_written_in_time_is_asked_again() {
    let said = |said: i64| {
        in_pre(
            "Pre wasm",
            &format!("evaluation disk/Pre/1 of a Pass:Fine said:{said}"),
        )
    };
    check(&said(-60), "> journal a verdict disk/Pre/1 Pass PreRelease");
    check(&said(-61), "? evaluate disk/Pre/1 of a\n > nothing");
}

#[test]
fn a_wait_shows_the_rules_own_reason_and_is_asked_again_in_time() {
    let wait = |wait: &str| in_pre("Pre wasm", &format!("evaluation disk/Pre/1 of a Wait:{wait}"));
    check(
        &wait("DiskFull/30 said:-10"),
        "node a PreRules RuleWaits ~ DiskFull: in its own words
         not ?
         wake 20
         > nothing",
    );
    check(
        &wait("DiskFull/30 said:-30"),
        "? evaluate disk/Pre/1 of a\n > nothing",
    );
    // What was said stands while it is asked again.
    check(
        &wait("DiskFull/30 said:-30 under-way"),
        "node a PreRules RuleWaits ~ DiskFull\n not ?\n > nothing",
    );
    // 5 s to 1 h.
    check(&wait("DiskFull/0"), "wake 5");
    check(
        &wait("DiskFull/90000 first:0")
            .replace("Pre wasm", "Pre wasm timeout:9000")
            .replace("4.16.0 turn", "4.16.0 turn renewed:1800"),
        "wake 3600",
    );
}

#[test]
fn a_wait_is_a_failure_once_its_time_is_over() {
    let at = |first: i64, said: i64| {
        in_pre(
            "Pre wasm timeout:100",
            &format!("evaluation disk/Pre/1 of a Wait:DiskFull/3600 first:{first} said:{said}"),
        )
    };
    // It is asked a last time when its time is over, and not judged by what it said long before.
    check(&at(-99, -50), "wake 1\n not ?\n > nothing");
    check(&at(-100, -50), "? evaluate disk/Pre/1 of a\n > nothing");
    check(&at(-100, 0), "> journal a verdict disk/Pre/1 Failure");
    check(
        &in_pre(
            "Pre wasm timeout:100",
            "evaluation disk/Pre/1 of a Wait:DiskFull/30 first:-160 said:-60 under-way",
        ),
        "> journal a verdict disk/Pre/1 Failure",
    );
}

#[test]
fn a_timeout_counts_from_the_first_question_whoever_asked_it() {
    let rule = "Pre wasm timeout:100";
    let new = |said: &str| in_pre(rule, &format!("evaluation disk/Pre/1 of a {said} new"));
    check(
        &new("Wait:DiskFull/30 first:0"),
        "node a PreRules RuleWaits\n > journal a waits disk/Pre/1",
    );
    check(&new("Trap:oops first:0"), "> journal a waits disk/Pre/1");
    // Nobody reads a note of a rule that says no more.
    check(
        &new("Wait:DiskFull/30 first:-100 said:0"),
        "> journal a verdict disk/Pre/1 Failure",
    );
    let later = |text: &str| in_pre(rule, &format!("evaluation disk/Pre/1 of a {text}"));
    // The leader of before asked it: this one asks once, and then time is up.
    check(
        &later("forgotten noted:-200"),
        "? evaluate disk/Pre/1 of a\n > nothing",
    );
    check(
        &later("Wait:DiskFull/30 first:0 noted:-100"),
        "> journal a verdict disk/Pre/1 Failure",
    );
    check(
        &later("Wait:DiskFull/3600 first:0 noted:-60"),
        "wake 40\n not ?\n > nothing",
    );
    check(
        &later("Pass:Fine first:0 noted:-200"),
        "> journal a verdict disk/Pre/1 Pass PreRelease",
    );
    // What was noted of another attempt of the node is nothing to this one.
    check(
        &later("Wait:DiskFull/30 first:0 noted:-200 round:2"),
        "? evaluate disk/Pre/1 of a",
    );
    // Who mended the rule, or made it anew, has the whole time.
    for edited in ["of-generation:2", "of-uid:old-"] {
        check(
            &later(&format!("Wait:DiskFull/30 first:0 noted:-200 {edited}")),
            "node a PreRules RuleWaits\n > journal a waits disk/Pre/1",
        );
    }
    // Its last answer is waited for, however late it was asked.
    check(
        &later("under-way first:0 noted:-200"),
        "node a PreRules RuleRunning\n wake 60\n > nothing",
    );
    // A Pass that nobody could go on made nobody wait.
    check(
        &later("Wait:DiskFull/30 first:0 noted:-200 anew"),
        "node a PreRules RuleWaits\n > journal a waits disk/Pre/1",
    );
    check(
        &later("Wait:DiskFull/30 first:0 noted:0 anew"),
        "wake 30\n not ?\n > nothing",
    );
    let of_run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule disk PreRun wasm timeout:100
         run finalizer {}
         evaluation disk/PreRun/1 of run";
    check(
        &format!("{of_run} Wait:Busy/30 first:0 new"),
        "hold RuleWaits ~ Busy\n > record waits disk/PreRun/1",
    );
    check(
        &format!("{of_run} Wait:Busy/30 first:0 noted:-100"),
        "> record disk/PreRun/1 Failure",
    );
}

#[test]
fn no_verdict_is_a_wait_with_growing_pauses_and_never_a_pass() {
    let trap = |failures: i64, said: i64| {
        in_pre(
            "Pre wasm",
            &format!("evaluation disk/Pre/1 of a Trap:oops failures:{failures} said:{said}"),
        )
    };
    check(&trap(1, 0), "node a PreRules Trap ~ oops\n wake 5\n > nothing");
    check(&trap(2, 0), "wake 10");
    check(&trap(3, 0), "wake 20");
    check(&trap(7, 0), "wake 300");
    check(&trap(4_000_000, 0), "wake 300");
    check(&trap(2, -10), "? evaluate disk/Pre/1 of a\n > nothing");
    check(
        &in_pre(
            "Pre wasm timeout:100",
            "evaluation disk/Pre/1 of a Trap:oops first:-100",
        ),
        "> journal a verdict disk/Pre/1 Failure",
    );
}

#[test]
fn failures_are_retried_and_then_the_policy_decides_as_for_jobs() {
    let failed = |rule: &str, verdicts: &str, more: &str| {
        in_pre(rule, more).replace("pin:4.17.0", &format!("pin:4.17.0 {verdicts}"))
    };
    let once = "verdict:disk/Pre/1/Failure";
    // The verdict of the first attempt is not that of the second.
    check(
        &failed("Pre wasm retries:1", once, "evaluation disk/Pre/1 of a Pass:Fine"),
        "? evaluate disk/Pre/2 of a\n > nothing",
    );
    check(
        &failed("Pre wasm retries:1", once, "evaluation disk/Pre/2 of a Pass:Fine"),
        "> journal a verdict disk/Pre/2 Pass PreRelease",
    );
    check(&failed("Pre wasm", once, ""), "> journal a Held RuleFailed");
    check(
        &failed("Pre wasm policy:Abort", once, ""),
        "> journal a Failed RuleFailed",
    );
    check(
        &failed("Pre wasm policy:Skip", once, ""),
        "> journal a Skipped SkippedByPolicy",
    );
}

#[test]
fn what_a_rule_of_before_an_edit_said_does_not_count() {
    let edited = |generation: i64| {
        in_pre(
            "Pre wasm",
            &format!("evaluation disk/Pre/1 of a Pass:Fine generation:{generation}"),
        )
    };
    check(&edited(0), "? evaluate disk/Pre/1 of a\n > nothing");
    check(&edited(1), "> journal a verdict disk/Pre/1 Pass PreRelease");
}

#[test]
fn nothing_is_asked_while_nothing_may_begin() {
    check(
        &in_pre("Pre wasm", "").replace("run finalizer", "run suspended finalizer"),
        "node a PreRules Suspended\n not ?\n > journal a closed",
    );
    check(
        &in_pre("Pre wasm", "evaluation disk/Pre/1 of a Pass:Fine")
            .replace("run finalizer", "run suspended finalizer"),
        "> journal a verdict disk/Pre/1 Pass PreRelease",
    );
}

#[test]
fn rules_of_the_run_and_after_a_failure_are_asked_too() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule disk PreRun wasm
         run finalizer {}",
        "hold RuleStarting\n ? evaluate disk/PreRun/1 of run\n > nothing",
    );
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule disk PreRun wasm
         run finalizer {}
         evaluation disk/PreRun/1 of run Wait:Busy/30",
        "hold RuleWaits ~ Busy\n wake 30\n > nothing",
    );
    check(
        &in_pre("OnFailure wasm", "rule backup Pre policy:Abort")
            .replace("pin:4.17.0", "pin:4.17.0 verdict:backup/Pre/1/Failure"),
        "? evaluate disk/OnFailure/1 of a\n > nothing",
    );
}

#[test]
fn a_pass_that_is_old_at_the_release_is_asked_for_once_more() {
    let passed = |rule: &str, verdicts: &str, more: &str| {
        in_pre(rule, more).replace(
            "a PreRules pin:4.17.0",
            &format!("a PreRelease pin:4.17.0 {verdicts}"),
        )
    };
    check(
        &passed("Pre wasm", "verdict:disk/Pre/1/Pass~60", ""),
        "not ?\n > release a rendered-worker-4170",
    );
    check(
        &passed("Pre wasm", "verdict:disk/Pre/1/Pass~61", ""),
        "? evaluate disk/Pre/2 of a\n > nothing",
    );
    check(
        &passed("PreRelease wasm", "verdict:disk/PreRelease/1/Pass~61", ""),
        "? evaluate disk/PreRelease/2 of a\n > nothing",
    );
    // What it says now counts, not what it said.
    let again = "evaluation disk/Pre/2 of a";
    check(
        &passed(
            "Pre wasm",
            "verdict:disk/Pre/1/Pass~61",
            &format!("{again} Wait:DiskFull/30"),
        ),
        "node a PreRelease RuleWaits ~ DiskFull\n > nothing",
    );
    check(
        &passed(
            "Pre wasm",
            "verdict:disk/Pre/1/Pass~61",
            &format!("{again} Block:Broken"),
        ),
        "> journal a verdict disk/Pre/2 Failure",
    );
    check(
        &passed(
            "Pre wasm",
            "verdict:disk/Pre/1/Pass~61 verdict:disk/Pre/2/Failure",
            "",
        ),
        "node a Held RuleFailed",
    );
    check(
        &passed(
            "Pre wasm",
            "verdict:disk/Pre/1/Pass~61 verdict:disk/Pre/2/Pass",
            "",
        ),
        "not ?\n > release a rendered-worker-4170",
    );
}

#[test]
fn the_pass_of_a_job_grows_old_too_and_with_every_edit_of_its_rule() {
    let passed = |rule: &str, verdicts: &str, more: &str| {
        in_pre(rule, more).replace(
            "a PreRules pin:4.17.0",
            &format!("a PreRelease pin:4.17.0 {verdicts}"),
        )
    };
    let lets_go = "not ?\n > release a rendered-worker-4170";
    let asks = |phase: &str| format!("node a PreRelease RuleStarting\n > job disk/{phase}/2 of a");
    check(&passed("Pre", "verdict:disk/Pre/1/Pass~600", ""), lets_go);
    check(&passed("Pre", "verdict:disk/Pre/1/Pass~601", ""), &asks("Pre"));
    check(
        &passed("Pre pass:900", "verdict:disk/Pre/1/Pass~900", ""),
        lets_go,
    );
    check(
        &passed("Pre pass:60", "verdict:disk/Pre/1/Pass~61", ""),
        &asks("Pre"),
    );
    check(
        &passed("Pre wasm pass:300", "verdict:disk/Pre/1/Pass~300", ""),
        lets_go,
    );
    // It passed a moment ago, and the rule says something else by now.
    check(
        &passed("Pre generation:2", "verdict:disk/Pre/1/Pass", ""),
        &asks("Pre"),
    );
    check(
        &passed("Pre generation:2", "verdict:disk/Pre/1/Pass^2", ""),
        lets_go,
    );
    check(
        &passed("PreRelease", "verdict:disk/PreRelease/1/Pass^0", ""),
        &asks("PreRelease"),
    );
    // The Job ended long before numo came to write it down.
    check(
        &passed(
            "Pre",
            "verdict:disk/Pre/1/Pass~601",
            "job disk/Pre/2 of a Complete read created:-9000 ended:-700",
        ),
        "> journal a verdict disk/Pre/2 Pass",
    );
    // A Job of before the edit is no Pass of the rule as it is.
    check(
        &passed(
            "Pre generation:2",
            "verdict:disk/Pre/1/Pass^1 verdict:disk/Pre/2/Pass^1",
            "",
        ),
        "> job disk/Pre/3 of a",
    );
}

#[test]
fn jobs_that_take_longer_than_a_pass_counts_run_beside_one_another() {
    let with = |verdicts: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule disk Pre
             rule net Pre
             change a PreRelease pin:4.17.0 {verdicts}
             {more}"
        )
    };
    // The first took 1,200 s: the second, which has just passed, would be too old by then.
    let both = "verdict:disk/Pre/1/Pass~1300~1200 verdict:net/Pre/1/Pass~10~1200";
    check(&with(both, ""), "> job disk/Pre/2 of a");
    check(&with(both, "job disk/Pre/2 of a running"), "> job net/Pre/2 of a");
    // Nobody's Pass is written down while another one runs.
    check(
        &with(
            both,
            "job disk/Pre/2 of a Complete read
             job net/Pre/2 of a running",
        ),
        "node a PreRelease RuleRunning\n > nothing",
    );
    check(
        &with(
            both,
            "job disk/Pre/2 of a Complete read
             job net/Pre/2 of a Complete read",
        ),
        "> journal a verdict disk/Pre/2 Pass",
    );
    check(
        &with("verdict:disk/Pre/2/Pass~20 verdict:net/Pre/1/Pass~10", ""),
        "> release a rendered-worker-4170",
    );
}

#[test]
fn what_a_rule_said_of_its_wait_is_told_when_it_is_asked_again() {
    check(
        &in_pre("Pre wasm", "evaluation disk/Pre/1 of a Wait:DiskFull/30 said:-30"),
        "? evaluate disk/Pre/1 of a\n remembers Wait:DiskFull\n > nothing",
    );
    // No verdict in between takes nothing away.
    check(
        &in_pre(
            "Pre wasm",
            "evaluation disk/Pre/1 of a Trap:oops waited:DiskFull said:-30",
        ),
        "? evaluate disk/Pre/1 of a\n remembers Wait:DiskFull\n > nothing",
    );
    // What an earlier edition of the rule said is not this one's.
    check(
        &in_pre(
            "Pre wasm",
            "evaluation disk/Pre/1 of a Wait:DiskFull/30 said:-30 generation:2",
        ),
        "? evaluate disk/Pre/1 of a\n not remembers\n > nothing",
    );
}

#[test]
fn a_rule_that_waits_is_asked_at_once_when_what_it_read_changes() {
    let wait = |said: &str| {
        in_pre(
            "Pre wasm",
            &format!("evaluation disk/Pre/1 of a Wait:DiskFull/3600 {said}"),
        )
    };
    check(&wait("said:0 stirred"), "not ?\n wake 1\n > nothing");
    check(&wait("said:-1 stirred"), "? evaluate disk/Pre/1 of a\n > nothing");
    check(&wait("said:-1"), "not ?\n > nothing");
    // What changes all the time is not asked about all the time.
    check(&wait("said:-3 stirred:3"), "not ?\n wake 1\n > nothing");
    check(
        &wait("said:-4 stirred:3"),
        "? evaluate disk/Pre/1 of a\n > nothing",
    );
    check(&wait("said:-31 stirred:99"), "not ?\n wake 1\n > nothing");
}

#[test]
fn rules_that_are_asked_once_more_before_the_release_do_not_wait_for_each_other() {
    let two = |more: &str| {
        in_pre("Pre wasm", &format!("rule memory Pre wasm\n {more}")).replace(
            "a PreRules pin:4.17.0",
            "a PreRelease pin:4.17.0 verdict:disk/Pre/1/Pass~61 verdict:memory/Pre/1/Pass~61",
        )
    };
    let waits = "evaluation disk/Pre/2 of a Wait:Holding/30 said:-1";
    check(&two(waits), "? evaluate memory/Pre/2 of a\n > nothing");
    // What passes meanwhile is written down only when all pass: it would be old by then.
    check(
        &two(&format!(
            "{waits}\n evaluation memory/Pre/2 of a Pass:Fine said:-1"
        )),
        "node a PreRelease RuleWaits ~ Holding\n not ?\n > nothing",
    );
    check(
        &two(&format!(
            "{waits}\n evaluation memory/Pre/2 of a Pass:Fine said:-61"
        )),
        "? evaluate memory/Pre/2 of a\n > nothing",
    );
    check(
        &two("evaluation disk/Pre/2 of a Pass:Fine said:-1\n evaluation memory/Pre/2 of a Pass:Fine said:-1"),
        "> journal a verdict disk/Pre/2 Pass",
    );
    check(
        &two(&format!(
            "{waits}\n evaluation memory/Pre/2 of a Block:Broken said:-1"
        )),
        "> journal a verdict memory/Pre/2 Failure",
    );
}

/// Three nodes before their turn, of which one may fly; `more` says what rule `disk` thinks of them.
fn before_a_turn(rule: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0
         node c worker 4.16.0
         rule disk {rule}
         run finalizer {{}}
         {more}"
    )
}

#[test]
fn a_node_is_asked_about_before_its_turn_and_keeps_its_place_meanwhile() {
    check(
        &before_a_turn("Admit wasm", ""),
        "node a Selected RuleStarting
         node b Selected WaitingForTurn
         ? evaluate disk/Admit/1 of a
         > nothing",
    );
    check(
        &before_a_turn("Admit,Pre wasm", "evaluation disk/Admit/1 of a under-way"),
        "node a Selected RuleRunning
         node b Selected WaitingForTurn
         not ?
         > nothing",
    );
    check(
        &before_a_turn("Admit wasm", "evaluation disk/Admit/1 of a Pass:Fine"),
        "> admit a",
    );
    // What it said is too old to begin on.
    check(
        &before_a_turn("Admit wasm", "evaluation disk/Admit/1 of a Pass:Fine said:-61"),
        "? evaluate disk/Admit/1 of a\n > nothing",
    );
    // It was another rule then.
    check(
        &before_a_turn(
            "Admit wasm",
            "evaluation disk/Admit/1 of a Pass:Fine generation:2",
        ),
        "? evaluate disk/Admit/1 of a\n > nothing",
    );
}

#[test]
fn a_node_that_waits_before_its_turn_lets_the_next_go_first() {
    check(
        &before_a_turn(
            "Admit wasm",
            "evaluation disk/Admit/1 of a Wait:DiskFull/30 said:-10
             evaluation disk/Admit/1 of b Pass:Fine",
        ),
        "node a Selected RuleWaits ~ DiskFull: in its own words
         node c Selected WaitingForTurn
         not ?
         wake 20
         > admit b",
    );
    for word in ["Block:Broken", "Trap:oops"] {
        check(
            &before_a_turn(
                "Admit wasm retries:0",
                &format!(
                    "evaluation disk/Admit/1 of a {word}
                     evaluation disk/Admit/1 of b Pass:Fine"
                ),
            ),
            "not ?\n > admit b",
        );
    }
    check(
        &before_a_turn("Admit wasm", "evaluation disk/Admit/1 of a Block:Broken said:-10"),
        "node a Selected RuleWaits ~ it blocks: Broken\n wake 290",
    );
    // It is asked again in its time, or when what it read has changed, without a place meanwhile.
    for again in ["said:-30", "said:-1 stirred"] {
        check(
            &before_a_turn(
                "Admit wasm",
                &format!(
                    "evaluation disk/Admit/1 of a Wait:DiskFull/30 {again}
                     evaluation disk/Admit/1 of b Pass:Fine"
                ),
            ),
            "node a Selected RuleWaits
             ? evaluate disk/Admit/1 of a
             > admit b",
        );
    }
    // A wait has no end here, and is no failure.
    check(
        &before_a_turn(
            "Admit wasm timeout:100",
            "evaluation disk/Admit/1 of a Wait:DiskFull/30 said:-10 first:-9000",
        ),
        "node a Selected RuleWaits
         ? evaluate disk/Admit/1 of b
         > nothing",
    );
}

/// Fifty nodes, n10 to n59, of which forty may fly; `words` is what rule `disk` thinks of each of them.
fn fifty(words: &str, more: &str) -> String {
    let nodes: Vec<String> = (10..60)
        .map(|number| format!("node n{number} worker 4.16.0"))
        .collect();
    let said: Vec<String> = (10..60)
        .filter(|_| !words.is_empty())
        .map(|number| format!("evaluation disk/Admit/1 of n{number} {words}"))
        .collect();
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         {}
         rule disk Admit wasm
         run finalizer {{maxUnavailable: 40}}
         {}
         {more}",
        nodes.join("\n"),
        said.join("\n")
    )
}

#[test]
fn a_rule_is_not_asked_about_all_nodes_in_one_moment() {
    check(
        &fifty("", ""),
        "node n41 Selected RuleStarting
         node n42 Selected WaitingForTurn ~ rules of phase Admit are being evaluated for 32 nodes
         ? evaluate disk/Admit/1 of n41
         > nothing",
    );
    // Those that wait for their time are no crowd: who comes after them goes.
    check(
        &fifty(
            "Wait:Full/300 said:-30",
            "evaluation disk/Admit/1 of n59 Pass:Fine",
        ),
        "node n10 Selected RuleWaits
         node n58 Selected RuleWaits
         not ?
         wake 270
         > admit n59",
    );
    check(
        &fifty(
            "Wait:Full/30 said:-30",
            "evaluation disk/Admit/1 of n59 Pass:Fine",
        ),
        "node n42 Selected RuleWaits ~ Full
         ? evaluate disk/Admit/1 of n41
         > admit n59",
    );
}

#[test]
fn several_rules_before_a_turn_are_asked_beside_one_another() {
    let two = |more: &str| before_a_turn("Admit wasm\n rule maint Admit wasm", more);
    check(
        &two(""),
        "? evaluate disk/Admit/1 of a
         ? evaluate maint/Admit/1 of a
         > nothing",
    );
    check(
        &two("evaluation disk/Admit/1 of a Pass:Fine said:-61
             evaluation maint/Admit/1 of a Pass:Fine said:-61"),
        "? evaluate disk/Admit/1 of a
         ? evaluate maint/Admit/1 of a
         > nothing",
    );
    // While one is against the node the other's word may grow old: nobody is asked, and no place is kept.
    check(
        &two("evaluation disk/Admit/1 of a Pass:Fine said:-61
             evaluation maint/Admit/1 of a Wait:Maintenance/3600 said:-61
             evaluation disk/Admit/1 of b Pass:Fine
             evaluation maint/Admit/1 of b Pass:Fine"),
        "node a Selected RuleWaits ~ Maintenance
         not ?
         > admit b",
    );
}

#[test]
fn what_a_rule_had_against_a_node_is_known_from_the_status() {
    check(
        &format!(
            "{}\n status 4.17.0 not-admitted:a/RuleWaits",
            before_a_turn("Admit wasm", "evaluation disk/Admit/1 of b Pass:Fine")
        ),
        "node a Selected RuleWaits ~ in its own words
         ? evaluate disk/Admit/1 of a
         > admit b",
    );
}

#[test]
fn a_job_is_not_started_before_a_turn() {
    check(&before_a_turn("Admit,Pre", ""), "not ?\n > admit a");
}

/// A tenant whose workload does not become ready makes a node wait for a short time, and stops no run. Who wants that it
/// does says so.
#[test]
fn workloads_that_are_not_ready_in_time_stop_a_run_only_if_asked() {
    let released = |spec: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0 turn
             run finalizer checks-workloads {{{spec}}}
             change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules verdict:workloads-ready/Pre/1/Pass
             evaluation workloads-ready/Post/1 of a Wait:WorkloadsNotReady/10 first:0 {more}"
        )
    };
    check(
        &released("", "noted:-590 said:0"),
        "node a PostRules RuleWaits\n > nothing",
    );
    check(
        &released("", "noted:-600"),
        "> journal a verdict workloads-ready/Post/1 ContinuedAfterFailure Done",
    );
    let spec = "awaitedWorkloads: {timeoutSeconds: 60, failurePolicy: Hold}";
    check(
        &released(spec, "noted:-60"),
        "> journal a verdict workloads-ready/Post/1 Failure",
    );
    check(
        &released(spec, "noted:-59 said:0"),
        "node a PostRules RuleWaits\n > nothing",
    );
    check(
        &format!(
            "{}\n change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules \
             verdict:workloads-ready/Pre/1/Pass verdict:workloads-ready/Post/1/Failure",
            released(spec, "noted:-60")
        ),
        "> journal a Held RuleFailed",
    );
    check(&released("awaitWorkloads: false", "noted:-1"), "> journal a Done");
}

/// One answer that is no verdict is asked for again; a rule that gives none each time keeps its nodes out for ever.
#[test]
fn a_rule_of_phase_admit_that_always_fails_needs_a_person() {
    let of = |failures: u32| {
        before_a_turn(
            "Admit wasm",
            &format!("evaluation disk/Admit/1 of a Trap:oops failures:{failures}"),
        )
    };
    check(&of(1), "node a Selected Trap\n ends a RuleAuthor");
    check(&of(3), "node a Selected Trap\n ends a ClusterAdmin");
}

/// No time runs out before a node's turn: a rule that is against it for ten minutes is not waited for in silence.
#[test]
fn a_rule_of_phase_admit_that_is_against_a_node_for_long_needs_a_person() {
    let of = |answer: &str| before_a_turn("Admit wasm", &format!("evaluation disk/Admit/1 of a {answer}"));
    for answer in ["Wait=Full/60", "Block=Full", "Trap:oops"] {
        let reason = if answer == "Trap:oops" {
            "Trap"
        } else {
            "RuleWaits"
        };
        let answer = answer.replace('=', ":");
        let of = |first: i64| of(&format!("{answer} first:{first}"));
        check(
            &of(-599),
            &format!("node a Selected {reason}\n ends a RuleAuthor"),
        );
        check(
            &of(-600),
            &format!("node a Selected {reason} ~ it has been so since\n ends a ClusterAdmin"),
        );
    }
}
