//! Which rules owners refer to. One place for all kinds of owners; nothing here reads or writes anything.

use crate::{
    finalizer,
    observed::{Key, Observed},
    owner::Owner,
    owners,
};
use std::collections::BTreeMap;

/// How an owner refers to a rule, the stronger first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referral {
    /// An owner that is watched.
    Watched,
    /// An owner that is not watched, and says by its finalizer that it has something to give back. Whoever may write the owner may
    /// write that, too.
    GivesBack,
}

/// The rules that owners refer to, whether they exist or not, each by its strongest referral.
pub fn rules(observed: &Observed) -> BTreeMap<Key, Referral> {
    let mut all = BTreeMap::new();
    for (owner, view) in observed.owners() {
        let restores = || finalizer::is_on(&owner, view);
        let referral = if owners::is_watched(&owner, observed) {
            Referral::Watched
        } else if restores() {
            Referral::GivesBack
        } else {
            continue;
        };
        for key in of_owner(&owner, observed) {
            let strongest = all.entry(key).or_insert(referral);
            *strongest = referral.min(*strongest);
        }
    }
    all
}

/// The rules that this owner refers to, whether they exist or not.
pub fn of_owner(owner: &Owner, observed: &Observed) -> Vec<Key> {
    owners::rules_named(owner, observed)
}

/// Whether an owner is in a namespace that may have such owners. Whoever may write others has nothing done before those that
/// administrators have let in.
pub fn is_watched(owner: &Owner, observed: &Observed) -> bool {
    owners::is_watched(owner, observed)
}
