//! Tracks read-only file mappings, which mprotect may make writable later.

use std::collections::BTreeMap;
use std::ops::Range;

use syscalls::mapping::Mapping;

/// Limit for the number of tracked mappings.
const MAPPINGS_MAX: usize = 1 << 16;

/// Shared read-only file mappings by process and start address; `F` identifies the file.
#[derive(Debug)]
pub struct ReadOnly<F> {
    all: BTreeMap<(u32, u64), (u64, F)>,
}

impl<F> Default for ReadOnly<F> {
    fn default() -> Self {
        ReadOnly { all: BTreeMap::new() }
    }
}

impl<F: Clone> ReadOnly<F> {
    /// Records a new mapping, replacing whatever was mapped at its addresses.
    pub fn mapped(&mut self, process: u32, at: u64, mapping: &Mapping, file: impl FnOnce() -> F) {
        let end = at.saturating_add(mapping.length);
        self.unmapped(process, at..end);
        let may_change = mapping.is_shared && !mapping.is_writable && mapping.fd.is_some();
        if may_change && at < end && self.all.len() < MAPPINGS_MAX {
            self.all.insert((process, at), (end, file()));
        }
    }

    /// Removes all mappings from an address range.
    pub fn unmapped(&mut self, process: u32, range: Range<u64>) {
        for (start, end, file) in self.within(process, &range) {
            self.all.remove(&(process, start));
            if start < range.start {
                self.all.insert((process, start), (range.start, file.clone()));
            }
            if end > range.end && self.all.len() < MAPPINGS_MAX {
                self.all.insert((process, range.end), (end, file));
            }
        }
    }

    /// Records that a range becomes writable. Returns the files mapped there, each with the number
    /// of its bytes in the range.
    pub fn made_writable(&mut self, process: u32, range: Range<u64>) -> Vec<(F, u64)> {
        let found = self.within(process, &range).into_iter();
        let files = found.map(|(start, end, file)| {
            (file, end.min(range.end).saturating_sub(start.max(range.start)))
        });
        let files = files.collect();
        self.unmapped(process, range);
        files
    }

    /// Forgets a process that ended or called exec.
    pub fn forget(&mut self, process: u32) {
        self.all.retain(|(owner, _), _| *owner != process);
    }

    fn within(&self, process: u32, range: &Range<u64>) -> Vec<(u64, u64, F)> {
        if self.all.is_empty() || range.is_empty() {
            return Vec::new();
        }
        let all = self.all.range((process, 0)..(process, range.end));
        let found = all.rev().take_while(|(_, (end, _))| *end > range.start);
        found.map(|((_, start), (end, file))| (*start, *end, file.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_writable_where_they_are_mapped() {
        let mut all = ReadOnly::default();
        let shared = Mapping::of(&[0, 0x4000, 1, 1, 5, 0]);
        let private = Mapping::of(&[0, 0x4000, 1, 2, 5, 0]);
        all.mapped(1, 0x10000, &shared, || "a");
        all.mapped(1, 0x20000, &private, || "private");
        all.mapped(2, 0x30000, &shared, || "of another");
        assert_eq!(all.made_writable(1, 0x20000..0x40000), []);
        assert_eq!(all.made_writable(1, 0x11000..0x12000), [("a", 0x1000)]);
        // The remaining parts on both sides.
        assert_eq!(all.made_writable(1, 0..0x11000), [("a", 0x1000)]);
        all.unmapped(1, 0x12000..0x13000);
        assert_eq!(all.made_writable(1, 0..u64::MAX), [("a", 0x1000)]);
        all.mapped(2, 0x31000, &private, || "over it");
        assert_eq!(all.made_writable(2, 0x31000..0x34000), []);
        all.forget(2);
        assert_eq!(all.made_writable(2, 0..u64::MAX), []);
    }
}
