//! Sets the state in a kernel's frame to one that the program could be in: before a call or after
//! it.

use crate::arch::frames::{CALL_BYTES, UContext};
use crate::arch::head::{ALTSTACK_BYTES, phase};
use crate::arch::places;
use crate::context::Context;
use crate::sites;

/// Returns true if the interrupted code was one of the agent's handlers.
pub fn on_own_stack(context: &Context, uc: &UContext) -> bool {
    let stack = context.area().altstack_address();
    (stack..stack + ALTSTACK_BYTES as u64).contains(&uc.stack_pointer())
}

/// Undoes the entry code: sets the state to that before the call.
pub fn set_before_entry(context: &Context, uc: &mut UContext) {
    places::undo_entry(uc, &context.head);
}

/// Sets the state to that at the site of the current call.
pub fn set_at_site(context: &Context, uc: &mut UContext) {
    context.phase.set(context.running.get());
    // SAFETY: `frame` is the frame of the current call.
    uc.set_from(unsafe { &*context.frame.get() }, context.site.get());
    places::preserve_if_old(uc, &context.head);
}

/// Sets the state to that after the current call.
pub fn set_after_call(context: &Context, uc: &mut UContext) {
    context.phase.set(context.running.get());
    // SAFETY: `frame` is the frame of the current call.
    uc.set_from(unsafe { &*context.frame.get() }, context.site.get() + CALL_BYTES);
    if context.running.get() == phase::LEFT_ALONE {
        // The agent cannot correct this address on the way back from the handler.
        uc.set_address(sites::real_address(uc.address()));
    }
    if let Some(number) = context.trapped.take() {
        uc.set_result(number);
    }
}
