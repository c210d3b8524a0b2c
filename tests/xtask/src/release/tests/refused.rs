//! What stops a release, and in which words.

use std::{fs, path::Path, process::Command};

use numo_install::said;

use super::{
    super::{
        Arguments, Facts, archive,
        binary::{self, Binary, Platform},
        notes,
        publisher::{self, Publisher},
        ready,
    },
    PUBLISHER, REGISTRY, built, fault, made, version,
};
use crate::step::root;

#[test]
fn a_publisher_that_is_not_whole_is_refused_by_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("publisher.yaml");
    let found = fault(Publisher::read(&path));
    assert!(found.contains("publisher.yaml: No such file"), "{found}");
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        Publisher::read(&path)
    };
    for (from, to, words) in [
        (
            "email: ada@numo.internal\n",
            "",
            "publisher.yaml: email: nothing is there",
        ),
        (
            "organisation: Ada's Nodes",
            "organisation: ''",
            "publisher.yaml: organisation: nothing is there",
        ),
        (
            "email: ada@numo.internal",
            "email: ada",
            "publisher.yaml: email: found ada, wanted an e-mail address",
        ),
        ("docs: https", "docs: http", "publisher.yaml: docs: found http:"),
        (
            REGISTRY,
            "https://registry",
            "publisher.yaml: registry: found https://registry",
        ),
        (
            "security:",
            "nickname: x\nsecurity:",
            "publisher.yaml: nickname: no such field",
        ),
        (
            "artifacthub: 6f1d7c52",
            "artifacthub: numo",
            "publisher.yaml: artifacthub: found numo-90a4-",
        ),
    ] {
        let found = fault(read(&PUBLISHER.replace(from, to)));
        assert!(found.contains(words), "{words} is not in: {found}");
    }
    assert_eq!(read(PUBLISHER).unwrap().placeholders("x"), Vec::<String>::new());
    // A publisher need not be at Artifact Hub.
    let without = PUBLISHER.split_once("artifacthub:").unwrap().0;
    assert_eq!(read(without).unwrap().placeholders("x"), Vec::<String>::new());
}

/// The file that is checked in names nobody, and each field of it says so.
#[test]
fn a_placeholder_stops_a_release_and_no_dry_run() {
    let placeholders = Publisher::read(&root().join(publisher::FILE))
        .unwrap()
        .placeholders("deploy/publisher.yaml");
    assert_eq!(placeholders.len(), 10, "{placeholders:#?}");
    let found = fault(crate::release::run(&Arguments {
        profile: "dev".to_owned(),
        ..Arguments::default()
    }));
    assert!(
        found.starts_with("deploy/publisher.yaml: docs: https://numo.example/docs is a placeholder"),
        "{found}"
    );
    // One that a publisher writes is found as well, by its domain.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("publisher.yaml");
    fs::write(
        &path,
        PUBLISHER.replace("ada@numo.internal", "ada@nodes.example.com"),
    )
    .unwrap();
    let found = Publisher::read(&path).unwrap().placeholders("file");
    assert_eq!(
        found,
        ["file: email: ada@nodes.example.com is a placeholder, wanted an e-mail address"]
    );
    // One that is packed is seen too.
    let packed = tempfile::tempdir().unwrap();
    fs::write(
        packed.path().join("Chart.yaml"),
        "name: numo\nhome: https://numo.example\n",
    )
    .unwrap();
    let archive = archive::gzip(&archive::tar(packed.path(), 0).unwrap()).unwrap();
    fs::write(packed.path().join("numo.tgz"), archive).unwrap();
    let found = fault(ready::has_no_placeholder(packed.path(), &["numo.tgz".to_owned()]));
    assert!(
        found.starts_with("numo.tgz: Chart.yaml:2: numo.example"),
        "{found}"
    );
    // Files that people and GitHub read where they are.
    let by_hand = ready::BY_HAND.map(ToOwned::to_owned);
    for file in &by_hand {
        let found = fault(ready::has_no_placeholder(&root(), std::slice::from_ref(file)));
        assert!(found.starts_with(&format!("{file}:")), "{found}");
    }
}

#[test]
fn a_changed_tree_a_missing_tag_and_stale_pages_stop_a_release() {
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder.path()).args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ]);
        said(git.args(arguments)).unwrap()
    };
    git(&["init", "--quiet"]);
    fs::write(folder.path().join("made.yaml"), "as made").unwrap();
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "one"]);
    ready::is_clean(folder.path()).unwrap();
    assert!(fault(ready::is_tagged(folder.path(), "0.1.0")).contains("found no tag, wanted the tag v0.1.0"));
    git(&["tag", "v0.1.0"]);
    ready::is_tagged(folder.path(), "0.1.0").unwrap();
    assert!(fault(ready::is_tagged(folder.path(), "0.2.0")).contains("found v0.1.0, wanted the tag v0.2.0"));
    let made = [("made.yaml".to_owned(), "as made".to_owned())].into();
    ready::is_fresh(folder.path(), &made, "cargo xtask manifests").unwrap();
    fs::write(folder.path().join("made.yaml"), "by hand").unwrap();
    let found = fault(ready::is_fresh(folder.path(), &made, "cargo xtask manifests"));
    assert!(
        found.starts_with("made.yaml: stale") && found.contains("`cargo xtask manifests`"),
        "{found}"
    );
    let found = fault(ready::is_clean(folder.path()));
    assert!(found.starts_with("made.yaml: changed"), "{found}");
    // So are all definitions, those that are installed where they are asked for too.
    let definitions = ready::definitions().unwrap();
    ready::is_fresh(&root(), &definitions, "cargo xtask crds").unwrap();
    assert!(
        definitions
            .keys()
            .any(|path| path.ends_with("_nodeversions.yaml")),
        "{definitions:?}"
    );
    // Who downloads a release reads no page that denies it.
    let readme = folder.path().join("README.md");
    fs::write(&readme, "# numo\n\nalpha, no release yet\n").unwrap();
    let found = fault(ready::is_announced(folder.path(), "0.1.0"));
    assert!(found.starts_with("README.md:3: found"), "{found}");
    fs::write(&readme, "# numo\n\nalpha\n").unwrap();
    ready::is_announced(folder.path(), "0.1.0").unwrap();
}

#[test]
fn a_program_that_is_not_what_it_is_for_is_refused() {
    let made = made();
    let read = |platform, path: &Path, version: &str| {
        fault(
            Binary {
                platform,
                path: path.to_owned(),
            }
            .read(version)
            .map(|_| ()),
        )
    };
    let found = read(Platform::LinuxArm64, &made.program, version());
    assert!(
        found.ends_with("found a program for linux/amd64, wanted one for linux/arm64"),
        "{found}"
    );
    let found = read(Platform::LinuxAmd64, &made.program, "9.9.9");
    assert!(
        found.ends_with(&format!("found numo {}, wanted numo 9.9.9", version())),
        "{found}"
    );
    let found = read(Platform::LinuxAmd64, &built().join("numo"), version());
    assert!(found.contains("it needs libraries beside it"), "{found}");
    let found = read(Platform::LinuxAmd64, &root().join("LICENSE"), version());
    assert!(
        found.ends_with("no program, wanted one for linux/amd64"),
        "{found}"
    );
    let found = fault("windows/amd64=x".parse::<Binary>());
    assert!(found.contains("found platform windows/amd64"), "{found}");
    // A folder with something else in it is not emptied.
    let found = fault(crate::release::is_free(&root().join("deploy")));
    assert!(found.contains("files are there that are no release"), "{found}");
}

/// `numo version` says what a program was built from, and a release is of one commit.
#[test]
fn a_program_records_the_commit_that_it_is_built_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("publisher.yaml");
    fs::write(&path, PUBLISHER).unwrap();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let facts = |is_dirty| Facts {
        version: version().to_owned(),
        publisher: Publisher::read(&path).unwrap(),
        commit: commit.to_owned(),
        is_dirty,
        when: 1_700_000_000,
        dry_run: false,
    };
    let told = |is_dirty| -> Vec<String> {
        let command = binary::compile(Platform::LinuxAmd64, "release", &facts(is_dirty)).unwrap();
        ["NUMO_COMMIT", "NUMO_BUILD_DATE"]
            .iter()
            .map(|name| {
                let mut all = command.get_envs();
                let found = all.find_map(|(key, value)| value.filter(|_| key == *name));
                found.unwrap().to_string_lossy().into_owned()
            })
            .collect()
    };
    // Where there is no image, the program is the command line alone.
    for platform in Platform::ALL {
        let call = binary::compile(platform, "release", &facts(false)).unwrap();
        assert!(call.get_args().take(2).eq(["auditable", "build"]), "{platform}");
        let is_alone = call.get_args().any(|word| word == "--no-default-features");
        assert_eq!(is_alone, !platform.has_image(), "{platform}");
    }
    assert_eq!(told(false), [commit, "2023-11-14T22:13:20Z"]);
    assert_eq!(told(true)[0], format!("{commit}-dirty"));
    for (program, is_of_it) in [
        (format!("\u{7f}ELF {commit} 2023 .dep-v0"), true),
        (format!("\u{7f}ELF {commit} 2023"), false),
        (format!("\u{7f}ELF {commit}-dirty .dep-v0"), false),
        ("\u{7f}ELF not recorded .dep-v0".to_owned(), false),
    ] {
        let missing = crate::release::missing(&[(Platform::LinuxAmd64, program.into_bytes())], commit);
        let named = missing
            .iter()
            .any(|one| one.contains("in the program for linux/amd64"));
        assert_eq!(named, !is_of_it, "{missing:?}");
    }
}

#[test]
fn the_changelog_is_sorted_by_what_it_asks_of_a_reader() {
    let section = notes::section(&root().join("CHANGELOG.md"), notes::UNRELEASED).unwrap();
    for heading in notes::HEADINGS {
        assert!(section.contains(&format!("### {heading}\n\n- ")), "{heading}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("CHANGELOG.md");
    let of = |text: &str| {
        fs::write(&path, text).unwrap();
        notes::section(&path, "0.2.0")
    };
    assert!(fault(of("## Unreleased\n")).ends_with("there is no section 0.2.0"));
    assert!(fault(of("## 0.2.0\n\n- new\n")).contains("CHANGELOG.md:3: an entry stands below none"));
    assert!(fault(of("## 0.2.0\n\n### News\n\n- new\n")).contains("CHANGELOG.md:3: found heading News"));
    assert!(
        fault(of("## 0.2.0\n### Fixed\n- a\n### Added\n- b\n"))
            .contains(":4: Added stands twice, or not in the order")
    );
    assert_eq!(
        of("## 0.2.0\n### Added\n- b\n## 0.1.0\n### Fixed\n- a\n").unwrap(),
        "### Added\n- b"
    );
}
