//! `cargo xtask test`: everything that must hold, in the order in which it fails fastest.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use start::{WRAPPER, by_clippy};

use crate::beside::Beside;
use crate::counts::{Counts, STARVED_WORDS, counted};
use crate::{book, compiled, elsewhere, lint, room, setup, step};

/// Folders of packages whose tests need a control plane, 600 MB and many seconds of both cores to start, and how many run at once at most:
/// what starts control planes lets fewer in where the machine is busy.
const HEAVY: [(&str, u8); 5] = [
    (INSTALLATION, 2),
    ("tests/cluster", 4),
    ("tests/api", 4),
    ("tests/world", 4),
    (END_TO_END, 12),
];

/// So many tests of a package in [`HEAVY`] may fail beside others and pass alone. More is a fault of ours, not of a machine that was busy.
const STARVED: usize = 4;

/// The package of the seeded simulation, which takes both cores for minutes and waits for nothing.
const SIMULATION: &str = "tests/sim";

/// The package of the tests of manifests, of what installs them, and of the image: most of them compile, render, and wait for containers.
const INSTALLATION: &str = "tests/install";

/// The package of the end-to-end tests.
const END_TO_END: &str = "tests/e2e";

/// Where `cargo components` puts them.
const COMPONENTS: &str = "target/plugins/wasm32-unknown-unknown/release/components";

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Only tests whose name contains one of these; leaves out the linters
    filter: Vec<String>,
    /// Install cargo-deny if it is missing (minutes); CI=true implies it
    #[arg(long)]
    deny: bool,
    /// Install mdBook if it is missing (minutes), and build the docs as a book; CI=true implies it
    #[arg(long)]
    book: bool,
    /// Rules in Python and JavaScript and by cargo-component too, the install by OLM's own operators, an earlier numo that replaces this
    /// one in mid-run, and the command line alone compiled here, for macOS and for Windows: needs Python 3.10 and Node, and installs
    /// their toolchains into the cache (minutes), as it builds OLM and the earlier numo
    #[arg(long)]
    all_tools: bool,
    /// Only the end-to-end tests, on clusters without the namespace of node leases, as OLM installs numo; at each step
    /// `explain` is compared with the journal. Those whose subject is the leases are left out
    #[arg(long, conflicts_with_all = ["every_write", "night"])]
    without_leases: bool,
    /// Only the end-to-end tests that kill numo at its writes, at every write and not at a sample: for the night (an hour)
    #[arg(long)]
    every_write: bool,
    /// Only the end-to-end tests that are for the night: their like is always run, as a rule in the other mode of a run (with the canary
    /// or without), and what tells the two apart is in a decision table
    #[arg(long, conflicts_with = "every_write")]
    night: bool,
    /// Only a part: `cargo xtask test` runs itself so, beside the end-to-end tests
    #[arg(long, hide = true, value_enum)]
    part: Option<Part>,
}

/// What is run beside the end-to-end tests: both cores have something to do while those wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// What computes and waits for nothing.
    Computing,
    /// The tests of [`INSTALLATION`].
    Installing,
}

impl Part {
    const ALL: [Self; 2] = [Self::Installing, Self::Computing];

    const fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Installing => "installing",
        }
    }

    /// How far it stands back (`nice`): what waits for a cluster has deadlines of its own.
    const fn niceness(self) -> u8 {
        match self {
            Self::Computing => 19,
            Self::Installing => 2,
        }
    }

    /// Whether the tests of this package are run in it.
    fn has(self, package: &str) -> bool {
        match self {
            Self::Computing => package == SIMULATION,
            Self::Installing => package == INSTALLATION,
        }
    }
}

impl Arguments {
    /// The words by which this program runs a part, for the same filter.
    fn of_part(&self, part: Part) -> Vec<String> {
        let flags = [
            ("--deny", self.deny),
            ("--book", self.book),
            ("--all-tools", self.all_tools),
        ];
        let flags = flags.iter().filter(|(_, given)| *given);
        ["test", "--part", part.name()]
            .into_iter()
            .chain(flags.map(|(flag, _)| *flag))
            .map(ToOwned::to_owned)
            .chain(self.filter.iter().cloned())
            .collect()
    }
}

/// The tests that need node leases, and why: left out where there are none.
const OF_LEASES: [(&str, &str); 13] = [
    (
        "ask::what_is_asked_is_answered_in_every_format",
        "explain names the lease of a node in flight",
    ),
    (
        "doctor::a_sound_installation_is_found_so",
        "doctor finds the namespace missing, and says so",
    ),
    (
        "leader::a_leader_that_slept_past_its_lease",
        "it makes a RoleBinding in the namespace",
    ),
    (
        "maintenance::a_node_is_kept_in_maintenance_and_put_back",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::a_node_that_is_missing_fails",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::the_older_group_is_served_too",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::two_maintenances_of_a_node_and_a_lease",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::what_node_maintenance_operator_left",
        "it makes the lease that the other operator left",
    ),
    (
        "nodes::a_node_in_flight_is_shielded_and_leased",
        "it looks at the lease of a node in flight",
    ),
    (
        "preview::a_run_is_seen_before_it_runs",
        "preview says that the right to leases is missing",
    ),
    (
        "quiet::heartbeats_make_numo_write_nothing",
        "numo looks again and again whether leases can be had",
    ),
    (
        "release::what_is_another_operators_stays",
        "it makes the lease of another operator",
    ),
    (
        "rights::numo_asks_for_nothing_beyond_its_rights",
        "the rights to leases are never used",
    ),
];

/// The tests that need foreign toolchains: their packages, and what is in their names.
const FOREIGN: ([&str; 2], &str) = ([END_TO_END, "tests/xtask"], "tools::");

/// The end-to-end tests that run OLM's own operators, which take minutes to build: how their names begin.
const OLM: &str = "olm::";

/// The end-to-end tests that replace the program by that of an earlier commit, which takes minutes to build: how their names begin.
const EARLIER: &str = "earlier::";

/// The tests that kill numo at its writes: how their names begin.
const CRASHES: &str = "crashes::";

/// The end-to-end tests that take the whole machine, and would starve others beside them: how their names begin.
const ALONE: &str = "alone::";

/// Runs all steps, also after one has failed, unless what follows cannot be built.
///
/// The last line on standard output is `N passed, N failed, N skipped`: tests, and
/// with them every other step that failed or could not be run. A run without any
/// passed test is no success either: a filter may be misspelt.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut run = Run::default();
    if arguments.without_leases {
        return without_leases(run, &arguments.filter);
    }
    if arguments.every_write {
        return every_write(run, &arguments.filter);
    }
    if arguments.night {
        return night(run, &arguments.filter);
    }
    match arguments.part {
        Some(Part::Computing) => return computing(run, arguments),
        Some(Part::Installing) => {
            part(&mut run, Part::Installing, &arguments.filter);
            return run.finish();
        }
        None => {}
    }
    let target = step::root().join("target");
    if !run.step("room on the disk", |_| {
        room::look(&target).map(|()| Outcome::Done)
    }) {
        return run.finish();
    }
    if arguments.filter.is_empty() {
        run.step("rustfmt", |_| {
            step::succeeds(&mut lint::format()).map(Outcome::of)
        });
        run.step("rustfmt of plugins", |_| {
            step::succeeds(&mut lint::plugins(lint::format())).map(Outcome::of)
        });
    }
    let control_plane = run.step("control plane", |_| numo_cluster::binary().map(|_| Outcome::Done));
    if control_plane && arguments.filter.is_empty() {
        run.step("gofmt", |_| gofmt());
    }
    // The sandbox's tests build their guests, and the rules that ship their components, which other tests use.
    if run.step("wasm targets", |_| setup::wasm_targets().map(|()| Outcome::Done)) {
        run.step("components of plugins", |_| plugins_components());
    }
    // The test of the image leaves its binary there; one of an earlier run would pass for it.
    if arguments.filter.is_empty() {
        let _ = std::fs::remove_file(of_image());
    }
    let (mut tests, mut warnings) = (Vec::new(), 0);
    let built = run.step("build", |_| {
        (tests, warnings) = build()?;
        Ok(Outcome::Done)
    });
    if built && arguments.filter.is_empty() {
        run.step("clippy", |_| Ok(without_warnings(warnings)));
    }
    if built {
        let mut beside = Vec::new();
        run.step("what is run beside the tests that wait", |_| {
            for part in Part::ALL {
                beside.push(Beside::begin(
                    part.name(),
                    part.niceness(),
                    &arguments.of_part(part),
                )?);
            }
            Ok(Outcome::Done)
        });
        let is_beside = |test: &&TestBinary| Part::ALL.iter().any(|part| part.has(&test.package));
        for test in tests.iter().filter(|test| !is_beside(test)) {
            run.step(&test.title(), |counts| test.run(&arguments.filter, counts));
        }
        for beside in beside {
            run.step(&beside.rest(), |counts| {
                let said = beside.end()?;
                counts.add(said.counts);
                Ok(Outcome::of(said.success))
            });
        }
        // They find an idle machine, and the binary of the image.
        by_itself(&mut run, arguments, &tests);
    }
    run.finish()
}

/// The end-to-end tests that are not run among the others.
fn by_itself(run: &mut Run, arguments: &Arguments, tests: &[TestBinary]) {
    let Some(test) = tests
        .iter()
        .find(|test| test.package == END_TO_END && test.target == "e2e")
    else {
        return;
    };
    if arguments.filter.is_empty() || arguments.filter.iter().any(|filter| filter.contains("alone")) {
        run.step("tests that take the whole machine", |counts| {
            test.one_at_a_time()
                .run(&["--ignored".to_owned(), ALONE.to_owned()], counts)
        });
    }
    // The test of the image leaves its binary there. Where it made none, this fails, and says so.
    if arguments.filter.is_empty() {
        run.step("the main job by the binary of the image", |counts| {
            test.run_by(&of_image(), &["run::".to_owned()], counts)
        });
    }
    if arguments.all_tools {
        run.step("install, upgrade and removal by OLM", |counts| {
            test.run(&["--ignored".to_owned(), OLM.to_owned()], counts)
        });
        run.step(
            "numo replaced by an earlier one, and back, in mid-run",
            |counts| test.run(&["--ignored".to_owned(), EARLIER.to_owned()], counts),
        );
    }
    let foreign = tests
        .iter()
        .filter(|test| arguments.all_tools && FOREIGN.0.contains(&test.package.as_str()));
    for test in foreign {
        run.step("tests with foreign toolchains", |counts| {
            // One at a time: a Python rule takes a core for most of the time that compiling may take.
            test.one_at_a_time()
                .run(&["--ignored".to_owned(), FOREIGN.1.to_owned()], counts)
        });
    }
}

/// Where the test of the image leaves its binary.
fn of_image() -> PathBuf {
    step::root().join("target/image/numo")
}

/// Runs the tests of a part.
fn part(run: &mut Run, part: Part, filter: &[String]) {
    let mut tests = Vec::new();
    if run.step("build", |_| {
        (tests, _) = build()?;
        Ok(Outcome::Done)
    }) {
        for test in tests.iter().filter(|test| part.has(&test.package)) {
            run.step(&test.title(), |counts| test.run(filter, counts));
        }
    }
}

/// Runs what computes and waits for nothing: the linters, the simulation, the examples of the docs, the tests of the rules.
fn computing(mut run: Run, arguments: &Arguments) -> ExitCode {
    let filter = &arguments.filter;
    part(&mut run, Part::Computing, filter);
    if filter.is_empty() {
        run.step("clippy of plugins", |_| {
            let compiled = compiled::whole(lint::plugins(step::cargo()), &[])?;
            Ok(without_warnings(compiled.warnings))
        });
    }
    run.step("documentation's examples", |counts| doc_tests(filter, counts));
    run.step("tests of plugins", |counts| plugins_tests(filter, counts));
    if filter.is_empty() {
        run.step("cargo-deny", |_| deny(arguments.deny));
        run.step("the book", |_| the_book(arguments.book));
        run.step("command line for macOS and Windows", |_| {
            of_elsewhere(arguments.all_tools)
        });
    }
    run.finish()
}

/// Runs the end-to-end tests where there are no node leases.
fn without_leases(run: Run, filter: &[String]) -> ExitCode {
    for (name, why) in OF_LEASES {
        println!("left out: {name}: {why}");
    }
    let skipped = OF_LEASES.iter().flat_map(|(name, _)| ["--skip", name]);
    let skipped = skipped.map(ToOwned::to_owned);
    let filter: Vec<String> = filter.iter().cloned().chain(skipped).collect();
    let title = "end-to-end tests without node leases";
    end_to_end(run, title, &filter, Some(("NUMO_E2E_LEASES", "none")))
}

/// Kills numo before and after every write of a run of each owner kind.
fn every_write(run: Run, filter: &[String]) -> ExitCode {
    let all = [CRASHES.to_owned()];
    let filter = if filter.is_empty() { &all[..] } else { filter };
    let title = "numo killed at every write";
    end_to_end(run, title, filter, Some(("NUMO_E2E_EVERY_WRITE", "all")))
}

/// Runs the tests whose like is always run. What is left out for another reason stays so.
fn night(run: Run, filter: &[String]) -> ExitCode {
    let others = [OLM, EARLIER, ALONE, FOREIGN.1];
    let words = others.iter().flat_map(|name| ["--skip", name]);
    let words = std::iter::once("--ignored").chain(words).map(ToOwned::to_owned);
    let filter: Vec<String> = filter.iter().cloned().chain(words).collect();
    end_to_end(run, "end-to-end tests for the night", &filter, None)
}

/// Runs end-to-end tests alone, with this variable in their environment.
fn end_to_end(
    mut run: Run,
    title: &str,
    filter: &[String],
    variable: Option<(&'static str, &'static str)>,
) -> ExitCode {
    let ready = run.step("control plane", |_| numo_cluster::binary().map(|_| Outcome::Done))
        && run.step("wasm targets", |_| setup::wasm_targets().map(|()| Outcome::Done))
        && run.step("components of plugins", |_| plugins_components());
    let mut tests = Vec::new();
    let built = ready
        && run.step("build", |_| {
            (tests, _) = build()?;
            Ok(Outcome::Done)
        });
    tests.retain(|test| built && test.package == END_TO_END && test.target == "e2e");
    for test in &mut tests {
        test.variables.extend(variable);
        run.step(title, |counts| test.run(filter, counts));
    }
    run.finish()
}

/// How a step ended that is not a test itself.
enum Outcome {
    Done,
    Failed,
    Skipped,
}

impl Outcome {
    fn of(success: bool) -> Self {
        if success { Self::Done } else { Self::Failed }
    }
}

#[derive(Default)]
struct Run {
    counts: Counts,
    times: Vec<(String, Duration, &'static str)>,
}

impl Run {
    /// Runs one step under a heading. Says whether it succeeded.
    fn step(&mut self, title: &str, work: impl FnOnce(&mut Counts) -> Result<Outcome>) -> bool {
        println!("\n=== {title}");
        let began = Instant::now();
        let failed_before = self.counts.failed;
        let outcome = work(&mut self.counts).unwrap_or_else(|error| {
            println!("{error:#}");
            Outcome::Failed
        });
        let mark = match outcome {
            Outcome::Done => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        match outcome {
            // A test binary has counted its failures; what failed otherwise counts as one.
            Outcome::Failed if self.counts.failed == failed_before => self.counts.failed += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Done | Outcome::Failed => {}
        }
        let took = began.elapsed();
        println!("=== {title}: {mark} in {:.1} s", took.as_secs_f32());
        self.times.push((title.to_owned(), took, mark));
        matches!(outcome, Outcome::Done)
    }

    fn finish(self) -> ExitCode {
        println!();
        for (title, took, mark) in &self.times {
            println!("{:>8.1} s  {mark:<7}  {title}", took.as_secs_f32());
        }
        for name in &self.counts.starved {
            println!("{STARVED_WORDS}: {name}");
        }
        println!("{}", self.counts);
        if self.counts.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// An executable full of tests.
#[derive(Clone, Debug)]
struct TestBinary {
    package: String,
    target: String,
    executable: PathBuf,
    /// The package's folder, in which cargo would run it.
    folder: PathBuf,
    /// How many of its tests run at once; as many as there are cores if it is not said.
    at_once: Option<u8>,
    /// What is in its environment besides ours.
    variables: Vec<(&'static str, &'static str)>,
}

/// Builds all targets of the workspace in one go, by Clippy's driver. Returns its test executables, and how many warnings there are.
///
/// They are run here and not by `cargo test`, since only the heavy ones are to be
/// held back, and since choosing packages would resolve other features and build
/// the dependencies again.
fn build() -> Result<(Vec<TestBinary>, usize)> {
    let compiled = compiled::whole(step::cargo(), &["--features", step::WHOLE])?;
    let mut tests: Vec<TestBinary> = compiled.tests.into_iter().map(TestBinary::of).collect();
    // Light ones first: the same failure is seen sooner there.
    tests.sort_by_key(|test| (test.at_once.is_some(), test.folder.clone(), test.target.clone()));
    Ok((tests, compiled.warnings))
}

/// Fails where there is a warning. They were printed when they were found.
fn without_warnings(warnings: usize) -> Outcome {
    if warnings > 0 {
        println!("{warnings} warnings of rustc and Clippy, above");
    }
    Outcome::of(warnings == 0)
}

/// Packages are named in headings by their folder, where a reader finds them.
fn package_name(folder: &Path) -> String {
    folder
        .strip_prefix(step::root())
        .unwrap_or(folder)
        .display()
        .to_string()
}

impl TestBinary {
    fn of(test: compiled::Test) -> Self {
        let package = package_name(&test.folder);
        let heavy = HEAVY.iter().find(|(heavy, _)| *heavy == package);
        Self {
            at_once: heavy.map(|(_, at_once)| *at_once),
            package,
            target: test.target,
            executable: test.executable,
            folder: test.folder,
            variables: Vec::new(),
        }
    }

    fn title(&self) -> String {
        format!("tests of {} ({})", self.package, self.target)
    }

    /// The same, with one test after another.
    fn one_at_a_time(&self) -> Self {
        Self {
            at_once: Some(1),
            ..self.clone()
        }
    }

    fn run(&self, filter: &[String], counts: &mut Counts) -> Result<Outcome> {
        // Beside us lies what the same build has made.
        let own = std::env::current_exe()?;
        self.run_by(&own.with_file_name("numo"), filter, counts)
    }

    /// Runs the tests with this numo. Those that failed beside others are run again, each alone.
    fn run_by(&self, numo: &Path, filter: &[String], counts: &mut Counts) -> Result<Outcome> {
        let said = counted(self.command(numo, filter), counts)?;
        if said.success || self.at_once.is_none_or(|at_once| at_once == 1) {
            return Ok(Outcome::of(said.success));
        }
        let failed = said.failed;
        if failed.is_empty() || failed.len() > STARVED {
            return Ok(Outcome::Failed);
        }
        println!("\nrun again, one at a time: {}", failed.join(", "));
        let mut words = vec!["--exact".to_owned(), "--include-ignored".to_owned()];
        words.extend(failed.iter().cloned());
        let mut again = Counts::default();
        let alone = counted(self.one_at_a_time().command(numo, &words), &mut again)?;
        // A name that was not read must not pass for that of a test that passed.
        ensure!(
            (again.passed + again.failed) as usize == failed.len()
                && again.failed as usize == alone.failed.len(),
            "not each of them was run again: {again}"
        );
        counts.settle(&failed, &alone.failed);
        Ok(Outcome::of(alone.success))
    }

    /// What runs the tests with this numo.
    fn command(&self, numo: &Path, filter: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env_remove(WRAPPER)
            .args(filter);
        command.env("NUMO_BIN", numo).envs(self.variables.iter().copied());
        command.env("NUMO_RULES", step::root().join(COMPONENTS));
        if let Some(at_once) = self.at_once {
            command.arg(format!("--test-threads={at_once}"));
        }
        command
    }
}

fn doc_tests(filter: &[String], counts: &mut Counts) -> Result<Outcome> {
    let mut command = by_clippy(step::cargo());
    // The profile and the features of the build: with those of tests all libraries would be compiled once more.
    command
        .args(["test", "--quiet", "--workspace", "--doc", "--profile", "dev"])
        .args(["--features", step::WHOLE, "--"])
        .args(filter);
    counted(command, counts).map(|said| Outcome::of(said.success))
}

fn plugins_tests(filter: &[String], counts: &mut Counts) -> Result<Outcome> {
    let mut command = by_clippy(lint::plugins(step::cargo()));
    command
        .args(["test", "--quiet", "--workspace", "--"])
        .args(filter);
    counted(command, counts).map(|said| Outcome::of(said.success))
}

/// Builds every rule that ships, and checks what it imports, its size, and that it names no path of this machine.
fn plugins_components() -> Result<Outcome> {
    step::succeeds(lint::plugins(step::cargo()).arg("components")).map(Outcome::of)
}

/// The Go programs that tests build. Each is checked by its compiler; `go vet` would take minutes for the control plane, as it goes
/// through all of Kubernetes.
const GO_PROGRAMS: [&str; 5] = [
    "tests/control-plane/main.go",
    "tests/e2e/olm/main.go",
    "tests/install/argocd/main.go",
    "tests/install/olm/main.go",
    "tests/plugin/registry/main.go",
];

fn gofmt() -> Result<Outcome> {
    let mut command = Command::new("gofmt");
    command.current_dir(step::root()).arg("-l").args(GO_PROGRAMS);
    let output = command.output().context("run gofmt")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let unformatted = String::from_utf8_lossy(&output.stdout);
    for file in unformatted.lines() {
        println!("not as gofmt writes it: {file}");
    }
    Ok(Outcome::of(unformatted.trim().is_empty()))
}

fn deny(wanted: bool) -> Result<Outcome> {
    if let Some(mut command) = lint::deny_step(wanted)? {
        return step::succeeds(&mut command).map(Outcome::of);
    }
    println!("{}", lint::DENY_IS_MISSING);
    Ok(Outcome::Skipped)
}

fn of_elsewhere(wanted: bool) -> Result<Outcome> {
    if !wanted {
        println!("{}", elsewhere::NOT_ASKED_FOR);
        return Ok(Outcome::Skipped);
    }
    Ok(match elsewhere::check()? {
        elsewhere::Found::Compiles => Outcome::Done,
        elsewhere::Found::Fails(target) => {
            println!("the command line does not compile for {target}");
            Outcome::Failed
        }
        elsewhere::Found::Untried(why) => {
            println!("{why}");
            Outcome::Skipped
        }
    })
}

fn the_book(wanted: bool) -> Result<Outcome> {
    if let Some(is_alive) = book::build(wanted)? {
        return Ok(Outcome::of(is_alive));
    }
    println!("{}", book::IS_MISSING);
    Ok(Outcome::Skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program says to itself it must understand.
    #[test]
    fn the_steps_that_compute_are_asked_for_in_words_it_takes() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(subcommand)]
            task: Task,
        }
        #[derive(clap::Subcommand)]
        enum Task {
            Test(Arguments),
        }
        let arguments = Arguments {
            filter: vec!["drains".to_owned()],
            deny: true,
            book: false,
            all_tools: true,
            without_leases: false,
            every_write: false,
            night: false,
            part: None,
        };
        for part in Part::ALL {
            let words = std::iter::once("xtask".to_owned()).chain(arguments.of_part(part));
            let Task::Test(read) = <Cli as clap::Parser>::parse_from(words).task;
            assert_eq!(read.part, Some(part));
            assert!(read.deny && read.all_tools && !read.book);
            assert_eq!(read.filter, arguments.filter);
        }
    }

    /// Cargo builds a crate anew for each set of features: were this program's others than the tests', `cargo xtask test`
    /// would build wasmtime twice, for ten minutes and gigabytes.
    #[test]
    fn this_program_and_the_tests_share_their_dependencies() {
        let features = |which: &[&str]| {
            let mut cargo = step::cargo();
            cargo.args(["tree", "--locked", "--prefix", "none", "--no-dedupe"]);
            let output = cargo.args(["--format", "{p} {f}"]).args(which).output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines()
                .map(str::to_owned)
                .collect::<std::collections::BTreeSet<_>>()
        };
        let all = features(&[
            "--workspace",
            "--features",
            step::WHOLE,
            "--edges",
            "normal,build,dev",
        ]);
        // The program that has all tasks, and the one that has what the demo needs: they differ in nothing but themselves.
        let whole = [
            "--package",
            "xtask",
            "--edges",
            "normal,build",
            "--features",
            "whole",
        ];
        for words in [&whole[..], &whole[..4]] {
            let ours = features(words);
            let other = ours.difference(&all);
            let other: Vec<_> = other.filter(|line| !line.starts_with("xtask ")).collect();
            assert!(ours.len() > 100 && other.is_empty(), "{words:?}: {other:?}");
        }
    }

    /// Who wants to know why a node waits builds and downloads neither a compiler nor a server for it, on none of its systems.
    #[test]
    fn the_command_line_alone_is_made_of_nothing_that_only_the_operator_runs() {
        for target in [
            "x86_64-unknown-linux-gnu",
            "x86_64-apple-darwin",
            "aarch64-apple-darwin",
            "x86_64-pc-windows-gnu",
        ] {
            let mut cargo = step::cargo();
            cargo.args([
                "tree", "--locked", "--prefix", "none", "--edges", "normal", "--format", "{p}",
            ]);
            cargo.args(["--package", "numo", "--no-default-features", "--target", target]);
            let output = cargo.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let names: std::collections::BTreeSet<&str> = text
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            assert!(names.contains("kube-client"), "{target}: {names:?}");
            for name in [
                "axum",
                "cel",
                "cranelift-codegen",
                "numo-author",
                "numo-credentials",
                "opentelemetry-proto",
                "prometheus-client",
                "prost",
                "rcgen",
                "sigstore-verify",
                "wasmparser",
                "wasmtime",
                "wit-component",
            ] {
                assert!(!names.contains(name), "{target}: {name}");
            }
        }
    }

    /// What decides has no client and no clock, and is built without them.
    #[test]
    fn the_core_and_the_api_are_built_without_a_client() {
        let mut cargo = step::cargo();
        cargo.args([
            "tree", "--locked", "--prefix", "none", "--edges", "normal", "--format", "{p}",
        ]);
        cargo.args(["--package", "numo-core", "--package", "numo-api"]);
        let output = cargo.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().any(|line| line.starts_with("kube-core ")), "{text}");
        for name in [
            "kube ",
            "kube-client ",
            "kube-runtime ",
            "tokio ",
            "hyper ",
            "rustls ",
            "tower ",
        ] {
            assert!(
                !text.lines().any(|line| line.starts_with(name)),
                "{name} in\n{text}"
            );
        }
    }
}
