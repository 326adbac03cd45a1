//! The threads of a re-execution, and what they ask.

use model::loaded::Loaded;
use syscalls::abi::tasks::{CLONE_CHILD_SETTID, CLONE_PARENT_SETTID, CLONE_VM};
use syscalls::{Handler, Syscall};
use trace::event::Call;

use crate::memory::Memory;

/// What a thread asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It makes a call.
    Call {
        /// Its number.
        nr: u64,
        /// Its arguments.
        args: [u64; 6],
        /// Where its [`ring::Reply`] is.
        reply_at: u64,
    },
    /// It has made a call again, or one that it was led to.
    Made {
        /// The result.
        ret: i64,
        /// What a call took that it was led to, in ticks.
        ticks: u64,
    },
    /// It begins.
    Begin {
        /// The thread that has made it.
        parent: u32,
    },
    /// It was told to let others run.
    Paused,
    /// It begins a program.
    Image {
        /// Its stack pointer.
        stack: u64,
    },
}

/// Gives a thread a [`ring::answer`], arguments, and what stands behind them.
pub type Answer = Box<dyn FnOnce(u32, [u64; 6], u64) + Send>;

/// A thread that waits for an answer.
pub struct Asked {
    /// Its process.
    pub pid: i32,
    /// Its id.
    pub tid: i32,
    /// Its number in the re-execution.
    pub thread: u32,
    /// What it asks.
    pub what: What,
    /// Gives it that.
    pub answer: Answer,
}

/// What the driver is told.
pub enum Message {
    /// A thread waits for an answer.
    Asked(Asked),
    /// A program could not be followed, and was ended.
    NotFollowed(String),
    /// A child of ours has ended.
    Reaped {
        /// Its id.
        pid: i32,
        /// Its wait status.
        status: i32,
    },
}

/// A thread of the re-execution.
pub(crate) struct Live {
    pub pid: i32,
    pub tid: i32,
    /// What it waits for.
    pub asked: Option<Asked>,
    /// Where the [`ring::Reply`] of its last call is.
    pub reply_at: Option<u64>,
    /// The call that it makes again.
    pub making: Option<Making>,
    /// It is led from call to call.
    pub is_led: bool,
    /// It has made the one that it was led to.
    pub led: Option<Asked>,
    /// When its last call began, in the recording.
    pub last_ns: u64,
    /// Its last call that was answered.
    pub last: Option<u64>,
    /// The file that it maps next: once for each piece of its bytes that is in the trace.
    pub files: Vec<Loaded>,
    /// Tasks that it has made and that have not begun.
    pub births: Vec<Birth>,
}

/// A call that is made again.
pub(crate) struct Making {
    pub seq: Option<u64>,
    pub name: &'static str,
    pub ret: i64,
    pub is_birth: bool,
    /// The shadow that it maps.
    pub shadow: Option<u32>,
    /// What came out, if that is written for it.
    pub out: Vec<(u64, Vec<u8>)>,
}

/// A task that is made.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    /// Its id in the recording.
    pub recorded: i64,
    /// Its id now, once that is known.
    pub tid: Option<i32>,
    /// Where it finds its id.
    pub id_at: Option<u64>,
    /// It has the memory of its maker.
    pub shares: bool,
}

impl Live {
    pub fn new(asked: &Asked) -> Live {
        Live {
            pid: asked.pid,
            tid: asked.tid,
            asked: None,
            reply_at: None,
            making: None,
            is_led: false,
            led: None,
            last_ns: 0,
            last: None,
            files: Vec::new(),
            births: Vec::new(),
        }
    }
}

/// Notes a task that is about to be made, and what its maker finds.
pub(crate) fn birth(
    call: &Call,
    row: Option<&Syscall>,
    ret: i64,
    memory: Memory,
    out: &mut Vec<(u64, Vec<u8>)>,
) -> Birth {
    let [flags, child_at, parent_at] = match row.map(|row| row.handler) {
        Some(Handler::Clone) => [call.args[0], call.args[3], call.args[2]],
        Some(Handler::CloneByStruct) => {
            [0, 16, 24].map(|at| memory.word(call.args[0].wrapping_add(at)).unwrap_or(0))
        }
        _ => [0; 3],
    };
    if flags & CLONE_PARENT_SETTID != 0 {
        out.push((parent_at, (ret as u32).to_le_bytes().to_vec()));
    }
    let id_at = (flags & CLONE_CHILD_SETTID != 0).then_some(child_at);
    let handler = row.map(|row| row.handler);
    let shares = handler == Some(Handler::Vfork) || flags & CLONE_VM != 0;
    Birth { recorded: ret, tid: None, id_at, shares }
}
