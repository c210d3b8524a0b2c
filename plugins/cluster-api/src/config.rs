//! Settings of the provider and the names of what it reads and writes. Makes no calls.

use numo_provider_sdk::{
    Failure, ObjectRef,
    failure::invalid,
    host::{Freshness, ListQuery, Settings},
    objects::fields,
    serde_json::Value,
    settings::Fields,
};

/// Version of Cluster API's kinds unless the settings say otherwise.
const API_VERSION: &str = "cluster.x-k8s.io/v1beta1";
/// Namespaces at most.
const NAMESPACES: usize = 20;

/// The settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Cluster whose groups are managed.
    pub cluster: String,
    /// Where its objects are.
    pub namespaces: Vec<String>,
    /// `cluster.x-k8s.io/v1beta1`.
    pub api_version: String,
    /// Version of infrastructure kinds where a reference has none.
    pub infrastructure_version: String,
    /// Name of an infrastructure template, with `{image}` and maybe `{group}`.
    pub template_name: String,
    /// Whether MachinePools are listed.
    pub pools: bool,
    /// Label or annotation with the cluster's uid.
    pub uid_key: String,
    /// Label or annotation with the role.
    pub role_key: String,
    /// Label or annotation with the name of the node group.
    pub node_group_key: String,
}

impl Config {
    /// Reads them.
    ///
    /// Errors: a field is missing, or is not what it should be.
    pub fn read(host: &impl Settings) -> Result<Self, Failure> {
        let read = Fields::read(host)?;
        let text = |name, default: &str| Ok(read.text(name)?.unwrap_or(default).to_owned());
        let config = Self {
            cluster: read.required("clusterName")?.to_owned(),
            namespaces: namespaces(&read)?,
            api_version: text("apiVersion", API_VERSION)?,
            infrastructure_version: text("infrastructureVersion", "v1beta1")?,
            template_name: text("templateName", "{image}")?,
            pools: pools(&read)?,
            uid_key: text("uidKey", "constellation-uid")?,
            role_key: text("roleKey", "constellation-role")?,
            node_group_key: text("nodeGroupKey", "constellation-node-group")?,
        };
        if !config.api_version.starts_with("cluster.x-k8s.io/") {
            return Err(wrong("apiVersion", &config.api_version, API_VERSION));
        }
        if config.template_name.matches("{image}").count() != 1 {
            return Err(wrong(
                "templateName",
                &config.template_name,
                "a text with {image} once",
            ));
        }
        Ok(config)
    }

    /// An object of Cluster API.
    pub fn reference(&self, kind: &str, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version.clone(),
            kind: kind.to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// A list of objects of Cluster API in one namespace.
    pub fn query(&self, kind: &str, namespace: &str, labels: String, read: &[&str]) -> ListQuery {
        ListQuery {
            api_version: self.api_version.clone(),
            kind: kind.to_owned(),
            namespace: Some(namespace.to_owned()),
            label_selector: Some(labels).filter(|labels| !labels.is_empty()),
            field_selector: None,
            projection: fields(read, Freshness::Live),
            limit: 0,
            continue_token: None,
        }
    }

    /// Name of the template of an image.
    pub fn template(&self, group: &str, image: &str) -> String {
        let name = self.template_name.replace("{group}", group);
        name.replace("{image}", image)
    }

    /// Image of a template: what its name has in the place of `{image}`, or all of it where it is named otherwise.
    pub fn image(&self, group: &str, template: &str) -> String {
        let pattern = self.template_name.replace("{group}", group);
        let image = pattern.split_once("{image}").and_then(|(before, after)| {
            let rest = template.strip_prefix(before)?;
            rest.strip_suffix(after)
        });
        let image = image.filter(|image| !image.is_empty());
        image.unwrap_or(template).to_owned()
    }
}

fn wrong(field: &str, found: &str, wanted: &str) -> Failure {
    invalid(format!(
        "config of the provider, {field}: found {found:?}, wanted {wanted}"
    ))
}

fn pools(read: &Fields) -> Result<bool, Failure> {
    match read.value("machinePools") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(pools)) => Ok(*pools),
        Some(other) => Err(wrong("machinePools", &other.to_string(), "true or false")),
    }
}

fn namespaces(read: &Fields) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    found.extend(read.text("namespace")?.map(ToOwned::to_owned));
    match read.value("namespaces") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for one in list {
                let name = one.as_str().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| wrong("namespaces", &one.to_string(), "texts"))?;
                found.push(name.to_owned());
            }
        }
        Some(other) => return Err(wrong("namespaces", &other.to_string(), "a list of texts")),
    }
    found.sort();
    found.dedup();
    if found.is_empty() || found.len() > NAMESPACES {
        return Err(invalid(format!(
            "config of the provider, namespace and namespaces: found {}, wanted 1 to {NAMESPACES}",
            found.len()
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_provider_sdk::fake::World;

    fn config(json: &str) -> Result<Config, Failure> {
        Config::read(&World {
            config_json: json.to_owned(),
            ..World::default()
        })
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (json, named) in [
            ("{}", "clusterName"),
            (r#"{"clusterName": "c"}"#, "namespace"),
            (r#"{"clusterName": "c", "namespaces": [1]}"#, "namespaces"),
            (r#"{"clusterName": "c", "namespaces": "a"}"#, "namespaces"),
            (
                r#"{"clusterName": "c", "namespace": "a", "apiVersion": "v1"}"#,
                "apiVersion",
            ),
            (
                r#"{"clusterName": "c", "namespace": "a", "templateName": "x"}"#,
                "templateName",
            ),
            (
                r#"{"clusterName": "c", "namespace": "a", "machinePools": "yes"}"#,
                "machinePools",
            ),
        ] {
            let failed = config(json).unwrap_err();
            assert!(failed.message.contains(named), "{json}: {failed:?}");
        }
    }

    #[test]
    fn a_template_has_an_image_in_its_name() {
        let plain = config(r#"{"clusterName": "c", "namespace": "a"}"#).unwrap();
        assert_eq!(plain.template("workers", "v2"), "v2");
        assert_eq!(plain.image("workers", "v2"), "v2");
        let named = r#"{"clusterName": "c", "namespace": "a", "templateName": "{group}-{image}"}"#;
        let named = config(named).unwrap();
        assert_eq!(named.template("workers", "v2"), "workers-v2");
        assert_eq!(named.image("workers", "workers-v2"), "v2");
        assert_eq!(named.image("workers", "other"), "other", "it is another image");
        assert_eq!(named.image("workers", "workers-"), "workers-");
    }
}
