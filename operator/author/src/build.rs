//! `numo plugin build`: from a crate, a directory of Python or JavaScript, or a core module, to a component that numo would
//! run. Compilers and interpreters are whoever calls it has; it installs and pushes nothing.

use super::{
    engine::{engine, load},
    inspect,
    output::OutputArgs,
    trial::size,
};
use clap::Args;
use numo_cli::CliError;
use numo_plugin::component::{self, Form};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Arguments of `numo plugin build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Directory of a crate or of what else `numo plugin new` writes, or a file with a core module that another toolchain
    /// built
    #[arg(value_name = "DIR|MODULE", default_value = ".")]
    source: PathBuf,
    /// What cargo builds for: wasm32-unknown-unknown imports nothing but numo's interfaces, wasm32-wasip2 also has
    /// standard output and a clock
    #[arg(long, value_name = "TRIPLE", default_value = "wasm32-unknown-unknown")]
    target: String,
    /// Where the component goes [default: NAME.wasm in the directory, MODULE with .component.wasm]
    #[arg(long = "file", value_name = "FILE", alias = "out")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Builds, checks, and prints where it is, how large, and its digest.
pub(crate) async fn build(args: &BuildArgs) -> Result<(), CliError> {
    let (source, usual) = if args.source.is_dir() {
        let found = built(&args.source, &args.target)?;
        let usual = args.source.join(format!("{}.wasm", found.name));
        (found.file, usual)
    } else {
        let stem = args.source.with_extension("component.wasm");
        (args.source.clone(), stem)
    };
    let out = args.out.clone().unwrap_or(usual);
    let bytes = std::fs::read(&source).map_err(file(&source))?;
    if source.ends_with(UNCHECKED) {
        let _ = std::fs::remove_file(&source);
    }
    if component::form(&bytes) == Some(Form::Component) && source == args.source && args.out.is_none() {
        let place = source.display();
        return Err(CliError::Wrong(format!(
            "{place}: found a component already; `numo plugin check` looks at it"
        )));
    }
    let component =
        component::encode(&bytes).map_err(|why| CliError::Wrong(format!("{}: {why}", source.display())))?;
    let loaded = load(&engine()?, &source.display().to_string(), &component).await?;
    std::fs::write(&out, &component).map_err(file(&out))?;
    let bytes = component.len();
    let words = format!("{} {} {}", out.display(), loaded.digest(), size(bytes as u64));
    let mut built = inspect::summary_json(&loaded);
    built["file"] = json!(out.display().to_string());
    built["bytes"] = json!(bytes);
    args.output.say(&words, &built)?;
    eprintln!("{}", inspect::summary(&loaded));
    Ok(())
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> CliError + use<'_> {
    move |source| CliError::File {
        path: path.to_owned(),
        source,
    }
}

/// What was built.
struct Built {
    /// Of the rule.
    name: String,
    file: PathBuf,
}

/// What a toolchain other than cargo writes before it is known to be good.
const UNCHECKED: &str = ".numo-unchecked.wasm";
const WORLD: &str = "wit/world.wit";

/// Has the toolchain of a directory build it.
fn built(folder: &Path, target: &str) -> Result<Built, CliError> {
    let folder = folder.canonicalize().map_err(file(folder))?;
    if folder.join("Cargo.toml").is_file() {
        crate_of(&folder, target)
    } else if folder.join("rule.py").is_file() {
        let tool = Tool {
            name: "componentize-py",
            own: ".venv/bin",
            wanted: "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
        };
        tool.build(&folder, |world| {
            let after = ["componentize", "--stub-wasi", "rule", "-o", UNCHECKED];
            [&["-d", "wit", "-w", world][..], &after].concat()
        })
    } else if folder.join("rule.js").is_file() {
        let tool = Tool {
            name: "componentize-qjs",
            own: "node_modules/.bin",
            wanted: "npm install",
        };
        tool.build(&folder, |world| {
            let after = ["--stub-wasi", "--sync", "-o", UNCHECKED];
            [&["--wit", "wit", "--js", "rule.js", "-n", world][..], &after].concat()
        })
    } else {
        Err(CliError::Wrong(format!(
            "{}: found none of Cargo.toml, rule.py and rule.js; `numo plugin new` makes a directory with one",
            folder.display()
        )))
    }
}

/// A program that makes components from the source of a language.
struct Tool {
    name: &'static str,
    /// Where in the directory it is, if it is not somewhere on the PATH.
    own: &'static str,
    /// How it comes to be there.
    wanted: &'static str,
}

impl Tool {
    fn build(&self, folder: &Path, arguments: impl FnOnce(&str) -> Vec<&str>) -> Result<Built, CliError> {
        let world = folder.join(WORLD);
        let text = std::fs::read_to_string(&world).map_err(file(&world))?;
        let name = world_of(&text).ok_or_else(|| {
            let place = world.display();
            CliError::Wrong(format!(
                "{place}: found no `world NAME {{`, wanted one, named as the rule"
            ))
        })?;
        // What an earlier call left is none of this one's.
        let _ = std::fs::remove_file(folder.join(UNCHECKED));
        let own = folder.join(self.own).join(self.name);
        let program = if own.exists() { own } else { self.name.into() };
        let mut command = Command::new(&program);
        // What it says is talk: data is what we say.
        command
            .current_dir(folder)
            .args(arguments(name))
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        let status = command.status().map_err(|error| {
            let (tool, wanted) = (self.name, self.wanted);
            CliError::Wrong(format!("{tool} cannot be started: {error}; {wanted}"))
        })?;
        if !status.success() {
            return Err(CliError::Wrong(format!("{} failed: {status}", self.name)));
        }
        Ok(Built {
            name: name.to_owned(),
            file: folder.join(UNCHECKED),
        })
    }
}

/// The name of the world that a text in WIT defines. One that could be taken for a word of WIT stands behind a `%`.
fn world_of(text: &str) -> Option<&str> {
    let mut worlds = text.lines().filter_map(|line| line.trim().strip_prefix("world "));
    worlds.find_map(|rest| {
        let name = rest.split_once('{')?.0.trim();
        let name = name.strip_prefix('%').unwrap_or(name);
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(letters))
            .then_some(name)
    })
}

/// Has cargo build the one crate of a directory.
fn crate_of(folder: &Path, target: &str) -> Result<Built, CliError> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(folder)
        .args([
            "build",
            "--release",
            "--lib",
            "--message-format",
            "json-render-diagnostics",
            "--target",
            target,
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    neutral_paths(&mut cargo, folder, target);
    let output = cargo
        .output()
        .map_err(|error| CliError::Wrong(format!("cargo cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(CliError::Wrong(format!(
            "cargo build failed; if the target is missing: rustup target add {target}"
        )));
    }
    let mut all = artifacts(&String::from_utf8_lossy(&output.stdout), folder);
    match (all.pop(), all.is_empty()) {
        (Some(built), true) => Ok(built),
        (None, _) => Err(CliError::Wrong(format!(
            "{}: Cargo.toml makes no component, wanted [lib] crate-type = [\"cdylib\"]",
            folder.display()
        ))),
        (Some(last), false) => {
            let names: Vec<_> = all
                .iter()
                .chain([&last])
                .map(|built| built.name.as_str())
                .collect();
            let names = names.join(", ");
            Err(CliError::Wrong(format!(
                "found several components, {names}; name the directory of one"
            )))
        }
    }
}

/// The WebAssembly files of packages below `folder` that cargo says it made.
fn artifacts(messages: &str, folder: &Path) -> Vec<Built> {
    let built = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let manifest = Path::new(message.get("manifest_path")?.as_str()?);
        let is_library = message
            .pointer("/target/kind")?
            .as_array()?
            .iter()
            .any(|kind| kind == "cdylib");
        if message.get("reason")? != "compiler-artifact" || !is_library || !manifest.starts_with(folder) {
            return None;
        }
        let mut files = message
            .get("filenames")?
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        let file = files.find(|file| Path::new(file).extension().is_some_and(|found| found == "wasm"))?;
        Some(Built {
            // Cargo writes names of libraries with '_'; nobody's image is called so.
            name: message.pointer("/target/name")?.as_str()?.replace('_', "-"),
            file: file.into(),
        })
    };
    messages.lines().filter_map(built).collect()
}

/// The same source gives the same bytes wherever it is built: paths in panic messages become neutral.
fn neutral_paths(cargo: &mut Command, folder: &Path, target: &str) {
    let home = std::env::var("CARGO_HOME").ok();
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo").display().to_string()));
    let mut flags = vec![format!("--remap-path-prefix={}=/rule", folder.display())];
    flags.extend(home.map(|home| format!("--remap-path-prefix={home}=/cargo")));
    // Flags of the environment hide those of cargo's configuration: then ours have to stand with them.
    if let Ok(given) = std::env::var("CARGO_ENCODED_RUSTFLAGS") {
        let given = given
            .split('\x1f')
            .filter(|flag| !flag.is_empty())
            .map(str::to_owned);
        cargo.env(
            "CARGO_ENCODED_RUSTFLAGS",
            given.chain(flags).collect::<Vec<_>>().join("\x1f"),
        );
    } else if let Ok(given) = std::env::var("RUSTFLAGS") {
        let given = given.split_whitespace().map(str::to_owned);
        cargo.env(
            "CARGO_ENCODED_RUSTFLAGS",
            given.chain(flags).collect::<Vec<_>>().join("\x1f"),
        );
    } else {
        let flags: Vec<_> = flags
            .iter()
            .map(|flag| Value::from(flag.as_str()).to_string())
            .collect();
        cargo
            .arg("--config")
            .arg(format!("target.{target}.rustflags=[{}]", flags.join(",")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_named_by_its_world() {
        assert_eq!(
            world_of("package a:b;\n/// world\nworld %disk-check {\n"),
            Some("disk-check")
        );
        assert_eq!(world_of("world rule2{}"), Some("rule2"));
        for wrong in [
            "",
            "package a:b;",
            "world {",
            "world ../a {",
            "world -- a {",
            "world -x {",
        ] {
            assert_eq!(world_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_component_is_found_in_what_cargo_says() {
        let line = |manifest: &str, kind: &str, file: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest,
                "target": {"name": "disk_check", "kind": [kind]}, "filenames": [file],
            })
            .to_string()
        };
        let messages = [
            line("/a/Cargo.toml", "cdylib", "/t/disk_check.wasm"),
            line("/a/Cargo.toml", "rlib", "/t/libdisk_check.rlib"),
            line("/b/Cargo.toml", "cdylib", "/t/other.wasm"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
            "no JSON".to_owned(),
        ];
        let all = artifacts(&messages.join("\n"), Path::new("/a"));
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].name.as_str(), all[0].file.as_path()),
            ("disk-check", Path::new("/t/disk_check.wasm"))
        );
    }
}
