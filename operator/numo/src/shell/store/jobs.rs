//! The Jobs of rules and of Plans, put together from the Jobs, their pods and their Events, in whatever order those come.

use super::{Store, replace};
use numo_core::observed::{JobView, Key, PlanJobView};

impl Store {
    pub(super) fn refresh_plan_job(&mut self, key: &Key) -> bool {
        let Some((job, left)) = self.plan_jobs.get(key) else {
            return false;
        };
        let pods = || self.plan_pods.values().filter(|pod| pod.job == *key);
        let events = self.job_events.values().filter(|(of, _)| of == key);
        let has_pods = pods().next().is_some();
        let trouble = pods().find_map(|pod| pod.trouble.clone());
        let by_event = events.map(|(_, trouble)| trouble.clone()).next_back();
        let runs = pods().find_map(|pod| pod.runs.clone());
        let trouble = trouble.or(by_event.filter(|_| !has_pods));
        // A pod that the Job counts and nobody sees may have been taken up.
        let all_seen = left.is_some_and(|left| left <= pods().count());
        let view = PlanJobView {
            untouched: all_seen && !pods().any(|pod| pod.taken_up),
            ..job.clone().with_pods(runs, trouble)
        };
        replace(&mut self.observed.plan_jobs, key.clone(), view)
    }

    pub(super) fn refresh_job(&mut self, key: &Key) -> bool {
        let Some(job) = self.jobs.get(key) else {
            return false;
        };
        let by_pod = self
            .pods
            .values()
            .filter(|(job, _)| job == key)
            .find_map(|(_, trouble)| trouble.clone());
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
        let trouble = by_pod.or_else(by_event);
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
