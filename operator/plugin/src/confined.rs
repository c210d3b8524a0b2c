//! A child process of this binary that does what a stranger's input may make slow, large or fatal. It bounds itself
//! before it reads that input; here its time and its answer are bounded from outside. It knows nothing of what is done.

use std::{
    io::{self, BufRead, Read as _},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[cfg(all(target_os = "linux", feature = "sandbox"))]
use crate::jail;
#[cfg(not(all(target_os = "linux", feature = "sandbox")))]
use crate::unjailed as jail;

/// Bytes of what a child says on standard error that are kept.
const WORDS: u64 = 4096;
/// Bytes of the first line of its input at most.
const LINE: u64 = 64 * 1024;
/// What the allocator of the binary sets aside at a time, in its own words (mimalloc: `MIMALLOC_ARENA_RESERVE`). It would set a
/// gibibyte of address space aside at the start, which is more than a child may have.
const ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "16MiB");

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With success, having written this.
    Answered(Vec<u8>),
    /// Not in time.
    TooSlow,
    /// It wrote more than it may.
    TooMuch,
    /// Otherwise; how, and what it said.
    Died(String),
}

/// Runs `program` with `arguments`; it gets one line and the rest on standard input, and answers on standard output with
/// at most `most` bytes.
///
/// Errors: it could not be run, or this system has nothing to shut it in with.
pub async fn ask(
    program: &Path,
    arguments: &[String],
    (line, rest): (&[u8], &[u8]),
    most: u64,
    time: Duration,
) -> io::Result<Ended> {
    jail::has_walls()?;
    let mut child = start(program, arguments)?;
    let (Some(mut input), Some(output), Some(words)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes"));
    };
    let write = async {
        // A child that dies early closes its end: its exit status says more than this error.
        let _ = input.write_all(line).await;
        let _ = input.write_all(b"\n").await;
        let _ = input.write_all(rest).await;
        drop(input);
    };
    let (mut answer, mut said) = (Vec::new(), Vec::new());
    let (mut output, mut words) = (output.take(most.saturating_add(1)), words.take(WORDS));
    let exchange = async {
        let ((), read, _) = tokio::join!(
            write,
            output.read_to_end(&mut answer),
            words.read_to_end(&mut said)
        );
        read?;
        // A child that still writes beyond what is read would never end.
        if answer.len() as u64 > most {
            child.start_kill()?;
        }
        child.wait().await
    };
    // The processor's seconds are bounded in the child; those of the clock here.
    let status = match tokio::time::timeout(time, exchange).await {
        Ok(status) => status?,
        Err(_) => return Ok(Ended::TooSlow),
    };
    if answer.len() as u64 > most {
        return Ok(Ended::TooMuch);
    }
    if status.success() {
        return Ok(Ended::Answered(answer));
    }
    if spent_its_time(status) {
        return Ok(Ended::TooSlow);
    }
    let said = String::from_utf8_lossy(&said);
    Ok(Ended::Died(format!("ended with {status}: {}", said.trim())))
}

/// Starts the program with three pipes and nothing of this process's environment.
fn start(program: &Path, arguments: &[String]) -> io::Result<tokio::process::Child> {
    tokio::process::Command::new(program)
        .args(arguments)
        .env_clear()
        .env(ARENA.0, ARENA.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Whether the kernel ended it at its limit of processor seconds: the soft one or the hard one.
#[cfg(unix)]
fn spent_its_time(status: ExitStatus) -> bool {
    const SIGXCPU: i32 = 24;
    const SIGKILL: i32 = 9;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    matches!(signal, Some(SIGXCPU | SIGKILL))
}

/// The same where there are no signals.
#[cfg(not(unix))]
fn spent_its_time(_: ExitStatus) -> bool {
    false
}

/// The first line of a child's input, which says how it must bound itself. What is buffered behind it is not looked at.
pub fn first_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

/// The walls around a child that this machine's kernel does not offer in full, and what that leaves open, in words: none on one
/// that has seccomp and the Landlock that is asked for.
pub fn missing() -> Vec<String> {
    jail::missing()
}

/// Bounds this process for the rest of its life: bytes of address space, seconds of the processor, no core files, low
/// priority; and it opens, connects to and starts nothing any more (`jail.rs`). For the first thread of a process, before
/// there is another.
///
/// Errors: a bound that the kernel offers could not be set.
#[cfg(all(target_os = "linux", feature = "sandbox"))]
pub fn confine(memory_bytes: u64, seconds: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, nice, setrlimit};
    let set = |resource, soft: u64, hard: u64| {
        let limit = Rlimit {
            current: Some(soft),
            maximum: Some(hard),
        };
        setrlimit(resource, limit)
    };
    set(Resource::Core, 0, 0)?;
    set(Resource::As, memory_bytes, memory_bytes)?;
    set(Resource::Cpu, seconds, seconds + 1)?;
    nice(10)?;
    jail::enter()
}

/// Bounds nothing.
///
/// Errors: always, so that nothing of a stranger's is read.
#[cfg(not(all(target_os = "linux", feature = "sandbox")))]
pub fn confine(_: u64, _: u64) -> io::Result<()> {
    jail::has_walls()
}
