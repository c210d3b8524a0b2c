//! The clock that can stop a component: one thread that advances the engine's epoch each [`TICK`] while something
//! runs, and sleeps while nothing does. A thread of its own, because a busy async runtime must not delay it; and it
//! never catches up on missed ticks, because a loaded machine must not shorten anyone's time.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::limits::TICK;

/// Owns the thread; it ends with this.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The thread waits for something to run: only then it has to be woken, which costs more than a short call.
    asleep: bool,
    stop: bool,
    ticks: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    pub(crate) fn start(engine: &wasmtime::Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (weak, of_thread) = (engine.weak(), shared.clone());
        let thread = thread::Builder::new()
            .name("numo-rule-ticker".into())
            .spawn(move || {
                loop {
                    let mut state = of_thread.lock();
                    state.asleep = true;
                    let idle = |state: &mut State| state.running == 0 && !state.stop;
                    let state = of_thread.changed.wait_while(state, idle);
                    let mut state = state.unwrap_or_else(PoisonError::into_inner);
                    state.asleep = false;
                    let waited = of_thread
                        .changed
                        .wait_timeout_while(state, TICK, |state| !state.stop);
                    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                    let (false, Some(engine)) = (state.stop, weak.upgrade()) else {
                        return;
                    };
                    state.ticks += 1;
                    drop(state);
                    engine.increment_epoch();
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Ticks go on until the answer is dropped.
    pub(crate) fn run(&self) -> Running {
        let mut state = self.shared.lock();
        state.running += 1;
        let asleep = state.asleep;
        drop(state);
        if asleep {
            self.shared.changed.notify_all();
        }
        Running(self.shared.clone())
    }

    /// How often it ticked since it was started.
    pub(crate) fn ticks(&self) -> u64 {
        self.shared.lock().ticks
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// While one of these lives, the ticker ticks.
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}
