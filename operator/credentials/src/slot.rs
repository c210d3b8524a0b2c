//! What was obtained for one credential, until it ends. A credential is obtained by one at a time, and a failure is remembered for a while:
//! however many requests are signed, a token endpoint is asked once.

use crate::{
    proof::{Obtained, Proof},
    refusal::Refusal,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How long before its end a proof is obtained anew, if it counts that long (seconds); else half of its time.
const MARGIN: i64 = 300;
/// How long before its end it no longer counts (seconds): a request is on its way for a while.
const LAST: i64 = 10;
/// How long a failure is remembered (seconds).
const PAUSE: i64 = 30;
/// How old a proof is at least before a doubt counts (seconds): a component that may not do what it asks is told 401 each time.
const YOUNG: i64 = 60;
/// How far the clock may go back before what it said is no longer believed (seconds).
const BACK: i64 = 300;

/// What a proof was obtained with: the SHA-256 of a file.
pub(crate) type Digest = [u8; 32];

/// The place of one credential.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// Held by who obtains.
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot(…)")
    }
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    failed: Option<Failed>,
    doubted: bool,
}

struct Held {
    proof: Arc<Proof>,
    digest: Digest,
    since: i64,
    /// From when it is obtained anew.
    stale: i64,
    /// From when it no longer counts.
    end: i64,
}

struct Failed {
    refusal: Refusal,
    digest: Digest,
    since: i64,
}

/// What there is at a moment.
enum Look {
    /// It counts.
    Fresh(Arc<Proof>),
    /// It counts, and is obtained anew by the first who asks: it ends soon, or was obtained with what the file was before.
    Stale(Spare),
    /// Nothing that counts.
    None,
}

/// What is used while nothing newer is to be had.
struct Spare {
    proof: Arc<Proof>,
    /// Whether it was obtained with the file as it is.
    is_same: bool,
}

impl Spare {
    /// Whether it stands in for what was refused. A file that is new speaks for itself, unless nobody hears it.
    fn covers(&self, refusal: &Refusal) -> bool {
        self.is_same || matches!(refusal, Refusal::Unavailable { .. })
    }
}

impl Slot {
    /// What there is, or what `obtain` gives.
    pub(crate) async fn get(
        &self,
        digest: Digest,
        now: i64,
        obtain: impl Future<Output = Result<Obtained, Refusal>>,
    ) -> Result<Arc<Proof>, Refusal> {
        let (_turn, spare) = match self.look(&digest, now) {
            Look::Fresh(proof) => return Ok(proof),
            Look::Stale(spare) => match self.turn.try_lock() {
                Ok(turn) => (turn, Some(spare)),
                Err(_) => return Ok(spare.proof),
            },
            Look::None => (self.turn.lock().await, None),
        };
        // Somebody else may have had the turn meanwhile.
        if let Look::Fresh(proof) = self.look(&digest, now) {
            return Ok(proof);
        }
        let refusal = match self.failure(&digest, now) {
            Some(refusal) => refusal,
            None => match obtain.await {
                Ok(obtained) => return Ok(self.keep(digest, now, obtained)),
                Err(refusal) => self.remember(digest, now, refusal),
            },
        };
        match spare {
            Some(spare) if spare.covers(&refusal) => Ok(spare.proof),
            _ => Err(refusal),
        }
    }

    /// The proof may be refused: one that is not young is obtained anew.
    pub(crate) fn doubt(&self) {
        self.state().doubted = true;
    }

    fn look(&self, digest: &Digest, now: i64) -> Look {
        let state = self.state();
        let Some(held) = &state.held else {
            return Look::None;
        };
        let is_doubted = state.doubted && now >= held.since.saturating_add(YOUNG);
        let is_believed = now >= held.since.saturating_sub(BACK);
        if is_doubted || !is_believed || now >= held.end {
            return Look::None;
        }
        let proof = Arc::clone(&held.proof);
        let is_same = held.digest == *digest;
        if is_same && now < held.stale {
            Look::Fresh(proof)
        } else {
            Look::Stale(Spare { proof, is_same })
        }
    }

    fn failure(&self, digest: &Digest, now: i64) -> Option<Refusal> {
        let state = self.state();
        let failed = state.failed.as_ref()?;
        let is_recent =
            (failed.since.saturating_sub(PAUSE)..failed.since.saturating_add(PAUSE)).contains(&now);
        (is_recent && failed.digest == *digest).then(|| failed.refusal.clone())
    }

    fn keep(&self, digest: Digest, now: i64, obtained: Obtained) -> Arc<Proof> {
        let Obtained { proof, lifetime } = obtained;
        let proof = Arc::new(proof);
        let end = now.saturating_add(lifetime);
        *self.state() = State {
            held: Some(Held {
                proof: Arc::clone(&proof),
                digest,
                since: now,
                stale: end.saturating_sub(MARGIN.min(lifetime / 2)),
                end: end.saturating_sub(LAST.min(lifetime / 4)),
            }),
            failed: None,
            doubted: false,
        };
        proof
    }

    fn remember(&self, digest: Digest, now: i64, refusal: Refusal) -> Refusal {
        tracing::warn!(reason = refusal.reason(), "{refusal}");
        self.state().failed = Some(Failed {
            refusal: refusal.clone(),
            digest,
            since: now,
        });
        refusal
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
