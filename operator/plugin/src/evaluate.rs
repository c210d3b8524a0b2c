//! What a rule is asked: its configuration's faults, and its verdict. How a component is called at all is in `call.rs`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    bindings::RulePre,
    call::{LOADING, bounded, on_own_runtime, store, turn},
    description::{Description, PHASES_OF_A_RUN},
    engine::{Inner, Turn},
    grants::Grants,
    host::Sandbox,
    limits::Limits,
    outcome::{Answer, Usage},
    reason::{Reason, Refused},
    rule::{Loaded, Rule, describe_time},
    services::Services,
    spec::Terms,
    verdict::{ConfigProblem, Input, Verdict, config_problems, problem_list, refused_by_rule},
};

impl Rule {
    /// Has the rule check its configuration, with every host call denied. The inner error is the rule's word.
    pub async fn validate_config(&self, json: &str) -> Result<Result<(), Vec<ConfigProblem>>, Refused> {
        validate_config(&self.0, json).await
    }

    /// Asks the rule.
    ///
    /// The time begins when it is its turn, at most [`Limits::concurrent_evaluations`] having theirs. While the component
    /// sleeps or waits for an answer another has its place. Dropping the future stops the component at its next tick.
    /// Errors are never a pass: any [`Reason`] but those of loading.
    pub async fn evaluate(&self, input: Input, terms: &Terms, services: Services) -> Result<Answer, Refused> {
        let turn = self.turn(terms).await?;
        self.evaluate_in(turn, input, terms, services).await
    }

    /// Waits until it is the rule's turn, at most [`Limits::concurrent_evaluations`] having theirs and together at most
    /// [`Limits::concurrent_memory_bytes`]; of both the tenant of `terms` has its share. What it is asked about is best read
    /// after that: it ages.
    ///
    /// Errors: the limits of `terms` are not within the ceilings.
    pub async fn turn(&self, terms: &Terms) -> Result<Turn, Refused> {
        let limits = self.limits_of(terms)?;
        Ok(turn(&self.0.engine, &terms.tenant, limits.memory_bytes).await)
    }

    /// Asks the rule in its turn, which ends with the answer.
    ///
    /// Errors: as [`Self::evaluate`].
    pub async fn evaluate_in(
        &self,
        turn: Turn,
        input: Input,
        terms: &Terms,
        services: Services,
    ) -> Result<Answer, Refused> {
        let limits = self.limits_of(terms)?;
        self.check(&input, &terms.grants, &limits)?;
        let (loaded, grants) = (self.0.clone(), terms.grants.clone());
        // Boxed: it is 17 KB large, and so would everything be that awaits it.
        let evaluation = async move { evaluate(&loaded, input, limits, grants, services).await };
        Box::pin(on_own_runtime(&self.0.engine, turn, evaluation)).await
    }

    fn limits_of(&self, terms: &Terms) -> Result<Limits, Refused> {
        let limits = self.limits(&terms.limits);
        limits.map_err(|error| Refused::new(Reason::TooLarge, error.to_string()))
    }

    /// What is refused without asking the component.
    fn check(&self, input: &Input, grants: &Grants, limits: &Limits) -> Result<(), Refused> {
        let description = self.description();
        if !description.phases.contains(&input.phase) {
            let message = format!(
                "rule {} knows the phases {}, not {}",
                description.name,
                description.phases.join(", "),
                input.phase
            );
            return Err(Refused::new(Reason::PhaseUnsupported, message));
        }
        let missing: Vec<_> = self
            .missing_grants(grants)
            .into_iter()
            .filter(|missing| !missing.optional)
            .collect();
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
            return Err(Refused::new(
                Reason::GrantMissing,
                format!("the rule needs {}", names.join("; ")),
            ));
        }
        if input.node.is_none() && !PHASES_OF_A_RUN.contains(&input.phase.as_str()) {
            return Err(Refused::new(
                Reason::PhaseUnsupported,
                format!("phase {} needs a node", input.phase),
            ));
        }
        input.check(limits)
    }
}

async fn evaluate(
    loaded: &Loaded,
    input: Input,
    limits: Limits,
    grants: Arc<Grants>,
    services: Services,
) -> Result<Answer, Refused> {
    let begin = Instant::now();
    let time = Duration::from_secs(limits.evaluation_seconds);
    let limits = Arc::new(limits);
    let mut store = store(
        &loaded.engine,
        (limits.clone(), loaded.inspection.state_bytes),
        begin + time,
        Some((grants, services)),
    );
    let input = input.into();
    let answer = bounded(&loaded.engine, &mut store, time, async |store| {
        let guest = loaded.pre.instantiate_async(&mut *store).await?;
        guest.numo_rule_evaluation().call_evaluate(store, &input).await
    })
    .await?;
    let verdict = match answer {
        Ok(verdict) => Verdict::from_wit(verdict, &limits)?,
        Err(error) => return Err(refused_by_rule(error)),
    };
    let sandbox = store.data_mut();
    let (host_calls, host_bytes) = sandbox.budget.usage();
    let usage = Usage {
        duration: begin.elapsed(),
        memory_bytes: sandbox.limiter.peak_bytes,
        host_calls,
        host_bytes,
    };
    Ok(Answer {
        verdict,
        reads: std::mem::take(&mut sandbox.reads),
        usage,
    })
}

/// Asks a component that is being loaded what it is.
pub(crate) async fn describe(
    engine: &Arc<Inner>,
    pre: &RulePre<Sandbox>,
    state_bytes: u64,
) -> Result<Description, Refused> {
    let (of_task, pre) = (engine.clone(), pre.clone());
    let turn = turn(engine, LOADING, engine.limits.memory_bytes).await;
    on_own_runtime(engine, turn, async move {
        let time = describe_time(&of_task.limits);
        let mut store = store(
            &of_task,
            (of_task.limits.clone(), state_bytes),
            Instant::now() + time,
            None,
        );
        let description = bounded(&of_task, &mut store, time, async |store| {
            let guest = pre.instantiate_async(&mut *store).await?;
            guest.numo_rule_evaluation().call_describe(store).await
        })
        .await?;
        Description::from_wit(description, &of_task.limits)
    })
    .await
}

async fn validate_config(
    loaded: &Arc<Loaded>,
    json: &str,
) -> Result<Result<(), Vec<ConfigProblem>>, Refused> {
    let (of_task, json) = (loaded.clone(), json.to_owned());
    let engine = &loaded.engine;
    let turn = turn(engine, LOADING, engine.limits.memory_bytes).await;
    on_own_runtime(engine, turn, async move {
        let engine = &of_task.engine;
        if json.len() as u64 > engine.limits.config_bytes {
            let message = format!(
                "the configuration has {} bytes, the limit is {}",
                json.len(),
                engine.limits.config_bytes
            );
            return Err(Refused::new(Reason::TooLarge, message));
        }
        let time = describe_time(&engine.limits);
        let mut store = store(
            engine,
            (engine.limits.clone(), of_task.inspection.state_bytes),
            Instant::now() + time,
            None,
        );
        let answer = bounded(engine, &mut store, time, async |store| {
            let guest = of_task.pre.instantiate_async(&mut *store).await?;
            guest
                .numo_rule_evaluation()
                .call_validate_config(store, &json)
                .await
        })
        .await?;
        Ok(answer.map_err(|problems| {
            let problems = config_problems(problems);
            tracing::debug!(
                problems = problem_list(&problems),
                "the rule refuses its configuration"
            );
            problems
        }))
    })
    .await
}
