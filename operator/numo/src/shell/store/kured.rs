//! DaemonSets by the name of kured, and which of their reboot locks decisions see. Whether a lock is believed says `shell/kured.rs`.

use super::{Store, replace};
use crate::shell::kured::Kured;
use numo_core::observed::{Key, RebootLock};
use tokio::time::Instant;

impl Store {
    /// DaemonSets by the name of kured.
    pub fn kured(&self) -> impl Iterator<Item = (&Key, &Kured)> {
        self.kured.iter()
    }

    /// Takes in such a DaemonSet; what is known of its account is kept.
    pub(in crate::shell) fn see_kured(&mut self, key: &Key, account: String, locks: Vec<RebootLock>) -> bool {
        let from_start = !self.is_complete();
        let known = self
            .kured
            .get(key)
            .filter(|known| known.account == account)
            .cloned();
        let kured = Kured {
            may: known.as_ref().and_then(|known| known.may),
            asked_at: known.as_ref().and_then(|known| known.asked_at),
            from_start: known.map_or(from_start, |known| known.from_start),
            account,
            locks,
        };
        self.kured.insert(key.clone(), kured);
        self.believe_kured(key)
    }

    /// Takes such a DaemonSet away.
    pub(in crate::shell) fn forget_kured(&mut self, key: &Key) -> bool {
        self.kured.remove(key);
        self.observed.reboot_locks.remove(key).is_some()
    }

    fn believe_kured(&mut self, key: &Key) -> bool {
        match self.kured.get(key).filter(|kured| kured.is_believed()) {
            Some(kured) => replace(&mut self.observed.reboot_locks, key.clone(), kured.locks.clone()),
            None => self.observed.reboot_locks.remove(key).is_some(),
        }
    }

    /// Notes that it is being asked what the account of such a DaemonSet may.
    pub fn asks_kured(&mut self, key: &Key) {
        if let Some(kured) = self.kured.get_mut(key) {
            kured.asked_at = Some(Instant::now());
        }
    }

    pub(super) fn judged_kured(&mut self, key: &Key, account: &str, may: bool) -> bool {
        let Some(kured) = self.kured.get_mut(key).filter(|kured| kured.account == account) else {
            return false;
        };
        kured.may = Some(may);
        self.believe_kured(key)
    }
}
