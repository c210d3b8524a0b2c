//! Ids of machines and scale sets: takes them apart, and makes URLs of them. Calls nothing.
//!
//! Azure's ids are paths of key and value. Case does not matter in them; what was given is kept as it was written.

use numo_provider_sdk::{Failure, failure::invalid, names::in_url};

/// What a provider id begins with.
const SCHEME: &str = "azure://";
/// Characters of one name in an id; Azure's longest, a resource group's, has 90.
const NAME_CHARACTERS: usize = 90;
/// Characters of an id that a message shows.
const SHOWN: usize = 200;
const GROUP_FORM: &str =
    "/subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/virtualMachineScaleSets/V";

/// A scale set.
#[derive(Clone, Debug)]
pub struct GroupId {
    subscription: String,
    resource_group: String,
    name: String,
}

/// A machine of a scale set.
#[derive(Clone, Debug)]
pub struct MachineId {
    /// Its scale set.
    pub group: GroupId,
    /// Its number there. Azure uses the number of a machine that is gone again.
    pub instance: String,
}

impl GroupId {
    /// Reads the id of a group.
    ///
    /// Errors: it has another form.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let wrong = || found("group id", text, GROUP_FORM);
        let parts: Vec<&str> = text.strip_prefix('/').ok_or_else(wrong)?.split('/').collect();
        Self::of(&parts).ok_or_else(wrong)
    }

    fn of(parts: &[&str]) -> Option<Self> {
        let [
            subscriptions,
            subscription,
            groups,
            group,
            providers,
            compute,
            sets,
            set,
        ] = parts
        else {
            return None;
        };
        let words = [
            (subscriptions, "subscriptions"),
            (groups, "resourceGroups"),
            (providers, "providers"),
            (compute, "Microsoft.Compute"),
            (sets, "virtualMachineScaleSets"),
        ];
        let fits = words
            .iter()
            .all(|(found, wanted)| found.eq_ignore_ascii_case(wanted));
        let named = [subscription, group, set].iter().all(|name| is_name(name));
        (fits && named).then(|| Self {
            subscription: (*subscription).to_owned(),
            resource_group: (*group).to_owned(),
            name: (*set).to_owned(),
        })
    }

    /// The scale set's name, as cluster-autoscaler knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id.
    pub fn id(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/{}",
            self.subscription, self.resource_group, self.name
        )
    }

    /// The path of the scale set in the API.
    pub fn path(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/{}",
            in_url(&self.subscription),
            in_url(&self.resource_group),
            in_url(&self.name)
        )
    }

    /// The provider id of a machine of it.
    pub fn machine(&self, instance: &str) -> String {
        format!("{SCHEME}{}/virtualMachines/{instance}", self.id())
    }

    /// Name for a ScalingGroup: Kubernetes allows no capitals and no underscores.
    pub fn object_name(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }
}

impl MachineId {
    /// Reads a provider id.
    ///
    /// Errors: it has another form, or is of a machine of a scale set with flexible orchestration.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let wanted = || format!("{SCHEME}{GROUP_FORM}/virtualMachines/NUMBER");
        let wrong = || found("provider id", text, &wanted());
        let start = text.get(..SCHEME.len()).ok_or_else(wrong)?;
        let rest = text.get(SCHEME.len()..).ok_or_else(wrong)?;
        let rest = rest.strip_prefix('/').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let [group @ .., machines, instance] = parts.as_slice() else {
            return Err(wrong());
        };
        let is_number = !instance.is_empty()
            && instance.len() <= 18
            && instance.bytes().all(|byte| byte.is_ascii_digit());
        if !start.eq_ignore_ascii_case(SCHEME)
            || !machines.eq_ignore_ascii_case("virtualMachines")
            || !is_number
        {
            return Err(wrong());
        }
        Ok(Self {
            group: GroupId::of(group).ok_or_else(wrong)?,
            instance: (*instance).to_owned(),
        })
    }

    /// The path of the machine in the API.
    pub fn path(&self) -> String {
        format!("{}/virtualMachines/{}", self.group.path(), in_url(&self.instance))
    }
}

/// Whether a text can stand for a name in an id: what Azure allows in names of resources, and no more.
pub fn is_name(text: &str) -> bool {
    // Letters of all scripts may be in the name of a resource group; they are quoted in URLs.
    let fits =
        |letter: char| letter.is_ascii_alphanumeric() || !letter.is_ascii() || "-_.()".contains(letter);
    let dots = text.chars().all(|letter| letter == '.');
    !text.is_empty() && !dots && text.chars().count() <= NAME_CHARACTERS && text.chars().all(fits)
}

fn found(what: &str, text: &str, wanted: &str) -> Failure {
    let shown: String = text.chars().take(SHOWN).collect();
    invalid(format!("{what}: found {shown:?}, wanted {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str =
        "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/Pool_A";

    #[test]
    fn ids_are_read_in_any_case_and_kept_as_they_were() {
        let machine =
            MachineId::read(&format!("azure://{}/virtualMachines/7", GROUP.to_lowercase())).unwrap();
        assert_eq!((machine.group.name(), machine.instance.as_str()), ("pool_a", "7"));
        let group = GroupId::read(GROUP).unwrap();
        assert_eq!(group.id(), GROUP);
        assert_eq!(group.object_name(), "pool-a");
        assert_eq!(group.machine("7"), format!("azure://{GROUP}/virtualMachines/7"));
    }

    #[test]
    fn ids_of_another_form_say_what_is_wanted() {
        for wrong in [
            "",
            "é",
            "azure:/",
            "gce://p/z/i",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/vm",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachineScaleSets/v/virtualMachines/v_1a",
            "azure:///subscriptions/s/resourceGroups/../providers/Microsoft.Compute/virtualMachineScaleSets/v/virtualMachines/1",
            "azure:///subscriptions/s/resourceGroups/r?x/providers/Microsoft.Compute/virtualMachineScaleSets/v/virtualMachines/1",
        ] {
            let failure = MachineId::read(wrong).unwrap_err();
            assert!(
                failure.message.contains("wanted azure:///subscriptions/"),
                "{wrong}: {}",
                failure.message
            );
        }
        for wrong in [
            "",
            "Pool_A",
            "/subscriptions/s",
            &format!("{GROUP}/virtualMachines/7"),
        ] {
            assert!(GroupId::read(wrong).is_err(), "{wrong}");
        }
    }
}
