//! What the kernel copied between files: no call carries that data. It is read when the recording has
//! ended (`keep`).

mod keep;

use std::collections::BTreeMap;
use std::ops::Range;

use file_tree::Inode;

pub(crate) use keep::{Terms, keep};

/// Maximum number of source files remembered.
const SOURCES_MAX: usize = 1 << 16;
/// Maximum number of copy targets remembered for each source.
const TARGETS_MAX: usize = 4;
/// Maximum number of separate stretches for each source.
const STRETCHES_MAX: usize = 4096;
/// A file copied from unknown offsets is read whole if it is no longer than this, or than twice the
/// number of bytes copied.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// The part of a file that was copied.
pub(crate) enum Stretch {
    /// A range of offsets.
    At(Range<u64>),
    /// A number of bytes at an unknown offset.
    Somewhere(u64),
    /// The whole file.
    All,
}

/// A file as a program opened it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub path: Box<[u8]>,
    /// Its device and inode, if recorded.
    pub inode: Option<Inode>,
    /// The user who opened it.
    pub user: u32,
}

/// A file from which the kernel copied.
struct Copied {
    source: Place,
    /// Time stamp of the first copy.
    first: u64,
    stretches: Vec<Range<u64>>,
    /// Number of bytes copied from unknown offsets.
    somewhere: u64,
    targets: Vec<Place>,
}

/// All files from which the kernel copied.
#[derive(Default)]
pub(crate) struct Copies {
    by_source: BTreeMap<Box<[u8]>, Copied>,
}

impl Copies {
    /// Notes a copy that began at `tsc`.
    pub fn note(&mut self, source: Place, target: Option<Place>, stretch: Stretch, tsc: u64) {
        if !self.by_source.contains_key(&source.path) && self.by_source.len() >= SOURCES_MAX {
            return;
        }
        let copied = self.by_source.entry(source.path.clone()).or_insert_with(|| Copied {
            source,
            first: tsc,
            stretches: Vec::new(),
            somewhere: 0,
            targets: Vec::new(),
        });
        copied.first = copied.first.min(tsc);
        match stretch {
            Stretch::At(range) => copied.add(range),
            Stretch::Somewhere(bytes) => {
                copied.somewhere = copied.somewhere.saturating_add(bytes);
            }
            Stretch::All => copied.somewhere = u64::MAX,
        }
        let target = target.filter(|target| !copied.targets.contains(target));
        if copied.targets.len() < TARGETS_MAX {
            copied.targets.extend(target);
        }
    }
}

impl Copied {
    fn add(&mut self, range: Range<u64>) {
        let is_full = self.stretches.len() >= STRETCHES_MAX;
        match self.stretches.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(last) if is_full => {
                *last = last.start.min(range.start)..last.end.max(range.end);
            }
            _ => self.stretches.push(range),
        }
    }

    /// Returns the ranges to read of a file of that size; `None` if too much would have to be read.
    fn wanted(&self, size: u64) -> Option<Vec<Range<u64>>> {
        if self.somewhere == 0 {
            let mut sorted: Vec<Range<u64>> =
                self.stretches.iter().map(|range| range.start..range.end.min(size)).collect();
            sorted.retain(|range| !range.is_empty());
            sorted.sort_unstable_by_key(|range| range.start);
            sorted.dedup_by(|next, before| {
                let joins = next.start <= before.end;
                if joins {
                    before.end = before.end.max(next.end);
                }
                joins
            });
            return Some(sorted);
        }
        let is_little = size <= WHOLE_BYTES_MAX || size / 2 <= self.somewhere;
        is_little.then(|| std::iter::once(0..size).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        Place { path: path.as_bytes().into(), inode: Some((1, 2)), user: 0 }
    }

    fn noted(stretches: Vec<Stretch>) -> Copies {
        let mut copies = Copies::default();
        for stretch in stretches {
            copies.note(place("/a"), Some(place("/b")), stretch, 7);
        }
        copies
    }

    fn wanted(copies: &Copies, size: u64) -> Option<Vec<Range<u64>>> {
        copies.by_source[&b"/a"[..]].wanted(size)
    }

    #[test]
    fn stretches_are_read_as_far_as_they_are_known() {
        let at = |range| Stretch::At(range);
        let copies = noted(vec![at(10..20), at(20..30), at(5..12), at(100..200), at(500..600)]);
        assert_eq!(wanted(&copies, 150), Some(vec![5..30, 100..150]));
        assert_eq!(copies.by_source[&b"/a"[..]].targets.len(), 1);
        let whole = |size| Some(std::iter::once(0..size).collect::<Vec<_>>());
        assert_eq!(wanted(&noted(vec![at(10..20), Stretch::Somewhere(1)]), 150), whole(150));
        assert_eq!(wanted(&noted(vec![Stretch::All]), 150), whole(150));
        // A small part of a huge file, at an unknown offset.
        assert_eq!(wanted(&noted(vec![Stretch::Somewhere(1 << 20)]), 1 << 40), None);
        let much = noted(vec![Stretch::Somewhere(1 << 40)]);
        assert_eq!(wanted(&much, 1 << 40), whole(1 << 40));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room() {
        let scattered = (0..10_000).map(|n| Stretch::At(n * 10..n * 10 + 1)).collect();
        let copies = noted(scattered);
        let copied = &copies.by_source[&b"/a"[..]];
        assert_eq!(copied.stretches.len(), STRETCHES_MAX);
        assert_eq!(copied.stretches.last().map(|last| last.end), Some(99_991));
        let mut copies = Copies::default();
        for number in 0..SOURCES_MAX + 10 {
            copies.note(place(&format!("/{number}")), None, Stretch::All, 0);
        }
        assert_eq!(copies.by_source.len(), SOURCES_MAX);
    }
}
