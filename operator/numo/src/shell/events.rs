//! Events on the run and on its nodes, one for each transition. Written in order by one task; an event
//! that cannot be written is dropped and counted, never waited for.

use super::{clock::ServerClock, metrics::Metrics};
use jiff::Timestamp;
use kube::{Api, Client, api::PostParams, core::DynamicObject};
use numo_core::{action::Event, names, observed::Key};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

/// Longest note the API server takes (bytes).
const NOTE_MAX_BYTES: usize = 1024;
/// Longest name of an object (bytes).
const NAME_MAX_BYTES: usize = 253;
/// Digits of the hash in the name of an event.
const HASH: usize = 20;
/// Who reports events of kinds that no other operator has.
const CONTROLLER: &str = "numo.openshift-optional.skrzypek.io/numo";
/// Component that node-maintenance-operator reports events as, and the kind they are about.
const MAINTENANCE: &str = "NodeMaintenance";
/// The kind whose events system-upgrade-controller reports, under the name it is given.
const PLAN: &str = "Plan";
/// Events that may wait to be written; more are dropped.
const QUEUE: usize = 1024;

/// An event with what it is about.
#[derive(Clone, Debug)]
pub struct Published {
    /// Group and version of the kind.
    pub api_version: String,
    /// Kind of ours that it is about, or that a node's event is related to.
    pub kind: &'static str,
    /// Its namespace and name.
    pub owner: Key,
    /// Its uid.
    pub owner_uid: String,
    /// uid of the node, if it is about one.
    pub node_uid: Option<String>,
    /// Name and uid of the MachineConfigPool, if it is about one.
    pub pool: Option<(String, String)>,
    /// The event.
    pub event: Event,
}

/// Where events go.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Published>,
    metrics: Metrics,
}

impl Events {
    /// Starts the writer. Events of Plans are reported as of component `plans`.
    ///
    /// The second part ends once every [`Events`] is dropped and what waited then is written.
    pub fn start(
        client: Client,
        clock: ServerClock,
        instance: String,
        plans: String,
        metrics: Metrics,
    ) -> (Self, JoinHandle<()>) {
        let (queue, mut waiting) = mpsc::channel::<Published>(QUEUE);
        let writer = tokio::spawn(async move {
            let mut number = 0_u64;
            while let Some(published) = waiting.recv().await {
                number += 1;
                write(&client, &clock, (&instance, &plans), published, number).await;
            }
        });
        (Self { queue, metrics }, writer)
    }

    /// Publishes an event; drops it if too many wait.
    pub fn publish(&self, published: Published) {
        if self.queue.try_send(published).is_err() {
            self.metrics.dropped_event();
            tracing::warn!("too many events wait to be written: one is dropped");
        }
    }
}

/// The namespace of an event, what it regards, and what is related to it.
fn placed(
    namespace: &str,
    run: Value,
    pool: Option<(String, String)>,
    node: Option<(&String, String)>,
) -> (String, Value, Option<Value>) {
    // The event of a cluster-scoped object lives in the namespace `default`.
    match (pool, node) {
        (Some((name, uid)), _) => {
            let pool = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfigPool",
                "name": name,
                "uid": uid,
            });
            ("default".to_owned(), pool, Some(run))
        }
        (None, Some((node, uid))) => {
            let node = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
            ("default".to_owned(), node, Some(run))
        }
        (None, None) if namespace.is_empty() => ("default".to_owned(), run, None),
        (None, None) => (namespace.to_owned(), run, None),
    }
}

/// An event of the core group, but for its name and the objects that it is about.
fn core_event(event: &Event, component: &str, now: Timestamp) -> Value {
    let at = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "reason": event.reason,
        "message": clip(&event.note),
        "type": if event.warning { "Warning" } else { "Normal" },
        "source": {"component": component},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "action": event.action.name(),
        "reportingComponent": component,
    })
}

/// The body of an event of events.k8s.io, without where it is and what it is about.
fn current_event(event: &Event, now: Timestamp) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "reportingController": CONTROLLER,
        "action": event.action.name(),
        "reason": event.reason,
        "type": if event.warning { "Warning" } else { "Normal" },
        "note": clip(&event.note),
    })
}

/// The component of the operators that numo replaces. Scripts that watch those look for it, and events.k8s.io has no place
/// for it.
fn component_of<'a>(kind: &str, plans: &'a str) -> Option<&'a str> {
    match kind {
        MAINTENANCE => Some(MAINTENANCE),
        PLAN => Some(plans),
        _ => None,
    }
}

async fn write(
    client: &Client,
    clock: &ServerClock,
    (instance, plans): (&str, &str),
    published: Published,
    number: u64,
) {
    let Published {
        api_version,
        kind,
        owner,
        owner_uid,
        node_uid,
        pool,
        event,
    } = published;
    let run = json!({
        "apiVersion": api_version,
        "kind": kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "uid": owner_uid,
    });
    let of_pool = pool.as_ref().map(|(name, _)| name.clone());
    let node = event.node.as_ref().zip(node_uid);
    let (namespace, regarding, related) = placed(&owner.namespace, run, pool, node);
    let now = clock.now();
    let stamp = now.as_microsecond().to_string();
    let named = event.node.clone().unwrap_or_else(|| owner.name.clone());
    let about = &of_pool.unwrap_or(named);
    let hash = names::hash(
        &[about, event.reason, &stamp, &number.to_string(), instance],
        HASH,
    );
    let name = event_name(about, &hash);
    let (group, mut body) = if let Some(component) = component_of(kind, plans) {
        let mut body = core_event(&event, component, now);
        body["involvedObject"] = regarding;
        body["related"] = json!(related);
        ("", body)
    } else {
        let mut body = current_event(&event, now);
        body["regarding"] = regarding;
        if let Some(related) = related {
            body["related"] = related;
        }
        ("events.k8s.io", body)
    };
    body["metadata"] = json!({"name": name, "namespace": namespace});
    body["reportingInstance"] = json!(instance);
    create(client, group, &namespace, body, event.reason).await;
}

async fn create(client: &Client, group: &str, namespace: &str, body: Value, reason: &str) {
    let resource = kube::discovery::ApiResource::from_gvk_with_plural(
        &kube::core::GroupVersionKind::gvk(group, "v1", "Event"),
        "events",
    );
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let Ok(object) = serde_json::from_value(body) else {
        return;
    };
    if let Err(error) = api.create(&PostParams::default(), &object).await {
        tracing::warn!(%error, reason, "an event was not written");
    }
}

/// Name of an event: that of its object and a hash, as the recorder of client-go has it. Scripts look for events by the
/// names of their objects.
fn event_name(about: &str, hash: &str) -> String {
    let end = (0..=about.len().min(NAME_MAX_BYTES - 1 - hash.len()))
        .rev()
        .find(|index| about.is_char_boundary(*index))
        .unwrap_or(0);
    let about = about[..end].trim_end_matches(['.', '-']);
    format!("{about}.{hash}")
}

/// A note as it may be read, and as long as the API server takes it.
pub fn clip(note: &str) -> String {
    let note = numo_api::text::line(note);
    let end = (0..=note.len().min(NOTE_MAX_BYTES))
        .rev()
        .find(|index| note.is_char_boundary(*index))
        .unwrap_or(0);
    note[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_after_its_object() {
        let hash = "0123456789abcdef0123";
        assert_eq!(event_name("side-1", hash), format!("side-1.{hash}"));
        let long = event_name(&format!("{}.{}", "a".repeat(231), "b".repeat(20)), hash);
        assert_eq!(long, format!("{}.{hash}", "a".repeat(231)));
        assert!(event_name(&"a".repeat(253), hash).len() == NAME_MAX_BYTES);
    }
}
