//! numo's own check, workloads-ready: which controllers had pods on a node, and whether they are as ready as they were.
//! It reads nothing; who reads tells it.

use numo_api::Phase;
use numo_core::{
    action::{EarlierWord, EvaluationRequest},
    observed::{RuleAnswer, RuleWords},
    text::counted,
};
use serde::{Deserialize, Serialize};

/// Bytes of what is remembered.
const DATA: usize = 16 * 1024;
/// Names in one sentence.
const NAMED: usize = 3;
/// Seconds after which workloads are looked at again that nobody watches.
const RETRY_AFTER_SECONDS: i64 = 10;

/// A controller of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Deployment, StatefulSet or ReplicaSet of apps/v1.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// How a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// `spec.replicas`.
    pub wanted: i64,
    /// `status.readyReplicas`, 0 while its controller has not seen its newest specification.
    pub ready: i64,
}

/// One line of the memory: a workload, and how many of its replicas were ready. Journals of earlier builds have a third
/// item, which is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<serde_json::Value>")]
struct Remembered(Workload, i64);

impl TryFrom<Vec<serde_json::Value>> for Remembered {
    type Error = serde_json::Error;

    fn try_from(items: Vec<serde_json::Value>) -> Result<Self, Self::Error> {
        let mut items = items.into_iter();
        let mut next = || items.next().unwrap_or_default();
        Ok(Self(
            serde_json::from_value(next())?,
            serde_json::from_value(next())?,
        ))
    }
}

/// What is said before the release.
pub fn remember(found: &[(Workload, State)]) -> RuleAnswer {
    let mut kept: Vec<Remembered> = found
        .iter()
        .filter(|(_, state)| state.wanted > 0 && state.ready > 0)
        .map(|(workload, state)| Remembered(workload.clone(), state.ready))
        .collect();
    let all = kept.len();
    let having = format!(
        "{} {}",
        counted(all, "workload"),
        if all == 1 { "has" } else { "have" }
    );
    let mut data = serde_json::to_string(&kept).unwrap_or_default();
    while data.len() > DATA {
        kept.truncate(kept.len() * 9 / 10);
        data = serde_json::to_string(&kept).unwrap_or_default();
    }
    let summary = match (kept.len(), all) {
        (0, _) => "no workload has pods on it".to_owned(),
        (kept, all) if kept == all => format!("{having} pods on it"),
        (kept, _) => format!("{having} pods on it; {kept} of them are remembered"),
    };
    RuleAnswer::Pass(RuleWords {
        reason: "WorkloadsRemembered".to_owned(),
        summary,
        data: Some(data),
        ..RuleWords::default()
    })
}

/// Which workloads are to be looked at after the change.
pub fn remembered(request: &EvaluationRequest) -> Vec<Workload> {
    let memory = memory(request).unwrap_or_default();
    memory
        .into_iter()
        .map(|Remembered(workload, _)| workload)
        .collect()
}

/// Those of them that were not ready when they were looked at last: while one is not, no other needs to be read.
pub fn unready_before(request: &EvaluationRequest) -> Vec<Workload> {
    let last = request
        .history
        .first()
        .filter(|last| last.word == EarlierWord::Wait);
    let data = last.and_then(|last| last.data.as_deref());
    data.and_then(|data| serde_json::from_str(data).ok())
        .unwrap_or_default()
}

/// None if nothing was remembered.
fn memory(request: &EvaluationRequest) -> Option<Vec<Remembered>> {
    let before = request
        .history
        .iter()
        .find(|earlier| earlier.phase == Phase::Pre && earlier.word == EarlierWord::Pass);
    serde_json::from_str(before?.data.as_deref()?).ok()
}

/// What is said after the change, and who is not ready: a workload with fewer ready replicas than before the release,
/// unless fewer are wanted now. A workload that is gone is not waited for.
pub fn compare(request: &EvaluationRequest, found: &[(Workload, State)]) -> (RuleAnswer, Vec<Workload>) {
    let words = |reason: &str, summary: String, data| RuleWords {
        reason: reason.to_owned(),
        summary: numo_core::rules::clip(&summary, 512),
        data,
        ..RuleWords::default()
    };
    let Some(memory) = memory(request) else {
        let summary = "nothing was remembered before the node changed".to_owned();
        return (
            RuleAnswer::Pass(words("WorkloadsUnknown", summary, None)),
            Vec::new(),
        );
    };
    let unready: Vec<(Workload, String)> = memory
        .iter()
        .filter_map(|Remembered(workload, before)| {
            let (_, state) = found.iter().find(|(of, _)| of == workload)?;
            // Who asks for more replicas meanwhile asks for them of the cluster, not of the node.
            let wanted = state.wanted.min(*before);
            (state.ready < wanted).then(|| {
                let text = format!("{workload} has {} of {wanted} ready replicas", state.ready);
                (workload.clone(), text)
            })
        })
        .collect();
    if unready.is_empty() {
        let summary = match memory.len() {
            0 => "no workload had pods on it".to_owned(),
            1 => "the workload that had pods on it is as ready as before".to_owned(),
            all => format!("the {all} workloads that had pods on it are as ready as before"),
        };
        return (
            RuleAnswer::Pass(words("WorkloadsReady", summary, None)),
            Vec::new(),
        );
    }
    let more = match unready.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let named = unready
        .iter()
        .take(NAMED)
        .map(|(_, text)| text.clone())
        .collect::<Vec<_>>()
        .join(", ");
    let who: Vec<Workload> = unready.into_iter().map(|(workload, _)| workload).collect();
    let data = serde_json::to_string(&who).ok();
    let words = words("WorkloadsNotReady", format!("{named}{more}"), data);
    (RuleAnswer::Wait(words, RETRY_AFTER_SECONDS), who)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::{action::Earlier, observed::Key, ready};

    fn web(name: &str) -> Workload {
        Workload {
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn state(ready: i64, wanted: i64) -> State {
        State { wanted, ready }
    }

    fn after(before: &[(Workload, State)]) -> EvaluationRequest {
        let RuleAnswer::Pass(words) = remember(before) else {
            panic!("what is remembered holds nobody")
        };
        let remembered = Earlier {
            phase: Phase::Pre,
            attempt: 1,
            at: String::new(),
            word: EarlierWord::Pass,
            reason: words.reason,
            summary: words.summary,
            data: words.data,
        };
        EvaluationRequest {
            key: String::new(),
            rule: ready::key(),
            rule_uid: String::new(),
            generation: 1,
            phase: Phase::Post,
            attempt: 1,
            owner: numo_core::Owner::run(Key::new("numo", "run")),
            node: "worker-0".to_owned(),
            node_uid: String::new(),
            pool: String::new(),
            from_version: String::new(),
            to_version: String::new(),
            run: String::new(),
            history: vec![remembered],
        }
    }

    #[test]
    fn a_workload_must_be_as_ready_as_it_was_and_no_more() {
        let before = [
            (web("whole"), state(3, 3)),
            (web("ailing"), state(1, 2)),
            (web("off"), state(0, 0)),
        ];
        let request = after(&before);
        assert_eq!(remembered(&request), [web("whole"), web("ailing")]);
        let now = |whole, ailing| compare(&request, &[(web("whole"), whole), (web("ailing"), ailing)]).0;
        assert!(matches!(now(state(3, 3), state(1, 2)), RuleAnswer::Pass(_)));
        // Scaled meanwhile: what was ready before, and no more than is wanted now.
        assert!(matches!(now(state(1, 1), state(0, 0)), RuleAnswer::Pass(_)));
        assert!(matches!(now(state(3, 4), state(1, 2)), RuleAnswer::Pass(_)));
        assert!(matches!(now(state(2, 4), state(1, 2)), RuleAnswer::Wait(..)));
        let RuleAnswer::Wait(words, _) = now(state(2, 3), state(0, 2)) else {
            panic!("nobody waits")
        };
        assert_eq!(words.reason, "WorkloadsNotReady");
        assert!(
            words.summary.contains("Deployment shop/whole has 2 of 3"),
            "{}",
            words.summary
        );
        assert!(
            words.summary.contains("Deployment shop/ailing has 0 of 1"),
            "{}",
            words.summary
        );
        assert!(
            matches!(compare(&request, &[]).0, RuleAnswer::Pass(_)),
            "both are gone"
        );
    }

    #[test]
    fn a_memory_of_an_earlier_build_is_read() {
        let mut request = after(&[]);
        let old = r#"[[{"kind":"Deployment","namespace":"shop","name":"web"},2,true]]"#;
        request.history[0].data = Some(old.to_owned());
        assert_eq!(remembered(&request), [web("web")]);
        assert!(matches!(
            compare(&request, &[(web("web"), state(1, 2))]).0,
            RuleAnswer::Wait(..)
        ));
    }

    #[test]
    fn who_was_not_ready_is_looked_at_first_and_no_memory_is_said_so() {
        let mut request = after(&[(web("a"), state(1, 1)), (web("b"), state(1, 1))]);
        let (answer, unready) = compare(&request, &[(web("a"), state(0, 1)), (web("b"), state(1, 1))]);
        let RuleAnswer::Wait(words, _) = answer else {
            panic!("nobody waits")
        };
        assert_eq!(unready, [web("a")]);
        let mut waited = request.history[0].clone();
        (waited.word, waited.phase, waited.data) = (EarlierWord::Wait, Phase::Post, words.data);
        request.history.insert(0, waited);
        assert_eq!(unready_before(&request), [web("a")]);
        request.history.clear();
        let RuleAnswer::Pass(words) = compare(&request, &[]).0 else {
            panic!("nobody is held")
        };
        assert_eq!(words.reason, "WorkloadsUnknown");
    }

    #[test]
    fn a_node_with_very_many_workloads_is_remembered_in_part() {
        let many: Vec<_> = (0..2000)
            .map(|number| (web(&format!("web-{number}")), state(1, 1)))
            .collect();
        let RuleAnswer::Pass(words) = remember(&many) else {
            panic!("nobody is held")
        };
        assert!(words.data.as_ref().is_some_and(|data| data.len() <= DATA));
        assert!(
            words.summary.starts_with("2000 workloads have pods on it; "),
            "{}",
            words.summary
        );
        assert!(remembered(&after(&many)).len() > 100);
    }
}
