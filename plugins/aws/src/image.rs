//! The image that new machines of a group get: read, and set by a new version of its launch template. Versions are never deleted.
//!
//! The new version is made from the one that the group uses, not from `$Latest`: a version that somebody prepares beside it stays out. Its
//! client token is made of template, source version and image, so that a repetition makes no second one.

use crate::{
    call::{Query, ask, unreadable},
    group::{self, Group, Template},
    ids,
    settings::Config,
    xml,
};
use numo_provider_sdk::{
    Failure, FailureCode, Pending,
    failure::{failure, invalid},
    host::Cloud,
};

/// Seconds until EC2 knows a version that it has made.
const VERSION_SECONDS: u32 = 3;

/// A version of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    number: u64,
    image: Option<String>,
}

/// Image that new machines of the group get.
///
/// Errors: the group or its template has none, or AWS refuses or does not answer.
pub fn of_group(host: &impl Cloud, config: &Config, name: &str) -> Result<String, Failure> {
    let group = group::by_name(host, config, name)?;
    let template = template(&group)?;
    let version = version(host, config, template)?;
    version.image.ok_or_else(|| {
        invalid(format!(
            "launch template {} of auto scaling group {name}, version {}, ImageId: found nothing, wanted an image",
            template.id, version.number
        ))
    })
}

/// Sets it; none when done.
///
/// Errors: the image is not there, the group does not get its image from one launch template, or AWS refuses or does not answer.
pub fn set(host: &impl Cloud, config: &Config, name: &str, image: &str) -> Result<Option<Pending>, Failure> {
    let image = ids::image(image)?;
    let group = group::by_name(host, config, name)?;
    let template = template(&group)?;
    let used = version(host, config, template)?;
    if used
        .image
        .as_deref()
        .is_some_and(|now| now.eq_ignore_ascii_case(&image))
    {
        return Ok(None);
    }
    is_settable(&group, template)?;
    is_there(host, config, &group, &image)?;
    let made = make(host, config, template, &used, &image)?;
    match template.version.as_str() {
        "$Latest" => Ok(None),
        "$Default" => make_default(host, config, template, made),
        _ => pin(host, config, &group, template, made),
    }
}

fn template(group: &Group) -> Result<&Template, Failure> {
    group.template.as_ref().ok_or_else(|| {
        invalid(format!(
            "auto scaling group {}, LaunchTemplate: found none, wanted a launch template (launch configurations have no versions)",
            group.name
        ))
    })
}

fn is_settable(group: &Group, template: &Template) -> Result<(), Failure> {
    let Some(overrides) = &group.overrides else {
        return Ok(());
    };
    let field = format!(
        "auto scaling group {}, MixedInstancesPolicy.LaunchTemplate",
        group.name
    );
    if overrides.iter().any(|one| one.has_template) {
        return Err(invalid(format!(
            "{field}.Overrides: found a launch template of its own, wanted one for all types"
        )));
    }
    if !template.version.starts_with('$') {
        return Err(invalid(format!(
            "{field}.LaunchTemplateSpecification.Version: found {}, wanted $Default or $Latest",
            ids::shown(&template.version)
        )));
    }
    Ok(())
}

fn version(host: &impl Cloud, config: &Config, template: &Template) -> Result<Version, Failure> {
    let query = Query::ec2("DescribeLaunchTemplateVersions")
        .with("LaunchTemplateId", &template.id)
        .with("LaunchTemplateVersion.1", &template.version);
    let about = format!("launch template {}, version {}", template.id, template.version);
    let found = ask(host, config, &about, &query, |root| {
        let item = xml::first(root, "launchTemplateVersionSet");
        let item = item.ok_or_else(|| unreadable(&query, &about))?;
        let number = xml::text(item, "versionNumber").and_then(|text| text.parse().ok());
        let data = xml::child(item, "launchTemplateData");
        let image = data.and_then(|data| xml::text(data, "imageId"));
        Ok(Version {
            number: number.ok_or_else(|| unreadable(&query, &about))?,
            image: image.map(str::to_owned),
        })
    })?;
    Ok(found)
}

/// EC2 takes any image into a launch template; the group would then make no machine any more.
fn is_there(host: &impl Cloud, config: &Config, group: &Group, image: &str) -> Result<(), Failure> {
    let query = Query::ec2("DescribeImages").with("ImageId.1", image);
    let about = format!("image {image} for auto scaling group {}", group.name);
    let state = ask(host, config, &about, &query, |root| {
        xml::child(root, "imagesSet").ok_or_else(|| unreadable(&query, &about))?;
        let images = xml::items(root, "imagesSet");
        let mut images = images.iter();
        Ok(images
            .find(|item| xml::text(**item, "imageId") == Some(image))
            .map(|item| xml::text(*item, "imageState").unwrap_or_default().to_owned()))
    })?;
    match state.as_deref() {
        Some("available") => Ok(()),
        Some(state) => Err(failure(
            FailureCode::NotFound,
            format!("{about}: found state {}, wanted available", ids::shown(state)),
        )),
        None => Err(failure(
            FailureCode::NotFound,
            format!(
                "{about}: found none in region {} that this account may use",
                config.region
            ),
        )),
    }
}

fn make(
    host: &impl Cloud,
    config: &Config,
    template: &Template,
    used: &Version,
    image: &str,
) -> Result<u64, Failure> {
    let source = used.number.to_string();
    let token = ids::hash(&[&template.id, &source, image]);
    let query = Query::ec2("CreateLaunchTemplateVersion")
        .with("LaunchTemplateId", &template.id)
        .with("SourceVersion", &source)
        .with("ClientToken", &format!("numo-{source}-{token:016x}"))
        .with(
            "VersionDescription",
            &format!("numo: version {source} with {image}"),
        )
        .with("LaunchTemplateData.ImageId", image);
    let about = format!(
        "launch template {}, version {source} with image {image}",
        template.id
    );
    let (number, warning) = ask(host, config, &about, &query, |root| {
        let made = xml::child(root, "launchTemplateVersion");
        let number = made.and_then(|made| xml::text(made, "versionNumber")?.parse().ok());
        let warning = xml::child(root, "warning").and_then(|warning| {
            let error = xml::first(warning, "errorSet")?;
            let code = xml::text(error, "code").unwrap_or_default();
            Some(format!(
                "{code}: {}",
                xml::text(error, "message").unwrap_or_default()
            ))
        });
        Ok((number.ok_or_else(|| unreadable(&query, &about))?, warning))
    })?;
    match warning {
        None => Ok(number),
        Some(words) => Err(invalid(format!(
            "{about}: EC2 has made version {number} and warns of it, so it does not become the default: {}",
            ids::shown(&words)
        ))),
    }
}

fn make_default(
    host: &impl Cloud,
    config: &Config,
    template: &Template,
    number: u64,
) -> Result<Option<Pending>, Failure> {
    let query = Query::ec2("ModifyLaunchTemplate")
        .with("LaunchTemplateId", &template.id)
        .with("SetDefaultVersion", &number.to_string());
    let about = format!("launch template {}, default version {number}", template.id);
    match ask(host, config, &about, &query, |_| Ok(())) {
        Ok(()) => Ok(None),
        Err(refusal) if refusal.is(&["InvalidLaunchTemplateId.VersionNotFound"]) => Ok(Some(Pending {
            token: String::new(),
            retry_after_seconds: VERSION_SECONDS,
            message: format!(
                "EC2 does not list version {number} of launch template {} yet",
                template.id
            ),
        })),
        Err(refusal) => Err(refusal.failure),
    }
}

/// A group that names its version by number gets the next number.
fn pin(
    host: &impl Cloud,
    config: &Config,
    group: &Group,
    template: &Template,
    number: u64,
) -> Result<Option<Pending>, Failure> {
    let query = Query::autoscaling("UpdateAutoScalingGroup")
        .with("AutoScalingGroupName", &group.name)
        .with("LaunchTemplate.LaunchTemplateId", &template.id)
        .with("LaunchTemplate.Version", &number.to_string());
    let about = format!(
        "auto scaling group {}, launch template version {number}",
        group.name
    );
    ask(host, config, &about, &query, |_| Ok(()))?;
    Ok(None)
}
