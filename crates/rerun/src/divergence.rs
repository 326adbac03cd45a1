//! The first call that differs from the recorded one.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Where a re-execution left the recording.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The number of the recorded call that it was to make, if there is one.
    pub seq: Option<u64>,
    /// Calls with lower numbers had been made.
    pub position: u64,
    /// The thread, by its number in the recording.
    pub thread: u32,
    /// What is different.
    pub reason: Reason,
    /// What was seen that may be why.
    pub evidence: Vec<String>,
    /// Where its thread stood, if it waited for an answer.
    pub stood: Option<Box<Stood>>,
}

impl Divergence {
    /// Likely causes, for users: those alone for which there is evidence.
    pub fn likely(&self) -> Option<String> {
        (!self.evidence.is_empty()).then(|| self.evidence.join("; "))
    }
}

/// Where a thread stood, and its stack.
#[derive(Clone, Debug)]
pub struct Stood {
    /// Its process.
    pub pid: i32,
    /// Its program.
    pub exe: PathBuf,
    /// Where it made its call.
    pub site: u64,
    /// Stack pointer.
    pub sp: u64,
    /// The register that may be a frame pointer.
    pub fp: u64,
    /// The stack, from its pointer on.
    pub stack: Vec<u8>,
    /// What /proc/PID/maps said.
    pub maps: Vec<u8>,
}

/// What is different.
#[derive(Clone, Debug)]
pub enum Reason {
    /// Another call.
    OtherCall {
        /// What was recorded.
        expected: String,
        /// What was made.
        found: String,
    },
    /// The same call with another argument.
    Argument {
        /// The call's name.
        name: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// What was recorded.
        expected: u64,
        /// What was passed.
        found: u64,
    },
    /// The same call with other bytes.
    Bytes {
        /// The call's name.
        name: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// Where the first difference is.
        at: usize,
        /// What was recorded from there on.
        expected: Vec<u8>,
        /// What was passed.
        found: Vec<u8>,
    },
    /// A call that is made again came out otherwise.
    Result {
        /// The call's name.
        name: &'static str,
        /// What was recorded.
        expected: i64,
        /// What came out.
        found: i64,
    },
    /// The program ended, or was ended, before its next call.
    Ended {
        /// What was recorded.
        expected: String,
    },
    /// The program died otherwise.
    OtherEnd {
        /// What was recorded.
        expected: String,
        /// What happened.
        found: String,
    },
    /// A call beyond the last one of its thread.
    Beyond {
        /// What was made.
        found: String,
    },
    /// A new image is not like the recorded one.
    Image(String),
    /// A new task appeared, or an image began, where none was recorded.
    Unexpected(&'static str),
    /// Memory of the program could not be read or written.
    Memory {
        /// What the kernel said.
        error: String,
        /// It was not allowed.
        is_forbidden: bool,
    },
    /// A peer of the program finds something else, or a real client does.
    Peer(String),
    /// The program does not reach its next call.
    Stuck {
        /// How long was waited, in seconds.
        seconds: u64,
        /// CPU time that its process had meanwhile, if that is known.
        had: Option<Duration>,
    },
}

/// Maximum number of bytes shown.
pub(crate) const SHOWN_MAX: usize = 32;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: &[u8]| render::escape::escaped(&bytes[..bytes.len().min(SHOWN_MAX)]);
        match self {
            Reason::OtherCall { expected, found } => write!(f, "recorded {expected}, made {found}"),
            Reason::Argument { name, argument, expected, found } => {
                write!(f, "{name}: {argument} was {expected:#x} and is {found:#x}")
            }
            Reason::Bytes { name, argument, at, expected, found } => write!(
                f,
                "{name}: the bytes of {argument} differ from byte {at} on: \"{}\" was recorded, \"{}\" is \
                 there",
                bytes(expected),
                bytes(found)
            ),
            Reason::Result { name, expected, found } => {
                write!(f, "{name} returned {} and returns {}", number(*expected), number(*found))
            }
            Reason::Ended { expected } => {
                write!(f, "recorded {expected}, but the program has ended")
            }
            Reason::OtherEnd { expected, found } => {
                write!(f, "recorded {expected}, and there was {found}")
            }
            Reason::Beyond { found } => {
                write!(f, "made {found}, beyond the last call that was recorded of its thread")
            }
            Reason::Image(text) => write!(f, "the program begins otherwise: {text}"),
            Reason::Unexpected(what) => write!(f, "{what} that was not recorded"),
            Reason::Memory { error, .. } => {
                write!(f, "memory of the program cannot be reached: {error}")
            }
            Reason::Peer(text) => write!(f, "{text}"),
            Reason::Stuck { seconds, .. } => {
                write!(f, "the program has not come to its next call in {seconds} s")
            }
        }
    }
}

impl Reason {
    /// Whether what the program did is another thing, and not what it was given.
    pub fn is_of_program(&self) -> bool {
        !matches!(
            self,
            Reason::Image(_) | Reason::Result { .. } | Reason::Stuck { .. } | Reason::Peer(_)
        )
    }

    /// Whether the kernel has given it other memory.
    pub fn is_of_kernel(&self) -> bool {
        matches!(self, Reason::Image(_) | Reason::Result { .. })
    }
}

fn number(value: i64) -> String {
    if (-4096..4096).contains(&value) { value.to_string() } else { format!("{value:#x}") }
}

/// How a re-execution ended.
#[derive(Debug)]
pub enum Ending {
    /// All calls were as recorded.
    Same,
    /// It came to the call where it was to stop.
    Stopped {
        /// The call.
        call: String,
        /// Its thread, by its number in the recording.
        thread: u32,
    },
    /// The debugger wants to be at a call that was made already, or before any.
    Again {
        /// Its number.
        seq: u64,
    },
    /// The debugger has ended.
    Left,
    /// A call was not.
    Diverged(Box<Divergence>),
    /// It could not go on, for a reason that is not the program's.
    Failed(String),
}

pub(crate) fn diverged(seq: Option<u64>, thread: u32, reason: Reason) -> Ending {
    let (evidence, stood) = (Vec::new(), None);
    Ending::Diverged(Box::new(Divergence { seq, position: 0, thread, reason, evidence, stood }))
}

/// Adds what may be why, to one that is a divergence.
pub(crate) fn with_evidence(mut ending: Ending, evidence: Vec<String>) -> Ending {
    if let Ending::Diverged(found) = &mut ending {
        found.evidence.extend(evidence);
    }
    ending
}

pub(crate) fn unreachable(seq: Option<u64>, thread: u32, error: &io::Error) -> Ending {
    let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied;
    diverged(seq, thread, Reason::Memory { error: error.to_string(), is_forbidden })
}
