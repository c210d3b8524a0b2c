//! What `numo doctor` looks at: an installation from outside, as its administrator sees it. It reads, asks the API server who
//! may do what, and tries one object by dry run; it writes nothing, and the operator never asks it.

use super::{
    access, answer,
    client::Connection,
    eval::artifact::{ArtifactOptions, Artifacts, NotFetched},
    kind::Kind,
    leader::{age_seconds, holder, is_alive, leases},
    notice::Notice,
    observe,
    operator::{LEADER_LEASE, is_too_old},
    plan_writers, policies, rival,
    services::{self, Said},
    told::{self, Outward, Told},
    watch,
    watched::{self, Deployed, Object, Place},
};
use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        },
        apps::v1::Deployment,
        authorization::v1::ResourceAttributes,
        coordination::v1::Lease,
        core::v1::{Namespace, Node, Pod},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
    },
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use numo_api::{
    Condition, MutexBinding, MutexRule, MutexRunConfig, NodeChange, Reason, Step, WasmRule,
    conditions::types, marks,
};
use numo_core::{
    left,
    observed::{Key, Settings},
};
use numo_plugin::address::AddressRange;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// Reviews of access, and images, that are asked for at once.
const AT_ONCE: usize = 16;
/// Marks of owners that are gone, as many as are named.
const MARKS_NAMED: usize = 20;
/// Nodes that are asked for the range of their pods: all say it, or none does.
const NODES_LOOKED_AT: u32 = 100;
/// How long a registry may take.
const REGISTRY_PATIENCE: Duration = Duration::from_secs(15);
/// What numo is granted, as it is installed: one source.
const ROLES: [&str; 7] = [
    include_str!("../../../../deploy/kustomize/base/cluster_role.yaml"),
    include_str!("../../../../deploy/kustomize/base/cluster_role_binding.yaml"),
    include_str!("../../../../deploy/kustomize/base/leader_role.yaml"),
    include_str!("../../../../deploy/kustomize/base/lease_role.yaml"),
    include_str!("../../../../deploy/kustomize/base/rule_jobs.yaml"),
    include_str!("../../../../deploy/kustomize/base/rule_components.yaml"),
    include_str!("../../../../deploy/kustomize/base/runs.yaml"),
];
/// The webhook configuration of the overlays and the chart.
const OWN_WEBHOOK: &str = "numo";
/// Label of its Deployment, and of its pods.
const OWN_PODS: &str = "app.kubernetes.io/name=numo";
/// What it is granted besides, where it makes the webhook's certificate itself.
const WEBHOOK_ROLES: &str =
    include_str!("../../../../deploy/kustomize/components/webhook/certificate_role.yaml");
/// What a control-plane node has.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Fields of numo's own on kinds that other operators define too.
const OWN_FIELDS: [&str; 3] = ["spec.mutex", "spec.mutexRules", "spec.drain"];

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Not wrong, but to be known.
    Note,
    /// Something to mend.
    Wrong,
    /// It could not be looked at.
    Unknown,
}

/// What was found, and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The check, by a stable name.
    pub check: &'static str,
    /// How it went.
    pub state: State,
    /// What was found, in a sentence that names the object.
    pub message: String,
    /// What mends it; none where there is nothing to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// What was found so far.
struct Findings {
    check: &'static str,
    all: Vec<Finding>,
}

impl Findings {
    fn say(&mut self, state: State, message: impl Into<String>, cure: Option<String>) {
        self.all.push(Finding {
            check: self.check,
            state,
            message: message.into(),
            cure,
        });
    }

    fn ok(&mut self, message: impl Into<String>) {
        self.say(State::Ok, message, None);
    }

    fn wrong(&mut self, message: impl Into<String>, cure: impl Into<String>) {
        self.say(State::Wrong, message, Some(cure.into()));
    }

    fn note(&mut self, message: impl Into<String>, cure: impl Into<String>) {
        self.say(State::Note, message, Some(cure.into()));
    }

    fn unknown(&mut self, what: &str, error: &kube::Error) {
        let words = match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
        self.say(State::Unknown, format!("{what}: {words}"), Some(cure));
    }
}

/// Looks at the installation in `namespace`, and asks registries as `artifacts` say. What cannot be read is a finding, not an
/// error.
pub async fn examine(connection: &Connection, namespace: &str, artifacts: ArtifactOptions) -> Vec<Finding> {
    let mut found = Findings {
        check: "",
        all: Vec::new(),
    };
    found.check = "Version";
    version(connection, &mut found).await;
    found.check = "Definitions";
    definitions(connection, &mut found).await;
    found.check = "Installation";
    installation(connection, namespace, &mut found).await;
    placement(connection, namespace, &mut found).await;
    found.check = "Leader";
    leader(connection, namespace, &mut found).await;
    found.check = "KeptObjects";
    turned_away(connection, namespace, &mut found).await;
    found.check = "Permissions";
    permissions(connection, namespace, &mut found).await;
    found.check = "TokenPolicies";
    token_policies(connection, namespace, &mut found).await;
    found.check = "PlanWriters";
    writers_of_plans(connection, namespace, &mut found).await;
    found.check = "OtherOperators";
    others(connection, &mut found).await;
    found.check = "Webhook";
    webhook(connection, namespace, &mut found).await;
    found.check = "LeftBehind";
    left_behind(connection, &mut found).await;
    found.check = "Rules";
    let all = rules(connection, &mut found).await;
    found.check = "Bindings";
    bindings(connection, &mut found).await;
    found.check = "Runs";
    runs(connection, &mut found).await;
    found.check = "Signatures";
    signatures(connection, namespace, &mut found).await;
    found.check = "Networks";
    networks(connection, namespace, &mut found).await;
    found.check = "Registries";
    registries(connection, namespace, artifacts, &all, &mut found).await;
    found.all
}

/// The same, but only for what an owner needs: definitions, rights, and that no other operator works on the same objects.
pub async fn needs(connection: &Connection, namespace: &str) -> Vec<Finding> {
    let mut found = Findings {
        check: "Definitions",
        all: Vec::new(),
    };
    definitions(connection, &mut found).await;
    found.check = "Permissions";
    permissions(connection, namespace, &mut found).await;
    found.check = "OtherOperators";
    others(connection, &mut found).await;
    found.all
}

async fn version(connection: &Connection, found: &mut Findings) {
    match connection.read.apiserver_version().await {
        Ok(version) => {
            if is_too_old(&version) {
                let message = format!("Kubernetes {} is too old", version.git_version);
                found.wrong(message, "numo needs 1.31 or later (OpenShift 4.18 or later)");
            } else {
                found.ok(format!("Kubernetes {}", version.git_version));
            }
        }
        Err(error) => found.unknown("the version of the API server", &error),
    }
}

/// Paths of the properties of a schema; those of list items are their list's.
fn paths(schema: &JSONSchemaProps, at: &str, out: &mut BTreeSet<String>) {
    for (name, property) in schema.properties.iter().flatten() {
        let path = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        paths(property, &path, out);
        out.insert(path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        paths(items, at, out);
    }
}

/// What a definition has: the paths of the version, and whether it is served.
fn fields(crd: &CustomResourceDefinition, version: &str) -> Option<BTreeSet<String>> {
    let mut versions = crd.spec.versions.iter();
    let served = versions.find(|one| one.name == version && one.served)?;
    let mut out = BTreeSet::new();
    let schema = served.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    paths(schema, "", &mut out);
    Some(out)
}

async fn definitions(connection: &Connection, found: &mut Findings) {
    let api: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    let before = found.all.len();
    let mut number = 0;
    let mut missing = Vec::new();
    for wanted in numo_api::crds::all() {
        let name = wanted.name_any();
        let kind = &wanted.spec.names.kind;
        let is_others = matches!(kind.as_str(), "NodeMaintenance" | "Plan");
        let own = &wanted.spec.versions[0].name;
        match api.get_opt(&name).await {
            Err(error) => found.unknown(&format!("CustomResourceDefinition {name}"), &error),
            Ok(None) if is_others => found.note(
                format!("CustomResourceDefinition {name} is not there: numo serves no {kind}"),
                "install it with numo, if such objects are to be served",
            ),
            Ok(None) => missing.push(name),
            Ok(Some(crd)) => {
                number += 1;
                let Some(has) = fields(&crd, own) else {
                    let message = format!("CustomResourceDefinition {name} does not serve version {own}");
                    found.wrong(
                        message,
                        "install the definitions of this numo: numo crds | kubectl apply --server-side -f -",
                    );
                    continue;
                };
                let lacks: Vec<String> = fields(&wanted, own)
                    .unwrap_or_default()
                    .difference(&has)
                    .cloned()
                    .collect();
                let gates: Vec<&str> = OWN_FIELDS
                    .into_iter()
                    .filter(|field| lacks.iter().any(|one| one == field))
                    .collect();
                if is_others && !gates.is_empty() {
                    found.note(
                        format!(
                            "CustomResourceDefinition {name} is another operator's and drops {}",
                            gates.join(" and ")
                        ),
                        "gate such objects by a MutexBinding, or install numo's definition",
                    );
                } else if !is_others && !lacks.is_empty() {
                    let first = lacks.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
                    let message = format!(
                        "CustomResourceDefinition {name} lacks {} of this numo: {first}",
                        counted(lacks.len(), "field")
                    );
                    found.wrong(
                        message,
                        "install the definitions of this numo: numo crds | kubectl apply --server-side -f -; Helm and OLM do so too",
                    );
                }
            }
        }
    }
    if !missing.is_empty() {
        found.wrong(
            format!("{} CustomResourceDefinitions are not there: {}", missing.len(), missing.join(", ")),
            "install numo's definitions: kubectl apply -k deploy/kustomize/kubernetes, or crds.install=true with Helm",
        );
    }
    if found.all.len() == before {
        found.ok(format!(
            "all {number} definitions are there, with every field of this numo"
        ));
    }
}

async fn installation(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<Deployment> = Api::all(connection.read.clone());
    let params = ListParams::default().labels(OWN_PODS);
    match api.list(&params).await {
        Err(error) => found.unknown("Deployments of numo", &error),
        Ok(list) => {
            let here = list
                .items
                .iter()
                .find(|one| one.namespace().as_deref() == Some(namespace));
            match here {
                None => found.note(
                    format!("there is no Deployment of numo in namespace {namespace}"),
                    "install it, name its namespace with --namespace, or run it out of the cluster",
                ),
                Some(one) => {
                    let wanted = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                    let ready = one
                        .status
                        .as_ref()
                        .and_then(|status| status.ready_replicas)
                        .unwrap_or(0);
                    let name = format!("Deployment {namespace}/{}", one.name_any());
                    if wanted == 0 {
                        found.wrong(
                            format!("{name} is scaled to 0"),
                            format!(
                                "kubectl -n {namespace} scale deployment {} --replicas 2",
                                one.name_any()
                            ),
                        );
                    } else if ready == 0 {
                        found.wrong(
                            format!("{name} has no ready pod of {wanted}"),
                            format!("kubectl -n {namespace} describe pods -l app.kubernetes.io/name=numo"),
                        );
                    } else {
                        found.ok(format!("{name}: {ready} of {wanted} pods are ready"));
                    }
                }
            }
            for other in list
                .items
                .iter()
                .filter(|one| one.namespace().as_deref() != Some(namespace))
            {
                let place = other.namespace().unwrap_or_default();
                found.wrong(
                    format!(
                        "a second numo is installed: Deployment {place}/{}",
                        other.name_any()
                    ),
                    format!(
                        "remove one of them: kubectl -n {place} delete deployment {}",
                        other.name_any()
                    ),
                );
            }
        }
    }
    let namespaces: Api<Namespace> = Api::all(connection.read.clone());
    match namespaces.get_opt(marks::LEASE_NAMESPACE).await {
        Err(error) => found.unknown("the namespace of node leases", &error),
        Ok(None) => found.wrong(
            format!(
                "Namespace {} is not there: no node can be leased, and none is taken",
                marks::LEASE_NAMESPACE
            ),
            format!("kubectl create namespace {}", marks::LEASE_NAMESPACE),
        ),
        Ok(Some(_)) => {}
    }
}

/// Where there are control-plane nodes, numo belongs on them: whoever takes over the node of one of its pods has its token.
async fn placement(connection: &Connection, namespace: &str, found: &mut Findings) {
    let nodes: Api<Node> = Api::all(connection.read.clone());
    let control_plane = match nodes.list(&ListParams::default().labels(CONTROL_PLANE)).await {
        Err(error) => return found.unknown("control-plane nodes", &error),
        Ok(list) => list.items,
    };
    let pods: Api<Pod> = Api::namespaced(connection.read.clone(), namespace);
    let elsewhere = match pods.list(&ListParams::default().labels(OWN_PODS)).await {
        Err(error) => return found.unknown("pods of numo", &error),
        Ok(list) => elsewhere(&list.items, &control_plane),
    };
    if !elsewhere.is_empty() {
        found.wrong(
            format!(
                "{} of numo on nodes that are no control plane ({}): who takes over such a node has numo's token",
                counted(elsewhere.len(), "pod"),
                elsewhere.join(", ")
            ),
            "require the control plane: kubectl apply -k deploy/kustomize/self-managed, or controlPlanePlacement=required with Helm (and tolerations, if its nodes have taints of their own)",
        );
    }
}

/// The nodes of pods that are on none of these; none where there are none of these.
fn elsewhere(pods: &[Pod], control_plane: &[Node]) -> Vec<String> {
    let names: BTreeSet<String> = control_plane.iter().map(ResourceExt::name_any).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let placed = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    placed.filter(|node| !names.contains(node)).collect()
}

async fn leader(connection: &Connection, namespace: &str, found: &mut Findings) {
    let leases = match leases(&connection.read, LEADER_LEASE).await {
        Ok(leases) => leases,
        Err(error) => return found.unknown(&format!("Leases {LEADER_LEASE}"), &error),
    };
    let now = connection.clock.now();
    let is_alive = |lease: &&Lease| is_alive(lease, now);
    match leases
        .iter()
        .find(|one| one.namespace().as_deref() == Some(namespace))
    {
        Some(lease) if is_alive(&lease) => {
            found.ok(format!("{} leads in namespace {namespace}", holder(lease)));
        }
        Some(lease) => found.wrong(
            format!(
                "nobody leads in namespace {namespace}: Lease {LEADER_LEASE} was renewed {} s ago",
                age_seconds(lease, now).unwrap_or_default()
            ),
            format!("look at the pods: kubectl -n {namespace} logs -l app.kubernetes.io/name=numo"),
        ),
        None => found.wrong(
            format!("numo has never run in namespace {namespace}: there is no Lease {LEADER_LEASE}"),
            "start it, or name its namespace with --namespace",
        ),
    }
    for other in leases
        .iter()
        .filter(|one| one.namespace().as_deref() != Some(namespace))
        .filter(is_alive)
    {
        found.wrong(
            format!(
                "a second numo runs: {} leads in namespace {}",
                holder(other),
                other.namespace().unwrap_or_default()
            ),
            "stop one of them: both would change the same nodes",
        );
    }
}

/// Marks whose owner is gone: nobody takes them back by itself.
async fn left_behind(connection: &Connection, found: &mut Findings) {
    let settings = Settings {
        only_looks: true,
        ..Settings::default()
    };
    let looked = observe::once(&connection.read, settings).await;
    let (store, unseen) = match looked {
        Ok(looked) => looked,
        Err(error) => return found.unknown("marks on Nodes and pools", &error),
    };
    if let Some(words) = unseen.iter().find(|words| words.ends_with(observe::FORBIDDEN)) {
        let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
        let message = format!("marks on Nodes and pools: cannot see {words}");
        return found.say(State::Unknown, message, Some(cure));
    }
    let orphans = left::orphans(&store.observed);
    for orphan in orphans.iter().take(MARKS_NAMED) {
        found.wrong(orphan.said().1, orphan.commands.join("; "));
    }
    if orphans.len() > MARKS_NAMED {
        let more = orphans.len() - MARKS_NAMED;
        found.wrong(
            format!("{} more of owners that are gone", counted(more, "mark")),
            "numo status -o wide",
        );
    }
    if orphans.is_empty() {
        found.ok("no mark of an owner that is gone is left");
    }
}

/// Namespaces in which strangers have written more than numo keeps, as the one that leads says.
async fn turned_away(connection: &Connection, namespace: &str, found: &mut Findings) {
    let all = match leases(&connection.read, LEADER_LEASE).await {
        Ok(all) => all,
        Err(error) => return found.unknown("what the numo that leads says", &error),
    };
    let mut own = all
        .iter()
        .filter(|lease| lease.namespace().as_deref() == Some(namespace));
    let notice = own.find_map(Notice::of).unwrap_or_default();
    for words in &notice.not_kept {
        found.wrong(
            format!(
                "numo does not keep all {words}: they are too many, or too large, where numo heeds nobody"
            ),
            "look who writes them there; those that an owner of another namespace refers to are kept",
        );
    }
    if notice.not_kept.is_empty() {
        found.ok("numo keeps every object that it watches");
    }
}

/// Every right that numo is granted where it is installed: what is bound to its ServiceAccount, where it is bound. What is
/// bound in a namespace other than that of node leases is bound in numo's own.
fn rights(namespace: &str, with_webhook: bool) -> Vec<ResourceAttributes> {
    let texts = ROLES.into_iter().chain(with_webhook.then_some(WEBHOOK_ROLES));
    let objects: Vec<Value> = texts
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap_or_default())
        .collect();
    let text = |object: &Value, pointer: &str| {
        let found = object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let mut out = Vec::new();
    for binding in objects.iter().filter(|one| one.get("roleRef").is_some()) {
        let place = text(binding, "/metadata/namespace");
        let is_meant = |role: &&Value| {
            text(role, "/kind") == text(binding, "/roleRef/kind")
                && text(role, "/metadata/name") == text(binding, "/roleRef/name")
                && ["", place.as_str()].contains(&text(role, "/metadata/namespace").as_str())
        };
        let rules = objects.iter().find(is_meant).and_then(|role| role.get("rules"));
        let rules: Vec<PolicyRule> = rules
            .and_then(|rules| serde_json::from_value(rules.clone()).ok())
            .unwrap_or_default();
        let place = match place.as_str() {
            "" => None,
            marks::LEASE_NAMESPACE => Some(marks::LEASE_NAMESPACE),
            _ => Some(namespace),
        };
        for rule in &rules {
            out.extend(rights_of(rule, place));
        }
    }
    out
}

fn rights_of(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let names = rule.resource_names.iter().flatten().cloned().map(Some);
    let names: Vec<Option<String>> = names.collect();
    let names = if names.is_empty() { vec![None] } else { names };
    let mut out = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, sub) = match resource.split_once('/') {
                Some((resource, sub)) => (resource, Some(sub.to_owned())),
                None => (resource.as_str(), None),
            };
            let each = rule
                .verbs
                .iter()
                .flat_map(|verb| names.iter().map(move |name| (verb, name)));
            out.extend(each.map(|(verb, name)| ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(resource.to_owned()),
                subresource: sub.clone(),
                name: name.clone(),
                namespace: namespace.map(str::to_owned),
                verb: Some(verb.clone()),
                ..ResourceAttributes::default()
            }));
        }
    }
    out
}

/// A right in words, as `verb resource/subresource.group in namespace`.
fn words(right: &ResourceAttributes) -> String {
    let part = |sign: &str, of: &Option<String>| {
        let found = of.as_deref().filter(|text| !text.is_empty());
        found.map_or_else(String::new, |text| format!("{sign}{text}"))
    };
    format!(
        "{} {}{}{}{}",
        part("", &right.verb),
        part("", &right.resource),
        part("/", &right.subresource),
        part(".", &right.group),
        part(" in ", &right.namespace)
    )
}

async fn permissions(connection: &Connection, namespace: &str, found: &mut Findings) {
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(connection.read.clone());
    // Installed by OLM it has another name, and its certificate is OLM's.
    let with_webhook = matches!(hooks.get_opt(OWN_WEBHOOK).await, Ok(Some(_)));
    let all = rights(namespace, with_webhook);
    let number = all.len();
    let ask = |right: ResourceAttributes| async move {
        let lack = words(&right);
        let may = access::may(&connection.write, namespace, "numo", right).await?;
        Ok::<_, kube::Error>((!may).then_some(lack))
    };
    let answers: Vec<_> = stream::iter(all.into_iter().map(ask))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut lacks = Vec::new();
    for answer in answers {
        match answer {
            Ok(lack) => lacks.extend(lack),
            Err(error) => return found.unknown("what numo may do", &error),
        }
    }
    if lacks.is_empty() {
        return found.ok(format!("ServiceAccount {namespace}/numo has all {number} rights"));
    }
    let more = lacks.len().saturating_sub(5);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let first = lacks.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    found.wrong(
        format!("ServiceAccount {namespace}/numo may not {first}{more}"),
        "install numo's roles and bindings of this version, and look for who takes them away",
    );
}

/// Whether the API server refuses numo's token what numo has no need to write.
async fn token_policies(connection: &Connection, namespace: &str, found: &mut Findings) {
    let params = ListParams::default();
    let api: Api<ValidatingAdmissionPolicy> = Api::all(connection.read.clone());
    let installed = match api.list(&params).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("ValidatingAdmissionPolicies", &error),
    };
    let api: Api<ValidatingAdmissionPolicyBinding> = Api::all(connection.read.clone());
    let bindings = match api.list(&params).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("ValidatingAdmissionPolicyBindings", &error),
    };
    let faults = policies::faults(&installed, &bindings, namespace);
    if faults.is_empty() {
        return found.ok(format!(
            "all {} ValidatingAdmissionPolicies keep numo's token to what numo writes",
            policies::number()
        ));
    }
    found.wrong(
        format!(
            "numo's token may write more than numo does: {}",
            faults.join("; ")
        ),
        policies::command(namespace),
    );
}

/// The Deployment of numo in its namespace, if there is one.
async fn own_deployment(connection: &Connection, namespace: &str) -> Result<Option<Deployment>, kube::Error> {
    let api: Api<Deployment> = Api::namespaced(connection.read.clone(), namespace);
    let params = ListParams::default().labels("app.kubernetes.io/name=numo");
    Ok(api.list(&params).await?.items.into_iter().next())
}

/// Where Plans are honoured: in numo's namespace, in those that it is told of, and in those with the label.
async fn plan_namespaces(connection: &Connection, namespace: &str) -> Result<BTreeSet<String>, kube::Error> {
    let deployment = own_deployment(connection, namespace).await?;
    let told = deployment.as_ref().map_or(Told::Nothing, |one| {
        told::told(one, "--plan-namespaces", "NUMO_PLAN_NAMESPACES")
    });
    let named = match &told {
        Told::This(text) => text.as_str(),
        Told::Nothing | Told::Elsewhere => told::PLAN_NAMESPACES,
    };
    let named = named.split(',').filter(|one| !one.is_empty());
    let mut all: BTreeSet<String> = named.map(ToOwned::to_owned).collect();
    let api: Api<Namespace> = Api::all(connection.read.clone());
    let labelled = ListParams::default().labels(&format!("{}=true", marks::PLANS_NAMESPACE));
    all.extend(api.list(&labelled).await?.items.iter().map(ResourceExt::name_any));
    all.insert(namespace.to_owned());
    Ok(all)
}

/// Roles and bindings, as far as they count in these namespaces.
async fn granted(
    connection: &Connection,
    namespaces: &BTreeSet<String>,
) -> Result<plan_writers::Granted, kube::Error> {
    let (client, params) = (&connection.read, ListParams::default());
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let mut granted = plan_writers::Granted {
        cluster_roles: roles.list(&params).await?.items,
        cluster_bindings: bindings.list(&params).await?.items,
        ..plan_writers::Granted::default()
    };
    for namespace in namespaces {
        let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        granted.roles.extend(roles.list(&params).await?.items);
        granted.bindings.extend(bindings.list(&params).await?.items);
    }
    Ok(granted)
}

/// Who may write Plans where they are honoured: to be known, and nothing to mend.
async fn writers_of_plans(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    if matches!(api.get_opt("plans.upgrade.cattle.io").await, Ok(None)) {
        return;
    }
    let namespaces = match plan_namespaces(connection, namespace).await {
        Ok(namespaces) => namespaces,
        Err(error) => return found.unknown("who may write Plans: where they are honoured", &error),
    };
    match granted(connection, &namespaces).await {
        Ok(granted) => {
            let own = format!("{namespace}/numo");
            found.say(
                State::Note,
                plan_writers::sentence(&granted, &namespaces, &own),
                None,
            );
        }
        Err(error) => found.unknown("who may write Plans: roles and their bindings", &error),
    }
}

async fn others(connection: &Connection, found: &mut Findings) {
    let before = found.all.len();
    for kind in watched::at(Place::Replaced) {
        let params = kind.select("").list();
        match watch::api(&connection.read, kind, "").list(&params).await {
            Err(error) => return found.unknown("Deployments of other operators", &error),
            Ok(list) => {
                for one in list.items {
                    if let Some(Object::Foreign(key, of)) = watched::object(kind, &one) {
                        other(connection, &key, &of, found).await;
                    }
                }
            }
        }
    }
    impostors(connection, found).await;
    stood_still(connection, found).await;
    if found.all.len() == before {
        found.ok("no operator that numo replaces runs");
    }
}

/// DaemonSets by the name of kured whose locks nobody has to heed.
async fn impostors(connection: &Connection, found: &mut Findings) {
    let params = Kind::Kured.select("").list();
    let list = match watch::items(&connection.read, Kind::Kured, "")
        .list(&params)
        .await
    {
        Ok(list) => list.items,
        Err(error) => return found.unknown("DaemonSets by the name of kured", &error),
    };
    for item in list.iter().take(AT_ONCE) {
        let Some(Object::RebootLocks(key, account, locks)) = watched::item(Kind::Kured, item) else {
            continue;
        };
        let may = answer::may_reboot(&connection.read, &key.namespace, &account).await;
        if may == Some(false) {
            let holds = locks.iter().map(|lock| lock.node.as_str()).take(3);
            let holds = holds.collect::<Vec<_>>().join(", ");
            found.note(
                format!(
                    "DaemonSet {key} has the name of kured, and its ServiceAccount {account} may not patch Nodes: numo does not \
                     believe its reboot lock ({})",
                    if holds.is_empty() { "free" } else { &holds }
                ),
                "ask who made it; nothing is to be done if it is no kured",
            );
        }
    }
}

/// A Deployment with the name of an operator that numo replaces.
async fn other(connection: &Connection, key: &Key, of: &Deployed, found: &mut Findings) {
    let kind = of.what.kind();
    let now = connection.clock.now();
    let lingers = if of.runs {
        None
    } else {
        rival::left(&connection.read, key, of, now).await.flatten()
    };
    if !of.runs && lingers.is_none() {
        return;
    }
    let may = answer::may_do_work(&connection.read, &key.namespace, &of.account, of.what).await;
    if may == Some(false) {
        return found.note(
            format!(
                "Deployment {key} has the name of an operator that numo replaces, and its \
                 ServiceAccount may not write {kind} objects: numo does not stand off"
            ),
            "nothing is to be done if it is not meant to work on them",
        );
    }
    match lingers {
        Some(words) => found.wrong(
            format!("Deployment {key} is at 0, but {words}: numo begins nothing for {kind} objects (ForeignController)"),
            "numo takes over by itself once that is gone",
        ),
        None => found.wrong(
            format!("Deployment {key} runs: numo begins nothing for {kind} objects (ForeignController)"),
            format!(
                "hand over when it suits you: kubectl -n {} scale deployment {} --replicas 0",
                key.namespace, key.name
            ),
        ),
    }
}

/// Nodes that numo had in hand when the operator came back that it replaces.
async fn stood_still(connection: &Connection, found: &mut Findings) {
    let api: Api<NodeChange> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => return found.unknown("NodeChanges", &error),
    };
    let stands = list.items.iter().filter_map(|change| {
        let status = change.status.as_ref()?;
        let is_rival = status.reason.as_deref() == Some(Reason::ForeignController.name());
        let flies = status
            .step
            .is_some_and(|step| step != Step::Selected && !step.is_terminal());
        (is_rival && flies).then_some((&change.spec, status))
    });
    for (spec, status) in stands.take(AT_ONCE) {
        let of = &spec.owner_ref;
        found.wrong(
            format!(
                "Node {} stands still in its turn of {} {}: {}",
                spec.node_name,
                of.kind,
                of.name,
                status.message.as_deref().unwrap_or_default()
            ),
            format!(
                "it goes on once that operator is gone; to take back what numo did: numo skip {}",
                spec.node_name
            ),
        );
    }
}

/// Whether a configuration leads to numo in its namespace: by its name, or by its Service, as OLM chooses the name.
fn is_own(configuration: &ValidatingWebhookConfiguration, namespace: &str) -> bool {
    let hooks = configuration.webhooks.iter().flatten();
    let mut services = hooks.filter_map(|hook| hook.client_config.service.as_ref());
    configuration.name_any() == OWN_WEBHOOK || services.any(|service| service.namespace == namespace)
}

async fn webhook(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(connection.read.clone());
    let all = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return found.unknown("the webhooks of the cluster", &error),
    };
    let (own, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(is_of_maintenances)
        .partition(|one| is_own(one, namespace));
    let others: Vec<String> = others.iter().map(ResourceExt::name_any).collect();
    let own = own.into_iter().next();
    let own_name = own
        .as_ref()
        .map_or_else(|| OWN_WEBHOOK.to_owned(), ResourceExt::name_any);
    if own.is_none() {
        found.note(
            "the admission of NodeMaintenances is not installed: the same checks come as conditions",
            "install it with the overlays or with webhook.enabled=true, if they are to be refused at once",
        );
        if others.is_empty() {
            return;
        }
    }
    let is_installed = own.is_some();
    let hooks = own.and_then(|own| own.webhooks).unwrap_or_default();
    let vouched = |hook: &k8s_openapi::api::admissionregistration::v1::ValidatingWebhook| {
        hook.client_config
            .ca_bundle
            .as_ref()
            .is_some_and(|bundle| !bundle.0.is_empty())
    };
    if let Some(hook) = hooks.iter().find(|hook| !vouched(hook)) {
        return found.wrong(
            format!(
                "webhook {} has no caBundle: every new NodeMaintenance is refused",
                hook.name
            ),
            "numo fills it in within a minute if NUMO_WEBHOOK_CERTS is self; else fill it in by hand",
        );
    }
    let kind = GroupVersionKind::gvk(
        numo_api::node_maintenance::MEDIK8S_GROUP,
        "v1beta1",
        "NodeMaintenance",
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, "nodemaintenances");
    let nobody = "numo-doctor-asks-for-no-node";
    let tried =
        DynamicObject::new("numo-doctor", &resource).data(serde_json::json!({"spec": {"nodeName": nobody}}));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api: Api<DynamicObject> = Api::all_with(connection.write.clone(), &resource);
    match api.create(&dry, &tried).await {
        Err(kube::Error::Api(status)) if status.message.contains(nobody) => {
            found.ok("the webhook answers: a NodeMaintenance of a node that is not there is refused");
        }
        Err(kube::Error::Api(status))
            if status.message.contains("failed calling webhook") && !others.is_empty() =>
        {
            let names = others.join(", ");
            found.wrong(
                format!(
                    "a webhook of NodeMaintenances does not answer, and ValidatingWebhookConfiguration {names} is \
                     another operator's: {}",
                    status.message
                ),
                format!("if that operator is stopped: kubectl delete validatingwebhookconfiguration {names}"),
            );
        }
        Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => found.wrong(
            format!("the webhook does not answer: {}", status.message),
            format!(
                "look at its Service, its endpoints, and NetworkPolicies between the API server and numo; until it \
                 answers, kubectl delete validatingwebhookconfiguration {own_name} lets NodeMaintenances in (the same \
                 checks come as conditions), and installing numo again brings it back"
            ),
        ),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            found.note("NodeMaintenances are not served: the webhook has nothing to do", "install its definition");
        }
        Err(error) => found.unknown("a NodeMaintenance by dry run", &error),
        Ok(_) if !is_installed => {}
        Ok(_) => found.wrong(
            "a NodeMaintenance of a node that is not there is admitted: the webhook is not asked",
            "compare ValidatingWebhookConfiguration numo with deploy/kustomize/components/webhook",
        ),
    }
}

/// Whether a configuration is asked about NodeMaintenances.
fn is_of_maintenances(configuration: &ValidatingWebhookConfiguration) -> bool {
    let hooks = configuration.webhooks.iter().flatten();
    let mut rules = hooks.flat_map(|hook| hook.rules.iter().flatten());
    rules.any(|rule| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource == "nodemaintenances")
    })
}

/// All rules.
async fn rules(connection: &Connection, found: &mut Findings) -> Vec<MutexRule> {
    let api = watch::items(&connection.read, Kind::MutexRule, "");
    let items = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return Vec::new(),
        Err(error) => {
            found.unknown("MutexRules", &error);
            return Vec::new();
        }
    };
    let before = found.all.len();
    let mut list: Vec<MutexRule> = Vec::new();
    for item in items {
        match watched::item(Kind::MutexRule, &item) {
            Some(Object::Rule(rule)) => list.push(*rule),
            Some(Object::Unreadable(rule, why)) => found.wrong(
                format!(
                    "MutexRule {}/{} is not read: {}",
                    rule.namespace().unwrap_or_default(),
                    rule.name_any(),
                    why.message
                ),
                "its author makes it smaller, or deletes it".to_owned(),
            ),
            _ => {}
        }
    }
    for rule in &list {
        let key = format!("{}/{}", rule.namespace().unwrap_or_default(), rule.name_any());
        if let Some(ready) = readiness(rule).filter(|ready| ready.status == "False") {
            let reason = ready.reason.clone().unwrap_or_default();
            let message = ready.message.clone().unwrap_or_default();
            found.wrong(
                format!("MutexRule {key} is not Ready ({reason}): {message}"),
                format!(
                    "numo explain mutexrule/{} -n {}",
                    rule.name_any(),
                    rule.namespace().unwrap_or_default()
                ),
            );
        }
    }
    if found.all.len() == before {
        found.ok(match list.len() {
            0 => "there are no MutexRules yet".to_owned(),
            1 => "the one MutexRule can be asked".to_owned(),
            number => format!("all {number} MutexRules can be asked"),
        });
    }
    list
}

/// All bindings: a gate that is not Ready stands open, or holds its owners for a slip of the pen.
async fn bindings(connection: &Connection, found: &mut Findings) {
    let api: Api<MutexBinding> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("MutexBindings", &error),
    };
    let total = list.len();
    let mut good = 0;
    for one in list {
        let name = one.name_any();
        let status = one.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
        let current =
            one.metadata.generation.is_none() || status.observed_generation == one.metadata.generation;
        match ready.filter(|_| current) {
            None => found.note(
                format!("MutexBinding {name} has not been judged by numo yet"),
                format!("numo explain mutexbinding/{name}"),
            ),
            Some(ready) if ready.status == "False" => found.wrong(
                format!(
                    "MutexBinding {name} is not Ready ({}): {}",
                    ready.reason.as_deref().unwrap_or_default(),
                    ready.message.as_deref().unwrap_or_default()
                ),
                format!("kubectl edit mutexbinding {name}; numo explain mutexbinding/{name}"),
            ),
            Some(_) if status.owners_matched == Some(0) => found.note(
                format!(
                    "MutexBinding {name} gates nothing: no {} matches its spec.ownerSelector",
                    one.spec.owner_selector.kind
                ),
                format!("kubectl edit mutexbinding {name}, unless its owners are yet to come"),
            ),
            Some(_) => good += 1,
        }
    }
    if good == total && total > 0 {
        found.ok(format!(
            "{} gate the owners that they select",
            counted(total, "MutexBinding")
        ));
    }
}

/// All runs: one that waits for a person says which pools the next upgrade holds, or lets roll without rules.
async fn runs(connection: &Connection, found: &mut Findings) {
    let api: Api<MutexRunConfig> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("MutexRunConfigs", &error),
    };
    for one in list {
        let (namespace, name) = (one.namespace().unwrap_or_default(), one.name_any());
        let mut conditions = one.status.iter().flat_map(|status| &status.conditions);
        let Some(stalled) = conditions.find(|one| one.type_ == types::STALLED) else {
            continue;
        };
        // It is the run's matter, and nothing of the installation.
        found.note(
            format!(
                "MutexRunConfig {namespace}/{name} waits for a person ({}): {}",
                stalled.reason.as_deref().unwrap_or_default(),
                stalled.message.as_deref().unwrap_or_default()
            ),
            format!("numo explain -n {namespace} mutexrunconfig/{name}"),
        );
    }
}

/// A number of things: `1 field`, `2 fields`.
pub fn counted(number: usize, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}

/// What numo says of a rule.
fn readiness(rule: &MutexRule) -> Option<&Condition> {
    let mut conditions = rule.status.iter().flat_map(|status| &status.conditions);
    conditions.rfind(|one| one.type_ == "Ready")
}

/// Whether anybody must have signed components, as numo's Deployment has it.
async fn signatures(connection: &Connection, namespace: &str, found: &mut Findings) {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(Some(deployment)) => deployment,
        // What it runs with elsewhere cannot be seen.
        Ok(None) => return,
        Err(error) => return found.unknown("whether components must be signed", &error),
    };
    let is_set = |flag: &str, variable: &str| match told::told(&deployment, flag, variable) {
        Told::Nothing => false,
        Told::This(text) => !text.trim().is_empty(),
        Told::Elsewhere => true,
    };
    if is_set("--rule-keys", "NUMO_RULE_KEYS") || is_set("--rule-identities", "NUMO_RULE_IDENTITIES") {
        found.ok("components run only if one of numo's own signers has signed them; rules of type cel and prometheus carry no signature");
    } else {
        found.note(
            "nobody must have signed a component: anything runs that a rule names, unless that rule asks for a signature",
            "name who must have signed by --rule-keys or --rule-identities, and add --require-signatures, so that numo does not \
             start without",
        );
    }
}

/// Whether it is known which addresses are the cluster's: rules are kept from those. Private ones are closed whatever is known.
async fn networks(connection: &Connection, namespace: &str, found: &mut Findings) {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(Some(deployment)) => deployment,
        // What it runs with elsewhere cannot be seen.
        Ok(None) => return,
        Err(error) => return found.unknown("whether numo was told the addresses of the cluster", &error),
    };
    if told::told(&deployment, "--cluster-networks", "NUMO_CLUSTER_NETWORKS") != Told::Nothing {
        return found.ok("numo was told the addresses of pods, Services and nodes (--cluster-networks)");
    }
    let nodes: Api<Node> = Api::all(connection.read.clone());
    let has_pods = match nodes.list(&ListParams::default().limit(NODES_LOOKED_AT)).await {
        Ok(list) => list.items.iter().any(has_pod_range),
        Err(error) => return found.unknown("the pod ranges of Nodes", &error),
    };
    let (services, network) = tokio::join!(
        services::service_cidrs(&connection.read),
        services::network(&connection.read)
    );
    let mut says = [false; 2];
    for (said, says) in [services, network].into_iter().zip(&mut says) {
        *says = match said {
            Ok(Said::Ranges(ranges)) => !ranges.is_empty(),
            Ok(Said::NotServed) => false,
            Ok(Said::Forbidden(words)) | Err(words) => {
                let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
                return found.say(
                    State::Unknown,
                    format!("ranges of the cluster: {words}"),
                    Some(cure),
                );
            }
        };
    }
    let [has_services, has_network] = says;
    let missing = unknown_ranges(has_pods, has_services, has_network);
    if missing.is_empty() {
        return found.ok("the addresses of pods and Services are known, and closed to rules");
    }
    found.note(
        format!(
            "nothing says the addresses of {}: of them rules are kept from private ones only",
            missing.join(" and ")
        ),
        "name the ranges of pods, Services and nodes by --cluster-networks (NUMO_CLUSTER_NETWORKS), unless they are private",
    );
}

/// Whether a Node says the range of its pods.
fn has_pod_range(node: &Node) -> bool {
    let ranges = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref());
    ranges.is_some_and(|ranges| !ranges.is_empty())
}

/// Whose addresses nothing says: neither Nodes (of pods), nor ServiceCIDRs (of Services), nor OpenShift's Network (of both).
fn unknown_ranges(nodes: bool, services: bool, network: bool) -> Vec<&'static str> {
    let all = [("pods", nodes), ("Services", services)];
    let missing = all.into_iter().filter(|(_, known)| !known && !network);
    missing.map(|(what, _)| what).collect()
}

/// What numo is told of registries, and the namespaces whose rules may reach the cluster. None if it cannot be read, which is said.
async fn outward(
    connection: &Connection,
    namespace: &str,
    found: &mut Findings,
) -> Option<(Outward, BTreeSet<String>)> {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(deployment) => deployment,
        Err(error) => {
            found.unknown("which registries numo may use", &error);
            return None;
        }
    };
    let labelled = format!("{}={}", marks::RULE_NETWORK, marks::RULE_NETWORK_CLUSTER);
    let namespaces: Api<Namespace> = Api::all(connection.read.clone());
    match namespaces.list(&ListParams::default().labels(&labelled)).await {
        Ok(list) => {
            let inside = list.items.iter().map(ResourceExt::name_any).collect();
            Some((Outward::of(deployment.as_ref()), inside))
        }
        Err(error) => {
            found.unknown("namespaces whose rules may reach the cluster", &error);
            None
        }
    }
}

/// Images that are asked for once each: their rule, its namespace, its component and the image.
fn images(rules: &[MutexRule]) -> Vec<(&MutexRule, String, &WasmRule, &String)> {
    let mut seen = BTreeSet::new();
    let mut images = Vec::new();
    for rule in rules {
        let namespace = rule.namespace().unwrap_or_default();
        if let Some(wasm) = rule.spec.wasm.as_ref()
            && let Some(image) = wasm.image.as_ref().filter(|image| !image.is_empty())
            && seen.insert((namespace.clone(), image.clone(), wasm.pull_secret_name.clone()))
        {
            images.push((rule, namespace, wasm, image));
        }
    }
    images
}

/// Whether the registries of rules answer here, each image asked for with its rule's own credentials. numo may stand
/// elsewhere: what it has, and cannot be had here, is no fault. Whoever writes rules says where this connects: it goes nowhere where
/// numo would not, and where that cannot be seen only for namespaces that may reach everything.
async fn registries(
    connection: &Connection,
    namespace: &str,
    artifacts: ArtifactOptions,
    rules: &[MutexRule],
    found: &mut Findings,
) {
    let mut images = images(rules);
    if images.is_empty() {
        return;
    }
    let Some((outward, inside)) = outward(connection, namespace, found).await else {
        return;
    };
    let all = images.len();
    images.retain(|(_, namespace, ..)| outward.registries.is_some() || inside.contains(namespace));
    let total = images.len();
    if total < all {
        not_asked(all - total, found);
    }
    let artifacts = ArtifactOptions {
        allowed: outward.registries.unwrap_or_default(),
        plain: outward.plain,
        ..artifacts
    };
    let artifacts = Artifacts::new(connection.read.clone(), artifacts);
    let reached = stream::iter(images).map(|(rule, namespace, wasm, image)| {
        let artifacts = &artifacts;
        let closed = if inside.contains(&namespace) {
            &[]
        } else {
            &*outward.closed
        };
        async move {
            let why = unreached(artifacts, &namespace, wasm, closed).await?;
            Some((rule, namespace, image, why))
        }
    });
    let reached: Vec<_> = reached.buffer_unordered(AT_ONCE).collect().await;
    let mut missed = 0;
    for (rule, namespace, image, why) in reached.into_iter().flatten() {
        missed += 1;
        let name = rule.name_any();
        if readiness(rule).is_some_and(|ready| ready.status == "True") {
            found.note(
                format!("{image} of MutexRule {namespace}/{name} cannot be had from here, though numo has it ({why})"),
                "nothing, if this machine is not meant to reach that registry",
            );
        } else {
            found.wrong(
                format!("{image} of MutexRule {namespace}/{name} cannot be had ({why})"),
                format!("numo plugin inspect {image}; numo explain mutexrule/{name} -n {namespace} says what numo found"),
            );
        }
    }
    if total > 0 && missed == 0 {
        found.ok(format!("the images of all {total} rules in WASM can be had"));
    }
}

/// So many images are not asked for.
fn not_asked(number: usize, found: &mut Findings) {
    found.note(
        format!(
            "{} of rules not asked for: which registries numo may use cannot be seen here",
            counted(number, "image")
        ),
        "name the namespace of numo's Deployment with --namespace; numo explain mutexrule/NAME -n NAMESPACE says what numo found",
    );
}

/// Why an image cannot be had; none if it can.
async fn unreached(
    artifacts: &Artifacts,
    namespace: &str,
    wasm: &WasmRule,
    closed: &[AddressRange],
) -> Option<String> {
    let asked = artifacts.reach(namespace, wasm, closed);
    match tokio::time::timeout(REGISTRY_PATIENCE, asked).await {
        Ok(Ok(_)) => None,
        Ok(Err(NotFetched::Unfetched((reason, message)) | NotFetched::Unverified(_, (reason, message)))) => {
            Some(format!("{}: {message}", reason.name()))
        }
        Ok(Err(NotFetched::NoAnswer)) => Some("the API server gave no answer".to_owned()),
        Err(_) => Some(format!("no answer within {} s", REGISTRY_PATIENCE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_nothing_says_are_named() {
        for (nodes, services, network, wanted) in [
            (true, true, false, &[][..]),
            (false, false, true, &[]),
            (true, false, false, &["Services"]),
            (false, true, false, &["pods"]),
            (false, false, false, &["pods", "Services"]),
        ] {
            assert_eq!(unknown_ranges(nodes, services, network), wanted);
        }
        let node = |spec: Value| {
            serde_json::from_value::<Node>(serde_json::json!({"metadata": {}, "spec": spec})).unwrap()
        };
        assert!(has_pod_range(&node(
            serde_json::json!({"podCIDRs": ["10.0.0.0/24"]})
        )));
        assert!(
            !has_pod_range(&node(serde_json::json!({"podCIDRs": []}))) && !has_pod_range(&Node::default())
        );
    }

    #[test]
    fn every_right_that_is_installed_is_asked_about() {
        let all = rights("elsewhere", false);
        assert!(all.len() > 50, "{}", all.len());
        let has = |of: fn(&ResourceAttributes) -> &Option<String>, wanted: &str| {
            all.iter().any(|right| of(right).as_deref() == Some(wanted))
        };
        let in_own = all
            .iter()
            .filter(|right| right.namespace.as_deref() == Some("elsewhere"));
        let mut names = in_own.filter_map(|right| right.name.as_deref());
        assert!(names.any(|name| name == "numo-leader"), "{all:?}");
        assert!(has(|right| &right.namespace, "medik8s-leases"));
        assert!(has(|right| &right.subresource, "eviction"));
        let eviction = all.iter().find(|right| right.subresource.is_some()).map(words);
        assert_eq!(eviction.as_deref(), Some("create pods/eviction"));
        // What is bound by name in its own namespace: rules, components, journals; and the webhook's where it is. Plans are not.
        let own = |verb: &str, resource: &str, all: &[ResourceAttributes]| {
            all.iter().any(|right| {
                right.namespace.as_deref() == Some("elsewhere")
                    && right.verb.as_deref() == Some(verb)
                    && right.resource.as_deref() == Some(resource)
            })
        };
        for (verb, resource) in [
            ("create", "jobs"),
            ("get", "configmaps"),
            ("create", "nodechanges"),
            ("delete", "nodechanges"),
        ] {
            assert!(own(verb, resource, &all), "{verb} {resource}");
        }
        assert!(!own("delete", "jobs", &all) && !own("list", "secrets", &all));
        assert!(!own("update", "secrets", &all));
        let with_webhook = rights("elsewhere", true);
        assert!(own("update", "secrets", &with_webhook) && !own("create", "secrets", &with_webhook));
        // Nobody is invited to pull secrets from the start.
        assert!(!own("get", "secrets", &all));
    }

    #[test]
    fn numo_is_elsewhere_only_where_there_is_a_control_plane() {
        let pod = |node: &str| {
            let pod = serde_json::json!({"metadata": {"name": "numo"}, "spec": {"nodeName": node, "containers": []}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let node = |name: &str| {
            serde_json::from_value::<Node>(serde_json::json!({"metadata": {"name": name}})).unwrap()
        };
        let pods = [pod("master-0"), pod("worker-0"), Pod::default()];
        assert_eq!(elsewhere(&pods, &[node("master-0")]), ["worker-0"]);
        assert_eq!(elsewhere(&pods, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_webhook_that_olm_named_is_numos_own() {
        let of = |name: &str, namespace: &str| {
            serde_json::from_value::<ValidatingWebhookConfiguration>(serde_json::json!({
                "metadata": {"name": name},
                "webhooks": [{
                    "name": "vnodemaintenance.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": {"service": {"name": "numo-service", "namespace": namespace}},
                }],
            }))
            .unwrap()
        };
        assert!(is_own(&of("vnodemaintenance.kb.io-x7f2k", "ours"), "ours"));
        assert!(is_own(&of("numo", "theirs"), "ours"));
        assert!(!is_own(&of("vnodemaintenance.kb.io-x7f2k", "theirs"), "ours"));
    }

    #[test]
    fn what_a_definition_lacks_is_found_by_its_path() {
        let plan = numo_api::crds::all()
            .into_iter()
            .find(|crd| crd.spec.names.kind == "Plan")
            .unwrap();
        let all = fields(&plan, "v1").unwrap();
        assert!(
            OWN_FIELDS[..1].iter().all(|field| all.contains(*field)),
            "{all:?}"
        );
        assert!(all.contains("spec.upgrade.envs.name"));
        assert_eq!(fields(&plan, "v2"), None);
    }
}
