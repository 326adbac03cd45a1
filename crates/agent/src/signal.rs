//! What signals are made of: sets, actions, siginfo and alternate stacks.

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SIG_IGN, SYS_SECCOMP, SYS_USER_DISPATCH};

use crate::arch::frames::AltStack;
use crate::cells::Word;

/// Place of the value in a siginfo.
pub const VALUE_AT: usize = 24;

/// Signals for which the agent is always the kernel's handler.
pub const ALWAYS_OURS: [u32; 3] = [raw::SIGSYS, raw::SIGSEGV, raw::SIGBUS];

pub const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Signals raised by memory faults.
pub const FAULTS: u64 = signal_bit(raw::SIGSEGV) | signal_bit(raw::SIGBUS);
/// Signals that nobody can block.
pub const UNBLOCKABLE: u64 = signal_bit(raw::SIGKILL) | signal_bit(raw::SIGSTOP);

/// Returns the mask to set in the kernel for a mask of the program: SIGSYS stays deliverable.
pub const fn real_mask(mask: u64) -> u64 {
    mask & !signal_bit(raw::SIGSYS)
}

/// A signal action, laid out as for rt_sigaction.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// The actions of a process, by signal number.
pub struct Actions([SharedAction; 65]);

/// Other threads, and handlers, may read an action while it is changed: they see old or new words.
struct SharedAction {
    handler: Word,
    flags: Word,
    restorer: Word,
    mask: Word,
}

impl Actions {
    pub fn get(&self, signal: u32) -> Action {
        let action = &self.0[signal as usize];
        Action {
            handler: action.handler.get(),
            flags: action.flags.get(),
            restorer: action.restorer.get(),
            mask: action.mask.get(),
        }
    }

    pub fn set(&self, signal: u32, action: &Action) {
        let to = &self.0[signal as usize];
        to.handler.set(action.handler);
        to.flags.set(action.flags);
        to.restorer.set(action.restorer);
        to.mask.set(action.mask);
    }

    pub fn handler(&self, signal: u32) -> u64 {
        self.0[signal as usize].handler.get()
    }

    pub fn set_handler(&self, signal: u32, handler: u64) {
        self.0[signal as usize].handler.set(handler);
    }

    /// Copies all actions of another process.
    pub fn copy_from(&self, other: &Actions) {
        (0..self.0.len() as u32).for_each(|signal| self.set(signal, &other.get(signal)));
    }

    /// Returns the signals that the agent handles in the kernel, with their actions.
    pub fn handled(&self) -> impl Iterator<Item = (u32, Action)> {
        (1..=64)
            .map(|signal| (signal, self.get(signal)))
            .filter(|(signal, action)| action.handler > SIG_IGN || ALWAYS_OURS.contains(signal))
    }
}

/// A siginfo.
pub type Info = [u8; 128];

const SI_CODE_AT: usize = 8;
/// Offset in a SIGSYS siginfo of the address after the call.
const CALL_ADDRESS_AT: usize = 16;

pub fn si_code(info: &Info) -> i32 {
    word_of(info, SI_CODE_AT) as i32
}

/// Returns the architecture of the call in a siginfo of SIGSYS.
pub fn arch_of(info: &Info) -> u32 {
    word_of(info, CALL_ADDRESS_AT + 12)
}

pub fn call_address(info: &Info) -> u64 {
    let [low, high] = [0, 4].map(|at| u64::from(word_of(info, CALL_ADDRESS_AT + at)));
    low | high << 32
}

pub fn set_call_address(info: &mut Info, address: u64) {
    info[CALL_ADDRESS_AT..][..8].copy_from_slice(&address.to_ne_bytes());
}

fn word_of(info: &Info, at: usize) -> u32 {
    u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]])
}

/// Returns true if a SIGSYS is for the call right before `address`, not sent by some process.
pub fn is_at_call(info: &Info, address: u64) -> bool {
    call_address(info) == address
}

/// Returns the siginfo of a fault that the kernel raises when a handler's frame does not fit.
pub fn fault_info() -> Info {
    let mut fault = [0u8; 128];
    fault[0] = raw::SIGSEGV as u8;
    fault[SI_CODE_AT] = raw::SI_KERNEL as u8;
    fault
}

/// Reason why the kernel sent a signal that can be neither blocked nor ignored.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Forced {
    /// An instruction that will fault again.
    ByFault,
    /// A call just before this state, which a filter or user dispatch refused.
    BySystemCall,
}

/// Returns why a signal was forced on a thread at `address`, if it was. `is_ours` tells whether an
/// address is in the agent's text.
pub fn forced_by(
    signal: u32,
    info: &Info,
    address: u64,
    is_ours: impl FnOnce(u64) -> bool,
) -> Option<Forced> {
    let code = si_code(info);
    match signal {
        raw::SIGSEGV | raw::SIGBUS => (code > 0).then_some(Forced::ByFault),
        raw::SIGSYS if code == SYS_SECCOMP || code == SYS_USER_DISPATCH => {
            let call = call_address(info);
            (call == address || is_ours(call)).then_some(Forced::BySystemCall)
        }
        _ => None,
    }
}

pub const NO_ALTSTACK: AltStack = AltStack { sp: 0, flags: raw::SS_DISABLE, padding: 0, size: 0 };

pub fn on_altstack(alt: &AltStack, stack_pointer: u64) -> bool {
    alt.flags & raw::SS_AUTODISARM == 0 && lies_in(alt, stack_pointer)
}

pub fn lies_in(alt: &AltStack, stack_pointer: u64) -> bool {
    stack_pointer > alt.sp && stack_pointer - alt.sp <= alt.size
}

/// Returns the alternate stack as sigaltstack and ucontext show it.
pub fn shown_altstack(alt: &AltStack, stack_pointer: u64) -> AltStack {
    let flags = if alt.size == 0 {
        raw::SS_DISABLE
    } else if on_altstack(alt, stack_pointer) {
        raw::SS_ONSTACK
    } else {
        0
    };
    AltStack { flags: flags | alt.flags & raw::SS_AUTODISARM, padding: 0, ..*alt }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sigsys(code: i32, address: u64) -> Info {
        let mut info = [0; 128];
        info[SI_CODE_AT..][..4].copy_from_slice(&code.to_ne_bytes());
        set_call_address(&mut info, address);
        info
    }

    #[test]
    fn faults_and_refused_calls_are_forced() {
        let forced = |signal, info: &Info, address| {
            forced_by(signal, info, address, |address| address >= 0x7000)
        };
        assert_eq!(forced(raw::SIGSEGV, &fault_info(), 1), Some(Forced::ByFault));
        assert_eq!(forced(raw::SIGSEGV, &[0; 128], 1), None, "sent by a process");
        assert_eq!(forced(raw::SIGTERM, &fault_info(), 1), None);
        let refused = sigsys(SYS_SECCOMP, 0x1000);
        assert_eq!(forced(raw::SIGSYS, &refused, 0x1000), Some(Forced::BySystemCall));
        assert_eq!(forced(raw::SIGSYS, &refused, 0x2000), None, "sent with that code");
        let ours = sigsys(SYS_USER_DISPATCH, 0x7008);
        assert_eq!(forced(raw::SIGSYS, &ours, 0x1000), Some(Forced::BySystemCall));
        assert_eq!(forced(raw::SIGSYS, &sigsys(0, 0x1000), 0x1000), None);
        assert!(is_at_call(&refused, 0x1000) && !is_at_call(&refused, 0x1002));
    }

    #[test]
    fn the_alternate_stack_is_shown_as_it_is_used() {
        let alt = AltStack { sp: 0x1000, flags: 0, padding: 0, size: 0x2000 };
        assert!(!on_altstack(&alt, 0x1000) && on_altstack(&alt, 0x1001));
        assert!(on_altstack(&alt, 0x3000) && !on_altstack(&alt, 0x3001));
        assert_eq!(shown_altstack(&alt, 0x2000).flags, raw::SS_ONSTACK);
        assert_eq!(shown_altstack(&alt, 0x5000).flags, 0);
        assert_eq!(shown_altstack(&NO_ALTSTACK, 0x5000).flags, raw::SS_DISABLE);
        let disarmed = AltStack { flags: raw::SS_AUTODISARM, ..alt };
        assert_eq!(shown_altstack(&disarmed, 0x2000).flags, raw::SS_AUTODISARM);
    }

    #[test]
    fn actions_are_by_signal() {
        // SAFETY: all zeros is how the table starts.
        let (actions, copy): (Actions, Actions) = unsafe { core::mem::zeroed() };
        let handler = Action { handler: 0x1234, flags: 4, restorer: 5, mask: 6 };
        actions.set(raw::SIGUSR1, &handler);
        actions.set_handler(raw::SIGPIPE, SIG_IGN);
        copy.copy_from(&actions);
        assert_eq!(copy.handler(raw::SIGPIPE), SIG_IGN);
        assert_eq!(copy.get(raw::SIGUSR1).mask, 6);
        let handled: std::vec::Vec<u32> = copy.handled().map(|(signal, _)| signal).collect();
        assert_eq!(handled, [raw::SIGBUS, raw::SIGUSR1, raw::SIGSEGV, raw::SIGSYS]);
    }

    #[test]
    fn a_mask_of_the_program_leaves_sigsys() {
        assert_eq!(real_mask(u64::MAX), !signal_bit(raw::SIGSYS));
    }
}
