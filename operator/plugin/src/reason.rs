//! Why a rule gave no verdict: one closed list of reasons, and the one function that finds the reason in an error of
//! wasmtime. None of these is ever a pass. Nothing here decides what follows from a reason.

use std::fmt;

use serde::{Deserialize, Serialize};
#[cfg(feature = "sandbox")]
use wasmtime::Trap;

/// Why a rule gave no verdict. The name is stable: it becomes the reason of conditions and events, and a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// It is a component, but none that exports what is wanted (`numo:rule/evaluation`, `numo:provider/machines`) in a major version that
    /// this host knows.
    WrongWorld,
    /// It calls a host function that only a later numo has; the message names it.
    HostTooOld,
    /// It imports what no rule gets: sockets, HTTP of WASI, core modules, someone else's interface.
    UnknownImport,
    /// It says in `describe` that it cannot do without something that the MutexRule does not grant.
    GrantMissing,
    /// The MutexRule names a phase that the rule does not.
    PhaseUnsupported,
    /// The rule refused its configuration.
    InvalidConfig,
    /// A host call reached beyond the grants, and the rule could not decide without it.
    Denied,
    /// It did not answer in time, by looping or by waiting.
    EvaluationTimeout,
    /// It wanted more memory, tables or instances than it may have.
    MemoryLimit,
    /// It handed over, or asked for, more bytes than it may.
    TransferLimit,
    /// It called the host more often than it may.
    CallLimit,
    /// It made more component-model handles than it may.
    HandleLimit,
    /// It called itself too deep.
    StackOverflow,
    /// It stopped itself, by a panic or a fault of its own.
    Trap,
    /// It said itself that it could not decide, or its answer was malformed.
    RuleError,
    /// Compiling it took too long.
    CompileTimeout,
    /// It is no valid component, or compiling it failed.
    CompileFailed,
    /// It, or something it is to be given or gave, is larger than allowed.
    TooLarge,
    /// A signature is asked for and there is none.
    Unsigned,
    /// There are signatures, but none that the policy accepts.
    SignatureMismatch,
    /// The registry did not answer.
    RegistryUnavailable,
}

impl Reason {
    /// All of them, for documentation and for tests that none is without either.
    pub const ALL: [Self; 21] = [
        Self::WrongWorld,
        Self::HostTooOld,
        Self::UnknownImport,
        Self::GrantMissing,
        Self::PhaseUnsupported,
        Self::InvalidConfig,
        Self::Denied,
        Self::EvaluationTimeout,
        Self::MemoryLimit,
        Self::TransferLimit,
        Self::CallLimit,
        Self::HandleLimit,
        Self::StackOverflow,
        Self::Trap,
        Self::RuleError,
        Self::CompileTimeout,
        Self::CompileFailed,
        Self::TooLarge,
        Self::Unsigned,
        Self::SignatureMismatch,
        Self::RegistryUnavailable,
    ];

    /// The name, in CamelCase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongWorld => "WrongWorld",
            Self::HostTooOld => "HostTooOld",
            Self::UnknownImport => "UnknownImport",
            Self::GrantMissing => "GrantMissing",
            Self::PhaseUnsupported => "PhaseUnsupported",
            Self::InvalidConfig => "InvalidConfig",
            Self::Denied => "Denied",
            Self::EvaluationTimeout => "EvaluationTimeout",
            Self::MemoryLimit => "MemoryLimit",
            Self::TransferLimit => "TransferLimit",
            Self::CallLimit => "CallLimit",
            Self::HandleLimit => "HandleLimit",
            Self::StackOverflow => "StackOverflow",
            Self::Trap => "Trap",
            Self::RuleError => "RuleError",
            Self::CompileTimeout => "CompileTimeout",
            Self::CompileFailed => "CompileFailed",
            Self::TooLarge => "TooLarge",
            Self::Unsigned => "Unsigned",
            Self::SignatureMismatch => "SignatureMismatch",
            Self::RegistryUnavailable => "RegistryUnavailable",
        }
    }

    /// Whether asking again, with nothing changed, can end otherwise. What cannot is found at load or is the rule's
    /// or the MutexRule's own fault.
    pub fn may_pass(self) -> bool {
        match self {
            Self::WrongWorld
            | Self::HostTooOld
            | Self::UnknownImport
            | Self::GrantMissing
            | Self::PhaseUnsupported
            | Self::InvalidConfig
            | Self::CompileFailed
            | Self::TooLarge => false,
            Self::Denied
            | Self::EvaluationTimeout
            | Self::MemoryLimit
            | Self::TransferLimit
            | Self::CallLimit
            | Self::HandleLimit
            | Self::StackOverflow
            | Self::Trap
            | Self::RuleError
            | Self::CompileTimeout
            | Self::Unsigned
            | Self::SignatureMismatch
            | Self::RegistryUnavailable => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No verdict, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{reason}: {message}")]
pub struct Refused {
    /// For programs and conditions.
    pub reason: Reason,
    /// One or a few sentences for people, at most 4 KiB, without control characters.
    pub message: String,
}

impl Refused {
    /// Bounds and cleans `message`.
    pub fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        Self {
            reason,
            message: crate::text::clean(message.as_ref(), 4096),
        }
    }
}

/// A limit of the host that the component ran into, on its way out of wasmtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Exceeded {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl From<Exceeded> for Refused {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(exceeded.reason, exceeded.message)
    }
}

/// The reason in an error of wasmtime, from a call or from instantiation.
///
/// Four of them are only texts in 48.0.8 (the counts of instances, memories and tables share one; handles; the bytes
/// of a call; the type of an export); a test per reason makes a reworded one fail here and not in a cluster.
#[cfg(feature = "sandbox")]
pub(crate) fn of_error(error: &wasmtime::Error) -> Refused {
    if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
        return exceeded.clone().into();
    }
    let text = format!("{error:#}");
    let handles = text.contains("store handle limit exceeded")
        || error
            .downcast_ref::<wasmtime::component::ResourceTableError>()
            .is_some();
    let reason = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt | Trap::OutOfFuel) => Reason::EvaluationTimeout,
        Some(Trap::StackOverflow) => Reason::StackOverflow,
        Some(Trap::AllocationTooLarge) => Reason::MemoryLimit,
        None if handles => Reason::HandleLimit,
        None if text.contains("fuel allocated for hostcalls has been exhausted") => Reason::TransferLimit,
        None if text.contains("resource limit exceeded") => Reason::MemoryLimit,
        // The types of exports are only compared when they are looked up.
        None if text.contains("failed to convert function to given type") => Reason::WrongWorld,
        Some(_) | None => Reason::Trap,
    };
    let message = match reason {
        Reason::EvaluationTimeout => "the component did not come to an end in time".to_owned(),
        _ => text,
    };
    Refused::new(reason, message)
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_the_list_once() {
        let names: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::as_str).into();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(format!("{reason:?}"), reason.as_str());
        }
    }

    #[test]
    fn typed_errors_have_their_reason() {
        let check = |error: wasmtime::Error, reason| assert_eq!(of_error(&error).reason, reason, "{error:#}");
        check(Trap::Interrupt.into(), Reason::EvaluationTimeout);
        check(Trap::StackOverflow.into(), Reason::StackOverflow);
        check(Trap::UnreachableCodeReached.into(), Reason::Trap);
        check(Trap::IntegerDivisionByZero.into(), Reason::Trap);
        for reason in Reason::ALL {
            check(
                wasmtime::Error::new(Exceeded {
                    reason,
                    message: String::new(),
                }),
                reason,
            );
        }
        let context =
            wasmtime::Error::from(Trap::Interrupt).context("error while executing at wasm backtrace");
        check(context, Reason::EvaluationTimeout);
    }

    // The texts themselves are shown by hostile components in `tests/plugin`.
}
