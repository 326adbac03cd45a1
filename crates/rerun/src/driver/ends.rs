//! Processes that came to their end by themselves, by a fault of their code.

use std::time::{Duration, Instant};

use syscalls::abi::signals;

use super::{Driver, ENDED_MAX, LOOK_EVERY, TAKEN_MAX, TIMES_SLOWER};
use crate::divergence::{Ending, Reason, diverged, with_evidence};
use crate::live::What;
use crate::words::raw;

/// How long it may take until the status of a process that has ended is known.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
const NOT_SENT: &str = "who sent the signal that ended it is not recorded: if it did not come from its own code \
    but from a process that was not recorded, it cannot be repeated";

impl Driver<'_> {
    /// A process has ended in the recording: one that had made a fault must come to it here, and to nothing else.
    pub(super) fn end(&mut self, process: u32, tsc: u64, at_ns: u64) -> Result<(), Ending> {
        let Some(fault) = self.survey.faults.get(&process).copied() else { return Ok(()) };
        let Some(thread) = self.numbers.get(&fault.thread).copied() else { return Ok(()) };
        self.release(tsc)?;
        let live = self.threads.get(&thread);
        let (pid, since) = live.map_or((0, at_ns), |live| (live.pid, live.last_ns));
        let expected = format!("death by {}", name(fault.signal));
        let taken = Duration::from_nanos(at_ns.saturating_sub(since)).min(TAKEN_MAX);
        let limit = self.patience.saturating_add(taken.saturating_mul(TIMES_SLOWER));
        let fails = |reason| diverged(None, fault.thread, reason);
        let ends_otherwise = |reason| with_evidence(fails(reason), vec![NOT_SENT.into()]);
        match self.next(thread, limit)? {
            Ok(asked) => {
                let found = match asked.what {
                    What::Call { nr, args, .. } => raw(nr, &args),
                    _ => "a new program".into(),
                };
                let ending = ends_otherwise(Reason::OtherCall { expected, found });
                Err(self.keep(asked, ending))
            }
            Err(Reason::Ended { .. }) => {
                let found = match self.status(pid)? {
                    Some(status) if libc::WIFSIGNALED(status) => {
                        let signal = libc::WTERMSIG(status);
                        (signal != fault.signal).then(|| format!("death by {}", name(signal)))
                    }
                    // Who may not look is told of an exit.
                    _ => {
                        self.counts.ends_unseen += 1;
                        None
                    }
                };
                found.map_or(Ok(()), |found| Err(fails(Reason::OtherEnd { expected, found })))
            }
            Err(reason) => Err(ends_otherwise(reason)),
        }
    }

    /// The wait status of a process that has ended, if that can be known.
    fn status(&mut self, pid: i32) -> Result<Option<i32>, Ending> {
        let since = Instant::now();
        loop {
            let told = self.ended.remove(&pid).or_else(|| self.processes.status(pid));
            if told.is_some() || self.is_over || since.elapsed() > TOLD_WITHIN {
                return Ok(told);
            }
            self.receive(LOOK_EVERY)?;
        }
    }

    /// Notes how a process has ended.
    pub(super) fn ended_by(&mut self, pid: i32, status: i32) {
        if self.ended.len() < ENDED_MAX {
            self.ended.insert(pid, status);
        }
    }

    /// Forgets the processes that have ended, but for how.
    pub(super) fn forget_ended(&mut self) {
        for (pid, status) in self.processes.forget_ended() {
            self.ended_by(pid, status);
        }
    }
}

fn name(signal: i32) -> String {
    signals::name(signal).map_or_else(|| format!("signal {signal}"), Into::into)
}
