//! What a trace says: the events that writers take and readers give, whatever the bytes on disk.
//!
//! Every event belongs to the stream of one thread. Streams are in order; between threads the time
//! stamps tell. Thread [`RECORDER`] is the recorder itself.

pub use events::record::{GapWhy, Identity, StartHow};

/// The stream of what the recorder itself has to say. The program's threads count from 1.
pub const RECORDER: u32 = 0;

/// Number of a distinct buffer in a trace, in the order in which they were first seen, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlobId(pub u64);

/// Most bytes of one blob; longer buffers are several.
pub const BLOB_BYTES_MAX: usize = 64 << 10;

/// Buffers up to this length stand in the event itself.
pub const INLINE_BYTES_MAX: usize = 64;

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The thread's number in this trace.
    pub thread: u32,
    /// When it began, in ticks of the time stamp counter.
    pub tsc: u64,
    /// What it was.
    pub kind: EventKind,
}

impl Default for Event {
    /// One that says nothing: room for another.
    fn default() -> Event {
        Event { thread: RECORDER, tsc: 0, kind: EventKind::Stall { ns: 0 } }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum EventKind {
    /// A system call.
    Call(Call),
    /// A handler was entered.
    Signal {
        /// Its number.
        signal: u8,
        /// The handler's address.
        handler: u64,
        /// The first bytes of siginfo.
        info: [u8; events::record::SIGINFO_BYTES],
    },
    /// The thread began.
    Start {
        /// How it came to be.
        how: StartHow,
        /// Its process's number in this trace.
        process: u32,
        /// The thread that made it.
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
        /// argv, envp and auxv: `arg` is `IMAGE_ARG`, `part` tells which.
        data: Vec<Data>,
    },
    /// The thread ended.
    End {
        /// Calls that the agent counted, those abandoned left out.
        calls: u64,
    },
    /// The thread waited for room in its ring.
    Stall {
        /// For how long.
        ns: u64,
    },
    /// Something is missing from here on.
    Gap {
        /// Why.
        why: GapWhy,
        /// Depends on the reason: an errno, a process id ...
        detail: u64,
        /// For people; may be empty.
        text: String,
    },
    /// By the recorder: what a process was when its program began.
    State(Box<ProcessState>),
    /// By the recorder: a process ended.
    Exit {
        /// Its number in this trace.
        process: u32,
        /// Its wait status, where it could be learnt.
        status: Option<i32>,
    },
}

/// A system call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Call {
    /// x86_64 number.
    pub nr: u16,
    /// `events::record::enter_flag` bits.
    pub flags: u8,
    /// Address of the `syscall` instruction.
    pub site: u64,
    /// Arguments that the call takes.
    pub nargs: u8,
    /// Their values; those beyond `nargs` are 0.
    pub args: [u64; 6],
    /// How it ended.
    pub outcome: Outcome,
    /// Memory behind the arguments.
    pub data: Vec<Data>,
    /// Files at their first use: argument (or `events::record::RESULT`) and what was there.
    pub identities: Vec<(u8, Identity)>,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It returned.
    Returned {
        /// When.
        exit_tsc: u64,
        /// The value in the result register: -4095 ..= -1 is an error.
        ret: i64,
    },
    /// It had not returned when its thread or the recording ended.
    #[default]
    Unfinished,
}

/// Memory behind an argument.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Data {
    /// The argument's number.
    pub arg: u8,
    /// `events::record::part`: what of the argument this is.
    pub part: u8,
    /// Of which element of an array.
    pub index: u16,
    /// `events::record::data_flag` bits.
    pub flags: u8,
    /// Length of the buffer in the program.
    pub true_len: u64,
    /// Hash of the whole buffer (XXH3-128), when `data_flag::HASH` is set.
    pub hash: Option<u128>,
    /// The bytes that are stored.
    pub content: Content,
}

/// Where stored bytes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Here.
    Inline(Vec<u8>),
    /// In blobs, one after the other.
    Blobs {
        /// Bytes in all.
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
    /// Bytes stored.
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

/// What a process was when its program began, as /proc tells.
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
    /// Signals blocked, ignored, and pending for the process, as masks.
    pub sig_blocked: u64,
    /// See `sig_blocked`.
    pub sig_ignored: u64,
    /// Resource limits, soft and hard, by number.
    pub limits: Vec<(u64, u64)>,
    /// Open descriptors.
    pub fds: Vec<OpenFd>,
    /// Open descriptors that found no room in the event.
    pub fds_left_out: u64,
}

impl ProcessState {
    /// A copy that has none of the open descriptors.
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
    /// What /proc/PID/fd says that it refers to.
    pub target: Vec<u8>,
    /// Its offset.
    pub offset: u64,
    /// Its flags, as open has them, O_CLOEXEC included.
    pub flags: u32,
}

/// The head of a trace: where, when and how it was made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Preamble {
    /// The command line.
    pub command: Vec<Vec<u8>>,
    /// Version of reenact that recorded.
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
    /// st_dev of the trace file itself; 0 when it is no file.
    pub trace_dev: u64,
    /// Wall clock at `epoch_tsc`, nanoseconds since 1970.
    pub epoch_ns: u64,
    /// Time stamp counter at the start; event times count from here.
    pub epoch_tsc: u64,
    /// Ticks of the time stamp counter per second, as first estimated.
    pub tsc_hz: u64,
    /// Options of the recording, for people.
    pub options: String,
}

/// What the recorder counted, written at the end. Nothing in here is derived from the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Calls that agents counted, summed over the threads.
    pub calls_made: u64,
    /// Calls that the recorder read from rings.
    pub calls_read: u64,
    /// Calls that the writer was given.
    pub calls_written: u64,
    /// Of those, through SIGSYS.
    pub slow_path_calls: u64,
    /// Bytes that agents published, and that the recorder read.
    pub ring_bytes_published: u64,
    /// See `ring_bytes_published`.
    pub ring_bytes_read: u64,
    /// Bytes in buffers, as the program had them.
    pub data_bytes: u64,
    /// Bytes of distinct buffers stored, before compression.
    pub stored_bytes: u64,
    /// Threads and processes.
    pub threads: u32,
    /// See `threads`.
    pub processes: u32,
    /// Gap records.
    pub gaps: u64,
    /// Time that threads waited for room.
    pub stall_ns: u64,
    /// Ticks per second, measured over the whole recording.
    pub tsc_hz: u64,
    /// Time stamp at the end.
    pub end_tsc: u64,
}
