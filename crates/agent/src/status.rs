//! /proc/PID/status of our own threads: the kernel writes its own masks there, the program is to
//! read those that it believes in.
//!
//! A file that begins with `Name:` and lies on a proc file system is read along, line by line,
//! whatever the pieces in which the program reads it, and the digits of its masks are corrected
//! in the program's buffers. Its length does not change.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;

use crate::call::{self, enter, exit};
use crate::context::{AREAS, Context, Frame, ThreadArea, area, signal_bit, space};
use crate::signals::{ALWAYS_OURS, SIG_IGN};
use crate::{memory, sys};

/// What the file begins with.
const BEGINNING: &[u8; 6] = b"Name:\t";
const PROC_MAGIC: i64 = 0x9fa0;
/// Files that are read along at the same time.
const FILES: usize = 4;
/// Bytes that are looked at in one go.
const PIECE: usize = 256;
/// Bytes of a line that tell what it is about.
const TITLE: usize = 8;
/// Digits of a mask.
const DIGITS: usize = 16;
/// Buffers of a vector that are looked at.
const BUFFERS_MAX: u64 = 1024;

/// Status files that are being read.
pub struct Files {
    list: [File; FILES],
    /// The entry that was taken last; 0 while there are none.
    newest: usize,
}

#[derive(Clone, Copy)]
struct File {
    /// The descriptor + 1; 0: free.
    fd: u64,
    /// Up to where it was read.
    position: u64,
    line: Line,
}

/// How far a file was read: its current line, and whose file it is.
#[derive(Clone, Copy, Default)]
struct Line {
    title: [u8; TITLE],
    column: usize,
    /// The last number of the line.
    number: u32,
    pid: u32,
    tid: u32,
}

/// read, pread, readv and their relatives.
#[inline(always)]
pub fn read_call(context: &mut Context, frame: &mut Frame) -> i64 {
    let nr = frame.rax;
    let args = frame.args();
    let row = enter(context, nr, &args, 0);
    let ret = call::make(context, nr, &args);
    if ret > 0 {
        let known = space().statuses.newest != 0 && is_known(args[0]);
        if known || begins_like_one(context, nr as u32, args[1], ret as u64) {
            correct(context, nr as u32, &args, ret as u64);
        }
    }
    exit(context, row, &args, ret);
    ret
}

fn is_known(fd: u64) -> bool {
    space().statuses.list.iter().any(|file| file.fd == (fd & 0xffff_ffff) + 1)
}

fn is_vector(nr: u32) -> bool {
    nr != raw::__NR_read && nr != raw::__NR_pread64
}

#[inline(always)]
fn begins_like_one(context: &Context, nr: u32, at: u64, len: u64) -> bool {
    const LEN: usize = BEGINNING.len();
    let mut word = [0u8; 8];
    let start = if is_vector(nr) { memory::read::<u64>(context, at).unwrap_or(0) } else { at };
    if len >= 8 && !is_vector(nr) {
        word = memory::read_word(context, start).unwrap_or(0).to_le_bytes();
    } else {
        // SAFETY: room for eight bytes.
        unsafe { memory::copy(context, word.as_mut_ptr(), start, len.min(8)) };
    }
    let len = LEN.min(len as usize);
    word[..len] == BEGINNING[..len]
}

/// Corrects what was just read, if it is part of a status file of ours.
#[cold]
fn correct(context: &mut Context, nr: u32, args: &[u64; 6], read: u64) {
    let fd = args[0] & 0xffff_ffff;
    if sys::is_quiet() || !is_on_proc(fd) {
        return;
    }
    let positioned = nr == raw::__NR_pread64
        || (nr == raw::__NR_preadv || nr == raw::__NR_preadv2) && args[3] != u64::MAX;
    let start = if positioned {
        args[3]
    } else {
        let current = u64::from(raw::SEEK_CUR);
        (sys::call(raw::__NR_lseek, [fd, 0, current, 0, 0, 0]) as u64).wrapping_sub(read)
    };
    let known =
        space().lock.with(|| space().statuses.list.iter().find(|f| f.fd == fd + 1).copied());
    let mut line = match known {
        _ if start == 0 => Line::default(),
        Some(file) if file.position == start => file.line,
        Some(_) => read_again(context, fd, start),
        None => return,
    };
    if is_vector(nr) {
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
    space().lock.with(|| space().statuses.keep(file));
}

fn is_on_proc(fd: u64) -> bool {
    sys::file_system(fd) == Some(PROC_MAGIC)
}

impl Files {
    fn keep(&mut self, file: File) {
        let same = self.list.iter().position(|known| known.fd == file.fd);
        let at = same.unwrap_or_else(|| {
            self.newest = self.newest % FILES + 1;
            self.newest - 1
        });
        self.list[at] = file;
    }
}

/// The state of reading at a place that the program has jumped to.
fn read_again(context: &Context, fd: u64, to: u64) -> Line {
    let mut line = Line::default();
    let mut piece = [0u8; PIECE];
    let mut at = 0;
    while at < to {
        let wanted = (to - at).min(PIECE as u64);
        let read = sys::call(raw::__NR_pread64, [fd, piece.as_mut_ptr() as u64, wanted, at, 0, 0]);
        if read <= 0 {
            break;
        }
        for &mut byte in &mut piece[..read as usize] {
            line.next(context, byte);
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
        // SAFETY: the piece has that much room.
        if unsafe { memory::copy(context, piece.as_mut_ptr(), at + done, wanted as u64) } != 0 {
            return;
        }
        let mut changed = false;
        for byte in &mut piece[..wanted] {
            let right = line.next(context, *byte);
            changed |= right != *byte;
            *byte = right;
        }
        if changed {
            memory::copy_out(context, at + done, piece.as_ptr(), wanted as u64);
        }
        done += wanted as u64;
    }
}

impl Line {
    /// Takes the next byte of the file and gives the one that the program is to see.
    fn next(&mut self, context: &Context, byte: u8) -> u8 {
        if byte == b'\n' {
            match &self.title {
                // The last number of these is that of the innermost namespace.
                title if title.starts_with(b"Tgid:") || title.starts_with(b"NStgid:") => {
                    self.pid = self.number;
                }
                title if title.starts_with(b"Pid:") || title.starts_with(b"NSpid:") => {
                    self.tid = self.number;
                }
                _ => {}
            }
            *self = Line { pid: self.pid, tid: self.tid, ..Line::default() };
            return byte;
        }
        let column = self.column;
        self.column += 1;
        if column < TITLE {
            self.title[column] = byte;
        }
        match byte {
            b'0'..=b'9' => {
                self.number = self.number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
            }
            _ => self.number = 0,
        }
        match column.checked_sub(TITLE) {
            Some(digit) if digit < DIGITS && self.pid == context.process().pid => {
                self.corrected(context, digit, byte)
            }
            _ => byte,
        }
    }

    fn corrected(&self, context: &Context, digit: usize, byte: u8) -> u8 {
        let Some(mask) = Correction::of(&self.title, context, self.tid) else { return byte };
        let Some(value) = char::from(byte).to_digit(16) else { return byte };
        let shift = 4 * (DIGITS - 1 - digit);
        let value = u64::from(value) & !(mask.clear >> shift) | mask.set >> shift & 15;
        b"0123456789abcdef"[value as usize & 15]
    }
}

/// What is wrong with a mask of the kernel's.
struct Correction {
    clear: u64,
    set: u64,
}

impl Correction {
    /// For the line of that title in the file of a thread of this process.
    fn of(title: &[u8; TITLE], context: &Context, tid: u32) -> Option<Correction> {
        let ours = ALWAYS_OURS.iter().fold(0, |all, &signal| all | signal_bit(signal));
        match title {
            b"SigIgn:\t" => Some(Correction {
                clear: ours,
                set: handled(context, |handler| handler == SIG_IGN),
            }),
            b"SigCgt:\t" => {
                Some(Correction { clear: ours, set: handled(context, |handler| handler > SIG_IGN) })
            }
            b"SigBlk:\t" => {
                let thread = thread(context, tid)?;
                let set = thread.call_mask.unwrap_or(thread.mask);
                Some(Correction { clear: u64::MAX, set })
            }
            b"SigPnd:\t" | b"ShdPnd:\t" => {
                let info = thread(context, tid)?.pending_sigsys?;
                let to_thread = info[1] as i32 == raw::SI_TKILL;
                let here = to_thread == (title == b"SigPnd:\t");
                let set = if here { signal_bit(raw::SIGSYS) } else { 0 };
                Some(Correction { clear: 0, set })
            }
            _ => None,
        }
    }
}

/// Those of the signals that are always ours whose handler the program has set to such a one.
fn handled(context: &Context, such: impl Fn(u64) -> bool) -> u64 {
    let process = context.process();
    let actions = process.actions.get();
    process.lock.with(|| {
        let signals = ALWAYS_OURS.iter();
        // SAFETY: under the lock.
        let chosen =
            signals.filter(|signal| such(unsafe { (*actions)[**signal as usize].handler }));
        chosen.fold(0, |all, &signal| all | signal_bit(signal))
    })
}

/// A thread of this process.
fn thread(context: &Context, tid: u32) -> Option<&'static Context> {
    let space = space();
    let used = space.areas_used.load(Ordering::Acquire) as usize;
    let others = space.areas[..used.min(AREAS)].iter().map(|area| area.load(Ordering::Acquire));
    let first = &raw const space.first as u64;
    let mut contexts = others.chain([first]).filter(|&area| area != 0).map(|area| {
        // SAFETY: areas are never unmapped.
        unsafe { &(*(area as *const ThreadArea)).context }
    });
    contexts.find(|other| {
        other.tid == tid
            && core::ptr::eq(other.process, context.process)
            && other.area_state.load(Ordering::Relaxed) == area::USED
    })
}
