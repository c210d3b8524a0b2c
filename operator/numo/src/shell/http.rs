//! `/healthz`, `/readyz`, `/metrics`. Read only; nothing of the cluster is served.

use super::metrics::Metrics;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{net::SocketAddr, sync::atomic::Ordering};

/// Serves until the process ends. The address is given back, for port 0.
pub async fn serve(address: SocketAddr, metrics: Metrics) -> Result<SocketAddr, std::io::Error> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(text))
        .with_state(metrics);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the metrics server ended");
        }
    });
    Ok(bound)
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
