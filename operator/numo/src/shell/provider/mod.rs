//! Who makes and deletes machines: the provider, behind one interface (`wit/provider` has the same operations for components). Calls that
//! make or delete are written so that a repeated one finishes the work and never does it twice. Nothing is decided here.

pub mod answer;
mod sim;

pub use answer::{Called, ProviderAnswer};
pub use sim::Sim;

use super::{clock::ServerClock, store::Seen};
use numo_core::observed::{FleetQuestion, MadeMachine};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// How long the provider may take to answer a question.
const PATIENCE: Duration = Duration::from_mins(1);
/// Questions that are asked at once.
const AT_ONCE: usize = 8;

/// The provider of machines.
#[derive(Clone, Debug)]
pub enum Provider {
    /// There is none, and why.
    None(&'static str),
    /// Machines that are objects of the cluster: for demos and tests.
    Sim(Box<Sim>, Arc<Semaphore>),
}

impl Provider {
    /// Machines that are ConfigMaps.
    pub fn sim(sim: Sim) -> Self {
        Self::Sim(Box::new(sim), Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Why there is no provider, if there is none.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::None(words) => Some((*words).to_owned()),
            Self::Sim(..) => None,
        }
    }

    /// Asks a question; the answer goes to the planner.
    pub fn ask(&self, question: FleetQuestion, clock: ServerClock, to: mpsc::UnboundedSender<Seen>) {
        let Self::Sim(sim, places) = self.clone() else {
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
        match self {
            Self::None(words) => Called::Refused((*words).to_owned()),
            Self::Sim(sim, _) => sim.create(group_id, request).await,
        }
    }

    /// Deletes a machine. One that is gone is no failure.
    pub async fn delete(&self, provider_id: &str) -> Called<()> {
        match self {
            Self::None(words) => Called::Refused((*words).to_owned()),
            Self::Sim(sim, _) => sim.delete(provider_id).await,
        }
    }

    /// Has new machines of a group get an image.
    pub async fn set_image(&self, group_id: &str, image: &str) -> Called<()> {
        match self {
            Self::None(words) => Called::Refused((*words).to_owned()),
            Self::Sim(sim, _) => sim.set_image(group_id, image).await,
        }
    }

    /// Takes the member of etcd at an address out. One that is gone is no failure.
    pub fn remove_member(&self, _address: &str) -> Called<()> {
        match self {
            Self::None(words) => Called::Refused((*words).to_owned()),
            // Machines of a demo have no etcd of their own.
            Self::Sim(..) => Called::Done(()),
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
