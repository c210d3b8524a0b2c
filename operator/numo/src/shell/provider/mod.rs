//! Who makes and deletes machines: the provider, behind one interface (`wit/provider` has the same operations for components). Calls that
//! make or delete are written so that a repeated one finishes the work and never does it twice. Nothing is decided here.

pub mod answer;
mod sim;

pub use answer::{Called, ProviderAnswer};
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

/// The provider of machines, and the etcd of the cluster that they are nodes of.
#[derive(Clone, Debug)]
pub struct Provider {
    machines: Machines,
    etcd: Option<Etcd>,
    places: Arc<Semaphore>,
}

#[derive(Clone, Debug)]
enum Machines {
    /// There are none, and why.
    None(&'static str),
    /// They are objects of the cluster: for demos and tests.
    Sim(Box<Sim>),
}

impl Provider {
    fn of(machines: Machines, etcd: Option<Etcd>) -> Self {
        Self {
            machines,
            etcd,
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// There is none, in these words.
    pub fn none(words: &'static str) -> Self {
        Self::of(Machines::None(words), None)
    }

    /// Machines that are ConfigMaps. They have members of etcd only if it is said where that is.
    pub fn sim(sim: Sim, etcd: Option<Etcd>) -> Self {
        Self::of(Machines::Sim(Box::new(sim)), etcd)
    }

    /// Why there is no provider, if there is none.
    pub fn missing(&self) -> Option<String> {
        match &self.machines {
            Machines::None(words) => Some((*words).to_owned()),
            Machines::Sim(_) => None,
        }
    }

    /// Asks a question; the answer goes to the planner.
    pub fn ask(&self, question: FleetQuestion, clock: ServerClock, to: mpsc::UnboundedSender<Seen>) {
        let Self { machines, places, .. } = self.clone();
        let Machines::Sim(sim) = machines else {
            return;
        };
        tokio::spawn(async move {
            let Ok(_place) = places.acquire().await else {
                return;
            };
            let answered = tokio::time::timeout(PATIENCE, answer(&sim, &question)).await;
            // Silence is asked again by whoever still wants to know.
            if let Ok(answer) = answered {
                let _ = to.send(Seen::Provider(question, clock.now(), answer));
            }
        });
    }

    /// Makes the machine of a request, or finds the one that was made for it.
    pub async fn create(&self, group_id: &str, request: &str) -> Called<MadeMachine> {
        match &self.machines {
            Machines::None(words) => Called::Refused((*words).to_owned()),
            Machines::Sim(sim) => sim.create(group_id, request).await,
        }
    }

    /// Deletes a machine. One that is gone is no failure.
    pub async fn delete(&self, provider_id: &str) -> Called<()> {
        match &self.machines {
            Machines::None(words) => Called::Refused((*words).to_owned()),
            Machines::Sim(sim) => sim.delete(provider_id).await,
        }
    }

    /// Has new machines of a group get an image.
    pub async fn set_image(&self, group_id: &str, image: &str) -> Called<()> {
        match &self.machines {
            Machines::None(words) => Called::Refused((*words).to_owned()),
            Machines::Sim(sim) => sim.set_image(group_id, image).await,
        }
    }

    /// Takes the member of a node out of etcd. One that is gone is no failure.
    pub async fn remove_member(&self, leaver: &Leaver) -> Called<()> {
        match (&self.machines, &self.etcd) {
            (Machines::None(words), _) => Called::Refused((*words).to_owned()),
            (_, Some(etcd)) => match etcd.remove(leaver).await {
                Ok(()) => Called::Done(()),
                Err(words) => Called::Refused(words),
            },
            // Machines of a demo have no etcd of their own.
            (Machines::Sim(_), None) => Called::Done(()),
        }
    }
}

async fn answer(sim: &Sim, question: &FleetQuestion) -> ProviderAnswer {
    match question {
        FleetQuestion::Facts { provider_id } => ProviderAnswer::Facts(sim.facts(provider_id).await),
        FleetQuestion::State { provider_id } => ProviderAnswer::State(sim.state(provider_id).await),
        FleetQuestion::GroupImage { group_id } => ProviderAnswer::Image(sim.image(group_id).await),
        FleetQuestion::Groups => ProviderAnswer::Groups(sim.groups().await),
        FleetQuestion::Find { request, .. } => ProviderAnswer::Found(sim.find(request).await),
    }
}
