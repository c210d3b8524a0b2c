//! The Job controller: every Job runs for a random time and ends well, badly, at its deadline, or never.

use super::{Act, Event, Object, World};
use numo_api::Phase;
use numo_core::{
    action::JobRequest,
    observed::{JobEnd, JobView, Key, RuleView},
};

/// How long after its deadline somebody deletes a Job that does not end (seconds).
const DELETED_SECONDS: i64 = 7200;

/// A Job that was made, kept for the judge when the Job itself is long gone.
#[derive(Clone, Debug)]
pub struct Made {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// The rule.
    pub rule: Key,
    /// The edition of the rule that it was made from.
    pub edition: String,
    /// The phase.
    pub phase: Phase,
    /// The node, or empty.
    pub node: String,
    /// uid of the node when the Job was made.
    pub node_uid: String,
    /// Id of the run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: i32,
    /// When it was made.
    pub at: i64,
    /// When it was complete, if it was.
    pub completed: Option<i64>,
    /// Someone other than numo deleted it.
    pub deleted_by_others: bool,
}

impl World {
    /// A Job is created.
    pub(super) fn make_job(&mut self, request: &JobRequest) {
        let uid = format!("job-{}", self.serial());
        let key = request.job.clone();
        let rule = self.truth.rules.get(&request.rule);
        let edition = rule.map_or_else(String::new, RuleView::edition);
        let view = JobView {
            uid: uid.clone(),
            created: self.time(),
            deleting: None,
            run: request.run.clone(),
            node: numo_core::names::node_hash(&request.node),
            deadline_seconds: Some(request.timeout_seconds),
            rule: request.rule.to_string(),
            edition: edition.clone(),
            ended: None,
            ended_at: None,
            started: false,
            ttl_seconds: None,
            wanted_ttl_seconds: None,
            trouble: None,
        };
        self.truth.jobs.insert(key.clone(), view);
        self.touch(Object::Job(key.clone()));
        let node_uid = self
            .truth
            .nodes
            .get(&request.node)
            .map(|node| node.uid.clone())
            .unwrap_or_default();
        self.jobs_made.push(Made {
            key: key.clone(),
            uid: uid.clone(),
            rule: request.rule.clone(),
            edition,
            phase: request.phase,
            node: request.node.clone(),
            node_uid,
            run: request.run.clone(),
            attempt: request.attempt,
            at: self.now,
            completed: None,
            deleted_by_others: false,
        });
        if let Some(place) = self.place_of_rule(&request.node, &request.avoid) {
            self.add_job_pod(&place, (&key, &uid), &[], Some(request.timeout_seconds));
        }
        let start = self.pick(self.knobs.job_start);
        self.plan(start, Event::JobStarts(key.clone(), uid.clone()));
        let hangs = self.knobs.jobs_hanging;
        if self.chance(hangs) {
            // The Job controller ends it at its deadline, or is itself asleep.
            if self.chance(70) {
                self.plan(request.timeout_seconds, Event::JobEnds(key, uid));
            } else {
                // Somebody deletes it, hours after that.
                let late = request.timeout_seconds.saturating_add(DELETED_SECONDS);
                self.plan(late, Event::Act(Act::DeleteLateJob(key)));
            }
        } else {
            // It ends in its time, which counts from when it was made.
            let length = start + self.pick(self.knobs.job);
            self.plan(length.min(request.timeout_seconds), Event::JobEnds(key, uid));
        }
    }

    fn job(&mut self, key: &Key, uid: &str) -> Option<&mut JobView> {
        self.truth.jobs.get_mut(key).filter(|job| job.uid == uid)
    }

    pub(super) fn job_starts(&mut self, key: &Key, uid: &str) {
        let stuck = self.chance(self.knobs.jobs_failing / 4);
        let Some(job) = self.job(key, uid).filter(|job| job.ended.is_none()) else {
            return;
        };
        job.trouble = stuck.then(|| ("ImagePullBackOff".to_owned(), "back-off pulling image".to_owned()));
        job.started = !stuck;
        self.touch(Object::Job(key.clone()));
    }

    pub(super) fn job_ends(&mut self, key: &Key, uid: &str) {
        let failing = self.knobs.jobs_failing;
        let fails = self.chance(failing);
        let (now, time) = (self.now, self.time());
        let Some(job) = self.job(key, uid).filter(|job| job.ended.is_none()) else {
            return;
        };
        job.started = true;
        job.trouble = None;
        let end = if fails {
            JobEnd::Failed(
                "BackoffLimitExceeded".to_owned(),
                "Job has reached the specified backoff limit".to_owned(),
            )
        } else {
            JobEnd::Complete
        };
        job.ended = Some(end);
        job.ended_at = Some(time);
        let ttl = job.ttl_seconds;
        if !fails && let Some(made) = self.jobs_made.iter_mut().find(|made| made.uid == uid) {
            made.completed = Some(now);
        }
        self.end_job_pods(uid);
        self.touch(Object::Job(key.clone()));
        let words = if self.story.is_some() {
            crate::words::job(self, key)
        } else {
            String::new()
        };
        self.tell("cluster", || {
            format!("ends {words}: {}", if fails { "Failed" } else { "Complete" })
        });
        if let Some(ttl) = ttl {
            self.plan(ttl, Event::JobGoes(key.clone(), uid.to_owned()));
        }
    }

    /// The TTL of a Job was set.
    pub(super) fn job_freed(&mut self, key: &Key, uid: &str, seconds: i64) {
        let Some(job) = self.job(key, uid) else { return };
        job.ttl_seconds = Some(seconds);
        let ended = job.ended.is_some();
        self.touch(Object::Job(key.clone()));
        if ended {
            self.plan(seconds, Event::JobGoes(key.clone(), uid.to_owned()));
        }
    }

    pub(super) fn job_goes(&mut self, key: &Key, uid: &str) {
        if self.job(key, uid).is_some() {
            self.end_job_pods(uid);
            self.truth.jobs.remove(key);
            self.touch(Object::Job(key.clone()));
        }
    }
}
