//! A task of a replay that is led: it waits until each call may be made, and tells what that took.

use std::time::Duration;

use super::Actor;
use crate::clock;
use crate::lane::Mood;
use crate::outcome::Stopped;

impl Actor<'_> {
    /// Waits until a call may be made. Returns false if nothing more is to be made.
    pub(super) fn may_go_on(&self, seq: u64) -> bool {
        let Some(gate) = &self.shared.options.gate else { return true };
        if gate.is_open(seq) {
            return !self.shared.stopping();
        }
        self.lane.set_mood(Mood::Rests);
        let may = self.shared.asleep(|| gate.enter(seq));
        self.lane.set_mood(Mood::Busy);
        if !may {
            self.shared.stop(Stopped::Failed("the program that it follows has ended".into()));
        }
        may
    }

    /// The CPU time of this task, if somebody wants to know.
    pub(super) fn cpu_clock(&self) -> Option<Duration> {
        self.shared.options.gate.as_ref()?;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel fills a local struct.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Some(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
    }

    /// Adds what making a call has taken. Before that the task had had the CPU for so long.
    pub(super) fn note_taken(&mut self, ticks: u64, had: Option<Duration>) {
        let Some(had) = had else { return };
        let now = self.cpu_clock().unwrap_or(had);
        self.took_ns += clock::to_ns(ticks);
        self.took_cpu_ns += now.saturating_sub(had).as_nanos() as u64;
    }

    /// Tells the leader that the action of a call is done.
    pub(super) fn tell_leader(&mut self, seq: u64) {
        if let Some(gate) = &self.shared.options.gate {
            let [ns, cpu_ns] = [&mut self.took_ns, &mut self.took_cpu_ns].map(std::mem::take);
            gate.made(seq, ns, cpu_ns);
        }
    }
}
