//! Where a thread was interrupted, and what that means.

use syscalls::abi::errno::{EINTR, result};

use super::access::{
    copy_done, copy_insn, load_fault, load_insn, store_fault, store_insn, stream_begin,
    stream_done, stream_rest,
};
use super::entry::{
    bypass, call_begin, call_insn, entry, entry_end, entry_switched, old_call_begin, old_call_insn,
    sigreturn_begin, sigreturn_refused, text_end, text_start,
};
use super::frames::{CALL_BYTES, UContext};
use super::head::{Head, slow};

/// Returns true if the address is in the agent's text.
pub fn in_agent_text(address: u64) -> bool {
    (text_start()..text_end()).contains(&address)
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

/// Where a thread was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the program, or in a stub.
    Program,
    /// In the bypass or in the entry code, before that has stored the program's registers.
    Entry,
    /// At the program's call, which is not made.
    Call,
    /// At the program's call, which the kernel has interrupted and restarts.
    RestartedCall,
    /// At an rt_sigreturn that is not made.
    Return,
    /// Behind an rt_sigreturn that a filter has answered.
    RefusedReturn,
    /// Elsewhere in the agent.
    Agent,
}

/// Returns where a thread was interrupted.
pub fn place_of(uc: &UContext) -> Place {
    let rip = uc.regs.rip;
    if !in_agent_text(rip) {
        return Place::Program;
    }
    if (bypass()..entry_end()).contains(&rip) {
        return Place::Entry;
    }
    if rip == sigreturn_refused() {
        return Place::RefusedReturn;
    }
    if (sigreturn_begin()..sigreturn_refused()).contains(&rip) {
        return Place::Return;
    }
    // %rcx is cleared before the instruction, and the instruction sets it.
    if rip == call_insn() && uc.regs.rcx == rip + CALL_BYTES {
        return Place::RestartedCall;
    }
    let at_call = (call_begin()..=call_insn()).contains(&rip)
        || (old_call_begin()..=old_call_insn()).contains(&rip);
    if at_call { Place::Call } else { Place::Agent }
}

/// A call that the kernel is about to make again fails, as it would by a handler that does not want that.
pub fn fail_restarted(uc: &mut UContext) {
    if place_of(uc) == Place::RestartedCall {
        uc.regs.rip += CALL_BYTES;
        uc.regs.rax = result(EINTR) as u64;
    }
}

/// Ends an access to program memory that has faulted. Returns false if this is no such access.
pub fn end_access(uc: &mut UContext) -> bool {
    let end = match uc.regs.rip {
        rip if rip == copy_insn() => copy_done(),
        rip if rip == load_insn() => load_fault(),
        rip if rip == store_insn() => store_fault(),
        // Nothing of this line is copied: byte by byte, what is there is.
        rip if (stream_begin()..stream_rest()).contains(&rip) => stream_rest(),
        rip if rip == stream_rest() => stream_done(),
        _ => return false,
    };
    uc.regs.rip = end;
    true
}
