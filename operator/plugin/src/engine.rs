//! The engine: one configuration of wasmtime, one ticker, one runtime of its own for evaluations, and the linker with
//! what this host lends.

use std::{
    cell::Cell,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::ready,
};

use sha2::{Digest, Sha256};
use wasmtime::{InstanceAllocationStrategy, PoolingAllocationConfig, component::Linker};

use crate::{
    bindings,
    cache::Cache,
    compile::Compiler,
    host::{self, Sandbox},
    inspect,
    limits::Limits,
    provider::bindings as provider_bindings,
    setup::{Setup, SetupError, config},
    shares::{Share, Shares},
    ticker::Ticker,
};

/// Loads rules and evaluates them. A cheap handle; all clones are one engine.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) wasmtime: wasmtime::Engine,
    /// What rules are lent.
    pub(crate) linker: Linker<Sandbox>,
    /// What providers of machines are lent.
    pub(crate) provider_linker: Linker<Sandbox>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) ceilings: Limits,
    pub(crate) compiler: Compiler,
    pub(crate) cache: Option<Cache>,
    pub(crate) turns: Turns,
    /// Memory of components while they are loaded and describe themselves, in MiB.
    pub(crate) loading: Shares,
    pub(crate) ticker: Ticker,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Least memory that an evaluation counts for (MiB): it bounds how many there are at once, asleep or not.
const LEAST_MIB: u64 = 16;

/// Who may be asked now: so many at one time, and together of so much memory; of both a share for each tenant.
#[derive(Clone)]
pub(crate) struct Turns {
    places: Shares,
    /// In MiB.
    memory: Shares,
}

/// The turn of one evaluation; over when dropped.
#[derive(Debug)]
pub struct Turn {
    tenant: String,
    /// None while it sleeps.
    place: Option<Share>,
    /// Kept while it sleeps, since what it has in memory stays there. So three tenants whose rules sleep with as much as a rule may have
    /// take up all of the default, and those of a fourth wait until one of them ends: at most `evaluation_seconds`, and then
    /// they are served before those that sleep again. A fixed quarter for each tenant would make it four tenants, and halve what
    /// one alone has.
    _memory: Share,
}

impl Turns {
    fn new(limits: &Limits) -> Self {
        Self {
            places: Shares::new(limits.concurrent_evaluations),
            memory: Shares::new(limits.concurrent_memory_bytes >> 20),
        }
    }

    /// Waits for the turn of what may have so many bytes.
    pub(crate) async fn take(&self, tenant: &str, memory_bytes: u64) -> Turn {
        // What may have more than all together is asked alone.
        let mib = memory_bytes.div_ceil(1 << 20).max(LEAST_MIB);
        Turn {
            tenant: tenant.to_owned(),
            _memory: self.memory.take(tenant, mib).await,
            place: Some(self.places.take(tenant, 1).await),
        }
    }

    /// Does the work of a turn. Whenever it waits, for the time or for an answer, its place is free; it goes on once it has one
    /// again. At a tick, when others compute for a moment, it keeps its place.
    pub(crate) async fn work<T>(&self, mut turn: Turn, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let tenant = turn.tenant.clone();
        let mut again = None;
        let work = poll_fn(|context| {
            if turn.place.is_none() {
                let place = again.get_or_insert_with(|| Box::pin(self.places.take(&tenant, 1)));
                turn.place = Some(ready!(place.as_mut().poll(context)));
                again = None;
            }
            let polled = work.as_mut().poll(context);
            if !TICKED.with(|ticked| ticked.replace(false)) {
                turn.place = None;
            }
            polled
        });
        TICKED.scope(Cell::new(false), work).await
    }
}

tokio::task_local! {
    /// Whether what is polled stopped at a tick.
    static TICKED: Cell<bool>;
}

/// Says that the work that is polled now stops at a tick.
pub(crate) fn tick() {
    // Outside of a turn nobody counts.
    let _ = TICKED.try_with(|ticked| ticked.set(true));
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the ticker and the runtime; nothing is loaded yet.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        setup.ceilings.within(&Limits::CEILINGS)?;
        setup.limits.within(&setup.ceilings)?;
        let refused = |error: wasmtime::Error| SetupError::Wasmtime(format!("{error:#}"));
        let on_demand = || wasmtime::Engine::new(&config(&setup.limits));
        let wasmtime = if setup.pooled {
            // An address space that is capped (`ulimit -v`) has no room for the pool.
            wasmtime::Engine::new(config(&setup.limits).allocation_strategy(pool(&setup)))
                .or_else(|_| on_demand())
        } else {
            on_demand()
        }
        .map_err(refused)?;
        let mut linker = Linker::new(&wasmtime);
        bindings::Rule::add_to_linker::<_, wasmtime::component::HasSelf<_>>(
            &mut linker,
            |sandbox: &mut Sandbox| sandbox,
        )
        .and_then(|()| host::wasi::link(&mut linker))
        .map_err(refused)?;
        let provider_linker = provider_bindings::linker(&wasmtime).map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(setup.workers.max(1))
            .thread_name("numo-rules")
            .enable_all()
            .build()?;
        let hash = compatibility(&wasmtime);
        let cache = setup
            .cache
            .map(|folder| Cache::open(folder, setup.limits.cache_bytes, &hash))
            .transpose()?;
        let turns = Turns::new(&setup.limits);
        Ok(Self(Arc::new(Inner {
            ticker: Ticker::start(&wasmtime)?,
            compiler: Compiler::new(setup.compile),
            cache,
            turns,
            loading: Shares::new((2 * setup.limits.compiled_bytes) >> 20),
            limits: Arc::new(setup.limits),
            ceilings: setup.ceilings,
            linker,
            provider_linker,
            wasmtime,
            runtime: Some(runtime),
        })))
    }

    /// What rules get that ask for nothing.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// How often the ticker has ticked: it stands while nothing runs.
    pub fn ticks(&self) -> u64 {
        self.0.ticker.ticks()
    }

    /// The runtime that evaluations run on, for what must run beside them (a test's timer).
    pub fn handle(&self) -> Option<&tokio::runtime::Handle> {
        self.0.runtime.as_ref().map(tokio::runtime::Runtime::handle)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An engine may be dropped inside another runtime, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn pool(setup: &Setup) -> InstanceAllocationStrategy {
    // The pool must hold whatever a rule may ask for.
    let most = &setup.ceilings;
    let of = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let count = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
    // Those that sleep have their instance too.
    let components = count((setup.limits.concurrent_memory_bytes >> 20).div_ceil(LEAST_MIB));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(components)
        .total_core_instances(components.saturating_mul(count(setup.limits.instances)))
        .total_memories(components.saturating_mul(2))
        .total_tables(components.saturating_mul(4))
        .total_stacks(components)
        .max_core_instances_per_component(count(setup.limits.instances))
        .max_memories_per_component(count(setup.limits.memories))
        .max_tables_per_component(count(setup.limits.tables))
        .max_memories_per_module(count(setup.limits.memories))
        .max_tables_per_module(count(setup.limits.tables))
        .table_elements(of(setup.limits.table_elements))
        .max_memory_size(of(most.memory_bytes));
    InstanceAllocationStrategy::Pooling(pool)
}

/// Number of the form of what is kept beside a compiled form: 3 has the world.
const KEPT: u32 = 3;

/// What a compiled form must have been made by, so that this engine may run it: version, features, processor.
fn compatibility(engine: &wasmtime::Engine) -> [u8; 32] {
    struct Fixed(Sha256);
    impl std::hash::Hasher for Fixed {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Fixed(Sha256::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
    // What was found out about a component is kept beside its compiled form: another host may find otherwise.
    std::hash::Hash::hash(
        &(
            inspect::LENT,
            inspect::LENT_TO_PROVIDERS,
            inspect::CONTRACT,
            env!("CARGO_PKG_VERSION"),
            KEPT,
        ),
        &mut hasher,
    );
    hasher.0.finalize().into()
}

impl Inner {
    /// None when the runtime is going down.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        self.runtime.as_ref().map(|runtime| runtime.spawn(work))
    }

    /// Whether the caller is on the runtime for evaluations.
    pub(crate) fn is_current(&self) -> bool {
        let current = tokio::runtime::Handle::try_current().map(|handle| handle.id());
        self.runtime
            .as_ref()
            .is_some_and(|runtime| current.is_ok_and(|id| id == runtime.handle().id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, time::Duration};

    /// What is there at once.
    async fn now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn rules_that_sleep_keep_their_memory_and_who_has_none_is_next() {
        let turns = Turns::new(&Limits::default());
        let most = Limits::CEILINGS.memory_bytes;
        let mut sleepers = Vec::new();
        let mut waiting = Vec::new();
        for tenant in ["a", "b", "c"] {
            loop {
                let mut turn = Box::pin(turns.take(tenant, most));
                let Some(turn) = now(&mut turn).await else {
                    waiting.push(turn);
                    break;
                };
                let mut work = Box::pin(turns.work(turn, pending::<()>()));
                assert!(now(&mut work).await.is_none());
                sleepers.push((tenant, work));
            }
        }
        let asleep: Vec<_> = sleepers.iter().map(|(tenant, _)| *tenant).collect();
        assert_eq!(asleep, ["a", "a", "b", "c"], "half, a quarter, and what is left");
        // No place is taken, and no memory is left.
        let mut fourth = Box::pin(turns.take("d", 1));
        assert!(now(&mut fourth).await.is_none());
        drop(sleepers.remove(0));
        assert!(
            now(&mut fourth).await.is_some(),
            "it has waited behind nobody of its own"
        );
        for one in &mut waiting {
            assert!(now(one).await.is_none(), "who has a share waits");
        }
    }
}
