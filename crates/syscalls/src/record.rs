//! The records that an agent writes to a ring and the recorder reads.
//!
//! A thread's records form one byte stream, 8-byte aligned throughout:
//!
//! ```text
//! word 0      kind u8 | a u8 | b u16 | c u32
//! words 1..   the body; its size depends on the kind (and for ENTER and DATA on the header)
//! ```
//!
//! A call is `ENTER DATA* COPIED? OPERATION* (DATA* EXIT | ABANDON)`; the stream may end after ENTER if the
//! call never returned. An operation that the call submits is `SUBMIT DATA* SUBMITTED`. When it has
//! been completed, it becomes a call of its own in the stream of the thread that finds that out. All other records are between calls, except IDENTITY, which belongs to the open call.
//! Numbers are little-endian.

/// Size of the header of a record.
pub const HEADER_BYTES: usize = 8;

/// Kind of a record. The values are the wire encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A call begins. a: [`enter_flag`] bits; b: number; c: count of arguments.
    /// Body: tsc, site, arguments.
    Enter = 1,
    /// Memory behind an argument. a: argument; b: index of the element; c: part | flags << 8.
    /// Body: true length, stored length, the hash if flagged, stored bytes padded to 8.
    Data = 2,
    /// The call has returned. a: a [`watched`]; c: ticks from then until it was recorded, if
    /// anything was copied. Body: tsc, result.
    Exit = 3,
    /// The open call was not made: a signal handler ran first. No body.
    Abandon = 4,
    /// A thread begins. a: [`StartHow`]. Body: [`START_WORDS`] words, see [`Start`].
    Start = 5,
    /// The thread runs a new program. c: tid. Body: tsc, and since when the exec had been done; 0 if
    /// that is not known.
    Image = 6,
    /// A handler is entered. a: signal; b: a [`signal_place`]. Body: tsc, handler, and the first 48 bytes of siginfo.
    Signal = 7,
    /// The thread ends. Body: tsc, calls entered and not abandoned.
    End = 8,
    /// Identity of the file in the open call's path or result. a: argument or [`RESULT`].
    /// Body: [`IDENTITY_WORDS`] words, see [`Identity`].
    Identity = 9,
    /// The thread waited for room in its ring. Body: tsc, nanoseconds.
    Stall = 10,
    /// Something could not be recorded. a: [`GapWhy`]. Body: tsc, detail.
    Gap = 11,
    /// The open call submits an operation. a: unused; b: number; c: count of arguments | place among
    /// those that the call submits << 8. Body: tsc, id, arguments.
    Submit = 12,
    /// The memory of that operation is complete. No body.
    Submitted = 13,
    /// The thread had no CPU for a while since its last call. Body: tsc, nanoseconds that it computed.
    UserTime = 14,
    /// What goes into the open call has been copied, and only now it is made. c: ticks since ENTER.
    /// No body.
    Copied = 15,
    /// Between two calls the thread was told to let others run. Body: tsc, nanoseconds that it had run.
    TimeSlice = 16,
}

impl RecordKind {
    /// Decodes the kind.
    pub const fn from_wire(value: u8) -> Option<RecordKind> {
        Some(match value {
            1 => RecordKind::Enter,
            2 => RecordKind::Data,
            3 => RecordKind::Exit,
            4 => RecordKind::Abandon,
            5 => RecordKind::Start,
            6 => RecordKind::Image,
            7 => RecordKind::Signal,
            8 => RecordKind::End,
            9 => RecordKind::Identity,
            10 => RecordKind::Stall,
            11 => RecordKind::Gap,
            12 => RecordKind::Submit,
            13 => RecordKind::Submitted,
            14 => RecordKind::UserTime,
            15 => RecordKind::Copied,
            16 => RecordKind::TimeSlice,
            _ => return None,
        })
    }
}

/// Added to the numbers of `int 0x80` calls, which have a table of their own.
pub const OLD_NUMBERS: u16 = 0x8000;

/// Argument number in IDENTITY for the file behind the descriptor that the call returned.
pub const RESULT: u8 = 0xff;

/// Argument number in DATA for data of an image instead of a call.
pub const IMAGE_ARG: u8 = 0xfe;

/// Argument number in DATA for the stack from which a call was made. With the part `WHOLE`: where the call
/// is made, stack and frame pointer; with the part `CONTENT`: what lies on the stack.
pub const STACK_ARG: u8 = 0xfd;
/// Bytes of a stack that are copied at most.
pub const STACK_BYTES_MAX: u32 = 64 << 10;

/// Flags of ENTER.
pub mod enter_flag {
    /// The call came through SIGSYS, not through a patched site.
    pub const SLOW: u8 = 1;
    /// No variant of the row matches: the memory behind the argument was not captured.
    pub const UNKNOWN_VARIANT: u8 = 2;
    /// The call does not return if it succeeds: there may be no EXIT.
    pub const NO_RETURN: u8 = 4;
    /// No call, but an operation that was submitted before: the id in its SUBMIT stands in the place
    /// of the site.
    pub const OPERATION: u8 = 8;
    /// It was found completed later than the program found it.
    pub const LATE: u8 = 16;
    /// The thread has had its CPU since its call before had returned.
    pub const STAYED: u8 = 32;
    /// Those that are for the recorder alone.
    pub const OF_OPERATIONS: u8 = OPERATION | LATE;
}

/// In SIGNAL: where the signal hit.
pub mod signal_place {
    /// In a call, which was finished first.
    pub const AFTER_A_CALL: u16 = 0;
    /// Where a call begins, which was made after the handler.
    pub const AT_A_CALL: u16 = 1;
    /// Between two calls.
    pub const BETWEEN_CALLS: u16 = 2;
}

/// In SUBMIT: the place of the operation among those of the call.
pub mod submit {
    /// The operation is taken whatever the call returns.
    pub const TAKEN: u32 = 0xff_ffff;
}

/// In EXIT: whether what is stored to the file that the call has mapped will be collected.
pub mod watched {
    /// Nobody asked: the call has mapped no such file, or it is not wanted.
    pub const UNASKED: u8 = 0;
    /// It will be.
    pub const YES: u8 = 1;
    /// The kernel, or a security module, refuses to watch the memory of the process.
    pub const REFUSED: u8 = 2;
    /// A seccomp filter of the program might refuse it, or end the program.
    pub const FILTERED: u8 = 3;
    /// The file, or its file system, cannot be watched.
    pub const NOT_THIS: u8 = 4;
    /// It will be once the memory can be written.
    pub const LATER: u8 = 5;
    /// What is read there is in the trace; what is stored, once the memory can be written.
    pub const READS: u8 = 6;
    /// It is that of a ring whose operations are in the trace.
    pub const SHADOWED: u8 = 7;
}

/// Flags of DATA, in the second byte of `c`.
pub mod data_flag {
    /// Read after the call (otherwise before it).
    pub const OUT: u8 = 1;
    /// Fewer bytes are stored than the buffer has.
    pub const CUT: u8 = 2;
    /// The memory could not be read; of contents, what stands before that is stored.
    pub const FAULT: u8 = 4;
    /// A 16-byte XXH3-128 hash of the whole buffer precedes the stored bytes.
    pub const HASH: u8 = 8;
}

/// Parts of an argument, in a DATA record.
pub mod part {
    /// The memory itself; for a vector, the array of `struct iovec`; for a message, the msghdr.
    pub const WHOLE: u8 = 0;
    /// Contents of a vector's buffers, one after the other.
    pub const CONTENT: u8 = 1;
    /// A message's address.
    pub const NAME: u8 = 2;
    /// A message's array of `struct iovec`.
    pub const VECTOR: u8 = 3;
    /// A message's control data.
    pub const CONTROL: u8 = 4;
    /// Of an image: its argument strings, NUL-separated.
    pub const ARGV: u8 = 5;
    /// Of an image: its environment strings, NUL-separated.
    pub const ENVP: u8 = 6;
    /// Of an image: its auxiliary vector.
    pub const AUXV: u8 = 7;
    /// Content of the file at a path before the call: one window, by index. With FAULT: the rest,
    /// which could not be read.
    pub const SNAPSHOT: u8 = 8;
    /// In an imported call: data of the original format that has no other place here. Not memory of
    /// the program.
    pub const ORIGIN: u8 = 9;
    /// Of an image that is recorded for a re-execution: its stack, from the stack pointer to the end.
    pub const STACK: u8 = 10;
    /// Of one message of several: how much of it was sent or received, a 32-bit number.
    pub const LENGTH: u8 = 11;
}

/// Size of a `struct mmsghdr`.
pub const MESSAGE_BYTES: u64 = 64;
/// Where it has how much of its message was sent or received.
pub const MESSAGE_LENGTH_AT: u64 = 56;

/// Maximum size of a DATA record of part SNAPSHOT.
pub const SNAPSHOT_WINDOW_BYTES: u64 = 1 << 20;
/// Maximum number of bytes stored of one file.
pub const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

/// How a thread was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StartHow {
    /// As the first thread of the program that was launched.
    Launch = 1,
    /// As a new process with its own memory.
    Fork = 2,
    /// As a new process that shares its parent's memory (vfork, posix_spawn).
    Vfork = 3,
    /// As a thread of the same process.
    Thread = 4,
}

impl StartHow {
    /// Decodes the value.
    pub const fn from_wire(value: u8) -> Option<StartHow> {
        Some(match value {
            1 => StartHow::Launch,
            2 => StartHow::Fork,
            3 => StartHow::Vfork,
            4 => StartHow::Thread,
            _ => return None,
        })
    }
}

/// Reason for a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GapWhy {
    /// The recorder was killed or gave up.
    RecorderLost = 1,
    /// The program started one that cannot be followed (setuid, 32-bit, traced by another process).
    NotFollowed = 2,
    /// The size limit of the recording was reached.
    SizeLimit = 3,
    /// The time limit of the recording was reached.
    TimeLimit = 4,
    /// The trace could not be written.
    WriteFailed = 5,
    /// PROGRAM had ended and `--until-exit` was given.
    UntilExit = 6,
    /// More threads at the same time than there are ring slots.
    TooManyThreads = 7,
    // 8 was never used.
    /// The trace was cut from another one.
    Cut = 9,
    /// The trace was made from a file of another tool.
    Imported = 10,
    /// The trace was repaired: it lacks what was damaged or cut off.
    Repaired = 11,
    /// The recorder was stopped while there was still something to record.
    Interrupted = 12,
    /// A thread was traced by another program of the recording.
    Traced = 13,
    /// A program has code that sets `%gs`, which the agent needs.
    OwnGs = 14,
    /// What a process stores to mapped files is not recorded from here on. Detail: an
    /// [`unwatched`].
    Unwatched = 15,
    /// The kernel dropped events of its own, on the CPU in whose stream the gap is.
    KernelEvents = 16,
}

/// Values in the header of a gap of the kind `OwnGs`.
pub mod own_gs {
    /// The process is not recorded from here on.
    pub const LEFT_ALONE: u16 = 0;
    /// The process could not be left alone, and is still recorded.
    pub const GOES_ON: u16 = 1;
}

/// Reasons that an agent gives for a gap of the kind `Unwatched`.
pub mod unwatched {
    /// The mappings that a process has inherited could not be watched. The number of its parent
    /// stands [`PARENT_SHIFT`] bits further.
    pub const INHERITED: u64 = 1;
    /// Place of the parent's number.
    pub const PARENT_SHIFT: u32 = 8;
    /// A mapping that was moved, or stayed, could not be watched again.
    pub const MOVED: u64 = 2;
    /// The recorder did not collect in time what had been stored.
    pub const LATE: u64 = 3;
    /// A filter of the program denies the agent what it needs to ask for a collection.
    pub const FILTER: u64 = 4;
    /// The program watches its memory itself.
    pub const OWN_WATCH: u64 = 5;
    /// The process was killed: what it had stored since the last collection is missing.
    pub const KILLED: u64 = 6;
}

/// Reasons that an agent gives for a gap of the kind `NotFollowed`. Other values are the error of a
/// failed attach.
pub mod unfollowed {
    /// A seccomp filter of the program denies calls that recording needs.
    pub const FILTER: u64 = 0x1_0001;
    /// The program gains privileges when it starts.
    pub const GAINS_RIGHTS: u64 = 0x1_0002;
    /// The program's memory may not be made executable.
    pub const NO_CODE: u64 = 0x1_0003;
    /// Nothing was started: a process shared its memory with one that became another user.
    pub const SHARED_MEMORY: u64 = 0x1_0004;
    /// Nothing was there when it was looked for, right before the call.
    pub const APPEARED: u64 = 0x1_0005;
}

impl GapWhy {
    /// Returns true if the gap only shows how the trace was made, and nothing went wrong.
    pub const fn is_on_purpose(self) -> bool {
        matches!(self, GapWhy::Cut | GapWhy::Imported | GapWhy::Repaired)
    }

    /// Decodes the reason.
    pub const fn from_wire(value: u8) -> Option<GapWhy> {
        Some(match value {
            1 => GapWhy::RecorderLost,
            2 => GapWhy::NotFollowed,
            3 => GapWhy::SizeLimit,
            4 => GapWhy::TimeLimit,
            5 => GapWhy::WriteFailed,
            6 => GapWhy::UntilExit,
            7 => GapWhy::TooManyThreads,
            9 => GapWhy::Cut,
            10 => GapWhy::Imported,
            11 => GapWhy::Repaired,
            12 => GapWhy::Interrupted,
            13 => GapWhy::Traced,
            14 => GapWhy::OwnGs,
            15 => GapWhy::Unwatched,
            16 => GapWhy::KernelEvents,
            _ => return None,
        })
    }
}

/// Number of words in the body of START.
pub const START_WORDS: usize = 4;

/// The body of START.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Time stamp.
    pub tsc: u64,
    /// Number of this thread, unique in the recording.
    pub thread: u32,
    /// Number of its process, unique in the recording.
    pub process: u32,
    /// Number of the thread that created it.
    pub parent: u32,
    /// Process id, in the process's own pid namespace.
    pub pid: u32,
    /// Thread id, in the process's own pid namespace.
    pub tid: u32,
}

impl Start {
    /// Encodes the body.
    pub const fn to_words(self) -> [u64; START_WORDS] {
        [
            self.tsc,
            self.thread as u64 | (self.process as u64) << 32,
            self.parent as u64 | (self.pid as u64) << 32,
            self.tid as u64,
        ]
    }

    /// Decodes the body.
    pub const fn from_words(words: [u64; START_WORDS]) -> Start {
        Start {
            tsc: words[0],
            thread: words[1] as u32,
            process: (words[1] >> 32) as u32,
            parent: words[2] as u32,
            pid: (words[2] >> 32) as u32,
            tid: words[3] as u32,
        }
    }
}

/// Number of words in the body of IDENTITY.
pub const IDENTITY_WORDS: usize = 7;

/// The body of IDENTITY: a file's metadata at its first use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Device, as in `st_dev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Device number of a device node.
    pub rdev: u64,
    /// Last modification, nanoseconds since the epoch.
    pub mtime_ns: i64,
}

impl Identity {
    /// Encodes the body.
    pub const fn to_words(self) -> [u64; IDENTITY_WORDS] {
        [
            self.dev,
            self.ino,
            self.mode as u64 | (self.nlink as u64) << 32,
            self.uid as u64 | (self.gid as u64) << 32,
            self.size,
            self.rdev,
            self.mtime_ns as u64,
        ]
    }

    /// Decodes the body.
    pub const fn from_words(words: [u64; IDENTITY_WORDS]) -> Identity {
        Identity {
            dev: words[0],
            ino: words[1],
            mode: words[2] as u32,
            nlink: (words[2] >> 32) as u32,
            uid: words[3] as u32,
            gid: (words[3] >> 32) as u32,
            size: words[4],
            rdev: words[5],
            mtime_ns: words[6] as i64,
        }
    }
}

/// Number of siginfo bytes in SIGNAL: contains all fields that any signal uses.
pub const SIGINFO_BYTES: usize = 48;

/// Number of words in the body of SIGNAL.
pub const SIGNAL_WORDS: usize = 2 + SIGINFO_BYTES / 8;

/// The first word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Encoded kind of the record; may be unknown to the reader.
    pub kind: u8,
    /// Depends on the kind.
    pub a: u8,
    /// Depends on the kind.
    pub b: u16,
    /// Depends on the kind.
    pub c: u32,
}

impl Header {
    /// Creates a header of a known kind.
    pub const fn new(kind: RecordKind, a: u8, b: u16, c: u32) -> Header {
        Header { kind: kind as u8, a, b, c }
    }

    /// Encodes the header.
    pub const fn to_word(self) -> u64 {
        self.kind as u64 | (self.a as u64) << 8 | (self.b as u64) << 16 | (self.c as u64) << 32
    }

    /// Decodes a header.
    pub const fn from_word(word: u64) -> Header {
        Header {
            kind: word as u8,
            a: (word >> 8) as u8,
            b: (word >> 16) as u16,
            c: (word >> 32) as u32,
        }
    }

    /// Number of words in the fixed body that follows; `None` for a header that no agent writes.
    /// The hash and the stored bytes of DATA come after its fixed body.
    pub const fn body_words(self) -> Option<usize> {
        Some(match RecordKind::from_wire(self.kind) {
            Some(RecordKind::Enter) if self.c <= 6 => 2 + self.c as usize,
            Some(RecordKind::Submit) if self.c & 0xff <= 6 => 2 + (self.c & 0xff) as usize,
            Some(RecordKind::Data | RecordKind::Exit | RecordKind::End) => 2,
            Some(RecordKind::Stall | RecordKind::Gap | RecordKind::Image) => 2,
            Some(RecordKind::UserTime | RecordKind::TimeSlice) => 2,
            Some(RecordKind::Abandon | RecordKind::Submitted | RecordKind::Copied) => 0,
            Some(RecordKind::Start) => START_WORDS,
            Some(RecordKind::Signal) => SIGNAL_WORDS,
            Some(RecordKind::Identity) => IDENTITY_WORDS,
            _ => return None,
        })
    }
}

/// Returns the size in the stream of `stored` bytes of DATA, including the hash.
pub const fn data_bytes(flags: u8, stored: u64) -> u64 {
    let hash = if flags & data_flag::HASH != 0 { 16 } else { 0 };
    hash + ((stored + 7) & !7)
}
