//! Carries writes out as the API server would: it refuses what was decided on something else than what is there.

use jiff::{SignedDuration, Timestamp};
use numo_api::{NodeChangeStatus, marks};
use numo_core::{
    Owner, OwnerKind,
    action::{Action, Change, FleetAction, MachinePatch, NodePatch, PlanParts, PoolPatch},
    finalizer,
    observed::{
        Annotated, ChangeView, EvictionView, Heard, JobView, LeaseView, Map, Observed, PendingNodeView,
        PlanJobView, RuleView, Said, ScalingGroupView, Told,
    },
};

/// Whether the write is taken; else why not.
pub type Taken = Result<(), String>;

fn taken(is: bool, why: &str) -> Taken {
    if is { Ok(()) } else { Err(why.to_owned()) }
}

pub fn finalizers<'o>(
    observed: &'o mut Observed,
    owner: &Owner,
) -> Option<(&'o str, bool, &'o mut Vec<String>)> {
    Some(match owner.kind {
        OwnerKind::MutexRunConfig => {
            let view = observed.runs.get_mut(&owner.key)?;
            (&view.uid, view.deleting, &mut view.finalizers)
        }
        OwnerKind::Plan => {
            let view = observed.plans.get_mut(&owner.key)?;
            (&view.uid, view.deleting, &mut view.finalizers)
        }
        OwnerKind::NodeVersion => {
            let view = observed.fleet.versions.get_mut(&owner.key.name)?;
            (&view.uid, view.deleting, &mut view.finalizers)
        }
        OwnerKind::NodeMaintenance(_) => {
            let view = observed.maintenances.get_mut(owner)?;
            (&view.uid, view.deleting, &mut view.finalizers)
        }
    })
}

fn test(map: &Map, changes: &[Change]) -> Taken {
    for change in changes {
        if map.get(&change.key) != change.from.as_ref() {
            return Err(format!(
                "test of {}: found {:?}, read {:?}",
                change.key,
                map.get(&change.key),
                change.from
            ));
        }
    }
    Ok(())
}

fn lay(map: &mut Map, changes: &[Change]) {
    for change in changes {
        match &change.to {
            Some(value) => map.insert(change.key.clone(), value.clone()),
            None => map.remove(&change.key),
        };
    }
}

fn patch_node(observed: &mut Observed, patch: &NodePatch) -> Taken {
    let node = observed.nodes.get_mut(&patch.node);
    let Some(node) = node.filter(|node| node.uid == patch.uid) else {
        return Err("no such node".to_owned());
    };
    test(&node.labels, &patch.labels)?;
    test(&node.annotations, &patch.annotations)?;
    let read = patch.while_unschedulable;
    taken(
        read.is_none_or(|is| is == node.unschedulable),
        "test of unschedulable",
    )?;
    let read = patch.taints.as_ref();
    taken(
        read.is_none_or(|(from, _)| *from == node.taints),
        "test of taints",
    )?;
    let adds = |changes: &[Change]| changes.iter().any(|change| change.to.is_some());
    taken(
        patch.has_labels || !adds(&patch.labels) || node.labels.is_empty(),
        "labels replaced",
    )?;
    taken(
        patch.has_annotations || !adds(&patch.annotations) || !node.has_annotations,
        "annotations replaced",
    )?;
    lay(&mut node.labels, &patch.labels);
    lay(&mut node.annotations, &patch.annotations);
    node.has_annotations |= !node.annotations.is_empty();
    node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
    if let Some((_, taints)) = &patch.taints {
        node.taints = taints.clone();
    }
    Ok(())
}

fn patch_pool(observed: &mut Observed, patch: &PoolPatch) -> Taken {
    let pool = observed.pools.get_mut(&patch.pool);
    let Some(pool) = pool.filter(|pool| pool.uid == patch.uid) else {
        return Err("no such pool".to_owned());
    };
    test(&pool.annotations, std::slice::from_ref(&patch.annotation))?;
    if let Some((read, wanted)) = patch.paused {
        taken(read == pool.paused, "test of paused")?;
        pool.paused_manager = Some(marks::FIELD_MANAGER.to_owned());
        pool.paused = wanted;
    }
    if let Some(config) = &patch.config {
        taken(*config == pool.config, "test of config")?;
    }
    if let Some((read, wanted)) = &patch.selector {
        taken(*read == pool.selector, "test of selector")?;
        pool.selector_manager = Some(marks::FIELD_MANAGER.to_owned());
        pool.selector = wanted.clone();
    }
    lay(&mut pool.annotations, std::slice::from_ref(&patch.annotation));
    pool.has_annotations = true;
    Ok(())
}

fn patch_machine(observed: &mut Observed, patch: &MachinePatch) -> Taken {
    let place = (patch.api, patch.key.clone());
    let object: Option<&mut Annotated> = if patch.purpose.is_of_health_check() {
        observed.health_checks.get_mut(&place)
    } else {
        observed
            .machines
            .get_mut(&place)
            .map(|machine| &mut machine.object)
    };
    let Some(object) = object.filter(|object| object.uid == patch.uid) else {
        return Err("no such machine".to_owned());
    };
    test(&object.annotations, &patch.annotations)?;
    lay(&mut object.annotations, &patch.annotations);
    object.has_annotations |= !object.annotations.is_empty();
    Ok(())
}

fn lease(holder: &str, now: Timestamp, number: &str) -> LeaseView {
    LeaseView {
        by_numo: true,
        holder: holder.to_owned(),
        renewed: Some(now),
        duration_seconds: 3600,
        transitions: 0,
        uid: format!("lease-{number}"),
        resource_version: number.to_owned(),
    }
}

/// Carries one write out.
pub fn carry_out(observed: &mut Observed, action: &Action, now: Timestamp, number: &str) -> Taken {
    match action {
        Action::AddFinalizer {
            owner,
            uid,
            finalizer,
        } => {
            let (found, deleting, all) = finalizers(observed, owner).ok_or("no such owner")?;
            taken(found == uid && !deleting, "finalizer of one that goes")?;
            taken(!all.iter().any(|one| one == finalizer), "finalizer twice")?;
            all.push((*finalizer).to_owned());
            finalizer::note(&mut observed.finalizers, uid, now);
            Ok(())
        }
        Action::RemoveFinalizer {
            owner,
            uid,
            finalizer,
            index,
        } => {
            let (found, _, all) = finalizers(observed, owner).ok_or("no such owner")?;
            taken(found == uid, "another owner")?;
            taken(
                all.get(*index).is_some_and(|one| one == finalizer),
                "test of finalizer",
            )?;
            all.remove(*index);
            observed.finalizers.remove(uid);
            Ok(())
        }
        Action::PatchPool(patch) => patch_pool(observed, patch),
        Action::PatchNode(patch) => patch_node(observed, patch),
        Action::PatchMachine(patch) => patch_machine(observed, patch),
        Action::AcquireLease { .. } | Action::RenewLease { .. } | Action::ReleaseLease { .. } => {
            of_lease(observed, action, now, number)
        }
        Action::CreateChange { .. }
        | Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. } => of_journal(observed, action, now, number),
        Action::Fleet(action) => of_fleet(observed, action, now, number),
        _ => of_jobs(observed, action, now, number),
    }
}

fn of_lease(observed: &mut Observed, action: &Action, now: Timestamp, number: &str) -> Taken {
    match action {
        Action::AcquireLease {
            node,
            holder,
            over,
            node_uid,
            ..
        } => {
            let there = observed
                .nodes
                .get(node)
                .is_some_and(|found| found.uid == *node_uid);
            taken(there, "lease of no node")?;
            let known = observed.leases.get(node);
            let found = known.map(|known| (known.uid.clone(), known.resource_version.clone()));
            taken(found == *over, "test of lease")?;
            observed.leases.insert(node.clone(), lease(holder, now, number));
        }
        Action::RenewLease {
            node,
            holder,
            resource_version,
        } => {
            let lease = observed.leases.get_mut(node);
            let lease =
                lease.filter(|one| one.resource_version == *resource_version && one.holder == *holder);
            let lease = lease.ok_or("test of lease")?;
            lease.renewed = Some(now);
            lease.duration_seconds = 3600;
            number.clone_into(&mut lease.resource_version);
        }
        Action::ReleaseLease { node, uid } => {
            let is_it = observed.leases.get(node).is_some_and(|lease| lease.uid == *uid);
            taken(is_it, "test of lease")?;
            observed.leases.remove(node);
        }
        _ => return Err("no lease".to_owned()),
    }
    Ok(())
}

fn of_journal(observed: &mut Observed, action: &Action, now: Timestamp, number: &str) -> Taken {
    match action {
        Action::CreateChange { key, spec } => {
            taken(!observed.changes.contains_key(key), "journal exists")?;
            let view = ChangeView {
                key: key.clone(),
                uid: format!("change-{number}"),
                resource_version: number.to_owned(),
                generation: 1,
                created: now,
                deleting: false,
                annotations: Map::from([(marks::TURN.to_owned(), String::new())]),
                spec: (**spec).clone(),
                status: NodeChangeStatus::default(),
                misread: None,
            };
            observed.changes.insert(key.clone(), view);
        }
        Action::WriteJournal {
            key,
            uid,
            resource_version,
            status,
        } => {
            let change = observed.changes.get_mut(key).ok_or("no journal")?;
            taken(
                change.uid == *uid && change.resource_version == *resource_version,
                "test of journal",
            )?;
            change.status = (**status).clone();
            number.clone_into(&mut change.resource_version);
        }
        Action::DeleteChange {
            key,
            uid,
            resource_version,
        } => {
            let change = observed.changes.get(key).ok_or("no journal")?;
            taken(
                change.uid == *uid && change.resource_version == *resource_version,
                "test of journal",
            )?;
            observed.changes.remove(key);
        }
        Action::RecordRun { owner, run } => {
            let view = observed.runs.get_mut(owner).ok_or("no run")?;
            view.status.run = Some((**run).clone());
        }
        _ => return Err("no journal".to_owned()),
    }
    Ok(())
}

fn of_jobs(observed: &mut Observed, action: &Action, now: Timestamp, number: &str) -> Taken {
    match action {
        Action::CreateJob(request) => {
            let known = observed.jobs.get(&request.job);
            taken(known.is_none_or(|job| job.deleting.is_some()), "job exists")?;
            let rule = observed.rules.get(&request.rule);
            let view = JobView {
                uid: format!("job-{number}"),
                created: now,
                deleting: None,
                run: request.run.clone(),
                node: numo_core::names::node_hash(&request.node),
                rule: request.rule.to_string(),
                deadline_seconds: Some(request.timeout_seconds),
                edition: rule.map_or_else(String::new, RuleView::edition),
                ended: None,
                ended_at: None,
                started: false,
                ttl_seconds: None,
                wanted_ttl_seconds: None,
                trouble: None,
            };
            observed.jobs.insert(request.job.clone(), view);
        }
        Action::SetJobTtl { job, uid, seconds } => {
            let job = observed
                .jobs
                .get_mut(job)
                .filter(|job| job.uid == *uid)
                .ok_or("no job")?;
            job.ttl_seconds = Some(*seconds);
        }
        Action::CreatePlanJob(request) => {
            taken(!observed.plan_jobs.contains_key(&request.job), "plan job exists")?;
            let view = PlanJobView {
                untouched: true,
                uid: format!("job-{number}"),
                plan_uid: observed.plans.get(&request.plan).ok_or("no plan")?.uid.clone(),
                plan: request.plan.name.clone(),
                node: request.node.clone(),
                version: request.version.clone(),
                hash: request.hash.clone(),
                prepares: request.parts == PlanParts::Prepare,
                created: now,
                deleting: None,
                paused: false,
                ended: None,
                ended_at: None,
                runs: None,
                trouble: None,
            };
            observed.plan_jobs.insert(request.job.clone(), view);
        }
        Action::StartPlanJob { job, uid } => {
            let job = observed
                .plan_jobs
                .get_mut(job)
                .filter(|job| job.uid == *uid)
                .ok_or("no job")?;
            taken(job.paused, "starts what runs")?;
            job.paused = false;
        }
        Action::DeletePlanJob { job, uid } => {
            let job = observed
                .plan_jobs
                .get_mut(job)
                .filter(|job| job.uid == *uid)
                .ok_or("no job")?;
            taken(job.deleting.is_none(), "deletes what goes")?;
            job.deleting = Some(now);
        }
        Action::MarkGate {
            owner, uid, change, ..
        } => {
            taken(observed.uid_of(owner) == Some(uid.as_str()), "no such owner")?;
            let marks = observed.annotations_mut(owner).ok_or("no such owner")?;
            test(marks, std::slice::from_ref(change))?;
            lay(marks, std::slice::from_ref(change));
        }
        Action::Evict { node, eviction } => {
            let pods = observed.pods.get_mut(node).ok_or("no pods")?;
            let pod = pods
                .get_mut(&eviction.pod)
                .filter(|pod| pod.uid == eviction.uid)
                .ok_or("no pod")?;
            pod.deleting = Some(now);
            let said = EvictionView {
                at: now,
                refusals: 0,
                said: Said::Accepted,
                stirred: false,
            };
            observed.evictions.insert(eviction.uid.clone(), said);
        }
        _ => return Err("no job".to_owned()),
    }
    Ok(())
}

fn of_fleet(observed: &mut Observed, action: &FleetAction, now: Timestamp, number: &str) -> Taken {
    let fleet = &mut observed.fleet;
    match action {
        FleetAction::CreatePendingNode {
            name,
            owner,
            spec,
            turn,
        } => {
            taken(!fleet.pending.contains_key(name), "pending exists")?;
            let mark = turn
                .iter()
                .map(|turn| (marks::PENDING_FOR.to_owned(), turn.clone()));
            let view = PendingNodeView {
                name: name.clone(),
                uid: format!("pending-{number}"),
                resource_version: number.to_owned(),
                created: now,
                deleting: false,
                owner_uid: owner.1.clone(),
                annotations: mark.collect(),
                spec: (**spec).clone(),
                ..PendingNodeView::default()
            };
            fleet.pending.insert(name.clone(), view);
        }
        FleetAction::WritePendingNode {
            name,
            uid,
            resource_version,
            spec,
            annotations,
        } => {
            let view = fleet
                .pending
                .get_mut(name)
                .filter(|one| one.uid == *uid)
                .ok_or("no pending")?;
            taken(view.resource_version == *resource_version, "test of pending")?;
            view.spec = (**spec).clone();
            view.is_owned = false;
            lay(&mut view.annotations, annotations);
            number.clone_into(&mut view.resource_version);
        }
        FleetAction::WritePendingStatus {
            name,
            uid,
            state,
            reached,
        } => {
            let view = fleet
                .pending
                .get_mut(name)
                .filter(|one| one.uid == *uid)
                .ok_or("no pending")?;
            view.status.csp_state = Some(*state);
            view.status.reached_goal = Some(*reached);
        }
        FleetAction::DeletePendingNode { name, uid } => {
            taken(
                fleet.pending.get(name).is_some_and(|one| one.uid == *uid),
                "no pending",
            )?;
            fleet.pending.remove(name);
        }
        FleetAction::DeleteNode { node, uid } => {
            taken(
                observed.nodes.get(node).is_some_and(|one| one.uid == *uid),
                "no node",
            )?;
            observed.nodes.remove(node);
            observed.fleet.hosts.remove(node);
            observed.leases.remove(node);
        }
        FleetAction::WriteGroupStatus {
            name,
            image,
            is_outdated,
            ..
        } => {
            let view: &mut ScalingGroupView = fleet.groups.get_mut(name).ok_or("no group")?;
            view.status.conditions = vec![numo_core::owners::node_version::outdated(*is_outdated)];
            view.status.image_reference = Some(image.clone());
        }
        FleetAction::EnableAutoscaler {
            strategy, enabled, ..
        } => {
            fleet
                .strategies
                .get_mut(strategy)
                .ok_or("no strategy")?
                .spec
                .enabled = *enabled;
        }
        FleetAction::WriteStrategyStatus {
            strategy, replicas, ..
        } => {
            let view = fleet.strategies.get_mut(strategy).ok_or("no strategy")?;
            view.status.replicas = Some(*replicas);
            view.status.enabled = Some(*replicas > 0);
        }
        FleetAction::SetAutoscaler {
            deployment,
            replicas,
            annotations,
            command,
            ..
        } => {
            let view = fleet.autoscalers.get_mut(deployment).ok_or("no autoscaler")?;
            test(&view.annotations, annotations)?;
            lay(&mut view.annotations, annotations);
            taken(
                view.replicas == replicas.0 && view.command == command.0,
                "test of autoscaler",
            )?;
            view.replicas = replicas.1;
            view.command.clone_from(&command.1);
        }
        FleetAction::DeleteJoiningNode { name, uid } => {
            taken(
                fleet.joining.get(name).is_some_and(|one| one.uid == *uid),
                "no joining",
            )?;
            fleet.joining.remove(name);
        }
        FleetAction::DeleteGroup { name, uid } => {
            taken(
                fleet.groups.get(name).is_some_and(|one| one.uid == *uid),
                "no group",
            )?;
            fleet.groups.remove(name);
        }
        FleetAction::CreateGroup { name, spec } => {
            taken(!fleet.groups.contains_key(name), "group exists")?;
            let view = ScalingGroupView {
                name: name.clone(),
                uid: format!("group-{number}"),
                spec: (**spec).clone(),
                ..ScalingGroupView::default()
            };
            fleet.groups.insert(name.clone(), view);
        }
        FleetAction::NameGroup {
            name,
            node_group_name,
            ..
        } => {
            fleet.groups.get_mut(name).ok_or("no group")?.spec.node_group_name =
                Some(node_group_name.clone());
        }
        FleetAction::SetGroupImage { group_id, image } => {
            let said = Ok(image.clone());
            fleet
                .provider
                .images
                .insert(group_id.to_lowercase(), Heard { at: now, said });
        }
        // The provider never comes to an end with it.
        FleetAction::CreateMachine { pending: id, .. }
        | FleetAction::DeleteMachine { provider_id: id, .. } => {
            let again = now + SignedDuration::from_hours(24);
            fleet
                .provider
                .told
                .insert(id.to_lowercase(), Told { again, problem: None });
            fleet
                .provider
                .told
                .insert(id.clone(), Told { again, problem: None });
        }
        FleetAction::RemoveEtcdMember { .. } => {}
    }
    Ok(())
}
