//! The three representations of times.

const NS: i64 = 1_000_000_000;

/// Converts the ticks of a trace to nanoseconds since 1970.
pub struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// Makes the clock of a trace.
    pub fn of(trace: &trace::Trace) -> Clock {
        Clock { epoch_ns: trace.preamble().epoch_ns }
    }

    /// Converts ticks to nanoseconds since 1970.
    pub fn ns(&self, trace: &trace::Trace, tsc: u64) -> i64 {
        trace.ticks_to_ns(tsc).wrapping_add(self.epoch_ns as i64)
    }
}

/// Converts to units of 2^-32 seconds.
pub fn tfrac(seconds: i64, ns: i64) -> i64 {
    let fraction = ((ns as i128) << 32) / i128::from(NS);
    (seconds.wrapping_shl(32)).wrapping_add(fraction as i64)
}

/// Converts units of 2^-32 seconds to seconds and nanoseconds, such that [`tfrac`] inverts it.
pub fn from_tfrac(tfrac: i64) -> (i64, i64) {
    let fraction = i128::from(tfrac & 0xffff_ffff);
    // Rounded up, because `tfrac` rounds down.
    let ns = (fraction * i128::from(NS) + 0xffff_ffff) >> 32;
    (tfrac >> 32, ns as i64)
}

/// Unit of a time in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Whole seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Units of 2^-32 seconds.
    Tfrac,
}

/// Traces were made between 2001 and 2098, so the magnitude determines the unit.
const SECONDS_MAX: i64 = 1 << 33;
const NANOSECONDS_MAX: i64 = 4_070_000_000 * NS;

/// Returns the unit of a time since 1970.
pub fn unit_of(time: i64) -> Unit {
    if time <= SECONDS_MAX {
        Unit::Seconds
    } else if time <= NANOSECONDS_MAX {
        Unit::Nanoseconds
    } else {
        Unit::Tfrac
    }
}

/// Converts seconds with a fraction, as in the oldest traces.
pub fn seconds_to_ns(seconds: f64) -> i64 {
    (seconds * NS as f64) as i64
}

/// Converts a time to nanoseconds since 1970.
pub fn to_ns(time: i64) -> i64 {
    match unit_of(time) {
        Unit::Seconds => time.saturating_mul(NS),
        Unit::Nanoseconds => time,
        Unit::Tfrac => {
            let (seconds, ns) = from_tfrac(time);
            seconds.saturating_mul(NS).saturating_add(ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_units_are_told_apart() {
        // From real files of 2021, and from one of 2016 in its original unit.
        assert_eq!(to_ns(1_624_500_244), 1_624_500_244 * NS);
        assert_eq!(to_ns(1_624_500_244_596_745_246), 1_624_500_244_596_745_246);
        assert_eq!(to_ns(6_977_166_219_812_558_848) / NS, 1_624_498_101);
    }

    #[test]
    fn units_go_both_ways() {
        for ns in [0, 1, 2, 3, 499_999_999, 500_000_000, 999_999_998, 999_999_999] {
            assert_eq!(from_tfrac(tfrac(1_600_000_000, ns)), (1_600_000_000, ns), "{ns}");
        }
    }
}
