//! Whether the disk has room for what `cargo xtask test` writes. A disk that is full in mid-run fails many tests with words that name
//! anything but the disk.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

const MIB: u64 = 1024;
const GIB: u64 = 1024 * MIB;
/// What a run from a cold clone writes, in KiB: some 7 GiB under `target`, and what the control planes of tests keep at once.
const COLD: u64 = 12 * GIB;
/// With less than that the control planes alone do not fit, in KiB.
const LEAST: u64 = 3 * GIB;

/// Says where the disk is short, and fails where no run can end well. The folder of the build may not be there yet.
pub fn look(target: &Path) -> Result<()> {
    let target = target.ancestors().find(|path| path.is_dir());
    let target = target.context("no folder above the build's is there")?;
    for (what, path) in [("the build", target), ("temporary files", &std::env::temp_dir())] {
        let output = Command::new("df").arg("-Pk").arg(path).output();
        let free = output
            .ok()
            .and_then(|output| free(&String::from_utf8_lossy(&output.stdout)));
        match free {
            // Without df nobody knows; the tests will tell.
            None => println!(
                "the room for {what} ({}) is not known: df does not tell",
                path.display()
            ),
            Some(free) if free < LEAST => bail!(
                "found {} MiB free for {what} ({}), wanted at least {} MiB: the control planes of the tests do not fit",
                free / MIB,
                path.display(),
                LEAST / MIB
            ),
            Some(free) if free < COLD => println!(
                "only {} MiB are free for {what} ({}): from a cold clone a run takes up to {} MiB",
                free / MIB,
                path.display(),
                COLD / MIB
            ),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The free KiB that `df -Pk` tells of one path.
fn free(told: &str) -> Option<u64> {
    let line = told.lines().nth(1)?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_df_tells_is_read() {
        let told = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 263174212 52428800 41943040 57% /\n";
        assert_eq!(free(told), Some(41_943_040));
        assert_eq!(free("df: nothing\n"), None);
        assert_eq!(free(""), None);
    }

    #[test]
    fn a_folder_that_is_not_there_yet_is_looked_for_beside() {
        assert!(look(&std::env::temp_dir().join("not/there/yet")).is_ok());
    }
}
