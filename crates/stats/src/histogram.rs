//! Histogram with buckets that grow with the value.
//!
//! Each value below 16 has its own bucket. Above, every octave has 16 buckets of equal width. So a
//! value is exact to a sixteenth of the power of two below it.

use crate::sheet::Cell;

/// Number of buckets per octave.
const PER_OCTAVE: usize = 16;
const OCTAVE_SHIFT: u32 = PER_OCTAVE.trailing_zeros();

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of values by bucket, up to the highest bucket in use.
    counts: Vec<u64>,
    /// Number of all values.
    pub count: u64,
    /// Sum of all values.
    pub sum: u64,
    /// The highest value.
    pub max: u64,
}

fn bucket(value: u64) -> usize {
    if value < PER_OCTAVE as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - OCTAVE_SHIFT;
    shift as usize * PER_OCTAVE + (value >> shift) as usize
}

fn first_of(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / PER_OCTAVE - 1;
    ((bucket % PER_OCTAVE + PER_OCTAVE) as u64) << shift
}

fn last_of(bucket: usize) -> u64 {
    match bucket {
        0..PER_OCTAVE => bucket as u64,
        _ => first_of(bucket) + ((1 << (bucket / PER_OCTAVE - 1)) - 1),
    }
}

/// The number of values between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The lowest value counted here.
    pub from: u64,
    /// The highest value counted here.
    pub to: u64,
    /// Number of values.
    pub count: u64,
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns the mean, 0 without values.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Returns what `of` finds in times as a cell, an empty one without values.
    pub fn ns(&self, of: impl FnOnce(&Histogram) -> u64) -> Cell {
        if self.count == 0 { Cell::Nothing } else { Cell::Ns(of(self)) }
    }

    /// Returns the highest value of the bucket that contains the quantile, at most the maximum.
    /// Returns 0 without values.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return last_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Returns the octaves from the first to the last one with values. 0 is an octave of its own.
    pub fn octaves(&self) -> Vec<Bar> {
        let mut bars: Vec<Bar> = Vec::new();
        for (bucket, &count) in self.counts.iter().enumerate() {
            let (from, to) = match first_of(bucket).checked_ilog2() {
                None => (0, 0),
                Some(octave) => (1 << octave, u64::MAX >> (63 - octave)),
            };
            match bars.last_mut() {
                Some(bar) if bar.from == from => bar.count += count,
                _ => bars.push(Bar { from, to, count }),
            }
        }
        let used = |bar: &Bar| bar.count > 0;
        let first = bars.iter().position(used).unwrap_or(bars.len());
        let end = bars.iter().rposition(used).map_or(first, |last| last + 1);
        bars[first..end].to_vec()
    }
}

/// A histogram of few values: it holds the buckets alone that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    buckets: Vec<(u16, u64)>,
    /// Number of all values.
    pub count: u64,
    /// The highest value.
    pub max: u64,
}

impl Sparse {
    /// Counts a value. Returns true if that took a new bucket.
    pub fn add(&mut self, value: u64) -> bool {
        self.count += 1;
        self.max = self.max.max(value);
        self.add_to(bucket(value) as u16, 1)
    }

    fn add_to(&mut self, bucket: u16, count: u64) -> bool {
        let found = self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
        match found {
            Ok(at) => self.buckets[at].1 += count,
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
        found.is_err()
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Sparse) {
        self.count += other.count;
        self.max = self.max.max(other.max);
        for (bucket, count) in &other.buckets {
            self.add_to(*bucket, *count);
        }
    }

    /// Returns what `of` finds in times as [`Histogram::ns`] does.
    pub fn ns(&self, of: impl FnOnce(&Sparse) -> u64) -> Cell {
        if self.count == 0 { Cell::Nothing } else { Cell::Ns(of(self)) }
    }

    /// Returns the quantile as [`Histogram::quantile`] does.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return last_of(usize::from(*bucket)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_the_same_quantiles() {
        let (mut all, mut few) = (Histogram::default(), Sparse::default());
        for value in [0, 3, 3, 900, 77, 1 << 40, u64::MAX, 12_345] {
            all.add(value);
            few.add(value);
        }
        let mut twice = few.clone();
        twice.merge(&few);
        for share in [0.1, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(few.quantile(share), all.quantile(share), "{share}");
            assert_eq!(twice.quantile(share), all.quantile(share), "{share}");
        }
        assert_eq!((twice.count, Sparse::default().quantile(0.5)), (16, 0));
    }

    #[test]
    fn buckets_cover_all_values_without_a_hole() {
        for bucket in 0..bucket(u64::MAX) {
            assert_eq!(last_of(bucket).wrapping_add(1), first_of(bucket + 1), "{bucket}");
            assert_eq!(super::bucket(first_of(bucket)), bucket);
            assert_eq!(super::bucket(last_of(bucket)), bucket);
        }
        assert_eq!(last_of(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_exact_to_a_sixteenth() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.add(value));
        for share in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = share * 100_000.0;
            let found = histogram.quantile(share) as f64;
            assert!(found >= exact && found <= exact * (1.0 + 1.0 / 16.0), "{share}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), 100_000);
        assert_eq!(histogram.mean(), 50_000);
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }

    #[test]
    fn merged_is_as_if_counted_together() {
        let (mut a, mut b, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in [0, 1, 17, 4096, u64::MAX] {
            a.add(value);
            both.add(value);
        }
        for value in [5, 1 << 40] {
            b.add(value);
            both.add(value);
        }
        b.merge(&a);
        assert_eq!(b, both);
    }

    #[test]
    fn octaves_have_their_bounds() {
        let mut histogram = Histogram::default();
        [0, 4095, 4096, 8191, 8192].into_iter().for_each(|value| histogram.add(value));
        let bars = histogram.octaves();
        assert_eq!(bars.first(), Some(&Bar { from: 0, to: 0, count: 1 }));
        assert_eq!(bars.last(), Some(&Bar { from: 8192, to: 16383, count: 1 }));
        assert!(bars.contains(&Bar { from: 4096, to: 8191, count: 2 }));
    }
}
