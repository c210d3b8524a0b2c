//! `numo:host/prometheus`: instant queries to the one server of the operator's configuration. The component chooses
//! the query and nothing else: not the server, not the time, not the path.

use super::sandbox::{Sandbox, types};
use crate::{
    bindings::numo::host::prometheus as wit,
    prometheus::{self, Answer, Bounds},
    services::{ErrorCode, HostError},
};

impl wit::Host for Sandbox {
    async fn query(&mut self, promql: String) -> wasmtime::Result<Result<wit::Answer, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.ask(&promql).await.map(Into::into).map_err(Into::into))
    }
}

impl Sandbox {
    async fn ask(&mut self, promql: &str) -> Result<Answer, HostError> {
        let (grants, services) = self.granted("prometheus")?;
        if grants.prometheus.is_none() {
            let message = "the rule has no grant for prometheus";
            return Err(HostError::new(ErrorCode::Denied, message).detail("grant", "prometheus"));
        }
        prometheus::check(promql)?;
        let server = services
            .prometheus
            .ok_or_else(|| HostError::new(ErrorCode::Unsupported, "no Prometheus is configured"))?;
        let bounds = Bounds {
            timeout: self.timeout(None)?,
            bytes: self.limits.answer_bytes,
            samples: self.limits.prometheus_samples,
        };
        let answer = prometheus::query(&server, promql, services.now, bounds).await?;
        self.budget.spend_bytes(answer.bytes, &self.limits)?;
        Ok(answer)
    }
}

impl From<Answer> for wit::Answer {
    fn from(answer: Answer) -> Self {
        let samples = answer.samples.into_iter().map(|sample| wit::Sample {
            labels: sample.labels,
            value: sample.value,
        });
        Self {
            samples: samples.collect(),
            warnings: answer.warnings,
        }
    }
}
