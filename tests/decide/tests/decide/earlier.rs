//! A Job of a rule that still runs when the next attempt of its node, or its next turn, begins: it is waited for, whoever the owner is.
//! Beside it the node would be worked on twice at once.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{Directive, DirectiveAction, Phase, Reason, conditions::Actor};
use numo_core::{
    action::Action,
    names,
    observed::{ChangeView, JobEnd, JobView, Key},
};

/// A node of each kind of owner in its turn, whose rule is asked next.
const TURNS: [&str; 4] = [
    "cluster 4.17.0
     pool worker 4.17.0 ours
     node a worker 4.16.0 turn
     rule before Pre retries:1
     run finalizer {drainProbe: false}
     change a PreRules pin:4.17.0",
    "node a worker 4.16.0
     binding all spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"before\"}]}
     plan concurrency:1 finalizer applying:a
     rule before Pre retries:1
     begun a PreRules
     keeps a in-service",
    "node a worker 4.16.0
     maintenance a finalizer rule:before phase:Running
     rule before Pre retries:1
     kept a
     turn a PreRules
     pods a",
    "node a worker v0
     node b worker v0
     version img2 finalizer
     host a img1 heir:b
     host b img2 donor:a
     group w image:img2
     groups w
     binding all spec {\"ownerSelector\":{\"kind\":\"NodeVersion\"},\"rules\":[{\"name\":\"before\"}]}
     rule before Pre retries:1
     replacing a PreRules
     pods a",
];

fn journal(cluster: &mut Cluster) -> &mut ChangeView {
    cluster.observed.changes.values_mut().next().expect("a journal")
}

/// The cluster with the Job that is decided now, as it runs.
fn running(text: &str) -> (Cluster, Key) {
    let mut cluster = Cluster::parse(text);
    let decided = decision(&cluster);
    let job = decided.actions.iter().find_map(|planned| match &planned.action {
        Action::CreateJob(job) => Some(job.clone()),
        _ => None,
    });
    let job = job.unwrap_or_else(|| panic!("a Job: {text}\n{decided:#?}"));
    let view = JobView {
        uid: "job".to_owned(),
        created: at(-30),
        deleting: None,
        run: job.run.clone(),
        node: names::node_hash(&job.node),
        edition: String::new(),
        ended: None,
        ended_at: None,
        started: true,
        deadline_seconds: Some(job.timeout_seconds),
        ttl_seconds: None,
        wanted_ttl_seconds: None,
        trouble: None,
    };
    cluster.observed.jobs.insert(job.job.clone(), view);
    (cluster, job.job)
}

/// The same, and a person has had the node tried once more since.
fn retried(text: &str) -> (Cluster, Key) {
    let (mut cluster, key) = running(text);
    journal(&mut cluster).status.attempt = 2;
    (cluster, key)
}

fn job<'c>(cluster: &'c mut Cluster, key: &Key) -> &'c mut JobView {
    cluster.observed.jobs.get_mut(key).expect("the Job")
}

const END: fn() -> JobEnd = || JobEnd::Failed("BackoffLimitExceeded".to_owned(), String::new());

#[test]
fn a_retry_begins_nothing_beside_a_job_that_runs() {
    for text in TURNS {
        let (mut cluster, key) = running(text);
        let change = journal(&mut cluster);
        change.generation = 2;
        change.spec.directive = Some(Directive {
            action: DirectiveAction::Retry,
            reason: None,
            by: None,
        });
        let written = decision(&cluster).actions.into_iter();
        let mut status = written.filter_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(*status),
            _ => None,
        });
        let mut status = status.next_back().expect("the next attempt");
        assert_eq!(status.attempt, 2, "{text}");
        // As it goes on in a run.
        let pin = journal(&mut cluster).status.pin.clone();
        status.pin = status.pin.or(pin);
        journal(&mut cluster).status = status;
        let waits = format!("Job {key}, which began before this attempt of Node a");
        let found = decision(&cluster);
        let why = &found.report.nodes["a"].why;
        assert_eq!(why.reason, Reason::RuleRunning, "{text}: {}", why.message);
        assert!(why.message.contains(&waits), "{}", why.message);
        assert_eq!(found.actions, Vec::new(), "{text}");
    }
}

#[test]
fn a_job_of_an_earlier_attempt_is_waited_for_until_it_is_gone() {
    for text in TURNS {
        let (mut cluster, key) = retried(text);
        let waits =
            format!("node a PreRules RuleRunning ~ Job {key}, which began before this attempt of Node a");
        check_cluster(&cluster, &format!("{waits}\n > nothing"));
        assert_eq!(
            decision(&cluster).report.nodes["a"].why.who(),
            Actor::RuleAuthor,
            "{text}"
        );
        // Nobody else has the node under it.
        journal(&mut cluster).status.closed_since = Some(at(-600).to_string());
        check_cluster(&cluster, &format!("{waits}\n > nothing"));
        journal(&mut cluster).status.closed_since = None;
        // It is suspended, or its pod does not end.
        job(&mut cluster, &key).created = at(-1_000_000);
        let late = decision(&cluster).report.nodes["a"].why.clone();
        assert_eq!(late.who(), Actor::ClusterAdmin, "{text}: {}", late.message);
        assert!(late.message.contains("delete it"), "{}", late.message);
        for ended in [None, Some(END())] {
            let found = job(&mut cluster, &key);
            (found.deleting, found.ended) = (Some(at(-5)), ended);
            check_cluster(&cluster, "node a PreRules JobBeingDeleted\n > nothing");
        }
        for ended in [JobEnd::Complete, END()] {
            let found = job(&mut cluster, &key);
            (found.deleting, found.ended) = (None, Some(ended));
            check_cluster(&cluster, "> job before/Pre/1 of a");
        }
    }
}

/// It was skipped, or its version has changed: the Job was begun for another target, or for another owner.
#[test]
fn a_job_of_another_turn_of_the_node_is_waited_for() {
    for text in TURNS {
        let (mut cluster, key) = running(text);
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
        let mut view = cluster.observed.jobs.remove(&key).expect("the Job");
        "another".clone_into(&mut view.run);
        let key = Key::new("numo", "other-0123456789");
        cluster.observed.jobs.insert(key.clone(), view);
        check_cluster(
            &cluster,
            &format!("node a PreRules RuleRunning ~ Job {key}, which began before\n > nothing"),
        );
        job(&mut cluster, &key).node = names::node_hash("b");
        check_cluster(&cluster, "> job before/Pre/1 of a");
    }
}

#[test]
fn a_node_without_rules_is_not_let_go_beside_a_job_that_runs() {
    for text in TURNS {
        let (mut cluster, _) = retried(text);
        for rule in cluster.observed.rules.values_mut() {
            rule.phases = vec![Phase::Post];
        }
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
        cluster.observed.jobs.clear();
        assert!(!decision(&cluster).actions.is_empty(), "{text}");
    }
}

#[test]
fn a_retry_after_the_release_waits_too() {
    let text = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule before Post
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules
         job before/Post/1 of a running";
    let mut cluster = Cluster::parse(text);
    check_cluster(&cluster, "node a PostRules RuleRunning\n > nothing");
    journal(&mut cluster).status.attempt = 2;
    check_cluster(
        &cluster,
        "node a PostRules RuleRunning ~ which began before this attempt of Node a\n > nothing",
    );
}

/// It did not end in its time, and its verdict says so: the retry of the rule would do the work twice at once.
#[test]
fn the_next_attempt_of_a_rule_waits_for_a_job_that_does_not_end() {
    for text in TURNS {
        let (mut cluster, key) = running(text);
        job(&mut cluster, &key).created = at(-1_000_000);
        let written = decision(&cluster).actions.into_iter();
        let mut status = written.filter_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(*status),
            _ => None,
        });
        journal(&mut cluster).status = status.next_back().expect("a verdict");
        let words = format!("Job {key}, which began before");
        let found = decision(&cluster).report.nodes["a"].why.clone();
        assert!(found.message.contains(&words), "{text}: {}", found.message);
        assert_eq!(
            (found.reason, found.who()),
            (Reason::RuleRunning, Actor::ClusterAdmin)
        );
        job(&mut cluster, &key).ended = Some(END());
        let actions = decision(&cluster).actions;
        let begins = |action: &Action| matches!(action, Action::CreateJob(job) if job.attempt == 2);
        assert!(actions.iter().any(|planned| begins(&planned.action)), "{text}");
    }
}

#[test]
fn a_rule_of_the_run_that_is_asked_again_waits_for_its_job() {
    let text = |retried: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             rule start PreRun
             run finalizer {{}} {retried}
             job start/PreRun/1 of - running"
        )
    };
    check(&text(""), "hold RuleRunning\n > nothing");
    check(
        &text("retried 4.17.0/2"),
        "hold RuleRunning ~ which began before this attempt, or before its rule was edited\n > nothing",
    );
}
