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

/// State of an address space, all zeros in the beginning.
pub struct Watch {
    /// One of [`held`].
    pub state: Number,
    /// All watched memory lies between these addresses; both are 0 if there is none.
    from: Word,
    to: Word,
}

impl Watch {
    /// Notes that memory is watched.
    pub fn add(&self, from: u64, len: u64) {
        let to = from.saturating_add(len);
        if !self.has_some() {
            self.from.set(from);
            self.to.set(to);
        }
        self.from.set(self.from.get().min(from));
        self.to.set(self.to.get().max(to));
    }

    /// Returns true if any memory may be watched.
    #[inline(always)]
    pub fn has_some(&self) -> bool {
        self.to.get() != 0
    }

    /// Returns true if some of this memory may be watched.
    #[inline(always)]
    pub fn may_have(&self, from: u64, len: u64) -> bool {
        from < self.to.get() && from.saturating_add(len) > self.from.get()
    }

    /// The lowest and the highest address of watched memory.
    pub fn bounds(&self) -> (u64, u64) {
        (self.from.get(), self.to.get())
    }

    /// Forgets everything: nothing is watched in this address space.
    pub fn forget(&self) {
        self.state.set(held::NOT_YET);
        self.from.set(0);
        self.to.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_watched_lies_between_all_that_is() {
        // SAFETY: words of zeros are a value.
        let watch: Watch = unsafe { core::mem::zeroed() };
        assert!(!watch.has_some() && !watch.may_have(0, u64::MAX));
        watch.add(0x5000, 0x1000);
        assert!(watch.has_some() && watch.may_have(0x4000, 0x1001));
        assert!(!watch.may_have(0x4000, 0x1000) && !watch.may_have(0x6000, 0x1000));
        watch.add(0x9000, u64::MAX);
        watch.add(0x2000, 0x1000);
        assert!(watch.may_have(0x2000, 1) && watch.may_have(u64::MAX - 1, 1));
        assert!(!watch.may_have(0x1000, 0x1000));
        watch.forget();
        assert!(!watch.has_some() && !watch.may_have(0x5000, 1));
    }
}
