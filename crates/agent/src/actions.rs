//! Signal actions: those of the program are kept here, those of the kernel lead to the agent.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SIG_DFL, SIG_IGN};

use crate::arch::{entry, entry_quiet};
use crate::context::{Context, Process};
use crate::needs::{Need, needed};
use crate::signal::{ALWAYS_OURS, Action, FAULTS, real_mask, signal_bit};
use crate::sys;

pub fn set_action(signal: u32, action: &Action) -> i64 {
    exchange_action(signal, Some(action), 0)
}

/// Sets the kernel's action, if there is a new one, and writes the former one to `old`, if that is not 0.
pub fn exchange_action(signal: u32, new: Option<&Action>, old: u64) -> i64 {
    let new = new.map_or(0, |action| core::ptr::from_ref(action) as u64);
    sys::call(Need::SetAction, [u64::from(signal), new, old, 8, 0, 0])
}

/// Makes the agent the kernel's handler of a signal, and keeps the flags of the program's action
/// that concern the kernel.
pub fn install_ours(signal: u32, wished: &Action) -> i64 {
    set_action(signal, &ours(signal, wished))
}

/// Makes the agent the handler of a signal for which the program has none. Returns the kernel's
/// action before.
pub fn replace_by_ours(signal: u32) -> Action {
    let ours = Action { restorer: entry::restorer(), ..handler(signal, &Action::default()) };
    let mut before = Action::default();
    exchange_action(signal, Some(&ours), &raw mut before as u64);
    before
}

/// What the kernel does on a signal for which the program wishes this.
pub fn kernel_action(signal: u32, wished: &Action) -> Action {
    if wished.handler > SIG_IGN || ALWAYS_OURS.contains(&signal) {
        ours(signal, wished)
    } else {
        *wished
    }
}

fn ours(signal: u32, wished: &Action) -> Action {
    let ours = if sys::is_quiet() { open_handler(signal, wished) } else { handler(signal, wished) };
    Action { restorer: entry::restorer(), ..ours }
}

const KEPT: u32 = raw::SA_RESTART | raw::SA_NOCLDSTOP | raw::SA_NOCLDWAIT;
const OURS: u64 = (raw::SA_SIGINFO | raw::SA_RESTORER) as u64;

fn handler(signal: u32, wished: &Action) -> Action {
    // What comes without a handler of the program's is the agent's own affair, and ends no call.
    let restarts = if wished.handler > SIG_IGN { 0 } else { u64::from(raw::SA_RESTART) };
    Action {
        handler: if signal == raw::SIGSYS { entry::on_sigsys() } else { entry::on_signal() },
        flags: OURS | u64::from(raw::SA_ONSTACK) | restarts | wished.flags & u64::from(KEPT),
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

/// At the start of an image, takes over the actions inherited for signals that are always ours.
pub fn start_image(context: &Context) {
    let ignored = context.slot.get().map_or(0, |slot| slot.exec_ignored.load(Ordering::Relaxed));
    for signal in ALWAYS_OURS {
        let mut kernel = replace_by_ours(signal);
        if ignored & signal_bit(signal) != 0 {
            kernel.handler = SIG_IGN;
        }
        context.process().actions.set(signal, &kernel);
    }
}

/// Returns which of the signals that are always ours the program ignores; exec preserves that.
pub fn ignored_by_program(context: &Context) -> u64 {
    let actions = &context.process().actions;
    let ignores = |signal: u32| actions.handler(signal) == SIG_IGN;
    ALWAYS_OURS.iter().filter(|signal| ignores(**signal)).fold(0, |all, &s| all | signal_bit(s))
}

/// For an exec that is not followed: makes the kernel ignore these signals (`over`), or reinstalls
/// the agent's handlers.
pub fn hand_over_ignored(context: &Context, over: bool) {
    if sys::denies(needed::ACTIONS) {
        return;
    }
    let ignored = ignored_by_program(context);
    for signal in ALWAYS_OURS.into_iter().filter(|&signal| ignored & signal_bit(signal) != 0) {
        if over {
            set_action(signal, &Action { handler: SIG_IGN, ..Action::default() });
        } else {
            install_ours(signal, &Action::default());
        }
    }
}

/// Switches between open and masking handlers, as the filters require.
pub fn reinstall(context: &Context) {
    let process = context.process();
    process.lock.with(|()| {
        for (signal, action) in process.actions.handled() {
            install_ours(signal, &action);
        }
    });
}

/// Resets the actions of a child whose handlers the kernel has reset.
pub fn clear_handlers(context: &Context) {
    let actions = &context.process().actions;
    for signal in 1..=64 {
        let handler = if actions.handler(signal) == SIG_IGN { SIG_IGN } else { SIG_DFL };
        actions.set(signal, &Action { handler, ..Action::default() });
    }
    if sys::is_quiet() {
        return; // the child's calls raise no SIGSYS, and a filter may forbid ours
    }
    for signal in ALWAYS_OURS {
        install_ours(signal, &Action::default());
    }
}

/// Sends this thread a signal with the siginfo at `info`.
pub fn queue_to_self(context: &Context, signal: u32, info: u64) {
    let (pid, tid) = (u64::from(context.process().pid.get()), u64::from(context.tid.get()));
    sys::call(Need::QueueSignal, [pid, tid, u64::from(signal), info, 0, 0]);
}

/// Returns the program's action for a signal that is delivered now, and resets it if the program
/// wants that.
pub fn take_action(process: &Process, signal: u32) -> Action {
    process.lock.with(|()| {
        let action = process.actions.get(signal);
        if action.handler > SIG_IGN && action.flags & u64::from(raw::SA_RESETHAND) != 0 {
            process.actions.set_handler(signal, SIG_DFL);
        }
        action
    })
}

/// Like the kernel before it forces a signal: unblocks it, and resets its action if it was blocked
/// or ignored.
pub fn expose(context: &Context, signal: u32) {
    let process = context.process();
    let blocked = context.mask.get() & signal_bit(signal) != 0;
    context.mask.set(context.mask.get() & !signal_bit(signal));
    process.lock.with(|()| {
        if blocked || process.actions.handler(signal) == SIG_IGN {
            process.actions.set_handler(signal, SIG_DFL);
        }
    });
}
