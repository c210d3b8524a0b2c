//! What takes up again an owner that was given up: by an annotation, by a word on one of its NodeChanges, or by a rule that failed.

use super::name::of_kubectl;
use super::wait::Wait;
use numo_api::{Reason, Step, marks};
use numo_core::{OwnerKind, observed::Key, report::NodeReport};

impl Wait<'_> {
    /// Whether an annotation of the owner gives its run up.
    pub(super) fn is_aborted(&self) -> bool {
        let annotations = self.look.annotations(self.owner);
        annotations.is_some_and(|all| all.contains_key(marks::ABORT))
    }

    /// The sentence that says by what the owner is given up, if it is.
    fn given_up(&self) -> Option<&str> {
        if self.reason == Reason::Aborted {
            return Some(self.message);
        }
        let hold = self.report?.hold.as_ref();
        let hold = hold.filter(|hold| hold.reason == Reason::Aborted)?;
        Some(&hold.message)
    }

    /// Whether the owner is given up, by whatever.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up().is_some() || self.is_aborted()
    }

    /// Commands that take up again what was given up: each way to give up has its own.
    pub(super) fn undo(&self) -> Vec<String> {
        let said = self.given_up().unwrap_or_default();
        if let Some(by_change) = self.undo_of_change(said) {
            return vec![by_change];
        }
        // The sentence has the words of rules in it: nothing of them is a command.
        if said.ends_with(" evaluates the rules of the run again") {
            let Key { namespace, name } = &self.owner.key;
            return vec![format!("numo retry -n {namespace} mutexrunconfig/{name}")];
        }
        if self.is_aborted() || said.contains("`numo abort ") {
            return vec![self.undo_of_annotation()];
        }
        // A rule has ended the owner with the node that is held.
        let by_rule = |node: &NodeReport| node.step == Step::Held && node.why.reason == Reason::Aborted;
        self.of_first(by_rule)
    }

    fn undo_of_annotation(&self) -> String {
        let Key { namespace, name } = &self.owner.key;
        match self.owner.kind {
            OwnerKind::Plan => format!("numo abort plan/{name} -n {namespace} --undo"),
            OwnerKind::MutexRunConfig => format!("numo abort {name} -n {namespace} --undo"),
            // The verb does not take them.
            OwnerKind::NodeVersion | OwnerKind::NodeMaintenance(_) => {
                format!("{} {}-", of_kubectl("annotate", self.owner), marks::ABORT)
            }
        }
    }

    /// A NodeChange gives the owner up: by its directive, which is removed, or as a rule of it failed, which is evaluated again.
    fn undo_of_change(&self, said: &str) -> Option<String> {
        let of_person = said.strip_suffix(" spec.directive)");
        if let Some((_, change)) = of_person.and_then(|before| before.rsplit_once("(NodeChange ")) {
            let (namespace, name) = self.placed_name(change);
            let patch = "--type merge -p '{\"spec\":{\"directive\":null}}'";
            return Some(format!("kubectl -n {namespace} patch nodechange {name} {patch}"));
        }
        let (before, _) = said.split_once(" gave the run up: ")?;
        let (namespace, name) = self.placed_name(before.strip_prefix("NodeChange ")?);
        let changes = &self.look.store.observed.changes;
        let change = changes.get(&Key::new(namespace, name))?;
        Some(format!("numo retry {}", change.spec.node_name))
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
        observed::ChangeView,
        report::{Report, Why},
    };
    use serde_json::json;
    use std::collections::BTreeMap;

    /// A NodeChange of node `a`.
    fn change() -> ChangeView {
        let spec = json!({
            "ownerRef": {"apiVersion": "v", "kind": "MutexRunConfig", "namespace": "ops", "name": "upgrade", "uid": "uid"},
            "nodeName": "a", "nodeUID": "a-uid", "target": {"runID": "r", "version": "2", "pool": ""},
        });
        ChangeView {
            key: Key::new("ops", "upgrade-a-1"),
            uid: "c".to_owned(),
            resource_version: "1".to_owned(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            annotations: BTreeMap::new(),
            spec: serde_json::from_value(spec).unwrap(),
            status: numo_api::NodeChangeStatus::default(),
        }
    }

    fn undone(owner: &Owner, annotations: &[(&str, &str)], report: &Report, message: &str) -> Vec<String> {
        let mut store = sample::store(annotations, MutexRunConfigSpec::default());
        let change = change();
        store.observed.changes.insert(change.key.clone(), change);
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let wait = Wait {
            look: &look,
            owner,
            report: Some(report),
            node: None,
            reason: Reason::Aborted,
            who: Reason::Aborted.who(),
            message,
        };
        wait.commands()
    }

    #[test]
    fn each_way_to_give_up_is_undone_by_its_own_command() {
        let run = Owner::run(Key::new("ops", "upgrade"));
        let report = Report::default();
        let by_hand = "MutexRunConfig ops/upgrade was given up by ada; to go on, `numo abort upgrade -n ops --undo` or remove annotation x";
        let by_directive =
            "given up by ada: NodeChange of a bad disk (NodeChange ops/upgrade-a-1 spec.directive)";
        let by_rule = "NodeChange ops/upgrade-a-1 gave the run up: rule ops/x failed";
        let by_run_rule = "rule ops/x failed; `numo retry -n ops mutexrunconfig/upgrade` evaluates the rules of the run again";
        for (message, wanted) in [
            (by_hand, "numo abort upgrade -n ops --undo"),
            (
                by_directive,
                "kubectl -n ops patch nodechange upgrade-a-1 --type merge -p '{\"spec\":{\"directive\":null}}'",
            ),
            (by_rule, "numo retry a"),
            (by_run_rule, "numo retry -n ops mutexrunconfig/upgrade"),
        ] {
            assert_eq!(undone(&run, &[], &report, message), [wanted], "{message}");
            // An annotation of an earlier run gives this one up no more: what does is undone.
            let stale = [(marks::ABORT, "earlier")];
            assert_eq!(undone(&run, &stale, &report, message), [wanted], "{message}");
        }
        let said = "the replacement r was given up; to go on, `numo abort …` is not for it";
        assert_eq!(
            undone(&Owner::node_version("nodes"), &[], &report, said),
            [format!("kubectl annotate nodeversion nodes {}-", marks::ABORT)],
            "numo abort refuses a NodeVersion"
        );
    }

    #[test]
    fn a_plan_that_a_rule_gave_up_goes_on_by_a_word_on_the_node_that_is_held() {
        let plan = Owner::plan(Key::new("ops", "os"));
        let mut report = Report::default();
        for (name, reason) in [("a", Reason::HeldByPerson), ("b", Reason::Aborted)] {
            let node = NodeReport {
                pool: "".into(),
                step: Step::Held,
                why: Why::new(reason, "rule ops/x failed"),
                since: None,
                change: None,
            };
            report.nodes.insert(name.to_owned(), node);
        }
        let undone = undone(&plan, &[], &report, "rule ops/x failed");
        assert_eq!(undone.first().map(String::as_str), Some("numo retry b"));
    }
}
