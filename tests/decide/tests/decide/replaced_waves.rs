//! NodeVersions that go in waves and domains, and after a person's word. A node that was replaced is gone: the new one stands for it.

use crate::{
    approvals::approve,
    cluster::{Cluster, at},
    waves::begun,
    words::{check, check_cluster, decision, words},
};
use numo_api::{Entry, Step};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, NodePatch, NodePurpose, Planned},
    binding, invariant,
};

/// Nodes a (canary, zone z1), b (z1) and c (z2) of a NodeVersion with these settings of its own, and more lines.
fn three(settings: &str, rest: &str) -> String {
    format!(
        "node a worker v0 label:canary=yes zone:z1
         node b worker v0 zone:z1
         node c worker v0 zone:z2
         version img2 finalizer spec {{\"surge\":9,\"mutex\":{{{settings}}}}}
         host a img1
         host b img1
         host c img1
         group w image:img2
         groups w
         {rest}"
    )
}

/// The same once node x has the place of a, whose turn is in this step.
fn replaced(settings: &str, turn: &str) -> String {
    let rest = format!("replacing a {turn} machine:m-a heir:x unleased");
    three(settings, &rest)
        .replace("node a worker v0", "node x worker v0")
        .replace("host a img1", "host x img2")
}

const CANARY: &str = r#"{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}}}"#;

fn canary(more: &str) -> String {
    let wave = CANARY.replace("\"name\":\"canary\",", &format!("\"name\":\"canary\",{more}"));
    format!("\"waves\":[{wave}]")
}

#[test]
fn nodes_of_a_later_wave_wait_until_the_new_ones_are_done_and_have_soaked() {
    check(
        &three(&canary(""), ""),
        "node b Selected WaitsForWave
         node c Selected WaitsForWave
         > admit a",
    );
    let soaks = canary("\"soakSeconds\":600,");
    // The new node has its rules before it.
    check(
        &replaced(&soaks, "Changed"),
        "node b Selected WaitsForWave ~ a is not",
    );
    check(
        &replaced(&soaks, "Done since:-60"),
        "hold WaitsForWave
         node b Selected WaitsForWave ~ soaks for 600 s
         > nothing",
    );
    check(
        &replaced(&soaks, "Done since:-700"),
        "hold -
         > admit b
         > admit c",
    );
}

/// The first wave would wait for its machine to go, and it for the first wave.
#[test]
fn a_machine_that_nobody_needs_goes_before_its_wave_where_no_other_can_be_made() {
    let surplus = |surge: &str| {
        let text = three(&canary(""), "").replace("\"surge\":9", surge);
        text.replace("host c img1", "host c img2 obsolete")
    };
    check(
        &surplus("\"surge\":1"),
        "node a Selected WaitingForTurn ~ 1 machines are new
         node b Selected WaitsForWave
         > admit c",
    );
    check(
        &surplus("\"surge\":2"),
        "node c Selected WaitsForWave
         > admit a",
    );
}

/// Who may edit the labels of a node would else take it out of a rule in mid-turn.
#[test]
fn a_node_that_is_replaced_keeps_the_rules_of_the_wave_in_which_its_turn_began() {
    let settings = canary("\"rules\":[{\"name\":\"smoke\"}],");
    let of = |turn: &str| {
        format!(
            "rule smoke Pre\n {}",
            three(&settings, &format!("replacing a {turn}"))
        )
    };
    let kept = |text: &str| {
        let actions = decision(&Cluster::parse(text)).actions;
        let mut written = actions.into_iter().filter_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(status.wave_rules),
            _ => None,
        });
        written.next().flatten()
    };
    assert_eq!(kept(&of("Admitted")), Some(vec!["numo/smoke".to_owned()]));
    let asked = "> job smoke/Pre/1 of a";
    let moved = of("PreRules waverules:smoke").replace("label:canary=yes", "");
    // Nobody is in the first wave any more, and the others begin.
    check(&moved, &format!("{asked}\n > admit b\n > admit c"));
    check(&of("PreRules"), asked);
}

/// The new node has the rules of the wave of the old one.
#[test]
fn a_new_node_passes_the_rules_of_the_wave_of_the_old_one() {
    let settings = canary("\"rules\":[{\"name\":\"smoke\"}],");
    let of = |turn: &str| format!("rule smoke Post\n {}", replaced(&settings, turn));
    check(
        &of("PostRules"),
        "node a PostRules RuleStarting\n > job smoke/Post/1 of x",
    );
    let plain = canary("");
    check(
        &format!("rule smoke Post\n {}", replaced(&plain, "PostRules")),
        "node a Done Done",
    );
}

/// Each turn leaves one outdated node less: the first wave does not take the next one for it.
#[test]
fn a_wave_of_so_many_nodes_has_the_same_nodes_after_each_turn() {
    let waves = r#""waves":[{"nodes":1,"soakSeconds":600},{"nodes":1,"growth":2}]"#;
    check(
        &three(waves, ""),
        "node b Selected WaitsForWave\n node c Selected WaitsForWave\n > admit a",
    );
    check(
        &replaced(waves, "Done since:-60"),
        "node b Selected WaitsForWave ~ wave 2 of 3 waits for wave 1, which is done and soaks
         node c Selected WaitsForWave
         > nothing",
    );
    check(
        &replaced(waves, "Done since:-700"),
        "node c Selected WaitsForWave\n > admit b",
    );
}

/// A control plane that a wave would keep waiting, and that keeps all others waiting, would hold the roll for ever.
#[test]
fn the_control_plane_goes_before_every_wave_and_domain() {
    for settings in [
        canary(""),
        r#""domains":{"key":"topology.kubernetes.io/zone"}"#.to_owned(),
    ] {
        let lines = "node cp1 master v0 zone:z9\n node cp2 master v0 zone:z9\n node cp3 master v0 zone:z9
             host cp1 img1 group:cp\n host cp2 img2 group:cp\n host cp3 img2 group:cp
             group cp image:img2 role:ControlPlane
             groups w,cp";
        check(
            &three(&settings, lines),
            "node a Selected ControlPlaneFirst\n node b Selected ControlPlaneFirst\n > admit cp1",
        );
    }
}

/// Who asks for a word, a rule or a soak of all nodes means these, too.
#[test]
fn the_control_plane_has_what_the_waves_ask_that_select_it() {
    let lines = "rule backup Pre\n node cp1 master v0 zone:z9\n host cp1 img1 group:cp
         node cp2 master v0 zone:z9\n host cp2 img2 group:cp\n node cp3 master v0 zone:z9\n host cp3 img2 group:cp
         group cp image:img2 role:ControlPlane\n groups w,cp";
    let asks = "\"approval\":\"Manual\",\"soakSeconds\":3600,\"rules\":[{\"name\":\"backup\"}]";
    let all = format!("\"waves\":[{{\"name\":\"all\",\"nodeSelector\":{{}},{asks}}}]");
    let mut cluster = Cluster::parse(&three(&all, lines));
    check_cluster(
        &cluster,
        "node cp1 Selected WaitsForApproval ~ wave 1 of 2 begins when it is approved (spec.mutex.waves[0].approval)
         asks wave 1 of 2
         > nothing",
    );
    approve(&mut cluster, 10, |_| {});
    assert_eq!(begun(&cluster), "cp1");
    let workers =
        format!("\"waves\":[{{\"nodeSelector\":{{\"matchLabels\":{{\"canary\":\"yes\"}}}},{asks}}}]");
    assert_eq!(begun(&Cluster::parse(&three(&workers, lines))), "cp1");
}

#[test]
fn the_soak_of_a_wave_that_selects_the_control_plane_keeps_the_others_waiting() {
    let done = |since: i64| {
        let lines = format!(
            "node cp2 master v0 zone:z9\n host cp2 img2 group:cp\n node cp3 master v0 zone:z9\n host cp3 img2 group:cp
             node cp4 master v0 zone:z9\n host cp4 img2 group:cp
             group cp image:img2 role:ControlPlane\n groups w,cp
             replacing cp1 Done machine:m-cp1 heir:cp4 unleased since:{since}"
        );
        three(r#""waves":[{"nodeSelector":{},"soakSeconds":600}]"#, &lines)
    };
    check(
        &done(-60),
        "node a Selected WaitsForWave ~ wave 2 of 2 waits for wave 1 (the control plane), which is done and soaks for 600 s (soakSeconds)
         node b Selected WaitsForWave
         > nothing",
    );
    assert_eq!(begun(&Cluster::parse(&done(-700))), "a b c");
}

/// The second check knows the rules of those waves, too.
#[test]
fn the_check_of_writes_asks_for_the_rules_of_the_control_plane() {
    let lines = "rule backup Pre\n node cp1 master v0 zone:z9\n host cp1 img1 group:cp
         node cp2 master v0 zone:z9\n host cp2 img2 group:cp\n node cp3 master v0 zone:z9\n host cp3 img2 group:cp
         group cp image:img2 role:ControlPlane\n groups w,cp\n replacing cp1 PreRules";
    let owner = Owner::node_version("nv");
    let breaches = |selector: &str, verdict: &str| {
        let waves =
            format!("\"waves\":[{{\"nodeSelector\":{selector},\"rules\":[{{\"name\":\"backup\"}}]}}]");
        let cluster = Cluster::parse(&three(&waves, &format!("{lines} {verdict}")));
        let snapshot = Snapshot {
            now: at(0),
            observed: &cluster.observed,
            owner: &owner,
            asked: None,
        };
        let patch = NodePatch {
            unschedulable: Some(true),
            ..NodePatch::of(&cluster.observed.nodes["cp1"], NodePurpose::Cordon)
        };
        let mut decision = Decision::default();
        decision.actions.push(Planned {
            chain: "cp1".to_owned(),
            action: Action::PatchNode(patch),
            event: None,
        });
        let found = invariant::lint(&snapshot, &mut decision);
        found.into_iter().map(|breach| breach.message).collect::<Vec<_>>()
    };
    let found = breaches("{}", "");
    assert!(found.len() == 1 && found[0].contains("backup"), "{found:?}");
    assert_eq!(breaches("{}", "verdict:backup/Pre/1/Pass"), Vec::<String>::new());
    let workers = "{\"matchLabels\":{\"canary\":\"yes\"}}";
    assert_eq!(breaches(workers, ""), Vec::<String>::new());
}

#[test]
fn a_domain_is_finished_before_the_next_begins() {
    let settings = r#""domains":{"key":"topology.kubernetes.io/zone"}"#;
    check(
        &three(settings, ""),
        "node c Selected OtherDomain ~ Node a of
         > admit a
         > admit b",
    );
    // The new node is in its domain as the old one was, while its turn goes on.
    check(
        &replaced(settings, "Changed").replace("host b img1", "host b img2"),
        "node c Selected OtherDomain ~ Node x of",
    );
    check(
        &replaced(settings, "Done").replace("host b img1", "host b img2"),
        "> admit c",
    );
}

#[test]
fn nothing_begins_before_a_nodeversion_is_approved_and_the_word_holds_to_the_end() {
    let settings = r#""approval":{"begin":"Manual"}"#;
    let mut cluster = Cluster::parse(&three(settings, ""));
    check_cluster(
        &cluster,
        "hold WaitsForApproval
         node a Selected WaitsForApproval ~ the first node begins when it is approved (spec.mutex.approval.begin): `numo approve nodeversion/nv --reason TEXT`
         ends a Approver
         > nothing",
    );
    approve(&mut cluster, 10, |_| {});
    assert_eq!(begun(&cluster), "a b c");
    // What was approved is the same once a node was replaced.
    for turn in ["Changed", "Done"] {
        let mut later = Cluster::parse(&replaced(settings, turn));
        later.observed.approvals = cluster.observed.approvals.clone();
        assert_eq!(decision(&later).report.approval, None, "{turn}");
        assert_eq!(begun(&later), "b c", "{turn}");
    }
    // Another image was not approved.
    let other = three(settings, "").replace("version img2", "version img3");
    let mut other = Cluster::parse(&other);
    other.observed.approvals = cluster.observed.approvals.clone();
    assert_eq!(begun(&other), "");
}

#[test]
fn a_binding_gates_nodeversions() {
    let bound = |settings: &str| {
        let line = format!(
            "binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeVersion\",\"apiGroup\":\"update.edgeless.systems\"}},{settings}}}"
        );
        Cluster::parse(&three("", &line))
    };
    let cluster = bound("\"maxUnavailable\":1");
    let (is_ready, why, owners) = binding::state(&cluster.observed.bindings["x"], &cluster.observed);
    assert!(is_ready, "{why:?}");
    assert_eq!(owners, [cluster.owner()]);
    assert_eq!(begun(&cluster), "a");
    check_cluster(
        &bound(r#""approval":{"begin":"Manual"}"#),
        "hold WaitsForApproval\n > nothing",
    );
    check_cluster(
        &bound("\"retries\":2"),
        "hold FieldNotServed ~ MutexBinding x spec.retries: found 2, wanted none
         > nothing",
    );
    let (is_ready, why, _) = {
        let cluster = bound("\"drainBy\":\"Job\"");
        binding::state(&cluster.observed.bindings["x"], &cluster.observed)
    };
    assert!(!is_ready, "{why:?}");
}

/// Who reads of a wrong or a short setting edits the object that has it.
#[test]
fn what_a_binding_says_of_the_drain_is_named_by_the_binding() {
    let bound = |settings: &str| {
        format!("binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeVersion\"}},\"drain\":{{{settings}}}}}")
    };
    check(
        &three("", &bound(r#""order":"Label""#)),
        "hold InvalidField ~ MutexBinding x spec.drain.orderLabel: found none
         > nothing",
    );
    let drains = |version: &str, more: &str| {
        format!(
            "node a worker v0
             node new worker v0
             version img2 finalizer {version}
             host a img1 heir:new
             host new img2 donor:a
             group w image:img2
             groups w
             replacing a Cordoned cordoned since:-60
             pod web on a of:ReplicaSet/web deleting:600
             {more}"
        )
    };
    check(
        &drains("", &bound(r#""timeoutSeconds":59"#)),
        "node a Cordoned DrainTimeout ~ (MutexBinding x spec.drain.timeoutSeconds)",
    );
    check(
        &drains(
            r#"spec {"drain":{"timeoutSeconds":59}}"#,
            &bound(r#""timeoutSeconds":99"#),
        ),
        "node a Cordoned DrainTimeout ~ 59 s (spec.drain.timeoutSeconds)",
    );
}

/// Hours that are closed keep nothing from being as it shall be.
#[test]
fn a_nodeversion_that_is_up_to_date_waits_for_no_window() {
    let settings = r#""startAfter":"2999-01-01T00:00:00Z""#;
    check(&three(settings, ""), "hold StartsLater\n > nothing");
    let done = three(settings, "")
        .replace("img1", "img2")
        .replace(" finalizer", "");
    check(&done, "phase Idle\n hold -");
}

/// The hours of nodes and of the NodeVersion itself, and what becomes of a node that is not Ready, as for every owner.
#[test]
fn a_node_version_keeps_to_hours_and_leaves_dead_nodes_out() {
    let closed = r#""openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]"#;
    check(
        &three("", &format!("window nights {{{closed}}}")),
        "node a Selected OutsideWindow ~ MutexWindow nights is closed
         node b Selected OutsideWindow
         > nothing",
    );
    check(
        &three(&format!("\"window\":{{{closed}}}"), ""),
        "node a Selected OutsideWindow ~ spec.mutex.window
         > nothing",
    );
    let dead = |settings: &str| {
        three(settings, "").replace("node b worker v0", "node b worker v0 NotReady dark:700")
    };
    check(&dead(""), "node b Selected NodeNotReady");
    check(
        &dead("\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":600"),
        "node b Skipped LeftOutNotReady",
    );
}

/// Settings that nobody understands begin no node; what is odd is said.
#[test]
fn bad_settings_of_a_node_version_begin_no_node_and_odd_ones_are_told() {
    let window = |hours: &str| format!("\"window\":{{{hours}}}");
    let freeze = r#""freezes":[{"name":"x","from":"2027-01-02T00:00:00Z","to":"2027-01-01T00:00:00Z"}]"#;
    for (settings, wanted) in [
        (
            window(r#""timeZone":"Mars/Base","openings":[{"days":["fri"]}]"#),
            "window.timeZone: found \"Mars/Base\"",
        ),
        (window(freeze), "window.freezes[0].to: found 2027-01-01T00:00:00Z"),
        (
            r#""waves":[{"nodes":"101%"}]"#.to_owned(),
            "waves[0].nodes: found \"101%\"",
        ),
        (
            r#""maxUnavailable":"101%""#.to_owned(),
            "maxUnavailable: found \"101%\"",
        ),
    ] {
        let expected = format!("hold InvalidField ~ {wanted}\n > nothing");
        check(&three(&settings, ""), &expected);
    }
    let monday = r#""openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]"#;
    let tuesday = format!("window nights {{{}}}", monday.replace("mon", "tue"));
    check(
        &three(&window(monday), &tuesday),
        "node a Selected NeverOpens ~ never open at once
         node c Selected NeverOpens
         > nothing",
    );
    let zones = r#""domains":{"key":"topology.kubernetes.io/zone","atOnce":1}"#;
    check(
        &three(zones, "").replace("node c worker v0 zone:z2", "node c worker v0"),
        "node c Selected NoDomain
         > admit a
         > admit b",
    );
    check(
        &three(
            r#""waves":[{"name":"none","nodeSelector":{"matchLabels":{"x":"y"}}}]"#,
            "",
        ),
        "note wave 1 (none) has no node, and nobody waits for it",
    );
    let zone = r#"{"name":"z1","nodeSelector":{"matchLabels":{"topology.kubernetes.io/zone":"z1"}}}"#;
    check(
        &three(&format!("\"waves\":[{CANARY},{zone}]"), ""),
        "note Node a is of wave 1 (canary) ~ of wave 2 (z1)
         > admit a",
    );
}

/// The wave in front of the others is not one of the fields that have the limits.
#[test]
fn a_control_plane_takes_no_limit_from_the_waves() {
    let lines = "node cp1 master v0 zone:z9\n host cp1 img2 group:cp
         node cp2 master v0 zone:z9\n host cp2 img2 group:cp\n node cp3 master v0 zone:z9\n host cp3 img2 group:cp
         group cp image:img2 role:ControlPlane\n groups w,cp";
    let all = |more: &str| format!("\"waves\":[{{\"nodeSelector\":{{}},\"approval\":\"Manual\",{more}}}]");
    let mut limited = Cluster::parse(&three(&all("\"maxUnavailable\":1"), lines));
    approve(&mut limited, 10, |_| {});
    assert_eq!(begun(&limited), "a");
    // 0 is no limit of so many: it lets nobody begin, who goes first among them.
    let behind = lines.replace("host cp1 img2", "host cp1 img1");
    let of = |limit: &str| {
        let settings = format!("\"waves\":[{{\"nodeSelector\":{{}},\"maxUnavailable\":{limit}}}]");
        Cluster::parse(&three(&settings, &behind))
    };
    assert_eq!(begun(&of("1")), "cp1");
    check_cluster(
        &of("0"),
        "node cp1 Selected MaxUnavailableZero ~ NodeVersion nv spec.mutex.waves[0].maxUnavailable is 0, which lets no node of the wave begin; whoever owns the object raises it with `kubectl edit nodeversion nv`
         > nothing",
    );
}

/// The machine is replaced, and what it runs is not as it shall be.
#[test]
fn a_rule_that_fails_after_the_change_counts_as_a_failure() {
    let failed = |settings: &str| {
        let mut cluster = Cluster::parse(&replaced(settings, "Held reason:RuleFailed"));
        for change in cluster.observed.changes.values_mut() {
            let last = change.status.entries.last().expect("an entry").clone();
            let of = |step: Step| Entry { step, ..last.clone() };
            let steps = [Step::Released, Step::Changed, Step::PostRules, Step::Held];
            change.status.entries = steps.map(of).to_vec();
        }
        cluster
    };
    for settings in [
        r#""failureBudget":1"#,
        r#""waves":[{"nodeSelector":{},"failureBudget":1}]"#,
    ] {
        let cluster = failed(settings);
        check_cluster(&cluster, "hold FailureBudgetSpent");
        assert_eq!(begun(&cluster), "", "{settings}");
    }
    check_cluster(
        &failed(r#""approval":{"afterFailure":"Manual"}"#),
        "node b Selected WaitsForApproval",
    );
}

/// A cluster is not to stand without its autoscaler for a freeze of two weeks, or until somebody comes to work.
#[test]
fn the_autoscaler_rests_only_while_a_node_may_begin() {
    let switched = |cluster: &Cluster| {
        let said = words(cluster, &decision(cluster));
        let switched = ["autoscaler on", "autoscaler off"].map(|way| format!("> {way}"));
        let mut said = said.into_iter().filter(|line| switched.contains(line));
        said.next().unwrap_or_default()
    };
    let closed = r#"{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#;
    let window = format!("window nights {closed}");
    assert_eq!(
        switched(&Cluster::parse(&three("", "strategy on"))),
        "> autoscaler off"
    );
    for text in [
        three("", &format!("{window}\n strategy")),
        three(r#""approval":{"begin":"Manual"}"#, "strategy"),
        format!(
            "{}\n strategy",
            replaced(&canary("\"soakSeconds\":600,"), "Done since:-60")
        ),
    ] {
        assert_eq!(switched(&Cluster::parse(&text)), "> autoscaler on", "{text}");
    }
    // Whom nobody waits for any more, and who is dead until somebody mends it, begins nothing.
    let dead = |settings: &str| {
        let text =
            three(settings, "strategy").replace("node b worker v0", "node b worker v0 NotReady dark:700");
        text.replace("host a img1", "host a img2")
            .replace("host c img1", "host c img2")
    };
    for settings in [
        "",
        r#""notReadyPolicy":"LeaveOutAfter","leaveOutAfterSeconds":600"#,
    ] {
        assert_eq!(
            switched(&Cluster::parse(&dead(settings))),
            "> autoscaler on",
            "{settings}"
        );
    }
    // Nothing begins before a person has made the group: it runs, and is not stopped either.
    let groupless = |strategy: &str| three("", strategy).replace("group w image:img2", "group v image:img2");
    assert_eq!(
        switched(&Cluster::parse(&groupless("strategy"))),
        "> autoscaler on"
    );
    assert_eq!(switched(&Cluster::parse(&groupless("strategy on"))), "");
    // A node may begin at any moment, and none does: it stays as it is.
    let busy = |strategy: &str| three("", strategy).replace(" worker v0", " worker v0 lease:remediation");
    for strategy in ["strategy", "strategy on"] {
        let found = switched(&Cluster::parse(&busy(strategy)));
        assert_eq!(found, "", "{strategy}");
    }
    // Another NodeVersion that may begin says when it runs again.
    let text = three(
        &format!("\"window\":{closed}"),
        "group other image:img2 of:other\n groups w,other\n strategy",
    );
    let mut two = Cluster::parse(&text.replace("host c img1", "host c img1 group:other"));
    assert_eq!(switched(&two), "> autoscaler on");
    let versions = &mut two.observed.fleet.versions;
    let mut other = versions.values().next().expect("one").clone();
    other.name = "other".to_owned();
    other.spec.mutex = None;
    versions.insert(other.name.clone(), other);
    assert_eq!(switched(&two), "");
    for node in two.observed.nodes.values_mut() {
        node.ready = false;
    }
    assert_eq!(switched(&two), "> autoscaler on", "nor does the other one");
    // Two that both wait for a person leave it to nobody.
    let text = three(
        r#""approval":{"begin":"Manual"}"#,
        "group other image:img2 of:other\n groups w,other\n strategy",
    );
    let mut two = Cluster::parse(&text.replace("host c img1", "host c img1 group:other"));
    let versions = &mut two.observed.fleet.versions;
    let mut other = versions.values().next().expect("one").clone();
    other.name = "other".to_owned();
    other.uid = "uid-other".to_owned();
    versions.insert(other.name.clone(), other);
    assert_eq!(switched(&two), "> autoscaler on");
}

/// The turn holds a place in every budget: nobody waits for a machine that is not made before Monday.
#[test]
fn a_turn_whose_machine_was_not_made_is_restored_when_the_hours_close() {
    let closed = r#""window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#;
    let text = three(closed, "replacing a PreRules machine:m-a\n pending request for:a");
    let mut cluster = Cluster::parse(&text);
    check_cluster(&cluster, "node a PreRules OutsideWindow");
    for change in cluster.observed.changes.values_mut() {
        change.status.closed_since = Some(at(-61).to_string());
    }
    check_cluster(&cluster, "node a Selected OutsideWindow");
}
