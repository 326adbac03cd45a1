//! Single instructions.

use core::arch::asm;
use core::ffi::c_void;

use super::head::Head;

/// Makes a system call from agent text: not recorded, and not intercepted.
///
/// # Safety
/// The arguments must be what the call needs: pointers to agent memory, or values of the program.
#[inline(always)]
pub unsafe fn system_call(number: u32, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller guarantees the arguments; all clobbers are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") i64::from(number) => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Stores past the caches are seen by others before stores that follow.
#[inline(always)]
pub fn stores_are_seen() {
    // SAFETY: `sfence` only orders stores; every x86_64 processor has it.
    unsafe { core::arch::x86_64::_mm_sfence() }
}

/// Reads the time stamp counter. Not ordered with the code around it: off by some ten nanoseconds.
#[inline(always)]
pub fn time_stamp() -> u64 {
    // SAFETY: `rdtsc` only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The machine code of `rdtsc`.
const RDTSC: [u8; 2] = [0x0f, 0x31];

/// Length of the instruction at this address of the agent's text if it reads the counter.
pub fn time_stamp_read_at(address: u64) -> Option<u64> {
    // SAFETY: agent text, which was about to be executed.
    let bytes = unsafe { (address as *const [u8; 2]).read() };
    (bytes == RDTSC).then_some(RDTSC.len() as u64)
}

/// Returns the head of the current thread's context.
#[inline(always)]
pub fn own_head() -> *const Head {
    let this: *const Head;
    // SAFETY: while agent code runs, %gs points to a head, or a `Native`, which begins alike.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly)) };
    this
}

/// Returns the state of the current thread's process.
#[inline(always)]
pub fn own_process() -> *const c_void {
    // SAFETY: `%gs` points to a head or to a `Native`, which have this pointer at the same place.
    unsafe { (*own_head()).process.get() }
}

/// Bit of the auxiliary vector's second word of features: `%gs` can be set by an instruction.
const FSGSBASE: u64 = 1 << 1;

/// Returns true if these features allow `set_gs`.
pub fn can_set_gs(features: u64) -> bool {
    features & FSGSBASE != 0
}

/// Sets `%gs` by an instruction.
///
/// # Safety
/// The processor and the kernel must allow it; agent code that uses `%gs` needs a head there.
pub unsafe fn set_gs(base: u64) {
    // SAFETY: the caller guarantees it.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack)) };
}

/// Stores eight bytes at once, as other threads see it.
///
/// # Safety
/// The bytes must be writable and lie in one cache line.
pub unsafe fn store_at_once(at: u64, word: u64) {
    // SAFETY: the caller guarantees it.
    unsafe { asm!("mov [{}], {}", in(reg) at, in(reg) word, options(nostack)) };
}

/// Stops where a debugger can see it: an inconsistent agent must not go on.
pub fn stop() -> ! {
    loop {
        // SAFETY: `ud2` only raises SIGILL.
        unsafe { asm!("ud2") }
    }
}
