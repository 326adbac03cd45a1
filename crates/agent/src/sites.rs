//! Patches call sites to jump to stubs.
//!
//! A site that is hit often is patched to jump to its stub, if the supervisor found that safe. It
//! is not patched while a thread is on its way back to it (`Head::slow_site`): the thread would
//! return into the patched bytes.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::Site;

use crate::arch::frames::{CALL_BYTES, UContext};
use crate::arch::stubs::{self, JUMP_BYTES, Parts, STUB_BYTES};
use crate::context::{Context, area, space};
use crate::needs::Need;
use crate::site_table::{AREA_BYTES, Entry, REACH};
use crate::sys;
use crate::text::{self, Known};
use crate::text_map::Map;

const READ_EXEC: u64 = 5;
/// How far below a site its area of stubs is, if that is free: beyond most of what programs map.
const AWAY: u64 = 1 << 30;

/// Patches a site if that is known to be safe and no thread is about to return to it.
pub fn patch(context: &Context, entry: &Entry, site: u64, hits: u32) {
    if sys::is_quiet() || space().patched_enough.get() {
        return;
    }
    let known = match text::site(site) {
        Known::Patchable(known, _) => known,
        Known::Never => return entry.settled.store(true, Ordering::Relaxed),
        Known::NotYet if hits.is_power_of_two() => return text::ask_for(context, site),
        Known::NotYet => return,
    };
    let at = site - u64::from(known.before);
    let space = space();
    space.lock.with(|_| {
        if entry.settled.load(Ordering::Relaxed) {
            return;
        }
        if !is_as_analysed(at, &known) {
            entry.settled.store(true, Ordering::Relaxed);
            return;
        }
        let mut stub = entry.stub.load(Ordering::Relaxed);
        if stub == 0 {
            let Some(new) = space.sites.new_stubs(at, 1, map_near) else { return };
            stub = new;
            if !while_writable(stub, STUB_BYTES, || give_stub(entry, stub, site, &known)) {
                entry.settled.store(true, Ordering::Relaxed);
                return;
            }
        }
        if known.before == 0 && is_in_flight(site, context) {
            return;
        }
        entry.settled.store(true, Ordering::Relaxed);
        // SAFETY: writable, and `is_as_analysed` has checked the cache line.
        while_writable(at, JUMP_BYTES, || unsafe { stubs::write_jump(at, stub) });
    });
}

/// Patches sites of a mapping that no thread executes yet, so that none is in the way.
pub fn patch_unused(map: &Map, known: impl Iterator<Item = Site> + Clone) {
    let space = space();
    let count = known.clone().count() as u64;
    space.lock.with(|_| {
        let Some(first) = space.sites.new_stubs(map.start, count, map_near) else { return };
        // Other processes may have added sites to the profile since: there are no stubs for them.
        let mut free = (first..first + count * STUB_BYTES).step_by(STUB_BYTES as usize);
        let write = || {
            for known in known {
                let site = map.start + (u64::from(known.offset) - map.offset);
                let at = site - u64::from(known.before);
                let Some(entry) = space.sites.entry_for(site) else { continue };
                if entry.settled.load(Ordering::Relaxed) || !is_as_analysed(at, &known) {
                    continue;
                }
                let Some(stub) = free.next() else { break };
                give_stub(entry, stub, site, &known);
                entry.settled.store(true, Ordering::Relaxed);
                // SAFETY: writable, and `is_as_analysed` has checked the cache line.
                unsafe { stubs::write_jump(at, stub) };
            }
        };
        let len = map.end - map.start;
        while_writable(first, count * STUB_BYTES, || {
            while_writable(map.start, len, write);
        });
    });
}

/// Returns true if the bytes to change are as analysed, and the five bytes of the jump lie in one
/// cache line: then a thread sees all of the jump or nothing.
fn is_as_analysed(at: u64, known: &Site) -> bool {
    let len = usize::from(known.before) + usize::from(known.after).max(2);
    // SAFETY: these bytes lie around a `syscall` instruction in mapped text.
    let now = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
    known.bytes.get(..len) == Some(now) && stubs::can_jump_at(at)
}

/// Writes the stub, which is writable now. New slow calls return through it; while older ones are
/// under way the site is not patched.
fn give_stub(entry: &Entry, stub: u64, site: u64, known: &Site) {
    // SAFETY: the stub is agent memory that no thread uses yet.
    unsafe { (stub as *mut stubs::Code).write(stubs::code(stub, site, known)) };
    let replaced = if known.before == 0 { u32::from(known.after) } else { 0 };
    entry.replaced.store(replaced, Ordering::Relaxed);
    entry.stub.store(stub, Ordering::SeqCst);
}

/// Returns true if another thread is in a slow call that returns to this site.
fn is_in_flight(site: u64, except: &Context) -> bool {
    space().areas().map(|area| &area.context).any(|context| {
        !core::ptr::eq(context, except)
            && context.area_state.load(Ordering::Relaxed) == area::USED
            && context.slow_site.load(Ordering::SeqCst) == site
    })
}

/// Maps executable memory within reach: away from `near`, where the program may have unmapped
/// something and look at the hole, else anywhere, or below `near`, as the heap may grow above it.
fn map_near(near: u64) -> Option<u64> {
    let flags = u64::from(raw::MAP_PRIVATE | raw::MAP_ANONYMOUS);
    let away = near.saturating_sub(AWAY) & !0xffff;
    let anywhere = [away, AREA_BYTES, READ_EXEC, flags, u64::MAX, 0];
    let anywhere = sys::call(Need::MapCode, anywhere) as u64;
    if (anywhere as i64) > 0 && anywhere.abs_diff(near) < REACH {
        sys::keep_unlocked(anywhere, AREA_BYTES);
        return Some(anywhere);
    }
    if (anywhere as i64) > 0 {
        sys::call(Need::Unmap, [anywhere, AREA_BYTES, 0, 0, 0, 0]);
    }
    let flags = flags | u64::from(raw::MAP_FIXED_NOREPLACE);
    let mut distance = 1u64 << 20;
    while distance < REACH {
        let hint = near.checked_sub(distance)? & !0xffff;
        if hint < 0x1_0000 {
            return None;
        }
        let at = sys::call(Need::MapCodeAt, [hint, AREA_BYTES, READ_EXEC, flags, u64::MAX, 0]);
        if at as u64 == hint {
            sys::keep_unlocked(hint, AREA_BYTES);
            return Some(hint);
        }
        distance += 1 << 20;
    }
    None
}

/// Makes text writable while `work` runs. Returns false if the system does not allow it.
fn while_writable(at: u64, len: u64, work: impl FnOnce()) -> bool {
    let page = at & !4095;
    let pages = (at + len).next_multiple_of(4096) - page;
    let allowed = sys::make_writable(page, pages);
    if allowed {
        work();
        sys::make_text(page, pages);
    }
    allowed
}

/// Lets stubs make their calls directly. Returns false if the system does not allow that.
pub fn make_calls_in_stubs() -> bool {
    let space = space();
    space.lock.with(|_| {
        space.sites.stub_areas().all(|(base, used)| {
            while_writable(base, used, || {
                for stub in (base..base + used).step_by(STUB_BYTES as usize) {
                    // SAFETY: stubs are never unmapped, and this one is writable now.
                    unsafe { stubs::make_call_in(stub) };
                }
            })
        })
    })
}

/// Returns the address in a site's stub at which the program continues.
pub fn back_of(stub: u64) -> u64 {
    // SAFETY: stubs are never unmapped.
    stub + unsafe { Parts::at(stub) }.back
}

/// Replaces an address in a stub by the corresponding address at the original site.
pub fn show_original(uc: &mut UContext) {
    if let Some(stub) = space().sites.stub_of(uc.address()) {
        // SAFETY: the address is in a stub, and stubs are never unmapped.
        let parts = unsafe { Parts::at(stub) };
        uc.set_address(parts.original(uc.address() - stub));
    }
}

/// Inverse of `show_original`: returns where execution continues for an address that the program
/// sees. Bytes after a patched site are in its stub.
pub fn real_address(shown: u64) -> u64 {
    for back in CALL_BYTES..=stubs::REPLACED_MAX {
        let Some(entry) = space().sites.find(shown.wrapping_sub(back)) else { continue };
        let replaced = u64::from(entry.replaced.load(Ordering::Relaxed));
        if back < replaced {
            return back_of(entry.stub.load(Ordering::Acquire)) + (back - CALL_BYTES);
        }
    }
    shown
}
