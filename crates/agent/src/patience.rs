//! How long a signal waits for the next call of its thread: so long by what the thread computes, as it cannot come to
//! a call while others have the CPUs.

use core::cell::Cell;

/// How long it computes meanwhile, and how long a call before which signals have arrived may wait.
pub const PATIENCE_NS: i64 = 10_000_000;
/// Where others have the CPUs, the signal waits so many times as long at most.
const ALARMS_MAX: u32 = 10;

pub struct Patience {
    /// What it had computed before; 0 where that may not be asked.
    since_ns: Cell<u64>,
    alarms_left: Cell<u32>,
}

impl Patience {
    pub fn begin(&self, computed_ns: Option<u64>) {
        self.since_ns.set(computed_ns.unwrap_or(0));
        self.alarms_left.set(ALARMS_MAX);
    }

    /// So much time has passed again. Returns whether others had the CPU for some of it.
    pub fn lasts(&self, computed_ns: Option<u64>) -> bool {
        self.alarms_left.set(self.alarms_left.get().saturating_sub(1));
        let computed = computed_ns.map(|now| now.saturating_sub(self.since_ns.get()));
        let is_early = computed.is_some_and(|ns| ns < PATIENCE_NS as u64 / 10 * 9);
        is_early && self.alarms_left.get() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{ALARMS_MAX, Patience};

    const MS: u64 = 1_000_000;

    #[test]
    fn it_lasts_while_others_compute_and_not_for_ever() {
        let patience = Patience { since_ns: 0.into(), alarms_left: 0.into() };
        assert!(!patience.lasts(Some(0)));
        patience.begin(Some(70 * MS));
        assert!(patience.lasts(Some(72 * MS)) && patience.lasts(Some(78 * MS)));
        assert!(!patience.lasts(Some(80 * MS)));
        patience.begin(Some(70 * MS));
        assert_eq!(
            (0..99).filter(|_| patience.lasts(Some(70 * MS))).count(),
            ALARMS_MAX as usize - 1
        );
        patience.begin(Some(70 * MS));
        assert!(!patience.lasts(None));
    }
}
