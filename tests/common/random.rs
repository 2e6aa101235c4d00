//! Numbers that look like chance and are the same at each run (splitmix64): the test binaries' and the unit tests'.

/// A generator, from its seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

#[allow(dead_code, reason = "each test binary uses its own part of it")]
impl Random {
    /// Returns a number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 33) % limit
    }

    /// Returns an index below a limit.
    pub(crate) fn index(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }
}
