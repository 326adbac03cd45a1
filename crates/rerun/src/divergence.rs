//! The first call that differs from the recorded one.

use std::fmt;
use std::io;

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
    /// What the trace does not hold, and may be why.
    pub doubts: Vec<String>,
}

impl Divergence {
    /// Likely causes, for users.
    pub fn likely(&self) -> String {
        let is_of_memory = !matches!(self.reason, Reason::Image(_) | Reason::Memory { .. });
        match self.doubts.is_empty() {
            false if is_of_memory => self.doubts.join("; "),
            _ => self.reason.likely().into(),
        }
    }
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
            Reason::Beyond { found } => {
                write!(f, "made {found}, beyond the last call that was recorded of its thread")
            }
            Reason::Image(text) => write!(f, "the program begins otherwise: {text}"),
            Reason::Unexpected(what) => write!(f, "{what} that was not recorded"),
            Reason::Memory { error, .. } => {
                write!(f, "memory of the program cannot be reached: {error}")
            }
            Reason::Peer(text) => write!(f, "{text}"),
            Reason::Stuck { seconds } => {
                write!(f, "the program has not come to its next call in {seconds} s")
            }
        }
    }
}

fn number(value: i64) -> String {
    if (-4096..4096).contains(&value) { value.to_string() } else { format!("{value:#x}") }
}

impl Reason {
    fn likely(&self) -> &'static str {
        match self {
            Reason::Stuck { .. } => {
                "it waits for something in its memory that no call changes, or computes much longer than \
                 when it was recorded"
            }
            Reason::Image(_) => {
                "another kernel or processor, another limit of the stack, another interpreter in the first line \
                 of a script, or address-space randomisation that cannot be turned off here"
            }
            Reason::Peer(_) => {
                "another client, one that asks by time or chance, or one with several connections at a \
                 time, which come in another order"
            }
            Reason::Memory { is_forbidden: true, .. } => "ptrace is forbidden here",
            Reason::Memory { .. } => {
                "the program has other memory than it had: something that no call gave has led it elsewhere, or \
                 the trace is damaged"
            }
            Reason::Result { .. } => {
                "memory that is not free here: another kernel, or another version of reenact"
            }
            _ => {
                "something that no call gave: the processor's counter or random numbers (rdtsc, rdrand), \
                 its number, another processor, memory shared with another process, or a signal that \
                 arrived between two calls"
            }
        }
    }
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
    Ending::Diverged(Box::new(Divergence { seq, position: 0, thread, reason, doubts: Vec::new() }))
}

pub(crate) fn unreachable(seq: Option<u64>, thread: u32, error: &io::Error) -> Ending {
    let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied;
    diverged(seq, thread, Reason::Memory { error: error.to_string(), is_forbidden })
}
