//! A rule by itself: asked now about one node, in each of its phases, without an owner that names it.

use super::{
    args::PreviewArgs,
    asking::Asking,
    outlook::{Preview, RuleSaid, Said},
    rules::try_job,
    site::Site,
};
use crate::{
    cli::{
        error::{self, CliError},
        named::Named,
    },
    shell::{project::Kind, store::Store},
};
use numo_api::{Phase, marks::openshift};
use numo_core::{
    Owner,
    action::{EvaluationRequest, JobRequest},
    observed::{ClusterVersionView, Key, NodeView, Observed, RuleView, Validity},
    pools::{self, CONTROL_PLANE, Home},
};

/// Name of the owner that a rule is told of, and of its run: there is none.
const NOBODY: &str = "preview";

/// What a rule says of a node now. It is asked as the operator would ask it, and nothing is written.
pub(super) async fn of_rule(
    site: Option<&mut Site<'_>>,
    store: &Store,
    key: &Key,
    args: &PreviewArgs,
) -> Result<Preview, CliError> {
    let observed = &store.observed;
    let Some(rule) = observed.rules.get(key) else {
        return Err(CliError::Usage(format!(
            "found no mutexrule {} in namespace {}; list them with `kubectl get mutexrules -A`",
            key.name, key.namespace
        )));
    };
    let node = node_of(observed, args.node.as_deref())?;
    let mut one = Preview {
        object: Named::of(Kind::MutexRule, key),
        asked_about: Some(node.name.clone()),
        ..Preview::default()
    };
    if let Validity::Invalid(reason, message) = &rule.validity {
        one.refused.push(Said {
            reason: *reason,
            message: message.clone(),
            ends_by: reason.who().phrase(),
        });
        return Ok(one);
    }
    let Some(site) = site else {
        return Ok(one);
    };
    let question = Question::of(observed, rule, node, args.to_version.as_deref());
    if let Some(asking) = &mut site.asking {
        for phase in question.phases() {
            one.rules.push(
                question
                    .ask(site.connection, &site.place, asking, store, phase)
                    .await,
            );
        }
    }
    Ok(one)
}

/// The node that a rule is asked about: the one that is named, else the first worker, else the first node.
fn node_of<'o>(observed: &'o Observed, named: Option<&str>) -> Result<&'o NodeView, CliError> {
    if let Some(name) = named {
        let known = observed.nodes.keys().map(String::as_str);
        return observed
            .nodes
            .get(name)
            .ok_or_else(|| error::no_node(name, known));
    }
    let is_worker = |node: &&NodeView| {
        !matches!(pools::home_now(observed, &node.labels), Home::Pool(pool) if CONTROL_PLANE.contains(&pool))
            && !node.labels.contains_key("node-role.kubernetes.io/control-plane")
    };
    let nodes = || observed.nodes.values();
    nodes()
        .find(is_worker)
        .or_else(|| nodes().next())
        .ok_or_else(|| CliError::Usage("found no node to evaluate the rule for".to_owned()))
}

/// What one rule is asked of one node.
struct Question<'o> {
    rule: &'o RuleView,
    node: &'o NodeView,
    pool: String,
    from_version: String,
    to_version: String,
}

impl<'o> Question<'o> {
    fn of(observed: &'o Observed, rule: &'o RuleView, node: &'o NodeView, to: Option<&str>) -> Self {
        let pool = match pools::home_now(observed, &node.labels) {
            Home::Pool(pool) => pool.to_owned(),
            Home::None | Home::Several(_) => String::new(),
        };
        let current = observed.configs.get(node.annotation(openshift::CURRENT_CONFIG));
        let asked = observed
            .cluster_version
            .as_ref()
            .map(ClusterVersionView::asked_for);
        Self {
            rule,
            node,
            pool,
            from_version: current
                .and_then(|config| config.version.clone())
                .unwrap_or_default(),
            to_version: to.or(asked).unwrap_or_default().to_owned(),
        }
    }

    /// The phases in which the rule has something to run.
    fn phases(&self) -> impl Iterator<Item = Phase> {
        let post = self.rule.has_clean_up_job && !self.rule.phases.contains(&Phase::Post);
        let all = self.rule.phases.iter().copied();
        let all = all.chain(post.then_some(Phase::Post));
        all.filter(|phase| self.rule.runs_in(*phase))
    }

    async fn ask(
        &self,
        connection: &crate::shell::client::Connection,
        place: &str,
        asking: &mut Asking,
        store: &Store,
        phase: Phase,
    ) -> RuleSaid {
        if self.rule.is_evaluated {
            return asking.ask(&self.evaluation(phase)).await;
        }
        try_job(connection, place, store, &self.job(phase)).await
    }

    fn evaluation(&self, phase: Phase) -> EvaluationRequest {
        EvaluationRequest {
            key: format!("{NOBODY}/{}/{}", self.rule.key, phase.name()),
            rule: self.rule.key.clone(),
            rule_uid: self.rule.uid.clone(),
            generation: self.rule.generation,
            phase,
            attempt: 1,
            owner: Owner::run(Key::new(self.rule.key.namespace.as_str(), NOBODY)),
            node: self.node.name.clone(),
            node_uid: self.node.uid.clone(),
            pool: self.pool.clone(),
            from_version: self.from_version.clone(),
            to_version: self.to_version.clone(),
            run: NOBODY.to_owned(),
            history: Vec::new(),
        }
    }

    fn job(&self, phase: Phase) -> JobRequest {
        JobRequest {
            job: Key::new(self.rule.job_namespace.as_str(), "numo-preview"),
            rule: self.rule.key.clone(),
            phase,
            attempt: 1,
            node: self.node.name.clone(),
            hostname: self.node.label("kubernetes.io/hostname").to_owned(),
            pool: self.pool.clone(),
            from_version: self.from_version.clone(),
            to_version: self.to_version.clone(),
            run: NOBODY.to_owned(),
            placement: self.rule.placement,
            avoid: Vec::new(),
            timeout_seconds: self.rule.timeout_seconds,
        }
    }
}
