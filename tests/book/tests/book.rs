//! The pages of the docs lead somewhere, are in the book, and can be read. mdBook is not needed: `cargo xtask book` builds it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use numo_book::{
    CONFIGURATION, SUMMARY, chapters, dead, dead_in_html, literals, long_rows, pages, root, stage,
};

/// Folders all of whose pages are chapters.
const OF_THE_BOOK: [&str; 2] = ["operator/docs", "operator/adr"];

/// Pages whose tables have wider rows than others may: they hold commands.
const WIDE: [&str; 3] = ["README.md", "deploy/helm/numo/README.md", "deploy/olm/README.md"];

/// As many characters as a row of a table may have: two lines of a terminal.
const WIDEST: usize = 200;

fn all_pages() -> Result<Vec<String>> {
    let root = root();
    let mut all = Vec::new();
    for folder in ["operator", "plugins", "deploy", "wit"] {
        all.extend(pages(&root, folder)?);
    }
    all.extend(
        [
            "README.md",
            "SECURITY.md",
            "CHANGELOG.md",
            ".github/CONTRIBUTING.md",
        ]
        .map(str::to_owned),
    );
    Ok(all)
}

#[test]
fn every_link_of_every_page_leads_somewhere() -> Result<()> {
    let all = all_pages()?;
    assert!(all.len() > 120, "the pages were not read: {}", all.len());
    let wrong = dead(&root(), &all)?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_page_of_the_docs_is_one_chapter_of_the_book() -> Result<()> {
    let root = root();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for chapter in chapters(&root)? {
        *times.entry(chapter).or_default() += 1;
    }
    let mut wrong: Vec<String> = times
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(page, _)| format!("{page}: listed twice"))
        .collect();
    for folder in OF_THE_BOOK {
        let missing = pages(&root, folder)?
            .into_iter()
            .filter(|page| page != SUMMARY && !times.contains_key(page));
        wrong.extend(missing.map(|page| format!("{page}: {SUMMARY} does not list it")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_row_of_a_table_fits_two_lines_of_a_terminal() -> Result<()> {
    let mut wrong = Vec::new();
    for page in all_pages()? {
        let rows = long_rows(&fs::read_to_string(root().join(&page))?, WIDEST);
        if !rows.is_empty() && !WIDE.contains(&page.as_str()) {
            wrong.push(format!(
                "{page}: rows of more than {WIDEST} characters: lines {rows:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Words of our own where Kubernetes has one, and the words that the docs have in their place. Records of decisions and the list of
/// changes stay as they were written.
const OURS: [(&str, &str); 24] = [
    ("let go", "released"),
    ("lets go", "releases"),
    ("let it go", "release it, or end the hold"),
    ("lets it go", "releases it, or ends the hold"),
    ("let a node go", "release a node"),
    ("let the node go", "release the node"),
    ("lets no node go", "releases no node"),
    ("lets no pod go", "allows no eviction"),
    ("give back", "restore"),
    ("gives back", "restores"),
    ("given back", "restored"),
    ("gives it back", "restores it"),
    ("give everything back", "restore everything"),
    ("gives everything back", "restores everything"),
    ("gives every node back", "restores every node"),
    ("person's word", "approval"),
    ("a word of its own", "an approval of its own"),
    ("asked rule", "evaluated rule"),
    ("asked rules", "evaluated rules"),
    ("invited", "permitted"),
    ("lent", "granted"),
    ("mend", "correct, or repair"),
    ("mended", "corrected, or repaired"),
    ("let machine", "released machine"),
];

/// The crates that ship.
const SHIP: [&str; 8] = [
    "operator/api/src",
    "operator/author/src",
    "operator/cli/src",
    "operator/core/src",
    "operator/credentials/src",
    "operator/numo/src",
    "operator/plugin/src",
    "plugins",
];

/// The words of a text, with one space before and after each: markup and ends of lines are no part of a phrase.
fn spaced(text: &str) -> String {
    let is_outside = |next: char| !(next.is_alphanumeric() || "'_".contains(next));
    let words: Vec<&str> = text.split(is_outside).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" ").to_lowercase())
}

#[test]
fn the_docs_have_no_word_of_our_own_where_kubernetes_has_one() -> Result<()> {
    let mut all = Vec::new();
    for folder in ["operator/docs", "operator/adr", "plugins"] {
        all.extend(pages(&root(), folder)?);
    }
    all.extend(
        [
            "CHANGELOG.md",
            "README.md",
            "SECURITY.md",
            ".github/CONTRIBUTING.md",
            ".github/SUPPORT.md",
            "operator/ARCHITECTURE.md",
            "wit/README.md",
            "deploy/kubernetes.yaml",
            "deploy/helm/numo/templates/NOTES.txt",
            "deploy/helm/numo/values.yaml",
            "deploy/helm/numo/README.md",
            "deploy/monitoring/alerts.yaml",
            "deploy/olm/README.md",
            "deploy/olm/base.yaml",
        ]
        .map(str::to_owned),
    );
    assert!(all.len() > 120, "the pages were not read: {}", all.len());
    let mut wrong = Vec::new();
    for page in all {
        let text = spaced(&fs::read_to_string(root().join(&page)).with_context(|| page.clone())?);
        for (ours, better) in OURS {
            if text.contains(&format!(" {ours} ")) {
                wrong.push(format!("{page}: found \"{ours}\", wanted \"{better}\""));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Conditions, events and what the command line says are put together in the code, and no page has them all.
#[test]
fn no_message_has_a_word_of_our_own_where_kubernetes_has_one() -> Result<()> {
    let (mut wrong, mut read) = (Vec::new(), 0);
    let mut folders: Vec<PathBuf> = SHIP.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && !["tests", "target", "conformance"].contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|one| one == "rs") && name != "tests.rs" {
                read += 1;
                let code = fs::read_to_string(&path)?;
                // One word is a name.
                for text in literals(&code).lines().filter(|text| text.contains(' ')) {
                    let spaced = spaced(text);
                    let found = OURS
                        .iter()
                        .filter(|(ours, _)| spaced.contains(&format!(" {ours} ")));
                    wrong.extend(found.map(|(ours, better)| {
                        format!(
                            "{}: \"{text}\": found \"{ours}\", wanted \"{better}\"",
                            path.display()
                        )
                    }));
                }
            }
        }
    }
    assert!(read > 400, "the code was not read: {read}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_phrase_is_found_over_the_end_of_a_line_and_in_no_longer_word() {
    let text = spaced("It *Lets\n  it go*, in silence: `a_let_go`.");
    assert!(text.contains(" lets it go "), "{text}");
    assert!(!text.contains(" lent ") && !text.contains(" let go "), "{text}");
}

/// A book of two chapters, one of which is broken in every way.
fn broken(folder: &Path) -> Result<()> {
    let docs = folder.join("operator/docs");
    fs::create_dir_all(&docs)?;
    fs::create_dir_all(folder.join("examples"))?;
    fs::write(folder.join("examples/one.yaml"), "a: 1\n")?;
    fs::write(folder.join(CONFIGURATION), "[book]\n")?;
    fs::write(
        folder.join(SUMMARY),
        "# Book\n\n- [One](one.md)\n- [Two](two.md)\n",
    )?;
    fs::write(docs.join("outside.md"), "# Outside\n")?;
    fs::write(docs.join("two.md"), "# Two\n\n[good](one.md#here)\n")?;
    let one = "# One\n\n## Here\n\n[a](gone.md) [b](two.md#gone)\n[c](outside.md) [d](../../examples) \
               [e](../../examples/one.yaml) [f](../../../out.md)\n";
    fs::write(docs.join("one.md"), one)?;
    Ok(())
}

#[test]
fn a_dead_link_is_named_with_its_page_and_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    broken(folder.path())?;
    let pages = ["operator/docs/one.md", "operator/docs/two.md"].map(str::to_owned);
    assert_eq!(
        dead(folder.path(), &pages)?,
        [
            "operator/docs/one.md:5: gone.md: no such file",
            "operator/docs/one.md:5: two.md#gone: no such heading",
            "operator/docs/one.md:6: outside.md: a page of the book leads to one that operator/docs/SUMMARY.md does not list",
            "operator/docs/one.md:6: ../../../out.md: leads out of the repository",
        ]
    );
    Ok(())
}

#[test]
fn the_folder_of_the_book_has_the_chapters_and_what_they_lead_to() -> Result<()> {
    let folder = tempfile::tempdir()?;
    broken(folder.path())?;
    fs::write(
        folder.path().join("operator/docs/one.md"),
        "# One\n\n## Here\n\n[all](../../examples), [e](../../examples/one.yaml)\n",
    )?;
    let into = folder.path().join("book");
    assert_eq!(stage(folder.path(), &into)?, 2);
    let summary = fs::read_to_string(into.join("src/SUMMARY.md"))?;
    assert!(summary.contains("(operator/docs/one.md)"), "{summary}");
    let page = fs::read_to_string(into.join("src/operator/docs/one.md"))?;
    assert!(page.ends_with("all, [e](../../examples/one.yaml)\n"), "{page}");
    assert!(into.join("src/examples/one.yaml").is_file());
    Ok(())
}

#[test]
fn a_dead_link_of_the_built_book_is_found() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let page = |name: &str, text: &str| fs::write(folder.path().join(name), text).context("write");
    page(
        "a.html",
        "<h1 id=\"top\"></h1><a href=\"b.html#there\">b</a> <a href=\"b.html#gone\">c</a>",
    )?;
    page(
        "b.html",
        "<p id=\"there\"></p> <img src=\"picture.svg\"> <a href=\"https://example.com/x\">d</a>",
    )?;
    assert_eq!(
        dead_in_html(folder.path())?,
        ["a.html: b.html#gone", "b.html: picture.svg"]
    );
    Ok(())
}
