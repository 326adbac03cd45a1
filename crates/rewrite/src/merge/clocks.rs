//! Conversion of time stamps to the clock of another trace.

use trace::Trace;

/// Maximum difference between counter and wall clock of two starts on one machine, if it was not
/// rebooted between.
const AGREE_NS: i128 = 1_000_000_000;

/// A conversion.
pub enum Clock {
    /// Both traces use the same counter.
    Same,
    /// The wall clocks at both starts are compared.
    Wall {
        /// Start of the trace, in ticks of the other one.
        start: u64,
        /// Start of the trace, in its own ticks.
        own_start: u64,
        /// Ticks per second of the other trace, and of this one.
        ticks: (u64, u64),
    },
}

impl Clock {
    /// Makes the conversion from the clock of `trace` to that of `base`, which began earlier.
    pub fn between(trace: &Trace, base: &Trace) -> Clock {
        let (own, other) = (trace.preamble(), base.preamble());
        let wall_ns = i128::from(own.epoch_ns) - i128::from(other.epoch_ns);
        let counter_ns = i128::from(base.ticks_to_ns(own.epoch_tsc));
        if own.host == other.host && (wall_ns - counter_ns).abs() < AGREE_NS {
            return Clock::Same;
        }
        let ticks = (base.tsc_hz(), trace.tsc_hz());
        let after = scale(wall_ns.max(0) as u128, ticks.0, 1_000_000_000);
        Clock::Wall {
            start: other.epoch_tsc.saturating_add(after),
            own_start: own.epoch_tsc,
            ticks,
        }
    }

    /// Returns true if the conversion relies on two wall clocks.
    pub fn is_by_wall(&self) -> bool {
        matches!(self, Clock::Wall { .. })
    }

    /// Converts a time stamp.
    pub fn convert(&self, tsc: u64) -> u64 {
        match self {
            Clock::Same => tsc,
            Clock::Wall { start, own_start, ticks } => match tsc.checked_sub(*own_start) {
                Some(after) => start.saturating_add(scale(after.into(), ticks.0, ticks.1)),
                None => {
                    let before = u128::from(own_start.abs_diff(tsc));
                    start.saturating_sub(scale(before, ticks.0, ticks.1))
                }
            },
        }
    }
}

/// Returns `value * up / down`, saturating.
fn scale(value: u128, up: u64, down: u64) -> u64 {
    let scaled = value.saturating_mul(up.into()) / u128::from(down.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_start() {
        let clock = Clock::Wall { start: 1000, own_start: 50, ticks: (2, 1) };
        assert_eq!(clock.convert(50), 1000);
        assert_eq!(clock.convert(60), 1020);
        assert_eq!(clock.convert(40), 980);
        assert_eq!(clock.convert(u64::MAX), u64::MAX);
        let late = Clock::Wall { start: 10, own_start: 50, ticks: (2, 1) };
        assert_eq!(late.convert(0), 0);
        assert_eq!(Clock::Same.convert(7), 7);
    }
}
