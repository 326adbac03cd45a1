//! What a task is to do, as the planner hands it over: many actions at a time, with the memory
//! that they need.

use std::ops::Range;
use std::sync::Arc;

use events::{Arg, Ret};
use trace::event::{BlobId, ProcessState};
use trace::{DataPayload, ReadError, Trace};
use twox_hash::XxHash3_128;

use crate::lane::Lane;
use crate::log::About;

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
    /// The call, where calls are told of.
    pub about: Option<Box<About>>,
}

/// What an action does.
pub enum What {
    /// Makes a recorded call: which of [`Batch::calls`].
    Call(u32),
    /// Puts placeholders at descriptor numbers.
    Place(Box<[Placed]>),
    /// Makes the node that binding a socket to a path makes.
    Socket(Box<[u8]>),
    /// Makes a directory that stands for what was mounted.
    Directory {
        /// Its path.
        path: Box<[u8]>,
        /// Its mode, whatever the umask.
        mode: u32,
    },
    /// Moves a file's offset, as a call did whose other side is not here.
    Advance {
        /// The file.
        fd: i32,
        /// By how much.
        by: i64,
    },
    /// Puts filler where a call put bytes of what is not here.
    Pour {
        /// The file or pipe.
        fd: i32,
        /// How many.
        bytes: u64,
    },
    /// Takes bytes out of a pipe that a call took out for what is not here.
    Drain {
        /// The pipe.
        fd: i32,
        /// How many.
        bytes: u64,
    },
    /// Closes numbers, as far as they are open.
    Close(Box<[i32]>),
    /// Gives up the lock of an open file.
    Unlock(i32),
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
#[derive(Clone)]
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
    /// It makes two descriptors that belong together.
    pub makes_pair: bool,
    /// Bytes of the disk that it may take.
    pub takes: u64,
    /// The argument that says how many bytes it moves from file to file.
    pub free: Option<u8>,
    /// The scan of a directory that it belongs to; 0 for all other calls.
    pub scan: u64,
    /// The descriptor table may be used by several tasks at once.
    pub shared_table: bool,
    /// Data that differs proves nothing: stores to mapped memory changed the file as well, or what
    /// was written to it was filler.
    pub vague: bool,
    /// Another result proves nothing either: the file may have been written by requests of which the
    /// trace has nothing.
    pub unseen: bool,
    /// The same: nobody knows what its names stand for.
    pub contested: bool,
    /// Whether another result proves anything.
    pub proof: Proof,
    /// Data of which the trace has but a hash may be filler of the image.
    pub untold: bool,
    /// Owners are those of the recording, not of a namespace of the program's.
    pub owners: bool,
    /// It is of a process with a root of its own: absolute links begin elsewhere.
    pub own_root: bool,
    /// The descriptor that it opens again, and with which flags: it is made in another way.
    pub reopens: Option<(i32, i32)>,
    /// It had not returned: what it may have written is written as far as that does not block.
    pub attempt: bool,
}

impl Action {
    const BLANK: Action = Action {
        seq: 0,
        enter: 0,
        exit: 0,
        waits: 0..0,
        overlapped: false,
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
        args: &[],
        ret_kind: Ret::Int,
        values: [0; 6],
        ret: 0,
        pieces: 0..0,
        stream: false,
        makes_pair: false,
        takes: 0,
        free: None,
        scan: 0,
        shared_table: false,
        vague: false,
        unseen: false,
        contested: false,
        own_root: false,
        proof: Proof::Always,
        untold: false,
        owners: true,
        reopens: None,
        attempt: false,
    };
}

/// Whether a result that differs proves that something went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// It does.
    Always,
    /// It does not, but it may come out right when others have ended.
    NotAtOnce,
    /// It does not: it saw what others did as they did it.
    Never,
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
    /// Hash of all of it, when not all is stored: which of [`Batch::hashes`].
    pub hash: Option<u32>,
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

/// A stored buffer: in which of [`Batch::blocks`], its length and its number.
#[derive(Clone, Copy)]
pub struct Place {
    block: u32,
    len: u32,
    id: BlobId,
    /// The hash of one that is to be compared, if it is long: its bytes were unpacked some time ago
    /// and are far from the processor.
    hash: Option<u128>,
}

/// A stretch of what was recorded, to be compared.
pub enum Expected<'a> {
    /// These bytes.
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

    /// Whether bytes are the same: where there is a hash, by that.
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Expected::Blob(_, Place { hash: Some(hash), len, .. }) => {
                bytes.len() == *len as usize && XxHash3_128::oneshot(bytes) == *hash
            }
            _ => self.bytes() == bytes,
        }
    }
}

/// Where each part of a batch ends.
#[derive(Clone, Copy, Default)]
pub struct Ends {
    waits: usize,
    pieces: usize,
    bytes: usize,
    blobs: usize,
}

impl Ends {
    /// The first of the waits that come after.
    pub fn waits(self) -> u32 {
        self.waits as u32
    }
}

/// Actions of one lane in order, with all that they refer to.
#[derive(Default)]
pub struct Batch {
    /// The actions.
    pub actions: Vec<Action>,
    /// The calls among them.
    pub calls: Vec<Call>,
    /// Lanes, and how much each must have done.
    pub waits: Vec<(Arc<Lane>, u64)>,
    /// Pieces of memory.
    pub pieces: Vec<Piece>,
    /// Short pieces' bytes.
    pub bytes: Vec<u8>,
    /// Hashes of pieces: few have one.
    pub hashes: Vec<u128>,
    /// Where long pieces' bytes are.
    blobs: Vec<Place>,
    /// What holds them.
    blocks: Vec<Arc<DataPayload>>,
    /// Bytes of blobs.
    blob_bytes: usize,
    /// Bytes of what is told of its calls.
    pub about_bytes: usize,
    /// What it was weighed at when it was handed over.
    pub charged: usize,
}

/// By how much less a byte of a block counts than one of the batch's own.
const BLOCKS_WEIGHT: usize = 6;
/// Buffers from this length on are compared by their hashes.
const HASHED_BYTES_MIN: usize = 512;
/// Blocks among which one is looked for: buffers come from few at a time.
const BLOCKS_NEAR: usize = 8;

/// Adds a blank to be filled in where it lies: the processor copies what was built elsewhere only when
/// all its parts have been written.
#[inline]
fn add<T>(all: &mut Vec<T>, blank: T) -> &mut T {
    let at = all.len();
    all.push(blank);
    &mut all[at]
}

impl Batch {
    /// Bytes that its actions are about.
    pub fn bytes_told(&self) -> usize {
        self.bytes.len() + self.blob_bytes
    }

    /// Memory that it stands for, for the budget. Blocks are shared with the cache of the trace and
    /// with other batches, and may take more than all the rest: a part of each counts.
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
            + self.blobs.len() * size_of::<Place>()
            + self.blocks.iter().map(share).sum::<usize>()
    }

    /// Adds an action, which makes the call that was added last unless told otherwise.
    #[inline]
    pub fn add_action(&mut self) -> &mut Action {
        let last = self.calls.len().wrapping_sub(1) as u32;
        let action = add(&mut self.actions, Action::BLANK);
        if let What::Call(at) = &mut action.what {
            *at = last;
        }
        action
    }

    /// Adds a call that is still to be told.
    #[inline]
    pub fn add_call(&mut self) -> &mut Call {
        add(&mut self.calls, Call::BLANK)
    }

    /// Adds a piece that is still to be told.
    #[inline]
    pub fn add_piece(&mut self) -> &mut Piece {
        add(&mut self.pieces, Piece::BLANK)
    }

    /// Where its parts end now.
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

    /// Adds stored buffers. Those that are to be `compared` get a hash.
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

    /// Moves the last action into an empty batch, with what it refers to: all from `from` on.
    pub fn move_last(&mut self, from: Ends, to: &mut Batch) {
        let Some(mut action) = self.actions.pop() else { return };
        let back = |range: &mut Range<u32>, by: usize| {
            *range = range.start - by as u32..range.end - by as u32;
        };
        back(&mut action.waits, from.waits);
        if let What::Call(at) = &mut action.what
            && let Some(mut call) = self.calls.pop()
        {
            back(&mut call.pieces, from.pieces);
            *at = to.calls.len() as u32;
            to.calls.push(call);
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
            // It is at hand: nothing can fail.
            let _ = to.add_blob(place.id, place.hash.is_some(), || Ok(Arc::clone(block)));
        }
        to.actions.push(action);
    }

    /// The pieces of a call.
    pub fn pieces_of(&self, call: &Call) -> &[Piece] {
        &self.pieces[call.pieces.start as usize..call.pieces.end as usize]
    }

    /// What is stored of a piece, stretch by stretch.
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

    /// What is stored of a piece, to be compared stretch by stretch.
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

    /// What is stored of a piece, if that is one stretch.
    pub fn one_stretch<'a>(&'a self, piece: &'a Piece) -> Option<&'a [u8]> {
        match &piece.stored {
            Stored::Bytes(range) => Some(&self.bytes[range.start as usize..range.end as usize]),
            Stored::Blobs(range) if range.len() == 1 => {
                Some(self.blob(self.blobs[range.start as usize]))
            }
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
        self.calls.clear();
        self.waits.clear();
        self.pieces.clear();
        self.bytes.clear();
        self.hashes.clear();
        self.blobs.clear();
        self.blocks.clear();
        self.blob_bytes = 0;
        self.about_bytes = 0;
    }
}
