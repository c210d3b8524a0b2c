//! MutexWindows: hours of nodes, whoever changes them. Several of one node hold as one.
//!
//! The time of every snapshot is Friday, 2027-01-15 08:00 UTC.

use crate::{
    cluster::{Cluster, now},
    words::{check_cluster as check, decision},
};
use numo_core::{Snapshot, decide, invariant};

/// Mondays only; it is Friday.
const CLOSED: &str = r#""openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]"#;
/// Fridays until 08:20 UTC.
const ENDS: &str = r#""openings":[{"days":["fri"],"startTime":"6","endTime":"8:20"}]"#;
/// Fridays until 20:00 UTC.
const OPEN: &str = r#""openings":[{"days":["fri"],"startTime":"6","endTime":"20"}]"#;
/// Over this Friday.
const FROZEN: &str = r#""freezes":[{"name":"audit","from":"2027-01-15T00:00:00Z","to":"2027-01-16T00:00:00Z","reason":"books"}]"#;

fn run(windows: &str) -> Cluster {
    Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         run finalizer
         node a worker 4.16.0 zone:z0
         node b worker 4.16.0 zone:z1
         {windows}"
    ))
}

fn plan(windows: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         plan concurrency:1 cordon finalizer
         {windows}"
    ))
}

fn maintenance(windows: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0
         maintenance a finalizer
         {windows}"
    ))
}

#[test]
fn no_owner_begins_a_node_while_its_window_is_closed() {
    let closed = format!("window nights {{{CLOSED}}}");
    check(
        &run(&closed),
        "node a Selected OutsideWindow ~ MutexWindow nights is closed (mon 22:00–23:00 UTC); it opens Mon 2027-01-18 22:00 UTC
         node b Selected OutsideWindow",
    );
    check(
        &plan(&closed),
        "node a Selected OutsideWindow ~ MutexWindow nights is closed",
    );
    check(
        &maintenance(&closed),
        "node a Selected OutsideWindow ~ MutexWindow nights is closed
         > nothing",
    );
}

#[test]
fn a_window_speaks_of_the_nodes_that_it_selects() {
    let zone = format!(
        r#"window nights {{"nodeSelector":{{"matchLabels":{{"topology.kubernetes.io/zone":"z0"}}}},{CLOSED}}}"#
    );
    check(
        &run(&zone),
        "node a Selected OutsideWindow
         node b Admitted Admitting",
    );
}

#[test]
fn an_opening_of_one_window_opens_and_a_freeze_of_one_shuts() {
    let open = format!("window days {{{OPEN}}}");
    let closed = format!("window nights {{{CLOSED}}}");
    let frozen = format!("window quiet {{{FROZEN}}}");
    check(&run(&format!("{closed}\n{open}")), "node a Admitted Admitting");
    check(
        &run(&format!("{closed}\n{open}\n{frozen}")),
        "node a Selected Frozen ~ MutexWindow days and MutexWindow nights and MutexWindow quiet have freeze audit (books) until Sat 2027-01-16 00:00 UTC; nodes begin again Mon 2027-01-18 22:00 UTC",
    );
    // A window that has freezes alone closes nothing but in these.
    let over = r#"window quiet {"freezes":[{"name":"over","from":"2027-01-13T00:00:00Z","to":"2027-01-14T00:00:00Z"}]}"#;
    check(&run(&format!("{open}\n{over}")), "node a Admitted Admitting");
    check(&run(over), "node a Admitted Admitting");
    check(
        &run(&format!("{closed}\n{over}")),
        "node a Selected OutsideWindow ~ MutexWindow nights and MutexWindow quiet are closed (mon 22:00–23:00 UTC); they open Mon 2027-01-18 22:00 UTC",
    );
}

#[test]
fn the_owners_hours_and_the_windows_of_the_node_must_both_be_open() {
    let own = |own: &str, windows: &str| {
        Cluster::parse(&format!(
            r#"cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         run {{"window":{{{own}}}}} finalizer
         node a worker 4.16.0
         {windows}"#
        ))
    };
    let of_window = format!("window nights {{{CLOSED}}}");
    check(
        &own(OPEN, &of_window),
        "node a Selected NeverOpens ~ spec.window and MutexWindow nights are never open at once: found no such time ahead, wanted one",
    );
}

#[test]
fn of_windows_that_end_soon_the_one_counts_that_asks_for_the_least() {
    let asks =
        |name: &str, seconds: i64| format!(r#"window {name} {{{ENDS},"minRemainingSeconds":{seconds}}}"#);
    check(
        &run(&asks("long", 1800)),
        "node a Selected WindowEndsSoon ~ MutexWindow long closes in 20m00s (Fri 2027-01-15 08:20 UTC), and MutexWindow long spec.minRemainingSeconds is 1800",
    );
    check(
        &run(&format!("{}\n{}", asks("long", 1800), asks("short", 600))),
        "node a Admitted Admitting",
    );
    // One that is closed has no say.
    let closed = format!(r#"window closed {{{CLOSED},"minRemainingSeconds":0}}"#);
    check(
        &run(&format!("{}\n{closed}", asks("long", 1800))),
        "node a Selected WindowEndsSoon",
    );
}

#[test]
fn a_window_that_cannot_be_understood_lets_nothing_begin() {
    let mars = r#"window mars {"timeZone":"Mars/Base","openings":[{"days":["fri"]}]}"#;
    for cluster in [run(mars), plan(mars), maintenance(mars)] {
        check(
            &cluster,
            r#"node a Selected InvalidField ~ MutexWindow mars spec.timeZone: found "Mars/Base", wanted a time zone such as Europe/Warsaw; no node begins that it selects"#,
        );
    }
}

#[test]
fn a_node_waits_until_its_window_opens_and_is_looked_at_again_then() {
    let closed = format!("window nights {{{CLOSED}}}");
    for cluster in [run(&closed), plan(&closed), maintenance(&closed)] {
        let (owner, decision) = (cluster.owner(), decision(&cluster));
        let opens = Some("2027-01-18T22:00:00Z".parse().expect("a time"));
        assert_eq!(decision.report.nodes["a"].why.until, opens, "{owner}");
        assert_eq!(decision.wake_at, opens, "{owner}");
    }
}

/// What was decided before a window was made begins nothing under it.
#[test]
fn the_last_look_stops_what_was_decided_before_a_window_closed() {
    for make in [run as fn(&str) -> Cluster, plan, maintenance] {
        let (open, closed) = (make(""), make(&format!("window nights {{{CLOSED}}}")));
        let owner = open.owner();
        let at = |observed| Snapshot {
            now: now(),
            observed,
            owner: &owner,
            asked: None,
        };
        let mut decided = decide(&at(&open.observed), &open.answers);
        let breaches = invariant::lint(&at(&closed.observed), &mut decided);
        assert!(
            breaches.iter().any(|breach| breach.invariant == 13),
            "{owner}: {breaches:#?}"
        );
    }
}
