//! The author's toolkit, `numo plugin`: what the author of a rule, or of a provider of machines, does with its component. Only `numo plugin
//! run` asks a cluster, through a [`Cluster`] that the program lends, and changes nothing.

// The macros that print stand before std's: nobody prints past them.
#[macro_use]
extern crate numo_cli;

mod bench;
mod build;
mod case;
mod cluster;
mod engine;
mod expect;
mod fixtures;
mod inspect;
mod new;
mod outcome;
mod output;
mod recording;
mod registry;
mod run;
mod scaffold;
mod select;
mod source;
mod test;
mod trial;
mod yaml;

pub use cluster::{Cluster, Connection};

use clap::{Args, Subcommand};
use numo_cli::CliError;

/// Arguments of `numo plugin`, with the flags that name a cluster.
#[derive(Debug, Args)]
pub struct PluginArgs<C: Args> {
    #[command(subcommand)]
    verb: PluginVerb<C>,
}

#[derive(Debug, Subcommand)]
enum PluginVerb<C: Args> {
    /// Create a crate to start a rule from
    New(new::NewArgs),
    /// Build a component that numo would run, from a crate or a core module
    Build(build::BuildArgs),
    /// Check whether numo would run a component, by loading it as numo does
    Check(inspect::CheckArgs),
    /// Show what a component is: phases or hosts, imports, wants, size, digest, signatures
    Inspect(inspect::InspectArgs),
    /// Evaluate a component with the cases of a file, in numo's sandbox, and compare its verdicts
    Test(test::TestArgs),
    /// Evaluate a component for one node of a cluster, reading with your own rights and changing nothing
    Run(Box<run::RunArgs<C>>),
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
pub async fn run<C: Cluster>(args: PluginArgs<C>) -> Result<(), CliError> {
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
