//! Who makes and deletes machines: the provider, behind one interface (`wit/provider` has the same operations for components). Calls that
//! make or delete are written so that a repeated one finishes the work and never does it twice. Nothing is decided here.

pub mod answer;
#[cfg(feature = "operator")]
mod component;
#[cfg(feature = "operator")]
pub mod config;
#[cfg(feature = "operator")]
mod loader;
mod sim;

pub use answer::{Called, ProviderAnswer};
#[cfg(feature = "operator")]
pub use component::Component;
pub use sim::Sim;

use super::{
    clock::ServerClock,
    etcd::{Etcd, Leaver},
    store::Seen,
};
use numo_core::observed::{FleetQuestion, MadeMachine};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// How long the provider may take to answer a question.
const PATIENCE: Duration = Duration::from_mins(1);
/// Questions that are asked at once.
const AT_ONCE: usize = 8;
/// Calls that are under way at once: what is begun at all is the word of surge and budgets.
const CALLS_AT_ONCE: usize = 16;
/// How long a call may take. One that is cut off is found again by what it was to do; a machine that was not made yet by then is looked for
/// longer than this (`UNSEEN_SECONDS` of the core).
const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// How soon simulated machines are asked about again (seconds): they are objects of the cluster, and cost no cloud a request.
const SIM_POLL_SECONDS: i64 = 2;
/// How long nobody is told again what is under way (seconds): a little more.
pub const ANSWERED_SECONDS: i64 = 45;

/// The provider of machines, and the etcd of the cluster that they are nodes of.
#[derive(Clone, Debug)]
pub struct Provider {
    machines: Machines,
    etcd: Option<Etcd>,
    places: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    poll_seconds: Option<i64>,
}

/// A call that makes, changes or deletes. A repeated one finishes the work and never does it twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Make the machine of a request, or find the one that was made for it.
    Create {
        /// The group.
        group_id: String,
        /// Id of the request.
        request: String,
    },
    /// Delete a machine. One that is gone is no failure.
    Delete {
        /// The machine.
        provider_id: String,
    },
    /// Have new machines of a group get an image.
    SetImage {
        /// The group.
        group_id: String,
        /// The image.
        image: String,
    },
    /// Take the member of a node out of etcd. One that is gone is no failure.
    RemoveMember(Leaver),
}

impl Call {
    /// What it is about, by the name that decisions have for it.
    pub fn what(&self) -> String {
        match self {
            Self::Create { request, .. } => request.clone(),
            Self::Delete { provider_id } => provider_id.to_lowercase(),
            Self::SetImage { group_id, .. } => group_id.to_lowercase(),
            Self::RemoveMember(leaver) => leaver.address.clone(),
        }
    }
}

/// Where answers go, and by which clock they come.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The API server's time.
    pub clock: ServerClock,
    /// The planner.
    pub to: mpsc::UnboundedSender<Seen>,
}

/// Whether a call was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is under way; its answer comes.
    UnderWay,
    /// As many as may be are under way: it is asked for again later, so that a stop is heard meanwhile.
    Full,
    /// There is nobody to call, in these words.
    Never(String),
}

#[derive(Clone, Debug)]
enum Machines {
    /// There are none, and why.
    None(&'static str),
    /// They are objects of the cluster: for demos and tests.
    Sim(Box<Sim>),
    /// A component knows how.
    #[cfg(feature = "operator")]
    Component(Arc<Component>),
}

impl Provider {
    fn of(machines: Machines, etcd: Option<Etcd>) -> Self {
        Self {
            machines,
            etcd,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)),
            poll_seconds: None,
        }
    }

    /// There is none, in these words.
    pub fn none(words: &'static str) -> Self {
        Self::of(Machines::None(words), None)
    }

    /// Machines that are ConfigMaps. They have members of etcd only if it is said where that is.
    pub fn sim(sim: Sim, etcd: Option<Etcd>) -> Self {
        let asked_often = Some(SIM_POLL_SECONDS);
        Self {
            poll_seconds: asked_often,
            ..Self::of(Machines::Sim(Box::new(sim)), etcd)
        }
    }

    /// A component makes and deletes them, and is asked as often as its configuration has it.
    #[cfg(feature = "operator")]
    pub fn component(component: Component, etcd: Option<Etcd>, poll_seconds: Option<i64>) -> Self {
        Self {
            poll_seconds,
            ..Self::of(Machines::Component(Arc::new(component)), etcd)
        }
    }

    /// How soon machines and groups are asked about again (seconds), where that is said.
    pub const fn poll_seconds(&self) -> Option<i64> {
        self.poll_seconds
    }

    /// Why there is no provider, if there is none.
    pub fn missing(&self) -> Option<String> {
        if let Machines::None(words) = &self.machines {
            return Some((*words).to_owned());
        }
        None
    }

    /// Asks a question; the answer goes to the planner.
    pub fn ask(&self, question: FleetQuestion, clock: ServerClock, to: mpsc::UnboundedSender<Seen>) {
        let Self { machines, places, .. } = self.clone();
        if matches!(machines, Machines::None(_)) {
            return;
        }
        tokio::spawn(async move {
            let Ok(_place) = places.acquire().await else {
                return;
            };
            let answered = tokio::time::timeout(PATIENCE, machines.answer(&question)).await;
            // Silence is asked again by whoever still wants to know.
            if let Ok(Some(answer)) = answered {
                let _ = to.send(Seen::Provider(question, clock.now(), answer));
            }
        });
    }

    /// Begins a call, beside others; the answer goes to the planner. Nothing waits for a place here.
    pub fn begin(&self, call: Call, answers: Answers) -> Begun {
        if let Machines::None(words) = &self.machines {
            return Begun::Never((*words).to_owned());
        }
        let Ok(place) = self.calls.clone().try_acquire_owned() else {
            return Begun::Full;
        };
        let provider = self.clone();
        tokio::spawn(async move {
            let called = tokio::time::timeout(CALL_PATIENCE, provider.call(&call)).await;
            let silent = || Called::refused(format!("not answered within {} s", CALL_PATIENCE.as_secs()));
            let called = called.unwrap_or_else(|_| silent());
            let _ = answers
                .to
                .send(Seen::Called(call.what(), answers.clock.now(), called));
            drop(place);
        });
        Begun::UnderWay
    }

    /// What comes of a call; of one that makes a machine, which.
    async fn call(&self, call: &Call) -> Called<Option<MadeMachine>> {
        let Call::RemoveMember(leaver) = call else {
            return self.machines.call(call).await;
        };
        match &self.etcd {
            Some(etcd) => match etcd.remove(leaver).await {
                Ok(()) => Called::Done(None),
                Err(words) => Called::refused(words),
            },
            // Machines of a demo have no etcd of their own.
            None => Called::Done(None),
        }
    }
}

impl Machines {
    async fn call(&self, call: &Call) -> Called<Option<MadeMachine>> {
        match (self, call) {
            (Self::None(words), _) => Called::refused((*words).to_owned()),
            (Self::Sim(sim), Call::Create { group_id, request }) => {
                sim.create(group_id, request).await.map(Some)
            }
            (Self::Sim(sim), Call::Delete { provider_id }) => sim.delete(provider_id).await.map(|()| None),
            (Self::Sim(sim), Call::SetImage { group_id, image }) => {
                sim.set_image(group_id, image).await.map(|()| None)
            }
            #[cfg(feature = "operator")]
            (Self::Component(component), Call::Create { group_id, request }) => {
                component.create(group_id, request).await.map(Some)
            }
            #[cfg(feature = "operator")]
            (Self::Component(component), Call::Delete { provider_id }) => {
                component.delete(provider_id).await.map(|()| None)
            }
            #[cfg(feature = "operator")]
            (Self::Component(component), Call::SetImage { group_id, image }) => {
                component.set_image(group_id, image).await.map(|()| None)
            }
            (_, Call::RemoveMember(_)) => Called::refused("no provider has members of etcd".to_owned()),
        }
    }

    /// None where there is nobody to ask.
    async fn answer(&self, question: &FleetQuestion) -> Option<ProviderAnswer> {
        match self {
            Self::None(_) => None,
            Self::Sim(sim) => Some(sim.answer(question).await),
            #[cfg(feature = "operator")]
            Self::Component(component) => Some(component.answer(question).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::{Body, Client};
    use std::{convert::Infallible, future::pending};

    fn answers() -> (Answers, mpsc::UnboundedReceiver<Seen>) {
        let (to, seen) = mpsc::unbounded_channel();
        let clock = ServerClock::default();
        (Answers { clock, to }, seen)
    }

    fn delete(number: usize) -> Call {
        Call::Delete {
            provider_id: format!("sim:///M-{number}"),
        }
    }

    #[tokio::test]
    async fn calls_go_out_beside_one_another_and_none_waits_for_a_place() {
        let silent = tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let provider = Provider::sim(Sim::new(Client::new(silent, "default"), "numo"), None);
        let (answers, _seen) = answers();
        for number in 0..CALLS_AT_ONCE {
            assert_eq!(provider.begin(delete(number), answers.clone()), Begun::UnderWay);
        }
        assert_eq!(provider.begin(delete(CALLS_AT_ONCE), answers), Begun::Full);
        assert_eq!(delete(1).what(), "sim:///m-1", "as decisions know it");
    }

    #[tokio::test]
    async fn without_etcd_there_is_no_member_and_without_a_provider_nobody_to_call() {
        let silent = tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let provider = Provider::sim(Sim::new(Client::new(silent, "default"), "numo"), None);
        let leaver = Leaver {
            node: "cp-0".to_owned(),
            address: "10.0.0.1".to_owned(),
            others: Vec::new(),
            names: Vec::new(),
        };
        let (answers, mut seen) = answers();
        let call = Call::RemoveMember(leaver);
        assert_eq!(provider.begin(call.clone(), answers.clone()), Begun::UnderWay);
        let answer = seen.recv().await;
        assert!(
            matches!(&answer, Some(Seen::Called(what, _, Called::Done(None))) if what == "10.0.0.1"),
            "{answer:?}"
        );
        let none = Provider::none("nobody");
        assert_eq!(none.begin(call, answers), Begun::Never("nobody".to_owned()));
    }
}
