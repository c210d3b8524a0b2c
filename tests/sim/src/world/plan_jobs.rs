//! Jobs of Plans: their pods run on the node itself, cordon it, drain it, upgrade it and may reboot it; they end well,
//! badly, or at their deadline. A finished Job goes after its TTL.

use super::{Event, Fault, Object, World};
use numo_api::marks;
use numo_core::{
    action::{PlanJobRequest, PlanParts},
    observed::{JobEnd, Key, PlanJobView},
};

/// When a Job is ended that is not done (seconds).
const DEADLINE: i64 = 3600;
/// How long a finished Job stays (seconds).
const TTL: i64 = 900;
/// How soon a Job looks again at what it waits for (seconds).
const LOOK: i64 = 10;

/// A Job of a Plan that was made, kept for the judge when the Job itself is long gone.
#[derive(Clone, Debug)]
pub struct PlanJobMade {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// The Plan.
    pub plan: Key,
    /// Name of the node.
    pub node: String,
    /// uid of the node when the Job was made.
    pub node_uid: String,
    /// The version.
    pub version: String,
    /// The hash.
    pub hash: String,
    /// What of the Plan it runs.
    pub parts: PlanParts,
    /// When it was made.
    pub at: i64,
    /// When it was complete, if it was.
    pub completed_at: Option<i64>,
    /// Someone other than numo deleted it.
    pub deleted_by_others: bool,
    stage: Stage,
}

/// How far the pod of a Job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Preparing,
    Cordoning,
    Draining,
    Upgrading,
    Rebooting,
}

impl World {
    /// A Job of a Plan is created, and runs.
    pub(super) fn make_plan_job(&mut self, request: &PlanJobRequest) {
        let uid = format!("job-{}", self.serial());
        let node_uid = self.truth.nodes.get(&request.node).map(|node| node.uid.clone());
        let plan_uid = self.truth.plans.get(&request.plan).map(|plan| plan.uid.clone());
        let view = PlanJobView {
            uid: uid.clone(),
            plan_uid: plan_uid.unwrap_or_default(),
            plan: request.plan.name.clone(),
            node: request.node.clone(),
            version: request.version.clone(),
            hash: request.hash.clone(),
            prepares: request.parts == PlanParts::Prepare,
            created: self.time(),
            deleting: None,
            paused: false,
            ended: None,
            ended_at: None,
            runs: None,
            trouble: None,
            untouched: true,
        };
        self.truth.plan_jobs.insert(request.job.clone(), view);
        self.touch(Object::PlanJob(request.job.clone()));
        self.plan_jobs_made.push(PlanJobMade {
            key: request.job.clone(),
            uid: uid.clone(),
            plan: request.plan.clone(),
            node: request.node.clone(),
            node_uid: node_uid.unwrap_or_default(),
            version: request.version.clone(),
            hash: request.hash.clone(),
            parts: request.parts,
            at: self.now,
            completed_at: None,
            deleted_by_others: false,
            stage: Stage::Waiting,
        });
        if self.truth.nodes.contains_key(&request.node) {
            let job = (&request.job, uid.as_str());
            self.add_job_pod(&request.node, job, &[marks::PLAN_CONTROLLER], None);
        }
        let start = self.pick(self.knobs.job_start);
        self.plan(start, Event::PlanJob(request.job.clone(), uid));
    }

    fn made(&mut self, uid: &str) -> Option<&mut PlanJobMade> {
        self.plan_jobs_made.iter_mut().rfind(|made| made.uid == uid)
    }

    fn plan_job(&mut self, key: &Key, uid: &str) -> Option<&mut PlanJobView> {
        self.truth.plan_jobs.get_mut(key).filter(|job| job.uid == uid)
    }

    /// The Job is on its way out; its pod ends with it.
    pub(super) fn delete_plan_job(&mut self, key: &Key, uid: &str) -> bool {
        let delay = self.pick((0, 5));
        let now = self.time();
        let Some(job) = self.plan_job(key, uid) else {
            return false;
        };
        job.deleting = Some(now);
        self.plan(delay, Event::PlanJobGoes(key.clone(), uid.to_owned()));
        self.touch(Object::PlanJob(key.clone()));
        true
    }

    pub(super) fn plan_job_goes(&mut self, key: &Key, uid: &str) {
        if self.plan_job(key, uid).is_some() {
            self.end_job_pods(uid);
            self.truth.plan_jobs.remove(key);
            self.touch(Object::PlanJob(key.clone()));
        }
    }

    /// The Job looks what it can do next.
    pub(super) fn plan_job_steps(&mut self, key: &Key, uid: &str) {
        let Some(made) = self.made(uid).cloned() else {
            return;
        };
        let Some(job) = self.plan_job(key, uid) else {
            return;
        };
        if job.ended.is_some() || job.deleting.is_some() {
            return;
        }
        let is_lost = self
            .machines
            .get(&made.node)
            .is_some_and(|machine| machine.fault == Some(Fault::NeverReturns));
        let node = self
            .truth
            .nodes
            .get(&made.node)
            .filter(|node| node.uid == made.node_uid);
        let Some(node) = node else {
            // Its node is gone, and its pod with it: one that came again under the name gets a pod that ends at once.
            return self.end_plan_job(key, uid, Some("BackoffLimitExceeded"));
        };
        let is_up = node.ready;
        if self.now - made.at > DEADLINE && (made.stage != Stage::Rebooting || is_lost) {
            return self.end_plan_job(key, uid, Some("DeadlineExceeded"));
        }
        if !is_up && made.stage != Stage::Rebooting {
            return self.plan(LOOK, Event::PlanJob(key.clone(), uid.to_owned()));
        }
        self.plan_job_goes_on(&made, is_lost);
    }

    fn plan_job_goes_on(&mut self, made: &PlanJobMade, is_lost: bool) {
        let spec = self.truth.plans.get(&made.plan).map(|plan| plan.spec.clone());
        let spec = spec.unwrap_or_default();
        let first = match made.parts {
            PlanParts::Upgrade => Stage::Upgrading,
            _ if spec.prepare.is_some() => Stage::Preparing,
            PlanParts::Prepare | PlanParts::All => Stage::Cordoning,
        };
        let (key, uid) = (&made.key, made.uid.as_str());
        let knobs = self.knobs;
        match made.stage {
            Stage::Waiting => self.plan_job_at(made, first, knobs.job_start),
            Stage::Preparing => self.plan_job_at(made, Stage::Cordoning, knobs.job),
            Stage::Cordoning => {
                if made.parts == PlanParts::Prepare {
                    return self.end_plan_job(key, uid, None);
                }
                if spec.cordon == Some(true) || spec.drain.is_some() {
                    self.edit_node(&made.node, |node| node.unschedulable = true);
                    self.tell("job", || format!("cordons {}", made.node));
                }
                self.plan_job_at(made, Stage::Draining, (1, 5));
            }
            Stage::Draining => {
                let left = self.pods_to_go(&made.node);
                if spec.drain.is_none() || left.is_empty() {
                    return self.plan_job_at(made, Stage::Upgrading, knobs.job);
                }
                for (pod, of) in left {
                    // A refusal is tried again, as kubectl does.
                    let _ = self.evict(&made.node, &pod, &of, false);
                }
                self.plan_job_at(made, Stage::Draining, (5, 5));
            }
            Stage::Upgrading => {
                if self.chance(knobs.jobs_failing) {
                    return self.end_plan_job(key, uid, Some("BackoffLimitExceeded"));
                }
                if self.chance(50) {
                    self.edit_node(&made.node, |node| {
                        node.ready = false;
                        node.boot_id.push('+');
                    });
                    self.tell("node", || format!("{} reboots under its Job", made.node));
                    self.plan_job_at(made, Stage::Rebooting, knobs.reboot);
                } else {
                    self.plan_job_upgraded(made);
                    self.end_plan_job(key, uid, None);
                }
            }
            Stage::Rebooting if is_lost => self.plan_job_at(made, Stage::Rebooting, (LOOK, LOOK)),
            Stage::Rebooting => {
                self.people.sick.remove(&made.node);
                self.edit_node(&made.node, |node| node.ready = true);
                self.plan_job_upgraded(made);
                let cut_short = self.chance(knobs.jobs_failing);
                self.end_plan_job(key, uid, cut_short.then_some("BackoffLimitExceeded"));
            }
        }
    }

    fn plan_job_at(&mut self, made: &PlanJobMade, stage: Stage, span: super::Span) {
        let delay = self.pick(span);
        if let Some(kept) = self.made(&made.uid) {
            kept.stage = stage;
        }
        let runs = match stage {
            Stage::Waiting => None,
            Stage::Preparing => Some("prepare"),
            Stage::Cordoning => Some("cordon"),
            Stage::Draining => Some("drain"),
            Stage::Upgrading | Stage::Rebooting => Some("upgrade"),
        };
        if let Some(job) = self.plan_job(&made.key, &made.uid) {
            let runs = runs.map(str::to_owned);
            let is_news = job.runs != runs || job.untouched;
            job.runs = runs;
            job.untouched = false;
            if is_news {
                self.touch(Object::PlanJob(made.key.clone()));
            }
        }
        self.plan(delay, Event::PlanJob(made.key.clone(), made.uid.clone()));
    }

    /// The upgrade of a Kubernetes Plan is the kubelet's; that of any other changes nothing that is seen.
    fn plan_job_upgraded(&mut self, made: &PlanJobMade) {
        let of_kubelet = self
            .people
            .plans
            .get(&made.plan)
            .is_some_and(|plan| plan.of_kubelet);
        if of_kubelet {
            let version = made.version.clone();
            self.edit_node(&made.node, |node| node.kubelet_version = version);
        }
    }

    fn end_plan_job(&mut self, key: &Key, uid: &str, failure: Option<&str>) {
        let time = self.time();
        let Some(job) = self.plan_job(key, uid) else {
            return;
        };
        job.runs = None;
        job.untouched = false;
        job.ended_at = Some(time);
        job.ended = Some(match failure {
            None => JobEnd::Complete,
            Some(reason) => JobEnd::Failed(reason.to_owned(), "the Job has failed".to_owned()),
        });
        let now = self.now;
        if let Some(made) = self.made(uid) {
            made.completed_at = failure.is_none().then_some(now);
        }
        self.end_job_pods(uid);
        self.touch(Object::PlanJob(key.clone()));
        self.tell("cluster", || {
            format!("ends Job {key}: {}", failure.unwrap_or("Complete"))
        });
        self.plan(TTL, Event::PlanJobGoes(key.clone(), uid.to_owned()));
    }
}
