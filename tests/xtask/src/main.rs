//! `cargo xtask`: everything a developer or CI runs, in one place.
//!
//! Without the feature `whole` it has what the demo needs, and the other tasks start the whole program (`whole.rs`): who wants to see the
//! demo does not wait for what tests, measures, fuzzes and releases.

#![cfg_attr(
    not(feature = "whole"),
    allow(
        dead_code,
        reason = "what only the other tasks ask for stands among what all ask for"
    )
)]

#[cfg(feature = "whole")]
mod bench;
#[cfg(feature = "whole")]
mod beside;
mod book;
mod cluster;
mod compiled;
#[cfg(feature = "whole")]
mod counts;
mod crds;
mod demo;
mod deny;
#[cfg(feature = "whole")]
mod elsewhere;
#[cfg(feature = "whole")]
mod fuzz;
mod lint;
#[cfg(feature = "whole")]
mod manifests;
#[cfg(feature = "whole")]
mod release;
#[cfg(feature = "whole")]
mod room;
mod setup;
#[cfg(test)]
mod shared;
mod step;
#[cfg(feature = "whole")]
mod structure;
#[cfg(feature = "whole")]
mod test;
mod timeline;
#[cfg(not(feature = "whole"))]
mod whole;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "What developers and CI run"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all checks and tests; the last line counts them
    #[cfg(feature = "whole")]
    Test(test::Arguments),
    /// Run all checks and tests; the last line counts them
    #[cfg(not(feature = "whole"))]
    Test(whole::Passed),
    /// Check formatting, lints, and the licenses and sources of dependencies
    Lint(lint::Arguments),
    /// Regenerate deploy/crds from the Rust types
    Crds,
    /// Regenerate the rendered manifests, the Helm chart and the bundle from deploy/kustomize and deploy/crds
    #[cfg(feature = "whole")]
    Manifests(manifests::Arguments),
    /// Regenerate the rendered manifests, the Helm chart and the bundle from deploy/kustomize and deploy/crds
    #[cfg(not(feature = "whole"))]
    Manifests(whole::Passed),
    /// Build the docs as a book by mdBook and follow its links
    Book(book::Arguments),
    /// Start a control plane and hold it until Ctrl-C
    Cluster(cluster::Arguments),
    /// Fetch and build what the other tasks need
    Setup,
    /// Show an upgrade of a simulated fleet
    Demo(demo::Arguments),
    /// Measure the numbers the design promises
    #[cfg(feature = "whole")]
    Bench(bench::Arguments),
    /// Measure the numbers the design promises
    #[cfg(not(feature = "whole"))]
    Bench(whole::Passed),
    /// Print the sizes, import cycles and names of the crates that ship
    #[cfg(feature = "whole")]
    Structure(structure::Arguments),
    /// Print the sizes, import cycles and names of the crates that ship
    #[cfg(not(feature = "whole"))]
    Structure(whole::Passed),
    /// Feed the parsers and the sandbox what strangers might write, guided by coverage
    #[cfg(feature = "whole")]
    Fuzz(fuzz::Arguments),
    /// Feed the parsers and the sandbox what strangers might write, guided by coverage
    #[cfg(not(feature = "whole"))]
    Fuzz(whole::Passed),
    /// Make all of a release in one folder: images, chart, manifests, bundle, command line, rules, signatures
    #[cfg(feature = "whole")]
    Release(release::Arguments),
    /// Make all of a release in one folder: images, chart, manifests, bundle, command line, rules, signatures
    #[cfg(not(feature = "whole"))]
    Release(whole::Passed),
    /// Push the images and artifacts of a folder that `release` made
    #[cfg(feature = "whole")]
    Publish(release::publish::Arguments),
    /// Push the images and artifacts of a folder that `release` made
    #[cfg(not(feature = "whole"))]
    Publish(whole::Passed),
    /// What `bench` starts once it is built for speed
    #[cfg(feature = "whole")]
    #[command(hide = true)]
    BenchInner(bench::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        #[cfg(feature = "whole")]
        Task::Test(arguments) => Ok(test::run(&arguments)),
        Task::Lint(arguments) => lint::run(&arguments),
        Task::Crds => crds::run(),
        #[cfg(feature = "whole")]
        Task::Manifests(arguments) => manifests::run(&arguments),
        Task::Book(arguments) => book::run(&arguments),
        Task::Cluster(arguments) => cluster::run(arguments).await,
        Task::Setup => setup::run(),
        Task::Demo(arguments) => Box::pin(demo::run(arguments)).await,
        #[cfg(feature = "whole")]
        Task::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "whole")]
        Task::Structure(arguments) => structure::run(&arguments),
        #[cfg(feature = "whole")]
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        #[cfg(feature = "whole")]
        Task::Release(arguments) => release::run(&arguments),
        #[cfg(feature = "whole")]
        Task::Publish(arguments) => release::publish::run(&arguments).await,
        #[cfg(feature = "whole")]
        Task::BenchInner(arguments) => bench::measure(&arguments).await,
        #[cfg(not(feature = "whole"))]
        Task::Test(_)
        | Task::Manifests(_)
        | Task::Bench(_)
        | Task::Structure(_)
        | Task::Fuzz(_)
        | Task::Release(_)
        | Task::Publish(_) => start::run().map_err(Into::into),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
