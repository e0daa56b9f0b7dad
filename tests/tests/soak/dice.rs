//! Pseudo-random numbers from a seed.

/// A sequence that is the same for the same seed, on every machine
/// ([SplitMix64](https://doi.org/10.1145/2660193.2660195)).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence for one purpose: it does not depend on other sequences of the same seed.
    pub(crate) fn new(seed: u64, matter: u64) -> Self {
        let mut dice = Self(seed);
        let mixed = dice.next() ^ matter.wrapping_mul(0xd134_2543_de82_ef95);
        Self(mixed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than this limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Both bounds are possible.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True once in this number of times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these, by weight.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let total = from.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for (weight, what) in from {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *what,
            }
        }
        from[0].1
    }
}

#[test]
fn same_seed_gives_the_same_numbers() {
    let draw = |seed, matter| {
        let mut dice = Dice::new(seed, matter);
        (0..8).map(|_| dice.below(1000)).collect::<Vec<_>>()
    };
    assert_eq!(draw(7, 1), draw(7, 1));
    assert_ne!(draw(7, 1), draw(7, 2));
    assert_ne!(draw(7, 1), draw(8, 1));
}
