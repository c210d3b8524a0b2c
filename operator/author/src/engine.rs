//! The operator's own engine, for the author's verbs.

use numo_cli::CliError;
use numo_plugin::{COMPILE_VERB, Compile, Component, Engine, Reason, Rule, Setup, inspect::World};
use std::path::PathBuf;

/// Loads a component as the operator does, whatever it is for.
pub(crate) async fn load(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Component, CliError> {
    let refused = |refused: numo_plugin::Refused| {
        CliError::Wrong(format!(
            "{name}: {}: {}",
            refused.reason.as_str(),
            refused.message
        ))
    };
    engine.load_any(bytes).await.map_err(refused)
}

/// Loads a rule, for those that take nothing else.
pub(crate) async fn load_rule(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Rule, CliError> {
    rule(name, load(engine, name, bytes).await?)
}

/// The rule that a component is.
pub(crate) fn rule(name: &str, component: Component) -> Result<Rule, CliError> {
    match component {
        Component::Rule(rule) => Ok(rule),
        Component::Provider(_) => Err(CliError::Wrong(no_rule(name))),
    }
}

fn no_rule(name: &str) -> String {
    let ((package, interface), (of_rules, evaluation)) = (World::Provider.exports(), World::Rule.exports());
    format!(
        "{name}: {}: found a provider of machines ({package}/{interface}), wanted a rule ({of_rules}/{evaluation}); \
         providers are taken by `numo plugin build`, `check`, `inspect`, `push` and `sign`",
        Reason::WrongWorld.as_str()
    )
}

/// The operator's own engine, without its cache: what is checked is compiled anew.
pub(crate) fn engine() -> Result<Engine, CliError> {
    engine_with(None)
}

/// The same, with a cache in this folder.
pub(crate) fn engine_with(cache: Option<PathBuf>) -> Result<Engine, CliError> {
    let program =
        std::env::current_exe().map_err(|error| CliError::Wrong(format!("where is numo itself: {error}")))?;
    let setup = Setup {
        compile: Compile::Child {
            program,
            arguments: vec![COMPILE_VERB.to_owned()],
        },
        cache,
        ..Setup::default()
    };
    Engine::new(setup).map_err(|error| CliError::Wrong(format!("components cannot be run here: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_rules_only_says_what_was_found_and_who_takes_it() {
        let said = no_rule("gcp.wasm");
        for word in [
            "gcp.wasm: WrongWorld: found a provider of machines (numo:provider/machines)",
            "wanted a rule (numo:rule/evaluation)",
            "`check`, `inspect`, `push` and `sign`",
        ] {
            assert!(said.contains(word), "{said}");
        }
    }
}
