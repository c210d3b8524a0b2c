//! What components say, and what is said of objects that nobody can read, in numo's log. A namespace may cause so much and no more, so
//! that nobody fills the log or drowns the words of others; what is left out is counted and said. Nothing here is read by numo itself.

use numo_core::action::EvaluationRequest;
use numo_plugin::services::{LogLevel, LogLine, LogSink};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Bytes that a namespace that was silent for long may write at once, and what it may write each second after that.
const BURST_BYTES: u64 = 256 << 10;
const BYTES_PER_SECOND: u64 = 4 << 10;
/// Bytes that a line counts for beside its words.
const LINE_BYTES: u64 = 256;
/// How often it is said that lines are left out.
const SAID_EVERY: Duration = Duration::from_mins(1);
/// Namespaces that are known; one that is forgotten may write as if it had been silent.
const NAMESPACES: usize = 4096;

/// How much the components of each namespace may write.
#[derive(Debug, Default)]
pub struct LogShares(Mutex<BTreeMap<String, Share>>);

#[derive(Debug)]
struct Share {
    bytes: u64,
    at: Instant,
    left_out: u64,
    said: Option<Instant>,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Written,
    LeftOut,
    /// Left out, and it is time to say that so many were.
    Said(u64),
}

impl LogShares {
    /// Nobody has written.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// What becomes of a line.
    fn fate_of(&self, namespace: &str, line: &LogLine) -> Fate {
        let size = |(key, value): &(String, String)| key.len() + value.len();
        let words = line.message.len() + line.fields.iter().map(size).sum::<usize>();
        self.fate(namespace, LINE_BYTES.saturating_add(words as u64), Instant::now())
    }

    /// What becomes of a line of so many bytes.
    pub(super) fn fate(&self, namespace: &str, bytes: u64, now: Instant) -> Fate {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= NAMESPACES && !shares.contains_key(namespace) {
            shares.retain(|_, share| now.duration_since(share.at) < SAID_EVERY);
        }
        let share = shares.entry(namespace.to_owned()).or_insert(Share {
            bytes: BURST_BYTES,
            at: now,
            left_out: 0,
            said: None,
        });
        share.take(bytes, now)
    }
}

impl Share {
    fn take(&mut self, bytes: u64, now: Instant) -> Fate {
        let seconds = now.duration_since(self.at).as_secs();
        if seconds > 0 {
            let more = seconds.saturating_mul(BYTES_PER_SECOND);
            self.bytes = self.bytes.saturating_add(more).min(BURST_BYTES);
            self.at = now;
        }
        if let Some(left) = self.bytes.checked_sub(bytes) {
            self.bytes = left;
            return Fate::Written;
        }
        self.left_out += 1;
        if self
            .said
            .is_some_and(|said| now.duration_since(said) < SAID_EVERY)
        {
            return Fate::LeftOut;
        }
        self.said = Some(now);
        Fate::Said(std::mem::take(&mut self.left_out))
    }
}

/// Writes what a component says into numo's log.
pub struct Lines {
    namespace: String,
    rule: String,
    node: String,
    shares: Arc<LogShares>,
}

impl Lines {
    /// Those of one question.
    pub fn of(request: &EvaluationRequest, shares: Arc<LogShares>) -> Self {
        Self {
            namespace: request.rule.namespace.clone(),
            rule: request.rule.to_string(),
            node: request.node.clone(),
            shares,
        }
    }
}

impl LogSink for Lines {
    fn line(&self, line: LogLine) {
        let Self { rule, node, .. } = self;
        match self.shares.fate_of(&self.namespace, &line) {
            Fate::Written => {}
            Fate::LeftOut => return,
            Fate::Said(lines) => {
                let namespace = &self.namespace;
                tracing::warn!(
                    namespace,
                    rule,
                    lines,
                    "the rules of this namespace say more than they may: lines are left out"
                );
                return;
            }
        }
        let (message, fields) = (line.message, line.fields);
        match line.level {
            LogLevel::Debug => tracing::debug!(rule, node, ?fields, said = message, "a rule says"),
            LogLevel::Info => tracing::info!(rule, node, ?fields, said = message, "a rule says"),
            LogLevel::Warn => tracing::warn!(rule, node, ?fields, said = message, "a rule says"),
            LogLevel::Error => tracing::error!(rule, node, ?fields, said = message, "a rule says"),
        }
    }
}

/// Lines of the provider of machines.
pub struct ProviderLines(pub Arc<LogShares>);

impl LogSink for ProviderLines {
    fn line(&self, line: LogLine) {
        // No namespace has this name.
        match self.0.fate_of("the provider", &line) {
            Fate::Written => {}
            Fate::LeftOut => return,
            Fate::Said(lines) => {
                tracing::warn!(
                    lines,
                    "the provider of machines says more than it may: lines are left out"
                );
                return;
            }
        }
        let (message, fields) = (line.message, line.fields);
        match line.level {
            LogLevel::Debug => tracing::debug!(?fields, said = message, "the provider of machines says"),
            LogLevel::Info => tracing::info!(?fields, said = message, "the provider of machines says"),
            LogLevel::Warn => tracing::warn!(?fields, said = message, "the provider of machines says"),
            LogLevel::Error => tracing::error!(?fields, said = message, "the provider of machines says"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_too_much_silences_itself_and_nobody_else() {
        let (shares, now) = (LogShares::default(), Instant::now());
        let written = (0..1000).take_while(|_| shares.fate("loud", 1024, now) == Fate::Written);
        assert_eq!(written.count() as u64, BURST_BYTES / 1024);
        assert_eq!(
            shares.fate("loud", 1024, now),
            Fate::LeftOut,
            "it was said already"
        );
        assert_eq!(shares.fate("quiet", 1024, now), Fate::Written);
    }

    #[test]
    fn what_was_left_out_is_counted_and_it_goes_on_later() {
        let (shares, now) = (LogShares::default(), Instant::now());
        assert_eq!(shares.fate("a", BURST_BYTES, now), Fate::Written);
        assert_eq!(shares.fate("a", 1, now), Fate::Said(1));
        assert_eq!(shares.fate("a", 1, now), Fate::LeftOut);
        let later = now + Duration::from_secs(2);
        assert_eq!(shares.fate("a", 2 * BYTES_PER_SECOND, later), Fate::Written);
        assert_eq!(shares.fate("a", 1, later), Fate::LeftOut);
        let minute = now + SAID_EVERY;
        assert_eq!(shares.fate("a", BURST_BYTES, minute), Fate::Said(3));
    }
}
