//! Which tests passed with which key, one small file for each test executable below `target/tested`, and which are left out for it. It runs no test.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::key::{self, Given};

/// What is run, and what is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What passed before is left out.
    Usual,
    /// All are run, and what passes is kept.
    Again,
    /// All are run, as if nothing had ever been kept: in CI.
    Fresh,
}

impl Mode {
    /// A variable asks the fuzzers for time, which they had before if the same one asks again.
    pub const fn of(again: bool, is_ci: bool, is_fuzzing: bool) -> Self {
        match (is_ci, again || is_fuzzing) {
            (true, _) => Self::Fresh,
            (false, true) => Self::Again,
            (false, false) => Self::Usual,
        }
    }
}

/// The tests that passed with a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    key: String,
    passed: BTreeSet<String>,
    /// The digest of what one of them left for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl Kept {
    /// What was kept with this key. A file that cannot be read, or is of another key, is as good as none.
    pub fn read(file: &Path, key: &str) -> Self {
        let read = fs::read(file).ok();
        let kept = read.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        kept.filter(|kept| kept.key == key).unwrap_or_else(|| Self {
            key: key.to_owned(),
            ..Self::default()
        })
    }

    /// Another process finds the old file or the new one.
    fn write(&self, file: &Path) -> Result<()> {
        let folder = file.parent().context("a file in a folder")?;
        fs::create_dir_all(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&serde_json::to_vec(self)?)?;
        new.persist(file)?;
        Ok(())
    }

    /// Forgets what is run again before it is run: a run that is ended from outside leaves nothing of it.
    pub fn forget(&mut self, filter: &[String], file: &Path) -> Result<()> {
        self.passed.retain(|name| !fits(name, filter));
        self.write(file)
    }

    /// A test is run again where what it left for others is not there as it left it.
    pub fn of_what_is_there(&mut self, left: &Left) {
        if self.left.is_none() || self.left != key::digest(&left.file) {
            self.passed.remove(left.by);
            self.left = None;
        }
    }

    pub const fn passed(&self) -> &BTreeSet<String> {
        &self.passed
    }
}

/// A file that a test leaves for what runs after it.
#[derive(Clone, Debug)]
pub struct Left {
    /// The test's name.
    pub by: &'static str,
    /// The file.
    pub file: PathBuf,
}

/// The tests of an executable.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    pub all: Vec<String>,
    /// Those of them that are only run when they are asked for.
    pub ignored: BTreeSet<String>,
}

/// Reads what an executable answers to `--list`.
pub fn names(said: &str) -> Vec<String> {
    let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(ToOwned::to_owned).collect()
}

/// Which tests are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that the filter takes, by the words of the filter.
    All,
    /// Those of these names.
    These(Vec<String>),
}

/// What is run of an executable, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub which: Which,
    /// How many are left out since they passed before.
    pub before: usize,
    /// How many the filter takes that are only run when they are asked for, and that the executable is not told of.
    pub ignored: usize,
}

impl Plan {
    /// All that the filter takes.
    pub const ALL: Self = Self {
        which: Which::All,
        before: 0,
        ignored: 0,
    };

    pub fn of(listed: &Listed, filter: &[String], passed: &BTreeSet<String>) -> Self {
        let taken = listed.all.iter().filter(|name| fits(name, filter));
        let (ignored, wanted): (Vec<_>, Vec<_>) = taken.partition(|name| listed.ignored.contains(*name));
        let number = wanted.len();
        let names: Vec<String> = wanted
            .into_iter()
            .filter(|name| !passed.contains(*name))
            .cloned()
            .collect();
        if names.len() == number {
            return Self::ALL;
        }
        Self {
            before: number - names.len(),
            which: Which::These(names),
            ignored: ignored.len(),
        }
    }

    /// Whether a test is run by it.
    pub fn runs(&self, name: &str, filter: &[String]) -> bool {
        match &self.which {
            Which::All => fits(name, filter),
            Which::These(names) => names.iter().any(|one| one == name),
        }
    }

    /// What a heading says of it.
    pub fn words(&self) -> String {
        match &self.which {
            Which::These(names) if names.is_empty() => {
                format!(": all {} left out, passed before", self.before)
            }
            Which::These(names) => {
                let number = self.before + names.len();
                format!(": {} of {number} left out, passed before", self.before)
            }
            Which::All => String::new(),
        }
    }
}

/// Whether a filter is one of names only, as libtest takes them: any of them is enough.
pub fn is_of_names(filter: &[String]) -> bool {
    !filter.iter().any(|word| word.starts_with('-'))
}

fn fits(name: &str, filter: &[String]) -> bool {
    filter.is_empty() || !is_of_names(filter) || filter.iter().any(|word| name.contains(word.as_str()))
}

/// So often what has passed is written while tests run: who ends the run loses no more.
const OFTEN: Duration = Duration::from_secs(20);

/// Keeps what passes in a run.
pub struct Keeper<'g> {
    given: &'g Given,
    package: &'g str,
    file: &'g Path,
    left: Option<&'g Left>,
    kept: Kept,
    /// What was kept before this run.
    before: Kept,
    /// What had passed when all was last seen to be the same.
    sure: Kept,
    written: Instant,
}

impl<'g> Keeper<'g> {
    pub fn new(
        given: &'g Given,
        package: &'g str,
        file: &'g Path,
        left: Option<&'g Left>,
        kept: &Kept,
    ) -> Self {
        Self {
            given,
            package,
            file,
            left,
            kept: kept.clone(),
            before: kept.clone(),
            sure: kept.clone(),
            written: Instant::now(),
        }
    }

    /// A test has passed.
    pub fn passed(&mut self, name: &str) {
        self.kept.passed.insert(name.to_owned());
        if let Some(left) = self.left.filter(|left| left.by == name) {
            self.kept.left = key::digest(&left.file);
        }
        if self.written.elapsed() > OFTEN {
            // At the end it is said why not, once.
            if self.given.is_still(self.package) {
                let _ = self.kept.write(self.file);
                self.sure = self.kept.clone();
            }
            self.written = Instant::now();
        }
    }

    /// The executable has ended; as it should or not, in which case nobody knows what its words were worth.
    pub fn end(self, as_it_should: bool) {
        if self.kept == self.before {
            return;
        }
        let (why, kept) = if !as_it_should {
            ("the executable did not end as tests do", self.before)
        } else if self.given.is_still(self.package) {
            ("", self.kept)
        } else {
            ("files or programs changed in the meantime", self.sure)
        };
        if !why.is_empty() {
            println!("what passed is not kept: {why}");
        }
        if let Err(error) = kept.write(self.file) {
            println!("what passed is not kept: {}: {error:#}", self.file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;
    use crate::test::key::Surroundings;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn listed() -> Listed {
        Listed {
            all: names(
                "plans::one: test\nplans::two: test\nplans::at_night: test\nwaves::one: test\nx: benchmark\n",
            ),
            ignored: set(&["plans::at_night"]),
        }
    }

    #[test]
    fn ci_runs_all_whatever_is_asked_and_who_asks_again_gets_all() {
        assert_eq!(Mode::of(false, false, false), Mode::Usual);
        assert_eq!(Mode::of(true, false, false), Mode::Again);
        assert_eq!(Mode::of(false, false, true), Mode::Again);
        for (again, is_fuzzing) in [(false, false), (true, false), (false, true)] {
            assert_eq!(Mode::of(again, true, is_fuzzing), Mode::Fresh);
        }
    }

    #[test]
    fn what_passed_is_left_out_and_the_others_are_run() {
        let plan = |filter: &[&str], passed: &[&str]| Plan::of(&listed(), &words(filter), &set(passed));
        let these = |names: &[&str], before, ignored| Plan {
            which: Which::These(words(names)),
            before,
            ignored,
        };
        assert_eq!(plan(&[], &[]), Plan::ALL);
        assert_eq!(plan(&[], &["gone::since"]), Plan::ALL);
        assert_eq!(
            plan(&[], &["plans::one"]),
            these(&["plans::two", "waves::one"], 1, 1)
        );
        assert_eq!(plan(&["plans"], &["plans::one"]), these(&["plans::two"], 1, 1));
        assert_eq!(plan(&["waves"], &["plans::one"]), Plan::ALL);
        assert_eq!(
            plan(&["waves", "one"], &["waves::one"]),
            these(&["plans::one"], 1, 0)
        );
        let all = plan(&[], &["plans::one", "plans::two", "waves::one"]);
        assert_eq!(all, these(&[], 3, 1));
        assert_eq!(all.words(), ": all 3 left out, passed before");
        // That it passed at night does not say that it is run by day.
        assert_eq!(plan(&["at_night"], &["plans::at_night"]), Plan::ALL);
    }

    #[test]
    fn a_heading_says_how_many_are_left_out() {
        let plan = Plan::of(&listed(), &[], &set(&["plans::one"]));
        assert_eq!(plan.words(), ": 1 of 3 left out, passed before");
        assert_eq!(Plan::ALL.words(), "");
    }

    #[test]
    fn only_what_was_kept_with_the_same_key_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tested/tests-decide.json");
        let none = |key: &str| Kept::read(&file, key).passed.is_empty();
        assert!(none("key"));
        let kept = Kept {
            key: "key".to_owned(),
            passed: set(&["plans::one"]),
            left: None,
        };
        kept.write(&file).unwrap();
        assert_eq!(Kept::read(&file, "key"), kept);
        assert!(none("another"));
        let half = &fs::read(&file).unwrap()[..20];
        for other in [half, b"", b"[]", b"{\"key\":\"key\"}", b"\xff"] {
            fs::write(&file, other).unwrap();
            assert!(none("key"), "{other:?}");
        }
        kept.write(&file).unwrap();
        assert_eq!(Kept::read(&file, "key"), kept, "it is written over");
    }

    #[test]
    fn what_is_run_again_is_forgotten_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tests.json");
        let mut kept = Kept::read(&file, "key");
        kept.passed = set(&["plans::one", "waves::one"]);
        kept.forget(&words(&["plans"]), &file).unwrap();
        assert_eq!(Kept::read(&file, "key").passed, set(&["waves::one"]));
        let mut of_options = kept.clone();
        of_options
            .forget(&words(&["plans", "--skip", "one"]), &file)
            .unwrap();
        kept.forget(&[], &file).unwrap();
        assert!(kept.passed.is_empty() && of_options.passed.is_empty());
    }

    /// The main job is run by the binary that the test of the image left: by no other.
    #[test]
    fn a_test_is_run_again_where_what_it_left_is_gone_or_another() {
        let folder = tempfile::tempdir().unwrap();
        let left = Left {
            by: "image::built",
            file: folder.path().join("numo"),
        };
        fs::write(&left.file, "numo").unwrap();
        let kept = Kept {
            key: "key".to_owned(),
            passed: set(&["image::built", "helm::installs"]),
            left: key::digest(&left.file),
        };
        let passed = || {
            let mut kept = kept.clone();
            kept.of_what_is_there(&left);
            kept.passed
        };
        assert_eq!(passed(), kept.passed);
        fs::write(&left.file, "another").unwrap();
        assert_eq!(passed(), set(&["helm::installs"]));
        fs::remove_file(&left.file).unwrap();
        assert_eq!(passed(), set(&["helm::installs"]));
    }

    /// Runs an executable of a small repository: which of its tests pass, and how it ends, and then which are kept.
    fn kept_of(run: impl FnOnce(&Path, Keeper<'_>)) -> BTreeSet<String> {
        let folder = tempfile::tempdir().unwrap();
        let mut git = Command::new("git");
        git.args(["init", "--quiet"]).current_dir(folder.path());
        assert!(git.status().unwrap().success());
        fs::write(folder.path().join(".gitignore"), "target/\n").unwrap();
        fs::create_dir(folder.path().join("target")).unwrap();
        let surroundings = Surroundings {
            programs: Vec::new(),
            tools: Vec::new(),
            variables: BTreeMap::new(),
        };
        let given = Given::look(folder.path(), &surroundings).unwrap();
        let file = folder.path().join("target/tests.json");
        let mut before = Kept::read(&file, "key");
        before.passed = set(&["plans::before"]);
        run(
            folder.path(),
            Keeper::new(&given, "tests/decide", &file, None, &before),
        );
        Kept::read(&file, "key").passed
    }

    #[test]
    fn what_passed_in_a_run_is_left_out_of_the_next_and_what_failed_is_run_again() {
        let kept = kept_of(|_, mut keeper| {
            keeper.passed("plans::one");
            keeper.end(true);
        });
        assert_eq!(kept, set(&["plans::before", "plans::one"]));
        let plan = Plan::of(&listed(), &[], &kept);
        assert_eq!(plan.which, Which::These(words(&["plans::two", "waves::one"])));
    }

    #[test]
    fn nothing_is_kept_of_an_executable_that_crashed_or_of_files_that_changed() {
        let before = set(&["plans::before"]);
        let crashed = kept_of(|_, mut keeper| {
            keeper.passed("plans::one");
            keeper.end(false);
        });
        assert_eq!(crashed, before);
        let changed = kept_of(|folder, mut keeper| {
            fs::write(folder.join("new.yaml"), "new").unwrap();
            keeper.passed("plans::one");
            keeper.end(true);
        });
        assert_eq!(changed, before);
        let by_itself = kept_of(|folder, mut keeper| {
            fs::write(folder.join("target/left"), "by a test").unwrap();
            keeper.passed("plans::one");
            keeper.end(true);
        });
        assert_eq!(by_itself.len(), 2);
    }

    /// Who ends a run keeps what had passed by then, but for the last seconds.
    #[test]
    fn what_has_passed_is_written_while_others_run() {
        let killed = kept_of(|_, mut keeper| {
            keeper.written = Instant::now().checked_sub(2 * OFTEN).unwrap();
            keeper.passed("plans::one");
            keeper.passed("plans::two");
        });
        assert_eq!(killed, set(&["plans::before", "plans::one"]));
        let changed_later = kept_of(|folder, mut keeper| {
            keeper.written = Instant::now().checked_sub(2 * OFTEN).unwrap();
            keeper.passed("plans::one");
            fs::write(folder.join("new.yaml"), "new").unwrap();
            keeper.passed("plans::two");
            keeper.end(true);
        });
        assert_eq!(changed_later, set(&["plans::before", "plans::one"]));
    }
}
