//! /proc/PID/status of our own threads: replaces the kernel's signal masks by those that the
//! program has set.
//!
//! A file on a proc file system that begins with `Name:` is parsed as the program reads it, and the
//! digits of its masks are corrected in the program's buffers.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::abi::signals::SIG_IGN;

use crate::call::{Call, enter, exit};
use crate::context::{Context, area, space};
use crate::needs::Need;
use crate::signal::{ALWAYS_OURS, signal_bit};
use crate::status_lines::{BEGINNING, Correction, File, Line, Mask};
use crate::{memory, sys};

const PROC_MAGIC: i64 = 0x9fa0;
/// Number of bytes processed at once.
const PIECE: usize = 256;
/// Maximum number of buffers processed in a vector.
const BUFFERS_MAX: u64 = 1024;

/// Reads into one buffer.
#[inline(always)]
pub fn read(context: &Context, call: &Call, offset: Option<u8>) {
    enter(context, call, 0);
    let ret = call.make();
    if ret > 0 {
        let word = if ret >= 8 {
            memory::read_word(context, call.args[1]).unwrap_or(0).to_le_bytes()
        } else {
            first_bytes(context, call.args[1], ret as u64)
        };
        if is_known(call.args[0]) || begins_like_one(word, ret as u64) {
            correct(context, call, offset, ret as u64, false);
        }
    }
    exit(context, call, ret);
}

/// Reads into the buffers of a vector.
pub fn read_vector(context: &Context, call: &Call, offset: Option<u8>) {
    enter(context, call, 0);
    let ret = call.make();
    if ret > 0 {
        let first = memory::read::<u64>(context, call.args[1]).unwrap_or(0);
        let word = first_bytes(context, first, ret as u64);
        if is_known(call.args[0]) || begins_like_one(word, ret as u64) {
            correct(context, call, offset, ret as u64, true);
        }
    }
    exit(context, call, ret);
}

/// Returns true if the file may be one whose beginning was read before.
#[inline(always)]
fn is_known(fd: u64) -> bool {
    let space = space();
    let fd = fd & 0xffff_ffff;
    space.reads_statuses.get() && space.lock.with(|shared| shared.statuses.find(fd).is_some())
}

/// Reads up to eight bytes of a buffer that has `len` bytes.
fn first_bytes(context: &Context, at: u64, len: u64) -> [u8; 8] {
    let mut word = [0u8; 8];
    // SAFETY: `word` has room for eight bytes.
    unsafe { memory::copy(context, word.as_mut_ptr(), at, len.min(8)) };
    word
}

/// Returns true if these bytes are the first of a status file, as far as they go.
#[inline(always)]
fn begins_like_one(word: [u8; 8], len: u64) -> bool {
    let len = BEGINNING.len().min(len as usize);
    word[..len] == BEGINNING[..len]
}

/// Corrects data that was just read, if it is part of a status file of this process.
#[cold]
fn correct(context: &Context, call: &Call, offset: Option<u8>, read: u64, is_vector: bool) {
    let args = call.args;
    let fd = args[0] & 0xffff_ffff;
    if sys::is_quiet() || !is_on_proc(fd) {
        return;
    }
    let offset = offset.map(|arg| args[usize::from(arg)]).filter(|&offset| offset != u64::MAX);
    let start = offset.unwrap_or_else(|| {
        let current = u64::from(raw::SEEK_CUR);
        (sys::call(Need::Position, [fd, 0, current, 0, 0, 0]) as u64).wrapping_sub(read)
    });
    let known = space().lock.with(|shared| shared.statuses.find(fd).copied());
    let mut line = match known {
        _ if start == 0 => Line::default(),
        Some(file) if file.position == start => file.line,
        Some(_) => read_again(context, fd, start),
        None => return,
    };
    if is_vector {
        let mut left = read;
        for i in 0..args[2].min(BUFFERS_MAX) {
            let Some([at, len]) = memory::read::<[u64; 2]>(context, args[1] + i * 16) else {
                break;
            };
            correct_buffer(context, &mut line, at, len.min(left));
            left -= len.min(left);
        }
    } else {
        correct_buffer(context, &mut line, args[1], read);
    }
    let file = File { fd: fd + 1, position: start + read, line };
    space().lock.with(|shared| shared.statuses.keep(file));
    space().reads_statuses.set(true);
}

fn is_on_proc(fd: u64) -> bool {
    sys::file_system(fd) == Some(PROC_MAGIC)
}

/// Parses the file again up to the offset that the program has moved to.
fn read_again(context: &Context, fd: u64, to: u64) -> Line {
    let mut line = Line::default();
    let mut piece = [0u8; PIECE];
    let mut at = 0;
    while at < to {
        let wanted = (to - at).min(PIECE as u64);
        let read = sys::call(Need::ReadAt, [fd, piece.as_mut_ptr() as u64, wanted, at, 0, 0]);
        if read <= 0 {
            break;
        }
        for &mut byte in &mut piece[..read as usize] {
            next(context, &mut line, byte);
        }
        at += read as u64;
    }
    line
}

fn correct_buffer(context: &Context, line: &mut Line, at: u64, len: u64) {
    let mut piece = [0u8; PIECE];
    let mut done = 0;
    while done < len {
        let wanted = (len - done).min(PIECE as u64) as usize;
        // SAFETY: the piece has room for `wanted` bytes.
        if unsafe { memory::copy(context, piece.as_mut_ptr(), at + done, wanted as u64) } != 0 {
            return;
        }
        let mut changed = false;
        for byte in &mut piece[..wanted] {
            let right = next(context, line, *byte);
            changed |= right != *byte;
            *byte = right;
        }
        if changed {
            memory::copy_out(context, at + done, piece.as_ptr(), wanted as u64);
        }
        done += wanted as u64;
    }
}

fn next(context: &Context, line: &mut Line, byte: u8) -> u8 {
    line.next(byte, context.process().pid.get(), |mask, tid| correction(context, mask, tid))
}

/// Returns the correction for a mask in the file of a thread of this process.
fn correction(context: &Context, mask: Mask, tid: u32) -> Option<Correction> {
    let ours = ALWAYS_OURS.iter().fold(0, |all, &signal| all | signal_bit(signal));
    match mask {
        Mask::Ignored => {
            let set = handled(context, |handler| handler == SIG_IGN);
            Some(Correction { clear: ours, set })
        }
        Mask::Caught => {
            let set = handled(context, |handler| handler > SIG_IGN);
            Some(Correction { clear: ours, set })
        }
        Mask::Blocked => {
            let thread = thread(context, tid)?;
            let set = thread.call_mask.get().unwrap_or(thread.mask.get());
            Some(Correction { clear: u64::MAX, set })
        }
        Mask::PendingInThread | Mask::PendingInProcess => {
            let code = thread(context, tid)?.pending_code.get()?;
            let to_thread = code as i32 == raw::SI_TKILL;
            let here = to_thread == (mask == Mask::PendingInThread);
            let set = if here { signal_bit(raw::SIGSYS) } else { 0 };
            Some(Correction { clear: 0, set })
        }
    }
}

/// Returns those of the always-handled signals whose handler in the program satisfies `such`.
fn handled(context: &Context, such: impl Fn(u64) -> bool) -> u64 {
    let process = context.process();
    process.lock.with(|()| {
        let signals = ALWAYS_OURS.iter();
        let chosen = signals.filter(|signal| such(process.actions.handler(**signal)));
        chosen.fold(0, |all, &signal| all | signal_bit(signal))
    })
}

/// Finds a thread of this process.
fn thread(context: &Context, tid: u32) -> Option<&'static Context> {
    space().areas().map(|area| &area.context).find(|other| {
        other.tid.get() == tid
            && core::ptr::eq(other.process.get(), context.process.get())
            && other.area_state.load(Ordering::Relaxed) == area::USED
    })
}
