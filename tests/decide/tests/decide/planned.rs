//! The lines of a cluster that are about a Plan.
//!
//! ```text
//! plan concurrency:2 cordon finalizer spec {"…"}   the Plan `p` over all nodes, to version v1; `spec` is merged in
//! other-plan servers at:v1 complete                 another one
//! node a … at:v1 disabled:p                          (on a node line) not used here; see `at` below
//! at a                                               node a is labelled as done; `at a:disabled` is left out
//! begun a Released of:v0 boot:b0 attempt:2           its NodeChange in that step, which is entered in this attempt
//! begun a new made:-2000                             a NodeChange that was made so long ago
//! held a JobFailed                                   it is held
//! kept a cordoned prior                              (after `begun`) its marks: shield and cordon mark
//! planjob a running|complete|failed|paused           its Job; `runs:drain ended:-5 at:v0 deleting deleting-since:-5 prepares untouched plan-uid:u`
//! channel v2 at:-30 failed under-way                 what the channel answered
//! secret s hash                                      a Secret
//! rulejob r                                          a Job of a rule, for its present upgrade
//! blind                                                the Jobs of Plans are not to be seen
//! ```

use crate::cluster::{Cluster, Line, at, hours, now};
use numo_api::{
    Directive, DirectiveAction, Entry, NodeChangeStatus, Pin, PlanCondition, PlanSpec, PlanStatus, Step,
    marks,
};
use numo_core::{
    mark::{self, CordonedBy, Shielded},
    observed::{
        ChangeView, ChannelView, ForeignController, JobEnd, JobView, Key, LeaseView, PlanJobView, PlanView,
        Rival,
    },
    owners::plan::{self, Window},
};
use serde_json::{Value, json};

/// Namespace of Plans.
pub const PLANS: &str = "system-upgrade";
/// uid of the Plan under test.
pub const UID: &str = "uid-p";

/// The Plan under test.
pub fn key() -> Key {
    Key::new(PLANS, "p")
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

impl Cluster {
    /// Reads a line about a Plan; false if it is about something else.
    pub(crate) fn read_plan(&mut self, line: &Line<'_>) -> bool {
        match line.word(0) {
            "plan" => self.plan(line, "p"),
            "other-plan" => self.plan(line, line.word(1)),
            "at" => {
                let (name, value) = match line.option("is") {
                    Some(value) => (line.word(1), value.to_owned()),
                    None => (line.word(1), self.hash()),
                };
                let node = self.observed.nodes.get_mut(name).expect("a node above");
                node.labels.insert(plan::label("p"), value);
            }
            "begun" => self.begun(line),
            "gone" => {
                self.observed.nodes.remove(line.word(1));
            }
            "planjob" => self.plan_job(line),
            "keeps" => self.keeps(line),
            "channel" => {
                let answer = if line.has("failed") {
                    Err("no answer".to_owned())
                } else {
                    Ok(line.word(1).to_owned())
                };
                let view = ChannelView {
                    url: "https://channel".to_owned(),
                    at: at(line.number("at", -30)),
                    under_way: line.has("under-way"),
                    answer: (!line.has("unanswered")).then_some(answer),
                    failures: u32::try_from(line.number("failures", 0)).expect("small"),
                };
                self.observed.channels.insert(key(), view);
            }
            "secret" => {
                let key = Key::new(PLANS, line.word(1));
                self.observed.secrets.insert(key, line.word(2).to_owned());
            }
            "rulejob" => {
                let view = JobView {
                    uid: "job-of-rule".to_owned(),
                    created: at(-30),
                    deleting: None,
                    run: plan::run_id(UID, &self.hash()),
                    node: String::new(),
                    deadline_seconds: None,
                    edition: String::new(),
                    rule: String::new(),
                    started: true,
                    ended: None,
                    ended_at: None,
                    ttl_seconds: None,
                    wanted_ttl_seconds: Some(7),
                    trouble: None,
                };
                self.observed.jobs.insert(Key::new("numo", line.word(1)), view);
            }
            "blind" => {
                let words = "forbidden".to_owned();
                self.observed.unseen_plan_jobs.insert(PLANS.to_owned(), words);
            }
            "foreign-plans" | "foreign-runs" | "foreign-versions" => {
                let key = Key::new("cattle-system", "system-upgrade-controller");
                let what = match line.word(0) {
                    "foreign-runs" => ForeignController::MutexRunConfig,
                    "foreign-versions" => ForeignController::NodeVersion,
                    _ => ForeignController::Plan,
                };
                let lingers = line.option("lingers").map(|pod| format!("Pod {pod} terminates"));
                let rival = Rival { what, lingers };
                self.observed.foreign_controllers.insert(key, rival);
            }
            _ => return false,
        }
        true
    }

    /// The hash that the Plan under test goes to, by a decision of its own.
    fn hash(&self) -> String {
        let view = &self.observed.plans[&key()];
        let owner = numo_core::Owner::plan(view.key.clone());
        let snapshot = numo_core::Snapshot {
            now: now(),
            observed: &self.observed,
            owner: &owner,
            asked: None,
        };
        let report = numo_core::decide(&snapshot, &self.answers).report;
        report.plan.map(|said| said.hash).unwrap_or_default()
    }

    fn plan(&mut self, line: &Line<'_>, name: &str) {
        let settings = &mut self.observed.settings;
        settings.plan_namespaces = vec![PLANS.to_owned()];
        let mut spec = json!({
            "concurrency": line.number("concurrency", 1),
            "nodeSelector": {},
            "upgrade": {"image": "upgrade"},
        });
        if line.has("channel") {
            spec["channel"] = json!("https://channel");
        } else {
            spec["version"] = json!(line.option("version").unwrap_or("v1"));
        }
        if line.has("cordon") {
            spec["cordon"] = json!(true);
        }
        if line.has("drain") {
            spec["drain"] = json!({"force": true});
        }
        if let Some((_, more)) = line.text.split_once(" spec ") {
            merge(&mut spec, serde_json::from_str(more).expect("JSON"));
        }
        let spec: PlanSpec = serde_json::from_value(spec).expect("a spec");
        let selector = spec.node_selector.as_ref().map_or(Value::Null, |selector| {
            serde_json::to_value(selector).expect("JSON")
        });
        let mut annotations = std::collections::BTreeMap::new();
        if line.has("suspended") {
            annotations.insert(marks::SUSPEND.to_owned(), "me".to_owned());
        }
        if let Some(gate) = line.option("gate") {
            annotations.insert(marks::EARLIER_GATE.to_owned(), gate.to_owned());
        }
        let condition = |type_: &str, status: &str| PlanCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_update_time: Some(at(line.number("updated", -3600)).to_string()),
            reason: Some("Channel".to_owned()),
            ..PlanCondition::default()
        };
        let mut conditions = vec![condition("LatestResolved", "True")];
        if line.has("complete") {
            conditions.push(condition("Complete", "True"));
        }
        let latest = line
            .option("latest")
            .or_else(|| line.has("complete").then_some("v1"));
        let view = PlanView {
            key: Key::new(PLANS, name),
            pruned: line.has("pruned").then_some("mutex"),
            uid: format!("uid-{name}"),
            generation: line.number("generation", 1),
            created: at(line.number("created", -100)),
            deleting: line.has("deleting"),
            finalizers: if line.has("finalizer") {
                vec![marks::FINALIZER.to_owned()]
            } else {
                Vec::new()
            },
            has_annotations: !annotations.is_empty(),
            annotations,
            labels: std::collections::BTreeMap::new(),
            copied_annotations: std::collections::BTreeMap::new(),
            uncopied_annotations: std::collections::BTreeMap::new(),
            digest: String::new(),
            selector,
            window: spec.window.as_ref().map(|window| Window::parse(window, |_| None)),
            hours: spec
                .mutex
                .as_ref()
                .and_then(|mutex| mutex.window.as_ref().map(hours)),
            spec,
            status: PlanStatus {
                conditions: Some(conditions),
                latest_version: latest.map(str::to_owned),
                latest_hash: None,
                approval: None,
                applying: line
                    .option("applying")
                    .map(|applying| applying.split(',').map(str::to_owned).collect()),
            },
        };
        self.observed.plans.insert(view.key.clone(), view);
        if line.has("aborted") {
            let hash = self.hash();
            let view = self.observed.plans.get_mut(&Key::new(PLANS, name)).expect("it");
            let id = plan::run_id(&view.uid, &hash);
            view.annotations.insert(marks::ABORT.to_owned(), id);
        }
    }

    fn begun(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let node = self.observed.nodes[name].clone();
        let view = self.observed.plans[&key()].clone();
        let hash = line.option("hash").map_or_else(|| self.hash(), str::to_owned);
        let version = line.option("to").unwrap_or("v1");
        let in_service =
            line.has("in-service") || (view.spec.cordon != Some(true) && view.spec.drain.is_none());
        let (change_key, mut spec) = plan::reservation(&view, &node, (&hash, version), in_service);
        if let Some(uid) = line.option("uid") {
            uid.clone_into(&mut spec.node_uid);
        }
        if let Some(action) = line.option("directive") {
            spec.directive = Some(Directive {
                action: match action {
                    "Skip" => DirectiveAction::Skip,
                    "Retry" => DirectiveAction::Retry,
                    "Hold" => DirectiveAction::Hold,
                    "Abort" => DirectiveAction::Abort,
                    other => panic!("unknown directive {other}"),
                },
                reason: None,
                by: None,
            });
        }
        let step = (line.word(2) != "new").then(|| crate::cluster::step(line.word(2)));
        let attempt = i32::try_from(line.number("attempt", 1)).expect("small");
        let since = at(line.number("since", -60)).to_string();
        let mut entries: Vec<Entry> = line
            .all("entered")
            .map(|text| {
                let (step, reason) = text.split_once('/').unwrap_or((text, ""));
                Entry {
                    at: since.clone(),
                    step: crate::cluster::step(step),
                    attempt,
                    reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
                }
            })
            .collect();
        if let Some(step) = step.filter(|step| !matches!(step, Step::Held)) {
            entries.push(Entry {
                at: since.clone(),
                step,
                attempt,
                reason: line.option("reason").map(str::to_owned),
            });
        }
        let status = NodeChangeStatus {
            journal_version: 1,
            attempt,
            step,
            reason: line.option("reason").map(str::to_owned),
            message: line.option("reason").map(|_| "words of the journal".to_owned()),
            since: Some(since.clone()),
            pin: line.option("boot").map(|boot| Pin {
                boot_id: Some(boot.to_owned()),
                earlier_boot_id: Some(boot.to_owned()),
                from_version: line.option("of").unwrap_or("v0").to_owned(),
                generation: Some(line.number("made-from", 1)),
                failed_job: line.option("failed-job").map(str::to_owned),
                ..Pin::default()
            }),
            entries,
            verdicts: line
                .all("verdict")
                .map(|text| crate::cluster::verdict(text, attempt))
                .collect(),
            wave_rules: line.option("waverules").map(|names| {
                let names = names.split(',').filter(|name| !name.is_empty());
                names
                    .map(|name| format!("{}/{name}", crate::cluster::NAMESPACE))
                    .collect()
            }),
            closed_since: line
                .option("closed")
                .map(|ago| at(-ago.parse::<i64>().expect("a number")).to_string()),
            ..NodeChangeStatus::default()
        };
        let view = ChangeView {
            uid: format!("change-{name}"),
            resource_version: "1".to_owned(),
            generation: line.number("generation", 1),
            created: at(line.number("made", -60)),
            deleting: false,
            annotations: if line.has("turn") {
                [(marks::TURN.to_owned(), String::new())].into()
            } else {
                std::collections::BTreeMap::new()
            },
            key: change_key.clone(),
            spec,
            status,
            misread: None,
        };
        self.observed.changes.insert(change_key, view);
    }

    /// Shield, lease and cordon mark of the Plan.
    fn keeps(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let node = self.observed.nodes.get_mut(name).expect("a node above");
        let shielded = [
            marks::EXCLUDE_FROM_REMEDIATION,
            marks::SCALE_DOWN_DISABLED,
            marks::DO_NOT_DISRUPT,
        ];
        let shield = Shielded {
            owner: UID.to_owned(),
            prior: shielded.iter().map(|key| ((*key).to_owned(), None)).collect(),
        };
        node.annotations
            .insert(marks::SHIELDED_BY.to_owned(), mark::render(&shield));
        node.labels
            .insert(marks::EXCLUDE_FROM_REMEDIATION.to_owned(), "true".to_owned());
        for key in [marks::SCALE_DOWN_DISABLED, marks::DO_NOT_DISRUPT] {
            node.annotations.insert(key.to_owned(), "true".to_owned());
        }
        if !line.has("in-service") && !line.has("leased") {
            let cordon = CordonedBy {
                owner: UID.to_owned(),
                prior: line.has("prior"),
                taints: Vec::new(),
                corrections: u32::try_from(line.number("corrections", 0)).expect("small"),
                done: line.has("done"),
            };
            node.annotations
                .insert(marks::CORDONED_BY.to_owned(), mark::render(&cordon));
        }
        if !line.has("in-service") {
            let lease = LeaseView {
                by_numo: true,
                holder: format!("numo/Plan/{UID}"),
                renewed: Some(at(-10)),
                duration_seconds: 3600,
                transitions: 0,
                uid: format!("lease-{name}"),
                resource_version: "1".to_owned(),
            };
            self.observed.leases.insert(name.to_owned(), lease);
        }
        node.unschedulable = line.has("cordoned") || line.has("prior");
    }

    fn plan_job(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let hash = line.option("hash").map_or_else(|| self.hash(), str::to_owned);
        let prepares = line.has("prepares");
        let ended = match line.word(2) {
            "complete" => Some(JobEnd::Complete),
            "failed" => Some(JobEnd::Failed(
                "BackoffLimitExceeded".to_owned(),
                "it failed".to_owned(),
            )),
            _ => None,
        };
        let verb = if prepares { "prepare" } else { "apply" };
        let job = Key::new(PLANS, plan::job_name(verb, "p", name, &hash));
        if let Some(code) = line.option("exit") {
            let evidence = numo_core::verdict::Evidence {
                exit_code: code.parse().ok(),
                log_tail: Some("the end".to_owned()),
            };
            self.answers.evidence.insert(job.clone(), evidence);
        }
        let view = PlanJobView {
            uid: format!("job-{name}"),
            plan_uid: line.option("plan-uid").unwrap_or(UID).to_owned(),
            plan: "p".to_owned(),
            node: name.to_owned(),
            version: line.option("to").unwrap_or("v1").to_owned(),
            hash,
            prepares,
            created: at(-50),
            deleting: line
                .has("deleting")
                .then(|| at(line.number("deleting-since", -5))),
            paused: line.word(2) == "paused",
            ended_at: ended.is_some().then(|| at(line.number("ended", -5))),
            ended,
            runs: None,
            trouble: None,
            untouched: line.has("untouched"),
        };
        let trouble = line.option("trouble");
        let view = view.with_pods(
            line.option("runs").map(str::to_owned),
            trouble.map(|reason| (reason.to_owned(), "words".to_owned())),
        );
        self.observed.plan_jobs.insert(job, view);
    }
}
