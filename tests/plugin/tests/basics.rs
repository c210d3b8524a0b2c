//! A rule that behaves: it is loaded, described, asked; and what it is not granted it does not get.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use numo_plugin::{Engine, Reason, Setup, Terms, Verdict};
use numo_plugin_tests::{
    guest::Core,
    services::{input, nothing},
};

fn engine() -> Engine {
    Engine::new(Setup::default()).unwrap()
}

#[tokio::test]
async fn a_rule_is_loaded_described_and_asked() {
    let engine = engine();
    let rule = engine.load(&Core::default().component().unwrap()).await.unwrap();
    assert_eq!(rule.description().name, "conformance");
    assert_eq!(rule.description().phases, ["pre", "post", "pre-run"]);
    assert_eq!(rule.inspection().contract, semver("1.0.0"));
    let imports: Vec<_> = rule
        .inspection()
        .imports
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(imports, ["types"]);
    assert_eq!(rule.validate_config("{}").await.unwrap(), Ok(()));
    let answer = rule
        .evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap();
    assert!(
        matches!(&answer.verdict, Verdict::Pass(report) if report.reason == "Fine"),
        "{answer:?}"
    );
    // Two pages, and what the host keeps for the instance itself.
    let state = answer.usage.memory_bytes - 128 * 1024;
    assert!((1..4096).contains(&state), "{state} bytes");
}

fn semver(text: &str) -> numo_plugin::inspect::Version {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_phase_that_the_rule_does_not_name_is_not_asked() {
    let rule = engine()
        .load(&Core::default().component().unwrap())
        .await
        .unwrap();
    let ask = async |phase: &str, node: bool| {
        let mut input = input("{}");
        input.phase = phase.into();
        input.node = input.node.filter(|_| node);
        rule.evaluate(input, &Terms::default(), nothing())
            .await
            .map_err(|refused| refused.reason)
    };
    assert_eq!(
        ask("on-failure", true).await.unwrap_err(),
        Reason::PhaseUnsupported
    );
    assert_eq!(ask("pre", false).await.unwrap_err(), Reason::PhaseUnsupported);
    assert!(ask("pre-run", false).await.is_ok());
}

#[tokio::test]
async fn a_report_with_a_bad_reason_is_no_pass() {
    let core = Core {
        reason: "node-1 is fine".into(),
        ..Core::default()
    };
    let rule = engine().load(&core.component().unwrap()).await.unwrap();
    let refused = rule
        .evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::RuleError);
}

#[tokio::test]
async fn types_that_the_engine_does_not_know_are_refused_before_it_compiles() {
    let with = |fields: &str| {
        let core = Core {
            fields: fields.into(),
            ..Core::default()
        };
        core.component().unwrap()
    };
    let engine = engine();
    engine
        .load(&with("(table 1 funcref) (func (param funcref))"))
        .await
        .unwrap();
    let refused = engine.load(&with("(func (param externref))")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::CompileFailed);
    assert!(
        refused.message.starts_with("not a valid component") && refused.message.contains("gc types"),
        "{refused:?}"
    );
}
