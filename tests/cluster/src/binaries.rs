//! Where the control plane's programs come from: `KUBEBUILDER_ASSETS`, the cache,
//! or a build of the Go module (`numo-control-plane`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::Component;

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
        numo_control_plane::program().map(Self::Multicall)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
}
