//! A rule that somebody edits while it is asked for a node: its Job that runs is waited for, wherever it is, and a phase that is taken out
//! of it lets nothing go.

use crate::{
    cluster::{Cluster, at, now},
    words::{check_cluster, decision},
};
use numo_api::{Phase, conditions::Actor, marks};
use numo_core::{
    Snapshot,
    action::Action,
    invariant, names,
    observed::{JobEnd, JobView, Key, RuleView},
};

const KINDS: [&str; 3] = ["MutexRunConfig", "Plan", "NodeMaintenance"];

/// A node of an owner of this kind in mid-turn, which the rule `before` is asked for.
fn turn(kind: &str, said: &str) -> Cluster {
    let rules = "\"rules\":[{\"name\":\"before\"}]";
    let bound = format!("binding all spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},{rules}}}");
    let owner = match kind {
        "Plan" => format!(
            "{bound}\n plan concurrency:1 finalizer applying:a\n begun a PreRules {said}\n keeps a in-service"
        ),
        "NodeMaintenance" => {
            format!("{bound}\n maintenance a finalizer\n kept a\n turn a PreRules {said}\n pods a")
        }
        _ => format!("run finalizer {{drainProbe: false}}\n change a PreRules pin:4.17.0 {said}"),
    };
    let pool = if kind == "MutexRunConfig" {
        "cluster 4.17.0\n pool worker 4.17.0 ours"
    } else {
        ""
    };
    let shielded = if pool.is_empty() { "" } else { "turn" };
    Cluster::parse(&format!(
        "{pool}\n node a worker 4.16.0 {shielded}\n rule before Pre retries:1\n {owner}"
    ))
}

fn rule(cluster: &mut Cluster) -> &mut RuleView {
    let rule = cluster.observed.rules.get_mut(&Key::new("numo", "before"));
    rule.expect("the rule")
}

/// The same cluster with the Job that is decided now, as it runs.
fn running(mut cluster: Cluster) -> (Cluster, Key) {
    let decided = decision(&cluster);
    let job = decided.actions.iter().find_map(|planned| match &planned.action {
        Action::CreateJob(job) => Some(job.clone()),
        _ => None,
    });
    let job = job.expect("a Job");
    let view = JobView {
        uid: "job".to_owned(),
        created: at(-30),
        deleting: None,
        run: job.run.clone(),
        node: names::node_hash(&job.node),
        rule: job.rule.to_string(),
        deadline_seconds: Some(job.timeout_seconds),
        edition: rule(&mut cluster).edition(),
        ended: None,
        ended_at: None,
        started: true,
        ttl_seconds: None,
        wanted_ttl_seconds: None,
        trouble: None,
    };
    cluster.observed.jobs.insert(job.job.clone(), view);
    (cluster, job.job)
}

fn job<'c>(cluster: &'c mut Cluster, key: &Key) -> &'c mut JobView {
    cluster.observed.jobs.get_mut(key).expect("the Job")
}

/// What somebody may make of the rule that gives its Job another place.
const MOVES: [fn(&mut RuleView); 2] = [
    |rule| "other".clone_into(&mut rule.job_namespace),
    |rule| "renamed".clone_into(&mut rule.job_name),
];

#[test]
fn a_job_that_runs_is_waited_for_wherever_its_rule_has_it_by_now() {
    for kind in KINDS {
        for move_it in MOVES {
            let (mut cluster, key) = running(turn(kind, ""));
            check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
            move_it(rule(&mut cluster));
            rule(&mut cluster).generation += 1;
            let waits = format!(
                "node a PreRules RuleRunning ~ Job {key}, which began before this attempt of Node a, or before its"
            );
            check_cluster(&cluster, &format!("{waits}\n > nothing"));
            job(&mut cluster, &key).deleting = Some(at(-5));
            check_cluster(&cluster, "node a PreRules JobBeingDeleted\n > nothing");
            // Once it has ended the rule is asked as it is now, whatever that one says: anybody may have made it.
            for end in [
                JobEnd::Complete,
                JobEnd::Failed("BackoffLimitExceeded".to_owned(), String::new()),
            ] {
                let found = job(&mut cluster, &key);
                (found.deleting, found.ended) = (None, Some(end));
                check_cluster(&cluster, "> job before/Pre/1 of a");
            }
        }
    }
}

/// Its own deadline does not end one that is suspended, or whose pod does not end.
#[test]
fn a_job_of_an_edited_rule_that_does_not_end_is_a_persons() {
    for kind in KINDS {
        let (mut cluster, key) = running(turn(kind, ""));
        MOVES[0](rule(&mut cluster));
        let who = |cluster: &Cluster| decision(cluster).report.nodes["a"].why.who();
        assert_eq!(who(&cluster), Actor::RuleAuthor, "{kind}");
        let timeout = rule(&mut cluster).timeout_seconds;
        job(&mut cluster, &key).created = at(-timeout - 60);
        let words = format!(
            "{key}, which began before this attempt of Node a, or before its rule was edited, did not end within"
        );
        check_cluster(
            &cluster,
            &format!("node a PreRules RuleRunning ~ {words}\n > journal a closed"),
        );
        assert_eq!(who(&cluster), Actor::ClusterAdmin, "{kind}");
    }
}

/// The last look, whatever was decided.
#[test]
fn no_second_job_of_an_attempt_is_written_while_one_runs() {
    for move_it in MOVES {
        let mut moved = turn("MutexRunConfig", "");
        move_it(rule(&mut moved));
        let owner = moved.owner();
        let mut decided = decision(&moved);
        let (first, _) = running(turn("MutexRunConfig", ""));
        moved.observed.jobs = first.observed.jobs;
        let seen = Snapshot {
            now: now(),
            observed: &moved.observed,
            owner: &owner,
            asked: None,
        };
        let breaches = invariant::lint(&seen, &mut decided);
        assert_eq!(breaches.len(), 1, "{breaches:#?}");
        assert!(
            !decided
                .actions
                .iter()
                .any(|planned| matches!(planned.action, Action::CreateJob(_)))
        );
    }
}

#[test]
fn a_rule_whose_phase_is_taken_out_of_it_lets_nothing_go() {
    let words = "RuleWithdrawn ~ its spec.phases has Pre no more: put that back, or `numo retry a`";
    for kind in KINDS {
        // A retry is left.
        let mut failed = turn(kind, "verdict:before/Pre/1/Failure");
        check_cluster(&failed, "> job before/Pre/2 of a");
        rule(&mut failed).phases = vec![Phase::Post];
        check_cluster(&failed, &format!("node a PreRelease {words}\n > nothing"));
        // Its Job runs, or has failed and nobody has read that.
        let (mut cluster, key) = running(turn(kind, ""));
        rule(&mut cluster).phases = vec![Phase::Post];
        for end in [
            None,
            Some(JobEnd::Failed("BackoffLimitExceeded".to_owned(), String::new())),
        ] {
            job(&mut cluster, &key).ended = end;
            check_cluster(&cluster, &format!("node a PreRelease {words}\n > nothing"));
        }
        // What has passed holds nobody.
        job(&mut cluster, &key).ended = Some(JobEnd::Complete);
        assert!(!decision(&cluster).actions.is_empty(), "{kind}");
        let mut passed = turn(kind, "verdict:before/Pre/1/Pass");
        rule(&mut passed).phases = vec![Phase::Post];
        assert!(!decision(&passed).actions.is_empty(), "{kind}");
    }
}

/// Another gate would give the turn back after a minute, and the next turn would know nothing of the rule.
#[test]
fn a_turn_with_a_rule_that_is_asked_no_more_is_not_restored_for_another_gate() {
    let mut cluster = turn("Plan", "verdict:before/Pre/1/Failure closed:99");
    let plan = cluster.observed.plans.values_mut().next().expect("the Plan");
    plan.annotations
        .insert(marks::SUSPEND.to_owned(), "me".to_owned());
    rule(&mut cluster).phases = vec![Phase::Post];
    check_cluster(&cluster, "node a PreRelease RuleWithdrawn\n > nothing");
}

#[test]
fn a_rule_that_runs_no_jobs_any_more_is_asked_once_its_job_has_ended() {
    for kind in KINDS {
        let (mut cluster, key) = running(turn(kind, ""));
        let edited = rule(&mut cluster);
        (edited.is_evaluated, edited.has_job) = (true, false);
        edited.generation += 1;
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
        job(&mut cluster, &key).ended = Some(JobEnd::Complete);
        check_cluster(
            &cluster,
            "node a PreRules RuleStarting ~ is being evaluated\n > nothing",
        );
    }
}

#[test]
fn a_job_after_the_release_is_waited_for_too() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule before Post
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules
         job before/Post/1 of a running",
    );
    check_cluster(&cluster, "node a PostRules RuleRunning\n > nothing");
    rule(&mut cluster).phases = vec![Phase::Pre];
    check_cluster(
        &cluster,
        "node a PostRules RuleRunning ~ or before its rule was edited, comes to its end first\n > nothing",
    );
}
