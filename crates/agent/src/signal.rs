//! What signals are made of: sets, actions, siginfo and alternate stacks.

use linux_raw_sys::general as raw;

use crate::arch::frames::AltStack;
use crate::cells::Word;

/// Signals for which the agent is always the kernel's handler.
pub const ALWAYS_OURS: [u32; 3] = [raw::SIGSYS, raw::SIGSEGV, raw::SIGBUS];
pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;
pub const SS_AUTODISARM: u32 = 1 << 31;

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

/// siginfo code: sent by the kernel itself.
const SI_KERNEL: u8 = 0x80;
/// siginfo codes of SIGSYS: sent by a filter, or by user dispatch.
pub const SYS_SECCOMP: i32 = 1;
pub const SYS_USER_DISPATCH: i32 = 2;
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
    fault[SI_CODE_AT] = SI_KERNEL;
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

pub const NO_ALTSTACK: AltStack = AltStack { sp: 0, flags: raw::SS_DISABLE, size: 0 };

pub fn on_altstack(alt: &AltStack, stack_pointer: u64) -> bool {
    alt.flags & SS_AUTODISARM == 0 && lies_in(alt, stack_pointer)
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
    AltStack { flags: flags | alt.flags & SS_AUTODISARM, ..*alt }
}
