//! MutexApprovals. One that cannot be read approves nothing.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched, left_as_it_was},
    object::Object,
};
use crate::shell::{
    item::Size,
    project::{created, misread, typed},
    store::{Store, replace},
};
use numo_api::MutexApproval;
use numo_core::observed::{ApprovalView, Key};

/// How MutexApprovals are watched.
pub const MUTEX_APPROVAL: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "MutexApproval",
        "mutexapprovals",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexApproval>,
        left: left_as_it_was,
        known_as: "mutexapprovals",
    },
    project: |object| Some(Object::Approval(Box::new(view(typed(object)?)))),
    kept: Kept::All,
    remove,
};

fn view(approval: MutexApproval) -> ApprovalView {
    let metadata = approval.metadata;
    ApprovalView {
        created: created(&metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        generation: metadata.generation.unwrap_or(1),
        status: approval.status.unwrap_or_default(),
        spec: approval.spec,
    }
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, approval: ApprovalView) -> bool {
    replace(&mut store.observed.approvals, approval.name.clone(), approval)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.approvals.remove(&key.name).is_some()
}

/// Whether an approval differs from what is known of it by more than its status: a spec stays as it was made.
pub fn has_news(store: &Store, approval: &ApprovalView) -> bool {
    let known = store.observed.approvals.get(&approval.name);
    known.is_some_and(|known| known.deleting != approval.deleting || known.uid != approval.uid)
}
