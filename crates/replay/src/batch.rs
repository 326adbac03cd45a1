//! What a task is to do, as the planner hands it over: many actions at a time, with the memory
//! that they need.

use std::ops::Range;
use std::sync::Arc;

use events::{Arg, Ret};
use trace::Blob;
use trace::event::ProcessState;

use crate::lane::Lane;

/// One thing to do.
pub struct Action {
    /// The call's place in the trace's order of entry; that of the call before for what is no call.
    pub seq: u64,
    /// When it began in the recording, in ticks.
    pub enter: u64,
    /// When it ended there.
    pub exit: u64,
    /// What other lanes must have done before, in [`Batch::waits`].
    pub waits: Range<u32>,
    /// Other lanes had calls open at the same time: a result counts only once those have ended.
    pub overlapped: bool,
    /// It may sleep until another task does something.
    pub may_block: bool,
    /// What to do.
    pub what: What,
}

/// What an action does.
pub enum What {
    /// Makes a recorded call.
    Call(Call),
    /// Puts placeholders at descriptor numbers.
    Place(Box<[Placed]>),
    /// Makes the node that binding a socket to a path makes.
    Socket(Box<[u8]>),
    /// Moves a file's offset, as a call did whose other side is not here.
    Advance {
        /// The file.
        fd: i32,
        /// By how much.
        by: i64,
    },
    /// Makes a task.
    Spawn(Box<Spawn>),
    /// Begins a new program: all descriptors but these are closed.
    Exec(Box<[i32]>),
    /// Becomes what the process was when its program began.
    Become(Box<Beginning>),
    /// Stops sharing descriptors or the working directory: flags of unshare.
    Unshare(i32),
    /// Keeps of its capabilities only these.
    Powers {
        /// In effect.
        effective: u64,
        /// To be had.
        permitted: u64,
    },
    /// Ends; whether it is the last one that uses its descriptors.
    End {
        /// Close them now: nobody else has them.
        close: bool,
    },
}

/// A descriptor that only holds its number.
#[derive(Clone, Copy)]
pub struct Placed {
    /// Its number.
    pub fd: i32,
    /// Whether it is closed by exec.
    pub close_on_exec: bool,
}

/// A task to make.
pub struct Spawn {
    /// What it will do.
    pub lane: Arc<Lane>,
    /// The flags of clone.
    pub flags: u64,
}

/// What a process is when its program begins.
pub struct Beginning {
    /// As the recorder saw it.
    pub state: ProcessState,
    /// It is the first program: nothing was inherited from a task that is replayed.
    pub first: bool,
}

/// A call to make again.
pub struct Call {
    /// The x86_64 number.
    pub nr: u16,
    /// Its name.
    pub name: &'static str,
    /// What the row or its variant says about the arguments.
    pub args: &'static [Arg],
    /// What the result means.
    pub ret_kind: Ret,
    /// The arguments.
    pub values: [u64; 6],
    /// The recorded result.
    pub ret: i64,
    /// The memory behind them, in [`Batch::pieces`].
    pub pieces: Range<u32>,
    /// It moves bytes through a pipe or socket pair, where they come as they come.
    pub stream: bool,
    /// It opens a named pipe.
    pub opens_pipe: bool,
    /// The scan of a directory that it belongs to; 0 for all other calls.
    pub scan: u64,
    /// The descriptor table may be used by several tasks at once.
    pub shared_table: bool,
    /// Data that differs proves nothing: stores to mapped memory changed the file as well.
    pub vague: bool,
    /// Owners are those of the recording, not of a namespace of the program's.
    pub owners: bool,
    /// It had not returned: what it may have written is written as far as that does not block.
    pub attempt: bool,
}

/// A piece of memory behind an argument.
pub struct Piece {
    /// The argument.
    pub arg: u8,
    /// `events::record::part`.
    pub part: u8,
    /// Of which element.
    pub index: u16,
    /// Read after the call.
    pub out: bool,
    /// The program's memory could not be read.
    pub fault: bool,
    /// Its length in the program.
    pub true_len: u64,
    /// Hash of all of it, when not all is stored.
    pub hash: Option<u128>,
    /// What is stored of it.
    pub stored: Stored,
}

/// Where stored bytes are in a batch.
pub enum Stored {
    /// In [`Batch::bytes`].
    Bytes(Range<u32>),
    /// In [`Batch::blobs`], one after the other.
    Blobs(Range<u32>),
}

/// Actions of one lane in order, with all that they refer to.
#[derive(Default)]
pub struct Batch {
    /// The actions.
    pub actions: Vec<Action>,
    /// Lanes, and how much each must have done.
    pub waits: Vec<(Arc<Lane>, u64)>,
    /// Pieces of memory.
    pub pieces: Vec<Piece>,
    /// Short pieces' bytes.
    pub bytes: Vec<u8>,
    /// Long pieces' bytes.
    pub blobs: Vec<Blob>,
    /// Bytes of blobs, for the budget.
    pub blob_bytes: usize,
}

impl Batch {
    /// Memory that it stands for.
    pub fn held_bytes(&self) -> usize {
        self.actions.len() * size_of::<Action>()
            + self.pieces.len() * size_of::<Piece>()
            + self.bytes.len()
            + self.blob_bytes
    }

    /// The pieces of a call.
    pub fn pieces_of(&self, call: &Call) -> &[Piece] {
        &self.pieces[call.pieces.start as usize..call.pieces.end as usize]
    }

    /// What is stored of a piece, stretch by stretch.
    pub fn stretches<'a>(&'a self, piece: &'a Piece) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, blobs): (&[u8], &[Blob]) = match &piece.stored {
            Stored::Bytes(range) => (&self.bytes[range.start as usize..range.end as usize], &[]),
            Stored::Blobs(range) => (&[], &self.blobs[range.start as usize..range.end as usize]),
        };
        std::iter::once(bytes).chain(blobs.iter().map(|blob| &blob[..]))
    }

    /// What is stored of a piece, if that is one stretch.
    pub fn one_stretch<'a>(&'a self, piece: &'a Piece) -> Option<&'a [u8]> {
        match &piece.stored {
            Stored::Bytes(range) => Some(&self.bytes[range.start as usize..range.end as usize]),
            Stored::Blobs(range) if range.len() == 1 => Some(&self.blobs[range.start as usize]),
            Stored::Blobs(_) => None,
        }
    }

    /// Bytes stored of a piece.
    pub fn stored_len(&self, piece: &Piece) -> usize {
        self.stretches(piece).map(<[u8]>::len).sum()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.actions.clear();
        self.waits.clear();
        self.pieces.clear();
        self.bytes.clear();
        self.blobs.clear();
        self.blob_bytes = 0;
    }
}
