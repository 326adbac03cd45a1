//! What came of an operation of a ring: where its memory is, if the kernel has chosen that, or if the
//! program may have used the memory that said so again.

use syscalls::abi::rings::{CQE_BUFFER_AT, CQE_F_BUFFER, Completion};
use syscalls::capture::{self, How};
use syscalls::requests::Chooses;

use crate::context::{Context, space};
use crate::flights::{Buffers, Flight, VECTOR_MAX};
use crate::memory;
use crate::operations::{self, Where};
use crate::shadow::Ring;

/// Most buffers of one completion, as the kernel takes for one that does not say how much it wants.
const PIECES_MAX: usize = 256;
/// Words of a `struct msghdr`, and those of the vector.
const MESSAGE_WORDS: usize = 7;
const VECTOR_AT: usize = 2;
const COUNT_AT: usize = 3;

/// A `struct msghdr`.
type Message = [u64; MESSAGE_WORDS];

/// Reads the vector of an operation, if it is short enough to be kept: the program may use its memory
/// again once the operation is submitted.
pub fn vector_of(context: &Context, args: &[u64; 6], (arg, how): (usize, How)) -> Option<Buffers> {
    let (at, count) = match how {
        How::Msghdr => {
            let message = memory::read::<Message>(context, args[arg])?;
            (message[VECTOR_AT], message[COUNT_AT])
        }
        _ => (args[arg], *args.get(arg + 1)?),
    };
    let mut buffers: Buffers = [[0; 2]; VECTOR_MAX];
    let bytes = count.checked_mul(16).filter(|&bytes| bytes <= size_of::<Buffers>() as u64)?;
    // SAFETY: there is room for that many bytes.
    let missing = unsafe { memory::copy(context, buffers.as_mut_ptr().cast(), at, bytes) };
    (missing == 0).then_some(buffers)
}

/// Records that an operation was completed.
pub fn record(context: &Context, ring: &Ring, flight: &mut Flight, done: &Completion) {
    let result = i64::from(done.result);
    match flight.chooses {
        Chooses::Nothing => {
            let kept = match flight.has_vector() {
                true => space().flights.with(|flights| flights.buffers(flight)),
                false => None,
            };
            with_vector(context, flight, kept.map(|kept| (kept as u64, None)), result);
        }
        _ if done.flags & CQE_F_BUFFER == 0 => {
            operations::complete(context, flight, &Where::Unknown, Some(result), false);
        }
        Chooses::Buffers => in_buffers(context, ring, flight, done),
        Chooses::Buffer | Chooses::Frame => in_buffer(context, ring, flight, done),
    }
}

/// Records it with another vector than the program's, if there is one: its address, and its length if
/// the program does not say that.
fn with_vector(context: &Context, flight: &Flight, vector: Option<(u64, Option<u64>)>, ret: i64) {
    let contents = || operations::contents(capture::operation(flight.nr, &flight.args));
    match vector.and_then(|vector| Some((vector, contents()?))) {
        Some((vector, (arg, how, _))) => in_vector(context, flight, vector, (arg, how), ret),
        None => {
            let given = Where::Given(&flight.args);
            operations::complete(context, flight, &given, Some(ret), false);
        }
    }
}

#[inline(never)]
fn in_vector(
    context: &Context,
    flight: &Flight,
    (at, count): (u64, Option<u64>),
    (arg, how): (usize, How),
    ret: i64,
) {
    let mut given = flight.args;
    let mut message: Message = [0; MESSAGE_WORDS];
    if how == How::Msghdr {
        // A message with its header in the buffer has all in there.
        if flight.chooses != Chooses::Frame {
            message = memory::read(context, given[arg]).unwrap_or(message);
        }
        message[VECTOR_AT] = at;
        message[COUNT_AT] = count.unwrap_or(message[COUNT_AT].min(VECTOR_MAX as u64));
        given[arg] = message.as_ptr() as u64;
    } else {
        given[arg] = at;
        given[arg + 1] = count.unwrap_or(given[arg + 1]);
    }
    operations::complete(context, flight, &Where::Given(&given), Some(ret), false);
    core::hint::black_box(&message);
}

/// Records it with the buffer that the kernel has chosen.
fn in_buffer(context: &Context, ring: &Ring, flight: &mut Flight, done: &Completion) {
    let which = (flight.group, (done.flags >> CQE_BUFFER_AT) as u16);
    let read = |at| memory::read(context, at);
    let found = ring.buffers.with(|buffers| buffers.find(which, read));
    let row = capture::operation(flight.nr, &flight.args);
    let result = i64::from(done.result);
    let (Some((at, bytes)), Some((arg, how, _))) = (found, operations::contents(row)) else {
        return operations::complete(context, flight, &Where::Unknown, Some(result), false);
    };
    if how == How::Bytes {
        say_where(flight, arg, (at, bytes.into()));
        return with_vector(context, flight, None, result);
    }
    // No more than the program has asked for.
    let kept = space().flights.with(|flights| flights.buffers(flight));
    // SAFETY: it stays as it is until the operation is given back.
    let asked = kept.map_or(0, |kept| unsafe { (&raw const (*kept)[0][1]).read() });
    let most = if asked == 0 || flight.chooses == Chooses::Frame { u64::MAX } else { asked };
    let vector = [at, u64::from(bytes).min(most)];
    with_vector(context, flight, Some((vector.as_ptr() as u64, Some(1))), result);
    core::hint::black_box(&vector);
}

/// Records it with the buffers that the kernel has chosen: the one that is told, and those behind it.
#[inline(never)]
fn in_buffers(context: &Context, ring: &Ring, flight: &mut Flight, done: &Completion) {
    let which = (flight.group, (done.flags >> CQE_BUFFER_AT) as u16);
    let (result, bytes) = (i64::from(done.result), done.result.max(0) as u64);
    let read = |at| memory::read(context, at);
    let mut pieces = [[0; 2]; PIECES_MAX];
    let found = ring.buffers.with(|buffers| buffers.find_all(which, bytes, &mut pieces, read));
    let row = capture::operation(flight.nr, &flight.args);
    let pieces = found.and_then(|count| pieces.get(..count));
    let memory = match (pieces, operations::contents(row)) {
        (Some(pieces @ [[at, _], ..]), Some((arg, How::Bytes, _))) => {
            say_where(flight, arg, (*at, bytes));
            Where::Pieces(pieces)
        }
        _ => Where::Unknown,
    };
    operations::complete(context, flight, &memory, Some(result), false);
}

/// The event has the address of the buffer, and its length where the program has given none.
fn say_where(flight: &mut Flight, arg: usize, (at, bytes): (u64, u64)) {
    flight.args[arg] = at;
    if let Some(count @ 0) = flight.args.get_mut(arg + 1) {
        *count = bytes;
    }
}
