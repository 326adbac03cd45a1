//! The ptrace requests that exec stops need.

use std::io;

use crate::alarm;

/// The type of requests, in which C libraries differ.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

fn request(what: Request, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: callers pass the pointers and lengths that the request needs.
    let result = unsafe { libc::ptrace(what, tid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Time limit for attaching.
const SEIZE_WAIT_NS: i64 = 2_000_000;

/// Attaches without stopping, to get exec stops. `Interrupted`: another thread of the process is
/// executing a program, for which the kernel waits, and which may itself be waiting for us.
pub fn seize(tid: i32) -> io::Result<()> {
    alarm::within(SEIZE_WAIT_NS, || {
        request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACEEXEC as usize)
    })
}

/// Signal number of a stop at a system call after [`to_next_call`].
pub const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Resumes a stopped thread until its next call begins or ends.
pub fn to_next_call(tid: i32, signal: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize)?;
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize)
}

pub fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Whether a traced thread has stopped or ended. Does not consume the status.
pub fn has_news(tid: i32) -> bool {
    // SAFETY: all-zero bytes are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let id = tid.cast_unsigned();
    // SAFETY: the kernel fills a local struct.
    unsafe { libc::waitid(libc::P_PID, id, &raw mut info, flags) == 0 && info.si_pid() != 0 }
}

/// Resumes a stopped thread with a signal, or none (0).
pub fn resume(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Keeps a thread in its group stop.
pub fn listen(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Detaches from a stopped thread, with a signal or none (0).
pub fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// Whether a traced thread is stopped. Only a kill ends a stop without our doing.
pub fn is_stopped(tid: i32) -> bool {
    blocked_signals(tid).is_ok()
}

/// The former thread id of a thread that has executed a program.
pub fn former_tid(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message as i32)
}

pub fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero bytes are a valid struct of numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// The signals that a stopped thread blocks, as a bit mask.
pub fn blocked_signals(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK as Request, tid, size_of_val(&mask), &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets the registers of a stopped thread.
pub fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, core::ptr::from_ref(registers) as usize)
}

/// Sets the signals that a stopped thread blocks.
pub fn block_signals(tid: i32, mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK as Request, tid, size_of_val(&mask), &raw const mask as usize)
}

/// Why a thread is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was interrupted, or is in a group stop.
    Between,
    /// At a system call, see [`CALL_STOP`].
    Call,
    /// At the delivery of this signal.
    Signal(i32),
    /// At another ptrace event.
    Event,
}

/// Why a thread is stopped; `None` if it is not.
pub fn stop_of(tid: i32) -> Option<Stop> {
    // SAFETY: all-zero bytes are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    match request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info as usize) {
        Ok(()) if info.si_code == CALL_STOP => Some(Stop::Call),
        Ok(()) if info.si_code >> 8 == libc::PTRACE_EVENT_STOP => Some(Stop::Between),
        Ok(()) if info.si_signo == libc::SIGTRAP && info.si_code >> 8 > 0 => Some(Stop::Event),
        Ok(()) => Some(Stop::Signal(info.si_signo)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Some(Stop::Between),
        Err(_) => None,
    }
}
