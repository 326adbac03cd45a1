//! The records that an agent puts into a ring and the recorder takes out.
//!
//! A thread's records form one stream of bytes, 8-byte aligned throughout:
//!
//! ```text
//! word 0      kind u8 | a u8 | b u16 | c u32
//! words 1..   the body, whose size the kind (and for ENTER and DATA the header) tells
//! ```
//!
//! A call is `ENTER DATA* (DATA* EXIT | ABANDON)`; the stream may end after ENTER when the call
//! never returned. Everything else stands between calls, IDENTITY excepted, which belongs to the
//! open call. Numbers are little-endian.

/// Bytes that every record starts with.
pub const HEADER_BYTES: usize = 8;

/// What a record says. The values are the wire encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A call begins. a: [`enter_flag`] bits; b: number; c: count of arguments.
    /// Body: tsc, site, arguments.
    Enter = 1,
    /// Memory behind an argument. a: argument; b: index of the element; c: part | flags << 8.
    /// Body: true length, stored length, the hash if flagged, stored bytes padded to 8.
    Data = 2,
    /// The call has returned. Body: tsc, result.
    Exit = 3,
    /// The open call was not made after all; a handler ran first. No body.
    Abandon = 4,
    /// A thread begins. a: [`StartHow`]. Body: [`START_WORDS`] words, see [`Start`].
    Start = 5,
    /// The thread runs a new program. c: tid. Body: tsc.
    Image = 6,
    /// A handler is entered. a: signal. Body: tsc, handler, and the first 48 bytes of siginfo.
    Signal = 7,
    /// The thread ends. Body: tsc, calls entered and not abandoned.
    End = 8,
    /// The file behind the open call's path or result, as it was. a: argument or [`RESULT`].
    /// Body: [`IDENTITY_WORDS`] words, see [`Identity`].
    Identity = 9,
    /// The thread waited for room in its ring. Body: tsc, nanoseconds.
    Stall = 10,
    /// Something could not be recorded. a: [`GapWhy`]. Body: tsc, detail.
    Gap = 11,
}

impl RecordKind {
    /// The kind with this encoding.
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
            _ => return None,
        })
    }
}

/// Added to the numbers of calls by `int 0x80`, which have a table of their own.
pub const OLD_NUMBERS: u16 = 0x8000;

/// In IDENTITY: the file is the one behind the descriptor that the call returned.
pub const RESULT: u8 = 0xff;

/// In DATA: the argument number of what belongs to an image rather than to a call.
pub const IMAGE_ARG: u8 = 0xfe;

/// Flags of ENTER.
pub mod enter_flag {
    /// The call came through SIGSYS, not through a patched site.
    pub const SLOW: u8 = 1;
    /// No variant of the row fits: what the argument points to was not captured.
    pub const UNKNOWN_VARIANT: u8 = 2;
    /// The call never returns when it succeeds: no EXIT is to be expected.
    pub const NO_RETURN: u8 = 4;
}

/// Flags of DATA, in the second byte of `c`.
pub mod data_flag {
    /// Read after the call (else before it).
    pub const OUT: u8 = 1;
    /// Fewer bytes are stored than the buffer had.
    pub const CUT: u8 = 2;
    /// The memory could not be read.
    pub const FAULT: u8 = 4;
    /// A 16-byte XXH3-128 hash of the whole buffer stands before the stored bytes.
    pub const HASH: u8 = 8;
}

/// Parts of a DATA record: what of the argument this is.
pub mod part {
    /// The memory itself; for a vector, the array of `struct iovec`; for a message, the msghdr.
    pub const WHOLE: u8 = 0;
    /// The bytes that a vector's buffers hold, one after the other.
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
    /// What was in the file behind a path before the call: one window of it, by index. With
    /// FAULT, what could not be read from there on.
    pub const SNAPSHOT: u8 = 8;
    /// Of an imported call: what its own format told that nothing else here does. No memory of the
    /// program.
    pub const ORIGIN: u8 = 9;
}

/// Bytes of a file in one DATA record of part SNAPSHOT.
pub const SNAPSHOT_WINDOW_BYTES: u64 = 1 << 20;
/// Bytes stored of one file.
pub const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

/// How a thread came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StartHow {
    /// The program that was launched.
    Launch = 1,
    /// A new process with memory of its own.
    Fork = 2,
    /// A new process that shares its parent's memory (vfork, posix_spawn).
    Vfork = 3,
    /// A thread of the same process.
    Thread = 4,
}

impl StartHow {
    /// The value with this encoding.
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

/// Why something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GapWhy {
    /// The recorder was killed or gave up.
    RecorderLost = 1,
    /// The program started one that cannot be followed (setuid, 32-bit, traced by another).
    NotFollowed = 2,
    /// The size limit of the recording was reached.
    SizeLimit = 3,
    /// The time limit of the recording was reached.
    TimeLimit = 4,
    /// The trace could not be written.
    WriteFailed = 5,
    /// PROGRAM had ended and `--until-exit` was given.
    UntilExit = 6,
    /// More threads at once than there are ring slots.
    TooManyThreads = 7,
    // 8 was never written.
    /// The trace was cut out of another one.
    Cut = 9,
    /// The trace was made from a file of another tool.
    Imported = 10,
    /// The trace was repaired: what was damaged or cut off is not in it.
    Repaired = 11,
    /// The recorder was told to end while there was something to record.
    Interrupted = 12,
    /// A thread was traced by another program of the recording.
    Traced = 13,
    /// A program came to code that sets `%gs`, which is ours.
    OwnGs = 14,
}

/// What a gap of the kind `OwnGs` has beside its kind.
pub mod own_gs {
    /// The process is left alone from here on.
    pub const LEFT_ALONE: u16 = 0;
    /// It could not be, and goes on with ours.
    pub const GOES_ON: u16 = 1;
}

/// What comes with a gap of the kind `NotFollowed` that an agent tells: one of these reasons, or the
/// error of a try to attach.
pub mod unfollowed {
    /// The program's seccomp filter forbids what recording needs.
    pub const FILTER: u64 = 0x1_0001;
    /// The program gains rights when it starts.
    pub const GAINS_RIGHTS: u64 = 0x1_0002;
    /// The program's memory may not be made executable.
    pub const NO_CODE: u64 = 0x1_0003;
    /// Nothing was started: a process has shared its memory with one that became another user.
    pub const SHARED_MEMORY: u64 = 0x1_0004;
}

impl GapWhy {
    /// Whether it tells how a trace was made out of something else, and nothing went wrong.
    pub const fn is_on_purpose(self) -> bool {
        matches!(self, GapWhy::Cut | GapWhy::Imported | GapWhy::Repaired)
    }

    /// The reason with this encoding.
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
            _ => return None,
        })
    }
}

/// Words in the body of START.
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
    /// Number of the thread that made it.
    pub parent: u32,
    /// Process id, in the process's own pid namespace.
    pub pid: u32,
    /// Thread id, in the process's own pid namespace.
    pub tid: u32,
}

impl Start {
    /// As body words.
    pub const fn to_words(self) -> [u64; START_WORDS] {
        [
            self.tsc,
            self.thread as u64 | (self.process as u64) << 32,
            self.parent as u64 | (self.pid as u64) << 32,
            self.tid as u64,
        ]
    }

    /// From body words.
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

/// Words in the body of IDENTITY.
pub const IDENTITY_WORDS: usize = 7;

/// The body of IDENTITY: what a file was at its first use.
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
    /// As body words.
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

    /// From body words.
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

/// Bytes of siginfo that SIGNAL carries: all the fields that any signal uses.
pub const SIGINFO_BYTES: usize = 48;

/// Words in the body of SIGNAL.
pub const SIGNAL_WORDS: usize = 2 + SIGINFO_BYTES / 8;

/// The first word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the record says, as encoded; it may be unknown to the reader.
    pub kind: u8,
    /// Depends on the kind.
    pub a: u8,
    /// Depends on the kind.
    pub b: u16,
    /// Depends on the kind.
    pub c: u32,
}

impl Header {
    /// A header of a known kind.
    pub const fn new(kind: RecordKind, a: u8, b: u16, c: u32) -> Header {
        Header { kind: kind as u8, a, b, c }
    }

    /// As one word.
    pub const fn to_word(self) -> u64 {
        self.kind as u64 | (self.a as u64) << 8 | (self.b as u64) << 16 | (self.c as u64) << 32
    }

    /// From one word.
    pub const fn from_word(word: u64) -> Header {
        Header {
            kind: word as u8,
            a: (word >> 8) as u8,
            b: (word >> 16) as u16,
            c: (word >> 32) as u32,
        }
    }

    /// Words of the fixed body that follows, or `None` for a header that no agent writes.
    /// The stored bytes (and hash) of DATA come after its fixed body.
    pub const fn body_words(self) -> Option<usize> {
        Some(match RecordKind::from_wire(self.kind) {
            Some(RecordKind::Enter) if self.c <= 6 => 2 + self.c as usize,
            Some(RecordKind::Data | RecordKind::Exit | RecordKind::End) => 2,
            Some(RecordKind::Stall | RecordKind::Gap) => 2,
            Some(RecordKind::Abandon) => 0,
            Some(RecordKind::Start) => START_WORDS,
            Some(RecordKind::Image) => 1,
            Some(RecordKind::Signal) => SIGNAL_WORDS,
            Some(RecordKind::Identity) => IDENTITY_WORDS,
            _ => return None,
        })
    }
}

/// Bytes that `stored` bytes of DATA occupy in the stream, the hash included.
pub const fn data_bytes(flags: u8, stored: u64) -> u64 {
    let hash = if flags & data_flag::HASH != 0 { 16 } else { 0 };
    hash + ((stored + 7) & !7)
}
