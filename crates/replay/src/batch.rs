//! Batches: many actions of one task, handed over by the planner together with the memory that they
//! refer to.

use std::ops::Range;
use std::sync::Arc;

use syscalls::{Act, Arg, Ret};
use trace::event::{BlobId, ProcessState};
use trace::{DataPayload, ReadError, Trace};
use twox_hash::XxHash3_128;

use crate::certainty::Certainty;
use crate::lane;
use crate::log::About;
use crate::mapped::Mapping;

/// The actions of one recorded thread.
pub type Lane = lane::Lane<Batch>;

/// One action of a task.
pub struct Action {
    /// Sequence number of the call in entry order; for other actions that of the preceding call.
    pub seq: u64,
    /// Recorded start, in ticks.
    pub enter: u64,
    /// Recorded end, in ticks.
    pub exit: u64,
    /// How long the thread computed before, in nanoseconds, if the replay does so too.
    pub computes_ns: u64,
    /// How long it waited for the outside before, in nanoseconds, if the replay does so too.
    pub rests_ns: u64,
    /// Progress that other lanes must have made first, in [`Batch::waits`].
    pub waits: Range<u32>,
    /// Other lanes had calls open meanwhile: a result counts only once those have ended.
    pub overlapped: bool,
    /// May sleep until another task acts.
    pub may_block: bool,
    /// The operation.
    pub what: What,
    /// Text about the call, if calls are logged.
    pub about: Option<Box<About>>,
}

/// What an action does.
pub enum What {
    /// Makes a recorded call: index into [`Batch::calls`].
    Call(u32),
    /// Puts placeholders at descriptor numbers.
    Place(Box<[Placed]>),
    /// Creates the node that binding a socket to a path creates.
    Socket(Box<[u8]>),
    /// Creates a directory that stands in for a mounted file system.
    Directory {
        /// Its path.
        path: Box<[u8]>,
        /// Its mode, regardless of the umask.
        mode: u32,
    },
    /// Moves a file's offset, for a call whose other side is not available.
    Advance {
        /// The file.
        fd: i32,
        /// Number of bytes.
        by: i64,
    },
    /// Writes filler in place of bytes whose source is not available.
    Pour {
        /// The file or pipe.
        fd: i32,
        /// Number of bytes.
        bytes: u64,
    },
    /// Reads and drops bytes of a pipe whose destination is not available.
    Drain {
        /// The pipe.
        fd: i32,
        /// Number of bytes.
        bytes: u64,
    },
    /// Maps the file of a descriptor.
    Map {
        /// The descriptor.
        fd: i32,
        /// The mapping.
        mapping: Arc<Mapping>,
    },
    /// Makes a recorded call on memory in which a file is mapped.
    Memory {
        /// The call, in [`Batch::calls`].
        call: u32,
        /// The mapping.
        mapping: Arc<Mapping>,
        /// The offset in the file that lies at the address.
        offset: u64,
    },
    /// Makes a recorded call for its time alone.
    Timed {
        /// The call, in [`Batch::calls`].
        call: u32,
        /// How often it is made again: what is computed before each, in [`Batch::computes`].
        again: Range<u32>,
    },
    /// Stores bytes to a mapped file.
    Store {
        /// The mapping.
        mapping: Arc<Mapping>,
        /// Where in the file.
        offset: u64,
        /// The bytes, in [`Batch::pieces`].
        pieces: Range<u32>,
        /// They are read and compared instead.
        is_read: bool,
        /// What it proves if they differ.
        certainty: Certainty,
        /// The descriptor to use instead of the mapping.
        by: Option<i32>,
    },
    /// Closes those of these descriptors that are open.
    Close(Box<[i32]>),
    /// Releases the lock of an open file.
    Unlock(i32),
    /// Creates a task.
    Spawn(Box<Spawn>),
    /// Starts a new program: closes all descriptors except these.
    Exec(Box<[i32]>),
    /// Takes over the recorded state of the process at the start of its program.
    Become(Box<Beginning>),
    /// Stops sharing descriptors or the working directory: flags of `unshare`.
    Unshare(i32),
    /// Reduces the capabilities to these.
    Powers {
        /// Effective set.
        effective: u64,
        /// Permitted set.
        permitted: u64,
    },
    /// Ends the task.
    End {
        /// Close the descriptors now: no other task shares them.
        close: bool,
    },
}

/// A placeholder descriptor, which only reserves its number.
#[derive(Clone, Copy)]
pub struct Placed {
    /// Its number.
    pub fd: i32,
    /// Closed by exec.
    pub close_on_exec: bool,
}

/// A task to create.
pub struct Spawn {
    /// Its actions.
    pub lane: Arc<Lane>,
    /// Flags of `clone`.
    pub flags: u64,
}

/// State of a process when its program starts.
pub struct Beginning {
    /// The state that the recorder saw.
    pub state: ProcessState,
    /// The first program: nothing was inherited from a replayed task.
    pub first: bool,
}

/// A call to replay.
#[derive(Clone)]
pub struct Call {
    /// x86_64 system call number.
    pub nr: u16,
    /// Its name, for messages.
    pub name: &'static str,
    /// Its effect.
    pub act: Act,
    /// Argument descriptions of the row or its variant.
    pub args: &'static [Arg],
    /// Type of the result.
    pub ret_kind: Ret,
    /// The arguments.
    pub values: [u64; 6],
    /// The recorded result.
    pub ret: i64,
    /// Memory of the arguments, in [`Batch::pieces`].
    pub pieces: Range<u32>,
    /// Moves bytes through a pipe or socket pair, which may deliver them in other portions.
    pub stream: bool,
    /// The latter, and it moves messages, each as a whole.
    pub messages: bool,
    /// Creates two connected descriptors.
    pub makes_pair: bool,
    /// Most bytes of disk space that it may use.
    pub takes: u64,
    /// The argument with the number of bytes to move from file to file.
    pub free: Option<u8>,
    /// The directory scan that it belongs to; 0 if none.
    pub scan: u64,
    /// Other tasks may use the descriptor table at the same time.
    pub shared_table: bool,
    /// What a result that differs proves.
    pub certainty: Certainty,
    /// Owners are those of the recording, not ids inside a user namespace of the program.
    pub owners: bool,
    /// Its process has its own root: absolute links start elsewhere.
    pub own_root: bool,
    /// It reopens this descriptor with these flags, which needs a different call.
    pub reopens: Option<(i32, i32)>,
}

impl Action {
    const BLANK: Action = Action {
        seq: 0,
        enter: 0,
        exit: 0,
        waits: 0..0,
        overlapped: false,
        computes_ns: 0,
        rests_ns: 0,
        may_block: false,
        what: What::Call(0),
        about: None,
    };
}

impl Piece {
    const BLANK: Piece = Piece {
        arg: 0,
        part: 0,
        index: 0,
        out: false,
        fault: false,
        true_len: 0,
        hash: None,
        stored: Stored::Bytes(0..0),
    };
}

impl Call {
    const BLANK: Call = Call {
        nr: 0,
        name: "",
        act: Act::Plain,
        args: &[],
        ret_kind: Ret::Int,
        values: [0; 6],
        ret: 0,
        pieces: 0..0,
        stream: false,
        messages: false,
        makes_pair: false,
        takes: 0,
        free: None,
        scan: 0,
        shared_table: false,
        certainty: Certainty::EXACT,
        own_root: false,
        owners: true,
        reopens: None,
    };
}

/// Memory that belongs to an argument.
pub struct Piece {
    /// Index of the argument.
    pub arg: u8,
    /// The part of it, of `syscalls::record::part`.
    pub part: u8,
    /// Index of the element.
    pub index: u16,
    /// Output, read after the call.
    pub out: bool,
    /// The program's memory could not be read.
    pub fault: bool,
    /// Length in the program.
    pub true_len: u64,
    /// Hash of the whole piece if it is not stored completely: index into [`Batch::hashes`].
    pub hash: Option<u32>,
    /// The stored bytes.
    pub stored: Stored,
}

/// Where the stored bytes of a piece are in a batch.
pub enum Stored {
    /// In [`Batch::bytes`].
    Bytes(Range<u32>),
    /// In [`Batch::blobs`], one after the other.
    Blobs(Range<u32>),
}

/// A stored buffer: its block in [`Batch::blocks`], its length and its id.
#[derive(Clone, Copy)]
pub struct Place {
    block: u32,
    len: u32,
    id: BlobId,
    /// Hash of a long buffer that is compared: its bytes were unpacked a while ago and are no
    /// longer in the CPU caches.
    hash: Option<u128>,
}

/// Recorded bytes to compare with.
pub enum Expected<'a> {
    /// Short bytes.
    Bytes(&'a [u8]),
    /// A stored buffer.
    Blob(&'a Batch, Place),
}

impl<'a> Expected<'a> {
    /// Its length.
    pub fn len(&self) -> usize {
        match self {
            Expected::Bytes(bytes) => bytes.len(),
            Expected::Blob(_, place) => place.len as usize,
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Expected::Bytes(bytes) => bytes,
            Expected::Blob(batch, place) => batch.blob(*place),
        }
    }

    /// Compares with `bytes`: by the hash if there is one.
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Expected::Blob(_, Place { hash: Some(hash), len, .. }) => {
                bytes.len() == *len as usize && XxHash3_128::oneshot(bytes) == *hash
            }
            _ => self.bytes() == bytes,
        }
    }
}

/// End of each part of a batch.
#[derive(Clone, Copy, Default)]
pub struct Ends {
    waits: usize,
    pieces: usize,
    bytes: usize,
    blobs: usize,
}

impl Ends {
    /// Index of the next wait to be added.
    pub fn waits(self) -> u32 {
        self.waits as u32
    }
}

/// Actions of one lane in order, with all data they refer to.
#[derive(Default)]
pub struct Batch {
    /// The actions.
    pub actions: Vec<Action>,
    /// The calls among them.
    pub calls: Vec<Call>,
    /// Lanes, and how many actions each must have finished.
    pub waits: Vec<(Arc<Lane>, u64)>,
    /// Pieces of memory.
    pub pieces: Vec<Piece>,
    /// Bytes of short pieces.
    pub bytes: Vec<u8>,
    /// Hashes of pieces; few have one.
    pub hashes: Vec<u128>,
    /// How long is computed before calls that are made again, in nanoseconds.
    pub computes: Vec<u64>,
    /// Locations of the bytes of long pieces.
    blobs: Vec<Place>,
    /// Data blocks that contain them.
    blocks: Vec<Arc<DataPayload>>,
    /// Total length of `blobs`.
    blob_bytes: usize,
    /// Total length of the log texts of its calls.
    pub about_bytes: usize,
    /// Its weight when it was handed over.
    pub charged: usize,
}

/// A block's byte counts this many times less than a byte of the batch itself.
const BLOCKS_WEIGHT: usize = 6;
/// Buffers of at least this length are compared by hash.
const HASHED_BYTES_MIN: usize = 512;
/// Number of recent blocks searched for a buffer: neighbouring buffers are in few blocks.
const BLOCKS_NEAR: usize = 8;

/// Adds a blank, to be filled in place: copying a value built on the stack stalls the processor
/// until all its fields have been written.
#[inline]
fn add<T>(all: &mut Vec<T>, blank: T) -> &mut T {
    let at = all.len();
    all.push(blank);
    &mut all[at]
}

impl Batch {
    /// Number of bytes that its actions move.
    pub fn bytes_told(&self) -> usize {
        self.bytes.len() + self.blob_bytes
    }

    /// Memory charged to the budget. Blocks are shared with the trace's cache and with other
    /// batches, and may be larger than everything else: only a part of each counts.
    pub fn weigh(&self) -> usize {
        let share = |block: &Arc<DataPayload>| {
            block.held_bytes() / Arc::strong_count(block) / BLOCKS_WEIGHT
        };
        self.actions.len() * size_of::<Action>()
            + self.calls.len() * size_of::<Call>()
            + self.pieces.len() * size_of::<Piece>()
            + self.bytes.len()
            + self.about_bytes
            + self.hashes.len() * size_of::<u128>()
            + self.computes.len() * size_of::<u64>()
            + self.blobs.len() * size_of::<Place>()
            + self.blocks.iter().map(share).sum::<usize>()
    }

    /// Adds an action; by default it makes the call that was added last.
    #[inline]
    pub fn add_action(&mut self) -> &mut Action {
        let last = self.calls.len().wrapping_sub(1) as u32;
        let action = add(&mut self.actions, Action::BLANK);
        if let What::Call(at) = &mut action.what {
            *at = last;
        }
        action
    }

    /// Adds a blank call, to be filled in.
    #[inline]
    pub fn add_call(&mut self) -> &mut Call {
        add(&mut self.calls, Call::BLANK)
    }

    /// Adds a blank piece, to be filled in.
    #[inline]
    pub fn add_piece(&mut self) -> &mut Piece {
        add(&mut self.pieces, Piece::BLANK)
    }

    /// Returns the current end of each part.
    pub fn ends(&self) -> Ends {
        Ends {
            waits: self.waits.len(),
            pieces: self.pieces.len(),
            bytes: self.bytes.len(),
            blobs: self.blobs.len(),
        }
    }

    /// Adds short bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Stored {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        Stored::Bytes(start..self.bytes.len() as u32)
    }

    /// Adds stored buffers; those to be `compared` get a hash.
    pub fn add_blobs(
        &mut self,
        trace: &Trace,
        ids: &[BlobId],
        compared: bool,
    ) -> Result<Stored, ReadError> {
        let start = self.blobs.len() as u32;
        for id in ids {
            self.add_blob(*id, compared, || trace.data_of(*id))?;
        }
        Ok(Stored::Blobs(start..self.blobs.len() as u32))
    }

    fn add_blob(
        &mut self,
        id: BlobId,
        compared: bool,
        find: impl FnOnce() -> Result<Arc<DataPayload>, ReadError>,
    ) -> Result<(), ReadError> {
        let near = self.blocks.len().saturating_sub(BLOCKS_NEAR);
        let known = self.blocks[near..].iter().rposition(|block| block.ids().contains(&id.0));
        let at = match known {
            Some(at) => near + at,
            None => {
                self.blocks.push(find()?);
                self.blocks.len() - 1
            }
        };
        let block = &self.blocks[at];
        let len = block.get(id.0).map_or(0, <[u8]>::len);
        let hashed = compared && len >= HASHED_BYTES_MIN && block.is_sound();
        let hash = if hashed { block.hash(id.0) } else { None };
        self.blob_bytes += len;
        self.blobs.push(Place { block: at as u32, len: len as u32, id, hash });
        Ok(())
    }

    /// Moves the last action into an empty batch, with everything it refers to: all from `from` on.
    pub fn move_last(&mut self, from: Ends, to: &mut Batch) {
        let Some(mut action) = self.actions.pop() else { return };
        let back = |range: &mut Range<u32>, by: usize| {
            *range = range.start - by as u32..range.end - by as u32;
        };
        back(&mut action.waits, from.waits);
        if let What::Call(at) | What::Timed { call: at, .. } | What::Memory { call: at, .. } =
            &mut action.what
            && let Some(mut call) = self.calls.pop()
        {
            back(&mut call.pieces, from.pieces);
            *at = to.calls.len() as u32;
            to.calls.push(call);
        }
        if let What::Store { pieces, .. } = &mut action.what {
            back(pieces, from.pieces);
        }
        to.waits.extend(self.waits.drain(from.waits..));
        to.pieces.extend(self.pieces.drain(from.pieces..));
        to.bytes.extend(self.bytes.drain(from.bytes..));
        for piece in &mut to.pieces {
            piece.hash = piece.hash.map(|at| {
                to.hashes.push(self.hashes[at as usize]);
                to.hashes.len() as u32 - 1
            });
            match &mut piece.stored {
                Stored::Bytes(range) => back(range, from.bytes),
                Stored::Blobs(range) => back(range, from.blobs),
            }
        }
        for place in self.blobs.drain(from.blobs..) {
            let block = &self.blocks[place.block as usize];
            self.blob_bytes -= place.len as usize;
            // The block is at hand, so this cannot fail.
            let _ = to.add_blob(place.id, place.hash.is_some(), || Ok(Arc::clone(block)));
        }
        to.actions.push(action);
    }

    /// Returns the pieces of a call.
    pub fn pieces_of(&self, call: &Call) -> &[Piece] {
        &self.pieces[call.pieces.start as usize..call.pieces.end as usize]
    }

    /// Returns the stored bytes of a piece as slices.
    pub fn stretches<'a>(&'a self, piece: &'a Piece) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, blobs): (&[u8], &[Place]) = match &piece.stored {
            Stored::Bytes(range) => (&self.bytes[range.start as usize..range.end as usize], &[]),
            Stored::Blobs(range) => (&[], &self.blobs[range.start as usize..range.end as usize]),
        };
        std::iter::once(bytes).chain(blobs.iter().map(|place| self.blob(*place)))
    }

    fn blob(&self, place: Place) -> &[u8] {
        self.blocks[place.block as usize].get(place.id.0).unwrap_or_default()
    }

    /// Returns the stored bytes of a piece as slices to compare with.
    pub fn expected<'a>(&'a self, piece: &'a Piece) -> impl Iterator<Item = Expected<'a>> {
        let (bytes, blobs) = match &piece.stored {
            Stored::Bytes(range) => {
                (Some(&self.bytes[range.start as usize..range.end as usize]), &[][..])
            }
            Stored::Blobs(range) => (None, &self.blobs[range.start as usize..range.end as usize]),
        };
        let blobs = blobs.iter().map(|place| Expected::Blob(self, *place));
        bytes.map(Expected::Bytes).into_iter().chain(blobs)
    }

    /// Returns the stored bytes of a piece if they are contiguous.
    pub fn one_stretch<'a>(&'a self, piece: &'a Piece) -> Option<&'a [u8]> {
        match &piece.stored {
            Stored::Bytes(range) => Some(&self.bytes[range.start as usize..range.end as usize]),
            Stored::Blobs(range) if range.len() == 1 => {
                Some(self.blob(self.blobs[range.start as usize]))
            }
            Stored::Blobs(_) => None,
        }
    }

    /// Number of stored bytes of a piece.
    pub fn stored_len(&self, piece: &Piece) -> usize {
        self.stretches(piece).map(<[u8]>::len).sum()
    }

    /// Empties it and keeps the allocations.
    pub fn clear(&mut self) {
        self.actions.clear();
        self.calls.clear();
        self.waits.clear();
        self.pieces.clear();
        self.bytes.clear();
        self.hashes.clear();
        self.computes.clear();
        self.blobs.clear();
        self.blocks.clear();
        self.blob_bytes = 0;
        self.about_bytes = 0;
    }
}
