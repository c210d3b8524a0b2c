//! Archives: equal files make equal bytes. GNU tar and gzip make them.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// A folder as a tar: names in their order, nobody's, all of one time (seconds since 1970).
pub fn tar(folder: &Path, when: i64) -> Result<Vec<u8>> {
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--sort=name",
        "--format=ustar",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ])
    .arg("--mode=u=rwX,go=rX")
    .arg(format!("--mtime=@{when}"))
    .arg("--directory")
    .arg(folder)
    // Without `./`: a folder's own entry would change the root of an image.
    .args(names(folder)?);
    run(&mut tar, None)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

/// gzip of bytes, without a name or a time in it.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    run(
        Command::new("gzip").args(["--no-name", "--stdout", "-6"]),
        Some(bytes),
    )
}

fn run(command: &mut Command, input: Option<&[u8]>) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {name}"))?;
    let pipe = child.stdin.take();
    // It writes while it reads.
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || match (pipe, input) {
            (Some(mut pipe), Some(input)) => std::io::Write::write_all(&mut pipe, input),
            _ => Ok(()),
        });
        let output = child.wait_with_output();
        let written = writer.join();
        ensure!(
            written.is_ok_and(|written| written.is_ok()),
            "{name} does not read"
        );
        Ok(output?)
    })?;
    ensure!(output.status.success(), "{name} failed");
    Ok(output.stdout)
}
