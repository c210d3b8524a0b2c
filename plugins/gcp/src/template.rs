//! The image of a group: that of its instance template. A template cannot be changed, so setting an image makes the next one, like the old in
//! all but the image, and has the group use it. Templates are never deleted, and groups that would replace machines by themselves are refused.

use crate::{
    answer::{Kind, odd, text},
    api::Api,
    group,
    ids::{self, GroupId},
    instance::boot_disk,
    names,
    operation::{self, Progress, Token},
};
use numo_provider_sdk::{
    Failure, FailureCode, Pending,
    failure::failure,
    host::Host,
    serde_json::{Value, json},
};

/// Seconds until an operation is asked about.
const PAUSE: u32 = 5;
/// Names that are tried in one call for the next template.
const MOST_NAMES: usize = 20;

/// Image that new machines of the group get.
pub fn image<H: Host>(api: &Api<'_, H>, group: &GroupId) -> Result<String, Failure> {
    let path = group::template(group, &group::required(api, group)?)?;
    image_of(&path, &api.get(&path)?)
}

/// Sets it, step by step: none when done.
pub fn set_image<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    image: &str,
    token: Option<&str>,
) -> Result<Option<Pending>, Failure> {
    if let Some(token) = Token::read(token, image, &group.project) {
        match operation::ask(api, &token.operation)? {
            Progress::Running => return Ok(Some(waiting(&token, group))),
            // A name that is taken by now is looked at again below.
            Progress::Failed(refusal) if refusal.kind != Kind::Taken => return Err(refusal.into()),
            Progress::Failed(_) | Progress::Done => {}
        }
    }
    let found = group::required(api, group)?;
    let path = group::template(group, &found)?;
    let template = api.get(&path)?;
    if image_of(&path, &template)?.eq_ignore_ascii_case(image) {
        return Ok(None);
    }
    refuse_proactive(group, &found)?;
    next(api, group, image, &path, &template)
}

/// The next template is made, or one that was made before is taken, and the group is set to it.
fn next<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    image: &str,
    path: &str,
    template: &Value,
) -> Result<Option<Pending>, Failure> {
    let (list, _) = path
        .rsplit_once('/')
        .ok_or_else(|| odd(path, "no path of a template"))?;
    let body = cloned(path, template, image)?;
    for name in names::next_templates(ids::last(path)).take(MOST_NAMES) {
        let own = format!("{list}/{name}");
        let Some(there) = api.find(&own)? else {
            usable(api, image)?;
            return match insert(api, group, list, &name, &body, image)? {
                None => set(api, group, image, &own),
                waiting => Ok(waiting),
            };
        };
        if is_same(&own, &there, &body, image) {
            return set(api, group, image, &own);
        }
    }
    Err(failure(
        FailureCode::Other,
        format!("{path}: found {MOST_NAMES} templates of other images that follow it, wanted a free name"),
    ))
}

/// Has a template made: none if it is there.
fn insert<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    list: &str,
    name: &str,
    body: &Value,
    image: &str,
) -> Result<Option<Pending>, Failure> {
    let mut body = body.clone();
    if let Some(body) = body.as_object_mut() {
        body.insert("name".to_owned(), name.into());
    }
    let refusal = match api.post(list, &body) {
        Ok(begun) => match operation::progress(list, &begun) {
            Progress::Done => return Ok(None),
            Progress::Running => {
                let scope = list.strip_suffix("/instanceTemplates").unwrap_or(list);
                let token = token(image, format!("{list}/{name}"), operation::path(scope, &begun)?);
                return Ok(Some(waiting(&token, group)));
            }
            Progress::Failed(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    // An earlier call was faster, and its template is not seen yet. The next call finds it.
    if refusal.kind == Kind::Taken {
        return Ok(Some(Pending {
            token: String::new(),
            retry_after_seconds: PAUSE,
            message: refusal.failure.message,
        }));
    }
    Err(refusal.into())
}

/// Has the group use a template.
fn set<H: Host>(
    api: &Api<'_, H>,
    group: &GroupId,
    image: &str,
    template: &str,
) -> Result<Option<Pending>, Failure> {
    let url = format!("https://www.googleapis.com/compute/v1/{template}");
    let path = format!("{}/setInstanceTemplate", group.path());
    let begun = api.post(&path, &json!({"instanceTemplate": url}))?;
    match operation::progress(&path, &begun) {
        Progress::Done => Ok(None),
        Progress::Failed(refusal) => Err(refusal.into()),
        Progress::Running => {
            let scope = format!("projects/{}/zones/{}", group.project, group.zone);
            let operation = operation::path(&scope, &begun)?;
            Ok(Some(waiting(
                &token(image, template.to_owned(), operation),
                group,
            )))
        }
    }
}

/// The image is there and machines can be made of it: the cloud takes a template of one that is not, and no machine of it ever comes up.
fn usable<H: Host>(api: &Api<'_, H>, image: &str) -> Result<(), Failure> {
    let found = api.get(image)?;
    let status = text(&found, "status");
    if status != "READY" {
        let message = format!("{image}, status: found {}, wanted READY", ids::shown(status));
        return Err(failure(FailureCode::Unavailable, message));
    }
    let state = found.pointer("/deprecated/state").and_then(Value::as_str);
    match state {
        Some(state @ ("OBSOLETE" | "DELETED")) => Err(failure(
            FailureCode::NotFound,
            format!("{image}, deprecated.state: found {state}, wanted an image that machines can be made of"),
        )),
        _ => Ok(()),
    }
}

/// A group that replaces its machines as soon as its template changes would do so without rules, budgets and drain.
fn refuse_proactive(group: &GroupId, found: &Value) -> Result<(), Failure> {
    let policy = found.pointer("/updatePolicy/type").and_then(Value::as_str);
    if policy == Some("PROACTIVE") {
        return Err(failure(
            FailureCode::Other,
            format!(
                "{}, updatePolicy.type: found PROACTIVE, wanted OPPORTUNISTIC: with a new template the cloud would replace all machines \
                 of the group by itself, without drain",
                group.path()
            ),
        ));
    }
    Ok(())
}

/// Image of a template's boot disk.
fn image_of(path: &str, template: &Value) -> Result<String, Failure> {
    let disk = template.get("properties").and_then(boot_disk);
    let image = disk.and_then(|disk| disk.pointer("/initializeParams/sourceImage"));
    let image = ids::path_of(image.and_then(Value::as_str).unwrap_or_default());
    if image.is_empty() {
        return Err(failure(
            FailureCode::Other,
            format!("{path}, boot disk, initializeParams.sourceImage: found nothing, wanted an image"),
        ));
    }
    Ok(image.to_owned())
}

/// A template that is like another but for its image, without a name. Its description says what it was made from, and is how it is known again.
fn cloned(path: &str, template: &Value, image: &str) -> Result<Value, Failure> {
    let mut properties = template.get("properties").cloned().unwrap_or_default();
    let boots = |disk: &Value| disk.get("boot").and_then(Value::as_bool) == Some(true);
    let disks = properties.get_mut("disks").and_then(Value::as_array_mut);
    let disk = disks.and_then(|disks| {
        let boot = disks.iter().position(boots).unwrap_or_default();
        disks.get_mut(boot)
    });
    let source = disk.and_then(|disk| disk.pointer_mut("/initializeParams/sourceImage"));
    let source = source.ok_or_else(|| odd(path, "no image of a boot disk"))?;
    *source = image.into();
    let from = ids::last(path);
    let id = text(template, "id");
    Ok(json!({
        "description": format!("Made by numo from {from} ({id}) for {image}"),
        "properties": properties,
    }))
}

/// Whether a template is the one that was to be made.
fn is_same(path: &str, there: &Value, body: &Value, image: &str) -> bool {
    let has_image = image_of(path, there).is_ok_and(|found| found.eq_ignore_ascii_case(image));
    has_image && text(there, "description") == text(body, "description")
}

fn token(image: &str, thing: String, operation: String) -> Token {
    Token {
        purpose: image.to_owned(),
        thing,
        operation,
        unseen: 0,
    }
}

fn waiting(token: &Token, group: &GroupId) -> Pending {
    let template = ids::last(&token.thing);
    token.pending(
        PAUSE,
        format!("{} is being set to instance template {template}", group.path()),
    )
}
