//! Records the identity of files at their first use, before the program can change them.

use core::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use syscalls::capture::Row;
use syscalls::record::{Header, Identity, RESULT, RecordKind};

use crate::call::{self, enter, exit};
use crate::context::{Context, Frame};
use crate::snapshot::{Begun, Target};
use crate::stream::Stream;
use crate::{memory, snapshot, sys};

/// Files recorded recently, by device, inode and path: the path too, because a second record is the
/// only sign that two paths lead to one file. Recording a file again after a collision is harmless.
const SEEN: usize = 512;
static SEEN_FILES: [AtomicU64; SEEN] = [const { AtomicU64::new(0) }; SEEN];

/// Offset of the resolve flags in `struct open_how`.
const RESOLVE: u64 = 16;

/// Maximum number of bytes of a path that are hashed.
const PATH_BYTES: usize = 256;

/// Continues a call that may change files named by its paths: records their identities first.
#[inline(never)]
pub fn changing_call(context: &mut Context, nr: u64, row: &'static Row, args: &[u64; 6]) -> i64 {
    let truncates = nr as u32 == raw::__NR_truncate && !context.silent && !sys::is_quiet();
    let stored = (truncates && snapshot::is_wanted(context, raw::O_TRUNC.into())).then(|| {
        let (dir, flags) = (raw::AT_FDCWD as u64, 0);
        snapshot::before(context, &Target { dir, path: args[0], arg: 0, flags, resolve: 0 })
    });
    let told = stored.as_ref().is_some_and(Begun::has_told);
    if !told && !context.silent && !sys::is_quiet() {
        for arg in row.changed_paths() {
            let dir = arg.dir.map_or(raw::AT_FDCWD as u64, |dir| args[usize::from(dir)]);
            let is_link = arg.link.is_meant(args);
            let flags = if is_link { u64::from(raw::AT_SYMLINK_NOFOLLOW) } else { 0 };
            let path = args[usize::from(arg.path)];
            let name = hash_of_path(context, path);
            tell(context, dir, path, flags, arg.path, name);
        }
        Stream::publish(context);
    }
    let ret = call::make(context, nr, args);
    exit(context, row, args, ret);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
    ret
}

/// Handles open calls. Files that may be truncated or created are recorded before, others after.
pub fn open_call(context: &mut Context, frame: &mut Frame) -> i64 {
    let nr = frame.rax;
    let args = frame.args();
    let row = enter(context, nr, &args, 0);
    let quiet = context.silent || sys::is_quiet();
    let (dir, path, flags) = match nr as u32 {
        raw::__NR_open => (None, 0, args[1]),
        raw::__NR_creat => (None, 0, u64::from(raw::O_CREAT | raw::O_TRUNC)),
        raw::__NR_openat => (Some(args[0]), 1, args[2]),
        _ => {
            let flags = memory::read::<u64>(context, args[2]).unwrap_or(0);
            (Some(args[0]), 1, flags)
        }
    };
    let stored = (!quiet && snapshot::is_wanted(context, flags)).then(|| {
        let is_openat2 = nr as u32 == raw::__NR_openat2;
        let resolve = is_openat2
            .then(|| memory::read::<u64>(context, args[2].wrapping_add(RESOLVE)))
            .flatten();
        let target = Target {
            dir: dir.unwrap_or(raw::AT_FDCWD as u64),
            path: args[usize::from(path)],
            arg: path,
            flags,
            resolve: resolve.unwrap_or(0),
        };
        snapshot::before(context, &target)
    });
    let told = quiet || stored.as_ref().is_some_and(Begun::has_told);
    let before = flags & u64::from(raw::O_CREAT | raw::O_TRUNC) != 0;
    if before && !told && flags & u64::from(raw::O_EXCL) == 0 {
        let dir = dir.unwrap_or(raw::AT_FDCWD as u64);
        let at = args[usize::from(path)];
        let name = hash_of_path(context, at);
        tell(context, dir, at, 0, path, name);
        Stream::publish(context);
    }
    let ret = call::make(context, nr, &args);
    if !before && !told && ret >= 0 {
        let flags = u64::from(raw::AT_EMPTY_PATH);
        let name = hash_of_path(context, args[usize::from(path)]);
        tell(context, ret as u64, c"".as_ptr() as u64, flags, RESULT, name);
    }
    exit(context, row, &args, ret);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
    ret
}

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

fn tell(context: &mut Context, dir: u64, path: u64, flags: u64, arg: u8, name: u64) {
    let Some(stat) = look(dir, path, flags) else { return };
    let file = stat.st_ino ^ stat.st_dev.rotate_left(40) ^ name;
    let key = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let seen = &SEEN_FILES[(key >> 55) as usize % SEEN];
    if seen.swap(key, Ordering::Relaxed) != key {
        record(context, arg, &stat);
    }
}

/// Returns the file behind a path, if it exists.
pub fn look(dir: u64, path: u64, flags: u64) -> Option<raw::stat> {
    // SAFETY: `stat` consists of integers, for which zero is a valid value.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    let at = &raw mut stat as u64;
    (sys::call(raw::__NR_newfstatat, [dir, path, at, flags, 0, 0]) == 0).then_some(stat)
}

/// Writes an IDENTITY record.
pub fn record(context: &mut Context, arg: u8, stat: &raw::stat) {
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
