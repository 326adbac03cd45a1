//! Linux AIO: captures the control blocks that a program submits, and finds what was completed in the
//! ring that the kernel fills in the program's memory. A program may take completions from there
//! without a call; those that came after its last call of this family are found at the next one.

use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};

use syscalls::Handler;
use syscalls::abi::errno::is_error;
use syscalls::capture;
use syscalls::requests::{CONTROL_BLOCK_BYTES, ControlBlock};

use crate::aio_contexts::AioContext;
use crate::call::{Call, enter, exit, exit_with};
use crate::context::{Context, space};
use crate::flights::{Buffers, Flight, Flights, TOGETHER, VECTOR_MAX};
use crate::operations::Where;
use crate::stream::Stream;
use crate::{memory, operations};

/// Maximum number of control blocks of a call that are captured.
const BLOCKS_MAX: u64 = 64 << 10;
/// Maximum number of places in a ring.
const PLACES_MAX: u32 = 1 << 20;
/// What the kernel writes at the beginning of a ring.
const MAGIC: u32 = 0xa10a_10a1;

/// The head of a ring.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ring {
    id: u32,
    places: u32,
    head: u32,
    tail: u32,
    magic: u32,
    features: [u32; 2],
    head_bytes: u32,
}

/// A completion in a ring.
#[derive(Clone, Copy)]
#[repr(C)]
struct Completion {
    data: u64,
    block: u64,
    result: i64,
    second: i64,
}

/// When completions are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before a call: the program may have taken some from memory.
    Before,
    /// After a call, which may have taken some.
    After,
}

/// io_setup, io_submit, io_getevents and io_destroy.
pub fn call(context: &Context, call: &Call) {
    match call.row.handler {
        Handler::AioSetup => set_up(context, call),
        Handler::AioSubmit => submit(context, call),
        Handler::AioDestroy => destroy(context, call),
        _ => reap(context, call),
    }
}

fn set_up(context: &Context, call: &Call) {
    enter(context, call, 0);
    let ret = call.make();
    if ret == 0 && !context.silent.get() {
        follow(context, call.args[1]);
    }
    exit(context, call, ret);
}

/// Follows a new context, whose number was written to this address.
fn follow(context: &Context, at: u64) {
    let Some(id) = memory::read::<u64>(context, at) else { return };
    let Some(ring) = memory::read::<Ring>(context, id) else { return };
    if ring.magic != MAGIC || ring.places == 0 || ring.places > PLACES_MAX {
        return;
    }
    let space = space();
    space.flights.with(|flights| flights.prepare());
    let process = context.process().number.get();
    let new = AioContext { id, places: ring.places, known: ring.head, process };
    space.aio.with(|contexts| contexts.add(new));
    space.has_aio.set(true);
}

fn submit(context: &Context, call: &Call) {
    let [id, count, blocks, ..] = *call.args;
    before(context, id);
    enter(context, call, 0);
    let batch = match context.silent.get() || !is_followed(context, id) {
        true => None,
        false => begin_batch(context),
    };
    if let Some(batch) = batch {
        let mut orders = 0..count.min(BLOCKS_MAX);
        while submit_some(context, id, blocks, (batch, &mut orders)) {}
        Stream::publish(context);
    }
    let ret = call.make();
    if let Some(batch) = batch {
        let made = u64::try_from(ret).unwrap_or(0);
        if made < count {
            space().flights.with(|flights| flights.take_back(batch, made as u32));
        }
        context.batch.set(0);
    }
    // What is done at once, as for a file in memory, is captured before the program can take it.
    exit_with(context, call, ret, || {
        if batch.is_some() {
            record(context, id, When::After);
        }
    });
}

fn is_followed(context: &Context, id: u64) -> bool {
    Stream::while_busy(context, || space().aio.with(|contexts| contexts.get(id).is_some()))
}

/// Begins to submit. What a call has left that a signal handler kept from being made goes.
fn begin_batch(context: &Context) -> Option<u32> {
    Stream::while_busy(context, || {
        space().flights.with(|flights| {
            if context.batch.get() != 0 {
                flights.take_back(context.batch.get(), 0);
            }
            let batch = flights.next_batch();
            context.batch.set(batch.unwrap_or(0));
            batch
        })
    })
}

/// Records the next control blocks, and the memory that goes in. Returns false after the last one.
fn submit_some(
    context: &Context,
    id: u64,
    blocks: u64,
    (batch, orders): (u32, &mut Range<u64>),
) -> bool {
    let mut some = [const { None }; TOGETHER];
    let goes_on = Stream::while_busy(context, || {
        space().flights.with(|flights| {
            for place in &mut some {
                let Some(order) = orders.next() else { return false };
                let at = blocks.wrapping_add(order * 8);
                let Some(at) = memory::read::<u64>(context, at) else { return false };
                *place = add(context, flights, (id, at), (batch, order as u32));
            }
            true
        })
    });
    for (flight, block, address_at) in some.iter().flatten() {
        let mut given = flight.args;
        if let Some(arg) = *address_at {
            given[arg] = block.0.as_ptr() as u64;
        }
        operations::submit(context, flight, &given);
    }
    core::hint::black_box(&some);
    goes_on
}

/// Adds the operation of a control block to those in flight. Returns it with the block, and with the
/// argument that points there.
fn add(
    context: &Context,
    flights: &mut Flights,
    (id, at): (u64, u64),
    place: (u32, u32),
) -> Option<(Flight, ControlBlock, Option<usize>)> {
    // The kernel reads it again, but nothing here depends on a second look.
    let block = memory::read::<ControlBlock>(context, at)?;
    let request = block.request()?;
    let args = request.args(&block.0, (at, CONTROL_BLOCK_BYTES as u64));
    let row = capture::operation(request.nr, &args);
    let vector = operations::output_vector(row).and_then(|arg| vector_of(context, &args, arg));
    let mut flight = Flight::new(id, at, block.tag(), place, args);
    let process = context.process().number.get();
    let number = flights.add(process, request, flight)?;
    if let Some(buffers) = &vector {
        flights.keep_vector(number, id, at, buffers);
    }
    (flight.id, flight.nr) = (number, request.nr);
    Some((flight, block, request.address_at()))
}

/// Reads the vector of an operation that will fill it, if it can be kept.
fn vector_of(context: &Context, args: &[u64; 6], arg: usize) -> Option<Buffers> {
    let (at, count) = (args[arg], *args.get(arg + 1)?);
    let mut buffers: Buffers = [[0; 2]; VECTOR_MAX];
    let bytes = count.checked_mul(16).filter(|&bytes| bytes <= size_of::<Buffers>() as u64)?;
    // SAFETY: there is room for that many bytes.
    let missing = unsafe { memory::copy(context, buffers.as_mut_ptr().cast(), at, bytes) };
    (missing == 0).then_some(buffers)
}

fn reap(context: &Context, call: &Call) {
    let id = call.args[0];
    before(context, id);
    enter(context, call, 0);
    let ret = call.make();
    exit_with(context, call, ret, || {
        if !is_error(ret) {
            record(context, id, When::After);
        }
    });
}

fn destroy(context: &Context, call: &Call) {
    let id = call.args[0];
    before(context, id);
    enter(context, call, 0);
    let ret = call.make();
    exit_with(context, call, ret, || {
        if !is_error(ret) {
            give_up(context, id);
        }
    });
}

/// Before the process ends: records what was completed, and what will not be known to be.
pub fn end(context: &Context) {
    let process = context.process().number.get();
    let next = || space().aio.with(|contexts| contexts.of_process(process));
    if context.silent.get() || !space().has_aio.get() {
        return;
    }
    Stream::while_busy(context, || {
        while let Some(id) = next() {
            record(context, id, When::Before);
            give_up(context, id);
        }
    });
}

/// In the single thread of a process that was just forked: contexts are not inherited.
pub fn forget() {
    let space = space();
    if space.has_aio.get() || space.has_rings.get() {
        space.aio.reset();
        space.flights.reset();
        space.aio.with(|contexts| contexts.clear());
        space.flights.with(|flights| flights.clear());
        space.has_aio.set(false);
    }
}

/// Before a call of the program: records what was completed since the last one.
fn before(context: &Context, id: u64) {
    if !context.silent.get() && space().has_aio.get() {
        Stream::while_busy(context, || record(context, id, When::Before));
    }
}

/// Records all completions in a ring that were not yet, also those that the program has not taken:
/// later they might be found late. The lock is held meanwhile, for what another thread has found
/// completed must be captured before the program uses it.
fn record(context: &Context, id: u64, when: When) {
    if context.silent.get() {
        return;
    }
    space().aio.with(|contexts| {
        let Some(known) = contexts.get(id) else { return };
        let Some(ring) = memory::read::<Ring>(context, id) else { return };
        if ring.tail >= known.places || ring.head >= known.places {
            return;
        }
        let mut late = when == When::Before;
        while known.known != ring.tail {
            let mut some = [const { None }; TOGETHER];
            for place in &mut some {
                if known.known == ring.tail {
                    break;
                }
                late &= known.known != ring.head;
                let at = id + u64::from(ring.head_bytes) + 32 * u64::from(known.known);
                known.known = (known.known + 1) % known.places;
                let done = memory::read::<Completion>(context, at);
                *place = done.map(|done| (done, late));
            }
            completed(context, id, &some);
        }
    });
    compiler_fence(Ordering::SeqCst);
}

/// Records these completions, and whether they are found late.
fn completed(context: &Context, id: u64, some: &[Option<(Completion, bool)>; TOGETHER]) {
    let flights = &space().flights;
    let mut found = [const { None }; TOGETHER];
    flights.with(|flights| {
        for (found, done) in found.iter_mut().zip(some) {
            *found = done.and_then(|(done, _)| flights.take(id, done.block, Some(done.data)));
        }
    });
    let mut count = 0;
    for (flight, done) in found.iter().zip(some) {
        let (Some(flight), &Some((done, late))) = (flight, done) else { continue };
        let mut given = flight.args;
        if let Some(arg) = operations::output_vector(capture::operation(flight.nr, &flight.args))
            && let Some(buffers) = flights.with(|flights| flights.buffers(flight))
        {
            given[arg] = buffers as u64;
        }
        operations::complete(context, flight, &Where::Given(&given), Some(done.result), late);
        count += 1;
        if flight.has_vector() {
            flights.with(|flights| flights.release(flight));
        }
    }
    operations::completed(context, count);
}

/// Records what is still in flight as never completed, and follows the context no more.
fn give_up(context: &Context, id: u64) {
    if context.silent.get() {
        return;
    }
    let flights = &space().flights;
    while let Some(flight) = flights.with(|flights| flights.take_any(id)) {
        operations::complete(context, &flight, &Where::Given(&flight.args), None, false);
        operations::completed(context, 1);
        flights.with(|flights| flights.release(&flight));
    }
    space().aio.with(|contexts| contexts.remove(id));
}
