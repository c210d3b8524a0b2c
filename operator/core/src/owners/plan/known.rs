//! What the names and journals of a Plan's nodes are.

use crate::{
    key::Key,
    names,
    observed::{ChangeView, JobEnd, NodeView, Observed, PlanView},
    owner::Owner,
    report::Report,
    turn::reservation::{self, of_owner},
};
use numo_api::{NodeChangeSpec, Target, marks};

/// Id of what a Plan goes to.
pub fn run_id(plan_uid: &str, hash: &str) -> String {
    names::run_id(plan_uid, hash)
}

/// The label of nodes that says which hash of a Plan they are at.
pub fn label(plan: &str) -> String {
    format!("{}{plan}", marks::PLAN_HASH_PREFIX)
}

/// As if a node had been upgraded, in what was seen.
pub(crate) fn imagine_upgraded(observed: &mut Observed, plan: &str, node: &str, report: &Report) {
    let said = report.plan.as_ref();
    let hash = said.map(|said| said.hash.clone()).unwrap_or_default();
    if let Some(node) = observed.nodes.get_mut(node) {
        node.labels.insert(label(plan), hash);
    }
}

/// The journals of a Plan: those of its own namespace, whose editors may write what runs on the nodes anyway.
pub(crate) fn changes<'a>(
    observed: &'a Observed,
    view: &'a PlanView,
) -> impl Iterator<Item = &'a ChangeView> {
    of_owner(observed, &view.key.namespace, &view.uid)
}

/// Name of the Job of a node (`spec/system-upgrade-controller.md` §2, D).
pub fn job_name(verb: &str, plan: &str, node: &str, hash: &str) -> String {
    let short = node.split('.').next().unwrap_or(node);
    joined(&[verb, plan, "on", short, "with", hash])
}

/// The first words of the names of Jobs: those that do it all or upgrade, and those that only prepare.
pub(super) const VERBS: [&str; 2] = ["apply", "prepare"];

/// Whether a Job only prepares its node, by its name, which nobody can edit; none for one whose name no operator gives.
pub fn prepares(job: &str) -> Option<bool> {
    let (verb, _) = job.split_once('-')?;
    let verb = VERBS.iter().position(|known| *known == verb)?;
    Some(verb == 1)
}

/// Parts joined by `-`; a name of more than 63 bytes is cut and gets the first digits of its SHA-256, as
/// system-upgrade-controller has it.
pub fn joined(parts: &[&str]) -> String {
    const MOST: usize = 63;
    let name = parts.join("-");
    if name.len() <= MOST {
        return name;
    }
    let digest = names::hex(&name);
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (kept, digits) = if name.as_bytes().get(56).copied().is_some_and(is_fit) {
        (57, 5)
    } else {
        (56, 6)
    };
    // Names are ASCII; what is not is refused by the API server, and must not be cut in two here.
    let kept = (0..=kept)
        .rev()
        .find(|at| name.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}-{}", &name[..kept], &digest[..digits])
}

/// What follows the reference's words of a failed Job.
pub(super) const EXIT_CODE: &str = " (exit code ";

/// Words of a failed Job, as system-upgrade-controller has them.
pub(super) fn failure(job: &Key, node: &str, end: &JobEnd, exit_code: Option<i32>) -> String {
    let JobEnd::Failed(reason, message) = end else {
        return String::new();
    };
    let code = exit_code.map_or_else(String::new, |code| format!("{EXIT_CODE}{code})"));
    format!("Job {job} failed on Node {node}: {reason}: {message}{code}")
}

/// The NodeChange of a node of a Plan, for this hash and version.
pub fn reservation(
    view: &PlanView,
    node: &NodeView,
    (hash, version): (&str, &str),
    in_service: bool,
) -> (Key, NodeChangeSpec) {
    let target = Target {
        run_id: run_id(&view.uid, hash),
        version: version.to_owned(),
        pool: String::new(),
    };
    let owner = Owner::plan(view.key.clone());
    let of = (&owner, view.uid.as_str());
    reservation::reservation(of, node, target, in_service, &view.key.namespace)
}
