//! What the agent knows of the memory that the recorder watches for stores to mapped files.

use crate::cells::{Number, Word};

/// Whether the recorder has what it needs to watch this address space.
pub mod held {
    /// It was not asked yet.
    pub const NOT_YET: u32 = 0;
    pub const HELD: u32 = 1;
    /// The kernel or the recorder has refused.
    pub const REFUSED: u32 = 2;
}

/// Addresses between which some memory lies; both words are 0 if there is none. They only grow apart,
/// whichever threads add memory at a time.
pub struct Bounds {
    /// The lowest address, inverted.
    not_from: Word,
    to: Word,
}

impl Bounds {
    /// Notes that memory is among it.
    pub fn add(&self, from: u64, len: u64) {
        self.not_from.raise(!from);
        self.to.raise(from.saturating_add(len));
    }

    /// Returns true if there is any.
    #[inline(always)]
    pub fn has_some(&self) -> bool {
        self.to.get() != 0
    }

    /// Returns true if some of this memory may be among it.
    #[inline(always)]
    pub fn may_have(&self, from: u64, len: u64) -> bool {
        from < self.to.get() && from.saturating_add(len) > !self.not_from.get()
    }

    /// Takes over all of others.
    pub fn add_all(&self, (from, to): (u64, u64)) {
        if to != 0 {
            self.add(from, to - from);
        }
    }

    /// The lowest and the highest address.
    pub fn both(&self) -> (u64, u64) {
        (!self.not_from.get(), self.to.get())
    }

    fn forget(&self) {
        self.not_from.set(0);
        self.to.set(0);
    }
}

/// State of an address space, all zeros in the beginning.
pub struct Watch {
    /// One of [`held`].
    pub state: Number,
    /// Number of the process that the recorder knows the memory by.
    pub owner: Number,
    /// Memory that is watched.
    pub watched: Bounds,
    /// Memory that will be, once it can be written.
    pub later: Bounds,
}

impl Watch {
    /// Whether some of this memory may be watched, or be to be watched later.
    #[inline(always)]
    pub fn may_have(&self, from: u64, len: u64) -> bool {
        self.watched.may_have(from, len) || self.later.may_have(from, len)
    }

    /// Forgets everything: nothing is watched in this address space.
    pub fn forget(&self) {
        self.state.set(held::NOT_YET);
        self.owner.set(0);
        self.watched.forget();
        self.later.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_watched_lies_between_all_that_is() {
        // SAFETY: words of zeros are a value.
        let watch: Watch = unsafe { core::mem::zeroed() };
        let all = &watch.watched;
        assert!(!all.has_some() && !all.may_have(0, u64::MAX));
        all.add(0x5000, 0x1000);
        assert!(all.has_some() && all.may_have(0x4000, 0x1001));
        assert!(!all.may_have(0x4000, 0x1000) && !all.may_have(0x6000, 0x1000));
        all.add(0x9000, u64::MAX);
        all.add(0x2000, 0x1000);
        assert!(all.may_have(0x2000, 1) && all.may_have(u64::MAX - 1, 1));
        assert!(!all.may_have(0x1000, 0x1000));
        watch.later.add_all(all.both());
        assert!(watch.later.may_have(0x2000, 1) && !watch.later.may_have(0x1000, 0x1000));
        watch.forget();
        assert!(!all.has_some() && !all.may_have(0x5000, 1) && !watch.later.has_some());
    }
}
