//! Who is told what the supervisor sees.

use std::sync::mpsc::Receiver;

use kin::Credentials;
use ring::Arena;

use crate::wish::{Asked, Mapped};

/// Receives exec, gap and exit notifications.
pub trait Observer {
    /// A process is about to execute a program. It can be looked at meanwhile, but it is running.
    fn announced(&mut self, pid: u32, process: u32);
    /// The announced program was not executed.
    fn called_off(&mut self, process: u32);
    /// A process is stopped at the first instruction of a new image and can be looked at.
    fn image(&mut self, stop: &ExecStop);
    /// The agent was placed into the image, and will start when the process continues.
    fn placed(&mut self, process: u32);
    /// An image runs unrecorded.
    fn not_followed(&mut self, pid: u32, process: u32, why: &str);
    /// The launched program has ended, with this wait status.
    fn ended(&mut self, pid: u32, status: i32);
    /// A child has ended, with this wait status.
    fn reaped(&mut self, _pid: i32, _status: i32) {}
    /// A signal has come from outside. It goes to the program, unless that is over.
    fn signalled(&mut self, _signal: i32) {}
    /// This signal requests the end of the recording.
    fn told_to_end(&mut self, signal: i32);
    /// Returns whether a process with this id is or was recorded. `is_gone`: there is no such process
    /// any more.
    fn is_recorded(&mut self, pid: i32, is_gone: bool) -> bool;
    /// The thread of slot `from` continues in slot `to`, which is in `arena`, shared by the
    /// programs of `user`. Slots are counted across arenas, each having [`ring::SLOTS`]. The receiver
    /// gets a message once the recorder has noted the move, and is disconnected if it does not.
    fn moved(&mut self, from: usize, to: usize, arena: Arena, user: u32) -> Receiver<()>;
    /// A thread asks about memory in which files are mapped, and waits for the answer.
    fn mapped(&mut self, asked: Mapped);
    /// A thread of a program that is recorded for a re-execution, or re-executed, waits for an answer.
    fn asked(&mut self, asked: Asked);
}

/// A process that is stopped at the first instruction of a new image.
pub struct ExecStop {
    /// Its process id.
    pub pid: u32,
    /// Its number in the recording.
    pub process: u32,
    /// Its credentials and blocked signals, if they are known already.
    pub known: Option<(Credentials, u64)>,
}
