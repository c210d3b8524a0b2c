//! What a test executable is made of and tested with, in one number: its bytes, the programs it is given, the versions of the tools that tests
//! start, variables, and the files of the repository. It runs git, to be told which files those are; it decides nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

/// A change of what is counted, or how, makes all that was kept another's.
const FORMAT: &str = "1";

/// The packages of which no test reads Rust source when it runs, but what lies at these paths: all other `*.rs` count by the executables that
/// are made of them. For every other package all files of the repository count.
///
/// Rules and guests are built from `plugins` while tests run. A test of this file looks for what else is named.
const OF_COMPILED_RUST: [(&str, &[&str]); 5] = [
    ("tests/cluster", &["tests/cluster/"]),
    ("tests/decide", &["tests/decide/"]),
    (
        "tests/e2e",
        &[
            "plugins/",
            "tests/e2e/",
            "tests/install/tests/install/helm.rs",
            "tests/xtask/src/release/tests/contents.rs",
        ],
    ),
    ("tests/sim", &["tests/sim/"]),
    ("tests/world", &["plugins/", "tests/world/"]),
];

/// The variables that tests, or the compilers that they start, look at. Those that begin with `NUMO_` count as well.
const VARIABLES: [&str; 14] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "GOFLAGS",
    "GOGC",
    "HOME",
    "KUBEBUILDER_ASSETS",
    "PATH",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "SOURCE_DATE_EPOCH",
    "UPDATE",
    "XDG_CACHE_HOME",
];

/// The tools whose versions are asked for.
const TOOLS: [(&str, &[&str]); 3] = [("cargo", &["-vV"]), ("rustc", &["-vV"]), ("go", &["version"])];

/// A digest of parts. Each has its name and its length before it: what ends one is not what begins the next.
struct Parts(Sha256);

impl Parts {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn add(&mut self, name: &[u8], content: &[u8]) {
        for part in [name, content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn done(self) -> String {
        hex(self.0)
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The files of the repository, tracked or not, but for those that it ignores: what is in each, and its mode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files(BTreeMap<PathBuf, String>);

impl Files {
    fn read(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root)
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
        let said = git.output().context("run git")?;
        ensure!(
            said.status.success(),
            "git ls-files: {}",
            String::from_utf8_lossy(&said.stderr).trim()
        );
        let names = said.stdout.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        names
            .map(|name| {
                let name = PathBuf::from(OsStr::from_bytes(name));
                let of = of_path(&root.join(&name)).with_context(|| name.display().to_string())?;
                Ok((name, of))
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Those that count for the tests of a package.
    fn digest(&self, package: &str) -> String {
        let mut parts = Parts::new();
        for (path, of) in self.0.iter().filter(|(path, _)| does_count(path, package)) {
            parts.add(path.as_os_str().as_bytes(), of.as_bytes());
        }
        parts.done()
    }
}

/// Whether a file of the repository counts for the tests of a package, besides the executables.
fn does_count(path: &Path, package: &str) -> bool {
    let list = OF_COMPILED_RUST.iter().find(|(of, _)| *of == package);
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let is_read = |read: &&str| path.as_os_str().as_bytes().starts_with(read.as_bytes());
    !is_rust || list.is_none_or(|(_, read)| read.iter().any(is_read))
}

/// What lies at a path: nothing, where it was deleted and git knows it still.
fn of_path(path: &Path) -> Result<String> {
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok("absent".to_owned()),
        Err(error) => return Err(error.into()),
    };
    let mode = data.permissions().mode();
    if data.is_symlink() {
        let to = fs::read_link(path)?;
        let mut parts = Parts::new();
        parts.add(b"link", to.as_os_str().as_bytes());
        return Ok(parts.done());
    }
    if !data.is_file() {
        bail!("git does not tell what is in it");
    }
    Ok(format!("{mode:o} {}", of_file(path)?))
}

fn of_file(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut some = vec![0; 1 << 20];
    loop {
        match file.read(&mut some)? {
            0 => return Ok(hex(hash)),
            read => hash.update(&some[..read]),
        }
    }
}

/// By this a program that is replaced is told from the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(data: &Metadata) -> Self {
        Self {
            inode: data.ino(),
            length: data.len(),
            changed: (data.mtime(), data.mtime_nsec()),
        }
    }
}

/// Programs and components that were read.
#[derive(Default)]
struct Programs(BTreeMap<PathBuf, (Stamp, String)>);

impl Programs {
    fn of(&mut self, path: &Path) -> Result<String> {
        if let Some((_, of)) = self.0.get(path) {
            return Ok(of.clone());
        }
        let (data, of) = fs::metadata(path)
            .map_err(anyhow::Error::from)
            .and_then(|data| Ok((data, of_file(path)?)))
            .with_context(|| format!("read {}", path.display()))?;
        self.0.insert(path.to_owned(), (Stamp::of(&data), of.clone()));
        Ok(of)
    }

    fn are_still(&self) -> bool {
        let is_still = |(path, (stamp, _)): (&PathBuf, &(Stamp, String))| {
            fs::metadata(path).is_ok_and(|data| Stamp::of(&data) == *stamp)
        };
        self.0.iter().all(is_still)
    }
}

/// What all test executables are given.
pub struct Surroundings {
    /// numo, the control plane, the components of plugins: files, or folders of files.
    pub programs: Vec<PathBuf>,
    /// What tools say of themselves.
    pub tools: Vec<String>,
    /// The variables that count.
    pub variables: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    /// As they are here, with these programs.
    pub fn here(programs: Vec<PathBuf>) -> Self {
        Self {
            programs,
            tools: TOOLS.iter().map(|(tool, words)| version(tool, words)).collect(),
            variables: that_count(std::env::vars_os()),
        }
    }
}

fn version(tool: &str, words: &[&str]) -> String {
    let said = Command::new(tool).args(words).output();
    let said = said.map_or_else(|_| Vec::new(), |said| said.stdout);
    format!("{tool}: {}", String::from_utf8_lossy(&said))
}

fn that_count(variables: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
    variables
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.starts_with("NUMO_") || VARIABLES.contains(&&*name)
        })
        .collect()
}

/// Everything that tests are run with, as it was before the first of them ran.
pub struct Given {
    root: PathBuf,
    files: Files,
    programs: Programs,
    shared: String,
}

impl Given {
    /// Reads all of it.
    ///
    /// # Errors
    /// There is no git or no repository, or a program is not there: nobody knows then whether it is the same.
    pub fn look(root: &Path, surroundings: &Surroundings) -> Result<Self> {
        let mut programs = Programs::default();
        let mut parts = Parts::new();
        for path in &surroundings.programs {
            for file in files_in(path)? {
                let name = file.file_name().unwrap_or_default();
                parts.add(name.as_bytes(), programs.of(&file)?.as_bytes());
            }
        }
        for tool in &surroundings.tools {
            parts.add(b"tool", tool.as_bytes());
        }
        for (name, value) in &surroundings.variables {
            parts.add(name.as_bytes(), value.as_bytes());
        }
        Ok(Self {
            root: root.to_owned(),
            files: Files::read(root)?,
            programs,
            shared: parts.done(),
        })
    }

    /// The key of an executable with tests of a package, which has programs of its own.
    pub fn key(&mut self, package: &str, executable: &Path, own: &[PathBuf]) -> Result<String> {
        let mut parts = Parts::new();
        parts.add(b"format", FORMAT.as_bytes());
        parts.add(b"executable", self.programs.of(executable)?.as_bytes());
        for program in own {
            let name = program.file_name().unwrap_or_default();
            parts.add(name.as_bytes(), self.programs.of(program)?.as_bytes());
        }
        parts.add(b"shared", self.shared.as_bytes());
        parts.add(b"files", self.files.digest(package).as_bytes());
        Ok(parts.done())
    }

    /// Whether all that counts for a package is as it was when it was looked at: else nobody knows what a test that has passed since was run with.
    pub fn is_still(&self, package: &str) -> bool {
        self.programs.are_still()
            && Files::read(&self.root).is_ok_and(|files| files.digest(package) == self.files.digest(package))
    }
}

/// The digest of one file, where it can be read.
pub fn digest(file: &Path) -> Option<String> {
    of_file(file).ok()
}

/// A file itself, or all files of a folder by their names.
fn files_in(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        files.extend(Some(entry?.path()).filter(|path| path.is_file()));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a program beside it.
    struct Small {
        folder: tempfile::TempDir,
        surroundings: Surroundings,
    }

    impl Small {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir_all(at("repository/tests/decide")).unwrap();
            fs::create_dir_all(at("repository/operator/core")).unwrap();
            let small = Self {
                surroundings: Surroundings {
                    programs: vec![at("numo"), at("components")],
                    tools: vec!["rustc 1.95".to_owned()],
                    variables: BTreeMap::new(),
                },
                folder,
            };
            fs::create_dir(small.at("components")).unwrap();
            for (name, text) in [
                ("numo", "numo"),
                ("components/rule.wasm", "rule"),
                ("executable", "tests"),
                ("own", "own"),
                ("repository/.gitignore", "target/\n"),
                ("repository/README.md", "read me"),
                ("repository/operator/core/lib.rs", "// core"),
                ("repository/tests/decide/lib.rs", "// decide"),
            ] {
                small.write(name, text);
            }
            let mut git = Command::new("git");
            git.args(["init", "--quiet"]).current_dir(small.root());
            assert!(git.status().unwrap().success());
            small.git(&["add", "."]);
            small
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn root(&self) -> PathBuf {
            self.at("repository")
        }

        fn git(&self, words: &[&str]) {
            let mut git = Command::new("git");
            assert!(
                git.args(words)
                    .current_dir(self.root())
                    .status()
                    .unwrap()
                    .success()
            );
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.at(name), text).unwrap();
        }

        fn key_of(&self, package: &str) -> String {
            let mut given = Given::look(&self.root(), &self.surroundings).unwrap();
            given
                .key(package, &self.at("executable"), &[self.at("own")])
                .unwrap()
        }

        fn key(&self) -> String {
            self.key_of("tests/install")
        }

        /// A file with another content makes another key, and with the first one the first key.
        fn counts(&self, name: &str) {
            let (before, kept) = (self.key(), fs::read(self.at(name)).unwrap());
            self.write(name, "another");
            assert_ne!(self.key(), before, "{name}");
            fs::write(self.at(name), kept).unwrap();
            assert_eq!(self.key(), before, "{name}");
        }
    }

    #[test]
    fn a_byte_of_what_is_run_or_read_makes_another_key() {
        let small = Small::new();
        for name in [
            "executable",
            "own",
            "numo",
            "components/rule.wasm",
            "repository/README.md",
            "repository/operator/core/lib.rs",
        ] {
            small.counts(name);
        }
        let mut small = small;
        let before = small.key();
        small.surroundings.tools = vec!["rustc 1.96".to_owned()];
        assert_ne!(small.key(), before);
    }

    #[test]
    fn files_that_git_does_not_know_yet_count_and_those_it_ignores_do_not() {
        let small = Small::new();
        let before = small.key();
        fs::create_dir(small.at("repository/target")).unwrap();
        small.write("repository/target/left", "by a test");
        assert_eq!(small.key(), before);
        small.write("repository/new.yaml", "new");
        let with = small.key();
        assert_ne!(with, before);
        small.git(&["add", "."]);
        assert_eq!(small.key(), with, "git add changes no file");
        fs::remove_file(small.at("repository/new.yaml")).unwrap();
        assert_ne!(small.key(), with, "a deleted file is another state");
    }

    #[test]
    fn a_mode_counts() {
        let small = Small::new();
        let before = small.key();
        let file = small.at("repository/README.md");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(small.key(), before);
    }

    /// An executable that is made of a file counts it by itself; who reads it when the tests run counts the file.
    #[test]
    fn rust_source_counts_where_tests_read_it() {
        let small = Small::new();
        let of = |package: &str| small.key_of(package);
        let (decide, install) = (of("tests/decide"), of("tests/install"));
        small.write("repository/operator/core/lib.rs", "// another");
        assert_eq!(of("tests/decide"), decide);
        assert_ne!(of("tests/install"), install);
        small.write("repository/tests/decide/lib.rs", "// another");
        assert_ne!(of("tests/decide"), decide);
        for (path, counts) in [
            ("plugins/sdk/src/lib.rs", true),
            ("tests/e2e/tests/e2e/commands.rs", true),
            ("tests/install/tests/install/helm.rs", true),
            ("README.md", true),
            ("tests/sim/src/lib.rs", false),
        ] {
            assert_eq!(does_count(Path::new(path), "tests/e2e"), counts, "{path}");
        }
    }

    /// What a test names it may read: that must count.
    #[test]
    fn rust_source_that_a_test_names_counts() {
        let root = crate::step::root();
        let files = Files::read(&root).unwrap();
        let mut named = 0;
        for (package, _) in OF_COMPILED_RUST {
            let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
            let own = files
                .0
                .keys()
                .filter(|path| path.starts_with(package) && is_rust(path));
            for file in own {
                let text = fs::read_to_string(root.join(file)).unwrap_or_default();
                for path in text.split('"').map(Path::new).filter(|path| is_rust(path)) {
                    if files.0.contains_key(path) {
                        named += 1;
                        assert!(
                            does_count(path, package),
                            "{}: {}",
                            file.display(),
                            path.display()
                        );
                    }
                }
            }
        }
        assert!(named > 0, "the pages that other tests run are named");
    }

    #[test]
    fn variables_of_numo_and_of_compilers_count() {
        let of = |names: &[&str]| that_count(names.iter().map(|name| ((*name).into(), "x".into()))).len();
        assert_eq!(of(&["NUMO_SEEDS", "RUSTFLAGS", "SHLVL", "TERM"]), 2);
        let mut small = Small::new();
        let before = small.key();
        let variable = ("NUMO_SEEDS".into(), "7".into());
        small.surroundings.variables.extend([variable]);
        assert_ne!(small.key(), before);
    }

    #[test]
    fn a_change_in_mid_run_is_seen() {
        let small = Small::new();
        let look = || {
            let mut given = Given::look(&small.root(), &small.surroundings).unwrap();
            given.key("tests/decide", &small.at("executable"), &[]).unwrap();
            given
        };
        let given = look();
        assert!(given.is_still("tests/decide"));
        small.write("repository/operator/core/lib.rs", "// another");
        assert!(given.is_still("tests/decide") && !given.is_still("tests/install"));
        small.write("repository/README.md", "another");
        assert!(!given.is_still("tests/decide"));
        let given = look();
        assert!(given.is_still("tests/decide"));
        small.write("numo", "another numo");
        assert!(!given.is_still("tests/decide"));
    }

    #[test]
    fn without_a_repository_or_a_program_there_is_no_key() {
        let small = Small::new();
        let look = |surroundings: &Surroundings, root: &Path| Given::look(root, surroundings).is_err();
        assert!(!look(&small.surroundings, &small.root()));
        assert!(look(&small.surroundings, &small.at("nowhere")));
        fs::remove_file(small.at("numo")).unwrap();
        assert!(look(&small.surroundings, &small.root()));
    }
}
