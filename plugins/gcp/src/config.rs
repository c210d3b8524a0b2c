//! The provider's settings and `gce.conf`. Reads them, and calls nothing.

use crate::ids::{is_project, shown};
use numo_provider_sdk::{Failure, failure::invalid, host::Settings, settings::Fields};

/// Name of the credential if the settings have none.
const CREDENTIAL: &str = "gcp";

/// Name of the credential that requests are signed with.
pub fn credential(host: &impl Settings) -> Result<String, Failure> {
    let fields = Fields::read(host)?;
    Ok(fields.text("credential")?.unwrap_or(CREDENTIAL).to_owned())
}

/// Key of the label with the uid of a cluster.
const UID_LABEL: &str = "constellation-uid";

/// The cluster whose machines may be deleted.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Label with the uid of the cluster.
    pub label: String,
    /// The uid.
    pub uid: String,
}

impl Owner {
    /// Reads it; none if machines of any cluster of the project may be deleted.
    pub fn read(host: &impl Settings) -> Result<Option<Self>, Failure> {
        let fields = Fields::read(host)?;
        let label = fields.text("uidLabel")?.unwrap_or(UID_LABEL).to_owned();
        let uid = fields.text("uid")?.map(str::to_owned);
        Ok(uid.map(|uid| Self { label, uid }))
    }
}

/// What groups are looked for, and where.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The project.
    pub project: String,
    /// Label with the uid of the cluster.
    pub uid_label: String,
    /// Label with the role.
    pub role_label: String,
    /// Label with the name of the node group.
    pub node_group_label: String,
}

impl Discovery {
    /// Reads it: the project from the settings, or else from `gce.conf`.
    pub fn read(host: &impl Settings) -> Result<Self, Failure> {
        let fields = Fields::read(host)?;
        let project = match fields.text("project")? {
            Some(project) => project.to_owned(),
            None => host
                .cloud_config()
                .and_then(|text| project_id(&text))
                .ok_or_else(missing_project)?,
        };
        let project = project.to_ascii_lowercase();
        if !is_project(&project) {
            return Err(invalid(format!(
                "config of the provider, project: found {}, wanted the id of a project",
                shown(&project)
            )));
        }
        let label = |name: &str, usual: &str| -> Result<String, Failure> {
            Ok(fields.text(name)?.unwrap_or(usual).to_owned())
        };
        Ok(Self {
            project,
            uid_label: label("uidLabel", UID_LABEL)?,
            role_label: label("roleLabel", "constellation-role")?,
            node_group_label: label("nodeGroupLabel", "constellation-node-group")?,
        })
    }
}

fn missing_project() -> Failure {
    invalid(
        "config of the provider, project: found nothing, neither there nor as `project-id = ` in gce.conf, wanted the id of a project",
    )
}

/// The value of `project-id` in `gce.conf`, whatever section it stands in.
fn project_id(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.starts_with(['#', ';', '[']));
    lines.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"').trim();
        (key.trim().eq_ignore_ascii_case("project-id") && !value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_provider_sdk::fake::World;

    fn world(config: &str, file: Option<&str>) -> World {
        World {
            config_json: config.to_owned(),
            cloud_config: file.map(str::to_owned),
            ..World::default()
        }
    }

    #[test]
    fn the_project_is_the_settings_or_that_of_gce_conf() {
        let file =
            "[global]\n# project-id = wrong\nproject-id = \"from-file\"\nuse-metadata-server = false\n";
        let read = |config, file| Discovery::read(&world(config, file)).map(|found| found.project);
        assert_eq!(read("{}", Some(file)).unwrap(), "from-file");
        assert_eq!(read(r#"{"project": "said"}"#, Some(file)).unwrap(), "said");
        assert_eq!(read("{}", Some("project-id=p")).unwrap(), "p");
        for (config, file) in [
            ("{}", None),
            ("{}", Some("[global]\nproject-id =")),
            (r#"{"project": "a/b"}"#, None),
        ] {
            let problem = read(config, file).unwrap_err();
            assert!(problem.message.contains("project"), "{}", problem.message);
        }
    }

    #[test]
    fn labels_and_the_credential_can_be_others() {
        let world = world(
            r#"{"project": "p", "uidLabel": "cluster", "credential": "other"}"#,
            None,
        );
        let found = Discovery::read(&world).unwrap();
        assert_eq!(
            (found.uid_label.as_str(), found.role_label.as_str()),
            ("cluster", "constellation-role")
        );
        assert_eq!(credential(&world).unwrap(), "other");
    }
}
