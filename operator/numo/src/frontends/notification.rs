//! What a sink is sent: the text for people, by a template, and the body in the form of the sink. Pure.

use super::occurrences::Occurrence;
use jiff::{SignedDuration, Timestamp};
use numo_api::text;
use numo_core::{Owner, OwnerKind};
use serde_json::{Value, json};

/// Longest text for people (characters).
const TEXT_MAX: usize = 4096;
/// Longest explanation that goes along (bytes of JSON): of a longer one only the beginning is sent.
const EXPLANATION_MAX: usize = 16 * 1024;
/// The text where no template is given.
const DEFAULT: &str = "{owner} {what}: {message}";
/// Begins the type of each CloudEvent.
const TYPE: &str = "io.skrzypek.openshift-optional.numo";
/// How long an alert lasts that nobody renews. Whoever reads it then knows that numo is gone, or that it is over.
pub const ALERT_LASTS: SignedDuration = SignedDuration::from_mins(5);

/// One thing that is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// What has happened.
    pub occurrence: Occurrence,
    /// To which owner.
    pub owner: Owner,
    /// Its uid.
    pub uid: String,
    /// What its nodes go to, if that is known.
    pub target: Option<String>,
    /// What `numo explain` says of the owner.
    pub explanation: Value,
    /// When it happened, or was seen first.
    pub at: Timestamp,
}

/// A template that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

/// Declares the fields of a template once.
macro_rules! fields {
    ($($name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Field { $($name,)* }

        impl Field {
            const ALL: &[(Self, &str)] = &[$((Self::$name, $text),)*];
        }
    };
}

fields! {
    Owner = "owner",
    What = "what",
    Transition = "transition",
    Kind = "kind",
    Namespace = "namespace",
    Name = "name",
    Node = "node",
    Reason = "reason",
    Message = "message",
    Target = "target",
    Time = "time",
    Id = "id",
    Explanation = "explanation",
}

impl Template {
    /// Reads a template; the usual one where none is given.
    ///
    /// Errors: a brace that is not closed or not opened, or a name that is no field; the text says found and wanted.
    pub fn parse(given: Option<&str>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = given.unwrap_or(DEFAULT);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some(after) = from.strip_prefix('{') {
                let (name, after) = after.split_once('}').ok_or_else(|| {
                    "found { without }, wanted a field such as {message}, or {{ for a brace".to_owned()
                })?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Field(field(name)?));
                rest = after;
            } else {
                return Err("found } without {, wanted }} for a brace".to_owned());
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The text for people: what others wrote in it moves no cursor and hides nothing. Lines are those of the template.
    pub fn render(&self, notification: &Notification) -> String {
        let mut all = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => all.push_str(&text::lines(plain)),
                Part::Field(field) => all.push_str(&text::line(&notification.field(*field))),
            }
        }
        all.chars().take(TEXT_MAX).collect()
    }
}

fn field(name: &str) -> Result<Field, String> {
    let mut all = Field::ALL.iter();
    let found = all.find(|(_, known)| *known == name).map(|(field, _)| *field);
    found.ok_or_else(|| {
        let known: Vec<String> = Field::ALL.iter().map(|(_, name)| format!("{{{name}}}")).collect();
        let name: String = text::line(name).chars().take(64).collect();
        format!("found {{{name}}}, wanted one of {}", known.join(", "))
    })
}

impl Notification {
    fn field(&self, field: Field) -> String {
        let occurrence = &self.occurrence;
        match field {
            Field::Owner => self.owner.to_string(),
            Field::What => occurrence.transition.words().to_owned(),
            Field::Transition => occurrence.transition.name().to_owned(),
            Field::Kind => self.owner.kind.name().to_owned(),
            Field::Namespace => self.owner.key.namespace.clone(),
            Field::Name => self.owner.key.name.clone(),
            Field::Node => occurrence.node.clone().unwrap_or_default(),
            Field::Reason => occurrence.reason.clone(),
            Field::Message => occurrence.message.clone(),
            Field::Target => self.target.clone().unwrap_or_default(),
            Field::Time => self.time(),
            Field::Id => occurrence.id.clone(),
            Field::Explanation => self.explained().to_string(),
        }
    }

    fn time(&self) -> String {
        let at = self.at;
        at.round(jiff::Unit::Second).unwrap_or(at).to_string()
    }

    /// The explanation, as long as it may be.
    fn explained(&self) -> Value {
        let length = self.explanation.to_string().len();
        if length <= EXPLANATION_MAX {
            return self.explanation.clone();
        }
        let of = |key: &str| {
            let text = self
                .explanation
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default();
            text.chars().take(1024).collect::<String>()
        };
        // Kind and name of an object: bounded by the API server.
        let object = self.explanation.get("object");
        json!({"object": object, "reason": of("reason"), "message": of("message"), "truncated": true})
    }

    /// A CloudEvent 1.0 in structured mode.
    pub fn cloud_event(&self, text: &str) -> Value {
        let (owner, occurrence) = (&self.owner, &self.occurrence);
        let plural = match owner.kind {
            OwnerKind::MutexRunConfig => "mutexrunconfigs",
            OwnerKind::NodeMaintenance(_) => "nodemaintenances",
            OwnerKind::Plan => "plans",
            OwnerKind::NodeVersion => "nodeversions",
        };
        let namespace = &owner.key.namespace;
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!("namespaces/{namespace}/")
        };
        let source = format!(
            "/apis/{}/{place}{plural}/{}",
            owner.kind.api_version(),
            owner.key.name
        );
        json!({
            "specversion": "1.0",
            "id": occurrence.id,
            "source": source,
            "type": format!("{TYPE}.{}", occurrence.transition.name()),
            "subject": occurrence.node.as_ref().unwrap_or(&owner.key.name),
            "time": self.time(),
            "datacontenttype": "application/json",
            "data": {
                "transition": occurrence.transition.name(),
                "owner": {
                    "apiVersion": owner.kind.api_version(),
                    "kind": owner.kind.name(),
                    "namespace": namespace,
                    "name": owner.key.name,
                    "uid": self.uid,
                },
                "node": occurrence.node,
                "reason": occurrence.reason,
                "message": text::line(&occurrence.message),
                "target": self.target,
                "text": text,
                "explanation": self.explained(),
            },
        })
    }

    /// One alert of Alertmanager's API v2. A text in it says what a person reads; `explanation` is JSON.
    pub fn alert(&self, text: &str, ends: Timestamp) -> Value {
        let (owner, occurrence) = (&self.owner, &self.occurrence);
        let severity = match occurrence.transition {
            numo_api::Transition::RunBegan
            | numo_api::Transition::WaveDone
            | numo_api::Transition::Finished => "info",
            _ => "warning",
        };
        // Empty labels are as absent ones there.
        json!({
            "labels": {
                "alertname": format!("Numo{}", occurrence.transition.name()),
                "kind": owner.kind.name(),
                "namespace": owner.key.namespace,
                "name": owner.key.name,
                "node": occurrence.node.as_deref().unwrap_or_default(),
                "reason": occurrence.reason,
                "severity": severity,
                "id": occurrence.id,
            },
            "annotations": {
                "summary": text,
                "description": text::line(&occurrence.message),
                "explanation": self.explained().to_string(),
            },
            "startsAt": self.time(),
            "endsAt": ends.round(jiff::Unit::Second).unwrap_or(ends).to_string(),
        })
    }
}

/// What Slack takes, and others as it does. Nothing in the text addresses anybody, or is a link that hides where it leads.
pub fn slack(text: &str) -> Value {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    json!({"text": text})
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Transition;
    use numo_core::observed::Key;

    fn notification(message: &str) -> Notification {
        Notification {
            occurrence: Occurrence {
                id: "0123456789abcdef".to_owned(),
                transition: Transition::Held,
                at: None,
                node: Some("worker-1".to_owned()),
                reason: "RuleFailed".to_owned(),
                message: message.to_owned(),
            },
            owner: Owner::plan(Key::new("upgrades", "os")),
            uid: "u".to_owned(),
            target: Some("v2".to_owned()),
            explanation: json!({"object": "Plan upgrades/os", "message": "m"}),
            at: "2027-01-15T08:00:00.5Z".parse().unwrap(),
        }
    }

    fn rendered(template: Option<&str>) -> String {
        let template = Template::parse(template).unwrap();
        template.render(&notification("Node worker-1: a rule\nfailed"))
    }

    #[test]
    fn a_template_says_what_has_happened() {
        assert_eq!(
            rendered(None),
            "Plan upgrades/os a node waits for a person: Node worker-1: a rule failed"
        );
        for (template, wanted) in [
            ("", ""),
            ("a\n{node}", "a\nworker-1"),
            ("{{{name}}}", "{os}"),
            ("{kind}|{namespace}|{name}|{node}", "Plan|upgrades|os|worker-1"),
            ("{id}", "0123456789abcdef"),
            (
                "{transition} {reason} {target} {time}",
                "Held RuleFailed v2 2027-01-15T08:00:01Z",
            ),
            (
                "{node} {explanation}",
                r#"worker-1 {"message":"m","object":"Plan upgrades/os"}"#,
            ),
        ] {
            assert_eq!(rendered(Some(template)), wanted);
        }
    }

    #[test]
    fn a_template_that_cannot_be_understood_says_what_is_wrong() {
        for (template, words) in [
            ("{nodes}", "found {nodes}, wanted one of {owner}, {what}"),
            ("{node", "found { without }"),
            ("node}", "found } without {"),
            ("{}", "found {}, wanted one of"),
            ("{ node }", "found { node }"),
        ] {
            let said = Template::parse(Some(template)).unwrap_err();
            assert!(said.starts_with(words), "{template}: {said}");
        }
    }

    #[test]
    fn a_message_of_a_strangers_addresses_nobody_and_is_bounded() {
        let sly = notification(&format!("<!channel> & \u{1b}[31m{}", "x".repeat(2 * TEXT_MAX)));
        let text = Template::parse(Some("{message}")).unwrap().render(&sly);
        assert_eq!(text.chars().count(), TEXT_MAX);
        assert!(!text.contains('\u{1b}'));
        let body = slack(&text);
        let said = body["text"].as_str().unwrap();
        assert!(said.starts_with("&lt;!channel&gt; &amp; "), "{said}");
    }

    #[test]
    fn bodies_have_the_id_and_what_explain_says_and_are_bounded() {
        let mut one = notification("m");
        let event = one.cloud_event("text");
        assert_eq!(event["id"], "0123456789abcdef");
        assert_eq!(
            event["source"],
            "/apis/upgrade.cattle.io/v1/namespaces/upgrades/plans/os"
        );
        assert_eq!(event["type"], "io.skrzypek.openshift-optional.numo.Held");
        assert_eq!(event["data"]["explanation"]["object"], "Plan upgrades/os");
        let alert = one.alert("text", one.at + ALERT_LASTS);
        assert_eq!(alert["labels"]["alertname"], "NumoHeld");
        assert_eq!(alert["endsAt"], "2027-01-15T08:05:01Z");

        let object =
            json!({"apiGroup": "upgrade.cattle.io", "kind": "Plan", "namespace": "upgrades", "name": "os"});
        one.explanation = json!({"object": object, "message": "m", "chain": ["x".repeat(EXPLANATION_MAX)]});
        let event = one.cloud_event("text");
        assert_eq!(event["data"]["explanation"]["truncated"], true);
        assert_eq!(event["data"]["explanation"]["object"], object);
        assert_eq!(event["data"]["explanation"]["message"], "m");
        assert!(event.to_string().len() < EXPLANATION_MAX, "{event}");
    }
}
