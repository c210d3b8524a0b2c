//! What is the same for every owner of a preview of a cluster.

use super::asking::Asking;
use crate::shell::{client::Connection, doctor};
use numo_core::forecast::Surroundings;

/// What is the same for every owner of a preview of a cluster.
pub(super) struct Site<'c> {
    pub(super) connection: &'c Connection,
    /// None where no rule is to be asked.
    pub(super) asking: Option<Asking>,
    pub(super) around: Surroundings,
    pub(super) missing: Vec<String>,
    /// The namespace of numo.
    pub(super) place: String,
}

/// What `numo doctor` finds missing of rights and definitions, where numo is; what nobody may tell is not seen.
pub(super) async fn missing(connection: &Connection, place: &str, unseen: &mut Vec<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for one in doctor::needs(connection, place).await {
        match one.state {
            doctor::State::Wrong => missing.push(one.message),
            doctor::State::Unknown => unseen.push(one.message),
            doctor::State::Ok | doctor::State::Note => {}
        }
    }
    missing
}
