//! What is begun: every change is an operation, which goes on after the answer.

use super::{
    answers::Answer,
    routes::{Outcome, allow, name, owner, scope},
    state::{Effect, Operation, PREFIX, State},
};
use numo_provider_sdk::serde_json::{Map, Value, json};

/// The API refuses fields that it does not know.
fn known(body: &Value, fields: &[&str]) -> Result<(), Answer> {
    let mut keys = body.as_object().into_iter().flat_map(Map::keys);
    match keys.find(|key| !fields.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let message =
                format!("Invalid JSON payload received. Unknown name \"{key}\": Cannot find field.");
            Err(Answer::error(400, "badRequest", &message))
        }
    }
}

/// Begins an operation.
fn begin(
    state: &mut State,
    scope: &str,
    kind: &str,
    effect: Effect,
    error: Option<(String, String)>,
) -> Value {
    let name = format!("operation-{}-abc", state.operations.len());
    let path = format!("{scope}/operations/{name}");
    let error = error.or_else(|| state.knobs.fail_operation.take());
    let operation = Operation {
        due: state.tick + state.knobs.operation_ticks,
        effect: Some(effect).filter(|_| error.is_none()),
        error,
        kind: kind.to_owned(),
    };
    let value = operation_value(state.tick, &path, &operation);
    state.operations.insert(path, operation);
    value
}

fn operation_value(tick: u64, path: &str, operation: &Operation) -> Value {
    let is_done = operation.due <= tick;
    let mut value = json!({
        "kind": "compute#operation", "id": "1", "name": name(path), "operationType": operation.kind,
        "status": if is_done { "DONE" } else { "RUNNING" }, "progress": if is_done { 100 } else { 0 },
        "selfLink": format!("{PREFIX}{path}"),
    });
    if let Some((code, message)) = operation.error.as_ref().filter(|_| is_done) {
        value["error"] = json!({"errors": [{"code": code, "message": message}]});
        value["httpErrorStatusCode"] = 400.into();
        value["httpErrorMessage"] = "BAD REQUEST".into();
    }
    value
}

pub(super) fn operation(state: &mut State, path: &str, permission: &str) -> Outcome {
    allow(state, path, permission)?;
    let operation = state.operations.get(path).ok_or_else(|| Answer::absent(path))?;
    Ok(operation_value(state.tick, path, operation))
}

fn is_taken(state: &State, group: &str, name: &str) -> bool {
    let is_asked = |operation: &Operation| match &operation.effect {
        Some(Effect::Create(_, names)) => names.iter().any(|asked| asked == name),
        _ => false,
    };
    state.instances.contains_key(&state.instance_path(group, name))
        || state
            .groups
            .get(group)
            .is_some_and(|group| group.members.contains_key(name))
        || state.operations.values().any(is_asked)
}

pub(super) fn create(state: &mut State, path: &str, body: &Value) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.update")?;
    let own = owner(path).to_owned();
    if !state.groups.contains_key(&own) {
        return Err(Answer::absent(&own));
    }
    known(body, &["instances"])?;
    let instances = body
        .get("instances")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let mut names = Vec::new();
    for instance in &instances {
        known(instance, &["name", "preservedState"])?;
        let name = instance.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || name.len() > 63 || name.starts_with('-') || name.ends_with('-') {
            let message = format!("Invalid value for field 'instances[0].name': '{name}'.");
            return Err(Answer::error(400, "invalid", &message));
        }
        names.push(name.to_owned());
    }
    let taken = names.iter().find(|name| is_taken(state, &own, name));
    let error = taken.map(|name| {
        format!(
            "The resource '{}' already exists",
            state.instance_path(&own, name)
        )
    });
    if let Some(message) = error.as_ref().filter(|_| !state.knobs.taken_late) {
        return Err(Answer::error(409, "alreadyExists", message));
    }
    let error = error.map(|message| ("RESOURCE_ALREADY_EXISTS".to_owned(), message));
    let scope = format!("projects/{}/{}", state.project, scope(&own));
    let kind = "compute.instanceGroupManagers.createInstances";
    Ok(begin(state, &scope, kind, Effect::Create(own, names), error))
}

pub(super) fn delete(state: &mut State, path: &str, body: &Value) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.update")?;
    let own = owner(path).to_owned();
    known(body, &["instances", "skipInstancesOnValidationError"])?;
    let group = state.groups.get(&own).ok_or_else(|| Answer::absent(&own))?;
    let skips = body
        .get("skipInstancesOnValidationError")
        .and_then(Value::as_bool)
        == Some(true);
    let instances = body
        .get("instances")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let (mut names, mut wrong) = (Vec::new(), None);
    for url in instances.iter().filter_map(Value::as_str) {
        if !url.contains(&format!("{}/instances/", scope(&own))) {
            let message = format!("Invalid value for field 'instances[0]': '{url}'.");
            return Err(Answer::error(400, "invalid", &message));
        }
        match group.members.get(name(url)) {
            Some(member) if member.action != "DELETING" => names.push(name(url).to_owned()),
            _ => wrong = Some(url.to_owned()),
        }
    }
    let error = wrong.filter(|_| !skips).map(|url| {
        let message = format!("Instance {url} is not a member of the group or is being deleted");
        ("INVALID_USAGE".to_owned(), message)
    });
    let scope = format!("projects/{}/{}", state.project, scope(&own));
    let kind = "compute.instanceGroupManagers.deleteInstances";
    Ok(begin(state, &scope, kind, Effect::Delete(own, names), error))
}

pub(super) fn set(state: &mut State, path: &str, body: &Value) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.update")?;
    allow(state, path, "compute.instanceTemplates.useReadOnly")?;
    let own = owner(path).to_owned();
    known(body, &["instanceTemplate"])?;
    if !state.groups.contains_key(&own) {
        return Err(Answer::absent(&own));
    }
    let url = body
        .get("instanceTemplate")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let template = url.trim_start_matches(PREFIX).to_owned();
    if !state.templates.contains_key(&template) {
        return Err(Answer::absent(&template));
    }
    let scope = format!("projects/{}/{}", state.project, scope(&own));
    let kind = "compute.instanceGroupManagers.setInstanceTemplate";
    Ok(begin(
        state,
        &scope,
        kind,
        Effect::SetTemplate(own, template),
        None,
    ))
}

/// The cloud takes a template of an image that does not exist; no machine of it comes up.
pub(super) fn insert(state: &mut State, path: &str, body: &Value) -> Outcome {
    allow(state, path, "compute.instanceTemplates.create")?;
    known(body, &["name", "description", "properties"])?;
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    let own = format!("{path}/{name}");
    let is_asked = |operation: &Operation| matches!(&operation.effect, Some(Effect::Template(asked, _)) if *asked == own);
    if name.is_empty() || name.len() > 63 {
        return Err(Answer::error(
            400,
            "invalid",
            "Invalid value for field 'resource.name'",
        ));
    }
    if state.templates.contains_key(&own) || state.operations.values().any(is_asked) {
        return Err(Answer::error(
            409,
            "alreadyExists",
            &format!("The resource '{own}' already exists"),
        ));
    }
    let mut template = body.clone();
    template["kind"] = "compute#instanceTemplate".into();
    template["id"] = state.tick.to_string().into();
    template["selfLink"] = format!("{PREFIX}{own}").into();
    if let Some(image) = template.pointer_mut("/properties/disks/0/initializeParams/sourceImage")
        && let Some(text) = image.as_str().filter(|text| !text.starts_with("https:"))
    {
        // The cloud writes full URLs.
        *image = format!("{PREFIX}{text}").into();
    }
    let scope = owner(path).to_owned();
    Ok(begin(
        state,
        &scope,
        "insert",
        Effect::Template(own, template),
        None,
    ))
}
