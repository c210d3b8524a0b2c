//! When a node could move at the earliest.

use super::explanation::{Earliest, second};
use crate::cli::live::Look;
use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{Decision, Owner, pace, report::NodeReport, rules::later};

/// When a node could move at the earliest: where time alone decides, when; else what it hangs on, and what is known of that.
pub(super) fn earliest(
    look: &Look,
    owner: &Owner,
    (decision, node): (&Decision, &NodeReport),
) -> Option<Earliest> {
    let why = match node.why.reason {
        Reason::StartsLater => "startAfter is over",
        reason if reason.is_of_hours() => "the window opens",
        Reason::WaitsForWave => "the wave before has soaked",
        Reason::Soaking => "spec.soakSeconds are over",
        Reason::CompleteDelay => "spec.postCompleteDelay is over",
        Reason::NodeLeaseHeld => "the lease of the other controller ends",
        Reason::VersionUnresolved => "the channel is asked again",
        Reason::WaitingForTurn => return Some(first_turn(look, owner, decision)),
        Reason::RuleWaits | Reason::RuleRunning => return Some(rule_at_last(look, node)),
        _ => return None,
    };
    // The channel is asked for the whole Plan; the others end for this node.
    let at = match node.why.reason {
        Reason::VersionUnresolved => decision.wake_at,
        _ => node.why.until,
    };
    Some(Earliest::at(at.filter(|at| *at > look.now)?, why))
}

/// When the first of the nodes in flight is done, by what the others took.
fn first_turn(look: &Look, owner: &Owner, decision: &Decision) -> Earliest {
    let owner_uid = look.store.observed.uid_of(owner).unwrap_or_default();
    let Some(pace) = pace::pace(&decision.report, &look.store.observed, owner_uid, look.now) else {
        return Earliest::hangs_on(
            "when a node in flight is done; no journal of a node that is done is kept, so nobody knows how long one takes",
        );
    };
    let basis = format!(
        "{} per node, {}",
        numo_core::time::words(pace.took.median_seconds),
        pace.took.basis()
    );
    match pace.under_way.iter().min() {
        Some(0) => Earliest::hangs_on(format!(
            "when a node in flight is done; one takes longer than the others did ({basis})"
        )),
        Some(left) => Earliest::at(
            later(look.now, *left),
            format!("the first node in flight is done, if it takes what the others did ({basis})"),
        ),
        None => Earliest::hangs_on("when what holds it is over"),
    }
}

/// When the rule that is asked passes, or has used up its time.
fn rule_at_last(look: &Look, node: &NodeReport) -> Earliest {
    let observed = &look.store.observed;
    let wait = look
        .change_of(node)
        .and_then(|change| change.status.rule_waits.last());
    let deadline = wait.and_then(|wait| {
        let mut rules = observed.rules.values();
        let rule = rules.find(|rule| rule.key.to_string() == wait.rule)?;
        let since: Timestamp = wait.since.parse().ok()?;
        Some((wait, later(since, rule.timeout_seconds), rule.timeout_seconds))
    });
    match deadline {
        Some((wait, at, seconds)) => Earliest::hangs_on(format!(
            "when rule {} passes; at {} it has failed, if it has not passed within timeoutSeconds {seconds}",
            wait.rule,
            second(at)
        )),
        None => Earliest::hangs_on("when its rule has passed"),
    }
}
