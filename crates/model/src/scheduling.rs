//! What each thread does at each time, by the kernel's events and the calls: it runs, waits for a CPU,
//! or is blocked, and on what.
//!
//! A thread does one thing at a time, from when it is first seen to its end, so what it did adds up
//! to its life. Each stretch of time is handed to a [`Sink`] when it is over, since what a thread
//! waited for is known by who woke it.

mod cpus;
mod pieces;
mod reasons;
mod thread;

use syscalls::abi::softirqs;
use syscalls::abi::states::Stopping;
use syscalls::abi::tasks::CLONE_THREAD;
use trace::event::{Call, Event, EventKind, GapWhy, KernelEvent};
use trace::kernel::KernelLayouts;

use crate::happenings::{Entered, Happening, Happenings};
use crate::kernel_tasks::{KernelScope, KernelTask, Missing};

pub use cpus::{Cpu, CpuTimes};
pub use pieces::{Doing, InCall, Interruption, Piece, Times, Waker};
pub use reasons::may_wait_for;
pub use thread::{Sink, Thread};

use cpus::Nested;
use thread::State;

/// Threads that are known at a time.
const THREADS_MAX: usize = 1 << 17;
/// Highest id of a thread, and one more: the kernel gives no higher ones.
const IDS_MAX: usize = 1 << 22;
/// CPUs that are followed.
pub const CPUS_MAX: u32 = 1 << 13;
/// The thread of the kernel that makes the others.
const KTHREADD: u32 = 2;
/// How long a fault may take to be believed, if nothing else happens.
const FAULT_NS_MAX: u64 = 64_000;

/// Follows the threads of a machine.
#[derive(Default)]
pub struct Scheduling {
    happenings: Happenings,
    /// By id: its place in `all`, and one more.
    places: Vec<u32>,
    all: Vec<Thread>,
    /// Places of threads that have ended, the earliest first.
    ended: std::collections::VecDeque<u32>,
    /// Threads that had to make place, and what they did.
    forgotten: (u64, Times),
    /// There was no room for some.
    left_out: bool,
    cpus: Vec<Cpu>,
    /// When events began to be taken.
    begin: u64,
    last: u64,
    scope: Option<KernelScope>,
    /// What events do not tell of threads.
    missing: Missing,
    /// How long a page fault takes, as far as is known.
    fault_ns: u64,
}

impl Scheduling {
    /// For events of these layouts.
    pub fn new(layouts: &KernelLayouts) -> Scheduling {
        let happenings = Happenings::new(layouts);
        let missing = match happenings.has_switches() {
            true => Missing::Nothing,
            false => Missing::Switches,
        };
        Scheduling { happenings, missing, fault_ns: 1000, ..Scheduling::default() }
    }

    /// What events mean.
    pub fn happenings(&self) -> &Happenings {
        &self.happenings
    }

    /// All threads, also those that have ended.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.all.iter()
    }

    /// The CPUs with their numbers.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &Cpu)> {
        (0..).zip(&self.cpus).filter(|(_, cpu)| cpu.is_known())
    }

    /// How many threads are not listed, since there were too many, and what they did; and whether
    /// there were even more.
    pub fn forgotten(&self) -> (u64, &Times, bool) {
        (self.forgotten.0, &self.forgotten.1, self.left_out)
    }

    /// What events do not tell of threads.
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Whose events were taken, if the trace tells.
    pub fn scope(&self) -> Option<&KernelScope> {
        self.scope.as_ref()
    }

    /// Returns true if all events about a thread are in the trace, and it is none of the recorder's.
    pub fn is_told(&self, thread: &Thread) -> bool {
        let is_whole = self.scope.as_ref().is_none_or(|scope| scope.is_whole);
        thread.is_followed || (is_whole && !self.is_recorders(thread))
    }

    /// Returns true if a thread is one of the recorder's own.
    pub fn is_recorders(&self, thread: &Thread) -> bool {
        self.recorder().is_some_and(|recorder| thread.pid == Some(recorder))
    }

    /// The recorder's process, if the trace tells.
    pub fn recorder(&self) -> Option<u32> {
        self.scope.as_ref().map(|scope| scope.recorder).filter(|recorder| *recorder != 0)
    }

    /// The living thread with an id.
    pub fn thread(&self, id: u32) -> Option<&Thread> {
        let place = self.places.get(id as usize)?.checked_sub(1)?;
        self.all.get(place as usize)
    }

    fn thread_mut(&mut self, id: u32) -> Option<&mut Thread> {
        let place = self.places.get(id as usize)?.checked_sub(1)?;
        self.all.get_mut(place as usize)
    }

    /// The time of the last event.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The place of a thread, which is in a state since a time if it was not known.
    fn place(&mut self, id: u32, state: State, since: u64) -> Option<usize> {
        let at = id as usize;
        if id == 0 || at >= IDS_MAX {
            return None;
        }
        if at >= self.places.len() {
            self.places.resize((at + 1).next_power_of_two().min(IDS_MAX), 0);
        }
        if let Some(place) = self.places[at].checked_sub(1) {
            return Some(place as usize);
        }
        let thread = Thread::new(id, state, since, self.missing);
        let place = if self.all.len() < THREADS_MAX {
            self.all.push(thread);
            self.all.len() - 1
        } else if let Some(place) = self.ended.pop_front() {
            let place = place as usize;
            let old = std::mem::replace(&mut self.all[place], thread);
            self.forgotten.0 += 1;
            self.forgotten.1.add(&old.times);
            place
        } else {
            self.left_out = true;
            return None;
        };
        self.places[at] = place as u32 + 1;
        Some(place)
    }

    /// A new thread gets an id, which another one may have had.
    fn born(&mut self, id: u32, now: u64) -> Option<usize> {
        if self.thread(id).is_some_and(|thread| thread.has_ended()) {
            self.places[id as usize] = 0;
        }
        self.place(id, State::Waits { is_preempted: false }, now)
    }

    /// Takes an event of any kind, in their order.
    pub fn event(
        &mut self,
        event: &Event,
        now: u64,
        exit: Option<u64>,
        tid: Option<u32>,
        sink: &mut impl Sink,
    ) {
        // The note that this is a part stands where the last call that it has ended.
        if !matches!(event.kind, EventKind::Gap { why: GapWhy::Cut, .. }) {
            self.last = self.last.max(now);
        }
        match (&event.kind, event.cpu()) {
            (EventKind::Kernel(kernel), Some(cpu)) if cpu < CPUS_MAX => {
                self.kernel(cpu, now, kernel, sink);
            }
            (EventKind::Gap { why: GapWhy::KernelEvents, .. }, Some(cpu)) if cpu < CPUS_MAX => {
                self.left_unseen(cpu, sink);
            }
            (EventKind::Gap { why: GapWhy::Cut, .. }, Some(cpu)) if cpu < CPUS_MAX => {
                self.left_unseen(cpu, sink);
                if self.cpus.iter().all(|cpu| !cpu.is_known()) {
                    self.begins_late(now);
                }
            }
            (EventKind::KernelLayout(_), _) if self.begin == 0 => self.begin = now,
            (EventKind::Call(call), _) => self.call(call, now, exit, tid, sink),
            (EventKind::Start { pid, tid, .. }, _) => {
                let (pid, tid) = (*pid, *tid);
                if let Some(thread) = self.thread_mut(tid) {
                    thread.pid = Some(pid);
                }
            }
            (EventKind::Other(other), _) => {
                if let Some(task) = KernelTask::of(other) {
                    self.told(&task, now);
                } else if let Some(scope) = KernelScope::of(other) {
                    self.missing = self.missing.max(scope.missing);
                    self.scope = Some(scope);
                }
            }
            _ => {}
        }
    }

    /// A recorded call begins.
    fn call(
        &mut self,
        call: &Call,
        now: u64,
        exit: Option<u64>,
        tid: Option<u32>,
        sink: &mut impl Sink,
    ) {
        // What it did before was done outside of calls.
        let Some(cpu) = tid.and_then(|id| self.thread_mut(id)).map(|thread| thread.cpu) else {
            return;
        };
        if self.cpu(cpu).task() == tid && self.cpu(cpu).depth() == 0 {
            self.passes(cpu, now, sink);
        }
        let Some(thread) = tid.and_then(|id| self.thread_mut(id)) else { return };
        thread.ran(false, now, sink);
        thread.has_agent = true;
        let until = exit.unwrap_or(u64::MAX);
        thread.call = Some(InCall { nr: call.nr, args: call.args, from: now, until });
    }

    /// What /proc said of a thread. Events that came before know better what it does.
    fn told(&mut self, task: &KernelTask, now: u64) {
        let since = if self.is_all() { self.begin } else { now };
        let state = State::by_letter(task.state);
        let Some(place) = self.place(task.task, state, since) else { return };
        let thread = &mut self.all[place];
        thread.pid = Some(task.process);
        thread.parent = Some(task.parent);
        thread.ids = Some([task.uid, task.gid]);
        thread.is_kernel = task.is_kernel;
        thread.is_followed |= task.is_followed;
        if thread.name.is_empty() {
            thread.rename(&task.name);
        }
    }

    /// All that came before is left out: what is known of threads was so long ago.
    fn begins_late(&mut self, now: u64) {
        self.begin = now;
        self.all.iter_mut().for_each(|thread| thread.begins_late(now));
    }

    fn is_all(&self) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.is_whole)
    }

    /// When a thread began that is seen for the first time now.
    fn since_begin(&self, now: u64) -> u64 {
        if self.is_all() { self.begin.min(now) } else { now }
    }

    /// The CPU with a number, made if it is new.
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let at = cpu as usize;
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        &mut self.cpus[at]
    }

    fn kernel(&mut self, cpu: u32, now: u64, event: &KernelEvent, sink: &mut impl Sink) {
        self.runs(cpu, now, event.task, sink);
        // The reader is put back: what it returns borrows nothing but it and the event.
        let happenings = std::mem::take(&mut self.happenings);
        if let Some(happening) = happenings.read(event.layout, &event.values) {
            self.happens(cpu, now, event.task, &happening, sink);
        } else {
            self.goes_on(cpu, now, event.task);
        }
        self.happenings = happenings;
    }

    /// Something happened that a thread in a page fault does not do.
    fn goes_on(&mut self, cpu: u32, now: u64, task: u32) {
        if self.cpu(cpu).depth() > 0 {
            return;
        }
        let typical = self.fault_ns;
        let Some(thread) = self.thread_mut(task) else { return };
        let Some(since) = thread.fault_since.take() else { return };
        thread.fault_until = thread.fault_until.min(now);
        let took = now.saturating_sub(since);
        // Goes towards what one of five faults takes less than: the others did something after it.
        if took < FAULT_NS_MAX {
            let step = typical / 64 + 1;
            self.fault_ns = if took < typical {
                typical.saturating_sub(4 * step).max(1)
            } else {
                typical + step
            };
        }
    }

    fn happens(
        &mut self,
        cpu: u32,
        now: u64,
        task: u32,
        happening: &Happening<'_>,
        sink: &mut impl Sink,
    ) {
        match *happening {
            Happening::Switch { from, why, to, names } => {
                self.passes(cpu, now, sink);
                if let Some(place) = self.place(from, State::Unknown, now) {
                    let thread = &mut self.all[place];
                    thread.rename(names[0]);
                    thread.switches += 1;
                    thread.leaves(why, now, sink);
                    if why == Stopping::Ended {
                        self.ended.push_back(place as u32);
                    }
                }
                let since = self.since_begin(now);
                if let Some(place) = self.place(to, State::Waits { is_preempted: false }, since) {
                    let (fault_ns, is_all) = (self.fault_ns, self.is_all());
                    let thread = &mut self.all[place];
                    thread.rename(names[1]);
                    thread.cpu = cpu;
                    thread.comes_unseen(is_all);
                    thread.go(State::Runs, now, Waker::Nobody, sink);
                    if thread.fault_since.is_some() {
                        thread.fault_until = now + fault_ns;
                    }
                }
                self.cpu(cpu).switches_to(to);
            }
            Happening::Wake { task, name } => {
                let waker = self.waker(cpu);
                let since = self.since_begin(now);
                if let Some(place) = self.place(task, State::Asleep, since) {
                    let thread = &mut self.all[place];
                    thread.rename(name);
                    thread.wakes(now, waker, sink);
                }
            }
            Happening::Make { task: child, flags } => {
                let parent = self.thread(task).and_then(|thread| thread.pid).unwrap_or(task);
                let of_thread = (flags & CLONE_THREAD != 0).then_some(parent);
                if let Some(place) = self.born(child, now) {
                    self.all[place].pid = Some(of_thread.unwrap_or(child));
                }
            }
            Happening::Fork { parent, child, name } => {
                let of_parent = self.thread(parent);
                let is_followed = of_parent.is_some_and(|thread| thread.is_followed);
                let ids = of_parent.and_then(|thread| thread.ids);
                let process = of_parent.and_then(|thread| thread.pid).unwrap_or(parent);
                if let Some(place) = self.born(child, now) {
                    let thread = &mut self.all[place];
                    thread.rename(name);
                    thread.is_followed = is_followed;
                    thread.is_kernel = parent == KTHREADD;
                    thread.parent = Some(process);
                    thread.ids = ids;
                }
            }
            Happening::Exec { task: id, old } => self.takes_id(id, old, now, sink),
            Happening::Enter(entered) => {
                self.passes(cpu, now, sink);
                self.cpu(cpu).enter(match entered {
                    Entered::Device { .. } => Nested::Device,
                    Entered::Soft(number) if softirqs::is_timer(number) => Nested::SoftTimer,
                    Entered::Soft(number) if softirqs::is_network(number) => Nested::SoftNetwork,
                    Entered::Soft(_) => Nested::Soft,
                    Entered::Timer => Nested::Timer,
                    Entered::Processor => Nested::Processor,
                });
            }
            Happening::Leave => {
                self.passes(cpu, now, sink);
                self.cpu(cpu).leave();
            }
            Happening::Complete { request } => self.cpu(cpu).completes(request),
            // The time up to here is that of the CPU as well as that of the thread.
            Happening::Fault { .. } => {
                self.goes_on(cpu, now, task);
                self.passes(cpu, now, sink);
                let fault_ns = self.fault_ns;
                if let Some(thread) = self.thread_mut(task) {
                    thread.faults(now, fault_ns, sink);
                }
            }
            Happening::Call { nr, args } => {
                self.goes_on(cpu, now, task);
                self.passes(cpu, now, sink);
                if let Some(thread) = self.thread_mut(task).filter(|thread| !thread.has_agent) {
                    let nr = u16::try_from(nr).unwrap_or(u16::MAX);
                    thread.call = Some(InCall { nr, args, from: now, until: u64::MAX });
                }
            }
            Happening::Return => {
                self.passes(cpu, now, sink);
                if let Some(thread) = self.thread_mut(task).filter(|thread| !thread.has_agent) {
                    thread.call = None;
                }
            }
            Happening::Contend { lock } => {
                if let Some(thread) = self.thread_mut(task) {
                    thread.contends = Some(lock);
                }
            }
            Happening::Contended => {
                if let Some(thread) = self.thread_mut(task) {
                    thread.contends = None;
                }
            }
            Happening::Issue { .. } | Happening::Pages { .. } => {}
        }
    }

    /// Of a process with several threads, that which begins a program gets the id of the first.
    fn takes_id(&mut self, id: u32, old: u32, now: u64, sink: &mut impl Sink) {
        if id == old || id == 0 || old == 0 || self.thread(old).is_none() {
            return;
        }
        if let Some(thread) = self.thread_mut(id) {
            thread.go(State::Ended, now, Waker::Nobody, sink);
        }
        let (from, to) = (old as usize, id as usize);
        if to >= self.places.len() {
            return;
        }
        self.places[to] = std::mem::take(&mut self.places[from]);
        if let Some(thread) = self.thread_mut(id) {
            thread.id = id;
        }
        for cpu in &mut self.cpus {
            cpu.renumber(old, id);
        }
    }

    fn waker(&mut self, cpu: u32) -> Waker {
        match self.cpu(cpu).waker() {
            Waker::Thread(id) if self.thread(id).is_some_and(|thread| thread.is_kernel) => {
                Waker::KernelThread(id)
            }
            waker => waker,
        }
    }

    /// Notes who runs on a CPU, as every event tells. If it is not who was known to run, that one left
    /// without an event: some time after it was last seen.
    fn runs(&mut self, cpu: u32, now: u64, id: u32, sink: &mut impl Sink) {
        if self.cpu(cpu).task() != Some(id) {
            let is_first = !self.cpu(cpu).is_known();
            self.left_unseen(cpu, sink);
            let since = if is_first { self.since_begin(now) } else { now };
            let is_all = self.is_all();
            if let Some(place) = self.place(id, State::Runs, since) {
                let thread = &mut self.all[place];
                thread.cpu = cpu;
                // It ran all the time, as nothing was switched on this CPU.
                let is_first = is_first && thread.switches == 0 && thread.times.is_nothing();
                if is_first && thread.since == since {
                    thread.ran_since_then();
                } else {
                    thread.comes_unseen(is_all);
                    thread.go(State::Runs, now, Waker::Nobody, sink);
                }
            }
            self.cpu(cpu).is_taken(id, since, now);
        }
        self.cpu(cpu).seen(now);
    }

    /// It is not known any more who runs on a CPU, since it was last seen.
    fn left_unseen(&mut self, cpu: u32, sink: &mut impl Sink) {
        let seen = self.cpu(cpu).last_seen();
        self.passes(cpu, seen, sink);
        let gone = self.cpu(cpu).is_left();
        if let Some(thread) = gone.and_then(|id| self.thread_mut(id))
            && thread.state() == State::Runs
        {
            thread.go(State::Unknown, seen, Waker::Nobody, sink);
        }
    }

    /// Time has passed on a CPU, up to now.
    fn passes(&mut self, cpu: u32, now: u64, sink: &mut impl Sink) {
        let of_cpu = self.cpu(cpu);
        let Some(id) = of_cpu.task() else { return };
        let is_interrupted = of_cpu.depth() > 0;
        if let Some((from, is_soft)) = of_cpu.interruption().filter(|(from, _)| *from < now) {
            sink.interrupted(&Interruption { cpu, task: id, is_soft, from, to: now });
        }
        let parts = match self.thread_mut(id) {
            Some(thread) => thread.ran(is_interrupted, now, sink),
            None => [0; 2],
        };
        self.cpu(cpu).passes(now, parts);
    }

    /// No more events come: all threads have done what they do up to the last one.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let last = self.last;
        for cpu in 0..self.cpus.len() as u32 {
            self.passes(cpu, last, sink);
        }
        for thread in &mut self.all {
            thread.go(State::Ended, last, Waker::Nobody, sink);
        }
    }
}

#[cfg(test)]
mod tests;
