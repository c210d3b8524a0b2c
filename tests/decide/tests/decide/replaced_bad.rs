//! NodeVersions and what is wrong around them: a provider that lies, objects that contradict one another, and fields that let nothing begin.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision},
};

/// Two outdated workers and their group, which already gets the image.
fn two(rest: &str) -> String {
    format!(
        "node a worker v0\n node b worker v0\n version img2 finalizer\n host a img1\n host b img1\n group w image:img2\n groups w\n {rest}"
    )
}

/// The node would be drained and deleted for it, and nothing would take its place.
#[test]
fn a_machine_that_is_looked_for_and_is_said_to_be_that_of_an_old_node_is_doubted() {
    let said =
        two("replacing a PreRules\n pending request for:a leave node:b machine:m-b Ready created:-300");
    check(
        &said,
        "problem ProviderContradicts ~ Node b was there before the machine was asked for
         not > note b
         not > forget it",
    );
    // It has joined since it was asked for.
    let late = said.replace("created:-300", "created:-1000000");
    check(
        &late,
        "not problem\n > note b obsolete=true\n > forget it\n > journal a PreRules JoinFailed",
    );
}

/// A provider that gives one machine for two requests: the fleet would have one less.
#[test]
fn a_new_node_that_has_the_place_of_another_one_takes_no_second() {
    let text = |host: &str, turn: &str| {
        format!(
            "node a worker v0\n node b worker v0\n node new worker v0\n version img2 surge:2 finalizer
             host a img1\n host b img1 {host}\n group w image:img2\n groups w
             replacing a PreRules\n replacing b {turn}
             pending request for:a node:new machine:m-new Ready reached"
        )
    };
    let refused = "node a PreRules ProviderContradicts ~ Node new has the place of Node b
         ends a ClusterAdmin
         problem ProviderContradicts
         not > note a
         not > forget it
         not > note new";
    // The pair is there, or the old one is gone.
    check(&text("heir:new\n host new img2 donor:b", "PreRules"), refused);
    let gone = text("\n host new img2", "Done machine:m-b heir:new unleased since:-30")
        .replace("node b worker v0\n", "")
        .replace("host b img1", "");
    let mut over = Cluster::parse(&gone);
    let new = over.observed.nodes.get_mut("new").expect("a node");
    new.created = crate::cluster::at(-200);
    check_cluster(&over, refused);
    // A later node has the name of the one that took the place.
    let new = over.observed.nodes.get_mut("new").expect("a node");
    new.created = crate::cluster::at(-20);
    check_cluster(&over, "> note new donor=a\n > note a heir=new");
    // Two PendingNodes have it: neither turn goes on.
    let twice =
        text("\n host new img2", "PreRules") + "\n pending q for:b node:new machine:M-NEW Ready reached";
    check(
        &twice,
        "node a PreRules ProviderContradicts\n node b PreRules ProviderContradicts\n > nothing",
    );
}

/// Two objects would be of one group, and numo would have to ask a person to delete what it has made.
#[test]
fn a_group_that_is_listed_twice_gets_one_object() {
    let mut cluster = Cluster::parse(
        "node a worker v0\n version img2\n host a img2\n group w image:img2\n groups w,x=one,y=two",
    );
    let groups = cluster.observed.fleet.provider.groups.as_mut().expect("a list");
    let listed = groups.said.as_mut().expect("groups");
    listed[2].group_id = listed[1].group_id.to_uppercase();
    check_cluster(&cluster, "> create group group-one");
}

#[test]
fn a_surge_of_nothing_is_for_a_person() {
    let none = |rest: &str| two(rest).replace("version img2", "version img2 surge:0");
    for text in [none(""), none("replacing a PreRules")] {
        check(
            &text,
            "node a ~ spec.surge: found 0, wanted at least 1
             ends a ClusterAdmin
             stalled a WaitingForTurn
             > nothing",
        );
    }
    // Whose new node is there needs none.
    let paired = none("")
        .replace("host a img1", "host a img1 heir:b")
        .replace("host b img1", "host b img2 donor:a");
    check(&paired, "> admit a");
}

/// As long as it runs no machine is made, and nothing else would ever say why.
#[test]
fn an_autoscaler_that_cannot_be_stopped_is_for_a_person() {
    let runs = |since: i64, replicas: i64| {
        let mut cluster = Cluster::parse(&two(&format!(
            "replacing a Admitted since:{since}\n strategy replicas:{replicas}"
        )));
        let strategy = cluster
            .observed
            .fleet
            .strategies
            .get_mut("strategy")
            .expect("one");
        strategy.status.replicas = Some(1);
        cluster
    };
    check_cluster(
        &runs(-299, 1),
        "node a PreRules AutoscalerRuns
         ends a Numo
         wake 1
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    let late = runs(-300, 1);
    check_cluster(
        &late,
        "node a PreRules AutoscalerRuns ~ something starts it again and again
         ends a ClusterAdmin
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    // That it was started is not known for long.
    let mut now = late;
    let strategy = now.observed.fleet.strategies.get_mut("strategy").expect("one");
    strategy.status.replicas = Some(0);
    check_cluster(&now, "node a PreRules AutoscalerRuns\n ends a Numo");
}

/// They would write its command in turns, for ever, and its pods would start anew each time.
#[test]
fn an_autoscaler_of_two_strategies_is_seen_to_by_one_of_them() {
    let mut cluster = Cluster::parse(
        "node a worker v0\n version img2\n host a img2\n group w image:img2\n groups w\n strategy on extra:v=2",
    );
    let strategies = &mut cluster.observed.fleet.strategies;
    let mut second = strategies["strategy"].clone();
    second.name = "twice".to_owned();
    second.uid = "uid-twice".to_owned();
    second.spec.autoscaler_extra_args = None;
    strategies.insert(second.name.clone(), second);
    check_cluster(
        &cluster,
        "problem InvalidField ~ AutoscalingStrategy twice spec.deploymentName: found kube-system/constellation-cluster-autoscaler
         > nothing",
    );
    // Both are switched, as in the reference, or the other one would be said to run.
    let second = cluster.observed.fleet.strategies.get_mut("twice").expect("one");
    second.spec.enabled = false;
    check_cluster(&cluster, "> autoscaler on");
}

#[test]
fn sizes_of_a_group_that_cannot_be_are_told_once_with_and_without_an_autoscaler() {
    let wrong = two("").replace("group w image:img2", "group w image:img2 autoscaling min:6 max:5");
    let told = "ScalingGroup w spec.min: found 6 with spec.max 5, wanted at most that";
    for text in [
        wrong.clone(),
        format!("{wrong}\n strategy on"),
        wrong.replace("autoscaling ", ""),
    ] {
        let cluster = Cluster::parse(&text);
        check_cluster(
            &cluster,
            &format!("problem InvalidField: {told}\n not problem ProviderUnavailable"),
        );
        let problems = decision(&cluster).report.problems;
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    }
    // One of them alone says nothing.
    check(
        &wrong.replace(" max:5", "").replace("autoscaling ", ""),
        "not problem",
    );
}

/// Whoever is held for that looks at the quota, and not at the image.
#[test]
fn a_machine_that_was_never_made_says_why_when_its_time_is_over() {
    let late = "replacing a PreRules\n pending request for:a leave";
    check(
        &two(&format!("{late} said:Exhausted")),
        "node a PreRules JoinFailed ~ in time: Exhausted",
    );
    check(&two(late), "node a PreRules JoinFailed ~ did not join");
    check(
        &two(&format!("{late} node:new machine:m-new said:Exhausted")),
        "node a PreRules JoinFailed ~ m-new of PendingNode",
    );
}

/// Both would go, and the fleet would have one less.
#[test]
fn a_node_that_is_to_go_itself_takes_the_place_of_none() {
    let pair = |new: &str| {
        format!(
            "node a worker v0\n node new worker v0\n version img2 finalizer\n host a img1 heir:new\n host new {new}
             group w image:img2\n groups w\n pods a\n replacing a Drained cordoned"
        )
    };
    check(&pair("img2 donor:a"), "> journal a Released MachineLeaving");
    for new in ["img2 donor:a obsolete", "img0 donor:a"] {
        check(&pair(new), "not > journal a Released");
    }
    // Nor does a node that is told to take its own.
    let own = pair("img2").replace("heir:new", "heir:a donor:a");
    check(&own, "not > journal a Released");
}

/// The spec was edited there and back: what was told meanwhile may come true at any moment, and the machine would count as one that failed.
#[test]
fn no_machine_is_made_while_the_provider_may_yet_give_it_another_image() {
    for turn in [
        "replacing a PreRules",
        "replacing a PreRules\n pending request for:a",
    ] {
        let taken = |at: i64| two(&format!("{turn}\n taken w img3 at:{at}"));
        check(
            &taken(-119),
            "node a PreRules GroupImageOutdated ~ the provider was told image \"img3\" before \"img2\"
             wake 1
             > nothing",
        );
        let made = if turn.contains("pending") {
            "> make a machine of G-w"
        } else {
            "> intend a machine of G-w"
        };
        check(&taken(-120), made);
        // It was told the image that is asked for.
        check(&taken(-60).replace("img3", "img2"), made);
        // Whether it does what it was told is not known yet; or it has refused that.
        let told = |more: &str| {
            let mut cluster = Cluster::parse(&format!("{}\n told G-w again:10 {more}", taken(-1)));
            let told = cluster.observed.fleet.provider.told_images.values_mut();
            told.for_each(|told| told.since = None);
            cluster
        };
        check_cluster(&told(""), "node a PreRules GroupImageOutdated\n > nothing");
        check_cluster(&told("problem:quota"), made);
    }
    // It is looked at soon, and not in a quarter of an hour.
    let seen = two("replacing a PreRules\n taken w img3 at:-60\n image w img2 at:-31");
    check(&seen, "? image G-w");
}

/// With an image that never boots the next one would have to wait until its time is over.
#[test]
fn a_machine_of_a_version_that_nobody_asks_for_any_more_is_given_up_at_once() {
    let edited = |turn: &str, rest: &str| {
        two(&format!(
            "replacing a {turn} reason:Superseded unleased\n pending old for:a {rest}"
        ))
    };
    let before = "Failed image:img0";
    for rest in ["node:new machine:m-new Creating", ""] {
        let machine = if rest.is_empty() { "-" } else { "m-new" };
        check(
            &edited(before, rest),
            &format!("node a Selected WaitingForTurn\n > rewrite old Leave {machine}"),
        );
    }
    // It is asked for, or only the components are others.
    check(
        &edited("Failed", "node:new machine:m-new Creating"),
        "not > rewrite",
    );
    let components = edited(before, "node:new machine:m-new Creating").replace(
        "version img2 finalizer",
        r#"version img2 finalizer spec {"imageVersion": "v2"}"#,
    );
    let mut components = Cluster::parse(&components);
    for change in components.observed.changes.values_mut() {
        change.spec.target.version = "v2".to_owned();
    }
    check_cluster(&components, "not > rewrite");
    // Nothing follows from a spec that cannot be.
    let wrong =
        edited(before, "node:new machine:m-new Creating").replace("version img2", "version img2 surge:some");
    check(&wrong, "not > rewrite");
}
