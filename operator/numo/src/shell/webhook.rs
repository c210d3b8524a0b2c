//! The validating webhook of NodeMaintenances, as node-maintenance-operator has it (`spec/node-maintenance.md` §2): the
//! same names, paths and words. Every replica serves it, the leader or not; so it has watches of its own
//! (`reviewed.rs`), and reads what it needs from the API server until those have listed. It refuses and admits; it writes nothing but its own certificate and who vouches for it.

use super::{
    certificates::{Certificate, CertificateError, NAME},
    client::Connection,
    item::Item,
    kind::Kind,
    reviewed::{self, Reviewed},
    serve::{self, Bounds, Served},
    watch,
    watched::{
        self, Object,
        etcd_pod::KUBE_SYSTEM,
        node::{self, SlimNode},
    },
};
use axum::{Json, Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::NodeMaintenanceSpec;
use numo_core::{
    OwnerKind,
    observed::{Observed, Settings},
    owners::node_maintenance,
    quorum::{self, OPENSHIFT_ETCD},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch as signal},
};
use tokio_rustls::TlsAcceptor;

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCerts {
    /// numo makes it, and says so in the ValidatingWebhookConfiguration `numo`.
    SelfMade,
    /// From a folder; whoever put it there tells the API server.
    Folder(PathBuf),
}

/// How the webhook is served.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Address.
    pub address: SocketAddr,
    /// Certificate.
    pub certs: WebhookCerts,
}

/// Why the webhook is not served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address cannot be listened on.
    #[error("cannot serve the webhook on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// Name of the ValidatingWebhookConfiguration.
const CONFIGURATION: &str = "numo";
/// How often the certificate is looked at again.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The same while there is none.
const LOOK_SOON: Duration = Duration::from_secs(5);
/// So often the configuration is looked for before it counts as not installed.
const LOOKS: u32 = 2;
/// What those get who connect: API servers keep a few connections and open others when they end. Its own wait is ten seconds.
const BOUNDS: Bounds = Bounds {
    places: 64,
    of_address: 32,
    head: Duration::from_secs(5),
    request: Duration::from_secs(9),
    connection: Duration::from_mins(10),
    body_bytes: 256 << 10,
};
/// Reviews that read from the API server at once, and how long one may take, less than the API server waits.
const REVIEWS: (usize, Duration) = (4, Duration::from_secs(8));
/// Nodes of a page.
const PAGE: u32 = 500;

/// Serves until the process ends. Gives back the address, for port 0, and whether the API server was told who vouches for the
/// certificate: before that each new NodeMaintenance is refused.
pub async fn serve(
    connection: &Connection,
    settings: &Settings,
    options: WebhookOptions,
) -> Result<(SocketAddr, signal::Receiver<bool>), WebhookError> {
    let listen = |source| WebhookError::Listen {
        address: options.address,
        source,
    };
    let listener = TcpListener::bind(options.address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    if let WebhookCerts::Folder(folder) = &options.certs {
        // What an administrator gave wrong is said at once.
        Certificate::from_folder(folder)?.server()?;
    }
    let served = Served::new(RwLock::new(None));
    let (trusted, is_trusted) = signal::channel(false);
    tokio::spawn(keep(
        connection.clone(),
        settings.namespace.clone(),
        options.certs,
        served.clone(),
        trusted,
    ));
    let admission = Admission {
        reviewed: Reviewed::watch(connection, settings.clone()),
        client: connection.read.clone(),
        settings: Arc::new(settings.clone()),
        places: Arc::new(Semaphore::new(REVIEWS.0)),
    };
    let router = Router::new()
        .route(
            "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
            post(answer),
        )
        .route(
            "/validate-nodemaintenance-kubevirt-io-v1beta1-nodemaintenances",
            post(answer),
        )
        .with_state(admission);
    tokio::spawn(serve::accept(listener, Some(served), router, BOUNDS));
    Ok((bound, is_trusted))
}

/// What is read of an AdmissionReview (`admission.k8s.io/v1`). All else is skipped, and specs stay the text that they came as until they
/// are looked at: a review that waits costs no more than its bytes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Review<'b> {
    api_version: String,
    #[serde(borrow)]
    request: Asked<'b>,
}

/// The request of a review.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Asked<'b> {
    uid: String,
    operation: String,
    #[serde(borrow)]
    object: Option<Given<'b>>,
    #[serde(borrow)]
    old_object: Option<Given<'b>>,
}

/// The NodeMaintenance of a request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Given<'b> {
    #[serde(borrow)]
    spec: Option<&'b RawValue>,
}

impl Given<'_> {
    /// Its spec; an empty one if it has none, or none of its kind.
    fn spec(given: Option<&Self>) -> NodeMaintenanceSpec {
        let text = given.and_then(|given| given.spec);
        text.and_then(|text| serde_json::from_str(text.get()).ok())
            .unwrap_or_default()
    }
}

/// Answers a request of the API server's.
async fn answer(State(admission): State<Admission>, body: Bytes) -> Result<Json<Value>, StatusCode> {
    let review: Review<'_> = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    Ok(Json(admission.review(&review).await))
}

/// The certificate as it is now: that of the folder, or the one that all replicas share.
async fn obtain(
    connection: &Connection,
    namespace: &str,
    certs: &WebhookCerts,
) -> Result<Certificate, CertificateError> {
    match certs {
        WebhookCerts::Folder(folder) => Certificate::from_folder(folder),
        WebhookCerts::SelfMade => {
            Certificate::shared(&connection.write, namespace, connection.clock.now()).await
        }
    }
}

/// Keeps the certificate that is served and the one that the API server trusts the same, and young. Without one numo goes
/// on, and nobody is served.
async fn keep(
    connection: Connection,
    namespace: String,
    certs: WebhookCerts,
    served: Served,
    trusted: signal::Sender<bool>,
) {
    let mut last: Option<Certificate> = None;
    let mut looks = 0;
    loop {
        match obtain(&connection, &namespace, &certs).await {
            Ok(now) if last.as_ref() != Some(&now) => match now.server() {
                Ok(server) => {
                    let mut slot = served.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *slot = Some(TlsAcceptor::from(server));
                    last = Some(now);
                }
                Err(error) => tracing::error!(%error, "the webhook's certificate cannot be served"),
            },
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the webhook has no new certificate"),
        }
        let told = match last.as_ref().and_then(|served| served.authority.as_ref()) {
            Some(authority) => tell(&connection.write, authority).await,
            None => Ok(true),
        };
        if last.is_some() {
            match told {
                Ok(true) => {
                    trusted.send_replace(true);
                }
                // A manifest has it behind the Deployment; one that does not come is not installed.
                Ok(false) if looks > LOOKS => {
                    trusted.send_replace(true);
                }
                Ok(false) => looks += 1,
                Err(_) => {}
            }
        }
        let told = told.unwrap_or_else(|error| {
            tracing::warn!(%error, "ValidatingWebhookConfiguration {CONFIGURATION} does not know the webhook's authority");
            false
        });
        let pause = if told && last.is_some() {
            LOOK_AGAIN
        } else {
            LOOK_SOON
        };
        tokio::time::sleep(pause).await;
    }
}

/// Writes who vouches for the webhook into its configuration, where it differs; false while there is none.
async fn tell(client: &Client, authority: &[u8]) -> Result<bool, kube::Error> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingWebhookConfiguration",
        ),
        "validatingwebhookconfigurations",
    );
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let Some(found) = api.get_opt(CONFIGURATION).await? else {
        // It is not installed, or comes later.
        return Ok(false);
    };
    let bundle = json!(k8s_openapi::ByteString(authority.to_vec()));
    let webhooks = found.data.get("webhooks").and_then(Value::as_array);
    let differing: Vec<Value> = webhooks
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, webhook)| webhook.pointer("/clientConfig/caBundle") != Some(&bundle))
        .flat_map(|(index, webhook)| {
            [
                json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": webhook.get("name")}),
                json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}),
            ]
        })
        .collect();
    if differing.is_empty() {
        return Ok(true);
    }
    let Ok(patch) = serde_json::from_value(Value::Array(differing)) else {
        return Ok(true);
    };
    api.patch(CONFIGURATION, &PatchParams::default(), &Patch::<()>::Json(patch))
        .await?;
    tracing::info!("ValidatingWebhookConfiguration {CONFIGURATION} knows the webhook's authority ({NAME})");
    Ok(true)
}

/// What the answers are found with.
#[derive(Clone)]
struct Admission {
    reviewed: Reviewed,
    client: Client,
    settings: Arc<Settings>,
    places: Arc<Semaphore>,
}

impl Admission {
    /// The answer to an AdmissionReview.
    async fn review(&self, review: &Review<'_>) -> Value {
        let request = &review.request;
        let refusal = match tokio::time::timeout(REVIEWS.1, self.refusal(request)).await {
            Ok(Ok(refusal)) => refusal,
            Ok(Err(error)) => Some(format!("numo could not look at the cluster: {error}")),
            Err(_) => Some("numo could not look at the cluster in time".to_owned()),
        };
        let mut response = json!({"uid": request.uid, "allowed": refusal.is_none()});
        if let Some(message) = refusal {
            // What was refused is in it, and goes to the terminal of whoever asked.
            let message = numo_api::text::line(&message);
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
        }
        let version = match review.api_version.as_str() {
            "" => "admission.k8s.io/v1",
            version => version,
        };
        json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
    }

    async fn refusal(&self, request: &Asked<'_>) -> Result<Option<String>, kube::Error> {
        match request.operation.as_str() {
            "CREATE" => {
                let seen = {
                    let new = Given::spec(request.object.as_ref());
                    self.reviewed.look(|observed| inadmissible(observed, &new))
                };
                if let Some(refusal) = seen {
                    return Ok(refusal);
                }
                let _place = self.places.acquire().await;
                // Read once more: whoever waits for a place holds nothing but the text.
                let new = Given::spec(request.object.as_ref());
                let observed = self.observe(&new.node_name).await?;
                Ok(inadmissible(&observed, &new))
            }
            "UPDATE" => {
                let new = Given::spec(request.object.as_ref());
                if Given::spec(request.old_object.as_ref()).node_name != new.node_name {
                    return Ok(Some("updating spec.NodeName isn't allowed".to_owned()));
                }
                Ok(node_maintenance::invalid(&new))
            }
            _ => Ok(None),
        }
    }

    /// What the checks read: the node, all maintenances, and of a control-plane node its peers.
    async fn observe(&self, node: &str) -> Result<Observed, kube::Error> {
        let mut observed = Observed {
            settings: Settings::clone(&self.settings),
            ..Observed::default()
        };
        let only = ListParams::default().fields(&format!("metadata.name={node}"));
        self.nodes(&only, &mut observed).await?;
        for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
            self.list(kind, "", &mut observed).await?;
        }
        for namespace in [KUBE_SYSTEM, OPENSHIFT_ETCD] {
            self.list(Kind::EtcdPod, namespace, &mut observed).await?;
        }
        if !is_of_control_plane(&observed, node) {
            return Ok(observed);
        }
        self.list(Kind::DisruptionBudget, OPENSHIFT_ETCD, &mut observed)
            .await?;
        // By either the operator knows OpenShift.
        for kind in [Kind::ClusterVersion, Kind::Infrastructure] {
            self.list(kind, "", &mut observed).await?;
        }
        // Whose NodeChanges are believed, a label of the namespace may say.
        for kind in [Kind::Namespace, Kind::NodeChange] {
            self.list(kind, "", &mut observed).await?;
        }
        self.nodes(&ListParams::default(), &mut observed).await?;
        Ok(observed)
    }

    async fn nodes(&self, params: &ListParams, observed: &mut Observed) -> Result<(), kube::Error> {
        let api: Api<SlimNode> = Api::all(self.client.clone());
        let mut params = params.clone().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for node in page.items {
                let (node, _) = node::node(node);
                observed.nodes.insert(node.name.clone(), node);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn list(&self, kind: Kind, scope: &str, observed: &mut Observed) -> Result<(), kube::Error> {
        let selection = kind.select(scope);
        let api = watch::items(&self.client, kind, &selection.namespace);
        let mut params = selection.list().limit(kind.watched().page);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                // A group that is not installed has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(error),
            };
            for item in &page.items {
                take(kind, item, observed);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

/// Takes in an object of a list; one that cannot be read costs that object.
fn take(kind: Kind, item: &Item, observed: &mut Observed) {
    let found = match watched::item(kind, item) {
        Some(Object::NotRead(key, unread)) => {
            let of_node = reviewed::of_node(kind, item);
            of_node.or(Some(Object::NotRead(key, unread)))
        }
        found => found,
    };
    match found {
        Some(Object::Maintenance(view)) => {
            observed.maintenances.insert(view.owner.clone(), *view);
        }
        Some(Object::ClusterVersion(version)) => observed.cluster_version = Some(version),
        Some(Object::Infrastructure(topology)) => observed.control_plane_topology = topology,
        Some(Object::EtcdPod(key, pod)) => {
            observed.etcd_pods.insert(key, pod);
        }
        Some(Object::DisruptionBudget(key, budget)) => {
            observed.disruption_budgets.insert(key, *budget);
        }
        Some(Object::Change(change)) => {
            observed.changes.insert(change.key.clone(), *change);
        }
        Some(Object::Namespace(name, view)) if view.plans => {
            observed.plan_namespaces.insert(name);
        }
        Some(Object::ChangeInPart(change, unread)) => {
            observed
                .unread
                .insert((kind.unread_as(), change.key.clone()), unread);
            observed.changes.insert(change.key.clone(), *change);
        }
        Some(Object::NotRead(key, unread)) => {
            observed.unread.insert((kind.unread_as(), key), unread);
        }
        _ => {}
    }
}

/// Whether the control plane has to do with a node.
fn is_of_control_plane(observed: &Observed, node: &str) -> bool {
    observed.etcd_pods.values().any(|pod| pod.node == node)
        || observed.nodes.get(node).is_some_and(quorum::is_control_plane)
}

/// Why a maintenance is refused: for what the core says, and on a node of the control plane for a NodeChange that is to be believed and
/// cannot be read: it may be another node's turn.
fn inadmissible(observed: &Observed, spec: &NodeMaintenanceSpec) -> Option<String> {
    let unread = || {
        if !is_of_control_plane(observed, &spec.node_name) {
            return None;
        }
        // A Plan needs no more than every owner does: of the kinds that are read here that is NodeChanges.
        let why = observed.list_failed(OwnerKind::Plan)?.message;
        Some(format!(
            "can not put master/control-plane node {} into maintenance at this moment: {why}",
            spec.node_name
        ))
    };
    node_maintenance::inadmissible(observed, spec).or_else(unread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::client;

    /// Managed fields that are deeper than JSON is read.
    fn deep() -> String {
        format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300))
    }

    fn item(namespace: &str, spec: &str) -> Item {
        let fields = deep();
        let text = format!(
            r#"{{"metadata": {{"name": "a", "namespace": "{namespace}", "uid": "u", "managedFields": [{{"fieldsV1": {fields}}}]}},
             "spec": {spec}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Three Nodes of the control plane, and one that is none of it.
    fn observed() -> Observed {
        let mut observed = Observed {
            settings: Settings {
                namespace: "numo".to_owned(),
                ..Settings::default()
            },
            ..Observed::default()
        };
        for (name, role) in [
            ("master-0", "master"),
            ("master-1", "master"),
            ("master-2", "master"),
            ("worker-0", "worker"),
        ] {
            let node = json!({
                "metadata": {"name": name, "uid": name, "labels": {format!("node-role.kubernetes.io/{role}"): ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            });
            let (node, _) = node::node(serde_json::from_value(node).unwrap());
            observed.nodes.insert(node.name.clone(), node);
        }
        observed
    }

    fn of(node: &str) -> NodeMaintenanceSpec {
        NodeMaintenanceSpec {
            node_name: node.to_owned(),
            ..NodeMaintenanceSpec::default()
        }
    }

    #[test]
    fn an_object_of_a_list_that_nobody_can_read_costs_that_object() {
        let mut observed = observed();
        let admitted = |observed: &Observed, node: &str| inadmissible(observed, &of(node)).is_none();
        take(Kind::NodeChange, &item("team", "{}"), &mut observed);
        assert!(admitted(&observed, "master-0"), "a stranger's NodeChange");
        take(Kind::NodeChange, &item("numo", "{}"), &mut observed);
        let why = inadmissible(&observed, &of("master-0"));
        assert!(
            why.as_ref()
                .is_some_and(|why| why.contains("nodechanges numo/a cannot be read")),
            "{why:?}"
        );
        assert!(admitted(&observed, "worker-0"), "no turn keeps it");
        let maintenance = item("", r#"{"nodeName": "worker-0"}"#);
        take(Kind::NodeMaintenance, &maintenance, &mut observed);
        let why = inadmissible(&observed, &of("worker-0"));
        assert!(
            why.as_ref().is_some_and(|why| why.contains("already exists")),
            "{why:?}"
        );
        assert_eq!(
            inadmissible(&observed, &of("worker-9")).as_deref(),
            Some("invalid nodeName, no node with name worker-9 found")
        );
    }

    /// What the API server lists beside the Nodes: a labelled namespace, and a Plan of it that has master-0 in flight.
    fn listed(path: &str) -> Value {
        match path.rsplit('/').next().unwrap_or_default() {
            "nodes" => json!(["master-0", "master-1", "master-2"].map(|name| json!({
                "metadata": {"name": name, "uid": name, "labels": {"node-role.kubernetes.io/master": ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))),
            "namespaces" => json!([
                {"metadata": {"name": "team", "labels": {numo_api::marks::PLANS_NAMESPACE: "true"}}},
                {"metadata": {"name": "other"}},
            ]),
            "nodechanges" => json!([{
                "metadata": {"name": "a", "namespace": "team", "uid": "u"},
                "spec": {
                    "ownerRef": {"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "namespace": "team", "name": "p", "uid": "p"},
                    "nodeName": "master-0", "nodeUID": "master-0", "target": {"version": "1", "runID": "r", "pool": ""},
                },
                "status": {"step": "Released"},
            }]),
            _ => json!([]),
        }
    }

    #[tokio::test]
    async fn what_is_read_of_the_api_server_says_whose_node_changes_are_believed() {
        let settings = Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        };
        let client = client::answering(|path| {
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": listed(path)});
            (200, list.to_string())
        });
        let admission = Admission {
            // Its watches have not listed.
            reviewed: Reviewed::new(settings.clone()),
            client,
            settings: Arc::new(settings),
            places: Arc::new(Semaphore::new(1)),
        };
        let text = r#"{"request": {"operation": "CREATE", "object": {"spec": {"nodeName": "master-1"}}}}"#;
        let review: Review<'_> = serde_json::from_str(text).unwrap();
        let refusal = admission.refusal(&review.request).await.unwrap();
        assert!(
            refusal.as_ref().is_some_and(|why| why.contains("etcd quorum")),
            "{refusal:?}"
        );
    }

    #[test]
    fn a_review_is_read_as_far_as_it_is_needed() {
        let (fields, zeros) = (deep(), vec!["0"; 50_000].join(","));
        let object = |node: &str| {
            format!(
                r#"{{"apiVersion": "x/v1", "metadata": {{"managedFields": [{{"fieldsV1": {fields}}}], "a": [{zeros}]}},
                 "spec": {{"nodeName": "{node}", "other": {fields}}}, "status": {{"a": [{zeros}]}}}}"#
            )
        };
        let text = format!(
            r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {{
                "uid": "u", "operation": "UPDATE", "userInfo": {{"username": "jane"}}, "options": null,
                "object": {}, "oldObject": {}}}}}"#,
            object("new"),
            object("old")
        );
        let review: Review<'_> = serde_json::from_slice(text.as_bytes()).unwrap();
        let Asked {
            uid,
            operation,
            object,
            old_object,
        } = &review.request;
        assert_eq!((uid.as_str(), operation.as_str()), ("u", "UPDATE"));
        assert_eq!(Given::spec(object.as_ref()).node_name, "new");
        assert_eq!(Given::spec(old_object.as_ref()).node_name, "old");
        // Whatever is no spec of its kind names no node.
        let odd = r#"{"request": {"operation": "CREATE", "object": {"spec": 1}, "oldObject": null}}"#;
        let review: Review<'_> = serde_json::from_str(odd).unwrap();
        assert_eq!(
            Given::spec(review.request.object.as_ref()),
            NodeMaintenanceSpec::default()
        );
        assert!(review.request.old_object.is_none());
        assert!(serde_json::from_str::<Review<'_>>("[").is_err());
    }
}
