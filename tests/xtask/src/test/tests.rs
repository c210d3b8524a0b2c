//! What the task says to itself, and what the programs that it builds are made of.

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
        again: true,
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
        assert!(read.again && read.deny && read.all_tools && !read.book);
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

/// The test's name is how it is known that it is left out, and with it that its binary is there.
#[test]
fn the_test_of_the_image_has_the_name_by_which_it_is_known() {
    let (file, name) = binary::OF_IMAGE.split_once("::").unwrap();
    let file = step::root().join(format!(
        "{INSTALLATION}/tests/{}/{file}.rs",
        binary::OF_INSTALLATION
    ));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(&format!("\nfn {name}()")));
    assert!(text.contains("root().join(\"target/image\")"));
}
