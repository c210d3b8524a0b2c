//! Owners of kinds that this version does not know: a later numo has begun something for them. Whether their work may be taken back
//! cannot be told here, so nothing of theirs is. Nothing here writes.

use crate::{observed::Observed, owner::OwnerKind, turn::lease};
use std::collections::BTreeMap;

/// An owner of a kind that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unknown {
    /// Its kind, as its journal or the lease of its node has it.
    pub kind: String,
    /// `namespace/name`, where a journal tells it.
    pub name: Option<String>,
}

impl Unknown {
    /// Why a mark of this owner stays, and who ends that.
    pub fn words(&self) -> String {
        let Self { kind, .. } = self;
        format!(
            "held for {self}: this numo does not know kind {kind} and restores nothing of it; a numo that knows {kind} does, or a \
             person puts back by hand what was there before"
        )
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.kind),
            None => write!(f, "an owner of kind {}", self.kind),
        }
    }
}

/// Owners of kinds that this version does not know, by uid, as journals and node leases name them. Whose uid is an owner's that was seen
/// is known, whatever else is said of it.
pub(crate) fn owners(observed: &Observed) -> BTreeMap<String, Unknown> {
    let mut found = BTreeMap::new();
    for lease in observed.leases.values() {
        if let Some((kind, uid)) = lease::named_on(&lease.holder)
            && OwnerKind::ALL.iter().all(|known| known.name() != kind)
        {
            let kind = kind.to_owned();
            found.insert(uid.to_owned(), Unknown { kind, name: None });
        }
    }
    for change in observed.journals() {
        let owner = &change.spec.owner_ref;
        if OwnerKind::of(owner).is_none() {
            let name = match owner.namespace.as_deref() {
                None | Some("") => owner.name.clone(),
                Some(namespace) => format!("{namespace}/{}", owner.name),
            };
            let kind = owner.kind.clone();
            let name = Some(name);
            found.insert(owner.uid.clone(), Unknown { kind, name });
        }
    }
    found.remove("");
    for (_, seen) in observed.owners() {
        found.remove(seen.uid);
    }
    found
}
