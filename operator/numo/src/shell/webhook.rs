//! The validating webhook of NodeMaintenances, as node-maintenance-operator has it (`spec/node-maintenance.md` §2): the
//! same names, paths and words. Every replica serves it, the leader or not; so it has watches of its own
//! (`reviewed.rs`), and reads what it needs from the API server until those have listed. It refuses and admits; it writes nothing but its own certificate and who vouches for it.

use super::{
    certificates::{Certificate, CertificateError, NAME},
    client::Connection,
    reviewed::Reviewed,
    serve::{self, Bounds, Served},
    watch,
    wire::{self, Kind, Object, SlimNode},
};
use axum::{Json, Router, extract::State, routing::post};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::NodeMaintenanceSpec;
use numo_core::{
    maintenance,
    observed::{Observed, Settings},
    quorum::{self, OPENSHIFT_ETCD},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::{net::TcpListener, sync::Semaphore};
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
/// Objects of a page.
const PAGE: u32 = 500;

/// Serves until the process ends. The address is given back, for port 0.
pub async fn serve(
    connection: &Connection,
    namespace: &str,
    options: WebhookOptions,
) -> Result<SocketAddr, WebhookError> {
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
    tokio::spawn(keep(
        connection.clone(),
        namespace.to_owned(),
        options.certs,
        served.clone(),
    ));
    let admission = Admission {
        reviewed: Reviewed::watch(connection, namespace),
        client: connection.read.clone(),
        namespace: namespace.to_owned(),
        places: Arc::new(Semaphore::new(REVIEWS.0)),
    };
    let router = Router::new()
        .route(
            "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
            post(
                |State(admission): State<Admission>, Json(review): Json<Value>| async move {
                    Json(admission.review(&review).await)
                },
            ),
        )
        .route(
            "/validate-nodemaintenance-kubevirt-io-v1beta1-nodemaintenances",
            post(
                |State(admission): State<Admission>, Json(review): Json<Value>| async move {
                    Json(admission.review(&review).await)
                },
            ),
        )
        .with_state(admission);
    tokio::spawn(serve::accept(listener, Some(served), router, BOUNDS));
    Ok(bound)
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
async fn keep(connection: Connection, namespace: String, certs: WebhookCerts, served: Served) {
    let mut last: Option<Certificate> = None;
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
    namespace: String,
    places: Arc<Semaphore>,
}

impl Admission {
    /// The answer to an AdmissionReview (`admission.k8s.io/v1`).
    async fn review(&self, review: &Value) -> Value {
        let request = &review["request"];
        let refusal = match tokio::time::timeout(REVIEWS.1, self.refusal(request)).await {
            Ok(Ok(refusal)) => refusal,
            Ok(Err(error)) => Some(format!("numo could not look at the cluster: {error}")),
            Err(_) => Some("numo could not look at the cluster in time".to_owned()),
        };
        let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
        if let Some(message) = refusal {
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
        }
        let version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1");
        json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
    }

    async fn refusal(&self, request: &Value) -> Result<Option<String>, kube::Error> {
        let spec = |object: &Value| {
            serde_json::from_value::<NodeMaintenanceSpec>(object["spec"].clone()).unwrap_or_default()
        };
        let new = spec(&request["object"]);
        match request["operation"].as_str() {
            Some("CREATE") => {
                let seen = |observed: &Observed| maintenance::inadmissible(observed, &new);
                if let Some(refusal) = self.reviewed.look(seen) {
                    return Ok(refusal);
                }
                let _place = self.places.acquire().await;
                let observed = self.observe(&new.node_name).await?;
                Ok(maintenance::inadmissible(&observed, &new))
            }
            Some("UPDATE") if spec(&request["oldObject"]).node_name != new.node_name => {
                Ok(Some("updating spec.NodeName isn't allowed".to_owned()))
            }
            Some("UPDATE") => Ok(maintenance::invalid(&new)),
            _ => Ok(None),
        }
    }

    /// What the checks read: the node, all maintenances, and of a control-plane node its peers.
    async fn observe(&self, node: &str) -> Result<Observed, kube::Error> {
        let mut observed = Observed {
            settings: Settings {
                namespace: self.namespace.clone(),
                ..Settings::default()
            },
            ..Observed::default()
        };
        let only = ListParams::default().fields(&format!("metadata.name={node}"));
        self.nodes(&only, &mut observed).await?;
        for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
            self.list(kind, "", ListParams::default(), &mut observed).await?;
        }
        for namespace in [watch::KUBE_SYSTEM, OPENSHIFT_ETCD] {
            let mut params = ListParams::default();
            if namespace == watch::KUBE_SYSTEM {
                params = params.labels("component=etcd");
            }
            self.list(Kind::EtcdPod, namespace, params, &mut observed).await?;
        }
        let known = observed.nodes.get(node);
        let has_etcd = observed.etcd_pods.values().any(|pod| pod.node == node);
        if !has_etcd && !known.is_some_and(quorum::is_control_plane) {
            return Ok(observed);
        }
        self.list(
            Kind::DisruptionBudget,
            OPENSHIFT_ETCD,
            ListParams::default(),
            &mut observed,
        )
        .await?;
        // By either the operator knows OpenShift.
        for kind in [Kind::ClusterVersion, Kind::Infrastructure] {
            self.list(kind, "", ListParams::default(), &mut observed).await?;
        }
        self.list(Kind::NodeChange, "", ListParams::default(), &mut observed)
            .await?;
        self.nodes(&ListParams::default(), &mut observed).await?;
        Ok(observed)
    }

    async fn nodes(&self, params: &ListParams, observed: &mut Observed) -> Result<(), kube::Error> {
        let api: Api<SlimNode> = Api::all(self.client.clone());
        let mut params = params.clone().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for node in page.items {
                let (node, _) = wire::node(node);
                observed.nodes.insert(node.name.clone(), node);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn list(
        &self,
        kind: Kind,
        namespace: &str,
        params: ListParams,
        observed: &mut Observed,
    ) -> Result<(), kube::Error> {
        let api = watch::api(&self.client, kind, namespace);
        let mut params = params.limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                // A group that is not installed has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(error),
            };
            for object in page.items {
                match wire::object(kind, object) {
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
                    _ => {}
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}
