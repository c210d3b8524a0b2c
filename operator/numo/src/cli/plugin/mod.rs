//! `numo plugin`: what the author of a rule does with its component. Only `run` asks a cluster, and changes nothing.

mod bench;
mod build;
mod case;
mod expect;
mod fixtures;
mod inspect;
mod new;
mod recording;
mod registry;
mod run;
mod said;
mod scaffold;
mod select;
mod test;
mod trial;
mod yaml;

use super::{CliError, ClusterArgs};
use crate::shell::component::COMPILE_VERB;
use clap::{Args, Subcommand, ValueEnum};
use numo_plugin::{
    Compile, Engine, Rule, Setup,
    oci::{Pinned, Reference},
};
use registry::RegistryArgs;
use std::path::PathBuf;

/// Arguments of `numo plugin`.
#[derive(Debug, Args)]
pub struct PluginArgs {
    #[command(subcommand)]
    verb: PluginVerb,
}

#[derive(Debug, Subcommand)]
enum PluginVerb {
    /// Write a crate to begin a rule with
    New(new::NewArgs),
    /// Build a crate, or take a core module, and make a component that numo would run
    Build(build::BuildArgs),
    /// Say whether numo would run a component, by loading it as numo does
    Check(SourceArgs),
    /// Show what a component is: phases, imports, wants, size, digest, signatures
    Inspect(inspect::InspectArgs),
    /// Ask a component the cases of a file, in numo's sandbox, and compare its verdicts
    Test(test::TestArgs),
    /// Ask a component about one node of a cluster, reading with your own rights and changing nothing
    Run(Box<run::RunArgs>),
    /// Measure what a component costs
    Bench(bench::BenchArgs),
    /// Push a component to a registry; equal bytes get an equal digest
    Push(registry::PushArgs),
    /// Sign a pushed component with a key, for cosign and numo to verify
    Sign(registry::SignArgs),
    /// Print a MutexRule for a component, with its digest and the grants it wants
    Scaffold(scaffold::ScaffoldArgs),
}

/// Does what the arguments say.
pub async fn plugin(args: PluginArgs) -> Result<(), CliError> {
    match args.verb {
        PluginVerb::New(args) => new::new(&args),
        PluginVerb::Build(args) => build::build(&args).await,
        PluginVerb::Test(args) => test::test(&args).await,
        PluginVerb::Run(args) => run::run(&args).await,
        PluginVerb::Bench(args) => bench::bench(&args).await,
        PluginVerb::Check(args) => inspect::check(&args).await,
        PluginVerb::Inspect(args) => inspect::inspect(&args).await,
        PluginVerb::Push(args) => registry::push(&args).await,
        PluginVerb::Sign(args) => registry::sign(&args).await,
        PluginVerb::Scaffold(args) => scaffold::scaffold(&args).await,
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputArg {
    /// For people
    Text,
    /// For programs
    Json,
}

/// A component, in a file or in a registry.
#[derive(Debug, Args)]
struct SourceArgs {
    /// A file, or a reference such as registry.example.com/team/rule:1.0
    #[arg(value_name = "FILE|IMAGE")]
    component: String,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl SourceArgs {
    /// The bytes, and what they are by digest if they are from a registry.
    async fn read(&self, engine: &Engine) -> Result<(Vec<u8>, Option<Pinned>), CliError> {
        let path = PathBuf::from(&self.component);
        if path.exists() {
            let bytes = std::fs::read(&path).map_err(|source| CliError::File { path, source })?;
            return Ok((bytes, None));
        }
        let reference: Reference = self.component.parse().map_err(|error| {
            CliError::Wrong(format!(
                "{}: neither a file nor a reference: {error}",
                self.component
            ))
        })?;
        let (client, credentials) = self.registry.client()?;
        let failed = |error: numo_plugin::oci::OciError| CliError::Wrong(error.to_string());
        let pinned = client.resolve(&reference, &credentials).await.map_err(failed)?;
        let most = engine.limits().component_bytes;
        let artifact = client.pull(&pinned, &credentials, most).await.map_err(failed)?;
        Ok((artifact.component, Some(pinned)))
    }

    /// Loads it as the operator does.
    async fn load(&self) -> Result<(Rule, Option<Pinned>), CliError> {
        let engine = engine()?;
        let (bytes, pinned) = self.read(&engine).await?;
        let rule = load(&engine, &self.component, &bytes).await?;
        Ok((rule, pinned))
    }
}

async fn load(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Rule, CliError> {
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
fn engine() -> Result<Engine, CliError> {
    engine_with(None)
}

/// The same, with a cache in this folder.
fn engine_with(cache: Option<PathBuf>) -> Result<Engine, CliError> {
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
