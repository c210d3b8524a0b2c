//! One domain after the other: `domains` of a MutexRunConfig, a Plan and a MutexBinding.

use crate::words::check;

const KEY: &str = "topology.kubernetes.io/zone";

/// A run over two pools in the zones z1 and z2, with these fields of `spec.domains` beside the key. `of_a` is the state of the first
/// node of z1, and `of_c` of the first one of z2.
fn run(domains: &str, (of_a, of_c): (&str, &str), more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool xtra 4.17.0 ours
         node a worker {of_a} zone:z1
         node b xtra 4.16.0 zone:z1
         node c worker {of_c} zone:z2
         node d xtra 4.16.0 zone:z2
         rule backup Pre
         run {{domains: {{key: {KEY}{domains}}}, maxUnavailable: 9}} finalizer
         {more}"
    )
}

const NEW: (&str, &str) = ("4.16.0", "4.16.0");

#[test]
fn a_domain_is_finished_before_the_next_begins() {
    check(
        &run("", NEW, ""),
        "node c Selected OtherDomain ~ Node a of topology.kubernetes.io/zone=z1 is not done, and nodes of z2 come after that (spec.domains)
         ends c OtherNode
         node d Selected OtherDomain
         > admit a
         > admit b",
    );
    // One that has changed and soaks is not done.
    let soaks = "change a Soaked pin:4.17.0 entries:Admitted,Released,PostRules,Soaked since:-10";
    check(
        &run("", ("4.17.0 turn", "4.16.0"), soaks),
        "node c Selected OtherDomain\n > admit b",
    );
    let done = run("", ("4.17.0", "4.16.0"), "").replace("node b xtra 4.16.0", "node b xtra 4.17.0");
    check(&done, "> admit c\n > admit d");
}

#[test]
fn domains_have_the_order_that_is_given_and_then_that_of_their_names() {
    check(
        &run(", order: [z2]", NEW, ""),
        "node a Selected OtherDomain ~ Node c of topology.kubernetes.io/zone=z2 is not done, and nodes of z1 come after that
         > admit c
         > admit d",
    );
    // A value that no node has is passed over.
    check(&run(", order: [z9]", NEW, ""), "> admit a\n > admit b");
}

#[test]
fn so_many_domains_may_have_turns_at_once() {
    check(
        &run(", atOnce: 2", NEW, ""),
        "> admit a\n > admit c\n > admit b\n > admit d",
    );
    // A node that joined a domain which was done already waits for the turn in the next one.
    check(
        &run("", ("4.16.0", "4.16.0 turn"), "change c PreRules pin:4.17.0"),
        "node a Selected OtherDomain ~ Node c of topology.kubernetes.io/zone=z2 has its turn, and spec.domains.atOnce allows 1
         ends a OtherNode
         node d Selected OtherDomain ~ Node a of
         > job backup/Pre/1 of c",
    );
}

#[test]
fn a_node_that_is_left_out_keeps_no_domain_open_and_a_dead_one_is_named() {
    let skipped = "change a Skipped reason:SkippedByPerson\n change b Skipped reason:SkippedByPerson";
    check(&run("", NEW, skipped), "> admit c\n > admit d");
    let dead = run(
        "",
        ("4.16.0 NotReady", "4.16.0"),
        "change b Skipped reason:SkippedByPerson",
    );
    check(
        &dead,
        "node a Selected NodeNotReady
         node c Selected OtherDomain ~ Node a of
         ends c ClusterAdmin
         > nothing",
    );
}

#[test]
fn nodes_that_go_first_do_so_domain_by_domain() {
    let of = |c: &str| {
        run("", ("4.16.0", "4.16.0"), "")
            .replace(
                "maxUnavailable: 9",
                "maxUnavailable: 9, first: {matchLabels: {canary: \"yes\"}}",
            )
            .replace("zone:z2", &format!("zone:z2 {c}"))
    };
    // Nobody of z1 goes first: z2 does not wait for z1, and z1 waits for the first nodes.
    check(
        &of("label:canary=yes"),
        "node a Selected FirstNodes
         node b Selected FirstNodes
         > admit c
         > admit d",
    );
}

/// Two waves, each with nodes in both zones: b and d go in the first.
const WAVES: &str = "waves: [{name: canary, nodeSelector: {matchLabels: {canary: \"yes\"}}}]";

#[test]
fn a_wave_goes_domain_by_domain_and_only_its_nodes_count() {
    let of = |(b, d): (&str, &str)| {
        run("", NEW, "")
            .replace("maxUnavailable: 9", &format!("maxUnavailable: 9, {WAVES}"))
            .replace("b xtra 4.16.0", &format!("b xtra {b} label:canary=yes"))
            .replace("d xtra 4.16.0", &format!("d xtra {d} label:canary=yes"))
    };
    // Node a of z1 is of the second wave: the first does not wait for it to go on to z2.
    check(
        &of(NEW),
        "node a Selected WaitsForWave
         node c Selected WaitsForWave
         node d Selected OtherDomain ~ Node b of topology.kubernetes.io/zone=z1 is not done, and nodes of z2 come after that (spec.domains)
         > admit b",
    );
    check(
        &of(("4.17.0", "4.16.0")),
        "node a Selected WaitsForWave
         node c Selected WaitsForWave
         > admit d",
    );
    check(
        &of(("4.17.0", "4.17.0")),
        "node c Selected OtherDomain ~ Node a of
         > admit a",
    );
}

#[test]
fn a_wave_of_a_plan_goes_domain_by_domain() {
    let of = |a: &str| {
        format!(
            "node a worker v0 zone:z1 label:canary=yes
             node b worker v0 zone:z2 label:canary=yes
             node c worker v0 zone:z1
             plan concurrency:9 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"domains\":{{\"key\":\"{KEY}\"}},\"waves\":[{{\"nodeSelector\":{{\"matchLabels\":{{\"canary\":\"yes\"}}}}}}]}}
             {a}"
        )
    };
    check(
        &of(""),
        "node b Selected OtherDomain ~ Node a of
         node c Selected WaitsForWave
         > admit a",
    );
    check(
        &of("at a"),
        "node c Selected WaitsForWave
         > admit b",
    );
    check(&of("at a\n at b"), "> admit c");
}

#[test]
fn a_node_without_the_label_waits_for_a_person() {
    let cluster = run("", NEW, "").replace("node d xtra 4.16.0 zone:z2", "node d xtra 4.16.0");
    check(
        &cluster,
        "node d Selected NoDomain ~ Node d has no label topology.kubernetes.io/zone, by which nodes have their turns (spec.domains); label it
         ends d ClusterAdmin
         node c Selected OtherDomain
         > admit a
         > admit b",
    );
}

#[test]
fn domains_that_cannot_be_understood_hold_the_run() {
    for (given, words) in [
        (", atOnce: 0", "spec.domains.atOnce: found 0, wanted 1 or more"),
        (
            ", order: [z1, z2, z1]",
            "spec.domains.order: found \"z1\" twice, wanted each value once",
        ),
    ] {
        check(
            &run(given, NEW, ""),
            &format!("hold InvalidField ~ {words}\n > nothing"),
        );
    }
    let no_key = run("", NEW, "").replace(KEY, "\"\"");
    check(
        &no_key,
        "hold InvalidField ~ spec.domains.key: found none, wanted the key of a label",
    );
    let no_label = run("", NEW, "").replace(KEY, "\"a b\"");
    check(
        &no_label,
        "hold InvalidField ~ spec.domains.key: found \"a b\", wanted a label key",
    );
}

fn plan(settings: &[&str]) -> String {
    let bindings = settings.iter().enumerate().map(|(number, settings)| {
        format!("binding b{number} spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"domains\":{settings}}}\n")
    });
    format!(
        "node a worker v0 zone:z1
         node b worker v0 zone:z2
         node c worker v0 zone:z2
         plan concurrency:9 cordon finalizer
         {}",
        bindings.collect::<String>()
    )
}

#[test]
fn a_plan_goes_domain_by_domain_as_its_bindings_say() {
    let by_zone = format!("{{\"key\":\"{KEY}\"}}");
    check(
        &plan(&[&by_zone]),
        "node b Selected OtherDomain ~ Node a of topology.kubernetes.io/zone=z1 is not done, and nodes of z2 come after that (MutexBinding b0 spec.domains)
         ends b OtherNode
         node c Selected OtherDomain
         > admit a",
    );
    let other = format!("{{\"key\":\"{KEY}\",\"order\":[\"z2\"]}}");
    check(
        &plan(&[&other]),
        "node a Selected OtherDomain\n > admit b\n > admit c",
    );
    // Two that say the same are one. Two orders would wait for each other for ever.
    check(
        &plan(&[&by_zone, &by_zone]),
        "node b Selected OtherDomain\n > admit a",
    );
    check(
        &plan(&[&by_zone, &other]),
        "node a Selected InvalidField ~ MutexBinding b1 spec.domains: found another order than in MutexBinding b0 spec.domains, wanted the same",
    );
}
