//! The control plane of tests and the demo as one program, built from the Go module beside this crate and kept outside `target`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// What the compiler of each package is told: nobody debugs this program, and the linker would throw away what is written for that
/// (`-s -w`). It would be a twelfth of the build's time.
pub const COMPILING: &str = "-gcflags=all=-dwarf=false";

/// The program, from the cache or built. Of several processes that ask, one builds.
///
/// The first build takes minutes and needs Go; later calls take milliseconds. Blocks.
///
/// # Errors
/// There is no Go, the build fails, or the cache cannot be written.
///
/// The cache lies outside `target`: the program costs minutes and depends on
/// nothing that `cargo clean` should reset.
pub fn program() -> Result<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR"));
    let go_version = go_version(module)?;
    let linking = ldflags(&fs::read_to_string(module.join("go.mod")).context("go.mod")?)?;
    let folder = cache_root()?.join("control-plane").join(key(
        module,
        &go_version,
        &format!("{COMPILING}\n{linking}"),
    )?);
    let program = folder.join("cluster");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    // Tests start in parallel processes: one builds, the others wait here and then find the program.
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("lock the control plane's cache")?;
    if !program.is_file() {
        build(module, &linking, &folder, &program)?;
    }
    Ok(program)
}

fn build(module: &Path, ldflags: &str, folder: &Path, program: &Path) -> Result<()> {
    let unfinished = folder.join("cluster.unfinished");
    let log = folder.join("build.log");
    let output = File::create(&log)?;
    eprintln!("building the control plane (Kubernetes and etcd, once; about 5 minutes on two cores)");
    let started = Instant::now();
    let mut child = Command::new("go")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // The compiler's own garbage collection is the largest single cost of this build.
        .env("GOGC", "400")
        .args(["build", "-trimpath", "-buildvcs=false", COMPILING])
        .args(["-ldflags", ldflags, "-o"])
        .arg(&unfinished)
        .arg(".")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("run go build")?;
    let mut next_line = Duration::from_mins(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > next_line {
            eprintln!("building the control plane: {} s so far", next_line.as_secs());
            next_line += Duration::from_mins(1);
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    ensure!(
        status.success(),
        "go build failed ({status}); the end of {}:\n{}",
        log.display(),
        tail(&log)
    );
    fs::rename(&unfinished, program).context("put the finished program in its place")?;
    eprintln!("built the control plane in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Components report the version that the linker sets; without it clients see
/// `v0.0.0-master` and every version check fails.
fn ldflags(go_mod: &str) -> Result<String> {
    let version = go_mod
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .context("go.mod requires no k8s.io/kubernetes")?
        .trim();
    let mut parts = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
        bail!("k8s.io/kubernetes {version} in go.mod is not a version");
    };
    let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
    Ok(format!(
        "-s -w{}{}{}{}",
        set("gitVersion", version),
        set("gitMajor", major),
        set("gitMinor", minor),
        set("gitTreeState", "clean")
    ))
}

fn go_version(module: &Path) -> Result<String> {
    let output = Command::new("go")
        .current_dir(module)
        .arg("version")
        .output()
        .context("the control plane is built with Go: install it, or set KUBEBUILDER_ASSETS")?;
    ensure!(
        output.status.success(),
        "go version: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Names a build by everything that goes into it.
fn key(module: &Path, go_version: &str, ldflags: &str) -> Result<String> {
    let mut sources: Vec<PathBuf> = fs::read_dir(module)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .with_context(|| format!("list {}", module.display()))?;
    sources.retain(|path| {
        path.extension().is_some_and(|extension| extension == "go")
            || path.ends_with("go.mod")
            || path.ends_with("go.sum")
    });
    sources.sort();
    let mut hash = Sha256::new();
    for path in &sources {
        let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        hash.update(format!("{name} {}\n", content.len()));
        hash.update(content);
    }
    hash.update(format!("{go_version}\n{ldflags}"));
    Ok(hex(&hash.finalize()[..10]))
}

fn cache_root() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir).join("numo"));
    }
    let home = std::env::home_dir().context("neither XDG_CACHE_HOME nor a home directory is set")?;
    Ok(home.join(".cache").join("numo"))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The last 30 lines of a log file, or why there are none.
pub fn tail(log: &Path) -> String {
    match fs::read(log) {
        Ok(content) => {
            let content = String::from_utf8_lossy(&content);
            let lines: Vec<_> = content.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        }
        Err(error) => format!("{}: {error}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_in_the_program_is_the_version_in_go_mod() {
        let flags =
            ldflags("require (\n\tk8s.io/component-base v0.36.3\n\tk8s.io/kubernetes v1.36.3\n)").unwrap();
        assert!(flags.contains("gitVersion=v1.36.3 "), "{flags}");
        assert!(flags.contains("gitMajor=1 "), "{flags}");
        assert!(flags.contains("gitMinor=36 "), "{flags}");
        assert!(ldflags("module x").is_err());
    }

    #[test]
    fn another_compiler_or_flag_is_another_build() {
        let module = Path::new(env!("CARGO_MANIFEST_DIR"));
        let key = |go: &str, flags: &str| key(module, go, flags).unwrap();
        assert_eq!(key("go1", "-s"), key("go1", "-s"));
        assert_ne!(key("go1", "-s"), key("go2", "-s"));
        assert_ne!(key("go1", "-s"), key("go1", "-w"));
    }
}
