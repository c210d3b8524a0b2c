//! Scale sets and their machines as Azure describes them, as far as the provider looks. Calls nothing; what is not there is none.

use crate::{
    arm::{Arm, Refusal, odd},
    ids::{GroupId, MachineId},
};
use numo_provider_sdk::{
    Failure, NodeState,
    failure::invalid,
    host::Cloud,
    serde_json::{Map, Value},
};

/// Machines of one scale set that are read; Azure allows 1000.
const MACHINES: usize = 5000;

/// A scale set.
#[derive(Debug)]
pub struct ScaleSet {
    /// Its version.
    pub etag: Option<String>,
    /// How many machines it is to have.
    pub capacity: u64,
    /// Its tags.
    pub tags: Map<String, Value>,
    /// Size of its machines and how many, as it is written.
    pub sku: Value,
    /// `Succeeded`, `Updating`, `Failed` and others.
    pub provisioning: String,
    /// When it was read, in seconds by Azure's clock.
    pub read_at: Option<u64>,
    /// Everything.
    pub body: Value,
}

impl ScaleSet {
    /// Reads one.
    pub fn get<H: Cloud>(arm: &Arm<'_, H>, group: &GroupId) -> Result<Self, Refusal> {
        let what = format!("scale set {}", group.name());
        let (body, read_at) = arm.get_dated(&group.path(), &what)?;
        let sku = body.get("sku").cloned().unwrap_or_default();
        let Some(capacity) = sku.get("capacity").and_then(Value::as_u64) else {
            return Err(Refusal::Failed(odd(&what, "sku.capacity: found no number")));
        };
        Ok(Self {
            etag: body.get("etag").and_then(Value::as_str).map(str::to_owned),
            capacity,
            tags: body
                .get("tags")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            provisioning: text(&body, "/properties/provisioningState")
                .unwrap_or_default()
                .to_owned(),
            sku,
            read_at,
            body,
        })
    }

    /// A tag. Azure tells keys apart without regard to case.
    pub fn tag(&self, key: &str) -> Option<&str> {
        tag(&self.tags, key)
    }

    /// Whether Azure is at work on it.
    pub fn is_updating(&self) -> bool {
        !["Succeeded", "Failed", "Canceled"]
            .iter()
            .any(|end| self.provisioning.eq_ignore_ascii_case(end))
    }

    /// Whether the last thing that Azure did with it failed.
    pub fn has_failed(&self) -> bool {
        self.provisioning.eq_ignore_ascii_case("Failed")
    }

    /// The image of new machines.
    pub fn image(&self) -> Option<String> {
        crate::image::of_reference(
            self.body
                .pointer("/properties/virtualMachineProfile/storageProfile/imageReference")?,
        )
    }

    /// Refuses scale sets whose machines cannot be counted on.
    ///
    /// Errors: it has flexible orchestration, or makes machines that it takes away again.
    pub fn check_countable(&self, group: &GroupId) -> Result<(), Failure> {
        let mode = text(&self.body, "/properties/orchestrationMode").unwrap_or("Uniform");
        if !mode.eq_ignore_ascii_case("Uniform") {
            let mode: String = mode.chars().take(40).collect();
            return Err(invalid(format!(
                "scale set {}, orchestrationMode: found {mode}, wanted Uniform",
                group.name()
            )));
        }
        if self.body.pointer("/properties/overprovision") == Some(&Value::Bool(true)) {
            return Err(invalid(format!(
                "scale set {}, overprovision: found true, wanted false: Azure would make more machines than asked for and take some away again",
                group.name()
            )));
        }
        Ok(())
    }

    /// Refuses scale sets that put a new image on the machines that are there.
    ///
    /// Errors: the upgrade policy is not manual.
    pub fn check_manual(&self, group: &GroupId) -> Result<(), Failure> {
        let mode = text(&self.body, "/properties/upgradePolicy/mode").unwrap_or("nothing");
        if !mode.eq_ignore_ascii_case("Manual") {
            let mode: String = mode.chars().take(40).collect();
            return Err(invalid(format!(
                "scale set {}, upgradePolicy.mode: found {mode}, wanted Manual: Azure would put the new image on all its machines by itself",
                group.name()
            )));
        }
        let os = "/properties/upgradePolicy/automaticOSUpgradePolicy/enableAutomaticOSUpgrade";
        if self.body.pointer(os) == Some(&Value::Bool(true)) {
            return Err(invalid(format!(
                "scale set {}, upgradePolicy.automaticOSUpgradePolicy.enableAutomaticOSUpgrade: found true, wanted false: Azure would \
                 put the new image on all its machines by itself",
                group.name()
            )));
        }
        Ok(())
    }
}

/// A machine, as lists have it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its number in the scale set.
    pub instance: String,
    /// What tells it from an earlier machine with its number.
    pub vm_id: String,
    /// When it was made, by Azure's clock, if it says so in UTC.
    pub created: Option<String>,
    /// Name of the node, if it has one yet.
    pub node_name: Option<String>,
    /// `Creating`, `Succeeded`, `Deleting`, `Failed` and others.
    pub provisioning: String,
}

impl Machine {
    fn read(item: &Value) -> Option<Self> {
        let instance = item.get("instanceId").and_then(Value::as_str)?;
        let name = text(item, "/properties/osProfile/computerName").filter(|name| !name.is_empty());
        Some(Self {
            instance: instance.chars().take(64).collect(),
            vm_id: text(item, "/properties/vmId")
                .unwrap_or_default()
                .chars()
                .take(64)
                .collect(),
            created: text(item, "/properties/timeCreated").and_then(utc),
            node_name: name.map(|name| name.chars().take(253).collect::<String>().to_ascii_lowercase()),
            provisioning: text(item, "/properties/provisioningState")
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// All machines of a scale set.
    pub fn list<H: Cloud>(arm: &Arm<'_, H>, group: &GroupId) -> Result<Vec<Self>, Refusal> {
        let what = format!("machines of scale set {}", group.name());
        let mut machines = Vec::new();
        arm.list(&format!("{}/virtualMachines", group.path()), &what, |item| {
            let machine = Self::read(item).ok_or_else(|| odd(&what, "instanceId: found nothing"))?;
            if machines.len() >= MACHINES {
                return Err(odd(&what, &format!("found more than {MACHINES}")));
            }
            machines.push(machine);
            Ok(())
        })?;
        Ok(machines)
    }

    /// One machine, with all that Azure says of it; none if it is gone.
    pub fn get<H: Cloud>(arm: &Arm<'_, H>, id: &MachineId) -> Result<Option<(Self, Value)>, Failure> {
        let what = format!("machine {} of scale set {}", id.instance, id.group.name());
        let body = match arm.get(&id.path(), &what) {
            Ok(body) => body,
            Err(Refusal::Gone(_)) => return Ok(None),
            Err(refusal) => return Err(refusal.into()),
        };
        let machine = Self::read(&body).ok_or_else(|| odd(&what, "instanceId: found nothing"))?;
        Ok(Some((machine, body)))
    }

    /// Its number as one; none for machines with flexible orchestration.
    pub fn number(&self) -> Option<u64> {
        self.instance.parse().ok()
    }

    /// Whether it is on its way out.
    pub fn is_leaving(&self) -> bool {
        self.provisioning.eq_ignore_ascii_case("Deleting")
    }

    /// Whether Azure has done with making it, well or badly.
    pub fn is_settled(&self) -> bool {
        ["Succeeded", "Failed"]
            .iter()
            .any(|end| self.provisioning.eq_ignore_ascii_case(end))
    }
}

/// A tag's value, whatever the case of its key.
pub fn tag<'a>(tags: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    let mut found = tags.iter().filter(|(name, _)| name.eq_ignore_ascii_case(key));
    found.next()?.1.as_str()
}

fn text<'a>(body: &'a Value, pointer: &str) -> Option<&'a str> {
    body.pointer(pointer)?.as_str()
}

/// A time in UTC without its zone: such times are in order as texts are.
fn utc(time: &str) -> Option<String> {
    let time = time.strip_suffix("+00:00").or_else(|| time.strip_suffix('Z'))?;
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        19 => byte == b'.',
        _ => byte.is_ascii_digit(),
    };
    let fits = (19..=29).contains(&time.len()) && time.bytes().enumerate().all(shape);
    fits.then(|| time.to_owned())
}

/// The state that the statuses of a machine's instance view say.
pub fn state(view: &Value) -> NodeState {
    let statuses = view
        .get("statuses")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let word = |kind: &str| {
        let mut codes = statuses.iter().filter_map(|status| status.get("code")?.as_str());
        let found = codes.find_map(|code| {
            let (found, rest) = code.split_once('/')?;
            found.eq_ignore_ascii_case(kind).then_some(rest)
        });
        found
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let power = word("PowerState");
    match (word("ProvisioningState").as_str(), power.as_str()) {
        ("deleting", _) => NodeState::Terminating,
        ("failed" | "canceled", _) => NodeState::Failed,
        ("creating", _) | (_, "starting") => NodeState::Creating,
        ("succeeded" | "updating", "running") => NodeState::Ready,
        (_, "stopping" | "stopped" | "deallocating" | "deallocated") => NodeState::Stopped,
        _ => NodeState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_provider_sdk::serde_json::json;

    #[test]
    fn states_come_from_both_statuses() {
        let of = |codes: &[&str]| {
            let statuses: Vec<_> = codes.iter().map(|code| json!({ "code": code })).collect();
            state(&json!({ "statuses": statuses }))
        };
        for (codes, wanted) in [
            (
                &["ProvisioningState/succeeded", "PowerState/running"][..],
                NodeState::Ready,
            ),
            (
                &["ProvisioningState/updating", "PowerState/running"],
                NodeState::Ready,
            ),
            (
                &[
                    "ProvisioningState/creating/OSProvisioningInprogress",
                    "PowerState/running",
                ],
                NodeState::Creating,
            ),
            (
                &["ProvisioningState/succeeded", "PowerState/deallocated"],
                NodeState::Stopped,
            ),
            (&["ProvisioningState/failed/AllocationFailed"], NodeState::Failed),
            (
                &["ProvisioningState/deleting", "PowerState/running"],
                NodeState::Terminating,
            ),
            (&["ProvisioningState/succeeded"], NodeState::Unknown),
            (&["nonsense", "/"], NodeState::Unknown),
        ] {
            assert_eq!(of(codes), wanted, "{codes:?}");
        }
        assert_eq!(state(&json!([])), NodeState::Unknown);
    }

    #[test]
    fn times_are_compared_only_in_utc() {
        assert_eq!(
            utc("2026-11-29T10:00:00.1234567+00:00").as_deref(),
            Some("2026-11-29T10:00:00.1234567")
        );
        assert_eq!(
            utc("2026-11-29T10:00:00Z").as_deref(),
            Some("2026-11-29T10:00:00")
        );
        for wrong in [
            "2026-11-29T10:00:00+01:00",
            "tomorrow",
            "",
            "Z",
            "2026-11-29T10:00:00.123456789012Z",
        ] {
            assert_eq!(utc(wrong), None, "{wrong}");
        }
    }
}
