//! What can be made to go wrong in the demo.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// One thing that goes wrong. The value's help is what `--help` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// the rule fails for the second node, before that node changes
    RuleFails,
    /// the second node does not come back from its reboot
    NeverBack,
    /// the second node's machine-config daemon calls itself Degraded
    Degraded,
    /// the second node's drain never ends
    DrainStuck,
    /// a person has cordoned the second node
    Cordoned,
    /// a person has paused the pool before the upgrade
    PoolPaused,
}

/// How long a node may take where it will not come back, in seconds.
const CHANGE_TIMEOUT: i64 = 20;

impl Fault {
    /// The world's part in it.
    pub fn of_the_world(self, node: &str) -> Option<numo_world::Fault> {
        let node = node.to_owned();
        match self {
            Self::NeverBack => Some(numo_world::Fault::NeverBack { node }),
            Self::Degraded => Some(numo_world::Fault::Degraded { node }),
            Self::DrainStuck => Some(numo_world::Fault::DrainStuck { node }),
            Self::RuleFails | Self::Cordoned | Self::PoolPaused => None,
        }
    }

    /// Changes the demo's objects so that the fault shows.
    pub fn change(self, objects: &mut [Value], node: &str) -> Result<()> {
        match self {
            Self::RuleFails => {
                let mut script = String::new();
                // Writing to a string cannot fail.
                let _ = writeln!(script, "if [ \"$NODE_NAME\" = {node} ]; then");
                let _ = writeln!(
                    script,
                    "  echo \"checking that storage is healthy without $NODE_NAME\""
                );
                let _ = writeln!(script, "  sleep 1");
                let _ = writeln!(
                    script,
                    "  echo \"2 of 3 replicas are in sync: $NODE_NAME must stay\""
                );
                let _ = writeln!(script, "  sleep 1");
                let _ = writeln!(script, "  exit 3");
                let _ = writeln!(script, "fi");
                let words = of_kind(objects, "MutexRule")?
                    .pointer_mut("/spec/jobSpec/template/spec/containers/0/command/2")
                    .context("the demo's rule has no shell command to change")?;
                *words = json!(format!("{script}{}", words.as_str().unwrap_or_default()));
            }
            Self::NeverBack | Self::Degraded | Self::DrainStuck => {
                let spec = &mut of_kind(objects, "MutexRunConfig")?["spec"];
                spec["changeTimeoutSeconds"] = json!(CHANGE_TIMEOUT);
            }
            Self::Cordoned | Self::PoolPaused => {}
        }
        Ok(())
    }
}

/// The first of the objects of a kind.
pub fn of_kind<'a>(objects: &'a mut [Value], kind: &str) -> Result<&'a mut Value> {
    objects
        .iter_mut()
        .find(|object| object["kind"] == kind)
        .with_context(|| format!("examples/demo.yaml has no {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_fails_for_one_node_only() {
        let mut objects = super::super::objects().unwrap();
        Fault::RuleFails.change(&mut objects, "worker-1").unwrap();
        let rule = of_kind(&mut objects, "MutexRule").unwrap();
        let script = rule["spec"]["jobSpec"]["template"]["spec"]["containers"][0]["command"][2]
            .as_str()
            .unwrap();
        let code = |node: &str| {
            let script = script.replace("sleep", ": no sleep");
            let mut shell = std::process::Command::new("/bin/sh");
            let shell = shell.args(["-c", &script]).env("NODE_NAME", node);
            shell.output().unwrap().status.code()
        };
        assert_eq!(code("worker-1"), Some(3));
        assert_eq!(code("worker-2"), Some(0));
    }
}
