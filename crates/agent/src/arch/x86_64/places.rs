//! Where a thread was interrupted, and what that means.

use super::entry::{
    bypass, call_begin, call_insn, copy_done, copy_insn, entry, entry_end, entry_switched,
    load_fault, load_insn, old_call_begin, old_call_insn, sigreturn_begin, sigreturn_refused,
    text_end, text_start,
};
use super::frames::{CALL_BYTES, UContext};
use super::head::{Head, slow};

/// Returns true if the address is in the agent's text.
pub fn in_agent_text(address: u64) -> bool {
    (text_start()..text_end()).contains(&address)
}

/// Returns true if a thread interrupted here is in the bypass or in the entry code, before it has
/// stored the program's registers.
pub fn is_before_frame(address: u64) -> bool {
    (bypass()..entry_end()).contains(&address)
}

/// Undoes the entry code: sets the state to that before the call.
pub fn undo_entry(uc: &mut UContext, head: &Head) {
    if uc.regs.rip >= entry_switched() {
        uc.regs.rsp = head.app_rsp.get();
    }
    uc.regs.rip = uc.regs.r11;
    preserve_if_old(uc, head);
    head.slow.set(0);
}

/// Restores the registers that `int 0x80` preserves, at the site of such a call.
pub fn preserve_if_old(uc: &mut UContext, head: &Head) {
    if head.slow.get() == slow::INT_80 {
        uc.preserve(head.old_rcx.get(), head.old_r11.get());
    }
}

/// Sets the state of a thread in the bypass to the call site. Returns the address of the state.
pub fn leave_bypass(uc: &mut UContext) -> u64 {
    if (bypass()..entry()).contains(&uc.regs.rip) {
        uc.regs.rip = uc.regs.r11;
    }
    uc.regs.rip
}

/// What a thread is about to do that was interrupted near the program's call.
pub enum AtCall {
    /// The call is not made.
    NotMade,
    /// The kernel has interrupted the call and restarts it.
    Restarted,
    /// rt_sigreturn is not made.
    ReturnNotMade,
    /// A filter has answered rt_sigreturn.
    ReturnRefused,
}

/// Returns where a thread was interrupted, if that is at the program's call.
pub fn at_call(uc: &UContext) -> Option<AtCall> {
    let rip = uc.regs.rip;
    if rip == sigreturn_refused() {
        return Some(AtCall::ReturnRefused);
    }
    if (sigreturn_begin()..=sigreturn_refused()).contains(&rip) {
        return Some(AtCall::ReturnNotMade);
    }
    if (call_begin()..=call_insn()).contains(&rip) {
        // %rcx is cleared before the instruction, and the instruction sets it.
        let was_in_kernel = rip == call_insn() && uc.regs.rcx == rip + CALL_BYTES;
        return Some(if was_in_kernel { AtCall::Restarted } else { AtCall::NotMade });
    }
    (old_call_begin()..=old_call_insn()).contains(&rip).then_some(AtCall::NotMade)
}

/// Ends an access to program memory that has faulted. Returns false if this is no such access.
pub fn end_access(uc: &mut UContext) -> bool {
    let end = match uc.regs.rip {
        rip if rip == copy_insn() => copy_done(),
        rip if rip == load_insn() => load_fault(),
        _ => return false,
    };
    uc.regs.rip = end;
    true
}
