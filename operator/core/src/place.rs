//! Where, and as whom, a rule's Job may run: one rule for gate, lint and dry run. A rule decides about nodes; it must not be a
//! way to run as somebody else. Nothing here knows whether numo has the right to create Jobs there: the API server says that.

use crate::observed::{Observed, RuleView, Validity};
use numo_api::{Reason, marks};

/// Name of the ServiceAccount that a pod runs as which names none.
const DEFAULT_ACCOUNT: &str = "default";

/// Why the Jobs of a rule may not run where, or as whom, its spec says, whatever RBAC allows; none if they may, and for rules
/// that run no Jobs. In the order of harm:
///
/// 1. never in a namespace with Plans, whose ServiceAccount is root on nodes. The operator's own namespace is no such one to its
///    own rules, and to those of others while no Plan stands in it;
/// 2. in the operator's own namespace never as numo itself;
/// 3. in the rule's own namespace; anywhere else if the rule stands in the operator's own namespace, or if the other namespace
///    names the rule's in its annotation [`marks::RULE_JOBS_FROM`].
///
/// The command line knows no settings of the operator and leaves the question to the status that the operator wrote.
pub fn refusal(rule: &RuleView, observed: &Observed) -> Option<(Reason, String)> {
    let settings = &observed.settings;
    if rule.is_evaluated || settings.only_looks {
        return None;
    }
    let (from, to) = (&rule.key.namespace, &rule.job_namespace);
    let own = &settings.namespace;
    if has_plans(observed, from, to) {
        let instead = if to == own { from } else { own };
        let message = format!(
            "spec.jobNamespace: found {to}, which has Plans: what runs there may be root on nodes; wanted a namespace without \
             Plans, for example {instead}"
        );
        return Some((Reason::JobsForbidden, message));
    }
    let account = |name: &String| {
        let name = if name.is_empty() { DEFAULT_ACCOUNT } else { name };
        name == settings.service_account
    };
    if to == own && rule.job_accounts.iter().any(account) {
        let message = format!(
            "spec.jobSpec.template.spec.serviceAccountName: found {}, numo's own in namespace {to}; wanted an account with only \
             the rights that this rule needs",
            settings.service_account
        );
        return Some((Reason::JobsForbidden, message));
    }
    if takes_jobs(observed, from, to) {
        return None;
    }
    let message = format!(
        "spec.jobNamespace: found {to}, which does not take Jobs of rules of namespace {from}; wanted {from}, or an administrator \
         of {to} lists {from} in its annotation: kubectl annotate namespace {to} {}={from} (names separated by commas)",
        marks::RULE_JOBS_FROM
    );
    Some((Reason::JobsForbidden, message))
}

/// Whether Plans keep Jobs of rules of a namespace out of another one.
fn has_plans(observed: &Observed, from: &str, to: &str) -> bool {
    let own = &observed.settings.namespace;
    if to == own {
        from != own && observed.has_plans_at_home()
    } else {
        observed.watches_plans(to)
    }
}

/// Whether a namespace takes Jobs of the rules of another one, or of its own.
pub(crate) fn takes_jobs(observed: &Observed, from: &str, to: &str) -> bool {
    let invited = observed.rule_jobs_from.get(to);
    let is_invited = || invited.is_some_and(|names| names.contains(from));
    let is_taken = to == from || from == observed.settings.namespace || is_invited();
    is_taken && (observed.settings.only_looks || !has_plans(observed, from, to))
}

/// Whether numo runs Jobs of rules in a namespace now: it is its own, or a rule may run there, and the API server has not said that numo
/// has no right to create its Jobs.
pub(crate) fn runs_jobs(observed: &Observed, namespace: &str) -> bool {
    let may_run = |rule: &RuleView| {
        let is_forbidden = matches!(rule.validity, Validity::Invalid(Reason::JobsForbidden, _));
        !rule.is_evaluated && !is_forbidden && refusal(rule, observed).is_none()
    };
    let mut rules = observed.rules.values();
    namespace == observed.settings.namespace
        || rules.any(|rule| rule.job_namespace == namespace && may_run(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        observed::{Key, PlanView},
        ready,
    };

    /// A rule of `from` that runs in `to` as `account`.
    fn rule(from: &str, to: &str, account: &str) -> RuleView {
        RuleView {
            key: Key::new(from, "one"),
            job_namespace: to.to_owned(),
            job_accounts: vec![account.to_owned()],
            has_job: true,
            is_evaluated: false,
            validity: Validity::Valid,
            ..ready::rule(None)
        }
    }

    fn observed() -> Observed {
        let mut observed = Observed::default();
        observed.settings.namespace = "numo-system".to_owned();
        observed.settings.service_account = "numo".to_owned();
        observed.settings.plan_namespaces = vec!["system-upgrade".to_owned()];
        observed.plan_namespaces.insert("labelled".to_owned());
        observed
            .rule_jobs_from
            .insert("shared".to_owned(), ["team".to_owned()].into());
        for (plans, from) in [("system-upgrade", "team"), ("numo-system", "team")] {
            let mut known = observed.rule_jobs_from.remove(plans).unwrap_or_default();
            known.insert(from.to_owned());
            observed.rule_jobs_from.insert(plans.to_owned(), known);
        }
        observed
    }

    /// A Plan that asks for nothing.
    fn plan(namespace: &str) -> (Key, PlanView) {
        let key = Key::new(namespace, "k3s");
        let view = PlanView {
            key: key.clone(),
            ..PlanView::default()
        };
        (key, view)
    }

    #[track_caller]
    fn check(from: &str, to: &str, account: &str, wanted: Option<&str>) {
        let found = refusal(&rule(from, to, account), &observed());
        match (&found, wanted) {
            (None, None) => {}
            (Some((Reason::JobsForbidden, message)), Some(words)) => {
                assert!(
                    message.contains(words),
                    "{from} in {to} as {account:?}: {message}"
                );
            }
            _ => panic!("{from} in {to} as {account:?}: {found:?}, wanted {wanted:?}"),
        }
    }

    #[test]
    fn a_rule_runs_at_home_and_where_it_is_invited() {
        check("team", "team", "", None);
        check("team", "team", "numo", None);
        check("team", "shared", "", None);
        check(
            "other",
            "shared",
            "",
            Some("does not take Jobs of rules of namespace other"),
        );
        check("team", "other", "", Some("rule-jobs-from=team"));
        check("numo-system", "other", "", None);
        check("numo-system", "numo-system", "rules", None);
    }

    #[test]
    fn nobody_runs_where_plans_are_nor_as_numo() {
        for from in ["team", "system-upgrade", "numo-system"] {
            check(from, "system-upgrade", "", Some("which has Plans"));
        }
        check("labelled", "labelled", "", Some("which has Plans"));
        for from in ["team", "numo-system"] {
            check(from, "numo-system", "numo", Some("numo's own"));
        }
        check("team", "numo-system", "rules", None);
    }

    #[test]
    fn at_home_strangers_do_not_run_beside_plans() {
        let mut observed = observed();
        let beside = |observed: &Observed, from: &str| {
            let found = refusal(&rule(from, "numo-system", "rules"), observed);
            found.map(|(_, message)| message)
        };
        observed.plans.extend([plan("system-upgrade"), plan("team")]);
        assert_eq!(beside(&observed, "team"), None, "no Plan is at home");
        observed.plans.extend([plan("numo-system")]);
        assert!(
            beside(&observed, "team").is_some_and(|message| {
                message.contains("found numo-system, which has Plans") && message.contains("for example team")
            }),
            "one is"
        );
        assert_eq!(beside(&observed, "numo-system"), None, "its own rules");
    }

    #[test]
    fn numo_as_the_default_account_is_no_way_round() {
        let mut observed = observed();
        observed.settings.service_account = "default".to_owned();
        let found = refusal(&rule("numo-system", "numo-system", ""), &observed);
        assert!(found.is_some_and(|(_, message)| message.contains("found default, numo's own")));
    }
}
