//! Components through the whole load path and an evaluation, under low limits: validated, inspected, compiled, linked,
//! described, asked. The first byte tells what the rest is: a component; choices for a core module with a rule's exports
//! and any code behind them; or choices for a component of any kind. What is refused is never a pass, nothing runs on
//! after its time, and nobody has more memory than the limit.
//!
//! It compiles in this process, where a fault of the compiler is seen; the operator does it in a child.

use std::{sync::LazyLock, time::Duration};

use anyhow::{Context as _, Result};
use arbitrary::Unstructured;
use numo::runners::wasm;
use numo_core::observed::RuleAnswer;
use numo_plugin::{Answer, Engine, Limits, Reason, Refused, Setup, Terms};
use numo_plugin_tests::{
    guest::{self, Core},
    services,
};
use wasm_smith::{Config, Module};
use wit_parser::{Resolve, WorldId};

use crate::Source;

const COMPONENT: u8 = 0;
const CODE: u8 = 1;
const ANY: u8 = 2;

/// Rules of the first release: a core module as text made a component, and a Rust rule.
const RELEASED: [&[u8]; 2] = [
    include_bytes!("../../../plugin/released/1.0.0/core.wasm"),
    include_bytes!("../../../plugin/released/1.0.0/rust-unknown.wasm"),
];

/// Loops that are not stopped by it are stopped by the host; both are wanted.
const FUEL: u32 = 10_000;

fn limits() -> Limits {
    Limits {
        evaluation_seconds: 1,
        describe_seconds: 1,
        compile_seconds: 30,
        memory_bytes: 16 << 20,
        ..Limits::default()
    }
}

/// One runtime and engine for all inputs. None: the machine has no room for them.
static HOST: LazyLock<Option<(tokio::runtime::Runtime, Engine)>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let setup = Setup {
        limits: limits(),
        workers: 1,
        ..Setup::default()
    };
    Some((runtime, Engine::new(setup).ok()?))
});

/// The world of rules, and the core exports of a rule as a module.
static RULE: LazyLock<Result<(Resolve, WorldId, Vec<u8>)>> = LazyLock::new(|| {
    let resolve = guest::resolve(&guest::root().join("wit"), "")?;
    let mut worlds = resolve.worlds.iter();
    let (world, _) = worlds.find(|(_, one)| one.name == "rule").context("world rule")?;
    let shape = wat::parse_str(Core::default().wat())?;
    Ok((resolve, world, shape))
});

/// A component that is nested in itself: types in types, or components in components.
pub(super) fn nested(source: &mut Source) -> Vec<u8> {
    let most = 2 << source.below(15);
    let levels = source.below(most);
    match source.below(3) {
        0 => guest::deep(levels, 0x41),
        1 => guest::deep(levels, 0x42),
        _ => guest::within(levels.min(1 << 12)),
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let made = match *kind {
        CODE => with_code(rest).ok(),
        ANY => of_any_kind(rest),
        _ => Some(rest.to_vec()),
    };
    if let (Some(component), Some((runtime, engine))) = (made, HOST.as_ref()) {
        runtime.block_on(check(engine, &component));
    }
}

async fn check(engine: &Engine, component: &[u8]) {
    let rule = match engine.load(component).await {
        Ok(rule) => rule,
        Err(refused) => return never_a_pass(&refused),
    };
    assert_eq!(rule.digest(), numo_plugin::digest(component));
    if let Err(refused) = rule.validate_config("{}").await {
        never_a_pass(&refused);
    }
    let terms = Terms::default();
    for phase in rule.description().phases.iter().take(2) {
        let mut input = services::input("{}");
        input.phase.clone_from(phase);
        match rule.evaluate(input, &terms, services::nothing()).await {
            Ok(answer) => within_limits(&answer),
            Err(refused) => never_a_pass(&refused),
        }
    }
}

fn never_a_pass(refused: &Refused) {
    // What was inspected and found good is also good to the compiler, which would say it later and in worse words.
    assert!(
        refused.reason != Reason::CompileFailed || !refused.message.starts_with("failed to parse"),
        "{refused:?} was let through by inspect"
    );
    // A panic in a task of the host comes back as words.
    assert!(
        !refused.message.contains("ended unexpectedly") && !refused.message.contains("does not run"),
        "{refused:?}"
    );
    let answer = wasm::answer(Err(refused.clone()));
    assert!(
        matches!(answer, RuleAnswer::NoVerdict(..)),
        "{refused:?} is {answer:?}"
    );
    assert!(
        refused.reason == Reason::RuleError || wasm::reason(refused).name() == refused.reason.as_str(),
        "{refused:?} has no reason that users see"
    );
}

fn within_limits(answer: &Answer) {
    let limits = limits();
    let usage = &answer.usage;
    assert!(usage.memory_bytes <= limits.memory_bytes, "{usage:?}");
    assert!(usage.host_calls <= limits.all_calls, "{usage:?}");
    let most = Duration::from_secs(limits.evaluation_seconds + 30);
    assert!(usage.duration < most, "{usage:?}");
    let report = answer.verdict.report();
    let (first, rest) = report.reason.split_at_checked(1).unwrap_or_default();
    let alphanumeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    assert!(
        first.bytes().all(|byte| byte.is_ascii_uppercase())
            && !first.is_empty()
            && alphanumeric(rest)
            && rest.len() < 64,
        "reason {:?}",
        report.reason
    );
    let data = report.data_json.as_deref().unwrap_or_default();
    assert!(data.len() as u64 <= limits.data_bytes && report.findings.len() as u64 <= limits.findings);
}

/// What the engine is configured for, and little of it.
fn config() -> Config {
    Config {
        gc_enabled: false,
        exceptions_enabled: false,
        threads_enabled: false,
        relaxed_simd_enabled: false,
        memory64_enabled: false,
        wide_arithmetic_enabled: false,
        max_memory32_bytes: 32 << 20,
        max_table_elements: 30_000,
        max_funcs: 12,
        max_instructions: 200,
        ..Config::default()
    }
}

/// A component of the world of rules, whose code and data are made of these choices.
fn with_code(choices: &[u8]) -> Result<Vec<u8>> {
    let (resolve, world, shape) = RULE.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let (first, rest) = choices.split_first().context("no choices")?;
    let config = Config {
        exports: Some(shape.clone()),
        max_imports: 0,
        min_data_segments: 1,
        allow_start_export: false,
        // Types that the engine does not know, in one of eight: they are refused before anything runs.
        reference_types_enabled: first % 8 == 1,
        ..config()
    };
    let mut module = Module::new(config, &mut Unstructured::new(rest))?;
    if !first.is_multiple_of(16) {
        // Else loops go on until the host ends them, a second each.
        module.ensure_termination(FUEL)?;
    }
    guest::encode(module.to_bytes(), resolve, *world)
}

/// A component of any kind: mostly types, imports and aliases, none of a rule.
pub(super) fn of_any_kind(choices: &[u8]) -> Option<Vec<u8>> {
    let component = wasm_smith::Component::new(config(), &mut Unstructured::new(choices)).ok()?;
    Some(component.to_bytes())
}

/// A rule of an earlier release.
pub(super) fn released(source: &mut Source) -> &'static [u8] {
    source.one(&RELEASED)
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    let count = 256 << source.below(4);
    match source.below(4) {
        0 => [&[COMPONENT], released(source)].concat(),
        1 => [&[ANY], source.bytes(count).as_slice()].concat(),
        _ => [&[CODE], source.bytes(count).as_slice()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_any_kind_gets_as_far_as_being_asked() {
        let (runtime, engine) = HOST.as_ref().unwrap();
        let mut reasons: Vec<Option<Reason>> = Vec::new();
        for seed in 0..40 {
            let choices = Source::new(seed).bytes(1024);
            let component = with_code(&choices).unwrap();
            reasons.push(
                runtime
                    .block_on(engine.load(&component))
                    .err()
                    .map(|refused| refused.reason),
            );
        }
        // The sandbox is reached: code runs and ends badly, rather than being refused before.
        let ran = |reason: &Option<Reason>| {
            matches!(
                reason,
                None | Some(
                    Reason::Trap | Reason::RuleError | Reason::StackOverflow | Reason::EvaluationTimeout
                )
            )
        };
        let count = reasons.iter().filter(|reason| ran(reason)).count();
        assert!(count > 20, "{reasons:?}");
    }
}
