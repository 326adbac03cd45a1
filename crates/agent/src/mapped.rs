//! Stores to mapped files: has the recorder watch memory in which a file is mapped, shared and
//! writable, and collect what was stored before a call that makes it durable or takes it away.
//!
//! The recorder watches through a userfaultfd of this address space that only notices stores and
//! stops nobody. A helper opens it (see [`crate::helper`]) and the recorder takes a copy, so that
//! there is none among the program's descriptors. When the recorder ends in any way, the kernel
//! ends the watch.

use ring::{Mapped, answer, next, request};
use syscalls::Handler;
use syscalls::abi::errno::is_error;
use syscalls::abi::memory::{MAP_FIXED, USERFAULTFD_FLAGS};
use syscalls::mapping::Mapping;
use syscalls::record::{GapWhy, Header, RecordKind, unwatched, watched};

use core::sync::atomic::Ordering;

use crate::call::Call;
use crate::context::{Context, space};
use crate::helper::{self, Helper};
use crate::needs::Need;
use crate::stream::Stream;
use crate::watch::held;
use crate::{clock, requests, sys};

/// Number of waits (of 20 ms) for an answer: the recorder may be held up by the program itself.
const WAITS_MAX: u32 = 500;

/// What became of watched memory after a call that maps, moves or removes memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// A new mapping, or none: one of [`watched`].
    Told(u8),
    /// It was watched and is not any more.
    Lost,
}

impl After {
    /// What the record of the call says.
    pub fn word(self) -> u8 {
        match self {
            After::Told(word) => word,
            After::Lost => watched::UNASKED,
        }
    }
}

/// Before a call that makes data durable or takes it away: what was stored is collected.
#[inline(always)]
pub fn settle(context: &Context) {
    if space().watch.has_some() {
        collect(context, [0, 0, next::GOES_ON]);
    }
}

/// The same before a call that ends the process, or executes another program in it.
#[inline(always)]
pub fn settle_last(context: &Context) {
    if space().watch.has_some() {
        collect(context, [0, 0, next::ENDS]);
    }
}

/// Before the program opens a userfaultfd: it may watch the same memory, and only one can.
#[cold]
pub fn leave(context: &Context) {
    let watch = &space().watch;
    if watch.has_some() && watch.state.get() == held::HELD {
        collect(context, [0, 0, next::UNWATCHED]);
        tell(context, unwatched::OWN_WATCH);
    }
    watch.forget();
    watch.state.set(held::REFUSED);
}

/// Before a call that maps, moves, removes or protects memory. Returns true if watched memory may
/// be concerned; it is not watched from then on.
#[inline(always)]
pub fn before(context: &Context, call: &Call) -> bool {
    let [at, len, ..] = *call.args;
    let takes = match call.row.handler {
        Handler::Map => call.args[3] & MAP_FIXED != 0,
        Handler::Unmap | Handler::Remap => true,
        _ => false,
    };
    let is_concerned = takes && space().watch.may_have(at, len);
    if is_concerned {
        collect(context, [at, len, next::GOES_ON]);
    }
    is_concerned
}

/// After the call, with what `before` has returned.
#[inline(always)]
pub fn after(context: &Context, call: &Call, ret: i64, is_concerned: bool) -> After {
    match call.row.handler {
        Handler::Map if !is_error(ret) && Mapping::of(call.args).changes_file() => {
            mapped(context, call.args, ret as u64)
        }
        Handler::Map | Handler::Unmap if is_concerned && is_error(ret) => {
            again(context, call.args[0], (call.args[0], call.args[1]))
        }
        Handler::Remap if is_concerned && is_error(ret) => {
            again(context, call.args[0], (call.args[0], call.args[1]))
        }
        Handler::Remap if is_concerned => again(context, call.args[0], (ret as u64, call.args[2])),
        _ => After::Told(watched::UNASKED),
    }
}

/// Records that stores of this process are not recorded from here on.
#[cold]
pub fn tell(context: &Context, why: u64) {
    if context.silent.get() {
        return;
    }
    Stream::while_busy(context, || {
        let head = Header::new(RecordKind::Gap, GapWhy::Unwatched as u8, 0, 0).to_word();
        Stream::record(context, &[head, clock::now(context), why]);
        Stream::publish(context);
    });
}

/// In a forked child: watches what its parent has mapped. The kernel has not passed the watch on.
#[inline(always)]
pub fn inherit(context: &Context, parent: u32) {
    if space().watch.has_some() {
        inherit_from(context, parent);
    }
}

#[cold]
fn inherit_from(context: &Context, parent: u32) {
    let watch = &space().watch;
    let (from, to) = watch.bounds();
    let was_held = watch.state.get() == held::HELD;
    watch.forget();
    if was_held && ask(context, Mapped::LikeProcess(parent), 0, 0) {
        watch.add(from, to - from);
    } else if !context.silent.get() {
        tell(context, unwatched::INHERITED | u64::from(parent) << unwatched::PARENT_SHIFT);
    }
}

#[cold]
fn mapped(context: &Context, args: &[u64; 6], at: u64) -> After {
    let [_, len, _, _, fd, offset] = *args;
    if context.silent.get() || !is_on(context) {
        return After::Told(watched::UNASKED);
    }
    if ask(context, Mapped::File { fd: fd as i32, offset }, at, len) {
        space().watch.add(at, len);
        return After::Told(watched::YES);
    }
    After::Told(match space().watch.state.get() {
        held::HELD => watched::NOT_THIS,
        held::NOT_YET => watched::FILTERED,
        _ => watched::REFUSED,
    })
}

/// Watches memory again that was watched at an address until it was collected.
#[cold]
fn again(context: &Context, former: u64, (at, len): (u64, u64)) -> After {
    if context.silent.get() {
        return After::Told(watched::UNASKED);
    }
    if ask(context, Mapped::FormerlyAt(former), at, len) {
        space().watch.add(at, len);
        return After::Told(watched::YES);
    }
    After::Lost
}

fn is_on(context: &Context) -> bool {
    let on = |arena: ring::Arena| arena.control().watches_mappings.load(Ordering::Relaxed) != 0;
    context.arena.get().is_some_and(on)
}

/// Has the recorder collect what was stored, and forget this memory.
#[cold]
fn collect(context: &Context, [at, len, next]: [u64; 3]) {
    // A child of vfork has its parent's memory, and the stores in it are its parent's.
    let is_guest = context.waiting_makers.get().iter().any(|maker| !maker.is_null());
    if context.silent.get() || is_guest || space().watch.state.get() != held::HELD {
        return;
    }
    if sys::is_quiet() {
        // Nothing more can be asked for.
        space().watch.state.set(held::REFUSED);
        return tell(context, unwatched::FILTER);
    }
    let words = [at, len, next, 0, 0, 0];
    if requests::ask_patiently(context, request::COLLECT, words, WAITS_MAX).is_none() {
        // The next calls do not wait again.
        space().watch.state.set(held::REFUSED);
        tell(context, unwatched::LATE);
    }
}

/// Argument and result of the helper.
struct Handing<'a> {
    context: &'a Context,
    what: (Mapped, u64, u64),
    reply: u32,
}

/// Asks the recorder to watch memory, and hands it what it needs for that if it has nothing yet.
/// Returns true if it does.
fn ask(context: &Context, what: Mapped, at: u64, len: u64) -> bool {
    let what = (what, at, len);
    let watch = &space().watch;
    match watch.state.get() {
        held::HELD => request(context, 0, what) == answer::DONE,
        // A filter of the program is asked about calls that the agent always makes. This is none.
        held::NOT_YET if !context.process().filtered.get() => {
            let Some(helper) = Helper::new(0) else { return false };
            let mut handing = Handing { context, what, reply: answer::REFUSED };
            helper.run(context.process().pid.get(), &raw mut handing as u64, hand_over);
            let reply = core::hint::black_box(handing.reply);
            let is_held = matches!(reply, answer::DONE | answer::NOT_THIS);
            watch.state.set(if is_held { held::HELD } else { held::REFUSED });
            reply == answer::DONE
        }
        _ => false,
    }
}

fn request(context: &Context, from: u64, (what, at, len): (Mapped, u64, u64)) -> u32 {
    let [file, place] = what.to_words();
    let words = [from, file, place, at, len, 0];
    requests::ask_patiently(context, request::WATCH, words, WAITS_MAX).unwrap_or(answer::REFUSED)
}

/// Runs in the helper. Its descriptors are closed when it ends.
extern "C" fn hand_over(handing: u64) {
    // SAFETY: the creator sleeps while the helper uses this.
    let handing = unsafe { &mut *(handing as *mut Handing<'_>) };
    if !helper::leave_descriptors(0) {
        return;
    }
    let fd = sys::call(Need::NoticeStores, [USERFAULTFD_FLAGS, 0, 0, 0, 0, 0]);
    if let Ok(fd) = u32::try_from(fd) {
        let from = ring::two(fd, sys::gettid());
        handing.reply = request(handing.context, from, handing.what);
    }
}
