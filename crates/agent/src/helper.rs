//! Threads that do one piece of work with descriptors of their own, while their creator sleeps.
//!
//! So nothing appears among the program's descriptors, no fork inherits one of the agent's, and
//! closing them does not release record locks, as any close by the process itself would.

use core::ffi::CStr;
use linux_raw_sys::general as raw;
use syscalls::abi::files::CLOSE_RANGE_UNSHARE;

use crate::arch::entry;
use crate::context::Context;
use crate::needs::{HELPER_FLAGS, Need, needed};
use crate::sys;

const STACK_BYTES: u64 = 16 << 10;
const PAGE_BYTES: u64 = 4096;
const ESRCH: i64 = -3;

/// Memory of a helper: a working area, and the stack behind it.
pub struct Helper {
    pub memory: u64,
    len: u64,
}

impl Helper {
    /// Allocates a helper with a working area of at least that many bytes; `None` also if none may be used.
    pub fn new(bytes: u64) -> Option<Helper> {
        if sys::denies(needed::HELPERS) {
            return None;
        }
        let len = bytes.next_multiple_of(PAGE_BYTES) + STACK_BYTES;
        let memory = sys::map_memory(len as usize)? as u64;
        Some(Helper { memory, len })
    }

    /// Runs the helper to its end, in the process with this id. `argument` must outlive it.
    pub fn run(&self, process: u32, argument: u64, work: extern "C" fn(u64)) {
        let mask = sys::set_mask(u64::MAX);
        // SAFETY: signals are blocked, the stack is new, and the argument outlives the helper.
        let tid =
            unsafe { entry::reenact_helper(HELPER_FLAGS, self.memory + self.len, argument, work) };
        // It may still be exiting: the program must not see one thread more than it has.
        let is_there =
            || sys::call(Need::SendSignal, [u64::from(process), tid as u64, 0, 0, 0, 0]) != ESRCH;
        while tid > 0 && is_there() {
            sys::call(Need::Yield, [0; 6]);
        }
        sys::set_mask(mask);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        sys::call(Need::Unmap, [self.memory, self.len, 0, 0, 0, 0]);
    }
}

/// In the helper: unshares the descriptors and closes all from `first` on.
pub fn leave_descriptors(first: u64) -> bool {
    let all = u64::from(u32::MAX);
    sys::call(Need::LeaveDescriptors, [first, all, CLOSE_RANGE_UNSHARE, 0, 0, 0]) == 0
}

/// Argument and result of `read`.
struct Reading {
    path: u64,
    to: u64,
    room: u64,
    got: u64,
}

/// Reads a file from its beginning, as far as there is room, and calls `look` with the data.
/// `None`: reading failed, or no helper may be used.
pub fn read_file<T>(
    context: &Context,
    path: &CStr,
    room: u64,
    look: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    if sys::is_quiet() { None } else { read_before_filters(context, path, room, look) }
}

/// The same when a filter is about to be installed, of which the agent knows already.
pub fn read_before_filters<T>(
    context: &Context,
    path: &CStr,
    room: u64,
    look: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    let helper = Helper::new(room)?;
    let mut reading = Reading { path: path.as_ptr() as u64, to: helper.memory, room, got: 0 };
    helper.run(context.process().pid.get(), &raw mut reading as u64, read);
    let len = core::hint::black_box(reading.got) as usize;
    // SAFETY: agent memory, of which `len` bytes were read into.
    (len != 0)
        .then(|| look(unsafe { core::slice::from_raw_parts(helper.memory as *const u8, len) }))
}

/// Runs in the helper. Its descriptors are closed when it ends.
extern "C" fn read(reading: u64) {
    // SAFETY: the creator sleeps while the helper uses this.
    let reading = unsafe { &mut *(reading as *mut Reading) };
    if !leave_descriptors(0) {
        return;
    }
    let here = raw::AT_FDCWD as u64;
    let flags = u64::from(raw::O_RDONLY | raw::O_CLOEXEC);
    let fd = sys::call(Need::Open, [here, reading.path, flags, 0, 0, 0]);
    while fd >= 0 && reading.got < reading.room {
        let to = reading.to + reading.got;
        let left = reading.room - reading.got;
        let read = sys::call(Need::Read, [fd as u64, to, left, 0, 0, 0]);
        if read <= 0 {
            break;
        }
        reading.got += read as u64;
    }
}
