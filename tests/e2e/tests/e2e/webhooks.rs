//! Webhooks of others that refuse evictions: real ones, over TLS, that the API server asks. Their words are the reason
//! that people read, the node is left alone, and the others go on.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use base64::Engine as _;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use numo_api::{Step, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::Stage;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, rustls};

use crate::{
    NEW, apply, explained, finish,
    maintenance::{self, deployment, is_cordoned, maintain, node, on, phase, running},
    plans::{self, complete, plan},
    prepare, quick, released, set, waits, workers,
};

/// As KubeVirt's webhook is called.
const NAME: &str = "virt-launcher-eviction-interceptor.kubevirt.io";
/// What it says of a machine that cannot move: with the status of a PodDisruptionBudget's refusal.
const NOT_MIGRATABLE: (u16, &str) = (
    429,
    "VMI vm is configured with an eviction strategy but is not live-migratable",
);
/// What another one may say.
const NIGHT_SHIFT: (u16, &str) = (403, "the night shift keeps this pod until six");

/// A validating webhook that refuses evictions of pods whose names begin with `vm`.
#[derive(Clone, Default)]
struct Guard {
    refuses: Arc<Mutex<Option<(u16, &'static str)>>>,
}

impl Guard {
    /// Serves it, tells the API server of it, and waits until that asks it about `pod`.
    async fn install(stage: &Stage, refuses: (u16, &'static str)) -> Result<Self> {
        let guard = Self::default();
        // The tests' own client repeats for minutes what is refused with 429.
        guard.refuse(Some(NIGHT_SHIFT));
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![own.cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der())
                    .map_err(anyhow::Error::msg)?,
            )?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/evictions", listener.local_addr()?);
        let serving = guard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (guard, acceptor) = (serving.clone(), acceptor.clone());
                tokio::spawn(async move { guard.answer(acceptor.accept(stream).await?).await });
            }
        });
        let bundle = base64::engine::general_purpose::STANDARD.encode(own.cert.pem());
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [{
                "name": NAME, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "clientConfig": {"url": url, "caBundle": bundle},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods/eviction"],
                }],
            }],
        });
        apply(stage, &[configuration]).await?;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(stage.client.clone(), "default");
        let params = kube::api::EvictParams {
            post_options: kube::api::PostParams {
                dry_run: true,
                ..kube::api::PostParams::default()
            },
            ..kube::api::EvictParams::default()
        };
        stage
            .until("the API server asks the webhook", 60, || async {
                let all = pods.list(&ListParams::default().labels("app=vm")).await?;
                let name = all.items.into_iter().find_map(|pod| pod.metadata.name);
                let said = pods.evict(&name.context("a pod")?, &params).await;
                Ok(said
                    .is_err_and(|error| error.to_string().contains(NAME))
                    .then_some(()))
            })
            .await?;
        guard.refuse(Some(refuses));
        Ok(guard)
    }

    fn refuse(&self, with: Option<(u16, &'static str)>) {
        *self.refuses.lock().unwrap() = with;
    }

    async fn answer(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .context("a length")?;
        let mut body = vec![0; length.trim().parse()?];
        stream.read_exact(&mut body).await?;
        let review: Value = serde_json::from_slice(&body)?;
        let request = &review["request"];
        let of_machine = request["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("vm"));
        let refusal = self.refuses.lock().unwrap().filter(|_| of_machine);
        let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
        if let Some((code, message)) = refusal {
            response["status"] = json!({"code": code, "message": message});
        }
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
        .to_string();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        Ok(())
    }

    /// Takes it away: nobody answers when the test is over.
    async fn remove(stage: &Stage) -> Result<()> {
        let api: Api<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration> =
            Api::all(stage.client.clone());
        api.delete(NAME, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// A stage's pod that the webhook is about, on worker-0.
async fn machine(stage: &Stage) -> Result<()> {
    apply(stage, &[deployment("vm", 1, on("worker-0"))]).await?;
    running(stage, "vm", "worker-0", 1).await
}

fn says(why: &str, said: (u16, &str)) {
    for words in ["Pod default/vm-", NAME, said.1] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
}

/// The pod of the machine is there, and nobody has asked it to go.
async fn stays(stage: &Stage) -> Result<()> {
    running(stage, "vm", "worker-0", 1).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_run_goes_on_without_the_node_whose_pods_a_webhook_keeps() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    machine(&stage).await?;
    let guard = Guard::install(&stage, NOT_MIGRATABLE).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    says(&waits(&stage, "DrainBlocked").await?, NOT_MIGRATABLE);
    let text = explained(&stage, "worker-0", "DrainBlocked", 60).await?;
    says(&text, NOT_MIGRATABLE);
    stays(&stage).await?;
    // It stands back, and the other node goes.
    stage.step("worker-1", Step::Done).await?;
    assert_eq!(released(&stage.world), ["worker-1"]);
    guard.refuse(Some(NIGHT_SHIFT));
    let why = stage
        .until("the run has heard the other words", 90, || async {
            let why = waits(&stage, "DrainBlocked").await?;
            Ok(why.contains(NIGHT_SHIFT.1).then_some(why))
        })
        .await?;
    says(&why, NIGHT_SHIFT);
    stays(&stage).await?;
    assert_eq!(released(&stage.world), ["worker-1"]);
    guard.refuse(None);
    finish(&stage).await?;
    // The judge counts each rule once a node: in its second turn worker-0 was asked anew.
    assert_eq!(released(&stage.world), ["worker-1", "worker-0"]);
    Guard::remove(&stage).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_without_the_node_whose_pods_a_webhook_keeps() -> Result<()> {
    let stage = plans::stage(2, Vec::new()).await?;
    machine(&stage).await?;
    let guard = Guard::install(&stage, NIGHT_SHIFT).await?;
    let binding = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "probed"},
        "spec": {
            "ownerSelector": {"kind": "Plan"}, "drainBy": "Numo", "order": "Name", "drain": {"probe": true},
        },
    });
    apply(
        &stage,
        &[binding, plan("k3s", "true", json!({"drain": {"force": true}}))],
    )
    .await?;
    let text = explained(&stage, "worker-0", "DrainBlocked", 90).await?;
    says(&text, NIGHT_SHIFT);
    assert!(!is_cordoned(&node(&stage, "worker-0").await?), "it was not begun");
    plans::step(&stage, "worker-1", Step::Done).await?;
    guard.refuse(Some(NOT_MIGRATABLE));
    let why = stage
        .until("the Plan has heard the other words", 90, || async {
            let why = plans::waits(&stage, "k3s", "DrainBlocked").await?;
            Ok(why.contains(NOT_MIGRATABLE.1).then_some(why))
        })
        .await?;
    says(&why, NOT_MIGRATABLE);
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));
    stays(&stage).await?;
    guard.refuse(None);
    complete(&stage, "k3s").await?;
    Guard::remove(&stage).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_says_what_a_webhook_says_before_and_in_its_drain() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    machine(&stage).await?;
    let guard = Guard::install(&stage, NOT_MIGRATABLE).await?;
    maintain(&stage, "nm", "worker-0", json!({"drain": {"probe": true}})).await?;
    says(
        &maintenance::waits(&stage, "nm", "DrainBlocked").await?,
        NOT_MIGRATABLE,
    );
    assert!(!is_cordoned(&node(&stage, "worker-0").await?), "it was not begun");
    // Other nodes are maintained meanwhile.
    maintain(&stage, "other", "worker-1", json!({"drain": {"probe": true}})).await?;
    phase(&stage, MEDIK8S_GROUP, "other", "Succeeded").await?;
    maintenance::delete(&stage, MEDIK8S_GROUP, "nm").await?;
    // Nobody asks for a look before the cordon: the drain itself hears it, and deletes nothing.
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    says(
        &maintenance::waits(&stage, "nm", "NotMigratable").await?,
        NOT_MIGRATABLE,
    );
    guard.refuse(Some(NIGHT_SHIFT));
    says(
        &maintenance::waits(&stage, "nm", "EvictionRefused").await?,
        NIGHT_SHIFT,
    );
    stays(&stage).await?;
    guard.refuse(None);
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    Guard::remove(&stage).await?;
    stage.strike().await
}
