//! Numbers of io_uring's interface: where things are in its shared memory, and what flags mean.

/// Flags of io_uring_setup with which rings can be shadowed: their queues are laid out in known ways.
pub const SETUP_KNOWN: u32 = SETUP_IOPOLL
    | SETUP_SQPOLL
    | SETUP_SQ_AFF
    | SETUP_CQSIZE
    | SETUP_CLAMP
    | SETUP_ATTACH_WQ
    | SETUP_R_DISABLED
    | SETUP_SUBMIT_ALL
    | SETUP_COOP_TASKRUN
    | SETUP_TASKRUN_FLAG
    | SETUP_SINGLE_ISSUER
    | SETUP_DEFER_TASKRUN
    | SETUP_SQE128
    | SETUP_CQE32
    | SETUP_NO_MMAP
    | SETUP_REGISTERED_ONLY
    | SETUP_NO_SQARRAY
    | SETUP_HYBRID_IOPOLL
    | SETUP_CQE_MIXED;
/// Completions come only when the kernel is asked.
const SETUP_IOPOLL: u32 = 1 << 0;
/// A thread of the kernel takes entries without being called.
pub const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQ_AFF: u32 = 1 << 2;
const SETUP_CQSIZE: u32 = 1 << 3;
const SETUP_CLAMP: u32 = 1 << 4;
const SETUP_ATTACH_WQ: u32 = 1 << 5;
const SETUP_R_DISABLED: u32 = 1 << 6;
const SETUP_SUBMIT_ALL: u32 = 1 << 7;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
/// The program looks at [`SQ_TASKRUN`].
pub const SETUP_TASKRUN_FLAG: u32 = 1 << 9;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
/// Entries are twice as long.
pub const SETUP_SQE128: u32 = 1 << 10;
/// Completions are twice as long.
pub const SETUP_CQE32: u32 = 1 << 11;
/// The queues are in memory of the program.
pub const SETUP_NO_MMAP: u32 = 1 << 14;
/// There is no descriptor, but a number as of [`REGISTER_RING_FDS`].
pub const SETUP_REGISTERED_ONLY: u32 = 1 << 15;
const SETUP_HYBRID_IOPOLL: u32 = 1 << 17;
/// Some completions are twice as long.
pub const SETUP_CQE_MIXED: u32 = 1 << 18;
/// Entries are taken in their own order.
pub const SETUP_NO_SQARRAY: u32 = 1 << 16;

/// Both queues are in one mapping.
pub const FEAT_SINGLE_MMAP: u32 = 1;

/// Offsets for mmap.
pub const AT_QUEUES: u64 = 0;
/// The completion queue: the same memory.
pub const AT_COMPLETIONS: u64 = 0x800_0000;
/// The entries of the submission queue.
pub const AT_ENTRIES: u64 = 0x1000_0000;

/// io_uring_enter: waits for completions.
pub const ENTER_GETEVENTS: u64 = 1 << 0;
/// io_uring_enter: a structure says for how long.
pub const ENTER_EXT_ARG: u64 = 1 << 3;
/// The same, in memory that the ring knows.
pub const ENTER_EXT_ARG_REG: u64 = 1 << 6;
/// io_uring_enter: the first argument is a number from IORING_REGISTER_RING_FDS.
pub const ENTER_REGISTERED_RING: u64 = 1 << 4;

/// In the flags of the submission queue: completions are to be had by entering the kernel.
pub const SQ_TASKRUN: u32 = 1 << 2;

/// In the flags of the submission queue: there was no room for completions, which are to be had likewise.
pub const SQ_OVERFLOW: u32 = 1 << 1;

/// In the flags of the submission queue: the thread that takes entries sleeps.
pub const SQ_NEED_WAKEUP: u32 = 1 << 0;

/// In the flags of a completion: the kernel has chosen a buffer, whose number is above this place.
pub const CQE_F_BUFFER: u32 = 1 << 0;
/// That place.
pub const CQE_BUFFER_AT: u32 = 16;
/// In the priority of a message: more than one may come.
pub const RECV_MULTISHOT: u64 = 1 << 1;
/// In the priority of what is sent or received: as many chosen buffers as there are bytes for.
pub const RECVSEND_BUNDLE: u64 = 1 << 4;
/// In the priority of what is sent: the address is that of a vector.
pub const SEND_VECTORIZED: u64 = 1 << 5;
/// In the flags of a completion: more will come of the same entry.
pub const CQE_F_MORE: u32 = 1 << 1;
/// It tells that the memory of the entry is not used any more.
pub const CQE_F_NOTIF: u32 = 1 << 3;
/// It is none: the queue goes on at its beginning.
pub const CQE_F_SKIP: u32 = 1 << 5;
/// It takes two places.
pub const CQE_F_LONG: u32 = 1 << 15;

/// io_uring_register: the first argument is a number from IORING_REGISTER_RING_FDS.
pub const REGISTER_USE_REGISTERED_RING: u64 = 1 << 31;
/// Gives a ring files: an array of descriptors.
pub const REGISTER_FILES: u64 = 2;
/// Takes them back.
pub const UNREGISTER_FILES: u64 = 3;
/// Changes some: their first place, and the address of an array.
pub const REGISTER_FILES_UPDATE: u64 = 6;
/// Gives a ring files: their number, and behind 16 bytes the address of an array.
pub const REGISTER_FILES2: u64 = 13;
/// Changes some: their first place, behind 8 bytes the address, behind 24 their number.
pub const REGISTER_FILES_UPDATE2: u64 = 14;
/// Gives rings numbers.
pub const REGISTER_RING_FDS: u64 = 20;
/// Takes them back.
pub const UNREGISTER_RING_FDS: u64 = 21;
/// Gives a ring a group of buffers: a ring of their addresses.
pub const REGISTER_BUFFER_RING: u64 = 22;
/// Takes it back.
pub const UNREGISTER_BUFFER_RING: u64 = 23;
/// In the flags of that: the kernel allocates the ring, and the program maps it.
pub const BUFFER_RING_IS_MAPPED: u16 = 1;
/// In the flags of that: a buffer is used piece by piece.
pub const BUFFER_RING_IS_USED_UP: u16 = 2;
/// Offset for mmap of such a ring; the number of the group is above [`BUFFER_GROUP_AT`].
pub const AT_BUFFER_RING: u64 = 0x8000_0000;
/// That place.
pub const BUFFER_GROUP_AT: u32 = 16;
/// Cancels operations, and waits until that is done.
pub const REGISTER_SYNC_CANCEL: u64 = 24;
/// What is cancelled: all that fit.
pub const CANCEL_ALL: u32 = 1 << 0;
/// What is cancelled is not known by its data, but by its file, its operation, or is anything.
pub const CANCEL_OTHERWISE: u32 = 1 << 1 | 1 << 2 | 1 << 5;
/// Posts a completion to a ring that an entry names.
pub const REGISTER_SEND_MESSAGE: u64 = 31;
/// Makes queues longer or shorter.
pub const REGISTER_RESIZE_RINGS: u64 = 33;

/// Number of rings to which a thread can give numbers.
pub const REGISTERED_MAX: usize = 16;

/// What io_uring_setup returns in memory, as numbers of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Params {
    /// Entries of the submission queue.
    pub sq_entries: u32,
    /// Entries of the completion queue.
    pub cq_entries: u32,
    /// Flags, as asked for.
    pub flags: u32,
    thread: [u32; 2],
    /// What the kernel can.
    pub features: u32,
    others: [u32; 4],
    /// Offsets in the submission queue.
    pub sq: SubmissionOffsets,
    /// Offsets in the completion queue.
    pub cq: CompletionOffsets,
}

impl Params {
    /// Returns true if a ring like that is known.
    pub fn can_be_shadowed(&self) -> bool {
        self.flags & !SETUP_KNOWN == 0 && self.features & FEAT_SINGLE_MMAP != 0
    }

    /// Returns what makes a ring like that with memory of the kernel's.
    pub fn mapped(&self) -> Params {
        let mut params = *self;
        params.flags &= !(SETUP_NO_MMAP | SETUP_REGISTERED_ONLY);
        (params.features, params.others[1], params.others[2], params.others[3]) = (0, 0, 0, 0);
        (params.sq, params.cq) = (SubmissionOffsets::default(), CompletionOffsets::default());
        params
    }

    /// Returns the same with queues of other lengths.
    pub fn resized(&self, to: &Params) -> Params {
        let Params { sq_entries, cq_entries, sq, cq, .. } = *to;
        Params { sq_entries, cq_entries, sq, cq, ..*self }
    }

    /// Returns where the memory of the program is: of the queues, and of the entries.
    pub fn lent(&self) -> [u64; 2] {
        [self.cq.lent, self.sq.lent].map(|[low, high]| u64::from(low) | u64::from(high) << 32)
    }

    /// Returns true if all is in the same places.
    pub fn is_laid_out_as(&self, other: &Params) -> bool {
        let (a, b) = ([self.sq, other.sq], [self.cq, other.cq]);
        let places = |sq: &SubmissionOffsets| [sq.head, sq.tail, sq.flags, sq.dropped, sq.array];
        let ends = |cq: &CompletionOffsets| [cq.head, cq.tail, cq.overflow, cq.cqes, cq.flags];
        (self.sq_entries, self.cq_entries) == (other.sq_entries, other.cq_entries)
            && places(&a[0]) == places(&a[1])
            && ends(&b[0]) == ends(&b[1])
    }
}

/// Offsets in the submission queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SubmissionOffsets {
    /// What the kernel has taken.
    pub head: u32,
    /// What the program has put in.
    pub tail: u32,
    mask: u32,
    entries: u32,
    /// Flags of the kernel.
    pub flags: u32,
    /// Number of entries that made no sense.
    pub dropped: u32,
    /// The order of the entries.
    pub array: u32,
    others: u32,
    /// Where the entries are, in memory of the program.
    lent: [u32; 2],
}

/// Offsets in the completion queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CompletionOffsets {
    /// What the program has taken.
    pub head: u32,
    /// What the kernel has put in.
    pub tail: u32,
    mask: u32,
    entries: u32,
    /// Number of completions for which there was no room.
    pub overflow: u32,
    /// The completions.
    pub cqes: u32,
    /// Flags of the program.
    pub flags: u32,
    others: u32,
    /// Where the queues are, in memory of the program.
    lent: [u32; 2],
}

/// A completion.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Completion {
    /// What the program has given to the entry.
    pub user_data: u64,
    /// The result.
    pub result: i32,
    /// Flags.
    pub flags: u32,
}

/// What a program registers to give a ring buffers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BufferRing {
    /// Where the buffers are listed.
    pub at: u64,
    /// How many there are at most: a power of two.
    pub entries: u32,
    /// Number of the group.
    pub group: u16,
    /// Flags.
    pub flags: u16,
}

/// An entry of that list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ListedBuffer {
    /// The buffer.
    pub at: u64,
    /// Its length.
    pub bytes: u32,
    /// Its number.
    pub number: u16,
    reserved: u16,
}

/// What a program registers to cancel operations.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cancel {
    /// What the program has given to the entry.
    pub data: u64,
    fd: i32,
    /// Flags.
    pub flags: u32,
    rest: [u64; 6],
}

impl Cancel {
    /// Cancels what has this data, and waits for nothing.
    pub fn of(data: u64, flags: u32) -> Cancel {
        Cancel { data, fd: -1, flags, rest: [0; 6] }
    }
}
