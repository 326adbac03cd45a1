//! Distributions of call durations, in little memory.

use serde::{Deserialize, Serialize};

/// Buckets for each doubling.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Enough for all 64-bit numbers.
const BUCKETS: usize = (64 - STEP_BITS as usize) * STEPS as usize + STEPS as usize;

/// Nanoseconds, counted in buckets with a precision of 1/16.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Latencies {
    count: u64,
    max: u64,
    /// Of all values.
    #[serde(default)]
    sum: u64,
    /// Grows to the highest bucket in use.
    buckets: Vec<u32>,
}

impl Latencies {
    /// Adds a value.
    pub fn record(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
    }

    /// Adds all values of another distribution.
    pub fn add(&mut self, other: &Latencies) {
        let len = other.buckets.len().min(BUCKETS);
        if len > self.buckets.len() {
            self.buckets.resize(len, 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the value that `permille` thousandths of the values do not exceed.
    pub fn permille(&self, permille: u64) -> u64 {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return upper_end(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// Distributions by call number.
#[derive(Default)]
pub struct ByCall(Vec<Latencies>);

impl ByCall {
    /// Returns the distribution of a call.
    pub fn of(&mut self, nr: u16) -> &mut Latencies {
        if self.0.is_empty() {
            self.0.resize_with(syscalls::table::NUMBER_LIMIT, Latencies::default);
        }
        // Numbers without a row are never replayed.
        let last = self.0.len() - 1;
        &mut self.0[usize::from(nr).min(last)]
    }

    /// Returns the distributions that have values.
    pub fn into_calls(self) -> impl Iterator<Item = (u16, Latencies)> {
        (0u16..).zip(self.0).filter(|(_, latencies)| latencies.count > 0)
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let doubling = ns.ilog2() - STEP_BITS;
    let step = ns >> doubling & (STEPS - 1);
    ((u64::from(doubling) + 1) * STEPS + step) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let doubling = bucket / STEPS - 1;
    let low = (STEPS + bucket % STEPS) << doubling;
    low + ((1 << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_to_a_sixteenth() {
        for ns in [0, 1, 15, 16, 17, 100, 1000, 123_456_789, u64::MAX] {
            let end = upper_end(bucket_of(ns));
            assert!(end >= ns && end - ns <= ns / 16, "{ns}: {end}");
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn ranks() {
        let mut all = Latencies::default();
        (1..=1000).for_each(|ns| all.record(ns));
        assert!((500..=532).contains(&all.permille(500)));
        assert!((990..=1000).contains(&all.permille(990)));
        assert_eq!((all.max(), all.count(), all.sum()), (1000, 1000, 500_500));
    }
}
