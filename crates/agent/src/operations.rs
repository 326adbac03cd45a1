//! Records of operations: what a call submits, and what has been completed.

use syscalls::capture::{self, How, Row};
use syscalls::record::{Header, RecordKind, enter_flag};

use crate::capture as data;
use crate::context::Context;
use crate::flights::Flight;
use crate::stream::Stream;
use crate::{call, clock};

/// Where the memory of an operation is that was completed.
pub enum Where<'a> {
    /// Where these arguments say.
    Given(&'a [u64; 6]),
    /// Its contents in these pieces.
    Pieces(&'a [[u64; 2]]),
    /// Nobody knows.
    Unknown,
}

/// Records within the open call that it submits an operation, with the memory that goes in. Of the
/// arguments, `given` are where that memory is.
pub fn submit(context: &Context, flight: &Flight, given: &[u64; 6]) {
    let row = capture::operation(flight.nr, &flight.args);
    let count = usize::from(row.nargs);
    let c = count as u32 | flight.order << 8;
    let head = Header::new(RecordKind::Submit, 0, flight.nr, c).to_word();
    let [a, b, c, d, e, f] = flight.args;
    let words = [head, clock::now(context), flight.id, a, b, c, d, e, f];
    Stream::record(context, &words[..3 + count]);
    if row.has_in && flight.is_filled_first {
        data::copy_in_part(context, row, given, false);
    } else if row.has_in {
        data::copy_in(context, row, given);
    }
    Stream::record(context, &[Header::new(RecordKind::Submitted, 0, 0, 0).to_word()]);
}

/// Records between calls that an operation was completed, with the memory that came out; without a
/// result that nobody will know. [`completed`] is to be told of it.
pub fn complete(
    context: &Context,
    flight: &Flight,
    memory: &Where<'_>,
    ret: Option<i64>,
    late: bool,
) {
    let row = capture::operation(flight.nr, &flight.args);
    let count = usize::from(row.nargs);
    // What was submitted is part of the first completion.
    let (mut flags, id) = match flight.has_come {
        false => (enter_flag::OPERATION, flight.id),
        true => (0, 0),
    };
    if late {
        flags |= enter_flag::LATE;
    }
    if ret.is_none() {
        flags |= enter_flag::NO_RETURN;
    }
    let head = Header::new(RecordKind::Enter, flags, flight.nr, count as u32).to_word();
    let [a, b, c, d, e, f] = flight.args;
    let now = clock::now(context);
    let words = [head, now, id, a, b, c, d, e, f];
    Stream::record(context, &words[..3 + count]);
    if let Some(ret) = ret {
        context.room.set(flight.room);
        match memory {
            Where::Given(given) => {
                if row.has_in && flight.is_filled_first {
                    data::copy_in_part(context, row, given, true);
                }
                if row.has_out {
                    data::copy_out(context, row, given, ret);
                }
            }
            Where::Pieces(pieces) => data::copy_pieces(context, row, pieces),
            Where::Unknown => data::note_unknown(context, row, ret),
        }
        let head = Header::new(RecordKind::Exit, 0, 0, 0).to_word();
        Stream::short_record(context, head, now, ret as u64);
    }
}

/// Counts so many completed operations, which are recorded, and shows them to the recorder.
pub fn completed(context: &Context, count: u64) {
    call::count_some(context, count);
    Stream::publish(context);
}

/// Returns the argument that points to contents, and how they are found.
pub fn contents(row: &Row) -> Option<(usize, How, syscalls::Dir)> {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    let found = ops.find(|op| data::is_contents(op) || op.how == How::Msghdr)?;
    Some((usize::from(found.arg), found.how, found.dir))
}

/// Returns the argument that points to a vector for output.
pub fn output_vector(row: &Row) -> Option<usize> {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    let found = ops.find(|op| op.how == How::Iovec && op.dir == syscalls::Dir::Out)?;
    Some(usize::from(found.arg))
}
