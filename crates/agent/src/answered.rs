//! Re-execution: each call is brought before the supervisor, which says what becomes of it.
//!
//! ```text
//! agent: CALL -> given:  the result is set; what came out is in the program's memory already
//!             -> again:  the call is made; if it came out otherwise, or has made a task: MADE -> given
//!             -> led:    another call is made, as often as the supervisor says: MADE -> led, given
//!             -> at site: the program is about to make it, where a debugger looks at it
//! ```
//!
//! All signals are blocked from the beginning to the end of a call, as it can be asked about only
//! once. Signals arrive when the supervisor says so, and as faults of the program; others are dropped.

use core::mem::MaybeUninit;

use linux_raw_sys::general as raw;
use ring::{Reply, answer, mapped_file, request};
use syscalls::Handler;
use syscalls::abi::errno::{self, is_error};
use syscalls::abi::memory::MAP_ANONYMOUS;

use crate::arch::entry;
use crate::arch::frames::Frame;
use crate::arch::head::phase;
use crate::arch::processor::time_stamp;
use crate::asked::{ask, give_up, raise};
use crate::call::Call;
use crate::context::{Context, mask_all};
use crate::needs::Need;
use crate::signal::real_mask;
use crate::{exec, guards, memory, sigcalls, sys, tasks, used};

const RESTARTED: i64 = errno::result(errno::ERESTARTSYS);
/// Words of a `struct clone_args`.
const WORDS_OF_CLONE: usize = 11;
/// What remains of the flags of a clone: what concerns memory, signals and numbers of descriptors.
const CLONE_KEPT: u64 = (raw::CLONE_VM | raw::CLONE_VFORK | raw::CLONE_SIGHAND | raw::CLONE_THREAD)
    as u64
    | (raw::CLONE_FILES | raw::CLONE_SETTLS | raw::CLONE_CHILD_CLEARTID) as u64
    | raw::CLONE_CLEAR_SIGHAND;
/// A debugger does not follow processes: for it they would be threads, as they end without a signal.
const UNTRACED: u64 = raw::CLONE_UNTRACED as u64;

/// Handles a call of the program.
pub fn call(context: &Context, frame: &Frame, call: &Call) {
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let now = used::now();
    let mut reply = MaybeUninit::<Reply>::uninit();
    // SAFETY: the memory is ours, and its fields consist of numbers. What the supervisor does not write is empty.
    unsafe {
        (&raw mut (*reply.as_mut_ptr()).signals).write(0);
        (&raw mut (*reply.as_mut_ptr()).mapped_file).write(mapped_file::ORIGINAL);
        (&raw mut (*reply.as_mut_ptr()).site).write(context.site.get());
        (&raw mut (*reply.as_mut_ptr()).stack).write([frame.stack(), frame.rbp]);
        (&raw mut (*reply.as_mut_ptr()).stood).write([context.went_on.get(), now]);
        (&raw mut (*reply.as_mut_ptr()).path).cast::<u8>().write(0);
    }
    let more = [call.number, reply.as_mut_ptr() as u64];
    let (word, args, expected) = loop {
        let answer = ask(context, request::CALL, *call.args, more);
        if answer.0 != answer::TRAP {
            break answer;
        }
        entry::trap();
    };
    let (word, args, expected) = lead(context, (word, args, expected));
    // SAFETY: every bit pattern is a `Reply`; the supervisor has written what is read of it.
    let reply = unsafe { reply.assume_init_ref() };
    match word {
        // The kernel makes it again after a handler: the program is back at it then.
        answer::GIVEN if args[0] as i64 == RESTARTED => undo(context, reply),
        answer::SIGNALS_FIRST => undo(context, reply),
        // A debugger has a breakpoint there.
        answer::TO_SITE => context.resume.set(context.site.get()),
        answer::GIVEN => frame.set_result(args[0]),
        answer::AGAIN => {
            let call = Call::new(call.number, &args);
            if call.row.handler == Handler::SignalReturn {
                // It does not come back here.
                raise(context, reply);
                used::go_on(context);
            }
            if make(context, frame, &call, reply, expected) {
                return;
            }
        }
        _ => give_up(),
    }
    arrive(context, call, reply);
}

/// Makes the calls that the supervisor wants on real sockets, and tells what came out and how long it took.
fn lead(context: &Context, mut answer: (u32, [u64; 6], u64)) -> (u32, [u64; 6], u64) {
    while answer.0 == answer::LED {
        let (_, args, number) = answer;
        let began = time_stamp();
        let ret = Call::new(number, &args).make();
        let took = time_stamp().saturating_sub(began);
        answer = ask(context, request::MADE, [ret as u64, took, 0, 0, 0, 0], [0; 2]);
    }
    answer
}

/// Has signals arrive before the call, which is not made.
fn undo(context: &Context, reply: &Reply) -> ! {
    context.phase.set(phase::BEFORE);
    raise(context, reply);
    used::go_on(context);
    sys::set_mask(real_mask(context.mask.get()));
    // Their handlers have been entered.
    give_up()
}

/// Makes a call again. Returns true in a new task.
fn make(context: &Context, frame: &Frame, call: &Call, reply: &Reply, expected: u64) -> bool {
    let born = match call.row.handler {
        Handler::Fork | Handler::Vfork | Handler::Clone | Handler::CloneByStruct => {
            let maker = context.tid.get();
            bear(context, frame, call);
            if context.tid.get() != maker {
                return true;
            }
            // It has unblocked the signals.
            sys::set_mask(mask_all(context));
            true
        }
        Handler::Exec | Handler::ExecAt => {
            enter_directory(reply);
            // The new image keeps the mask.
            sys::set_mask(real_mask(context.mask.get()));
            exec::exec(context, call);
            sys::set_mask(mask_all(context));
            false
        }
        Handler::ExitThread | Handler::ExitProcess => {
            tasks::exit(context, call);
            false
        }
        Handler::SignalReturn => {
            sigcalls::sigreturn(context, frame, call);
            false
        }
        Handler::SignalAction => {
            sigcalls::sigaction(context, call);
            false
        }
        Handler::SignalMask => {
            sigcalls::sigprocmask(context, call);
            sys::set_mask(mask_all(context));
            false
        }
        Handler::SignalStack => {
            sigcalls::sigaltstack(context, frame, call);
            false
        }
        Handler::ArchPrctl => {
            guards::call(context, call);
            false
        }
        Handler::Map => {
            frame.set_result(map(call, reply) as u64);
            false
        }
        _ => {
            frame.set_result(call.make() as u64);
            false
        }
    };
    context.phase.set(phase::IN_CALL);
    let is_mapped = call.row.handler == Handler::Map && reply.mapped_file != mapped_file::ORIGINAL;
    if born || is_mapped || frame.result() != expected {
        let (word, args, _) = ask(context, request::MADE, [frame.result(), 0, 0, 0, 0, 0], [0; 2]);
        if word != answer::GIVEN {
            give_up();
        }
        frame.set_result(args[0]);
    }
    false
}

/// Creates a task, whose end no signal tells: that comes when it came.
fn bear(context: &Context, frame: &Frame, call: &Call) {
    let clone = u64::from(raw::__NR_clone);
    let args = call.args;
    match call.row.handler {
        Handler::Fork => {
            tasks::clone(context, frame, &Call::new(clone, &[UNTRACED, 0, 0, 0, 0, 0]));
        }
        Handler::Vfork => {
            let flags = u64::from(raw::CLONE_VM | raw::CLONE_VFORK);
            tasks::clone(context, frame, &Call::new(clone, &[flags, 0, 0, 0, 0, 0]));
        }
        Handler::Clone => {
            let [flags, stack, parent, child, tls, rest] = *args;
            let args = [kept(flags), stack, parent, child, tls, rest];
            tasks::clone(context, frame, &Call::new(clone, &args));
        }
        _ => {
            // Programs may pass less than the kernel knows.
            let mut words = [0u64; WORDS_OF_CLONE];
            for (word, at) in words.iter_mut().zip((args[0]..args[0] + args[1]).step_by(8)) {
                let Some(read) = memory::read(context, at) else { give_up() };
                *word = read;
            }
            let [flags, _, child, parent, _, stack, size, tls, ..] = words;
            words = [kept(flags), 0, child, parent, 0, stack, size, tls, 0, 0, 0];
            let args = [words.as_ptr() as u64, size_of_val(&words) as u64, 0, 0, 0, 0];
            tasks::clone(context, frame, &Call::new(call.number, &args));
            core::hint::black_box(&words);
        }
    }
}

/// The flags with which a clone is made again.
fn kept(flags: u64) -> u64 {
    let followed = flags & u64::from(raw::CLONE_VFORK | raw::CLONE_THREAD) != 0;
    flags & CLONE_KEPT | if followed { 0 } else { UNTRACED }
}

/// Maps memory, or the file that the reply names.
fn map(call: &Call, reply: &Reply) -> i64 {
    let mut args = *call.args;
    if args[3] & MAP_ANONYMOUS != 0 {
        return call.make();
    }
    // It may be any by now.
    let to_read = raw::O_RDONLY | raw::O_CLOEXEC | raw::O_NONBLOCK | raw::O_NOCTTY;
    let flags = u64::from(match reply.mapped_file {
        mapped_file::SHADOW => raw::O_RDWR | raw::O_CLOEXEC | raw::O_NOFOLLOW,
        mapped_file::REAL => to_read | raw::O_NOFOLLOW,
        _ => to_read,
    });
    let here = i64::from(raw::AT_FDCWD) as u64;
    let fd = sys::call(Need::Open, [here, reply.path.as_ptr() as u64, flags, 0, 0, 0]);
    if is_error(fd) {
        return fd;
    }
    args[4] = fd as u64;
    let ret = call.make_with(&args);
    sys::call(Need::Close, [fd as u64, 0, 0, 0, 0, 0]);
    ret
}

fn enter_directory(reply: &Reply) {
    if reply.path[0] != 0 {
        sys::call(Need::EnterDirectory, [reply.path.as_ptr() as u64, 0, 0, 0, 0, 0]);
    }
}

/// Has the signals arrive that came with the end of the call: the handlers are entered after it.
fn arrive(context: &Context, call: &Call, reply: &Reply) {
    context.phase.set(phase::IN_CALL);
    if reply.signals != 0 {
        if let Handler::MaskedWait { mask, in_pair } = call.row.handler {
            context.call_mask.set(sigcalls::mask_of_wait(context, call, mask, in_pair));
        }
        raise(context, reply);
    }
    used::go_on(context);
    let mask = context.call_mask.get().unwrap_or(context.mask.get());
    sys::set_mask(real_mask(mask));
    context.phase.set(context.running.get());
    if context.held_frame.get() == 0 && context.call_mask.take().is_some() {
        sys::set_mask(real_mask(context.mask.get()));
    }
}
