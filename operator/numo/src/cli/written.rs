//! What a verb has written, for programs: the object, who changed it and why, and each field with what it was and what it is.

use super::{
    error::CliError,
    remark::{DryRun, Remark},
};
use kube::{core::DynamicObject, discovery::ApiResource};
use numo_api::text;
use numo_cli::Format;
use serde::Serialize;
use serde_json::Value;

/// An object that a verb has written, or would have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// `group/version` of the object.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; absent where the kind has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What was done: the verb, who, when and why.
    pub directive: Remark,
    /// How far it went.
    pub dry_run: DryRun,
    /// Each field that was changed.
    pub changes: Vec<FieldChange>,
    /// The same for people.
    pub message: String,
}

/// A field that was changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Where it is in the object, as a JSON pointer (RFC 6901); empty is the whole object.
    pub path: String,
    /// What it was; null where it was not there.
    pub old: Value,
    /// What it is; null where it is not there any more.
    pub new: Value,
}

impl Written {
    /// An object and what was done to it, without a change.
    pub fn of(resource: &ApiResource, object: &DynamicObject, directive: Remark, dry_run: DryRun) -> Self {
        Self {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone().unwrap_or_default(),
            directive,
            dry_run,
            changes: Vec::new(),
            message: String::new(),
        }
    }

    /// With what a merge patch changes of the object as it was read.
    #[must_use]
    pub fn patched(mut self, before: &DynamicObject, patch: &Value) -> Self {
        let before = serde_json::to_value(before).unwrap_or_default();
        self.changes = changes(&before, patch);
        self
    }

    /// With one field that was changed.
    #[must_use]
    pub fn changed(mut self, path: &str, old: Value, new: Value) -> Self {
        self.changes.push(FieldChange {
            path: path.to_owned(),
            old,
            new,
        });
        self
    }

    /// As kubectl names it.
    fn name(&self) -> String {
        let group = self.api_version.rsplit_once('/').map(|(group, _)| group);
        let group = group.map_or_else(String::new, |group| format!(".{group}"));
        text::line(&format!("{}{group}/{}", self.kind.to_lowercase(), self.name)).into_owned()
    }
}

/// Prints what was written: the message for people, the objects for programs.
pub fn print(written: Written, message: String, format: Option<&Format>) -> Result<(), CliError> {
    match format {
        None => println!("{message}{}", written.dry_run.suffix()),
        Some(Format::Name) => println!("{}", written.name()),
        Some(format) => {
            let all = [Written { message, ..written }];
            print!("{}", format.document(&all)?.unwrap_or_default());
        }
    }
    Ok(())
}

/// What a merge patch changes of a document.
fn changes(before: &Value, patch: &Value) -> Vec<FieldChange> {
    let mut all = Vec::new();
    descend(String::new(), Some(before), patch, &mut all);
    all
}

fn descend(path: String, before: Option<&Value>, patch: &Value, all: &mut Vec<FieldChange>) {
    match (patch, before) {
        (Value::Object(fields), Some(Value::Object(_)) | None) => {
            for (key, field) in fields {
                let step = key.replace('~', "~0").replace('/', "~1");
                descend(
                    format!("{path}/{step}"),
                    before.and_then(|one| one.get(key)),
                    field,
                    all,
                );
            }
        }
        (new, before) => {
            let old = before.cloned().unwrap_or(Value::Null);
            if old != *new {
                all.push(FieldChange {
                    path,
                    old,
                    new: new.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_field_is_told_with_what_it_was() {
        let before = json!({"metadata": {"annotations": {"a/b": "x", "c": "y"}}, "spec": {"paused": false, "other": 1}});
        let patch = json!({"metadata": {"annotations": {"a/b": null, "c": "y"}}, "spec": {"paused": true}});
        let found: Vec<_> = changes(&before, &patch)
            .into_iter()
            .map(|one| (one.path, one.old, one.new))
            .collect();
        assert_eq!(
            found,
            [
                ("/metadata/annotations/a~1b".to_owned(), json!("x"), json!(null)),
                ("/spec/paused".to_owned(), json!(false), json!(true)),
            ]
        );
        // What was not there is null, also below what was not there.
        let found = changes(&json!({}), &json!({"spec": {"directive": {"action": "Hold"}}}));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].path.as_str(), &found[0].old),
            ("/spec/directive/action", &json!(null))
        );
    }
}
