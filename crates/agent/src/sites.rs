//! Call sites: handles SIGSYS from unpatched sites, and patches sites to jump to stubs.
//!
//! A site that is hit often is patched to jump to its stub, if the supervisor found that safe. A
//! stub is 64 bytes near its site:
//!
//! ```text
//! [mov $nr, %eax]            when the jump replaced the instruction before the syscall
//! mov $site, %r11
//! lea back(%rip), %rcx
//! jmp *%gs:ENTRY             into the agent, which returns to `back`
//! syscall                    for calls that bypass the agent, see `native`
//! back: instructions that the jump replaced after the syscall
//! jmp site + their end
//! ```
//!
//! A site is not patched while a thread is on its way back to it (`Context::slow_site`): the thread
//! would return into the patched bytes.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use ring::Site;

use crate::context::{Context, current, phase, slow, space};
use crate::deliver::{Registers, SYS_USER_DISPATCH, UContext, arch_of, is_at_call, si_code};
use crate::maps::{Known, Map};
use crate::{entry, maps, profile, signals, start, sys};

/// Maximum number of sites remembered; later ones stay slow.
const SITES: usize = 1024;
const INDEX: usize = 2 * SITES;
/// Number of index entries tried for a site.
const PROBES: usize = 32;
/// Hits before a site is patched: a patch costs as much as a few slow calls.
const HITS: u32 = 4;
const STUB_BYTES: u64 = 64;
const JUMP_BYTES: u64 = 5;
const AREA_BYTES: u64 = 64 << 10;
const AREAS: usize = 64;
/// Maximum distance of a stub, with a margin below the reach of a jump.
const REACH: u64 = (1 << 31) - (1 << 20);

const READ_WRITE_EXEC: u64 = 7;
const READ_EXEC: u64 = 5;
pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// A call site that was hit.
pub struct Entry {
    site: AtomicU64,
    stub: AtomicU64,
    hits: AtomicU32,
    /// Number of bytes from the site on that the jump replaced; 0: none.
    replaced: AtomicU32,
    /// The site is patched, or must not be.
    settled: AtomicBool,
}

/// A memory area for stubs.
pub struct StubArea {
    base: u64,
    used: u64,
}

/// All call sites of an address space.
pub struct Sites {
    /// Entry numbers plus one, by a hash of the site; 0: free.
    index: [AtomicU16; INDEX],
    /// In the order of first hits, so that a short-lived program touches few pages.
    entries: [Entry; SITES],
    used: AtomicU32,
    areas: [StubArea; AREAS],
    /// The `program_id` of the program in this image; 0: none.
    pub program: u64,
}

impl Sites {
    pub fn each_stub_area(&self, mut found: impl FnMut(u64, u64)) {
        for area in self.areas.iter().take_while(|area| area.base != 0) {
            found(area.base, area.base + AREA_BYTES);
        }
    }
}

/// Handles SIGSYS: a call from an unpatched site, or a signal for the program.
pub extern "C" fn on_sigsys(signal: u32, info: &[u8; 128], uc: &mut UContext, open: bool) -> u64 {
    let dispatched = si_code(info) == SYS_USER_DISPATCH && is_at_call(info, uc.regs.rip);
    if !dispatched || start::in_agent_text(uc.regs.rip) {
        return signals::on_signal(signal, info, uc, open);
    }
    let context = current();
    let site = uc.regs.rip - 2;
    if context.running == phase::LEFT_ALONE {
        // The thread was just switched to bypass the agent: repeat the call that way.
        context.phase = phase::LEFT_ALONE;
        uc.regs.rip = site;
        return 0;
    }
    let mut back = site + 2;
    // Taken from siginfo, not from the code: another thread may have patched it meanwhile.
    let by_syscall = arch_of(info) == AUDIT_ARCH_X86_64;
    if !by_syscall {
        context.old_rcx = uc.regs.rcx;
        context.old_r11 = uc.regs.r11;
    } else if let Some(entry) = entry_for(site) {
        // Stored before the stub is loaded. A patching thread does it in the opposite order, so at
        // least one of the two sees the other.
        context.slow_site.store(site, Ordering::SeqCst);
        let hits = entry.hits.fetch_add(1, Ordering::Relaxed) + 1;
        if hits == 1 {
            profile::note(context, site);
        }
        if hits >= HITS && !entry.settled.load(Ordering::Relaxed) {
            patch(context, entry, site, hits);
        }
        let stub = entry.stub.load(Ordering::SeqCst);
        if stub != 0 && entry.replaced.load(Ordering::Relaxed) != 0 {
            back = stub_back(stub);
            context.slow_site.store(0, Ordering::SeqCst);
        }
    }
    context.slow = if by_syscall { slow::SYSCALL } else { slow::INT_80 };
    uc.regs.rcx = back;
    uc.regs.r11 = site;
    uc.regs.rip = entry::entry();
    0
}

/// Returns the index places that may refer to a site's entry.
fn places(site: u64) -> impl Iterator<Item = &'static AtomicU16> {
    let index = &space().sites.index;
    let start = (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize;
    (start..start + PROBES).map(|at| &index[at % INDEX])
}

/// Returns the entry that an index place refers to; `None` if the place is free.
fn entry_at(place: &AtomicU16) -> Option<&'static Entry> {
    let number = usize::from(place.load(Ordering::Acquire)).checked_sub(1)?;
    space().sites.entries.get(number)
}

fn find(site: u64) -> Option<&'static Entry> {
    places(site).map_while(entry_at).find(|entry| entry.site.load(Ordering::Relaxed) == site)
}

/// Returns the entry of a site, creating it if necessary.
fn entry_for(site: u64) -> Option<&'static Entry> {
    if let Some(entry) = find(site) {
        return Some(entry);
    }
    let sites = &space().sites;
    let number = sites.used.fetch_add(1, Ordering::Relaxed) as usize;
    let Some(new) = sites.entries.get(number) else {
        sites.used.store(SITES as u32, Ordering::Relaxed);
        return None;
    };
    new.site.store(site, Ordering::Relaxed);
    for place in places(site) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if place.compare_exchange(0, number as u16 + 1, order.0, order.1).is_ok() {
            return Some(new);
        }
        // Another thread may have added the same site meanwhile: use its entry.
        if let Some(entry) = entry_at(place)
            && entry.site.load(Ordering::Relaxed) == site
        {
            new.site.store(0, Ordering::Relaxed);
            return Some(entry);
        }
    }
    None
}

/// Patches a site if that is known to be safe and no thread is about to return to it.
fn patch(context: &mut Context, entry: &Entry, site: u64, hits: u32) {
    if sys::is_quiet() || space().patched_enough.load(Ordering::Relaxed) {
        return;
    }
    let known = match maps::site(site) {
        Known::Patchable(known, _) => known,
        Known::Never => return entry.settled.store(true, Ordering::Relaxed),
        Known::NotYet if hits.is_power_of_two() => return maps::ask_for(context, site),
        Known::NotYet => return,
    };
    let at = site - u64::from(known.before);
    let space = space();
    space.lock.with(|| {
        if entry.settled.load(Ordering::Relaxed) {
            return;
        }
        if !is_as_analysed(at, &known) {
            entry.settled.store(true, Ordering::Relaxed);
            return;
        }
        let mut stub = entry.stub.load(Ordering::Relaxed);
        if stub == 0 {
            let Some(new) = new_stubs(&mut space.sites.areas, at, 1) else { return };
            stub = new;
            if !while_writable(stub, STUB_BYTES, || entry.give_stub(stub, site, &known)) {
                entry.settled.store(true, Ordering::Relaxed);
                return;
            }
        }
        if known.before == 0 && signals::site_in_flight(site, context) {
            return;
        }
        entry.settled.store(true, Ordering::Relaxed);
        while_writable(at, JUMP_BYTES, || write_jump(at, stub));
    });
}

/// Patches sites of a mapping that no thread executes yet, so that none is in the way.
pub fn patch_unused(map: &Map, known: impl Iterator<Item = Site> + Clone) {
    let space = space();
    let count = known.clone().count() as u64;
    space.lock.with(|| {
        let Some(first) = new_stubs(&mut space.sites.areas, map.start, count) else { return };
        // Other processes may have added sites to the profile since: there are no stubs for them.
        let mut stubs = (first..first + count * STUB_BYTES).step_by(STUB_BYTES as usize);
        let write = || {
            for known in known {
                let site = map.start + (u64::from(known.offset) - map.offset);
                let at = site - u64::from(known.before);
                let Some(entry) = entry_for(site) else { continue };
                if entry.settled.load(Ordering::Relaxed) || !is_as_analysed(at, &known) {
                    continue;
                }
                let Some(stub) = stubs.next() else { break };
                entry.give_stub(stub, site, &known);
                entry.settled.store(true, Ordering::Relaxed);
                write_jump(at, stub);
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
    known.bytes.get(..len) == Some(now) && at % 64 <= 64 - JUMP_BYTES
}

impl Entry {
    /// Writes the stub, which is writable now. New slow calls return through it; while older ones
    /// are under way the site is not patched.
    fn give_stub(&self, stub: u64, site: u64, known: &Site) {
        // SAFETY: the stub is agent memory that no thread uses yet.
        unsafe { (stub as *mut [u8; 64]).write(stub_code(stub, site, known)) };
        let replaced = if known.before == 0 { u32::from(known.after) } else { 0 };
        self.replaced.store(replaced, Ordering::Relaxed);
        self.stub.store(stub, Ordering::SeqCst);
    }
}

/// Allocates contiguous stubs within reach of an address.
fn new_stubs(areas: &mut [StubArea; AREAS], near: u64, count: u64) -> Option<u64> {
    for area in areas.iter_mut() {
        if area.base == 0 {
            area.base = map_near(near)?;
            area.used = 0;
        }
        let reachable = area.base.abs_diff(near) < REACH;
        if reachable && area.used + count * STUB_BYTES <= AREA_BYTES {
            let stub = area.base + area.used;
            area.used += count * STUB_BYTES;
            return Some(stub);
        }
    }
    None
}

/// Maps executable memory within reach: anywhere, or below `near`, as the heap may grow above it.
fn map_near(near: u64) -> Option<u64> {
    let flags = u64::from(raw::MAP_PRIVATE | raw::MAP_ANONYMOUS);
    let anywhere = sys::call(raw::__NR_mmap, [0, AREA_BYTES, READ_EXEC, flags, u64::MAX, 0]) as u64;
    if (anywhere as i64) > 0 && anywhere.abs_diff(near) < REACH {
        sys::keep_unlocked(anywhere, AREA_BYTES);
        return Some(anywhere);
    }
    if (anywhere as i64) > 0 {
        sys::call(raw::__NR_munmap, [anywhere, AREA_BYTES, 0, 0, 0, 0]);
    }
    let flags = flags | u64::from(raw::MAP_FIXED_NOREPLACE);
    let mut distance = 1u64 << 20;
    while distance < REACH {
        let hint = near.checked_sub(distance)? & !0xffff;
        if hint < 0x1_0000 {
            return None;
        }
        let at = sys::call(raw::__NR_mmap, [hint, AREA_BYTES, READ_EXEC, flags, u64::MAX, 0]);
        if at as u64 == hint {
            sys::keep_unlocked(hint, AREA_BYTES);
            return Some(hint);
        }
        distance += 1 << 20;
    }
    None
}

/// Distance from the start of the jump into the agent to `back`.
const INTO_AGENT_BEFORE_BACK: u64 = 10;
const BACK_AT: usize = 62;
const SITE_AT: usize = 54;

fn stub_code(stub: u64, site: u64, known: &Site) -> [u8; 64] {
    let mut code = [0u8; 64];
    let mut n = 0;
    let mut put = |bytes: &[u8]| {
        code[n..n + bytes.len()].copy_from_slice(bytes);
        n += bytes.len();
        n
    };
    let before = usize::from(known.before);
    put(&known.bytes[..before]);
    put(&[0x49, 0xbb]);
    put(&site.to_le_bytes());
    let back = put(&[0x48, 0x8d, 0x0d, 10, 0, 0, 0]) + 10;
    let slot = offset_of!(Context, entry) as u8;
    put(&[0x65, 0xff, 0x24, 0x25, slot, 0, 0, 0]);
    put(&[0x0f, 0x05]);
    let moved = if before == 0 { usize::from(known.after) - 2 } else { 0 };
    put(&known.bytes[before + 2..before + 2 + moved]);
    let end = put(&[0xe9]) + 4;
    let target = site + 2 + moved as u64;
    let distance = (target as i64 - (stub as i64 + end as i64)) as i32;
    put(&distance.to_le_bytes());
    if known.rip_disp != 0 && moved != 0 {
        let at = back + usize::from(known.rip_disp) - 1;
        let old = i32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]]);
        let shift = (site as i64 + 2) - (stub as i64 + back as i64);
        let new = (i64::from(old) + shift) as i32;
        code[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
    code[SITE_AT..SITE_AT + 8].copy_from_slice(&site.to_le_bytes());
    code[BACK_AT] = back as u8;
    code[BACK_AT + 1] = moved as u8;
    code
}

/// Replaces the jump into the agent in all stubs by a nop, so that the `syscall` behind it runs.
/// Returns false if the system does not allow that.
pub fn make_calls_in_stubs() -> bool {
    const NOTHING: u64 = u64::from_le_bytes([0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);
    let space = space();
    space.lock.with(|| {
        space.sites.areas.iter().take_while(|area| area.base != 0).all(|area| {
            while_writable(area.base, area.used, || {
                for stub in (area.base..area.base + area.used).step_by(STUB_BYTES as usize) {
                    let back = stub_back(stub);
                    if back != stub {
                        // SAFETY: eight bytes in the middle of a stub's cache line, writable now.
                        unsafe {
                            ((back - INTO_AGENT_BEFORE_BACK) as *mut u64).write_unaligned(NOTHING)
                        };
                    }
                }
            })
        })
    })
}

fn stub_back(stub: u64) -> u64 {
    // SAFETY: stubs are never unmapped.
    stub + u64::from(unsafe { *((stub + BACK_AT as u64) as *const u8) })
}

/// Makes text writable while `work` runs. Returns false if the system does not allow it.
fn while_writable(at: u64, len: u64, work: impl FnOnce()) -> bool {
    let page = at & !4095;
    let pages = (at + len).next_multiple_of(4096) - page;
    let allowed = sys::protect(page, pages, READ_WRITE_EXEC);
    if allowed {
        work();
        sys::protect(page, pages, READ_EXEC);
    }
    allowed
}

/// Writes a jump that lies in one cache line with a single store.
fn write_jump(at: u64, to: u64) {
    let distance = (to as i64 - (at + JUMP_BYTES) as i64) as i32;
    let mut jump = [0xe9; JUMP_BYTES as usize];
    jump[1..].copy_from_slice(&distance.to_le_bytes());
    let line_end = (at & !63) + 64;
    let word_at = at.min(line_end - 8);
    let shift = (at - word_at) as usize;
    // SAFETY: eight bytes of text in one cache line, writable now.
    unsafe {
        let mut bytes = (word_at as *const u64).read_unaligned().to_le_bytes();
        bytes[shift..shift + jump.len()].copy_from_slice(&jump);
        let word = u64::from_le_bytes(bytes);
        core::arch::asm!("mov [{}], {}", in(reg) word_at, in(reg) word, options(nostack));
    }
}

/// Replaces an address in a stub by the corresponding address at the original site.
pub fn show_original(regs: &mut Registers) {
    let Some(stub) = stub_of(regs.rip) else { return };
    let offset = regs.rip - stub;
    // SAFETY: the address is in a stub, and stubs are never unmapped.
    let (site, back, moved) = unsafe {
        let site = ((stub + SITE_AT as u64) as *const u64).read_unaligned();
        let back = u64::from(*((stub + BACK_AT as u64) as *const u8));
        let moved = u64::from(*((stub + BACK_AT as u64 + 1) as *const u8));
        (site, back, moved)
    };
    regs.rip = if offset < back {
        // The call number was loaded before the site, or is loaded again there.
        site
    } else {
        site + 2 + (offset - back).min(moved)
    };
    if offset < back && offset == 0 && moved == 0 && back > 27 {
        // The jump replaced the instruction that loads the number: it has not run yet.
        regs.rip = site - 5;
    }
}

fn stub_of(address: u64) -> Option<u64> {
    let areas = &space().sites.areas;
    areas
        .iter()
        .take_while(|area| area.base != 0)
        .find(|area| (area.base..area.base + AREA_BYTES).contains(&address))
        .map(|area| area.base + (address - area.base) / STUB_BYTES * STUB_BYTES)
}

/// Inverse of `show_original`: returns where execution continues for an address that the program
/// sees. Bytes after a patched site are in its stub.
pub fn real_address(shown: u64) -> u64 {
    for back in 2..=16 {
        let Some(entry) = find(shown.wrapping_sub(back)) else { continue };
        let replaced = u64::from(entry.replaced.load(Ordering::Relaxed));
        if back < replaced {
            return stub_back(entry.stub.load(Ordering::Acquire)) + (back - 2);
        }
    }
    shown
}

/// Forgets the sites in a memory range that has changed.
pub fn forget(from: u64, to: u64) {
    for entry in &space().sites.entries {
        let site = entry.site.load(Ordering::Relaxed);
        if (from..to).contains(&site) {
            entry.stub.store(0, Ordering::Relaxed);
            entry.replaced.store(0, Ordering::Relaxed);
            entry.hits.store(0, Ordering::Relaxed);
            entry.settled.store(false, Ordering::Relaxed);
        }
    }
}
