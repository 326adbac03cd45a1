//! Optional parts of an event: what only few recordings have of it. An event without any takes no
//! room for them, and a reader skips those that it does not know.

use crate::blob_id::BlobId;
use crate::wire::{Cursor, Malformed, put_bytes, put_length_before, put_number};

/// Maximum length of all parts of an event.
pub const PARTS_BYTES_MAX: usize = 64 << 10;

/// A part of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is: [`PartRow::id`].
    pub id: u64,
    /// Its value.
    pub value: PartValue,
}

/// Value of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartValue {
    /// A number.
    Number(u64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A kind of part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRow {
    /// Its id in the file.
    pub id: u64,
    /// Its name.
    pub name: &'static str,
    /// What those do with it who move an event to another trace.
    pub meaning: PartMeaning,
    /// What it says, for the documents.
    pub about: &'static str,
}

/// What a part means for those who move an event to another trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartMeaning {
    /// Nothing: it stays as it is.
    Plain,
    /// A time: a signed number of ticks from the event's time stamp.
    Time,
    /// A duration in ticks from the event's time stamp.
    Duration,
    /// Number of a process of the trace.
    Process,
    /// Number of a thread of the trace.
    Thread,
    /// A buffer of the trace: its number plus 1, or 0 if it was lost.
    Buffer,
    /// Buffers of the trace.
    Buffers,
}

/// Ids of parts.
pub mod part_id {
    /// CPU time of a call in user mode.
    pub const USER_CPU: u64 = 1;
    /// Stack of calls.
    pub const STACK: u64 = 2;
    /// Submission.
    pub const SUBMITTED: u64 = 3;
    /// Completion.
    pub const COMPLETED: u64 = 4;
    /// Recorded late.
    pub const LATE: u64 = 5;
    /// Time span.
    pub const DURATION: u64 = 6;
    /// CPU.
    pub const CPU: u64 = 7;
    /// Process.
    pub const PROCESS: u64 = 8;
    /// Thread.
    pub const THREAD: u64 = 9;
    /// Buffers.
    pub const BUFFERS: u64 = 10;
    /// Operations.
    pub const OPERATIONS: u64 = 11;
    /// Watched mapping.
    pub const WATCHED: u64 = 12;
    /// Time that recording the call took after its end.
    pub const RECORDING: u64 = 13;
    /// Where a signal hit.
    pub const SIGNAL_PLACE: u64 = 14;
    /// Time that copying what goes into a call took before it began.
    pub const COPYING: u64 = 15;
}

/// The parts that this version knows.
pub static PART_ROWS: [PartRow; 15] = [
    part(
        part_id::USER_CPU,
        "user_cpu_ns",
        PartMeaning::Plain,
        "CPU time of the thread since its call before had ended, in nanoseconds: it was without a CPU \
         meanwhile",
    ),
    part(
        part_id::STACK,
        "stack",
        PartMeaning::Buffer,
        "the stack from which it was made: number of a buffer of `u64` addresses plus 1, 0: lost",
    ),
    part(
        part_id::SUBMITTED,
        "submitted",
        PartMeaning::Time,
        "when its work was submitted: `signed` ticks from the event's time stamp",
    ),
    part(
        part_id::COMPLETED,
        "completed",
        PartMeaning::Time,
        "when its work was completed: `signed` ticks from the event's time stamp",
    ),
    part(
        part_id::LATE,
        "late",
        PartMeaning::Plain,
        "not 0: it was recorded after it had begun, and what it was given was read late; of an \
         operation: it was found completed after the program may have used what came out",
    ),
    part(
        part_id::DURATION,
        "duration",
        PartMeaning::Duration,
        "of an event that is no call: ticks from its time stamp to its end",
    ),
    part(part_id::CPU, "cpu", PartMeaning::Plain, "the CPU on which it happened"),
    part(
        part_id::PROCESS,
        "process",
        PartMeaning::Process,
        "the process that it is about: its number in the trace",
    ),
    part(
        part_id::THREAD,
        "thread",
        PartMeaning::Thread,
        "the thread that it is about: its number in the trace",
    ),
    part(
        part_id::BUFFERS,
        "buffers",
        PartMeaning::Buffers,
        "buffers that its fields name by their places in this list of `number`: each that of a \
         buffer plus 1, 0: lost",
    ),
    part(
        part_id::OPERATIONS,
        "operations",
        PartMeaning::Plain,
        "of a call that submits operations: how many of them are events of their own",
    ),
    part(
        part_id::WATCHED,
        "watched",
        PartMeaning::Plain,
        "of a call that makes a ring of io_uring: 1 if its operations are events of their own; of a \
         call that maps a file to be stored to: 1 if what is stored there is in the trace, 2 the \
         kernel refused to watch it, 3 a filter of the program stood in the way, 4 the file cannot \
         be watched, 5 if it is once the memory can be written, 6 like 5, and what is read there is \
         in the trace; 7 if it is the queue of such a ring",
    ),
    part(
        part_id::RECORDING,
        "recording",
        PartMeaning::Duration,
        "ticks from the call's end until what came out was copied, or the new program began: not the \
         program's time",
    ),
    part(
        part_id::SIGNAL_PLACE,
        "signal_place",
        PartMeaning::Plain,
        "of a signal: 1 if it hit where a call begins, which was made after the handler, 2 between two \
         calls; otherwise it hit in a call, which was finished first",
    ),
    part(
        part_id::COPYING,
        "copying",
        PartMeaning::Duration,
        "ticks before the call's beginning in which what goes in was copied, its files were looked at, and \
         the recorder prepared to follow an exec: not the program's time",
    ),
];

const fn part(id: u64, name: &'static str, meaning: PartMeaning, about: &'static str) -> PartRow {
    PartRow { id, name, meaning, about }
}

impl Part {
    /// A part that is a number.
    pub fn number(id: u64, value: u64) -> Part {
        Part { id, value: PartValue::Number(value) }
    }

    /// The part that names the buffer with a call's callers.
    pub fn buffer_of(id: BlobId) -> Part {
        Part::number(part_id::STACK, id.0.wrapping_add(1))
    }

    /// The part that names buffers; `None` stands for one that was lost.
    pub fn buffers(all: &[Option<BlobId>]) -> Part {
        let mut bytes = Vec::new();
        put_number(&mut bytes, all.len() as u64);
        for id in all {
            put_number(&mut bytes, id.map_or(0, |id| id.0.wrapping_add(1)));
        }
        Part { id: part_id::BUFFERS, value: PartValue::Bytes(bytes) }
    }

    /// The buffers that it names, as many as can be read: `None` for those that were lost.
    pub fn named_buffers(&self) -> Vec<Option<BlobId>> {
        let id = |number: u64| number.checked_sub(1).map(BlobId);
        match (self.row().map(|row| row.meaning), &self.value) {
            (Some(PartMeaning::Buffer), PartValue::Number(number)) => vec![id(*number)],
            (Some(PartMeaning::Buffers), PartValue::Bytes(bytes)) => {
                let mut from = Cursor::new(bytes, 0);
                let count = from.number().unwrap_or(0);
                // Ends with the bytes, since the count may be wrong.
                (0..count).map_while(|_| from.number().ok().map(id)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The part with other buffers in the places of those that it names.
    pub fn with_buffers(&self, buffers: &[Option<BlobId>]) -> Part {
        match (&self.value, buffers) {
            (PartValue::Number(_), [one]) => {
                Part::number(self.id, one.map_or(0, |id| id.0.wrapping_add(1)))
            }
            _ => Part::buffers(buffers),
        }
    }

    /// Its row, if this version knows it.
    pub fn row(&self) -> Option<&'static PartRow> {
        PART_ROWS.iter().find(|row| row.id == self.id)
    }
}

/// Appends the parts of an event. Returns their length.
pub fn put_parts(out: &mut Vec<u8>, parts: &[Part]) -> usize {
    let start = out.len();
    for part in parts {
        match &part.value {
            PartValue::Number(number) => {
                put_number(out, part.id << 1);
                put_number(out, *number);
            }
            PartValue::Bytes(bytes) => {
                put_number(out, part.id << 1 | 1);
                put_bytes(out, bytes);
            }
        }
    }
    put_length_before(out, start)
}

/// Reads the parts of an event, those included that nobody knows.
pub fn get_parts(from: &mut Cursor<'_>) -> Result<Vec<Part>, Malformed> {
    let list = from.bytes()?;
    if list.len() > PARTS_BYTES_MAX {
        return Err(Malformed("the parts of an event are too long"));
    }
    let mut from = Cursor::new(list, 0);
    let mut parts = Vec::new();
    while from.position() < list.len() {
        let key = from.number()?;
        let value = match key & 1 {
            0 => PartValue::Number(from.number()?),
            _ => PartValue::Bytes(from.bytes()?.to_vec()),
        };
        parts.push(Part { id: key >> 1, value });
    }
    Ok(parts)
}
