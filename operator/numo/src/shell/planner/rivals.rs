//! When the API server is asked who else is at work: operators that numo replaces, and kured. What they may do is found out in
//! `shell/rival.rs` and `shell/probe.rs`; what that means is decided in the core.

use super::context::{Context, PATIENCE};
use crate::shell::{
    probe, rival,
    store::{Seen, Store},
};
use numo_core::observed::Key;
use std::time::Duration;
use tokio::time::Instant;

/// Deployments and DaemonSets of other operators that are asked about at once.
const CLAIMS_AT_ONCE: usize = 32;

/// When others were looked for first.
#[derive(Debug, Default)]
pub struct Rivals {
    /// Since when everything was listed.
    complete_since: Option<Instant>,
}

impl Rivals {
    /// Whether the planner waits until the API server has said who else is at work: not for ever.
    pub fn await_claims(&mut self, store: &Store) -> bool {
        let since = *self.complete_since.get_or_insert_with(Instant::now);
        store.awaits_claims() && since.elapsed() < PATIENCE
    }
}

/// When the API server is to be asked next.
pub fn next(store: &Store) -> Option<Duration> {
    let claims = store.claims().filter_map(|(_, claim)| match claim.asked_at {
        // One that has just been seen changes no decision before it is asked about.
        None => Some(Duration::ZERO),
        Some(asked) => Some(claim.again()?.saturating_sub(asked.elapsed())),
    });
    let kured = store.kured().map(|(_, kured)| kured.due_in());
    claims.chain(kured).min()
}

/// Asks the API server now and then whether those may do the work of an operator who have its name, and what is left of
/// one that does not run.
pub fn judge(context: &mut Context) {
    judge_claims(context);
    judge_kured(context);
}

fn judge_claims(context: &mut Context) {
    let due = context.store.claims().filter(|(_, claim)| claim.is_due());
    let due: Vec<Key> = due.take(CLAIMS_AT_ONCE).map(|(key, _)| key.clone()).collect();
    for key in due {
        let asked = context.store.asks_claim(&key);
        let Some(claim) = context.store.claim_of(&key).cloned() else {
            continue;
        };
        let client = context.connection.write.clone();
        let clock = context.connection.clock.clone();
        let sender = context.inbox.answered();
        tokio::spawn(async move {
            if let Some(judged) = rival::judge(&client, &key, &claim, clock.now()).await {
                let _ = sender.send(Seen::Claim(key, asked, judged));
            }
        });
    }
}

fn judge_kured(context: &mut Context) {
    let due = context
        .store
        .kured()
        .filter(|(_, kured)| kured.due_in().is_zero());
    let due: Vec<(Key, String)> = due
        .take(CLAIMS_AT_ONCE)
        .map(|(key, kured)| (key.clone(), kured.account.clone()))
        .collect();
    for (key, account) in due {
        context.store.asks_kured(&key);
        let client = context.connection.write.clone();
        let sender = context.inbox.answered();
        tokio::spawn(async move {
            if let Some(may) = probe::may_reboot(&client, &key.namespace, &account).await {
                let _ = sender.send(Seen::Kured(key, account, may));
            }
        });
    }
}
