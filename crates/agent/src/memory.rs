//! Reads and writes program memory, which may be unmapped.

use crate::arch::access;
use crate::arch::processor::stores_are_seen;
use crate::clock;
use crate::context::Context;
use crate::copied::Copied;
use crate::long_copies::{LONG_BYTES, Way};
use crate::needs::Need;
use crate::sys;
use syscalls::abi::errno;

const EFAULT: i64 = errno::result(errno::EFAULT);
const EINVAL: i64 = errno::result(errno::EINVAL);

/// Returns true if a fault could not be caught now, so that the kernel has to copy. If a filter of
/// the program may forbid that call, the memory is trusted to be mapped.
#[inline(always)]
pub fn must_ask_kernel(context: &Context) -> bool {
    context.fault_unsafe.get() && !sys::is_quiet()
}

/// Copies from program memory. Returns the number of bytes at the end that could not be read.
///
/// # Safety
/// `to` must be agent memory of `len` bytes.
#[inline(always)]
pub unsafe fn copy(context: &Context, to: *mut u8, from: u64, len: u64) -> u64 {
    if must_ask_kernel(context) {
        return read_near(context, to, from, len);
    }
    // SAFETY: the caller guarantees room at `to`; faults at `from` are caught.
    unsafe { access::reenact_copy(to, from, len) }
}

/// The same for what another processor reads later: `to` is in the current chunk, and a multiple of 8.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_to_stream(context: &Context, to: *mut u8, from: u64, len: u64) -> u64 {
    // SAFETY: as for this.
    unsafe {
        match len < LONG_BYTES || must_ask_kernel(context) {
            true => copy(context, to, from, len),
            false => copy_long(context, to, from, len),
        }
    }
}

/// # Safety
/// As for [`copy_to_stream`], where faults can be caught.
unsafe fn copy_long(context: &Context, to: *mut u8, from: u64, len: u64) -> u64 {
    let way = context.long_copies.next();
    let began = clock::now(context);
    // SAFETY: the caller guarantees room at `to`; faults at `from` are caught.
    let missing = unsafe {
        match way {
            Way::Through => access::reenact_copy(to, from, len),
            Way::Past => access::reenact_stream(to, from, len),
        }
    };
    if way == Way::Past {
        stores_are_seen();
    }
    if missing == 0 {
        context.long_copies.took(way, len, clock::now(context).wrapping_sub(began));
    }
    missing
}

/// Copies to program memory. Returns the number of bytes that could not be written.
pub fn copy_out(context: &Context, to: u64, from: *const u8, len: u64) -> u64 {
    if must_ask_kernel(context) {
        return copy_by_kernel(context, from as u64, to, len, Need::WriteMemory);
    }
    // SAFETY: `from` is agent memory; faults at `to` are caught.
    unsafe { access::reenact_copy(to as *mut u8, from as u64, len) }
}

/// Lets reads in `work` see memory as it was when `work` first read near it: for what the program gives to
/// a call, or gets from it.
#[cold]
#[inline(never)]
pub fn while_unchanged(context: &Context, work: impl FnOnce()) {
    let copied = Copied::new();
    context.copied.set(&raw const copied);
    work();
    forget_copied(context);
}

/// Who was in [`while_unchanged`] is not there any more.
pub fn forget_copied(context: &Context) {
    context.copied.set(core::ptr::null());
}

/// Copies from program memory. Returns the number of bytes at the end that could not be read.
#[cold]
fn read_near(context: &Context, to: *mut u8, from: u64, len: u64) -> u64 {
    let read = |to: *mut u8, from, len| read_by_kernel(context, to as u64, from, len);
    // A signal meanwhile does not find it in use.
    let at = context.copied.replace(core::ptr::null());
    // SAFETY: it lives until it is forgotten, and only this thread refers to it.
    let Some(copied) = (unsafe { at.as_ref() }) else { return read(to, from, len) };
    // SAFETY: the caller has room at `to`.
    let missing = unsafe { copied.copy(to, from, len, read) };
    context.copied.set(at);
    missing
}

/// Up to this many bytes the kernel is asked whether memory is there, page by page; it copies more at once.
const ASKED_BYTES: u64 = 8192;

/// Reads program memory with the kernel's help. Returns the number of bytes that could not be read.
fn read_by_kernel(context: &Context, to: u64, from: u64, len: u64) -> u64 {
    if len <= ASKED_BYTES && context.is_alone_in_memory() && is_there(from, len) {
        // SAFETY: the caller has room at `to`; only this thread could unmap what is there.
        return unsafe { access::reenact_copy(to as *mut u8, from, len) };
    }
    copy_by_kernel(context, to, from, len, Need::ReadMemory)
}

/// Whether memory can be read, in a tenth of the time that the kernel needs to copy it: a call with an
/// operation that does not exist, which the kernel finds out when it has read its input.
fn is_there(from: u64, len: u64) -> bool {
    const NO_OPERATION: u64 = u32::MAX as u64;
    let Some(last) = from.checked_add(len.saturating_sub(1)) else { return false };
    let mut pages = (from & !4095..=last).step_by(4096);
    pages.all(|page| {
        let word = page.max(from & !7);
        sys::call(Need::SetMask, [NO_OPERATION, word, 0, 8, 0, 0]) == EINVAL
    })
}

#[cold]
fn copy_by_kernel(context: &Context, ours: u64, theirs: u64, len: u64, need: Need) -> u64 {
    let local = [ours, len];
    let remote = [theirs, len];
    let pid = u64::from(context.process().pid.get());
    let args = [pid, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
    let mut done = sys::call(need, args);
    // This call does not let a stack grow. One that reads there by itself does.
    if (done == EFAULT || done >= 0 && (done as u64) < len) && is_there(theirs, len) {
        done = sys::call(need, args);
    }
    if done < 0 && done != EFAULT {
        // A filter from outside forbids the call: trust the memory to be mapped.
        let (to, from) = if need == Need::ReadMemory { (ours, theirs) } else { (theirs, ours) };
        // SAFETY: one side is agent memory, the other is what the program passes to the kernel.
        return unsafe { access::reenact_copy(to as *mut u8, from, len) };
    }
    len - (done.max(0) as u64).min(len)
}

/// Reads a plain value from program memory.
pub fn read<T: Copy>(context: &Context, from: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    let len = size_of::<T>() as u64;
    // SAFETY: `value` has room and is used only if fully written; `T` consists of plain numbers.
    unsafe {
        (copy(context, value.as_mut_ptr().cast(), from, len) == 0).then(|| value.assume_init())
    }
}

/// Reads eight bytes from program memory, in the hot path of a call.
#[inline(always)]
pub fn read_word(context: &Context, from: u64) -> Option<u64> {
    if must_ask_kernel(context) {
        return read(context, from);
    }
    let mut word = 0u64;
    // SAFETY: `word` is ours to write; a fault at `from` is caught.
    (unsafe { access::reenact_load(from, &raw mut word) } == 0).then_some(word)
}

/// Writes a plain value to program memory.
pub fn write<T: Copy>(context: &Context, to: u64, value: &T) -> bool {
    copy_out(context, to, core::ptr::from_ref(value).cast(), size_of::<T>() as u64) == 0
}

/// Reads four bytes at a multiple of four, all at once.
pub fn read_half(context: &Context, from: u64) -> Option<u32> {
    let word = read_word(context, from & !7)?;
    Some((word >> (8 * (from & 4))) as u32)
}

/// Writes four bytes to a multiple of four, all at once. Returns false if that cannot be.
pub fn write_half(context: &Context, to: u64, half: u32) -> bool {
    if must_ask_kernel(context) {
        return write(context, to, &half);
    }
    // SAFETY: a fault at `to` is caught.
    unsafe { access::reenact_store(to, half) == 0 }
}

/// Returns true if every page of this range can be read now.
pub fn readable(context: &Context, from: u64, len: u64) -> bool {
    readable_len(context, from, len) == len
}

/// Returns how many bytes of this range can be read now, before the first page that cannot.
pub fn readable_len(context: &Context, from: u64, len: u64) -> u64 {
    let end = from.saturating_add(len);
    let mut at = from;
    while at < end && read::<u8>(context, at).is_some() {
        at = (at & !4095).saturating_add(4096);
    }
    at.min(end) - from
}

/// Returns the length of a string without its NUL, at most `max`; `None` if reading it faults.
pub fn string_len(context: &Context, from: u64, max: u64) -> Option<u64> {
    let mut len = 0;
    while len < max {
        let at = from.checked_add(len)?;
        let aligned = at & !7;
        // An aligned word does not cross a page.
        let word = read_word(context, aligned)?;
        let skip = at - aligned;
        // Treat the bytes before the string as non-zero.
        let bytes = word | ((1u64 << (8 * skip)) - 1);
        let zeros = bytes.wrapping_sub(0x0101_0101_0101_0101) & !bytes & 0x8080_8080_8080_8080;
        if zeros != 0 {
            return Some((len + u64::from(zeros.trailing_zeros() / 8) - skip).min(max));
        }
        len += 8 - skip;
    }
    Some(max)
}
