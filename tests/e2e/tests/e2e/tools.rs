//! Rules that toolchains other than cargo's own build: begun by `numo plugin new`, built, and asked the same cases in the
//! sandbox under the limits of any rule. They need Python, Node and minutes: `cargo xtask test --all-tools`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use numo_e2e::{Said, call_in, call_with, cargo_with, crates};
use numo_plugin_tests::programs;
use tokio::task::spawn_blocking;

/// Where a program lies that may have to be installed first.
async fn folder_of(program: fn() -> Result<PathBuf>) -> Result<PathBuf> {
    programs::folder_of(&spawn_blocking(program).await??)
}

fn fine(said: Said) -> Result<Said> {
    ensure!(said.code == Some(0), "{said:?}");
    Ok(said)
}

/// A rule of a language passes the cases of all languages; `wrong` is a line of its source, and one in which something
/// goes wrong.
async fn passes(language: &str, tools: &Path, source: &str, wrong: (&str, &str)) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let new = ["plugin", "new", "disk-check", "--language", language];
    fine(call_in(folder.path(), &new).await?)?;
    let rule = folder.path().join("disk-check");
    let built = fine(call_with(tools, &rule, &["plugin", "build"]).await?)?;
    ensure!(built.out.starts_with("./disk-check.wasm sha256:"), "{built:?}");
    ensure!(
        built.err.contains("disk-check 0.1.0 speaks contract 1.0.0"),
        "{built:?}"
    );
    let left: Vec<_> = std::fs::read_dir(&rule)?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    ensure!(
        !left.iter().any(|name| name == ".numo-unchecked.wasm"),
        "{left:?}"
    );
    let tested = fine(call_in(&rule, &["plugin", "test"]).await?)?;
    ensure!(tested.out.ends_with("5 passed, 0 failed\n"), "{tested:?}");
    // What goes wrong in it is said in its own words, and is no verdict.
    let source = rule.join(source);
    let text = std::fs::read_to_string(&source)?;
    ensure!(text.contains(wrong.0), "{text}");
    std::fs::write(&source, text.replace(wrong.0, wrong.1))?;
    fine(call_with(tools, &rule, &["plugin", "build"]).await?)?;
    let cases = "component: ../disk-check.wasm\ncases:\n  - name: what nobody catches\n    phase: Pre\n    node: \
                 {metadata: {name: w}}\n    expect: {verdict: Error, error: RuleError, summary: so it is}\n";
    std::fs::write(rule.join("tests/odd.yaml"), cases)?;
    fine(call_in(&rule, &["plugin", "test", "tests/odd.yaml"]).await?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python: cargo xtask test --all-tools"]
async fn a_rule_in_python_passes_the_cases_of_the_template() -> Result<()> {
    let tools = folder_of(programs::componentize_py).await?;
    let wrong = (
        "    annotation, problems = parse(given.config_json)",
        "    raise ValueError('so it is')",
    );
    passes("python", &tools, "rule.py", wrong).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Node: cargo xtask test --all-tools"]
async fn a_rule_in_javascript_passes_the_cases_of_the_template() -> Result<()> {
    let tools = folder_of(programs::componentize_qjs).await?;
    let wrong = (
        "  const { annotation, problems } = parse(input.configJson);",
        "  throw new Error('so it is');",
    );
    passes("javascript", &tools, "rule.js", wrong).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "compiles cargo-component: cargo xtask test --all-tools"]
async fn cargo_component_builds_the_template() -> Result<()> {
    let tools = folder_of(programs::cargo_component).await?;
    let folder = tempfile::tempdir()?;
    fine(call_in(folder.path(), &["plugin", "new", "disk-check"]).await?)?;
    let rule = folder.path().join("disk-check");
    // Its own target, and the one without WASI.
    for target in ["wasm32-wasip1", "wasm32-unknown-unknown"] {
        let mut build = vec!["component", "build", "--release"];
        if target != "wasm32-wasip1" {
            build.extend(["--target", target]);
        }
        fine(cargo_with(&tools, &rule, &build).await?)?;
        let component = crates().join(target).join("release/disk_check.wasm");
        let component = component.display().to_string();
        let tested = fine(call_in(&rule, &["plugin", "test", "--component", &component]).await?)?;
        ensure!(
            tested.out.ends_with("5 passed, 0 failed\n"),
            "{target}: {tested:?}"
        );
    }
    Ok(())
}
