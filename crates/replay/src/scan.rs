//! Compares directory listings as a whole: file systems return entries in their own order and in
//! portions of their own size.
//!
//! At the first portion of a recorded scan the whole directory is read. The names of each recorded
//! portion must be in it; at the recorded end none may be left over.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use syscalls::shape::{ArgKind, Of};

use crate::batch::{Batch, Call};
use crate::{clock, execute};

/// Offsets in a directory entry.
const RECORD_LEN_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;
const NAME_AT_OLD: usize = 18;
/// Scan id of calls that may return any part of a directory: after its end, or not started at the
/// beginning. Their entries are looked up one by one.
pub const ANYWHERE: u64 = u64::MAX;
/// Smaller buffers have no room for any entry.
const ENTRY_MIN: usize = 24;
/// Bytes read at a time.
const PORTION: usize = 64 << 10;
/// Most names of one directory; beyond that, names are not compared.
const NAMES_MAX: usize = 1 << 20;
/// The same of all directories: those that are not read to their end are never forgotten.
const ALL_NAMES_MAX: usize = 4 << 20;

/// A scan in progress.
#[derive(Default)]
pub struct Scan {
    /// Names not yet seen in the recording, with their types.
    left: BTreeMap<Vec<u8>, u8>,
    /// Incomplete: there were too many names, or a difference was already reported.
    pub partial: bool,
    /// A portion was compared.
    pub begun: bool,
    /// Ticks of each reading that counts for no recorded portion yet.
    readings: VecDeque<u64>,
}

impl Scan {
    /// Reads a whole directory, from its current offset.
    pub fn of(fd: i32) -> Result<Scan, i32> {
        let mut scan = Scan::default();
        let mut room = vec![0u8; PORTION];
        loop {
            let begin = clock::ticks();
            // SAFETY: the buffer is passed with its length.
            let got =
                unsafe { libc::syscall(libc::SYS_getdents64, fd, room.as_mut_ptr(), room.len()) };
            scan.readings.push_back(clock::ticks().wrapping_sub(begin));
            match got {
                0 => return Ok(scan),
                ..0 => {
                    return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
                }
                got => scan.left.extend(entries(&room[..got as usize], NAME_AT)),
            }
            if scan.left.len() > NAMES_MAX {
                scan.partial = true;
                return Ok(scan);
            }
        }
    }

    /// Ticks that reading has taken and that do not count yet.
    pub fn read_for(&self) -> u64 {
        self.readings.iter().sum()
    }

    /// Ticks that count for the next recorded portion, or for the end: what is left.
    pub fn counts(&mut self, is_end: bool) -> u64 {
        match is_end {
            true => self.readings.drain(..).sum(),
            false => self.readings.pop_front().unwrap_or(0),
        }
    }

    /// Number of names that are expected.
    pub fn names(&self) -> usize {
        self.left.len()
    }

    /// The same, without its names if there are too many of them, and of `others`.
    pub fn beside(self, others: usize) -> Scan {
        if self.names() <= ALL_NAMES_MAX.saturating_sub(others) {
            return self;
        }
        Scan { left: BTreeMap::new(), partial: true, begun: true, ..self }
    }

    /// A scan in which no more entries are expected. Fails unless it is a readable directory.
    pub fn of_nothing(fd: i32) -> Result<Scan, i32> {
        Scan::of(fd).map(|scan| Scan { left: BTreeMap::new(), partial: false, begun: true, ..scan })
    }

    /// Takes the names of a recorded portion out of the scan. Returns a name that the directory
    /// lacks. `exists` checks the current state, for entries that come and go during a scan.
    pub fn portion(
        &mut self,
        recorded: &[u8],
        old: bool,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Option<String> {
        for (name, kind) in entries(recorded, name_at(old)) {
            let found = self.left.remove(&name);
            if found.is_none() && !self.partial && !exists(&name) {
                return Some(name.escape_ascii().to_string());
            }
            let found = found.unwrap_or(libc::DT_UNKNOWN);
            if found != kind && found != libc::DT_UNKNOWN && kind != libc::DT_UNKNOWN {
                return Some(format!("{} of type {kind}", name.escape_ascii()));
            }
        }
        self.begun = true;
        None
    }

    /// At the end: returns a name of the directory that was not recorded.
    pub fn left_over(&self, exists: impl Fn(&[u8]) -> bool) -> Option<String> {
        if self.partial {
            return None;
        }
        let name = self.left.keys().find(|name| exists(name));
        name.map(|name| name.escape_ascii().to_string())
    }
}

/// Returns the names in a portion.
pub fn names(bytes: &[u8], old: bool) -> impl Iterator<Item = Vec<u8>> + '_ {
    entries(bytes, name_at(old)).map(|(name, _)| name)
}

const fn name_at(old: bool) -> usize {
    if old { NAME_AT_OLD } else { NAME_AT }
}

/// Returns the names and types in a portion. The old entry format has no type here.
fn entries(bytes: &[u8], name_at: usize) -> impl Iterator<Item = (Vec<u8>, u8)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..)?;
        let len = usize::from(u16::from_le_bytes(*rest.get(RECORD_LEN_AT..)?.first_chunk()?));
        let entry = rest.get(..len).filter(|entry| entry.len() > name_at)?;
        at += len;
        let name = entry[name_at..].split(|&c| c == 0).next().unwrap_or_default();
        let kind = if name_at == NAME_AT { entry[TYPE_AT] } else { libc::DT_UNKNOWN };
        Some((name.to_vec(), kind))
    })
}

/// Repeats a listing that failed in the recording, from the beginning of the directory, and returns
/// the result. `None`: the failure depends on which entry came next.
pub fn failure(fd: i32, size: u32, recorded: i64) -> Option<i64> {
    let mut room = vec![0u8; PORTION];
    let size = room.len().min(size as usize);
    // SAFETY: `size` is at most the buffer's length; the rest are numbers.
    let got = unsafe {
        let at = libc::lseek(fd, 0, libc::SEEK_CUR);
        libc::lseek(fd, 0, libc::SEEK_SET);
        let got = libc::syscall(libc::SYS_getdents64, fd, room.as_mut_ptr(), size);
        let got =
            if got < 0 { -i64::from(io::Error::last_os_error().raw_os_error()?) } else { got };
        libc::lseek(fd, at, libc::SEEK_SET);
        got
    };
    let of_its_size = recorded == -i64::from(libc::EINVAL) && size >= ENTRY_MIN;
    (got < 0 || !of_its_size).then_some(got)
}

/// Returns the recorded portion of a call, and whether it has the old entry format.
pub fn recorded_portion(batch: &Batch, call: &Call) -> Option<(Vec<u8>, bool)> {
    let (number, old) = call.args.iter().enumerate().find_map(|(number, arg)| match arg.kind {
        ArgKind::Buf(_, Of::Dirents64, _) => Some((number, false)),
        ArgKind::Buf(_, Of::Dirents, _) => Some((number, true)),
        _ => None,
    })?;
    let piece = execute::find(batch, call, number, syscalls::record::part::WHOLE, 0, true)?;
    if (batch.stored_len(piece) as u64) < piece.true_len {
        return None;
    }
    Some((batch.stretches(piece).flatten().copied().collect(), old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: u8) -> Vec<u8> {
        let len = (NAME_AT + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; len];
        bytes[RECORD_LEN_AT..RECORD_LEN_AT + 2].copy_from_slice(&(len as u16).to_le_bytes());
        bytes[TYPE_AT] = kind;
        bytes[NAME_AT..NAME_AT + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn portions_are_taken_out_of_the_whole() {
        let whole = [entry("a", 8), entry("bb", 4), entry("ccc", 0)].concat();
        let scan = || Scan { left: entries(&whole, NAME_AT).collect(), ..Scan::default() };
        let (there, gone) = (|_: &[u8]| true, |_: &[u8]| false);
        let mut good = scan();
        assert_eq!(good.portion(&[entry("ccc", 8), entry("a", 8)].concat(), false, gone), None);
        assert_eq!(good.left_over(there).as_deref(), Some("bb"));
        assert_eq!(good.left_over(gone), None, "it was removed during the scan");
        assert_eq!(good.portion(&entry("bb", 4), false, gone), None);
        assert_eq!(good.left_over(there), None);
        assert_eq!(scan().portion(&entry("d", 8), false, gone).as_deref(), Some("d"));
        assert_eq!(scan().portion(&entry("d", 8), false, there), None, "it was made meanwhile");
        assert!(scan().portion(&entry("bb", 8), false, there).is_some());
    }

    #[test]
    fn what_reading_took_counts_once() {
        let mut scan = Scan { readings: [5, 7, 11].into(), ..Scan::default() };
        assert_eq!((scan.read_for(), scan.counts(false), scan.counts(true)), (23, 5, 18));
        assert_eq!((scan.read_for(), scan.counts(false), scan.counts(true)), (0, 0, 0));
    }

    #[test]
    fn torn_portions_are_harmless() {
        let bytes = entry("abc", 8);
        for end in 0..bytes.len() {
            assert!(entries(&bytes[..end], NAME_AT).count() <= 1);
        }
        assert_eq!(entries(&[0; 64], NAME_AT).count(), 0);
    }
}
