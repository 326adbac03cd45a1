//! Translates numbers into names of a flag set.

use syscalls::shape::FlagSet;

/// Returns the names of the bits of `value`, and the bits without a name.
pub fn split(set: &'static FlagSet, value: u64) -> (Vec<&'static str>, u64) {
    let mut names = set.split(narrow(set, value));
    let found = names.by_ref().collect();
    (found, names.left())
}

/// Returns the name of a value in an enumeration.
pub fn name(set: &FlagSet, value: u64) -> Option<&'static str> {
    set.name_of(value)
}

/// Drops the upper half for 32-bit sets: their registers may hold anything there.
fn narrow(set: &FlagSet, value: u64) -> u64 {
    let wide = set.members.iter().any(|(v, _)| *v > u64::from(u32::MAX));
    if wide { value } else { value & u64::from(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SET: FlagSet = FlagSet {
        name: "O_",
        value_mask: 3,
        members: &[(0, "RD"), (1, "WR"), (2, "RW"), (0o30, "SYNC"), (0o10, "DATA"), (0o100, "NEW")],
        of_rows: None,
    };

    fn check(value: u64, expected: &[&str], rest: u64) {
        assert_eq!(split(&SET, value), (expected.to_vec(), rest), "{value:#o}");
    }

    #[test]
    fn takes_values_and_bits_apart() {
        check(0, &["RD"], 0);
        check(2, &["RW"], 0);
        check(3, &[], 3);
        check(0o101, &["WR", "NEW"], 0);
        check(0o10, &["RD", "DATA"], 0);
        check(0o30, &["RD", "SYNC"], 0);
        check(0o20, &["RD"], 0o20);
        check(0xffff_ffff_0000_0001, &["WR"], 0);
    }

    #[test]
    fn names_one_value() {
        assert_eq!(name(&SET, 0o100), Some("NEW"));
        assert_eq!(name(&SET, 77), None);
    }
}
