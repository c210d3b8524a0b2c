//! What a confined child may ask of the kernel: memory, its three pipes, the time, and its own end. No file, no network, no
//! other program, no other process, no new privileges. Two walls: seccomp (which calls there are at all) holds all of that by
//! itself. Landlock (what is opened or connected to) holds files and programs, TCP from its ABI 4 on, signals and abstract
//! sockets from ABI 6 on, and other sockets never: where it stands alone the network is not shut in. What is missing is said by
//! [`missing`], for the parent to tell. Nothing here bounds memory or time.

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
/// All up to that one.
const ABIS: [ABI; 6] = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, NEWEST];

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

/// Whether there is anything to shut a child in with: Linux has it, and [`missing`] says what a kernel lacks.
///
/// Errors: none.
#[allow(clippy::unnecessary_wraps, reason = "as unjailed.rs has it")]
pub(crate) fn has_walls() -> io::Result<()> {
    Ok(())
}

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

/// The walls that this kernel does not offer in full, or that are not known for this processor, and what that leaves open; in
/// words.
pub fn missing() -> Vec<String> {
    let landlock = ABIS.into_iter().take_while(|abi| offers_landlock(*abi)).last();
    let seccomp = offers_seccomp() && matches!(filter(), Ok(Some(_)));
    lacking(landlock.unwrap_or(ABI::Unsupported), seccomp)
}

/// What is missing beside a Landlock of this ABI, and seccomp or not.
fn lacking(landlock: ABI, seccomp: bool) -> Vec<String> {
    let mut found = Vec::new();
    if landlock == ABI::Unsupported {
        found.push("Landlock".to_owned());
    } else if landlock < NEWEST && !seccomp {
        // Where there is seccomp nothing of what later ones shut in is open.
        found.push(format!("Landlock after ABI {landlock}"));
    }
    if !seccomp {
        found.push(match landlock {
            ABI::Unsupported => "seccomp, so that nothing is shut in".to_owned(),
            ABI::V1 | ABI::V2 | ABI::V3 => {
                "seccomp, so that the network is not shut in, nor signals to other processes".to_owned()
            }
            ABI::V4 | ABI::V5 => {
                "seccomp, so that the network is not shut in but for TCP, nor signals to other processes"
                    .to_owned()
            }
            _ => "seccomp, so that the network is not shut in but for TCP".to_owned(),
        });
    }
    found
}

/// Whether all is there that came with this ABI.
fn offers_landlock(abi: ABI) -> bool {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi));
    // An empty set of accesses is an error.
    if abi >= ABI::V4 {
        ruleset = ruleset.and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(abi)));
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.and_then(|ruleset| ruleset.scope(Scope::from_all(abi)));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_leaves_open_is_said() {
        let check = |landlock: ABI, seccomp: bool, expect: &[&str]| {
            assert_eq!(lacking(landlock, seccomp), expect, "{landlock} {seccomp}");
        };
        check(ABI::V6, true, &[]);
        check(ABI::V3, true, &[]);
        check(ABI::Unsupported, true, &["Landlock"]);
        check(
            ABI::V6,
            false,
            &["seccomp, so that the network is not shut in but for TCP"],
        );
        check(
            ABI::V4,
            false,
            &[
                "Landlock after ABI 4",
                "seccomp, so that the network is not shut in but for TCP, nor signals to other processes",
            ],
        );
        check(
            ABI::V1,
            false,
            &[
                "Landlock after ABI 1",
                "seccomp, so that the network is not shut in, nor signals to other processes",
            ],
        );
        check(
            ABI::Unsupported,
            false,
            &["Landlock", "seccomp, so that nothing is shut in"],
        );
    }

    #[test]
    fn every_landlock_that_is_looked_for_is_one_that_is_asked_for() {
        assert_eq!(ABIS.last(), Some(&NEWEST));
        assert!(ABIS.is_sorted());
    }
}
