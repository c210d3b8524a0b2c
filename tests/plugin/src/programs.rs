//! Programs that tests run: from the machine, from Debian's packages without installing them, from package registries, or
//! built once. They are kept outside `target`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// An installed program, or the one in Debian's package of the same name. Blocks, the first time for seconds.
pub fn debian(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_file());
    if let Some(program) = installed {
        return Ok(program);
    }
    cached(name, |folder| {
        unpacked(folder, name)?;
        Ok(folder.join("unpacked/usr/bin").join(name))
    })
}

/// A shared library that a program of Debian needs, by its package and the beginning of its file's name; from the package
/// without installing it. Blocks, the first time for seconds.
pub fn debian_library(package: &str, file: &str) -> Result<PathBuf> {
    cached(package, |folder| {
        unpacked(folder, package)?;
        let libraries =
            fs::read_dir(folder.join("unpacked/usr/lib"))?.filter_map(|entry| Some(entry.ok()?.path()));
        let of_machine = libraries.filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
        let mut files = of_machine
            .filter_map(|path| fs::read_dir(path).ok())
            .flatten()
            .flatten();
        let found = files.find(|entry| entry.file_name().to_string_lossy().starts_with(file));
        Ok(found.context("a package with that library")?.path())
    })
}

/// Downloads a package of Debian into the folder, and unpacks it there.
fn unpacked(folder: &Path, package: &str) -> Result<()> {
    let step = |command: &mut Command| {
        said(command.current_dir(folder)).context(format!("(apt-get install {package} does as well)"))
    };
    let download = || step(Command::new("apt-get").args(["download", package]));
    // A fresh machine has no lists of packages yet, or old ones that name what is gone.
    if download().is_err() {
        let _ = step(Command::new("apt-get").arg("update"));
        download()?;
    }
    let file = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    step(Command::new("dpkg-deb").arg("-x").arg(&file).arg("unpacked"))?;
    Ok(())
}

/// `componentize-py`, which makes components of Python. The first call installs it from the package index; it needs
/// Python 3.10. Blocks for seconds.
pub fn componentize_py() -> Result<PathBuf> {
    const VERSION: &str = "0.25.1";
    cached(&format!("componentize-py-{VERSION}"), |folder| {
        let venv = folder.join("venv");
        said(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        said(Command::new(venv.join("bin/pip")).args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            &format!("componentize-py=={VERSION}"),
        ]))?;
        Ok(venv.join("bin/componentize-py"))
    })
}

/// `zig`, which compiles C for systems that this machine does not run, and has their headers. The first call installs it from the
/// package index (90 MB); it needs Python. Blocks for seconds.
pub fn zig() -> Result<PathBuf> {
    const VERSION: &str = "0.17.1";
    cached(&format!("ziglang-{VERSION}"), |folder| {
        let (venv, target) = (folder.join("venv"), folder.join("zig"));
        said(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--target"]);
        said(pip.arg(&target).arg(format!("ziglang=={VERSION}")))?;
        Ok(target.join("ziglang/zig"))
    })
}

/// `componentize-qjs`, which makes components of JavaScript. The first call installs it from the package registry; it
/// needs Node. Blocks for seconds.
pub fn componentize_qjs() -> Result<PathBuf> {
    const VERSION: &str = "0.4.5";
    cached(&format!("componentize-qjs-{VERSION}"), |folder| {
        let package = format!("componentize-qjs@{VERSION}");
        said(
            Command::new("npm")
                .args(["install", "--no-fund", "--no-audit", "--prefix"])
                .arg(folder)
                .arg(package),
        )?;
        Ok(folder.join("node_modules/.bin/componentize-qjs"))
    })
}

/// `cargo component`. The first call compiles it. Blocks for minutes.
pub fn cargo_component() -> Result<PathBuf> {
    const VERSION: &str = "0.21.1";
    cached(&format!("cargo-component-{VERSION}"), |folder| {
        let target = folder.join("target");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "install",
            "--quiet",
            "--locked",
            "cargo-component",
            "--version",
            VERSION,
            "--root",
        ]);
        said(
            cargo
                .arg(folder)
                .env("CARGO_TARGET_DIR", &target)
                .env_remove("RUSTFLAGS"),
        )?;
        fs::remove_dir_all(&target).with_context(|| format!("remove {}", target.display()))?;
        Ok(folder.join("bin/cargo-component"))
    })
}

/// numo as a commit of this repository makes it, without optimization: for tests that go from one version to another. The first call
/// compiles it, as soon as the clone has the commit. Blocks for minutes.
pub fn earlier_numo(commit: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    cached(&format!("numo-{commit}"), |folder| {
        let (source, target) = (folder.join("source"), folder.join("target"));
        fs::create_dir_all(&source)?;
        let (archive, program) = (folder.join("source.tar"), folder.join("numo"));
        let mut git = Command::new("git");
        git.current_dir(&root)
            .args(["archive", "--format=tar", "--output"]);
        said(git.arg(&archive).arg(commit)).context("a shallow clone lacks it: git fetch --unshallow")?;
        said(
            Command::new("tar")
                .arg("-xf")
                .arg(&archive)
                .arg("-C")
                .arg(&source),
        )?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "numo",
            "--bin",
            "numo",
        ]);
        for option in ["opt-level=0", "debug=false", "package.\"*\".opt-level=0"] {
            cargo.arg("--config").arg(format!("profile.dev.{option}"));
        }
        let cargo = cargo.current_dir(&source).env("CARGO_TARGET_DIR", &target);
        said(cargo.env_remove("RUSTFLAGS"))?;
        fs::rename(target.join("debug/numo"), &program)?;
        fs::remove_dir_all(&target)?;
        fs::remove_dir_all(&source)?;
        fs::remove_file(&archive)?;
        Ok(program)
    })
}

/// A program of a Go module, built once for these files of the module. Blocks, the first time for minutes.
pub fn go_program(module: &Path, files: &[&str], package: &str, name: &str) -> Result<PathBuf> {
    let mut sources = Vec::new();
    for file in files {
        sources.extend(fs::read(module.join(file)).with_context(|| format!("read {file}"))?);
    }
    let key = numo_plugin::oci::Digest::of(&sources).hex()[..16].to_owned();
    cached(&format!("{name}-{key}"), |folder| {
        let program = folder.join(name);
        let mut go = Command::new("go");
        // The compiler's own garbage collection is a large part of the time.
        go.current_dir(module).env("CGO_ENABLED", "0").env("GOGC", "400");
        go.args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            numo_control_plane::COMPILING,
        ]);
        go.args(["-ldflags", "-s -w", "-o"]);
        said(go.arg(&program).arg(package)).context("it is built with Go")?;
        Ok(program)
    })
}

/// The folder that a program lies in, for a PATH.
pub fn folder_of(program: &Path) -> Result<PathBuf> {
    // The cache remembers it by a link.
    let program = fs::read_link(program).unwrap_or_else(|_| program.to_owned());
    Ok(program.parent().context("a program in a folder")?.to_owned())
}

/// What a program prints; that it fails is an error with its own words.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {told}");
    Ok(String::from_utf8(output.stdout)?)
}

/// What `make` made once, at a path that the cache remembers. Tests run in parallel processes: one makes, others wait.
pub(crate) fn cached(name: &str, make: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => std::env::home_dir()
            .context("neither XDG_CACHE_HOME nor a home directory is set")?
            .join(".cache"),
    };
    let folder = cache.join("numo").join("programs").join(name);
    let done = folder.join("program");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("lock the cache of programs")?;
    if !done.exists() {
        let made = make(&folder)?;
        ensure!(made.is_file(), "there is no {}", made.display());
        std::os::unix::fs::symlink(&made, &done)?;
    }
    Ok(done)
}
