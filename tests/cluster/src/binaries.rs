//! Where the control plane's programs come from: `KUBEBUILDER_ASSETS`, the cache,
//! or a build of the Go module beside this crate.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::credentials::hex;
use crate::process::{Component, tail};

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub enum Binaries {
    /// One program that is every component, chosen by its first argument.
    Multicall(PathBuf),
    /// A directory with one program per component, as setup-envtest makes it.
    Assets(PathBuf),
}

/// Finds or builds the control plane and says where it is: the multicall program,
/// or the `KUBEBUILDER_ASSETS` directory where that has all components.
///
/// The first build takes minutes and needs Go; later calls take milliseconds.
/// Blocks; fails when there is neither a program nor a way to build one.
pub fn binary() -> Result<PathBuf> {
    Ok(match Binaries::find()? {
        Binaries::Multicall(path) | Binaries::Assets(path) => path,
    })
}

impl Binaries {
    /// As [`binary`], and says which kind was found.
    pub fn find() -> Result<Self> {
        if let Some(assets) = assets() {
            return Ok(Self::Assets(assets));
        }
        cached_or_built().map(Self::Multicall)
    }

    /// The words that run kubectl, without its arguments. Archives of setup-envtest have it beside the others.
    pub(crate) fn kubectl(&self) -> Vec<String> {
        match self {
            Self::Multicall(path) => vec![path.display().to_string(), "kubectl".to_owned()],
            Self::Assets(dir) => vec![dir.join("kubectl").display().to_string()],
        }
    }

    /// A command that runs `component`, without its flags.
    pub(crate) fn command(&self, component: Component) -> Command {
        match self {
            Self::Multicall(path) => {
                let mut command = Command::new(path);
                command.arg(component.name());
                command
            }
            Self::Assets(dir) => Command::new(dir.join(component.name())),
        }
    }
}

/// `KUBEBUILDER_ASSETS`, if it holds every component. setup-envtest's own archives
/// have no controller-manager and no scheduler, which our tests cannot do without.
fn assets() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    let missing = missing_in(&dir);
    if missing.is_empty() {
        return Some(dir);
    }
    eprintln!(
        "KUBEBUILDER_ASSETS={} lacks {}: numo's own build is used instead",
        dir.display(),
        missing.join(", ")
    );
    None
}

fn missing_in(dir: &Path) -> Vec<&'static str> {
    let names = Component::ALL.map(Component::name);
    names
        .into_iter()
        .filter(|name| !dir.join(name).is_file())
        .collect()
}

/// The cache lies outside `target`: the program costs minutes and depends on
/// nothing that `cargo clean` should reset.
fn cached_or_built() -> Result<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR"));
    let go_version = go_version(module)?;
    let flags = ldflags(&fs::read_to_string(module.join("go.mod")).context("go.mod")?)?;
    let folder = cache_root()?
        .join("control-plane")
        .join(key(module, &go_version, &flags)?);
    let program = folder.join("cluster");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    // Tests start in parallel processes: one builds, the others wait here and then find the program.
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("lock the control plane's cache")?;
    if !program.is_file() {
        build(module, &flags, &folder, &program)?;
    }
    Ok(program)
}

fn build(module: &Path, ldflags: &str, folder: &Path, program: &Path) -> Result<()> {
    let unfinished = folder.join("cluster.unfinished");
    let log = folder.join("build.log");
    let output = File::create(&log)?;
    eprintln!("building the control plane (Kubernetes and etcd, once; 6 to 10 minutes on two cores)");
    let started = Instant::now();
    let mut child = Command::new("go")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // The compiler's own garbage collection is the largest single cost of this build.
        .env("GOGC", "400")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o"])
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
    fn envtest_assets_lack_the_controllers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(
            missing_in(dir.path()),
            ["kube-controller-manager", "kube-scheduler"]
        );
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
