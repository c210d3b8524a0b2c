//! Why a run is left before its end.

use super::{gates::watched::not_watched, run_view::RunView};
use crate::{
    rules, suspended,
    turn::{
        directive::{self, retry_asked},
        journal,
    },
    why::{GivenUp, Why},
};
use numo_api::{FailurePolicy, Phase, Reason, Step};

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
        let ids = [self.run_id.as_str(), self.version_id.as_str()];
        let by_annotation = suspended::given_up(self.owner, &self.run.annotations, &ids);
        let by_directive = || directive::all_given_up(self.changes(), &self.run_id);
        by_annotation.or_else(by_directive).or_else(|| {
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
