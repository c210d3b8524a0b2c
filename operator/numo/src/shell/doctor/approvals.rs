//! Checks MutexApprovals: one that approves nothing changes nothing, and its author may not know.

use super::{
    finding::{Findings, counted},
    objects::listed,
};
use crate::shell::{
    client::Connection,
    kind::{Kind, kind_of},
    watch,
};
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::ListParams};
use numo_api::{ApprovalStatus, ApprovedOwner, MutexApproval, Reason, conditions::types};
use numo_core::{
    MaintenanceGroup, Owner,
    observed::Key,
    text::clip,
    unheard::{self, Waits},
};
use std::collections::{BTreeMap, BTreeSet};

/// How old an approval is at least that is judged: its owner must have seen it.
const SEEN: SignedDuration = SignedDuration::from_secs(10);
/// Longest name of a person (characters).
const NAME: usize = 200;

/// What the owners that may be approved wait for, and the kinds of which that is not known.
#[derive(Debug, Default)]
struct Owners {
    waits: BTreeMap<String, Option<ApprovalStatus>>,
    unknown: BTreeSet<&'static str>,
}

/// All approvals: one that approves nothing is not told by any owner.
pub(super) async fn approvals(connection: &Connection, found: &mut Findings) {
    let all: Vec<MutexApproval> = listed(connection, found, "MutexApprovals").await;
    if all.is_empty() {
        return;
    }
    let (owners, before) = (owners(connection, found).await, found.all.len());
    let now = connection.clock.now();
    for one in &all {
        let Some(why) = unheard(one, &owners, now) else {
            continue;
        };
        let (name, by) = (one.name_any(), clip(&one.spec.approved_by, NAME));
        found.note(
            format!("MutexApproval {name} of {by} approves nothing: {why}"),
            format!("numo approve --list -A shows what waits; kubectl delete mutexapproval {name}"),
        );
    }
    if found.all.len() == before {
        found.ok(format!(
            "{}: nothing is wrong with them",
            counted(all.len(), "MutexApproval")
        ));
    }
}

/// Every owner that may be approved.
async fn owners(connection: &Connection, found: &mut Findings) -> Owners {
    let mut owners = Owners::default();
    let kinds: [fn(Key) -> Owner; 5] = [
        Owner::run,
        Owner::plan,
        |key| Owner::node_version(key.name),
        |key| Owner::maintenance(MaintenanceGroup::Medik8s, key.name),
        |key| Owner::maintenance(MaintenanceGroup::KubeVirt, key.name),
    ];
    for of in kinds {
        let kind: Kind = kind_of(&of(Key::new("", "")));
        let name = kind.resource().2;
        let list = match watch::api(&connection.read, kind, "")
            .list(&ListParams::default())
            .await
        {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => {
                found.unknown(name, &error);
                owners.unknown.insert(name);
                continue;
            }
        };
        for object in list {
            let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
            let waits = object.data.pointer("/status/approval").cloned();
            let waits = waits.and_then(|waits| serde_json::from_value(waits).ok());
            owners.waits.insert(id(&of(key).approved()), waits);
        }
    }
    owners
}

/// What tells one owner from another.
fn id(owner: &ApprovedOwner) -> String {
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    [&owner.api_group, &owner.kind, namespace, &owner.name].join("/")
}

/// Why an approval approves nothing. Of one that could be of what is over nobody knows that.
fn unheard(one: &MutexApproval, owners: &Owners, now: Timestamp) -> Option<String> {
    let created = one.metadata.creation_timestamp.as_ref()?.0;
    let spec = &one.spec;
    if now.duration_since(created) < SEEN || owners.unknown.contains(spec.owner.kind.as_str()) {
        return None;
    }
    // Its owner has gone on by it: a NodeMaintenance is gone when it is over.
    let status = one.status.iter();
    let mut conditions = status.flat_map(|status| &status.conditions);
    if conditions.any(|condition| condition.type_ == types::HOLDS && condition.status == "True") {
        return None;
    }
    let Some(status) = owners.waits.get(&id(&spec.owner)) else {
        return unheard::why(spec, &Waits::Nowhere);
    };
    let is_forged = !unheard::is_digest(&spec.digest);
    let Some(status) = status else {
        return unheard::why(spec, &Waits::Nothing).filter(|_| is_forged);
    };
    let since: Option<Timestamp> = status.since.parse().ok();
    let is_of_this = since.is_some_and(|since| created >= since);
    let waits = Waits::For {
        what: &status.waits,
        digest: &status.digest,
        is_expired: status.reason == Reason::ApprovalExpired.name(),
    };
    unheard::why(spec, &waits).filter(|_| is_forged || is_of_this)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_approval_that_approves_nothing_is_told_from_one_of_what_is_over() {
        let part = "0123456789abcdef0123456789abcdef";
        let (this, other) = ([part; 4].join("-"), ["f".repeat(32).as_str(); 4].join("-"));
        let approval = |name: &str, digest: &str, created: &str| -> MutexApproval {
            serde_json::from_value(json!({
                "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexApproval",
                "metadata": {"name": "a", "creationTimestamp": created},
                "spec": {
                    "owner": {"apiGroup": "upgrade.cattle.io", "kind": "Plan", "namespace": "os", "name": name},
                    "digest": digest, "reason": "r", "approvedBy": "ada",
                },
            }))
            .unwrap()
        };
        let waits = |name: &str, waits: Option<ApprovalStatus>| {
            let owner = Owner::plan(Key::new("os", name)).approved();
            (id(&owner), waits)
        };
        let of_wave = ApprovalStatus {
            waits: "wave 2 of 3".to_owned(),
            reason: "WaitsForApproval".to_owned(),
            digest: this.clone(),
            since: "2027-01-15T08:00:00Z".to_owned(),
        };
        let owners = Owners {
            waits: BTreeMap::from([waits("idle", None), waits("waits", Some(of_wave))]),
            unknown: BTreeSet::new(),
        };
        let (before, after) = ("2027-01-15T07:00:00Z", "2027-01-15T08:30:00Z");
        let now: Timestamp = "2027-01-15T09:00:00Z".parse().unwrap();
        for (name, digest, created, wanted) in [
            ("nowhere", &this, before, "is not there"),
            ("idle", &this, before, ""),
            ("idle", &"d".to_owned(), before, "waits for no approval"),
            ("waits", &other, before, ""),
            ("waits", &other, after, "spec.digest is not that of"),
            ("waits", &this, after, "this is of something else"),
            ("waits", &"d".to_owned(), before, "spec.digest is not that of"),
            ("nowhere", &this, "2027-01-15T08:59:55Z", ""),
        ] {
            let found = unheard(&approval(name, digest, created), &owners, now);
            let words = found.as_deref().unwrap_or_default();
            let is_it = words.contains(wanted) && words.is_empty() == wanted.is_empty();
            assert!(is_it, "{name} {digest} {created}: {words:?}");
        }
        let blind = Owners {
            unknown: BTreeSet::from(["Plan"]),
            ..Owners::default()
        };
        let one = approval("nowhere", &this, before);
        assert_eq!(unheard(&one, &blind, now), None, "nobody knows");
    }
}
