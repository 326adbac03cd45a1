//! What is counted of the calls of one group, and the groups.

use std::hash::Hash;

use stats::histogram::Sparse;

use crate::mixing::Map;

/// Limit for the groups of one kind; calls of further ones are counted as left out.
const GROUPS_MAX: usize = 1 << 17;
/// Limit for the buckets of all histograms of one kind of groups. Beyond it percentiles are those of the
/// calls that were counted until then.
const BUCKETS_MAX: usize = 1 << 21;

/// What is counted of the calls of one group.
#[derive(Clone, Debug, Default)]
pub struct Amounts {
    /// Calls.
    pub count: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Time in those that returned.
    pub ns: u64,
    /// What they were of the time of the run: these parts of all threads sum up to it.
    pub run_ns: f64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Calls that made data durable.
    pub syncs: u64,
    /// Durations.
    pub durations: Sparse,
}

impl Amounts {
    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Amounts) {
        self.count += other.count;
        self.errors += other.errors;
        self.ns = self.ns.saturating_add(other.ns);
        self.run_ns += other.run_ns;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.syncs += other.syncs;
        self.durations.merge(&other.durations);
    }
}

/// One call, as it is counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// It failed.
    pub failed: bool,
    /// Its duration, if it returned.
    pub ns: Option<u64>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// It made data durable.
    pub syncs: bool,
}

/// Groups of calls by a key.
#[derive(Clone, Debug)]
pub struct Groups<K> {
    by_key: Map<K, Amounts>,
    buckets: usize,
    /// Calls that are in no group.
    pub left_out: u64,
}

impl<K> Default for Groups<K> {
    fn default() -> Groups<K> {
        Groups { by_key: Map::default(), buckets: 0, left_out: 0 }
    }
}

impl<K: Eq + Hash> Groups<K> {
    fn at(&mut self, key: K) -> Option<&mut Amounts> {
        if self.by_key.len() >= GROUPS_MAX && !self.by_key.contains_key(&key) {
            return None;
        }
        Some(self.by_key.entry(key).or_default())
    }

    /// Counts a call.
    pub fn count(&mut self, key: K, call: &Counted) {
        let has_room = self.buckets < BUCKETS_MAX;
        let Some(amounts) = self.at(key) else {
            self.left_out += 1;
            return;
        };
        amounts.count += 1;
        amounts.errors += u64::from(call.failed);
        amounts.bytes = amounts.bytes.saturating_add(call.bytes);
        amounts.syncs += u64::from(call.syncs);
        if let Some(ns) = call.ns {
            amounts.ns = amounts.ns.saturating_add(ns);
            if has_room {
                let is_new = amounts.durations.add(ns);
                self.buckets += usize::from(is_new);
            }
        }
    }

    /// Adds to what a group was of the time of the run.
    pub fn spend(&mut self, key: K, ns: f64) {
        if let Some(amounts) = self.at(key) {
            amounts.run_ns += ns;
        }
    }

    /// Returns all groups.
    pub fn into_each(self) -> impl Iterator<Item = (K, Amounts)> {
        self.by_key.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_groups_are_bounded() {
        let mut groups = Groups::default();
        let call = Counted { ns: Some(7), bytes: u64::MAX, ..Counted::default() };
        for key in 0..GROUPS_MAX + 100 {
            groups.count(key, &call);
            groups.count(0, &call);
        }
        assert_eq!(groups.left_out, 100);
        let (_, first) = groups.into_each().find(|(key, _)| *key == 0).unwrap();
        assert_eq!((first.bytes, first.count), (u64::MAX, GROUPS_MAX as u64 + 101));
    }
}
