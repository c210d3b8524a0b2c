//! Instant queries to the one Prometheus of the operator's configuration, for components and for rules without one.
//! It may not choose the server, the path or the time, and counts nothing: who asks has limits of its own.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    request::header_of,
    services::{Addresses, ErrorCode, FetchRequest, HostError, Prometheus},
    text::clean,
};

/// Bytes of a query.
const QUERY_BYTES: usize = 8 * 1024;
/// Labels kept of one series.
const LABELS: usize = 64;

/// What an instant query is answered with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One for each series; one without labels for a scalar.
    pub samples: Vec<Sample>,
    /// Of the server, for example that the answer is partial.
    pub warnings: Vec<String>,
    /// Bytes of the answer as it came.
    pub bytes: usize,
}

/// One series at the moment that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Sorted by name; 64 at most.
    pub labels: Vec<(String, String)>,
    /// Any, NaN and infinities included.
    pub value: f64,
}

/// How far a query may go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For everything.
    pub timeout: Duration,
    /// Of the answer.
    pub bytes: u64,
    /// Of the answer.
    pub samples: u64,
}

/// Whether a text may be asked at all.
///
/// Errors: `invalid`.
pub fn check(promql: &str) -> Result<(), HostError> {
    if promql.trim().is_empty() || promql.len() > QUERY_BYTES {
        let message = format!("a query has 1 to {QUERY_BYTES} bytes");
        return Err(HostError::new(ErrorCode::Invalid, message));
    }
    Ok(())
}

/// Asks.
///
/// Errors: `invalid` for what is no query of an instant vector or scalar, `too-large`, `unavailable`.
pub async fn query(
    server: &Prometheus,
    promql: &str,
    now: Timestamp,
    bounds: Bounds,
) -> Result<Answer, HostError> {
    check(promql)?;
    let mut url = server.url.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "v1", "query"]);
    } else {
        let message = "the configured Prometheus is no URL with a path";
        return Err(HostError::new(ErrorCode::Other, message));
    }
    let time = now.as_millisecond();
    let time = format!("{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
    url.query_pairs_mut()
        .append_pair("query", promql)
        .append_pair("time", &time);
    let credential = server.credential.as_ref().map(header_of).transpose()?;
    let request = FetchRequest {
        head: false,
        url,
        headers: credential.into_iter().collect(),
        addresses: Addresses::Anywhere,
        timeout: bounds.timeout,
        body_bytes: bounds.bytes,
    };
    let response = server.fetch.fetch(request).await?;
    parse(response.status, &response.body, bounds.samples)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    status: String,
    data: Option<Data>,
    error: Option<String>,
    error_type: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Scalar((f64, String)),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Series {
    metric: std::collections::BTreeMap<String, String>,
    /// None: a native histogram, which an instant query answers as `histogram`.
    value: Option<(f64, String)>,
}

fn parse(status: u16, body: &[u8], most: u64) -> Result<Answer, HostError> {
    let unavailable = |message: String| unavailable(status, message);
    let response: Response = serde_json::from_slice(body).map_err(|error| {
        unavailable(format!(
            "Prometheus answered {status}, and not as its API does: {error}"
        ))
    })?;
    if response.status != "success" {
        return Err(failed(status, &response));
    }
    let samples = match response.data {
        Some(Data::Vector(series)) => series,
        Some(Data::Scalar(value)) => vec![Series {
            metric: std::collections::BTreeMap::new(),
            value: Some(value),
        }],
        Some(Data::Matrix(_) | Data::String(_)) => {
            let message = "the query is a range vector or a string; an instant vector or a scalar is wanted";
            return Err(HostError::new(ErrorCode::Invalid, message));
        }
        None => return Err(unavailable("Prometheus answered without data".to_owned())),
    };
    if samples.len() as u64 > most {
        let message = format!(
            "{} series, one answer has at most {most}; aggregate in the query",
            samples.len()
        );
        return Err(HostError::new(ErrorCode::TooLarge, message).detail("limit", "prometheusSamples"));
    }
    let sample = |series: Series| {
        let Some((_, text)) = series.value else {
            let message = "the query answers native histograms; use histogram_quantile or the like";
            return Err(HostError::new(ErrorCode::Invalid, message));
        };
        let value =
            number(&text).ok_or_else(|| unavailable(format!("{:?} is no number", clean(&text, 64))))?;
        Ok(Sample {
            labels: series.metric.into_iter().take(LABELS).collect(),
            value,
        })
    };
    Ok(Answer {
        samples: samples.into_iter().map(sample).collect::<Result<_, _>>()?,
        warnings: response
            .warnings
            .iter()
            .take(16)
            .map(|warning| clean(warning, 1024))
            .collect(),
        bytes: body.len(),
    })
}

fn unavailable(status: u16, message: String) -> HostError {
    HostError::new(ErrorCode::Unavailable, message).detail("http-status", status.to_string())
}

/// What Prometheus says itself of a query that it did not answer.
fn failed(status: u16, response: &Response) -> HostError {
    let message = format!(
        "Prometheus: {}: {}",
        clean(response.error_type.as_deref().unwrap_or("error"), 64),
        clean(response.error.as_deref().unwrap_or_default(), 800)
    );
    match response.error_type.as_deref() {
        Some("bad_data") => HostError::new(ErrorCode::Invalid, message),
        _ => unavailable(status, message),
    }
}

/// As Prometheus writes it.
fn number(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: &serde_json::Value) -> Result<Answer, ErrorCode> {
        parse(200, body.to_string().as_bytes(), 2).map_err(|error| error.code)
    }

    fn vector(series: &serde_json::Value) -> serde_json::Value {
        json!({"status": "success", "data": {"resultType": "vector", "result": series}})
    }

    #[test]
    fn vectors_and_scalars_are_read() {
        let answer = check(&vector(
            &json!([{"metric": {"b": "2", "a": "1"}, "value": [1.5, "+Inf"]}]),
        ))
        .unwrap();
        assert_eq!(
            answer.samples[0].labels,
            [("a".into(), "1".into()), ("b".into(), "2".into())]
        );
        assert!(answer.samples[0].value.is_infinite());
        let scalar = json!({"status": "success", "data": {"resultType": "scalar", "result": [1, "NaN"]}, "warnings": ["x"]});
        let answer = check(&scalar).unwrap();
        assert!(answer.samples[0].value.is_nan() && answer.warnings == ["x"]);
        assert!(check(&vector(&json!([]))).unwrap().samples.is_empty());
    }

    #[test]
    fn everything_else_is_an_error_and_never_an_empty_answer() {
        let one = json!({"metric": {}, "value": [1, "1"]});
        let matrix = json!({"status": "success", "data": {"resultType": "matrix", "result": []}});
        let bad = json!({"status": "error", "errorType": "bad_data", "error": "parse error"});
        let timeout = json!({"status": "error", "errorType": "timeout", "error": "query timed out"});
        assert_eq!(
            check(&vector(&json!([one, one, one]))).unwrap_err(),
            ErrorCode::TooLarge
        );
        assert_eq!(check(&matrix).unwrap_err(), ErrorCode::Invalid);
        assert_eq!(check(&bad).unwrap_err(), ErrorCode::Invalid);
        assert_eq!(check(&timeout).unwrap_err(), ErrorCode::Unavailable);
        assert_eq!(
            check(&json!({"status": "success"})).unwrap_err(),
            ErrorCode::Unavailable
        );
        assert_eq!(
            check(&vector(&json!([{"metric": {}, "histogram": [1, {}]}]))).unwrap_err(),
            ErrorCode::Invalid
        );
        assert_eq!(parse(502, b"<html>", 2).unwrap_err().code, ErrorCode::Unavailable);
    }
}
