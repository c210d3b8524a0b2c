//! Two things that are both in the order of their names, gone through side by side: a look-up for each of thousands of nodes costs more
//! than the whole walk.

use std::{
    collections::{BTreeMap, btree_map::Iter},
    iter::Peekable,
};

/// The values of a map, for names that are asked about in their order.
#[derive(Debug)]
pub(crate) struct Walk<'a, V> {
    rest: Peekable<Iter<'a, String, V>>,
}

impl<'a, V> Walk<'a, V> {
    /// Begins before the first name.
    pub fn along(map: &'a BTreeMap<String, V>) -> Self {
        Self {
            rest: map.iter().peekable(),
        }
    }

    /// The value under this name, which does not come before the one that was asked about last.
    pub fn at(&mut self, name: &str) -> Option<&'a V> {
        while self.rest.next_if(|(key, _)| key.as_str() < name).is_some() {}
        let (_, value) = self.rest.next_if(|(key, _)| key.as_str() == name)?;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_finds_its_own_value_and_no_other() {
        let map =
            BTreeMap::from([("b", 1), ("d", 2), ("e", 3)].map(|(name, value)| (name.to_owned(), value)));
        let mut walk = Walk::along(&map);
        let found: Vec<Option<&i32>> = ["a", "b", "c", "e", "f"].map(|name| walk.at(name)).into();
        assert_eq!(found, [None, Some(&1), None, Some(&3), None]);
    }
}
