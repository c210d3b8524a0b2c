//! The command line for each platform, as an archive, and the manifest by which krew installs them.

use std::{fmt::Write as _, fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Result;
use numo_plugin::oci::Digest;

use super::{Facts, Parts, archive, binary::Platform};
use crate::step;

/// The program's name in an archive: kubectl finds it by that.
const PROGRAM: &str = "kubectl-numo";

/// Name of a platform's archive.
pub fn name(facts: &Facts, platform: Platform) -> String {
    format!(
        "numo-{}-{}-{}.tar.gz",
        facts.version,
        platform.os(),
        platform.arch()
    )
}

/// Writes the archives, each with what must be passed on with the program.
pub fn archives(parts: &Parts, to: &Path, licences: &str) -> Result<()> {
    for (platform, program) in &parts.binaries {
        let staged = tempfile::tempdir()?;
        let at = |name: &str| staged.path().join(name);
        fs::write(at(PROGRAM), program)?;
        fs::set_permissions(at(PROGRAM), fs::Permissions::from_mode(0o755))?;
        fs::copy(step::root().join("LICENSE"), at("LICENSE"))?;
        fs::write(at("THIRD_PARTY_LICENSES"), licences)?;
        let bytes = archive::gzip(&archive::tar(staged.path(), parts.facts.when)?)?;
        fs::write(to.join(name(&parts.facts, *platform)), bytes)?;
    }
    Ok(())
}

/// The manifest for krew, of the archives that are in the folder.
pub fn krew(parts: &Parts, folder: &Path) -> Result<String> {
    let facts = &parts.facts;
    let mut page = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\n\
         kind: Plugin\n\
         metadata:\n  name: numo\n\
         spec:\n  \
           version: v{version}\n  \
           homepage: {website}\n  \
           shortDescription: Say why a node waits, and who can end it\n  \
           description: |\n    \
             numo changes the nodes of a cluster one guarded step at a time. This is its command line:\n    \
             `kubectl numo explain NODE` says why a node waits, `kubectl numo status` shows every owner,\n    \
             `kubectl numo doctor` what is wrong with the installation.\n  \
           platforms:\n",
        version = facts.version,
        website = facts.publisher.get("website"),
    );
    for (platform, _) in &parts.binaries {
        let name = name(facts, *platform);
        let digest = Digest::of(&fs::read(folder.join(&name))?);
        let _ = write!(
            page,
            "  - selector:\n      matchLabels:\n        os: {os}\n        arch: {arch}\n    \
             uri: {downloads}/{name}\n    sha256: {digits}\n    bin: {PROGRAM}\n    \
             files:\n    - from: {PROGRAM}\n      to: .\n    - from: LICENSE\n      to: .\n    \
             - from: THIRD_PARTY_LICENSES\n      to: .\n",
            os = platform.os(),
            arch = platform.arch(),
            downloads = facts.publisher.folder(&facts.version),
            digits = digest.hex(),
        );
    }
    Ok(page)
}
