//! Rolls of Plans: whatever happens before any write, every node is done in the end, and given back as it was.

use super::{Fault, Map, World, key, marks};
use numo_core::owners::plan;

impl World {
    /// Whether everything is as it should be at the end.
    fn judge(&self, fault: Fault) -> Result<(), String> {
        let observed = &self.cluster.observed;
        let fail = |what: &str| Err(format!("{what}\n{}", self.shown()));
        for node in observed.nodes.values() {
            if node.annotations.contains_key(marks::CORDONED_BY)
                || node.annotations.contains_key(marks::SHIELDED_BY)
            {
                return fail("a mark is left");
            }
            if node.unschedulable != self.cordoned.contains(&node.name) {
                return fail("a cordon is not as it was");
            }
        }
        if observed.leases.values().any(|lease| lease.holder != "somebody") {
            return fail("a lease is left");
        }
        let Some(view) = observed.plans.get(&key()) else {
            return Ok(());
        };
        if fault == Fault::Delete {
            return fail("the Plan is not gone");
        }
        if !view.finalizers.is_empty() {
            return fail("the finalizer is left");
        }
        let hash = view.status.latest_hash.clone().unwrap_or_default();
        let done = |labels: &Map| labels.get(&plan::label("p")) == Some(&hash);
        if !self.skipped && !observed.nodes.values().all(|node| done(&node.labels)) {
            return fail("a node is not done");
        }
        let twice = self.began.iter().find(|(_, times)| **times > 1);
        if let Some((of, _)) = twice
            && fault != Fault::Reboot
        {
            return fail(&format!("{of:?} was begun twice"));
        }
        Ok(())
    }
}

const BINDING: &str = r#"{"ownerSelector":{"kind":"Plan"},"rules":[{"name":"r"}]"#;

/// Rolls of each kind, as text.
fn rolls() -> Vec<(&'static str, String)> {
    let three = "node a worker v0\n node b worker v0 cordoned\n node c worker v0";
    let rule = "rule r Pre,PreRelease,BeforeUncordon,Post";
    vec![
        ("its own cordon", format!("{three}\n plan concurrency:2 cordon")),
        ("in service", format!("{three}\n plan concurrency:2")),
        (
            "with rules",
            format!("{three}\n {rule}\n plan concurrency:2 cordon\n binding x spec {BINDING}}}"),
        ),
        (
            "drained by numo",
            format!(
                "{three}\n pods b\n pods c\n pod web on a of:ReplicaSet/web
                 plan concurrency:2 drain spec {{\"prepare\":{{\"image\":\"i\"}}}}
                 binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}"
            ),
        ),
        (
            "with a soak and a delay",
            format!(
                "{three}\n {rule}\n plan concurrency:2 cordon spec {{\"postCompleteDelay\":\"30s\"}}
                 binding x spec {BINDING},\"soakSeconds\":60}}"
            ),
        ),
        (
            "servers",
            "node a master v0\n node b master v0\n node c master v0\n plan concurrency:3 cordon".to_owned(),
        ),
    ]
}

#[test]
fn whatever_happens_before_any_write_every_node_is_restored() {
    for (name, text) in rolls() {
        let mut plain = World::of(&text);
        let writes = plain
            .run(0, Fault::None)
            .and_then(|writes| plain.judge(Fault::None).map(|()| writes));
        let writes = writes.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(writes > 15, "{name}: {writes} writes");
        for fault in [
            Fault::Crash,
            Fault::Delete,
            Fault::NewVersion,
            Fault::Skip,
            Fault::ForgetJournals,
            Fault::Reboot,
            Fault::LoseFinalizer,
            Fault::Cordon,
            Fault::Uncordon,
            Fault::LeaseTaken,
            Fault::LatePod,
            Fault::LoseMark,
        ] {
            let out_of_place = match fault {
                // Where the Job cordons, it does so again at once, and nobody sees what a person did in between.
                Fault::Uncordon => name != "drained by numo",
                // Servers that are all away are taken by nobody.
                Fault::Cordon => name == "servers",
                _ => false,
            };
            if out_of_place {
                continue;
            }
            for before in 1..=writes {
                let mut world = World::of(&text);
                let end = world.run(before, fault).and_then(|_| world.judge(fault));
                assert!(
                    end.is_ok(),
                    "{name}: {fault:?} before write {before} of {writes}: {}",
                    end.err().unwrap_or_default()
                );
            }
        }
    }
}
