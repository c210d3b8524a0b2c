//! What a verb that asks a cluster makes of its refusals.

use crate::shell::client::ConnectError;
#[cfg(feature = "operator")]
use crate::shell::operator::OperatorError;

pub use numo_cli::CliError;

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        Self::Cause(Box::new(error))
    }
}

#[cfg(feature = "operator")]
impl From<OperatorError> for CliError {
    fn from(error: OperatorError) -> Self {
        Self::Cause(Box::new(error))
    }
}

/// What the API server, or the way to it, said while something was done.
pub(super) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> CliError {
    let doing = doing.into();
    move |source| match source {
        kube::Error::Api(status) if status.code == 404 => {
            // Of an object that is missing it says which; of a kind it does not know.
            if status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty())
            {
                CliError::Usage(format!(
                    "{doing}: {}; `numo status -A` lists what there is",
                    status.message
                ))
            } else {
                CliError::NotServed { doing }
            }
        }
        kube::Error::Api(status) if status.code == 403 => CliError::Refused {
            message: match role(&status.message) {
                None => status.message,
                Some(role) => format!(
                    "{}; a cluster administrator can grant the right ({role})",
                    status.message
                ),
            },
            doing,
        },
        kube::Error::Api(status) if status.message.contains("failed calling webhook") => CliError::Refused {
            message: format!(
                "{}; an admission webhook has nobody behind it: `numo doctor` says whose it is and what lets objects in",
                status.message
            ),
            doing,
        },
        kube::Error::Api(status) => CliError::Refused {
            doing,
            message: status.message,
        },
        source => CliError::Api {
            doing,
            source: Box::new(source),
        },
    }
}

/// The ClusterRole that has the right which the API server says is missing: `cannot patch resource "plans" in …`. None where something
/// else than a right is missing: a policy says by itself what it wants.
fn role(message: &str) -> Option<&'static str> {
    let (_, rest) = message.split_once(" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let resource = rest.split(['"', '/']).next().unwrap_or_default();
    Some(match (verb, resource) {
        ("get" | "list" | "watch", _) => "the ClusterRole numo-viewer is enough to look",
        (_, "mutexapprovals") => "the ClusterRole numo-approver has it",
        ("create", "nodemaintenances")
        | ("delete", _)
        | (_, "mutexwindows" | "mutexbindings" | "mutexnotifiers") => {
            "the ClusterRole numo-admin has it, and is part of admin"
        }
        (_, "nodechanges") => {
            "the ClusterRole numo-oncall has it for retry and skip; hold needs the right to update NodeChanges, too"
        }
        (_, "mutexrunconfigs") => {
            "the ClusterRole numo-oncall has it for pause, resume, retry and abort; numo-edit, part of edit, has it for all"
        }
        (_, "mutexrules" | "mutextargets") => "the ClusterRole numo-edit has it, and is part of edit",
        (_, "plans" | "nodemaintenances" | "nodeversions" | "mutexbudgets") => {
            "the ClusterRole numo-oncall has it for stop, start, pause, resume and abort; numo-admin, part of admin, has it for all"
        }
        _ => "no ClusterRole for people has it",
    })
}

/// The error and its causes, each once.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

/// There is no such Node. `known` are the names that there are.
pub(super) fn no_node<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> CliError {
    CliError::Usage(format!(
        "found no node {name}{}; `kubectl get nodes` lists them, `numo status -A` those that wait",
        did_you_mean(name, known)
    ))
}

/// `, did you mean worker-3?` where one of the known names is nearly the one that was given; else nothing.
pub(super) fn did_you_mean<'n>(given: &str, known: impl Iterator<Item = &'n str>) -> String {
    let near = known
        .map(|name| (strsim::normalized_damerau_levenshtein(name, given), name))
        .filter(|(likeness, _)| *likeness > LIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    near.map_or_else(String::new, |(_, name)| format!(", did you mean {name}?"))
}

/// How like a name must be to be meant, from 0 to 1: one letter of five may be wrong.
const LIKE: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::{did_you_mean, role};

    #[test]
    fn a_right_that_is_missing_is_named_with_the_role_that_has_it() {
        let cannot = |verb: &str, resource: &str| {
            let message = format!(
                "{resource}.x.io \"a\" is forbidden: User \"ada\" cannot {verb} resource \"{resource}\" in API group \"x.io\""
            );
            role(&message).unwrap_or_default()
        };
        for (verb, resource, wanted) in [
            ("list", "plans", "numo-viewer"),
            ("get", "nodechanges", "numo-viewer"),
            ("create", "mutexapprovals", "numo-approver"),
            ("patch", "nodechanges", "numo-oncall"),
            (
                "patch",
                "nodechanges",
                "hold needs the right to update NodeChanges",
            ),
            ("create", "nodechanges", "numo-oncall"),
            ("patch", "mutexbudgets", "numo-oncall"),
            ("patch", "plans", "numo-admin"),
            ("patch", "mutexrunconfigs", "numo-edit"),
            // What `numo preview -f` tries by dry run.
            ("patch", "mutexrules", "numo-edit"),
            ("patch", "mutextargets", "numo-edit"),
            ("patch", "mutexbindings", "numo-admin"),
            ("patch", "mutexwindows", "numo-admin"),
            ("patch", "mutexnotifiers", "numo-admin"),
            ("create", "nodemaintenances", "numo-admin"),
            ("delete", "nodemaintenances", "numo-admin"),
            ("patch", "nodes", "no ClusterRole"),
        ] {
            let found = cannot(verb, resource);
            assert!(found.contains(wanted), "{verb} {resource}: {found}");
        }
        // What a policy says is not for want of a role.
        assert_eq!(
            role("ValidatingAdmissionPolicy 'numo-oncall' denied request: no"),
            None
        );
    }

    #[test]
    fn a_slip_of_the_pen_is_told_from_another_name() {
        let nodes = || ["worker-3", "worker-12", "infra-0"].into_iter();
        assert_eq!(did_you_mean("worker3", nodes()), ", did you mean worker-3?");
        assert_eq!(did_you_mean("infra-O", nodes()), ", did you mean infra-0?");
        assert_eq!(did_you_mean("storage", nodes()), "");
        assert_eq!(did_you_mean("x", std::iter::empty()), "");
    }
}
