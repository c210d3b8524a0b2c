//! Rules of type prometheus: their query is sent to numo's Prometheus. It chooses neither the server nor the time.

use super::{
    expressions::refused,
    state::{Inner, unavailable},
};
use crate::runners::{prometheus, wasm::Fault};
use numo_api::{PrometheusRule, Reason, marks};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use numo_plugin::prometheus::{self as server, Bounds};
use std::time::Duration;

/// How far one query may go.
const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(10),
    bytes: 1 << 20,
    samples: 1000,
};

impl Inner {
    /// Whether rules of a namespace may ask Prometheus. None if the API server gave no answer.
    pub(super) async fn check_query(&self, namespace: &str) -> Option<Result<(), Fault>> {
        if !self.knows_prometheus() {
            let message =
                "spec.prometheus: numo has no address of a Prometheus (--prometheus-url)".to_owned();
            return Some(Err((Reason::PrometheusNotConfigured, message)));
        }
        Some(if self.is_inside(namespace).await? {
            Ok(())
        } else {
            let message = format!(
                "spec.prometheus needs label {}: {} on namespace {namespace}, which a cluster administrator sets",
                marks::RULE_NETWORK,
                marks::RULE_NETWORK_CLUSTER
            );
            Err((Reason::NamespaceNotAllowed, message))
        })
    }

    /// Asks the query of a rule.
    pub(super) async fn ask_query(
        &self,
        rule: &PrometheusRule,
        request: &EvaluationRequest,
    ) -> Result<RuleAnswer, Fault> {
        let namespace = &request.rule.namespace;
        // A label that is taken away holds from the next question on.
        let may = self.check_query(namespace).await;
        may.unwrap_or_else(|| Err(unavailable(format!("Namespace {namespace} cannot be read"))))?;
        let Some(prometheus) = self.prometheus(&self.engine()?)? else {
            return Err(unavailable("numo has no address of a Prometheus".to_owned()));
        };
        let promql = prometheus::promql(rule, request)?;
        let now = self.connection.clock.now();
        let answer = server::query(&prometheus, &promql, now, BOUNDS)
            .await
            .map_err(|error| refused("spec.prometheus", &error))?;
        let answer = prometheus::judge(rule, request, &answer, now);
        tracing::info!(rule = %request.rule, node = request.node, verdict = answer.word(), "a rule was evaluated");
        Ok(answer)
    }
}
