//! Launch templates and their versions.

use crate::aws::{
    answer::{Parameters, Refused, ec2, element, wrapped},
    state::{State, Version},
};

fn missing(template: &str) -> Refused {
    let words = format!("The specified launch template, with template ID {template}, does not exist.");
    Refused::new(400, "InvalidLaunchTemplateId.NotFound", &words)
}

fn no_version(template: &str, version: &str) -> Refused {
    let words =
        format!("Could not find the specified version {version} for the launch template with ID {template}.");
    Refused::new(400, "InvalidLaunchTemplateId.VersionNotFound", &words)
}

fn version_xml(template: &str, number: usize, default: usize, version: &Version) -> String {
    let mut data = String::new();
    if let Some(image) = &version.image {
        data += &element("imageId", image);
    }
    if let Some(kind) = &version.kind {
        data += &element("instanceType", kind);
    }
    if let Some(groups) = &version.interface {
        let groups: String = groups.iter().map(|group| element("groupId", group)).collect();
        let odd = if version.odd {
            "<primaryIpv6>true</primaryIpv6>"
        } else {
            ""
        };
        let inner = element("deviceIndex", 0)
            + &element("associatePublicIpAddress", false)
            + &element("deleteOnTermination", true)
            + &wrapped("groupSet", &groups)
            + odd;
        data += &wrapped("networkInterfaceSet", &wrapped("item", &inner));
    }
    [
        element("launchTemplateId", template),
        element("versionNumber", number),
        element("defaultVersion", number == default),
        format!("<launchTemplateData>{data}</launchTemplateData>"),
    ]
    .concat()
}

/// `DescribeLaunchTemplateVersions`.
pub fn describe(state: &State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["LaunchTemplateId", "LaunchTemplateVersion."])?;
    let id = asked.need("LaunchTemplateId")?;
    let template = state.templates.get(id).ok_or_else(|| missing(id))?;
    let mut items = String::new();
    for wanted in asked.list("LaunchTemplateVersion") {
        let found = state.version(id, wanted);
        let (number, version) = found.ok_or_else(|| no_version(id, wanted))?;
        items += &wrapped("item", &version_xml(id, number, template.default, version));
    }
    Ok(ec2(
        "DescribeLaunchTemplateVersions",
        &format!("<launchTemplateVersionSet>{items}</launchTemplateVersionSet>"),
    ))
}

/// `CreateLaunchTemplateVersion`. The image is not checked, as the documentation warns.
pub fn create(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&[
        "LaunchTemplateId",
        "SourceVersion",
        "ClientToken",
        "VersionDescription",
        "LaunchTemplateData.ImageId",
    ])?;
    let id = asked.need("LaunchTemplateId")?;
    let source = asked.need("SourceVersion")?;
    if asked
        .get("VersionDescription")
        .is_some_and(|text| text.len() > 255)
    {
        return Err(Refused::new(
            400,
            "InvalidParameterValue",
            "VersionDescription is too long",
        ));
    }
    let token = asked.get("ClientToken").map(str::to_owned);
    let source = state.version(id, source).map(|(_, version)| version.clone());
    let unknown = state.unknown_versions;
    let template = state.templates.get_mut(id).ok_or_else(|| missing(id))?;
    let mut versions = template.versions.iter();
    let repeated = token
        .is_some()
        .then(|| versions.position(|version| version.token == token));
    let at = if let Some(at) = repeated.flatten() {
        at
    } else {
        template.versions.push(Version {
            image: asked.get("LaunchTemplateData.ImageId").map(str::to_owned),
            token,
            unknown,
            ..source.ok_or_else(|| no_version(id, "source"))?
        });
        template.versions.len() - 1
    };
    let made = version_xml(id, at + 1, template.default, &template.versions[at]);
    Ok(ec2(
        "CreateLaunchTemplateVersion",
        &format!("<launchTemplateVersion>{made}</launchTemplateVersion>"),
    ))
}

/// `ModifyLaunchTemplate`.
pub fn modify(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["LaunchTemplateId", "SetDefaultVersion"])?;
    let id = asked.need("LaunchTemplateId")?;
    let wanted = asked.need("SetDefaultVersion")?;
    let template = state.templates.get_mut(id).ok_or_else(|| missing(id))?;
    let number = wanted.parse::<usize>().ok().filter(|number| *number > 0);
    let version = number.and_then(|number| template.versions.get_mut(number - 1));
    let version = version.ok_or_else(|| no_version(id, wanted))?;
    if version.unknown > 0 {
        version.unknown -= 1;
        return Err(no_version(id, wanted));
    }
    template.default = number.unwrap_or_default();
    let inner = element("launchTemplateId", id) + &element("defaultVersionNumber", wanted);
    Ok(ec2(
        "ModifyLaunchTemplate",
        &format!("<launchTemplate>{inner}</launchTemplate>"),
    ))
}
