//! Who makes and deletes machines: the provider, behind one interface (`wit/provider` has the same operations for components). Calls that
//! make or delete are written so that a repeated one finishes the work and never does it twice. Nothing is decided here.

pub mod answer;
#[cfg(feature = "operator")]
mod component;
#[cfg(feature = "operator")]
pub mod config;
#[cfg(feature = "operator")]
mod loader;
mod machines;
mod sim;
mod under_way;

pub use answer::{Called, ProviderAnswer};
#[cfg(feature = "operator")]
pub use component::Component;
pub use sim::Sim;

use self::{
    machines::{Machines, within},
    under_way::UnderWay,
};
use super::{
    clock::ServerClock,
    etcd::{Etcd, Leaver},
    store::Seen,
};
use numo_core::observed::{FleetQuestion, MadeMachine};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// Questions that are asked at once.
const AT_ONCE: usize = 8;
/// Calls that are under way at once: what is begun at all is the word of surge and budgets.
const CALLS_AT_ONCE: u32 = 16;
/// How soon simulated machines are asked about again (seconds): they are objects of the cluster, and cost no cloud a request.
const SIM_POLL_SECONDS: i64 = 2;
/// How soon it is looked again whether a call is still under way (seconds). One that is is not begun anew.
pub const ANSWERED_SECONDS: i64 = 45;

/// The provider of machines, and the etcd of the cluster that they are nodes of.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Who they are, or why there is nobody.
    machines: Result<Arc<dyn Machines>, &'static str>,
    etcd: Option<Etcd>,
    places: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    asked: UnderWay<FleetQuestion>,
    told: UnderWay<String>,
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
    /// It is under way, since now or before; its answer comes.
    UnderWay,
    /// As many as may be are under way: it is asked for again later, so that a stop is heard meanwhile.
    Full,
    /// There is nobody to call, in these words.
    Never(String),
}

impl Provider {
    fn of(machines: Result<Arc<dyn Machines>, &'static str>, etcd: Option<Etcd>) -> Self {
        Self {
            machines,
            etcd,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE as usize)),
            asked: UnderWay::default(),
            told: UnderWay::default(),
            poll_seconds: None,
        }
    }

    /// There is none, in these words.
    pub fn none(words: &'static str) -> Self {
        Self::of(Err(words), None)
    }

    /// Machines that are ConfigMaps. They have members of etcd only if it is said where that is.
    pub fn sim(sim: Sim, etcd: Option<Etcd>) -> Self {
        Self {
            poll_seconds: Some(SIM_POLL_SECONDS),
            ..Self::of(Ok(Arc::new(sim)), etcd)
        }
    }

    /// A component makes and deletes them, and is asked as often as its configuration has it.
    #[cfg(feature = "operator")]
    pub fn component(component: Component, etcd: Option<Etcd>, poll_seconds: Option<i64>) -> Self {
        Self {
            poll_seconds,
            ..Self::of(Ok(Arc::new(component)), etcd)
        }
    }

    /// How soon machines and groups are asked about again (seconds), where that is said.
    pub const fn poll_seconds(&self) -> Option<i64> {
        self.poll_seconds
    }

    /// Why there is no provider, if there is none.
    pub fn missing(&self) -> Option<String> {
        self.machines.as_ref().err().map(|words| (*words).to_owned())
    }

    /// Asks a question; the answer goes to the planner. What is being asked is not asked beside it once more.
    pub fn ask(&self, question: FleetQuestion, clock: ServerClock, to: mpsc::UnboundedSender<Seen>) {
        let (Ok(machines), Some(asked)) = (self.machines.clone(), self.asked.enter(&question)) else {
            return;
        };
        let places = self.places.clone();
        tokio::spawn(async move {
            let Ok(_place) = places.acquire().await else {
                return;
            };
            let answer = machines.answer(&question).await;
            // Whoever hears the answer may ask again.
            drop(asked);
            let _ = to.send(Seen::Provider(question, clock.now(), answer));
        });
    }

    /// Begins a call, beside others; the answer goes to the planner. Nothing waits for a place here, and what is under way is not begun once
    /// more, however long it takes.
    pub fn begin(&self, call: Call, answers: Answers) -> Begun {
        if let Err(words) = &self.machines {
            return Begun::Never((*words).to_owned());
        }
        let Some(told) = self.told.enter(&call.what()) else {
            return Begun::UnderWay;
        };
        let Ok(place) = self.calls.clone().try_acquire_owned() else {
            return Begun::Full;
        };
        let provider = self.clone();
        tokio::spawn(async move {
            let called = provider.call(&call).await;
            // Whoever hears the answer may tell the same again.
            drop(told);
            let _ = answers
                .to
                .send(Seen::Called(call.what(), answers.clock.now(), called));
            drop(place);
        });
        Begun::UnderWay
    }

    /// Waits until no call is under way, and no longer than so; no other is begun from now on. False if one still is.
    pub async fn rest(&self, patience: Duration) -> bool {
        let all = self.calls.acquire_many(CALLS_AT_ONCE);
        let rested = tokio::time::timeout(patience, all).await;
        self.calls.close();
        rested.is_ok()
    }

    /// What comes of a call; of one that makes a machine, which.
    async fn call(&self, call: &Call) -> Called<Option<MadeMachine>> {
        let machines = match &self.machines {
            Ok(machines) => machines,
            Err(words) => return Called::refused((*words).to_owned()),
        };
        match call {
            Call::Create { group_id, request } => machines.create(group_id, request).await.map(Some),
            Call::Delete { provider_id } => machines.delete(provider_id).await.map(|()| None),
            Call::SetImage { group_id, image } => machines.set_image(group_id, image).await.map(|()| None),
            Call::RemoveMember(leaver) => within(self.remove(leaver)).await,
        }
    }

    async fn remove(&self, leaver: &Leaver) -> Called<Option<MadeMachine>> {
        // Machines of a demo have no etcd of their own.
        let Some(etcd) = &self.etcd else {
            return Called::Done(None);
        };
        let removed = etcd.remove(leaver).await;
        removed.map_or_else(Called::refused, |()| Called::Done(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use http::{Request, Response};
    use kube::client::{Body, Client};
    use std::{
        convert::Infallible,
        future::pending,
        sync::atomic::{AtomicUsize, Ordering},
    };

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

    fn silent() -> Provider {
        let silent = tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        Provider::sim(Sim::new(Client::new(silent, "default"), "numo"), None)
    }

    /// Takes its time for everything, and counts.
    #[derive(Debug, Default)]
    struct Slow {
        takes: Duration,
        called: AtomicUsize,
    }

    impl Slow {
        async fn take_time(&self) {
            self.called.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.takes).await;
        }
    }

    #[async_trait]
    impl Machines for Slow {
        async fn answer(&self, _: &FleetQuestion) -> ProviderAnswer {
            self.take_time().await;
            ProviderAnswer::Groups(Ok(Vec::new()))
        }

        async fn create(&self, _: &str, _: &str) -> Called<MadeMachine> {
            self.take_time().await;
            Called::Done(MadeMachine::default())
        }

        async fn delete(&self, _: &str) -> Called<()> {
            self.take_time().await;
            Called::Done(())
        }

        async fn set_image(&self, _: &str, _: &str) -> Called<()> {
            self.take_time().await;
            Called::Done(())
        }
    }

    fn slow(takes: Duration) -> (Provider, Arc<Slow>) {
        let slow = Arc::new(Slow {
            takes,
            ..Slow::default()
        });
        (Provider::of(Ok(slow.clone()), None), slow)
    }

    #[tokio::test]
    async fn calls_go_out_beside_one_another_and_none_waits_for_a_place() {
        let provider = silent();
        let (answers, _seen) = answers();
        let most = CALLS_AT_ONCE as usize;
        for number in 0..most {
            assert_eq!(provider.begin(delete(number), answers.clone()), Begun::UnderWay);
        }
        assert_eq!(provider.begin(delete(most), answers), Begun::Full);
        assert_eq!(delete(1).what(), "sim:///m-1", "as decisions know it");
    }

    #[tokio::test]
    async fn nobody_is_asked_or_told_the_same_twice_while_it_is_under_way() {
        let (provider, slow) = slow(Duration::from_millis(50));
        let (answers, mut seen) = answers();
        for _ in 0..3 {
            assert_eq!(provider.begin(delete(1), answers.clone()), Begun::UnderWay);
            let Answers { clock, to } = answers.clone();
            provider.ask(FleetQuestion::Groups, clock, to);
        }
        for _ in 0..2 {
            assert!(matches!(
                seen.recv().await,
                Some(Seen::Called(..) | Seen::Provider(..))
            ));
        }
        assert_eq!(slow.called.load(Ordering::Relaxed), 2);
        assert!(seen.try_recv().is_err(), "each is answered once");
        // It is over: whoever wants it is heard again.
        assert_eq!(provider.begin(delete(1), answers), Begun::UnderWay);
        assert!(matches!(seen.recv().await, Some(Seen::Called(..))));
        assert_eq!(slow.called.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn who_stops_awaits_the_calls_that_are_under_way_and_not_for_ever() {
        let (provider, _) = slow(Duration::from_millis(50));
        let (answers, mut seen) = answers();
        provider.begin(delete(1), answers.clone());
        assert!(provider.rest(Duration::from_mins(1)).await);
        assert!(matches!(seen.try_recv(), Ok(Seen::Called(..))), "it is answered");
        assert_eq!(
            provider.begin(delete(1), answers.clone()),
            Begun::Full,
            "none begins any more"
        );

        let provider = silent();
        provider.begin(delete(1), answers);
        assert!(!provider.rest(Duration::from_millis(10)).await);
    }

    #[tokio::test]
    async fn without_etcd_there_is_no_member_and_without_a_provider_nobody_to_call() {
        let provider = silent();
        let leaver = Leaver {
            node: "cp-0".to_owned(),
            address: "10.0.0.1".to_owned(),
            others: Vec::new(),
            names: Vec::new(),
            heir: None,
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
