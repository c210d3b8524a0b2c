//! What control planes cost and why they end, for who looks for it: with `NUMO_CLUSTER_TALLY=FILE` each start, each test and
//! each end adds a line to the file.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use crate::cluster::Cluster;

/// The variable with the file's name.
const FILE: &str = "NUMO_CLUSTER_TALLY";

/// Adds a line: when, the thread, which bears a test's name, what was done and why, the folder, and the processor time of each component
/// so far in hundredths of a second. A line that cannot be written is none.
pub(crate) fn note(cluster: &Cluster, what: &str, why: &str) {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    let thread = std::thread::current();
    let dir = cluster.dir().file_name().unwrap_or_default().to_string_lossy();
    let why = why.replace(['\t', '\n'], " ");
    let (now, test) = (jiff::Timestamp::now(), thread.name().unwrap_or_default());
    let mut line = format!("{now:.3}\t{test}\t{what}\t{dir}");
    for (name, id) in cluster.pids() {
        let _ = write!(line, "\t{name}={}", ticks(id).unwrap_or_default());
    }
    let _ = writeln!(line, "\t{why}");
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Processor time of a process, its user's and the system's, in clock ticks. None where there is no `/proc`.
fn ticks(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before the bracket may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |number: usize| fields.split_whitespace().nth(number)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_processor_time_grows() {
        let own = std::process::id();
        let Some(before) = ticks(own) else {
            return;
        };
        let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while ticks(own).is_some_and(|now| now == before) {
            assert!(std::time::Instant::now() < until, "still {before} ticks");
        }
    }
}
