//! What the provider of machines said, and what Nodes say of theirs. This file asks nobody.

use super::Store;
use crate::shell::provider::answer::{Called, ProviderAnswer, REFUSED_SECONDS, Unanswered};
use jiff::{SignedDuration, Timestamp};
use numo_api::marks;
use numo_core::observed::{FleetQuestion, Heard, HostView, MadeMachine, PendingNodeView, ProviderView, Told};

/// How long it is known what the provider has done: what is not over by then is told it once more.
const DID_SECONDS: i64 = 60 * 60;

/// What was heard. When the provider wants to be asked again is kept beside it, if it has said so.
fn heard<T>(
    provider: &mut ProviderView,
    question: &FleetQuestion,
    at: Timestamp,
    said: Result<T, Unanswered>,
) -> Heard<T> {
    // Of questions that nobody asks any more nothing is kept.
    provider.not_before.retain(|_, until| *until > at);
    let said = said.map_err(|unanswered| {
        if let Some(seconds) = unanswered.again_seconds {
            let until = at + SignedDuration::from_secs(seconds);
            provider.not_before.insert(question.clone(), until);
        }
        unanswered.words
    });
    Heard { at, said }
}

impl Store {
    /// Notes that the provider is being asked.
    pub fn asks_provider(&mut self, question: &FleetQuestion, at: Timestamp) {
        self.observed.fleet.provider.asked.insert(question.clone(), at);
    }

    pub(super) fn provider_answered(
        &mut self,
        question: &FleetQuestion,
        at: Timestamp,
        answer: ProviderAnswer,
    ) -> bool {
        let provider = &mut self.observed.fleet.provider;
        provider.asked.remove(question);
        match (question, answer) {
            (FleetQuestion::Facts { provider_id }, ProviderAnswer::Facts(said)) => {
                let heard = heard(provider, question, at, said);
                provider.hear_facts(provider_id, heard);
            }
            (FleetQuestion::State { provider_id }, ProviderAnswer::State(said)) => {
                let heard = heard(provider, question, at, said);
                provider.states.insert(provider_id.to_lowercase(), heard);
            }
            (FleetQuestion::GroupImage { group_id }, ProviderAnswer::Image(said)) => {
                let heard = heard(provider, question, at, said);
                provider.hear_image(group_id, heard);
            }
            (FleetQuestion::Groups, ProviderAnswer::Groups(said)) => {
                provider.groups = Some(heard(provider, question, at, said));
            }
            (FleetQuestion::Find { request, .. }, ProviderAnswer::Found(said)) => {
                let heard = heard(provider, question, at, said);
                provider.found.insert(request.clone(), heard);
            }
            _ => return false,
        }
        true
    }

    /// Takes in what came of a call. Which machine was made is then known like one that was looked for, until it is written down.
    pub(super) fn called(&mut self, what: &str, at: Timestamp, called: Called<Option<MadeMachine>>) -> bool {
        match called {
            Called::Done(made) => {
                self.provider_did(what, at);
                let fleet = &mut self.observed.fleet;
                fleet
                    .provider
                    .found
                    .retain(|request, _| fleet.pending.contains_key(request));
                if made.is_some() {
                    let heard = Heard { at, said: Ok(made) };
                    fleet.provider.found.insert(what.to_owned(), heard);
                }
            }
            Called::Pending(seconds) => self.provider_put_off(what, at, seconds, None),
            Called::Refused { words, again_seconds } => {
                self.provider_put_off(what, at, again_seconds, Some(words));
            }
        }
        true
    }

    /// Takes what the provider has against a machine from where the operator wrote it down. Only who looks does: nobody answers it.
    pub fn read_provider_words(&mut self, pending: &PendingNodeView) {
        if !self.observed.settings.only_looks {
            return;
        }
        let told = &mut self.observed.fleet.provider.told;
        let words = pending.annotations.get(marks::PROVIDER_SAID);
        match words {
            Some(words) => {
                let again = Timestamp::UNIX_EPOCH;
                let problem = Some(words.clone());
                told.insert(pending.told_as(), Told { again, problem });
            }
            None => _ = told.remove(&pending.told_as()),
        }
    }

    /// The provider takes a while, or refuses, in these words: it is told again later.
    pub fn provider_put_off(&mut self, what: &str, now: Timestamp, seconds: i64, problem: Option<String>) {
        let again = now + SignedDuration::from_secs(seconds.max(1));
        let told = Told { again, problem };
        let provider = &mut self.observed.fleet.provider;
        provider.did.remove(what);
        provider.told.insert(what.to_owned(), told);
    }

    /// The provider has refused, in these words.
    pub fn provider_refused(&mut self, what: &str, now: Timestamp, problem: String) {
        self.provider_put_off(what, now, REFUSED_SECONDS, Some(problem));
    }

    /// The provider has done what it was told; what it said before of it counts no more.
    pub fn provider_did(&mut self, what: &str, now: Timestamp) {
        let provider = &mut self.observed.fleet.provider;
        let known_since = now - SignedDuration::from_secs(DID_SECONDS);
        provider.did.retain(|_, at| *at > known_since);
        provider.did.insert(what.to_owned(), now);
        provider.took_image(what, now);
        provider.told.remove(what);
        provider.states.remove(what);
        provider.images.remove(what);
        provider.found.remove(what);
    }

    /// Keeps what a Node says of its machine; true if a decision could change by it.
    pub(in crate::shell) fn put_host(&mut self, node: &str, host: HostView) -> bool {
        let fleet = &mut self.observed.fleet;
        if host.provider_id.is_empty() {
            return fleet.hosts.remove(node).is_some() && !fleet.versions.is_empty();
        }
        if fleet.hosts.get(node) == Some(&host) {
            return false;
        }
        fleet.hosts.insert(node.to_owned(), host);
        !fleet.versions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::Settings;

    #[test]
    fn who_only_looks_reads_what_the_provider_said() {
        let pending = PendingNodeView {
            name: "numo-1".to_owned(),
            annotations: [(marks::PROVIDER_SAID.into(), "Exhausted: no quota".into())].into(),
            ..PendingNodeView::default()
        };
        let problem = |only_looks| {
            let mut store = Store::new(Settings {
                only_looks,
                ..Settings::default()
            });
            store.read_provider_words(&pending);
            let told = store.observed.fleet.provider.told.get("numo-1").cloned();
            told.and_then(|told| told.problem)
        };
        assert_eq!(problem(true).as_deref(), Some("Exhausted: no quota"));
        assert_eq!(problem(false), None, "the operator asks by itself");
    }

    #[test]
    fn when_the_provider_wants_to_be_asked_again_is_known_until_it_answers() {
        let mut store = Store::new(Settings::default());
        let question = FleetQuestion::State {
            provider_id: "sim:///M".to_owned(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let throttled = Unanswered {
            words: "Throttled: 429".to_owned(),
            again_seconds: Some(90),
        };
        let answer = ProviderAnswer::State(Err(throttled));
        assert!(store.provider_answered(&question, now, answer));
        let provider = &store.observed.fleet.provider;
        assert_eq!(provider.not_before[&question].as_second(), 90);
        assert_eq!(provider.states["sim:///m"].said, Err("Throttled: 429".to_owned()));
        let later = now + SignedDuration::from_secs(91);
        let answer = ProviderAnswer::State(Err("no answer".to_owned().into()));
        store.provider_answered(&question, later, answer);
        assert!(store.observed.fleet.provider.not_before.is_empty());
    }

    #[test]
    fn what_came_of_a_call_is_known_until_it_is_written_down() {
        let mut store = Store::new(Settings::default());
        let now = Timestamp::UNIX_EPOCH;
        let what = "numo-1";
        assert!(store.called(what, now, Called::refused("quota".to_owned())));
        let told = store.observed.fleet.provider.told[what].clone();
        assert_eq!(told.problem.as_deref(), Some("quota"));
        store.called(what, now, Called::Pending(20));
        let told = store.observed.fleet.provider.told[what].clone();
        assert_eq!((told.again.as_second(), told.problem), (20, None));
        let made = MadeMachine {
            node: "new".to_owned(),
            provider_id: "sim:///new".to_owned(),
        };
        store.called(what, now, Called::Done(Some(made.clone())));
        let provider = &store.observed.fleet.provider;
        assert_eq!(provider.found[what].said, Ok(Some(made)));
        assert!(provider.told.is_empty() && provider.did.contains_key(what));
        // Its PendingNode is gone by the time that another call is answered.
        store.called("sim:///old", now, Called::Done(None));
        assert!(store.observed.fleet.provider.found.is_empty());
    }
}
