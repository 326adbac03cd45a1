//! Stores to mapped files: has the recorder watch memory in which a file is mapped, shared and
//! writable, and collect what was stored before a call that makes it durable or takes it away.
//!
//! The recorder watches through a userfaultfd of this address space that only notices stores and
//! stops nobody. A helper opens it (see [`crate::helper`]) and the recorder takes a copy, so that
//! there is none among the program's descriptors. When the recorder ends in any way, the kernel
//! ends the watch.

use linux_raw_sys::general as raw;
use ring::{Mapped, Mappings, about, answer, next, request, when};
use syscalls::abi::errno::is_error;
use syscalls::abi::files::{F_GETFL, O_ACCMODE, O_RDWR, S_IFMT, S_IFREG};
use syscalls::abi::memory::{
    MAP_FIXED, MAP_TYPE, MREMAP_DONTUNMAP, MREMAP_FIXED, USERFAULTFD_FLAGS,
};
use syscalls::mapping::Mapping;
use syscalls::record::{GapWhy, Header, RecordKind, unwatched, watched};
use syscalls::{Handler, Settled};

use core::sync::atomic::Ordering;

use crate::call::Call;
use crate::context::{Context, Process, space};
use crate::helper::{self, Helper};
use crate::needs::{Need, needed};
use crate::stream::Stream;
use crate::watch::held;
use crate::{clock, identity, requests, sys};

/// Number of waits (of 20 ms) for an answer: the recorder may be held up by the program itself.
const WAITS_MAX: u32 = 500;

/// What a call makes of memory that is watched, or to be watched later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It takes it away: it is not watched from then on.
    Taken,
    /// It moves it, or changes which part of the file it shows.
    Moved,
    /// It makes a copy of it, and may take other memory away.
    Copied,
    /// It makes it writable: one of [`watched`].
    Watched(u8),
    Nothing,
}

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
    if space().watch.watched.has_some() {
        collect(context, [about::ALL, 0, 0], next::GOES_ON);
    }
}

/// The same, of what a call concerns.
#[inline(always)]
pub fn settle_of(context: &Context, call: &Call, of: Settled) {
    let watched = &space().watch.watched;
    if !watched.has_some() {
        return;
    }
    let [first, len, ..] = *call.args;
    match of {
        Settled::All => collect(context, [about::ALL, 0, 0], next::GOES_ON),
        Settled::File => collect(context, [about::FILE, first, 0], next::GOES_ON),
        Settled::Memory if watched.may_have(first, len) => {
            collect(context, [about::MEMORY, first, len], next::GOES_ON);
        }
        Settled::Memory => {}
    }
}

/// Before a call that ends the process, or executes another program in it.
#[inline(always)]
pub fn settle_last(context: &Context) {
    let watch = &space().watch;
    // What shares another process's memory leaves it there.
    if watch.watched.has_some() && watch.owner.get() == context.process().number.get() {
        collect(context, [about::ALL, 0, 0], next::ENDS);
    }
}

/// Before the program opens a userfaultfd: it may watch the same memory, and only one can.
#[cold]
pub fn leave(context: &Context) {
    let watch = &space().watch;
    if watch.state.get() == held::HELD {
        collect(context, [about::ALL, 0, 0], next::UNWATCHED);
        if watch.watched.has_some() {
            tell(context, unwatched::OWN_WATCH);
        }
    }
    watch.forget();
    watch.state.set(held::REFUSED);
}

/// Before a call that maps, moves, removes or protects memory. Returns what the call makes of
/// watched memory.
#[inline(always)]
pub fn before(context: &Context, call: &Call) -> Before {
    let [at, len, third, flags, ..] = *call.args;
    let watch = &space().watch;
    let takes = match call.row.handler {
        Handler::Map => flags & MAP_FIXED != 0,
        Handler::Unmap | Handler::Reorder => true,
        Handler::Remap => return before_move(context, call.args),
        Handler::Protect => {
            return match Mapping::allows_stores(third) {
                true if watch.later.may_have(at, len) => written(context, at, len),
                // What was stored was stored before that.
                false if watch.watched.may_have(at, len) => {
                    collect(context, [about::MEMORY, at, len], next::GOES_ON);
                    Before::Nothing
                }
                _ => Before::Nothing,
            };
        }
        _ => false,
    };
    match takes && watch.may_have(at, len) && take_away(context, about::GONE, at, len) {
        true if call.row.handler == Handler::Reorder => Before::Moved,
        true => Before::Taken,
        false => Before::Nothing,
    }
}

/// Before memory is moved: away from where it is, and over what is where it comes to.
#[inline(always)]
fn before_move(context: &Context, args: &[u64; 6]) -> Before {
    let [at, len, new_len, flags, to, _] = *args;
    let watch = &space().watch;
    if !watch.watched.has_some() && !watch.later.has_some() {
        return Before::Nothing;
    }
    let covers = flags & MREMAP_FIXED != 0
        && watch.may_have(to, new_len)
        && take_away(context, about::GONE, to, new_len);
    let about = if covers { about::ALSO_GONE } else { about::GONE };
    match len {
        // A copy of it, while it stays.
        0 if watch.may_have(at, 1) => Before::Copied,
        1.. if watch.may_have(at, len) && take_away(context, about, at, len) => Before::Moved,
        _ if covers => Before::Taken,
        _ => Before::Nothing,
    }
}

/// Collects what was stored in memory that goes away. Returns false if none of it is watched.
#[cold]
fn take_away(context: &Context, about: u64, at: u64, len: u64) -> bool {
    ask_to_collect(context, [about, at, len], next::GOES_ON) == answer::DONE
}

/// Memory is about to become writable that was to be watched then.
#[cold]
fn written(context: &Context, at: u64, len: u64) -> Before {
    if context.silent.get() {
        return Before::Nothing;
    }
    if ask(context, Mapped::Noted, when::NOW, at, len) {
        space().watch.watched.add(at, len);
        return Before::Watched(watched::YES);
    }
    Before::Watched(why_not())
}

/// After the call, with what `before` has returned.
#[inline(always)]
pub fn after(context: &Context, call: &Call, ret: i64, before: Before) -> After {
    let is_map = call.row.handler == Handler::Map;
    match before {
        Before::Taken | Before::Moved | Before::Copied if is_error(ret) => restore(context),
        Before::Moved | Before::Copied => moved(context, call, ret as u64, before),
        Before::Watched(word) if !is_error(ret) => After::Told(word),
        _ if is_map && !is_error(ret) && Mapping::of(call.args).fd.is_some() => {
            mapped(context, call.args, ret as u64)
        }
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
pub fn inherit(context: &Context) {
    if space().watch.state.get() == held::HELD {
        inherit_from(context);
    }
}

#[cold]
fn inherit_from(context: &Context) {
    let watch = &space().watch;
    let (watched, later) = (watch.watched.both(), watch.later.both());
    let parent = watch.owner.get();
    watch.forget();
    if ask(context, Mapped::LikeProcess(parent), when::NOW, 0, 0) {
        watch.watched.add_all(watched);
        watch.later.add_all(later);
        // Another thread of the parent had memory watched, and was about to note where it is.
        if !watch.watched.has_some() {
            watch.watched.add(0, u64::MAX);
        }
    } else if !context.silent.get() {
        tell(context, unwatched::INHERITED | u64::from(parent) << unwatched::PARENT_SHIFT);
    }
}

/// Why memory is not watched: one of [`watched`].
fn why_not() -> u8 {
    match space().watch.state.get() {
        held::HELD => watched::NOT_THIS,
        held::NOT_YET => watched::FILTERED,
        _ => watched::REFUSED,
    }
}

#[cold]
fn mapped(context: &Context, args: &[u64; 6], at: u64) -> After {
    let [_, len, _, _, fd, offset] = *args;
    let mapping = Mapping::of(args);
    let level = if context.silent.get() { 0 } else { level(context) };
    let reads = level == Mappings::All as u32 && mapping.is_data();
    if level == Mappings::Unwatched as u32 || !(reads || mapping.is_shared) {
        return After::Told(watched::UNASKED);
    }
    let file = Mapped::File { fd: fd as i32, offset };
    if mapping.changes_file() {
        if ask(context, file, when::NOW, at, len) {
            space().watch.watched.add(at, len);
            return After::Told(watched::YES);
        }
        return After::Told(why_not());
    }
    let is_later = mapping.is_shared && may_be_written(fd);
    if !(is_later || reads) {
        return After::Told(watched::UNASKED);
    }
    if !ask(context, file, if is_later { when::LATER } else { when::READS }, at, len) {
        return After::Told(if reads { why_not() } else { watched::UNASKED });
    }
    if is_later {
        space().watch.later.add(at, len);
    }
    if reads {
        space().watch.watched.add(at, len);
    }
    After::Told(if reads { watched::READS } else { watched::LATER })
}

/// Arguments to map a file by if reads are recorded that is shared, and can never be written: the
/// kernel watches such memory only if it is private. Who reads it sees the same.
#[inline(always)]
pub fn instead(context: &Context, call: &Call) -> Option<[u64; 6]> {
    let is_map = call.row.handler == Handler::Map;
    if !is_map || context.silent.get() || level(context) != Mappings::All as u32 {
        return None;
    }
    private(call.args)
}

#[cold]
fn private(args: &[u64; 6]) -> Option<[u64; 6]> {
    let mapping = Mapping::of(args);
    if !(mapping.is_shared && mapping.is_data() && !mapping.is_writable) || sys::is_quiet() {
        return None;
    }
    if identity::of_open(args[4])?.st_mode & S_IFMT != S_IFREG || may_be_written(args[4]) {
        return None;
    }
    let [at, len, prot, flags, fd, offset] = *args;
    let flags = flags & !MAP_TYPE | u64::from(raw::MAP_PRIVATE);
    Some([at, len, prot, flags, fd, offset])
}

/// Whether what is mapped by a descriptor may be made writable, as far as is known.
fn may_be_written(fd: u64) -> bool {
    if sys::denies(needed::STORES) {
        return true;
    }
    let flags = sys::call(Need::OpenFlags, [fd, F_GETFL, 0, 0, 0, 0]);
    flags < 0 || flags as u64 & O_ACCMODE == O_RDWR
}

/// The call has failed: what it was to take away is there.
#[cold]
fn restore(context: &Context) -> After {
    match ask_for(context, Mapped::Restored, when::NOW, 0, 0) {
        answer::DONE | answer::NOT_THIS => After::Told(watched::UNASKED),
        _ => After::Lost,
    }
}

/// Watches memory where it is now.
#[cold]
fn moved(context: &Context, call: &Call, to: u64, before: Before) -> After {
    if context.silent.get() {
        return After::Told(watched::UNASKED);
    }
    let [from, len, third, flags, ..] = *call.args;
    let again = |what, at, len| {
        let is_watched = ask_for(context, what, when::NOW, at, len) == answer::DONE;
        if is_watched {
            // Whether it is watched now or later is known to the recorder alone.
            let watch = &space().watch;
            let bounds = [&watch.watched, &watch.later].into_iter();
            bounds.filter(|bounds| bounds.has_some()).for_each(|bounds| bounds.add(at, len));
        }
        is_watched
    };
    let is_watched = match (call.row.handler, before) {
        // The argument is a page of the file.
        (Handler::Reorder, _) => again(Mapped::Reordered(flags), from, len),
        (_, Before::Copied) => {
            // Between watched memory there may be other memory.
            match again(Mapped::CopyOf(from), to, third) {
                true => return After::Told(watched::YES),
                false => return After::Told(watched::UNASKED),
            }
        }
        _ => {
            let stays = flags & MREMAP_DONTUNMAP != 0;
            again(Mapped::FormerlyAt(from), to, third)
                && (!stays || again(Mapped::CopyOf(to), from, len))
        }
    };
    if is_watched { After::Told(watched::YES) } else { After::Lost }
}

/// A [`Mappings`].
fn level(context: &Context) -> u32 {
    let told = |arena: ring::Arena| arena.control().watches_mappings.load(Ordering::Relaxed);
    context.arena.get().map_or(0, told)
}

/// Has the recorder collect what was stored.
#[cold]
fn collect(context: &Context, what: [u64; 3], next: u64) {
    ask_to_collect(context, what, next);
}

/// The same. Returns its answer.
fn ask_to_collect(context: &Context, [about, at, len]: [u64; 3], next: u64) -> u32 {
    if context.silent.get() || space().watch.state.get() != held::HELD {
        return answer::REFUSED;
    }
    let why = match sys::is_quiet() {
        // Nothing more can be asked for.
        true => unwatched::FILTER,
        false => {
            let words = [about, at, len, next, space().watch.owner.get().into(), 0];
            match requests::ask_patiently(context, request::COLLECT, words, WAITS_MAX) {
                Some(answer) => return answer,
                None => unwatched::LATE,
            }
        }
    };
    // The next calls do not wait again.
    space().watch.state.set(held::REFUSED);
    tell(context, why);
    answer::REFUSED
}

/// What the recorder is to watch, and as what.
#[derive(Clone, Copy)]
struct Wanted {
    what: Mapped,
    when: u32,
    at: u64,
    len: u64,
}

/// Argument and result of the helper.
struct Handing<'a> {
    context: &'a Context,
    wanted: Wanted,
    reply: u32,
}

/// Asks the recorder to watch memory, and hands it what it needs for that if it has nothing yet.
/// Returns true if it does.
fn ask(context: &Context, what: Mapped, when: u32, at: u64, len: u64) -> bool {
    ask_for(context, what, when, at, len) == answer::DONE
}

/// The same with the answer itself.
fn ask_for(context: &Context, what: Mapped, when: u32, at: u64, len: u64) -> u32 {
    let wanted = Wanted { what, when, at, len };
    let watch = &space().watch;
    match watch.state.get() {
        held::HELD => request(context, 0, wanted),
        held::NOT_YET if !sys::denies(needed::ALL | needed::HELPERS | needed::STORES) => {
            let Some(helper) = Helper::new(0) else { return answer::REFUSED };
            watch.owner.set(owner(context));
            let mut handing = Handing { context, wanted, reply: answer::REFUSED };
            helper.run(context.process().pid.get(), &raw mut handing as u64, hand_over);
            let reply = core::hint::black_box(handing.reply);
            let is_held = matches!(reply, answer::DONE | answer::NOT_THIS);
            watch.state.set(if is_held { held::HELD } else { held::REFUSED });
            reply
        }
        _ => answer::REFUSED,
    }
}

/// Number of the process whose memory this is: a child of vfork has that of who waits for it.
fn owner(context: &Context) -> u32 {
    let makers = context.waiting_makers.get();
    let maker = makers.iter().rev().find(|maker| !maker.is_null());
    // SAFETY: who waits for its child has its area.
    let process = maker.map_or(context.process(), |maker| unsafe { &*maker.cast::<Process>() });
    process.number.get()
}

fn request(context: &Context, from: u64, Wanted { what, when, at, len }: Wanted) -> u32 {
    let [file, place] = what.to_words();
    let words = [from, file, place, at, len, ring::two(when, space().watch.owner.get())];
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
        handing.reply = request(handing.context, from, handing.wanted);
    }
}
