//! The operator's own engine, for the author's verbs.

use numo_cli::CliError;
use numo_plugin::{COMPILE_VERB, Compile, Engine, Rule, Setup};
use std::path::PathBuf;

pub(crate) async fn load(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Rule, CliError> {
    let refused = |refused: numo_plugin::Refused| {
        CliError::Wrong(format!(
            "{name}: {}: {}",
            refused.reason.as_str(),
            refused.message
        ))
    };
    engine.load(bytes).await.map_err(refused)
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
    Engine::new(setup).map_err(|error| CliError::Wrong(format!("rules cannot be run here: {error}")))
}
