//! Maintenances of a node: whatever happens before any write, it is cordoned and drained while the NodeMaintenance is
//! there, and exactly as it was once that is gone.

use super::{Fault, World, marks};
use numo_core::observed::NodeView;

impl World {
    /// The node that is to be maintained, if it is there.
    fn kept(&self) -> Option<&NodeView> {
        self.cluster.observed.nodes.get("a")
    }

    /// Until nothing happens: the maintenance keeps its node.
    fn is_kept(&self, fault: Fault) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}\n{}", self.shown()));
        let Some(view) = self.cluster.observed.maintenances.get(&self.owner) else {
            return if fault == Fault::Delete {
                Ok(())
            } else {
                fail("the maintenance is gone")
            };
        };
        let Some(node) = self.kept() else {
            return if view.status.phase.as_deref() == Some("Failed") {
                Ok(())
            } else {
                fail("the node is gone and the maintenance does not say so")
            };
        };
        if view.finalizers.is_empty() {
            return fail("it has no finalizer");
        }
        if view.status.phase.as_deref() != Some("Succeeded") {
            return fail("it is not in maintenance");
        }
        let text = node.taints.to_string();
        if !node.unschedulable || !text.contains(marks::MEDIK8S_DRAIN) {
            return fail("the node is not cordoned and tainted");
        }
        if !node.labels.contains_key(marks::EXCLUDE_FROM_REMEDIATION) {
            return fail("the node is not excluded from remediation");
        }
        let holder = self
            .cluster
            .observed
            .leases
            .get("a")
            .map(|lease| lease.holder.as_str());
        if holder != Some(marks::MAINTENANCE_HOLDER) {
            return fail("the node is not leased");
        }
        let pods = self.cluster.observed.pods.get("a");
        if pods.is_some_and(|pods| !pods.is_empty()) {
            return fail("there are pods left");
        }
        Ok(())
    }

    /// Nothing of it is left.
    fn is_restored(&self) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}\n{}", self.shown()));
        let observed = &self.cluster.observed;
        if observed.maintenances.contains_key(&self.owner) {
            return fail("the maintenance is not gone");
        }
        if observed
            .leases
            .values()
            .any(|lease| lease.holder == marks::MAINTENANCE_HOLDER)
        {
            return fail("a lease is left");
        }
        for node in observed.nodes.values() {
            let before = &self.start[&node.name];
            if node.unschedulable != self.cordoned.contains(&node.name) {
                return fail("a cordon is not as it was");
            }
            if node.labels != before.labels || node.annotations != before.annotations {
                return fail("labels or annotations are not as they were");
            }
            if node.taints.to_string().contains(marks::MEDIK8S_DRAIN) {
                return fail("a taint is left");
            }
        }
        Ok(())
    }

    /// The node is taken into maintenance, kept, and let go; how many writes there were.
    fn maintain(&mut self, before: usize, fault: Fault) -> Result<usize, String> {
        self.run(before, fault)?;
        self.is_kept(fault)?;
        if let Some((_, deleting)) = self.finalizers() {
            *deleting = true;
        }
        let writes = self.run(before, fault)?;
        self.is_restored()?;
        Ok(writes)
    }
}

fn maintenances() -> Vec<(&'static str, String)> {
    let pods = "pod web on a of:ReplicaSet/web\n pod db on a of:StatefulSet/db\n pods b";
    let rule = "rule r Pre,PreRelease,BeforeUncordon,Post";
    vec![
        (
            "plain",
            format!("node a worker v0\n node b worker v0\n {pods}\n maintenance a"),
        ),
        (
            "cordoned by a person before",
            format!("node a worker v0 cordoned\n node b worker v0\n {pods}\n maintenance a"),
        ),
        (
            "with rules",
            format!("node a worker v0\n node b worker v0\n {pods}\n {rule}\n maintenance a rule:r"),
        ),
        (
            "tried by dry run",
            format!("node a worker v0\n node b worker v0\n {pods}\n maintenance a drain {{\"probe\":true}}"),
        ),
        ("one by one", {
            let settings = "{\"maxConcurrent\":1,\"order\":\"Priority\"}";
            format!("node a worker v0\n node b worker v0\n {pods}\n maintenance a drain {settings}")
        }),
    ]
}

#[test]
fn whatever_happens_before_any_write_the_node_is_kept_and_restored_as_it_was() {
    for (name, text) in maintenances() {
        let writes = World::of(&text).maintain(0, Fault::None);
        let writes = writes.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(writes > 10, "{name}: {writes} writes");
        for fault in [
            Fault::Crash,
            Fault::Delete,
            Fault::ForgetJournals,
            Fault::Reboot,
            Fault::LoseFinalizer,
            Fault::Cordon,
            Fault::Uncordon,
            Fault::NodeGone,
            Fault::NodeRemade,
            Fault::LeaseTaken,
            Fault::LatePod,
            Fault::LoseMark,
        ] {
            for before in 1..=writes {
                let end = World::of(&text).maintain(before, fault);
                assert!(
                    end.is_ok(),
                    "{name}: {fault:?} before write {before} of {writes}: {}",
                    end.err().unwrap_or_default()
                );
            }
        }
    }
}
