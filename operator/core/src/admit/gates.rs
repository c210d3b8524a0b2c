//! What may stand against a node's turn, in one order for every kind of owner. An owner says what a gate has against a node; it
//! may not choose the order. Nothing here looks at anything itself.

use crate::{report::Report, why::Why};
use numo_api::Reason;

macro_rules! gates {
    ($($(#[$meaning:meta])* $gate:ident,)+) => {
        /// One thing that may stand against a node's turn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Gate {
            $($(#[$meaning])* $gate,)+
        }

        impl Gate {
            /// In the order in which they are declared: none can be left out of it.
            const ORDER: &[Self] = &[$(Self::$gate),+];
        }
    };
}

// From what a person ends, or nobody, to what ends by itself.
gates! {
    /// The owner begins nothing: it is refused, suspended, or cannot be understood.
    Owner,
    /// A person stopped the changes of these nodes: a MutexBudget is paused.
    Stop,
    /// A person holds this node.
    Person,
    /// What numo wrote on the node, its Machine or in its journal cannot be read, or something else has the name of that.
    Unread,
    /// The owner waits for its version, the window of its own kind, or another owner.
    Waits,
    /// The hours that the owner is under are closed, or end too soon; or it starts later.
    Window,
    /// The owner cannot change a node like this one.
    Unfit,
    /// Somebody is about to take the node away, or to reboot it.
    Leaving,
    /// The node has its turn with another owner, or still runs what an earlier turn began.
    Busy,
    /// The node is not Ready, cordoned, or in mid-change.
    State,
    /// The members of etcd that are left would have no quorum.
    Quorum,
    /// Another operator holds the lease of the node.
    Lease,
    /// Nodes of an earlier wave of the owner go first, or that wave soaks.
    Wave,
    /// Other domains of the owner, such as zones, come before.
    Domain,
    /// A person must approve first that nodes of the owner, or of its wave, begin.
    Approval,
    /// As many nodes of the owner as may be are in flight.
    Room,
    /// A MutexBudget allows no more.
    Budget,
    /// Its last drain could not pass, and a probe says that this one would not.
    Drain,
}

/// Why an owner as a whole goes no further, before a turn and in it, worst first: [`Gate::Owner`] of every kind of owner. What somebody has
/// to mend comes before that it is suspended: it is there all the same once the owner is resumed. That something cannot be listed comes
/// first: the problem may be of what is not seen, and a turn keeps its place meanwhile.
pub(crate) fn of_owner(problem: Option<Why>, suspended: Option<&Why>) -> impl Iterator<Item = Why> + use<> {
    let (blind, suspended): (Vec<Why>, Vec<Why>) = suspended
        .into_iter()
        .cloned()
        .partition(|why| why.reason == Reason::ListFailed);
    blind.into_iter().chain(problem).chain(suspended)
}

/// A reason that is looked for once it is asked for.
pub(crate) fn when<'w>(why: impl FnOnce() -> Option<Why> + 'w) -> impl Iterator<Item = Why> + 'w {
    std::iter::once_with(why).flatten()
}

/// What stands against a node, worst first.
#[derive(Debug)]
pub(crate) struct Against {
    found: Vec<Why>,
    /// How many of these are of [`Gate::Owner`].
    of_owner: usize,
    asked: bool,
}

/// Looks at the gates of a node in their order, up to the first that is against it; at all of them if a person asks about the
/// node. A drain is probed only for a node that could have its turn.
pub(crate) fn weigh(asked: bool, mut against: impl FnMut(Gate) -> Option<Why>) -> Against {
    let (mut found, mut of_owner) = (Vec::new(), 0);
    for &gate in Gate::ORDER {
        let is_decided = !found.is_empty();
        if is_decided && (!asked || gate == Gate::Drain) {
            break;
        }
        let why = against(gate);
        // What stops an owner as a whole is not told once more of the node.
        found.extend(why.filter(|why| !found.contains(why)));
        if gate == Gate::Owner {
            of_owner = found.len();
        }
    }
    Against {
        found,
        of_owner,
        asked,
    }
}

impl Against {
    /// What else keeps the owner as a whole, where something does and a person asks about the node: a gate tells its worst only.
    pub fn and_of_owner<I: IntoIterator<Item = Why>>(mut self, all: impl FnOnce() -> I) -> Self {
        if self.asked && self.of_owner > 0 {
            self.insert(1, all().into_iter().collect());
        }
        self
    }

    /// The same of another gate: all that it has against the node.
    pub fn and_all(mut self, all: impl FnOnce() -> Vec<Why>) -> Self {
        let all = if self.asked { all() } else { Vec::new() };
        if let Some(worst) = self.found.iter().position(|why| all.contains(why)) {
            self.insert(worst + 1, all);
        }
        self
    }

    /// What is looked for last: where nothing else stands against the node, or a person asks about it.
    pub fn or(mut self, why: impl FnOnce() -> Option<Why>) -> Self {
        if self.asked || self.found.is_empty() {
            let why = why().filter(|why| !self.found.contains(why));
            self.found.extend(why);
        }
        self
    }

    fn insert(&mut self, at: usize, mut more: Vec<Why>) {
        more.retain(|why| !self.found.contains(why));
        self.found.splice(at..at, more);
    }

    /// The worst of it, if anything; the report has the rest.
    pub fn worst(self, report: &mut Report) -> Option<Why> {
        let mut found = self.found.into_iter();
        let worst = found.next();
        if self.asked {
            report.also = found.collect();
        }
        worst
    }
}
