//! Executables with tests: how they are built and run, and which of their tests are left out since they passed before.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use start::WRAPPER;

use super::kept::{self, Keeper, Kept, Left, Listed, Mode, Plan, Which};
use super::key::{Given, Surroundings};
use super::run::{Outcome, Run};
use super::{HEAVY, INSTALLATION};
use crate::counts::{Counts, Said, counted_each};
use crate::{compiled, step};

/// Where `cargo components` puts them.
const COMPONENTS: &str = "target/plugins/wasm32-unknown-unknown/release/components";

/// Where it is written what has passed.
const TESTED: &str = "target/tested";

/// The test of the image, which leaves its binary for the main job.
pub(super) const OF_IMAGE: &str =
    "image::the_image_is_built_pushed_pulled_and_runs_as_any_user_on_a_read_only_root";

/// The target that has it.
pub(super) const OF_INSTALLATION: &str = "install";

/// So many tests of a package in [`HEAVY`] may fail beside others and pass alone. More is a fault of ours, not of a machine that was busy.
const STARVED: usize = 4;

/// An executable full of tests.
#[derive(Clone, Debug)]
pub struct TestBinary {
    pub package: String,
    pub target: String,
    /// Whether it is of a library, a program or tests alone: these may have the same name.
    kind: String,
    executable: PathBuf,
    /// The package's folder, in which cargo would run it.
    folder: PathBuf,
    /// How many of its tests run at once; as many as there are cores if it is not said.
    pub at_once: Option<u8>,
    /// What is in its environment besides ours.
    pub variables: Vec<(&'static str, &'static str)>,
    /// The programs of its package.
    programs: Vec<PathBuf>,
}

/// Builds all targets of the workspace in one go, by Clippy's driver. Returns its test executables, and how many warnings there are.
///
/// They are run here and not by `cargo test`, since only the heavy ones are to be
/// held back, and since choosing packages would resolve other features and build
/// the dependencies again.
pub fn build() -> Result<(Vec<TestBinary>, usize)> {
    let compiled = compiled::whole(step::cargo(), &["--features", step::WHOLE])?;
    let of = |test| TestBinary::of(test, &compiled.programs);
    let mut tests: Vec<TestBinary> = compiled.tests.into_iter().map(of).collect();
    // Light ones first: the same failure is seen sooner there.
    tests.sort_by_key(|test| (test.at_once.is_some(), test.folder.clone(), test.target.clone()));
    Ok((tests, compiled.warnings))
}

/// Packages are named in headings by their folder, where a reader finds them.
fn package_name(folder: &Path) -> String {
    folder
        .strip_prefix(step::root())
        .unwrap_or(folder)
        .display()
        .to_string()
}

/// The program that the same build has made: it lies beside us.
fn numo() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("numo"))
}

/// Where the test of the image leaves its binary.
pub fn of_image() -> PathBuf {
    step::root().join("target/image/numo")
}

impl TestBinary {
    fn of(test: compiled::Test, programs: &[compiled::Program]) -> Self {
        let package = package_name(&test.folder);
        let heavy = HEAVY.iter().find(|(heavy, _)| *heavy == package);
        let own = programs.iter().filter(|program| program.folder == test.folder);
        Self {
            at_once: heavy.map(|(_, at_once)| *at_once),
            package,
            target: test.target,
            kind: test.kind,
            executable: test.executable,
            programs: own.map(|program| program.executable.clone()).collect(),
            folder: test.folder,
            variables: Vec::new(),
        }
    }

    pub fn title(&self) -> String {
        format!("tests of {} ({})", self.package, self.target)
    }

    /// The same, with one test after another.
    pub fn one_at_a_time(&self) -> Self {
        Self {
            at_once: Some(1),
            ..self.clone()
        }
    }

    /// Runs the tests that these words take, whatever passed before, and keeps nothing of it.
    pub fn run(&self, words: &[String], counts: &mut Counts) -> Result<Outcome> {
        self.run_by(&numo()?, words, counts)
    }

    /// The same with this numo.
    pub fn run_by(&self, numo: &Path, words: &[String], counts: &mut Counts) -> Result<Outcome> {
        let ran = self.run_each(numo, words, counts, &mut |_| {})?;
        Ok(Outcome::of(ran.success))
    }

    /// Runs tests with this numo, and tells which of them pass. Those that failed beside others are run again, each alone.
    fn run_each(
        &self,
        numo: &Path,
        words: &[String],
        counts: &mut Counts,
        passes: &mut dyn FnMut(&str),
    ) -> Result<Said> {
        let said = counted_each(self.command(numo, words), counts, passes)?;
        let few = 1..=STARVED;
        if said.success
            || self.at_once.is_none_or(|at_once| at_once == 1)
            || !few.contains(&said.failed.len())
        {
            return Ok(said);
        }
        let failed = said.failed;
        println!("\nrun again, one at a time: {}", failed.join(", "));
        let mut words = vec!["--exact".to_owned(), "--include-ignored".to_owned()];
        words.extend(failed.iter().cloned());
        let mut again = Counts::default();
        let alone = counted_each(self.one_at_a_time().command(numo, &words), &mut again, passes)?;
        // A name that was not read must not pass for that of a test that passed.
        ensure!(
            (again.passed + again.failed) as usize == failed.len()
                && again.failed as usize == alone.failed.len(),
            "not each of them was run again: {again}"
        );
        counts.settle(&failed, &alone.failed);
        Ok(Said {
            ended: said.ended && alone.ended,
            ..alone
        })
    }

    /// What runs the tests with this numo.
    fn command(&self, numo: &Path, words: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env_remove(WRAPPER)
            .args(words);
        command.env("NUMO_BIN", numo).envs(self.variables.iter().copied());
        command.env("NUMO_RULES", step::root().join(COMPONENTS));
        if let Some(at_once) = self.at_once {
            command.arg(format!("--test-threads={at_once}"));
        }
        command
    }

    /// The names of its tests.
    fn listed(&self) -> Result<Listed> {
        let numo = numo()?;
        let ask = |words: &[&str]| -> Result<Vec<String>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let said = self.command(&numo, &words).output();
            let said = said.with_context(|| format!("run {}", self.executable.display()))?;
            ensure!(said.status.success(), "{} lists no tests", self.title());
            Ok(kept::names(&String::from_utf8(said.stdout)?))
        };
        Ok(Listed {
            all: ask(&["--list", "--format", "terse"])?,
            ignored: ask(&["--list", "--format", "terse", "--ignored"])?
                .into_iter()
                .collect(),
        })
    }

    /// Where it is written which of its tests have passed.
    fn file(&self) -> PathBuf {
        let package = self.package.replace('/', "-");
        let name = format!("{package}-{}-{}.json", self.kind, self.target);
        step::root().join(TESTED).join(name)
    }

    /// What one of its tests leaves for what runs after it.
    fn left(&self) -> Option<Left> {
        (self.package == INSTALLATION && self.target == OF_INSTALLATION).then(|| Left {
            by: OF_IMAGE,
            file: of_image(),
        })
    }

    fn planned(&self, mode: Mode, filter: &[String], given: &mut Given) -> Result<Planned> {
        let key = given.key(&self.package, &self.executable, &self.programs)?;
        let (file, left) = (self.file(), self.left());
        let mut kept = Kept::read(&file, &key);
        if let Some(left) = &left {
            kept.of_what_is_there(left);
        }
        let plan = match mode {
            Mode::Again => {
                kept.forget(filter, &file)?;
                Plan::ALL
            }
            Mode::Usual if !kept.passed().is_empty() && kept::is_of_names(filter) => {
                Plan::of(&self.listed()?, filter, kept.passed())
            }
            Mode::Usual | Mode::Fresh => Plan::ALL,
        };
        Ok(Planned {
            test: self.clone(),
            plan,
            keeping: Some(Keeping { kept, file, left }),
        })
    }
}

/// What is kept of an executable, and where.
struct Keeping {
    kept: Kept,
    file: PathBuf,
    left: Option<Left>,
}

/// An executable and which of its tests are run.
pub struct Planned {
    test: TestBinary,
    plan: Plan,
    /// What passes is kept in it; nothing is where nobody knows what the tests are run with.
    keeping: Option<Keeping>,
}

/// Executables, and all that their tests are run with.
pub struct Plans {
    given: Option<Given>,
    planned: Vec<Planned>,
}

impl Plans {
    /// Finds out which tests have passed before with all that they would be run with now. Where that is not known, all are run.
    pub fn of(run: &mut Run, mode: Mode, filter: &[String], tests: Vec<TestBinary>) -> Self {
        let mut plans = Self {
            given: None,
            planned: Vec::new(),
        };
        if mode != Mode::Fresh {
            run.step("what has passed before", |_| {
                let found = numo().and_then(|numo| {
                    let programs = vec![numo, numo_cluster::binary()?, step::root().join(COMPONENTS)];
                    Given::look(&step::root(), &Surroundings::here(programs))
                });
                match found {
                    Ok(mut given) => {
                        plans.planned = planned(mode, filter, &tests, &mut given);
                        plans.given = Some(given);
                    }
                    Err(error) => println!("it is not known, so all are run: {error:#}"),
                }
                Ok(Outcome::Done)
            });
        }
        if plans.given.is_none() {
            plans.planned = tests.into_iter().map(all).collect();
        }
        plans
    }

    /// Runs what is not left out.
    pub fn run(self, run: &mut Run, filter: &[String]) {
        for planned in self.planned {
            let title = format!("{}{}", planned.test.title(), planned.plan.words());
            run.step(&title, |counts| planned.run(filter, self.given.as_ref(), counts));
        }
    }
}

fn planned(mode: Mode, filter: &[String], tests: &[TestBinary], given: &mut Given) -> Vec<Planned> {
    let one = |test: &TestBinary| {
        test.planned(mode, filter, given).unwrap_or_else(|error| {
            println!("{}: not known, so all are run: {error:#}", test.title());
            all(test.clone())
        })
    };
    tests.iter().map(one).collect()
}

/// All tests, of which nothing is kept.
const fn all(test: TestBinary) -> Planned {
    Planned {
        test,
        plan: Plan::ALL,
        keeping: None,
    }
}

impl Planned {
    fn run(&self, filter: &[String], given: Option<&Given>, counts: &mut Counts) -> Result<Outcome> {
        counts.add_before(u32::try_from(self.plan.before)?);
        counts.skipped += u32::try_from(self.plan.ignored)?;
        let words = match &self.plan.which {
            Which::All => filter.to_vec(),
            Which::These(names) if names.is_empty() => return Ok(Outcome::Done),
            Which::These(names) => std::iter::once("--exact")
                .chain(names.iter().map(String::as_str))
                .map(ToOwned::to_owned)
                .collect(),
        };
        if let Some(left) = self.test.left()
            && self.plan.runs(left.by, filter)
        {
            // One of an earlier run would pass for it.
            let _ = std::fs::remove_file(left.file);
        }
        let numo = numo()?;
        let Some((given, keeping)) = given.zip(self.keeping.as_ref()) else {
            return self.test.run_by(&numo, &words, counts);
        };
        let (package, left) = (&self.test.package, keeping.left.as_ref());
        let mut keeper = Keeper::new(given, package, &keeping.file, left, &keeping.kept);
        let mut now = Counts::default();
        let said = self
            .test
            .run_each(&numo, &words, &mut now, &mut |name| keeper.passed(name));
        let ran = (now.passed + now.failed) as usize;
        counts.add(now);
        keeper.end(said.as_ref().is_ok_and(|said| said.ended));
        let success = said?.success;
        if let Which::These(names) = &self.plan.which {
            ensure!(
                !success || ran == names.len(),
                "of {} tests {ran} were run",
                names.len()
            );
        }
        Ok(Outcome::of(success))
    }
}
