//! What is known of one thread's records while they arrive.

use std::rc::Rc;

use ring::DataMode;
use syscalls::record::{Identity, Start, StartHow};
use trace::event::{BlobId, Call, Content, Data, INLINE_BYTES_MAX, Outcome};
use trace::parts::Part;
use xxhash_rust::xxh3::Xxh3;

use crate::numbers::Numbers;

/// Words of the longest header and fixed body, including the hash of DATA.
pub(super) const FIXED_WORDS_MAX: usize = 16;

/// A call that has begun.
#[derive(Clone, Copy)]
pub(super) struct OpenCall {
    pub(super) tsc: u64,
    pub(super) nr: u16,
    pub(super) flags: u8,
    pub(super) nargs: u8,
    pub(super) site: u64,
    pub(super) args: [u64; 6],
}

impl OpenCall {
    /// The call without data and result.
    pub(super) fn bare(&self) -> Call {
        self.whole(Outcome::Unfinished, Vec::new())
    }

    pub(super) fn whole(&self, outcome: Outcome, data: Vec<Data>) -> Call {
        let &OpenCall { nr, flags, nargs, site, args, .. } = self;
        Call { nr, flags, site, nargs, args, outcome, data, identities: Vec::new() }
    }
}

/// A finished DATA record.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) arg: u8,
    pub(super) part: u8,
    pub(super) index: u16,
    pub(super) flags: u8,
    pub(super) true_len: u64,
    pub(super) hash: Option<u128>,
    /// Number of stored bytes.
    pub(super) stored: u64,
    /// Index of its first byte in `inline`, or of its first blob in `ids`.
    pub(super) at: u32,
}

impl Item {
    pub(super) const fn is_inline(&self) -> bool {
        self.stored <= INLINE_BYTES_MAX as u64
    }
}

/// A DATA record whose stored bytes are still arriving.
pub(super) struct Arriving {
    pub(super) item: Item,
    /// Stored bytes still to come, without padding.
    pub(super) left: u64,
    /// The part of the next blob that has arrived.
    pub(super) piece: Vec<u8>,
    pub(super) fate: Fate,
}

/// The records of one thread, as far as they have arrived.
#[derive(Default)]
pub(crate) struct Stream {
    /// Numbers that the thread may claim for itself; `None`: any.
    pub(super) numbers: Option<Rc<Numbers>>,
    /// The user that owns the thread's current arena.
    pub user: u32,
    /// The thread's START record.
    pub(super) start: Option<(StartHow, Start)>,
    /// Time stamp of the last IMAGE.
    pub(super) last_image: Option<u64>,
    pub(super) ended: bool,

    pub(super) fixed: [u64; FIXED_WORDS_MAX],
    pub(super) fixed_len: usize,
    pub(super) arriving: Option<Arriving>,

    pub(super) call: Option<OpenCall>,
    /// The call that submits the operation in `call`.
    pub(super) outer: Option<Box<Outer>>,
    /// Operations that the open call submits: their places, and their numbers.
    pub(super) submitted: Vec<(u32, u64)>,
    /// Optional parts of the open call.
    pub(super) parts: Vec<Part>,
    /// What the thread computed before its next call, in nanoseconds, if it was without a CPU.
    pub(super) user_time: Option<u64>,
    /// Completions wait for submissions in other streams.
    pub patient: bool,
    /// Operations that were given up here: calls that the agent did not count.
    pub(super) given_up: u64,
    /// Calls that are not kept, since nobody wants them.
    pub(super) left_out: u64,
    /// What the end of the call says of the file that it has mapped: a `syscalls::record::watched`.
    pub(super) watched: u8,
    /// The open call executes a program that cannot be followed: when that was noted, and the errno
    /// of the attempt. It becomes a gap unless the call fails.
    pub(super) unfollowed: Option<(u64, u64)>,
    /// Whether the thread has left a gap: records after it may be missing.
    pub(super) gaps: bool,
    /// Time and thread id of the IMAGE to which `items` belong.
    pub(super) image: Option<(u64, u32)>,
    pub(super) items: Vec<Item>,
    pub(super) inline: Vec<u8>,
    pub(super) ids: Vec<BlobId>,
    pub(super) identities: Vec<(u8, Identity)>,
    /// The stack of the open call: registers, and a copy of its beginning.
    pub(super) stack: Vec<u8>,
    /// Whether the call changes a file whose former content could not be stored whole.
    pub(super) not_whole: bool,

    pub(super) calls: u64,
    /// State of the open call where rules by path decide what is kept.
    pub(super) withheld: Withheld,
    /// Records later than this are not read yet; `None`: no limit.
    pub(super) until: Option<u64>,
    /// Time stamp of the record at which reading stopped.
    pub(super) next: Option<u64>,
}

/// What is done with arriving bytes.
pub(super) enum Fate {
    /// They are stored.
    Stored,
    /// They are stored, and copied for the policy.
    Told(Vec<u8>),
    /// They are hashed and discarded.
    Hashed(Box<Xxh3>),
    /// They are of the stack, which is not stored.
    Stack,
    /// They are discarded.
    Forgotten,
}

/// The policy's decision about the contents of the open call.
#[derive(Default)]
pub(super) struct Withheld {
    /// Mode by its descriptors.
    pub of_descriptors: Option<DataMode>,
    /// Final mode, once contents have arrived.
    pub decided: Option<DataMode>,
    /// Copied bytes of items that are not inline, with the item's index, which rises.
    pub told: Vec<(usize, Vec<u8>)>,
    /// Sum of the bytes of items that are copied.
    pub told_bytes: u64,
}

/// A call that is being read, while an operation that it submits is.
pub(super) struct Outer {
    pub call: OpenCall,
    pub id: u64,
    /// Its place among those that the call submits.
    pub order: u32,
    pub items: Vec<Item>,
    pub inline: Vec<u8>,
    pub ids: Vec<BlobId>,
    pub identities: Vec<(u8, Identity)>,
    pub not_whole: bool,
    pub withheld: Withheld,
}

impl Stream {
    /// Returns the stream of a thread that may claim these numbers.
    pub fn of(numbers: &Rc<Numbers>) -> Stream {
        Stream { numbers: Some(Rc::clone(numbers)), user: numbers.user, ..Stream::default() }
    }

    /// The thread's START, once it has arrived.
    pub fn start(&self) -> Option<(StartHow, Start)> {
        self.start
    }

    /// Time stamp of the thread's last IMAGE.
    pub fn last_image(&self) -> Option<u64> {
        self.last_image
    }

    /// Number of operations that were given up here.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Number of calls that were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of calls entered and not abandoned.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Whether a call has begun and not returned.
    pub fn has_open_call(&self) -> bool {
        self.call.is_some()
    }

    /// Whether the thread's own gaps explain why records may be missing.
    pub fn leaves_a_gap(&self) -> bool {
        self.gaps || self.unfollowed.is_some()
    }

    /// Whether END was read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The thread's number; 0 before START.
    pub fn thread(&self) -> u32 {
        self.start.map_or(0, |(_, start)| start.thread)
    }
}

/// The event's form of an item.
pub(super) fn owned(item: &Item, content: Content) -> Data {
    let &Item { arg, part, index, flags, true_len, hash, .. } = item;
    Data { arg, part, index, flags, true_len, hash, content }
}
