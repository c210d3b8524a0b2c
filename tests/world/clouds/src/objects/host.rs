//! The cluster as numo's host lends it: reads within a projection, pages, selectors; JSON patches with their tests, and uids.

use super::{Cluster, State, error, key, set, text};
use numo_provider_sdk::{
    Error, ErrorCode, ObjectRef,
    host::{Kubernetes, ListQuery, Objects, Page, Projection},
    serde_json::{self, Value, json},
};

/// What is kept of every object.
const KEPT: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
];

/// The object within a projection.
fn project(object: &Value, projection: &Projection) -> Value {
    if projection.fields.is_empty() {
        return object.clone();
    }
    let mut kept = json!({});
    let wanted = projection.fields.iter().map(String::as_str);
    for pointer in KEPT.into_iter().chain(wanted) {
        let Some(found) = object.pointer(pointer) else {
            continue;
        };
        let tokens = pointer.split('/').skip(1);
        let tokens: Vec<_> = tokens
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect();
        let path: Vec<_> = tokens.iter().map(String::as_str).collect();
        set(&mut kept, &path, found.clone());
    }
    kept
}

/// `a=b,c=d`, all of them.
fn selects(selector: Option<&str>, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    selector.into_iter().flat_map(|all| all.split(',')).all(|one| {
        let (key, value) = one.split_once('=').unwrap_or((one, ""));
        labels.and_then(|labels| labels.get(key)).and_then(Value::as_str) == Some(value)
    })
}

impl Cluster {
    /// A call arrives; whether its answer will be lost.
    fn arrives(&self, verb: &str, kind: &str, place: &str) -> Result<bool, Error> {
        let number = self.state().calls.len() + 1;
        let before = self.state().before.remove(&number);
        if let Some(before) = before {
            before(self);
        }
        let mut state = self.state();
        state.calls.push(format!("{verb} {kind} {place}"));
        let number = state.calls.len();
        if state.lose.is_some_and(|lose| number > lose) {
            return Err(error(ErrorCode::Unavailable, 503, "numo has died"));
        }
        if state.throttled > 0 {
            state.throttled -= 1;
            let mut busy = error(ErrorCode::Unavailable, 429, "too many requests");
            busy.details.push(("retry-after".to_owned(), "7".to_owned()));
            return Err(busy);
        }
        if state.unserved.contains(kind) {
            return Err(Error {
                code: ErrorCode::Unsupported,
                message: format!("the cluster does not serve {kind}"),
                details: Vec::new(),
            });
        }
        if state.denied.contains(&format!("{verb} {kind}")) {
            return Err(error(
                ErrorCode::Denied,
                403,
                &format!("no grant to {verb} {kind}"),
            ));
        }
        Ok(state.lose == Some(number))
    }

    /// The answer of a call, unless it is lost.
    fn answer<T>(&self, answer: Result<T, Error>, is_lost: bool) -> Result<T, Error> {
        let mut state = self.state();
        if state.eager {
            state.step();
        }
        if is_lost {
            return Err(error(ErrorCode::Unavailable, 504, "the answer was lost"));
        }
        answer
    }
}

fn place(object: &ObjectRef) -> String {
    format!(
        "{}/{}",
        object.namespace.as_deref().unwrap_or_default(),
        object.name
    )
}

fn of(object: &ObjectRef) -> super::Key {
    key(
        &object.kind,
        object.namespace.as_deref().unwrap_or_default(),
        &object.name,
    )
}

impl State {
    /// A page of a list.
    fn list(&mut self, query: &ListQuery) -> Result<Page, Error> {
        let namespace = query.namespace.as_deref();
        let objects = self.objects.iter().filter(|(key, object)| {
            key.0 == query.kind
                && text(object, "/apiVersion") == query.api_version
                && namespace.is_none_or(|namespace| namespace == key.1)
                && selects(query.label_selector.as_deref(), object)
        });
        let mut names = Vec::new();
        for (key, object) in objects {
            match self.lists_of.get_mut(&key.2).filter(|left| **left > 0) {
                Some(left) if query.kind == "Machine" => *left -= 1,
                _ => names.push(project(object, &query.projection).to_string()),
            }
        }
        let from: usize = match &query.continue_token {
            None => 0,
            Some(token) => token
                .parse()
                .map_err(|_| error(ErrorCode::Expired, 410, "the continue token is none of ours"))?,
        };
        let size = if self.page == 0 { usize::MAX } else { self.page };
        let size = size.min(usize::try_from(query.limit).unwrap_or(500).max(1));
        let is_last = from.saturating_add(size) >= names.len() && !self.endless;
        let items: Vec<_> = names.into_iter().skip(from).take(size).collect();
        let items = match &self.odd {
            Some(odd) => items.iter().map(|_| odd.clone()).collect(),
            None => items,
        };
        Ok(Page {
            items,
            continue_token: (!is_last).then(|| from.saturating_add(size).to_string()),
        })
    }

    /// Applies a patch, if its tests hold.
    fn patch(&mut self, reference: &ObjectRef, patch: &str) -> Result<String, Error> {
        let key = of(reference);
        let found = self.objects.get(&key);
        let found = found.filter(|found| text(found, "/apiVersion") == reference.api_version);
        let mut object = found
            .ok_or_else(|| error(ErrorCode::Other, 404, &format!("{} not found", place(reference))))?
            .clone();
        let patch: json_patch::Patch = serde_json::from_str(patch)
            .map_err(|words| error(ErrorCode::Invalid, 400, &words.to_string()))?;
        json_patch::patch(&mut object, &patch)
            .map_err(|words| error(ErrorCode::Other, 422, &words.to_string()))?;
        self.put(object);
        let now = self.objects.get(&key).map(ToString::to_string);
        Ok(self.odd.clone().or(now).unwrap_or_default())
    }

    fn create(&mut self, json: &str) -> Result<String, Error> {
        let object: Value =
            serde_json::from_str(json).map_err(|words| error(ErrorCode::Invalid, 400, &words.to_string()))?;
        let (kind, name) = (
            text(&object, "/kind").to_owned(),
            text(&object, "/metadata/name").to_owned(),
        );
        let key = key(&kind, text(&object, "/metadata/namespace"), &name);
        if self.objects.contains_key(&key) {
            return Err(error(
                ErrorCode::Other,
                409,
                &format!("{kind} {name} already exists"),
            ));
        }
        let there = self.objects.keys().filter(|key| key.0 == kind).count();
        if self.resource_quota.is_some_and(|most| there >= most) {
            let words = format!(
                "{}s \"{name}\" is forbidden: exceeded quota: team, requested: {0}s=1, used: {0}s={there}, limited: {0}s={there}",
                kind.to_lowercase()
            );
            return Err(error(ErrorCode::Forbidden, 403, &words));
        }
        self.put(object);
        self.unread.insert(name, self.stale);
        let now = self.objects.get(&key).map(ToString::to_string);
        Ok(self.odd.clone().or(now).unwrap_or_default())
    }

    fn delete(&mut self, object: &ObjectRef, uid: &str) -> Result<(), Error> {
        let key = of(object);
        let Some(found) = self.objects.get(&key) else {
            return Ok(());
        };
        if text(found, "/metadata/uid") != uid {
            return Err(error(ErrorCode::Other, 409, "the uid is another"));
        }
        if object.kind == "Machine" {
            self.delete_machine(&object.name);
        } else {
            self.objects.remove(&key);
        }
        Ok(())
    }
}

impl Kubernetes for Cluster {
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error> {
        let is_lost = self.arrives("get", &object.kind, &place(object))?;
        let mut state = self.state();
        let is_unread = state.unread.get_mut(&object.name).is_some_and(|left| {
            let is_unread = *left > 0;
            *left = left.saturating_sub(1);
            is_unread
        });
        let found = state.objects.get(&of(object)).filter(|_| !is_unread);
        let found = found.filter(|found| text(found, "/apiVersion") == object.api_version);
        let found = found.map(|found| project(found, projection).to_string());
        let found = found.map(|found| state.odd.clone().unwrap_or(found));
        drop(state);
        self.answer(Ok(found), is_lost)
    }

    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error> {
        let namespace = query.namespace.as_deref().unwrap_or_default();
        let is_lost = self.arrives("list", &query.kind, namespace)?;
        let page = self.state().list(query);
        self.answer(page, is_lost)
    }
}

impl Objects for Cluster {
    fn create_object(&self, object_json: &str) -> Result<String, Error> {
        let object: Value = serde_json::from_str(object_json).unwrap_or_default();
        let is_lost = self.arrives("create", text(&object, "/kind"), text(&object, "/metadata/name"))?;
        let created = self.state().create(object_json);
        self.answer(created, is_lost)
    }

    fn patch_object(&self, object: &ObjectRef, patch_json: &str) -> Result<String, Error> {
        let is_lost = self.arrives("patch", &object.kind, &place(object))?;
        let patched = self.state().patch(object, patch_json);
        self.answer(patched, is_lost)
    }

    fn delete_object(&self, object: &ObjectRef, uid: &str) -> Result<(), Error> {
        let is_lost = self.arrives("delete", &object.kind, &place(object))?;
        let deleted = self.state().delete(object, uid);
        self.answer(deleted, is_lost)
    }
}
