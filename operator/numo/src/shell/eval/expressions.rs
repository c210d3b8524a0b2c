//! Rules of type cel: their expressions are evaluated in a child process, which bounds itself before it reads one: what
//! a stranger writes may run long, grow large or nest deep. What they see is read here, with the rights of the rule's
//! ServiceAccount.

use super::{
    reader::RuleReader,
    state::{Children, Inner, PATIENCE, unavailable},
};
use crate::{
    runners::{
        cel::{self, Question, Reply},
        facts,
        wasm::Fault,
    },
    shell::{item, project::Kind},
};
use numo_api::{CelObjects, CelRule, Reason};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use numo_plugin::{
    ObjectRef,
    confined::{self, Ended},
    services::{ErrorCode, HostError, ListQuery, Object, Reader as _},
    shares::{Share, Shares},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// The hidden verb of this binary under which it evaluates expressions.
pub const EVALUATE_VERB: &str = "evaluate-expressions";
/// Children that evaluate at once: one of a namespace, so that expressions of another are evaluated beside it.
pub(super) const TOGETHER: u64 = 2;
/// Children that check at once. Whoever writes rules that nobody refers to has them checked, and holds up no evaluation by that.
pub(super) const CHECKED_TOGETHER: u64 = 1;
/// Address space of a child (bytes): its code counts too. One that checks has no objects to hold.
pub(super) const MEMORY: u64 = 368 << 20;
pub(super) const CHECK_MEMORY: u64 = 256 << 20;
/// How long a check may take (seconds): its author has no word in that.
const CHECK_SECONDS: u64 = 5;
/// Evaluations that read what their expressions see, or hold it while they wait for a child: each up to [`BYTES`].
pub(super) const READ_TOGETHER: u64 = 8;
/// How old objects may be once there is a child for them; older ones are read again: a Pass is as old as what it is from.
const FRESH: Duration = Duration::from_secs(20);
/// Bytes of what a child is told, and of what it answers.
const TOLD: usize = 8 << 20;
const ANSWER: u64 = 256 << 10;
/// Objects of one name, and bytes of all of one evaluation as JSON.
const OBJECTS: usize = 2000;
pub(super) const BYTES: usize = 4 << 20;
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
#[cfg(feature = "operator")]
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

impl Children {
    /// Children of this binary.
    pub(super) fn new() -> Self {
        let program = std::env::current_exe().ok();
        Self::of(program.map(|program| (program, vec![EVALUATE_VERB.to_owned()])))
    }

    fn of(program: Option<(PathBuf, Vec<String>)>) -> Self {
        Self {
            program,
            evaluations: Shares::new(TOGETHER),
            checks: Shares::new(CHECKED_TOGETHER),
            readings: Shares::new(READ_TOGETHER),
            fresh: FRESH,
        }
    }

    /// Has a rule checked, once it is its namespace's turn.
    async fn check(&self, namespace: &str, text: &[u8]) -> Result<Result<(), String>, Fault> {
        let _turn = self.checks.take(namespace, 1).await;
        let errand = Errand {
            evaluates: false,
            memory_bytes: CHECK_MEMORY,
            seconds: CHECK_SECONDS,
        };
        self.run(errand, text).await
    }

    /// What a rule names in `spec.cel.objects`, and the place of the child for it.
    async fn objects(
        &self,
        rule: &CelRule,
        request: &EvaluationRequest,
        reader: &RuleReader,
    ) -> Result<(Share, Map<String, Value>), Fault> {
        let namespace = &request.rule.namespace;
        // Who waits to read holds no memory, and who reads holds no child: the API server of what a rule names may be slow.
        let _reading = self.readings.take(namespace, 1).await;
        let mut found = objects(rule, request, reader).await?;
        reader.release();
        let turn = self.evaluations.take(namespace, 1).await;
        if reader.age() > self.fresh {
            drop(found);
            reader.forget();
            found = objects(rule, request, reader).await?;
            reader.release();
        }
        Ok((turn, read(found)?))
    }

    /// Has a question evaluated within so many seconds, in its place.
    async fn evaluate(&self, _turn: Share, text: &[u8], seconds: u64) -> Result<Reply, Fault> {
        let errand = Errand {
            evaluates: true,
            memory_bytes: MEMORY,
            seconds,
        };
        self.run(errand, text).await
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
        match self.children.check(namespace, &text).await {
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
        let (turn, objects) = self.children.objects(rule, request, reader).await?;
        // These are read with the child at hand: numo's own kinds, one object each.
        let node = self.node(request, reader).await?;
        let pool = self.pool(request, reader).await?;
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
        let reply = self.children.evaluate(turn, &text, seconds(rule)).await?;
        let answer = cel::answer(reply);
        tracing::info!(rule = %request.rule, node = request.node, verdict = answer.word(), "a rule was evaluated");
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
}

impl Children {
    async fn run<T: for<'a> Deserialize<'a>>(&self, errand: Errand, text: &[u8]) -> Result<T, Fault> {
        let (seconds, memory) = (errand.seconds, errand.memory_bytes);
        let line = serde_json::to_vec(&errand).map_err(|error| unavailable(error.to_string()))?;
        let Some((program, arguments)) = &self.program else {
            let message = "expressions cannot be evaluated here: numo does not find its own program";
            return Err(unavailable(message.to_owned()));
        };
        let time = Duration::from_secs(seconds) + BEGIN;
        let ended = confined::ask(program, arguments, (&line, text), ANSWER, time).await;
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
                let message = format!("the process that evaluates them {words} (it may use {memory} bytes)");
                Err((Reason::MemoryLimit, message))
            }
        }
    }
}

fn seconds(rule: &CelRule) -> u64 {
    let seconds = rule.evaluation_seconds.unwrap_or(EVALUATION_SECONDS);
    u64::try_from(seconds).unwrap_or(1).clamp(1, 60)
}

/// What a rule names in one entry of `spec.cel.objects`, as text.
struct Found {
    /// Its name.
    name: String,
    /// Which entry it is, in words.
    field: String,
    /// One object, or all that were selected.
    objects: Objects,
}

enum Objects {
    One(Option<Object>),
    All(Vec<Object>),
}

/// What a rule names in `spec.cel.objects`, at most [`BYTES`]: it stays text until there is a child for it.
async fn objects(
    rule: &CelRule,
    request: &EvaluationRequest,
    reader: &RuleReader,
) -> Result<Vec<Found>, Fault> {
    let all = async {
        let mut room = BYTES;
        let mut all = Vec::new();
        for (index, wanted) in rule.objects.iter().flatten().enumerate() {
            let field = format!("spec.cel.objects[{index}]");
            let objects = one(wanted, request, reader, &field, &mut room).await?;
            all.push(Found {
                name: wanted.name.clone(),
                field,
                objects,
            });
        }
        Ok(all)
    };
    let read = tokio::time::timeout(PATIENCE, all).await;
    read.map_err(|_| unavailable("spec.cel.objects were not read in time".to_owned()))?
}

/// The same as values, by name.
fn read(found: Vec<Found>) -> Result<Map<String, Value>, Fault> {
    let value = |field: &str, object: &Object| {
        object.value().map_err(|error| {
            (
                Reason::RuleError,
                format!("{field}: an object cannot be read: {error}"),
            )
        })
    };
    let mut all = Map::new();
    for Found { name, field, objects } in found {
        let values = match &objects {
            Objects::One(None) => Value::Null,
            Objects::One(Some(object)) => value(&field, object)?,
            Objects::All(objects) => {
                let values = objects.iter().map(|object| value(&field, object));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
        };
        all.insert(name, values);
    }
    Ok(all)
}

/// The objects that one name stands for.
async fn one(
    wanted: &CelObjects,
    request: &EvaluationRequest,
    reader: &RuleReader,
    field: &str,
    room: &mut usize,
) -> Result<Objects, Fault> {
    // Counted before it is read into values: as text, and as what it takes once it is read.
    let mut spend = |found: &Object| {
        let weight = item::weight(found.text()) / WEIGHT;
        *room = room.checked_sub(found.text().len().max(weight)).ok_or_else(|| {
            let message =
                format!("{field}: the objects have more than {BYTES} bytes; narrow them by selectors");
            (Reason::TooLarge, message)
        })?;
        Ok::<_, Fault>(())
    };
    let namespace = given(wanted.namespace.as_ref());
    let refused = |error: HostError| refused(field, &error);
    if let Some(name) = given(wanted.object_name.as_ref()) {
        let object = ObjectRef {
            api_version: wanted.api_version.clone(),
            kind: wanted.kind.clone(),
            namespace,
            name,
        };
        let found = reader.get(&object, false).await.map_err(refused)?;
        found.as_ref().map_or(Ok(()), &mut spend)?;
        return Ok(Objects::One(found));
    }
    let mut query = query(wanted, request, namespace, field)?;
    let mut items = Vec::new();
    loop {
        let page = reader.list(&query).await.map_err(refused)?;
        for item in page.items {
            spend(&item)?;
            items.push(item);
        }
        if items.len() > OBJECTS {
            let message = format!("{field}: found more than {OBJECTS} objects; narrow them by selectors");
            return Err((Reason::TooLarge, message));
        }
        match page.continue_token {
            Some(token) => query.continue_token = Some(token),
            None => return Ok(Objects::All(items)),
        }
    }
}

fn given(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// What is listed of the objects of a name.
fn query(
    wanted: &CelObjects,
    request: &EvaluationRequest,
    namespace: Option<String>,
    field: &str,
) -> Result<ListQuery, Fault> {
    let fill = |text: Option<&String>| {
        let text = given(text);
        let filled = text.map(|text| facts::fill(&text, request, facts::in_selector));
        filled
            .transpose()
            .map_err(|error| (Reason::RuleError, format!("{field}: {error}")))
    };
    Ok(ListQuery {
        api_version: wanted.api_version.clone(),
        kind: wanted.kind.clone(),
        namespace,
        label_selector: fill(wanted.label_selector.as_ref())?,
        field_selector: fill(wanted.field_selector.as_ref())?,
        live: false,
        limit: PAGE,
        continue_token: None,
    })
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

#[cfg(test)]
mod tests {
    use super::{
        super::reader::{Access, answering},
        *,
    };
    use crate::runners::cel::Words;
    use numo_core::observed::Key;
    use serde_json::json;
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    /// Children that answer an evaluation at once, and a check never.
    fn children() -> Children {
        let reply = serde_json::to_string(&Reply::Pass(Words::default())).unwrap();
        let script = format!(
            r#"read -r line
            case "$line" in
                *'"evaluates":true'*) while read -r more; do :; done; printf '%s' '{reply}' ;;
                *) exec /bin/sleep 600 ;;
            esac"#
        );
        Children::of(Some((PathBuf::from("/bin/sh"), vec!["-c".to_owned(), script])))
    }

    fn request(namespace: &str) -> EvaluationRequest {
        EvaluationRequest {
            key: String::new(),
            rule: Key::new(namespace, "rule"),
            rule_uid: String::new(),
            generation: 1,
            phase: numo_api::Phase::Pre,
            attempt: 1,
            owner: numo_core::Owner::run(Key::new("numo", "run")),
            node: String::new(),
            node_uid: String::new(),
            pool: String::new(),
            from_version: String::new(),
            to_version: String::new(),
            run: "run-1".to_owned(),
            history: Vec::new(),
        }
    }

    fn rule() -> CelRule {
        let rule = json!({"validations": [], "objects": [
            {"name": "pods", "apiVersion": "v1", "kind": "Pod", "namespace": "team"},
        ]});
        serde_json::from_value(rule).unwrap()
    }

    #[tokio::test]
    async fn checks_of_many_namespaces_hold_up_no_evaluation() {
        let children = children();
        let strangers: Vec<String> = (0..16).map(|number| format!("stranger-{number}")).collect();
        let checks = strangers.iter().map(|namespace| children.check(namespace, b"{}"));
        let mut checks: Vec<_> = checks.map(Box::pin).collect();
        // The first has its child, all others wait.
        for check in &mut checks {
            assert!(futures::poll!(check.as_mut()).is_pending());
        }
        for namespace in ["team", "stranger-0"] {
            let turn = children.evaluations.take(namespace, 1).await;
            let reply = children.evaluate(turn, b"{}", 60).await.unwrap();
            assert_eq!(reply, Reply::Pass(Words::default()), "{namespace}");
        }
        for check in &mut checks {
            assert!(
                futures::poll!(check.as_mut()).is_pending(),
                "they are still being checked"
            );
        }
    }

    #[tokio::test]
    async fn who_reads_for_long_holds_no_child() {
        let children = children();
        let access = Arc::new(Access::new(answering(|_| None)));
        let namespaces = ["stranger-0", "stranger-1", "stranger-2"];
        let rule = rule();
        let asked: Vec<_> = namespaces
            .iter()
            .map(|namespace| (request(namespace), RuleReader::own(access.clone())))
            .collect();
        let reading = asked
            .iter()
            .map(|(request, reader)| children.objects(&rule, request, reader));
        let mut reading: Vec<_> = reading.map(Box::pin).collect();
        for one in &mut reading {
            assert!(futures::poll!(one.as_mut()).is_pending());
        }
        let reader = RuleReader::own(access);
        let request = request("team");
        let without = CelRule::default();
        let answered = pin!(children.objects(&without, &request, &reader));
        assert!(futures::poll!(answered).is_ready(), "both children are free");
    }

    #[tokio::test]
    async fn what_grew_old_while_it_waited_for_a_child_is_read_again() {
        for (fresh, wanted) in [(Duration::MAX, 1), (Duration::ZERO, 2)] {
            let lists = Arc::new(AtomicUsize::new(0));
            let counted = lists.clone();
            let client = answering(move |uri| {
                if uri.path() == "/api/v1" {
                    return Some(
                        json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                            {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": true, "verbs": ["list"]},
                        ]}),
                    );
                }
                let number = counted.fetch_add(1, Ordering::AcqRel) + 1;
                Some(json!({"metadata": {}, "items": [{"metadata": {"name": format!("pod-{number}")}}]}))
            });
            let children = Children { fresh, ..children() };
            let reader = RuleReader::own(Arc::new(Access::new(client)));
            let (_turn, seen) = children
                .objects(&rule(), &request("team"), &reader)
                .await
                .unwrap();
            assert_eq!(lists.load(Ordering::Acquire), wanted);
            assert_eq!(seen["pods"][0]["metadata"]["name"], format!("pod-{wanted}"));
            assert!(
                children.readings.try_take("other", READ_TOGETHER).is_some(),
                "it reads no more"
            );
        }
    }
}
