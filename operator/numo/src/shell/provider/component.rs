//! A provider that is a component: what decisions ask and tell, in the words of its contract. It is fetched with the first question, and
//! again a while after that failed. What it makes or deletes is decided elsewhere.

use super::{
    answer::{Called, ProviderAnswer, Unanswered},
    config::ProviderConfig,
    loader::Loader,
    machines::{CALL_PATIENCE, Machines, TURN_PATIENCE, cut_off},
};
use crate::shell::{
    clock::ServerClock,
    eval::{evaluator::Evaluator, provider::Objects},
    lines::{LogShares, ProviderLines},
};
use async_trait::async_trait;
use numo_api::machines::CspState;
use numo_core::observed::{FleetQuestion, GroupFacts, MachineFacts, MadeMachine};
use numo_plugin::{
    RuleLimits, Services,
    fetch::{Direct, FetchSetup},
    net::proxy::Proxies,
    provider::{
        Ask, Creation, Failed, FailureCode, Group, Lent, MachineProvider, MachineState, Made, Pending, Place,
        Said, Signed,
    },
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Calls whose token, or number of failures, is remembered; beyond it all are forgotten: a call finds its work again without.
const REMEMBERED: usize = 1_000;

/// A provider that is a component.
pub struct Component {
    loader: Loader,
    log: Arc<LogShares>,
    clock: ServerClock,
    uid: String,
    limits: RuleLimits,
    lent: Lent,
    objects: Objects,
    calls: Mutex<BTreeMap<String, Tried>>,
}

/// What is remembered of a call until it is done.
#[derive(Clone, Debug, Default)]
struct Tried {
    token: Option<String>,
    /// Failures in a row.
    failures: u32,
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component")
            .field("loader", &self.loader)
            .finish_non_exhaustive()
    }
}

impl Component {
    /// Nothing is fetched yet. `namespace` is numo's own.
    ///
    /// Errors: the cloud cannot be asked at all: an authority is unfit.
    pub fn new(
        evaluator: Evaluator,
        namespace: &str,
        config: &ProviderConfig,
        proxies: Proxies,
    ) -> Result<Self, String> {
        let setup = FetchSetup {
            proxies,
            ..FetchSetup::trusting(&config.authorities).map_err(|error| format!("caFile: {error}"))?
        };
        let direct = Direct::new(setup).map_err(|error| error.to_string())?;
        let objects = Objects::new(&evaluator);
        Ok(Self {
            clock: evaluator.connection().clock.clone(),
            log: evaluator.log_shares(),
            loader: Loader::new(evaluator, namespace, config.source.clone()),
            uid: config.uid.clone(),
            limits: config.limits.clone(),
            lent: Lent {
                grants: config.grants.clone(),
                config_json: config.config_json.clone(),
                cloud_config: config.cloud_config.clone(),
                cloud: Some(Arc::new(Signed::new(
                    Arc::new(direct),
                    config.credentials.clone(),
                ))),
                writer: Some(objects.writer()),
            },
            objects,
            calls: Mutex::default(),
        })
    }

    /// It is its turn, to be asked at once.
    async fn turn(&self) -> Result<(MachineProvider, Place), Failure> {
        let provider = self.loader.provider().await.map_err(Failure::without_time)?;
        let place = provider.place(&self.limits).await.map_err(Failure::of)?;
        Ok((provider, place))
    }

    /// Asks. Its time begins when it is its turn; until then nothing was asked.
    async fn said(&self, ask: Ask) -> Result<Said, Failure> {
        let turn = tokio::time::timeout(TURN_PATIENCE, self.turn()).await;
        let late = || {
            let seconds = TURN_PATIENCE.as_secs();
            Failure::without_time(format!(
                "not asked: the component was not free within {seconds} s"
            ))
        };
        let (provider, place) = turn.map_err(|_| late())??;
        let services = Services {
            reader: Some(self.objects.reader()),
            log: Arc::new(ProviderLines(self.log.clone())),
            ..Services::none(self.clock.now())
        };
        let said = provider.ask_in(place, ask, (self.lent.clone(), services));
        let said = tokio::time::timeout(CALL_PATIENCE, said).await;
        let said = said.map_err(|_| Failure::without_time(cut_off(CALL_PATIENCE)))?;
        said.map_err(Failure::of)
    }

    async fn facts(&self, provider_id: &str) -> Result<MachineFacts, Unanswered> {
        let provider_id = provider_id.to_owned();
        let image = Ask::NodeImage {
            provider_id: provider_id.clone(),
        };
        Ok(MachineFacts {
            image: self.text(image).await?,
            group_id: self.text(Ask::GroupOf { provider_id }).await?,
        })
    }

    async fn text(&self, ask: Ask) -> Result<String, Unanswered> {
        match self.said(ask).await {
            Ok(Said::Text(text)) => Ok(text),
            said => Err(unfit(said)),
        }
    }

    fn tried(&self, what: &str) -> Tried {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(what).cloned().unwrap_or_default()
    }

    fn remember(&self, what: &str, tried: Option<Tried>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= REMEMBERED {
            calls.clear();
        }
        match tried {
            Some(tried) => _ = calls.insert(what.to_owned(), tried),
            None => _ = calls.remove(what),
        }
    }

    fn done<T>(&self, what: &str, result: T) -> Called<T> {
        self.remember(what, None);
        Called::Done(result)
    }

    fn pending<T>(&self, what: &str, pending: Pending) -> Called<T> {
        tracing::debug!(what, awaited = pending.message, "the provider has begun");
        let tried = Tried {
            token: Some(pending.token),
            failures: 0,
        };
        self.remember(what, Some(tried));
        Called::Pending(i64::from(pending.retry_after_seconds))
    }

    fn failed<T>(&self, what: &str, tried: &Tried, said: Result<Said, Failure>) -> Called<T> {
        let failure = said
            .err()
            .unwrap_or_else(|| Failure::without_time(UNFIT.to_owned()));
        let failures = tried.failures.saturating_add(1);
        // A call that is cut off may have done its work: the next one is to go on where it was. A token that cannot be right goes.
        let is_wrong = failure.code == Some(FailureCode::Invalid);
        let tried = Tried {
            token: tried.token.clone().filter(|_| !is_wrong),
            failures,
        };
        self.remember(what, Some(tried));
        Called::Refused {
            again_seconds: failure.again_seconds(failures),
            words: failure.words,
        }
    }
}

#[async_trait]
impl Machines for Component {
    async fn answer(&self, question: &FleetQuestion) -> ProviderAnswer {
        match question {
            FleetQuestion::Facts { provider_id } => ProviderAnswer::Facts(self.facts(provider_id).await),
            FleetQuestion::State { provider_id } => {
                let provider_id = provider_id.clone();
                let said = self.said(Ask::State { provider_id }).await;
                ProviderAnswer::State(match said {
                    Ok(Said::State(state)) => Ok(csp_state(state)),
                    said => Err(unfit(said)),
                })
            }
            FleetQuestion::GroupImage { group_id } => {
                let group_id = group_id.clone();
                ProviderAnswer::Image(self.text(Ask::GroupImage { group_id }).await)
            }
            FleetQuestion::Groups => {
                let uid = self.uid.clone();
                ProviderAnswer::Groups(match self.said(Ask::Groups { uid }).await {
                    Ok(Said::Groups(groups)) => Ok(groups.into_iter().map(group).collect()),
                    said => Err(unfit(said)),
                })
            }
            FleetQuestion::Find { group_id, request } => {
                let ask = Ask::Find {
                    group_id: group_id.clone(),
                    request_id: request.clone(),
                };
                ProviderAnswer::Found(match self.said(ask).await {
                    Ok(Said::Found(found)) => Ok(found.map(made)),
                    said => Err(unfit(said)),
                })
            }
        }
    }

    async fn create(&self, group_id: &str, request: &str) -> Called<MadeMachine> {
        let tried = self.tried(request);
        let ask = Ask::Create {
            group_id: group_id.to_owned(),
            request_id: request.to_owned(),
            token: tried.token.clone(),
        };
        match self.said(ask).await {
            Ok(Said::Creation(Creation::Created(machine))) => self.done(request, made(machine)),
            Ok(Said::Creation(Creation::Pending(pending))) => self.pending(request, pending),
            said => self.failed(request, &tried, said),
        }
    }

    async fn delete(&self, provider_id: &str) -> Called<()> {
        let key = provider_id.to_lowercase();
        let tried = self.tried(&key);
        let ask = Ask::Delete {
            provider_id: provider_id.to_owned(),
        };
        match self.said(ask).await {
            Ok(Said::Done(None)) => self.done(&key, ()),
            Ok(Said::Done(Some(pending))) => self.pending(&key, pending),
            said => self.failed(&key, &tried, said),
        }
    }

    async fn set_image(&self, group_id: &str, image: &str) -> Called<()> {
        let key = format!("{} {image}", group_id.to_lowercase());
        let tried = self.tried(&key);
        let ask = Ask::SetGroupImage {
            group_id: group_id.to_owned(),
            image: image.to_owned(),
            token: tried.token.clone(),
        };
        match self.said(ask).await {
            Ok(Said::Done(None)) => self.done(&key, ()),
            Ok(Said::Done(Some(pending))) => self.pending(&key, pending),
            said => self.failed(&key, &tried, said),
        }
    }
}

/// What a provider answers that was asked something else.
const UNFIT: &str = "the provider's answer does not fit the question";

/// Why there is no answer, and when it is worth another try.
struct Failure {
    words: String,
    code: Option<FailureCode>,
    retry_after_seconds: Option<u32>,
}

/// First pause after a failure, and the longest (seconds).
const FIRST_PAUSE: i64 = 15;
const LONGEST_PAUSE: i64 = 240;
/// Pause where quota or capacity lack, and where a person has to change something (seconds).
const EXHAUSTED_PAUSE: i64 = 60;
const WRONG_PAUSE: i64 = 300;

impl Failure {
    fn without_time(words: String) -> Self {
        Self {
            words,
            code: None,
            retry_after_seconds: None,
        }
    }

    fn of(failed: Failed) -> Self {
        let words = failed.to_string();
        match failed {
            Failed::Said(said) => Self {
                words,
                code: Some(said.code),
                retry_after_seconds: said.retry_after_seconds,
            },
            Failed::Refused(_) => Self::without_time(words),
        }
    }

    /// When it is worth another try after so many failures in a row (seconds).
    fn again_seconds(&self, failures: u32) -> i64 {
        if let Some(seconds) = self.retry_after_seconds {
            return i64::from(seconds).max(1);
        }
        match self.code {
            Some(FailureCode::Exhausted) => EXHAUSTED_PAUSE,
            Some(FailureCode::Invalid) => WRONG_PAUSE,
            _ => {
                let doubled = failures.saturating_sub(1).min(10);
                FIRST_PAUSE.saturating_mul(1 << doubled).min(LONGEST_PAUSE)
            }
        }
    }
}

fn unfit(said: Result<Said, Failure>) -> Unanswered {
    match said {
        Ok(_) => Unanswered::from(UNFIT.to_owned()),
        Err(failure) => Unanswered {
            again_seconds: failure
                .retry_after_seconds
                .map(|seconds| i64::from(seconds).max(1)),
            words: failure.words,
        },
    }
}

fn made(machine: Made) -> MadeMachine {
    MadeMachine {
        node: machine.node,
        provider_id: machine.provider_id,
    }
}

fn group(group: Group) -> GroupFacts {
    GroupFacts {
        name: group.name,
        node_group_name: group.node_group_name,
        group_id: group.group_id,
        autoscaler_group_name: group.autoscaling_group_name,
        is_control_plane: group.is_control_plane,
    }
}

fn csp_state(state: MachineState) -> CspState {
    match state {
        MachineState::Unknown => CspState::Unknown,
        MachineState::Creating => CspState::Creating,
        MachineState::Ready => CspState::Ready,
        MachineState::Stopped => CspState::Stopped,
        MachineState::Terminating => CspState::Terminating,
        MachineState::Terminated => CspState::Terminated,
        MachineState::Failed => CspState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_plugin::provider;

    fn said(code: FailureCode, retry_after_seconds: Option<u32>) -> Failure {
        Failure::of(Failed::Said(provider::Failure {
            code,
            message: "words".to_owned(),
            retry_after_seconds,
        }))
    }

    #[test]
    fn pauses_grow_and_the_clouds_own_time_counts() {
        let unavailable = said(FailureCode::Unavailable, None);
        let pauses: Vec<_> = [1, 2, 3, 4, 5, 60]
            .into_iter()
            .map(|failures| unavailable.again_seconds(failures))
            .collect();
        assert_eq!(pauses, [15, 30, 60, 120, 240, 240]);
        assert_eq!(said(FailureCode::Throttled, Some(7)).again_seconds(9), 7);
        assert_eq!(said(FailureCode::Exhausted, None).again_seconds(1), 60);
        assert_eq!(said(FailureCode::Invalid, None).again_seconds(1), 300);
        assert_eq!(unavailable.words, "Unavailable: words");
    }

    #[test]
    fn a_question_keeps_the_clouds_own_time() {
        let again = |seconds| unfit(Err(said(FailureCode::Throttled, seconds))).again_seconds;
        assert_eq!(again(Some(90)), Some(90));
        assert_eq!(again(Some(0)), Some(1));
        assert_eq!(again(None), None, "then numo's own counts");
        assert_eq!(unfit(Ok(Said::Done(None))).words, UNFIT);
    }
}
