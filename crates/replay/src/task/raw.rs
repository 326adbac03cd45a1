//! System calls without the C library: a cradle and its group share thread-local storage, so the
//! cradle may not even set `errno`. No crate offers a clone in the same memory like that.

use std::arch::asm;
use std::io;
use std::sync::atomic::AtomicU32;

/// Stack bytes between the cradle's part and its group's.
const GAP: usize = 32 << 10;

/// Makes one system call, without the C library.
///
/// # Safety
/// The requirements of the system call itself.
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

/// Converts a kernel result.
pub fn check(result: isize) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

/// clone(2) without an exit signal. The new task runs `entry(argument)` on this thread's stack,
/// `GAP` bytes further down; a zero return address ends backtraces there.
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
    // SAFETY: the parent just returns from a system call; the child never returns.
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
    // SAFETY: the arguments are numbers, and no descriptor of ours is in a task's table.
    unsafe { call(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0]) }
}

/// Gives this thread an empty table. Tasks that share the old one keep it; otherwise all its
/// descriptors are closed and its locks released when this returns.
pub fn let_go_of_descriptors() {
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: the arguments are numbers, and no descriptor of ours is in a task's table.
    unsafe { call(libc::SYS_close_range, [0, u32::MAX as usize, unshare, 0]) };
}

/// Waits until a child and all threads of its group are dead. Returns its status.
pub fn reap(pid: i32) -> i32 {
    let mut status = 0i32;
    let all = libc::__WALL as usize;
    loop {
        // SAFETY: the status is writable; the rest are numbers.
        let result =
            unsafe { call(libc::SYS_wait4, [pid as usize, &raw mut status as usize, all, 0]) };
        if result != -libc::EINTR as isize {
            return status;
        }
    }
}

/// Wakes all waiters on a word.
pub fn wake(word: &AtomicU32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the kernel uses the word only as an address.
    unsafe { call(libc::SYS_futex, [address, libc::FUTEX_WAKE as usize, i32::MAX as usize, 0]) };
}

/// Sleeps while the word is zero; may return early.
pub fn wait_while_zero(word: &AtomicU32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the word is borrowed, so it lives through the call; no timeout is passed.
    unsafe { call(libc::SYS_futex, [address, libc::FUTEX_WAIT as usize, 0, 0]) };
}

/// This thread's group id.
pub fn pid() -> i32 {
    // SAFETY: getpid has no arguments and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 4]) as i32 }
}

/// This thread's kernel id: the C library would return the cradle's.
pub fn tid() -> i32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { call(libc::SYS_gettid, [0; 4]) as i32 }
}

/// Ends this thread without the C library's cleanup, which the cradle does.
pub fn exit_thread() -> ! {
    loop {
        // SAFETY: the call ends this thread and does not return.
        unsafe { call(libc::SYS_exit, [0; 4]) };
    }
}
