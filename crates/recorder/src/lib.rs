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
//! One thread reads all rings in rounds and trusts nothing in them. It reads one after the other,
//! or, if rules by path decide what is kept, all together in the order of time.

mod ahead;
mod changes;
mod choice;
mod copies;
mod drain;
mod elsewhere;
pub mod host;
mod ingest;
mod kernel;
mod machine;
mod mailbox;
mod manifest;
mod mapped;
mod numbers;
mod options;
mod output;
mod pace;
mod policy;
mod processes;
mod rights;
mod sink;
mod slots;
mod stacks;
pub mod state;
mod stored;
mod summary;
mod tids;
mod watch;
mod watched;

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use kin::Kin;
use ring::{Arena, Mappings};
use syscalls::record::GapWhy;
use trace::event::{Event, EventKind, Preamble};
use trace::{WriteError, Writer};

pub use crate::ahead::Ahead;
use crate::changes::Changes;
pub use crate::choice::Choice;
use crate::drain::{Drain, Frame};
pub use crate::elsewhere::Elsewhere;
use crate::host::TscClock;
pub use crate::kernel::{Condition, KernelEvents, Whose};
pub use crate::machine::record_machine;
use crate::mailbox::{Mailbox, Message};
use crate::mapped::Terms;
pub use crate::mapped::{Asked, Every, Who, Wish};
pub use crate::options::Options;
use crate::output::Output;
use crate::policy::Policy;
pub use crate::policy::{DataRule, DataRules};
use crate::processes::Processes;
pub use crate::sink::Sink;
pub use crate::stacks::{CALLERS_MAX, Caller, Kept, StackOptions, callers_of};
use crate::stacks::{Seen, Stacks};
pub use crate::summary::Summary;
use crate::watch::Watch;
use crate::watched::Watched;
pub use kin::start_thread;

/// How long to wait for the draining thread's answer about a living process: it may be blocked by a
/// reader of the trace, and that may be why the recording is to end.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// The same for a process that is gone: on a busy machine its records may not be read yet.
const ANSWER_WAIT_FOR_GONE: Duration = Duration::from_secs(2);

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The trace could not be started.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A thread or a descriptor could not be created.
    #[error("the recorder could not be started: {0}")]
    Start(#[from] io::Error),
    /// A bug in the recorder.
    #[error("the recorder failed unexpectedly; the trace ends with the last block written")]
    Failed,
}

/// A running recording.
pub struct Recorder {
    handle: Handle,
    thread: JoinHandle<Summary>,
}

impl Recorder {
    /// Starts draining an arena into a new trace. `kin` knows which processes are ours.
    pub fn start(
        arena: Arena,
        kin: Kin,
        sink: Sink,
        preamble: &Preamble,
        options: Options,
    ) -> Result<Recorder, RecordError> {
        let mailbox = Arc::new(Mailbox::new(arena));
        let mapped = match options.mappings {
            Mappings::Unwatched => None,
            mappings => {
                let (rules, every) = (options.data.clone(), options.mappings_every);
                let (data_max, reads) = (options.data_max, mappings == Mappings::All);
                let (data_max, spare) = (data_max.unwrap_or(u64::MAX), mailbox.spare());
                let by_faults = options.mappings_by_faults;
                let terms = Terms { rules, data_max, every, reads, by_faults, spare };
                Some(mapped::start(Arc::clone(&mailbox), terms)?)
            }
        };
        let handle = Handle { mailbox: Arc::clone(&mailbox), mapped };
        let own = sink.inode();
        let (sink, space) = sink.open()?;
        let clock = TscClock::start(preamble.tsc_hz);
        // It has threads of its own.
        let writer = kin::without_signals(|| Writer::new(sink, preamble, options.writer))?;
        let epoch = (preamble.epoch_ns, preamble.epoch_tsc);
        let processes = Processes::new(Watch::start(Arc::clone(&mailbox))?, clock, kin);
        let drain = move || {
            let mut out = Output::new(writer, space, options.size_max);
            let wants_all = options.choice.is_all();
            if !(options.data.rules.is_empty() && wants_all) {
                let wanted = (!wants_all).then(|| options.choice.clone().conditions());
                let policy = Policy::new(options.data.clone(), wanted, Arc::clone(&mailbox));
                out.policy = Some(Box::new(policy));
            }
            out.stacks = options
                .stacks
                .as_ref()
                .map(|options| Box::new(Stacks::new(options, Arc::clone(&mailbox))));
            out.changes = Some(Box::new(Changes::new()));
            if options.mappings == Mappings::All {
                out.tids = Some(Box::default());
            }
            let frame = Frame { options, own, epoch };
            Drain::new(arena, mailbox, out, processes, clock, frame).run()
        };
        let thread = kin::start_thread("drain", drain)?;
        Ok(Recorder { handle, thread })
    }

    /// Returns a handle for other threads to notify the recorder.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether the recording has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the last recorded process has ended, or recording was stopped.
    pub fn join(self) -> Result<Summary, RecordError> {
        self.thread.join().map_err(|_| RecordError::Failed)
    }
}

/// Notifies a recorder of what it cannot see in the rings.
#[derive(Clone)]
pub struct Handle {
    mailbox: Arc<Mailbox>,
    /// Asks the thread that watches mapped files.
    mapped: Option<Sender<Asked>>,
}

impl Handle {
    /// Adds an event to the recorder's own stream.
    pub fn event(&self, event: Event) {
        self.mailbox.leave(Message::Event(event));
    }

    /// An empty buffer for bytes of an event, which may have memory already.
    pub fn buffer(&self) -> Vec<u8> {
        self.mailbox.spare().take()
    }

    /// Adds an event with bytes, which its part `buffers` then names. Waits while there is too
    /// much to be written.
    pub fn event_with_bytes(&self, event: Event, bytes: Vec<u8>) {
        self.mailbox.leave_with_bytes(event, bytes);
    }

    /// Adds an event to the recorder's own stream, with the current time.
    pub fn tell(&self, kind: EventKind) {
        self.mailbox.tell(kind);
    }

    /// Reports a process. Watching it from now on makes sure that its death is noticed. `pid` is
    /// its id in our namespace.
    pub fn process_seen(&self, process: u32, pid: u32) {
        if !self.mailbox.is_known(process) {
            self.mailbox.leave(Message::Seen(Watched::open(process, pid)));
        }
    }

    /// Reports what a process has mapped that begins a program, and is stopped: where callers are
    /// wanted.
    pub fn maps(&self, process: u32, pid: u32) {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let directory = directory.into_os_string().into_vec();
        self.mailbox.maps.leave(process, Seen { pid, maps, directory });
    }

    /// Reports that the agent was placed into the process's new image: an IMAGE record will follow.
    pub fn placed(&self, process: u32) {
        self.mailbox.leave(Message::Placed { process, tsc: host::tsc() });
    }

    /// Records that a process runs a program unrecorded, and why.
    pub fn not_followed(&self, process: u32, pid: u32, text: String) {
        self.tell(EventKind::Gap { why: GapWhy::NotFollowed, detail: pid.into(), text });
        self.mailbox.leave(Message::Unrecorded(process));
    }

    /// Moves a thread to another slot: it is stopped, used slot `from`, and continues in slot `to`,
    /// which is in `arena`, shared by the programs of `user`. Slots are counted across arenas, each
    /// having [`ring::SLOTS`]. The receiver gets a message once the move is done.
    pub fn moved(&self, from: usize, to: usize, arena: Arena, user: u32) -> Receiver<()> {
        let (done, noted) = std::sync::mpsc::channel();
        self.mailbox.send(Message::Moved { from, to, arena, user, done });
        noted
    }

    /// Returns whether a process with this id in our namespace is or was recorded, if the draining
    /// thread answers in time. `is_gone`: there is no such process any more; then the word of agents
    /// counts, as nobody else knows.
    pub fn is_recorded(&self, pid: u32, is_gone: bool) -> bool {
        let (answer, answered) = std::sync::mpsc::channel();
        self.mailbox.send(Message::IsRecorded { pid, is_gone, answer });
        let wait = if is_gone { ANSWER_WAIT_FOR_GONE } else { ANSWER_WAIT };
        answered.recv_timeout(wait).unwrap_or(false)
    }

    /// Passes on what a thread asks about memory in which files are mapped.
    pub fn mapped(&self, asked: Asked) {
        match &self.mapped {
            Some(mapped) => {
                // If the thread is gone, the request is dropped, and so refused.
                let _ = mapped.send(asked);
            }
            None => (asked.answer)(ring::answer::REFUSED),
        }
    }

    /// Reports a process about which events of the kernel are kept.
    pub fn follow(&self, pid: u32) {
        self.mailbox.leave(Message::Follow { pid, tsc: host::tsc() });
    }

    /// Stops recording; the program continues.
    pub fn stop(&self, why: GapWhy, text: String) {
        self.mailbox.send(Message::Stop(why, text));
    }

    /// Reports the launched program's end and its wait status.
    pub fn program_ended(&self, pid: u32, status: i32) {
        self.mailbox.send(Message::ProgramEnded { pid, status });
    }
}

/// Returns an arena in private memory that is never unmapped.
#[cfg(test)]
fn test_arena(pool_chunks: usize) -> Arena {
    use std::sync::atomic::Ordering;

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new anonymous mapping at an address that the kernel chooses overwrites nothing.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), ring::arena_bytes(pool_chunks), protection, flags)
    };
    // SAFETY: the mapping is zeroed, long enough, and never unmapped.
    let arena = unsafe { Arena::at(base.expect("memory for an arena").cast(), pool_chunks) };
    arena.control().pool_chunks.store(pool_chunks as u32, Ordering::Relaxed);
    arena
}
