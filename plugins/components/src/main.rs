//! Builds the rules and the providers of machines for wasm32, makes components of them, and refuses one that imports more than numo's host
//! interfaces or carries a path of this machine. It publishes nothing.
//!
//! `cargo components [NAME…]`, in `plugins/`.

mod component;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The rules and providers that ship.
const COMPONENTS: [&str; 11] = [
    "pdb-headroom",
    "workloads-ready",
    "prometheus-gate",
    "cluster-operators",
    "http-check",
    "node-requirement",
    "provider-gcp",
    "provider-azure",
    "provider-aws",
    "provider-cluster-api",
    "provider-sim",
];
/// What a component may import.
const LENT: [&str; 2] = ["numo:host/", "numo:provider/"];
/// Imports nothing but what is in the contract: a wasip2 build would also import WASI.
const TARGET: &str = "wasm32-unknown-unknown";
/// Largest component that ships. Beyond it a pull and a compile become noticeable.
const MOST_BYTES: usize = 256 * 1024;

fn main() -> Result<()> {
    let asked: Vec<String> = env::args().skip(1).collect();
    if let Some(unknown) = asked.iter().find(|name| !COMPONENTS.contains(&name.as_str())) {
        bail!(
            "no component is called {unknown}; there are {}",
            COMPONENTS.join(", ")
        );
    }
    let rules: Vec<&str> = COMPONENTS
        .into_iter()
        .filter(|rule| asked.is_empty() || asked.iter().any(|name| name == rule))
        .collect();
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the crate has no parent directory")?;
    let modules = build(plugins, &rules)?;
    for (rule, module) in rules.iter().zip(modules) {
        finish(rule, &module)?;
    }
    Ok(())
}

/// Makes the component of one module, checks it, writes it beside and prints a line about it.
fn finish(rule: &str, module: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = component::encode(&bytes).with_context(|| format!("{rule} makes no component"))?;
    let imports = component::imports(&component)?;
    for import in &imports {
        ensure!(
            LENT.iter().any(|lent| import.starts_with(lent)),
            "{rule} imports {import}, which numo does not offer"
        );
    }
    ensure!(
        component.len() <= MOST_BYTES,
        "{rule} has {} bytes, more than {MOST_BYTES}",
        component.len()
    );
    for path in private_paths() {
        ensure!(
            !contains(&component, path.as_bytes()),
            "{rule} carries the path {path}"
        );
    }
    let directory = module
        .parent()
        .context("the module has no directory")?
        .join("components");
    fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{rule}.wasm"));
    fs::write(&file, &component)?;
    let names: Vec<_> = imports
        .iter()
        .filter_map(|import| LENT.iter().find_map(|lent| import.strip_prefix(lent)))
        .collect();
    report(&format!(
        "{rule:18} {:>7} bytes  {}\n{:18} {}",
        component.len(),
        names.join(" "),
        "",
        file.display()
    ));
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what this tool is run for")]
fn report(line: &str) {
    println!("{line}");
}

/// Builds the modules, in the order asked.
fn build(plugins: &Path, rules: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(plugins)
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            TARGET,
            "--message-format",
            "json-render-diagnostics",
        ])
        .env("CARGO_ENCODED_RUSTFLAGS", remappings(plugins).join("\x1f"))
        .stderr(Stdio::inherit());
    for rule in rules {
        cargo.args(["--package", rule]);
    }
    let output = cargo.output().context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "the build failed; is the target there? rustup target add {TARGET}"
    );
    let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    rules
        .iter()
        .map(|rule| module(&messages, rule).with_context(|| format!("no module of {rule}")))
        .collect()
}

fn module(messages: &[Value], rule: &str) -> Option<PathBuf> {
    let name = rule.replace('-', "_");
    messages
        .iter()
        .filter(|message| message.pointer("/target/name").and_then(Value::as_str) == Some(name.as_str()))
        .filter_map(|message| message.get("filenames")?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .find(|file| {
            Path::new(file)
                .extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .map(PathBuf::from)
}

/// The same source gives the same bytes wherever it is built: paths in panic messages become neutral.
fn remappings(plugins: &Path) -> Vec<String> {
    let mut remappings = Vec::new();
    if let Some(home) = cargo_home() {
        remappings.push(format!("--remap-path-prefix={home}=/cargo"));
    }
    if let Some(root) = plugins.parent() {
        remappings.push(format!("--remap-path-prefix={}=/numo", root.display()));
    }
    remappings
}

fn private_paths() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(|root| root.display().to_string());
    cargo_home().into_iter().chain(root).collect()
}

fn cargo_home() -> Option<String> {
    let given = env::var("CARGO_HOME").ok();
    given.or_else(|| env::var("HOME").ok().map(|home| format!("{home}/.cargo")))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
