//! Records of operations: what a call submits, and what has been completed.

use syscalls::capture::{self, How, Row};
use syscalls::record::{Header, RecordKind, enter_flag};

use crate::capture as data;
use crate::context::Context;
use crate::flights::Flight;
use crate::stream::Stream;
use crate::{call, clock};

/// Records within the open call that it submits an operation, with the memory that goes in. Of the
/// arguments, `given` are where that memory is.
pub fn submit(context: &Context, flight: &Flight, given: &[u64; 6]) {
    let row = capture::operation(flight.nr);
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
    given: &[u64; 6],
    ret: Option<i64>,
    late: bool,
) {
    let row = capture::operation(flight.nr);
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
        if row.has_in && flight.is_filled_first {
            data::copy_in_part(context, row, given, true);
        }
        if row.has_out && flight.unknown_buffer {
            data::note_unknown(context, row, ret);
        } else if row.has_out {
            data::copy_out(context, row, given, ret);
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

/// Returns the argument that points to a buffer for output, whose length follows.
pub fn output_bytes(row: &Row) -> Option<usize> {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    let found = ops.find(|op| op.how == How::Bytes && op.dir == syscalls::Dir::Out)?;
    Some(usize::from(found.arg))
}

/// Returns the argument that points to a vector for output.
pub fn output_vector(row: &Row) -> Option<usize> {
    vector(row, syscalls::Dir::Out)
}

/// Returns the argument that points to a vector for input.
pub fn input_vector(row: &Row) -> Option<usize> {
    vector(row, syscalls::Dir::In)
}

fn vector(row: &Row, dir: syscalls::Dir) -> Option<usize> {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    let found = ops.find(|op| op.how == How::Iovec && op.dir == dir)?;
    Some(usize::from(found.arg))
}
