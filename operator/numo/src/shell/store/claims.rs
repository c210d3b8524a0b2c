//! Deployments that claim by their names to be an operator which numo replaces, and which of them decisions see. Whether a claim is
//! believed says `shell/claim.rs`.

use super::{Store, replace};
use crate::shell::{
    claim::{Claim, IsAs, Judged},
    watched::{Deployed, Place},
};
use numo_core::observed::Key;
use tokio::time::Instant;

impl Store {
    /// Deployments that claim to be an operator which numo replaces.
    pub fn claims(&self) -> impl Iterator<Item = (&Key, &Claim)> {
        self.claims.iter()
    }

    /// Such a Deployment.
    pub fn claim_of(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
    }

    /// Forgets every Deployment of an operator that numo replaces: they are listed anew.
    pub fn forget_claims(&mut self) {
        self.claims.clear();
        self.observed.foreign_controllers.clear();
        self.versions
            .retain(|(kind, _), _| kind.watched().place != Place::Replaced);
    }

    /// Whether a Deployment that was there from the start has not been judged.
    pub fn awaits_claims(&self) -> bool {
        let mut claims = self.claims.values();
        let mut kured = self.kured.values();
        claims.any(|claim| claim.from_start && claim.judged.is_none())
            || kured.any(|one| one.from_start && one.may.is_none())
    }

    /// Takes in such a Deployment; none: it is deleted.
    pub(in crate::shell) fn claim(&mut self, key: Key, found: Option<Deployed>) -> bool {
        let known = self.claims.remove(&key);
        let is_deleted = found.is_none();
        let of = match (found, &known) {
            (Some(of), _) => of,
            // Whoever was believed may have pods, and a Lease, for a while.
            (None, Some(known)) if known.rival().is_some() => Deployed {
                runs: false,
                ..known.of.clone()
            },
            (None, _) => return self.observed.foreign_controllers.remove(&key).is_some(),
        };
        let was_live = known.as_ref().is_some_and(|known| known.rival().is_some());
        let from_start = known
            .as_ref()
            .map_or(!self.is_complete(), |known| known.from_start);
        let judged = known.filter(|known| known.of.account == of.account);
        let claim = Claim {
            of,
            is_deleted,
            from_start,
            judged: judged.and_then(|known| known.judged),
            is_as: if was_live { IsAs::LiveBefore } else { IsAs::New },
            asked: 0,
            asked_at: None,
            refusals: 0,
        };
        self.claims.insert(key.clone(), claim);
        self.believe(key)
    }

    /// Has decisions see what is believed of a Deployment.
    fn believe(&mut self, key: Key) -> bool {
        let claim = self.claims.get(&key);
        if let Some(rival) = claim.and_then(Claim::rival) {
            return replace(&mut self.observed.foreign_controllers, key, rival);
        }
        if claim.is_some_and(|claim| claim.is_deleted) {
            self.claims.remove(&key);
        }
        self.observed.foreign_controllers.remove(&key).is_some()
    }

    /// Notes that a Deployment as it is now is being judged.
    pub fn asks_claim(&mut self, key: &Key) -> u64 {
        self.questions += 1;
        if let Some(claim) = self.claims.get_mut(key) {
            claim.asked = self.questions;
            claim.asked_at = Some(Instant::now());
        }
        self.questions
    }

    pub(super) fn judged_claim(&mut self, key: Key, asked: u64, judged: Judged) -> bool {
        let Some(claim) = self.claims.get_mut(&key) else {
            return false;
        };
        if claim.asked != asked {
            // It has changed since.
            return false;
        }
        claim.refusals = if judged.may {
            0
        } else {
            claim.refusals.saturating_add(1)
        };
        claim.judged = Some(judged);
        claim.is_as = IsAs::Judged;
        self.believe(key)
    }
}
