//! Every limit the host sets on a component, in one struct: its name, its default and its ceiling. Nothing here
//! enforces anything; each field says who does. Sources: `spec/wasm.md` §3c, measured in `spec/wasm-measured.md`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// KiB in bytes.
pub const KIB: u64 = 1024;
/// MiB in bytes.
pub const MIB: u64 = 1024 * KIB;

/// How often a running component can be stopped: one epoch. Neither configurable nor a limit of its own; an
/// evaluation is over at the first tick after its time.
pub const TICK: Duration = Duration::from_millis(10);

/// What one component may use, in plain numbers. Each is a bound that the host enforces; reaching one has a reason
/// and is never a pass.
///
/// [`Limits::default`] is what a rule gets that says nothing; [`Limits::CEILINGS`] is what an operator may allow at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Seconds that one evaluation may take, host calls included. `EvaluationTimeout`. By epochs, and by a timer
    /// around the call one second later for what hangs in the host.
    pub evaluation_seconds: u64,
    /// Seconds for `describe` and `validate-config`, which have nothing to wait for. `EvaluationTimeout`.
    pub describe_seconds: u64,
    /// Bytes of linear memory, the sum over all memories of all instances. `MemoryLimit`.
    pub memory_bytes: u64,
    /// Linear memories. `MemoryLimit`.
    pub memories: u64,
    /// Tables. `MemoryLimit`.
    pub tables: u64,
    /// Elements of tables, the sum over all. `MemoryLimit`.
    pub table_elements: u64,
    /// Core instances, those of composed components and adapters included. `MemoryLimit`.
    pub instances: u64,
    /// Bytes of native stack for the component's own calls. `StackOverflow`.
    pub stack_bytes: u64,
    /// Component-model handles alive at once, in the component's tables. `HandleLimit`.
    pub handles: u64,
    /// Bytes that the component may hand over in one call, arguments or results. `TransferLimit`.
    pub transfer_bytes: u64,
    /// Calls that need a grant. More are `over-budget`. `CallLimit`.
    pub host_calls: u64,
    /// Calls of any kind, those included that cannot fail. More trap. `CallLimit`.
    pub all_calls: u64,
    /// Bytes that the host hands to the component in answers, over one evaluation. More is `over-budget`.
    /// `TransferLimit`.
    pub host_bytes: u64,
    /// Bytes of one answer: a page of objects, one object, the answer of Prometheus. More is `too-large`, or a shorter
    /// page where there are pages.
    pub answer_bytes: u64,
    /// Objects on one page of a list.
    pub page_objects: u64,
    /// Pointers in one field mask. More is `invalid`.
    pub mask_fields: u64,
    /// Body bytes of one HTTP answer. More is `too-large`.
    pub http_body_bytes: u64,
    /// Milliseconds for one HTTP or Prometheus request. More is `unavailable`.
    pub http_milliseconds: u64,
    /// Samples in one answer of Prometheus. More is `too-large`.
    pub prometheus_samples: u64,
    /// Lines a component may log in one evaluation; the rest is dropped, and one line says so. Its standard output
    /// and error have the same bound again.
    pub log_lines: u64,
    /// Bytes that these lines may have together.
    pub log_bytes: u64,
    /// Bytes of one line; more is cut off.
    pub log_message_bytes: u64,
    /// Bytes of one field of a line; more is cut off. A line has at most 16 fields.
    pub log_field_bytes: u64,
    /// Bytes that `wasi:random` makes in one call. More traps.
    pub random_bytes: u64,
    /// Bytes of the Node object; a larger one is refused whole. `TooLarge`.
    pub node_bytes: u64,
    /// Bytes of the configuration. `TooLarge`.
    pub config_bytes: u64,
    /// Bytes of a report's `data-json`. `TooLarge`.
    pub data_bytes: u64,
    /// Findings kept of a report; the first ones.
    pub findings: u64,
    /// Different reasons of one rule that stay apart in metrics; later ones count as `Other`.
    pub reasons: u64,
    /// Bytes of a component. Looked at before anything is parsed. `TooLarge`.
    pub component_bytes: u64,
    /// Bytes of address space for the process that compiles. `CompileFailed`.
    pub compile_memory_bytes: u64,
    /// Seconds, of the clock and of the processor, for one compilation. `CompileTimeout`.
    pub compile_seconds: u64,
    /// Bytes of a compiled component. `TooLarge`.
    pub compiled_bytes: u64,
    /// Bytes on disk for components and their compiled form.
    pub cache_bytes: u64,
    /// Evaluations at one time, over all rules. Others wait for their turn, and their time has not begun.
    pub concurrent_evaluations: u64,
    /// Bytes that the evaluations at one time may have together, each counted with all that it may have.
    pub concurrent_memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            evaluation_seconds: 5,
            describe_seconds: 2,
            memory_bytes: 64 * MIB,
            memories: 8,
            tables: 16,
            table_elements: 20_000,
            instances: 64,
            stack_bytes: 512 * KIB,
            handles: 1_000,
            transfer_bytes: 4 * MIB,
            host_calls: 500,
            all_calls: 20_000,
            host_bytes: 16 * MIB,
            answer_bytes: 2 * MIB,
            page_objects: 500,
            mask_fields: 64,
            http_body_bytes: MIB,
            http_milliseconds: 5_000,
            prometheus_samples: 1_000,
            log_lines: 200,
            log_bytes: 64 * KIB,
            log_message_bytes: 4 * KIB,
            log_field_bytes: KIB,
            random_bytes: 64 * KIB,
            node_bytes: 256 * KIB,
            config_bytes: 64 * KIB,
            data_bytes: 16 * KIB,
            findings: 64,
            reasons: 32,
            component_bytes: 32 * MIB,
            compile_memory_bytes: 640 * MIB,
            compile_seconds: 120,
            compiled_bytes: 128 * MIB,
            cache_bytes: 512 * MIB,
            concurrent_evaluations: 8,
            concurrent_memory_bytes: 1024 * MIB,
        }
    }
}

impl Limits {
    /// The highest number that the operator's own configuration may set for each.
    pub const CEILINGS: Self = Self {
        evaluation_seconds: 60,
        describe_seconds: 10,
        memory_bytes: 256 * MIB,
        memories: 32,
        tables: 64,
        table_elements: 200_000,
        instances: 256,
        // The stack of the call's fiber is 2 MiB (`engine.rs`) and holds the host's frames as well.
        stack_bytes: MIB,
        handles: 10_000,
        transfer_bytes: 16 * MIB,
        host_calls: 5_000,
        all_calls: 200_000,
        host_bytes: 128 * MIB,
        answer_bytes: 8 * MIB,
        page_objects: 500,
        mask_fields: 256,
        http_body_bytes: 4 * MIB,
        http_milliseconds: 30_000,
        prometheus_samples: 10_000,
        log_lines: 2_000,
        log_bytes: MIB,
        log_message_bytes: 16 * KIB,
        log_field_bytes: 4 * KIB,
        random_bytes: MIB,
        node_bytes: MIB,
        config_bytes: 256 * KIB,
        data_bytes: 16 * KIB,
        findings: 64,
        reasons: 256,
        component_bytes: 128 * MIB,
        compile_memory_bytes: 4096 * MIB,
        compile_seconds: 600,
        compiled_bytes: 512 * MIB,
        cache_bytes: 64 * 1024 * MIB,
        concurrent_evaluations: 512,
        concurrent_memory_bytes: 16 * 1024 * MIB,
    };

    /// Name and number of each limit, in the order of the fields; names as they are written in configuration.
    pub fn named(&self) -> [(&'static str, u64); 36] {
        [
            ("evaluationSeconds", self.evaluation_seconds),
            ("describeSeconds", self.describe_seconds),
            ("memoryBytes", self.memory_bytes),
            ("memories", self.memories),
            ("tables", self.tables),
            ("tableElements", self.table_elements),
            ("instances", self.instances),
            ("stackBytes", self.stack_bytes),
            ("handles", self.handles),
            ("transferBytes", self.transfer_bytes),
            ("hostCalls", self.host_calls),
            ("allCalls", self.all_calls),
            ("hostBytes", self.host_bytes),
            ("answerBytes", self.answer_bytes),
            ("pageObjects", self.page_objects),
            ("maskFields", self.mask_fields),
            ("httpBodyBytes", self.http_body_bytes),
            ("httpMilliseconds", self.http_milliseconds),
            ("prometheusSamples", self.prometheus_samples),
            ("logLines", self.log_lines),
            ("logBytes", self.log_bytes),
            ("logMessageBytes", self.log_message_bytes),
            ("logFieldBytes", self.log_field_bytes),
            ("randomBytes", self.random_bytes),
            ("nodeBytes", self.node_bytes),
            ("configBytes", self.config_bytes),
            ("dataBytes", self.data_bytes),
            ("findings", self.findings),
            ("reasons", self.reasons),
            ("componentBytes", self.component_bytes),
            ("compileMemoryBytes", self.compile_memory_bytes),
            ("compileSeconds", self.compile_seconds),
            ("compiledBytes", self.compiled_bytes),
            ("cacheBytes", self.cache_bytes),
            ("concurrentEvaluations", self.concurrent_evaluations),
            ("concurrentMemoryBytes", self.concurrent_memory_bytes),
        ]
    }

    /// Whether each limit is at least 1 and at most what `ceilings` has for it; the first that is not is the error.
    /// (A limit of zero would be none in some engines and everything in others: it is refused.)
    pub fn within(&self, ceilings: &Self) -> Result<(), LimitOutOfBounds> {
        for ((name, value), (_, most)) in self.named().into_iter().zip(ceilings.named()) {
            if value == 0 || value > most {
                return Err(LimitOutOfBounds { name, value, most });
            }
        }
        Ok(())
    }

    /// These limits with what one rule asks for in their place. What it asks for is bounded by `self` as the
    /// operator's ceiling where `ceilings` is given.
    pub fn with(&self, asked: &RuleLimits, ceilings: &Self) -> Result<Self, LimitOutOfBounds> {
        let mut limits = self.clone();
        for (field, value) in [
            (&mut limits.evaluation_seconds, asked.evaluation_seconds),
            (&mut limits.memory_bytes, asked.memory_bytes),
            (&mut limits.host_calls, asked.host_calls),
            (&mut limits.host_bytes, asked.host_bytes),
        ] {
            if let Some(value) = value {
                *field = value;
            }
        }
        limits.within(ceilings)?;
        Ok(limits)
    }
}

/// What a rule may ask for itself: `spec.wasm.limits`. None takes the operator's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleLimits {
    /// See [`Limits::evaluation_seconds`].
    pub evaluation_seconds: Option<u64>,
    /// See [`Limits::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// See [`Limits::host_calls`].
    pub host_calls: Option<u64>,
    /// See [`Limits::host_bytes`].
    pub host_bytes: Option<u64>,
}

/// A limit that was set to zero or above its ceiling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {name} is {value}, but must be from 1 to {most}")]
pub struct LimitOutOfBounds {
    /// Name as in configuration.
    pub name: &'static str,
    /// What was asked.
    pub value: u64,
    /// The ceiling.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ceilings() {
        Limits::default().within(&Limits::CEILINGS).unwrap();
    }

    #[test]
    fn every_field_has_its_name() {
        let fields = serde_json::to_value(Limits::default()).unwrap();
        let names: std::collections::BTreeSet<_> = Limits::default().named().map(|(name, _)| name).into();
        let fields: std::collections::BTreeSet<_> =
            fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, fields);
        for (name, value) in Limits::default().named() {
            assert_eq!(
                serde_json::to_value(Limits::default()).unwrap()[name],
                value,
                "{name}"
            );
        }
    }

    #[test]
    fn a_rule_asks_within_the_ceilings_or_is_refused_by_name() {
        let ask = |seconds| RuleLimits {
            evaluation_seconds: Some(seconds),
            ..RuleLimits::default()
        };
        let limits = Limits::default();
        assert_eq!(
            limits
                .with(&ask(60), &Limits::CEILINGS)
                .unwrap()
                .evaluation_seconds,
            60
        );
        for seconds in [0, 61] {
            let error = limits.with(&ask(seconds), &Limits::CEILINGS).unwrap_err();
            assert_eq!((error.name, error.value), ("evaluationSeconds", seconds));
        }
    }
}
