//! Leader election on a Lease: one numo writes, the others wait.
//!
//! As client-go does it: the holder's own clock is never compared with ours; a lease that was not seen to
//! change for its duration, by our monotonic clock, is free. A leader that could not renew in time stops
//! writing before another may begin.

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

use super::{clock::ServerClock, notice::Board};

/// Name of the leader lease, in the operator's namespace.
pub const LEADER_LEASE: &str = "numo-leader";
/// How long a lease holds without renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader that cannot renew still counts itself one. Shorter than the duration, so that it has
/// stopped before another begins.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the lease is renewed or looked at.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// How long the release of the lease may take: whoever ends is not kept by an API server that is gone.
const RELEASE: Duration = Duration::from_secs(5);

/// Whether we may still write: the fence every write passes.
#[derive(Clone, Debug)]
pub struct Fence {
    started: Instant,
    renewed_milliseconds: Arc<AtomicU64>,
}

/// How much longer than it holds a Lease is taken for held (seconds): clocks and answers take their time.
const GRACE_SECONDS: i64 = 15;

/// The leader leases of every namespace.
pub async fn leases(client: &Client, name: &str) -> Result<Vec<Lease>, kube::Error> {
    let api: Api<Lease> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(api.list(&params).await?.items)
}

/// Seconds since a Lease was renewed, as far as that is known.
pub fn age_seconds(lease: &Lease, now: Timestamp) -> Option<i64> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
    Some(now.as_second() - renewed.0.as_second())
}

/// Who holds a Lease; empty if nobody does.
pub fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// Whether somebody alive holds a Lease: it was renewed within its duration.
pub fn is_alive(lease: &Lease, now: Timestamp) -> bool {
    is_held(lease, now, GRACE_SECONDS)
}

/// Whether a Lease was renewed within its duration and so many seconds more.
pub fn is_held(lease: &Lease, now: Timestamp, grace_seconds: i64) -> bool {
    let spec = lease.spec.as_ref();
    let duration = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    let held = i64::from(duration).saturating_add(grace_seconds);
    age_seconds(lease, now).is_some_and(|age| age < held) && !holder(lease).is_empty()
}

impl Fence {
    /// That of a lease whose request began then: others count from when it was written, which is later, and not from when that was answered.
    fn since(asked: Instant) -> Self {
        Self {
            started: asked,
            renewed_milliseconds: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A fence that holds.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self::since(Instant::now())
    }

    /// A fence that does not hold.
    #[cfg(test)]
    pub(super) fn lapsed() -> Self {
        let fence = Self::new();
        let long_ago = fence.started.checked_sub(2 * RENEW_DEADLINE);
        Self {
            started: long_ago.unwrap_or(fence.started),
            ..fence
        }
    }

    fn renew(&self, at: Instant) {
        let passed = at.duration_since(self.started).as_millis();
        self.renewed_milliseconds
            .store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Whether the lease was renewed recently enough to write.
    pub fn holds(&self) -> bool {
        let renewed = self.started + Duration::from_millis(self.renewed_milliseconds.load(Ordering::Acquire));
        Instant::now().duration_since(renewed) < RENEW_DEADLINE
    }
}

/// A candidate for the lease.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    clock: ServerClock,
    seen: Option<(String, Instant)>,
    board: Option<Board>,
    /// How long one attempt may take: a connection to an API server that is gone says nothing for as long as the system likes.
    patience: Duration,
}

impl Candidate {
    /// A candidate for the lease `name` in `namespace`. `client` must not retry by itself.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, clock: ServerClock) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            clock,
            seen: None,
            board: None,
            // An API server that answers late is no reason to end a lead that it has renewed.
            patience: RENEW_DEADLINE,
        }
    }

    /// The same, which says on the lease what stands on the board.
    #[must_use]
    pub fn telling(self, board: Board) -> Self {
        Self {
            board: Some(board),
            ..self
        }
    }

    /// Waits until the lease is ours.
    pub async fn win(&mut self) -> Fence {
        let mut told = None;
        loop {
            match self.attempt_in_time().await {
                Ok(Held::Us(at)) => return Fence::since(at),
                Ok(Held::Other(holder)) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(holder, "another numo leads; waiting");
                        told = Some(holder);
                    }
                }
                Err(error) => tracing::warn!(%error, lease = self.name, "the leader lease cannot be had"),
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Waits until the lease is ours; a request that fails ends it.
    pub async fn try_win(&mut self) -> Result<Fence, kube::Error> {
        loop {
            if let Held::Us(at) = self.attempt_in_time().await? {
                return Ok(Fence::since(at));
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Takes the lease from whoever holds it: that numo writes nothing more, as it finds the lease lost, and waits.
    pub async fn seize(&self) -> Result<(), kube::Error> {
        loop {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else {
                return Ok(());
            };
            lease.spec = Some(self.spec(None));
            match self.api.replace(&self.name, &PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => return other.map(|_| ()),
            }
        }
    }

    /// Has the lease stay ours for so long (seconds) although nobody renews it: no numo leads until then.
    pub async fn hold_on(&self, seconds: i32) -> Result<(), kube::Error> {
        for _ in 0..5 {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else {
                return Ok(());
            };
            let mut spec = self.spec(lease.spec.as_ref());
            spec.lease_duration_seconds = Some(seconds);
            lease.spec = Some(spec);
            match self.api.replace(&self.name, &PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }

    /// Renews until the lease is lost; returns then.
    pub async fn keep(&mut self, fence: &Fence) {
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            match self.attempt_in_time().await {
                Ok(Held::Us(at)) => fence.renew(at),
                Ok(Held::Other(holder)) => {
                    tracing::error!(holder, "another numo took the leader lease");
                    return;
                }
                Err(error) => tracing::warn!(%error, "the leader lease was not renewed"),
            }
            if !fence.holds() {
                return;
            }
        }
    }

    /// Gives the lease back, so that the next leader need not wait.
    pub async fn release(&self) {
        if tokio::time::timeout(RELEASE, self.free_lease()).await.is_err() {
            tracing::warn!("the leader lease was not released in time");
        }
    }

    async fn free_lease(&self) {
        let Ok(mut lease) = self.api.get(&self.name).await else {
            return;
        };
        let Some(spec) = lease
            .spec
            .as_mut()
            .filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity))
        else {
            return;
        };
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let _ = self.api.replace(&self.name, &PostParams::default(), &lease).await;
    }

    /// One attempt. What is not answered in time is asked again, over another connection: the one it was asked over is closed.
    async fn attempt_in_time(&mut self) -> Result<Held, kube::Error> {
        let answer = tokio::time::timeout(self.patience, self.attempt()).await;
        answer.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into())))
    }

    async fn attempt(&mut self) -> Result<Held, kube::Error> {
        let asked = Instant::now();
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let mut lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None)),
            };
            self.tell(&mut lease);
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(Held::Us(asked)),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Held::Other("unknown".to_owned())),
                Err(error) => Err(error),
            };
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let ours = holder == self.identity;
        if !ours && !holder.is_empty() {
            let (known, since) = self.seen.get_or_insert_with(|| (version.clone(), asked));
            if *known != version {
                *known = version;
                *since = asked;
            }
            let holds =
                Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
            if asked.duration_since(*since) < holds {
                return Ok(Held::Other(holder));
            }
        }
        lease.spec = Some(self.spec(Some(&spec).filter(|_| ours)));
        if let Some(new) = lease.spec.as_mut() {
            new.lease_transitions = Some(
                spec.lease_transitions
                    .unwrap_or(0)
                    .saturating_add(i32::from(!ours)),
            );
        }
        self.tell(&mut lease);
        match self.api.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(_) => Ok(Held::Us(asked)),
            // Of a lease that is ours this says that somebody wrote to it, whoever that was: the next attempt sees who holds it.
            Err(kube::Error::Api(status)) if status.code == 409 && !ours => Ok(Held::Other(holder)),
            Err(error) => Err(error),
        }
    }

    fn tell(&self, lease: &mut Lease) {
        if let Some(board) = &self.board {
            board.read().put(lease);
        }
    }

    fn spec(&self, held: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: held
                .and_then(|spec| spec.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

/// Who holds the lease, with the time our request began.
enum Held {
    Us(Instant),
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::{
        convert::Infallible,
        future,
        sync::{OnceLock, atomic::AtomicUsize},
    };

    /// What an API server answers that has no Lease yet.
    fn answer_of(method: &http::Method) -> (u16, Value) {
        match *method {
            http::Method::GET => (
                404,
                json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}),
            ),
            _ => (
                201,
                json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "numo-leader"}}),
            ),
        }
    }

    /// Another numo may lead 15 seconds after the lease was written, however late that was answered.
    #[tokio::test]
    async fn a_lease_is_counted_from_before_it_was_written() {
        let written = Arc::new(OnceLock::new());
        let noted = written.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (status, answer) = answer_of(request.method());
            if *request.method() != http::Method::GET {
                let _ = noted.set(Instant::now());
            }
            async move {
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let mut one = Candidate::new(client, "numo", LEADER_LEASE, "one", ServerClock::default());
        let fence = one.win().await;
        assert!(written.get().is_some_and(|at| fence.started <= *at));
    }

    /// The API server that a standby was connected to dies with the leader: its answer never comes, and others would give one.
    #[tokio::test]
    async fn a_standby_whose_request_is_never_answered_asks_again_and_leads() {
        let asked = AtomicUsize::new(0);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            let (status, answer) = answer_of(request.method());
            async move {
                if is_first {
                    future::pending::<()>().await;
                }
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let mut standby = Candidate {
            patience: Duration::from_millis(10),
            ..Candidate::new(client, "numo", LEADER_LEASE, "standby", ServerClock::default())
        };
        // Without end where the first answer is waited for.
        let won = tokio::time::timeout(Duration::from_mins(1), standby.win()).await;
        assert!(won.is_ok_and(|fence| fence.holds()));
    }

    /// Somebody writes an annotation to the lease, or an older write of ours arrives late: that takes nothing away from whoever holds it.
    #[tokio::test]
    async fn a_conflict_on_its_own_lease_ends_no_leader_before_its_fence() {
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let lease = |holder: &str| {
                json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
                    "metadata": {"name": "numo-leader", "resourceVersion": "7"},
                    "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})
            };
            let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "Conflict"});
            let (status, answer) = match *request.method() {
                http::Method::GET if counted.load(Ordering::Relaxed) == 0 => (200, lease("one")),
                http::Method::GET => (200, lease("other")),
                _ => {
                    counted.fetch_add(1, Ordering::Relaxed);
                    (409, conflict)
                }
            };
            async move {
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let mut one = Candidate::new(client, "numo", LEADER_LEASE, "one", ServerClock::default());
        assert!(one.attempt().await.is_err(), "it is tried again");
        // Whoever holds it by then is believed.
        assert!(matches!(one.attempt().await, Ok(Held::Other(holder)) if holder == "other"));
        assert_eq!(writes.load(Ordering::Relaxed), 1);
    }
}
