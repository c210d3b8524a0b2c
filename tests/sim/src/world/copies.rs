//! Someone restores a backup wrongly: the status of a NodeChange is written over that of another one.

use super::{Act, Event, Object, World};
use crate::reading::has_turn;
use numo_api::NodeChangeStatus;
use numo_core::observed::{ChangeView, Key, Observed};
use std::collections::BTreeMap;

/// After so long (seconds) it is tried again where no two nodes have their turns.
const AGAIN_SECONDS: i64 = 120;

/// The status of each NodeChange that is another one's, as it was written.
pub type Copied = BTreeMap<Key, NodeChangeStatus>;

impl World {
    /// Writes the status of a node in its turn over that of another one, and with `swaps` that one's over its own. It is tried `times` times.
    pub(super) fn copy_status(&mut self, swaps: bool, times: u32) {
        let pairs = pairs(&self.truth);
        let Some((from, to)) = self.one_of(pairs) else {
            if times > 1 {
                let times = times - 1;
                self.plan(AGAIN_SECONDS, Event::Act(Act::CopyStatus(swaps, times)));
            }
            return;
        };
        (self.people.journals_deleted, self.people.has_copied) = (true, true);
        let both = [&from, &to].map(|key| self.truth.changes.get(key).map(|change| change.status.clone()));
        let [Some(of_one), Some(of_other)] = both else {
            return;
        };
        let what = if swaps { "swaps" } else { "copies" };
        self.tell("person", || {
            format!("{what} the status of NodeChange {from} and that of {to}")
        });
        self.overwrite(&to, of_one);
        if swaps {
            self.overwrite(&from, of_other);
        }
    }

    fn overwrite(&mut self, key: &Key, status: NodeChangeStatus) {
        let version = self.serial().to_string();
        if let Some(change) = self.truth.changes.get_mut(key) {
            change.resource_version = version;
            change.status = status.clone();
            self.people.copied.insert(key.clone(), status);
            self.touch(Object::Change(key.clone()));
        }
    }
}

/// NodeChanges of one kind of owner whose nodes have their turns, two and two. The first says whose its status is.
fn pairs(truth: &Observed) -> Vec<(Key, Key)> {
    let flying: Vec<&ChangeView> = truth.changes.values().filter(|change| has_turn(change)).collect();
    let one = flying
        .iter()
        .filter(|change| change.status.node_change_uid.is_some());
    let both = one.flat_map(|one| flying.iter().map(move |other| (*one, *other)));
    let both = both.filter(|(one, other)| {
        one.spec.owner_ref.kind == other.spec.owner_ref.kind && one.spec.node_name != other.spec.node_name
    });
    both.map(|(one, other)| (one.key.clone(), other.key.clone()))
        .collect()
}
