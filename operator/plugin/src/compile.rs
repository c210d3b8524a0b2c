//! Inspects and compiles components. A validator and a compiler fed by strangers are where wasmtime promises the least (it calls denial of
//! service while compiling no vulnerability), so both run in a child process with bounded memory, time and priority, one at a time, and
//! what failed once is not tried again for a while. In the operator's own process nothing of a component is parsed.

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
    inspect::{Inspection, inspect},
    limits::Limits,
    reason::{Reason, Refused},
    setup::{Compile, config},
    shares::Shares,
};

/// How long a component that did not compile is not tried again.
const REMEMBERED: Duration = Duration::from_mins(10);
/// How many such components are remembered.
const MOST_REMEMBERED: usize = 256;
/// The first byte of the child's answer: then follow the length of the type as four bytes, little end first, the type as JSON, and the
/// compiled form; or why it was refused, as JSON.
const DONE: u8 = b'1';
const REFUSED: u8 = b'0';
/// Bytes of the type as JSON at most.
const INSPECTION: u64 = 256 * 1024;

/// What a component is, and its compiled form.
pub(crate) type Compiled = (Inspection, Vec<u8>);

/// Compiles one component at a time.
pub(crate) struct Compiler {
    place: Compile,
    one: Shares,
    failed: Mutex<BTreeMap<String, (Instant, Refused)>>,
}

impl Compiler {
    pub(crate) fn new(place: Compile) -> Self {
        Self {
            place,
            one: Shares::new(1),
            failed: Mutex::default(),
        }
    }

    /// Waits for its turn, which the tenants have one after the other. `cached` is asked once it has it: another may have compiled the same meanwhile.
    pub(crate) async fn compile(
        &self,
        (tenant, digest): (&str, &str),
        bytes: &[u8],
        limits: &Limits,
        cached: impl Fn() -> Option<Compiled>,
    ) -> Result<Compiled, Refused> {
        self.remembered(digest)?;
        let _turn = self.one.take(tenant, 1).await;
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
async fn here(bytes: &[u8], limits: &Limits) -> Result<Compiled, Failure> {
    let (bytes, of_task) = (bytes.to_vec(), limits.clone());
    let task = tokio::task::spawn_blocking(move || made(&bytes, &of_task));
    match tokio::time::timeout(Duration::from_secs(limits.compile_seconds), task).await {
        Ok(Ok(compiled)) => compiled.map_err(Failure::OfComponent),
        Ok(Err(error)) => Err(does_not_run(&error)),
        Err(_) => Err(too_slow(limits)),
    }
}

/// Type and compiled form of a component.
fn made(bytes: &[u8], limits: &Limits) -> Result<Compiled, Refused> {
    let failed = |error: wasmtime::Error| Refused::new(Reason::CompileFailed, format!("{error:#}"));
    let inspection = inspect(bytes, limits)?;
    let engine = wasmtime::Engine::new(&config(limits)).map_err(failed)?;
    let compiled = engine.precompile_component(bytes).map_err(failed)?;
    Ok((inspection, compiled))
}

/// In a child: limits as one line of JSON and the component go in, its type and the compiled form come out.
async fn child(
    program: &Path,
    arguments: &[String],
    bytes: &[u8],
    limits: &Limits,
) -> Result<Compiled, Failure> {
    let line = serde_json::to_vec(limits).map_err(|error| does_not_run(&error))?;
    let most = limits.compiled_bytes.saturating_add(INSPECTION);
    let time = Duration::from_secs(limits.compile_seconds);
    let ended = confined::ask(program, arguments, (&line, bytes), most, time).await;
    let too_large = || {
        let message = format!("the compiled form has more than {} bytes", limits.compiled_bytes);
        Failure::OfComponent(Refused::new(Reason::TooLarge, message))
    };
    match ended.map_err(|error| does_not_run(&error))? {
        Ended::TooSlow => Err(too_slow(limits)),
        Ended::TooMuch => Err(too_large()),
        Ended::Died(words) => {
            let memory = limits.compile_memory_bytes;
            Err(did_not(format!(
                "the compiler {words} (it may use {memory} bytes)"
            )))
        }
        Ended::Answered(answer) => match answer.split_first() {
            Some((&DONE, rest)) => match parts(rest) {
                Some((_, compiled)) if compiled.len() as u64 > limits.compiled_bytes => Err(too_large()),
                Some(compiled) => Ok(compiled),
                None => Err(did_not("the compiler's answer cannot be read")),
            },
            Some((_, refused)) => Err(match serde_json::from_slice::<Refused>(refused) {
                // Its words are cleaned here too: they come from a process that a stranger's bytes went through.
                Ok(Refused { reason, message }) => Failure::OfComponent(Refused::new(reason, message)),
                Err(error) => did_not(format!("the compiler's answer cannot be read: {error}")),
            }),
            None => Err(did_not("the compiler answered nothing")),
        },
    }
}

/// Type and compiled form in an answer, which is what [`answer`] writes.
fn parts(answer: &[u8]) -> Option<Compiled> {
    let (length, rest) = answer.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (inspection, compiled) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(inspection).ok()?, compiled.to_vec()))
}

/// What the child writes.
fn answer(made: Result<Compiled, Refused>) -> Vec<u8> {
    let written = made.and_then(|(inspection, compiled)| {
        let unwritable =
            |error: &dyn std::fmt::Display| Refused::new(Reason::CompileFailed, format!("its type: {error}"));
        let inspection = serde_json::to_vec(&inspection).map_err(|error| unwritable(&error))?;
        if inspection.len() as u64 >= INSPECTION {
            let message = format!(
                "its type has {} bytes of JSON, the limit is {INSPECTION}",
                inspection.len()
            );
            return Err(Refused::new(Reason::TooLarge, message));
        }
        let length = u32::try_from(inspection.len()).map_err(|error| unwritable(&error))?;
        Ok([&[DONE], &length.to_le_bytes()[..], &inspection, &compiled].concat())
    });
    written.unwrap_or_else(|refused| {
        let words = serde_json::to_vec(&refused).unwrap_or_default();
        [&[REFUSED], words.as_slice()].concat()
    })
}

/// The whole of the child process: reads limits and component from standard input, bounds itself, inspects, compiles, writes
/// the answer to standard output. To be called from a hidden subcommand, before anything else is set up.
pub fn compile_child() -> ExitCode {
    let answer = answer(compile_input());
    let mut output = io::stdout().lock();
    match output.write_all(&answer).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn compile_input() -> Result<Compiled, Refused> {
    let failed = |error: &dyn std::fmt::Display| Refused::new(Reason::CompileFailed, error.to_string());
    let mut input = io::stdin().lock();
    let line = confined::first_line(&mut input).map_err(|error| failed(&error))?;
    let limits: Limits = serde_json::from_slice(&line).map_err(|error| failed(&error))?;
    confined::confine(limits.compile_memory_bytes, limits.compile_seconds)
        .map_err(|error| failed(&format!("the compiler cannot bound itself: {error}")))?;
    let mut bytes = Vec::new();
    let most = limits.component_bytes.saturating_add(1);
    input
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    made(&bytes, &limits)
}
