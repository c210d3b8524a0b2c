//! Answers to the core's questions: reads, never writes. What cannot be read is answered with nothing
//! known, never with a pass.

use super::{access, apply, item::Item, kind::Kind, policies, watch, watched};
use futures::{AsyncReadExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
    Pod, PodStatus,
};
use kube::{
    Api, Client,
    api::{ApiResource, EvictParams, ListParams, LogParams, PostParams},
    core::Status,
};
use numo_api::{MutexRule, Phase, Reason, marks};
use numo_core::{
    action::JobRequest,
    drain, names,
    observed::{Key, Observed, PodView, RuleView, Validity},
    probe,
    verdict::{Answers, Evidence, KeptVolumes, Question},
};
use serde::{Deserialize, de::DeserializeOwned};

/// Dry-run evictions that run at once.
const PROBES_AT_ONCE: usize = 16;
/// Lines of a log that are read at most, and bytes: a kubelet counts a line for each 16 KiB, and of too many bytes it leaves out the last.
const LOG_LINES: i64 = 60;
const LOG_BYTES: u64 = 60 * (16 << 10);

/// Answers a question.
pub async fn answer(
    (read, write): (&Client, &Client),
    (observed, now): (&Observed, Timestamp),
    question: &Question,
    answers: &mut Answers,
) {
    match question {
        Question::Evidence { job, log_tail_bytes } => {
            let found = evidence(read, job, *log_tail_bytes).await;
            answers.evidence.insert(job.clone(), found);
        }
        Question::DrainProbe { node } => {
            let found = drain_probe((read, write), (observed, now), node).await;
            answers.drains.insert(node.clone(), found);
        }
        Question::Evictions { node, pods } => {
            let known = observed.pods.get(node);
            let pods: Vec<&PodView> = pods.iter().filter_map(|pod| known?.get(pod)).collect();
            let found = probe::summary(node, &refused((read, write), observed, node, &pods).await);
            answers.drains.insert(node.clone(), found);
        }
        Question::Volumes { node, claims } => {
            let found = volumes(read, claims).await;
            answers.volumes.insert(node.clone(), found);
        }
        // The planner has it asked; the answer comes later.
        Question::Evaluate(_) | Question::Channel { .. } | Question::Fleet(_) => {}
    }
}

/// What is taken for the answer to a question that was not answered in time: nothing is known of the log,
/// and a drain that could not be tried is not tried on the node.
pub fn unanswered(question: &Question, answers: &mut Answers) {
    match question {
        Question::Evidence { job, .. } => {
            answers.evidence.insert(job.clone(), Evidence::default());
        }
        Question::DrainProbe { node } | Question::Evictions { node, .. } => {
            let why = format!("the drain of Node {node} could not be tried by dry run in time");
            answers.drains.insert(node.clone(), Some(why));
        }
        Question::Volumes { node, .. } => {
            let why = "the API server did not answer in time".to_owned();
            answers.volumes.insert(node.clone(), Err(why));
        }
        Question::Evaluate(_) | Question::Channel { .. } | Question::Fleet(_) => {}
    }
}

/// The volumes of claims, by the names that `status.volumesAttached` of a node has for those of CSI drivers. A claim that
/// is gone, or of a volume that is attached to no node, has none.
async fn volumes(client: &Client, claims: &[Key]) -> Result<KeptVolumes, String> {
    let mut found = KeptVolumes::default();
    let mut read = stream::iter(claims.to_vec())
        .map(|claim| volume_of(client, claim))
        .buffer_unordered(PROBES_AT_ONCE);
    while let Some(volume) = read.next().await {
        let Some(volume) = volume? else { continue };
        if let Some(csi) = &volume.csi {
            let name = format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle);
            found.names.insert(name);
        } else if is_attached(&volume) {
            found.unnamed += 1;
        }
    }
    Ok(found)
}

/// The volume of a claim; none if either is gone, or the claim has none.
async fn volume_of(client: &Client, claim: Key) -> Result<Option<PersistentVolumeSpec>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bound {
        volume_name: Option<String>,
    }
    let claims = ApiResource::erase::<PersistentVolumeClaim>(&());
    let claims: Api<Item> = Api::namespaced_with(client.clone(), &claim.namespace, &claims);
    let what = format!("PersistentVolumeClaim {claim}");
    let found: Option<Bound> = spec_of(&claims, &claim.name, &what).await?;
    let Some(name) = found.and_then(|bound| bound.volume_name) else {
        return Ok(None);
    };
    let volumes = ApiResource::erase::<PersistentVolume>(&());
    let volumes: Api<Item> = Api::all_with(client.clone(), &volumes);
    spec_of(&volumes, &name, &format!("PersistentVolume {name}")).await
}

/// What `S` names of the spec of an object; none if that is gone, or has none. Whoever may write the object may write the rest of it as deep
/// as the API server takes it.
async fn spec_of<S: DeserializeOwned>(api: &Api<Item>, name: &str, what: &str) -> Result<Option<S>, String> {
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| format!("{what}: {error}"))?;
    found.map_or(Ok(None), |found| spec(&found, what))
}

fn spec<S: DeserializeOwned>(found: &Item, what: &str) -> Result<Option<S>, String> {
    #[derive(Deserialize)]
    struct Only<S> {
        spec: Option<S>,
    }
    let only: Option<Only<S>> = found.part();
    let only = only.ok_or_else(|| format!("{what} cannot be read"))?;
    Ok(only.spec)
}

/// Whether a volume of a plugin in the tree is one that is attached to its node.
fn is_attached(volume: &PersistentVolumeSpec) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.fc.is_some()
        || volume.flex_volume.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.iscsi.is_some()
        || volume.portworx_volume.is_some()
        || volume.rbd.is_some()
        || volume.vsphere_volume.is_some()
}

/// Exit code and the end of the log of an ended Job's pod that ended last.
async fn evidence(client: &Client, job: &Key, log_tail_bytes: usize) -> Evidence {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &job.namespace);
    let selector = format!("batch.kubernetes.io/job-name={}", job.name);
    let params = ListParams::default()
        .labels(&selector)
        .limit(Kind::Pod.watched().page);
    let Ok(list) = watch::items(client, Kind::Pod, &job.namespace)
        .list(&params)
        .await
    else {
        return Evidence::default();
    };
    // What people write of a pod is skipped.
    let ends: Vec<Pod> = list.items.iter().filter_map(ended).collect();
    let Some(Ending {
        pod,
        container,
        state,
        exit_code,
    }) = ending(&ends)
    else {
        return Evidence::default();
    };
    let mut log_tail = None;
    if log_tail_bytes > 0 {
        let log = log_of(&pods, &pod, container).await;
        let log = log.filter(|log| !log.trim().is_empty());
        log_tail = log
            .or_else(|| state.message.clone())
            .map(|text| tail(&text, log_tail_bytes));
    }
    Evidence {
        exit_code,
        log_tail: log_tail.filter(|tail| !tail.is_empty()),
    }
}

/// The end of a container's log; none if it cannot be read. What is no UTF-8 in it is replaced.
async fn log_of(pods: &Api<Pod>, pod: &str, container: String) -> Option<String> {
    let params = LogParams {
        container: Some(container),
        tail_lines: Some(LOG_LINES),
        limit_bytes: i64::try_from(LOG_BYTES).ok(),
        ..LogParams::default()
    };
    let log = std::pin::pin!(pods.log_stream(pod, &params).await.ok()?);
    let mut bytes = Vec::new();
    log.take(LOG_BYTES).read_to_end(&mut bytes).await.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Name and status of a pod.
fn ended(item: &Item) -> Option<Pod> {
    #[derive(serde::Deserialize)]
    struct Only {
        status: Option<PodStatus>,
    }
    let mut pod = Pod {
        status: item.part::<Only>()?.status,
        ..Pod::default()
    };
    pod.metadata.name.clone_from(&item.metadata.name);
    Some(pod)
}

/// The container that tells how a Job ended.
#[derive(Debug, PartialEq)]
struct Ending {
    /// Name of its pod.
    pod: String,
    /// Name of the container.
    container: String,
    /// Its end.
    state: ContainerStateTerminated,
    /// What the Job came to; none if no container of the pod failed and the pod did not succeed: the 0 of a container that
    /// ran before is not the code of what was killed.
    exit_code: Option<i32>,
}

/// The container that failed, of the pod that ended last; of one that succeeded the container that ended last.
fn ending(pods: &[Pod]) -> Option<Ending> {
    let of_pod = |pod: &Pod| {
        let status = pod.status.as_ref()?;
        let phase = status.phase.as_deref().unwrap_or_default();
        let of = |list: &Option<Vec<ContainerStatus>>, is_main: bool| {
            let list = list.iter().flatten();
            list.filter_map(|status| {
                let state = status.state.as_ref()?.terminated.as_ref()?;
                Some((is_main, status.name.clone(), state.clone()))
            })
            .collect::<Vec<_>>()
        };
        let mut all = of(&status.init_container_statuses, false);
        all.extend(of(&status.container_statuses, true));
        // The container that failed tells more than those that did not, and than a sidecar that was ended after it.
        let (_, container, state) = all.into_iter().max_by_key(|(is_main, _, state)| {
            let at = state.finished_at.as_ref().map(|at| at.0);
            (state.exit_code != 0, *is_main, at)
        })?;
        let is_over = phase == "Succeeded" || phase == "Failed";
        let ending = Ending {
            pod: pod.metadata.name.clone()?,
            container,
            exit_code: Some(state.exit_code).filter(|code| *code != 0 || phase == "Succeeded"),
            state,
        };
        Some((is_over, ending))
    };
    let endings = pods.iter().filter_map(of_pod);
    let last = endings.max_by_key(|(is_over, one)| (*is_over, one.state.finished_at.as_ref().map(|at| at.0)));
    last.map(|(_, ending)| ending)
}

/// The last `bytes` bytes of a text, cut at a character, without control characters other than line ends.
pub fn tail(text: &str, bytes: usize) -> String {
    let clean: String = text
        .chars()
        .filter(|letter| *letter == '\n' || !numo_api::text::is_unseen(*letter))
        .collect();
    let clean = clean.trim_end();
    let start = clean.len().saturating_sub(bytes);
    let start = (start..=clean.len())
        .find(|index| clean.is_char_boundary(*index))
        .unwrap_or(clean.len());
    clean[start..].to_owned()
}

/// What is against a drain of the node, of all its pods but static ones and those of DaemonSets.
///
/// Source: kubectl drain and the MCO's drain controller leave DaemonSet and mirror pods, and finished
/// ones, where they are.
async fn drain_probe(
    (read, write): (&Client, &Client),
    (observed, now): (&Observed, Timestamp),
    node: &str,
) -> Option<String> {
    let pods = match pods_of(read, node).await {
        Ok(pods) => pods,
        Err(error) => return Some(format!("the pods of Node {node} cannot be listed: {error}")),
    };
    let pods: Vec<&PodView> = pods.iter().filter(|pod| is_drained(pod)).collect();
    let stuck = pods
        .iter()
        .filter_map(|pod| probe::stuck(&pod.key, pod.deleting, now));
    let mut refusals: Vec<String> = stuck.collect();
    refusals.extend(refused((read, write), observed, node, &pods).await);
    probe::summary(node, &refusals)
}

/// The pods of a node, read one by one and page by page: anybody who runs pods may write large ones.
async fn pods_of(read: &Client, node: &str) -> Result<Vec<PodView>, kube::Error> {
    let api = watch::items(read, Kind::NodePod, "");
    let mut params = ListParams::default()
        .fields(&format!("spec.nodeName={node}"))
        .limit(Kind::NodePod.watched().page);
    let mut pods = Vec::new();
    loop {
        let page = api.list(&params).await?;
        pods.extend(
            page.items
                .iter()
                .filter_map(|item| match watched::item(Kind::NodePod, item)? {
                    watched::Object::NodePod(_, pod) => Some(*pod),
                    _ => None,
                }),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

/// What the API server, and then PodDisruptionBudgets together, have against evictions of these pods of a node.
async fn refused(
    (read, write): (&Client, &Client),
    observed: &Observed,
    node: &str,
    pods: &[&PodView],
) -> Vec<String> {
    // Not one that has ended or is on its way.
    let going = pods
        .iter()
        .filter(|pod| !pod.finished && pod.deleting.is_none())
        .copied();
    let going: Vec<&PodView> = going.collect();
    let refusals = tried(write, going.iter().map(|pod| pod.key.clone()).collect()).await;
    if refusals.is_empty() {
        return together(read, observed, node, &going).await;
    }
    refusals
}

/// What PodDisruptionBudgets have against all these pods together, though each could go alone.
async fn together(read: &Client, observed: &Observed, node: &str, going: &[&PodView]) -> Vec<String> {
    if let Some(words) = observed.budgets_unlisted() {
        return vec![words];
    }
    let budgets = &observed.disruption_budgets;
    let mut candidates: Vec<probe::Candidate> = going.iter().copied().map(Into::into).collect();
    if !probe::exceeds(&candidates, budgets) {
        return Vec::new();
    }
    for (one, pod) in candidates.iter_mut().zip(going) {
        one.moves &= !is_bound(read, pod).await;
    }
    let node = observed.nodes.get(node);
    let has_other_place = node.is_none_or(|node| drain::has_other_place(observed, node));
    probe::sums(&candidates, budgets, has_other_place)
}

/// Whether a volume of the pod is on its node alone. What cannot be read is not taken for bound.
async fn is_bound(read: &Client, pod: &PodView) -> bool {
    for claim in &pod.claims {
        let claim = Key::new(&pod.key.namespace, claim);
        let Ok(Some(volume)) = volume_of(read, claim).await else {
            continue;
        };
        if volume.local.is_some() || volume.host_path.is_some() {
            return true;
        }
    }
    false
}

/// Why pods could not be evicted now, in words of the core.
async fn tried(write: &Client, pods: Vec<Key>) -> Vec<String> {
    stream::iter(pods)
        .map(|pod| try_eviction(write, pod))
        .buffer_unordered(PROBES_AT_ONCE)
        .filter_map(|refusal| async move { refusal })
        .collect()
        .await
}

/// Whether a drain by the machine-config operator waits until the pod is gone: all but static pods and those of
/// DaemonSets.
fn is_drained(pod: &PodView) -> bool {
    let of_daemon_set = |(kind, ..): &(String, String, String)| kind == "DaemonSet";
    !(pod.mirror || pod.controller.as_ref().is_some_and(of_daemon_set))
}

async fn try_eviction(client: &Client, pod: Key) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let params = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    match pods.evict(&pod.name, &params).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => probe::refusal(&pod, &apply::what_was_said(&status)),
        // Nobody has said that the pod may go.
        Err(error) => Some(format!(
            "the eviction of Pod {pod} could not be tried by dry run: {error}"
        )),
    }
}

/// Asks the API server, by dry run, what it thinks of a rule's Jobs. Nothing is created, and no real Job
/// is touched: the name is one that no Job of a run has.
pub async fn judge(client: &Client, rule: &MutexRule) -> Validity {
    let view = crate::frontends::mutex_rule::parse(rule, Validity::Valid);
    if let Validity::Invalid(..) = view.validity {
        return view.validity;
    }
    let phases = [
        (view.has_job, Phase::Pre, "spec.jobSpec"),
        (view.has_clean_up_job, Phase::Post, "spec.cleanUpJobSpec"),
    ];
    for (_, phase, field) in phases.into_iter().filter(|(given, ..)| *given) {
        let request = dry_job(&view, phase);
        let body = match crate::runners::job::render(rule, &request) {
            Ok(body) => body,
            Err(message) => return Validity::Invalid(Reason::InvalidConfig, message),
        };
        let object = match serde_json::from_value(body) {
            Ok(object) => object,
            Err(error) => return Validity::Invalid(Reason::InvalidConfig, format!("{field}: {error}")),
        };
        let params = PostParams {
            dry_run: true,
            field_manager: Some(marks::FIELD_MANAGER.to_owned()),
        };
        let api = watch::api(client, Kind::Job, &view.job_namespace);
        match api.create(&params, &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => {
                if let Some(verdict) = of_refusal(client, &view.job_namespace, field, &status).await {
                    return verdict;
                }
            }
            Err(_) => return Validity::Unknown,
        }
    }
    Validity::Valid
}

/// The Job of a node that nobody has, under a name that no Job of a run has.
fn dry_job(view: &RuleView, phase: Phase) -> JobRequest {
    let digest = names::hash(&["validate", &view.uid, phase.name()], 10);
    let prefix: String = view.job_name.chars().take(40).collect();
    JobRequest {
        job: Key::new(
            &view.job_namespace,
            format!("{}-dry-{digest}", prefix.trim_end_matches(['-', '.'])),
        ),
        rule: view.key.clone(),
        phase,
        attempt: 1,
        node: "node".to_owned(),
        hostname: "node".to_owned(),
        pool: "pool".to_owned(),
        from_version: "0.0.0".to_owned(),
        to_version: "0.0.1".to_owned(),
        run: "validation".to_owned(),
        placement: view.placement,
        avoid: Vec::new(),
        timeout_seconds: view.timeout_seconds,
    }
}

/// What the API server's refusal says of a rule's Job; none if it says nothing.
async fn of_refusal(client: &Client, namespace: &str, field: &str, status: &Status) -> Option<Validity> {
    let words = || format!("{field}: {}", status.message);
    let verdict = match status.code {
        // A webhook that has side effects refuses dry runs (400), and an API server that is busy
        // has not judged: neither says anything about the Job.
        400 if status.message.contains("dry run") => return None,
        403 if is_uninvited(&status.message) => uninvited(client, namespace, &status.message).await,
        // Asked again as an invitation is: an administrator labels the Namespace.
        403 if policies::keeps_hosts(&status.message) => {
            let message = format!("spec.jobNamespace {namespace}: {}", words());
            Validity::Invalid(Reason::JobsForbidden, message)
        }
        403 if is_denied(&status.message) => Validity::Invalid(Reason::InvalidConfig, words()),
        // A quota, a namespace on its way out, or a Job of that very name says nothing of the Job:
        // whoever makes a real one hears of it.
        403 | 409 => return None,
        404 => no_namespace(namespace),
        400 | 422 => Validity::Invalid(Reason::InvalidConfig, words()),
        // A webhook that must answer and does not is a person's to mend; it is asked again until it does.
        500 if status.message.contains("failed calling webhook") => {
            Validity::Invalid(Reason::WriteRefused, words())
        }
        _ => Validity::Unknown,
    };
    Some(verdict)
}

/// RBAC's words; admission plugins (quotas, for one) forbid with the same code and other words.
pub fn is_uninvited(message: &str) -> bool {
    numo_core::rules::is_uninvited(403, message)
}

/// The words of an admission webhook or policy that refuses the Job for what it is.
fn is_denied(message: &str) -> bool {
    message.contains("denied the request") || message.contains("denied request")
}

/// RBAC comes first: it refuses before anyone looks whether the namespace is there.
async fn uninvited(client: &Client, namespace: &str, words: &str) -> Validity {
    let namespaces = watch::items(client, Kind::Namespace, "");
    match namespaces.get_opt(namespace).await {
        Ok(None) => no_namespace(namespace),
        Ok(Some(_)) => {
            let message = format!(
                "spec.jobNamespace {namespace}: numo may not create Jobs there, wanted a RoleBinding to ClusterRole numo-rule-jobs: {words}"
            );
            Validity::Invalid(Reason::JobsForbidden, message)
        }
        Err(_) => Validity::Unknown,
    }
}

fn no_namespace(namespace: &str) -> Validity {
    let message = format!("spec.jobNamespace: found no namespace {namespace}, wanted an existing one");
    Validity::Invalid(Reason::InvalidConfig, message)
}

/// Whether a ServiceAccount may write what an operator of this kind writes; none if the API server does not say.
pub async fn may_do_work(
    client: &Client,
    namespace: &str,
    account: &str,
    what: numo_core::observed::ForeignController,
) -> Option<bool> {
    use k8s_openapi::api::authorization::v1::ResourceAttributes;
    use numo_core::observed::ForeignController;
    let groups: &[(&str, &str)] = match what {
        ForeignController::NodeMaintenance => &[
            (numo_api::node_maintenance::MEDIK8S_GROUP, "nodemaintenances"),
            (numo_api::node_maintenance::KUBEVIRT_GROUP, "nodemaintenances"),
        ],
        ForeignController::Plan => &[("upgrade.cattle.io", "plans")],
        ForeignController::NodeVersion => &[(numo_api::machines::UPDATE_GROUP, "nodeversions")],
        ForeignController::MutexRunConfig => &[(numo_api::GROUP, "mutexrunconfigs")],
    };
    let mut may = false;
    for (group, resource) in groups {
        let what = ResourceAttributes {
            group: Some((*group).to_owned()),
            resource: Some((*resource).to_owned()),
            subresource: Some("status".to_owned()),
            verb: Some("update".to_owned()),
            ..ResourceAttributes::default()
        };
        may |= access::may(client, namespace, account, what).await.ok()?;
    }
    Some(may)
}

/// Whether a ServiceAccount may change nodes, as kured's may; none if the API server does not say.
pub async fn may_reboot(client: &Client, namespace: &str, account: &str) -> Option<bool> {
    let what = k8s_openapi::api::authorization::v1::ResourceAttributes {
        resource: Some("nodes".to_owned()),
        verb: Some("patch".to_owned()),
        ..Default::default()
    };
    access::may(client, namespace, account, what).await.ok()
}

#[cfg(test)]
mod tests {
    use super::{Item, PersistentVolumeSpec, Pod, ending, spec, tail};
    use serde_json::{Value, json};

    fn ended(containers: &[(&str, i32, u8)]) -> Value {
        let statuses = containers.iter().map(|(name, code, at)| {
            let at = format!("2030-01-01T00:00:{at:02}Z");
            json!({
                "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "finishedAt": at}},
            })
        });
        Value::Array(statuses.collect())
    }

    fn pod(name: &str, phase: &str, init: &[(&str, i32, u8)], main: &[(&str, i32, u8)]) -> Pod {
        let status = json!({
            "phase": phase, "initContainerStatuses": ended(init), "containerStatuses": ended(main),
        });
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
    }

    #[test]
    fn the_exit_code_is_that_of_the_container_that_failed() {
        let killed = pod("killed", "Running", &[("drain", 0, 30)], &[]);
        let of = |pods: &[Pod]| ending(pods).map(|one| (one.pod, one.container, one.exit_code));
        let is = |pod: &str, container: &str, code| Some((pod.to_owned(), container.to_owned(), code));
        assert_eq!(of(&[]), None);
        // What ran before what was killed says nothing of it.
        assert_eq!(of(std::slice::from_ref(&killed)), is("killed", "drain", None));
        let failed = pod("failed", "Failed", &[("drain", 0, 1)], &[("upgrade", 3, 2)]);
        assert_eq!(of(&[failed.clone(), killed]), is("failed", "upgrade", Some(3)));
        let later = pod("later", "Failed", &[("prepare", 0, 4), ("drain", 1, 5)], &[]);
        assert_eq!(of(&[later, failed]), is("later", "drain", Some(1)));
        let sidecar = pod("s", "Failed", &[("proxy", 143, 9)], &[("upgrade", 7, 8)]);
        assert_eq!(of(&[sidecar]), is("s", "upgrade", Some(7)));
        let good = pod("good", "Succeeded", &[("proxy", 0, 9)], &[("upgrade", 0, 8)]);
        assert_eq!(of(&[good]), is("good", "upgrade", Some(0)));
    }

    #[test]
    fn a_volume_is_read_however_deep_its_managed_fields_are() {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let read = |more: &str| {
            let text = format!(
                r#"{{"metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {fields}}}]}}{more}}}"#
            );
            let item: Item = serde_json::from_str(&text).unwrap();
            spec::<PersistentVolumeSpec>(&item, "PersistentVolume a")
        };
        let volume = read(r#", "spec": {"hostPath": {"path": "/a"}}"#).unwrap();
        assert!(volume.is_some_and(|volume| volume.host_path.is_some()));
        assert_eq!(read(""), Ok(None));
        let why = read(r#", "spec": {"hostPath": 1}"#).unwrap_err();
        assert_eq!(why, "PersistentVolume a cannot be read");
    }

    #[test]
    fn the_tail_is_bounded_and_clean() {
        assert_eq!(tail("a\u{1b}[31mred\u{7}\nb\n", 2048), "a[31mred\nb");
        assert_eq!(tail("äöü", 3), "ü");
        assert_eq!(tail("x", 0), "");
        assert_eq!(tail("a\u{202e}b", 10), "ab");
    }
}
