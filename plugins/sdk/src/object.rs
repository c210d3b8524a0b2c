//! Reads Kubernetes objects through the host, whole lists at a time, and looks into them. It may not turn
//! an error of the host into an empty answer.

use crate::{
    Error, ErrorCode, ObjectRef, RuleError, Verdict,
    host::{Freshness, Kubernetes, ListQuery, Projection},
    verdict::failed,
};
use serde_json::Value;

/// How often a list is begun again when its continue token expired.
const LIST_RESTARTS: u32 = 2;
/// Objects asked for on one page: the contract's maximum.
const PAGE_OBJECTS: u32 = 500;

/// A kind of object and what to read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// JSON pointers of what is kept; see the contract's `projection`.
    pub fields: &'static [&'static str],
}

impl Kind {
    /// Points at an object of this kind.
    pub fn object(&self, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version.into(),
            kind: self.kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }

    fn projection(&self, freshness: Freshness) -> Projection {
        Projection {
            fields: self.fields.iter().map(|field| (*field).into()).collect(),
            freshness,
        }
    }
}

/// One object, or none if it does not exist.
pub fn get(
    host: &impl Kubernetes,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
    freshness: Freshness,
) -> Result<Option<Value>, RuleError> {
    let found = host.get_object(&kind.object(namespace, name), &kind.projection(freshness))?;
    found.as_deref().map(parse).transpose()
}

/// All objects of a kind, page by page. A list whose token expired is begun again, twice at most.
pub fn list(
    host: &impl Kubernetes,
    kind: &Kind,
    namespace: Option<&str>,
    field_selector: Option<&str>,
    freshness: Freshness,
) -> Result<Vec<Value>, RuleError> {
    let mut restarts = 0;
    loop {
        match list_once(host, kind, namespace, field_selector, freshness) {
            Err(RuleError::Host(Error {
                code: ErrorCode::Expired,
                ..
            })) if restarts < LIST_RESTARTS => restarts += 1,
            other => return other,
        }
    }
}

fn list_once(
    host: &impl Kubernetes,
    kind: &Kind,
    namespace: Option<&str>,
    field_selector: Option<&str>,
    freshness: Freshness,
) -> Result<Vec<Value>, RuleError> {
    let mut query = ListQuery {
        api_version: kind.api_version.into(),
        kind: kind.kind.into(),
        namespace: namespace.map(Into::into),
        label_selector: None,
        field_selector: field_selector.map(Into::into),
        projection: kind.projection(freshness),
        limit: PAGE_OBJECTS,
        continue_token: None,
    };
    let mut objects = Vec::new();
    loop {
        let page = host.list_objects(&query)?;
        for item in &page.items {
            objects.push(parse(item)?);
        }
        if page.continue_token.is_none() {
            return Ok(objects);
        }
        query.continue_token = page.continue_token;
    }
}

/// Judges by the host's cache, so that a wait is asked again as soon as an object changes; a pass is
/// believed only when the API server says the same now.
pub fn confirmed(judge: impl Fn(Freshness) -> Result<Verdict, RuleError>) -> Result<Verdict, RuleError> {
    match judge(Freshness::Cached)? {
        Verdict::Pass(_) => judge(Freshness::Live),
        other => Ok(other),
    }
}

/// Parses an object that the host gave.
pub fn parse(json: &str) -> Result<Value, RuleError> {
    serde_json::from_str(json)
        .map_err(|error| failed(format!("the host gave an object that is not JSON: {error}")))
}

/// A text at a pointer, or the empty text.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A number at a pointer. What is absent is 0: the API server leaves out zeros.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// Whether a deletion has begun.
pub fn is_terminating(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// Whether the object's controller has seen its newest specification.
pub fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

/// The owner reference of the controller, as `metav1.GetControllerOf` finds it.
pub fn controller(object: &Value) -> Option<&Value> {
    object
        .pointer("/metadata/ownerReferences")?
        .as_array()?
        .iter()
        .find(|owner| owner.pointer("/controller").and_then(Value::as_bool) == Some(true))
}

/// The condition of a type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object
        .pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

/// What of a Pod the functions below look at.
pub const POD_FIELDS: [&str; 6] = [
    "/metadata/ownerReferences",
    "/metadata/deletionTimestamp",
    "/metadata/annotations/kubernetes.io~1config.mirror",
    "/status/phase",
    "/status/conditions/*/type",
    "/status/conditions/*/status",
];

/// Whether a drain leaves the Pod where it is: a mirror of a static Pod, or one of a DaemonSet.
pub fn stays_in_a_drain(pod: &Value) -> bool {
    let mirror = pod
        .pointer("/metadata/annotations/kubernetes.io~1config.mirror")
        .is_some();
    mirror || controller(pod).is_some_and(is_daemon_set)
}

fn is_daemon_set(owner: &Value) -> bool {
    text(owner, "/kind") == "DaemonSet" && text(owner, "/apiVersion").starts_with("apps/")
}

/// Whether the Pod has ended.
pub fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether the Pod's condition Ready is True.
pub fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

/// Escapes a key as one token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// What is wrong with a JSON pointer, if anything.
pub fn pointer_fault(pointer: &str) -> Option<&'static str> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Some("a JSON pointer starts with '/'");
    }
    let wrong = pointer
        .split('~')
        .skip(1)
        .any(|rest| !rest.starts_with(['0', '1']));
    wrong.then_some("in a JSON pointer '~' is written '~0' and '/' within a key '~1'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::World, verdict};

    const PODS: Kind = Kind {
        api_version: "v1",
        kind: "Pod",
        fields: &["/status/phase"],
    };

    fn world() -> World {
        let mut world = World::new("");
        for index in 0..5 {
            world.add(&format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: p{index}}}}}"
            ));
        }
        world.page_size = 2;
        world
    }

    #[test]
    fn a_list_is_read_to_its_last_page() {
        let world = world();
        assert_eq!(
            list(&world, &PODS, None, None, Freshness::Cached).unwrap().len(),
            5
        );
        assert_eq!(world.calls().len(), 3);
    }

    #[test]
    fn an_expired_token_begins_the_list_again_but_not_for_ever() {
        let mut flaky = world();
        flaky.expire_tokens = 2;
        assert_eq!(
            list(&flaky, &PODS, None, None, Freshness::Cached).unwrap().len(),
            5
        );
        let mut broken = world();
        broken.expire_tokens = 3;
        let error = list(&broken, &PODS, None, None, Freshness::Cached).unwrap_err();
        assert!(matches!(
            error,
            RuleError::Host(Error {
                code: ErrorCode::Expired,
                ..
            })
        ));
    }

    #[test]
    fn an_error_in_the_middle_of_a_list_is_handed_on() {
        let mut world = world();
        world.fail_after(1, ErrorCode::Unavailable);
        assert!(matches!(
            list(&world, &PODS, None, None, Freshness::Cached),
            Err(RuleError::Host(Error {
                code: ErrorCode::Unavailable,
                ..
            }))
        ));
    }

    #[test]
    fn a_pass_is_confirmed_live_and_a_wait_is_not() {
        let pass = |_| Ok(Verdict::Pass(verdict::report("P", "")));
        assert!(matches!(confirmed(pass), Ok(Verdict::Pass(_))));
        let stale = |freshness| match freshness {
            Freshness::Cached => Ok(Verdict::Pass(verdict::report("P", ""))),
            Freshness::Live => Ok(Verdict::Block(verdict::report("B", ""))),
        };
        assert!(matches!(confirmed(stale), Ok(Verdict::Block(_))));
        let waiting = |freshness| match freshness {
            Freshness::Cached => Ok(verdict::wait(verdict::report("W", ""), 30)),
            Freshness::Live => Err(verdict::failed("not to be asked")),
        };
        assert!(matches!(confirmed(waiting), Ok(Verdict::Wait(_))));
    }

    #[test]
    fn pointers_are_checked() {
        for right in ["", "/", "/a", "/a~0b/c~1d", "/0"] {
            assert_eq!(pointer_fault(right), None, "{right}");
        }
        for wrong in ["a", "a/b", "/~", "/a~2", "/~~0"] {
            assert!(pointer_fault(wrong).is_some(), "{wrong}");
        }
        assert_eq!(escape("a/b~c"), "a~1b~0c");
    }
}
