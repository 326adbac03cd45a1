//! Processes that died of a fault of their own code: they come to it again.

use std::collections::{HashMap, HashSet};

use syscalls::abi::errno;
use syscalls::abi::signals::is_fault;
use syscalls::{ArgKind, Classes, by_number};
use trace::event::{Call, Outcome};

/// Maximum number of signals that recorded processes have sent and that are kept.
const SENT_MAX: usize = 1 << 16;

/// Results of calls that a signal has ended.
const EINTR: i64 = errno::result(errno::EINTR);
const RESTARTED: std::ops::RangeInclusive<i64> =
    errno::result(errno::ERESTART_RESTARTBLOCK)..=errno::result(errno::ERESTARTSYS);

/// How a process died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The thread of its last call, by its number in the recording.
    pub thread: u32,
    /// The signal.
    pub signal: i32,
}

/// What tells them from processes that were killed.
#[derive(Default)]
pub(crate) struct Faults {
    /// Signals that recorded processes have sent, and to whom: `None` is anybody.
    sent: HashSet<(i32, Option<u32>)>,
    /// Threads whose last call has returned, and was not interrupted but for a handler.
    returned: HashSet<u32>,
    /// Signals by which processes died.
    died: HashMap<u32, i32>,
    /// Ids by which processes and threads were known, by process.
    ids: HashMap<u32, Vec<u32>>,
}

impl Faults {
    /// A task has begun.
    pub fn begin(&mut self, process: u32, ids: [u32; 2]) {
        self.ids.entry(process).or_default().extend(ids);
    }

    /// A process has ended.
    pub fn end(&mut self, process: u32, status: Option<i32>) {
        let signal =
            status.filter(|status| libc::WIFSIGNALED(*status)).map(|status| libc::WTERMSIG(status));
        self.died.extend(signal.map(|signal| (process, signal)));
    }

    /// The handler of a signal has begun: that has ended the call.
    pub fn signal(&mut self, thread: u32) {
        self.returned.insert(thread);
    }

    /// A thread makes a call.
    pub fn call(&mut self, thread: u32, call: &Call) {
        // One that a signal has ended may have been ended by that of which the process died.
        let interrupted = |ret: i64| ret == EINTR || RESTARTED.contains(&ret);
        match call.outcome {
            Outcome::Returned { ret, .. } if !interrupted(ret) => self.returned.insert(thread),
            _ => self.returned.remove(&thread),
        };
        let Some(row) = by_number(call.nr.into()) else { return };
        if !row.classes.intersects(Classes::SIGNAL) || !row.classes.intersects(Classes::PROCESS) {
            return;
        }
        let args = || row.args.iter().zip(call.args);
        let of_signal = args().find(|(arg, _)| matches!(arg.kind, ArgKind::Signal));
        let Some(signal) = of_signal.map(|(_, signal)| signal as i32) else { return };
        if !is_fault(signal) {
            return;
        }
        let mut sent: Vec<_> = args()
            .filter(|(arg, _)| matches!(arg.kind, ArgKind::Pid))
            .map(|(_, id)| u32::try_from(id as i32).ok().filter(|id| *id > 0))
            .collect();
        if sent.is_empty() || self.sent.len() >= SENT_MAX {
            sent.push(None);
        }
        self.sent.extend(sent.into_iter().map(|id| (signal, id)));
    }

    /// The signal, if a process whose last call was that of a thread has come to its end by itself.
    pub fn of(&self, process: u32, thread: u32) -> Option<Fault> {
        let signal = *self.died.get(&process)?;
        let ids = self.ids.get(&process)?;
        let was_sent = |id: Option<u32>| self.sent.contains(&(signal, id));
        let was_killed = was_sent(None) || ids.iter().any(|id| was_sent(Some(*id)));
        (is_fault(signal) && !was_killed && self.returned.contains(&thread))
            .then_some(Fault { thread, signal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, args: [u64; 6]) -> Call {
        let nr = syscalls::by_name(name).unwrap().nr;
        Call { nr, args, outcome: Outcome::Returned { exit_tsc: 0, ret: 0 }, ..Call::default() }
    }

    #[test]
    fn who_was_killed_by_a_recorded_call_has_made_no_fault() {
        let mut faults = Faults::default();
        for process in 1..=4 {
            faults.begin(process, [40 + process, 40 + process]);
            faults.call(process, &call("getpid", [0; 6]));
            faults.end(process, Some(if process == 4 { 9 } else { 11 }));
        }
        faults.call(1, &call("kill", [42, 11, 0, 0, 0, 0]));
        faults.call(1, &call("kill", [41, 0, 0, 0, 0, 0]));
        faults.call(3, &Call { outcome: Outcome::Unfinished, ..call("pause", [0; 6]) });
        let found = [1, 2, 3, 4].map(|process| faults.of(process, process));
        assert_eq!(found, [Some(Fault { thread: 1, signal: 11 }), None, None, None]);
        faults.call(1, &call("pidfd_send_signal", [5, 11, 0, 0, 0, 0]));
        assert_eq!(faults.of(1, 1), None);
    }
}
