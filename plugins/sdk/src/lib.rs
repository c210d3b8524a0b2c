//! What numo's own rules share. It decides nothing, and may neither read nor write anything by itself:
//! whatever a rule learns comes through the traits in [`host`].
//!
//! A rule is three functions: `describe`, `parse` (its configuration) and `evaluate`, generic over the
//! host traits it needs. [`component!`] makes a component of them; natively they are plain functions,
//! tested against [`fake::World`]. A component imports only the interfaces whose trait its `evaluate`
//! calls, because the linker drops the rest: never hold a host as `dyn`.

pub mod bindings;
pub mod config;
#[cfg(feature = "fake")]
pub mod fake;
pub mod host;
pub mod object;
pub mod placeholder;
pub mod selector;
pub mod verdict;

pub use bindings::exports::numo::rule::evaluation::{
    ConfigProblem, Description, Finding, Input, Node, Report, RuleError, Severity, Verdict, Wait, Want,
};
pub use bindings::numo::host::types::{Error, ErrorCode, ObjectRef};
pub use serde_json;

/// Makes the component of a rule: `component!(describe, parse, evaluate)`.
///
/// `describe() -> Description`, `parse(&str) -> Result<_, Vec<ConfigProblem>>` and
/// `evaluate(&Input, &impl …) -> Result<Verdict, RuleError>`. On other targets than wasm it is nothing.
#[macro_export]
macro_rules! component {
    ($describe:path, $parse:path, $evaluate:path) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, reason = "the exported functions are generated")]
        mod component {
            use super::*;
            use $crate::bindings::exports::numo::rule::evaluation as contract;

            struct Component;

            impl contract::Guest for Component {
                fn describe() -> contract::Description {
                    $describe()
                }

                fn validate_config(config: String) -> Result<(), Vec<contract::ConfigProblem>> {
                    $parse(&config).map(|_| ())
                }

                fn evaluate(input: contract::Input) -> Result<contract::Verdict, contract::RuleError> {
                    $evaluate(&input, &$crate::host::Host)
                }
            }

            $crate::bindings::export!(Component with_types_in $crate::bindings);
        }
    };
}
