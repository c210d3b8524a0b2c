//! The provider's settings: a JSON object whose fields are read by name. A field of a wrong type is a failure that names it.

use crate::{Failure, failure::invalid, host::Settings};
use serde_json::{Map, Value};

/// The settings of a call.
#[derive(Clone, Debug, Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads them.
    ///
    /// Errors: they are no JSON object.
    pub fn read(host: &impl Settings) -> Result<Self, Failure> {
        match serde_json::from_str(&host.config_json()) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            _ => Err(invalid("config of the provider: wanted a JSON object")),
        }
    }

    /// A text, if it is there and not empty.
    ///
    /// Errors: it is no text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(invalid(format!(
                "config of the provider, {name}: found {other}, wanted a text"
            ))),
        }
    }

    /// A text that must be there.
    ///
    /// Errors: it is not, or is no text.
    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        let missing = || {
            invalid(format!(
                "config of the provider, {name}: found nothing, wanted a text"
            ))
        };
        self.text(name)?.ok_or_else(missing)
    }

    /// The field as it is.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Said(&'static str);

    impl Settings for Said {
        fn config_json(&self) -> String {
            self.0.to_owned()
        }

        fn cloud_config(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_field_of_a_wrong_type_is_named() {
        let fields = Fields::read(&Said(r#"{"project": "p", "zone": 3}"#)).unwrap();
        assert_eq!(fields.required("project").unwrap(), "p");
        assert!(fields.text("zone").unwrap_err().message.contains("zone: found 3"));
        assert!(fields.required("region").unwrap_err().message.contains("region"));
        assert!(Fields::read(&Said("[]")).is_err());
    }
}
