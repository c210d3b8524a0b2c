//! Adds one machine to a group, and finds the one that was made for a request.
//!
//! # The protocol
//!
//! Cluster API makes Machines itself, and gives them their names: a request can only ask for one more, and say afterwards which is its own.
//!
//! 1. **Raise.** One patch raises `spec.replicas` by one and writes the request into the group's ledger, with the Machines that are there. It
//!    tests both. A crash before it changed nothing; after it the entry is found, and nothing is raised again. Two requests at once cannot
//!    both win: the other reads anew and raises from there.
//! 2. **Claim.** A Machine that the entry does not know, that no request has and that nobody deletes, is the request's: its annotation is
//!    written if the Machine is still as it was read. A crash before it claims anew, after it the annotation is found. Of several the one
//!    is taken that the most later requests cannot take, then the oldest: so every request finds one.
//! 3. **Wait**, until the Machine has `spec.providerID` and `status.nodeRef`. Cluster API writes the latter once the Node is there; a machine
//!    that never joins has none, and is `pending` until numo gives up. [`find`] has it all the same, by the id `capi://NAMESPACE/NAME`
//!    and, for its node, the name of the Machine.
//!
//! The token of a raise has the Machines that were there: as long as one Machine is new, it is claimed without a look at the group.
//!
//! Which of the new Machines a request claims does not matter: as many were asked for as there are requests, and all are of the group's
//! template. A Machine that the autoscaler or a MachineHealthCheck had made meanwhile may be claimed, and theirs is then the one that was
//! made for numo. If somebody deletes a claimed Machine, Cluster API makes another: while the entry is open, that one is claimed.
//!
//! Nothing is withdrawn. While a raise is known and its Machine is not there yet, [`find`] fails with `unavailable`: "none" would have numo
//! forget a machine that comes. Only when Cluster API has done all it was asked for, and there is no new Machine, did somebody lower the
//! group again; then there is none.

use crate::{
    config::Config,
    delete::annotate,
    group::{Group, Kind, Loaded, contended},
    hold,
    ledger::{Request, known},
    machine::{self, Machine, REQUEST},
    pool,
};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, NodeState, Pending, failure::failure, host::Host, names,
    objects::token, serde_json::json,
};
use std::cmp::Reverse;

/// How often a group that others write is read anew in one call.
const TRIES: usize = 4;
/// When to ask again for a Machine that is not there yet, was not claimed, or boots (seconds).
const UNMADE: u32 = 5;
const UNCLAIMED: u32 = 1;
const BOOTING: u32 = 10;

/// What the token of a raise begins with; the Machines that were there follow. No Machine has such a name.
const RAISED: &str = "raised:";
/// Bytes of a token: the contract permits 4 KiB.
const TOKEN: usize = 4096;

/// What became of a claim.
enum Claim {
    Own(Machine),
    /// Others wrote the Machine meanwhile.
    Lost,
    /// There is no Machine to claim, and whether one may still come.
    None {
        may_come: bool,
    },
}

/// Adds one machine to a group.
pub fn create(
    host: &impl Host,
    group_id: &str,
    request_id: &str,
    claimed: Option<&str>,
) -> Result<Creation, Failure> {
    let config = Config::read(host)?;
    let (group, request) = (Group::parse(group_id)?, names::request(request_id)?);
    if let Some(name) = claimed.filter(|name| crate::group::is_name(name)) {
        let machine = machine::by_name(host, &config, &group.namespace, name)?;
        let machine = machine.filter(|machine| machine.annotation(REQUEST) == request);
        if let Some(machine) = machine {
            return progress(&machine);
        }
    }
    let known = claimed.and_then(|token| token.strip_prefix(RAISED));
    if let Some(known) = known
        && let Some(machine) = claim_only(host, &config, &group, (request, known))?
    {
        return progress(&machine);
    }
    for _ in 0..TRIES {
        let loaded = group.clone().load(host, &config)?;
        if hold::finish(host, &config, &loaded)? {
            continue;
        }
        let machines = machine::of_group(host, &config, &group)?;
        if let Some(machine) = made_for(&machines, request) {
            return progress(machine);
        }
        loaded.changeable()?;
        let Some(entry) = loaded.ledger.request(request) else {
            if let Some(entry) = raise(host, &config, &loaded, &machines, request)? {
                let words = format!("{} has one replica more", group.shown());
                return Ok(pending(&raised(&entry), UNMADE, words));
            }
            continue;
        };
        return match claim(host, &config, &loaded, &machines, entry)? {
            Claim::Own(machine) => progress(&machine),
            Claim::Lost => {
                let words = "others write the new Machine".to_owned();
                Ok(pending(&raised(entry), UNCLAIMED, words))
            }
            Claim::None { may_come: true } => {
                let words = format!("Cluster API has not made the Machine of {} yet", group.shown());
                Ok(pending(&raised(entry), UNMADE, words))
            }
            Claim::None { may_come: false } => Err(withdrawn(&loaded, request)),
        };
    }
    Err(contended(&group.shown()))
}

/// The token of a request that was raised; none if it has too many Machines.
fn raised(entry: &Request) -> String {
    let token = format!("{RAISED}{}", entry.known);
    if token.len() <= TOKEN {
        token
    } else {
        String::new()
    }
}

/// The machine of a request, or none. One that is there and not claimed yet is claimed.
pub fn find(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
    let config = Config::read(host)?;
    let (group, request) = (Group::parse(group_id)?, names::request(request_id)?);
    for _ in 0..TRIES {
        let loaded = match group.clone().load(host, &config) {
            Err(failed) if failed.code == FailureCode::NotFound => None,
            loaded => Some(loaded?),
        };
        if let Some(loaded) = &loaded
            && hold::finish(host, &config, loaded)?
        {
            continue;
        }
        let machines = machine::of_group(host, &config, &group)?;
        if let Some(machine) = made_for(&machines, request) {
            return Ok(Some(created(machine)));
        }
        let entry = loaded
            .as_ref()
            .and_then(|loaded| Some((loaded, loaded.ledger.request(request)?)));
        let Some((loaded, entry)) = entry else {
            return Ok(None);
        };
        match claim(host, &config, loaded, &machines, entry)? {
            Claim::Own(machine) => return Ok(Some(created(&machine))),
            Claim::Lost => {}
            Claim::None { may_come: false } => return Ok(None),
            Claim::None { may_come: true } => {
                let words = format!(
                    "{} has one replica more for request {request}, and Cluster API has not made its Machine yet",
                    group.shown()
                );
                let mut failed = failure(FailureCode::Unavailable, words);
                failed.retry_after_seconds = Some(UNMADE);
                return Err(failed);
            }
        }
    }
    Err(contended(&group.shown()))
}

/// The Machine that was claimed for a request: the oldest, should there be two.
fn made_for<'a>(machines: &'a [Machine], request: &str) -> Option<&'a Machine> {
    let claimed = machines
        .iter()
        .filter(|machine| machine.annotation(REQUEST) == request);
    claimed.min_by_key(|machine| (machine.created(), machine.name()))
}

/// Raises the group by one for a request: its entry; none if others wrote the group meanwhile.
fn raise(
    host: &impl Host,
    config: &Config,
    loaded: &Loaded,
    machines: &[Machine],
    request: &str,
) -> Result<Option<Request>, Failure> {
    if loaded.group.kind == Kind::Pool {
        pool::check(host, config, loaded)?;
    }
    let mut ledger = loaded.ledger.clone();
    let now = host.now().seconds;
    ledger.tidy(now, |id| made_for(machines, id).is_some());
    let entry = Request {
        id: request.to_owned(),
        at: now,
        known: known(machines.iter().map(Machine::uid)),
        closed: false,
    };
    ledger.requests.push(entry.clone());
    let replicas = loaded.replicas()?.saturating_add(1);
    let change = json!({"op": "replace", "path": "/spec/replicas", "value": replicas});
    let is_raised = loaded.patch(host, config, Some(&ledger), vec![change])?;
    Ok(is_raised.then_some(entry))
}

/// Whether an entry's request may claim a Machine.
fn is_free(entry: &Request, machine: &Machine) -> bool {
    let is_new = !entry.closed && !entry.knows(machine.uid());
    is_new && machine.annotation(REQUEST).is_empty() && !machine.is_going() && !machine.is_marked()
}

/// The Machine of a request that was raised, claimed if it is the only new one. Which of several it takes is said by the group.
fn claim_only(
    host: &impl Host,
    config: &Config,
    group: &Group,
    (request, known): (&str, &str),
) -> Result<Option<Machine>, Failure> {
    let machines = machine::of_group(host, config, group)?;
    if let Some(machine) = made_for(&machines, request) {
        return Ok(Some(machine.clone()));
    }
    let entry = Request {
        id: request.to_owned(),
        at: 0,
        known: known.to_owned(),
        closed: false,
    };
    let mut free = machines.iter().filter(|machine| is_free(&entry, machine));
    let (Some(machine), None) = (free.next(), free.next()) else {
        return Ok(None);
    };
    let is_claimed = annotate(host, config, machine, &annotation(), request)?;
    Ok(is_claimed.then(|| machine.clone()))
}

/// Where the request stands on its Machine.
fn annotation() -> String {
    format!("/metadata/annotations/{}", token(REQUEST))
}

/// Claims a Machine for the request of an entry.
fn claim(
    host: &impl Host,
    config: &Config,
    loaded: &Loaded,
    machines: &[Machine],
    entry: &Request,
) -> Result<Claim, Failure> {
    let is_free = |machine: &&Machine| is_free(entry, machine);
    let order = |machine: &&Machine| {
        let lost = loaded.ledger.lost_to_others(&entry.id, machine.uid());
        (
            Reverse(lost),
            machine.created().to_owned(),
            machine.name().to_owned(),
        )
    };
    let Some(machine) = machines.iter().filter(is_free).min_by_key(order) else {
        // One that goes is counted until it is gone, and may keep another from being made.
        let goes = machines
            .iter()
            .any(|machine| machine.is_going() || machine.is_marked());
        let listed = i64::try_from(machines.len()).unwrap_or(i64::MAX);
        let may_come = !entry.closed && (goes || !loaded.is_settled() || listed < loaded.replicas()?);
        return Ok(Claim::None { may_come });
    };
    if annotate(host, config, machine, &annotation(), &entry.id)? {
        return Ok(Claim::Own(machine.clone()));
    }
    Ok(Claim::Lost)
}

fn withdrawn(loaded: &Loaded, request: &str) -> Failure {
    let words = format!(
        "{} was raised for request {request}, and there is no new Machine for it: somebody has lowered the group again or deleted the Machine",
        loaded.group.shown()
    );
    failure(FailureCode::Other, words)
}

/// A machine's way to its Node.
fn progress(machine: &Machine) -> Result<Creation, Failure> {
    let failed = |code, words: &str| {
        let message = format!("{} {words}: {}", machine.shown(), machine.words());
        Err(failure(code, message))
    };
    match machine.state() {
        NodeState::Terminating | NodeState::Terminated => {
            failed(FailureCode::Other, "is being deleted by somebody")
        }
        NodeState::Failed => failed(FailureCode::Other, "has failed"),
        _ if machine.node().is_some() => Ok(Creation::Created(created(machine))),
        _ => {
            let words = format!("{} waits for its Node: {}", machine.shown(), machine.words());
            Ok(pending(machine.name(), BOOTING, words))
        }
    }
}

fn created(machine: &Machine) -> CreatedNode {
    CreatedNode {
        node_name: machine.node().unwrap_or(machine.name()).to_owned(),
        provider_id: machine.id(),
        attributes: vec![("machine".to_owned(), machine.name().to_owned())],
    }
}

fn pending(token: &str, retry_after_seconds: u32, message: String) -> Creation {
    Creation::Pending(Pending {
        token: token.to_owned(),
        retry_after_seconds,
        message,
    })
}
