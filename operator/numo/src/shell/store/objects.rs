//! How an object of each kind is kept and taken away.

use super::{Store, replace, set};
use crate::shell::wire::{self, Kind, Object, OfNode};
use numo_core::{
    MaintenanceGroup, Owner,
    observed::{DisruptionBudgetView, Key, MachineApi},
    quorum::OPENSHIFT_ETCD,
};
use std::{collections::BTreeMap, sync::Arc};

/// Events of Jobs that are kept, at most: one for each Job.
const JOB_EVENTS: usize = 10_000;

impl Store {
    pub(super) fn insert(&mut self, object: Object) -> bool {
        let observed = &mut self.observed;
        match object {
            Object::Node(node, OfNode { volumes, networks }) => {
                let name = node.name.clone();
                if self.networks.get(&name) != Some(&networks) {
                    self.networks.insert(name.clone(), networks);
                    self.has_new_networks = true;
                }
                let known = observed.volumes.get(&name).map_or(&[][..], Vec::as_slice);
                if *known != *volumes {
                    if self.node_pods.contains_key(&name) {
                        self.touched.insert(name.clone());
                    }
                    if volumes.is_empty() {
                        observed.volumes.remove(&name);
                    } else {
                        observed.volumes.insert(name.clone(), volumes);
                    }
                }
                replace(&mut observed.nodes, name, *node)
            }
            Object::Pool(pool) => replace(&mut observed.pools, pool.name.clone(), *pool),
            Object::Config(name, config) => replace(&mut observed.configs, name, config),
            Object::ClusterVersion(version) => set(&mut observed.cluster_version, Some(version)),
            Object::Infrastructure(topology) => set(&mut observed.control_plane_topology, topology),
            Object::Layered(name, pool) => replace(&mut observed.layered, name, pool),
            Object::Machine(place, machine) => replace(&mut observed.machines, place, *machine),
            Object::HealthCheck(place, check) => replace(&mut observed.health_checks, place, check),
            Object::RebootLocks(key, account, locks) => self.see_kured(&key, account, locks),
            Object::Run(run) => replace(&mut observed.runs, run.key.clone(), *run),
            Object::Target(target) => replace(&mut observed.targets, target.key.clone(), *target),
            Object::Change(change) => replace(&mut observed.changes, change.key.clone(), *change),
            Object::Budget(budget) => replace(&mut observed.budgets, budget.name.clone(), *budget),
            Object::Namespace(name, view) => {
                let mut news = if view.plans {
                    observed.plan_namespaces.insert(name.clone())
                } else {
                    observed.plan_namespaces.remove(&name)
                };
                news |= if view.rule_jobs_from.is_empty() {
                    observed.rule_jobs_from.remove(&name).is_some()
                } else {
                    replace(&mut observed.rule_jobs_from, name.clone(), view.rule_jobs_from)
                };
                news |= replace(&mut observed.namespaces, name.clone(), view.terminating);
                if news {
                    self.crowd.heed(&name);
                    self.refresh_rules_in(&name);
                }
                news
            }
            Object::Lease(node, lease) => replace(&mut observed.leases, node, lease),
            Object::Binding(name, binding) => replace(&mut observed.bindings, name, *binding),
            Object::Maintenance(view) => replace(&mut observed.maintenances, view.owner.clone(), *view),
            Object::DisruptionBudget(key, budget) => {
                let of_etcd = key.namespace == OPENSHIFT_ETCD;
                let news = replace(&mut observed.disruption_budgets, key.clone(), (*budget).clone());
                if news {
                    self.stir_evictions(&key, &budget);
                }
                news && of_etcd
            }
            Object::EtcdPod(key, pod) => replace(&mut observed.etcd_pods, key, pod),
            Object::DaemonSet(key, uid) => {
                if let Some(before) = self.daemon_sets.insert(key, uid.clone()) {
                    observed.daemon_sets.remove(&before);
                }
                observed.daemon_sets.insert(uid);
                false
            }
            Object::Foreign(key, deployed) => self.claim(key, Some(*deployed)),
            Object::NodePod(..) | Object::NotRead(..) => false,
            Object::Plan(plan) => {
                let key = plan.key.clone();
                let is_new = !observed.plans.contains_key(&key);
                let news = replace(&mut observed.plans, key.clone(), *plan);
                self.plan_came_or_went(&key, is_new);
                news
            }
            Object::Secret(key, hash) => replace(&mut observed.secrets, key, hash),
            Object::PlanJob(key, job, pods) => {
                self.plan_jobs.insert(key.clone(), (*job, pods));
                self.refresh_plan_job(&key)
            }
            Object::PlanPod(key, pod) => {
                let job = pod.job.clone();
                self.plan_pods.insert(key, pod);
                self.refresh_plan_job(&job)
            }
            Object::Rule(rule) => self.put_rule(*rule),
            // Noted where it was put.
            Object::Unreadable(rule, why) => {
                let key = wire::key(&rule.metadata);
                self.unreadable.insert(key.clone(), why);
                self.room.forget(&key);
                self.awaited.remove(&key);
                self.rules.insert(key.clone(), Arc::new(*rule));
                self.refresh_rule(&key)
            }
            Object::Job(key, job) => {
                self.jobs.insert(key.clone(), job);
                self.refresh_job(&key)
            }
            Object::Pod(pod, job, trouble) => {
                self.pods.insert(pod, (job.clone(), trouble));
                self.refresh_job(&job)
            }
            Object::JobEvent(event, job, trouble) => {
                let of_job = self.event_of.insert(job.clone(), event.clone());
                if let Some(before) = of_job.filter(|before| *before != event) {
                    self.job_events.remove(&before);
                } else if self.job_events.len() >= JOB_EVENTS {
                    // Who writes so many leaves Jobs without the words why they have no pods.
                    self.event_of.remove(&job);
                    return false;
                }
                self.job_events.insert(event, (job.clone(), trouble));
                self.refresh_plan_job(&job) | self.refresh_job(&job)
            }
        }
    }

    pub(super) fn take_away(&mut self, kind: Kind, key: &Key) -> bool {
        let observed = &mut self.observed;
        match kind {
            Kind::Node => {
                observed.volumes.remove(&key.name);
                self.has_new_networks |= self.networks.remove(&key.name).is_some();
                observed.nodes.remove(&key.name).is_some()
            }
            Kind::MachineConfigPool => observed.pools.remove(&key.name).is_some(),
            Kind::MachineConfig => observed.configs.remove(&key.name).is_some(),
            Kind::ClusterVersion => observed.cluster_version.take().is_some(),
            Kind::Infrastructure => observed.control_plane_topology.take().is_some(),
            Kind::MachineOSConfig => observed.layered.remove(&key.name).is_some(),
            Kind::OpenShiftMachine => remove_of(&mut observed.machines, MachineApi::OpenShift, key),
            Kind::ClusterApiMachine => remove_of(&mut observed.machines, MachineApi::ClusterApi, key),
            Kind::OpenShiftHealthCheck => remove_of(&mut observed.health_checks, MachineApi::OpenShift, key),
            Kind::ClusterApiHealthCheck => {
                remove_of(&mut observed.health_checks, MachineApi::ClusterApi, key)
            }
            Kind::Kured => {
                self.kured.remove(key);
                self.observed.reboot_locks.remove(key).is_some()
            }
            Kind::MutexRunConfig => observed.runs.remove(key).is_some(),
            Kind::MutexTarget => observed.targets.remove(key).is_some(),
            Kind::NodeChange => observed.changes.remove(key).is_some(),
            Kind::MutexBudget => observed.budgets.remove(&key.name).is_some(),
            Kind::Namespace => {
                observed.plan_namespaces.remove(&key.name);
                observed.rule_jobs_from.remove(&key.name);
                let news = observed.namespaces.remove(&key.name).is_some();
                self.refresh_rules_in(&key.name);
                news
            }
            Kind::Lease => key
                .name
                .strip_prefix("node-")
                .is_some_and(|node| observed.leases.remove(node).is_some()),
            Kind::MutexBinding => observed.bindings.remove(&key.name).is_some(),
            Kind::NodeMaintenance => {
                let owner = Owner::maintenance(MaintenanceGroup::Medik8s, &key.name);
                observed.maintenances.remove(&owner).is_some()
            }
            Kind::KubeVirtMaintenance => {
                let owner = Owner::maintenance(MaintenanceGroup::KubeVirt, &key.name);
                observed.maintenances.remove(&owner).is_some()
            }
            Kind::DisruptionBudget => {
                if let Some(gone) = observed.disruption_budgets.remove(key) {
                    let open = DisruptionBudgetView { allowed: 1, ..gone };
                    self.stir_evictions(key, &open);
                }
                key.namespace == OPENSHIFT_ETCD
            }
            Kind::EtcdPod => observed.etcd_pods.remove(key).is_some(),
            Kind::NodeMaintenanceOperator
            | Kind::NodeMaintenanceOperatorOld
            | Kind::NodeMaintenanceOperatorBundled
            | Kind::NodeUpgradeMutexOperator
            | Kind::SystemUpgradeController => self.claim(key.clone(), None),
            Kind::DaemonSet => {
                if let Some(uid) = self.daemon_sets.remove(key) {
                    observed.daemon_sets.remove(&uid);
                }
                false
            }
            Kind::NodePod => false,
            Kind::Plan => {
                observed.channels.remove(key);
                let was_there = observed.plans.remove(key).is_some();
                self.plan_came_or_went(key, was_there);
                was_there
            }
            Kind::Secret => observed.secrets.remove(key).is_some(),
            Kind::PlanJob => {
                self.plan_jobs.remove(key);
                observed.plan_jobs.remove(key).is_some()
            }
            Kind::PlanPod => {
                let pod = self.plan_pods.remove(key);
                pod.is_some_and(|pod| self.refresh_plan_job(&pod.job))
            }
            Kind::MutexRule => {
                self.rules.remove(key);
                self.room.forget(key);
                self.awaited.remove(key);
                self.validity.remove(key);
                self.unreadable.remove(key);
                self.examined.remove(key);
                observed.rules.remove(key).is_some()
            }
            Kind::Job => {
                self.jobs.remove(key);
                observed.jobs.remove(key).is_some()
            }
            Kind::Pod => {
                let job = self.pods.remove(key);
                job.is_some_and(|(job, _)| self.refresh_job(&job))
            }
            Kind::JobEvent => {
                let job = self.job_events.remove(key);
                job.is_some_and(|(job, _)| {
                    self.event_of.remove(&job);
                    self.refresh_plan_job(&job) | self.refresh_job(&job)
                })
            }
        }
    }
}

fn remove_of<V>(map: &mut BTreeMap<(MachineApi, Key), V>, api: MachineApi, key: &Key) -> bool {
    map.remove(&(api, key.clone())).is_some()
}
