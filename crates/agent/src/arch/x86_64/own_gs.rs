//! Programs that set `%gs`, which the agent needs: they are left alone before they do so.
//!
//! Some set it by `arch_prctl`. Others use an instruction, which cannot be intercepted, so the code
//! of each file is scanned when it is first mapped in a recording. A process with one thread gets
//! its signal state and `%gs` back; from then on neither it nor its children are recorded, and a
//! gap says so. In a process with more threads, only the gap is recorded.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::TEXTS;
use syscalls::abi::errno;
use syscalls::record::{GapWhy, Header, RecordKind, own_gs};

use super::head::phase;
use super::scan::{INSTRUCTION_BYTES, STEP, sets_gs};
use super::{entry, entry_quiet, processor};
use crate::call::{Call, exit};
use crate::context::{Context, mask_all, space};
use crate::signal::real_mask;
use crate::stream::Stream;
use crate::text_map::Map;
use crate::{clock, memory, sites, sys, tracing, users};

/// Number of table entries that may hold the result for a mapping.
const PLACES: usize = 4;
const SETS: u64 = 1;

const BLOCK: usize = 4096;

/// Sets `%gs`, which the agent needs. Clearing it has no effect that the program could see; a
/// program that sets it to an address is left alone.
pub fn set(context: &Context, call: &Call) {
    const USER_END: u64 = (1 << 47) - 4096;
    let base = call.args[1];
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let is_wanted = base != 0 && base < USER_END;
    let is_left = is_wanted && prepare(context);
    let ret = if base == 0 || is_left { 0 } else { errno::result(errno::EPERM) };
    exit(context, call, ret);
    if is_wanted {
        tell(context, is_left);
    }
    if is_left {
        leave(context, base);
    }
    sys::set_mask(if is_left { context.mask.get() } else { real_mask(context.mask.get()) });
}

/// Returns whether a mapping's code sets `%gs`, if it was scanned before.
pub fn known(context: &Context, map: &Map) -> Option<bool> {
    let name = name(map);
    let places = &context.arena.get()?.texts()[places(name)];
    let words = places.iter().map(|place| place.load(Ordering::Relaxed));
    words.filter(|word| word & !SETS == name).map(|word| word & SETS != 0).next()
}

/// Returns true if the file is like a program or library. Reading other files may have side
/// effects, and reading holes of files in memory file systems allocates pages.
pub fn is_program(fd: u64, stat: &raw::stat) -> bool {
    const MEMORY: [i64; 2] = [0x0102_1994, 0x9584_58f6]; // tmpfs, hugetlbfs
    let is_whole = stat.st_blocks * 512 >= stat.st_size;
    stat.st_mode & raw::S_IFMT == raw::S_IFREG
        && stat.st_nlink > 0
        && (is_whole || sys::file_system(fd).is_some_and(|kind| !MEMORY.contains(&kind)))
}

/// Returns true if a mapping's code sets `%gs`. Scans it if necessary.
pub fn is_set_by(context: &Context, map: &Map) -> bool {
    if let Some(sets) = known(context, map) {
        return sets;
    }
    let Some(arena) = context.arena.get() else { return false };
    let sets = look(context, map);
    let name = name(map);
    let word = name | if sets { SETS } else { 0 };
    let places = &arena.texts()[places(name)];
    let order = Ordering::Relaxed;
    if places.iter().all(|place| place.compare_exchange(0, word, order, order).is_err()) {
        places[(name >> 8) as usize % PLACES].store(word, order);
    }
    sets
}

fn name(map: &Map) -> u64 {
    let mixed = map.key.hash() ^ (map.offset >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed & !SETS | 2
}

fn places(name: u64) -> core::ops::Range<usize> {
    let first = (name >> 40) as usize % (TEXTS / PLACES) * PLACES;
    first..first + PLACES
}

/// Scans for the instruction. Code that cannot be read is not executed either.
fn look(context: &Context, map: &Map) -> bool {
    const BEFORE: usize = INSTRUCTION_BYTES - 1;
    let mut block = [0u8; BEFORE + BLOCK + STEP];
    let mut at = map.start;
    while at < map.end {
        let wanted = (map.end - at).min(BLOCK as u64);
        // SAFETY: the block has room for `BLOCK` bytes at `BEFORE`.
        let missing = unsafe { memory::copy(context, block[BEFORE..].as_mut_ptr(), at, wanted) };
        let len = BEFORE + (wanted - missing) as usize;
        block[len..len + STEP].fill(0);
        if sets_gs(&block, len) {
            return true;
        }
        if missing != 0 {
            return false;
        }
        block.copy_within(len - BEFORE..len, 0);
        at += wanted;
    }
    false
}

/// Lets stubs make their calls directly. Returns false if the process cannot be left alone.
pub fn prepare(context: &Context) -> bool {
    context.process().users.load(Ordering::Relaxed) == 1
        && context.held_frame.get() == 0
        && context.running.get() == phase::RECORDED
        && !sys::is_quiet()
        && space().can_write_gs.get()
        && sites::make_calls_in_stubs()
}

/// Records a gap: the process uses `%gs` itself, and may be left alone.
pub fn tell(context: &Context, is_left: bool) {
    if !context.silent.get() {
        let how = if is_left { own_gs::LEFT_ALONE } else { own_gs::GOES_ON };
        let head = Header::new(RecordKind::Gap, GapWhy::OwnGs as u8, how, 0).to_word();
        let pid = u64::from(context.process().pid.get());
        Stream::record(context, &[head, clock::now(context), pid]);
        Stream::publish(context);
    }
}

/// Lets the process go on without the agent. Called at the end of a call, with signals masked.
pub fn leave(context: &Context, base: u64) {
    users::give_up(context);
    tracing::hand_over(context);
    space().patched_enough.set(true);
    context.entry.set(entry::bypass());
    context.running.set(phase::LEFT_ALONE);
    context.phase.set(phase::LEFT_ALONE);
    context.scratch.set(context.resume.get());
    context.resume.set(entry_quiet::go_native());
    context.next_native.set(base);
}

/// Like `leave`, before the first instruction of a program.
pub fn leave_at_start(context: &Context) {
    users::give_up(context);
    tracing::hand_over(context);
    // SAFETY: no agent code uses `%gs` in this process from here on.
    unsafe { processor::set_gs(0) };
}
