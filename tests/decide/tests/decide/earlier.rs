//! A Job of a rule that still runs when the next attempt of its node, or its next turn, begins: it is waited for, whoever the owner is.
//! Beside it the node would be worked on twice at once.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{Directive, DirectiveAction, NodeChangeStatus, Phase, Reason, Step, conditions::Actor};
use numo_core::{
    action::Action,
    names,
    observed::{ChangeView, JobEnd, JobView, Key, RuleView, Validity},
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
        rule: job.rule.to_string(),
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

/// What is written to the journal, if anything is.
fn written(cluster: &Cluster) -> Option<NodeChangeStatus> {
    let written = decision(cluster).actions.into_iter();
    let mut status = written.filter_map(|planned| match planned.action {
        Action::WriteJournal { status, .. } => Some(*status),
        _ => None,
    });
    status.next_back()
}

/// The Job as it would be somewhere else, for another run or this one.
fn moved(cluster: &mut Cluster, key: &Key, to: &Key, run: Option<&str>) -> Key {
    let mut view = cluster.observed.jobs.remove(key).expect("the Job");
    if let Some(run) = run {
        run.clone_into(&mut view.run);
    }
    cluster.observed.jobs.insert(to.clone(), view);
    to.clone()
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
        // Nobody else has the node under it. What had closed the turn has ended: a wait that follows it has its own time.
        journal(&mut cluster).status.closed_since = Some(at(-600).to_string());
        check_cluster(&cluster, &waits);
        assert_eq!(written(&cluster).expect("a journal").closed_since, None, "{text}");
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

/// Whoever may create Jobs in a namespace that is watched and has no grant would hold the fleet.
#[test]
fn a_job_of_a_stranger_holds_no_node() {
    for text in TURNS {
        for run in [Some("another"), None] {
            for rule in ["numo/before", "stranger/own", "", "/", "numo/"] {
                let (mut cluster, key) = retried(text);
                let to = Key::new("stranger", "before-0123456789");
                let key = moved(&mut cluster, &key, &to, run);
                rule.clone_into(&mut job(&mut cluster, &key).rule);
                job(&mut cluster, &key).deadline_seconds = Some(i64::MAX);
                let begins = "> job before/Pre/1 of a";
                check_cluster(&cluster, begins);
                // Its namespace takes Jobs of the rule, and numo has never run one there.
                let from = ["numo".to_owned(), "stranger".to_owned()];
                cluster
                    .observed
                    .rule_jobs_from
                    .insert("stranger".to_owned(), from.into());
                check_cluster(&cluster, begins);
                // A rule of its own says that it runs there, and the API server that numo may not create it.
                let known = cluster.observed.rules.values().next().expect("a rule");
                let own = RuleView {
                    key: Key::new("stranger", "own"),
                    job_namespace: "stranger".to_owned(),
                    validity: Validity::Invalid(Reason::JobsForbidden, "spec.jobNamespace".to_owned()),
                    ..known.clone()
                };
                cluster.observed.rules.insert(own.key.clone(), own);
                check_cluster(&cluster, begins);
            }
        }
    }
}

#[test]
fn a_job_of_another_run_counts_if_its_rule_may_run_there_or_a_turn_of_the_node_has_its_run() {
    let begins = "> job before/Pre/1 of a";
    for text in TURNS {
        let (mut cluster, key) = running(text);
        let to = Key::new("numo", "other-0123456789");
        let key = moved(&mut cluster, &key, &to, Some("another"));
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
        // Its rule is gone, and nobody knows its run.
        "numo/gone".clone_into(&mut job(&mut cluster, &key).rule);
        check_cluster(&cluster, begins);
        // The rule takes none of another namespace than that which has it.
        let known = cluster.observed.rules.values().next().expect("a rule");
        let elsewhere = RuleView {
            key: Key::new("team", "before"),
            job_namespace: "team".to_owned(),
            ..known.clone()
        };
        cluster.observed.rules.insert(elsewhere.key.clone(), elsewhere);
        "team/before".clone_into(&mut job(&mut cluster, &key).rule);
        check_cluster(&cluster, begins);
        let in_team = Key::new("team", "other-0123456789");
        moved(&mut cluster, &key, &in_team, None);
        check_cluster(&cluster, "node a PreRules RuleRunning\n > nothing");
    }
}

/// An edit that lowers the time of a rule makes no Job one that is stuck: nobody is told to delete what may run for hours more.
#[test]
fn a_job_that_numo_made_is_waited_for_as_long_as_it_was_made_for() {
    for text in TURNS {
        let (mut cluster, key) = retried(text);
        job(&mut cluster, &key).deadline_seconds = Some(7200);
        for rule in cluster.observed.rules.values_mut() {
            rule.timeout_seconds = 300;
        }
        job(&mut cluster, &key).created = at(-7200);
        check_cluster(
            &cluster,
            "node a PreRules RuleRunning ~ comes to its end first\n > nothing",
        );
        job(&mut cluster, &key).created = at(-7300);
        check_cluster(
            &cluster,
            "node a PreRules RuleRunning ~ did not end within 7200 s: delete it",
        );
    }
}

/// Whoever writes a Job says how long it may take: the wait for one that numo may not have made is as long as its rule says.
#[test]
fn a_job_is_waited_for_as_long_as_its_rule_says() {
    for text in TURNS {
        let (mut cluster, key) = retried(text);
        let timeout = cluster
            .observed
            .rules
            .values()
            .next()
            .expect("a rule")
            .timeout_seconds;
        let written = Key::new(&key.namespace, "other-0123456789");
        moved(&mut cluster, &key, &written, None);
        let key = written;
        job(&mut cluster, &key).deadline_seconds = Some(timeout * 100);
        job(&mut cluster, &key).created = at(-timeout - 59);
        check_cluster(
            &cluster,
            "node a PreRules RuleRunning ~ comes to its end first\n > nothing",
        );
        job(&mut cluster, &key).created = at(-timeout - 60);
        check_cluster(
            &cluster,
            &format!("node a PreRules RuleRunning ~ did not end within {timeout} s: delete it"),
        );
    }
}

#[test]
fn a_turn_that_has_disrupted_nothing_is_closed_by_a_job_that_only_a_person_ends() {
    for text in TURNS {
        let (mut cluster, key) = retried(text);
        job(&mut cluster, &key).created = at(-1_000_000);
        let closed = written(&cluster).expect("a journal");
        assert_eq!(closed.closed_since, Some(at(0).to_string()), "{text}");
        journal(&mut cluster).status.closed_since = Some(at(-600).to_string());
        let restored = written(&cluster).expect("a journal");
        assert_eq!(restored.step, Some(Step::Selected), "{text}");
    }
}

#[test]
fn a_node_that_is_released_is_brought_to_its_end_beside_a_job_of_another_run() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule before Post
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules
         job before/Post/1 of a running",
    );
    let key = cluster.observed.jobs.keys().next().expect("a Job").clone();
    moved(
        &mut cluster,
        &key,
        &Key::new("numo", "other-0123456789"),
        Some("another"),
    );
    check_cluster(&cluster, "> job before/Post/1 of a");
}

/// A node of each kind of owner that has no turn, and would have it now.
const WAITING: [&str; 4] = [
    "cluster 4.17.0
     pool worker 4.17.0 ours
     node a worker 4.16.0
     rule before Pre
     run finalizer {drainProbe: false}",
    "node a worker 4.16.0
     binding all spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"before\"}]}
     plan concurrency:1 finalizer
     rule before Pre",
    "node a worker 4.16.0
     binding all spec {\"ownerSelector\":{\"kind\":\"NodeMaintenance\"},\"rules\":[{\"name\":\"before\"}]}
     maintenance a finalizer
     rule before Pre
     pods a",
    "node a worker v0
     version img2 finalizer
     host a img1
     group w image:img2
     groups w
     binding all spec {\"ownerSelector\":{\"kind\":\"NodeVersion\"},\"rules\":[{\"name\":\"before\"}]}
     rule before Pre
     pods a",
];

/// In a turn it would wait with its slot, budget and lease.
#[test]
fn a_node_has_no_turn_while_a_job_runs_on_it() {
    for text in WAITING {
        let mut cluster = Cluster::parse(text);
        let said = |cluster: &Cluster| {
            let report = decision(cluster).report.nodes["a"].clone();
            (report.step, report.why.reason)
        };
        let begun = said(&cluster);
        assert_ne!(begun.1, Reason::RuleRunning, "{text}");
        let writes = decision(&cluster).actions.len();
        assert!(writes > 0, "its turn begins: {text}\n{begun:?}");
        let view = JobView {
            uid: "job".to_owned(),
            created: at(-30),
            run: "another".to_owned(),
            node: names::node_hash("a"),
            rule: "numo/before".to_owned(),
            started: true,
            ..JobView::default()
        };
        let key = Key::new("numo", "other-0123456789");
        cluster.observed.jobs.insert(key.clone(), view);
        let rule = cluster.observed.rules.values().next().expect("a rule");
        let end = at(rule.timeout_seconds + 30);
        let waits = format!("node a Selected RuleRunning ~ Job {key}, which began before");
        check_cluster(&cluster, &waits);
        let found = decision(&cluster);
        assert!(found.wake_at.is_some_and(|wake| wake <= end), "{text}");
        let admits = |action: &Action| matches!(action, Action::CreateChange { .. });
        assert!(
            !found.actions.iter().any(|planned| admits(&planned.action)),
            "{text}"
        );
        job(&mut cluster, &key).created = at(-1_000_000);
        check_cluster(&cluster, "node a Selected RuleRunning ~ delete it");
        assert_eq!(
            decision(&cluster).report.nodes["a"].why.who(),
            Actor::ClusterAdmin
        );
        job(&mut cluster, &key).ended = Some(END());
        assert_eq!(said(&cluster), begun, "{text}");
    }
}

/// The wait for another Job, or for a gate, was no refusal: a quota may be full for a moment.
#[test]
fn a_refused_job_has_its_time_from_its_first_refusal() {
    for text in TURNS {
        let text = text.replace("PreRules", "PreRules since:-100000");
        let mut cluster = Cluster::parse(&text);
        let waiting = |cluster: &Cluster| {
            let created = decision(cluster)
                .actions
                .into_iter()
                .find_map(|planned| match planned.action {
                    Action::CreateJob(job) => Some(job.job),
                    _ => None,
                });
            created.expect("a Job")
        };
        let key = waiting(&cluster);
        let timeout = cluster
            .observed
            .rules
            .values()
            .next()
            .expect("a rule")
            .timeout_seconds;
        let refused = |at: i64, since: i64| numo_core::observed::Refusal {
            code: 403,
            message: "exceeded quota".to_owned(),
            at: crate::cluster::at(at),
            since: crate::cluster::at(since),
        };
        cluster.observed.refusals.insert(key.clone(), refused(-1, -10));
        check_cluster(&cluster, "node a PreRules RuleJobCannotStart\n > nothing");
        cluster
            .observed
            .refusals
            .insert(key.clone(), refused(-1, -timeout - 1));
        assert_eq!(written(&cluster).expect("a verdict").verdicts.len(), 1, "{text}");
        // It was refused long ago, and waited for something else since.
        cluster
            .observed
            .refusals
            .insert(key.clone(), refused(-timeout * 2, -timeout * 3));
        assert_eq!(waiting(&cluster), key);
    }
}

#[test]
fn a_closed_turn_whose_rule_failed_names_the_job_that_it_waits_for() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule before Pre
         rule after OnFailure
         run finalizer {drainProbe: false, suspend: true}
         change a PreRules pin:4.17.0 verdict:before/Pre/1/Failure
         job before/Pre/1 of a running",
    );
    let key = cluster.observed.jobs.keys().next().expect("a Job").clone();
    let key = moved(
        &mut cluster,
        &key,
        &Key::new("numo", "other-0123456789"),
        Some("another"),
    );
    check_cluster(
        &cluster,
        &format!("node a Held RuleRunning ~ Job {key}, which began before"),
    );
}

/// numo has no right there any more, or the API server does not answer: the Job may run, and its verdict is open.
#[test]
fn a_turn_whose_job_may_run_unseen_stays_as_it_is() {
    for text in TURNS {
        for validity in [
            Validity::Valid,
            Validity::Unknown,
            Validity::Invalid(Reason::JobsForbidden, "numo may not".to_owned()),
        ] {
            let mut cluster = Cluster::parse(text);
            journal(&mut cluster).status.closed_since = Some(at(-600).to_string());
            for rule in cluster.observed.rules.values_mut() {
                rule.validity = validity.clone();
                rule.unseen = Some("jobs of namespace numo cannot be listed since then: 403".to_owned());
            }
            let stays = "node a PreRules ListFailed ~ jobs of namespace numo cannot be listed";
            check_cluster(&cluster, &format!("{stays}\n > nothing"));
        }
    }
}

#[test]
fn an_owner_names_what_keeps_its_rule_from_being_judged() {
    let text = "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         rule before Pre unjudged unseen
         run {}";
    let report = format!("{:?}", decision(&Cluster::parse(text)).report);
    assert!(report.contains("cannot be listed since then"), "{report}");
}
