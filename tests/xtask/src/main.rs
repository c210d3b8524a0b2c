//! `cargo xtask`: everything a developer or CI runs, in one place.

mod bench;
mod beside;
mod book;
mod cluster;
mod counts;
mod crds;
mod demo;
mod deny;
mod elsewhere;
mod fuzz;
mod lint;
mod manifests;
mod release;
mod room;
mod setup;
mod step;
mod structure;
mod test;
mod timeline;

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
    Test(test::Arguments),
    /// Check formatting, lints, and the licenses and sources of dependencies
    Lint(lint::Arguments),
    /// Regenerate deploy/crds from the Rust types
    Crds,
    /// Regenerate the rendered manifests, the Helm chart and the bundle from deploy/kustomize and deploy/crds
    Manifests(manifests::Arguments),
    /// Build the docs as a book by mdBook and follow its links
    Book(book::Arguments),
    /// Start a control plane and hold it until Ctrl-C
    Cluster(cluster::Arguments),
    /// Fetch and build what the other tasks need
    Setup,
    /// Show an upgrade of a simulated fleet
    Demo(demo::Arguments),
    /// Measure the numbers the design promises
    Bench(bench::Arguments),
    /// Print the sizes, import cycles and names of the crates that ship
    Structure(structure::Arguments),
    /// Feed the parsers and the sandbox what strangers might write, guided by coverage
    Fuzz(fuzz::Arguments),
    /// Make all of a release in one folder: images, chart, manifests, bundle, command line, rules, signatures
    Release(release::Arguments),
    /// Push the images and artifacts of a folder that `release` made
    Publish(release::publish::Arguments),
    /// What `bench` starts once it is built for speed
    #[command(hide = true)]
    BenchInner(bench::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test(arguments) => Ok(test::run(&arguments)),
        Task::Lint(arguments) => lint::run(&arguments),
        Task::Crds => crds::run(),
        Task::Manifests(arguments) => manifests::run(&arguments),
        Task::Book(arguments) => book::run(&arguments),
        Task::Cluster(arguments) => cluster::run(arguments).await,
        Task::Setup => setup::run(),
        Task::Demo(arguments) => Box::pin(demo::run(arguments)).await,
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Structure(arguments) => structure::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Release(arguments) => release::run(&arguments),
        Task::Publish(arguments) => release::publish::run(&arguments).await,
        Task::BenchInner(arguments) => bench::measure(&arguments).await,
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
