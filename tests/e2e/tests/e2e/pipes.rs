//! Nobody reads any more: what prints ends without a word, as `numo crds | head` asks for.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use numo_e2e::{NAMESPACE, Stage, process::binary};
use numo_world::WorldSpec;
use tokio::process::Command;

use crate::{prepare, quick, set, workers};

/// Every verb that prints, without what writes files.
const VERBS: [&str; 27] = [
    "--help",
    "--version",
    "help",
    "help stopping",
    "help status",
    "options",
    "stopping",
    "crds",
    "completion bash",
    "completion zsh",
    "completion fish",
    "completion kubectl",
    "__complete sta",
    "explain reason/RuleWaits",
    "explain worker-0",
    "explain mutexrunconfig/upgrade -o yaml",
    "explain worker-0 -w",
    "status",
    "status -A -o json",
    "status -o jsonpath={.owners[*].name}",
    "status -o custom-columns=NAME:.name",
    "status -w",
    "doctor",
    "snapshot",
    "preview mutexrunconfig/upgrade --without-rules",
    "version",
    "stop --dry-run -o json",
];

/// Runs numo with a standard output that nobody reads: exit code and standard error.
async fn unread(stage: &Stage, arguments: &str) -> Result<(Option<i32>, String)> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let numo = Command::new(binary()?)
        .args(arguments.split(' '))
        .env("NUMO_KUBECONFIG", stage.terminal()?)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    // Not `output()`: that reads standard output, whatever it was set to.
    let output = tokio::time::timeout(std::time::Duration::from_mins(2), numo.wait_with_output()).await;
    let output = output.with_context(|| format!("{arguments} goes on"))??;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

async fn a_stage(world: WorldSpec) -> Result<Stage> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], serde_json::json!({})).await?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_gone_ends_every_verb_without_a_word() -> Result<()> {
    let stage = a_stage(workers(2)).await?;
    let run = format!("mutexrunconfig/upgrade -n {NAMESPACE}");
    let pause = format!("pause {run} --dry-run");
    for verb in VERBS.into_iter().chain([pause.as_str()]) {
        let (code, said) = unread(&stage, verb).await?;
        // clap prints help and version by itself, and takes no notice.
        let is_claps = verb.starts_with("--") || verb.starts_with("help");
        assert!(
            code == Some(if is_claps { 0 } else { 141 }) && said.is_empty(),
            "numo {verb}: {code:?} {said}"
        );
    }
    stage.strike().await
}
