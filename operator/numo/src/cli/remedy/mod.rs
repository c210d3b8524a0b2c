//! Which verb ends a wait: commands to copy, for what a person at a terminal may end, with the names filled in. Decides
//! nothing, and names no command that the operator or the API server would refuse as things stand.
//!
//! A command is found by the reason of the wait (`reason.rs`); the other files are what the reasons share.

mod cause;
mod given_up;
mod machine;
mod name;
mod node;
mod owner;
mod pool;
mod reason;
mod rule;
mod template;
mod wait;

pub use self::{name::invite, template::of_reason, wait::Wait};

use self::node::of_held;
use crate::cli::live::Look;
use numo_api::{Reason, Step, conditions::Actor};
use numo_core::{
    Owner,
    report::{NodeReport, Report},
};

/// What ends the wait of an owner.
pub fn of_owner(
    look: &Look,
    owner: &Owner,
    report: &Report,
    (reason, who, message): (Reason, Actor, &str),
) -> Vec<String> {
    Wait {
        look,
        owner,
        report: Some(report),
        node: None,
        reason,
        who,
        message,
    }
    .commands()
}

/// What ends the wait of a node.
pub fn of_node(look: &Look, owner: &Owner, report: &Report, name: &str, node: &NodeReport) -> Vec<String> {
    let wait = Wait {
        look,
        owner,
        report: Some(report),
        node: Some(name),
        reason: node.why.reason,
        who: node.why.who(),
        message: &node.why.message,
    };
    match (node.step, node.why.reason) {
        (Step::Held, Reason::HeldByPerson) => wait.commands(),
        (Step::Held, _) => of_held(look, name, node),
        _ => wait.commands(),
    }
}
