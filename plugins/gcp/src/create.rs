//! Makes the machine of a request, or finds it. The machine's name says which request it is of, and a name is given once in a zone: asked as
//! often as anybody likes, there is one machine at most.

use crate::{
    answer::{Kind, text},
    api::Api,
    group::{self, Member},
    ids::{GroupId, InstanceId},
    instance, names,
    operation::{self, Progress, Token},
};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, Pending,
    failure::failure,
    host::Host,
    serde_json::{Value, json},
};

/// Seconds until a machine that was just asked for is looked for.
const SOON: u32 = 5;
/// Seconds between looks at what takes its time.
const LATER: u32 = 10;
/// How often a machine may be unseen though the operation has ended, until it is asked for again.
const MOST_UNSEEN: u64 = 6;

/// Makes the machine of a request, or goes on with what was begun.
pub fn create<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    request: &str,
    token: Option<&str>,
) -> Result<Creation, Failure> {
    let token = Token::read(token, request, &group.project);
    match token.filter(|token| token.unseen < MOST_UNSEEN && crate::ids::is_name(&token.thing)) {
        Some(token) => go_on(api, group, token),
        None => begin(api, group, request),
    }
}

/// The machine of a request, if there is one or the group is making it.
pub fn find<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    request: &str,
) -> Result<Option<CreatedNode>, Failure> {
    let id = machine_of(&group::required(api, group)?, group, request);
    if let Some(found) = api.find(&id.path())? {
        return made(group, &id, &found).map(Some);
    }
    let member = group::member(api, group, &id.name)?;
    Ok(member.filter(Member::is_made).map(|_| node(&id)))
}

/// Looks for the machine first, and has it made if it is not there.
fn begin<H: Host>(api: &Api<'_, H>, group: &GroupId, request: &str) -> Result<Creation, Failure> {
    let id = machine_of(&group::required(api, group)?, group, request);
    if let Some(found) = api.find(&id.path())? {
        return made(group, &id, &found).map(Creation::Created);
    }
    let path = format!("{}/createInstances", group.path());
    let body = json!({"instances": [{"name": id.name}]});
    let refusal = match api.post(&path, &body) {
        Ok(operation) => match operation::progress(&path, &operation) {
            Progress::Failed(refusal) => refusal,
            Progress::Running | Progress::Done => {
                let token = Token {
                    purpose: request.to_owned(),
                    thing: id.name.clone(),
                    operation: operation::path(&scope(group), &operation)?,
                    unseen: 0,
                };
                return Ok(Creation::Pending(waiting(&token, SOON, group)));
            }
        },
        Err(refusal) => refusal,
    };
    // It may be refused because an earlier call has asked for it.
    if matches!(refusal.kind, Kind::Taken | Kind::Refused)
        && let Some(member) = group::member(api, group, &id.name)?
    {
        let token = Token {
            purpose: request.to_owned(),
            thing: id.name.clone(),
            operation: format!("{}/operations/none", scope(group)),
            unseen: 0,
        };
        return standing(&member, &token);
    }
    Err(refusal.into())
}

/// Looks for the machine that was asked for, and if it is not there yet for what holds it up.
fn go_on<H: Host>(api: &Api<'_, H>, group: &GroupId, token: Token) -> Result<Creation, Failure> {
    let id = group.instance(&token.thing);
    if let Some(found) = api.find(&id.path())? {
        return made(group, &id, &found).map(Creation::Created);
    }
    let failed = match operation::ask(api, &token.operation)? {
        Progress::Running => return Ok(Creation::Pending(waiting(&token, LATER, group))),
        Progress::Done => None,
        Progress::Failed(refusal) if refusal.kind == Kind::Taken => Some(refusal),
        Progress::Failed(refusal) => return Err(refusal.into()),
    };
    if let Some(member) = group::member(api, group, &id.name)? {
        return standing(&member, &token);
    }
    if let Some(refusal) = failed {
        return Err(refusal.into());
    }
    let unseen = Token {
        unseen: token.unseen + 1,
        ..token
    };
    Ok(Creation::Pending(waiting(&unseen, LATER, group)))
}

/// What a member that is no instance yet stands for. The group goes on trying whatever fails, so nothing is taken back here: once there is
/// quota, the machine comes up, and is found by its name.
fn standing(member: &Member, token: &Token) -> Result<Creation, Failure> {
    if !member.is_made() {
        return Err(failure(
            FailureCode::Unavailable,
            format!(
                "instance {} of {}: found it {}, wanted it made: the group is taking it away",
                token.thing,
                member.group.path(),
                crate::ids::shown(member.action())
            ),
        ));
    }
    match member.problem() {
        Some(refusal) => Err(refusal.failure.clone()),
        None => Ok(Creation::Pending(waiting(token, LATER, &member.group))),
    }
}

fn waiting(token: &Token, seconds: u32, group: &GroupId) -> Pending {
    let message = format!("instance {} of {} is being made", token.thing, group.path());
    token.pending(seconds, message)
}

fn machine_of(found: &Value, group: &GroupId, request: &str) -> InstanceId {
    let base = text(found, "baseInstanceName");
    let base = if base.is_empty() { &group.name } else { base };
    group.instance(&names::machine(base, request))
}

/// The machine is the group's own, and not a namesake.
fn made(group: &GroupId, id: &InstanceId, found: &Value) -> Result<CreatedNode, Failure> {
    let own = instance::group(id, found)?;
    if own == *group {
        return Ok(node(id));
    }
    Err(failure(
        FailureCode::Other,
        format!(
            "instance {}: found it in group {}, wanted {}: the name of the request's machine is taken",
            id.path(),
            own.path(),
            group.path()
        ),
    ))
}

fn node(id: &InstanceId) -> CreatedNode {
    CreatedNode {
        node_name: id.name.clone(),
        provider_id: id.provider_id(),
        attributes: Vec::new(),
    }
}

fn scope(group: &GroupId) -> String {
    format!("projects/{}/zones/{}", group.project, group.zone)
}
