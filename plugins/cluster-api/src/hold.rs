//! Holds a MachineDeployment while one of its MachineSets is made smaller, where Cluster API would choose another MachineSet: that of a new
//! machine which did not join, or one of several older ones.
//!
//! 1. One patch lowers `spec.replicas` of the MachineDeployment, pauses it (`cluster.x-k8s.io/paused`), and writes the hold into its ledger.
//!    From here on nobody but numo scales its MachineSets.
//! 2. `spec.replicas` of the Machine's MachineSet falls by one, if it is what it was. The Machine is marked, so it is the one that goes.
//! 3. One patch ends the hold. If the MachineSets want more than the MachineDeployment (Cluster API was at work when it was paused), it gets
//!    as many replicas as they have: a machine too many is better than one that somebody uses.
//!
//! A crash leaves a hold. [`finish`] ends it; whoever reads the group next calls it first: making, finding, deleting, setting the image, listing.

use crate::{
    config::Config,
    group::{Loaded, PAUSED, contended},
    ledger::{Hold, Ledger},
    machine::{self, MARK, Machine},
    sets::{self, Set},
};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::failure,
    host::{Freshness, Host},
    objects::{self, fields, of_object, status, token},
    serde_json::json,
};

/// Takes a Machine out of its MachineSet by a hold. Whether it has begun; else the group was written by others meanwhile.
pub fn take(
    host: &impl Host,
    config: &Config,
    loaded: &Loaded,
    mut ledger: Ledger,
    (machine, set): (&Machine, &Set),
) -> Result<bool, Failure> {
    let is_marked_now = machine.mark() != Some(MARK);
    let hold = Hold {
        machine: machine.name().to_owned(),
        uid: machine.uid().to_owned(),
        set: set.name.clone(),
        from: set.replicas,
    };
    ledger.hold = Some(hold.clone());
    let why = format!("numo deletes Machine {}", machine.name());
    let changes = vec![
        json!({"op": "replace", "path": "/spec/replicas", "value": loaded.replicas()? - 1}),
        json!({"op": "add", "path": format!("/metadata/annotations/{}", token(PAUSED)), "value": why}),
    ];
    let Some(held) = loaded.patched(host, config, &ledger, changes)? else {
        return Ok(false);
    };
    // A Machine that was marked by this very call was there a moment ago, and the patch tests the MachineSet: neither is read once more.
    if is_marked_now && lower(host, config, &held, &hold)? {
        end(host, config, &held)?;
    } else {
        finish(host, config, &held)?;
    }
    Ok(true)
}

/// Ends the hold of a group that a crash has left, if there is one. Whether there was: what was read of the group is then old.
pub fn finish(host: &impl Host, config: &Config, loaded: &Loaded) -> Result<bool, Failure> {
    let Some(hold) = &loaded.ledger.hold else {
        return Ok(false);
    };
    lower_anew(host, config, loaded, hold)?;
    end(host, config, loaded)?;
    Ok(true)
}

/// Ends a hold whose MachineSet is lowered.
fn end(host: &impl Host, config: &Config, loaded: &Loaded) -> Result<(), Failure> {
    let wanted = sets::sum(&sets::of(host, config, loaded)?);
    let replicas = loaded.replicas()?.max(wanted);
    let paused = format!("/metadata/annotations/{}", token(PAUSED));
    let changes = vec![
        json!({"op": "replace", "path": "/spec/replicas", "value": replicas}),
        // Somebody may have taken it off.
        json!({"op": "add", "path": paused, "value": ""}),
        json!({"op": "remove", "path": paused}),
    ];
    let ledger = Ledger {
        hold: None,
        ..loaded.ledger.clone()
    };
    if loaded.patch(host, config, Some(&ledger), changes)? {
        return Ok(());
    }
    Err(contended(&loaded.group.shown()))
}

/// Makes the MachineSet smaller, if that was not done yet and the Machine is still there.
fn lower_anew(host: &impl Host, config: &Config, loaded: &Loaded, hold: &Hold) -> Result<(), Failure> {
    let namespace = &loaded.group.namespace;
    let machine = machine::by_name(host, config, namespace, &hold.machine)?;
    if machine.is_none_or(|machine| machine.uid() != hold.uid) {
        return Ok(());
    }
    let reference = config.reference("MachineSet", namespace, &hold.set);
    let found = objects::get(host, &reference, &fields(&sets::READ, Freshness::Live))?;
    if found.is_none_or(|set| sets::replicas(&set) != hold.from) {
        return Ok(());
    }
    if lower(host, config, loaded, hold)? {
        return Ok(());
    }
    let shown = objects::shown(&reference);
    Err(failure(
        FailureCode::Unavailable,
        format!("{shown} was scaled by others meanwhile"),
    ))
}

/// Makes the MachineSet smaller, if it has as many replicas as it had. Whether it was made so.
fn lower(host: &impl Host, config: &Config, loaded: &Loaded, hold: &Hold) -> Result<bool, Failure> {
    let reference = config.reference("MachineSet", &loaded.group.namespace, &hold.set);
    let patch = json!([
        {"op": "test", "path": "/spec/replicas", "value": hold.from},
        {"op": "replace", "path": "/spec/replicas", "value": hold.from.saturating_sub(1)},
    ]);
    match host.patch_object(&reference, &patch.to_string()) {
        Ok(_) => Ok(true),
        Err(error) if status(&error) == Some(422) => Ok(false),
        Err(error) => Err(of_object(&error, &reference)),
    }
}
