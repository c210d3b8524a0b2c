//! What `cargo xtask test --all-tools` runs besides: linters that others wrote.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use crate::step::root;

#[test]
#[ignore = "cargo xtask test --all-tools runs it: its first run builds actionlint with Go"]
fn the_workflows_pass_the_linter_of_workflows() {
    let module = root().join("tests/xtask/actionlint");
    let package = "github.com/rhysd/actionlint/cmd/actionlint";
    let actionlint =
        numo_plugin_tests::programs::go_program(&module, &["go.mod", "go.sum"], package, "actionlint")
            .unwrap();
    let mut actionlint = Command::new(actionlint);
    numo_install::said(
        actionlint
            .current_dir(root())
            .args(["-no-color", "-shellcheck=", "-pyflakes="]),
    )
    .unwrap();
}
