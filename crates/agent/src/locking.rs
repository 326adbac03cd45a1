//! mlockall: locks the program's memory, but not the agent's.
//!
//! The kernel's `mlockall` would include the arena: ordinary users may not lock that much, and all
//! of its pages would be allocated. So existing mappings are locked one by one, as listed in /proc,
//! except for the agent's. The kernel locks future mappings; the agent unlocks its own again.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::abi::errno;

use crate::arch::entry;
use crate::arch::head::phase;
use crate::call::{Call, enter, exit};
use crate::context::{Context, Space, mask_all, space};
use crate::needs::Need;
use crate::signal::real_mask;
use crate::site_table::AREA_BYTES;
use crate::{helper, sys};

const MAPS: &core::ffi::CStr = c"/proc/self/maps";
/// Sizes of the buffer for the list of mappings: the second is tried if the first is too small.
const ROOMS: [u64; 2] = [256 << 10, 16 << 20];
const PAGE_BYTES: u64 = 4096;

const EPERM: i64 = errno::result(errno::EPERM);
const ENOMEM: i64 = errno::result(errno::ENOMEM);

/// Handles mlockall and munlockall.
pub fn call(context: &Context, call: &Call) {
    let flags = call.args[0];
    let locks = call.row.handler == Handler::LockAll;
    enter(context, call, 0);
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let ours = locks.then(|| lock_all(context, flags)).flatten();
    let ret = ours.unwrap_or_else(|| call.make());
    if ret == 0 {
        let future = locks && flags & u64::from(raw::MCL_FUTURE) != 0;
        sys::LOCKS_FUTURE.store(future, Ordering::Relaxed);
    }
    exit(context, call, ret);
    sys::set_mask(real_mask(context.mask.get()));
}

/// Locks the program's mappings. `None`: leave the call to the kernel, with all mappings.
fn lock_all(context: &Context, flags: u64) -> Option<i64> {
    let [current, future, on_fault] =
        [raw::MCL_CURRENT, raw::MCL_FUTURE, raw::MCL_ONFAULT].map(u64::from);
    if flags & current == 0 || flags & !(current | future | on_fault) != 0 {
        return None;
    }
    let arena_len =
        context.arena.get().map_or(0, |arena| ring::arena_bytes(arena.pool_chunks()) as u64);
    let ours = Ours { space: space(), arena_len: arena_len.next_multiple_of(PAGE_BYTES) };
    for room in ROOMS {
        let locked = helper::read_file(context, MAPS, room, |maps| {
            ((maps.len() as u64) < room).then(|| lock_mapped(maps, flags, &ours))
        })?;
        if locked.is_some() {
            return locked;
        }
    }
    None
}

fn lock_mapped(maps: &[u8], flags: u64, ours: &Ours) -> i64 {
    let mut total = 0;
    ours.each_other(maps, |from, to| total += to - from);
    let mut limit = [0u64; 2];
    let at = &raw mut limit as u64;
    sys::call(Need::Limits, [0, u64::from(raw::RLIMIT_MEMLOCK), 0, at, 0, 0]);
    let all_at_once = |flags: u32| sys::call(Need::LockAll, [u64::from(flags), 0, 0, 0, 0, 0]);
    if total > limit[0] {
        // Succeeds only if the process may exceed its limit; allocates no pages.
        let ret = all_at_once(raw::MCL_CURRENT | raw::MCL_ONFAULT);
        if ret != 0 {
            return ret;
        }
        ours.each(|from, to| sys::unlock(from, to - from));
    }
    let on_fault = flags & u64::from(raw::MCL_ONFAULT);
    let ret = if flags & u64::from(raw::MCL_FUTURE) != 0 {
        all_at_once(raw::MCL_FUTURE | on_fault as u32)
    } else if sys::LOCKS_FUTURE.load(Ordering::Relaxed) {
        sys::call(Need::UnlockAll, [0; 6])
    } else {
        0
    };
    let how = if on_fault != 0 { u64::from(raw::MLOCK_ONFAULT) } else { 0 };
    let mut refused = ret;
    // A range that cannot be populated is locked all the same, as by the kernel's mlockall.
    ours.each_other(maps, |from, to| {
        let ret = sys::call(Need::Lock, [from, to - from, how, 0, 0, 0]);
        if ret == EPERM {
            refused = ret;
        }
    });
    if total > limit[0] && refused == EPERM { ENOMEM } else { refused }
}

/// Parses the address range of a line in the list; kernel addresses are not mappings.
fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let mut ends = [0u64; 2];
    let mut at = 0;
    for &byte in line {
        match byte {
            b'-' if at == 0 => at = 1,
            b' ' => break,
            _ => ends[at] = ends[at] << 4 | u64::from(char::from(byte).to_digit(16)?),
        }
    }
    (at == 1 && ends[0] < ends[1] && (ends[1] as i64) > 0).then_some((ends[0], ends[1]))
}

/// Mappings of the agent.
struct Ours<'a> {
    space: &'a Space,
    arena_len: u64,
}

impl Ours<'_> {
    fn each(&self, mut found: impl FnMut(u64, u64)) {
        found(entry::image_start(), entry::total_end());
        for area in self.space.areas() {
            let at = core::ptr::from_ref(area) as u64;
            found(at, at + size_of_val(area) as u64);
        }
        self.space.sites.stub_areas().for_each(|(base, _)| found(base, base + AREA_BYTES));
        if let Some(catalog) = self.space.catalog.get() {
            let at = core::ptr::from_ref(catalog.modules()) as u64;
            found(at, at + (ring::CATALOG_BYTES as u64).next_multiple_of(PAGE_BYTES));
        }
        for arena in &self.space.arenas {
            let at = arena.load(Ordering::Relaxed);
            if at != 0 {
                found(at, at + self.arena_len);
            }
        }
    }

    /// Calls `found` with all ranges in this list that are not the agent's.
    fn each_other(&self, maps: &[u8], mut found: impl FnMut(u64, u64)) {
        for line in maps.split(|&byte| byte == b'\n') {
            let Some((mut from, to)) = range_of(line) else { continue };
            while from < to {
                let (mut next, mut behind) = (to, to);
                self.each(|start, end| {
                    if end > from && start < next {
                        (next, behind) = (start.max(from), end.min(to));
                    }
                });
                if from < next {
                    found(from, next);
                }
                from = behind;
            }
        }
    }
}
