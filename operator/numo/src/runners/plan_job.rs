//! Renders the Job of a node of a Plan, field by field as system-upgrade-controller does
//! (`spec/system-upgrade-controller.md` §2, D). It reads and writes nothing; what a Plan's containers hold stays JSON, and
//! the API server alone judges it.

use numo_api::{PlanContainer, PlanDrain, PlanSpec, PlanVolume, marks, marks::openshift};
use numo_core::{
    action::{PlanJobRequest, PlanParts},
    observed::{PlanJobSettings, PlanView},
    owners::plan::{duration_millis, duration_text, joined, label},
};
use serde_json::{Map, Value, json};

/// Where secrets are mounted.
const SECRETS: &str = "/run/system-upgrade/secrets";

/// Renders the Job. Parallelism is 1: the node is in `status.applying` before.
pub fn render(view: &PlanView, request: &PlanJobRequest, settings: &PlanJobSettings) -> Value {
    let ttl = ttl_seconds(view, settings);
    let mut annotations: Map<String, Value> = view
        .copied_annotations
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let pod_annotations = annotations.clone();
    annotations.insert(marks::PLAN_JOB_TTL.to_owned(), json!(ttl.to_string()));
    if request.parts == PlanParts::Prepare {
        annotations.insert(marks::PLAN_PREPARES.to_owned(), json!("true"));
    }
    let labels = labels(view, request, settings);
    let mut pod = pod(view, request);
    containers(&mut pod, view, request, settings);
    let mut job = json!({
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": settings.backoff_limit,
        "ttlSecondsAfterFinished": ttl,
        "podReplacementPolicy": settings.pod_replacement_policy,
        "template": {
            "metadata": {"labels": labels, "annotations": pod_annotations},
            "spec": pod,
        },
    });
    if let Some(seconds) = deadline_seconds(view, settings) {
        job["activeDeadlineSeconds"] = json!(seconds);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.job.name,
            "namespace": request.job.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "upgrade.cattle.io/v1",
                "kind": "Plan",
                "name": view.key.name,
                "uid": view.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": job,
    })
}

fn labels(view: &PlanView, request: &PlanJobRequest, settings: &PlanJobSettings) -> Map<String, Value> {
    let exclusive = view.spec.exclusive == Some(true);
    let mut labels = Map::new();
    for (key, value) in [
        (marks::PLAN_CONTROLLER, settings.controller.as_str()),
        (marks::PLAN_EXCLUSIVE, if exclusive { "true" } else { "false" }),
        (marks::PLAN_NODE, &request.node),
        (marks::PLAN, &view.key.name),
        (marks::PLAN_VERSION, &request.version),
        (&label(&view.key.name), &request.hash),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    let copied = view.labels.iter().filter(|(key, _)| !key.contains("cattle.io/"));
    labels.extend(copied.map(|(key, value)| (key.clone(), json!(value))));
    labels
}

/// The Job outlives its delay by a minute, so that its end is seen.
fn ttl_seconds(view: &PlanView, settings: &PlanJobSettings) -> i64 {
    let delay = view.spec.post_complete_delay.as_deref().and_then(duration_millis);
    let least = delay.map_or(0, |millis| millis / 1000 + 60);
    settings.ttl_seconds_after_finished.max(least)
}

fn deadline_seconds(view: &PlanView, settings: &PlanJobSettings) -> Option<i64> {
    let most = Some(settings.active_deadline_seconds_max).filter(|most| *most > 0);
    let wanted = match view.spec.job_active_deadline_secs {
        Some(0) => None,
        Some(seconds) if seconds > 0 => Some(seconds),
        _ => Some(settings.active_deadline_seconds).filter(|seconds| *seconds > 0),
    };
    match (wanted, most) {
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, most) => wanted.or(most),
    }
}

/// The pod without its containers.
fn pod(view: &PlanView, request: &PlanJobRequest) -> Map<String, Value> {
    let spec = &view.spec;
    let volumes = volumes(spec);
    let mut tolerations = vec![json!({
        "key": marks::UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule",
    })];
    tolerations.extend(spec.tolerations.iter().flatten().cloned());
    let mut pod = Map::new();
    let mut set = |key: &str, value: Value| pod.insert(key.to_owned(), value);
    set("hostIPC", json!(true));
    set("hostPID", json!(true));
    set("hostNetwork", json!(true));
    set("dnsPolicy", json!("ClusterFirstWithHostNet"));
    set("restartPolicy", json!("Never"));
    if let Some(account) = spec
        .service_account_name
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        set("serviceAccountName", json!(account));
    }
    if let Some(class) = spec
        .priority_class_name
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        set("priorityClassName", json!(class));
    }
    if let Some(secrets) = &spec.image_pull_secrets {
        set("imagePullSecrets", json!(secrets));
    }
    set("tolerations", json!(tolerations));
    set("volumes", json!(volumes));
    set("affinity", affinity(view, request));
    pod
}

/// What the Plan's containers mount, and the host.
fn volumes(spec: &PlanSpec) -> Vec<Value> {
    let mut volumes = vec![
        json!({"name": "host-root", "hostPath": {"path": "/", "type": "Directory"}}),
        json!({"name": "pod-info", "downwardAPI": {"defaultMode": 420, "items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels", "apiVersion": "v1"}},
            {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations", "apiVersion": "v1"}},
        ]}}),
    ];
    for secret in spec.secrets.iter().flatten() {
        let mut source = json!({
            "secretName": secret.name,
            "optional": secret.ignore_updates == Some(true),
        });
        if let Some(mode) = secret.default_mode {
            source["defaultMode"] = json!(mode);
        }
        volumes.push(json!({"name": volume_name(&secret.name), "secret": source}));
    }
    let of = |container: &Option<PlanContainer>| -> Vec<PlanVolume> {
        let volumes = container.iter().filter_map(|container| container.volumes.clone());
        volumes.flatten().collect()
    };
    // Volumes of `prepare` are declared too: what mounts one that nobody declares is refused.
    let mut declared: Vec<PlanVolume> = Vec::new();
    for volume in of(&spec.upgrade).into_iter().chain(of(&spec.prepare)) {
        if !declared.iter().any(|known| known.name == volume.name) {
            declared.push(volume);
        }
    }
    let host = |volume: PlanVolume| json!({"name": volume.name, "hostPath": {"path": volume.source}});
    volumes.extend(declared.into_iter().map(host));
    volumes
}

/// On its node, and beside no pod of the same Plan, or of any that is exclusive as it is.
fn affinity(view: &PlanView, request: &PlanJobRequest) -> Value {
    let (key, value) = if view.spec.exclusive == Some(true) {
        (marks::PLAN_EXCLUSIVE, "true")
    } else {
        (marks::PLAN, view.key.name.as_str())
    };
    json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [
                    {"key": openshift::HOSTNAME, "operator": "In", "values": [request.hostname]},
                ]},
            ]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
                "topologyKey": openshift::HOSTNAME,
            }]},
    })
}

/// The security context of a container on a node of Windows.
fn host_process() -> Value {
    json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}})
}

fn containers(
    pod: &mut Map<String, Value>,
    view: &PlanView,
    request: &PlanJobRequest,
    settings: &PlanJobSettings,
) {
    let spec = &view.spec;
    let prepare = spec
        .prepare
        .as_ref()
        .map(|prepare| preparing(prepare, view, request, settings));
    let none = PlanContainer::default();
    let upgrade = spec.upgrade.as_ref().unwrap_or(&none);
    let volumes = upgrade.volumes.clone().unwrap_or_default();
    let kubectl = |name: &str, args: Vec<String>| {
        let image = if request.windows {
            &settings.kubectl_image_windows
        } else {
            &settings.kubectl_image
        };
        let of = PlanContainer {
            image: image.clone(),
            args: Some(args),
            ..PlanContainer::default()
        };
        let context = request.windows.then(host_process);
        container(name, &of, view, request, settings, &volumes, context)
    };
    let node = &request.node;
    let cordons = match (&spec.drain, spec.cordon) {
        (Some(drain), _) => Some(kubectl("drain", drain_args(node, drain))),
        (None, Some(true)) => Some(kubectl("cordon", vec!["cordon".to_owned(), node.clone()])),
        (None, _) => None,
    };
    let context = upgrade_context(upgrade, request, settings);
    let mut built = container(
        "upgrade",
        upgrade,
        view,
        request,
        settings,
        &volumes,
        Some(context),
    );
    built["image"] = json!(tagged(&upgrade.image, &request.version));
    let (init, main) = match request.parts {
        PlanParts::All => (prepare.into_iter().chain(cordons).collect(), built),
        PlanParts::Upgrade => (Vec::new(), built),
        PlanParts::Prepare => (Vec::new(), prepare.unwrap_or(built)),
    };
    if !init.is_empty() {
        pod.insert("initContainers".to_owned(), json!(init));
    }
    pod.insert("containers".to_owned(), json!([main]));
}

fn preparing(
    prepare: &PlanContainer,
    view: &PlanView,
    request: &PlanJobRequest,
    settings: &PlanJobSettings,
) -> Value {
    let context = if request.windows {
        Some(host_process())
    } else {
        prepare.security_context.clone()
    };
    let volumes = prepare.volumes.clone().unwrap_or_default();
    let mut built = container("prepare", prepare, view, request, settings, &volumes, context);
    built["image"] = json!(tagged(&prepare.image, &request.version));
    built
}

/// The security context of the container that upgrades.
fn upgrade_context(upgrade: &PlanContainer, request: &PlanJobRequest, settings: &PlanJobSettings) -> Value {
    match &upgrade.security_context {
        // A definition of Plans that is older than the field takes any value for it.
        Some(Value::Object(context)) if request.windows => {
            let mut context = context.clone();
            context.insert(
                "windowsOptions".to_owned(),
                host_process()["windowsOptions"].clone(),
            );
            Value::Object(context)
        }
        Some(context) => context.clone(),
        None if request.windows => host_process(),
        None => json!({
            "privileged": settings.privileged,
            "capabilities": {"add": ["CAP_SYS_BOOT"]},
        }),
    }
}

fn container(
    name: &str,
    of: &PlanContainer,
    view: &PlanView,
    request: &PlanJobRequest,
    settings: &PlanJobSettings,
    volumes: &[PlanVolume],
    context: Option<Value>,
) -> Value {
    let env = env(of, view, request);
    let mounts = mounts(view, volumes);
    let mut built = json!({
        "name": name,
        "image": of.image,
        "imagePullPolicy": settings.image_pull_policy,
        "env": env,
        "volumeMounts": mounts,
    });
    if let Some(command) = &of.command {
        built["command"] = json!(command);
    }
    if let Some(args) = &of.args {
        built["args"] = json!(args);
    }
    if let Some(from) = &of.env_from {
        built["envFrom"] = json!(from);
    }
    if let Some(context) = context {
        built["securityContext"] = context;
    }
    built
}

/// What a container's environment says of the node and of the Plan.
fn env(of: &PlanContainer, view: &PlanView, request: &PlanJobRequest) -> Vec<Value> {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut env = vec![
        field("SYSTEM_UPGRADE_NODE_NAME", "spec.nodeName"),
        field("SYSTEM_UPGRADE_POD_NAME", "metadata.name"),
        field("SYSTEM_UPGRADE_POD_UID", "metadata.uid"),
    ];
    env.extend(of.envs.iter().flatten().cloned());
    for (name, value) in [
        ("SYSTEM_UPGRADE_PLAN_NAME", &view.key.name),
        ("SYSTEM_UPGRADE_PLAN_LATEST_HASH", &request.hash),
        ("SYSTEM_UPGRADE_PLAN_LATEST_VERSION", &request.version),
    ] {
        env.push(json!({"name": name, "value": value}));
    }
    env
}

fn mounts(view: &PlanView, volumes: &[PlanVolume]) -> Vec<Value> {
    let mut mounts = vec![
        json!({"name": "host-root", "mountPath": "/host"}),
        json!({"name": "pod-info", "mountPath": "/run/system-upgrade/pod", "readOnly": true}),
    ];
    for secret in view.spec.secrets.iter().flatten() {
        let path = match secret.path.as_str() {
            "" => format!("{SECRETS}/{}", secret.name),
            path if path.starts_with('/') => cleaned(path),
            path => cleaned(&format!("{SECRETS}/{path}")),
        };
        mounts.push(json!({"name": volume_name(&secret.name), "mountPath": path, "readOnly": true}));
    }
    mounts.extend(
        volumes
            .iter()
            .map(|volume| json!({"name": volume.name, "mountPath": volume.destination})),
    );
    mounts
}

/// A path from the root without `.`, `..` and doubled slashes.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Arguments of `kubectl drain`.
fn drain_args(node: &str, drain: &PlanDrain) -> Vec<String> {
    let selector = drain
        .pod_selector
        .as_ref()
        .and_then(|selector| serde_json::to_value(selector).ok())
        .unwrap_or_default();
    let mut args = vec![
        "drain".to_owned(),
        node.to_owned(),
        "--pod-selector".to_owned(),
        selector_text(&selector),
    ];
    let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    if drain.ignore_daemon_sets != Some(false) {
        add(&["--ignore-daemonsets"]);
    }
    if drain.delete_local_data != Some(false) && drain.delete_emptydir_data != Some(false) {
        add(&["--delete-emptydir-data"]);
    }
    if drain.force == Some(true) {
        add(&["--force"]);
    }
    match &drain.timeout {
        Some(Value::String(timeout)) => add(&["--timeout", timeout]),
        Some(Value::Number(nanos)) => add(&["--timeout", &duration_text(nanos.as_i64().unwrap_or(0))]),
        _ => {}
    }
    if let Some(seconds) = drain.grace_period {
        add(&["--grace-period", &seconds.to_string()]);
    }
    if drain.disable_eviction == Some(true) {
        add(&["--disable-eviction=true"]);
    }
    if let Some(seconds) = drain.skip_wait_for_delete_timeout.filter(|seconds| *seconds > 0) {
        add(&["--skip-wait-for-delete-timeout", &seconds.to_string()]);
    }
    args
}

/// A label selector as kubectl takes it, together with the requirement that the pod is of no Plan; by key, as Go's label
/// selectors are.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut parts = vec![(
        marks::PLAN_CONTROLLER.to_owned(),
        format!("!{}", marks::PLAN_CONTROLLER),
    )];
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        parts.push((key.clone(), format!("{key}={}", text(value))));
    }
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = text(&expression["key"]);
        let values = expression.get("values").and_then(Value::as_array);
        let mut values: Vec<String> = values.into_iter().flatten().map(text).collect();
        values.sort();
        let values = values.join(",");
        let part = match text(&expression["operator"]).as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        };
        parts.push((key, part));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    parts.join(",")
}

fn volume_name(secret: &str) -> String {
    joined(&["secret", secret])
}

/// The image with the version as its tag, if it has neither tag nor digest: then in Docker's short form.
fn tagged(image: &str, version: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if image.is_empty() || image.contains('@') || last.contains(':') {
        return image.to_owned();
    }
    let short = ["docker.io/", "index.docker.io/"]
        .iter()
        .find_map(|prefix| image.strip_prefix(prefix))
        .map_or(image, |rest| rest.strip_prefix("library/").unwrap_or(rest));
    // `library/alpine` is what Docker calls `alpine` too.
    let short = match short.strip_prefix("library/") {
        Some(rest) if !rest.contains('/') => rest,
        _ => short,
    };
    format!("{short}:{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_get_the_version_only_without_tag_and_digest() {
        for (image, wanted) in [
            ("rancher/k3s-upgrade", "rancher/k3s-upgrade:v1"),
            ("docker.io/rancher/k3s-upgrade", "rancher/k3s-upgrade:v1"),
            ("docker.io/library/alpine", "alpine:v1"),
            ("library/alpine", "alpine:v1"),
            ("alpine", "alpine:v1"),
            ("alpine:3", "alpine:3"),
            ("host:5000/a/b", "host:5000/a/b:v1"),
            ("host:5000/a/b:2", "host:5000/a/b:2"),
            ("a@sha256:00", "a@sha256:00"),
            ("", ""),
        ] {
            assert_eq!(tagged(image, "v1"), wanted);
        }
    }

    #[test]
    fn selectors_are_written_by_key() {
        let none = format!("!{}", marks::PLAN_CONTROLLER);
        assert_eq!(selector_text(&Value::Null), none);
        let selector = json!({
            "matchLabels": {"app": "x", "zzz": "1"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["2", "1"]},
                {"key": "c", "operator": "NotIn", "values": ["3"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(
            selector_text(&selector),
            format!("app=x,b in (1,2),c notin (3),d,!e,{none},zzz=1")
        );
    }

    /// Every field that a user or an upgrade image may rely on, from the specification (§2, D).
    #[test]
    #[allow(clippy::too_many_lines, reason = "it is one Job, whole")]
    fn a_job_is_the_references_field_by_field() {
        let plan: numo_api::Plan = serde_json::from_value(json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": {
                "name": "k3s", "namespace": "system-upgrade", "uid": "u1",
                "labels": {"team": "a", "objectset.rio.cattle.io/hash": "h"},
                "annotations": {"note": "n", "upgrade.cattle.io/digest": "spec.concurrency"},
            },
            "spec": {
                "concurrency": 1, "exclusive": true, "serviceAccountName": "sa", "priorityClassName": "high",
                "imagePullSecrets": [{"name": "pull"}],
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "jobActiveDeadlineSecs": 30, "postCompleteDelay": "20m",
                "nodeSelector": {}, "version": "v1+k3s1",
                "secrets": [
                    {"name": "conf", "path": ""},
                    {"name": "rel", "path": "a/../b//c", "ignoreUpdates": true, "defaultMode": 256},
                    {"name": "abs", "path": "/etc/./x/"},
                ],
                "prepare": {"image": "rancher/prepare:1", "args": ["prepare"], "envs": [{"name": "P", "value": "1"}]},
                "drain": {"force": true, "timeout": 60_000_000_000_i64, "gracePeriod": 0, "skipWaitForDeleteTimeout": 5,
                    "podSelector": {"matchLabels": {"app": "x"}}},
                "upgrade": {
                    "image": "docker.io/rancher/k3s-upgrade", "command": ["go"], "args": ["up"],
                    "envs": [{"name": "U", "value": "2"}],
                    "envFrom": [{"secretRef": {"name": "e"}}],
                    "volumes": [{"name": "v", "source": "/src", "destination": "/dst"}],
                },
            },
        }))
        .unwrap();
        let view = crate::frontends::plan::view(plan);
        let request = PlanJobRequest {
            job: numo_core::observed::Key::new("system-upgrade", "apply-k3s-on-n1-with-h0"),
            plan: view.key.clone(),
            node: "n1.example".to_owned(),
            hostname: "n1".to_owned(),
            windows: false,
            version: "v1-k3s1".to_owned(),
            hash: "h0".to_owned(),
            parts: PlanParts::All,
        };
        let labels = json!({
            "upgrade.cattle.io/controller": "system-upgrade-controller",
            "upgrade.cattle.io/exclusive": "true",
            "upgrade.cattle.io/node": "n1.example",
            "upgrade.cattle.io/plan": "k3s",
            "upgrade.cattle.io/version": "v1-k3s1",
            "plan.upgrade.cattle.io/k3s": "h0",
            "team": "a",
        });
        let field =
            |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let env = |own: Vec<Value>| -> Value {
            let first = vec![
                field("SYSTEM_UPGRADE_NODE_NAME", "spec.nodeName"),
                field("SYSTEM_UPGRADE_POD_NAME", "metadata.name"),
                field("SYSTEM_UPGRADE_POD_UID", "metadata.uid"),
            ];
            let last = vec![
                json!({"name": "SYSTEM_UPGRADE_PLAN_NAME", "value": "k3s"}),
                json!({"name": "SYSTEM_UPGRADE_PLAN_LATEST_HASH", "value": "h0"}),
                json!({"name": "SYSTEM_UPGRADE_PLAN_LATEST_VERSION", "value": "v1-k3s1"}),
            ];
            first.into_iter().chain(own).chain(last).collect()
        };
        let mounts = |own: Vec<Value>| -> Value {
            let all = vec![
                json!({"name": "host-root", "mountPath": "/host"}),
                json!({"name": "pod-info", "mountPath": "/run/system-upgrade/pod", "readOnly": true}),
                json!({"name": "secret-conf", "mountPath": "/run/system-upgrade/secrets/conf", "readOnly": true}),
                json!({"name": "secret-rel", "mountPath": "/run/system-upgrade/secrets/b/c", "readOnly": true}),
                json!({"name": "secret-abs", "mountPath": "/etc/x", "readOnly": true}),
            ];
            all.into_iter().chain(own).collect()
        };
        let own = || vec![json!({"name": "v", "mountPath": "/dst"})];
        let pod = json!({
            "hostIPC": true, "hostPID": true, "hostNetwork": true,
            "dnsPolicy": "ClusterFirstWithHostNet", "restartPolicy": "Never",
            "serviceAccountName": "sa", "priorityClassName": "high",
            "imagePullSecrets": [{"name": "pull"}],
            "tolerations": [
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "k", "operator": "Exists"},
            ],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]},
                    ]},
                ]}},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchExpressions": [
                        {"key": "upgrade.cattle.io/exclusive", "operator": "In", "values": ["true"]},
                    ]},
                    "topologyKey": "kubernetes.io/hostname",
                }]},
            },
            "volumes": [
                {"name": "host-root", "hostPath": {"path": "/", "type": "Directory"}},
                {"name": "pod-info", "downwardAPI": {"defaultMode": 420, "items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels", "apiVersion": "v1"}},
                    {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations", "apiVersion": "v1"}},
                ]}},
                {"name": "secret-conf", "secret": {"secretName": "conf", "optional": false}},
                {"name": "secret-rel", "secret": {"secretName": "rel", "optional": true, "defaultMode": 256}},
                {"name": "secret-abs", "secret": {"secretName": "abs", "optional": false}},
                {"name": "v", "hostPath": {"path": "/src"}},
            ],
            "initContainers": [
                {
                    "name": "prepare", "image": "rancher/prepare:1", "imagePullPolicy": "IfNotPresent",
                    "args": ["prepare"], "env": env(vec![json!({"name": "P", "value": "1"})]),
                    "volumeMounts": mounts(vec![]),
                },
                {
                    "name": "drain", "image": "rancher/kubectl:v1.30.3", "imagePullPolicy": "IfNotPresent",
                    "args": ["drain", "n1.example", "--pod-selector", "app=x,!upgrade.cattle.io/controller",
                        "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout", "1m0s",
                        "--grace-period", "0", "--skip-wait-for-delete-timeout", "5"],
                    "env": env(vec![]), "volumeMounts": mounts(own()),
                },
            ],
            "containers": [{
                "name": "upgrade", "image": "rancher/k3s-upgrade:v1-k3s1", "imagePullPolicy": "IfNotPresent",
                "command": ["go"], "args": ["up"], "env": env(vec![json!({"name": "U", "value": "2"})]),
                "envFrom": [{"secretRef": {"name": "e"}}], "volumeMounts": mounts(own()),
                "securityContext": {"privileged": true, "capabilities": {"add": ["CAP_SYS_BOOT"]}},
            }],
        });
        let wanted = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "apply-k3s-on-n1-with-h0", "namespace": "system-upgrade", "labels": labels,
                "annotations": {"note": "n", "upgrade.cattle.io/ttl-seconds-after-finished": "1260"},
                "ownerReferences": [{
                    "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "name": "k3s", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": false,
                }],
            },
            "spec": {
                "parallelism": 1, "completions": 1, "backoffLimit": 2, "ttlSecondsAfterFinished": 1260,
                "podReplacementPolicy": "TerminatingOrFailed", "activeDeadlineSeconds": 30,
                "template": {
                    "metadata": {"labels": labels, "annotations": {"note": "n"}},
                    "spec": pod,
                },
            },
        });
        let settings = PlanJobSettings::default();
        let found = render(&view, &request, &settings);
        let mut places = Vec::new();
        differing("", &found, &wanted, &mut places);
        assert!(places.is_empty(), "{places:#?}");
        // On Windows every container is a process of the host, whatever else its context says.
        let on_windows = PlanJobRequest {
            windows: true,
            ..request.clone()
        };
        let settings = PlanJobSettings {
            kubectl_image_windows: "kubectl-windows".to_owned(),
            active_deadline_seconds: 0,
            ..settings
        };
        let mut own = view.clone();
        own.spec.job_active_deadline_secs = None;
        if let Some(upgrade) = &mut own.spec.upgrade {
            upgrade.security_context = Some(json!({"runAsNonRoot": true}));
        }
        let found = render(&own, &on_windows, &settings);
        let options = json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"});
        let pod = &found["spec"]["template"]["spec"];
        for at in ["/initContainers/0", "/initContainers/1", "/containers/0"] {
            assert_eq!(
                pod.pointer(&format!("{at}/securityContext/windowsOptions")),
                Some(&options),
                "{at}"
            );
        }
        assert_eq!(
            pod["containers"][0]["securityContext"]["runAsNonRoot"],
            json!(true)
        );
        assert_eq!(pod["initContainers"][1]["image"], "kubectl-windows");
        assert_eq!(
            found["spec"].get("activeDeadlineSeconds"),
            None,
            "0 is without limit"
        );
    }

    /// Every place where two values differ, so that a failure can be read.
    fn differing(at: &str, found: &Value, wanted: &Value, places: &mut Vec<String>) {
        match (found, wanted) {
            (Value::Object(found), Value::Object(wanted)) => {
                for key in found.keys().chain(wanted.keys()) {
                    let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                    differing(&format!("{at}/{key}"), &of(found), &of(wanted), places);
                }
            }
            (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
                for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                    differing(&format!("{at}/{index}"), found, wanted, places);
                }
            }
            (found, wanted) if found == wanted => {}
            _ => places.push(format!("{at}: found {found}, wanted {wanted}")),
        }
    }
}
