//! The flag `--selector`, as `kubectl -l` takes it.

use crate::runners::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Reads a selector: `a=b`, `a==b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a`, `!a`, separated by commas.
pub fn parse(given: &str) -> Result<LabelSelector, String> {
    selector::parse(given).map_err(|problem| format!("--selector: {problem}"))
}
