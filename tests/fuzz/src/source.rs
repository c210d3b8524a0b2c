//! Choices from a seed, and the damage that is done to good bytes. It knows no target.

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

/// Pieces that parsers trip over, put anywhere.
const PIECES: [&[u8]; 18] = [
    b"\0",
    b"\"",
    b"\\u0000",
    b"\xff\xfe",
    b"[[[[[[[[",
    b"{}",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"4294967295",
    b",",
    b"=",
    b"@sha256:",
    b"../",
    b"%2e%2e",
    "é\u{202e}".as_bytes(),
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
];

/// Choices that are the same for the same seed.
pub struct Source(SmallRng);

impl Source {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// From 0 to below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// In one of `of` cases.
    pub fn once_in(&mut self, of: u32) -> bool {
        self.0.random_ratio(1, of)
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill(bytes.as_mut_slice());
        bytes
    }

    /// JSON that is nested in itself, some levels or very many, in lists and objects by turns.
    pub fn nested_json(&mut self) -> String {
        let most = 2 << self.below(13);
        let levels = self.below(most);
        let lists = self.once_in(2);
        let (open, close) = if lists { ("[", "]") } else { ("{\"a\":", "}") };
        format!("{}1{}", open.repeat(levels), close.repeat(levels))
    }

    /// Leaves one input in four as it is, and changes some places of the others.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        if self.once_in(4) {
            return;
        }
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let length = (1 << self.below(8)).min(bytes.len() - at);
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.bytes(1)[0],
                2 => drop(bytes.drain(at..at + length)),
                3 => {
                    let again = bytes[at..at + length].to_vec();
                    bytes.splice(at..at, again);
                }
                4 => {
                    let piece = self.one(&PIECES);
                    bytes.splice(at..at, piece.iter().copied());
                }
                5 => {
                    let piece = self.one(&PIECES);
                    let end = (at + piece.len()).min(bytes.len());
                    bytes.splice(at..end, piece.iter().copied());
                }
                _ => bytes.truncate(at.max(bytes.len() / 2)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_again() {
        for target in &crate::TARGETS {
            assert_eq!(target.generate(7), target.generate(7), "{}", target.name);
        }
        let mut all: Vec<_> = (0..64).map(|seed| Source::new(seed).bytes(8)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 64);
    }
}
