//! `numo status -w` in a terminal: a pseudo-terminal that keeps what is on its screen.

use std::{num::NonZero, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use numo_e2e::binary;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};

use crate::{Gate, NEW, finish, job, prepare, rule, seen, set, workers};

const ROWS: NonZero<u16> = NonZero::new(24).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(100).unwrap();

struct Terminal {
    child: Child,
    screen: vt100::Parser,
}

impl Terminal {
    /// util-linux's `script` makes the pseudo-terminal, and hands its bytes on.
    fn open(kubeconfig: &std::path::Path, words: &str) -> Result<Self> {
        Self::open_with("NUMO=", kubeconfig, words)
    }

    /// The same with a variable.
    fn open_with(variable: &str, kubeconfig: &std::path::Path, words: &str) -> Result<Self> {
        let command = format!(
            "stty rows {ROWS} cols {COLUMNS}; exec env {variable} {} {words}",
            binary()?.display()
        );
        let child = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("NUMO_KUBECONFIG", kubeconfig)
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("script of util-linux")?;
        Ok(Self {
            child,
            screen: vt100::Parser::new(ROWS, COLUMNS, 0),
        })
    }

    /// Whether anything on the screen has a colour.
    fn is_painted(&self) -> bool {
        let screen = self.screen.screen();
        let mut cells = (0..ROWS.get()).flat_map(|row| (0..COLUMNS.get()).map(move |column| (row, column)));
        cells.any(|(row, column)| {
            let cell = screen.cell(row, column);
            cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
        })
    }

    fn shown(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen is so.
    async fn until(&mut self, what: &str, is: impl Fn(&str) -> bool) -> Result<()> {
        let reading = async {
            let mut buffer = [0; 4096];
            while !is(&self.screen.screen().contents()) {
                let out = self.child.stdout.as_mut().context("an output")?;
                match out.read(&mut buffer).await? {
                    0 => bail!("it ended"),
                    read => self.screen.process(&buffer[..read]),
                }
            }
            Ok(())
        };
        let done = tokio::time::timeout(Duration::from_mins(1), reading).await;
        let why = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "not within a minute".to_owned(),
        };
        bail!("{what}: {why}:\n{}", self.shown())
    }

    /// Presses a key, and reads to the end. The exit code.
    async fn press(mut self, key: &str) -> Result<(Option<i32>, vt100::Parser)> {
        let mut keys = self.child.stdin.take().context("an input")?;
        keys.write_all(key.as_bytes()).await?;
        keys.flush().await?;
        let mut rest = Vec::new();
        let mut out = self.child.stdout.take().context("an output")?;
        let ended = async {
            out.read_to_end(&mut rest).await?;
            self.child.wait().await
        };
        let status = tokio::time::timeout(Duration::from_secs(30), ended).await??;
        self.screen.process(&rest);
        Ok((status.code(), self.screen))
    }
}

/// It follows a run from the first node to the last on one screen, and gives the terminal back as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_followed_on_a_full_screen() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"order": "Name"})).await?;
    let kubeconfig = stage.terminal()?;
    let mut terminal = Terminal::open(&kubeconfig, "status -w")?;
    terminal
        .until("the run is shown", |shown| {
            shown.contains("upgrade") && shown.contains("q ends it")
        })
        .await?;
    assert!(
        terminal.screen.screen().alternate_screen(),
        "what was on the terminal is kept"
    );
    assert!(terminal.screen.screen().hide_cursor());
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| {
        crate::rule_began(w, "gated", "worker-0")
    })
    .await?;
    terminal
        .until("a node has its turn", |shown| {
            shown.contains("worker-0") && shown.contains("PreRules")
        })
        .await?;
    assert!(terminal.is_painted(), "colours are for terminals");
    let mut plain = Terminal::open_with("NO_COLOR=1", &kubeconfig, "status -w")?;
    plain
        .until("a node has its turn", |shown| shown.contains("PreRules"))
        .await?;
    assert!(!plain.is_painted(), "NO_COLOR");
    assert_eq!(plain.press("q").await?.0, Some(0));
    let lines = terminal.shown();
    assert!(lines.lines().count() <= usize::from(ROWS.get()), "{lines}");
    gate.open_for_all()?;
    finish(&stage).await?;
    terminal
        .until("the run is over", |shown| {
            shown.contains("Succeeded") || shown.contains("UpToDate")
        })
        .await?;
    let (code, after) = terminal.press("q").await?;
    assert_eq!(code, Some(0));
    let after = after.screen();
    assert!(
        !after.alternate_screen() && !after.hide_cursor(),
        "{}",
        after.contents()
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_terminal_says_how_much_it_hides() -> Result<()> {
    let stage = set(workers(30), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"order": "Name"})).await?;
    stage.world.upgrade_to(NEW).await?;
    let kubeconfig = stage.terminal()?;
    let mut terminal = Terminal::open(&kubeconfig, "status -w -o wide")?;
    terminal
        .until("lines are cut", |shown| shown.contains("lines more; q ends it"))
        .await?;
    let (code, _) = terminal.press("\u{3}").await?;
    assert_eq!(code, Some(0), "Ctrl-C ends it, too");
    // What is no terminal gets lines, and no escape codes.
    for words in [["status", "-w"], ["explain", "-w"]] {
        let mut numo = Command::new(binary()?);
        numo.args(words)
            .env("NUMO_KUBECONFIG", &kubeconfig)
            .stdout(Stdio::piped());
        if words[0] == "explain" {
            numo.arg("worker-29");
        }
        let mut child = numo.kill_on_drop(true).spawn()?;
        let mut out = child.stdout.take().context("an output")?;
        let (mut all, mut buffer) = (String::new(), [0; 4096]);
        let reading = async {
            while !(all.contains("WaitingForTurn") && all.contains("worker-29") && all.ends_with('\n')) {
                match out.read(&mut buffer).await? {
                    0 => bail!("{words:?} ended: {all}"),
                    read => all.push_str(&String::from_utf8_lossy(&buffer[..read])),
                }
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_mins(1), reading).await??;
        assert!(!all.contains('\u{1b}'), "{all}");
    }
    stage.strike().await
}
