//! Holes of mapped files: nothing was stored there yet.
//!
//! To watch memory by the page costs a program two page faults for each page that it stores to, and
//! the kernel cannot map many pages at once any more. Holes need no watch: what is a hole no longer
//! was stored to.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::kernel::{PAGE_BYTES, ZEROS, read};

/// Shorter holes are watched like data.
const HOLE_BYTES_MIN: u64 = 16 << 20;
/// Maximum number of holes of a mapping that are not.
const HOLES_MAX: usize = 256;
/// Maximum length of zeros at the end of a part.
const TAIL_BYTES_MAX: u64 = 2 << 20;
/// Maximum number of stretches of data that are looked for at a time. What follows counts as data.
const DATA_MAX: usize = 16 << 10;

/// Holes of a file, as offsets of whole pages, in order.
#[derive(Clone)]
pub(super) struct Holes {
    file: Arc<File>,
    parts: Vec<Range<u64>>,
}

impl Holes {
    /// The long holes in a part of a file, which was opened only to be looked at. `None` if there
    /// are none, or they cannot be found, or reading the file would show in its times.
    pub fn of(file: &File, part: Range<u64>) -> Option<Holes> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOATIME;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let mut parts = Vec::new();
        let mut from = part.start;
        let mut add = |hole: Range<u64>| {
            if hole.end.saturating_sub(hole.start) >= HOLE_BYTES_MIN && parts.len() < HOLES_MAX {
                parts.push(hole);
            }
        };
        data(&file, part.clone(), &mut |data| {
            add(from..data.start);
            from = data.end;
        });
        add(from..part.end);
        (!parts.is_empty()).then(|| Holes { file: Arc::new(file), parts })
    }

    /// The file, to be read.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The holes within a part of the file, as they are remembered.
    pub fn within(&self, part: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (start, end) = (part.start, part.end);
        let both = move |hole: &Range<u64>| hole.start.max(start)..hole.end.min(end);
        self.parts.iter().map(both).filter(|hole| !hole.is_empty())
    }

    /// What is no hole any more, within a part of the file.
    pub fn filled(&self, part: &Range<u64>) -> Vec<Range<u64>> {
        let mut filled = Vec::new();
        self.within(part).for_each(|hole| data(&self.file, hole, &mut |data| filled.push(data)));
        filled
    }

    /// The same without zeros at the end: the file system makes room for more pages than were stored
    /// to, and a file that grows is stored to there next.
    pub fn stored(&self, part: &Range<u64>) -> Vec<Range<u64>> {
        let mut filled = self.filled(part);
        for part in &mut filled {
            part.end = self.end_of_zeros(part);
        }
        filled.retain(|part| !part.is_empty());
        filled
    }

    /// Where the zeros begin with which a part of the file ends.
    fn end_of_zeros(&self, part: &Range<u64>) -> u64 {
        let from = part.start.max(part.end.saturating_sub(TAIL_BYTES_MAX));
        let mut bytes = Vec::new();
        read(&self.file, from, (part.end - from) as usize, &mut bytes);
        // Pages are compared faster than bytes are looked at.
        let last = bytes.chunks(ZEROS.len()).rposition(|page| *page != ZEROS[..page.len()]);
        from + last.map_or(0, |last| (last as u64 + 1) * PAGE_BYTES)
    }

    /// Takes out what is watched like data from now on.
    pub fn take(&mut self, taken: &Range<u64>) {
        let all = std::mem::take(&mut self.parts).into_iter();
        let rests = all.flat_map(|hole| {
            let (end, start) = (hole.end.min(taken.start), hole.start.max(taken.end));
            [hole.start..end, start..hole.end]
        });
        self.parts = rests.filter(|rest| !rest.is_empty()).collect();
    }
}

/// Calls `found` with the pages in a part of a file that are no hole.
fn data(file: &File, part: Range<u64>, found: &mut dyn FnMut(Range<u64>)) {
    let mut from = part.start;
    for _ in 0..DATA_MAX {
        let start = match seek(file, SeekFrom::Data(from)) {
            Ok(start) => start & !(PAGE_BYTES - 1),
            Err(Errno::NXIO) => return,
            Err(_) => from,
        };
        if start >= part.end {
            return;
        }
        let start = start.max(from);
        let end = seek(file, SeekFrom::Hole(start.max(from))).unwrap_or(part.end);
        let end = end.max(start + 1).next_multiple_of(PAGE_BYTES).min(part.end);
        found(start..end);
        from = end;
        if from >= part.end {
            return;
        }
    }
    found(from..part.end);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_was_a_hole_and_is_data_is_found() {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(200 * MIB).unwrap();
        file.write_all_at(&[1], 0).unwrap();
        file.write_all_at(&[1], 100 * MIB).unwrap();
        let Some(mut holes) = Holes::of(&file, 0..300 * MIB) else { return };
        let all = 0..300 * MIB;
        let found: Vec<_> = holes.within(&all).collect();
        assert!(found.len() == 2 && found[1].end == all.end, "{found:?}");
        assert!(holes.filled(&all).is_empty());
        file.write_all_at(&[2], 50 * MIB + 5000).unwrap();
        file.write_all_at(&[2], 250 * MIB).unwrap();
        let filled = holes.filled(&all);
        assert_eq!(filled.len(), 2);
        assert!(filled[0].contains(&(50 * MIB + 4096)) && filled[1].contains(&(250 * MIB)));
        assert!(filled.iter().all(|part| part.start % 4096 == 0 && part.end % 4096 == 0));
        assert_eq!(holes.filled(&(0..40 * MIB)), []);
        filled.iter().for_each(|part| holes.take(part));
        assert!(holes.filled(&all).is_empty());
        assert_eq!(holes.within(&all).count(), 4);
        assert!(Holes::of(&file, 0..8 * MIB).is_none(), "too short");
    }
}
