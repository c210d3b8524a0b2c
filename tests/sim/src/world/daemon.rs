//! A node's machine-config daemon with its drain controller, after `spec/mutex.md` §4.6: Working, drain
//! (cordon, evict, acknowledge), apply, reboot, uncordon, Done. A change without a difference skips drain
//! and reboot and still asks for the uncordon.

use super::{Event, Object, World};
use numo_api::marks::{self, openshift};

/// What goes wrong with a node at its next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not come back from its reboot until someone mends it.
    NeverReturns,
    /// Its drain takes more than an hour: the daemon reports Degraded and goes on.
    DrainStuck,
    /// The daemon reports Degraded for a while before it goes on.
    Degraded,
}

/// How far a daemon is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Idle,
    Starting,
    Cordoning,
    Draining,
    Applying,
    Rebooting,
    Uncordoning,
    Finishing,
}

/// A daemon.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// What goes wrong next.
    pub fault: Option<Fault>,
    /// Evictions from the node would be refused.
    pub drain_blocked: bool,
    pub(super) stage: Stage,
    pub(super) target: String,
    pub(super) epoch: u64,
}

impl Machine {
    /// Nothing happens to the node, and nothing will by itself.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// The node was rebooted and is not back.
    pub fn is_lost(&self) -> bool {
        self.stage == Stage::Rebooting && self.fault == Some(Fault::NeverReturns)
    }
}

/// The part of a rendered configuration's name that tells its content.
fn content(rendered: &str) -> &str {
    rendered.rsplit('-').next().unwrap_or_default()
}

impl World {
    /// A node was written: its daemon looks whether it shall run something else.
    pub(crate) fn node_written(&mut self, name: &str) {
        self.follow_cordon(name);
        let now = self.time();
        if let Some(node) = self.truth.nodes.get_mut(name) {
            let since = node.not_ready_since.unwrap_or(now);
            node.not_ready_since = (!node.ready).then_some(since);
        }
        self.touch(Object::Node(name.to_owned()));
        let Some(node) = self.truth.nodes.get(name) else {
            return;
        };
        let differs =
            node.annotation(openshift::CURRENT_CONFIG) != node.annotation(openshift::DESIRED_CONFIG);
        let idle = self.machines.get(name).is_some_and(Machine::is_idle);
        if differs && idle {
            self.daemon_in(name, Stage::Starting, self.knobs.poll);
        }
    }

    fn daemon_in(&mut self, name: &str, stage: Stage, span: super::Span) {
        let epoch = self.serial();
        let delay = self.pick(span);
        if let Some(machine) = self.machines.get_mut(name) {
            machine.stage = stage;
            machine.epoch = epoch;
            self.plan(delay, Event::Daemon(name.to_owned(), epoch));
        }
    }

    /// A lost node comes back.
    pub fn mend_machine(&mut self, name: &str) {
        let Some(machine) = self.machines.get_mut(name) else {
            return;
        };
        let lost = machine.is_lost();
        machine.fault = None;
        machine.drain_blocked = false;
        if lost {
            self.daemon_in(name, Stage::Rebooting, self.knobs.poll);
        }
    }

    /// The daemon takes its next step.
    pub(super) fn daemon(&mut self, name: &str, epoch: u64) {
        let Some(machine) = self.machines.get(name).filter(|machine| machine.epoch == epoch) else {
            return;
        };
        let (stage, target, fault) = (machine.stage, machine.target.clone(), machine.fault);
        let knobs = self.knobs;
        let Some(node) = self.truth.nodes.get_mut(name) else {
            return;
        };
        let mut annotate = |key: &str, value: &str| node.annotations.insert(key.to_owned(), value.to_owned());
        let drain = format!("drain-{target}");
        let uncordon = format!("uncordon-{target}");
        match stage {
            Stage::Idle => return,
            Stage::Starting => {
                annotate(openshift::STATE, "Working");
                annotate(openshift::REASON, "");
                let target = node.annotation(openshift::DESIRED_CONFIG).to_owned();
                let same = content(node.annotation(openshift::CURRENT_CONFIG)) == content(&target);
                let (word, next) = if same {
                    ("uncordon", Stage::Uncordoning)
                } else {
                    ("drain", Stage::Cordoning)
                };
                node.annotations
                    .insert(openshift::DESIRED_DRAIN.to_owned(), format!("{word}-{target}"));
                if let Some(machine) = self.machines.get_mut(name) {
                    machine.target.clone_from(&target);
                }
                if same {
                    self.tell("node", || {
                        format!("{name} takes {target}, which is no change, and asks to be uncordoned")
                    });
                } else {
                    self.tell("node", || {
                        format!("{name} begins to change to {target} and asks to be drained")
                    });
                }
                self.daemon_in(name, next, knobs.controller);
            }
            Stage::Cordoning => {
                node.unschedulable = true;
                self.tell("mco", || format!("cordons {name} and evicts its pods"));
                let span = if fault == Some(Fault::DrainStuck) {
                    (3600, 3600)
                } else {
                    knobs.drain
                };
                self.daemon_in(name, Stage::Draining, span);
            }
            Stage::Draining if fault == Some(Fault::DrainStuck) => {
                annotate(openshift::STATE, "Degraded");
                annotate(openshift::REASON, "failed to drain node after 1 hour");
                self.forget_fault(name);
                self.tell("node", || {
                    format!("{name} is Degraded: its drain took more than an hour")
                });
                self.daemon_in(name, Stage::Draining, knobs.drain);
            }
            Stage::Draining => {
                annotate(openshift::LAST_APPLIED_DRAIN, &drain);
                annotate(openshift::STATE, "Working");
                self.daemon_in(name, Stage::Applying, knobs.poll);
            }
            Stage::Applying if fault == Some(Fault::Degraded) => {
                annotate(openshift::STATE, "Degraded");
                annotate(openshift::REASON, "a file on disk differs");
                self.forget_fault(name);
                self.tell("node", || format!("{name} is Degraded: a file on disk differs"));
                self.daemon_in(name, Stage::Applying, (1200, 1200));
            }
            Stage::Applying => {
                annotate(openshift::STATE, "Working");
                node.ready = false;
                let lost = fault == Some(Fault::NeverReturns);
                self.tell("node", || format!("{name} is drained and reboots"));
                if lost {
                    if let Some(machine) = self.machines.get_mut(name) {
                        machine.stage = Stage::Rebooting;
                        machine.epoch = 0;
                    }
                } else {
                    self.daemon_in(name, Stage::Rebooting, knobs.reboot);
                }
            }
            Stage::Rebooting => {
                node.ready = true;
                if node.annotation(openshift::DESIRED_CONFIG) == target {
                    node.annotations
                        .insert(openshift::DESIRED_DRAIN.to_owned(), uncordon);
                    self.tell("node", || format!("{name} is back and asks to be uncordoned"));
                    self.daemon_in(name, Stage::Uncordoning, knobs.controller);
                } else {
                    // What it shall run moved on while it rebooted: it goes on without an uncordon.
                    node.annotations
                        .insert(openshift::CURRENT_CONFIG.to_owned(), target);
                    self.daemon_in(name, Stage::Starting, knobs.poll);
                }
            }
            Stage::Uncordoning => {
                node.unschedulable = false;
                annotate(openshift::LAST_APPLIED_DRAIN, &uncordon);
                // A cordon set during the change goes with it, unless numo knows and puts it back.
                if !node.annotations.contains_key(marks::CORDONED_BY) {
                    self.people.cordoned.remove(name);
                }
                self.tell("mco", || format!("uncordons {name}"));
                self.daemon_in(name, Stage::Finishing, knobs.poll);
            }
            Stage::Finishing => {
                annotate(openshift::CURRENT_CONFIG, &target);
                annotate(openshift::STATE, "Done");
                annotate(openshift::REASON, "");
                if let Some(machine) = self.machines.get_mut(name) {
                    machine.stage = Stage::Idle;
                }
                self.tell("node", || format!("{name} runs {target} and is Done"));
            }
        }
        self.node_written(name);
    }

    fn forget_fault(&mut self, name: &str) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.fault = None;
        }
    }
}
