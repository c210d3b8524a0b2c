//! The data of one call of a component: what it was granted, may use, and has used.

use std::{sync::Arc, time::Instant};

use super::{book::LogBook, output::Output};
pub(super) use crate::bindings::numo::host::types;
use crate::{
    budget::Budget,
    grants::Grants,
    limiter::Limiter,
    limits::Limits,
    outcome::Read,
    provider::lent::Lent,
    reason::Exceeded,
    services::{ErrorCode, HostError, Services},
    text::clean,
    verdict::SENTENCE,
};

/// The data of one store: what one call of a component may use, and has used.
pub(crate) struct Sandbox {
    pub(crate) limits: Arc<Limits>,
    pub(crate) limiter: Limiter,
    pub(crate) budget: Budget,
    pub(crate) book: LogBook,
    pub(crate) reads: Vec<Read>,
    /// The end of its time.
    pub(crate) deadline: Instant,
    /// None in `describe` and `validate-config`: every call is denied.
    pub(super) granted: Option<Granted>,
    /// What a provider of machines is lent; none for rules.
    pub(super) lent: Option<Lent>,
    /// Standard output and error.
    pub(crate) output: Output,
    pub(super) wasi: Option<wasmtime_wasi::WasiCtx>,
    pub(super) table: Option<wasmtime::component::ResourceTable>,
}

/// What an evaluation was granted.
pub(super) struct Granted {
    pub(super) grants: Arc<Grants>,
    pub(super) services: Services,
}

impl Sandbox {
    /// `state_bytes` is what the instances take beside their memories.
    pub(crate) fn new(
        limits: Arc<Limits>,
        state_bytes: u64,
        deadline: Instant,
        granted: Option<(Arc<Grants>, Services)>,
    ) -> Self {
        let sink = granted.as_ref().map(|(_, services)| services.log.clone());
        Self {
            limiter: Limiter::new(&limits, state_bytes),
            budget: Budget::default(),
            book: LogBook::new(sink.clone(), &limits),
            output: Output::new(LogBook::new(sink, &limits), &limits),
            reads: Vec::new(),
            deadline,
            granted: granted.map(|(grants, services)| Granted { grants, services }),
            lent: None,
            wasi: None,
            table: None,
            limits,
        }
    }

    /// Lends a provider of machines what it needs.
    pub(crate) fn lend(&mut self, lent: Lent) {
        self.lent = Some(lent);
    }

    /// What a provider of machines is lent.
    pub(super) fn lent(&self, interface: &str) -> Result<Lent, HostError> {
        let lent = self.lent.clone();
        lent.ok_or_else(|| {
            let message = "describe must not depend on anything: every call is denied";
            HostError::new(ErrorCode::Denied, message).detail("grant", interface)
        })
    }

    /// The limit that was reached first, if any.
    pub(crate) fn exceeded(&self) -> Option<&Exceeded> {
        self.limiter.refused.as_ref().or(self.budget.spent.as_ref())
    }

    /// Counts a call that needs a grant, and gives what was granted.
    pub(super) fn granted(&mut self, interface: &str) -> Result<(Arc<Grants>, Services), HostError> {
        self.budget.spend_call(&self.limits)?;
        let granted = self.granted.as_ref().ok_or_else(|| {
            let message = "describe and validate-config must not depend on anything: every call is denied";
            HostError::new(ErrorCode::Denied, message).detail("grant", interface)
        })?;
        Ok((granted.grants.clone(), granted.services.clone()))
    }
}

impl types::Host for Sandbox {}

impl From<HostError> for types::Error {
    fn from(error: HostError) -> Self {
        Self {
            code: match error.code {
                ErrorCode::Denied => types::ErrorCode::Denied,
                ErrorCode::Forbidden => types::ErrorCode::Forbidden,
                ErrorCode::Invalid => types::ErrorCode::Invalid,
                ErrorCode::Unsupported => types::ErrorCode::Unsupported,
                ErrorCode::Expired => types::ErrorCode::Expired,
                ErrorCode::TooLarge => types::ErrorCode::TooLarge,
                ErrorCode::OverBudget => types::ErrorCode::OverBudget,
                ErrorCode::Unavailable => types::ErrorCode::Unavailable,
                ErrorCode::Other => types::ErrorCode::Other,
            },
            message: clean(&error.message, SENTENCE),
            details: error.details,
        }
    }
}
