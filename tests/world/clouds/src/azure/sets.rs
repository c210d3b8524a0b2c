//! What a scale set does: machines come, boot and leave. No HTTP here.

use super::{Machine, OLD_IMAGE, Operation, RESOURCE_GROUP, SUBSCRIPTION, Set, State};
use numo_provider_sdk::serde_json::{Map, Value, json};

impl State {
    /// Adds a scale set with running machines and the tags of a cluster.
    #[must_use]
    pub fn with_set(mut self, name: &str, uid: &str, role: &str, machines: u64) -> Self {
        let mut tags = Map::new();
        tags.insert("constellation-uid".to_owned(), uid.into());
        tags.insert("constellation-role".to_owned(), role.into());
        tags.insert(
            "constellation-node-group".to_owned(),
            format!("{name}-group").into(),
        );
        let set = Set {
            name: name.to_owned(),
            capacity: machines,
            tags,
            image: json!({ "id": OLD_IMAGE }),
            upgrade_policy: json!({ "mode": "Manual" }),
            overprovision: false,
            orchestration: "Uniform".to_owned(),
            etag: 1,
            says_etag: true,
            failed: false,
            busy: 0,
            next: 0,
            machines: Vec::new(),
        };
        self.sets.insert(name.to_lowercase(), set);
        for _ in 0..machines {
            self.make(&name.to_lowercase());
        }
        for machine in self.sets.values_mut().flat_map(|set| &mut set.machines) {
            machine.provisioning = "Succeeded";
            machine.unseen = 0;
        }
        self
    }

    /// A scale set by name.
    ///
    /// # Panics
    /// There is none.
    #[allow(
        clippy::panic,
        reason = "a test that names a scale set which is not there is wrong"
    )]
    pub fn set(&mut self, name: &str) -> &mut Set {
        let Some(set) = self.sets.get_mut(&name.to_lowercase()) else {
            panic!("no scale set {name}");
        };
        set
    }

    /// Id of a scale set.
    pub fn group_id(name: &str) -> String {
        format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}"
        )
    }

    /// Provider id of a machine.
    pub fn provider_id(name: &str, instance: u64) -> String {
        format!("azure://{}/virtualMachines/{instance}", Self::group_id(name))
    }

    /// What an autoscaler or a person does: another capacity, as it is.
    pub fn scale(&mut self, name: &str, capacity: u64) {
        let set = self.set(name);
        set.capacity = capacity;
        set.etag += 1;
        self.seek(&name.to_lowercase());
    }

    /// Numbers of the machines that are there and stay.
    pub fn staying(&mut self, name: &str) -> Vec<u64> {
        let machines = self.set(name).machines.iter();
        machines
            .filter(|machine| machine.provisioning != "Deleting")
            .map(|machine| machine.instance)
            .collect()
    }

    fn make(&mut self, key: &str) {
        self.made += 1;
        let (made, tick, boot, unseen, again) =
            (self.made, self.tick, self.boot, self.unseen, self.numbers_again);
        let times = self.times;
        let Some(set) = self.sets.get_mut(key) else {
            return;
        };
        let free =
            (0..=set.next).find(|number| set.machines.iter().all(|machine| machine.instance != *number));
        let instance = if again { free.unwrap_or(set.next) } else { set.next };
        set.next = set.next.max(instance) + 1;
        let created = if times {
            format!("2026-11-29T{}.{made:07}+00:00", clock(tick))
        } else {
            String::new()
        };
        set.machines.push(Machine {
            instance,
            vm_id: format!("{made:08x}-0000-0000-0000-000000000000"),
            created,
            image: set.image.clone(),
            tags: set.tags.clone(),
            provisioning: "Creating",
            ticks: boot,
            unseen,
        });
    }

    /// Makes or removes machines until there are as many as there are to be. Says whether there was room.
    pub(super) fn seek(&mut self, key: &str) -> bool {
        let boot = self.boot;
        let Some(set) = self.sets.get_mut(key) else {
            return true;
        };
        set.failed = false;
        set.busy = boot.max(1);
        let staying = |set: &Set| {
            set.machines
                .iter()
                .filter(|machine| machine.provisioning != "Deleting")
                .count() as u64
        };
        while staying(set) > set.capacity {
            // As the default policy does it: the newest goes.
            let last = set
                .machines
                .iter_mut()
                .rev()
                .find(|machine| machine.provisioning != "Deleting");
            if let Some(last) = last {
                last.provisioning = "Deleting";
                last.ticks = boot;
            }
        }
        let missing = set.capacity.saturating_sub(staying(set));
        if missing > 0 && self.without_room > 0 {
            self.without_room -= 1;
            return false;
        }
        for _ in 0..missing {
            self.make(key);
        }
        true
    }

    /// Begins an operation; all that went on before give way.
    pub(super) fn begin(&mut self, key: &str, has_room: bool) -> usize {
        for operation in self
            .operations
            .iter_mut()
            .filter(|operation| operation.set == key)
        {
            operation.preempted = true;
        }
        let words =
            "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.";
        self.operations.push(Operation {
            set: key.to_owned(),
            failure: (!has_room).then(|| ("AllocationFailed".to_owned(), words.to_owned())),
            preempted: false,
        });
        self.operations.len() - 1
    }

    /// One request later.
    pub(super) fn pass(&mut self) {
        self.tick += 1;
        for (key, set) in &mut self.sets {
            for machine in &mut set.machines {
                machine.ticks = machine.ticks.saturating_sub(1);
                if machine.ticks == 0 && machine.provisioning == "Creating" {
                    machine.provisioning = "Succeeded";
                }
            }
            set.machines
                .retain(|machine| machine.ticks > 0 || machine.provisioning != "Deleting");
            set.busy = set.busy.saturating_sub(1);
            let last = self
                .operations
                .iter()
                .rev()
                .find(|operation| operation.set == *key);
            set.failed = set.busy == 0 && last.is_some_and(|operation| operation.failure.is_some());
        }
    }

    /// A machine leaves, and the capacity is lowered with it. Says whether there is one.
    pub(super) fn remove(&mut self, key: &str, instance: u64) -> bool {
        let boot = self.boot;
        let Some(set) = self.sets.get_mut(key) else {
            return false;
        };
        let Some(machine) = set
            .machines
            .iter_mut()
            .find(|machine| machine.instance == instance)
        else {
            return false;
        };
        if machine.provisioning != "Deleting" {
            machine.provisioning = "Deleting";
            machine.ticks = boot;
            set.capacity = set.capacity.saturating_sub(1);
            set.etag += 1;
        }
        true
    }

    /// How an operation stands.
    pub(super) fn status(&self, number: usize) -> Option<Value> {
        let operation = self.operations.get(number)?;
        let busy = self.sets.get(&operation.set).is_some_and(|set| set.busy > 0);
        let (status, error) = if operation.preempted {
            let words = "Operation execution has been preempted by a more recent operation.";
            (
                "Failed",
                json!({ "code": "OperationPreempted", "message": words }),
            )
        } else if busy {
            ("InProgress", Value::Null)
        } else if let Some((code, words)) = &operation.failure {
            ("Failed", json!({ "code": code, "message": words }))
        } else {
            ("Succeeded", Value::Null)
        };
        Some(
            json!({ "startTime": "2026-11-29T10:00:00+00:00", "status": status, "error": error, "name": number.to_string() }),
        )
    }
}

impl Set {
    fn provisioning(&self) -> &'static str {
        match (self.busy, self.failed) {
            (0, true) => "Failed",
            (0, false) => "Succeeded",
            _ => "Updating",
        }
    }

    /// As the API shows it.
    pub(super) fn shown(&self) -> Value {
        let mut shown = json!({
            "name": self.name,
            "id": State::group_id(&self.name),
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "location": "westeurope",
            "tags": self.tags,
            "sku": { "name": "Standard_D4s_v5", "tier": "Standard", "capacity": self.capacity },
            "properties": {
                "singlePlacementGroup": false,
                "orchestrationMode": self.orchestration,
                "overprovision": self.overprovision,
                "upgradePolicy": self.upgrade_policy,
                "provisioningState": self.provisioning(),
                "virtualMachineProfile": { "storageProfile": { "imageReference": self.image } },
            },
        });
        if self.says_etag {
            shown["etag"] = format!("\"{}\"", self.etag).into();
        }
        shown
    }

    /// One of its machines as the API shows it.
    pub(super) fn machine(&self, machine: &Machine) -> Value {
        let mut shown = json!({
            "name": format!("{}_{}", self.name, machine.instance),
            "id": format!("{}/virtualMachines/{}", State::group_id(&self.name), machine.instance),
            "instanceId": machine.instance.to_string(),
            "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
            "location": "westeurope",
            "tags": machine.tags,
            "properties": {
                "latestModelApplied": true,
                "vmId": machine.vm_id,
                "timeCreated": machine.created,
                "provisioningState": machine.provisioning,
                "osProfile": { "computerName": format!("{}{:06}", self.name.replace('_', "-"), machine.instance) },
                "storageProfile": { "imageReference": machine.image },
            },
        });
        if machine.created.is_empty()
            && let Some(properties) = shown["properties"].as_object_mut()
        {
            properties.remove("timeCreated");
        }
        shown
    }
}

impl Machine {
    /// Its instance view.
    pub(super) fn view(&self) -> Value {
        let power = match self.provisioning {
            "Creating" => "starting",
            "Deleting" => "stopping",
            _ => "running",
        };
        let state = self.provisioning.to_lowercase();
        json!({ "statuses": [
            { "code": format!("ProvisioningState/{state}"), "level": "Info" },
            { "code": format!("PowerState/{power}"), "level": "Info" },
        ] })
    }
}

/// The time of day: ten seconds for each request.
pub(super) fn clock(tick: u64) -> String {
    let seconds = 36_000 + tick * 10;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    )
}
