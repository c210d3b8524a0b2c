//! Images. The image of a machine is the name of the infrastructure template that it was made of, or the part of that name which the setting
//! `templateName` says: so the same code is good for every cloud. Changes only the reference of a MachineDeployment to its template.

use crate::{
    config::Config,
    group::{Group, Kind, Loaded, contended, is_name},
    hold,
    machine::{self, Machine},
    pool::infrastructure,
    sets,
};
use numo_provider_sdk::{
    Failure, FailureCode, ObjectRef, Pending,
    failure::{failure, invalid},
    host::{Freshness, Host},
    objects::{self, fields, text, token},
    serde_json::json,
};

/// What a template is a copy of, on the infrastructure of a Machine.
const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";
/// Where a group names its template.
const TEMPLATE: &str = "/spec/template/spec/infrastructureRef/name";
/// How often a group that others write is read anew in one call.
const TRIES: usize = 4;
/// When to ask again about a group that Cluster API has not seen yet (seconds).
const UNSEEN: u32 = 5;

/// Image that new machines of a group get.
pub fn of_group(host: &impl Host, group_id: &str) -> Result<String, Failure> {
    let config = Config::read(host)?;
    let loaded = Group::parse(group_id)?.load(host, &config)?;
    named(&config, &loaded.group, loaded.template())
}

fn named(config: &Config, group: &Group, template: &str) -> Result<String, Failure> {
    if template.is_empty() {
        let words = format!("{}{TEMPLATE}: found nothing, wanted a name", group.shown());
        return Err(failure(FailureCode::Other, words));
    }
    Ok(config.image(&group.name, template))
}

/// Image of a machine.
pub fn of_machine(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
    let config = Config::read(host)?;
    let machine = known(host, &config, provider_id)?;
    let group = machine.group()?;
    if group.kind == Kind::Pool {
        let loaded = group.load(host, &config)?;
        return named(&config, &loaded.group, loaded.template());
    }
    if let Some((uid, name)) = machine.owner("MachineSet") {
        let reference = config.reference("MachineSet", machine.namespace(), name);
        let set = objects::get(host, &reference, &fields(&sets::READ, Freshness::Live))?;
        let set = set.filter(|set| text(set, "/metadata/uid") == uid);
        let template = set.as_ref().map_or("", |set| text(set, TEMPLATE));
        if !template.is_empty() {
            return named(&config, &group, template);
        }
    }
    cloned_from(host, &config, &machine, &group)
}

/// The Machine of an id.
///
/// Errors: there is none.
pub fn known(host: &impl Host, config: &Config, provider_id: &str) -> Result<Machine, Failure> {
    machine::by_id(host, config, provider_id)?.ok_or_else(|| {
        let words = format!(
            "no Machine of Cluster {} in {} has the spec.providerID {provider_id}",
            config.cluster,
            config.namespaces.join(", ")
        );
        failure(FailureCode::NotFound, words)
    })
}

/// By what the infrastructure of the Machine says it was made of.
fn cloned_from(
    host: &impl Host,
    config: &Config,
    machine: &Machine,
    group: &Group,
) -> Result<String, Failure> {
    let part = |field: &str| text(machine.value(), &format!("/spec/infrastructureRef/{field}"));
    let api_version = match part("apiVersion") {
        "" => format!("{}/{}", part("apiGroup"), config.infrastructure_version),
        version => version.to_owned(),
    };
    let reference = ObjectRef {
        api_version,
        kind: part("kind").to_owned(),
        namespace: Some(machine.namespace().to_owned()),
        name: part("name").to_owned(),
    };
    let at = format!("/metadata/annotations/{}", token(CLONED_FROM));
    let found = objects::get(host, &reference, &fields(&[&at], Freshness::Live))?;
    let template = found.as_ref().map_or("", |found| text(found, &at));
    if template.is_empty() {
        let words = format!(
            "{}: found no MachineSet of it, and no annotation {CLONED_FROM} on {}, wanted one of them",
            machine.shown(),
            objects::shown(&reference)
        );
        return Err(failure(FailureCode::Other, words));
    }
    named(config, group, template)
}

/// Has new machines of a group get an image.
///
/// The template also says which MachineSets are old, and Cluster API shrinks those: a group that it is still to shrink keeps its template
/// until it has.
pub fn set(host: &impl Host, group_id: &str, image: &str) -> Result<Option<Pending>, Failure> {
    let config = Config::read(host)?;
    let group = Group::parse(group_id)?;
    let template = config.template(&group.name, &image.to_ascii_lowercase());
    if image.is_empty() || !is_name(&template) {
        return Err(invalid(format!(
            "image {:?}: found the template name {:?}, wanted lower-case letters, digits, hyphens and dots",
            image.chars().take(200).collect::<String>(),
            template.chars().take(200).collect::<String>()
        )));
    }
    for _ in 0..TRIES {
        let loaded = group.clone().load(host, &config)?;
        if hold::finish(host, &config, &loaded)? {
            continue;
        }
        if loaded.template().eq_ignore_ascii_case(&template) {
            return Ok(None);
        }
        may_change(&loaded, &template)?;
        exists(host, &config, &loaded, &template)?;
        if !loaded.is_observed() {
            return Ok(Some(Pending {
                token: String::new(),
                retry_after_seconds: UNSEEN,
                message: format!("Cluster API has not seen {} as it is yet", group.shown()),
            }));
        }
        let changes = vec![
            json!({"op": "test", "path": TEMPLATE, "value": loaded.template()}),
            json!({"op": "replace", "path": TEMPLATE, "value": template}),
        ];
        if loaded.patch(host, &config, None, changes)? {
            return Ok(None);
        }
    }
    Err(contended(&group.shown()))
}

/// Whether Cluster API leaves the machines alone that are there.
fn may_change(loaded: &Loaded, template: &str) -> Result<(), Failure> {
    let shown = loaded.group.shown();
    if loaded.group.kind == Kind::Pool {
        return Err(failure(
            FailureCode::Other,
            format!(
                "{shown}, {}: found a reference to {} {}, wanted one to a template; the image of a MachinePool is in that object, in a field of its \
                 cloud, and its cloud replaces all machines at once when that changes, past numo's rules: found no way to give only new \
                 machines {template}",
                TEMPLATE.trim_start_matches('/').replace('/', "."),
                loaded.text("/spec/template/spec/infrastructureRef/kind"),
                loaded.template()
            ),
        ));
    }
    loaded.changeable()?;
    if loaded.is_on_delete() {
        return Ok(());
    }
    let words = format!(
        "{shown}, type of its strategy: found {:?}, wanted \"OnDelete\"; with another Cluster API would replace all machines by itself, \
         past numo's rules, as soon as the template changes",
        loaded.strategy()
    );
    Err(failure(FailureCode::Other, words))
}

/// Whether there is the template. What may not be read is believed.
fn exists(host: &impl Host, config: &Config, loaded: &Loaded, template: &str) -> Result<(), Failure> {
    let reference = infrastructure(config, loaded, template);
    match objects::get(host, &reference, &fields(&["/metadata/name"], Freshness::Live)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            let shown = objects::shown(&reference);
            let words = format!("{shown} does not exist, wanted it for {}", loaded.group.shown());
            Err(failure(FailureCode::NotFound, words))
        }
        Err(failed) if failed.code == FailureCode::Denied => Ok(()),
        Err(failed) => Err(failed),
    }
}
