//! What wasmtime asks before a memory or table grows. Sums over all memories and tables of one store, since
//! wasmtime's own limits are per memory and per table; and refuses with a typed error, since a component that is
//! merely told "no" can catch that and go on to a verdict.

use wasmtime::ResourceLimiter;

use crate::{
    limits::Limits,
    reason::{Exceeded, Reason},
};

/// The totals of one store, and whether something was refused.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_bytes: u64,
    table_elements: u64,
    limits: [u64; 5],
    /// What was refused first: a verdict that comes after it is not used.
    pub(crate) refused: Option<Exceeded>,
    /// The highest sum of linear memory and of the state of instances, in bytes.
    pub(crate) peak_bytes: u64,
}

impl Limiter {
    /// `state_bytes` is what the instances take beside their memories.
    pub(crate) fn new(limits: &Limits, state_bytes: u64) -> Self {
        Self {
            memory_bytes: state_bytes,
            table_elements: 0,
            limits: [
                limits.memory_bytes,
                limits.table_elements,
                limits.instances,
                limits.tables,
                limits.memories,
            ],
            refused: None,
            peak_bytes: state_bytes,
        }
    }

    /// That the state of the instances alone is more than the limit, if so: nobody asks before it is allocated.
    pub(crate) fn exceeded_by_state(&self) -> Option<Exceeded> {
        let (state, most) = (self.memory_bytes, self.limits[0]);
        (state > most).then(|| Exceeded {
            reason: Reason::MemoryLimit,
            message: format!("the state of its instances has {state} bytes, the limit is {most}"),
        })
    }

    fn refuse(&mut self, message: String) -> wasmtime::Error {
        let exceeded = Exceeded {
            reason: Reason::MemoryLimit,
            message,
        };
        self.refused.get_or_insert_with(|| exceeded.clone());
        wasmtime::Error::new(exceeded)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let sum = self
            .memory_bytes
            .saturating_add(desired.saturating_sub(current) as u64);
        let most = self.limits[0];
        if sum > most {
            return Err(self.refuse(format!(
                "memories and the state of instances would have {sum} bytes together, the limit is {most}"
            )));
        }
        self.memory_bytes = sum;
        self.peak_bytes = self.peak_bytes.max(sum);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let sum = self
            .table_elements
            .saturating_add(desired.saturating_sub(current) as u64);
        let most = self.limits[1];
        if sum > most {
            return Err(self.refuse(format!(
                "tables would have {sum} elements together, the limit is {most}"
            )));
        }
        self.table_elements = sum;
        Ok(true)
    }

    // Without these three the counts are bounded by wasmtime's 10,000 each.
    fn instances(&self) -> usize {
        count(self.limits[2])
    }

    fn tables(&self) -> usize {
        count(self.limits[3])
    }

    fn memories(&self) -> usize {
        count(self.limits[4])
    }
}

fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_summed_and_a_refusal_is_kept() {
        let mut limiter = Limiter::new(
            &Limits {
                memory_bytes: 100,
                ..Limits::default()
            },
            10,
        );
        assert!(limiter.memory_growing(0, 50, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(
            limiter
                .memory_growing(40, 41, None)
                .unwrap_err()
                .downcast_ref::<Exceeded>()
                .is_some()
        );
        assert_eq!(limiter.refused.unwrap().reason, Reason::MemoryLimit);
        assert_eq!(limiter.peak_bytes, 100);
    }

    #[test]
    fn tables_are_summed() {
        let mut limiter = Limiter::new(
            &Limits {
                table_elements: 10,
                ..Limits::default()
            },
            0,
        );
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(limiter.table_growing(0, 1, None).is_err());
    }
}
