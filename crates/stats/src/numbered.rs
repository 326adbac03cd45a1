//! Fast map from call numbers to values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use syscalls::table::NUMBER_LIMIT;

/// Limit for the numbers without a row; a hostile trace may have 65,000.
const UNKNOWN_MAX: usize = 256;

/// Returns the name of a call, `syscall_NNN` for a number without a row.
pub fn name(nr: u16) -> Cow<'static, str> {
    match syscalls::by_number(nr.into()) {
        Some(row) => Cow::Borrowed(row.name),
        None => Cow::Owned(format!("syscall_{nr}")),
    }
}

/// Map from call numbers to values.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    known: Vec<Option<Box<T>>>,
    unknown: BTreeMap<u16, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { known: Vec::new(), unknown: BTreeMap::new() }
    }
}

impl<T: Default> Numbered<T> {
    /// Returns the value of a number, creating it if missing.
    pub fn at(&mut self, nr: u16) -> &mut T {
        let index = usize::from(nr);
        if index >= NUMBER_LIMIT {
            let full = self.unknown.len() >= UNKNOWN_MAX && !self.unknown.contains_key(&nr);
            return self.unknown.entry(if full { u16::MAX } else { nr }).or_default();
        }
        if index >= self.known.len() {
            self.known.resize_with(NUMBER_LIMIT, || None);
        }
        self.known[index].get_or_insert_default()
    }

    /// Merges another map into this one.
    pub fn merge(&mut self, other: Numbered<T>, merge: impl Fn(&mut T, T)) {
        for (nr, theirs) in other.into_each() {
            merge(self.at(nr), theirs);
        }
    }
}

impl<T> Numbered<T> {
    /// Returns all values in order of their numbers.
    pub fn into_each(self) -> impl Iterator<Item = (u16, T)> {
        let known = self.known.into_iter().zip(0u16..);
        known.filter_map(|(slot, nr)| Some((nr, *slot?))).chain(self.unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_numbers_are_bounded() {
        let mut counts = Numbered::<u64>::default();
        for nr in 0..u16::MAX {
            *counts.at(nr) += 1;
        }
        let all: Vec<(u16, u64)> = counts.into_each().collect();
        assert_eq!(all.len(), NUMBER_LIMIT + UNKNOWN_MAX + 1);
        assert_eq!(all.iter().map(|(_, count)| count).sum::<u64>(), u64::from(u16::MAX));
    }
}
