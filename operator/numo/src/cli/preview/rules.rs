//! What the rules say of the first node now. Jobs are tried by dry run.

use super::{asking::Asking, outlook::RuleSaid};
use crate::{
    frontends, runners,
    shell::{access, client::Connection, kind::Kind, store::Store, watch},
};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::{api::PostParams, core::DynamicObject};
use numo_api::MutexRule;
use numo_core::{
    Owner, OwnerKind,
    action::{Action, JobRequest, NodePurpose},
    decision::Decision,
    model::{self, Imagined},
    observed::Observed,
    report::Report,
    verdict::Question,
};

/// Writes of one node that are imagined before it is let go.
const STEPS: usize = 300;

/// What the status would say is read by the next decision.
pub(super) fn settle(observed: &mut Observed, owner: &Owner, report: &Report, now: Timestamp) {
    if let Some(view) = observed
        .plans
        .get_mut(&owner.key)
        .filter(|_| owner.kind == OwnerKind::Plan)
    {
        view.status = frontends::plan::status(view, report, now);
    }
}

/// What the rules say of the first node now: components, expressions and queries are asked, Jobs tried by dry run.
pub(super) async fn rules(
    connection: &Connection,
    place: &str,
    asking: &mut Asking,
    store: &Store,
    mut imagined: Imagined,
    owner: &Owner,
    node: &str,
) -> Vec<RuleSaid> {
    let mut said: Vec<RuleSaid> = Vec::new();
    let now = connection.clock.now();
    for _ in 0..STEPS {
        let decision = imagined.decide(owner);
        settle(&mut imagined.observed, owner, &decision.report, now);
        if is_idle(&decision) {
            break;
        }
        for question in &decision.questions {
            if let Question::Evaluate(request) = question
                && (request.node.is_empty() || request.node == node)
            {
                said.push(asking.ask(request).await);
            }
            imagined.pass(question);
        }
        let mut over = false;
        for planned in &decision.actions {
            match &planned.action {
                Action::CreateJob(request) if request.node.is_empty() || request.node == node => {
                    said.push(try_job(connection, place, store, request).await);
                }
                Action::CreatePlanJob(request) if request.node == node => {
                    over = true;
                    continue;
                }
                action if model::begins(action) => {
                    over = true;
                    continue;
                }
                Action::PatchNode(patch)
                    if patch.node == node
                        && matches!(patch.purpose, NodePurpose::Release | NodePurpose::Cordon) =>
                {
                    over = true;
                    continue;
                }
                _ => {}
            }
            imagined.apply(&planned.action);
        }
        if over {
            break;
        }
    }
    said
}

/// Whether nothing follows from it here: nobody is asked about machines, and none is made.
fn is_idle(decision: &Decision) -> bool {
    let mut actions = decision.actions.iter();
    let mut questions = decision.questions.iter();
    actions.all(|planned| matches!(planned.action, Action::Fleet(_)))
        && questions.all(|question| matches!(question, Question::Fleet(_)))
}

/// What the API server would say of a rule's Job, by dry run.
pub(super) async fn try_job(
    connection: &Connection,
    place: &str,
    store: &Store,
    request: &JobRequest,
) -> RuleSaid {
    let mut said = RuleSaid {
        rule: request.rule.to_string(),
        phase: request.phase.name(),
        node: request.node.clone(),
        verdict: "error",
        message: String::new(),
    };
    let Some(rule) = store.rule(&request.rule) else {
        "the rule is gone".clone_into(&mut said.message);
        return said;
    };
    let body = match body_of(rule, request) {
        Ok(body) => body,
        Err(why) => {
            said.message = why;
            return said;
        }
    };
    if lacks_right(connection, place, &request.job.namespace).await {
        said.message = format!(
            "ServiceAccount {place}/numo may not create Jobs in namespace {0}: bind ClusterRole numo-rule-jobs there \
             (examples/invite-namespace.yaml)",
            request.job.namespace
        );
        return said;
    }
    let params = PostParams {
        dry_run: true,
        field_manager: Some("numo-preview".to_owned()),
    };
    let api = watch::api(&connection.write, Kind::Job, &request.job.namespace);
    match api.create(&params, &body).await {
        Ok(_) => {
            said.verdict = "dry-run";
            said.message = format!(
                "the API server takes Job {}; what it would say is not known",
                request.job
            );
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            said.verdict = "unknown";
            said.message = format!(
                "Job {} was not tried, as you may not create one: {}",
                request.job, status.message
            );
        }
        Err(kube::Error::Api(status)) => said.message = format!("Job {}: {}", request.job, status.message),
        Err(error) => said.message = format!("Job {}: {error}", request.job),
    }
    said
}

fn body_of(rule: &MutexRule, request: &JobRequest) -> Result<DynamicObject, String> {
    let body = runners::job::render(rule, request)?;
    serde_json::from_value(body).map_err(|error| error.to_string())
}

/// Whether numo, which would create them, may not create Jobs there. Where nobody says so, it may.
async fn lacks_right(connection: &Connection, place: &str, namespace: &str) -> bool {
    let right = ResourceAttributes {
        group: Some("batch".to_owned()),
        resource: Some("jobs".to_owned()),
        namespace: Some(namespace.to_owned()),
        verb: Some("create".to_owned()),
        ..ResourceAttributes::default()
    };
    let may = access::may(&connection.write, place, "numo", right).await;
    matches!(may, Ok(false))
}
