//! What threads and CPUs did over time, for pictures: lanes of threads by what they did or waited for,
//! lanes of CPUs, and the wakeups that ended the longest waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use model::scheduling::{CPUS_MAX, Doing, Interruption, Piece, Sink, Thread, Times, Waker};

/// Threads that are followed.
const LANES_MAX: usize = 1 << 11;
/// Time steps; what is later counts in the last one.
const STEPS_MAX: u64 = 512;
/// Wakeups that are kept.
const WAKEUPS_MAX: usize = 2000;

/// A thread: its id, and when it was first seen, as ids are given again.
pub type LaneKey = (u32, u64);

/// Nanoseconds in each step, by what was done.
pub type Spent = [f32; Doing::COUNT];

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub struct StateLane {
    /// Its process, if known.
    pub pid: Option<u32>,
    /// Its name, as it was last.
    pub name: Vec<u8>,
    /// A thread of the kernel's own.
    pub is_kernel: bool,
    /// One of those whose events were wanted.
    pub is_followed: bool,
    /// All that it did.
    pub times: Times,
    /// Until when it is known.
    pub last_ns: u64,
    /// Index of its first step.
    pub first: usize,
    /// The steps from there on.
    pub steps: Vec<Spent>,
}

/// What a CPU did in a step, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuStep {
    /// Instructions of programs.
    pub user: f32,
    /// The kernel: calls, faults, threads of its own.
    pub kernel: f32,
    /// Interrupts.
    pub irq: f32,
    /// Their second halves.
    pub softirq: f32,
    /// The thread that was there longest without a break, and how long.
    pub most: (u32, f32),
}

/// A wakeup of a thread by another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wakeup {
    /// How long the thread had waited.
    pub waited_ns: u64,
    /// When it was woken.
    pub at_ns: u64,
    /// Who woke it.
    pub by: u32,
    /// Which one.
    pub task: u32,
}

/// Collects it all.
#[derive(Debug)]
pub struct States {
    interval_ns: u64,
    lanes: HashMap<LaneKey, StateLane>,
    cpus: BTreeMap<u32, Vec<CpuStep>>,
    wakeups: BinaryHeap<Reverse<Wakeup>>,
    left_out: u64,
    /// The recorder's process, which is not shown.
    pub recorder: Option<u32>,
}

impl States {
    /// For time steps of this width.
    pub fn new(interval_ns: u64) -> States {
        States {
            interval_ns: interval_ns.max(1),
            lanes: HashMap::new(),
            cpus: BTreeMap::new(),
            wakeups: BinaryHeap::new(),
            left_out: 0,
            recorder: None,
        }
    }

    /// The threads.
    pub fn lanes(&self) -> &HashMap<LaneKey, StateLane> {
        &self.lanes
    }

    /// The CPUs: their steps from the beginning on.
    pub fn cpus(&self) -> &BTreeMap<u32, Vec<CpuStep>> {
        &self.cpus
    }

    /// The wakeups that ended the longest waits, the longest first.
    pub fn wakeups(&self) -> Vec<Wakeup> {
        let mut all: Vec<Wakeup> = self.wakeups.iter().map(|Reverse(wakeup)| *wakeup).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }

    /// Stretches of threads for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The steps that a stretch touches, each with the nanoseconds that are in it.
    fn steps(&self, from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let width = self.interval_ns;
        let index = |ns: u64| (ns / width).min(STEPS_MAX - 1);
        let (first, last) = (index(from), index(to.saturating_sub(1).max(from)));
        (first..=last).map(move |step| {
            // The last step has no end.
            let end = if step == last { to } else { (step + 1) * width };
            let begin = if step == first { from } else { step * width };
            (step as usize, end.saturating_sub(begin))
        })
    }

    fn on_cpu(&mut self, cpu: u32, from: u64, to: u64, add: impl Fn(&mut CpuStep, f32)) {
        if cpu >= CPUS_MAX {
            return;
        }
        let steps = self.steps(from, to);
        let lane = self.cpus.entry(cpu).or_default();
        for (step, ns) in steps {
            if lane.len() <= step {
                lane.resize(step + 1, CpuStep::default());
            }
            add(&mut lane[step], ns as f32);
        }
    }
}

impl Sink for States {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        let (from, to) = (piece.from, piece.to);
        let (id, is_kernel, doing) = (thread.id, thread.is_kernel, piece.doing);
        if doing.is_on_cpu() && doing != Doing::Interrupted {
            self.on_cpu(piece.cpu, from, to, |step, ns| {
                if doing == Doing::Own && !is_kernel {
                    step.user += ns;
                } else {
                    step.kernel += ns;
                }
                if step.most.0 == id {
                    step.most.1 += ns;
                } else if ns > step.most.1 {
                    step.most = (id, ns);
                }
            });
        }
        if doing.is_blocked()
            && let Waker::Thread(by) | Waker::KernelThread(by) = piece.waker
        {
            let wakeup = Wakeup { waited_ns: to - from, at_ns: to, by, task: id };
            let is_long = self.wakeups.peek().is_none_or(|Reverse(least)| wakeup > *least);
            if is_long || self.wakeups.len() < WAKEUPS_MAX {
                self.wakeups.push(Reverse(wakeup));
                if self.wakeups.len() > WAKEUPS_MAX {
                    self.wakeups.pop();
                }
            }
        }
        if self.recorder.is_some() && thread.pid == self.recorder {
            return;
        }
        let key = (id, thread.first);
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let mut steps = self.steps(from, to).peekable();
        let first = steps.peek().map_or(0, |(step, _)| *step);
        let lane =
            self.lanes.entry(key).or_insert_with(|| StateLane { first, ..StateLane::default() });
        if lane.name != thread.name {
            lane.name.clone_from(&thread.name);
        }
        lane.pid = thread.pid;
        lane.is_kernel = is_kernel;
        lane.is_followed |= thread.is_followed || thread.has_agent();
        lane.times.spend(doing, to - from);
        lane.last_ns = lane.last_ns.max(to);
        for (step, ns) in steps {
            let Some(place) = step.checked_sub(lane.first) else { continue };
            if lane.steps.len() <= place {
                lane.steps.resize(place + 1, Spent::default());
            }
            lane.steps[place][doing as usize] += ns as f32;
        }
    }

    fn interrupted(&mut self, interruption: &Interruption) {
        let &Interruption { cpu, is_soft, from, to, .. } = interruption;
        self.on_cpu(cpu, from, to, |step, ns| {
            *(if is_soft { &mut step.softirq } else { &mut step.irq }) += ns;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(states: &States, from: u64, to: u64) -> Vec<(usize, u64)> {
        states.steps(from, to).collect()
    }

    #[test]
    fn stretches_are_cut_at_steps() {
        let states = States::new(100);
        assert_eq!(steps(&states, 50, 250), [(0, 50), (1, 100), (2, 50)]);
        assert_eq!(steps(&states, 100, 200), [(1, 100)]);
        assert_eq!(steps(&states, 7, 7), [(0, 0)]);
        let late = STEPS_MAX * 100;
        assert_eq!(steps(&states, late - 10, late + 90), [(STEPS_MAX as usize - 1, 100)]);
    }

    #[test]
    fn interrupts_of_an_idle_cpu_count() {
        let mut states = States::new(100);
        for is_soft in [false, true] {
            let cpu = if is_soft { u32::MAX } else { 3 };
            states.interrupted(&Interruption { cpu, task: 0, is_soft, from: 190, to: 210 });
        }
        let irq: Vec<f32> = states.cpus()[&3].iter().map(|step| step.irq).collect();
        assert_eq!((irq, states.cpus().len()), (vec![0.0, 10.0, 10.0], 1));
    }
}
