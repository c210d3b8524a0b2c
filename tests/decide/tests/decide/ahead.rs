//! What is foreseen: when an owner will be done over the openings that lie ahead, and when each wave of a preview begins and ends.
//!
//! The time of every snapshot is Friday, 2027-01-15 08:00 UTC.

use crate::cluster::{Cluster, at, now};
use jiff::Timestamp;
use numo_api::machines::annotations;
use numo_core::{
    calendar::Calendar,
    eta::{Eta, eta},
    model::Imagined,
};

/// Every morning from 06:00 until 08:20.
const MORNINGS: &str = r#""window":{"openings":[{"startTime":"6","endTime":"8:20"}]}"#;
/// So many seconds.
const MINUTES: i64 = 60;

/// A run with `left` nodes behind, of which one that is done took so many seconds.
fn run(settings: &str, left: usize, took: i64, rest: &str) -> Cluster {
    let nodes: Vec<String> = (0..left)
        .map(|number| format!("node n{number:03} worker 4.16.0"))
        .collect();
    let mut cluster = Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         run {{{settings}}} finalizer
         node done worker 4.17.0
         change done Done entries:Admitted,Done
         {}
         {rest}",
        nodes.join("\n")
    ));
    for change in cluster.observed.changes.values_mut() {
        change.status.entries[0].at = at(-60 - took).to_string();
    }
    cluster
}

fn foreseen(cluster: &Cluster) -> Eta {
    let owner = cluster.owner();
    let decision = Imagined::new(cluster.observed.clone(), now()).decide(&owner);
    eta(&owner, &decision.report, &cluster.observed, now())
}

/// When it is done, over how many openings, and when nodes begin again.
fn done(eta: &Eta) -> String {
    match eta {
        Eta::In {
            at, openings, opens, ..
        } => {
            let again = opens.map_or_else(String::new, |opens| format!(", again {}", opens.at));
            format!("{at} over {openings}{again}")
        }
        other => other.to_string(),
    }
}

#[test]
fn a_forecast_counts_only_time_in_which_nodes_begin() {
    let frozen = r#""window":{"openings":[{"startTime":"6","endTime":"8:20"}],"freezes":[
        {"name":"closing","from":"2027-01-16T00:00:00Z","to":"2027-01-18T06:05:00Z"}]}"#
        .replace('\n', " ");
    let least = MORNINGS.replace("]}", r#"],"minRemainingSeconds":300}"#);
    for (case, settings, left, took, expected) in [
        ("no hours", "", 3, 15, "2027-01-15T08:45:00Z over 0"),
        (
            "it ends before they do",
            MORNINGS,
            1,
            15,
            "2027-01-15T08:15:00Z over 0",
        ),
        (
            "the last is done past the end",
            &*least,
            2,
            15,
            "2027-01-15T08:30:00Z over 1",
        ),
        // The second would have to begin at 08:05, and is free at 08:15.
        (
            "one opening ends before the work",
            MORNINGS,
            3,
            15,
            "2027-01-16T06:30:00Z over 2",
        ),
        // Two begin in each morning, and there is no time for one in this one.
        (
            "several mornings",
            MORNINGS,
            5,
            60,
            "2027-01-18T07:00:00Z over 3, again 2027-01-16T06:00:00Z",
        ),
        ("a freeze", &*frozen, 3, 15, "2027-01-18T06:35:00Z over 2"),
        (
            "a later start",
            r#""startAfter":"2027-01-15T10:00:00Z""#,
            2,
            15,
            "2027-01-15T10:30:00Z over 0, again 2027-01-15T10:00:00Z",
        ),
    ] {
        let found = foreseen(&run(settings, left, took * MINUTES, ""));
        assert_eq!(done(&found), expected, "{case}: {found}");
    }
    let found = foreseen(&run(MORNINGS, 3, 15 * MINUTES, ""));
    assert_eq!(
        found.to_string(),
        "in about 22h30m (2027-01-16 06:30 UTC): 3 nodes left, 1 at once, 15m00s per node (median of 1), over 2 openings"
    );
}

#[test]
fn no_time_is_told_that_lies_beyond_the_openings_in_sight() {
    let ends = r#""window":{"openings":[{"startTime":"6","endTime":"8:20"}],"freezes":[
        {"name":"for-good","from":"2027-01-15T08:20:00Z","to":"9999-12-30T12:00:00Z"}]}"#
        .replace('\n', " ");
    for (case, settings, left, took) in [
        ("nothing opens again", &*ends, 3, 15),
        // One in each morning: the last of them in a year.
        ("too many openings", MORNINGS, 300, 100),
    ] {
        let found = foreseen(&run(settings, left, took * MINUTES, ""));
        assert!(matches!(found, Eta::NotInSight { .. }), "{case}: {found}");
        let words = format!("not known: {left} nodes left, more than begin in the openings in sight");
        assert!(found.to_string().starts_with(&words), "{case}: {found}");
    }
}

#[test]
fn mutex_windows_count_for_the_nodes_that_they_select() {
    let window = r#"window nights {"nodeSelector":{"matchLabels":{"topology.kubernetes.io/zone":"z1"}},
        "openings":[{"days":["sat"],"startTime":"22","endTime":"23"}]}"#
        .replace('\n', " ");
    let rest = format!("node late worker 4.16.0 zone:z1\n {window}");
    let found = foreseen(&run("", 2, 15 * MINUTES, &rest));
    assert_eq!(
        done(&found),
        "2027-01-16T22:15:00Z over 0, again 2027-01-16T22:00:00Z"
    );
    // Hours that are never open at once have no time.
    let found = foreseen(&run(MORNINGS, 0, 15 * MINUTES, &rest));
    assert!(matches!(found, Eta::Held(..)), "{found}");
}

#[test]
fn a_plans_own_window_counts_too() {
    let spec = r#"spec {"window":{"days":["fr","sa"],"startTime":"06:00","endTime":"08:20"}}"#;
    let mut cluster = Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         node c worker v0
         plan concurrency:1 cordon finalizer {spec}"
    ));
    let owner = cluster.owner();
    let (zone, plan) = (
        |_: &str| None,
        cluster.observed.plans.values_mut().next().expect("a Plan"),
    );
    let given = plan.spec.window.clone().expect("a window");
    plan.window = Some(numo_core::owners::plan::Window::parse(&given, zone));
    let calendar = Calendar::of(&owner, &cluster.observed);
    let opening = calendar.of_nodes(["a", "b"].into_iter());
    let [(ahead, 2)] = &opening[..] else {
        panic!("{opening:?}");
    };
    let opening = ahead.opening(now(), Some(15 * MINUTES)).expect("an opening");
    // The reference's end is inside, and it asks for no time that is left.
    assert_eq!(
        [Some(opening.from), opening.last, opening.until],
        [now(), at(1200), at(1201)].map(Some)
    );
    assert_eq!(calendar.closes(now()), Some(at(1201)));
    let standing = calendar.standing(now());
    assert_eq!(standing[0].name, "spec.window");
    assert_eq!(standing[0].words, "open until Fri 2027-01-15 08:20 UTC");
}

#[test]
fn hours_of_an_owner_say_until_when_they_are_open() {
    let cluster = run(MORNINGS, 1, 60, "");
    let calendar = Calendar::of(&cluster.owner(), &cluster.observed);
    let said = |at: Timestamp| {
        let standing = calendar.standing(at);
        assert_eq!(standing[0].name, "spec.window");
        (standing[0].words.clone(), calendar.closes(at))
    };
    assert_eq!(
        said(now()),
        ("open until Fri 2027-01-15 08:20 UTC".to_owned(), Some(at(1200)))
    );
    assert_eq!(
        said(at(1200)),
        ("closed, opens Sat 2027-01-16 06:00 UTC".to_owned(), None)
    );
}

/// The journal of the node that is done is of an earlier run of the same owner.
fn earlier(cluster: &mut Cluster) {
    for change in cluster.observed.changes.values_mut() {
        "earlier".clone_into(&mut change.spec.target.run_id);
    }
}

#[test]
fn before_a_node_is_done_those_of_earlier_runs_tell_what_one_takes() {
    let mut cluster = run(MORNINGS, 2, 15 * MINUTES, "");
    earlier(&mut cluster);
    let found = foreseen(&cluster);
    assert_eq!(
        found.to_string(),
        "in about 22h15m (2027-01-16 06:15 UTC): 2 nodes left, 1 at once, 15m00s per node (median of 1 of earlier runs), over 2 openings"
    );
    // It is the bound before the end of an opening as well.
    let mut cluster = run(MORNINGS, 1, 30 * MINUTES, "");
    earlier(&mut cluster);
    let decision = Imagined::new(cluster.observed.clone(), now()).decide(&cluster.owner());
    let why = &decision.report.nodes["n000"].why;
    assert!(why.message.contains("a node of it takes up to 30m00s"), "{why:?}");
    // Those of another owner tell nothing.
    for change in cluster.observed.changes.values_mut() {
        "another".clone_into(&mut change.spec.owner_ref.uid);
    }
    assert_eq!(foreseen(&cluster), Eta::NoneDone);
}

/// The batches of a preview, each with its wave and times.
fn batches(cluster: &Cluster, takes: Option<i64>) -> Vec<String> {
    let mut imagined = Imagined::new(cluster.observed.clone(), now());
    if let Some(seconds) = takes {
        imagined.take(seconds);
    }
    let found = imagined.course(&cluster.owner(), |batches| batches < 20, |_, _, _| {});
    let each = found.batches.iter().map(|batch| {
        let wave = batch.wave.as_ref().map_or_else(String::new, |wave| {
            let name = wave.name.as_deref().unwrap_or("-");
            format!("{}/{} {name}: ", wave.number, wave.of)
        });
        let times = batch.times.map_or_else(String::new, |times| {
            let done = times.done.map_or_else(|| "?".to_owned(), |done| done.to_string());
            format!(" {} to {done} by {}", times.begins, times.turns)
        });
        format!("{wave}{}{times}", batch.nodes.join(","))
    });
    each.collect()
}

/// Nodes of two zones of a NodeVersion, its settings, and more lines.
fn version(spec: &str, rest: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker v0 zone:z1
         node b worker v0 zone:z2
         node c worker v0 zone:z1
         version img2 finalizer spec {spec}
         host a img1
         host b img1
         host c img1
         group w image:img2
         groups w
         {rest}"
    ))
}

#[test]
fn nodes_of_a_version_are_replaced_in_a_preview_as_many_at_once_as_surge_allows() {
    assert_eq!(begun(&version("{}", "")), ["a", "b", "c"]);
    assert_eq!(begun(&version(r#"{"surge":2}"#, "")), ["a,b", "c"]);
    let zones = r#"{"surge":9,"mutex":{"domains":{"key":"topology.kubernetes.io/zone"}}}"#;
    assert_eq!(begun(&version(zones, "")), ["a,c", "b"]);
    let one = r#"{"surge":9,"mutex":{"maxUnavailable":1}}"#;
    assert_eq!(begun(&version(one, "")), ["a", "b", "c"]);
    // Whoever is at the image is not replaced, and nothing keeps the others waiting for it.
    let mut cluster = version("{}", "");
    let b = cluster.observed.nodes.get_mut("b").unwrap();
    b.annotations
        .insert(annotations::NODE_IMAGE.to_owned(), "img2".to_owned());
    assert_eq!(begun(&cluster), ["a", "c"]);
}

/// The nodes of each batch of a preview.
fn begun(cluster: &Cluster) -> Vec<String> {
    let mut imagined = Imagined::new(cluster.observed.clone(), now());
    let found = imagined.course(&cluster.owner(), |batches| batches < 20, |_, _, _| {});
    found.batches.iter().map(|batch| batch.nodes.join(",")).collect()
}

#[test]
fn each_batch_of_a_preview_has_its_times_where_they_can_be_foreseen() {
    let cluster = run(MORNINGS, 4, 15 * MINUTES, "");
    assert_eq!(
        batches(&cluster, Some(15 * MINUTES)),
        [
            "n000 2027-01-15T08:00:00Z to 2027-01-15T08:15:00Z by 1",
            "n001 2027-01-16T06:00:00Z to 2027-01-16T06:15:00Z by 1",
            "n002 2027-01-16T06:15:00Z to 2027-01-16T06:30:00Z by 2",
            "n003 2027-01-16T06:30:00Z to 2027-01-16T06:45:00Z by 3",
        ]
    );
    // Nobody knows how long one takes: the beginning of the first alone is told.
    let mut unknown = run(MORNINGS, 2, 60, "");
    unknown.observed.changes.clear();
    assert_eq!(
        batches(&unknown, None),
        ["n000 2027-01-15T08:00:00Z to ? by 1", "n001"]
    );
    // Two at once.
    let pairs = run(r#""maxUnavailable":2"#, 3, 15 * MINUTES, "");
    assert_eq!(
        batches(&pairs, Some(15 * MINUTES)),
        [
            "n000,n001 2027-01-15T08:00:00Z to 2027-01-15T08:15:00Z by 1",
            "n002 2027-01-15T08:15:00Z to 2027-01-15T08:30:00Z by 2",
        ]
    );
}

#[test]
fn a_wave_that_soaks_begins_the_next_after_its_time() {
    // Whoever is done already is the canary: since 07:59.
    let waves_of = r#""waves":[{"name":"canary","nodes":1,"soakSeconds":3600}]"#;
    let soaking = run(waves_of, 2, 15 * MINUTES, "");
    assert_eq!(
        batches(&soaking, Some(15 * MINUTES)),
        [
            "2/2 -: n000 2027-01-15T08:59:00Z to 2027-01-15T09:14:00Z by 1",
            "2/2 -: n001 2027-01-15T09:14:00Z to 2027-01-15T09:29:00Z by 2",
        ]
    );
}

/// Zones of these tests have no name, so their times are said in UTC; a named one is shown end to end.
#[test]
fn times_are_said_in_utc_where_no_hours_name_a_zone() {
    let cluster = run(MORNINGS, 1, 60, "");
    let calendar = Calendar::of(&cluster.owner(), &cluster.observed);
    assert_eq!(
        calendar.clock(["n000"].into_iter())(now()),
        "Fri 2027-01-15 08:00 UTC"
    );
}

#[test]
fn a_preview_says_of_which_declared_wave_each_batch_is() {
    let waves_of =
        r#""maxUnavailable":2,"waves":[{"name":"canary","nodes":2},{"nodes":"50%","name":"half"}]"#;
    // One node is done already, in this run: it is of the canary.
    assert_eq!(
        batches(&run(waves_of, 6, 15 * MINUTES, ""), Some(15 * MINUTES)),
        [
            "1/3 canary: n000 2027-01-15T08:00:00Z to 2027-01-15T08:15:00Z by 1",
            "2/3 half: n001,n002 2027-01-15T08:15:00Z to 2027-01-15T08:30:00Z by 2",
            "3/3 -: n003,n004 2027-01-15T08:30:00Z to 2027-01-15T08:45:00Z by 3",
            "3/3 -: n005 2027-01-15T08:45:00Z to 2027-01-15T09:00:00Z by 4",
        ]
    );
}

#[test]
fn a_preview_waits_for_the_soak_of_waves_that_it_imagines() {
    let waves_of = r#""waves":[{"name":"canary","nodes":2,"soakSeconds":3600}]"#;
    assert_eq!(
        batches(&run(waves_of, 3, 15 * MINUTES, ""), Some(15 * MINUTES)),
        [
            "1/2 canary: n000 2027-01-15T08:00:00Z to 2027-01-15T08:15:00Z by 1",
            "2/2 -: n001 2027-01-15T09:15:00Z to 2027-01-15T09:30:00Z by 2",
            "2/2 -: n002 2027-01-15T09:30:00Z to 2027-01-15T09:45:00Z by 3",
        ]
    );
}
