//! The program for each platform: built here, or handed in by who built it elsewhere. What a file is made for is read from the file.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use anyhow::{Context as _, Error, Result, bail, ensure};

use super::Facts;
use crate::step;

/// What a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// The images' and the command line's.
    LinuxAmd64,
    /// The same.
    LinuxArm64,
    /// The command line's only.
    DarwinAmd64,
    /// The same.
    DarwinArm64,
}

impl Platform {
    /// All that a release is made for.
    pub const ALL: [Self; 4] = [
        Self::LinuxAmd64,
        Self::LinuxArm64,
        Self::DarwinAmd64,
        Self::DarwinArm64,
    ];

    /// As Go and OCI name it.
    pub const fn os(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::LinuxArm64 => "linux",
            Self::DarwinAmd64 | Self::DarwinArm64 => "darwin",
        }
    }

    /// As Go and OCI name it.
    pub const fn arch(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::DarwinAmd64 => "amd64",
            Self::LinuxArm64 | Self::DarwinArm64 => "arm64",
        }
    }

    /// Rust's name of it.
    pub const fn target(self) -> &'static str {
        match self {
            Self::LinuxAmd64 => "x86_64-unknown-linux-gnu",
            Self::LinuxArm64 => "aarch64-unknown-linux-gnu",
            Self::DarwinAmd64 => "x86_64-apple-darwin",
            Self::DarwinArm64 => "aarch64-apple-darwin",
        }
    }

    /// Whether there is an image for it.
    pub fn has_image(self) -> bool {
        self.os() == "linux"
    }

    /// Whether its programs run on this machine.
    pub fn is_here(self) -> bool {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let os = if std::env::consts::OS == "macos" {
            "darwin"
        } else {
            std::env::consts::OS
        };
        (self.os(), self.arch()) == (os, arch)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os(), self.arch())
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|platform| platform.to_string() == text);
        let known = Self::ALL.map(|platform| platform.to_string()).join(", ");
        found.with_context(|| format!("found platform {text}, wanted one of {known}"))
    }
}

/// A program for a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// What it runs on.
    pub platform: Platform,
    /// Where it is.
    pub path: PathBuf,
}

impl FromStr for Binary {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((platform, path)) = text.split_once('=') else {
            bail!("found {text}, wanted PLATFORM=FILE");
        };
        Ok(Self {
            platform: platform.parse()?,
            path: path.into(),
        })
    }
}

/// How an image's program is made: it needs no library beside it, and the addresses that are corrected at its start are packed.
const FLAGS: &str = "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs -C strip=symbols";

/// What the head of a program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it runs on; nothing for what no release is made for.
    pub platform: Option<Platform>,
    /// Whether it needs a loader and libraries beside it.
    pub is_dynamic: bool,
}

/// Reads the head of an ELF or Mach-O program of 64 bits, little endian.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let word = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.starts_with(b"\x7fELF\x02\x01") {
        let platform = match word(18)? {
            62 => Some(Platform::LinuxAmd64),
            183 => Some(Platform::LinuxArm64),
            _ => None,
        };
        let first = usize::try_from(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)).ok()?;
        let (size, number) = (usize::from(word(54)?), usize::from(word(56)?));
        // PT_INTERP
        let is_dynamic = (0..number).any(|index| long(first + index * size) == Some(3));
        return Some(Head { platform, is_dynamic });
    }
    if bytes.starts_with(&[0xcf, 0xfa, 0xed, 0xfe]) {
        let platform = match long(4)? {
            0x0100_0007 => Some(Platform::DarwinAmd64),
            0x0100_000c => Some(Platform::DarwinArm64),
            _ => None,
        };
        return Some(Head {
            platform,
            is_dynamic: true,
        });
    }
    None
}

impl Binary {
    /// What is in it.
    ///
    /// # Errors
    /// If it is made for something else, if it runs here and is of another version, or if it is for an image and not static.
    pub fn read(&self, version: &str) -> Result<Vec<u8>> {
        let Self { platform, path } = self;
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("--binary {platform}={shown}"))?;
        let head = head(&bytes).with_context(|| format!("{shown}: no program, wanted one for {platform}"))?;
        let found = head
            .platform
            .map_or_else(|| "something else".to_owned(), |found| found.to_string());
        ensure!(
            head.platform == Some(*platform),
            "{shown}: found a program for {found}, wanted one for {platform}"
        );
        if platform.has_image() {
            ensure!(
                !head.is_dynamic,
                "{shown}: it needs libraries beside it; an image has none: link it with crt-static"
            );
        }
        if platform.is_here() {
            let said = numo_install::said(Command::new(path).arg("--version"))?;
            let wanted = format!("numo {version}");
            ensure!(
                said.trim() == wanted,
                "{shown}: found {}, wanted {wanted}",
                said.trim()
            );
        }
        Ok(bytes)
    }
}

/// What follows a commit where the working tree had more.
const CHANGED: &str = "-dirty";

/// What a build records in a program, by the variables that it is told: the commit, and the commit's time and not the clock's, so
/// that equal sources make an equal program. `numo version` says both.
pub fn records(facts: &Facts) -> Result<[(&'static str, String); 2]> {
    let changed = if facts.is_dirty { CHANGED } else { "" };
    Ok([
        ("NUMO_COMMIT", format!("{}{changed}", facts.commit)),
        (
            "NUMO_BUILD_DATE",
            jiff::Timestamp::from_second(facts.when)?.to_string(),
        ),
    ])
}

/// Whether a program records this commit and no changes beside it; it is read from the file, so that of one for another machine it is
/// known too.
pub fn has_recorded(bytes: &[u8], commit: &str) -> bool {
    let has = |words: &str| bytes.windows(words.len()).any(|found| found == words.as_bytes());
    has(commit) && !has(&format!("{commit}{CHANGED}"))
}

/// What puts the list of its crates into a program, where scanners of images read it (`cargo auditable`).
pub const AUDITABLE: &str = "cargo-auditable@0.7.7";
/// The section of a program that has that list.
const CRATES: &[u8] = b".dep-v0";

/// Whether a program has the list of the crates that it is made of.
pub fn has_crates(bytes: &[u8]) -> bool {
    bytes.windows(CRATES.len()).any(|found| found == CRATES)
}

/// Builds the program for a platform, static where that is possible. For another architecture Debian's cross compiler links
/// (gcc-aarch64-linux-gnu). Takes many minutes.
pub fn build(platform: Platform, profile: &str, facts: &Facts) -> Result<Binary> {
    let target = platform.target();
    let mut rustup = Command::new("rustup");
    // A Rust without rustup has its targets by itself.
    let _ = step::succeeds(rustup.args(["target", "add", target]));
    // Nothing is done where it is there.
    step::must(step::cargo().args(["install", "--locked", "--quiet", AUDITABLE]))?;
    step::must(&mut compile(platform, profile, facts)?)
        .with_context(|| format!("build numo for {platform}"))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let path = target_folder()?.join(target).join(folder).join("numo");
    Ok(Binary { platform, path })
}

/// The call of cargo that builds it.
pub fn compile(platform: Platform, profile: &str, facts: &Facts) -> Result<Command> {
    let mut cargo = step::cargo();
    cargo.envs(records(facts)?).args([
        "auditable",
        "build",
        "--locked",
        "--package",
        "numo",
        "--bin",
        "numo",
        "--target",
        platform.target(),
        "--profile",
        profile,
    ]);
    if platform.has_image() {
        // A target is named even where it is this machine's: the flags are then not those of macros and build scripts.
        cargo.env("RUSTFLAGS", FLAGS);
    } else {
        // The command line alone: the operator and the rule author's toolkit need Linux.
        cargo.arg("--no-default-features");
    }
    if platform == Platform::LinuxArm64 && !platform.is_here() {
        cargo.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        );
    }
    Ok(cargo)
}

/// Where cargo puts what it builds.
fn target_folder() -> Result<PathBuf> {
    let mut cargo = step::cargo();
    let told =
        numo_install::said(cargo.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]))?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    let folder = told["target_directory"]
        .as_str()
        .context("cargo names no target_directory")?;
    Ok(Path::new(folder).to_owned())
}
