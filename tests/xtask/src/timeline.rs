//! Where the time of an upgrade went, from what the world saw on the API server: never from numo's own
//! words.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use numo_api::marks;
use numo_world::{Change, JobView, NodeView, Record};

/// What a node was busy with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A Job of a rule: from its creation until the Job controller called it ended.
    Rule {
        /// `namespace/name` of the rule.
        rule: String,
        /// Phase of the rule.
        phase: String,
    },
    /// The machine-config operator: from the release until the node was back, Ready and uncordoned.
    Change,
    /// The way from the canary pool back home.
    Home,
}

/// A time in which a node was busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The node.
    pub node: String,
    /// With what.
    pub part: Part,
    /// From when.
    pub from: Timestamp,
    /// Until when; none: it still is.
    pub to: Option<Timestamp>,
}

/// All spans in these records, in the order in which they began. A zero-diff update is no change.
pub fn spans(records: &[Record]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nodes: BTreeMap<&str, NodeView> = BTreeMap::new();
    let mut moving: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for record in records {
        match &record.change {
            Change::Job(key, Some(job)) => {
                if let (false, Some((node, part))) = (jobs.contains_key(key.as_str()), rule_of(job)) {
                    jobs.insert(key, spans.len());
                    spans.push(begun(node, part, record.at));
                }
                if job.complete || job.failed {
                    close(&mut spans, jobs.get(key.as_str()), record.at);
                }
            }
            Change::Job(key, None) => close(&mut spans, jobs.get(key.as_str()), record.at),
            Change::Node(name, Some(now)) => {
                if let Some(before) = nodes.get(name.as_str()) {
                    let (was, is) = (is_released(before), is_released(now));
                    let part = match (was, is) {
                        (true, false) => Some(Part::Home),
                        (false, true) => Some(Part::Change),
                        _ if before.desired != now.desired => Some(Part::Change),
                        _ => None,
                    };
                    if let (Some(part), false) = (part, moving.contains_key(name.as_str())) {
                        moving.insert(name, (spans.len(), before.current.clone()));
                        spans.push(begun(name, part, record.at));
                    }
                }
                if let Some((index, from)) = moving.get(name.as_str())
                    && has_arrived(now, from)
                {
                    close(&mut spans, Some(index), record.at);
                    moving.remove(name.as_str());
                }
                nodes.insert(name, (**now).clone());
            }
            _ => {}
        }
    }
    spans
}

fn begun(node: &str, part: Part, from: Timestamp) -> Span {
    Span {
        node: node.to_owned(),
        part,
        from,
        to: None,
    }
}

fn close(spans: &mut [Span], index: Option<&usize>, at: Timestamp) {
    if let Some(span) = index.and_then(|index| spans.get_mut(*index)) {
        span.to.get_or_insert(at);
    }
}

fn rule_of(job: &JobView) -> Option<(&str, Part)> {
    let node = job.annotations.get(marks::JOB_NODE_NAME)?;
    let part = Part::Rule {
        rule: job.annotations.get(marks::JOB_RULE)?.clone(),
        phase: job.labels.get(marks::JOB_PHASE)?.clone(),
    };
    Some((node, part))
}

fn is_released(node: &NodeView) -> bool {
    node.labels.contains_key(marks::RELEASE)
}

fn has_arrived(node: &NodeView, from: &str) -> bool {
    node.current != from
        && node.current == node.desired
        && node.state == "Done"
        && node.ready
        && !node.unschedulable
}

/// The part of a window in which none of the spans was open.
pub fn idle(
    from: Timestamp,
    to: Timestamp,
    busy: impl IntoIterator<Item = (Timestamp, Timestamp)>,
) -> SignedDuration {
    let mut busy: Vec<_> = busy.into_iter().collect();
    busy.sort_unstable();
    let mut idle = SignedDuration::ZERO;
    let mut until = from;
    for (begin, end) in busy {
        let begin = begin.min(to);
        if begin > until {
            idle += begin.duration_since(until);
        }
        until = until.max(end.min(to));
    }
    if to > until {
        idle += to.duration_since(until);
    }
    idle
}

/// The middle of some numbers; of an even count the mean of the two. None of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(middle.checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).unwrap()
    }

    fn record(second: i64, change: Change) -> Record {
        Record {
            revision: u64::try_from(second).unwrap(),
            at: at(second),
            change,
        }
    }

    fn node(second: i64, current: &str, desired: &str, state: &str) -> Record {
        let view = NodeView {
            current: current.into(),
            desired: desired.into(),
            state: state.into(),
            ready: true,
            ..NodeView::default()
        };
        record(second, Change::Node("a".into(), Some(Box::new(view))))
    }

    fn job(second: i64, complete: bool) -> Record {
        let pairs = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        let view = JobView {
            annotations: pairs(&[(marks::JOB_NODE_NAME, "a"), (marks::JOB_RULE, "ns/r")]),
            labels: pairs(&[(marks::JOB_PHASE, "Pre")]),
            complete,
            ..JobView::default()
        };
        record(second, Change::Job("ns/job".into(), Some(Box::new(view))))
    }

    #[test]
    fn job_lasts_from_its_creation_until_it_is_complete() {
        let spans = spans(&[job(1, false), job(4, true), job(9, true)]);
        let part = Part::Rule {
            rule: "ns/r".into(),
            phase: "Pre".into(),
        };
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].part, part);
        assert_eq!((spans[0].from, spans[0].to), (at(1), Some(at(4))));
    }

    #[test]
    fn change_lasts_until_the_node_is_done_with_the_new_config() {
        let spans = spans(&[
            node(1, "old", "old", "Done"),
            node(2, "old", "new", "Done"),
            node(3, "old", "new", "Working"),
            node(7, "new", "new", "Done"),
        ]);
        assert_eq!(spans.len(), 1);
        assert_eq!((&spans[0].part, spans[0].to), (&Part::Change, Some(at(7))));
        assert_eq!(spans[0].from, at(2));
    }

    #[test]
    fn canary_counts_from_the_label_and_the_way_home_apart() {
        let labelled = |second, current, desired| {
            let mut record = node(second, current, desired, "Done");
            if let Change::Node(_, Some(view)) = &mut record.change {
                view.labels.insert(marks::RELEASE.into(), "run".into());
            }
            record
        };
        let spans = spans(&[
            node(1, "old", "old", "Done"),
            labelled(2, "old", "old"),
            labelled(3, "old", "new"),
            labelled(6, "new", "new"),
            node(8, "new", "home", "Done"),
            node(9, "home", "home", "Done"),
        ]);
        let found: Vec<_> = spans.iter().map(|s| (&s.part, s.from, s.to)).collect();
        let expected = [
            (&Part::Change, at(2), Some(at(6))),
            (&Part::Home, at(8), Some(at(9))),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn idle_is_what_no_span_covers() {
        let seconds = |busy: &[(i64, i64)]| {
            let busy = busy.iter().map(|(from, to)| (at(*from), at(*to)));
            idle(at(0), at(10), busy).as_secs()
        };
        assert_eq!(seconds(&[]), 10);
        assert_eq!(seconds(&[(1, 3), (5, 9)]), 4);
        assert_eq!(seconds(&[(5, 9), (1, 6)]), 2);
        assert_eq!(seconds(&[(1, 9), (2, 3)]), 2);
        assert_eq!(seconds(&[(-5, 4), (9, 20)]), 5);
        assert_eq!(seconds(&[(20, 30)]), 10);
    }

    #[test]
    fn median_of_even_counts_is_between() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
