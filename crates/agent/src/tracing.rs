//! Tracing between recorded programs: the tracer must not see stops, signals or calls of the agent.
//!
//! A thread that another program of the recording traces is *left alone*: its calls bypass the
//! agent, by the `syscall` in the stub at patched sites, and without a signal at others. Neither
//! these calls nor threads, processes and programs that it starts are recorded. This is for good:
//! threads that it creates have its `%gs`, and nothing shows when they are gone.
//!
//! A process with one thread that asks to be traced gets its own handlers, alternate stack and
//! dispatch back. In other processes the agent's handlers stay, and pass signals on unchanged.

use core::ffi::CStr;
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use linux_raw_sys::ptrace;
use ring::{SLOTS, Slot, answer, request, slot_state};
use syscalls::abi::signals::{SIG_DFL, SIG_IGN};
use syscalls::record::{GapWhy, Header, RecordKind};

use crate::actions::{install_ours, queue_to_self, set_action, take_action};
use crate::arch::entry;
use crate::arch::frames::UContext;
use crate::arch::head::{Head, phase};
use crate::arch::places::{in_agent_text, leave_bypass};
use crate::call::{self, Call, enter, exit};
use crate::context::{Context, Process, mask_all, space};
use crate::needs::Need;
use crate::signal::{Action, Info, real_mask, si_code, signal_bit};
use crate::stream::Stream;
use crate::{clock, helper, looking, requests, sys, threads, users};

/// Maximum number of looks at a starting thread or a pending signal: takes some milliseconds.
const TRIES: usize = 1000;

/// Handles ptrace.
pub fn call(context: &Context, call: &Call) {
    match u32::try_from(call.args[0]) {
        Ok(ptrace::PTRACE_TRACEME) => be_traced(context, call),
        Ok(ptrace::PTRACE_ATTACH | ptrace::PTRACE_SEIZE) => attach(context, call),
        _ => call::plain(context, call),
    }
}

/// PTRACE_TRACEME: the program asks its parent to trace it.
fn be_traced(context: &Context, call: &Call) {
    enter(context, call, 0);
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let is_one_thread = context.process().users.load(Ordering::Relaxed) == 1;
    let handed_over = is_one_thread && !sys::is_quiet();
    if !sys::is_quiet() {
        looking::end(context);
    }
    if handed_over {
        hand_over(context);
    }
    let ret = call.make();
    let traced = ret == 0;
    if traced {
        space().patched_enough.set(true);
        context.entry.set(entry::bypass());
        context.running.set(phase::LEFT_ALONE);
    } else if handed_over {
        take_over(context);
    }
    exit(context, call, ret);
    if traced {
        tell(context, context.tgid.get());
        users::give_up(context);
    }
    let own = traced && handed_over;
    sys::set_mask(if own { context.mask.get() } else { real_mask(context.mask.get()) });
}

/// Records a gap for a thread, or for a process that is left alone as a whole.
fn tell(context: &Context, id: u32) {
    if !context.silent.get() {
        let head = Header::new(RecordKind::Gap, GapWhy::Traced as u8, 0, 0).to_word();
        Stream::record(context, &[head, clock::now(context), u64::from(id)]);
        Stream::publish(context);
    }
}

/// Gives the kernel the program's own actions, alternate stack and dispatch.
pub fn hand_over(context: &Context) {
    for (signal, action) in context.process().actions.handled() {
        set_action(signal, &action);
    }
    sys::call(Need::SetStack, [context.altstack.as_ptr() as u64, 0, 0, 0, 0, 0]);
    threads::set_dispatch(context.dispatch.get());
    if let Some(info) = context.take_sigsys() {
        queue_to_self(context, raw::SIGSYS, info.as_ptr() as u64);
    }
}

/// Reinstalls the agent's handlers, alternate stack and dispatch.
fn take_over(context: &Context) {
    for (signal, action) in context.process().actions.handled() {
        install_ours(signal, &action);
    }
    threads::install_altstack(context);
    threads::arm_dispatch(context);
}

/// PTRACE_ATTACH and PTRACE_SEIZE: the program attaches to another one.
fn attach(context: &Context, call: &Call) {
    enter(context, call, 0);
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let args = call.args;
    let tid = args[1] as u32;
    let tracee = Tracee::find(context, tid).filter(Tracee::leave_alone);
    let mut is_taken = false;
    if let Some(tracee) = &tracee {
        tracee.wait_for_signal(context);
        // From there on the supervisor does not learn about changes of its user.
        let is_refused = args[0] as u32 == ptrace::PTRACE_SEIZE && args[2] != 0;
        is_taken = !is_refused && tracee.has_no_filter() && {
            let asked = [u64::from(tid), 0, 0, 0, 0, 0];
            requests::ask(context, request::LEFT_ALONE, asked) == answer::DONE
        };
    }
    let ret = call.make();
    exit(context, call, ret);
    match tracee {
        Some(tracee) if ret < 0 && !is_taken => tracee.take_back(),
        Some(tracee) if is_taken => {
            let process = tracee.read(offset_of!(Context, tgid));
            tell(context, process.unwrap_or(tid));
        }
        Some(_) => tell(context, tid),
        None => {}
    }
    sys::set_mask(real_mask(context.mask.get()));
}

/// Another thread of the recording, with an agent.
struct Tracee {
    tid: u32,
    /// Address of its `Context`.
    context: u64,
    /// Difference between its agent's addresses and ours.
    distance: u64,
}

impl Tracee {
    fn find(context: &Context, tid: u32) -> Option<Tracee> {
        if sys::is_quiet() {
            return None;
        }
        let (arena, own) = (context.arena.get()?, context.slot.get()?);
        let is_foreign = |slot: &Slot| slot.foreign_pid.load(Ordering::Relaxed) != 0;
        let process_of = |slot: &Slot| slot.process.load(Ordering::Relaxed);
        let bits = &arena.control().slot_bits;
        let in_use = |index: &usize| bits[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1;
        for _ in 0..TRIES {
            let slots = (0..SLOTS).filter(|index| in_use(index) != 0);
            let mut about_to_start = false;
            for slot in slots.map(|index| arena.slot(index)) {
                let state = slot.state.load(Ordering::Acquire);
                if is_foreign(slot) != is_foreign(own) {
                    continue;
                }
                if state == slot_state::ACTIVE && slot.tid.load(Ordering::Relaxed) == tid {
                    if process_of(slot) == process_of(own) {
                        // The kernel lets no process attach to itself.
                        return None;
                    }
                    return Tracee::at(slot.context.load(Ordering::Relaxed), tid);
                }
                about_to_start |=
                    state == slot_state::RESERVED && slot.pid_seen.load(Ordering::Relaxed) == tid;
            }
            if !about_to_start {
                break;
            }
            sys::call(Need::Yield, [0; 6]);
        }
        None
    }

    /// Checks that a context is at this address: that it contains its own address.
    fn at(context: u64, tid: u32) -> Option<Tracee> {
        let tracee = Tracee { tid, context, distance: 0 };
        let this: u64 = tracee.read(offset_of!(Head, this))?;
        let its_entry: u64 = tracee.read(offset_of!(Head, entry))?;
        let distance = its_entry.wrapping_sub(entry::entry());
        (this == context && distance.is_multiple_of(4096)).then_some(Tracee { distance, ..tracee })
    }

    /// Makes the thread's calls bypass its agent. Returns false if they do already, or on failure.
    fn leave_alone(&self) -> bool {
        let running: Option<u32> = self.read(offset_of!(Head, running));
        let enough = &raw const space().patched_enough as u64;
        running == Some(phase::RECORDED)
            && self.write(enough.wrapping_add(self.distance), &true)
            && self.direct(entry::bypass(), phase::RECORDED, phase::LEFT_ALONE)
    }

    /// Waits for a signal of the agent to arrive: the thread would stop for it if it were traced.
    fn wait_for_signal(&self, context: &Context) {
        const TITLE: &[u8] = b"\nSigPnd:\t";
        const DIGITS: usize = 16;
        const STATUS_MAX: u64 = 4096;
        let mut path = [0u8; 32];
        let mut digits = [0; 10];
        let number = sys::decimal(self.tid, &mut digits);
        let parts = b"/proc/".iter().chain(number).chain(b"/status");
        path.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        let is_on_its_way = |status: &[u8]| {
            let at = status.windows(TITLE.len()).position(|part| part == TITLE)? + TITLE.len();
            let digits = core::str::from_utf8(status.get(at..at + DIGITS)?).ok()?;
            let pending = u64::from_str_radix(digits, 16).ok()?;
            Some(pending & signal_bit(raw::SIGSYS) != 0)
        };
        for _ in 0..TRIES {
            let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
            let found = helper::read_file(context, path, STATUS_MAX, is_on_its_way);
            if found.flatten() != Some(true) {
                break;
            }
            sys::call(Need::Yield, [0; 6]);
        }
        // The thread may just have ended a call.
        self.turn(phase::RECORDED, phase::LEFT_ALONE);
    }

    /// Returns true if the supervisor can inject a call, because the process has no filter.
    fn has_no_filter(&self) -> bool {
        let process: Option<u64> = self.read(offset_of!(Head, process));
        let at = process.map(|process| process + offset_of!(Process, filtered) as u64);
        at.and_then(|at| self.read_at(at)) == Some(0u8)
    }

    fn take_back(&self) {
        self.direct(entry::entry(), phase::LEFT_ALONE, phase::RECORDED);
    }

    /// Changes where its calls enter, and its phase. The thread runs meanwhile: if it is in a call,
    /// it changes the phase itself at the end.
    fn direct(&self, to: u64, from_phase: u32, phase: u32) -> bool {
        let at = |offset: usize| self.context + offset as u64;
        let done = self.write(at(offset_of!(Head, entry)), &to.wrapping_add(self.distance))
            && self.write(at(offset_of!(Head, running)), &phase);
        self.turn(from_phase, phase);
        done
    }

    fn turn(&self, from_phase: u32, phase: u32) {
        let at = offset_of!(Head, phase);
        if self.read(at) == Some(from_phase) {
            self.write(self.context + at as u64, &phase);
        }
    }

    fn read<T: Copy>(&self, offset: usize) -> Option<T> {
        self.read_at(self.context + offset as u64)
    }

    fn read_at<T: Copy>(&self, at: u64) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let len = size_of::<T>() as u64;
        let done = self.copy(Need::ReadMemory, value.as_mut_ptr() as u64, at, len);
        // SAFETY: fully written, and used for types of plain numbers only.
        done.then(|| unsafe { value.assume_init() })
    }

    fn write<T: Copy>(&self, at: u64, value: &T) -> bool {
        let from = core::ptr::from_ref(value) as u64;
        self.copy(Need::WriteMemory, from, at, size_of::<T>() as u64)
    }

    fn copy(&self, need: Need, ours: u64, theirs: u64, len: u64) -> bool {
        let (local, remote) = ([ours, len], [theirs, len]);
        let (local, remote) = (local.as_ptr() as u64, remote.as_ptr() as u64);
        sys::call(need, [u64::from(self.tid), local, 1, remote, 1, 0]) as u64 == len
    }
}

/// Returns true if a thread was interrupted outside the agent; the bypass counts as outside.
pub fn is_left_alone_at(uc: &mut UContext) -> bool {
    !in_agent_text(leave_bypass(uc))
}

/// Passes a signal on to the program's handler, with the kernel's frame, in a thread that is left
/// alone. The context may be that of the thread that created this one.
pub fn pass_on(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> u64 {
    let action = take_action(context.process(), signal);
    let own = signal_bit(signal);
    let code = si_code(info);
    match action.handler {
        SIG_IGN if code <= 0 => return 0,
        SIG_DFL | SIG_IGN => {
            set_action(signal, &Action::default());
            uc.sigmask &= !own;
            if code <= 0 {
                let (pid, tid) = (u64::from(sys::getpid()), u64::from(sys::gettid()));
                sys::call(
                    Need::QueueSignal,
                    [pid, tid, u64::from(signal), info.as_ptr() as u64, 0, 0],
                );
            }
            return 0;
        }
        _ => {}
    }
    if action.flags & u64::from(raw::SA_RESETHAND) != 0 {
        set_action(signal, &Action { handler: SIG_DFL, ..action });
    }
    let deferred = if action.flags & u64::from(raw::SA_NODEFER) == 0 { own } else { 0 };
    sys::set_mask(uc.sigmask | action.mask | deferred);
    action.handler
}
