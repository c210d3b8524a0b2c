//! The Job runner: renders the Job of a rule from the user's jobSpec. It reads and writes nothing; the
//! jobSpec stays JSON, and the API server alone judges it.

use numo_api::{MutexRule, Phase, Placement, marks, marks::openshift};
use numo_core::{action::JobRequest, names, observed::Validity};
use serde_json::{Map, Value, json};

/// Renders the Job. The rule's `cleanUpJobSpec` is taken in phase Post if it is given, else `jobSpec`.
///
/// Errors: the jobSpec, or a part of it that numo must add to, has a shape no Job can have; the text
/// names the field, what was found and what is wanted.
pub fn render(rule: &MutexRule, request: &JobRequest) -> Result<Value, String> {
    let (field, spec) = match (request.phase, &rule.spec.clean_up_job_spec, &rule.spec.job_spec) {
        (Phase::Post, Some(spec), _) => ("spec.cleanUpJobSpec", spec),
        (_, _, Some(spec)) => ("spec.jobSpec", spec),
        _ => return Err("spec.jobSpec: found nothing, wanted a batch/v1 JobSpec".to_owned()),
    };
    let mut spec = object(spec, field)?.clone();
    let wanted_ttl = spec
        .remove("ttlSecondsAfterFinished")
        .and_then(|ttl| ttl.as_i64());
    bound_deadline(&mut spec, request.timeout_seconds);
    let labels = labels(request);
    let mut template = match spec.remove("template") {
        Some(template) => object(&template, &format!("{field}.template"))?.clone(),
        None => return Err(format!("{field}.template: found nothing, wanted a pod template")),
    };
    let mut meta = match template.remove("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(meta) => object(&meta, &format!("{field}.template.metadata"))?.clone(),
    };
    let pod_labels = meta.entry("labels").or_insert_with(|| json!({}));
    if pod_labels.is_null() {
        *pod_labels = json!({});
    }
    if let Some(pod_labels) = pod_labels.as_object_mut() {
        pod_labels.extend(labels.clone());
    }
    template.insert("metadata".to_owned(), Value::Object(meta));
    let mut pod = match template.remove("spec") {
        Some(pod) => object(&pod, &format!("{field}.template.spec"))?.clone(),
        None => return Err(format!("{field}.template.spec: found nothing, wanted a pod spec")),
    };
    add_environment(&mut pod, request);
    place(&mut pod, request);
    ignore_disruptions(&mut spec, &pod);
    template.insert("spec".to_owned(), Value::Object(pod));
    spec.insert("template".to_owned(), Value::Object(template));
    let mut annotations = Map::new();
    annotations.insert(marks::JOB_NODE_NAME.to_owned(), json!(request.node));
    annotations.insert(marks::JOB_RULE.to_owned(), json!(request.rule.to_string()));
    annotations.insert(marks::JOB_ATTEMPT.to_owned(), json!(request.attempt.to_string()));
    // Of the rule that is rendered here, which may be newer than the one that was decided on.
    let edition = crate::frontends::mutex_rule::parse(rule, Validity::Unknown).edition();
    annotations.insert(marks::JOB_EDITION.to_owned(), json!(edition));
    if let Some(seconds) = wanted_ttl {
        annotations.insert(marks::JOB_TTL.to_owned(), json!(seconds.to_string()));
    }
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.job.name,
            "namespace": request.job.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }))
}

fn object<'a>(value: &'a Value, field: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| {
        let found: String = value.to_string().chars().take(100).collect();
        format!("{field}: found {found}, wanted a map")
    })
}

fn labels(request: &JobRequest) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert(marks::JOB_RUN.to_owned(), json!(request.run));
    labels.insert(marks::JOB_NODE.to_owned(), json!(names::node_hash(&request.node)));
    labels.insert(marks::JOB_PHASE.to_owned(), json!(request.phase.name()));
    labels
}

/// A rule that timed out is dead, not merely ignored.
fn bound_deadline(spec: &mut Map<String, Value>, timeout_seconds: i64) {
    let own = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let deadline = own.map_or(timeout_seconds, |own| own.min(timeout_seconds));
    spec.insert("activeDeadlineSeconds".to_owned(), json!(deadline));
}

/// NODE_NAME and the rest go into every container, before the user's own variables, whose values may so name them
/// (`$(NODE_NAME)`); what the user named so himself stays his.
fn add_environment(pod: &mut Map<String, Value>, request: &JobRequest) {
    let variables = [
        ("NODE_NAME", request.node.clone()),
        ("MUTEX_RULE", request.rule.name.clone()),
        ("FROM_VERSION", request.from_version.clone()),
        ("TO_VERSION", request.to_version.clone()),
        ("POOL", request.pool.clone()),
        ("RUN", request.run.clone()),
        ("ATTEMPT", request.attempt.to_string()),
        ("PHASE", request.phase.name().to_owned()),
    ];
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let environment = list_of(container, "env");
            let Some(environment) = environment.as_array_mut() else {
                continue;
            };
            let is_taken = |name: &str| {
                let mut own = environment.iter();
                own.any(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
            };
            let given = variables.iter().filter(|(name, _)| !is_taken(name));
            let given: Vec<Value> = given
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            environment.splice(..0, given);
        }
    }
}

/// Adds our placement to the user's affinity: every one of his required terms gets our requirements too.
/// Nodes in flight are a preference (ADR 7): where nothing else is left, a pod that may have to move is
/// better than one that never starts.
fn place(pod: &mut Map<String, Value>, request: &JobRequest) {
    let mut expressions = Vec::new();
    if !mentions(pod, openshift::OS) {
        expressions.push(json!({"key": openshift::OS, "operator": "In", "values": ["linux"]}));
    }
    let mut fields = Vec::new();
    if !request.node.is_empty() {
        let hostname = if request.hostname.is_empty() {
            &request.node
        } else {
            &request.hostname
        };
        match request.placement {
            Placement::NotOnTarget => {
                expressions
                    .push(json!({"key": openshift::HOSTNAME, "operator": "NotIn", "values": [hostname]}));
            }
            Placement::OnTarget => {
                fields.push(json!({"key": "metadata.name", "operator": "In", "values": [request.node]}));
            }
            Placement::Anywhere => {}
        }
    }
    if request.placement != Placement::OnTarget {
        prefer_others(pod, &request.avoid);
    }
    if expressions.is_empty() && fields.is_empty() {
        return;
    }
    // Where the user's affinity has another shape than a map, the API server would refuse the Job; ours
    // takes its place there.
    let required = node_affinity(pod)
        .map(|node| child(node, "requiredDuringSchedulingIgnoredDuringExecution"))
        .and_then(Value::as_object_mut);
    let Some(required) = required else { return };
    let terms = required.entry("nodeSelectorTerms").or_insert_with(|| json!([]));
    let Some(terms) = terms.as_array_mut() else { return };
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        extend(term, "matchExpressions", &expressions);
        extend(term, "matchFields", &fields);
    }
}

fn prefer_others(pod: &mut Map<String, Value>, avoid: &[String]) {
    if avoid.is_empty() {
        return;
    }
    let preferred = node_affinity(pod)
        .map(|node| list_of(node, "preferredDuringSchedulingIgnoredDuringExecution"))
        .and_then(Value::as_array_mut);
    if let Some(preferred) = preferred {
        let elsewhere = json!({"key": openshift::HOSTNAME, "operator": "NotIn", "values": avoid});
        preferred.push(json!({"weight": 100, "preference": {"matchExpressions": [elsewhere]}}));
    }
}

fn node_affinity(pod: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    child(pod, "affinity")
        .as_object_mut()
        .and_then(|affinity| child(affinity, "nodeAffinity").as_object_mut())
}

/// The map under a key, made if it is missing or of another shape.
fn child<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Value {
    let value = parent.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// The list under a key, made if it is missing or null: the API server takes both for an empty one.
fn list_of<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Value {
    let value = parent.entry(key).or_insert_with(|| json!([]));
    if value.is_null() {
        *value = json!([]);
    }
    value
}

fn extend(term: &mut Map<String, Value>, key: &str, more: &[Value]) {
    if more.is_empty() {
        return;
    }
    if let Some(list) = list_of(term, key).as_array_mut() {
        list.extend(more.iter().cloned());
    }
}

/// Whether the user's own selection speaks of a label already.
fn mentions(pod: &Map<String, Value>, label: &str) -> bool {
    let by_selector = pod
        .get("nodeSelector")
        .and_then(|selector| selector.get(label))
        .is_some();
    let by_os = pod.get("os").and_then(|os| os.get("name")).is_some();
    let by_affinity = pod
        .get("affinity")
        .and_then(|affinity| {
            affinity.pointer("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
        })
        .and_then(Value::as_array)
        .is_some_and(|terms| {
            terms
                .iter()
                .filter_map(|term| term.get("matchExpressions"))
                .filter_map(Value::as_array)
                .flatten()
                .any(|expression| expression.get("key").and_then(Value::as_str) == Some(label))
        });
    by_selector || by_os || by_affinity
}

/// A pod that is evicted has not failed: unless the user decided otherwise, its disruption does not count.
/// The API server allows that only with `restartPolicy: Never`, and not beside `podReplacementPolicy:
/// TerminatingOrFailed`.
fn ignore_disruptions(spec: &mut Map<String, Value>, pod: &Map<String, Value>) {
    let never = pod.get("restartPolicy").and_then(Value::as_str) == Some("Never");
    let replaces = spec
        .get("podReplacementPolicy")
        .and_then(Value::as_str)
        .unwrap_or("Failed");
    if never && replaces == "Failed" && spec.get("podFailurePolicy").is_none_or(Value::is_null) {
        spec.insert(
            "podFailurePolicy".to_owned(),
            json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::MutexRuleSpec;
    use numo_core::observed::Key;

    fn request(placement: Placement) -> JobRequest {
        JobRequest {
            job: Key::new("ns", "example-0123456789"),
            rule: Key::new("ns", "rule"),
            phase: Phase::Pre,
            attempt: 2,
            node: "worker-1".to_owned(),
            hostname: "worker-1.host".to_owned(),
            pool: "worker".to_owned(),
            from_version: "4.16.4".to_owned(),
            to_version: "4.17.0".to_owned(),
            run: "abc".to_owned(),
            placement,
            avoid: vec!["worker-2.host".to_owned()],
            timeout_seconds: 600,
        }
    }

    fn rule(job_spec: Value) -> MutexRule {
        MutexRule::new(
            "rule",
            MutexRuleSpec {
                job_spec: Some(job_spec),
                ..MutexRuleSpec::default()
            },
        )
    }

    fn pod(pod: &Value) -> Value {
        json!({"template": {"spec": pod}})
    }

    #[test]
    fn the_users_own_variables_stay_in_every_container() {
        let spec = pod(&json!({"restartPolicy": "Never",
            "initContainers": [{"name": "a"}],
            "containers": [{"name": "b", "env": [{"name": "POOL", "value": "mine"}]}, {"name": "c"}]}));
        let job = render(&rule(spec), &request(Placement::Anywhere)).unwrap();
        let values = |pointer: &str| {
            job.pointer(pointer)
                .and_then(Value::as_array)
                .unwrap()
                .iter()
                .map(|entry| {
                    (
                        entry["name"].as_str().unwrap().to_owned(),
                        entry["value"].as_str().unwrap().to_owned(),
                    )
                })
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let own = values("/spec/template/spec/containers/0/env");
        assert_eq!(own["POOL"], "mine");
        assert_eq!(own["NODE_NAME"], "worker-1");
        // A value expands the variables before it, and no other.
        let environment = &job["spec"]["template"]["spec"]["containers"][0]["env"];
        let last = environment.as_array().and_then(|all| all.last()).unwrap();
        assert_eq!(last["name"], "POOL", "{environment}");
        for pointer in [
            "/spec/template/spec/containers/1/env",
            "/spec/template/spec/initContainers/0/env",
        ] {
            let all = values(pointer);
            assert_eq!(
                (all["POOL"].as_str(), all["ATTEMPT"].as_str()),
                ("worker", "2"),
                "{pointer}"
            );
        }
    }

    #[test]
    fn placement_is_added_to_each_of_the_users_terms() {
        let terms =
            json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchExpressions": []}]);
        let spec = pod(&json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}));
        let job = render(&rule(spec), &request(Placement::NotOnTarget)).unwrap();
        let terms = job
            .pointer("/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
            .and_then(Value::as_array)
            .unwrap();
        assert_eq!(terms.len(), 2);
        for term in terms {
            let text = term.to_string();
            assert!(text.contains("worker-1.host") && text.contains("linux"), "{text}");
        }
    }

    /// Nodes in flight that were required to be elsewhere left the pods of a small cluster without a place
    /// for as long as their Job lived, as a Job's affinity cannot be edited.
    #[test]
    fn nodes_in_flight_are_avoided_and_not_forbidden() {
        let mine =
            json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]);
        let spec = pod(&json!({"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": mine}}}));
        let job = render(&rule(spec), &request(Placement::NotOnTarget)).unwrap();
        let affinity = job.pointer("/spec/template/spec/affinity/nodeAffinity").unwrap();
        let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(preferred[0]["weight"], 1, "the user's own stays: {affinity}");
        assert_eq!(preferred[1]["weight"], 100, "{affinity}");
        assert_eq!(
            preferred[1]["preference"]["matchExpressions"][0],
            json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["worker-2.host"]})
        );
        let required = affinity["requiredDuringSchedulingIgnoredDuringExecution"].to_string();
        assert!(!required.contains("worker-2.host"), "{required}");
    }

    #[test]
    fn on_target_means_that_node_only() {
        let job = render(&rule(pod(&json!({}))), &request(Placement::OnTarget)).unwrap();
        let text = job.to_string();
        assert!(
            text.contains(r#""matchFields":[{"key":"metadata.name","operator":"In","values":["worker-1"]}]"#),
            "{text}"
        );
        assert!(!text.contains("NotIn"), "{text}");
    }

    #[test]
    fn the_ttl_waits_and_the_deadline_is_bounded() {
        let spec =
            json!({"ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 9000, "template": {"spec": {}}});
        let job = render(&rule(spec), &request(Placement::NotOnTarget)).unwrap();
        assert_eq!(job.pointer("/spec/ttlSecondsAfterFinished"), None);
        assert_eq!(job["metadata"]["annotations"][marks::JOB_TTL], "0");
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 600);
    }

    #[test]
    fn odd_shapes_are_errors_that_name_the_field() {
        for (spec, field) in [
            (json!("text"), "spec.jobSpec:"),
            (json!({}), "spec.jobSpec.template:"),
            (json!({"template": 1}), "spec.jobSpec.template:"),
            (json!({"template": {"spec": []}}), "spec.jobSpec.template.spec:"),
            (
                json!({"template": {"metadata": "x", "spec": {}}}),
                "spec.jobSpec.template.metadata:",
            ),
        ] {
            let error = render(&rule(spec.clone()), &request(Placement::NotOnTarget)).unwrap_err();
            assert!(error.starts_with(field), "{spec}: {error}");
        }
        for affinity in [
            json!(null),
            json!(3),
            json!({"nodeAffinity": []}),
            json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}}),
        ] {
            render(
                &rule(pod(&json!({"affinity": affinity, "containers": "x"}))),
                &request(Placement::NotOnTarget),
            )
            .unwrap();
        }
    }

    #[test]
    fn a_rule_of_the_users_own_os_keeps_it() {
        let spec = pod(&json!({"nodeSelector": {"kubernetes.io/os": "windows"}}));
        let job = render(&rule(spec), &request(Placement::NotOnTarget)).unwrap();
        assert!(!job.to_string().contains("linux"));
    }
}
