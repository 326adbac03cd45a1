//! Threads that do one piece of work with descriptors of their own, while their maker sleeps.
//!
//! Nothing shows among the program's descriptors, no fork inherits one of ours, and closing ours
//! does not take the process's record locks away, as any close by the process itself would.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;

use crate::context::Context;
use crate::{entry, sys};

/// A thread like any other; the first thing it does is to leave the program's descriptors behind.
pub const FLAGS: u64 = (raw::CLONE_VM
    | raw::CLONE_FS
    | raw::CLONE_FILES
    | raw::CLONE_SIGHAND
    | raw::CLONE_THREAD
    | raw::CLONE_VFORK
    | raw::CLONE_UNTRACED) as u64;
/// From linux/close_range.h.
pub const CLOSE_RANGE_UNSHARE: u64 = 2;
const STACK_BYTES: u64 = 16 << 10;
const PAGE_BYTES: u64 = 4096;
const ESRCH: i64 = -3;

/// Memory for a helper: some to work in, and a stack behind it.
pub struct Helper {
    pub memory: u64,
    len: u64,
}

impl Helper {
    /// With at least that many bytes to work in.
    pub fn new(bytes: u64) -> Option<Helper> {
        let len = bytes.next_multiple_of(PAGE_BYTES) + STACK_BYTES;
        let memory = sys::map_memory(len as usize)? as u64;
        Some(Helper { memory, len })
    }

    /// Runs the helper to its end, in the process with this id. `argument` outlives it.
    pub fn run(&self, process: u32, argument: u64, work: extern "C" fn(u64)) {
        let mask = sys::set_mask(u64::MAX);
        // SAFETY: signals are blocked, the stack is new, and the argument outlives the helper.
        let tid = unsafe { entry::reenact_helper(FLAGS, self.memory + self.len, argument, work) };
        // It may be on its way out still: the program is not to find one thread more than it has.
        let is_there =
            || sys::call(raw::__NR_tgkill, [u64::from(process), tid as u64, 0, 0, 0, 0]) != ESRCH;
        while tid > 0 && is_there() {
            sys::call(raw::__NR_sched_yield, [0; 6]);
        }
        sys::set_mask(mask);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        sys::call(raw::__NR_munmap, [self.memory, self.len, 0, 0, 0, 0]);
    }
}

/// In the helper: from this number on no descriptor of the program's is there any more.
pub fn leave_descriptors(first: u64) -> bool {
    let all = u64::from(u32::MAX);
    sys::call(raw::__NR_close_range, [first, all, CLOSE_RANGE_UNSHARE, 0, 0, 0]) == 0
}

/// What is to be read, and how much of it was.
struct Reading {
    path: u64,
    to: u64,
    room: u64,
    got: u64,
}

/// Reads a file from its beginning, as much as there is room for, and passes it on. `None`: that is
/// not possible here.
pub fn read_file<T>(
    context: &Context,
    path: &CStr,
    room: u64,
    look: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    if sys::is_quiet() || context.process().filtered.load(Ordering::Relaxed) {
        return None;
    }
    let helper = Helper::new(room)?;
    let mut reading = Reading { path: path.as_ptr() as u64, to: helper.memory, room, got: 0 };
    helper.run(context.process().pid, &raw mut reading as u64, read);
    let len = core::hint::black_box(reading.got) as usize;
    // SAFETY: memory of ours, of which so much was read into.
    (len != 0)
        .then(|| look(unsafe { core::slice::from_raw_parts(helper.memory as *const u8, len) }))
}

/// In the helper, whose descriptors close with it.
extern "C" fn read(reading: u64) {
    // SAFETY: the maker sleeps, and has lent us this.
    let reading = unsafe { &mut *(reading as *mut Reading) };
    if !leave_descriptors(0) {
        return;
    }
    let here = raw::AT_FDCWD as u64;
    let flags = u64::from(raw::O_RDONLY | raw::O_CLOEXEC);
    let fd = sys::call(raw::__NR_openat, [here, reading.path, flags, 0, 0, 0]);
    while fd >= 0 && reading.got < reading.room {
        let to = reading.to + reading.got;
        let left = reading.room - reading.got;
        let read = sys::call(raw::__NR_read, [fd as u64, to, left, 0, 0, 0]);
        if read <= 0 {
            break;
        }
        reading.got += read as u64;
    }
}
