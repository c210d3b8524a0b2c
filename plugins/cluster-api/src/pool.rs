//! What is otherwise with MachinePools: their machines are made and chosen by the cloud's controller, and only some of them show Machines
//! (MachinePool Machines). Writes nothing.

use crate::{config::Config, group::Loaded};
use numo_provider_sdk::{
    Failure, FailureCode, ObjectRef,
    failure::failure,
    host::{Freshness, Host},
    objects::{self, fields, text},
};

/// Where a reference to infrastructure points; either version of the API has it.
pub fn infrastructure(config: &Config, loaded: &Loaded, name: &str) -> ObjectRef {
    let at = "/spec/template/spec/infrastructureRef";
    let part = |field: &str| loaded.text(&format!("{at}/{field}")).to_owned();
    let api_version = match part("apiVersion").as_str() {
        "" => format!("{}/{}", part("apiGroup"), config.infrastructure_version),
        version => version.to_owned(),
    };
    ObjectRef {
        api_version,
        kind: part("kind"),
        namespace: Some(loaded.group.namespace.clone()),
        name: name.to_owned(),
    }
}

/// Whether a MachinePool's infrastructure has Machines.
///
/// Errors: it has none, or may not be read.
pub fn check(host: &impl Host, config: &Config, loaded: &Loaded) -> Result<(), Failure> {
    let reference = infrastructure(config, loaded, loaded.template());
    let read = fields(&["/status/infrastructureMachineKind"], Freshness::Live);
    let found = objects::get(host, &reference, &read)?;
    let kind = found
        .as_ref()
        .map(|found| text(found, "/status/infrastructureMachineKind"));
    if kind.is_some_and(|kind| !kind.is_empty()) {
        return Ok(());
    }
    let words = format!(
        "{} of {}, status.infrastructureMachineKind: found nothing, wanted a kind; its machines have no Machines, and numo cannot tell them apart",
        objects::shown(&reference),
        loaded.group.shown()
    );
    Err(failure(FailureCode::Other, words))
}
