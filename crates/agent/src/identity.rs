//! Records the identity of files at their first use, before the program can change them.

use core::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use syscalls::record::{Header, Identity, RecordKind};

use crate::context::Context;
use crate::needs::Need;
use crate::stream::Stream;
use crate::{memory, sys};

/// Files recorded recently, by device, inode and path: the path too, because a second record is the
/// only sign that two paths lead to one file. Recording a file again after a collision is harmless.
const SEEN: usize = 512;
static SEEN_FILES: [AtomicU64; SEEN] = [const { AtomicU64::new(0) }; SEEN];

/// Maximum number of bytes of a path that are hashed.
const PATH_BYTES: usize = 256;

/// Returns the FNV-1a hash of a path, or of what could be read of it.
fn hash_of_path(context: &Context, path: u64) -> u64 {
    let mut text = [0u8; PATH_BYTES];
    let len = memory::string_len(context, path, PATH_BYTES as u64).unwrap_or(0);
    // SAFETY: `text` has room for as many bytes as are asked for.
    let left = unsafe { memory::copy(context, text.as_mut_ptr(), path, len) };
    let known = text.iter().take(len.saturating_sub(left) as usize);
    known.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A file whose identity is in the record of the open call.
#[derive(Clone, Copy, Default)]
pub struct Told(u64);

impl Told {
    /// Whether the record has one.
    pub const fn is_new(self) -> bool {
        self.0 != 0
    }

    /// The call was made: the file need not be recorded again. A call that a signal prevents is recorded
    /// anew, without what had been told of it.
    pub fn keep(self) {
        if self.0 != 0 {
            place_of(self.0).store(self.0, Ordering::Relaxed);
        }
    }
}

fn place_of(key: u64) -> &'static AtomicU64 {
    &SEEN_FILES[(key >> 55) as usize % SEEN]
}

/// Records the identity of a file, unless that was done recently. `name` is the path by which the
/// program names it.
#[must_use = "it is recorded each time until it is kept"]
pub fn tell(context: &Context, dir: u64, path: u64, flags: u64, arg: u8, name: u64) -> Told {
    let name = hash_of_path(context, name);
    let Some(stat) = look(dir, path, flags) else { return Told::default() };
    let file = stat.st_ino ^ stat.st_dev.rotate_left(40) ^ name;
    let key = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    if place_of(key).load(Ordering::Relaxed) == key {
        return Told::default();
    }
    record(context, arg, &stat);
    Told(key)
}

/// Returns the file behind a path, if it exists.
pub fn look(dir: u64, path: u64, flags: u64) -> Option<raw::stat> {
    // SAFETY: `stat` consists of integers, for which zero is a valid value.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    let at = &raw mut stat as u64;
    (sys::call(Need::StatPath, [dir, path, at, flags, 0, 0]) == 0).then_some(stat)
}

/// Returns the file behind a descriptor.
pub fn of_open(fd: u64) -> Option<raw::stat> {
    // SAFETY: `stat` consists of integers, for which zero is a valid value.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    let at = &raw mut stat as u64;
    (sys::call(Need::StatDescriptor, [fd, at, 0, 0, 0, 0]) == 0).then_some(stat)
}

/// Writes an IDENTITY record.
pub fn record(context: &Context, arg: u8, stat: &raw::stat) {
    let identity = Identity {
        dev: stat.st_dev,
        ino: stat.st_ino,
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        rdev: stat.st_rdev,
        mtime_ns: stat.st_mtime as i64 * 1_000_000_000 + stat.st_mtime_nsec as i64,
    };
    let mut words = [0u64; 1 + syscalls::record::IDENTITY_WORDS];
    words[0] = Header::new(RecordKind::Identity, arg, 0, 0).to_word();
    words[1..].copy_from_slice(&identity.to_words());
    Stream::record(context, &words);
}
