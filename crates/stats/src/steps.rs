//! Steps of equal width in which views cut time.

/// Limit for the steps of a recording.
pub const STEPS_MAX: u64 = 2_000;
/// Number of steps that fit on a screen.
const STEPS_WANTED: u64 = 40;

/// Returns a round width that cuts a span into few enough steps for a screen.
pub fn fitting_interval(span_ns: u64) -> u64 {
    interval_for(span_ns, STEPS_WANTED)
}

/// Returns a round width that cuts a span into at most `steps` steps.
pub fn interval_for(span_ns: u64, steps: u64) -> u64 {
    let mut unit = 1_000;
    loop {
        for factor in [1, 2, 5] {
            let interval = unit * factor;
            if span_ns / interval < steps {
                return interval;
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_fit() {
        assert_eq!(fitting_interval(0), 1_000);
        assert_eq!(fitting_interval(39_000_000_000), 1_000_000_000);
        assert_eq!(fitting_interval(60_000_000_000), 2_000_000_000);
        assert!(fitting_interval(u64::MAX) > u64::MAX / STEPS_WANTED);
    }
}
