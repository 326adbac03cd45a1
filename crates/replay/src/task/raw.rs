//! Calls made without the C library: a cradle and its group share one thread-local storage, so the
//! cradle may not even set `errno`. No crate offers a clone in the same memory with that rule.

use std::arch::asm;
use std::io;
use std::sync::atomic::AtomicU32;

/// Bytes of stack between what the cradle uses and what its group uses.
const GAP: usize = 32 << 10;

/// One system call, without the C library.
///
/// # Safety
/// As the call itself.
unsafe fn call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let result;
    // SAFETY: a system call changes rax, rcx and r11; memory is assumed changed.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A result of the kernel as Rust has it.
pub fn check(result: isize) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

/// clone(2) without a signal at the end. The new task runs `entry(argument)` on this thread's stack,
/// some way below; zero as return address ends backtraces there.
///
/// # Safety
/// This thread must stay above the gap, and use no thread-local storage, until the task is dead.
#[inline(always)]
pub unsafe fn clone_below(
    flags: i32,
    entry: extern "C" fn(*mut libc::c_void) -> !,
    argument: *mut libc::c_void,
) -> isize {
    let result;
    // SAFETY: the parent's side is a plain system call; the child never comes back.
    unsafe {
        asm!(
            "lea rsi, [rsp - {gap}]",
            "and rsi, -16",
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "push 0",
            "jmp r13",
            "2:",
            gap = const GAP,
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as usize,
            lateout("rsi") _,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Closes every descriptor of this thread's table.
pub fn close_all() -> isize {
    // SAFETY: numbers only; no descriptor of ours is in a task's table.
    unsafe { call(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0]) }
}

/// Leaves this thread with an empty table. Whoever shares the old one keeps it; if nobody does, all
/// of it is closed when this returns, and its locks are gone.
pub fn let_go_of_descriptors() {
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: numbers only.
    unsafe { call(libc::SYS_close_range, [0, u32::MAX as usize, unshare, 0]) };
}

/// Waits until a child, and all threads of its group, are dead; its status.
pub fn reap(pid: i32) -> i32 {
    let mut status = 0i32;
    let all = libc::__WALL as usize;
    loop {
        // SAFETY: the status is writable; numbers else.
        let result =
            unsafe { call(libc::SYS_wait4, [pid as usize, &raw mut status as usize, all, 0]) };
        if result != -libc::EINTR as isize {
            return status;
        }
    }
}

/// Wakes who waits at a word.
pub fn wake(word: &AtomicU32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the word is only an address to the kernel.
    unsafe { call(libc::SYS_futex, [address, libc::FUTEX_WAKE as usize, i32::MAX as usize, 0]) };
}

/// Sleeps unless the word is not zero; may return early.
pub fn wait_while_zero(word: &AtomicU32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the word lives as long as the borrow; no time limit is given.
    unsafe { call(libc::SYS_futex, [address, libc::FUTEX_WAIT as usize, 0, 0]) };
}

/// This thread's group.
pub fn pid() -> i32 {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_getpid, [0; 4]) as i32 }
}

/// This thread, as the kernel has it: the C library remembers the cradle's.
pub fn tid() -> i32 {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_gettid, [0; 4]) as i32 }
}

/// Ends this thread without the C library's clean-up, which is the cradle's business.
pub fn exit_thread() -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit, [0; 4]) };
    }
}
