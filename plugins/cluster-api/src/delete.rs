//! Deletes one Machine, and lowers `spec.replicas` of its group with it: exactly that Machine, and once.
//!
//! # The protocol
//!
//! 1. The Machine is found by its id. None: it is gone, which is success. One that somebody else deletes already goes without a change
//!    of `spec.replicas`: Cluster API makes another in its place, and numo uses that for the next node.
//! 2. Its group is read. A hold that a crash has left is ended first (`hold`).
//! 3. The Machine is marked (`cluster.x-k8s.io/delete-machine`), if it is still as it was read: Cluster API takes it first of its MachineSet.
//!    One that somebody else has marked is waited for: whoever marks a Machine lowers its group, and both would be one too many.
//! 4. One patch lowers `spec.replicas` by one and writes the Machine's uid into the group's ledger. It tests both: a crash before it changed
//!    nothing, a crash after it finds the uid there, and two at once cannot both lower it. If Cluster API might shrink another MachineSet
//!    than the Machine's, this patch holds the group, and the MachineSet is lowered by itself.
//!
//! Called again for a Machine that is in the ledger and does not go, one of two things has happened. Another one that numo had marked went for
//! its replica, before the group was lowered for that one: then the group is lowered once more, and the other is written into the ledger.
//! Or a replica was added before Cluster API saw that one was taken: it sees no change, and would leave the Machine for ever. Then the
//! Machine is deleted by its uid.
//!
//! Nothing is deleted whose group is not of the cluster or whose owner is not of the group, and nothing that has a Node by the id of before.

use crate::{
    config::Config,
    group::{Kind, Loaded, contended},
    hold,
    ledger::Ledger,
    machine::{self, DELETE, MARK, Machine, REQUEST},
    sets::{self, Set},
};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::failure,
    host::Host,
    objects::{of_object, status, text, token},
    serde_json::{Value, json},
};

/// How often a group that others write is read anew in one call.
const TRIES: usize = 4;

/// What is to be lowered for a Machine.
enum Way {
    /// The group: Cluster API takes the Machine that is marked.
    Group,
    /// The group and this MachineSet.
    Set(Set),
}

/// Deletes the machine with an id.
pub fn delete(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
    let config = Config::read(host)?;
    let mut found = machine::by_id(host, &config, provider_id)?;
    for _ in 0..TRIES {
        let Some(machine) = found else {
            return Ok(());
        };
        // A hold marks its Machine first.
        if machine.is_going() && !machine.is_marked() {
            return Ok(());
        }
        without_node(&machine, provider_id)?;
        let loaded = match machine.group()?.load(host, &config) {
            Err(failed) if machine.is_going() && failed.code == FailureCode::NotFound => return Ok(()),
            loaded => loaded?,
        };
        let is_done = match &loaded.ledger.hold {
            Some(hold) => hold::finish(host, &config, &loaded)? && hold.uid == machine.uid(),
            None => machine.is_going() || take(host, &config, &loaded, &machine)?,
        };
        if is_done {
            return Ok(());
        }
        let again = machine::by_name(host, &config, machine.namespace(), machine.name())?;
        found = again.filter(|again| again.uid() == machine.uid());
    }
    Err(contended(provider_id))
}

/// By the id that it had before its providerID only a Machine is deleted that was claimed for a request, and none that has a Node: numo does
/// not know that this Node is the machine's, so pods may have come to it, and nobody has drained it. It finds the request's Machine again, with
/// its own id and its Node.
fn without_node(machine: &Machine, provider_id: &str) -> Result<(), Failure> {
    if machine.is_going() || !machine::is_early(provider_id) {
        return Ok(());
    }
    if machine.annotation(REQUEST).is_empty() {
        let words = format!(
            "{}, annotation {REQUEST}: found none, wanted the request that it was made for while it is deleted as {provider_id}; it is not deleted",
            machine.shown()
        );
        return Err(failure(FailureCode::Invalid, words));
    }
    let node = text(machine.value(), "/status/nodeRef/name");
    if node.is_empty() {
        return Ok(());
    }
    let words = format!(
        "{}: found Node {node} with spec.providerID {}, wanted none while it is deleted as {provider_id}: it came late, and is not drained; \
         numo looks for it anew and takes the Node as joined",
        machine.shown(),
        machine.id()
    );
    Err(failure(FailureCode::Other, words))
}

/// Takes the Machine out of its group. Whether that is done; else one of them was written by others meanwhile.
fn take(host: &impl Host, config: &Config, loaded: &Loaded, machine: &Machine) -> Result<bool, Failure> {
    loaded.changeable()?;
    let sets = owning(host, config, loaded, machine)?;
    let mut counted = machine.uid().to_owned();
    if is_counted(loaded, machine) {
        match went_instead(host, config, loaded, machine)? {
            Some(other) => counted = other,
            None => return remove(host, config, machine),
        }
    }
    marked_by_nobody_else(machine)?;
    let way = sets.map_or(Ok(Way::Group), |(sets, own)| way(loaded, machine, &sets, own))?;
    let replicas = loaded.replicas()?;
    if replicas == 0 {
        let shown = loaded.group.shown();
        let words = format!(
            "{shown}, spec.replicas: found 0, wanted at least one for {}",
            machine.shown()
        );
        return Err(failure(FailureCode::Other, words));
    }
    if !mark(host, config, machine)? {
        return Ok(false);
    }
    let ledger = lowered(host, loaded, machine, counted);
    let set = match way {
        Way::Group => {
            let change = json!({"op": "replace", "path": "/spec/replicas", "value": replicas - 1});
            return loaded.patch(host, config, Some(&ledger), vec![change]);
        }
        Way::Set(set) => set,
    };
    hold::take(host, config, loaded, ledger, (machine, &set))
}

/// Whether the group was lowered for a Machine.
fn is_counted(loaded: &Loaded, machine: &Machine) -> bool {
    loaded.ledger.deleted.iter().any(|uid| uid == machine.uid())
}

/// A Machine of the same owner that numo had marked, and that goes for the replica that was lowered for this one: its uid.
fn went_instead(
    host: &impl Host,
    config: &Config,
    loaded: &Loaded,
    machine: &Machine,
) -> Result<Option<String>, Failure> {
    let machines = machine::of_group(host, config, &loaded.group)?;
    let owner = |machine: &Machine| machine.owner("MachineSet").map(|(uid, _)| uid.to_owned());
    let other = machines.iter().find(|other| {
        let is_uncounted = other.is_going() && !is_counted(loaded, other);
        is_uncounted && other.mark() == Some(MARK) && owner(other) == owner(machine)
    });
    Ok(other.map(|other| other.uid().to_owned()))
}

/// Deletes a Machine that was counted, and that Cluster API leaves.
fn remove(host: &impl Host, config: &Config, machine: &Machine) -> Result<bool, Failure> {
    let reference = machine.reference(config);
    match host.delete_object(&reference, machine.uid()) {
        Ok(()) => Ok(true),
        Err(error) if matches!(status(&error), Some(404 | 409)) => Ok(true),
        Err(error) => Err(of_object(&error, &reference)),
    }
}

/// The ledger after the group was lowered for a Machine, counted as the one with this uid.
fn lowered(host: &impl Host, loaded: &Loaded, machine: &Machine, counted: String) -> Ledger {
    let mut ledger = loaded.ledger.clone();
    ledger.deleted.push(counted);
    let request = machine.annotation(REQUEST);
    ledger.tidy(host.now().seconds, |id| id == request);
    ledger
}

/// The MachineSets of the group, and the one that owns the Machine; none for a MachinePool that owns it.
///
/// Errors: the Machine is not of the group.
fn owning(
    host: &impl Host,
    config: &Config,
    loaded: &Loaded,
    machine: &Machine,
) -> Result<Option<(Vec<Set>, Set)>, Failure> {
    let uid = loaded.text("/metadata/uid");
    if loaded.group.kind == Kind::Pool {
        return match machine.owner(Kind::Pool.name()) {
            Some((owner, _)) if owner == uid && !uid.is_empty() => Ok(None),
            _ => Err(stranger(loaded, machine)),
        };
    }
    let sets = sets::of(host, config, loaded)?;
    let owner = machine.owner("MachineSet");
    let mut own = sets
        .iter()
        .filter(|set| owner.is_some_and(|(uid, _)| uid == set.uid));
    let own = own.next().cloned().ok_or_else(|| stranger(loaded, machine))?;
    Ok(Some((sets, own)))
}

/// What is to be lowered.
///
/// Errors: the group is on the way to something else.
fn way(loaded: &Loaded, machine: &Machine, sets: &[Set], own: Set) -> Result<Way, Failure> {
    if own.replicas > 0 && sets::is_next(loaded, sets, &own) {
        return Ok(Way::Group);
    }
    let (wanted, sum) = (loaded.replicas()?, sets::sum(sets));
    if own.replicas > 0 && wanted == sum {
        return Ok(Way::Set(own));
    }
    let words = format!(
        "{}: found spec.replicas {wanted}, {sum} in its MachineSets and {} in {}, that of {}; waits until Cluster API is done",
        loaded.group.shown(),
        own.replicas,
        own.name,
        machine.name()
    );
    let mut failed = failure(FailureCode::Unavailable, words);
    failed.retry_after_seconds = Some(5);
    Err(failed)
}

fn stranger(loaded: &Loaded, machine: &Machine) -> Failure {
    let words = format!(
        "{}: found no owner that is of {}, wanted one; it is not deleted",
        machine.shown(),
        loaded.group.shown()
    );
    failure(FailureCode::Invalid, words)
}

/// Whether nobody else has marked it: whoever marks a Machine lowers its group, and both would be one too many.
fn marked_by_nobody_else(machine: &Machine) -> Result<(), Failure> {
    let Some(mark) = machine.mark().filter(|mark| *mark != MARK) else {
        return Ok(());
    };
    let words = format!(
        "{}, annotation {DELETE}: found {:?}, wanted none; waits until whoever wrote it lowers the group, or takes it off",
        machine.shown(),
        mark.chars().take(100).collect::<String>()
    );
    let mut failed = failure(FailureCode::Unavailable, words);
    failed.retry_after_seconds = Some(10);
    Err(failed)
}

/// Marks the Machine for deletion. Whether it is marked; else it was written by others meanwhile, or is gone.
fn mark(host: &impl Host, config: &Config, machine: &Machine) -> Result<bool, Failure> {
    if machine.mark() == Some(MARK) {
        return Ok(true);
    }
    let at = format!("/metadata/annotations/{}", token(DELETE));
    annotate(host, config, machine, &at, MARK)
}

/// Writes an annotation of a Machine, if it is still as it was read. Whether it was written.
pub fn annotate(
    host: &impl Host,
    config: &Config,
    machine: &Machine,
    at: &str,
    value: &str,
) -> Result<bool, Failure> {
    let test =
        |pointer: &str| json!({"op": "test", "path": pointer, "value": machine.value().pointer(pointer)});
    let mut patch = vec![test("/metadata/uid"), test("/metadata/resourceVersion")];
    if machine.value().pointer("/metadata/annotations").is_none() {
        patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    patch.push(json!({"op": "add", "path": at, "value": value}));
    let reference = machine.reference(config);
    match host.patch_object(&reference, &Value::Array(patch).to_string()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(status(&error), Some(404 | 422)) => Ok(false),
        Err(error) => Err(of_object(&error, &reference)),
    }
}
