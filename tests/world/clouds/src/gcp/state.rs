//! What is in the cloud, and how it goes on by itself: operations end, groups make and delete their members, machines boot.

use numo_provider_sdk::serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// What URLs of resources start with.
pub(super) const PREFIX: &str = "https://www.googleapis.com/compute/v1/";

/// What a test can have go otherwise than it should. Ticks are requests.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// Most items of a page, whatever is asked for.
    pub page: usize,
    /// Whether `listManagedInstances` has pages (`listManagedInstancesResults: PAGINATED`).
    pub paginated: bool,
    /// How long operations take.
    pub operation_ticks: u64,
    /// How long after its operation a member becomes an instance.
    pub make_ticks: u64,
    /// How long after that it is running.
    pub boot_ticks: u64,
    /// How long an instance and its member are not seen though they are there.
    pub unseen_ticks: u64,
    /// How long a deletion takes.
    pub delete_ticks: u64,
    /// Most instances.
    pub quota: usize,
    /// Code of the errors of attempts without quota.
    pub quota_code: String,
    /// Permissions that the caller does not have.
    pub denied: BTreeSet<String>,
    /// How many requests are throttled, with how many seconds.
    pub throttle: (u64, u32),
    /// Answers that are given instead to the next requests whose path contains the text: text, status, body.
    pub canned: VecDeque<(String, u16, Vec<u8>)>,
    /// Whether lists of all zones leave one out.
    pub unreachable: bool,
    /// Whether it is only the operation that says that a name is taken.
    pub taken_late: bool,
    /// Code of the error that the next operation ends with.
    pub fail_operation: Option<(String, String)>,
    /// The only access token that is taken; none: every request that says how it is signed is.
    pub token: Option<String>,
    /// How long answers take, in real time.
    pub latency: Duration,
    /// How the paths end whose answers take so long; empty: all of them.
    pub slow: &'static str,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            page: 2,
            paginated: true,
            operation_ticks: 0,
            make_ticks: 0,
            boot_ticks: 0,
            unseen_ticks: 0,
            delete_ticks: 1,
            quota: 100,
            quota_code: "QUOTA_EXCEEDED".to_owned(),
            denied: BTreeSet::new(),
            throttle: (0, 0),
            canned: VecDeque::new(),
            unreachable: false,
            taken_late: false,
            fail_operation: None,
            token: None,
            latency: Duration::ZERO,
            slow: "",
        }
    }
}

/// A request that was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its method.
    pub method: String,
    /// Its path, without `/compute/v1/`.
    pub path: String,
    /// The permissions it needs.
    pub permissions: Vec<String>,
    /// The status of its answer.
    pub status: u16,
}

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// `READY`, `PENDING`, `FAILED`, `DELETING`.
    pub status: String,
    /// `deprecated.state`.
    pub deprecated: Option<String>,
}

/// A managed instance group.
#[derive(Clone, Debug)]
pub struct Group {
    /// `baseInstanceName`.
    pub base: String,
    /// Path of the template.
    pub template: String,
    /// `versions`, if there are several.
    pub versions: Vec<String>,
    /// `updatePolicy.type`.
    pub policy: String,
    /// `targetSize`.
    pub target: i64,
    /// Members by the names of their instances.
    pub members: BTreeMap<String, Member>,
}

/// A member of a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// `currentAction`.
    pub action: String,
    /// When the action is over.
    pub due: u64,
    /// Errors of the last attempt: code and message.
    pub errors: Vec<(String, String)>,
    /// When it is seen.
    pub seen: u64,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// `status`.
    pub status: String,
    /// When it is running, if it is not yet.
    pub running: u64,
    /// When it is seen.
    pub seen: u64,
    /// Its metadata.
    pub metadata: Vec<(String, String)>,
    /// Its labels: those of the template that it was made of.
    pub labels: Value,
}

/// What an operation does when it ends.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Create(String, Vec<String>),
    Delete(String, Vec<String>),
    SetTemplate(String, String),
    Template(String, Value),
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub due: u64,
    pub effect: Option<Effect>,
    pub error: Option<(String, String)>,
    pub kind: String,
}

/// What is in the cloud.
#[derive(Debug)]
pub struct State {
    /// Id of its project.
    pub project: String,
    /// Number of its project.
    pub number: String,
    /// Zones.
    pub zones: BTreeSet<String>,
    /// Requests so far, as time.
    pub tick: u64,
    /// What goes otherwise.
    pub knobs: Knobs,
    /// What was asked.
    pub log: Vec<Call>,
    /// Images by path.
    pub images: BTreeMap<String, Image>,
    /// Templates by path.
    pub templates: BTreeMap<String, Value>,
    /// Groups by path.
    pub groups: BTreeMap<String, Group>,
    /// Instances by path.
    pub instances: BTreeMap<String, Instance>,
    /// Source images of disks by path.
    pub disks: BTreeMap<String, String>,
    /// Names of all instances that were ever made, in that order.
    pub made: Vec<String>,
    pub(super) operations: BTreeMap<String, Operation>,
}

impl State {
    /// Nothing but a project.
    pub(super) fn new() -> Self {
        let zones = ["zone-a", "zone-b"].map(str::to_owned);
        Self {
            project: "numo-test".to_owned(),
            number: "123456789012".to_owned(),
            zones: zones.into(),
            tick: 0,
            knobs: Knobs::default(),
            log: Vec::new(),
            images: BTreeMap::new(),
            templates: BTreeMap::new(),
            groups: BTreeMap::new(),
            instances: BTreeMap::new(),
            disks: BTreeMap::new(),
            made: Vec::new(),
            operations: BTreeMap::new(),
        }
    }

    /// Adds an image of this project, and gives its path.
    pub fn add_image(&mut self, name: &str) -> String {
        let path = format!("projects/{}/global/images/{name}", self.project);
        let image = Image {
            status: "READY".to_owned(),
            deprecated: None,
        };
        self.images.insert(path.clone(), image);
        path
    }

    /// Adds a template, and gives its path.
    pub fn add_template(&mut self, name: &str, image: &str, labels: &Value) -> String {
        let path = format!("projects/{}/global/instanceTemplates/{name}", self.project);
        let properties = json!({
            "machineType": "n2d-standard-4",
            "labels": labels,
            "disks": [
                {"kind": "compute#attachedDisk", "index": 0, "boot": true, "autoDelete": true,
                 "initializeParams": {"sourceImage": format!("{PREFIX}{image}"), "diskSizeGb": "30"}},
                {"kind": "compute#attachedDisk", "index": 1, "boot": false,
                 "initializeParams": {"diskSizeGb": "10", "diskType": "pd-ssd"}},
            ],
            "metadata": {"kind": "compute#metadata", "items": [{"key": "user-data", "value": "secret of the node"}]},
        });
        let template = json!({
            "kind": "compute#instanceTemplate", "id": "77", "name": name, "selfLink": format!("{PREFIX}{path}"), "properties": properties,
        });
        self.templates.insert(path.clone(), template);
        path
    }

    /// Adds a group with as many running machines, and gives its path.
    pub fn add_group(&mut self, scope: &str, name: &str, template: &str, size: usize) -> String {
        let path = format!("projects/{}/{scope}/instanceGroupManagers/{name}", self.project);
        let group = Group {
            base: name.to_owned(),
            template: template.to_owned(),
            versions: Vec::new(),
            policy: "OPPORTUNISTIC".to_owned(),
            target: 0,
            members: BTreeMap::new(),
        };
        self.groups.insert(path.clone(), group);
        for number in 0..size {
            self.add_member(&path, &format!("{name}-{number:04}"));
        }
        self.go_on();
        path
    }

    /// Path of an instance of a group.
    pub fn instance_path(&self, group: &str, name: &str) -> String {
        let scope = group.split("/instanceGroupManagers/").next().unwrap_or_default();
        format!("{scope}/instances/{name}")
    }

    /// Adds a member to a group, which the cloud then makes by the template of now.
    pub fn add_machine(&mut self, group: &str, name: &str) {
        self.add_member(group, name);
        self.go_on();
    }

    pub(super) fn add_member(&mut self, group: &str, name: &str) {
        let (due, seen) = (
            self.tick + self.knobs.make_ticks,
            self.tick + self.knobs.unseen_ticks,
        );
        if let Some(group) = self.groups.get_mut(group) {
            group.target += 1;
            let member = Member {
                action: "CREATING".to_owned(),
                due,
                errors: Vec::new(),
                seen,
            };
            group.members.insert(name.to_owned(), member);
        }
    }

    /// One request later.
    pub(super) fn pass(&mut self) {
        self.tick += 1;
        self.go_on();
    }

    /// Does what is due.
    pub fn go_on(&mut self) {
        let due: Vec<Effect> = self
            .operations
            .values_mut()
            .filter(|operation| operation.due <= self.tick)
            .filter_map(|operation| operation.effect.take())
            .collect();
        for effect in due {
            self.apply(effect);
        }
        let paths: Vec<String> = self.groups.keys().cloned().collect();
        for path in paths {
            self.go_on_with(&path);
        }
        for instance in self.instances.values_mut() {
            if instance.status == "PROVISIONING" && instance.running <= self.tick {
                "RUNNING".clone_into(&mut instance.status);
            }
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Create(group, names) => {
                for name in names {
                    self.add_member(&group, &name);
                }
            }
            Effect::Delete(path, names) => {
                let due = self.tick + self.knobs.delete_ticks;
                let scope = self.instance_path(&path, "");
                let Some(group) = self.groups.get_mut(&path) else {
                    return;
                };
                for name in names {
                    let Some(member) = group.members.get_mut(&name) else {
                        continue;
                    };
                    if member.action == "DELETING" {
                        continue;
                    }
                    "DELETING".clone_into(&mut member.action);
                    member.due = due;
                    group.target -= 1;
                    if let Some(instance) = self.instances.get_mut(&format!("{scope}{name}")) {
                        "STOPPING".clone_into(&mut instance.status);
                    }
                }
            }
            Effect::SetTemplate(path, template) => {
                if let Some(group) = self.groups.get_mut(&path) {
                    group.template = template;
                    group.versions.clear();
                }
            }
            Effect::Template(path, template) => {
                self.templates.insert(path, template);
            }
        }
    }

    fn go_on_with(&mut self, path: &str) {
        let Some(mut group) = self.groups.remove(path) else {
            return;
        };
        let mut gone = Vec::new();
        for (name, member) in &mut group.members {
            if member.due > self.tick {
                continue;
            }
            let own = self.instance_path(path, name);
            match member.action.as_str() {
                "CREATING" | "RECREATING" => member.errors = self.make(path, &group.template, &own),
                "DELETING" => {
                    self.instances.remove(&own);
                    self.disks.remove(&own.replace("/instances/", "/disks/"));
                    gone.push(name.clone());
                }
                _ => continue,
            }
            if member.action != "DELETING" && member.errors.is_empty() {
                "NONE".clone_into(&mut member.action);
            }
        }
        for name in gone {
            group.members.remove(&name);
        }
        self.groups.insert(path.to_owned(), group);
    }

    /// Makes an instance, or says why not.
    fn make(&mut self, group: &str, template: &str, own: &str) -> Vec<(String, String)> {
        let image = self.templates.get(template).and_then(|template| {
            let image = template.pointer("/properties/disks/0/initializeParams/sourceImage")?;
            Some(image.as_str()?.trim_start_matches(PREFIX).to_owned())
        });
        let image = image.unwrap_or_default();
        let labels = self.templates.get(template);
        let labels = labels
            .and_then(|template| template.pointer("/properties/labels"))
            .cloned();
        if !self.images.contains_key(&image) {
            let message = format!("The resource '{image}' was not found");
            return vec![("RESOURCE_NOT_FOUND".to_owned(), message)];
        }
        if self.instances.len() >= self.knobs.quota {
            let message = format!(
                "Quota 'CPUS' exceeded. Limit: {}.0 in region test.",
                self.knobs.quota
            );
            return vec![(self.knobs.quota_code.clone(), message)];
        }
        let created_by = group.replace(
            &format!("projects/{}", self.project),
            &format!("projects/{}", self.number),
        );
        let instance = Instance {
            status: "PROVISIONING".to_owned(),
            running: self.tick + self.knobs.boot_ticks,
            seen: self.tick + self.knobs.unseen_ticks,
            metadata: vec![("created-by".to_owned(), created_by)],
            labels: labels.unwrap_or_else(|| json!({})),
        };
        self.instances.insert(own.to_owned(), instance);
        let disk = own.replace("/instances/", "/disks/");
        self.disks.insert(disk, format!("{PREFIX}{image}"));
        self.made
            .push(own.rsplit('/').next().unwrap_or_default().to_owned());
        Vec::new()
    }

    /// How many requests had a path that contains the text.
    pub fn count(&self, text: &str) -> usize {
        self.log.iter().filter(|call| call.path.contains(text)).count()
    }

    /// Running or booting instances of a group.
    pub fn size(&self, group: &str) -> usize {
        let scope = self.instance_path(group, "");
        let names = self.groups.get(group).map(|group| &group.members);
        let names = names.into_iter().flat_map(BTreeMap::keys);
        names
            .filter(|name| self.instances.contains_key(&format!("{scope}{name}")))
            .count()
    }
}
