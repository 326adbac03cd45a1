//! The events that writers take and readers return, independent of the bytes on disk.
//!
//! Every event belongs to the stream of one thread. Streams are ordered; between threads the time
//! stamps decide. Thread [`RECORDER`] is the recorder itself.

pub use crate::blob_id::BlobId;
use syscalls::abi::errno;
pub use syscalls::record::{GapWhy, Identity, StartHow};

use crate::event_table::EventRow;
use crate::format::event_number;
pub use crate::kernel::{KernelEvent, KernelLayout};
use crate::parts::Part;

/// Stream of the recorder's own events. The program's threads count from 1.
pub const RECORDER: u32 = 0;

/// Set in the number of a stream that is not of a thread, but of a CPU, whose number is the rest.
pub const CPU_STREAM: u32 = 1 << 31;

/// Bits of a number of a stream that is one more of the recorder's own: its events are found late, and
/// are in order among themselves. Readers have them as events of [`RECORDER`].
pub const RECORDER_STREAM: u32 = 0b11 << 30;

/// Maximum length of a blob; longer buffers take several.
pub const BLOB_BYTES_MAX: usize = 64 << 10;

/// Buffers up to this length are stored in the event itself.
pub const INLINE_BYTES_MAX: usize = 64;

/// An event of a thread or of the recorder.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The thread's number in this trace.
    pub thread: u32,
    /// When it began, in ticks of the time stamp counter.
    pub tsc: u64,
    /// Kind and details.
    pub kind: EventKind,
    /// What few events have beside the fields of their kind.
    pub extras: Option<Box<Extras>>,
}

impl Event {
    /// An event with nothing but what its kind says.
    pub fn new(thread: u32, tsc: u64, kind: EventKind) -> Event {
        Event { thread, tsc, kind, extras: None }
    }

    /// The CPU whose stream it is in, if that is not the stream of a thread.
    pub fn cpu(&self) -> Option<u32> {
        (self.thread & CPU_STREAM != 0).then_some(self.thread & !CPU_STREAM)
    }

    /// Its optional parts.
    pub fn parts(&self) -> &[Part] {
        self.extras.as_ref().map_or(&[], |extras| &extras.parts)
    }
}

impl Default for Event {
    /// A meaningless event, to be overwritten.
    fn default() -> Event {
        Event::new(RECORDER, 0, EventKind::default())
    }
}

impl Default for EventKind {
    /// A meaningless kind, to be overwritten.
    fn default() -> EventKind {
        EventKind::Stall { ns: 0 }
    }
}

/// What few events have beside the fields of their kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// Optional parts, also those that this version does not know.
    pub parts: Vec<Part>,
    /// Fields that a later version has added at the end of its kind, as bytes.
    pub later_fields: Vec<u8>,
}

/// Kind of an event, with its details.
#[derive(Clone, PartialEq, Debug)]
pub enum EventKind {
    /// A system call.
    Call(Call),
    /// A signal handler was entered.
    Signal {
        /// The signal number.
        signal: u8,
        /// The handler's address.
        handler: u64,
        /// The first bytes of siginfo.
        info: [u8; syscalls::record::SIGINFO_BYTES],
    },
    /// The thread started.
    Start {
        /// How it was created.
        how: StartHow,
        /// Its process's number in this trace.
        process: u32,
        /// The thread that created it.
        parent: u32,
        /// Process id as the process sees it.
        pid: u32,
        /// Thread id as the process sees it.
        tid: u32,
    },
    /// The thread began a new program; it is now its process's only thread.
    Image {
        /// Thread id from now on.
        tid: u32,
        /// argv, envp and auxv: `arg` is `IMAGE_ARG`, `part` selects one of them.
        data: Vec<Data>,
    },
    /// The thread ended.
    End {
        /// Number of calls that the agent counted, without those abandoned.
        calls: u64,
    },
    /// The thread waited for room in its ring.
    Stall {
        /// Duration in nanoseconds.
        ns: u64,
    },
    /// Data is missing from here on.
    Gap {
        /// The reason.
        why: GapWhy,
        /// Depends on the reason: an errno, a process id ...
        detail: u64,
        /// Explanation for users; may be empty.
        text: String,
    },
    /// By the recorder: the state of a process when its program began.
    State(Box<ProcessState>),
    /// By the recorder: a process ended.
    Exit {
        /// Its number in this trace.
        process: u32,
        /// Its wait status, if known.
        status: Option<i32>,
    },
    /// An event of the kernel, in the stream of the CPU on which it happened.
    Kernel(KernelEvent),
    /// By the recorder: what is in events of the kernel that name it.
    KernelLayout(Box<KernelLayout>),
    /// An event of a kind that has nothing but its row.
    Other(OtherEvent),
    /// An event that this version does not know: by a later one.
    Unknown(UnknownEvent),
}

/// An event of a kind that has nothing but its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherEvent {
    /// The row of its kind.
    pub row: &'static EventRow,
    /// The values of the row's fields, in their order.
    pub values: Vec<FieldValue>,
}

/// An event that this version does not know. It is carried along unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownEvent {
    /// The number of its kind. The kind may be known, but not a code in it.
    pub number: u8,
    /// Its fields, as bytes.
    pub body: Vec<u8>,
}

impl UnknownEvent {
    /// Returns true if data is missing from here on, for a reason that this version does not know.
    pub fn is_gap(&self) -> bool {
        self.number == event_number::GAP
    }
}

/// A value of a kind that has nothing but its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldValue {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// A string of text.
    Text(String),
}

/// A system call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Call {
    /// x86_64 number.
    pub nr: u16,
    /// `syscalls::record::enter_flag` bits.
    pub flags: u8,
    /// Address of the `syscall` instruction.
    pub site: u64,
    /// Number of arguments.
    pub nargs: u8,
    /// Argument values; those beyond `nargs` are 0.
    pub args: [u64; 6],
    /// How it ended.
    pub outcome: Outcome,
    /// Memory behind the arguments.
    pub data: Vec<Data>,
    /// Files at their first use: argument (or `syscalls::record::RESULT`) and what was there.
    pub identities: Vec<(u8, Identity)>,
}

impl Call {
    /// Returns the result, if it returned.
    pub const fn ret(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Returned { ret, .. } => Some(ret),
            Outcome::Unfinished => None,
        }
    }

    /// Returns the result, if it succeeded.
    pub fn success(&self) -> Option<i64> {
        self.ret().filter(|ret| !errno::is_error(*ret))
    }

    /// Returns the number of its error, if it failed.
    pub fn error(&self) -> Option<i32> {
        self.ret().and_then(errno::of_result)
    }
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It returned.
    Returned {
        /// Time stamp of the return.
        exit_tsc: u64,
        /// Value of the result register; -4095 ..= -1 is an error.
        ret: i64,
    },
    /// It had not returned when its thread or the recording ended.
    #[default]
    Unfinished,
}

/// Memory behind an argument.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Data {
    /// Index of the argument.
    pub arg: u8,
    /// `syscalls::record::part`: which part of the argument this is.
    pub part: u8,
    /// Index of the array element that it belongs to.
    pub index: u16,
    /// `syscalls::record::data_flag` bits.
    pub flags: u8,
    /// Length of the buffer in the program.
    pub true_len: u64,
    /// Hash of the whole buffer (XXH3-128), when `data_flag::HASH` is set.
    pub hash: Option<u128>,
    /// The stored bytes.
    pub content: Content,
}

/// Stored bytes, or the blobs that hold them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// Blobs that hold the bytes, one after the other.
    Blobs {
        /// Total number of bytes.
        len: u64,
        /// The blobs.
        ids: Vec<BlobId>,
    },
}

impl Default for Content {
    fn default() -> Content {
        Content::Inline(Vec::new())
    }
}

impl Content {
    /// Number of stored bytes.
    pub fn len(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blobs { len, .. } => *len,
        }
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The state of a process when its program began, from /proc.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessState {
    /// The process's number in this trace.
    pub process: u32,
    /// Process id in the recorder's namespace.
    pub pid: u32,
    /// Parent process id in the recorder's namespace.
    pub ppid: u32,
    /// The executable's path.
    pub exe: Vec<u8>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Root directory.
    pub root: Vec<u8>,
    /// Real, effective, saved and file-system user id.
    pub uids: [u32; 4],
    /// Real, effective, saved and file-system group id.
    pub gids: [u32; 4],
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// File mode creation mask.
    pub umask: u32,
    /// Mask of blocked signals.
    pub sig_blocked: u64,
    /// Mask of ignored signals.
    pub sig_ignored: u64,
    /// Resource limits, soft and hard, by number.
    pub limits: Vec<(u64, u64)>,
    /// Open descriptors.
    pub fds: Vec<OpenFd>,
    /// Number of open descriptors for which the event had no room.
    pub fds_left_out: u64,
}

impl ProcessState {
    /// A copy without the open descriptors.
    pub fn without_fds(&self) -> ProcessState {
        ProcessState {
            process: self.process,
            pid: self.pid,
            ppid: self.ppid,
            exe: self.exe.clone(),
            cwd: self.cwd.clone(),
            root: self.root.clone(),
            uids: self.uids,
            gids: self.gids,
            groups: self.groups.clone(),
            umask: self.umask,
            sig_blocked: self.sig_blocked,
            sig_ignored: self.sig_ignored,
            limits: self.limits.clone(),
            fds: Vec::new(),
            fds_left_out: self.fds_left_out,
        }
    }
}

/// An open descriptor at the start of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenFd {
    /// Its number.
    pub fd: i32,
    /// Target of its link in /proc/PID/fd.
    pub target: Vec<u8>,
    /// Its offset.
    pub offset: u64,
    /// Flags as in open, including O_CLOEXEC.
    pub flags: u32,
}

/// The head of a trace: where, when and how it was recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Preamble {
    /// The command line.
    pub command: Vec<Vec<u8>>,
    /// Version of reenact that recorded it.
    pub recorder_version: String,
    /// Host name.
    pub host: String,
    /// Kernel release and version.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Page size.
    pub page_bytes: u32,
    /// Mounts, as lines of /proc/self/mountinfo.
    pub mounts: Vec<Vec<u8>>,
    /// st_dev of the trace file itself; 0 if it is no file.
    pub trace_dev: u64,
    /// Wall clock at `epoch_tsc`, nanoseconds since 1970.
    pub epoch_ns: u64,
    /// Time stamp counter at the start; event times count from here.
    pub epoch_tsc: u64,
    /// Ticks of the time stamp counter per second, as first estimated.
    pub tsc_hz: u64,
    /// Options of the recording, for users.
    pub options: String,
}

impl Preamble {
    /// Returns true if the recording was made with this option, which takes no value.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(' ').any(|word| word == option)
    }
}

/// The recorder's counts, written at the end. None of them is derived from the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Calls that agents counted, summed over the threads.
    pub calls_made: u64,
    /// Calls that the recorder read from rings.
    pub calls_read: u64,
    /// Calls handed to the writer.
    pub calls_written: u64,
    /// Those of them caught by SIGSYS.
    pub slow_path_calls: u64,
    /// Bytes that agents published.
    pub ring_bytes_published: u64,
    /// Bytes that the recorder read.
    pub ring_bytes_read: u64,
    /// Bytes in buffers, as the program had them.
    pub data_bytes: u64,
    /// Bytes of distinct buffers stored, before compression.
    pub stored_bytes: u64,
    /// Number of threads.
    pub threads: u32,
    /// Number of processes.
    pub processes: u32,
    /// Number of gaps.
    pub gaps: u64,
    /// Time that threads waited for room.
    pub stall_ns: u64,
    /// Ticks per second, measured over the whole recording.
    pub tsc_hz: u64,
    /// Time stamp at the end.
    pub end_tsc: u64,
}
