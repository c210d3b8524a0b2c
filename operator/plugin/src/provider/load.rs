//! Loads a provider of machines, as rules are loaded (`crate::load`), and asks it what it is with every host call denied.

use std::{fmt, sync::Arc, time::Instant};

use serde::Serialize;

use super::bindings::{ProviderPre, exports::numo::provider::machines as wit};
use crate::{
    call::{LOADING, bounded, on_own_runtime, store, turn},
    description::wrong_version,
    engine::{Engine, Inner},
    host::Sandbox,
    inspect::{Inspection, World},
    load::{Prepared, is_of, wrong_world},
    reason::{Reason, Refused},
    rule::describe_time,
    text::clean,
    verdict::SENTENCE,
};

/// A provider, ready to be asked. A cheap handle.
#[derive(Clone)]
pub struct MachineProvider(pub(super) Arc<Loaded>);

pub(super) struct Loaded {
    pub(super) engine: Arc<Inner>,
    pub(super) pre: ProviderPre<Sandbox>,
    pub(super) inspection: Inspection,
    description: Description,
    digest: String,
}

/// What a provider says it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// At most 128 bytes.
    pub name: String,
    /// A semantic version, at most 128 bytes.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// `compute.googleapis.com:443`; 64 at most.
    pub hosts: Vec<String>,
}

impl fmt::Debug for MachineProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, version, .. } = &self.0.description;
        write!(f, "MachineProvider({name} {version}, {})", self.0.digest)
    }
}

impl MachineProvider {
    /// What it says it is.
    pub fn description(&self) -> &Description {
        &self.0.description
    }

    /// What its type says it is.
    pub fn inspection(&self) -> &Inspection {
        &self.0.inspection
    }

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }
}

impl Engine {
    /// Makes a provider of machines of a component's bytes.
    ///
    /// Errors: as those of [`Engine::load`]; `WrongWorld` for a rule.
    pub async fn load_provider(&self, bytes: &[u8]) -> Result<MachineProvider, Refused> {
        let prepared = self.0.prepared(LOADING, bytes).await?;
        is_of(&prepared.inspection, World::Provider)?;
        Box::pin(provider(self.0.clone(), prepared)).await
    }
}

/// Makes a provider of what is known to be one.
pub(crate) async fn provider(engine: Arc<Inner>, prepared: Prepared) -> Result<MachineProvider, Refused> {
    let linked = prepared.linked(&engine, &engine.provider_linker)?;
    let pre = ProviderPre::new(linked.pre).map_err(|error| wrong_world(&error))?;
    let description = describe(&engine, &pre, linked.inspection.state_bytes).await?;
    Ok(MachineProvider(Arc::new(Loaded {
        engine,
        pre,
        inspection: linked.inspection,
        description,
        digest: linked.digest,
    })))
}

async fn describe(
    engine: &Arc<Inner>,
    pre: &ProviderPre<Sandbox>,
    state_bytes: u64,
) -> Result<Description, Refused> {
    let (of_task, pre) = (engine.clone(), pre.clone());
    let turn = turn(engine, LOADING, engine.limits.memory_bytes).await;
    on_own_runtime(engine, turn, async move {
        let time = describe_time(&of_task.limits);
        let limits = (of_task.limits.clone(), state_bytes);
        let mut store = store(&of_task, limits, Instant::now() + time, None);
        let said = bounded(&of_task, &mut store, time, async |store| {
            let guest = pre.instantiate_async(&mut *store).await?;
            guest.numo_provider_machines().call_describe(store).await
        })
        .await?;
        description(said)
    })
    .await
}

fn description(said: wit::Description) -> Result<Description, Refused> {
    let wrong = |message: String| Err(Refused::new(Reason::RuleError, format!("describe: {message}")));
    if said.name.trim().is_empty() {
        return wrong("the name is empty".to_owned());
    }
    if let Some(problem) = wrong_version(&said.version) {
        return wrong(problem);
    }
    let hosts = said.hosts.iter().take(64);
    Ok(Description {
        name: clean(&said.name, 128),
        version: said.version,
        summary: clean(&said.summary, SENTENCE),
        hosts: hosts.map(|host| clean(host, 256)).collect(),
    })
}
