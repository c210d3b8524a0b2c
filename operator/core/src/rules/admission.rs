//! What rules say of a node before it has its turn (phase Admit).

use super::{
    attempt::{Attempt, MESSAGE_MAX},
    evaluation::{NO_VERDICT_SECONDS, request, unless_stirred, waits},
    inquiry::Subject,
    verdicts::is_recent,
};
use crate::{
    action::EvaluationRequest,
    key::Key,
    observed::{EvaluationView, Observed, RuleAnswer, RuleView},
    text::clip,
    time::{STUCK_SECONDS, later, wake_by},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, conditions::Actor};

/// Nodes that rules of phase Admit are asked about at once: a rule that is against all of 7,500 nodes is not to be asked
/// about all of them in one moment.
const ASKED_AT_ONCE: usize = 32;
/// After how many answers in a row that are no verdict a rule of phase Admit is one that a person must mend.
const BROKEN: u32 = 3;

/// What the rules of phase Admit say of a node that has no turn yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Why it may not have its turn yet; none if it may.
    pub why: Option<Why>,
    /// Whether a rule is against it, so that others go first. Else an answer is awaited: that takes moments, and its place
    /// is kept for it, as nodes are to go in their order.
    pub against: bool,
    /// What is to be asked now.
    pub asks: Vec<EvaluationRequest>,
    /// Whether an answer is under way.
    pub under_way: bool,
    /// When a rule that is against it is asked again.
    pub wake: Option<Timestamp>,
}

impl Admission {
    /// Counts the node among those that are being asked about. Past the most, one that rules are against is not asked
    /// again now, and any other has to wait: why.
    pub fn takes_place(&mut self, asking: &mut usize) -> Option<Why> {
        if !self.under_way && self.asks.is_empty() {
            return None;
        }
        if *asking < ASKED_AT_ONCE {
            *asking += 1;
        } else if self.against {
            self.asks.clear();
        } else {
            let message = format!("rules of phase Admit are being evaluated for {ASKED_AT_ONCE} nodes");
            return Some(Why::new(Reason::WaitingForTurn, message));
        }
        None
    }
}

/// What the rules of phase Admit say of a node before it has a turn.
///
/// Nothing of it is journaled, as the journal begins with the turn, and nothing is a failure: who waits here holds up
/// nobody, so that there is neither a timeout nor a retry, and a Block is asked again like what gave no verdict. Jobs are
/// not started in this phase: whatever a Job changes would be changed for a node that may go much later.
///
/// While a rule is against the node only that rule is asked again. The others are asked beside one another, else two that
/// each take longer than a Pass stays fresh would wait for each other for ever.
pub fn admission(
    rules: &[(Key, Option<&RuleView>)],
    subject: &Subject<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Admission {
    let asked = rules
        .iter()
        .filter_map(|(_, rule)| rule.filter(|rule| rule.is_evaluated && rule.runs_in(Phase::Admit)));
    let (mut open, mut against) = (Admission::default(), Admission::default());
    for rule in asked {
        let request = request(&Attempt::next(rule, Phase::Admit, &[], subject), observed);
        let what = format!("rule {}, phase Admit", rule.key);
        let view = observed.evaluations.get(&request.key);
        let under_way = view.is_some_and(|view| view.under_way);
        let answer = view
            .filter(|view| view.generation == rule.generation)
            .and_then(|view| Some((view, view.answer.as_ref()?)));
        let refusal = answer.and_then(|(view, (at, answer))| {
            let (why, pause) = refusal(&what, view, answer, now)?;
            Some((why, later(*at, unless_stirred(view, pause))))
        });
        if let Some((why, again)) = refusal {
            against.why.get_or_insert(why);
            against.under_way |= under_way;
            if now < again {
                wake_by(&mut against.wake, again);
            } else if !under_way {
                against.asks.push(request);
            }
            continue;
        }
        let is_fresh = answer.is_some_and(|(_, (at, _))| is_recent(rule, *at, now));
        if is_fresh && !under_way {
            continue;
        }
        open.under_way |= under_way;
        let reason = if under_way {
            Reason::RuleRunning
        } else {
            open.asks.push(request);
            Reason::RuleStarting
        };
        open.why.get_or_insert(Why::new(reason, what));
    }
    if against.why.is_some() {
        against.against = true;
        return against;
    }
    open
}

/// What an answer in phase Admit has against the node, and after how many seconds it is asked again.
fn refusal(what: &str, view: &EvaluationView, answer: &RuleAnswer, now: Timestamp) -> Option<(Why, i64)> {
    let (why, pause) = match answer {
        RuleAnswer::Block(words) => {
            let message = format!("{what}: it blocks: {}", words.shown());
            let why = Why::new(Reason::RuleWaits, clip(&message, MESSAGE_MAX));
            (why, NO_VERDICT_SECONDS.1)
        }
        _ => waits(what, view, answer)?,
    };
    // Before its turn nobody's patience with a rule ends: one that fails each time, or is against the node for long, keeps
    // the node out for ever.
    let is_broken = matches!(answer, RuleAnswer::NoVerdict(..)) && view.failures >= BROKEN;
    let why = if later(view.first_asked, STUCK_SECONDS) <= now {
        let message = format!("{}; it has been so since {}", why.message, view.first_asked);
        Why::new(why.reason, clip(&message, MESSAGE_MAX)).ended_by(Actor::ClusterAdmin)
    } else if is_broken {
        why.ended_by(Actor::ClusterAdmin)
    } else {
        why
    };
    Some((why, pause))
}
