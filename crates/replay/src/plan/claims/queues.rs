//! Bytes that a call moves through a pipe or socket pair.

use std::ops::Range;
use std::rc::Rc;

use model::{Description, DescriptorTable};
use syscalls::abi::files::{MSG_PEEK, O_ACCMODE};
use syscalls::shape::{ArgKind, Classes};
use syscalls::{Act, Ret, flags};
use trace::event::Call;

use crate::resource::queue_of;
use crate::treatment::{Said, is_stream};

/// All bytes: their places are unknown.
pub const ALL: Range<u64> = 0..u64::MAX;

/// What a call does to a stream's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Takes,
    Puts,
    /// It told how many bytes there were.
    Tells,
    /// It opened a FIFO to write: who reads does not meet the end from then on.
    OpensToPut,
}

impl Way {
    pub const fn of(writes: bool) -> Way {
        if writes { Way::Puts } else { Way::Takes }
    }
}

/// Bytes that a call moved through a stream.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Number of the stream.
    pub queue: u64,
    pub way: Way,
    /// Offset among all bytes in that direction. Unknown for sockets and for pipes that were opened
    /// by a name or again.
    pub at: Option<u64>,
    /// Number of bytes.
    pub len: u64,
}

impl Flow {
    /// Of a call through the stream in its first argument, if it moves bytes only as it returns.
    pub fn of(said: &Said, call: &Call, ret: i64, description: &Rc<Description>) -> Option<Flow> {
        if said.act == Act::TellQueued && ret == 0 && is_stream(description) {
            let queue = queue_of(description, false);
            return Some(Flow { queue, way: Way::Tells, at: None, len: 0 });
        }
        let [reads, writes] =
            [Classes::READ, Classes::WRITE].map(|class| said.row.classes.intersects(class));
        if ret < 0 || reads == writes || !is_stream(description) || peeks(said, call) {
            return None;
        }
        let (queue, len) = (queue_of(description, writes), ret as u64);
        Some(Flow { queue, way: Way::of(writes), at: None, len })
    }

    /// Of a call that opened this FIFO.
    pub fn of_open(said: &Said, fifo: &Rc<Description>) -> Option<Flow> {
        let opens_to_put =
            said.act == Act::Open && fifo.flags.is_some_and(|flags| flags & O_ACCMODE != 0);
        let queue = queue_of(fifo, true);
        opens_to_put.then_some(Flow { queue, way: Way::OpensToPut, at: None, len: 0 })
    }

    /// Whether it read, and there was nothing more to read.
    pub fn met_end(&self) -> bool {
        self.way == Way::Takes && self.len == 0
    }

    /// Its bytes among all that went through.
    pub fn stretch(&self) -> Range<u64> {
        self.at.map_or(ALL, |at| at..at.saturating_add(self.len))
    }
}

/// Whether a call leaves the bytes in the queue.
fn peeks(said: &Said, call: &Call) -> bool {
    said.of_set(call, &flags::MSG).is_some_and(|flags| flags & MSG_PEEK != 0)
}

/// Returns the queues in both directions of all streams that a call writes through.
pub fn written_through(said: &Said, call: &Call, table: &DescriptorTable) -> Vec<u64> {
    let moves = said.ret == Ret::Size && said.row.classes.intersects(Classes::WRITE);
    let fds = said.args.iter().zip(call.args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd));
    let open = fds.filter_map(|(_, fd)| Some(table.get(fd as i32)?.description));
    let streams = open.filter(|description| moves && is_stream(description));
    streams.flat_map(|stream| [queue_of(stream, false), queue_of(stream, true)]).collect()
}
