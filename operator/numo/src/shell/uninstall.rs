//! The Job by which Helm asks the numo that leads to restore everything, before it removes the release. No pod of it ever runs.
//!
//! numo makes it, with a finalizer, and Helm deletes it before it makes its hook of that name (`before-hook-creation`). Helm 3 waits then until it
//! is gone. Helm 4 does not, by default: it applies its hook to the Job that is going, and waits until that is complete. The Job controller leaves
//! alone what says `managedBy`, so it is not complete before numo has restored everything, and made it anew without that. Where numo never
//! ran there is no such Job: Helm makes its hook, which asks for no pod, and goes on at once.

use super::client::Connection;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::PodTemplateSpec,
};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use numo_api::marks;
use serde_json::json;
use std::collections::BTreeMap;

#[cfg(feature = "operator")]
pub use self::leading::{Request, Restore};

/// Name of the Job, in the operator's namespace.
pub const JOB: &str = "numo-uninstall";
/// Helm's own annotation: the object is a hook, so Helm is past its wait for the deletion.
const HOOK: &str = "helm.sh/hook";
/// How often a write is tried anew that met another one.
const TRIES: usize = 5;

fn is_ours(job: &Job) -> bool {
    let finalizers = job.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|one| one == marks::UNINSTALL)
}

fn is_deleted(job: &Job) -> bool {
    job.metadata.deletion_timestamp.is_some()
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Takes numo's finalizer off the Job, so that Helm goes on; whether there was one.
pub async fn let_go(connection: &Connection, namespace: &str) -> Result<bool, kube::Error> {
    // Boxed: it holds whole Jobs.
    Box::pin(take_off(connection, namespace)).await
}

async fn take_off(connection: &Connection, namespace: &str) -> Result<bool, kube::Error> {
    let jobs: Api<Job> = Api::namespaced(connection.write.clone(), namespace);
    for tried in 1.. {
        let Some(job) = jobs.get_opt(JOB).await?.filter(is_ours) else {
            break;
        };
        let others = job.metadata.finalizers.iter().flatten();
        let others: Vec<_> = others.filter(|one| *one != marks::UNINSTALL).collect();
        // Helm applies its hook at the same time: whether it has, must be known when the Job goes.
        let patch =
            json!({"metadata": {"finalizers": others, "resourceVersion": job.metadata.resource_version}});
        match jobs
            .patch(JOB, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Err(error) if is_conflict(&error) && tried < TRIES => {}
            Err(error) => return Err(error),
            Ok(_) => {
                if is_deleted(&job) && job.metadata.annotations.iter().any(|all| all.contains_key(HOOK)) {
                    complete(&jobs, job).await?;
                }
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Makes the Job anew as Helm has it: without a pod to run, it is complete at once, which Helm waits for.
async fn complete(jobs: &Api<Job>, old: Job) -> Result<(), kube::Error> {
    let template = old.spec.map(|spec| spec.template).unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(JOB.to_owned()),
        annotations: old.metadata.annotations,
        labels: old.metadata.labels.map(without_controller),
        ..ObjectMeta::default()
    };
    let job = Job {
        metadata,
        spec: Some(JobSpec {
            completions: Some(0),
            parallelism: Some(0),
            ttl_seconds_after_finished: Some(3600),
            template: PodTemplateSpec {
                metadata: template.metadata.map(|metadata| ObjectMeta {
                    labels: metadata.labels.map(without_controller),
                    ..ObjectMeta::default()
                }),
                spec: template.spec,
            },
            ..JobSpec::default()
        }),
        status: None,
    };
    match jobs.create(&PostParams::default(), &job).await {
        Err(error) if is_conflict(&error) => Ok(()),
        other => other.map(drop),
    }
}

/// Without what the API server says of one Job.
fn without_controller(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|name, _| !name.ends_with("controller-uid") && !name.ends_with("job-name"));
    labels
}

#[cfg(feature = "operator")]
mod leading {
    use super::{
        Api, Connection, JOB, Job, JobSpec, ObjectMeta, Patch, PatchParams, PostParams, is_conflict,
        is_deleted, is_ours, json, let_go, marks,
    };
    use crate::shell::leader::{Candidate, Fence, LEADER_LEASE};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{DeleteParams, Preconditions};
    use std::{collections::BTreeMap, pin::Pin, time::Duration};

    /// How often the Job is looked at, and how long after a restoration that failed the next one is.
    const AGAIN: Duration = Duration::from_secs(5);
    /// How long the end of the process may be held up by a last look.
    const LAST_LOOK: Duration = Duration::from_secs(3);
    /// How long no numo leads after everything is restored (seconds): the release must be gone by then, or numo comes back.
    const HELD_SECONDS: i32 = 600;

    /// Whether the namespace is being deleted, and all in it.
    async fn is_ending(connection: &Connection, namespace: &str) -> Result<bool, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(connection.read.clone());
        let found = namespaces.get_opt(namespace).await?;
        Ok(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()))
    }

    /// Restores everything as `numo release` does: what was done, or why it is not over.
    pub type Restore = for<'a> fn(
        &'a Connection,
        &'a str,
        &'a Fence,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + 'a>>;

    /// What the numo that leads is asked by, if by anything.
    #[derive(Clone, Debug)]
    pub struct Request {
        connection: Connection,
        namespace: String,
        /// The Job's spec; none leaves no Job of numo's.
        spec: Option<JobSpec>,
    }

    impl Request {
        /// Of the Job in this namespace.
        pub fn new(connection: &Connection, namespace: &str, spec: Option<JobSpec>) -> Self {
            Self {
                connection: connection.clone(),
                namespace: namespace.to_owned(),
                spec,
            }
        }

        /// Whether everything is to be restored before anything begins. It is waited for until that is known.
        pub async fn is_made(&self) -> bool {
            loop {
                match Box::pin(self.look()).await {
                    Ok(is_made) => return is_made,
                    Err(error) => tracing::warn!(
                        %error,
                        job = JOB,
                        "whether numo is being uninstalled cannot be seen: nothing begins until it can. Role numo-uninstall of the chart has the right"
                    ),
                }
                tokio::time::sleep(AGAIN).await;
            }
        }

        /// Waits until everything is to be restored; for ever where there is no Job of numo's.
        pub async fn made(&self) {
            if self.spec.is_none() {
                std::future::pending::<()>().await;
            }
            loop {
                tokio::time::sleep(AGAIN).await;
                match Box::pin(self.look()).await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, job = JOB, "whether numo is being uninstalled cannot be seen");
                    }
                }
            }
        }

        /// Looks at the Job, and makes it if it is not there.
        async fn look(&self) -> Result<bool, kube::Error> {
            let jobs = self.jobs();
            let found = jobs.get_opt(JOB).await?;
            match (found, &self.spec) {
                (Some(job), None) if is_ours(&job) => {
                    let_go(&self.connection, &self.namespace).await?;
                    delete(&jobs, &job).await?;
                }
                (None, Some(spec)) => self.make(&jobs, spec).await?,
                (Some(job), Some(_)) if is_ours(&job) && is_deleted(&job) => {
                    return Ok(!self.leave().await?);
                }
                (Some(job), Some(spec)) if !is_deleted(&job) && !is_made_by(&job, spec) => {
                    // Another chart's, or a hook that Helm left: its spec cannot be changed.
                    let_go(&self.connection, &self.namespace).await?;
                    delete(&jobs, &job).await?;
                }
                _ => {}
            }
            Ok(false)
        }

        async fn make(&self, jobs: &Api<Job>, spec: &JobSpec) -> Result<(), kube::Error> {
            let job = Job {
                metadata: ObjectMeta {
                    name: Some(JOB.to_owned()),
                    finalizers: Some(vec![marks::UNINSTALL.to_owned()]),
                    // As the chart has it: a Job without labels gets those of its pods, and Helm 4 cannot apply others to it.
                    labels: Some(BTreeMap::from([(
                        "app.kubernetes.io/name".to_owned(),
                        "numo".to_owned(),
                    )])),
                    annotations: Some(BTreeMap::from([(marks::UNINSTALL_SPEC.to_owned(), text(spec))])),
                    ..ObjectMeta::default()
                },
                spec: Some(JobSpec {
                    managed_by: Some(marks::UNINSTALL.to_owned()),
                    ..spec.clone()
                }),
                status: None,
            };
            // In a namespace that is being deleted there is nothing to ask for.
            if is_ending(&self.connection, &self.namespace).await? {
                return Ok(());
            }
            match jobs.create(&PostParams::default(), &job).await {
                Err(error) if is_conflict(&error) => Ok(()),
                Err(error) => Err(error),
                Ok(made) => {
                    if made.spec.is_none_or(|spec| spec.managed_by.is_none()) {
                        tracing::error!(
                            job = JOB,
                            "the API server does not heed managedBy of Jobs, and Helm 4 will not wait for numo: set uninstall.by: Job"
                        );
                    }
                    Ok(())
                }
            }
        }

        /// Takes the finalizer off where the namespace is being deleted: it must not hang on numo. Whether it is.
        async fn leave(&self) -> Result<bool, kube::Error> {
            let is_ending = is_ending(&self.connection, &self.namespace).await?;
            if is_ending && let_go(&self.connection, &self.namespace).await? {
                tracing::warn!(
                    namespace = self.namespace,
                    "the namespace is being deleted: it does not wait for numo, and what numo changed stays. `numo release --offline \
                     --take-over --operator-namespace default` restores it"
                );
            }
            Ok(is_ending)
        }

        /// The last look of a process that ends: its pod may go before the Job is deleted.
        pub async fn end(&self) {
            if self.spec.is_some()
                && let Ok(Err(error)) = tokio::time::timeout(LAST_LOOK, self.leave()).await
            {
                tracing::debug!(%error, "whether the namespace is being deleted cannot be seen");
            }
        }

        /// Restores everything, however often it takes. Nothing else is done meanwhile.
        pub async fn restore(&self, restore: Restore, fence: &Fence) {
            tracing::info!(
                job = JOB,
                "numo is being uninstalled: everything is restored, and nothing begins"
            );
            loop {
                match restore(&self.connection, &self.namespace, fence).await {
                    Ok(words) => {
                        tracing::info!("everything is restored: {words}");
                        return;
                    }
                    Err(why) => self.tell(&why).await,
                }
                tokio::time::sleep(AGAIN).await;
            }
        }

        /// Says why Helm waits.
        async fn tell(&self, why: &str) {
            let words = format!(
                "not everything is restored, so the release stays: {why}. numo tries it again; `numo release --offline --take-over` does it \
                 from where you are, and lets helm uninstall go on"
            );
            tracing::error!(job = JOB, "{words}");
            let patch = Patch::Merge(json!({"metadata": {"annotations": {marks::UNINSTALL_MESSAGE: words}}}));
            if let Err(error) = self.jobs().patch(JOB, &PatchParams::default(), &patch).await {
                tracing::warn!(%error, job = JOB, "that cannot be said on the Job");
            }
        }

        /// Lets Helm go on, with a lead that nobody has: nothing begins before the release is gone, and if it stays numo comes back.
        pub async fn answer(&self, identity: &str) -> Result<(), kube::Error> {
            let Connection { write, clock, .. } = &self.connection;
            let holder = format!("{identity}-uninstall");
            let candidate = Candidate::new(
                write.clone(),
                &self.namespace,
                LEADER_LEASE,
                &holder,
                clock.clone(),
            );
            candidate.hold_on(HELD_SECONDS).await?;
            let_go(&self.connection, &self.namespace).await?;
            tracing::info!(
                seconds = HELD_SECONDS,
                "Helm goes on with the uninstallation; numo leads again after that time if the release stays"
            );
            Ok(())
        }

        fn jobs(&self) -> Api<Job> {
            Api::namespaced(self.connection.write.clone(), &self.namespace)
        }
    }

    fn text(spec: &JobSpec) -> String {
        serde_json::to_string(spec).unwrap_or_default()
    }

    /// Whether it is numo's Job, made by this spec.
    fn is_made_by(job: &Job, spec: &JobSpec) -> bool {
        let known = job
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(marks::UNINSTALL_SPEC));
        is_ours(job) && known == Some(&text(spec))
    }

    /// Deletes this Job, and no other one of its name.
    async fn delete(jobs: &Api<Job>, job: &Job) -> Result<(), kube::Error> {
        let this = DeleteParams {
            preconditions: Some(Preconditions {
                uid: job.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match jobs.delete(JOB, &this).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop),
        }
    }
}
