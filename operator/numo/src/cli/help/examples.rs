//! Examples of each verb: what a call does, and the call. A test parses every one of them.

type Example = (&'static str, &'static str);

/// The examples of each verb.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "status",
        &[
            (
                "What is under way in the namespace of your context",
                "numo status",
            ),
            ("Everything, and keep showing changes", "numo status -A -w"),
            (
                "The owners of several clusters as one table",
                "numo status -A --contexts canary,west,east",
            ),
            (
                "The owners of one team, as a table of your own",
                "numo status -A -l team=web -o custom-columns=NAME:.name,DONE:.done,OF:.nodes",
            ),
            (
                "When each run will be done",
                "numo status -A -o jsonpath='{range .owners[*]}{.name}{\"\\t\"}{.eta}{\"\\n\"}{end}'",
            ),
        ],
    ),
    (
        "explain",
        &[
            (
                "Why a node waits, who can end it, and by which command",
                "numo explain worker-3",
            ),
            (
                "The same of an owner, and fail with exit code 3 while it waits",
                "numo explain plan/k3s-server -n system-upgrade --exit-code",
            ),
            (
                "What a reason means, without a cluster",
                "numo explain reason/DrainRefused",
            ),
        ],
    ),
    (
        "preview",
        &[
            (
                "What a manifest would do, before it is applied",
                "numo preview -f run.yaml",
            ),
            (
                "What the next upgrade would do to a run that is there",
                "numo preview mutexrunconfig/upgrade --to-version 4.19.0",
            ),
            (
                "The same on a snapshot, without a cluster",
                "numo preview --snapshot cluster.json mutexrunconfig/upgrade",
            ),
        ],
    ),
    (
        "snapshot",
        &[(
            "What a preview needs of this cluster, without secrets",
            "numo snapshot -f cluster.json",
        )],
    ),
    (
        "doctor",
        &[
            (
                "What is wrong with the installation, and how to fix it",
                "numo doctor",
            ),
            (
                "Of an operator that is installed elsewhere",
                "numo doctor --operator-namespace numo",
            ),
        ],
    ),
    (
        "stop",
        &[
            (
                "Start nothing new on any node",
                "numo stop --reason 'the database is being moved'",
            ),
            (
                "Only on the nodes of one zone",
                "numo stop -l topology.kubernetes.io/zone=a",
            ),
            (
                "What would be written, field by field",
                "numo stop --dry-run=server -o json",
            ),
        ],
    ),
    (
        "start",
        &[
            ("Let all nodes change again", "numo start"),
            (
                "End the stop of a zone",
                "numo start -l topology.kubernetes.io/zone=a",
            ),
        ],
    ),
    (
        "pause",
        &[
            (
                "Start nothing new in one run",
                "numo pause mutexrunconfig/upgrade --reason 'a release is tonight'",
            ),
            (
                "Pause a Plan in another namespace",
                "numo pause plan/k3s-server -n system-upgrade",
            ),
        ],
    ),
    (
        "resume",
        &[("Resume a run", "numo resume mutexrunconfig/upgrade")],
    ),
    (
        "hold",
        &[
            (
                "Keep a node where it is",
                "numo hold worker-3 --reason 'a customer debugs on it'",
            ),
            ("End the hold", "numo hold worker-3 --undo"),
        ],
    ),
    (
        "maintain",
        &[
            (
                "Cordon and drain a node, and see what the drain waits for",
                "numo maintain worker-3 --reason 'replace a fan'",
            ),
            ("Put it back as it was", "numo maintain worker-3 --end"),
            (
                "Wait for ten minutes; exit code 3 if it is not drained by then",
                "numo maintain worker-3 --timeout 10m",
            ),
        ],
    ),
    (
        "retry",
        &[
            (
                "Evaluate the rules of a node again after one failed",
                "numo retry worker-3",
            ),
            (
                "Evaluate the PreRun rules of a run again",
                "numo retry mutexrunconfig/upgrade -n node-upgrade-mutex-operator",
            ),
        ],
    ),
    (
        "skip",
        &[(
            "Leave a node out, even before its turn",
            "numo skip worker-3 --reason 'its disk is dead'",
        )],
    ),
    (
        "abort",
        &[
            (
                "Give up the current run",
                "numo abort upgrade --reason 'the release is bad'",
            ),
            ("Undo that", "numo abort upgrade --undo"),
        ],
    ),
    (
        "approve",
        &[
            (
                "What waits for approval in all namespaces",
                "numo approve --list -A",
            ),
            (
                "Approve the wave that is due",
                "numo approve plan/server-plan -n system-upgrade --wave 2 --reason 'canaries are fine'",
            ),
        ],
    ),
    (
        "acknowledge",
        &[(
            "Confirm which nodes were left out: the run is Ready again",
            "numo acknowledge upgrade",
        )],
    ),
    (
        "run",
        &[(
            "On your machine, against the cluster of your context",
            "numo run --namespace node-upgrade-mutex-operator",
        )],
    ),
    (
        "release",
        &[
            ("What would be restored", "numo release --offline --dry-run"),
            (
                "Restore everything, before the operator is uninstalled",
                "numo release --offline --take-over",
            ),
        ],
    ),
    (
        "crds",
        &[
            (
                "Apply the definitions of numo's own groups, and no other project's",
                "numo crds --own | kubectl apply --server-side -f -",
            ),
            (
                "Replace the definition of Plan with numo's",
                "numo crds plans.upgrade.cattle.io | kubectl apply --server-side --force-conflicts -f -",
            ),
            ("Write one file for each", "numo crds --directory crds"),
            ("Their names, as kubectl takes them", "numo crds -o name"),
        ],
    ),
    (
        "version",
        &[
            (
                "This binary, the API server and the operator, and whether they are compatible",
                "numo version",
            ),
            ("This binary alone", "numo version --client -o json"),
        ],
    ),
    (
        "completion",
        &[
            ("For this shell", "source <(numo completion bash)"),
            (
                "For `kubectl numo`",
                "numo completion kubectl > kubectl_complete-numo",
            ),
        ],
    ),
    (
        "plugin",
        &[
            ("Start a rule in Rust", "numo plugin new my-rule"),
            ("Build its component", "numo plugin build"),
            (
                "Evaluate it with the cases of tests/cases.yaml",
                "numo plugin test",
            ),
            (
                "A MutexRule for a component that was pushed",
                "numo plugin scaffold registry.example.com/team/rule:1.0",
            ),
        ],
    ),
    ("plugin new", &[("A rule in Rust", "numo plugin new my-rule")]),
    (
        "plugin build",
        &[
            ("The component of this directory", "numo plugin build"),
            (
                "From a core module of another toolchain",
                "numo plugin build module.wasm --file rule.wasm",
            ),
        ],
    ),
    (
        "plugin check",
        &[("Whether numo would run it", "numo plugin check rule.wasm")],
    ),
    (
        "plugin inspect",
        &[
            ("What it is and wants", "numo plugin inspect rule.wasm"),
            (
                "Its digest alone",
                "numo plugin inspect rule.wasm -o jsonpath='{.digest}'",
            ),
        ],
    ),
    (
        "plugin test",
        &[("The cases of tests/cases.yaml", "numo plugin test")],
    ),
    (
        "plugin run",
        &[(
            "Evaluate it for one node of your cluster; nothing is changed",
            "numo plugin run rule.wasm --node worker-3",
        )],
    ),
    (
        "plugin bench",
        &[("What it costs", "numo plugin bench rule.wasm")],
    ),
    (
        "plugin push",
        &[(
            "Push it",
            "numo plugin push rule.wasm registry.example.com/team/rule:1.0",
        )],
    ),
    (
        "plugin sign",
        &[(
            "Sign what was pushed",
            "numo plugin sign registry.example.com/team/rule@$DIGEST --key rule.key",
        )],
    ),
    (
        "plugin scaffold",
        &[
            (
                "A MutexRule with its digest and the grants that it wants",
                "numo plugin scaffold registry.example.com/team/rule:1.0",
            ),
            (
                "The same without its notes, for a program",
                "numo plugin scaffold registry.example.com/team/rule:1.0 -o json",
            ),
        ],
    ),
];

/// The examples of a verb, by its path: `plugin new`.
pub fn of(path: &str) -> &'static [Example] {
    let found = EXAMPLES.iter().find(|(verb, _)| *verb == path);
    found.map_or(&[], |(_, all)| *all)
}

/// Every example.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().flat_map(|(_, all)| all.iter())
}
