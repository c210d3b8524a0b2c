//! What the API answers: who may ask, what is there, what is begun.

use super::{
    answers::{Answer, Query, page, parts},
    state::{Call, Group, PREFIX, State},
    writes::{create, delete, insert, operation, set},
};
use axum::{
    body::{Body, Bytes},
    extract,
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use numo_provider_sdk::serde_json::{self, Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) type Outcome = Result<Value, Answer>;

/// Answers one request.
pub(super) async fn serve(
    extract::State(state): extract::State<Arc<Mutex<State>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (latency, slow) = {
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.knobs.latency, state.knobs.slow)
    };
    if !latency.is_zero() && uri.path().ends_with(slow) {
        tokio::time::sleep(latency).await;
    }
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.pass();
    let path = uri.path().trim_start_matches('/').to_owned();
    let path = path.trim_start_matches("compute/v1/").to_owned();
    state.log.push(Call {
        method: method.to_string(),
        path: path.clone(),
        permissions: Vec::new(),
        status: 0,
    });
    let query = Query::read(uri.query().unwrap_or_default());
    let answer = match answer(&mut state, &method, &path, &query, &headers, &body) {
        Ok(value) => match query.get("fields") {
            None => Answer::of(&value),
            Some(fields) => match parts(&value, fields) {
                Some(value) => Answer::of(&value),
                None => Answer::error(
                    400,
                    "invalidParameter",
                    &format!("Invalid field selection {fields}"),
                ),
            },
        },
        Err(answer) => answer,
    };
    state.go_on();
    if let Some(call) = state.log.last_mut() {
        call.status = answer.status;
    }
    let mut response = Response::builder()
        .status(answer.status)
        .header("content-type", "application/json; charset=UTF-8");
    if let Some(seconds) = answer.retry_after {
        response = response.header("retry-after", seconds.to_string());
    }
    response.body(Body::from(answer.body)).unwrap_or_default()
}

fn answer(
    state: &mut State,
    method: &Method,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
    body: &[u8],
) -> Outcome {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let host = header("x-forwarded-host");
    if !host.is_empty() && host != "compute.googleapis.com" {
        return Err(Answer {
            status: 404,
            retry_after: None,
            body: b"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>".to_vec(),
        });
    }
    admit(
        state.knobs.token.as_deref(),
        header("authorization"),
        header("x-authorization"),
    )?;
    if let Some(answer) = odd(state, path) {
        return Err(answer);
    }
    let segments: Vec<&str> = path.split('/').collect();
    if let (&Method::GET, ["projects", _, "global", "images", _]) = (method, segments.as_slice()) {
        allow(state, path, "compute.images.get")?;
        return image(state, path);
    }
    let ["projects", project, rest @ ..] = segments.as_slice() else {
        return Err(Answer::error(404, "notFound", "Not Found"));
    };
    if *project != state.project {
        return Err(Answer::absent(&format!("projects/{project}")));
    }
    if let ["zones", zone, ..] = rest
        && !state.zones.contains(*zone)
    {
        return Err(Answer::absent(&format!("projects/{project}/zones/{zone}")));
    }
    let body = if body.is_empty() {
        Ok(Value::Null)
    } else {
        serde_json::from_slice(body)
    };
    let body = body.map_err(|_| Answer::error(400, "parseError", "Parse Error"))?;
    route(state, method, (path, rest), query, &body)
}

/// Whether a request is signed: by a real access token, or natively by the name of a credential.
fn admit(token: Option<&str>, authorization: &str, named: &str) -> Result<(), Answer> {
    let bearer = authorization.strip_prefix("Bearer ");
    let is_named = named.starts_with("bearer ") && token.is_none();
    if bearer.is_none() && !is_named {
        let message = "Request is missing required authentication credential. Expected OAuth 2 access token.";
        return Err(Answer::error(401, "required", message));
    }
    if token.is_some() && bearer != token {
        let message = "Request had invalid authentication credentials. Expected OAuth 2 access token.";
        return Err(Answer::error(401, "authError", message));
    }
    Ok(())
}

/// What is asked of the project.
fn route(
    state: &mut State,
    method: &Method,
    (path, rest): (&str, &[&str]),
    query: &Query,
    body: &Value,
) -> Outcome {
    match (method.as_str(), rest) {
        ("GET", ["zones", _, "instances", _]) => instance(state, path),
        ("GET", ["zones", _, "disks", _]) => disk(state, path),
        ("GET", ["zones", _, "instanceGroupManagers"]) => groups(state, path, query),
        ("GET", ["zones", _, "instanceGroupManagers", _]) => group(state, path),
        ("GET", ["aggregated", "instanceGroupManagers"]) => aggregated(state, path, query),
        ("POST", ["zones", _, "instanceGroupManagers", _, "listManagedInstances"]) => {
            members(state, path, query)
        }
        ("POST", ["zones", _, "instanceGroupManagers", _, "createInstances"]) => create(state, path, body),
        ("POST", ["zones", _, "instanceGroupManagers", _, "deleteInstances"]) => delete(state, path, body),
        ("POST", ["zones", _, "instanceGroupManagers", _, "setInstanceTemplate"]) => set(state, path, body),
        ("GET", ["global", "instanceTemplates"]) => templates(state, path, query),
        ("POST", ["global", "instanceTemplates"] | ["regions", _, "instanceTemplates"]) => {
            insert(state, path, body)
        }
        ("GET", ["global", "instanceTemplates", _] | ["regions", _, "instanceTemplates", _]) => {
            allow(state, path, "compute.instanceTemplates.get")?;
            state
                .templates
                .get(path)
                .cloned()
                .ok_or_else(|| Answer::absent(path))
        }
        ("GET", ["zones", _, "operations", _]) => operation(state, path, "compute.zoneOperations.get"),
        ("GET", ["global", "operations", _]) => operation(state, path, "compute.globalOperations.get"),
        ("GET", ["regions", _, "operations", _]) => operation(state, path, "compute.regionOperations.get"),
        _ => Err(Answer::error(404, "notFound", "Not Found")),
    }
}

/// What a test has set up to go wrong.
fn odd(state: &mut State, path: &str) -> Option<Answer> {
    let knobs = &mut state.knobs;
    if knobs.throttle.0 > 0 {
        knobs.throttle.0 -= 1;
        let message = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'";
        return Some(Answer {
            retry_after: Some(knobs.throttle.1),
            ..Answer::error(429, "rateLimitExceeded", message)
        });
    }
    let at = knobs
        .canned
        .iter()
        .position(|(text, _, _)| path.contains(text.as_str()))?;
    let (_, status, body) = knobs.canned.remove(at)?;
    Some(Answer {
        status,
        retry_after: None,
        body,
    })
}

/// Whether the caller has a permission.
pub(super) fn allow(state: &mut State, path: &str, permission: &str) -> Result<(), Answer> {
    if let Some(call) = state.log.last_mut() {
        call.permissions.push(permission.to_owned());
    }
    if state.knobs.denied.contains(permission) {
        let message = format!("Required '{permission}' permission for '{path}'");
        return Err(Answer::error(403, "forbidden", &message));
    }
    Ok(())
}

fn image(state: &State, path: &str) -> Outcome {
    let image = state.images.get(path).ok_or_else(|| Answer::absent(path))?;
    let mut value =
        json!({"kind": "compute#image", "name": name(path), "status": image.status, "diskSizeGb": "10"});
    if let Some(deprecated) = &image.deprecated {
        value["deprecated"] = json!({"state": deprecated});
    }
    Ok(value)
}

fn instance(state: &mut State, path: &str) -> Outcome {
    allow(state, path, "compute.instances.get")?;
    let instance = state
        .instances
        .get(path)
        .filter(|instance| instance.seen <= state.tick);
    let instance = instance.ok_or_else(|| Answer::absent(path))?;
    let items: Vec<Value> = instance
        .metadata
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    Ok(json!({
        "kind": "compute#instance", "name": name(path), "status": instance.status,
        "zone": path.split("/instances/").next().map(|zone| format!("{PREFIX}{zone}")),
        "disks": [{"index": 0, "boot": true, "source": format!("{PREFIX}{}", path.replace("/instances/", "/disks/"))}],
        "metadata": {"fingerprint": "abc=", "items": items},
        "labels": instance.labels,
        "selfLink": format!("{PREFIX}{path}"),
    }))
}

fn disk(state: &mut State, path: &str) -> Outcome {
    allow(state, path, "compute.disks.get")?;
    let image = state.disks.get(path).ok_or_else(|| Answer::absent(path))?;
    Ok(json!({"kind": "compute#disk", "name": name(path), "sourceImage": image, "sizeGb": "30"}))
}

fn group_value(path: &str, group: &Group) -> Value {
    let count = |action: &str| {
        group
            .members
            .values()
            .filter(|member| member.action == action)
            .count()
    };
    let versions = if group.versions.is_empty() {
        std::slice::from_ref(&group.template)
    } else {
        &group.versions
    };
    let versions: Vec<Value> = versions
        .iter()
        .map(|template| json!({"instanceTemplate": format!("{PREFIX}{template}")}))
        .collect();
    json!({
        "kind": "compute#instanceGroupManager", "name": name(path), "baseInstanceName": group.base, "targetSize": group.target,
        "instanceTemplate": format!("{PREFIX}{}", group.template), "versions": versions,
        "instanceGroup": format!("{PREFIX}{}", path.replace("instanceGroupManagers", "instanceGroups")),
        "currentActions": {"none": count("NONE"), "creating": count("CREATING"), "creatingWithoutRetries": 0,
            "recreating": count("RECREATING"), "deleting": count("DELETING"), "abandoning": 0, "restarting": 0, "refreshing": 0},
        "updatePolicy": {"type": group.policy, "minimalAction": "REPLACE"},
        "selfLink": format!("{PREFIX}{path}"),
    })
}

fn group(state: &mut State, path: &str) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.get")?;
    let group = state.groups.get(path).ok_or_else(|| Answer::absent(path))?;
    Ok(group_value(path, group))
}

fn groups(state: &mut State, path: &str, query: &Query) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.list")?;
    let own = state.groups.iter().filter(|(group, _)| group.starts_with(path));
    let items: Vec<Value> = own.map(|(path, group)| group_value(path, group)).collect();
    listed("items", &items, query, state.knobs.page)
}

fn listed(field: &str, items: &[Value], query: &Query, most: usize) -> Outcome {
    let (items, next) = page(items, query, most)?;
    let mut value = json!({"kind": "compute#list"});
    if !items.is_empty() {
        value[field] = Value::Array(items);
    }
    if let Some(next) = next {
        value["nextPageToken"] = next.into();
    }
    Ok(value)
}

/// All scopes are on every page; those without groups on it say so.
fn aggregated(state: &mut State, path: &str, query: &Query) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.list")?;
    let all: Vec<(String, Value)> = state
        .groups
        .iter()
        .map(|(path, group)| (scope(path), group_value(path, group)))
        .collect();
    let (found, next) = page(&all, query, state.knobs.page)?;
    let mut items = Map::new();
    let zones = state.zones.iter().map(|zone| format!("zones/{zone}"));
    for scope in zones.chain(all.iter().map(|(scope, _)| scope.clone())) {
        let own: Vec<&Value> = found
            .iter()
            .filter(|(of, _)| *of == scope)
            .map(|(_, group)| group)
            .collect();
        let value = if own.is_empty() {
            json!({"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page."}})
        } else {
            json!({"instanceGroupManagers": own})
        };
        items.insert(scope, value);
    }
    if state.knobs.unreachable {
        items.insert(
            "zones/zone-b".to_owned(),
            json!({"warning": {"code": "UNREACHABLE", "message": "unreachable"}}),
        );
    }
    let mut value = json!({"kind": "compute#instanceGroupManagerAggregatedList", "items": items});
    if let Some(next) = next {
        value["nextPageToken"] = next.into();
    }
    Ok(value)
}

/// `zones/Z` or `regions/R` of a path.
pub(super) fn scope(path: &str) -> String {
    path.split('/').skip(2).take(2).collect::<Vec<_>>().join("/")
}

fn members(state: &mut State, path: &str, query: &Query) -> Outcome {
    allow(state, path, "compute.instanceGroupManagers.get")?;
    let own = owner(path);
    let group = state.groups.get(own).ok_or_else(|| Answer::absent(own))?;
    let items: Vec<Value> = group
        .members
        .iter()
        .filter(|(_, member)| member.seen <= state.tick)
        .map(|(name, member)| {
            let errors: Vec<Value> = member
                .errors
                .iter()
                .map(|(code, message)| json!({"code": code, "message": message}))
                .collect();
            let instance = state.instance_path(own, name);
            let mut value = json!({"instance": format!("{PREFIX}{instance}"), "name": name, "currentAction": member.action});
            if !errors.is_empty() {
                value["lastAttempt"] = json!({"errors": {"errors": errors}});
            }
            if let Some(instance) = state.instances.get(&instance) {
                value["instanceStatus"] = instance.status.clone().into();
            }
            value
        })
        .collect();
    if state.knobs.paginated {
        return listed("managedInstances", &items, query, state.knobs.page);
    }
    Ok(json!({"managedInstances": items}))
}

/// The group that an action is of.
pub(super) fn owner(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(owner, _)| owner)
}

/// The last part of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn templates(state: &mut State, path: &str, query: &Query) -> Outcome {
    allow(state, path, "compute.instanceTemplates.list")?;
    let own = state
        .templates
        .iter()
        .filter(|(template, _)| template.starts_with(path));
    let items: Vec<Value> = own.map(|(_, template)| template.clone()).collect();
    listed("items", &items, query, state.knobs.page)
}
