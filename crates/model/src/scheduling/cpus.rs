//! CPUs: who runs there, and what interrupts it.

use super::pieces::Waker;

/// Interrupts within interrupts that are told apart.
const NEST_MAX: usize = 16;

/// What interrupts a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Nested {
    Device,
    Timer,
    #[default]
    Processor,
    Soft,
    SoftTimer,
    SoftNetwork,
}

/// Where the time of a CPU went, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTimes {
    /// Instructions of programs.
    pub user_ns: u64,
    /// The kernel, for a thread or as one.
    pub kernel_ns: u64,
    /// Interrupts.
    pub irq_ns: u64,
    /// Second halves of interrupts.
    pub softirq_ns: u64,
    /// Nothing.
    pub idle_ns: u64,
}

/// A CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// Who runs, once that is known.
    task: Option<u32>,
    since: u64,
    /// When an event last showed it running.
    seen: Option<u64>,
    nest: [Nested; NEST_MAX],
    depth: usize,
    /// The request that was completed last in this interrupt.
    completed: Option<[u64; 2]>,
    times: CpuTimes,
}

impl Cpu {
    /// Where its time went.
    pub fn times(&self) -> &CpuTimes {
        &self.times
    }

    pub(super) fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    pub(super) fn task(&self) -> Option<u32> {
        self.task
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Since when it is interrupted by what it is interrupted by now, and whether that is a second half.
    pub(super) fn interruption(&self) -> Option<(u64, bool)> {
        let top = self.nest[..self.depth].last()?;
        let is_soft = matches!(top, Nested::Soft | Nested::SoftTimer | Nested::SoftNetwork);
        Some((self.since, is_soft))
    }

    pub(super) fn last_seen(&self) -> u64 {
        self.seen.unwrap_or(self.since)
    }

    pub(super) fn seen(&mut self, now: u64) {
        self.seen = Some(self.seen.unwrap_or(0).max(now));
    }

    pub(super) fn is_taken(&mut self, task: u32, since: u64, now: u64) {
        (self.task, self.depth, self.completed) = (Some(task), 0, None);
        self.since = self.since.max(since.min(now));
    }

    /// Returns who ran.
    pub(super) fn is_left(&mut self) -> Option<u32> {
        self.task.take()
    }

    pub(super) fn switches_to(&mut self, task: u32) {
        (self.task, self.depth, self.completed) = (Some(task), 0, None);
    }

    pub(super) fn renumber(&mut self, old: u32, new: u32) {
        if self.task == Some(old) {
            self.task = Some(new);
        }
    }

    pub(super) fn enter(&mut self, what: Nested) {
        if let Some(place) = self.nest.get_mut(self.depth) {
            *place = what;
            self.depth += 1;
        }
    }

    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.completed = None;
        }
    }

    pub(super) fn completes(&mut self, request: [u64; 2]) {
        self.completed = Some(request);
    }

    /// Who wakes a thread that is woken here now.
    pub(super) fn waker(&self) -> Waker {
        let nest = &self.nest[..self.depth];
        let is_in = |wanted: &[Nested]| nest.iter().any(|nested| wanted.contains(nested));
        match (self.completed, self.task) {
            (Some(request), _) if self.depth > 0 || self.task == Some(0) => Waker::Disk(request),
            _ if is_in(&[Nested::SoftNetwork]) => Waker::Network,
            _ if is_in(&[Nested::Timer, Nested::SoftTimer]) => Waker::Timer,
            _ if self.depth > 0 => Waker::Interrupt,
            (_, Some(task)) if task != 0 => Waker::Thread(task),
            (_, Some(_)) => Waker::Interrupt,
            (_, None) => Waker::Nobody,
        }
    }

    /// Time has passed; a thread that ran had so much of it for itself, and so much in the kernel.
    pub(super) fn passes(&mut self, now: u64, [own, kernel]: [u64; 2]) {
        let passed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        let top = self.depth.checked_sub(1).map(|top| self.nest[top]);
        match (top, self.task) {
            (_, None) => {}
            (Some(Nested::Soft | Nested::SoftTimer | Nested::SoftNetwork), _) => {
                self.times.softirq_ns += passed;
            }
            (Some(_), _) => self.times.irq_ns += passed,
            (None, Some(0)) => self.times.idle_ns += passed,
            (None, Some(_)) => {
                self.times.user_ns += own.min(passed);
                self.times.kernel_ns += kernel.min(passed - own.min(passed));
            }
        }
    }
}
