//! A task of a replay that is led: it waits until each call may be made, and tells what that took.

use std::sync::OnceLock;
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

    /// What this task has had so far, if somebody wants to know.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.shared.options.gate.as_ref().map(|_| Standing::now())
    }

    /// Adds what a call has taken, behind our own work of some ticks; before that the task stood there. The CPU
    /// may have been taken away by the program itself, which is executed beside it: then only CPU time counts.
    pub(super) fn note_taken(&mut self, ticks: u64, own: u64, before: Option<Standing>) {
        let Some(before) = before else { return };
        let now = Standing::now();
        let cpu = now.cpu.saturating_sub(before.cpu).saturating_sub(asking()).as_nanos() as u64;
        let cpu = cpu.saturating_sub(clock::to_ns(own));
        let wall = clock::to_ns(ticks);
        let took = if now.waits == before.waits { wall.min(cpu) } else { wall };
        self.took_ns = Some(self.took_ns.unwrap_or(0) + took);
        self.took_cpu_ns += cpu;
    }

    /// Tells the leader that the action of a call is done.
    pub(super) fn tell_leader(&mut self, seq: u64) {
        if let Some(gate) = &self.shared.options.gate {
            gate.made(seq, self.took_ns.take(), std::mem::take(&mut self.took_cpu_ns));
        }
    }
}

/// What a task has had.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// How often it has given the CPU up.
    waits: i64,
    cpu: Duration,
}

impl Standing {
    fn now() -> Standing {
        // SAFETY: `rusage` consists of integers, for which zero is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills a local struct.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Standing { waits: usage.ru_nvcsw, cpu: cpu_time() }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU time that asking for it takes: the least of some tries.
fn asking() -> Duration {
    const TRIES: usize = 32;
    static ASKING: OnceLock<Duration> = OnceLock::new();
    *ASKING.get_or_init(|| {
        let tries = std::iter::repeat_with(|| {
            let before = Standing::now();
            Standing::now().cpu.saturating_sub(before.cpu)
        });
        tries.take(TRIES).min().unwrap_or_default()
    })
}
