//! Compiles components. A compiler fed by strangers is where wasmtime promises the least (it calls denial of service
//! while compiling no vulnerability), so it runs in a child process with bounded memory, time and priority, one at a
//! time, and what failed once is not tried again for a while. It does not judge components: `inspect` has done that.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    path::Path,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    confined::{self, Ended},
    engine::{Compile, config},
    limits::Limits,
    reason::{Reason, Refused},
};

/// How long a component that did not compile is not tried again.
const REMEMBERED: Duration = Duration::from_mins(10);
/// How many such components are remembered.
const MOST_REMEMBERED: usize = 256;
/// The first byte of the child's answer.
const DONE: u8 = b'1';
const FAILED: u8 = b'0';

/// Compiles one component at a time.
pub(crate) struct Compiler {
    place: Compile,
    one: tokio::sync::Mutex<()>,
    failed: Mutex<BTreeMap<String, (Instant, Refused)>>,
}

impl Compiler {
    pub(crate) fn new(place: Compile) -> Self {
        Self {
            place,
            one: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Waits for its turn. `cached` is asked once it has it: another may have compiled the same meanwhile.
    pub(crate) async fn compile(
        &self,
        digest: &str,
        bytes: &[u8],
        limits: &Limits,
        cached: impl Fn() -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Refused> {
        self.remembered(digest)?;
        let _turn = self.one.lock().await;
        self.remembered(digest)?;
        if let Some(compiled) = cached() {
            return Ok(compiled);
        }
        let compiled = match &self.place {
            Compile::Here => here(bytes, limits).await,
            Compile::Child { program, arguments } => child(program, arguments, bytes, limits).await,
        };
        compiled.map_err(|failure| match failure {
            Failure::OfComponent(refused) => {
                self.remember(digest, &refused);
                refused
            }
            Failure::OfCompiler(refused) => refused,
        })
    }

    fn remembered(&self, digest: &str) -> Result<(), Refused> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.get(digest) {
            Some((when, refused)) if when.elapsed() < REMEMBERED => Err(refused.clone()),
            _ => Ok(()),
        }
    }

    fn remember(&self, digest: &str, refused: &Refused) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, (when, _)| when.elapsed() < REMEMBERED);
        if failed.len() >= MOST_REMEMBERED {
            let oldest = failed
                .iter()
                .min_by_key(|(_, (when, _))| *when)
                .map(|(digest, _)| digest.clone());
            oldest.and_then(|digest| failed.remove(&digest));
        }
        failed.insert(digest.to_owned(), (Instant::now(), refused.clone()));
    }
}

/// Whose failure it was: what the compiler itself could not do says nothing of the component.
enum Failure {
    OfComponent(Refused),
    OfCompiler(Refused),
}

fn too_slow(limits: &Limits) -> Failure {
    Failure::OfComponent(Refused::new(
        Reason::CompileTimeout,
        format!("compiling took longer than {} s", limits.compile_seconds),
    ))
}

fn did_not(message: impl AsRef<str>) -> Failure {
    Failure::OfComponent(Refused::new(Reason::CompileFailed, message))
}

fn does_not_run(error: &dyn std::fmt::Display) -> Failure {
    Failure::OfCompiler(Refused::new(
        Reason::CompileFailed,
        format!("the compiler does not run: {error}"),
    ))
}

/// In this process: what exceeds its time goes on in the background.
async fn here(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, Failure> {
    let (bytes, of_task) = (bytes.to_vec(), limits.clone());
    let task = tokio::task::spawn_blocking(move || precompile(&bytes, &of_task));
    match tokio::time::timeout(Duration::from_secs(limits.compile_seconds), task).await {
        Ok(Ok(compiled)) => compiled.map_err(did_not),
        Ok(Err(error)) => Err(does_not_run(&error)),
        Err(_) => Err(too_slow(limits)),
    }
}

fn precompile(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, String> {
    let engine = wasmtime::Engine::new(&config(limits)).map_err(|error| format!("{error:#}"))?;
    engine
        .precompile_component(bytes)
        .map_err(|error| format!("{error:#}"))
}

/// In a child: limits as one line of JSON and the component go in, the compiled form comes out.
async fn child(
    program: &Path,
    arguments: &[String],
    bytes: &[u8],
    limits: &Limits,
) -> Result<Vec<u8>, Failure> {
    let line = serde_json::to_vec(limits).map_err(|error| does_not_run(&error))?;
    let most = limits.compiled_bytes.saturating_add(1);
    let time = Duration::from_secs(limits.compile_seconds);
    let ended = confined::ask(program, arguments, (&line, bytes), most, time).await;
    match ended.map_err(|error| does_not_run(&error))? {
        Ended::TooSlow => Err(too_slow(limits)),
        Ended::TooMuch => {
            let message = format!("the compiled form has more than {} bytes", limits.compiled_bytes);
            Err(Failure::OfComponent(Refused::new(Reason::TooLarge, message)))
        }
        Ended::Died(words) => {
            let memory = limits.compile_memory_bytes;
            Err(did_not(format!(
                "the compiler {words} (it may use {memory} bytes)"
            )))
        }
        Ended::Answered(answer) => match answer.split_first() {
            Some((&DONE, compiled)) => Ok(compiled.to_vec()),
            Some((_, message)) => Err(did_not(String::from_utf8_lossy(message))),
            None => Err(did_not("the compiler answered nothing")),
        },
    }
}

/// The whole of the child process: reads limits and component from standard input, bounds itself, compiles, writes
/// the answer to standard output. To be called from a hidden subcommand, before anything else is set up.
pub fn compile_child() -> ExitCode {
    let answer = match compile_input() {
        Ok(compiled) => [&[DONE], compiled.as_slice()].concat(),
        Err(message) => [&[FAILED], message.as_bytes()].concat(),
    };
    let mut output = io::stdout().lock();
    match output.write_all(&answer).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn compile_input() -> Result<Vec<u8>, String> {
    let mut input = io::stdin().lock();
    let line = confined::first_line(&mut input).map_err(|error| error.to_string())?;
    let limits: Limits = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
    confined::confine(limits.compile_memory_bytes, limits.compile_seconds)
        .map_err(|error| format!("the compiler cannot bound itself: {error}"))?;
    let mut bytes = Vec::new();
    let most = limits.component_bytes.saturating_add(1);
    input
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limits.component_bytes {
        return Err(format!(
            "the component has more than {} bytes",
            limits.component_bytes
        ));
    }
    precompile(&bytes, &limits)
}
