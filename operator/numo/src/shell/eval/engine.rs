//! What runs components and asks servers for rules: begun with the first rule that needs it, and once. What rules may reach of it says
//! numo's own configuration; nothing here asks anything.

use super::state::{Begun, Inner, unavailable};
use crate::runners::wasm::Fault;
use numo_api::Reason;
use numo_plugin::{
    COMPILE_VERB, Compile, Engine, Setup,
    address::AddressRange,
    fetch::{Direct, FetchSetup},
    services::{Credential, Fetch, Prometheus},
};
use std::sync::{Arc, PoisonError};

impl Inner {
    /// On the engine's own runtime, once there is one: what a component makes it do holds up nobody else.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        match engine.as_ref().and_then(|begun| begun.engine.handle()) {
            Some(runtime) => drop(runtime.spawn(work)),
            None => drop(tokio::spawn(work)),
        }
    }

    pub(super) fn engine(&self) -> Result<Begun, Fault> {
        let mut begun = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = &*begun {
            return Ok(begun.clone());
        }
        // One that cannot begin now may another time.
        let new = self.begin().map_err(|message| {
            let message = format!("rules cannot be run here: {message}");
            (Reason::RuleUnavailable, message)
        })?;
        *begun = Some(new.clone());
        Ok(new)
    }

    fn begin(&self) -> Result<Begun, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let setup = |cache| Setup {
            compile: Compile::Child {
                program: program.clone(),
                arguments: vec![COMPILE_VERB.to_owned()],
            },
            cache,
            ..Setup::default()
        };
        let engine = match Engine::new(setup(self.options.cache.clone())) {
            Err(numo_plugin::SetupError::Io(error)) if self.options.cache.is_some() => {
                tracing::warn!(%error, "the cache of rules cannot be used: each start compiles again");
                Engine::new(setup(None))
            }
            engine => engine,
        }
        .map_err(|error| error.to_string())?;
        let direct = |trusted: &[u8]| {
            let setup = FetchSetup {
                cluster: self.options.cluster_networks.clone(),
                proxies: self.options.artifacts.proxies.clone(),
                loopback: self.options.reach_loopback,
                ..FetchSetup::trusting(trusted)?
            };
            let direct = Direct::new(setup).map_err(|error| error.to_string())?;
            Ok::<_, String>(Arc::new(direct) as Arc<dyn Fetch>)
        };
        let server = self.options.prometheus.as_ref();
        let private = server.map_or(&[][..], |server| &server.authorities);
        Ok(Begun {
            engine,
            fetch: direct(&[])?,
            prometheus: direct(private)?,
        })
    }

    /// Addresses of pods, services and nodes. None while the API server has not said which.
    pub(super) fn cluster_networks(&self) -> Option<Arc<[AddressRange]>> {
        let networks = &self.options.cluster_networks;
        networks.are_known().then(|| networks.all())
    }

    /// Whether rules may read Secrets.
    pub(super) fn lends_secrets(&self) -> bool {
        self.options.secrets
    }

    /// Whether numo was told of a Prometheus.
    pub(super) fn knows_prometheus(&self) -> bool {
        self.options.prometheus.is_some()
    }

    /// The Prometheus that rules may be granted, with its credential of now.
    pub(super) fn prometheus(&self, begun: &Begun) -> Result<Option<Prometheus>, Fault> {
        let Some(server) = &self.options.prometheus else {
            return Ok(None);
        };
        let token = server.token.as_ref().map(|path| {
            let token = std::fs::read_to_string(path);
            token.map_err(|error| unavailable(format!("--prometheus-token-file {}: {error}", path.display())))
        });
        let credential = token.transpose()?.map(|token| Credential {
            header: "authorization".to_owned(),
            value: format!("Bearer {}", token.trim()),
        });
        Ok(Some(Prometheus {
            url: server.url.clone(),
            fetch: begun.prometheus.clone(),
            credential,
        }))
    }
}
