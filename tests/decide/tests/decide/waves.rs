//! Waves: which nodes go before which, for both kinds of owner that have several nodes. One table is read for a MutexRunConfig and for a
//! Plan; nodes are begun in the order of their names.

use crate::{
    cluster::{Cluster, at, now},
    words::{check_cluster, decision, decision_at, words},
};
use numo_api::Step;
use numo_core::action::Action;

/// Nodes as `a canary; b done -100; c flies; d held; e skipped; f dead; g old; h left -60`: first the name, then `canary` or `blue` for a label,
/// and how the node stands. `done` was changed in this run, `old` before it; `left` was left out in its turn.
struct Nodes {
    run: String,
    plan: String,
}

fn nodes(text: &str) -> Nodes {
    let (mut run, mut plan) = (String::new(), String::new());
    for node in text.split(';').map(str::trim) {
        let mut of: Vec<&str> = node.split_whitespace().collect();
        let name = of.remove(0);
        let (labels, of): (Vec<&str>, Vec<&str>) = of
            .into_iter()
            .partition(|word| matches!(*word, "canary" | "blue"));
        let labels = labels.into_iter().map(|label| format!("label:{label}=yes"));
        let label = labels.collect::<Vec<_>>().join(" ");
        let stands = of.first().copied().unwrap_or("-");
        let since = of.get(1).copied().unwrap_or("-60");
        let (version, more, journal) = match stands {
            "done" => (
                "4.17.0",
                "",
                format!("change {name} Done pin:4.17.0 since:{since} entries:Admitted,Done"),
            ),
            "old" => ("4.17.0", "", String::new()),
            "flies" => (
                "4.16.0",
                "turn",
                format!("change {name} PreRules pin:4.17.0 since:{since} entries:Admitted,PreRules"),
            ),
            "held" => (
                "4.16.0",
                "turn",
                format!(
                    "change {name} Held reason:RuleFailed pin:4.17.0 since:{since} entries:Admitted,PreRules,Held"
                ),
            ),
            "skipped" => (
                "4.16.0",
                "",
                format!("change {name} Skipped reason:SkippedByPerson"),
            ),
            "left" => (
                "4.16.0",
                "",
                format!(
                    "change {name} Skipped reason:SkippedByPerson since:{since} entries:Admitted,Skipped"
                ),
            ),
            "dead" => ("4.16.0", "NotReady", String::new()),
            _ => ("4.16.0", "", String::new()),
        };
        run += &format!("node {name} worker {version} {more} {label}\n{journal}\n");
        let (more, journal) = match stands {
            "done" => (
                "",
                format!("at {name}\nbegun {name} Done since:{since} entered:Admitted"),
            ),
            "old" => ("", format!("at {name}")),
            "flies" => (
                "",
                format!(
                    "begun {name} Released since:{since} entered:Admitted boot:b1\nkeeps {name} cordoned\nplanjob {name} running"
                ),
            ),
            "held" => (
                "",
                format!(
                    "begun {name} Held reason:JobFailed since:{since} entered:Admitted entered:Released boot:b1\nkeeps {name} cordoned\nplanjob {name} failed exit:1"
                ),
            ),
            "skipped" => ("", format!("begun {name} Skipped reason:SkippedByPerson")),
            "left" => (
                "",
                format!("begun {name} Skipped reason:SkippedByPerson since:{since} entered:Admitted"),
            ),
            "dead" => ("NotReady", String::new()),
            _ => ("", String::new()),
        };
        plan += &format!("node {name} worker v0 {more} {label}\n");
        plan += &format!("later {journal}\n").replace('\n', "\nlater ");
    }
    Nodes { run, plan }
}

pub const CANARY: &str = r#"{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}}}"#;
const BLUE: &str = r#"{"name":"blue","nodeSelector":{"matchLabels":{"blue":"yes"}}}"#;

fn run(waves: &str, text: &str) -> Cluster {
    run_with(&format!("\"waves\":[{waves}]"), text)
}

/// A run with these settings beside those of the tests of waves.
pub fn run_with(settings: &str, text: &str) -> Cluster {
    Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         run {{{settings},\"maxUnavailable\":9,\"failureBudget\":9,\"order\":\"Name\"}} finalizer
         {}",
        nodes(text).run
    ))
}

fn plan(waves: &str, text: &str) -> Cluster {
    plan_with(&format!("\"waves\":[{waves}]"), text)
}

/// A Plan whose MutexBinding has these settings beside those of the tests of waves.
pub fn plan_with(settings: &str, text: &str) -> Cluster {
    let nodes = nodes(text).plan;
    let (later, first): (Vec<&str>, Vec<&str>) = nodes.lines().partition(|line| line.starts_with("later"));
    let later: Vec<&str> = later
        .iter()
        .map(|line| line.trim_start_matches("later "))
        .collect();
    Cluster::parse(&format!(
        "{}
         plan concurrency:9 cordon finalizer
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{settings},\"failureBudget\":9,\"order\":\"Name\"}}
         {}",
        first.join("\n"),
        later.join("\n")
    ))
}

/// The nodes whose turns a decision begins.
pub fn begun(cluster: &Cluster) -> String {
    let actions = decision(cluster).actions;
    let begun = actions.iter().filter_map(|planned| match &planned.action {
        Action::CreateChange { spec, .. } => Some(spec.node_name.as_str()),
        _ => None,
    });
    begun.collect::<Vec<_>>().join(" ")
}

/// For these waves and nodes both owners begin these nodes, and say this.
#[track_caller]
fn check(waves: &str, nodes: &str, begins: &str, says: &str) {
    for cluster in [run(waves, nodes), plan(waves, nodes)] {
        let shown = words(&cluster, &decision(&cluster)).join("\n");
        assert_eq!(begun(&cluster), begins, "{:?}\n{shown}", cluster.owner());
        check_cluster(&cluster, says);
    }
}

#[test]
fn a_wave_begins_when_the_last_is_done() {
    let waves = format!("{CANARY},{BLUE}");
    check(
        &waves,
        "a; b blue; c canary; d canary",
        "c d",
        "node a Selected WaitsForWave: wave 3 of 3 (nodes of no wave) waits for the waves before it, now for wave 1 (canary): c, d are not
         node b Selected WaitsForWave: wave 2 of 3 (blue) begins when wave 1 (canary) is done: c, d are not
         ends a OtherNode
         wave 1 of 3 canary 0/2",
    );
    check(
        &waves,
        "a; b blue; c canary done; d canary flies",
        "",
        "node b Selected WaitsForWave: wave 2 of 3 (blue) begins when wave 1 (canary) is done: d is not
         wave 1 of 3 canary 1/2",
    );
    check(
        &waves,
        "a; b blue; c canary done; d canary done",
        "b",
        "node a Selected WaitsForWave ~ wave 3 of 3 (nodes of no wave) begins when wave 2 (blue) is done: b is not
         wave 2 of 3 blue 0/1",
    );
    check(
        &waves,
        "a; b blue done; c canary done; d canary done",
        "a",
        "wave 3 of 3 - 0/1",
    );
    check(&waves, "a done; b blue done; c canary done", "", "not wave");
    // Up to date before the run is done.
    check(&waves, "a; b blue; c canary old", "b", "wave 2 of 3 blue 0/1");
}

#[test]
fn counts_take_the_next_nodes_in_the_order_of_turns() {
    let waves = r#"{"nodes":1},{"name":"some","nodes":"50%"}"#;
    check(
        waves,
        "a; b; c; d; e",
        "a",
        "node b Selected WaitsForWave: wave 2 of 3 (some) begins when wave 1 is done: a is not
         node c Selected WaitsForWave ~ wave 2 of 3 (some)
         node d Selected WaitsForWave ~ wave 3 of 3 (nodes of no wave)
         wave 1 of 3 - 0/1",
    );
    check(waves, "a done; b; c; d; e", "b c", "wave 2 of 3 some 0/2");
    check(waves, "a done; b done; c done; d; e", "d e", "wave 3 of 3 - 0/2");
    // Of what is left: one at least, and rounded down.
    check(r#"{"nodes":"1%"}"#, "a; b; c", "a", "wave 1 of 2 - 0/1");
    check(r#"{"nodes":"100%"}"#, "a; b; c", "a b c", "wave 1 of 1 - 0/3");
    // Who needs no change, or was left out, is no canary.
    check(waves, "a old; b skipped; c; d; e", "c", "wave 1 of 3 - 0/1");
    // More than there are.
    check(
        r#"{"nodes":9},{"nodes":9}"#,
        "a; b",
        "a b",
        "wave 1 of 2 - 0/2\n note wave 2 has no node, and nobody waits for it",
    );
}

#[test]
fn a_counted_wave_keeps_its_nodes_whatever_waits_in_another_order() {
    let waves = r#"{"nodes":2},{"nodes":2}"#;
    // c and d went first, as a and b came later, or were not Ready.
    check(
        waves,
        "a; b; c done; d flies",
        "",
        "node a Selected WaitsForWave\n wave 1 of 2 - 1/2",
    );
    check(waves, "a; b; c done -90; d done", "a b", "wave 2 of 2 - 0/2");
    // A restart in the middle of the second wave: those that began it are of it.
    check(
        waves,
        "a; b; c done -90; d flies -30; e done -80",
        "a",
        "node b Selected WaitsForWave ~ wave 3 of 3 (nodes of no wave) begins when wave 2 is done
         wave 2 of 3 - 0/2",
    );
    // The first wave is short of a node that failed in its turn and was left out: its place is not filled again.
    let mut cluster = run(waves, "a; b; c done -90; d flies");
    let status = |change: &mut numo_core::observed::ChangeView| {
        change.status.step = Some(numo_api::Step::Skipped);
        change.status.reason = Some("SkippedByPerson".to_owned());
    };
    let mut changes = cluster.observed.changes.values_mut();
    changes
        .find(|change| change.spec.node_name == "d")
        .map(status)
        .expect("d has its turn");
    assert_eq!(begun(&cluster), "a b");
}

#[test]
fn a_wave_that_grows_is_repeated_until_no_node_is_left() {
    let doubling = r#"{"nodes":1,"growth":2}"#;
    check(
        doubling,
        "a; b; c; d; e; f",
        "a",
        "wave 1 of 3 - 0/1
         node b Selected WaitsForWave: wave 2 of 3 begins when wave 1 is done: a is not
         node c Selected WaitsForWave ~ wave 2 of 3
         node d Selected WaitsForWave ~ wave 3 of 3",
    );
    check(doubling, "a done; b; c; d; e; f", "b c", "wave 2 of 3 - 0/2");
    check(
        doubling,
        "a done -90; b done; c done; d; e; f",
        "d e f",
        "wave 3 of 3 - 0/3",
    );
    check(
        r#"{"nodes":"25%","growth":1}"#,
        "a; b; c; d",
        "a",
        "wave 1 of 4 - 0/1",
    );
    // The others are left after a canary.
    check(
        &format!("{CANARY},{doubling}"),
        "a; b; c; d canary done",
        "a",
        "wave 2 of 3 - 0/1\n node b Selected WaitsForWave ~ wave 3 of 3",
    );
}

/// 1 %, 5 %, 25 %, and all that is left.
#[test]
fn a_wave_of_a_percentage_grows_too() {
    let waves = r#"{"nodes":"1%","growth":5}"#;
    for (done, wave) in [
        (0, "wave 1 of 4 - 0/1"),
        (1, "wave 2 of 4 - 0/5"),
        (6, "wave 3 of 4 - 0/25"),
        (31, "wave 4 of 4 - 0/69"),
        (40, "wave 4 of 4 - 9/69"),
    ] {
        let stands = |at: usize| if at < done { " done -90" } else { "" };
        let nodes: Vec<String> = (0..100).map(|at| format!("n{at:02}{}", stands(at))).collect();
        for cluster in [run(waves, &nodes.join("; ")), plan(waves, &nodes.join("; "))] {
            check_cluster(&cluster, wave);
        }
    }
}

/// A dead node that is left out is not waited for, and does not count as done.
#[test]
fn a_wave_goes_on_without_a_dead_node_that_is_left_out() {
    let of = |dark: i64| {
        Cluster::parse(&format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0 NotReady dark:{dark} label:canary=yes
             run {{\"waves\":[{CANARY}],\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":600}} finalizer"
        ))
    };
    check_cluster(
        &of(599),
        "node a Selected WaitsForWave ~ b is not\n node b Selected NodeNotReady\n > nothing",
    );
    check_cluster(
        &of(600),
        "node b Skipped LeftOutNotReady\n wave 2 of 2 - 0/1\n > admit a",
    );
}

#[test]
fn the_next_wave_waits_until_the_last_has_soaked() {
    let soaks = CANARY.replace("\"canary\",", "\"canary\",\"soakSeconds\":300,");
    check(
        &soaks,
        "a; b canary done -100; c canary done -200",
        "",
        "node a Selected WaitsForWave ~ wave 2 of 2 (nodes of no wave) waits for wave 1 (canary), which is done and soaks for 300 s
         hold WaitsForWave
         ends a Numo
         wave 1 of 2 canary 2/2 soaks 200
         wake 200",
    );
    check(&soaks, "a; b canary done -300", "a", "hold -\n wave 2 of 2 - 0/1");
    // Nobody comes after the last.
    check(&soaks, "b canary done -1", "", "not wave");
    // Nothing was changed: nothing is watched.
    check(&soaks, "a; b canary old", "a", "hold -");
}

#[test]
fn a_dead_node_holds_the_waves_after_it_until_a_person_leaves_it_out() {
    check(
        CANARY,
        "a; b canary dead",
        "",
        "node b Selected NodeNotReady
         node a Selected WaitsForWave ~ b is not
         ends a ClusterAdmin
         stalled b NodeNotReady",
    );
    check(CANARY, "a; b canary skipped", "a", "wave 2 of 2 - 0/1");
    // The wave goes on by another node.
    check(CANARY, "a; b canary dead; c canary", "c", "ends a OtherNode");
}

#[test]
fn failures_of_a_wave_stop_what_follows() {
    let of = |budget: &str| CANARY.replace("\"canary\",", &format!("\"canary\",\"failureBudget\":{budget},"));
    // 0 counts as 1, as everywhere: one that stops at none could never begin.
    for budget in ["1", "0"] {
        check(
            &of(budget),
            "a; b canary held; c canary",
            "",
            "hold FailureBudgetSpent ~ Stopped after 1 failed node of wave 1 (canary)
             node c Selected FailureBudgetSpent
             node a Selected FailureBudgetSpent",
        );
    }
    check(&of("0"), "a; b canary; c canary", "b c", "hold -");
    check(
        &of("2"),
        "a; b canary held; c canary",
        "c",
        "hold -\n node a Selected WaitsForWave",
    );
    check(&of("\"100%\""), "a; b canary held; c canary", "c", "hold -");
    // That of another wave counts for itself.
    let waves = format!(
        "{CANARY},{}",
        BLUE.replace("\"blue\",", "\"blue\",\"failureBudget\":1,")
    );
    check(&waves, "a; b canary held; c canary; d blue", "c", "hold -");
}

#[test]
fn a_wave_has_a_limit_of_its_own() {
    let waves = r#"{"name":"two","nodes":4,"maxUnavailable":"50%"}"#;
    check(
        waves,
        "a; b; c; d; e",
        "a b",
        "node c Selected WaitingForTurn ~ waves[0].maxUnavailable allows 2: a, b
         node e Selected WaitsForWave",
    );
    check(
        waves,
        "a flies; b; c; d; e",
        "b",
        "node c Selected WaitingForTurn",
    );
    check(waves, "a done; b done; c done; d done; e; f; g", "e f g", "");
}

#[test]
fn a_wave_of_zero_begins_no_node_and_says_the_field_and_who_raises_it() {
    let zero = "which lets no node of the wave begin; whoever owns the object raises it with";
    for limit in ["0", "\"0%\""] {
        let waves = format!(r#"{{"nodes":2,"maxUnavailable":{limit}}}"#);
        check(
            &waves,
            "a; b; c",
            "",
            &format!(
                "node a Selected MaxUnavailableZero ~ spec.waves[0].maxUnavailable is 0, {zero}
                 ends a ClusterAdmin
                 node c Selected WaitsForWave"
            ),
        );
        check_cluster(
            &run(&waves, "a; b; c"),
            &format!(
                "node b Selected MaxUnavailableZero ~ MutexRunConfig numo/run spec.waves[0].maxUnavailable is 0, {zero} `kubectl -n numo edit mutexrunconfig run`"
            ),
        );
        check_cluster(
            &plan(&waves, "a; b; c"),
            &format!(
                "node b Selected MaxUnavailableZero ~ MutexBinding x spec.waves[0].maxUnavailable is 0, {zero} `kubectl edit mutexbinding x`"
            ),
        );
    }
    // The waves before it go, and what has begun is brought to its end.
    let second = format!(
        "{CANARY},{}",
        BLUE.replace("\"blue\",", "\"blue\",\"maxUnavailable\":0,")
    );
    check(&second, "a canary; b blue", "a", "node b Selected WaitsForWave");
    check(
        &second,
        "a canary done; b blue flies; c blue; d",
        "",
        "node c Selected MaxUnavailableZero ~ spec.waves[1].maxUnavailable is 0
         node d Selected WaitsForWave",
    );
}

#[test]
fn a_node_of_two_waves_goes_with_the_first_and_it_is_said() {
    check(
        &format!("{CANARY},{BLUE}"),
        "a canary blue; b blue; c blue canary; d",
        "a c",
        "note Node a is of wave 1 (canary) and of wave 2 (blue), and goes with the first of them, and 1 node like it
         wave 1 of 3 canary 0/2",
    );
    // All nodes are those that are left.
    check(
        &format!("{CANARY},{{\"nodeSelector\":{{}}}}"),
        "a canary; b",
        "a",
        "not note\n wave 1 of 2 canary 0/1",
    );
}

/// Nobody waits for the end of the last wave's soak, and nothing else happens then: people are told of it all the same.
#[test]
fn the_end_of_the_last_wave_is_awaited() {
    let waves = r#"{"nodeSelector":{},"soakSeconds":600}"#;
    for of in [run, plan] {
        let soaks = decision(&of(waves, "a done -60; b done -120"));
        assert_eq!((soaks.report.waves_over.len(), soaks.wake_at), (0, Some(at(540))));
        let soaked = decision(&of(waves, "a done -600; b done -700"));
        assert_eq!(soaked.report.waves_over.len(), 1);
    }
}

/// Of a wave whose nodes were all left out people are told too: nothing soaks, and the next one begins.
#[test]
fn a_wave_of_which_no_node_is_done_is_over_when_the_last_was_left_out() {
    let waves = CANARY.replace("\"canary\",", "\"canary\",\"soakSeconds\":600,");
    for of in [run, plan] {
        for (nodes, wanted) in [
            ("a; b canary left -60", Some((0, 1, at(-60)))),
            ("a; b canary left -60; c canary done -700", Some((1, 2, at(-60)))),
            ("a; b canary left -60; c canary done -630", Some((1, 2, at(-30)))),
            ("a; b canary left -60; c canary done -30", None),
            // It had no turn in this run: nobody knows since when.
            ("a; b canary old", None),
        ] {
            let over = decision(&of(&waves, nodes)).report.waves_over;
            let over = over.first().map(|one| (one.done, one.nodes, one.at));
            assert_eq!(over, wanted, "{nodes}");
        }
    }
}

#[test]
fn a_wave_without_nodes_stops_nobody_and_it_is_said() {
    check(
        &format!("{CANARY},{BLUE}"),
        "a; b blue",
        "b",
        "note wave 1 (canary) has no node, and nobody waits for it
         wave 2 of 3 blue 0/1
         node a Selected WaitsForWave ~ wave 3 of 3 (nodes of no wave) begins when wave 2 (blue) is done: b is not",
    );
    check(
        &format!("{BLUE},{CANARY}"),
        "a; b blue done",
        "a",
        "note wave 2 (canary) has no node, and nobody waits for it",
    );
}

#[test]
fn waves_of_pools_are_those_of_the_nodes() {
    let cluster = Cluster::parse(
        r#"cluster 4.17.0
           pool worker 4.17.0 ours
           pool infra 4.17.0 ours
           rule backup Pre
           run {"waves":[{"pools":["infra","gone"]}],"maxUnavailable":9} finalizer
           node a worker 4.16.0
           node b infra 4.16.0"#,
    );
    check_cluster(&cluster, "node a Selected WaitsForWave ~ b is not\n > admit b");
}

/// What gets past the schema, and what each owner says of it.
const WRONG: &[(&str, &str)] = &[
    (
        r"{}",
        "waves[0]: found none or several of nodeSelector, pools and nodes",
    ),
    (
        r#"{"nodes":1,"nodeSelector":{}}"#,
        "waves[0]: found none or several of nodeSelector, pools and nodes",
    ),
    (r#"{"nodes":0}"#, "waves[0].nodes: found 0, wanted 1"),
    (
        r#"{"nodes":"101%"}"#,
        "waves[0].nodes: found \"101%\", wanted a whole number",
    ),
    (
        r#"{"nodes":1,"failureBudget":"x"}"#,
        "waves[0].failureBudget: found \"x\"",
    ),
    (
        r#"{"nodes":1,"maxUnavailable":"101%"}"#,
        "waves[0].maxUnavailable: found \"101%\", wanted a whole number",
    ),
    (
        r#"{"name":"a","nodes":1},{"name":"a","nodes":1}"#,
        "waves[1].name: found a a second time",
    ),
    (r#"{"name":"A b","nodes":1}"#, "waves[0].name: found \"A b\""),
    (
        r#"{"nodes":1,"growth":2},{"nodes":1}"#,
        "waves[0].growth: found it before the last wave",
    ),
    (
        r#"{"nodeSelector":{},"growth":2}"#,
        "waves[0].growth: found it without nodes",
    ),
    (r#"{"nodes":1,"growth":0}"#, "waves[0].growth: found 0, wanted 1"),
    (
        r#"{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"Equals"}]}}"#,
        "waves[0].nodeSelector: a: found operator",
    ),
    (
        r#"{"nodes":1}],"first":{},"order2":["#,
        "waves: found waves beside first, wanted one of them",
    ),
];

#[test]
fn waves_that_cannot_be_understood_begin_no_node() {
    for (waves, problem) in WRONG {
        check(waves, "a; b", "", &format!("hold InvalidField ~ {problem}"));
    }
    check_cluster(
        &plan(r#"{"pools":["worker"]}"#, "a"),
        "hold InvalidField ~ waves[0].pools: found some\n node a Selected InvalidField",
    );
}

#[test]
fn only_one_of_the_objects_that_gate_a_plan_has_waves() {
    let more =
        |settings: &str| format!("binding y spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{settings}}}");
    let of = |settings: &str| {
        Cluster::parse(&format!(
            "node a worker v0\n node b worker v0 label:blue=yes\n plan concurrency:9 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"waves\":[{BLUE}]}}
             {}",
            more(settings)
        ))
    };
    check_cluster(
        &of(r#""waves":[{"nodes":1}]"#),
        "hold InvalidField ~ MutexBinding y spec.waves: found some beside MutexBinding x spec.waves, wanted those of one object
         node a Selected InvalidField
         node b Selected InvalidField",
    );
    // Those that go first do so before all waves.
    check_cluster(
        &of(r#""first":{"matchExpressions":[{"key":"blue","operator":"DoesNotExist"}]}"#),
        "node b Selected FirstNodes ~ Node a goes first\n wave 1 of 2 - 0/1\n > admit a",
    );
}

/// The clock alone ends a soak.
#[test]
fn a_soak_ends_by_the_clock() {
    let soaks = CANARY.replace("\"canary\",", "\"canary\",\"soakSeconds\":300,");
    for cluster in [
        run(&soaks, "a; b canary done -100"),
        plan(&soaks, "a; b canary done -100"),
    ] {
        let owner = cluster.owner();
        let begins = |seconds: i64| {
            let decision = decision_at(&cluster, seconds);
            let mut actions = decision.actions.iter();
            actions.any(|planned| matches!(planned.action, Action::CreateChange { .. }))
        };
        assert!(at(0) == now() && !begins(199), "{owner:?}");
        assert!(begins(200), "{owner:?}");
    }
}

/// A journal that somebody has written, or restored from a copy, may not say since when its node is done.
#[test]
fn a_wave_soaks_from_when_its_journals_tell_and_waits_where_none_does() {
    let soaks = CANARY.replace("\"canary\",", "\"canary\",\"soakSeconds\":300,");
    for of in [run, plan] {
        let untold = |waves: &str, node: &str, keeps: fn(&Step) -> bool| {
            let mut cluster = of(waves, node);
            for change in cluster.observed.changes.values_mut() {
                change.status.since = None;
                change.status.entries.retain(|entry| keeps(&entry.step));
            }
            cluster
        };
        let soaking = untold(&soaks, "a; b canary done -100", |_| true);
        check_cluster(
            &soaking,
            "node a Selected WaitsForWave ~ soaks for 300 s\n wake 200",
        );
        assert_eq!(begun(&soaking), "");
        assert_eq!(begun(&untold(&soaks, "a; b canary done -300", |_| true)), "a");
        let waits = untold(&soaks, "a; b canary done -900", |step| *step != Step::Done);
        check_cluster(
            &waits,
            "hold WaitsForWave
             node a Selected WaitsForWave ~ has no status.since, so nobody knows since when Node b is done; delete it
             ends a ClusterAdmin",
        );
        assert_eq!(begun(&waits), "");
        assert_eq!(decision(&waits).report.waves_over.len(), 0);
        // Without a soak nobody asks since when.
        let plain = untold(CANARY, "a; b canary done", |step| *step != Step::Done);
        assert_eq!(begun(&plain), "a");
    }
}
