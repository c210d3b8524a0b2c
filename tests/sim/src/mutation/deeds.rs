//! How each fault is put in: what is hidden from the core, and what is made of its writes.

use crate::world::{World, read_hours};
use numo_api::{ApprovalSettings, DirectiveAction, Phase, Reason, Wave, hours::Hours, marks};
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Action, Change, Earlier, EarlierWord, NodePurpose, Planned},
    drain::Eviction,
    observed::{EtcdVoter, Key, Map, NodeView, Observed, PodView},
    report::{ApprovalReport, Point, Why},
    verdict::Question,
};

pub(super) fn forget_rules(view: &mut Observed) {
    view.runs
        .values_mut()
        .for_each(|run| run.spec.mutex_rules = Some(Vec::new()));
    let bindings = view.bindings.values_mut();
    bindings.for_each(|binding| binding.spec.settings.rules = None);
    let maintenances = view.maintenances.values_mut();
    maintenances.for_each(|one| one.spec.mutex_rules = None);
}

pub(super) fn lift_limits(view: &mut Observed) {
    let many = || serde_json::from_value(serde_json::json!(100)).ok();
    for run in view.runs.values_mut() {
        run.spec.max_unavailable = many();
        run.spec.mutex_keys = Some(Vec::new());
    }
    for plan in view.plans.values_mut() {
        plan.spec.concurrency = Some(100);
        if let Some(mutex) = &mut plan.spec.mutex {
            mutex.max_unavailable = None;
        }
    }
    for binding in view.bindings.values_mut() {
        binding.spec.settings.max_unavailable = None;
    }
}

pub(super) fn lift_stops(view: &mut Observed) {
    for run in view.runs.values_mut() {
        run.spec.suspend = None;
        run.annotations.remove(marks::SUSPEND);
    }
    for plan in view.plans.values_mut() {
        plan.annotations.remove(marks::SUSPEND);
    }
    for one in view.maintenances.values_mut() {
        one.annotations.remove(marks::SUSPEND);
    }
    for one in view.fleet.versions.values_mut() {
        one.annotations.remove(marks::SUSPEND);
    }
    view.budgets.values_mut().for_each(|budget| budget.paused = false);
    forget_words(view, DirectiveAction::Hold);
}

/// Nobody has said this of any node.
pub(super) fn forget_words(view: &mut Observed, action: DirectiveAction) {
    for change in view.changes.values_mut() {
        let is_it = |one: &numo_api::Directive| one.action == action;
        if change.spec.directive.as_ref().is_some_and(is_it) {
            change.spec.directive = None;
        }
    }
}

/// What restores something is left out while a person has stopped the owner.
pub(super) fn keep_all_when_stopped(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let held = seen.owner(owner);
    let is_stopped = held.is_some_and(|one| one.annotations.contains_key(marks::SUSPEND))
        || seen.budgets.values().any(|budget| budget.paused);
    let restores = |action: &Action| {
        let is_uncordon =
            matches!(action, Action::PatchNode(patch) if patch.purpose == NodePurpose::Uncordon);
        is_uncordon || is_unshield(action)
    };
    actions.retain(|planned| !is_stopped || !restores(&planned.action));
}

/// The only member of etcd is a node that nobody has.
pub(super) fn hide_control_plane(view: &mut Observed) {
    let Some((_, node)) = view.nodes.first_key_value() else {
        return;
    };
    let mut member = node.clone();
    "elsewhere".clone_into(&mut member.name);
    "elsewhere".clone_into(&mut member.uid);
    member.labels.clear();
    let role = "node-role.kubernetes.io/etcd".to_owned();
    member.labels.insert(role, String::new());
    member.etcd_voter = Some(EtcdVoter::Yes);
    view.nodes.insert(member.name.clone(), member);
}

/// What a pool is to select while a run goes on selects none of its nodes.
pub(super) fn select_nobody(actions: &mut [Planned]) {
    for planned in actions {
        if let Action::PatchPool(patch) = &mut planned.action
            && let Some((_, to)) = &mut patch.selector
        {
            *to = serde_json::json!({"matchLabels": {"of": "nobody"}});
        }
    }
}

pub(super) fn twice(actions: &mut Vec<Planned>) {
    let jobs = actions.iter().filter_map(|planned| match &planned.action {
        Action::CreatePlanJob(request) => {
            let mut request = request.clone();
            request.job.name.push_str("-2");
            Some(Planned {
                chain: planned.chain.clone(),
                action: Action::CreatePlanJob(request),
                event: None,
            })
        }
        _ => None,
    });
    let more: Vec<Planned> = jobs.collect();
    actions.extend(more);
}

pub(super) fn each_patch(actions: &mut [Planned], edit: impl Fn(NodePurpose, &mut Option<bool>)) {
    for planned in actions {
        if let Action::PatchNode(patch) = &mut planned.action {
            edit(patch.purpose, &mut patch.unschedulable);
        }
    }
}

pub(super) fn is_unshield(action: &Action) -> bool {
    match action {
        Action::PatchNode(patch) => patch.purpose == NodePurpose::Unshield,
        Action::PatchMachine(patch) => patch.purpose.restores(),
        _ => false,
    }
}

pub(super) fn kill(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let jobs = seen.plan_jobs.iter();
    let running = jobs.filter(|(_, job)| {
        job.plan_uid == uid && job.ended.is_none() && !job.untouched && job.deleting.is_none()
    });
    actions.extend(running.map(|(key, job)| Planned {
        chain: format!("job {key}"),
        action: Action::DeletePlanJob {
            job: key.clone(),
            uid: job.uid.clone(),
        },
        event: None,
    }));
}

pub(super) fn write_again(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let change = seen
        .changes
        .values()
        .find(|change| change.spec.owner_ref.uid == uid);
    actions.extend(change.map(|change| Planned {
        chain: "again".to_owned(),
        action: Action::WriteJournal {
            key: change.key.clone(),
            uid: change.uid.clone(),
            resource_version: change.resource_version.clone(),
            status: Box::new(change.status.clone()),
        },
        event: None,
    }));
}

pub(super) fn give_back_first(world: &World, actions: &mut Vec<Planned>) {
    let mut mutated = Vec::new();
    for planned in actions.drain(..) {
        let node = match &planned.action {
            Action::CreatePlanJob(request) => Some(&request.node),
            Action::PatchNode(patch)
                if matches!(patch.purpose, NodePurpose::Cordon | NodePurpose::Release) =>
            {
                Some(&patch.node)
            }
            _ => None,
        };
        let lease = node.and_then(|node| Some((node, world.truth.leases.get(node)?)));
        mutated.extend(lease.map(|(node, lease)| Planned {
            chain: planned.chain.clone(),
            action: Action::ReleaseLease {
                node: node.clone(),
                uid: lease.uid.clone(),
            },
            event: None,
        }));
        mutated.push(planned);
    }
    *actions = mutated;
}

/// Evicts one pod for which `of` holds of a node that has its turn with the owner.
pub(super) fn evict(
    (owner, seen): (&Owner, &Observed),
    actions: &mut Vec<Planned>,
    of: impl Fn(&NodeView, &PodView) -> bool,
) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let pods = seen.pods.iter().filter_map(|(node, pods)| {
        let node = seen.nodes.get(node)?;
        Some(pods.values().map(move |pod| (node, pod)))
    });
    // Only a node that is being drained is meant, where pods of closed nodes are.
    let drained = |node: &NodeView| {
        let mut changes = seen.changes.values();
        changes.any(|change| {
            change.spec.node_uid == node.uid && change.spec.owner_ref.uid == uid && change.in_flight()
        })
    };
    let mut found = pods
        .flatten()
        .filter(|(node, pod)| pod.deleting.is_none() && of(node, pod) && drained(node));
    actions.extend(found.next().map(|(node, pod)| Planned {
        chain: format!("evict {}", pod.uid),
        action: Action::Evict {
            node: node.name.clone(),
            eviction: Eviction {
                pod: Key::clone(&pod.key),
                uid: pod.uid.clone(),
                grace_period_seconds: None,
                delete: false,
                returned: None,
            },
        },
        event: None,
    }));
}

/// Whether the pod is of a controller of this kind.
pub(super) fn is_of(pod: &PodView, kind: &str) -> bool {
    pod.controller.as_ref().is_some_and(|(found, ..)| found == kind)
}

/// Every NodeChange is of the node that has its name now.
pub(super) fn take_new_for_old(view: &mut Observed) {
    for change in view.changes.values_mut() {
        if let Some(node) = view.nodes.get(&change.spec.node_name) {
            change.spec.node_uid.clone_from(&node.uid);
        }
    }
}

/// The write as it would be if it tested nothing: what it expects to find is what is there.
pub(super) fn untested(world: &World, planned: &Planned) -> Planned {
    let mut planned = planned.clone();
    let truth = &world.truth;
    let expect = |changes: &mut Vec<Change>, found: &Map| {
        for change in changes {
            change.from = found.get(&change.key).cloned();
        }
    };
    match &mut planned.action {
        Action::WriteJournal {
            key,
            resource_version,
            ..
        }
        | Action::DeleteChange {
            key,
            resource_version,
            ..
        } => {
            if let Some(change) = truth.changes.get(key) {
                resource_version.clone_from(&change.resource_version);
            }
        }
        Action::PatchNode(patch) => {
            if let Some(node) = truth.nodes.get(&patch.node) {
                expect(&mut patch.labels, &node.labels);
                expect(&mut patch.annotations, &node.annotations);
                patch.has_labels = !node.labels.is_empty();
                patch.has_annotations = node.has_annotations;
                patch.while_unschedulable = None;
                if let Some((from, _)) = &mut patch.taints {
                    from.clone_from(&node.taints);
                }
            }
        }
        _ => {}
    }
    planned
}

/// Everybody who waits is told the same.
pub(super) fn tell(decision: &mut Decision, reason: Reason) {
    decision.report.hold = None;
    for node in decision.report.nodes.values_mut() {
        if !node.step.is_terminal() {
            node.why = Why::new(reason, "it goes on");
        }
    }
}

/// Makes something else of a setting that MutexRunConfigs and MutexBindings have, in each of them.
macro_rules! each_setting {
    ($view:expr, $field:ident, $edit:expr) => {{
        for run in $view.runs.values_mut() {
            run.spec.$field = $edit(run.spec.$field.take());
        }
        for binding in $view.bindings.values_mut() {
            let settings = &mut binding.spec.settings;
            settings.$field = $edit(settings.$field.take());
        }
    }};
}
pub(super) use each_setting;

/// Something else is read of every wave than is written.
pub(super) fn each_wave(view: &mut Observed, mut edit: impl FnMut(&mut Wave)) {
    let runs = view.runs.values_mut().flat_map(|run| &mut run.spec.waves);
    let bindings = view.bindings.values_mut();
    let bindings = bindings.flat_map(|binding| &mut binding.spec.settings.waves);
    runs.chain(bindings).flatten().for_each(&mut edit);
}

/// Something else is wanted to be approved than is written.
pub(super) fn each_approval(view: &mut Observed, edit: impl FnMut(&mut ApprovalSettings)) {
    let runs = view.runs.values_mut().map(|run| &mut run.spec.approval);
    let plans = view
        .plans
        .values_mut()
        .filter_map(|plan| plan.spec.mutex.as_mut());
    let bindings = view.bindings.values_mut();
    let bindings = bindings.map(|binding| &mut binding.spec.settings);
    let versions = view.fleet.versions.values_mut();
    let versions = versions.filter_map(|one| one.spec.mutex.as_mut());
    let settings = plans
        .chain(versions)
        .chain(bindings)
        .map(|settings| &mut settings.approval);
    runs.chain(settings).flatten().for_each(edit);
}

/// An approval of the owner that is none of what waits is taken for one: of the same point if it `is_old`, else of another one.
pub(super) fn forge(
    owner: &Owner,
    seen: &Observed,
    waits: &ApprovalReport,
    is_old: bool,
) -> Option<Observed> {
    let (wave, after_failure) = match &waits.point {
        Point::Begin => (None, None),
        Point::AfterFailure { .. } => (None, Some(true)),
        Point::Wave { number, .. } => (Some(number.to_string()), None),
    };
    let mut view = seen.clone();
    let mut given = view.approvals.values_mut().map(|one| &mut one.spec);
    let given = given.find(|spec| {
        let is_same = spec.wave == wave && spec.after_failure == after_failure;
        spec.owner == owner.approved() && is_same == is_old && (!is_old || spec.digest != waits.digest)
    })?;
    (given.wave, given.after_failure) = (wave, after_failure);
    given.digest.clone_from(&waits.digest);
    Some(view)
}

/// No rule is asked in this phase.
pub(super) fn forget_phase(view: &mut Observed, phase: Phase) {
    for rule in view.rules.values_mut() {
        rule.phases.retain(|found| *found != phase);
    }
}

pub(super) fn forget_hours_of_runs(view: &mut Observed) {
    for run in view.runs.values_mut() {
        (run.hours, run.spec.start_after) = (None, None);
    }
}

/// No hours are seen of Plans, or of NodeMaintenances.
pub(super) fn forget_hours(view: &mut Observed, kind: &str) {
    let bindings = view.bindings.values_mut();
    for binding in bindings.filter(|binding| binding.spec.owner_selector.kind == kind) {
        (binding.hours, binding.spec.settings.start_after) = (None, None);
    }
    for plan in view.plans.values_mut().filter(|_| kind == "Plan") {
        plan.hours = None;
        if let Some(settings) = &mut plan.spec.mutex {
            settings.start_after = None;
        }
    }
}

/// Hours that cannot be understood are as none.
pub(super) fn forget_unknown_zones(view: &mut Observed) {
    let is_bad = |hours: &Option<Result<_, String>>| matches!(hours, Some(Err(_)));
    for run in view.runs.values_mut().filter(|run| is_bad(&run.hours)) {
        run.hours = None;
    }
    for plan in view.plans.values_mut().filter(|plan| is_bad(&plan.hours)) {
        plan.hours = None;
    }
    for binding in view.bindings.values_mut().filter(|one| is_bad(&one.hours)) {
        binding.hours = None;
    }
    view.windows.retain(|_, window| window.hours.is_ok());
}

/// All hours are read otherwise than they are written.
pub(super) fn each_hours(view: &mut Observed, edit: impl Fn(&mut Hours)) {
    let again = |given: Option<&Hours>| {
        let mut hours = given?.clone();
        edit(&mut hours);
        read_hours(&hours).ok().map(Ok)
    };
    for run in view.runs.values_mut() {
        run.hours = again(run.spec.window.as_ref());
    }
    for plan in view.plans.values_mut() {
        let settings = plan.spec.mutex.as_ref();
        plan.hours = again(settings.and_then(|settings| settings.window.as_ref()));
    }
    for binding in view.bindings.values_mut() {
        binding.hours = again(binding.spec.settings.window.as_ref());
    }
    for window in view.windows.values_mut() {
        if let Some(hours) = again(Some(&window.spec.hours)) {
            window.hours = hours;
        }
    }
}

/// Every rule that is asked hears what another one said last.
pub(super) fn tell_of_others(world: &World, decision: &mut Decision) {
    for question in &mut decision.questions {
        let Question::Evaluate(request) = question else {
            continue;
        };
        let mut others = world.answered.iter();
        let other = others.rfind(|one| one.rule != request.rule);
        request.history.extend(other.map(|one| Earlier {
            phase: one.phase,
            attempt: 1,
            at: world.time().to_string(),
            word: EarlierWord::Pass,
            reason: "Fine".to_owned(),
            summary: String::new(),
            data: Some(one.data.clone()),
        }));
    }
}

/// Every owner seems to have its finalizer.
pub(super) fn put_finalizers(view: &mut Observed) {
    let put = |finalizers: &mut Vec<String>, kind: OwnerKind| {
        if !finalizers.iter().any(|found| found == kind.finalizer()) {
            finalizers.push(kind.finalizer().to_owned());
        }
    };
    let runs = view.runs.values_mut();
    runs.for_each(|run| put(&mut run.finalizers, OwnerKind::MutexRunConfig));
    let plans = view.plans.values_mut();
    plans.for_each(|plan| put(&mut plan.finalizers, OwnerKind::Plan));
    let maintenances = view.maintenances.iter_mut();
    maintenances.for_each(|(owner, one)| put(&mut one.finalizers, owner.kind));
    let versions = view.fleet.versions.values_mut();
    versions.for_each(|one| put(&mut one.finalizers, OwnerKind::NodeVersion));
}
