//! `%gs` of a recorded thread.

use super::processor;
use crate::context::{Context, space};
use crate::needs::Need;
use crate::sys;
use syscalls::abi::tasks::ARCH_SET_GS;

/// Points `%gs` of this thread to its context.
pub fn point_to(context: &Context) {
    let base = context.this.get() as u64;
    if space().can_write_gs.get() {
        // SAFETY: the processor and the kernel allow it; `%gs` belongs to the agent.
        unsafe { processor::set_gs(base) };
    } else {
        sys::call(Need::SetGs, [u64::from(ARCH_SET_GS), base, 0, 0, 0, 0]);
    }
}
