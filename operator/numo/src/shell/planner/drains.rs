//! What was found out about drains, kept for a moment: a probe of a node is dear, and the passes of many owners ask the same. It asks
//! nothing itself.

use numo_core::verdict::{Answers, KeptVolumes};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// How long an answer about a drain is taken for true.
const MEMORY: Duration = Duration::from_secs(15);

/// Answers about the drains of nodes, by node, with when they were found.
#[derive(Debug, Default)]
pub struct Drains {
    /// Why a drain could not pass.
    blocked: BTreeMap<String, (Instant, String)>,
    /// Volumes of pods that stay on a node.
    volumes: BTreeMap<String, (Instant, Result<KeptVolumes, String>)>,
}

impl Drains {
    /// The answers that are still taken for true.
    pub fn recall(&mut self) -> Answers {
        let mut answers = Answers::default();
        self.blocked.retain(|_, (at, _)| at.elapsed() < MEMORY);
        for (node, (_, why)) in &self.blocked {
            answers.drains.insert(node.clone(), Some(why.clone()));
        }
        self.volumes.retain(|_, (at, _)| at.elapsed() < MEMORY);
        for (node, (_, found)) in &self.volumes {
            answers.volumes.insert(node.clone(), found.clone());
        }
        answers
    }

    /// Remembers answers. One that is known stays as old as it is.
    pub fn remember(&mut self, answers: &Answers) {
        for (node, why) in &answers.drains {
            if let Some(why) = why {
                let known = self.blocked.entry(node.clone());
                known.or_insert_with(|| (Instant::now(), why.clone()));
            }
        }
        for (node, found) in &answers.volumes {
            let known = self.volumes.entry(node.clone());
            known.or_insert_with(|| (Instant::now(), found.clone()));
        }
    }
}
