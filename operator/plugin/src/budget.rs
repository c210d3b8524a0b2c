//! What one evaluation has used of its calls and bytes. wasmtime counts neither: a hundred thousand host calls run
//! through unless the host itself counts. Knows nothing of what a call does.

use crate::{
    limits::Limits,
    reason::{Exceeded, Reason},
    services::{ErrorCode, HostError},
};

/// The counters of one evaluation.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    calls: u64,
    all_calls: u64,
    bytes: u64,
    /// What ran out first: a verdict that comes after it is not used.
    pub(crate) spent: Option<Exceeded>,
}

impl Budget {
    /// Counts a call of any kind; the error traps the component.
    pub(crate) fn count(&mut self, limits: &Limits) -> wasmtime::Result<()> {
        self.all_calls += 1;
        if self.all_calls > limits.all_calls {
            let message = format!(
                "more than {} host calls in one evaluation (allCalls)",
                limits.all_calls
            );
            let exceeded = Exceeded {
                reason: Reason::CallLimit,
                message,
            };
            self.spent.get_or_insert_with(|| exceeded.clone());
            return Err(wasmtime::Error::new(exceeded));
        }
        Ok(())
    }

    /// Counts a call that needs a grant; the error is the component's answer.
    pub(crate) fn spend_call(&mut self, limits: &Limits) -> Result<(), HostError> {
        self.calls += 1;
        if self.calls > limits.host_calls {
            return Err(self.over(
                Reason::CallLimit,
                "hostCalls",
                limits.host_calls,
                "calls to the host",
            ));
        }
        Ok(())
    }

    /// Counts the bytes of an answer; the error is the component's answer instead.
    pub(crate) fn spend_bytes(&mut self, bytes: usize, limits: &Limits) -> Result<(), HostError> {
        let sum = self.bytes.saturating_add(bytes as u64);
        if sum > limits.host_bytes {
            return Err(self.over(
                Reason::TransferLimit,
                "hostBytes",
                limits.host_bytes,
                "bytes from the host",
            ));
        }
        self.bytes = sum;
        Ok(())
    }

    /// Bytes that answers may still have.
    pub(crate) fn bytes_left(&self, limits: &Limits) -> u64 {
        limits.host_bytes.saturating_sub(self.bytes)
    }

    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.all_calls, self.bytes)
    }

    fn over(&mut self, reason: Reason, limit: &str, most: u64, what: &str) -> HostError {
        let message = format!("this evaluation has used up its {most} {what} ({limit})");
        self.spent.get_or_insert_with(|| Exceeded {
            reason,
            message: message.clone(),
        });
        HostError::new(ErrorCode::OverBudget, message).detail("limit", limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_first_is_kept() {
        let limits = Limits {
            host_calls: 1,
            host_bytes: 10,
            ..Limits::default()
        };
        let mut budget = Budget::default();
        budget.spend_call(&limits).unwrap();
        budget.spend_bytes(10, &limits).unwrap();
        assert_eq!(budget.bytes_left(&limits), 0);
        assert!(budget.spent.is_none());
        assert_eq!(
            budget.spend_bytes(1, &limits).unwrap_err().code,
            ErrorCode::OverBudget
        );
        assert_eq!(
            budget.spend_call(&limits).unwrap_err().code,
            ErrorCode::OverBudget
        );
        assert_eq!(budget.spent.unwrap().reason, Reason::TransferLimit);
    }
}
