//! Rules of type cel: their expressions are evaluated in a child process, which bounds itself before it reads one: what
//! a stranger writes may run long, grow large or nest deep. What they see is read here, with the rights of the rule's
//! ServiceAccount.

use super::{
    evaluator::{Inner, PATIENCE, unavailable},
    item,
    reader::RuleReader,
    wire::Kind,
};
use crate::runners::{
    cel::{self, Question, Reply},
    facts,
    wasm::Fault,
};
use numo_api::{CelObjects, CelRule, Reason};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use numo_plugin::{
    ObjectRef,
    confined::{self, Ended},
    services::{ErrorCode, HostError, ListQuery, Object, Reader as _},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    io::{Read as _, Write as _},
    process::ExitCode,
    time::Duration,
};

/// The hidden verb of this binary under which it evaluates expressions.
pub const EVALUATE_VERB: &str = "evaluate-expressions";
/// Children at once: one of a namespace, so that expressions of another are evaluated beside it.
pub(super) const TOGETHER: u64 = 2;
/// Address space of a child (bytes): its code counts too.
pub(super) const MEMORY: u64 = 512 << 20;
/// Bytes of what a child is told, and of what it answers.
const TOLD: usize = 8 << 20;
const ANSWER: u64 = 256 << 10;
/// Objects of one name, and bytes of all of one evaluation as JSON.
const OBJECTS: usize = 2000;
const BYTES: usize = 4 << 20;
/// Bytes in memory for which one of these counts.
const WEIGHT: usize = 16;
/// Objects asked for at once.
const PAGE: u32 = 100;
const EVALUATION_SECONDS: i32 = 5;
/// What a child may take to begin, beyond what the expressions may take.
const BEGIN: Duration = Duration::from_secs(5);

/// What a child is to do, and how it must bound itself; the first line of its input.
#[derive(Serialize, Deserialize)]
struct Errand {
    evaluates: bool,
    memory_bytes: u64,
    seconds: u64,
}

/// The whole of the child process.
pub fn evaluate_child() -> ExitCode {
    let mut input = std::io::stdin().lock();
    let answer = confined::first_line(&mut input)
        .map_err(|error| error.to_string())
        .and_then(|line| serde_json::from_slice::<Errand>(&line).map_err(|error| error.to_string()))
        .and_then(|errand| {
            confined::confine(errand.memory_bytes, errand.seconds).map_err(|error| error.to_string())?;
            let mut text = Vec::new();
            input.read_to_end(&mut text).map_err(|error| error.to_string())?;
            if errand.evaluates {
                let question: Question = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
                serde_json::to_vec(&cel::evaluate(&question)).map_err(|error| error.to_string())
            } else {
                let rule: CelRule = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
                serde_json::to_vec(&cel::check(&rule)).map_err(|error| error.to_string())
            }
        });
    let written = answer.and_then(|answer| {
        let mut output = std::io::stdout().lock();
        output
            .write_all(&answer)
            .and_then(|()| output.flush())
            .map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Inner {
    /// Whether every expression can be read. None if nobody could find out.
    pub(super) async fn check_expressions(
        &self,
        namespace: &str,
        rule: &CelRule,
    ) -> Option<Result<(), Fault>> {
        let text = serde_json::to_vec(rule).ok()?;
        let _turn = self.children.take(namespace, 1).await;
        let checked = self
            .in_child::<Result<(), String>>(false, &text, seconds(rule))
            .await;
        match checked {
            Ok(checked) => Some(checked.map_err(|message| (Reason::InvalidConfig, message))),
            Err((Reason::RuleUnavailable, message)) => {
                tracing::warn!(message, "expressions cannot be checked now");
                None
            }
            // Too slow or too large may be the machine's fault: it is looked at again.
            Err(fault) => Some(Err(fault)),
        }
    }

    /// Evaluates the expressions of a rule.
    pub(super) async fn ask_expressions(
        &self,
        rule: &CelRule,
        request: &EvaluationRequest,
        reader: &RuleReader,
    ) -> Result<RuleAnswer, Fault> {
        // Before anything is read: what waits for its turn holds no memory, and what is read is not old when it has it.
        let _turn = self.children.take(&request.rule.namespace, 1).await;
        let node = self.node(request, reader).await?;
        let pool = self.pool(request, reader).await?;
        let read = tokio::time::timeout(PATIENCE, objects(rule, request, reader)).await;
        let objects =
            read.map_err(|_| unavailable("spec.cel.objects were not read in time".to_owned()))??;
        let question = Question {
            rule: rule.clone(),
            values: cel::values(request, rule, node.as_ref(), pool.as_ref(), &objects),
            now: self.connection.clock.now().to_string(),
        };
        let text = serde_json::to_vec(&question).map_err(|error| unavailable(error.to_string()))?;
        if text.len() > TOLD {
            let message = format!(
                "what the expressions see has {} bytes, wanted at most {TOLD}",
                text.len()
            );
            return Err((Reason::TooLarge, message));
        }
        let reply = self.in_child::<Reply>(true, &text, seconds(rule)).await?;
        let answer = cel::answer(reply);
        tracing::info!(rule = %request.rule, node = request.node, verdict = answer.word(), "a rule was asked");
        Ok(answer)
    }

    /// The MachineConfigPool of the node; none where there is none.
    async fn pool(&self, request: &EvaluationRequest, reader: &RuleReader) -> Result<Option<Value>, Fault> {
        let name = &request.pool;
        if name.is_empty() {
            return Ok(None);
        }
        self.one(Kind::MachineConfigPool, name, reader).await
    }

    async fn in_child<T: for<'a> Deserialize<'a>>(
        &self,
        evaluates: bool,
        text: &[u8],
        seconds: u64,
    ) -> Result<T, Fault> {
        let errand = Errand {
            evaluates,
            memory_bytes: MEMORY,
            seconds,
        };
        let line = serde_json::to_vec(&errand).map_err(|error| unavailable(error.to_string()))?;
        let program = std::env::current_exe().map_err(|error| unavailable(error.to_string()))?;
        let time = Duration::from_secs(seconds) + BEGIN;
        let arguments = [EVALUATE_VERB.to_owned()];
        let ended = confined::ask(&program, &arguments, (&line, text), ANSWER, time).await;
        match ended.map_err(|error| unavailable(format!("expressions cannot be evaluated here: {error}")))? {
            Ended::Answered(answer) => {
                serde_json::from_slice(&answer).map_err(|error| (Reason::RuleError, error.to_string()))
            }
            Ended::TooSlow => {
                let message = format!("the expressions took longer than {seconds} s");
                Err((Reason::EvaluationTimeout, message))
            }
            Ended::TooMuch => Err((
                Reason::TooLarge,
                format!("the answer has more than {ANSWER} bytes"),
            )),
            Ended::Died(words) => {
                let message = format!("the process that evaluates them {words} (it may use {MEMORY} bytes)");
                Err((Reason::MemoryLimit, message))
            }
        }
    }
}

fn seconds(rule: &CelRule) -> u64 {
    let seconds = rule.evaluation_seconds.unwrap_or(EVALUATION_SECONDS);
    u64::try_from(seconds).unwrap_or(1).clamp(1, 60)
}

/// What a rule names in `spec.cel.objects`, by name.
async fn objects(
    rule: &CelRule,
    request: &EvaluationRequest,
    reader: &RuleReader,
) -> Result<Map<String, Value>, Fault> {
    let mut room = BYTES;
    let mut all = Map::new();
    for (index, wanted) in rule.objects.iter().flatten().enumerate() {
        let field = format!("spec.cel.objects[{index}]");
        let value = one(wanted, request, reader, &field, &mut room).await?;
        all.insert(wanted.name.clone(), value);
    }
    Ok(all)
}

async fn one(
    wanted: &CelObjects,
    request: &EvaluationRequest,
    reader: &RuleReader,
    field: &str,
    room: &mut usize,
) -> Result<Value, Fault> {
    // Counted before it is read into values: as text, and as what it takes once it is read.
    let mut spend = |found: &Object| {
        let weight = item::weight(found.text()) / WEIGHT;
        *room = room.checked_sub(found.text().len().max(weight)).ok_or_else(|| {
            let message =
                format!("{field}: the objects have more than {BYTES} bytes; narrow them by selectors");
            (Reason::TooLarge, message)
        })?;
        found.value().map_err(|error| {
            (
                Reason::RuleError,
                format!("{field}: an object cannot be read: {error}"),
            )
        })
    };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let namespace = given(&wanted.namespace);
    let refused = |error: HostError| refused(field, &error);
    if let Some(name) = given(&wanted.object_name) {
        let object = ObjectRef {
            api_version: wanted.api_version.clone(),
            kind: wanted.kind.clone(),
            namespace,
            name,
        };
        let found = reader.get(&object, false).await.map_err(refused)?;
        return found.map_or(Ok(Value::Null), |found| spend(&found));
    }
    let fill = |text: &Option<String>| {
        let text = given(text);
        let filled = text.map(|text| facts::fill(&text, request, facts::in_selector));
        filled
            .transpose()
            .map_err(|error| (Reason::RuleError, format!("{field}: {error}")))
    };
    let mut query = ListQuery {
        api_version: wanted.api_version.clone(),
        kind: wanted.kind.clone(),
        namespace,
        label_selector: fill(&wanted.label_selector)?,
        field_selector: fill(&wanted.field_selector)?,
        live: false,
        limit: PAGE,
        continue_token: None,
    };
    let mut items = Vec::new();
    loop {
        let page = reader.list(&query).await.map_err(refused)?;
        for item in &page.items {
            items.push(spend(item)?);
        }
        if items.len() > OBJECTS {
            let message = format!("{field}: found more than {OBJECTS} objects; narrow them by selectors");
            return Err((Reason::TooLarge, message));
        }
        match page.continue_token {
            Some(token) => query.continue_token = Some(token),
            None => return Ok(Value::Array(items)),
        }
    }
}

/// What a read that failed means.
pub(super) fn refused(field: &str, error: &HostError) -> Fault {
    let reason = match error.code {
        ErrorCode::Denied | ErrorCode::Forbidden => Reason::Denied,
        ErrorCode::TooLarge => Reason::TooLarge,
        ErrorCode::Unavailable | ErrorCode::Expired | ErrorCode::Other => Reason::RuleUnavailable,
        ErrorCode::Invalid | ErrorCode::Unsupported | ErrorCode::OverBudget => Reason::RuleError,
    };
    (reason, format!("{field}: {}", error.message))
}
