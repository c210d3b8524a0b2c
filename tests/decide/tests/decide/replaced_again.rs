//! NodeVersions and what is another matter by now: what was said of an earlier machine, marks and objects that are gone, and what the reference
//! has left; and sentences of `spec/constellation.md` that no other table has.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{machines::annotations, marks};
use numo_core::{
    action::{Action, Change, FleetAction},
    observed::{AUTOSCALER_NAME, AUTOSCALER_NAMESPACE, Key},
    owners::node_version,
};

const TWO: &str = "node a worker v0\n node b worker v0\n version img2 finalizer\n host a img1\n host b img1
     group w image:img2\n groups w";

fn two(rest: &str) -> String {
    format!("{TWO}\n{rest}")
}

/// A cloud that heals a machine makes it anew under its name, by the image that is asked for now: its new Node would be replaced for nothing.
#[test]
fn what_was_said_of_a_machine_before_its_node_was_there_is_asked_anew() {
    let of = |heard: i64, created: i64| {
        let text = "node a worker v0\n version img2\n host a - bare\n groups w\n group w image:img2";
        let mut cluster = Cluster::parse(&format!("{text}\n facts m-a img1 w at:{heard}"));
        let node = cluster.observed.nodes.get_mut("a").expect("a node");
        node.created = at(created);
        cluster
    };
    let asked = "node a Selected AwaitingAnnotation\n ? facts m-a\n > nothing";
    check_cluster(&of(-600, -300), asked);
    let noted = "not ? facts\n > note a scaling-group-id=G-w node-image=img1";
    check_cluster(&of(-200, -300), noted);
    // The clock of whoever made the Node is ahead: nobody asks again and again.
    check_cluster(&of(-1, 30), noted);
}

/// The same of its state: a machine that runs would be forgotten as one that is gone.
#[test]
fn what_was_said_of_a_machine_before_its_pendingnode_was_there_does_not_count() {
    let text = two("pending p leave node:p machine:m-p created:-10 late:5\n state m-p Terminated at:-600");
    check(&text, "> delete machine m-p");
    let since = text.replace("at:-600", "at:-5");
    check(&since, "> status p Terminated reached");
    // The clock of whoever made it is ahead: nobody asks again and again.
    let ahead = since.replace("created:-10", "created:30");
    check(&ahead, "not ? state\n > status p Terminated reached");
}

#[test]
fn a_joiningnode_that_names_no_components_takes_none_off_its_node() {
    check(
        "node a worker v0\n version img2 components:c2\n host a img2 components:c2\n group w image:img2\n groups w
         joining j node:a",
        "node a Done UpToDate\n > forget joining j",
    );
}

/// Its class, its pair and its room all compare without regard to case.
#[test]
fn the_case_of_images_components_and_groups_does_not_matter() {
    let text = "version IMG2 components:C2\n group w image:iMg2\n groups w";
    check(
        &format!("node a worker v0\n {text}\n host a Img2 group:W components:c2"),
        "node a Done UpToDate\n > nothing",
    );
    check(
        &format!(
            "node a worker v0\n node new worker v0\n {}\n host a img1 group:W components:C2\n host new img2 group:w components:c2
             replacing a PreRules\n pending request for:a group:W node:new machine:M-NEW Ready reached",
            text.replace("C2", "C2 finalizer")
        ),
        "> note new donor=a\n > note a heir=new",
    );
}

/// All flags in one order, and the groups of workers alone that say so; what has no size has none, as there.
#[test]
fn the_command_of_the_autoscaler_has_its_flags_in_order() {
    let text = "node a worker v0\n version img2\n host a img2\n groups w,x,y,cp
         group w image:img2 autoscaling min:1 max:5\n group x image:img2 autoscaling
         group y image:img2 min:1 max:5\n group cp image:img2 autoscaling min:1 max:5 role:ControlPlane
         strategy on extra:v=2";
    let mut cluster = Cluster::parse(text);
    let extras = [
        ("cloud-provider", "gce"),
        ("v", "2"),
        ("namespace", "kube-system"),
    ];
    let strategy = cluster
        .observed
        .fleet
        .strategies
        .get_mut("strategy")
        .expect("one");
    let extras = extras.map(|(key, value)| (key.to_owned(), value.to_owned()));
    strategy.spec.autoscaler_extra_args = Some(extras.into());
    let fleet = &cluster.observed.fleet;
    let command = node_version::command(&fleet.strategies["strategy"], fleet).expect("a command");
    assert_eq!(
        command,
        [
            "./cluster-autoscaler",
            "--cloud-provider=gce",
            "--namespace=kube-system",
            "--nodes=0:0:asg-x",
            "--nodes=1:5:asg-w",
            "--v=2",
        ]
    );
}

/// A cluster autoscaler that is given what cannot be does not start, and the cluster would have none.
#[test]
fn a_group_that_the_autoscaler_could_not_know_is_named_and_its_command_stays() {
    let text = "node a worker v0\n version img2\n host a img2\n groups w\n group w image:img2 autoscaling min:1 max:5\n strategy on";
    let mut nameless = Cluster::parse(text);
    let group = nameless.observed.fleet.groups.get_mut("w").expect("a group");
    group.spec.autoscaler_group_name = Some(String::new());
    check_cluster(
        &nameless,
        "problem InvalidField ~ ScalingGroup w spec.autoscalerGroupName: found none\n > nothing",
    );
    check(
        &text.replace("min:1", "min:-1"),
        "problem InvalidField ~ spec.min: found -1 with spec.max 5, wanted at least 0",
    );
}

fn noted(cluster: &Cluster) -> Vec<(i32, Vec<Change>)> {
    let actions = decision(cluster).actions.into_iter();
    let set = actions.filter_map(|planned| match planned.action {
        Action::Fleet(FleetAction::SetAutoscaler {
            replicas,
            annotations,
            ..
        }) => Some((replicas.1, annotations)),
        _ => None,
    });
    set.collect()
}

fn prior(from: Option<&str>, to: Option<&str>) -> Vec<Change> {
    vec![Change {
        key: marks::PRIOR_REPLICAS.to_owned(),
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    }]
}

/// The reference leaves it at 0 for ever: nobody but its strategy knows that it is to run.
#[test]
fn an_autoscaler_whose_strategy_is_gone_runs_again_once_no_node_is_replaced() {
    // What it had is written down where it is stopped, and taken off where it runs again.
    let stopped = Cluster::parse(&two("strategy on"));
    assert_eq!(noted(&stopped), [(0, prior(None, Some("1")))]);
    let stays = Cluster::parse(&two("replacing a Admitted\n strategy prior:1"));
    assert_eq!(noted(&stays), []);
    let current = "node a worker v0\n version img2\n host a img2\n group w image:img2\n groups w";
    let started = Cluster::parse(&format!("{current}\n strategy prior:1"));
    assert_eq!(noted(&started), [(1, prior(Some("1"), None))]);
    // Its strategy is gone.
    let forgotten = |text: &str, prior: &str| Cluster::parse(&format!("{text}\n strategy {prior} forgotten"));
    assert_eq!(noted(&forgotten(&two("replacing a Admitted"), "prior:1")), []);
    let alone = forgotten(current, "prior:2");
    assert_eq!(noted(&alone), [(2, prior(Some("2"), None))]);
    // The NodeVersion is not gone before.
    let leaving = current.replace("version img2", "version img2 deleting finalizer");
    check_cluster(
        &forgotten(&leaving, "prior:1"),
        "hold Deleting ~ is being switched on\n > autoscaler 1 of 0 with ./cluster-autoscaler",
    );
    // Somebody has started it, with as many as they like; or nobody but numo's strategy ever stopped it.
    let mut running = forgotten(current, "prior:2");
    let mut all = running.observed.fleet.autoscalers.values_mut();
    all.next().expect("one").replicas = 1;
    assert_eq!(noted(&running), [(1, prior(Some("2"), None))]);
    assert_eq!(noted(&forgotten(current, "")), []);
    // What others have written there is no number.
    assert_eq!(noted(&forgotten(current, "prior:many"))[0].0, 1);
    assert_eq!(noted(&forgotten(current, "prior:-3"))[0].0, 1);
}

/// The usual Deployment takes no other its place.
#[test]
fn the_usual_autoscaler_is_followed_beside_the_most() {
    let mut fleet = Cluster::parse(&two("strategy on")).observed.fleet;
    let usual = fleet.followed.clone();
    let others = (0..7).map(|number| Key::new("kube-system", format!("a-{number}")));
    fleet.followed.extend(others);
    let strategy = fleet.strategies.get_mut("strategy").expect("one");
    strategy.spec.deployment_name = "last".to_owned();
    assert_eq!(fleet.to_follow(), [Key::new("kube-system", "last")]);
    fleet.followed.retain(|one| !usual.contains(one));
    fleet.followed.insert(Key::new("kube-system", "a-7"));
    assert_eq!(fleet.to_follow(), usual.into_iter().collect::<Vec<_>>());
}

/// numo may have stopped it for a strategy that is gone since: whoever looks at the cluster looks for it, `numo release` as the operator.
#[test]
fn the_usual_autoscaler_is_followed_where_no_strategy_names_it() {
    let mut fleet = Cluster::parse(&two("strategy prior:1 forgotten unfollowed"))
        .observed
        .fleet;
    let usual = Key::new(AUTOSCALER_NAMESPACE, AUTOSCALER_NAME);
    assert_eq!(fleet.to_follow(), std::slice::from_ref(&usual));
    fleet.followed.insert(usual.clone());
    assert_eq!(fleet.to_follow(), []);
    // Nobody's machines are replaced here: a Deployment of that name is nothing to numo.
    fleet.followed.clear();
    fleet.versions.clear();
    assert_eq!(fleet.to_follow(), []);
}

/// Whoever takes both marks of a pair off while numo is down: the provider names the machine for the request of the turn, so it is that one.
#[test]
fn a_new_node_that_has_lost_its_pair_is_found_again() {
    let of = |host: &str, turn: &str, made: i64| {
        let text = format!(
            "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1\n host new img2 {host}
             group w image:img2\n groups w\n replacing a PreRules {turn}
             pending request for:a created:-1 node:new machine:m-new Ready reached"
        );
        let mut cluster = Cluster::parse(&text);
        // The turn began 120 s ago.
        cluster.observed.nodes.get_mut("new").expect("a node").created = at(made);
        cluster
    };
    check_cluster(
        &of("", "", -60),
        "node a PreRules Joining\n not problem\n > note new donor=a\n > note a heir=new",
    );
    // It became one in the pass before.
    let mut half = of("donor:a", "", -60);
    check_cluster(&half, "not problem\n > note a heir=new");
    let donor = half.observed.nodes.get_mut("a").expect("a node");
    donor
        .annotations
        .insert(annotations::HEIR.to_owned(), "new".to_owned());
    check_cluster(&half, "not problem\n > forget it");
    // It was there before the turn: only a person can say what it is.
    let doubted = "problem ProviderContradicts ~ was there before the machine was asked for
         node a PreRules ProviderContradicts\n > nothing";
    check_cluster(&of("", "", -121), doubted);
    // It is of another group, or is to go.
    check_cluster(&of("group:x", "", -60), "problem ProviderContradicts");
    check_cluster(
        &of("obsolete", "", -60),
        "problem ProviderContradicts\n not > note a",
    );
}

/// The garbage collector deletes what has an owner reference before its owner where that is deleted in the foreground, and the machine would be
/// known to nobody.
#[test]
fn a_pendingnode_of_the_reference_loses_its_owner_reference() {
    check(
        &two("pending p node:p machine:m-p Creating owned"),
        "> disown p\n > admit a",
    );
    let disowned = Cluster::parse(&two("pending p leave node:p machine:m-p Terminating owned"));
    let actions = decision(&disowned).actions.into_iter();
    let mut written = actions.filter_map(|planned| match planned.action {
        Action::Fleet(FleetAction::WritePendingNode {
            spec, annotations, ..
        }) => Some((spec, annotations)),
        _ => None,
    });
    let (spec, annotations) = written.next().expect("it is written");
    let found = &disowned.observed.fleet.pending["p"];
    assert_eq!(*spec, found.spec, "nothing else changes");
    let of = annotations.iter().find(|change| change.key == marks::PENDING_OF);
    assert_eq!(of.and_then(|of| of.to.clone()), Some(found.owner_uid.clone()));
}
