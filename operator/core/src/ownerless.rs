//! NodeChanges whose owner is gone. They have no owner reference: the garbage collector deletes what has one before its owner when that is
//! deleted in the foreground, and an owner that has a node in hand would lose its journals. So numo deletes them itself, once their owner is
//! gone. Nothing here writes.

use crate::{
    key::Key,
    observed::{ChangeView, Observed},
    owner::{Owner, OwnerKind},
};
use std::collections::{BTreeMap, BTreeSet};

/// The uids of all owners that were seen, also of those that cannot be read: they are there all the same.
pub(crate) fn alive(observed: &Observed) -> BTreeSet<&str> {
    let seen = observed.owners().map(|(_, view)| view.uid);
    let unread = observed.unread.values().map(|unread| unread.uid.as_str());
    seen.chain(unread).collect()
}

/// The NodeChanges of owners that were not seen, by owner and its uid. An owner may be there all the same: one that has just been made, or of
/// a kind that is not watched. Of kinds that this version does not know nothing is said.
pub fn unowned(observed: &Observed) -> BTreeMap<(Owner, &str), Vec<&ChangeView>> {
    let alive = alive(observed);
    let mut found: BTreeMap<(Owner, &str), Vec<&ChangeView>> = BTreeMap::new();
    for change in observed.changes.values().filter(|change| !change.deleting) {
        let owner = &change.spec.owner_ref;
        let (uid, name) = (owner.uid.as_str(), owner.name.as_str());
        if uid.is_empty() || name.is_empty() || alive.contains(uid) {
            continue;
        }
        if let Some(kind) = OwnerKind::of(owner) {
            let key = Key::new(owner.namespace.as_deref().unwrap_or_default(), name);
            found.entry((Owner { kind, key }, uid)).or_default().push(change);
        }
    }
    found
}
