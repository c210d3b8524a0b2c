//! Cluster API's controllers for MachineDeployments, MachineSets, MachinePools and Machines, as its book describes them: they act on what
//! they see, and count Machines that are being deleted until they are gone.
//!
//! Where the documentation leaves the choice open (which Machine, which MachineSet), the choice here is the one that hurts most: the oldest.

use super::{State, number, set, text};
use numo_provider_sdk::serde_json::{Value, json};

const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const DELETE: &str = "cluster.x-k8s.io/delete-machine";
/// Keeps an old MachineSet from making Machines where the strategy is OnDelete.
const NO_MACHINES: &str = "cluster.x-k8s.io/disable-machine-create";
/// Steps that a Machine takes to be gone.
const STEPS_TO_GO: i64 = 2;

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn is_going(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

fn is_owned(object: &Value, uid: &str) -> bool {
    text(object, "/metadata/ownerReferences/0/uid") == uid
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn revision(set: &Value) -> i64 {
    annotation(set, REVISION)
        .and_then(|revision| revision.parse().ok())
        .unwrap_or_default()
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas")
}

impl State {
    /// All controllers act once.
    pub fn step(&mut self) {
        self.clock += 1;
        self.step_deployments();
        self.step_sets();
        self.step_machines();
    }

    /// The controller of MachineDeployments acts once.
    pub fn step_deployments(&mut self) {
        for deployment in self.all("MachineDeployment") {
            if annotation(&deployment, PAUSED).is_none() {
                self.step_deployment(&deployment);
            }
        }
    }

    /// The controllers of MachineSets and MachinePools act once.
    pub fn step_sets(&mut self) {
        for kind in ["MachineSet", "MachinePool"] {
            for owner in self.all(kind) {
                if annotation(&owner, PAUSED).is_none() {
                    self.step_owner(&owner);
                }
            }
        }
    }

    fn owned(&self, kind: &str, owner: &str) -> Vec<Value> {
        let mut owned = self.all(kind);
        owned.retain(|object| is_owned(object, owner));
        owned
    }

    fn scale(&mut self, set: &str, to: i64) {
        self.change("MachineSet", set, &["spec", "replicas"], json!(to));
    }

    fn step_deployment(&mut self, deployment: &Value) {
        let newest = self.newest_set(deployment);
        let on_delete = [
            text(deployment, "/spec/strategy/type"),
            text(deployment, "/spec/rollout/strategy/type"),
        ]
        .contains(&"OnDelete");
        self.scale_up(deployment, &newest, on_delete);
        if on_delete {
            self.scale_down_on_delete(deployment, &newest);
        } else {
            self.scale_down_rolling(deployment, &newest);
        }
        let machines = self
            .owned("MachineSet", uid(deployment))
            .iter()
            .map(|set| number(set, "/status/replicas"))
            .sum::<i64>();
        if let Some(mut now) = self.get("MachineDeployment", name(deployment)).cloned() {
            let status =
                json!({"observedGeneration": number(&now, "/metadata/generation"), "replicas": machines});
            if now.get("status") != Some(&status) {
                set(&mut now, &["status"], status);
                self.put(now);
            }
        }
    }

    /// Name of the MachineSet of the template as it is; made if there is none.
    fn newest_set(&mut self, deployment: &Value) -> String {
        let sets = self.owned("MachineSet", uid(deployment));
        let last = sets.iter().map(revision).max().unwrap_or_default();
        let wanted = deployment.pointer("/spec/template/spec");
        if let Some(found) = sets
            .iter()
            .find(|set| set.pointer("/spec/template/spec") == wanted)
        {
            let found_name = name(found).to_owned();
            if revision(found) < last {
                let next = json!((last + 1).to_string());
                self.change(
                    "MachineSet",
                    &found_name,
                    &["metadata", "annotations", REVISION],
                    next,
                );
                if let Some(mut back) = self.get("MachineSet", &found_name).cloned() {
                    if let Some(notes) = back
                        .pointer_mut("/metadata/annotations")
                        .and_then(Value::as_object_mut)
                    {
                        notes.remove(NO_MACHINES);
                    }
                    self.put(back);
                }
            }
            return found_name;
        }
        // Made names are random: not in the order in which they are made.
        let made = format!("{}-{:x}", name(deployment), (last + 1) * 7 % 16);
        self.put(json!({
            "apiVersion": deployment["apiVersion"], "kind": "MachineSet",
            "metadata": {
                "name": made, "namespace": deployment["metadata"]["namespace"],
                "labels": {"cluster.x-k8s.io/cluster-name": deployment["spec"]["clusterName"],
                    "cluster.x-k8s.io/deployment-name": name(deployment)},
                "annotations": {REVISION: (last + 1).to_string()},
                "ownerReferences": [{"kind": "MachineDeployment", "name": name(deployment), "uid": uid(deployment)}],
            },
            "spec": {"replicas": 0, "template": deployment["spec"]["template"]},
        }));
        made
    }

    fn total(&self, deployment: &Value) -> i64 {
        self.owned("MachineSet", uid(deployment))
            .iter()
            .map(replicas)
            .sum()
    }

    fn scale_up(&mut self, deployment: &Value, newest: &str, on_delete: bool) {
        let (wanted, total) = (replicas(deployment), self.total(deployment));
        let now = self.get("MachineSet", newest).map(replicas).unwrap_or_default();
        let most = if on_delete { wanted } else { wanted + 1 };
        if now > wanted {
            self.scale(newest, wanted);
        } else if total < most && now < wanted {
            self.scale(newest, now + (most - total).min(wanted - now));
        }
    }

    /// Old MachineSets in the order in which they shrink: those first that have no marked Machine, which the documentation allows.
    fn old_sets(&self, deployment: &Value, newest: &str) -> Vec<Value> {
        let mut old = self.owned("MachineSet", uid(deployment));
        old.retain(|set| name(set) != newest && replicas(set) > 0);
        old.sort_by_key(|set| {
            let machines = self.owned("Machine", uid(set));
            let marked = machines
                .iter()
                .filter(|machine| annotation(machine, DELETE).is_some());
            (marked.count() > 0, revision(set))
        });
        old
    }

    fn scale_down_on_delete(&mut self, deployment: &Value, newest: &str) {
        let mut surplus = self.total(deployment) - replicas(deployment);
        for old in self.old_sets(deployment, newest) {
            self.change(
                "MachineSet",
                name(&old),
                &["metadata", "annotations", NO_MACHINES],
                json!("true"),
            );
            let machines = self.owned("Machine", uid(&old));
            let living = machines.iter().filter(|machine| !is_going(machine)).count();
            let living = i64::try_from(living).unwrap_or_default();
            if living < replicas(&old) {
                surplus -= replicas(&old) - living;
                self.scale(name(&old), living);
            }
        }
        self.take(&self.old_sets(deployment, newest), surplus);
    }

    fn scale_down_rolling(&mut self, deployment: &Value, newest: &str) {
        let sets = self.owned("MachineSet", uid(deployment));
        let running = sets.iter().flat_map(|set| self.owned("Machine", uid(set)));
        let running =
            running.filter(|machine| text(machine, "/status/phase") == "Running" && !is_going(machine));
        let running = i64::try_from(running.count()).unwrap_or_default();
        let old = self.old_sets(deployment, newest);
        let surplus = self.total(deployment) - replicas(deployment);
        let spare = if running > replicas(deployment) {
            running - replicas(deployment)
        } else {
            0
        };
        self.take(&old, surplus.min(spare));
    }

    fn take(&mut self, sets: &[Value], mut surplus: i64) {
        for old in sets {
            let goes = surplus.min(replicas(old)).max(0);
            surplus -= goes;
            if goes > 0 {
                self.scale(name(old), replicas(old) - goes);
            }
        }
    }

    /// A MachineSet or a MachinePool has as many Machines as it wants.
    fn step_owner(&mut self, owner: &Value) {
        let mut machines = self.owned("Machine", uid(owner));
        let count = i64::try_from(machines.len()).unwrap_or_default();
        let wanted = replicas(owner);
        if annotation(owner, NO_MACHINES).is_none() {
            for _ in count..wanted {
                self.make_machine(owner);
            }
        }
        machines.sort_by_key(|machine| {
            let is_marked = annotation(machine, DELETE).is_some();
            let created = text(machine, "/metadata/creationTimestamp").to_owned();
            (!is_going(machine), !is_marked, created, name(machine).to_owned())
        });
        let surplus = usize::try_from(count - wanted).unwrap_or_default();
        for machine in machines.iter().take(surplus) {
            self.delete_machine(name(machine));
        }
        let now = i64::try_from(self.owned("Machine", uid(owner)).len()).unwrap_or_default();
        let kind = text(owner, "/kind");
        if self
            .get(kind, name(owner))
            .map(|set| number(set, "/status/replicas"))
            != Some(now)
        {
            self.change(kind, name(owner), &["status", "replicas"], json!(now));
        }
        if kind == "MachinePool" {
            let generation = self
                .get(kind, name(owner))
                .map(|pool| number(pool, "/metadata/generation"));
            self.change(
                kind,
                name(owner),
                &["status", "observedGeneration"],
                json!(generation),
            );
        }
    }

    fn make_machine(&mut self, owner: &Value) {
        self.version += 1;
        let machine = format!(
            "{}-{:05x}",
            name(owner),
            self.version.wrapping_mul(40_503) & 0xf_ffff
        );
        let deployment = text(owner, "/metadata/ownerReferences/0/name");
        let (key, group) = match text(owner, "/kind") {
            "MachinePool" => ("cluster.x-k8s.io/pool-name", name(owner)),
            _ => ("cluster.x-k8s.io/deployment-name", deployment),
        };
        let template = text(owner, "/spec/template/spec/infrastructureRef/name");
        self.put(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachine",
            "metadata": {"name": machine, "namespace": owner["metadata"]["namespace"],
                "annotations": {"cluster.x-k8s.io/cloned-from-name": template}},
        }));
        self.put(json!({
            "apiVersion": owner["apiVersion"], "kind": "Machine",
            "metadata": {
                "name": machine, "namespace": owner["metadata"]["namespace"],
                "labels": {"cluster.x-k8s.io/cluster-name": text(owner, "/spec/template/spec/clusterName"), key: group},
                "ownerReferences": [{"kind": owner["kind"], "name": name(owner), "uid": uid(owner)}],
            },
            "spec": {"clusterName": text(owner, "/spec/template/spec/clusterName"),
                "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "DockerMachine", "name": machine}},
            "status": {"phase": "Pending"},
        }));
    }

    /// Every Machine comes or goes one step further.
    pub fn step_machines(&mut self) {
        for mut machine in self.all("Machine") {
            let made = name(&machine).to_owned();
            if is_going(&machine) {
                let steps = number(&machine, "/status/goingFor") + 1;
                if steps > STEPS_TO_GO + self.linger {
                    self.remove("Machine", &made);
                    self.remove("DockerMachine", &made);
                } else {
                    set(&mut machine, &["status", "goingFor"], json!(steps));
                    set(&mut machine, &["status", "phase"], json!("Deleting"));
                    self.put(machine);
                }
                continue;
            }
            if self.boot(&mut machine, &made) {
                self.put(machine);
            }
        }
    }

    /// One step of a boot. Whether there was one.
    fn boot(&self, machine: &mut Value, made: &str) -> bool {
        let has_machine = |machine: &&Value| !text(machine, "/spec/providerID").is_empty();
        match text(machine, "/status/phase") {
            "Pending" => set(machine, &["status", "phase"], json!("Provisioning")),
            "Provisioning" => {
                let used = self.all("Machine").iter().filter(has_machine).count();
                if self.quota.is_some_and(|quota| used >= quota) {
                    let words = "quota exceeded: 0 of 8 CPUs are left";
                    let condition =
                        json!([{"type": "InfrastructureReady", "status": "False", "message": words}]);
                    let is_new = machine.pointer("/status/conditions") != Some(&condition);
                    set(machine, &["status", "conditions"], condition);
                    return is_new;
                }
                set(
                    machine,
                    &["spec", "providerID"],
                    json!(format!("docker:////{made}")),
                );
                set(machine, &["status", "phase"], json!("Provisioned"));
            }
            "Provisioned" if !self.never_joins => {
                set(machine, &["status", "phase"], json!("Running"));
                set(
                    machine,
                    &["status", "nodeRef"],
                    json!({"name": format!("node-{made}")}),
                );
            }
            _ => return false,
        }
        true
    }
}
