//! Which of two views of an object is the newer, whether it came from a watch or with the answer to a write of ours. This file compares
//! numbers and places; how an object of a kind is kept is not its matter.

use super::{Reach, Store, Version, replace};
use crate::shell::wire::{self, Kind, Object};
use numo_core::observed::{Key, MaintenanceView, PlanView, RunConfigView};

impl Store {
    /// Takes in the answer to our own write.
    pub fn own(&mut self, kind: Kind, number: u64, object: Object) {
        self.put(kind, number, object, true);
    }

    /// Takes in the answer to a status write of ours. What someone else changed in the same moment came with it,
    /// and the watch will tell nobody: it is kept for [`Store::take_news`].
    pub fn own_status(&mut self, kind: Kind, number: u64, object: Object) {
        if self.has_news(&object) {
            self.news = Reach::Everyone;
        }
        self.own(kind, number, object);
    }

    /// Whose decisions can change by what came with answers to our own writes.
    pub fn take_news(&mut self) -> Reach {
        std::mem::take(&mut self.news)
    }

    /// Takes in our own deletion.
    pub fn own_deletion(&mut self, kind: Kind, key: &Key) {
        self.remove(kind, key, u64::MAX);
        self.versions.remove(&(kind, key.clone()));
    }

    /// Whether the object differs from what is known of it by more than its status.
    pub(super) fn has_news(&self, object: &Object) -> bool {
        let observed = &self.observed;
        match object {
            Object::Run(run) => observed.runs.get(&run.key).is_some_and(|known| {
                let known = RunConfigView {
                    status: run.status.clone(),
                    ..known.clone()
                };
                known != **run
            }),
            Object::Maintenance(view) => observed.maintenances.get(&view.owner).is_some_and(|known| {
                let known = MaintenanceView {
                    status: view.status.clone(),
                    ..known.clone()
                };
                known != **view
            }),
            Object::Plan(view) => observed.plans.get(&view.key).is_some_and(|known| {
                let known = PlanView {
                    status: view.status.clone(),
                    ..known.clone()
                };
                known != **view
            }),
            Object::Rule(rule) | Object::Unreadable(rule, _) => self
                .rules
                .get(&wire::key(&rule.metadata))
                // Of a rule without room the spec is not there to be compared.
                .is_some_and(|known| wire::edition(&known.metadata) != wire::edition(&rule.metadata)),
            Object::Target(target) => observed
                .targets
                .get(&target.key)
                .is_some_and(|known| known.generation != target.generation),
            Object::Budget(budget) => observed
                .budgets
                .get(&budget.name)
                .is_some_and(|known| known.generation != budget.generation),
            Object::Binding(name, binding) => observed
                .bindings
                .get(name)
                .is_some_and(|known| known.generation != binding.generation),
            _ => false,
        }
    }

    pub(super) fn put(&mut self, kind: Kind, number: u64, object: Object, own: bool) -> bool {
        let (key, scope) = place(&object);
        for ((listed, listed_scope), keys) in &mut self.listing {
            if *listed == kind && (listed_scope.is_empty() || *listed_scope == scope) {
                keys.insert(key.clone());
            }
        }
        let slot = (kind, key);
        match self.versions.get(&slot) {
            Some(known) if known.number > number => return false,
            Some(known) if known.number == number => {
                self.versions.insert(
                    slot,
                    Version {
                        number,
                        own: known.own && own,
                    },
                );
                return false;
            }
            _ => {}
        }
        if self.graves.get(&slot).is_some_and(|gone| *gone >= number) {
            // It was read before it was deleted, and comes after that was told.
            return false;
        }
        if !self.take_place(&slot, &object, own) {
            // Nothing is known of it from now on: what refers to it waits, as for one that is not there.
            let (kind, key) = slot;
            self.missed.remove(&(kind, key.clone()));
            let was_known = self.versions.remove(&(kind, key.clone())).is_some();
            return was_known && (self.forget_unread(kind, &key) | self.take_away(kind, &key));
        }
        if let Object::NotRead(key, unread) = object {
            self.versions.insert(slot, Version { number, own });
            return replace(&mut self.observed.unread, (unread_as(kind), key), unread);
        }
        let is_read_again = self.forget_unread(kind, &slot.1);
        self.versions.insert(slot, Version { number, own });
        self.insert(object) | is_read_again
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key, number: u64) -> bool {
        let slot = (kind, key.clone());
        if self
            .versions
            .get(&slot)
            .is_some_and(|known| known.number > number)
        {
            return false;
        }
        self.versions.remove(&slot);
        self.bury(&slot, number);
        self.crowd.leave(kind, key);
        let was_unread = self.forget_unread(kind, key);
        self.take_away(kind, key) | was_unread
    }

    /// Forgets that an object could not be read; true if it could not.
    pub(super) fn forget_unread(&mut self, kind: Kind, key: &Key) -> bool {
        let unread = &mut self.observed.unread;
        !unread.is_empty() && unread.remove(&(unread_as(kind), key.clone())).is_some()
    }
}

/// Where an object stands: its key, and the namespace its watch may be limited to.
fn place(object: &Object) -> (Key, String) {
    let of = |key: &Key| (key.clone(), key.namespace.clone());
    let cluster = |name: &str| (Key::new("", name), String::new());
    match object {
        Object::Node(node, _) => cluster(&node.name),
        Object::Pool(pool) => cluster(&pool.name),
        Object::Config(name, _)
        | Object::Namespace(name, ..)
        | Object::Layered(name, _)
        | Object::Binding(name, _) => cluster(name),
        Object::Machine((_, key), _) | Object::HealthCheck((_, key), _) | Object::RebootLocks(key, ..) => {
            of(key)
        }
        Object::ClusterVersion(_) => cluster("version"),
        Object::Infrastructure(_) => cluster("cluster"),
        Object::Run(run) => of(&run.key),
        Object::Rule(rule) | Object::Unreadable(rule, _) => of(&wire::key(&rule.metadata)),
        Object::Target(target) => of(&target.key),
        Object::Change(change) => of(&change.key),
        Object::Budget(budget) => cluster(&budget.name),
        Object::Lease(node, _) => of(&Key::new(
            numo_api::marks::LEASE_NAMESPACE,
            format!("node-{node}"),
        )),
        Object::Job(key, _)
        | Object::Pod(key, _, _)
        | Object::JobEvent(key, _, _)
        | Object::PlanJob(key, ..)
        | Object::PlanPod(key, ..)
        | Object::Secret(key, _)
        | Object::DisruptionBudget(key, _)
        | Object::EtcdPod(key, _)
        | Object::DaemonSet(key, _)
        | Object::Foreign(key, _)
        | Object::NotRead(key, _) => of(key),
        Object::Maintenance(view) => cluster(&view.owner.key.name),
        Object::Plan(plan) => of(&plan.key),
        Object::NodePod(_, pod) => of(&pod.key),
    }
}

/// The plural of a kind, with its group where two groups have it: by that an object that cannot be read is known.
const fn unread_as(kind: Kind) -> &'static str {
    match kind {
        Kind::KubeVirtMaintenance => "nodemaintenances.nodemaintenance.kubevirt.io",
        _ => kind.resource().3,
    }
}
