//! Of which calls it is known how long their threads had computed before, and by what.

use std::collections::BTreeMap;

use model::Moment;
use model::user_time::{self, Source};
use syscalls::abi::errno;
use syscalls::{Handler, by_number};
use trace::event::{EventKind, Outcome};

/// Limit for the threads that are told apart.
const THREADS_MAX: usize = 1000;

/// Numbers of calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// Known by the time stamp counter, as the thread had kept its CPU.
    pub time_stamps: u64,
    /// Known by the thread's CPU clock.
    pub cpu_clock: u64,
    /// Not known.
    pub unknown: u64,
}

impl Known {
    fn add(&mut self, source: Option<Source>) {
        *match source {
            Some(Source::TimeStamps) => &mut self.time_stamps,
            Some(Source::CpuClock) => &mut self.cpu_clock,
            None => &mut self.unknown,
        } += 1;
    }

    /// Calls of which it is known.
    pub fn any(&self) -> u64 {
        self.time_stamps + self.cpu_clock
    }
}

/// What is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KnownTimes {
    /// Of all calls.
    pub all: Known,
    /// Of those of the first threads, by number: process id, thread id and the calls.
    pub threads: BTreeMap<u32, (Option<u32>, Option<u32>, Known)>,
    /// Threads that have registered an area for restartable sequences.
    pub areas: u64,
}

impl KnownTimes {
    pub(super) fn event(&mut self, moment: &Moment<'_>) {
        let EventKind::Call(call) = &moment.event.kind else { return };
        if moment.submitted_ns.is_some() {
            return;
        }
        let source = moment.user_ns.and_then(|_| user_time::source(moment.event));
        self.all.add(source);
        let thread = moment.event.thread;
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&thread) {
            let of = self.threads.entry(thread).or_default();
            (of.0, of.1) = (moment.pid.or(of.0), moment.tid.or(of.1));
            of.2.add(source);
        }
        let handler = by_number(call.nr.into()).map(|row| row.handler);
        if handler == Some(Handler::RegisterArea)
            && let Outcome::Returned { ret, .. } = call.outcome
            && !errno::is_error(ret)
        {
            self.areas += 1;
        }
    }
}
