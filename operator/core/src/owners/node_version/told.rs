//! What a person says of a node that has its turn, and what becomes of one that is held. Nothing here decides over machines.

use super::turn::Going;
use crate::{
    turn::{
        directive, journal,
        steps::{self, Next, ON, STAY},
    },
    why::Why,
};
use numo_api::{Reason, Step};

impl Going<'_, '_> {
    /// A person asks for the node once more.
    pub(super) fn retries(&mut self) -> bool {
        let Some(why) = directive::retried(self.change) else {
            return false;
        };
        let journal = directive::next_attempt(self.change, Step::Admitted, &why, self.pass.now);
        self.pass.write(journal);
        steps::Turn::say(self, Step::Admitted, why);
        true
    }

    /// What a person says of a turn that was let go and is held since, as a rule has failed: its rules are asked again, or it ends. The old
    /// node and its machine are gone, in the next attempt too.
    pub(super) fn obey_released(&mut self) -> Next {
        let (change, now) = (self.change, self.pass.now);
        if change.status.step != Some(Step::Held) {
            return ON;
        }
        let (step, why, journal) = if let Some(why) = directive::skipped(change) {
            let journal = directive::leave_out(change, &why, now);
            (Step::Skipped, why, journal)
        } else if let Some(why) = directive::retried(change) {
            let mut journal = directive::next_attempt(change, Step::Released, &why, now);
            if journal::entered(change, Step::Changed).is_some() {
                journal.enter(Step::Changed, Some(&why));
            }
            (Step::Changed, why, journal.planned(None))
        } else if self.pass.leaving.is_some() {
            // A NodeVersion that is left waits for no person.
            return ON;
        } else {
            return self.stay_aborted();
        };
        self.pass.out.actions.extend(journal);
        steps::Turn::say(self, step, why);
        STAY
    }

    /// A rule has ended the whole NodeVersion with this node.
    pub(super) fn stay_aborted(&mut self) -> Next {
        let status = &self.change.status;
        if status.step != Some(Step::Held) || !journal::is_for(self.change, Reason::Aborted) {
            return ON;
        }
        let message = status.message.clone().unwrap_or_default();
        steps::Turn::say(self, Step::Held, Why::new(Reason::Aborted, message));
        STAY
    }
}
