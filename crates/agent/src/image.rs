//! The agent as the image that is placed into programs.
#![no_std]
#![no_main]

use agent as _;

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo) -> ! {
    // An agent that has lost its mind must not go on: stop where a debugger can see it.
    loop {
        // SAFETY: raises SIGILL, nothing else.
        unsafe { core::arch::asm!("ud2") }
    }
}
