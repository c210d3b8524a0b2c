//! The lines of a cluster that are about machines that are replaced.
//!
//! ```text
//! version img2 components:c2 surge:2 finalizer     the NodeVersion under test; ` spec {…}` gives the rest of its spec
//! version img2 name:other                          another one
//! host a img1 group:w components:c2 heir:b donor:c the machine `m-a` of node a, and what is noted on the node; `bare` notes nothing,
//!                                                  `nowhere` has no machine
//! group w image:img2 role:ControlPlane             the ScalingGroup of group `g-w`; `of:<NodeVersion>`
//! pending p node:b machine:m-b group:w Ready       a PendingNode that is to join; `leave`, `for:<node>`, `said:<words>`, `late:<seconds>`, `reached`
//! joining j node:a components:c2 late:-1           a JoiningNode
//! strategy on replicas:1                           the AutoscalingStrategy, and its Deployment; `gone`, `deployment:<another name>`,
//!                                                  `unfollowed`: nobody looks for that
//! replacing a Cordoned since:-60 entries:…         the NodeChange of node a; `failed:2` machines did not join, `ended:1` turns ended before; `machine:`, `heir:`, `member:`,
//!                                                  `heirmachine:`, `heirmember:` its pin; `gone:-60` since when its node is gone
//! facts m-a img1 w                                 what the provider says: image and group; `facts m-a unknown:why`
//! state m-b Ready at:-1                            the state of a machine
//! image w img1 at:-1                               the image of a group
//! groups w,cp at:-1                                all groups; x=pool: group x has the name of pool
//! found p m-b node:b                               what was looked for; `found p -` was never made
//! told m-b again:10 problem:quota                  what the provider has not done yet
//! did m-b at:-1                                    what the provider has done
//! taken w img2 at:-60 times:2                      the image that the provider says it has set for a group, since when, and how often
//! provider none                                    there is none
//! ```

use crate::cluster::{Cluster, Line, NAMESPACE, at, hours, step, verdict};
use numo_api::{
    Directive, DirectiveAction, Entry, NodeChangeStatus, Pin, Reason, Step,
    machines::{
        AutoscalingStrategySpec, AutoscalingStrategyStatus, CspState, Goal, JoiningNodeSpec, NodeRole,
        NodeVersionSpec, PendingNodeSpec, PendingNodeStatus, ScalingGroupSpec, ScalingGroupStatus,
        annotations,
    },
    marks,
};
use numo_core::{
    action::{FleetAction, FleetQuestion, NodePatch},
    mark::{self, CordonedBy, Shielded},
    observed::{
        AUTOSCALER_NAME, AUTOSCALER_NAMESPACE, AutoscalerView, ChangeView, GroupFacts, Heard, HostView,
        JoiningNodeView, Key, LeaseView, MachineFacts, MadeMachine, NodeVersionView, PendingNodeView,
        ScalingGroupView, StrategyView, Told, ToldImage,
    },
    owners::node_version,
};
use std::collections::BTreeMap;

/// Name of the NodeVersion under test.
pub const NAME: &str = "nv";
/// Its uid.
pub const UID: &str = "uid-nv";

/// Id of the group of this short name.
pub fn group_id(short: &str) -> String {
    format!("G-{short}")
}

/// The state of this name.
pub fn state(name: &str) -> CspState {
    serde_json::from_value(name.into()).expect("a state")
}

/// A NodeVersion that asks for an image.
pub fn version(name: &str, image: &str) -> NodeVersionView {
    NodeVersionView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 1,
        created: at(-3600),
        spec: NodeVersionSpec {
            image: Some(image.to_owned()),
            ..NodeVersionSpec::default()
        },
        ..NodeVersionView::default()
    }
}

impl Cluster {
    /// Reads a line about machines; false if it is about something else.
    pub(crate) fn read_fleet(&mut self, line: &Line<'_>) -> bool {
        match line.word(0) {
            "version" => self.version(line),
            "host" => self.host(line),
            "group" => self.scaling_group(line),
            "pending" => self.pending(line),
            "joining" => self.joining(line),
            "strategy" => self.strategy(line),
            "replacing" => self.replacing(line),
            "holds" => self.holds(line),
            _ => return self.read_provider(line),
        }
        true
    }

    fn version(&mut self, line: &Line<'_>) {
        let name = line.option("name").unwrap_or(NAME);
        let mut view = version(name, line.word(1));
        if let Some((_, json)) = line.text.split_once(" spec ") {
            let image = view.spec.image.take();
            view.spec = serde_json::from_str(json).expect("a NodeVersion's spec");
            view.spec.image = view.spec.image.or(image);
        } else {
            view.spec.kubernetes_components_reference = line.option("components").map(str::to_owned);
            let surge = line.option("surge").map(str::to_owned);
            view.spec.surge = surge.map(|surge| serde_json::from_value(surge.into()).expect("a limit"));
        }
        view.hours = view
            .spec
            .mutex
            .as_ref()
            .and_then(|mutex| mutex.window.as_ref())
            .map(hours);
        view.deleting = line.has("deleting");
        if line.has("finalizer") {
            view.finalizers = vec![marks::FINALIZER.to_owned()];
        }
        if line.has("paused") {
            let word = "pause by ada".to_owned();
            view.annotations.insert(marks::SUSPEND.to_owned(), word);
        }
        self.observed.fleet.versions.insert(name.to_owned(), view);
    }

    fn host(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let machine = line
            .option("machine")
            .map_or_else(|| format!("m-{name}"), str::to_owned);
        let machine = if line.has("nowhere") {
            String::new()
        } else {
            machine
        };
        let host = HostView {
            provider_id: machine,
            address: line.option("ip").unwrap_or("192.0.2.1").to_owned(),
        };
        self.observed.fleet.hosts.insert(name.to_owned(), host);
        let node = self.observed.nodes.get_mut(name).expect("a node above");
        let mut note = |key: &str, value: &str| {
            node.annotations.insert(key.to_owned(), value.to_owned());
        };
        if !line.has("bare") {
            note(annotations::NODE_IMAGE, line.word(2));
            note(
                annotations::SCALING_GROUP_ID,
                &group_id(line.option("group").unwrap_or("w")),
            );
        }
        for (word, key) in [
            ("components", annotations::KUBERNETES_COMPONENTS),
            ("heir", annotations::HEIR),
            ("donor", annotations::DONOR),
        ] {
            if let Some(value) = line.option(word) {
                note(key, value);
            }
        }
        if line.has("obsolete") {
            note(annotations::OBSOLETE, "true");
        }
    }

    fn scaling_group(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let image = line.option("image").map(str::to_owned);
        let is_outdated = !image
            .as_deref()
            .is_some_and(|image| image.eq_ignore_ascii_case("img2"));
        let status = ScalingGroupStatus {
            conditions: image
                .iter()
                .map(|_| node_version::outdated(is_outdated))
                .collect(),
            image_reference: image,
        };
        let number = |key: &str| line.option(key).map(|text| text.parse().expect("a number"));
        let view = ScalingGroupView {
            name: name.to_owned(),
            uid: format!("uid-group-{name}"),
            spec: ScalingGroupSpec {
                node_image: Some(line.option("of").unwrap_or(NAME).to_owned()),
                group_id: Some(group_id(name)),
                autoscaler_group_name: Some(format!("asg-{name}")),
                node_group_name: Some(name.to_owned()).filter(|_| !line.has("uncalled")),
                autoscaling: line.has("autoscaling").then_some(true),
                min: number("min"),
                max: number("max"),
                role: line.option("role").map(|role| match role {
                    "ControlPlane" => NodeRole::ControlPlane,
                    _ => NodeRole::Worker,
                }),
            },
            status,
        };
        self.observed.fleet.groups.insert(name.to_owned(), view);
        if !line.has("unasked")
            && let Some(image) = line.option("image")
        {
            let heard = Heard {
                at: at(-1),
                said: Ok(image.to_owned()),
            };
            let id = group_id(name).to_lowercase();
            self.observed.fleet.provider.images.insert(id, heard);
        }
    }

    fn pending(&mut self, line: &Line<'_>) {
        let states = [
            "Unknown",
            "Creating",
            "Ready",
            "Stopped",
            "Terminating",
            "Terminated",
            "Failed",
        ];
        let said = states.into_iter().find(|word| line.has(word));
        let turn = line.option("for").map(|node| self.change_of(node));
        let name = match (line.word(1), line.option("for")) {
            ("request", Some(node)) => {
                let change = self
                    .observed
                    .changes
                    .values()
                    .find(|one| one.spec.node_name == node);
                node_version::request(change.expect("a turn above"))
            }
            (name, _) => name.to_owned(),
        };
        let view = PendingNodeView {
            uid: format!("uid-pending-{name}"),
            resource_version: "1".to_owned(),
            // Whoever has joined is younger.
            created: at(line.number(
                "created",
                if line.option("node").is_some() {
                    -1_000_000
                } else {
                    -300
                },
            )),
            owner_uid: line.option("owner").unwrap_or(UID).to_owned(),
            annotations: turn
                .map(|turn| (marks::PENDING_FOR.to_owned(), turn.name))
                .into_iter()
                .chain(
                    line.option("said")
                        .map(|words| (marks::PROVIDER_SAID.to_owned(), words.to_owned())),
                )
                .collect(),
            spec: PendingNodeSpec {
                provider_id: line.option("machine").map(str::to_owned),
                group_id: Some(group_id(line.option("group").unwrap_or("w"))),
                node_name: line.option("node").map(str::to_owned),
                goal: Some(if line.has("leave") {
                    Goal::Leave
                } else {
                    Goal::Join
                }),
                deadline: Some(at(-line.number("late", -900)).to_string()).filter(|_| !line.has("patient")),
            },
            status: PendingNodeStatus {
                csp_state: said.map(state),
                reached_goal: said.map(|_| line.has("reached")),
            },
            deleting: false,
            is_owned: line.has("owned"),
            name: name.clone(),
        };
        if let (Some(said), Some(machine)) = (said, &view.spec.provider_id) {
            let heard = Heard {
                at: at(-1),
                said: Ok(state(said)),
            };
            self.observed
                .fleet
                .provider
                .states
                .insert(machine.to_lowercase(), heard);
        }
        self.observed.fleet.pending.insert(name, view);
    }

    fn joining(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let view = JoiningNodeView {
            name: name.to_owned(),
            uid: format!("uid-joining-{name}"),
            spec: JoiningNodeSpec {
                name: line.option("node").map(str::to_owned),
                componentsreference: line.option("components").map(str::to_owned),
                iscontrolplane: Some(false),
                deadline: line
                    .option("late")
                    .map(|_| at(-line.number("late", 0)).to_string()),
            },
        };
        self.observed.fleet.joining.insert(name.to_owned(), view);
    }

    fn strategy(&mut self, line: &Line<'_>) {
        let replicas = i32::try_from(line.number("replicas", i64::from(line.has("on")))).expect("small");
        let name = line.option("deployment").unwrap_or(AUTOSCALER_NAME);
        let deployment = Key::new(AUTOSCALER_NAMESPACE, name);
        let view = StrategyView {
            name: "strategy".to_owned(),
            uid: "uid-strategy".to_owned(),
            spec: AutoscalingStrategySpec {
                enabled: line.has("on"),
                deployment_name: deployment.name.clone(),
                deployment_namespace: deployment.namespace.clone(),
                autoscaler_extra_args: line.option("extra").map(|extra| {
                    let (key, value) = extra.split_once('=').expect("an extra");
                    BTreeMap::from([(key.to_owned(), value.to_owned())])
                }),
            },
            status: AutoscalingStrategyStatus {
                enabled: Some(replicas > 0),
                replicas: Some(replicas),
            },
        };
        let fleet = &mut self.observed.fleet;
        let command = node_version::command(&view, fleet).unwrap_or_default();
        fleet.strategies.insert("strategy".to_owned(), view);
        if !line.has("unfollowed") {
            fleet.followed.insert(deployment.clone());
        }
        // What numo writes on one that it stops; a strategy that is gone leaves only that.
        let prior = line.option("prior");
        let prior = prior.map(|prior| (marks::PRIOR_REPLICAS.to_owned(), prior.to_owned()));
        if line.has("forgotten") {
            fleet.strategies.clear();
        }
        if !line.has("gone") {
            let view = AutoscalerView {
                uid: "uid-autoscaler".to_owned(),
                annotations: prior.into_iter().collect(),
                replicas,
                command: if line.has("drifted") { Vec::new() } else { command },
            };
            fleet.autoscalers.insert(deployment, view);
        }
    }

    /// The NodeChange of a node, whether it is there or not.
    fn change_of(&self, node: &str) -> Key {
        let mut changes = self.observed.changes.values();
        let change = changes.find(|change| change.spec.node_name == node);
        change.expect("a turn above").key.clone()
    }

    fn replacing(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let mut view = self.observed.fleet.versions[NAME].clone();
        if let Some(image) = line.option("image") {
            view.spec.image = Some(image.to_owned());
        }
        let mut node = self.observed.nodes.values().next().expect("a node above").clone();
        name.clone_into(&mut node.name);
        node.uid = format!("uid-{name}");
        let (key, mut spec) = node_version::reservation(&view, &node, NAMESPACE);
        let directives = [
            ("skip", DirectiveAction::Skip),
            ("hold", DirectiveAction::Hold),
            ("abort", DirectiveAction::Abort),
            ("retry", DirectiveAction::Retry),
        ];
        let said = directives.into_iter().find(|(word, _)| line.has(word));
        spec.directive = said.map(|(_, action)| Directive {
            action,
            reason: None,
            by: Some("ada".to_owned()),
        });
        let step = (line.word(2) != "new").then(|| step(line.word(2)));
        let since = at(line.number("since", -60)).to_string();
        let ended = line.number("ended", 0);
        let attempt = i32::try_from(line.number("attempt", ended + 1)).expect("small");
        let entry = |step: Step, reason: Option<Reason>| Entry {
            at: since.clone(),
            step,
            attempt,
            reason: reason.map(|reason| reason.name().to_owned()),
        };
        let mut entries = Vec::new();
        for before in 1..=ended {
            let attempt = i32::try_from(before).expect("small");
            entries.push(Entry {
                attempt,
                ..entry(Step::Failed, Some(Reason::RunGivenUp))
            });
        }
        for _ in 0..line.number("failed", 0) {
            entries.push(entry(Step::PreRules, Some(Reason::JoinFailed)));
        }
        // What comes before a step of a node that was let go.
        let before: &[Step] = match step {
            Some(Step::Drained | Step::PreRelease) => &[Step::Cordoned],
            Some(Step::Released) => &[Step::Cordoned, Step::Drained],
            Some(Step::Changed | Step::PostRules | Step::Soaked | Step::Done) => {
                &[Step::Cordoned, Step::Drained, Step::Released]
            }
            Some(Step::Held) if line.has("replaced") => {
                &[Step::Cordoned, Step::Drained, Step::Released, Step::Changed]
            }
            _ => &[],
        };
        entries.extend(before.iter().map(|step| entry(*step, None)));
        if line.option("gone").is_some() {
            entries.push(Entry {
                at: at(line.number("gone", 0)).to_string(),
                ..entry(Step::PreRules, Some(Reason::NodeGone))
            });
        }
        if matches!(step, Some(Step::PostRules | Step::Done)) {
            entries.push(entry(Step::Changed, None));
        }
        let drained = matches!(step, Some(Step::PreRelease));
        if drained {
            entries.push(entry(Step::Drained, None));
        }
        entries.extend(step.map(|step| entry(step, None)));
        let pin = line.option("machine").map(|machine| Pin {
            provider_id: Some(machine.to_owned()),
            heir: line.option("heir").map(str::to_owned),
            member: line.option("member").map(str::to_owned),
            heir_provider_id: line.option("heirmachine").map(str::to_owned),
            heir_member: line.option("heirmember").map(str::to_owned),
            ..Pin::default()
        });
        let change = ChangeView {
            key: key.clone(),
            uid: format!("change-{name}"),
            resource_version: "1".to_owned(),
            generation: if said.is_some() { 2 } else { 1 },
            created: at(-120),
            deleting: false,
            annotations: [(marks::TURN.to_owned(), String::new())].into(),
            misread: None,
            spec,
            status: NodeChangeStatus {
                step,
                since: step.map(|_| since.clone()),
                attempt: if step.is_some() { attempt } else { 0 },
                reason: line.option("reason").map(str::to_owned),
                message: line.option("reason").map(|_| "as it was said".to_owned()),
                pin,
                entries,
                verdicts: line.all("verdict").map(|text| verdict(text, 1)).collect(),
                wave_rules: line
                    .option("waverules")
                    .map(|name| vec![format!("{}/{name}", crate::cluster::NAMESPACE)]),
                closed_since: line
                    .option("closed")
                    .map(|_| at(-line.number("closed", 0)).to_string()),
                ..NodeChangeStatus::default()
            },
        };
        self.observed.changes.insert(key, change);
        if !line.has("unleased") {
            self.holds(line);
        }
    }

    /// Lease and shield of a node that has its turn; `cordoned` is numo's cordon, `prior` one that was there before.
    fn holds(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let Some(node) = self.observed.nodes.get_mut(name) else {
            return;
        };
        node.labels
            .insert(marks::EXCLUDE_FROM_REMEDIATION.to_owned(), "true".to_owned());
        for key in [marks::SCALE_DOWN_DISABLED, marks::DO_NOT_DISRUPT] {
            node.annotations.insert(key.to_owned(), "true".to_owned());
        }
        let keys = [
            marks::EXCLUDE_FROM_REMEDIATION,
            marks::SCALE_DOWN_DISABLED,
            marks::DO_NOT_DISRUPT,
        ];
        let shielded = Shielded {
            owner: UID.to_owned(),
            prior: keys.map(|key| (key.to_owned(), None)).into(),
        };
        node.annotations
            .insert(marks::SHIELDED_BY.to_owned(), mark::render(&shielded));
        if line.has("cordoned") {
            node.unschedulable = true;
            let mark = CordonedBy {
                owner: UID.to_owned(),
                prior: line.has("prior"),
                taints: Vec::new(),
                corrections: 0,
                done: true,
            };
            node.annotations
                .insert(marks::CORDONED_BY.to_owned(), mark::render(&mark));
        }
        // Another operator that drains the node has the lease.
        if line.has("lent") {
            return;
        }
        let lease = LeaseView {
            by_numo: true,
            holder: format!("numo/NodeVersion/{UID}"),
            renewed: Some(at(0)),
            duration_seconds: 3600,
            transitions: 0,
            uid: format!("lease-{name}"),
            resource_version: "1".to_owned(),
        };
        self.observed.leases.insert(name.to_owned(), lease);
    }

    fn read_provider(&mut self, line: &Line<'_>) -> bool {
        let provider = &mut self.observed.fleet.provider;
        let when = at(line.number("at", -1));
        let unknown = line.option("unknown").map(str::to_owned);
        match line.word(0) {
            "facts" => {
                let said = match unknown {
                    Some(problem) => Err(problem),
                    None => Ok(MachineFacts {
                        image: line.word(2).to_owned(),
                        group_id: group_id(line.word(3)),
                    }),
                };
                let heard = Heard { at: when, said };
                provider.hear_facts(line.word(1), heard);
                // For so long, if the provider has no facts.
                let since = at(line.number("since", -600));
                provider.failing.values_mut().for_each(|failing| *failing = since);
            }
            "state" => {
                if line.option("wait").is_some() {
                    let provider_id = line.word(1).to_owned();
                    let until = at(line.number("wait", 0));
                    provider
                        .not_before
                        .insert(FleetQuestion::State { provider_id }, until);
                }
                let said = unknown.map_or_else(|| Ok(state(line.word(2))), Err);
                let heard = Heard { at: when, said };
                provider.states.insert(line.word(1).to_lowercase(), heard);
            }
            "image" => {
                let said = unknown.map_or_else(|| Ok(line.word(2).to_owned()), Err);
                let heard = Heard { at: when, said };
                provider
                    .images
                    .insert(group_id(line.word(1)).to_lowercase(), heard);
            }
            "groups" => {
                let names = line.word(1).split(',').filter(|name| *name != "-");
                let names = names.map(|group| group.split_once('=').unwrap_or((group, group)));
                let groups = names.map(|(id, name)| GroupFacts {
                    name: format!("Group-{name}"),
                    node_group_name: id.to_owned(),
                    group_id: group_id(id),
                    autoscaler_group_name: format!("asg-{id}"),
                    is_control_plane: id == "cp",
                });
                let said = unknown.map_or_else(|| Ok(groups.collect()), Err);
                provider.groups = Some(Heard { at: when, said });
            }
            "found" => {
                let made = Some(line.word(2)).filter(|id| *id != "-").map(|id| MadeMachine {
                    node: line.option("node").unwrap_or_default().to_owned(),
                    provider_id: id.to_owned(),
                });
                let said = unknown.map_or(Ok(made), Err);
                provider
                    .found
                    .insert(line.word(1).to_owned(), Heard { at: when, said });
            }
            "told" => {
                let told = Told {
                    again: at(line.number("again", 10)),
                    problem: line.option("problem").map(str::to_owned),
                };
                provider.told.insert(line.word(1).to_lowercase(), told);
            }
            "did" => {
                provider.did.insert(line.word(1).to_lowercase(), when);
            }
            "taken" => {
                let told = ToldImage {
                    image: line.word(2).to_owned(),
                    since: Some(when),
                    times: u32::try_from(line.number("times", 1)).expect("small"),
                };
                let id = group_id(line.word(1)).to_lowercase();
                provider.told_images.insert(id, told);
            }
            "provider" => provider.missing = Some("no provider of machines is configured".to_owned()),
            _ => return false,
        }
        true
    }
}

/// A question in words.
pub fn asked(question: &FleetQuestion) -> String {
    match question {
        FleetQuestion::Facts { provider_id } => format!("? facts {provider_id}"),
        FleetQuestion::State { provider_id } => format!("? state {provider_id}"),
        FleetQuestion::GroupImage { group_id } => format!("? image {group_id}"),
        FleetQuestion::Groups => "? groups".to_owned(),
        FleetQuestion::Find { group_id, .. } => format!("? find in {group_id}"),
    }
}

/// What is noted on a node, in words.
pub fn noted(patch: &NodePatch) -> String {
    let short = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let changes = patch
        .labels
        .iter()
        .chain(&patch.annotations)
        .map(|change| match &change.to {
            Some(to) => format!(" {}={to}", short(&change.key)),
            None => format!(" -{}", short(&change.key)),
        });
    let changes: String = changes.collect();
    let taints = patch.taints.as_ref().map_or_else(String::new, |(_, to)| {
        format!(" {} taints", to.as_array().map_or(0, Vec::len))
    });
    format!("note {}{changes}{taints}", patch.node)
}

/// An action in words.
pub fn done(action: &FleetAction) -> String {
    let or_none = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    match action {
        FleetAction::CreatePendingNode { spec, .. } => match spec.goal {
            Some(Goal::Leave) => format!(
                "leave {} {}",
                or_none(&spec.node_name),
                or_none(&spec.provider_id)
            ),
            _ => format!("intend a machine of {}", or_none(&spec.group_id)),
        },
        FleetAction::WritePendingNode {
            name,
            spec,
            annotations,
            ..
        } => {
            let name = if name.starts_with("numo-") { "it" } else { name };
            match annotations.first() {
                Some(said) if said.key == marks::PROVIDER_SAID => {
                    format!("note of {name} {}", or_none(&said.to))
                }
                Some(of) if of.key == marks::PENDING_OF => format!("disown {name}"),
                Some(_) => format!("claim {name}"),
                None => format!(
                    "rewrite {name} {:?} {}",
                    spec.goal.expect("a goal"),
                    or_none(&spec.provider_id)
                ),
            }
        }
        FleetAction::WritePendingStatus {
            name, state, reached, ..
        } => {
            let name = if name.starts_with("numo-") { "it" } else { name };
            let reached = if *reached { " reached" } else { "" };
            format!("status {name} {}{reached}", state.name())
        }
        FleetAction::DeletePendingNode { name, .. } => {
            let name = if name.starts_with("numo-") { "it" } else { name };
            format!("forget {name}")
        }
        FleetAction::CreateMachine { group_id, .. } => format!("make a machine of {group_id}"),
        FleetAction::DeleteMachine { provider_id, .. } => format!("delete machine {provider_id}"),
        FleetAction::RemoveEtcdMember { node, address, .. } => format!("remove member {node} {address}"),
        FleetAction::DeleteNode { node, .. } => format!("delete node {node}"),
        FleetAction::SetGroupImage { group_id, image } => format!("set image {group_id} {image}"),
        FleetAction::WriteGroupStatus {
            name,
            image,
            is_outdated,
            ..
        } => {
            let outdated = if *is_outdated { " outdated" } else { "" };
            format!("group {name} {image}{outdated}")
        }
        FleetAction::CreateGroup { name, .. } => format!("create group {name}"),
        FleetAction::NameGroup {
            name,
            node_group_name,
            ..
        } => format!("call group {name} {node_group_name}"),
        FleetAction::DeleteGroup { name, .. } => format!("delete group {name}"),
        FleetAction::EnableAutoscaler { enabled, .. } => {
            format!("autoscaler {}", if *enabled { "on" } else { "off" })
        }
        FleetAction::WriteStrategyStatus { replicas, .. } => format!("autoscaler has {replicas}"),
        FleetAction::SetAutoscaler {
            replicas, command, ..
        } => {
            format!(
                "autoscaler {} of {} with {}",
                replicas.1,
                replicas.0,
                command.1.join(" ")
            )
        }
        FleetAction::DeleteJoiningNode { name, .. } => format!("forget joining {name}"),
    }
}
