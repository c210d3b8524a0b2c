//! Writes that the API server refuses again in the same words. One that was decided on an old view is refused once, and
//! decided anew; one that comes back unchanged is refused for another reason, and people must hear of it. Nothing is
//! sent and no time is taken here.

use jiff::{SignedDuration, Timestamp};
use numo_core::{Owner, action::Action};
use std::collections::BTreeMap;

/// How long the same words must be said of the same write: the watches may be this late.
const SURE_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// A write that was refused, since when, and in which words.
#[derive(Debug)]
struct Repeat {
    action: Action,
    words: String,
    since: Timestamp,
}

/// How long writes of one kind must go unanswered, or fail: an API server that is started again takes that long.
const DOWN_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// The refused writes, by owner and chain.
#[derive(Debug, Default)]
pub struct Repeats {
    known: BTreeMap<(Owner, String), Repeat>,
    /// Writes that failed for no fault of theirs: what they do, and since when.
    failing: BTreeMap<(Owner, String), (&'static str, Timestamp)>,
}

impl Repeats {
    /// Takes note of a refusal; true if the same write was refused in the same words a second ago or earlier.
    pub fn note(&mut self, owner: &Owner, chain: &str, action: &Action, words: &str, now: Timestamp) -> bool {
        let key = (owner.clone(), chain.to_owned());
        if let Some(known) = self.known.get(&key)
            && known.words == words
            && known.action == *action
        {
            return now.duration_since(known.since) >= SURE_AFTER;
        }
        let (action, words) = (action.clone(), words.to_owned());
        self.known.insert(
            key,
            Repeat {
                action,
                words,
                since: now,
            },
        );
        false
    }

    /// Takes note of a write that was not answered, or failed for no fault of its own; true if such writes of the chain
    /// have failed for half a minute.
    pub fn fails(&mut self, owner: &Owner, chain: &str, name: &'static str, now: Timestamp) -> bool {
        let key = (owner.clone(), chain.to_owned());
        let since = self.failing.get(&key).filter(|(known, _)| *known == name);
        let since = since.map_or(now, |(_, since)| *since);
        self.failing.insert(key, (name, since));
        now.duration_since(since) >= DOWN_AFTER
    }

    /// Forgets what was refused of a chain: a write of the chain has succeeded.
    pub fn forget(&mut self, owner: &Owner, chain: &str) {
        let key = (owner.clone(), chain.to_owned());
        self.known.remove(&key);
        self.failing.remove(&key);
    }

    /// Keeps only what is asked for.
    pub fn retain(&mut self, keep: impl Fn(&Owner, &str) -> bool) {
        self.known.retain(|(owner, chain), _| keep(owner, chain));
        self.failing.retain(|(owner, chain), _| keep(owner, chain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::Key;

    #[test]
    fn only_the_same_write_refused_again_in_the_same_words_is_told() {
        let owner = Owner::run(Key::new("ns", "run"));
        let other = Owner::run(Key::new("ns", "other"));
        let start = |uid: &str| Action::StartPlanJob {
            job: Key::new("ns", "job"),
            uid: uid.to_owned(),
        };
        let at = |millis: i64| Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap();
        let mut repeats = Repeats::default();
        assert!(!repeats.note(&owner, "a", &start("1"), "no", at(0)));
        // The watch may be late.
        assert!(!repeats.note(&owner, "a", &start("1"), "no", at(999)));
        assert!(repeats.note(&owner, "a", &start("1"), "no", at(1000)));
        assert!(!repeats.note(&other, "a", &start("1"), "no", at(1000)));
        assert!(!repeats.note(&owner, "b", &start("1"), "no", at(1000)));
        // Other words, and another write, begin anew.
        assert!(!repeats.note(&owner, "a", &start("1"), "never", at(2000)));
        assert!(!repeats.note(&owner, "a", &start("2"), "never", at(9000)));
        assert!(repeats.note(&owner, "a", &start("2"), "never", at(10_000)));
        repeats.forget(&owner, "a");
        assert!(!repeats.note(&owner, "a", &start("2"), "never", at(20_000)));
        // An API server that is started again takes nothing for a while.
        assert!(!repeats.fails(&owner, "c", "WriteJournal", at(0)));
        assert!(!repeats.fails(&owner, "c", "WriteJournal", at(29_999)));
        assert!(repeats.fails(&owner, "c", "WriteJournal", at(30_000)));
        assert!(
            !repeats.fails(&owner, "c", "CreateJob", at(60_000)),
            "it has come further"
        );
        repeats.forget(&owner, "c");
        assert!(!repeats.fails(&owner, "c", "CreateJob", at(99_000)));
        repeats.retain(|of, _| *of != owner);
        assert!(!repeats.note(&owner, "a", &start("2"), "never", at(30_000)));
    }
}
