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
/// How long a leader may go without listing anything more of what it has not listed yet, before it is taken for stuck: longer than the
/// longest list takes, and than the ten minutes after which a kubelet has forgotten that it started a container anew. So it does that at
/// once, another replica leads, and the webhook is away for a moment only. An API server that does not answer is no matter of this: who
/// cannot renew its lease ends by itself.
pub const UNLISTED: Duration = Duration::from_mins(15);

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

/// Whether the process goes on: one that leads and whose planner has not come round for [`SILENT`], or that has listed nothing more for
/// [`UNLISTED`], does not, and is to be started anew.
async fn healthz(State(metrics): State<Metrics>) -> impl IntoResponse {
    health(metrics.silent_for(), metrics.unlisted())
}

/// `silent` is for how long the planner of a process that leads was not heard, `unlisted` what it has not listed yet and for how long
/// nothing of that was.
fn health(silent: Option<Duration>, unlisted: Option<(Vec<&str>, Duration)>) -> (StatusCode, String) {
    if let Some(silent) = silent.filter(|silent| *silent > SILENT) {
        let words = format!("the planner was last heard {} s ago\n", silent.as_secs());
        return (StatusCode::SERVICE_UNAVAILABLE, words);
    }
    match unlisted {
        Some((resources, since)) if since > UNLISTED => {
            let words = format!("not listed for {} s: {}\n", since.as_secs(), resources.join(", "));
            (StatusCode::SERVICE_UNAVAILABLE, words)
        }
        unlisted => (StatusCode::OK, ok(unlisted)),
    }
}

/// That all is well, and what is not listed yet.
fn ok(unlisted: Option<(Vec<&str>, Duration)>) -> String {
    let unlisted = unlisted.map(|(resources, _)| format!("not listed yet: {}\n", resources.join(", ")));
    format!("ok\n{}", unlisted.unwrap_or_default())
}

/// Whether the process can be asked something. A leader that has not listed all yet can: it serves reviews of the webhook from what it reads,
/// and without it there may be nobody who does.
async fn readyz(State(metrics): State<Metrics>) -> impl IntoResponse {
    if metrics.ready.load(Ordering::Acquire) {
        (StatusCode::OK, ok(metrics.unlisted()))
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the API server has not answered yet, or does not trust the webhook yet\n".to_owned(),
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
            assert_eq!(
                health(alive, None),
                (StatusCode::OK, "ok\n".to_owned()),
                "{alive:?}"
            );
        }
        let (code, words) = health(Some(SILENT + second), None);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(words, "the planner was last heard 301 s ago\n");
    }

    #[test]
    fn lists_that_do_not_end_are_told_at_once_and_end_the_process_late() {
        let second = Duration::from_secs(1);
        let unlisted = |since| Some((vec!["mutexrules", "nodes"], since));
        let (code, words) = health(Some(second), unlisted(UNLISTED));
        assert_eq!(code, StatusCode::OK, "a long list is no fault");
        assert_eq!(words, "ok\nnot listed yet: mutexrules, nodes\n");
        let (code, words) = health(Some(second), unlisted(UNLISTED + second));
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(words, "not listed for 901 s: mutexrules, nodes\n");
    }
}
