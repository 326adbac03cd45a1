//! What the kernel must know of a thread for it to be recorded: dispatch and alternate stack.

use linux_raw_sys::prctl;

use crate::arch::entry;
use crate::arch::frames::AltStack;
use crate::arch::head::ALTSTACK_BYTES;
use crate::context::{Context, Dispatch};
use crate::needs::Need;
use crate::sys;

/// Makes the kernel raise SIGSYS for every system call of this thread from outside the agent's
/// text, while the program runs.
pub fn arm_dispatch(context: &Context) {
    let (start, end) = (entry::text_start(), entry::text_end());
    let selector = &raw const context.head.phase as u64;
    set_dispatch(Some(Dispatch { start, len: end - start, selector }));
}

/// Sets the kernel's dispatch for this thread.
pub fn set_dispatch(wanted: Option<Dispatch>) {
    let op = u64::from(prctl::PR_SET_SYSCALL_USER_DISPATCH);
    let (on, off) = (u64::from(prctl::PR_SYS_DISPATCH_ON), u64::from(prctl::PR_SYS_DISPATCH_OFF));
    match wanted {
        Some(Dispatch { start, len, selector }) => {
            sys::call(Need::DispatchOn, [op, on, start, len, selector, 0]);
        }
        None => {
            sys::call(Need::DispatchOff, [op, off, 0, 0, 0, 0]);
        }
    }
}

/// Registers the agent's alternate stack for this thread with the kernel.
pub fn install_altstack(context: &Context) {
    let stack = own_altstack(context);
    sys::call(Need::SetStack, [&raw const stack as u64, 0, 0, 0, 0, 0]);
}

/// Returns the alternate stack that the kernel is to have.
pub fn own_altstack(context: &Context) -> AltStack {
    let sp = context.area().altstack_address();
    AltStack { sp, flags: 0, padding: 0, size: ALTSTACK_BYTES as u64 }
}
