//! What the turns of an owner took whose nodes are all done: who went when, how long after the first one, and in which steps a turn spent its
//! time. Journals tell that. What a node waited for before its turn none does: the metric numo_wait_seconds has it.

use super::explanation::{Explanation, NAMED, second};
use crate::cli::live::Look;
use jiff::Timestamp;
use numo_api::Step;
use numo_core::{Owner, observed::ChangeView, report::Report, text::counted, time::words};

/// Steps of a turn that are told, the longest.
const STEPS: usize = 3;

/// The turn of one node, all attempts of it.
struct Turn<'a> {
    change: &'a ChangeView,
    step: Step,
    began: Timestamp,
    ended: Timestamp,
    /// Seconds in each step, longest first.
    steps: Vec<(Step, i64)>,
}

impl<'a> Turn<'a> {
    /// None of a node that had no turn, or whose turn is not over.
    fn of(change: &'a ChangeView) -> Option<Self> {
        let status = &change.status;
        let step = status.step.filter(|step| step.is_terminal())?;
        let entries = status.entries.iter();
        let begun = entries.filter_map(|entry| Some((entry.at.parse::<Timestamp>().ok()?, entry.step)));
        let begun: Vec<(Timestamp, Step)> = begun.skip_while(|(_, step)| *step == Step::Selected).collect();
        let (began, first) = *begun.first()?;
        let since = status.since.as_deref().and_then(|at| at.parse().ok());
        let ended = since.or(begun.last().map(|(at, _)| *at))?.max(began);
        if first.is_terminal() {
            // It was left out before its turn.
            return None;
        }
        let ends = begun.iter().skip(1).map(|(at, _)| *at).chain([ended]);
        let mut steps: Vec<(Step, i64)> = Vec::new();
        for ((from, step), to) in begun.iter().zip(ends) {
            let seconds = (to.as_second() - from.as_second()).max(0);
            match steps.iter_mut().find(|(known, _)| known == step) {
                Some((_, all)) => *all += seconds,
                None => steps.push((*step, seconds)),
            }
        }
        steps.retain(|(step, seconds)| *seconds > 0 && !step.is_terminal());
        steps.sort_by_key(|(_, seconds)| std::cmp::Reverse(*seconds));
        Some(Self {
            change,
            step,
            began,
            ended,
            steps,
        })
    }

    fn seconds(&self) -> i64 {
        self.ended.as_second() - self.began.as_second()
    }

    /// How it went, and how long after the first turn it began.
    fn words(&self, first: Timestamp) -> String {
        let steps = self.steps.iter().take(STEPS);
        let steps: Vec<String> = steps
            .map(|(step, seconds)| format!("{} {}", step.name(), words(*seconds)))
            .collect();
        let steps = if steps.is_empty() {
            String::new()
        } else {
            format!("; {}", steps.join(", "))
        };
        let attempt = self.change.status.attempt;
        let attempts = match attempt {
            ..=1 => String::new(),
            _ => format!(", {attempt} attempts"),
        };
        let begun = match self.began.as_second() - first.as_second() {
            ..=0 => String::new(),
            waited => format!(", begun {} after the first", words(waited)),
        };
        format!(
            "Node {}: {} after {}{attempts}{begun}{steps}",
            self.change.spec.node_name,
            self.step.name(),
            words(self.seconds())
        )
    }
}

/// Tells it of an owner that has no node left that waits or has its turn.
pub(super) fn took(one: &mut Explanation, look: &Look, owner: &Owner, report: &Report) {
    let goes_on = report.nodes.values().any(|node| !node.step.is_terminal());
    let Some(uid) = look.store.observed.uid_of(owner).filter(|_| !goes_on) else {
        return;
    };
    let changes = look.store.observed.changes.values();
    let of_run = changes
        .filter(|change| change.spec.owner_ref.uid == uid && change.spec.target.run_id == report.run_id);
    let mut turns: Vec<Turn<'_>> = of_run.filter_map(Turn::of).collect();
    let began = turns.iter().map(|turn| turn.began).min();
    let ended = turns.iter().map(|turn| turn.ended).max();
    let (Some(began), Some(ended)) = (began, ended) else {
        return;
    };
    turns.sort_by_key(|turn| std::cmp::Reverse(turn.seconds()));
    one.link(
        "took",
        format!(
            "{} from {} to {}: {}",
            counted(turns.len(), "turn"),
            second(began),
            second(ended),
            words(ended.as_second() - began.as_second())
        ),
    );
    for turn in turns.iter().take(NAMED) {
        one.link("took", turn.words(began));
    }
    if turns.len() > NAMED {
        one.link(
            "took",
            format!("and {} more, none of them longer", turns.len() - NAMED),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sample;
    use numo_api::{MutexRunConfigSpec, Reason};
    use numo_core::{
        observed::Key,
        report::{NodeReport, Why},
    };
    use serde_json::json;

    /// A journal of a node of the run ops/upgrade: its steps, each with the minute in which it began.
    fn change(node: &str, attempt: i32, entries: &[(&str, u32)]) -> ChangeView {
        let at = |minute: u32| format!("2027-01-15T08:{minute:02}:00Z");
        let list = entries.iter();
        let list = list.map(|(step, minute)| json!({"at": at(*minute), "step": step, "attempt": attempt}));
        let (step, since) = *entries.last().unwrap();
        let object = json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "NodeChange",
            "metadata": {"namespace": "ops", "name": node},
            "spec": {
                "ownerRef": {"apiVersion": "v", "kind": "MutexRunConfig", "namespace": "ops", "name": "upgrade", "uid": "uid"},
                "nodeName": node, "nodeUID": node, "target": {"runID": "r", "version": "2", "pool": ""},
            },
            "status": {"step": step, "since": at(since), "attempt": attempt, "entries": list.collect::<Vec<_>>()},
        });
        crate::shell::watched::node_change::view(serde_json::from_value(object).unwrap())
    }

    fn told(steps: &[(&str, Step)], changes: Vec<ChangeView>) -> Vec<String> {
        let mut store = sample::store(&[], MutexRunConfigSpec::default());
        for change in changes {
            store.observed.changes.insert(change.key.clone(), change);
        }
        let mut report = Report {
            run_id: "r".to_owned(),
            ..Report::default()
        };
        for (name, step) in steps {
            let node = NodeReport {
                pool: "".into(),
                step: *step,
                why: Why::new(Reason::Done, ""),
                since: None,
                change: None,
            };
            report.nodes.insert((*name).to_owned(), node);
        }
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let mut one = Explanation::default();
        took(&mut one, &look, &Owner::run(Key::new("ops", "upgrade")), &report);
        one.chain.into_iter().map(|link| link.message).collect()
    }

    #[test]
    fn a_finished_run_says_what_its_turns_took_and_in_which_steps() {
        let journals = || {
            vec![
                change(
                    "a",
                    1,
                    &[
                        ("Selected", 0),
                        ("Admitted", 1),
                        ("PreRules", 1),
                        ("Cordoned", 4),
                        ("Released", 14),
                        ("Changed", 20),
                        ("Done", 21),
                    ],
                ),
                change(
                    "b",
                    2,
                    &[("Admitted", 21), ("Held", 22), ("Admitted", 50), ("Done", 59)],
                ),
                change("c", 1, &[("Skipped", 30)]),
            ]
        };
        let over = [("a", Step::Done), ("b", Step::Done), ("c", Step::Skipped)];
        assert_eq!(
            told(&over, journals()),
            [
                "2 turns from 2027-01-15T08:01:00Z to 2027-01-15T08:59:00Z: 58m00s",
                "Node b: Done after 38m00s, 2 attempts, begun 20m00s after the first; Held 28m00s, Admitted 10m00s",
                "Node a: Done after 20m00s; Cordoned 10m00s, Released 6m00s, PreRules 3m00s",
            ]
        );
        // Of one that goes on, the nodes in flight tell more.
        let under_way = [("a", Step::Done), ("b", Step::Held)];
        assert_eq!(told(&under_way, journals()), [""; 0]);
        assert_eq!(told(&over, Vec::new()), [""; 0]);
    }

    #[test]
    fn a_large_run_names_the_longest_turns() {
        let count = u32::try_from(NAMED).unwrap() + 2;
        let of = |number: u32| {
            let name = format!("n{number:02}");
            change(&name, 1, &[("Admitted", 0), ("Done", number + 1)])
        };
        let found = told(&[], (0..count).map(of).collect());
        assert_eq!(found.len(), NAMED + 2);
        assert!(found[1].starts_with("Node n11: Done after 12m00s"), "{found:?}");
        assert_eq!(found.last().unwrap(), "and 2 more, none of them longer");
    }
}
