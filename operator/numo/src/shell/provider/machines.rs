//! What every provider of machines can do, and how long it may take. Nothing is decided here.

use super::answer::{Called, ProviderAnswer};
use async_trait::async_trait;
use numo_core::observed::{FleetQuestion, MadeMachine};
use std::{fmt::Debug, time::Duration};

/// How long a call or a question may take once it is its turn. A call that is cut off is found again by what it was to do.
pub const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may wait for its turn before that. A machine that was not made after both is looked for longer than this (`UNSEEN_SECONDS`
/// of the core): none is made that nobody looks for any more.
pub const TURN_PATIENCE: Duration = Duration::from_secs(45);

/// Who makes and deletes machines. Calls that make or delete are written so that a repeated one finishes the work and never does it twice.
/// Each call and each question ends by itself, and its time begins when it is its turn.
#[async_trait]
pub trait Machines: Debug + Send + Sync {
    /// Answers a question.
    async fn answer(&self, question: &FleetQuestion) -> ProviderAnswer;

    /// Makes the machine of a request, or finds it.
    async fn create(&self, group_id: &str, request: &str) -> Called<MadeMachine>;

    /// Deletes a machine. One that is gone is no failure.
    async fn delete(&self, provider_id: &str) -> Called<()>;

    /// Has new machines of a group get an image.
    async fn set_image(&self, group_id: &str, image: &str) -> Called<()>;
}

/// What is said of a call that was cut off after so long.
pub fn cut_off(after: Duration) -> String {
    format!("not answered within {} s", after.as_secs())
}

/// A call that waits for no turn.
pub async fn within<T>(call: impl Future<Output = Called<T>>) -> Called<T> {
    let called = tokio::time::timeout(CALL_PATIENCE, call).await;
    called.unwrap_or_else(|_| Called::refused(cut_off(CALL_PATIENCE)))
}
