//! How long pieces of memory are copied into the stream, which another processor reads: through the caches, or
//! past them. Which is faster differs from processor to processor, by a factor of two either way, and with how
//! soon the other one reads. So both are timed.

use core::cell::Cell;

/// Length from which a copy is a long one.
pub const LONG_BYTES: u64 = 1024;
/// Of so many copies one goes the way that seems slower, lest it has become the faster one.
const TRIED_EVERY: u32 = 64;
/// A copy counts as at most so many times what they took before: the thread may have waited meanwhile.
const TIMES_MAX: u64 = 4;
/// The part of what is known of a way that one copy changes.
const PART: u64 = 4;
/// Costs are of that many bytes: of fewer, many would round to nothing.
const UNIT_BYTES: u64 = 16 << 10;

/// The way that a copy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Through,
    Past,
}

/// What a thread knows of both ways, all zeros in the beginning.
pub struct LongCopies {
    copies: Cell<u32>,
    through: Cost,
    past: Cost,
}

/// Ticks; 0: unknown.
struct Cost(Cell<u64>);

impl LongCopies {
    /// Chooses the way of the next copy.
    #[inline(always)]
    pub fn next(&self) -> Way {
        let copies = self.copies.get().wrapping_add(1);
        self.copies.set(copies);
        // One of which nothing is known is tried, as it seems to cost nothing.
        let past_is_faster = self.past.0.get() < self.through.0.get();
        let is_trial = copies.is_multiple_of(TRIED_EVERY);
        if past_is_faster != is_trial { Way::Past } else { Way::Through }
    }

    /// Notes what a copy has taken.
    #[inline(always)]
    pub fn took(&self, way: Way, bytes: u64, ticks: u64) {
        let cost = match way {
            Way::Through => &self.through,
            Way::Past => &self.past,
        };
        cost.learn((ticks.saturating_mul(UNIT_BYTES) / bytes.max(1)).max(1));
    }
}

impl Cost {
    #[inline(always)]
    fn learn(&self, now: u64) {
        let before = self.0.get();
        let known = match before {
            0 => now,
            // Rounded up: it is not unknown again.
            _ => {
                let now = now.min(before.saturating_mul(TIMES_MAX));
                (before - before / PART).saturating_add(now.div_ceil(PART))
            }
        };
        self.0.set(known);
    }
}

#[cfg(test)]
mod tests {
    use std::assert_eq;

    use super::*;

    /// Makes copies that take so many ticks for 4 KiB, and returns how many went past the caches.
    fn copy(copies: &LongCopies, count: u32, through: u64, past: u64) -> u32 {
        let mut went_past = 0;
        for _ in 0..count {
            let way = copies.next();
            went_past += u32::from(way == Way::Past);
            copies.took(way, 4096, if way == Way::Past { past } else { through });
        }
        went_past
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_tried() {
        // SAFETY: words of zeros are a value.
        let copies: LongCopies = unsafe { core::mem::zeroed() };
        assert_eq!(copy(&copies, 64, 500, 1000), 2, "the first time, and as a trial");
        assert_eq!(copy(&copies, 640, 500, 1000), 10);
        // It has become faster, which some trials show.
        assert!(copy(&copies, 640, 500, 100) > 400);
        assert_eq!(copy(&copies, 640, 500, 100), 630);
    }

    #[test]
    fn a_wait_does_not_decide() {
        // SAFETY: words of zeros are a value.
        let copies: LongCopies = unsafe { core::mem::zeroed() };
        copy(&copies, 10, 500, 1000);
        copies.took(Way::Through, 4096, u64::MAX);
        assert_eq!(copy(&copies, 8, 500, 1000), 0);
        copies.took(Way::Past, 1 << 40, 0);
        copies.took(Way::Past, 0, 0);
        assert!(copies.past.0.get() > 0, "it is known");
    }
}
