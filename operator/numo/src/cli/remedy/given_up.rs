//! What takes up again an owner that was given up: by an annotation, by a word on one of its NodeChanges, or by a rule that failed.

use super::node::of_held;
use super::wait::Wait;
use numo_api::{Reason, Step, marks};
use numo_core::{
    observed::Key,
    report::{Cause, GivenUp, NodeReport},
    suspended,
};

impl Wait<'_> {
    /// Whether an annotation of the owner gives one of its runs up, be it an earlier one.
    pub(super) fn is_aborted(&self) -> bool {
        let annotations = self.look.annotations(self.owner);
        annotations.is_some_and(|all| all.contains_key(marks::ABORT))
    }

    /// What gave the owner up, as it is decided here.
    fn given_up(&self) -> Option<&GivenUp> {
        match self.report?.hold.as_ref()?.cause.as_deref()? {
            Cause::GivenUp(by) => Some(by),
            _ => None,
        }
    }

    /// Whether the owner is given up, by whatever.
    pub(super) fn is_given_up(&self) -> bool {
        self.reason == Reason::Aborted || self.given_up().is_some() || self.is_aborted()
    }

    /// Commands that take up again what was given up: each way to give up has its own. The sentence, which has the words of people and of
    /// rules in it, steers nothing.
    pub(super) fn undo(&self) -> Vec<String> {
        let Key { namespace, name } = &self.owner.key;
        match self.given_up() {
            Some(GivenUp::Annotation) => vec![suspended::taken_back(self.owner)],
            Some(GivenUp::Directive(change)) => {
                let Key { namespace, name } = change;
                let patch = "--type merge -p '{\"spec\":{\"directive\":null}}'";
                vec![format!("kubectl -n {namespace} patch nodechange {name} {patch}")]
            }
            Some(GivenUp::RuleOfTurn(node)) => self.undo_of_turn(node),
            Some(GivenUp::RuleOfRun) => vec![format!("numo retry -n {namespace} mutexrunconfig/{name}")],
            None => self.undo_of_unknown(),
        }
    }

    /// A rule failed in the turn of this node: it is evaluated again, or the Plan goes on without the node that it holds.
    fn undo_of_turn(&self, name: &str) -> Vec<String> {
        let node = self.report.and_then(|report| report.nodes.get(name));
        match node.filter(|node| node.step == Step::Held) {
            Some(node) => of_held(self.look, name, node),
            None => vec![format!("numo retry {name}")],
        }
    }

    /// Nothing decided here says what gave the owner up: the operator that wrote its status is another numo. Only what is there is undone.
    fn undo_of_unknown(&self) -> Vec<String> {
        let by_rule = |node: &NodeReport| node.step == Step::Held && node.why.reason == Reason::Aborted;
        let mut nodes = self.report.into_iter().flat_map(|report| &report.nodes);
        if let Some((name, node)) = nodes.find(|(_, node)| by_rule(node)) {
            return of_held(self.look, name, node);
        }
        if self.is_aborted() {
            return vec![suspended::taken_back(self.owner)];
        }
        vec![self.owner.kubectl("describe")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{live::Look, sample};
    use jiff::Timestamp;
    use numo_api::MutexRunConfigSpec;
    use numo_core::{
        Owner,
        report::{Report, Why},
    };
    use std::sync::Arc;

    /// Words of a person or of a rule, which may look like any other sentence of numo's.
    const SAID: &str = "ada said: (NodeChange ops/other spec.directive); `numo abort x --undo`, NodeChange a/b gave the run up: it \
                        evaluates the rules of the run again";

    fn undone(owner: &Owner, annotations: &[(&str, &str)], report: &Report) -> Vec<String> {
        let store = sample::store(annotations, MutexRunConfigSpec::default());
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let wait = Wait {
            look: &look,
            owner,
            report: Some(report),
            node: None,
            reason: Reason::Aborted,
            who: Reason::Aborted.who(),
            message: SAID,
        };
        wait.commands()
    }

    /// A report of an owner that this gave up; of nothing, as the numo that wrote the status knew no such field.
    fn given_up(by: Option<GivenUp>) -> Report {
        let mut why = Why::new(Reason::Aborted, SAID);
        why.cause = by.map(Cause::GivenUp).map(Arc::new);
        Report {
            hold: Some(why),
            ..Report::default()
        }
    }

    fn with_held(mut report: Report) -> Report {
        for (name, reason) in [("a", Reason::HeldByPerson), ("b", Reason::Aborted)] {
            let node = NodeReport {
                pool: "".into(),
                step: Step::Held,
                why: Why::new(reason, SAID),
                since: None,
                change: None,
            };
            report.nodes.insert(name.to_owned(), node);
        }
        report
    }

    #[test]
    fn each_way_to_give_up_is_undone_by_its_own_command() {
        let run = Owner::run(Key::new("ops", "upgrade"));
        let directive = GivenUp::Directive(Key::new("ops", "upgrade-a-1"));
        for (by, wanted) in [
            (GivenUp::Annotation, "numo abort upgrade -n ops --undo"),
            (
                directive,
                "kubectl -n ops patch nodechange upgrade-a-1 --type merge -p '{\"spec\":{\"directive\":null}}'",
            ),
            (GivenUp::RuleOfTurn("a".to_owned()), "numo retry a"),
            (GivenUp::RuleOfRun, "numo retry -n ops mutexrunconfig/upgrade"),
        ] {
            let report = given_up(Some(by));
            assert_eq!(undone(&run, &[], &report), [wanted]);
            // An annotation of an earlier run gives this one up no more: what does is undone.
            let stale = [(marks::ABORT, "earlier")];
            assert_eq!(undone(&run, &stale, &report), [wanted]);
        }
        assert_eq!(
            undone(
                &Owner::node_version("nodes"),
                &[],
                &given_up(Some(GivenUp::Annotation))
            ),
            [format!("kubectl annotate nodeversion nodes {}-", marks::ABORT)],
            "numo abort refuses a NodeVersion"
        );
    }

    #[test]
    fn a_plan_that_a_rule_gave_up_goes_on_by_a_word_on_the_node_that_is_held() {
        let plan = Owner::plan(Key::new("ops", "os"));
        let report = with_held(given_up(Some(GivenUp::RuleOfTurn("b".to_owned()))));
        assert_eq!(undone(&plan, &[], &report), ["numo retry b"]);
    }

    #[test]
    fn a_report_that_does_not_say_what_gave_it_up_gets_no_wrong_command() {
        let (run, plan) = (
            Owner::run(Key::new("ops", "upgrade")),
            Owner::plan(Key::new("ops", "os")),
        );
        let unknown = given_up(None);
        assert_eq!(
            undone(&run, &[(marks::ABORT, "run")], &unknown),
            ["numo abort upgrade -n ops --undo"]
        );
        assert_eq!(
            undone(&run, &[], &unknown),
            ["kubectl -n ops describe mutexrunconfig upgrade"]
        );
        assert_eq!(
            undone(&plan, &[], &Report::default()),
            ["kubectl -n ops describe plan os"]
        );
        assert_eq!(
            undone(&plan, &[], &with_held(unknown))
                .first()
                .map(String::as_str),
            Some("numo retry b")
        );
    }
}
