//! A decision in words: what a test compares.

use crate::cluster::{Cluster, NAMESPACE, RUN_UID, at, now};
use numo_api::{Outcome, RuleWait, marks};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, MachinePurpose, NodePurpose, PlanParts, PoolPurpose},
    decide,
    drain::Eviction,
    invariant,
    mark::PausedBy,
    observed::{Key, Observed},
    own_gate,
    verdict::Question,
};
use std::borrow::Cow;

/// Decides, and checks that no invariant would be broken.
pub fn decision(cluster: &Cluster) -> Decision {
    decision_at(cluster, 0)
}

/// The owner remembers its own gate already: what it does before says `own_gate.rs`.
fn remembering<'o>(observed: &'o Observed, owner: &Owner) -> Cow<'o, Observed> {
    let change = observed.owner(owner).and_then(own_gate::change);
    let mut observed = Cow::Borrowed(observed);
    if let Some(change) = change
        && let Some(annotations) = observed.to_mut().annotations_mut(owner)
    {
        annotations.extend(change.to.map(|mark| (change.key, mark)));
    }
    observed
}

/// The same so many seconds after the time of the cluster.
pub fn decision_at(cluster: &Cluster, seconds: i64) -> Decision {
    let observed = remembering(&cluster.observed, &cluster.owner());
    decision_of(cluster, &observed, seconds)
}

/// The same of what was seen, whatever the owner remembers by now.
pub fn decision_of(cluster: &Cluster, observed: &Observed, seconds: i64) -> Decision {
    let owner = cluster.owner();
    let snapshot = Snapshot {
        now: at(seconds),
        observed,
        owner: &owner,
        asked: None,
    };
    let mut decision = decide(&snapshot, &cluster.answers);
    let breaches = invariant::lint(&snapshot, &mut decision);
    assert!(breaches.is_empty(), "{owner}: {breaches:#?}");
    decision
}

/// Decides for this cluster and compares: every line of `expect` must be among the words of the decision;
/// the lines that begin with `>`, if there are any, must be all its writes, in order.
#[track_caller]
pub fn check(cluster: &str, expect: &str) {
    check_cluster(&Cluster::parse(cluster), expect);
}

/// The same for a cluster that was changed after it was read.
#[track_caller]
pub fn check_cluster(cluster: &Cluster, expect: &str) {
    let found = words(cluster, &decision(cluster));
    let shown = found.join("\n");
    let lines: Vec<&str> = expect
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    for line in lines.iter().filter(|line| !line.starts_with('>')) {
        let holds = match line.strip_prefix("not ") {
            Some(absent) => !found.iter().any(|found| found.starts_with(absent)),
            None => found
                .iter()
                .any(|found| found == line || found.starts_with(&format!("{line}: "))),
        };
        let part = line.split_once(" ~ ").is_some_and(|(start, part)| {
            found
                .iter()
                .any(|found| found.starts_with(start) && found.contains(part))
        });
        assert!(holds || part, "wanted: {line}\nfound:\n{shown}");
    }
    let wanted: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("> "))
        .filter(|line| *line != "nothing")
        .collect();
    if lines.iter().any(|line| line.starts_with('>')) {
        let written: Vec<&str> = found.iter().filter_map(|line| line.strip_prefix("> ")).collect();
        assert_eq!(written, wanted, "\nfound:\n{shown}");
    }
}

/// The words of a decision.
pub fn words(cluster: &Cluster, decision: &Decision) -> Vec<String> {
    let report = &decision.report;
    let mut words = vec![format!("phase {:?}", report.phase)];
    words.push(report.hold.as_ref().map_or("hold -".to_owned(), |why| {
        format!("hold {}: {}", why.reason, why.message)
    }));
    words.extend(report.maintenance.as_ref().map(|said| {
        let left = said.pods.as_ref().map_or_else(String::new, |(pending, total)| {
            format!(" {} of {total} pods left", pending.len())
        });
        let error = said.error.as_deref().unwrap_or("-");
        format!("maintenance {}{left}: {error}", said.phase.name())
    }));
    if let Some(said) = &report.plan {
        words.push(format!(
            "plan {} {}{}: {}",
            said.complete,
            said.reason,
            if said.applying.is_empty() {
                String::new()
            } else {
                format!(" applying {}", said.applying.join(","))
            },
            said.message
        ));
        words.extend(said.invalid.iter().map(|problem| format!("invalid {problem}")));
        words.extend(
            said.unresolved
                .iter()
                .map(|problem| format!("unresolved {problem}")),
        );
        words.push(format!("version {}", said.version));
    }
    words.extend(
        report
            .problems
            .iter()
            .map(|why| format!("problem {}: {}", why.reason, why.message)),
    );
    words.extend(
        report
            .upgrade_held
            .as_ref()
            .map(|why| format!("upgrade held {}", why.reason)),
    );
    words.extend(report.result.map(|result| format!("result {result:?}")));
    words.extend(
        report
            .ungated
            .iter()
            .map(|(node, why)| format!("ungated {node}: {why}")),
    );
    words.extend(report.nodes.iter().map(|(name, node)| {
        format!(
            "node {name} {} {}: {}",
            node.step.name(),
            node.why.reason,
            node.why.message
        )
    }));
    words.extend(
        report
            .nodes
            .iter()
            .map(|(name, node)| format!("ends {name} {:?}", node.why.who())),
    );
    words.push(report.wedged().map_or_else(
        || "stalled -".to_owned(),
        |(name, node)| format!("stalled {name} {}", node.why.reason),
    ));
    words.extend(report.wave.iter().flat_map(|wave| {
        let name = wave.name.as_deref().unwrap_or("-");
        let soaks = wave.soak_until.map_or_else(String::new, |at| {
            format!(" soaks {}", at.as_second() - now().as_second())
        });
        let (number, of, done, nodes) = (wave.number, wave.of, wave.done, wave.nodes);
        let wave_words = format!("wave {number} of {of} {name} {done}/{nodes}{soaks}");
        let notes = wave.notes.iter().map(|note| format!("note {note}"));
        std::iter::once(wave_words).chain(notes).collect::<Vec<_>>()
    }));
    words.extend(report.notes.iter().map(|note| format!("note {note}")));
    words.push(report.approval.as_ref().map_or_else(
        || "asks -".to_owned(),
        |waits| format!("asks {}: {}", waits.point, waits.why.reason),
    ));
    words.extend(
        decision
            .wake_at
            .map(|at| format!("wake {}", at.as_second() - now().as_second())),
    );
    words.extend(decision.questions.iter().map(|question| match question {
        Question::Evictions { node, pods } => format!("? evictions {node} {}", pods.len()),
        Question::Evidence { job, .. } => format!("? evidence {}", job_words(cluster, job)),
        Question::DrainProbe { node } => format!("? drain {node}"),
        Question::Volumes { node, claims } => {
            let claims: Vec<String> = claims.iter().map(ToString::to_string).collect();
            format!("? volumes {node} {}", claims.join(","))
        }
        Question::Channel { url, .. } => format!("? channel {url}"),
        Question::Fleet(question) => crate::replaced::asked(question),
        Question::Evaluate(request) => format!(
            "? evaluate {}/{}/{} of {}",
            request.rule.name,
            request.phase.name(),
            request.attempt,
            if request.node.is_empty() {
                "run"
            } else {
                &request.node
            }
        ),
    }));
    words.extend(decision.questions.iter().filter_map(|question| {
        let Question::Evaluate(request) = question else {
            return None;
        };
        let last = request.history.first()?;
        Some(format!("remembers {:?}:{}", last.word, last.reason))
    }));
    words.extend(
        decision
            .actions
            .iter()
            .map(|planned| format!("> {}", action(cluster, &planned.action))),
    );
    words
}

fn action(cluster: &Cluster, action: &Action) -> String {
    let observed = &cluster.observed;
    match action {
        Action::AddFinalizer { .. } => "finalizer on".to_owned(),
        Action::RemoveFinalizer { index, .. } => format!("finalizer {index} off"),
        Action::PatchPool(patch) => {
            let pool = &patch.pool;
            match patch.purpose {
                PoolPurpose::Pause | PoolPurpose::Hold => {
                    let mark: PausedBy =
                        serde_json::from_str(patch.annotation.to.as_deref().expect("a mark"))
                            .expect("a mark");
                    assert_eq!(mark.owner, RUN_UID);
                    let verb = if patch.purpose == PoolPurpose::Pause {
                        "pause"
                    } else {
                        "hold"
                    };
                    let mut text = format!("{verb} {pool}");
                    if mark.prior {
                        text += " that was paused";
                    }
                    if mark.corrections > 0 {
                        text += &format!(" again {}", mark.corrections);
                    }
                    if let Some(outdated) = mark.outdated {
                        text += &format!(" with {outdated} outdated");
                    }
                    text
                }
                PoolPurpose::Unpause => match patch.paused {
                    Some((_, true)) => format!("leave {pool} paused"),
                    _ => format!("unpause {pool}"),
                },
                PoolPurpose::Select => {
                    format!(
                        "select {pool} {}",
                        selector(&patch.selector.as_ref().expect("one").1)
                    )
                }
                PoolPurpose::Unselect => {
                    format!(
                        "unselect {pool} {}",
                        selector(&patch.selector.as_ref().expect("one").1)
                    )
                }
            }
        }
        Action::PatchNode(patch) => {
            let node = &patch.node;
            let keys: Vec<String> = patch
                .labels
                .iter()
                // That of the shield, which goes with the marks.
                .filter(|change| change.key != marks::EXCLUDE_FROM_REMEDIATION)
                .map(|change| {
                    let sign = if change.to.is_some() { '+' } else { '-' };
                    let key = change.key.rsplit('/').next().unwrap_or_default();
                    format!("{sign}{}", key.trim_end_matches(&format!(".{NAMESPACE}")))
                })
                .collect();
            let keys = keys.join(" ");
            let left = || match patch.taints.as_ref().map(|(_, to)| to.as_array()) {
                None => "the same taints".to_owned(),
                Some(None) => "no taints".to_owned(),
                Some(Some(taints)) => format!("{} taints", taints.len()),
            };
            match patch.purpose {
                NodePurpose::Quarantine => format!("quarantine {node} to {}", left()),
                NodePurpose::Unquarantine => format!("unquarantine {node} to {}", left()),
                NodePurpose::Cordon => format!("cordon {node} with {}", left()),
                NodePurpose::Uncordon if observed.maintenances.is_empty() => {
                    let cordon = match patch.unschedulable {
                        Some(false) => " uncordoned",
                        _ => "",
                    };
                    format!("restore {node}{cordon} {keys}").trim_end().to_owned()
                }
                NodePurpose::Uncordon => format!("uncordon {node} {:?} with {}", patch.unschedulable, left()),
                NodePurpose::Shield => format!("shield {node}"),
                NodePurpose::Unshield => format!("unshield {node}"),
                NodePurpose::Label => format!("label {node} {keys}").trim_end().to_owned(),
                NodePurpose::Unlabel => format!("unlabel {node} {keys}").trim_end().to_owned(),
                NodePurpose::Release => {
                    let desired = patch
                        .annotations
                        .iter()
                        .find(|change| change.key == marks::openshift::DESIRED_CONFIG)
                        .and_then(|change| change.to.clone())
                        .unwrap_or_default();
                    format!("release {node} {desired} {keys}").trim_end().to_owned()
                }
                NodePurpose::BringHome => format!("home {node} {keys}").trim_end().to_owned(),
                NodePurpose::MindCordon => {
                    let kept = patch.annotations[0].to.is_some();
                    format!(
                        "{} the cordon of {node}",
                        if kept { "remember" } else { "forget" }
                    )
                }
                NodePurpose::Replace => crate::replaced::noted(patch),
                NodePurpose::Recordon => format!("recordon {node} {:?}", patch.unschedulable),
            }
        }
        Action::PatchMachine(patch) => {
            let name = &patch.key.name;
            match patch.purpose {
                MachinePurpose::Shield => format!("shield machine {name}"),
                MachinePurpose::Unshield => {
                    let left = patch
                        .annotations
                        .iter()
                        .find(|change| change.key == marks::SKIP_REMEDIATION);
                    let kept = if left.is_some() {
                        ""
                    } else {
                        " and leave what was there"
                    };
                    format!("unshield machine {name}{kept}")
                }
                MachinePurpose::PauseHealthCheck => format!("pause healthcheck {name}"),
                MachinePurpose::ResumeHealthCheck => format!("resume healthcheck {name}"),
                MachinePurpose::HandOverHealthCheck => format!("hand over healthcheck {name}"),
            }
        }
        Action::CreateChange { spec, .. } => format!("admit {}", spec.node_name),
        Action::WriteJournal { key, status, .. } => {
            let change = &observed.changes[key];
            let mut text = format!("journal {}", change.spec.node_name);
            if status.closed_since != change.status.closed_since && status.step == change.status.step {
                text += if status.closed_since.is_some() {
                    " closed"
                } else {
                    " open"
                };
            }
            if let Some(last) = status
                .verdicts
                .last()
                .filter(|last| change.status.verdicts.last() != Some(last))
            {
                let rule = last.rule.rsplit('/').next().unwrap_or_default();
                text += &format!(
                    " verdict {rule}/{}/{} {:?}",
                    last.phase.name(),
                    last.attempt,
                    last.outcome
                );
            }
            if let Some(wait) = noted(&status.rule_waits, &change.status.rule_waits) {
                text += &format!(" {wait}");
            }
            if status.entries.len() != change.status.entries.len() {
                text += &format!(" {}", status.step.expect("a step").name());
                text += &status
                    .reason
                    .as_ref()
                    .map_or_else(String::new, |reason| format!(" {reason}"));
            }
            if status.attempt > change.status.attempt.max(1) {
                text += &format!(" attempt {}", status.attempt);
            }
            text
        }
        Action::CreatePlanJob(request) => match request.parts {
            PlanParts::All => format!("job {}", request.node),
            parts => format!("job {} {parts:?}", request.node),
        },
        Action::StartPlanJob { job, .. } => format!("start {}", observed.plan_jobs[job].node),
        Action::DeletePlanJob { job, .. } => format!("remove job {}", observed.plan_jobs[job].node),
        Action::Fleet(action) => crate::replaced::done(action),
        Action::MarkGate { .. } => "mark the gate".to_owned(),
        Action::Evict { eviction, .. } => evict(eviction),
        Action::DeleteChange { key, .. } => {
            let spec = &observed.changes[key].spec;
            format!("forget {} {}", spec.node_name, spec.target.version)
        }
        Action::RecordRun { run, .. } => {
            let known = observed.runs.values().find_map(|known| known.status.run.as_ref());
            if let Some(wait) = noted(&run.rule_waits, known.map_or(&[], |known| &known.rule_waits)) {
                return format!("record {wait}");
            }
            if run.put_back.as_ref() != known.and_then(|known| known.put_back.as_ref()) {
                return "count what is put back".to_owned();
            }
            let last = run.verdicts.last().expect("a verdict");
            let outcome = match last.outcome {
                Outcome::Pass => "Pass",
                Outcome::Failure => "Failure",
                Outcome::ContinuedAfterFailure => "Continued",
            };
            let rule = last.rule.rsplit('/').next().unwrap_or_default();
            format!("record {rule}/{}/{} {outcome}", last.phase.name(), last.attempt)
        }
        Action::CreateJob(job) => {
            let node = if job.node.is_empty() { "-" } else { &job.node };
            let avoid = if job.avoid.is_empty() {
                String::new()
            } else {
                format!(" avoid {}", job.avoid.join(","))
            };
            format!(
                "job {}/{}/{} of {node}{avoid}",
                job.rule.name,
                job.phase.name(),
                job.attempt
            )
        }
        Action::SetJobTtl { job, seconds, .. } => format!("ttl {} {seconds}", job_words(cluster, job)),
        Action::AcquireLease { node, over, .. } => {
            let over = if over.is_some() {
                " over an expired one"
            } else {
                ""
            };
            format!("lease {node}{over}")
        }
        Action::RenewLease { node, .. } => format!("renew lease {node}"),
        Action::ReleaseLease { node, .. } => format!("release lease {node}"),
        Action::CreateMaintenance(request) => format!("maintain {} {}", request.node, request.mark.attempt),
        Action::DeleteMaintenance { name, .. } => format!("delete maintenance {name}"),
    }
}

fn evict(eviction: &Eviction) -> String {
    let verb = if eviction.delete { "delete" } else { "evict" };
    let again = if eviction.returned.is_some() { " again" } else { "" };
    let grace = eviction
        .grace_period_seconds
        .map_or_else(String::new, |seconds| format!(" in {seconds}"));
    format!("{verb} {}{grace}{again}", eviction.pod.name)
}

/// A selector in words: `worker, rule Exists, release In [..]`.
/// The wait that is written down, if it is new.
fn noted(wanted: &[RuleWait], known: &[RuleWait]) -> Option<String> {
    let wait = wanted.last().filter(|last| !known.contains(last))?;
    let rule = wait.rule.rsplit('/').next().unwrap_or_default();
    Some(format!("waits {rule}/{}/{}", wait.phase.name(), wait.attempt))
}

fn selector(selector: &serde_json::Value) -> String {
    let short = |key: &str| {
        key.rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(&format!(".{NAMESPACE}"))
            .to_owned()
    };
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, _)| short(key));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.map(|expression| {
        format!(
            "{} {}",
            short(expression["key"].as_str().unwrap_or_default()),
            expression["operator"].as_str().unwrap_or_default()
        )
    });
    labels.chain(expressions).collect::<Vec<_>>().join(", ")
}

/// The name of a Job by what it is for.
fn job_words(cluster: &Cluster, job: &Key) -> String {
    for rule in cluster.observed.rules.values() {
        for phase in ["PreRun", "Pre", "PreRelease", "Post", "OnFailure", "PostRun"] {
            for attempt in 1..8 {
                let what = format!("{}/{phase}/{attempt}", rule.key.name);
                let nodes = cluster.observed.nodes.keys().map(String::as_str).chain(["-"]);
                for node in nodes {
                    for (version, round) in [("4.17.0", 1), ("4.17.0", 2), ("4.18.0", 1)] {
                        let key =
                            crate::cluster::job_key(&cluster.observed, &what, node, Some(version), round);
                        if key == *job {
                            return format!("{what} of {node}");
                        }
                    }
                }
            }
        }
    }
    job.to_string()
}
