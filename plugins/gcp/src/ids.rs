//! Ids of machines, groups and images: reads and writes their texts. No calls. What goes into a URL is checked here: nobody can leave the
//! path that an id stands in.

use numo_provider_sdk::{Failure, failure::invalid};

/// What full URLs of resources start with, by the two names that the API has for itself.
const URL_PREFIXES: [&str; 4] = [
    "https://www.googleapis.com/compute/v1/",
    "https://compute.googleapis.com/compute/v1/",
    "https://www.googleapis.com/compute/beta/",
    "https://compute.googleapis.com/compute/beta/",
];
/// Characters of an id that a message shows.
const SHOWN: usize = 128;

/// A machine, `gce://PROJECT/ZONE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceId {
    /// Id of the project.
    pub project: String,
    /// Name of the zone.
    pub zone: String,
    /// Name of the machine.
    pub name: String,
}

impl InstanceId {
    /// Reads a providerID.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let lower = text.to_ascii_lowercase();
        let mut parts = lower.strip_prefix("gce://").unwrap_or_default().split('/');
        let id = (parts.next(), parts.next(), parts.next(), parts.next());
        match id {
            (Some(project), Some(zone), Some(name), None)
                if is_project(project) && is_name(zone) && is_name(name) =>
            {
                Ok(Self {
                    project: project.to_owned(),
                    zone: zone.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(invalid(format!(
                "providerID: found {}, wanted gce://PROJECT/ZONE/INSTANCE",
                shown(text)
            ))),
        }
    }

    /// The providerID.
    pub fn provider_id(&self) -> String {
        format!("gce://{}/{}/{}", self.project, self.zone, self.name)
    }

    /// Its path in the API.
    pub fn path(&self) -> String {
        format!(
            "projects/{}/zones/{}/instances/{}",
            self.project, self.zone, self.name
        )
    }
}

/// A managed instance group of one zone, `projects/PROJECT/zones/ZONE/instanceGroupManagers/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId {
    /// Id of the project.
    pub project: String,
    /// Name of the zone.
    pub zone: String,
    /// Name of the group.
    pub name: String,
}

impl GroupId {
    /// Reads the id of a group; a full URL does, too. One of a region is refused by that name.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let path = path_of(text).to_ascii_lowercase();
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["projects", project, "zones", zone, "instancegroupmanagers", name]
                if is_project(project) && is_name(zone) && is_name(name) =>
            {
                Ok(Self {
                    project: (*project).to_owned(),
                    zone: (*zone).to_owned(),
                    name: (*name).to_owned(),
                })
            }
            ["projects", _, "regions", _, "instancegroupmanagers", _] => Err(invalid(format!(
                "group: found the regional {}, wanted projects/P/zones/Z/instanceGroupManagers/G: regional managed instance groups are not \
                 supported",
                shown(text)
            ))),
            _ => Err(invalid(format!(
                "group: found {}, wanted projects/P/zones/Z/instanceGroupManagers/G",
                shown(text)
            ))),
        }
    }

    /// The id, which is its path in the API.
    pub fn path(&self) -> String {
        format!(
            "projects/{}/zones/{}/instanceGroupManagers/{}",
            self.project, self.zone, self.name
        )
    }

    /// What cluster-autoscaler knows it by.
    pub fn autoscaler_url(&self) -> String {
        format!(
            "https://www.googleapis.com/compute/v1/projects/{}/zones/{}/instanceGroups/{}",
            self.project, self.zone, self.name
        )
    }

    /// A machine of it.
    pub fn instance(&self, name: &str) -> InstanceId {
        InstanceId {
            project: self.project.clone(),
            zone: self.zone.clone(),
            name: name.to_owned(),
        }
    }
}

/// Reads an image that somebody asks for. A family is refused: it is another image on another day, and no machine is ever said to have it. So
/// is a URL: groups and machines are said to have the image by its path, and would be outdated for ever.
pub fn image(text: &str) -> Result<String, Failure> {
    let path = text.to_ascii_lowercase();
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["projects", project, "global", "images", name] if is_project(project) && is_name(name) => Ok(path),
        ["projects", _, "global", "images", "family", _] => Err(invalid(format!(
            "image: found the family {}, wanted one image of it, projects/P/global/images/I",
            shown(text)
        ))),
        _ => Err(invalid(format!(
            "image: found {}, wanted projects/P/global/images/I",
            shown(text)
        ))),
    }
}

/// A text without the prefix of the API's URLs.
pub fn path_of(text: &str) -> &str {
    let found = URL_PREFIXES
        .iter()
        .find_map(|prefix| match text.get(..prefix.len()) {
            Some(start) if start.eq_ignore_ascii_case(prefix) => text.get(prefix.len()..),
            _ => None,
        });
    found.unwrap_or(text)
}

/// Reads the path of a resource in a URL that the cloud gave: `projects/PROJECT/SCOPE/KIND/NAME`, and nothing that leaves it.
pub fn resource(text: &str, kind: &str) -> Option<String> {
    let path = path_of(text);
    let parts: Vec<&str> = path.split('/').collect();
    let is_one = match parts.as_slice() {
        ["projects", project, "global", found, name] => {
            is_project(project) && *found == kind && is_name(name)
        }
        ["projects", project, "zones" | "regions", place, found, name] => {
            is_project(project) && is_name(place) && *found == kind && is_name(name)
        }
        _ => false,
    };
    is_one.then(|| path.to_owned())
}

/// The last part of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A name as RFC 1035 has it, which all resources of the API have.
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|last| *last != b'-')
        && bytes.iter().all(fits)
}

/// Id or number of a project; old ones have their domain before a colon.
pub fn is_project(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
    (1..=128).contains(&text.len())
        && text.bytes().all(fits)
        && text
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
}

/// A stranger's text in a message.
pub fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_without_regard_to_case_and_written_back() {
        let id = InstanceId::parse("gce://Example.com:p-1/europe-west3-b/Node-1").unwrap();
        assert_eq!(id.provider_id(), "gce://example.com:p-1/europe-west3-b/node-1");
        assert_eq!(
            id.path(),
            "projects/example.com:p-1/zones/europe-west3-b/instances/node-1"
        );
        let group = GroupId::parse(
            "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/G",
        )
        .unwrap();
        assert_eq!(group.path(), "projects/p/zones/z/instanceGroupManagers/g");
    }

    #[test]
    fn nothing_leaves_the_path_of_an_id() {
        for wrong in [
            "",
            "gce://p/z",
            "gce://p/z/i/x",
            "gce:///z/i",
            "gce://p/../i",
            "gce://p/z/i?x=1",
            "aws:///z/i-1",
            "gce://p/z/1abc",
            "gce://../z/i",
            "gce://p/z/é",
        ] {
            assert!(InstanceId::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "g",
            "projects/p/zones/z/instanceGroups/g",
            "projects/p/zones/../instanceGroupManagers/g",
        ] {
            assert!(GroupId::parse(wrong).is_err(), "{wrong}");
        }
        let regional = GroupId::parse("projects/p/regions/r/instanceGroupManagers/g").unwrap_err();
        assert!(regional.message.contains("regional"), "{}", regional.message);
    }

    #[test]
    fn an_image_has_no_prefix_and_a_family_is_none() {
        let full = "projects/P/global/images/node-2";
        assert_eq!(image(full).unwrap(), "projects/p/global/images/node-2");
        let url = image("https://www.googleapis.com/compute/v1/projects/p/global/images/node-2").unwrap_err();
        assert!(
            url.message.contains("wanted projects/P/global/images/I"),
            "{}",
            url.message
        );
        let family = image("projects/p/global/images/family/node").unwrap_err();
        assert!(family.message.contains("family"), "{}", family.message);
        assert!(image("global/images/node-2").is_err());
        assert!(image("https://elsewhere.example/projects/p/global/images/x").is_err());
    }
}
