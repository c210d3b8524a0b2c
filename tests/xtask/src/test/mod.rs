//! `cargo xtask test`: everything that must hold, in the order in which it fails fastest.

mod binary;
mod kept;
mod key;
mod leases;
mod others;
mod run;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use self::binary::{Plans, TestBinary, build, of_image};
use self::kept::Mode;
use self::leases::OF_LEASES;
use self::others::{
    deny, doc_tests, gofmt, of_elsewhere, plugins_components, plugins_tests, the_book, without_warnings,
};
use self::run::{Outcome, Run};
use crate::beside::Beside;
use crate::{compiled, lint, room, setup, step};

/// Folders of packages whose tests need a control plane, 600 MB and many seconds of both cores to start, and how many run at once at most:
/// what starts control planes lets fewer in where the machine is busy.
const HEAVY: [(&str, u8); 5] = [
    (INSTALLATION, 2),
    ("tests/cluster", 4),
    ("tests/api", 4),
    ("tests/world", 4),
    (END_TO_END, 12),
];

/// The package of the seeded simulation, which takes both cores for minutes and waits for nothing.
const SIMULATION: &str = "tests/sim";

/// The package of the tests of manifests, of what installs them, and of the image: most of them compile, render, and wait for containers.
const INSTALLATION: &str = "tests/install";

/// The package of the end-to-end tests.
const END_TO_END: &str = "tests/e2e";

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Only tests whose name contains one of these; leaves out the linters
    filter: Vec<String>,
    /// Also tests that passed before with the same programs and files; CI=true implies it
    #[arg(long)]
    again: bool,
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
    /// Whether what passed before is left out.
    fn mode(&self) -> Mode {
        let is_fuzzing = std::env::var_os("NUMO_FUZZ_SECONDS").is_some();
        Mode::of(self.again, step::is_ci(), is_fuzzing)
    }

    /// The words by which this program runs a part, for the same filter.
    fn of_part(&self, part: Part) -> Vec<String> {
        let flags = [
            ("--again", self.again),
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
            part(&mut run, Part::Installing, arguments);
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
                let words = arguments.of_part(part);
                beside.push((part, Beside::begin(part.name(), part.niceness(), &words)?));
            }
            Ok(Outcome::Done)
        });
        let is_beside = |test: &&TestBinary| Part::ALL.iter().any(|part| part.has(&test.package));
        let here = tests.iter().filter(|test| !is_beside(test)).cloned().collect();
        Plans::of(&mut run, arguments.mode(), &arguments.filter, here).run(&mut run, &arguments.filter);
        for (part, beside) in beside {
            run.step(&beside.rest(), |counts| {
                let said = beside.end()?;
                counts.add(said.counts);
                Ok(Outcome::of(said.success))
            });
            // What computes leaves a core to those that wait.
            if part == Part::Installing {
                by_the_image(&mut run, arguments, &tests);
            }
        }
        // They find an idle machine.
        by_itself(&mut run, arguments, &tests);
    }
    run.finish()
}

/// The end-to-end tests.
fn end_to_end_tests(tests: &[TestBinary]) -> Option<&TestBinary> {
    tests
        .iter()
        .find(|test| test.package == END_TO_END && test.target == "e2e")
}

/// The main job once more, by the binary that the test of the image left. Where it left none, this fails, and says so.
fn by_the_image(run: &mut Run, arguments: &Arguments, tests: &[TestBinary]) {
    if let Some(test) = end_to_end_tests(tests).filter(|_| arguments.filter.is_empty()) {
        run.step("the main job by the binary of the image", |counts| {
            test.run_by(&of_image(), &["run::".to_owned()], counts)
        });
    }
}

/// The end-to-end tests that are not run among the others. None of them is ever left out since it passed before.
fn by_itself(run: &mut Run, arguments: &Arguments, tests: &[TestBinary]) {
    let Some(test) = end_to_end_tests(tests) else {
        return;
    };
    if arguments.filter.is_empty() || arguments.filter.iter().any(|filter| filter.contains("alone")) {
        run.step("tests that take the whole machine", |counts| {
            test.one_at_a_time()
                .run(&["--ignored".to_owned(), ALONE.to_owned()], counts)
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

/// Runs the tests of a part.
fn part(run: &mut Run, part: Part, arguments: &Arguments) {
    let mut tests = Vec::new();
    if run.step("build", |_| {
        (tests, _) = build()?;
        Ok(Outcome::Done)
    }) {
        tests.retain(|test| part.has(&test.package));
        Plans::of(run, arguments.mode(), &arguments.filter, tests).run(run, &arguments.filter);
    }
}

/// Runs what computes and waits for nothing: the linters, the simulation, the examples of the docs, the tests of the rules.
fn computing(mut run: Run, arguments: &Arguments) -> ExitCode {
    let filter = &arguments.filter;
    part(&mut run, Part::Computing, arguments);
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
