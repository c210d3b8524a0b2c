//! The memory that rules may take, and which rules have it: rules that owners refer to first, then whoever was there first. The same
//! rules have room in whatever order they were seen. Reads nothing.

use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{observed::Key, referred::Referral};
use std::collections::BTreeMap;

/// What the rules of strangers may take of memory (bytes), and those of one namespace. The rules of numo's own namespace, which
/// administrators write, count in neither: no stranger takes their room.
pub(super) const RULES: usize = 128 << 20;
const RULES_OF_ONE: usize = 16 << 20;

/// Why there is no room for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The rules of its namespace take their share.
    Share,
    /// The rules of all namespaces take what there is.
    All,
}

impl Lack {
    /// The reason, and who ends it in words. The words are the same whatever the others weigh at the moment: else each write of
    /// one rule would have the status of all that have no room written.
    pub fn words(self, namespace: &str) -> (Reason, String) {
        const FIRST: &str = "rules that owners refer to have room first, then the oldest";
        match self {
            Self::Share => (
                Reason::TooLarge,
                format!(
                    "found no room for it: the rules of namespace {namespace} take more than {RULES_OF_ONE} bytes of memory; delete \
                     some of them ({FIRST})"
                ),
            ),
            Self::All => (
                Reason::NoRoom,
                format!(
                    "found no room for it: the rules of all namespaces take more than {RULES} bytes of memory; a cluster \
                     administrator deletes some, or has an owner refer to this one ({FIRST})"
                ),
            ),
        }
    }
}

/// What is known of a rule.
#[derive(Clone, Debug)]
struct Seat {
    /// What it weighs (bytes).
    weight: usize,
    created: Timestamp,
    lack: Option<Lack>,
}

/// What is taken of the room.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: BTreeMap<String, usize>,
}

impl Taken {
    /// Takes room for a rule of a stranger's, if there is enough.
    fn take(&mut self, namespace: &str, weight: usize) -> Result<(), Lack> {
        let own = self.of.get(namespace).copied().unwrap_or(0);
        if own.saturating_add(weight) > RULES_OF_ONE {
            return Err(Lack::Share);
        }
        if self.all.saturating_add(weight) > RULES {
            return Err(Lack::All);
        }
        self.all += weight;
        self.of.insert(namespace.to_owned(), own + weight);
        Ok(())
    }

    fn free(&mut self, namespace: &str, weight: usize) {
        self.all = self.all.saturating_sub(weight);
        if let Some(own) = self.of.get_mut(namespace) {
            *own = own.saturating_sub(weight);
            if *own == 0 {
                self.of.remove(namespace);
            }
        }
    }
}

/// Who has room.
#[derive(Debug, Default)]
pub struct Room {
    /// Rules of all namespaces but numo's own.
    seats: BTreeMap<Key, Seat>,
    taken: Taken,
    referred: BTreeMap<Key, Referral>,
    /// How many have no room.
    lacking: usize,
    /// Whether others may have room than have it.
    is_due: bool,
}

/// Whose room has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Rules that have room no longer, or lack it for another reason.
    pub lost: Vec<Key>,
    /// Rules that have room now, those that owners refer to first.
    pub gained: Vec<Key>,
}

impl Room {
    /// Takes room for a rule of a stranger's as far as there is some by now; who is to have it in the end is settled by
    /// [`Room::settle`]. True if it has room.
    pub fn take(&mut self, key: &Key, weight: usize, created: Timestamp) -> bool {
        if let Some(known) = self.seats.get(key)
            && known.weight == weight
            && known.created == created
        {
            return known.lack.is_none();
        }
        self.forget(key);
        let lack = self.taken.take(&key.namespace, weight).err();
        self.lacking += usize::from(lack.is_some());
        self.is_due |= self.lacking > 0;
        let seat = Seat {
            weight,
            created,
            lack,
        };
        self.seats.insert(key.clone(), seat);
        lack.is_none()
    }

    /// Gives back the room of a rule that is gone.
    pub fn forget(&mut self, key: &Key) {
        let Some(seat) = self.seats.remove(key) else {
            return;
        };
        if seat.lack.is_some() {
            self.lacking = self.lacking.saturating_sub(1);
        } else {
            self.taken.free(&key.namespace, seat.weight);
        }
        self.is_due |= self.lacking > 0;
    }

    /// Why a rule has no room, if so.
    pub fn lack(&self, key: &Key) -> Option<Lack> {
        self.seats.get(key).and_then(|seat| seat.lack)
    }

    /// The rules that owners refer to, whether they exist or not.
    pub fn referred(&self) -> impl Iterator<Item = &Key> {
        self.referred.keys()
    }

    /// Where a rule stands by what refers to it: the lowest first.
    pub fn rank(&self, key: &Key) -> (bool, Option<Referral>) {
        rank(&self.referred, key)
    }

    /// Deals the room out anew: to rules of owners that are watched, then of those that give back, then to all others; the oldest
    /// of each first, and of one second by name. One that does not fit lets smaller ones after it have room.
    pub fn settle(&mut self, referred: BTreeMap<Key, Referral>) -> Moved {
        let is_due = self.lacking > 0 && (self.is_due || self.referred != referred);
        self.referred = referred;
        self.is_due = false;
        let mut moved = Moved::default();
        if !is_due {
            return moved;
        }
        let mut order: Vec<(&Key, &mut Seat)> = self.seats.iter_mut().collect();
        order.sort_by_cached_key(|(key, seat)| (rank(&self.referred, key), seat.created, (*key).clone()));
        let mut taken = Taken::default();
        self.lacking = 0;
        for (key, seat) in order {
            let lack = taken.take(&key.namespace, seat.weight).err();
            self.lacking += usize::from(lack.is_some());
            match (seat.lack, lack) {
                (before, now) if before == now => {}
                (_, Some(_)) => moved.lost.push(key.clone()),
                (_, None) => moved.gained.push(key.clone()),
            }
            seat.lack = lack;
        }
        self.taken = taken;
        moved
    }
}

fn rank(referred: &BTreeMap<Key, Referral>, key: &Key) -> (bool, Option<Referral>) {
    let referral = referred.get(key).copied();
    (referral.is_none(), referral)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Who has room, by their names.
    fn seated(room: &Room) -> Vec<String> {
        let seats = room.seats.iter().filter(|(_, seat)| seat.lack.is_none());
        seats.map(|(key, _)| key.to_string()).collect()
    }

    /// Eight namespaces that take all of it, one rule each that fills its share, and a ninth that comes later.
    fn full() -> Vec<(Key, usize, Timestamp)> {
        let mut all: Vec<_> = (0..8)
            .map(|number| {
                (
                    Key::new(format!("flood-{number}"), "big"),
                    RULES_OF_ONE,
                    at(number),
                )
            })
            .collect();
        all.push((Key::new("team", "gate"), MIB, at(100)));
        all
    }

    fn referred(keys: &[(&str, &str)]) -> BTreeMap<Key, Referral> {
        let keys = keys.iter().map(|(namespace, name)| Key::new(*namespace, *name));
        keys.map(|key| (key, Referral::Watched)).collect()
    }

    #[test]
    fn a_rule_that_an_owner_refers_to_has_room_in_whatever_order_rules_are_seen() {
        let by_owner = referred(&[("team", "gate")]);
        let mut expected = None;
        for turn in 0..full().len() {
            let mut room = Room::default();
            let mut all = full();
            all.rotate_left(turn);
            if turn % 2 == 1 {
                all.reverse();
            }
            for (key, weight, created) in &all {
                room.take(key, *weight, *created);
            }
            room.settle(by_owner.clone());
            assert_eq!(room.lack(&Key::new("team", "gate")), None, "turn {turn}");
            // The newest of those that nobody refers to gave way.
            assert_eq!(room.lack(&Key::new("flood-7", "big")), Some(Lack::All));
            let found = seated(&room);
            assert_eq!(*expected.get_or_insert(found.clone()), found, "turn {turn}");
        }
    }

    #[test]
    fn room_follows_what_owners_refer_to_and_what_is_deleted() {
        let gate = Key::new("team", "gate");
        let mut room = Room::default();
        for (key, weight, created) in full() {
            let has_room = room.take(&key, weight, created);
            assert_eq!(has_room, key != gate);
        }
        assert_eq!(
            room.settle(BTreeMap::new()),
            Moved::default(),
            "the newest has none"
        );
        // An owner refers to it later.
        let moved = room.settle(referred(&[("team", "gate")]));
        assert_eq!(moved.gained, std::slice::from_ref(&gate));
        assert_eq!(moved.lost, [Key::new("flood-7", "big")]);
        assert_eq!(
            room.settle(referred(&[("team", "gate")])),
            Moved::default(),
            "nothing has changed"
        );
        // Its owner goes.
        let moved = room.settle(BTreeMap::new());
        assert_eq!(moved.lost, std::slice::from_ref(&gate));
        // Somebody makes room.
        room.forget(&Key::new("flood-0", "big"));
        assert_eq!(room.settle(BTreeMap::new()).gained, [gate]);
    }

    #[test]
    fn a_finalizer_that_anybody_may_write_pushes_out_nobody_whom_an_watched_owner_refers_to() {
        let mut room = Room::default();
        let mut by_owners = referred(&[("team", "gate")]);
        for (key, weight, created) in full() {
            room.take(&key, weight, created);
            by_owners.entry(key).or_insert(Referral::GivesBack);
        }
        room.settle(by_owners);
        assert_eq!(room.lack(&Key::new("team", "gate")), None);
    }

    #[test]
    fn the_share_of_a_namespace_is_dealt_out_the_same_way() {
        let mut room = Room::default();
        let (old, new) = (Key::new("team", "old"), Key::new("team", "new"));
        room.take(&old, RULES_OF_ONE - MIB, at(1));
        assert!(!room.take(&new, 2 * MIB, at(2)));
        assert_eq!(room.lack(&new), Some(Lack::Share));
        room.settle(referred(&[("team", "new")]));
        assert_eq!((room.lack(&new), room.lack(&old)), (None, Some(Lack::Share)));
        // Another team is not touched by it.
        assert!(room.take(&Key::new("other", "a"), RULES_OF_ONE, at(3)));
    }

    #[test]
    fn a_rule_that_shrinks_leaves_its_room_to_others() {
        let mut room = Room::default();
        for (key, weight, created) in full() {
            room.take(&key, weight, created);
        }
        assert!(room.take(&Key::new("flood-3", "big"), MIB, at(3)));
        assert_eq!(room.settle(BTreeMap::new()).gained, [Key::new("team", "gate")]);
        let all: usize = room.taken.of.values().sum();
        assert_eq!(all, room.taken.all);
    }

    #[test]
    fn the_words_of_a_rule_without_room_say_who_ends_it() {
        let (reason, words) = Lack::All.words("team");
        assert_eq!(reason, Reason::NoRoom);
        assert!(words.contains("a cluster administrator deletes some, or has an owner refer to this one"));
        let (reason, words) = Lack::Share.words("team");
        assert_eq!(reason, Reason::TooLarge);
        assert!(words.contains("namespace team") && words.contains("delete some of them"));
    }
}
