//! The agent as a standalone image that is placed into programs.
#![no_std]
#![no_main]

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo) -> ! {
    agent::stop()
}
