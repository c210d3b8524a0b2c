//! Whose turn comes next, for every owner: the page of admission. An owner says which of its nodes wait and in which order, and what a
//! gate has against one of them; it may not choose how they are weighed. Nothing here reads or writes anything.

use super::{
    domains::Domains,
    gates::{self, Gate},
    leaving::leaving,
    room::Room,
    schedule::Schedule,
    union::Union,
    waves::Waves,
    windows,
};
use crate::{
    action::{Action, Planned},
    decision::Decision,
    key::Key,
    ledger::{self, Ledger},
    mark,
    observed::{ChangeView, NodeView, Observed, Values, WindowView},
    owner::Owner,
    pace::{self, Whose},
    rules::{self, Admission, Inquiry, Subject},
    selector::{self, Selector, one_label},
    turn::{
        closed::{self, Probes},
        contradiction, directive,
        journal::Journal,
        machine,
        node::{Next, ON},
    },
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Reason, Step};
use std::{cell::OnceCell, collections::BTreeMap};

/// The nodes of an owner that wait for their turn.
pub trait Queue<'a> {
    /// One of them.
    type One: Copy;

    /// What was seen, asked and answered, and when.
    fn seen(&self) -> (&'a Observed, &'a Answers, Timestamp);
    /// The decision in the making.
    fn out(&mut self) -> &mut Decision;
    /// The nodes that have no turn, in the order in which they are to have one.
    fn waiting(&mut self) -> Vec<Self::One>;
    /// The node itself.
    fn node(&self, one: Self::One) -> &'a NodeView;
    /// Its journal, if it has had a turn for what is asked for now, or a person has said something of it.
    fn change(&self, one: Self::One) -> Option<&'a ChangeView>;
    /// When nodes of the owner may begin.
    fn schedule(&self) -> &Schedule<'a>;
    /// Whose journals tell what a node takes: that is the forecast of a turn. None where there are none.
    fn whose(&self) -> Option<Whose<'_>> {
        None
    }
    /// Whether a person asks about the node.
    fn is_asked(&self, one: Self::One) -> bool;
    /// Deals with a node that has no turn to wait for: it is done, was left out, or was begun without numo.
    fn sort_out(&mut self, one: Self::One, ledger: &mut Ledger<'a>) -> Next;
    /// What a gate has against the node that only this owner knows.
    fn against(&mut self, one: Self::One, gate: Gate) -> Option<Why>;
    /// All that keeps the owner as a whole, worst first: what [`Gate::Owner`] has against a node is the first of it.
    fn against_owner(&self) -> Vec<Why> {
        Vec::new()
    }
    /// Whether its nodes leave service in their turns: one that does not is none of a budget's.
    fn leaves_service(&self) -> bool {
        true
    }
    /// After how long a node that stands back for its drain has a turn whatever a probe says (seconds).
    fn tried_again(&self) -> Option<i64> {
        Some(closed::TRIED_AGAIN_SECONDS)
    }
    /// What the rules of phase Admit say of the node.
    fn admission(&self, one: Self::One) -> Admission;
    /// What a rule of phase Admit had against the node when the status was written.
    fn noted(&self, _one: Self::One) -> Option<Why> {
        None
    }
    /// The node has one of the owner's places: for its turn, or while rules are asked about it.
    fn take_place(&mut self, one: Self::One, is_asked_about: bool);
    /// Does what must be done before the turn of a node can begin, and says so; the turn begins once nothing is left to do.
    fn prepare_turn(&mut self, _one: Self::One, _admitted: &Why) -> Next {
        ON
    }
    /// The NodeChange of a node that has none: its creation is the reservation.
    fn reservation(&self, one: Self::One) -> (Key, NodeChangeSpec);
    /// Has the journal of a node that has one begin another attempt, and returns why, as it is journaled.
    fn begin_again(&self, journal: &mut Journal<'_>, admitted: &Why) -> Why {
        journal.obey();
        if journal.status.step.is_some() {
            journal.next_attempt();
        }
        admitted.clone()
    }
    /// Says at which step the node is, and why.
    fn say(&mut self, one: Self::One, step: Step, why: Why);
    /// Says what the node waits for.
    fn wait(&mut self, one: Self::One, why: Why) {
        self.say(one, Step::Selected, why);
    }
}

/// Why nodes do not begin at this time, worked out once for all that the same MutexWindows select.
#[derive(Default)]
struct Shut<'a> {
    windows: Vec<(&'a WindowView, Selector<'a>)>,
    /// The places of those that select every node.
    always: Vec<usize>,
    /// Windows often differ by the value of one label: a node's is looked up once for all of them. By key and value, the places of the windows.
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<usize>>>,
    /// The places of all other windows.
    others: Vec<usize>,
    /// Until when those that select every node are open, freezes aside, once that is asked: each set of windows is open at least as long.
    always_open_until: OnceCell<Option<Timestamp>>,
    /// By the places of the windows that select a node, beside those that select every node.
    known: BTreeMap<Vec<usize>, Option<Why>>,
    /// Those of the node that is asked about.
    places: Vec<usize>,
}

impl<'a> Shut<'a> {
    fn of(observed: &'a Observed) -> Self {
        let mut shut = Self::default();
        let windows = observed.windows.values();
        for window in windows.filter(|window| !window.selector.is_null()) {
            let place = shut.windows.len();
            match one_label(&window.selector) {
                None if selector::is_empty(&window.selector) => shut.always.push(place),
                None => shut.others.push(place),
                Some((key, value)) => {
                    let of_key = shut.by_label.entry(key).or_default();
                    of_key.entry(value).or_default().push(place);
                }
            }
            shut.windows.push((window, Selector::of(&window.selector)));
        }
        shut
    }

    fn always_open_until(&self, now: Timestamp) -> Option<Timestamp> {
        *self.always_open_until.get_or_init(|| {
            let always = self.always.iter().filter_map(|place| self.windows.get(*place));
            let hours = always.map(|(window, _)| window.hours.as_ref().ok());
            // One that is odd lets nothing begin: it is said where all are asked.
            let hours: Vec<_> = hours.collect::<Option<_>>()?;
            Some(Union(&hours).known_open_until(now))
        })
    }

    /// Finds the places of the windows that select the node and not every node, in their order.
    fn find(&mut self, node: &NodeView) {
        self.places.clear();
        for (key, by_value) in &self.by_label {
            let value = node.labels.value(key);
            let places = value.and_then(|value| by_value.get(value));
            self.places.extend(places.into_iter().flatten());
        }
        for place in &self.others {
            let window = self.windows.get(*place);
            if window.is_some_and(|(_, selector)| selector.matches(&node.labels)) {
                self.places.push(*place);
            }
        }
        self.places.sort_unstable();
    }

    fn refusal(
        &mut self,
        node: &NodeView,
        schedule: &Schedule<'a>,
        now: Timestamp,
        forecast: &impl Fn() -> Option<i64>,
    ) -> Option<Why> {
        self.find(node);
        if let Some(known) = self.known.get(&self.places) {
            return known.clone();
        }
        let mut places: Vec<&usize> = self.always.iter().chain(&self.places).collect();
        places.sort_unstable();
        let windows = places.into_iter().filter_map(|place| self.windows.get(*place));
        let windows: Vec<&WindowView> = windows.map(|(window, _)| *window).collect();
        let why = match schedule.under_open(&windows, self.always_open_until(now)) {
            Ok(schedule) => schedule.refusal(now, forecast),
            Err(why) => Some(why),
        };
        self.known.insert(self.places.clone(), why.clone());
        why
    }
}

/// What a node takes (seconds), where that is known: all journals are read for it.
fn forecast<'a>(
    (observed, now): (&'a Observed, Timestamp),
    whose: Option<Whose<'_>>,
) -> impl Fn() -> Option<i64> + use<'a> {
    let whose = whose.map(|whose| (whose.owner_uid.to_owned(), whose.run_id.to_owned()));
    move || {
        let (owner_uid, run_id) = whose.as_ref()?;
        Some(pace::took(observed, Whose { owner_uid, run_id }, now)?.at_most_seconds())
    }
}

/// Has the owner decided again when hours open or close.
fn wake_for_hours<'a>(queue: &mut impl Queue<'a>) {
    let (observed, _, now) = queue.seen();
    let changes = [
        queue.schedule().changes_after(now),
        windows::changes_after(observed, now),
    ];
    for at in changes.into_iter().flatten() {
        queue.out().wake(at);
    }
}

/// Begins as many nodes as may be, and says of each other one what it waits for.
pub fn admit<'a>(queue: &mut impl Queue<'a>) {
    let (observed, _, now) = queue.seen();
    let taken = observed.taken(now);
    let (mut ledger, mut probes, mut asking) = (Ledger::of(observed, now), Probes::default(), 0);
    let forecast = forecast((observed, now), queue.whose());
    let mut shut = Shut::of(observed);
    wake_for_hours(queue);
    let mut waiting = queue.waiting();
    // Whose turn was closed for too long stands behind the others.
    waiting.sort_by_key(|one| closed::stands_behind(queue.change(*one)));
    for one in waiting {
        if queue.sort_out(one, &mut ledger).is_break() {
            continue;
        }
        let (node, change) = (queue.node(one), queue.change(one));
        let is_asked = queue.is_asked(one);
        let against = gates::weigh(is_asked, |gate| match gate {
            Gate::Stop => ledger::stop(observed, node),
            Gate::Window => shut.refusal(node, queue.schedule(), now, &forecast),
            Gate::Leaving => {
                let (why, at) = leaving(node, &taken, now)?;
                if let Some(at) = at {
                    queue.out().wake(at);
                }
                Some(why)
            }
            Gate::Unread => unreadable(queue, one).into_iter().next(),
            Gate::Budget if queue.leaves_service() => ledger.refusal(node),
            Gate::Budget => None,
            Gate::Busy if is_asked => queue.against(one, gate).or_else(|| runs_on(queue, one)),
            Gate::Drain => at_last(queue, one, is_asked, &mut probes),
            gate => queue.against(one, gate),
        });
        let against = against.and_of_owner(|| queue.against_owner());
        let against = against
            .and_all(|| ledger::stops(observed, node))
            .and_all(|| ledger.refusals(node))
            .and_all(|| unreadable(queue, one));
        let against = against.or(|| name_taken(queue, one));
        if let Some(why) = against.worst(&mut queue.out().report) {
            queue.out().actions.extend(directive::wait_again(change, now));
            queue.wait(one, why);
            continue;
        }
        if let Some((why, keeps_place)) = ask_first(queue, one, &mut asking) {
            if keeps_place {
                ledger.take(node);
                queue.take_place(one, true);
            }
            queue.out().actions.extend(directive::wait_again(change, now));
            queue.say(one, Step::Selected, why);
            continue;
        }
        ledger.take(node);
        queue.take_place(one, false);
        begin(queue, one);
    }
}

/// The last gate. Whether a Job runs on a node is dear to tell of each one: of those that nobody asks about, it is told here, of the few that
/// come so far.
fn at_last<'a, Q: Queue<'a>>(queue: &mut Q, one: Q::One, is_asked: bool, probes: &mut Probes) -> Option<Why> {
    let busy = (!is_asked).then(|| runs_on(queue, one)).flatten();
    let ((_, answers, now), change, again) = (queue.seen(), queue.change(one), queue.tried_again());
    busy.or_else(|| probes.refusal(queue.out(), change, (answers, now), again))
}

/// Why a node has no turn beside a Job of a rule that still runs there: in a turn it would wait with slot, budget and lease.
fn runs_on<'a, Q: Queue<'a>>(queue: &mut Q, one: Q::One) -> Option<Why> {
    let (observed, answers, now) = queue.seen();
    let node = queue.node(one);
    if !observed.jobs.any_runs_on(&node.name) {
        return None;
    }
    let (_, of) = queue.reservation(one);
    let owner = Owner::named(&of.owner_ref)?;
    let change = queue.change(one);
    let attempt = change.map_or(1, |change| {
        let mut journal = Journal::open(change, now);
        queue.begin_again(&mut journal, &Why::new(Reason::Admitting, ""));
        journal.status.attempt
    });
    let subject = Subject {
        run: &of.target.run_id,
        ..Subject::waiting(&owner, &of.owner_ref.uid, node, attempt.saturating_sub(1))
    };
    let inquiry = Inquiry {
        subject,
        verdicts: change.map_or(&[], |change| &change.status.verdicts),
        observed,
        answers,
        now,
    };
    let (why, again) = rules::earlier(&inquiry, false)?;
    if let Some(at) = again {
        queue.out().wake(at);
    }
    Some(why)
}

/// Gives a node the places that the owner, its wave and its domain have for it.
pub(crate) fn take_places<'a>(
    (room, waves, domains): (&mut Room<'a>, &mut Waves<'a>, Option<&mut Domains<'a>>),
    node: &'a NodeView,
    is_asked_about: bool,
) {
    room.take(node, is_asked_about);
    waves.take_place(node, is_asked_about);
    if let Some(domains) = domains {
        domains.take(node);
    }
}

/// All that only a person ends of what numo wrote for a node: a mark that cannot be read, or a turn that cannot be written down.
fn unreadable<'a, Q: Queue<'a>>(queue: &Q, one: Q::One) -> Vec<Why> {
    let (observed, ..) = queue.seen();
    let of_machine = || {
        (!observed.machines.is_empty())
            .then(|| unread(queue, one))
            .flatten()
    };
    let taken = || name_taken(queue, one).filter(|why| why.reason == Reason::JournalContradicts);
    let of_node = mark::unread(queue.node(one)).into_iter();
    of_node.chain(of_machine()).chain(taken()).collect()
}

/// Why the owner does nothing to a node whose Machine, or a check of it, has a mark that cannot be read.
fn unread<'a, Q: Queue<'a>>(queue: &Q, one: Q::One) -> Option<Why> {
    let ((observed, ..), (_, of)) = (queue.seen(), queue.reservation(one));
    machine::unread(observed, (&of.node_name, &of.owner_ref.uid))
}

/// Why the turn of a node cannot be written down, if so: its journal is a later numo's or of another owner, or something else has the
/// name of one that has none. It is asked last: of a journal that is on its way out nobody is told before all else, as it ends by itself.
fn name_taken<'a, Q: Queue<'a>>(queue: &Q, one: Q::One) -> Option<Why> {
    let (key, spec) = queue.reservation(one);
    if let Some(change) = queue.change(one) {
        let of = &spec.owner_ref;
        let owner = Key::new(of.namespace.as_deref().unwrap_or_default(), of.name.as_str());
        return contradiction::of_other_than(change, &of.kind, &owner);
    }
    let (observed, ..) = queue.seen();
    Some(contradiction::taken(
        observed.changes.get(&key)?,
        &queue.node(one).name,
    ))
}

/// Begins the turn of a node: its NodeChange is created, or its journal begins another attempt.
pub(crate) fn begin<'a, Q: Queue<'a>>(queue: &mut Q, one: Q::One) {
    let admitted = Why::new(Reason::Admitting, "its turn has come");
    if queue.prepare_turn(one, &admitted).is_break() {
        return;
    }
    let (.., now) = queue.seen();
    let planned = if let Some(change) = queue.change(one) {
        let mut journal = Journal::open(change, now);
        let why = queue.begin_again(&mut journal, &admitted);
        journal.enter(Step::Admitted, Some(&why));
        journal.planned(None)
    } else {
        let (key, spec) = queue.reservation(one);
        let spec = Box::new(spec);
        let action = Action::CreateChange { key, spec };
        Some(Planned::of(&queue.node(one).name, action))
    };
    queue.out().actions.extend(planned);
    queue.say(one, Step::Admitted, admitted);
}

/// Asks the rules of phase Admit about a node that could have its turn now. If it may not have it yet: why, and whether its place is
/// kept meanwhile.
fn ask_first<'a, Q: Queue<'a>>(queue: &mut Q, one: Q::One, asking: &mut usize) -> Option<(Why, bool)> {
    let mut said = queue.admission(one);
    let mut why = said.why.take()?;
    if !said.against
        && let Some(noted) = queue.noted(one)
    {
        // Who has just started, or only looks on, has not heard the rule itself.
        (why, said.against) = (noted, true);
    }
    if let Some(full) = said.takes_place(asking) {
        return Some((full, false));
    }
    let node = queue.node(one);
    let out = queue.out();
    let requests = said.asks.into_iter().map(Box::new);
    out.questions.extend(requests.map(Question::Evaluate));
    if let Some(wake) = said.wake {
        out.wake(wake);
    }
    if said.against {
        out.report.not_admitted.insert(node.name.clone(), why.clone());
    }
    Some((why, !said.against))
}
