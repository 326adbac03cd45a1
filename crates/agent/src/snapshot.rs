//! `--snapshot`: an existing file is stored whole before the first call that may change it.
//!
//! A short-lived helper thread reads the file while its creator sleeps; see [`crate::helper`].
//!
//! Signals are blocked from before the first look until the call is recorded, so that no handler
//! undoes the call and what was stored. Opening a regular file does not block. The file is marked
//! as stored after that: a thread that finds the mark begins to write after this call has ended. A
//! thread that does not find it stores the file again, which is harmless.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::FILES;
use syscalls::record::{
    Header, RecordKind, SNAPSHOT_BYTES_MAX, SNAPSHOT_WINDOW_BYTES, data_flag, part,
};

use crate::arch::head::phase;
use crate::context::{Context, mask_all};
use crate::helper::{self, Helper};
use crate::needs::Need;
use crate::stream::Stream;
use crate::{identity, sys};

/// Number of table entries that may hold a file's mark.
const PLACES: usize = 8;

/// File systems that show kernel state, from linux/magic.h: reading may have side effects.
const VIEWS: [i64; 13] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0xf97c_ff8c, // selinuxfs
    0x0765_5821, // resctrl
];

/// A file that a call may change, as its path argument names it.
pub struct Target {
    pub dir: u64,
    pub path: u64,
    /// Index of the path argument.
    pub arg: u8,
    /// Flags of open.
    pub flags: u64,
    /// Resolve flags of openat2; else 0.
    pub resolve: u64,
}

/// Work to do after the call is recorded.
pub struct Begun {
    /// Key of the file to mark; 0: none.
    key: u64,
    /// The file did not exist: if the call creates it, it need not be stored later.
    is_new: bool,
    /// Signal mask to restore.
    mask: Option<u64>,
}

impl Begun {
    /// Returns true if the file's identity was recorded.
    pub fn has_told(&self) -> bool {
        self.key != 0
    }
}

/// Returns true if files are to be stored at all.
#[inline(always)]
pub fn is_on(context: &Context) -> bool {
    context.arena.get().is_some_and(|arena| arena.control().snapshot.load(Ordering::Relaxed) != 0)
}

/// Returns true if files that are opened with these flags are to be stored.
#[inline(always)]
pub fn is_wanted(context: &Context, flags: u64) -> bool {
    is_on(context)
        && flags & u64::from(raw::O_PATH) == 0
        && flags & u64::from(raw::O_WRONLY | raw::O_RDWR | raw::O_TRUNC) != 0
}

/// Before a call that may change a file: stores the file, unless that was done already.
#[cold]
#[inline(never)]
pub fn before(context: &Context, target: &Target) -> Begun {
    let no_follow = target.flags & u64::from(raw::O_NOFOLLOW) != 0;
    let flags = if no_follow { u64::from(raw::AT_SYMLINK_NOFOLLOW) } else { 0 };
    let Some(stat) = identity::look(target.dir, target.path, flags) else {
        let is_new = target.flags & u64::from(raw::O_CREAT) != 0;
        return Begun { key: 0, is_new, mask: None };
    };
    let key = key_of(&stat);
    if stat.st_mode & raw::S_IFMT != raw::S_IFREG || is_marked(context, key) {
        return Begun { key: 0, is_new: false, mask: None };
    }
    let mask = sys::set_mask(mask_all(context));
    // Signals that cannot be masked are held until the call is recorded.
    context.phase.set(phase::IN_CALL);
    identity::record(context, target.arg, &stat);
    store(context, target, &stat);
    Stream::publish(context);
    Begun { key, is_new: false, mask: Some(mask) }
}

/// After the call is recorded: marks the file and restores the signal mask.
#[cold]
#[inline(never)]
pub fn after(context: &Context, begun: &Begun, ret: i64) {
    let mut key = begun.key;
    if begun.is_new && ret >= 0 {
        let here = u64::from(raw::AT_EMPTY_PATH);
        let made = identity::look(ret as u64, c"".as_ptr() as u64, here);
        key = made.map_or(0, |stat| key_of(&stat));
    }
    if key != 0 && ret >= 0 {
        mark(context, key);
    }
    if let Some(mask) = begun.mask
        && context.held_frame.get() == 0
    {
        sys::set_mask(mask);
    }
}

fn key_of(stat: &raw::stat) -> u64 {
    (stat.st_ino ^ stat.st_dev.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn places(key: u64) -> core::ops::Range<usize> {
    let first = (key >> 40) as usize % (FILES / PLACES) * PLACES;
    first..first + PLACES
}

fn is_marked(context: &Context, key: u64) -> bool {
    let Some(arena) = context.arena.get() else { return true };
    arena.files()[places(key)].iter().any(|place| place.load(Ordering::Relaxed) == key)
}

fn mark(context: &Context, key: u64) {
    let Some(arena) = context.arena.get() else { return };
    if is_marked(context, key) {
        return;
    }
    let places = &arena.files()[places(key)];
    for place in places {
        if place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    places[(key >> 8) as usize % PLACES].store(key, Ordering::Relaxed);
}

/// Argument and result of the helper.
#[repr(C)]
struct Job<'a> {
    target: &'a Target,
    stat: &'a raw::stat,
    /// Offset in the file, number of bytes to read, and where to put them.
    offset: u64,
    len: u64,
    to: u64,
    /// Number of bytes read; `None` if reading failed.
    read: Option<u64>,
}

/// Records the content of a file, one record for each window.
fn store(context: &Context, target: &Target, stat: &raw::stat) {
    let size = stat.st_size as u64;
    if size == 0 {
        return;
    }
    let room = size.min(SNAPSHOT_WINDOW_BYTES);
    let mut done = 0;
    if let Some(helper) = Helper::new(room) {
        let to = helper.memory;
        while done < size.min(SNAPSHOT_BYTES_MAX) && !context.silent.get() {
            let len = (size - done).min(SNAPSHOT_WINDOW_BYTES);
            let mut job = Job { target, stat, offset: done, len, to, read: None };
            helper.run(context.tgid.get(), &raw mut job as u64, read_window);
            let Some(read) = job.read else { break };
            if read != 0 {
                let words = [head(target, done, 0), read, read];
                Stream::record_with_bytes(context, &words, to, read);
            }
            done = if read == len { done + len } else { size };
        }
    }
    if done < size && !context.silent.get() {
        Stream::record(context, &[head(target, done, data_flag::FAULT), size - done, 0]);
    }
}

fn head(target: &Target, offset: u64, flags: u8) -> u64 {
    let window = (offset / SNAPSHOT_WINDOW_BYTES) as u16;
    let c = u32::from(part::SNAPSHOT) | u32::from(flags) << 8;
    Header::new(RecordKind::Data, target.arg, window, c).to_word()
}

/// Runs in the helper: leaves the program's descriptors behind, opens the file and reads.
extern "C" fn read_window(job: u64) {
    // SAFETY: the creator sleeps while the helper uses this.
    let job = unsafe { &mut *(job as *mut Job<'_>) };
    let Target { dir, path, .. } = *job.target;
    let has_dir = dir as u32 != raw::AT_FDCWD as u32;
    let first = if has_dir { u64::from(dir as u32) + 1 } else { 0 };
    if !helper::leave_descriptors(first) {
        return;
    }
    let fd = open(job.target, dir, path, u64::from(raw::O_NOATIME));
    // Only the owner of a file may ask for O_NOATIME.
    let fd = if fd < 0 { open(job.target, dir, path, 0) } else { fd };
    if fd < 0 {
        return;
    }
    let fd = fd as u64;
    if is_same_file(fd, job.stat) && !is_view(fd) {
        job.read = read(fd, job);
    }
    sys::call(Need::Close, [fd, 0, 0, 0, 0, 0]);
}

fn open(target: &Target, dir: u64, path: u64, more: u64) -> i64 {
    let always = raw::O_RDONLY | raw::O_CLOEXEC | raw::O_NONBLOCK | raw::O_NOCTTY;
    let flags = u64::from(always) | target.flags & u64::from(raw::O_NOFOLLOW) | more;
    if target.resolve == 0 {
        return sys::call(Need::Open, [dir, path, flags, 0, 0, 0]);
    }
    let how = [flags, 0, target.resolve];
    let how = [how.as_ptr() as u64, size_of_val(&how) as u64];
    sys::call(Need::OpenBy, [dir, path, how[0], how[1], 0, 0])
}

fn is_same_file(fd: u64, stat: &raw::stat) -> bool {
    let here = u64::from(raw::AT_EMPTY_PATH);
    let opened = identity::look(fd, c"".as_ptr() as u64, here);
    opened.is_some_and(|opened| (opened.st_dev, opened.st_ino) == (stat.st_dev, stat.st_ino))
}

fn is_view(fd: u64) -> bool {
    // SAFETY: `statfs` consists of integers, for which zero is a valid value.
    let mut stat: raw::statfs = unsafe { core::mem::zeroed() };
    sys::call(Need::FileSystem, [fd, &raw mut stat as u64, 0, 0, 0, 0]) != 0
        || VIEWS.contains(&(stat.f_type as i64))
}

/// Fills the window, or reads up to the end of the file.
fn read(fd: u64, job: &Job<'_>) -> Option<u64> {
    let mut done = 0;
    while done < job.len {
        let args = [fd, job.to + done, job.len - done, job.offset + done, 0, 0];
        match sys::call(Need::ReadAt, args) {
            0 => break,
            read if read > 0 => done += read as u64,
            _ => return None,
        }
    }
    Some(done)
}
