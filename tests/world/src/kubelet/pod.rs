//! The life of one pod: its containers' processes, and the status a kubelet writes of them.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::env::{argv, resolve};
use super::process::{Log, terminate};
use crate::cache::{key, uid};
use crate::context::{Context, lock, manager, write};
use crate::machine::Machine;
use crate::openshift::KUBELET;
use crate::spec::Program;

/// Images with this in their name cannot be pulled.
const NO_SUCH_IMAGE: &str = "does-not-exist";
/// What a termination message keeps.
const MESSAGE_BYTES: usize = 4096;
/// What of the log becomes the message of a container that failed without one.
const FALLBACK_BYTES: usize = 2048;
/// Shortest time a container has to end by itself.
const SHORTEST_GRACE: Duration = Duration::from_millis(100);
/// Seconds before a container is restarted, the first time, and at most.
const BACKOFF: (f64, f64) = (10.0, 300.0);
/// Seconds that the entrypoint of a Job's image runs when the pod names no command.
const ENTRYPOINT: f64 = 10.0;
/// Exit code of a container that was killed.
const KILLED: i32 = 137;

static POD_ADDRESSES: AtomicU16 = AtomicU16::new(1);

/// What is known of one container.
#[derive(Clone, Debug, Default)]
struct Known {
    waiting: Option<(&'static str, String)>,
    running: Option<Timestamp>,
    terminated: Option<Terminated>,
    last: Option<Terminated>,
    restarts: i32,
    /// Runs, and its readiness probe has not succeeded yet.
    is_unready: bool,
}

#[derive(Clone, Debug)]
struct Terminated {
    code: i32,
    reason: &'static str,
    message: String,
    started: Timestamp,
    finished: Timestamp,
}

struct Life {
    ctx: Arc<Context>,
    machine: Arc<Machine>,
    pod: Arc<Pod>,
    key: String,
    address: String,
    started: Timestamp,
    known: Mutex<BTreeMap<String, Known>>,
    /// Transition times of the conditions.
    conditions: Mutex<BTreeMap<&'static str, (bool, Timestamp)>>,
    /// Process groups that run.
    groups: Mutex<Vec<i32>>,
    terminating: AtomicBool,
    /// One write at a time, so that an older status never overtakes.
    writing: tokio::sync::Mutex<()>,
}

/// Runs a pod until it ends, is deleted, or its machine is destroyed.
pub(super) async fn live(ctx: Arc<Context>, machine: Arc<Machine>, pod: Arc<Pod>) {
    let n = POD_ADDRESSES.fetch_add(1, Ordering::Relaxed);
    let life = Life {
        key: key(&*pod),
        started: ctx.clock(&machine.name),
        address: format!("10.128.{}.{}", n >> 8, n & 255),
        ctx,
        machine,
        pod,
        known: Mutex::default(),
        conditions: Mutex::default(),
        groups: Mutex::default(),
        terminating: AtomicBool::new(false),
        writing: tokio::sync::Mutex::new(()),
    };
    life.run().await;
}

impl Life {
    async fn run(&self) {
        let mut boots = self.machine.boots.subscribe();
        loop {
            self.until_up().await;
            if self.is_to_go() {
                // A kubelet begins nothing that is being deleted.
                return self.remove().await;
            }
            boots.mark_unchanged();
            let mut containers = Box::pin(self.containers());
            tokio::select! {
                () = &mut containers => {
                    self.until_deleted().await;
                    return self.remove().await;
                }
                () = self.until_deleted() => {
                    self.terminate(containers).await;
                    return self.remove().await;
                }
                _ = boots.changed() => drop(containers),
            }
            // The machine went down under it.
            self.kill_known();
            if self.restart_policy() == "Never" {
                self.write_status(&self.final_phase()).await;
                self.until_deleted().await;
                return self.remove().await;
            }
        }
    }

    /// Runs init containers one after the other, then all others; returns when none is to run again.
    async fn containers(&self) {
        let Some(spec) = &self.pod.spec else { return };
        self.wait_known("ContainerCreating");
        self.write_status("Pending").await;
        self.ctx.pass(self.ctx.timings().pod_start).await;
        // A sidecar would run beside the others; none of ours needs one.
        let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
        for init in spec.init_containers.iter().flatten().filter(|c| !is_sidecar(c)) {
            if self.container(init, true).await != 0 {
                self.write_status("Failed").await;
                return;
            }
        }
        join_all(spec.containers.iter().map(|c| self.container(c, false))).await;
        if !self.terminating.load(Ordering::Relaxed) {
            self.write_status(&self.final_phase()).await;
        }
    }

    /// Runs one container as often as its pod's restartPolicy says. Its last exit code.
    async fn container(&self, container: &Container, init: bool) -> i32 {
        let (first, longest) = BACKOFF;
        let mut backoff = first;
        loop {
            let code = self.container_once(container, init).await;
            let again = match self.restart_policy() {
                "Never" => false,
                "OnFailure" => code != 0,
                _ => code != 0 || !init,
            };
            if !again || self.terminating.load(Ordering::Relaxed) {
                return code;
            }
            self.know(&container.name, |known| {
                known.waiting = Some((
                    "CrashLoopBackOff",
                    format!("back-off restarting {}", container.name),
                ));
                known.last = known.terminated.take();
            });
            self.write_status(if init { "Pending" } else { "Running" }).await;
            self.ctx.pass(backoff).await;
            backoff = (backoff * 2.0).min(longest);
            self.know(&container.name, |known| known.restarts += 1);
        }
    }

    async fn container_once(&self, container: &Container, init: bool) -> i32 {
        if container
            .image
            .as_ref()
            .is_some_and(|i| i.contains(NO_SUCH_IMAGE))
        {
            return self.never_pulled(container).await;
        }
        let started = self.now();
        self.know(&container.name, |known| {
            known.waiting = None;
            known.running = Some(started);
        });
        let phase = if init { "Pending" } else { "Running" };
        let env = resolve(&self.pod, container);
        let words = argv(container, &env);
        let program = super::program::of(&self.ctx, container);
        if let Some(program) = program.filter(|program| words.is_empty() || program.is_any_command) {
            let (code, message) = self.program(container, program, phase).await;
            let reason = if code == 0 { "Completed" } else { "Error" };
            self.end(container, code, reason, message, started);
            return code;
        }
        if words.is_empty() {
            self.write_status(phase).await;
            if !self.is_job() && !init {
                return pending().await;
            }
            self.ctx.pass(ENTRYPOINT).await;
            self.end(container, 0, "Completed", String::new(), started);
            return 0;
        }
        let (code, message) = self.process(container, &words, &env, phase, false).await;
        let reason = match code {
            0 => "Completed",
            128 if !message.is_empty() => "StartError",
            _ => "Error",
        };
        self.end(container, code, reason, message, started);
        code
    }

    /// Runs the real program of the image, as the pod's ServiceAccount.
    async fn program(&self, container: &Container, program: &Program, phase: &str) -> (i32, String) {
        let folder = match self.ctx.containers.folder() {
            Ok(folder) => folder,
            Err(error) => return (128, error.to_string()),
        };
        let start = super::program::start(
            &self.ctx,
            program,
            &self.pod,
            container,
            &self.address,
            folder.path(),
        );
        let start = match start.await {
            Ok(start) => start,
            Err(error) => return (128, format!("{error:#}")),
        };
        self.know(&container.name, |known| {
            known.is_unready = super::program::is_probed(container);
        });
        let ready = async {
            super::program::until_ready(container, &self.address).await;
            self.know(&container.name, |known| known.is_unready = false);
            self.write_status(phase).await;
            pending().await
        };
        tokio::select! {
            ended = self.process(container, &start.words, &start.env, phase, true) => ended,
            never = ready => never,
        }
    }

    /// Runs a command to its end. Exit code and termination message.
    async fn process(
        &self,
        container: &Container,
        words: &[String],
        env: &[(String, String)],
        phase: &str,
        is_trusted: bool,
    ) -> (i32, String) {
        let folder = match self.ctx.containers.folder() {
            Ok(folder) => folder,
            Err(error) => return (128, error.to_string()),
        };
        // There is no root file system of its own: the path is replaced wherever it is named.
        let named = container
            .termination_message_path
            .as_deref()
            .unwrap_or("/dev/termination-log");
        let message_file = folder.path().join("termination-log");
        let replace = |text: &String| text.replace(named, &message_file.to_string_lossy());
        let words: Vec<String> = words.iter().map(replace).collect();
        let env: Vec<(String, String)> = env.iter().map(|(k, v)| (k.clone(), replace(v))).collect();
        let log = self.ctx.containers.log(&self.key, &container.name);
        let process = match self
            .ctx
            .containers
            .start(&words, &env, folder.path(), &log, is_trusted)
        {
            Ok(process) => process,
            Err(error) => return (128, error.to_string()),
        };
        let group = process.group();
        lock(&self.groups).push(group);
        let (code, ()) = tokio::join!(process.wait(), self.write_status(phase));
        lock(&self.groups).retain(|g| *g != group);
        let message = std::fs::read(&message_file).unwrap_or_default();
        (code, termination_message(container, code, &message, &log))
    }

    async fn never_pulled(&self, container: &Container) -> i32 {
        let image = container.image.clone().unwrap_or_default();
        for (reason, seconds) in [("ErrImagePull", 10.0), ("ImagePullBackOff", 0.0)] {
            let message = format!("{reason}: image \"{image}\" cannot be pulled: not found");
            self.know(&container.name, |known| known.waiting = Some((reason, message)));
            self.write_status("Pending").await;
            self.ctx.pass(seconds).await;
        }
        pending().await
    }

    /// SIGTERM, then SIGKILL when the grace period is over.
    async fn terminate(&self, containers: impl Future<Output = ()> + Unpin) {
        self.until_up().await;
        self.terminating.store(true, Ordering::Relaxed);
        let groups: Vec<i32> = lock(&self.groups).clone();
        let now = self.ctx.pods.get(&self.key);
        let seconds = now
            .and_then(|p| p.metadata.deletion_grace_period_seconds)
            .unwrap_or(30);
        let seconds = f64::from(i32::try_from(seconds).unwrap_or(i32::MAX));
        let grace = self.ctx.time().of(seconds).max(SHORTEST_GRACE);
        if groups.is_empty() {
            // It may be in the middle of a write, which the last one would wait for.
            drop(containers);
        } else {
            for group in groups {
                terminate(group);
            }
            let _ = tokio::time::timeout(grace, containers).await;
        }
        self.kill_known();
        let phase = self.final_phase();
        self.write_status(&phase).await;
    }

    /// The deletion is done when the kubelet says so.
    async fn remove(&self) {
        let api: Api<Pod> = self.api();
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(uid(&*self.pod)),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        loop {
            match api.delete(&self.pod.name_any(), &params).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => break,
                Err(error) => tracing::debug!(%error, pod = self.key, "not removed"),
                Ok(_) => break,
            }
            tokio::time::sleep(SHORTEST_GRACE).await;
        }

        self.ctx.containers.forget_logs(&self.key);
    }

    async fn until_up(&self) {
        // An error says that the machine is gone, and with it this task.
        let _ = self.machine.up.subscribe().wait_for(|up| *up).await;
    }

    /// Whether it is to go, or is gone: what is there now under its name.
    fn goes(&self, now: Option<&Pod>) -> bool {
        now.is_none_or(|now| {
            now.metadata.uid != self.pod.metadata.uid || now.metadata.deletion_timestamp.is_some()
        })
    }

    fn is_to_go(&self) -> bool {
        self.goes(self.ctx.pods.get(&self.key).as_deref())
    }

    /// Returns when the pod is to go, or is gone.
    async fn until_deleted(&self) {
        let mut pod = self.ctx.pods.follow(&self.key);
        let _ = pod.wait_for(|now| self.goes(now.as_deref())).await;
    }

    fn end(
        &self,
        container: &Container,
        code: i32,
        reason: &'static str,
        message: String,
        started: Timestamp,
    ) {
        self.know(&container.name, |known| {
            known.running = None;
            let finished = self.now();
            known.terminated = Some(Terminated {
                code,
                reason,
                message,
                started,
                finished,
            });
        });
    }

    fn know(&self, container: &str, change: impl FnOnce(&mut Known)) {
        change(lock(&self.known).entry(container.to_owned()).or_default());
    }

    fn wait_known(&self, reason: &'static str) {
        let Some(spec) = &self.pod.spec else { return };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            self.know(&container.name, |known| {
                known.waiting = Some((reason, String::new()));
                known.running = None;
                known.last = known.terminated.take().or(known.last.take());
            });
        }
    }

    /// What still ran or waited was killed.
    fn kill_known(&self) {
        let now = self.now();
        for known in lock(&self.known).values_mut().filter(|k| k.terminated.is_none()) {
            known.waiting = None;
            let started = known.running.take().unwrap_or(now);
            let message = String::new();
            known.terminated = Some(Terminated {
                code: KILLED,
                reason: "Error",
                message,
                started,
                finished: now,
            });
        }
    }

    fn final_phase(&self) -> String {
        let known = lock(&self.known);
        let all_well = known
            .values()
            .all(|k| k.terminated.as_ref().is_some_and(|t| t.code == 0));
        if all_well { "Succeeded" } else { "Failed" }.to_owned()
    }

    fn now(&self) -> Timestamp {
        self.ctx.clock(&self.machine.name)
    }

    fn restart_policy(&self) -> &str {
        self.pod
            .spec
            .as_ref()
            .and_then(|s| s.restart_policy.as_deref())
            .unwrap_or("Always")
    }

    fn is_job(&self) -> bool {
        self.pod.owner_references().iter().any(|o| o.kind == "Job")
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.ctx.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    async fn write_status(&self, phase: &str) {
        self.until_up().await;
        let _one_at_a_time = self.writing.lock().await;
        let (api, name) = (self.api(), self.pod.name_any());
        let patch = json!({ "metadata": { "uid": self.pod.metadata.uid }, "status": self.render(phase) });
        let by = manager(KUBELET);
        match write(|| async { api.patch_status(&name, &by, &Patch::Strategic(&patch)).await }).await {
            Ok(Some(pod)) => self.ctx.pods.learn(pod),
            Ok(None) => {}
            Err(error) => tracing::debug!(error = format!("{error:#}"), pod = self.key, "status not written"),
        }
    }

    fn render(&self, phase: &str) -> Value {
        let spec = self.pod.spec.as_ref();
        let known = lock(&self.known);
        let statuses = |containers: &[Container]| {
            let all = containers
                .iter()
                .map(|c| container_status(c, known.get(&c.name).cloned().unwrap_or_default()));
            all.collect::<Vec<Value>>()
        };
        let terminal = matches!(phase, "Succeeded" | "Failed");
        let ready = phase == "Running" && known.values().all(|k| k.waiting.is_none() && !k.is_unready);
        let initialized = phase != "Pending" || known.values().all(|k| k.waiting.is_none());
        let reason = if terminal { "PodCompleted" } else { "" };
        json!({
            "phase": phase,
            "startTime": self.started,
            "hostIP": "127.0.0.1",
            "hostIPs": [{ "ip": "127.0.0.1" }],
            "podIP": self.address,
            "podIPs": [{ "ip": self.address }],
            "conditions": [
                self.condition("PodReadyToStartContainers", !terminal, ""),
                self.condition("Initialized", initialized, ""),
                self.condition("ContainersReady", ready, reason),
                self.condition("Ready", ready, reason),
            ],
            "initContainerStatuses": statuses(spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default()),
            "containerStatuses": statuses(spec.map(|s| s.containers.as_slice()).unwrap_or_default()),
        })
    }

    fn condition(&self, type_: &'static str, status: bool, reason: &str) -> Value {
        let now = self.now();
        let mut conditions = lock(&self.conditions);
        let since = match conditions.get(type_) {
            Some((old, since)) if *old == status => *since,
            _ => now,
        };
        conditions.insert(type_, (status, since));
        let status = if status { "True" } else { "False" };
        json!({ "type": type_, "status": status, "reason": reason, "lastTransitionTime": since })
    }
}

fn container_status(container: &Container, known: Known) -> Value {
    let terminated = |t: Terminated| {
        json!({ "terminated": {
            "exitCode": t.code, "reason": t.reason, "message": t.message,
            "startedAt": t.started, "finishedAt": t.finished,
        }})
    };
    let runs = known.running.is_some();
    let ready = runs && !known.is_unready;
    let state = match (known.waiting, known.running, known.terminated) {
        (Some((reason, message)), ..) => json!({ "waiting": { "reason": reason, "message": message } }),
        (None, Some(started), _) => json!({ "running": { "startedAt": started } }),
        (None, None, Some(end)) => terminated(end),
        (None, None, None) => json!({ "waiting": { "reason": "PodInitializing" } }),
    };
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": format!("world://{}", container.image.clone().unwrap_or_default()),
        "containerID": if runs { format!("world://{}", container.name) } else { String::new() },
        "ready": ready,
        "started": runs,
        "restartCount": known.restarts,
        "state": state,
        "lastState": known.last.map_or_else(|| json!({}), terminated),
    })
}

/// What the container wrote to its file, or else the end of its log if it failed and may.
fn termination_message(container: &Container, code: i32, file: &[u8], log: &Log) -> String {
    let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if file.is_empty() && code != 0 && falls_back {
        let text = log.text();
        return tail(&text, FALLBACK_BYTES);
    }
    tail(file, MESSAGE_BYTES)
}

fn tail(text: &[u8], bytes: usize) -> String {
    String::from_utf8_lossy(&text[text.len().saturating_sub(bytes)..]).into_owned()
}
