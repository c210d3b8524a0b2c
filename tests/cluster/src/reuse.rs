//! Control planes that serve one test after another: starting one and installing kinds into it
//! takes longer than most tests do.
//!
//! A test never shares a control plane while it runs. Afterwards every object made since is removed
//! and every changed one is put back, in etcd itself, so that no finalizer and no admission can
//! object. What the processes remember beyond their watches is not undone: a control plane in which
//! such a thing was changed is ended instead, and the next one starts with the objects that the first
//! one of its kind was prepared with.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::ListParams};

use crate::cluster::{Cluster, Options};
use crate::credentials::User;
use crate::etcd::{Etcd, Keys, Operation};
use crate::{tally, turnstile};

/// What this process has of prepared control planes.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    idle: Vec::new(),
    records: BTreeMap::new(),
});

/// So many control planes may wait for a test. Each takes some memory, and a little of the processor, though nobody asks it for anything.
const IDLE: usize = 3;

/// So many where there is memory for more: how many tests run at once goes up and down, and a start takes more than a long wait.
const IDLE_WITH_MEMORY: usize = 8;

struct Kept {
    /// Those that wait for a test, the one that has waited longest first.
    idle: Vec<Cluster>,
    /// What further control planes start with, by what they are prepared for.
    records: BTreeMap<&'static str, Keys>,
}

/// How a control plane was prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What for.
    purpose: &'static str,
    /// What is there between two tests.
    baseline: Keys,
}

/// How long controllers may go on to write what they were about to.
const CALM: Duration = Duration::from_secs(20);
/// So long nothing is written in a control plane that is at rest.
const STILL: Duration = Duration::from_millis(150);

/// Written again and again by the API server itself, and of no matter.
const RESTLESS: [&str; 2] = ["/registry/leases/kube-system/", "/registry/masterleases/"];

/// What processes keep more of than their watches tell: which kinds there are, limits that admission looked up.
const REMEMBERED: [&str; 4] = [
    "/registry/apiextensions.k8s.io/",
    "/registry/apiregistration.k8s.io/",
    "/registry/resourcequotas/",
    "/registry/limitranges/",
];

/// What admission goes by.
const JUDGES: [&str; 4] = [
    "/registry/mutatingwebhookconfigurations/",
    "/registry/validatingwebhookconfigurations/",
    "/registry/validatingadmissionpolicies/",
    "/registry/validatingadmissionpolicybindings/",
];
/// So long after a change the API server goes by it: it looks for changed policies once a second.
const JUDGED: Duration = Duration::from_millis(1500);

/// What controllers write as soon as they work, if it is not there. Every control plane has an authority of its own, and a start
/// waits for the account.
const OWN: [&str; 2] = ["/kube-root-ca.crt", "/registry/serviceaccounts/default/default"];

impl Cluster {
    /// A control plane with default options to which `prepare` was done once; it may have served
    /// other tests of this process, and is as it was before them. All tests of a process prepare alike for a `purpose`.
    ///
    /// [`give_back`](Self::give_back) it when the test has passed; dropped, it ends as any other.
    pub async fn prepared(
        purpose: &'static str,
        prepare: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let place = turnstile::enter().await;
        if let Some(mut cluster) = kept().take(purpose) {
            cluster.place = Some(place);
            cluster.forget_requests()?;
            tally::note(&cluster, "again", purpose);
            return Ok(cluster);
        }
        let record = kept().records.get(purpose).cloned().unwrap_or_default();
        let mut cluster = Self::start_with(Options::default(), &record, place).await?;
        let etcd = Etcd::new(&cluster.etcd())?;
        if record.is_empty() {
            prepare(&cluster).await?;
        } else {
            let client = cluster.client(User::Admin).await?;
            cluster
                .until("every kind is served", async || serves_kinds(&client).await)
                .await?;
        }
        cluster
            .until("controllers have written what is their own", async || {
                has_own(&etcd.keys().await?)
            })
            .await?;
        let baseline = at_rest(&etcd).await?;
        kept()
            .records
            .entry(purpose)
            .or_insert_with(|| record_of(&baseline));
        tally::note(
            &cluster,
            if record.is_empty() { "start" } else { "start-with" },
            purpose,
        );
        cluster.prepared = Some(Prepared { purpose, baseline });
        cluster.forget_requests()?;
        Ok(cluster)
    }

    /// Makes it as it was when it was [`prepared`](Self::prepared), for the next test. One that
    /// cannot be made so, or that was not prepared, is [stopped](Self::stop).
    pub async fn give_back(mut self) {
        match self.restore().await {
            Ok(()) => {
                tally::note(&self, "back", "");
                self.place = None;
                let one_too_many = kept().put(self);
                if let Some(cluster) = one_too_many {
                    cluster.stop().await;
                }
            }
            Err(why) => {
                tracing::debug!(why = format!("{why:#}"), "control plane is not used again");
                tally::note(&self, "not-again", &format!("{why:#}"));
                self.stop().await;
            }
        }
    }

    async fn restore(&mut self) -> Result<()> {
        let baseline = &self.prepared.as_ref().context("it was not prepared")?.baseline;
        let etcd = Etcd::new(&self.etcd())?;
        let until = Instant::now() + CALM;
        let mut judges_changed = false;
        loop {
            let operations = way_back(baseline, &etcd.keys().await?)?;
            judges_changed |= operations.iter().any(|one| one.is_below(&JUDGES));
            if operations.is_empty() {
                break;
            }
            ensure!(Instant::now() < until, "it does not come to rest: {operations:?}");
            etcd.change(&operations).await?;
            // Who had a write under way, or answers to what is gone, is done by then.
            tokio::time::sleep(STILL).await;
        }
        if judges_changed {
            tokio::time::sleep(JUDGED).await;
        }
        self.is_sound().await
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn take(&mut self, purpose: &str) -> Option<Cluster> {
        let is_for_it = |one: &Cluster| one.prepared.as_ref().is_some_and(|how| how.purpose == purpose);
        let index = self.idle.iter().rposition(is_for_it)?;
        Some(self.idle.remove(index))
    }

    /// Keeps it for another test; one that waited longer may have to make room.
    fn put(&mut self, cluster: Cluster) -> Option<Cluster> {
        self.idle.push(cluster);
        let most = if turnstile::has_memory() {
            IDLE_WITH_MEMORY
        } else {
            IDLE
        };
        (self.idle.len() > most).then(|| self.idle.remove(0))
    }
}

/// What another control plane can start with: all that is not its own or passing.
fn record_of(baseline: &Keys) -> Keys {
    let is_lasting = |key: &str| {
        let passes =
            RESTLESS.iter().any(|prefix| key.starts_with(prefix)) || key.starts_with("/registry/events/");
        !passes && !OWN.iter().any(|end| key.ends_with(end))
    };
    let lasting = baseline.iter().filter(|(key, _)| is_lasting(key));
    lasting.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// An error unless each namespace has what a controller writes into each.
fn has_own(now: &Keys) -> Result<()> {
    for namespace in now
        .keys()
        .filter_map(|key| key.strip_prefix("/registry/namespaces/"))
    {
        for own in [
            format!("/registry/configmaps/{namespace}/kube-root-ca.crt"),
            format!("/registry/serviceaccounts/{namespace}/default"),
        ] {
            ensure!(now.contains_key(&own), "{own} is not there");
        }
    }
    Ok(())
}

/// An error unless objects of every kind that is defined can be listed.
async fn serves_kinds(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions.list(&ListParams::default()).await?.items {
        let spec = definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let uri = format!(
                "/apis/{}/{}/{}?limit=1",
                spec.group, version.name, spec.names.plural
            );
            client
                .request_text(http::Request::get(uri).body(Vec::new())?)
                .await?;
        }
    }
    Ok(())
}

/// What is there once nothing has been written for a while.
async fn at_rest(etcd: &Etcd) -> Result<Keys> {
    let until = Instant::now() + CALM;
    let mut before = etcd.keys().await?;
    loop {
        tokio::time::sleep(2 * STILL).await;
        let now = etcd.keys().await?;
        if way_back(&before, &now).is_ok_and(|operations| operations.is_empty()) {
            return Ok(now);
        }
        ensure!(
            Instant::now() < until,
            "the prepared control plane does not come to rest"
        );
        before = now;
    }
}

/// What makes `now` into `baseline`. An error says that more than objects would have to be put back.
fn way_back(baseline: &Keys, now: &Keys) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    for key in now.keys().filter(|key| !baseline.contains_key(*key)) {
        operations.push(Operation::Delete { key: key.clone() });
    }
    for (key, value) in baseline
        .iter()
        .filter(|(key, value)| now.get(*key) != Some(value))
    {
        operations.push(Operation::Put {
            key: key.clone(),
            value: value.clone(),
        });
    }
    operations.retain(|operation| !operation.is_below(&RESTLESS));
    for operation in &operations {
        let key = operation.key();
        ensure!(!operation.is_below(&REMEMBERED), "{key} was changed");
        ensure!(
            now.contains_key(key) || !key.starts_with("/registry/namespaces/"),
            "{key} was deleted"
        );
    }
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pairs: &[(&str, &str)]) -> Keys {
        let own = |(key, value): &(&str, &str)| (format!("/registry/{key}"), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn new_objects_go_and_changed_ones_come_back() {
        let baseline = keys(&[("nodes/a", "1"), ("pods/x/a", "1"), ("leases/kube-system/k", "1")]);
        let now = keys(&[("nodes/a", "2"), ("nodes/b", "1"), ("leases/kube-system/k", "2")]);
        let operations = way_back(&baseline, &now).unwrap();
        let put = |key: &str| Operation::Put {
            key: format!("/registry/{key}"),
            value: "1".to_owned(),
        };
        let gone = Operation::Delete {
            key: "/registry/nodes/b".to_owned(),
        };
        assert_eq!(operations, [gone, put("nodes/a"), put("pods/x/a")]);
        assert!(way_back(&baseline, &baseline).unwrap().is_empty());
    }

    #[test]
    fn what_processes_remember_is_not_put_back() {
        let crd = "apiextensions.k8s.io/customresourcedefinitions/a";
        let quota = "resourcequotas/x/a";
        for (before, after) in [
            (keys(&[(crd, "1")]), keys(&[(crd, "2")])),
            (keys(&[(crd, "1")]), keys(&[])),
            (keys(&[]), keys(&[(quota, "1")])),
            (keys(&[("namespaces/numo", "1")]), keys(&[])),
        ] {
            assert!(way_back(&before, &after).is_err(), "{before:?} {after:?}");
        }
    }

    #[test]
    fn another_one_starts_with_all_but_what_is_its_own_or_passes() {
        let own = [
            ("configmaps/numo/kube-root-ca.crt", "1"),
            ("serviceaccounts/default/default", "1"),
            ("leases/kube-system/apiserver", "1"),
            ("events/default/a", "1"),
        ];
        let lasting = [("namespaces/numo", "1"), ("serviceaccounts/numo/default", "1")];
        let all = keys(&[&own[..], &lasting[..]].concat());
        assert_eq!(record_of(&all), keys(&lasting));
    }

    #[test]
    fn controllers_have_written_their_own_when_each_namespace_has_it() {
        let whole = [
            ("namespaces/a", "1"),
            ("configmaps/a/kube-root-ca.crt", "1"),
            ("serviceaccounts/a/default", "1"),
        ];
        assert!(has_own(&keys(&whole)).is_ok());
        assert!(has_own(&keys(&whole[..2])).is_err());
        assert!(has_own(&keys(&[whole[0], whole[2]])).is_err());
    }
}
