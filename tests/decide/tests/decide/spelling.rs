//! Two fields of statuses had another name before 0.1.0 (`adr/0052-one-spelling.md`): a turn goes on whichever of the two names its journal
//! has, and a version that knows the old ones alone can take over in mid-run.

use crate::{
    cluster::Cluster,
    words::{check_cluster, decision},
};
use numo_api::{NodeChangeStatus, Pin, RuleWait};
use numo_core::action::Action;
use serde_json::{Value, json};

/// A rule that makes its node wait, and has done so for longer than it may.
const WAITS: &str = "cluster 4.17.0
     pool worker 4.17.0 ours
     node a worker 4.16.0 turn
     rule disk Pre wasm timeout:100
     run finalizer {}
     change a PreRules pin:4.17.0
     evaluation disk/Pre/1 of a Wait:DiskFull/3600 first:0 said:0";

/// A node that rebooted under its Job.
const REBOOTED: &str = "node a worker v0 kubelet:v0 boot:b2
     plan concurrency:1 cordon finalizer applying:a
     begun a Released boot:b1
     keeps a cordoned
     planjob a failed exit:143";

/// The status as a version wrote it, with one name of each field or with both.
fn written(status: &NodeChangeStatus, names: &[&str]) -> NodeChangeStatus {
    let mut value = serde_json::to_value(status).expect("a status");
    let keep = |object: &mut Value| {
        let fields = object.as_object_mut().expect("an object");
        fields.retain(|name, _| {
            !["ruleUID", "ruleUid", "bootID", "bootId"].contains(&&**name) || names.contains(&&**name)
        });
    };
    if let Some(waits) = value.get_mut("ruleWaits").and_then(Value::as_array_mut) {
        waits.iter_mut().for_each(keep);
    }
    if let Some(pin) = value.get_mut("pin").filter(|pin| !pin.is_null()) {
        keep(pin);
    }
    serde_json::from_value(value).expect("a status")
}

/// The status that a decision writes.
fn journaled(text: &str) -> Value {
    let found = decision(&Cluster::parse(text));
    let written = found.actions.iter().find_map(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => serde_json::to_value(status).ok(),
        _ => None,
    });
    written.expect("a journal is written")
}

#[test]
fn a_journal_of_either_spelling_is_gone_on_with() {
    let late = WAITS.replace("said:0", "said:0 noted:-100");
    for names in [
        &["ruleUid", "bootId"][..],
        &["ruleUID", "bootID"],
        &["ruleUid", "ruleUID", "bootId", "bootID"],
    ] {
        for (text, goes_on) in [
            (&*late, "> journal a verdict disk/Pre/1 Failure"),
            (REBOOTED, "> journal a Admitted Rebooted attempt 2"),
        ] {
            let mut cluster = Cluster::parse(text);
            for change in cluster.observed.changes.values_mut() {
                change.status = written(&change.status, names);
            }
            check_cluster(&cluster, goes_on);
        }
    }
}

/// A numo that is rolled back reads what is written now: it knows the old names, and one of them is required there.
#[test]
fn what_is_written_has_both_spellings() {
    let wait = &journaled(&format!("{WAITS} new"))["ruleWaits"][0];
    assert_eq!(wait["ruleUID"], wait["ruleUid"]);
    assert_ne!(wait["ruleUID"], json!(""));
    let begins = "node a worker v0 kubelet:v0 boot:b1
         plan concurrency:1 cordon finalizer applying:a
         begun a new
         keeps a
         planjob a running";
    let pin = &journaled(begins)["pin"];
    assert_eq!((&pin["bootID"], &pin["bootId"]), (&json!("b1"), &json!("b1")));
}

#[test]
fn the_new_name_is_believed_before_the_old_one() {
    let pin = Pin {
        boot_id: Some("new".to_owned()),
        earlier_boot_id: Some("old".to_owned()),
        ..Pin::default()
    };
    assert_eq!(pin.boot_id(), Some("new"));
    let wait: RuleWait = serde_json::from_value(json!({
        "rule": "numo/disk", "phase": "Pre", "attempt": 1, "round": 1,
        "ruleUID": "new", "ruleUid": "old", "generation": 1, "since": "2026-11-30T00:00:00Z",
    }))
    .expect("a wait");
    assert_eq!(wait.rule_uid(), "new");
}
