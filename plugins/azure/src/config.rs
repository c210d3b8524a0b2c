//! The provider's settings, and `azure.json`. Holds no secret, and calls nothing.

use crate::ids::is_name;
use numo_provider_sdk::{
    Failure,
    failure::invalid,
    host::Settings,
    serde_json::{self, Value},
    settings::Fields,
};

/// The management host of Azure's public cloud.
pub const PUBLIC_HOST: &str = "management.azure.com";
/// Management hosts by the field `cloud` of `azure.json`.
const CLOUDS: [(&str, &str); 3] = [
    ("AzurePublicCloud", PUBLIC_HOST),
    ("AzureUSGovernmentCloud", "management.usgovcloudapi.net"),
    ("AzureChinaCloud", "management.chinacloudapi.cn"),
];

/// The settings of a call.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host of the API.
    pub host: String,
    /// Name of the credential in the grant.
    pub credential: String,
    /// Only scale sets of this cluster may lose machines; none: of any cluster.
    pub uid: Option<String>,
    /// Key of the tag with the cluster's uid.
    pub uid_tag: String,
    /// Key of the tag with the role.
    pub role_tag: String,
    /// Key of the tag with the name of the node group.
    pub node_group_tag: String,
    subscription: Option<String>,
    resource_group: Option<String>,
}

impl Config {
    /// Reads them.
    ///
    /// Errors: a field has a wrong type or form, or `azure.json` is no JSON object.
    pub fn read(host: &impl Settings) -> Result<Self, Failure> {
        let fields = Fields::read(host)?;
        let file = cloud_config(host)?;
        let text = |name: &str, otherwise: &str| -> Result<String, Failure> {
            Ok(fields.text(name)?.unwrap_or(otherwise).to_owned())
        };
        let named = |name: &str, in_file: &str| -> Result<Option<String>, Failure> {
            let found = fields.text(name)?.or_else(|| file_text(&file, in_file));
            if let Some(wrong) = found.filter(|found| !is_name(found)) {
                let wrong: String = wrong.chars().take(100).collect();
                return Err(invalid(format!(
                    "config of the provider, {name} ({in_file} of azure.json): found {wrong:?}, wanted a name of Azure"
                )));
            }
            Ok(found.map(str::to_owned))
        };
        Ok(Self {
            host: endpoint(fields.text("endpoint")?, file_text(&file, "cloud"))?,
            credential: text("credential", "azure")?,
            uid: fields.text("uid")?.map(str::to_owned),
            uid_tag: text("uidTag", "constellation-uid")?,
            role_tag: text("roleTag", "constellation-role")?,
            node_group_tag: text("nodeGroupTag", "constellation-node-group")?,
            subscription: named("subscription", "subscriptionId")?,
            resource_group: named("resourceGroup", "resourceGroup")?,
        })
    }

    /// Where scale sets are looked for: the resource group, or the whole subscription if none is named.
    ///
    /// Errors: no subscription is named.
    pub fn scope(&self) -> Result<String, Failure> {
        let subscription = self.subscription.as_deref().ok_or_else(|| {
            invalid(
                "config of the provider, subscription: found nothing there nor in subscriptionId of azure.json, \
                 wanted the id of a subscription",
            )
        })?;
        let group = self.resource_group.as_deref();
        let group = group.map_or_else(String::new, |group| {
            format!("/resourceGroups/{}", numo_provider_sdk::names::in_url(group))
        });
        Ok(format!("/subscriptions/{subscription}{group}"))
    }
}

fn cloud_config(host: &impl Settings) -> Result<Value, Failure> {
    let Some(text) = host.cloud_config().filter(|text| !text.trim().is_empty()) else {
        return Ok(Value::Null);
    };
    match serde_json::from_str(&text) {
        Ok(file @ Value::Object(_)) => Ok(file),
        _ => Err(invalid("cloud configuration (azure.json): wanted a JSON object")),
    }
}

fn file_text<'a>(file: &'a Value, name: &str) -> Option<&'a str> {
    file.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn endpoint(set: Option<&str>, cloud: Option<&str>) -> Result<String, Failure> {
    let host = match (set, cloud) {
        (Some(set), _) => set,
        (None, None) => PUBLIC_HOST,
        (None, Some(cloud)) => {
            let known = CLOUDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(cloud));
            let unknown = || {
                let cloud: String = cloud.chars().take(100).collect();
                invalid(format!(
                    "cloud configuration, cloud: found {cloud:?}, wanted AzurePublicCloud, AzureUSGovernmentCloud or \
                     AzureChinaCloud; or name the host as endpoint in the config of the provider"
                ))
            };
            known.ok_or_else(unknown)?.1
        }
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if host.len() > 253 || !host.bytes().all(fits) {
        let host: String = host.chars().take(100).collect();
        return Err(invalid(format!(
            "config of the provider, endpoint: found {host:?}, wanted a host without scheme and path, like {PUBLIC_HOST}"
        )));
    }
    Ok(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_provider_sdk::fake::World;

    fn read(config: &str, file: Option<&str>) -> Result<Config, Failure> {
        Config::read(&World {
            config_json: config.to_owned(),
            cloud_config: file.map(str::to_owned),
            ..World::default()
        })
    }

    #[test]
    fn settings_go_before_the_cloud_configuration() {
        let file = r#"{"tenantId":"t","subscriptionId":"s","resourceGroup":"r","cloud":"AzureChinaCloud"}"#;
        let config = read("{}", Some(file)).unwrap();
        assert_eq!(config.scope().unwrap(), "/subscriptions/s/resourceGroups/r");
        assert_eq!(config.host, "management.chinacloudapi.cn");
        let config = read(r#"{"subscription":"other","endpoint":"arm.example"}"#, Some(file)).unwrap();
        assert_eq!(config.scope().unwrap(), "/subscriptions/other/resourceGroups/r");
        assert_eq!(config.host, "arm.example");
        assert_eq!(
            read(r#"{"subscription":"s"}"#, None).unwrap().scope().unwrap(),
            "/subscriptions/s"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (config, file, word) in [
            ("{}", Some("subscriptionId: s"), "azure.json"),
            ("{}", Some(r#"{"cloud":"Moon"}"#), "Moon"),
            (r#"{"subscription":3}"#, None, "subscription: found 3"),
            (r#"{"subscription":"a/b"}"#, None, "a/b"),
            (r#"{"endpoint":"https://x/"}"#, None, "endpoint"),
        ] {
            let failure = read(config, file).unwrap_err();
            assert!(failure.message.contains(word), "{}", failure.message);
        }
        assert!(
            read("{}", None)
                .unwrap()
                .scope()
                .unwrap_err()
                .message
                .contains("subscription")
        );
    }
}
