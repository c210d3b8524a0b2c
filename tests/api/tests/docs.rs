//! What the tables of the docs name exists: tests, reasons, files. No API server is needed.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use numo_api::Reason;

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The name of every function in the Rust files below a folder.
fn functions(folder: &Path, into: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            functions(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let names = code
                .flat_map(|line| line.split("fn ").skip(1))
                .filter_map(first_word);
            into.extend(names.map(str::to_owned));
        }
    }
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

fn first_word(text: &str) -> Option<&str> {
    words(text).next().filter(|word| !word.is_empty())
}

/// What stands in backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The name of a column, and its cell.
fn column(part: &str) -> Option<(&str, &str)> {
    let (column, words) = part.strip_prefix('*')?.split_once("* ")?;
    Some((if column == "Reason" { "reason" } else { column }, words))
}

/// The columns of a case that stands in a list: `  *Reason* NodeBusy · *ended by* admin · *test* E …`.
fn columns(line: &str) -> Option<Vec<(&str, &str)>> {
    let line = line.strip_prefix("  ")?;
    let is_one = line.starts_with("*Reason* ") || line.starts_with("*test* ");
    is_one.then(|| line.split(" · ").filter_map(column).collect())
}

/// The names of one column, how many there are, and which of them do not exist.
fn names_of(column: &str, cell: &str, tests: &BTreeSet<String>) -> (usize, Vec<String>) {
    let (mut names, mut wrong) = (0, Vec::new());
    match column {
        "reason" => {
            // What joins reasons is written small: "NodeDegraded, then ChangeTimeout".
            let reasons = words(cell).filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
            for word in reasons {
                names += 1;
                if !Reason::ALL.iter().any(|reason| reason.name() == word) {
                    wrong.push(format!("{word}: no reason of numo_api::Reason"));
                }
            }
        }
        "test" => {
            for word in code(cell) {
                names += 1;
                if !tests.contains(word) {
                    wrong.push(format!("{word}: no such fn in operator or tests"));
                }
            }
        }
        _ => {}
    }
    (names, wrong)
}

/// How many names the lists and tables hold, and what is wrong with them, by line.
fn check(text: &str, tests: &BTreeSet<String>, exists: impl Fn(&str) -> bool) -> (usize, Vec<String>) {
    let (mut names, mut wrong) = (0, Vec::new());
    let mut head = Vec::new();
    // A case of a list is open until the line with its reason and test. Other pages have lists of other things.
    let has_cases = text.lines().any(|line| columns(line).is_some());
    let mut is_open = false;
    for (line, number) in text.lines().zip(1..) {
        if let Some(columns) = columns(line) {
            is_open = false;
            for (column, cell) in columns {
                let (more, faults) = names_of(column, cell, tests);
                names += more;
                wrong.extend(faults.iter().map(|fault| format!("line {number}: {fault}")));
            }
        } else if has_cases
            && line.starts_with("- **")
            && line.contains(".** ")
            && std::mem::replace(&mut is_open, true)
        {
            wrong.push(format!(
                "line {number}: the case before it has no reason and no test"
            ));
        }
        let is_path = |word: &&str| {
            ["operator/", "tests/"]
                .iter()
                .any(|folder| word.starts_with(folder))
        };
        for path in code(line).filter(is_path).filter(|path| !exists(path)) {
            wrong.push(format!("line {number}: {path}: no such file or folder"));
        }
        if !line.starts_with('|') {
            head.clear();
            continue;
        }
        let cells = cells(line);
        if head.is_empty() {
            head = cells;
            continue;
        }
        if cells.len() != head.len() {
            let (found, wanted) = (cells.len(), head.len());
            wrong.push(format!("line {number}: found {found} cells, wanted {wanted}"));
            continue;
        }
        for (column, cell) in head.iter().zip(cells) {
            let (more, faults) = names_of(column, cell, tests);
            names += more;
            wrong.extend(faults.iter().map(|fault| format!("line {number}: {fault}")));
        }
    }
    if is_open {
        wrong.push("the last case: no reason and no test".to_owned());
    }
    (names, wrong)
}

#[test]
fn what_the_table_of_cases_names_exists() -> io::Result<()> {
    let mut tests = BTreeSet::new();
    for folder in ["operator", "tests"] {
        functions(&root().join(folder), &mut tests)?;
    }
    let text = fs::read_to_string(root().join("operator/docs/cases.md"))?;
    let (names, wrong) = check(&text, &tests, |path| root().join(path).exists());
    assert!(wrong.is_empty(), "operator/docs/cases.md\n{}", wrong.join("\n"));
    assert!(names > 300, "only {names} names: the tables are not read");
    Ok(())
}

/// The names of the tests of a text: functions under `#[test]` or `#[tokio::test…]`.
fn tests_of(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_next = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_next = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_next) {
            found.extend(first_word(rest));
            is_next = false;
        }
    }
    found
}

/// The tests of every Rust file below a folder.
fn all_tests(folder: &Path, into: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all_tests(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.extend(
                tests_of(&fs::read_to_string(&path)?)
                    .into_iter()
                    .map(str::to_owned),
            );
        }
    }
    Ok(())
}

#[test]
fn every_attack_of_the_threat_model_is_made_by_a_test() -> io::Result<()> {
    let mut tests = BTreeSet::new();
    for folder in ["operator", "tests"] {
        all_tests(&root().join(folder), &mut tests)?;
    }
    let text = fs::read_to_string(root().join("operator/docs/threat-model.md"))?;
    let (names, wrong) = check(&text, &tests, |path| root().join(path).exists());
    assert!(
        wrong.is_empty(),
        "operator/docs/threat-model.md\n{}",
        wrong.join("\n")
    );
    assert!(names > 50, "only {names} names: the tables are not read");
    // And no attack on the sandbox is made that the page does not tell of.
    let attacks = fs::read_to_string(root().join("tests/plugin/tests/attacks.rs"))?;
    let untold: Vec<&str> = tests_of(&attacks)
        .into_iter()
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert_eq!(untold, Vec::<&str>::new());
    Ok(())
}

#[test]
fn what_is_no_test_is_not_taken_for_one() {
    let text = "#[test]\nfn one() {}\nfn two() {}\n    #[tokio::test(flavor = \"multi_thread\")]\n    async fn three() {}\n";
    assert_eq!(tests_of(text), BTreeSet::from(["one", "three"]));
}

#[test]
fn what_does_not_exist_is_named_with_its_line() {
    let text = "`tests/nowhere`\n\n\
                | case | reason | test |\n|---|---|---|\n\
                | a | NodeDegraded, then Nonsense | E `here`, `gone` |\n| b | – |";
    let (names, wrong) = check(text, &BTreeSet::from(["here".to_owned()]), |_| false);
    assert_eq!(names, 4);
    assert_eq!(
        wrong,
        [
            "line 1: tests/nowhere: no such file or folder",
            "line 5: Nonsense: no reason of numo_api::Reason",
            "line 5: gone: no such fn in operator or tests",
            "line 6: found 2 cells, wanted 3",
        ]
    );
    let text = "- **One.** It waits,\n  for long.\n  *Reason* Nonsense · *ended by* admin · *test* C `gone`\n- **Two.** It goes.\n\
                - **Three.** It goes.";
    let (names, wrong) = check(text, &BTreeSet::new(), |_| false);
    assert_eq!(names, 2);
    assert_eq!(
        wrong,
        [
            "line 3: Nonsense: no reason of numo_api::Reason",
            "line 3: gone: no such fn in operator or tests",
            "line 5: the case before it has no reason and no test",
            "the last case: no reason and no test",
        ]
    );
}
