//! `/healthz`, `/readyz`, `/metrics`. Read only; nothing of the cluster is served.

use super::{
    metrics::Metrics,
    serve::{self, Bounds},
};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

/// What those get who connect: no request has a body, and each answer is ready.
const BOUNDS: Bounds = Bounds {
    places: 64,
    of_address: 16,
    head: Duration::from_secs(5),
    request: Duration::from_secs(5),
    connection: Duration::from_mins(2),
    body_bytes: 1024,
};
/// How long the planner may be silent before the process is taken for stuck: longer than any single wait of its own.
pub const SILENT: Duration = Duration::from_mins(5);

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Metrics and probes.
    Metrics,
    /// Probes alone, so that whoever reads metrics cannot keep the kubelet out.
    Probes,
}

/// Serves until the process ends. The address is given back, for port 0.
pub async fn serve(address: SocketAddr, what: What, metrics: Metrics) -> Result<SocketAddr, std::io::Error> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz));
    if what == What::Metrics {
        router = router.route("/metrics", get(text));
    }
    tokio::spawn(serve::accept(listener, None, router.with_state(metrics), BOUNDS));
    Ok(bound)
}

/// Whether the process goes on: one that leads and whose planner has not come round for [`SILENT`] does not, and is to be started anew.
async fn healthz(State(metrics): State<Metrics>) -> impl IntoResponse {
    health(metrics.silent_for())
}

/// `silent` is for how long the planner of a process that leads was not heard.
fn health(silent: Option<Duration>) -> (StatusCode, String) {
    match silent.filter(|silent| *silent > SILENT) {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(silent) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the planner was last heard {} s ago\n", silent.as_secs()),
        ),
    }
}

async fn readyz(State(metrics): State<Metrics>) -> impl IntoResponse {
    if metrics.ready.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the API server has not answered yet\n",
        )
    }
}

async fn text(State(metrics): State<Metrics>) -> impl IntoResponse {
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        metrics.text(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planner_that_is_stuck_is_told_from_one_that_works_and_from_a_standby() {
        let second = Duration::from_secs(1);
        for alive in [None, Some(second), Some(SILENT)] {
            assert_eq!(health(alive).0, StatusCode::OK, "{alive:?}");
        }
        let (code, words) = health(Some(SILENT + second));
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(words, "the planner was last heard 301 s ago\n");
    }
}
