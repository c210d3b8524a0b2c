//! What a person says to numo: who, why and when, kept on the object and told as an event. What it brings about is
//! numo's to decide.

pub use super::remark::{DryRun, Remark};
use super::{
    error::{self, CliError},
    written::{self, Written},
};
use crate::shell::{client::Connection, events};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::marks;
use numo_cli::Format;
use serde_json::{Value, json};

/// Who manages the fields that the command line writes.
const FIELD_MANAGER: &str = "numo-cli";
/// How often a write is tried whose object changes meanwhile.
pub(super) const ATTEMPTS: usize = 5;
/// Longest reason that is kept (characters).
const REASON_MAX: usize = 512;

/// What every verb takes that writes.
#[derive(Clone, Debug, Default, Args)]
pub struct SayArgs {
    /// Why; stored with who and when, and published as an event
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Print what would be written (client), or have the API server check it too (server)
    #[arg(long, value_name = "HOW", default_value = "none", num_args = 0..=1, default_missing_value = "client")]
    pub dry_run: DryRun,
    /// Format of the output: json, yaml, name, jsonpath=…, go-template=…, custom-columns=…; json has each field with its old and new value
    /// [default: human-readable]
    #[arg(short, long, value_name = "FORMAT", value_parser = Format::of_objects)]
    pub output: Option<Format>,
}

impl SayArgs {
    /// Prints what was written.
    pub fn print(&self, written: Written, message: String) -> Result<(), CliError> {
        written::print(written, message, self.output.as_ref())
    }

    /// Whether the output is for people.
    pub fn is_text(&self) -> bool {
        self.output.is_none()
    }
}

/// Who speaks, why, and how far it goes.
#[derive(Debug)]
pub struct Speaker<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// What the verb was given.
    pub say: &'a SayArgs,
    /// Who, as the API server knows them.
    pub by: String,
}

/// What of an object is written.
#[derive(Debug)]
pub struct Change<'a> {
    /// Its kind.
    pub resource: &'a ApiResource,
    /// The object as it was read.
    pub object: &'a DynamicObject,
    /// The verb, for the journal: `pause`.
    pub verb: &'a str,
    /// The event's reason: `Paused`.
    pub event: &'static str,
    /// The merge patch, without the word.
    pub patch: Value,
    /// Where else in the object stands what was said to a person: as JSON pointers. A write over another value would say something else.
    pub said_of: &'static [&'static str],
}

impl<'a> Speaker<'a> {
    /// Asks the API server who we are.
    pub async fn of(connection: &'a Connection, say: &'a SayArgs) -> Result<Self, CliError> {
        if let Some(reason) = &say.reason
            && reason.chars().count() > REASON_MAX
        {
            return Err(CliError::Usage(format!(
                "--reason: found {} characters, wanted at most {REASON_MAX}",
                reason.chars().count()
            )));
        }
        let api: Api<SelfSubjectReview> = Api::all(connection.write.clone());
        let review = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await;
        let known = review.ok().and_then(|review| review.status?.user_info?.username);
        let by = known
            .or_else(|| std::env::var("USER").ok())
            .unwrap_or_else(|| "someone".to_owned());
        Ok(Self {
            connection,
            say,
            by: by.chars().take(253).collect(),
        })
    }

    /// The word of this verb.
    pub fn word(&self, verb: &str) -> Remark {
        let now: Timestamp = self.connection.clock.now();
        Remark {
            at: now.round(jiff::Unit::Second).unwrap_or(now).to_string(),
            verb: verb.to_owned(),
            by: self.by.clone(),
            reason: self.say.reason.clone(),
        }
    }

    /// How an object is written by us.
    pub fn params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            dry_run: self.say.dry_run == DryRun::Server,
            ..PatchParams::default()
        }
    }

    /// How an object is made by us.
    pub fn post(&self) -> PostParams {
        PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            dry_run: self.say.dry_run == DryRun::Server,
        }
    }

    /// Whether anything is sent.
    pub fn sends(&self) -> bool {
        self.say.dry_run != DryRun::Client
    }

    /// Whether anything is kept of what is sent.
    pub fn keeps(&self) -> bool {
        self.say.dry_run == DryRun::None
    }

    /// Writes the patch with the word, over what was read, and tells it. What it has changed is for -o json.
    pub async fn write(&self, api: &Api<DynamicObject>, change: Change<'_>) -> Result<Written, CliError> {
        let metadata = &change.object.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let word = self.word(change.verb);
        let mut read = change.object.clone();
        for attempt in 1.. {
            let annotations = read.metadata.annotations.as_ref();
            let mut patch = json!({"metadata": {
                "uid": metadata.uid,
                "resourceVersion": read.metadata.resource_version,
                "annotations": {marks::SAID: word.added(annotations.and_then(|all| all.get(marks::SAID)))},
            }});
            lay_over(&mut patch, &change.patch);
            if !self.sends() {
                break;
            }
            match api.patch(name, &self.params(), &Patch::Merge(patch)).await {
                Ok(_) => break,
                // numo writes its status all the time: what was read is read again.
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {
                    let doing = error::api(format!("{} {name}", change.resource.kind));
                    let known = std::mem::replace(&mut read, api.get(name).await.map_err(doing)?);
                    let meanwhile = |what: &str| {
                        CliError::Closed(format!(
                            "{} {name}{what} meanwhile; look at it, then repeat the command",
                            change.resource.kind
                        ))
                    };
                    if read.metadata.uid != metadata.uid {
                        return Err(meanwhile(" was deleted and created again"));
                    }
                    if let Some(field) = changed(&known, &read, &change) {
                        return Err(meanwhile(&format!(": somebody else changed {field}")));
                    }
                }
                Err(error) => return Err(error::api(format!("{} {name}", change.resource.kind))(error)),
            }
        }
        self.tell(change.resource, change.object, change.event, &word)
            .await;
        let written = Written::of(change.resource, change.object, word, self.say.dry_run);
        Ok(written.patched(&read, &change.patch))
    }

    /// Tells it as an event on the object. That it was not told fails nothing.
    pub async fn tell(&self, resource: &ApiResource, object: &DynamicObject, event: &str, word: &Remark) {
        if self.say.dry_run != DryRun::None {
            return;
        }
        let metadata = &object.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "numo-cli-", "namespace": namespace},
            "eventTime": self.connection.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            "reportingController": "numo.openshift-optional.skrzypek.io/cli",
            "reportingInstance": self.by.chars().take(128).collect::<String>(),
            "action": "Say",
            "reason": event,
            "type": "Normal",
            "note": events::clip(&word.sentence()),
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
        });
        let events = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("events.k8s.io", "v1", "Event"),
            "events",
        );
        let api: Api<DynamicObject> = Api::namespaced_with(self.connection.write.clone(), namespace, &events);
        let Ok(body) = serde_json::from_value(body) else {
            return;
        };
        if let Err(error) = api.create(&PostParams::default(), &body).await {
            eprintln!("numo: it is done; the event that tells it was not written: {error}");
        }
    }
}

/// Which field somebody else has changed between two looks at an object: of those that are to be written, and that are not so already, or
/// of those that were said to a person.
fn changed(before: &DynamicObject, after: &DynamicObject, change: &Change<'_>) -> Option<String> {
    let [before, after] = [before, after].map(|object| serde_json::to_value(object).unwrap_or_default());
    let differs = |pointer: &str| before.pointer(pointer) != after.pointer(pointer);
    let mut written = Vec::new();
    leaves(&change.patch, String::new(), &mut written);
    let written = written.into_iter().filter(|(pointer, value)| {
        let is_so = after.pointer(pointer).unwrap_or(&Value::Null) == *value;
        differs(pointer) && !is_so
    });
    let of_written = written.map(|(pointer, _)| pointer);
    let said_of = change.said_of.iter().map(|pointer| (*pointer).to_owned());
    let mut all = of_written.chain(said_of.filter(|pointer| differs(pointer)));
    let pointer = all.next()?;
    Some(
        pointer
            .trim_start_matches('/')
            .replace('/', ".")
            .replace("~1", "/"),
    )
}

/// The values of a merge patch that are no objects, each with its JSON pointer.
fn leaves<'v>(patch: &'v Value, at: String, found: &mut Vec<(String, &'v Value)>) {
    let Value::Object(fields) = patch else {
        found.push((at, patch));
        return;
    };
    for (key, value) in fields {
        let key = key.replace('~', "~0").replace('/', "~1");
        leaves(value, format!("{at}/{key}"), found);
    }
}

/// Lays one patch over another. A null in it stays: it takes something away from the object.
fn lay_over(patch: &mut Value, over: &Value) {
    match (patch, over) {
        (Value::Object(patch), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(patch.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (patch, over) => *patch = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What another person said in that moment is no longer there to be read once it is written over.
    #[test]
    fn what_somebody_else_has_written_meanwhile_is_not_written_over() {
        let object = |value: Value| -> DynamicObject {
            let mut all = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}});
            lay_over(&mut all, &value);
            serde_json::from_value(all).unwrap()
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "X"));
        let none = object(json!({"status": {"run": {"id": "1"}}}));
        let change = |patch: Value| Change {
            resource: &resource,
            object: &none,
            verb: "retry",
            event: "RetryAsked",
            patch,
            said_of: &["/status/run/id"],
        };
        let retry = change(json!({"spec": {"directive": {"action": "Retry", "reason": null}}}));
        let with = |action: &str| {
            object(json!({"spec": {"directive": {"action": action}}, "status": {"run": {"id": "1"}}}))
        };
        assert_eq!(
            changed(&none, &with("Hold"), &retry).as_deref(),
            Some("spec.directive.action")
        );
        // Somebody else said the same, or has written something else.
        assert_eq!(changed(&none, &with("Retry"), &retry), None);
        let journal = object(json!({"status": {"step": "Held", "run": {"id": "1"}}}));
        assert_eq!(changed(&none, &journal, &retry), None);
        let undo = change(json!({"spec": {"directive": null}}));
        assert!(changed(&with("Hold"), &with("Skip"), &undo).is_some());
        assert_eq!(changed(&with("Hold"), &none, &undo), None);
        // What a person was told is of another run by now.
        let next = object(json!({"status": {"run": {"id": "2"}}}));
        assert_eq!(changed(&none, &next, &retry).as_deref(), Some("status.run.id"));
        let abort = change(json!({"metadata": {"annotations": {"a/b": "1"}}}));
        let other =
            object(json!({"metadata": {"annotations": {"a/b": "2"}}, "status": {"run": {"id": "1"}}}));
        assert_eq!(
            changed(&none, &other, &abort).as_deref(),
            Some("metadata.annotations.a/b")
        );
    }

    #[test]
    fn what_a_patch_takes_away_stays_taken_away() {
        let mut patch = json!({"metadata": {"uid": "u", "annotations": {"said": "x"}}});
        lay_over(&mut patch, &json!({"metadata": {"annotations": {"abort": null}}}));
        let wanted = json!({"metadata": {"uid": "u", "annotations": {"said": "x", "abort": null}}});
        assert_eq!(patch, wanted);
    }
}
