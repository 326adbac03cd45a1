//! Signal delivery: builds the frame that the kernel would have built, in the same place.

use linux_raw_sys::general as raw;
use syscalls::record::{Header, RecordKind, SIGINFO_BYTES};

use crate::context::{Action, AltStack, Context, FAULTS, real_mask, signal_bit};
use crate::signals::{ALWAYS_OURS, SIG_DFL, SIG_IGN, SS_AUTODISARM};
use crate::stream::Stream;
use crate::sys::needed;
use crate::{clock, entry, entry_quiet, memory, native, sites, start, sys};

/// siginfo code: sent by the kernel itself.
const SI_KERNEL: u8 = 0x80;
/// siginfo codes of SIGSYS: sent by a filter, or by user dispatch.
pub const SYS_SECCOMP: i32 = 1;
pub const SYS_USER_DISPATCH: i32 = 2;
const SI_CODE_AT: usize = 8;
/// Offset in a SIGSYS siginfo of the address after the call.
const CALL_ADDRESS_AT: usize = 16;
const SA_RESTORER: u64 = 0x0400_0000;

/// Registers in a signal frame.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Registers {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub rflags: u64,
    pub segments: u64,
    err: u64,
    trapno: u64,
    pub oldmask: u64,
    cr2: u64,
    pub fpstate: u64,
    reserved: [u64; 8],
}

/// The kernel's ucontext.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UContext {
    pub flags: u64,
    link: u64,
    pub stack: AltStack,
    pub regs: Registers,
    pub sigmask: u64,
}

/// Frame that the kernel pushes for a handler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SignalFrame {
    restorer: u64,
    pub context: UContext,
    pub info: [u8; 128],
}

/// Magic number at the end of the floating-point state in a frame.
pub const MAGIC_END: u32 = 0x4650_5845;

/// Field offsets in the floating-point state.
pub mod fp {
    pub const MXCSR: u64 = 24;
    pub const XMM: u64 = 160;
    /// Description of the contents by the kernel: magic number, sizes, features.
    pub const SOFTWARE: u64 = 464;
    pub const SW_SIZE: u64 = 468;
    pub const LEGACY_BYTES: u64 = 512;
    pub const XSTATE_BV: u64 = 512;
    pub const MAGIC: u32 = 0x4650_5853;
    pub const SSE: u64 = 1 << 1;
    pub const PKRU: u64 = 1 << 9;
    pub const MXCSR_INIT: u32 = 0x1f80;
    pub const CONTROL_INIT: u16 = 0x37f;
}

/// Changes the kernel's frame, which holds the program's state, to lead into the program's handler;
/// or applies the signal's default action.
pub fn deliver(
    context: &mut Context,
    signal: u32,
    info: &[u8; 128],
    uc: &mut UContext,
    base_mask: u64,
) {
    context.call_mask = None;
    let mut info = *info;
    let forced = forced_by(signal, &info, uc.regs.rip);
    if forced == Some(Forced::BySystemCall) {
        info[CALL_ADDRESS_AT..][..8].copy_from_slice(&uc.regs.rip.to_ne_bytes());
    }
    let process = context.process();
    let actions = process.actions.get();
    // SAFETY: the table is accessed under its lock.
    let action = process.lock.with(|| unsafe {
        let slot = &mut (*actions)[signal as usize];
        let action = *slot;
        if action.handler > SIG_IGN && action.flags & u64::from(raw::SA_RESETHAND) != 0 {
            slot.handler = SIG_DFL;
        }
        action
    });
    if action.handler == SIG_IGN && forced.is_none() {
        uc.sigmask = real_mask(context.mask);
        uc.regs.rip = sites::real_address(uc.regs.rip);
        return;
    }
    // Like the kernel: a forced signal kills a process that blocks or ignores it.
    let blocked = forced == Some(Forced::BySystemCall) && base_mask & signal_bit(signal) != 0;
    if action.handler <= SIG_IGN || blocked {
        die_of(context, signal, forced, uc);
        return;
    }
    if action.flags & u64::from(raw::SA_RESETHAND) != 0
        && !ALWAYS_OURS.contains(&signal)
        && !sys::denies(needed::ACTIONS)
    {
        set_action(signal, &Action { handler: SIG_DFL, ..action });
    }
    record_signal(context, signal, action.handler, &info);
    if push_frame(context, signal, &action, &info, uc).is_none() {
        fail(context, signal, uc, base_mask);
        return;
    }
    let own = if action.flags & u64::from(raw::SA_NODEFER) == 0 { signal_bit(signal) } else { 0 };
    let unblockable = signal_bit(raw::SIGKILL) | signal_bit(raw::SIGSTOP);
    context.mask = (base_mask | action.mask | own) & !unblockable;
    uc.sigmask = real_mask(context.mask);
    context.update_fault_safety();
    if sys::is_quiet() && ALWAYS_OURS.contains(&signal) {
        // The kernel has masked nothing for these, and does not set the mask on return.
        sys::set_mask(uc.sigmask);
    }
}

/// Like the kernel: if a handler's frame does not fit, raises SIGSEGV. If SIGSEGV cannot be handled
/// either, kills the process.
fn fail(context: &mut Context, signal: u32, uc: &mut UContext, base_mask: u64) {
    let handler = |number: u32| {
        let actions = context.process().actions.get();
        // SAFETY: reads one word of the process's own table.
        unsafe { (*actions)[number as usize].handler }
    };
    let blocked = context.mask & signal_bit(raw::SIGSEGV) != 0;
    if signal == raw::SIGSEGV || blocked || handler(raw::SIGSEGV) <= SIG_IGN {
        die_of(context, raw::SIGSEGV, None, uc);
        return;
    }
    let mut fault = [0u8; 128];
    fault[0] = raw::SIGSEGV as u8;
    fault[SI_CODE_AT] = SI_KERNEL;
    deliver(context, raw::SIGSEGV, &fault, uc, base_mask);
}

/// Reason why the kernel sent a signal that can be neither blocked nor ignored.
#[derive(Clone, Copy, PartialEq)]
enum Forced {
    /// An instruction that will fault again.
    ByFault,
    /// A call just before this state, which a filter or user dispatch refused.
    BySystemCall,
}

fn forced_by(signal: u32, info: &[u8; 128], rip: u64) -> Option<Forced> {
    let code = si_code(info);
    match signal {
        raw::SIGSEGV | raw::SIGBUS => (code > 0).then_some(Forced::ByFault),
        raw::SIGSYS if code == SYS_SECCOMP || code == SYS_USER_DISPATCH => {
            let address = call_address(info);
            let is_real = address == rip || start::in_agent_text(address);
            is_real.then_some(Forced::BySystemCall)
        }
        _ => None,
    }
}

/// Returns true if the signal can be neither blocked nor ignored.
pub fn is_forced(signal: u32, info: &[u8; 128], rip: u64) -> bool {
    forced_by(signal, info, rip).is_some()
}

pub fn si_code(info: &[u8; 128]) -> i32 {
    word_of(info, SI_CODE_AT) as i32
}

/// Returns the architecture of the call in a siginfo of SIGSYS.
pub fn arch_of(info: &[u8; 128]) -> u32 {
    word_of(info, CALL_ADDRESS_AT + 12)
}

fn call_address(info: &[u8; 128]) -> u64 {
    let [low, high] = [0, 4].map(|at| u64::from(word_of(info, CALL_ADDRESS_AT + at)));
    low | high << 32
}

fn word_of(info: &[u8; 128], at: usize) -> u32 {
    u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]])
}

/// Like the kernel before it forces a signal: unblocks it, and resets its action if it was blocked
/// or ignored.
pub fn expose(context: &mut Context, signal: u32) {
    let process = context.process();
    let actions = process.actions.get();
    let blocked = context.mask & signal_bit(signal) != 0;
    context.mask &= !signal_bit(signal);
    process.lock.with(|| {
        // SAFETY: the table is accessed under its lock.
        let action = unsafe { &mut (*actions)[signal as usize] };
        if blocked || action.handler == SIG_IGN {
            action.handler = SIG_DFL;
        }
    });
}

/// Returns true if a SIGSYS is for the call right before `rip`, not sent by some process.
pub fn is_at_call(info: &[u8; 128], rip: u64) -> bool {
    call_address(info) == rip
}

/// Applies the default action of a signal that the kernel delivered to the agent.
fn die_of(context: &mut Context, signal: u32, forced: Option<Forced>, uc: &mut UContext) {
    uc.sigmask = real_mask(context.mask) & !signal_bit(signal);
    uc.regs.rip = sites::real_address(uc.regs.rip);
    if sys::is_quiet() {
        die_quietly(context, signal, forced, uc);
        return;
    }
    install_default(signal);
    if forced != Some(Forced::ByFault) {
        // A fault happens again by itself, at the right place; others are sent again.
        send_self(context, signal);
    }
}

/// Like `die_of`, where filters may deny its calls. For SIGSYS, their usual answer, it tries them.
fn die_quietly(context: &mut Context, signal: u32, forced: Option<Forced>, uc: &mut UContext) {
    let denied = sys::denies(needed::ACTIONS) && signal != raw::SIGSYS;
    if denied || install_default(signal) != 0 {
        native::crash(&mut uc.regs, uc.stack);
        return;
    }
    sys::set_mask(uc.sigmask);
    if signal == raw::SIGSEGV && forced.is_none() {
        native::crash(&mut uc.regs, uc.stack);
    } else if forced != Some(Forced::ByFault) {
        send_self(context, signal);
    }
}

fn send_self(context: &Context, signal: u32) {
    let (pid, tid) = (u64::from(context.process().pid), u64::from(sys::gettid()));
    sys::call(raw::__NR_tgkill, [pid, tid, u64::from(signal), 0, 0, 0]);
}

fn install_default(signal: u32) -> i64 {
    set_action(signal, &Action::default())
}

pub fn set_action(signal: u32, action: &Action) -> i64 {
    let at = core::ptr::from_ref(action) as u64;
    sys::call(raw::__NR_rt_sigaction, [u64::from(signal), at, 0, 8, 0, 0])
}

/// Makes the agent the kernel's handler of a signal, and keeps the flags of the program's action
/// that concern the kernel.
pub fn install_ours(signal: u32, wished: &Action) -> i64 {
    let ours = if sys::is_quiet() { open_handler(signal, wished) } else { handler(signal, wished) };
    set_action(signal, &Action { restorer: entry::restorer(), ..ours })
}

/// Makes the agent the handler of a signal for which the program has none. Returns the kernel's
/// action before.
pub fn replace_by_ours(signal: u32) -> Action {
    let ours = Action { restorer: entry::restorer(), ..handler(signal, &Action::default()) };
    let mut before = Action::default();
    let [new, old] = [&raw const ours as u64, &raw mut before as u64];
    sys::call(raw::__NR_rt_sigaction, [u64::from(signal), new, old, 8, 0, 0]);
    before
}

const KEPT: u32 = raw::SA_RESTART | raw::SA_NOCLDSTOP | raw::SA_NOCLDWAIT;
const OURS: u64 = raw::SA_SIGINFO as u64 | SA_RESTORER;

fn handler(signal: u32, wished: &Action) -> Action {
    Action {
        handler: if signal == raw::SIGSYS { entry::on_sigsys() } else { entry::on_signal() },
        flags: OURS | u64::from(raw::SA_ONSTACK) | wished.flags & u64::from(KEPT),
        // Leaves faults unblocked: those of the handler's own copies must be caught.
        mask: !FAULTS,
        restorer: 0,
    }
}

/// Returns the kernel action for an open handler, see [`crate::waiting`].
fn open_handler(signal: u32, wished: &Action) -> Action {
    if ALWAYS_OURS.contains(&signal) {
        let flags = OURS | u64::from(raw::SA_ONSTACK | raw::SA_NODEFER);
        let handler =
            if signal == raw::SIGSYS { entry_quiet::on_sigsys() } else { entry_quiet::on_signal() };
        return Action { handler, flags, mask: 0, restorer: 0 };
    }
    let kept = u64::from(KEPT | raw::SA_ONSTACK | raw::SA_NODEFER);
    Action {
        handler: entry_quiet::on_signal(),
        flags: OURS | wished.flags & kept,
        mask: real_mask(wished.mask),
        restorer: 0,
    }
}

/// Returns true if the address is a handler of the agent.
pub fn is_ours(handler: u64) -> bool {
    let open = [entry_quiet::on_signal(), entry_quiet::on_sigsys()];
    open.contains(&handler) || handler == entry::on_signal() || handler == entry::on_sigsys()
}

fn record_signal(context: &mut Context, signal: u32, handler: u64, info: &[u8; 128]) {
    if context.silent {
        return;
    }
    let mut words = [0u64; 3 + SIGINFO_BYTES / 8];
    words[0] = Header::new(RecordKind::Signal, signal as u8, 0, 0).to_word();
    words[1] = clock::now(context);
    words[2] = handler;
    for (word, bytes) in words[3..].iter_mut().zip(info.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Stream::record(context, &words);
    Stream::publish(context);
}

/// Builds the handler's frame where the kernel would have, and points the state to the handler.
fn push_frame(
    context: &mut Context,
    signal: u32,
    action: &Action,
    info: &[u8; 128],
    uc: &mut UContext,
) -> Option<()> {
    if action.flags & SA_RESTORER == 0 {
        return None;
    }
    let alt = context.altstack;
    let on_alt = on_altstack(&alt, uc.regs.rsp);
    let mut sp = uc.regs.rsp.wrapping_sub(128);
    let mut entering = false;
    if action.flags & u64::from(raw::SA_ONSTACK) != 0 && alt.size != 0 && !on_altstack(&alt, sp) {
        sp = alt.sp.wrapping_add(alt.size);
        entering = true;
    }
    let fp_from = uc.regs.fpstate;
    let fp_len = fp_size(fp_from);
    let fp_at = sp.wrapping_sub(fp_len) & !63;
    let frame_at = (fp_at.wrapping_sub(size_of::<SignalFrame>() as u64) & !15).wrapping_sub(8);
    if (entering || on_alt) && !lies_in(&alt, frame_at) {
        return None;
    }
    let mut frame = SignalFrame { restorer: action.restorer, context: *uc, info: *info };
    frame.context.link = 0;
    frame.context.stack = shown_altstack(&alt, uc.regs.rsp);
    frame.context.sigmask = context.mask;
    frame.context.regs.oldmask = context.mask;
    frame.context.regs.fpstate = if fp_from == 0 { 0 } else { fp_at };
    if memory::copy_out(context, fp_at, fp_from as *const u8, fp_len) != 0
        || !memory::write(context, frame_at, &frame)
    {
        return None;
    }
    if alt.flags & SS_AUTODISARM != 0 {
        context.altstack = crate::context::NO_ALTSTACK;
    }
    let regs = &mut uc.regs;
    regs.rip = action.handler;
    regs.rsp = frame_at;
    regs.rdi = u64::from(signal);
    regs.rsi = frame_at + core::mem::offset_of!(SignalFrame, info) as u64;
    regs.rdx = frame_at + core::mem::offset_of!(SignalFrame, context) as u64;
    regs.rax = 0;
    // Clear the direction, resume and trap flags.
    regs.rflags &= !(0x400 | 0x1_0000 | 0x100);
    reset_fp(fp_from);
    Some(())
}

pub fn fp_size(at: u64) -> u64 {
    if at == 0 {
        return 0;
    }
    // SAFETY: `at` is the kernel's floating-point state, which has at least the legacy area.
    unsafe {
        if ((at + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
            u64::from(((at + fp::SW_SIZE) as *const u32).read())
        } else {
            fp::LEGACY_BYTES
        }
    }
}

/// Resets the floating-point state for a handler, except for the protection keys.
fn reset_fp(at: u64) {
    if at == 0 {
        return;
    }
    // SAFETY: `at` is the kernel's floating-point state, which has at least the legacy area.
    unsafe {
        (at as *mut u16).write(fp::CONTROL_INIT);
        ((at + fp::MXCSR) as *mut u32).write(fp::MXCSR_INIT);
        if ((at + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
            *((at + fp::XSTATE_BV) as *mut u64) &= fp::PKRU;
        }
    }
}

pub fn on_altstack(alt: &AltStack, rsp: u64) -> bool {
    alt.flags & SS_AUTODISARM == 0 && lies_in(alt, rsp)
}

fn lies_in(alt: &AltStack, rsp: u64) -> bool {
    rsp > alt.sp && rsp - alt.sp <= alt.size
}

/// Returns the alternate stack as sigaltstack and ucontext show it.
pub fn shown_altstack(alt: &AltStack, rsp: u64) -> AltStack {
    let flags = if alt.size == 0 {
        raw::SS_DISABLE
    } else if on_altstack(alt, rsp) {
        raw::SS_ONSTACK
    } else {
        0
    };
    AltStack { flags: flags | alt.flags & SS_AUTODISARM, ..*alt }
}
