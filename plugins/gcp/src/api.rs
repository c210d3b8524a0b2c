//! Requests to the Compute Engine API: signs by name, counts, follows pages, and reads JSON. Decides nothing. One request is one call of the host,
//! and nothing is asked twice here.

use crate::{
    answer::{Kind, Refusal, odd, refusal, text},
    config, ids,
};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::{failure, of_host},
    host::{Authorization, Host, Level, Method, Request, Response},
    names::in_url,
    serde_json::{self, Map, Value},
};
use std::cell::Cell;

/// The host of the API.
pub const HOST: &str = "compute.googleapis.com";
/// Pages of one list, and not more.
const MOST_PAGES: usize = 50;
/// Requests of one call of the provider, and not more: its host has a limit, too.
const MOST_REQUESTS: u32 = 90;
/// Bytes of an answer that are read.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Characters of a page token.
const TOKEN_CHARACTERS: usize = 4096;

/// A list of the API: where its items stand, and how it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// Its path.
    pub path: &'a str,
    /// `GET`, or `POST` for the one list that wants it.
    pub method: Method,
    /// What is wanted of it, as the API's parameter `fields` has it; empty wants all.
    pub fields: &'a str,
    /// Items of a page.
    pub page: u32,
}

/// The API, for one call of the provider.
#[derive(Debug)]
pub struct Api<'a, H: Host> {
    host: &'a H,
    credential: String,
    requests: Cell<u32>,
}

impl<'a, H: Host> Api<'a, H> {
    /// The API as the settings have it.
    pub fn new(host: &'a H) -> Result<Self, Failure> {
        Ok(Self {
            host,
            credential: config::credential(host)?,
            requests: Cell::new(0),
        })
    }

    /// Writes a line for people.
    pub fn warn(&self, line: &str) {
        self.host.write(Level::Warn, line);
    }

    /// Reads a resource that must be there.
    pub fn get(&self, path: &str) -> Result<Value, Refusal> {
        let found = self.ask(Method::Get, path, "", None)?;
        named(path, found)
    }

    /// Reads a resource, or none if the cloud says that it is not there.
    pub fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get(path) {
            Ok(found) => Ok(Some(found)),
            Err(refusal) if refusal.kind == Kind::Absent => Ok(None),
            Err(refusal) => Err(refusal.failure),
        }
    }

    /// Reads what has no name of its own to be known by.
    pub fn get_fields(&self, path: &str, fields: &str) -> Result<Value, Refusal> {
        self.ask(Method::Get, path, &format!("fields={}", in_url(fields)), None)
    }

    /// Has something done.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.ask(Method::Post, path, "", Some(body))
    }

    /// Hands each page of a list to `take`.
    pub fn pages(
        &self,
        list: List<'_>,
        mut take: impl FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut token = String::new();
        for _ in 0..MOST_PAGES {
            let mut query = format!("maxResults={}", list.page);
            for (name, value) in [("fields", list.fields), ("pageToken", &token)] {
                if !value.is_empty() {
                    query = format!("{query}&{name}={}", in_url(value));
                }
            }
            let page = self.ask(list.method, list.path, &query, None)?;
            whole(list.path, &page)?;
            take(&page)?;
            let next = text(&page, "nextPageToken");
            if next.is_empty() {
                return Ok(());
            }
            if next == token || next.len() > TOKEN_CHARACTERS {
                return Err(odd(list.path, "a page token that leads nowhere"));
            }
            next.clone_into(&mut token);
        }
        Err(failure(
            FailureCode::Other,
            format!("{}: found more than {MOST_PAGES} pages, wanted fewer", list.path),
        ))
    }

    /// Sends one request, and reads an object.
    fn ask(&self, method: Method, path: &str, query: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let requests = self.requests.get() + 1;
        self.requests.set(requests);
        if requests > MOST_REQUESTS {
            let message = format!("{path}: found no end after {MOST_REQUESTS} requests of one call");
            return Err(failure(FailureCode::Other, message).into());
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if matches!(method, Method::Post) {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let request = Request {
            method,
            url: format!("https://{HOST}/compute/v1/{path}{mark}{query}"),
            headers,
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            authorization: Some(Authorization {
                credential: self.credential.clone(),
                scheme: "bearer".to_owned(),
                parameters: Vec::new(),
            }),
        };
        let response = self.host.send(&request).map_err(|error| of_host(&error))?;
        read(path, &response)
    }
}

fn read(path: &str, response: &Response) -> Result<Value, Refusal> {
    if response.body.len() > MOST_BYTES {
        let found = format!("{} bytes, wanted {MOST_BYTES} at most,", response.body.len());
        return Err(odd(path, &found).into());
    }
    if !(200..300).contains(&response.status) {
        return Err(refusal(path, response));
    }
    match serde_json::from_slice(&response.body) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) => Err(odd(path, "no JSON object").into()),
        Err(_) => Err(odd(path, "what is no JSON").into()),
    }
}

/// The resource has the name that was asked for.
fn named(path: &str, found: Value) -> Result<Value, Refusal> {
    let name = text(&found, "name");
    if name.eq_ignore_ascii_case(ids::last(path)) {
        return Ok(found);
    }
    Err(odd(path, &format!("the name {}", ids::shown(name))).into())
}

/// A list that leaves out what could not be reached is none: what is not in it would be taken for gone.
fn whole(path: &str, page: &Value) -> Result<(), Failure> {
    let unreachable = page.get("unreachables").and_then(Value::as_array);
    let scopes = page.get("items").and_then(Value::as_object);
    let scopes = scopes.map(Map::values).into_iter().flatten();
    let warns = |value: &Value| value.pointer("/warning/code").and_then(Value::as_str) == Some("UNREACHABLE");
    let is_partial =
        unreachable.is_some_and(|places| !places.is_empty()) || warns(page) || scopes.into_iter().any(warns);
    if is_partial {
        return Err(failure(
            FailureCode::Unavailable,
            format!("{path}: the cloud could not reach every zone, and lists a part only"),
        ));
    }
    Ok(())
}
