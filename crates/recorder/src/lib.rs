//! Drains the rings of all traced threads into a trace, and follows the life of their processes.
//!
//! ```text
//! rings ──> slots ──> ingest ──> output ──> trace::Writer ──> sink
//!             ^         |          ^
//!   watch ──> processes policy     |
//!   (deaths)            (by path)  |
//!   Handle ──────> mailbox ──> drain (the thread that does all of this)
//! ```
//!
//! One thread reads all rings in rounds. It trusts nothing that it finds in them. Rings are read
//! one after the other; only where paths decide what is kept, all together in the order of time.

mod ahead;
mod changes;
mod copies;
mod drain;
pub mod host;
mod ingest;
mod mailbox;
mod manifest;
mod numbers;
mod output;
mod pace;
mod policy;
mod processes;
mod rights;
mod sink;
mod slots;
pub mod state;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use events::record::GapWhy;
use kin::Kin;
use model::unseen::NotSeen;
use ring::Arena;
use trace::event::{Event, EventKind, Preamble};
use trace::{WriteError, Writer, WriterOptions};

pub use crate::ahead::Ahead;
use crate::changes::Changes;
use crate::drain::{Drain, Frame};
use crate::host::TscClock;
use crate::mailbox::{Mailbox, Message};
use crate::output::Output;
use crate::policy::Policy;
pub use crate::policy::{DataRule, DataRules};
use crate::processes::Processes;
pub use crate::sink::Sink;
use crate::watch::{Watch, Watched};
pub use kin::start_thread;

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How the trace is written.
    pub writer: WriterOptions,
    /// Recording stops before the trace is longer than this.
    pub size_max: Option<u64>,
    /// Recording stops after this time.
    pub duration: Option<Duration>,
    /// Recording stops when the launched program has ended, whoever else is left.
    pub until_exit: bool,
    /// What is kept of the contents of which files. Agents must be told to deliver
    /// [`DataRules::most`].
    pub data: DataRules,
    /// Whether the trace ends with a manifest of the paths that the program changed.
    pub manifest: bool,
    /// The length at which buffers are cut, as agents are told.
    pub data_max: Option<u64>,
}

/// What a recording came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Calls in the trace.
    pub calls: u64,
    /// Threads that were recorded.
    pub threads: u32,
    /// Processes that were recorded.
    pub processes: u32,
    /// Bytes in buffers, as the program had them.
    pub data_bytes: u64,
    /// Bytes of the trace.
    pub trace_bytes: u64,
    /// Bytes of distinct buffers stored, before compression.
    pub stored_bytes: u64,
    /// Calls that were made while recording and are not in the trace.
    pub lost: u64,
    /// Time that threads waited for room in their rings.
    pub stall_ns: u64,
    /// Calls that came through SIGSYS.
    pub slow_path_calls: u64,
    /// Calls that were read after the trace had taken its last.
    pub discarded: u64,
    /// Gaps in the trace.
    pub gaps: u64,
    /// Why the first of them is there, and what it says.
    pub first_gap: Option<(GapWhy, String)>,
    /// Files that were changed and could not be stored whole before, where that was asked for.
    pub files_not_whole: u64,
    /// What the trace does not hold though it has every call, without names.
    pub not_seen: NotSeen,
    /// Why the recording stopped before the program's end.
    pub stopped: Option<(GapWhy, String)>,
    /// The trace could not be brought to its end: readers will find it cut off there.
    pub unfinished: Option<String>,
}

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The trace could not be begun.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The system gave us no thread, or no descriptor.
    #[error("the recorder could not be started: {0}")]
    Start(#[from] io::Error),
    /// A defect in the recorder.
    #[error("the recorder failed unexpectedly; the trace ends with the last block written")]
    Failed,
}

/// A recording that is under way.
pub struct Recorder {
    handle: Handle,
    thread: JoinHandle<Summary>,
}

impl Recorder {
    /// Begins to drain an arena into a new trace. `kin` knows which processes are ours.
    pub fn start(
        arena: Arena,
        kin: Kin,
        sink: Sink,
        preamble: &Preamble,
        options: Options,
    ) -> Result<Recorder, RecordError> {
        let mailbox = Arc::new(Mailbox::new(arena));
        let handle = Handle { mailbox: Arc::clone(&mailbox) };
        let own = sink.inode();
        let (sink, space) = sink.open()?;
        let clock = TscClock::start(preamble.tsc_hz);
        let writer = Writer::new(sink, preamble, options.writer)?;
        let epoch = (preamble.epoch_ns, preamble.epoch_tsc);
        let processes = Processes::new(Watch::start(Arc::clone(&mailbox))?, clock, kin);
        let drain = move || {
            let mut out = Output::new(writer, space, options.size_max);
            if !options.data.rules.is_empty() {
                let policy = Policy::new(options.data.clone(), Arc::clone(&mailbox));
                out.policy = Some(Box::new(policy));
            }
            out.changes = Some(Box::new(Changes::new()));
            let frame = Frame { options, own, epoch };
            Drain::new(arena, mailbox, out, processes, clock, frame).run()
        };
        let thread = kin::start_thread("drain", drain)?;
        Ok(Recorder { handle, thread })
    }

    /// What other threads use to tell the recorder something.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether the recording has come to its end.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the last recorded process has ended, or recording was stopped.
    pub fn join(self) -> Result<Summary, RecordError> {
        self.thread.join().map_err(|_| RecordError::Failed)
    }
}

/// Tells a recorder what it cannot see in the rings.
#[derive(Clone)]
pub struct Handle {
    mailbox: Arc<Mailbox>,
}

impl Handle {
    /// Adds an event of the recorder's own stream.
    pub fn event(&self, event: Event) {
        self.mailbox.leave(Message::Event(event));
    }

    /// Adds what happens now to the recorder's own stream.
    pub fn tell(&self, kind: EventKind) {
        self.mailbox.tell(kind);
    }

    /// A process exists: watching it from now on makes sure that its end is learnt. `pid` is its
    /// id in our namespace.
    pub fn process_seen(&self, process: u32, pid: u32) {
        if !self.mailbox.is_known(process) {
            self.mailbox.leave(Message::Seen(Watched::open(process, pid)));
        }
    }

    /// The agent was placed into the image that a process now executes: it will say so itself.
    pub fn placed(&self, process: u32) {
        self.mailbox.leave(Message::Placed { process, tsc: host::tsc() });
    }

    /// A process runs a program unrecorded, for this reason.
    pub fn not_followed(&self, process: u32, pid: u32, text: String) {
        self.tell(EventKind::Gap { why: GapWhy::NotFollowed, detail: pid.into(), text });
        self.mailbox.leave(Message::Unrecorded(process));
    }

    /// The thread that used slot `from`, and has stopped, goes on in slot `to`, which is in this
    /// arena, which a user's programs have: each has [`ring::SLOTS`] slots, counted on from those of
    /// the arenas before it. True once that is noted.
    pub fn moved(&self, from: usize, to: usize, arena: Arena, user: u32) -> Receiver<()> {
        let (done, noted) = std::sync::mpsc::channel();
        self.mailbox.send(Message::Moved { from, to, arena, user, done });
        noted
    }

    /// Whether a process that had this id in our namespace is recorded, or was. Who is asked has
    /// other things to do, so there is not always an answer within this time.
    pub fn is_recorded(&self, pid: u32, wait: Duration) -> bool {
        let (answer, answered) = std::sync::mpsc::channel();
        self.mailbox.send(Message::IsRecorded { pid, answer });
        answered.recv_timeout(wait).unwrap_or(false)
    }

    /// Stops recording; the program goes on.
    pub fn stop(&self, why: GapWhy, text: String) {
        self.mailbox.send(Message::Stop(why, text));
    }

    /// The launched program has ended, with this wait status.
    pub fn program_ended(&self, pid: u32, status: i32) {
        self.mailbox.send(Message::ProgramEnded { pid, status });
    }
}

/// An arena in private memory that is never given back.
#[cfg(test)]
fn test_arena(pool_chunks: usize) -> Arena {
    use std::sync::atomic::Ordering;

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping; nothing is overwritten.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), ring::arena_bytes(pool_chunks), protection, flags)
    };
    // SAFETY: the mapping is zeroed, long enough, and stays.
    let arena = unsafe { Arena::at(base.expect("memory for an arena").cast(), pool_chunks) };
    arena.control().pool_chunks.store(pool_chunks as u32, Ordering::Relaxed);
    arena
}
