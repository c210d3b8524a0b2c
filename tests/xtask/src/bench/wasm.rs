//! `wasm_…`: what the host of WASM rules costs, for the Rust rule of `tests/plugin/released`. Where two things are
//! compared they take turns in one process, so that a machine under load slows both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use numo::runners;
use numo_api::{Phase, WasmRule};
use numo_core::action::EvaluationRequest;
use numo_core::observed::{Key, RuleAnswer};
use numo_plugin::bare::Bare;
use numo_plugin::confined::{self, Ended};
use numo_plugin::services::{HostError, ListQuery, Object, ObjectPage, Reader};
use numo_plugin::{COMPILE_VERB, Compile, Engine, Input, ObjectRef, Rule, Services, Setup, Terms};
use serde_json::json;

use super::{Measured, percentile};
use crate::step;

/// Evaluations of one turn.
const ROUNDS: u32 = 200;
/// Turns of each side.
const TURNS: usize = 41;
/// Rules that are held at once.
const RULES: u32 = 32;
/// Evaluations after which a rule must be no larger.
const EVALUATIONS: u32 = 10_000;

/// A configuration under which the rule asks for nothing, and one under which it reads one object.
#[derive(Clone, Copy)]
pub enum Asks {
    /// Only its verdict.
    Nothing,
    /// `get-object`, answered from memory.
    OneObject,
    /// Whatever a rule does without any configuration.
    ItsOwn,
}

impl Asks {
    fn rule(self) -> Result<WasmRule> {
        let config = match self {
            Self::Nothing => json!({"do": "nothing"}),
            Self::OneObject => json!({"do": "get"}),
            Self::ItsOwn => json!({}),
        };
        Ok(serde_json::from_value(json!({
            "config": config,
            "grants": {"kubernetes": [{"apiVersion": "v1", "kind": "Pod"}]},
        }))?)
    }
}

/// The component, as released.
fn component() -> Result<Vec<u8>> {
    let path = step::root().join("tests/plugin/released/1.0.0/rust-unknown.wasm");
    std::fs::read(&path).with_context(|| path.display().to_string())
}

/// An engine as the operator has it: components are compiled in a child, by the numo beside this binary.
pub(super) fn engine(cache: Option<PathBuf>) -> Result<Engine> {
    let program = std::env::current_exe()?.with_file_name("numo");
    Ok(Engine::new(Setup {
        compile: Compile::Child {
            program,
            arguments: vec![COMPILE_VERB.to_owned()],
        },
        cache,
        ..Setup::default()
    })?)
}

/// One object, already in memory.
struct Memory(Object);

#[async_trait]
impl Reader for Memory {
    async fn get(&self, _: &ObjectRef, _: bool) -> Result<Option<Object>, HostError> {
        Ok(Some(self.0.clone()))
    }

    async fn list(&self, _: &ListQuery) -> Result<ObjectPage, HostError> {
        Ok(ObjectPage::default())
    }
}

/// What the operator asks for one node, and how.
#[derive(Clone)]
struct Question {
    rule: Rule,
    spec: Arc<WasmRule>,
    terms: Arc<Terms>,
    request: Arc<EvaluationRequest>,
    reader: Arc<dyn Reader>,
}

impl Question {
    fn new(rule: Rule, asks: Asks) -> Result<Self> {
        let spec = asks.rule()?;
        let terms = runners::wasm::terms(&spec, "").map_err(|(_, message)| anyhow!(message))?;
        let key = |name: &str| Key {
            namespace: "bench".to_owned(),
            name: name.to_owned(),
        };
        let request = EvaluationRequest {
            key: "key".to_owned(),
            rule: key("rule"),
            rule_uid: "1".to_owned(),
            generation: 1,
            phase: Phase::Pre,
            attempt: 1,
            owner: numo_core::Owner::run(key("run")),
            node: "worker-0".to_owned(),
            node_uid: "2".to_owned(),
            pool: "worker".to_owned(),
            from_version: "4.16.4".to_owned(),
            to_version: "4.17.0".to_owned(),
            run: "run".to_owned(),
            history: Vec::new(),
        };
        Ok(Self {
            rule,
            spec: Arc::new(spec),
            terms: Arc::new(terms),
            request: Arc::new(request),
            reader: Arc::new(Memory(Object::from(&json!({})))),
        })
    }

    fn input(&self) -> Input {
        runners::wasm::input(&self.request, &self.spec, Some("{}".to_owned()))
    }

    /// As the operator does it, from its request to its answer.
    async fn ask(&self) -> Result<()> {
        let services = Services {
            reader: Some(self.reader.clone()),
            history: runners::wasm::history(&self.request),
            ..Services::none(jiff::Timestamp::UNIX_EPOCH)
        };
        let answer = self.rule.evaluate(self.input(), &self.terms, services).await;
        match runners::wasm::answer(answer.map(|answer| answer.verdict)) {
            RuleAnswer::Pass(_) => Ok(()),
            other => Err(anyhow!("{other:?}")),
        }
    }

    /// Microseconds of one evaluation: as many as one turn has.
    async fn turn_here(&self) -> Result<f64> {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            self.ask().await?;
        }
        Ok(each(begin))
    }

    /// The same on the engine's own runtime: how a caller gets there is not the sandbox's.
    async fn turn(&self, engine: &Engine) -> Result<f64> {
        let this = self.clone();
        let runtime = engine.handle().context("the engine has stopped")?;
        runtime.spawn(async move { this.turn_here().await }).await?
    }

    /// The same without any limit.
    async fn bare_turn(&self, engine: &Engine, bare: &Arc<Bare>) -> Result<f64> {
        let (this, bare) = (self.clone(), bare.clone());
        let runtime = engine.handle().context("the engine has stopped")?;
        let turn = async move {
            let begin = Instant::now();
            for _ in 0..ROUNDS {
                bare.evaluate(this.input())
                    .await
                    .map_err(|error| anyhow!(error))?;
            }
            Ok(each(begin))
        };
        runtime.spawn(turn).await?
    }
}

/// Microseconds of one of a turn.
fn each(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
}

/// The value in the middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// `wasm_ratio`: the median over turns of what an evaluation takes, over what the bare call took just before or after.
pub async fn ratio() -> Result<Measured> {
    let bytes = component()?;
    let engine = engine(None)?;
    let bare = Arc::new(Bare::new(&engine, &bytes).map_err(|error| anyhow!(error))?);
    let rule = engine.load(&bytes).await?;
    let mut measured = Measured {
        value: 0.0,
        notes: Vec::new(),
    };
    for (asks, what) in [(Asks::Nothing, "no call"), (Asks::OneObject, "one get-object")] {
        let question = Question::new(rule.clone(), asks)?;
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let (with, without) = if turn.is_multiple_of(2) {
                let with = question.turn(&engine).await?;
                (with, question.bare_turn(&engine, &bare).await?)
            } else {
                let without = question.bare_turn(&engine, &bare).await?;
                (question.turn(&engine).await?, without)
            };
            // The first turn of each warms caches.
            if turn > 0 {
                ours.push(with);
                theirs.push(without);
                ratios.push(with / without);
            }
        }
        let apart = question.turn_here().await?;
        measured.value = measured.value.max(median(ratios.clone()));
        measured.notes.push(format!(
            "{what}: ratio {:.2}, {:.1} us with all limits over {:.1} us bare; {apart:.1} us from another runtime",
            median(ratios),
            median(ours),
            median(theirs),
        ));
    }
    Ok(measured)
}

/// `wasm_evaluations_per_second_core…`: one after the other on one thread.
pub async fn rate(asks: Asks) -> Result<Measured> {
    let engine = engine(None)?;
    let question = Question::new(engine.load(&component()?).await?, asks)?;
    let mut taken = Vec::new();
    for _ in 0..TURNS {
        taken.push(question.turn(&engine).await?);
    }
    let each = median(taken);
    Ok(Measured {
        value: 1e6 / each,
        notes: vec![format!("{each:.1} us each")],
    })
}

/// `wasm_compile_ms`: from bytes to a rule that can be asked, compiled in a child process.
pub async fn compile() -> Result<Measured> {
    let bytes = component()?;
    let engine = engine(None)?;
    let mut taken = Vec::new();
    for _ in 0..9 {
        taken.push(load(&engine, &bytes).await?);
    }
    Ok(Measured {
        value: median(taken),
        notes: vec![format!(
            "{} KiB, child process and describe included",
            bytes.len() / 1024
        )],
    })
}

/// `wasm_cached_load_ms`: the same with the compiled form on disk.
pub async fn cached_load() -> Result<Measured> {
    let bytes = component()?;
    let folder = tempfile::tempdir()?;
    let engine = engine(Some(folder.path().join("cache")))?;
    let rule = engine.load(&bytes).await?;
    let mut taken = Vec::new();
    for _ in 0..101 {
        taken.push(load(&engine, &bytes).await?);
    }
    let begin = Instant::now();
    for _ in 0..100 {
        std::hint::black_box(numo_plugin::digest(&bytes));
    }
    let digest = begin.elapsed().as_secs_f64() * 10.0;
    let asked = Question::new(rule, Asks::Nothing)?.turn(&engine).await? / 1000.0;
    let notes = vec![format!(
        "of it {digest:.2} ms the component's digest, and about {asked:.2} ms the call of describe"
    )];
    Ok(Measured {
        value: median(taken),
        notes,
    })
}

/// `child_start_ms`: what its walls and bounds add to a child of numo, from its start to its end. Both get nothing that has to be
/// compiled; the free one is told nothing about bounds, and answers before it sets any.
pub async fn child_start() -> Result<Measured> {
    let bounds = serde_json::to_vec(&numo_plugin::Limits::default())?;
    let (mut confined, mut free) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // They take turns in who is first; the first turn warms the page cache.
        let (with, without) = if turn.is_multiple_of(2) {
            let with = start(&bounds).await?;
            (with, start(b"").await?)
        } else {
            let without = start(b"").await?;
            (start(&bounds).await?, without)
        };
        if turn > 0 {
            confined.push(with);
            free.push(without);
        }
    }
    let (confined, free) = (median(confined), median(free));
    Ok(Measured {
        value: (confined - free).max(0.0),
        notes: vec![format!(
            "{confined:.2} ms confined, {free:.2} ms without walls and bounds; missing in this kernel: {:?}",
            numo_plugin::confined::missing()
        )],
    })
}

/// Milliseconds of a compiling child that is told these bounds, and gets no component.
async fn start(bounds: &[u8]) -> Result<f64> {
    let program = std::env::current_exe()?.with_file_name("numo");
    let verb = [COMPILE_VERB.to_owned()];
    let begin = Instant::now();
    let ended = confined::ask(&program, &verb, (bounds, b""), 1 << 16, Duration::from_mins(1)).await?;
    let taken = begin.elapsed().as_secs_f64() * 1000.0;
    match ended {
        Ended::Answered(_) => Ok(taken),
        other => Err(anyhow!("{other:?}")),
    }
}

async fn load(engine: &Engine, bytes: &[u8]) -> Result<f64> {
    let begin = Instant::now();
    engine.load(bytes).await?;
    Ok(begin.elapsed().as_secs_f64() * 1000.0)
}

/// `wasm_idle_rule_kib`: what each of many loaded rules adds to the memory of this process, after each was asked often.
pub async fn idle() -> Result<Measured> {
    let (value, _, notes) = resident().await?;
    Ok(Measured { value, notes })
}

/// KiB by which this process grows over so many evaluations more of a rule that has been asked before.
pub async fn growth() -> Result<Measured> {
    let (_, value, notes) = resident().await?;
    // Less than before is no growth.
    let value = value.max(0.0);
    Ok(Measured { value, notes })
}

/// KiB of an idle rule, KiB by which further evaluations grow this process, and where both come from.
async fn resident() -> Result<(f64, f64, Vec<String>)> {
    let bytes = component()?;
    let folder = tempfile::tempdir()?;
    let cache = folder.path().join("cache");
    // Whatever loading and asking for the first time leaves behind is the engine's, not a rule's.
    let engine = engine(Some(cache))?;
    let first = engine.load(&variant(&bytes, 0)).await?;
    Question::new(first.clone(), Asks::OneObject)?
        .turn(&engine)
        .await?;
    for index in 1..=RULES {
        engine.load(&variant(&bytes, index)).await?;
    }
    let before = resident_kib()?;
    let mut rules = Vec::new();
    for index in 1..=RULES {
        rules.push(engine.load(&variant(&bytes, index)).await?);
    }
    let loaded = resident_kib()?;
    for rule in &rules {
        let question = Question::new(rule.clone(), Asks::OneObject)?;
        for _ in 0..EVALUATIONS.div_ceil(ROUNDS * RULES) {
            question.turn(&engine).await?;
        }
    }
    let asked = resident_kib()?;
    let question = Question::new(first, Asks::OneObject)?;
    for _ in 0..EVALUATIONS / ROUNDS {
        question.turn(&engine).await?;
    }
    let flat = resident_kib()? - asked;
    drop(rules);
    let each = |end: f64| (end - before) / f64::from(RULES);
    let notes = vec![
        format!(
            "{:.0} KiB of each when loaded ({} KiB of component)",
            each(loaded),
            bytes.len() / 1024,
        ),
        format!("{flat:+.0} KiB of the process by {EVALUATIONS} further evaluations"),
    ];
    Ok((each(asked), flat, notes))
}

/// One line on a component of the user's: what it costs, without any bound.
pub async fn beside(path: &std::path::Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let folder = tempfile::tempdir()?;
    let engine = engine(Some(folder.path().join("cache")))?;
    let compiled = load(&engine, &bytes).await?;
    let mut taken = Vec::new();
    for _ in 0..11 {
        taken.push(load(&engine, &bytes).await?);
    }
    let rule = engine.load(&bytes).await?;
    let question = Question::new(rule, Asks::ItsOwn)?;
    let asked = match question.turn_here().await {
        Ok(each) => format!("{each:.0} us an evaluation"),
        // A rule of its own mind about its configuration.
        Err(error) => format!("no pass: {error}"),
    };
    Ok(format!(
        "{}: {} KiB, compile {compiled:.0} ms, cached load {:.2} ms, {asked}",
        path.display(),
        bytes.len() / 1024,
        median(taken)
    ))
}

/// The component with a custom section of its own, and so another digest.
fn variant(bytes: &[u8], index: u32) -> Vec<u8> {
    let mut all = bytes.to_vec();
    // Section 0, 6 bytes: a name of one byte, and the number.
    all.extend([0, 6, 1, b'n']);
    all.extend(index.to_le_bytes());
    all
}

fn resident_kib() -> Result<f64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB"));
    Ok(number.context("Rss of this process")?.trim().parse()?)
}
