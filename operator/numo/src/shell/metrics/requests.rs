//! Requests to the API server: how long the answers took, and what they were.

use super::{
    described::{API_REQUEST_SECONDS, API_REQUESTS},
    series::register,
};
use crate::shell::requests::{Answered, VERBS};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    verb: &'static str,
    code: String,
}

/// What is counted before it has happened: an answer, one that the API server's rate limit refuses, and none.
const CODES: [&str; 3] = ["200", "429", "none"];

/// Counters of requests.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    seconds: Family<VerbLabels, Histogram>,
    answers: Family<AnswerLabels, Counter>,
}

fn seconds() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self {
            seconds: Family::new_with_constructor(seconds),
            answers: Family::default(),
        };
        register(registry, API_REQUEST_SECONDS, all.seconds.clone());
        register(registry, API_REQUESTS, all.answers.clone());
        for verb in VERBS {
            let _ = all.seconds.get_or_create(&VerbLabels { verb });
            for code in CODES {
                let code = code.to_owned();
                let _ = all.answers.get_or_create(&AnswerLabels { verb, code });
            }
        }
        all
    }

    pub(super) fn count(&self, answered: Answered) {
        let verb = answered.verb;
        let code = answered
            .code
            .map_or_else(|| "none".to_owned(), |code| code.to_string());
        let seconds = self.seconds.get_or_create(&VerbLabels { verb });
        seconds.observe(answered.took.as_secs_f64());
        self.answers.get_or_create(&AnswerLabels { verb, code }).inc();
    }
}
