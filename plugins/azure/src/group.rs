//! Scale sets as groups: which ones there are, and the image of their new machines.

use crate::{
    arm::{Arm, Change, Progress, Refusal},
    config::Config,
    ids::GroupId,
    image,
    model::{ScaleSet, tag},
    token::Token,
};
use numo_provider_sdk::{
    Failure, FailureCode, NodeRole, Pending, ScalingGroup,
    failure::{failure, invalid},
    host::{Cloud, Level, Log, Method},
    serde_json::{Map, Value, json},
};

/// Groups of one cluster that are listed.
const GROUPS: usize = 1000;
/// Seconds until the next call after somebody else wrote.
const CHANGED_SECONDS: u32 = 2;

/// All scale sets with the cluster's uid and a role that numo knows.
pub fn list<H: Cloud + Log>(host: &H, config: &Config, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
    if uid.is_empty() {
        return Err(invalid("uid of the cluster: found nothing, wanted one"));
    }
    let path = format!(
        "{}/providers/Microsoft.Compute/virtualMachineScaleSets",
        config.scope()?
    );
    let mut groups = Vec::new();
    Arm::new(host, config).list(&path, "scale sets", |item| {
        let tags = item.get("tags").and_then(Value::as_object);
        let Some(tags) = tags.filter(|tags| tag(tags, &config.uid_tag) == Some(uid)) else {
            return Ok(());
        };
        let id = GroupId::read(item.get("id").and_then(Value::as_str).unwrap_or_default())?;
        let Some(role) = role(tag(tags, &config.role_tag)) else {
            let line = format!(
                "scale set {} is left out: tag {}: found {:?}, wanted worker or control-plane",
                id.name(),
                config.role_tag,
                tag(tags, &config.role_tag)
                    .unwrap_or_default()
                    .chars()
                    .take(64)
                    .collect::<String>()
            );
            host.write(Level::Warn, &line);
            return Ok(());
        };
        if groups.len() >= GROUPS {
            return Err(failure(
                FailureCode::Other,
                format!("scale sets: found more than {GROUPS} of one cluster"),
            ));
        }
        groups.push(scaling_group(config, &id, role, tags));
        Ok(())
    })?;
    Ok(groups)
}

fn scaling_group(config: &Config, id: &GroupId, role: NodeRole, tags: &Map<String, Value>) -> ScalingGroup {
    let node_group = tag(tags, &config.node_group_tag).filter(|name| !name.is_empty());
    ScalingGroup {
        name: id.object_name(),
        node_group_name: node_group.unwrap_or(id.name()).to_owned(),
        group_id: id.id(),
        autoscaling_group_name: id.name().to_owned(),
        role,
        attributes: Vec::new(),
    }
}

fn role(text: Option<&str>) -> Option<NodeRole> {
    let text = text?;
    if text.eq_ignore_ascii_case("worker") {
        return Some(NodeRole::Worker);
    }
    let plane = ["control-plane", "controlplane"];
    plane
        .iter()
        .any(|word| word.eq_ignore_ascii_case(text))
        .then_some(NodeRole::ControlPlane)
}

/// The image of new machines.
pub fn image<H: Cloud>(host: &H, config: &Config, group: &GroupId) -> Result<String, Failure> {
    let set = ScaleSet::get(&Arm::new(host, config), group)?;
    set.image().ok_or_else(|| {
        failure(
            FailureCode::Other,
            format!(
                "scale set {}, imageReference: found no image, wanted one",
                group.name()
            ),
        )
    })
}

/// Sets it, unless it is set.
pub fn set_image<H: Cloud>(
    host: &H,
    config: &Config,
    group: &GroupId,
    wanted: &str,
    token: Option<&str>,
) -> Result<Option<Pending>, Failure> {
    let arm = Arm::new(host, config);
    let what = format!("image of scale set {}", group.name());
    let token = Token::read(token);
    let mut failed = None;
    if let Some(operation) = &token.operation {
        match arm.progress(operation, &what)? {
            Progress::Running(seconds) => {
                return Ok(Some(pending(&token, seconds, format!("{what} is being set"))));
            }
            Progress::Over => {}
            Progress::Failed(failure) => failed = Some(failure),
        }
    }
    let set = ScaleSet::get(&arm, group)?;
    if set
        .image()
        .is_some_and(|image| image.eq_ignore_ascii_case(wanted))
    {
        return Ok(None);
    }
    let reference = image::to_reference(wanted)?;
    set.check_manual(group)?;
    let pending = write_image(&arm, group, &set, &reference)?;
    match failed {
        // It is tried again, but a person must see why.
        Some(failed) => Err(failed),
        None => Ok(Some(pending)),
    }
}

/// Changes the image, if nobody has changed the scale set since it was read.
fn write_image<H: Cloud>(
    arm: &Arm<'_, H>,
    group: &GroupId,
    set: &ScaleSet,
    reference: &Value,
) -> Result<Pending, Failure> {
    let what = format!("image of scale set {}", group.name());
    let body = json!({ "properties": { "virtualMachineProfile": { "storageProfile": { "imageReference": reference } } } });
    let path = group.path();
    let change = Change {
        method: Method::Patch,
        path: &path,
        what: &what,
        body: &body,
        etag: set.etag.as_deref(),
    };
    match arm.change(&change) {
        Ok(answer) => {
            let token = Token {
                operation: answer.operation,
                missed_since: None,
            };
            let message = format!("{what} is being set");
            Ok(pending(&token, answer.retry_after_seconds, message))
        }
        Err(Refusal::Changed(_)) => {
            let message = format!("{what}: others changed the scale set");
            Ok(pending(&Token::default(), CHANGED_SECONDS, message))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn pending(token: &Token, seconds: u32, message: String) -> Pending {
    Pending {
        token: token.write(),
        retry_after_seconds: seconds,
        message,
    }
}
