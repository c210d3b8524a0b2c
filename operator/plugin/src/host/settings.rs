//! `numo:provider/settings`: the provider's own settings. Needs no grant; in `describe` they are empty.

use super::sandbox::Sandbox;
use crate::provider::bindings::numo::provider::settings::Host;

impl Host for Sandbox {
    fn config_json(&mut self) -> wasmtime::Result<String> {
        self.budget.count(&self.limits)?;
        let text = self.lent.as_ref().map(|lent| lent.config_json.to_string());
        Ok(text
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| "{}".to_owned()))
    }

    fn cloud_config(&mut self) -> wasmtime::Result<Option<String>> {
        self.budget.count(&self.limits)?;
        let lent = self.lent.as_ref();
        Ok(lent.and_then(|lent| lent.cloud_config.as_ref().map(ToString::to_string)))
    }
}
