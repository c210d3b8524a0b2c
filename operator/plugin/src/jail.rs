//! What a confined child may ask of the kernel: memory, its three pipes, the time, and its own end. No file, no network, no
//! other program, no other process, no new privileges. Two walls, each of which holds by itself: Landlock (what is opened
//! or connected to) and seccomp (which calls there are at all). Where a kernel has only one of them, that one holds; what
//! is missing is said by [`missing`], for the parent to tell. Nothing here bounds memory or time.

use std::{collections::BTreeMap, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetError, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The newest Landlock that is asked for; an older kernel gives what it has.
const NEWEST: ABI = ABI::V6;

/// Calls that a process needs which reads, computes, writes and ends. None of them opens, connects, starts or looks at
/// another process.
const CALLS: [i64; 27] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Shuts this process in for the rest of its life. To be called before it reads what a stranger wrote, while it has one
/// thread.
///
/// Errors: the kernel offers a wall and does not let it be built. A kernel that does not offer it is no error.
pub(crate) fn enter() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    landlock().map_err(io::Error::other)?;
    if offers_seccomp()
        && let Some(filter) = filter().map_err(io::Error::other)?
    {
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The walls that this kernel does not offer, or that are not known for this processor; in words.
pub fn missing() -> Vec<&'static str> {
    let walls = [
        ("Landlock", offers_landlock()),
        ("seccomp", offers_seccomp() && matches!(filter(), Ok(Some(_)))),
    ];
    let lacking = walls.into_iter().filter(|(_, is_there)| !is_there);
    lacking.map(|(name, _)| name).collect()
}

fn offers_landlock() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1));
    ruleset.and_then(Ruleset::create).is_ok()
}

fn offers_seccomp() -> bool {
    rustix::thread::secure_computing_mode().is_ok()
}

/// Every access that Landlock knows is denied: no rule grants one.
fn landlock() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    ruleset.create()?.restrict_self()?;
    Ok(())
}

/// The calls that are let through; every other answers EPERM. None where this processor's calls are not known.
fn filter() -> Result<Option<BpfProgram>, seccompiler::BackendError> {
    let Ok(processor) = std::env::consts::ARCH.try_into() else {
        return Ok(None);
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    // Memory, but none that runs.
    let runs = u64::from(libc::PROT_EXEC.unsigned_abs());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let never_runs = condition(2, SeccompCmpOp::MaskedEq(runs), 0)?;
        calls.insert(call, vec![SeccompRule::new(vec![never_runs])?]);
    }
    // How a process ends itself when it aborts.
    let own = u64::from(std::process::id());
    let at_itself = condition(0, SeccompCmpOp::Eq, own)?;
    calls.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![at_itself])?]);
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(calls, denied, SeccompAction::Allow, processor)?;
    Ok(Some(filter.try_into()?))
}

/// The lower half of an argument, against a value.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
