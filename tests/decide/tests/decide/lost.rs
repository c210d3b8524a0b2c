//! An object that lost a field in mid-run, or that is gone: the node is held with a reason. Nothing panics, and nothing is let go.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision, words},
};
use numo_api::{Step, machines::annotations, marks};
use numo_core::action::{Action, FleetAction, NodePurpose, PoolPurpose};
use numo_core::observed::{Key, NodeView};

/// A run in mid-flight at this step.
fn run(change: &str) -> Cluster {
    Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0
         rule before Pre,PreRelease
         run finalizer {{drainProbe: false}}
         change a {change}"
    ))
}

const RUN_STEPS: [&str; 4] = [
    "PreRules pin:4.17.0",
    "PreRules pin:4.17.0 verdict:before/Pre/1/Pass verdict:before/PreRelease/1/Pass",
    "PreRelease pin:4.17.0 verdict:before/Pre/1/Pass verdict:before/PreRelease/1/Pass",
    "Released pin:4.17.0 entries:PreRules,Released verdict:before/Pre/1/Pass verdict:before/PreRelease/1/Pass",
];

fn plan(step: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0
         node b worker 4.16.0
         plan concurrency:1 cordon finalizer
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
         {step}
         pods a
         pod web on a of:ReplicaSet/web"
    ))
}

const PLAN_STEPS: [&str; 3] = [
    "begun a PreRules\n keeps a",
    "begun a Cordoned\n keeps a cordoned done",
    "begun a Released boot:b1 entered:Cordoned\n keeps a cordoned done\n planjob a running",
];

fn maintenance(step: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0
         rule before Pre
         maintenance a finalizer rule:before phase:Running
         {step}
         pods a"
    ))
}

const MAINTENANCE_STEPS: [&str; 3] = [
    "kept a\n turn a PreRules",
    "kept a cordoned\n turn a Cordoned",
    "kept a cordoned\n turn a Drained",
];

fn version(step: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker v0\n node b worker v0
         version img2 finalizer
         host a img1 heir:b\n host b img2 donor:a
         group w image:img2\n groups w
         replacing a {step}
         pods a"
    ))
}

const VERSION_STEPS: [&str; 4] = [
    "PreRules",
    "Cordoned cordoned",
    "Drained cordoned",
    "PreRelease cordoned",
];

/// Every write of a decision that lets a node go, or opens one.
fn lets_go(cluster: &Cluster) -> Vec<String> {
    let found = decision(cluster);
    let lets_go = |action: &Action| match action {
        Action::PatchNode(patch) => matches!(patch.purpose, NodePurpose::Release | NodePurpose::Uncordon),
        Action::PatchPool(patch) => patch.purpose == PoolPurpose::Unpause,
        Action::CreatePlanJob(_) | Action::StartPlanJob { .. } => true,
        // A machine that goes, or one too many.
        Action::Fleet(action) => action.disrupts() || matches!(action, FleetAction::CreatePendingNode { .. }),
        Action::WriteJournal { key, status, .. } => {
            let known = cluster.observed.changes.get(key);
            let is_released = known.is_some_and(|change| change.status.step == Some(Step::Released));
            status.step == Some(Step::Released) && !is_released
        }
        _ => false,
    };
    let actions = found.actions.iter().filter(|planned| lets_go(&planned.action));
    actions.map(|planned| format!("{:?}", planned.action)).collect()
}

/// That the node of a decision waits for a reason, and nothing is let go.
fn holds(cluster: &Cluster, what: &str) {
    assert_eq!(lets_go(cluster), Vec::<String>::new(), "{what}");
    let found = decision(cluster);
    let node = found.report.nodes.get("a");
    let is_said = node.is_some_and(|node| !node.why.message.is_empty()) || found.report.hold.is_some();
    assert!(is_said, "{what}: {}", words(cluster, &found).join("\n"));
}

#[test]
fn a_node_without_labels_annotations_or_anything_else_is_held() {
    let all = RUN_STEPS
        .map(run)
        .into_iter()
        .chain(PLAN_STEPS.map(plan))
        .chain(MAINTENANCE_STEPS.map(maintenance));
    for (index, cluster) in all.enumerate() {
        let lose = |lose: fn(&mut numo_core::observed::NodeView)| {
            let mut cluster = cluster.clone();
            lose(cluster.observed.nodes.get_mut("a").expect("the node"));
            cluster
        };
        // The node whose next step is its release is let go on all that it had.
        for (what, cluster) in [
            ("labels", lose(|node| node.labels.clear())),
            (
                "annotations",
                lose(|node| {
                    node.annotations.clear();
                    node.has_annotations = false;
                }),
            ),
            (
                "all",
                lose(|node| {
                    node.labels.clear();
                    node.annotations.clear();
                    node.has_annotations = false;
                    node.taints = serde_json::Value::Null;
                    node.boot_id.clear();
                    node.kubelet_version.clear();
                    node.ready = false;
                    node.not_ready_since = None;
                }),
            ),
        ] {
            holds(&cluster, &format!("{index} without {what}"));
        }
    }
}

/// Its image, or its machine, is not known any more: it is neither opened nor let go, and gets no second machine.
#[test]
fn a_node_that_is_replaced_and_loses_what_says_its_version_is_held() {
    for step in VERSION_STEPS {
        let mut cluster = version(step);
        let node = cluster.observed.nodes.get_mut("a").expect("the node");
        node.annotations.remove(annotations::NODE_IMAGE);
        holds(&cluster, step);
        let mut cluster = version(step);
        let node = cluster.observed.nodes.get_mut("a").expect("the node");
        node.annotations.clear();
        node.has_annotations = false;
        holds(&cluster, step);
        let mut cluster = version(step);
        cluster.observed.fleet.hosts.clear();
        holds(&cluster, step);
    }
}

#[test]
fn a_pool_without_a_status_holds_the_nodes_that_have_a_turn() {
    for step in RUN_STEPS {
        let mut cluster = run(step);
        cluster
            .observed
            .pools
            .get_mut("worker")
            .expect("it")
            .config
            .clear();
        holds(&cluster, step);
        let found = words(&cluster, &decision(&cluster)).join("\n");
        assert!(
            !found.contains("attempt 2"),
            "what was asked stays asked: {found}"
        );
        assert!(
            found.contains("PoolNotRendered") || step.starts_with("Released"),
            "{found}"
        );
    }
}

#[test]
fn a_pool_that_is_gone_lets_nobody_go() {
    for step in RUN_STEPS {
        let mut cluster = run(step);
        cluster.observed.pools.clear();
        assert_eq!(lets_go(&cluster), Vec::<String>::new(), "{step}");
    }
}

#[test]
fn a_run_whose_target_vanished_lets_nobody_go() {
    let text = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule before Pre
         target t worker
         run finalizer {drainProbe: false, mutexTarget: {name: t}, mutexRules: [{name: before}]}
         change a PreRules pin:4.17.0 verdict:before/Pre/1/Pass";
    let mut cluster = Cluster::parse(text);
    check_cluster(&cluster, "> release a rendered-worker-4170");
    cluster.observed.targets.clear();
    holds(&cluster, "no target");
    check_cluster(&cluster, "problem TargetNotFound");
}

#[test]
fn a_plan_whose_version_vanished_holds_its_nodes() {
    for step in PLAN_STEPS {
        let mut cluster = plan(step);
        let view = cluster.observed.plans.values_mut().next().expect("a Plan");
        view.spec.version = None;
        view.status = numo_api::PlanStatus::default();
        holds(&cluster, step);
        check_cluster(&cluster, "hold VersionUnresolved");
    }
}

#[test]
fn a_rule_that_is_removed_while_its_job_runs_holds_the_node() {
    let job = "change a PreRules pin:4.17.0\n job before/Pre/1 of a running";
    let text = format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule before Pre
         run finalizer {{mutexRules: [{{name: before}}]}}
         {job}"
    );
    let mut cluster = Cluster::parse(&text);
    check_cluster(&cluster, "node a PreRules RuleRunning");
    cluster.observed.rules.clear();
    holds(&cluster, "run");
    check_cluster(&cluster, "problem RuleNotFound");
    for (text, reason) in [
        (
            "node a worker 4.16.0
             rule before Pre
             binding all spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"before\"}]}
             plan concurrency:1 finalizer
             begun a PreRules
             keeps a in-service",
            "RuleNotFound",
        ),
        (
            "node a worker 4.16.0
             rule before Pre
             maintenance a finalizer rule:before
             kept a
             turn a PreRules",
            "RuleNotFound",
        ),
    ] {
        let mut cluster = Cluster::parse(text);
        check_cluster(&cluster, "> job before/Pre/1 of a");
        cluster.observed.rules.clear();
        holds(&cluster, text);
        check_cluster(&cluster, &format!("node a PreRules {reason}"));
    }
}

/// A node whose rule is a binding's, in mid-turn: what the journal says of the rule.
fn bound(kind: &str, said: &str) -> Cluster {
    let owner = if kind == "Plan" {
        format!("plan concurrency:1 finalizer applying:a\n begun a PreRules {said}\n keeps a in-service")
    } else {
        format!("maintenance a finalizer\n kept a\n turn a PreRules {said}\n pods a")
    };
    let rules = "\"rules\":[{\"name\":\"before\"}]";
    Cluster::parse(&format!(
        "node a worker 4.16.0
         rule before Pre,PreRelease
         binding all spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},{rules}}}
         {owner}"
    ))
}

#[test]
fn a_binding_that_is_deleted_while_its_rule_has_not_passed_holds_the_node() {
    for kind in ["Plan", "NodeMaintenance"] {
        for said in [
            "verdict:before/Pre/1/Failure",
            // Its other phase was not asked yet.
            "verdict:before/Pre/1/Pass",
        ] {
            let mut cluster = bound(kind, said);
            cluster.observed.bindings.clear();
            holds(&cluster, kind);
            let words = "node a PreRelease RuleWithdrawn ~ MutexRule numo/before was evaluated for Node a in phase Pre, has not passed";
            check_cluster(&cluster, &format!("{words}\n > nothing"));
            // A rule that is gone with its binding says no more.
            cluster.observed.rules.clear();
            check_cluster(&cluster, &format!("{words}\n > nothing"));
        }
    }
}

#[test]
fn a_binding_that_is_deleted_while_the_job_of_its_rule_runs_holds_the_node() {
    for kind in ["Plan", "NodeMaintenance"] {
        let mut cluster = bound(kind, "");
        let decided = decision(&cluster);
        let job = decided.actions.iter().find_map(|planned| match &planned.action {
            Action::CreateJob(job) => Some(job.clone()),
            _ => None,
        });
        let job = job.expect("a Job");
        let run = cluster.observed.changes.values().next().expect("a journal");
        let run = run.spec.target.run_id.clone();
        let donor = Cluster::parse(
            "cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.16.0 turn\n rule before Pre\n run {}\n job before/Pre/1 of a running",
        );
        let mut view = donor.observed.jobs.values().next().cloned().expect("a Job");
        view.run = run;
        cluster.observed.jobs.insert(job.job, view);
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
        cluster.observed.bindings.clear();
        check_cluster(&cluster, "node a PreRelease RuleWithdrawn\n > nothing");
    }
}

#[test]
fn a_binding_whose_rules_have_all_passed_may_be_deleted() {
    let said = "verdict:before/Pre/1/Pass verdict:before/PreRelease/1/Pass";
    for (kind, goes_on) in [
        ("Plan", "> job a"),
        ("NodeMaintenance", "> cordon a with 2 taints"),
    ] {
        let mut cluster = bound(kind, said);
        check_cluster(&cluster, goes_on);
        cluster.observed.bindings.clear();
        check_cluster(&cluster, goes_on);
    }
}

#[test]
fn a_person_goes_on_without_a_rule_that_nobody_names_any_more() {
    let mut cluster = Cluster::parse(
        "node a worker 4.16.0
         rule before Pre
         maintenance a finalizer
         kept a
         turn a PreRules verdict:before/Pre/1/Failure retry generation:2
         pods a",
    );
    check_cluster(&cluster, "> journal a Admitted Admitting attempt 2");
    let change = cluster.observed.changes.values_mut().next().expect("a journal");
    change.spec.directive = None;
    change.status.attempt = 2;
    check_cluster(&cluster, "> cordon a with 2 taints");
}

#[test]
fn an_owner_that_is_gone_decides_nothing() {
    let mut cluster = run(RUN_STEPS[0]);
    cluster.observed.runs.remove(&Key::new("numo", "run"));
    assert_eq!(decision(&cluster).actions.len(), 0);
    check("node a worker 4.16.0\n maintenance a deleting", "> nothing");
}

/// The node of a cluster.
fn node(cluster: &mut Cluster) -> &mut NodeView {
    cluster.observed.nodes.get_mut("a").expect("node a")
}

/// The same cluster after somebody took the mark of the cordon off, or every annotation.
fn unmarked(mut cluster: Cluster, all: bool) -> Cluster {
    let found = &mut node(&mut cluster).annotations;
    if all {
        found.clear();
    } else {
        found.remove(marks::CORDONED_BY).expect("a mark");
    }
    cluster
}

/// The same cluster after the annotations of its node were written that are decided.
fn patched(mut cluster: Cluster) -> Cluster {
    for planned in decision(&cluster).actions {
        let Action::PatchNode(patch) = planned.action else {
            continue;
        };
        for change in patch.annotations {
            let found = &mut node(&mut cluster).annotations;
            match change.to {
                Some(value) => found.insert(change.key, value),
                None => found.remove(&change.key),
            };
        }
    }
    cluster
}

#[test]
fn a_node_of_a_plan_that_lost_its_mark_is_restored_in_the_end() {
    let complete = "begun a Released boot:b1 entered:Cordoned\n keeps a cordoned done\n planjob a complete";
    let restored = "> restore a uncordoned +p\n > journal a Done\n > release lease a";
    let drained = "begun a Drained entered:Cordoned\n keeps a cordoned done";
    for step in [PLAN_STEPS[1], PLAN_STEPS[2], drained] {
        for all in [false, true] {
            let lost = unmarked(plan(step), all);
            check_cluster(&lost, "> shield a\n > journal a");
            let mut end = plan(complete);
            *node(&mut end) = node(&mut patched(lost)).clone();
            check_cluster(&end, restored);
        }
    }
    // Also one that lost it once its Job was complete.
    let lost = unmarked(plan(complete), false);
    check_cluster(&lost, "> shield a\n > journal a");
    check_cluster(&patched(lost), restored);
    // Once the change is journaled the mark may have been taken off by numo: a cordon is a person's then.
    let changed = complete.replace("entered:Cordoned", "entered:Cordoned entered:Changed");
    check_cluster(
        &unmarked(plan(&changed), false),
        "not > shield a\n not > restore a uncordoned",
    );
}

#[test]
fn a_node_of_a_maintenance_that_lost_its_mark_is_restored_in_the_end() {
    for step in [MAINTENANCE_STEPS[1], MAINTENANCE_STEPS[2]] {
        for all in [false, true] {
            let lost = unmarked(maintenance(step), all);
            let deleted = |mut cluster: Cluster| {
                let view = cluster.observed.maintenances.values_mut().next().expect("it");
                view.deleting = true;
                cluster
            };
            let restored = "> uncordon a Some(false) with no taints";
            check_cluster(&deleted(lost.clone()), restored);
            // While it is kept the mark is put back, also where nothing may be begun.
            for more in ["", "budget all max:9 paused"] {
                let mut kept = unmarked(maintenance(&format!("{step}\n {more}")), all);
                check_cluster(&kept, "> shield a\n > journal a");
                if all {
                    kept = patched(kept);
                }
                kept = patched(kept);
                check_cluster(&kept, "not > shield a");
                check_cluster(&deleted(kept), restored);
            }
        }
    }
    let skipped = unmarked(
        maintenance("kept a cordoned\n turn a Drained skip generation:2"),
        false,
    );
    check_cluster(&skipped, "> uncordon a Some(false) with no taints");
}

/// A Job that was about to be made so long ago that it may have run, ended and gone before any numo has seen it.
const LONG_AGO: &str = "made:-2000 since:-2000";

#[test]
fn a_job_that_nobody_has_seen_is_lost_and_the_cordon_is_its() {
    let at = |plan: &str, turn: &str, keeps: &str| {
        Cluster::parse(&format!(
            "node a worker v0\n plan concurrency:1 finalizer {plan}\n begun a {turn}\n keeps a {keeps}"
        ))
    };
    let new = format!("new {LONG_AGO}");
    let lost = "node a Held JobLost\n ends a ClusterAdmin\n plan false JobFailed applying a\n > journal a Held JobLost";
    for (plan, keeps) in [
        ("applying:a", "in-service"),
        ("cordon applying:a", "cordoned"),
        ("drain applying:a", "cordoned"),
        // It may have rebooted the node before it did anything that is seen.
        ("cordon applying:a", ""),
        ("cordon applying:a", "prior"),
    ] {
        check_cluster(&at(plan, &new, keeps), lost);
        let before = format!("PreRelease {LONG_AGO}");
        check_cluster(&at(plan, &before, keeps), lost);
        // It goes by the attempt: a person's word for another is none for a third.
        let second = format!("Admitted attempt:2 {LONG_AGO}");
        check_cluster(&at(plan, &second, keeps), lost);
        // Whatever stands against the turn by now: it must not be forgotten.
        let stopped = format!("{plan} suspended");
        check_cluster(&at(&stopped, &new, keeps), lost);
    }
    // It goes on by a person's word, and gives the node back.
    let again = "Admitted attempt:2";
    let mut retried = at("cordon applying:a", again, "cordoned");
    let change = retried.observed.changes.values_mut().next().expect("a journal");
    let entry = |step, reason: Option<&str>| numo_api::Entry {
        at: crate::cluster::at(-90).to_string(),
        step,
        attempt: 1,
        reason: reason.map(str::to_owned),
    };
    let entries = &mut change.status.entries;
    entries.insert(0, entry(numo_api::Step::Held, Some("JobLost")));
    check_cluster(&retried, "> job a");
    // Another version does not take that cordon for a person's either.
    let mut newer = at(
        "cordon applying:a",
        &format!("new hash:old {LONG_AGO}"),
        "cordoned",
    );
    check_cluster(
        &newer,
        "> shield a\n > journal a Failed Superseded\n > release lease a",
    );
    newer = patched(newer);
    newer.observed.changes.clear();
    check_cluster(&newer, "> restore a uncordoned\n > release lease a\n > admit a");
}

/// Between the mark and the Job: as no ended Job can be gone yet, the cordon is a person's, and stays.
#[test]
fn a_persons_cordon_just_before_the_job_is_told_as_one() {
    for plan in ["cordon", "cordon applying:a", "drain applying:a"] {
        let mut cordoned = Cluster::parse(&format!(
            "node a worker v0\n plan concurrency:1 finalizer {plan}\n begun a new\n keeps a cordoned\n pods a"
        ));
        check_cluster(&cordoned, "> shield a\n not > journal a Held JobLost");
        cordoned = patched(cordoned);
        let mark = numo_core::mark::cordoned_by(node(&mut cordoned)).expect("a mark");
        assert!(mark.prior, "{plan}: it was there before");
    }
    check(
        "node a worker v0\n plan concurrency:1 finalizer cordon applying:a\n begun a new\n keeps a prior",
        "> job a",
    );
    check(
        "node a worker v0\n plan concurrency:1 finalizer cordon applying:a\n begun a new\n keeps a",
        "> job a",
    );
}

/// A Job is made only soon after something was journaled: so the journal tells how long one may be gone of which nobody knows.
#[test]
fn a_job_is_announced_where_the_journal_is_old() {
    let at = |plan: &str, turn: &str| {
        format!(
            "node a worker v0\n plan concurrency:1 finalizer {plan}\n begun a {turn}\n keeps a in-service"
        )
    };
    let told = "node a PreRelease UpgradeStarting\n > journal a PreRelease UpgradeStarting";
    // Its rules, or a window, took that long: no Job was about to be made.
    check(
        &at("", &format!("new {LONG_AGO}")),
        &format!("{told}\n not > job a"),
    );
    check(&at("", "new made:-500 since:-500"), told);
    check(&at("", "new made:-91 since:-91"), told);
    // It was, and cannot be gone by its TTL yet.
    check(&at("applying:a", "new made:-500 since:-500"), told);
    check(&at("applying:a", "new made:-89 since:-89"), "> job a");
    let announced = "PreRelease reason:UpgradeStarting made:-2000";
    check(&at("applying:a", announced), "> job a");
    // Time and again, while it cannot be made.
    check(
        &at(
            "applying:a",
            "PreRelease reason:UpgradeStarting made:-2000 since:-500",
        ),
        "node a PreRelease UpgradeStarting\n > journal a",
    );
    // Who keeps Jobs for longer hears of it later.
    let mut longer = Cluster::parse(&at("applying:a", &format!("new {LONG_AGO}")));
    longer.observed.settings.plan_jobs.ttl_seconds_after_finished = 7200;
    check_cluster(&longer, told);
}

/// The events of what is decided, once written into the journals that they come with.
fn events(cluster: &mut Cluster) -> Vec<String> {
    let found = decision(cluster);
    let mut events = Vec::new();
    for planned in found.actions {
        if let Action::WriteJournal { key, status, .. } = planned.action {
            cluster.observed.changes.get_mut(&key).expect("it").status = *status;
        }
        events.extend(
            planned
                .event
                .map(|event| format!("{} {}", event.reason, event.note)),
        );
    }
    events
}

/// Somebody has deleted it while numo was away, before numo journaled that it began: it runs once more, and people hear of it.
#[test]
fn a_job_that_is_gone_before_its_time_is_told_and_made_again() {
    for plan in ["", "cordon", "drain"] {
        let mut gone = Cluster::parse(&format!(
            "node a worker v0\n plan concurrency:1 finalizer {plan} applying:a\n begun a new made:-300 since:-300\n keeps a {}\n pods a\n drain a free",
            if plan.is_empty() { "in-service" } else { "" }
        ));
        let told = events(&mut gone);
        assert_eq!(told.len(), 1, "{plan}: {told:?}");
        assert!(told[0].starts_with("JobMissing Node a: "), "{told:?}");
        check_cluster(&gone, "> job a");
        // While it cannot be made it is told once.
        let change = gone.observed.changes.values_mut().next().expect("a journal");
        for entry in &mut change.status.entries {
            entry.at = crate::cluster::at(-100).to_string();
        }
        change.status.since = Some(crate::cluster::at(-100).to_string());
        assert_eq!(events(&mut gone), Vec::<String>::new(), "{plan}");
    }
    // A Job that was not about to be made is nothing to tell of.
    let text = "node a worker v0\n plan concurrency:1 finalizer\n begun a new made:-300 since:-300\n keeps a in-service";
    assert_eq!(events(&mut Cluster::parse(text)), Vec::<String>::new());
}

#[test]
fn a_job_that_nobody_has_seen_is_lost_where_numo_drains_too() {
    let plan = |plan: &str, step: &str| {
        Cluster::parse(&format!(
            "node a worker 4.16.0
             rule last PreRelease
             plan concurrency:1 drain finalizer {plan}
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
             begun a {step} {LONG_AGO}
             keeps a cordoned done
             pods a
             drain a free"
        ))
    };
    let lost = "node a Held JobLost\n > journal a Held JobLost";
    let told = "> journal a PreRelease UpgradeStarting";
    check_cluster(&plan("applying:a", "Drained entered:Cordoned"), lost);
    check_cluster(&plan("", "Drained entered:Cordoned"), told);
    // Where numo only cordons, the Job comes right after that.
    let mut cordons = plan("applying:a cordon", "Cordoned");
    let view = cordons.observed.plans.values_mut().next().expect("a Plan");
    view.spec.drain = None;
    check_cluster(&cordons, "node a Held JobLost");
    // While it is being drained no Job is next, whatever the status says.
    for more in ["", "applying:a"] {
        check_cluster(&plan(more, "Cordoned"), "> journal a Drained");
    }
    // Nor while its last rule has not passed.
    let asks = "spec {\"mutex\":{\"rules\":[{\"name\":\"last\",\"namespace\":\"numo\"}]}}";
    let mut asked = plan(&format!("applying:a {asks}"), "Drained entered:Cordoned");
    check_cluster(&asked, "> job last/PreRelease/1 of a");
    let passed = crate::cluster::verdict("last/PreRelease/1/Pass", 1);
    let change = asked.observed.changes.values_mut().next().expect("a journal");
    change.status.verdicts.push(passed);
    change.status.verdicts[0].at = crate::cluster::at(-1900).to_string();
    check_cluster(&asked, lost);
    // The Job that prepares comes first.
    let prepares = "spec {\"prepare\":{\"image\":\"i\"},\"upgrade\":{\"image\":\"u\"}}";
    let prepare = |applying: &str, step: &str| {
        let mut cluster = plan(&format!("{applying} {prepares}"), step);
        node(&mut cluster).unschedulable = false;
        cluster
    };
    check_cluster(&prepare("applying:a", "PreRules"), lost);
    check_cluster(&prepare("", "PreRules"), told);
    let prepared = "PreRules reason:Prepared";
    check_cluster(
        &prepare("applying:a", prepared),
        "> cordon a with the same taints",
    );
}

/// Nothing is done on the word of such a journal, and its Job is not forgotten over it.
#[test]
fn a_job_whose_journal_is_doubted_is_not_forgotten() {
    let doubted = |turn: &str, more: &str| {
        Cluster::parse(&format!(
            "node a worker v0\n plan concurrency:1 finalizer applying:a\n begun a {turn}\n keeps a in-service\n {more}"
        ))
    };
    let kept = "node a Held JournalContradicts\n plan false SyncJob applying a\n > nothing";
    let edited = |edit: fn(&mut numo_core::observed::ChangeView)| {
        let mut cluster = doubted("new", "planjob a running");
        edit(cluster.observed.changes.values_mut().next().expect("a journal"));
        cluster
    };
    check_cluster(&edited(|change| change.status.journal_version = 9), kept);
    check_cluster(
        &edited(|change| change.spec.owner_ref.name = "q".to_owned()),
        kept,
    );
    check_cluster(&edited(|change| change.status.attempt = -3), "not > job a");
    let mut twice = doubted("new", "planjob a running");
    let mut other = twice.observed.changes.values().next().expect("a journal").clone();
    other.key.name.push('x');
    other.uid.push('x');
    twice.observed.changes.insert(other.key.clone(), other);
    check_cluster(&twice, kept);
}
