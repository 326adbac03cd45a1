//! Rings of io_uring: captures the entries that a program submits, and what was completed before the
//! program can see it. A ring whose features the shadow lacks stays as it is.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::Arena;
use syscalls::abi::errno::is_error;
use syscalls::abi::files::CLOSE_RANGE_CLOEXEC;
use syscalls::abi::rings::{
    AT_BUFFER_RING, BUFFER_GROUP_AT, CANCEL_ALL, CQE_F_MORE, CQE_F_NOTIF, Cancel, Completion,
    ENTER_REGISTERED_RING, REGISTER_SYNC_CANCEL,
};
use syscalls::capture::{self, How};
use syscalls::operations::Take;
use syscalls::record;
use syscalls::requests::{Chooses, Entry, MESSAGE, UNSEEN};
use syscalls::{Dir, Handler};

use crate::call::{self, Call, enter, exit_saying, exit_with};
use crate::completions::vector_of;
use crate::context::{Context, space};
use crate::flights::{Flight, TOGETHER};
use crate::needs::{Need, needed};
use crate::operations::Where;
use crate::queues::is_of_queues;
use crate::shadow::{NAMES, Next, Queues, RINGS, Ring};
use crate::stream::Stream;
use crate::{capture as data, clock, completions, operations, ring_waits, sys};

/// Added to the place of a ring, so that no context of Linux AIO has the same name.
pub const FIRST_NAME: u64 = 1;
/// What the kernel gets instead of a name that another operation in flight has.
const NAMES_OF_OURS: u64 = 0x7c5e_a619_0000_0000;

/// What is to be done with rings.
pub fn rings_of(arena: Arena) -> u32 {
    arena.control().rings.load(Ordering::Relaxed)
}

/// Rings of programs that are not recorded, or whose filters might object, are not shadowed.
pub fn is_left_alone(context: &Context) -> bool {
    let passed = |arena| rings_of(arena) != ring::Rings::Captured as u32;
    context.silent.get()
        || sys::denies(needed::ALL | needed::RINGS)
        || context.arena.get().is_none_or(passed)
}

/// Returns the ring that a descriptor leads to. One that we have not seen made is compared with those
/// that are known.
pub fn find(context: &Context, fd: u64) -> Option<&'static Ring> {
    let all = &space().rings.all;
    if let Some(ring) = all.iter().find(|ring| ring.has_name(fd)) {
        return Some(ring);
    }
    if is_left_alone(context) {
        return None;
    }
    let pid = u64::from(context.process().pid.get());
    all.iter().find(|ring| {
        let same = ring
            .some_name()
            .is_some_and(|known| sys::call(Need::SameFile, [pid, pid, 0, fd, known, 0]) == 0);
        if same {
            ring.add_name(fd);
        }
        same
    })
}

/// Returns the ring with a number that this thread has given to it.
pub fn registered(context: &Context, number: u64) -> Option<&'static Ring> {
    let place = context.rings.get().get(number as usize).copied()?;
    space().rings.all.get(usize::from(place).checked_sub(1)?)
}

/// io_uring_enter.
pub fn submit(context: &Context, call: &Call) {
    let [fd, count, _, flags, ..] = *call.args;
    let ring = match space().has_rings.get() {
        false => None,
        true if flags & ENTER_REGISTERED_RING != 0 => registered(context, fd),
        true => Stream::while_busy(context, || find(context, fd)),
    };
    let Some(ring) = ring else { return pass(context, call) };
    enter(context, call, 0);
    let count = count as u32;
    let batch = Stream::while_busy(context, || begin(context, ring, count));
    Stream::publish(context);
    let ret = ring_waits::make(context, call);
    if let Some(batch) = batch {
        let is_polled = ring.queues.with(|queues| queues.is_polled());
        let made = if is_polled { u32::MAX } else { u32::try_from(ret).unwrap_or(0) };
        settle(context, ring, batch, made);
    }
    exit_with(context, call, ret, || {
        ring.queues.with(|queues| complete(context, queues));
        context.batch_ring.set(0);
        returns(context, ring);
    });
}

/// A ring that is not followed. Where others are, the event says so.
fn pass(context: &Context, call: &Call) {
    if !space().has_rings.get() {
        return call::plain(context, call);
    }
    enter(context, call, 0);
    let ret = ring_waits::make(context, call);
    exit_saying(context, call, ret, record::watched::NOT_THIS);
}

/// A thread is not in the kernel any more with this ring, which goes if its descriptors went meanwhile.
fn returns(context: &Context, ring: &Ring) {
    let goes = ring.queues.with(|queues| {
        queues.entering = queues.entering.saturating_sub(1);
        queues.is_open() && queues.entering == 0 && queues.is_left
    });
    if goes {
        give_up(context, ring);
    }
}

/// Copies entries before a call submits them. Returns the number of the call, and how many they are.
fn begin(context: &Context, ring: &Ring, count: u32) -> Option<(u32, u32)> {
    take_back(context);
    ring.queues.with(|queues| {
        queues.tell_taken();
        queues.others.are_not_alone();
        if queues.is_open() {
            queues.entering += 1;
            context.batch_ring.set(queues.id as u32);
        }
        // Whoever takes entries by itself takes all that there are.
        let count = if queues.is_polled() { u32::MAX } else { count };
        if count == 0 || !queues.is_open() {
            return None;
        }
        let batch = space().flights.with(|flights| flights.next_batch()).unwrap_or(u32::MAX);
        queues.submitting += 1;
        context.batch.set(batch);
        let id = queues.id;
        let (is_polled, mut copied) = (queues.is_polled(), 0);
        let mut is_linked = false;
        queues.submit(count, |some| {
            let mut taken = [const { None }; TOGETHER];
            for (next, taken) in some.iter_mut().flatten().zip(&mut taken) {
                copied = next.order + 1;
                let order = if is_polled { record::submit::TAKEN } else { next.order };
                let after_another = core::mem::replace(&mut is_linked, next.entry.is_linked());
                if !context.silent.get() {
                    let waits = after_another || next.entry.waits_for_all();
                    *taken = take(context, id, next, (batch, order), waits);
                }
            }
            for (flight, entry, address_at) in taken.iter().flatten() {
                let mut given = flight.args;
                if let Some(arg) = *address_at {
                    given[arg] = entry.0.as_ptr() as u64;
                }
                operations::submit(context, flight, &given);
            }
            core::hint::black_box(&taken);
            if is_polled {
                // They may be completed, and found by another thread, as soon as they are in the queue.
                Stream::publish(context);
            }
        });
        Some((batch, copied))
    })
}

/// What a call has left that a signal handler kept from being made is not submitted.
fn take_back(context: &Context) {
    let (batch, ring) = (context.batch.take(), by_id(context.batch_ring.take().into()));
    if let Some(ring) = ring {
        returns(context, ring);
    }
    if batch == 0 {
        return;
    }
    let is_polled = ring.is_some_and(|ring| ring.queues.with(|queues| queues.is_polled()));
    if !is_polled {
        space().flights.with(|flights| flights.take_back(batch, 0));
    }
    if let Some(ring) = ring {
        ring.queues.with(|queues| {
            if queues.is_open() {
                queues.submitted();
            }
        });
    }
}

/// Of what the call was to submit, the kernel has taken so many.
fn settle(context: &Context, ring: &Ring, (batch, copied): (u32, u32), made: u32) {
    if made < copied {
        space().flights.with(|flights| flights.take_back(batch, made));
    }
    ring.queues.with(|queues| {
        if queues.is_open() {
            queues.submitted();
        }
    });
    context.batch.set(0);
}

/// Adds an entry to what is in flight. Returns the operation with the entry as the program has given it,
/// and with the argument that points there. If it waits for others, these may fill the memory that goes
/// in: its contents are recorded when it is completed.
fn take(
    context: &Context,
    id: u64,
    Next { entry, found, .. }: &mut Next,
    place: (u32, u32),
    is_filled_first: bool,
) -> Option<(Flight, Entry, Option<usize>)> {
    let request = entry.request();
    let mut args = request.args(&entry.0, (found.at, found.bytes));
    for (take, file) in [(Take::Descriptor, found.file), (Take::SourceDescriptor, found.source)] {
        if let (Some(arg), Some(fd)) = (request.takes.iter().position(|of| *of == take), file) {
            args[arg] = fd.into();
        }
    }
    let row = capture::operation(request.nr, &args);
    let has_vector = |how, dir| match dir {
        Dir::Out => how != How::Bytes,
        _ => how == How::Iovec && is_filled_first,
    };
    let vector_at = operations::contents(row).filter(|(_, how, dir)| has_vector(*how, *dir));
    let vector = vector_at.and_then(|(arg, how, _)| vector_of(context, &args, (arg, how)));
    let data = entry.user_data();
    let given_by_program = *entry;
    let mut flight = Flight::new(id, data, data, place, args);
    // Longer vectors are not kept.
    flight.is_filled_first = is_filled_first && vector_at.is_some() == vector.is_some();
    (flight.chooses, flight.group) = (entry.chooses(), entry.group());
    flight.is_filled_first |= flight.chooses != Chooses::Nothing;
    flight.room = data::room_of(context, row, &args);
    if let (Some(provided), Some(ring)) = (entry.provides(), by_id(id)) {
        ring.buffers.with(|buffers| buffers.provide(provided));
    }
    if request.nr == MESSAGE {
        post(context, args[0], true);
    }
    if let Some((named, all)) = entry.cancels() {
        cancel((id, named), all, entry);
    }
    let process = context.process().number.get();
    let number = space().flights.with(|flights| {
        if entry.skips_success() {
            // There will be no completion to find.
            return flights.next_id(process);
        }
        if flights.has(id, data) {
            flight.tag = NAMES_OF_OURS | u64::from(flights.next_name());
        }
        let number = flights.add(process, request, flight)?;
        if let Some(buffers) = &vector {
            flights.keep_vector(number, id, flight.tag, buffers);
        }
        Some(number)
    });
    (flight.id, flight.nr) = (number?, request.nr);
    if flight.tag != data {
        entry.set_user_data(flight.tag);
    }
    Some((flight, given_by_program, request.address_at()))
}

/// An entry cancels operations by their data, of which some are known by other names.
fn cancel((id, named): (u64, u64), all: bool, entry: &mut Entry) {
    let flights = &space().flights;
    let first = || flights.with(|flights| flights.other_name(id, named, 0));
    if all {
        if let Some(fd) = by_id(id).and_then(Ring::some_name) {
            cancel_others(fd, (id, named), CANCEL_ALL);
        }
    } else if !flights.with(|flights| flights.has(id, named))
        && let Some(other) = first()
    {
        entry.set_cancelled(other);
    }
}

/// Cancels what is known to the kernel by other names. Returns how many that were.
pub fn cancel_others(fd: u64, (id, named): (u64, u64), flags: u32) -> i64 {
    let (mut cancelled, mut last) = (0, 0);
    if sys::denies(needed::ALL | needed::RINGS) {
        return 0;
    }
    while let Some(other) = space().flights.with(|flights| flights.other_name(id, named, last)) {
        let own = Cancel::of(other, flags);
        let args = [fd, REGISTER_SYNC_CANCEL, &raw const own as u64, 1, 0, 0];
        cancelled += i64::from(!is_error(sys::call(Need::CancelInRing, args)));
        last = other;
    }
    cancelled
}

/// Captures what was completed, and then shows it to the program. Returns false if that is nothing.
pub fn complete(context: &Context, queues: &mut Queues) -> bool {
    if !queues.is_open() {
        return false;
    }
    let id = queues.id;
    queues.tell_taken();
    if !queues.others.is_any() {
        return queues.complete(|some| completed(context, id, some, false));
    }
    let now = clock::now(context);
    let waits = !context.clockless.get() && queues.others.are_waited_for(now);
    let mut is_left = false;
    let found = queues.complete(|some| {
        let taken = completed(context, id, some, waits);
        is_left = taken < some.len();
        taken
    });
    queues.others.leave(is_left, !waits, now);
    found
}

/// Records what was completed. Returns how many are taken: if what is unknown is left to other
/// processes, only those before it.
fn completed(context: &Context, id: u64, some: &mut [Completion], leaves_unknown: bool) -> usize {
    let flights = &space().flights;
    let is_last = |done: &Completion| done.flags & CQE_F_MORE == 0;
    let mut found = [const { None }; TOGETHER];
    let mut taken = some.len();
    flights.with(|flights| {
        for (place, (done, found)) in some.iter().zip(&mut found).enumerate() {
            *found = match is_last(done) {
                true => flights.take(id, done.user_data, None),
                false => flights.look(id, done.user_data),
            };
            if leaves_unknown && found.is_none() {
                taken = place;
                break;
            }
        }
    });
    let mut count = 0;
    for (done, flight) in some.iter_mut().take(taken).zip(&mut found) {
        let Some(flight) = flight else {
            count += u64::from(unknown(context, id, done));
            continue;
        };
        done.user_data = flight.data;
        if flight.nr == MESSAGE && done.result < 0 {
            post(context, flight.args[0], false);
        }
        if !context.silent.get()
            && done.flags & CQE_F_NOTIF == 0
            && let Some(ring) = by_id(id)
        {
            completions::record(context, ring, flight, done);
            count += 1;
        }
        if is_last(done) && flight.has_vector() {
            flights.with(|flights| flights.release(flight));
        }
    }
    operations::completed(context, count);
    taken
}

/// Records that something was completed whose submission was not seen: another process has submitted
/// it, or there was no room to follow it. Returns false if that is no operation.
#[cold]
fn unknown(context: &Context, id: u64, done: &Completion) -> bool {
    let is_message = by_id(id).is_some_and(|ring| {
        let one_less = |messages: u32| messages.checked_sub(1);
        ring.messages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    });
    if is_message || context.silent.get() || done.flags & CQE_F_NOTIF != 0 {
        return false;
    }
    let mut flight = Flight::new(id, done.user_data, done.user_data, (0, 0), [0; 6]);
    flight.nr = UNSEEN;
    let result = Some(i64::from(done.result));
    operations::complete(context, &flight, &Where::Unknown, result, false);
    true
}

/// A completion will be posted to a ring without an entry there, or will not after all.
pub fn post(context: &Context, fd: u64, will_be: bool) {
    if let Some(ring) = find(context, fd & 0xffff_ffff) {
        let change = |messages: u32| match will_be {
            true => messages.checked_add(1),
            false => messages.checked_sub(1),
        };
        _ = ring.messages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

/// Returns the ring that operations in flight know by a number.
fn by_id(id: u64) -> Option<&'static Ring> {
    space().rings.all.get(id.checked_sub(FIRST_NAME)? as usize)
}

/// mmap: the program gets the shadow instead of the queues. `at` is what it has just mapped. Returns true
/// if it is about a ring that is captured.
pub fn mapped(context: &Context, args: &[u64; 6], at: u64) -> bool {
    let [_, bytes, _, flags, fd, offset] = *args;
    if !space().has_rings.get() || flags & u64::from(raw::MAP_ANONYMOUS) != 0 {
        return false;
    }
    if let Some(group) = offset.checked_sub(AT_BUFFER_RING).map(|rest| rest >> BUFFER_GROUP_AT)
        && let Ok(group) = u16::try_from(group)
        && let Some(ring) = find(context, fd)
    {
        ring.buffers.with(|buffers| buffers.mapped(group, at));
        return true;
    }
    if !is_of_queues(offset) {
        return false;
    }
    let Some(ring) = find(context, fd) else { return false };
    let is_left = is_left_alone(context);
    let (given, is_own) = ring.queues.with(|queues| {
        let given = queues.is_open() && !is_left && queues.give(at, bytes, offset);
        let is_own = !given && !queues.is_given;
        if is_own {
            // The program has the queues themselves: the ring stays as it is.
            queues.close();
        }
        (given, is_own)
    });
    if is_own {
        ring.names.iter().for_each(|name| name.store(0, Ordering::Release));
    }
    given
}

/// Waits for descriptors, among which rings may be: the kernel is told before what was taken.
pub fn wait(context: &Context, call: &Call) {
    before_wait(context);
    call::plain(context, call);
}

/// Before a call that may wait for rings.
#[inline(always)]
pub fn before_wait(context: &Context) {
    if space().has_rings.get() {
        each(context, |queues| {
            queues.tell_taken();
            queues.others.are_not_alone();
        });
    }
}

/// Shows what was completed meanwhile to a program that may look for it in memory alone. Returns false
/// if that is nothing.
pub fn look_for(context: &Context) -> bool {
    each(context, |queues| queues.others.are_not_alone());
    look(context)
}

/// Shows what was completed meanwhile. Returns false if that is nothing.
pub fn look(context: &Context) -> bool {
    let found = Cell::new(false);
    each(context, |queues| found.set(complete(context, queues) | found.get()));
    found.get()
}

#[cold]
#[inline(never)]
fn each(context: &Context, work: impl Fn(&mut Queues)) {
    Stream::while_busy(context, || {
        for ring in &space().rings.all {
            if ring.is_known() && ring.is_of(context.process().number.get()) {
                ring.queues.with(|queues| {
                    if queues.is_open() {
                        work(queues);
                    }
                });
            }
        }
    });
}

/// close, close_range, dup and their like.
pub fn descriptors(context: &Context, call: &Call) {
    if !space().has_rings.get() {
        return call::plain(context, call);
    }
    let args = call.args;
    enter(context, call, 0);
    let is_ring = |fd: u64| space().rings.all.iter().find(|ring| ring.has_name(fd));
    let (from, to) = match call.row.handler {
        Handler::Close => (args[0] & 0xffff_ffff, args[0] & 0xffff_ffff),
        Handler::CloseRange if args[2] & CLOSE_RANGE_CLOEXEC == 0 => {
            (args[0] & 0xffff_ffff, args[1] & 0xffff_ffff)
        }
        _ => (1, 0),
    };
    let source = matches!(call.row.handler, Handler::Duplicate).then(|| is_ring(args[0])).flatten();
    let ret = call.make();
    let gone = !is_error(ret) && from <= to;
    let new = (!is_error(ret) && call.row.handler == Handler::Duplicate).then_some(ret as u64);
    exit_with(context, call, ret, || {
        if gone {
            closed(context, from, to);
        }
        if let Some(new) = new
            && !core::ptr::eq(
                source.map_or(core::ptr::null(), core::ptr::from_ref),
                is_ring(new).map_or(core::ptr::null(), core::ptr::from_ref),
            )
        {
            closed(context, new, new);
            if let Some(source) = source {
                source.add_name(new);
            }
        }
    });
}

/// Descriptors were closed. A ring without any goes.
fn closed(context: &Context, from: u64, to: u64) {
    for ring in &space().rings.all {
        if !ring.is_of(context.process().number.get()) || !ring.is_known() {
            continue;
        }
        ring.queues.with(|queues| queues.forget_files(from, to));
        if ring.remove_names(from, to) {
            give_up(context, ring);
        }
    }
}

/// Descriptors lead to other things than these rings.
pub fn forget_names(from: u64, to: u64) {
    for ring in &space().rings.all {
        if ring.remove_names(from, to) {
            ring.queues.with(Queues::close);
        }
    }
}

/// Records what is still in flight as never completed.
pub fn give_up(context: &Context, ring: &Ring) {
    ring.queues.with(|queues| {
        if queues.is_open() {
            complete(context, queues);
            queues.is_left = queues.entering != 0;
            if !queues.is_left {
                leave_in_flight(context, queues.id);
                queues.close();
            }
        }
    });
}

fn leave_in_flight(context: &Context, id: u64) {
    let flights = &space().flights;
    while let Some(flight) = flights.with(|flights| flights.take_any(id)) {
        if !context.silent.get() {
            operations::complete(context, &flight, &Where::Given(&flight.args), None, false);
            operations::completed(context, 1);
        }
        flights.with(|flights| flights.release(&flight));
    }
}

/// Before the process ends: records what was completed, and what will not be known to be.
pub fn end(context: &Context) {
    if context.silent.get() || !space().has_rings.get() {
        return;
    }
    each(context, |queues| {
        complete(context, queues);
        leave_in_flight(context, queues.id);
    });
}

/// The process is about to be forked: the child has its rings as well.
pub fn fork() {
    if space().has_rings.get() {
        for ring in space().rings.all.iter().filter(|ring| ring.is_known()) {
            ring.queues.with(|queues| queues.others.are_there(true));
        }
    }
}

/// In the single thread of a process that was just forked, which may use its parent's rings.
pub fn forget() {
    if !space().has_rings.get() {
        return;
    }
    for ring in &space().rings.all {
        ring.process.store(0, Ordering::Relaxed);
        ring.queues.reset();
        ring.queues.with(Queues::copied);
    }
}

const _: () = assert!(RINGS < 256 && NAMES > 1);
