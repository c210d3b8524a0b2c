//! The validating webhook of NodeMaintenances, as node-maintenance-operator has it (`spec/node-maintenance.md` §2): the
//! same names, paths and words. Every replica serves it, the leader or not; so it reads what it needs from the API
//! server each time. It refuses and admits; it writes nothing but its own certificate and who vouches for it.

use super::{
    certificates::{Certificate, CertificateError, NAME},
    client::Connection,
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
    MaintenanceGroup, Owner, maintenance,
    observed::{Observed, Settings},
    quorum,
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

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
const LOOK_AGAIN: Duration = Duration::from_hours(1);
/// The same after a look that failed.
const LOOK_SOON: Duration = Duration::from_secs(30);
/// How long a client may take to shake hands, and how many may at once.
const HANDSHAKE: (Duration, usize) = (Duration::from_secs(5), 64);
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
    let certificate = obtain(connection, namespace, &options.certs).await?;
    let config = Arc::new(RwLock::new(TlsAcceptor::from(certificate.server()?)));
    tokio::spawn(keep(
        connection.clone(),
        namespace.to_owned(),
        options.certs,
        certificate,
        config.clone(),
    ));
    let (sender, accepted) = mpsc::channel(1);
    tokio::spawn(accept(listener, config, sender));
    let admission = Admission {
        client: connection.read.clone(),
        namespace: namespace.to_owned(),
    };
    let router = Router::new()
        .route(
            "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
            post(
                |State(admission): State<Admission>, Json(review): Json<Value>| async move {
                    Json(admission.review(MaintenanceGroup::Medik8s, &review).await)
                },
            ),
        )
        .route(
            "/validate-nodemaintenance-kubevirt-io-v1beta1-nodemaintenances",
            post(
                |State(admission): State<Admission>, Json(review): Json<Value>| async move {
                    Json(admission.review(MaintenanceGroup::KubeVirt, &review).await)
                },
            ),
        )
        .with_state(admission);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(Accepted { accepted, bound }, router).await {
            tracing::error!(%error, "the webhook ended");
        }
    });
    Ok(bound)
}

/// Certificates are looked for again and again before numo goes on without one: the Secret may be made by another
/// replica in this moment.
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

/// Keeps the certificate that is served and the one that the API server trusts the same, and young.
async fn keep(
    connection: Connection,
    namespace: String,
    certs: WebhookCerts,
    mut served: Certificate,
    config: Arc<RwLock<TlsAcceptor>>,
) {
    loop {
        let told = match &served.authority {
            Some(authority) => tell(&connection.write, authority).await,
            None => Ok(()),
        };
        if let Err(error) = &told {
            tracing::warn!(%error, "ValidatingWebhookConfiguration {CONFIGURATION} does not know the webhook's authority");
        }
        tokio::time::sleep(if told.is_ok() { LOOK_AGAIN } else { LOOK_SOON }).await;
        match obtain(&connection, &namespace, &certs).await {
            Ok(now) if now != served => match now.server() {
                Ok(server) => {
                    let mut config = config.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *config = TlsAcceptor::from(server);
                    served = now;
                }
                Err(error) => tracing::error!(%error, "the webhook goes on with the certificate that it has"),
            },
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the webhook goes on with the certificate that it has"),
        }
    }
}

/// Writes who vouches for the webhook into its configuration, where it differs.
async fn tell(client: &Client, authority: &[u8]) -> Result<(), kube::Error> {
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
        return Ok(());
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
        return Ok(());
    }
    let Ok(patch) = serde_json::from_value(Value::Array(differing)) else {
        return Ok(());
    };
    api.patch(CONFIGURATION, &PatchParams::default(), &Patch::<()>::Json(patch))
        .await?;
    tracing::info!("ValidatingWebhookConfiguration {CONFIGURATION} knows the webhook's authority ({NAME})");
    Ok(())
}

/// Shakes hands beside one another, so that a slow client holds up nobody.
async fn accept(
    listener: TcpListener,
    config: Arc<RwLock<TlsAcceptor>>,
    to: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKE.1));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the webhook could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let acceptor = config
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let to = to.clone();
        tokio::spawn(async move {
            let _place = place;
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE.0, acceptor.accept(stream)).await {
                let _ = to.send((stream, from)).await;
            }
        });
    }
}

/// Connections that have shaken hands.
struct Accepted {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    bound: SocketAddr,
}

impl axum::serve::Listener for Accepted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.bound)
    }
}

/// What the answers are found with.
#[derive(Clone)]
struct Admission {
    client: Client,
    namespace: String,
}

impl Admission {
    /// The answer to an AdmissionReview (`admission.k8s.io/v1`).
    async fn review(&self, group: MaintenanceGroup, review: &Value) -> Value {
        let request = &review["request"];
        let refusal = match self.refusal(group, request).await {
            Ok(refusal) => refusal,
            Err(error) => Some(format!("numo could not look at the cluster: {error}")),
        };
        let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
        if let Some(message) = refusal {
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    async fn refusal(&self, group: MaintenanceGroup, request: &Value) -> Result<Option<String>, kube::Error> {
        let spec = |object: &Value| {
            serde_json::from_value::<NodeMaintenanceSpec>(object["spec"].clone()).unwrap_or_default()
        };
        let new = spec(&request["object"]);
        match request["operation"].as_str() {
            Some("CREATE") => {
                let name = request["object"]["metadata"]["name"].as_str().unwrap_or_default();
                let observed = self.observe(&new.node_name).await?;
                Ok(maintenance::inadmissible(
                    &observed,
                    &Owner::maintenance(group, name),
                    &new,
                ))
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
        self.list(Kind::ClusterVersion, "", ListParams::default(), &mut observed)
            .await?;
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

/// Namespace of OpenShift's etcd.
const OPENSHIFT_ETCD: &str = "openshift-etcd";
