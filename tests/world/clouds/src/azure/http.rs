//! The server's door: who may come in, where a request goes, and how answers look.

use super::{HOST, RESOURCE_GROUP, SUBSCRIPTION, State, sets::clock};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State as Shared},
    response::Response,
};
use numo_provider_sdk::serde_json::{self, Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest body that is read.
const BODY_BYTES: usize = 1 << 20;

/// A request, as far as the server looks.
struct Asked {
    method: String,
    path: Vec<String>,
    query: Vec<(String, String)>,
    if_match: Option<String>,
    /// The access token.
    bearer: Option<String>,
    body: Value,
}

/// An answer.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn of(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json; charset=utf-8".to_owned())],
            body: body.to_string().into_bytes(),
        }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        Self::of(status, &json!({ "error": { "code": code, "message": message } }))
    }
}

/// Serves a state.
pub(super) fn router(state: Arc<Mutex<State>>) -> Router {
    Router::new().fallback(answer).with_state(state)
}

async fn answer(Shared(state): Shared<Arc<Mutex<State>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let bytes = to_bytes(body, BODY_BYTES).await.unwrap_or_default();
    let line = format!("{} {}", head.method, head.uri.path());
    let query = head.uri.query().unwrap_or_default().split('&');
    let query = query
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let asked = Asked {
        method: head.method.to_string(),
        path: head
            .uri
            .path()
            .split('/')
            .skip(1)
            .map(str::to_lowercase)
            .collect(),
        query: query.collect(),
        if_match: header("if-match"),
        bearer: header("authorization").and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned)),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    };
    let signed = header("authorization").is_some_and(|value| value.to_lowercase().starts_with("bearer "))
        || header("x-authorization").is_some_and(|value| value.starts_with("bearer "));
    let host = header("x-forwarded-host")
        .or_else(|| header("host"))
        .unwrap_or_default();
    let (reply, date) = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.log.push(line.clone());
        state.pass();
        let date = format!("Sun, 29 Nov 2026 {} GMT", clock(state.tick));
        let reply = state.admit(&asked, &line, signed, &host);
        (reply.unwrap_or_else(|| state.route(&asked)), date)
    };
    let mut response = Response::builder().status(reply.status).header("date", date);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(reply.body)).unwrap_or_default()
}

impl State {
    /// What stands before every request: the answer of a test, throttling, who asks, and whether that one may.
    fn admit(&mut self, asked: &Asked, line: &str, signed: bool, host: &str) -> Option<Reply> {
        if let Some(raw) = self.raw.as_ref().filter(|raw| line.contains(&raw.line)) {
            return Some(Reply {
                status: raw.status,
                headers: Vec::new(),
                body: raw.body.clone(),
            });
        }
        if host.trim_end_matches(":443") != HOST {
            return Some(Reply {
                status: 404,
                headers: Vec::new(),
                body: b"<html>no such host</html>".to_vec(),
            });
        }
        if !signed {
            let words = "Authentication failed. The 'Authorization' header is missing.";
            return Some(Reply::error(401, "AuthenticationFailed", words));
        }
        if self.token.is_some() && asked.bearer != self.token {
            return Some(Reply::error(
                401,
                "InvalidAuthenticationToken",
                "The access token is invalid.",
            ));
        }
        if self.throttled > 0 {
            self.throttled -= 1;
            let mut reply = Reply::error(429, "TooManyRequests", "The request is being throttled.");
            reply.headers.push(("retry-after", "7".to_owned()));
            return Some(reply);
        }
        if self.denied == Some(asked.method.as_str()) {
            let words = format!("The client 'numo' does not have authorization to perform action '{line}'.");
            return Some(Reply::error(403, "AuthorizationFailed", &words));
        }
        if !asked
            .query
            .iter()
            .any(|(key, value)| key == "api-version" && value.len() == 10)
        {
            let words = "The api-version query parameter (?api-version=) is required for all requests.";
            return Some(Reply::error(400, "MissingApiVersionParameter", words));
        }
        None
    }

    fn route(&mut self, asked: &Asked) -> Reply {
        let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
        let ["subscriptions", subscription, rest @ ..] = path.as_slice() else {
            return Reply::error(404, "InvalidResourceType", "There is no such resource type.");
        };
        if *subscription != SUBSCRIPTION {
            return Reply::error(
                404,
                "SubscriptionNotFound",
                &format!("The subscription '{subscription}' could not be found."),
            );
        }
        match (asked.method.as_str(), rest) {
            (
                "GET",
                [
                    "providers",
                    "microsoft.compute",
                    "locations",
                    _,
                    "operations",
                    number,
                ],
            ) => self.operation(number, false),
            (
                "GET",
                [
                    "providers",
                    "microsoft.compute",
                    "locations",
                    _,
                    "results",
                    number,
                ],
            ) => self.operation(number, true),
            ("GET", ["providers", "microsoft.compute", "virtualmachinescalesets"]) => self.list_sets(asked),
            (_, ["resourcegroups", group, rest @ ..]) => {
                if *group != RESOURCE_GROUP.to_lowercase() {
                    let words = format!("Resource group '{group}' could not be found.");
                    return Reply::error(404, "ResourceGroupNotFound", &words);
                }
                self.in_group(asked, rest)
            }
            _ => Reply::error(405, "MethodNotAllowed", "The method is not allowed."),
        }
    }

    fn in_group(&mut self, asked: &Asked, rest: &[&str]) -> Reply {
        let [
            "providers",
            "microsoft.compute",
            "virtualmachinescalesets",
            rest @ ..,
        ] = rest
        else {
            return Reply::error(404, "InvalidResourceType", "There is no such resource type.");
        };
        let [set, rest @ ..] = rest else {
            return self.list_sets(asked);
        };
        if !self.sets.contains_key(*set) {
            let words =
                format!("The Resource 'Microsoft.Compute/virtualMachineScaleSets/{set}' was not found.");
            return Reply::error(404, "ResourceNotFound", &words);
        }
        match (asked.method.as_str(), rest) {
            ("GET", []) => self
                .sets
                .get(*set)
                .map_or_else(missing, |set| Reply::of(200, &set.shown())),
            ("PATCH", []) => self.patch(asked, set),
            ("POST", ["delete"]) => self.delete(asked, set),
            ("GET", ["virtualmachines"]) => self.list_machines(asked, set),
            ("GET", ["virtualmachines", number]) => self.machine(set, number, false),
            ("GET", ["virtualmachines", number, "instanceview"]) => self.machine(set, number, true),
            _ => Reply::error(405, "MethodNotAllowed", "The method is not allowed."),
        }
    }

    fn machine(&self, set: &str, number: &str, view: bool) -> Reply {
        let Some(set) = self.sets.get(set) else {
            return missing();
        };
        let machine = set
            .machines
            .iter()
            .find(|machine| machine.instance.to_string() == number);
        match machine {
            None => Reply::error(
                404,
                "NotFound",
                "The entity was not found in this Azure location.",
            ),
            Some(machine) if view => Reply::of(200, &machine.view()),
            Some(machine) => Reply::of(200, &set.machine(machine)),
        }
    }

    fn list_sets(&self, asked: &Asked) -> Reply {
        let items: Vec<Value> = self.sets.values().map(super::Set::shown).collect();
        self.paged(asked, &items)
    }

    fn list_machines(&mut self, asked: &Asked, key: &str) -> Reply {
        let Some(set) = self.sets.get_mut(key) else {
            return missing();
        };
        let first = !asked.query.iter().any(|(name, _)| name == "$skiptoken");
        let items: Vec<Value> = set
            .machines
            .iter()
            .filter(|machine| machine.unseen == 0)
            .map(|machine| set.machine(machine))
            .collect();
        for machine in set.machines.iter_mut().filter(|_| first) {
            machine.unseen = machine.unseen.saturating_sub(1);
        }
        self.paged(asked, &items)
    }

    fn paged(&self, asked: &Asked, items: &[Value]) -> Reply {
        let token = asked.query.iter().find(|(name, _)| name == "$skiptoken");
        let start = token.and_then(|(_, value)| value.parse().ok()).unwrap_or(0_usize);
        let page: Vec<&Value> = items.iter().skip(start).take(self.page).collect();
        let mut body = json!({ "value": page });
        if start + self.page < items.len() {
            let path = asked.path.join("/");
            let next = start + self.page;
            body["nextLink"] =
                format!("https://{HOST}:443/{path}?api-version=2024-07-01&$skiptoken={next}").into();
        }
        Reply::of(200, &body)
    }

    fn operation(&self, number: &str, as_result: bool) -> Reply {
        let status = number.parse().ok().and_then(|number| self.status(number));
        let Some(status) = status else {
            return Reply::error(404, "NotFound", "The operation was not found.");
        };
        let goes_on = status["status"] == "InProgress";
        let mut reply = match (as_result, goes_on) {
            (true, true) => Reply {
                status: 202,
                headers: Vec::new(),
                body: Vec::new(),
            },
            (true, false) if status["error"].is_null() => Reply {
                status: 204,
                headers: Vec::new(),
                body: Vec::new(),
            },
            (true, false) => Reply::of(409, &json!({ "error": status["error"] })),
            (false, _) => Reply::of(200, &status),
        };
        if goes_on {
            reply.headers.push(("retry-after", "5".to_owned()));
        }
        reply
    }

    fn patch(&mut self, asked: &Asked, key: &str) -> Reply {
        if let Some(refused) = self.refusal(asked, key) {
            return refused;
        }
        let Some(set) = self.sets.get_mut(key) else {
            return missing();
        };
        set.etag += 1;
        if let Some(tags) = asked.body["tags"].as_object() {
            set.tags.clone_from(tags);
        }
        if let Some(capacity) = asked.body["sku"]["capacity"].as_u64() {
            set.capacity = capacity;
        }
        let image = &asked.body["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"];
        if image.is_object() {
            set.image = image.clone();
        }
        let has_room = self.seek(key);
        let number = self.begin(key, has_room);
        let shown = self.sets.get(key).map(super::Set::shown).unwrap_or_default();
        let kind = if self.accepted { "results" } else { "operations" };
        let url = format!(
            "https://{HOST}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/{kind}/{number}?api-version=2024-07-01"
        );
        if self.accepted {
            return Reply {
                status: 202,
                headers: vec![("location", url)],
                body: Vec::new(),
            };
        }
        let mut reply = Reply::of(200, &shown);
        reply.headers.push(("azure-asyncoperation", url));
        reply
    }

    /// Why a change is refused before anything is changed.
    fn refusal(&self, asked: &Asked, key: &str) -> Option<Reply> {
        let set = self.sets.get(key)?;
        let etag = format!("\"{}\"", set.etag);
        if asked.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
            return Some(Reply::error(
                412,
                "PreconditionFailed",
                "The condition 'If-Match' is not met.",
            ));
        }
        if let Some(refused) = asked.body["tags"].as_object().and_then(refused_tags) {
            return Some(refused);
        }
        let capacity = asked.body["sku"]["capacity"].as_u64();
        if capacity.is_some_and(|capacity| capacity > self.quota) {
            let words = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.";
            return Some(Reply::error(409, "OperationNotAllowed", words));
        }
        let image = &asked.body["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"];
        if let Some(id) = image
            .as_object()
            .and_then(image_text)
            .filter(|id| !self.images.contains(&id.to_lowercase()))
        {
            let words = format!("The image '{id}' was not found.");
            let code = if id.contains(':') {
                "PlatformImageNotFound"
            } else {
                "GalleryImageNotFound"
            };
            return Some(Reply::error(404, code, &words));
        }
        None
    }

    fn delete(&mut self, asked: &Asked, key: &str) -> Reply {
        let numbers: Vec<u64> = asked.body["instanceIds"]
            .as_array()
            .map(|ids| ids.iter().filter_map(|id| id.as_str()?.parse().ok()).collect())
            .unwrap_or_default();
        let [number] = numbers.as_slice() else {
            return Reply::error(
                400,
                "InvalidParameter",
                "Required parameter 'instanceIds' is missing (null).",
            );
        };
        if !self.remove(key, *number) {
            let words = format!(
                "The provided instanceId {number} is not an active Virtual Machine Scale Set VM instanceId."
            );
            return Reply::error(400, "InvalidParameter", &words);
        }
        Reply {
            status: 202,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }
}

fn missing() -> Reply {
    Reply::error(404, "ResourceNotFound", "The Resource was not found.")
}

/// The image of a reference, as one text.
fn image_text(reference: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| reference.get(name)?.as_str();
    let id = text("id")
        .or_else(|| text("communityGalleryImageId"))
        .or_else(|| text("sharedGalleryImageId"));
    if let Some(id) = id {
        return Some(id.to_owned());
    }
    Some(format!(
        "{}:{}:{}:{}",
        text("publisher")?,
        text("offer")?,
        text("sku")?,
        text("version")?
    ))
}

/// Azure's limits of tags.
fn refused_tags(tags: &Map<String, Value>) -> Option<Reply> {
    if tags.len() > 50 {
        return Some(Reply::error(
            400,
            "InvalidTags",
            "The number of tags exceeds the maximum of 50.",
        ));
    }
    let fits = |(name, value): (&String, &Value)| {
        let odd = name.chars().any(|letter| "<>%&\\?/".contains(letter));
        !odd && name.len() <= 512 && value.as_str().is_some_and(|value| value.len() <= 256)
    };
    if !tags.iter().all(fits) {
        return Some(Reply::error(
            400,
            "InvalidTagNameOrValue",
            "A tag's name or value is not allowed.",
        ));
    }
    None
}
