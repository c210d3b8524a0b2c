//! Managed instance groups: the group itself, and its members, which are there before and after their instances are. Reads only.

use crate::{
    answer::{Refusal, errors, odd, text},
    api::{Api, List},
    ids::{self, GroupId, InstanceId},
};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::failure,
    host::{Host, Method},
    serde_json::Value,
};

/// Items of a page.
const PAGE: u32 = 500;
/// What is wanted of members.
const MEMBER_FIELDS: &str = "managedInstances(instance,currentAction,lastAttempt),nextPageToken";
/// What is wanted of the groups of a zone.
const GROUP_FIELDS: &str = "items(name,currentActions),nextPageToken,warning";
/// Actions by which a group has no instance yet, as its counts name them.
const MAKING: [&str; 3] = ["creating", "creatingWithoutRetries", "recreating"];

/// A member of a group, as the group has it.
#[derive(Clone, Debug)]
pub struct Member {
    /// The group.
    pub group: GroupId,
    /// What the group does with it.
    action: String,
    /// Why the last attempt failed.
    problem: Option<Refusal>,
}

impl Member {
    /// Whether it will be there, and not go.
    pub fn is_made(&self) -> bool {
        !matches!(self.action.as_str(), "DELETING" | "ABANDONING")
    }

    /// What the group does with it.
    pub fn action(&self) -> &str {
        &self.action
    }

    /// Why the last attempt to make it failed. The group goes on trying.
    pub fn problem(&self) -> Option<&Refusal> {
        self.problem.as_ref()
    }
}

/// The group.
pub fn required<H: Host>(api: &Api<'_, H>, group: &GroupId) -> Result<Value, Failure> {
    Ok(api.get(&group.path())?)
}

/// The URL of the template that new machines of a group are made of.
pub fn template(group: &GroupId, found: &Value) -> Result<String, Failure> {
    let versions = found.get("versions").and_then(Value::as_array);
    let versions = versions.map(Vec::as_slice).unwrap_or_default();
    let mut urls: Vec<&str> = versions
        .iter()
        .map(|version| text(version, "instanceTemplate"))
        .filter(|url| !url.is_empty())
        .collect();
    urls.dedup_by(|one, other| ids::path_of(one) == ids::path_of(other));
    let url = match urls.as_slice() {
        [] => text(found, "instanceTemplate"),
        [one] => one,
        several => {
            let message = format!(
                "{}, versions: found {} templates, wanted one: a canary update is under way",
                group.path(),
                several.len()
            );
            return Err(failure(FailureCode::Other, message));
        }
    };
    ids::resource(url, "instanceTemplates").ok_or_else(|| {
        let found = format!("the template {}", ids::shown(url));
        odd(&group.path(), &found)
    })
}

/// A template of a group, whichever: all of them have the labels of the cluster.
pub fn any_template(found: &Value) -> Option<String> {
    let versions = found.get("versions").and_then(Value::as_array);
    let first = versions.and_then(|versions| versions.first());
    let urls = [Some(found), first].into_iter().flatten();
    let mut paths = urls.map(|value| ids::resource(text(value, "instanceTemplate"), "instanceTemplates"));
    paths.find_map(|path| path)
}

/// A member by the name of its instance.
pub fn member<H: Host>(api: &Api<'_, H>, group: &GroupId, name: &str) -> Result<Option<Member>, Failure> {
    let path = format!("{}/listManagedInstances", group.path());
    let list = List {
        path: &path,
        method: Method::Post,
        fields: MEMBER_FIELDS,
        page: PAGE,
    };
    let mut found = None;
    api.pages(list, |page| {
        let members = page.get("managedInstances").and_then(Value::as_array);
        let mut members = members.into_iter().flatten();
        let one = members.find(|member| ids::last(text(member, "instance")).eq_ignore_ascii_case(name));
        if let Some(member) = one {
            let what = format!("instance {name} of {}", group.path());
            let attempt = member.pointer("/lastAttempt/errors");
            found = Some(Member {
                group: group.clone(),
                action: text(member, "currentAction").to_owned(),
                problem: errors(&what, attempt, None),
            });
        }
        Ok(())
    })?;
    Ok(found)
}

/// The member that is no instance, if a group of the zone is making it: it would come up after everybody has forgotten it. Groups that make
/// nothing are not asked.
pub fn promised<H: Host>(api: &Api<'_, H>, id: &InstanceId) -> Result<Option<Member>, Failure> {
    let path = format!("projects/{}/zones/{}/instanceGroupManagers", id.project, id.zone);
    let list = List {
        path: &path,
        method: Method::Get,
        fields: GROUP_FIELDS,
        page: PAGE,
    };
    let mut making = Vec::new();
    api.pages(list, |page| {
        let groups = page.get("items").and_then(Value::as_array);
        for group in groups.into_iter().flatten() {
            let name = text(group, "name");
            let count = |action: &&str| group.get("currentActions")?.get(action)?.as_u64();
            if ids::is_name(name) && MAKING.iter().filter_map(count).any(|count| count > 0) {
                making.push(name.to_owned());
            }
        }
        Ok(())
    })?;
    for name in making {
        let group = GroupId {
            project: id.project.clone(),
            zone: id.zone.clone(),
            name,
        };
        if let Some(found) = member(api, &group, &id.name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
