//! A person holds a node, or gives up with it what its owner does to all of its nodes: heeded for every kind of owner, also of a node that
//! was let go.

use crate::words::check;

const PLAN: &str = "node a worker v0
     node b worker v0
     plan concurrency:1 cordon finalizer applying:a";

const REPLACED: &str = "node new worker v0
     version img2 finalizer
     host new img2
     group w image:img2
     groups w";

#[test]
fn a_node_that_is_let_go_is_held_once_it_has_changed() {
    let of_plan = |turn: &str, more: &str, job: &str| {
        format!("{PLAN} {more}\n begun a {turn} directive:Hold boot:b1\n keeps a cordoned\n {job}")
    };
    // It comes to its end.
    check(
        &of_plan("Released", "", "planjob a running runs:upgrade"),
        "node a Released Upgrading\n > nothing",
    );
    // Its Job may be gone before the hold is: that it is complete is written down.
    check(
        &of_plan("Released", "", "planjob a complete"),
        "node b Selected WaitingForTurn\n > journal a Changed",
    );
    for job in ["planjob a complete", ""] {
        check(
            &of_plan("Changed entered:Released", "", job),
            "node a Held HeldByPerson ~ held by someone
             node b Selected WaitingForTurn
             ends b ClusterAdmin
             > nothing",
        );
    }
    // Who leaves waits for nobody.
    check(
        &of_plan("Changed entered:Released", "deleting", "planjob a complete"),
        "> restore a uncordoned +p
         > journal a Done
         > release lease a",
    );

    let changed = format!("{REPLACED}\n replacing a Changed machine:m-a heir:new hold");
    check(&changed, "node a Held HeldByPerson ~ held by ada\n > nothing");
    let deleted = changed.replace("finalizer", "finalizer deleting");
    check(&deleted, "> journal a Done Done");
    // No other node has its place.
    check(
        &changed.replace("heir:new", ""),
        "node a Held HeldByPerson ~ held by ada\n > nothing",
    );
    check(
        &changed.replace(" hold", ""),
        "node a Done Done\n > journal a Done Done",
    );

    let of_run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         run finalizer {}
         change a Released pin:4.17.0 entries:PreRules,Released directive:Hold";
    check(of_run, "> journal a PostRules");
    let back = of_run
        .replace("a Released", "a PostRules")
        .replace("PreRules,Released", "PreRules,Released,PostRules");
    check(&back, "node a Held HeldByPerson ~ held by alice\n > nothing");
    // Nor does a run that goes to another version end it.
    let moved_on = back.replace("cluster 4.17.0", "cluster 4.17.1");
    check(&moved_on, "node a Held HeldByPerson ~ held by alice");
}

/// Whoever holds a node means the node: a new version is no word of that person.
#[test]
fn a_held_node_is_held_when_its_owner_goes_to_another_version() {
    let of_plan = format!("{PLAN} version:v2\n begun a Selected hash:old to:v1 directive:Hold");
    let held = "node a Selected HeldByPerson ~ held by someone
         ends a ClusterAdmin";
    check(&of_plan, held);
    // Also one that was given back as the Plan went on.
    let sent_back = "begun a Failed hash:old to:v1 reason:Superseded directive:Hold";
    check(&format!("{PLAN} version:v2\n {sent_back}"), held);
    let taken_back = of_plan.replace(" directive:Hold", "");
    check(&taken_back, "> admit b");

    let of_version = "node a worker v0
         version img3 finalizer
         host a img1
         group w image:img3
         groups w
         replacing a Selected image:img2";
    check(
        &format!("{of_version} hold"),
        "node a Selected HeldByPerson ~ held by ada",
    );
    check(of_version, "node a Admitted Admitting");

    let of_run = "cluster 4.17.1
         pool worker 4.17.1 ours
         node a worker 4.16.0
         run finalizer {}
         change a Selected to:4.17.0";
    check(
        &format!("{of_run} directive:Hold"),
        "node a Selected HeldByPerson ~ held by alice",
    );
    check(of_run, "> admit a");
}

/// The journal that says so is kept as long as its node is there.
#[test]
fn the_journal_of_a_hold_is_not_forgotten() {
    let run = |directive: &str, node: &str| {
        format!(
            "cluster 4.17.1
             pool worker 4.17.1 ours
             node {node} worker 4.17.1
             run finalizer {{}}
             change a Selected to:4.17.0 {directive} created:-9999999"
        )
    };
    check(&run("", "a"), "> unpause worker\n > forget a 4.17.0");
    check(&run("directive:Hold", "a"), "> unpause worker");
    check(
        &run("directive:Hold", "b"),
        "> unpause worker\n > forget a 4.17.0",
    );
}

/// It would else repeat what fails an hour later, before anybody has looked.
#[test]
fn a_retry_of_a_node_that_is_changing_is_not_kept_for_a_later_failure() {
    let of_plan = |turn: &str, job: &str| {
        format!(
            "{PLAN}\n begun a {turn} boot:b1 directive:Retry generation:2\n keeps a cordoned\n planjob a {job}"
        )
    };
    check(
        &of_plan("Released", "running runs:upgrade"),
        "node a Released Admitting ~ retried by someone
         > journal a",
    );
    // Nor is it taken for the word on a failure that it did not know of.
    check(&of_plan("Released", "failed exit:3"), "> journal a");
    check(
        &of_plan("Held reason:JobFailed entered:Released", "failed exit:3"),
        "> journal a Admitted Admitting attempt 2",
    );
    let changed = format!("{REPLACED}\n rule settled Post\n replacing a Changed machine:m-a heir:new retry");
    check(&changed, "node a Changed Admitting\n > journal a");
}

#[test]
fn a_person_gives_an_owner_up_with_one_of_its_nodes() {
    check(
        &format!("{PLAN}\n begun a PreRules directive:Abort\n keeps a"),
        "phase Leaving
         hold Aborted ~ given up by someone (NodeChange
         > restore a
         > journal a Failed RunGivenUp
         > release lease a",
    );
    // Of an upgrade that was asked for before, it says nothing of this one.
    check(
        &format!("{PLAN} version:v2\n begun a Failed hash:old to:v1 reason:Superseded directive:Abort"),
        "phase Active
         not hold Aborted",
    );
    let of_version = "node a worker v0
         version img2 finalizer
         host a img1
         group w image:img2
         groups w
         replacing a PreRules abort";
    check(
        of_version,
        "phase Leaving
         hold Aborted ~ given up by ada (NodeChange",
    );
    // A maintenance has no other node.
    let of_maintenance = |turn: &str| format!("node a worker 4.16.0\n maintenance a finalizer\n {turn}");
    check(
        &of_maintenance("turn a PreRules abort\n kept a"),
        "node a Skipped SkippedByPerson ~ given up by someone
         maintenance Failed",
    );
    check(
        &of_maintenance("turn a new abort"),
        "node a Skipped SkippedByPerson ~ given up by someone
         > journal a Skipped SkippedByPerson",
    );
}
