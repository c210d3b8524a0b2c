//! A component without what this host is for: on the engine's own wasmtime, with a fresh store and a cached pre-instance,
//! but no limit, no grant, and host functions that answer with nothing. It is what `cargo xtask bench` compares
//! [`crate::Rule::evaluate`] with, so it gives no verdict: nobody can be let go by it.

use wasmtime::{
    Store,
    component::{Component, HasSelf, Linker},
};

use crate::{
    Engine, Input,
    bindings::{self, RulePre, exports::numo::rule::evaluation as rule, numo::host},
};

/// A component that nothing bounds. Not a stable interface.
pub struct Bare {
    engine: wasmtime::Engine,
    pre: RulePre<Empty>,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl Bare {
    /// Compiles in this process, for the engine's own configuration. Components that import WASI do not link.
    pub fn new(engine: &Engine, bytes: &[u8]) -> Result<Self, String> {
        let text = |error: wasmtime::Error| format!("{error:#}");
        let engine = engine.0.wasmtime.clone();
        let mut linker = Linker::<Empty>::new(&engine);
        bindings::Rule::add_to_linker::<_, HasSelf<_>>(&mut linker, |empty: &mut Empty| empty)
            .map_err(text)?;
        let component = Component::new(&engine, bytes).map_err(text)?;
        let pre = linker
            .instantiate_pre(&component)
            .and_then(RulePre::new)
            .map_err(text)?;
        Ok(Self { engine, pre })
    }

    /// One call of `evaluate`. Says only whether it came back.
    pub async fn evaluate(&self, input: Input) -> Result<(), String> {
        let mut store = Store::new(&self.engine, Empty);
        // The engine interrupts by epochs: without a deadline far away the first instruction would be too late.
        store.set_epoch_deadline(1 << 40);
        let input: rule::Input = input.into();
        let call = async {
            let guest = self.pre.instantiate_async(&mut store).await?;
            guest
                .numo_rule_evaluation()
                .call_evaluate(&mut store, &input)
                .await
        };
        match call.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("{error:?}")),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

/// Answers nothing, checks nothing.
struct Empty;

impl host::types::Host for Empty {}

impl host::log::Host for Empty {
    fn write(&mut self, _: host::log::Level, _: String, _: Vec<(String, String)>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl host::clock::Host for Empty {
    fn now(&mut self) -> wasmtime::Result<host::clock::Instant> {
        Ok(host::clock::Instant {
            seconds: 0,
            nanoseconds: 0,
        })
    }

    fn parse_rfc3339(&mut self, _: String) -> wasmtime::Result<Option<host::clock::Instant>> {
        Ok(None)
    }
}

impl host::history::Host for Empty {
    fn entries(&mut self, _: u32) -> wasmtime::Result<Result<Vec<host::history::Entry>, host::types::Error>> {
        Ok(Ok(Vec::new()))
    }
}

type Found = Result<Option<String>, host::types::Error>;

impl host::kubernetes::Host for Empty {
    async fn get_object(
        &mut self,
        _: host::types::ObjectRef,
        _: host::kubernetes::Projection,
    ) -> wasmtime::Result<Found> {
        Ok(Ok(Some("{}".to_owned())))
    }

    async fn list_objects(
        &mut self,
        _: host::kubernetes::ListQuery,
    ) -> wasmtime::Result<Result<host::kubernetes::Page, host::types::Error>> {
        Ok(Ok(host::kubernetes::Page {
            items: Vec::new(),
            continue_token: None,
        }))
    }
}

impl host::http::Host for Empty {
    async fn fetch(
        &mut self,
        _: host::http::Request,
    ) -> wasmtime::Result<Result<host::http::Response, host::types::Error>> {
        Ok(Ok(host::http::Response {
            status: 200,
            headers: Vec::new(),
            body: Vec::new(),
        }))
    }
}

impl host::prometheus::Host for Empty {
    async fn query(
        &mut self,
        _: String,
    ) -> wasmtime::Result<Result<host::prometheus::Answer, host::types::Error>> {
        Ok(Ok(host::prometheus::Answer {
            samples: Vec::new(),
            warnings: Vec::new(),
        }))
    }
}
