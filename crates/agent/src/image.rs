//! The agent as a standalone image that is placed into programs.
#![no_std]
#![no_main]

use agent as _;

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo) -> ! {
    // An inconsistent agent must not go on: stop where a debugger can see it.
    loop {
        // SAFETY: `ud2` only raises SIGILL.
        unsafe { core::arch::asm!("ud2") }
    }
}
