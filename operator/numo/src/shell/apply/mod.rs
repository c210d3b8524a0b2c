//! Actions become requests, one each. Every change of an object that is not ours is a JSON Patch that
//! tests the uid and each field that was read: a write that was decided on an old view fails, whoever
//! sends it (invariant 9). Nothing is decided here.
//!
//! This page is the list of actions; each kind of object has a file of its own, and none of them imports this one.

mod error;
mod eviction;
mod fleet;
mod job;
mod journal;
mod lease;
mod machine;
mod maintenance;
mod node;
mod object;
mod owner;
mod patch;
mod pool;

pub use self::{
    error::ApplyError,
    eviction::{evict, what_was_said},
    fleet::of_machines,
    journal::{change_body, delete_unowned},
};

use self::{
    job::{create_job, create_plan_job, delete_plan_job, set_job_ttl, start_plan_job},
    journal::{create_change, delete_change, write_journal},
    lease::{acquire_lease, release_lease, renew_lease},
    machine::patch_machine,
    maintenance::{create_maintenance, delete_maintenance},
    node::patch_node,
    owner::{add_finalizer, mark_gate, record_run, remove_finalizer},
    pool::patch_pool,
};
use crate::shell::store::Store;
use jiff::Timestamp;
use kube::Client;
use numo_core::action::Action;

/// Carries out one action, and puts the answer into the store.
///
/// It is over sixty lines because each action has its arm here, and nothing else: a reader finds all that numo writes.
pub async fn apply(
    client: &Client,
    store: &mut Store,
    action: &Action,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match action {
        Action::PatchNode(patch) => patch_node(client, store, patch).await,
        Action::PatchPool(patch) => patch_pool(client, store, patch).await,
        Action::PatchMachine(patch) => patch_machine(client, store, patch).await,
        Action::AddFinalizer {
            owner,
            uid,
            finalizer,
        } => add_finalizer(client, store, owner, (uid, finalizer), now).await,
        Action::RemoveFinalizer {
            owner,
            uid,
            finalizer,
            index,
        } => remove_finalizer(client, store, owner, uid, (finalizer, *index)).await,
        Action::CreateChange { key, spec } => create_change(client, store, key, spec).await,
        Action::WriteJournal {
            key,
            uid,
            resource_version,
            status,
        } => write_journal(client, store, key, (uid, resource_version), status).await,
        Action::DeleteChange {
            key,
            uid,
            resource_version,
        } => delete_change(client, store, key, (uid, resource_version)).await,
        Action::Evict { node, eviction } => {
            let said = evict(client, eviction).await;
            store.evicted(node, eviction, said, now);
            Ok(())
        }
        Action::RecordRun { owner, run } => record_run(client, store, owner, run).await,
        Action::CreateJob(request) => create_job(client, store, request).await,
        Action::CreatePlanJob(request) => create_plan_job(client, store, request).await,
        Action::StartPlanJob { job, uid } => start_plan_job(client, store, job, uid).await,
        Action::DeletePlanJob { job, uid } => delete_plan_job(client, store, job, uid).await,
        Action::MarkGate {
            owner,
            uid,
            change,
            has_annotations,
        } => mark_gate(client, store, owner, uid, (change, *has_annotations)).await,
        Action::CreateMaintenance(request) => create_maintenance(client, store, request).await,
        Action::DeleteMaintenance { name, uid } => delete_maintenance(client, store, name, uid).await,
        // What is done to machines needs their provider: `of_machines`.
        Action::Fleet(_) => Ok(()),
        Action::SetJobTtl { job, uid, seconds } => set_job_ttl(client, store, job, uid, *seconds).await,
        Action::AcquireLease {
            node,
            node_uid,
            holder,
            over,
            since,
        } => {
            let times = (now, Some(*since));
            acquire_lease(client, store, (node, node_uid), holder, over.as_ref(), times).await
        }
        Action::RenewLease {
            node,
            holder,
            resource_version,
        } => renew_lease(client, store, node, holder, (resource_version, now)).await,
        Action::ReleaseLease { node, uid } => release_lease(client, store, node, uid).await,
    }
}
