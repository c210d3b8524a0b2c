//! What `/metrics` serves, by its text.

use super::{
    rules::{RulePhaseLabels, VERDICTS},
    *,
};
use numo_api::Step;
use numo_core::{
    left::MARKS,
    observed::Key,
    report::{NodeReport, RunPhase, WaveReport, Why},
};
use std::collections::{BTreeMap, BTreeSet};

/// Lines of the text that begin so.
fn lines(metrics: &Metrics, prefix: &str) -> Vec<String> {
    let text = metrics.text();
    let found = text.lines().filter(|line| line.starts_with(prefix));
    found.map(ToOwned::to_owned).collect()
}

fn node(step: Step, reason: Reason) -> NodeReport {
    NodeReport {
        pool: "worker".into(),
        step,
        why: Why::new(reason, ""),
        since: Some("2026-01-01T00:00:00Z".to_owned()),
        change: None,
    }
}

#[test]
fn every_metric_that_is_served_is_described_and_the_other_way_round() {
    let metrics = Metrics::new();
    // A family shows itself with its first series.
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let mut report = Report::default();
    report
        .nodes
        .insert("a".to_owned(), node(Step::PreRules, Reason::RuleRunning));
    report.pools.push(numo_core::report::PoolReport::default());
    report.wave = Some(WaveReport::default());
    report.target = Some("4.17.0".to_owned());
    metrics.show(&owner, &report, Reason::Progressing, false);
    let mut shut = node(Step::Selected, Reason::OutsideWindow);
    shut.why = shut.why.until(Timestamp::UNIX_EPOCH);
    report.nodes.insert("b".to_owned(), shut);
    metrics.show_waits(&owner, &report, Timestamp::UNIX_EPOCH);
    report
        .nodes
        .insert("a".to_owned(), node(Step::Released, Reason::Progressing));
    metrics.show_waits(&owner, &report, Timestamp::UNIX_EPOCH);
    metrics.know_spans();
    metrics.know_notifier("team");
    metrics.silences("team", Some(1));
    let (eta, run) = (will_be_done(1000), ended());
    metrics.show_times(&owner, (&eta, Some(Timestamp::UNIX_EPOCH)), Some(&run));
    metrics.show_success(&owner, (Some(Timestamp::UNIX_EPOCH), Timestamp::UNIX_EPOCH));
    let opens = Eta::Opens {
        seconds: 60,
        at: Timestamp::UNIX_EPOCH,
    };
    metrics.show_times(&Owner::run(Key::new("ns", "other")), (&opens, None), None);
    let mut observed = Observed::default();
    let budget = numo_core::observed::BudgetView {
        name: "all".to_owned(),
        selector: serde_json::json!({}),
        max_unavailable: Err("unknown".to_owned()),
        group_by: None,
        max_groups: None,
        paused: false,
        annotations: BTreeMap::new(),
        uid: String::new(),
        generation: 1,
        status: numo_api::MutexBudgetStatus::default(),
    };
    observed.budgets.insert("all".to_owned(), budget);
    let some = numo_core::observed::NodeView {
        name: "a".to_owned(),
        uid: String::new(),
        created: Timestamp::UNIX_EPOCH,
        labels: numo_core::observed::Pairs::default(),
        annotations: numo_core::observed::Pairs::default(),
        has_annotations: false,
        unschedulable: false,
        taints: serde_json::Value::Null,
        ready: true,
        not_ready_since: None,
        leaving: None,
        boot_id: String::new(),
        kubelet_version: String::new(),
        etcd_voter: None,
    };
    observed.nodes.insert("a".to_owned(), some);
    // It is the Thursday on which time begins.
    for (name, day) in [("open", "thu"), ("shut", "fri")] {
        let window = serde_json::from_value(serde_json::json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexWindow", "metadata": {"name": name},
            "spec": {"nodeSelector": {}, "openings": [{"days": [day]}]},
        }));
        let view = crate::frontends::mutex_window::view(window.unwrap());
        observed.windows.insert(name.to_owned(), view);
    }
    let idle = serde_json::from_value::<numo_api::MutexBindingSpec>(serde_json::json!({
        "ownerSelector": {"kind": "Plan"}, "maxUnavailable": 1,
    }));
    observed.bindings.insert("idle".to_owned(), idle.unwrap().into());
    metrics.show_cluster(&observed, Timestamp::UNIX_EPOCH);
    let served = metrics.text();
    for line in [
        "numo_binding_owners{binding=\"idle\",kind=\"Plan\"} 0",
        "numo_window_open{window=\"open\"} 1",
        "numo_window_open{window=\"shut\"} 0",
        "numo_window_closes_timestamp_seconds{window=\"open\"} 86400",
        "numo_window_opens_timestamp_seconds{window=\"shut\"} 86400",
    ] {
        assert!(served.contains(line), "{line} is not in {served}");
    }
    metrics.show_left(&[]);
    metrics.awaits(["mutexrules"].into(), 0);
    metrics.begins("ns/rule", Phase::Pre);
    let labels = RulePhaseLabels {
        rule: "ns/rule".to_owned(),
        phase: "Pre",
    };
    metrics.rules.seconds.get_or_create(&labels).observe(1.0);
    metrics.evaluated("ns/rule", Duration::from_secs(1));
    metrics.used_memory("ns/rule", 1);
    metrics.gave_no_verdict("ns/rule", Reason::Trap);
    metrics.wrote("PatchNode", "ok");
    let served: BTreeSet<String> = lines(&metrics, "# TYPE ").into_iter().collect();
    let described: BTreeSet<String> = ALL
        .iter()
        .map(|one| format!("# TYPE numo_{} {}", one.name, one.kind))
        .collect();
    assert_eq!(served, described);
}

/// What nobody has seen yet is at zero: an alert on growth must not miss the first time.
#[test]
fn counters_are_there_before_anything_is_counted() {
    let metrics = Metrics::new();
    let written: BTreeSet<&str> = include_str!("../planner/action.rs")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Action::")?.split_once(" => \""))
        .filter_map(|(_, name)| name.strip_suffix("\","))
        .collect();
    assert!(written.len() > 15, "{written:?}");
    for action in written.into_iter().chain(["WriteStatus"]) {
        for result in ["ok", "stale", "refused", "failed"] {
            let line = format!("numo_writes_total{{action=\"{action}\",result=\"{result}\"}} 0");
            assert_eq!(lines(&metrics, &line).len(), 1, "{line}");
        }
    }
    let mut rule = RuleView {
        key: Key::new("ns", "rule"),
        uid: String::new(),
        generation: 1,
        job_name: String::new(),
        job_namespace: String::new(),
        job_accounts: Vec::new(),
        has_job: false,
        has_clean_up_job: false,
        is_evaluated: true,
        timeout_seconds: 1,
        pass_seconds: 60,
        retries: 0,
        failure_policy: numo_api::FailurePolicy::default(),
        phases: vec![Phase::Pre],
        placement: numo_api::Placement::default(),
        log_tail_bytes: 0,
        validity: numo_core::observed::Validity::Unknown,
        unseen: None,
    };
    metrics.know_rules([&rule].into_iter());
    let of = |phase: &str| format!("numo_rule_verdicts_total{{rule=\"ns/rule\",phase=\"{phase}\"");
    assert_eq!(lines(&metrics, &of("Pre")).len(), VERDICTS.len());
    assert_eq!(lines(&metrics, &of("Post")).len(), 0);
    let trap = "numo_plugin_failures_total{rule=\"ns/rule\",reason=\"Trap\"} 0";
    assert_eq!(lines(&metrics, trap).len(), 1);
    // An edit of the rule gives it another phase.
    rule.generation = 2;
    rule.phases = vec![Phase::Pre, Phase::Post];
    metrics.know_rules([&rule].into_iter());
    assert_eq!(lines(&metrics, &of("Post")).len(), VERDICTS.len());
    metrics.keep_rules(|_| false);
    assert_eq!(lines(&metrics, &of("Pre")).len(), 0);
    assert_eq!(lines(&metrics, trap).len(), 0);
}

/// Whoever deletes a run in mid-upgrade does not silence the alert that its pool is paused.
#[test]
fn a_pool_that_stays_paused_keeps_its_series_when_its_run_is_gone() {
    let metrics = Metrics::new();
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let report = Report {
        phase: RunPhase::Held,
        pools: vec![numo_core::report::PoolReport {
            name: "worker".to_owned(),
            paused: true,
            ours: true,
            outdated: 3,
            ..numo_core::report::PoolReport::default()
        }],
        ..Report::default()
    };
    let labels = r#"{namespace="ns",name="upgrade",pool="worker"}"#;
    let shown = |paused: &str, held: &str| {
        let series = format!("numo_pool_paused{labels} {paused}");
        assert_eq!(lines(&metrics, &series).len(), 1, "{series}\n{}", metrics.text());
        let series = format!("numo_pool_held_nodes{labels} {held}");
        assert_eq!(lines(&metrics, &series).len(), 1, "{series}\n{}", metrics.text());
    };
    metrics.show(&owner, &report, Reason::PoolHeld, true);
    metrics.show_left(&[]);
    shown("1", "3");
    assert_eq!(lines(&metrics, "numo_orphaned_marks{").len(), MARKS.len());
    let orphan = Orphan {
        left: numo_core::left::Left {
            object: "MachineConfigPool worker".to_owned(),
            mark: numo_api::marks::PAUSED_BY.to_owned(),
            owner: "uid".to_owned(),
            message: String::new(),
            held: true,
        },
        on: numo_core::left::Marked {
            api_version: "machineconfiguration.openshift.io/v1",
            kind: "MachineConfigPool",
            key: Key::new("", "worker"),
            uid: "pool".to_owned(),
        },
        owner: Some(Key::new("ns", "upgrade")),
        unknown: None,
        is_unread: false,
        held_nodes: Some(2),
        commands: Vec::new(),
    };
    metrics.forget(&owner);
    metrics.show_left(std::slice::from_ref(&orphan));
    shown("1", "2");
    let mark = format!("numo_orphaned_marks{{mark=\"{}\"}} 1", numo_api::marks::PAUSED_BY);
    assert_eq!(lines(&metrics, &mark).len(), 1);
    // A run of that name comes back, and does not hold the pool yet: the pool is paused all the same.
    let idle = Report {
        phase: RunPhase::Idle,
        pools: vec![numo_core::report::PoolReport {
            name: "worker".to_owned(),
            paused: true,
            ..numo_core::report::PoolReport::default()
        }],
        ..Report::default()
    };
    metrics.show(&owner, &idle, Reason::UpToDate, false);
    metrics.show_left(&[orphan]);
    shown("1", "2");
    metrics.show_left(&[]);
    shown("0", "0");
    metrics.forget(&owner);
    metrics.show_left(&[]);
    assert_eq!(lines(&metrics, "numo_pool_paused{"), Vec::<String>::new());
}

#[test]
fn what_is_not_listed_yet_is_shown_until_it_is() {
    let metrics = Metrics::new();
    assert!(metrics.unlisted().is_none());
    metrics.awaits(["mutexrules", "nodes"].into(), 0);
    assert_eq!(lines(&metrics, "numo_not_listed{").len(), 2);
    metrics.awaits(["mutexrules"].into(), 0);
    let shown = lines(&metrics, "numo_not_listed{");
    assert_eq!(shown, ["numo_not_listed{resource=\"mutexrules\"} 1"]);
    let (resources, _) = metrics.unlisted().unwrap();
    assert_eq!(resources, ["mutexrules"]);
    metrics.awaits(BTreeSet::new(), 0);
    assert!(metrics.unlisted().is_none());
    assert_eq!(lines(&metrics, "numo_not_listed{"), Vec::<String>::new());
}

/// Between upgrades a refused run with `hold: Always` keeps its pools paused, and holds no upgrade.
#[test]
fn an_upgrade_is_held_only_once_one_has_begun() {
    let metrics = Metrics::new();
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let mut report = Report::default();
    let series = |value: u8| {
        format!(r#"numo_upgrade_held{{kind="MutexRunConfig",namespace="ns",name="upgrade"}} {value}"#)
    };
    metrics.show(&owner, &report, Reason::RuleNotFound, true);
    assert_eq!(lines(&metrics, "numo_upgrade_held{"), [series(0)]);
    report.upgrade_held = Some(numo_core::report::Why::new(Reason::RuleNotFound, ""));
    metrics.show(&owner, &report, Reason::RuleNotFound, true);
    assert_eq!(lines(&metrics, "numo_upgrade_held{"), [series(1)]);
    metrics.forget(&owner);
    assert_eq!(lines(&metrics, "numo_upgrade_held{"), Vec::<String>::new());
}

fn will_be_done(second: i64) -> Eta {
    Eta::In {
        seconds: 60,
        at: Timestamp::from_second(second).unwrap(),
        left: 2,
        at_once: 1,
        median_seconds: 30,
        of: 4,
        is_earlier: false,
        openings: 0,
        opens: None,
    }
}

fn ended() -> RunStatus {
    RunStatus {
        started_at: Some("2026-01-01T00:00:00Z".to_owned()),
        finished_at: Some("2026-01-01T00:10:00Z".to_owned()),
        result: Some(numo_api::RunResult::Succeeded),
        ..RunStatus::default()
    }
}

#[test]
fn a_time_is_shown_while_one_can_be_told_and_a_run_once_it_has_ended() {
    let metrics = Metrics::new();
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let of_owner = r#"{kind="MutexRunConfig",namespace="ns",name="upgrade"}"#;
    let of_run = r#"{namespace="ns",name="upgrade",result="Succeeded"}"#;
    metrics.show_times(&owner, (&will_be_done(1000), None), None);
    assert_eq!(
        lines(&metrics, "numo_owner_eta_"),
        [
            format!("numo_owner_eta_timestamp_seconds{of_owner} 1000"),
            format!("numo_owner_eta_basis_nodes{of_owner} 4")
        ]
    );
    // Of an owner whose hours are open their end is told, and when nodes begin again where those of some are closed.
    let opens = Eta::Opens {
        seconds: 60,
        at: Timestamp::from_second(700).unwrap(),
    };
    let closes = Timestamp::from_second(600).unwrap();
    metrics.show_times(&owner, (&opens, Some(closes)), None);
    assert_eq!(
        [
            lines(&metrics, "numo_owner_opens_"),
            lines(&metrics, "numo_owner_closes_")
        ],
        [
            [format!("numo_owner_opens_timestamp_seconds{of_owner} 700")],
            [format!("numo_owner_closes_timestamp_seconds{of_owner} 600")]
        ]
    );
    metrics.show_times(&owner, (&Eta::Done, Some(closes)), None);
    assert_eq!(lines(&metrics, "numo_owner_closes_"), Vec::<String>::new());
    metrics.show_times(&owner, (&will_be_done(1000), None), None);
    // A person must end something first: an old time would be believed.
    let held = Eta::Held(Reason::RuleFailed, numo_api::conditions::Actor::ClusterAdmin);
    metrics.show_times(&owner, (&held, None), None);
    assert_eq!(lines(&metrics, "numo_owner_eta_"), Vec::<String>::new());
    metrics.show_times(&owner, (&Eta::Done, None), Some(&ended()));
    assert_eq!(
        lines(&metrics, "numo_run_"),
        [
            format!("numo_run_finished_timestamp_seconds{of_run} 1767226200"),
            format!("numo_run_duration_seconds{of_run} 600")
        ]
    );
    let goes_on = RunStatus {
        finished_at: None,
        result: None,
        ..ended()
    };
    metrics.show_times(&owner, (&will_be_done(1000), None), Some(&goes_on));
    assert_eq!(lines(&metrics, "numo_run_"), Vec::<String>::new());
    metrics.forget(&owner);
    assert_eq!(lines(&metrics, "numo_owner_eta_"), Vec::<String>::new());
}

#[test]
fn the_last_success_of_an_owner_of_any_kind_stays_until_the_next_or_its_end() {
    let metrics = Metrics::new();
    let owners = [
        Owner::run(Key::new("ns", "upgrade")),
        Owner::plan(Key::new("ns", "upgrade")),
    ];
    for (second, owner) in [(1, &owners[0]), (5, &owners[1]), (9, &owners[1])] {
        let at = Timestamp::from_second(second).unwrap();
        metrics.show_success(owner, (Timestamp::from_second(second - 1).ok(), at));
        // Its next run goes on.
        metrics.show_times(owner, (&will_be_done(1000), None), None);
    }
    let line = |kind: &str, second| {
        format!(
            "numo_owner_last_success_timestamp_seconds{{kind=\"{kind}\",namespace=\"ns\",name=\"upgrade\"}} {second}"
        )
    };
    let found: BTreeSet<String> = lines(&metrics, "numo_owner_last_").into_iter().collect();
    let wanted = [line("MutexRunConfig", 1), line("Plan", 9)];
    assert_eq!(found, wanted.into());
    metrics.forget(&owners[1]);
    assert_eq!(lines(&metrics, "numo_owner_last_"), [line("MutexRunConfig", 1)]);
    let took = "numo_owner_run_duration_seconds{kind=\"MutexRunConfig\",namespace=\"ns\",name=\"upgrade\"} 1";
    assert_eq!(lines(&metrics, "numo_owner_run_"), [took]);
}

#[test]
fn steps_are_always_there_and_what_is_over_is_taken_back() {
    let metrics = Metrics::new();
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let mut report = Report::default();
    report
        .nodes
        .insert("a".to_owned(), node(Step::PreRules, Reason::RuleRunning));
    report
        .nodes
        .insert("b".to_owned(), node(Step::Selected, Reason::WaitingForTurn));
    metrics.show(&owner, &report, Reason::Progressing, false);
    assert_eq!(lines(&metrics, "numo_nodes{").len(), 16);
    let of_step = "numo_node_step{kind=\"MutexRunConfig\",namespace=\"ns\",name=\"upgrade\",node=\"a\",step=\"PreRules\"} 1";
    assert_eq!(lines(&metrics, of_step).len(), 1);
    assert_eq!(lines(&metrics, "numo_waiting_nodes{").len(), 2);
    assert_eq!(
        lines(&metrics, "numo_node_step_since_timestamp_seconds{").len(),
        1
    );
    report
        .nodes
        .insert("a".to_owned(), node(Step::Done, Reason::Done));
    metrics.show(&owner, &report, Reason::Suspended, true);
    assert_eq!(lines(&metrics, "numo_node_step{").len(), 0);
    assert_eq!(lines(&metrics, "numo_waiting_nodes{").len(), 1);
    assert_eq!(
        lines(&metrics, "numo_owner_reason{"),
        [r#"numo_owner_reason{kind="MutexRunConfig",namespace="ns",name="upgrade",reason="Suspended"} 1"#]
    );
    assert_eq!(lines(&metrics, "numo_owner_wave{").len(), 0);
    assert_eq!(lines(&metrics, "numo_owner_target_info{").len(), 0);
    report.wave = Some(WaveReport {
        number: 2,
        ..WaveReport::default()
    });
    report.target = Some("4.17.0".to_owned());
    metrics.show(&owner, &report, Reason::Suspended, true);
    assert_eq!(
        lines(&metrics, "numo_owner_target_info{"),
        [r#"numo_owner_target_info{kind="MutexRunConfig",namespace="ns",name="upgrade",version="4.17.0"} 1"#]
    );
    report.target = None;
    metrics.show(&owner, &report, Reason::Suspended, true);
    assert_eq!(lines(&metrics, "numo_owner_target_info{").len(), 0);
    report.target = Some("4.18.0".to_owned());
    metrics.show(&owner, &report, Reason::Suspended, true);
    assert_eq!(
        lines(&metrics, "numo_owner_wave{"),
        [r#"numo_owner_wave{kind="MutexRunConfig",namespace="ns",name="upgrade"} 2"#]
    );
    metrics.begins("ns/rule", Phase::Pre);
    metrics.keep_rules(|rule| rule == "ns/rule");
    assert_eq!(lines(&metrics, "numo_rule_verdicts_total{").len(), VERDICTS.len());
    metrics.keep_rules(|_| false);
    assert_eq!(lines(&metrics, "numo_rule_verdicts_total{"), Vec::<String>::new());
    metrics.forget(&owner);
    for name in [
        "numo_nodes{",
        "numo_waiting_nodes{",
        "numo_owner_reason{",
        "numo_owner_stalled{",
        "numo_owner_target_info{",
        "numo_owner_wave{",
    ] {
        assert_eq!(lines(&metrics, name), Vec::<String>::new());
    }
}

/// A wait is counted once, when its reason ends, whatever becomes of the node.
#[test]
fn a_wait_is_counted_when_its_reason_ends() {
    let metrics = Metrics::new();
    let owner = Owner::run(Key::new("ns", "upgrade"));
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let mut report = Report::default();
    for name in ["a", "b", "c"] {
        report
            .nodes
            .insert(name.to_owned(), node(Step::Selected, Reason::OutsideWindow));
    }
    metrics.show_waits(&owner, &report, at(0));
    metrics.show_waits(&owner, &report, at(50));
    report
        .nodes
        .insert("a".to_owned(), node(Step::PreRules, Reason::RuleRunning));
    report
        .nodes
        .insert("b".to_owned(), node(Step::Done, Reason::Done));
    report.nodes.remove("c");
    metrics.show_waits(&owner, &report, at(100));
    metrics.show_waits(&owner, &report, at(200));
    let labels = r#"{kind="MutexRunConfig",reason="OutsideWindow"}"#;
    assert_eq!(
        lines(&metrics, "numo_wait_seconds_count"),
        [format!("numo_wait_seconds_count{labels} 3")]
    );
    assert_eq!(
        lines(&metrics, "numo_wait_seconds_sum"),
        [format!("numo_wait_seconds_sum{labels} 300.0")]
    );
    metrics.forget(&owner);
    metrics.show_waits(&owner, &Report::default(), at(300));
    assert_eq!(
        lines(&metrics, "numo_wait_seconds_count").len(),
        1,
        "an owner that is gone waits no more"
    );
}
