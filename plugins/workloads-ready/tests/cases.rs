//! Cases of `workloads-ready` against a host in memory: each tells what was seen in Pre and then in Post.

use numo_rule_sdk::{
    ErrorCode, Verdict,
    fake::{NOW, World, check_rule, input, line},
};
use workloads_ready::{describe, evaluate, parse};

fn pod(name: &str, owner: &str) -> String {
    let owner = if owner.is_empty() {
        String::new()
    } else {
        format!(", ownerReferences: [{{{owner}, controller: true}}]")
    };
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: {name}{owner}}}, spec: {{nodeName: w1}}, status: {{phase: Running}}}}\n"
    )
}

fn by(kind: &str, name: &str) -> String {
    format!("apiVersion: apps/v1, kind: {kind}, name: {name}")
}

fn workload(kind: &str, name: &str, spec: &str, status: &str) -> String {
    format!(
        "---\n{{apiVersion: apps/v1, kind: {kind}, metadata: {{namespace: a, name: {name}, generation: 3}}, spec: {{{spec}}}, status: {{observedGeneration: 3, {status}}}}}\n"
    )
}

fn replica_set(name: &str, deployment: &str) -> String {
    workload("ReplicaSet", name, "replicas: 3", "readyReplicas: 3").replace(
        "generation: 3}",
        &format!(
            "generation: 3, ownerReferences: [{{{}, controller: true}}]}}",
            by("Deployment", deployment)
        ),
    )
}

/// The pods and ReplicaSet of the Deployment `web`.
fn web() -> String {
    pod("web-1", &by("ReplicaSet", "web-5d")) + &replica_set("web-5d", "web")
}

fn deployment(spec: &str, status: &str) -> String {
    workload("Deployment", "web", spec, status)
}

/// Asks in Pre with one world and in Post with another.
fn told(before: &str, after: &str, config: &str) -> (String, String) {
    let first = evaluate(&input("pre", config), &World::new(before));
    let mut world = World::new(after);
    if let Ok(verdict) = &first {
        world.remember("pre", NOW, verdict);
    }
    (line(&first), line(&evaluate(&input("post", config), &world)))
}

fn check(name: &str, before: &str, after: &str, config: &str, expected: (&str, &str)) {
    let (pre, post) = told(before, after, config);
    assert_eq!((pre.as_str(), post.as_str()), expected, "{name}");
}

const REMEMBERED: &str = "pass WorkloadsRemembered";
const READY: &str = "pass WorkloadsReady";

#[test]
fn a_deployment_is_found_through_its_replica_set_and_waited_for() {
    let ready = web() + &deployment("replicas: 3", "readyReplicas: 3");
    let waits = "wait WorkloadsNotReady WorkloadNotReady=a/web";
    for (name, after, expected) in [
        ("ready", deployment("replicas: 3", "readyReplicas: 3"), READY),
        (
            "two of three",
            deployment("replicas: 3", "readyReplicas: 2"),
            waits,
        ),
        (
            "none is ready: the field is absent",
            deployment("replicas: 3", "replicas: 3"),
            waits,
        ),
        (
            "status not observed",
            deployment("replicas: 3", "readyReplicas: 3")
                .replace("observedGeneration: 3", "observedGeneration: 2"),
            waits,
        ),
        (
            "status never written",
            deployment("replicas: 3", "readyReplicas: 3").replace("observedGeneration: 3, ", ""),
            waits,
        ),
        (
            "scaled to zero",
            deployment("replicas: 0", "replicas: 0"),
            "pass WorkloadsReady ScaledToZero=a/web",
        ),
        (
            "scaled to zero, not observed",
            deployment("replicas: 0", "replicas: 0")
                .replace("observedGeneration: 3", "observedGeneration: 2"),
            waits,
        ),
        (
            "scaled down",
            deployment("replicas: 1", "readyReplicas: 1"),
            READY,
        ),
        ("scaled up", deployment("replicas: 5", "readyReplicas: 3"), waits),
        (
            "replicas by default one",
            deployment("paused: true", "readyReplicas: 1"),
            READY,
        ),
        (
            "more than wanted in a rollout",
            deployment("replicas: 3", "readyReplicas: 4"),
            READY,
        ),
        ("deleted", String::new(), "pass WorkloadsReady WorkloadGone=a/web"),
        (
            "being deleted",
            deployment("replicas: 3", "").replace("generation: 3}", "generation: 3, deletionTimestamp: now}"),
            "pass WorkloadsReady WorkloadGone=a/web",
        ),
        (
            "one of another namespace",
            deployment("replicas: 3", "readyReplicas: 3").replace("namespace: a", "namespace: b"),
            "pass WorkloadsReady WorkloadGone=a/web",
        ),
    ] {
        check(name, &ready, &after, "{}", (REMEMBERED, expected));
    }
}

#[test]
fn the_replica_set_of_the_next_rollout_does_not_matter() {
    let before = web() + &deployment("replicas: 3", "readyReplicas: 3");
    let after = replica_set("web-77", "web") + &deployment("replicas: 3", "readyReplicas: 3");
    check("rolled out since", &before, &after, "{}", (REMEMBERED, READY));
}

#[test]
fn stateful_sets_and_lone_replica_sets_are_watched_too() {
    for (kind, name) in [("StatefulSet", "db"), ("ReplicaSet", "lone")] {
        let pods = pod("p", &by(kind, name));
        let before = pods + &workload(kind, name, "replicas: 2", "readyReplicas: 2");
        check(
            kind,
            &before,
            &workload(kind, name, "replicas: 2", "readyReplicas: 2"),
            "{}",
            (REMEMBERED, READY),
        );
        let expected = format!("wait WorkloadsNotReady WorkloadNotReady=a/{name}");
        check(
            kind,
            &before,
            &workload(kind, name, "replicas: 2", "readyReplicas: 1"),
            "{}",
            (REMEMBERED, &expected),
        );
    }
    let rollout = "---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {namespace: a, name: r, ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: x, controller: true}]}, spec: {replicas: 1}}\n";
    let before = pod("p", &by("ReplicaSet", "r")) + rollout;
    let pre = "pass WorkloadsRemembered NotReadyBefore=a/r";
    check(
        "a ReplicaSet of another kind",
        &before,
        rollout,
        "{}",
        (pre, "pass WorkloadsReady ReadyAsBefore=a/r"),
    );
    check(
        "a ReplicaSet that is gone",
        &pod("p", &by("ReplicaSet", "gone")),
        "",
        "{}",
        (REMEMBERED, READY),
    );
}

#[test]
fn what_no_drain_moves_is_not_remembered() {
    let state = workload("StatefulSet", "db", "replicas: 2", "readyReplicas: 2");
    let db = by("StatefulSet", "db");
    for (name, pod, expected) in [
        (
            "mirror",
            pod("p", &db).replace(
                "name: p,",
                "name: p, annotations: {kubernetes.io/config.mirror: x},",
            ),
            REMEMBERED,
        ),
        ("DaemonSet", pod("p", &by("DaemonSet", "d")), REMEMBERED),
        (
            "terminating",
            pod("p", &db).replace("name: p,", "name: p, deletionTimestamp: now,"),
            REMEMBERED,
        ),
        (
            "succeeded",
            pod("p", &db).replace("Running", "Succeeded"),
            REMEMBERED,
        ),
        ("failed", pod("p", &db).replace("Running", "Failed"), REMEMBERED),
        ("another node", pod("p", &db).replace("w1", "w2"), REMEMBERED),
        (
            "alone",
            pod("p", ""),
            "pass WorkloadsRemembered PodWithoutController",
        ),
        (
            "Job",
            pod("p", "apiVersion: batch/v1, kind: Job, name: j"),
            "pass WorkloadsRemembered ControllerNotWatched",
        ),
        (
            "someone else's StatefulSet",
            pod("p", "apiVersion: apps.kruise.io/v1, kind: StatefulSet, name: db"),
            "pass WorkloadsRemembered ControllerNotWatched",
        ),
    ] {
        check(
            name,
            &(pod + &state),
            &state.replace("readyReplicas: 2", "readyReplicas: 0"),
            "{}",
            (expected, READY),
        );
    }
    let pending = pod("p", &db).replace("Running", "Pending");
    let waits = "wait WorkloadsNotReady WorkloadNotReady=a/db";
    check(
        "pending",
        &(pending + &state),
        &state.replace("readyReplicas: 2", "readyReplicas: 0"),
        "{}",
        (REMEMBERED, waits),
    );
}

#[test]
fn what_was_not_ready_before_follows_the_configuration() {
    let before = web() + &deployment("replicas: 3", "readyReplicas: 1");
    let noted = "pass WorkloadsRemembered NotReadyBefore=a/web";
    let waits = "wait WorkloadsNotReady WorkloadNotReady=a/web";
    for (config, ready, expected) in [
        ("{}", 0, (noted, waits)),
        ("{}", 1, (noted, "pass WorkloadsReady ReadyAsBefore=a/web")),
        ("{}", 3, (noted, READY)),
        (r#"{"unreadyBefore":"AsBefore"}"#, 0, (noted, waits)),
        (r#"{"unreadyBefore":"Ready"}"#, 1, (noted, waits)),
        (r#"{"unreadyBefore":"Ready"}"#, 3, (noted, READY)),
        (
            r#"{"unreadyBefore":"Wait"}"#,
            3,
            (
                "wait WorkloadsNotReady NotReadyBefore=a/web",
                "wait NothingRemembered",
            ),
        ),
    ] {
        let after = deployment("replicas: 3", &format!("readyReplicas: {ready}"));
        check(&format!("{config} {ready}"), &before, &after, config, expected);
    }
    let unobserved = before.replace(
        "kind: Deployment, metadata: {namespace: a, name: web, generation: 3}",
        "kind: Deployment, metadata: {namespace: a, name: web, generation: 4}",
    );
    assert_ne!(unobserved, before);
    check(
        "unobserved before",
        &unobserved,
        &deployment("replicas: 3", "readyReplicas: 1"),
        "{}",
        (noted, "pass WorkloadsReady ReadyAsBefore=a/web"),
    );
}

#[test]
fn without_memory_it_waits_or_passes_by_config() {
    let world = World::new("");
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &world)),
        "wait NothingRemembered"
    );
    assert_eq!(
        line(&evaluate(
            &input("post", r#"{"nothingRemembered":"Pass"}"#),
            &world
        )),
        "pass NothingRemembered"
    );
    let mut other = World::new("");
    other.remember(
        "pre",
        NOW,
        &evaluate(&input("pre", "{}"), &World::new("")).unwrap(),
    );
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &other)),
        READY,
        "a node without workloads is remembered as such"
    );
    other.history[0].run = "run-0".into();
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &other)),
        "wait NothingRemembered",
        "another run"
    );
    other.history[0].run = "run-1".into();
    for data in [
        None,
        Some("{"),
        Some("{}"),
        Some(r#"{"workloads":{"Pet":{}}}"#),
        Some(r#"{"workloads":{"Deployment":{"a":{"b":"c"}}}}"#),
    ] {
        other.history[0].data_json = data.map(Into::into);
        assert!(
            line(&evaluate(&input("post", "{}"), &other)).starts_with("failed:"),
            "{data:?}"
        );
    }
}

#[test]
fn all_attempts_in_pre_are_remembered_together() {
    let state = workload("StatefulSet", "db", "replicas: 2", "readyReplicas: 2");
    let first = evaluate(
        &input("pre", "{}"),
        &World::new(&(pod("p", &by("StatefulSet", "db")) + &state)),
    )
    .unwrap();
    let drained = evaluate(&input("pre", "{}"), &World::new(&state)).unwrap();
    let half = state.replace("readyReplicas: 2", "readyReplicas: 1");
    let worse = evaluate(
        &input("pre", "{}"),
        &World::new(&(pod("p", &by("StatefulSet", "db")) + &half)),
    )
    .unwrap();
    let waits = "wait WorkloadsNotReady WorkloadNotReady=a/db";
    for (attempts, expected) in [
        (vec![&first, &drained], waits),
        (vec![&drained, &first], waits),
        (vec![&first, &worse], waits),
        (vec![&worse, &first], waits),
        (vec![&worse], "pass WorkloadsReady ReadyAsBefore=a/db"),
        (vec![&drained], READY),
    ] {
        let mut world = World::new(&half);
        for attempt in attempts {
            world.remember("pre", NOW, attempt);
        }
        assert_eq!(line(&evaluate(&input("post", "{}"), &world)), expected);
    }
}

/// numo keeps what a rule left for itself with its newest pass of a phase alone.
#[test]
fn a_node_that_was_asked_about_twice_in_pre_is_remembered() {
    let state = workload("StatefulSet", "db", "replicas: 2", "readyReplicas: 2");
    let mut world = World::new(&(pod("p", &by("StatefulSet", "db")) + &state));
    let first = evaluate(&input("pre", "{}"), &world).unwrap();
    world.remember("pre", NOW, &first);
    let mut drained = World::new(&state);
    drained.history = world.history;
    let again = evaluate(&input("pre", "{}"), &drained).unwrap();
    let half = state.replace("readyReplicas: 2", "readyReplicas: 1");
    let mut after = World::new(&half);
    after.remember("pre", NOW, &first);
    after.history[0].data_json = None;
    after.remember("pre", NOW, &again);
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &after)),
        "wait WorkloadsNotReady WorkloadNotReady=a/db"
    );
}

#[test]
fn of_two_memories_the_one_that_asks_for_more_counts() {
    let state = |ready: u8| {
        workload(
            "StatefulSet",
            "db",
            "replicas: 3",
            &format!("readyReplicas: {ready}"),
        )
    };
    let remembered = |ready| {
        evaluate(
            &input("pre", "{}"),
            &World::new(&(pod("p", &by("StatefulSet", "db")) + &state(ready))),
        )
        .unwrap()
    };
    for order in [[1, 2], [2, 1]] {
        let mut world = World::new(&state(1));
        for ready in order {
            world.remember("pre", NOW, &remembered(ready));
        }
        let answer = line(&evaluate(&input("post", "{}"), &world));
        assert_eq!(
            answer, "wait WorkloadsNotReady WorkloadNotReady=a/db",
            "{order:?}"
        );
    }
}

#[test]
fn many_workloads_take_few_calls_and_every_page() {
    let mut yaml = String::new();
    for index in 0..30 {
        let namespace = |text: String| text.replace("namespace: a", &format!("namespace: n{index}"));
        yaml += &namespace(web() + &deployment("replicas: 3", "readyReplicas: 3"));
    }
    let mut world = World::new(&yaml);
    world.page_size = 500;
    let verdict = evaluate(&input("pre", "{}"), &world);
    assert_eq!(line(&verdict), REMEMBERED);
    assert_eq!(
        world.calls(),
        ["list Pod *", "list ReplicaSet *", "list Deployment *"].repeat(2)
    );
    let mut paged = World::new(&yaml.replace("readyReplicas: 3", "readyReplicas: 2"));
    paged.remember("pre", NOW, &verdict.unwrap());
    let Ok(Verdict::Wait(wait)) = evaluate(&input("post", "{}"), &paged) else {
        panic!("no wait")
    };
    assert_eq!(wait.report.findings.len(), 30);
    assert_eq!(wait.progress_percent, Some(0));
    assert!(
        wait.report
            .summary
            .starts_with("30 of 30 workloads are not ready again: Deployment n0/web, "),
        "{}",
        wait.report.summary
    );

    let several: String = (0..3)
        .map(|index| pod(&format!("p{index}"), &by("StatefulSet", &format!("s{index}"))))
        .collect();
    let world = World::new(
        &(several
            + &pod("q", &by("ReplicaSet", "web-5d"))
            + &web()
            + &deployment("replicas: 1", "readyReplicas: 1")),
    );
    let _ = evaluate(&input("pre", r#"{"namespaces":["a"]}"#), &world);
    let calls = world.calls();
    assert!(
        calls.contains(&"list StatefulSet a".into()) && calls.contains(&"get Deployment a/web".into()),
        "{calls:?}"
    );
    assert!(
        calls.iter().all(|call| !call.ends_with('*')),
        "a namespaced rule needs no right in others: {calls:?}"
    );
}

#[test]
fn what_does_not_fit_into_memory_is_an_error() {
    let mut yaml = String::new();
    for index in 0..80 {
        let name = format!("{}-{index}", "n".repeat(240));
        yaml += &pod(&format!("p{index}"), &by("StatefulSet", &name));
        yaml += &workload("StatefulSet", &name, "replicas: 1", "readyReplicas: 1");
    }
    assert!(
        line(&evaluate(&input("pre", "{}"), &World::new(&yaml)))
            .starts_with("failed: to remember 80 workloads takes")
    );
}

#[test]
fn namespaces_limit_what_is_remembered_and_compared() {
    let before = web() + &deployment("replicas: 3", "readyReplicas: 3");
    let after = deployment("replicas: 3", "readyReplicas: 0");
    check(
        "ignored",
        &before,
        &after,
        r#"{"ignoreNamespaces":["a"]}"#,
        (REMEMBERED, READY),
    );
    check(
        "others only",
        &before,
        &after,
        r#"{"namespaces":["b"]}"#,
        (REMEMBERED, READY),
    );
    let mut world = World::new(&after);
    world.remember(
        "pre",
        NOW,
        &evaluate(&input("pre", "{}"), &World::new(&before)).unwrap(),
    );
    assert_eq!(
        line(&evaluate(&input("post", r#"{"ignoreNamespaces":["a"]}"#), &world)),
        READY,
        "ignored since Pre"
    );
}

#[test]
fn a_stale_cache_is_not_believed() {
    let ready = web() + &deployment("replicas: 3", "readyReplicas: 3");
    let mut world = World::new(&deployment("replicas: 3", "readyReplicas: 1"));
    world.remember(
        "pre",
        NOW,
        &evaluate(&input("pre", "{}"), &World::new(&ready)).unwrap(),
    );
    world.cache = Some(Box::new(World::new(&ready)));
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &world)),
        "wait WorkloadsNotReady WorkloadNotReady=a/web"
    );
}

#[test]
fn errors_are_handed_on() {
    let ready = web() + &deployment("replicas: 3", "readyReplicas: 3");
    for kind in ["Pod", "ReplicaSet", "Deployment"] {
        let mut world = World::new(&ready);
        world.errors.push((kind, ErrorCode::Denied));
        assert_eq!(
            line(&evaluate(&input("pre", "{}"), &world)),
            "host error ErrorCode::Denied",
            "{kind}"
        );
    }
    let mut world = World::new(&ready);
    world.history_error = Some(ErrorCode::Unavailable);
    assert_eq!(
        line(&evaluate(
            &input("post", r#"{"nothingRemembered":"Pass"}"#),
            &world
        )),
        "host error ErrorCode::Unavailable"
    );
    let mut world = World::new(&ready);
    world.remember(
        "pre",
        NOW,
        &evaluate(&input("pre", "{}"), &World::new(&ready)).unwrap(),
    );
    world.errors.push(("Deployment", ErrorCode::Forbidden));
    assert_eq!(
        line(&evaluate(&input("post", "{}"), &world)),
        "host error ErrorCode::Forbidden"
    );
    assert!(line(&evaluate(&input("post-run", "{}"), &world)).starts_with("failed: unknown phase"));
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-workloads-ready.yaml"),
        &[
            "{}",
            r#"{"namespaces":["a"],"ignoreNamespaces":["b"],"unreadyBefore":"Wait","nothingRemembered":"Pass","retryAfterSeconds":10}"#,
        ],
        &[
            (r#"{"namespaces":[1]}"#, "/namespaces/0"),
            (r#"{"ignoreNamespaces":{}}"#, "/ignoreNamespaces"),
            (r#"{"unreadyBefore":"Ignore"}"#, "/unreadyBefore"),
            (r#"{"nothingRemembered":"Block"}"#, "/nothingRemembered"),
            (r#"{"retryAfterSeconds":"30"}"#, "/retryAfterSeconds"),
        ],
    );
}
