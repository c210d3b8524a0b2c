//! The Jobs of rules and of Plans, put together from the Jobs, their pods and their Events, in whatever order those come.

use super::{Store, replace};
use crate::shell::watched::object::{JobPodView, PlanPodView};
use jiff::Timestamp;
use numo_core::observed::{JobView, Key, PlanJobView};

/// Events of Jobs that are kept, at most: one for each Job.
const JOB_EVENTS: usize = 10_000;

/// What keeps a pod, or a Job without one, from starting: reason and message.
type Trouble = (String, String);

impl Store {
    /// Takes in a rule's Job.
    pub(in crate::shell) fn put_job(&mut self, key: &Key, job: JobView) -> bool {
        self.jobs.insert(key.clone(), job);
        self.refresh_job(key)
    }

    /// Takes a rule's Job away.
    pub(in crate::shell) fn remove_job(&mut self, key: &Key) -> bool {
        self.jobs.remove(key);
        self.refresh_job(key)
    }

    /// Takes in a pod of a rule's Job.
    pub(in crate::shell) fn put_pod_of_job(&mut self, key: Key, pod: JobPodView) -> bool {
        let job = pod.job.clone();
        self.pods.insert(key, pod);
        self.refresh_job(&job)
    }

    /// Takes a pod of a rule's Job away.
    pub(in crate::shell) fn remove_pod_of_job(&mut self, key: &Key) -> bool {
        let pod = self.pods.remove(key);
        pod.is_some_and(|pod| self.refresh_job(&pod.job))
    }

    /// Takes in why a Job has no pod, in place of what was said of it before.
    pub(in crate::shell) fn put_job_event(&mut self, event: Key, job: &Key, trouble: Trouble) -> bool {
        let of_job = self.event_of.insert(job.clone(), event.clone());
        if let Some(before) = of_job.filter(|before| *before != event) {
            self.job_events.remove(&before);
        } else if self.job_events.len() >= JOB_EVENTS {
            // Who writes so many leaves Jobs without the words why they have no pods.
            self.event_of.remove(job);
            return false;
        }
        self.job_events.insert(event, (job.clone(), trouble));
        self.refresh_plan_job(job) | self.refresh_job(job)
    }

    /// Takes an Event away.
    pub(in crate::shell) fn remove_job_event(&mut self, key: &Key) -> bool {
        let job = self.job_events.remove(key);
        job.is_some_and(|(job, _)| {
            self.event_of.remove(&job);
            self.refresh_plan_job(&job) | self.refresh_job(&job)
        })
    }

    /// Takes in a Plan's Job, with the number of pods that it has by its own status.
    pub(in crate::shell) fn put_plan_job(
        &mut self,
        key: &Key,
        job: PlanJobView,
        pods: Option<usize>,
    ) -> bool {
        self.plan_jobs.insert(key.clone(), (job, pods));
        self.refresh_plan_job(key)
    }

    /// Takes a Plan's Job away.
    pub(in crate::shell) fn remove_plan_job(&mut self, key: &Key) -> bool {
        self.plan_jobs.remove(key);
        self.observed.plan_jobs.remove(key).is_some()
    }

    /// Takes in a pod of a Plan's Job.
    pub(in crate::shell) fn put_plan_pod(&mut self, key: Key, pod: PlanPodView) -> bool {
        let job = pod.job.clone();
        self.plan_pods.insert(key, pod);
        self.refresh_plan_job(&job)
    }

    /// Takes a pod of a Plan's Job away.
    pub(in crate::shell) fn remove_plan_pod(&mut self, key: &Key) -> bool {
        let pod = self.plan_pods.remove(key);
        pod.is_some_and(|pod| self.refresh_plan_job(&pod.job))
    }

    fn refresh_plan_job(&mut self, key: &Key) -> bool {
        let Some((job, left)) = self.plan_jobs.get(key) else {
            return false;
        };
        let pods = || self.plan_pods.values().filter(|pod| pod.job == *key);
        let events = self.job_events.values().filter(|(of, _)| of == key);
        let has_pods = pods().next().is_some();
        let trouble = pods().find_map(|pod| pod.trouble.clone());
        let by_event = events.map(|(_, trouble)| trouble.clone()).next_back();
        let runs = pods().find_map(|pod| pod.runs.clone());
        let trouble = trouble
            .or(by_event.filter(|_| !has_pods))
            .or_else(|| job.trouble.clone());
        // A pod that the Job counts and nobody sees may have been taken up.
        let all_seen = left.is_some_and(|left| left <= pods().count());
        let view = PlanJobView {
            untouched: all_seen && !pods().any(|pod| pod.taken_up),
            ..job.clone().with_pods(runs, trouble)
        };
        replace(&mut self.observed.plan_jobs, key.clone(), view)
    }

    fn refresh_job(&mut self, key: &Key) -> bool {
        let mut pods = self.pods.values().filter(|pod| pod.job == *key);
        let Some(job) = self.jobs.get(key) else {
            // A Job that was deleted goes at once, and its pods after it, in their own time.
            let Some(pod) = pods.find(|pod| !pod.is_over) else {
                return self.observed.jobs.remove(key).is_some();
            };
            // Until the pod is deleted too, all that tells is when the Job was first seen to be gone.
            let known = self.observed.jobs.get(key);
            let since = pod.deleting.or_else(|| known?.deleting);
            let rule = known.map_or_else(String::new, |job| job.rule.clone());
            let gone = outlived(pod, rule, since.unwrap_or_else(Timestamp::now));
            return replace(&mut self.observed.jobs, key.clone(), gone);
        };
        let by_pod = pods.find_map(|pod| pod.trouble.clone());
        let by_event = || {
            let created = self
                .job_events
                .values()
                .filter(|(job, _)| job == key)
                .map(|(_, trouble)| trouble);
            if job.started {
                None
            } else {
                created.into_iter().next_back().cloned()
            }
        };
        let trouble = by_pod.or_else(by_event).or_else(|| job.trouble.clone());
        replace(
            &mut self.observed.jobs,
            key.clone(),
            JobView {
                trouble,
                ..job.clone()
            },
        )
    }
}

/// A rule's Job that is gone, while a pod of it still runs, since then.
fn outlived(pod: &JobPodView, rule: String, since: Timestamp) -> JobView {
    JobView {
        rule,
        uid: String::new(),
        created: Timestamp::UNIX_EPOCH,
        deleting: Some(since),
        run: pod.run.clone(),
        node: pod.node.clone(),
        edition: String::new(),
        ended: None,
        ended_at: None,
        started: true,
        deadline_seconds: None,
        ttl_seconds: None,
        wanted_ttl_seconds: None,
        trouble: None,
    }
}
