//! Why a run is left before its end.

use super::{gates::watched::not_watched, run_view::RunView};
use crate::{
    rules, said,
    turn::{
        directive::{self, retry_asked},
        journal,
    },
    why::{GivenUp, Why},
};
use numo_api::{FailurePolicy, Phase, Reason, Step, marks};

impl RunView<'_> {
    /// Why this run is being left, if it is: deleted, or given up by a person or a rule.
    pub fn leaving(&self) -> Option<Why> {
        if self.run.deleting {
            return Some(Why::new(
                Reason::Deleting,
                format!("MutexRunConfig {} is being deleted", self.run.key),
            ));
        }
        if self.observed.namespaces.get(&self.run.key.namespace) == Some(&true) {
            return Some(Why::new(
                Reason::NamespaceTerminating,
                format!("namespace {} is being deleted", self.run.key.namespace),
            ));
        }
        if let Some(why) = not_watched(self.run, &self.observed.settings) {
            return Some(why);
        }
        if self.run_id.is_empty() {
            return None;
        }
        if let Some(why) = self.given_up_by_run_rule() {
            return Some(why);
        }
        let abort = self.run.annotations.get(marks::ABORT);
        if abort.is_some_and(|id| *id == self.run_id || *id == self.version_id) {
            let message = format!(
                "MutexRunConfig {} was given up{}; to go on, `numo abort {} -n {} --undo` or remove annotation {}",
                self.run.key,
                said::by(&self.run.annotations, "abort"),
                self.run.key.name,
                self.run.key.namespace,
                marks::ABORT
            );
            return Some(Why::aborted(GivenUp::Annotation, message));
        }
        directive::all_given_up(self.changes(), &self.run_id).or_else(|| {
            let change = self.changes().find(|change| {
                change.spec.target.run_id == self.run_id
                    && change.status.step == Some(Step::Failed)
                    && journal::is_for(change, Reason::RuleFailed)
                    && !retry_asked(change)
            })?;
            let why = change.status.message.as_deref().unwrap_or("a rule failed");
            let message = format!("NodeChange {} gave the run up: {why}", change.key);
            let by = GivenUp::RuleOfTurn(change.spec.node_name.clone());
            Some(Why::aborted(by, message))
        })
    }

    /// A PreRun rule failed for good, and its policy is Abort.
    fn given_up_by_run_rule(&self) -> Option<Why> {
        let rules = self.intent.rules.iter().filter_map(|(_, rule)| *rule);
        rules
            .filter_map(|rule| rules::failed_for_good(rule, Phase::PreRun, self.run_verdicts, self.run_round))
            .find(|(policy, _)| *policy == FailurePolicy::Abort)
            .map(|(_, why)| {
                let ways = format!("{}; {}", why.message, self.ways_to_ask_again());
                Why::aborted(GivenUp::RuleOfRun, ways)
            })
    }

    /// How a person lets the run's own rules be asked again.
    pub fn ways_to_ask_again(&self) -> String {
        format!(
            "`numo retry -n {} mutexrunconfig/{}` evaluates the rules of the run again",
            self.run.key.namespace, self.run.key.name
        )
    }
}
