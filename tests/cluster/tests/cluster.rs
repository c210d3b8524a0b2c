//! The control plane is a real one, and leaves nothing behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use numo_cluster::{Cluster, Options, User};
use serde_json::{from_value, json};

/// Waits until `condition` holds. The limit only bounds a failing test.
async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let limit = Instant::now() + Duration::from_mins(2);
    while !condition().await {
        assert!(Instant::now() < limit, "waited two minutes until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_running(id: u32) -> bool {
    // A process that has ended but was not waited for has an empty command line.
    std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| !line.is_empty())
}

async fn until_gone(ids: &BTreeMap<String, u32>) {
    until("every component is gone", || async {
        ids.values().all(|&id| !is_running(id))
    })
    .await;
}

fn ids(cluster: &Cluster) -> BTreeMap<String, u32> {
    cluster
        .pids()
        .into_iter()
        .map(|(name, id)| (name.to_owned(), id))
        .collect()
}

async fn start() -> Cluster {
    Cluster::start(Options::default()).await.unwrap()
}

#[tokio::test]
async fn job_makes_a_pod_that_is_scheduled_and_goes_with_the_job() {
    let cluster = start().await;
    let client = cluster.client(User::Admin).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "a"}, "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    nodes
        .create(&PostParams::default(), &from_value(node).unwrap())
        .await
        .unwrap();
    // The controller-manager taints a node whose kubelet is silent; this one has none.
    let job = json!({"metadata": {"name": "rule"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "rule", "image": "none"}],
    }}}});
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    jobs.create(&PostParams::default(), &from_value(job).unwrap())
        .await
        .unwrap();

    let pods: Api<Pod> = Api::default_namespaced(client);
    let of_job = ListParams::default().labels("job-name=rule");
    until("the job's pod is on the node", || async {
        let pods = pods.list(&of_job).await.unwrap().items;
        pods.iter()
            .any(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("a"))
    })
    .await;
    // Without a kubelet a scheduled pod would wait for its grace: none is left by deleting at once.
    jobs.delete("rule", &DeleteParams::background()).await.unwrap();
    until("the garbage collector has deleted the pod", || async {
        let pods = pods.list(&of_job).await.unwrap().items;
        pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some())
    })
    .await;

    let (ids, dir) = (ids(&cluster), cluster.dir().to_owned());
    assert_eq!(ids.len(), 4);
    cluster.stop().await;
    until_gone(&ids).await;
    assert!(!dir.exists(), "a stopped cluster leaves its folder");
}

#[tokio::test]
async fn users_are_told_apart() {
    let cluster = start().await;
    let world = cluster.client(User::World).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(world);
    let map = from_value(json!({"metadata": {"name": "note"}, "data": {"a": "a"}})).unwrap();
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(map.managed_fields()[0].manager.as_deref(), Some("world"));

    let person: Api<ConfigMap> = Api::default_namespaced(cluster.client(User::Person).await.unwrap());
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    person
        .patch("note", &PatchParams::default(), &patch)
        .await
        .unwrap();

    let events = cluster.audit().unwrap();
    let note: Vec<_> = events
        .iter()
        .filter(|event| event.resource == "configmaps" && event.name == "note")
        .map(|event| {
            (
                event.user.as_str(),
                event.user_agent.as_str(),
                event.verb.as_str(),
                event.code,
            )
        })
        .collect();
    assert_eq!(
        note,
        [
            ("world", "world", "create", 201),
            ("kubernetes-admin", "kubernetes-admin", "patch", 200)
        ]
    );
    let manager = "system:kube-controller-manager";
    assert!(
        events
            .iter()
            .any(|event| event.verb == "watch" && event.user == manager),
        "a watch is seen before it ends"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn service_account_may_do_what_rbac_grants_and_no_more() {
    let cluster = start().await;
    let admin = cluster.client(User::Admin).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(admin);
    let account = from_value(json!({"metadata": {"name": "guest"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let file = cluster
        .service_account_kubeconfig("default", "guest")
        .await
        .unwrap();
    assert!(
        cluster
            .service_account_kubeconfig("default", "nobody")
            .await
            .is_err()
    );

    let kubeconfig = Kubeconfig::read_from(file).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let guest = Client::try_from(config).unwrap();
    assert!(guest.apiserver_version().await.is_ok());
    let nodes: Api<Node> = Api::all(guest);
    match nodes.list(&ListParams::default()).await {
        Err(kube::Error::Api(refusal)) => assert_eq!(refusal.code, 403),
        other => panic!("listing nodes should be forbidden: {other:?}"),
    }
    let refused = |event: &&numo_cluster::AuditEvent| event.user == "system:serviceaccount:default:guest";
    assert!(
        cluster
            .audit()
            .unwrap()
            .iter()
            .filter(refused)
            .any(|event| event.code == 403)
    );
    cluster.stop().await;
}

#[tokio::test]
async fn two_clusters_at_once_do_not_meet() {
    let (left, right) = tokio::join!(start(), start());
    let [left_client, right_client] = [
        left.client(User::Admin).await.unwrap(),
        right.client(User::Admin).await.unwrap(),
    ];
    let namespace = from_value(json!({"metadata": {"name": "left"}})).unwrap();
    let left_namespaces: Api<Namespace> = Api::all(left_client);
    left_namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let right_namespaces: Api<Namespace> = Api::all(right_client);
    assert!(right_namespaces.get_opt("left").await.unwrap().is_none());

    // The token of one is none of the other's, and neither is its certificate.
    let mut stranger = Kubeconfig::read_from(left.kubeconfig(User::Admin)).unwrap();
    let server = Some(right.server());
    stranger.clusters[0].cluster.as_mut().unwrap().server = server;
    let config = Config::from_custom_kubeconfig(stranger, &KubeConfigOptions::default())
        .await
        .unwrap();
    assert!(
        Client::try_from(config)
            .unwrap()
            .apiserver_version()
            .await
            .is_err()
    );

    left.stop().await;
    assert!(right_namespaces.get("default").await.is_ok());
    right.stop().await;
}

#[tokio::test]
async fn killed_parent_leaves_no_children() {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_hold-cluster"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = parent.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let ids: BTreeMap<String, u32> = serde_json::from_str(&line).unwrap();
    assert_eq!(ids.len(), 4);
    assert!(ids.values().all(|&id| is_running(id)));
    // SIGKILL: the parent has no say in this.
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_gone(&ids).await;
}

#[tokio::test]
async fn dropped_cluster_ends_but_its_logs_are_kept() {
    let cluster = start().await;
    let (ids, dir) = (ids(&cluster), cluster.dir().to_owned());
    drop(cluster);
    assert!(ids.values().all(|&id| !is_running(id)));
    assert!(dir.join("logs/kube-apiserver.log").is_file());
    assert!(!dir.join("auth").exists(), "a failed test leaves no keys");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn kept_cluster_outlives_its_handle_until_it_is_stopped() {
    let options = Options {
        keep: true,
        ..Options::default()
    };
    let cluster = Cluster::start(options).await.unwrap();
    let (ids, dir) = (ids(&cluster), cluster.dir().to_owned());
    let client = cluster.client(User::Person).await.unwrap();
    drop(cluster);
    assert!(client.apiserver_version().await.is_ok());
    Cluster::stop_kept(&dir).await.unwrap();
    until_gone(&ids).await;
    assert!(!dir.exists());
    assert!(Cluster::stop_kept(Path::new("/nonexistent")).await.is_err());
}

#[tokio::test]
async fn earlier_minor_is_emulated() {
    let options = Options {
        emulated_version: Some("1.33".to_owned()),
        ..Options::default()
    };
    let cluster = Cluster::start(options).await.unwrap();
    let client = cluster.client(User::Admin).await.unwrap();
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    let version: serde_json::Value = client.request(request).await.unwrap();
    assert_eq!(
        (&version["emulationMajor"], &version["emulationMinor"]),
        (&json!("1"), &json!("33"))
    );
    cluster.stop().await;
}

/// Installs a kind and an object.
async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    let client = cluster.client(User::Admin).await?;
    let kind = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    kinds.create(&PostParams::default(), &from_value(kind)?).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = from_value(json!({"metadata": {"name": "prepared"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    Ok(())
}

async fn prepared() -> Cluster {
    Cluster::prepared("things", prepare).await.unwrap()
}

async fn client(cluster: &Cluster) -> Client {
    cluster.client(User::Admin).await.unwrap()
}

/// Lets a webhook that nobody answers refuse every ConfigMap, and waits until it does.
async fn refuse_maps(client: &Client) {
    let webhook = json!({"metadata": {"name": "nobody"}, "webhooks": [{
        "name": "nobody.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }]});
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    webhooks
        .create(&PostParams::default(), &from_value(webhook).unwrap())
        .await
        .unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("the webhook is asked", || async {
        make_map(client, &dry).await.is_err()
    })
    .await;
}

async fn make_map(client: &Client, how: &PostParams) -> kube::Result<ConfigMap> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(how, &from_value(json!({"metadata": {"name": "mine"}})).unwrap())
        .await
}

#[tokio::test]
async fn prepared_cluster_forgets_a_webhook_and_one_without_its_kind_is_followed_by_its_like() {
    let cluster = prepared().await;
    let first = ids(&cluster);
    refuse_maps(&client(&cluster).await).await;
    cluster.give_back().await;

    let cluster = prepared().await;
    assert_eq!(ids(&cluster), first, "a webhook costs no control plane");
    let admin = client(&cluster).await;
    make_map(&admin, &PostParams::default()).await.unwrap();
    let kinds: Api<CustomResourceDefinition> = Api::all(admin);
    kinds
        .delete("things.example.com", &DeleteParams::default())
        .await
        .unwrap();
    cluster.give_back().await;
    until_gone(&first).await;

    let cluster = Cluster::prepared("things", async |_| panic!("it is prepared again"))
        .await
        .unwrap();
    let admin = client(&cluster).await;
    let things = http::Request::get("/apis/example.com/v1/things").body(Vec::new());
    let things: serde_json::Value = admin.request(things.unwrap()).await.unwrap();
    assert_eq!(things["items"], json!([]));
    let maps: Api<ConfigMap> = Api::default_namespaced(admin.clone());
    assert!(maps.get("prepared").await.is_ok());
    assert!(
        maps.get_opt("mine").await.unwrap().is_none(),
        "what a test made is not handed on"
    );
    let authority = maps.get("kube-root-ca.crt").await.unwrap().data.unwrap()["ca.crt"].clone();
    let own = std::fs::read_to_string(cluster.dir().join("auth/ca.crt")).unwrap();
    assert_eq!(authority, own, "pods are told of their own authority");
    let before = ids(&cluster);
    make_map(&admin, &PostParams::default()).await.unwrap();
    cluster.give_back().await;
    let cluster = prepared().await;
    assert_eq!(ids(&cluster), before, "it serves several tests too");
    cluster.stop().await;
}
