//! A clock that is put back: what began at a time that has not come waits no longer than it would have from now on. Of every owner.

use crate::{
    capabilities::soaking,
    cluster::{Cluster, now},
    words::{check, decision, words},
};
use numo_core::action::Action;

/// How far ahead the clock was.
const AHEAD: i64 = 90_000;

/// Writes the journals that are decided into what is seen.
fn journaled(cluster: &mut Cluster) -> usize {
    let found = decision(cluster);
    let mut written = 0;
    for planned in found.actions {
        if let Action::WriteJournal { key, status, .. } = planned.action {
            cluster.observed.changes.get_mut(&key).expect("it").status = *status;
            written += 1;
        }
    }
    written
}

#[test]
fn a_soak_that_began_at_a_time_that_has_not_come_is_no_longer_for_it() {
    for (text, ahead) in soaking(-100).iter().zip(soaking(AHEAD)) {
        let until = |cluster: &Cluster| {
            let found = decision(cluster);
            let node = found.report.nodes.values().find(|node| node.why.until.is_some());
            let until = node.and_then(|node| node.why.until);
            until.map(|until| until.as_second() - now().as_second())
        };
        let cluster = Cluster::parse(text);
        assert_eq!(until(&cluster), Some(500), "{text}");
        let mut cluster = Cluster::parse(&ahead);
        assert_eq!(journaled(&mut cluster), 1, "{ahead}");
        let found = words(&cluster, &decision(&cluster)).join("\n");
        assert_eq!(until(&cluster), Some(600), "{ahead}\n{found}");
        assert_eq!(journaled(&mut cluster), 0, "{ahead}\n{found}");
    }
}

#[test]
fn the_delay_of_a_plan_counts_from_now_too() {
    let of = |since: i64| {
        format!(
            "node a worker v0
             plan concurrency:1 cordon finalizer applying:a spec {{\"postCompleteDelay\":\"300s\"}}
             begun a Changed boot:b0 of:v0 entered:Released since:{since}
             keeps a leased
             planjob a complete ended:{since}"
        )
    };
    let mut cluster = Cluster::parse(&of(AHEAD));
    assert_eq!(journaled(&mut cluster), 1);
    let found = decision(&cluster);
    let until = found.report.nodes["a"].why.until.expect("a time");
    assert_eq!(until.as_second() - now().as_second(), 300);
}

#[test]
fn the_soak_of_a_wave_counts_from_now_too() {
    let waves =
        r#""waves":[{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}},"soakSeconds":600}]"#;
    let run = format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 label:canary=yes
         node b worker 4.17.0 label:canary=yes
         node c worker 4.16.0
         run {{{}}} finalizer
         change a Done pin:4.17.0 since:{AHEAD} entries:Admitted,Done
         change b Done pin:4.17.0 since:-5000 entries:Admitted,Done",
        waves.replace(':', ": ")
    );
    let plan = format!(
        "node a worker v0 label:canary=yes
         node b worker v0 label:canary=yes
         node c worker v0
         plan concurrency:1 cordon finalizer
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{waves}}}
         at a
         at b
         begun a Done since:{AHEAD} entered:Admitted
         begun b Done since:-5000 entered:Admitted"
    );
    let version = format!(
        "node c worker v0
         node x worker v0
         version img2 finalizer
         host x img2
         host c img1
         group w image:img2
         groups w
         binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeVersion\"}},{}}}
         replacing a Done machine:m-a heir:x unleased since:{AHEAD}",
        waves.replace(
            "{\"matchLabels\":{\"canary\":\"yes\"}}",
            "{\"matchLabels\":{\"zone\":\"1\"}}"
        )
    )
    .replace("node x worker v0", "node x worker v0 label:zone=1");
    for text in [run, plan, version] {
        let mut cluster = Cluster::parse(&text);
        assert_eq!(journaled(&mut cluster), 1, "{text}");
        let found = decision(&cluster);
        let wave = found.report.wave.as_ref().expect("a wave");
        let until = wave.soak_until.map(|at| at.as_second() - now().as_second());
        assert_eq!(until, Some(600), "{text}\n{}", words(&cluster, &found).join("\n"));
        assert_eq!(journaled(&mut cluster), 0, "{text}");
    }
}

/// Pauses are of what was seen by the clock of before, too.
#[test]
fn what_was_refused_at_a_time_that_has_not_come_is_tried_now() {
    let draining = |pod: &str, more: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running counted:9
             kept a cordoned
             turn a Cordoned
             pod web-0 on a of:ReplicaSet/web app:web {pod}
             {more}"
        )
    };
    for said in ["Budget", "Accepted", "Asked", "Busy", "Refused"] {
        let refused = format!("evicted web-0 {said} at:{AHEAD}");
        check(&draining("", &refused), "> evict web-0");
    }
    check(
        &draining("", &format!("pdb web allows:0\n evicted web-0 Budget at:{AHEAD}")),
        "> evict web-0",
    );
    check(
        &draining(
            "created:-20",
            &format!("returned a ReplicaSet/web at:{AHEAD} times:9"),
        ),
        "> evict web-0 again\n > journal a Drained",
    );
    let rule = |at: i64| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule backup Pre
             run {{}} finalizer
             change a PreRules pin:4.17.0
             refused backup/Pre/1 of a 403 at:{at}"
        )
    };
    check(&rule(-1), "node a PreRules JobsForbidden\n > nothing");
    check(&rule(AHEAD), "> job backup/Pre/1 of a");
    check(
        &format!("node a worker v0\n plan channel cordon latest:v1\n channel v2 at:{AHEAD}"),
        "? channel https://channel",
    );
}
