//! What is under way, so that nobody is asked or told the same again meanwhile, however long it takes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// What is under way. A cheap handle; all clones are one.
#[derive(Clone, Debug)]
pub struct UnderWay<T>(Arc<Mutex<BTreeSet<T>>>);

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Something that is under way until this is dropped.
#[derive(Debug)]
pub struct Entry<T: Ord>(UnderWay<T>, T);

impl<T: Ord + Clone> UnderWay<T> {
    /// Notes that it begins; none if it is under way already.
    pub fn enter(&self, what: &T) -> Option<Entry<T>> {
        let mut entered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entered
            .insert(what.clone())
            .then(|| Entry(self.clone(), what.clone()))
    }
}

impl<T: Ord> Drop for Entry<T> {
    fn drop(&mut self) {
        let Self(of, what) = self;
        let mut entered = of.0.lock().unwrap_or_else(PoisonError::into_inner);
        entered.remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_does_not_begin_again_before_it_is_over() {
        let under_way = UnderWay::default();
        let one = under_way.enter(&1);
        assert!(one.is_some() && under_way.enter(&2).is_some());
        assert!(under_way.clone().enter(&1).is_none());
        drop(one);
        assert!(under_way.enter(&1).is_some());
    }
}
