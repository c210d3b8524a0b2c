//! `numo approve`: a person permits a run, one of its waves, or the next node after a failure to begin. What is approved, and its
//! digest, are worked out by the same decision as in `numo status`.

use super::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    live::{self, Look},
    maintained,
    object::{ObjectArg, What},
    remarked::{SayArgs, Speaker},
    written::Written,
};
use crate::shell::{client::Connection, project::Kind};
use clap::Args;
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::{ApprovalStatus, MutexApproval, MutexApprovalSpec, NUMO_GROUP, VERSION, text};
use numo_cli::Format;
use numo_core::{
    Decision, MaintenanceGroup, Owner, names,
    observed::{ApprovalView, Key},
    report::{ApprovalReport, Point},
    rules::clip,
    unheard::Standing,
};
use serde::Serialize;
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

/// Longest words of an object that are shown (characters).
const LONGEST: usize = 500;
/// How often is looked until numo in the cluster has seen the same, a second apart.
const LOOKS: u32 = 6;

/// Arguments of `numo approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    say: SayArgs,
    /// Namespace of the object [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// MutexRunConfig (NAME or mutexrunconfig/NAME), plan/NAME, nodemaintenance/NAME or nodeversion/NAME
    #[arg(value_parser = ObjectArg::of_approval, value_name = "RUN|KIND/NAME", required_unless_present = "list", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: Option<ObjectArg>,
    /// Wave that you approve, by number or name; refused if another wave is due
    #[arg(long, value_name = "WAVE")]
    wave: Option<String>,
    /// Digest of what you have looked at, as `--list -o json` and status.approval.digest show it; if something has changed since,
    /// nothing is approved
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Show what is waiting for approval in the namespace, and in none, and which MutexApprovals do not hold
    #[arg(long, conflicts_with_all = ["object", "wave", "digest", "reason", "dry_run"])]
    list: bool,
    /// With --list: in all namespaces
    #[arg(short = 'A', long, requires = "list", conflicts_with = "namespace")]
    all_namespaces: bool,
}

/// What waits for an approval.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    #[serde(skip)]
    group: String,
    kind: &'static str,
    namespace: String,
    name: String,
    waits: String,
    reason: &'static str,
    digest: String,
    message: String,
    /// The MutexApprovals of this owner, as their statuses have them.
    approvals: Vec<Stands>,
}

impl Waiting {
    /// As this verb and `kubectl get` take it.
    fn name(&self) -> String {
        let kind = self.kind.to_lowercase();
        text::line(&format!("{kind}.{}/{}", self.group, self.name)).into_owned()
    }
}

/// How a MutexApproval stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stands {
    name: String,
    approved_by: String,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Stands {
    /// None of one whose status says nothing yet.
    fn of(view: &ApprovalView) -> Option<Self> {
        let told = Standing::told(view).filter(|_| !view.deleting)?;
        Some(Self {
            name: view.name.clone(),
            approved_by: clip(&view.spec.approved_by, LONGEST),
            holds: told.holds,
            reason: told.reason.name(),
            message: clip(&told.message, LONGEST),
        })
    }
}

/// Makes a MutexApproval of what waits.
pub async fn approve(args: ApproveArgs) -> Result<(), CliError> {
    let (connection, default) = args.cluster.connect("approve").await?;
    let Some(object) = args.object.as_ref().filter(|_| !args.list) else {
        let namespace = args.namespace.clone().unwrap_or(default);
        let namespace = Some(namespace).filter(|_| !args.all_namespaces);
        let look = live::look_by(&connection).await?;
        return list(&look, namespace.as_deref(), args.say.output.as_ref());
    };
    let Some(reason) = args.say.reason.clone().filter(|reason| !reason.trim().is_empty()) else {
        return Err(CliError::Usage(
            "--reason: found none, wanted why you approve: it is kept with who and when".to_owned(),
        ));
    };
    let namespace = args.namespace.clone().unwrap_or(default);
    let found = object.owner(&connection, &namespace).await?;
    let name = found.object.metadata.name.clone().unwrap_or_default();
    let key = Key::new(namespace.clone(), name);
    let owner = match found.what {
        What::Plan => Owner::plan(key),
        What::Version => Owner::node_version(key.name),
        What::Maintenance if found.kind == Kind::KubeVirtMaintenance => {
            Owner::maintenance(MaintenanceGroup::KubeVirt, key.name)
        }
        What::Maintenance => Owner::maintenance(MaintenanceGroup::Medik8s, key.name),
        _ => Owner::run(key),
    };
    let waits = &agreed(&connection, &owner).await?;
    is_meant(&waits.point, args.wave.as_deref(), &owner)?;
    is_unchanged(waits, args.digest.as_deref(), &owner)?;
    let speaker = Speaker::of(&connection, &args.say).await?;
    let mut object = approval(&owner, waits, reason, &speaker.by)?;
    let resource = resource();
    if speaker.sends() {
        let api: Api<DynamicObject> = Api::all_with(connection.write.clone(), &resource);
        let doing = format!("approving {} of {owner}", waits.point);
        object = api
            .create(&speaker.post(), &object)
            .await
            .map_err(error::api(doing))?;
    }
    let word = speaker.word("approve");
    speaker
        .tell(&found.resource, &found.object, "Approved", &word)
        .await;
    let written = Written::of(&resource, &object, word, args.say.dry_run);
    let written = written.changed(
        "/spec",
        Value::Null,
        object.data.get("spec").cloned().unwrap_or_default(),
    );
    let message = format!("{owner}: {} is approved", waits.point);
    args.say.print(written, message)?;
    live::say_idle(&connection).await;
    Ok(())
}

/// What is decided for each owner.
fn decisions(look: &Look) -> impl Iterator<Item = (Owner, Cow<'_, Decision>)> {
    let runs = look.runs.iter().map(|(key, one)| (Owner::run(key.clone()), one));
    let plans = look
        .plans
        .iter()
        .map(|(key, one)| (Owner::plan(key.clone()), one));
    let versions = look
        .versions
        .iter()
        .map(|(key, one)| (Owner::node_version(key.name.as_str()), one));
    let maintenances = look.store.observed.maintenances.keys();
    let maintenances =
        maintenances.map(|owner| (owner.clone(), Cow::Owned(maintained::decision(look, owner))));
    let others = runs.chain(plans).chain(versions);
    others
        .map(|(owner, one)| (owner, Cow::Borrowed(one)))
        .chain(maintenances)
}

/// What of the owner waits.
fn waits(look: &Look, owner: &Owner) -> Result<ApprovalReport, CliError> {
    let found = decisions(look).find(|(one, _)| one == owner);
    let (_, decision) =
        found.ok_or_else(|| CliError::Wrong(format!("{owner} is gone, or may not be looked at")))?;
    let report = &decision.report;
    report.approval.clone().ok_or_else(|| {
        let given = report.approved.iter().map(|one| {
            format!(
                "{} is approved by {} (MutexApproval {})",
                one.point, one.by, one.name
            )
        });
        let given: Vec<String> = given.collect();
        let given = if given.is_empty() {
            "numo approve --list -A shows what does".to_owned()
        } else {
            given.join("; ")
        };
        CliError::Usage(format!("{owner} waits for no approval: {given}"))
    })
}

/// What of the owner waits, once numo in the cluster says the same of it: what that does not make of the owner lets nothing begin.
async fn agreed(connection: &Connection, owner: &Owner) -> Result<ApprovalReport, CliError> {
    let mut looks = 1;
    loop {
        let look = live::look_by(connection).await?;
        let waits = waits(&look, owner)?;
        let stored = look.store.observed.owner(owner).and_then(|view| view.approval);
        match is_agreed(stored, &waits, owner) {
            Err(_) if looks < LOOKS => tokio::time::sleep(Duration::from_secs(1)).await,
            agreed => return agreed.map(|()| waits),
        }
        looks += 1;
    }
}

/// Refuses where numo in the cluster has made another digest than this one.
fn is_agreed(stored: Option<&ApprovalStatus>, waits: &ApprovalReport, owner: &Owner) -> Result<(), CliError> {
    match stored.filter(|stored| stored.digest != waits.digest) {
        None => Ok(()),
        Some(stored) => Err(CliError::Wrong(format!(
            "{owner} waits for the approval of {}: found digest {} in its status.approval, wanted {}, which this numo {} makes of what you may see; \
             numo in the cluster has not seen the last change yet, or is of another version, or you may not see all that is approved; \
             nothing was approved",
            waits.point,
            clip(&stored.digest, 200),
            waits.digest,
            env!("CARGO_PKG_VERSION"),
        ))),
    }
}

/// Refuses another wave than the one that waits: nobody approves what he has not looked at.
fn is_meant(point: &Point, wave: Option<&str>, owner: &Owner) -> Result<(), CliError> {
    match wave.filter(|wave| !point.is_wave(wave)) {
        None => Ok(()),
        Some(wave) => Err(CliError::Usage(format!(
            "--wave {wave}: {owner} waits for the approval of {point}"
        ))),
    }
}

/// Refuses what has changed since it was looked at: of a digest the part that differs says what.
fn is_unchanged(waits: &ApprovalReport, seen: Option<&str>, owner: &Owner) -> Result<(), CliError> {
    match seen.filter(|seen| *seen != waits.digest) {
        None => Ok(()),
        Some(seen) => Err(CliError::Usage(format!(
            "--digest {}: {owner} waits for the approval of {} with digest {}: it has changed since, look at it again",
            clip(seen, 200),
            waits.point,
            waits.digest
        ))),
    }
}

fn resource() -> ApiResource {
    let gvk = GroupVersionKind::gvk(NUMO_GROUP, VERSION, "MutexApproval");
    ApiResource::from_gvk_with_plural(&gvk, "mutexapprovals")
}

/// The object. Its name stands for what is approved and by whom: who says it twice is told that it is there.
fn approval(
    owner: &Owner,
    waits: &ApprovalReport,
    reason: String,
    by: &str,
) -> Result<DynamicObject, CliError> {
    let (wave, after_failure) = match &waits.point {
        Point::Begin => (None, None),
        Point::AfterFailure { .. } => (None, Some(true)),
        Point::Wave { number, .. } => (Some(number.to_string()), None),
    };
    let spec = MutexApprovalSpec {
        owner: owner.approved(),
        wave,
        after_failure,
        digest: waits.digest.clone(),
        reason,
        approved_by: by.to_owned(),
    };
    let mut approval = MutexApproval::new("", spec);
    let base: String = owner.key.name.chars().take(40).collect();
    let base = base.trim_end_matches(['-', '.']);
    let hash = names::hash(&["approval", &waits.digest, by], 10);
    // An expired one is approved anew: the API server finds a name that is free.
    approval.metadata.name = None;
    approval.metadata.generate_name = Some(format!("{base}-{hash}-"));
    let object = serde_json::to_value(approval).and_then(serde_json::from_value);
    object.map_err(|error| CliError::Wrong(format!("the approval cannot be written: {error}")))
}

/// Whether an owner is listed: one without a namespace always is.
fn is_listed(of_owner: &str, namespace: Option<&str>) -> bool {
    of_owner.is_empty() || namespace.is_none_or(|namespace| of_owner == namespace)
}

/// Says that owners of other namespaces wait.
fn say_elsewhere(number: usize) {
    let wait = match number {
        0 => return,
        1 => "1 owner waits".to_owned(),
        number => format!("{number} owners wait"),
    };
    eprintln!("numo: in other namespaces {wait} for an approval: `numo approve --list -A` lists all");
}

fn list(look: &Look, namespace: Option<&str>, format: Option<&Format>) -> Result<(), CliError> {
    let approvals = &look.store.observed.approvals;
    let waiting = decisions(look).filter_map(|(owner, decision)| {
        let waits = decision.report.approval.as_ref()?;
        let named = owner.approved();
        let of_owner = approvals.values().filter(|view| view.spec.owner == named);
        Some(Waiting {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name,
            waits: waits.point.to_string(),
            reason: waits.why.reason.name(),
            digest: waits.digest.clone(),
            message: waits.why.message.to_string(),
            approvals: of_owner.filter_map(Stands::of).collect(),
            group: named.api_group,
        })
    });
    let (waiting, elsewhere): (Vec<Waiting>, Vec<Waiting>) =
        waiting.partition(|one| is_listed(&one.namespace, namespace));
    if format == Some(&Format::Name) {
        for one in &waiting {
            println!("{}", one.name());
        }
        return Ok(());
    }
    if let Some(format) = format.filter(|format| !format.is_wide()) {
        print!("{}", format.document(&waiting)?.unwrap_or_default());
        return Ok(());
    }
    let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    if waiting.is_empty() {
        println!("nothing waits for an approval{place}");
    }
    say_elsewhere(elsewhere.len());
    for one in &waiting {
        let key = Key::new(&one.namespace, &one.name);
        println!("{} {key}: {}: {}", one.kind, one.reason, one.message);
    }
    let of_place = approvals.values().filter(|view| {
        let of_owner = view.spec.owner.namespace.as_deref();
        is_listed(of_owner.unwrap_or_default(), namespace)
    });
    for one in of_place.filter_map(Stands::of).filter(|one| !one.holds) {
        println!(
            "MutexApproval {} of {} does not hold: {}: {}",
            one.name, one.approved_by, one.reason, one.message
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Reason;
    use numo_core::{
        observed::{NodeVersionView, Observed, PlanView, RunConfigView},
        report::Why,
    };
    use serde_json::json;

    fn wave(number: usize, name: Option<&str>) -> Point {
        Point::Wave {
            number,
            of: 3,
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn nobody_approves_another_wave_than_the_one_that_waits() {
        let owner = Owner::plan(Key::new("system-upgrade", "servers"));
        let failure = Point::AfterFailure {
            node: "n1".to_owned(),
        };
        for (point, given, is_it) in [
            (wave(2, Some("racks")), None, true),
            (wave(2, Some("racks")), Some("2"), true),
            (wave(2, Some("racks")), Some("racks"), true),
            (wave(2, Some("racks")), Some("3"), false),
            (wave(2, None), Some("canary"), false),
            (wave(2, None), Some(""), false),
            (Point::Begin, None, true),
            (Point::Begin, Some("1"), false),
            (failure, Some("1"), false),
        ] {
            let said = is_meant(&point, given, &owner);
            assert_eq!(said.is_ok(), is_it, "{point}, --wave {given:?}");
            if let Err(error) = said {
                let words = error.to_string();
                assert!(
                    words.contains(&format!("waits for the approval of {point}")),
                    "{words}"
                );
            }
        }
    }

    #[test]
    fn what_numo_in_the_cluster_makes_another_digest_of_is_not_approved() {
        let owner = Owner::run(Key::new("numo", "upgrade"));
        let waits = ApprovalReport {
            point: Point::Begin,
            digest: "a-b-c-d".to_owned(),
            why: Why::new(Reason::WaitsForApproval, "it waits"),
        };
        let stored = |digest: &str| ApprovalStatus {
            digest: digest.to_owned(),
            ..ApprovalStatus::default()
        };
        assert!(is_agreed(None, &waits, &owner).is_ok());
        assert!(is_agreed(Some(&stored("a-b-c-d")), &waits, &owner).is_ok());
        let other = stored("a-b-x-d");
        let said = is_agreed(Some(&other), &waits, &owner).unwrap_err().to_string();
        assert!(
            said.contains("found digest a-b-x-d in its status.approval, wanted a-b-c-d")
                && said.ends_with("nothing was approved"),
            "{said}"
        );
    }

    #[test]
    fn what_waits_is_listed_of_the_namespace_and_of_none() {
        for (of_owner, namespace, is_it) in [
            ("ops", Some("ops"), true),
            ("ops", Some("default"), false),
            ("ops", None, true),
            ("", Some("default"), true),
            ("", None, true),
        ] {
            assert_eq!(is_listed(of_owner, namespace), is_it, "{of_owner} {namespace:?}");
        }
    }

    #[test]
    fn what_waits_is_named_as_kubectl_and_this_verb_take_it() {
        let owner = Owner::plan(Key::new("system-upgrade", "servers"));
        let one = Waiting {
            group: owner.approved().api_group,
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            waits: Point::Begin.to_string(),
            reason: Reason::WaitsForApproval.name(),
            digest: "a-b-c-d".to_owned(),
            message: "it waits".to_owned(),
            approvals: Vec::new(),
        };
        assert_eq!(one.name(), "plan.upgrade.cattle.io/servers");
        assert!(ObjectArg::of_approval(&one.name()).is_ok());
        let shown = serde_json::to_value(&one).unwrap();
        assert_eq!((&shown["group"], &shown["kind"]), (&Value::Null, &json!("Plan")));
    }

    #[test]
    fn the_approval_that_an_owner_waits_for_is_found_by_its_kind() {
        let mut observed = Observed::default();
        let key = Key::new("ops", "upgrade");
        let waits = |digest: &str| {
            Some(ApprovalStatus {
                digest: digest.to_owned(),
                ..ApprovalStatus::default()
            })
        };
        let mut run = RunConfigView::default();
        run.status.approval = waits("of-the-run");
        observed.runs.insert(key.clone(), run);
        let mut plan = PlanView::default();
        plan.status.approval = waits("of-the-plan");
        observed.plans.insert(key.clone(), plan);
        let mut version = NodeVersionView::default();
        version.status.approval = waits("of-the-version");
        observed.fleet.versions.insert("nodes".to_owned(), version);
        let found = |owner: &Owner| Some(observed.owner(owner)?.approval?.digest.clone());
        assert_eq!(found(&Owner::run(key.clone())).as_deref(), Some("of-the-run"));
        assert_eq!(found(&Owner::plan(key.clone())).as_deref(), Some("of-the-plan"));
        assert_eq!(
            found(&Owner::node_version("nodes")).as_deref(),
            Some("of-the-version")
        );
        assert_eq!(found(&Owner::node_version("upgrade")), None);
        assert_eq!(
            found(&Owner::maintenance(MaintenanceGroup::Medik8s, "upgrade")),
            None
        );
    }

    #[test]
    fn what_has_changed_since_it_was_looked_at_is_not_approved() {
        let owner = Owner::run(Key::new("numo", "upgrade"));
        let waits = ApprovalReport {
            point: Point::Begin,
            digest: "a-b-c-d".to_owned(),
            why: Why::new(Reason::WaitsForApproval, "it waits"),
        };
        for (seen, is_it) in [
            (None, true),
            (Some("a-b-c-d"), true),
            (Some("a-b-c-e"), false),
            // Half of it is not what was looked at.
            (Some("a-b"), false),
            (Some(""), false),
        ] {
            let said = is_unchanged(&waits, seen, &owner);
            assert_eq!(said.is_ok(), is_it, "{seen:?}");
            assert!(
                said.err()
                    .is_none_or(|error| error.to_string().contains("with digest a-b-c-d"))
            );
        }
    }

    /// The object for what waits.
    fn made(owner: &Owner, point: Point, digest: &str, by: &str) -> DynamicObject {
        let waits = ApprovalReport {
            point,
            digest: digest.to_owned(),
            why: Why::new(Reason::WaitsForApproval, "it waits"),
        };
        approval(owner, &waits, "reviewed".to_owned(), by).unwrap()
    }

    #[test]
    fn the_object_names_what_waits_and_no_more() {
        let run = Owner::run(Key::new("numo", "upgrade"));
        let failure = Point::AfterFailure {
            node: "n1".to_owned(),
        };
        for (point, wave, after_failure) in [
            (Point::Begin, None, None),
            (failure, None, Some(true)),
            (wave(2, Some("racks")), Some("2"), None),
        ] {
            let object = made(&run, point, "a-b-c-d", "anna");
            let spec: MutexApprovalSpec = serde_json::from_value(object.data["spec"].clone()).unwrap();
            assert_eq!(spec.wave.as_deref(), wave);
            assert_eq!(spec.after_failure, after_failure);
            assert_eq!(
                (spec.digest.as_str(), spec.approved_by.as_str()),
                ("a-b-c-d", "anna")
            );
            assert_eq!(spec.owner, run.approved());
        }
    }

    #[test]
    fn the_name_is_the_api_servers_to_find_and_fits() {
        let long = Owner::plan(Key::new("system-upgrade", "x".repeat(39) + "-and.more"));
        let object = made(&long, Point::Begin, "a-b-c-d", "anna");
        assert_eq!(object.metadata.name, None);
        let base = object.metadata.generate_name.unwrap();
        // The API server adds five letters; a dash or a dot before the hash is none of a name's.
        assert!(base.len() <= 58 && base.starts_with(&"x".repeat(39)), "{base}");
        assert!(!base.contains("--") && !base.contains('.'), "{base}");
        let other = made(&long, Point::Begin, "a-b-c-d", "berta");
        assert_ne!(Some(base), other.metadata.generate_name);
    }
}
