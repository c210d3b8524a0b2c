//! Control planes that serve one test after another: starting one and installing kinds into it
//! takes longer than most tests do.
//!
//! A test never shares a control plane while it runs. Afterwards every object made since is removed
//! and every changed one is put back, in etcd itself, so that no finalizer and no admission can
//! object. What the processes remember beyond their watches is not undone: a control plane in which
//! such a thing was changed is ended instead.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::cluster::{Cluster, Options};
use crate::etcd::{Etcd, Keys, Operation};

/// Idle control planes of this process, all prepared in the same way.
static IDLE: Mutex<Vec<Cluster>> = Mutex::new(Vec::new());

/// How long controllers may go on to write what they were about to.
const CALM: Duration = Duration::from_secs(20);
/// So long nothing is written in a control plane that is at rest.
const STILL: Duration = Duration::from_millis(150);

/// Written again and again by the API server itself, and of no matter.
const RESTLESS: [&str; 2] = ["/registry/leases/kube-system/", "/registry/masterleases/"];

/// What processes keep more of than their watches tell: which kinds there are, webhooks, limits
/// that admission looked up.
const REMEMBERED: [&str; 6] = [
    "/registry/apiextensions.k8s.io/",
    "/registry/apiregistration.k8s.io/",
    "/registry/mutatingwebhookconfigurations/",
    "/registry/validatingwebhookconfigurations/",
    "/registry/resourcequotas/",
    "/registry/limitranges/",
];

impl Cluster {
    /// A control plane with default options to which `prepare` was done once; it may have served
    /// other tests of this process, and is as it was before them. All tests of a process prepare alike.
    ///
    /// [`give_back`](Self::give_back) it when the test has passed; dropped, it ends as any other.
    pub async fn prepared(prepare: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<Self> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(cluster) = idle {
            cluster.forget_requests()?;
            return Ok(cluster);
        }
        let mut cluster = Self::start(Options::default()).await?;
        prepare(&cluster).await?;
        let keys = at_rest(&Etcd::new(&cluster.etcd())?).await?;
        cluster.baseline = Some(keys);
        cluster.forget_requests()?;
        Ok(cluster)
    }

    /// Makes it as it was when it was [`prepared`](Self::prepared), for the next test. One that
    /// cannot be made so, or that was not prepared, is [stopped](Self::stop).
    pub async fn give_back(mut self) {
        match self.restore().await {
            Ok(()) => IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self),
            Err(why) => {
                tracing::debug!(why = format!("{why:#}"), "control plane is not used again");
                self.stop().await;
            }
        }
    }

    async fn restore(&mut self) -> Result<()> {
        let baseline = self.baseline.as_ref().context("it was not prepared")?;
        let etcd = Etcd::new(&self.etcd())?;
        let until = Instant::now() + CALM;
        loop {
            let operations = way_back(baseline, &etcd.keys().await?)?;
            if operations.is_empty() {
                break;
            }
            ensure!(Instant::now() < until, "it does not come to rest: {operations:?}");
            etcd.change(&operations).await?;
            // Who had a write under way, or answers to what is gone, is done by then.
            tokio::time::sleep(STILL).await;
        }
        self.is_sound().await
    }
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
    operations.retain(|operation| !RESTLESS.iter().any(|prefix| operation.key().starts_with(prefix)));
    for operation in &operations {
        let key = operation.key();
        ensure!(
            !REMEMBERED.iter().any(|prefix| key.starts_with(prefix)),
            "{key} was changed"
        );
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
        let hooks = "validatingwebhookconfigurations/a";
        for (before, after) in [
            (keys(&[(crd, "1")]), keys(&[(crd, "2")])),
            (keys(&[(crd, "1")]), keys(&[])),
            (keys(&[]), keys(&[(hooks, "1")])),
            (keys(&[("namespaces/numo", "1")]), keys(&[])),
        ] {
            assert!(way_back(&before, &after).is_err(), "{before:?} {after:?}");
        }
    }
}
