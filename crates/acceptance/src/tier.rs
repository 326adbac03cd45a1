//! Amount of testing: a short tier for every change, a long one before a release.

/// Environment variable that selects the long tier.
pub const VARIABLE: &str = "REENACT_SOAK";

/// Returns whether the long tier is selected.
pub fn is_long() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Returns the number of rounds in this tier.
pub fn rounds(short: u32, long: u32) -> u32 {
    if is_long() { long } else { short }
}

/// Returns the seed for random programs and moments; `REENACT_SEED` repeats an earlier run.
pub fn seed() -> u64 {
    std::env::var("REENACT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_251_121)
}

/// A small random number generator (splitmix64), deterministic for a seed.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }
}
