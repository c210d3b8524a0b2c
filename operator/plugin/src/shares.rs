//! Who may have how much of something that the rules of all namespaces share: places, memory, watches. A tenant never has
//! more than it leaves to the others, and tenants that wait are served in turn, so that one that waits behind nobody of
//! its own has its share whatever the others do. It knows nothing of what is shared.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Excluded, Unbounded},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How often others may be served before one that waits for much: after that what becomes free is kept for it.
const PASSED_OVER: u32 = 64;

/// So much of something. A cheap handle; all clones are one.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    most: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What each tenant has; none that has nothing.
    held: BTreeMap<String, u64>,
    taken: u64,
    /// Those that wait, the first of each tenant before its others; no tenant without one.
    waiting: BTreeMap<String, VecDeque<Waiting>>,
    /// The tenant that was served last.
    last: String,
}

#[derive(Debug)]
struct Waiting {
    amount: u64,
    passed_over: u32,
    to: oneshot::Sender<Share>,
}

/// What a tenant has; given back when dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Pool>,
    tenant: String,
    amount: u64,
}

impl Shares {
    /// `most` of it, at least 1.
    pub fn new(most: u64) -> Self {
        Self(Arc::new(Pool {
            most: most.max(1),
            state: Mutex::default(),
        }))
    }

    /// Waits for `amount` of it; more than there is counts as all there is. Dropping the future gives up waiting.
    pub async fn take(&self, tenant: &str, amount: u64) -> Share {
        match self.line_up(tenant, amount).await {
            Ok(share) => share,
            // Whoever serves drops nobody that waits.
            Err(_) => std::future::pending().await,
        }
    }

    fn line_up(&self, tenant: &str, amount: u64) -> oneshot::Receiver<Share> {
        let (to, taken) = oneshot::channel();
        let waiting = Waiting {
            amount: amount.min(self.0.most),
            passed_over: 0,
            to,
        };
        let mut state = self.0.lock();
        let line = state.waiting.entry(tenant.to_owned()).or_default();
        line.push_back(waiting);
        Pool::serve(&self.0, state);
        taken
    }

    /// `amount` of it at once, or none: others that wait are not passed by.
    pub fn try_take(&self, tenant: &str, amount: u64) -> Option<Share> {
        let mut state = self.0.lock();
        let gave_up = |line: &VecDeque<Waiting>| line.iter().all(|one| one.to.is_closed());
        let may = state.waiting.values().all(gave_up) && state.may(tenant, amount, self.0.most);
        may.then(|| Pool::give(&self.0, &mut state, tenant, amount))
    }
}

impl State {
    /// Whether the tenant may have so much now: it leaves at least as much as it has, or has nothing yet.
    fn may(&self, tenant: &str, amount: u64, most: u64) -> bool {
        let Some(left) = (most - self.taken).checked_sub(amount) else {
            return false;
        };
        self.held
            .get(tenant)
            .is_none_or(|held| held.saturating_add(amount) <= left)
    }

    /// The tenant that is served next, if one can be.
    fn next(&mut self, most: u64) -> Option<String> {
        // Who gave up stands in nobody's way.
        self.waiting.retain(|_, line| {
            line.retain(|one| !one.to.is_closed());
            !line.is_empty()
        });
        let after = self
            .waiting
            .range::<str, _>((Excluded(self.last.as_str()), Unbounded));
        let before = self
            .waiting
            .range::<str, _>((Unbounded, Excluded(self.last.as_str())));
        let same = self.waiting.get_key_value(&self.last);
        let round: Vec<String> = after
            .chain(before)
            .chain(same)
            .map(|(tenant, _)| tenant.clone())
            .collect();
        let mut passed = Vec::new();
        for tenant in round {
            let first = self.waiting.get(&tenant).and_then(VecDeque::front)?;
            if self.may(&tenant, first.amount, most) {
                for tenant in passed {
                    if let Some(first) = self.waiting.get_mut(&tenant).and_then(VecDeque::front_mut) {
                        first.passed_over += 1;
                    }
                }
                return Some(tenant);
            }
            if !self.held.contains_key(&tenant) {
                if first.passed_over >= PASSED_OVER {
                    return None;
                }
                passed.push(tenant);
            }
        }
        None
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves whoever may have what it waits for.
    fn serve(pool: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut unwanted = Vec::new();
        while let Some(tenant) = state.next(pool.most) {
            let Some(line) = state.waiting.get_mut(&tenant) else {
                break;
            };
            let first = line.pop_front();
            if line.is_empty() {
                state.waiting.remove(&tenant);
            }
            let Some(Waiting { amount, to, .. }) = first else {
                break;
            };
            let share = Self::give(pool, &mut state, &tenant, amount);
            state.last = tenant;
            // Who gave up in this moment: what it would have had is given back once nobody looks at the state.
            unwanted.extend(to.send(share).err());
        }
        drop(state);
        drop(unwanted);
    }

    fn give(pool: &Arc<Self>, state: &mut State, tenant: &str, amount: u64) -> Share {
        state.taken += amount;
        *state.held.entry(tenant.to_owned()).or_default() += amount;
        Share {
            of: pool.clone(),
            tenant: tenant.to_owned(),
            amount,
        }
    }
}

impl Share {
    /// Gives back what is beyond `amount`.
    pub fn keep(&mut self, amount: u64) {
        let less = self.amount.saturating_sub(amount);
        self.amount -= less;
        self.give_back(less);
    }

    fn give_back(&self, amount: u64) {
        let mut state = self.of.lock();
        state.taken = state.taken.saturating_sub(amount);
        if let Some(held) = state.held.get_mut(&self.tenant) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                state.held.remove(&self.tenant);
            }
        }
        Pool::serve(&self.of, state);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::Future, pin::pin, task::Context};

    /// What a tenant gets at once, one by one.
    fn all_of(shares: &Shares, tenant: &str) -> Vec<Share> {
        std::iter::from_fn(|| shares.try_take(tenant, 1)).collect()
    }

    fn polled<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match pin!(&mut future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn nobody_has_more_than_is_left_to_the_others() {
        let shares = Shares::new(32);
        let first = all_of(&shares, "a");
        let second = all_of(&shares, "b");
        let third = all_of(&shares, "c");
        assert_eq!([first.len(), second.len(), third.len()], [16, 8, 4]);
        drop(second);
        assert_eq!(all_of(&shares, "a").len(), 0, "it has its share");
        assert_eq!(all_of(&shares, "d").len(), 6);
    }

    #[test]
    fn one_alone_may_have_all_there_is_and_no_more() {
        let shares = Shares::new(10);
        let all = polled(pin!(shares.take("a", 1000))).expect("nobody has any");
        assert!(shares.try_take("b", 1).is_none());
        drop(all);
        assert!(shares.try_take("b", 1).is_some());
    }

    #[test]
    fn tenants_that_wait_are_served_in_turn() {
        let shares = Shares::new(2);
        let held = polled(pin!(shares.take("z", 2))).expect("nobody has any");
        let mut waiting: Vec<_> = ["a", "a", "a", "b"]
            .map(|tenant| Box::pin(shares.take(tenant, 1)))
            .into();
        for one in &mut waiting {
            assert!(polled(one.as_mut()).is_none());
        }
        drop(held);
        let served: Vec<_> = waiting.iter_mut().map(|one| polled(one.as_mut())).collect();
        let served: Vec<bool> = served.iter().map(Option::is_some).collect();
        assert_eq!(
            served,
            [true, false, false, true],
            "b has waited behind nobody of its own"
        );
    }

    #[test]
    fn who_gives_up_holds_up_nobody() {
        let shares = Shares::new(1);
        let held = shares.try_take("a", 1).expect("free");
        let mut given_up = Box::pin(shares.take("a", 1));
        assert!(polled(given_up.as_mut()).is_none());
        drop(given_up);
        drop(held);
        assert!(shares.try_take("b", 1).is_some());
        // Served, and given up before it looked.
        let held = shares.try_take("a", 1).expect("free");
        let mut served = Box::pin(shares.take("b", 1));
        assert!(polled(served.as_mut()).is_none());
        drop(held);
        drop(served);
        assert!(shares.try_take("c", 1).is_some());
    }

    #[test]
    fn what_is_restored_in_part_is_there_for_others() {
        let shares = Shares::new(10);
        let mut all = polled(pin!(shares.take("a", 10))).expect("nobody has any");
        all.keep(3);
        let seven = shares.try_take("b", 7).expect("given back");
        drop(all);
        drop(seven);
        assert!(shares.try_take("c", 10).is_some(), "nothing is lost");
    }

    #[test]
    fn one_that_waits_for_much_is_served_in_the_end() {
        let shares = Shares::new(4);
        let mut small = shares.try_take("a", 1).expect("free");
        let mut much = Box::pin(shares.take("b", 4));
        assert!(polled(much.as_mut()).is_none());
        for _ in 0..=2 * PASSED_OVER {
            let mut next = Box::pin(shares.take("c", 1));
            let Some(next) = polled(next.as_mut()) else {
                drop(small);
                let served = polled(much.as_mut());
                assert!(served.is_some(), "what became free was kept for it");
                return;
            };
            small = next;
        }
        panic!("it is passed over for ever");
    }
}
