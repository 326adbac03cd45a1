//! Open handlers: used while a filter denies masking signals, or returning from a handler.
//!
//! The kernel masks only what the program's handler asks for, so leaving the agent's handler need
//! not undo anything, and needs no system call. In exchange, a signal may hit in a handler, or
//! while another signal waits for the current call's record. It is then queued:
//!
//! | where the signal hit | what happens |
//! |---|---|
//! | a handler of the agent | queued, and delivered before that handler is left |
//! | a handler that has begun to return | delivered to the state it was returning to |
//! | a call that is made and not recorded | queued, and delivered once that is recorded |
//! | elsewhere | as usual |

use crate::arch::entry;
use crate::arch::entry_quiet;
use crate::arch::frames::{Pattern, SignalFrame, UContext};
use crate::arch::head::ALTSTACK_BYTES;
use crate::arch::places::in_agent_text;
use crate::context::{Context, SOME_WAIT, current};
use crate::deliver::deliver;
use crate::interrupted::{on_own_stack, set_after_call, set_at_site, set_before_entry};
use crate::signal::Info;
use crate::signal_queue::Entry;
use crate::sites;

/// Appends a signal to the queue.
pub fn add(context: &Context, signal: u32, info: &Info, uc: &UContext) {
    context.waiting.pattern.set(Pattern::of(uc));
    if context.waiting.add(signal, info) {
        context.held_frame.set(SOME_WAIT);
    }
}

/// Returns true if the interrupted code was a handler of the agent. If that had begun to return,
/// first replaces the interrupted state by the one it was returning to.
pub fn hit_a_handler(context: &Context, uc: &mut UContext) -> bool {
    if let Some(frame) = entry_quiet::returning_frame(uc) {
        // SAFETY: the frame that the other handler returns through lies above ours.
        uc.take_state(unsafe { &(*frame).context });
    }
    entry_quiet::begins_handler(uc.address()) || on_own_stack(context, uc)
}

/// Delivers queued signals, before a handler of the agent returns to the program. Returns 1 if more
/// may have been queued.
#[unsafe(export_name = "reenact_deliver_waiting")]
pub extern "C" fn deliver_waiting(uc: &mut UContext) -> u32 {
    let context = current();
    let address = uc.address();
    if on_own_stack(context, uc) {
        return 0;
    }
    if address == entry::entry() {
        set_before_entry(context, uc);
    } else if in_agent_text(address) {
        // Delivered when the call is recorded.
        return 0;
    } else {
        sites::show_original(uc);
    }
    // First: signals that arrive from here on set it again.
    context.held_frame.set(0);
    while let Some(Entry { signal, info }) = context.waiting.take() {
        let base = context.call_mask.take().unwrap_or(context.mask.get());
        deliver(context, signal, &info, uc, base);
    }
    uc.set_address(sites::real_address(uc.address()));
    1
}

/// Builds the frame that the kernel would build for a signal that hits the program now, at the end
/// of the alternate stack, and returns its address. Runs on the part of the stack below it.
#[unsafe(export_name = "reenact_build_frame")]
pub extern "C" fn build_frame(made: u32) -> u64 {
    let context = current();
    // SAFETY: the end of the agent's stack is not in use.
    let frame = unsafe { &mut *context.waiting.pattern.get().build(stack_end(context)) };
    if made != 0 {
        set_after_call(context, &mut frame.context);
    } else {
        set_at_site(context, &mut frame.context);
    }
    core::ptr::from_mut(frame) as u64
}

/// Moves a frame to the agent's stack, which is not in use then. The kernel put it elsewhere
/// because no alternate stack is registered, or because the program's handler does not ask for it.
#[unsafe(export_name = "reenact_move_frame")]
pub extern "C" fn move_frame(frame: &SignalFrame) -> u64 {
    // SAFETY: the end of the agent's stack is not in use.
    unsafe { frame.copy_below(stack_end(current())) as u64 }
}

fn stack_end(context: &Context) -> u64 {
    context.area().altstack_address() + ALTSTACK_BYTES as u64
}
