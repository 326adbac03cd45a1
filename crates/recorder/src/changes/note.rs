//! Calls that have returned and wait until they are followed.

use file_tree::Inode;
use syscalls::record::part;
use trace::event::{Call, Content, Data, Event, EventKind, Outcome};

/// A call, with what of its memory matters. Many are kept at a time, so it is small.
pub(crate) struct Note {
    pub thread: u32,
    /// The user that owns the thread's arena.
    pub user: u32,
    pub enter: u64,
    pub nr: u16,
    pub args: [u64; 6],
    pub outcome: Outcome,
    /// Number of operations submitted by it that are events of their own.
    pub operations: u64,
    /// What is known of the stores to the file that it has mapped: a `syscalls::record::watched`.
    pub watched: u8,
    pub memory: Memory,
    /// The file that was at the path before the call.
    pub existed: Option<Inode>,
}

/// Pieces of memory, one after the other: argument, flags, length, bytes.
#[derive(Default)]
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    /// Adds the memory behind an argument.
    pub fn push(&mut self, arg: u8, flags: u8, bytes: &[u8]) {
        let len = (bytes.len() as u32).to_le_bytes();
        self.0.reserve_exact(2 + len.len() + bytes.len());
        self.0.extend_from_slice(&[arg, flags]);
        self.0.extend_from_slice(&len);
        self.0.extend_from_slice(bytes);
    }

    /// Gives the pieces to a call, whose former ones are overwritten.
    fn give(&self, to: &mut Vec<Data>) {
        let (mut rest, mut count) = (&self.0[..], 0);
        while let [arg, flags, a, b, c, d, bytes @ ..] = rest {
            let (bytes, next) = bytes.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            if count == to.len() {
                to.push(Data { part: part::WHOLE, ..Data::default() });
            }
            let piece = &mut to[count];
            (piece.arg, piece.flags) = (*arg, *flags);
            if let Content::Inline(content) = &mut piece.content {
                content.clear();
                content.extend_from_slice(bytes);
            }
            (rest, count) = (next, count + 1);
        }
        to.truncate(count);
    }
}

impl Note {
    /// Makes an event of it, in place of another one.
    pub fn give(&self, event: &mut Event) {
        (event.thread, event.tsc) = (self.thread, self.enter);
        if !matches!(event.kind, EventKind::Call(_)) {
            event.kind = EventKind::Call(Call { nargs: 6, ..Call::default() });
        }
        if let EventKind::Call(call) = &mut event.kind {
            (call.nr, call.args, call.outcome) = (self.nr, self.args, self.outcome);
            self.memory.give(&mut call.data);
        }
    }
}
