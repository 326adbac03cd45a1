//! Calls that are lost when another SIGSYS is on its way: the kernel keeps one of a kind.

use crate::arch::frames::{CALL_BYTES, UContext};
use crate::arch::places::in_agent_text;
use crate::context::Context;
use crate::memory;

/// The instruction that makes a call.
const SYSCALL: u16 = u16::from_le_bytes([0x0f, 0x05]);

/// At a SIGSYS of the agent's own: if the program has just begun a call, whose SIGSYS is lost, has it begin
/// the call again.
pub fn restore_lost(context: &Context, uc: &mut UContext) {
    let at = uc.address();
    let site = at.wrapping_sub(CALL_BYTES);
    if in_agent_text(at) || uc.destroyed().0 != at {
        return;
    }
    if memory::read::<u16>(context, site) != Some(SYSCALL) {
        return;
    }
    // Right after a call that has ended, all registers are as the agent left them.
    // SAFETY: the frame of the last call stays until the next one begins.
    let frame = unsafe { context.frame.get().as_ref() };
    let has_ended =
        context.site.get() == site && frame.is_some_and(|frame| uc.is_as_left_by(frame));
    if !has_ended {
        uc.set_address(site);
    }
}
