//! One call of a component, under all limits: a fresh store from the cached pre-instance, on the engine's own runtime,
//! with a deadline before the first instruction (start functions included). What it answers after a limit was hit is
//! not used. What is asked is not known here.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{Store, UpdateDeadline};

use crate::{
    engine::{Inner, Turn, tick},
    grants::Grants,
    host::Sandbox,
    limits::Limits,
    reason::{Exceeded, Reason, Refused, of_error},
    services::Services,
};

/// How long after its deadline a call is given up that hangs in the host, where no tick reaches it.
const GRACE: Duration = Duration::from_secs(1);

/// The tenant of what components are asked while they are loaded: it holds up no evaluation.
pub(crate) const LOADING: &str = "";

/// Waits for the turn of what may have so many bytes.
pub(crate) async fn turn(engine: &Inner, tenant: &str, memory_bytes: u64) -> Turn {
    engine.turns.take(tenant, memory_bytes).await
}

fn gone() -> Refused {
    Refused::new(Reason::Trap, "the rule engine has stopped")
}

/// Runs on the engine's runtime, in a turn that ends with it. Aborted when the caller goes away. Who already is on that
/// runtime need not change threads.
pub(crate) async fn on_own_runtime<T: Send + 'static>(
    engine: &Arc<Inner>,
    turn: Turn,
    work: impl Future<Output = Result<T, Refused>> + Send + 'static,
) -> Result<T, Refused> {
    struct Abort(tokio::task::AbortHandle);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    if engine.is_current() {
        return engine.turns.work(turn, work).await;
    }
    let turns = engine.turns.clone();
    let task = engine.spawn(async move { turns.work(turn, work).await });
    let task = task.ok_or_else(gone)?;
    let _abort = Abort(task.abort_handle());
    task.await.map_err(|error| {
        Refused::new(
            Reason::Trap,
            format!("the evaluation ended unexpectedly: {error}"),
        )
    })?
}

/// A store with every limit set before anything of the component runs.
pub(crate) fn store(
    engine: &Inner,
    (limits, state_bytes): (Arc<Limits>, u64),
    deadline: Instant,
    granted: Option<(Arc<Grants>, Services)>,
) -> Store<Sandbox> {
    let of = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let (transfer, handles) = (of(limits.transfer_bytes), of(limits.handles));
    let mut store = Store::new(
        &engine.wasmtime,
        Sandbox::new(limits, state_bytes, deadline, granted),
    );
    store.limiter(|sandbox| &mut sandbox.limiter);
    store.set_hostcall_fuel(transfer);
    store.set_max_component_handles(handles);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        Ok(if Instant::now() >= context.data().deadline {
            UpdateDeadline::Interrupt
        } else {
            // At every tick others get their turn, in tokio's own way: waking itself would starve the timers.
            tick();
            UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
        })
    });
    store
}

/// Has a component instantiated and called, within `time`, and finds the reason when that fails.
pub(crate) async fn bounded<T>(
    engine: &Inner,
    store: &mut Store<Sandbox>,
    time: Duration,
    call: impl AsyncFnOnce(&mut Store<Sandbox>) -> wasmtime::Result<T>,
) -> Result<T, Refused> {
    if let Some(exceeded) = store.data().limiter.exceeded_by_state() {
        return Err(exceeded.into());
    }
    let _ticking = engine.ticker.run();
    let outcome = tokio::time::timeout(time + GRACE, call(&mut *store)).await;
    let sandbox = store.data();
    match outcome {
        Err(_) => Err(Refused::new(
            Reason::EvaluationTimeout,
            format!("no answer within {} s, in a host call", time.as_secs()),
        )),
        Ok(Err(error)) => Err(explain(&error, sandbox)),
        // A component that was refused memory or calls and goes on to a verdict has not seen all it wanted to see.
        Ok(Ok(answer)) => match sandbox.exceeded() {
            Some(exceeded) => Err(exceeded.clone().into()),
            None => Ok(answer),
        },
    }
}

fn explain(error: &wasmtime::Error, sandbox: &Sandbox) -> Refused {
    let refused = of_error(error);
    // A guest that is refused memory dies of `unreachable`: the limit is the reason, not its death.
    if refused.reason == Reason::Trap
        && let Some(Exceeded { reason, message }) = sandbox.exceeded()
    {
        return Refused::new(*reason, message);
    }
    match sandbox.output.tail() {
        tail if tail.is_empty() || refused.reason != Reason::Trap => refused,
        tail => Refused::new(refused.reason, format!("{tail} ({})", refused.message)),
    }
}
