//! Processes that came to their end by themselves, by a fault of their code.

use std::time::{Duration, Instant};

use syscalls::abi::signals;

use super::{Driver, LOOK_EVERY, TAKEN_MAX, TIMES_SLOWER};
use crate::divergence::{Ending, Reason, diverged, with_evidence};
use crate::live::What;
use crate::processes::status_of_dead;
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
            Err(Reason::Ended { .. }) => match self.status(pid)? {
                Some(status) if libc::WTERMSIG(status) != fault.signal => {
                    let found = format!("death by {}", name(libc::WTERMSIG(status)));
                    Err(fails(Reason::OtherEnd { expected, found }))
                }
                _ => Ok(()),
            },
            Err(reason) => Err(ends_otherwise(reason)),
        }
    }

    /// The wait status of a process that has ended by a signal, if that can be known.
    fn status(&mut self, pid: i32) -> Result<Option<i32>, Ending> {
        let since = Instant::now();
        loop {
            let told = self.ended.remove(&pid).or_else(|| status_of_dead(pid));
            if told.is_some() || self.is_over || since.elapsed() > TOLD_WITHIN {
                return Ok(told.filter(|status| libc::WIFSIGNALED(*status)));
            }
            self.receive(LOOK_EVERY)?;
        }
    }
}

fn name(signal: i32) -> String {
    signals::name(signal).map_or_else(|| format!("signal {signal}"), Into::into)
}
