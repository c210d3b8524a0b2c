//! A child that was taken over: it tries whatever the children of the operator must not, and names on standard output what
//! went through, and before that which walls are missing. The first argument is `confined`, `free`, or `without` and a wall: then
//! the kernel answers as one that does not have it. The second is a file, the third an address on loopback.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixDatagram,
    process::{Command, ExitCode},
};

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Has the kernel not know a wall, for this process: by a filter of its own, below all that is set later. So the operator's code needs
/// no switch that leaves a wall out.
fn leave_out(wall: &str) -> io::Result<()> {
    let of_prctl = |option: i32| {
        let option = u64::from(option.unsigned_abs());
        let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, option)?;
        SeccompRule::new(vec![is_it])
    };
    let build = || -> Result<seccompiler::BpfProgram, seccompiler::BackendError> {
        let unknown = match wall {
            "landlock" => BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]),
            _ => BTreeMap::from([
                (libc::SYS_seccomp, Vec::new()),
                (
                    libc::SYS_prctl,
                    vec![of_prctl(libc::PR_GET_SECCOMP)?, of_prctl(libc::PR_SET_SECCOMP)?],
                ),
            ]),
        };
        let answer = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let processor = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(unknown, SeccompAction::Allow, answer, processor)?.try_into()
    };
    let filter = build().map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

// As the operator's binary has it: what a child may ask of the kernel must do for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, how, file, address] = arguments.as_slice() else {
        return ExitCode::FAILURE;
    };
    let mut missing = Vec::new();
    if how != "free" {
        let left_out = how.strip_prefix("without ").map_or(Ok(()), leave_out);
        missing = numo_plugin::confined::missing();
        if let Err(error) = left_out.and_then(|()| numo_plugin::confined::confine(1 << 30, 20)) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    let own = nix::unistd::getpid();
    let attempts = [
        ("reads", std::fs::read(file).is_ok()),
        ("writes", std::fs::write(format!("{file}.new"), "x").is_ok()),
        ("lists", std::fs::read_dir("/proc/self").is_ok()),
        ("connects", TcpStream::connect(address).is_ok()),
        ("binds", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("pairs", UnixDatagram::pair().is_ok()),
        ("starts", Command::new("/bin/true").spawn().is_ok()),
        (
            "looks at its parent",
            nix::sys::signal::kill(nix::unistd::getppid(), None).is_ok(),
        ),
        ("changes its group", nix::unistd::setpgid(own, own).is_ok()),
    ];
    // What a compiler needs goes on.
    let memory = vec![1_u8; 64 << 20];
    let threads = std::thread::Builder::new().spawn(|| ()).is_ok();
    let mut output = std::io::stdout().lock();
    for wall in missing {
        if writeln!(output, "missing: {wall}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    for (name, went) in attempts.into_iter().chain([("threads", threads)]) {
        if went && writeln!(output, "{name}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    assert!(memory.iter().all(|byte| *byte == 1), "its memory is its own");
    ExitCode::SUCCESS
}
