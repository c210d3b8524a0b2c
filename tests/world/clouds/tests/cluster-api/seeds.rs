//! Anything in any order: requests, deletions, images, controllers one by one, and lost answers. No machine goes that was not asked for, and in
//! the end there are as many as there should be.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that a seed gives.
struct Seed(u64);

impl Seed {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// A run: what was asked for, and what came of it.
struct Run {
    cluster: Cluster,
    seed: Seed,
    /// Machines that were there before.
    old: Vec<String>,
    /// Requests, and the machines of those that are done.
    requests: BTreeMap<String, Option<String>>,
    /// Machines that numo deletes.
    deletes: BTreeSet<String>,
    image: usize,
    what: String,
}

fn name_of(id: &str) -> String {
    id.rsplit('/').next().unwrap_or_default().to_owned()
}

impl Run {
    fn new(seed: u64) -> Self {
        let cluster = cluster();
        cluster.state().linger = 100;
        Self {
            old: machines(&cluster),
            cluster,
            seed: Seed(seed),
            requests: BTreeMap::new(),
            deletes: BTreeSet::new(),
            image: 1,
            what: format!("seed {seed}"),
        }
    }

    /// Some answers are lost.
    fn arm(&mut self) {
        let lose = self.seed.below(20) + 1;
        let mut state = self.cluster.state();
        state.forget_calls();
        state.lose = Some(lose);
    }

    fn asks(&mut self) {
        let number = self.seed.below(self.requests.len() + 1);
        let is_new = number >= self.requests.len() && self.requests.len() < 5;
        let request = format!("numo-{number}");
        if !is_new && !self.requests.contains_key(&request) {
            return;
        }
        let before = self.requests.entry(request.clone()).or_default().clone();
        if before
            .as_ref()
            .is_some_and(|machine| self.deletes.contains(machine))
        {
            return;
        }
        self.arm();
        if let Ok(Creation::Created(made)) = create(&self.cluster, &request, None) {
            let machine = name_of(&made.provider_id);
            if let Some(before) = before {
                assert_eq!(before, machine, "{}: {request} has another", self.what);
            }
            self.requests.insert(request, Some(machine));
        }
    }

    /// Deletes a machine that was there before, or that a request has got.
    fn deletes(&mut self) {
        let mut own = machines(&self.cluster);
        own.retain(|machine| {
            self.old.contains(machine) || self.requests.values().flatten().any(|made| made == machine)
        });
        if own.is_empty() || self.deletes.len() >= 3 && self.seed.below(3) == 0 {
            return;
        }
        let machine = match self.deletes.first() {
            Some(again) if self.seed.below(2) == 0 => again.clone(),
            _ if self.deletes.len() < 3 => own[self.seed.below(own.len())].clone(),
            _ => return,
        };
        self.deletes.insert(machine.clone());
        self.arm();
        drop(ClusterApi::delete_node(
            &world(&self.cluster),
            &format!("docker:////{machine}"),
        ));
    }

    fn images(&mut self) {
        let next = self.seed.below(3) + 1;
        self.cluster.state().put(template(&format!("image-{next}")));
        self.arm();
        let set = ClusterApi::set_group_image(&world(&self.cluster), GROUP, &format!("image-{next}"), None);
        if set == Ok(None) {
            self.image = next;
        }
    }

    fn acts(&mut self) {
        match self.seed.below(10) {
            0..=2 => self.asks(),
            3..=4 => self.deletes(),
            5 => self.images(),
            6 => self.cluster.state().step_deployments(),
            7 => self.cluster.state().step_sets(),
            8 => self.cluster.state().step_machines(),
            _ => self.cluster.step(),
        }
        let going = self.cluster.state().all("Machine");
        let going = going
            .iter()
            .filter(|machine| !text(machine, "/metadata/deletionTimestamp").is_empty());
        for machine in going.map(|machine| text(machine, "/metadata/name")) {
            assert!(
                self.deletes.contains(machine),
                "{}: {machine} goes, and nobody asked for it",
                self.what
            );
        }
    }

    /// Everything is asked for until it is done.
    fn ends(&mut self) {
        self.cluster.state().forget_calls();
        for step in 0..40 {
            if step == 20 {
                self.cluster.state().linger = 0;
            }
            for machine in self.deletes.clone() {
                let id = format!("docker:////{machine}");
                let world = world(&self.cluster);
                let state = ClusterApi::node_state(&world, &id).unwrap();
                if !matches!(state, NodeState::Terminating | NodeState::Terminated) {
                    drop(ClusterApi::delete_node(&world, &id));
                }
            }
            for (request, made) in self.requests.clone() {
                if made.is_none()
                    && let Ok(Creation::Created(made)) = create(&self.cluster, &request, None)
                {
                    self.requests.insert(request, Some(name_of(&made.provider_id)));
                }
            }
            self.cluster.step();
        }
        ClusterApi::groups(&world(&self.cluster), "").unwrap();
        self.cluster.steps(4);
    }

    fn assert_right(&self) {
        let made: BTreeSet<_> = self.requests.values().flatten().collect();
        assert_eq!(
            made.len(),
            self.requests.len(),
            "{}: {:?}",
            self.what,
            self.requests
        );
        let there: BTreeSet<_> = machines(&self.cluster).into_iter().collect();
        assert!(there.is_disjoint(&self.deletes), "{}: {there:?}", self.what);
        let wanted = 3 + self.requests.len() - self.deletes.len();
        assert_eq!(there.len(), wanted, "{}: {there:?}", self.what);
        assert_eq!(
            replicas(&self.cluster),
            i64::try_from(wanted).unwrap(),
            "{}",
            self.what
        );
        assert!(!is_paused(&self.cluster), "{}", self.what);
    }
}

#[test]
fn no_machine_goes_that_was_not_asked_for_whatever_the_order() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..60 {
            run.acts();
        }
        run.ends();
        run.assert_right();
    }
}
