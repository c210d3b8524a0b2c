//! The attack table: each row of `spec/wasm.md` §3c, as corrected by what was measured, with a guest that tries it,
//! the reason it ends with, a bound in time (generous: this shows that there is one, not how good it is), and a bound
//! in memory of this process. One row at a time, so that the memory is that row's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use numo_plugin::{Compile, Engine, Grants, Limits, Reason, Refused, Rule, Services, Setup, Terms, Verdict};
use numo_plugin_tests::{
    guest::{self, Core, Target},
    services::{Lines, Objects, input, nothing},
};
use tokio::sync::{Mutex, MutexGuard};

/// Above what one component may have, for wasmtime's own tables, fibers and this test.
const SLACK_MIB: u64 = 96;

fn limits() -> Limits {
    Limits {
        evaluation_seconds: 1,
        describe_seconds: 1,
        ..Limits::default()
    }
}

/// One that ends no guest by its clock before another limit does, however busy the machine is.
fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let patient = || Limits {
        evaluation_seconds: 25,
        describe_seconds: 10,
        ..limits()
    };
    // As the operator has it: a guest that ends the compiler ends a child.
    ENGINE.get_or_init(|| in_a_child(patient())).clone()
}

/// One for guests that would never end: they are given up after a second.
fn hasty() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| in_a_child(limits())).clone()
}

/// One row under way: nothing else of this process runs, so its peak of memory is this row's.
struct Row {
    _alone: MutexGuard<'static, ()>,
    before_kib: u64,
    begin: Instant,
}

static ALONE: Mutex<()> = Mutex::const_new(());

/// What takes memory to make is made while no row is under way.
async fn made<T>(make: impl FnOnce() -> T) -> T {
    let _alone = ALONE.lock().await;
    make()
}

impl Row {
    async fn begin() -> Self {
        let alone = ALONE.lock().await;
        // Resets the peak (proc(5), clear_refs).
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self {
            _alone: alone,
            before_kib: kib("VmRSS"),
            begin: Instant::now(),
        }
    }

    fn end(self, most: Duration) {
        let (took, grown) = (
            self.begin.elapsed(),
            kib("VmHWM").saturating_sub(self.before_kib) / 1024,
        );
        assert!(took < most, "took {took:?}");
        assert!(
            grown < limits().memory_bytes / (1024 * 1024) + SLACK_MIB,
            "grew by {grown} MiB"
        );
    }
}

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn load(bytes: &[u8]) -> Result<Rule, Refused> {
    engine().load(bytes).await
}

async fn ask(engine: &Engine, bytes: &[u8]) -> Result<Verdict, Refused> {
    let rule = engine.load(bytes).await?;
    rule.evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .map(|answer| answer.verdict)
}

/// A component is asked, within half a minute.
async fn attack_with(component: &[u8], reason: Reason) -> Refused {
    let row = Row::begin().await;
    let refused = ask(&engine(), component).await.unwrap_err();
    row.end(Duration::from_secs(30));
    assert_eq!(refused.reason, reason, "{refused}");
    refused
}

/// The Rust guest is asked to do something, within half a minute.
async fn misbehave(target: Target, what: &str) -> Result<Verdict, Refused> {
    misbehave_with(target, what, nothing()).await
}

async fn misbehave_with(target: Target, what: &str, services: Services) -> Result<Verdict, Refused> {
    misbehave_in(&engine(), target, what, services, Duration::from_secs(30)).await
}

/// It would never come to an end by itself, and is given up within ten seconds.
async fn never_ends(target: Target, what: &str, services: Services) {
    let answer = misbehave_in(&hasty(), target, what, services, Duration::from_secs(10)).await;
    refused_for(answer, Reason::EvaluationTimeout);
}

async fn misbehave_in(
    engine: &Engine,
    target: Target,
    what: &str,
    services: Services,
    most: Duration,
) -> Result<Verdict, Refused> {
    let bytes = guest::rust(target).unwrap();
    let rule = engine.load(&bytes).await.unwrap();
    let row = Row::begin().await;
    let config = format!(r#"{{"do": "{what}"}}"#);
    let answer = rule.evaluate(input(&config), &pods(), services).await;
    row.end(most);
    answer.map(|answer| answer.verdict)
}

fn pods() -> Terms {
    let grants: Grants = serde_json::from_value(serde_json::json!({
        "kubernetes": [{"apiVersion": "v1", "kind": "Pod", "namespaces": ["a"]}],
    }))
    .unwrap();
    Terms {
        grants: grants.into(),
        ..Terms::default()
    }
}

#[track_caller]
fn refused_for(answer: Result<Verdict, Refused>, reason: Reason) -> Refused {
    let refused = answer.unwrap_err();
    assert_eq!(refused.reason, reason, "{refused}");
    refused
}

/// A guest that never ends.
fn looping() -> Vec<u8> {
    guest::hostile("loop").unwrap().component
}

/// Each guest of `plugins/conformance/guests` ends with the reason in its head, in bounded time and memory.
#[tokio::test]
async fn each_hostile_guest_ends_with_its_reason() {
    let names = guest::all_hostile().unwrap();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let hostile = made(|| guest::hostile(&name).unwrap()).await;
        let is_endless = hostile.reasons.contains(&Reason::EvaluationTimeout.to_string());
        let (engine, most) = if is_endless { (hasty(), 10) } else { (engine(), 30) };
        let row = Row::begin().await;
        let answer = ask(&engine, &hostile.component).await;
        row.end(Duration::from_secs(most));
        match answer {
            Ok(verdict) => assert!(hostile.reasons.is_empty(), "{name}: {verdict:?}"),
            Err(refused) => {
                assert!(
                    hostile.reasons.contains(&refused.reason.to_string()),
                    "{name}: {refused}, wanted {:?}",
                    hostile.reasons
                );
                assert!(refused.message.contains(&hostile.says), "{name}: {refused}");
            }
        }
    }
}

// Infinite loop

#[tokio::test]
async fn a_loop_is_stopped() {
    never_ends(Target::Unknown, "loop", nothing()).await;
}

#[tokio::test]
async fn the_ticker_sleeps_when_nothing_runs() {
    let row = Row::begin().await;
    let engine = Engine::new(Setup {
        limits: limits(),
        ..Setup::default()
    })
    .unwrap();
    let rule = engine.load(&looping()).await.unwrap();
    rule.evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap_err();
    let ticks = engine.ticks();
    assert!(ticks > 5, "{ticks}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(engine.ticks() <= ticks + 1);
    row.end(Duration::from_secs(10));
}

// Blocked in a host call

#[tokio::test]
async fn a_host_call_that_never_answers_is_given_up() {
    let reader = Objects {
        delay: Duration::from_hours(1),
        ..Objects::default()
    };
    let services = Services {
        reader: Some(std::sync::Arc::new(reader)),
        ..nothing()
    };
    never_ends(Target::Unknown, "get", services).await;
}

#[tokio::test]
async fn a_guest_that_sleeps_is_given_up() {
    never_ends(Target::Wasip2, "sleep", nothing()).await;
}

// memory.grow, over one memory and over several

#[tokio::test]
async fn growing_for_ever_is_refused() {
    refused_for(misbehave(Target::Unknown, "allocate").await, Reason::MemoryLimit);
    refused_for(misbehave(Target::Wasip2, "allocate").await, Reason::MemoryLimit);
}

// Deep recursion

#[tokio::test]
async fn deep_recursion_is_stopped() {
    let refused = misbehave(Target::Unknown, "recurse").await.unwrap_err();
    // A Rust guest runs out of its own stack in memory first: an access out of bounds.
    assert!(
        matches!(refused.reason, Reason::StackOverflow | Reason::Trap),
        "{refused}"
    );
}

// Huge arguments, huge results

#[tokio::test]
async fn a_huge_result_is_refused() {
    refused_for(
        misbehave(Target::Unknown, "big-result").await,
        Reason::TransferLimit,
    );
}

#[tokio::test]
async fn a_huge_argument_is_refused() {
    refused_for(misbehave(Target::Unknown, "big-log").await, Reason::TransferLimit);
}

#[tokio::test]
async fn data_beyond_its_limit_is_no_pass() {
    refused_for(misbehave(Target::Unknown, "bad-data").await, Reason::TooLarge);
}

// Many small calls

#[tokio::test]
async fn a_flood_of_calls_is_answered_over_budget_and_never_a_pass() {
    let reader = || Some(std::sync::Arc::new(Objects::default()) as _);
    for what in ["get-flood", "get-flood-and-pass"] {
        let services = Services {
            reader: reader(),
            ..nothing()
        };
        refused_for(
            misbehave_with(Target::Unknown, what, services).await,
            Reason::CallLimit,
        );
    }
}

#[tokio::test]
async fn a_flood_of_bytes_is_answered_over_budget() {
    let pod = |index: usize| {
        let metadata =
            serde_json::json!({"name": format!("p{index}"), "namespace": "a", "x": "x".repeat(1 << 20)});
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).into()
    };
    let reader = Objects {
        objects: (0..40).map(pod).collect(),
        ..Objects::default()
    };
    let services = Services {
        reader: Some(std::sync::Arc::new(reader)),
        ..nothing()
    };
    refused_for(
        misbehave_with(Target::Unknown, "list", services).await,
        Reason::TransferLimit,
    );
}

#[tokio::test]
async fn a_flood_of_lines_is_dropped_and_says_so_once() {
    let lines = std::sync::Arc::new(Lines::default());
    let services = Services {
        log: lines.clone(),
        ..nothing()
    };
    misbehave_with(Target::Unknown, "log-flood", services)
        .await
        .unwrap();
    let lines = lines.0.lock().unwrap();
    assert_eq!(lines.len(), 201);
    assert!(lines[200].message.contains("dropped"));
    assert!(lines.iter().all(|line| !line.message.contains(['\u{1b}', '\n'])));
}

#[tokio::test]
async fn logging_for_ever_is_stopped() {
    refused_for(
        misbehave(Target::Unknown, "log-for-ever").await,
        Reason::CallLimit,
    );
}

#[tokio::test]
async fn a_flood_of_output_is_dropped_and_does_not_break_the_guest() {
    let lines = std::sync::Arc::new(Lines::default());
    let services = Services {
        log: lines.clone(),
        ..nothing()
    };
    misbehave_with(Target::Wasip2, "print-flood", services)
        .await
        .unwrap();
    assert_eq!(lines.0.lock().unwrap().len(), 201);
}

// A guest panic, an exit

#[tokio::test]
async fn a_panic_is_a_trap_and_its_words_are_kept_where_there_are_any() {
    let refused = refused_for(misbehave(Target::Wasip2, "panic").await, Reason::Trap);
    assert!(refused.message.contains("on purpose"), "{refused}");
    assert!(!refused.message.contains('\u{1b}'), "{refused}");
    refused_for(misbehave(Target::Unknown, "panic").await, Reason::Trap);
}

#[tokio::test]
async fn an_exit_is_a_trap_even_with_code_zero() {
    refused_for(misbehave(Target::Wasip2, "exit").await, Reason::Trap);
}

// Oversize, malformed

#[tokio::test]
async fn an_oversize_component_is_not_even_parsed() {
    let row = Row::begin().await;
    let refused = load(&vec![0; 33 * 1024 * 1024]).await.unwrap_err();
    row.end(Duration::from_secs(1));
    assert_eq!(refused.reason, Reason::TooLarge, "{refused}");
}

#[tokio::test]
async fn malformed_bytes_are_refused_with_a_place() {
    let good = Core::default().component().unwrap();
    for bytes in [&b""[..], b"\0asm", b"hello", &good[..good.len() / 2], &good[..9]] {
        let row = Row::begin().await;
        let refused = load(bytes).await.unwrap_err();
        row.end(Duration::from_secs(1));
        let reason = refused.reason;
        // Eight bytes alone are a valid empty component: one without the export.
        assert!(
            matches!(reason, Reason::CompileFailed | Reason::WrongWorld),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn every_flipped_byte_is_refused_or_harmless() {
    let good = Core::default().component().unwrap();
    let row = Row::begin().await;
    for index in (0..good.len()).step_by(61) {
        let mut bytes = good.clone();
        bytes[index] ^= 0x55;
        // No crash of this process is what is asserted.
        let _ = ask(&hasty(), &bytes).await;
    }
    row.end(Duration::from_mins(2));
}

// Wrong world, missing export, unknown import

#[tokio::test]
async fn a_core_module_is_the_wrong_world() {
    let module = wat::parse_str(Core::default().wat()).unwrap();
    attack_with(&module, Reason::WrongWorld).await;
}

#[tokio::test]
async fn files_environment_and_arguments_are_empty() {
    let Ok(Verdict::Pass(report)) = misbehave(Target::Wasip2, "files").await else {
        panic!("no pass")
    };
    assert_eq!(report.summary, "false 0 0");
}

// Data of one run in the next

#[tokio::test]
async fn nothing_survives_from_one_evaluation_to_the_next() {
    let component = guest::hostile("remembers").unwrap().component;
    for pooled in [false, true] {
        let row = Row::begin().await;
        let engine = Engine::new(Setup {
            limits: limits(),
            pooled,
            ..Setup::default()
        })
        .unwrap();
        let rule = engine.load(&component).await.unwrap();
        for _ in 0..100 {
            rule.evaluate(input("{}"), &Terms::default(), nothing())
                .await
                .unwrap();
        }
        row.end(Duration::from_secs(20));
    }
}

// Compile bombs

fn in_a_child(limits: Limits) -> Engine {
    let compile = Compile::Child {
        program: env!("CARGO_BIN_EXE_numo-plugin-compile").into(),
        arguments: Vec::new(),
    };
    Engine::new(Setup {
        limits,
        compile,
        ..Setup::default()
    })
    .unwrap()
}

#[tokio::test]
async fn a_component_compiles_in_a_child_and_is_the_same() {
    let row = Row::begin().await;
    let rule = in_a_child(limits())
        .load(&Core::default().component().unwrap())
        .await
        .unwrap();
    rule.evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap();
    row.end(Duration::from_secs(20));
}

#[tokio::test]
async fn a_compile_bomb_runs_out_of_time_and_is_remembered() {
    let bytes = made(|| guest::bomb(3000, 400).unwrap()).await;
    let engine = in_a_child(Limits {
        compile_seconds: 1,
        ..limits()
    });
    let row = Row::begin().await;
    let refused = engine.load(&bytes).await.unwrap_err();
    assert_eq!(refused.reason, Reason::CompileTimeout, "{refused}");
    row.end(Duration::from_secs(30));
    let row = Row::begin().await;
    assert_eq!(engine.load(&bytes).await.unwrap_err(), refused);
    // Only inspected again.
    row.end(Duration::from_secs(5));
}

#[tokio::test]
async fn a_compile_bomb_runs_out_of_memory_in_the_child() {
    let bytes = made(|| guest::bomb(1, 100_000).unwrap()).await;
    let engine = in_a_child(Limits {
        compile_memory_bytes: 100 << 20,
        compile_seconds: 60,
        ..limits()
    });
    let row = Row::begin().await;
    let refused = engine.load(&bytes).await.unwrap_err();
    row.end(Duration::from_mins(1));
    assert_eq!(refused.reason, Reason::CompileFailed, "{refused}");
    // This process compiles on.
    engine.load(&Core::default().component().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_compiled_form_beyond_its_limit_is_refused() {
    let engine = in_a_child(Limits {
        compiled_bytes: 1024,
        ..limits()
    });
    let refused = engine
        .load(&Core::default().component().unwrap())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::TooLarge, "{refused}");
}

#[tokio::test]
async fn a_compiler_that_is_not_there_is_said_so() {
    let compile = Compile::Child {
        program: "/nonexistent/numo".into(),
        arguments: Vec::new(),
    };
    let engine = Engine::new(Setup {
        compile,
        ..Setup::default()
    })
    .unwrap();
    let refused = engine
        .load(&Core::default().component().unwrap())
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::CompileFailed, "{refused}");
}

// Malicious or corrupted compiled forms

#[tokio::test]
async fn a_corrupted_cache_is_compiled_anew_and_a_foreign_form_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || Setup {
        cache: Some(folder.path().join("cache")),
        limits: limits(),
        ..Setup::default()
    };
    let bytes = Core::default().component().unwrap();
    let files = |extension: &str| -> Vec<_> {
        let all = std::fs::read_dir(folder.path().join("cache"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|one| one == extension))
            .collect()
    };
    let first = Engine::new(setup()).unwrap();
    let digest = first.load(&bytes).await.unwrap().digest().to_owned();
    let compiled = files("compiled").remove(0);
    let whole = std::fs::read(&compiled).unwrap();
    let foreign = {
        let other = tempfile::tempdir().unwrap();
        let engine = Engine::new(Setup {
            cache: Some(other.path().join("cache")),
            ..setup()
        })
        .unwrap();
        engine.load(&bytes).await.unwrap();
        let entry = std::fs::read_dir(other.path().join("cache"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|one| one == "compiled"))
            .unwrap();
        std::fs::read(entry).unwrap()
    };
    for damaged in [
        b"".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        foreign,
        vec![0; 100_000],
    ] {
        std::fs::write(&compiled, damaged).unwrap();
        let engine = Engine::new(setup()).unwrap();
        let rule = engine.load(&bytes).await.unwrap();
        rule.evaluate(input("{}"), &Terms::default(), nothing())
            .await
            .unwrap();
        assert!(
            std::fs::read(&compiled).unwrap().len() > 10_000,
            "it was written anew"
        );
    }
    assert_eq!(Engine::new(setup()).unwrap().cached(&digest), Some(bytes));
}

// Others beside it

/// As many looping guests as workers; a timer on the same runtime stays on time.
#[tokio::test]
async fn a_timer_beside_looping_guests_stays_on_time() {
    let row = Row::begin().await;
    let setup = Setup {
        limits: Limits {
            evaluation_seconds: 3,
            ..limits()
        },
        workers: 2,
        ..Setup::default()
    };
    let engine = Engine::new(setup).unwrap();
    let rule = engine.load(&looping()).await.unwrap();
    let timer = async || -> Duration {
        let handle = engine.handle().unwrap();
        let ticks = async {
            let begin = Instant::now();
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            begin.elapsed()
        };
        handle.spawn(ticks).await.unwrap()
    };
    let alone = timer().await;
    let terms = Terms::default();
    let looping = [(); 2].map(|()| {
        let (rule, terms) = (rule.clone(), terms.clone());
        tokio::spawn(async move { rule.evaluate(input("{}"), &terms, nothing()).await })
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let beside = timer().await;
    for task in looping {
        assert_eq!(task.await.unwrap().unwrap_err().reason, Reason::EvaluationTimeout);
    }
    // Without a turn at each tick it would be three seconds against one.
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    assert!(ratio < 2.0, "{beside:?} beside loops, {alone:?} alone");
    row.end(Duration::from_secs(30));
}

#[tokio::test]
async fn a_dropped_evaluation_gives_its_turn_back() {
    let row = Row::begin().await;
    let setup = Setup {
        limits: Limits {
            concurrent_evaluations: 1,
            evaluation_seconds: 60,
            ..limits()
        },
        ..Setup::default()
    };
    let engine = Engine::new(setup).unwrap();
    let looping = engine.load(&looping()).await.unwrap();
    let good = engine.load(&Core::default().component().unwrap()).await.unwrap();
    let terms = Terms::default();
    let ask = looping.evaluate(input("{}"), &terms, nothing());
    assert!(
        tokio::time::timeout(Duration::from_millis(300), ask)
            .await
            .is_err()
    );
    good.evaluate(input("{}"), &terms, nothing()).await.unwrap();
    row.end(Duration::from_secs(20));
}

/// Rules of one namespace that sleep, as many as may: one of another namespace answers while they do.
#[tokio::test]
async fn rules_that_sleep_keep_no_place_from_those_of_others() {
    let row = Row::begin().await;
    let setup = Setup {
        limits: Limits {
            concurrent_evaluations: 1,
            evaluation_seconds: 10,
            ..limits()
        },
        ..Setup::default()
    };
    let engine = Engine::new(setup).unwrap();
    let sleeping = engine.load(&guest::rust(Target::Wasip2).unwrap()).await.unwrap();
    let good = engine.load(&Core::default().component().unwrap()).await.unwrap();
    let of = |tenant: &str| Terms {
        tenant: tenant.to_owned(),
        ..pods()
    };
    let sleepers: Vec<_> = (0..40)
        .map(|_| {
            let (rule, terms) = (sleeping.clone(), of("team-a"));
            tokio::spawn(async move {
                rule.evaluate(input(r#"{"do": "sleep"}"#), &terms, nothing())
                    .await
            })
        })
        .collect();
    // One that sleeps has had the only place.
    while engine.ticks() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    good.evaluate(input("{}"), &of("team-b"), nothing())
        .await
        .unwrap();
    assert!(
        sleepers.iter().all(|sleeper| !sleeper.is_finished()),
        "it waited for them"
    );
    for sleeper in sleepers {
        sleeper.abort();
    }
    row.end(Duration::from_secs(20));
}

#[tokio::test]
async fn evaluations_have_so_much_memory_together_and_no_more() {
    let row = Row::begin().await;
    let setup = Setup {
        limits: Limits {
            concurrent_memory_bytes: limits().memory_bytes,
            ..limits()
        },
        ..Setup::default()
    };
    let engine = Engine::new(setup).unwrap();
    let rule = engine.load(&Core::default().component().unwrap()).await.unwrap();
    let terms = Terms::default();
    // More than there is for all is asked for alone.
    let mut large = Terms::default();
    large.limits.memory_bytes = Some(4 * limits().memory_bytes);
    for terms in [&terms, &large] {
        let first = rule.turn(terms).await.unwrap();
        let second = tokio::time::timeout(Duration::from_millis(200), rule.turn(terms)).await;
        assert!(second.is_err(), "two at once");
        drop(first);
        let second = rule.turn(terms).await.unwrap();
        rule.evaluate_in(second, input("{}"), terms, nothing())
            .await
            .unwrap();
    }
    row.end(Duration::from_secs(20));
}
