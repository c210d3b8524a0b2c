//! The API server: one write, with the preconditions the real patch, create or delete has. What numo read
//! (`from` values, uid, resourceVersion) must still be so, or the write is refused and nothing changes.

use super::{Object, World};
use crate::reading::LEASE_SECONDS;
use numo_core::{
    action::{Action, Change, MachinePatch, NodePatch, PoolPatch},
    observed::{ChangeView, LeaseView, Map},
};

/// What is said of node leases that cannot be had.
const NO_LEASES: &str = "there is no namespace medik8s-leases";

/// A write that was refused: the HTTP status and the server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status code.
    pub code: u16,
    /// Why.
    pub message: String,
}

fn refused(code: u16, message: impl Into<String>) -> Result<Object, Refused> {
    Err(Refused {
        code,
        message: message.into(),
    })
}

fn conflict(what: &str) -> Result<Object, Refused> {
    refused(409, format!("{what} is not as it was read"))
}

pub(super) fn test(map: &Map, changes: &[Change]) -> bool {
    changes
        .iter()
        .all(|change| map.get(&change.key) == change.from.as_ref())
}

pub(super) fn write(map: &mut Map, changes: &[Change]) {
    for change in changes {
        match &change.to {
            Some(value) => map.insert(change.key.clone(), value.clone()),
            None => map.remove(&change.key),
        };
    }
}

impl World {
    /// Carries out one write; the object it was about, or why it was refused.
    pub fn apply(&mut self, action: &Action) -> Result<Object, Refused> {
        let object = match action {
            Action::AddFinalizer {
                owner,
                uid,
                finalizer,
            } => self.add_finalizer(owner, uid, finalizer)?,
            Action::RemoveFinalizer {
                owner,
                uid,
                finalizer,
                index,
            } => self.remove_finalizer(owner, uid, finalizer, *index)?,
            Action::Evict { node, eviction } => {
                self.evict(node, &eviction.pod, &eviction.uid, eviction.delete)?;
                Object::Pods(node.clone())
            }
            Action::CreatePlanJob(request) => {
                if self.truth.plan_jobs.contains_key(&request.job) {
                    return refused(409, "it exists already");
                }
                self.make_plan_job(request);
                Object::PlanJob(request.job.clone())
            }
            Action::StartPlanJob { .. } => return refused(404, "nobody creates Jobs paused here"),
            Action::DeletePlanJob { job, uid } => {
                if !self.delete_plan_job(job, uid) {
                    return refused(404, "the Job is gone");
                }
                Object::PlanJob(job.clone())
            }
            Action::MarkGate {
                owner, uid, change, ..
            } => self.mark_gate(owner, uid, change)?,
            Action::CreateMaintenance(_) | Action::DeleteMaintenance { .. } => {
                return refused(404, "no other operator drains nodes here");
            }
            Action::Fleet(action) => return self.apply_fleet(action),
            Action::PatchPool(patch) => return self.patch_pool(patch),
            Action::PatchNode(patch) => return self.patch_node(patch),
            Action::PatchMachine(patch) => return self.patch_machine(patch),
            Action::CreateChange { key, spec } => {
                if self.truth.changes.contains_key(key) {
                    return refused(409, "it exists already");
                }
                let view = ChangeView {
                    key: key.clone(),
                    uid: format!("change-{}", self.serial()),
                    resource_version: self.serial().to_string(),
                    generation: 1,
                    created: self.time(),
                    deleting: false,
                    annotations: numo_core::observed::Map::from([(
                        numo_api::marks::TURN.to_owned(),
                        String::new(),
                    )]),
                    spec: (**spec).clone(),
                    status: numo_api::NodeChangeStatus::default(),
                    misread: None,
                };
                self.truth.changes.insert(key.clone(), view);
                Object::Change(key.clone())
            }
            Action::WriteJournal {
                key,
                uid,
                resource_version,
                status,
            } => {
                let next = self.serial().to_string();
                let Some(change) = self
                    .truth
                    .changes
                    .get_mut(key)
                    .filter(|change| change.uid == *uid)
                else {
                    return refused(404, "the NodeChange is gone");
                };
                if change.resource_version != *resource_version {
                    return conflict("metadata.resourceVersion");
                }
                change.status = (**status).clone();
                change.resource_version = next;
                self.people.copied.remove(key);
                Object::Change(key.clone())
            }
            Action::DeleteChange {
                key,
                uid,
                resource_version,
            } => {
                let found = self.truth.changes.get(key);
                if !found
                    .is_some_and(|change| change.uid == *uid && change.resource_version == *resource_version)
                {
                    return conflict("metadata.resourceVersion");
                }
                self.truth.changes.remove(key);
                Object::Change(key.clone())
            }
            Action::RecordRun { owner, run } => {
                let Some(found) = self.truth.runs.get_mut(owner) else {
                    return refused(404, "the run is gone");
                };
                found.status.run = Some((**run).clone());
                Object::Run(owner.clone())
            }
            Action::CreateJob(request) => {
                if self.truth.jobs.contains_key(&request.job) {
                    return refused(409, "it exists already");
                }
                if self.people.jobs_forbidden {
                    return refused(403, "numo is not invited");
                }
                self.make_job(request);
                Object::Job(request.job.clone())
            }
            Action::SetJobTtl { job, uid, seconds } => {
                if self.truth.jobs.get(job).is_none_or(|found| found.uid != *uid) {
                    return refused(404, "the Job is gone");
                }
                if self.people.jobs_forbidden {
                    return refused(403, "numo is not invited");
                }
                self.job_freed(job, uid, *seconds);
                Object::Job(job.clone())
            }
            Action::AcquireLease { .. } | Action::RenewLease { .. } | Action::ReleaseLease { .. } => {
                return self.lease(action);
            }
        };
        self.touch(object.clone());
        Ok(object)
    }

    fn lease(&mut self, action: &Action) -> Result<Object, Refused> {
        let (now, uid, version) = (self.time(), self.serial(), self.serial().to_string());
        let node = match action {
            Action::AcquireLease {
                node, holder, over, ..
            } => {
                let found = self.truth.leases.get(node);
                let same = match (found, over) {
                    (None, None) => true,
                    (Some(found), Some((uid, version))) => {
                        found.uid == *uid && found.resource_version == *version
                    }
                    _ => false,
                };
                if !same {
                    return conflict("the Lease");
                }
                if over.is_none() && self.now < self.leases_from {
                    // As the shell takes it: there are none, and that stops nothing.
                    let settings = &mut self.truth.settings;
                    settings.leases_unavailable = Some(NO_LEASES.to_owned());
                    settings.leases_refused = Some(now);
                    let object = Object::Lease(node.clone());
                    self.touch(object.clone());
                    return Ok(object);
                }
                if over.is_none() {
                    let settings = &mut self.truth.settings;
                    (settings.leases_unavailable, settings.leases_refused) = (None, None);
                }
                let view = LeaseView {
                    by_numo: true,
                    transitions: 0,
                    holder: holder.clone(),
                    renewed: Some(now),
                    duration_seconds: LEASE_SECONDS,
                    uid: format!("lease-{uid}"),
                    resource_version: version,
                };
                self.truth.leases.insert(node.clone(), view);
                node
            }
            Action::RenewLease {
                node,
                holder,
                resource_version,
            } => {
                let Some(found) = self.truth.leases.get_mut(node) else {
                    return refused(404, "the Lease is gone");
                };
                if found.resource_version != *resource_version || found.holder != *holder {
                    return conflict("the Lease");
                }
                found.renewed = Some(now);
                found.resource_version = version;
                node
            }
            Action::ReleaseLease { node, uid } => {
                if self.truth.leases.get(node).is_none_or(|found| found.uid != *uid) {
                    return refused(404, "the Lease is gone");
                }
                self.truth.leases.remove(node);
                node
            }
            _ => return refused(400, "no lease"),
        };
        let object = Object::Lease(node.clone());
        self.touch(object.clone());
        Ok(object)
    }

    fn patch_pool(&mut self, patch: &PoolPatch) -> Result<Object, Refused> {
        let Some(pool) = self
            .truth
            .pools
            .get_mut(&patch.pool)
            .filter(|pool| pool.uid == patch.uid)
        else {
            return refused(404, "the pool is gone");
        };
        if patch.paused.is_some_and(|(from, _)| from != pool.paused) {
            return conflict("spec.paused");
        }
        if patch
            .selector
            .as_ref()
            .is_some_and(|(from, _)| *from != pool.selector)
        {
            return conflict("spec.nodeSelector");
        }
        if patch.config.as_ref().is_some_and(|config| *config != pool.config) {
            return conflict("spec.configuration.name");
        }
        if pool.annotations.get(&patch.annotation.key) != patch.annotation.from.as_ref() {
            return conflict("the mark");
        }
        if !patch.has_annotations && !pool.annotations.is_empty() {
            return conflict("metadata.annotations");
        }
        if let Some((from, to)) = patch.paused {
            pool.paused = to;
            if from != to {
                pool.paused_manager = Some("numo".to_owned());
            }
        }
        if let Some((_, to)) = &patch.selector {
            pool.selector = to.clone();
            pool.selector_manager = Some("numo".to_owned());
        }
        write(&mut pool.annotations, std::slice::from_ref(&patch.annotation));
        pool.has_annotations = !pool.annotations.is_empty();
        let object = Object::Pool(patch.pool.clone());
        self.touch(object.clone());
        Ok(object)
    }

    fn patch_node(&mut self, patch: &NodePatch) -> Result<Object, Refused> {
        let Some(node) = self
            .truth
            .nodes
            .get_mut(&patch.node)
            .filter(|node| node.uid == patch.uid)
        else {
            return refused(404, "the Node is gone");
        };
        if !test(&node.labels, &patch.labels) {
            return conflict("a label");
        }
        if !test(&node.annotations, &patch.annotations) {
            return conflict("an annotation");
        }
        // A JSON Patch adds to a map that is there, or makes one that is not.
        if patch.has_labels == node.labels.is_empty() {
            return conflict("metadata.labels");
        }
        if patch.has_annotations != node.has_annotations {
            return conflict("metadata.annotations");
        }
        if patch
            .while_unschedulable
            .is_some_and(|is| is != node.unschedulable)
        {
            return conflict("spec.unschedulable");
        }
        if patch
            .taints
            .as_ref()
            .is_some_and(|(from, _)| *from != node.taints)
        {
            return conflict("spec.taints");
        }
        if let Some((_, to)) = &patch.taints {
            node.taints.clone_from(to);
        }
        write(&mut node.labels, &patch.labels);
        write(&mut node.annotations, &patch.annotations);
        node.has_annotations = !node.annotations.is_empty();
        if let Some(unschedulable) = patch.unschedulable {
            node.unschedulable = unschedulable;
            if unschedulable {
                self.people.uncordoned.remove(&patch.node);
            }
        }
        self.node_written(&patch.node);
        Ok(Object::Node(patch.node.clone()))
    }

    fn patch_machine(&mut self, patch: &MachinePatch) -> Result<Object, Refused> {
        let place = (patch.api, patch.key.clone());
        let found = if patch.purpose.is_of_health_check() {
            self.truth.health_checks.get_mut(&place)
        } else {
            let machine = self.truth.machines.get_mut(&place);
            machine.map(|machine| &mut machine.object)
        };
        let Some(object) = found.filter(|object| object.uid == patch.uid) else {
            return refused(404, "the Machine or MachineHealthCheck is gone");
        };
        if !test(&object.annotations, &patch.annotations) {
            return conflict("an annotation");
        }
        write(&mut object.annotations, &patch.annotations);
        object.has_annotations = true;
        let object = if patch.purpose.is_of_health_check() {
            Object::HealthCheck(place)
        } else {
            Object::Machine(place)
        };
        self.touch(object.clone());
        Ok(object)
    }
}
