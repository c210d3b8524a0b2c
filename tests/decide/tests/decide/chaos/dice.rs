//! Chance with a seed: the same seed throws the same.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 of none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("small");
        usize::try_from(self.next() % end).expect("small")
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of several; there is one.
    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// One of several, if there is any.
    pub fn pick<T>(&mut self, all: impl IntoIterator<Item = T>) -> Option<T> {
        let mut all: Vec<T> = all.into_iter().collect();
        if all.is_empty() {
            return None;
        }
        let index = self.below(all.len());
        Some(all.swap_remove(index))
    }
}
