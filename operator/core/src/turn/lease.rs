//! The lease of a node, which operators share so as not to disrupt one node at a time: how it stands, and what takes, keeps and
//! gives it back. When an owner does so is not said here.

use crate::{
    action::{Action, Planned},
    decision::Decision,
    observed::{LeaseView, NodeView, Observed},
    owner::OwnerKind,
    time::later,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, marks};

/// How far ahead the renewal of a lease may be before nobody believes it (seconds).
const AHEAD_SECONDS: i64 = 10;

/// How long no lease is tried after one was refused as there are none (seconds): namespace and right may come any time.
const TRIED_AGAIN_SECONDS: i64 = 600;

/// How the lease of a node stands.
pub(crate) enum Lease<'a> {
    /// It is ours, and need not be renewed before then.
    Ours(Timestamp),
    /// It is ours, and is to be renewed.
    Due(&'a LeaseView),
    /// It is nobody's; it is there if it expired.
    Free(Option<&'a LeaseView>),
    /// It is held by another, until then.
    Held(&'a LeaseView, Timestamp),
    /// There are no leases in this cluster; one is tried again then.
    None(Option<Timestamp>),
}

/// How the lease of a node stands for who would hold it as `holder`.
pub(crate) fn of<'a>(observed: &'a Observed, node: &str, holder: &str, now: Timestamp) -> Lease<'a> {
    standing(observed, observed.leases.get(node), holder, now)
}

/// The same of a lease that was looked up before.
pub(crate) fn standing<'a>(
    observed: &Observed,
    lease: Option<&'a LeaseView>,
    holder: &str,
    now: Timestamp,
) -> Lease<'a> {
    let ahead = |lease: &LeaseView| lease.renewed.is_some_and(|at| at > later(now, AHEAD_SECONDS));
    let is_others = |lease: &LeaseView| lease.holder != holder && !lease.expired(now) && !ahead(lease);
    let is_held = |lease: &LeaseView| lease.holder == holder || is_others(lease);
    let refused = &observed.settings;
    if refused.leases_unavailable.is_some() && !lease.is_some_and(is_held) {
        // A time that has not come, of a clock that was put back, keeps nobody from it.
        let refused = refused.leases_refused;
        let again = refused.map(|at| later(at, TRIED_AGAIN_SECONDS));
        if refused.is_none_or(|at| at <= later(now, AHEAD_SECONDS)) && again.is_none_or(|at| at > now) {
            return Lease::None(again);
        }
    }
    let Some(lease) = lease else {
        return Lease::Free(None);
    };
    if lease.holder == holder {
        let due = lease.renewal();
        // Others do not believe a time that has not come, and take it.
        let holds = (now < due && !ahead(lease)).then_some(Lease::Ours(due));
        return holds.unwrap_or(Lease::Due(lease));
    }
    if is_others(lease) {
        return Lease::Held(lease, expiry(lease));
    }
    Lease::Free(Some(lease))
}

/// Why a node waits whose lease another has, if so.
pub(crate) fn refusal(standing: &Lease<'_>, node: &str) -> Option<Why> {
    match standing {
        Lease::Held(lease, until) => Some(held_by(node, lease, *until)),
        Lease::Ours(_) | Lease::Due(_) | Lease::Free(_) | Lease::None(_) => None,
    }
}

/// Why a node waits whose lease another than `holder` has, if so; it is decided again when that may be over.
pub(crate) fn wait_for(
    out: &mut Decision,
    (observed, now): (&Observed, Timestamp),
    node: &str,
    holder: &str,
) -> Option<Why> {
    let why = refusal(&of(observed, node, holder, now), node)?;
    if let Some(until) = why.until {
        out.wake(until);
    }
    Some(why)
}

/// That another has the lease of a node, until then.
pub(crate) fn held_by(node: &str, lease: &LeaseView, until: Timestamp) -> Why {
    let message = format!(
        "Lease {}/node-{node} is held by {}",
        marks::LEASE_NAMESPACE,
        lease.holder
    );
    Why::new(Reason::NodeLeaseHeld, message).until(until)
}

/// What makes the lease of a node an owner's, or keeps it so.
#[derive(Debug, Default)]
pub(crate) struct Upkeep<'a> {
    /// Renews the lease that the owner has.
    pub renews: Option<Action>,
    /// Takes the lease that nobody has.
    pub takes: Option<Action>,
    /// When the lease that the owner has is to be renewed, or one is tried again where there are none.
    pub due: Option<Timestamp>,
    /// Who else has it, and until when.
    pub held: Option<(&'a LeaseView, Timestamp)>,
}

/// What makes the lease of a node that of `holder`, whose turn began at `since`, or keeps it so.
pub(crate) fn upkeep<'a>(
    observed: &'a Observed,
    node: &NodeView,
    holder: &str,
    (since, now): (Timestamp, Timestamp),
) -> Upkeep<'a> {
    let mut upkeep = Upkeep::default();
    match of(observed, &node.name, holder, now) {
        Lease::None(again) => upkeep.due = again,
        Lease::Ours(due) => upkeep.due = Some(due),
        Lease::Due(lease) => {
            upkeep.renews = Some(Action::RenewLease {
                node: node.name.clone(),
                holder: holder.to_owned(),
                resource_version: lease.resource_version.clone(),
            });
        }
        Lease::Free(over) => {
            upkeep.takes = Some(Action::AcquireLease {
                node: node.name.clone(),
                node_uid: node.uid.clone(),
                holder: holder.to_owned(),
                over: over.map(|lease| (lease.uid.clone(), lease.resource_version.clone())),
                since,
            });
        }
        Lease::Held(lease, until) => upkeep.held = Some((lease, until)),
    }
    upkeep
}

/// Keeps the lease of a node that `holder` has, be it for two turns; nothing is taken.
pub(crate) fn keep(out: &mut Decision, seen: (&Observed, Timestamp), node: &NodeView, holder: &str) {
    let kept = upkeep(seen.0, node, holder, (seen.1, seen.1));
    kept.due.into_iter().for_each(|due| out.wake(due));
    let renewal = kept.renews.map(|action| Planned::of(&node.name, action));
    out.actions
        .extend(renewal.filter(|renewal| !out.actions.contains(renewal)));
}

/// Gives the lease of a node back, if `holder` has it.
pub(crate) fn release(observed: &Observed, node: &str, holder: &str) -> Option<Action> {
    released(node, observed.leases.get(node)?, holder)
}

/// The same of a lease that was looked up before.
pub(crate) fn released(node: &str, lease: &LeaseView, holder: &str) -> Option<Action> {
    (lease.holder == holder).then(|| Action::ReleaseLease {
        node: node.to_owned(),
        uid: lease.uid.clone(),
    })
}

/// How long a node lease holds without renewal (seconds); it is renewed at half of that.
pub const LEASE_SECONDS: i64 = 3600;

/// An owner's name on node leases.
pub fn holder_of(kind: OwnerKind, owner_uid: &str) -> String {
    format!("numo/{}/{owner_uid}", kind.name())
}

/// The kind and the uid of the owner that this name on a node lease is of; none where it is not one of numo's.
pub(crate) fn named_on(holder: &str) -> Option<(&str, &str)> {
    holder.strip_prefix("numo/")?.split_once('/')
}

/// When a lease that nobody renews can be taken over.
pub fn expiry(lease: &LeaseView) -> Timestamp {
    let end = |at| later(at, lease.duration_seconds + 1);
    lease.renewed.map_or(Timestamp::UNIX_EPOCH, end)
}
