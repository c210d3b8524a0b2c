//! The groups of a cluster: managed instance groups whose instance template has the labels of the cluster. Reads only. A list that may be
//! incomplete is a failure, since a group that is missing from it would be forgotten.

use crate::{
    answer::{odd, text},
    api::{Api, List},
    config::Discovery,
    group,
    ids::{GroupId, shown},
};
use numo_provider_sdk::{
    Failure, NodeRole, ScalingGroup,
    failure::invalid,
    host::{Host, Method},
    serde_json::Value,
};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of a page: each is a kilobyte or two.
const GROUP_PAGE: u32 = 100;
/// Templates of a page, of which little is asked for.
const TEMPLATE_PAGE: u32 = 500;
/// What is wanted of templates in a list.
const TEMPLATE_FIELDS: &str = "items(name,properties/labels),nextPageToken,warning";

/// All groups of the cluster with this uid, in the order of their ids.
pub fn groups<H: Host>(
    api: &Api<'_, H>,
    config: &Discovery,
    uid: &str,
) -> Result<Vec<ScalingGroup>, Failure> {
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if uid.is_empty() || uid.len() > 63 || !uid.bytes().all(is_label) {
        return Err(invalid(format!(
            "uid of the cluster: found {}, wanted the value of a label, 1 to 63 letters, digits, hyphens and underscores",
            shown(uid)
        )));
    }
    let (zonal, regional) = managers(api, config)?;
    let mut labels = global_labels(api, config)?;
    let mut found = Vec::new();
    for (id, template) in &zonal {
        if !labels.contains_key(template) {
            let own = own_labels(api, template)?;
            labels.insert(template.clone(), own);
        }
        let group = labels
            .get(template)
            .and_then(|labels| of_labels(api, config, uid, id, labels));
        found.extend(group);
    }
    for (path, template) in &regional {
        if labels
            .get(template)
            .is_some_and(|labels| is_of(config, uid, labels))
        {
            api.warn(&format!(
                "{path}: found a regional managed instance group of the cluster, wanted zonal ones: it is left out, and its nodes are not \
                 replaced"
            ));
        }
    }
    Ok(distinct(found))
}

/// Labels of a template.
pub type Labels = BTreeMap<String, String>;

/// The project's managed instance groups and the paths of their templates: those of zones, and those of regions.
type Managers = (BTreeMap<GroupId, String>, BTreeMap<String, String>);

fn managers<H: Host>(api: &Api<'_, H>, config: &Discovery) -> Result<Managers, Failure> {
    let path = format!("projects/{}/aggregated/instanceGroupManagers", config.project);
    let list = List {
        path: &path,
        method: Method::Get,
        fields: "",
        page: GROUP_PAGE,
    };
    let (mut zonal, mut regional) = (BTreeMap::new(), BTreeMap::new());
    api.pages(list, |page| {
        let scopes = page.get("items").and_then(Value::as_object);
        for (scope, found) in scopes.into_iter().flatten() {
            let items = found.get("instanceGroupManagers").and_then(Value::as_array);
            for item in items.into_iter().flatten() {
                let name = text(item, "name");
                let own = format!("projects/{}/{scope}/instanceGroupManagers/{name}", config.project);
                let Some(template) = group::any_template(item) else {
                    return Err(odd(&own, "no template"));
                };
                if scope.starts_with("regions/") {
                    regional.insert(own, template);
                } else {
                    let id = GroupId::parse(&own).map_err(|problem| odd(&path, &problem.message))?;
                    zonal.insert(id, template);
                }
            }
        }
        Ok(())
    })?;
    Ok((zonal, regional))
}

/// Labels of all templates of the project that are of no region, by their paths.
fn global_labels<H: Host>(api: &Api<'_, H>, config: &Discovery) -> Result<BTreeMap<String, Labels>, Failure> {
    let path = format!("projects/{}/global/instanceTemplates", config.project);
    let list = List {
        path: &path,
        method: Method::Get,
        fields: TEMPLATE_FIELDS,
        page: TEMPLATE_PAGE,
    };
    let mut found = BTreeMap::new();
    api.pages(list, |page| {
        let items = page.get("items").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            found.insert(format!("{path}/{}", text(item, "name")), labels_of(item));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Labels of a template, asked for by its path: one of a region, or one that was made meanwhile.
pub fn own_labels<H: Host>(api: &Api<'_, H>, template: &str) -> Result<Labels, Failure> {
    let found = api.get_fields(template, "name,properties/labels")?;
    Ok(labels_of(&found))
}

fn labels_of(template: &Value) -> Labels {
    let labels = template.pointer("/properties/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn is_of(config: &Discovery, uid: &str, labels: &Labels) -> bool {
    labels
        .get(&config.uid_label)
        .is_some_and(|found| found.eq_ignore_ascii_case(uid))
}

/// The group, if its labels are those of the cluster. One without a role is none for nodes.
fn of_labels<H: Host>(
    api: &Api<'_, H>,
    config: &Discovery,
    uid: &str,
    id: &GroupId,
    labels: &Labels,
) -> Option<ScalingGroup> {
    if !is_of(config, uid, labels) {
        return None;
    }
    let said = labels
        .get(&config.role_label)
        .map(String::as_str)
        .unwrap_or_default();
    let role = match said {
        "control-plane" | "controlplane" | "control_plane" => NodeRole::ControlPlane,
        "worker" => NodeRole::Worker,
        _ => {
            api.warn(&format!(
                "{}, label {} of its template: found {}, wanted control-plane or worker: the group is left out",
                id.path(),
                config.role_label,
                shown(said)
            ));
            return None;
        }
    };
    Some(ScalingGroup {
        name: id.name.clone(),
        node_group_name: labels.get(&config.node_group_label).cloned().unwrap_or_default(),
        group_id: id.path(),
        autoscaling_group_name: id.autoscaler_url(),
        role,
        attributes: Vec::new(),
    })
}

/// Groups of several zones may have one name, and objects of the cluster may not: those have their zone behind it.
fn distinct(mut groups: Vec<ScalingGroup>) -> Vec<ScalingGroup> {
    let mut seen = BTreeSet::new();
    let names = groups.iter().map(|group| group.name.clone());
    let twice: BTreeSet<String> = names.filter(|name| !seen.insert(name.clone())).collect();
    for group in groups.iter_mut().filter(|group| twice.contains(&group.name)) {
        if let Ok(id) = GroupId::parse(&group.group_id) {
            group.name = format!("{}-{}", id.name, id.zone);
        }
    }
    groups
}
